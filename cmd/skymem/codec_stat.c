/* `skymem codec stat`: what the directories of a file say. */
#include "codec.h"

static json_t *levels_json(const codec_summary *s) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++)
        if (s->level_streams[i])
            json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "level",
                                                  sky_level_name((sky_level)i), "streams",
                                                  (json_int_t)s->level_streams[i], "bytes",
                                                  (json_int_t)s->level_bytes[i]));
    return list;
}

static json_t *absent_json(const codec_summary *s) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < 2 * SKY_LAYERS_MAX; i++)
        if (s->absent[i])
            json_array_append_new(list, json_pack("{s:I, s:s, s:I}", "layer", (json_int_t)(i / 2),
                                                  "kv", codec_kv_name(i & 1), "blocks",
                                                  (json_int_t)s->absent[i]));
    return list;
}

static int say_stat(const codec_job *j, const codec_summary *s) {
    if (j->c->json)
        return cli_json_print(
            j->c, json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "blocks",
                            (json_int_t)s->blocks, "tokens", (json_int_t)s->tokens, "layers",
                            (json_int_t)s->first.layer_count, "streams", (json_int_t)s->streams,
                            "bytes", (json_int_t)s->bytes, "calibrated", s->calibrated, "levels",
                            levels_json(s), "absent", absent_json(s)));
    const sky_skv *first = &s->first;
    printf("%llu block%s of %llu token%s in all, %u layer%s, %llu stream%s, %llu bytes\n",
           (unsigned long long)s->blocks, cli_plural(s->blocks), (unsigned long long)s->tokens,
           cli_plural(s->tokens), first->layer_count, cli_plural(first->layer_count),
           (unsigned long long)s->streams, cli_plural(s->streams), (unsigned long long)s->bytes);
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++)
        if (s->level_streams[i])
            printf("level %s: %llu stream%s, %llu bytes\n", sky_level_name((sky_level)i),
                   (unsigned long long)s->level_streams[i], cli_plural(s->level_streams[i]),
                   (unsigned long long)s->level_bytes[i]);
    for (uint32_t i = 0; i < 2 * SKY_LAYERS_MAX; i++)
        if (s->absent[i])
            printf("not there: layer %u's %s, in %llu block%s\n", i / 2, codec_kv_name(i & 1),
                   (unsigned long long)s->absent[i], cli_plural(s->absent[i]));
    return CLI_OK;
}

int codec_run_stat(codec_job *j) {
    cli_blob file;
    codec_summary s;
    int code = codec_read_summary(j, &file, &s);
    if (code == CLI_OK)
        code = say_stat(j, &s);
    cli_blob_free(&file);
    return code;
}
