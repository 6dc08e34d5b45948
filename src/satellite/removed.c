/* What a ground removed, remembered for a while: a satellite that did not hear of it (it was cut
 * off, or stood still) has copies, and would have them made again everywhere.
 *
 *   ground ── DROP ──► A: forgets the chunk, and remembers its name
 *   B (heard nothing) ── MIGRATE, a copy ──► A ── MIGRATE-ACK: removed ──► B forgets it too, and
 *                                                                        remembers it
 *
 * An entry holds no chunk's name but a keyed hash of it, so that nobody outside can aim at
 * another's place. A key that was removed with all its values has one entry, which says up to which
 * version its heads are not wanted; all else is remembered by its very version. A put makes its key
 * wanted again.
 *
 * Invariants: an entry counts for SKY_NODE_REMOVED_NS, unless others take its place. What is
 * forgotten too early costs what it did without: a copy that comes back. A giver forgets only what
 * has the very version that was removed, and nothing that is pinned. */
#include "base/bytes.h"
#include "satellite/node_state.h"

#define WAYS 2

typedef enum { OF_BLOCK, OF_HEAD, OF_KEY } kind;

static kind kind_of(const sky_chunk_id *id) {
    return id->number > 0 ? OF_BLOCK : OF_HEAD;
}

static uint64_t name_of(const sky_node *n, const sky_chunk_id *id, kind of) {
    uint8_t name[SKY_KEY_BYTES + 9];
    memcpy(name, id->key.bytes, SKY_KEY_BYTES);
    sky_store_u64(name + SKY_KEY_BYTES, of == OF_KEY ? 0 : id->version);
    name[SKY_KEY_BYTES + 8] = (uint8_t)of;
    return sky_siphash(&n->config->hash_key, name, sizeof name);
}

/* The places that a name may have. */
static sky_node_removed *places_of(sky_node *n, uint64_t name) {
    return &n->removed[name % (SKY_NODE_REMOVED_MAX / WAYS) * WAYS];
}

static sky_node_removed *removed_find(sky_node *n, uint64_t name) {
    sky_node_removed *at = places_of(n, name);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (at[i].until > n->now && at[i].name == name)
            return &at[i];
    }
    return NULL;
}

void sky__removed_note(sky_node *n, const sky_chunk_id *id, bool older) {
    uint64_t name = name_of(n, id, older ? OF_KEY : kind_of(id));
    sky_node_removed *at = places_of(n, name), *to = removed_find(n, name);
    if (to && to->version > id->version)
        return;
    if (!to)
        to = at[0].until <= at[1].until ? &at[0] : &at[1];
    *to = (sky_node_removed){name, id->version, n->now + SKY_NODE_REMOVED_NS};
    n->removed_until = to->until;
}

void sky__removed_forget(sky_node *n, const sky_key *key) {
    const sky_chunk_id id = {.key = *key};
    sky_node_removed *r = n->removed_until > n->now ? removed_find(n, name_of(n, &id, OF_KEY))
                                                    : NULL;
    if (r)
        r->until = 0;
}

sky__removal sky__removed_known(sky_node *n, const sky_chunk_id *id) {
    if (n->removed_until <= n->now)
        return SKY__WANTED;
    if (removed_find(n, name_of(n, id, kind_of(id))))
        return SKY__REMOVED;
    const sky_node_removed *r = id->number > 0 ? NULL : removed_find(n, name_of(n, id, OF_KEY));
    if (!r || id->version > r->version)
        return SKY__WANTED;
    return id->version < r->version ? SKY__OUTDATED : SKY__REMOVED;
}
