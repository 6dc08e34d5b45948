/* The part of the conformance suite that is about batches: many items, many batches, many threads,
 * and buffers that are the caller's again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/sync.h"
#include "tier/tier_fixture.h"

static const sky_tier_env plain_env = {0};

static sky_tier *open_tier(const sky_tier_fixture *f) {
    return f->open(f->context, &plain_env);
}

static void *allocate(size_t bytes) {
    void *data = calloc(1, bytes);
    assert_non_null(data);
    return data;
}

/* Items with one span each, cut from one buffer; item i: key first + i, `bytes` bytes. */
typedef struct {
    sky_item *items;
    sky_span *spans;
    uint8_t *data;
    size_t count;
    size_t bytes;
} load;

static load make_load(size_t count, size_t bytes, uint64_t first) {
    load l = {allocate(count * sizeof *l.items), allocate(count * sizeof *l.spans),
              allocate(count * bytes), count, bytes};
    for (size_t i = 0; i < count; i++) {
        l.spans[i] = (sky_span){l.data + i * bytes, bytes};
        l.items[i] = (sky_item){
            .key = sky_fixture_key(first + i), .spans = &l.spans[i], .span_count = 1};
    }
    return l;
}

static void fill_load(load *l, uint64_t seed) {
    for (size_t i = 0; i < l->count; i++)
        sky_fixture_fill(l->spans[i].data, l->bytes, seed + i);
}

static void free_load(load *l) {
    free(l->items);
    free(l->spans);
    free(l->data);
}

static void assert_statuses(const load *l, sky_status status) {
    for (size_t i = 0; i < l->count; i++)
        assert_int_equal(l->items[i].status, status);
}

static void nap(sky_time ns) {
    sky_poll(NULL, 0, sky_now() + ns);
}

static bool readable(sky_tier *t, sky_time until) {
    int fd = sky_tier_event_fd(t);
    return sky_poll(&fd, 1, until) != 0;
}

/* ---- large batches ---- */

static void large_batches_run(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    size_t count = f->items_max ? f->items_max : 1000;
    load in = make_load(count, 300, 0), out = make_load(count + 10, 300, 0);
    fill_load(&in, 5);
    sky_fixture_run(t, SKY_OP_PUT, in.items, count, NULL);
    assert_statuses(&in, SKY_OK);
    sky_fixture_run(t, SKY_OP_GET, out.items, count + 10, NULL);
    for (size_t i = 0; i < count + 10; i++) {
        assert_int_equal(out.items[i].status, i < count ? SKY_OK : SKY_MISS);
        assert_int_equal(out.items[i].bytes, i < count ? 300 : 0);
        assert_true(i >= count || sky_fixture_holds(out.spans[i].data, 300, 5 + i));
        assert_int_equal(out.items[i].tier == SKY_TIER_NONE, i >= count);
    }
    sky_fixture_run(t, SKY_OP_REMOVE, out.items, count + 10, NULL);
    sky_fixture_run(t, SKY_OP_HAS, in.items, count, NULL);
    assert_statuses(&in, SKY_MISS);
    free_load(&in);
    free_load(&out);
    f->close(f->context, t);
}

static void a_key_may_stand_in_a_batch_twice(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    load l = make_load(20, 7000, 0);
    for (size_t i = 0; i < 20; i++)
        l.items[i].key = sky_fixture_key(i % 3);
    fill_load(&l, 40);
    sky_fixture_run(t, SKY_OP_PUT, l.items, 20, NULL);
    assert_statuses(&l, SKY_OK);
    memset(l.data, 0, 20 * 7000);
    sky_fixture_run(t, SKY_OP_GET, l.items, 20, NULL);
    assert_statuses(&l, SKY_OK);
    for (size_t i = 0; i < 20; i++) { /* all of one of the puts of its key, the same each time */
        bool whole = false;
        for (size_t j = i % 3; j < 20; j += 3)
            whole |= sky_fixture_holds(l.spans[i].data, 7000, 40 + j);
        assert_true(whole);
        assert_memory_equal(l.spans[i].data, l.spans[i % 3].data, 7000);
    }
    sky_fixture_run(t, SKY_OP_REMOVE, l.items, 20, NULL);
    for (size_t i = 0; i < 20; i++)
        assert_true(l.items[i].status == SKY_OK || l.items[i].status == SKY_MISS);
    sky_fixture_run(t, SKY_OP_HAS, l.items, 20, NULL);
    assert_statuses(&l, SKY_MISS);
    free_load(&l);
    f->close(f->context, t);
}

/* ---- many batches ---- */

#define AT_ONCE 60
static void many_batches_are_drained_once_each(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    load in = make_load(AT_ONCE * 4, 2000, 0), out = make_load(AT_ONCE * 4, 2000, 0);
    fill_load(&in, 70);
    sky_fixture_run(t, SKY_OP_PUT, in.items, in.count, NULL);
    assert_statuses(&in, SKY_OK);
    sky_batch batches[AT_ONCE], done[7];
    bool seen[AT_ONCE] = {false};
    for (size_t i = 0; i < AT_ONCE; i++)
        batches[i] = sky_fixture_submit(t, SKY_OP_GET, &out.items[i * 4], 4, NULL);
    sky_time give_up = sky_now() + SKY_SECONDS(60);
    for (size_t count = 0; count < AT_ONCE;) {
        assert_true(readable(t, give_up));
        size_t got = sky_tier_drain(t, done, 7);
        for (size_t i = 0; i < got; i++) {
            size_t which = 0;
            while (which < AT_ONCE && batches[which].id != done[i].id)
                which++;
            assert_true(which < AT_ONCE && !seen[which]);
            seen[which] = true;
            for (size_t k = which * 4; k < which * 4 + 4; k++)
                assert_int_equal(out.items[k].status, SKY_OK);
        }
        count += got;
    }
    for (size_t i = 0; i < out.count; i++)
        assert_true(sky_fixture_holds(out.spans[i].data, 2000, 70 + i));
    assert_int_equal(sky_tier_wait(t, batches[0], sky_now()), SKY_E_PARAM);
    free_load(&in);
    free_load(&out);
    f->close(f->context, t);
}

static void too_many_batches_are_refused(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    static sky_item items[SKY_BATCHES_MAX + 1];
    static sky_batch done[SKY_BATCHES_MAX];
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < SKY_BATCHES_MAX; i++)
        sky_fixture_submit(t, SKY_OP_HAS, &items[i], 1, NULL);
    sky_batch extra = {3};
    sky_item *last = &items[SKY_BATCHES_MAX];
    assert_int_equal(sky_tier_submit(t, SKY_OP_HAS, last, 1, NULL, &extra), SKY_E_BUSY);
    assert_int_equal(extra.id, 3);
    sky_time give_up = sky_now() + SKY_SECONDS(60);
    for (size_t count = 0; count < SKY_BATCHES_MAX;) {
        assert_true(readable(t, give_up));
        count += sky_tier_drain(t, done, SKY_BATCHES_MAX);
    }
    for (size_t i = 0; i < SKY_BATCHES_MAX; i++)
        assert_int_equal(items[i].status, SKY_MISS);
    sky_fixture_run(t, SKY_OP_HAS, last, 1, NULL);
    f->close(f->context, t);
}

static void the_descriptor_tells(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    sky_batch done[4];
    sky_item items[2] = {{.key = sky_fixture_key(1)}, {.key = sky_fixture_key(2)}};
    assert_false(readable(t, sky_now() + SKY_MS(2)));
    sky_batch first = sky_fixture_submit(t, SKY_OP_HAS, &items[0], 1, NULL);
    assert_true(readable(t, sky_now() + SKY_SECONDS(60)));
    assert_int_equal(sky_tier_drain(t, done, 0), 0);
    assert_true(readable(t, sky_now()));
    assert_int_equal(sky_tier_drain(t, done, 4), 1);
    assert_int_equal(done[0].id, first.id);
    assert_int_equal(sky_tier_drain(t, done, 4), 0);
    assert_false(readable(t, sky_now()));
    sky_batch second = sky_fixture_submit(t, SKY_OP_HAS, &items[1], 1, NULL);
    assert_true(second.id != first.id);
    assert_int_equal(sky_tier_wait(t, second, sky_now() + SKY_SECONDS(60)), SKY_OK);
    assert_int_equal(sky_tier_drain(t, done, 4), 0); /* waiting took it off */
    assert_int_equal(sky_tier_wait(t, second, sky_now()), SKY_E_PARAM);
    f->close(f->context, t);
}

/* ---- deadlines and cancellation ---- */

#define LARGE 400000

/* Write over all buffers, give whoever might still hold them time, and look. */
static void assert_left_alone(sky_tier *t, load *l) {
    memset(l->data, 0x5a, l->count * l->bytes);
    sky_status *before = allocate(l->count * sizeof *before);
    for (size_t i = 0; i < l->count; i++)
        before[i] = l->items[i].status;
    nap(SKY_MS(20));
    (void)sky_fixture_one(t, SKY_OP_HAS, sky_fixture_key(999));
    for (size_t i = 0; i < l->count * l->bytes; i++)
        if (l->data[i] != 0x5a)
            fail_msg("byte %zu was written after the batch was over", i);
    for (size_t i = 0; i < l->count; i++)
        assert_int_equal(l->items[i].status, before[i]);
    free(before);
}

static void a_past_deadline_ends_the_batch(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    load l = make_load(6, 50000, 0);
    fill_load(&l, 10);
    sky_call late = {.deadline_ns = 1};
    sky_fixture_run(t, SKY_OP_PUT, l.items, 6, NULL);
    assert_statuses(&l, SKY_OK);
    sky_fixture_run(t, SKY_OP_GET, l.items, 6, &late);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(l.items[i].status, SKY_E_DEADLINE);
        assert_int_equal(l.items[i].tier, SKY_TIER_NONE);
    }
    assert_left_alone(t, &l);
    fill_load(&l, 80);
    sky_batch batch = sky_fixture_submit(t, SKY_OP_PUT, l.items, 6, &late), done = {0};
    do /* the alarm tells, though a thread that is just copying an item may hold the batch yet */
        assert_true(readable(t, sky_now() + SKY_SECONDS(60)));
    while (sky_tier_drain(t, &done, 1) == 0);
    assert_int_equal(done.id, batch.id);
    assert_statuses(&l, SKY_E_DEADLINE);
    memset(l.data, 0x5a, 6 * 50000);
    for (size_t i = 0; i < 6; i++) { /* the old or the new, whole */
        sky_status old = sky_fixture_check(t, l.items[i].key, 50000, 10 + i);
        if (old != SKY_OK)
            assert_int_equal(sky_fixture_check(t, l.items[i].key, 50000, 80 + i), SKY_OK);
    }
    assert_true(sky_fixture_counts(t).late >= 12);
    free_load(&l);
    f->close(f->context, t);
}

static void cancelled_buffers_are_the_callers(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    size_t count = f->capacity_bytes && f->capacity_bytes < 8 * LARGE ? 2 : 6;
    load in = make_load(count, LARGE, 0), out = make_load(count, LARGE, 0);
    fill_load(&in, 20);
    sky_fixture_run(t, SKY_OP_PUT, in.items, count, NULL);
    assert_statuses(&in, SKY_OK);
    for (size_t round = 0; round < 5; round++) {
        sky_batch batch = sky_fixture_submit(t, SKY_OP_GET, out.items, count, NULL), done;
        sky_tier_cancel(t, batch);
        for (size_t i = 0; i < count; i++) {
            sky_status status = out.items[i].status;
            assert_true(status == SKY_OK || status == SKY_E_CANCELLED);
            if (status == SKY_OK)
                assert_true(sky_fixture_holds(out.spans[i].data, LARGE, 20 + i));
        }
        assert_left_alone(t, &out);
        sky_tier_cancel(t, batch);
        assert_int_equal(sky_tier_drain(t, &done, 1), 0);
        assert_int_equal(sky_tier_wait(t, batch, sky_now()), SKY_E_PARAM);
    }
    fill_load(&out, 90);
    sky_tier_cancel(t, sky_fixture_submit(t, SKY_OP_PUT, out.items, count, NULL));
    assert_left_alone(t, &out); /* scribbles over the source of the put */
    for (size_t i = 0; i < count; i++) {
        sky_status old = sky_fixture_check(t, in.items[i].key, LARGE, 20 + i);
        if (old != SKY_OK)
            assert_int_equal(sky_fixture_check(t, in.items[i].key, LARGE, 90 + i), SKY_OK);
    }
    free_load(&in);
    free_load(&out);
    f->close(f->context, t);
}

/* ---- threads; cmocka's assertions are for the main thread, so these count ---- */

#define SHARED_BYTES_MAX 30000

/* Payloads of one key tell in their first 8 bytes which seed the rest is of, and the size
 * follows. */
static size_t shared_bytes(uint64_t seed) {
    return 1000 + (size_t)(seed * 7919 % (SHARED_BYTES_MAX - 1000));
}

static bool is_whole(const uint8_t *data, size_t bytes) {
    uint64_t seed;
    memcpy(&seed, data, sizeof seed);
    return bytes == shared_bytes(seed) &&
           sky_fixture_holds(data + sizeof seed, bytes - sizeof seed, seed);
}

typedef struct {
    sky_tier *tier;
    uint64_t number;
    uint32_t wrong;
    uint32_t found;
} worker;

static sky_status run_one(worker *w, sky_op op, sky_item *item) {
    sky_batch batch;
    if (sky_tier_submit(w->tier, op, item, 1, NULL, &batch) != SKY_OK)
        return SKY_E_IO;
    if (sky_tier_wait(w->tier, batch, sky_now() + SKY_SECONDS(60)) != SKY_OK)
        return SKY_E_IO;
    return item->status;
}

static void *writer_body(void *argument) {
    worker *w = argument;
    uint8_t data[SHARED_BYTES_MAX];
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t seed = round * 16 + w->number;
        sky_span span = {data, shared_bytes(seed)};
        memcpy(data, &seed, sizeof seed);
        sky_fixture_fill(data + sizeof seed, span.bytes - sizeof seed, seed);
        sky_item item = {.key = sky_fixture_key(round % 2), .spans = &span, .span_count = 1};
        w->wrong += run_one(w, SKY_OP_PUT, &item) != SKY_OK;
        memset(data, 0, sizeof data);
        if (w->number == 0 && round % 8 == 7)
            (void)run_one(w, SKY_OP_REMOVE, &item);
    }
    return NULL;
}

static void *reader_body(void *argument) {
    worker *w = argument;
    uint8_t data[SHARED_BYTES_MAX];
    for (uint64_t round = 0; round < 120; round++) {
        sky_span span = {data, sizeof data};
        sky_item item = {.key = sky_fixture_key(round % 2), .spans = &span, .span_count = 1};
        sky_status status = run_one(w, SKY_OP_GET, &item);
        w->wrong += status != SKY_MISS && status != SKY_OK;
        w->found += status == SKY_OK;
        w->wrong += status == SKY_OK && !is_whole(data, item.bytes);
    }
    return NULL;
}

static void of_two_writers_one_wins_whole(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    sky_thread threads[4];
    worker workers[4];
    for (uint64_t i = 0; i < 4; i++) {
        workers[i] = (worker){.tier = t, .number = i};
        assert_int_equal(
            sky_thread_start(&threads[i], "worker", i < 2 ? writer_body : reader_body, &workers[i]),
            SKY_OK);
    }
    for (size_t i = 0; i < 4; i++)
        sky_thread_join(&threads[i]);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(workers[i].wrong, 0);
    worker last = {.tier = t};
    reader_body(&last); /* the removals of one were before the last puts of the other, or after */
    assert_int_equal(last.wrong, 0);
    f->close(f->context, t);
}

static void *waiter_body(void *argument) {
    worker *w = argument;
    uint8_t data[4000];
    for (uint64_t round = 0; round < 50; round++) {
        uint64_t seed = w->number * 1000 + round % 10;
        sky_span span = {data, sizeof data};
        sky_item item = {.key = sky_fixture_key(seed), .spans = &span, .span_count = 1};
        sky_fixture_fill(data, sizeof data, seed);
        w->wrong += run_one(w, SKY_OP_PUT, &item) != SKY_OK;
        memset(data, 0, sizeof data);
        w->wrong += run_one(w, SKY_OP_GET, &item) != SKY_OK;
        w->wrong += !sky_fixture_holds(data, sizeof data, seed);
    }
    return NULL;
}

static void threads_wait_for_their_own(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    sky_thread threads[4];
    worker workers[4];
    for (uint64_t i = 0; i < 4; i++) {
        workers[i] = (worker){.tier = t, .number = i};
        assert_int_equal(sky_thread_start(&threads[i], "waiter", waiter_body, &workers[i]), SKY_OK);
    }
    for (size_t i = 0; i < 4; i++)
        sky_thread_join(&threads[i]);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(workers[i].wrong, 0);
    f->close(f->context, t);
}

int sky_tier_batch_conformance(const sky_tier_fixture *fixture) {
    struct CMUnitTest tests[] = {
        cmocka_unit_test(large_batches_run),
        cmocka_unit_test(a_key_may_stand_in_a_batch_twice),
        cmocka_unit_test(many_batches_are_drained_once_each),
        cmocka_unit_test(too_many_batches_are_refused),
        cmocka_unit_test(the_descriptor_tells),
        cmocka_unit_test(a_past_deadline_ends_the_batch),
        cmocka_unit_test(cancelled_buffers_are_the_callers),
        cmocka_unit_test(of_two_writers_one_wins_whole),
        cmocka_unit_test(threads_wait_for_their_own),
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i].initial_state = (void *)fixture;
    return cmocka_run_group_tests_name(fixture->name, tests, NULL, NULL);
}
