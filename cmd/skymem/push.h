/* A prompt that one process computes and another waits for. */
#ifndef SKYMEM_CLI_PUSH_H
#define SKYMEM_CLI_PUSH_H

#include "model.h"

#ifdef SKYMEM_WITH_LLAMA

/* What of a prompt was put while it was computed. */
typedef struct {
    sky_sequence *sequence;
    sky_status status; /* why the rest was not */
    uint32_t blocks;
    uint64_t bytes;
} cli_push;

/* Announce the prompt's blocks, compute tokens[first] to tokens[count-1], and put the blocks part
 * by part. What a store does not take is no error of this. */
int cli_push_compute(cli *c, cli_model *m, cli_push *p, const uint32_t *tokens, size_t first,
                     size_t count);

/* How a wait for another process went. */
typedef struct {
    sky_awaited came;
    const char *ended; /* whole, gone, late, sooner; NULL: it did not wait */
} cli_awaited;

/* Wait as --wait-ms says, if it is given. Says why not all came. */
int cli_await_blocks(cli *c, const cli_store *store, sky_sequence *sequence, const uint32_t *tokens,
                     size_t count, cli_awaited *out);
/* Its members of a report, and its line of one for people. */
void cli_awaited_json(const cli_awaited *a, const cli_store *store, json_t *to);
void cli_awaited_note(const cli *c, const cli_awaited *a, const cli_store *store);

#endif
#endif
