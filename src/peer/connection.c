/* One connection of another host: greeting, its loop. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "io/local.h"
#include "io/secret.h"
#include "peer/server.h"

/* ---- greeting ---- */

/* Errors: SKY_E_CANCELLED (it is to end); others: it is none of ours */
static sky_status greet_client(sky__peer_connection *c, sky_time until, sky_peer_secrets *secrets) {
    const sky_peer_server *s = c->server;
    const sky_peer_rules rules = {s->keys, s->key_count, s->plain};
    uint8_t hello[SKY_PEER_HELLO_BYTES], answer[SKY_PEER_HELLO_BYTES], chance[32];
    sky_status status = sky_peer_exchange(&c->socket, false, hello, sizeof hello, until, c->stop);
    if (status != SKY_OK)
        return status;
    sky_random(chance, sizeof chance);
    sky_status verdict = sky_peer_hello_answer(hello, &rules, chance, answer, secrets);
    explicit_bzero(chance, sizeof chance);
    status = sky_peer_exchange(&c->socket, true, answer, sizeof answer, until, c->stop);
    return verdict != SKY_OK ? verdict : status;
}

static sky_status open_link(sky__peer_connection *c, sky_time until) {
    sky_peer_secrets secrets = {0};
    sky_status status = greet_client(c, until, &secrets);
    if (status == SKY_OK)
        status = sky_peer_link_create(&c->socket, false, &secrets, &c->link);
    explicit_bzero(&secrets, sizeof secrets);
    if (status != SKY_OK)
        c->socket.transport->close(&c->socket);
    if (status == SKY_OK)
        status = sky_event_create(&c->event);
    if (status == SKY_OK)
        status = sky_local_watch_create(&c->watch);
    c->frame = status == SKY_OK ? malloc(sizeof *c->frame) : NULL;
    return status == SKY_OK && !c->frame ? SKY_E_NOMEM : status;
}

/* ---- what comes ---- */

static sky_status take_ready(sky__peer_connection *c) {
    sky_peer_frame *f = c->frame;
    if (f->kind != SKY_PEER_READY) {
        c->why = "it does not begin as clients do";
        return SKY_E_CORRUPT;
    }
    c->ready = true;
    sky__peer_note_greeted(c);
    f->kind = SKY_PEER_WELCOME;
    f->id = f->count = 0;
    f->payload_bytes_max = c->server->payload_bytes_max;
    f->connection = c->number;
    return sky_peer_link_send(c->link, f) ? SKY_OK : SKY_E_IO;
}

static sky_status take_frame(void *self, const uint8_t *data, size_t bytes) {
    sky__peer_connection *c = self;
    if (sky_peer_decode(data, bytes, c->frame) != SKY_OK) {
        c->why = "it sends no frame";
        return SKY_E_CORRUPT;
    }
    if (!c->ready)
        return take_ready(c);
    switch (c->frame->kind) {
    case SKY_PEER_RUN:
        return sky__peer_take_run(c);
    case SKY_PEER_CANCEL:
        sky__peer_take_cancel(c);
        return SKY_OK;
    case SKY_PEER_ASK:
        return sky__peer_take_ask(c);
    default:
        c->why = "it sends what a host sends";
        return SKY_E_CORRUPT;
    }
}

static uint64_t bytes_expected(void *self) {
    return sky__peer_coming(self);
}

static uint32_t place_bytes(void *self, size_t bytes, sky_span *spans) {
    return sky__peer_coming_place(self, bytes, spans);
}

static void bytes_placed(void *self, size_t bytes) {
    sky__peer_coming_placed(self, bytes);
}

static sky_status take_piece(void *self, size_t bytes, const sky_peer_sum *sum) {
    return sky__peer_take_coming(self, bytes, sum);
}

/* ---- the loop ---- */

/* Answer until the kernel takes no more. Errors: SKY_E_BUSY (it takes no more), SKY_E_IO */
static sky_status send_all(sky__peer_connection *c) {
    do {
        sky_status status = sky_peer_link_flush(c->link); /* it makes room */
        if (status != SKY_OK)
            return status;
        sky__peer_note_flushed(c);
    } while (sky__peer_answer(c));
    return SKY_OK;
}

/* SKY_MISS: nothing to do now. */
static sky_status receive_records(sky__peer_connection *c) {
    const sky_peer_sink sink = {.self = c,
                                .expected = bytes_expected,
                                .frame = take_frame,
                                .place = place_bytes,
                                .placed = bytes_placed,
                                .piece = take_piece};
    if (!sky__peer_find_room(c))
        return SKY_MISS;
    sky_status status = sky_peer_link_receive(c->link, &sink);
    if (status == SKY_E_CORRUPT && !c->why)
        c->why = "what it sends is damaged, or sealed by another";
    return status == SKY_E_BUSY ? SKY_MISS : status;
}

/* Until when one direction may go on without a byte: midway, its bytes are due. */
static sky_time stuck_at(const sky__peer_connection *c, sky__peer_way *way, uint64_t bytes,
                         bool midway, sky_time now) {
    if (bytes != way->bytes)
        way->moved_at = now;
    if (bytes != way->bytes || !midway)
        way->free_at = now;
    way->bytes = bytes;
    return midway ? way->free_at + c->server->stuck_ns : SKY_TIME_NEVER;
}

/* Until when it may go on as it does; sets c->why when that is over. A client that waits for room
 * sends nothing, but is to read its answers all the same. */
static sky_time patience_until(sky__peer_connection *c, sky_time greet_by) {
    sky_time now = sky_now(), whole_by = sky__peer_coming_by(c);
    sky_peer_progress in = sky_peer_link_received(c->link), out = sky_peer_link_sent(c->link);
    bool in_is_due = (c->coming || in.midway) && !c->waits_for_room;
    sky_time until = c->ready ? SKY_TIME_NEVER : greet_by;
    until = sky__sooner(until, stuck_at(c, &c->in, in.bytes, in_is_due, now));
    until = sky__sooner(until, stuck_at(c, &c->out, out.bytes, out.midway, now));
    if (now >= until)
        c->why = c->ready ? "it stopped in the middle" : "it has not shown that it has the key";
    else if (now >= whole_by)
        c->why = "it puts too slowly while others wait for the room";
    return sky__sooner(until, whole_by);
}

static bool has_nothing_to_do(const sky__peer_connection *c) {
    return c->ready && c->run_count == 0 && !c->coming && !c->stalled && !c->asked && !c->text &&
           !sky_peer_link_received(c->link).midway && !sky_peer_link_sent(c->link).midway &&
           sky_now() >= c->announced_until;
}

/* False: the client has gone, which nothing else would tell of while nothing is read or sent. */
static bool wait_for_client(sky__peer_connection *c, bool writes, sky_time until) {
    const bool none[] = {false, false, false};
    const int fds[] = {c->event, c->watch, c->stop};
    const sky_peer_socket *s = sky_peer_link_socket(c->link);
    bool ready[3], reads = !c->waits_for_room;
    sky_status armed = s->transport->arm(s, &reads, &writes);
    if (armed != SKY_OK)
        return armed == SKY_E_BUSY;
    if (!c->watched || reads != c->watched_reads || writes != c->watched_writes)
        sky_local_watch(c->watch, s->fd, reads, writes);
    c->watched = true;
    c->watched_reads = reads;
    c->watched_writes = writes;
    until = sky__sooner(until, sky__peer_next_deadline(c));
    if (c->waits_for_room || c->waits_to_list)
        until = sky__sooner(until, sky_now() + SKY__PEER_AGAIN_NS);
    atomic_store(&c->idle_since, has_nothing_to_do(c) ? sky__later(c->in.moved_at, c->out.moved_at)
                                                      : SKY_TIME_NEVER);
    sky_local_poll(fds, none, ready, 3, until);
    atomic_store(&c->idle_since, SKY_TIME_NEVER);
    return true;
}

static bool is_raised(int event) {
    return sky_poll(&event, 1, 0) != 0;
}

sky_status sky__peer_step(sky__peer_connection *c, bool *unsent) {
    sky_event_clear(c->event);
    sky__peer_collect(c);
    sky_status got = receive_records(c);
    if (got != SKY_OK && got != SKY_MISS)
        return got;
    sky_status sent = send_all(c);
    *unsent = sent == SKY_E_BUSY;
    return sent == SKY_E_IO ? SKY_E_IO : got;
}

static void serve_client(sky__peer_connection *c, sky_time greet_by) {
    bool unsent;
    c->in.moved_at = c->in.free_at = c->out.free_at = sky_now();
    while (!is_raised(c->stop)) {
        sky_status status = sky__peer_step(c, &unsent);
        if (status != SKY_OK && status != SKY_MISS)
            return;
        sky_time until = patience_until(c, greet_by);
        if (c->why)
            return;
        if (status == SKY_MISS && !wait_for_client(c, unsent, until))
            return;
    }
}

static const char *refusal_text(sky_status status) {
    if (status == SKY_E_DENIED)
        return "it has another key, or none";
    if (status == SKY_E_UNSUPPORTED)
        return "it is of another version, or of a cipher that is not here";
    if (status == SKY_E_CANCELLED)
        return "others came, and it had not shown that it has the key";
    return sky_status_text(status);
}

void *sky__peer_connection_body(void *argument) {
    sky__peer_connection *c = argument;
    sky_time greet_by = sky_now() + c->server->hello_ns;
    sky_status status = open_link(c, greet_by);
    if (status == SKY_OK)
        serve_client(c, greet_by);
    sky__peer_runs_end(c);
    sky__peer_questions_end(c);
    bool denied = !c->ready && !is_raised(c->server->stop);
    if (is_raised(c->stop))
        status = SKY_E_CANCELLED;
    sky_peer_link_destroy(c->link);
    sky_local_close(c->watch);
    sky_event_close(c->event);
    free(c->frame);
    if (denied && !c->why)
        c->why = refusal_text(status);
    sky__peer_note_end(c, denied, c->why);
    return NULL;
}
