/* skymem ls: what the tiers hold. */
#include "entries.h"

#include <string.h>

static int ls_print(const cli *c, const cli_store *store, const cli_entries *e) {
    cli_table table = {.columns = "lrlrrl"};
    if (!c->json)
        cli_entry_head(&table);
    for (size_t i = 0; i < e->count; i++) {
        if (c->json) {
            int code = cli_json_print(c, cli_entry_json(store, &e->entries[i]));
            if (code != CLI_OK)
                return code;
        } else {
            cli_entry_row(&table, store, &e->entries[i]);
        }
    }
    if (!c->json)
        cli_table_print(&table, stdout);
    return CLI_OK;
}

static int ls_run(cli *c) {
    cli_store store = {0};
    cli_entries entries = {0};
    if (c->argument_count > 0) {
        entries.prefix = c->arguments[0];
        entries.prefix_bytes = strlen(c->arguments[0]);
    }
    int code = cli_store_open(c, &store);
    if (code == CLI_OK)
        code = cli_entries_read(c, &store, &entries);
    if (code == CLI_OK)
        code = ls_print(c, &store, &entries);
    if (code == CLI_OK)
        cli_note_unlisted(c, &store);
    cli_entries_free(&entries);
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_ls = {
    .name = "ls",
    .summary = "List what the tiers hold",
    .synopsis = "[PREFIX]",
    .about = "Values stored with put are listed under their names, blocks of a prompt under the 64 "
             "digits of their keys. PREFIX keeps those that begin with it.\n"
             "Real satellites (sky+udp:) cannot be listed: they answer for a key, see stat KEY.",
    .settings = CLI_SET_STORE,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem ls", "everything in the default tiers"},
            {"skymem ls weights/ --store disk:/mnt/cache --json", "one JSON object an entry"},
            {NULL, NULL},
        },
    .json_lines = true,
    .fields =
        (const cli_field[]){
            {"key", "name, bytes that do not print as \\xHH; of a block its key"},
            {"bytes", "size of the value"},
            {"tier", "the tier that holds this copy"},
            {"age_s", "seconds since it was set"},
            {"hits", "how often it was read"},
            {"pinned", "whether it is kept from eviction; of real satellites, whether this process "
                       "had it kept"},
            {"level",
             "of a block that is kept coded: at which level; one kept at several is listed "
             "at each"},
            {NULL, NULL},
        },
    .not_found = "the folder of the only store is not there",
    .run = ls_run,
};
