/* A chunk comes to be held, if need be in the place of another. */
#include <string.h>

#include "base/bug.h"
#include "satellite/node_state.h"

typedef struct sky_node_slot slot;

/* For a chunk of `key`'s block. What another tenant's block was is not said in the answer. */
static void evict_slot(sky_node *n, slot *s, const sky_key *key, sky_outcome *outcome,
                       sky_chunk_id *evicted) {
    if (s->doomed) {
        sky__node_pass_drop_on(n, s);
        return;
    }
    const sky_chunk_facts facts = s->facts;
    const sky_chunk_id id = s->id;
    if (!n->config->sealed || sky__same_tenant(&id.key, key)) {
        *outcome = SKY_STORED_EVICTED;
        *evicted = id;
    }
    n->stat.evictions++;
    sky__node_remove(n, s);
    sky__gossip_begin(n, &id, &facts);
}

/* A free slot for a chunk of `key`'s block, if need be one that is taken; NULL when its tenant has
 * its share, and all of it pinned. */
static slot *make_room(sky_node *n, const sky_key *key, sky_outcome *outcome,
                       sky_chunk_id *evicted) {
    *outcome = SKY_STORED;
    if (!n->slot_free && n->slot_fresh == n->slot_count) {
        slot *spare = sky__node_spare(n, key);
        if (!spare) {
            *outcome = SKY_NOT_STORED;
            n->stat.refused++;
            return NULL;
        }
        evict_slot(n, spare, key, outcome, evicted);
    }
    uint32_t link = n->slot_free;
    if (!link)
        return &n->slots[n->slot_fresh++];
    n->slot_free = sky__slot_at(n, link)->chain;
    return sky__slot_at(n, link);
}

/* Of a key's heads only the newest is kept: there is one at most. False: it is another. */
static bool is_newest_head(sky_node *n, const sky_message *m) {
    slot *other = sky__node_find_head(n, &m->id.key, m->id.version);
    if (!other || other->id.version > m->id.version)
        return !other;
    sky__node_remove(n, other);
    return true;
}

/* The sky turned while it was under way, or clocks differ: around a turn a satellite is given
 * chunks that by its own clock belong to the giver. Who is behind, at the end of a turn, keeps
 * them, as they will be its own soon. Who is ahead, at the beginning of one, and had them in the
 * turn before, gives them back: here nobody would ask for them. If both gave them back, they would
 * go to and fro. */
static bool to_move_on(const sky_node *n, const slot *s, const sky_chunk_facts *given,
                       sky_satellite giver) {
    const sky_node_config *c = n->config;
    sky_satellite place = sky__node_place(n, &s->facts), before;
    if (!sky_satellite_equal(place, giver) || !sky__same_move(given, &s->facts))
        return !sky_satellite_equal(place, n->self);
    return n->now - n->turn_began < n->turn_ends - n->now &&
           sky_chunk_place_before(&c->constellation, &c->turning, &s->facts, n->turns, &before) &&
           sky_satellite_equal(before, n->self);
}

/* The satellite that may say from now on that it goes, or belongs elsewhere. */
static void note_giver(slot *s, sky_satellite giver) {
    s->giver_plane = (uint16_t)giver.plane;
    s->giver_slot = (uint16_t)(giver.plane ? giver.slot : 0);
}

sky_outcome sky__node_store(sky_node *n, const sky_message *m, sky_satellite giver,
                            sky_chunk_id *evicted) {
    slot *s = sky__node_find(n, &m->id);
    sky_outcome outcome = SKY_STORED;
    if (m->id.number == 0 && !is_newest_head(n, m))
        return outcome;
    if (s && s->doomed && giver.plane)
        return outcome; /* it goes, wherever it comes from */
    if (s) {            /* repeated: the same name is the same bytes */
        s->doomed = false;
        note_giver(s, giver);
        sky__node_touch(n, s);
        s->facts.spare |= m->facts.spare;
        if (sky_facts_later(&m->facts, &s->facts)) { /* moved, and ours did not hear of it */
            sky__give_place(s, &m->facts);
            s->redirected = s->move == SKY__SENT;
        }
        if (sky__is_other_copy(s, &m->facts))
            return sky__take_other_copy(s, &m->facts) || giver.plane == 0 ? outcome
                                                                          : SKY_NOT_STORED;
        /* The giver may drop its copy on our word, so a copy of ours that is on its way out must
         * not go on an older word from elsewhere. */
        if (s->move == SKY__SENT)
            sky__node_set_out(n, s);
        bool on = s->also_plane > 0 || to_move_on(n, s, &m->facts, giver);
        if (on != (s->move == SKY__WAITING))
            sky__node_move_to(n, s, on ? SKY__WAITING : SKY__HELD);
        return outcome;
    }
    s = make_room(n, &m->id.key, &outcome, evicted);
    if (!s)
        return outcome;
    *s = (slot){
        .id = m->id, .facts = m->facts, .data_bytes = m->data_bytes, .used = true, .touched = true};
    memcpy(sky__node_data(n, s), m->data, m->data_bytes);
    sky__node_data(n, s)[0] ^= SKY_BUG("byte-flipped", 50);
    note_giver(s, giver);
    sky__node_insert(n, s);
    if (giver.plane == 0)
        sky__node_touch(n, s);
    if (to_move_on(n, s, &m->facts, giver))
        sky__node_move_to(n, s, SKY__WAITING);
    return outcome;
}
