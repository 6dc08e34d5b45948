/* Bytes over a message endpoint: sending, receiving, waiting. */
#include <string.h>

#include "fabric/state.h"
#include "io/sync.h"

#define EVENT_DATA_BYTES 256 /* that may come with an event; of more the rest is lost */
#define COMPLETIONS      16

static void end_connection(sky_fabric_end *e, int why) {
    if (!e->gone)
        e->why = why;
    e->gone = true;
}

/* ---- events ---- */

static void fail_event(sky_fabric_end *e) {
    struct fi_eq_err_entry error = {0};
    ssize_t got = fi_eq_readerr(e->eq, &error, 0);
    end_connection(e, got > 0 && error.err ? error.err : FI_EIO);
}

static void read_events(sky_fabric_end *e) {
    union {
        struct fi_eq_cm_entry entry;
        uint8_t raw[sizeof(struct fi_eq_cm_entry) + EVENT_DATA_BYTES];
    } found;
    uint32_t event;
    ssize_t got;
    while ((got = fi_eq_read(e->eq, &event, &found, sizeof found, 0)) >= 0) {
        size_t data_bytes = (size_t)got - sizeof found.entry;
        if (event == FI_SHUTDOWN)
            end_connection(e, 0);
        if (event != FI_CONNECTED)
            continue;
        e->connected = true;
        sky__fabric_prepare_sockets(e, &e->cq->fid);
        if (!e->accepted && sky_fabric_flow_meet(&e->flow, found.entry.data, data_bytes) != SKY_OK)
            end_connection(e, FI_EOPNOTSUPP);
    }
    if (got == -FI_EAVAIL)
        fail_event(e);
    else if (got != -FI_EAGAIN)
        end_connection(e, (int)-got);
}

/* ---- completions ---- */

bool sky__fabric_post(sky_fabric_end *e, sky__fabric_buffer *b) {
    void *registered = e->mr ? fi_mr_desc(e->mr) : NULL;
    if (fi_recv(e->ep, b->data, SKY_FABRIC_BUFFER_BYTES, registered, 0, b) == 0)
        return true;
    end_connection(e, FI_EIO); /* there is room for as many as there are */
    return false;
}

static void take_message(sky_fabric_end *e, sky__fabric_buffer *b, size_t length) {
    if (sky_fabric_flow_take(&e->flow, b->data, length, &b->bytes) != SKY_OK)
        end_connection(e, FI_EOTHER);
    else if (b->bytes > 0)
        sky__fabric_push(&e->ready, b);
    else
        (void)sky__fabric_post(e, b);
}

static void fail_completion(sky_fabric_end *e) {
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_readerr(e->cq, &error, 0);
    end_connection(e, got > 0 && error.err != FI_ECANCELED ? error.err : 0);
}

static void read_completions(sky_fabric_end *e) {
    struct fi_cq_msg_entry done[COMPLETIONS];
    ssize_t got;
    while ((got = fi_cq_read(e->cq, done, COMPLETIONS)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            sky__fabric_buffer *b = done[i].op_context;
            if (b->sends)
                sky__fabric_push(&e->idle, b);
            else if (!e->gone || e->why == 0)
                take_message(e, b, done[i].len);
        }
    if (got == -FI_EAVAIL)
        fail_completion(e);
    else if (got != -FI_EAGAIN)
        end_connection(e, (int)-got);
}

/* ---- sending ---- */

static void post_filled(sky_fabric_end *e) {
    void *registered = e->mr ? fi_mr_desc(e->mr) : NULL;
    for (sky__fabric_buffer *b; !e->gone && (b = sky__fabric_first(&e->filled));) {
        ssize_t status = fi_send(e->ep, b->data, SKY_FABRIC_HEAD_BYTES + b->bytes, registered, 0,
                                 b);
        if (status == -FI_EAGAIN)
            return;
        if (status != 0)
            end_connection(e, (int)-status);
        else
            (void)sky__fabric_pop(&e->filled);
    }
}

/* Tell the other end that buffers are free again. */
static void return_buffers(sky_fabric_end *e) {
    uint8_t head[SKY_FABRIC_HEAD_BYTES];
    sky_fabric_flow before = e->flow;
    if (e->gone || !e->connected || !sky_fabric_flow_is_due(&e->flow))
        return;
    sky_fabric_flow_send(&e->flow, 0, head);
    ssize_t status = fi_inject(e->ep, head, sizeof head, 0);
    if (status == -FI_EAGAIN)
        e->flow = before; /* at the next progress */
    else if (status != 0)
        end_connection(e, (int)-status);
}

void sky__fabric_progress(sky_fabric_end *e) {
    read_events(e); /* first: what came before the end of a connection is then read below */
    read_completions(e);
    if (!e->connected)
        return;
    post_filled(e);
    return_buffers(e);
}

/* Fill one with as much of the spans as goes in; `at` is of the first span. */
static size_t fill_buffer(sky__fabric_buffer *b, size_t room, const sky_span **spans,
                          const sky_span *end, size_t *at) {
    uint8_t *to = b->data + SKY_FABRIC_HEAD_BYTES;
    b->bytes = 0;
    while (*spans < end && b->bytes < room) {
        size_t left = (*spans)->bytes - *at, now = room - b->bytes;
        now = now < left ? now : left;
        memcpy(to + b->bytes, (const uint8_t *)(*spans)->data + *at, now);
        b->bytes += now;
        *at += now;
        if (*at == (*spans)->bytes) {
            ++*spans;
            *at = 0;
        }
    }
    return b->bytes;
}

static bool can_fill(const sky_fabric_end *e) {
    return sky_fabric_flow_room(&e->flow) > 0 && e->idle.count > 0;
}

sky_status sky_fabric_send(sky_fabric_end *e, const sky_span *spans, uint32_t span_count,
                           size_t *sent) {
    const sky_span *end = spans + span_count;
    size_t at = 0;
    *sent = 0;
    if (!can_fill(e))
        sky__fabric_progress(e);
    while (spans < end && !e->gone && can_fill(e)) {
        sky__fabric_buffer *b = sky__fabric_first(&e->idle);
        size_t now = fill_buffer(b, sky_fabric_flow_room(&e->flow), &spans, end, &at);
        if (now == 0)
            break; /* nothing was left but empty spans */
        sky_fabric_flow_send(&e->flow, (uint32_t)now, b->data);
        sky__fabric_push(&e->filled, sky__fabric_pop(&e->idle));
        *sent += now;
        if (e->connected)
            post_filled(e);
    }
    if (e->gone)
        return SKY_E_IO;
    return *sent > 0 ? SKY_OK : SKY_E_BUSY;
}

/* ---- receiving ---- */

/* The first that came is read whole. */
static void give_back(sky_fabric_end *e) {
    sky__fabric_buffer *b = sky__fabric_pop(&e->ready);
    e->ready_at = 0;
    if (e->gone || !sky__fabric_post(e, b))
        return;
    (void)sky_fabric_flow_free(&e->flow);
    return_buffers(e);
}

static size_t read_into(sky_fabric_end *e, uint8_t *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes && e->ready.count > 0) {
        const sky__fabric_buffer *b = sky__fabric_first(&e->ready);
        size_t left = b->bytes - e->ready_at, now = bytes - done < left ? bytes - done : left;
        memcpy(to + done, b->data + SKY_FABRIC_HEAD_BYTES + e->ready_at, now);
        done += now;
        e->ready_at += now;
        if (now == left)
            give_back(e);
    }
    return done;
}

sky_status sky_fabric_receive(sky_fabric_end *e, const sky_span *spans, uint32_t span_count,
                              size_t *received) {
    *received = 0;
    if (e->ready.count == 0)
        sky__fabric_progress(e);
    for (uint32_t i = 0; i < span_count && e->ready.count > 0; i++)
        *received += read_into(e, spans[i].data, spans[i].bytes);
    if (*received > 0)
        return SKY_OK;
    return e->gone ? SKY_E_IO : SKY_MISS;
}

/* ---- waiting ---- */

/* May a thread sleep on the descriptor? */
static bool try_to_wait(const sky_fabric_end *e) {
    struct fid *fids[] = {&e->eq->fid, e->cq ? &e->cq->fid : NULL};
    return fi_trywait(e->net->fabric, fids, e->cq ? 2 : 1) == FI_SUCCESS;
}

sky_status sky_fabric_arm(sky_fabric_end *e, bool reads, bool writes) {
    if (e->pep)
        return try_to_wait(e) ? SKY_OK : SKY_E_BUSY;
    sky__fabric_progress(e);
    if (e->gone)
        return reads || writes ? SKY_E_BUSY : SKY_E_IO;
    if ((reads && e->ready.count > 0) || (writes && can_fill(e)))
        return SKY_E_BUSY;
    return try_to_wait(e) ? SKY_OK : SKY_E_BUSY;
}

bool sky__fabric_wait(sky_fabric_end *e, sky_time until, int stop) {
    const int fds[] = {e->watch, stop};
    return !(sky_poll(fds, stop < 0 ? 1 : 2, try_to_wait(e) ? until : 0) & 2u);
}

int sky_fabric_fd(const sky_fabric_end *e) {
    return e->watch;
}
