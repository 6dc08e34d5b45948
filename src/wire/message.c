/* Encoding and decoding of messages. Every length and every enumeration is checked here, so that
 * what is behind the decoder meets only values that it can take. */
#include "wire/message.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define MAGIC             0x4d594b53u /* "SKYM" */
#define TYPE_OFFSET       5
#define BYTES_OFFSET      8
#define DATA_BYTES_OFFSET 12
#define CHECK_OFFSET      24
#define KEY_OFFSET        32
#define VERSION_OFFSET    64
#define NUMBER_OFFSET     72
#define FLAG_PINNED       1u
#define FLAG_SPARE        2u
#define FLAGS_COPIES      0x3cu /* less one */
#define FLAG_COPY         0x40u
#define FLAG_OLDER        0x80u
#define FLAGS_HOUR        0xff00u

static_assert(SKY_WIRE_BYTES_MAX ==
                  SKY_WIRE_HEAD_BYTES + SKY_WIRE_BODY_BYTES_MAX + SKY_WIRE_DATA_BYTES_MAX,
              "the longest message");
static_assert(8 * SKY_STAT_COUNT <= SKY_WIRE_BODY_BYTES_MAX, "the longest body");

typedef struct {
    uint8_t body_bytes;
    bool data;
    uint16_t flags; /* allowed */
} type_facts;

static const type_facts types[SKY_WIRE_TYPE_END] = {
    [SKY_WIRE_SET] = {48, true, FLAG_PINNED | FLAG_SPARE | FLAGS_COPIES},
    [SKY_WIRE_SET_ACK] = {56, false, 0},
    [SKY_WIRE_GET] = {0, false, 0},
    [SKY_WIRE_CHUNK] = {24, true, 0},
    [SKY_WIRE_MISS] = {8, false, 0},
    [SKY_WIRE_HAS] = {8, false, 0},
    [SKY_WIRE_HAS_REPLY] = {16, false, 0},
    [SKY_WIRE_DROP] = {8, false, FLAG_OLDER},
    [SKY_WIRE_PIN] = {8, false, FLAG_PINNED},
    [SKY_WIRE_MIGRATE] = {48, true,
                          FLAG_PINNED | FLAG_SPARE | FLAGS_COPIES | FLAG_COPY | FLAGS_HOUR},
    [SKY_WIRE_MIGRATE_ACK] = {56, false, 0},
    [SKY_WIRE_PURGE] = {8, true, 0},
    [SKY_WIRE_GONE] = {0, false, 0},
    [SKY_WIRE_MOVE] = {40, false, FLAG_PINNED | FLAG_SPARE | FLAGS_COPIES},
    [SKY_WIRE_ROW_ACK] = {16, false, 0},
    [SKY_WIRE_STAT] = {0, false, 0},
    [SKY_WIRE_STAT_REPLY] = {8 * SKY_STAT_COUNT, false, 0},
    [SKY_WIRE_COPIES] = {12, false, 0},
    [SKY_WIRE_MEND] = {8, false, 0},
    [SKY_WIRE_SET_IF] = {64, true, FLAG_PINNED | FLAG_SPARE | FLAGS_COPIES | FLAG_OLDER},
};

bool sky_chunk_same_block(const sky_chunk_id *a, const sky_chunk_id *b) {
    return a->version == b->version && memcmp(a->key.bytes, b->key.bytes, SKY_KEY_BYTES) == 0;
}

bool sky_facts_later(const sky_chunk_facts *a, const sky_chunk_facts *b) {
    uint16_t ahead = (uint16_t)(a->moves - b->moves);
    if (ahead == 0)
        return a->set_ms > b->set_ms;
    return ahead <= UINT16_MAX / 2;
}

bool sky_chunk_id_equal(const sky_chunk_id *a, const sky_chunk_id *b) {
    return a->number == b->number && sky_chunk_same_block(a, b);
}

uint64_t sky_chunk_checksum(const sky_chunk_id *id, const void *data, size_t bytes) {
    uint8_t name[SKY_KEY_BYTES + 12];
    memcpy(name, id->key.bytes, SKY_KEY_BYTES);
    sky_store_u64(name + SKY_KEY_BYTES, id->version);
    sky_store_u32(name + SKY_KEY_BYTES + 8, id->number);
    return sky_checksum(data, bytes, sky_checksum(name, sizeof name, 0));
}

/* What the check covers: a chunk has a checksum of its own. */
static size_t checked_bytes(sky_wire_type type, size_t bytes, uint32_t data_bytes) {
    return type == SKY_WIRE_PURGE ? bytes : bytes - data_bytes;
}

/* Over all that is covered but the field itself. */
static uint64_t head_check(const uint8_t *p, size_t head_bytes) {
    uint64_t seed = sky_checksum(p, CHECK_OFFSET, 0);
    return sky_checksum(p + CHECK_OFFSET + 8, head_bytes - CHECK_OFFSET - 8, seed);
}

size_t sky_message_data_offset(sky_wire_type type) {
    return SKY_WIRE_HEAD_BYTES + (size_t)types[type].body_bytes;
}

size_t sky_message_bytes(const sky_message *m) {
    return sky_message_data_offset(m->type) + (types[m->type].data ? m->data_bytes : 0);
}

/* ---- encode ---- */

static void put_satellite(sky_writer *w, sky_satellite s) {
    sky_write_u16(w, (uint16_t)s.plane);
    sky_write_u16(w, (uint16_t)s.slot);
}

/* A chunk travels whole: where datagrams are small the transport cuts the message (packet.h). The
 * piece fields say so. */
static void put_piece(sky_writer *w, const sky_message *m) {
    sky_write_u64(w, m->facts.checksum);
    sky_write_u32(w, 0);
    sky_write_u32(w, m->data_bytes);
}

static void put_facts(sky_writer *w, const sky_chunk_facts *f) {
    sky_write_u64(w, (uint64_t)f->set_ms);
    put_satellite(w, f->centre);
    put_satellite(w, f->first);
    put_satellite(w, f->next);
    sky_write_u32(w, f->chunk_count);
    sky_write_u16(w, f->window_planes);
    sky_write_u16(w, f->window_slots);
    sky_write_u16(w, (uint16_t)f->strategy);
    sky_write_u16(w, f->moves);
}

static void put_row(sky_writer *w, const sky_message *m) {
    sky_write_u32(w, m->stride);
    sky_write_u32(w, m->last);
}

static void put_ack(sky_writer *w, const sky_message *m) {
    sky_write_u64(w, (uint64_t)m->spent_ns);
    sky_write_u32(w, (uint32_t)m->outcome);
    if (m->outcome == SKY_STORED_EVICTED || m->outcome == SKY_OTHER_VERSION) {
        sky_write_u32(w, m->evicted.number);
        sky_write_u64(w, m->evicted.version);
        sky_write_bytes(w, m->evicted.key.bytes, SKY_KEY_BYTES);
    } else {
        memset(sky_write_space(w, 44), 0, 44);
    }
}

static void put_body(sky_writer *w, const sky_message *m) {
    switch (m->type) {
    case SKY_WIRE_SET:
    case SKY_WIRE_MIGRATE:
        put_facts(w, &m->facts);
        put_piece(w, m);
        break;
    case SKY_WIRE_SET_IF:
        put_facts(w, &m->facts);
        sky_write_u64(w, m->expected);
        sky_write_u64(w, m->name);
        put_piece(w, m);
        break;
    case SKY_WIRE_SET_ACK:
    case SKY_WIRE_MIGRATE_ACK:
        put_ack(w, m);
        break;
    case SKY_WIRE_CHUNK:
        sky_write_u64(w, (uint64_t)m->spent_ns);
        put_piece(w, m);
        break;
    case SKY_WIRE_MISS:
        sky_write_u64(w, (uint64_t)m->spent_ns);
        break;
    case SKY_WIRE_HAS_REPLY:
        sky_write_u64(w, (uint64_t)m->spent_ns);
        sky_write_u64(w, m->present);
        break;
    case SKY_WIRE_MOVE:
        put_facts(w, &m->facts);
        put_row(w, m);
        break;
    case SKY_WIRE_DROP:
    case SKY_WIRE_PIN:
    case SKY_WIRE_HAS:
    case SKY_WIRE_MEND:
        put_row(w, m);
        break;
    case SKY_WIRE_PURGE:
        sky_write_u32(w, m->facts.chunk_count);
        sky_write_u32(w, m->hops);
        break;
    case SKY_WIRE_ROW_ACK:
        sky_write_u64(w, (uint64_t)m->spent_ns);
        sky_write_u64(w, m->moved);
        break;
    case SKY_WIRE_STAT_REPLY:
        for (int i = 0; i < SKY_STAT_COUNT; i++)
            sky_write_u64(w, m->stat[i]);
        break;
    case SKY_WIRE_COPIES:
        sky_write_u64(w, m->digest);
        sky_write_u32(w, m->differs);
        break;
    default:
        break;
    }
}

static uint16_t flags_of(const sky_message *m) {
    const sky_chunk_facts *f = &m->facts;
    uint32_t copies = f->copies ? f->copies - 1u : 0;
    uint32_t flags = (f->pinned ? FLAG_PINNED | (uint32_t)f->pin_hour << 8 : 0u) |
                     (f->spare ? FLAG_SPARE : 0u) | copies << 2 | (m->copy ? FLAG_COPY : 0u) |
                     (m->older ? FLAG_OLDER : 0u);
    return (uint16_t)(flags & types[m->type].flags);
}

size_t sky_message_encode(const sky_message *m, uint8_t *dst, size_t dst_bytes_max) {
    assert(m->type >= SKY_WIRE_SET && m->type < SKY_WIRE_TYPE_END);
    size_t bytes = sky_message_bytes(m);
    if (dst_bytes_max < bytes)
        return 0;
    size_t head_bytes = sky_message_data_offset(m->type);
    uint32_t data_bytes = (uint32_t)(bytes - head_bytes);

    sky_store_u32(dst, MAGIC);
    dst[4] = SKY_WIRE_VERSION;
    dst[TYPE_OFFSET] = (uint8_t)m->type;
    sky_store_u16(dst + 6, flags_of(m));
    sky_store_u32(dst + BYTES_OFFSET, (uint32_t)bytes);
    sky_store_u32(dst + DATA_BYTES_OFFSET, data_bytes);
    sky_store_u64(dst + 16, m->request);
    memcpy(dst + KEY_OFFSET, m->id.key.bytes, SKY_KEY_BYTES);
    sky_store_u64(dst + VERSION_OFFSET, m->id.version);
    sky_store_u32(dst + NUMBER_OFFSET, m->id.number);
    sky_writer w = sky_writer_over(dst + SKY_WIRE_HEAD_BYTES, head_bytes - SKY_WIRE_HEAD_BYTES);
    put_body(&w, m);
    assert(!w.failed && w.left == 0);
    if (data_bytes > 0 && !m->data)
        return bytes;
    if (data_bytes > 0 && m->data != dst + head_bytes)
        memcpy(dst + head_bytes, m->data, data_bytes);
    sky_store_u64(dst + CHECK_OFFSET, head_check(dst, checked_bytes(m->type, bytes, data_bytes)));
    return bytes;
}

/* ---- the chunk in a message ---- */

#define PIECE_BYTES 16 /* the end of the body of whatever carries a chunk */

static bool carries_chunk(uint8_t type) {
    return type == SKY_WIRE_SET || type == SKY_WIRE_CHUNK || type == SKY_WIRE_MIGRATE ||
           type == SKY_WIRE_SET_IF;
}

bool sky_message_chunk(const uint8_t *bytes, size_t byte_count, sky_message *out) {
    if (byte_count < SKY_WIRE_HEAD_BYTES || !carries_chunk(bytes[TYPE_OFFSET]))
        return false;
    out->type = (sky_wire_type)bytes[TYPE_OFFSET];
    out->data_bytes = sky_load_u32(bytes + DATA_BYTES_OFFSET);
    out->data = bytes + sky_message_data_offset(out->type);
    memcpy(out->id.key.bytes, bytes + KEY_OFFSET, SKY_KEY_BYTES);
    out->id.version = sky_load_u64(bytes + VERSION_OFFSET);
    out->id.number = sky_load_u32(bytes + NUMBER_OFFSET);
    return sky_message_data_offset(out->type) + out->data_bytes == byte_count;
}

size_t sky_message_set_chunk(uint8_t *bytes, const sky_message *m, uint32_t data_bytes,
                             uint64_t checksum) {
    size_t head_bytes = sky_message_data_offset(m->type);
    uint8_t *piece = bytes + head_bytes - PIECE_BYTES;
    sky_store_u32(bytes + BYTES_OFFSET, (uint32_t)head_bytes + data_bytes);
    sky_store_u32(bytes + DATA_BYTES_OFFSET, data_bytes);
    sky_store_u64(piece, checksum);
    sky_store_u32(piece + 12, data_bytes);
    sky_store_u64(bytes + CHECK_OFFSET, head_check(bytes, head_bytes));
    return head_bytes + data_bytes;
}

/* ---- decode ---- */

static bool take_time(sky_reader *r, sky_time *out) {
    uint64_t v = sky_read_u64(r);
    *out = (sky_time)v;
    return v <= INT64_MAX;
}

static bool take_satellite(sky_reader *r, sky_satellite *out) {
    out->plane = sky_read_u16(r);
    out->slot = sky_read_u16(r);
    return out->plane >= 1 && out->plane <= SKY_PLANES_MAX && out->slot >= 1 &&
           out->slot <= SKY_SLOTS_MAX;
}

static bool number_ok(uint32_t number) {
    return number <= SKY_WIRE_CHUNKS_MAX;
}

static bool take_piece(sky_reader *r, sky_message *m) {
    m->facts.checksum = sky_read_u64(r);
    uint32_t offset = sky_read_u32(r);
    return sky_read_u32(r) == m->data_bytes && offset == 0;
}

static bool count_ok(uint32_t count) {
    return count >= 1 && number_ok(count);
}

/* A window is odd both ways; hop has none. */
static bool take_strategy(uint32_t strategy, uint32_t planes, uint32_t slots, sky_strategy *out) {
    if (strategy >= SKY_STRATEGIES)
        return false;
    *out = (sky_strategy)strategy;
    if (*out == SKY_PLACE_HOP)
        return planes == 0 && slots == 0;
    return planes % 2 == 1 && planes <= SKY_PLANES_MAX && slots % 2 == 1 && slots <= SKY_SLOTS_MAX;
}

static bool take_facts(sky_reader *r, sky_message *m) {
    sky_chunk_facts *f = &m->facts;
    bool ok = take_time(r, &f->set_ms);
    ok &= take_satellite(r, &f->centre);
    ok &= take_satellite(r, &f->first);
    ok &= take_satellite(r, &f->next);
    f->chunk_count = sky_read_u32(r);
    f->window_planes = sky_read_u16(r);
    f->window_slots = sky_read_u16(r);
    ok &= take_strategy(sky_read_u16(r), f->window_planes, f->window_slots, &f->strategy);
    f->moves = sky_read_u16(r);
    return ok && number_ok(f->chunk_count) && m->id.number <= f->chunk_count;
}

static bool take_row(sky_reader *r, sky_message *m) {
    m->stride = sky_read_u32(r);
    m->last = sky_read_u32(r);
    return m->stride >= 1 && number_ok(m->last) && m->last >= m->id.number;
}

static bool take_ack(sky_reader *r, sky_message *m) {
    bool ok = take_time(r, &m->spent_ns);
    uint32_t outcome = sky_read_u32(r);
    if (outcome >= SKY_OUTCOME_END || (outcome == SKY_REMOVED && m->type != SKY_WIRE_MIGRATE_ACK))
        return false;
    m->outcome = (sky_outcome)outcome;
    m->evicted.number = sky_read_u32(r);
    m->evicted.version = sky_read_u64(r);
    const uint8_t *key = sky_read_bytes(r, SKY_KEY_BYTES);
    if (!ok || !key)
        return false;
    memcpy(m->evicted.key.bytes, key, SKY_KEY_BYTES);
    if (m->outcome == SKY_STORED_EVICTED)
        return number_ok(m->evicted.number);
    const sky_chunk_id none = {.version = outcome == SKY_OTHER_VERSION ? m->evicted.version : 0};
    return sky_chunk_id_equal(&m->evicted, &none);
}

/* Of a head, which changes from one version to another; 0 is none. */
static bool take_set_if(sky_reader *r, sky_message *m) {
    bool ok = take_facts(r, m);
    m->expected = sky_read_u64(r);
    m->name = sky_read_u64(r);
    return take_piece(r, m) && ok && m->id.number == 0 && m->name && m->id.version &&
           m->id.version != m->expected && !(m->older && !m->expected);
}

static bool take_has_reply(sky_reader *r, sky_message *m) {
    bool ok = take_time(r, &m->spent_ns);
    m->present = sky_read_u64(r);
    return ok;
}

static bool take_copies(sky_reader *r, sky_message *m) {
    m->digest = sky_read_u64(r);
    uint32_t differs = sky_read_u32(r);
    m->differs = differs;
    return differs <= 1;
}

static bool hops_ok(uint32_t hops) {
    return hops <= SKY_PLANES_MAX + SKY_SLOTS_MAX;
}

static bool take_purge(sky_reader *r, sky_message *m) {
    m->facts.chunk_count = sky_read_u32(r);
    m->hops = sky_read_u32(r);
    return count_ok(m->facts.chunk_count) && m->id.number <= m->facts.chunk_count &&
           hops_ok(m->hops);
}

/* A PURGE's further blocks. */
static bool lost_blocks_ok(const sky_message *m) {
    if (m->data_bytes % SKY_LOST_BLOCK_BYTES != 0 ||
        m->data_bytes > SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES)
        return false;
    for (uint32_t at = 0; at < m->data_bytes; at += SKY_LOST_BLOCK_BYTES) {
        sky_lost_block block;
        sky_lost_block_decode(m->data + at, &block);
        if (!count_ok(block.chunk_count) || !hops_ok(block.hops))
            return false;
    }
    return true;
}

static bool take_row_ack(sky_reader *r, sky_message *m) {
    bool ok = take_time(r, &m->spent_ns);
    uint64_t moved = sky_read_u64(r);
    m->moved = (uint32_t)moved;
    return ok && moved <= SKY_WIRE_CHUNKS_MAX;
}

static bool take_body(sky_reader *r, sky_message *m) {
    switch (m->type) {
    case SKY_WIRE_SET:
    case SKY_WIRE_MIGRATE:
        return take_facts(r, m) && take_piece(r, m);
    case SKY_WIRE_SET_ACK:
    case SKY_WIRE_MIGRATE_ACK:
        return take_ack(r, m);
    case SKY_WIRE_CHUNK: {
        bool ok = take_time(r, &m->spent_ns);
        return take_piece(r, m) && ok;
    }
    case SKY_WIRE_MISS:
        return take_time(r, &m->spent_ns);
    case SKY_WIRE_SET_IF:
        return take_set_if(r, m);
    case SKY_WIRE_HAS_REPLY:
        return take_has_reply(r, m);
    case SKY_WIRE_MOVE:
        return take_facts(r, m) && take_row(r, m);
    case SKY_WIRE_DROP:
        return take_row(r, m) && (!m->older || m->last == 0);
    case SKY_WIRE_PIN:
    case SKY_WIRE_MEND:
        return take_row(r, m);
    case SKY_WIRE_HAS:
        return take_row(r, m) && (m->last - m->id.number) / m->stride < SKY_ROW_MAX;
    case SKY_WIRE_COPIES:
        return take_copies(r, m);
    case SKY_WIRE_PURGE:
        return take_purge(r, m);
    case SKY_WIRE_ROW_ACK:
        return take_row_ack(r, m);
    case SKY_WIRE_STAT_REPLY:
        for (int i = 0; i < SKY_STAT_COUNT; i++)
            m->stat[i] = sky_read_u64(r);
        return true;
    default:
        return true;
    }
}

/* Type, flags and lengths agree with each other and with the datagram. */
static bool take_head(sky_reader *r, size_t byte_count, sky_message *m) {
    bool ours = sky_read_u32(r) == MAGIC;
    ours &= sky_read_u8(r) == SKY_WIRE_VERSION;
    uint8_t type = sky_read_u8(r);
    uint16_t flags = sky_read_u16(r);
    uint32_t bytes = sky_read_u32(r);
    m->data_bytes = sky_read_u32(r);
    if (!ours || type < SKY_WIRE_SET || type >= SKY_WIRE_TYPE_END || bytes != byte_count ||
        flags & ~types[type].flags || m->data_bytes > SKY_WIRE_DATA_BYTES_MAX ||
        (m->data_bytes > 0 && !types[type].data))
        return false;
    m->type = (sky_wire_type)type;
    m->facts.pinned = flags & FLAG_PINNED;
    m->facts.spare = flags & FLAG_SPARE;
    m->facts.copies = (uint8_t)(1 + ((flags & FLAGS_COPIES) >> 2));
    m->copy = flags & FLAG_COPY;
    m->older = flags & FLAG_OLDER;
    m->facts.pin_hour = (uint8_t)(flags >> 8);
    if (m->facts.pin_hour && !m->facts.pinned)
        return false;
    m->request = sky_read_u64(r);
    sky_read_u64(r); /* the check, verified by the caller */
    return sky_message_bytes(m) == byte_count;
}

sky_status sky_message_decode(const uint8_t *bytes, size_t byte_count, sky_message *out) {
    sky_message m;
    memset(&m, 0, sizeof m);
    if (byte_count < SKY_WIRE_HEAD_BYTES)
        return SKY_E_CORRUPT;
    sky_reader r = sky_reader_over(bytes, byte_count);
    if (!take_head(&r, byte_count, &m) ||
        sky_load_u64(bytes + CHECK_OFFSET) !=
            head_check(bytes, checked_bytes(m.type, byte_count, m.data_bytes)))
        return SKY_E_CORRUPT;
    memcpy(m.id.key.bytes, sky_read_bytes(&r, SKY_KEY_BYTES), SKY_KEY_BYTES);
    m.id.version = sky_read_u64(&r);
    m.id.number = sky_read_u32(&r);
    if (!number_ok(m.id.number) || !take_body(&r, &m))
        return SKY_E_CORRUPT;
    m.data = sky_read_bytes(&r, m.data_bytes);
    if (!sky_reader_done(&r) || (m.type == SKY_WIRE_PURGE && !lost_blocks_ok(&m)))
        return SKY_E_CORRUPT;
    *out = m;
    return SKY_OK;
}

/* ---- blocks that lost a chunk ---- */

void sky_lost_block_encode(const sky_lost_block *block, uint8_t out[SKY_LOST_BLOCK_BYTES]) {
    memcpy(out, block->key.bytes, SKY_KEY_BYTES);
    sky_store_u64(out + 32, block->version);
    sky_store_u32(out + 40, block->chunk_count);
    sky_store_u32(out + 44, block->hops);
}

void sky_lost_block_decode(const uint8_t data[SKY_LOST_BLOCK_BYTES], sky_lost_block *out) {
    memcpy(out->key.bytes, data, SKY_KEY_BYTES);
    out->version = sky_load_u64(data + 32);
    out->chunk_count = sky_load_u32(data + 40);
    out->hops = sky_load_u32(data + 44);
}

/* ---- the head of a block ---- */

#define HEAD_NAMED 0x80u /* of the level */

void sky_head_encode(const sky_block_head *head, uint8_t out[SKY_HEAD_BYTES]) {
    sky_writer w = sky_writer_over(out, SKY_HEAD_BYTES);
    sky_write_u64(&w, (uint64_t)head->set_ms);
    sky_write_u64(&w, (uint64_t)head->before_ms);
    put_satellite(&w, head->centre);
    put_satellite(&w, head->before_centre);
    sky_write_u32(&w, head->payload_bytes);
    sky_write_u16(&w, (uint16_t)head->chunk_bytes);
    sky_write_u16(&w, head->moves);
    sky_write_u32(&w, head->chunk_count);
    sky_write_u32(&w, head->servers);
    sky_write_u16(&w, head->window_planes);
    sky_write_u16(&w, head->window_slots);
    sky_write_u8(&w, (uint8_t)head->strategy);
    sky_write_u8(&w, head->replicas);
    sky_write_u8(&w, head->parity);
    sky_write_u8(&w, (uint8_t)(head->level | (head->named ? HEAD_NAMED : 0)));
    sky_write_u64(&w, head->version);
    assert(!w.failed && w.left == 0);
}

sky_status sky_head_decode(const uint8_t *data, size_t bytes, sky_block_head *out) {
    if (bytes != SKY_HEAD_BYTES)
        return SKY_E_CORRUPT;
    sky_reader r = sky_reader_over(data, bytes);
    sky_block_head h;
    bool ok = take_time(&r, &h.set_ms);
    ok &= take_time(&r, &h.before_ms);
    ok &= take_satellite(&r, &h.centre);
    ok &= take_satellite(&r, &h.before_centre);
    h.payload_bytes = sky_read_u32(&r);
    h.chunk_bytes = sky_read_u16(&r);
    h.moves = sky_read_u16(&r);
    h.chunk_count = sky_read_u32(&r);
    h.servers = sky_read_u32(&r);
    h.window_planes = sky_read_u16(&r);
    h.window_slots = sky_read_u16(&r);
    ok &= take_strategy(sky_read_u8(&r), h.window_planes, h.window_slots, &h.strategy);
    h.replicas = sky_read_u8(&r);
    h.parity = sky_read_u8(&r);
    h.level = sky_read_u8(&r);
    h.named = h.level & HEAD_NAMED;
    h.level &= (uint8_t)~HEAD_NAMED;
    h.version = sky_read_u64(&r);
    if (!ok || !sky_reader_done(&r) || !number_ok(h.chunk_count) || h.level > 15)
        return SKY_E_CORRUPT;
    *out = h;
    return SKY_OK;
}
