/* The satellite: memory, time, queue, migration. See node.h for the picture. */
#include <assert.h>
#include <string.h>

#include "base/bug.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "satellite/node_state.h"

#define NONE    SKY__NO_LINK
#define USE     SKY__USE
#define MOVE    SKY__MOVE
#define HELD    SKY__HELD
#define WAITING SKY__WAITING
#define SENT    SKY__SENT

#define MIGRATE_DOUBLINGS 6  /* of the wait for one place */
#define SLOTS_KEPT        64 /* one in so many is not lent to the ground */

typedef sky__move_state move_state;
typedef struct sky_node_slot slot;
typedef struct sky_gossip_message gossip_message;

/* An answer to come. The chunk is looked up again when it is sent, as a server reads what it holds
 * at that moment. */
struct sky_node_job {
    sky_time arrived;
    sky_time ready;
    sky_satellite to;
    uint64_t request;
    sky_chunk_id id;
    sky_wire_type type;    /* of the request */
    uint32_t stride, last; /* of a HAS */
    sky_outcome outcome;
    sky_chunk_id evicted;
};
typedef struct sky_node_job job;

/* ---- memory ---- */

#define SLOT_BYTES_EXTRA (sizeof(slot) + 4 * sizeof(uint32_t)) /* and up to two buckets twice */

static uint32_t bucket_count(uint32_t slots) {
    uint32_t n = 16;
    while (n < slots && n < 1u << 30)
        n *= 2;
    return n;
}

uint32_t sky_node_slots(const sky_node_config *c) {
    uint64_t slots = c->memory_bytes / (sky__data_stride(c) + SLOT_BYTES_EXTRA);
    return slots < 1u << 30 ? (uint32_t)slots : 1u << 30;
}

uint32_t sky_node_slots_lent(const sky_node_config *c) {
    uint32_t slots = sky_node_slots(c);
    return slots - slots / SLOTS_KEPT;
}

static size_t aligned_bytes(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

size_t sky_node_bytes(const sky_node_config *c) {
    uint32_t slots = sky_node_slots(c);
    return 64 + 2 * aligned_bytes(bucket_count(slots) * sizeof(uint32_t)) +
           aligned_bytes(slots * sizeof(slot)) + aligned_bytes(c->queue_max * sizeof(job)) +
           aligned_bytes(SKY_NODE_GOSSIP_MAX * sizeof(gossip_message)) +
           slots * sky__data_stride(c);
}

void sky_node_init_again(sky_node *n, const sky_node_config *config, sky_satellite self,
                         sky_time now, void *memory, size_t bytes) {
    assert(bytes >= sky_node_bytes(config) && config->chunk_bytes_max <= SKY_WIRE_DATA_BYTES_MAX);
    memset(n, 0, sizeof *n);
    n->config = config;
    n->self = self;
    n->slot_count = sky_node_slots(config);
    uint32_t buckets = bucket_count(n->slot_count);
    uint8_t *at = (uint8_t *)aligned_bytes((uintptr_t)memory);
    n->buckets = (uint32_t *)(void *)at;
    at += aligned_bytes(buckets * sizeof(uint32_t));
    n->blocks = (uint32_t *)(void *)at;
    at += aligned_bytes(buckets * sizeof(uint32_t));
    n->slots = (slot *)(void *)at;
    at += aligned_bytes(n->slot_count * sizeof(slot));
    n->jobs = (job *)(void *)at;
    at += aligned_bytes(config->queue_max * sizeof(job));
    n->gossip_ring = (gossip_message *)(void *)at;
    at += aligned_bytes(SKY_NODE_GOSSIP_MAX * sizeof(gossip_message));
    n->bytes = at;
    n->bucket_mask = buckets - 1;
    n->turns = sky_turns(&config->turning, now);
    n->turn_began = sky_turn_begins(&config->turning, n->turns);
    n->turn_ends = sky_turn_begins(&config->turning, n->turns + 1);
    n->migrate_request = (uint64_t)now; /* never an id of an earlier life */
    n->sweep_next = now + config->sweep_period_ns;
    n->gossip_credit = n->mend_credit = now - SKY_SECONDS(3600);
    n->born = n->now = now;
    sky__copies_turn(n);
}

void sky_node_init(sky_node *n, const sky_node_config *config, sky_satellite self, sky_time now,
                   void *memory, size_t bytes) {
    sky_node_init_again(n, config, self, now, memory, bytes);
    memset(n->buckets, 0, (n->bucket_mask + 1) * sizeof *n->buckets);
    memset(n->blocks, 0, (n->bucket_mask + 1) * sizeof *n->blocks);
}

/* ---- the sky turns ---- */

/* Oldest first, so that the order of use survives the move. */
static void collect_movers(sky_node *n, const sky_node_list *l) {
    for (uint32_t link = l->last; link; link = sky__slot_at(n, link)->links[USE].before) {
        slot *s = sky__slot_at(n, link);
        s->tries = s->doubts = 0;
        if (SKY_BUG("turn-slept-through", 5))
            continue;
        if (s->move == SKY__DOUBTED)
            sky__node_move_to(n, s, HELD); /* its copies too are elsewhere by now */
        if (s->move == HELD && !sky__node_belongs(n, s))
            sky__node_move_to(n, s, WAITING);
        else if (s->move == WAITING && sky__node_belongs(n, s))
            sky__node_move_to(n, s, HELD);
        else if (s->move == SENT && !s->doomed &&
                 !sky_satellite_equal(sky__sent_to(s), sky__node_place(n, &s->facts)))
            sky__node_set_out(n,
                              s); /* who was to take it may be dead, and it is looked for ahead */
    }
}

static void advance_clock(sky_node *n, sky_time now) {
    n->now = now;
    if (now >= n->turn_ends) {
        n->turns = sky_turns(&n->config->turning, now);
        n->turn_began = sky_turn_begins(&n->config->turning, n->turns);
        n->turn_ends = sky_turn_begins(&n->config->turning, n->turns + 1);
        for (uint32_t i = 0; i < n->tenant_count; i++) {
            collect_movers(n, &n->tenants[i].lru);
            collect_movers(n, &n->tenants[i].pinned);
        }
        sky__copies_turn(n);
    }
    sky__node_let_lapse(n);
    /* Nearly all wait equally long, so the first sent is the first to be late. */
    while (n->sent.first && sky__slot_at(n, n->sent.first)->deadline <= now) {
        slot *s = sky__slot_at(n, n->sent.first);
        if (s->doomed) {
            sky__node_pass_drop_on(n, s);
            continue;
        }
        n->stat.migrate_retries++;
        sky__node_set_out(n, s);
    }
}

/* ---- input ---- */

static void enqueue_answer(sky_node *n, sky_time now, const sky_datagram *in, const sky_message *m,
                           sky_outcome outcome, const sky_chunk_id *evicted) {
    if (n->job_count == 0)
        n->job_first = 0; /* start over, so that a short queue touches little memory */
    job *j = &n->jobs[(n->job_first + n->job_count++) % n->config->queue_max];
    sky_time begins = n->busy_until > now ? n->busy_until : now;
    n->busy_until = begins + n->config->processing_ns;
    *j = (job){.arrived = now,
               .ready = n->busy_until,
               .to = in->from,
               .request = m->request,
               .id = m->id,
               .type = m->type,
               .stride = m->stride,
               .last = m->last,
               .outcome = outcome,
               .evicted = *evicted};
}

static bool facts_fit(const sky_node *n, const sky_chunk_facts *facts) {
    sky_chunk_facts next = *facts;
    next.first = facts->next;
    return sky_facts_fit(&n->config->constellation, facts) &&
           sky_facts_fit(&n->config->constellation, &next);
}

/* A head from a time to come would keep its key from all that is put until then. */
static bool is_from_afar(const sky_node *n, const sky_chunk_id *id) {
    if (id->number > 0)
        return false;
    int64_t now_ms = sky_turning_ms(&n->config->turning, n->now);
    return id->version >> 16 > (uint64_t)now_ms + SKY_HEAD_AHEAD_MS;
}

/* A chunk that may be stored: it fits, names satellites of this sky, and its bytes are right. */
static bool chunk_acceptable(sky_node *n, const sky_message *m) {
    if (m->data_bytes > n->config->chunk_bytes_max || !facts_fit(n, &m->facts) ||
        is_from_afar(n, &m->id)) {
        n->stat.malformed++;
        return false;
    }
    if (!n->config->sealed &&
        sky_chunk_checksum(&m->id, m->data, m->data_bytes) != m->facts.checksum) {
        n->stat.corrupt++;
        return false;
    }
    return true;
}

/* What a ground read elsewhere, and sets here again without waiting for an answer, may have been
 * removed meanwhile. What is put is wanted, whatever was removed before. */
static bool may_be_set(sky_node *n, const sky_message *m) {
    if (m->request == 0)
        return sky__removed_known(n, &m->id) == SKY__WANTED;
    if (m->id.number == 0)
        sky__removed_forget(n, &m->id.key);
    return true;
}

static void take_request(sky_node *n, sky_time now, const sky_datagram *in, const sky_message *m) {
    sky_outcome outcome = SKY_STORED;
    sky_chunk_id evicted = {0};
    if (n->job_count == n->config->queue_max) {
        n->stat.overflow++;
        return;
    }
    if (m->type == SKY_WIRE_SET_IF) {
        if (!chunk_acceptable(n, m))
            return;
        outcome = sky__decide(n, m, in->from, &evicted);
        n->stat.sets++;
    }
    if (m->type == SKY_WIRE_SET) {
        if (!chunk_acceptable(n, m) || !may_be_set(n, m))
            return;
        if (!SKY_BUG("set-not-stored", 20))
            outcome = sky__node_store(n, m, in->from, &evicted);
        n->stat.sets++;
        if (SKY_BUG("ack-forgotten", 20))
            return;
    }
    enqueue_answer(n, now, in, m, outcome, &evicted);
}

/* Answer as soon as output is asked for. With no room the asker hears nothing and asks again. */
static void answer_at_once(sky_node *n, const sky_datagram *in, const sky_message *m,
                           sky_wire_type type, uint64_t value) {
    if (n->ack_count == SKY_NODE_ACKS_MAX) {
        n->stat.overflow++;
        return;
    }
    uint32_t i = n->ack_count++;
    n->acks[i].to = in->from;
    n->acks[i].request = m->request;
    n->acks[i].id = m->id;
    n->acks[i].type = type;
    n->acks[i].value = value;
}

/* Its block is no more, or it is a head with a newer one here. */
static bool of_no_use(const sky_node *n, const sky_message *m) {
    if (m->id.number == 0) {
        const slot *newer = sky__node_find_head(n, &m->id.key, m->id.version);
        return newer && newer->id.version > m->id.version;
    }
    return !m->facts.spare && !m->facts.pinned && sky__gossip_known(n, &m->id);
}

/* Where a head lies follows from nothing but the time: a giver that says otherwise lies, and would
 * take the head along to where nobody asks for it. */
static bool is_placed_as_head(sky_node *n, const sky_message *m) {
    const sky_node_config *c = n->config;
    bool ours = m->id.number > 0 || m->facts.set_ms == c->turning.start_ms;
    n->stat.malformed += !ours;
    return ours;
}

/* One made again takes no other chunk's room, and changes nothing about one that is here. */
static sky_outcome take_copy(sky_node *n, sky_satellite giver, const sky_message *m) {
    sky_chunk_id evicted;
    if (!sky__copies_may_give(n, giver, m)) {
        n->stat.malformed++;
        return SKY_NOT_STORED;
    }
    if (sky__node_find(n, &m->id))
        return SKY_STORED;
    if (!n->slot_free && n->slot_fresh == n->slot_count)
        return SKY_NOT_STORED;
    return sky__node_store(n, m, giver, &evicted);
}

static void take_migrate(sky_node *n, const sky_datagram *in, const sky_message *m) {
    sky_chunk_id evicted;
    if (!chunk_acceptable(n, m) || !is_placed_as_head(n, m) || n->ack_count == SKY_NODE_ACKS_MAX)
        return; /* it will be sent again */
    sky_outcome outcome = SKY_STORED;
    sky__removal removal = sky__removed_known(n, &m->id);
    if (removal != SKY__WANTED || of_no_use(n, m)) {
        n->stat.purged++; /* the giver may drop it, and nobody needs it here */
        outcome = removal == SKY__REMOVED ? SKY_REMOVED : SKY_STORED;
    } else if (m->copy)
        outcome = take_copy(n, in->from, m);
    else if (!SKY_BUG("migration-not-stored", 20))
        outcome = sky__node_store(n, m, in->from, &evicted);
    answer_at_once(n, in, m, SKY_WIRE_MIGRATE_ACK,
                   outcome == SKY_STORED_EVICTED ? SKY_STORED : outcome);
}

/* Which chunks of a row are here: bit i for chunk id.number + i·stride. A head that a newer one
 * took the place of counts as here: nobody needs it any more. */
static uint64_t held_of_row(const sky_node *n, const sky_chunk_id *first, uint32_t stride,
                            uint32_t last) {
    uint64_t held = 0;
    sky_chunk_id id = *first;
    if (id.number == 0) {
        const slot *newer = sky__node_find_head(n, &id.key, id.version);
        held = newer && newer->id.version > id.version;
    }
    for (uint32_t i = 0; i <= (last - first->number) / stride; i++) {
        id.number = first->number + i * stride;
        held |= (uint64_t)(sky__node_find(n, &id) != NULL) << i;
    }
    return held;
}

/* The last copy may go for this message's sake, so it counts only from who was sent the chunk. */
static void take_migrate_ack(sky_node *n, const sky_datagram *in, const sky_message *m) {
    slot *s = sky__node_find(n, &m->id);
    if (s && m->outcome == SKY_REMOVED && sky__copies_refused(n, in, m, s))
        return;
    if (!s || s->move != SENT || s->request != m->request || m->outcome == SKY_NOT_STORED ||
        !sky_satellite_equal(in->from, sky__sent_to(s)))
        return;
    if (s->doomed) {
        sky__node_pass_drop_on(n, s);
        return;
    }
    if (s->redirected) {
        sky__node_set_out(n, s);
        return;
    }
    n->stat.migrated++;
    n->stat.migrated_bytes += s->data_bytes;
    sky__node_leave(n, s);
}

static bool has_place(const slot *s, const sky_chunk_facts *facts) {
    return sky__same_move(&s->facts, facts) && sky_satellite_equal(s->facts.first, facts->first);
}

/* A chunk that is on its way stays so: the satellite that takes it hears of it in answer. Taken
 * back from it this might be the last copy: it may have heard of the move too, and given it on. */
static void move_chunk(sky_node *n, slot *s, const sky_chunk_facts *facts) {
    s->doomed = false;
    if (has_place(s, facts) && s->facts.spare == facts->spare)
        return; /* repeated */
    if (!has_place(s, facts) && !sky_facts_later(facts, &s->facts))
        return; /* overtaken by a later one */
    s->facts.spare = facts->spare;
    s->redirected = true;
    sky__give_place(s, facts);
    n->stat.moved++;
    if (s->move != SENT)
        sky__node_set_out(n, s);
}

/* A satellite may say of a chunk that it goes, or belongs elsewhere, when it gave it to us or got
 * it from us: it passes on what it was told. A ground knows the block's name, which takes its
 * tenant's key to make. */
static bool slot_concerns(const slot *s, sky_satellite teller) {
    const sky_satellite giver = {s->giver_plane, s->giver_slot};
    return teller.plane == 0 || sky_satellite_equal(teller, giver) ||
           sky_satellite_equal(teller, sky__sent_to(s));
}

/* With `older` a head of an older version goes too: it is the one there is. */
static void note_drop(sky_node *n, const sky_message *m) {
    slot *head = m->older ? sky__node_find_head(n, &m->id.key, SKY_VERSION_ANY) : NULL;
    if (head && head->id.version < m->id.version)
        sky__node_drop(n, head);
    sky__removed_note(n, &m->id, m->older);
}

/* Grounds wait for the answer to a MOVE, and to a DROP or PIN with a request. A satellite that
 * passes a message on counts on none. */
static bool is_answered(const sky_datagram *in, const sky_message *m) {
    return in->from.plane == 0 &&
           (m->type == SKY_WIRE_MOVE || (m->type != SKY_WIRE_MEND && m->request != 0));
}

/* DROP, PIN, MOVE and MEND name an arithmetic row of chunks, of which those that are here are
 * looked at. */
static void take_row(sky_node *n, const sky_datagram *in, const sky_message *m) {
    bool moves = m->type == SKY_WIRE_MOVE;
    if ((m->last - m->id.number) / m->stride >= n->slot_count ||
        (moves && !facts_fit(n, &m->facts))) {
        n->stat.malformed++;
        return;
    }
    uint32_t found = 0;
    for (slot *next, *s = sky__node_block_first(n, &m->id); s; s = next) {
        next = sky__node_block_next(n, s);
        if (s->id.number < m->id.number || s->id.number > m->last ||
            (s->id.number - m->id.number) % m->stride)
            continue;
        if (!slot_concerns(s, in->from)) {
            n->stat.malformed++;
            continue;
        }
        found++;
        if (SKY_BUG("drop-ignored", 3))
            continue;
        if (m->type == SKY_WIRE_DROP)
            sky__node_drop(n, s);
        else if (moves)
            move_chunk(n, s, &m->facts);
        else if (m->type == SKY_WIRE_MEND)
            sky__copies_mend(n, s);
        else
            sky__node_pin(n, s, m->facts.pinned);
    }
    if (m->type == SKY_WIRE_DROP && (found > 0 || in->from.plane == 0))
        note_drop(n, m);
    if (is_answered(in, m))
        answer_at_once(n, in, m, SKY_WIRE_ROW_ACK, found);
}

/* What only a ground may say: no satellite fills or pins another. */
static bool is_for_grounds(sky_wire_type type) {
    return type == SKY_WIRE_SET || type == SKY_WIRE_SET_IF || type == SKY_WIRE_PIN ||
           type == SKY_WIRE_MEND;
}

void sky_node_input(sky_node *n, sky_time now, const sky_datagram *in) {
    advance_clock(n, now);
    if (!in)
        return;
    sky_message m;
    if (sky_message_decode(in->data, in->bytes, &m) != SKY_OK) {
        n->stat.malformed++;
        return;
    }
    if (in->from.plane == 0)
        n->ground = in->from;
    if (m.type == SKY_WIRE_HAS && in->from.plane != 0) {
        answer_at_once(n, in, &m, SKY_WIRE_HAS_REPLY, held_of_row(n, &m.id, m.stride, m.last));
        return;
    }
    if (in->from.plane != 0 && is_for_grounds(m.type)) {
        n->stat.malformed++;
        return;
    }
    switch (m.type) {
    case SKY_WIRE_SET:
    case SKY_WIRE_SET_IF:
    case SKY_WIRE_GET:
    case SKY_WIRE_HAS:
        take_request(n, now, in, &m);
        break;
    case SKY_WIRE_MIGRATE:
        take_migrate(n, in, &m);
        break;
    case SKY_WIRE_MIGRATE_ACK:
        take_migrate_ack(n, in, &m);
        break;
    case SKY_WIRE_DROP:
    case SKY_WIRE_PIN:
    case SKY_WIRE_MOVE:
    case SKY_WIRE_MEND:
        take_row(n, in, &m);
        break;
    case SKY_WIRE_COPIES:
        sky__copies_take(n, now, in, &m);
        break;
    case SKY_WIRE_PURGE:
        sky__gossip_take(n, now, in, &m);
        break;
    case SKY_WIRE_HAS_REPLY:
        sky__sweep_answer(n, in, &m);
        break;
    case SKY_WIRE_STAT:
        answer_at_once(n, in, &m, SKY_WIRE_STAT_REPLY, 0);
        break;
    default:
        n->stat.malformed++;
    }
}

/* ---- output ---- */

/* False: what it was about is gone. */
static bool send_ack(sky_node *n, sky_datagram *out) {
    uint32_t i = --n->ack_count;
    sky_message m = {.type = n->acks[i].type, .request = n->acks[i].request, .id = n->acks[i].id};
    m.stride = 1;
    m.last = m.id.number;
    m.outcome = m.type == SKY_WIRE_MIGRATE_ACK ? (sky_outcome)n->acks[i].value : SKY_STORED;
    m.present = n->acks[i].value;
    m.moved = m.type == SKY_WIRE_ROW_ACK ? (uint32_t)n->acks[i].value : 0;
    m.differs = true; /* of COPIES: the others are not answers */
    if (m.type == SKY_WIRE_STAT_REPLY)
        sky__node_tell(n, m.stat);
    if (m.type == SKY_WIRE_MOVE) {
        const slot *s = sky__node_find(n, &m.id);
        if (!s)
            return false;
        m.facts = s->facts;
    }
    sky__node_send(n, &m, n->acks[i].to, out);
    return true;
}

static void answer_get(sky_node *n, slot *s, sky_message *m) {
    if (!s) {
        n->stat.misses++;
        m->type = SKY_WIRE_MISS;
        return;
    }
    n->stat.gets++;
    sky__node_touch(n, s);
    m->type = SKY_WIRE_CHUNK;
    m->facts.checksum = s->facts.checksum;
    m->data = sky__node_data(n, s);
    m->data_bytes = s->data_bytes;
}

static void send_answer(sky_node *n, sky_time now, sky_datagram *out) {
    const job *j = &n->jobs[n->job_first];
    n->job_first = (n->job_first + 1) % n->config->queue_max;
    n->job_count--;
    sky_message m = {.request = j->request, .id = j->id, .spent_ns = now - j->arrived};
    bool any = j->id.number == 0 && j->id.version == SKY_VERSION_ANY;
    slot *s = any ? sky__node_find_head(n, &j->id.key, SKY_VERSION_ANY) : sky__node_find(n, &j->id);
    if (any && s)
        m.id.version = s->id.version;
    if (j->type == SKY_WIRE_SET || j->type == SKY_WIRE_SET_IF) {
        m.type = SKY_WIRE_SET_ACK;
        m.outcome = SKY_BUG("ack-wrong", 20) ? SKY_NOT_STORED : j->outcome;
        m.evicted = j->evicted;
    } else if (j->type == SKY_WIRE_GET) {
        answer_get(n, s, &m);
    } else {
        m.type = SKY_WIRE_HAS_REPLY;
        m.present = held_of_row(n, &j->id, j->stride, j->last);
    }
    sky__node_send(n, &m, j->to, out);
}

static void send_migrate(sky_node *n, sky_time now, sky_datagram *out) {
    slot *s = sky__slot_at(n, n->waiting.first);
    sky_satellite to = sky__node_place(n, &s->facts);
    s->request = ++n->migrate_request;
    s->sent_plane = (uint16_t)to.plane;
    s->sent_slot = (uint16_t)to.slot;
    s->deadline = now + (n->config->migrate_timeout_ns << s->tries); /* it may be far */
    if (s->tries < MIGRATE_DOUBLINGS)
        s->tries++;
    sky__node_move_to(n, s, SENT);
    n->migrate_next = now + n->config->migrate_gap_ns;
    sky_message m = {.type = SKY_WIRE_MIGRATE,
                     .request = s->request,
                     .id = s->id,
                     .facts = s->facts,
                     .data = sky__node_data(n, s),
                     .data_bytes = s->data_bytes};
    sky__node_send(n, &m, to, out);
}

static bool may_migrate(const sky_node *n) {
    return n->waiting.count > 0 && n->sent.count < n->config->migrate_window;
}

static bool node_sweeps(const sky_node *n) {
    return n->config->sweep_period_ns > 0 && sky_node_chunks(n) > 0;
}

bool sky_node_output(sky_node *n, sky_time now, sky_datagram *out) {
    while (n->ack_count > 0) {
        if (send_ack(n, out))
            return true;
    }
    if (n->job_count > 0 && n->jobs[n->job_first].ready <= now)
        send_answer(n, now, out);
    else if (may_migrate(n) && n->migrate_next <= now)
        send_migrate(n, now, out);
    else
        return sky__gossip_output(n, now, out) || sky__copies_output(n, now, out) ||
               (node_sweeps(n) && n->sweep_next <= now && sky__sweep_output(n, now, out));
    return true;
}

sky_time sky_node_wake(const sky_node *n) {
    sky_time at = sky__sooner(sky__gossip_wake(n), sky__copies_wake(n));
    if (n->ack_count > 0)
        return 0;
    if (n->job_count > 0)
        at = sky__sooner(at, n->jobs[n->job_first].ready);
    if (may_migrate(n))
        at = sky__sooner(at, n->migrate_next);
    if (n->sent.first)
        at = sky__sooner(at, sky__slot_at(n, n->sent.first)->deadline);
    if (sky_node_chunks(n) > 0)
        at = sky__sooner(at, n->turn_ends);
    if (node_sweeps(n))
        at = sky__sooner(at, n->sweep_next);
    return at;
}

/* ---- looking in ---- */

bool sky_node_idle(const sky_node *n) {
    return sky_node_chunks(n) == 0 && n->job_count == 0 && n->ack_count == 0 &&
           n->gossip_open + n->gone_open == 0;
}
