/* Segments of text through the model: see calibrate.h. */
#include "calibrate.h"

#ifdef SKYMEM_WITH_LLAMA

#include <stdlib.h>
#include <string.h>

#define SEGMENT_TOKENS (CALIBRATE_SKIP_TOKENS + CALIBRATE_ROWS)

/* One segment: the tokens that open a prompt, then the text's. */
static int add_segment(const cli *c, calibration *k, const uint32_t *tokens) {
    eval_text *more = realloc(k->segments, (k->segment_count + 1) * sizeof *more);
    if (!more)
        return cli_failed(c, "out of memory");
    k->segments = more;
    eval_text *t = &more[k->segment_count];
    *t = (eval_text){.name = "a segment"};
    int code = eval_text_take(c, &k->model, tokens, SEGMENT_TOKENS, 0, t);
    if (code == CLI_OK)
        k->segment_count++;
    else
        eval_text_free(t);
    return code;
}

static int opening_tokens(const cli *c, const calibration *k, uint32_t *first, size_t *count) {
    const sky_engine *e = k->model.engine;
    sky_status status = e->ops->tokenize(e->self, "", 0, first, 4, count);
    return status == SKY_OK
               ? CLI_OK
               : cli_failed(c, "the model cannot cut text: %s", sky_status_text(status));
}

/* A text, cut into tokens. */
typedef struct {
    uint32_t *tokens;
    size_t count;
} source;

static int add_text(const cli *c, calibration *k, const char *path, const source *s) {
    uint32_t segment[SEGMENT_TOKENS], opening[4];
    size_t opened = 0;
    int code = opening_tokens(c, k, opening, &opened);
    size_t body = SEGMENT_TOKENS - opened;
    memcpy(segment, opening, opened * sizeof *segment);
    for (size_t at = opened; code == CLI_OK && at + body <= s->count; at += body) {
        memcpy(segment + opened, s->tokens + at, body * sizeof *segment);
        cli_progress("%s: tokens %zu of %zu", path, at, s->count);
        code = add_segment(c, k, segment);
    }
    cli_progress(NULL);
    return code;
}

/* All texts are read before the first is computed: what cannot be is told at once, not in minutes.
 * Shape: sources [k->text_count], zeroed */
static int read_texts(const cli *c, const calibration *k, source *sources) {
    size_t enough = 0;
    for (size_t i = 0; i < k->text_count; i++) {
        int code = eval_tokens(c, &k->model, k->texts[i], &sources[i].tokens, &sources[i].count);
        if (code != CLI_OK)
            return code;
        enough += sources[i].count >= SEGMENT_TOKENS;
    }
    return enough ? CLI_OK
                  : cli_failed(c, "the texts are shorter than %u tokens each: name longer ones",
                               SEGMENT_TOKENS);
}

/* Those too short for a segment take no part in anything. */
static void leave_out_short(const cli *c, calibration *k, source *sources) {
    size_t kept = 0;
    for (size_t i = 0; i < k->text_count; i++) {
        if (sources[i].count >= SEGMENT_TOKENS) {
            k->texts[kept] = k->texts[i];
            sources[kept++] = sources[i];
            continue;
        }
        cli_note(c, "%s: has %zu tokens, %u are needed; left out", k->texts[i], sources[i].count,
                 SEGMENT_TOKENS);
        free(k->texts[i]);
        free(sources[i].tokens);
    }
    memset(sources + kept, 0, (k->text_count - kept) * sizeof *sources);
    k->text_count = kept;
}

static int describe_streams(const cli *c, calibration *k) {
    const sky_llama_layer *layers = sky_llama_probe_layers(k->model.probe, &k->layer_count);
    k->stream_count = 2 * (size_t)k->layer_count;
    k->layers = malloc(k->layer_count * sizeof *k->layers);
    k->streams = calloc(k->stream_count, sizeof *k->streams);
    if (!k->layers || !k->streams)
        return cli_failed(c, "out of memory");
    memcpy(k->layers, layers, k->layer_count * sizeof *layers);
    for (size_t i = 0; i < k->stream_count; i++)
        k->streams[i] = (calibrate_stream){
            .layer = (uint32_t)i / 2,
            .kv = i % 2 ? SKY_KV_V : SKY_KV_K,
            .heads = layers[i / 2].kv_heads,
            .dim = i % 2 ? layers[i / 2].v_width : layers[i / 2].k_width,
        };
    return CLI_OK;
}

int calibrate_collect(const cli *c, calibration *k) {
    size_t given = k->text_count;
    source *sources = calloc(given + 1, sizeof *sources);
    int code = sources ? read_texts(c, k, sources) : cli_failed(c, "out of memory");
    if (code == CLI_OK)
        leave_out_short(c, k, sources);
    for (size_t i = 0; i < k->text_count && code == CLI_OK; i++)
        code = add_text(c, k, k->texts[i], &sources[i]);
    for (size_t i = 0; sources && i < given; i++)
        free(sources[i].tokens);
    free(sources);
    return code == CLI_OK ? describe_streams(c, k) : code;
}

void calibrate_free(calibration *k) {
    for (size_t i = 0; i < k->segment_count; i++)
        eval_text_free(&k->segments[i]);
    for (size_t i = 0; i < k->prefix_count; i++)
        eval_text_free(&k->prefixes[i]);
    for (size_t i = 0; i < k->text_count; i++)
        free(k->texts[i]);
    for (size_t i = 0; k->streams && i < k->stream_count; i++) {
        free(k->streams[i].mean);
        free(k->streams[i].pairs);
        free(k->streams[i].klt_f);
        free(k->streams[i].klt_g);
    }
    free(k->segments);
    free(k->texts);
    free(k->streams);
    free(k->layers);
    eval_model_close(&k->model);
}

int calibrate_rows(const cli *c, const calibration *k, const calibrate_stream *s, float **values,
                   size_t *row_count) {
    size_t index = 2 * (size_t)s->layer + s->kv, width = calibrate_width(s);
    const eval_stream *like = &k->segments[0].streams[index];
    uint32_t skipped = like->first_token < CALIBRATE_SKIP_TOKENS
                           ? CALIBRATE_SKIP_TOKENS - like->first_token
                           : 0;
    size_t kept = like->token_count - skipped;
    float *out = malloc(k->segment_count * kept * width * sizeof *out);
    float *all = malloc(like->token_count * width * sizeof *all);
    for (size_t i = 0; out && all && i < k->segment_count; i++) {
        eval_stream one = k->segments[i].streams[index];
        one.layer = &k->layers[s->layer];
        eval_rows_read(&one, all);
        eval_unrope(&one, all);
        memcpy(out + i * kept * width, all + skipped * width, kept * width * sizeof *out);
    }
    free(all);
    if (!out || !all) {
        free(out);
        return cli_failed(c, "out of memory");
    }
    *values = out;
    *row_count = k->segment_count * kept;
    return CLI_OK;
}

#endif
