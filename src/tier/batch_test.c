/* Proves that a batch ends exactly once, whoever is first (the tier, the deadline, the caller);
 * that its items are left alone afterwards; that stale ids mean nothing; and that the descriptor is
 * readable when it should be. */
#include "tier/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "io/sync.h"

typedef struct {
    sky_clock clock;
    sky_time ns;
} test_clock;

static sky_time test_now(const sky_clock *clock) {
    return ((const test_clock *)(const void *)clock)->ns;
}

static int64_t test_wall_ms(const sky_clock *clock) {
    return test_now(clock) / 1000000;
}

static sky_batches *create(const sky_clock *clock) {
    sky_batches *b;
    assert_int_equal(sky_batches_create(clock, &b), SKY_OK);
    return b;
}

static sky_batch open_batch(sky_batches *b, sky_item *items, size_t count, sky_time deadline) {
    sky_batch batch;
    assert_int_equal(sky_batches_open(b, items, count, deadline, &batch), SKY_OK);
    assert_true(batch.id != 0);
    return batch;
}

static bool readable(sky_batches *b, sky_time until) {
    int fd = sky_batches_event_fd(b);
    return sky_poll(&fd, 1, until) != 0;
}

static void finishes_and_drains_in_order(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item items[4] = {{.status = SKY_E_IO, .bytes = 9, .tier = 9}};
    sky_batch first = open_batch(b, items, 2, 0), second = open_batch(b, items + 2, 2, 0);
    assert_int_equal(items[0].status, SKY_PENDING);
    assert_int_equal(items[0].bytes, 0);
    assert_int_equal(items[0].tier, SKY_TIER_NONE);
    assert_false(readable(b, 0));
    sky_batches_finish(b, second, 1, SKY_MISS, 0, 1);
    sky_batches_finish(b, second, 1, SKY_OK, 5, 2); /* finished before: nothing */
    sky_batches_finish(b, first, 0, SKY_OK, 10, 0);
    sky_batch done[4];
    assert_int_equal(sky_batches_drain(b, done, 4), 0);
    sky_batches_finish(b, second, 0, SKY_OK, 7, 1);
    assert_true(readable(b, 0));
    sky_batches_finish(b, first, 1, SKY_OK, 8, 0);
    assert_int_equal(sky_batches_drain(b, done, 1), 1);
    assert_int_equal(done[0].id, second.id);
    assert_true(readable(b, 0));
    assert_int_equal(sky_batches_drain(b, done, 4), 1);
    assert_int_equal(done[0].id, first.id);
    assert_false(readable(b, 0));
    assert_int_equal(items[3].status, SKY_MISS);
    assert_int_equal(items[3].tier, 1);
    assert_int_equal(items[0].bytes, 10);
    sky_batches_destroy(b);
}

/* What a blocking call waits for is no business of whoever drains. */
static void a_kept_batch_is_not_drained(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item items[3] = {0};
    sky_batch kept, late, done[2];
    assert_int_equal(sky_batches_open_kept(b, items, 1, 0, 0, &kept), SKY_OK);
    sky_batch other = open_batch(b, items + 1, 1, 0);
    sky_batches_finish(b, kept, 0, SKY_OK, 3, 0);
    assert_false(readable(b, 0));
    assert_int_equal(sky_batches_drain(b, done, 2), 0);
    sky_batches_finish(b, other, 0, SKY_OK, 4, 0);
    assert_int_equal(sky_batches_drain(b, done, 2), 1);
    assert_int_equal(done[0].id, other.id);
    assert_int_equal(sky_batches_wait(b, kept, 0), SKY_OK);
    assert_int_equal(sky_batches_wait(b, kept, 0), SKY_E_PARAM);
    assert_int_equal(items[0].bytes, 3);
    assert_int_equal(sky_batches_open_kept(b, items + 2, 1, sky_now() + SKY_MS(5), 0, &late),
                     SKY_OK);
    for (sky_time until = sky_now() + SKY_MS(20); sky_now() < until;) {
    }
    assert_int_equal(sky_batches_drain(b, done, 2), 0); /* which ends it */
    assert_int_equal(items[2].status, SKY_E_DEADLINE);
    assert_int_equal(sky_batches_wait(b, late, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(sky_batches_open_kept(b, items, 1, 0, 0, &kept), SKY_OK);
    sky_batches_cancel(b, kept);
    assert_int_equal(items[0].status, SKY_E_CANCELLED);
    sky_batches_destroy(b);
}

/* Whoever waits for several kept batches is told of each by an event of their own. */
static void a_kept_batch_raises_its_event(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item items[3] = {0};
    sky_batch one, two, late;
    int event;
    assert_int_equal(sky_event_create(&event), SKY_OK);
    assert_int_equal(sky_batches_open_kept(b, items, 1, 0, event, &one), SKY_OK);
    assert_int_equal(sky_batches_open_kept(b, items + 1, 1, 0, event, &two), SKY_OK);
    assert_int_equal(sky_poll(&event, 1, 0), 0);
    sky_batches_finish(b, one, 0, SKY_OK, 1, 0);
    assert_int_equal(sky_poll(&event, 1, 0), 1);
    assert_false(readable(b, 0));
    sky_event_clear(event);
    assert_int_equal(sky_batches_wait(b, two, 1), SKY_E_DEADLINE);
    assert_int_equal(sky_batches_wait(b, one, 1), SKY_OK);
    sky_batches_cancel(b, two);
    assert_int_equal(sky_poll(&event, 1, 0), 1);
    sky_event_clear(event);
    assert_int_equal(sky_batches_open_kept(b, items + 2, 1, 1, event, &late), SKY_OK);
    assert_int_equal(sky_poll(&event, 1, 0), 0); /* nobody looked */
    assert_int_equal(sky_batches_wait(b, late, 1), SKY_OK);
    assert_int_equal(items[2].status, SKY_E_DEADLINE);
    sky_batches_destroy(b);
    sky_event_close(event);
}

/* What was answered before it became a batch stays as it is, and drain names it like any other. */
static void a_batch_may_be_done_when_it_opens(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item items[3] = {{.status = SKY_OK, .bytes = 7, .tier = 2, .coding = 3}};
    sky_batch drained, kept, done[2];
    int event;
    assert_int_equal(sky_event_create(&event), SKY_OK);
    assert_int_equal(sky_batches_open_done(b, items, 1, false, 0, &drained), SKY_OK);
    assert_true(readable(b, 0) && sky_poll(&event, 1, 0) == 0);
    assert_int_equal(sky_batches_open_done(b, items + 1, 2, true, event, &kept), SKY_OK);
    assert_int_equal(sky_poll(&event, 1, 0), 1);
    assert_null(sky_batches_enter(b, drained, 0));
    assert_int_equal(sky_batches_drain(b, done, 2), 1);
    assert_int_equal(done[0].id, drained.id);
    assert_true(items[0].bytes == 7 && items[0].tier == 2 && items[0].coding == 3);
    assert_int_equal(sky_batches_wait(b, drained, 0), SKY_E_PARAM);
    assert_int_equal(sky_batches_wait(b, kept, 0), SKY_OK);
    for (size_t i = 0; i < SKY_BATCHES_MAX; i++)
        assert_int_equal(sky_batches_open_done(b, items, 1, false, 0, &drained), SKY_OK);
    assert_int_equal(sky_batches_open_done(b, items, 1, false, 0, &drained), SKY_E_BUSY);
    sky_batches_destroy(b);
    sky_event_close(event);
}

static void stale_ids_mean_nothing(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item old = {0}, new = {0};
    sky_batch stale = open_batch(b, &old, 1, 0);
    sky_batches_finish(b, stale, 0, SKY_OK, 1, 0);
    assert_int_equal(sky_batches_wait(b, stale, 0), SKY_OK);
    sky_batch fresh = open_batch(b, &new, 1, 0); /* takes the same slot */
    assert_true(fresh.id != stale.id);
    assert_null(sky_batches_enter(b, stale, 0));
    assert_false(sky_batches_alive(b, stale));
    assert_true(sky_batches_alive(b, fresh));
    sky_batches_finish(b, stale, 0, SKY_E_IO, 3, 3);
    sky_batches_cancel(b, stale);
    assert_int_equal(sky_batches_wait(b, stale, SKY_TIME_NEVER), SKY_E_PARAM);
    assert_int_equal(sky_batches_wait(b, (sky_batch){0}, SKY_TIME_NEVER), SKY_E_PARAM);
    assert_int_equal(sky_batches_wait(b, (sky_batch){UINT64_MAX}, 0), SKY_E_PARAM);
    assert_int_equal(old.status, SKY_OK);
    assert_int_equal(new.status, SKY_PENDING);
    sky_batches_cancel(b, fresh);
    assert_int_equal(new.status, SKY_E_CANCELLED);
    assert_int_equal(sky_batches_drain(b, &fresh, 1), 0);
    sky_batches_destroy(b);
}

static void table_is_bounded(void **state) {
    (void)state;
    static sky_item items[SKY_BATCHES_MAX + 1];
    static sky_batch batches[SKY_BATCHES_MAX], done[SKY_BATCHES_MAX];
    sky_batches *b = create(NULL);
    for (size_t i = 0; i < SKY_BATCHES_MAX; i++)
        batches[i] = open_batch(b, &items[i], 1, 0);
    sky_batch extra = {77};
    items[SKY_BATCHES_MAX].bytes = 5;
    assert_int_equal(sky_batches_open(b, &items[SKY_BATCHES_MAX], 1, 0, &extra), SKY_E_BUSY);
    assert_int_equal(extra.id, 77);
    assert_int_equal(items[SKY_BATCHES_MAX].bytes, 5);
    for (size_t i = 0; i < SKY_BATCHES_MAX; i++)
        sky_batches_finish(b, batches[i], 0, SKY_OK, i, 0);
    assert_int_equal(sky_batches_open(b, &items[SKY_BATCHES_MAX], 1, 0, &extra), SKY_E_BUSY);
    sky_batches_cancel(b, batches[0]);                              /* from the head, */
    assert_int_equal(sky_batches_wait(b, batches[500], 0), SKY_OK); /* and out of the middle */
    assert_int_equal(sky_batches_drain(b, done, SKY_BATCHES_MAX), SKY_BATCHES_MAX - 2);
    for (size_t i = 1, at = 0; i < SKY_BATCHES_MAX; i++)
        if (i != 500)
            assert_int_equal(done[at++].id, batches[i].id);
    assert_int_equal(items[0].status, SKY_OK);
    sky_batches_destroy(b);
}

static void deadlines_by_the_given_clock(void **state) {
    (void)state;
    test_clock clock = {{test_now, test_wall_ms}, 1000};
    sky_batches *b = create(&clock.clock);
    sky_item items[6] = {0};
    sky_batch late = open_batch(b, items, 2, 3000), soon = open_batch(b, items + 2, 1, 2000);
    sky_batch mid = open_batch(b, items + 3, 1, 2500), past = open_batch(b, items + 4, 1, 10);
    sky_batch none = open_batch(b, items + 5, 1, 0), done[8];
    sky_batches_finish(b, late, 0, SKY_OK, 4, 0);
    assert_int_equal(sky_batches_drain(b, done, 8), 1);
    assert_int_equal(done[0].id, past.id);
    assert_int_equal(items[4].status, SKY_E_DEADLINE);
    assert_int_equal(sky_batches_wait(b, soon, 1000), SKY_E_DEADLINE); /* until, not the batch's */
    assert_int_equal(items[2].status, SKY_PENDING);
    assert_true(sky_batches_alive(b, soon));
    clock.ns = 2000;
    assert_false(sky_batches_alive(b, soon));
    assert_true(sky_batches_alive(b, mid));
    assert_int_equal(sky_batches_wait(b, soon, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(items[2].status, SKY_E_DEADLINE);
    clock.ns = 9000;
    assert_int_equal(sky_batches_drain(b, done, 8), 2);
    assert_int_equal(done[0].id, mid.id);
    assert_int_equal(done[1].id, late.id);
    assert_int_equal(items[0].status, SKY_OK);
    assert_int_equal(items[1].status, SKY_E_DEADLINE);
    assert_int_equal(items[5].status, SKY_PENDING);
    assert_int_equal(sky_batches_late(b), 4);
    sky_batches_cancel(b, none);
    sky_batches_destroy(b);
}

static void descriptor_tells_of_deadlines(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item items[3] = {0};
    sky_batch past = open_batch(b, items, 1, 1), done[4];
    assert_true(readable(b, sky_now() + SKY_SECONDS(2)));
    assert_int_equal(sky_batches_drain(b, done, 4), 1);
    assert_int_equal(done[0].id, past.id);
    assert_false(readable(b, 0));
    sky_time start = sky_now();
    open_batch(b, items, 1, start + SKY_SECONDS(3600));
    sky_batch soon = open_batch(b, items + 1, 1, start + SKY_MS(20));
    assert_true(readable(b, start + SKY_SECONDS(2)));
    assert_true(sky_now() >= start + SKY_MS(20));
    assert_int_equal(sky_batches_drain(b, done, 4), 1);
    assert_int_equal(done[0].id, soon.id);
    assert_false(readable(b, 0)); /* the hour is armed again */
    soon = open_batch(b, items + 2, 1, sky_now() + SKY_MS(20));
    assert_int_equal(sky_batches_wait(b, soon, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(items[2].status, SKY_E_DEADLINE);
    sky_batches_cancel_all(b);
    assert_int_equal(items[0].status, SKY_E_CANCELLED);
    sky_batches_destroy(b);
}

typedef struct {
    sky_batches *b;
    sky_batch batch;
    sky_status status;
    sky_time ended;
} waiter;

static void *wait_body(void *argument) {
    waiter *w = argument;
    w->status = sky_batches_wait(w->b, w->batch, SKY_TIME_NEVER);
    return NULL;
}

static void *cancel_body(void *argument) {
    waiter *w = argument;
    sky_batches_cancel(w->b, w->batch);
    w->ended = sky_now();
    return NULL;
}

static void nap(sky_time ns) {
    sky_poll(NULL, 0, sky_now() + ns);
}

static void cancel_waits_for_those_inside(void **state) {
    (void)state;
    sky_batches *b = create(NULL);
    sky_item items[2] = {0};
    waiter w = {.b = b, .batch = open_batch(b, items, 2, 0)}, w2 = w;
    assert_ptr_equal(sky_batches_enter(b, w.batch, 0), &items[0]);
    sky_thread canceller, waiting;
    assert_int_equal(sky_thread_start(&waiting, "wait", wait_body, &w2), SKY_OK);
    assert_int_equal(sky_thread_start(&canceller, "cancel", cancel_body, &w), SKY_OK);
    while (sky_batches_alive(b, w.batch))
        nap(SKY_MS(1));
    assert_null(sky_batches_enter(b, w.batch, 1)); /* nobody new gets in */
    sky_batches_finish(b, w.batch, 1, SKY_OK, 1, 1);
    nap(SKY_MS(10));
    sky_time left = sky_now();
    sky_batches_leave(b, w.batch);
    sky_thread_join(&canceller);
    sky_thread_join(&waiting);
    assert_true(w.ended >= left);
    /* Whichever thread is first takes it; the other finds it gone. */
    assert_true(w2.status == SKY_E_PARAM || w2.status == SKY_OK);
    assert_int_equal(items[0].status, SKY_E_CANCELLED);
    assert_int_equal(items[1].status, SKY_E_CANCELLED);
    sky_batches_finish(b, w.batch, 0, SKY_OK, 1, 1);
    assert_int_equal(items[0].status, SKY_E_CANCELLED);
    sky_batches_destroy(b);
}

static void expiry_waits_for_those_inside(void **state) {
    (void)state;
    test_clock clock = {{test_now, test_wall_ms}, 100};
    sky_batches *b = create(&clock.clock);
    sky_item items[2] = {0};
    sky_batch batch = open_batch(b, items, 2, 200), done[1];
    assert_non_null(sky_batches_enter(b, batch, 1));
    clock.ns = 300;
    assert_int_equal(sky_batches_drain(b, done, 1), 0); /* does not block */
    assert_int_equal(sky_batches_wait(b, batch, 1), SKY_E_DEADLINE);
    assert_false(readable(b, 0));
    sky_batches_leave(b, batch);
    assert_true(readable(b, 0));
    sky_batches_finish(b, batch, 1, SKY_OK, 3, 0); /* too late */
    assert_int_equal(sky_batches_drain(b, done, 1), 1);
    assert_int_equal(done[0].id, batch.id);
    assert_int_equal(items[1].status, SKY_E_DEADLINE);
    assert_int_equal(sky_batches_late(b), 2);
    sky_batches_destroy(b);
}

/* One tier thread answers batches that four callers open, wait for, cancel or let expire. A buffer
 * is the caller's again when the call returns, so the caller writes to it at once: a tier still
 * inside would be a race that the thread sanitizer reports, and a wrong value here. */
#define CALLERS 4
#define ROUNDS  400
typedef struct {
    sky_batches *b;
    sky_mutex mutex;
    sky_batch queue[CALLERS * ROUNDS];
    size_t queued, taken, callers_done, wrong;
} stress;

static void *tier_body(void *argument) {
    stress *s = argument;
    for (;;) {
        sky_mutex_lock(&s->mutex);
        bool over = s->callers_done == CALLERS;
        sky_batch batch = s->taken < s->queued ? s->queue[s->taken++] : (sky_batch){0};
        sky_mutex_unlock(&s->mutex);
        if (batch.id == 0) {
            if (over)
                return NULL;
            nap(SKY_MS(1) / 20);
            continue;
        }
        for (size_t i = 0; i < 3; i++) {
            sky_item *item = sky_batches_enter(s->b, batch, i);
            if (!item)
                continue;
            size_t bytes = item->spans[0].bytes; /* the item may be gone after leave */
            memset(item->spans[0].data, (int)i + 1, bytes);
            sky_batches_leave(s->b, batch);
            sky_batches_finish(s->b, batch, i, SKY_OK, bytes, 0);
        }
    }
}

static bool holds(const uint8_t *buffer, size_t bytes, int value) {
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != value)
            return false;
    return true;
}

static void one_round(stress *s, int round, size_t *wrong) {
    uint8_t buffers[3][512];
    sky_span spans[3];
    sky_item items[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        spans[i] = (sky_span){buffers[i], sizeof buffers[i]};
        items[i].spans = &spans[i];
        items[i].span_count = 1;
    }
    sky_batch batch;
    sky_time deadline = round % 3 == 1 ? sky_now() + SKY_MS(1) / 10 : 0;
    if (sky_batches_open(s->b, items, 3, deadline, &batch) != SKY_OK) {
        ++*wrong;
        return;
    }
    sky_mutex_lock(&s->mutex);
    s->queue[s->queued++] = batch;
    sky_mutex_unlock(&s->mutex);
    if (round % 3 == 2)
        sky_batches_cancel(s->b, batch);
    else
        *wrong += sky_batches_wait(s->b, batch, SKY_TIME_NEVER) != SKY_OK;
    for (size_t i = 0; i < 3; i++) {
        sky_status late = round % 3 == 2 ? SKY_E_CANCELLED : SKY_E_DEADLINE;
        if (items[i].status == SKY_OK)
            *wrong += !holds(buffers[i], sizeof buffers[i], (int)i + 1);
        else
            *wrong += round % 3 == 0 || items[i].status != late;
    }
    memset(buffers, 99, sizeof buffers);
    nap(0);
    for (size_t i = 0; i < 3; i++)
        *wrong += !holds(buffers[i], sizeof buffers[i], 99);
}

static void *caller_body(void *argument) {
    stress *s = argument;
    size_t wrong = 0;
    for (int round = 0; round < ROUNDS; round++)
        one_round(s, round, &wrong);
    sky_mutex_lock(&s->mutex);
    s->callers_done++;
    s->wrong += wrong;
    sky_mutex_unlock(&s->mutex);
    return NULL;
}

static void buffers_are_never_touched_afterwards(void **state) {
    (void)state;
    static stress s;
    s.b = create(NULL);
    sky_mutex_init(&s.mutex);
    sky_thread tier, callers[CALLERS];
    assert_int_equal(sky_thread_start(&tier, "tier", tier_body, &s), SKY_OK);
    for (size_t i = 0; i < CALLERS; i++)
        assert_int_equal(sky_thread_start(&callers[i], "caller", caller_body, &s), SKY_OK);
    for (size_t i = 0; i < CALLERS; i++)
        sky_thread_join(&callers[i]);
    sky_thread_join(&tier);
    assert_int_equal(s.wrong, 0);
    sky_batch left;
    assert_int_equal(sky_batches_drain(s.b, &left, 1), 0);
    sky_mutex_deinit(&s.mutex);
    sky_batches_destroy(s.b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finishes_and_drains_in_order),
        cmocka_unit_test(a_kept_batch_is_not_drained),
        cmocka_unit_test(a_kept_batch_raises_its_event),
        cmocka_unit_test(a_batch_may_be_done_when_it_opens),
        cmocka_unit_test(stale_ids_mean_nothing),
        cmocka_unit_test(table_is_bounded),
        cmocka_unit_test(deadlines_by_the_given_clock),
        cmocka_unit_test(descriptor_tells_of_deadlines),
        cmocka_unit_test(cancel_waits_for_those_inside),
        cmocka_unit_test(expiry_waits_for_those_inside),
        cmocka_unit_test(buffers_are_never_touched_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
