/* Fitting what the entropy coder needs of a stream to samples: the blocks are transformed and
 * quantised as the encoder would, channels sorted by their mean magnitude, and units given the
 * class that is cheapest over all blocks. Part of making a profile: it allocates. */
#include <stdlib.h>
#include <string.h>

#include "codec/classes.h"
#include "codec/fineness.h"
#include "codec/fit_units.h"
#include "codec/float_env.h"
#include "codec/half.h"
#include "codec/kernels.h"
#include "codec/stream.h"

#define ORDER_LEVEL     SKY_LEVEL_3 /* where the order of the pair basis is taken, if it is set */
#define EXACT_POSITIONS 4096u
#define EXACT_USUALS    3 /* that are tried: the mean exponent rounded down, and its neighbours */

typedef struct {
    const sky_profile *profile;
    sky_profile_stream *stream;
    sky_stream_shape shape;
    const float *rows;
    uint32_t blocks;
    uint32_t block_tokens;
    sky_tile tile; /* the slice at hand, a block's tokens */
    sky_transform transform;
    sky_coder order;
    float *z;        /* [block_tokens][padded] of one block */
    int16_t *packed; /* [blocks × block_tokens][padded]; odd rows are differences */
    uint8_t *decisions;
    uint8_t *fineness;           /* [blocks × block_tokens / 2], if the stream has weights */
    sky_histogram (*symbols)[2]; /* [SKY_WIDTH_MAX], lossless: of each channel's halves */
    sky_fit_units *units;
    uint64_t (*costs)[SKY_WIDTH_MAX][2][SKY_EXACT_TABLES]; /* [EXACT_USUALS] */
} fitter;

static void fit_scale(fitter *f, float D) {
    f->transform.scale[0] = SKY_SQRT_HALF / D;
    f->transform.scale[1] = 1.0f / D;
}

/* As the encoder chooses it. */
static void fit_fineness(fitter *f) {
    const sky_profile_stream *s = f->stream;
    size_t pairs = s->weights ? (size_t)f->blocks * f->block_tokens / 2 : 0;
    for (size_t p = 0; p < pairs; p++) {
        const float *row = f->rows + 2 * p * s->channels;
        float wanted = sky__fineness_wanted(s->weights, s->mean, row, s->channels) +
                       sky__fineness_wanted(s->weights, s->mean, row + s->channels, s->channels);
        f->fineness[p] = sky__fineness_of(wanted / 2 * s->weight_unit);
    }
}

/* `D` is half a step. */
static void forward_block(fitter *f, uint32_t block, float D) {
    uint32_t channels = f->stream->channels, padded = f->transform.padded;
    float row[2][SKY_WIDTH_MAX];
    const float *in = f->rows + (size_t)block * f->block_tokens * channels +
                      (size_t)f->tile.head * f->shape.head_dim;
    const uint8_t *fineness = f->fineness + (size_t)block * f->block_tokens / 2;
    for (uint32_t t = 0; t + 2 <= f->block_tokens; t += 2) {
        fit_scale(f, f->stream->weights ? D * sky__fineness_step[fineness[t / 2]] : D);
        for (uint32_t i = 0; i < 2; i++)
            memcpy(row[i], in + (size_t)(t + i) * channels, f->tile.width * sizeof(float));
        float *z = f->z + (size_t)t * padded;
        sky__kernels()->forward(&f->transform, row[0], row[1], z, z + padded);
    }
}

/* Values no level can hold count as zero. */
static void clamp_to_levels(float *z, size_t count) {
    for (size_t i = 0; i < count; i++)
        z[i] = z[i] >= -16000.0f && z[i] <= 16000.0f ? z[i] : 0.0f;
}

static void quantise_all(fitter *f, float step, bool dependent) {
    size_t padded = f->transform.padded;
    uint32_t rows = f->block_tokens / 2;
    for (uint32_t b = 0; b < f->blocks; b++) {
        int16_t *packed = f->packed + (size_t)b * f->block_tokens * padded;
        forward_block(f, b, step * 0.5f);
        clamp_to_levels(f->z, f->block_tokens * padded);
        for (uint32_t half = 0; half < 2; half++) {
            const float *z = f->z + half * padded;
            if (dependent)
                sky__kernels()->trellis(z, rows, 2 * padded, (uint32_t)padded,
                                        packed + half * padded, f->decisions);
            else
                sky__kernels()->round(z, rows, 2 * padded, (uint32_t)padded,
                                      packed + half * padded);
        }
    }
}

static sky_levels all_rows(const fitter *f, uint32_t half) {
    size_t padded = f->transform.padded;
    return (sky_levels){f->packed + half * padded, f->blocks * f->block_tokens / 2, 2 * padded,
                        f->stream->weights ? f->fineness : NULL};
}

static void fit_order(fitter *f, sky_basis basis) {
    uint32_t sums[SKY_WIDTH_MAX];
    for (uint32_t half = 0; half < 2; half++) {
        sky_levels l = all_rows(f, half);
        memset(sums, 0, sizeof sums);
        sky__magnitudes_add(&l, f->tile.width, sums);
        sky__order_keys(sums, f->tile.width, 255,
                        f->stream->order[basis] + half * (size_t)f->stream->channels +
                            (size_t)f->tile.head * f->shape.head_dim);
    }
}

static void fit_classes(fitter *f, sky_level level, bool dependent) {
    sky_profile_stream *s = f->stream;
    sky_basis basis = sky_basis_of(s, level);
    sky_slices slices = sky_slices_of(s->heads, s->dim);
    sky_stream_profile taken = {s, NULL, 0};
    sky__rows_init(&f->order, f->tile.width, !dependent);
    sky__tile_order(&taken, &f->shape, &f->tile, basis, &f->order);
    for (uint32_t half = 0; half < 2; half++) {
        sky_levels l = all_rows(f, half);
        uint8_t *classes = s->classes +
                           ((((size_t)level - 1) * 2 + dependent) * 2 + half) * (size_t)s->units +
                           (size_t)f->tile.slice * (slices.padded_max / SKY_UNIT);
        sky__classes_choose(&f->order, half, &l, classes);
    }
    s->fitted[level][dependent] = true;
}

/* ---- lossless ---- */

/* Where a sample is taken to stand in a prompt. Channels that turn slowly look different far from
 * the beginning; there are more short prompts than long ones. */
static uint32_t exact_position(const fitter *f, uint32_t token) {
    uint64_t block = token / f->block_tokens, blocks = f->blocks;
    return (uint32_t)(block * block * EXACT_POSITIONS / (blocks * blocks)) +
           token % f->block_tokens;
}

/* The usual exponent numbered `index`, next to the mean rounded down. */
static uint8_t exact_usual_at(uint8_t mean, uint32_t index) {
    const uint32_t middle = EXACT_USUALS / 2;
    return (uint8_t)(mean < middle ? mean + index : mean + index - middle);
}

/* One token's rows turned as the engine holds them, as f32's top halves. */
static void exact_row(fitter *f, uint32_t token, uint16_t *top) {
    float row[SKY_WIDTH_MAX];
    const sky_rope *rope = sky__profile_rope_of(f->profile, f->shape.layer, f->shape.kv);
    memcpy(row,
           f->rows + (size_t)token * f->stream->channels + (size_t)f->tile.head * f->shape.head_dim,
           f->tile.width * sizeof *row);
    if (rope)
        sky_rope_apply(rope, false, exact_position(f, token), row, 1, f->tile.heads,
                       f->shape.head_dim);
    for (uint32_t i = 0; i < f->tile.width; i++)
        top[i] = (uint16_t)(sky_bits_of(row[i]) >> 16);
}

static void exact_usual(fitter *f, uint8_t *usual, uint8_t *keys) {
    uint32_t sums[SKY_WIDTH_MAX] = {0}, spreads[SKY_WIDTH_MAX] = {0}, width = f->tile.width;
    uint32_t tokens = f->blocks * f->block_tokens;
    uint16_t top[SKY_WIDTH_MAX];
    for (uint32_t t = 0; t < tokens; t++) {
        exact_row(f, t, top);
        for (uint32_t i = 0; i < width; i++)
            sums[i] += sky_exact_exponent(SKY_ELEMENT_F32, top[i]);
    }
    sky__exact_usual(sums, tokens, width, usual);
    for (uint32_t t = 0; t < tokens; t++) {
        exact_row(f, t, top);
        for (uint32_t i = 0; i < width; i++) {
            uint32_t e = sky_exact_exponent(SKY_ELEMENT_F32, top[i]);
            spreads[i] += e > usual[i] ? e - usual[i] : usual[i] - e;
        }
    }
    sky__exact_keys(sums, spreads, tokens, width, keys);
}

/* What each channel costs under each table. */
static void exact_costs(fitter *f, const sky_exact *x,
                        uint64_t costs[SKY_WIDTH_MAX][2][SKY_EXACT_TABLES]) {
    uint16_t top[2][SKY_WIDTH_MAX];
    int16_t packed[2 * SKY_WIDTH_MAX];
    uint32_t width = f->tile.width;
    memset(f->symbols, 0, SKY_WIDTH_MAX * sizeof *f->symbols);
    for (uint32_t t = 0; t < f->blocks * f->block_tokens; t++) {
        exact_row(f, t, top[t & 1]);
        sky__exact_split(x, top[t & 1], t % f->block_tokens ? top[~t & 1] : NULL, packed);
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t i = 0; i < width; i++)
                sky__histogram_add_one(&f->symbols[i][half], packed[half * x->padded + i],
                                       half ? sky_exact_shift(x->element) : 0);
    }
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t c = 0; c < SKY_EXACT_TABLES; c++)
                costs[i][half][c] = sky__class_exact_cost(&f->symbols[i][half], half, c);
}

/* Under the tables of its unit each channel takes the usual exponent that suits them; false: all
 * have it already. Shape: chosen [width], indices of f->costs */
static bool exact_choose(fitter *f, uint8_t *chosen) {
    sky_fit_units *u = f->units;
    bool changed = false;
    for (uint32_t i = 0; i < u->width; i++) {
        uint8_t a = u->table[0][u->unit[i]], b = u->table[1][u->unit[i]], best = chosen[i];
        for (uint8_t e = 0; e < EXACT_USUALS; e++)
            if (f->costs[e][i][0][a] + f->costs[e][i][1][b] <
                f->costs[best][i][0][a] + f->costs[best][i][1][b])
                best = e;
        changed |= best != chosen[i];
        chosen[i] = best;
        memcpy(u->cost[i], f->costs[best][i], sizeof u->cost[i]);
    }
    return changed;
}

/* Sorted by their keys, channels are about right; keys become the numbers of better units. Each
 * round lowers the cost, so this ends. */
static void fit_exact(fitter *f) {
    sky_profile_stream *s = f->stream;
    sky_slices slices = sky_slices_of(s->heads, s->dim);
    uint32_t width = f->tile.width, middle = EXACT_USUALS / 2;
    uint8_t *usual = s->exact + (size_t)f->tile.head * s->dim, *keys = usual + s->channels;
    uint8_t *classes = s->exact + 2 * (size_t)s->channels +
                       (size_t)f->tile.slice * (slices.padded_max / SKY_UNIT);
    uint8_t chosen[SKY_WIDTH_MAX];
    sky_stream_profile taken = {s, NULL, 0};
    sky_exact x;
    exact_usual(f, usual, keys);
    sky__tile_exact(&taken, &f->shape, &f->tile, true, &x, &f->order);
    for (uint32_t e = 0; e < EXACT_USUALS; e++) {
        for (uint32_t i = 0; i < width; i++)
            x.usual[i] = exact_usual_at(usual[i], e);
        exact_costs(f, &x, f->costs[e]);
    }
    f->units->width = width;
    for (uint32_t i = 0; i < f->order.steps * SKY_LANES; i++)
        if (f->order.channel[0][i] < width)
            f->units->unit[f->order.channel[0][i]] = (uint8_t)(i / SKY_UNIT);
    memset(chosen, (int)middle, sizeof chosen);
    memcpy(f->units->cost, f->costs[middle], sizeof f->units->cost);
    do
        sky__fit_units(f->units);
    while (exact_choose(f, chosen));
    for (uint32_t i = 0; i < width; i++)
        usual[i] = exact_usual_at(usual[i], chosen[i]);
    memcpy(keys, f->units->unit, width);
    for (uint32_t half = 0; half < 2; half++)
        memcpy(classes + half * (size_t)s->units, f->units->table[half], sky_rows_units(&f->order));
}

static float step_of(const sky_profile_stream *s, sky_level level) {
    return s->step[level][1] > 0 ? s->step[level][1] : s->step[level][0];
}

/* The level at which a basis is ordered; SKY_LEVEL_LOSSLESS: none is set. */
static sky_level order_level(const sky_profile_stream *s, sky_basis basis) {
    if (basis == SKY_BASIS_PAIR && step_of(s, ORDER_LEVEL) > 0)
        return ORDER_LEVEL;
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        if (sky_basis_of(s, (sky_level)level) == basis && step_of(s, (sky_level)level) > 0)
            return (sky_level)level;
    return SKY_LEVEL_LOSSLESS;
}

static void use_basis(fitter *f, sky_basis basis) {
    const sky_profile_stream *s = f->stream;
    uint32_t flags = s->mean ? SKY_STREAM_MEAN : 0;
    if (basis == SKY_BASIS_KLT)
        flags |= SKY_STREAM_KLT;
    else if (s->g)
        flags |= SKY_STREAM_PAIRS;
    if (sky__profile_rope_of(f->profile, f->shape.layer, f->shape.kv))
        flags |= SKY_STREAM_ROPE; /* for the pairs' sake; rows are before rope already */
    sky_stream_profile taken = {s, sky__profile_rope_of(f->profile, f->shape.layer, f->shape.kv),
                                0};
    sky__tile_transform(&taken, &f->shape, (uint8_t)flags, &f->tile, true, &f->transform);
}

static void fit_slice(fitter *f) {
    sky_profile_stream *s = f->stream;
    fit_exact(f);
    for (uint32_t basis = 0; basis < 2; basis++) {
        sky_level level = order_level(s, (sky_basis)basis);
        if (level == SKY_LEVEL_LOSSLESS)
            continue;
        use_basis(f, (sky_basis)basis);
        /* Eight times finer, so that channels that round to nothing are told apart too. */
        quantise_all(f, step_of(s, level) / 8, false);
        fit_order(f, (sky_basis)basis);
    }
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t dependent = 0; dependent < 2; dependent++) {
            if (!(s->step[level][dependent] > 0))
                continue;
            use_basis(f, sky_basis_of(s, (sky_level)level));
            quantise_all(f, s->step[level][dependent], dependent);
            fit_classes(f, (sky_level)level, dependent);
        }
}

sky_status sky_profile_fit(sky_profile *profile, uint32_t layer, sky_kv kv, const float *rows,
                           uint32_t token_count, uint32_t block_tokens) {
    if (!profile || !rows || profile->sealed || !sky__profile_stream(profile, layer, kv) ||
        block_tokens < 2 || block_tokens > SKY_STREAM_TOKENS_MAX || token_count < block_tokens)
        return SKY_E_PARAM;
    fitter f = {.profile = profile,
                .stream = &profile->streams[2 * layer + (uint32_t)kv],
                .rows = rows,
                .block_tokens = block_tokens / 2 * 2};
    sky_profile_stream *s = f.stream;
    f.blocks = token_count / f.block_tokens;
    f.shape = (sky_stream_shape){.layer = layer,
                                 .kv = kv,
                                 .element = SKY_ELEMENT_F32,
                                 .token_count = f.block_tokens,
                                 .kv_heads = s->heads,
                                 .head_dim = s->dim};
    size_t padded = sky_slices_of(s->heads, s->dim).padded_max;
    f.z = malloc(f.block_tokens * padded * sizeof *f.z);
    f.packed = malloc((size_t)f.blocks * f.block_tokens * padded * sizeof *f.packed);
    f.decisions = malloc((size_t)f.block_tokens * SKY_LANE_GROUP);
    f.fineness = malloc((size_t)f.blocks * f.block_tokens / 2);
    f.symbols = malloc(SKY_WIDTH_MAX * sizeof *f.symbols);
    f.units = malloc(sizeof *f.units);
    f.costs = malloc(EXACT_USUALS * sizeof *f.costs);
    sky_status status = f.z && f.packed && f.decisions && f.fineness && f.symbols && f.units &&
                                f.costs
                            ? sky__profile_room(s)
                            : SKY_E_NOMEM;
    if (status == SKY_OK && !s->exact)
        s->exact = calloc(1, sky_exact_bytes(s));
    if (status == SKY_OK && !s->exact)
        status = SKY_E_NOMEM;
    sky_slices slices = sky_slices_of(s->heads, s->dim);
    const fenv_t before = sky_floats_begin();
    if (status == SKY_OK)
        fit_fineness(&f);
    for (uint32_t slice = 0; status == SKY_OK && slice < slices.count; slice++) {
        uint32_t heads = sky_slice_heads(&slices, s->heads, slice);
        f.tile = (sky_tile){0,     f.block_tokens, slice, slice * slices.heads_max,
                            heads, heads * s->dim};
        fit_slice(&f);
    }
    sky_floats_restore(&before);
    free(f.z);
    free(f.packed);
    free(f.decisions);
    free(f.fineness);
    free(f.symbols);
    free(f.units);
    free(f.costs);
    return status;
}
