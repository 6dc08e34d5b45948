/* Entries of all tiers: see entries.h. */
#include "entries.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double age_of(int64_t set_ms) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)set_ms / 1e3;
    return age > 0 ? age : 0;
}

static bool is_wanted(const cli_entries *e, const sky_entry *entry, const void *text,
                      size_t bytes) {
    if (e->only && !sky_key_equal(&e->only->key, &entry->key))
        return false;
    return bytes >= e->prefix_bytes &&
           (e->prefix_bytes == 0 || memcmp(text, e->prefix, e->prefix_bytes) == 0);
}

/* The salt is a secret, but that there is one shows: the name alone gives another key. */
static bool is_salted(const sky_entry *entry) {
    static const sky_namespace general = {{0}};
    sky_key plain;
    return entry->name &&
           sky_name_key(&general, entry->name, entry->name_bytes, &plain) == SKY_OK &&
           !sky_key_equal(&plain, &entry->key);
}

static bool add_entry(void *context, const sky_entry *entry) {
    cli_entries *e = context;
    char hex[2 * SKY_KEY_BYTES + 1];
    sky_key_hex(&entry->key, hex);
    const void *text = entry->name ? entry->name : hex;
    size_t bytes = entry->name ? entry->name_bytes : strlen(hex);
    if (!is_wanted(e, entry, text, bytes))
        return true;
    if (e->count == e->max) {
        size_t more = e->max ? 2 * e->max : 256;
        cli_entry *entries = realloc(e->entries, more * sizeof *entries);
        if (!entries)
            return !(e->failed = true);
        e->entries = entries;
        e->max = more;
    }
    char *shown = e->only ? strdup(e->only->shown) : cli_escape(text, bytes);
    if (!shown)
        return !(e->failed = true);
    e->entries[e->count++] = (cli_entry){
        .key = entry->key,
        .shown = shown,
        .bytes = entry->bytes,
        .hits = entry->hits,
        .parent = entry->parent,
        .block = entry->name == NULL,
        .age_s = age_of(entry->set_ms),
        .used_s = age_of(entry->used_ms > entry->set_ms ? entry->used_ms : entry->set_ms),
        .tier = entry->tier,
        .level = entry->coding && entry->coding <= SKY_LEVEL_COUNT
                     ? sky_level_name((sky_level)(entry->coding - 1))
                     : NULL,
        .evict = entry->evict,
        .pinned = entry->pinned,
        .salted = is_salted(entry)};
    return true;
}

static int by_key(const void *a, const void *b) {
    const cli_entry *x = a, *y = b;
    int order = strcmp(x->shown, y->shown);
    if (order == 0)
        order = (x->tier > y->tier) - (x->tier < y->tier);
    return order ? order : (x->bytes < y->bytes) - (x->bytes > y->bytes); /* levels fall */
}

int cli_entries_read(const cli *c, const cli_store *store, cli_entries *e) {
    e->left_out = sky_list(store->cache, add_entry, e);
    if (e->failed)
        return cli_failed(c, "out of memory");
    if (e->count)
        qsort(e->entries, e->count, sizeof *e->entries, by_key);
    return CLI_OK;
}

int cli_entries_end(const cli *c, const cli_store *store, const cli_entries *e) {
    char why[CLI_WHY_BYTES];
    if (e->left_out == SKY_OK)
        return CLI_OK;
    cli_failure_says(store, e->left_out, why, sizeof why);
    return cli_failed(c, "incomplete: %s", why);
}

void cli_entries_free(cli_entries *e) {
    while (e->count > 0)
        free(e->entries[--e->count].shown);
    free(e->entries);
}

/* A pin of satellites is seen only by the process that made it. */
static bool pin_is_known(const cli_store *store, const cli_entry *entry) {
    return entry->pinned || !cli_store_is(store, entry->tier, CLI_REAL_SKY);
}

const char *cli_entry_evict(const cli_entry *entry) {
    return entry->evict == SKY_EVICT_SOON ? "soon" : entry->evict == SKY_EVICT_LAST ? "last" : "";
}

json_t *cli_entry_json(const cli_store *store, const cli_entry *entry) {
    json_t *object = json_pack(
        "{s:s, s:I, s:s, s:f, s:f, s:I, s:o}", "key", entry->shown, "bytes",
        (json_int_t)entry->bytes, "tier", cli_store_tier(store, entry->tier), "age_s", entry->age_s,
        "used_s", entry->used_s, "hits", (json_int_t)entry->hits, "pinned",
        pin_is_known(store, entry) ? json_boolean(entry->pinned) : json_null());
    if (entry->salted)
        json_object_set_new(object, "salted", json_true());
    if (entry->evict != SKY_EVICT_NORMAL)
        json_object_set_new(object, "evict", json_string(cli_entry_evict(entry)));
    if (entry->level)
        json_object_set_new(object, "level", json_string(entry->level));
    if (entry->block && !sky_key_is_zero(&entry->parent)) {
        char hex[2 * SKY_KEY_BYTES + 1];
        sky_key_hex(&entry->parent, hex);
        json_object_set_new(object, "parent", json_string(hex));
    }
    return object;
}

void cli_entry_head(cli_table *t) {
    static const char *const head[] = {"KEY",  "SIZE",   "TIER",  "AGE",
                                       "HITS", "PINNED", "EVICT", "SALTED"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        cli_table_cell(t, "%s", head[i]);
}

void cli_entry_row(cli_table *t, const cli_store *store, const cli_entry *entry) {
    char size[24], age[24];
    cli_table_cell(t, "%s", entry->shown);
    cli_table_cell(t, "%s", cli_bytes_text(entry->bytes, size));
    cli_table_cell(t, "%s%s%s", cli_store_tier(store, entry->tier), entry->level ? ", level " : "",
                   entry->level ? entry->level : "");
    cli_table_cell(t, "%s", cli_age_text(entry->age_s, age));
    cli_table_cell(t, "%llu", (unsigned long long)entry->hits);
    cli_table_cell(t, "%s", entry->pinned ? "yes" : pin_is_known(store, entry) ? "" : "not known");
    cli_table_cell(t, "%s", cli_entry_evict(entry));
    cli_table_cell(t, "%s", entry->salted ? "yes" : "");
}
