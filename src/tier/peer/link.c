#include "tier/peer/link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "io/secret.h"

#define OUT_BYTES (512u << 10)
#define IN_BYTES  (64u << 10)
#define LENT_BYTES_MIN                                                                             \
    (16u << 10) /* what is smaller is copied, so that more of it is sent at once */
#define RECORDS_AT_ONCE 64

_Static_assert(SKY_PEER_PIECE_BYTES_MAX <= SKY_PEER_FRAME_BYTES_MAX, "either fits into content");
_Static_assert(SKY_PEER_FRAME_BYTES_MAX + SKY_PEER_RECORD_HEAD_BYTES <= OUT_BYTES, "as above");

/* The record that is coming. */
typedef struct {
    bool begun, piece;
    bool more; /* of the same payload behind it */
    size_t length, got;
    uint8_t tag[SKY_TAG_BYTES];
    sky_checksum_state sum; /* of what came of the payload, in plain */
} incoming;

struct sky_peer_link {
    sky_peer_socket socket;
    sky_suite suite;
    sky_aead *aead;          /* NULL: plain */
    uint8_t *keys;           /* ours, then the other end's */
    uint64_t sent, received; /* records */
    uint64_t sent_bytes, received_bytes;

    uint8_t *out; /* records; then the lent content of the last */
    size_t out_at, out_bytes;
    const uint8_t *lent;
    size_t lent_bytes;
    bool behind;            /* the kernel did not take all of what was passed */
    sky_checksum_state sum; /* of what was sent of a payload, in plain */

    uint8_t *in;
    size_t in_at, in_bytes;
    incoming record;
    uint8_t *content; /* of a frame, or of what is sealed; in plain what nobody wants */
};

/* ---- tags ---- */

static void plain_tag(uint64_t sum, uint8_t tag[SKY_TAG_BYTES]) {
    memset(tag, 0, SKY_TAG_BYTES);
    sky_store_u64(tag, sum);
}

static void nonce_of(uint64_t number, uint8_t nonce[SKY_NONCE_BYTES]) {
    memset(nonce, 0, SKY_NONCE_BYTES);
    sky_store_u64(nonce + 4, number);
}

/* Write the head of a frame, or of a piece that is sealed; the content goes from src to dst, which
 * may be the same. In plain it stays where it is. */
static void seal_record(sky_peer_link *l, uint8_t *head, const uint8_t *src, uint8_t *dst,
                        size_t bytes) {
    uint8_t nonce[SKY_NONCE_BYTES];
    uint64_t number = l->sent++;
    sky_store_u32(head, (uint32_t)bytes);
    if (!l->aead) {
        plain_tag(sky_checksum(src, bytes, number), head + 4);
        return;
    }
    nonce_of(number, nonce);
    const sky_aead_input x = {.key = l->keys, .nonce = nonce, .aad = head, .aad_bytes = 4};
    sky_aead_seal(l->aead, l->suite, &x, src, dst, bytes, head + 4);
}

/* The content of a frame came, or of a piece that is sealed; is it what was sent? */
static bool open_record(sky_peer_link *l) {
    incoming *r = &l->record;
    uint8_t nonce[SKY_NONCE_BYTES], length[4], tag[SKY_TAG_BYTES];
    uint64_t number = l->received++;
    if (!l->aead) {
        plain_tag(sky_checksum(l->content, r->length, number), tag);
        return memcmp(tag, r->tag, sizeof tag) == 0;
    }
    nonce_of(number, nonce);
    sky_store_u32(length, (uint32_t)r->length);
    const sky_aead_input x = {
        .key = l->keys + SKY_SECRET_BYTES, .nonce = nonce, .aad = length, .aad_bytes = 4};
    return sky_aead_open(l->aead, l->suite, &x, l->content, r->length, r->tag);
}

/* The head of a piece in plain: length and sum, and what shows that they are as they were sent. */
static uint64_t piece_check(const uint8_t *head, uint64_t number) {
    return sky_checksum(head, 12, number);
}

static void write_piece_head(sky_peer_link *l, size_t bytes, uint64_t sum) {
    uint8_t *head = l->out + l->out_bytes;
    sky_store_u32(head, (uint32_t)bytes);
    sky_store_u64(head + 4, sum);
    sky_store_u64(head + 12, piece_check(head, l->sent++));
    l->out_bytes += SKY_PEER_RECORD_HEAD_BYTES;
}

static void add_sum(sky_checksum_state *sum, const sky_span *spans, size_t bytes) {
    for (uint32_t i = 0; bytes > 0; i++) {
        size_t now = spans[i].bytes < bytes ? spans[i].bytes : bytes;
        sky_checksum_add(sum, spans[i].data, now);
        bytes -= now;
    }
}

/* A piece is sent: the sum that its head has. */
static uint64_t sum_part(sky_peer_link *l, const sky_peer_part *part, const sky_span *spans,
                         size_t bytes) {
    if (part->sum)
        return part->last ? *part->sum : 0;
    if (part->first)
        sky_checksum_init(&l->sum, 0);
    add_sum(&l->sum, spans, bytes);
    return part->last ? sky_checksum_end(&l->sum) : 0;
}

/* ---- create, destroy ---- */

sky_status sky_peer_link_create(sky_peer_socket *taken, bool client,
                                const sky_peer_secrets *secrets, sky_peer_link **out) {
    sky_peer_link *l = calloc(1, sizeof *l);
    if (!l)
        return SKY_E_NOMEM;
    l->socket = SKY_PEER_SOCKET_NONE;
    l->suite = secrets->suite;
    l->out = malloc(OUT_BYTES);
    l->in = malloc(IN_BYTES);
    l->content = malloc(SKY_PEER_FRAME_BYTES_MAX);
    l->keys = sky_secret_alloc(2 * SKY_SECRET_BYTES);
    sky_status status = l->out && l->in && l->content && l->keys ? SKY_OK : SKY_E_NOMEM;
    if (status == SKY_OK && l->suite != SKY_SUITE_PLAIN)
        status = sky_aead_create(&l->aead, NULL);
    if (status != SKY_OK) {
        sky_peer_link_destroy(l);
        return status;
    }
    const uint8_t *ours = client ? secrets->client_key : secrets->host_key;
    const uint8_t *theirs = client ? secrets->host_key : secrets->client_key;
    memcpy(l->keys, ours, SKY_SECRET_BYTES);
    memcpy(l->keys + SKY_SECRET_BYTES, theirs, SKY_SECRET_BYTES);
    l->socket = *taken;
    *taken = SKY_PEER_SOCKET_NONE;
    *out = l;
    return SKY_OK;
}

void sky_peer_link_destroy(sky_peer_link *l) {
    if (!l)
        return;
    if (l->socket.transport)
        l->socket.transport->close(&l->socket);
    sky_aead_destroy(l->aead);
    sky_secret_free(l->keys);
    free(l->out);
    free(l->in);
    free(l->content);
    free(l);
}

const sky_peer_socket *sky_peer_link_socket(const sky_peer_link *l) {
    return &l->socket;
}

bool sky_peer_link_is_plain(const sky_peer_link *l) {
    return !l->aead;
}

sky_peer_progress sky_peer_link_received(const sky_peer_link *l) {
    return (sky_peer_progress){l->received_bytes, l->record.begun || l->in_bytes > l->in_at};
}

sky_peer_progress sky_peer_link_sent(const sky_peer_link *l) {
    return (sky_peer_progress){l->sent_bytes, l->out_bytes > 0};
}

/* ---- sending ---- */

uint8_t *sky_peer_link_begin(sky_peer_link *l, size_t bytes) {
    bool fits = !l->lent && SKY_PEER_RECORD_HEAD_BYTES + bytes <= OUT_BYTES - l->out_bytes;
    return fits ? l->out + l->out_bytes + SKY_PEER_RECORD_HEAD_BYTES : NULL;
}

void sky_peer_link_end(sky_peer_link *l, size_t bytes) {
    uint8_t *head = l->out + l->out_bytes, *content = head + SKY_PEER_RECORD_HEAD_BYTES;
    seal_record(l, head, content, content, bytes);
    l->out_bytes += SKY_PEER_RECORD_HEAD_BYTES + bytes;
}

bool sky_peer_link_send(sky_peer_link *l, const sky_peer_frame *frame) {
    uint8_t *content = sky_peer_link_begin(l, SKY_PEER_FRAME_BYTES_MAX);
    if (!content)
        return false;
    sky_peer_link_end(l, sky_peer_encode(frame, content));
    return true;
}

bool sky_peer_link_lend(sky_peer_link *l, const uint8_t *data, size_t bytes,
                        const sky_peer_part *part) {
    uint8_t *content = sky_peer_link_begin(l, bytes);
    assert(bytes <= SKY_PEER_PIECE_BYTES_MAX);
    if (!content)
        return false;
    if (l->aead) {
        seal_record(l, l->out + l->out_bytes, data, content, bytes);
        l->out_bytes += SKY_PEER_RECORD_HEAD_BYTES + bytes;
        return true;
    }
    const sky_span span = {(void *)data, bytes};
    write_piece_head(l, bytes, sum_part(l, part, &span, bytes));
    if (bytes < LENT_BYTES_MIN) {
        memcpy(content, data, bytes);
        l->out_bytes += bytes;
        return true;
    }
    l->lent = data;
    l->lent_bytes = bytes;
    return true;
}

/* Copy what the spans hold from `at` on. */
static void gather_spans(const sky_span *spans, uint32_t span_count, size_t at, uint8_t *to) {
    for (uint32_t i = 0; i < span_count; i++) {
        size_t skipped = at < spans[i].bytes ? at : spans[i].bytes;
        memcpy(to, (const uint8_t *)spans[i].data + skipped, spans[i].bytes - skipped);
        to += spans[i].bytes - skipped;
        at -= skipped;
    }
}

/* Send what waits and the spans, as far as the kernel takes them now; how much of the spans went. A
 * connection that is gone shows at the next flush. */
static size_t send_through(sky_peer_link *l, const sky_span *spans, uint32_t span_count) {
    sky_span all[SKY_PEER_SPANS_MAX] = {{l->out + l->out_at, l->out_bytes - l->out_at}};
    size_t sent = 0;
    memcpy(all + 1, spans, span_count * sizeof *spans);
    if (l->socket.transport->send(&l->socket, all, span_count + 1, &sent) != SKY_OK)
        return 0;
    l->sent_bytes += sent;
    size_t of_first = sent < all->bytes ? sent : all->bytes;
    l->out_at += of_first;
    return sent - of_first;
}

static void pass_plain(sky_peer_link *l, const sky_span *spans, uint32_t span_count, size_t bytes,
                       const sky_peer_part *part) {
    write_piece_head(l, bytes, sum_part(l, part, spans, bytes));
    size_t went = bytes < LENT_BYTES_MIN ? 0 : send_through(l, spans, span_count);
    gather_spans(spans, span_count, went, l->out + l->out_bytes);
    l->out_bytes += bytes - went;
    l->behind = bytes >= LENT_BYTES_MIN && went < bytes;
    if (went == bytes)
        l->out_at = l->out_bytes = 0;
}

bool sky_peer_link_pass(sky_peer_link *l, const sky_span *spans, uint32_t span_count, size_t bytes,
                        const sky_peer_part *part) {
    uint8_t *content = l->behind ? NULL : sky_peer_link_begin(l, bytes);
    assert(bytes <= SKY_PEER_PIECE_BYTES_MAX && span_count < SKY_PEER_SPANS_MAX);
    if (!content)
        return false;
    if (!l->aead) {
        pass_plain(l, spans, span_count, bytes, part);
        return true;
    }
    if (span_count != 1)
        gather_spans(spans, span_count, 0, content);
    seal_record(l, l->out + l->out_bytes, span_count == 1 ? spans->data : content, content, bytes);
    l->out_bytes += SKY_PEER_RECORD_HEAD_BYTES + bytes;
    return true;
}

bool sky_peer_link_give_up(sky_peer_link *l) {
    if (!sky_peer_link_begin(l, 0))
        return false;
    if (l->aead)
        sky_peer_link_end(l, 0);
    else
        write_piece_head(l, 0, 0);
    return true;
}

sky_status sky_peer_link_flush(sky_peer_link *l) {
    while (l->out_at < l->out_bytes || l->lent) {
        size_t sent, first = l->out_bytes - l->out_at;
        const sky_span spans[] = {{l->out + l->out_at, first}, {(void *)l->lent, l->lent_bytes}};
        sky_status status = l->socket.transport->send(&l->socket, spans, l->lent ? 2 : 1, &sent);
        if (status != SKY_OK)
            return status;
        l->sent_bytes += sent;
        size_t of_first = sent < first ? sent : first;
        l->out_at += of_first;
        l->lent_bytes -= sent - of_first;
        if (l->lent && l->lent_bytes > 0)
            l->lent += sent - of_first;
        else
            l->lent = NULL;
    }
    l->out_at = l->out_bytes = 0;
    l->behind = false;
    return SKY_OK;
}

/* ---- receiving ---- */

static size_t in_waiting(const sky_peer_link *l) {
    return l->in_bytes - l->in_at;
}

static void take_in(sky_peer_link *l, void *to, size_t bytes) {
    memcpy(to, l->in + l->in_at, bytes);
    l->in_at += bytes;
}

static sky_status receive_spans(sky_peer_link *l, const sky_span *spans, uint32_t count,
                                size_t *got) {
    sky_status status = l->socket.transport->receive(&l->socket, spans, count, got);
    l->received_bytes += status == SKY_OK ? *got : 0;
    return status;
}

/* Receive more behind what waits. */
static sky_status fill_buffer(sky_peer_link *l) {
    size_t waiting = in_waiting(l), got;
    memmove(l->in, l->in + l->in_at, waiting);
    l->in_at = 0;
    l->in_bytes = waiting;
    const sky_span room = {l->in + waiting, IN_BYTES - waiting};
    sky_status status = receive_spans(l, &room, 1, &got);
    if (status == SKY_OK)
        l->in_bytes += got;
    return status;
}

/* The sum of a payload is in the head of its last piece; other heads have zeros there. */
static bool is_piece_head(const incoming *r, const uint8_t *head, uint64_t number) {
    bool last = !r->more && r->length > 0;
    return sky_load_u64(head + 12) == piece_check(head, number) &&
           (last || sky_load_u64(head + 4) == 0);
}

static sky_status begin_record(sky_peer_link *l, const sky_peer_sink *sink) {
    incoming *r = &l->record;
    uint8_t head[SKY_PEER_RECORD_HEAD_BYTES];
    uint64_t expected = sink->expected(sink->self);
    bool goes_on = r->more;
    take_in(l, head, sizeof head);
    r->begun = true;
    r->piece = expected > 0;
    r->length = sky_load_u32(head);
    r->got = 0;
    memcpy(r->tag, head + 4, sizeof r->tag);
    r->more = r->piece && r->length > 0 && expected > r->length;
    if (!r->piece)
        return r->length >= 1 && r->length <= SKY_PEER_FRAME_BYTES_MAX ? SKY_OK : SKY_E_CORRUPT;
    if (!l->aead && !is_piece_head(r, head, l->received))
        return SKY_E_CORRUPT;
    if (!l->aead && !goes_on)
        sky_checksum_init(&r->sum, 0);
    return r->length <= SKY_PEER_PIECE_BYTES_MAX && r->length <= expected ? SKY_OK : SKY_E_CORRUPT;
}

/* How much of what is behind a record may come with it. */
static size_t spill_bytes(const incoming *r) {
    return r->more ? SKY_PEER_RECORD_HEAD_BYTES : IN_BYTES;
}

/* More of what is joined in `content`. */
static sky_status join_some(sky_peer_link *l) {
    incoming *r = &l->record;
    size_t missing = r->length - r->got, waiting = in_waiting(l), got;
    size_t now = waiting < missing ? waiting : missing;
    take_in(l, l->content + r->got, now);
    r->got += now;
    missing -= now;
    if (missing == 0)
        return SKY_OK;
    l->in_at = l->in_bytes = 0;
    const sky_span room[] = {{l->content + r->got, missing}, {l->in, spill_bytes(r)}};
    sky_status status = receive_spans(l, room, 2, &got);
    if (status != SKY_OK)
        return status;
    r->got += got < missing ? got : missing;
    l->in_bytes = got < missing ? 0 : got - missing;
    return SKY_OK;
}

/* Where the next bytes of a piece go, by the sink; what nobody wants goes to `content`, where each
 * byte of a record has its place. Returns how many. */
static size_t place_piece(sky_peer_link *l, const sky_peer_sink *sink, size_t bytes,
                          sky_span *spans, uint32_t *count) {
    size_t placed = 0;
    *count = sink->place(sink->self, bytes, spans);
    assert(*count >= 1 && *count < SKY_PEER_SPANS_MAX);
    for (uint32_t i = 0; i < *count; i++) {
        if (!spans[i].data)
            spans[i].data = l->content + l->record.got + placed;
        placed += spans[i].bytes;
    }
    assert(placed >= 1 && placed <= bytes);
    return placed;
}

static void scatter_spans(const sky_span *spans, uint32_t count, const uint8_t *data) {
    for (uint32_t i = 0; i < count; i++) {
        memmove(spans[i].data, data, spans[i].bytes); /* it may be thrown away where it lies */
        data += spans[i].bytes;
    }
}

/* More of a piece in plain, which goes at once where it belongs. */
static sky_status stream_some(sky_peer_link *l, const sky_peer_sink *sink) {
    incoming *r = &l->record;
    sky_span spans[SKY_PEER_SPANS_MAX];
    uint32_t count;
    size_t missing = r->length - r->got, waiting = in_waiting(l), got = 0;
    sky_status status = SKY_OK;
    size_t room = place_piece(l, sink, waiting > 0 && waiting < missing ? waiting : missing, spans,
                              &count);
    if (waiting > 0) {
        got = room;
        scatter_spans(spans, count, l->in + l->in_at);
        l->in_at += got;
    } else {
        l->in_at = l->in_bytes = 0;
        spans[count] = (sky_span){l->in, spill_bytes(r)};
        status = receive_spans(l, spans, count + (room == missing), &got);
        if (status == SKY_OK && got > room) {
            l->in_bytes = got - room;
            got = room;
        }
    }
    if (status == SKY_OK) {
        add_sum(&r->sum, spans, got);
        r->got += got;
    }
    sink->placed(sink->self, status == SKY_OK ? got : 0);
    return status;
}

/* What was sealed, and is good, goes where it belongs. */
static void place_content(sky_peer_link *l, const sky_peer_sink *sink) {
    incoming *r = &l->record;
    sky_span spans[SKY_PEER_SPANS_MAX];
    uint32_t count;
    for (r->got = 0; r->got < r->length;) {
        size_t room = place_piece(l, sink, r->length - r->got, spans, &count);
        scatter_spans(spans, count, l->content + r->got);
        sink->placed(sink->self, room);
        r->got += room;
    }
}

static sky_status end_plain_piece(sky_peer_link *l, const sky_peer_sink *sink) {
    incoming *r = &l->record;
    l->received++;
    if (r->more || r->length == 0)
        return sink->piece(sink->self, r->length, NULL);
    sky_peer_sum sum = {.sum = sky_checksum_end(&r->sum)};
    sum.right = sum.sum == sky_load_u64(r->tag);
    return sink->piece(sink->self, r->length, &sum);
}

static sky_status end_record(sky_peer_link *l, const sky_peer_sink *sink) {
    incoming *r = &l->record;
    r->begun = false;
    if (r->piece && !l->aead)
        return end_plain_piece(l, sink);
    if (!open_record(l))
        return SKY_E_CORRUPT;
    if (!r->piece)
        return sink->frame(sink->self, l->content, r->length);
    place_content(l, sink);
    return sink->piece(sink->self, r->length, NULL);
}

static sky_status receive_some(sky_peer_link *l, const sky_peer_sink *sink) {
    incoming *r = &l->record;
    sky_status status = SKY_OK;
    if (!r->begun) {
        if (in_waiting(l) < SKY_PEER_RECORD_HEAD_BYTES)
            return fill_buffer(l);
        status = begin_record(l, sink);
    } else if (r->piece && !l->aead && r->got < r->length) {
        status = stream_some(l, sink);
    } else if (r->got < r->length) {
        status = join_some(l);
    }
    return status == SKY_OK && r->got == r->length ? end_record(l, sink) : status;
}

sky_status sky_peer_link_receive(sky_peer_link *l, const sky_peer_sink *sink) {
    sky_status status = SKY_OK;
    for (int i = 0; i < RECORDS_AT_ONCE && status == SKY_OK; i++)
        status = receive_some(l, sink);
    return status;
}
