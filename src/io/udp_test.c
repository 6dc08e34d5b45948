/* Proves that datagrams of every length cross a real socket whole and in order, joined by the
 * kernel or not, to more than one address; that addresses are read and written exactly; and that a
 * port is vacant when nobody has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/sync.h"
#include "io/udp.h"

static sky_udp *open_at(const char *text, bool no_offloads) {
    sky_udp_options options = {
        .datagram_bytes_max = 1232, .buffer_bytes = 1 << 20, .no_offloads = no_offloads};
    sky_address at;
    sky_udp *u = NULL;
    sky_error error;
    assert_int_equal(sky_address_parse(text, &at, &error), SKY_OK);
    if (sky_udp_open(&at, &options, &u, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return u;
}

static void put(sky_udp *u, const sky_address *to, uint8_t number, size_t bytes) {
    memset(sky_udp_room(u), number, bytes);
    sky_udp_put(u, to, sky_udp_room(u), bytes);
}

/* Take datagrams until `count` have come: each must hold its number, have its length, and come from
 * `from`. Returns how many came. */
static uint32_t take(sky_udp *u, uint32_t count, const size_t *lengths, const sky_address *from) {
    uint32_t got = 0;
    int fd = sky_udp_fd(u);
    for (sky_time until = sky_now() + SKY_SECONDS(2); got < count && sky_now() < until;) {
        uint8_t *data;
        size_t bytes;
        const sky_address *who;
        if (!sky_udp_receive(u))
            sky_poll(&fd, 1, until);
        for (; sky_udp_next(u, &data, &bytes, &who); got++) {
            assert_int_equal(bytes, lengths[got % 10]);
            for (size_t i = 0; i < bytes; i++)
                assert_int_equal(data[i], (uint8_t)got);
            assert_true(sky_address_equal(who, from));
        }
    }
    return got;
}

static void datagrams_cross_whole_and_in_order(void **state) {
    (void)state;
    /* Long runs of one length, a shorter end, a longer one after it: every way a run can end. */
    static const size_t lengths[10] = {1116, 1116, 1116, 700, 1116, 1232, 1232, 1, 76, 76};
    for (int plain = 0; plain < 2; plain++) {
        sky_udp *a = open_at("127.0.0.1:0", plain);
        sky_udp *b = open_at("127.0.0.1:0", plain);
        sky_udp *c = open_at("127.0.0.1:0", plain);
        sky_address from = sky_udp_address(a), to_b = sky_udp_address(b), to_c = sky_udp_address(c);
        for (uint32_t i = 0; i < 200; i++) {
            put(a, &to_b, (uint8_t)i, lengths[i % 10]);
            if (i % 3 == 0 && i / 3 < 60)
                put(a, &to_c, (uint8_t)(i / 3), lengths[i / 3 % 10]);
        }
        sky_udp_flush(a);
        assert_int_equal(take(b, 200, lengths, &from), 200);
        assert_int_equal(take(c, 60, lengths, &from), 60);
        assert_false(sky_udp_receive(b));
        sky_udp_stat stat = sky_udp_stats(a);
        assert_int_equal(stat.sent, 260);
        assert_int_equal(stat.unsent, 0);
        assert_int_equal(sky_udp_stats(b).received, 200);
        if (plain)
            assert_string_equal(sky_udp_offloads(a), "none");
        sky_udp_close(a);
        sky_udp_close(b);
        sky_udp_close(c);
    }
}

/* More than one flush holds, and one long run. */
static void many_go_in_few_calls(void **state) {
    (void)state;
    sky_udp *a = open_at("127.0.0.1:0", false);
    sky_udp *b = open_at("127.0.0.1:0", false);
    sky_address to = sky_udp_address(b), from = sky_udp_address(a);
    static const size_t lengths[10] = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
    for (uint32_t i = 0; i < 120; i++)
        put(a, &to, (uint8_t)i, 1000);
    sky_udp_flush(a);
    assert_int_equal(take(b, 120, lengths, &from), 120);
    if (strncmp(sky_udp_offloads(a), "gso", 3) == 0)
        assert_true(sky_udp_stats(a).send_calls <= 2);
    sky_udp_close(a);
    sky_udp_close(b);
}

/* What is sent may lie in many places, next to each other or not, in the socket's room or outside;
 * datagrams of one length are one run all the same. */
static void runs_are_gathered(void **state) {
    (void)state;
    enum { COUNT = 240, BYTES = 200 };
    static const size_t lengths[10] = {BYTES, BYTES, BYTES, BYTES, BYTES,
                                       BYTES, BYTES, BYTES, BYTES, BYTES};
    static uint8_t near[COUNT][BYTES], far[COUNT][BYTES];
    sky_udp *a = open_at("127.0.0.1:0", false);
    sky_udp *b = open_at("127.0.0.1:0", false);
    sky_address to = sky_udp_address(b), from = sky_udp_address(a);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t *data = i % 60 < 30 ? near[i] : far[i * 7 % COUNT];
        if (i % 5 == 0)
            data = sky_udp_room(a);
        memset(data, (int)i, BYTES);
        sky_udp_put(a, &to, data, BYTES);
        if (i % 60 == 59)
            sky_udp_flush(a);
    }
    assert_int_equal(take(b, COUNT, lengths, &from), COUNT);
    sky_udp_stat stat = sky_udp_stats(a);
    assert_int_equal(stat.sent, COUNT);
    if (strncmp(sky_udp_offloads(a), "gso", 3) == 0)
        assert_int_equal(stat.send_calls, 4);
    sky_udp_close(a);
    sky_udp_close(b);
}

/* Whoever counts what is no datagram of his must see these too. */
static void empty_ones_are_given(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        sky_udp *a = open_at("127.0.0.1:0", plain);
        sky_address to = sky_udp_address(a);
        int fd = socket(AF_INET, SOCK_DGRAM, 0), wait = sky_udp_fd(a);
        static const size_t lengths[] = {0, 3, 0, 0, 1232, 0};
        static const uint8_t data[1232] = {0};
        enum { COUNT = sizeof lengths / sizeof *lengths };
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(sendto(fd, data, lengths[i], 0, (const struct sockaddr *)to.raw,
                                    (socklen_t)to.bytes),
                             lengths[i]);
        size_t got = 0;
        for (sky_time until = sky_now() + SKY_SECONDS(2); got < COUNT && sky_now() < until;) {
            uint8_t *bytes;
            size_t count;
            const sky_address *from;
            if (!sky_udp_receive(a))
                sky_poll(&wait, 1, until);
            for (; sky_udp_next(a, &bytes, &count, &from); got++)
                assert_true(got < COUNT && count == lengths[got]);
        }
        assert_int_equal(got, COUNT);
        close(fd);
        sky_udp_close(a);
    }
}

/* Who copies what came into as much room as he asked for may trust in it. */
static void longer_ones_are_not_received(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        static const sky_udp_options options = {.datagram_bytes_max = 1232,
                                                .buffer_bytes = 1 << 20};
        static const size_t lengths[] = {1233, 1280, 9, 9000, 60000, 1232, 1281, 7};
        static const uint8_t data[60000] = {0};
        sky_udp_options plainly = options;
        sky_address at, to;
        sky_udp *a;
        plainly.no_offloads = plain;
        assert_int_equal(sky_address_parse("127.0.0.1:0", &at, NULL), SKY_OK);
        assert_int_equal(sky_udp_open(&at, &plainly, &a, NULL), SKY_OK);
        to = sky_udp_address(a);
        int fd = socket(AF_INET, SOCK_DGRAM, 0), wait = sky_udp_fd(a);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            assert_int_equal(sendto(fd, data, lengths[i], 0, (const struct sockaddr *)to.raw,
                                    (socklen_t)to.bytes),
                             lengths[i]);
        size_t sum = 0;
        for (sky_time until = sky_now() + SKY_SECONDS(60); sum < 9 + 1232 + 7;) {
            uint8_t *bytes;
            size_t count;
            const sky_address *from;
            if (!sky_udp_receive(a))
                assert_int_not_equal(sky_poll(&wait, 1, until), 0);
            for (; sky_udp_next(a, &bytes, &count, &from); sum += count)
                assert_in_range(count, 1, 1232);
        }
        assert_int_equal(sum, 9 + 1232 + 7);
        close(fd);
        sky_udp_close(a);
    }
}

static void a_taken_address_is_told(void **state) {
    (void)state;
    sky_udp *a = open_at("127.0.0.1:0", false), *b = NULL;
    sky_address at = sky_udp_address(a);
    sky_udp_options options = {.datagram_bytes_max = 100, .buffer_bytes = 4096};
    sky_error error;
    assert_int_equal(sky_udp_open(&at, &options, &b, &error), SKY_E_BUSY);
    assert_non_null(strstr(error.text, "127.0.0.1:"));
    sky_udp_close(a);
    sky_udp_close(NULL);
}

static void addresses_are_read(void **state) {
    (void)state;
    static const char *const good[] = {"127.0.0.1:7600", "10.0.0.255:65535", "[::1]:7600",
                                       "[2001:db8::7]:1", "0.0.0.0:0"};
    static const char *const bad[] = {
        "",         "127.0.0.1", "127.0.0.1:", "localhost:1", "1.2.3:4",      "127.0.0.1:65536",
        "::1:7600", "[::1]",     "[::1:7600",  "[]:1",        "127.0.0.1:-1", "1.2.3.4:5x"};
    sky_address a;
    char text[SKY_ADDRESS_TEXT_BYTES];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(sky_address_parse(good[i], &a, NULL), SKY_OK);
        sky_address_text(&a, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sky_error error = {0};
        assert_int_equal(sky_address_parse(bad[i], &a, &error), SKY_E_SYNTAX);
        assert_non_null(strstr(error.text, "7600"));
    }
    sky_address_parse("127.1.2.3:9", &a, NULL);
    assert_true(sky_address_is_loopback(&a));
    sky_address_set_port(&a, 777);
    assert_int_equal(sky_address_port(&a), 777);
    sky_address any = sky_address_towards(&a);
    sky_address_text(&any, text);
    assert_string_equal(text, "127.1.2.3:0");
    sky_address_parse("192.0.2.1:9", &a, NULL);
    assert_false(sky_address_is_loopback(&a));
    any = sky_address_towards(&a);
    sky_address_text(&any, text);
    assert_string_equal(text, "0.0.0.0:0");
}

static void a_port_without_a_socket_is_vacant(void **state) {
    (void)state;
    static const char *const places[] = {"127.0.0.1:0", "[::1]:0"};
    for (int i = 0; i < 2; i++) {
        sky_udp *u = open_at(places[i], false);
        sky_address at = sky_udp_address(u);
        assert_false(sky_address_is_vacant(&at));
        sky_udp_close(u);
        assert_true(sky_address_is_vacant(&at));
    }
    sky_address far;
    sky_error error;
    assert_int_equal(sky_address_parse("192.0.2.1:7600", &far, &error), SKY_OK);
    assert_false(sky_address_is_vacant(&far)); /* nothing is sent there */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datagrams_cross_whole_and_in_order),
        cmocka_unit_test(many_go_in_few_calls),
        cmocka_unit_test(runs_are_gathered),
        cmocka_unit_test(empty_ones_are_given),
        cmocka_unit_test(longer_ones_are_not_received),
        cmocka_unit_test(a_taken_address_is_told),
        cmocka_unit_test(a_port_without_a_socket_is_vacant),
        cmocka_unit_test(addresses_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
