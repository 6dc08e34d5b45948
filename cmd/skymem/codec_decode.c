/* `skymem codec decode`: the blocks of a file joined to one array. */
#include "codec.h"

#include <stdlib.h>

typedef struct {
    npy_array out;
    uint32_t first_layer;
} decoding;

static int decode_block(const codec_job *j, const sky_skv *skv, uint64_t first_token,
                        void *context) {
    decoding *d = context;
    npy_array *a = &d->out;
    size_t token_bytes = npy_token_bytes(a);
    for (uint32_t i = 0; i < 2 * a->layers; i++) {
        uint32_t layer = codec_layer_of(j, d->first_layer + i / 2);
        sky_stream_shape s;
        if (sky_skv_stream_shape(skv, layer, (sky_kv)(i & 1), &s) != SKY_OK ||
            s.kv_heads != a->heads || s.head_dim != a->dim || s.element != a->element)
            return cli_failed(j->c,
                              "%s: layers differ in shape, so that one array cannot hold them",
                              j->c->arguments[1]);
        uint8_t *rows = npy_rows(a, i / 2, i & 1) + first_token * token_bytes;
        sky_status status = sky_skv_decode(skv, j->profile, layer, (sky_kv)(i & 1),
                                           sky_stream_packed(&s, rows), j->memory);
        if (status == SKY_E_PARAM)
            return cli_failed(j->c,
                              "%s: made with another calibration or layout: give it with "
                              "--calibration or --layout",
                              j->c->arguments[1]);
        if (status == SKY_MISS)
            return cli_failed(j->c,
                              "%s: layer %u's %s is not there; --layers takes those that are, and "
                              "codec stat lists the others",
                              j->c->arguments[1], d->first_layer + i / 2, codec_kv_name(i & 1));
        if (status != SKY_OK)
            return codec_failed(j, j->c->arguments[1], status);
    }
    return CLI_OK;
}

/* No number is so long that it would wrap to one that there is. */
static bool layers_wanted(const char *text, uint32_t all, uint32_t *first, uint32_t *last) {
    unsigned a = 0, b = all - 1;
    int used = 0;
    if (text && sscanf(text, "%5u-%5u%n", &a, &b, &used) == 2 && text[used] == 0) {
    } else if (text && sscanf(text, "%5u%n", &a, &used) == 1 && text[used] == 0) {
        b = a;
    } else if (text) {
        return false;
    }
    *first = a;
    *last = b;
    return a <= b && b < all;
}

static int decode_all(codec_job *j, const cli_blob *file, const codec_summary *s) {
    decoding d = {.first_layer = 0};
    uint32_t last;
    sky_stream_shape shape;
    if (!layers_wanted(cli_text(j->c, "layers"), s->first.layer_count, &d.first_layer, &last))
        return cli_usage(j->c, "--layers a-b, from 0 to %u", s->first.layer_count - 1);
    sky_skv_stream_shape(&s->first, d.first_layer, SKY_KV_K, &shape);
    int code = codec_read_profile(j, s->first.layer_count, shape.kv_heads, shape.head_dim);
    if (code != CLI_OK)
        return code;
    if (s->tokens > UINT32_MAX)
        return cli_failed(j->c, "%s: %llu tokens are more than one array holds", j->c->arguments[1],
                          (unsigned long long)s->tokens);
    d.out = (npy_array){.element = shape.element,
                        .layers = last - d.first_layer + 1,
                        .tokens = (uint32_t)s->tokens,
                        .heads = shape.kv_heads,
                        .dim = shape.head_dim};
    d.out.data = calloc(npy_bytes(&d.out), 1);
    if (!d.out.data)
        return cli_failed(j->c, "out of memory: %zu MiB are needed", npy_bytes(&d.out) >> 20);
    sky_time start = sky_now();
    code = codec_each(j, file, decode_block, &d);
    double gbps = (double)npy_bytes(&d.out) / (double)(sky_now() - start);
    if (code == CLI_OK)
        code = npy_write(j->c, codec_output(j), &d.out);
    if (code == CLI_OK && j->c->json)
        code = cli_json_print(j->c,
                              json_pack("{s:I, s:I, s:I, s:f}", "layers", (json_int_t)d.out.layers,
                                        "tokens", (json_int_t)d.out.tokens, "bytes",
                                        (json_int_t)npy_bytes(&d.out), "decode_gbps", gbps));
    free(d.out.data);
    return code;
}

int codec_run_decode(codec_job *j) {
    cli_blob file;
    codec_summary s;
    int code = codec_read_summary(j, &file, &s);
    if (code == CLI_OK)
        code = decode_all(j, &file, &s);
    cli_blob_free(&file);
    return code;
}
