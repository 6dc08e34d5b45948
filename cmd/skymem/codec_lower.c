/* `skymem codec lower`: a file to a lower level, without the rows it was made of. */
#include "codec.h"

#include <stdlib.h>

typedef struct {
    sky_encode_options options;
    uint8_t *out;
    size_t bytes;
    size_t bytes_max;
} lowering;

/* Room for `bytes` more at the end of what is there. */
static bool make_room(lowering *l, size_t bytes) {
    if (l->bytes_max - l->bytes >= bytes)
        return true;
    size_t wanted = l->bytes + bytes + l->bytes / 2;
    uint8_t *more = realloc(l->out, wanted);
    if (!more)
        return false;
    l->out = more;
    l->bytes_max = wanted;
    return true;
}

static int lower_block(const codec_job *j, const sky_skv *skv, uint64_t first_token,
                       void *context) {
    lowering *l = context;
    size_t bound = sky_skv_lower_bound(skv, l->options.level), took;
    void *work = aligned_alloc(64, (sky_skv_lower_bytes(skv) + 63) / 64 * 64);
    (void)first_token;
    if (!work || !make_room(l, bound)) {
        free(work);
        return cli_failed(j->c, "out of memory: %zu MiB are needed", (l->bytes + bound) >> 20);
    }
    sky_encode_options how = l->options;
    how.first_token_raw = skv->first_position == 0;
    sky_status status = sky_skv_lower(skv, j->profile, &how, l->out + l->bytes, bound, &took, work);
    free(work);
    if (status == SKY_E_PARAM)
        return cli_failed(j->c,
                          "%s: made with another calibration or layout: give it with "
                          "--calibration or --layout",
                          j->c->arguments[1]);
    if (status != SKY_OK)
        return codec_failed(j, j->c->arguments[1], status);
    l->bytes += took;
    return CLI_OK;
}

static int say_lowered(const codec_job *j, const codec_summary *s, const lowering *l,
                       double seconds) {
    uint64_t kept = 0;
    for (uint32_t i = l->options.level; i < SKY_LEVEL_COUNT; i++)
        kept += s->level_streams[i];
    const char *level = sky_level_name(l->options.level);
    if (j->c->json)
        return cli_json_print(j->c, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "level", level,
                                              "blocks", (json_int_t)s->blocks, "lowered",
                                              (json_int_t)(s->streams - kept), "kept",
                                              (json_int_t)kept, "bytes_in", (json_int_t)s->bytes,
                                              "bytes", (json_int_t)l->bytes, "lower_s", seconds));
    printf("%llu of %llu stream%s lowered to %s: %zu bytes of %llu\n",
           (unsigned long long)(s->streams - kept), (unsigned long long)s->streams,
           cli_plural(s->streams), level, l->bytes, (unsigned long long)s->bytes);
    return CLI_OK;
}

/* ---- keys that nothing turns back ---- */

typedef struct {
    sky_level level;
    uint64_t profile;     /* of the first block made with another than this job's; 0: none is */
    uint64_t first_token; /* of that block */
    bool untold;          /* in some block, how keys were turned */
} turned_keys;

/* Lossless keys are kept as they are, so that a stream of them says nothing of rope: only its
 * container's head names what it was made with. One that is coded by a calibration's tables needs
 * that calibration anyhow. */
static bool has_bare_keys(const sky_skv *skv, sky_level level) {
    for (uint32_t i = 0; i < skv->layer_count && level > SKY_LEVEL_LOSSLESS; i++) {
        sky_skv_entry e;
        sky_stream_info info;
        sky_skv_entry_at(skv, i, SKY_KV_K, &e);
        if (e.bytes && e.level == SKY_LEVEL_LOSSLESS &&
            sky_stream_info_read(skv->data + e.offset, (size_t)e.bytes, &info) == SKY_OK &&
            info.profile_id == 0)
            return true;
    }
    return false;
}

static int find_turned(const codec_job *j, const sky_skv *skv, uint64_t first_token,
                       void *context) {
    turned_keys *t = context;
    if (!has_bare_keys(skv, t->level))
        return CLI_OK;
    t->untold |= skv->profile_id == 0;
    if (skv->profile_id && t->profile == 0 && skv->profile_id != sky_profile_id(j->profile)) {
        t->profile = skv->profile_id;
        t->first_token = first_token;
    }
    return CLI_OK;
}

/* Lowered with rope in them, keys are larger and farther off (docs/codec-evidence.md): refused
 * where the file tells that there may be one. */
static int check_keys(codec_job *j, const cli_blob *file, turned_keys *t) {
    int code = cli_flag(j->c, "no-layout") ? CLI_OK : codec_each(j, file, find_turned, t);
    if (code == CLI_OK && t->profile && !j->profile)
        return cli_failed(j->c,
                          "%s: from token %llu on made with calibration or layout %016llx, without "
                          "which its lossless keys would be lowered rope and all, larger and "
                          "farther off: give it with --layout or --calibration, or go on with "
                          "--no-layout",
                          j->c->arguments[1], (unsigned long long)t->first_token,
                          (unsigned long long)t->profile);
    return code;
}

/* What was taken for granted, once it is done. */
static void note_keys(codec_job *j, const turned_keys *t) {
    const char *in = j->c->arguments[1], *layout = cli_text(j->c, "layout");
    if (t->profile && layout && !cli_text(j->c, "calibration"))
        cli_note(
            j->c,
            "%s: from token %llu on made with another calibration or layout, %016llx, than %s, "
            "by which its lossless keys were turned back",
            in, (unsigned long long)t->first_token, (unsigned long long)t->profile, layout);
    if (t->untold && !j->profile && !layout)
        cli_note(j->c,
                 "%s: does not tell whether rope turned its lossless keys, which were lowered as "
                 "they stand: if it did, --layout or --calibration makes them smaller and nearer; "
                 "if not, --no-layout says so",
                 in);
}

/* ---- the file ---- */

/* The file's best level; SKY_LEVEL_COUNT: it has no streams. */
static uint32_t best_level(const codec_summary *s) {
    uint32_t best = 0;
    while (best < SKY_LEVEL_COUNT && s->level_streams[best] == 0)
        best++;
    return best;
}

static int lower_all(codec_job *j, const cli_blob *file, const codec_summary *s, sky_level level) {
    lowering l = {.options = {.level = level, .plain = cli_flag(j->c, "plain")}};
    uint32_t best = best_level(s);
    if (best > level && best < SKY_LEVEL_COUNT)
        return cli_failed(j->c,
                          "%s: nothing in it is better than level %s, and what that left out "
                          "cannot be brought back: to have it at %s, encode the rows again",
                          j->c->arguments[1], sky_level_name((sky_level)best),
                          sky_level_name(level));
    turned_keys keys = {.level = level};
    int code = check_keys(j, file, &keys);
    if (code != CLI_OK)
        return code;
    sky_time start = sky_now();
    code = codec_each(j, file, lower_block, &l);
    double seconds = (double)(sky_now() - start) / 1e9;
    if (code == CLI_OK)
        code = cli_file_write(j->c, codec_output(j), l.out, l.bytes);
    if (code == CLI_OK)
        code = say_lowered(j, s, &l, seconds);
    if (code == CLI_OK)
        note_keys(j, &keys);
    free(l.out);
    return code;
}

int codec_run_lower(codec_job *j) {
    cli_blob file;
    codec_summary s;
    sky_level level;
    sky_stream_shape shape;
    if (!codec_read_level(j, &level))
        return CLI_USAGE;
    if (!codec_rope_agrees(j))
        return CLI_USAGE;
    int code = codec_read_summary(j, &file, &s);
    if (code == CLI_OK) {
        sky_skv_stream_shape(&s.first, 0, SKY_KV_K, &shape);
        code = codec_read_profile(j, s.first.layer_count, shape.kv_heads, shape.head_dim);
    }
    if (code == CLI_OK)
        code = lower_all(j, &file, &s, level);
    cli_blob_free(&file);
    return code;
}
