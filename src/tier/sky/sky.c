/* The sky as a tier: a constellation in virtual time, led along the real clock by one thread.
 *
 *   submit ──► [ queue of batches ] ──► thread ──► world ──► results ──► batches
 *                     wake-up ────────────┘ sleeps until the world's next event, or new work
 *
 * Virtual time is the time since the tier was opened. The thread lets everything happen that is
 * due, at its exact virtual time, and sleeps until the next event: it may wake some tens of
 * microseconds late, but lateness does not add up, and where events are dense it takes all that
 * are due at once.
 *
 * Payloads are not copied here: a put's bytes go from the caller's spans into messages as the link
 * takes them, a get's from messages into the spans, each time between enter and leave. A batch
 * that is given up ends its requests at their next chunk; what a put had sent by then is dropped
 * again.
 *
 * What the operations mean in orbit:
 *  - PIN: the ground never chooses the block to make room, and its satellites are told not to
 *    evict its chunks. Pins nest.
 *  - ttl_s counts on the wall clock; the block goes when it is next asked for, or listed out. Real
 *    satellites would hand it to other processes after that, so there it is refused.
 *  - PREFETCH is HAS: there is nothing nearer here. With a time to come it moves the block to
 *    where it will be overhead then. LEASE is not supported.
 *  - HAS of keys that follow from each other is one search of the sky, if it is to be searched.
 *  - verify compares index and satellites' memory, checksums included, without the links.
 *  - Nothing outlives the process: the satellites are in it.
 *
 * Concurrency: `queue_lock` guards the queue and is held for moments. `world_lock` guards the
 * rest; the thread holds it while events happen. Order: world_lock, then queue_lock or the
 * batches' own. */
#include "tier/sky/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/error.h"
#include "io/clock.h"
#include "tier/spans.h"
#include "tier/url.h"

#define JOBS_MAX    SKY__TIER_JOBS_MAX
#define PENDING_MAX SKY__TIER_PENDING_MAX
#define NONE        UINT32_MAX
#define CLOSE_NS    SKY_SECONDS(1) /* for what is still to be said */

typedef struct sky_tier_sky sky;
typedef sky__tier_job job;
typedef sky__tier_pending pending;
typedef sky__tier_name block_name;

static sky *sky_of(const sky_tier *tier) {
    return (sky *)(uintptr_t)tier;
}

static sky_time virtual_now(const sky *s) {
    return s->reach->ops->now(s->reach);
}

/* ---- bytes, between the spans of an item and the chunks of the world ---- */

/* Find the span that holds byte `offset`, walking on from where the last chunk ended. */
static uint64_t span_seek(pending *p, const sky_item *item, uint64_t offset) {
    if (offset < p->span_at)
        p->span = 0, p->span_at = 0;
    while (p->span < item->span_count && offset - p->span_at >= item->spans[p->span].bytes)
        p->span_at += item->spans[p->span++].bytes;
    return offset - p->span_at;
}

static void copy_piece(const sky_span *span, uint64_t at, uint8_t *chunk, size_t bytes, bool in) {
    if (!span->data)
        return;
    uint8_t *there = (uint8_t *)span->data + at;
    memcpy(in ? chunk : there, in ? there : chunk, bytes);
}

static bool chunk_copy(pending *p, uint64_t offset, uint8_t *chunk, size_t bytes, bool in) {
    sky *s = p->sky;
    const sky_item *item = sky_batches_enter(s->tier.batches, p->batch, p->item);
    if (!item)
        return false;
    uint64_t at = span_seek(p, item, offset);
    for (uint32_t i = p->span; i < item->span_count && bytes > 0; i++, at = 0) {
        uint64_t left = item->spans[i].bytes - at;
        size_t piece = left < bytes ? (size_t)left : bytes;
        copy_piece(&item->spans[i], at, chunk, piece, in);
        chunk += piece;
        bytes -= piece;
    }
    assert(bytes == 0);
    sky_batches_leave(s->tier.batches, p->batch);
    return true;
}

static bool chunk_fetch(void *host, void *request, uint64_t offset, void *data, size_t bytes) {
    (void)host;
    return chunk_copy(request, offset, data, bytes, true);
}

static void give_back(void *host) {
    sky *s = host;
    if (s->lent)
        sky_batches_leave(s->tier.batches, s->lent->batch);
    s->lent = NULL;
}

/* Until give_back the item is entered: the caller's buffers stay. */
static const uint8_t *chunk_lend(void *host, void *request, uint64_t offset, size_t bytes) {
    sky *s = host;
    pending *p = request;
    const sky_item *item = sky_batches_enter(s->tier.batches, p->batch, p->item);
    if (!item)
        return NULL;
    s->lent = p;
    uint64_t at = span_seek(p, item, offset);
    const sky_span *span = &item->spans[p->span];
    if (p->span < item->span_count && span->data && span->bytes - at >= bytes)
        return (const uint8_t *)span->data + at;
    give_back(s);
    return NULL;
}

static bool chunk_deliver(void *host, void *request, uint64_t offset, const void *data,
                          size_t bytes) {
    (void)host;
    return chunk_copy(request, offset, (uint8_t *)(uintptr_t)data, bytes, false);
}

static void block_forgotten(void *host, uint32_t block, const sky_key *key) {
    sky *s = host;
    (void)key;
    free(s->names[block].text);
    s->names[block] = (block_name){0};
}

/* ---- from the queue to the world ---- */

static sky_status check_put(const sky_item *item, const job *j, uint64_t bytes) {
    for (uint32_t i = 0; i < item->span_count; i++) {
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return SKY_E_PARAM;
    }
    bool bad_name = item->name && (item->name_bytes == 0 || item->name_bytes > SKY_NAME_BYTES_MAX);
    bool own_parent = sky_key_equal(&item->key, &item->parent);
    return bytes > SKY_PAYLOAD_BYTES_MAX || bad_name || own_parent || j->coding > 15 ? SKY_E_PARAM
                                                                                     : SKY_OK;
}

static sky_status take_name(pending *p, const sky_item *item) {
    if (!item->name)
        return SKY_OK;
    p->name = malloc(item->name_bytes + 1);
    if (!p->name)
        return SKY_E_NOMEM;
    memcpy(p->name, item->name, item->name_bytes);
    p->name[item->name_bytes] = 0;
    p->name_bytes = item->name_bytes;
    return SKY_OK;
}

/* What the world needs to know of an item. */
static sky_status item_describe(sky *s, const job *j, const sky_item *item, pending *p,
                                sky_request *out) {
    uint64_t bytes = sky_spans_bytes(item->spans, item->span_count);
    *out = (sky_request){.op = j->op == SKY_OP_PREFETCH ? SKY_OP_HAS : j->op,
                         .key = sky__tier_sky_name(s, &item->key),
                         .context = p,
                         .wall_ms = s->env.clock->wall_ms(s->env.clock)};
    if (j->asked) {
        out->stat = true;
        out->satellite = p->asked->satellite;
        out->until = j->until;
        return SKY_OK;
    }
    if (j->probed) {
        out->probe = p->probed->number;
        out->probe_copy = p->probed->copy - 1;
        return SKY_OK;
    }
    if (j->op == SKY_OP_LEASE)
        return SKY_E_UNSUPPORTED;
    if (j->op == SKY_OP_GET) {
        out->range = item->range;
        out->room_bytes = bytes;
    }
    out->named = item->name != NULL;
    out->conditional = j->if_version != 0;
    out->expected = j->if_version == SKY_VERSION_NONE ? 0 : j->if_version;
    if (j->op == SKY_OP_PREFETCH && j->at_ms) {
        out->op = SKY_OP_PREFETCH;
        out->at_ms = j->at_ms - s->reach->ops->wall_ms(s->reach, 0);
    }
    if (j->op != SKY_OP_PUT)
        return SKY_OK;
    if (j->ttl_s && s->reach->ops->outlives)
        return SKY_E_UNSUPPORTED;
    sky_status status = check_put(item, j, bytes);
    if (status != SKY_OK)
        return status;
    out->parent = sky__tier_sky_name(s, &item->parent);
    out->payload_bytes = (uint32_t)bytes;
    out->level = j->coding;
    out->ttl_s = j->ttl_s;
    return take_name(p, item);
}

static uint32_t pending_take(sky *s) {
    uint32_t n = s->pending_free;
    if (n != NONE)
        s->pending_free = s->pendings[n].next_free;
    return n;
}

static void pending_give(sky *s, pending *p) {
    free(p->name);
    free(p->keys);
    p->name = NULL;
    p->keys = p->chain = NULL;
    p->next_free = s->pending_free;
    s->pending_free = (uint32_t)(p - s->pendings);
}

static void hand_over(sky *s, const job *j, size_t number, pending *p) {
    *p = (pending){.sky = s,
                   .batch = j->batch,
                   .item = number,
                   .asked = j->asked ? j->asked + number : NULL,
                   .probed = j->probed ? j->probed + number : NULL,
                   .submitted = j->submitted};
    bool alive = sky_batches_alive(s->tier.batches, j->batch);
    const sky_item *item = alive ? sky_batches_enter(s->tier.batches, j->batch, number) : NULL;
    if (!item) { /* given up meanwhile */
        pending_give(s, p);
        return;
    }
    p->key = item->key;
    s->reach->ops->run(s->reach, j->submitted); /* not before, if events were happening then */
    sky_request request;
    sky_status status = item_describe(s, j, item, p, &request);
    sky_batches_leave(s->tier.batches, j->batch);
    if (status == SKY_OK)
        status = s->reach->ops->submit(s->reach, &request);
    if (status != SKY_OK) {
        sky_batches_finish(s->tier.batches, j->batch, number, status, 0, SKY_TIER_NONE);
        pending_give(s, p);
    }
}

/* ---- chains of keys ---- */

/* The keys of a batch, if each is the parent of the next, and behind them their names in the sky;
 * NULL when they are not, or the batch was given up. */
static sky_key *chain_of(sky *s, const job *j) {
    const sky_item *items = sky_batches_enter(s->tier.batches, j->batch, 0);
    sky_key *keys = items ? malloc(2 * j->item_count * sizeof *keys) : NULL;
    bool chained = keys != NULL;
    for (size_t i = 0; chained && i < j->item_count; i++) {
        keys[i] = items[i].key;
        keys[j->item_count + i] = sky__tier_sky_name(s, &items[i].key);
        chained = i == 0 || sky_key_equal(&items[i].parent, &keys[i - 1]);
    }
    if (items)
        sky_batches_leave(s->tier.batches, j->batch);
    if (!chained) {
        free(keys);
        return NULL;
    }
    return keys;
}

/* One search for all items of a batch. False: they are to be asked for one by one. */
static bool hand_chain_over(sky *s, const job *j, pending *p) {
    bool searches = s->scenario.lookup != SKY_LOOKUP_INDEX;
    if (j->op != SKY_OP_HAS || j->asked || j->probed || j->item_count < 2 || !searches)
        return false;
    sky_key *keys = chain_of(s, j);
    if (!keys)
        return false;
    *p = (pending){.sky = s,
                   .batch = j->batch,
                   .submitted = j->submitted,
                   .keys = keys,
                   .chain = keys + j->item_count,
                   .chain_count = j->item_count};
    s->reach->ops->run(s->reach, j->submitted);
    sky_request request = {.op = SKY_OP_HAS,
                           .context = p,
                           .wall_ms = s->env.clock->wall_ms(s->env.clock),
                           .chain = p->chain,
                           .chain_count = (uint32_t)j->item_count};
    if (s->reach->ops->submit(s->reach, &request) == SKY_OK)
        return true;
    pending_give(s, p); /* as if it had not been taken: it is, for the items one by one */
    s->pending_free = p->next_free;
    return false;
}

static void finish_chain(sky *s, const pending *p, const sky_result *r) {
    const sky_index *index = sky_session_index(sky__tier_session(s));
    for (size_t i = 0; i < p->chain_count; i++) {
        uint32_t block = i < r->bytes ? sky_index_find(index, &p->chain[i]) : SKY_BLOCK_NONE;
        sky_answer answer = {.status = r->status == SKY_OK ? SKY_MISS : r->status,
                             .tier = SKY_TIER_NONE};
        if (block != SKY_BLOCK_NONE) {
            sky_session_entry entry;
            sky_session_look(sky__tier_session(s), block, &entry);
            answer = (sky_answer){.status = SKY_OK,
                                  .bytes = entry.info.payload_bytes,
                                  .tier = s->env.index,
                                  .coding = entry.info.coding,
                                  .pinned = entry.pinned};
        }
        sky_batches_answer(s->tier.batches, p->batch, i, &answer);
    }
}

/* The rest of a batch was taken with its first item. */
static void skip_items(sky *s, const job *taken) {
    sky_mutex_lock(&s->queue_lock);
    job *j = &s->jobs[s->job_first];
    if (s->job_count > 0 && j->batch.id == taken->batch.id) {
        s->job_first = (s->job_first + 1) % JOBS_MAX;
        s->job_count--;
    }
    sky_mutex_unlock(&s->queue_lock);
}

/* The next item of the queue, if there is one. */
static bool next_item(sky *s, job *out, size_t *number) {
    sky_mutex_lock(&s->queue_lock);
    bool any = s->job_count > 0;
    if (any) {
        job *j = &s->jobs[s->job_first];
        *out = *j;
        *number = j->next++;
        if (j->next == j->item_count) {
            s->job_first = (s->job_first + 1) % JOBS_MAX;
            s->job_count--;
        }
    }
    sky_mutex_unlock(&s->queue_lock);
    return any;
}

static void world_feed(sky *s) {
    for (;;) {
        job j;
        size_t number;
        uint32_t n = pending_take(s);
        if (n == NONE)
            return;
        if (!next_item(s, &j, &number)) {
            pending_give(s, &s->pendings[n]);
            return;
        }
        if (number == 0 && hand_chain_over(s, &j, &s->pendings[n]))
            skip_items(s, &j);
        else
            hand_over(s, &j, number, &s->pendings[n]);
    }
}

/* ---- results ---- */

static void name_block(sky *s, uint32_t block, pending *p) {
    free(s->names[block].text);
    s->names[block] = (block_name){p->key, p->name, p->name_bytes};
    p->name = NULL;
}

/* What a request asked for may be in the index by now, under its name: write its key down. */
static void note_key(sky *s, const sky_key *key, const sky_key *name) {
    uint32_t block = sky_index_find(sky_session_index(sky__tier_session(s)), name);
    if (block != SKY_BLOCK_NONE)
        s->names[block].key = *key;
}

static void note_keys(sky *s, const pending *p) {
    sky_key name = sky__tier_sky_name(s, &p->key);
    if (!p->keys)
        note_key(s, &p->key, &name);
    for (size_t i = 0; i < p->chain_count; i++)
        note_key(s, &p->keys[i], &p->chain[i]);
}

/* The chunk that came last explains all gets that were under way with it: what was before its
 * request began is the session's. */
static void path_explain(sky *s, const pending *p, const sky_path_time *t) {
    sky_sky_report *r = &s->report;
    if (p->submitted >= s->report_until) {
        r->chunks = 0;
        s->report_from = p->submitted;
    }
    s->report_from = p->submitted < s->report_from ? p->submitted : s->report_from;
    s->report_until = t->ended;
    r->chunks += t->chunks;
    r->total_ns = t->ended - s->report_from;
    r->light_ns = t->light_ns;
    r->link_ns = t->link_ns;
    r->processing_ns = t->processing_ns;
    r->session_ns = t->session_ns + (t->began - s->report_from);
}

/* How a satellite is, to who asked. */
static void tell_counts(sky *s, const pending *p, const uint64_t *counts) {
    if (!sky_batches_enter(s->tier.batches, p->batch, p->item))
        return;
    sky_satellite_answered(p->asked, virtual_now(s) - p->submitted, counts);
    sky_batches_leave(s->tier.batches, p->batch);
}

static void tell_place(sky *s, const pending *p, const sky_result *r) {
    if (!sky_batches_enter(s->tier.batches, p->batch, p->item))
        return;
    p->probed->live = r->status == SKY_OK;
    p->probed->silent = r->status == SKY_E_IO;
    if (p->probed->live)
        p->probed->satellite = r->satellite;
    sky_batches_leave(s->tier.batches, p->batch);
}

/* Whether satellites answer at all; one that is asked how it is may well be down. */
static void take_pulse(sky *s, const pending *p, const sky_result *r) {
    bool silent = (r->status == SKY_E_IO || r->status == SKY_E_UNAVAILABLE) && !p->asked &&
                  !p->probed;
    s->errors += silent;
    if (silent)
        s->failures++;
    else if (r->status == SKY_OK)
        s->failures = 0;
}

static bool answers_collect(sky *s) {
    sky_result r;
    bool any = false;
    while (s->reach->ops->result(s->reach, &r)) {
        pending *p = r.context;
        bool done = r.status == SKY_OK;
        any = true;
        note_keys(s, p);
        if (r.op == SKY_OP_PUT && done)
            name_block(s, r.block, p);
        if (r.op == SKY_OP_GET && done)
            path_explain(s, p, &r.time);
        if (p->asked && done)
            tell_counts(s, p, r.stat);
        if (r.told_chunks > 0) {
            s->report.told_chunks = r.told_chunks;
            s->report.unheard_chunks = r.unheard_chunks;
        }
        if (p->probed)
            tell_place(s, p, &r);
        take_pulse(s, p, &r);
        s->read_bytes += r.op == SKY_OP_GET && done ? r.bytes : 0;
        s->written_bytes += r.op == SKY_OP_PUT && done ? r.bytes : 0;
        if (p->chain) {
            finish_chain(s, p, &r);
        } else {
            const sky_answer answer = {.status = r.status,
                                       .bytes = r.bytes,
                                       .tier = done ? s->env.index : SKY_TIER_NONE,
                                       .coding = r.level,
                                       .pinned = r.pinned,
                                       .version = r.version};
            sky_batches_answer(s->tier.batches, p->batch, p->item, &answer);
        }
        pending_give(s, p);
    }
    return any;
}

/* ---- the thread ---- */

/* Let happen what is due, take in what is new. When it is over the next event is in the future. */
static sky_time world_advance(sky *s) {
    sky_mutex_lock(&s->world_lock);
    s->reach->ops->run(s->reach, virtual_now(s));
    do {
        world_feed(s);
    } while (answers_collect(s));
    sky_time next = s->reach->ops->next(s->reach);
    sky_mutex_unlock(&s->world_lock);
    return next;
}

/* Until when what is not yet said may still be; SKY_TIME_NEVER: nobody closes it. */
static sky_time closes_at(sky *s) {
    sky_mutex_lock(&s->queue_lock);
    sky_time at = s->closing ? s->closes_at : SKY_TIME_NEVER;
    sky_mutex_unlock(&s->queue_lock);
    return at;
}

/* As sky_idle_fn; what there is to do is done in it. */
static sky_time work_until(void *argument) {
    sky *s = argument;
    sky_time until = closes_at(s), wall = sky_now();
    bool closing = until != SKY_TIME_NEVER;
    if (closing && (wall >= until || !s->reach->ops->settled || s->reach->ops->settled(s->reach)))
        return SKY_TIME_OVER;
    sky_time next = world_advance(s), now = virtual_now(s);
    if (closing && s->reach->ops->settled(s->reach))
        return SKY_TIME_OVER;
    if (next != SKY_TIME_NEVER)
        next = next > now ? s->env.clock->now(s->env.clock) + next - now : 0;
    return next < until ? next : until;
}

static void *thread_body(void *argument) {
    sky *s = argument;
    const int fd = s->reach->ops->fd(s->reach);
    while (sky_event_wait(s->wake, &fd, fd >= 0, work_until, s)) {
    }
    return NULL;
}

/* ---- the table ---- */

/* A deadline of the host in virtual time. */
static sky_time virtual_until(const sky *s, sky_time deadline_ns) {
    sky_time left = deadline_ns - sky_now(), now = virtual_now(s);
    if (deadline_ns == 0 || left > SKY_TIME_NEVER - now)
        return deadline_ns;
    return left > 0 ? now + left : 1;
}

sky_status sky__tier_queue(sky *s, job kind, sky_item *items, sky_time deadline_ns,
                           sky_batch *out) {
    sky_mutex_lock(&s->queue_lock);
    sky_status status = SKY_E_BUSY;
    if (s->job_count < JOBS_MAX)
        status = sky_batches_open(s->tier.batches, items, kind.item_count, deadline_ns, out);
    if (status == SKY_OK) {
        kind.batch = *out;
        kind.submitted = virtual_now(s);
        kind.until = virtual_until(s, deadline_ns);
        s->jobs[(s->job_first + s->job_count++) % JOBS_MAX] = kind;
    }
    sky_mutex_unlock(&s->queue_lock);
    if (status == SKY_OK)
        sky_event_raise(s->wake);
    return status;
}

static sky_status sky_submit_batch(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                   const sky_call *call, sky_batch *out) {
    const job kind = {.op = op,
                      .item_count = item_count,
                      .ttl_s = call->ttl_s,
                      .coding = call->coding,
                      .at_ms = call->at_ms,
                      .if_version = call->if_version};
    return sky__tier_queue(sky_of(tier), kind, items, call->deadline_ns, out);
}

static void sky_close_all(sky_tier *tier) {
    sky *s = sky_of(tier);
    if (s->tier.batches)
        sky_batches_cancel_all(s->tier.batches);
    sky_mutex_lock(&s->queue_lock);
    s->closing = true;
    s->closes_at = sky_now() + CLOSE_NS;
    sky_mutex_unlock(&s->queue_lock);
    if (s->wake >= 0)
        sky_event_raise(s->wake);
    sky_thread_join(&s->thread);
    if (s->reach)
        s->reach->ops->destroy(s->reach);
    for (uint32_t i = 0; i < PENDING_MAX; i++)
        free(s->pendings[i].name), free(s->pendings[i].keys);
    for (uint32_t i = 0; s->names && i < s->name_max; i++)
        free(s->names[i].text);
    free(s->names);
    sky_batches_destroy(s->tier.batches);
    if (s->wake >= 0)
        sky_event_close(s->wake);
    sky_mutex_deinit(&s->world_lock);
    sky_mutex_deinit(&s->queue_lock);
    free(s);
}

static const sky_tier_ops ops = {
    .submit = sky_submit_batch,
    .list = sky__tier_list,
    .verify = sky__tier_verify,
    .stat = sky__tier_stat,
    .close = sky_close_all,
};

sky *sky__tier_of(sky_tier *tier) {
    return tier->ops == &ops ? sky_of(tier) : NULL;
}

/* ---- open ---- */

static void sky_prepare(sky *s, const char *url, const sky_scenario *scenario,
                        const sky_tier_env *env) {
    s->tier.ops = &ops;
    s->env = *env;
    if (!s->env.clock)
        s->env.clock = sky_clock_system();
    s->scenario = *scenario;
    s->wake = -1;
    snprintf(s->url, sizeof s->url, "%s", url);
    sky_mutex_init(&s->queue_lock);
    sky_mutex_init(&s->world_lock);
    s->pending_free = NONE;
    for (uint32_t i = PENDING_MAX; i-- > 0;)
        pending_give(s, &s->pendings[i]);
}

sky_status sky_reach_tier_create(const char *url, const sky_scenario *scenario,
                                 sky_reach_open reach, void *context, const sky_tier_env *env,
                                 sky_tier **out, sky_error *error) {
    sky *s = calloc(1, sizeof *s);
    if (!s)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", url);
    sky_prepare(s, url, scenario, env);
    sky_reach_host host = {s, chunk_fetch, chunk_deliver, block_forgotten, chunk_lend, give_back};
    sky_status status = reach(context, s->env.clock, &host, &s->reach, error);
    if (status != SKY_OK)
        goto cleanup;
    s->name_max = sky_index_capacity(sky_session_index(sky__tier_session(s)));
    s->names = calloc(s->name_max, sizeof *s->names);
    status = s->names ? sky_event_create(&s->wake) : SKY_E_NOMEM;
    if (status == SKY_OK)
        status = sky_batches_create(s->env.clock, &s->tier.batches);
    if (status == SKY_OK)
        status = sky_thread_start(&s->thread, "sky", thread_body, s);
    if (status != SKY_OK) {
        sky_fail(error, status, "%.200s: %s", url, sky_status_text(status));
        goto cleanup;
    }
    s->tier.traits = SKY_TIER_SKY | (scenario->lookup != SKY_LOOKUP_INDEX ? SKY_TIER_VERSIONS : 0) |
                     (s->reach->ops->outlives ? SKY_TIER_REMOTE | SKY_TIER_UNLISTED
                                              : SKY_TIER_VOLATILE);
    *out = &s->tier;
    return SKY_OK;
cleanup:
    sky_close_all(&s->tier);
    return status;
}
