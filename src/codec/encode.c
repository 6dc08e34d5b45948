/* Encoding a stream, tile by tile.
 *
 *   load, forward ─► z ─► quantise ─► packed ─► order, classes ─► rows, backwards
 *
 * A tile is coded into the room its raw form would take, from that room's end; what does not fit
 * there travels raw. Elements no level can hold are exceptions: their channel pair, in both tokens,
 * is listed as it is and quantised as zero. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/classes.h"
#include "codec/fineness.h"
#include "codec/float_env.h"
#include "codec/half.h"
#include "codec/kernels.h"
#include "codec/levels.h"
#include "codec/stream.h"

#define BLIND_STEP(name, bits, loss, step) step,
static const float blind_step[] = {SKY_LEVELS(BLIND_STEP)};
static_assert(sizeof blind_step / sizeof *blind_step == SKY_LEVEL_COUNT, "a row for each level");

typedef struct {
    uint16_t token; /* of the tile */
    uint16_t channel;
} place;

/* What encoding keeps at hand; lies in the caller's working memory. */
typedef struct {
    _Alignas(64) float z[SKY_TILE_ELEMENTS];
    _Alignas(64) int16_t packed[SKY_TILE_ELEMENTS];
    _Alignas(64) float row[2][SKY_WIDTH_MAX];
    _Alignas(64) uint8_t decisions[SKY_STREAM_TOKENS_MAX * SKY_LANE_GROUP];
    sky_transform transform;
    sky_coder rows;
    sky_encode_tables tables;
    sky_exact exact;
    uint16_t top[2][SKY_WIDTH_MAX]; /* lossless: of even and odd tokens */
    uint16_t low[2][SKY_WIDTH_MAX];
    uint8_t keys[2][SKY_WIDTH_MAX];
    uint16_t means[SKY_WIDTH_MAX]; /* the block's own, f16 */
    place exceptions[SKY_EXCEPTIONS_MAX];
    bool bad[SKY_WIDTH_MAX];
    uint8_t fineness[SKY_FINENESS_PAIRS]; /* if flagged, of the coded tokens' pairs */

    const sky_codec_kernels *kernels;
    const sky_stream_shape *shape;
    sky_encode_options options;
    sky_stream_profile profile;
    const sky_tensor *src;
    sky_tile tile;
    uint32_t exception_count;
    float D;
    float limit;   /* elements beyond it are exceptions; INFINITY: load's own limit is enough */
    uint8_t flags; /* of the stream */
    uint8_t tile_flags;
} encoder;

static_assert(sizeof(encoder) <= SKY_ENCODE_WORK_BYTES, "working memory is too small");

size_t sky_encode_work_bytes(void) {
    return SKY_ENCODE_WORK_BYTES;
}

size_t sky_encode_bound(const sky_stream_shape *shape) {
    if (!sky__stream_shape_valid(shape))
        return 0;
    size_t bytes = SKY_STREAM_HEADER_BYTES + sky_stream_rows_bytes(shape);
    sky_tiles tiles = sky__tiles_of(shape, false);
    sky_tile tile;
    while (sky__tiles_next(&tiles, &tile))
        bytes += 1;
    return bytes + sky_fineness_bytes(shape->token_count);
}

/* ---- elements ---- */

static const uint8_t *element_row(const encoder *e, uint32_t token) {
    return sky__tensor_row(e->src, e->src->first_token + e->tile.token + token) +
           e->tile.head * e->src->head_bytes;
}

static uint32_t pair_count(const encoder *e) {
    return e->tile.tokens / 2;
}

static uint8_t *write_rows(const encoder *e, uint8_t *out) {
    size_t head_bytes = (size_t)e->shape->head_dim * sky_element_bytes(e->shape->element);
    for (uint32_t t = 0; t < e->tile.tokens; t++)
        for (uint32_t h = 0; h < e->tile.heads; h++, out += head_bytes)
            memcpy(out, element_row(e, t) + h * e->src->head_bytes, head_bytes);
    return out;
}

/* ---- without calibration ---- */

/* Tokens of a tile are taken two by two, in order: their angles turn on. */
static void turn_to(encoder *e, uint32_t token) {
    if (token == 0)
        e->kernels->angles(&e->transform, e->shape->first_position + e->tile.token);
    else
        e->kernels->turn_on(&e->transform);
}

static float element_value(sky_element element, const uint8_t *in) {
    if (element == SKY_ELEMENT_F32)
        return sky_float_of(sky_load_u32(in));
    uint16_t h = sky_load_u16(in);
    return element == SKY_ELEMENT_F16 ? sky_float_of_f16(h) : sky_float_of_bf16(h);
}

/* What might come back as an infinity becomes NaN, which makes it an exception. */
static void exclude_large(const encoder *e, const uint8_t *in, float *row) {
    uint32_t size = sky_element_bytes(e->shape->element), dim = e->shape->head_dim;
    for (uint32_t i = 0; i < e->tile.width; i++) {
        const uint8_t *at = in + i / dim * e->src->head_bytes + (size_t)(i % dim) * size;
        if (!(fabsf(element_value(e->shape->element, at)) <= e->limit))
            row[i] = NAN;
    }
}

/* Returns how many. */
static uint32_t load_tokens(encoder *e, uint32_t token) {
    uint32_t left = e->tile.tokens - token, count = left < 2 ? left : 2;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *in = element_row(e, token + i);
        e->kernels->load(&e->transform, i, in, e->src->head_bytes, e->row[i]);
        if (e->limit < INFINITY)
            exclude_large(e, in, e->row[i]);
    }
    return count;
}

/* A value to add up: nothing where it is no number. */
static inline float finite_or_zero(float x) {
    return fabsf(x) <= 1e30f ? x : 0.0f;
}

/* The block's mean, rounded to f16 as it travels, of what lies within `limit` of the one before. */
static void measure_mean(encoder *e, float limit) {
    float *mean = e->transform.mean, sums[SKY_WIDTH_MAX] = {0};
    uint32_t counts[SKY_WIDTH_MAX] = {0};
    for (uint32_t t = 0; t < e->tile.tokens; t += 2) {
        turn_to(e, t);
        uint32_t count = load_tokens(e, t);
        for (uint32_t r = 0; r < count; r++)
            for (uint32_t i = 0; i < e->tile.width; i++) {
                float x = finite_or_zero(e->row[r][i]);
                bool far = fabsf(x - mean[i]) > limit;
                sums[i] += far ? 0.0f : x;
                counts[i] += !far;
            }
    }
    for (uint32_t i = 0; i < e->tile.width; i++) {
        float m = counts[i] ? sums[i] / (float)counts[i] : mean[i];
        e->means[i] = sky_f16_of_float(fabsf(m) <= 60000.0f ? m : 0.0f);
        mean[i] = sky_float_of_f16(e->means[i]);
    }
}

/* Of the distances from the mean that are within a limit. */
typedef struct {
    float square; /* their mean square */
    float mean;
    float most;
    uint32_t beyond; /* how many are not */
} spread;

static void spread_row(const encoder *e, const float *row, float limit, spread *s) {
    float squares = 0, sum = 0;
    for (uint32_t i = 0; i < e->tile.width; i++) {
        float d = fabsf(finite_or_zero(row[i]) - e->transform.mean[i]);
        s->beyond += d > limit;
        d = d > limit ? 0.0f : d;
        squares += d * d;
        sum += d;
        s->most = d > s->most ? d : s->most;
    }
    s->square += squares / (float)e->tile.width;
    s->mean += sum / (float)e->tile.width;
}

static spread measure_spread(encoder *e, float limit) {
    spread s = {0};
    for (uint32_t t = 0; t < e->tile.tokens; t += 2) {
        turn_to(e, t);
        uint32_t count = load_tokens(e, t);
        for (uint32_t r = 0; r < count; r++)
            spread_row(e, e->row[r], limit, &s);
    }
    s.square /= (float)e->tile.tokens;
    s.mean /= (float)e->tile.tokens;
    return s;
}

/* A distance is an outlier when it is this many times the mean one and outliers are no more than
 * one in so many elements. A value of 50,000 among thousands near 1 would make the step hundreds of
 * times too coarse for the others; as an outlier it travels as an escape or an exception. Where a
 * whole channel or token is large, they are too many, and decide about the step as others do. */
#define OUTLIER_DISTANCE 128.0f
#define OUTLIER_RARITY   1024u
#define OUTLIER_ROUNDS   16u /* an outlier hides others, and moves its channel's mean */

static spread without_outliers(encoder *e) {
    spread s = measure_spread(e, INFINITY);
    uint32_t most = 1 + e->tile.tokens * e->tile.width / OUTLIER_RARITY;
    for (uint32_t i = 0; i < OUTLIER_ROUNDS && s.most > OUTLIER_DISTANCE * s.mean; i++) {
        float limit = fmaxf(OUTLIER_DISTANCE * s.mean, 0.25f * s.most);
        spread next = measure_spread(e, limit);
        if (next.beyond > most)
            break;
        if (!(e->flags & SKY_STREAM_MEAN)) {
            measure_mean(e, limit);
            next = measure_spread(e, limit);
        }
        s = next;
    }
    return s;
}

/* The rms about the mean. Squares of tiny values are lost, so there it follows from the mean
 * distance, as a normal distribution has it; what is too large for squares travels raw, as the
 * smallest step makes it. */
static float measure_rms(encoder *e) {
    spread s = without_outliers(e);
    float rms = sqrtf(s.square);
    if (rms < 1e-18f)
        rms = 1.25f * s.mean;
    return rms > 0 && rms <= 1e20f ? rms : 1e-20f;
}

/* The most by which what comes back may differ from an element, but for float's own rounding: a
 * level is at most 1 (the trellis: 2) from its z, so by √½ D (1 + 1) a value of a token; then the
 * matrix that takes values back, and rope, at most √2 for two channels with the same bound. */
static float error_max(const encoder *e) {
    const sky_profile_stream *s = e->profile.stream;
    uint32_t dim = e->shape->head_dim, pairs = dim / 2;
    float gain = 1;
    if (e->transform.pairs) {
        size_t pitch = e->transform.matrix_pitch;
        const float *g = s->g + (size_t)e->tile.head * pairs;
        for (uint32_t p = 0; p < e->tile.heads * pairs; p++, g++)
            gain = fmaxf(gain, fmaxf(fabsf(g[0]) + fabsf(g[2 * pitch]),
                                     fabsf(g[pitch]) + fabsf(g[3 * pitch])));
    }
    for (uint32_t h = 0; e->transform.klt && h < e->tile.heads; h++) {
        const float *g = s->klt_g + (e->tile.head + h) * sky_klt_floats(dim);
        float sums[SKY_HEAD_DIM_MAX] = {0};
        for (uint32_t i = 0; i < dim; i++)
            for (uint32_t j = 0; j < dim; j++)
                sums[j] += fabsf(g[sky_klt_at(dim, i, j)]);
        for (uint32_t j = 0; j < dim; j++)
            gain = fmaxf(gain, sums[j]);
    }
    float D = e->flags & SKY_STREAM_FINENESS ? e->D * sky__fineness_step[0] : e->D;
    float value = (e->options.plain ? 2 : 4) * SKY_SQRT_HALF * D;
    return value * gain * (e->transform.rope ? 2 * SKY_SQRT_HALF : 1.0f);
}

/* An element that could come back beyond the type's largest would be an infinity. load takes those
 * above 60000 (1e38) for exceptions, which is enough for any step that is fine against the type's
 * range; for a coarser one the limit is lower. What is kept below the largest is for rounding. */
static float choose_limit(const encoder *e) {
    bool half = e->shape->element == SKY_ELEMENT_F16;
    float error = error_max(e), most = half ? 65000.0f : 3.3e38f;
    return error > most - (half ? 60000.0f : 1e38f) ? most - error : INFINITY;
}

/* Of those a tile may have. */
static float step_within(float step) {
    return fminf(fmaxf(step, 2e-36f), 1e36f);
}

static void scale_to(encoder *e, float D) {
    e->transform.scale[0] = SKY_SQRT_HALF / D;
    e->transform.scale[1] = 1.0f / D;
}

static void choose_step(encoder *e) {
    bool dependent = !e->options.plain;
    const sky_profile_stream *s = e->profile.stream;
    float step = s ? s->step[e->options.level][dependent] : 0;
    e->limit = INFINITY;
    if (!(e->flags & SKY_STREAM_MEAN))
        measure_mean(e, INFINITY);
    if (!(step > 0))
        step = measure_rms(e) * blind_step[e->options.level];
    e->D = step_within(step * e->options.step_scale) * 0.5f;
    scale_to(e, e->D);
    e->limit = choose_limit(e);
}

/* ---- fineness ---- */

/* Of the tile's pairs, or NULL: all are usual. */
static const uint8_t *tile_fineness(const encoder *e) {
    uint32_t token = e->tile.token - e->options.first_token_raw;
    return e->flags & SKY_STREAM_FINENESS ? e->fineness + token / 2 : NULL;
}

/* What the tile's channels say, added to what others said of its pairs. */
static void ask_tile(encoder *e, float *wanted) {
    const sky_profile_stream *s = e->profile.stream;
    size_t channel = (size_t)e->tile.head * s->dim;
    sky__tile_transform(&e->profile, e->shape, e->flags, &e->tile, true, &e->transform);
    for (uint32_t token = 0; token < e->tile.tokens; token += 2) {
        uint32_t pair = (e->tile.token - e->options.first_token_raw + token) / 2;
        turn_to(e, token);
        uint32_t count = load_tokens(e, token);
        for (uint32_t i = 0; i < count; i++)
            wanted[pair] += e->kernels->wanted(s->weights + channel,
                                               s->mean ? s->mean + channel : NULL, e->row[i],
                                               e->tile.width) /
                            (float)count;
    }
}

static uint32_t coded_pairs(const encoder *e) {
    return sky_fineness_pairs(e->shape->token_count - e->options.first_token_raw);
}

static void choose_fineness(encoder *e) {
    float wanted[SKY_FINENESS_PAIRS] = {0};
    sky_tiles tiles = sky__tiles_of(e->shape, e->options.first_token_raw);
    e->limit = INFINITY;
    while (sky__tiles_next(&tiles, &e->tile))
        ask_tile(e, wanted);
    for (uint32_t p = 0; p < coded_pairs(e); p++)
        e->fineness[p] = sky__fineness_of(wanted[p] * e->profile.stream->weight_unit);
}

/* ---- exceptions ---- */

static bool spread_bad(encoder *e) {
    bool any = false;
    uint32_t dim = e->shape->head_dim;
    for (uint32_t h = 0; h < e->tile.heads; h++) {
        bool *bad = e->bad + h * dim, in_head = false;
        for (uint32_t i = 0; i < dim; i++)
            in_head |= bad[i];
        any |= in_head;
        for (uint32_t i = 0; in_head && e->transform.klt && i < dim; i++)
            bad[i] = true;
        for (uint32_t p = 0; in_head && p < dim / 2; p++) {
            sky_pair at = sky__pair_at(e->transform.rope, dim, p);
            bad[at.first] = bad[at.second] = bad[at.first] | bad[at.second];
        }
    }
    return any;
}

/* List what cannot be quantised, and quantise zeros there. False: too many. */
static bool take_exceptions(encoder *e, uint32_t token, float *sum, float *difference) {
    for (uint32_t i = 0; i < e->tile.width; i++)
        e->bad[i] = !(fabsf(sum[i]) <= SKY_Z_MAX) ||
                    (difference && !(fabsf(difference[i]) <= SKY_Z_MAX));
    if (!spread_bad(e))
        return true;
    for (uint32_t t = token; t < token + (difference ? 2 : 1); t++)
        for (uint32_t i = 0; i < e->tile.width; i++) {
            if (!e->bad[i])
                continue;
            if (e->exception_count == SKY_EXCEPTIONS_MAX)
                return false;
            e->exceptions[e->exception_count++] = (place){(uint16_t)t, (uint16_t)i};
            sum[i] = 0;
            if (difference)
                difference[i] = 0;
        }
    return true;
}

/* ---- values and levels ---- */

/* One or two rows of values, which are rounded where there is no trellis. */
static bool forward_tokens(encoder *e, uint32_t token) {
    uint32_t padded = e->transform.padded;
    float *sum = e->z + (size_t)token * padded, *difference = sum + padded;
    int16_t *packed = e->packed + (size_t)token * padded;
    uint32_t count = load_tokens(e, token);
    if (count == 1)
        difference = NULL;
    if (!e->kernels->forward(&e->transform, e->row[0], difference ? e->row[1] : NULL, sum,
                             difference) &&
        !take_exceptions(e, token, sum, difference))
        return false;
    if (e->options.plain)
        e->kernels->round(sum, count, padded, padded, packed);
    return true;
}

static bool rounded_at_once(encoder *e, uint32_t token) {
    if (!e->options.plain || !e->kernels->pair_round || e->limit < INFINITY ||
        token + 2 > e->tile.tokens)
        return false;
    const uint8_t *in[2] = {element_row(e, token), element_row(e, token + 1)};
    int16_t *sum = e->packed + (size_t)token * e->transform.padded;
    return e->kernels->pair_round(&e->transform, in, e->src->head_bytes, sum,
                                  sum + e->transform.padded);
}

static bool forward_tile(encoder *e) {
    e->exception_count = 0;
    const uint8_t *fineness = tile_fineness(e);
    for (uint32_t token = 0; token < e->tile.tokens; token += 2) {
        turn_to(e, token);
        if (fineness)
            scale_to(e, e->D * sky__fineness_step[fineness[token / 2]]);
        if (!rounded_at_once(e, token) && !forward_tokens(e, token))
            return false;
    }
    return true;
}

static sky_levels levels_of_half(const encoder *e, uint32_t half) {
    size_t padded = e->transform.padded;
    uint32_t rows = half ? pair_count(e) : e->tile.tokens - pair_count(e);
    return (sky_levels){e->packed + half * padded, rows, 2 * padded, tile_fineness(e)};
}

static void quantise_tile(encoder *e) {
    uint32_t padded = e->transform.padded;
    for (uint32_t half = 0; !e->options.plain && half < 2; half++) {
        sky_levels l = levels_of_half(e, half);
        e->kernels->trellis(e->z + half * padded, l.rows, l.pitch, padded,
                            e->packed + half * padded, e->decisions);
    }
}

/* ---- order and classes ---- */

static void choose_order(encoder *e, sky_basis basis) {
    const sky_profile_stream *s = e->profile.stream;
    if (s && s->order[basis]) {
        sky__tile_order(&e->profile, e->shape, &e->tile, basis, &e->rows);
        return;
    }
    e->tile_flags |= SKY_TILE_OWN_ORDER;
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t sums[SKY_WIDTH_MAX] = {0};
        sky_levels l = levels_of_half(e, half);
        sky__magnitudes_add(&l, e->tile.width, sums);
        sky__order_keys(sums, e->tile.width, 15, e->keys[half]);
        sky__rows_order(&e->rows, half, e->keys[half]);
    }
}

/* Is the profile's choice of classes good enough? It costs nothing, own classes a byte a unit. */
static bool keep_classes(encoder *e, const sky_levels *levels) {
    uint64_t saved = 0, spent = 2 * 8 * 1024 * (uint64_t)sky_rows_units(&e->rows);
    for (uint32_t half = 0; half < 2; half++) {
        if (e->options.plain) {
            if (e->kernels->misfit(&e->rows, half, &levels[half]))
                return false;
            continue;
        }
        uint64_t more = sky__classes_saved(&e->rows, half, &levels[half]);
        if (more == UINT64_MAX)
            return false;
        saved += more;
    }
    return saved <= spent;
}

static void choose_classes(encoder *e) {
    sky_levels levels[2] = {levels_of_half(e, 0), levels_of_half(e, 1)};
    bool fitted = !(e->tile_flags & SKY_TILE_OWN_ORDER);
    for (uint32_t half = 0; fitted && half < 2; half++) {
        const uint8_t *classes = sky__tile_classes(&e->profile, e->shape, &e->tile,
                                                   e->options.level, !e->options.plain, half);
        if (classes)
            sky__rows_classes(&e->rows, half, classes);
        fitted = classes;
    }
    if (fitted && keep_classes(e, levels))
        return;
    e->tile_flags |= SKY_TILE_OWN_CLASSES;
    for (uint32_t half = 0; half < 2; half++) {
        uint8_t own[SKY_UNITS_MAX];
        sky__classes_choose(&e->rows, half, &levels[half], own);
        sky__rows_classes(&e->rows, half, own);
    }
}

/* ---- bytes ---- */

static uint8_t *write_exceptions(const encoder *e, uint8_t *out) {
    uint32_t size = sky_element_bytes(e->shape->element);
    for (uint32_t i = 0; i < e->exception_count; i++) {
        place x = e->exceptions[i];
        uint32_t head = x.channel / e->shape->head_dim, within = x.channel % e->shape->head_dim;
        sky_store_u16(out, x.token);
        sky_store_u16(out + 2, x.channel);
        memcpy(out + 4, element_row(e, x.token) + head * e->src->head_bytes + within * size, size);
        out += 4 + size;
    }
    return out;
}

static uint8_t *write_keys_of(const uint8_t *keys, uint32_t width, uint8_t *out) {
    for (uint32_t i = 0; i < width; i += 2)
        *out++ = (uint8_t)(keys[i] | (i + 1 < width ? keys[i + 1] << 4 : 0));
    return out;
}

/* All of it, unlike the decoder's. */
static size_t tile_head_bytes(const encoder *e) {
    sky_stream_header header = {.level = (uint8_t)e->options.level, .flags = e->flags};
    return SKY_TILE_HEAD_BYTES + sky__tile_head_bytes(&header, e->shape->element, e->tile.width,
                                                      e->tile_flags, e->exception_count);
}

static void write_tile_head(const encoder *e, uint8_t *out) {
    out[0] = e->tile_flags;
    out[1] = 0;
    sky_store_u16(out + 2, (uint16_t)e->exception_count);
    sky_store_u32(out + 4, sky_bits_of(e->D));
    out = write_exceptions(e, out + SKY_TILE_HEAD_BYTES);
    for (uint32_t i = 0; !(e->flags & SKY_STREAM_MEAN) && i < e->tile.width; i++, out += 2)
        sky_store_u16(out, e->means[i]);
    if (e->tile_flags & SKY_TILE_OWN_ORDER)
        out = write_keys_of(e->keys[1], e->tile.width,
                            write_keys_of(e->keys[0], e->tile.width, out));
    for (uint32_t half = 0; (e->tile_flags & SKY_TILE_OWN_CLASSES) && half < 2; half++) {
        memcpy(out, e->rows.classes[half], sky_rows_units(&e->rows));
        out += sky_rows_units(&e->rows);
    }
    for (uint32_t i = 0; i < SKY_LANES; i++)
        sky_store_u16(out + 2 * i, (uint16_t)sky_rows_state(&e->rows, i));
}

/* Tables of each fineness that occurs, which lie where z was, or the only ones.
 * Shape:  kept [SKY_FINENESS_COUNT], of those that occur */
static const sky_encode_tables *prepare_tables(encoder *e, const uint8_t *fineness,
                                               sky_rows_kept *kept) {
    sky_encode_tables *all = (sky_encode_tables *)(void *)e->z;
    static_assert(SKY_FINENESS_COUNT * sizeof *all <= sizeof e->z, "no room for tables");
    if (!fineness) {
        e->kernels->encode_prepare(&e->tables, &e->rows);
        return &e->tables;
    }
    uint32_t used = sky__fineness_used(fineness, sky_fineness_pairs(e->tile.tokens));
    for (uint32_t s = 0; s < SKY_FINENESS_COUNT; s++)
        if (used >> s & 1) {
            sky__rows_use(&e->rows, s);
            sky__rows_keep(&e->rows, &kept[s]);
            e->kernels->encode_prepare(&all[s], &e->rows);
        }
    return all;
}

/* Entropy-code the tile into [out, limit); NULL when it does not fit. */
static uint8_t *write_coded(encoder *e, uint8_t *out, uint8_t *limit) {
    size_t head = tile_head_bytes(e);
    if ((size_t)(limit - out) < head)
        return NULL;
    uint8_t *low = out + head, *at = limit;
    const uint8_t *fineness = tile_fineness(e);
    sky_rows_kept kept[SKY_FINENESS_COUNT];
    const sky_encode_tables *tables = prepare_tables(e, fineness, kept);
    uint32_t used = SKY_FINENESS_COUNT; /* none yet */
    for (uint32_t row = e->tile.tokens; row-- > 0;) {
        if (fineness && fineness[row / 2] != used)
            sky__rows_use_kept(&e->rows, &kept[used = fineness[row / 2]]);
        if ((size_t)(at - low) < sky_rows_bytes_max(&e->rows, row & 1))
            return NULL;
        at = e->kernels->row_encode(&e->rows, tables + (fineness ? fineness[row / 2] : 0), row & 1,
                                    e->packed + (size_t)row * e->transform.padded, at);
    }
    write_tile_head(e, out);
    memmove(low, at, (size_t)(limit - at));
    return low + (limit - at);
}

/* ---- lossless ---- */

/* A token's elements: top halves, and f32's low ones. What is there of the token before or after
 * stays. */
static void gather_token(encoder *e, uint32_t token) {
    sky__exact_gather(&e->exact, element_row(e, token), e->src->head_bytes, e->top[token & 1],
                      e->low[token & 1]);
}

/* Of a token that is gathered, like the one before. */
static void split_token(encoder *e, uint32_t token) {
    e->kernels->split(&e->exact, e->top[token & 1], token ? e->top[~token & 1] : NULL, e->packed);
}

static void choose_exact_classes(encoder *e) {
    sky_histogram h[2][SKY_UNITS_MAX];
    uint8_t own[SKY_UNITS_MAX];
    uint32_t units = sky_rows_units(&e->rows), shift = sky_exact_shift(e->shape->element);
    memset(h, 0, sizeof h);
    for (uint32_t t = 0; t < e->tile.tokens; t++) {
        gather_token(e, t);
        split_token(e, t);
        for (uint32_t half = 0; half < 2; half++) {
            sky_levels l = {e->packed + half * (size_t)e->exact.padded, 1, 0, NULL};
            for (uint32_t u = 0; u < units; u++)
                sky__histogram_add(&h[half][u], &l, e->rows.channel[half] + u * SKY_UNIT,
                                   half ? shift : 0);
        }
    }
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t u = 0; u < units; u++)
            own[u] = sky__class_exact(&h[half][u], half);
        sky__rows_exact_classes(&e->rows, half, own, shift);
    }
}

/* Usual exponents, order and classes of the block's own. */
static void measure_exact(encoder *e) {
    uint32_t sums[SKY_WIDTH_MAX] = {0}, spreads[SKY_WIDTH_MAX] = {0}, width = e->tile.width;
    for (uint32_t t = 0; t < e->tile.tokens; t++) {
        gather_token(e, t);
        for (uint32_t i = 0; i < width; i++)
            sums[i] += sky_exact_exponent(e->shape->element, e->top[t & 1][i]);
    }
    sky__exact_usual(sums, e->tile.tokens, width, e->exact.usual);
    for (uint32_t t = 0; t < e->tile.tokens; t++) {
        gather_token(e, t);
        for (uint32_t i = 0; i < width; i++) {
            uint32_t exponent = sky_exact_exponent(e->shape->element, e->top[t & 1][i]);
            uint32_t usual = e->exact.usual[i];
            spreads[i] += exponent > usual ? exponent - usual : usual - exponent;
        }
    }
    sky__exact_keys(sums, spreads, e->tile.tokens, width, e->keys[0]);
    for (uint32_t i = 0; i < width; i++)
        e->keys[0][i] >>= 4;
    sky__rows_order(&e->rows, 0, e->keys[0]);
    sky__rows_order(&e->rows, 1, e->keys[0]);
    choose_exact_classes(e);
}

static void write_exact_head(const encoder *e, uint8_t *out) {
    uint32_t units = sky_rows_units(&e->rows);
    memset(out, 0, SKY_TILE_HEAD_BYTES);
    out[0] = e->tile_flags;
    sky_store_u32(out + 4, sky_bits_of(1.0f));
    out += SKY_TILE_HEAD_BYTES;
    if (e->tile_flags) {
        memcpy(out, e->exact.usual, e->tile.width);
        out = write_keys_of(e->keys[0], e->tile.width, out + e->tile.width);
        memcpy(out, e->rows.classes[0], units);
        memcpy(out + units, e->rows.classes[1], units);
        out += 2 * units;
    }
    for (uint32_t i = 0; i < SKY_LANES; i++)
        sky_store_u16(out + 2 * i, (uint16_t)sky_rows_state(&e->rows, i));
}

static uint8_t *write_exact(encoder *e, uint8_t *out, uint8_t *limit) {
    size_t head = tile_head_bytes(e), width = e->tile.width;
    size_t low_bytes = e->shape->element == SKY_ELEMENT_F32 ? 2 * width : 0;
    if ((size_t)(limit - out) < head)
        return NULL;
    uint8_t *low = out + head, *at = limit;
    e->kernels->encode_prepare(&e->tables, &e->rows);
    gather_token(e, e->tile.tokens - 1);
    for (uint32_t t = e->tile.tokens; t-- > 0;) {
        if ((size_t)(at - low) <
            low_bytes + sky_rows_bytes_max(&e->rows, 0) + sky_rows_bytes_max(&e->rows, 1))
            return NULL;
        if (t)
            gather_token(e, t - 1);
        split_token(e, t);
        at -= low_bytes;
        for (size_t i = 0; i < low_bytes / 2; i++)
            sky_store_u16(at + 2 * i, e->low[t & 1][i]);
        at = e->kernels->row_encode(&e->rows, &e->tables, 1, e->packed + e->exact.padded, at);
        at = e->kernels->row_encode(&e->rows, &e->tables, 0, e->packed, at);
    }
    write_exact_head(e, out);
    memmove(low, at, (size_t)(limit - at));
    return low + (limit - at);
}

static uint8_t *encode_exact(encoder *e, uint8_t *out, uint8_t *limit) {
    bool calibrated = e->flags & SKY_STREAM_TABLES;
    sky__tile_exact(&e->profile, e->shape, &e->tile, calibrated, &e->exact, &e->rows);
    e->tile_flags = calibrated ? 0 : SKY_TILE_OWN_ORDER | SKY_TILE_OWN_CLASSES;
    if (!calibrated)
        measure_exact(e);
    return write_exact(e, out, limit);
}

static uint8_t *encode_lossy(encoder *e, uint8_t *out, uint8_t *limit) {
    e->tile_flags = 0;
    sky__tile_transform(&e->profile, e->shape, e->flags, &e->tile, true, &e->transform);
    choose_step(e);
    if (!forward_tile(e))
        return NULL;
    quantise_tile(e);
    sky__rows_init(&e->rows, e->tile.width, e->options.plain);
    choose_order(e, sky_basis_of(e->profile.stream, e->options.level));
    choose_classes(e);
    return write_coded(e, out, limit);
}

static uint8_t *encode_tile(encoder *e, uint8_t *out) {
    sky_level level = e->options.level;
    uint8_t *limit = out + 1 +
                     (size_t)e->tile.tokens * e->tile.width * sky_element_bytes(e->shape->element);
    uint8_t *end = level == SKY_LEVEL_LOSSLESS ? encode_exact(e, out, limit)
                                               : encode_lossy(e, out, limit);
    if (end)
        return end;
    *out = SKY_TILE_RAW;
    return write_rows(e, out + 1);
}

static uint8_t flags_of(const encoder *e) {
    const sky_profile_stream *s = e->profile.stream;
    uint32_t flags = 0;
    if (e->options.first_token_raw)
        flags |= SKY_STREAM_FIRST_RAW;
    if (e->options.level == SKY_LEVEL_LOSSLESS)
        return (uint8_t)(s && s->exact ? flags | SKY_STREAM_TABLES : flags);
    if (e->options.plain)
        flags |= SKY_STREAM_PLAIN;
    if (e->profile.rope)
        flags |= SKY_STREAM_ROPE;
    if (s && s->mean)
        flags |= SKY_STREAM_MEAN;
    if (s && sky_basis_of(s, e->options.level) == SKY_BASIS_KLT)
        flags |= SKY_STREAM_KLT;
    else if (s && s->g)
        flags |= SKY_STREAM_PAIRS;
    if (s && s->weights)
        flags |= SKY_STREAM_FINENESS;
    return (uint8_t)flags;
}

static size_t encode_stream(encoder *e, uint8_t *dst) {
    e->flags = flags_of(e);
    bool profiled = e->profile.stream &&
                    (e->flags & SKY_STREAM_OF_PROFILE || e->options.level != SKY_LEVEL_LOSSLESS);
    sky_stream_header header = {(uint8_t)e->options.level, e->flags, profiled ? e->profile.id : 0};
    sky__stream_header_write(&header, e->shape, dst);
    uint8_t *out = dst + SKY_STREAM_HEADER_BYTES;
    if (e->flags & SKY_STREAM_FINENESS) {
        choose_fineness(e);
        sky__fineness_write(e->fineness, coded_pairs(e), out);
        out += (coded_pairs(e) + 3) / 4;
    }
    if (e->options.first_token_raw) {
        e->tile = (sky_tile){.tokens = 1, .heads = e->shape->kv_heads};
        out = write_rows(e, out);
    }
    sky_tiles tiles = sky__tiles_of(e->shape, e->options.first_token_raw);
    while (sky__tiles_next(&tiles, &e->tile))
        out = encode_tile(e, out);
    return (size_t)(out - dst);
}

sky_status sky_encode(const sky_profile *profile, const sky_stream_shape *shape,
                      const sky_encode_options *options, sky_tensor src, void *dst,
                      size_t dst_bytes_max, size_t *dst_bytes, void *work) {
    encoder *e = work;
    if (!work || (uintptr_t)work % 64 != 0 || !options || !dst || !dst_bytes)
        return SKY_E_PARAM;
    float scale = options->step_scale == 0 ? 1.0f : options->step_scale;
    if (!sky__stream_shape_valid(shape) || !sky_level_name(options->level) ||
        !sky__tensor_holds(&src, shape) || !(scale >= 1e-6f && scale <= 1e6f))
        return SKY_E_PARAM;
    sky_stream_profile taken;
    sky_status status = sky__stream_profile(profile, shape, &taken);
    if (status != SKY_OK)
        return status;
    if (dst_bytes_max < sky_encode_bound(shape))
        return SKY_E_DST_SMALL;
    e->kernels = sky__kernels();
    e->shape = shape;
    e->options = *options;
    e->options.step_scale = scale;
    e->profile = taken;
    e->src = &src;
    const fenv_t before = sky_floats_begin();
    *dst_bytes = encode_stream(e, dst);
    sky_floats_restore(&before);
    return SKY_OK;
}
