/* Fuzzes the ground session: an input says what is asked of it, which satellites answer and how
 * late, and what liars say: honest answers with a byte changed, answers of any type to what was
 * asked, anything at all. Checks of messages are made right, those of chunks stay as they were.
 * Never a wrong byte is delivered where chunks are sealed or their places known; and when all fall
 * silent every request ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "ground/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CHUNK        256
#define MESSAGE_MAX  (SKY_WIRE_HEAD_BYTES + SKY_WIRE_BODY_BYTES_MAX + 2 * CHUNK)
#define LETTERS      64 /* a power of two: the last so many are kept */
#define KEYS         4
#define REQUESTS_MAX 8
#define STEPS_MAX    512
#define END_NS       SKY_SECONDS(3600)
#define HEAD_MIN     32 /* of a message: what its check does not cover begins there */

typedef struct {
    sky_satellite to;
    size_t bytes;
    uint8_t data[MESSAGE_MAX];
} letter;

typedef struct {
    sky_session *session;
    sky_time now;
    bool trusting; /* it looks for heads, and nothing is sealed: a liar can make one up */
    letter sent[LETTERS], stored[LETTERS];
    uint32_t sent_count, stored_count;
    uint32_t open;
} ground;

typedef struct {
    const uint8_t *at, *end;
} input;

static uint8_t next(input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static uint32_t next16(input *in) {
    uint32_t high = next(in);
    return high << 8 | next(in);
}

/* ---- the host ---- */

/* A context is the key's number, and in front of it where the range begins. */
static uint8_t byte_at(const void *context, uint64_t offset) {
    offset += (uintptr_t)context >> 8;
    return (uint8_t)((uintptr_t)context % 256 * 31 + offset * 7 + (offset >> 8));
}

static bool fetch(void *host, void *context, uint64_t offset, void *data, size_t bytes) {
    (void)host;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = byte_at(context, offset + i);
    return true;
}

static bool deliver(void *host, void *context, uint64_t offset, const void *data, size_t bytes) {
    const ground *g = host;
    for (size_t i = 0; i < bytes; i++)
        assert(g->trusting || ((const uint8_t *)data)[i] == byte_at(context, offset + i));
    return true;
}

/* ---- the sky ---- */

static void keep(letter *list, uint32_t *count, const sky_datagram *d) {
    letter *l = &list[(*count)++ % LETTERS];
    l->to = d->to;
    l->bytes = d->bytes;
    memcpy(l->data, d->data, d->bytes);
}

static void drain(ground *g) {
    static uint8_t buffer[SKY_WIRE_BYTES_MAX];
    sky_datagram d = {.data = buffer, .bytes_max = sizeof buffer};
    sky_message m;
    sky_result r;
    while (sky_session_output(g->session, g->now, &d)) {
        sky_status status = sky_message_decode(d.data, d.bytes, &m);
        assert(status == SKY_OK && d.bytes <= MESSAGE_MAX);
        keep(g->sent, &g->sent_count, &d);
    }
    for (; sky_session_result(g->session, &r); g->open--)
        assert(g->open > 0);
}

/* Time passes only as the session asks. */
static void pass(ground *g, sky_time until) {
    for (sky_time wake; (wake = sky_session_wake(g->session)) <= until;) {
        g->now = wake > g->now ? wake : g->now;
        sky_session_input(g->session, g->now, NULL);
        drain(g);
    }
    g->now = until > g->now ? until : g->now;
}

static void say(ground *g, uint8_t *message, size_t bytes, sky_satellite from, bool opened) {
    uint8_t *exact = malloc(bytes ? bytes : 1); /* a read past the end shows under a sanitizer */
    assert(exact);
    memcpy(exact, message, bytes);
    sky_datagram d = {
        .from = from, .to = SKY_GROUND, .data = exact, .bytes = bytes, .opened = opened};
    sky_session_input(g->session, g->now, &d);
    free(exact);
}

static void mend_check(uint8_t *message, size_t bytes) {
    if (bytes < HEAD_MIN || sky_load_u32(message + 12) > bytes - HEAD_MIN)
        return;
    uint32_t data_bytes = sky_load_u32(message + 12);
    size_t head_bytes = message[5] == SKY_WIRE_PURGE ? bytes : bytes - data_bytes;
    uint64_t seed = sky_checksum(message, 24, 0);
    sky_store_u64(message + 24, sky_checksum(message + HEAD_MIN, head_bytes - HEAD_MIN, seed));
}

/* The chunk asked for; of a head whose version is not named, the newest. */
static bool find_stored(const ground *g, const sky_chunk_id *id, sky_message *out) {
    sky_message m;
    bool found = false;
    uint32_t count = g->stored_count < LETTERS ? g->stored_count : LETTERS;
    for (uint32_t i = 0; i < count; i++) {
        bool any = id->number == 0 && id->version == SKY_VERSION_ANY;
        sky_status status = sky_message_decode(g->stored[i].data, g->stored[i].bytes, &m);
        assert(status == SKY_OK);
        if (memcmp(&m.id.key, &id->key, sizeof id->key) != 0 || m.id.number != id->number ||
            (!any && m.id.version != id->version) || (found && m.id.version < out->id.version))
            continue;
        *out = m;
        found = true;
    }
    return found;
}

/* What an honest satellite would say to a letter; 0 bytes: nothing. */
static size_t honest(ground *g, const letter *l, uint8_t out[MESSAGE_MAX]) {
    sky_message asked, held;
    sky_status status = sky_message_decode(l->data, l->bytes, &asked);
    assert(status == SKY_OK);
    sky_message m = {.request = asked.request, .id = asked.id, .spent_ns = SKY_MS(1)};
    if (asked.type == SKY_WIRE_SET) {
        sky_datagram d = {.to = l->to, .data = (uint8_t *)(uintptr_t)l->data, .bytes = l->bytes};
        m.type = SKY_WIRE_SET_ACK;
        keep(g->stored, &g->stored_count, &d);
    } else if (asked.type == SKY_WIRE_GET && find_stored(g, &asked.id, &held)) {
        m.type = SKY_WIRE_CHUNK;
        m.id = held.id;
        m.facts.checksum = held.facts.checksum;
        m.data = held.data;
        m.data_bytes = held.data_bytes;
    } else if (asked.type == SKY_WIRE_GET) {
        m.type = SKY_WIRE_MISS;
    } else if (asked.type == SKY_WIRE_HAS) {
        m.type = SKY_WIRE_HAS_REPLY;
        m.present = find_stored(g, &asked.id, &held);
    } else if (asked.type == SKY_WIRE_MOVE) {
        m.type = SKY_WIRE_ROW_ACK;
        m.moved = 1;
    } else if (asked.type == SKY_WIRE_STAT) {
        m.type = SKY_WIRE_STAT_REPLY;
    } else {
        return 0;
    }
    return sky_message_encode(&m, out, MESSAGE_MAX);
}

/* The head of what was asked, and behind it whatever the input has. */
static size_t made_up(const letter *l, input *in, uint8_t out[MESSAGE_MAX]) {
    memcpy(out, l->data, SKY_WIRE_HEAD_BYTES);
    out[5] = next(in);
    uint32_t data_bytes = next16(in) % (2 * CHUNK + 1);
    size_t body = next(in) % (SKY_WIRE_BODY_BYTES_MAX + 1);
    size_t bytes = SKY_WIRE_HEAD_BYTES + body + data_bytes;
    for (size_t i = SKY_WIRE_HEAD_BYTES; i < bytes; i++)
        out[i] = next(in);
    sky_store_u32(out + 8, (uint32_t)bytes);
    sky_store_u32(out + 12, data_bytes);
    mend_check(out, bytes);
    return bytes;
}

/* ---- what the input says ---- */

static sky_key key_of(uint32_t number) {
    return (sky_key){.bytes = {(uint8_t)number, 9, 9}};
}

static void ask(ground *g, input *in) {
    static const sky_op ops[] = {SKY_OP_PUT,    SKY_OP_GET,      SKY_OP_GET, SKY_OP_HAS,
                                 SKY_OP_REMOVE, SKY_OP_PREFETCH, SKY_OP_PIN, SKY_OP_UNPIN};
    static sky_key chain[KEYS];
    for (uint32_t i = 0; i < KEYS; i++)
        chain[i] = key_of(i);
    uint8_t choice = next(in);
    uint32_t size = next16(in), number = choice >> 3 & 3;
    bool stat = choice & 0x80 && choice & 0x40;
    sky_op op = stat ? SKY_OP_HAS : ops[choice & 7];
    sky_range range = choice & 0x20 ? (sky_range){size % 4000, 500} : (sky_range){0};
    uintptr_t begin = op == SKY_OP_GET ? range.offset : 0;
    sky_request r = {.op = op,
                     .key = key_of(number),
                     .context = (void *)(begin << 8 | number),
                     .wall_ms = 1000000 + g->now / 1000000,
                     .payload_bytes = 1 + size % (12 * CHUNK),
                     .range = range,
                     .room_bytes = UINT64_MAX,
                     .chain = op == SKY_OP_HAS && !stat ? chain : NULL,
                     .chain_count = op == SKY_OP_HAS ? KEYS : 0,
                     .at_ms = 1000000 + 1000 * (int64_t)size,
                     .stat = stat,
                     .satellite = {1 + size % 5, 1 + size / 5 % 19}};
    if (number > 0 && choice & 0x40)
        r.parent = key_of(number - 1);
    g->open += sky_session_submit(g->session, g->now, &r) == SKY_OK;
}

static void step(ground *g, input *in) {
    uint8_t message[MESSAGE_MAX];
    uint8_t choice = next(in);
    uint32_t back = g->sent_count ? next(in) % (g->sent_count < LETTERS ? g->sent_count : LETTERS)
                                  : 0;
    const letter *l = &g->sent[(g->sent_count - 1 - back) % LETTERS];
    size_t bytes = 0;
    bool opened = false;
    sky_satellite from = choice & 0x80 ? (sky_satellite){1 + back % 5, 1 + back % 19} : l->to;
    if (choice % 6 == 0) {
        ask(g, in);
    } else if (choice % 6 == 1) {
        uint32_t wait = next(in);
        pass(g, g->now + (sky_time)(wait * wait) * 100000);
    } else if (g->sent_count > 0 && choice % 6 == 2) {
        bytes = honest(g, l, message);
        opened = true;
    } else if (g->sent_count > 0 && choice % 6 == 3) {
        bytes = honest(g, l, message);
        if (bytes > 0)
            message[next16(in) % bytes] ^= next(in);
        mend_check(message, bytes);
    } else if (g->sent_count > 0 && choice % 6 == 4) {
        bytes = made_up(l, in, message);
    } else if (choice % 6 == 5) {
        bytes = next(in);
        for (size_t i = 0; i < bytes; i++)
            message[i] = next(in);
    }
    if (bytes > 0)
        say(g, message, bytes, from, opened);
    drain(g);
}

static sky_session *open_session(ground *g, const sky_frame *frame, input *in) {
    uint8_t choice = next(in), more = next(in);
    sky_session_config config = {.frame = frame,
                                 .chunk_bytes = CHUNK,
                                 .satellite_slots = 1 + more % 32,
                                 .link_bits_s = 1000000000,
                                 .processing_ns = SKY_MS(1),
                                 .late_ns = SKY_MS(30),
                                 .blocks_max = KEYS - 1,
                                 .requests_max = REQUESTS_MAX,
                                 .operations_max = 16,
                                 .retries_max = 3,
                                 .lookup = (sky_lookup_kind)((choice & 3) % 3),
                                 .eviction = more & 15,
                                 .gossip_hops = 4,
                                 .replicas = choice & 0x10 ? 2 : 1,
                                 .parity = choice & 0x10 ? 0 : choice >> 5 & 3,
                                 .session_id = 5,
                                 .sealed = choice & 0x80,
                                 .host = g,
                                 .fetch = fetch,
                                 .deliver = deliver};
    g->trusting = config.lookup != SKY_LOOKUP_INDEX && !config.sealed;
    sky_session *s = NULL;
    sky_status status = sky_session_create(&config, &s);
    assert(status == SKY_OK);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static sky_frame frame;
    static ground g;
    input in = {data, data + bytes};
    if (!frame.servers) {
        sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
        sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
        sky_turning turning = {.start_ms = 1000000, .rotation_ns = SKY_SECONDS(10)};
        sky_status status = sky_frame_init(&frame, &c, &p, (sky_satellite){3, 4}, &turning, NULL);
        assert(status == SKY_OK);
    }
    g.sent_count = g.stored_count = g.open = 0;
    g.now = 0;
    g.session = open_session(&g, &frame, &in);
    for (int i = 0; i < STEPS_MAX && in.at < in.end; i++)
        step(&g, &in);
    drain(&g);
    for (sky_time end = g.now + END_NS; g.open > 0 && g.now < end;)
        pass(&g, g.now + SKY_SECONDS(10));
    assert(g.open == 0);
    sky_session_destroy(g.session);
    return 0;
}
