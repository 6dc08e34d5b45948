/* One connection: its thread, connecting, questions. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/clock.h"
#include "io/local.h"
#include "io/secret.h"
#include "tier/peer/peer_state.h"

/* ---- what comes ---- */

static bool is_first(const sky__peer_lane *l) {
    return l == l->host->lanes; /* which alone is asked */
}

static sky_status take_told(sky__peer_lane *l) {
    sky__peer *p = l->peer;
    const sky_peer_frame *f = &l->frame;
    sky_status status = SKY_OK;
    sky_mutex_lock(&p->mutex);
    l->asks = false;
    sky__peer_asked *q = l->host->asked;
    if (!is_first(l) || !q || !q->sent || q->answered || q->text || q->id != f->id ||
        q->what != f->question) {
        status = f->text_bytes > 0 ? SKY_E_CORRUPT : SKY_OK; /* nobody waits any more */
    } else {
        q->status = f->told;
        memcpy(q->numbers, f->numbers, sizeof q->numbers);
        q->text = f->text_bytes > 0 ? malloc(f->text_bytes) : NULL;
        q->text_bytes = f->text_bytes;
        if (f->text_bytes > 0 && !q->text)
            status = SKY_E_NOMEM;
        q->answered = f->text_bytes == 0;
    }
    sky_condition_broadcast(&p->changed);
    sky_mutex_unlock(&p->mutex);
    return status;
}

/* The question of which a listing is coming. Who asked waits for all of it. */
static sky__peer_asked *listed_question(const sky__peer_lane *l) {
    if (l->reading.flight || !is_first(l))
        return NULL;
    sky_mutex_lock(&l->peer->mutex);
    sky__peer_asked *q = l->host->asked;
    bool comes = q && q->text && !q->answered;
    sky_mutex_unlock(&l->peer->mutex);
    return comes ? q : NULL;
}

static sky_status take_frame(void *self, const uint8_t *data, size_t bytes) {
    sky__peer_lane *l = self;
    sky_status status = sky_peer_decode(data, bytes, &l->frame);
    if (status != SKY_OK)
        return status;
    if (!l->welcomed) {
        l->welcomed = l->frame.kind == SKY_PEER_WELCOME;
        atomic_store(&l->host->payload_bytes_max, l->frame.payload_bytes_max);
        return l->welcomed ? SKY_OK : SKY_E_CORRUPT;
    }
    if (l->frame.kind == SKY_PEER_DONE)
        return sky__peer_take_done(l);
    return l->frame.kind == SKY_PEER_TOLD ? take_told(l) : SKY_E_CORRUPT;
}

static uint64_t bytes_expected(void *self) {
    const sky__peer_lane *l = self;
    const sky__peer_asked *q = listed_question(l);
    return q ? q->text_bytes - q->text_got : sky__peer_expected(l);
}

static uint32_t place_piece(void *self, size_t bytes, sky_span *spans) {
    sky__peer_lane *l = self;
    const sky__peer_asked *q = listed_question(l);
    if (!q)
        return sky__peer_place(l, bytes, spans);
    spans[0] = (sky_span){q->text + q->text_got, bytes};
    return 1;
}

static void piece_placed(void *self, size_t bytes) {
    sky__peer_lane *l = self;
    sky__peer_asked *q = listed_question(l);
    if (q)
        q->text_got += bytes;
    else
        sky__peer_placed(l, bytes);
}

static sky_status take_piece(void *self, size_t bytes, const sky_peer_sum *sum) {
    sky__peer_lane *l = self;
    sky__peer_asked *q = listed_question(l);
    if (!q)
        return sky__peer_take_piece(l, bytes, sum);
    if (bytes > 0 && q->text_got == q->text_bytes) {
        sky_mutex_lock(&l->peer->mutex);
        q->answered = true;
        if (sum && !sum->right) {
            q->status = SKY_E_CORRUPT;
            q->text_got = 0; /* nobody reads it */
        }
        sky_condition_broadcast(&l->peer->changed);
        sky_mutex_unlock(&l->peer->mutex);
    }
    return bytes > 0 ? SKY_OK : SKY_E_CORRUPT;
}

static sky_peer_sink sink_of(sky__peer_lane *l) {
    return (sky_peer_sink){.self = l,
                           .expected = bytes_expected,
                           .frame = take_frame,
                           .place = place_piece,
                           .placed = piece_placed,
                           .piece = take_piece};
}

/* ---- connecting ---- */

static sky_status handshake_lane(const sky__peer_host *h, const sky_peer_socket *s, sky_time until,
                                 sky_peer_secrets *secrets) {
    sky_peer_hello hello;
    uint8_t chance[32], answer[SKY_PEER_HELLO_BYTES];
    sky_random(chance, sizeof chance);
    sky_peer_hello_make(&hello, h->suite, h->key, chance);
    explicit_bzero(chance, sizeof chance);
    sky_status status = sky_peer_exchange(s, true, hello.hello, sizeof hello.hello, until,
                                          h->peer->stop);
    if (status == SKY_OK)
        status = sky_peer_exchange(s, false, answer, sizeof answer, until, h->peer->stop);
    if (status == SKY_OK)
        status = sky_peer_hello_end(&hello, answer, secrets);
    explicit_bzero(&hello, sizeof hello);
    return status;
}

/* The first frames: that the host answers them shows that it has the keys. */
static sky_status be_welcomed(sky__peer_lane *l, sky_time until) {
    const sky_peer_sink sink = sink_of(l);
    l->frame.kind = SKY_PEER_READY;
    l->frame.id = l->frame.count = 0;
    l->welcomed = l->asks = false;
    (void)sky_peer_link_send(l->link, &l->frame); /* there is room for the first */
    sky_status status = sky_peer_link_flush(l->link);
    while (status == SKY_OK && !l->welcomed) {
        status = sky_peer_socket_wait(sky_peer_link_socket(l->link), true, false, l->peer->stop,
                                      until);
        if (status == SKY_E_CANCELLED)
            break;
        status = sky_now() < until ? sky_peer_link_receive(l->link, &sink) : SKY_E_DEADLINE;
        status = status == SKY_MISS ? SKY_OK : status;
    }
    return status;
}

/* To that of the host's addresses which answers. Each but the last of them may take its share of
 * the time alone, as nothing may come back from one that is far or filtered. */
static sky_status reach_host(sky__peer_host *h, sky_time until, sky_peer_socket *out) {
    const sky__peer *p = h->peer;
    const uint32_t count = h->addresses.count, first = atomic_load(&h->answers);
    sky_status status = SKY_MISS;
    for (uint32_t i = 0; i < count && status != SKY_OK && status != SKY_E_CANCELLED; i++) {
        const uint32_t at = (first + i) % count;
        const sky_time now = sky_now(), share = (until - now) / (sky_time)(count - i);
        status = p->by.transport->connect(p->by.provider, &h->addresses.at[at], now + share,
                                          p->stop, out);
        if (status == SKY_OK)
            atomic_store(&h->answers, at);
    }
    return status;
}

sky_status sky__peer_lane_connect(sky__peer_lane *l, sky_time until) {
    sky_peer_secrets secrets = {0};
    sky_peer_socket socket = SKY_PEER_SOCKET_NONE;
    sky_status status = reach_host(l->host, until, &socket);
    if (status != SKY_OK)
        return status;
    sky_time began = sky_now();
    status = handshake_lane(l->host, &socket, until, &secrets);
    if (status == SKY_OK)
        sky__peer_note_round_trip(l, sky_now() - began);
    if (status == SKY_OK)
        status = sky_peer_link_create(&socket, true, &secrets, &l->link);
    explicit_bzero(&secrets, sizeof secrets);
    if (status != SKY_OK) {
        socket.transport->close(&socket);
        return status;
    }
    status = be_welcomed(l, until);
    if (status != SKY_OK) {
        sky_peer_link_destroy(l->link);
        l->link = NULL;
        return status;
    }
    l->watched_reads = l->watched_writes = false;
    return SKY_OK;
}

/* ---- the thread ---- */

/* What waits for an answer that will not come. */
static void fail_question(sky__peer_lane *l, sky_status status) {
    sky__peer *p = l->peer;
    sky_mutex_lock(&p->mutex);
    sky__peer_asked *q = is_first(l) ? l->host->asked : NULL;
    if (q && !q->answered) {
        q->answered = true;
        q->status = status;
        sky_condition_broadcast(&p->changed);
    }
    sky_mutex_unlock(&p->mutex);
}

static void end_link(sky__peer_lane *l, sky_status why) {
    sky_log(SKY_LOG_WARNING, "%s: the connection ended: %s", l->host->name, sky_status_text(why));
    fail_question(l, SKY_E_IO);
    sky__peer_fail_all(l, SKY_E_IO);
    sky_local_unwatch(l->watch, sky_peer_link_socket(l->link)->fd);
    sky_peer_link_destroy(l->link);
    l->link = NULL;
}

/* Connecting ended so; of several hosts one that failed is left alone for a while. */
static void note_reached(sky__peer_lane *l, sky_status status) {
    sky__peer_host *h = l->host;
    sky_mutex_lock(&l->peer->mutex);
    h->last = status;
    h->down = status != SKY_OK && l->peer->file;
    h->retry_at = sky_now() + SKY__PEER_RETRY_NS;
    h->probing = h->probing && !is_first(l);
    sky_condition_broadcast(&l->peer->changed);
    sky_mutex_unlock(&l->peer->mutex);
}

static void try_to_connect(sky__peer_lane *l) {
    sky_status status = sky__peer_lane_connect(l, sky_now() + l->peer->patience.connect_ns);
    note_reached(l, status);
    if (status == SKY_OK)
        return;
    sky_log(SKY_LOG_INFO, "%s: %s", l->host->name, sky_status_text(status));
    fail_question(l, SKY_E_IO);
    sky__peer_fail_all(l, SKY_E_IO);
}

static bool has_question(sky__peer_lane *l) {
    sky_mutex_lock(&l->peer->mutex);
    const sky__peer_asked *q = is_first(l) ? l->host->asked : NULL;
    bool has = q && !q->sent && !q->answered && !l->asks;
    sky_mutex_unlock(&l->peer->mutex);
    return has;
}

/* True: it was written. */
static bool write_question(sky__peer_lane *l) {
    sky__peer *p = l->peer;
    bool sent = false;
    if (l->writing.flight || !has_question(l))
        return false;
    sky_mutex_lock(&p->mutex);
    sky__peer_asked *q = l->host->asked;
    if (q) { /* still: who waited may have left */
        l->frame.kind = SKY_PEER_ASK;
        l->frame.id = q->id;
        l->frame.count = 0;
        l->frame.question = q->what;
        q->sent = sent = sky_peer_link_send(l->link, &l->frame);
        l->asks |= sent;
    }
    sky_mutex_unlock(&p->mutex);
    return sent;
}

/* Write and send until the kernel takes no more. Errors: SKY_E_BUSY (it takes no more), SKY_E_IO */
static sky_status send_all(sky__peer_lane *l) {
    do {
        sky_status status = sky_peer_link_flush(l->link); /* it makes room */
        if (status != SKY_OK)
            return status;
    } while (write_question(l) || sky__peer_write(l));
    return SKY_OK;
}

/* False: there may be something to do at once. */
static bool watch_link(sky__peer_lane *l, bool writes) {
    const sky_peer_socket *s = sky_peer_link_socket(l->link);
    bool reads = true;
    if (s->transport->arm(s, &reads, &writes) != SKY_OK)
        return false;
    if (l->watched_reads != reads || l->watched_writes != writes)
        sky_local_watch(l->watch, s->fd, reads, writes);
    l->watched_reads = reads;
    l->watched_writes = writes;
    return true;
}

/* One turn of a lane that is connected. */
static void serve_lane(sky__peer_lane *l) {
    const sky_peer_sink sink = sink_of(l);
    const bool writes[] = {false, false};
    bool ready[2];
    sky_status sent = send_all(l);
    uint64_t heard = sky_peer_link_received(l->link).bytes;
    sky_status got = sent == SKY_OK || sent == SKY_E_BUSY ? sky_peer_link_receive(l->link, &sink)
                                                          : sent;
    if (sky_peer_link_received(l->link).bytes > heard)
        l->heard_at = sky_now();
    if (got == SKY_OK)
        return; /* there may be more */
    if (got != SKY_MISS) {
        end_link(l, got);
        return;
    }
    if (!watch_link(l, sent == SKY_E_BUSY))
        return;
    /* One that stands still keeps its connection, and a caller may have no deadline. */
    sky_time until = sky__peer_silent_at(l);
    if (listed_question(l))
        until = sky__sooner(until, l->heard_at + SKY__PEER_LIST_NS);
    if (sky_now() >= until) { /* and nothing of it is left to receive */
        note_reached(l, SKY_E_DEADLINE);
        end_link(l, SKY_E_DEADLINE);
        return;
    }
    const int fds[] = {l->event, l->watch};
    sky_local_poll(fds, writes, ready, 2, until);
}

/* A host that was down is to be sought. */
static bool is_probed(sky__peer_lane *l) {
    sky_mutex_lock(&l->peer->mutex);
    bool probed = is_first(l) && l->host->probing;
    sky_mutex_unlock(&l->peer->mutex);
    return probed;
}

static bool is_closing(sky__peer_lane *l) {
    sky_mutex_lock(&l->peer->mutex);
    bool over = l->peer->closing;
    sky_mutex_unlock(&l->peer->mutex);
    return over;
}

void *sky__peer_lane_body(void *argument) {
    sky__peer_lane *l = argument;
    while (!is_closing(l)) {
        sky_event_clear(l->event);
        if (l->link && is_probed(l))
            note_reached(l, SKY_OK); /* another of its lanes could not */
        if (l->link)
            serve_lane(l);
        else if (sky__peer_has_to_write(l) || has_question(l) || is_probed(l))
            try_to_connect(l);
        else
            sky_poll(&l->event, 1, SKY_TIME_NEVER);
    }
    sky__peer_fail_all(l, SKY_E_CANCELLED);
    return NULL;
}
