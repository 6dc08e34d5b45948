#include "lab/sim/check_copies.h"

#include <assert.h>
#include <stdlib.h>

sky_status sky_check_copies_init(sky_check_copies *c, uint32_t keys, uint32_t chunks,
                                 sky_time repair_ns) {
    *c = (sky_check_copies){.chunks = chunks, .repair_ns = repair_ns};
    c->lost = calloc(keys, sizeof *c->lost);
    c->thin_at = calloc((size_t)keys * chunks, sizeof *c->thin_at);
    c->moved_at = calloc(keys, sizeof *c->moved_at);
    return c->lost && c->thin_at && c->moved_at ? SKY_OK : SKY_E_NOMEM;
}

void sky_check_copies_deinit(sky_check_copies *c) {
    free(c->lost);
    free(c->thin_at);
    free(c->moved_at);
    c->lost = NULL;
    c->thin_at = c->moved_at = NULL;
}

void sky_check_copies_quiet(sky_check_copies *c, sky_time now) {
    c->quiet_at = now;
}

void sky_check_copies_moved(sky_check_copies *c, uint32_t key, sky_time now) {
    c->moved_at[key] = now;
}

void sky_check_copies_taken(sky_check_copies *c, const sky_check_copy *copy, sky_time now) {
    assert(copy->number >= 1 && copy->number <= c->chunks);
    sky_time *thin_at = &c->thin_at[(size_t)copy->key * c->chunks + copy->number - 1];
    const sky_time since = c->quiet_at - c->repair_ns, moved_at = c->moved_at[copy->key];
    bool fresh = copy->set_at >= since || (moved_at > 0 && moved_at >= since);
    if (!copy->last)
        *thin_at = now;
    else if (fresh || *thin_at >= c->quiet_at)
        c->lost[copy->key] = copy->version;
}

bool sky_check_copies_explained(const sky_check_copies *c, uint32_t key, uint64_t version) {
    return c->lost[key] == version;
}
