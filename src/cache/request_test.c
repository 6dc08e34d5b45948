/* Proves: a batch goes to the nearest tier first, on to the next for what is missing or damaged, to
 * all at once for what concerns all, and is done in submit when the near tier has everything; and
 * that what was there goes when something newer was taken, and not before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_internal.h"
#include "cache/cache_state.h"
#include "cache/hierarchy_fixture.h"
#include "cache/promotion.h"

static void near_hits_are_done_when_submit_returns(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    sky_one o;
    sky_one_make(&o, 1);
    sky_batch batch, done;
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    assert_int_equal(o.item.tier, 0);
    int fd = sky_event_fd(s.cache);
    assert_int_equal(sky_poll(&fd, 1, sky_now()), 1);
    assert_int_equal(sky_drain(s.cache, &done, 1), 1);
    assert_int_equal(done.id, batch.id);
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_GET), 0);
    sky_scripted_hold(s.far[0], false);
    sky_cache_close(s.cache);
}

/* What a far tier can answer without waiting is there when submit returns, and goes to memory; what
 * it cannot takes the other way. */
static void attempts_are_answered_in_submit(void **state) {
    (void)state;
    for (size_t memory = 0; memory < 2; memory++) {
        sky_setting s = sky_setting_open(memory ? "mem:1MiB" : NULL, 1);
        sky_setting_plant(s.far[0], 1, 1);
        sky_scripted_hold(s.far[0], true);
        sky_scripted_attempt(s.far[0], true);
        sky_one o[2];
        sky_item items[2];
        for (uint64_t n = 0; n < 2; n++) {
            sky_one_make(&o[n], 1 + n);
            items[n] = o[n].item;
        }
        sky_batch batch;
        assert_int_equal(sky_submit(s.cache, SKY_OP_GET, items, 2, NULL, &batch), SKY_OK);
        assert_int_equal(items[0].status, SKY_OK);
        assert_int_equal(items[0].tier, memory);
        assert_true(sky_fixture_holds(o[0].data, SKY_ONE_BYTES, 1));
        assert_int_equal(items[1].status, SKY_PENDING);
        assert_int_equal(sky_scripted_attempted(s.far[0]), 1);
        sky_scripted_hold(s.far[0], false);
        assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(items[1].status, SKY_MISS);
        assert_true(sky_scripted_count(s.far[0], SKY_OP_GET) >= 1); /* of key 2 */
        if (memory)
            SKY_EVENTUALLY(sky_setting_near_has(s.cache, 1));
        sky_cache_close(s.cache);
    }
}

/* Nothing but the attempt wakes the cache's thread, whose promotion a flush waits for. */
static void an_attempt_is_promoted_at_once(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_scripted_attempt(s.far[0], true);
    sky_setting_nap(); /* the thread sleeps by now */
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 1);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_near_has(s.cache, 1));
    sky_cache_close(s.cache);
}

static void large_batches_are_split_and_all_answered(void **state) {
    (void)state;
    enum { ITEMS = 500 };
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_item *items = calloc(ITEMS, sizeof *items);
    assert_non_null(items);
    for (uint64_t n = 0; n < ITEMS; n++) {
        items[n].key = sky_fixture_key(n);
        if (n % 3)
            sky_setting_plant(s.far[n % 3 - 1], n, n);
    }
    assert_int_equal(sky_run(s.cache, SKY_OP_HAS, items, ITEMS, NULL), SKY_OK);
    for (uint64_t n = 0; n < ITEMS; n++) {
        assert_int_equal(items[n].status, n % 3 ? SKY_OK : SKY_MISS);
        assert_int_equal(items[n].tier, n % 3 ? n % 3 : SKY_TIER_NONE);
        assert_int_equal(items[n].bytes, n % 3 ? SKY_ONE_BYTES : 0);
    }
    free(items);
    sky_cache_close(s.cache);
}

static void damage_at_one_tier_is_read_from_the_next(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[0], 1, 1);
    sky_setting_plant(s.far[1], 1, 1);
    sky_setting_plant(s.far[0], 2, 2);
    sky_scripted_say(s.far[0], SKY_E_CORRUPT);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, NULL), 2);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 2, NULL), SKY_E_CORRUPT);
    sky_cache_close(s.cache);
}

static void tiers_not_in_the_mask_are_not_asked(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_setting_plant(s.far[1], 1, 1);
    assert_int_equal(sky_setting_put(s.cache, 2, 2, &(sky_call){.tiers = 1 | 4}), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_false(sky_setting_far_has(s.far[0], 2));
    assert_true(sky_setting_far_holds(s.far[1], 2, 2));
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_GET, 1, &(sky_call){.tiers = 3}), SKY_MISS);
    assert_int_equal(sky_setting_get(s.cache, 1, 1, &(sky_call){.tiers = 4}), 2);
    sky_one o;
    sky_one_make(&o, 1);
    sky_batch batch = {7};
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &o.item, 1, &(sky_call){.tiers = 8}, &batch),
                     SKY_E_PARAM);
    assert_int_equal(batch.id, 7);
    sky_cache_close(s.cache);
}

static void leases_come_from_the_near_tier(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_one o;
    sky_one_make(&o, 1);
    assert_int_equal(sky_one_run(s.cache, SKY_OP_LEASE, &o, NULL), SKY_OK);
    assert_int_equal(o.item.view.bytes, SKY_ONE_BYTES);
    assert_true(sky_fixture_holds(o.item.view.data, SKY_ONE_BYTES, 1));
    sky_release(s.cache, o.item.lease);
    sky_release(s.cache, (sky_lease){0});
    o.item.key = sky_fixture_key(2); /* the item tells nothing of before */
    assert_int_equal(sky_one_run(s.cache, SKY_OP_LEASE, &o, NULL), SKY_MISS);
    assert_true(o.item.lease.id == 0 && !o.item.view.data && o.item.view.bytes == 0);
    sky_scripted_hold(s.far[0], true);
    sky_call call = {.deadline_ns = sky_now() + SKY_MS(30)};
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_LEASE, 3, &call), SKY_E_DEADLINE);
    sky_scripted_hold(s.far[0], false);
    sky_cache_close(s.cache);
    s = sky_setting_open(NULL, 1);
    sky_setting_plant(s.far[0], 1, 1);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_LEASE, 1, NULL), SKY_E_UNSUPPORTED);
    sky_cache_close(s.cache);
}

static void a_durable_put_is_done_when_all_have_answered(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_call durable = {.durable = true};
    assert_int_equal(sky_setting_put(s.cache, 1, 1, &durable), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 1) && sky_setting_far_holds(s.far[1], 1, 1) &&
                sky_setting_near_has(s.cache, 1));
    sky_scripted_say(s.far[1], SKY_E_FULL); /* one that keeps it is enough */
    assert_int_equal(sky_setting_put(s.cache, 2, 2, &durable), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 2, 2));
    sky_scripted_say(s.far[0], SKY_E_FULL); /* memory alone is not */
    assert_int_equal(sky_setting_put(s.cache, 4, 4, &durable), SKY_E_FULL);
    sky_scripted_say(s.far[0], SKY_OK);
    sky_scripted_say(s.far[1], SKY_OK);
    sky_scripted_hold(s.far[0], true);
    sky_scripted_hold(s.far[1], true); /* with one that took it in time, either answer is right */
    durable.deadline_ns = sky_now() + SKY_MS(30);
    assert_int_equal(sky_setting_put(s.cache, 3, 3, &durable), SKY_E_DEADLINE);
    sky_cache_close(s.cache);
}

static void what_one_tier_refuses_the_next_takes(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:64KiB", 2);
    enum { LARGE = 100000 };
    uint8_t *data = malloc(LARGE);
    assert_non_null(data);
    sky_fixture_fill(data, LARGE, 9);
    sky_span span = {data, LARGE};
    sky_item item = {.key = sky_fixture_key(9), .spans = &span, .span_count = 1};
    item.name = "changes";
    item.name_bytes = 7;
    assert_int_equal(sky_setting_put(s.cache, 9, 1, NULL), SKY_OK); /* an older, smaller value */
    assert_int_equal(sky_run(s.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.tier, 1);
    assert_false(sky_setting_near_has(s.cache, 9));
    memset(data, 0, LARGE);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    for (size_t i = 0; i < 2; i++) {
        size_t bytes;
        const void *stored = sky_scripted_peek(s.far[i], &item.key, &bytes);
        assert_true(stored && bytes == LARGE && sky_fixture_holds(stored, LARGE, 9));
    }
    sky_scripted_say(s.far[0], SKY_E_FULL);
    sky_scripted_say(s.far[1], SKY_E_FULL);
    assert_int_equal(sky_run(s.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_E_FULL);
    free(data);
    sky_cache_close(s.cache);
}

enum { LARGE_BYTES = 100000 }; /* more than 64 KiB of memory */

/* Values of one name, in all tiers of 64 KiB of memory and two more. */
typedef struct {
    sky_setting s;
    sky_one small;
    sky_item large;
    sky_span span;
    uint8_t data[LARGE_BYTES];
} values;

static sky_status put_small(values *v, uint64_t seed, const sky_call *call) {
    sky_one_make(&v->small, 1);
    v->small.item.name = "changes";
    v->small.item.name_bytes = 7;
    sky_fixture_fill(v->small.data, SKY_ONE_BYTES, seed);
    return sky_one_run(v->s.cache, SKY_OP_PUT, &v->small, call);
}

static values *values_open(void) {
    values *v = calloc(1, sizeof *v);
    assert_non_null(v);
    v->s = sky_setting_open("mem:64KiB", 2);
    assert_int_equal(put_small(v, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(v->s.cache), SKY_OK);
    sky_fixture_fill(v->data, LARGE_BYTES, 9);
    v->span = (sky_span){v->data, LARGE_BYTES};
    v->large = v->small.item;
    v->large.spans = &v->span;
    return v;
}

static void values_close(values *v) {
    sky_cache_close(v->s.cache);
    free(v);
}

static void a_put_that_no_tier_takes_leaves_what_was_there(void **state) {
    (void)state;
    values *v = values_open();
    for (size_t i = 0; i < 2; i++)
        sky_scripted_say(v->s.far[i], SKY_E_FULL);
    assert_int_equal(sky_run(v->s.cache, SKY_OP_PUT, &v->large, 1, NULL), SKY_OK);
    assert_int_equal(v->large.status, SKY_E_FULL);
    assert_int_equal(sky_setting_get(v->s.cache, 1, 1, NULL), 0);
    sky_call durable = {.durable = true}; /* what memory alone takes, it gives back */
    assert_int_equal(put_small(v, 2, &durable), SKY_E_FULL);
    for (size_t i = 0; i < 2; i++)
        sky_scripted_say(v->s.far[i], SKY_OK);
    assert_int_equal(sky_setting_flush(v->s.cache), SKY_OK);
    assert_int_equal(sky_setting_get(v->s.cache, 1, 1, NULL), 1);
    for (size_t i = 0; i < 2; i++)
        assert_true(sky_setting_far_holds(v->s.far[i], 1, 1));
    values_close(v);
}

/* Memory refuses it, then the first tier or none; the last one takes it. */
static void a_put_that_one_takes_outdates_all(void **state) {
    (void)state;
    for (int durable = 0; durable < 2; durable++) {
        values *v = values_open();
        sky_batch batch;
        sky_call call = {.durable = durable};
        sky_scripted_hold(v->s.far[0], true);
        assert_int_equal(sky_submit(v->s.cache, SKY_OP_PUT, &v->large, 1, &call, &batch), SKY_OK);
        SKY_EVENTUALLY(sky_scripted_held(v->s.far[0]) == 1);
        sky_scripted_refuse(v->s.far[0], &v->large.key, SKY_E_FULL);
        sky_scripted_hold(v->s.far[0], false);
        assert_int_equal(sky_wait(v->s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(v->large.status, SKY_OK);
        assert_int_equal(sky_setting_flush(v->s.cache), SKY_E_FULL); /* far[0] goes without */
        assert_false(sky_setting_near_has(v->s.cache, 1));
        assert_false(sky_setting_far_has(v->s.far[0], 1));
        size_t bytes;
        assert_non_null(sky_scripted_peek(v->s.far[1], &v->large.key, &bytes));
        assert_int_equal(bytes, LARGE_BYTES);
        values_close(v);
    }
}

/* Memory has refused it and the next tier not yet taken it: a get waits for that, and so does a
 * newer put, that memory does take. */
static void what_is_refused_is_read_where_it_goes(void **state) {
    (void)state;
    for (int newer = 0; newer < 2; newer++) {
        values *v = values_open();
        static uint8_t got[LARGE_BYTES];
        sky_span span = {got, LARGE_BYTES};
        sky_item get = {.key = v->large.key, .spans = &span, .span_count = 1};
        sky_batch b[3];
        size_t count = 0;
        sky_scripted_hold(v->s.far[0], true);
        assert_int_equal(sky_submit(v->s.cache, SKY_OP_PUT, &v->large, 1, NULL, &b[count++]),
                         SKY_OK);
        SKY_EVENTUALLY(sky_scripted_held(v->s.far[0]) == 1);
        if (newer) {
            sky_fixture_fill(v->small.data, SKY_ONE_BYTES, 3);
            assert_int_equal(
                sky_submit(v->s.cache, SKY_OP_PUT, &v->small.item, 1, NULL, &b[count++]), SKY_OK);
        }
        assert_int_equal(sky_submit(v->s.cache, SKY_OP_GET, &get, 1, NULL, &b[count++]), SKY_OK);
        sky_setting_nap();
        assert_int_equal(get.status, SKY_PENDING);
        sky_scripted_hold(v->s.far[0], false);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(sky_wait(v->s.cache, b[i], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(get.bytes, newer ? SKY_ONE_BYTES : LARGE_BYTES);
        assert_true(sky_fixture_holds(got, get.bytes, newer ? 3 : 9));
        assert_int_equal(sky_setting_flush(v->s.cache), SKY_OK);
        assert_int_equal(sky_setting_near_has(v->s.cache, 1), newer);
        assert_int_equal(sky_setting_far_holds(v->s.far[0], 1, 3), newer);
        values_close(v);
    }
}

static void without_memory_the_first_tier_takes_it(void **state) {
    (void)state;
    sky_setting s = sky_setting_open(NULL, 2);
    sky_scripted_hold(s.far[1], true);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 1));
    sky_scripted_hold(s.far[1], false);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[1], 1, 1));
    sky_setting_plant(s.far[1], 2, 2);
    assert_int_equal(sky_setting_get(s.cache, 2, 2, NULL), 1);
    SKY_EVENTUALLY(sky_setting_far_holds(s.far[0], 2, 2));
    sky_cache_close(s.cache);
}

/* A get submitted after a put or a remove of its key comes after it at each tier, near ones too. */
static void reads_come_after_writes_of_their_keys(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_put(s.cache, 9, 9, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    sky_scripted_hold(s.far[0], true);
    sky_one put, get, other;
    sky_batch b[3];
    sky_one_make(&put, 1);
    sky_fixture_fill(put.data, SKY_ONE_BYTES, 2);
    sky_one_make(&get, 1);
    sky_one_make(&other, 9);
    sky_call far = {.tiers = 2};
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &put.item, 1, &far, &b[0]), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &get.item, 1, &far, &b[1]), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &other.item, 1, &far, &b[2]), SKY_OK);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) >= 2);
    for (int i = 0; i < 20; i++)
        sky_setting_nap();
    assert_int_equal(sky_scripted_held(s.far[0]), 2); /* the put, and the get of another key */
    sky_scripted_hold(s.far[0], false);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sky_wait(s.cache, b[i], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_true(sky_fixture_holds(get.data, SKY_ONE_BYTES, 2));
    sky_call durable = {.durable = true}; /* to all tiers at once, by the thread */
    for (uint64_t i = 0; i < 50; i++) {
        sky_fixture_fill(put.data, SKY_ONE_BYTES, 100 + i);
        assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &put.item, 1, &durable, &b[0]), SKY_OK);
        assert_int_equal(sky_submit(s.cache, SKY_OP_GET, &get.item, 1, NULL, &b[1]), SKY_OK);
        for (size_t n = 0; n < 2; n++)
            assert_int_equal(sky_wait(s.cache, b[n], sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(get.item.status, SKY_OK);
        assert_true(sky_fixture_holds(get.data, SKY_ONE_BYTES, 100 + i));
    }
    sky_cache_close(s.cache);
}

static void a_cancelled_removal_that_waited_removes_nothing(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_one put, removal;
    sky_batch writes, removes;
    sky_one_make(&put, 1);
    put.item.name = "value";
    put.item.name_bytes = 5;
    sky_one_make(&removal, 1);
    sky_scripted_hold(s.far[0], true); /* so that the put is not over, and the removal waits */
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &put.item, 1, NULL, &writes), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_REMOVE, &removal.item, 1, NULL, &removes), SKY_OK);
    sky_cancel(s.cache, removes);
    assert_int_equal(removal.item.status, SKY_E_CANCELLED);
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 1);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, writes, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(put.item.status, SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 1, NULL), SKY_OK); /* behind the removal */
    assert_true(sky_setting_near_has(s.cache, 1));
    assert_true(sky_setting_far_has(s.far[0], 1));
    sky_cache_close(s.cache);
}

static void a_put_cancelled_under_way_is_not_ok(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 1);
    sky_one o;
    sky_batch batch;
    sky_scripted_hold(s.far[0], true);
    for (uint64_t n = 0; n < 10; n++) /* the queue is full */
        assert_int_equal(sky_setting_put(s.cache, n, n, NULL), SKY_OK);
    sky_one_make(&o, 10);
    assert_int_equal(sky_submit(s.cache, SKY_OP_PUT, &o.item, 1, NULL, &batch), SKY_OK);
    assert_int_equal(o.item.status, SKY_PENDING);
    sky__cache_abandon(s.cache);
    assert_int_equal(o.item.status, SKY_E_CANCELLED);
}

/* A put under a name that a tier refuses asks that tier for more after its caller may have gone. */
static void what_a_put_asks_later_has_no_spans_of_its_caller(void **state) {
    (void)state;
    static const sky_op later[] = {SKY_OP_HAS, SKY_OP_PIN, SKY_OP_REMOVE};
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    sky_one o;
    sky_one_make(&o, 1);
    sky_setting_plant(s.far[0], 1, 1);
    sky_setting_plant(s.far[1], 1, 1);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 1, NULL), SKY_OK);
    size_t before = sky_scripted_spans(s.far[0], SKY_OP_PIN); /* the caller's own */
    o.item.name = "value";
    o.item.name_bytes = 5;
    sky_scripted_refuse(s.far[1], &o.item.key, SKY_E_BUSY);
    assert_int_equal(sky_one_run(s.cache, SKY_OP_PUT, &o, NULL), SKY_OK);
    assert_int_equal(sky_scripted_spans(s.far[0], SKY_OP_PUT), 1);
    assert_int_equal(sky_scripted_count(s.far[1], SKY_OP_HAS), 1);
    assert_int_equal(sky_scripted_count(s.far[1], SKY_OP_REMOVE), 1);
    for (size_t k = 0; k < sizeof later / sizeof *later; k++)
        for (size_t t = 0; t < 2; t++)
            assert_int_equal(sky_scripted_spans(s.far[t], later[k]),
                             later[k] == SKY_OP_PIN ? before : 0);
    sky_cache_close(s.cache);
}

static void has_sees_the_pin_before_it(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_one pin, has;
    sky_batch pins, looks;
    sky_one_make(&pin, 1);
    sky_one_make(&has, 1);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    sky_scripted_hold(s.far[0], true);
    assert_int_equal(sky_submit(s.cache, SKY_OP_PIN, &pin.item, 1, NULL, &pins), SKY_OK);
    assert_int_equal(sky_submit(s.cache, SKY_OP_HAS, &has.item, 1, NULL, &looks), SKY_OK);
    assert_int_equal(has.item.status, SKY_PENDING);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, pins, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(sky_wait(s.cache, looks, SKY_TIME_NEVER), SKY_OK);
    assert_true(pin.item.status == SKY_OK && has.item.status == SKY_OK && has.item.pinned);
    sky_cache_close(s.cache);
}

/* The malloc of the product and the fixtures, by the linker's --wrap. */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
static _Thread_local unsigned mallocs_left; /* of this thread, until one fails; 0: none will */

void *__wrap_malloc(size_t bytes) {
    return mallocs_left > 0 && --mallocs_left == 0 ? NULL : __real_malloc(bytes);
}

static void without_memory_for_a_sub_request_the_item_ends_whole(void **state) {
    (void)state;
    static const sky_op ops[] = {SKY_OP_PUT, SKY_OP_GET, SKY_OP_REMOVE};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        bool failed = true;
        for (unsigned nth = 1; failed; nth++) {
            sky_setting s = sky_setting_open("mem:1MiB", 2);
            sky_one o;
            sky_one_make(&o, 1);
            if (ops[k] != SKY_OP_GET)
                assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
            mallocs_left = nth;
            sky_status status = sky_run(s.cache, ops[k], &o.item, 1, &(sky_call){.durable = true});
            failed = mallocs_left == 0;
            mallocs_left = 0;
            bool told = status == SKY_E_NOMEM || o.item.status == SKY_E_NOMEM;
            assert_int_equal(told, failed);
            /* Nothing is left under way that a later write would wait for. */
            assert_int_equal(sky_setting_put(s.cache, 1, 2, NULL), SKY_OK);
            assert_int_equal(sky_setting_get(s.cache, 1, 2, NULL), 0);
            sky_cache_close(s.cache);
        }
    }
}

/* What was read before a write, and what is read without a word of writes, goes nowhere. */
static void what_may_not_be_stored_takes_no_memory(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_one o;
    sky_one_make(&o, 1);
    sky_call call = {.tiers = 0};
    uint64_t since = sky__order_writes(&s.cache->order, &o.item.key);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, NULL), SKY_OK);
    mallocs_left = 1;
    assert_false(sky__promotion_store(s.cache, &o.item, &call, 1, since, 0));
    assert_false(sky__promotion_store(s.cache, &o.item, &call, 1, SKY__ORDER_UNKNOWN, 0));
    assert_int_equal(mallocs_left, 1);
    mallocs_left = 0;
    sky_cache_close(s.cache);
}

static void pins_concern_every_tier(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_setting_plant(s.far[0], 1, 1);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_UNPIN, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 2, NULL), SKY_MISS);
    sky_cache_close(s.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_hits_are_done_when_submit_returns),
        cmocka_unit_test(attempts_are_answered_in_submit),
        cmocka_unit_test(an_attempt_is_promoted_at_once),
        cmocka_unit_test(large_batches_are_split_and_all_answered),
        cmocka_unit_test(damage_at_one_tier_is_read_from_the_next),
        cmocka_unit_test(tiers_not_in_the_mask_are_not_asked),
        cmocka_unit_test(leases_come_from_the_near_tier),
        cmocka_unit_test(a_durable_put_is_done_when_all_have_answered),
        cmocka_unit_test(what_one_tier_refuses_the_next_takes),
        cmocka_unit_test(a_put_that_no_tier_takes_leaves_what_was_there),
        cmocka_unit_test(a_put_that_one_takes_outdates_all),
        cmocka_unit_test(what_is_refused_is_read_where_it_goes),
        cmocka_unit_test(without_memory_the_first_tier_takes_it),
        cmocka_unit_test(a_put_cancelled_under_way_is_not_ok),
        cmocka_unit_test(what_a_put_asks_later_has_no_spans_of_its_caller),
        cmocka_unit_test(has_sees_the_pin_before_it),
        cmocka_unit_test(a_cancelled_removal_that_waited_removes_nothing),
        cmocka_unit_test(without_memory_for_a_sub_request_the_item_ends_whole),
        cmocka_unit_test(what_may_not_be_stored_takes_no_memory),
        cmocka_unit_test(pins_concern_every_tier),
        cmocka_unit_test(reads_come_after_writes_of_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
