/* The runs of a connection: from frames to the cache, and answers back. */
#include <stdlib.h>
#include <string.h>

#include <skymem/metrics.h>

#include "peer/server.h"
#include "tier/mem/shared.h"
#include "tier/spans.h"

#define OWNER_OF_A_PEER (UINT64_C(1) << 63) /* apart from the numbers of a host's clients */

/* ---- made, freed ---- */

static void release_leases(sky__peer_connection *c, sky__peer_run *run) {
    for (uint32_t n = 0; n < run->count; n++)
        if (run->items[n].lease.id != 0)
            (void)sky_release_owned(c->server->cache, c->owner, run->items[n].lease);
}

static void give_reserves(const sky_peer_server *s, sky__peer_run *run) {
    for (uint32_t n = 0; n < run->count; n++) {
        if (run->reserves[n].data)
            sky_memory_reserve_give(s->nearest, &run->reserves[n]);
        run->reserves[n].data = NULL;
    }
}

/* Bytes of the room for large puts. A connection has one put that comes, so that small ones are
 * bounded by themselves; they do not wait for large ones that come slowly. */
static uint64_t share_of(const sky__peer_run *run) {
    return run->put_bytes > SKY_PEER_SMALL_PUT ? run->put_bytes : 0;
}

/* The room that payloads of a put came to. */
static void give_places(sky_peer_server *s, sky__peer_run *run) {
    atomic_fetch_sub(&s->staged_bytes, share_of(run));
    give_reserves(s, run);
    sky__peer_staging_give(s, run->staged, run->staged_room);
}

static void free_run(sky__peer_connection *c, sky__peer_run *run) {
    if (run->placed)
        give_places(c->server, run);
    free(run);
    c->run_count--;
}

/* Room for all that a run has, in one piece of memory. */
static sky__peer_run *make_run(const sky_peer_frame *f) {
    size_t names = 0, n = f->count;
    for (uint32_t i = 0; i < f->count; i++)
        names += f->orders[i].name_bytes;
    sky__peer_run *run = calloc(1, sizeof *run +
                                       n * (sizeof *run->orders + sizeof *run->items +
                                            sizeof *run->spans + sizeof *run->reserves) +
                                       names);
    if (!run)
        return NULL;
    run->orders = (void *)(run + 1);
    run->items = (void *)(run->orders + n);
    run->spans = (void *)(run->items + n);
    run->reserves = (void *)(run->spans + n);
    run->names = (void *)(run->reserves + n);
    return run;
}

/* Of what ends with the connection. */
static bool has_owner(sky_op op) {
    return op == SKY_OP_GET || op == SKY_OP_ANNOUNCE || op == SKY_OP_WITHDRAW;
}

static void fill_run(const sky__peer_connection *c, const sky_peer_frame *f, sky__peer_run *run) {
    char *name = run->names;
    run->id = f->id;
    run->count = f->count;
    run->op = f->op;
    memcpy(run->orders, f->orders, f->count * sizeof *run->orders);
    for (uint32_t n = 0; n < f->count; n++) {
        const sky_peer_order *o = &f->orders[n];
        run->items[n] = (sky_item){.key = o->key, .parent = o->parent};
        if (o->name_bytes > 0) {
            memcpy(name, o->name, o->name_bytes);
            run->items[n].name = name;
            run->items[n].name_bytes = o->name_bytes;
            name += o->name_bytes;
        }
    }
    run->call = sky__call_from_fields(&f->call, sky_now());
    run->call.tiers = c->server->tiers;
    run->call.event_fd = c->event;
    run->call.owner = has_owner(f->op) ? c->owner : 0;
}

/* ---- to the cache ---- */

static void queue_answer(sky__peer_connection *c, sky__peer_run *run) {
    run->next = NULL;
    if (run->placed) { /* the cache has it, or never will: others need the room */
        give_places(c->server, run);
        run->placed = false;
    }
    *(c->first ? &c->last->next : &c->first) = run;
    c->last = run;
}

static void answer_all(sky__peer_connection *c, sky__peer_run *run, sky_status status) {
    for (uint32_t n = 0; n < run->count; n++)
        run->items[n].status = status;
    queue_answer(c, run);
}

/* Items of a run before item n that are not damaged; those that are the cache does not see. */
static uint32_t count_good(const sky__peer_run *run, uint32_t n) {
    if (run->damaged == 0)
        return n;
    uint64_t before = n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
    return n - (uint32_t)__builtin_popcountll(run->damaged & before);
}

static bool is_damaged(const sky__peer_run *run, uint32_t n) {
    return run->damaged != 0 && run->damaged >> n & 1;
}

/* SKY_E_BUSY: the cache has no room for it now. */
static sky_status begin_run(sky__peer_connection *c, sky__peer_run *run) {
    sky_op op = run->op == SKY_OP_GET ? SKY_OP_LEASE : run->op;
    sky_status status = sky_submit(c->server->cache, op, run->items, count_good(run, run->count),
                                   &run->call, &run->batch);
    c->stalled = status == SKY_E_BUSY ? run : NULL;
    c->waits_for_room = c->stalled != NULL;
    if (status == SKY_E_BUSY)
        return status;
    if (status != SKY_OK) {
        answer_all(c, run, status);
    } else if (sky_wait(c->server->cache, run->batch, 1) == SKY_OK) { /* most are done */
        queue_answer(c, run);
    } else {
        run->next = c->runs;
        c->runs = run;
    }
    return SKY_OK;
}

void sky__peer_collect(sky__peer_connection *c) {
    for (sky__peer_run **at = &c->runs; *at;) {
        sky__peer_run *run = *at;
        if (sky_wait(c->server->cache, run->batch, 1) != SKY_OK) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        queue_answer(c, run);
    }
}

sky_time sky__peer_next_deadline(const sky__peer_connection *c) {
    sky_time first = SKY_TIME_NEVER;
    for (const sky__peer_run *run = c->runs; run; run = run->next)
        if (run->call.deadline_ns != 0 && run->call.deadline_ns < first)
            first = run->call.deadline_ns;
    return first;
}

/* ---- puts ---- */

/* Large payloads come into the nearest tier itself, where that has room; how many bytes do not. */
static uint64_t reserve_large(const sky_peer_server *s, sky__peer_run *run) {
    uint64_t rest = 0;
    for (uint32_t n = 0; n < run->count; n++) {
        const sky_peer_order *o = &run->orders[n];
        if (o->bytes < SKY__PEER_RESERVE_MIN ||
            sky_memory_reserve_take(s->nearest, o->bytes, o->name_bytes, &run->reserves[n]) !=
                SKY_OK)
            rest += o->bytes;
    }
    return rest;
}

/* With the mutex held. */
static bool is_first_in_queue(const sky__peer_connection *c) {
    const sky_peer_server *s = c->server;
    for (size_t i = 0; i < SKY_PEER_CONNECTIONS_MAX; i++)
        if (s->places[i].ticket != 0 && (c->ticket == 0 || s->places[i].ticket < c->ticket))
            return false;
    return true;
}

/* In the order in which they asked, so that a put larger than all the room comes to its turn. */
static bool take_share(sky__peer_connection *c, uint64_t bytes) {
    sky_peer_server *s = c->server;
    sky_mutex_lock(&s->mutex);
    uint64_t others = atomic_load(&s->staged_bytes);
    bool fits = is_first_in_queue(c) && (others == 0 || others + bytes <= SKY__PEER_STAGED_MAX);
    atomic_fetch_add(&s->staged_bytes, fits ? bytes : 0);
    if (!fits && c->ticket == 0) {
        c->ticket = ++s->tickets;
        atomic_fetch_add(&s->queue_count, 1);
    }
    sky_mutex_unlock(&s->mutex);
    return fits;
}

static void leave_queue(sky__peer_connection *c) {
    sky_peer_server *s = c->server;
    sky_mutex_lock(&s->mutex);
    atomic_fetch_sub(&s->queue_count, c->ticket != 0);
    c->ticket = 0;
    sky_mutex_unlock(&s->mutex);
}

/* Room for the payloads that come; false: there is none now. */
static bool find_places(sky__peer_connection *c, sky__peer_run *run) {
    sky_peer_server *s = c->server;
    uint64_t share = share_of(run);
    if (share > 0 && !take_share(c, share))
        return false;
    uint64_t rest = reserve_large(s, run);
    run->staged = rest > 0 ? sky__peer_staging_take(s, rest, &run->staged_room) : NULL;
    run->placed = rest == 0 || run->staged;
    if (run->placed) {
        if (share > 0)
            leave_queue(c);
        c->coming_since = sky_now();
        return true;
    }
    run->staged_room = 0;
    give_reserves(s, run);
    atomic_fetch_sub(&s->staged_bytes, share);
    return false;
}

/* Sooner than those that wait give up, which clients do after a minute. */
sky_time sky__peer_coming_by(const sky__peer_connection *c) {
    uint64_t share = c->coming && c->coming->placed ? share_of(c->coming) : 0;
    if (share == 0 || atomic_load(&c->server->queue_count) == 0)
        return SKY_TIME_NEVER;
    return c->coming_since + c->server->stuck_ns / 3 +
           (sky_time)(share * (SKY_SECONDS(1) / SKY__PEER_PUT_BYTES_S));
}

/* On to the next payload of a put of which bytes come. */
static void skip_whole(sky__peer_connection *c) {
    const sky__peer_run *run = c->coming;
    while (c->coming_n < run->count && c->coming_at == run->orders[c->coming_n].bytes) {
        c->coming_n++;
        c->coming_at = 0;
    }
}

static void take_out_damaged(sky__peer_run *run) {
    for (uint32_t n = 0; n < run->count; n++)
        if (!is_damaged(run, n))
            run->items[count_good(run, n)] = run->items[n];
}

/* A payload of a put is whole, or all are empty. */
static sky_status go_on_coming(sky__peer_connection *c) {
    sky__peer_run *run = c->coming;
    skip_whole(c);
    if (c->coming_n < run->count)
        return SKY_OK;
    c->coming = NULL;
    take_out_damaged(run);
    if (!run->cancelled && count_good(run, run->count) > 0)
        return begin_run(c, run);
    answer_all(c, run, SKY_E_CANCELLED);
    return SKY_OK;
}

/* Where there is no room all payloads are empty. */
static void lay_out(sky__peer_run *run) {
    uint64_t at = 0;
    for (uint32_t n = 0; n < run->count; n++) {
        uint64_t bytes = run->orders[n].bytes;
        uint8_t *to = run->reserves[n].data;
        if (bytes > 0 && !to) {
            to = run->staged + at;
            at += bytes;
        }
        run->spans[n] = (sky_span){to, bytes};
        run->items[n].spans = &run->spans[n];
        run->items[n].span_count = bytes > 0;
    }
}

/* Errors: SKY_E_CORRUPT; SKY_E_BUSY: there is no room yet */
static sky_status begin_put(sky__peer_connection *c, sky__peer_run *run) {
    uint64_t all = 0, most = c->server->payload_bytes_max;
    for (uint32_t n = 0; n < run->count; n++) {
        if (run->orders[n].bytes > most || all >= SKY_PEER_PUT_BYTES_MAX) {
            c->why = "it puts more than it was told that it may";
            return SKY_E_CORRUPT;
        }
        all += run->orders[n].bytes;
    }
    c->coming = run;
    c->coming_n = 0;
    c->coming_at = 0;
    run->put_bytes = all;
    skip_whole(c);
    if (all > 0 && !find_places(c, run)) {
        c->waits_for_room = true;
        return SKY_E_BUSY;
    }
    lay_out(run);
    return go_on_coming(c);
}

bool sky__peer_find_room(sky__peer_connection *c) {
    if (!c->waits_for_room)
        return true;
    c->waits_for_room = false;
    if (c->stalled)
        return begin_run(c, c->stalled) == SKY_OK;
    c->waits_for_room = !find_places(c, c->coming);
    if (!c->waits_for_room)
        lay_out(c->coming);
    return !c->waits_for_room;
}

uint64_t sky__peer_coming(const sky__peer_connection *c) {
    return c->coming ? c->coming->orders[c->coming_n].bytes - c->coming_at : 0;
}

uint32_t sky__peer_coming_place(const sky__peer_connection *c, size_t bytes, sky_span *spans) {
    uint8_t *to = c->coming->spans[c->coming_n].data;
    spans[0] = (sky_span){to + c->coming_at, bytes};
    return 1;
}

/* In plain the link takes the sum. */
void sky__peer_coming_placed(sky__peer_connection *c, size_t bytes) {
    if (c->coming->reserves[c->coming_n].data && !sky_peer_link_is_plain(c->link)) {
        const sky_span *s = &c->coming->spans[c->coming_n];
        if (c->coming_at == 0)
            sky_checksum_init(&c->coming_sum, 0);
        sky_checksum_add(&c->coming_sum, (const uint8_t *)s->data + c->coming_at, bytes);
    }
    c->coming_at += bytes;
}

/* The payload that comes is whole. */
static void end_coming(sky__peer_connection *c, const sky_peer_sum *sum) {
    sky__peer_run *run = c->coming;
    const sky_memory_reserve *reserve = &run->reserves[c->coming_n];
    if (sum && !sum->right)
        run->damaged |= (uint64_t)1 << c->coming_n;
    else if (reserve->data)
        sky_memory_reserve_fill(c->server->nearest, reserve,
                                sum ? sum->sum : sky_checksum_end(&c->coming_sum));
}

sky_status sky__peer_take_coming(sky__peer_connection *c, size_t bytes, const sky_peer_sum *sum) {
    sky__peer_run *run = c->coming;
    atomic_fetch_add(&c->server->received_bytes, bytes);
    if (bytes == 0) {
        run->cancelled = true; /* its caller has gone: nothing of this frame is stored */
        c->coming_at = run->orders[c->coming_n].bytes;
    } else if (sky__peer_coming(c) == 0) {
        end_coming(c, sum);
    }
    return sky__peer_coming(c) == 0 ? go_on_coming(c) : SKY_OK;
}

/* ---- frames ---- */

sky_status sky__peer_take_run(sky__peer_connection *c) {
    const sky_peer_frame *f = c->frame;
    if (c->run_count == SKY__PEER_RUNS_MAX) {
        c->why = "it asks for more at once than it may";
        return SKY_E_CORRUPT;
    }
    sky__peer_run *run = make_run(f);
    if (!run) {
        c->why = "no memory is left for it";
        return SKY_E_NOMEM;
    }
    c->run_count++;
    atomic_fetch_add(&c->server->run_count, 1);
    c->owner = OWNER_OF_A_PEER | c->number;
    fill_run(c, f, run);
    if (f->op == SKY_OP_ANNOUNCE)
        c->announced_until = sky_now() + SKY_SECONDS(600); /* the longest, as cache.h says */
    if (f->op != SKY_OP_PUT)
        return begin_run(c, run);
    sky_status status = begin_put(c, run);
    if (status == SKY_E_CORRUPT)
        free_run(c, run);
    return status;
}

void sky__peer_take_cancel(sky__peer_connection *c) {
    for (sky__peer_run **at = &c->runs; *at; at = &(*at)->next) {
        sky__peer_run *run = *at;
        if (run->id != c->frame->id)
            continue;
        *at = run->next;
        sky_cancel(c->server->cache, run->batch);
        run->cancelled = true;
        queue_answer(c, run);
        return;
    }
}

/* ---- answers ---- */

/* What of a leased payload is to be sent. */
static sky_status cut_payload(const sky_item *item, const sky_peer_order *o, sky_span *out) {
    sky_range range;
    sky_status status = sky_range_resolve((sky_range){o->offset, o->bytes}, item->view.bytes,
                                          &range);
    if (status == SKY_OK && range.bytes > o->room)
        status = SKY_E_DST_SMALL;
    if (status == SKY_OK)
        *out = (sky_span){(uint8_t *)item->view.data + range.offset, range.bytes};
    return status;
}

static void make_result(const sky__peer_run *run, uint32_t n, sky_peer_result *out) {
    if (is_damaged(run, n)) {
        *out = (sky_peer_result){.status = SKY_E_CORRUPT};
        return;
    }
    const sky_item *item = &run->items[count_good(run, n)];
    sky_status status = item->status;
    *out = (sky_peer_result){
        .ttl_s = item->ttl_s, .coding = item->coding, .evict = item->evict, .pinned = item->pinned};
    if (run->op == SKY_OP_GET) {
        run->spans[n] = (sky_span){NULL, 0};
        if (status == SKY_OK)
            status = run->cancelled ? SKY_E_CANCELLED
                                    : cut_payload(item, &run->orders[n], &run->spans[n]);
        out->bytes = run->spans[n].bytes;
    } else if (status == SKY_OK) {
        out->bytes = item->bytes;
    }
    out->status = status;
}

static bool announce_run(sky__peer_connection *c, const sky__peer_run *run) {
    sky_peer_frame *f = c->frame;
    f->kind = SKY_PEER_DONE;
    f->id = run->id;
    f->count = run->count;
    f->payloads = run->op == SKY_OP_GET;
    for (uint32_t n = 0; n < run->count; n++)
        make_result(run, n, &f->results[n]);
    return sky_peer_link_send(c->link, f);
}

/* Lend a piece of `bytes` bytes of which *at are sent. sum: NULL: is not known. False: there is no
 * room. */
static bool lend_piece(sky__peer_connection *c, const uint8_t *data, uint64_t bytes, uint64_t *at,
                       const uint64_t *sum) {
    uint64_t left = bytes - *at;
    size_t now = left < SKY_PEER_PIECE_BYTES_MAX ? left : SKY_PEER_PIECE_BYTES_MAX;
    const sky_peer_part part = {.first = *at == 0, .last = now == left, .sum = sum};
    if (!sky_peer_link_lend(c->link, data + *at, now, &part))
        return false;
    *at += now;
    return true;
}

/* The run that is announced: its next piece. False: there is no room, or nothing is left. */
static bool send_piece(sky__peer_connection *c, const sky__peer_run *run) {
    if (run->op != SKY_OP_GET)
        c->sending_n = run->count;
    while (c->sending_n < run->count && c->sending_at == run->spans[c->sending_n].bytes) {
        c->sending_n++;
        c->sending_at = 0;
    }
    if (c->sending_n == run->count)
        return false;
    const sky_span *s = &run->spans[c->sending_n];
    uint64_t before = c->sending_at;
    if (before == 0) /* of a part of a payload it tells none */
        c->sum_known = sky_memory_tier_checksum(c->server->nearest, &run->orders[c->sending_n].key,
                                                s, &c->sending_sum);
    bool sent = lend_piece(c, s->data, s->bytes, &c->sending_at,
                           c->sum_known ? &c->sending_sum : NULL);
    atomic_fetch_add(&c->server->sent_bytes, c->sending_at - before);
    return sent;
}

/* One step; false: there is no room, or nothing to send. */
static bool answer_step(sky__peer_connection *c) {
    if (c->text)
        return c->text_at < c->text_bytes &&
               lend_piece(c, c->text, c->text_bytes, &c->text_at, NULL);
    if (c->announced)
        return send_piece(c, c->first);
    if (c->asked && sky__peer_tell(c))
        return true;
    if (!c->first || !announce_run(c, c->first))
        return false;
    c->announced = true;
    c->sending_n = 0;
    c->sending_at = 0;
    return true;
}

bool sky__peer_answer(sky__peer_connection *c) {
    bool some = false;
    while (answer_step(c))
        some = true;
    return some;
}

void sky__peer_note_flushed(sky__peer_connection *c) {
    sky__peer_run *run = c->first;
    if (c->lists && c->text_at == c->text_bytes)
        sky__peer_give_listing(c);
    if (!c->announced || c->sending_n < run->count)
        return;
    c->announced = false;
    c->first = run->next;
    release_leases(c, run);
    free_run(c, run);
}

/* ---- the end ---- */

static void free_list(sky__peer_connection *c, sky__peer_run *run) {
    while (run) {
        sky__peer_run *next = run->next;
        free_run(c, run);
        run = next;
    }
}

void sky__peer_runs_end(sky__peer_connection *c) {
    for (const sky__peer_run *run = c->runs; run; run = run->next)
        sky_cancel(c->server->cache, run->batch);
    if (c->owner != 0)
        (void)sky_release_owner(c->server->cache, c->owner, NULL);
    if (c->coming)
        free_run(c, c->coming);
    if (c->stalled)
        free_run(c, c->stalled);
    free_list(c, c->runs);
    free_list(c, c->first);
    leave_queue(c);
}
