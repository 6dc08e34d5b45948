#include "tier/peer/frame.h"

#include <assert.h>

#include "tier/fields.h"

enum { HEAD_BYTES = 16 };

_Static_assert(HEAD_BYTES + 26 + SKY_PEER_ITEMS_MAX * 90 <= SKY_PEER_FRAME_BYTES_MAX, "a run fits");
_Static_assert(HEAD_BYTES + 26 + SKY_PEER_PAYLOAD_ITEMS_MAX * (90 + SKY_NAME_BYTES_MAX) <=
                   SKY_PEER_FRAME_BYTES_MAX,
               "a put fits, with its names");

/* ---- a run and its end ---- */

static void write_run(sky_writer *w, const sky_peer_frame *f) {
    sky__write_call(w, &f->call);
    for (uint32_t i = 0; i < f->count; i++) {
        const sky_peer_order *o = &f->orders[i];
        sky__write_key(w, &o->key);
        sky__write_key(w, &o->parent);
        sky_write_u64(w, o->offset);
        sky_write_u64(w, o->bytes);
        sky_write_u64(w, o->room);
        sky_write_u16(w, o->name_bytes);
    }
    for (uint32_t i = 0; i < f->count; i++)
        sky_write_bytes(w, f->orders[i].name, f->orders[i].name_bytes);
}

/* What an operation does not use is zero. */
static bool order_good(sky_op op, const sky_peer_order *o) {
    if (op == SKY_OP_GET)
        return o->name_bytes == 0;
    if (op == SKY_OP_PUT)
        return o->offset == 0 && o->room == 0 && o->bytes <= SKY_PAYLOAD_BYTES_MAX &&
               o->name_bytes <= SKY_NAME_BYTES_MAX;
    return o->offset == 0 && o->bytes == 0 && o->room == 0 && o->name_bytes == 0;
}

static void read_run(sky_reader *r, sky_peer_frame *f) {
    bool payloads = f->op == SKY_OP_GET || f->op == SKY_OP_PUT;
    sky__fail_unless(r, f->count <= (payloads ? SKY_PEER_PAYLOAD_ITEMS_MAX : SKY_PEER_ITEMS_MAX));
    sky__read_call(r, &f->call);
    for (uint32_t i = 0; i < f->count && !r->failed; i++) {
        sky_peer_order *o = &f->orders[i];
        sky__read_key(r, &o->key);
        sky__read_key(r, &o->parent);
        o->offset = sky_read_u64(r);
        o->bytes = sky_read_u64(r);
        o->room = sky_read_u64(r);
        o->name_bytes = sky_read_u16(r);
        sky__fail_unless(r, order_good(f->op, o));
    }
    for (uint32_t i = 0; i < f->count && !r->failed; i++) {
        const uint8_t *name = sky_read_bytes(r, f->orders[i].name_bytes);
        f->orders[i].name = f->orders[i].name_bytes > 0 ? (const char *)name : NULL;
    }
}

static void write_done(sky_writer *w, const sky_peer_frame *f) {
    sky_write_u8(w, f->payloads);
    for (uint32_t i = 0; i < f->count; i++) {
        const sky_peer_result *a = &f->results[i];
        sky_write_u32(w, (uint32_t)a->status);
        sky_write_u32(w, a->ttl_s);
        sky_write_u64(w, a->bytes);
        sky_write_u8(w, a->coding);
        sky__write_kept(w, a->pinned, a->evict);
    }
}

static void read_done(sky_reader *r, sky_peer_frame *f) {
    f->payloads = sky__read_bool(r);
    sky__fail_unless(r, !f->payloads || f->count <= SKY_PEER_PAYLOAD_ITEMS_MAX);
    for (uint32_t i = 0; i < f->count && !r->failed; i++) {
        sky_peer_result *a = &f->results[i];
        a->status = sky__read_status(r);
        a->ttl_s = sky_read_u32(r);
        a->bytes = sky_read_u64(r);
        a->coding = sky__read_coding(r);
        sky__read_kept(r, &a->pinned, &a->evict);
        sky__fail_unless(r, a->bytes <= (a->status == SKY_OK ? SKY_PAYLOAD_BYTES_MAX : 0));
    }
}

static void write_told(sky_writer *w, const sky_peer_frame *f) {
    sky_write_u32(w, (uint32_t)f->told);
    for (int i = 0; i < SKY_PEER_NUMBERS; i++)
        sky_write_u64(w, f->numbers[i]);
    sky_write_u64(w, f->text_bytes);
}

static void read_told(sky_reader *r, sky_peer_frame *f) {
    f->told = sky__read_status(r);
    for (int i = 0; i < SKY_PEER_NUMBERS; i++)
        f->numbers[i] = sky_read_u64(r);
    f->text_bytes = sky_read_u64(r);
    sky__fail_unless(r,
                     f->text_bytes <= (f->question == SKY_PEER_LIST ? SKY_PEER_TEXT_BYTES_MAX : 0));
}

/* ---- frames ---- */

/* What stands in the head besides kind, id and count. */
static uint32_t head_word(const sky_peer_frame *f) {
    if (f->kind == SKY_PEER_RUN)
        return (uint32_t)f->op;
    return f->kind == SKY_PEER_ASK || f->kind == SKY_PEER_TOLD ? (uint32_t)f->question : 0;
}

static void set_head_word(sky_peer_frame *f, uint32_t word, sky_reader *r) {
    if (f->kind == SKY_PEER_RUN) {
        f->op = (sky_op)word;
        sky__fail_unless(r, word <= SKY_OP_EXPECT && word != SKY_OP_LEASE);
    } else if (f->kind == SKY_PEER_ASK || f->kind == SKY_PEER_TOLD) {
        f->question = (sky_peer_question)word;
        sky__fail_unless(r, word >= SKY_PEER_LIST && word <= SKY_PEER_STAT);
    } else {
        sky__fail_unless(r, word == 0);
    }
}

size_t sky_peer_encode(const sky_peer_frame *f, uint8_t out[SKY_PEER_FRAME_BYTES_MAX]) {
    sky_writer w = sky_writer_over(out, SKY_PEER_FRAME_BYTES_MAX);
    assert(f->count <= SKY_PEER_ITEMS_MAX);
    sky_write_u32(&w, f->kind);
    sky_write_u32(&w, f->id);
    sky_write_u32(&w, f->count);
    sky_write_u32(&w, head_word(f));
    if (f->kind == SKY_PEER_WELCOME) {
        sky_write_u64(&w, f->payload_bytes_max);
        sky_write_u64(&w, f->connection);
    } else if (f->kind == SKY_PEER_RUN) {
        write_run(&w, f);
    } else if (f->kind == SKY_PEER_DONE) {
        write_done(&w, f);
    } else if (f->kind == SKY_PEER_TOLD) {
        write_told(&w, f);
    }
    assert(!w.failed);
    return SKY_PEER_FRAME_BYTES_MAX - w.left;
}

static void read_body(sky_reader *r, sky_peer_frame *f) {
    bool counts = f->kind == SKY_PEER_RUN || f->kind == SKY_PEER_DONE;
    sky__fail_unless(r, counts ? f->count >= 1 && f->count <= SKY_PEER_ITEMS_MAX : f->count == 0);
    if (r->failed)
        return;
    if (f->kind == SKY_PEER_WELCOME) {
        f->payload_bytes_max = sky_read_u64(r);
        f->connection = sky_read_u64(r);
    } else if (f->kind == SKY_PEER_RUN) {
        read_run(r, f);
    } else if (f->kind == SKY_PEER_DONE) {
        read_done(r, f);
    } else if (f->kind == SKY_PEER_TOLD) {
        read_told(r, f);
    }
}

sky_status sky_peer_decode(const uint8_t *data, size_t bytes, sky_peer_frame *out) {
    sky_reader r = sky_reader_over(data, bytes);
    uint32_t kind = sky_read_u32(&r);
    sky__fail_unless(&r, kind >= SKY_PEER_READY && kind <= SKY_PEER_TOLD);
    out->kind = (sky_peer_kind)kind;
    out->id = sky_read_u32(&r);
    out->count = sky_read_u32(&r);
    uint32_t word = sky_read_u32(&r);
    if (r.failed)
        return SKY_E_CORRUPT;
    set_head_word(out, word, &r);
    read_body(&r, out);
    return sky_reader_done(&r) ? SKY_OK : SKY_E_CORRUPT;
}
