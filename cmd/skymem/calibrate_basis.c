/* Where to quantise a stream: its mean, and matrices made of how its channels vary and how much
 * their errors weigh.
 *
 * An error e of a key changes an attention score by (R q)·e, R being the turn between the two
 * positions: so keys are weighed with the queries' second moment, averaged over distances. An
 * error of a value reaches the layer's output through its weights W: WᵀW. Both are scaled to a
 * mean weight of one, so that steps keep the unit of the rows. */
#include "calibrate.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DISTANCES    64
#define DISTANCE_MAX 2048.0

/* ---- moments ---- */

static void take_mean(calibrate_stream *s, const float *values, size_t rows) {
    size_t width = calibrate_width(s);
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += (double)values[r * width + i];
        s->mean[i] = (float)(sum / (double)rows);
    }
}

/* Channels of pair i, as sky_profile_set_pairs counts them. */
static void pair_channels(const sky_llama_layer *layer, sky_kv kv, uint32_t dim, uint32_t i,
                          uint32_t *a, uint32_t *b) {
    uint32_t turned = kv == SKY_KV_K ? layer->rope_dims / 2 : 0;
    uint32_t rest = dim - 2 * turned;
    if (i >= turned) {
        *a = 2 * turned + (i - turned);
        *b = *a + rest / 2;
    } else if (layer->rope_interleaved) {
        *a = 2 * i;
        *b = 2 * i + 1;
    } else {
        *a = i;
        *b = i + turned;
    }
}

/* Covariance of one head; without `full`, of each pair's channels only.
 * Shape: out [dim, dim] */
static void add_covariance(const calibrate_stream *s, const sky_llama_layer *layer, uint32_t head,
                           const float *values, size_t rows, bool full, double *out) {
    size_t n = s->dim, width = calibrate_width(s);
    double centred[SKY_HEAD_DIM_MAX];
    memset(out, 0, n * n * sizeof *out);
    for (size_t r = 0; r < rows; r++) {
        const float *x = values + r * width + head * n, *mean = s->mean + head * n;
        for (size_t i = 0; i < n; i++)
            centred[i] = (double)(x[i] - mean[i]) / sqrt((double)rows);
        for (size_t i = 0; full && i < n; i++)
            for (size_t j = 0; j < n; j++)
                out[i * n + j] += centred[i] * centred[j];
        for (size_t i = 0; !full && i < n; i++)
            out[i * n + i] += centred[i] * centred[i];
        for (uint32_t i = 0; !full && i < n / 2; i++) {
            uint32_t a, b;
            pair_channels(layer, s->kv, s->dim, i, &a, &b);
            out[a * n + b] += centred[a] * centred[b];
            out[b * n + a] = out[a * n + b];
        }
    }
}

/* w becomes the mean of R w Rᵀ over distances, spaced evenly in logarithm. */
static void average_turns(const sky_llama_layer *layer, uint32_t dim, double *w) {
    size_t n = dim;
    double *sum = calloc(2 * n * n, sizeof *sum);
    if (!sum)
        return;
    double *turned = sum + n * n;
    for (int k = 0; k < DISTANCES; k++) {
        double distance = rint(pow(DISTANCE_MAX, k / (DISTANCES - 1.0)));
        memcpy(turned, w, n * n * sizeof *turned);
        for (uint32_t i = 0; i < layer->rope_dims / 2; i++) {
            uint32_t a, b;
            pair_channels(layer, SKY_KV_K, dim, i, &a, &b);
            double c = cos(distance * layer->rope_frequency[i]);
            double s = sin(distance * layer->rope_frequency[i]);
            for (size_t j = 0; j < n; j++) {
                double x = turned[a * n + j], y = turned[b * n + j];
                turned[a * n + j] = c * x - s * y;
                turned[b * n + j] = s * x + c * y;
            }
            for (size_t j = 0; j < n; j++) {
                double x = turned[j * n + a], y = turned[j * n + b];
                turned[j * n + a] = c * x - s * y;
                turned[j * n + b] = s * x + c * y;
            }
        }
        for (size_t i = 0; i < n * n; i++)
            sum[i] += turned[i] / DISTANCES;
    }
    memcpy(w, sum, n * n * sizeof *w);
    free(sum);
}

static void scale_to_one(double *w, size_t n) {
    double trace = 0;
    for (size_t i = 0; i < n; i++)
        trace += w[i * n + i];
    for (size_t i = 0; i < n * n; i++)
        w[i] = trace > 0 ? w[i] * (double)n / trace : i % (n + 1) == 0;
}

/* How much errors of each head weigh. Shape: [head, dim, dim] */
static int weigh_rows(const cli *c, const calibration *k, const calibrate_stream *s, double **out) {
    size_t n = s->dim, square = n * n;
    double *w = malloc(s->heads * square * sizeof *w);
    if (!w)
        return cli_failed(c, "out of memory");
    if (s->kv == SKY_KV_K) {
        memcpy(w, sky_llama_probe_query_moment(k->model.probe, s->layer),
               s->heads * square * sizeof *w);
        for (uint32_t h = 0; h < s->heads; h++)
            average_turns(&k->layers[s->layer], s->dim, w + h * square);
    } else if (sky_llama_probe_output_moment(k->model.probe, k->model.weights_path, s->layer, w) !=
               SKY_OK) {
        for (size_t i = 0; i < s->heads * square; i++)
            w[i] = i % square % (n + 1) == 0;
    }
    for (uint32_t h = 0; h < s->heads; h++)
        scale_to_one(w + h * square, n);
    *out = w;
    return CLI_OK;
}

/* ---- matrices ---- */

/* A 2×2 KLT for each pair of one head's channels; returns the variance of what comes out. */
static double head_pairs(const calibration *k, calibrate_stream *s, uint32_t head,
                         const double *cov, const double *w) {
    size_t n = s->dim;
    double spread = 0;
    for (uint32_t i = 0; i < s->dim / 2; i++) {
        uint32_t a, b;
        pair_channels(&k->layers[s->layer], s->kv, s->dim, i, &a, &b);
        const double c2[4] = {cov[a * n + a], cov[a * n + b], cov[b * n + a], cov[b * n + b]};
        const double w2[4] = {w[a * n + a], w[a * n + b], w[b * n + a], w[b * n + b]};
        double f[4], g[4];
        calibrate_weighted_klt(2, c2, w2, f, g);
        float *out = s->pairs + ((size_t)head * (n / 2) + i) * 4;
        for (int j = 0; j < 4; j++)
            out[j] = (float)g[j];
        for (int y = 0; y < 2; y++) /* fᵀ C f, its diagonal */
            spread += f[y] * (c2[0] * f[y] + c2[1] * f[2 + y]) +
                      f[2 + y] * (c2[2] * f[y] + c2[3] * f[2 + y]);
    }
    return spread;
}

static bool head_klt(calibrate_stream *s, uint32_t head, const double *cov, const double *w) {
    size_t n = s->dim, square = n * n;
    double *f = malloc(2 * square * sizeof *f);
    if (!f || !calibrate_weighted_klt(n, cov, w, f, f + square)) {
        free(f);
        return false;
    }
    for (size_t i = 0; i < square; i++) {
        s->klt_f[head * square + i] = (float)f[i];
        s->klt_g[head * square + i] = (float)f[square + i];
    }
    for (size_t y = 0; y < n; y++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                s->klt_spread += f[i * n + y] * cov[i * n + j] * f[j * n + y] /
                                 (double)calibrate_width(s);
    free(f);
    return true;
}

static int head_basis(const cli *c, const calibration *k, calibrate_stream *s, uint32_t head,
                      const float *values, size_t rows, const double *w) {
    size_t n = s->dim, square = n * n;
    double *cov = malloc(square * sizeof *cov);
    if (!cov)
        return cli_failed(c, "out of memory");
    add_covariance(s, &k->layers[s->layer], head, values, rows, s->klt_f != NULL, cov);
    double spread = 0;
    if (s->pairs)
        spread = head_pairs(k, s, head, cov, w + head * square);
    else
        for (size_t i = 0; i < n; i++)
            spread += cov[i * n + i];
    s->spread += spread / (double)calibrate_width(s);
    bool done = !s->klt_f || head_klt(s, head, cov, w + head * square);
    free(cov);
    return done ? CLI_OK : cli_failed(c, "out of memory");
}

static int stream_basis(const cli *c, const calibration *k, calibrate_stream *s) {
    size_t width = calibrate_width(s), rows = 0;
    float *values = NULL;
    double *w = NULL;
    int code = calibrate_rows(c, k, s, &values, &rows);
    if (code == CLI_OK)
        code = weigh_rows(c, k, s, &w);
    s->mean = malloc(width * sizeof *s->mean);
    if (s->kv == SKY_KV_K)
        s->pairs = calloc(s->heads * (s->dim / 2) * 4, sizeof *s->pairs);
    if (k->archive) {
        s->klt_f = malloc(width * s->dim * sizeof *s->klt_f);
        s->klt_g = malloc(width * s->dim * sizeof *s->klt_g);
    }
    if (code == CLI_OK &&
        (!s->mean || (s->kv == SKY_KV_K && !s->pairs) || (k->archive && (!s->klt_f || !s->klt_g))))
        code = cli_failed(c, "out of memory");
    if (code == CLI_OK)
        take_mean(s, values, rows);
    for (uint32_t h = 0; code == CLI_OK && h < s->heads; h++)
        code = head_basis(c, k, s, h, values, rows, w);
    free(values);
    free(w);
    return code;
}

int calibrate_bases(const cli *c, calibration *k) {
    int code = CLI_OK;
    for (size_t i = 0; i < k->stream_count && code == CLI_OK; i++) {
        cli_progress("basis %zu of %zu", i + 1, k->stream_count);
        code = stream_basis(c, k, &k->streams[i]);
    }
    cli_progress(NULL);
    return code;
}

#endif
