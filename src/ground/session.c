/* The session: requests come in, messages go out, and what is asked for by whom.
 *
 *   get      ( look ) ──► get ──► done
 *   put       set ──► ( head ) ──► committed
 *   has …    ( look ) ──► answered from the index
 *   remove,  ( look ) ──► index ──► ( all satellites that hold it answered ) ──► done
 *   pin
 *   prefetch ( look ) ──► ( head again ) ──► move ──► done
 *
 *   put or remove under the condition of a version: if_version.c
 *
 * Steps in brackets are only taken when blocks are looked for in the sky. */
#include <stdlib.h>

#include <skymem/keys.h>

#include "base/clock.h"
#include "ground/session_state.h"

_Static_assert(SKY_STRIPE_PIECES_MAX == SKY_PARITY_SERVERS_MAX, "as scenarios are checked");

#define OWN_REQUESTS 64 /* moves, checks, looks of puts; the host has its own */

/* ---- kinds of work ---- */

static bool stat_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    (void)s, (void)r, (void)unit;
    o->id = (sky_chunk_id){0};
    return true;
}

static uint32_t stat_places(const sky_session *s, const sky__operation *o, sky_satellite *places) {
    places[0] = s->requests.rows[o->request].ask.satellite;
    return 1;
}

static void stat_taken(sky_session *s, uint32_t op, const sky_message *m) {
    sky__request *r = &s->requests.rows[s->scheduler.operations[op].request];
    for (uint32_t i = 0; i < SKY_STAT_COUNT; i++)
        r->result.stat[i] = m->stat[i];
    sky__operation_done(&s->scheduler, op);
}

static bool probe_unit(sky_session *s, sky__request *r, uint32_t unit, sky__operation *o) {
    (void)s, (void)unit;
    o->id.number = r->ask.probe;
    o->copy = r->ask.probe_copy;
    return true;
}

static void probe_taken(sky_session *s, uint32_t op, const sky_message *m) {
    sky__has_taken(s, op, m, 1);
}

static const sky__client probe_client = {.asks = SKY_WIRE_HAS,
                                         .answers = SKY_WIRE_HAS_REPLY,
                                         .moved = true,
                                         .unit = probe_unit,
                                         .taken = probe_taken,
                                         .done = sky__work_done};

static const sky__client stat_client = {.asks = SKY_WIRE_STAT,
                                        .answers = SKY_WIRE_STAT_REPLY,
                                        .unit = stat_unit,
                                        .places = stat_places,
                                        .taken = stat_taken,
                                        .done = sky__work_done};

static const sky__clients CLIENTS = {.of = {[WORK_LOOK] = &sky__look_client,
                                            [WORK_HEADS] = &sky__heads_client,
                                            [WORK_GET] = &sky__get_client,
                                            [WORK_PIECE] = &sky__piece_client,
                                            [WORK_SET] = &sky__set_client,
                                            [WORK_HEAD] = &sky__head_client,
                                            [WORK_REHEAD] = &sky__rehead_client,
                                            [WORK_MOVE] = &sky__move_client,
                                            [WORK_DECIDE] = &sky__decide_client,
                                            [WORK_TELL] = &sky__tell_client,
                                            [WORK_CHECK] = &sky__check_client,
                                            [WORK_MEND] = &sky__mend_client,
                                            [WORK_PROBE] = &probe_client,
                                            [WORK_STAT] = &stat_client},
                                     .finish = sky__request_finish};

/* ---- life ---- */

/* For parity alone: stripes being repaired, and one being made. */
static bool take_stripes(sky_session *s) {
    size_t stripe = (size_t)(s->core.stripes.data + s->core.stripes.parity) *
                    s->core.config.chunk_bytes;
    size_t work = 2 * (size_t)s->core.stripes.data * s->core.stripes.data;
    s->repairs = calloc(SKY__REPAIRS_MAX, sizeof *s->repairs);
    s->repair_bytes = malloc(SKY__REPAIRS_MAX * stripe);
    s->stripe_bytes = malloc(stripe > work ? stripe : work);
    if (!s->repairs || !s->repair_bytes || !s->stripe_bytes)
        return false;
    for (uint32_t i = 0; i < SKY__REPAIRS_MAX; i++)
        s->repairs[i] = (sky__repair){.request = SKY__NONE, .bytes = s->repair_bytes + i * stripe};
    return true;
}

static bool config_ok(const sky_session_config *c) {
    uint32_t servers = c->frame->placement.servers;
    return c->chunk_bytes >= 1 && c->chunk_bytes <= SKY_WIRE_DATA_BYTES_MAX &&
           c->satellite_slots >= 1 && c->requests_max >= 1 && c->blocks_max >= 1 &&
           c->operations_max >= 1 && c->operations_max <= 1u << 20 && c->replicas <= servers &&
           (c->parity == 0 || (c->parity < servers && servers <= SKY_STRIPE_PIECES_MAX));
}

sky_status sky_session_create(const sky_session_config *config, sky_session **out) {
    if (!config_ok(config))
        return SKY_E_PARAM;
    sky_session *s = calloc(1, sizeof *s);
    if (!s)
        return SKY_E_NOMEM;
    bool foresees = sky_strategy_row_of(config->frame->placement.strategy)->foresees;
    bool own = foresees || config->parity > 0 || config->sealed;
    sky__core_init(&s->core, config);
    sky_status status = sky__bulk_init(&s->bulk, &s->core);
    if (status == SKY_OK)
        status = sky__blocks_init(&s->blocks, &s->core, &s->bulk);
    if (status == SKY_OK)
        status = sky__requests_init(&s->requests, config->requests_max, own ? OWN_REQUESTS : 0);
    if (status == SKY_OK)
        status = sky__scheduler_init(&s->scheduler, s, &CLIENTS, &s->core, &s->requests);
    if (status == SKY_OK && config->parity > 0 && !take_stripes(s))
        status = SKY_E_NOMEM;
    if (status == SKY_OK)
        *out = s;
    else
        sky_session_destroy(s);
    return status;
}

void sky_session_destroy(sky_session *s) {
    if (!s)
        return;
    sky__scheduler_deinit(&s->scheduler);
    sky__requests_deinit(&s->requests);
    sky__blocks_deinit(&s->blocks);
    sky__bulk_deinit(&s->bulk);
    free(s->repairs);
    free(s->repair_bytes);
    free(s->stripe_bytes);
    free(s);
}

/* ---- requests that end ---- */

/* It is about a block that may be there. */
static bool is_about_block(const sky__request *r) {
    sky_op op = r->ask.op;
    return (op == SKY_OP_GET || op == SKY_OP_HAS || op == SKY_OP_REMOVE || op == SKY_OP_PREFETCH) &&
           !r->ask.stat && !r->ask.probe;
}

static void request_end(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    sky_status status = r->result.status;
    sky_op op = r->ask.op;
    if (status == SKY_E_IO && (is_about_block(r) || r->ask.conditional))
        status = SKY_E_UNAVAILABLE;
    if (status == SKY_MISS && r->ask.conditional && r->ask.expected)
        status = SKY_E_CONFLICT; /* nothing is stored, whose version is 0 */
    sky__repairs_abandon(s, request);
    s->requests.mends_open -= r->work == WORK_MEND;
    if (op == SKY_OP_PUT)
        sky__put_end(s, r, status);
    if (op == SKY_OP_PREFETCH)
        sky__move_end(s, request);
    s->core.stat.hits += op == SKY_OP_GET && status == SKY_OK;
    s->core.stat.misses += op == SKY_OP_GET && status == SKY_MISS;
    r->result.op = op;
    r->result.context = r->ask.context;
    r->result.status = status;
    r->result.level = status == SKY_OK ? r->of.info.coding : 0;
    if (status == SKY_OK && r->named && op != SKY_OP_REMOVE)
        r->result.version = r->head_version;
    if (!r->own) {
        sky__requests_done(&s->requests, request);
        return;
    }
    const sky_key key = r->ask.key;
    sky__requests_free(&s->requests, request);
    if (sky__is_look_of_put(r))
        sky__look_of_put_done(s, &key);
}

bool sky_session_result(sky_session *s, sky_result *out) {
    if (s->requests.done.first == SKY__NONE)
        return false;
    uint32_t request = sky__list_take(&s->requests, &s->requests.done);
    *out = s->requests.rows[request].result;
    sky__requests_free(&s->requests, request);
    return true;
}

/* ---- requests that begin ---- */

static sky_status pin_block(sky_session *s, uint32_t block, bool pinned) {
    sky__block_row *row = &s->blocks.rows[block];
    bool changes = pinned != row->pinned;
    sky_status status = SKY_OK;
    if (!changes && !row->adopted) /* what others put, others may have pinned */
        return pinned ? SKY_OK : SKY_E_PARAM;
    if (changes)
        status = pinned ? sky_index_pin(s->blocks.index, block)
                        : sky_index_unpin(s->blocks.index, block);
    if (status != SKY_OK)
        return status;
    row->pinned = pinned;
    if (s->core.config.sealed)
        return SKY_OK;
    sky_block_info info;
    sky_index_info(s->blocks.index, block, &info);
    const sky_chunk_id id = {.key = row->key, .version = row->version};
    sky__bulk_push(&s->bulk, SKY_WIRE_PIN, &id, row->head_version, &info, pinned);
    return SKY_OK;
}

static void remove_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky_index_find(s->blocks.index, &r->ask.key);
    bool ours = block != SKY_BLOCK_NONE && s->blocks.rows[block].version == r->of.id.version;
    if (ours && s->core.config.sealed)
        sky__blocks_forget(&s->blocks, block);
    else if (ours)
        sky__blocks_remove(&s->blocks, block);
    if (s->core.config.sealed)
        sky__tell_begin(s, request);
    else
        sky__request_finish(s, request, SKY_OK, 0);
}

static void remove_found(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    if (!r->ask.conditional) {
        remove_begin(s, request);
    } else if (r->head_version != r->ask.expected) {
        r->result.version = r->head_version;
        sky__request_finish(s, request, SKY_E_CONFLICT, 0);
    } else {
        r->head_version++; /* a name for what comes after it: nothing */
        r->change = sky__change_name(s);
        sky__decide_begin(s, request);
    }
}

/* What the index alone answers. */
static void answer_from_index(sky_session *s, uint32_t request, uint32_t block) {
    sky__request *r = &s->requests.rows[request];
    r->of = sky__blocks_subject(&s->blocks, block);
    r->head_version = s->blocks.rows[block].head_version;
    r->named = s->blocks.rows[block].named;
    sky_status status = SKY_OK;
    uint64_t bytes = 0;
    if (r->ask.op == SKY_OP_HAS) {
        bytes = r->of.info.payload_bytes;
        r->result.pinned = s->blocks.rows[block].pinned;
    } else if (r->ask.op == SKY_OP_REMOVE) {
        remove_found(s, request);
        return;
    } else
        status = pin_block(s, block, r->ask.op == SKY_OP_PIN);
    if (status == SKY_OK && r->ask.op != SKY_OP_HAS && s->core.config.sealed)
        sky__tell_begin(s, request);
    else
        sky__request_finish(s, request, status, bytes);
}

static void request_found(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (sky__is_put(r))
        sky__decide_looked(s, request, block);
    else if (block == SKY_BLOCK_NONE)
        sky__request_finish(s, request, SKY_MISS, 0);
    else if (r->ask.op == SKY_OP_GET)
        sky__get_begin(s, request, block);
    else if (r->ask.op == SKY_OP_PREFETCH)
        sky__move_begin(s, request);
    else
        answer_from_index(s, request, block);
}

static void find_block(sky_session *s, uint32_t request) {
    const sky__request *r = &s->requests.rows[request];
    bool known = !r->ask.chain &&
                 sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key) != SKY_BLOCK_NONE;
    if (known && sky__may_be_outdated(s, r))
        sky__fresh_begin(s, request);
    else if (known || (!r->ask.chain && s->core.config.lookup == SKY_LOOKUP_INDEX))
        request_found(s, request);
    else
        sky__look_begin(s, request);
}

static void stat_begin(sky_session *s, uint32_t request) {
    const sky_constellation *c = &s->core.config.frame->constellation;
    sky__request *r = &s->requests.rows[request];
    sky_satellite at = r->ask.satellite;
    if (at.plane < 1 || at.plane > c->planes || at.slot < 1 || at.slot > c->slots) {
        sky__request_finish(s, request, SKY_E_PARAM, 0);
        return;
    }
    r->state = REQUEST_RUNNING;
    sky__requests_work(&s->requests, request, WORK_STAT, 0, 0);
}

static void probe_begin(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    uint32_t block = sky__blocks_find(&s->blocks, r->ask.wall_ms, &r->ask.key);
    if (block != SKY_BLOCK_NONE)
        r->of = sky__blocks_subject(&s->blocks, block);
    if (block == SKY_BLOCK_NONE || r->ask.probe > r->of.info.chunk_count ||
        r->ask.probe_copy >= s->core.config.replicas) {
        sky__request_finish(s, request, block == SKY_BLOCK_NONE ? SKY_MISS : SKY_E_PARAM, 0);
        return;
    }
    r->state = REQUEST_RUNNING;
    sky__requests_work(&s->requests, request, WORK_PROBE, 0, 0);
}

static void begin_request(sky_session *s, uint32_t request) {
    sky__request *r = &s->requests.rows[request];
    const sky_request *ask = &r->ask;
    r->blocked_ns = sky__blocked_ns(&s->scheduler);
    r->result.time.began = r->result.time.ended = s->core.now;
    if (ask->stat || ask->probe || ask->mend) {
        r->ask.op = SKY_OP_HAS; /* whatever it was: nothing is put */
        (ask->stat ? stat_begin : ask->probe ? probe_begin : sky__check_begin)(s, request);
        return;
    }
    if (ask->conditional && s->core.config.lookup == SKY_LOOKUP_INDEX) {
        sky__request_finish(s, request, SKY_E_UNSUPPORTED, 0); /* there are no heads */
        return;
    }
    switch (ask->op) {
    case SKY_OP_PUT:
        sky__requests_line_up(&s->requests, request);
        break;
    case SKY_OP_PREFETCH:
    case SKY_OP_GET:
    case SKY_OP_HAS:
    case SKY_OP_REMOVE:
    case SKY_OP_PIN:
    case SKY_OP_UNPIN:
        find_block(s, request);
        break;
    default:
        sky__request_finish(s, request, SKY_E_UNSUPPORTED, 0);
    }
}

/* Steps that clients asked for, and those that these lead to. */
static void advance_requests(sky_session *s) {
    while (s->requests.stepping.first != SKY__NONE) {
        uint32_t request = sky__list_take(&s->requests, &s->requests.stepping);
        sky__step step = s->requests.rows[request].step;
        s->requests.rows[request].step = STEP_NONE;
        switch (step) {
        case STEP_NONE:
            break;
        case STEP_BEGIN:
            begin_request(s, request);
            break;
        case STEP_FOUND:
            request_found(s, request);
            break;
        case STEP_LOST:
            sky__block_lost(s, request, SKY_MISS);
            break;
        case STEP_REMOVE:
            remove_begin(s, request);
            break;
        case STEP_END:
            request_end(s, request);
        }
    }
}

sky_status sky_session_submit(sky_session *s, sky_time now, const sky_request *ask) {
    s->core.now = now;
    uint32_t request = sky__requests_take(&s->requests, ask, false);
    if (request == SKY__NONE)
        return SKY_E_BUSY;
    begin_request(s, request);
    advance_requests(s);
    return SKY_OK;
}

void sky_session_link_set(sky_session *s, uint64_t bits_s) {
    s->core.config.link_bits_s = bits_s;
}

/* ---- input ---- */

/* A satellite says by itself that a chunk went. */
static void take_gone(sky_session *s, const sky_message *m) {
    uint32_t block = sky_index_find(s->blocks.index, &m->id.key);
    if (s->scheduler.from.plane == 0 || m->id.number == 0 || block == SKY_BLOCK_NONE ||
        s->blocks.rows[block].version != m->id.version || !sky__may_give_up(s, &m->id) ||
        !(s->core.config.eviction & SKY_EVICT_BROADCAST))
        return;
    s->core.stat.given_up++;
    sky__evicted(s, &m->id);
}

void sky_session_input(sky_session *s, sky_time now, const sky_datagram *in) {
    sky_message m;
    s->core.now = now;
    if (in && sky__scheduler_input(&s->scheduler, in, &m))
        take_gone(s, &m);
    advance_requests(s);
    sky__scheduler_expire(&s->scheduler);
    advance_requests(s);
    sky__note_blocked(&s->scheduler);
}

/* ---- output ---- */

typedef enum { SEND_NOTHING, SEND_COMMAND, SEND_AGAIN, SEND_REPAIR, SEND_GET, SEND_SET } action;

/* What asks for something next. Gets come first: somebody waits for them; and of them what was
 * asked for in vain. */
static action next_ask(const sky_session *s) {
    const sky__scheduler *q = &s->scheduler;
    if (q->again.first != SKY__NONE)
        return SEND_AGAIN;
    if (s->repairs_open > 0 && sky__operation_ready(q) && sky__repair_has_output(s))
        return SEND_REPAIR;
    bool get = s->requests.reading.first != SKY__NONE && sky__operation_ready(q);
    return get ? SEND_GET : SEND_NOTHING;
}

/* What goes out next, and when at the soonest. Whatever is asked for, again or not, waits until its
 * answer fits the downlink: one that is only queued must not look lost. DROPs come before SETs,
 * which need the room. */
static action next_action(const sky_session *s, sky_time *at) {
    const sky__scheduler *q = &s->scheduler;
    action ask = next_ask(s);
    bool set = s->requests.storing.first != SKY__NONE && sky__operation_ready(q) &&
               !s->requests.puts_stalled;
    bool paced = ask != SEND_AGAIN || q->operations[q->again.first].answer_bytes > 0;
    *at = q->up_free;
    if (ask != SEND_NOTHING && (!paced || q->down_free <= q->up_free))
        return ask;
    if (s->bulk.count > 0)
        return SEND_COMMAND;
    if (set)
        return SEND_SET;
    *at = sky__later(q->up_free, q->down_free);
    return ask;
}

static bool send_command(sky_session *s, sky_datagram *out) {
    sky_message m;
    sky_satellite to;
    if (!sky__bulk_next(&s->bulk, &s->blocks, &m, &to, out))
        return false;
    sky__send(&s->scheduler, &m, to, out);
    return true;
}

static bool perform_action(sky_session *s, action what, sky_datagram *out) {
    uint32_t put = s->requests.storing.first;
    switch (what) {
    case SEND_COMMAND:
        return send_command(s, out);
    case SEND_REPAIR:
        return sky__repair_output(s, out);
    case SEND_AGAIN:
        return sky__send_again(&s->scheduler, out);
    case SEND_GET:
        return sky__send_unit(&s->scheduler, &s->requests.reading, out);
    default:
        if (s->requests.rows[put].state == REQUEST_QUEUED &&
            (!sky__put_start(s, put) || s->bulk.count > 0))
            return false; /* what makes room for it goes first */
        return sky__send_unit(&s->scheduler, &s->requests.storing, out);
    }
}

bool sky_session_output(sky_session *s, sky_time now, sky_datagram *out) {
    bool sent = false;
    s->core.now = now;
    out->chunk = NULL;
    sky_time at;
    action what;
    if (s->scheduler.parked > 0)
        sky__repairs_unpark(s);
    sky__mends_feed(s);
    advance_requests(s);
    while (!sent && (what = next_action(s, &at)) != SEND_NOTHING && at <= now) {
        sent = perform_action(s, what, out);
        advance_requests(s);
    }
    sky__note_blocked(&s->scheduler);
    return sent;
}

sky_time sky_session_wake(const sky_session *s) {
    sky_time at;
    sky_time wake = sky__mends_wake(s);
    wake = s->scheduler.earliest < wake ? s->scheduler.earliest : wake;
    if (next_action(s, &at) != SEND_NOTHING && at < wake)
        wake = at;
    return wake;
}
