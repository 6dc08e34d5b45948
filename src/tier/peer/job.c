/* Jobs to frames, and answers to items. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "io/clock.h"
#include "tier/fields.h"
#include "tier/peer/peer_state.h"
#include "tier/spans.h"

/* While a host answers lookups and sends nothing of gets, times that for one that says nothing: it
 * may read a payload from a slow disk. Any get's answer begins it again, as answers come one after
 * the other over a link that may be slow. It is the same for lookups behind a put that may wait.
 * A host that is alone is waited for as long, but until it says nothing of any kind: nobody else
 * can be asked. */
#define ONE_PATIENCE 4

static void pass_answer(sky__peer *p, const sky__peer_job *j, uint32_t i, const sky_answer *a) {
    if (j->request) {
        sky__peer_set_note(p, j, i, a);
        return;
    }
    sky_mutex_lock(&p->mutex);
    sky__count_answer(&p->counts, j->op, a);
    sky_mutex_unlock(&p->mutex);
    sky_batches_answer(p->tier.batches, j->batch, i, a);
}

/* What a host said, whatever that is. */
static void answer_item(sky__peer *p, const sky__peer_job *j, uint32_t i, sky_answer *a) {
    a->tier = sky__answering_tier(p->env.index, a->status);
    pass_answer(p, j, i, a);
}

static void end_item(sky__peer *p, const sky__peer_job *j, uint32_t i, sky_status status) {
    pass_answer(p, j, i, &(sky_answer){.status = status, .tier = SKY_TIER_NONE});
}

/* A job goes once nothing of it is left to send or to come. */
static void drop_job_if_over(sky__peer *p, sky__peer_job *j) {
    if (j->sent < j->count || j->flights > 0)
        return;
    if (j->request) {
        sky__peer_set_end_job(j->request);
        free(j);
        return;
    }
    sky_mutex_lock(&p->mutex);
    sky__peer_job_free(p, j);
    sky_mutex_unlock(&p->mutex);
}

static sky__peer_job *first_job(sky__peer_lane *l) {
    sky_mutex_lock(&l->peer->mutex);
    sky__peer_job *j = l->first;
    sky_mutex_unlock(&l->peer->mutex);
    return j;
}

static void pop_job(sky__peer_lane *l) {
    sky_mutex_lock(&l->peer->mutex);
    sky__peer_job *j = l->first;
    l->first = j->next;
    l->peer->job_count--;
    sky_mutex_unlock(&l->peer->mutex);
    drop_job_if_over(l->peer, j);
}

static void end_flight(sky__peer *p, sky__peer_flight *f) {
    sky__peer_job *j = f->job;
    f->job = NULL;
    j->flights--;
    drop_job_if_over(p, j);
}

/* ---- frames out ---- */

/* Fill in what a put or a get has more than a key. Names are copied: the caller may take back its
 * own before the frame is made. */
static sky_status fill_payload(sky__peer_lane *l, sky_op op, const sky_item *item,
                               sky__peer_flight *f, uint32_t n, sky_peer_order *order) {
    if (op == SKY_OP_GET) {
        order->offset = item->range.offset;
        order->bytes = item->range.bytes;
        order->room = f->bytes[n] = sky_spans_bytes(item->spans, item->span_count);
        return SKY_OK;
    }
    sky_status status = sky__check_put(item, atomic_load(&l->host->payload_bytes_max),
                                       &order->bytes);
    f->bytes[n] = order->bytes;
    if (status != SKY_OK || !item->name)
        return status;
    order->name_bytes = (uint16_t)item->name_bytes;
    order->name = l->names[n];
    memcpy(l->names[n], item->name, item->name_bytes);
    return SKY_OK;
}

/* The next item of a job into a frame. */
static void add_item(sky__peer_lane *l, sky__peer_job *j, sky__peer_flight *f,
                     sky_peer_frame *frame) {
    sky__peer *p = l->peer;
    uint32_t i = j->parts[j->sent++].item, n = frame->count;
    bool payloads = j->op == SKY_OP_GET || j->op == SKY_OP_PUT;
    const sky_item *item = sky_batches_enter(p->tier.batches, j->batch, i);
    if (!item)
        return; /* nobody wants it any more */
    frame->orders[n] = (sky_peer_order){.key = item->key};
    if (!j->orphans)
        frame->orders[n].parent = item->parent;
    sky_status status = SKY_OK;
    if (payloads)
        status = fill_payload(l, j->op, item, f, n, &frame->orders[n]);
    sky_batches_leave(p->tier.batches, j->batch);
    if (status != SKY_OK) {
        end_item(p, j, i, status);
        return;
    }
    f->origin[n] = i;
    frame->count++;
}

static void fill_frame(sky__peer_lane *l, sky__peer_job *j, sky__peer_flight *f) {
    sky_peer_frame *frame = &l->frame;
    bool payloads = j->op == SKY_OP_GET || j->op == SKY_OP_PUT;
    uint32_t most = payloads ? SKY_PEER_PAYLOAD_ITEMS_MAX : SKY_PEER_ITEMS_MAX;
    uint64_t bytes = 0;
    frame->kind = SKY_PEER_RUN;
    frame->id = sky__frame_id(l->frame_count++, (uint32_t)(f - l->flights), SKY__PEER_FLIGHTS_MAX);
    frame->op = j->op;
    frame->count = 0;
    while (j->sent < j->count && frame->count < most && bytes < SKY_PEER_PUT_BYTES_MAX) {
        uint32_t before = frame->count;
        add_item(l, j, f, frame);
        if (j->op == SKY_OP_PUT && frame->count > before)
            bytes += f->bytes[before];
    }
    frame->call = sky__call_to_fields(&j->call, l->peer->env.clock->now(l->peer->env.clock));
}

/* Write a frame of the first job. False: nothing more can be written now. */
static bool write_run(sky__peer_lane *l) {
    sky__peer_job *j = first_job(l);
    uint32_t slot = 0;
    while (slot < SKY__PEER_FLIGHTS_MAX && l->flights[slot].job)
        slot++;
    uint8_t *content = j && slot < SKY__PEER_FLIGHTS_MAX
                           ? sky_peer_link_begin(l->link, SKY_PEER_FRAME_BYTES_MAX)
                           : NULL;
    if (!content)
        return false;
    sky__peer_flight *f = &l->flights[slot];
    fill_frame(l, j, f);
    if (l->frame.count > 0) {
        f->job = j;
        f->id = l->frame.id;
        f->count = l->frame.count;
        f->cancelled = false;
        f->made_at = sky_now();
        j->flights++;
        sky_peer_link_end(l->link, sky_peer_encode(&l->frame, content));
        if (j->op == SKY_OP_PUT)
            l->writing = (sky__peer_moving){.flight = f};
    }
    if (j->sent == j->count)
        pop_job(l);
    return true;
}

/* ---- payloads out ---- */

/* The next bytes of an item's spans from `at` on, at most `bytes` of them and so many spans as a
 * link takes; *bytes: how many. Spans without data are so. */
static uint32_t cut_spans(const sky_item *item, uint64_t at, size_t *bytes, sky_span *spans) {
    size_t left = *bytes;
    uint32_t count = 0;
    for (uint32_t i = 0; left > 0 && i < item->span_count && count < SKY_PEER_SPANS_MAX - 1; i++) {
        const sky_span *s = &item->spans[i];
        if (at >= s->bytes) {
            at -= s->bytes;
            continue;
        }
        size_t now = s->bytes - at < left ? s->bytes - at : left;
        spans[count++] = (sky_span){s->data ? (uint8_t *)s->data + at : NULL, now};
        left -= now;
        at = 0;
    }
    *bytes -= left;
    return count;
}

/* A piece of no bytes: the caller has its memory back, and the payload ends. */
static bool write_end(sky__peer_lane *l) {
    sky__peer_moving *w = &l->writing;
    if (!sky_peer_link_give_up(l->link))
        return false;
    w->at = w->flight->bytes[w->n];
    return true;
}

/* Write a piece of the payload under way, or of the next. False: there is no room. */
static bool write_piece(sky__peer_lane *l) {
    sky__peer_moving *w = &l->writing;
    const sky__peer_flight *f = w->flight;
    sky_batches *batches = l->peer->tier.batches;
    while (w->n < f->count && w->at == f->bytes[w->n]) {
        w->n++;
        w->at = 0;
    }
    if (w->n == f->count) {
        w->flight = NULL;
        return true;
    }
    uint64_t left = f->bytes[w->n] - w->at;
    size_t bytes = left < SKY_PEER_PIECE_BYTES_MAX ? left : SKY_PEER_PIECE_BYTES_MAX;
    const sky_item *item = sky_batches_enter(batches, f->job->batch, f->origin[w->n]);
    if (!item)
        return write_end(l);
    sky_span spans[SKY_PEER_SPANS_MAX];
    uint32_t count = cut_spans(item, w->at, &bytes, spans);
    const sky_peer_part part = {.first = w->at == 0, .last = w->at + bytes == f->bytes[w->n]};
    bool written = sky_peer_link_pass(l->link, spans, count, bytes, &part);
    sky_batches_leave(batches, f->job->batch);
    w->at += written ? bytes : 0;
    return written;
}

static bool write_cancels(sky__peer_lane *l) {
    bool some = false;
    if (l->writing.flight || !atomic_exchange(&l->cancels, false))
        return false;
    for (uint32_t i = 0; i < SKY__PEER_FLIGHTS_MAX; i++) {
        sky__peer_flight *f = &l->flights[i];
        if (!f->job || f->cancelled || sky_batches_alive(l->peer->tier.batches, f->job->batch))
            continue;
        f->cancelled = true; /* one that finds no room is not sent: it spares work, no more */
        l->frame.kind = SKY_PEER_CANCEL;
        l->frame.id = f->id;
        l->frame.count = 0;
        some |= sky_peer_link_send(l->link, &l->frame);
    }
    return some;
}

bool sky__peer_write(sky__peer_lane *l) {
    bool some = write_cancels(l);
    while (l->writing.flight ? write_piece(l) : write_run(l))
        some = true;
    return some;
}

bool sky__peer_has_to_write(sky__peer_lane *l) {
    return l->writing.flight || first_job(l);
}

/* A large put is not answered: the host receives nothing behind it before it has room for it. */
static bool may_wait_for_room(const sky__peer_lane *l) {
    for (uint32_t i = 0; i < SKY__PEER_FLIGHTS_MAX; i++) {
        const sky__peer_flight *f = &l->flights[i];
        uint64_t bytes = 0;
        if (!f->job || f->job->op != SKY_OP_PUT)
            continue;
        for (uint32_t n = 0; n < f->count; n++)
            bytes += f->bytes[n];
        if (bytes > SKY_PEER_SMALL_PUT)
            return true;
    }
    return false;
}

/* Others wait for what a third one does. */
static bool is_answered_soon(sky_op op) {
    return op == SKY_OP_HAS || op == SKY_OP_GET || op == SKY_OP_REMOVE || op == SKY_OP_PIN ||
           op == SKY_OP_UNPIN;
}

sky_time sky__peer_silent_at(const sky__peer_lane *l) {
    sky_time first = SKY_TIME_NEVER, patience = l->peer->patience.silent_ns;
    bool waits = may_wait_for_room(l), alone = !l->peer->file;
    for (uint32_t i = 0; i < SKY__PEER_FLIGHTS_MAX && !(waits && alone); i++) {
        const sky__peer_flight *f = &l->flights[i];
        if (!f->job || !is_answered_soon(f->job->op))
            continue;
        sky_time shown = alone ? l->heard_at : l->got_at;
        sky_time until = sky__later(f->made_at, shown) + ONE_PATIENCE * patience;
        if (f->job->op == SKY_OP_HAS && !waits && !alone)
            until = sky__sooner(until, sky__later(f->made_at, l->heard_at) + patience);
        first = sky__sooner(first, until);
    }
    return first;
}

/* ---- answers ---- */

static void answer_result(sky__peer *p, const sky__peer_flight *f, uint32_t n,
                          const sky_peer_result *r) {
    sky_op op = f->job->op;
    sky_answer a = {.status = r->status};
    if (r->status == SKY_OK && op == SKY_OP_PUT) {
        a.bytes = f->bytes[n];
    } else if (r->status == SKY_OK && (op == SKY_OP_HAS || op == SKY_OP_GET || op == SKY_OP_AWAIT ||
                                       op == SKY_OP_EXPECT)) {
        a.bytes = r->bytes;
        a.coding = r->coding;
        a.ttl_s = r->ttl_s;
        a.evict = r->evict;
        a.pinned = op != SKY_OP_GET && r->pinned;
    }
    answer_item(p, f->job, f->origin[n], &a);
}

/* Go on to the next item of a get of which bytes come. */
static void read_next(sky__peer_lane *l) {
    sky__peer_moving *r = &l->reading;
    sky__peer_flight *f = r->flight;
    for (; r->n < f->count; r->n++) {
        const sky_peer_result *result = &l->results[r->n];
        if (result->status == SKY_OK && r->at < result->bytes)
            return;
        answer_result(l->peer, f, r->n, result);
        r->at = 0;
    }
    r->flight = NULL;
    end_flight(l->peer, f);
}

sky_status sky__peer_take_done(sky__peer_lane *l) {
    const sky_peer_frame *done = &l->frame;
    sky__peer_flight *f = &l->flights[done->id % SKY__PEER_FLIGHTS_MAX];
    if (!f->job || f->id != done->id || f->count != done->count || l->writing.flight == f ||
        done->payloads != (f->job->op == SKY_OP_GET))
        return SKY_E_CORRUPT;
    if (f->job->op == SKY_OP_HAS)
        sky__peer_note_round_trip(l, sky_now() - f->made_at);
    if (!done->payloads) {
        for (uint32_t n = 0; n < f->count; n++)
            answer_result(l->peer, f, n, &done->results[n]);
        end_flight(l->peer, f);
        return SKY_OK;
    }
    for (uint32_t n = 0; n < f->count; n++)
        if (done->results[n].bytes > f->bytes[n])
            return SKY_E_CORRUPT;
    l->got_at = sky_now();
    memcpy(l->results, done->results, f->count * sizeof *l->results);
    l->reading = (sky__peer_moving){.flight = f};
    read_next(l);
    return SKY_OK;
}

uint64_t sky__peer_expected(const sky__peer_lane *l) {
    const sky__peer_moving *r = &l->reading;
    return r->flight ? l->results[r->n].bytes - r->at : 0;
}

uint32_t sky__peer_place(sky__peer_lane *l, size_t bytes, sky_span *spans) {
    sky__peer_moving *r = &l->reading;
    const sky__peer_flight *f = r->flight;
    const sky_item *item = sky_batches_enter(l->peer->tier.batches, f->job->batch, f->origin[r->n]);
    r->guarded = item != NULL;
    if (!item) {
        spans[0] = (sky_span){NULL, bytes};
        return 1;
    }
    return cut_spans(item, r->at, &bytes, spans); /* they hold it: take_done looked */
}

void sky__peer_placed(sky__peer_lane *l, size_t bytes) {
    sky__peer_moving *r = &l->reading;
    l->got_at = sky_now();
    r->at += bytes;
    if (r->guarded)
        sky_batches_leave(l->peer->tier.batches, r->flight->job->batch);
    r->guarded = false;
}

sky_status sky__peer_take_piece(sky__peer_lane *l, size_t bytes, const sky_peer_sum *sum) {
    if (bytes == 0)
        return SKY_E_CORRUPT; /* a host sends what it announced */
    if (sum && !sum->right)   /* it went bad on the way, or lies so in the host's memory */
        l->results[l->reading.n].status = SKY_E_CORRUPT;
    if (sky__peer_expected(l) == 0)
        read_next(l);
    return SKY_OK;
}

/* ---- the end of a connection ---- */

void sky__peer_fail_all(sky__peer_lane *l, sky_status status) {
    sky__peer *p = l->peer;
    uint32_t read_before = l->reading.flight ? l->reading.n : 0;
    for (uint32_t slot = 0; slot < SKY__PEER_FLIGHTS_MAX; slot++) {
        sky__peer_flight *f = &l->flights[slot];
        if (!f->job)
            continue;
        for (uint32_t n = l->reading.flight == f ? read_before : 0; n < f->count; n++)
            end_item(p, f->job, f->origin[n], status);
        end_flight(l->peer, f);
    }
    l->reading.flight = l->writing.flight = NULL;
    for (sky__peer_job *j; (j = first_job(l)); pop_job(l))
        for (; j->sent < j->count; j->sent++)
            end_item(p, j, j->parts[j->sent].item, status);
}
