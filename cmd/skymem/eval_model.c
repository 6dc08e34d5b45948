/* A model to measure with. Quantised weights run on kernels that round what they read, the cache
 * included: with a Q4_K_M file 0.1 % of noise in the cache looks as bad as half the bits would. So
 * the weights are written once as F32, four bytes each, and computed with as such. */
#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

#include "model.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The fingerprint of the model as named: what a calibration is bound to. */
static int read_fingerprint(const cli *c, eval_model *m) {
    sky_error error = {0};
    const sky_llama_options options = {.model_path = m->path, .threads = 1};
    sky_llama *llama;
    sky_status status = sky_llama_open(&options, &llama, &error);
    if (status != SKY_OK)
        return cli_failed(c, "%s", error.text[0] ? error.text : sky_status_text(status));
    const sky_engine *engine = sky_llama_engine(llama);
    engine->ops->fingerprint(engine->self, m->fingerprint);
    sky_llama_close(llama);
    return CLI_OK;
}

static int make_folder(const cli *c, const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return CLI_OK;
    return cli_failed(c, "%s: %s", path, strerror(errno));
}

/* Below the cache folder, named by content; written beside and renamed, so that it is whole. */
static int find_weights(const cli *c, eval_model *m) {
    char home[3072], scratch[4200];
    char *out = m->weights_path;
    if (!cli_cache_home(home, sizeof home))
        return cli_failed(c, "this account has no home; set XDG_CACHE_HOME to a folder that can "
                             "be written");
    int code = make_folder(c, home);
    snprintf(out, sizeof m->weights_path, "%s/skymem-weights", home);
    if (code == CLI_OK)
        code = make_folder(c, out);
    size_t at = strlen(out);
    at += (size_t)snprintf(out + at, sizeof m->weights_path - at, "/");
    for (size_t i = 0; i < 16; i++)
        at += (size_t)snprintf(out + at, sizeof m->weights_path - at, "%02x", m->fingerprint[i]);
    snprintf(out + at, sizeof m->weights_path - at, ".f32.gguf");
    if (code != CLI_OK || access(out, R_OK) == 0)
        return code;
    snprintf(scratch, sizeof scratch, "%s.%ld", out, (long)getpid());
    cli_progress("writing the weights as F32");
    sky_status status = sky_llama_dequantise(m->path, scratch);
    cli_progress(NULL);
    if (status != SKY_OK || rename(scratch, out) != 0) {
        unlink(scratch);
        return cli_failed(c, "%s: cannot be written; is there room for four bytes a weight?", out);
    }
    return CLI_OK;
}

int eval_model_open(cli *c, uint32_t context_tokens, uint32_t decode_tokens, bool as_it_is,
                    eval_model *out) {
    memset(out, 0, sizeof *out);
    if (!cli_model_find(c, out->path, sizeof out->path))
        return cli_usage(c, "which model? --model FILE.gguf; make demo fetches one");
    int code = read_fingerprint(c, out);
    if (code == CLI_OK && as_it_is)
        memcpy(out->weights_path, out->path, sizeof out->path);
    else if (code == CLI_OK)
        code = find_weights(c, out);
    if (code != CLI_OK)
        return code;
    sky_error error = {0};
    const sky_llama_options options = {.model_path = out->weights_path,
                                       .threads = (uint32_t)cli_count(c, "threads")};
    sky_status status = sky_llama_open(&options, &out->llama, &error);
    if (status == SKY_OK && context_tokens > sky_llama_trained_tokens(out->llama))
        return cli_usage(c, "%u tokens are more than the %u the model was trained for",
                         context_tokens, sky_llama_trained_tokens(out->llama));
    if (status == SKY_OK)
        status = sky_llama_probe_open(out->llama, context_tokens, decode_tokens, &out->probe,
                                      &error);
    if (status != SKY_OK)
        return cli_failed(c, "%s", error.text[0] ? error.text : sky_status_text(status));
    out->engine = sky_llama_engine(out->llama);
    return CLI_OK;
}

void eval_model_close(eval_model *m) {
    sky_llama_probe_close(m->probe);
    sky_llama_close(m->llama);
    m->probe = NULL;
    m->llama = NULL;
}

#endif
