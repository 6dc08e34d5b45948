/* Proves that any tier may lease, a program's own too; that what is lent stays as it is until it is
 * returned; and that an owner's leases are returned by that owner, once, or all when it is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../examples/tier_heap.c"

#include <skymem/metrics.h>

#include "cache/cache_internal.h"
#include "cache/hierarchy_fixture.h"
#include "tier/driver/driver.h"

/* ---- the example's store, which counts what it lends, and may wait before it does ---- */

static _Atomic int out, gate_shut, at_the_gate;
static heap_store *store;

static sky_status counted_open(const char *where, void **self, sky_error *error) {
    sky_status status = heap_open(where, self, error);
    store = *self;
    return status;
}

static sky_status counted_lease(void *self, const sky_key *key, sky_tier_lent *lent) {
    at_the_gate++;
    while (gate_shut)
        sky_setting_nap();
    sky_status status = heap_lease(self, key, lent);
    out += status == SKY_OK;
    return status;
}

static void counted_release(void *self, const sky_tier_lent *lent) {
    heap_release(self, lent);
    out--;
}

static void register_drivers(void) {
    sky_tier_driver heap = tier_heap, plain = tier_heap;
    heap.open = counted_open;
    heap.lease = counted_lease;
    heap.release = counted_release;
    plain.lease = NULL;
    plain.release = NULL;
    assert_int_equal(sky_tier_register("heap", &heap), SKY_OK);
    assert_int_equal(sky_tier_register("plain", &plain), SKY_OK);
}

static sky_cache *open_cache(const char *near, const char *far) {
    const char *const urls[] = {near, far};
    sky_cache *c;
    sky_error error;
    if (sky_cache_open(urls, far ? 2 : 1, &c, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return c;
}

static sky_item lease(sky_cache *c, uint64_t n, uint64_t owner) {
    sky_item item = {.key = sky_fixture_key(n)};
    assert_int_equal(sky_run(c, SKY_OP_LEASE, &item, 1, &(sky_call){.owner = owner}), SKY_OK);
    return item;
}

static uint64_t leases_out(sky_cache *c) {
    return sky_cache_metric(c, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES);
}

static bool holds(const sky_item *item, uint64_t seed) {
    return item->status == SKY_OK && item->view.bytes == SKY_ONE_BYTES &&
           sky_fixture_holds(item->view.data, SKY_ONE_BYTES, seed);
}

/* ---- where a lease comes from ---- */

static void a_store_of_a_program_lends_where_it_lies(void **state) {
    (void)state;
    sky_cache *c = open_cache("heap:1000000", NULL);
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
    sky_item item = lease(c, 1, 0);
    assert_true(holds(&item, 1));
    assert_int_equal(item.tier, 0);
    const unsigned char *data = item.view.data;
    assert_true(data > store->newest->data && data < store->newest->data + store->newest->bytes);
    assert_int_equal(sky_setting_put(c, 1, 2, NULL), SKY_OK);
    assert_true(holds(&item, 1));
    assert_int_equal(sky_setting_do(c, SKY_OP_REMOVE, 1, NULL), SKY_OK);
    assert_true(holds(&item, 1));
    assert_int_equal(sky_release(c, item.lease), SKY_OK);
    assert_int_equal(out, 0);
    assert_int_equal(lease(c, 1, 0).status, SKY_MISS);
    sky_cache_close(c);
}

static void a_farther_tier_lends_without_a_copy(void **state) {
    (void)state;
    sky_cache *c = open_cache("mem:1MiB", "heap:1000000");
    assert_int_equal(sky_setting_put(c, 1, 1, &(sky_call){.tiers = 2}), SKY_OK);
    sky_item item = lease(c, 1, 0);
    assert_true(holds(&item, 1));
    assert_int_equal(item.tier, 1);
    assert_false(sky_setting_near_has(c, 1));
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK); /* the nearest that has it */
    sky_item near = lease(c, 1, 0);
    assert_true(holds(&near, 1));
    assert_int_equal(near.tier, 0);
    assert_int_equal(sky_release(c, item.lease), SKY_OK);
    assert_int_equal(sky_release(c, near.lease), SKY_OK);
    sky_cache_close(c);
}

static void what_only_others_have_is_brought_to_memory(void **state) {
    (void)state;
    sky_cache *c = open_cache("mem:1MiB", "plain:1000000");
    assert_int_equal(sky_setting_put(c, 1, 1, &(sky_call){.tiers = 2}), SKY_OK);
    sky_item item = lease(c, 1, 0), only_far = {.key = item.key};
    assert_true(holds(&item, 1));
    assert_int_equal(item.tier, 0);
    assert_int_equal(sky_run(c, SKY_OP_LEASE, &only_far, 1, &(sky_call){.tiers = 2}), SKY_OK);
    assert_int_equal(only_far.status, SKY_E_UNSUPPORTED);
    assert_int_equal(sky_release(c, item.lease), SKY_OK);
    sky_cache_close(c);
    c = open_cache("plain:1000000", "heap:1000000");
    assert_int_equal(sky_setting_put(c, 1, 1, &(sky_call){.tiers = 1}), SKY_OK);
    assert_int_equal(lease(c, 1, 0).status, SKY_MISS);
    sky_cache_close(c);
}

/* A nearest tier that leases but does not answer at once: write-back makes a copy. */
static void write_back_does_not_wait_for_a_lease(void **state) {
    (void)state;
    sky_cache *c = open_cache("heap:1000000", "plain:1000000");
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
    assert_int_equal(sky_setting_flush(c), SKY_OK);
    assert_int_equal(sky_setting_get(c, 1, 1, &(sky_call){.tiers = 2}), 1);
    assert_int_equal(sky_setting_do(c, SKY_OP_PIN, 1, NULL), SKY_OK);
    assert_int_equal(out, 0);
    sky_cache_close(c);
}

/* ---- whose it is ---- */

static void a_lease_is_returned_by_its_owner_once(void **state) {
    (void)state;
    sky_cache *c = open_cache("heap:1000000", NULL);
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
    sky_item item = lease(c, 1, 7);
    assert_int_equal(sky_release(c, item.lease), SKY_E_DENIED);
    assert_int_equal(sky_release_owned(c, 8, item.lease), SKY_E_DENIED);
    assert_int_equal(out, 1);
    assert_int_equal(sky_release_owned(c, 7, item.lease), SKY_OK);
    assert_int_equal(out, 0);
    assert_int_equal(sky_release_owned(c, 7, item.lease), SKY_E_PARAM);
    assert_int_equal(sky_release(c, (sky_lease){0}), SKY_OK);
    assert_int_equal(sky_release_owned(NULL, 7, item.lease), SKY_E_PARAM);
    assert_int_equal(sky_release_owner(NULL, 7, NULL), SKY_E_PARAM);
    sky_cache_close(c);
}

static void an_owner_that_dies_returns_all(void **state) {
    (void)state;
    enum { KEYS = 100, LEASES = 1000 };
    sky_cache *c = open_cache("mem:1MiB", "heap:1000000");
    for (uint64_t n = 0; n < KEYS; n++)
        assert_int_equal(sky_setting_put(c, n, n, &(sky_call){.tiers = n % 2 ? 1 : 2}), SKY_OK);
    sky_item others = lease(c, 2, 8), nobodys = lease(c, 4, 0), last = {0};
    for (uint64_t i = 0; i < LEASES; i++) {
        last = lease(c, i % KEYS, 7);
        assert_true(holds(&last, i % KEYS));
    }
    assert_int_equal(leases_out(c), LEASES + 2);
    assert_int_equal(out, LEASES / 2 + 2);
    uint64_t released = 0;
    assert_int_equal(sky_release_owner(c, 7, &released), SKY_OK);
    assert_int_equal(released, LEASES);
    assert_int_equal(leases_out(c), 2);
    assert_int_equal(out, 2);
    assert_int_equal(sky_release_owned(c, 7, last.lease), SKY_E_PARAM);
    assert_int_equal(sky_release_owner(c, 7, &released), SKY_OK);
    assert_int_equal(released, 0);
    assert_int_equal(sky_release_owner(c, 0, &released), SKY_E_PARAM);
    assert_true(holds(&others, 2) && holds(&nobodys, 4));
    assert_int_equal(sky_release_owned(c, 8, others.lease), SKY_OK);
    sky_cache_close(c); /* returns the other one */
    assert_int_equal(out, 0);
}

/* The store is still about to lend when the owner dies, when the call is cancelled, and when its
 * time is over: what it lends then goes back at once. */
static void what_comes_too_late_is_returned(void **state) {
    (void)state;
    sky_cache *c = open_cache("heap:1000000", NULL);
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
    for (int way = 0; way < 3; way++) {
        static const sky_status ends[] = {SKY_E_CANCELLED, SKY_E_CANCELLED, SKY_E_DEADLINE};
        sky_item item = {.key = sky_fixture_key(1)};
        sky_call call = {.owner = 7, .deadline_ns = way == 2 ? sky_now() + SKY_MS(200) : 0};
        sky_batch batch;
        at_the_gate = 0;
        gate_shut = 1;
        assert_int_equal(sky_submit(c, SKY_OP_LEASE, &item, 1, &call, &batch), SKY_OK);
        SKY_EVENTUALLY(at_the_gate > 0);
        uint64_t released = 1;
        if (way == 0)
            assert_int_equal(sky_release_owner(c, 7, &released), SKY_OK);
        if (way == 1)
            sky_cancel(c, batch);
        else
            assert_int_equal(sky_wait(c, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
        assert_int_equal(item.status, ends[way]);
        assert_int_equal(item.lease.id, 0);
        gate_shut = 0;
        assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK); /* after it, as of one key */
        SKY_EVENTUALLY(out == 0 && leases_out(c) == 0);
    }
    sky_cache_close(c);
    assert_int_equal(out, 0);
}

/* The tier has lent it, and the cache has not seen that yet. */
static void what_the_cache_did_not_see_yet_is_returned(void **state) {
    (void)state;
    sky_tier_driver driver;
    sky_tier *tier;
    sky_cache *c;
    sky_batch batch;
    assert_true(sky_driver_find("heap", 4, &driver));
    assert_int_equal(sky__cache_create(NULL, &c), SKY_OK);
    const sky_tier_env env = sky__cache_env(c);
    assert_int_equal(sky_driver_tier_open(&driver, "heap:1000000", &env, &tier, NULL), SKY_OK);
    sky__cache_add(c, tier);
    assert_int_equal(sky__cache_start_stepped(c), SKY_OK);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(1), NULL, SKY_ONE_BYTES, 1), SKY_OK);
    sky_item item = {.key = sky_fixture_key(1)};
    assert_int_equal(sky_submit(c, SKY_OP_LEASE, &item, 1, &(sky_call){.owner = 7}, &batch),
                     SKY_OK);
    while (out == 0)
        if (sky__cache_step(c) != 0)
            break;
    SKY_EVENTUALLY(out == 1);
    uint64_t released = 1;
    assert_int_equal(sky_release_owner(c, 7, &released), SKY_OK);
    assert_int_equal(released, 0);
    for (int i = 0; i < 1000 && out > 0; sky_setting_nap(), i++)
        (void)sky__cache_step(c);
    assert_int_equal(out, 0);
    assert_int_equal(item.status, SKY_E_CANCELLED);
    assert_int_equal(item.lease.id, 0);
    sky__cache_abandon(c);
}

static void leases_have_an_end(void **state) {
    (void)state;
    sky_cache *c = open_cache("heap:1000000", NULL);
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
    static sky_item items[SKY_LEASES_MAX + 1];
    for (size_t i = 0; i <= SKY_LEASES_MAX; i++)
        items[i].key = sky_fixture_key(1);
    assert_int_equal(sky_run(c, SKY_OP_LEASE, items, SKY_LEASES_MAX - 1, NULL), SKY_OK);
    assert_int_equal(sky_run(c, SKY_OP_LEASE, items + SKY_LEASES_MAX - 1, 2, NULL), SKY_OK);
    size_t ok = 0, busy = 0;
    for (size_t i = 0; i <= SKY_LEASES_MAX; i++) {
        ok += items[i].status == SKY_OK;
        busy += items[i].status == SKY_E_BUSY;
    }
    assert_int_equal(ok, SKY_LEASES_MAX);
    assert_int_equal(busy, 1);
    assert_int_equal(out, SKY_LEASES_MAX);
    sky_cache_close(c);
    assert_int_equal(out, 0);
}

int main(void) {
    register_drivers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_of_a_program_lends_where_it_lies),
        cmocka_unit_test(a_farther_tier_lends_without_a_copy),
        cmocka_unit_test(what_only_others_have_is_brought_to_memory),
        cmocka_unit_test(write_back_does_not_wait_for_a_lease),
        cmocka_unit_test(a_lease_is_returned_by_its_owner_once),
        cmocka_unit_test(an_owner_that_dies_returns_all),
        cmocka_unit_test(what_comes_too_late_is_returned),
        cmocka_unit_test(what_the_cache_did_not_see_yet_is_returned),
        cmocka_unit_test(leases_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
