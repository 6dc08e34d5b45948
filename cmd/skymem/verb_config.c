/* skymem config: every setting in force, and where it came from. */
#include "cli.h"

#include <string.h>

static void origin_text(const cli *c, const cli_value *v, char *out, size_t out_bytes) {
    char name[64];
    switch (v->origin) {
    case CLI_FROM_FLAG:
        snprintf(out, out_bytes, "--%s", v->option->name);
        return;
    case CLI_FROM_ENVIRONMENT:
        for (size_t i = 0; i <= strlen(v->option->name); i++)
            name[i] = v->option->name[i] == '-' ? '_' : (char)(v->option->name[i] & ~0x20);
        snprintf(out, out_bytes, "SKYMEM_%s", name);
        return;
    case CLI_FROM_FILE:
        snprintf(out, out_bytes, "%s:%u", c->config_path, v->line);
        return;
    case CLI_FROM_DEFAULT:
        snprintf(out, out_bytes, "default");
        return;
    }
}

/* A value typed as JSON would have it: numbers as numbers, the store as a list, none as null. */
static json_t *value_json(const cli_value *v) {
    if (v->count == 0)
        return json_null();
    if (v->option->kind == CLI_COUNT)
        return json_integer((json_int_t)v->whole);
    if (v->option->kind == CLI_NUMBER)
        return json_real(v->number);
    if (v->option->kind != CLI_LIST)
        return cli_json_text(v->texts[0]);
    json_t *list = json_array();
    for (size_t i = 0; i < v->count; i++)
        json_array_append_new(list, cli_json_text(v->texts[i]));
    return list;
}

/* The name as the file and all JSON write it: block_tokens. */
static const char *key_of(const char *name, char out[64]) {
    snprintf(out, 64, "%s", name);
    for (char *p = out; *p; p++)
        *p = *p == '-' ? '_' : *p;
    return out;
}

static int config_run(cli *c) {
    char origin[4200], key[64];
    json_t *object = json_object();
    cli_table table = {.columns = "lll"};
    cli_table_cell(&table, "SETTING");
    cli_table_cell(&table, "VALUE");
    cli_table_cell(&table, "FROM");
    for (const cli_option *o = cli_settings; o->name; o++) {
        const cli_value *v = cli_find(c, o->name);
        origin_text(c, v, origin, sizeof origin);
        json_object_set_new(
            object, key_of(o->name, key),
            json_pack("{s:o, s:o}", "value", value_json(v), "from", cli_json_text(origin)));
        for (size_t i = 0; i < (v->count ? v->count : 1); i++) {
            cli_table_cell(&table, "%s", i ? "" : o->name);
            cli_table_cell(&table, "%s", v->count ? v->texts[i] : "none");
            cli_table_cell(&table, "%s", i ? "" : origin);
        }
    }
    if (c->json) {
        cli_table_free(&table);
        return cli_json_print(c, object);
    }
    json_decref(object);
    cli_table_print(&table, stdout);
    printf("\nskymem codec has a --level of its own: 4 unless given\n");
    return CLI_OK;
}

const cli_verb cli_verb_config = {
    .name = "config",
    .summary = "Show the settings in force and where each came from",
    .synopsis = "",
    .about = "Strongest first: the command line, SKYMEM_NAME in the environment, the file of "
             "--config or $XDG_CONFIG_HOME/skymem/config.yaml, defaults.\n"
             "SKYMEM_BLOCK_TOKENS stands for --block-tokens, and so on. SKYMEM_STORE holds URLs "
             "separated by blanks. A path, in a URL too, may begin with ~/. The file is a YAML "
             "mapping with _ for -:\n"
             "store: [mem:1GiB, \"disk:/mnt/cache?max=100GiB\"]\n"
             "model: /models/gemma.gguf",
    .settings = CLI_SET_ALL,
    .examples =
        (const cli_example[]){
            {"skymem config", "what holds here"},
            {"SKYMEM_THREADS=2 skymem config --json", "the environment wins over the file"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"store", "an object {value, from}, and so for every setting by its name in the file"},
            {NULL, NULL},
        },
    .run = config_run,
};
