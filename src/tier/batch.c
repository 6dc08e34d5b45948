/* The table of batches under way.
 *
 *   slot:  IDLE ──open──► RUNNING ──last finish──────────────► DONE ──drain, wait, cancel──► IDLE
 *                            └──cancel, deadline──► ENDING ──┘      (generation + 1)
 *                                                   until nobody is between enter and leave
 *
 *   id = generation << 10 | slot, so that an id that is over never means a later batch.
 *
 * A slot is in at most one list, with the links in the slot: IDLE ones in `idle`, RUNNING ones with
 * a deadline in `deadlines` (earliest first), DONE ones that are not kept for a wait in `done`
 * (first finished first).
 *
 * Surprises:
 *  - Ending never blocks a drain: whoever leaves last settles the batch, so expiry only marks it.
 *  - The timer is not touched when a batch ends: it may fire for a deadline nobody waits for any
 *    more. The descriptor is then readable once for nothing, and a batch that ends in time costs no
 *    timer call as long as an earlier time is armed. */
#include "tier/batch.h"

#include <assert.h>
#include <stdlib.h>

#include "io/clock.h"
#include "io/sync.h"

#define SLOT_BITS        10
#define NOWHERE          UINT32_MAX
#define TEST_CLOCK_SLICE SKY_MS(1) /* real time between looks at a clock that is not the system's */

static_assert(SKY_BATCHES_MAX == 1u << SLOT_BITS, "the slot number fills the low bits of an id");

typedef enum { IDLE, RUNNING, ENDING, DONE } slot_state;

typedef struct {
    uint64_t generation; /* from 1: an id is never 0 */
    sky_item *items;
    size_t item_count;
    size_t unfinished;
    sky_time deadline; /* 0: none */
    slot_state state;
    bool kept;          /* for a wait or a cancel: not drained */
    int event;          /* kept: raised when DONE; 0: none */
    sky_status verdict; /* ENDING: what the unfinished items will say */
    uint32_t inside;    /* threads between enter and leave */
    uint32_t before;    /* in its list */
    uint32_t after;
} slot;

typedef struct {
    uint32_t first;
    uint32_t last;
} list;

struct sky_batches {
    const sky_clock *clock;
    bool system_clock; /* the timer and the condition run on the same clock as the deadlines */
    sky_mutex mutex;
    sky_condition changed; /* some batch became DONE or IDLE */
    int event;             /* raised while `done` is not empty */
    sky_alarm alarm;       /* event, or the earliest deadline */
    sky_time armed;        /* never later than the earliest deadline */
    uint64_t late;
    list idle;
    list deadlines;
    list done;
    slot slots[SKY_BATCHES_MAX];
};

/* Put slot n behind slot `before` (NOWHERE: first). */
static void list_insert(sky_batches *b, list *l, uint32_t before, uint32_t n) {
    uint32_t after = before == NOWHERE ? l->first : b->slots[before].after;
    b->slots[n].before = before;
    b->slots[n].after = after;
    *(before == NOWHERE ? &l->first : &b->slots[before].after) = n;
    *(after == NOWHERE ? &l->last : &b->slots[after].before) = n;
}

static void list_remove(sky_batches *b, list *l, uint32_t n) {
    const slot *s = &b->slots[n];
    *(s->before == NOWHERE ? &l->first : &b->slots[s->before].after) = s->after;
    *(s->after == NOWHERE ? &l->last : &b->slots[s->after].before) = s->before;
}

static uint32_t number_of(const sky_batches *b, const slot *s) {
    return (uint32_t)(s - b->slots);
}

static slot *find_slot(sky_batches *b, sky_batch batch) {
    slot *s = &b->slots[batch.id & (SKY_BATCHES_MAX - 1)];
    return s->generation == batch.id >> SLOT_BITS && s->state != IDLE ? s : NULL;
}

static sky_batch id_of(const sky_batches *b, const slot *s) {
    return (sky_batch){s->generation << SLOT_BITS | number_of(b, s)};
}

static sky_time batches_now(const sky_batches *b) {
    return b->clock->now(b->clock);
}

static void timer_arm(sky_batches *b, sky_time at) {
    b->armed = at;
    if (b->system_clock)
        sky_alarm_set(&b->alarm, at);
}

/* Deadlines mostly come in the order they are set, so the search starts at the latest. */
static void await_deadline(sky_batches *b, slot *s) {
    uint32_t before = b->deadlines.last;
    while (before != NOWHERE && b->slots[before].deadline > s->deadline)
        before = b->slots[before].before;
    list_insert(b, &b->deadlines, before, number_of(b, s));
    if (s->deadline < b->armed || b->armed <= batches_now(b))
        timer_arm(b, b->slots[b->deadlines.first].deadline);
}

/* The batch is over for the tier once nobody can be touching it. */
static void slot_settle(sky_batches *b, slot *s) {
    bool over = s->state == ENDING || (s->state == RUNNING && s->unfinished == 0);
    if (!over || s->inside > 0)
        return;
    if (s->state == RUNNING && s->deadline != 0)
        list_remove(b, &b->deadlines, number_of(b, s));
    for (size_t i = 0; s->unfinished > 0; i++) {
        if (s->items[i].status != SKY_PENDING)
            continue;
        s->items[i].status = s->verdict;
        s->unfinished--;
        b->late += s->verdict == SKY_E_DEADLINE;
    }
    s->state = DONE;
    sky_condition_broadcast(&b->changed);
    if (s->kept) {
        if (s->event > 0)
            sky_event_raise_foreign(s->event);
        return;
    }
    if (b->done.first == NOWHERE)
        sky_event_raise(b->event);
    list_insert(b, &b->done, b->done.last, number_of(b, s));
}

static void slot_end(sky_batches *b, slot *s, sky_status verdict) {
    if (s->deadline != 0)
        list_remove(b, &b->deadlines, number_of(b, s));
    s->state = ENDING;
    s->verdict = verdict;
    slot_settle(b, s);
}

static void slots_expire(sky_batches *b) {
    if (b->deadlines.first == NOWHERE && b->armed == SKY_TIME_NEVER)
        return;
    sky_time at = batches_now(b);
    while (b->deadlines.first != NOWHERE && b->slots[b->deadlines.first].deadline <= at)
        slot_end(b, &b->slots[b->deadlines.first], SKY_E_DEADLINE);
    if (b->armed <= at)
        timer_arm(b, b->deadlines.first == NOWHERE ? SKY_TIME_NEVER
                                                   : b->slots[b->deadlines.first].deadline);
}

/* Give a DONE batch back to the caller. */
static void hand_out(sky_batches *b, slot *s) {
    if (!s->kept) {
        list_remove(b, &b->done, number_of(b, s));
        if (b->done.first == NOWHERE)
            sky_event_clear(b->event);
    }
    s->state = IDLE;
    s->items = NULL;
    s->generation++;
    list_insert(b, &b->idle, NOWHERE, number_of(b, s));
}

sky_status sky_batches_create(const sky_clock *clock, sky_batches **out) {
    sky_batches *b = calloc(1, sizeof *b);
    if (!b)
        return SKY_E_NOMEM;
    b->clock = clock ? clock : sky_clock_system();
    b->system_clock = b->clock == sky_clock_system();
    if (sky_event_create(&b->event) != SKY_OK) {
        free(b);
        return SKY_E_IO;
    }
    if (sky_alarm_create(b->event, &b->alarm) != SKY_OK) {
        sky_event_close(b->event);
        free(b);
        return SKY_E_IO;
    }
    sky_mutex_init(&b->mutex);
    sky_condition_init(&b->changed);
    b->armed = SKY_TIME_NEVER;
    b->idle = b->deadlines = b->done = (list){NOWHERE, NOWHERE};
    for (uint32_t n = 0; n < SKY_BATCHES_MAX; n++) {
        b->slots[n].generation = 1;
        list_insert(b, &b->idle, b->idle.last, n);
    }
    *out = b;
    return SKY_OK;
}

void sky_batches_destroy(sky_batches *b) {
    if (!b)
        return;
    for (uint32_t n = 0; n < SKY_BATCHES_MAX; n++)
        assert(b->slots[n].state == IDLE || b->slots[n].state == DONE);
    sky_alarm_close(&b->alarm);
    sky_event_close(b->event);
    sky_condition_deinit(&b->changed);
    sky_mutex_deinit(&b->mutex);
    free(b);
}

static void items_begin(sky_item *items, size_t item_count) {
    for (size_t i = 0; i < item_count; i++) {
        items[i].status = SKY_PENDING;
        items[i].bytes = 0;
        items[i].tier = SKY_TIER_NONE;
        items[i].coding = 0;
        items[i].ttl_s = 0;
        items[i].pinned = false;
        items[i].evict = 0;
    }
}

/* unfinished: all items, or none of them. */
static sky_status open_batch(sky_batches *b, const slot *new, sky_batch *out) {
    assert(new->item_count >= 1);
    sky_status status = SKY_E_BUSY;
    sky_mutex_lock(&b->mutex);
    uint32_t n = b->idle.first;
    if (n == NOWHERE)
        goto cleanup;
    list_remove(b, &b->idle, n);
    slot *s = &b->slots[n];
    uint64_t generation = s->generation;
    *s = *new;
    s->generation = generation;
    s->state = RUNNING;
    if (s->unfinished > 0)
        items_begin(s->items, s->item_count);
    if (s->deadline != 0)
        await_deadline(b, s);
    *out = id_of(b, s);
    slot_settle(b, s);
    status = SKY_OK;
cleanup:
    sky_mutex_unlock(&b->mutex);
    return status;
}

sky_status sky_batches_open(sky_batches *b, sky_item *items, size_t item_count, sky_time deadline,
                            sky_batch *out) {
    const slot new = {
        .items = items, .item_count = item_count, .unfinished = item_count, .deadline = deadline};
    return open_batch(b, &new, out);
}

sky_status sky_batches_open_kept(sky_batches *b, sky_item *items, size_t item_count,
                                 sky_time deadline, int event, sky_batch *out) {
    const slot new = {.items = items,
                      .item_count = item_count,
                      .unfinished = item_count,
                      .deadline = deadline,
                      .kept = true,
                      .event = event};
    return open_batch(b, &new, out);
}

sky_status sky_batches_open_done(sky_batches *b, sky_item *items, size_t item_count, bool kept,
                                 int event, sky_batch *out) {
    const slot new = {.items = items, .item_count = item_count, .kept = kept, .event = event};
    return open_batch(b, &new, out);
}

/* The item while the batch runs and the item is unfinished, else NULL. */
static sky_item *unfinished_item(sky_batches *b, sky_batch batch, size_t item) {
    slot *s = find_slot(b, batch);
    if (!s || s->state != RUNNING)
        return NULL;
    assert(item < s->item_count);
    return s->items[item].status == SKY_PENDING ? &s->items[item] : NULL;
}

sky_item *sky_batches_enter(sky_batches *b, sky_batch batch, size_t item) {
    sky_mutex_lock(&b->mutex);
    sky_item *it = unfinished_item(b, batch, item);
    if (it)
        find_slot(b, batch)->inside++;
    sky_mutex_unlock(&b->mutex);
    return it;
}

void sky_batches_leave(sky_batches *b, sky_batch batch) {
    sky_mutex_lock(&b->mutex);
    slot *s = find_slot(b, batch);
    assert(s && s->inside > 0); /* a batch does not end around those inside */
    s->inside--;
    slot_settle(b, s);
    sky_mutex_unlock(&b->mutex);
}

bool sky_batches_answer(sky_batches *b, sky_batch batch, size_t item, const sky_answer *answer) {
    assert(answer->status != SKY_PENDING);
    sky_mutex_lock(&b->mutex);
    sky_item *it = unfinished_item(b, batch, item);
    if (it) {
        it->status = answer->status;
        it->bytes = answer->bytes;
        it->tier = answer->tier;
        it->coding = answer->coding;
        it->ttl_s = answer->ttl_s;
        it->pinned = answer->pinned;
        it->evict = answer->evict;
        it->version = answer->version;
        if (answer->lease.id != 0) {
            it->view = answer->view;
            it->lease = answer->lease;
        }
        b->late += answer->status == SKY_E_DEADLINE;
        slot *s = find_slot(b, batch);
        s->unfinished--;
        slot_settle(b, s);
    }
    sky_mutex_unlock(&b->mutex);
    return it != NULL;
}

void sky_batches_finish(sky_batches *b, sky_batch batch, size_t item, sky_status status,
                        uint64_t bytes, uint8_t tier) {
    const sky_answer answer = {.status = status, .bytes = bytes, .tier = tier};
    sky_batches_answer(b, batch, item, &answer);
}

size_t sky_batches_unfinished(sky_batches *b, sky_batch batch) {
    sky_mutex_lock(&b->mutex);
    const slot *s = find_slot(b, batch);
    size_t unfinished = s ? s->unfinished : 0;
    sky_mutex_unlock(&b->mutex);
    return unfinished;
}

bool sky_batches_alive(sky_batches *b, sky_batch batch) {
    sky_mutex_lock(&b->mutex);
    const slot *s = find_slot(b, batch);
    bool alive = s && s->state == RUNNING && (s->deadline == 0 || batches_now(b) < s->deadline);
    sky_mutex_unlock(&b->mutex);
    return alive;
}

int sky_batches_event_fd(const sky_batches *b) {
    return b->alarm.fd;
}

size_t sky_batches_drain(sky_batches *b, sky_batch *done, size_t max) {
    size_t count = 0;
    sky_mutex_lock(&b->mutex);
    slots_expire(b);
    while (count < max && b->done.first != NOWHERE) {
        slot *s = &b->slots[b->done.first];
        done[count++] = id_of(b, s);
        hand_out(b, s);
    }
    sky_mutex_unlock(&b->mutex);
    return count;
}

/* Sleep until something changed, the batch's deadline, or `until`. */
static void slot_sleep(sky_batches *b, const slot *s, sky_time until) {
    if (s->state == RUNNING && s->deadline != 0 && s->deadline < until)
        until = s->deadline;
    if (!b->system_clock)
        until = sky_now() + TEST_CLOCK_SLICE;
    sky_condition_wait(&b->changed, &b->mutex, until);
}

sky_status sky_batches_wait(sky_batches *b, sky_batch batch, sky_time until) {
    sky_status status = SKY_E_PARAM;
    sky_mutex_lock(&b->mutex);
    for (;;) {
        slot *s = find_slot(b, batch);
        if (!s)
            break;
        if (s->state != DONE)
            slots_expire(b);
        if (s->state == DONE) {
            hand_out(b, s);
            status = SKY_OK;
            break;
        }
        if (until != SKY_TIME_NEVER && batches_now(b) >= until) {
            status = SKY_E_DEADLINE;
            break;
        }
        slot_sleep(b, s, until);
    }
    sky_mutex_unlock(&b->mutex);
    return status;
}

bool sky_batches_leave_to_drain(sky_batches *b, sky_batch batch) {
    sky_mutex_lock(&b->mutex);
    slot *s = find_slot(b, batch);
    assert(s && s->kept);
    bool done = s->state == DONE;
    if (done)
        hand_out(b, s);
    else
        s->kept = false;
    sky_mutex_unlock(&b->mutex);
    return done;
}

/* As sky_batches_cancel, with the mutex held. */
static void slot_cancel(sky_batches *b, sky_batch batch) {
    slot *s = find_slot(b, batch);
    if (s && s->state == RUNNING)
        slot_end(b, s, SKY_E_CANCELLED);
    while ((s = find_slot(b, batch)) != NULL && s->state == ENDING)
        sky_condition_wait(&b->changed, &b->mutex, SKY_TIME_NEVER);
    if (s)
        hand_out(b, s);
}

void sky_batches_cancel(sky_batches *b, sky_batch batch) {
    sky_mutex_lock(&b->mutex);
    slot_cancel(b, batch);
    sky_mutex_unlock(&b->mutex);
}

void sky_batches_cancel_all(sky_batches *b) {
    sky_mutex_lock(&b->mutex);
    for (uint32_t n = 0; n < SKY_BATCHES_MAX; n++)
        if (b->slots[n].state != IDLE)
            slot_cancel(b, id_of(b, &b->slots[n]));
    sky_mutex_unlock(&b->mutex);
}

uint64_t sky_batches_late(sky_batches *b) {
    sky_mutex_lock(&b->mutex);
    uint64_t late = b->late;
    sky_mutex_unlock(&b->mutex);
    return late;
}
