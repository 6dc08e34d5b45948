#include "host/published_table.h"

#include <assert.h>
#include <stdlib.h>

#include <skymem/keys.h>

#include "io/pages.h"
#include "io/secret.h"

sky_status sky__published_create(sky__published **out) {
    sky__published *b = calloc(1, sizeof *b);
    if (!b || sky_leases_create(&b->leases) != SKY_OK) {
        free(b);
        return SKY_E_NOMEM;
    }
    sky_random(&b->hash_key, sizeof b->hash_key);
    *out = b;
    return SKY_OK;
}

void sky__published_destroy(sky__published *b) {
    if (!b)
        return;
    assert(b->count == 0 && !b->regions);
    sky_leases_destroy(b->leases);
    free(b);
}

sky__block **sky__block_bucket(sky__published *b, const sky_key *key) {
    return &b->buckets[sky_siphash(&b->hash_key, key->bytes, sizeof key->bytes) %
                       SKY__PUBLISHED_BUCKETS];
}

sky__block *sky__block_find(sky__published *b, const sky_key *key, uint64_t owner) {
    sky__block *withdrawn = NULL;
    if (b->count == 0)
        return NULL;
    for (sky__block *k = *sky__block_bucket(b, key); k; k = k->next) {
        if (!sky_key_equal(&k->key, key) || (owner != 0 && k->region->owner != owner))
            continue;
        if (!k->withdrawn)
            return k;
        if (owner != 0)
            withdrawn = k;
    }
    return withdrawn;
}

sky__region *sky__region_find(const sky__published *b, uint32_t number, uint64_t owner) {
    sky__region *r = b->regions;
    while (r && (r->number != number || r->owner != owner))
        r = r->next;
    return r;
}

void sky__region_leave(sky__region *r) {
    if (--r->users > 0)
        return;
    sky_pages_release(r->at, r->bytes);
    free(r);
}

void sky__block_drop(sky__tenant *t, sky__block *k) {
    sky__published *b = t->blocks;
    sky__block **at = sky__block_bucket(b, &k->key);
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    *(k->before ? &k->before->after : &k->region->blocks) = k->after;
    if (k->after)
        k->after->before = k->before;
    b->count--;
    b->buffers -= k->buffers;
    sky__region_leave(k->region);
    free(k);
}
