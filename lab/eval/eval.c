/* skymem eval: how far a model's answers move when its cache is stored at a level. */
#include "claims.h"
#include "facts.h"
#include "model.h"
#include "profile.h"
#include "references.h"
#include "report.h"

#include "lab/lab.h"

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
        const char *why = eval_scheme_find(name, block_tokens, scheme);
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

static int eval_measure_scheme(cli *c, session *s, eval_text *t, eval_scheme *scheme,
                               eval_report *report) {
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
        code = eval_measure_scheme(c, s, t, &s->schemes[i], report);
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

int eval_run(cli *c) {
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

int eval_run(cli *c) {
    return cli_no_model(c);
}

#endif
