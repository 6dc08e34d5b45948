/* The containers of a file, one after the other, and what their directories say together. */
#include "codec.h"

#include <string.h>

static int block_corrupt(const codec_job *j, size_t at, sky_status status) {
    return cli_failed(
        j->c, "%s: %s at byte %zu", j->c->arguments[1],
        status == SKY_E_UNSUPPORTED ? "a .skv of a later version" : "damaged or no .skv", at);
}

int codec_each(const codec_job *j, const cli_blob *file, codec_visit visitor, void *context) {
    size_t at = 0, header;
    uint64_t tokens = 0;
    int code = file->bytes ? CLI_OK : block_corrupt(j, 0, SKY_E_CORRUPT);
    while (code == CLI_OK && at < file->bytes) {
        sky_skv skv;
        const uint8_t *data = (const uint8_t *)file->data + at;
        sky_status status = sky_skv_open_header(data, file->bytes - at, 0, &skv, &header);
        if (status != SKY_OK || skv.bytes > file->bytes - at)
            return block_corrupt(j, at, status);
        code = visitor(j, &skv, tokens, context);
        tokens += skv.token_count;
        at += (size_t)skv.bytes;
    }
    return code;
}

bool codec_layers_alike(const sky_skv *a, uint32_t layer_a, const sky_skv *b, uint32_t layer_b) {
    sky_skv_layer x, y;
    return sky_skv_layer_at(a, layer_a, &x) == SKY_OK &&
           sky_skv_layer_at(b, layer_b, &y) == SKY_OK && x.kv_heads == y.kv_heads &&
           x.k_dim == y.k_dim && x.v_dim == y.v_dim && x.k_element == y.k_element &&
           x.v_element == y.v_element;
}

/* Positions, tokens and levels apart: those are each block's own. */
static bool blocks_alike(const sky_skv *a, const sky_skv *b) {
    bool alike = a->layer_count == b->layer_count && a->profile_id == b->profile_id &&
                 memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
    for (uint32_t i = 0; alike && i < a->layer_count; i++)
        alike = codec_layers_alike(a, i, b, i);
    return alike;
}

static int add_up(const codec_job *j, const sky_skv *skv, uint64_t first_token, void *context) {
    codec_summary *s = context;
    (void)j;
    if (first_token == 0)
        s->first = *skv;
    s->blocks++;
    s->tokens += skv->token_count;
    s->bytes += skv->bytes;
    s->unlike += !blocks_alike(&s->first, skv);
    if (skv->token_count > s->block_tokens)
        s->block_tokens = skv->token_count;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_skv_entry e;
        sky_stream_info info;
        sky_skv_entry_at(skv, i / 2, (sky_kv)(i & 1), &e);
        if (!e.bytes) {
            s->absent[i]++;
            continue;
        }
        if (sky_stream_info_read(skv->data + e.offset, (size_t)e.bytes, &info) == SKY_OK)
            s->calibrated |= info.calibrated;
        s->streams++;
        s->level_bytes[e.level] += e.bytes;
        s->level_streams[e.level]++;
    }
    return CLI_OK;
}

int codec_read_summary(const codec_job *j, cli_blob *file, codec_summary *s) {
    *s = (codec_summary){0};
    int code = cli_blob_read(j->c, j->c->arguments[1], (uint64_t)1 << 36, file);
    return code == CLI_OK ? codec_each(j, file, add_up, s) : code;
}
