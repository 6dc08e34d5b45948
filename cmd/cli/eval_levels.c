/* Levels of the codec as schemes: a prefix's streams cut into blocks, each coded and decoded by the
 * library as the cache would, from f16 to f16, and timed.
 *
 * Bytes are those of the streams and, in proportion to the streams that are there, of the
 * container's header and directory. */
#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

#include <stdlib.h>
#include <string.h>

/* Of a step scale, as sky_encode takes it. */
#define SCALE_MIN 1e-6f
#define SCALE_MAX 1e6f

/* Buffers of coding one stream. */
typedef struct {
    uint8_t *stream, *lower;
    size_t bytes_max;
    void *work;
} coder;

static int coder_init(const cli *c, const eval_text *t, uint32_t block_tokens, coder *out) {
    *out = (coder){.work = aligned_alloc(64, SKY_ENCODE_WORK_BYTES > SKY_DECODER_BYTES
                                                 ? SKY_ENCODE_WORK_BYTES
                                                 : SKY_DECODER_BYTES)};
    for (size_t i = 0; i < t->stream_count; i++) {
        sky_stream_shape shape = {
            .layer = (uint32_t)i / 2,
            .kv = i % 2 ? SKY_KV_V : SKY_KV_K,
            .element = SKY_ELEMENT_F16,
            .token_count = block_tokens,
            .kv_heads = t->streams[i].heads,
            .head_dim = t->streams[i].dim,
        };
        size_t bytes = sky_encode_bound(&shape);
        out->bytes_max = bytes > out->bytes_max ? bytes : out->bytes_max;
    }
    out->stream = malloc(out->bytes_max);
    out->lower = malloc(out->bytes_max);
    if (out->work && out->stream && out->lower)
        return CLI_OK;
    return cli_failed(c, "out of memory");
}

static void coder_free(coder *b) {
    free(b->stream);
    free(b->lower);
    free(b->work);
}

static double seconds_since(sky_time start) {
    return (double)(sky_now() - start) / 1e9;
}

/* Of the block at a stream's row `first`. */
static sky_level level_at(const eval_scheme *scheme, const eval_stream *s, uint32_t first) {
    uint32_t before = s->first_token + first, left = s->token_count - first;
    bool finer = before < scheme->finer_first * scheme->block_tokens ||
                 left <= scheme->finer_last * scheme->block_tokens;
    return finer ? scheme->finer : scheme->level;
}

/* One block of one stream: rows[first …] from the original. */
static sky_status code_block(coder *b, eval_scheme *scheme, const sky_stream_shape *shape,
                             const eval_stream *s, uint32_t first, float step_scale,
                             double *bytes) {
    size_t width = eval_width(s);
    const sky_tensor in = sky_stream_packed(shape, s->original + first * width);
    const sky_tensor out = sky_stream_packed(shape, s->rows + first * width);
    sky_level level = level_at(scheme, s, first);
    sky_encode_options options = {
        .level = scheme->lowered ? scheme->from : level,
        .plain = scheme->plain,
        .first_token_raw = shape->first_position == 0,
        .step_scale = step_scale,
    };
    size_t got = 0;
    sky_time start = sky_now();
    sky_status status = sky_encode(scheme->profile, shape, &options, in, b->stream, b->bytes_max,
                                   &got, b->work);
    scheme->encode_s += seconds_since(start);
    if (status == SKY_OK && scheme->lowered) {
        options.level = level;
        status = sky_decode(scheme->profile, shape, b->stream, got, out, b->work);
        if (status == SKY_OK)
            status = sky_encode(scheme->profile, shape, &options, out, b->stream, b->bytes_max,
                                &got, b->work);
    }
    start = sky_now();
    if (status == SKY_OK)
        status = sky_decode(scheme->profile, shape, b->stream, got, out, b->work);
    scheme->decode_s += seconds_since(start);
    *bytes += (double)got;
    return status;
}

static sky_status code_stream(coder *b, eval_scheme *scheme, const eval_text *t, size_t index,
                              float step_scale, double *bytes) {
    const eval_stream *s = &t->streams[index];
    sky_status status = SKY_OK;
    for (uint32_t first = 0; first < s->token_count && status == SKY_OK;) {
        /* blocks stand at multiples of their length, whatever the first row is */
        uint32_t position = s->first_token + first;
        uint32_t count = scheme->block_tokens - position % scheme->block_tokens;
        if (count > s->token_count - first)
            count = s->token_count - first;
        const sky_stream_shape shape = {
            .layer = (uint32_t)index / 2,
            .kv = s->is_k ? SKY_KV_K : SKY_KV_V,
            .element = SKY_ELEMENT_F16,
            .token_count = count,
            .kv_heads = s->heads,
            .head_dim = s->dim,
            .first_position = position,
        };
        status = code_block(b, scheme, &shape, s, first, step_scale, bytes);
        first += count;
    }
    return status;
}

/* What container and directory add: each block's, for the share of its streams that is there. */
static double container_bytes(const eval_text *t, uint32_t block_tokens) {
    uint32_t layers = (uint32_t)(t->stream_count / 2);
    sky_skv_layer *shapes = calloc(layers, sizeof *shapes);
    double blocks = 0;
    for (uint32_t i = 0; shapes && i < layers; i++) {
        const eval_stream *k = &t->streams[2 * i];
        shapes[i] = (sky_skv_layer){k->heads, k->dim, t->streams[2 * i + 1].dim, SKY_ELEMENT_F16,
                                    SKY_ELEMENT_F16};
        blocks += (double)k->token_count / block_tokens / layers;
    }
    const sky_skv_shape shape = {
        .token_count = block_tokens, .layer_count = layers, .layers = shapes};
    double bytes = shapes ? blocks * (double)sky_skv_header_bytes(&shape) : 0;
    free(shapes);
    return bytes;
}

static int say_codec(const cli *c, const eval_scheme *scheme, const eval_text *t,
                     sky_status status) {
    return cli_failed(c, "level %s: the codec refuses it for %s: %s", scheme->name, t->name,
                      sky_status_text(status));
}

static int code_level(const cli *c, eval_scheme *scheme, eval_text *t, double *bytes) {
    coder b;
    sky_status status = SKY_OK;
    int code = coder_init(c, t, scheme->block_tokens, &b);
    *bytes = container_bytes(t, scheme->block_tokens);
    scheme->encode_s = scheme->decode_s = 0;
    for (size_t i = 0; code == CLI_OK && i < t->stream_count && status == SKY_OK; i++)
        status = code_stream(&b, scheme, t, i, scheme->step_scale, bytes);
    coder_free(&b);
    return code == CLI_OK && status != SKY_OK ? say_codec(c, scheme, t, status) : code;
}

int eval_code_one(const cli *c, const eval_scheme *scheme, const eval_text *t, size_t stream,
                  float step_scale, double *bytes) {
    coder b;
    eval_scheme own = *scheme;
    int code = coder_init(c, t, scheme->block_tokens, &b);
    *bytes = 0;
    if (code == CLI_OK) {
        sky_status status = code_stream(&b, &own, t, stream, step_scale, bytes);
        code = status == SKY_OK ? CLI_OK : say_codec(c, scheme, t, status);
    }
    coder_free(&b);
    return code;
}

static bool cut_suffix(char *text, const char *suffix) {
    size_t bytes = strlen(text), cut = strlen(suffix);
    if (bytes <= cut || strcmp(text + bytes - cut, suffix) != 0)
        return false;
    text[bytes - cut] = '\0';
    return true;
}

/* What stands behind the plus: 8@last, 8@first2. */
static bool parse_finer(const char *text, eval_scheme *out) {
    char level[16];
    const char *at = strchr(text, '@');
    if (!at || (size_t)(at - text) >= sizeof level)
        return false;
    memcpy(level, text, (size_t)(at - text));
    level[at - text] = '\0';
    bool last = strncmp(at, "@last", 5) == 0;
    if (!last && strncmp(at, "@first", 6) != 0)
        return false;
    const char *number = at + (last ? 5 : 6);
    char *end;
    unsigned long blocks = *number ? strtoul(number, &end, 10) : 1;
    if ((*number && *end) || blocks == 0 || blocks > UINT32_MAX)
        return false;
    *(last ? &out->finer_last : &out->finer_first) = (uint32_t)blocks;
    return sky_level_parse(level, &out->finer) == SKY_OK;
}

#define NEITHER "is neither a level nor a reference"

/* Takes -xSCALE and -from-LEVEL off the end. */
static const char *parse_suffixes(char *text, eval_scheme *out) {
    char *scale = strstr(text, "-x"), *end;
    if (scale) {
        *scale = '\0';
        out->step_scale = strtof(scale + 2, &end);
        if (*end || end == scale + 2)
            return NEITHER;
        if (!(out->step_scale >= SCALE_MIN && out->step_scale <= SCALE_MAX))
            return "scales steps by what no level can be scaled by: 1e-6 to 1e6";
    }
    char *from = strstr(text, "-from-");
    if (from) {
        *from = '\0';
        out->lowered = true;
        if (sky_level_parse(from + strlen("-from-"), &out->from) != SKY_OK)
            return NEITHER;
    }
    return NULL;
}

/* Lowering brings nothing back: every level is to be below the one it is made of. */
static const char *check_lowered(const eval_scheme *s) {
    bool finer = s->finer_first || s->finer_last;
    if (s->lowered && (s->from >= s->level || (finer && s->from >= s->finer)))
        return "raises a level: what it is lowered from must be a finer one";
    return NULL;
}

const char *eval_scheme_parse(const char *name, const sky_profile *profile, uint32_t block_tokens,
                              eval_scheme *out) {
    char text[64];
    snprintf(text, sizeof text, "%s", name);
    *out = (eval_scheme){.name = name, .code = code_level, .block_tokens = block_tokens};
    char *finer = strchr(text, '+');
    if (finer) {
        *finer = '\0';
        if (!parse_finer(finer + 1, out))
            return NEITHER;
    }
    out->calibrated = !cut_suffix(text, "-uncalibrated");
    out->profile = out->calibrated ? profile : NULL;
    out->plain = cut_suffix(text, "-plain");
    const char *why = parse_suffixes(text, out);
    if (!why && sky_level_parse(text, &out->level) != SKY_OK)
        why = NEITHER;
    return why ? why : check_lowered(out);
}

#endif
