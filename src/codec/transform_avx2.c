/* Transforms by AVX2 and F16C: what transform.c does, every float operation in the same order.
 * Pairs of channels are taken eight at a time, both tokens together: they share matrix and mean.
 *
 * So it is where a head's pairs come in eights and are no neighbours: heads of 64, 80, 96, 128, 256
 * channels. Other shapes, full matrices and a last token alone go through the scalar text, compiled
 * once more, whose loops become vectors. */
#include <immintrin.h>

#define sky__transform_angles        sky__transform_angles_any_avx2
#define sky__transform_turn_on       sky__transform_turn_on_avx2
#define sky__transform_scale         sky__transform_scale_avx2
#define sky__transform_restore       sky__transform_restore_avx2
#define sky__transform_restore_pairs sky__transform_restore_pairs_any_avx2
#define sky__transform_load          sky__transform_load_any_avx2
#define sky__transform_forward       sky__transform_forward_any_avx2
#define KLT_LANES                    8u
#include "codec/transform.c"
#undef sky__transform_angles
#undef sky__transform_restore
#undef sky__transform_restore_pairs
#undef sky__transform_load
#undef sky__transform_forward

#include "codec/kernels_avx2.h"

#define LANES 8u
/* Elements are a constant inside: one body for each. */
#define INLINE static inline __attribute__((always_inline))

static inline uint32_t turned_pairs(const sky_transform *t) {
    return t->rope ? t->rope->pair_count : 0;
}

static bool in_eights(const sky_transform *t) {
    uint32_t turned = turned_pairs(t);
    return !t->klt && t->dim % (2 * LANES) == 0 && turned % LANES == 0 &&
           !(turned && t->rope->kind == SKY_ROPE_INTERLEAVED);
}

/* ---- elements ---- */

INLINE __m128i bf16_of(__m256 x) {
    __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i out = _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(out), _mm256_extracti128_si256(out, 1));
}

/* Eight elements. */
INLINE void store(__m256 x, sky_element element, uint8_t *out) {
    if (element == SKY_ELEMENT_F32)
        _mm256_storeu_ps((float *)(void *)out, x);
    else if (element == SKY_ELEMENT_F16)
        _mm_storeu_si128((__m128i *)(void *)out,
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    else
        _mm_storeu_si128((__m128i *)(void *)out, bf16_of(x));
}

INLINE __m256 load_vector(const uint8_t *in, sky_element element) {
    if (element == SKY_ELEMENT_F32)
        return _mm256_loadu_ps((const float *)(const void *)in);
    __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)in);
    if (element == SKY_ELEMENT_F16)
        return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

INLINE __m256 sum_of_products(__m256 a, __m256 f, __m256 b, __m256 g) {
    return _mm256_add_ps(_mm256_mul_ps(a, f), _mm256_mul_ps(b, g));
}

/* Pairs of channels of a head: its pair `pair` and those after are of channels first, first + 1, …
 * and second, second + 1, … */
typedef struct {
    uint32_t head;
    uint32_t pair;
    uint32_t first;
    uint32_t second;
    uint32_t count;
    bool turned; /* by rope */
} run;

INLINE run run_of(const sky_transform *t, uint32_t head, bool turned) {
    uint32_t pairs = turned_pairs(t), rest = t->dim / 2 - pairs;
    return turned ? (run){head, 0, 0, pairs, pairs, true}
                  : (run){head, pairs, 2 * pairs, 2 * pairs + rest, rest, false};
}

/* ---- decoding ---- */

/* Eight angles: of a token and, from those of position 2, of the one two after it. */
typedef struct {
    __m256 c;
    __m256 s;
} angles;

INLINE angles load_angles(const sky_transform *t, uint32_t which, uint32_t pair) {
    return (angles){_mm256_load_ps(t->cosine[which] + pair), _mm256_load_ps(t->sine[which] + pair)};
}
INLINE void store_angles(angles a, sky_transform *t, uint32_t which, uint32_t pair) {
    _mm256_store_ps(t->cosine[which] + pair, a.c);
    _mm256_store_ps(t->sine[which] + pair, a.s);
}
INLINE angles turned_on(angles a, angles two) {
    return (angles){_mm256_sub_ps(_mm256_mul_ps(a.c, two.c), _mm256_mul_ps(a.s, two.s)),
                    sum_of_products(a.s, two.c, a.c, two.s)};
}

/* Two tokens on their way. */
typedef struct {
    sky_transform *t;
    const int16_t *sum;
    const int16_t *difference;
    uint8_t *out[2]; /* of the head at hand */
    bool turn_on;    /* the angles are still those of the two tokens before */
    sky_element element;
} restoring;

INLINE __m256 floats_of(__m128i words) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(words));
}

/* Channels that follow one another, of both tokens. What a loop over them needs is copied out of
 * the transform: the compiler would load it anew after every store. */
typedef struct {
    const int16_t *sum;
    const int16_t *difference;
    const float *mean;
    uint8_t *out[2];
} channels;

INLINE channels channels_of(const restoring *r, uint32_t head, uint32_t channel) {
    uint32_t all = head * r->t->dim + channel, at = channel * sky_element_bytes(r->element);
    return (channels){
        r->sum + all, r->difference + all, r->t->mean + all, {r->out[0] + at, r->out[1] + at}};
}

/* Levels of eight channels: of token 0 and 1. */
INLINE void load_levels(const channels *c, uint32_t at, __m256 n[2]) {
    __m128i sum = _mm_loadu_si128((const __m128i *)(c->sum + at));
    __m128i difference = _mm_loadu_si128((const __m128i *)(c->difference + at));
    n[0] = floats_of(_mm_add_epi16(sum, difference));
    n[1] = floats_of(_mm_sub_epi16(sum, difference));
}

/* From levels to values, in place, by the matrices of eight pairs, which lie apart; NULL: by the
 * scale. */
INLINE void unmix(const float *matrices, float scale, __m256 x[2], __m256 y[2]) {
    __m256 all = _mm256_set1_ps(scale), g[4];
    for (uint32_t c = 0; matrices && c < 4; c++)
        g[c] = _mm256_loadu_ps(matrices + c * (SKY_WIDTH_MAX / 2));
    for (uint32_t i = 0; i < 2; i++) {
        __m256 a = x[i], b = y[i];
        x[i] = matrices ? sum_of_products(a, g[0], b, g[2]) : _mm256_mul_ps(a, all);
        y[i] = matrices ? sum_of_products(a, g[1], b, g[3]) : _mm256_mul_ps(b, all);
    }
}

INLINE void add_mean(const channels *c, uint32_t at, __m256 x[2]) {
    __m256 mean = _mm256_loadu_ps(c->mean + at);
    x[0] = _mm256_add_ps(x[0], mean);
    x[1] = _mm256_add_ps(x[1], mean);
}

/* Turn both tokens' values by rope, the angles on before if need be: every head takes them from the
 * start, the last one keeps them. */
INLINE void turn_eight(sky_transform *t, bool turn_on, bool keep, uint32_t pair, __m256 x[2],
                       __m256 y[2]) {
    for (uint32_t i = 0; i < 2; i++) {
        angles turn = load_angles(t, i, pair);
        __m256 a = x[i], b = y[i];
        if (turn_on)
            turn = turned_on(turn, load_angles(t, 2, pair));
        if (turn_on && keep)
            store_angles(turn, t, i, pair);
        x[i] = _mm256_sub_ps(_mm256_mul_ps(a, turn.c), _mm256_mul_ps(b, turn.s));
        y[i] = sum_of_products(a, turn.s, b, turn.c);
    }
}

INLINE void restore_run(const restoring *r, const run *o, bool turned, bool paired) {
    sky_transform *t = r->t;
    uint32_t size = sky_element_bytes(r->element), count = o->count;
    channels first = channels_of(r, o->head, o->first), second = channels_of(r, o->head, o->second);
    const float *matrices = t->scaled[0] + o->head * (t->dim / 2) + o->pair, scale = t->scale[0];
    bool turn_on = r->turn_on, keep = o->head + 1 == t->heads;
    for (uint32_t at = 0; at < count; at += LANES) {
        __m256 x[2], y[2];
        load_levels(&first, at, x);
        load_levels(&second, at, y);
        unmix(paired ? matrices + at : NULL, scale, x, y);
        add_mean(&first, at, x);
        add_mean(&second, at, y);
        if (turned)
            turn_eight(t, turn_on, keep, at, x, y);
        for (uint32_t i = 0; i < 2; i++) {
            store(x[i], r->element, first.out[i] + at * size);
            store(y[i], r->element, second.out[i] + at * size);
        }
    }
}

INLINE void restore_heads(restoring r, size_t head_bytes, bool paired) {
    for (uint32_t head = 0; head < r.t->heads; head++) {
        run turned = run_of(r.t, head, true), rest = run_of(r.t, head, false);
        restore_run(&r, &turned, true, paired);
        restore_run(&r, &rest, false, paired);
        r.out[0] += head_bytes;
        r.out[1] += head_bytes;
    }
}

void sky__transform_restore_pairs_avx2(sky_transform *t, int16_t (*rows)[SKY_WIDTH_MAX],
                                       const sky_pairs_out *to) {
    if (!in_eights(t)) {
        sky__transform_restore_pairs_any_avx2(t, rows, to);
        return;
    }
    for (uint32_t i = 0; i < to->pairs; i++) {
        uint8_t *out = to->out + 2 * i * to->token_bytes;
        restoring r = {
            t,         rows[2 * i], rows[2 * i + 1], {out, out + to->token_bytes}, i || to->turn_on,
            t->element};
        if (t->element != SKY_ELEMENT_F16) {
            restore_heads(r, to->head_bytes, t->pairs);
            continue;
        }
        r.element = SKY_ELEMENT_F16;
        if (t->pairs)
            restore_heads(r, to->head_bytes, true);
        else
            restore_heads(r, to->head_bytes, false);
    }
}

/* ---- angles ---- */

/* As sine_cosine of rope.c. */
static inline __m256 evaluate_polynomial(const float *coefficients, uint32_t count, __m256 t2) {
    __m256 y = _mm256_set1_ps(coefficients[count - 1]);
    for (uint32_t i = count - 1; i-- > 0;)
        y = _mm256_add_ps(_mm256_mul_ps(y, t2), _mm256_set1_ps(coefficients[i]));
    return y;
}

static inline void sine_cosine(__m256i angle, float *cosine, float *sine) {
    static const float sines[] = {SKY_SIN0, SKY_SIN1, SKY_SIN2, SKY_SIN3, SKY_SIN4};
    static const float cosines[] = {SKY_COS0, SKY_COS1, SKY_COS2, SKY_COS3, SKY_COS4, SKY_COS5};
    __m256i quarter = _mm256_srli_epi32(_mm256_add_epi32(angle, _mm256_set1_epi32(1 << 29)), 30);
    __m256i rest = _mm256_sub_epi32(angle, _mm256_slli_epi32(quarter, 30));
    __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(rest), _mm256_set1_ps(0x1p-32f));
    __m256 t2 = _mm256_mul_ps(t, t);
    __m256 s = _mm256_mul_ps(evaluate_polynomial(sines, 5, t2), t),
           c = evaluate_polynomial(cosines, 6, t2);
    __m256 swap = _mm256_castsi256_ps(_mm256_slli_epi32(quarter, 31)); /* its sign selects */
    __m256i next = _mm256_add_epi32(quarter, _mm256_set1_epi32(1));
    __m256 signs = _mm256_set1_ps(-0.0f);
    __m256 left = _mm256_and_ps(signs, _mm256_castsi256_ps(_mm256_slli_epi32(next, 30)));
    __m256 back = _mm256_and_ps(signs, _mm256_castsi256_ps(_mm256_slli_epi32(quarter, 30)));
    _mm256_store_ps(cosine, _mm256_xor_ps(_mm256_blendv_ps(c, s, swap), left));
    _mm256_store_ps(sine, _mm256_xor_ps(_mm256_blendv_ps(s, c, swap), back));
}

void sky__transform_angles_avx2(sky_transform *t, uint32_t position) {
    uint32_t count = turned_pairs(t);
    if (count % LANES) {
        sky__transform_angles_any_avx2(t, position);
        return;
    }
    for (uint32_t p = 0; p < count; p += LANES) {
        __m256i turns = _mm256_loadu_si256((const __m256i *)(t->rope->turns + p));
        __m256i first = _mm256_mullo_epi32(turns, _mm256_set1_epi32((int32_t)position));
        sine_cosine(first, t->cosine[0] + p, t->sine[0] + p);
        sine_cosine(_mm256_add_epi32(first, turns), t->cosine[1] + p, t->sine[1] + p);
        sine_cosine(_mm256_add_epi32(turns, turns), t->cosine[2] + p, t->sine[2] + p);
    }
}

/* ---- encoding ---- */

/* NaN for what is too large, or none. */
INLINE __m256 load_tame(const uint8_t *in, sky_element element) {
    const __m256 limit = _mm256_set1_ps(element == SKY_ELEMENT_F16 ? 60000.0f : 1e38f);
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    __m256 x = load_vector(in, element), size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    return _mm256_blendv_ps(nan, x, _mm256_cmp_ps(size, limit, _CMP_LE_OQ));
}

INLINE void load_run(const sky_transform *t, uint32_t which, const uint8_t *in, const run *o,
                     sky_element element, float *row) {
    uint32_t size = sky_element_bytes(element);
    for (uint32_t at = 0; at < o->count; at += LANES) {
        uint32_t first = o->first + at, second = o->second + at;
        __m256 x = load_tame(in + first * size, element), a = x;
        __m256 y = load_tame(in + second * size, element);
        if (o->turned) { /* back: the sine's sign is turned */
            __m256 c = _mm256_load_ps(t->cosine[which] + o->pair + at);
            __m256 s = _mm256_load_ps(t->sine[which] + o->pair + at);
            s = _mm256_xor_ps(s, _mm256_set1_ps(-0.0f));
            x = _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(y, s));
            y = sum_of_products(a, s, y, c);
        }
        _mm256_storeu_ps(row + first, x);
        _mm256_storeu_ps(row + second, y);
    }
}

INLINE void load_heads(const sky_transform *t, uint32_t which, const uint8_t *in, size_t head_bytes,
                       sky_element element, float *row) {
    for (uint32_t head = 0; head < t->heads; head++) {
        run turned = run_of(t, head, true), rest = run_of(t, head, false);
        load_run(t, which, in + head * head_bytes, &turned, element, row + head * t->dim);
        load_run(t, which, in + head * head_bytes, &rest, element, row + head * t->dim);
    }
}

void sky__transform_load_avx2(const sky_transform *t, uint32_t which, const uint8_t *in,
                              size_t head_bytes, float *row) {
    if (!in_eights(t))
        sky__transform_load_any_avx2(t, which, in, head_bytes, row);
    else if (t->element == SKY_ELEMENT_F16)
        load_heads(t, which, in, head_bytes, SKY_ELEMENT_F16, row);
    else
        load_heads(t, which, in, head_bytes, t->element, row);
}

/* Store z; bits of those that can not be quantised go into *wrong. */
static inline void put_values(__m256 z, float *out, __m256 *wrong) {
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), z);
    *wrong = _mm256_or_ps(*wrong, _mm256_cmp_ps(size, _mm256_set1_ps(SKY_Z_MAX), _CMP_NLE_UQ));
    _mm256_storeu_ps(out, z);
}

static inline void forward_run(const sky_transform *t, const run *o, const float *const row[2],
                               float *sum, float *difference, __m256 *wrong) {
    const __m256 scale = _mm256_set1_ps(t->scale[0]);
    uint32_t base = o->head * t->dim;
    const float *f = t->pairs ? t->matrix + o->head * (t->dim / 2) + o->pair : NULL;
    for (uint32_t at = 0; at < o->count; at += LANES) {
        uint32_t first = base + o->first + at, second = base + o->second + at;
        __m256 x[2], y[2], m[4];
        for (uint32_t c = 0; t->pairs && c < 4; c++)
            m[c] = _mm256_loadu_ps(f + c * t->matrix_pitch + at);
        for (uint32_t i = 0; i < 2; i++) {
            x[i] = _mm256_sub_ps(_mm256_loadu_ps(row[i] + first), _mm256_loadu_ps(t->mean + first));
            y[i] = _mm256_sub_ps(_mm256_loadu_ps(row[i] + second),
                                 _mm256_loadu_ps(t->mean + second));
            if (t->pairs) {
                __m256 a = x[i], b = y[i];
                x[i] = sum_of_products(a, m[0], b, m[2]);
                y[i] = sum_of_products(a, m[1], b, m[3]);
            }
        }
        put_values(_mm256_mul_ps(_mm256_add_ps(x[0], x[1]), scale), sum + first, wrong);
        put_values(_mm256_mul_ps(_mm256_sub_ps(x[0], x[1]), scale), difference + first, wrong);
        put_values(_mm256_mul_ps(_mm256_add_ps(y[0], y[1]), scale), sum + second, wrong);
        put_values(_mm256_mul_ps(_mm256_sub_ps(y[0], y[1]), scale), difference + second, wrong);
    }
}

bool sky__transform_forward_avx2(const sky_transform *t, float *row0, float *row1, float *sum,
                                 float *difference) {
    if (!row1 || !in_eights(t))
        return sky__transform_forward_any_avx2(t, row0, row1, sum, difference);
    const float *const row[2] = {row0, row1};
    __m256 wrong = _mm256_setzero_ps();
    for (uint32_t head = 0; head < t->heads; head++) {
        run turned = run_of(t, head, true), rest = run_of(t, head, false);
        forward_run(t, &turned, row, sum, difference, &wrong);
        forward_run(t, &rest, row, sum, difference, &wrong);
    }
    size_t padding = (t->padded - t->width) * sizeof *sum;
    memset(sum + t->width, 0, padding);
    memset(difference + t->width, 0, padding);
    return _mm256_movemask_ps(wrong) == 0;
}
