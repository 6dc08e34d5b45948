/* `skymem codec encode`: an array cut into blocks, a container for each. */
#include "codec.h"

#include <stdlib.h>

static sky_status encode_block(const codec_job *j, const npy_array *a, uint32_t first,
                               uint32_t tokens, const sky_encode_options *options, uint8_t *dst,
                               size_t max, size_t *bytes) {
    size_t token_bytes = npy_token_bytes(a);
    sky_skv_layer *layers = calloc(a->layers, sizeof *layers);
    sky_skv_shape shape = {tokens, j->first_position + first, a->layers, layers, {0}};
    sky_skv_writer w;
    if (!layers)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < a->layers; i++)
        layers[i] = (sky_skv_layer){a->heads, a->dim, a->dim, a->element, a->element};
    if (j->profile)
        sky_profile_fingerprint(j->profile, shape.fingerprint);
    sky_encode_options how = *options;
    how.first_token_raw = j->first_position + first == 0;
    sky_status status = sky_skv_begin(&w, &shape, j->profile, dst, max);
    for (uint32_t i = 0; status == SKY_OK && i < 2 * a->layers; i++) {
        uint32_t model_layer = j->profile ? sky_profile_model_layer(j->profile, i / 2) : i / 2;
        sky_tensor src = sky_tensor_packed(npy_rows(a, model_layer, i & 1) + first * token_bytes,
                                           a->element, a->heads, a->dim, 0, tokens);
        status = sky_skv_put(&w, i / 2, (sky_kv)(i & 1), &how, src, j->memory);
    }
    if (status == SKY_OK)
        status = sky_skv_end(&w, bytes);
    free(layers);
    return status;
}

static size_t bound_of(const npy_array *a, uint32_t block_tokens) {
    sky_stream_shape s = {0, SKY_KV_K, a->element, block_tokens, a->heads, a->dim, 0};
    return 128 + (size_t)a->layers * (64 + 2 * sky_encode_bound(&s));
}

static int encode_all(const codec_job *j, const npy_array *a, sky_level level) {
    uint32_t block = (uint32_t)cli_count(j->c, "block-tokens");
    uint32_t blocks = (a->tokens + block - 1) / block;
    size_t bound = bound_of(a, block), bytes = 0;
    uint8_t *out = malloc(blocks * bound);
    sky_encode_options options = {.level = level, .plain = cli_flag(j->c, "plain")};
    if (!out)
        return cli_failed(j->c, "out of memory: %zu MiB are needed", blocks * bound >> 20);
    sky_time start = sky_now();
    sky_status status = SKY_OK;
    for (uint32_t first = 0; status == SKY_OK && first < a->tokens; first += block) {
        uint32_t left = a->tokens - first, tokens = left < block ? left : block;
        size_t took;
        status = encode_block(j, a, first, tokens, &options, out + bytes, bound, &took);
        bytes += status == SKY_OK ? took : 0;
    }
    double seconds = (double)(sky_now() - start) / 1e9;
    int code = status == SKY_OK ? cli_file_write(j->c, codec_output(j), out, bytes)
                                : codec_failed(j, "encode", status);
    free(out);
    if (code != CLI_OK)
        return code;
    double bits = 8.0 * (double)bytes / ((double)npy_bytes(a) / sky_element_bytes(a->element));
    if (j->c->json)
        return cli_json_print(j->c, json_pack("{s:s, s:I, s:I, s:I, s:f, s:f}", "level",
                                              sky_level_name(level), "blocks", (json_int_t)blocks,
                                              "bytes_in", (json_int_t)npy_bytes(a), "bytes",
                                              (json_int_t)bytes, "bits_per_element", bits,
                                              "encode_gbps", (double)npy_bytes(a) / seconds / 1e9));
    printf("%u block%s, %zu bytes of %zu: %.3f bits an element\n", blocks, cli_plural(blocks),
           bytes, npy_bytes(a), bits);
    return CLI_OK;
}

/* Rope costs a lossy level bits, and nobody sees that from the result. */
static void note_rope(const codec_job *j, sky_level level) {
    if (level == SKY_LEVEL_LOSSLESS || cli_text(j->c, "layout") || cli_text(j->c, "calibration") ||
        cli_flag(j->c, "no-layout"))
        return;
    cli_note(j->c,
             "%s: neither --layout nor --calibration says how keys were rotated, so they are coded "
             "rope and all, in more bytes and less exactly; --no-layout if none rotated them",
             j->c->arguments[1]);
}

int codec_run_encode(codec_job *j) {
    npy_array a;
    sky_level level;
    if (!codec_read_level(j, &level) || !codec_rope_agrees(j))
        return CLI_USAGE;
    int code = npy_read(j->c, j->c->arguments[1], &a);
    if (code != CLI_OK)
        return code;
    code = codec_read_profile(j, a.layers, a.heads, a.dim);
    if (code == CLI_OK)
        code = codec_check_profile(j, &a);
    if (code == CLI_OK)
        code = encode_all(j, &a, level);
    if (code == CLI_OK)
        note_rope(j, level);
    cli_blob_free(&a.file);
    return code;
}
