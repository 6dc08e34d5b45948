/* A chunk that is held: where it belongs, which satellite hears that it goes, messages of it. */
#include <assert.h>

#include "satellite/node_state.h"

typedef struct sky_node_slot slot;

/* A DROP or MOVE of one chunk for the satellite that was sent it last. With no room to say it, its
 * LRU finds the chunk. */
static void tell_taker(sky_node *n, const slot *s, sky_wire_type type) {
    if (s->sent_plane == 0 || n->ack_count == SKY_NODE_ACKS_MAX)
        return;
    uint32_t i = n->ack_count++;
    n->acks[i].to = sky__sent_to(s);
    n->acks[i].request = s->request;
    n->acks[i].id = s->id;
    n->acks[i].type = type;
}

void sky__node_pass_drop_on(sky_node *n, slot *s) {
    tell_taker(n, s, SKY_WIRE_DROP);
    sky__node_remove(n, s);
}

void sky__node_drop(sky_node *n, slot *s) {
    if (s->move != SKY__SENT) {
        sky__node_pass_drop_on(n, s);
        return;
    }
    s->doomed = true;
    sky__node_first_to_go(n, s);
}

sky_satellite sky__node_place(const sky_node *n, const sky_chunk_facts *facts) {
    return sky_chunk_place(&n->config->constellation, &n->config->turning, facts, n->turns);
}

bool sky__node_belongs(const sky_node *n, const slot *s) {
    return sky_satellite_equal(sky__node_place(n, &s->facts), n->self);
}

void sky__node_set_out(sky_node *n, slot *s) {
    if (s->redirected)
        tell_taker(n, s, SKY_WIRE_MOVE);
    s->redirected = false;
    sky__node_move_to(n, s, sky__node_belongs(n, s) ? SKY__HELD : SKY__WAITING);
}

bool sky__is_other_copy(const slot *s, const sky_chunk_facts *facts) {
    bool leaves = s->move == SKY__WAITING || s->move == SKY__SENT;
    return leaves && sky__same_move(&s->facts, facts) &&
           !sky_satellite_equal(s->facts.first, facts->first);
}

bool sky__take_other_copy(slot *s, const sky_chunk_facts *facts) {
    const sky_satellite also = {s->also_plane, s->also_slot};
    if (s->also_plane > 0 && !sky_satellite_equal(also, facts->first))
        return false;
    s->also_plane = (uint16_t)facts->first.plane;
    s->also_slot = (uint16_t)facts->first.slot;
    return true;
}

void sky__node_leave(sky_node *n, slot *s) {
    if (s->also_plane == 0) {
        sky__node_remove(n, s);
        return;
    }
    s->facts.first = (sky_satellite){s->also_plane, s->also_slot};
    s->also_plane = 0;
    s->tries = 0;
    sky__node_set_out(n, s);
}

void sky__give_place(slot *s, const sky_chunk_facts *facts) {
    s->tries = 0;
    s->also_plane = 0; /* that copy's place was of the move before */
    s->facts.set_ms = facts->set_ms;
    s->facts.centre = facts->centre;
    s->facts.first = facts->first;
    s->facts.next = facts->next;
    s->facts.window_planes = facts->window_planes;
    s->facts.window_slots = facts->window_slots;
    s->facts.strategy = facts->strategy;
    s->facts.moves = facts->moves;
}

void sky__node_send(const sky_node *n, const sky_message *m, sky_satellite to, sky_datagram *out) {
    out->from = n->self;
    out->to = to;
    out->bytes = sky_message_encode(m, out->data, out->bytes_max);
    assert(out->bytes > 0);
}
