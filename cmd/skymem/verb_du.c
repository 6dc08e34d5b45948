/* skymem du: what takes the room, by tier and by model. */
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

/* What one model has in one tier; the values that belong to none have a NULL model. */
typedef struct {
    const char *model;
    uint8_t tier;
    bool blocks; /* of prompts, else values */
    uint64_t bytes;
    uint64_t entries;
    uint64_t prompts;
} share;

typedef struct {
    share *shares;
    size_t count;
} shares;

static share *share_of(shares *s, const char *model, const cli_entry *entry) {
    for (size_t i = 0; i < s->count; i++) {
        share *at = &s->shares[i];
        if (at->tier == entry->tier && at->blocks == entry->block &&
            strcmp(at->model ? at->model : "", model ? model : "") == 0)
            return at;
    }
    s->shares[s->count] = (share){.model = model, .tier = entry->tier, .blocks = entry->block};
    return &s->shares[s->count++];
}

/* There are at most as many shares as entries. */
static bool count_shares(const cli_entries *e, const cli_prompts *p, shares *out) {
    out->shares = calloc(e->count + 1, sizeof *out->shares);
    for (size_t i = 0; out->shares && i < e->count; i++) {
        const cli_entry *entry = &e->entries[i];
        share *at = share_of(out, entry->block ? cli_prompt_model(p, e, i) : NULL, entry);
        at->bytes += entry->bytes;
        at->entries++;
        at->prompts += cli_prompt_ends(p, i);
    }
    return out->shares != NULL;
}

static json_t *models_json(const shares *s, size_t tier, uint64_t *prompts) {
    json_t *models = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const share *at = &s->shares[i];
        if (at->tier != tier || !at->blocks)
            continue;
        *prompts += at->prompts;
        json_array_append_new(models,
                              json_pack("{s:o, s:I, s:I, s:I}", "model",
                                        at->model ? json_string(at->model) : json_null(), "bytes",
                                        (json_int_t)at->bytes, "blocks", (json_int_t)at->entries,
                                        "prompts", (json_int_t)at->prompts));
    }
    return models;
}

static json_int_t count_of(const cli_store *store, size_t tier, sky_metric_id metric) {
    return (json_int_t)sky_cache_metric(store->cache, tier, metric);
}

static int du_json(const cli *c, const cli_store *store, const shares *s) {
    json_t *tiers = json_array();
    for (size_t t = 0; t < store->tier_count; t++) {
        sky_tier_stat stat = {0};
        uint64_t prompts = 0;
        sky_cache_stat(store->cache, t, &stat);
        json_t *models = models_json(s, t, &prompts);
        json_array_append_new(tiers,
                              json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:o}", "name",
                                        store->names[t], "url", cli_json_text(stat.url), "bytes",
                                        count_of(store, t, SKY_METRIC_TIER_BYTES_USED), "bytes_max",
                                        count_of(store, t, SKY_METRIC_TIER_BYTES_MAX), "entries",
                                        count_of(store, t, SKY_METRIC_TIER_ENTRIES), "prompts",
                                        (json_int_t)prompts, "models", models));
    }
    return cli_json_print(c, json_pack("{s:o}", "tiers", tiers));
}

static void share_row(cli_table *t, const share *at) {
    char size[24];
    cli_table_cell(t, "  %s", !at->blocks ? "values" : at->model ? at->model : "model not known");
    cli_table_cell(t, "%s", cli_bytes_text(at->bytes, size));
    cli_table_cell(t, "%s", "");
    cli_table_cell(t, "%llu", (unsigned long long)at->entries);
    if (at->blocks)
        cli_table_cell(t, "%llu", (unsigned long long)at->prompts);
    else
        cli_table_cell(t, "%s", "");
}

static void du_people(const cli_store *store, const shares *s) {
    static const char *const head[] = {"WHERE", "SIZE", "OF", "ENTRIES", "PROMPTS"};
    cli_table table = {.columns = "lrrrr"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&table, "%s", head[i]);
    for (size_t t = 0; t < store->tier_count; t++) {
        sky_tier_stat stat = {0};
        char used[24], max[24];
        sky_cache_stat(store->cache, t, &stat);
        cli_table_cell(&table, "%s", stat.url);
        cli_table_cell(
            &table, "%s",
            cli_bytes_text((uint64_t)count_of(store, t, SKY_METRIC_TIER_BYTES_USED), used));
        cli_table_cell(
            &table, "%s",
            cli_bytes_text((uint64_t)count_of(store, t, SKY_METRIC_TIER_BYTES_MAX), max));
        cli_table_cell(&table, "%lld", (long long)count_of(store, t, SKY_METRIC_TIER_ENTRIES));
        cli_table_cell(&table, "%s", "");
        for (size_t i = 0; i < s->count; i++)
            if (s->shares[i].tier == t)
                share_row(&table, &s->shares[i]);
    }
    cli_table_print(&table, stdout);
}

static int du_run(cli *c) {
    cli_store store = {0};
    cli_entries entries = {0};
    cli_prompts prompts = {0};
    shares s = {0};
    int code = cli_store_open(c, &store);
    if (code == CLI_OK)
        code = cli_entries_read(c, &store, &entries);
    if (code == CLI_OK)
        code = cli_prompts_find(c, &store, &entries, &prompts);
    if (code == CLI_OK && !count_shares(&entries, &prompts, &s))
        code = cli_failed(c, "out of memory");
    if (code == CLI_OK && c->json)
        code = du_json(c, &store, &s);
    else if (code == CLI_OK)
        du_people(&store, &s);
    if (code == CLI_OK)
        cli_note_unlisted(c, &store);
    if (code == CLI_OK)
        code = cli_entries_end(c, &store, &entries);
    free(s.shares);
    cli_prompts_free(&prompts);
    cli_entries_free(&entries);
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_du = {
    .name = "du",
    .summary = "Show what takes the room, by tier and by model",
    .synopsis = "",
    .about = "A tier's size is what it takes of its medium; below it stand the bytes of the values "
             "and of each model's blocks. A block that several prompts share counts once.\n"
             "Of a daemon (shm:SOCKET or skymem://HOST:PORT) the size is that of its memory, and "
             "entries counts copies: a value in its memory and on its disk is two. The lines below "
             "count each value once. skymem health lists the daemon's tiers one by one.",
    .settings = CLI_SET_STORE,
    .examples =
        (const cli_example[]){
            {"skymem du", "the default tiers"},
            {"skymem du --store disk:~/.cache/skymem --json", "one folder, for a script"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"tiers",
             "per tier name, url, bytes, bytes_max, entries, prompts, and models: per model its "
             "name (null: not known), bytes, blocks, prompts"},
            {NULL, NULL},
        },
    .failed = "a tier does not answer or cannot be read (the others are counted all the same)",
    .not_found = "the folder of the only store is not there",
    .run = du_run,
};
