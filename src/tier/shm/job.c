/* Jobs to frames, and answers to items. */
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "tier/fields.h"
#include "tier/shm/shm_state.h"
#include "tier/spans.h"

#define LOCKED_COPY_BYTES 16384u /* to copy it takes less than to release the mutex and take it */

static void pass_answer(sky__shm *t, const sky__shm_job *j, size_t i, const sky_answer *a) {
    sky__count_answer(&t->counts, j->op, a);
    sky_batches_answer(t->tier.batches, j->batch, i, a);
}

/* What the host said, whatever that is. */
static void answer_item(sky__shm *t, const sky__shm_job *j, size_t i, sky_answer *a) {
    a->tier = sky__answering_tier(t->env.index, a->status);
    pass_answer(t, j, i, a);
}

static void end_item(sky__shm *t, const sky__shm_job *j, size_t i, sky_status status) {
    pass_answer(t, j, i, &(sky_answer){.status = status, .tier = SKY_TIER_NONE});
}

/* A job goes once nothing of it is left to send or to come. */
static void job_drop(sky__shm_job *j) {
    if (j->sent == j->count && j->flights == 0)
        free(j);
}

static void fail_link(sky__shm *t) {
    t->broken = true;
    sky_event_raise(t->event);
}

static void send_frame(sky__shm *t, const sky_shm_frame *frame) {
    if (!t->broken && sky__shm_link_send(t->link, frame) != SKY_OK)
        fail_link(t);
}

void sky__shm_call_host(sky__shm *t) {
    sky_shm_frame release = {.kind = SKY_SHM_RELEASE, .count = t->return_count};
    memcpy(release.leases, t->returns, t->return_count * sizeof *t->returns);
    if (t->link)
        send_frame(t, &release);
    t->return_count = 0;
}

void sky__shm_send_returns(sky__shm *t) {
    if (t->return_count > 0)
        sky__shm_call_host(t);
}

/* A frame for each would wake the host once more for each get. */
void sky__shm_return(sky__shm *t, const uint64_t *leases, uint32_t count) {
    for (uint32_t i = 0; i < count && t->link; i++) {
        if (t->return_count == SKY_SHM_ITEMS_MAX)
            sky__shm_send_returns(t);
        t->returns[t->return_count++] = leases[i];
    }
    t->returned |= count > 0;
    if (t->return_count == 0 || t->return_at != 0)
        return;
    t->return_at = sky_now() + SKY__SHM_RETURN_NS;
    sky_event_raise(t->event); /* the thread sends them if no frame does */
}

/* ---- sending ---- */

/* Ask for a stage that holds so many bytes, once nothing lies in the one there is. */
static void ask_for_stage(sky__shm *t, uint64_t bytes) {
    sky__shm_link *l = t->link;
    if (l->staging || (l->stage && sky_arena_used_units(l->stage_places) > 0))
        return;
    uint64_t most = l->arena_bytes + SKY_NAME_BYTES_MAX;
    uint64_t wanted = bytes > SKY__SHM_STAGE_BYTES_MIN ? bytes : SKY__SHM_STAGE_BYTES_MIN;
    l->staging = wanted < most ? wanted : most;
    send_frame(t, &(sky_shm_frame){.kind = SKY_SHM_STAGE, .stage_bytes = l->staging});
}

/* Room for a payload and its name; SKY_EXTENT_NONE: there is none now. */
static uint32_t stage_take(sky__shm *t, uint64_t bytes) {
    sky__shm_link *l = t->link;
    if (l->staging)
        return SKY_EXTENT_NONE;
    if (!l->stage || bytes > l->stage_bytes) {
        ask_for_stage(t, bytes);
        return SKY_EXTENT_NONE;
    }
    uint64_t units = (bytes + SKY__SHM_STAGE_UNIT - 1) / SKY__SHM_STAGE_UNIT;
    return sky_arena_take(l->stage_places, units ? (uint32_t)units : 1);
}

static void copy_in(uint8_t *to, const sky_item *item) {
    for (uint32_t i = 0; i < item->span_count; i++) {
        if (item->spans[i].bytes > 0)
            memcpy(to, item->spans[i].data, item->spans[i].bytes);
        to += item->spans[i].bytes;
    }
    if (item->name)
        memcpy(to, item->name, item->name_bytes);
}

/* Put item i into a frame, as its place n. SKY_E_BUSY: there is no room for its payload yet. */
static sky_status add_put(sky__shm *t, const sky_item *item, sky__shm_flight *f, uint32_t n,
                          sky_shm_order *order) {
    uint64_t bytes;
    sky_status status = sky__check_put(item, t->link->arena_bytes, &bytes);
    if (status != SKY_OK)
        return status;
    uint32_t name_bytes = item->name ? (uint32_t)item->name_bytes : 0;
    uint32_t extent = stage_take(t, bytes + name_bytes);
    if (extent == SKY_EXTENT_NONE)
        return SKY_E_BUSY;
    order->at = (uint64_t)sky_arena_start(t->link->stage_places, extent) * SKY__SHM_STAGE_UNIT;
    order->bytes = bytes;
    order->name_bytes = name_bytes;
    copy_in(t->link->stage + order->at, item);
    f->extent[n] = extent;
    f->bytes[n] = bytes;
    return SKY_OK;
}

/* The next item of a job into a frame. False: it has to wait. */
static bool add_item(sky__shm *t, sky__shm_job *j, sky__shm_flight *f, sky_shm_frame *frame) {
    size_t i = j->sent;
    sky_item *item = sky_batches_enter(t->tier.batches, j->batch, i);
    if (!item) {
        j->sent++; /* nobody wants it any more */
        return true;
    }
    uint32_t n = frame->count;
    frame->orders[n] = (sky_shm_order){.key = item->key, .parent = item->parent};
    f->extent[n] = SKY_EXTENT_NONE;
    f->bytes[n] = 0;
    const uint64_t staging = t->link->staging;
    sky_status status = SKY_OK;
    if (j->op == SKY_OP_PUT)
        status = add_put(t, item, f, n, &frame->orders[n]);
    if (t->link->staging != staging)
        j->asked = i + 1;
    sky_batches_leave(t->tier.batches, j->batch);
    if (status == SKY_E_BUSY)
        return false;
    j->sent++;
    if (status != SKY_OK) {
        end_item(t, j, i, status);
        return true;
    }
    f->origin[n] = i;
    frame->count++;
    return true;
}

/* Send a frame of the first job. False: nothing more can be sent now. */
static bool send_some(sky__shm *t) {
    sky__shm_job *j = t->first;
    uint32_t slot = 0;
    while (slot < SKY__SHM_FLIGHTS_MAX && t->flights[slot].job)
        slot++;
    if (!j || slot == SKY__SHM_FLIGHTS_MAX || t->link->first || t->broken)
        return false;
    sky__shm_flight *f = &t->flights[slot];
    sky_shm_frame frame = {.kind = SKY_SHM_RUN,
                           .id = sky__frame_id(t->frame_count++, slot, SKY__SHM_FLIGHTS_MAX)};
    bool waits = false;
    while (j->sent < j->count && frame.count < SKY_SHM_ITEMS_MAX && !waits)
        waits = !add_item(t, j, f, &frame);
    if (frame.count > 0) {
        frame.op = j->op == SKY_OP_GET ? SKY_OP_LEASE : j->op;
        frame.call = sky__call_to_fields(&j->call, t->env.clock->now(t->env.clock));
        if (frame.call.evict == SKY_EVICT_NORMAL)
            frame.call.evict = t->place.evict;
        f->job = j;
        f->id = frame.id;
        f->count = frame.count;
        j->flights++;
        sky__shm_send_returns(t);
        send_frame(t, &frame);
    }
    if (j->sent == j->count) {
        t->first = j->next;
        t->job_count--;
        job_drop(j);
    }
    return !waits;
}

void sky__shm_pump(sky__shm *t) {
    if (!t->link || t->broken)
        return;
    if (sky__shm_link_flush(t->link) != SKY_OK)
        fail_link(t);
    while (send_some(t))
        ;
}

/* ---- answers ---- */

static void flight_end(sky__shm *t, sky__shm_flight *f) {
    sky__shm_job *j = f->job;
    for (uint32_t n = 0; n < f->count; n++)
        if (f->extent[n] != SKY_EXTENT_NONE && t->link && t->link->stage_places)
            sky_arena_give(t->link->stage_places, f->extent[n]);
    f->job = NULL;
    j->flights--;
    job_drop(j);
}

/* Copy what was lent into the caller's spans. */
static sky_status copy_out(sky__shm *t, const sky__shm_job *j, size_t i, const uint8_t *payload,
                           uint64_t payload_bytes, uint64_t *bytes) {
    sky_range range;
    const sky_item *item = sky_batches_enter(t->tier.batches, j->batch, i);
    if (!item)
        return SKY_E_CANCELLED;
    sky_status status = sky_range_resolve(item->range, payload_bytes, &range);
    if (status == SKY_OK && range.bytes > sky_spans_bytes(item->spans, item->span_count))
        status = SKY_E_DST_SMALL;
    if (status == SKY_OK) {
        sky_spans_scatter(item->spans, item->span_count, payload + range.offset, range.bytes);
        *bytes = range.bytes;
    }
    sky_batches_leave(t->tier.batches, j->batch);
    return status;
}

/* Hand a lease on to the caller. False: it goes back to the host. */
static bool hand_on(sky__shm *t, const sky__shm_job *j, size_t i, const sky_shm_result *r,
                    sky_answer *a) {
    uint64_t what;
    if (sky_leases_full(t->leases)) {
        a->status = SKY_E_BUSY;
        answer_item(t, j, i, a);
        return false;
    }
    a->tier = t->env.index;
    a->lease = sky_leases_take(t->leases, r->lease, t->link->serial);
    if (!sky_batches_answer(t->tier.batches, j->batch, i, a)) {
        (void)sky_leases_give(t->leases, a->lease, t->link->serial, &what);
        return false;
    }
    t->link->lease_count++;
    t->counts.leases++;
    return true;
}

bool sky__shm_take_lent(sky__shm *t, const sky__shm_job *j, size_t i, const sky_shm_result *r,
                        const uint8_t *payload) {
    sky_answer a = {.status = SKY_OK,
                    .bytes = r->bytes,
                    .coding = r->coding,
                    .evict = r->evict,
                    .ttl_s = r->ttl_s};
    if (j->op == SKY_OP_LEASE) {
        a.view = (sky_span){(void *)payload, r->bytes};
        return !hand_on(t, j, i, r, &a);
    }
    bool large = r->bytes > LOCKED_COPY_BYTES;
    if (large)
        sky_mutex_unlock(&t->mutex); /* the lease keeps the bytes, and who reads alone unmaps */
    a.status = copy_out(t, j, i, payload, r->bytes, &a.bytes);
    if (large)
        sky_mutex_lock(&t->mutex);
    if (a.status != SKY_OK)
        a = (sky_answer){.status = a.status};
    answer_item(t, j, i, &a);
    return true;
}

static void take_result(sky__shm *t, const sky__shm_flight *f, uint32_t n,
                        const sky_shm_result *r) {
    sky_answer a = {.status = r->status};
    bool ok = r->status == SKY_OK;
    if (ok && f->job->op == SKY_OP_PUT) {
        a.bytes = f->bytes[n];
    } else if (ok && (f->job->op == SKY_OP_HAS || f->job->op == SKY_OP_AWAIT ||
                      f->job->op == SKY_OP_EXPECT)) {
        a.bytes = r->bytes;
        a.coding = r->coding;
        a.ttl_s = r->ttl_s;
        a.pinned = r->pinned;
        a.evict = r->evict;
    }
    answer_item(t, f->job, f->origin[n], &a);
}

sky_status sky__shm_take_done(sky__shm *t, const sky_shm_frame *done) {
    sky__shm_flight *f = &t->flights[done->id % SKY__SHM_FLIGHTS_MAX];
    uint64_t back[SKY_SHM_ITEMS_MAX];
    uint32_t back_count = 0;
    if (!f->job || f->id != done->id || f->count != done->count)
        return SKY_E_CORRUPT;
    bool lends = f->job->op == SKY_OP_GET || f->job->op == SKY_OP_LEASE;
    for (uint32_t n = 0; n < f->count; n++) {
        const sky_shm_result *r = &done->results[n];
        if (!lends || r->status != SKY_OK) {
            take_result(t, f, n, r);
            continue;
        }
        const uint8_t *payload = sky__shm_link_view(t->link, r->at, r->bytes);
        if (!payload || r->lease == 0 || (r->lease & SKY__SHM_DIRECT))
            return SKY_E_CORRUPT;
        if (sky__shm_take_lent(t, f->job, f->origin[n], r, payload))
            back[back_count++] = r->lease;
    }
    sky__shm_return(t, back, back_count);
    flight_end(t, f);
    return SKY_OK;
}

sky_status sky__shm_take_staged(sky__shm *t, const sky_shm_frame *staged, int fd) {
    sky__shm_link *l = t->link;
    bool made = staged->status == SKY_OK;
    if (!l->staging || made != (fd >= 0) || (made && staged->stage_bytes < l->staging))
        return SKY_E_CORRUPT;
    l->staging = 0;
    if (made)
        return sky__shm_link_stage(l, fd, staged->stage_bytes);
    sky__shm_job *j = t->first; /* who asked may be gone: another asks for what it needs itself */
    if (j && j->asked == j->sent + 1)
        end_item(t, j, j->sent++, staged->status);
    return SKY_OK;
}

void sky__shm_fail_all(sky__shm *t, sky_status status) {
    for (uint32_t slot = 0; slot < SKY__SHM_FLIGHTS_MAX; slot++) {
        sky__shm_flight *f = &t->flights[slot];
        if (!f->job)
            continue;
        for (uint32_t n = 0; n < f->count; n++)
            end_item(t, f->job, f->origin[n], status);
        flight_end(t, f);
    }
    while (t->first) {
        sky__shm_job *j = t->first;
        t->first = j->next;
        t->job_count--;
        for (; j->sent < j->count; j->sent++)
            end_item(t, j, j->sent, status);
        job_drop(j);
    }
    for (sky__shm_question *q = t->questions; q; q = q->next)
        if (!q->answered) {
            q->answered = true;
            q->status = status;
        }
    sky_condition_broadcast(&t->changed);
}
