/* Proves: a published block that is removed while others ask for it does not come back into the
 * arena, and that the host waits for no store meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "host/host_fixture.h"
#include "host/slow_fixture.h"
#include "io/clock.h"
#include "tier/tier_fixture.h"

#define BYTES ((uint64_t)4096)

static sky_host_fixture host;
static sky_blob *owner;
static sky_cache *remover, *other;

/* ---- who takes part ---- */

static sky_cache *open_cache(void) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache;
    snprintf(url, sizeof url, "shm:%s", host.socket_path);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    return cache;
}

static int start(void **state) {
    (void)state;
    const char *urls[] = {"mem:8MiB", "slow:x"};
    const sky_tier_driver slow = sky_slow_fixture_driver();
    if (sky_tier_register("slow", &slow) != SKY_OK)
        return 1;
    sky_host_fixture_start(&host, urls, 2);
    owner = sky_host_fixture_blob(&host, BYTES);
    remover = open_cache();
    other = open_cache();
    return 0;
}

static int stop(void **state) {
    (void)state;
    sky_cache_close(other);
    sky_cache_close(remover);
    sky_blob_close(owner);
    sky_host_fixture_stop(&host);
    return 0;
}

static void publish(uint64_t n) {
    static const uint64_t offset, bytes = BYTES;
    const sky_block_layout k = {
        .key = sky_fixture_key(n), .shape = {1, 1, 1}, .offsets = &offset, .sizes = &bytes};
    assert_int_equal(sky_block_put(owner, &k, 1, SKY_TIME_NEVER, NULL), SKY_OK);
}

/* ---- tests ---- */

/* It is published again while its removal is under way. Who asks for it waits for that, and nobody
 * else does. */
static void a_block_that_is_being_removed_is_not_taken_in(void **state) {
    (void)state;
    char *text = NULL;
    sky_item removed = {.key = sky_fixture_key(1)}, lent = removed;
    sky_batch removal, lease;
    publish(1);
    sky_slow_fixture_held = true;
    assert_int_equal(sky_submit(remover, SKY_OP_REMOVE, &removed, 1, NULL, &removal), SKY_OK);
    assert_int_equal(sky_wait(remover, removal, sky_now() + SKY_MS(100)), SKY_E_DEADLINE);
    publish(1);
    assert_int_equal(sky_submit(other, SKY_OP_LEASE, &lent, 1, NULL, &lease), SKY_OK);
    assert_int_equal(sky_wait(other, lease, sky_now() + SKY_MS(100)), SKY_E_DEADLINE);
    const sky_status told = sky_host_text(host.socket_path, sky_now() + SKY_SECONDS(5), &text);
    free(text);
    sky_slow_fixture_held = false;
    assert_int_equal(sky_wait(remover, removal, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(sky_wait(other, lease, SKY_TIME_NEVER), SKY_OK);
    assert_int_equal(removed.status, SKY_OK);
    assert_int_equal(told, SKY_OK);
}

/* Others lease it again and again until its removal is over. */
static void a_block_that_was_removed_does_not_come_back(void **state) {
    (void)state;
    sky_batch removal;
    for (int i = 0; i < 300; i++) {
        sky_item removed = {.key = sky_fixture_key(2)}, lent = removed;
        publish(2);
        assert_int_equal(sky_submit(remover, SKY_OP_REMOVE, &removed, 1, NULL, &removal), SKY_OK);
        do {
            assert_int_equal(sky_run(other, SKY_OP_LEASE, &lent, 1, NULL), SKY_OK);
            assert_int_equal(sky_release(other, lent.lease), SKY_OK);
        } while (sky_wait(remover, removal, 1) != SKY_OK);
        assert_int_equal(sky_run(other, SKY_OP_HAS, &lent, 1, NULL), SKY_OK);
        assert_true(removed.status == SKY_OK && lent.status == SKY_MISS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_is_being_removed_is_not_taken_in),
        cmocka_unit_test(a_block_that_was_removed_does_not_come_back),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
