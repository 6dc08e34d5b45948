#include "lab/sim/check_nodes.h"

#include <stdlib.h>

#include "satellite/node_state.h"

typedef struct {
    sky_satellite to;
    uint64_t request;
    sky_chunk_id id;
    sky_wire_type type;
    bool refused;
} debt;

/* MIGRATEs of one chunk in a second: of many losses and clocks that differ, with room. */
#define SENT_PER_CHUNK 64

/* First in, first out. */
struct sky__owed {
    debt *debts; /* [max] */
    uint32_t max, first, count;
    sky_time second;
    uint64_t migrated, sent; /* given away before it; MIGRATEs in it */
};

sky_status sky_check_nodes_init(sky_check_nodes *c, uint32_t satellites) {
    sky__owed *owed = calloc(satellites, sizeof *owed);
    if (!owed)
        return SKY_E_NOMEM;
    *c = (sky_check_nodes){.satellites = satellites,
                           .owed = owed,
                           .stores = true,
                           .answers = true,
                           .sound = true,
                           .drops = true,
                           .moves = true,
                           .calm = true};
    return SKY_OK;
}

void sky_check_nodes_deinit(sky_check_nodes *c) {
    for (uint32_t i = 0; c->owed && i < c->satellites; i++)
        free(c->owed[i].debts);
    free(c->owed);
    c->owed = NULL;
}

void sky_check_nodes_crashed(sky_check_nodes *c, uint32_t number) {
    c->owed[number].first = c->owed[number].count = 0;
}

/* Without memory for it nothing more is known of this satellite: its answers are not judged. */
static bool check_nodes_owe(sky__owed *o, const debt *d) {
    if (o->count == o->max) {
        uint32_t more = o->max ? 2 * o->max : 64;
        debt *debts = calloc(more, sizeof *debts);
        if (!debts)
            return false;
        for (uint32_t i = 0; i < o->count; i++)
            debts[i] = o->debts[(o->first + i) % o->max];
        free(o->debts);
        o->debts = debts;
        o->max = more;
        o->first = 0;
    }
    o->debts[(o->first + o->count++) % o->max] = *d;
    return true;
}

static bool is_ground(sky_satellite s) {
    return s.plane == 0;
}

static bool is_request(const sky_message *m, sky_satellite from) {
    return is_ground(from) && (m->type == SKY_WIRE_SET || m->type == SKY_WIRE_SET_IF ||
                               m->type == SKY_WIRE_GET || m->type == SKY_WIRE_HAS);
}

/* ---- heard ---- */

static bool check_nodes_holds(const sky_node *n, const sky_chunk_id *id) {
    sky_node_chunk chunk;
    return sky_node_find(n, id, &chunk);
}

/* What a ground sets again without waiting for an answer: a satellite that knows of its removal
 * neither stores nor answers it. */
static bool may_go_unanswered(const sky_message *m) {
    return m->type == SKY_WIRE_SET && m->request == 0;
}

static void judge_request(sky_check_nodes *c, uint32_t number, const sky_node *n,
                          const sky_datagram *d, const sky_message *m) {
    const sky_node_stat *was = &c->before.stat, *is = &n->stat;
    bool malformed = is->malformed > was->malformed, corrupt = is->corrupt > was->corrupt;
    bool right = !m->data ||
                 sky_chunk_checksum(&m->id, m->data, m->data_bytes) == m->facts.checksum;
    if (is->overflow > was->overflow) {
        c->answers &= c->before.jobs == n->config->queue_max;
        return;
    }
    if (malformed || corrupt) {
        c->stores &= malformed || !right;
        return;
    }
    if (may_go_unanswered(m) && n->job_count == c->before.jobs)
        return;
    bool refused = is->refused > was->refused;
    debt owed = {
        .to = d->from, .request = m->request, .id = m->id, .type = m->type, .refused = refused};
    bool noted = check_nodes_owe(&c->owed[number], &owed);
    c->answers &= !noted || c->owed[number].count == n->job_count;
    if (m->type == SKY_WIRE_SET && m->id.number > 0)
        c->stores &= refused || check_nodes_holds(n, &m->id);
}

/* One whose block is known to be lost need not be held, and a head has one that is newer. Where
 * DROPs that are passed on take all room for answers it is sent again. */
static void judge_migrate(sky_check_nodes *c, const sky_node *n, const sky_message *m) {
    const sky_node_stat *was = &c->before.stat, *is = &n->stat;
    if (is->malformed > was->malformed || is->corrupt > was->corrupt ||
        n->ack_count == SKY_NODE_ACKS_MAX)
        return;
    if (n->ack_count == 0 || n->acks[n->ack_count - 1].type != SKY_WIRE_MIGRATE_ACK) {
        c->answers = false;
        return;
    }
    bool stored = n->acks[n->ack_count - 1].value != SKY_NOT_STORED;
    c->stores &= !stored || is->purged > was->purged || m->id.number == 0 ||
                 check_nodes_holds(n, &m->id);
}

static void judge_drop(sky_check_nodes *c, const sky_node *n, const sky_message *m) {
    if (n->stat.malformed > c->before.stat.malformed)
        return;
    sky_chunk_id id = m->id;
    for (uint64_t number = m->id.number; number <= m->last; number += m->stride) {
        id.number = (uint32_t)number;
        const struct sky_node_slot *s = sky__node_find(n, &id);
        c->drops &= !s || s->doomed;
    }
}

static void check_nodes_hear(sky_check_nodes *c, uint32_t number, const sky_node *n,
                             const sky_datagram *d) {
    sky_message m;
    if (sky_message_decode(d->data, d->bytes, &m) != SKY_OK)
        return;
    if (is_request(&m, d->from))
        judge_request(c, number, n, d, &m);
    else if (m.type == SKY_WIRE_MIGRATE)
        judge_migrate(c, n, &m);
    else if (m.type == SKY_WIRE_DROP && is_ground(d->from))
        judge_drop(c, n, &m);
}

/* ---- said ---- */

static bool check_nodes_answers(const debt *owed, const sky_message *m) {
    switch (owed->type) {
    case SKY_WIRE_SET:
        return m->type == SKY_WIRE_SET_ACK && (m->outcome == SKY_NOT_STORED) == owed->refused;
    case SKY_WIRE_SET_IF:
        return m->type == SKY_WIRE_SET_ACK;
    case SKY_WIRE_GET:
        return m->type == SKY_WIRE_CHUNK || m->type == SKY_WIRE_MISS;
    default:
        return m->type == SKY_WIRE_HAS_REPLY;
    }
}

static bool is_about(const debt *owed, const sky_message *m) {
    bool any = owed->id.number == 0 && owed->id.version == SKY_VERSION_ANY;
    return m->request == owed->request && m->id.number == owed->id.number &&
           memcmp(&m->id.key, &owed->id.key, sizeof m->id.key) == 0 &&
           (any || m->id.version == owed->id.version);
}

/* A chunk may be sent again, and pass through, but not without end. */
static void judge_sent(sky_check_nodes *c, sky__owed *o, const sky_node *n) {
    bool new = n->stat.migrated < o->migrated; /* it was gone, and counts from 0 again */
    if (new || o->second != n->now / SKY_SECONDS(1)) {
        o->second = n->now / SKY_SECONDS(1);
        o->migrated = n->stat.migrated;
        o->sent = 0;
    }
    uint64_t chunks = n->chunk_count + (n->stat.migrated - o->migrated) + 1;
    c->calm &= ++o->sent <= SENT_PER_CHUNK * chunks;
}

static void check_nodes_say(sky_check_nodes *c, uint32_t number, const sky_node *n,
                            const sky_datagram *d) {
    sky_message m;
    sky__owed *o = &c->owed[number];
    if (sky_message_decode(d->data, d->bytes, &m) != SKY_OK) {
        c->answers = false;
        return;
    }
    if (m.type == SKY_WIRE_CHUNK)
        c->sound &= sky_chunk_checksum(&m.id, m.data, m.data_bytes) == m.facts.checksum;
    if (m.type == SKY_WIRE_MIGRATE)
        judge_sent(c, o, n);
    bool answer = m.type == SKY_WIRE_SET_ACK || m.type == SKY_WIRE_CHUNK ||
                  m.type == SKY_WIRE_MISS || (m.type == SKY_WIRE_HAS_REPLY && is_ground(d->to));
    if (!answer)
        return;
    const debt *owed = o->count > 0 ? &o->debts[o->first] : NULL;
    c->answers &= owed && sky_satellite_equal(owed->to, d->to) && is_about(owed, &m) &&
                  check_nodes_answers(owed, &m);
    if (owed) {
        o->first = (o->first + 1) % o->max;
        o->count--;
    }
    c->answers &= o->count == n->job_count;
}

void sky_check_nodes_tap(void *context, sky_world_tap_kind kind, const sky_node *node,
                         const sky_datagram *d) {
    sky_check_nodes *c = context;
    uint32_t slots = node->config->constellation.slots;
    uint32_t number = (node->self.plane - 1) * slots + node->self.slot - 1;
    if (kind == SKY_TAP_HEARS) {
        c->before.stat = node->stat;
        c->before.jobs = node->job_count;
    } else if (kind == SKY_TAP_HEARD) {
        check_nodes_hear(c, number, node, d);
    } else {
        check_nodes_say(c, number, node, d);
    }
}

/* ---- places ---- */

/* What a satellite's clock ahead gave away too soon stays with who took it until the next turn. */
static bool in_its_place(const sky_node *n, const struct sky_node_slot *s) {
    sky_satellite place = sky__node_place(n, &s->facts), giver = {s->giver_plane, s->giver_slot};
    return sky_satellite_equal(place, n->self) || sky_satellite_equal(place, giver) ||
           s->move == SKY__WAITING || s->move == SKY__SENT;
}

void sky_check_nodes_places(sky_check_nodes *c, const sky_world *w) {
    for (uint32_t i = 0; i < sky_world_alive(w); i++) {
        const sky_node *n = sky_world_alive_node(w, i);
        for (uint32_t k = 0; k < n->slot_fresh; k++)
            c->moves &= !n->slots[k].used || in_its_place(n, &n->slots[k]);
    }
}
