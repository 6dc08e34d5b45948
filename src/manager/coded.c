#include "manager/coded.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "codec/stream.h"
#include "tier/spans.h"

#define ALIGN_BYTES  64u
#define DECODE_BYTES (2 * SKY_DECODER_BYTES) /* of two streams at once */

/* What a head says. Containers follow each other from `containers_at`, each
 * aligned. */
typedef struct {
    uint64_t containers_at;
    uint64_t end;
    uint32_t bytes[SKY_LAYER_GROUPS_MAX]; /* of the containers, in stored order */
} coded_head;

static uint64_t align_up(uint64_t bytes) {
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* ---- shapes ---- */

/* The fewest equal parts of a head that are narrow enough for the codec; 0: there are none. Latent
 * attention has one head of more channels than that. Heads mean nothing to the codec but channels
 * that are coded together, and a head's elements are contiguous, so parts of it are heads. */
static uint32_t parts_of_head(uint32_t k_dim, uint32_t v_dim) {
    uint32_t narrow = k_dim < v_dim ? k_dim : v_dim, wide = k_dim < v_dim ? v_dim : k_dim;
    for (uint32_t parts = (wide + SKY_HEAD_DIM_MAX - 1) / SKY_HEAD_DIM_MAX; parts <= narrow;
         parts++)
        if (k_dim % parts == 0 && v_dim % parts == 0)
            return parts;
    return 0;
}

/* Heads and dimensions of a group's layers; false: the codec has no shape for them. */
static bool shape_of(const sky_layer_group *g, sky_skv_layer *out) {
    uint32_t heads = g->kv_heads ? g->kv_heads : 1;
    if (g->k_element == SKY_ELEMENT_BYTE || g->v_element == SKY_ELEMENT_BYTE)
        return false;
    uint32_t k = g->k_row_bytes / sky_element_bytes(g->k_element),
             v = g->v_row_bytes / sky_element_bytes(g->v_element);
    if (k % heads != 0 || v % heads != 0 || k > SKY_ROW_ELEMENTS_MAX || v > SKY_ROW_ELEMENTS_MAX)
        return false;
    uint32_t parts = parts_of_head(k / heads, v / heads);
    if (parts == 0)
        return false;
    heads *= parts;
    *out = (sky_skv_layer){heads, k / heads, v / heads, g->k_element, g->v_element};
    return true;
}

static bool profile_fits(const sky_coded *c) {
    if (!c->profile)
        return true;
    bool fits = sky_profile_layer_count(c->profile) == c->layer_count;
    for (uint32_t i = 0; fits && i < c->layer_count; i++) {
        sky_profile_layer layer;
        fits = sky_profile_layer_get(c->profile, i, &layer) == SKY_OK &&
               layer.kv_heads == c->layers[i].kv_heads && layer.k_dim == c->layers[i].k_dim &&
               layer.v_dim == c->layers[i].v_dim;
    }
    return fits;
}

static sky_skv_shape container_shape(const sky_coded *c, uint32_t first_token) {
    return (sky_skv_shape){.token_count = c->payload.token_count,
                           .first_position = first_token,
                           .layer_count = c->layer_count,
                           .layers = c->layers};
}

static uint32_t sections_of(const sky_coded *c, uint32_t stored_group) {
    return 2 * c->payload.layout.groups[c->payload.stored_order[stored_group]].layer_count;
}

/* ---- encoding ---- */

static sky_status put_section(const sky_coded *c, sky_skv_writer *w, uint32_t section,
                              const sky_encode_options *options, const uint8_t *payload,
                              void *work) {
    sky_payload_section s = sky_payload_section_at(&c->payload, section);
    const sky_skv_layer *layer = &c->layers[c->layer_of[section]];
    const sky_tensor rows = sky_tensor_packed(
        (void *)(payload + s.offset), s.is_v ? layer->v_element : layer->k_element, layer->kv_heads,
        s.is_v ? layer->v_dim : layer->k_dim, 0, c->payload.token_count);
    return sky_skv_put(w, c->layer_of[section], s.is_v ? SKY_KV_V : SKY_KV_K, options, rows, work);
}

static void write_head(const sky_coded *c, const coded_head *head, sky_coding coding,
                       uint8_t *out) {
    memset(out, 0, SKY_CODED_HEAD_BYTES);
    sky_writer w = sky_writer_over(out, SKY_CODED_HEAD_BYTES);
    sky_write_u32(&w, SKY_CODED_MAGIC);
    sky_write_u16(&w, SKY_CODED_VERSION);
    sky_write_u16(&w, (uint16_t)c->payload.layout.group_count);
    sky_write_u32(&w, c->payload.header_bytes);
    sky_write_u32(&w, coding);
    for (uint32_t g = 0; g < SKY_LAYER_GROUPS_MAX; g++)
        sky_write_u32(&w, head->bytes[g]);
    sky_store_u64(out + SKY_CODED_HEAD_BYTES - 8, sky_checksum(out, SKY_CODED_HEAD_BYTES - 8, 0));
}

/* A coded value while it is written: containers first, as their lengths stand in the head. */
typedef struct {
    const sky_coded *c;
    uint8_t *dst;
    uint64_t dst_bytes_max;
    uint64_t at;
    coded_head head;
    sky_coding coding;
    sky_encode_options options;
    void *work;
} code;

static code code_begin(const sky_coded *c, sky_coding coding, void *dst, uint64_t dst_bytes_max,
                       void *work) {
    uint64_t at = align_up(SKY_CODED_HEAD_BYTES + c->payload.header_bytes);
    return (code){.c = c,
                  .dst = dst,
                  .dst_bytes_max = dst_bytes_max,
                  .at = at,
                  .head = {.containers_at = at},
                  .coding = coding,
                  .options = {.level = (sky_level)(coding - 1)},
                  .work = work};
}

/* Room for the next container. */
static uint64_t code_room(const code *d) {
    return d->at < d->dst_bytes_max ? d->dst_bytes_max - d->at : 0;
}

/* A container of so many bytes was written there. */
static sky_status code_add(code *d, uint32_t group, size_t bytes) {
    if (align_up(bytes) > code_room(d))
        return SKY_E_DST_SMALL;
    d->head.bytes[group] = (uint32_t)bytes;
    memset(d->dst + d->at + bytes, 0, align_up(bytes) - bytes);
    d->at += align_up(bytes);
    return SKY_OK;
}

static uint64_t code_end(const code *d, const uint8_t *header) {
    write_head(d->c, &d->head, d->coding, d->dst);
    memcpy(d->dst + SKY_CODED_HEAD_BYTES, header, d->c->payload.header_bytes);
    return d->at;
}

static sky_status encode_group(code *d, uint32_t group, uint32_t first_section,
                               const uint8_t *payload, uint32_t first_token) {
    sky_skv_shape shape = container_shape(d->c, first_token);
    sky_skv_writer w;
    size_t bytes = 0;
    sky_status status = sky_skv_begin(&w, &shape, d->c->profile, d->dst + d->at, code_room(d));
    for (uint32_t i = 0; status == SKY_OK && i < sections_of(d->c, group); i++)
        status = put_section(d->c, &w, first_section + i, &d->options, payload, d->work);
    if (status == SKY_OK)
        status = sky_skv_end(&w, &bytes);
    return status == SKY_OK ? code_add(d, group, bytes) : status;
}

static sky_status encode_block(void *self, sky_coding coding, const void *data, void *dst,
                               uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work) {
    const sky_coded *c = self;
    sky_payload found;
    uint32_t first_token, section = 0;
    sky_status status = sky_payload_header_read(data, c->payload.payload_bytes, &found,
                                                &first_token);
    if (status != SKY_OK || found.payload_bytes != c->payload.payload_bytes ||
        sky_payload_header_check(&c->payload, first_token, data) != SKY_OK)
        return SKY_E_UNSUPPORTED;
    code d = code_begin(c, coding, dst, dst_bytes_max, work);
    d.options.first_token_raw = first_token == 0;
    for (uint32_t g = 0; status == SKY_OK && g < c->payload.layout.group_count; g++) {
        status = encode_group(&d, g, section, data, first_token);
        section += sections_of(c, g);
    }
    if (status == SKY_OK)
        *dst_bytes = code_end(&d, data);
    return status;
}

/* ---- planning ---- */

/* Of an element. What is told of a level is so of f16 and with a calibration. Without one a tile
 * brings means, order and classes of its own, and low levels take up to half a bit more; lossless,
 * f32's low halves are as they were. */
static double likely_bits(const sky_coded *c, sky_coding coding, sky_element element) {
    double bits = sky_level_bits_typical((sky_level)(coding - 1));
    if (coding - 1 == SKY_LEVEL_LOSSLESS && element == SKY_ELEMENT_F32)
        bits += 16;
    return c->profile ? bits : bits + 0.5;
}

/* Bytes of a coded value up to the end of the range, if every stream is as long
 * as they typically are, and a little more. */
static uint64_t likely_bytes(void *self, sky_coding coding, sky_range range) {
    const sky_coded *c = self;
    if (range.bytes == 0 || range.bytes > c->payload.payload_bytes ||
        range.offset > c->payload.payload_bytes)
        return c->codec.coded_bytes_max;
    sky_skv_shape shape = container_shape(c, 0);
    uint64_t end = range.offset + range.bytes;
    double rows = 0;
    uint32_t group_count = 0, group = UINT32_MAX;
    for (uint32_t i = 0; i < c->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&c->payload, i);
        if (s.offset >= end)
            break;
        group_count += s.group != group;
        group = s.group;
        const sky_layer_group *g = &c->payload.layout.groups[s.group];
        sky_element element = s.is_v ? g->v_element : g->k_element;
        rows += (double)s.bytes / sky_element_bytes(element) * likely_bits(c, coding, element) / 8;
    }
    uint64_t fixed = align_up(SKY_CODED_HEAD_BYTES + c->payload.header_bytes) +
                     group_count * (sky_skv_header_bytes(&shape) + ALIGN_BYTES);
    uint64_t likely = fixed + (uint64_t)(rows * 1.1);
    return likely < c->codec.coded_bytes_max ? likely : c->codec.coded_bytes_max;
}

/* ---- decoding ---- */

/* A get under way: where its range stands in the spans. */
typedef struct {
    const sky_coded *c;
    const uint8_t *data;
    uint64_t bytes;
    bool whole;
    sky_range range;
    const sky_span *spans;
    uint32_t span_count;
    uint32_t span; /* the cursor: span, its place in the payload */
    uint64_t span_at;
    uint64_t needed;
    bool foreign;     /* of another calibration, or a codec not known here */
    uint8_t *scratch; /* [section_max] */
    void *work;
} decoding;

/* Copy bytes [at, at + bytes) of the payload, or what the range has of them,
 * into the spans. Calls come in the payload's order. */
static void scatter_bytes(decoding *d, uint64_t at, const uint8_t *data, uint64_t bytes) {
    uint64_t end = d->range.offset + d->range.bytes;
    while (d->span < d->span_count) {
        const sky_span *s = &d->spans[d->span];
        uint64_t span_end = d->span_at + s->bytes;
        uint64_t from = d->span_at > at ? d->span_at : at;
        uint64_t to = span_end < at + bytes ? span_end : at + bytes;
        to = to < end ? to : end;
        if (from < to && s->data)
            memcpy((uint8_t *)s->data + (from - d->span_at), data + (from - at), to - from);
        if (span_end > at + bytes)
            return;
        d->span_at = span_end;
        d->span++;
    }
}

/* Does anybody want part of a section? */
static bool is_section_wanted(const decoding *d, const sky_payload_section *s) {
    uint64_t span_at = d->span_at, end = d->range.offset + d->range.bytes;
    for (uint32_t i = d->span; i < d->span_count && span_at < s->offset + s->bytes && span_at < end;
         span_at += d->spans[i++].bytes)
        if (d->spans[i].data && span_at + d->spans[i].bytes > s->offset)
            return true;
    return false;
}

/* Where a section's rows go. */
typedef struct {
    uint8_t *rows[SKY_STREAM_TOKENS_MAX];
    size_t head_bytes;
} target;

static const sky_skv_layer *layer_at(const decoding *d, uint32_t section) {
    return &d->c->layers[d->c->layer_of[section]];
}

/* Into the spans: they take all of it, each head's elements together, heads at one stride. So pages
 * and strides of an engine are filled without a copy. */
static bool aim_at_spans(const decoding *d, uint32_t section, target *to) {
    sky_payload_section s = sky_payload_section_at(&d->c->payload, section);
    uint32_t heads = layer_at(d, section)->kv_heads, span = d->span;
    uint64_t span_at = d->span_at, head_bytes = s.row_bytes / heads, at = s.offset;
    if (s.offset + s.bytes > d->range.offset + d->range.bytes)
        return false;
    to->head_bytes = head_bytes;
    for (uint32_t t = 0; t < d->c->payload.token_count; t++)
        for (uint32_t h = 0; h < heads; h++, at += head_bytes) {
            while (span < d->span_count && span_at + d->spans[span].bytes <= at)
                span_at += d->spans[span++].bytes;
            const sky_span *into = &d->spans[span];
            if (span == d->span_count || !into->data || span_at > at ||
                span_at + into->bytes < at + head_bytes)
                return false;
            uint8_t *place = (uint8_t *)into->data + (at - span_at);
            if (h == 0)
                to->rows[t] = place;
            if (h == 1 && t == 0 && place > to->rows[0])
                to->head_bytes = (size_t)(place - to->rows[0]);
            if (place != to->rows[t] + h * to->head_bytes)
                return false;
        }
    return true;
}

static void aim_at_scratch(const decoding *d, uint32_t section, target *to) {
    sky_payload_section s = sky_payload_section_at(&d->c->payload, section);
    for (uint32_t t = 0; t < d->c->payload.token_count; t++)
        to->rows[t] = d->scratch + (size_t)t * s.row_bytes;
    to->head_bytes = s.row_bytes / layer_at(d, section)->kv_heads;
}

/* Nothing before byte `at` of the payload comes any more. */
static void pass_spans(decoding *d, uint64_t at) {
    while (d->span < d->span_count && d->span_at + d->spans[d->span].bytes <= at)
        d->span_at += d->spans[d->span++].bytes;
}

/* Are leading bytes up to `end` there? If not they are asked for again from the first on, so what
 * is known to be needed is asked for at once, before any of it is decoded. */
static sky_status have_bytes(decoding *d, uint64_t end) {
    if (end <= d->bytes)
        return SKY_OK;
    d->needed = end;
    return d->whole ? SKY_E_CORRUPT : SKY_PENDING;
}

/* A section's stream, when its bytes are there and right. */
static sky_status open_section(decoding *d, const sky_skv *skv, uint64_t container_at,
                               uint32_t section, const target *to, sky__stream_to *out) {
    const sky_coded *c = d->c;
    uint32_t layer = c->layer_of[section];
    sky_kv kv = sky_payload_section_at(&c->payload, section).is_v ? SKY_KV_V : SKY_KV_K;
    sky_skv_entry entry;
    sky_status status = sky_skv_entry_at(skv, layer, kv, &entry);
    if (status == SKY_OK)
        status = entry.bytes > 0 ? have_bytes(d, container_at + entry.offset + entry.bytes)
                                 : SKY_E_CORRUPT;
    if (status == SKY_OK)
        status = sky_skv_stream_shape(skv, layer, kv, &out->shape);
    if (status != SKY_OK)
        return status;
    out->data = d->data + container_at + entry.offset;
    out->bytes = entry.bytes;
    out->rows = to->rows;
    out->head_bytes = to->head_bytes;
    return sky_skv_stream_check(skv, layer, kv, out->data, out->bytes);
}

static sky_status decode_section(decoding *d, const sky_skv *skv, uint64_t container_at,
                                 uint32_t section) {
    sky_payload_section s = sky_payload_section_at(&d->c->payload, section);
    sky__stream_to stream;
    target to;
    if (!is_section_wanted(d, &s))
        return SKY_OK;
    bool direct = aim_at_spans(d, section, &to);
    if (!direct)
        aim_at_scratch(d, section, &to);
    sky_status status = open_section(d, skv, container_at, section, &to, &stream);
    if (status == SKY_OK)
        status = sky__decode_rows(d->c->profile, &stream, 1, d->work);
    if (status == SKY_OK && !direct)
        scatter_bytes(d, s.offset, d->scratch, s.bytes);
    return status;
}

/* K and V of a layer: at once, where both go straight into place. */
static sky_status decode_layer(decoding *d, const sky_skv *skv, uint64_t container_at,
                               uint32_t section) {
    sky__stream_to both[2];
    target to[2];
    pass_spans(d, sky_payload_section_at(&d->c->payload, section).offset);
    if (!aim_at_spans(d, section, &to[0]) || !aim_at_spans(d, section + 1, &to[1])) {
        sky_status status = decode_section(d, skv, container_at, section);
        return status == SKY_OK ? decode_section(d, skv, container_at, section + 1) : status;
    }
    sky_status status = open_section(d, skv, container_at, section, &to[0], &both[0]);
    if (status != SKY_OK)
        return status;
    sky_status second = open_section(d, skv, container_at, section + 1, &to[1], &both[1]);
    if (second == SKY_OK)
        return sky__decode_rows(d->c->profile, both, 2, d->work);
    status = sky__decode_rows(d->c->profile, both, 1, d->work); /* what is there is of use */
    return status == SKY_OK ? second : status;
}

/* A container must be of our shape before its streams are believed. */
static bool is_ours(const sky_coded *c, const sky_skv *skv, uint32_t first_token) {
    bool ours = skv->token_count == c->payload.token_count && skv->first_position == first_token &&
                skv->layer_count == c->layer_count;
    for (uint32_t i = 0; ours && i < c->layer_count; i++) {
        sky_skv_layer layer;
        ours = sky_skv_layer_at(skv, i, &layer) == SKY_OK &&
               memcmp(&layer, &c->layers[i], sizeof layer) == 0;
    }
    return ours;
}

/* Where the range's last stream of a container ends. */
static uint64_t end_of_streams(const decoding *d, const sky_skv *skv, uint32_t first_section,
                               uint32_t count) {
    uint64_t end = 0;
    for (uint32_t i = first_section; i < first_section + count; i++) {
        sky_payload_section s = sky_payload_section_at(&d->c->payload, i);
        sky_skv_entry e;
        if (s.offset < d->range.offset + d->range.bytes &&
            sky_skv_entry_at(skv, d->c->layer_of[i], s.is_v ? SKY_KV_V : SKY_KV_K, &e) == SKY_OK &&
            e.offset + e.bytes > end)
            end = e.offset + e.bytes;
    }
    return end;
}

static sky_status decode_group(decoding *d, uint32_t stored_group, uint32_t first_section,
                               uint64_t at, uint32_t container_bytes, uint32_t first_token) {
    sky_skv skv;
    size_t header_bytes = 64;
    sky_status status = have_bytes(d, at + header_bytes);
    while (status == SKY_OK) {
        uint64_t there = d->bytes - at;
        status = sky_skv_open_header(d->data + at,
                                     there < container_bytes ? there : container_bytes,
                                     container_bytes, &skv, &header_bytes);
        if (status != SKY_PENDING)
            break;
        status = at + header_bytes > d->bytes ? have_bytes(d, at + header_bytes) : SKY_E_CORRUPT;
    }
    if (status == SKY_OK && !is_ours(d->c, &skv, first_token))
        status = SKY_E_CORRUPT;
    uint32_t count = sections_of(d->c, stored_group);
    if (status == SKY_OK)
        status = have_bytes(d, at + end_of_streams(d, &skv, first_section, count));
    for (uint32_t i = 0; status == SKY_OK && i < count; i += 2)
        status = decode_layer(d, &skv, at, first_section + i);
    d->foreign = status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
    return status;
}

static bool is_coded(const uint8_t *data, uint64_t bytes) {
    return bytes >= SKY_CODED_HEAD_BYTES && sky_load_u32(data) == SKY_CODED_MAGIC;
}

sky_coding sky_coded_coding(const void *data, uint64_t bytes) {
    return is_coded(data, bytes) ? (sky_coding)sky_load_u32((const uint8_t *)data + 12) : 0;
}

static bool read_head(const sky_coded *c, const uint8_t *data, coded_head *out) {
    sky_reader r = sky_reader_over(data, SKY_CODED_HEAD_BYTES);
    bool sound = sky_load_u64(data + SKY_CODED_HEAD_BYTES - 8) ==
                 sky_checksum(data, SKY_CODED_HEAD_BYTES - 8, 0);
    sky_read_u32(&r);
    sound = sky_read_u16(&r) == SKY_CODED_VERSION && sound;
    sound = sky_read_u16(&r) == c->payload.layout.group_count && sound;
    sound = sky_read_u32(&r) == c->payload.header_bytes && sound;
    sky_read_u32(&r);
    *out = (coded_head){.containers_at = align_up(SKY_CODED_HEAD_BYTES + c->payload.header_bytes)};
    out->end = out->containers_at;
    for (uint32_t g = 0; g < SKY_LAYER_GROUPS_MAX; g++) {
        out->bytes[g] = sky_read_u32(&r);
        out->end += align_up(out->bytes[g]);
    }
    return sound && out->end <= c->codec.coded_bytes_max;
}

/* Where the containers end of which the range, up to `end` in the payload, takes all; and then the
 * directory of the one that it takes a part of. */
static uint64_t end_of_containers(const sky_coded *c, const coded_head *head, uint64_t end) {
    uint64_t at = head->containers_at;
    uint32_t section = 0;
    for (uint32_t g = 0; g < c->payload.layout.group_count; g++) {
        if (sky_payload_section_at(&c->payload, section).offset >= end)
            return at;
        section += sections_of(c, g);
        sky_payload_section last = sky_payload_section_at(&c->payload, section - 1);
        if (last.offset + last.bytes > end) {
            sky_skv_shape shape = container_shape(c, 0);
            return at + sky_skv_header_bytes(&shape);
        }
        at += align_up(head->bytes[g]);
    }
    return at;
}

/* The payload's header of a coded value that is all there, and which block it is of. */
static sky_status read_header(const sky_coded *c, const uint8_t *data, uint32_t *first_token) {
    const uint8_t *header = data + SKY_CODED_HEAD_BYTES;
    sky_payload found;
    sky_status status = sky_payload_header_read(header, c->payload.header_bytes, &found,
                                                first_token);
    return status == SKY_OK ? sky_payload_header_check(&c->payload, *first_token, header) : status;
}

/* ---- lowering ---- */

static sky_status lower_group(code *d, uint32_t group, const uint8_t *container,
                              uint32_t container_bytes, uint32_t first_token) {
    sky_skv skv;
    size_t bytes = 0;
    sky_status status = sky_skv_open(container, container_bytes, &skv);
    if (status == SKY_OK && !is_ours(d->c, &skv, first_token))
        status = SKY_E_CORRUPT;
    assert(status != SKY_OK || sky_skv_lower_bytes(&skv) <= d->c->codec.work_bytes);
    if (status == SKY_OK)
        status = sky_skv_lower(&skv, d->c->profile, &d->options, d->dst + d->at, code_room(d),
                               &bytes, d->work);
    return status == SKY_OK ? code_add(d, group, bytes) : status;
}

static sky_status lower_block(void *self, sky_coding coding, const void *data, uint64_t bytes,
                              void *dst, uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work) {
    const sky_coded *c = self;
    const uint8_t *from = data;
    coded_head head;
    uint32_t first_token;
    if (!is_coded(data, bytes))
        return SKY_E_UNSUPPORTED;
    if (!read_head(c, data, &head) || head.end > bytes)
        return SKY_E_CORRUPT;
    sky_status status = read_header(c, data, &first_token);
    code d = code_begin(c, coding, dst, dst_bytes_max, work);
    uint64_t at = head.containers_at;
    for (uint32_t g = 0; status == SKY_OK && g < c->payload.layout.group_count; g++) {
        status = lower_group(&d, g, from + at, head.bytes[g], first_token);
        at += align_up(head.bytes[g]);
    }
    if (status == SKY_OK)
        *dst_bytes = code_end(&d, from + SKY_CODED_HEAD_BYTES);
    return status;
}

/* ---- decoding a whole value ---- */

static sky_status decode_coded(decoding *d, bool all, uint64_t room_bytes) {
    const sky_coded *c = d->c;
    uint32_t first_token, section = 0;
    coded_head head;
    if (!read_head(c, d->data, &head))
        return SKY_E_CORRUPT;
    if (d->range.offset > c->payload.payload_bytes)
        return SKY_E_PARAM;
    uint64_t left = c->payload.payload_bytes - d->range.offset;
    if (all || d->range.bytes > left)
        d->range.bytes = left;
    if (room_bytes < d->range.bytes)
        return SKY_E_DST_SMALL;
    uint64_t at = head.containers_at, end = d->range.offset + d->range.bytes;
    sky_status status = have_bytes(d, end_of_containers(c, &head, end));
    if (status == SKY_OK)
        status = read_header(c, d->data, &first_token);
    if (status != SKY_OK)
        return status;
    scatter_bytes(d, 0, d->data + SKY_CODED_HEAD_BYTES, c->payload.header_bytes);
    for (uint32_t g = 0; status == SKY_OK && g < c->payload.layout.group_count; g++) {
        if (sky_payload_section_at(&c->payload, section).offset >= end)
            break;
        status = decode_group(d, g, section, at, head.bytes[g], first_token);
        section += sections_of(c, g);
        at += align_up(head.bytes[g]);
    }
    return status;
}

/* What was stored as it came, of a size that only its end tells. */
static sky_status decode_plain(decoding *d, bool all, uint64_t room_bytes) {
    uint64_t wanted = all || d->range.bytes > room_bytes ? room_bytes + 1 : d->range.bytes;
    uint64_t end = d->range.offset + wanted;
    if (d->bytes < end && !d->whole) {
        d->needed = end;
        return SKY_PENDING;
    }
    if (d->range.offset > d->bytes)
        return SKY_E_PARAM;
    uint64_t there = d->bytes - d->range.offset;
    d->range.bytes = there < wanted ? there : wanted;
    if (d->range.bytes > room_bytes)
        return SKY_E_DST_SMALL;
    scatter_bytes(d, 0, d->data, d->bytes);
    return SKY_OK;
}

static sky_status decode_block(void *self, const void *data, uint64_t bytes, bool whole,
                               sky_range range, const sky_span *spans, uint32_t span_count,
                               uint64_t *moved_bytes, uint64_t *needed, void *work) {
    const sky_coded *c = self;
    decoding d = {.c = c,
                  .data = data,
                  .bytes = bytes,
                  .whole = whole,
                  .range = range,
                  .spans = spans,
                  .span_count = span_count,
                  .span_at = range.offset,
                  .scratch = (uint8_t *)work + DECODE_BYTES,
                  .work = work};
    bool all = range.offset == 0 && range.bytes == 0;
    bool coded = is_coded(data, bytes);
    uint64_t room_bytes = sky_spans_bytes(spans, span_count);
    sky_status status = coded ? decode_coded(&d, all, room_bytes)
                              : decode_plain(&d, all, room_bytes);
    if (coded && d.foreign) {
        if (c->foreign)
            atomic_fetch_add(c->foreign, 1);
        return SKY_MISS;
    }
    if (status == SKY_OK)
        *moved_bytes = d.range.bytes;
    if (status == SKY_PENDING)
        *needed = d.needed;
    return status;
}

/* ---- life ---- */

static sky_status fill_layers(sky_coded *c) {
    const sky_layout *layout = &c->payload.layout;
    uint32_t layer = 0;
    for (uint32_t g = 0; g < layout->group_count; g++)
        for (uint32_t i = 0; i < layout->groups[g].layer_count; i++)
            if (!shape_of(&layout->groups[g], &c->layers[layer++]))
                return SKY_E_UNSUPPORTED;
    for (uint32_t i = 0; i < c->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&c->payload, i);
        c->layer_of[i] = s.row_set / 2;
        c->section_max = s.bytes > c->section_max ? s.bytes : c->section_max;
    }
    return profile_fits(c) && c->payload.token_count <= SKY_STREAM_TOKENS_MAX ? SKY_OK
                                                                              : SKY_E_UNSUPPORTED;
}

sky_status sky_coded_init(sky_coded *out, const sky_payload *payload, const sky_profile *profile) {
    sky_coded c = {.payload = *payload, .profile = profile, .layer_count = payload->row_sets / 2};
    c.layers = calloc(c.layer_count, sizeof *c.layers);
    c.layer_of = calloc(payload->row_sets, sizeof *c.layer_of);
    sky_status status = c.layers && c.layer_of ? fill_layers(&c) : SKY_E_NOMEM;
    if (status != SKY_OK) {
        sky_coded_deinit(&c);
        return status;
    }
    sky_skv_shape shape = container_shape(&c, 0);
    uint64_t containers = payload->layout.group_count * (sky_skv_bound(&shape) + ALIGN_BYTES);
    c.codec = (sky_block_codec){
        .payload_bytes = payload->payload_bytes,
        .coded_bytes_max = align_up(SKY_CODED_HEAD_BYTES + payload->header_bytes) + containers,
        .work_bytes = DECODE_BYTES + align_up(c.layer_count * sizeof *c.layers) + c.section_max,
        .encode = encode_block,
        .lower = lower_block,
        .likely_bytes = likely_bytes,
        .decode = decode_block,
    };
    *out = c;
    out->codec.self = out;
    return SKY_OK;
}

void sky_coded_deinit(sky_coded *c) {
    free(c->layers);
    free(c->layer_of);
    c->layers = NULL;
    c->layer_of = NULL;
}
