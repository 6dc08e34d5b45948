/* Proves: no bytes in place of greetings, frames and payloads make who takes them read past them,
 * a frame that decodes encodes to the same bytes, and a host goes on, without a lease, a run or a
 * byte of a put of the connection when it has ended, nor room for one.
 *
 * An input is records, each behind two bytes with the length of its content; they get the tags
 * that they need, but a payload whose last byte is 0xff gets a wrong sum. The whole is also read as
 * a greeting and as an answer, and as a stream without tags; the first content as a frame. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <skymem/skymem.h>

#include "cache/opener.h"
#include "io/local.h"
#include "io/sync.h"
#include "peer/server.h"
#include "tier/mem/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void round_trip(const uint8_t *data, size_t bytes) {
    static sky_peer_frame frame;
    static uint8_t again[SKY_PEER_FRAME_BYTES_MAX];
    if (sky_peer_decode(data, bytes, &frame) != SKY_OK)
        return;
    assert(sky_peer_encode(&frame, again) == bytes && memcmp(again, data, bytes) == 0);
}

static void greet(const uint8_t *data, size_t bytes) {
    static const uint8_t keys[1][SKY_SECRET_BYTES] = {{1}}, chance[32] = {2};
    const sky_peer_rules rules = {keys, 1, true};
    uint8_t greeting[SKY_PEER_HELLO_BYTES] = {0}, answer[SKY_PEER_HELLO_BYTES];
    sky_peer_secrets secrets;
    sky_peer_hello hello;
    memcpy(greeting, data, bytes < sizeof greeting ? bytes : sizeof greeting);
    (void)sky_peer_hello_answer(greeting, &rules, chance, answer, &secrets);
    for (sky_suite suite = SKY_SUITE_PLAIN; suite < SKY_SUITE_CHACHA; suite++) {
        sky_peer_hello_make(&hello, suite, keys[0], chance);
        (void)sky_peer_hello_end(&hello, greeting, &secrets);
    }
}

/* One for all inputs: what they store, others find. */
static sky_peer_server *the_server(void) {
    static sky_peer_server server;
    const char *url = "mem:2MiB"; /* large puts come where they will lie: into an eighth at most */
    if (server.cache)
        return &server;
    sky_mutex_init(&server.mutex);
    server.by.transport = &sky_peer_tcp;
    server.payload_bytes_max = 256 << 10;
    server.tiers = 1;
    server.complain_at = SKY_TIME_NEVER; /* no line for each input */
    server.complaints = 1000;
    sky_status status = sky_cache_open(&url, 1, &server.cache, NULL);
    if (status == SKY_OK)
        status = sky__opened_tier(server.cache, 0, &server.nearest);
    assert(status == SKY_OK);
    (void)status;
    return &server;
}

static void read_away(int fd) {
    uint8_t away[65536];
    while (read(fd, away, sizeof away) > 0)
        ;
}

/* Hand a stream to a host's end of a connection, from the first frame on. */
static void serve(const uint8_t *stream, size_t bytes) {
    static const sky_peer_secrets plain = {.suite = SKY_SUITE_PLAIN};
    sky_peer_server *s = the_server();
    sky__peer_connection c = {.server = s, .number = 1, .taken = true, .event = -1, .watch = -1};
    int ends[2];
    bool unsent;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    s->stranger_count++;
    c.frame = malloc(sizeof *c.frame);
    sky_peer_socket socket = {s->by.transport, ends[0], NULL};
    bool made = c.frame && sky_event_create(&c.event) == SKY_OK &&
                sky_peer_link_create(&socket, false, &plain, &c.link) == SKY_OK;
    assert(made);
    (void)made;
    sky_status status = SKY_MISS;
    for (size_t at = 0; at < bytes && (status == SKY_OK || status == SKY_MISS);) {
        ssize_t sent = write(ends[1], stream + at, bytes - at);
        at += sent > 0 ? (size_t)sent : 0;
        for (int i = 0; i < 100 && (i == 0 || status == SKY_OK); i++)
            status = sky__peer_step(&c, &unsent);
        read_away(ends[1]);
    }
    sky__peer_runs_end(&c);
    sky_peer_link_destroy(c.link);
    sky_event_close(c.event);
    free(c.frame);
    sky__peer_note_end(&c, false, NULL);
    close(ends[1]);
    assert(s->stranger_count == 0 && s->stat.connections == 0);
    assert(atomic_load(&s->staged_bytes) == 0);
    assert(sky__memory_of(s->nearest)->reserved_bytes == 0);
    assert(sky_cache_metric(s->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) == 0);
}

/* The payloads of a put that are to follow. */
typedef struct {
    uint32_t count, n;
    uint64_t bytes[SKY_PEER_PAYLOAD_ITEMS_MAX], at;
} payloads;

static void go_on(payloads *p) {
    while (p->n < p->count && p->at >= p->bytes[p->n]) {
        p->n++;
        p->at = 0;
    }
}

/* A frame goes: which payloads are to follow? */
static void announce(payloads *p, const uint8_t *data, size_t bytes) {
    static sky_peer_frame frame;
    if (sky_peer_decode(data, bytes, &frame) != SKY_OK || frame.kind != SKY_PEER_RUN ||
        frame.op != SKY_OP_PUT)
        return;
    *p = (payloads){.count = frame.count};
    for (uint32_t i = 0; i < frame.count; i++)
        p->bytes[i] = frame.orders[i].bytes;
    go_on(p);
}

static bool send_frame(sky_peer_link *l, const uint8_t *data, size_t bytes) {
    uint8_t *content = sky_peer_link_begin(l, bytes);
    if (!content)
        return false;
    memcpy(content, data, bytes);
    sky_peer_link_end(l, bytes);
    return true;
}

static bool send_piece(sky_peer_link *l, payloads *p, const uint8_t *data, size_t bytes) {
    const uint64_t wrong = 1, left = p->bytes[p->n] - p->at;
    sky_peer_part part = {.first = p->at == 0, .last = bytes >= left};
    if (part.last && data[bytes - 1] == 0xff)
        part.sum = &wrong;
    bool sent = bytes == 0 ? sky_peer_link_give_up(l) : sky_peer_link_lend(l, data, bytes, &part);
    p->at += bytes == 0 ? left : bytes;
    go_on(p);
    return sent;
}

/* The records of an input, with the tags that they need. */
static void serve_tagged(const uint8_t *data, size_t bytes) {
    static const sky_peer_secrets plain = {.suite = SKY_SUITE_PLAIN};
    payloads coming = {0};
    sky_peer_link *l;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    sky_peer_socket socket = {&sky_peer_tcp, ends[0], NULL};
    if (sky_peer_link_create(&socket, true, &plain, &l) != SKY_OK)
        abort();
    const size_t room = 12 * bytes + 64;
    uint8_t *stream = malloc(room);
    size_t used = 0;
    assert(stream);
    const sky_peer_frame ready = {.kind = SKY_PEER_READY};
    if (bytes % 8 != 0) /* most speak after a greeting */
        (void)sky_peer_link_send(l, &ready);
    while (bytes > 2) {
        size_t length = data[0] | (size_t)data[1] << 8;
        length = length < bytes - 2 ? length : bytes - 2;
        bool piece = coming.n < coming.count;
        if (!(piece ? send_piece(l, &coming, data + 2, length) : send_frame(l, data + 2, length)))
            break;
        if (!piece)
            announce(&coming, data + 2, length);
        data += 2 + length;
        bytes -= 2 + length;
        (void)sky_peer_link_flush(l);
        for (ssize_t got; (got = read(ends[1], stream + used, room - used)) > 0;)
            used += (size_t)got;
    }
    sky_peer_link_destroy(l);
    close(ends[1]);
    serve(stream, used);
    free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes > 2)
        round_trip(data + 2, bytes - 2);
    greet(data, bytes);
    serve(data, bytes);
    serve_tagged(data, bytes);
    return 0;
}
