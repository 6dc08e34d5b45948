#include "lab/sim/check_fresh.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"

#define NOTHING_KNOWN (-1)

typedef struct {
    sky_time began;
    sky_time ended; /* SKY_TIME_NEVER: under way */
} put;

struct sky__fresh_key {
    put *puts; /* [count] versions, from 1 */
    uint32_t count, max;
    sky_time known;     /* the latest begin of a put that is known; NOTHING_KNOWN */
    sky_time forgotten; /* when a fault took some of it last; floors of before do not count */
    bool lost;          /* there was no memory for it */
};

sky_status sky_check_fresh_init(sky_check_fresh *c, uint32_t key_count) {
    *c = (sky_check_fresh){.key_count = key_count};
    c->keys = calloc(key_count, sizeof *c->keys);
    if (!c->keys)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < key_count; i++)
        c->keys[i].known = c->keys[i].forgotten = NOTHING_KNOWN;
    return SKY_OK;
}

void sky_check_fresh_deinit(sky_check_fresh *c) {
    for (uint32_t i = 0; c->keys && i < c->key_count; i++)
        free(c->keys[i].puts);
    free(c->keys);
    c->keys = NULL;
}

sky_status sky_check_fresh_put_begins(sky_check_fresh *c, uint32_t key, uint32_t version,
                                      sky_time now) {
    sky__fresh_key *k = &c->keys[key];
    if (k->lost)
        return SKY_E_NOMEM;
    assert(version == k->count + 1);
    if (k->count == k->max) {
        uint32_t max = k->max ? 2 * k->max : 8;
        put *more = realloc(k->puts, max * sizeof *more);
        k->lost = !more;
        if (!more)
            return SKY_E_NOMEM;
        k->puts = more;
        k->max = max;
    }
    k->puts[k->count++] = (put){now, SKY_TIME_NEVER};
    return SKY_OK;
}

static void check_fresh_learn(sky__fresh_key *k, const put *p) {
    k->known = sky__later(k->known, p->began);
}

void sky_check_fresh_put_ends(sky_check_fresh *c, uint32_t key, uint32_t version, sky_time now,
                              bool acknowledged) {
    sky__fresh_key *k = &c->keys[key];
    if (k->lost)
        return;
    put *p = &k->puts[version - 1];
    p->ended = now;
    if (acknowledged && p->began >= k->forgotten)
        check_fresh_learn(k, p);
}

sky_time sky_check_fresh_floor(const sky_check_fresh *c, uint32_t key) {
    return c->keys[key].known;
}

bool sky_check_fresh_shown(sky_check_fresh *c, uint32_t key, uint32_t version, sky_time floor) {
    sky__fresh_key *k = &c->keys[key];
    if (k->lost || floor < k->forgotten)
        floor = NOTHING_KNOWN;
    if (k->lost)
        return true;
    const put *p = &k->puts[version - 1];
    bool fresh = p->ended >= floor;
    c->judged++;
    c->older += !fresh;
    if (fresh && p->began >= k->forgotten)
        check_fresh_learn(k, p);
    return fresh;
}

void sky_check_fresh_forget(sky_check_fresh *c, uint32_t key, sky_time now) {
    c->keys[key].known = NOTHING_KNOWN;
    c->keys[key].forgotten = now;
}
