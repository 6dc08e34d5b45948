/* A model, loaded as the settings say, and how long its answers take. */
#ifndef SKYMEM_CLI_MODEL_H
#define SKYMEM_CLI_MODEL_H

#include "cli.h"
#include "rates.h"

#ifdef SKYMEM_WITH_LLAMA
#include <skymem_llama.h>

typedef struct {
    sky_llama *llama;
    const sky_engine *engine;
    char path[4096];
    sky_profile *profile; /* its calibration; NULL: none was found */
    double load_ms;
    uint32_t shown_percent; /* of the loading */
    bool tells_computing;   /* how far a prompt is, as progress */
    /* Not NULL: called after each part of a prompt but the last: so many tokens are computed */
    void (*computed)(void *context, size_t tokens);
    void *computed_context;
    size_t computing_from;
    uint8_t fingerprint[32];
    uint32_t threads;
    cli_rate kept;     /* from earlier runs */
    cli_rate measured; /* by this one, which keeps it when it closes the model */
} cli_model;

/* The model of the settings; else the one whose path the build left beside the program; "": there
 * is none. Says why a named one is not here. */
int cli_model_find(cli *c, char *path, size_t path_bytes);
/* Keeps `out` for its progress: it must stay where it is. */
int cli_model_open(cli *c, cli_model *out);
void cli_model_close(cli_model *m);
/* Owner: the caller frees *tokens, which has room for `spare` more. */
int cli_model_tokenize(const cli *c, const cli_model *m, const char *text, size_t bytes,
                       size_t spare, uint32_t **tokens, size_t *count);
/* How many tokens a text has at least, when these are sure to be more than `most`; else 0. Soon
 * known however long the text is: a tokenizer may take minutes for a megabyte. */
size_t cli_model_overflow(const cli_model *m, const char *text, size_t bytes, size_t most);
/* A manager, and one sequence on the model. Owner: the caller closes both, after a failure too. */
int cli_model_manager(cli *c, const cli_model *m, sky_cache *cache, uint32_t block_tokens,
                      sky_manager **out, sky_sequence **sequence);
/* Close both, and learn how fast the engine was in its loads. NULL is fine. */
void cli_model_manager_close(cli_model *m, sky_manager *manager, sky_sequence *sequence);
/* Compute tokens[first] to tokens[count-1] on top of what the engine holds. */
int cli_model_compute(const cli *c, cli_model *m, const uint32_t *tokens, size_t first,
                      size_t count);

/* Write rows of the first `tokens` tokens as an array [layer, 2, token, kv_head, dim]. */
int cli_dump_kv(const cli *c, const cli_model *m, const sky_layout *layout, uint32_t tokens,
                const char *path);
#else
int cli_no_model(const cli *c);
#endif

#endif
