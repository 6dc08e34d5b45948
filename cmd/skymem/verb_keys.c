/* skymem keys: the block keys of a prompt given as token ids. */
#include "tokens.h"

#include <string.h>

static int keys_print(cli *c, const sky_namespace *ns, const sky_key *keys, size_t count,
                      size_t tail) {
    char hex[65], count_text[CLI_COUNT_TEXT_BYTES];
    uint32_t block_tokens = (uint32_t)cli_count(c, "block-tokens");
    if (!c->json) {
        for (size_t i = 0; i < count; i++) {
            sky_key_hex(&keys[i], hex);
            printf("%s  tokens %zu to %zu\n", hex, i * block_tokens,
                   (i + 1) * (size_t)block_tokens - 1);
        }
        if (tail || !count)
            printf("%s no block\n", cli_count_text(tail, "token at the end fills",
                                                   "tokens at the end fill", count_text));
        return CLI_OK;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        sky_key_hex(&keys[i], hex);
        json_array_append_new(list, json_string(hex));
    }
    sky_key shown;
    memcpy(shown.bytes, ns->bytes, sizeof shown.bytes);
    sky_key_hex(&shown, hex);
    return cli_json_print(c, json_pack("{s:s, s:I, s:o, s:I}", "namespace", hex, "block_tokens",
                                       (json_int_t)block_tokens, "keys", list, "tail_tokens",
                                       (json_int_t)tail));
}

static int keys_run(cli *c) {
    token_keys k;
    int code = token_keys_read(c, c->argument_count ? c->arguments[0] : "-", &k);
    if (code == CLI_OK)
        code = keys_print(c, &k.ns, k.keys, k.count, k.tail);
    token_keys_free(&k);
    return code;
}

const cli_verb cli_verb_keys = {
    .name = "keys",
    .summary = "Print the block keys of a prompt",
    .synopsis = "[FILE]",
    .about = "FILE, or standard input, holds token ids separated by blanks. Each whole block of "
             "them has a key.\n"
             "The key of a block is BLAKE2b-256, keyed with the namespace, over the key of the "
             "block before and the tokens of the block as 32-bit little-endian numbers. The key "
             "before the first block is 32 zero bytes.\n"
             "With --salt-file the namespace is salted first: it becomes BLAKE2b-256, keyed with "
             "the salt, of \"skymem salt\" and the namespace. The namespace that run prints is "
             "salted already.",
    .settings = CLI_SET_BLOCK_TOKENS | CLI_SET_SALT,
    .options =
        (const cli_option[]){
            OPTION_NAMESPACE,
            {.name = NULL},
        },
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"seq 0 299 | skymem keys", "two keys; 44 tokens are left over"},
            {"skymem keys --block-tokens 4 --json tokens.txt", "from a file, as JSON"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"namespace", "64 hexadecimal digits, salted"},
            {"block_tokens", "tokens of a block"},
            {"keys", "one of 64 hexadecimal digits for each whole block"},
            {"tail_tokens", "tokens at the end that fill no block"},
            {NULL, NULL},
        },
    .run = keys_run,
};
