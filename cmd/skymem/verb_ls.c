/* skymem ls: what the tiers hold. */
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

#define KEY_SHOWN 12 /* digits of a prompt's key in the table */

typedef struct {
    const cli *c;
    const cli_store *store;
    const cli_entries *e;
    const cli_prompts *p;
} listing;

static bool is_pinned(const listing *l, size_t entry) {
    bool pinned = false;
    for (; entry != CLI_NO_ENTRY; entry = l->p->links[entry].parent)
        pinned |= l->e->entries[entry].pinned;
    return pinned;
}

/* The last block's line, and what all blocks have together. */
static json_t *prompt_json(const listing *l, size_t entry) {
    const cli_link *link = &l->p->links[entry];
    const json_t *record = cli_prompt_record(l->p, l->e, entry);
    const char *model = cli_prompt_model(l->p, l->e, entry);
    uint64_t tokens = cli_prompt_tokens(l->p, l->e, entry);
    json_t *object = cli_entry_json(l->store, &l->e->entries[entry]);
    json_object_del(object, "parent");
    json_object_set_new(object, "bytes", json_integer((json_int_t)link->chain_bytes));
    json_object_set_new(object, "pinned", json_boolean(is_pinned(l, entry)));
    json_object_set_new(object, "blocks", json_integer((json_int_t)link->depth));
    json_object_set_new(object, "tokens", tokens ? json_integer((json_int_t)tokens) : json_null());
    json_object_set_new(object, "model", model ? json_string(model) : json_null());
    json_t *words = json_object_get(record, "words");
    if (words)
        json_object_set(object, "words", words);
    return object;
}

static void prompt_head(cli_table *t) {
    static const char *const head[] = {"PROMPT", "MODEL", "TOKENS", "BLOCKS", "SIZE", "TIER",
                                       "AGE",    "USED",  "PINNED", "EVICT",  "WORDS"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(t, "%s", head[i]);
}

static void prompt_row(cli_table *t, const listing *l, size_t entry) {
    const cli_entry *last = &l->e->entries[entry];
    const char *model = cli_prompt_model(l->p, l->e, entry);
    const char *words = json_string_value(
        json_object_get(cli_prompt_record(l->p, l->e, entry), "words"));
    uint64_t tokens = cli_prompt_tokens(l->p, l->e, entry);
    char size[24], age[24], used[24];
    char *shown = words ? cli_escape(words, strlen(words)) : NULL;
    cli_table_cell(t, "%.*s", KEY_SHOWN, last->shown);
    cli_table_cell(t, "%s", model ? model : "not known");
    if (tokens)
        cli_table_cell(t, "%llu", (unsigned long long)tokens);
    else
        cli_table_cell(t, "?");
    cli_table_cell(t, "%zu", l->p->links[entry].depth);
    cli_table_cell(t, "%s", cli_bytes_text(l->p->links[entry].chain_bytes, size));
    cli_table_cell(t, "%s%s%s", cli_store_tier(l->store, last->tier), last->level ? ", level " : "",
                   last->level ? last->level : "");
    cli_table_cell(t, "%s", cli_age_text(last->age_s, age));
    cli_table_cell(t, "%s", cli_age_text(last->used_s, used));
    cli_table_cell(t, "%s", is_pinned(l, entry) ? "yes" : "");
    cli_table_cell(t, "%s", cli_entry_evict(last));
    cli_table_cell(t, "%s", shown ? shown : "");
    free(shown);
}

/* Of the grouped list: the last blocks of prompts, and values of the user's. */
static bool is_listed(const listing *l, size_t entry, const char *prefix) {
    const cli_entry *at = &l->e->entries[entry];
    return strncmp(at->shown, prefix, strlen(prefix)) == 0 &&
           (at->block ? cli_prompt_ends(l->p, entry) : !cli_is_record(at));
}

static int print_json(const listing *l, const char *prefix, bool blocks) {
    int code = CLI_OK;
    for (size_t i = 0; i < l->e->count && code == CLI_OK; i++)
        if (blocks)
            code = cli_json_print(l->c, cli_entry_json(l->store, &l->e->entries[i]));
        else if (is_listed(l, i, prefix))
            code = cli_json_print(l->c, l->e->entries[i].block
                                            ? prompt_json(l, i)
                                            : cli_entry_json(l->store, &l->e->entries[i]));
    return code;
}

static void print_people(const listing *l, const char *prefix, bool blocks) {
    cli_table prompts = {.columns = "llrrrlrrlll"}, values = {.columns = CLI_ENTRY_COLUMNS};
    size_t prompt_count = 0, value_count = 0;
    prompt_head(&prompts);
    cli_entry_head(&values);
    for (size_t i = 0; i < l->e->count; i++) {
        bool listed = blocks || is_listed(l, i, prefix);
        if (listed && (blocks || !l->e->entries[i].block)) {
            cli_entry_row(&values, l->store, &l->e->entries[i]);
            value_count++;
        } else if (listed) {
            prompt_row(&prompts, l, i);
            prompt_count++;
        }
    }
    if (prompt_count > 0)
        cli_table_print(&prompts, stdout);
    if (prompt_count > 0 && value_count > 0)
        putchar('\n');
    if (value_count > 0 || prompt_count == 0)
        cli_table_print(&values, stdout);
    cli_table_free(&prompts);
    cli_table_free(&values);
}

static int list_entries(cli *c, const cli_store *store, cli_entries *entries) {
    const char *prefix = c->argument_count > 0 ? c->arguments[0] : "";
    bool blocks = cli_flag(c, "blocks");
    cli_prompts prompts = {0};
    if (blocks) { /* which prompts they make up is of no interest */
        entries->prefix = prefix;
        entries->prefix_bytes = strlen(prefix);
    }
    int code = cli_entries_read(c, store, entries);
    if (code == CLI_OK)
        code = cli_prompts_find(c, store, entries, &prompts);
    const listing l = {c, store, entries, &prompts};
    if (code == CLI_OK && c->json)
        code = print_json(&l, prefix, blocks);
    else if (code == CLI_OK)
        print_people(&l, prefix, blocks);
    cli_prompts_free(&prompts);
    return code;
}

static int ls_run(cli *c) {
    cli_store store = {0};
    cli_entries entries = {0};
    int code = cli_store_open(c, &store);
    if (code == CLI_OK)
        code = list_entries(c, &store, &entries);
    if (code == CLI_OK)
        cli_note_unlisted(c, &store);
    if (code == CLI_OK)
        code = cli_entries_end(c, &store, &entries);
    cli_entries_free(&entries);
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_ls = {
    .name = "ls",
    .summary = "List what the tiers hold",
    .synopsis = "[PREFIX]",
    .about =
        "Values stored with put are listed under their names, prompts under the first digits of "
        "their last block's key (--json has all of them). Prompts that begin alike share blocks, "
        "so their sizes may add up "
        "to more than the tiers hold. The model and the tokens are known of what skymem run saved "
        "on disk; the first words only where it was told --keep-words. PREFIX keeps names and "
        "keys that begin with it.\n"
        "SALTED marks a value that was stored under a salt: get, stat and rm find it with the same "
        "--salt-file alone. The keys of prompts do not show whether there is a salt.\n"
        "Real satellites (sky+udp:) cannot be listed: they answer for a key, see stat KEY.",
    .settings = CLI_SET_STORE,
    .options = (const cli_option[]){{.name = "blocks",
                                     .kind = CLI_FLAG,
                                     .help = "list every block by its key, not prompts"},
                                    {.name = NULL}},
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem ls", "everything in the default tiers"},
            {"skymem ls weights/ --store disk:~/.cache/skymem --json", "one JSON object an entry"},
            {"skymem ls --blocks", "the keys of all blocks"},
            {NULL, NULL},
        },
    .json_lines = true,
    .fields =
        (const cli_field[]){
            {"key", "name, bytes that do not print as \\xHH; of a prompt its last block's key"},
            {"bytes", "size of the value, or of all blocks of the prompt"},
            {"tier", "the tier that holds this copy"},
            {"age_s", "seconds since it was set"},
            {"used_s", "seconds since it was last set or read, where the tier keeps that"},
            {"hits", "how often it was read"},
            {"pinned",
             "whether it is kept from eviction; null: not known, of real satellites, which "
             "tell only the process that pinned it"},
            {"evict",
             "soon or last, its class as put --evict has it; of a prompt its last block's; "
             "not there of a normal one"},
            {"salted", "true of a value that was stored under a salt, else not there"},
            {"level",
             "of a block that is kept coded: at which level; one kept at several is listed "
             "at each"},
            {"parent", "of a block, with --blocks: the key of the block before it"},
            {"blocks, tokens, model", "of a prompt; null where it is not known"},
            {"words", "of a prompt whose first words were kept"},
            {NULL, NULL},
        },
    .failed = "a tier does not answer or cannot be read (the others are listed all the same)",
    .not_found = "the folder of the only store is not there",
    .run = ls_run,
};
