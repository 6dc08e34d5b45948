/* skymem calibrate: what the codec should know of a model, measured on texts. */
#include "calibrate.h"
#include "model.h"
#include "profile.h"

#include <stdlib.h>
#include <string.h>

/* Write it with numbers that take two bytes where they can. */
static int write_profile(const cli *c, const char *path, const sky_profile *profile,
                         size_t *bytes) {
    sky_profile *rounded = NULL;
    void *data = NULL;
    sky_status status = sky_profile_round(profile, &rounded);
    if (status == SKY_OK) {
        *bytes = sky_profile_bytes(rounded);
        data = malloc(*bytes);
        status = data ? sky_profile_write(rounded, data, *bytes) : SKY_E_NOMEM;
    }
    int code = status == SKY_OK ? cli_file_write(c, path, data, *bytes)
                                : cli_failed(c, "%s: %s", path, sky_status_text(status));
    free(data);
    sky_profile_destroy(rounded);
    return code;
}

/* A calibration that is there already, written as one is now. */
static int rewrite_profile(const cli *c, const char *from, const char *path) {
    sky_profile *profile = NULL;
    size_t bytes = 0;
    char size[24];
    if (cli_same_file(path, from))
        return cli_failed(c, "%s: is what it is to be made of; name another", path);
    int code = cli_profile_read(c, from, &profile);
    if (code == CLI_OK)
        code = write_profile(c, path, profile, &bytes);
    uint32_t layers = sky_profile_layer_count(profile);
    sky_profile_destroy(profile);
    if (code != CLI_OK)
        return code;
    if (c->json)
        return cli_json_print(c, json_pack("{s:o, s:I, s:I}", "file", cli_json_text(path), "bytes",
                                           (json_int_t)bytes, "layers", (json_int_t)layers));
    printf("%s: %s for %u layer%s, from %s\n", path, cli_bytes_text(bytes, size), layers,
           cli_plural(layers), from);
    return CLI_OK;
}

#ifdef SKYMEM_WITH_LLAMA

static int find_texts(cli *c, calibration *k) {
    char folder[4096];
    const cli_value *given = cli_find(c, "text");
    if (given->count == 0) {
        if (!cli_share_find("texts/calibration", folder, sizeof folder))
            return cli_failed(c, "%s: no such folder; name files with --text", folder);
        return eval_folder_texts(c, folder, &k->texts, &k->text_count);
    }
    k->texts = calloc(given->count, sizeof *k->texts);
    for (size_t i = 0; k->texts && i < given->count; i++) {
        k->texts[i] = strdup(given->texts[i]);
        k->text_count += k->texts[i] != NULL;
    }
    return k->text_count == given->count ? CLI_OK : cli_failed(c, "out of memory");
}

/* What is read is not to be written over. */
static int keep_sources(cli *c, const calibration *k, const char *path) {
    bool own = cli_same_file(path, cli_text(c, "model"));
    for (size_t i = 0; i < k->text_count; i++)
        own |= cli_same_file(path, k->texts[i]);
    return own ? cli_failed(c, "%s: is what it is to be made of; name another", path) : CLI_OK;
}

static int report_calibration(const cli *c, const calibration *k, const char *path, size_t bytes,
                              double seconds) {
    json_t *levels = json_object();
    for (int level = SKY_LEVEL_8; level < SKY_LEVEL_COUNT; level++)
        if (k->bits[0][level] > 0)
            json_object_set_new(levels, sky_level_name((sky_level)level),
                                json_real(k->bits[0][level]));
    if (c->json)
        return cli_json_print(
            c, json_pack("{s:o, s:I, s:I, s:I, s:I, s:f, s:o}", "file", cli_json_text(path),
                         "bytes", (json_int_t)bytes, "layers", (json_int_t)k->layer_count, "texts",
                         (json_int_t)k->text_count, "tokens",
                         (json_int_t)(k->segment_count * (CALIBRATE_ROWS + CALIBRATE_SKIP_TOKENS)),
                         "seconds", seconds, "levels", levels));
    char size[24];
    printf("%s: %s for %u layer%s, from %zu segment%s of %zu text%s, in %.0f s\n", path,
           cli_bytes_text(bytes, size), k->layer_count, cli_plural(k->layer_count),
           k->segment_count, cli_plural(k->segment_count), k->text_count, cli_plural(k->text_count),
           seconds);
    const char *name;
    json_t *value;
    json_object_foreach(levels, name, value)
        printf("level %-8s %.2f bits an element\n", name, json_real_value(value));
    json_decref(levels);
    return CLI_OK;
}

static int measure_model(cli *c, const char *path) {
    calibration k = {.archive = cli_flag(c, "archive")};
    sky_profile *profile = NULL;
    size_t bytes = 0;
    sky_time start = sky_now();
    int code = find_texts(c, &k);
    if (code == CLI_OK)
        code = keep_sources(c, &k, path);
    if (code == CLI_OK)
        code = eval_model_open(c, 1536, 128, false, &k.model);
    if (code == CLI_OK)
        code = calibrate_collect(c, &k);
    if (code == CLI_OK)
        code = calibrate_bases(c, &k);
    if (code == CLI_OK && k.archive)
        code = calibrate_allocate(c, &k, SKY_BASIS_KLT);
    if (code == CLI_OK)
        code = calibrate_allocate(c, &k, SKY_BASIS_PAIR);
    if (code == CLI_OK)
        code = calibrate_levels(c, &k);
    if (code == CLI_OK)
        code = calibrate_profile(c, &k, true, SKY_LEVEL_COUNT, &profile);
    if (code == CLI_OK)
        code = write_profile(c, path, profile, &bytes);
    if (code == CLI_OK)
        code = report_calibration(c, &k, path, bytes, (double)(sky_now() - start) / 1e9);
    sky_profile_destroy(profile);
    calibrate_free(&k);
    return code;
}

#else

static int measure_model(cli *c, const char *path) {
    (void)path;
    return cli_no_model(c);
}

#endif

static int calibrate_run(cli *c) {
    const char *path = cli_text(c, "output"), *from = cli_text(c, "from");
    if (!path)
        return cli_usage(c, "where to? -o FILE.skycal");
    int code = cli_file_try(c, path);
    if (code != CLI_OK)
        return code;
    return from ? rewrite_profile(c, from, path) : measure_model(c, path);
}

const cli_verb cli_verb_calibrate = {
    .name = "calibrate",
    .summary = "Measure what the codec should know of a model, once",
    .synopsis = "",
    .about = "Texts are run through the model, and a calibration file is made from what its "
             "cache held. It makes lossy levels smaller. Without one everything works, with "
             "more bytes. A small model takes minutes on two cores.\n"
             "The file holds channel means, matrices and tables, and how coarse each layer's "
             "keys and values may be. It belongs to this model: any other refuses it. A file in "
             "$XDG_CACHE_HOME/skymem-calibration with a name that ends in .skycal is found by "
             "its model. The weights are first dequantised to F32 into the cache folder, as "
             "eval does.",
    .settings = CLI_SET_MODEL | CLI_SET_THREADS,
    .options =
        (const cli_option[]){
            {.name = "text",
             .kind = CLI_LIST,
             .value = "F",
             .help = "a text to read, may be repeated (default: share/texts/calibration)"},
            {.name = "output",
             .kind = CLI_PATH,
             .value = "F.skycal",
             .letter = 'o',
             .help = "where to write it"},
            {.name = "archive",
             .kind = CLI_FLAG,
             .help = "also full matrices for the archive level: megabytes, and twice the time"},
            {.name = "from",
             .kind = CLI_PATH,
             .value = "F.skycal",
             .help = "measure nothing: write this calibration in today's shorter form",
             .detail = "It is another calibration then: blocks coded with the old one are "
                       "computed again."},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem calibrate -o gemma.skycal", "the demo's model, the texts that come along"},
            {"skymem calibrate --from old.skycal -o new.skycal", "two thirds of its bytes"},
            {"skymem calibrate --model m.gguf --text a.txt --text b.txt -o m.skycal",
             "your texts, so that it suits what you ask"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"file", "what was written"},
            {"bytes", "its size"},
            {"layers", "layers of the model"},
            {"texts", "texts that were sampled; those too short are not. Not with --from, nor "
                      "what follows"},
            {"tokens", "tokens that were sampled"},
            {"seconds", "how long it took"},
            {"levels", "bits an element each level takes on these texts"},
            {NULL, NULL},
        },
    .failed = "no such model or text, texts too short, or the file cannot be written",
    .run = calibrate_run,
};
