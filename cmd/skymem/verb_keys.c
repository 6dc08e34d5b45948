/* skymem keys: the block keys of a prompt given as token ids. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static bool blank(char ch) {
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

static int no_token(const cli *c, const char *file, size_t line, const char *word,
                    const char *end) {
    size_t bytes = 0;
    while (bytes < 20 && word + bytes < end && !blank(word[bytes]))
        bytes++;
    char *shown = cli_escape(word, bytes);
    int code = cli_failed(c,
                          "%s:%zu: \"%s\" is no token id: whole numbers below 2^32, parted by "
                          "blanks",
                          file, line, shown ? shown : "");
    free(shown);
    return code;
}

/* Whitespace-separated token ids; the line of the first wrong one is told. */
static int parse_tokens(const cli *c, const char *file, const cli_blob *in, uint32_t **out,
                        size_t *count) {
    const char *p = in->data, *end = p + in->bytes;
    size_t line = 1;
    uint32_t *tokens = malloc((in->bytes / 2 + 1) * sizeof *tokens);
    if (!tokens)
        return cli_failed(c, "out of memory");
    *out = tokens;
    while (p < end) {
        if (blank(*p)) {
            line += *p++ == '\n';
            continue;
        }
        uint64_t id = 0;
        const char *start = p;
        for (; p < end && *p >= '0' && *p <= '9' && id <= UINT32_MAX; p++)
            id = 10 * id + (uint64_t)(*p - '0');
        if (p == start || id > UINT32_MAX || (p < end && !blank(*p)))
            return no_token(c, file, line, start, end);
        tokens[(*count)++] = (uint32_t)id;
    }
    return CLI_OK;
}

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
    sky_namespace ns = {{0}};
    sky_key parsed;
    const char *given = cli_text(c, "namespace");
    if (given && sky_key_parse(given, &parsed) != SKY_OK)
        return cli_usage(c, "--namespace must be 64 hexadecimal digits");
    if (given)
        memcpy(ns.bytes, parsed.bytes, sizeof ns.bytes);
    uint8_t salt[SKY_SALT_BYTES];
    cli_blob in;
    uint32_t *tokens = NULL, block_tokens = (uint32_t)cli_count(c, "block-tokens");
    size_t count = 0;
    const char *file = c->argument_count ? c->arguments[0] : "-";
    int code = cli_salt(c, salt);
    if (code == CLI_OK)
        code = cli_blob_read(c, file, 1u << 30, &in);
    if (code != CLI_OK)
        return code;
    sky_namespace_salt(&ns, salt);
    code = parse_tokens(c, strcmp(file, "-") == 0 ? "standard input" : file, &in, &tokens, &count);
    if (code == CLI_OK) {
        size_t blocks = count / block_tokens;
        sky_key *keys = calloc(blocks + 1, sizeof *keys);
        if (keys) {
            sky_block_keys(&ns, tokens, count, block_tokens, keys, blocks);
            code = keys_print(c, &ns, keys, blocks, count % block_tokens);
        } else {
            code = cli_failed(c, "out of memory");
        }
        free(keys);
    }
    free(tokens);
    cli_blob_free(&in);
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
            {.name = "namespace",
             .kind = CLI_TEXT,
             .value = "HEX64",
             .help = "32 bytes that fingerprint the model (default: zeros)"},
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
