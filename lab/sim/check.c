#include "lab/sim/check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

sky_status sky_check_init(sky_check *c, uint64_t seed, uint32_t key_count, uint64_t value_bytes) {
    sky_check_key *keys = calloc(key_count, sizeof *keys);
    if (!keys)
        return SKY_E_NOMEM;
    *c = (sky_check){
        .seed = seed, .value_bytes = value_bytes, .key_count = key_count, .keys = keys};
    return SKY_OK;
}

void sky_check_deinit(sky_check *c) {
    free(c->keys);
    c->keys = NULL;
}

static sky_value version_of(const sky_check *c, uint32_t key, uint32_t version) {
    return (sky_value){.seed = c->seed, .key = key, .version = version};
}

sky_value sky_check_set_begins(sky_check *c, uint32_t key) {
    assert(key < c->key_count);
    return version_of(c, key, ++c->keys[key].latest);
}

void sky_check_set_ends(sky_check *c, const sky_value *value, sky_status status) {
    sky_check_key *k = &c->keys[value->key];
    if (status != SKY_OK)
        return;
    c->sets++;
    if (value->version > k->acknowledged)
        k->acknowledged = value->version;
    k->waived = false;
}

void sky_check_waive(sky_check *c, uint32_t key) {
    c->keys[key].waived = true;
}

void sky_check_crashed(sky_check *c, uint32_t key) {
    sky_check_waive(c, key);
    c->keys[key].crashes++;
}

void sky_check_taken(sky_check *c, uint32_t key, bool by_rule) {
    sky_check_key *k = &c->keys[key];
    if (k->acknowledged && !by_rule && !k->waived)
        c->lost_acknowledged++;
    k->acknowledged = 0; /* a loss is told once */
}

void sky_check_get_begins(const sky_check *c, uint32_t key, uint8_t *buffer, sky_check_get *get) {
    assert(key < c->key_count);
    uint32_t acknowledged = c->several_grounds ? 0 : c->keys[key].acknowledged;
    memset(buffer, 0, c->value_bytes); /* what an earlier get left must not pass for this one's */
    *get = (sky_check_get){.key = key,
                           .floor = acknowledged ? acknowledged : 1,
                           .owed = c->keys[key].acknowledged != 0,
                           .waived = c->keys[key].waived,
                           .crashes = c->keys[key].crashes,
                           .bytes = buffer};
}

void sky_check_get_bytes(const sky_check *c, sky_check_get *get, uint64_t offset, const void *data,
                         size_t bytes) {
    if (offset > c->value_bytes || bytes > c->value_bytes - offset)
        get->overrun = true;
    else
        memcpy(get->bytes + offset, data, bytes);
}

/* Where what was acknowledged went meanwhile, an older one may have come to light that it hid, as
 * it may for a get that begins after that. */
static uint32_t version_shown(const sky_check *c, const sky_check_get *get) {
    const sky_check_key *k = &c->keys[get->key];
    uint32_t first = k->acknowledged ? get->floor : 1;
    for (uint32_t v = k->latest; v >= first; v--) { /* short ones may be alike: the newest */
        sky_value value = version_of(c, get->key, v);
        if (sky_value_equal(&value, 0, get->bytes, c->value_bytes))
            return v;
    }
    return 0;
}

/* What was acknowledged when it began had gone, or went by a crash, and only then another was
 * acknowledged: the get may be of the time between. */
static bool is_between(const sky_check *c, const sky_check_get *get) {
    const sky_check_key *k = &c->keys[get->key];
    bool went = get->waived || k->crashes != get->crashes;
    return went && !k->waived;
}

void sky_check_get_ends(sky_check *c, sky_check_get *get, sky_status status, uint64_t bytes,
                        bool there) {
    c->gets++;
    if (status == SKY_OK) {
        c->hits++;
        get->shown = get->overrun || bytes != c->value_bytes ? 0 : version_shown(c, get);
        c->wrong_bytes += get->shown == 0;
    } else if (status == SKY_MISS || status == SKY_E_CORRUPT) {
        c->misses++;
        if (get->owed && !there && !is_between(c, get))
            sky_check_taken(c, get->key, false);
    } else {
        c->unanswered++;
    }
}
