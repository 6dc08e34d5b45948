/* Proves: whatever another machine sends, its connection ends at worst, counted, others go on, and
 * nothing of it is left: no lease, no byte of the arena, no thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/metrics.h>

#include "io/clock.h"
#include "io/secret.h"
#include "io/sync.h"
#include "io/tcp.h"
#include "peer/peer_fixture.h"
#include "peer/server.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)

#define wait_until(condition)                                                                      \
    for (sky_time until_ = sky_now() + PATIENCE; !(condition);) {                                  \
        assert_true(sky_now() < until_);                                                           \
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));                                                  \
    }

static sky_peer_fixture plain, sealed;
static sky_peer_frame frame;

static int start_servers(void **state) {
    const char *url = "mem:8MiB";
    (void)state;
    sky_peer_fixture_start(&plain, &url, 1, false);
    sky_peer_fixture_start(&sealed, &url, 1, true);
    return 0;
}

static int stop_servers(void **state) {
    (void)state;
    sky_peer_fixture_stop(&plain);
    sky_peer_fixture_stop(&sealed);
    return 0;
}

/* ---- a client by hand ---- */

static sky_peer_socket connect_raw(const sky_peer_fixture *p) {
    sky_address to;
    sky_peer_socket s;
    assert_int_equal(sky_address_parse(sky_peer_address(p->server), &to, NULL), SKY_OK);
    assert_int_equal(
        p->server->by.transport->connect(p->server->by.provider, &to, sky_now() + PATIENCE, -1, &s),
        SKY_OK);
    return s;
}

static sky_status move(const sky_peer_socket *s, bool sends, uint8_t *data, size_t bytes) {
    return sky_peer_exchange(s, sends, data, bytes, sky_now() + PATIENCE, -1);
}

/* The other end has closed it. */
static void assert_socket_ended(const sky_peer_socket *s) {
    uint8_t data[4096];
    const sky_span span = {data, sizeof data};
    sky_time until = sky_now() + PATIENCE;
    sky_status status;
    size_t got;
    while ((status = s->transport->receive(s, &span, 1, &got)) != SKY_E_IO)
        if (status == SKY_MISS) {
            assert_true(sky_now() < until);
            (void)sky_peer_socket_wait(s, true, false, -1, until);
        }
}

static void assert_ended(sky_peer_socket *s) {
    assert_socket_ended(s);
    s->transport->close(s);
}

/* Greet with a key of one's own, or plain. Returns what the answer says. */
static sky_status greet(const sky_peer_socket *s, sky_suite suite, const uint8_t *key,
                        sky_peer_secrets *secrets) {
    sky_peer_hello hello;
    uint8_t chance[32], answer[SKY_PEER_HELLO_BYTES];
    sky_random(chance, sizeof chance);
    sky_peer_hello_make(&hello, suite, key, chance);
    assert_int_equal(move(s, true, hello.hello, sizeof hello.hello), SKY_OK);
    assert_int_equal(move(s, false, answer, sizeof answer), SKY_OK);
    return sky_peer_hello_end(&hello, answer, secrets);
}

static void say(sky_peer_link *l, const sky_peer_frame *f) {
    assert_true(sky_peer_link_send(l, f));
    assert_int_equal(sky_peer_link_flush(l), SKY_OK);
}

static sky_peer_link *meet(const sky_peer_fixture *p) {
    sky_peer_secrets secrets = {0};
    uint8_t key[SKY_SECRET_BYTES];
    sky_peer_link *l;
    sky_peer_socket socket = connect_raw(p);
    bool has_key = p->key_path[0] != '\0';
    if (has_key)
        assert_int_equal(sky_secret_read(p->key_path, key, NULL), SKY_OK);
    assert_int_equal(greet(&socket, has_key ? SKY_SUITE_AES : SKY_SUITE_PLAIN, key, &secrets),
                     SKY_OK);
    assert_int_equal(sky_peer_link_create(&socket, true, &secrets, &l), SKY_OK);
    return l;
}

/* A client that has been let in; the welcome is not read. */
static sky_peer_link *ready(const sky_peer_fixture *p) {
    sky_peer_link *l = meet(p);
    frame = (sky_peer_frame){.kind = SKY_PEER_READY};
    say(l, &frame);
    return l;
}

static void assert_link_ended(sky_peer_link *l) {
    assert_socket_ended(sky_peer_link_socket(l));
    sky_peer_link_destroy(l);
}

/* ---- the others ---- */

static sky_peer_stat stats(const sky_peer_fixture *p) {
    sky_peer_stat s;
    sky_peer_stats(p->server, &s);
    return s;
}

/* A put, a get and a removal of a good client work; then nobody else's is left. */
static void assert_unharmed(const sky_peer_fixture *p) {
    char url[256];
    const char *urls[] = {url};
    uint8_t data[5000], back[5000];
    sky_span span = {data, sizeof data}, to = {back, sizeof back};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_cache *cache;
    sky_peer_fixture_url(p, NULL, url);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    sky_fixture_fill(data, sizeof data, 1);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    item.spans = &to;
    assert_int_equal(sky_run(cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_memory_equal(data, back, sizeof data);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    wait_until(stats(p).connections == 0 &&
               sky_cache_metric(p->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) == 0 &&
               sky_cache_metric(p->cache, 0, SKY_METRIC_TIER_BYTES_USED) == 0 &&
               atomic_load(&p->server->staged_bytes) == 0);
}

/* ---- greetings ---- */

static void strangers_are_turned_away(void **state) {
    static const uint8_t other_key[SKY_SECRET_BYTES] = {1};
    sky_peer_secrets secrets;
    uint8_t garbage[500];
    (void)state;
    uint64_t before = stats(&sealed).denied;
    sky_peer_socket socket = connect_raw(&sealed);
    assert_int_equal(greet(&socket, SKY_SUITE_AES, other_key, &secrets), SKY_E_DENIED);
    assert_ended(&socket);
    socket = connect_raw(&sealed);
    assert_int_equal(greet(&socket, SKY_SUITE_PLAIN, NULL, &secrets), SKY_E_DENIED);
    assert_ended(&socket);
    socket = connect_raw(&sealed);
    memset(garbage, 0x5a, sizeof garbage);
    assert_int_equal(move(&socket, true, garbage, sizeof garbage), SKY_OK);
    assert_ended(&socket);
    socket = connect_raw(&sealed); /* half a hello, and gone */
    assert_int_equal(move(&socket, true, garbage, 40), SKY_OK);
    socket.transport->close(&socket);
    assert_unharmed(&sealed);
    wait_until(stats(&sealed).denied >= before + 4);
}

/* Who recorded a connection and sends the same again gets no further than the answer. */
static void recorded_connections_are_of_no_use(void **state) {
    uint8_t key[SKY_SECRET_BYTES], chance[32] = {3}, answer[SKY_PEER_HELLO_BYTES];
    uint8_t record[SKY_PEER_RECORD_HEAD_BYTES + 16];
    sky_peer_hello hello;
    (void)state;
    assert_int_equal(sky_secret_read(sealed.key_path, key, NULL), SKY_OK);
    sky_peer_hello_make(&hello, SKY_SUITE_AES, key, chance);
    for (int i = 0; i < 2; i++) { /* the same hello is answered each time ... */
        uint8_t sent[SKY_PEER_HELLO_BYTES];
        sky_peer_socket socket = connect_raw(&sealed);
        memcpy(sent, hello.hello, sizeof sent);
        assert_int_equal(move(&socket, true, sent, sizeof sent), SKY_OK);
        assert_int_equal(move(&socket, false, answer, sizeof answer), SKY_OK);
        memset(record, i, sizeof record); /* ... but no record of another connection is taken */
        memcpy(record, (const uint8_t[]){16, 0, 0, 0}, 4);
        assert_int_equal(move(&socket, true, record, sizeof record), SKY_OK);
        assert_ended(&socket);
    }
    assert_unharmed(&sealed);
}

/* Who says nothing takes one of few places, of which the oldest goes to the next who comes. */
static void silent_strangers_keep_nobody_out(void **state) {
    sky_peer_socket others[SKY__PEER_STRANGERS_MAX];
    (void)state;
    uint64_t denied = stats(&sealed).denied, refused = stats(&sealed).refused;
    sealed.server->hello_ns = SKY_SECONDS(600);
    for (uint32_t i = 0; i < SKY__PEER_STRANGERS_MAX; i++)
        others[i] = connect_raw(&sealed);
    assert_unharmed(&sealed);
    assert_socket_ended(&others[0]);
    assert_int_equal(stats(&sealed).refused, refused);
    for (uint32_t i = 0; i < SKY__PEER_STRANGERS_MAX; i++)
        others[i].transport->close(&others[i]);
    wait_until(stats(&sealed).denied == denied + SKY__PEER_STRANGERS_MAX);
    sealed.server->hello_ns = SKY__PEER_HELLO_NS;
    assert_unharmed(&sealed);
}

/* Who has shown the key and has nothing to do keeps its place for a while, and then until another
 * needs it. A client that lost its place so connects again. */
static void the_idle_make_room(void **state) {
    sky_peer_link *friends[SKY_PEER_CONNECTIONS_MAX - 1];
    uint8_t data[100] = {0};
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(9), .spans = &span, .span_count = 1};
    char url[256];
    const char *urls[] = {url};
    sky_cache *cache;
    (void)state;
    sky_peer_fixture_url(&plain, "connections=1", url);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    for (uint32_t i = 0; i < SKY_PEER_CONNECTIONS_MAX - 1; i++)
        friends[i] = ready(&plain);
    wait_until(stats(&plain).connections == SKY_PEER_CONNECTIONS_MAX);
    sky_peer_socket more = connect_raw(&plain);
    assert_ended(&more);
    assert_int_equal(stats(&plain).connections, SKY_PEER_CONNECTIONS_MAX);
    plain.server->idle_ns = 0;
    uint64_t accepted = stats(&plain).accepted;
    sky_peer_link *next = ready(&plain); /* in the place of the cache, which came first */
    wait_until(stats(&plain).accepted == accepted + 1);
    wait_until(sky_run(cache, SKY_OP_PUT, &item, 1, NULL) == SKY_OK && item.status == SKY_OK);
    assert_int_equal(stats(&plain).accepted, accepted + 2);
    plain.server->idle_ns = SKY__PEER_IDLE_NS;
    sky_peer_link_destroy(next);
    for (uint32_t i = 0; i < SKY_PEER_CONNECTIONS_MAX - 1; i++)
        sky_peer_link_destroy(friends[i]);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed(&plain);
}

static void who_never_shows_the_key_is_ended(void **state) {
    (void)state;
    uint64_t before = stats(&sealed).denied;
    sealed.server->hello_ns = SKY_MS(20);
    sky_peer_socket socket = connect_raw(&sealed); /* says nothing */
    assert_ended(&socket);
    sealed.server->hello_ns = SKY__PEER_HELLO_NS;
    wait_until(stats(&sealed).denied > before);
    assert_unharmed(&sealed);
}

/* Who speaks neither the transport nor the greeting, or nothing at all. */
static void noise_on_the_port_harms_nobody(void **state) {
    uint8_t noise[5000];
    int fds[16];
    size_t sent;
    sky_address to;
    (void)state;
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(sky_address_parse(sky_peer_address(sealed.server), &to, NULL), SKY_OK);
    for (int i = 0; i < 16; i++) {
        const sky_span span = {noise, i % 4 == 0 ? 0 : i % 4 == 1 ? 7 : sizeof noise};
        assert_int_equal(sky_tcp_connect(&to, sky_now() + PATIENCE, -1, &fds[i]), SKY_OK);
        if (span.bytes > 0)
            assert_int_equal(sky_tcp_send(fds[i], &span, 1, &sent), SKY_OK);
        noise[0] = (uint8_t)i; /* of some what looks like a request */
    }
    for (int i = 0; i < 8; i++)
        sky_tcp_close(fds[i]);
    assert_unharmed(&sealed);
    for (int i = 8; i < 16; i++)
        sky_tcp_close(fds[i]);
    assert_unharmed(&sealed);
}

static void many_are_served_at_once(void **state) {
    enum { CLIENTS = 32 }; /* of two connections each */
    sky_cache *caches[CLIENTS];
    sky_batch batches[CLIENTS];
    sky_item items[CLIENTS][2];
    static uint8_t data[CLIENTS][2][50000], back[sizeof *data / 2];
    sky_span spans[CLIENTS][2], to = {back, sizeof back};
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        char url[256];
        const char *urls[] = {url};
        sky_peer_fixture_url(&sealed, NULL, url);
        assert_int_equal(sky_cache_open(urls, 1, &caches[i], NULL), SKY_OK);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (uint32_t n = 0; n < 2; n++) {
            sky_fixture_fill(data[i][n], sizeof data[i][n], 2 * i + n);
            spans[i][n] = (sky_span){data[i][n], sizeof data[i][n]};
            items[i][n] = (sky_item){
                .key = sky_fixture_key(2 * i + n), .spans = &spans[i][n], .span_count = 1};
        }
        assert_int_equal(sky_submit(caches[i], SKY_OP_PUT, items[i], 2, NULL, &batches[i]), SKY_OK);
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(sky_wait(caches[i], batches[i], sky_now() + PATIENCE), SKY_OK);
    for (uint32_t i = 0; i < 2 * CLIENTS; i++) { /* each finds what another put */
        sky_item item = {.key = sky_fixture_key(i), .spans = &to, .span_count = 1};
        assert_int_equal(items[i / 2][i % 2].status, SKY_OK);
        assert_int_equal(sky_run(caches[CLIENTS - 1 - i / 2], SKY_OP_GET, &item, 1, NULL), SKY_OK);
        assert_int_equal(item.status, SKY_OK);
        assert_memory_equal(back, data[i / 2][i % 2], sizeof back);
        assert_int_equal(sky_run(sealed.cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    }
    assert_true(stats(&sealed).connections >= CLIENTS);
    for (uint32_t i = 0; i < CLIENTS; i++)
        sky_cache_close(caches[i]);
    assert_unharmed(&sealed);
}

/* ---- frames ---- */

/* After these the connection is over. */
static void assert_refused(const sky_peer_frame *f) {
    const sky_peer_fixture *both[] = {&plain, &sealed};
    for (int i = 0; i < 2; i++) {
        uint64_t before = stats(both[i]).disconnected;
        sky_peer_link *l = ready(both[i]);
        assert_true(sky_peer_link_send(l, f));
        (void)sky_peer_link_flush(l);
        assert_link_ended(l);
        while (stats(both[i]).disconnected == before)
            sky_poll(NULL, 0, sky_now() + SKY_MS(1));
        assert_unharmed(both[i]);
    }
}

static void frames_of_a_host_end_it(void **state) {
    (void)state;
    frame = (sky_peer_frame){.kind = SKY_PEER_WELCOME};
    assert_refused(&frame);
    frame = (sky_peer_frame){.kind = SKY_PEER_DONE, .count = 1};
    assert_refused(&frame);
    frame = (sky_peer_frame){.kind = SKY_PEER_TOLD, .question = SKY_PEER_STAT};
    assert_refused(&frame);
    frame = (sky_peer_frame){.kind = SKY_PEER_READY};
    assert_refused(&frame);
    frame = (sky_peer_frame){/* more than the arena */
                             .kind = SKY_PEER_RUN,
                             .count = 1,
                             .op = SKY_OP_PUT,
                             .orders = {{.bytes = 9 << 20}}};
    assert_refused(&frame);
    frame = (sky_peer_frame){.kind = SKY_PEER_RUN, .count = 64, .op = SKY_OP_PUT};
    for (int i = 0; i < 64; i++)
        frame.orders[i].bytes = 8 << 20;
    assert_refused(&frame);
}

static void who_does_not_begin_as_clients_do_is_ended(void **state) {
    (void)state;
    sky_peer_link *l = meet(&plain);
    frame = (sky_peer_frame){.kind = SKY_PEER_ASK, .question = SKY_PEER_LIST};
    say(l, &frame);
    assert_link_ended(l);
    assert_unharmed(&plain);
}

/* Runs that are not read pile up to a bound. */
static void who_asks_without_end_is_ended(void **state) {
    (void)state;
    sky_peer_link *l = ready(&plain);
    frame = (sky_peer_frame){.kind = SKY_PEER_ASK, .question = SKY_PEER_LIST};
    for (int i = 0; i < 2; i++)
        assert_true(sky_peer_link_send(l, &frame)); /* at once: the second before an answer */
    (void)sky_peer_link_flush(l);
    assert_link_ended(l);
    assert_unharmed(&plain);
}

static void announce_put(sky_peer_link *l, uint64_t bytes) {
    frame = (sky_peer_frame){.kind = SKY_PEER_RUN,
                             .count = 1,
                             .op = SKY_OP_PUT,
                             .orders = {{.key = sky_fixture_key(9), .bytes = bytes}}};
    say(l, &frame);
}

static bool talk_on(sky_peer_link *l) {
    frame = (sky_peer_frame){.kind = SKY_PEER_CANCEL, .id = SKY__PEER_RUNS_MAX};
    return sky_peer_link_send(l, &frame) && sky_peer_link_flush(l) == SKY_E_IO;
}

/* It puts 2 MiB, gets them again and again, and never reads, though it goes on to send: its leases
 * come back. So they do if it waits for room for a put at that. */
static void never_read(bool waits_for_room) {
    uint8_t *data = calloc(1, 2 << 20);
    sky_span span = {data, 2 << 20};
    sky_item item = {.key = sky_fixture_key(7), .spans = &span, .span_count = 1};
    uint64_t before = stats(&plain).disconnected, taken = waits_for_room ? SKY__PEER_STAGED_MAX : 0;
    assert_int_equal(sky_run(plain.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    plain.server->stuck_ns = SKY_MS(50);
    atomic_fetch_add(&plain.server->staged_bytes, taken); /* others' puts have all of it */
    sky_peer_link *l = ready(&plain);
    for (uint32_t i = 0; i < SKY__PEER_RUNS_MAX - 2; i++) {
        frame = (sky_peer_frame){.kind = SKY_PEER_RUN,
                                 .id = i,
                                 .count = 1,
                                 .op = SKY_OP_GET,
                                 .orders = {{.key = item.key}}};
        frame.orders[0].room = 2 << 20;
        assert_true(sky_peer_link_send(l, &frame));
    }
    if (waits_for_room)
        announce_put(l, 1 << 20);
    else
        assert_int_equal(sky_peer_link_flush(l), SKY_OK);
    wait_until((!waits_for_room && talk_on(l)) || stats(&plain).disconnected != before);
    sky_peer_link_destroy(l);
    plain.server->stuck_ns = SKY__PEER_STUCK_NS;
    atomic_fetch_sub(&plain.server->staged_bytes, taken);
    assert_int_equal(sky_run(plain.cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    free(data);
    assert_unharmed(&plain);
}

static void who_never_reads_is_ended(void **state) {
    (void)state;
    never_read(false);
    never_read(true);
}

/* Half a put, and then nothing, or the end. */
static void half_a_put_stores_nothing(void **state) {
    static const uint8_t few[1000] = {1};
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        uint64_t before = stats(&sealed).disconnected;
        sealed.server->stuck_ns = stays ? SKY_MS(50) : SKY__PEER_STUCK_NS;
        sky_peer_link *l = ready(&sealed);
        announce_put(l, 1 << 20);
        assert_true(sky_peer_link_lend(l, few, sizeof few, &(sky_peer_part){.first = true}));
        assert_int_equal(sky_peer_link_flush(l), SKY_OK);
        wait_until(!stays || stats(&sealed).disconnected != before);
        sky_peer_link_destroy(l);
        assert_unharmed(&sealed);
        sealed.server->stuck_ns = SKY__PEER_STUCK_NS;
    }
}

/* The host has no room at first for a put whose first payload is empty. */
static void an_empty_payload_may_be_first(void **state) {
    char url[256];
    static char data[1 << 20];
    const char *urls[] = {url};
    sky_span span = {data, sizeof data};
    sky_item items[] = {{.key = sky_fixture_key(4)},
                        {.key = sky_fixture_key(5), .spans = &span, .span_count = 1}};
    sky_cache *cache;
    sky_batch batch;
    (void)state;
    sky_peer_fixture_url(&plain, "connections=1", url);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    atomic_fetch_add(&plain.server->staged_bytes, SKY__PEER_STAGED_MAX);
    assert_int_equal(sky_submit(cache, SKY_OP_PUT, items, 2, NULL, &batch), SKY_OK);
    sky_poll(NULL, 0, sky_now() + SKY_MS(50));
    atomic_fetch_sub(&plain.server->staged_bytes, SKY__PEER_STAGED_MAX);
    assert_int_equal(sky_wait(cache, batch, sky_now() + PATIENCE), SKY_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(items[i].status, SKY_OK);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, items, 2, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed(&plain);
}

/* Others that come slowly have all the room; small payloads need none of it. */
static void small_puts_do_not_wait(void **state) {
    char url[256];
    static char data[SKY_PEER_SMALL_PUT];
    const char *urls[] = {url};
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(4), .spans = &span, .span_count = 1};
    sky_call call = {.deadline_ns = sky_now() + PATIENCE};
    sky_cache *cache;
    (void)state;
    sky_peer_fixture_url(&plain, "connections=1", url);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    atomic_fetch_add(&plain.server->staged_bytes, SKY__PEER_STAGED_MAX);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, &call), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    atomic_fetch_sub(&plain.server->staged_bytes, SKY__PEER_STAGED_MAX);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed(&plain);
}

/* Others' puts have all the room. Who waits for some and goes is not kept until there is room. */
static void who_goes_while_it_waits_for_room_is_ended(void **state) {
    (void)state;
    atomic_fetch_add(&plain.server->staged_bytes, SKY__PEER_STAGED_MAX);
    sky_peer_link *l = ready(&plain);
    wait_until(stats(&plain).connections == 1);
    announce_put(l, 1 << 20);
    sky_peer_link_destroy(l); /* the welcome was not read: this comes as a reset */
    wait_until(stats(&plain).connections == 0);
    atomic_fetch_sub(&plain.server->staged_bytes, SKY__PEER_STAGED_MAX);
    assert_unharmed(&plain);
}

/* There would be room for the second, but not before the first has had its turn. */
static void puts_take_turns(void **state) {
    const uint64_t others = SKY__PEER_STAGED_MAX - (2 << 20);
    (void)state;
    atomic_fetch_add(&plain.server->staged_bytes, others);
    sky_peer_link *first = ready(&plain);
    announce_put(first, 4 << 20);
    wait_until(atomic_load(&plain.server->queue_count) == 1);
    sky_peer_link *second = ready(&plain);
    announce_put(second, 1 << 20);
    wait_until(atomic_load(&plain.server->queue_count) == 2);
    assert_int_equal(atomic_load(&plain.server->staged_bytes), others);
    atomic_fetch_sub(&plain.server->staged_bytes, others);
    wait_until(atomic_load(&plain.server->staged_bytes) == 5 << 20);
    wait_until(atomic_load(&plain.server->queue_count) == 0);
    sky_peer_link_destroy(first);
    sky_peer_link_destroy(second);
    wait_until(atomic_load(&plain.server->staged_bytes) == 0);
    assert_unharmed(&plain);
}

/* Never silent for long, it would hold its room for a day. */
static void a_slow_put_ends_while_others_wait(void **state) {
    const uint64_t others = SKY__PEER_STAGED_MAX - (1 << 20);
    uint64_t before = stats(&plain).disconnected;
    (void)state;
    plain.server->stuck_ns = SKY_MS(200);
    sky_peer_link *slow = ready(&plain);
    announce_put(slow, 1 << 20);
    wait_until(atomic_load(&plain.server->staged_bytes) == 1 << 20);
    atomic_fetch_add(&plain.server->staged_bytes, others);
    sky_peer_link *next = ready(&plain);
    announce_put(next, 1 << 20);
    for (sky_time until = sky_now() + PATIENCE; stats(&plain).disconnected == before;) {
        assert_true(sky_now() < until);
        (void)sky_peer_link_lend(slow, (const uint8_t[]){1}, 1, &(sky_peer_part){0});
        (void)sky_peer_link_flush(slow);
        sky_poll(NULL, 0, sky_now() + SKY_MS(20));
    }
    wait_until(atomic_load(&plain.server->queue_count) == 0);
    sky_peer_link_destroy(slow);
    sky_peer_link_destroy(next);
    plain.server->stuck_ns = SKY__PEER_STUCK_NS;
    wait_until(atomic_load(&plain.server->staged_bytes) == others);
    atomic_fetch_sub(&plain.server->staged_bytes, others);
    assert_unharmed(&plain);
}

static bool count_entry(void *context, const sky_entry *entry) {
    (void)entry;
    ++*(int *)context;
    return true;
}

static _Atomic bool listed;

static void *list_all(void *cache) {
    int entries = 0;
    assert_int_equal(sky_list(cache, count_entry, &entries), SKY_OK);
    assert_int_equal(entries, 1);
    listed = true;
    return NULL;
}

/* Others have all that there may be at a time; operations go on meanwhile. */
static void listings_wait_for_each_other(void **state) {
    char url[256];
    const char *urls[] = {url};
    sky_item item = {.key = sky_fixture_key(4)};
    sky_cache *cache;
    sky_thread lister;
    (void)state;
    sky_peer_fixture_url(&plain, "connections=1", url);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    atomic_fetch_add(&plain.server->listing_count, SKY__PEER_LISTINGS_MAX);
    listed = false;
    assert_int_equal(sky_thread_start(&lister, "lister", list_all, cache), SKY_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sky_run(cache, SKY_OP_HAS, &item, 1, NULL), SKY_OK);
        sky_poll(NULL, 0, sky_now() + SKY_MS(2));
    }
    assert_false(listed);
    atomic_fetch_sub(&plain.server->listing_count, SKY__PEER_LISTINGS_MAX);
    sky_thread_join(&lister);
    wait_until(atomic_load(&plain.server->listing_count) == 0);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed(&plain);
}

/* Bytes that are no records, behind a good beginning. */
static void noise_ends_it(void **state) {
    uint8_t noise[3000];
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        const sky_peer_fixture *p = seed % 2 ? &plain : &sealed;
        sky_peer_link *l = ready(p);
        sky_fixture_fill(noise, sizeof noise, seed);
        if (seed % 4 < 2)
            memcpy(noise, (const uint8_t[]){100, 0, 0, 0}, 4); /* a length that may be */
        assert_int_equal(move(sky_peer_link_socket(l), true, noise, sizeof noise), SKY_OK);
        assert_link_ended(l);
    }
    assert_unharmed(&plain);
    assert_unharmed(&sealed);
}

/* What another host keeps is not handed on: two that have each other would ask in a circle. */
static void a_host_answers_from_its_own_stores(void **state) {
    char url[256];
    const char *urls[] = {"mem:8MiB", url};
    sky_peer_fixture between;
    sky_item item = {.key = sky_fixture_key(3)};
    sky_cache *client;
    (void)state;
    assert_int_equal(sky_run(plain.cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    sky_peer_fixture_url(&plain, NULL, url);
    sky_peer_fixture_start(&between, urls, 2, false);
    assert_int_equal(sky_run(between.cache, SKY_OP_HAS, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    sky_peer_fixture_url(&between, NULL, url);
    assert_int_equal(sky_cache_open(urls + 1, 1, &client, NULL), SKY_OK);
    for (int op = SKY_OP_HAS; op <= SKY_OP_GET; op++) {
        assert_int_equal(sky_run(client, (sky_op)op, &item, 1, NULL), SKY_OK);
        assert_int_equal(item.status, SKY_MISS);
    }
    sky_verify_report report;
    assert_int_equal(sky_verify(client, &report), SKY_E_UNSUPPORTED);
    sky_cache_close(client);
    sky_peer_fixture_stop(&between);
    assert_int_equal(sky_run(plain.cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    assert_unharmed(&plain);
}

/* ---- memory of puts ---- */

#define LARGE_BYTES (512u << 10)

/* Put, by a client of its own, and look at it where it is kept. */
static void put_large(const sky_peer_fixture *p, uint64_t n) {
    static uint8_t data[LARGE_BYTES];
    char url[256];
    const char *urls[] = {url};
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_cache *client;
    sky_peer_fixture_url(p, NULL, url);
    assert_int_equal(sky_cache_open(urls, 1, &client, NULL), SKY_OK);
    sky_fixture_fill(data, sizeof data, n);
    assert_int_equal(sky_run(client, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    sky_cache_close(client);
    assert_int_equal(sky_run(p->cache, SKY_OP_LEASE, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.view.bytes, sizeof data);
    assert_memory_equal(item.view.data, data, sizeof data);
    assert_int_equal(sky_release(p->cache, item.lease), SKY_OK);
}

/* No memory of puts is used, and the checksum taken meanwhile is that of the payload. */
static void large_puts_come_where_they_will_lie(void **state) {
    const sky_peer_fixture *both[] = {&plain, &sealed};
    (void)state;
    for (int i = 0; i < 2; i++) {
        sky_verify_report report;
        sky_item item = {.key = sky_fixture_key(77)};
        sky_peer_server *s = both[i]->server;
        uint64_t room;
        for (size_t n = 0; n < SKY__PEER_KEPT_MAX; n++) /* what other tests left */
            free(sky__peer_staging_take(s, 1, &room));
        put_large(both[i], 77);
        for (size_t n = 0; n < SKY__PEER_KEPT_MAX; n++)
            assert_null(s->kept[n].data);
        assert_int_equal(sky_verify(both[i]->cache, &report), SKY_OK);
        assert_int_equal(report.entries, 1);
        assert_int_equal(report.corrupt, 0);
        assert_int_equal(sky_run(both[i]->cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
        assert_unharmed(both[i]);
    }
}

/* Clients that stop in the middle of puts keep no more than an eighth of the store from others, and
 * nothing when they are gone. */
static void who_stops_in_a_large_put_takes_little(void **state) {
    enum { STOPPED = 12, ENTRIES = 24 };
    static uint8_t half[SKY_PEER_PIECE_BYTES_MAX];
    const char *url = "mem:16MiB";
    sky_peer_link *stopped[STOPPED];
    sky_peer_fixture p;
    (void)state;
    sky_peer_fixture_start(&p, &url, 1, false);
    for (uint64_t n = 0; n < ENTRIES; n++)
        put_large(&p, 100 + n);
    for (int i = 0; i < STOPPED; i++) {
        stopped[i] = ready(&p);
        announce_put(stopped[i], LARGE_BYTES);
        assert_true(
            sky_peer_link_lend(stopped[i], half, sizeof half, &(sky_peer_part){.first = true}));
        assert_int_equal(sky_peer_link_flush(stopped[i]), SKY_OK);
    }
    wait_until(atomic_load(&p.server->received_bytes) >=
               (uint64_t)ENTRIES * LARGE_BYTES + STOPPED * sizeof half);
    for (uint64_t n = 0; n < ENTRIES; n++) {
        sky_item item = {.key = sky_fixture_key(100 + n)};
        assert_int_equal(sky_run(p.cache, SKY_OP_HAS, &item, 1, NULL), SKY_OK);
        assert_int_equal(item.status, SKY_OK);
    }
    for (int i = 0; i < STOPPED; i++)
        sky_peer_link_destroy(stopped[i]);
    for (uint64_t n = 0; n < ENTRIES; n++) {
        sky_item item = {.key = sky_fixture_key(100 + n)};
        assert_int_equal(sky_run(p.cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    }
    assert_unharmed(&p);
    sky_peer_fixture_stop(&p);
}

/* The two largest that are not too large. */
static void memory_of_puts_serves_the_next(void **state) {
    static const uint64_t sizes[] = {1000, 3000, SKY__PEER_KEPT_BYTES_MAX + 1, 2000};
    sky_peer_server *s = plain.server;
    uint8_t *given[4];
    uint64_t room;
    (void)state;
    for (size_t i = 0; i < SKY__PEER_KEPT_MAX; i++) /* what other tests left */
        free(sky__peer_staging_take(s, 1, &room));
    for (size_t i = 0; i < 4; i++)
        assert_non_null(given[i] = sky__peer_staging_take(s, sizes[i], &room));
    for (size_t i = 0; i < 4; i++)
        sky__peer_staging_give(s, given[i], sizes[i]);
    uint8_t *large = sky__peer_staging_take(s, 2500, &room);
    assert_ptr_equal(large, given[1]);
    assert_int_equal(room, 3000);
    uint8_t *small = sky__peer_staging_take(s, 500, &room);
    assert_ptr_equal(small, given[3]);
    assert_int_equal(room, 2000);
    uint8_t *fresh = sky__peer_staging_take(s, 500, &room);
    assert_int_equal(room, 500);
    free(large);
    free(small);
    free(fresh);
}

static int run_over(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(recorded_connections_are_of_no_use),
        cmocka_unit_test(silent_strangers_keep_nobody_out),
        cmocka_unit_test(the_idle_make_room),
        cmocka_unit_test(who_never_shows_the_key_is_ended),
        cmocka_unit_test(noise_on_the_port_harms_nobody),
        cmocka_unit_test(many_are_served_at_once),
        cmocka_unit_test(frames_of_a_host_end_it),
        cmocka_unit_test(who_does_not_begin_as_clients_do_is_ended),
        cmocka_unit_test(who_asks_without_end_is_ended),
        cmocka_unit_test(who_never_reads_is_ended),
        cmocka_unit_test(half_a_put_stores_nothing),
        cmocka_unit_test(an_empty_payload_may_be_first),
        cmocka_unit_test(small_puts_do_not_wait),
        cmocka_unit_test(who_goes_while_it_waits_for_room_is_ended),
        cmocka_unit_test(puts_take_turns),
        cmocka_unit_test(a_slow_put_ends_while_others_wait),
        cmocka_unit_test(listings_wait_for_each_other),
        cmocka_unit_test(noise_ends_it),
        cmocka_unit_test(a_host_answers_from_its_own_stores),
        cmocka_unit_test(large_puts_come_where_they_will_lie),
        cmocka_unit_test(who_stops_in_a_large_put_takes_little),
        cmocka_unit_test(memory_of_puts_serves_the_next),
    };
    return cmocka_run_group_tests(tests, start_servers, stop_servers);
}

int main(void) {
    int failed = run_over();
    return failed + (sky_peer_fixture_carry("fabric:tcp") ? run_over() : 0);
}
