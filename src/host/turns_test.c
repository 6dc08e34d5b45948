/* Proves: what a user's clients have copied ends its turn, so that those of another are served
 * between two large puts, and each of its own clients comes first in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/host.h"
#include "tier/tier_fixture.h"

#define STAGE   ((uint64_t)4 << 20)
#define CLIENTS 3u /* two of the host's own, and one of a pool */
#define PUTS    5u /* of each of the two */

static sky__host host;
static sky__client *clients[CLIENTS];
static sky_ring rings[CLIENTS];
static int ends[CLIENTS];

static void say(uint32_t which, const sky_shm_frame *f) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    assert_int_equal(sky_ring_send(&rings[which], data, sky_shm_encode(f, data), -1), SKY_OK);
}

/* Answers to runs that came. */
static uint32_t done(uint32_t which) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    uint32_t count = 0;
    size_t bytes;
    int passed;
    while (sky_ring_receive(&rings[which], data, sizeof data, &bytes, &passed) == SKY_OK) {
        sky_shm_frame f;
        assert_int_equal(sky_shm_decode(data, bytes, &f), SKY_OK);
        count += f.kind == SKY_SHM_DONE;
        sky_local_close(passed);
    }
    return count;
}

static void connect_client(uint32_t which, const char *pool) {
    static const sky_local_peer peer;
    sky_shm_frame hello = {.kind = SKY_SHM_HELLO, .version = SKY_SHM_VERSION};
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    int pair[2], passed;
    size_t bytes;
    strcpy(hello.pool, pool);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair),
                     0);
    clients[which] = &host.clients[which];
    ends[which] = pair[1];
    sky__client_open(host.tenants[0], clients[which], ++host.numbers, pair[0], &peer);
    assert_int_equal(sky_local_send(pair[1], data, sky_shm_encode(&hello, data), -1), SKY_OK);
    sky__client_hear(&host, clients[which]);
    assert_int_equal(sky_local_receive(pair[1], data, sizeof data, &bytes, &passed), SKY_OK);
    assert_int_equal(sky_ring_open(pair[1], passed, &rings[which]), SKY_OK);
    sky_local_close(passed);
    say(which, &(sky_shm_frame){.kind = SKY_SHM_STAGE, .stage_bytes = STAGE});
    assert_true(sky__clients_serve(&host, &clients[which], 1));
    assert_int_equal(done(which), 0);
}

static void start(void) {
    static sky__client places[SKY_HOST_CLIENTS_MAX];
    static const char *const url = "mem:64MiB";
    const sky_host_user user = {.urls = &url, .url_count = 1};
    const sky_host_user pool = {.urls = &url, .url_count = 1, .pool = "p"};
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        places[i].fd = -1;
    host = (sky__host){.clients = places, .places = CLIENTS};
    assert_int_equal(sky__tenant_open(&host, &user, NULL), SKY_OK);
    assert_int_equal(sky__tenant_open(&host, &pool, NULL), SKY_OK);
    assert_int_equal(sky__chores_init(&host), SKY_OK);
    for (uint32_t i = 0; i < CLIENTS; i++)
        connect_client(i, i == 2 ? "p" : "");
}

static void stop(void) {
    for (uint32_t i = 0; i < CLIENTS; i++) {
        sky__client_close(&host, clients[i], NULL);
        sky_ring_deinit(&rings[i]);
        close(ends[i]);
    }
    while (host.tenant_count > 0)
        sky__tenant_close(&host, host.tenant_count - 1);
    sky__chores_deinit(&host);
}

static void bytes_end_a_turn(void **state) {
    (void)state;
    sky_shm_frame put = {.kind = SKY_SHM_RUN, .count = 1, .op = SKY_OP_PUT};
    uint32_t answers[2] = {0};
    start();
    for (uint32_t i = 0; i < 2 * PUTS; i++) {
        put.orders[0] = (sky_shm_order){.key = sky_fixture_key(i), .bytes = STAGE};
        say(i % 2, &put);
    }
    for (uint32_t turn = 1; turn <= 2 * PUTS; turn++) {
        say(2, &(sky_shm_frame){.kind = SKY_SHM_RUN, .count = 1, .op = SKY_OP_HAS});
        assert_true(sky__clients_serve(&host, clients, CLIENTS));
        assert_int_equal(done(2), 1);
        for (uint32_t i = 0; i < 2; i++)
            answers[i] += done(i);
        assert_int_equal(answers[0] + answers[1], turn);
        assert_true(turn < 3 || answers[0] * answers[1] > 0);
    }
    stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_end_a_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
