#include "tier/leases.h"

#include <assert.h>
#include <stdlib.h>

#define ROW_BITS 16
#define NOWHERE  UINT32_MAX

static_assert(SKY_LEASES_MAX == 1u << ROW_BITS, "the row fills the low bits of an id");

typedef struct {
    uint64_t what;
    uint64_t owner;
    uint32_t generation; /* from 1: an id is never 0 */
    uint32_t next_free;
    bool out;
} lease_row;

struct sky_leases {
    uint32_t count;
    uint32_t touched; /* rows from here on were never used */
    uint32_t free;    /* of those touched; NOWHERE: none */
    lease_row rows[SKY_LEASES_MAX];
};

sky_status sky_leases_create(sky_leases **out) {
    sky_leases *l = calloc(1, sizeof *l);
    if (!l)
        return SKY_E_NOMEM;
    l->free = NOWHERE;
    *out = l;
    return SKY_OK;
}

void sky_leases_destroy(sky_leases *l) {
    free(l);
}

bool sky_leases_full(const sky_leases *l) {
    return l->count == SKY_LEASES_MAX;
}

uint32_t sky_leases_count(const sky_leases *l) {
    return l->count;
}

sky_lease sky_leases_take(sky_leases *l, uint64_t what, uint64_t owner) {
    assert(!sky_leases_full(l));
    uint32_t n = l->free;
    if (n == NOWHERE)
        n = l->touched++;
    else
        l->free = l->rows[n].next_free;
    lease_row *r = &l->rows[n];
    r->what = what;
    r->owner = owner;
    r->generation = r->generation == UINT32_MAX ? 1 : r->generation + 1;
    r->out = true;
    l->count++;
    return (sky_lease){(uint64_t)r->generation << ROW_BITS | n};
}

static uint64_t give_row(sky_leases *l, uint32_t n) {
    lease_row *r = &l->rows[n];
    r->out = false;
    r->next_free = l->free;
    l->free = n;
    l->count--;
    return r->what;
}

sky_status sky_leases_give(sky_leases *l, sky_lease lease, uint64_t owner, uint64_t *what) {
    uint32_t n = (uint32_t)(lease.id & (SKY_LEASES_MAX - 1));
    const lease_row *r = &l->rows[n];
    if (!r->out || r->generation != lease.id >> ROW_BITS)
        return SKY_E_PARAM;
    if (r->owner != owner)
        return SKY_E_DENIED;
    *what = give_row(l, n);
    return SKY_OK;
}

bool sky_leases_give_next(sky_leases *l, const uint64_t *owner, uint32_t *row, uint64_t *what) {
    for (; *row < l->touched; ++*row) {
        const lease_row *r = &l->rows[*row];
        if (!r->out || (owner && r->owner != *owner))
            continue;
        *what = give_row(l, (*row)++);
        return true;
    }
    return false;
}
