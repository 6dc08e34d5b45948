#include "tier/peer/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "io/clock.h"
#include "io/local.h"
#include "io/secret.h"
#include "tier/peer/peer_state.h"
#include "tier/shm/frame.h"

#define STAT_NS  SKY_SECONDS(1)
#define ALIVE_NS SKY_SECONDS(5) /* who answers nothing for so long is not asked what takes long */
#define LOOK_NS  SKY_MS(100)
#define JOBS_MAX (2 * SKY_BATCHES_MAX * SKY__PEER_LANES_MAX)

static sky__peer *peer_of(sky_tier *tier) {
    return (sky__peer *)(void *)tier; /* its first member */
}

/* ---- submit, cancel ---- */

/* A job for each lane that has one of the items. False: there is no memory. */
static bool make_jobs(sky__peer *p, sky_op op, const sky_item *items, size_t item_count,
                      const sky_call *call, sky__peer_job *jobs[SKY__PEER_LANES_MAX]) {
    for (size_t i = 0; i < item_count; i++) {
        sky__peer_ride ride = sky__peer_route_take(p, op, &items[i]);
        sky__peer_job **j = &jobs[p->routes[ride.route].lane];
        if (!*j) {
            *j = malloc(sizeof **j + item_count * sizeof *(*j)->parts);
            if (!*j) {
                sky__peer_route_give(p, &ride);
                return false;
            }
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what `jobs` has it does not follow */
            **j = (sky__peer_job){.op = op, .call = *call};
        }
        (*j)->parts[(*j)->count++] = (sky__peer_part){(uint32_t)i, ride};
    }
    return true;
}

static sky_status peer_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                              const sky_call *call, sky_batch *out) {
    sky__peer *p = peer_of(tier);
    sky__peer_job *jobs[SKY__PEER_LANES_MAX] = {NULL};
    if (p->file)
        return sky__peer_set_submit(p, op, items, item_count, call, out);
    sky_mutex_lock(&p->mutex); /* lanes get batches in the order in which they began */
    sky_status status = SKY_E_BUSY;
    if (p->job_count < JOBS_MAX)
        status = make_jobs(p, op, items, item_count, call, jobs) ? SKY_OK : SKY_E_NOMEM;
    if (status == SKY_OK)
        status = sky_batches_open(tier->batches, items, item_count, call->deadline_ns, out);
    for (uint32_t n = 0; n < p->lane_count && status == SKY_OK; n++)
        if (jobs[n]) {
            jobs[n]->batch = *out;
            sky__peer_queue(&p->hosts->lanes[n], jobs[n]);
            jobs[n] = NULL;
        }
    for (uint32_t n = 0; n < p->lane_count; n++)
        sky__peer_job_free(p, jobs[n]);
    sky_mutex_unlock(&p->mutex); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    return status;
}

/* A host leases its own memory, and none of ours. */
static sky_status submit_any(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call, sky_batch *out) {
    if (op != SKY_OP_LEASE)
        return peer_submit(tier, op, items, item_count, call, out);
    sky_status status = sky_batches_open(tier->batches, items, item_count, call->deadline_ns, out);
    for (size_t i = 0; i < item_count && status == SKY_OK; i++)
        sky_batches_finish(tier->batches, *out, i, SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
    return status;
}

static void peer_cancelled(sky_tier *tier, sky_batch batch) {
    sky__peer *p = peer_of(tier);
    (void)batch;
    for (uint32_t n = 0; n < p->host_count * p->lane_count; n++) {
        atomic_store(&p->lanes[n].cancels, true);
        sky_event_raise(p->lanes[n].event);
    }
}

/* ---- questions ---- */

/* Wait for a change, under the mutex. False: it is `until`, or the check is cancelled, for which
 * nobody is woken. */
static bool wait_change(sky__peer *p, sky_peer_question what, sky_time until) {
    sky_time now = sky_now();
    if (now >= until || (what == SKY_PEER_VERIFY && sky_tier_verify_cancelled(&p->env)))
        return false;
    (void)sky_condition_wait(&p->changed, &p->mutex, sky__sooner(until, now + LOOK_NS));
    return true;
}

/* Ask a host, and wait until it answered, is gone, or `until`. The text is the caller's.
 * Errors: SKY_E_DEADLINE, SKY_E_IO, and what the host says */
static sky_status ask_host(sky__peer_host *h, sky_peer_question what, sky_time until,
                           sky__peer_asked *q) {
    static _Atomic uint32_t ids;
    sky__peer *p = h->peer;
    *q = (sky__peer_asked){.what = what, .id = ++ids, .status = SKY_E_DEADLINE};
    sky_mutex_lock(&p->mutex);
    while (p->asking && wait_change(p, what, until))
        ;
    if (p->asking) {
        sky_mutex_unlock(&p->mutex);
        return SKY_E_DEADLINE;
    }
    p->asking = true;
    h->asked = q;
    sky_event_raise(h->lanes->event);
    while (!q->answered && wait_change(p, what, until))
        ;
    while (!q->answered && q->text) /* a listing that comes is written where we said */
        (void)sky_condition_wait(&p->changed, &p->mutex, SKY_TIME_NEVER);
    h->asked = NULL;
    p->asking = false;
    sky_condition_broadcast(&p->changed);
    sky_mutex_unlock(&p->mutex);
    return q->status;
}

/* The same of what takes a host long. One that stands still keeps its connection: it is asked first
 * for what takes none. */
static sky_status ask_alive(sky__peer_host *h, sky_peer_question what, sky_time until,
                            sky__peer_asked *q) {
    sky_status status = ask_host(h, SKY_PEER_STAT, sky_now() + ALIVE_NS, q);
    free(q->text);
    *q = (sky__peer_asked){.what = what};
    return status == SKY_OK ? ask_host(h, what, until, q) : SKY_E_IO;
}

static bool is_down(sky__peer_host *h) {
    sky_mutex_lock(&h->peer->mutex);
    bool down = h->down;
    sky_mutex_unlock(&h->peer->mutex);
    return down;
}

/* What several hosts list: each key once, as the first says it. */
typedef struct {
    sky_entry_fn each;
    void *context;
    sky_key *keys; /* of the hosts before, sorted, and of this one behind them */
    size_t sorted, count, room;
    bool over;
} listing;

static int by_key(const void *a, const void *b) {
    return memcmp(a, b, sizeof(sky_key));
}

static sky_status note_key(listing *l, const sky_key *key) {
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 1024;
        sky_key *more = realloc(l->keys, room * sizeof *more);
        if (!more)
            return SKY_E_NOMEM;
        l->keys = more;
        l->room = room;
    }
    l->keys[l->count++] = *key;
    return SKY_OK;
}

static sky_status read_list(const sky__peer *p, const sky__peer_asked *q, listing *l) {
    char name[SKY_NAME_BYTES_MAX + 1];
    sky_entry entry;
    sky_status status;
    size_t at = 0;
    while ((status = sky_shm_entry_decode(q->text, q->text_bytes, &at, name, &entry)) == SKY_OK) {
        if (l->sorted && bsearch(&entry.key, l->keys, l->sorted, sizeof entry.key, by_key))
            continue;
        entry.tier = p->env.index;
        if (p->host_count > 1 && (status = note_key(l, &entry.key)) != SKY_OK)
            return status;
        if (!l->each(l->context, &entry)) {
            l->over = true;
            return SKY_OK;
        }
    }
    return status == SKY_MISS ? SKY_OK : status;
}

static sky_status list_host(sky__peer_host *h, listing *l) {
    sky__peer_asked q;
    sky_status status = ask_alive(h, SKY_PEER_LIST, sky_now() + SKY__PEER_LIST_NS, &q);
    if (q.text && q.text_got == q.text_bytes) {
        sky_status read = read_list(h->peer, &q, l);
        status = read != SKY_OK ? read : status;
    }
    free(q.text);
    return status;
}

/* What hosts that are down have is missing: then it is an error, behind what the others have. */
static sky_status peer_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky__peer *p = peer_of(tier);
    listing l = {.each = each, .context = context};
    sky_status status = SKY_OK;
    for (uint32_t i = 0; i < p->host_count && !l.over; i++) {
        sky_status one = is_down(&p->hosts[i]) ? SKY_E_IO : list_host(&p->hosts[i], &l);
        status = status == SKY_OK ? one : status;
        if (l.count > l.sorted)
            qsort(l.keys, l.count, sizeof *l.keys, by_key);
        l.sorted = l.count;
    }
    free(l.keys);
    return l.over ? SKY_OK : status;
}

static sky_status verify_host(sky__peer_host *h, sky_verify_report *out) {
    sky__peer_asked q;
    sky_status status = ask_alive(h, SKY_PEER_VERIFY, SKY_TIME_NEVER, &q);
    out->entries += q.numbers[0];
    out->bytes += q.numbers[1];
    out->corrupt += q.numbers[2];
    out->orphans += q.numbers[3];
    free(q.text);
    return status;
}

static uint64_t peer_put_count(sky_tier *tier) {
    sky__peer *p = peer_of(tier);
    sky_mutex_lock(&p->mutex);
    uint64_t puts = p->counts.puts;
    sky_mutex_unlock(&p->mutex);
    return puts;
}

static sky_status peer_verify(sky_tier *tier, sky_verify_report *out) {
    sky__peer *p = peer_of(tier);
    sky_status status = SKY_OK;
    for (uint32_t i = 0; i < p->host_count; i++) {
        sky_status one = is_down(&p->hosts[i]) ? SKY_E_IO : verify_host(&p->hosts[i], out);
        status = status == SKY_OK ? one : status;
    }
    return sky_tier_verify_cancelled(&p->env) ? SKY_E_CANCELLED : status;
}

/* Add what a host says of itself. */
static sky_status stat_host(sky__peer_host *h, sky_tier_counts *sum) {
    sky__peer_asked q;
    sky_status status = ask_host(h, SKY_PEER_STAT, sky_now() + STAT_NS, &q);
    free(q.text);
    sum->entries += q.numbers[0];
    sum->bytes_used += q.numbers[1];
    sum->bytes_max += h->read_only ? 0 : q.numbers[2];
    return status;
}

static void note_hosts(const sky__peer *p, uint32_t silent, sky_tier_stat *out) {
    size_t used = 0;
    uint32_t count = p->host_count, away = (uint32_t)__builtin_popcount(silent);
    used += (size_t)snprintf(out->note, sizeof out->note, "%u of %u peers answer%s", count - away,
                             count, away ? "; no answer:" : "");
    for (uint32_t i = 0; i < count && used < sizeof out->note; i++)
        if (silent >> i & 1)
            used += (size_t)snprintf(out->note + used, sizeof out->note - used, " %s",
                                     p->hosts[i].name);
}

static void peer_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky__peer *p = peer_of(tier);
    sky_tier_counts sum = {0};
    sky_status status = SKY_E_IO, reached;
    uint32_t silent = 0;
    *out = (sky_tier_stat){0};
    for (uint32_t i = 0; i < p->host_count; i++) {
        bool down = is_down(&p->hosts[i]);
        sky_status one = down ? SKY_E_IO : stat_host(&p->hosts[i], &sum);
        silent |= one != SKY_OK ? 1u << i : 0;
        status = i == 0 || one == SKY_OK ? one : status;
    }
    out->failing = status != SKY_OK;
    sky_mutex_lock(&p->mutex);
    reached = p->hosts->last;
    counts->tier = p->counts;
    sky_mutex_unlock(&p->mutex);
    snprintf(out->url, sizeof out->url, "%s", p->url);
    if (p->file)
        note_hosts(p, silent, out);
    else if (status != SKY_OK)
        snprintf(out->note, sizeof out->note, "no answer: %s",
                 sky__peer_advice(reached != SKY_OK ? reached : status, !p->hosts->key));
    else if (p->hosts->suite == SKY_SUITE_PLAIN)
        snprintf(out->note, sizeof out->note, "plain: neither encrypted nor authenticated");
    counts->tier.late = sky_batches_late(tier->batches);
    counts->tier.entries = sum.entries;
    counts->tier.bytes_used = sum.bytes_used;
    counts->tier.bytes_max = sum.bytes_max;
}

/* ---- open, close ---- */

static void deinit_lane(sky__peer_lane *l) {
    sky_peer_link_destroy(l->link);
    sky_local_close(l->watch);
    sky_event_close(l->event);
}

static void peer_close(sky_tier *tier) {
    sky__peer *p = peer_of(tier);
    uint32_t lanes = p->lanes ? p->host_count * p->lane_count : 0;
    if (tier->batches)
        sky_batches_cancel_all(tier->batches);
    sky_mutex_lock(&p->mutex);
    p->closing = true;
    sky_mutex_unlock(&p->mutex);
    if (p->stop >= 0)
        sky_event_raise(p->stop);
    for (uint32_t n = 0; n < lanes; n++)
        if (p->lanes[n].event >= 0)
            sky_event_raise(p->lanes[n].event);
    for (uint32_t n = 0; n < lanes; n++) {
        sky_thread_join(&p->lanes[n].thread);
        deinit_lane(&p->lanes[n]);
    }
    for (uint32_t i = 0; p->hosts && i < p->host_count; i++)
        sky_secret_free(p->hosts[i].key);
    free(p->lanes);
    free(p->hosts);
    free(p->file);
    free(p->hints);
    sky_event_close(p->stop);
    sky_batches_destroy(tier->batches);
    sky_condition_deinit(&p->changed);
    sky_mutex_deinit(&p->mutex);
    free(p);
}

static const sky_tier_ops peer_ops = {
    .submit = submit_any,
    .cancelled = peer_cancelled,
    .list = peer_list,
    .verify = peer_verify,
    .stat = peer_stat,
    .put_count = peer_put_count,
    .close = peer_close,
};

sky_status sky_peer_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                              sky_error *error) {
    sky__peer *p = calloc(1, sizeof *p);
    if (!p)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", url);
    p->tier.ops = &peer_ops;
    p->stop = -1;
    p->patience = sky__peer_patience_of_new;
    p->tier.traits = SKY_TIER_REMOTE | SKY_TIER_ANNOUNCES;
    p->env = *env;
    p->env.clock = env->clock ? env->clock : sky_clock_system();
    snprintf(p->url, sizeof p->url, "%s", url);
    sky_mutex_init(&p->mutex);
    sky_condition_init(&p->changed);
    sky_status status = sky__peer_open(url, p, error);
    if (status != SKY_OK) {
        peer_close(&p->tier);
        return status;
    }
    *out = &p->tier;
    return SKY_OK;
}
