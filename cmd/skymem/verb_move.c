/* skymem move: bring entries from one tier to another. */
#include "inside.h"
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cli *c;
    cli_store store;
    cli_entries entries;
    cli_prompts prompts;
    size_t to;
    uint64_t moved, bytes;
    size_t away; /* SKY_TIER_NONE, or the last that did not answer what was asked of it */
    json_t *missing, *unknown;
} moving;

/* ---- one entry ---- */

static sky_status run_in(const moving *m, uint32_t tiers, sky_op op, sky_item *item) {
    const sky_call call = {.tiers = tiers, .durable = op != SKY_OP_GET, .no_touch = true};
    return cli_one(&m->store, op, item, &call);
}

/* The tier that has it, the target last; SKY_TIER_NONE: none has. *has: what that said. *unknown: a
 * tier did not answer. */
static size_t find_source(moving *m, const sky_key *key, sky_item *has, bool *unknown) {
    *unknown = false;
    for (size_t i = 0; i <= m->store.tier_count; i++) {
        size_t tier = i < m->store.tier_count ? i : m->to;
        if (i == m->to)
            continue;
        *has = (sky_item){.key = *key};
        sky_status status = run_in(m, 1u << tier, SKY_OP_HAS, has);
        if (status == SKY_OK)
            return tier;
        *unknown |= status == SKY_E_UNAVAILABLE;
        m->away = status == SKY_E_UNAVAILABLE ? tier : m->away;
    }
    return SKY_TIER_NONE;
}

/* Read it from a tier and put it into the target. */
static sky_status copy_value(const moving *m, size_t from, sky_item *item, uint64_t bytes) {
    sky_span span = {malloc(bytes + 1), bytes};
    if (!span.data)
        return SKY_E_NOMEM;
    item->spans = &span;
    item->span_count = 1;
    sky_status status = run_in(m, 1u << from, SKY_OP_GET, item);
    const sky_call call = {
        .tiers = 1u << m->to, .durable = true, .ttl_s = item->ttl_s, .coding = item->coding};
    span.bytes = item->bytes;
    if (status == SKY_OK)
        status = cli_one(&m->store, SKY_OP_PUT, item, &call);
    free(span.data);
    return status;
}

/* Unsaid: CLI_NOT_FOUND, no tier has it; CLI_UNAVAILABLE, one that may have it is away. */
static int copy_entry(moving *m, sky_item *item) {
    sky_item has;
    char why[CLI_WHY_BYTES];
    bool unknown;
    size_t from = find_source(m, &item->key, &has, &unknown);
    if (from == SKY_TIER_NONE)
        return unknown ? CLI_UNAVAILABLE : CLI_NOT_FOUND;
    m->moved++;
    m->bytes += has.bytes;
    if (from == m->to)
        return CLI_OK;
    sky_status status = copy_value(m, from, item, has.bytes);
    if (status == SKY_OK && has.pinned)
        status = run_in(m, 1u << m->to, SKY_OP_PIN, &(sky_item){.key = item->key});
    if (status == SKY_OK)
        return CLI_OK;
    cli_tier_says(&m->store, m->to, status, why, sizeof why);
    return cli_failed(m->c, "%s; nothing was removed", why);
}

static int drop_elsewhere(moving *m, const sky_key *key) {
    char why[CLI_WHY_BYTES];
    for (size_t tier = 0; tier < m->store.tier_count; tier++) {
        sky_item item = {.key = *key};
        sky_status status = tier == m->to ? SKY_OK : run_in(m, 1u << tier, SKY_OP_REMOVE, &item);
        m->away = status == SKY_E_UNAVAILABLE ? tier : m->away;
        if (status == SKY_OK || status == SKY_MISS || status == SKY_E_UNAVAILABLE)
            continue;
        cli_tier_says(&m->store, tier, status, why, sizeof why);
        return cli_failed(m->c, "%s; copies elsewhere than in %s were left", why,
                          m->store.names[m->to]);
    }
    return CLI_OK;
}

/* ---- what goes along ---- */

/* Whether the entry, a block, hangs below the key. */
static bool is_below(const moving *m, size_t entry, const sky_key *key) {
    for (size_t i = m->prompts.links[entry].parent; i != CLI_NO_ENTRY;
         i = m->prompts.links[i].parent)
        if (sky_key_equal(&m->entries.entries[i].key, key))
            return true;
    return false;
}

static sky_key parent_of(const moving *m, const sky_key *key) {
    for (size_t i = 0; i < m->entries.count; i++)
        if (sky_key_equal(&m->entries.entries[i].key, key))
            return m->entries.entries[i].parent;
    return (sky_key){{0}};
}

/* The blocks below a block: where a block is removed, they go too. */
static int copy_below(moving *m, const sky_key *key) {
    int code = CLI_OK;
    for (size_t i = 0; i < m->entries.count && code == CLI_OK; i++) {
        const cli_entry *e = &m->entries.entries[i];
        bool again = i > 0 && sky_key_equal(&e->key, &m->entries.entries[i - 1].key);
        if (!e->block || again || !is_below(m, i, key))
            continue;
        sky_item item = {.key = e->key, .parent = e->parent};
        code = copy_entry(m, &item);
        if (code == CLI_NOT_FOUND || code == CLI_UNAVAILABLE) /* evicted meanwhile, or away */
            code = CLI_OK;
    }
    return code;
}

static int move_key(moving *m, const char *text) {
    cli_key key;
    int code = cli_key_parse(m->c, text, &key);
    if (code != CLI_OK)
        return code;
    sky_item item = cli_key_item(&key);
    item.parent = key.name_bytes ? item.parent : parent_of(m, &key.key);
    code = copy_entry(m, &item);
    if (code == CLI_OK && key.name_bytes == 0)
        code = copy_below(m, &key.key);
    if (code == CLI_NOT_FOUND || code == CLI_UNAVAILABLE) {
        json_array_append_new(code == CLI_NOT_FOUND ? m->missing : m->unknown,
                              json_string(key.shown));
        code = CLI_OK;
    } else if (code == CLI_OK && !cli_flag(m->c, "copy")) {
        code = drop_elsewhere(m, &key.key);
    }
    cli_key_free(&key);
    return code;
}

static int report_move(const moving *m) {
    size_t missing = json_array_size(m->missing), unknown = json_array_size(m->unknown);
    char size[24], count[CLI_COUNT_TEXT_BYTES], why[CLI_WHY_BYTES];
    int code = CLI_OK;
    if (m->c->json)
        code = cli_json_print(m->c, json_pack("{s:s, s:I, s:I, s:O, s:O}", "to",
                                              m->store.names[m->to], "moved", (json_int_t)m->moved,
                                              "bytes", (json_int_t)m->bytes, "missing", m->missing,
                                              "unknown", m->unknown));
    else
        printf("%s in %s, %s; %zu not found\n", cli_count_text(m->moved, "entry", "entries", count),
               m->store.names[m->to], cli_bytes_text(m->bytes, size), missing + unknown);
    if (code == CLI_OK && m->away != SKY_TIER_NONE) {
        cli_tier_says(&m->store, m->away, SKY_E_UNAVAILABLE, why, sizeof why);
        return cli_unavailable(m->c, "incomplete: %s", why);
    }
    return code == CLI_OK && missing > 0 ? CLI_NOT_FOUND : code;
}

static int move_run(cli *c) {
    moving m = {.c = c, .away = SKY_TIER_NONE, .missing = json_array(), .unknown = json_array()};
    int code = cli_given(c, "to") ? inside_open(c, &m.store)
                                  : cli_usage(c, "--to TIER says where the entries go");
    if (code == CLI_OK) {
        m.to = inside_tier(c, &m.store, "to", cli_text(c, "to"));
        code = m.to == SKY_TIER_NONE ? CLI_USAGE : CLI_OK;
    }
    if (code == CLI_OK)
        code = cli_entries_read(c, &m.store, &m.entries);
    if (code == CLI_OK)
        code = cli_prompts_find(c, &m.store, &m.entries, &m.prompts);
    for (size_t i = 0; i < c->argument_count && code == CLI_OK; i++)
        code = move_key(&m, c->arguments[i]);
    if (code == CLI_OK)
        code = report_move(&m);
    cli_prompts_free(&m.prompts);
    cli_entries_free(&m.entries);
    cli_store_close(&m.store);
    json_decref(m.missing);
    json_decref(m.unknown);
    return code;
}

const cli_verb cli_verb_move = {
    .name = "move",
    .summary = "Bring entries from one tier to another",
    .synopsis = "KEY...",
    .about =
        "Each value is stored in the tier that --to names, with its pin and its time to live, and "
        "then removed from the others. With a prompt's block all blocks behind it go along. Of a "
        "skymemd (--store shm:SOCKET) the tiers are its own; with several --store they are these.\n"
        "A tier is named by its scheme, a second of the same scheme is disk-2, as skymem health "
        "lists them. prefetch brings values to the nearest tier and leaves the others as they are.",
    .settings = CLI_SET_KEYS,
    .makes_folders = true,
    .options =
        (const cli_option[]){
            CLI_OPTION_AS,
            {.name = "to", .kind = CLI_TEXT, .value = "TIER", .help = "where they go: mem, disk"},
            {.name = "copy", .kind = CLI_FLAG, .help = "leave them in the other tiers too"},
            {.name = NULL},
        },
    .arguments_min = 1,
    .arguments_max = CLI_ARGUMENTS_MANY,
    .examples =
        (const cli_example[]){
            {"skymem move report --to disk --store shm:/run/skymemd.sock",
             "out of a daemon's memory"},
            {"skymem move a b --to disk-2 --store disk:/nvme/cache --store disk:/mnt/archive",
             "to the archive"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"to", "the tier"},
            {"moved", "entries that are there now, blocks behind a block counted"},
            {"bytes", "their size"},
            {"missing", "keys that no tier has"},
            {"unknown", "keys of which nothing is known, as a store that may have them is away"},
            {NULL, NULL},
        },
    .not_found = "no tier has one of the keys; the others were moved",
    .unavailable = true,
    .run = move_run,
};
