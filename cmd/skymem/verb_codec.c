/* skymem codec: rows of a KV cache to .skv and back, without a model.
 *
 * A file is one container for each block of tokens, one after the other; each tells its own length
 * in its header. */
#include "codec_layout.h"
#include "npy.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cli *c;
    sky_profile *profile; /* or NULL */
    uint32_t first_position;
    void *memory; /* encoder's or decoder's */
} job;

static int failed(const job *j, const char *what, sky_status status) {
    return cli_failed(j->c, "%s: %s", what, sky_status_text(status));
}

/* Where the result goes; checked before anything runs. */
static const char *output_of(const job *j) {
    const char *output = cli_text(j->c, "output");
    return output ? output : j->c->arguments[2];
}

/* False: it is no level, and that was said. */
static bool read_level(const job *j, sky_level *level) {
    bool fine = sky_level_parse(cli_text(j->c, "level"), level) == SKY_OK;
    if (!fine)
        cli_usage(j->c, "no level \"%s\": `skymem codec levels` lists them",
                  cli_text(j->c, "level"));
    return fine;
}

/* ---- profile: a calibration, or a layout that tells the rope alone ---- */

static int read_calibration(job *j, const char *path) {
    cli_blob blob;
    sky_error error = {0};
    int code = cli_blob_read(j->c, path, 1u << 30, &blob);
    if (code != CLI_OK)
        return code;
    sky_status status = sky_profile_read(blob.data, blob.bytes, &j->profile, &error);
    cli_blob_free(&blob);
    return status == SKY_OK ? CLI_OK : cli_failed(j->c, "%s: %s", path, error.text);
}

static sky_status bare_profile(const sky_rope *rope, uint32_t layers, uint32_t heads, uint32_t dim,
                               sky_profile **out) {
    sky_profile_layer *list = calloc(layers, sizeof *list);
    if (!list)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < layers; i++)
        list[i] = (sky_profile_layer){heads, dim, dim, 0};
    sky_profile_shape shape = {layers, list, 1, rope, {0}};
    sky_status status = sky_profile_create(&shape, out);
    free(list);
    return status == SKY_OK ? sky_profile_seal(*out) : status;
}

static int use_layout(job *j, const char *path, uint32_t layers, uint32_t heads, uint32_t dim) {
    codec_layout layout;
    int code = codec_layout_read(j->c, path, dim, &layout);
    if (code != CLI_OK)
        return code;
    j->first_position = layout.first_position;
    if (layout.turned && j->profile)
        return cli_failed(j->c, "%s: rope: the calibration says how keys are turned; leave it out",
                          path);
    if (layout.turned && bare_profile(&layout.rope, layers, heads, dim, &j->profile) != SKY_OK)
        return cli_failed(j->c, "%s: no profile can be made of it", path);
    return CLI_OK;
}

static int read_profile(job *j, uint32_t layers, uint32_t heads, uint32_t dim) {
    const char *calibration = cli_text(j->c, "calibration"), *layout = cli_text(j->c, "layout");
    int code = calibration ? read_calibration(j, calibration) : CLI_OK;
    if (code == CLI_OK && layout)
        code = use_layout(j, layout, layers, heads, dim);
    return code;
}

/* Is the calibration of such rows? */
static int check_profile(const job *j, const npy_array *a) {
    for (uint32_t i = 0; j->profile && i < a->layers; i++) {
        sky_profile_layer l;
        if (sky_profile_layer_get(j->profile, i, &l) != SKY_OK)
            return cli_failed(j->c, "%s: %u layers; %s is of %u", j->c->arguments[1], a->layers,
                              cli_text(j->c, "calibration"), sky_profile_layer_count(j->profile));
        if (l.kv_heads != a->heads || l.k_dim != a->dim || l.v_dim != a->dim)
            return cli_failed(
                j->c, "%s: %u heads of %u; in %s layer %u has %u heads of %u (K) and %u (V)",
                j->c->arguments[1], a->heads, a->dim, cli_text(j->c, "calibration"), i, l.kv_heads,
                l.k_dim, l.v_dim);
    }
    return CLI_OK;
}

/* ---- levels ---- */

static int run_levels(job *j) {
    cli *c = j->c;
    json_t *list = json_array();
    cli_table t = {.columns = "lr"};
    cli_table_cell(&t, "%s", "LEVEL");
    cli_table_cell(&t, "%s", "BITS");
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++) {
        const char *name = sky_level_name((sky_level)i);
        double bits = sky_level_bits_typical((sky_level)i);
        json_array_append_new(list, json_pack("{s:s, s:f}", "level", name, "bits_typical", bits));
        cli_table_cell(&t, "%s", name);
        cli_table_cell(&t, "%.2f", bits);
    }
    if (!c->json)
        cli_table_print(&t, stdout);
    cli_table_free(&t);
    if (c->json)
        return cli_json_print(c, json_pack("{s:o}", "levels", list));
    json_decref(list);
    return CLI_OK;
}

/* ---- encode ---- */

static sky_status encode_block(const job *j, const npy_array *a, uint32_t first, uint32_t tokens,
                               const sky_encode_options *options, uint8_t *dst, size_t max,
                               size_t *bytes) {
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
        sky_tensor_in src = {npy_rows(a, i / 2, i & 1) + first * token_bytes, token_bytes,
                             token_bytes / a->heads};
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

static int encode_all(const job *j, const npy_array *a, sky_level level) {
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
    int code = status == SKY_OK ? cli_file_write(j->c, output_of(j), out, bytes)
                                : failed(j, "encode", status);
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

static int run_encode(job *j) {
    npy_array a;
    sky_level level;
    if (!read_level(j, &level))
        return CLI_USAGE;
    int code = npy_read(j->c, j->c->arguments[1], &a);
    if (code != CLI_OK)
        return code;
    code = read_profile(j, a.layers, a.heads, a.dim);
    if (code == CLI_OK)
        code = check_profile(j, &a);
    if (code == CLI_OK)
        code = encode_all(j, &a, level);
    cli_blob_free(&a.file);
    return code;
}

/* ---- reading containers ---- */

typedef int (*visit)(const job *j, const sky_skv *skv, uint64_t first_token, void *context);

static int corrupt(const job *j, size_t at, sky_status status) {
    return cli_failed(
        j->c, "%s: %s at byte %zu", j->c->arguments[1],
        status == SKY_E_UNSUPPORTED ? "a .skv of a later version" : "damaged or no .skv", at);
}

/* All containers of the file, in order. */
static int each(const job *j, const cli_blob *file, visit visitor, void *context) {
    size_t at = 0, header;
    uint64_t tokens = 0;
    int code = file->bytes ? CLI_OK : corrupt(j, 0, SKY_E_CORRUPT);
    while (code == CLI_OK && at < file->bytes) {
        sky_skv skv;
        const uint8_t *data = (const uint8_t *)file->data + at;
        sky_status status = sky_skv_open_header(data, file->bytes - at, 0, &skv, &header);
        if (status != SKY_OK || skv.bytes > file->bytes - at)
            return corrupt(j, at, status);
        code = visitor(j, &skv, tokens, context);
        tokens += skv.token_count;
        at += (size_t)skv.bytes;
    }
    return code;
}

/* ---- stat ---- */

typedef struct {
    uint64_t blocks;
    uint64_t tokens;
    uint64_t bytes;
    uint64_t streams;
    uint64_t level_bytes[SKY_LEVEL_COUNT];
    uint64_t level_streams[SKY_LEVEL_COUNT];
    uint64_t absent[2 * SKY_LAYERS_MAX]; /* blocks that lack layer i / 2's K or V */
    bool calibrated; /* a stream of them is: a container's own word is of what it was made with */
    sky_skv first;
} summary;

static const char *const kv_names[] = {"K", "V"};

static int add_up(const job *j, const sky_skv *skv, uint64_t first_token, void *context) {
    summary *s = context;
    (void)j;
    if (first_token == 0)
        s->first = *skv;
    s->blocks++;
    s->tokens += skv->token_count;
    s->bytes += skv->bytes;
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

static json_t *levels_json(const summary *s) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++)
        if (s->level_streams[i])
            json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "level",
                                                  sky_level_name((sky_level)i), "streams",
                                                  (json_int_t)s->level_streams[i], "bytes",
                                                  (json_int_t)s->level_bytes[i]));
    return list;
}

static json_t *absent_json(const summary *s) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < 2 * SKY_LAYERS_MAX; i++)
        if (s->absent[i])
            json_array_append_new(list,
                                  json_pack("{s:I, s:s, s:I}", "layer", (json_int_t)(i / 2), "kv",
                                            kv_names[i & 1], "blocks", (json_int_t)s->absent[i]));
    return list;
}

static int say_stat(const job *j, const summary *s) {
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
            printf("not there: layer %u's %s, in %llu block%s\n", i / 2, kv_names[i & 1],
                   (unsigned long long)s->absent[i], cli_plural(s->absent[i]));
    return CLI_OK;
}

/* What the directories of a file say; the caller frees `file`. */
static int read_summary(const job *j, cli_blob *file, summary *s) {
    *s = (summary){0};
    int code = cli_blob_read(j->c, j->c->arguments[1], (uint64_t)1 << 36, file);
    return code == CLI_OK ? each(j, file, add_up, s) : code;
}

static int run_stat(job *j) {
    cli_blob file;
    summary s;
    int code = read_summary(j, &file, &s);
    if (code == CLI_OK)
        code = say_stat(j, &s);
    cli_blob_free(&file);
    return code;
}

/* ---- verify ---- */

typedef struct {
    uint64_t corrupt;
    uint64_t undecoded; /* for want of what they were made with */
} verdict;

/* Checksum, header, and whether its rows decode. SKY_E_PARAM: not with this profile, or none. */
static sky_status check_stream(const job *j, const sky_skv *skv, uint32_t i) {
    sky_kv kv = (sky_kv)(i & 1);
    sky_stream_shape shape;
    sky_skv_stream_shape(skv, i / 2, kv, &shape);
    uint8_t *rows = malloc(sky_stream_rows_bytes(&shape));
    if (!rows)
        return SKY_E_NOMEM;
    size_t token_bytes = sky_stream_rows_bytes(&shape) / shape.token_count;
    sky_tensor_out dst = {rows, token_bytes, token_bytes / shape.kv_heads};
    sky_status status = sky_skv_decode(skv, j->profile, i / 2, kv, dst, j->memory);
    free(rows);
    return status;
}

static int check_block(const job *j, const sky_skv *skv, uint64_t first_token, void *context) {
    verdict *v = context;
    (void)first_token;
    for (uint32_t i = 0; i < 2 * skv->layer_count; i++) {
        sky_status status = check_stream(j, skv, i);
        if (status == SKY_E_NOMEM)
            return failed(j, j->c->arguments[1], status);
        v->undecoded += status == SKY_E_PARAM;
        v->corrupt += status < 0 && status != SKY_E_PARAM;
    }
    return CLI_OK;
}

static int say_verify(const job *j, const summary *s, const verdict *v) {
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

static int run_verify(job *j) {
    cli_blob file;
    summary s;
    verdict v = {0};
    sky_stream_shape shape;
    int code = read_summary(j, &file, &s);
    if (code == CLI_OK) {
        sky_skv_stream_shape(&s.first, 0, SKY_KV_K, &shape);
        code = read_profile(j, s.first.layer_count, shape.kv_heads, shape.head_dim);
    }
    if (code == CLI_OK)
        code = each(j, &file, check_block, &v);
    if (code == CLI_OK)
        code = say_verify(j, &s, &v);
    cli_blob_free(&file);
    return code;
}

/* ---- decode ---- */

typedef struct {
    npy_array out;
    uint32_t first_layer;
} decoding;

static int decode_block(const job *j, const sky_skv *skv, uint64_t first_token, void *context) {
    decoding *d = context;
    npy_array *a = &d->out;
    size_t token_bytes = npy_token_bytes(a);
    for (uint32_t i = 0; i < 2 * a->layers; i++) {
        uint32_t layer = d->first_layer + i / 2;
        sky_stream_shape s;
        sky_tensor_out dst = {npy_rows(a, i / 2, i & 1) + first_token * token_bytes, token_bytes,
                              token_bytes / a->heads};
        if (sky_skv_stream_shape(skv, layer, (sky_kv)(i & 1), &s) != SKY_OK ||
            s.kv_heads != a->heads || s.head_dim != a->dim || s.element != a->element)
            return cli_failed(j->c,
                              "%s: layers differ in shape, so that one array cannot hold them",
                              j->c->arguments[1]);
        sky_status status = sky_skv_decode(skv, j->profile, layer, (sky_kv)(i & 1), dst, j->memory);
        if (status == SKY_E_PARAM)
            return cli_failed(j->c,
                              "%s: made with another calibration or layout: give it with "
                              "--calibration or --layout",
                              j->c->arguments[1]);
        if (status == SKY_MISS)
            return cli_failed(j->c,
                              "%s: layer %u's %s is not there; --layers takes those that are, and "
                              "codec stat lists the others",
                              j->c->arguments[1], layer, kv_names[i & 1]);
        if (status != SKY_OK)
            return failed(j, j->c->arguments[1], status);
    }
    return CLI_OK;
}

static bool layers_wanted(const char *text, uint32_t all, uint32_t *first, uint32_t *last) {
    unsigned a = 0, b = all - 1;
    int used = 0;
    if (text && sscanf(text, "%u-%u%n", &a, &b, &used) == 2 && text[used] == 0) {
    } else if (text && sscanf(text, "%u%n", &a, &used) == 1 && text[used] == 0) {
        b = a;
    } else if (text) {
        return false;
    }
    *first = a;
    *last = b;
    return a <= b && b < all;
}

static int decode_all(job *j, const cli_blob *file, const summary *s) {
    decoding d = {.first_layer = 0};
    uint32_t last;
    sky_stream_shape shape;
    if (!layers_wanted(cli_text(j->c, "layers"), s->first.layer_count, &d.first_layer, &last))
        return cli_usage(j->c, "--layers a-b, from 0 to %u", s->first.layer_count - 1);
    sky_skv_stream_shape(&s->first, d.first_layer, SKY_KV_K, &shape);
    int code = read_profile(j, s->first.layer_count, shape.kv_heads, shape.head_dim);
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
    code = each(j, file, decode_block, &d);
    double gbps = (double)npy_bytes(&d.out) / (double)(sky_now() - start);
    if (code == CLI_OK)
        code = npy_write(j->c, output_of(j), &d.out);
    if (code == CLI_OK && j->c->json)
        code = cli_json_print(j->c,
                              json_pack("{s:I, s:I, s:I, s:f}", "layers", (json_int_t)d.out.layers,
                                        "tokens", (json_int_t)d.out.tokens, "bytes",
                                        (json_int_t)npy_bytes(&d.out), "decode_gbps", gbps));
    free(d.out.data);
    return code;
}

static int run_decode(job *j) {
    cli_blob file;
    summary s;
    int code = read_summary(j, &file, &s);
    if (code == CLI_OK)
        code = decode_all(j, &file, &s);
    cli_blob_free(&file);
    return code;
}

/* ---- lower ---- */

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

static int lower_block(const job *j, const sky_skv *skv, uint64_t first_token, void *context) {
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
        return failed(j, j->c->arguments[1], status);
    l->bytes += took;
    return CLI_OK;
}

static int say_lowered(const job *j, const summary *s, const lowering *l, double seconds) {
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

/* The file's best level; SKY_LEVEL_COUNT: it has no streams. */
static uint32_t best_level(const summary *s) {
    uint32_t best = 0;
    while (best < SKY_LEVEL_COUNT && s->level_streams[best] == 0)
        best++;
    return best;
}

static int lower_all(job *j, const cli_blob *file, const summary *s, sky_level level) {
    lowering l = {.options = {.level = level, .plain = cli_flag(j->c, "plain")}};
    uint32_t best = best_level(s);
    if (best > level && best < SKY_LEVEL_COUNT)
        return cli_failed(j->c,
                          "%s: nothing in it is better than level %s, and what that left out "
                          "cannot be brought back: to have it at %s, encode the rows again",
                          j->c->arguments[1], sky_level_name((sky_level)best),
                          sky_level_name(level));
    sky_time start = sky_now();
    int code = each(j, file, lower_block, &l);
    double seconds = (double)(sky_now() - start) / 1e9;
    if (code == CLI_OK)
        code = cli_file_write(j->c, output_of(j), l.out, l.bytes);
    if (code == CLI_OK)
        code = say_lowered(j, s, &l, seconds);
    free(l.out);
    return code;
}

static int run_lower(job *j) {
    cli_blob file;
    summary s;
    sky_level level;
    sky_stream_shape shape;
    if (!read_level(j, &level))
        return CLI_USAGE;
    int code = read_summary(j, &file, &s);
    if (code == CLI_OK) {
        sky_skv_stream_shape(&s.first, 0, SKY_KV_K, &shape);
        code = read_profile(j, s.first.layer_count, shape.kv_heads, shape.head_dim);
    }
    if (code == CLI_OK)
        code = lower_all(j, &file, &s, level);
    cli_blob_free(&file);
    return code;
}

/* ---- which ---- */

static const struct {
    const char *name;
    const char *options; /* that mean something to it */
    bool reads;          /* a file */
    bool writes;         /* another: the last argument, or --output */
    int (*run)(job *j);
} parts[] = {
    {"levels", "", false, false, run_levels},
    {"encode", "level output layout calibration plain block-tokens", true, true, run_encode},
    {"decode", "output layout calibration layers", true, true, run_decode},
    {"lower", "level output layout calibration plain", true, true, run_lower},
    {"stat", "", true, false, run_stat},
    {"verify", "layout calibration", true, false, run_verify},
};

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *p = words; (p = strstr(p, word)); p += length)
        if ((p == words || p[-1] == ' ') && (p[length] == ' ' || p[length] == 0))
            return true;
    return false;
}

static int codec_run(cli *c) {
    const char *name = c->arguments[0];
    size_t i = 0, count = sizeof parts / sizeof *parts;
    while (i < count && strcmp(name, parts[i].name) != 0)
        i++;
    if (i == count)
        return cli_usage(c, "no codec %s: levels, encode, decode, lower, stat or verify", name);
    for (const cli_option *o = c->verb->options; o->name; o++)
        if (cli_find(c, o->name)->origin == CLI_FROM_FLAG && !has_word(parts[i].options, o->name))
            return cli_usage(c, "codec %s takes no --%s", name, o->name);
    size_t files = c->argument_count - 1, wanted = parts[i].reads;
    wanted += parts[i].writes && !cli_text(c, "output");
    if (files != wanted)
        return cli_usage(c, "codec %s %s", name,
                         !parts[i].reads                ? "takes no file"
                         : !parts[i].writes             ? "takes one file"
                         : files == 0 || files > wanted ? "takes one file, and -o FILE for another"
                                                        : "needs -o FILE, where the result goes");
    job j = {.c = c, .memory = aligned_alloc(64, SKY_DECODER_BYTES)};
    int code = j.memory ? parts[i].run(&j) : cli_failed(c, "out of memory");
    sky_profile_destroy(j.profile);
    free(j.memory);
    return code;
}

const cli_verb cli_verb_codec = {
    .name = "codec",
    .summary = "Encode rows of a KV cache to fewer bytes, and back",
    .synopsis = "levels | encode IN.npy | decode IN.skv | lower IN.skv | stat F | verify F",
    .about =
        "Arrays are .npy files of f16, f32 or bf16 (as u16) shaped [layer, 2, token, kv_head, "
        "dim], "
        "keys first, as `skymem run --dump-kv` writes them. encode cuts them into blocks and "
        "writes "
        "a container for each, one after the other; decode joins them. The result goes to -o FILE, "
        "or "
        "to a file named last.\n"
        "lower takes a file to a lower level without the rows it was made of: from 8 to 4 costs no "
        "more than 4 itself. Streams at that level or below stay as they are; a file that has "
        "nothing better than the level it is to have is refused.\n"
        "A calibration (`skymem calibrate`) makes the lossy levels smaller at equal quality; what "
        "was encoded with one decodes with that one only. A layout is JSON, {\"rope\": {\"kind\": "
        "\"neox\", \"dims\": 256, \"base\": 10000, \"frequency_scale\": 1}, \"first_position\": "
        "0}: where the first row stands, and how keys were turned where no calibration says so. "
        "decode and lower take the calibration or layout the file was encoded with.\n"
        "verify checks every checksum, and decodes what it can: what was encoded with a "
        "calibration "
        "or layout, when that is given.",
    .options =
        (const cli_option[]){
            {.name = "level",
             .kind = CLI_TEXT,
             .value = "L",
             .fallback = "4",
             .help = "lossless, 8, 6, 4, 3, 2.5, 2 or archive"},
            {.name = "output",
             .kind = CLI_PATH,
             .value = "FILE",
             .letter = 'o',
             .help = "where the result goes"},
            {.name = "layout", .kind = CLI_PATH, .value = "F.json", .help = "the rope of the keys"},
            {.name = "calibration", .kind = CLI_PATH, .value = "F.skycal", .help = "of the model"},
            {.name = "layers", .kind = CLI_TEXT, .value = "A-B", .help = "decode these alone"},
            {.name = "plain",
             .kind = CLI_FLAG,
             .help = "encode by rounding: fast, a little larger"},
            {.name = "block-tokens",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "128",
             .min = 1,
             .max = 512,
             .help = "tokens of a container"},
            {.name = NULL},
        },
    .arguments_min = 1,
    .arguments_max = 3,
    .examples =
        (const cli_example[]){
            {"skymem codec encode kv.npy -o kv.skv --level 3", "about a fifth of the bytes"},
            {"skymem codec decode kv.skv -o again.npy --layers 0-3", "four layers, read alone"},
            {"skymem codec lower kv8.skv kv4.skv --level 4", "for a tier farther away"},
            {"skymem codec verify kv.skv", "is it whole, and does it decode?"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"levels", "levels: each with level and bits_typical; stat: level, streams, bytes"},
            {"level", "encode, lower: the one asked for"},
            {"blocks", "encode, lower, stat: containers in the file"},
            {"lowered", "lower: streams that were above the level"},
            {"kept", "lower: streams that were not, and are as they were"},
            {"bytes_in", "encode: of the array; lower: of the file"},
            {"bytes", "of the file; decode: of the array"},
            {"bits_per_element", "encode: all bytes counted"},
            {"encode_gbps", "encode: GB of array a second"},
            {"decode_gbps", "decode: GB of array a second"},
            {"lower_s", "lower: seconds it took"},
            {"streams", "stat, verify: one for each layer's K and V of a block"},
            {"corrupt", "verify: streams whose checksum or header is wrong, or that do not decode"},
            {"undecoded", "verify: streams checked by checksum alone, without their calibration"},
            {"absent", "stat: streams that were left out: layer, kv (K or V), in how many blocks"},
            {"calibrated", "stat: a calibration or layout is needed to decode"},
            {"tokens", "stat, decode"},
            {"layers", "stat, decode"},
            {NULL, NULL},
        },
    .run = codec_run,
};
