/* Proves: whatever a host sends, or where it ends, a client ends its operations with an error,
 * writes nothing outside of what the caller gave, and goes on with the next connection, or with the
 * same where a payload alone is damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/sync.h"
#include "io/tcp.h"
#include "peer/peer_fixture.h"
#include "tier/peer/link.h"
#include "tier/peer/peer.h"
#include "tier/peer/peer_state.h"
#include "tier/shm/frame.h"
#include "tier/tier_fixture.h"

#define PAYLOAD_BYTES (1u << 20)
#define PATIENCE      SKY_SECONDS(60)

typedef enum {
    ENDS_IN_THE_MIDDLE,
    ENDS_BEFORE_IT_ANSWERS,
    SENDS_TOO_MUCH,
    ANSWERS_ANOTHER,
    ANSWERS_MORE_ITEMS,
    GIVES_UP,
    TELLS_UNASKED,
    SENDS_NOISE,
    ANSWERS_TWICE,
    SENDS_DAMAGED,
    IS_GOOD,
    WAYS
} way;

static struct {
    sky_peer_socket listener;
    char address[SKY_ADDRESS_TEXT_BYTES];
    way what;
    sky_thread thread;
    sky_peer_link *link;
    sky_peer_frame frame;
    bool asked;
} host;

/* ---- a host by hand, for one connection ---- */

static uint64_t expects_none(void *self) {
    (void)self;
    return 0;
}

static sky_status take_frame(void *self, const uint8_t *data, size_t bytes) {
    (void)self;
    host.asked = true;
    return sky_peer_decode(data, bytes, &host.frame);
}

/* The next frame of the client, or false: it has gone. */
static bool hear(sky_peer_kind kind) {
    const sky_peer_sink sink = {NULL, expects_none, take_frame, NULL, NULL, NULL};
    const sky_peer_socket *socket = sky_peer_link_socket(host.link);
    sky_status status = SKY_MISS;
    for (host.asked = false; !host.asked && status == SKY_MISS;) {
        (void)sky_peer_socket_wait(socket, true, false, -1, sky_now() + PATIENCE);
        status = sky_peer_link_receive(host.link, &sink);
    }
    return host.asked && host.frame.kind == kind;
}

static void flush(void) {
    while (sky_peer_link_flush(host.link) == SKY_E_BUSY)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
}

static void say(const sky_peer_frame *f) {
    (void)sky_peer_link_send(host.link, f);
    flush();
}

/* So many bytes of a payload. */
static void send_payload(size_t bytes, size_t of_bytes) {
    static uint8_t content[SKY_PEER_PIECE_BYTES_MAX];
    const uint64_t wrong = 1;
    memset(content, 0x77, sizeof content);
    for (size_t now, at = 0; at < bytes; at += now) {
        now = bytes - at < sizeof content ? bytes - at : sizeof content;
        const sky_peer_part part = {.first = at == 0,
                                    .last = at + now == of_bytes,
                                    .sum = host.what == SENDS_DAMAGED ? &wrong : NULL};
        if (!sky_peer_link_lend(host.link, content, now, &part))
            return; /* the client has gone */
        flush();
    }
}

static void answer_get(void) {
    static sky_peer_frame done;
    done = (sky_peer_frame){
        .kind = SKY_PEER_DONE, .id = host.frame.id, .count = 1, .payloads = true};
    done.results[0].bytes = PAYLOAD_BYTES;
    done.id += host.what == ANSWERS_ANOTHER;
    done.count += host.what == ANSWERS_MORE_ITEMS;
    done.results[0].bytes += host.what == SENDS_TOO_MUCH;
    if (host.what == TELLS_UNASKED)
        done = (sky_peer_frame){
            .kind = SKY_PEER_TOLD, .question = SKY_PEER_LIST, .text_bytes = 1000};
    if (host.what == SENDS_NOISE) {
        const sky_span noise = {"noise, twenty bytes and more of it", 34};
        const sky_peer_socket *socket = sky_peer_link_socket(host.link);
        size_t sent;
        (void)socket->transport->send(socket, &noise, 1, &sent);
        return;
    }
    if (host.what == ENDS_BEFORE_IT_ANSWERS)
        return;
    say(&done);
    if (host.what == GIVES_UP) {
        (void)sky_peer_link_give_up(host.link);
        flush();
        return;
    }
    send_payload(host.what == ENDS_IN_THE_MIDDLE ? PAYLOAD_BYTES / 2 + 100 : PAYLOAD_BYTES,
                 PAYLOAD_BYTES);
    if (host.what == ANSWERS_TWICE)
        say(&done);
}

static bool let_in(sky_peer_socket *socket) {
    const sky_peer_rules rules = {NULL, 0, true};
    uint8_t hello[SKY_PEER_HELLO_BYTES], answer[SKY_PEER_HELLO_BYTES];
    sky_peer_secrets secrets = {0};
    sky_time until = sky_now() + PATIENCE;
    if (sky_peer_exchange(socket, false, hello, sizeof hello, until, -1) != SKY_OK ||
        sky_peer_hello_answer(hello, &rules, NULL, answer, &secrets) != SKY_OK ||
        sky_peer_exchange(socket, true, answer, sizeof answer, until, -1) != SKY_OK ||
        sky_peer_link_create(socket, false, &secrets, &host.link) != SKY_OK)
        return false;
    if (!hear(SKY_PEER_READY))
        return false;
    const sky_peer_frame welcome = {.kind = SKY_PEER_WELCOME, .payload_bytes_max = 1 << 30};
    say(&welcome);
    return true;
}

/* A listener may wake for nothing. */
static bool accept_client(sky_peer_socket *socket) {
    const sky_peer_transport *transport = host.listener.transport;
    sky_address from;
    bool exhausted, found = false;
    for (sky_time until = sky_now() + PATIENCE; !found && sky_now() < until;) {
        (void)sky_peer_socket_wait(&host.listener, true, false, -1, until);
        found = transport->accept(&host.listener, socket, &from, &exhausted);
    }
    return found;
}

static void *be_host(void *argument) {
    sky_peer_socket socket;
    (void)argument;
    if (accept_client(&socket) && let_in(&socket) && hear(SKY_PEER_RUN)) {
        answer_get();
        if (host.what == SENDS_DAMAGED && hear(SKY_PEER_RUN)) { /* the connection goes on */
            host.what = IS_GOOD;
            answer_get();
        }
        if (host.what == IS_GOOD || host.what == ANSWERS_TWICE)
            (void)hear(SKY_PEER_READY); /* until the client goes */
    }
    sky_peer_link_destroy(host.link);
    host.link = NULL;
    return NULL;
}

static void start_host(way what) {
    host.what = what;
    assert_int_equal(sky_thread_start(&host.thread, "host", be_host, NULL), SKY_OK);
}

/* ---- the client ---- */

static sky_status get(sky_tier *tier, uint8_t *to) {
    sky_span span = {to, PAYLOAD_BYTES};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
    return item.status;
}

static void operations_end_and_go_on(void **state) {
    static uint8_t memory[PAYLOAD_BYTES + 2000];
    static const sky_tier_env env;
    (void)state;
    for (way what = 0; what < WAYS; what++) {
        char url[128];
        sky_tier *tier;
        snprintf(url, sizeof url, "skymem://%s?plain=yes&connections=1%s", host.address,
                 sky_peer_fixture_query());
        start_host(what);
        assert_int_equal(sky_peer_tier_open(url, &env, &tier, NULL), SKY_OK);
        memset(memory, 0x11, sizeof memory);
        sky_status status = get(tier, memory + 1000);
        if (what == IS_GOOD || what == ANSWERS_TWICE)
            assert_int_equal(status, SKY_OK);
        else
            assert_int_equal(status, what == SENDS_DAMAGED ? SKY_E_CORRUPT : SKY_E_IO);
        for (size_t i = 0; i < 1000; i++)
            assert_true(memory[i] == 0x11 && memory[PAYLOAD_BYTES + 1000 + i] == 0x11);
        if (what == SENDS_DAMAGED)
            assert_int_equal(get(tier, memory + 1000), SKY_OK);
        else if (what != IS_GOOD) { /* the same tier finds the next host at the address */
            sky_thread_join(&host.thread);
            start_host(IS_GOOD);
            while ((status = get(tier, memory + 1000)) == SKY_E_IO)
                ; /* that the other end has gone may be seen only now */
            assert_int_equal(status, SKY_OK);
            assert_int_equal(memory[1000], 0x77);
        }
        tier->ops->close(tier);
        sky_thread_join(&host.thread);
    }
}

/* ---- a listing ---- */

/* Answer the question that was heard last. */
static void tell(size_t text_bytes) {
    host.frame.kind = SKY_PEER_TOLD;
    host.frame.told = SKY_OK;
    memset(host.frame.numbers, 0, sizeof host.frame.numbers);
    host.frame.text_bytes = text_bytes;
    say(&host.frame);
}

/* One entry, with another sum. */
static void *list_damaged(void *argument) {
    const uint64_t wrong = 1;
    const sky_peer_part part = {.first = true, .last = true, .sum = &wrong};
    const sky_entry entry = {.key = sky_fixture_key(1), .bytes = 1};
    uint8_t text[SKY_SHM_ENTRY_BYTES_MAX];
    size_t bytes = 0;
    sky_peer_socket socket;
    (void)argument;
    (void)sky_shm_entry_encode(&entry, text, sizeof text, &bytes);
    bool asked = accept_client(&socket) && let_in(&socket);
    if (asked && hear(SKY_PEER_ASK)) { /* whether it is alive */
        tell(0);
        asked = hear(SKY_PEER_ASK);
    }
    if (asked) {
        tell(bytes);
        (void)sky_peer_link_lend(host.link, text, bytes, &part);
        flush();
        (void)hear(SKY_PEER_READY); /* until the client goes */
    }
    sky_peer_link_destroy(host.link);
    host.link = NULL;
    return NULL;
}

static bool see_entry(void *context, const sky_entry *entry) {
    (void)entry;
    ++*(int *)context;
    return true;
}

static void a_damaged_listing_is_none(void **state) {
    static const sky_tier_env env;
    char url[128];
    sky_tier *tier;
    int entries = 0;
    (void)state;
    snprintf(url, sizeof url, "skymem://%s?plain=yes&connections=1%s", host.address,
             sky_peer_fixture_query());
    assert_int_equal(sky_thread_start(&host.thread, "host", list_damaged, NULL), SKY_OK);
    assert_int_equal(sky_peer_tier_open(url, &env, &tier, NULL), SKY_OK);
    assert_int_equal(tier->ops->list(tier, see_entry, &entries), SKY_E_CORRUPT);
    assert_int_equal(entries, 0);
    tier->ops->close(tier);
    sky_thread_join(&host.thread);
}

/* ---- one host of several ---- */

static sky_status answer_lookup(void *self, const uint8_t *data, size_t bytes) {
    static sky_peer_frame done;
    sky_status status = take_frame(self, data, bytes);
    if (status != SKY_OK || host.frame.op != SKY_OP_HAS)
        return status;
    done = (sky_peer_frame){.kind = SKY_PEER_DONE, .id = host.frame.id, .count = host.frame.count};
    done.results[0].bytes = PAYLOAD_BYTES;
    say(&done);
    return SKY_OK;
}

static void *answer_lookups(void *argument) {
    const sky_peer_sink sink = {NULL, expects_none, answer_lookup, NULL, NULL, NULL};
    sky_peer_socket socket;
    (void)argument;
    sky_status status = accept_client(&socket) && let_in(&socket) ? SKY_MISS : SKY_E_IO;
    while (status == SKY_MISS) {
        (void)sky_peer_socket_wait(sky_peer_link_socket(host.link), true, false, -1,
                                   sky_now() + PATIENCE);
        status = sky_peer_link_receive(host.link, &sink);
    }
    sky_peer_link_destroy(host.link);
    host.link = NULL;
    return NULL;
}

static void write_peers(const char *path) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "%s plain\n", host.address);
    assert_int_equal(fclose(out), 0);
}

/* It goes on to answer lookups, so that its silence shows in the get alone. */
static void a_get_that_is_never_answered_ends(void **state) {
    const sky__peer_patience before = sky__peer_patience_of_new;
    static const sky_tier_env env;
    static uint8_t memory[PAYLOAD_BYTES];
    char path[64], url[128];
    sky_tier *tier;
    sky_span span = {memory, sizeof memory};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    (void)state;
    snprintf(path, sizeof path, "/tmp/skymem-false-%d", getpid());
    write_peers(path);
    snprintf(url, sizeof url, "skymem://?peers=%s&connections=1%s", path, sky_peer_fixture_query());
    assert_int_equal(sky_thread_start(&host.thread, "host", answer_lookups, NULL), SKY_OK);
    sky__peer_patience_of_new.silent_ns = SKY_MS(200);
    assert_int_equal(sky_peer_tier_open(url, &env, &tier, NULL), SKY_OK);
    sky__peer_patience_of_new = before;
    sky_batch batch = sky_fixture_submit(tier, SKY_OP_GET, &item, 1, NULL);
    sky_status status = SKY_E_DEADLINE, looked = SKY_OK;
    sky_time began = sky_now(), until = began + PATIENCE;
    while (status == SKY_E_DEADLINE && sky_now() < until) {
        if (looked == SKY_OK)
            looked = sky_fixture_one(tier, SKY_OP_HAS, sky_fixture_key(2));
        status = sky_tier_wait(tier, batch, sky_now() + SKY_MS(5));
    }
    assert_int_equal(status, SKY_OK);
    assert_int_not_equal(item.status, SKY_OK);
    assert_true(sky_now() - began >= 4 * SKY_MS(200)); /* not at once */
    tier->ops->close(tier);
    sky_thread_join(&host.thread);
    unlink(path);
}

static int start_listening(void **state) {
    sky_peer_carrier by;
    sky_address at, bound;
    (void)state;
    if (sky_peer_carrier_parse(sky_peer_fixture_carrier(), &by, NULL) != SKY_OK ||
        sky_address_parse("127.0.0.1:0", &at, NULL) != SKY_OK ||
        by.transport->listen(by.provider, &at, &host.listener, &bound, NULL) != SKY_OK)
        return 1;
    sky_address_text(&bound, host.address);
    return 0;
}

static int stop_listening(void **state) {
    (void)state;
    host.listener.transport->close(&host.listener);
    return 0;
}

static int run_over(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_end_and_go_on),
                                       cmocka_unit_test(a_damaged_listing_is_none),
                                       cmocka_unit_test(a_get_that_is_never_answered_ends)};
    return cmocka_run_group_tests(tests, start_listening, stop_listening);
}

int main(void) {
    int failed = run_over();
    return failed + (sky_peer_fixture_carry("fabric:tcp") ? run_over() : 0);
}
