/* Proves: a payload that went bad in a host's memory is a miss to its client, counted, and one that
 * comes with another sum than its own is not stored; the connection and what else goes over it are
 * unharmed. The sum of a payload is that which the store keeps, where it keeps one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "io/clock.h"
#include "io/tcp.h"
#include "peer/peer_fixture.h"
#include "peer/server.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)
#define LARGE    300000u /* three pieces */

static sky_peer_fixture host;
static uint8_t data[LARGE], back[LARGE];

static sky_cache *open_client(void) {
    char url[256];
    const char *urls[] = {url};
    sky_cache *client;
    sky_peer_fixture_url(&host, "connections=1", url);
    assert_int_equal(sky_cache_open(urls, 1, &client, NULL), SKY_OK);
    return client;
}

static int start_host(void **state) {
    const char *url = "mem:16MiB";
    (void)state;
    sky_peer_fixture_start(&host, &url, 1, false);
    return 0;
}

static int stop_host(void **state) {
    (void)state;
    sky_peer_fixture_stop(&host);
    return 0;
}

static void put(sky_cache *cache, uint64_t n, size_t bytes) {
    sky_span span = {data, bytes};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_fill(data, bytes, n);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
}

/* SKY_OK: and what came is right. */
static sky_status get(sky_cache *cache, uint64_t n, size_t bytes, sky_range range) {
    sky_span span = {back, bytes};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1, .range = range};
    assert_int_equal(sky_run(cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    if (item.status != SKY_OK)
        return item.status;
    sky_fixture_fill(data, bytes, n);
    assert_memory_equal(back, data + range.offset, item.bytes);
    return SKY_OK;
}

/* A stray write, at the host. */
static void damage(uint64_t n, size_t at) {
    sky_item item = {.key = sky_fixture_key(n)};
    assert_int_equal(sky_run(host.cache, SKY_OP_LEASE, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    ((uint8_t *)item.view.data)[at] ^= 1;
    assert_int_equal(sky_release(host.cache, item.lease), SKY_OK);
}

static sky_peer_stat stats(void) {
    sky_peer_stat s;
    sky_peer_stats(host.server, &s);
    return s;
}

static void bad_memory_is_a_miss(void **state) {
    static const size_t sizes[] = {1, 5000, SKY__PEER_RESERVE_MIN, LARGE};
    sky_cache *client = open_client();
    (void)state;
    for (uint64_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        size_t bytes = sizes[n];
        put(client, n, bytes);
        assert_int_equal(get(client, n, bytes, (sky_range){0}), SKY_OK);
        damage(n, bytes - 1);
        assert_int_equal(get(client, n, bytes, (sky_range){0}), SKY_E_CORRUPT);
        assert_int_equal(sky_cache_metric(client, 0, SKY_METRIC_TIER_CORRUPT), n + 1);
        assert_int_equal(sky_cache_metric(client, 0, SKY_METRIC_TIER_MISSES), n + 1);
        if (bytes > 1) /* what is sent of it is right */
            assert_int_equal(get(client, n, bytes, (sky_range){0, bytes - 1}), SKY_OK);
        put(client, n, bytes);
        assert_int_equal(get(client, n, bytes, (sky_range){0}), SKY_OK);
    }
    assert_int_equal(stats().accepted, 1);
    assert_int_equal(stats().disconnected, 0);
    sky_cache_close(client);
}

/* Of several in one answer the others come. */
static void others_come(void **state) {
    enum { COUNT = 5, BAD = 2, BYTES = 100000 };
    static uint8_t memory[COUNT][BYTES];
    sky_item items[COUNT];
    sky_span spans[COUNT];
    sky_cache *client = open_client();
    (void)state;
    for (uint64_t n = 0; n < COUNT; n++) {
        put(client, n, BYTES);
        spans[n] = (sky_span){memory[n], BYTES};
        items[n] = (sky_item){.key = sky_fixture_key(n), .spans = &spans[n], .span_count = 1};
    }
    damage(BAD, 70000);
    assert_int_equal(sky_run(client, SKY_OP_GET, items, COUNT, NULL), SKY_OK);
    for (uint64_t n = 0; n < COUNT; n++) {
        assert_int_equal(items[n].status, n == BAD ? SKY_E_CORRUPT : SKY_OK);
        sky_fixture_fill(data, BYTES, n);
        assert_true(n == BAD || memcmp(memory[n], data, BYTES) == 0);
    }
    sky_cache_close(client);
}

/* ---- a client by hand ---- */

static sky_peer_frame frame;
static bool heard;

static uint64_t expects_none(void *self) {
    (void)self;
    return 0;
}

static sky_status take_frame(void *self, const uint8_t *bytes, size_t count) {
    (void)self;
    heard = true;
    return sky_peer_decode(bytes, count, &frame);
}

static void hear(sky_peer_link *l, sky_peer_kind kind) {
    const sky_peer_sink sink = {NULL, expects_none, take_frame, NULL, NULL, NULL};
    sky_time until = sky_now() + PATIENCE;
    for (heard = false; !heard;) {
        sky_status status = sky_peer_link_receive(l, &sink);
        assert_true((status == SKY_OK || status == SKY_MISS) && sky_now() < until);
        if (!heard)
            (void)sky_peer_socket_wait(sky_peer_link_socket(l), true, false, -1, until);
    }
    assert_int_equal(frame.kind, kind);
}

static void flush(sky_peer_link *l) {
    sky_status status;
    while ((status = sky_peer_link_flush(l)) == SKY_E_BUSY)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(status, SKY_OK);
}

static sky_peer_link *meet(void) {
    const sky_peer_carrier *by = &host.server->by;
    sky_time until = sky_now() + PATIENCE;
    uint8_t answer[SKY_PEER_HELLO_BYTES];
    const uint8_t chance[32] = {0};
    sky_peer_secrets secrets = {0};
    sky_peer_hello hello;
    sky_peer_socket s;
    sky_peer_link *l;
    sky_address to;
    assert_int_equal(sky_address_parse(sky_peer_address(host.server), &to, NULL), SKY_OK);
    assert_int_equal(by->transport->connect(by->provider, &to, until, -1, &s), SKY_OK);
    sky_peer_hello_make(&hello, SKY_SUITE_PLAIN, NULL, chance);
    assert_int_equal(sky_peer_exchange(&s, true, hello.hello, sizeof hello.hello, until, -1),
                     SKY_OK);
    assert_int_equal(sky_peer_exchange(&s, false, answer, sizeof answer, until, -1), SKY_OK);
    assert_int_equal(sky_peer_hello_end(&hello, answer, &secrets), SKY_OK);
    assert_int_equal(sky_peer_link_create(&s, true, &secrets, &l), SKY_OK);
    frame = (sky_peer_frame){.kind = SKY_PEER_READY};
    assert_true(sky_peer_link_send(l, &frame));
    flush(l);
    hear(l, SKY_PEER_WELCOME);
    return l;
}

static void send_payload(sky_peer_link *l, size_t bytes, const uint64_t *sum) {
    for (size_t at = 0, now; at < bytes; at += now) {
        now = bytes - at < SKY_PEER_PIECE_BYTES_MAX ? bytes - at : SKY_PEER_PIECE_BYTES_MAX;
        const sky_peer_part part = {.first = at == 0, .last = at + now == bytes, .sum = sum};
        assert_true(sky_peer_link_lend(l, data + at, now, &part));
        flush(l);
    }
}

#define PUTS 4u

/* Puts of these sizes, of which some come with a sum that is not theirs: a bit each. */
static void put_damaged(sky_peer_link *l, const size_t *sizes, uint32_t bad) {
    const uint64_t wrong = 1;
    frame = (sky_peer_frame){.kind = SKY_PEER_RUN, .count = PUTS, .op = SKY_OP_PUT};
    for (uint32_t n = 0; n < PUTS; n++) {
        frame.orders[n].key = sky_fixture_key(100 + n);
        frame.orders[n].bytes = sizes[n];
    }
    frame.orders[1].name = "name";
    frame.orders[1].name_bytes = 4;
    assert_true(sky_peer_link_send(l, &frame));
    flush(l);
    for (uint32_t n = 0; n < PUTS; n++) {
        sky_fixture_fill(data, sizes[n], 100 + n);
        send_payload(l, sizes[n], bad >> n & 1 ? &wrong : NULL);
    }
    hear(l, SKY_PEER_DONE);
    for (uint32_t n = 0; n < PUTS; n++) {
        assert_int_equal(frame.results[n].status, bad >> n & 1 ? SKY_E_CORRUPT : SKY_OK);
        assert_int_equal(frame.results[n].bytes, bad >> n & 1 ? 0 : sizes[n]);
    }
}

/* Payloads that are copied, that are received where they will lie, and an empty one. */
static void puts_with_another_sum_store_nothing(void **state) {
    static const size_t sizes[PUTS] = {LARGE, 5000, 0, SKY__PEER_RESERVE_MIN};
    static const uint32_t bad[] = {1, 2, 8, 3, 9, 10, 11, 0};
    uint64_t before = stats().disconnected;
    (void)state;
    sky_peer_link *l = meet();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_damaged(l, sizes, bad[i]);
        for (uint32_t n = 0; n < PUTS; n++) {
            sky_item item = {.key = sky_fixture_key(100 + n)};
            sky_status wanted = bad[i] >> n & 1 ? SKY_MISS : SKY_OK;
            assert_int_equal(sky_run(host.cache, SKY_OP_HAS, &item, 1, NULL), SKY_OK);
            assert_int_equal(item.status, wanted);
            assert_int_equal(get(host.cache, 100 + n, sizes[n], (sky_range){0}), wanted);
            assert_int_equal(sky_run(host.cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
        }
    }
    put_damaged(l, (const size_t[PUTS]){1, 1, 1, 1}, 15); /* all */
    assert_int_equal(atomic_load(&host.server->staged_bytes), 0);
    assert_int_equal(stats().disconnected, before);
    sky_peer_link_destroy(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_memory_is_a_miss),
        cmocka_unit_test(others_come),
        cmocka_unit_test(puts_with_another_sum_store_nothing),
    };
    return cmocka_run_group_tests(tests, start_host, stop_host);
}
