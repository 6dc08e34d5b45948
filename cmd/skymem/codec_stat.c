/* `skymem codec stat`: what the directories of a file say. */
#include "codec.h"

static const char *element_name(sky_element element) {
    return element == SKY_ELEMENT_F16 ? "f16" : element == SKY_ELEMENT_F32 ? "f32" : "bf16";
}

/* The last of the layers from `first` on that are alike. */
static uint32_t last_alike(const sky_skv *skv, uint32_t first) {
    uint32_t last = first;
    while (codec_layers_alike(skv, first, skv, last + 1))
        last++;
    return last;
}

static void id_text(uint64_t id, char out[17]) {
    snprintf(out, 17, "%016llx", (unsigned long long)id);
}

/* False: none is told. */
static bool model_text(const uint8_t fingerprint[32], char out[65]) {
    bool told = false;
    for (size_t i = 0; i < 32; i++) {
        snprintf(out + 2 * i, 3, "%02x", fingerprint[i]);
        told |= fingerprint[i] != 0;
    }
    return told;
}

/* ---- as JSON ---- */

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

static json_t *shapes_json(const sky_skv *skv) {
    json_t *list = json_array();
    for (uint32_t i = 0, last; i < skv->layer_count; i = last + 1) {
        sky_skv_layer l;
        sky_skv_layer_at(skv, i, &l);
        last = last_alike(skv, i);
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "first_layer", (json_int_t)i,
                            "last_layer", (json_int_t)last, "kv_heads", (json_int_t)l.kv_heads,
                            "k_dim", (json_int_t)l.k_dim, "v_dim", (json_int_t)l.v_dim, "k_element",
                            element_name(l.k_element), "v_element", element_name(l.v_element)));
    }
    return list;
}

static json_t *stat_json(const codec_summary *s) {
    const sky_skv *first = &s->first;
    char id[17], model[65];
    id_text(first->profile_id, id);
    bool told = model_text(first->fingerprint, model);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:I, s:I, s:o, s:s?, s:s?, s:I}",
                     "blocks", (json_int_t)s->blocks, "tokens", (json_int_t)s->tokens, "layers",
                     (json_int_t)first->layer_count, "streams", (json_int_t)s->streams, "bytes",
                     (json_int_t)s->bytes, "calibrated", s->calibrated, "levels", levels_json(s),
                     "absent", absent_json(s), "first_position", (json_int_t)first->first_position,
                     "block_tokens", (json_int_t)s->block_tokens, "shapes", shapes_json(first),
                     "profile", first->profile_id ? id : NULL, "fingerprint", told ? model : NULL,
                     "unlike", (json_int_t)s->unlike);
}

/* ---- as text ---- */

static void say_shapes(const sky_skv *skv) {
    for (uint32_t i = 0, last; i < skv->layer_count; i = last + 1) {
        sky_skv_layer l;
        sky_skv_layer_at(skv, i, &l);
        last = last_alike(skv, i);
        if (last > i)
            printf("layers %u to %u: ", i, last);
        else
            printf("layer %u: ", i);
        printf("%u KV head%s", l.kv_heads, cli_plural(l.kv_heads));
        if (l.k_dim == l.v_dim && l.k_element == l.v_element)
            printf(" of %u, %s\n", l.k_dim, element_name(l.k_element));
        else
            printf("; K of %u, %s; V of %u, %s\n", l.k_dim, element_name(l.k_element), l.v_dim,
                   element_name(l.v_element));
    }
}

static void say_origin(const codec_summary *s) {
    const sky_skv *first = &s->first;
    char id[17], model[65];
    id_text(first->profile_id, id);
    printf("from position %u on, %s%u token%s a block\n", first->first_position,
           s->blocks > 1 ? "at most " : "", s->block_tokens, cli_plural(s->block_tokens));
    if (first->profile_id)
        printf("made with the calibration or layout %s\n", id);
    if (model_text(first->fingerprint, model))
        printf("of the model %s\n", model);
    if (s->unlike)
        printf("of another shape, calibration or model than the first, of which this is said: "
               "%llu of %llu blocks\n",
               (unsigned long long)s->unlike, (unsigned long long)s->blocks);
}

static void say_streams(const codec_summary *s) {
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++)
        if (s->level_streams[i])
            printf("level %s: %llu stream%s, %llu bytes\n", sky_level_name((sky_level)i),
                   (unsigned long long)s->level_streams[i], cli_plural(s->level_streams[i]),
                   (unsigned long long)s->level_bytes[i]);
    for (uint32_t i = 0; i < 2 * SKY_LAYERS_MAX; i++)
        if (s->absent[i])
            printf("not there: layer %u's %s, in %llu block%s\n", i / 2, codec_kv_name(i & 1),
                   (unsigned long long)s->absent[i], cli_plural(s->absent[i]));
}

static void say_stat(const codec_summary *s) {
    printf("%llu block%s of %llu token%s in all, %u layer%s, %llu stream%s, %llu bytes\n",
           (unsigned long long)s->blocks, cli_plural(s->blocks), (unsigned long long)s->tokens,
           cli_plural(s->tokens), s->first.layer_count, cli_plural(s->first.layer_count),
           (unsigned long long)s->streams, cli_plural(s->streams), (unsigned long long)s->bytes);
    say_shapes(&s->first);
    say_origin(s);
    say_streams(s);
}

int codec_run_stat(codec_job *j) {
    cli_blob file;
    codec_summary s;
    int code = codec_read_summary(j, &file, &s);
    if (code == CLI_OK && j->c->json)
        code = cli_json_print(j->c, stat_json(&s));
    else if (code == CLI_OK)
        say_stat(&s);
    cli_blob_free(&file);
    return code;
}
