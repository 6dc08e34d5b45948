/* CacheGen's claims, one by one, on this model: eval --claims.
 *
 *   delta    neighbouring tokens are alike, so differences to an anchor token code better
 *   depth    shallow layers matter more, so they get finer bins
 *   groups   symbols of one layer and channel are alike, so they share a distribution
 *
 * Delta is judged at one uniform step for all ways of predicting, closed loop, so that errors are
 * alike and only bits differ; bits are each channel's empirical entropy, with the Miller-Madow
 * correction for what few samples hide. */
#include "claims.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL_MAX   1023
#define ANCHOR_EVERY 10 /* CacheGen's group */

typedef enum { PREDICT_NOTHING, PREDICT_ANCHOR, PREDICT_PREVIOUS, PREDICT_PAIRS, WAYS } way;
static const char *const way_names[WAYS] = {"none", "anchor", "previous", "pairs"};

static int16_t claims_quantise(float x, float step) {
    float q = rintf(x / step);
    return (int16_t)(q > SYMBOL_MAX ? SYMBOL_MAX : q < -SYMBOL_MAX ? -SYMBOL_MAX : q);
}

/* One channel, `stride` apart, becomes what a decoder would have; q takes its symbols. */
static void predict_channel(float *x, size_t tokens, size_t stride, float step, way how,
                            int16_t *q) {
    const float half = 0.70710678f;
    float anchor = 0;
    for (size_t t = 0; t < tokens; t++) {
        float *at = x + t * stride;
        if (how == PREDICT_PAIRS && t % 2 == 0 && t + 1 < tokens) {
            float *next = at + stride;
            q[t] = claims_quantise((*at + *next) * half, step);
            q[t + 1] = claims_quantise((*at - *next) * half, step);
            *at = (float)(q[t] + q[t + 1]) * step * half;
            *next = (float)(q[t] - q[t + 1]) * step * half;
            t++;
            continue;
        }
        float guess = how == PREDICT_ANCHOR && t % ANCHOR_EVERY == 0 ? 0 : anchor;
        if (how == PREDICT_NOTHING || how == PREDICT_PAIRS)
            guess = 0;
        q[t] = claims_quantise(*at - guess, step);
        *at = guess + (float)q[t] * step;
        if (how == PREDICT_PREVIOUS || t % ANCHOR_EVERY == 0)
            anchor = *at;
    }
}

/* Entropy, in bits altogether, of the symbols q[0], q[every], … (`rest`: of all but these). */
static double claims_entropy(const int16_t *q, size_t count, size_t every, bool rest) {
    uint32_t seen[2 * SYMBOL_MAX + 1];
    double n = 0, sum = 0, kinds = 0;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < count; i++) {
        if ((i % every == 0) == rest)
            continue;
        seen[q[i] + SYMBOL_MAX]++;
        n++;
    }
    for (size_t k = 0; k < sizeof seen / sizeof seen[0]; k++) {
        sum -= seen[k] ? seen[k] * log2(seen[k] / n) : 0;
        kinds += seen[k] != 0;
    }
    return sum + (kinds - 1) / 2 * 1.442695;
}

/* All channels of a stream; bits are returned. Sums and differences, anchors and what is predicted
 * from them, have a distribution each. */
static double predict_stream(const eval_stream *s, float *values, float step, way how) {
    size_t width = eval_width(s);
    int16_t *q = malloc(s->token_count * sizeof *q);
    double bits = 0;
    for (size_t i = 0; q && i < width; i++) {
        predict_channel(values + i, s->token_count, width, step, how, q);
        size_t apart = how == PREDICT_PAIRS ? 2 : how == PREDICT_ANCHOR ? ANCHOR_EVERY : 1;
        bits += claims_entropy(q, s->token_count, apart, false);
        if (apart > 1)
            bits += claims_entropy(q, s->token_count, apart, true);
    }
    free(q);
    return bits;
}

static void claims_centre(const eval_stream *s, float *values) {
    size_t width = eval_width(s);
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t t = 0; t < s->token_count; t++)
            sum += (double)values[t * width + i];
        for (size_t t = 0; t < s->token_count; t++)
            values[t * width + i] -= (float)(sum / s->token_count);
    }
}

static float claims_spread(const eval_stream *s, const float *values) {
    double squares = 0;
    for (size_t i = 0; i < eval_elements(s); i++)
        squares += (double)values[i] * (double)values[i];
    return (float)sqrt(squares / (double)eval_elements(s));
}

/* ---- delta ---- */

static int say_delta(const cli *c, const eval_text *t, const eval_stream *s, const char *rows,
                     const double bits[WAYS]) {
    json_t *o = json_pack("{s:s, s:o, s:i, s:s, s:s}", "claim", "delta", "text",
                          cli_json_text(t->name), "layer", (int)s->layer->model_layer, "kv",
                          s->is_k ? "K" : "V", "rows", rows);
    for (int w = 0; w < WAYS; w++)
        json_object_set_new(o, way_names[w], json_real(bits[w] / (double)eval_elements(s)));
    return cli_json_print(c, o);
}

/* Rows as they are stored, or with rope undone and the mean taken off. */
static int delta_of(const cli *c, const eval_text *t, const eval_stream *s, bool undone,
                    float *values, float *scratch) {
    double bits[WAYS];
    eval_rows_read(s, values);
    if (undone)
        eval_unrope(s, values);
    claims_centre(s, values);
    float step = 0.4f * claims_spread(s, values);
    for (int w = 0; w < WAYS; w++) {
        memcpy(scratch, values, eval_elements(s) * sizeof *scratch);
        bits[w] = predict_stream(s, scratch, step, (way)w);
    }
    return say_delta(c, t, s, undone ? "rope undone" : "as stored", bits);
}

/* ---- groups ---- */

/* CacheGen's own symbols: what a distribution costs, by whom it is shared. */
typedef struct {
    uint32_t seen[2][2 * 15 + 1]; /* K, V: of the whole model */
    double whole, layers, channels, tables, elements;
} groups;

static void count_groups(groups *g, const eval_stream *s, const float *values) {
    size_t width = eval_width(s), n = eval_elements(s);
    float most = s->layer->model_layer < (s->is_k ? 10u : 2u) ? 15 : 7;
    int16_t *q = malloc(n * sizeof *q);
    for (size_t t = 0; q && t < s->token_count; t++) {
        const float *x = values + t * width;
        float high = 0;
        for (size_t i = 0; i < width; i++)
            high = fmaxf(high, fabsf(x[i]));
        for (size_t i = 0; i < width; i++) {
            q[t * width + i] = claims_quantise(x[i], high > 0 ? high / most : 1);
            g->seen[!s->is_k][q[t * width + i] + 15]++;
        }
    }
    if (q) {
        g->layers += claims_entropy(q, n, 1, false);
        for (size_t i = 0; i < width; i++)
            g->channels += claims_entropy(q + i, n - i, width, false);
        g->tables += (double)width * 33 * 16 * ceil(s->token_count / 256.0);
        g->elements += (double)n;
    }
    free(q);
}

static int say_groups(const cli *c, const eval_text *t, groups *g) {
    for (int kv = 0; kv < 2; kv++) {
        double n = 0;
        for (int k = 0; k < 31; k++)
            n += g->seen[kv][k];
        for (int k = 0; k < 31; k++)
            g->whole -= g->seen[kv][k] ? g->seen[kv][k] * log2(g->seen[kv][k] / n) : 0;
    }
    return cli_json_print(c, json_pack("{s:s, s:o, s:f, s:f, s:f, s:f}", "claim", "groups", "text",
                                       cli_json_text(t->name), "whole", g->whole / g->elements,
                                       "by_layer", g->layers / g->elements, "by_channel",
                                       g->channels / g->elements, "by_channel_with_tables",
                                       (g->channels + g->tables) / g->elements));
}

/* ---- depth ---- */

/* A layer's K or V with noise of a twentieth of its power, and what that does to the answers. */
static int depth_of(const cli *c, eval_model *m, eval_text *t, size_t i, float *values) {
    const eval_stream *s = &t->streams[i];
    uint64_t random = 0x9e3779b97f4a7c15u + i;
    eval_score score;
    eval_rows_read(s, values);
    claims_centre(s, values);
    float half_width = sqrtf(3 * 0.05f) * claims_spread(s, values);
    eval_rows_read(s, values);
    for (size_t j = s->first_token == 0 ? eval_width(s) : 0; j < eval_elements(s); j++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        values[j] += half_width * ((float)(random >> 40) * 0x1p-23f - 1);
    }
    eval_text_reset(t);
    eval_rows_write(s, values);
    int code = eval_measure(c, m, t, &score);
    if (code != CLI_OK)
        return code;
    return cli_json_print(c, json_pack("{s:s, s:o, s:i, s:s, s:i, s:f}", "claim", "depth", "text",
                                       cli_json_text(t->name), "layer", (int)s->layer->model_layer,
                                       "kv", s->is_k ? "K" : "V", "tokens", (int)s->token_count,
                                       "kld_mean", score.kld_mean));
}

int eval_claims(const cli *c, eval_model *m, eval_text *t) {
    size_t most = 1;
    groups g = {0};
    for (size_t i = 0; i < t->stream_count; i++)
        most = eval_elements(&t->streams[i]) > most ? eval_elements(&t->streams[i]) : most;
    float *values = malloc(2 * most * sizeof *values);
    int code = values ? CLI_OK : cli_failed(c, "out of memory");
    for (size_t i = 0; i < t->stream_count && code == CLI_OK; i++) {
        const eval_stream *s = &t->streams[i];
        cli_progress("%s: layer %u", t->name, s->layer->model_layer);
        code = delta_of(c, t, s, false, values, values + most);
        if (code == CLI_OK && s->is_k)
            code = delta_of(c, t, s, true, values, values + most);
        eval_rows_read(s, values);
        count_groups(&g, s, values);
        if (code == CLI_OK)
            code = depth_of(c, m, t, i, values);
    }
    cli_progress(NULL);
    free(values);
    eval_text_reset(t);
    return code == CLI_OK ? say_groups(c, t, &g) : code;
}

#endif
