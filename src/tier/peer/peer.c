#include "tier/peer/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/local.h"
#include "io/secret.h"
#include "io/tcp.h"
#include "tier/peer/peer_state.h"
#include "tier/shm/frame.h"
#include "tier/url.h"

#define STAT_NS       SKY_SECONDS(1)
#define JOBS_MAX      (2 * SKY_BATCHES_MAX * SKY__PEER_LANES_MAX)
#define LANES_DEFAULT 2

static sky__peer *peer_of(sky_tier *tier) {
    return (sky__peer *)(void *)tier; /* its first member */
}

/* ---- submit, cancel ---- */

static uint32_t lane_of(const sky__peer *p, const sky_key *key) {
    return key->bytes[SKY_KEY_BYTES - 1] % p->lane_count; /* keys are hashes */
}

static void free_jobs(sky__peer_job **jobs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        free(jobs[i]);
}

/* A job for each lane that has one of the items. False: there is no memory. */
static bool make_jobs(const sky__peer *p, sky_op op, const sky_item *items, size_t item_count,
                      const sky_call *call, sky__peer_job *jobs[SKY__PEER_LANES_MAX]) {
    uint32_t counts[SKY__PEER_LANES_MAX] = {0};
    for (size_t i = 0; i < item_count; i++)
        counts[lane_of(p, &items[i].key)]++;
    for (uint32_t n = 0; n < p->lane_count; n++) {
        if (counts[n] == 0)
            continue;
        jobs[n] = malloc(sizeof *jobs[n] + counts[n] * sizeof(uint32_t));
        if (!jobs[n])
            return false;
        *jobs[n] = (sky__peer_job){.op = op, .call = *call};
    }
    for (size_t i = 0; i < item_count; i++) {
        sky__peer_job *j = jobs[lane_of(p, &items[i].key)];
        j->index[j->count++] = (uint32_t)i;
    }
    return true;
}

/* With the mutex held. */
static void queue_job(sky__peer_lane *l, sky__peer_job *j) {
    *(l->first ? &l->last->next : &l->first) = j;
    l->last = j;
    l->peer->job_count++;
    sky_event_raise(l->event);
}

static sky_status peer_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                              const sky_call *call, sky_batch *out) {
    sky__peer *p = peer_of(tier);
    sky__peer_job *jobs[SKY__PEER_LANES_MAX] = {NULL};
    if (!make_jobs(p, op, items, item_count, call, jobs)) {
        free_jobs(jobs, p->lane_count);
        return SKY_E_NOMEM;
    }
    sky_mutex_lock(&p->mutex); /* lanes get batches in the order in which they began */
    sky_status status = p->job_count < JOBS_MAX ? sky_batches_open(tier->batches, items, item_count,
                                                                   call->deadline_ns, out)
                                                : SKY_E_BUSY;
    for (uint32_t n = 0; n < p->lane_count && status == SKY_OK; n++)
        if (jobs[n]) {
            jobs[n]->batch = *out;
            queue_job(&p->lanes[n], jobs[n]);
            jobs[n] = NULL;
        }
    sky_mutex_unlock(&p->mutex);
    free_jobs(jobs, p->lane_count);
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
    for (uint32_t n = 0; n < p->lane_count; n++) {
        atomic_store(&p->lanes[n].cancels, true);
        sky_event_raise(p->lanes[n].event);
    }
}

/* ---- questions ---- */

/* Ask the host, and wait until it answered, is gone, or `until`. The text is the caller's.
 * Errors: SKY_E_DEADLINE, SKY_E_IO, and what the host says */
static sky_status ask(sky__peer *p, sky_peer_question what, sky_time until, sky__peer_asked *q) {
    static _Atomic uint32_t ids;
    *q = (sky__peer_asked){.what = what, .id = ++ids, .status = SKY_E_DEADLINE};
    sky_mutex_lock(&p->mutex);
    while (p->asking && sky_now() < until)
        (void)sky_condition_wait(&p->changed, &p->mutex, until);
    if (p->asking) {
        sky_mutex_unlock(&p->mutex);
        return SKY_E_DEADLINE;
    }
    p->asking = true;
    p->asked = q;
    sky_event_raise(p->lanes[0].event);
    while (!q->answered && (sky_now() < until || q->text)) /* a listing that comes is waited for */
        (void)sky_condition_wait(&p->changed, &p->mutex, q->text ? SKY_TIME_NEVER : until);
    p->asked = NULL;
    p->asking = false;
    sky_condition_broadcast(&p->changed);
    sky_mutex_unlock(&p->mutex);
    return q->status;
}

static sky_status read_list(const sky__peer *p, const sky__peer_asked *q, sky_entry_fn each,
                            void *context) {
    char name[SKY_NAME_BYTES_MAX + 1];
    sky_entry entry;
    sky_status status;
    size_t at = 0;
    while ((status = sky_shm_entry_decode(q->text, q->text_bytes, &at, name, &entry)) == SKY_OK) {
        entry.tier = p->env.index;
        if (!each(context, &entry))
            return SKY_OK;
    }
    return status == SKY_MISS ? SKY_OK : status;
}

static sky_status peer_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky__peer *p = peer_of(tier);
    sky__peer_asked q;
    sky_status status = ask(p, SKY_PEER_LIST, SKY_TIME_NEVER, &q);
    if (q.text && q.text_got == q.text_bytes) {
        sky_status read = read_list(p, &q, each, context);
        status = read != SKY_OK ? read : status;
    }
    free(q.text);
    return status;
}

static sky_status peer_verify(sky_tier *tier, sky_verify_report *out) {
    sky__peer_asked q;
    sky_status status = ask(peer_of(tier), SKY_PEER_VERIFY, SKY_TIME_NEVER, &q);
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

static void peer_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky__peer *p = peer_of(tier);
    sky__peer_asked q;
    sky_status status = ask(p, SKY_PEER_STAT, sky_now() + STAT_NS, &q);
    free(q.text);
    *out = (sky_tier_stat){.failing = status != SKY_OK};
    snprintf(out->url, sizeof out->url, "%s", p->url);
    if (status != SKY_OK)
        snprintf(out->note, sizeof out->note, "no answer: %s; is skymemd --listen running there?",
                 sky_status_text(status));
    else if (p->suite == SKY_SUITE_PLAIN)
        snprintf(out->note, sizeof out->note, "plain: neither encrypted nor authenticated");
    sky_mutex_lock(&p->mutex);
    counts->tier = p->counts;
    sky_mutex_unlock(&p->mutex);
    counts->tier.late = sky_batches_late(tier->batches);
    counts->tier.entries = q.numbers[0];
    counts->tier.bytes_used = q.numbers[1];
    counts->tier.bytes_max = q.numbers[2];
}

/* ---- open, close ---- */

static void deinit_lane(sky__peer_lane *l) {
    sky_peer_link_destroy(l->link);
    sky_local_close(l->watch);
    sky_event_close(l->event);
}

static void peer_close(sky_tier *tier) {
    sky__peer *p = peer_of(tier);
    if (tier->batches)
        sky_batches_cancel_all(tier->batches);
    sky_mutex_lock(&p->mutex);
    p->closing = true;
    sky_mutex_unlock(&p->mutex);
    for (uint32_t n = 0; p->lanes && n < p->lane_count; n++)
        if (p->lanes[n].event >= 0)
            sky_event_raise(p->lanes[n].event);
    for (uint32_t n = 0; p->lanes && n < p->lane_count; n++) {
        sky_thread_join(&p->lanes[n].thread);
        deinit_lane(&p->lanes[n]);
    }
    free(p->lanes);
    sky_secret_free(p->key);
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

static const char *advice(sky_status status, bool plain) {
    switch (status) {
    case SKY_MISS:
        return "nobody listens there; start skymemd --listen ADDRESS:PORT --peer-key FILE";
    case SKY_E_DEADLINE:
        return "no answer; is it a skymemd, and is it reachable?";
    case SKY_E_DENIED:
        return plain ? "it takes no plain connections; name its key with key=FILE"
                     : "it has another key, or none and takes plain connections alone";
    case SKY_E_BUSY:
        return "it has as many connections as it takes";
    case SKY_E_UNSUPPORTED:
        return "it is of another version";
    case SKY_E_CORRUPT:
        return "it is no skymemd";
    default:
        return sky_status_text(status);
    }
}

static sky_status parse_cipher(const char *text, const sky_url *url, sky__peer *p,
                               sky_error *error) {
    const char *cipher = sky_url_value(url, "cipher"), *plain = sky_url_value(url, "plain");
    const char *key = sky_url_value(url, "key");
    if (plain && strcmp(plain, "yes") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: plain=yes, or a key", text);
    if (!key == !plain || (plain && cipher))
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: needs key=FILE, or plain=yes for neither encryption nor "
                        "authentication",
                        text);
    if (plain)
        return SKY_OK;
    p->suite = sky_suite_best();
    if (cipher && strcmp(cipher, "aes") == 0)
        p->suite = SKY_SUITE_AES;
    else if (cipher && strcmp(cipher, "chacha") == 0)
        p->suite = SKY_SUITE_CHACHA;
    else if (cipher)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: cipher=aes or chacha", text);
    p->key = sky_secret_alloc(SKY_SECRET_FILE_BYTES);
    return p->key ? sky_secret_read(key, p->key, error)
                  : sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", text);
}

static sky_status parse(const char *text, sky__peer *p, sky_error *error) {
    sky_url url;
    uint64_t lanes = LANES_DEFAULT;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "key plain cipher connections away transport", error);
    if (status == SKY_OK)
        status = sky_url_u64(&url, "connections", &lanes, error);
    if (status != SKY_OK)
        return status;
    if (strncmp(url.path, "//", 2) != 0)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: another host's store is skymem://HOST:PORT?key=FILE", text);
    if (lanes < 1 || lanes > SKY__PEER_LANES_MAX)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: connections is 1 to %u", text,
                        SKY__PEER_LANES_MAX);
    p->lane_count = (uint32_t)lanes;
    const char *away = sky_url_value(&url, "away");
    p->may_be_away = away && strcmp(away, "yes") == 0;
    if (away && !p->may_be_away && strcmp(away, "no") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: away is yes or no", text);
    const char *transport = sky_url_value(&url, "transport");
    p->transport = sky_peer_transport_find(transport);
    if (!p->transport)
        return sky_fail(error, SKY_E_UNSUPPORTED, "%.200s: this build has no transport %s", text,
                        transport);
    status = parse_cipher(text, &url, p, error);
    return status == SKY_OK ? sky_tcp_resolve(url.path + 2, &p->address, error) : status;
}

static sky_status start_lane(sky__peer *p, uint32_t n) {
    sky__peer_lane *l = &p->lanes[n];
    l->peer = p;
    sky_status status = sky_event_create(&l->event);
    if (status == SKY_OK)
        status = sky_local_watch_create(&l->watch);
    return status;
}

/* Connect once. One that may be away is sought again by the first operation. */
static sky_status find_host(sky__peer *p) {
    sky_status status = sky__peer_lane_connect(p->lanes, sky_now() + SKY__PEER_CONNECT_NS);
    bool away = status == SKY_MISS || status == SKY_E_DEADLINE || status == SKY_E_IO ||
                status == SKY_E_BUSY;
    return away && p->may_be_away ? SKY_OK : status;
}

static sky_status start(sky__peer *p) {
    p->lanes = calloc(p->lane_count, sizeof *p->lanes);
    if (!p->lanes)
        return SKY_E_NOMEM;
    for (uint32_t n = 0; n < p->lane_count; n++)
        p->lanes[n].event = p->lanes[n].watch = -1;
    sky_status status = sky_batches_create(p->env.clock, &p->tier.batches);
    for (uint32_t n = 0; n < p->lane_count && status == SKY_OK; n++)
        status = start_lane(p, n);
    if (status == SKY_OK)
        status = find_host(p);
    for (uint32_t n = 0; n < p->lane_count && status == SKY_OK; n++)
        status = sky_thread_start(&p->lanes[n].thread, "skymem-peer", sky__peer_lane_body,
                                  &p->lanes[n]);
    return status;
}

sky_status sky_peer_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                              sky_error *error) {
    sky__peer *p = calloc(1, sizeof *p);
    if (!p)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", url);
    p->tier.ops = &peer_ops;
    p->tier.traits = SKY_TIER_REMOTE | SKY_TIER_ANNOUNCES;
    p->env = *env;
    p->env.clock = env->clock ? env->clock : sky_clock_system();
    snprintf(p->url, sizeof p->url, "%s", url);
    sky_mutex_init(&p->mutex);
    sky_condition_init(&p->changed);
    sky_status status = parse(url, p, error);
    if (status == SKY_OK) {
        status = start(p);
        if (status != SKY_OK)
            (void)sky_fail(error, status, "%.200s: %s", url, advice(status, !p->key));
        status = status == SKY_MISS ? SKY_E_IO : status;
    }
    if (status != SKY_OK) {
        peer_close(&p->tier);
        return status;
    }
    *out = &p->tier;
    return SKY_OK;
}
