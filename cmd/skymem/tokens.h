/* The block keys of a prompt that a file has as token ids: for keys and lookup. */
#ifndef SKYMEM_TOKENS_H
#define SKYMEM_TOKENS_H

#include "cli.h"

typedef struct {
    sky_namespace ns; /* salted */
    sky_key *keys;
    size_t count;
    size_t tail; /* tokens at the end that fill no block */
} token_keys;

#define OPTION_NAMESPACE                                                                           \
    {                                                                                              \
        .name = "namespace", .kind = CLI_TEXT, .value = "HEX64",                                   \
        .help = "32 bytes that fingerprint the model (default: zeros)"                             \
    }

/* Whitespace-separated token ids of a file, "-" is standard input, with --namespace, --block-tokens
 * and --salt-file of the verb. Says what is wrong; to be freed anyway. */
int token_keys_read(cli *c, const char *file, token_keys *out);
void token_keys_free(token_keys *keys);

#endif
