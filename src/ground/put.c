/* Puts: chunks to the satellites, then the head; and then the block is visible.
 *
 *     queued ──room made──► set ──all stored──► ( head ) ──► committed: a row of the block table
 *                            │ a satellite is silent, and the block whole without its part
 *                            └► skipped
 *
 * A put that ends without being committed takes back what it sent, but for a name whose only head
 * may be there.
 *
 * Surprise: what a put goes without is kept by server and not by satellite, as the sky may turn
 * while it is under way; and with the put, as the silent may speak again. Once a second it tries
 * one chunk there: a satellite that was only slow takes the others. */
#include <assert.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/prng.h"
#include "ground/session_state.h"

/* Where there are other grounds (chunks are sealed there), one of them may have put the key, or an
 * earlier process of this one: what it put is looked for while the new value goes out, so that it
 * can be dropped when that is there. */
static void look_for_older(sky_session *s, const sky__request *r) {
    if (s->core.config.lookup == SKY_LOOKUP_INDEX || !s->core.config.sealed ||
        s->requests.room_own == 0)
        return;
    s->requests.looks_open++;
    sky__submit_own(s,
                    &(sky_request){.op = SKY_OP_HAS, .key = r->ask.key, .wall_ms = r->ask.wall_ms});
}

static bool being_looked_for(const sky_session *s, const sky_key *key) {
    for (uint32_t i = 0; s->requests.looks_open > 0 && i < s->requests.max; i++) {
        const sky__request *r = &s->requests.rows[i];
        bool open = r->state == REQUEST_RUNNING || r->state == REQUEST_QUEUED;
        if (open && sky__is_look_of_put(r) && sky_key_equal(&r->ask.key, key))
            return true;
    }
    return false;
}

static bool put_too_late(const sky_session *s, const sky__request *r) {
    int64_t now_ms = sky__calendar_ms(&s->core);
    return s->core.config.put_ns_max > 0 &&
           now_ms - r->of.info.set_ms > s->core.config.put_ns_max / SKY_MS(1);
}

/* The version of the head that another ground is known to have put; 0: of none. Only of a sealed
 * head is it sure that a ground made it. */
static uint64_t others_version(const sky_session *s, const sky__request *r) {
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool others = s->core.config.sealed && block != SKY_BLOCK_NONE &&
                  s->blocks.rows[block].version != r->of.id.version;
    return others ? s->blocks.rows[block].head_version : 0;
}

void sky__put_commit(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    if (put_too_late(s, r)) {
        sky__request_finish(s, request, SKY_E_IO, 0);
        return;
    }
    /* The satellites refused our head for a newer one: as if that had come a moment later. */
    r->put.overtaken = others_version(s, r) > r->head_version;
    if (r->put.overtaken) {
        sky__request_finish(s, request, SKY_OK, r->of.info.payload_bytes);
        return;
    }
    sky__block_row row = {.key = r->ask.key,
                          .version = r->of.id.version,
                          .head_version = r->head_version,
                          .skipped = r->put.skipped,
                          .named = r->ask.named,
                          .parent = r->ask.parent,
                          .habit.used_ms = sky__calendar_ms(&s->core),
                          .expires_ms = r->ask.ttl_s ? r->ask.wall_ms + (int64_t)r->ask.ttl_s * 1000
                                                     : INT64_MAX};
    sky_status status = sky__blocks_enter(&s->blocks, &r->of.info, &row, &r->result.block);
    sky__request_finish(s, request, status, status == SKY_OK ? r->of.info.payload_bytes : 0);
}

/* A value that another ground put while our chunks went out was found by now: ours comes after it,
 * whatever the clocks say. */
static void set_heads(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    if (others_version(s, r) >= r->head_version)
        r->head_version = sky__blocks_head_version(&s->blocks, r->of.info.set_ms);
    sky__requests_work(&s->requests, request, WORK_HEAD, 0, s->core.head_copies - 1);
}

static void put_stored(sky_session *s, uint32_t request) {
    s->requests.rows[request].put.held = being_looked_for(s, &s->requests.rows[request].ask.key);
    if (s->requests.rows[request].put.held)
        return;
    if (s->core.config.lookup == SKY_LOOKUP_INDEX)
        sky__put_commit(s, request);
    else if (s->requests.rows[request].ask.conditional)
        sky__decide_look(s, request);
    else
        set_heads(s, request);
}

static void unpin_parent(sky_session *s, sky__request *r) {
    if (r->put.parent_block != SKY__NONE &&
        s->blocks.rows[r->put.parent_block].version == r->put.parent_version)
        sky_index_unpin(s->blocks.index, r->put.parent_block);
    r->put.parent_block = SKY__NONE;
}

static void put_undo(sky_session *s, sky__request *r) {
    sky__blocks_load(&s->blocks, &r->of.info, false);
    sky__blocks_load_head(&s->blocks, false);
    bool head = !r->ask.conditional || r->put.decided;
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    if (block != SKY_BLOCK_NONE && s->blocks.rows[block].version == r->of.id.version)
        s->blocks.rows[block].being_put = false;
    (void)sky__block_ended(&s->core, r->of.id.version);
    if (!r->put.unsure)
        sky__bulk_push(&s->bulk, SKY_WIRE_DROP, &r->of.id, head ? r->head_version : 0, &r->of.info,
                       false);
}

/* The head of a name may be there, and have taken the place of an older one. Taken back it would
 * leave nothing of that name. Where it has copies, the older one has too, and as a rule some of
 * them were not replaced. */
static bool may_have_replaced(const sky_session *s, const sky__request *r, sky_status status) {
    return r->ask.named && s->core.head_copies == 1 && r->work == WORK_HEAD && status != SKY_OK &&
           status != SKY_E_FULL;
}

void sky__put_end(sky_session *s, sky__request *r, sky_status status) {
    if (r->ran) {
        r->put.unsure |= may_have_replaced(s, r, status);
        if (status != SKY_OK || r->put.overtaken)
            put_undo(s, r);
        unpin_parent(s, r);
    }
    s->requests.puts_stalled = false;
    s->core.stat.puts += status == SKY_OK;
    s->core.stat.puts_short += status == SKY_OK &&
                               (r->put.skipped.count > 0 || r->put.heads_skipped);
}

/* Its head may be set now. */
void sky__look_of_put_done(sky_session *s, const sky_key *key) {
    s->requests.looks_open--;
    for (uint32_t i = 0; i < s->requests.max; i++) {
        sky__request *r = &s->requests.rows[i];
        if (r->state == REQUEST_RUNNING && sky__is_put(r) && r->put.held &&
            sky_key_equal(&r->ask.key, key))
            put_stored(s, i);
    }
}

/* A block that this session does not know lost a chunk: another ground's, as a rule. */
static void count_other(sky_session *s, const sky_chunk_id *id) {
    if (id->number > 0 && sky_index_find(s->blocks.index, &id->key) == SKY_BLOCK_NONE &&
        sky__requests_put_of(&s->requests, &id->key) == SKY__NONE &&
        sky__block_ended(&s->core, id->version))
        s->core.stat.evicted_others++;
}

void sky__evicted(sky_session *s, const sky_chunk_id *id) {
    count_other(s, id);
    if (s->core.config.replicas > 1 || s->core.config.parity > 0)
        return;
    uint32_t block = sky_index_find(s->blocks.index, &id->key);
    if (id->number == 0) { /* a block is found by the index alone from now on; a name's next get
                              asks whether another ground put it again */
        if (block != SKY_BLOCK_NONE && s->blocks.rows[block].head_version == id->version &&
            !s->blocks.rows[block].named) {
            s->blocks.rows[block].head_version = 0;
            sky__blocks_load_head(&s->blocks, false);
        }
        return;
    }
    bool ours = block != SKY_BLOCK_NONE && s->blocks.rows[block].version == id->version;
    if (ours &&
        s->blocks.rows[block].before.set_ms == 0) /* of a moved one it may be a second copy */
        sky__blocks_lose(&s->blocks, block);
    for (uint32_t i = 0; i < s->requests.max; i++) {
        sky__request *r = &s->requests.rows[i];
        if (r->state == REQUEST_RUNNING && sky__is_put(r) && r->of.id.version == id->version)
            sky__request_finish(s, i, SKY_E_FULL, 0);
    }
}

static void pin_parent(sky_session *s, sky__request *r) {
    r->put.parent_block = SKY__NONE;
    if (sky_key_is_zero(&r->ask.parent))
        return;
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.parent);
    if (block == SKY_BLOCK_NONE || sky_index_pin(s->blocks.index, block) != SKY_OK)
        return;
    r->put.parent_block = block;
    r->put.parent_version = s->blocks.rows[block].version;
}

/* The version of a put's chunks is a name no other put has, of this ground or another: chunks of
 * two puts must never pass for each other's. Mixed one to one, so one ground's never repeat; those
 * of two differ as their ids do. */
uint64_t sky__change_name(sky_session *s) {
    uint64_t name;
    do {
        name = sky_mix64(s->core.config.session_id + ++s->puts_named * 0x9e3779b97f4a7c15u);
    } while (name == 0);
    return name;
}

static void put_describe(sky_session *s, sky__request *r) {
    int64_t set_ms = sky__calendar_ms(&s->core);
    sky_satellite centre = sky__foresee_centre(s, set_ms);
    uint32_t data_chunks = sky__data_chunks(&s->core, r->ask.payload_bytes);
    r->of.info = (sky_block_info){.payload_bytes = r->ask.payload_bytes,
                                  .chunk_count = sky_stripes_chunks(&s->core.stripes, data_chunks),
                                  .set_ms = set_ms,
                                  .centre_plane = (uint16_t)centre.plane,
                                  .centre_slot = (uint16_t)centre.slot,
                                  .coding = r->ask.level};
}

/* Room for a put, or the reason why there is none. */
static bool put_room(sky_session *s, uint32_t request, bool new_block) {
    sky__request *r = &s->requests.rows[request];
    bool holdable = sky__blocks_holdable(&s->blocks, &r->of.info);
    if (holdable && sky__blocks_make_room(&s->blocks, &r->of.info, new_block))
        return true;
    unpin_parent(s, r);
    if (holdable && s->requests.puts_running > 0)
        s->requests.puts_stalled = true; /* they may be evicted once they are there */
    else
        sky__request_finish(s, request, SKY_E_FULL, 0);
    return false;
}

bool sky__put_start(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    if (sky__requests_put_of(&s->requests, &r->ask.key) != SKY__NONE) {
        s->requests.puts_stalled = true;
        return false;
    }
    put_describe(s, r);
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    pin_parent(s, r);
    if (!put_room(s, request, block == SKY_BLOCK_NONE))
        return false;
    block = sky__blocks_find(&s->blocks, r->ask.wall_ms,
                             &r->ask.key); /* it may have made room itself */
    sky__blocks_load(&s->blocks, &r->of.info, true);
    sky__blocks_load_head(&s->blocks, true);
    s->requests.puts_running++;
    r->of.id = (sky_chunk_id){.key = r->ask.key, .version = sky__change_name(s)};
    r->change = r->of.id.version;
    r->named = r->ask.named;
    if (r->ask.conditional && r->ask.expected > s->blocks.head_version &&
        !sky__version_too_new(&s->core, r->ask.expected))
        s->blocks.head_version = r->ask.expected; /* by another's clock: ours is newer */
    if (s->core.config.lookup != SKY_LOOKUP_INDEX)
        r->head_version = sky__blocks_head_version(&s->blocks, r->of.info.set_ms);
    bool pinned = block != SKY_BLOCK_NONE && s->blocks.rows[block].pinned;
    r->of.facts = sky__block_facts(&s->core, &r->of.info, pinned);
    r->state = REQUEST_RUNNING;
    if (block == SKY_BLOCK_NONE)
        look_for_older(s, r);
    if (r->of.info.chunk_count > 0)
        sky__requests_work(&s->requests, request, WORK_SET, 0,
                           r->of.info.chunk_count * s->core.config.replicas - 1);
    else
        put_stored(s, request);
    return r->state == REQUEST_RUNNING && r->work == WORK_SET;
}

/* ---- chunks and heads ---- */

static bool put_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    (void)r;
    o->id.number = unit / s->core.config.replicas + 1;
    o->copy = unit % s->core.config.replicas;
    return true;
}

bool sky__head_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    (void)s;
    o->id.version = r->head_version;
    o->copy = unit;
    return true;
}

/* The stripe's data are read once more for each parity piece: nothing is kept between messages. */
static bool make_parity(sky_session *s, const sky__request *r, uint32_t number, uint8_t *out) {
    uint32_t payload_bytes = r->of.info.payload_bytes;
    uint32_t chunks = sky__data_chunks(&s->core, payload_bytes);
    sky_stripe stripe = sky_stripe_of(&s->core.stripes, chunks, number);
    const uint8_t *pieces[SKY_STRIPE_PIECES_MAX];
    uint32_t longest = sky__chunk_length(&s->core, payload_bytes, stripe.first);
    for (uint32_t i = 0; i < stripe.data; i++) {
        uint8_t *piece = s->stripe_bytes + (size_t)i * s->core.config.chunk_bytes;
        uint32_t data = sky_stripes_data_number(&s->core.stripes, chunks, stripe.first + i);
        uint32_t bytes = sky__chunk_length(&s->core, payload_bytes, stripe.first + i);
        memset(piece + bytes, 0, longest - bytes);
        if (!s->core.config.fetch(s->core.config.host, r->ask.context,
                                  (uint64_t)(data - 1) * s->core.config.chunk_bytes, piece, bytes))
            return false;
        pieces[i] = piece;
    }
    sky_stripe_parity(stripe.data, number - stripe.first - stripe.data, pieces, longest, out);
    return true;
}

/* A chunk of the payload, where it goes in the message, or where the host has it. */
static bool fill_data(sky_session *s, const sky__request *r, uint32_t number, sky_message *m,
                      sky_datagram *out) {
    const sky_session_config *c = &s->core.config;
    uint64_t offset = (uint64_t)(number - 1) * c->chunk_bytes;
    uint8_t *room = out->data + sky_message_data_offset(SKY_WIRE_SET);
    if (c->sealed && c->lend)
        out->chunk = c->lend(c->host, r->ask.context, offset, m->data_bytes);
    if (out->chunk)
        m->data = NULL;
    return out->chunk || c->fetch(c->host, r->ask.context, offset, room, m->data_bytes);
}

/* Of a put, or of a block that moves. */
static bool is_named(const sky_session *s, const sky__request *r) {
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    return sky__is_put(r) ? r->ask.named : block != SKY_BLOCK_NONE && s->blocks.rows[block].named;
}

bool sky__put_compose(sky_session *s, const sky__operation *o, sky_message *m, sky_datagram *out) {
    const sky__request *r = &s->requests.rows[o->request];
    uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET);
    uint32_t payload_bytes = r->of.info.payload_bytes;
    m->facts = r->of.facts;
    sky__facts_of(&s->core, &m->facts, o->id.number, o->copy);
    m->data_bytes = sky__chunk_length(&s->core, payload_bytes, o->id.number);
    m->data = data;
    assert(out->bytes_max >= sky_message_bytes(m));
    bool there = true;
    if (o->id.number == 0) {
        sky_block_head head = sky__head_of(&s->core, &r->of.info, r->of.id.version, &r->of.before,
                                           is_named(s, r));
        head.moves = r->of.facts.moves;
        sky_head_encode(&head, data);
    } else {
        uint32_t chunks = sky__data_chunks(&s->core, payload_bytes);
        uint32_t number = sky_stripes_data_number(&s->core.stripes, chunks, o->id.number);
        there = number ? fill_data(s, r, number, m, out) : make_parity(s, r, o->id.number, data);
    }
    if (!s->core.config.sealed)
        m->facts.checksum = sky_chunk_checksum(&m->id, data, m->data_bytes);
    return there;
}

bool sky__may_give_up(sky_session *s, const sky_chunk_id *id) {
    bool may = sky__blocks_may_give_up(&s->blocks, s->scheduler.from, id);
    if (!may)
        sky__suspect(&s->scheduler, s->scheduler.from);
    return may;
}

void sky__put_taken(sky_session *s, uint32_t op, const sky_message *m) {
    const sky__operation *o = &s->scheduler.operations[op];
    uint32_t request = o->request;
    uint64_t generation = o->generation;
    if (m->outcome == SKY_NOT_STORED) {
        sky__request_finish(s, request, SKY_E_FULL, 0);
        return;
    }
    if (m->outcome == SKY_STORED_EVICTED && sky__may_give_up(s, &m->evicted))
        sky__evicted(s, &m->evicted); /* may end this very put */
    if (o->request == request && o->generation == generation)
        sky__operation_done(&s->scheduler, op);
}

/* ---- what a put goes without ---- */

static bool is_skipped(const sky__skipped *a, uint32_t server) {
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->servers[i] == server)
            return true;
    }
    return false;
}

bool sky_session_lacks(const sky_session *s, uint32_t block, uint32_t number) {
    bool all = true;
    for (uint32_t copy = 0; copy < s->core.config.replicas; copy++)
        all &= is_skipped(&s->blocks.rows[block].skipped, sky__server_of(&s->core, number, copy));
    return all;
}

static bool heads_left(const sky_session *s, const sky__request *r, uint32_t copy) {
    return (r->put.heads_skipped | 1u << copy) != (1u << s->core.head_copies) - 1;
}

/* Without this server: does each stripe have enough, or the chunk another copy? */
static bool chunks_left(const sky_session *s, const sky__skipped *a, uint32_t number,
                        uint32_t server) {
    bool fresh = !is_skipped(a, server);
    if (fresh && a->count == SKY__SKIPPED_MAX)
        return false;
    if (a->count + fresh <= s->core.stripes.parity)
        return true;
    for (uint32_t copy = 0; copy < s->core.config.replicas; copy++) {
        uint32_t other = sky__server_of(&s->core, number, copy);
        if (other != server && !is_skipped(a, other))
            return true;
    }
    return false;
}

/* Of a name's heads all grounds ask the first one's satellite, and in a true sky go by what it says
 * (lookup.c). So no put does without it because no laser leads there from its own ground. */
static bool is_needed(const sky_session *s, const sky__request *r, const sky__operation *o) {
    const sky_frame *f = s->core.config.frame;
    return o->copy == 0 && is_named(s, r) && !sky_frame_whole(f) &&
           !sky_frame_joined(f, SKY_GROUND, o->to, sky__rotations(&s->core));
}

bool sky__head_skipped(sky_session *s, const sky__operation *o) {
    sky__request *r = &s->requests.rows[o->request];
    bool left = heads_left(s, r, o->copy) && !is_needed(s, r, o);
    r->put.heads_skipped |= left ? 1u << o->copy : 0;
    return left;
}

static bool put_skipped(sky_session *s, const sky__operation *o) {
    sky__skipped *skipped = &s->requests.rows[o->request].put.skipped;
    uint32_t server = sky__server_of(&s->core, o->id.number, o->copy);
    if (!chunks_left(s, skipped, o->id.number, server))
        return false;
    if (!is_skipped(skipped, server))
        skipped->servers[skipped->count++] = server;
    return true;
}

const sky__client sky__set_client = {.asks = SKY_WIRE_SET,
                                     .answers = SKY_WIRE_SET_ACK,
                                     .stores = true,
                                     .carries = true,
                                     .unit = put_unit,
                                     .compose = sky__put_compose,
                                     .taken = sky__put_taken,
                                     .skipped = put_skipped,
                                     .done = put_stored};

const sky__client sky__head_client = {.asks = SKY_WIRE_SET,
                                      .answers = SKY_WIRE_SET_ACK,
                                      .stores = true,
                                      .unit = sky__head_unit,
                                      .compose = sky__put_compose,
                                      .taken = sky__put_taken,
                                      .skipped = sky__head_skipped,
                                      .done = sky__put_commit};
