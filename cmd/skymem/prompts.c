/* Blocks put together to prompts, and what is kept about them: see prompts.h. */
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES_MAX 4096

/* ---- records ---- */

static void record_name(const sky_key *first, char out[128]) {
    char hex[2 * SKY_KEY_BYTES + 1];
    sky_key_hex(first, hex);
    snprintf(out, 128, "%s%s", CLI_RECORD_PREFIX, hex);
}

bool cli_is_record(const cli_entry *entry) {
    return !entry->block &&
           strncmp(entry->shown, CLI_RECORD_PREFIX, strlen(CLI_RECORD_PREFIX)) == 0;
}

/* Those of this user that last: a satellite keeps blocks for others too. */
static uint32_t record_tiers(const cli_store *store) {
    uint32_t tiers = 0;
    for (size_t i = 0; i < store->tier_count; i++)
        if (cli_store_lasts(store, i) && !cli_store_is(store, i, SKY_TIER_REMOTE))
            tiers |= 1u << i;
    return tiers;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void cli_record_keep(const cli_store *store, const sky_key *first, const char *model,
                     uint32_t block_tokens, const char *words, size_t words_bytes) {
    static const sky_namespace general = {{0}};
    char name[128];
    sky_item item = {.name = name};
    sky_call call = {.tiers = record_tiers(store)};
    record_name(first, name);
    item.name_bytes = strlen(name);
    if (!call.tiers || sky_name_key(&general, item.name, item.name_bytes, &item.key) != SKY_OK ||
        (!words && cli_one(store, SKY_OP_HAS, &item, &call) == SKY_OK))
        return;
    json_t *record = json_pack("{s:o, s:I}", "model", cli_json_text(file_name(model)),
                               "block_tokens", (json_int_t)block_tokens);
    if (words)
        json_object_set_new(record, "words", cli_json_utf8(words, words_bytes));
    char *text = json_dumps(record, JSON_COMPACT);
    sky_span span = {text, text ? strlen(text) : 0};
    item.spans = &span;
    item.span_count = 1;
    if (text)
        (void)cli_one(store, SKY_OP_PUT, &item, &call);
    free(text);
    json_decref(record);
}

/* What a record says, if that is what it should be; else NULL. */
static json_t *read_record(const cli_store *store, const cli_entry *entry) {
    static char text[RECORD_BYTES_MAX];
    sky_span span = {text, sizeof text};
    sky_item item = {.key = entry->key, .spans = &span, .span_count = 1};
    const sky_call call = {.tiers = 1u << entry->tier};
    if (entry->bytes > sizeof text || cli_one(store, SKY_OP_GET, &item, &call) != SKY_OK)
        return NULL;
    json_t *record = json_loadb(text, (size_t)item.bytes, 0, NULL);
    if (json_is_string(json_object_get(record, "model")) &&
        json_integer_value(json_object_get(record, "block_tokens")) > 0)
        return record;
    json_decref(record);
    return NULL;
}

/* ---- chains ---- */

/* Entries are sorted by key and tier; those of several levels of one block follow each other. */
static size_t find_block(const cli_entries *e, const cli_entry *child) {
    char hex[2 * SKY_KEY_BYTES + 1];
    size_t low = 0, high = e->count, found = CLI_NO_ENTRY;
    sky_key_hex(&child->parent, hex);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const cli_entry *at = &e->entries[middle];
        int order = strcmp(at->shown, hex);
        if (order < 0 || (order == 0 && at->tier < child->tier))
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < e->count && e->entries[low].tier == child->tier &&
           strcmp(e->entries[low].shown, hex) == 0;
         low++)
        if (e->entries[low].block &&
            (found == CLI_NO_ENTRY || e->entries[low].level == child->level))
            found = low;
    return found;
}

/* Depth and bytes from the nearest block before it whose are known down to this one. `way` has room
 * for all entries. */
static void measure_chain(const cli_entries *e, cli_link *links, size_t entry, size_t *way) {
    size_t steps = 0;
    for (size_t at = entry; at != CLI_NO_ENTRY && links[at].depth == 0 && steps < e->count;
         at = links[at].parent)
        way[steps++] = at;
    while (steps-- > 0) {
        size_t at = way[steps], parent = links[at].parent;
        bool first = parent == CLI_NO_ENTRY || links[parent].depth == 0;
        links[at].first = first ? at : links[parent].first;
        links[at].depth = first ? 1 : links[parent].depth + 1;
        links[at].chain_bytes = e->entries[at].bytes + (first ? 0 : links[parent].chain_bytes);
    }
}

static void link_blocks(const cli_entries *e, cli_prompts *out, size_t *way) {
    for (size_t i = 0; i < e->count; i++) {
        out->links[i] = (cli_link){.parent = CLI_NO_ENTRY, .first = i};
        if (e->entries[i].block && !sky_key_is_zero(&e->entries[i].parent))
            out->links[i].parent = find_block(e, &e->entries[i]);
    }
    for (size_t i = 0; i < e->count; i++) {
        if (e->entries[i].block)
            measure_chain(e, out->links, i, way);
        if (out->links[i].parent != CLI_NO_ENTRY)
            out->links[out->links[i].parent].inner = true;
    }
}

int cli_prompts_find(const cli *c, const cli_store *store, const cli_entries *e, cli_prompts *out) {
    size_t *way = calloc(e->count + 1, sizeof *way);
    out->links = calloc(e->count + 1, sizeof *out->links);
    out->records = json_object();
    if (way && out->links && out->records)
        link_blocks(e, out, way);
    for (size_t i = 0; out->records && i < e->count; i++) {
        json_t *record = cli_is_record(&e->entries[i]) ? read_record(store, &e->entries[i]) : NULL;
        if (record)
            json_object_set_new(out->records, e->entries[i].shown + strlen(CLI_RECORD_PREFIX),
                                record);
    }
    bool ok = way && out->links && out->records;
    free(way);
    return ok ? CLI_OK : cli_failed(c, "out of memory");
}

void cli_prompts_free(cli_prompts *p) {
    free(p->links);
    json_decref(p->records);
    *p = (cli_prompts){0};
}

bool cli_prompt_ends(const cli_prompts *p, size_t entry) {
    return p->links[entry].depth > 0 && !p->links[entry].inner;
}

const json_t *cli_prompt_record(const cli_prompts *p, const cli_entries *e, size_t entry) {
    const cli_entry *first = &e->entries[p->links[entry].first];
    return first->block && sky_key_is_zero(&first->parent)
               ? json_object_get(p->records, first->shown)
               : NULL;
}

const char *cli_prompt_model(const cli_prompts *p, const cli_entries *e, size_t entry) {
    return json_string_value(json_object_get(cli_prompt_record(p, e, entry), "model"));
}

uint64_t cli_prompt_tokens(const cli_prompts *p, const cli_entries *e, size_t entry) {
    json_int_t tokens = json_integer_value(
        json_object_get(cli_prompt_record(p, e, entry), "block_tokens"));
    return (uint64_t)tokens * p->links[entry].depth;
}
