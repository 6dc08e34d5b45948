/* skymem eval: how far a model's answers move when its cache is stored at a level. */
#include "eval_claims.h"
#include "eval_report.h"
#include "model.h"
#include "profile.h"

#include <stdlib.h>
#include <string.h>

#ifdef SKYMEM_WITH_LLAMA

#define SCHEMES_MAX 48

static const char default_levels[] =
    "f16,noise,q8_0,q5_1,q5_0,q4_0,q4_0-rotated,kivi-4,kivi-2,"
    "cachegen,cachegen-note,8,6,4,3,2.5,2,archive,8-plain,6-plain,4-plain,"
    "3-plain,2.5-plain,2-plain,4-uncalibrated,3-uncalibrated,"
    "2-uncalibrated";

typedef struct {
    eval_model model;
    sky_profile *profile;
    char *levels;
    eval_scheme schemes[SCHEMES_MAX];
    size_t scheme_count;
    char **texts;
    size_t text_count;
    char *filler; /* for the planted facts */
    uint32_t prefix;
    uint32_t next;
} session;

/* Before the model is opened, which may take minutes. */
static int parse_levels(cli *c, session *s) {
    const char *list = cli_text(c, "levels");
    uint32_t block_tokens = (uint32_t)cli_count(c, "block-tokens");
    uint32_t blocks = (s->prefix + block_tokens - 1) / block_tokens;
    s->levels = strdup(list ? list : default_levels);
    if (!s->levels)
        return cli_failed(c, "out of memory");
    char *rest = s->levels;
    for (char *name; (name = strsep(&rest, ","));) {
        if (s->scheme_count == SCHEMES_MAX)
            return cli_usage(c, "--levels: at most %d", SCHEMES_MAX);
        eval_scheme *scheme = &s->schemes[s->scheme_count++];
        const char *why = eval_scheme_parse(name, NULL, block_tokens, scheme);
        if (why)
            return cli_usage(c, "--levels: \"%s\" %s", name, why);
        if (scheme->finer_first > blocks || scheme->finer_last > blocks)
            return cli_usage(c,
                             "--levels: \"%s\" is of more blocks than the prefix has, which is %u",
                             name, blocks);
    }
    return CLI_OK;
}

static void use_profile(session *s) {
    for (size_t i = 0; i < s->scheme_count; i++)
        if (s->schemes[i].calibrated)
            s->schemes[i].profile = s->profile;
}

static int find_texts(cli *c, session *s) {
    char folder[4096];
    const cli_value *given = cli_find(c, "text");
    s->texts = calloc(given->count + 1, sizeof *s->texts);
    for (size_t i = 0; s->texts && i < given->count; i++) {
        s->texts[i] = strdup(given->texts[i]);
        s->text_count += s->texts[i] != NULL;
    }
    if (!s->texts || s->text_count < given->count)
        return cli_failed(c, "out of memory");
    int code = CLI_OK;
    if (!cli_share_find("texts", folder, sizeof folder)) {
        if (s->text_count == 0)
            return cli_failed(c, "%s: no such folder; name files with --text", folder);
    } else if (s->text_count == 0) {
        free(s->texts);
        s->texts = NULL;
        code = eval_folder_texts(c, folder, &s->texts, &s->text_count);
    }
    if (code == CLI_OK && asprintf(&s->filler, "%s/prose.txt", folder) < 0)
        code = cli_failed(c, "out of memory");
    return code;
}

static int measure(cli *c, session *s, eval_text *t, eval_scheme *scheme, eval_report *report) {
    eval_row row = {.scheme = scheme, .text = t};
    cli_progress("%s: %s", t->name, scheme->name);
    eval_text_reset(t);
    int code = scheme->code(c, scheme, t, &row.bytes);
    if (code == CLI_OK)
        code = eval_measure(c, &s->model, t, &row.score);
    cli_progress(NULL);
    return code == CLI_OK ? eval_report_add(c, report, &row) : code;
}

static int measure_all(cli *c, session *s, eval_text *t, eval_report *report) {
    int code = CLI_OK;
    for (size_t i = 0; i < s->scheme_count && code == CLI_OK; i++)
        code = measure(c, s, t, &s->schemes[i], report);
    return code;
}

static int run_texts(cli *c, session *s, eval_report *report) {
    eval_text t = {0};
    int code = CLI_OK;
    for (size_t i = 0; i < s->text_count && code == CLI_OK; i++) {
        cli_progress("%s", s->texts[i]);
        code = eval_text_load(c, &s->model, s->texts[i], s->prefix, s->next, &t);
        if (code == CLI_OK && cli_flag(c, "claims"))
            code = eval_claims(c, &s->model, &t);
        else if (code == CLI_OK)
            code = measure_all(c, s, &t, report);
    }
    if (code == CLI_OK && cli_flag(c, "facts")) {
        code = eval_text_facts(c, &s->model, s->filler, s->prefix, &t);
        if (code == CLI_OK)
            code = measure_all(c, s, &t, report);
    }
    eval_text_free(&t);
    return code;
}

static void session_free(session *s) {
    for (size_t i = 0; i < s->text_count; i++)
        free(s->texts[i]);
    free(s->texts);
    free(s->filler);
    free(s->levels);
    sky_profile_destroy(s->profile);
    eval_model_close(&s->model);
}

static int eval_run(cli *c) {
    session s = {.prefix = (uint32_t)cli_count(c, "prefix"),
                 .next = (uint32_t)cli_count(c, "continue")};
    eval_report report = {0};
    const char *kernels = cli_text(c, "kernels");
    sky_status status = kernels ? sky_codec_kernels_use(kernels) : SKY_OK;
    if (status != SKY_OK)
        return cli_usage(c, "--kernels %s: %s", kernels,
                         status == SKY_E_PARAM ? "they are scalar, avx2, avx512 and neon"
                                               : "not on this machine");
    if (cli_one_of(c, "claims lines") != CLI_OK || cli_one_of(c, "claims plot") != CLI_OK)
        return CLI_USAGE;
    const char *lines = cli_text(c, "lines");
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is there when it is measured, whoever reads */
    if (lines) {
        int code = eval_report_read(c, &report, lines);
        if (code == CLI_OK)
            code = eval_report_end(c, &report, cli_text(c, "plot"));
        eval_report_free(&report);
        return code;
    }
    int code = cli_text(c, "plot") ? cli_file_try(c, cli_text(c, "plot")) : CLI_OK;
    if (code == CLI_OK)
        code = parse_levels(c, &s);
    if (code == CLI_OK)
        code = find_texts(c, &s);
    uint32_t decode_tokens = s.next > 64 ? s.next : 64;
    if (code == CLI_OK)
        code = eval_model_open(c, s.prefix + decode_tokens + (cli_flag(c, "facts") ? 2048 : 0),
                               decode_tokens, strcmp(cli_text(c, "weights"), "file") == 0,
                               &s.model);
    if (code == CLI_OK)
        code = cli_profile_find(c, cli_text(c, "calibration"), s.model.fingerprint, &s.profile);
    use_profile(&s);
    if (code == CLI_OK && !s.profile)
        cli_note(c, "no calibration of this model: levels do without; see skymem calibrate");
    if (code == CLI_OK)
        code = run_texts(c, &s, &report);
    if (code == CLI_OK && !cli_flag(c, "claims"))
        code = eval_report_end(c, &report, cli_text(c, "plot"));
    eval_report_free(&report);
    session_free(&s);
    return code;
}

#else

static int eval_run(cli *c) {
    return cli_no_model(c);
}

#endif

const cli_verb cli_verb_eval = {
    .name = "eval",
    .summary = "Measure what storing a model's cache at a level does to its answers",
    .synopsis = "",
    .about = "The beginning of each text is computed, its cache is stored and loaded, and the "
             "model reads on. Its predictions are compared with those from the cache before. "
             "Bytes are all that would be stored: scales, tables, headers, directories.\n"
             "Levels: 8 6 4 3 2.5 2 archive. With -plain behind it: rounded without the "
             "trellis. With -uncalibrated: without side data. 4-x1.2: steps 1.2 times as "
             "coarse. 4-from-8: lowered from what level 8 kept. 3+8@last: the newest block of "
             "the prefix at level 8; @last2: two blocks; @first: the oldest.\n"
             "The column / LADDER is the divergence over that of the levels at the same bits, "
             "by interpolation.\n"
             "References: f16; noise (f16 moved by its last place: the least difference that "
             "can be seen); q8_0 q5_1 q5_0 q4_0 q4_0-rotated, as in llama.cpp; kivi-4 kivi-2; "
             "cachegen, as it is shipped; cachegen-note, as it is described: differences to "
             "anchor tokens, in bins by thirds of the layers.\n"
             "The weights are first dequantised to F32, once, into the cache folder: kernels "
             "for quantised weights add noise that hides everything finer than q4_0.",
    .settings = CLI_SET_MODEL | CLI_SET_THREADS,
    .options =
        (const cli_option[]){
            {.name = "text",
             .kind = CLI_LIST,
             .value = "F",
             .help = "a text to read, may be repeated (default: those in share/texts)"},
            {.name = "prefix",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "1024",
             .min = 16,
             .max = 131072,
             .help = "tokens whose cache is stored"},
            {.name = "continue",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "256",
             .min = 1,
             .max = 512,
             .help = "tokens after them whose predictions are compared"},
            {.name = "levels",
             .kind = CLI_TEXT,
             .value = "A,B",
             .help = "levels and references (default: all)"},
            {.name = "block-tokens",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "128",
             .min = 1,
             .max = SKY_STREAM_TOKENS_MAX,
             .help = "tokens that are coded together"},
            {.name = "calibration",
             .kind = CLI_PATH,
             .value = "F.skycal",
             .help = "side data of this model, or none (default: found by the model's content)"},
            {.name = "facts", .kind = CLI_FLAG, .help = "also ask for facts planted in a text"},
            {.name = "claims",
             .kind = CLI_FLAG,
             .help = "test CacheGen's claims instead: delta, depth or groups",
             .detail = "The result is JSON lines with fields of their own."},
            {.name = "weights",
             .kind = CLI_CHOICE,
             .value = "f32|file",
             .fallback = "f32",
             .help = "dequantise the weights first, or use them as they are"},
            {.name = "kernels",
             .kind = CLI_TEXT,
             .value = "NAME",
             .help = "scalar, avx2, avx512 or neon (default: the best this machine has)"},
            {.name = "lines",
             .kind = CLI_PATH,
             .value = "F",
             .help = "measure nothing: table and plot of lines that earlier runs printed"},
            {.name = "plot", .kind = CLI_PATH, .value = "F.svg", .help = "draw bits against KLD"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem eval --levels 4,q8_0,q4_0", "one level between two that llama.cpp has"},
            {"skymem eval --text book.txt --prefix 4096 --json", "one text, lines for a script"},
            {"skymem eval --levels f16,4,2 --facts", "does it still know what it read?"},
            {NULL, NULL},
        },
    .json_lines = true,
    .fields =
        (const cli_field[]){
            {"level", "the level or reference"},
            {"text", "the text's file name, or planted-facts"},
            {"bits_per_element", "bits stored for one number of the cache"},
            {"bytes", "all bytes stored"},
            {"kld_mean", "Kullback-Leibler divergence from the unchanged model, nats a token"},
            {"kld_p999", "what 99.9 % of the tokens stay below"},
            {"top1", "share of tokens whose likeliest successor is the same"},
            {"ppl_ratio", "perplexity of the text over that of the unchanged model"},
            {"encode_gbps", "f16 rows encoded a second, one thread, GB; null for references"},
            {"decode_gbps", "the same, decoded"},
            {"rms_dp", "root mean square change of the probability of the text's own next token"},
            {"prefix", "tokens whose cache was stored"},
            {"right", "planted facts: answers that are right, else null"},
            {"asked", "of so many"},
            {NULL, NULL},
        },
    .failed = "no such model or text, a text shorter than asked for, or a calibration of another "
              "model",
    .run = eval_run,
};
