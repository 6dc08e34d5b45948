/* What others do with a KV cache, for comparison: llama.cpp's block types by its own code, KIVI and
 * CacheGen by their papers' and repositories' rules, with all side information counted.
 *
 * CacheGen is there twice: as it is shipped, which codes no differences, and by the method that its
 * description gives. Its entropy coder is taken to be ideal, its tables are charged as it ships
 * them. */
#include "references.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int code_streams(const cli *c, eval_scheme *scheme, eval_text *t, double *bytes) {
    size_t most = 0;
    for (size_t i = 0; i < t->stream_count; i++)
        if (eval_elements(&t->streams[i]) > most)
            most = eval_elements(&t->streams[i]);
    float *values = malloc(most * sizeof *values);
    if (!values)
        return cli_failed(c, "out of memory");
    double total = 0;
    scheme->layer_count = (uint32_t)(t->stream_count / 2);
    for (size_t i = 0; i < t->stream_count; i++) {
        double bits = 0;
        eval_rows_read(&t->streams[i], values);
        scheme->stream(scheme, &t->streams[i], values, &bits);
        eval_rows_write(&t->streams[i], values);
        total += bits;
    }
    free(values);
    *bytes = total / 8;
    return CLI_OK;
}

/* What a scale costs: it is stored as f16. */
static float as_half(float x) {
    uint16_t row;
    const uint16_t *original = &row;
    eval_stream one = {.token_count = 1, .heads = 1, .dim = 1, .original = original, .rows = &row};
    float value;
    eval_rows_write(&one, &x);
    eval_rows_read(&one, &value);
    return value;
}

static void as_it_is(const eval_scheme *scheme, const eval_stream *s, float *values, double *bits) {
    (void)scheme, (void)values;
    *bits = 16.0 * (double)eval_elements(s);
}

/* One unit in the last place up or down: what f16 itself leaves undecided. */
static void last_place(const eval_scheme *scheme, const eval_stream *s, float *values,
                       double *bits) {
    uint64_t random = 0x9e3779b97f4a7c15u * (s->layer->model_layer * 2 + (s->is_k ? 1u : 2u));
    for (size_t i = 0; i < eval_elements(s); i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int exponent;
        frexpf(values[i], &exponent);
        float unit = ldexpf(1, exponent > -13 ? exponent - 11 : -24);
        values[i] += random & 1 ? unit : -unit;
    }
    as_it_is(scheme, s, values, bits);
}

static void ggml_type(const eval_scheme *scheme, const eval_stream *s, float *values,
                      double *bits) {
    size_t bytes = 0;
    sky_llama_round_trip(scheme->name, values, eval_elements(s), &bytes);
    *bits = 8.0 * (double)bytes;
}

/* Walsh-Hadamard over each head after fixed random signs; its own inverse but for the signs. */
static void references_rotate(const eval_stream *s, float *values, bool back) {
    uint32_t width = s->dim & -s->dim; /* the largest power of two that divides a head */
    float scale = 1 / sqrtf((float)width);
    for (size_t at = 0; at < eval_elements(s); at += width) {
        float *x = values + at;
        uint32_t signs = 0x2545f491u;
        for (uint32_t half = 0; !back && half < width; half++) {
            signs ^= signs << 13, signs ^= signs >> 17, signs ^= signs << 5;
            x[half] = signs & 1 ? -x[half] : x[half];
        }
        for (uint32_t half = 1; half < width; half *= 2)
            for (uint32_t i = 0; i < width; i += 2 * half)
                for (uint32_t j = i; j < i + half; j++) {
                    float u = x[j], v = x[j + half];
                    x[j] = u + v;
                    x[j + half] = u - v;
                }
        for (uint32_t i = 0; i < width; i++) {
            x[i] *= scale;
            if (!back)
                continue;
            signs ^= signs << 13, signs ^= signs >> 17, signs ^= signs << 5;
            x[i] = signs & 1 ? -x[i] : x[i];
        }
    }
}

static void rotated_q4(const eval_scheme *scheme, const eval_stream *s, float *values,
                       double *bits) {
    (void)scheme;
    size_t bytes = 0;
    references_rotate(s, values, false);
    sky_llama_round_trip("q4_0", values, eval_elements(s), &bytes);
    references_rotate(s, values, true);
    *bits = 8.0 * (double)bytes;
}

/* Scale and zero point, both f16, for a group of values that lie `stride` apart. */
static void kivi_group(float *x, size_t count, size_t stride, int bits) {
    float low = x[0], high = x[0];
    for (size_t i = 1; i < count; i++) {
        low = fminf(low, x[i * stride]);
        high = fmaxf(high, x[i * stride]);
    }
    float step = (high - low) / (float)((1 << bits) - 1);
    float stored_step = as_half(step), stored_low = as_half(low);
    for (size_t i = 0; i < count; i++) {
        float q = step > 0 ? rintf((x[i * stride] - low) / step) : 0;
        x[i * stride] = q * stored_step + stored_low;
    }
}

/* K in groups along tokens, V in groups along channels (KIVI, section 3). */
static void references_kivi(const eval_scheme *scheme, const eval_stream *s, float *values,
                            double *bits) {
    size_t width = eval_width(s), group = (size_t)scheme->group;
    double groups = 0;
    if (s->is_k) {
        for (size_t t = 0; t < s->token_count; t += group) {
            size_t count = s->token_count - t < group ? s->token_count - t : group;
            for (size_t i = 0; i < width; i++, groups++)
                kivi_group(values + t * width + i, count, width, scheme->bits);
        }
    } else {
        for (size_t t = 0; t < s->token_count; t++)
            for (size_t i = 0; i < width; i += group, groups++)
                kivi_group(values + t * width + i, width - i < group ? width - i : group, 1,
                           scheme->bits);
    }
    *bits = scheme->bits * (double)eval_elements(s) + 32 * groups;
}

#define CACHEGEN_CHUNK       256
#define CACHEGEN_SYMBOLS_MAX 31

/* Ideal bits of a chunk with a table per channel, and the tables: 33 × 16 bits a channel. */
static double cachegen_bits(const int8_t *q, size_t tokens, size_t width) {
    double bits = (double)width * 33 * 16 + (double)width * 32;
    for (size_t i = 0; i < width; i++) {
        double count[2 * CACHEGEN_SYMBOLS_MAX + 1] = {0};
        for (size_t t = 0; t < tokens; t++)
            count[q[t * width + i] + CACHEGEN_SYMBOLS_MAX]++;
        for (size_t k = 0; k < sizeof count / sizeof count[0]; k++)
            bits -= count[k] > 0 ? count[k] * log2(count[k] / (double)tokens) : 0;
    }
    return bits;
}

/* As shipped: no delta; symmetric, scaled by the largest value of each token; 32 bins for K of the
 * first ten layers and V of the first two, 16 elsewhere. */
static void references_cachegen(const eval_scheme *scheme, const eval_stream *s, float *values,
                                double *bits) {
    (void)scheme;
    size_t width = eval_width(s);
    float most = s->layer->model_layer < (s->is_k ? 10u : 2u) ? 15 : 7;
    int8_t *q = malloc(CACHEGEN_CHUNK * width);
    *bits = 0;
    for (size_t first = 0; q && first < s->token_count; first += CACHEGEN_CHUNK) {
        size_t left = s->token_count - first;
        size_t tokens = left < CACHEGEN_CHUNK ? left : CACHEGEN_CHUNK;
        for (size_t t = 0; t < tokens; t++) {
            float *x = values + (first + t) * width, high = 0;
            for (size_t i = 0; i < width; i++)
                high = fmaxf(high, fabsf(x[i]));
            float stored = as_half(high);
            for (size_t i = 0; i < width; i++) {
                float k = high > 0 ? rintf(x[i] * most / high) : 0;
                q[t * width + i] = (int8_t)k;
                x[i] = k * stored / most;
            }
        }
        *bits += cachegen_bits(q, tokens, width) + 16.0 * (double)tokens;
    }
    free(q);
}

#define NOTE_CHUNK   1500 /* tokens that share tables */
#define NOTE_GROUP   10   /* tokens that share an anchor, which is their first */
#define NOTE_SYMBOLS 16   /* either side of 0: what a table of 33 has room for */

/* Eight bits a value, scaled by the largest of the token; the scale is an f16. */
static void note_anchor(float *x, size_t width) {
    float high = 0;
    for (size_t i = 0; i < width; i++)
        high = fmaxf(high, fabsf(x[i]));
    float stored = as_half(high);
    for (size_t i = 0; i < width; i++)
        x[i] = high > 0 ? rintf(x[i] * 127 / high) * stored / 127 : 0;
}

/* Root mean square of a chunk's differences to their anchors as these are decoded. */
static float note_scale(const float *x, size_t tokens, size_t width) {
    double sum = 0;
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < width && t % NOTE_GROUP > 0; i++) {
            double d = x[t * width + i] - x[(t - t % NOTE_GROUP) * width + i];
            sum += d * d;
        }
    size_t anchors = (tokens + NOTE_GROUP - 1) / NOTE_GROUP;
    size_t count = (tokens - anchors) * width;
    return count > 0 ? as_half((float)sqrt(sum / (double)count)) : 0;
}

/* By its description: anchors at eight bits, the other tokens as differences to theirs, in bins
 * that grow from the first third of the layers to the last; a table for each layer and channel. The
 * bins are 0.5, 1 and 1.5; of what is not said: here of the root mean square of the differences. */
static void cachegen_note(const eval_scheme *scheme, const eval_stream *s, float *values,
                          double *bits) {
    size_t width = eval_width(s);
    uint32_t third = 3 * s->layer->model_layer / (scheme->layer_count ? scheme->layer_count : 1);
    int8_t *q = malloc(NOTE_CHUNK * width);
    *bits = 0;
    for (size_t first = 0; q && first < s->token_count; first += NOTE_CHUNK) {
        size_t left = s->token_count - first, tokens = left < NOTE_CHUNK ? left : NOTE_CHUNK;
        size_t anchors = (tokens + NOTE_GROUP - 1) / NOTE_GROUP, coded = 0;
        float *x = values + first * width;
        for (size_t t = 0; t < tokens; t += NOTE_GROUP)
            note_anchor(x + t * width, width);
        float bin = note_scale(x, tokens, width) * 0.5f * (float)(third + 1);
        for (size_t t = 0; t < tokens; t++)
            for (size_t i = 0; i < width && t % NOTE_GROUP > 0; i++) {
                float anchor = x[(t - t % NOTE_GROUP) * width + i];
                float k = bin > 0 ? rintf((x[t * width + i] - anchor) / bin) : 0;
                k = fminf(fmaxf(k, -NOTE_SYMBOLS), NOTE_SYMBOLS);
                q[coded++] = (int8_t)k;
                x[t * width + i] = anchor + k * bin;
            }
        *bits += cachegen_bits(q, tokens - anchors, width) + 16;
        *bits += (double)anchors * (8.0 * (double)width + 16);
    }
    free(q);
}

static const eval_scheme references[] = {
    {.name = "f16", .code = code_streams, .stream = as_it_is},
    {.name = "noise", .code = code_streams, .stream = last_place},
    {.name = "q8_0", .code = code_streams, .stream = ggml_type},
    {.name = "q5_1", .code = code_streams, .stream = ggml_type},
    {.name = "q5_0", .code = code_streams, .stream = ggml_type},
    {.name = "q4_0", .code = code_streams, .stream = ggml_type},
    {.name = "q4_0-rotated", .code = code_streams, .stream = rotated_q4},
    {.name = "kivi-4", .code = code_streams, .stream = references_kivi, .bits = 4, .group = 32},
    {.name = "kivi-2", .code = code_streams, .stream = references_kivi, .bits = 2, .group = 32},
    {.name = "cachegen", .code = code_streams, .stream = references_cachegen},
    {.name = "cachegen-note", .code = code_streams, .stream = cachegen_note},
};

const char *eval_scheme_find(const char *name, uint32_t block_tokens, eval_scheme *out) {
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        if (strcmp(references[i].name, name) == 0) {
            *out = references[i];
            return NULL;
        }
    }
    return eval_scheme_parse(name, NULL, block_tokens, out);
}

#endif
