/* The blocks of a store as the prompts they belong to: for ls, du and prune.
 *
 *   record (by run)     k0 ── k1 ── k2            a prompt: from a last block to its first
 *   model, words ──────►  \                       prompts that begin alike share blocks
 *                          j1
 *
 * A record is a named value in the tiers that outlive the process, one for each first block. It
 * tells what the blocks do not: the model's name, the tokens of a block, and the prompt's first
 * words where the user asked to keep them. */
#ifndef SKYMEM_CLI_PROMPTS_H
#define SKYMEM_CLI_PROMPTS_H

#include "entries.h"

#define CLI_RECORD_PREFIX "skymem/prompt/" /* and the 64 digits of the first block's key */

/* Keep a record of the prompt that begins with this block, unless there is one; `words` (NULL:
 * none) replace what is there. Without a tier for it nothing happens. */
void cli_record_keep(const cli_store *store, const sky_key *first, const char *model,
                     uint32_t block_tokens, const char *words, size_t words_bytes);
bool cli_is_record(const cli_entry *entry);

#define CLI_NO_ENTRY SIZE_MAX

/* Beside each entry. */
typedef struct {
    size_t parent; /* CLI_NO_ENTRY: none, or it is not there */
    size_t first;  /* of its chain */
    size_t depth;  /* blocks of the chain that ends with it; 0: no block */
    uint64_t chain_bytes;
    bool inner; /* a block hangs below it */
} cli_link;

typedef struct {
    cli_link *links; /* [entries.count] */
    json_t *records; /* by the digits of the first block: {model, block_tokens, words} */
} cli_prompts;

/* The entries must be all of the store, and stay as they are. */
int cli_prompts_find(const cli *c, const cli_store *store, const cli_entries *e, cli_prompts *out);
void cli_prompts_free(cli_prompts *p);
/* Whether a prompt ends with this block. */
bool cli_prompt_ends(const cli_prompts *p, size_t entry);
/* The record of the prompt that this block belongs to; NULL: none. */
const json_t *cli_prompt_record(const cli_prompts *p, const cli_entries *e, size_t entry);
/* Its model's name; NULL: not known. */
const char *cli_prompt_model(const cli_prompts *p, const cli_entries *e, size_t entry);
/* Tokens of the prompt that ends with this block; 0: not known. */
uint64_t cli_prompt_tokens(const cli_prompts *p, const cli_entries *e, size_t entry);

#endif
