/* Proves: records keep their bytes (golden vectors), payloads come where they belong however the
 * stream is cut, a record that is changed, repeated, dropped, exchanged or too long ends the
 * connection, and in plain a payload that is changed ends itself alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "tier/peer/link.h"

#define PAYLOAD_BYTES 300000u /* three pieces */

/* A link whose other end is a plain descriptor of the test's. */
static sky_peer_link *make_link(bool client, sky_suite suite, int *other) {
    const sky_peer_secrets secrets = {.suite = suite, .client_key = {1}, .host_key = {2}};
    sky_peer_link *l;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    sky_peer_socket socket = {&sky_peer_tcp, ends[0], NULL};
    assert_int_equal(sky_peer_link_create(&socket, client, &secrets, &l), SKY_OK);
    assert_int_equal(socket.fd, -1);
    *other = ends[1];
    return l;
}

/* ---- a sink ---- */

static struct {
    uint64_t expected;
    uint8_t frame[1000];
    size_t frame_bytes;
    uint8_t *to;
    size_t at, gap_at, gap_bytes; /* what lies in the gap is not wanted */
    uint32_t pieces, sums;
    sky_peer_sum sum;
} heard;

static uint64_t expected(void *self) {
    (void)self;
    return heard.expected;
}

static sky_status frame(void *self, const uint8_t *data, size_t bytes) {
    (void)self;
    assert_true(bytes <= sizeof heard.frame);
    memcpy(heard.frame, data, bytes);
    heard.frame_bytes = bytes;
    return SKY_OK;
}

/* Spans of odd sizes, and a gap. */
static uint32_t place(void *self, size_t bytes, sky_span *spans) {
    (void)self;
    size_t at = heard.at;
    uint32_t count = 0;
    while (bytes > 0 && count < SKY_PEER_SPANS_MAX - 1) {
        bool gap = at >= heard.gap_at && at < heard.gap_at + heard.gap_bytes;
        size_t now = gap ? heard.gap_at + heard.gap_bytes - at : 1 + at % 5000;
        now = !gap && at < heard.gap_at && now > heard.gap_at - at ? heard.gap_at - at : now;
        now = now < bytes ? now : bytes;
        spans[count++] = (sky_span){gap ? NULL : heard.to + at, now};
        at += now;
        bytes -= now;
    }
    return count;
}

static void placed(void *self, size_t bytes) {
    (void)self;
    heard.at += bytes;
}

static sky_status piece(void *self, size_t bytes, const sky_peer_sum *sum) {
    (void)self;
    heard.pieces++;
    heard.expected -= bytes > 0 ? bytes : heard.expected;
    heard.sums += sum != NULL;
    if (sum)
        heard.sum = *sum;
    return SKY_OK;
}

static const sky_peer_sink sink = {NULL, expected, frame, place, placed, piece};

static void fill(uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* ---- records ---- */

static size_t record_of(sky_suite suite, const char *content, uint8_t *out, size_t room) {
    int other;
    sky_peer_link *l = make_link(true, suite, &other);
    memcpy(sky_peer_link_begin(l, strlen(content)), content, strlen(content));
    sky_peer_link_end(l, strlen(content));
    assert_int_equal(sky_peer_link_flush(l), SKY_OK);
    ssize_t got = read(other, out, room);
    assert_true(got > 0);
    sky_peer_link_destroy(l);
    close(other);
    return (size_t)got;
}

/* Those of the ciphers are from another implementation, Python's cryptography. */
static void records_keep_their_bytes(void **state) {
    static const char *const golden[] = {"0700000017ddfda1285c8079000000000000000061206672616d65",
                                         "07000000db61fb0a44bc2ea5f3d62c48ad0d9f3b7445a6311b887a",
                                         "070000001757576d8949f84422fe2bd20526178871d63094b09030"};
    uint8_t out[100];
    (void)state;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        char text[201] = "";
        size_t bytes = record_of(suite, "a frame", out, sizeof out);
        for (size_t i = 0; i < bytes; i++)
            snprintf(text + 2 * i, 3, "%02x", out[i]);
        assert_string_equal(text, golden[suite]);
    }
}

/* A payload of 7 bytes in two pieces, and one that is given up: from Python's xxhash. Whether the
 * sender knows the sum makes no difference. */
static void pieces_keep_their_bytes(void **state) {
    static const char golden[] = "050000000000000000000000dc1bc53a6b3c03c96120706965"
                                 "02000000cce79335106851551a912631e69e29c26365"
                                 "000000000000000000000000d110b4afb7453a95";
    const uint64_t sum = UINT64_C(0x555168103593e7cc);
    (void)state;
    for (int knows = 0; knows < 2; knows++) {
        uint8_t out[100];
        char text[201] = "";
        int other;
        sky_peer_link *l = make_link(true, SKY_SUITE_PLAIN, &other);
        sky_peer_part part = {.first = true, .sum = knows ? &sum : NULL};
        assert_true(sky_peer_link_lend(l, (const uint8_t *)"a pie", 5, &part));
        part = (sky_peer_part){.last = true, .sum = part.sum};
        assert_true(sky_peer_link_lend(l, (const uint8_t *)"ce", 2, &part));
        assert_true(sky_peer_link_give_up(l));
        assert_int_equal(sky_peer_link_flush(l), SKY_OK);
        ssize_t bytes = read(other, out, sizeof out);
        for (ssize_t i = 0; i < bytes; i++)
            snprintf(text + 2 * i, 3, "%02x", out[i]);
        assert_string_equal(text, golden);
        sky_peer_link_destroy(l);
        close(other);
    }
}

static sky_peer_part part_at(size_t at, size_t bytes) {
    return (sky_peer_part){.first = at == 0, .last = at + bytes == PAYLOAD_BYTES};
}

/* What a link sends: a frame and a payload in three pieces. Returns its bytes. */
static size_t recorded(sky_suite suite, const uint8_t *payload, uint8_t *out, size_t room) {
    int other;
    size_t used = 0;
    sky_peer_link *l = make_link(true, suite, &other);
    memcpy(sky_peer_link_begin(l, 5), "hello", 5);
    sky_peer_link_end(l, 5);
    for (size_t at = 0; at < PAYLOAD_BYTES || sky_peer_link_flush(l) != SKY_OK;) {
        size_t left = PAYLOAD_BYTES - at;
        size_t now = left < SKY_PEER_PIECE_BYTES_MAX ? left : SKY_PEER_PIECE_BYTES_MAX;
        const sky_peer_part part = part_at(at, now);
        if (left > 0 && sky_peer_link_lend(l, payload + at, now, &part))
            at += now;
        (void)sky_peer_link_flush(l);
        ssize_t got = read(other, out + used, room - used);
        used += got > 0 ? (size_t)got : 0;
    }
    for (ssize_t got; (got = read(other, out + used, room - used)) > 0;)
        used += (size_t)got;
    sky_peer_link_destroy(l);
    close(other);
    return used;
}

/* A frame announces a payload, as a run does. */
static sky_status frame_then_payload(void *self, const uint8_t *data, size_t bytes) {
    heard.expected = PAYLOAD_BYTES;
    return frame(self, data, bytes);
}

/* Hand a stream to a host's end, `step` bytes at a time. Returns the first status that is neither
 * SKY_OK nor SKY_MISS, else SKY_MISS. announces: a payload follows the frame. */
static sky_status replay(sky_suite suite, bool announces, const uint8_t *stream, size_t bytes,
                         size_t step) {
    sky_peer_sink to = sink;
    int other;
    sky_peer_link *l = make_link(false, suite, &other);
    sky_status status = SKY_MISS;
    to.frame = announces ? frame_then_payload : frame;
    heard.expected = 0;
    heard.frame_bytes = heard.at = heard.pieces = heard.sums = 0;
    for (size_t at = 0; at < bytes && status == SKY_MISS;) {
        size_t now = step < bytes - at ? step : bytes - at;
        ssize_t sent = write(other, stream + at, now);
        at += sent > 0 ? (size_t)sent : 0;
        do {
            status = sky_peer_link_receive(l, &to);
        } while (status == SKY_OK);
    }
    sky_peer_link_destroy(l);
    close(other);
    return status;
}

static void payloads_come_where_they_belong(void **state) {
    static const size_t steps[] = {100000, 65536, 4099, 61};
    uint8_t *payload = malloc(PAYLOAD_BYTES), *back = malloc(PAYLOAD_BYTES);
    size_t room = 2 * PAYLOAD_BYTES;
    uint8_t *stream = malloc(room);
    (void)state;
    fill(payload, PAYLOAD_BYTES);
    heard.to = back;
    heard.gap_at = 150000;
    heard.gap_bytes = 7777;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        size_t bytes = recorded(suite, payload, stream, room);
        assert_int_equal(bytes, 5 + PAYLOAD_BYTES + 4 * SKY_PEER_RECORD_HEAD_BYTES);
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            memset(back, 0xee, PAYLOAD_BYTES);
            assert_int_equal(replay(suite, true, stream, bytes, steps[i]), SKY_MISS);
            assert_memory_equal(heard.frame, "hello", 5);
            assert_int_equal(heard.pieces, 3);
            assert_int_equal(heard.sums, suite == SKY_SUITE_PLAIN);
            if (suite == SKY_SUITE_PLAIN)
                assert_true(heard.sum.right &&
                            heard.sum.sum == sky_checksum(payload, PAYLOAD_BYTES, 0));
            assert_memory_equal(back, payload, heard.gap_at);
            size_t after = heard.gap_at + heard.gap_bytes;
            assert_memory_equal(back + after, payload + after, PAYLOAD_BYTES - after);
            for (size_t n = heard.gap_at; n < after; n++)
                assert_int_equal(back[n], 0xee);
        }
    }
    heard.gap_bytes = 0;
    free(payload);
    free(back);
    free(stream);
}

/* Passes a payload in spans of odd sizes, and writes over each piece when it was passed, while the
 * other end reads little at a time. */
static size_t passed(sky_suite suite, const uint8_t *payload, size_t span_bytes, uint8_t *out,
                     size_t room) {
    static uint8_t piece[SKY_PEER_PIECE_BYTES_MAX];
    sky_span spans[SKY_PEER_SPANS_MAX];
    int other, small = 20000;
    size_t used = 0, at = 0;
    sky_peer_link *l = make_link(true, suite, &other);
    assert_int_equal(
        setsockopt(sky_peer_link_socket(l)->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    memcpy(sky_peer_link_begin(l, 5), "hello", 5);
    sky_peer_link_end(l, 5);
    while (at < PAYLOAD_BYTES || sky_peer_link_flush(l) != SKY_OK) {
        uint32_t count = 0;
        size_t bytes = 0;
        while (at + bytes < PAYLOAD_BYTES && bytes + span_bytes <= sizeof piece &&
               count < SKY_PEER_SPANS_MAX - 1) {
            size_t left = PAYLOAD_BYTES - at - bytes, now = left < span_bytes ? left : span_bytes;
            spans[count++] = (sky_span){piece + bytes, now};
            bytes += now;
        }
        memcpy(piece, payload + at, bytes);
        const sky_peer_part part = part_at(at, bytes);
        if (bytes > 0 && sky_peer_link_pass(l, spans, count, bytes, &part))
            at += bytes;
        else
            (void)sky_peer_link_flush(l);
        memset(piece, 0xaa, bytes);
        ssize_t got = read(other, out + used, room - used < 9000 ? room - used : 9000);
        used += got > 0 ? (size_t)got : 0;
    }
    for (ssize_t got; (got = read(other, out + used, room - used)) > 0;)
        used += (size_t)got;
    sky_peer_link_destroy(l);
    close(other);
    return used;
}

static void passed_memory_is_the_callers_again(void **state) {
    static const size_t sizes[] = {SKY_PEER_PIECE_BYTES_MAX, 4099, 100};
    uint8_t *payload = malloc(PAYLOAD_BYTES), *back = malloc(PAYLOAD_BYTES);
    size_t room = 2 * PAYLOAD_BYTES;
    uint8_t *stream = malloc(room);
    (void)state;
    fill(payload, PAYLOAD_BYTES);
    heard.to = back;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t bytes = passed(suite, payload, sizes[i], stream, room);
            memset(back, 0xee, PAYLOAD_BYTES);
            assert_int_equal(replay(suite, true, stream, bytes, 100000), SKY_MISS);
            assert_memory_equal(heard.frame, "hello", 5);
            assert_memory_equal(back, payload, PAYLOAD_BYTES);
            assert_true(suite != SKY_SUITE_PLAIN || heard.sum.right);
        }
    free(payload);
    free(back);
    free(stream);
}

/* In a piece in plain all of its head counts; its content is the payload's. */
static sky_status replay_changed(sky_suite suite, uint8_t *bad, size_t bytes, size_t at) {
    const size_t first = SKY_PEER_RECORD_HEAD_BYTES + 5,
                 record = SKY_PEER_RECORD_HEAD_BYTES + SKY_PEER_PIECE_BYTES_MAX;
    bool in_content = suite == SKY_SUITE_PLAIN && at >= first &&
                      (at - first) % record >= SKY_PEER_RECORD_HEAD_BYTES;
    bad[at] ^= 0x80;
    sky_status status = replay(suite, true, bad, bytes, 100000);
    if (!in_content)
        return status;
    assert_int_equal(status, SKY_MISS);
    assert_int_equal(heard.sums, 1);
    assert_false(heard.sum.right);
    return SKY_E_CORRUPT;
}

static void changed_streams_are_noticed(void **state) {
    uint8_t *payload = malloc(PAYLOAD_BYTES), *back = malloc(PAYLOAD_BYTES);
    size_t room = 2 * PAYLOAD_BYTES, frame_bytes = SKY_PEER_RECORD_HEAD_BYTES + 5;
    uint8_t *stream = malloc(room), *bad = malloc(room);
    const size_t piece_bytes = SKY_PEER_RECORD_HEAD_BYTES + SKY_PEER_PIECE_BYTES_MAX;
    const size_t second = frame_bytes + piece_bytes, third = second + piece_bytes;
    const size_t places[] = {0,         3,          4,          12,          20,          24,
                             25,        29,         36,         37,          44,          45,
                             100,       second,     second + 4, second + 12, second + 20, third + 3,
                             third + 4, third + 19, third + 20, 200000,      300000};
    (void)state;
    fill(payload, PAYLOAD_BYTES);
    heard.to = back;
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_END; suite++) {
        size_t bytes = recorded(suite, payload, stream, room);
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            memcpy(bad, stream, bytes);
            assert_int_equal(replay_changed(suite, bad, bytes, places[i]), SKY_E_CORRUPT);
        }
        memcpy(bad, stream, frame_bytes); /* the frame twice */
        memcpy(bad + frame_bytes, stream, frame_bytes);
        assert_int_equal(replay(suite, false, bad, 2 * frame_bytes, 1000), SKY_E_CORRUPT);
        memcpy(bad, stream, frame_bytes); /* the second piece before the first */
        memcpy(bad + frame_bytes, stream + frame_bytes + piece_bytes, piece_bytes);
        assert_int_equal(replay(suite, true, bad, frame_bytes + piece_bytes, 1000), SKY_E_CORRUPT);
    }
    free(payload);
    free(back);
    free(stream);
    free(bad);
}

/* The head of a piece in plain with a check that fits, as an enemy would send it. */
static sky_status replay_head(uint32_t length, uint64_t sum, uint64_t number) {
    uint8_t bytes[2 * SKY_PEER_RECORD_HEAD_BYTES + 5];
    uint8_t *head = bytes + SKY_PEER_RECORD_HEAD_BYTES + 5;
    assert_int_equal(record_of(SKY_SUITE_PLAIN, "hello", bytes, sizeof bytes), 25);
    sky_store_u32(head, length);
    sky_store_u64(head + 4, sum);
    sky_store_u64(head + 12, sky_checksum(head, 12, number));
    return replay(SKY_SUITE_PLAIN, true, bytes, sizeof bytes, 100);
}

static void heads_of_pieces_are_bounded(void **state) {
    (void)state;
    assert_int_equal(replay_head(SKY_PEER_PIECE_BYTES_MAX, 0, 1), SKY_MISS);
    assert_int_equal(replay_head(SKY_PEER_PIECE_BYTES_MAX + 1, 0, 1), SKY_E_CORRUPT);
    assert_int_equal(replay_head(1000, 1, 1), SKY_E_CORRUPT); /* a sum, and more is to come */
    assert_int_equal(replay_head(1000, 0, 2), SKY_E_CORRUPT); /* another record's number */
    assert_int_equal(replay_head(PAYLOAD_BYTES + 1, 1, 1), SKY_E_CORRUPT);
    assert_int_equal(replay_head(0, 1, 1), SKY_E_CORRUPT);
    assert_int_equal(replay_head(0, 0, 1), SKY_MISS);
    assert_int_equal(heard.pieces, 1);
    assert_int_equal(heard.sums, 0);
}

/* A payload that is given up in the middle leaves nothing to the sum of the next. */
static void sums_begin_again(void **state) {
    const uint8_t data[1000] = {1, 2, 3};
    uint8_t stream[3000], back[2000];
    int other;
    size_t used = 0;
    (void)state;
    sky_peer_link *l = make_link(true, SKY_SUITE_PLAIN, &other);
    assert_true(sky_peer_link_lend(l, data, 700, &(sky_peer_part){.first = true}));
    assert_true(sky_peer_link_give_up(l));
    assert_true(sky_peer_link_lend(l, data, 1000, &(sky_peer_part){.first = true, .last = true}));
    assert_int_equal(sky_peer_link_flush(l), SKY_OK);
    used = (size_t)read(other, stream, sizeof stream);
    sky_peer_link_destroy(l);
    close(other);
    l = make_link(false, SKY_SUITE_PLAIN, &other);
    heard.to = back;
    heard.expected = 1000;
    heard.at = heard.pieces = heard.sums = 0;
    assert_int_equal(write(other, stream, 740), 740); /* up to what gives it up */
    while (sky_peer_link_receive(l, &sink) == SKY_OK)
        ;
    assert_int_equal(heard.pieces, 2);
    heard.expected = 1000;
    assert_int_equal(write(other, stream + 740, used - 740), used - 740);
    while (sky_peer_link_receive(l, &sink) == SKY_OK)
        ;
    assert_int_equal(heard.pieces, 3);
    assert_int_equal(heard.sums, 1);
    assert_true(heard.sum.right && heard.sum.sum == sky_checksum(data, 1000, 0));
    sky_peer_link_destroy(l);
    close(other);
}

/* A length beyond what may come is refused before any of it is waited for. */
static void lengths_are_bounded(void **state) {
    uint8_t head[SKY_PEER_RECORD_HEAD_BYTES] = {0};
    (void)state;
    assert_int_equal(replay(SKY_SUITE_PLAIN, false, head, sizeof head, 100), SKY_E_CORRUPT);
    memset(head, 0xff, 4);
    assert_int_equal(replay(SKY_SUITE_AES, false, head, sizeof head, 100), SKY_E_CORRUPT);
    memcpy(head, (const uint8_t[]){1, 0, 3, 0}, 4); /* 192 KiB and a byte */
    assert_int_equal(replay(SKY_SUITE_PLAIN, false, head, sizeof head, 100), SKY_E_CORRUPT);
    memcpy(head, (const uint8_t[]){0, 0, 3, 0}, 4);
    assert_int_equal(replay(SKY_SUITE_PLAIN, false, head, sizeof head, 100), SKY_MISS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_keep_their_bytes),
        cmocka_unit_test(pieces_keep_their_bytes),
        cmocka_unit_test(payloads_come_where_they_belong),
        cmocka_unit_test(passed_memory_is_the_callers_again),
        cmocka_unit_test(changed_streams_are_noticed),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(heads_of_pieces_are_bounded),
        cmocka_unit_test(sums_begin_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
