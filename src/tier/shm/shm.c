#include "tier/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "io/clock.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "tier/shm/shm_state.h"

#define CONNECT_NS       SKY_SECONDS(5) /* a host that listens welcomes at once, when it runs */
#define STAT_NS          SKY_SECONDS(2) /* the host asks other hosts for one */
#define BUSY_NS          SKY_SECONDS(1) /* a question is asked again while others are in the way */
#define BUSY_AGAIN_NS    SKY_MS(1)
#define JOBS_MAX         (2 * SKY_BATCHES_MAX) /* unwanted ones go then */
#define FRAMES_AT_ONCE   64
#define TEST_CLOCK_SLICE SKY_MS(1)

static sky__shm *shm_of(sky_tier *tier) {
    return (sky__shm *)(void *)tier; /* its first member */
}

/* ---- submit, cancel, release ---- */

/* Drop jobs that are over from the queue, as far as nothing of them is under way. */
static void purge_leases(sky__shm *t) {
    sky__shm_job **at = &t->first, *last = NULL;
    while (*at) {
        sky__shm_job *j = *at;
        if (j->flights > 0 || sky_batches_alive(t->tier.batches, j->batch)) {
            last = j;
            at = &j->next;
            continue;
        }
        *at = j->next;
        t->job_count--;
        free(j);
    }
    t->last = last;
}

/* Begin a job: its batch is open, and its frames are on their way. kept: for a wait. With the mutex
 * held, so that batches are queued in the order in which they began. */
static sky_status begin_batch(sky__shm *t, sky_op op, sky_item *items, size_t item_count,
                              const sky_call *call, bool kept, sky_batch *out) {
    sky__shm_job *j = malloc(sizeof *j);
    if (!j)
        return SKY_E_NOMEM;
    *j = (sky__shm_job){.op = op, .call = *call, .count = item_count};
    if (t->job_count >= JOBS_MAX)
        purge_leases(t);
    sky_batches *b = t->tier.batches;
    sky_status status = kept ? sky_batches_open_kept(b, items, item_count, call->deadline_ns, 0,
                                                     &j->batch)
                             : sky_batches_open(b, items, item_count, call->deadline_ns, &j->batch);
    if (status != SKY_OK) {
        free(j);
        return status;
    }
    *out = j->batch;
    if (sky__shm_direct(t, j) == item_count) {
        free(j);
        return SKY_OK;
    }
    *(t->first ? &t->last->next : &t->first) = j;
    t->last = j;
    t->job_count++;
    if (t->link)
        sky__shm_pump(t);
    else
        sky_event_raise(t->event); /* the thread connects */
    return SKY_OK;
}

static sky_status shm_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out) {
    sky__shm *t = shm_of(tier);
    sky_mutex_lock(&t->mutex);
    sky_status status = begin_batch(t, op, items, item_count, call, false, out);
    sky_mutex_unlock(&t->mutex);
    return status;
}

static void shm_cancelled(sky_tier *tier, sky_batch batch) {
    sky__shm *t = shm_of(tier);
    sky_mutex_lock(&t->mutex);
    for (uint32_t i = 0; i < SKY__SHM_FLIGHTS_MAX && t->link && !t->broken; i++) {
        const sky__shm_flight *f = &t->flights[i];
        const sky_shm_frame cancel = {.kind = SKY_SHM_CANCEL, .id = f->id};
        if (f->job && f->job->batch.id == batch.id)
            t->broken = sky__shm_link_send(t->link, &cancel) != SKY_OK;
    }
    if (t->broken)
        sky_event_raise(t->event);
    sky_mutex_unlock(&t->mutex);
}

/* The link that a lease is of, or NULL; *what: what its host calls it. */
static sky__shm_link *give_back(sky__shm *t, sky_lease lease, uint64_t *what) {
    sky__shm_link *l = t->link;
    if (l && sky_leases_give(t->leases, lease, l->serial, what) == SKY_OK)
        return l;
    for (l = t->old; l; l = l->next)
        if (sky_leases_give(t->leases, lease, l->serial, what) == SKY_OK)
            return l;
    return NULL;
}

static void unlist_old(sky__shm *t, const sky__shm_link *gone) {
    sky__shm_link **at = &t->old;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
}

sky__shm_link *sky__shm_link_unlease(sky__shm *t, sky__shm_link *l) {
    if (--l->lease_count > 0 || l == t->link)
        return NULL;
    unlist_old(t, l);
    return l;
}

static void shm_release(sky_tier *tier, sky_lease lease) {
    sky__shm *t = shm_of(tier);
    uint64_t what;
    sky_mutex_lock(&t->mutex);
    sky__shm_link *l = give_back(t, lease, &what);
    if (l && (what & SKY__SHM_DIRECT))
        sky_shared_reader_let_go(&l->reader, (uint32_t)what);
    else if (l && l == t->link)
        sky__shm_return(t, &what, 1);
    sky__shm_link *over = l ? sky__shm_link_unlease(t, l) : NULL;
    sky_mutex_unlock(&t->mutex);
    sky__shm_link_destroy(over);
}

/* ---- the thread ---- */

/* The connection is over. With the mutex held. */
static void end_link(sky__shm *t, sky_status why) {
    sky__shm_link *l = t->link;
    if (!t->closing)
        sky_log(SKY_LOG_WARNING, "%s: the host is gone: %s", t->url, sky_status_text(why));
    sky__shm_fail_all(t, SKY_E_IO);
    t->link = NULL;
    t->broken = false;
    t->return_count = 0;
    sky__shm_link_cut(l);
    if (l->lease_count == 0) {
        sky__shm_link_destroy(l);
        return;
    }
    l->next = t->old;
    t->old = l;
}

/* With the mutex held, which is released while it waits. */
static void connect_host(sky__shm *t) {
    sky__shm_link *l = NULL;
    sky_mutex_unlock(&t->mutex);
    sky_error error = {0};
    sky_status status = sky__shm_place_open(&t->place, sky_now() + CONNECT_NS, &l, &error);
    sky_mutex_lock(&t->mutex);
    if (status != SKY_OK) {
        sky_log(SKY_LOG_INFO, "%s: %s", t->url,
                error.text[0] ? error.text : sky_status_text(status));
        sky__shm_fail_all(t, SKY_E_IO);
        return;
    }
    l->serial = ++t->serials;
    t->link = l;
}

static sky_status take_told(sky__shm *t, const sky_shm_frame *f, int *passed) {
    if ((f->text_bytes > 0) != (*passed >= 0))
        return SKY_E_CORRUPT;
    for (sky__shm_question *q = t->questions; q; q = q->next) {
        if (q->id != f->id || q->answered)
            continue;
        q->answered = true;
        q->status = f->told;
        memcpy(q->numbers, f->numbers, sizeof q->numbers);
        q->text_bytes = f->text_bytes;
        q->fd = *passed;
        *passed = -1;
    }
    sky_condition_broadcast(&t->changed);
    return SKY_OK;
}

/* The next frame of the host. SKY_MISS: there is none. With the mutex held. */
static sky_status take_frame(sky__shm *t) {
    sky_shm_frame f;
    int passed;
    sky_status status = sky__shm_link_receive(t->link, &f, &passed);
    if (status != SKY_OK)
        return status;
    if (f.kind == SKY_SHM_DONE)
        status = sky__shm_take_done(t, &f);
    else if (f.kind == SKY_SHM_STAGED)
        status = sky__shm_take_staged(t, &f, passed);
    else if (f.kind == SKY_SHM_TOLD)
        status = take_told(t, &f, &passed);
    else
        status = SKY_E_CORRUPT;
    sky_local_close(passed);
    return status;
}

/* Let a caller take the frames, if nobody does. The host wakes no thread for them then. */
static bool start_reading(sky__shm *t) {
    if (!t->link || t->broken || t->reading)
        return false;
    t->reading = true;
    sky_ring_rise(&t->link->ring);
    return true;
}

/* Nobody reads any more: another caller is to, or the thread. With the mutex held. */
static void stop_reading(sky__shm *t) {
    t->reading = false;
    if (t->callers > 0)
        sky_condition_broadcast(&t->changed);
    if (t->broken ||
        (t->link && t->callers == 0 && !sky_ring_sleep(&t->link->ring, SKY_RING_ON_SOCKET)))
        sky_event_raise(t->event);
}

/* What the thread does with a link that no caller reads. */
static void take_frames(sky__shm *t) {
    sky_status status = SKY_OK;
    t->reading = true;
    sky_ring_rise(&t->link->ring);
    for (int n = 0; n < FRAMES_AT_ONCE && status == SKY_OK; n++)
        status = take_frame(t);
    if (status == SKY_MISS && t->broken)
        status = SKY_E_IO;
    if (status < 0)
        end_link(t, status);
    else
        sky__shm_pump(t);
    stop_reading(t);
}

/* Something came over the socket. What the host said before its end is still taken. */
static void hear_host(sky__shm *t) {
    if (sky_ring_hear(&t->link->ring) != SKY_OK)
        t->broken = true;
}

static bool is_wanted(const sky__shm *t) {
    return t->first || t->questions;
}

/* Leases that no frame took back in time. Returns when to look again: while some are returned it
 * looks often, so that a return need not wake it. */
static sky_time send_late_returns(sky__shm *t) {
    if (t->return_at != 0 && sky_now() >= t->return_at) {
        t->return_at = t->returned ? sky_now() + SKY__SHM_RETURN_NS : 0;
        t->returned = false;
        sky__shm_send_returns(t);
    }
    return t->return_at != 0 ? t->return_at : SKY_TIME_NEVER;
}

static void *reader_thread(void *argument) {
    sky__shm *t = argument;
    sky_mutex_lock(&t->mutex);
    while (!t->closing) {
        if (!t->link && is_wanted(t))
            connect_host(t);
        if (t->link && !t->reading)
            take_frames(t);
        else if (t->link && t->broken)
            sky_ring_kick(&t->link->ring); /* who reads is to see it */
        const sky_time until = send_late_returns(t);
        const int fds[2] = {t->event, t->link && !t->broken ? t->link->fd : -1};
        const bool writes[2] = {false, false};
        bool ready[2] = {false, false}, idle = t->link || !is_wanted(t);
        sky_mutex_unlock(&t->mutex);
        if (idle)
            sky_local_poll(fds, writes, ready, 2, until);
        sky_event_clear(t->event); /* before it looks: no change is missed */
        sky_mutex_lock(&t->mutex);
        if (ready[1])
            hear_host(t);
    }
    if (t->link)
        end_link(t, SKY_E_CANCELLED);
    sky__shm_fail_all(t, SKY_E_CANCELLED);
    sky_mutex_unlock(&t->mutex);
    return NULL;
}

/* ---- a caller that waits ---- */

/* How long a wait for a batch may sleep. A clock of a test does not wake it. */
static sky_time nap_until(const sky__shm *t, const sky_call *call) {
    if (t->env.clock != sky_clock_system())
        return sky_now() + TEST_CLOCK_SLICE;
    return call->deadline_ns != 0 ? call->deadline_ns : SKY_TIME_NEVER;
}

/* Take the next frame, if one comes. With the mutex held, which is released while it waits. */
static void read_one(sky__shm *t, sky_time until) {
    sky_ring *ring = &t->link->ring; /* who reads alone ends the link */
    sky_mutex_unlock(&t->mutex);
    sky_ring_wait(ring, until);
    sky_mutex_lock(&t->mutex);
    sky_status status = t->broken ? SKY_MISS : take_frame(t);
    if (status != SKY_OK && status != SKY_MISS)
        t->broken = true;
    else if (t->first || t->link->first)
        sky__shm_pump(t);
    if (t->callers > 1)
        sky_condition_broadcast(&t->changed); /* it may have been for one of them */
}

/* One caller reads, for all; the others sleep until their batch is over or nobody reads. So the
 * thread sleeps on while callers wait. */
static sky_status shm_run(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                          const sky_call *call) {
    sky__shm *t = shm_of(tier);
    sky_batch batch;
    sky_mutex_lock(&t->mutex);
    t->callers++;
    bool reads = start_reading(t); /* before the answer can come */
    sky_status status = begin_batch(t, op, items, item_count, call, true, &batch);
    while (status == SKY_OK && sky_batches_wait(tier->batches, batch, 1) == SKY_E_DEADLINE) {
        if (reads && t->broken) {
            reads = false;
            stop_reading(t);
        }
        reads = reads || start_reading(t);
        if (reads)
            read_one(t, nap_until(t, call));
        else
            (void)sky_condition_wait(&t->changed, &t->mutex, nap_until(t, call));
    }
    t->callers--;
    if (reads || !t->reading)
        stop_reading(t);
    sky_mutex_unlock(&t->mutex);
    return status;
}

/* ---- questions ---- */

/* Ask the host, and wait until it answered, is gone, or `until`. The answer's descriptor is the
 * caller's. Errors: SKY_E_DEADLINE, SKY_E_IO, and what the host says */
static sky_status ask_once(sky__shm *t, sky_shm_question what, sky_time until,
                           sky__shm_question *q) {
    *q = (sky__shm_question){.fd = -1, .status = SKY_E_DEADLINE};
    sky_shm_frame frame = {.kind = SKY_SHM_ASK, .question = what};
    sky_mutex_lock(&t->mutex);
    frame.id = q->id = ++t->frame_count;
    q->next = t->questions;
    t->questions = q;
    bool sent = false;
    while (!q->answered && sky_now() < until) {
        if (t->link && !t->broken && !sent) {
            sent = true;
            t->broken = sky__shm_link_send(t->link, &frame) != SKY_OK;
        }
        sky_event_raise(t->event); /* to connect, or to see that it is broken */
        (void)sky_condition_wait(&t->changed, &t->mutex, until);
    }
    sky__shm_question **at = &t->questions;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    sky_mutex_unlock(&t->mutex);
    return q->status;
}

/* The same, again while another question of this client is in the host's way. */
static sky_status ask_host(sky__shm *t, sky_shm_question what, sky_time until,
                           sky__shm_question *q) {
    const sky_time give_up = sky_now() + BUSY_NS;
    sky_status status;
    while ((status = ask_once(t, what, until, q)) == SKY_E_BUSY && q->fd < 0 &&
           sky_now() < (give_up < until ? give_up : until))
        (void)sky_poll(NULL, 0, sky_now() + BUSY_AGAIN_NS);
    return status;
}

static sky_status read_list(const sky__shm *t, const uint8_t *text, uint64_t bytes,
                            sky_entry_fn each, void *context) {
    char name[SKY_NAME_BYTES_MAX + 1];
    sky_entry entry;
    sky_status status;
    size_t at = 0;
    while ((status = sky_shm_entry_decode(text, bytes, &at, name, &entry)) == SKY_OK) {
        entry.tier = t->env.index;
        if (!each(context, &entry))
            return SKY_OK;
    }
    return status == SKY_MISS ? SKY_OK : status;
}

/* Map what a question brought. Errors: SKY_E_CORRUPT, SKY_E_NOMEM */
static sky_status map_text(const sky__shm_question *q, uint8_t **text) {
    if (sky_shared_bytes(q->fd) < q->text_bytes)
        return SKY_E_CORRUPT;
    sky_status status = sky_pages_reserve(q->text_bytes, (void **)text, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_map(q->fd, *text, q->text_bytes, SKY_SHARED_READ);
    if (status != SKY_OK)
        sky_pages_release(*text, q->text_bytes);
    return status;
}

static sky_status shm_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky__shm *t = shm_of(tier);
    sky__shm_question q;
    uint8_t *text;
    sky_status status = ask_host(t, SKY_SHM_LIST, SKY_TIME_NEVER, &q);
    if (q.fd < 0)
        return status;
    sky_status read = map_text(&q, &text);
    if (read == SKY_OK) {
        read = read_list(t, text, q.text_bytes, each, context);
        sky_pages_release(text, q.text_bytes);
    }
    sky_local_close(q.fd);
    return read != SKY_OK ? read : status;
}

static sky_status shm_verify(sky_tier *tier, sky_verify_report *out) {
    sky__shm_question q;
    sky_status status = ask_host(shm_of(tier), SKY_SHM_VERIFY, SKY_TIME_NEVER, &q);
    out->entries += q.numbers[0];
    out->bytes += q.numbers[1];
    out->corrupt += q.numbers[2];
    out->orphans += q.numbers[3];
    sky_local_close(q.fd);
    return status;
}

static uint64_t shm_put_count(sky_tier *tier) {
    sky__shm *t = shm_of(tier);
    sky_mutex_lock(&t->mutex);
    uint64_t puts = t->counts.puts;
    sky_mutex_unlock(&t->mutex);
    return puts;
}

static void shm_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky__shm *t = shm_of(tier);
    sky__shm_question q;
    sky_status status = ask_host(t, SKY_SHM_STAT, sky_now() + STAT_NS, &q);
    sky_local_close(q.fd);
    *out = (sky_tier_stat){.failing = status != SKY_OK};
    snprintf(out->url, sizeof out->url, "%s", t->url);
    if (status != SKY_OK)
        snprintf(out->note, sizeof out->note, "no answer: %s; is skymemd running?",
                 sky_status_text(status));
    sky_mutex_lock(&t->mutex);
    counts->tier = t->counts;
    sky_mutex_unlock(&t->mutex);
    counts->tier.late = sky_batches_late(tier->batches);
    counts->tier.entries = q.numbers[0];
    counts->tier.bytes_used = q.numbers[1];
    counts->tier.bytes_max = q.numbers[2];
}

/* ---- open, close ---- */

static void shm_close(sky_tier *tier) {
    sky__shm *t = shm_of(tier);
    if (tier->batches)
        sky_batches_cancel_all(tier->batches);
    sky_mutex_lock(&t->mutex);
    t->closing = true;
    if (t->event >= 0)
        sky_event_raise(t->event);
    sky_mutex_unlock(&t->mutex);
    sky_thread_join(&t->thread);
    sky__shm_link_destroy(t->link); /* where no thread did */
    while (t->old) {
        sky__shm_link *l = t->old;
        t->old = l->next;
        sky__shm_link_destroy(l);
    }
    if (t->event >= 0)
        sky_event_close(t->event);
    sky_leases_destroy(t->leases);
    sky_batches_destroy(tier->batches);
    sky_condition_deinit(&t->changed);
    sky_mutex_deinit(&t->mutex);
    free(t);
}

static const sky_tier_ops shm_ops = {
    .submit = shm_submit,
    .run = shm_run,
    .cancelled = shm_cancelled,
    .release = shm_release,
    .list = shm_list,
    .verify = shm_verify,
    .stat = shm_stat,
    .put_count = shm_put_count,
    .close = shm_close,
};

static sky_status start_reader(sky__shm *t, sky_error *why) {
    sky_status status = sky__shm_place_open(&t->place, sky_now() + CONNECT_NS, &t->link, why);
    if (status != SKY_OK)
        return status;
    t->link->serial = ++t->serials;
    status = sky_leases_create(&t->leases);
    if (status == SKY_OK)
        status = sky_batches_create(t->env.clock, &t->tier.batches);
    if (status == SKY_OK)
        status = sky_event_create(&t->event);
    return status == SKY_OK ? sky_thread_start(&t->thread, "skymem-shm", reader_thread, t) : status;
}

sky_status sky_shm_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                             sky_error *error) {
    sky__shm_place place;
    sky_error why = {0};
    sky_status status = sky__shm_place_read(url, &place, error);
    if (status != SKY_OK)
        return status;
    sky__shm *t = calloc(1, sizeof *t);
    if (!t)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", url);
    t->tier.ops = &shm_ops;
    t->tier.traits = SKY_TIER_LEASES | SKY_TIER_ANNOUNCES;
    t->env = *env;
    t->env.clock = env->clock ? env->clock : sky_clock_system();
    t->event = -1;
    snprintf(t->url, sizeof t->url, "%s", url);
    t->place = place;
    sky_mutex_init(&t->mutex);
    sky_condition_init(&t->changed);
    status = start_reader(t, &why);
    if (status != SKY_OK) {
        shm_close(&t->tier);
        return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%.200s: %s", url,
                        why.text[0] ? why.text : sky__shm_place_advice(status));
    }
    *out = &t->tier;
    return SKY_OK;
}
