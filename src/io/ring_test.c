/* Proves: messages and their descriptors come whole and in order, however the ring wraps; a full
 * ring says so, and says when there is room; neither side sleeps through what the other did; and
 * whatever the peer writes into the memory or the socket, the other side reads and writes within
 * its own bounds. */
#include "io/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/local.h"
#include "io/shared.h"
#include "io/sync.h"

#define PATIENCE SKY_SECONDS(60)
#define ROUNDS   20000u

/* As in docs/formats/ring.md: where the words of the direction to the maker lie. */
enum { TAIL = 0, HEAD = 128, REST = 256, WANT = 384, TO_OPENER = 512 };

static int ends[2];
static sky_ring maker, opener;

static int connect_rings(void **state) {
    (void)state;
    int fd;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(sky_ring_make(ends[0], &maker, &fd), SKY_OK);
    assert_int_equal(sky_ring_open(ends[1], fd, &opener), SKY_OK);
    close(fd);
    return 0;
}

static int disconnect_rings(void **state) {
    (void)state;
    sky_ring_deinit(&maker);
    sky_ring_deinit(&maker);
    sky_ring_deinit(&opener);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void set_word(size_t at, uint32_t value) {
    memcpy(opener.memory + at, &value, sizeof value);
}

static uint32_t get_word(size_t at) {
    uint32_t value;
    memcpy(&value, maker.memory + at, sizeof value);
    return value;
}

/* ---- messages ---- */

static size_t bytes_of(uint32_t n) {
    return 1 + n * 7919u % SKY_RING_MESSAGE_BYTES;
}

static void fill(uint8_t *data, uint32_t n) {
    for (size_t i = 0; i < bytes_of(n); i++)
        data[i] = (uint8_t)(n + i * 31);
}

static void assert_receives(sky_ring *r, uint32_t n, bool with_descriptor) {
    static uint8_t expected[SKY_RING_MESSAGE_BYTES], data[SKY_RING_MESSAGE_BYTES];
    size_t bytes = 0;
    int passed;
    assert_int_equal(sky_ring_receive(r, data, sizeof data, &bytes, &passed), SKY_OK);
    fill(expected, n);
    assert_int_equal(bytes, bytes_of(n));
    assert_memory_equal(data, expected, bytes);
    assert_int_equal(passed >= 0, with_descriptor);
    sky_local_close(passed);
}

static sky_status send_one(sky_ring *r, uint32_t n, int passed) {
    static uint8_t data[SKY_RING_MESSAGE_BYTES];
    fill(data, n);
    return sky_ring_send(r, data, bytes_of(n), passed);
}

static void messages_come_whole_and_in_order(void **state) {
    (void)state;
    uint8_t byte;
    size_t bytes;
    int passed;
    uint32_t sent = 0, received = 0;
    while (received < 1000) {
        while (send_one(&maker, sent, -1) == SKY_OK)
            sent++;
        assert_true(sent - received >= SKY_RING_BYTES / (SKY_RING_MESSAGE_BYTES + 8));
        for (uint32_t n = 1 + received % 5; n > 0 && received < sent; n--)
            assert_receives(&opener, received++, false);
    }
    while (received < sent)
        assert_receives(&opener, received++, false);
    assert_int_equal(sky_ring_receive(&opener, &byte, 1, &bytes, &passed), SKY_MISS);
    assert_true(sky_ring_is_read(&maker));
}

static void descriptors_come_with_their_messages(void **state) {
    (void)state;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (uint32_t n = 0; n < 5; n++)
        assert_int_equal(send_one(&maker, n, n % 2 ? null : -1), SKY_OK);
    assert_false(sky_local_is_read(ends[0]));
    assert_receives(&opener, 0, false);
    assert_int_equal(sky_ring_hear(&opener), SKY_OK); /* they came before their messages */
    assert_true(sky_local_is_read(ends[0]));
    for (uint32_t n = 1; n < 5; n++)
        assert_receives(&opener, n, n % 2);
    close(null);
}

static void the_memory_is_as_documented(void **state) {
    (void)state;
    const uint8_t *bytes = maker.memory + 4096 + SKY_RING_BYTES;
    assert_int_equal(sky_ring_send(&maker, "skymem", 6, -1), SKY_OK);
    assert_memory_equal(bytes, "\6\0\0\0skymem", 10);
    assert_int_equal(get_word(TO_OPENER + TAIL), 16);
    assert_int_equal(get_word(TO_OPENER + HEAD), 0);
    assert_int_equal(sky_ring_send(&opener, "to", 2, -1), SKY_OK);
    assert_memory_equal(maker.memory + 4096, "\2\0\0\0to", 6);
    assert_int_equal(get_word(TAIL), 8);
    uint8_t data[8];
    size_t got;
    int passed;
    assert_int_equal(sky_ring_receive(&opener, data, sizeof data, &got, &passed), SKY_OK);
    assert_int_equal(get_word(TO_OPENER + HEAD), 16);
    assert_true(sky_ring_sleep(&opener, SKY_RING_ON_SOCKET));
    assert_int_equal(get_word(TO_OPENER + REST), 2);
}

/* ---- sleep and wake-up ---- */

static void a_full_ring_says_when_there_is_room(void **state) {
    (void)state;
    uint32_t sent = 0;
    while (send_one(&maker, sent, -1) == SKY_OK)
        sent++;
    assert_int_equal(send_one(&maker, sent, -1), SKY_E_BUSY);
    assert_int_equal(get_word(TO_OPENER + WANT), 1);
    assert_false(sky_ring_has_work(&maker));
    assert_true(sky_ring_sleep(&maker, SKY_RING_ON_SOCKET));
    assert_receives(&opener, 0, false);
    assert_true(sky_ring_has_work(&maker));
    assert_int_equal(sky_poll(&ends[0], 1, sky_now() + PATIENCE), 1); /* and it was woken */
    sky_ring_rise(&maker);
    assert_int_equal(sky_ring_hear(&maker), SKY_OK);
    for (uint32_t n = 1; n < sent; n++)
        assert_receives(&opener, n, false);
    assert_int_equal(send_one(&maker, sent, -1), SKY_OK);
    assert_false(sky_ring_has_work(&maker));
}

static void one_that_is_awake_is_not_woken(void **state) {
    (void)state;
    assert_int_equal(send_one(&maker, 1, -1), SKY_OK);
    assert_true(sky_local_is_read(ends[0]));
    assert_false(sky_ring_sleep(&opener, SKY_RING_ON_SOCKET)); /* there is something already */
    assert_int_equal(get_word(TO_OPENER + REST), SKY_RING_AWAKE);
    assert_receives(&opener, 1, false);
    assert_true(sky_ring_sleep(&opener, SKY_RING_ON_SOCKET));
    for (uint32_t n = 0; n < 3; n++)
        assert_int_equal(send_one(&maker, n, -1), SKY_OK);
    uint8_t byte;
    size_t bytes;
    int passed;
    assert_int_equal(sky_local_receive(ends[1], &byte, 1, &bytes, &passed), SKY_OK);
    assert_int_equal(sky_local_receive(ends[1], &byte, 1, &bytes, &passed), SKY_MISS); /* once */
}

static void sleep_on_socket(sky_ring *r, sky_time until) {
    if (sky_ring_sleep(r, SKY_RING_ON_SOCKET))
        (void)sky_poll(&r->socket, 1, until);
    sky_ring_rise(r);
    assert_int_equal(sky_ring_hear(r), SKY_OK);
}

/* Sends back what it gets. */
static void *echo(void *argument) {
    sky_ring *r = argument;
    uint8_t data[64];
    size_t bytes;
    int passed;
    for (uint32_t n = 0; n < ROUNDS;) {
        if (sky_ring_receive(r, data, sizeof data, &bytes, &passed) == SKY_MISS) {
            sleep_on_socket(r, sky_now() + PATIENCE);
            continue;
        }
        if (sky_ring_send(r, data, bytes, -1) != SKY_OK)
            return r;
        n++;
    }
    return NULL;
}

/* One sleeps on the word, one on its socket, and both as soon as they can. */
static void no_wake_up_is_lost(void **state) {
    (void)state;
    sky_thread thread = {0};
    void *failed = NULL;
    assert_int_equal(sky_thread_start(&thread, "echo", echo, &maker), SKY_OK);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        uint32_t answer = 0;
        size_t bytes;
        int passed;
        sky_time until = sky_now() + PATIENCE;
        assert_int_equal(sky_ring_send(&opener, &n, sizeof n, -1), SKY_OK);
        opener.spin.failures = 6; /* it hardly looks */
        while (sky_ring_receive(&opener, &answer, sizeof answer, &bytes, &passed) == SKY_MISS) {
            assert_true(sky_now() < until); /* it slept through its answer */
            sky_ring_wait(&opener, until);
        }
        assert_int_equal(answer, n);
    }
    assert_int_equal(pthread_join(thread.os, &failed), 0);
    assert_null(failed);
}

static void *wait_long(void *argument) {
    sky_ring_wait(argument, SKY_TIME_NEVER);
    return NULL;
}

static void a_kick_ends_a_wait(void **state) {
    (void)state;
    sky_thread thread = {0};
    assert_int_equal(sky_thread_start(&thread, "waits", wait_long, &opener), SKY_OK);
    sky_ring_kick(&opener); /* before it sleeps, or after */
    sky_thread_join(&thread);
    sky_ring_wait(&opener, SKY_TIME_NEVER); /* and each from now on */
}

static void looks_grow_short_in_vain(void **state) {
    (void)state;
    sky_spin spin = {0};
    sky_time first = sky_spin_ns(&spin), last = first;
    if (first == 0)
        skip(); /* one processor */
    for (int i = 1; i < 10; i++) {
        sky_spin_done(&spin, false);
        assert_true(sky_spin_ns(&spin) <= last);
        last = sky_spin_ns(&spin);
    }
    assert_true(last <= first / 50);
    for (int i = 10; i < 33; i++)
        sky_spin_done(&spin, false);
    assert_int_equal(sky_spin_ns(&spin), first); /* it tries again */
    sky_spin_done(&spin, false);
    assert_int_equal(sky_spin_ns(&spin), last);
    sky_spin_done(&spin, true);
    assert_int_equal(sky_spin_ns(&spin), first);
}

/* ---- a peer that is not trusted ---- */

static sky_status receive_any(sky_ring *r) {
    static uint8_t data[SKY_RING_MESSAGE_BYTES];
    size_t bytes;
    int passed;
    sky_status status = sky_ring_receive(r, data, sizeof data, &bytes, &passed);
    sky_local_close(passed);
    return status;
}

static void wild_places_are_refused(void **state) {
    (void)state;
    static const uint32_t tails[] = {SKY_RING_BYTES + 8, 1u << 31, UINT32_MAX - 7, 4, 12};
    set_word(4096, 1); /* the message alone would be in order */
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        set_word(TAIL, tails[i]);
        assert_int_equal(receive_any(&maker), SKY_E_CORRUPT);
    }
    static const uint32_t heads[] = {8, 1u << 31, UINT32_MAX - SKY_RING_BYTES};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        set_word(TO_OPENER + HEAD, heads[i]);
        assert_int_equal(sky_ring_send(&maker, "x", 1, -1), SKY_E_CORRUPT);
    }
}

static void wild_lengths_are_refused(void **state) {
    (void)state;
    static const uint32_t words[] = {0,          SKY_RING_MESSAGE_BYTES + 1,
                                     5,          0x7fffffff,
                                     0x80000000, 0x80000000 | (SKY_RING_MESSAGE_BYTES + 1)};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        set_word(4096, words[i]);
        set_word(TAIL, 8); /* 5 bytes do not fit into 8 with their word */
        assert_int_equal(receive_any(&maker), SKY_E_CORRUPT);
    }
    set_word(4096, 2);
    uint8_t byte;
    size_t bytes;
    int passed;
    assert_int_equal(sky_ring_receive(&maker, &byte, 1, &bytes, &passed), SKY_E_CORRUPT);
    assert_int_equal(receive_any(&maker), SKY_OK);
}

static void a_descriptor_that_is_not_there_is_refused(void **state) {
    (void)state;
    set_word(4096, 0x80000001);
    set_word(TAIL, 8);
    assert_int_equal(receive_any(&maker), SKY_E_CORRUPT);
}

static void descriptors_without_messages_are_bounded(void **state) {
    (void)state;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < SKY_RING_HELD_MAX; i++)
        assert_int_equal(sky_local_send(ends[1], "", 1, null), SKY_OK);
    assert_int_equal(sky_ring_hear(&maker), SKY_OK);
    assert_int_equal(sky_local_send(ends[1], "", 1, null), SKY_OK);
    assert_int_equal(sky_ring_hear(&maker), SKY_E_CORRUPT);
    assert_int_equal(maker.held_count, SKY_RING_HELD_MAX);
    assert_int_equal(sky_local_send(ends[1], "two", 3, -1), SKY_OK); /* no wake-up is so long */
    assert_int_equal(sky_ring_hear(&maker), SKY_E_CORRUPT);
    close(null);
}

static bool is_readable(int fd) {
    const bool writes = false;
    bool ready = false;
    sky_local_poll(&fd, &writes, &ready, 1, 0);
    return ready;
}

/* A peer that wakes without end does not keep this side at its socket. */
static void wake_ups_without_end_are_heard_in_parts(void **state) {
    (void)state;
    int passed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 200; i++)
        assert_int_equal(sky_local_send(ends[1], "", 1, -1), SKY_OK);
    assert_int_equal(sky_ring_hear(&maker), SKY_OK);
    assert_true(is_readable(ends[0]));
    assert_int_equal(sky_ring_hear(&maker), SKY_OK);
    assert_false(is_readable(ends[0]));
    for (int i = 0; i < 200; i++)
        assert_int_equal(sky_local_send(ends[1], "", 1, -1), SKY_OK);
    send_one(&opener, 1, passed); /* its descriptor lies behind them */
    assert_receives(&maker, 1, true);
    close(passed);
}

/* A thread that writes anywhere in the memory all the time. */
static _Atomic bool over;

static void *scribble(void *argument) {
    uint64_t seed = 7;
    (void)argument;
    while (!over) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = seed >> 33 & 3 ? (seed >> 40) % 1024 : (seed >> 40) % SKY_RING_MEMORY_BYTES;
        ((volatile uint8_t *)opener.memory)[at] = (uint8_t)(seed >> 32);
    }
    return NULL;
}

static void what_is_overwritten_while_read_stays_in_bounds(void **state) {
    (void)state;
    sky_thread thread = {0};
    over = false;
    assert_int_equal(sky_thread_start(&thread, "scribbles", scribble, NULL), SKY_OK);
    for (uint32_t n = 0; n < 100000; n++) {
        sky_status status = receive_any(&maker);
        assert_true(status == SKY_OK || status == SKY_MISS || status == SKY_E_CORRUPT);
        status = send_one(&maker, n % 3, -1);
        assert_true(status == SKY_OK || status == SKY_E_BUSY || status == SKY_E_CORRUPT);
    }
    over = true;
    sky_thread_join(&thread);
}

static void memory_of_another_kind_is_refused(void **state) {
    (void)state;
    sky_ring r;
    int null = open("/dev/zero", O_RDWR | O_CLOEXEC), small;
    uint8_t data[4096] = {0};
    assert_int_equal(sky_ring_open(ends[1], null, &r), SKY_E_CORRUPT);
    assert_int_equal(sky_shared_copy(data, sizeof data, &small), SKY_OK);
    assert_int_equal(sky_ring_open(ends[1], small, &r), SKY_E_CORRUPT);
    close(null);
    close(small);
}

static void the_end_is_heard(void **state) {
    (void)state;
    assert_int_equal(sky_ring_hear(&maker), SKY_OK);
    close(ends[1]);
    assert_int_equal(sky_ring_hear(&maker), SKY_E_IO);
    ends[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

#define RING_TEST(name) cmocka_unit_test_setup_teardown(name, connect_rings, disconnect_rings)

int main(void) {
    const struct CMUnitTest tests[] = {
        RING_TEST(messages_come_whole_and_in_order),
        RING_TEST(descriptors_come_with_their_messages),
        RING_TEST(the_memory_is_as_documented),
        RING_TEST(a_full_ring_says_when_there_is_room),
        RING_TEST(one_that_is_awake_is_not_woken),
        RING_TEST(no_wake_up_is_lost),
        RING_TEST(a_kick_ends_a_wait),
        RING_TEST(looks_grow_short_in_vain),
        RING_TEST(wild_places_are_refused),
        RING_TEST(wild_lengths_are_refused),
        RING_TEST(a_descriptor_that_is_not_there_is_refused),
        RING_TEST(descriptors_without_messages_are_bounded),
        RING_TEST(wake_ups_without_end_are_heard_in_parts),
        RING_TEST(what_is_overwritten_while_read_stays_in_bounds),
        RING_TEST(memory_of_another_kind_is_refused),
        RING_TEST(the_end_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
