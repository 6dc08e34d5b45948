/* How coarse each stream may be.
 *
 * Layers differ by four orders of magnitude in what an error does to the answers, and no statistic
 * of their rows tells: it is measured. Each stream is coded alone, the model reads on, and the
 * divergence is noted. Where noise of step s costs c s² and another halving of s costs one bit an
 * element, the best steps make all c s² alike: s ~ c^−½. Measured divergences are noisy, so the
 * exponent is smaller, and the second round starts at the steps of the first:
 *
 *   first:  s ~ (c / s₀²)^−0.375     at steps of about half a standard deviation
 *   second: s ← s (mean c / c)^0.35  at the steps of level 3, c per token and slope of the rate
 */
#include "calibrate.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_TOKENS 1024u
#define NEXT_TOKENS   48u

/* Bits an element that the levels are meant to take. */
static const double target_bits[SKY_LEVEL_COUNT] = {
    [SKY_LEVEL_8] = 7.35,   [SKY_LEVEL_6] = 5.85, [SKY_LEVEL_4] = 4.00,       [SKY_LEVEL_3] = 3.05,
    [SKY_LEVEL_2_5] = 2.46, [SKY_LEVEL_2] = 2.01, [SKY_LEVEL_ARCHIVE] = 1.58,
};

/* ---- profiles ---- */

static uint32_t rope_index(sky_rope *ropes, uint32_t *count, const sky_llama_layer *layer) {
    sky_rope rope;
    if (!eval_rope_of(layer, &rope))
        return SKY_ROPE_OF_NONE;
    for (uint32_t i = 0; i < *count; i++)
        if (memcmp(&ropes[i], &rope, sizeof rope) == 0)
            return i;
    if (*count == SKY_ROPES_MAX)
        return SKY_ROPE_OF_NONE;
    ropes[*count] = rope;
    return (*count)++;
}

static sky_status create_profile(const calibration *k, sky_profile **out) {
    sky_rope ropes[SKY_ROPES_MAX];
    sky_profile_layer *layers = calloc(k->layer_count, sizeof *layers);
    uint32_t *order = calloc(k->layer_count, sizeof *order);
    if (!layers || !order) {
        free(layers);
        free(order);
        return SKY_E_NOMEM;
    }
    sky_profile_shape shape = {.layer_count = k->layer_count, .layers = layers, .ropes = ropes};
    for (uint32_t i = 0; i < k->layer_count; i++) {
        const sky_llama_layer *l = &k->layers[i];
        layers[i] = (sky_profile_layer){l->kv_heads, l->k_width, l->v_width,
                                        rope_index(ropes, &shape.rope_count, l)};
        order[i] = l->model_layer;
    }
    memcpy(shape.fingerprint, k->model.fingerprint, sizeof shape.fingerprint);
    sky_status status = sky_profile_create(&shape, out);
    if (status == SKY_OK)
        status = sky_profile_set_order(*out, order);
    free(layers);
    free(order);
    return status;
}

static sky_basis basis_of(const calibration *k, int level) {
    return level == SKY_LEVEL_ARCHIVE && k->archive ? SKY_BASIS_KLT : SKY_BASIS_PAIR;
}

static sky_status set_stream(const calibration *k, const calibrate_stream *s, int only_level,
                             sky_profile *profile) {
    sky_status status = sky_profile_set_mean(profile, s->layer, s->kv, s->mean);
    if (status == SKY_OK && s->pairs)
        status = sky_profile_set_pairs(profile, s->layer, s->kv, s->pairs);
    if (status == SKY_OK && s->klt_f)
        status = sky_profile_set_klt(profile, s->layer, s->kv, s->klt_f, s->klt_g);
    for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
        for (int plain = 0; plain < 2 && status == SKY_OK; plain++) {
            double step = k->step[plain][level] * s->relative[basis_of(k, level)];
            if (step > 0 && (only_level == SKY_LEVEL_COUNT || only_level == level))
                status = sky_profile_set_step(profile, s->layer, s->kv, (sky_level)level, !plain,
                                              (float)step);
        }
    return status;
}

static int fit_stream(const cli *c, const calibration *k, const calibrate_stream *s,
                      sky_profile *profile) {
    float *values = NULL;
    size_t rows = 0;
    int code = calibrate_rows(c, k, s, &values, &rows);
    if (code != CLI_OK)
        return code;
    /* an even half of the blocks: classes are coarse, and fitting is the slowest part */
    size_t block = CALIBRATE_BLOCK_TOKENS * calibrate_width(s), kept = 0;
    for (size_t i = 0; i < rows / CALIBRATE_BLOCK_TOKENS; i += 2, kept++)
        memmove(values + kept * block, values + i * block, block * sizeof *values);
    sky_status status = SKY_OK;
    if (kept > 0)
        status = sky_profile_fit(profile, s->layer, s->kv, values,
                                 (uint32_t)kept * CALIBRATE_BLOCK_TOKENS, CALIBRATE_BLOCK_TOKENS);
    free(values);
    return status == SKY_OK
               ? CLI_OK
               : cli_failed(c, "classes cannot be fitted: %s", sky_status_text(status));
}

int calibrate_profile(const cli *c, const calibration *k, bool fitted, int only_level,
                      sky_profile **out) {
    sky_profile *profile = NULL;
    sky_status status = create_profile(k, &profile);
    int code = CLI_OK;
    for (size_t i = 0; i < k->stream_count && status == SKY_OK && code == CLI_OK; i++) {
        status = set_stream(k, &k->streams[i], only_level, profile);
        if (status == SKY_OK && fitted) {
            cli_progress("classes %zu of %zu", i + 1, k->stream_count);
            code = fit_stream(c, k, &k->streams[i], profile);
        }
    }
    cli_progress(NULL);
    if (status == SKY_OK && code == CLI_OK)
        status = sky_profile_seal(profile);
    if (status != SKY_OK)
        code = cli_failed(c, "a calibration of this model cannot be made: %s",
                          sky_status_text(status));
    if (code != CLI_OK) {
        sky_profile_destroy(profile);
        return code;
    }
    *out = profile;
    return CLI_OK;
}

/* ---- harm ---- */

/* What one pass over the prefixes measures of each stream. */
typedef struct {
    double harm;  /* divergence when it alone is coded, summed over texts */
    double slope; /* bits an element that halving the step costs */
} measured;

typedef struct {
    const cli *c;
    calibration *k;
    eval_scheme scheme;
    measured *out;
    double *bits; /* [2][SKY_LEVEL_COUNT], and the elements they are of */
} pass;

static void reset_stream(const eval_stream *s) {
    memcpy(s->rows, s->original, eval_elements(s) * sizeof *s->rows);
}

static int measure_stream(pass *p, eval_text *t, size_t i) {
    const float wider = 1.2f;
    eval_score score;
    double bytes = 0, coarse = 0, fine = 0;
    int code = eval_code_one(p->c, &p->scheme, t, i, wider, &coarse);
    if (code == CLI_OK)
        code = eval_code_one(p->c, &p->scheme, t, i, 1 / wider, &fine);
    if (code == CLI_OK)
        code = eval_code_one(p->c, &p->scheme, t, i, 1, &bytes);
    if (code == CLI_OK)
        code = eval_measure(p->c, &p->k->model, t, &score);
    reset_stream(&t->streams[i]);
    if (code != CLI_OK)
        return code;
    double elements = (double)eval_elements(&t->streams[i]);
    p->out[i].harm += score.kld_mean / t->streams[i].token_count;
    p->out[i].slope += 8 * (fine - coarse) / elements / (2 * log2((double)wider));
    return CLI_OK;
}

static int measure_text(pass *p, eval_text *t) {
    int code = CLI_OK;
    for (size_t i = 0; i < t->stream_count && code == CLI_OK; i++) {
        cli_progress("%s: stream %zu of %zu alone", t->name, i + 1, t->stream_count);
        code = measure_stream(p, t, i);
    }
    cli_progress(NULL);
    return code;
}

/* The prefix of each text that is long enough; all are halved when none is. */
static int load_prefixes(const cli *c, calibration *k) {
    int code = CLI_OK;
    for (uint32_t prefix = PREFIX_TOKENS; k->prefix_count == 0 && prefix >= 16; prefix /= 2)
        for (size_t i = 0;
             i < k->text_count && k->prefix_count < CALIBRATE_PREFIXES_MAX && code == CLI_OK; i++) {
            uint32_t *tokens = NULL;
            size_t count = 0;
            code = eval_tokens(c, &k->model, k->texts[i], &tokens, &count);
            free(tokens);
            if (code != CLI_OK || count < prefix + NEXT_TOKENS + 1)
                continue;
            cli_progress("%s: %u tokens", k->texts[i], prefix);
            code = eval_text_load(c, &k->model, k->texts[i], prefix, NEXT_TOKENS,
                                  &k->prefixes[k->prefix_count++]);
        }
    cli_progress(NULL);
    return code == CLI_OK && k->prefix_count == 0 ? cli_failed(c, "no text is long enough") : code;
}

/* Run something on each prefix. They are as long as each other, so that the model's rows have the
 * same places for all, and one is as if it had just been computed when its rows are put there. */
static int with_texts(const cli *c, calibration *k, int (*run)(pass *p, eval_text *t), pass *p) {
    int code = k->prefix_count == 0 ? load_prefixes(c, k) : CLI_OK;
    for (size_t i = 0; i < k->prefix_count && code == CLI_OK; i++) {
        eval_text_resume(&k->model, &k->prefixes[i]);
        code = run(p, &k->prefixes[i]);
    }
    return code;
}

static int measure_alone(const cli *c, calibration *k, sky_basis basis, measured *out) {
    sky_level level = basis == SKY_BASIS_KLT ? SKY_LEVEL_ARCHIVE : SKY_LEVEL_3;
    pass p = {.c = c, .k = k, .out = out};
    sky_profile *profile = NULL;
    int code = calibrate_profile(c, k, false, (int)level, &profile);
    if (code != CLI_OK)
        return code;
    eval_scheme_parse(basis == SKY_BASIS_KLT ? "archive-plain" : "3-plain", profile,
                      CALIBRATE_BLOCK_TOKENS, &p.scheme);
    memset(out, 0, k->stream_count * sizeof *out);
    code = with_texts(c, k, measure_text, &p);
    sky_profile_destroy(profile);
    return code;
}

/* relative[] becomes what `exponent` of the measure asks for, its geometric mean one. */
static void normalise_steps(calibration *k, sky_basis basis) {
    double sum = 0;
    for (size_t i = 0; i < k->stream_count; i++)
        sum += log(k->streams[i].relative[basis]) / (double)k->stream_count;
    for (size_t i = 0; i < k->stream_count; i++)
        k->streams[i].relative[basis] /= exp(sum);
}

static void first_round(calibration *k, sky_basis basis, const measured *m) {
    for (size_t i = 0; i < k->stream_count; i++) {
        double *relative = &k->streams[i].relative[basis];
        double c = fmax(m[i].harm, 1e-12) / (*relative * *relative);
        *relative = pow(c, -0.375);
    }
    normalise_steps(k, basis);
}

static void second_round(calibration *k, sky_basis basis, const measured *m) {
    for (size_t i = 0; i < k->stream_count; i++) {
        double c = fmax(m[i].harm, 1e-12) / fmin(fmax(m[i].slope, 0.3), 1);
        k->streams[i].relative[basis] *= pow(c, -0.35);
    }
    normalise_steps(k, basis);
}

/* ---- common steps ---- */

static int measure_bits(pass *p, eval_text *t) {
    int code = CLI_OK;
    for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
        for (int plain = 0; plain < 2 && code == CLI_OK; plain++) {
            char name[32];
            double bytes = 0;
            eval_scheme scheme;
            if (p->k->step[plain][level] <= 0)
                continue;
            snprintf(name, sizeof name, "%s%s", sky_level_name((sky_level)level),
                     plain ? "-plain" : "");
            eval_scheme_parse(name, p->scheme.profile, CALIBRATE_BLOCK_TOKENS, &scheme);
            code = scheme.code(p->c, &scheme, t, &bytes);
            p->bits[plain * SKY_LEVEL_COUNT + level] += 8 * bytes;
        }
    p->bits[2 * SKY_LEVEL_COUNT] += (double)t->element_count;
    return code;
}

/* k->bits at the steps as they are. */
static int take_bits(const cli *c, calibration *k, bool fitted, int only_level) {
    double sums[2 * SKY_LEVEL_COUNT + 1] = {0};
    pass p = {.c = c, .k = k};
    sky_profile *profile = NULL;
    int code = calibrate_profile(c, k, fitted, only_level, &profile);
    if (code != CLI_OK)
        return code;
    p.scheme.profile = profile;
    p.bits = sums;
    code = with_texts(c, k, measure_bits, &p);
    for (int i = 0; i < 2 * SKY_LEVEL_COUNT; i++)
        k->bits[i / SKY_LEVEL_COUNT][i % SKY_LEVEL_COUNT] = sums[i] / sums[2 * SKY_LEVEL_COUNT];
    sky_profile_destroy(profile);
    return code;
}

static void correct_steps(calibration *k) {
    for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
        for (int plain = 0; plain < 2; plain++) {
            double slope = target_bits[level] > 3.5 ? 1 : target_bits[level] > 2.2 ? 0.9 : 0.8;
            if (k->step[plain][level] > 0)
                k->step[plain][level] *= exp2((k->bits[plain][level] - target_bits[level]) / slope);
        }
}

/* The common step of one level, so that a round of measurements stands where it should. */
static int set_common(const cli *c, calibration *k, int level) {
    double kept[2][SKY_LEVEL_COUNT];
    memcpy(kept, k->step, sizeof kept);
    memset(k->step, 0, sizeof k->step);
    double spread = 0;
    for (size_t i = 0; i < k->stream_count; i++)
        spread += k->streams[i].relative[basis_of(k, level)] / (double)k->stream_count;
    k->step[1][level] = kept[1][level] > 0 ? kept[1][level] : 0.5 / spread;
    int code = CLI_OK;
    for (int round = 0; round < 3 && code == CLI_OK; round++) {
        code = take_bits(c, k, false, level);
        correct_steps(k);
    }
    double found = k->step[1][level];
    memcpy(k->step, kept, sizeof kept);
    k->step[0][level] = k->step[1][level] = found;
    return code;
}

int calibrate_allocate(const cli *c, calibration *k, sky_basis basis) {
    int level = basis == SKY_BASIS_KLT ? SKY_LEVEL_ARCHIVE : SKY_LEVEL_3;
    measured *m = malloc(k->stream_count * sizeof *m);
    if (!m)
        return cli_failed(c, "out of memory");
    for (size_t i = 0; i < k->stream_count; i++) {
        const calibrate_stream *s = &k->streams[i];
        double spread = basis == SKY_BASIS_KLT ? s->klt_spread : s->spread;
        k->streams[i].relative[basis] = 0.55 * sqrt(fmax(spread, 1e-12));
    }
    k->step[0][level] = k->step[1][level] = 1;
    int code = measure_alone(c, k, basis, m);
    if (code == CLI_OK) {
        first_round(k, basis, m);
        k->step[0][level] = k->step[1][level] = 0;
        code = set_common(c, k, level);
    }
    if (code == CLI_OK)
        code = measure_alone(c, k, basis, m);
    if (code == CLI_OK) {
        second_round(k, basis, m);
        code = set_common(c, k, level);
    }
    free(m);
    return code;
}

int calibrate_levels(const cli *c, calibration *k) {
    const double three = k->step[0][SKY_LEVEL_3];
    for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
        if (basis_of(k, level) == SKY_BASIS_PAIR)
            k->step[0][level] = k->step[1][level] = three * exp2(target_bits[SKY_LEVEL_3] -
                                                                 target_bits[level]);
    int code = CLI_OK;
    for (int round = 0; round < 3 && code == CLI_OK; round++) {
        code = take_bits(c, k, true, SKY_LEVEL_COUNT);
        if (round < 2)
            correct_steps(k);
    }
    return code;
}

#endif
