#include "tier/shm/frame.h"

#include <assert.h>
#include <string.h>

#include "tier/fields.h"

#define MAGIC     UINT64_C(0x314d4853594b5389) /* 0x89 "SKYSHM1" */
#define ROW_BYTES 20u                          /* of a layout */

enum { ENTRY_NAMED = 1, ENTRY_PINNED = 2, ENTRY_EVICT_AT = 4, ENTRY_END = 12 };

/* ---- a run and its end ---- */

static void write_run(sky_writer *w, const sky_shm_frame *f) {
    sky__write_call(w, &f->call);
    for (uint32_t i = 0; i < f->count; i++) {
        const sky_shm_order *o = &f->orders[i];
        sky__write_key(w, &o->key);
        sky__write_key(w, &o->parent);
        sky_write_u64(w, o->at);
        sky_write_u64(w, o->bytes);
        sky_write_u32(w, o->name_bytes);
    }
}

static void read_run(sky_reader *r, sky_shm_frame *f) {
    sky__read_call(r, &f->call);
    for (uint32_t i = 0; i < f->count; i++) {
        sky_shm_order *o = &f->orders[i];
        sky__read_key(r, &o->key);
        sky__read_key(r, &o->parent);
        o->at = sky_read_u64(r);
        o->bytes = sky_read_u64(r);
        o->name_bytes = sky_read_u32(r);
        sky__fail_unless(r,
                         o->bytes <= SKY_PAYLOAD_BYTES_MAX && o->name_bytes <= SKY_NAME_BYTES_MAX);
    }
}

static void write_done(sky_writer *w, const sky_shm_frame *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        const sky_shm_result *a = &f->results[i];
        sky_write_u32(w, (uint32_t)a->status);
        sky_write_u32(w, a->ttl_s);
        sky_write_u64(w, a->bytes);
        sky_write_u64(w, a->at);
        sky_write_u64(w, a->lease);
        sky_write_u8(w, a->coding);
        sky__write_kept(w, a->pinned, a->evict);
    }
}

static void read_done(sky_reader *r, sky_shm_frame *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        sky_shm_result *a = &f->results[i];
        a->status = sky__read_status(r);
        a->ttl_s = sky_read_u32(r);
        a->bytes = sky_read_u64(r);
        a->at = sky_read_u64(r);
        a->lease = sky_read_u64(r);
        a->coding = sky__read_coding(r);
        sky__read_kept(r, &a->pinned, &a->evict);
        sky__fail_unless(r, a->bytes <= SKY_PAYLOAD_BYTES_MAX);
    }
}

static void write_told(sky_writer *w, const sky_shm_frame *f) {
    sky_write_u32(w, (uint32_t)f->told);
    for (int i = 0; i < SKY_SHM_NUMBERS; i++)
        sky_write_u64(w, f->numbers[i]);
    sky_write_u64(w, f->text_bytes);
}

static void read_told(sky_reader *r, sky_shm_frame *f) {
    f->told = sky__read_status(r);
    for (int i = 0; i < SKY_SHM_NUMBERS; i++)
        f->numbers[i] = sky_read_u64(r);
    f->text_bytes = sky_read_u64(r);
}

bool sky_shm_is_pool(const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t bytes = strlen(name);
    return bytes > 0 && bytes <= SKY_SHM_POOL_BYTES_MAX && strspn(name, letters) == bytes;
}

/* ---- published blocks ---- */

uint32_t sky_shm_buffers(const uint32_t shape[3], uint32_t layer_axis) {
    uint64_t buffers = 1;
    for (int i = 0; i < 3 && buffers <= SKY_SHM_BUFFERS_MAX; i++)
        buffers *= shape[i];
    bool good = layer_axis < 3 && buffers <= SKY_SHM_BUFFERS_MAX &&
                shape[layer_axis] <= SKY_LAYERS_MAX;
    return good ? (uint32_t)buffers : 0;
}

static void write_layout(sky_writer *w, const sky_shm_frame *f) {
    const sky_shm_layout *l = &f->layout;
    sky__write_key(w, &l->key);
    sky_write_u64(w, l->lease);
    for (int i = 0; i < 3; i++)
        sky_write_u32(w, l->shape[i]);
    sky_write_u32(w, l->layer_axis);
    sky_write_u32(w, l->first);
    uint8_t *at = sky_write_space(w, (size_t)f->count * ROW_BYTES); /* many: checked once */
    for (uint32_t i = 0; at && i < f->count; i++, at += ROW_BYTES) {
        sky_store_u64(at, l->rows[i].offset);
        sky_store_u32(at + 8, l->rows[i].bytes);
        sky_store_u64(at + 12, l->rows[i].checksum);
    }
}

static void read_layout(sky_reader *r, sky_shm_frame *f) {
    sky_shm_layout *l = &f->layout;
    sky__read_key(r, &l->key);
    l->lease = sky_read_u64(r);
    for (int i = 0; i < 3; i++)
        l->shape[i] = sky_read_u32(r);
    l->layer_axis = sky_read_u32(r);
    l->first = sky_read_u32(r);
    uint32_t buffers = r->failed ? 0 : sky_shm_buffers(l->shape, l->layer_axis);
    sky__fail_unless(r, l->first < buffers && f->count <= buffers - l->first);
    const uint8_t *at = sky_read_bytes(r, (size_t)f->count * ROW_BYTES);
    for (uint32_t i = 0; at && i < f->count; i++, at += ROW_BYTES) {
        l->rows[i].offset = sky_load_u64(at);
        l->rows[i].bytes = sky_load_u32(at + 8);
        l->rows[i].checksum = sky_load_u64(at + 12);
        sky__fail_unless(r, l->rows[i].bytes > 0);
    }
}

static void read_block(sky_reader *r, sky_shm_frame *f) {
    sky__read_key(r, &f->key);
    f->lease = sky_read_u64(r);
    bool release = f->block_op == SKY_SHM_BLOCK_RELEASE;
    static const sky_key none;
    sky__fail_unless(r, (f->lease != 0) == release);
    sky__fail_unless(r, !release || memcmp(&f->key, &none, sizeof none) == 0);
}

/* ---- frames ---- */

/* What stands in the head beside kind, id and count. */
static uint32_t word_of(const sky_shm_frame *f) {
    switch (f->kind) {
    case SKY_SHM_HELLO:
    case SKY_SHM_WELCOME:
        return f->version;
    case SKY_SHM_REFUSED:
    case SKY_SHM_STAGED:
    case SKY_SHM_REGISTERED:
    case SKY_SHM_ANSWERED:
        return (uint32_t)f->status;
    case SKY_SHM_RUN:
        return (uint32_t)f->op;
    case SKY_SHM_SEGMENT:
    case SKY_SHM_RETIRED:
        return f->segment;
    case SKY_SHM_LAYOUT:
    case SKY_SHM_REGION:
    case SKY_SHM_REGION_GONE:
        return f->region;
    case SKY_SHM_BLOCK:
        return f->block_op;
    case SKY_SHM_ASK:
    case SKY_SHM_TOLD:
        return (uint32_t)f->question;
    default:
        return 0;
    }
}

static void set_word(sky_shm_frame *f, uint32_t word, sky_reader *r) {
    switch (f->kind) {
    case SKY_SHM_HELLO:
    case SKY_SHM_WELCOME:
        f->version = word;
        return;
    case SKY_SHM_REFUSED:
    case SKY_SHM_STAGED:
    case SKY_SHM_REGISTERED:
    case SKY_SHM_ANSWERED:
        f->status = (sky_status)(int32_t)word;
        sky__fail_unless(r, sky_status_is_known(f->status));
        return;
    case SKY_SHM_RUN:
        f->op = (sky_op)word;
        sky__fail_unless(r, word <= SKY_OP_EXPECT && word != SKY_OP_GET);
        return;
    case SKY_SHM_SEGMENT:
    case SKY_SHM_RETIRED:
        f->segment = word;
        return;
    case SKY_SHM_LAYOUT:
    case SKY_SHM_REGION:
    case SKY_SHM_REGION_GONE:
        f->region = word;
        sky__fail_unless(r, word != 0);
        return;
    case SKY_SHM_BLOCK:
        f->block_op = (sky_shm_block_op)word;
        sky__fail_unless(r, word >= SKY_SHM_BLOCK_OPEN && word <= SKY_SHM_BLOCK_RELEASE);
        return;
    case SKY_SHM_ASK:
    case SKY_SHM_TOLD:
        f->question = (sky_shm_question)word;
        sky__fail_unless(r, word >= SKY_SHM_LIST && word <= SKY_SHM_TEXT);
        return;
    default:
        sky__fail_unless(r, word == 0);
    }
}

size_t sky_shm_encode(const sky_shm_frame *f, uint8_t out[SKY_SHM_FRAME_BYTES_MAX]) {
    sky_writer w = sky_writer_over(out, SKY_SHM_FRAME_BYTES_MAX);
    assert(f->count <= (f->kind == SKY_SHM_LAYOUT ? SKY_SHM_ROWS_MAX : SKY_SHM_ITEMS_MAX));
    sky_write_u32(&w, f->kind);
    sky_write_u32(&w, f->kind == SKY_SHM_HELLO ? (uint32_t)strlen(f->pool) : f->id);
    sky_write_u32(&w, f->count);
    sky_write_u32(&w, word_of(f));
    if (f->kind == SKY_SHM_HELLO) {
        sky_write_u64(&w, MAGIC);
        sky_write_bytes(&w, f->pool, strlen(f->pool));
    } else if (f->kind == SKY_SHM_WELCOME) {
        sky_write_u64(&w, f->arena_bytes);
        sky_write_u64(&w, f->segment_bytes);
        sky_write_u64(&w, f->client);
    } else if (f->kind == SKY_SHM_RUN) {
        write_run(&w, f);
    } else if (f->kind == SKY_SHM_DONE) {
        write_done(&w, f);
    } else if (f->kind == SKY_SHM_RELEASE) {
        for (uint32_t i = 0; i < f->count; i++)
            sky_write_u64(&w, f->leases[i]);
    } else if (f->kind == SKY_SHM_STAGE || f->kind == SKY_SHM_STAGED) {
        sky_write_u64(&w, f->stage_bytes);
    } else if (f->kind == SKY_SHM_TOLD) {
        write_told(&w, f);
    } else if (f->kind == SKY_SHM_LAYOUT) {
        write_layout(&w, f);
    } else if (f->kind == SKY_SHM_BLOCK) {
        sky__write_key(&w, &f->key);
        sky_write_u64(&w, f->lease);
    } else if (f->kind == SKY_SHM_REGISTER || f->kind == SKY_SHM_REGION) {
        sky_write_u64(&w, f->region_bytes);
    } else if (f->kind == SKY_SHM_REGISTERED) {
        sky_write_u64(&w, f->number);
    } else if (f->kind == SKY_SHM_SEGMENT) {
        sky_write_u64(&w, f->generation);
    }
    assert(!w.failed);
    return SKY_SHM_FRAME_BYTES_MAX - w.left;
}

/* The most that a frame of this kind counts; 0: it counts nothing. */
static uint32_t count_max(sky_shm_kind kind) {
    if (kind == SKY_SHM_LAYOUT)
        return SKY_SHM_ROWS_MAX;
    if (kind == SKY_SHM_HELLO)
        return SKY_TIERS_MAX;
    bool counts = kind == SKY_SHM_RUN || kind == SKY_SHM_DONE || kind == SKY_SHM_RELEASE;
    return counts ? SKY_SHM_ITEMS_MAX : 0;
}

/* Its id is the length of the name. */
static void read_hello(sky_reader *r, sky_shm_frame *f) {
    sky__fail_unless(r, sky_read_u64(r) == MAGIC && f->id <= SKY_SHM_POOL_BYTES_MAX);
    const uint8_t *name = r->failed ? NULL : sky_read_bytes(r, f->id);
    memset(f->pool, 0, sizeof f->pool);
    if (name)
        memcpy(f->pool, name, f->id);
    sky__fail_unless(r, f->id == 0 || (sky_shm_is_pool(f->pool) && strlen(f->pool) == f->id));
}

static void read_body(sky_reader *r, sky_shm_frame *f) {
    uint32_t most = count_max(f->kind);
    bool may_be_zero = most == 0 || f->kind == SKY_SHM_HELLO || f->kind == SKY_SHM_RELEASE;
    sky__fail_unless(r, f->count <= most && (f->count > 0 || may_be_zero));
    if (r->failed)
        return;
    if (f->kind == SKY_SHM_HELLO) {
        read_hello(r, f);
    } else if (f->kind == SKY_SHM_WELCOME) {
        f->arena_bytes = sky_read_u64(r);
        f->segment_bytes = sky_read_u64(r);
        f->client = sky_read_u64(r);
    } else if (f->kind == SKY_SHM_RUN) {
        read_run(r, f);
    } else if (f->kind == SKY_SHM_DONE) {
        read_done(r, f);
    } else if (f->kind == SKY_SHM_RELEASE) {
        for (uint32_t i = 0; i < f->count; i++)
            f->leases[i] = sky_read_u64(r);
    } else if (f->kind == SKY_SHM_STAGE || f->kind == SKY_SHM_STAGED) {
        f->stage_bytes = sky_read_u64(r);
    } else if (f->kind == SKY_SHM_TOLD) {
        read_told(r, f);
    } else if (f->kind == SKY_SHM_LAYOUT) {
        read_layout(r, f);
    } else if (f->kind == SKY_SHM_BLOCK) {
        read_block(r, f);
    } else if (f->kind == SKY_SHM_REGISTER || f->kind == SKY_SHM_REGION) {
        f->region_bytes = sky_read_u64(r);
    } else if (f->kind == SKY_SHM_REGISTERED) {
        f->number = sky_read_u64(r);
    } else if (f->kind == SKY_SHM_SEGMENT) {
        f->generation = sky_read_u64(r);
    }
}

sky_status sky_shm_decode(const uint8_t *data, size_t bytes, sky_shm_frame *out) {
    sky_reader r = sky_reader_over(data, bytes);
    uint32_t kind = sky_read_u32(&r);
    sky__fail_unless(&r, kind >= SKY_SHM_HELLO && kind <= SKY_SHM_PAGE);
    out->kind = (sky_shm_kind)kind;
    out->id = sky_read_u32(&r);
    out->count = sky_read_u32(&r);
    uint32_t word = sky_read_u32(&r);
    if (r.failed)
        return SKY_E_CORRUPT;
    set_word(out, word, &r);
    read_body(&r, out);
    return sky_reader_done(&r) ? SKY_OK : SKY_E_CORRUPT;
}

/* ---- listings ---- */

bool sky_shm_entry_encode(const sky_entry *e, uint8_t *out, size_t room, size_t *used) {
    sky_writer w = sky_writer_over(out + *used, room - *used);
    sky__write_key(&w, &e->key);
    sky__write_key(&w, &e->parent);
    sky_write_u64(&w, e->bytes);
    sky_write_u64(&w, e->hits);
    sky_write_u64(&w, (uint64_t)e->set_ms);
    sky_write_u64(&w, (uint64_t)e->used_ms);
    sky_write_u8(&w, e->coding);
    sky_write_u8(&w, (uint8_t)((e->name ? ENTRY_NAMED : 0) | (e->pinned ? ENTRY_PINNED : 0) |
                               ENTRY_EVICT_AT * e->evict));
    sky_write_u16(&w, e->name ? (uint16_t)e->name_bytes : 0);
    if (e->name)
        sky_write_bytes(&w, e->name, e->name_bytes);
    if (w.failed)
        return false;
    *used = room - w.left;
    return true;
}

sky_status sky_shm_entry_decode(const uint8_t *data, size_t bytes, size_t *at,
                                char name[SKY_NAME_BYTES_MAX + 1], sky_entry *out) {
    if (*at == bytes)
        return SKY_MISS;
    sky_reader r = sky_reader_over(data + *at, bytes - *at);
    *out = (sky_entry){0};
    sky__read_key(&r, &out->key);
    sky__read_key(&r, &out->parent);
    out->bytes = sky_read_u64(&r);
    out->hits = sky_read_u64(&r);
    out->set_ms = (int64_t)sky_read_u64(&r);
    out->used_ms = (int64_t)sky_read_u64(&r);
    out->coding = sky__read_coding(&r);
    uint8_t flags = sky_read_u8(&r);
    out->name_bytes = sky_read_u16(&r);
    sky__fail_unless(&r, flags < ENTRY_END && out->name_bytes <= SKY_NAME_BYTES_MAX &&
                             ((flags & ENTRY_NAMED) || out->name_bytes == 0));
    const uint8_t *text = sky_read_bytes(&r, out->name_bytes);
    if (!text || r.failed)
        return SKY_E_CORRUPT;
    memcpy(name, text, out->name_bytes);
    name[out->name_bytes] = '\0';
    out->name = flags & ENTRY_NAMED ? name : NULL;
    out->pinned = flags & ENTRY_PINNED;
    out->evict = flags / ENTRY_EVICT_AT;
    *at = bytes - r.left;
    return SKY_OK;
}
