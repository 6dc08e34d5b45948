/* skymem get: the value of a key, from the nearest tier that has it. */
#include "key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ask for the size, then for the bytes; once more when the value grew in between. */
static sky_status get_value(const cli_store *store, const cli_key *key, const sky_call *call,
                            cli_blob *value, uint8_t *tier, uint64_t *version) {
    sky_status status = SKY_MISS;
    for (int attempt = 0; attempt < 3; attempt++) {
        sky_item has = {.key = key->key};
        status = cli_one(store, SKY_OP_HAS, &has, call);
        if (status != SKY_OK)
            return status;
        sky_span span = {malloc(has.bytes ? has.bytes : 1), has.bytes};
        if (!span.data)
            return SKY_E_NOMEM;
        sky_item get = cli_key_item(key);
        get.spans = &span;
        get.span_count = 1;
        status = cli_one(store, SKY_OP_GET, &get, call);
        if (status == SKY_OK) {
            *value = (cli_blob){span.data, get.bytes};
            *tier = get.tier;
            *version = get.version;
            return SKY_OK;
        }
        free(span.data);
        if (status != SKY_E_DST_SMALL)
            break;
    }
    return status;
}

/* Past stdio, which forgets why a large value could not be written. */
static int print_value(const cli *c, const cli_blob *value) {
    const uint8_t *from = value->data;
    for (size_t left = value->bytes; left > 0;) {
        ssize_t wrote = write(STDOUT_FILENO, from, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return cli_failed(c, "standard output: %s", strerror(errno));
        from += wrote;
        left -= (size_t)wrote;
    }
    return CLI_OK;
}

/* NULL: standard output, which - stands for too. */
static const char *output_file(cli *c) {
    const char *file = cli_text(c, "output");
    return file && strcmp(file, "-") == 0 ? NULL : file;
}

static int get_deliver(cli *c, const cli_store *store, const cli_key *key, const cli_blob *value,
                       uint8_t tier, uint64_t version, double ms) {
    const char *file = output_file(c);
    char size[24];
    if (!file)
        return print_value(c, value);
    int code = cli_file_write(c, file, value->data, value->bytes);
    if (code != CLI_OK)
        return code;
    if (c->json)
        return cli_json_print(c, json_pack("{s:s, s:I, s:s, s:I, s:f}", "key", key->shown, "bytes",
                                           (json_int_t)value->bytes, "tier",
                                           cli_store_tier(store, tier), "version",
                                           (json_int_t)version, "ms", ms));
    printf("%s: %s from %s in %.1f ms, written to %s\n", key->shown,
           cli_bytes_text(value->bytes, size), cli_store_tier(store, tier), ms, file);
    return CLI_OK;
}

static int get_run(cli *c) {
    cli_store store = {0};
    cli_blob value = {0};
    cli_key key;
    uint8_t tier = SKY_TIER_NONE;
    uint64_t version = 0;
    if (c->json && !output_file(c))
        return cli_usage(c, "--json needs -o FILE, because the value takes standard output");
    int code = cli_key_parse(c, c->arguments[0], &key);
    if (code != CLI_OK)
        return code;
    sky_call call = {0};
    if (cli_given(c, "deadline-ms"))
        call.deadline_ns = sky_now() + (sky_time)(cli_number(c, "deadline-ms") * 1e6);
    code = cli_store_open_by(c, call.deadline_ns, &store);
    if (code == CLI_OK) {
        sky_time start = sky_now();
        sky_status status = get_value(&store, &key, &call, &value, &tier, &version);
        double ms = cli_ms(sky_now() - start);
        code = cli_key_failed(c, &store, SKY_TIER_NONE, &key, status);
        if (code == CLI_OK || code == CLI_NOT_FOUND) /* else the reason was said */
            cli_note_edited(c, &store);
        if (code == CLI_OK)
            code = get_deliver(c, &store, &key, &value, tier, version, ms);
    }
    cli_store_close(&store);
    cli_blob_free(&value);
    cli_key_free(&key);
    return code;
}

const cli_verb cli_verb_get = {
    .name = "get",
    .summary = "Print the value of a key",
    .synopsis = "KEY",
    .about = "The bytes go to standard output as they were put, or to a file with -o.\n"
             "--deadline-ms covers what other hosts (skymem:) take to be reached.",
    .settings = CLI_SET_KEYS | CLI_SET_DEADLINE,
    .options =
        (const cli_option[]){
            {.name = "output",
             .kind = CLI_PATH,
             .letter = 'o',
             .value = "FILE",
             .help = "write the value to FILE; -: to standard output"},
            CLI_OPTION_AS,
            {.name = NULL},
        },
    .arguments_min = 1,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem get greeting", "print it"},
            {"skymem get weights/7 -o layer7.bin --json", "to a file, and say where it came from"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"key", "the key"},
            {"bytes", "size of the value"},
            {"tier", "name of the tier that answered"},
            {"version", "of the value, where that tier keeps versions: for --if-version; else 0"},
            {"ms", "time it took, the opening of the store apart"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key, or what it had was damaged",
    .unavailable = true,
    .run = get_run,
};
