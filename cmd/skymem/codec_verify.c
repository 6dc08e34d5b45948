/* `skymem codec verify`: does every stream hold what it was given? */
#include "codec.h"

#include <stdlib.h>

typedef struct {
    uint64_t corrupt;
    uint64_t undecoded; /* for want of what they were made with */
} verdict;

/* Checksum, header, and whether its rows decode. SKY_E_PARAM: not with this profile, or none. */
static sky_status check_stream(const codec_job *j, const sky_skv *skv, uint32_t i) {
    sky_kv kv = (sky_kv)(i & 1);
    sky_stream_shape shape;
    sky_skv_stream_shape(skv, i / 2, kv, &shape);
    uint8_t *rows = malloc(sky_stream_rows_bytes(&shape));
    if (!rows)
        return SKY_E_NOMEM;
    sky_status status = sky_skv_decode(skv, j->profile, i / 2, kv, sky_stream_packed(&shape, rows),
                                       j->memory);
    free(rows);
    return status;
}

static int check_block(const codec_job *j, const sky_skv *skv, uint64_t first_token,
                       void *context) {
    verdict *v = context;
    (void)first_token;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_status status = check_stream(j, skv, i);
        if (status == SKY_E_NOMEM)
            return codec_failed(j, j->c->arguments[1], status);
        v->undecoded += status == SKY_E_PARAM;
        v->corrupt += status < 0 && status != SKY_E_PARAM;
    }
    return CLI_OK;
}

static int say_verify(const codec_job *j, const codec_summary *s, const verdict *v) {
    int code = CLI_OK;
    if (j->c->json)
        code = cli_json_print(j->c, json_pack("{s:I, s:I, s:I, s:I}", "streams",
                                              (json_int_t)s->streams, "bytes", (json_int_t)s->bytes,
                                              "corrupt", (json_int_t)v->corrupt, "undecoded",
                                              (json_int_t)v->undecoded));
    else
        printf("%llu stream%s checked, %llu damaged\n", (unsigned long long)s->streams,
               cli_plural(s->streams), (unsigned long long)v->corrupt);
    if (v->corrupt)
        return cli_failed(j->c, "%s: %llu stream%s damaged", j->c->arguments[1],
                          (unsigned long long)v->corrupt, v->corrupt == 1 ? " is" : "s are");
    if (v->undecoded)
        cli_note(j->c,
                 "%llu of them by checksum alone: only the --calibration or --layout they were "
                 "made with tells whether they decode",
                 (unsigned long long)v->undecoded);
    return code;
}

int codec_run_verify(codec_job *j) {
    cli_blob file;
    codec_summary s;
    verdict v = {0};
    sky_stream_shape shape;
    int code = codec_read_summary(j, &file, &s);
    if (code == CLI_OK) {
        sky_skv_stream_shape(&s.first, 0, SKY_KV_K, &shape);
        code = codec_read_profile(j, s.first.layer_count, shape.kv_heads, shape.head_dim);
    }
    if (code == CLI_OK)
        code = codec_each(j, &file, check_block, &v);
    if (code == CLI_OK)
        code = say_verify(j, &s, &v);
    cli_blob_free(&file);
    return code;
}
