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
    cli_progress("loading %s", m->path);
    sky_status status = sky_llama_open(&options, &llama, &error);
    cli_progress(NULL);
    if (status != SKY_OK)
        return cli_failed(c, "%s", error.text[0] ? error.text : sky_status_text(status));
    const sky_engine *engine = sky_llama_engine(llama);
    engine->ops->fingerprint(engine->self, m->fingerprint);
    m->weights_bytes = 4 * sky_llama_parameter_count(llama);
    sky_llama_close(llama);
    return CLI_OK;
}

static int make_folder(const cli *c, const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return CLI_OK;
    return cli_failed(c, "%s: %s", path, strerror(errno));
}

/* Where they lie: below the cache folder, named by content. */
static int name_weights(const cli *c, char folder[3200], eval_model *m) {
    char home[3072];
    if (!cli_cache_home(home, sizeof home))
        return cli_failed(c, "this account has no home; set XDG_CACHE_HOME to a folder that can "
                             "be written");
    int code = make_folder(c, home);
    cli_weights_folder(folder, 3200);
    if (code == CLI_OK)
        code = make_folder(c, folder);
    char *out = m->weights_path;
    size_t room = sizeof m->weights_path, at = (size_t)snprintf(out, room, "%s/", folder);
    for (size_t i = 0; i < 16; i++)
        at += (size_t)snprintf(out + at, room - at, "%02x", m->fingerprint[i]);
    snprintf(out + at, room - at, ".f32.gguf");
    return code;
}

/* Written in a folder of this run, which goes with it however it ends, and renamed. */
static int write_weights(const cli *c, const char *folder, const eval_model *m) {
    char scratch[4096], file[4200];
    int code = cli_scratch_make(c, folder, "weights", scratch, sizeof scratch);
    if (code != CLI_OK)
        return code;
    snprintf(file, sizeof file, "%s/f32.gguf", scratch);
    char size[24];
    cli_note(c, "writing the weights as F32, %s, to %s; skymem clear --weights removes them",
             cli_bytes_text(m->weights_bytes, size), m->weights_path);
    cli_progress("writing the weights as F32");
    sky_status status = sky_llama_dequantise(m->path, file);
    cli_progress(NULL);
    if (status != SKY_OK || rename(file, m->weights_path) != 0)
        code = cli_failed(c, "%s: cannot be written; is there room for four bytes a weight?",
                          m->weights_path);
    cli_scratch_remove(scratch);
    return code;
}

/* What an earlier run left and cannot be read, as after a crash of the machine, is written anew. */
static int open_weights(cli *c, bool as_it_is, eval_model *m) {
    sky_error error = {0};
    char folder[3200];
    const sky_llama_options options = {.model_path = m->weights_path,
                                       .threads = (uint32_t)cli_count(c, "threads")};
    int code = as_it_is ? CLI_OK : name_weights(c, folder, m);
    if (as_it_is)
        memcpy(m->weights_path, m->path, sizeof m->path);
    if (code != CLI_OK)
        return code;
    cli_progress("loading %s", m->weights_path);
    sky_status status = access(m->weights_path, R_OK) == 0
                            ? sky_llama_open(&options, &m->llama, &error)
                            : SKY_MISS;
    if (status != SKY_OK && status != SKY_E_NOMEM && !as_it_is) {
        code = write_weights(c, folder, m);
        if (code != CLI_OK)
            return code;
        cli_progress("loading %s", m->weights_path);
        status = sky_llama_open(&options, &m->llama, &error);
    }
    cli_progress(NULL);
    return status == SKY_OK
               ? CLI_OK
               : cli_failed(c, "%s", error.text[0] ? error.text : sky_status_text(status));
}

int eval_model_open(cli *c, uint32_t context_tokens, uint32_t decode_tokens, bool as_it_is,
                    eval_model *out) {
    memset(out, 0, sizeof *out);
    int code = cli_model_find(c, out->path, sizeof out->path);
    if (code == CLI_OK && !out->path[0])
        code = cli_usage(c, "which model? --model FILE.gguf or NAME; skymem model ls lists names");
    if (code == CLI_OK)
        code = read_fingerprint(c, out);
    if (code == CLI_OK)
        code = open_weights(c, as_it_is, out);
    if (code != CLI_OK)
        return code;
    sky_error error = {0};
    if (context_tokens > sky_llama_trained_tokens(out->llama))
        return cli_usage(c, "%u tokens are more than the %u the model was trained for",
                         context_tokens, sky_llama_trained_tokens(out->llama));
    sky_status status = sky_llama_probe_open(out->llama, context_tokens, decode_tokens, &out->probe,
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
