/* Proves that every message comes back as it was sent, that its bytes are the ones written down in
 * docs/formats/wire.md, and that damaged, truncated and foreign bytes are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/prng.h"
#include "wire/golden_fixture.h"
#include "wire/message.h"
#include "wire/packet.h"

static const uint8_t data[] = "a chunk of a block";

static sky_chunk_facts sample_facts(void) {
    return (sky_chunk_facts){.set_ms = 1790000000123,
                             .centre = {3, 4},
                             .first = {2, 5},
                             .next = {1, 6},
                             .chunk_count = 9,
                             .window_planes = 5,
                             .window_slots = 3,
                             .strategy = SKY_PLACE_ROTATION_HOP};
}

static void carry_chunk(sky_message *m) {
    m->data = data;
    m->data_bytes = sizeof data;
    m->facts.checksum = sky_chunk_checksum(&m->id, data, sizeof data);
}

static void sample_set_if(sky_message *m) {
    m->id.number = 0;
    m->facts = sample_facts();
    m->facts.copies = 3;
    m->expected = 76;
    m->name = 0x8877665544332211;
    carry_chunk(m);
}

/* One message of a type, every field of that type set to something of its own. */
static sky_message sample(sky_wire_type type) {
    sky_message m = {.type = type, .request = 0x1122334455667788u};
    for (size_t i = 0; i < SKY_KEY_BYTES; i++)
        m.id.key.bytes[i] = (uint8_t)(i + 1);
    m.id.version = 77;
    m.id.number = 3;
    switch (type) {
    case SKY_WIRE_SET:
    case SKY_WIRE_MIGRATE:
    case SKY_WIRE_MOVE:
        m.facts = sample_facts();
        m.facts.pinned = type != SKY_WIRE_MIGRATE;
        m.facts.spare = type != SKY_WIRE_SET;
        m.facts.copies = type == SKY_WIRE_SET ? 2 : 16;
        m.copy = type == SKY_WIRE_MIGRATE;
        m.stride = type == SKY_WIRE_MOVE ? 2 : 0;
        m.last = type == SKY_WIRE_MOVE ? 9 : 0;
        if (type == SKY_WIRE_MOVE)
            break;
        carry_chunk(&m);
        break;
    case SKY_WIRE_SET_IF:
        sample_set_if(&m);
        break;
    case SKY_WIRE_CHUNK:
        m.spent_ns = 2000000;
        carry_chunk(&m);
        break;
    case SKY_WIRE_SET_ACK:
    case SKY_WIRE_MIGRATE_ACK:
        m.spent_ns = 2000000;
        m.outcome = SKY_STORED_EVICTED;
        m.evicted = (sky_chunk_id){m.id.key, 12, 5};
        break;
    case SKY_WIRE_MISS:
        m.spent_ns = 5;
        break;
    case SKY_WIRE_HAS_REPLY:
        m.spent_ns = 5;
        m.present = 0x8000000000000005;
        break;
    case SKY_WIRE_DROP:
    case SKY_WIRE_PIN:
    case SKY_WIRE_HAS:
    case SKY_WIRE_MEND:
        m.stride = 9;
        m.last = 21;
        m.facts.pinned = type == SKY_WIRE_PIN;
        break;
    case SKY_WIRE_COPIES:
        m.digest = 0x0123456789abcdef;
        m.differs = true;
        break;
    case SKY_WIRE_PURGE:
        m.facts.chunk_count = 9;
        m.hops = 4;
        break;
    case SKY_WIRE_ROW_ACK:
        m.spent_ns = 5;
        m.moved = 6;
        break;
    case SKY_WIRE_STAT_REPLY:
        for (int i = 0; i < SKY_STAT_COUNT; i++)
            m.stat[i] = 1000u + (unsigned)i;
        break;
    default:;
    }
    return m;
}

static uint8_t buffer[SKY_WIRE_BYTES_MAX];

static size_t encode(const sky_message *m) {
    size_t bytes = sky_message_encode(m, buffer, sizeof buffer);
    assert_true(bytes > 0);
    assert_int_equal(bytes, sky_message_bytes(m));
    return bytes;
}

static void assert_same(const sky_message *a, const sky_message *b) {
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->request, b->request);
    assert_true(sky_chunk_id_equal(&a->id, &b->id));
    assert_int_equal(a->facts.set_ms, b->facts.set_ms);
    assert_memory_equal(&a->facts.centre, &b->facts.centre, sizeof a->facts.centre);
    assert_memory_equal(&a->facts.first, &b->facts.first, sizeof a->facts.first);
    assert_int_equal(a->facts.chunk_count, b->facts.chunk_count);
    assert_int_equal(a->facts.checksum, b->facts.checksum);
    assert_int_equal(a->facts.window_slots, b->facts.window_slots);
    assert_int_equal(a->facts.strategy, b->facts.strategy);
    assert_int_equal(a->facts.moves, b->facts.moves);
    assert_int_equal(a->facts.pinned, b->facts.pinned);
    assert_int_equal(a->spent_ns, b->spent_ns);
    assert_int_equal(a->outcome, b->outcome);
    assert_true(sky_chunk_id_equal(&a->evicted, &b->evicted));
    assert_true(a->present == b->present && a->digest == b->digest);
    assert_int_equal(a->differs, b->differs);
    assert_int_equal(a->copy, b->copy);
    assert_int_equal(a->older, b->older);
    assert_true(a->expected == b->expected && a->name == b->name);
    assert_int_equal(a->facts.copies ? a->facts.copies : 1, b->facts.copies);
    assert_int_equal(a->stride, b->stride);
    assert_int_equal(a->last, b->last);
    assert_memory_equal(&a->facts.next, &b->facts.next, sizeof a->facts.next);
    assert_int_equal(a->facts.window_planes, b->facts.window_planes);
    assert_int_equal(a->facts.spare, b->facts.spare);
    assert_int_equal(a->hops, b->hops);
    assert_int_equal(a->moved, b->moved);
    assert_memory_equal(a->stat, b->stat, sizeof a->stat);
    assert_int_equal(a->data_bytes, b->data_bytes);
    assert_memory_equal(a->data ? a->data : data, b->data ? b->data : data, a->data_bytes);
}

static void messages_come_back(void **state) {
    (void)state;
    for (int type = SKY_WIRE_SET; type < SKY_WIRE_TYPE_END; type++) {
        sky_message in = sample((sky_wire_type)type), out;
        size_t bytes = encode(&in);
        assert_int_equal(sky_message_decode(buffer, bytes, &out), SKY_OK);
        assert_same(&in, &out);
        assert_int_equal(sky_message_encode(&in, buffer, bytes - 1), 0);
    }
}

/* Extremes that are allowed, and data filled in place. */
static void bounds_come_back(void **state) {
    (void)state;
    sky_message in = sample(SKY_WIRE_SET), out;
    in.facts.strategy = SKY_PLACE_HOP;
    in.facts.window_planes = in.facts.window_slots = 0;
    in.facts.first = (sky_satellite){SKY_PLANES_MAX, SKY_SLOTS_MAX};
    in.facts.set_ms = INT64_MAX;
    in.facts.moves = UINT16_MAX;
    in.id.number = in.facts.chunk_count = 16777215;
    in.id.version = UINT64_MAX;
    in.data_bytes = SKY_WIRE_DATA_BYTES_MAX;
    uint8_t *inside = buffer + sky_message_data_offset(SKY_WIRE_SET);
    memset(inside, 0x3c, in.data_bytes);
    in.data = inside;
    assert_int_equal(encode(&in), 124 + 32768);
    assert_int_equal(sky_message_decode(buffer, 124 + 32768, &out), SKY_OK);
    assert_same(&in, &out);
    in.data_bytes = 0;
    assert_int_equal(sky_message_decode(buffer, encode(&in), &out), SKY_OK);
    assert_int_equal(out.data_bytes, 0);
    in = sample(SKY_WIRE_DROP);
    in.id.number = in.last = 0;
    in.older = true;
    assert_int_equal(sky_message_decode(buffer, encode(&in), &out), SKY_OK);
    assert_same(&in, &out);
    in = sample(SKY_WIRE_MIGRATE_ACK);
    in.outcome = SKY_REMOVED;
    in.evicted = (sky_chunk_id){.number = 0};
    assert_int_equal(sky_message_decode(buffer, encode(&in), &out), SKY_OK);
    assert_same(&in, &out);
}

static void put_check(uint8_t *message, size_t head_bytes) {
    uint64_t seed = sky_checksum(message, 24, 0);
    sky_store_u64(message + 24, sky_checksum(message + 32, head_bytes - 32, seed));
}

/* Any bit before the data flipped is found; a flipped bit of the data is the checksum's to find. */
static void every_flipped_bit_is_found(void **state) {
    (void)state;
    for (int type = SKY_WIRE_SET; type < SKY_WIRE_TYPE_END; type++) {
        sky_message in = sample((sky_wire_type)type), out;
        size_t bytes = encode(&in);
        for (size_t bit = 0; bit < bytes * 8; bit++) {
            buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
            sky_status status = sky_message_decode(buffer, bytes, &out);
            if (status == SKY_OK)
                assert_true(out.data_bytes > 0 &&
                            sky_chunk_checksum(&out.id, out.data, out.data_bytes) !=
                                out.facts.checksum);
            assert_true(status == SKY_OK || status == SKY_E_CORRUPT);
            assert_true(status == SKY_E_CORRUPT || bit / 8 >= bytes - in.data_bytes);
            buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t shorter = 0; shorter < bytes; shorter++)
            assert_int_equal(sky_message_decode(buffer, shorter, &out), SKY_E_CORRUPT);
        assert_int_equal(sky_message_decode(buffer, bytes + 1, &out), SKY_E_CORRUPT);
    }
}

/* A value no sender may send: where in the message, in how many bytes. */
static const struct {
    sky_wire_type type;
    size_t offset;
    size_t bytes;
    uint64_t value;
} refused[] = {
    {SKY_WIRE_GET, 0, 4, 0x12345678},
    {SKY_WIRE_GET, 4, 1, 3},
    {SKY_WIRE_GET, 4, 1, 5},
    {SKY_WIRE_GET, 5, 1, 0},
    {SKY_WIRE_GET, 5, 1, SKY_WIRE_TYPE_END},
    {SKY_WIRE_GET, 5, 1, SKY_WIRE_SET},
    {SKY_WIRE_GET, 6, 2, 1},
    {SKY_WIRE_SET, 6, 2, 64},
    {SKY_WIRE_MOVE, 6, 2, 64},
    {SKY_WIRE_MIGRATE, 6, 2, 128},
    {SKY_WIRE_PIN, 6, 2, 2},
    {SKY_WIRE_GET, 8, 4, 75},
    {SKY_WIRE_GET, 12, 4, 1},
    {SKY_WIRE_SET, 12, 4, UINT32_MAX},
    {SKY_WIRE_GET, 72, 4, 16777216},
    {SKY_WIRE_SET, 83, 1, 0x80},
    {SKY_WIRE_SET, 84, 2, 0},
    {SKY_WIRE_SET, 86, 2, 4097},
    {SKY_WIRE_SET, 88, 2, 0},
    {SKY_WIRE_SET, 92, 2, 0},
    {SKY_WIRE_SET, 96, 4, 2},
    {SKY_WIRE_SET, 96, 4, 16777216},
    {SKY_WIRE_SET, 100, 2, 2},
    {SKY_WIRE_SET, 102, 2, 2},
    {SKY_WIRE_SET, 102, 2, 0},
    {SKY_WIRE_SET, 102, 2, 4097},
    {SKY_WIRE_SET, 104, 1, 4},
    {SKY_WIRE_SET, 104, 1, 1},
    {SKY_WIRE_SET, 105, 1, 1},
    {SKY_WIRE_SET, 116, 4, 1},
    {SKY_WIRE_SET, 120, 4, 18},
    {SKY_WIRE_SET_ACK, 84, 4, 3},
    {SKY_WIRE_SET_ACK, 84, 4, 0},
    {SKY_WIRE_SET_ACK, 88, 4, 16777216},
    {SKY_WIRE_CHUNK, 92, 4, 1},
    {SKY_WIRE_HAS, 76, 4, 0},
    {SKY_WIRE_HAS, 80, 4, 3 + 64 * 9},
    {SKY_WIRE_MEND, 76, 4, 0},
    {SKY_WIRE_COPIES, 84, 4, 2},
    {SKY_WIRE_SET_ACK, 84, 4, 4}, /* that names a chunk */
    {SKY_WIRE_SET_ACK, 84, 4, 5},
    {SKY_WIRE_SET_ACK, 84, 4, 6},
    {SKY_WIRE_MIGRATE_ACK, 84, 4, 4},
    {SKY_WIRE_SET_IF, 72, 4, 1},
    {SKY_WIRE_SET_IF, 64, 8, 0},
    {SKY_WIRE_SET_IF, 108, 8, 77},
    {SKY_WIRE_SET_IF, 116, 8, 0},
    {SKY_WIRE_SET_IF, 132, 4, 1},
    {SKY_WIRE_DROP, 6, 2, 0x80}, /* of chunks */
    {SKY_WIRE_PIN, 6, 2, 0x80},
    {SKY_WIRE_DROP, 76, 4, 0},
    {SKY_WIRE_DROP, 80, 4, 2},
    {SKY_WIRE_DROP, 80, 4, 16777216},
    {SKY_WIRE_PURGE, 76, 4, 0},
    {SKY_WIRE_PURGE, 76, 4, 2},
    {SKY_WIRE_PURGE, 80, 4, 8193},
    {SKY_WIRE_MOVE, 104, 1, 1},
    {SKY_WIRE_MOVE, 108, 4, 0},
    {SKY_WIRE_MOVE, 112, 4, 2},
    {SKY_WIRE_ROW_ACK, 84, 4, 16777216},
    {SKY_WIRE_ROW_ACK, 88, 4, 1},
};

/* A value no sender may send, its check made right: refused for what it is. */
static void values_out_of_range_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        sky_message in = sample(refused[i].type), out;
        size_t bytes = encode(&in);
        for (size_t b = 0; b < refused[i].bytes; b++)
            buffer[refused[i].offset + b] = (uint8_t)(refused[i].value >> 8 * b);
        put_check(buffer, bytes - in.data_bytes);
        if (sky_message_decode(buffer, bytes, &out) != SKY_E_CORRUPT)
            fail_msg("case %zu was taken", i);
    }
}

/* The samples, in order, are the first accepted ones. */
static void golden_vectors_hold(void **state) {
    (void)state;
    sky_golden g;
    sky_golden_open(&g, "tests/golden/wire.txt");
    while (sky_golden_next(&g)) {
        sky_message m;
        bool good = sky_message_decode(g.bytes, g.byte_count, &m) == SKY_OK;
        assert_int_equal(good, g.accept);
        if (!good)
            continue;
        sky_message in = sample((sky_wire_type)g.accepted);
        assert_int_equal(encode(&in), g.byte_count);
        assert_memory_equal(buffer, g.bytes, g.byte_count);
    }
    assert_int_equal(g.accepted, SKY_WIRE_TYPE_END - 1);
    assert_true(g.rejected >= 8);
}

/* A PURGE that fills its datagram; then each thing that may not be in its data, its check right. */
static void a_purge_names_many_blocks(void **state) {
    (void)state;
    static uint8_t blocks[(SKY_LOST_BLOCKS_MAX + 1) * SKY_LOST_BLOCK_BYTES];
    for (uint32_t i = 0; i <= SKY_LOST_BLOCKS_MAX; i++) {
        sky_lost_block b = {.version = i, .chunk_count = i + 1, .hops = i}, back;
        memset(b.key.bytes, (int)i + 1, SKY_KEY_BYTES);
        sky_lost_block_encode(&b, blocks + (size_t)i * SKY_LOST_BLOCK_BYTES);
        sky_lost_block_decode(blocks + (size_t)i * SKY_LOST_BLOCK_BYTES, &back);
        assert_memory_equal(&b, &back, sizeof b);
    }
    sky_message in = sample(SKY_WIRE_PURGE), out;
    in.data = blocks;
    in.data_bytes = SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES;
    size_t bytes = encode(&in);
    assert_true(bytes <= SKY_PACKET_PIECE_MAX);
    assert_int_equal(sky_message_decode(buffer, bytes, &out), SKY_OK);
    assert_same(&in, &out);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sky_message_decode(buffer, bytes, &out), SKY_E_CORRUPT);
        buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    static const uint32_t lengths[] = {1, SKY_LOST_BLOCK_BYTES - 1, SKY_LOST_BLOCK_BYTES + 1,
                                       (SKY_LOST_BLOCKS_MAX + 1) * SKY_LOST_BLOCK_BYTES};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        in.data_bytes = lengths[i];
        assert_int_equal(sky_message_decode(buffer, encode(&in), &out), SKY_E_CORRUPT);
    }
    in.data_bytes = SKY_LOST_BLOCK_BYTES;
    static const sky_lost_block wrong[] = {
        {.chunk_count = 0}, {.chunk_count = 16777216}, {.chunk_count = 1, .hops = 8193}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sky_lost_block_encode(&wrong[i], blocks);
        assert_int_equal(sky_message_decode(buffer, encode(&in), &out), SKY_E_CORRUPT);
    }
}

static void noise_is_refused(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 3);
    for (int i = 0; i < 20000; i++) {
        size_t bytes = (size_t)sky_prng_below(&prng, 200);
        for (size_t b = 0; b < bytes; b++)
            buffer[b] = (uint8_t)sky_prng_u64(&prng);
        sky_message out;
        assert_int_equal(sky_message_decode(buffer, bytes, &out), SKY_E_CORRUPT);
    }
}

static void checksums_name_their_chunk(void **state) {
    (void)state;
    sky_chunk_id id = sample(SKY_WIRE_GET).id, other = id;
    uint64_t sum = sky_chunk_checksum(&id, data, sizeof data);
    other.number++;
    assert_true(sky_chunk_checksum(&other, data, sizeof data) != sum);
    other = id;
    other.version++;
    assert_true(sky_chunk_checksum(&other, data, sizeof data) != sum);
    other = id;
    other.key.bytes[31] ^= 1;
    assert_true(sky_chunk_checksum(&other, data, sizeof data) != sum);
}

static sky_block_head sample_head(void) {
    return (sky_block_head){.version = 77,
                            .set_ms = 1790000000123,
                            .centre = {3, 4},
                            .before_ms = 1780000000123,
                            .before_centre = {3, 9},
                            .payload_bytes = 3040870,
                            .chunk_bytes = 6144,
                            .chunk_count = 495,
                            .servers = 9,
                            .window_planes = 3,
                            .window_slots = 5,
                            .strategy = SKY_PLACE_ROTATION,
                            .replicas = 2,
                            .parity = 3,
                            .level = 7,
                            .moves = 40000};
}

/* The later move counts, whatever time it names, also where the count begins again; of as many
 * moves, the later time. */
static void the_later_move_counts(void **state) {
    (void)state;
    static const struct {
        uint16_t moves;
        int64_t set_ms;
        uint16_t than_moves;
        int64_t than_set_ms;
        bool later;
    } cases[] = {{0, 5, 0, 4, true},     {0, 4, 0, 5, false},    {0, 4, 0, 4, false},
                 {2, 1, 1, 9, true},     {1, 9, 2, 1, false},    {0, 1, UINT16_MAX, 9, true},
                 {9, 1, 65530, 9, true}, {65530, 9, 9, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sky_chunk_facts a = {.moves = cases[i].moves, .set_ms = cases[i].set_ms};
        sky_chunk_facts b = {.moves = cases[i].than_moves, .set_ms = cases[i].than_set_ms};
        if (sky_facts_later(&a, &b) != cases[i].later)
            fail_msg("case %zu", i);
    }
}

static void heads_come_back(void **state) {
    (void)state;
    sky_block_head in = sample_head(), out;
    uint8_t bytes[SKY_HEAD_BYTES + 1] = {0};
    sky_head_encode(&in, bytes);
    assert_int_equal(sky_head_decode(bytes, SKY_HEAD_BYTES, &out), SKY_OK);
    uint8_t again[SKY_HEAD_BYTES];
    sky_head_encode(&out, again);
    assert_memory_equal(bytes, again, SKY_HEAD_BYTES);
    assert_int_equal(out.payload_bytes, in.payload_bytes);
    assert_int_equal(out.before_centre.slot, 9);
    assert_int_equal(out.parity, 3);
    assert_int_equal(out.chunk_bytes, 6144);
    assert_int_equal(out.moves, 40000);
    assert_int_equal(sky_head_decode(bytes, SKY_HEAD_BYTES - 1, &out), SKY_E_CORRUPT);
    assert_int_equal(sky_head_decode(bytes, SKY_HEAD_BYTES + 1, &out), SKY_E_CORRUPT);
    static const struct {
        size_t offset;
        uint8_t value;
    } wrong[] = {{7, 0x80}, {15, 0x80}, {16, 0}, {19, 0xff}, {20, 0}, {35, 1},
                 {40, 2},   {42, 0},    {44, 4}, {44, 1},    {47, 16}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t was = bytes[wrong[i].offset];
        bytes[wrong[i].offset] = wrong[i].value;
        if (sky_head_decode(bytes, SKY_HEAD_BYTES, &out) != SKY_E_CORRUPT)
            fail_msg("case %zu was taken", i);
        bytes[wrong[i].offset] = was;
    }
}

/* `message_test print` writes the golden accepts: for when the format gets a new version. */
static int print_samples(void) {
    static const char *const names[] = {
        "",          "set",     "set-ack", "get",        "chunk",       "miss",  "has",
        "has-reply", "drop",    "pin",     "migrate",    "migrate-ack", "purge", "gone",
        "move",      "row-ack", "stat",    "stat-reply", "copies",      "mend",  "set-if"};
    for (int type = SKY_WIRE_SET; type < SKY_WIRE_TYPE_END; type++) {
        sky_message in = sample((sky_wire_type)type);
        size_t bytes = encode(&in);
        sky_golden_print(names[type], buffer, bytes);
    }
    return 0;
}

/* Only a chunk that is handed on has a pin with an age. */
static void the_age_of_a_pin_goes_along(void **state) {
    (void)state;
    static const sky_wire_type types[] = {SKY_WIRE_MIGRATE, SKY_WIRE_SET};
    for (size_t i = 0; i < 4; i++) {
        sky_message m = sample(types[i % 2]), out;
        m.facts.pinned = i < 2;
        m.facts.pin_hour = 0xa5;
        size_t bytes = encode(&m);
        assert_int_equal(sky_message_decode(buffer, bytes, &out), SKY_OK);
        assert_int_equal(out.facts.pin_hour, i == 0 ? 0xa5 : 0);
        assert_int_equal(out.facts.pinned, i < 2);
    }
}

/* What a transport reads of a message without decoding it. */
static void the_chunk_in_a_message_is_named(void **state) {
    (void)state;
    for (int type = 1; type < SKY_WIRE_TYPE_END; type++) {
        sky_message m = sample((sky_wire_type)type), found;
        size_t bytes = encode(&m);
        memset(&found, 0xee, sizeof found);
        if (type != SKY_WIRE_SET && type != SKY_WIRE_CHUNK && type != SKY_WIRE_MIGRATE &&
            type != SKY_WIRE_SET_IF) {
            assert_false(sky_message_chunk(buffer, bytes, &found));
            continue;
        }
        assert_true(sky_message_chunk(buffer, bytes, &found));
        assert_int_equal(found.type, type);
        assert_true(sky_chunk_id_equal(&found.id, &m.id));
        assert_int_equal(found.data_bytes, sizeof data);
        assert_memory_equal(found.data, data, sizeof data);
        assert_false(sky_message_chunk(buffer, bytes - 1, &found));
        assert_false(sky_message_chunk(buffer, bytes + 1, &found));
        assert_false(sky_message_chunk(buffer, SKY_WIRE_HEAD_BYTES - 1, &found));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_back),
        cmocka_unit_test(bounds_come_back),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(the_chunk_in_a_message_is_named),
        cmocka_unit_test(golden_vectors_hold),
        cmocka_unit_test(a_purge_names_many_blocks),
        cmocka_unit_test(noise_is_refused),
        cmocka_unit_test(checksums_name_their_chunk),
        cmocka_unit_test(heads_come_back),
        cmocka_unit_test(the_later_move_counts),
        cmocka_unit_test(the_age_of_a_pin_goes_along),
    };
    if (argc == 2 && strcmp(argv[1], "print") == 0)
        return print_samples();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
