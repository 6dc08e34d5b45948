#include "tokens.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char ch) {
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

static int refuse_token(const cli *c, const char *file, size_t line, const char *word,
                        const char *end) {
    size_t bytes = 0;
    while (bytes < 20 && word + bytes < end && !is_blank(word[bytes]))
        bytes++;
    char *shown = cli_escape(word, bytes);
    int code = cli_failed(c,
                          "%s:%zu: \"%s\" is no token id: whole numbers below 2^32, parted by "
                          "blanks",
                          file, line, shown ? shown : "");
    free(shown);
    return code;
}

/* Whitespace-separated token ids; the error names the line of the first wrong one. */
static int parse_tokens(const cli *c, const char *file, const cli_blob *in, uint32_t **out,
                        size_t *count) {
    const char *p = in->data, *end = p + in->bytes;
    size_t line = 1;
    uint32_t *tokens = malloc((in->bytes / 2 + 1) * sizeof *tokens);
    if (!tokens)
        return cli_failed(c, "out of memory");
    *out = tokens;
    while (p < end) {
        if (is_blank(*p)) {
            line += *p++ == '\n';
            continue;
        }
        uint64_t id = 0;
        const char *start = p;
        for (; p < end && *p >= '0' && *p <= '9' && id <= UINT32_MAX; p++)
            id = 10 * id + (uint64_t)(*p - '0');
        if (p == start || id > UINT32_MAX || (p < end && !is_blank(*p)))
            return refuse_token(c, file, line, start, end);
        tokens[(*count)++] = (uint32_t)id;
    }
    return CLI_OK;
}

static int namespace_of(cli *c, sky_namespace *out) {
    const char *given = cli_text(c, "namespace");
    uint8_t salt[SKY_SALT_BYTES];
    sky_key parsed;
    *out = (sky_namespace){{0}};
    if (given && sky_key_parse(given, &parsed) != SKY_OK)
        return cli_usage(c, "--namespace must be 64 hexadecimal digits");
    if (given)
        memcpy(out->bytes, parsed.bytes, sizeof out->bytes);
    int code = cli_salt(c, salt);
    if (code == CLI_OK)
        sky_namespace_salt(out, salt);
    return code;
}

int token_keys_read(cli *c, const char *file, token_keys *out) {
    cli_blob in = {0};
    uint32_t *tokens = NULL, block_tokens = (uint32_t)cli_count(c, "block-tokens");
    size_t count = 0;
    *out = (token_keys){0};
    int code = namespace_of(c, &out->ns);
    if (code == CLI_OK)
        code = cli_blob_read(c, file, 1u << 30, &in);
    if (code != CLI_OK)
        return code;
    code = parse_tokens(c, strcmp(file, "-") == 0 ? "standard input" : file, &in, &tokens, &count);
    if (code == CLI_OK) {
        out->count = count / block_tokens;
        out->tail = count % block_tokens;
        out->keys = calloc(out->count + 1, sizeof *out->keys);
        if (out->keys)
            sky_block_keys(&out->ns, tokens, count, block_tokens, out->keys, out->count);
        else
            code = cli_failed(c, "out of memory");
    }
    free(tokens);
    cli_blob_free(&in);
    return code;
}

void token_keys_free(token_keys *keys) {
    free(keys->keys);
}
