#include "tier/driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/sync.h"
#include "tier/batch.h"
#include "tier/driver/value.h"
#include "tier/leases.h"
#include "tier/remote.h"
#include "tier/spans.h"
#include "tier/url.h"

#define FAILURES_IN_ROW 3

/* A batch on its way: each worker does the items whose keys are its own. */
typedef struct job {
    struct job *next[SKY_TIER_DRIVER_THREADS_MAX]; /* in each worker's queue */
    uint32_t workers_left;
    sky_op op;
    sky_batch batch;
    sky_call call;
    size_t count;
    sky_key keys[];
} job;

struct driver_tier;

typedef struct {
    struct driver_tier *tier;
    uint32_t number;
    sky_thread thread;
    sky_mutex turn; /* on one of its keys: its own, or that of who lists or verifies */
    job *first, *last;
    uint8_t *buffer;
    uint64_t buffer_bytes;
} worker;

typedef struct driver_tier {
    sky_tier tier;
    sky_tier_env env;
    sky_tier_driver driver;
    void *self;
    sky_mutex mutex; /* queues, counters */
    sky_condition changed;
    sky_mutex one_at_a_time; /* around the driver's functions, when it wants one thread */
    bool closing;
    char url[256];
    sky_tier_counts counts; /* entries and bytes: as the driver counted them last */
    uint32_t failures;
    sky_leases *leases; /* of sky_tier_lent; NULL: it does not lend */
    worker workers[SKY_TIER_DRIVER_THREADS_MAX];
} driver_tier;

static driver_tier *driver_of(sky_tier *tier) {
    return (driver_tier *)(void *)tier; /* its first member */
}

static int64_t wall_ms(const driver_tier *t) {
    return t->env.clock->wall_ms(t->env.clock);
}

/* ---- calls of the driver ---- */

static void driver_begin(driver_tier *t) {
    if (t->driver.threads == 1)
        sky_mutex_lock(&t->one_at_a_time);
}

/* False: another of its functions runs, and it wants one thread. */
static bool driver_try_begin(driver_tier *t) {
    return t->driver.threads != 1 || sky_mutex_try_lock(&t->one_at_a_time);
}

static void driver_end(driver_tier *t) {
    if (t->driver.threads == 1)
        sky_mutex_unlock(&t->one_at_a_time);
}

/* What a driver may say; anything else is a failure of the store. */
static sky_status driver_status(sky_status status, sky_status also) {
    static const sky_status known[] = {SKY_OK,     SKY_E_IO,   SKY_E_DENIED, SKY_E_NOMEM,
                                       SKY_E_BUSY, SKY_E_FULL, SKY_E_CORRUPT};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (status == known[i])
            return status;
    return status == also ? status : SKY_E_IO;
}

static sky_status driver_read(driver_tier *t, const sky_key *key, void *data, uint64_t bytes,
                              uint64_t *value_bytes) {
    *value_bytes = 0;
    driver_begin(t);
    sky_status status = t->driver.read(t->self, key, 0, data, bytes, value_bytes);
    driver_end(t);
    return driver_status(status, SKY_MISS);
}

static sky_status driver_write(driver_tier *t, const sky_key *key, const void *value,
                               uint64_t bytes, bool durable) {
    driver_begin(t);
    sky_status status = t->driver.write(t->self, key, value, bytes, durable);
    driver_end(t);
    return driver_status(status, SKY_E_IO);
}

static sky_status driver_remove(driver_tier *t, const sky_key *key) {
    driver_begin(t);
    sky_status status = t->driver.remove(t->self, key);
    driver_end(t);
    return driver_status(status, SKY_MISS);
}

static void driver_release_lent(driver_tier *t, sky_tier_lent *lent) {
    driver_begin(t);
    t->driver.release(t->self, lent);
    driver_end(t);
    free(lent);
}

/* Owner: driver_release_lent */
static sky_status driver_lease(driver_tier *t, const sky_key *key, sky_tier_lent **out) {
    sky_tier_lent *lent = calloc(1, sizeof *lent);
    if (!lent)
        return SKY_E_NOMEM;
    driver_begin(t);
    sky_status status = driver_status(t->driver.lease(t->self, key, lent), SKY_MISS);
    driver_end(t);
    if (status == SKY_OK)
        *out = lent;
    else
        free(lent);
    return status;
}

/* PIN, UNPIN. */
static sky_status driver_pin(driver_tier *t, const sky_key *key, bool pin) {
    bool pinned = false;
    driver_begin(t);
    sky_status status = driver_status(t->driver.pinned(t->self, key, &pinned), SKY_MISS);
    if (status == SKY_OK && pinned != pin)
        status = driver_status(t->driver.pin(t->self, key, pin), SKY_MISS);
    else if (status == SKY_OK && !pin)
        status = SKY_E_PARAM;
    driver_end(t);
    return status;
}

static bool driver_pinned(driver_tier *t, const sky_key *key) {
    bool pinned = false;
    if (!t->driver.pinned)
        return false;
    driver_begin(t);
    sky_status status = t->driver.pinned(t->self, key, &pinned);
    driver_end(t);
    return status == SKY_OK && pinned;
}

/* ---- values ---- */

static sky_status buffer_reserve(worker *w, uint64_t bytes) {
    if (bytes <= w->buffer_bytes)
        return SKY_OK;
    uint8_t *larger = realloc(w->buffer, bytes);
    if (!larger)
        return SKY_E_NOMEM;
    w->buffer = larger;
    w->buffer_bytes = bytes;
    return SKY_OK;
}

/* The first `bytes` of a value, or all where there are no more, into the worker's buffer; its head
 * is checked. Errors: SKY_E_CORRUPT, SKY_MISS (its time is over, too), and what the driver says */
static sky_status value_load(worker *w, const sky_key *key, uint64_t bytes, sky_value_head *head) {
    driver_tier *t = w->tier;
    uint64_t value_bytes;
    sky_status status = buffer_reserve(w, bytes);
    if (status == SKY_OK)
        status = driver_read(t, key, w->buffer, bytes, &value_bytes);
    if (status == SKY_OK)
        status = sky_value_open(w->buffer, bytes < value_bytes ? bytes : value_bytes, value_bytes,
                                key, head);
    if (status == SKY_OK && head->expire_ms != 0 && head->expire_ms <= wall_ms(t)) {
        (void)driver_remove(t, key);
        status = SKY_MISS;
    }
    return status;
}

/* A whole value, checked. `guess`: how large it most likely is at most. A get of a range guesses
 * too little, and values of one store are alike: as much as the largest one is asked for at once,
 * so that none but the first is read twice. */
static sky_status value_load_whole(worker *w, const sky_key *key, uint64_t guess,
                                   sky_value_head *head) {
    guess = guess > w->buffer_bytes ? guess : w->buffer_bytes;
    sky_status status = value_load(w, key, guess, head);
    if (status != SKY_OK)
        return status;
    uint64_t whole = SKY_VALUE_HEAD_BYTES + head->name_bytes + head->payload_bytes;
    if (whole > guess)
        status = value_load(w, key, whole, head);
    uint64_t now = SKY_VALUE_HEAD_BYTES + head->name_bytes + head->payload_bytes;
    if (status == SKY_OK && now > whole)
        return SKY_E_BUSY; /* replaced by another process between the two reads, and larger */
    return status == SKY_OK ? sky_value_check(head, w->buffer) : status;
}

static uint32_t left_s(const driver_tier *t, const sky_value_head *head) {
    if (head->expire_ms == 0)
        return 0;
    int64_t left_ms = head->expire_ms - wall_ms(t);
    return left_ms > 0 ? (uint32_t)((left_ms + 999) / 1000) : 1;
}

static void answer_from(const driver_tier *t, const sky_value_head *head, sky_answer *a) {
    a->bytes = head->payload_bytes;
    a->coding = head->coding;
    a->ttl_s = left_s(t, head);
}

/* ---- operations, each on one item ---- */

static sky_answer do_has(worker *w, const sky_key *key, bool tells) {
    sky_value_head head;
    sky_answer a = {.status = value_load(w, key, SKY_VALUE_HEAD_BYTES, &head)};
    if (a.status == SKY_OK && tells) {
        answer_from(w->tier, &head, &a);
        a.pinned = driver_pinned(w->tier, key);
    }
    return a;
}

static sky_answer do_pin(worker *w, const sky_key *key, bool pin) {
    sky_answer a = do_has(w, key, false);
    if (a.status == SKY_OK)
        a.status = w->tier->driver.pin ? driver_pin(w->tier, key, pin) : SKY_E_UNSUPPORTED;
    return a;
}

/* What is lent is whole and of this key, and its time is not over. */
static sky_status lent_open(driver_tier *t, const sky_key *key, const sky_tier_lent *lent,
                            sky_value_head *head) {
    if (!lent->data)
        return SKY_E_IO;
    sky_status status = sky_value_open(lent->data, lent->bytes, lent->bytes, key, head);
    if (status == SKY_OK)
        status = sky_value_check(head, lent->data);
    bool late = status == SKY_OK && head->expire_ms != 0 && head->expire_ms <= wall_ms(t);
    return late ? SKY_MISS : status;
}

static sky_lease leases_take(driver_tier *t, sky_tier_lent *lent) {
    sky_lease lease = {0};
    sky_mutex_lock(&t->mutex);
    if (!sky_leases_full(t->leases)) {
        lease = sky_leases_take(t->leases, (uintptr_t)lent, 0);
        t->counts.leases++;
    }
    sky_mutex_unlock(&t->mutex);
    return lease;
}

static sky_answer do_lease(worker *w, const sky_key *key) {
    driver_tier *t = w->tier;
    sky_answer a = {.status = SKY_E_UNSUPPORTED};
    sky_tier_lent *lent = NULL;
    sky_value_head head;
    if (t->leases)
        a.status = driver_lease(t, key, &lent);
    if (a.status != SKY_OK)
        return a;
    a.status = lent_open(t, key, lent, &head);
    if (a.status == SKY_OK) {
        a.lease = leases_take(t, lent);
        a.status = a.lease.id ? SKY_OK : SKY_E_BUSY;
    }
    if (a.status != SKY_OK) {
        driver_release_lent(t, lent);
        return a;
    }
    answer_from(t, &head, &a);
    /* a span's bytes are not const, as gets write there; the caller of a lease only reads */
    uint8_t *value = (uint8_t *)(uintptr_t)lent->data;
    a.view = (sky_span){value + SKY_VALUE_HEAD_BYTES + head.name_bytes, head.payload_bytes};
    return a;
}

static void driver_release(sky_tier *tier, sky_lease lease) {
    driver_tier *t = driver_of(tier);
    uint64_t lent;
    sky_mutex_lock(&t->mutex);
    sky_status status = sky_leases_give(t->leases, lease, 0, &lent);
    sky_mutex_unlock(&t->mutex);
    if (status == SKY_OK)
        driver_release_lent(t, (sky_tier_lent *)(uintptr_t)lent);
}

static sky_status room_of(driver_tier *t, const job *j, size_t i, uint64_t *room,
                          sky_range *range) {
    const sky_item *item = sky_batches_enter(t->tier.batches, j->batch, i);
    if (!item)
        return SKY_E_CANCELLED;
    *room = sky_spans_bytes(item->spans, item->span_count);
    *range = item->range;
    sky_batches_leave(t->tier.batches, j->batch);
    return SKY_OK;
}

static sky_status payload_deliver(worker *w, const job *j, size_t i, const uint8_t *payload,
                                  const sky_range *range) {
    const sky_item *item = sky_batches_enter(w->tier->tier.batches, j->batch, i);
    if (!item)
        return SKY_E_CANCELLED;
    sky_spans_scatter(item->spans, item->span_count, payload + range->offset, range->bytes);
    sky_batches_leave(w->tier->tier.batches, j->batch);
    return SKY_OK;
}

static sky_answer do_get(worker *w, const job *j, size_t i) {
    const uint64_t most = SKY_VALUE_HEAD_BYTES + SKY_NAME_BYTES_MAX;
    sky_value_head head;
    uint64_t room;
    sky_range range;
    sky_answer a = {.status = room_of(w->tier, j, i, &room, &range)};
    if (a.status == SKY_OK) {
        uint64_t guess = room < SKY_PAYLOAD_BYTES_MAX ? room : SKY_PAYLOAD_BYTES_MAX;
        a.status = value_load_whole(w, &j->keys[i], most + guess, &head);
    }
    if (a.status == SKY_OK)
        a.status = sky_range_resolve(range, head.payload_bytes, &range);
    if (a.status == SKY_OK && range.bytes > room)
        a.status = SKY_E_DST_SMALL;
    if (a.status == SKY_OK) {
        answer_from(w->tier, &head, &a);
        a.bytes = range.bytes;
        a.status = payload_deliver(w, j, i, w->buffer + SKY_VALUE_HEAD_BYTES + head.name_bytes,
                                   &range);
    }
    return a;
}

static void spans_gather(uint8_t *to, const sky_span *spans, uint32_t span_count) {
    for (uint32_t i = 0; i < span_count; i++) {
        if (spans[i].bytes > 0)
            memcpy(to, spans[i].data, spans[i].bytes);
        to += spans[i].bytes;
    }
}

/* Name and payload of an item into the buffer, and what its head is to say. */
static sky_status value_make(worker *w, const job *j, const sky_item *item, sky_value_head *head) {
    int64_t now = wall_ms(w->tier);
    *head = (sky_value_head){.key = item->key,
                             .parent = item->parent,
                             .name_bytes = item->name ? (uint32_t)item->name_bytes : 0,
                             .coding = j->call.coding,
                             .set_ms = now,
                             .expire_ms = j->call.ttl_s ? now + j->call.ttl_s * INT64_C(1000) : 0};
    uint64_t before = SKY_VALUE_HEAD_BYTES + head->name_bytes;
    sky_status status = sky__check_put(item, SKY_PAYLOAD_BYTES_MAX, &head->payload_bytes);
    if (status == SKY_OK)
        status = buffer_reserve(w, before + head->payload_bytes);
    if (status != SKY_OK)
        return status;
    if (head->name_bytes)
        memcpy(w->buffer + SKY_VALUE_HEAD_BYTES, item->name, head->name_bytes);
    spans_gather(w->buffer + before, item->spans, item->span_count);
    return SKY_OK;
}

static sky_answer do_put(worker *w, const job *j, size_t i) {
    driver_tier *t = w->tier;
    sky_answer a = {.status = SKY_E_CANCELLED};
    sky_value_head head;
    const sky_item *item = sky_batches_enter(t->tier.batches, j->batch, i);
    if (!item)
        return a;
    a.status = value_make(w, j, item, &head);
    sky_batches_leave(t->tier.batches, j->batch);
    if (a.status != SKY_OK)
        return a;
    sky_value_seal(&head, w->buffer);
    a.status = driver_write(t, &j->keys[i], w->buffer,
                            SKY_VALUE_HEAD_BYTES + head.name_bytes + head.payload_bytes,
                            j->call.durable);
    a.bytes = a.status == SKY_OK ? head.payload_bytes : 0;
    return a;
}

/* One whose time is over is not there, and goes. */
static sky_answer do_remove(worker *w, const sky_key *key) {
    sky_value_head head;
    bool there = value_load(w, key, SKY_VALUE_HEAD_BYTES, &head) != SKY_MISS;
    return (sky_answer){.status = there ? driver_remove(w->tier, key) : SKY_MISS};
}

static sky_answer do_one(worker *w, const job *j, size_t i) {
    switch (j->op) {
    case SKY_OP_HAS:
        return do_has(w, &j->keys[i], true);
    case SKY_OP_PREFETCH:
        return do_has(w, &j->keys[i], false);
    case SKY_OP_GET:
        return do_get(w, j, i);
    case SKY_OP_PUT:
        return do_put(w, j, i);
    case SKY_OP_REMOVE:
        return do_remove(w, &j->keys[i]);
    case SKY_OP_PIN:
    case SKY_OP_UNPIN:
        return do_pin(w, &j->keys[i], j->op == SKY_OP_PIN);
    case SKY_OP_LEASE:
        return do_lease(w, &j->keys[i]);
    default:
        return (sky_answer){.status = SKY_E_UNSUPPORTED};
    }
}

static void driver_count(driver_tier *t, sky_op op, sky_status status, uint64_t bytes) {
    bool get = op == SKY_OP_GET, put = op == SKY_OP_PUT;
    sky_mutex_lock(&t->mutex);
    t->counts.hits += get && status == SKY_OK;
    t->counts.misses += (get || op == SKY_OP_LEASE) &&
                        (status == SKY_MISS || status == SKY_E_CORRUPT);
    t->counts.puts += put && status == SKY_OK;
    t->counts.read_bytes += get && status == SKY_OK ? bytes : 0;
    t->counts.written_bytes += put && status == SKY_OK ? bytes : 0;
    t->counts.dropped += put && (status == SKY_E_FULL || status == SKY_E_IO ||
                                 status == SKY_E_DENIED || status == SKY_E_NOMEM);
    t->counts.corrupt += status == SKY_E_CORRUPT;
    t->counts.errors += status == SKY_E_IO || (put && status == SKY_E_DENIED);
    t->failures = status == SKY_E_IO ? t->failures + 1 : status == SKY_OK ? 0 : t->failures;
    sky_mutex_unlock(&t->mutex);
}

static void run_item(worker *w, const job *j, size_t i) {
    driver_tier *t = w->tier;
    if (!sky_batches_alive(t->tier.batches, j->batch))
        return; /* given up: the batch has answered, or does when it is looked at */
    sky_mutex_lock(&w->turn);
    sky_answer a = do_one(w, j, i);
    if (a.status == SKY_E_CORRUPT)
        (void)driver_remove(t, &j->keys[i]);
    sky_mutex_unlock(&w->turn);
    a.tier = a.status == SKY_OK ? t->env.index : SKY_TIER_NONE;
    driver_count(t, j->op, a.status, a.bytes);
    if (!sky_batches_answer(t->tier.batches, j->batch, i, &a) && a.lease.id)
        driver_release(&t->tier, a.lease);
}

/* ---- workers ---- */

static uint32_t worker_of(const driver_tier *t, const sky_key *key) {
    return key->bytes[0] % t->driver.threads;
}

static void run_job(worker *w, job *j) {
    driver_tier *t = w->tier;
    for (size_t i = 0; i < j->count; i++)
        if (worker_of(t, &j->keys[i]) == w->number)
            run_item(w, j, i);
    sky_mutex_lock(&t->mutex);
    bool last = --j->workers_left == 0;
    sky_mutex_unlock(&t->mutex);
    if (last)
        free(j);
}

static void *worker_body(void *argument) {
    worker *w = argument;
    driver_tier *t = w->tier;
    sky_mutex_lock(&t->mutex);
    for (;;) {
        job *j = w->first;
        if (j) {
            w->first = j->next[w->number];
            sky_mutex_unlock(&t->mutex);
            run_job(w, j);
            sky_mutex_lock(&t->mutex);
        } else if (t->closing) {
            break;
        } else {
            (void)sky_condition_wait(&t->changed, &t->mutex, SKY_TIME_NEVER);
        }
    }
    sky_mutex_unlock(&t->mutex);
    return NULL;
}

/* With the mutex held. */
static void job_queue(driver_tier *t, job *j) {
    j->workers_left = t->driver.threads;
    for (uint32_t i = 0; i < t->driver.threads; i++) {
        worker *w = &t->workers[i];
        *(w->first ? &w->last->next[i] : &w->first) = j;
        w->last = j;
    }
    sky_condition_broadcast(&t->changed);
}

/* ---- the tier ---- */

static sky_status driver_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, sky_batch *out) {
    driver_tier *t = driver_of(tier);
    job *j = malloc(sizeof *j + item_count * sizeof *j->keys);
    if (!j)
        return SKY_E_NOMEM;
    *j = (job){.op = op, .call = *call, .count = item_count};
    for (size_t i = 0; i < item_count; i++)
        j->keys[i] = items[i].key;
    sky_mutex_lock(&t->mutex); /* so that batches are queued in the order in which they began */
    sky_status status = sky_batches_open(t->tier.batches, items, item_count, call->deadline_ns,
                                         &j->batch);
    if (status == SKY_OK) {
        *out = j->batch;
        job_queue(t, j);
    }
    sky_mutex_unlock(&t->mutex);
    if (status != SKY_OK)
        free(j);
    return status;
}

/* ---- list, verify, stat: on the caller's thread ---- */

typedef struct {
    sky_key *keys;
    size_t count, room;
    bool failed;
} key_list;

static bool note_key(void *context, const sky_key *key) {
    key_list *l = context;
    if (!key)
        return true;
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        sky_key *keys = realloc(l->keys, room * sizeof *keys);
        l->failed = !keys;
        if (!keys)
            return false;
        l->keys = keys;
        l->room = room;
    }
    l->keys[l->count++] = *key;
    return true;
}

/* Errors: SKY_E_UNSUPPORTED: the driver cannot tell. Owner: the caller frees keys, always */
static sky_status list_keys(driver_tier *t, key_list *out) {
    *out = (key_list){0};
    if (!t->driver.list)
        return SKY_E_UNSUPPORTED;
    driver_begin(t);
    sky_status status = driver_status(t->driver.list(t->self, note_key, out), SKY_OK);
    driver_end(t);
    return out->failed ? SKY_E_NOMEM : status;
}

/* What is gone meanwhile, or damaged, is no failure of the store. */
static sky_status failure_of(sky_status found) {
    return found == SKY_MISS || found == SKY_E_CORRUPT ? SKY_OK : found;
}

/* What nobody may write to between looking at it and removing it: one whose time is over, … */
static sky_status list_key(worker *w, const sky_key *key, sky_value_head *head) {
    sky_mutex *turn = &w->tier->workers[worker_of(w->tier, key)].turn;
    sky_mutex_lock(turn);
    sky_status found = value_load(w, key, SKY_VALUE_HEAD_BYTES + SKY_NAME_BYTES_MAX + 1, head);
    sky_mutex_unlock(turn);
    return found;
}

/* … and one that is damaged. */
static sky_status verify_key(worker *w, const sky_key *key, sky_value_head *head) {
    sky_mutex *turn = &w->tier->workers[worker_of(w->tier, key)].turn;
    sky_mutex_lock(turn);
    sky_status found = value_load_whole(w, key, SKY_VALUE_HEAD_BYTES, head);
    if (found == SKY_E_BUSY) /* replaced by another process, perhaps */
        found = value_load_whole(w, key, SKY_VALUE_HEAD_BYTES, head);
    if (found == SKY_E_CORRUPT)
        (void)driver_remove(w->tier, key);
    sky_mutex_unlock(turn);
    return found;
}

static sky_status driver_list(sky_tier *tier, sky_entry_fn each, void *context) {
    driver_tier *t = driver_of(tier);
    worker w = {.tier = t};
    key_list l;
    sky_status status = list_keys(t, &l), first = status;
    bool more = true;
    for (size_t i = 0; i < l.count && more && status == SKY_OK; i++) {
        sky_value_head head;
        sky_status found = list_key(&w, &l.keys[i], &head);
        first = first == SKY_OK ? failure_of(found) : first;
        if (found != SKY_OK)
            continue;
        char name[SKY_NAME_BYTES_MAX + 1] = {0};
        memcpy(name, w.buffer + SKY_VALUE_HEAD_BYTES, head.name_bytes);
        sky_entry entry = {.key = head.key,
                           .name = head.name_bytes ? name : NULL,
                           .name_bytes = head.name_bytes,
                           .bytes = head.payload_bytes,
                           .set_ms = head.set_ms,
                           .tier = t->env.index,
                           .pinned = driver_pinned(t, &head.key),
                           .coding = head.coding,
                           .parent = head.parent};
        more = each(context, &entry);
    }
    free(l.keys);
    free(w.buffer);
    return first == SKY_E_UNSUPPORTED ? SKY_OK : first;
}

static sky_status driver_verify(sky_tier *tier, sky_verify_report *out) {
    driver_tier *t = driver_of(tier);
    worker w = {.tier = t};
    key_list l;
    sky_status status = list_keys(t, &l), first = status;
    for (size_t i = 0; i < l.count && status == SKY_OK; i++) {
        sky_value_head head;
        if (sky_tier_verify_cancelled(&t->env)) {
            first = SKY_E_CANCELLED;
            break;
        }
        sky_status found = verify_key(&w, &l.keys[i], &head);
        first = first == SKY_OK ? failure_of(found) : first;
        out->entries += found == SKY_OK;
        out->bytes += found == SKY_OK ? head.payload_bytes : 0;
        if (found != SKY_E_CORRUPT)
            continue;
        out->corrupt++;
        driver_count(t, SKY_OP_HAS, found, 0);
    }
    free(l.keys);
    free(w.buffer);
    return first == SKY_E_UNSUPPORTED ? SKY_OK : first;
}

/* Statistics do not wait for a slow store: while its one thread is busy, the last counts stand. */
static void driver_recount(driver_tier *t) {
    uint64_t entries = 0, bytes = 0, bytes_max = 0;
    if (!t->driver.usage || !driver_try_begin(t))
        return;
    sky_status status = t->driver.usage(t->self, &entries, &bytes, &bytes_max);
    driver_end(t);
    if (status != SKY_OK)
        return;
    sky_mutex_lock(&t->mutex);
    t->counts.entries = entries;
    t->counts.bytes_used = bytes;
    t->counts.bytes_max = bytes_max;
    sky_mutex_unlock(&t->mutex);
}

static void driver_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    driver_tier *t = driver_of(tier);
    driver_recount(t);
    sky_mutex_lock(&t->mutex);
    counts->tier = t->counts;
    *out = (sky_tier_stat){.failing = t->failures >= FAILURES_IN_ROW};
    sky_mutex_unlock(&t->mutex);
    snprintf(out->url, sizeof out->url, "%s", t->url);
    counts->tier.late = sky_batches_late(t->tier.batches);
}

static uint64_t driver_put_count(sky_tier *tier) {
    driver_tier *t = driver_of(tier);
    sky_mutex_lock(&t->mutex);
    uint64_t puts = t->counts.puts;
    sky_mutex_unlock(&t->mutex);
    return puts;
}

/* ---- open, close ---- */

static void driver_close(sky_tier *tier) {
    driver_tier *t = driver_of(tier);
    if (t->tier.batches)
        sky_batches_cancel_all(t->tier.batches);
    sky_mutex_lock(&t->mutex);
    t->closing = true;
    sky_condition_broadcast(&t->changed);
    sky_mutex_unlock(&t->mutex);
    for (uint32_t i = 0; i < t->driver.threads; i++) {
        sky_thread_join(&t->workers[i].thread);
        sky_mutex_deinit(&t->workers[i].turn);
        free(t->workers[i].buffer);
    }
    uint64_t lent;
    for (uint32_t row = 0; t->leases && sky_leases_give_next(t->leases, NULL, &row, &lent);)
        driver_release_lent(t, (sky_tier_lent *)(uintptr_t)lent);
    if (t->driver.close)
        t->driver.close(t->self);
    sky_leases_destroy(t->leases);
    sky_batches_destroy(t->tier.batches);
    sky_mutex_deinit(&t->mutex);
    sky_mutex_deinit(&t->one_at_a_time);
    sky_condition_deinit(&t->changed);
    free(t);
}

static const sky_tier_ops driver_ops = {
    .submit = driver_submit,
    .release = driver_release,
    .list = driver_list,
    .verify = driver_verify,
    .stat = driver_stat,
    .put_count = driver_put_count,
    .close = driver_close,
};

static sky_status worker_start(driver_tier *t) {
    sky_status status = sky_batches_create(t->env.clock, &t->tier.batches);
    if (status == SKY_OK && t->driver.lease)
        status = sky_leases_create(&t->leases);
    for (uint32_t i = 0; status == SKY_OK && i < t->driver.threads; i++) {
        t->workers[i].tier = t;
        t->workers[i].number = i;
        status = sky_thread_start(&t->workers[i].thread, "skymem-driver", worker_body,
                                  &t->workers[i]);
    }
    return status;
}

static sky_status open_store(driver_tier *t, const char *url, sky_error *error) {
    const char *colon = strchr(url, ':');
    sky_error why = {0};
    sky_status status = sky_driver_open(&t->driver, colon ? colon + 1 : url, &t->self, &why);
    if (status == SKY_OK)
        return SKY_OK;
    why.text[sizeof why.text - 1] = '\0';
    status = status == SKY_PENDING || !sky_status_is_known(status) ? SKY_E_IO : status;
    return sky_fail(error, status, "%.200s: %.200s", t->url,
                    why.text[0] ? why.text : sky_status_text(status));
}

sky_status sky_driver_tier_open(const sky_tier_driver *driver, const char *url,
                                const sky_tier_env *env, sky_tier **out, sky_error *error) {
    driver_tier *t = calloc(1, sizeof *t);
    if (!t)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: %s", url, sky_status_text(SKY_E_NOMEM));
    t->tier.ops = &driver_ops;
    t->tier.traits = driver->traits | (driver->list ? 0 : SKY_TIER_UNLISTED) |
                     (driver->lease ? SKY_TIER_LEASES : 0) | SKY_TIER_WHOLE;
    t->env = *env;
    t->env.clock = env->clock ? env->clock : sky_clock_system();
    t->driver = *driver;
    sky_url_shown(url, t->url, sizeof t->url);
    sky_status status = open_store(t, url, error);
    if (status != SKY_OK) {
        free(t);
        return status;
    }
    sky_mutex_init(&t->mutex);
    sky_mutex_init(&t->one_at_a_time);
    sky_condition_init(&t->changed);
    for (uint32_t i = 0; i < t->driver.threads; i++)
        sky_mutex_init(&t->workers[i].turn);
    status = worker_start(t);
    if (status != SKY_OK) {
        driver_close(&t->tier);
        return sky_fail(error, status, "%.200s: %s", url, sky_status_text(status));
    }
    *out = &t->tier;
    return SKY_OK;
}
