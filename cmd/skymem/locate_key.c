/* Where a value is now: its satellites, which chunks they hold, and how the sky has turned. */
#include "locate.h"

#include <stdlib.h>
#include <string.h>

#define COPIES_MAX 65536
#define ASK_NS     SKY_SECONDS(20)

bool cli_is_sky(const cli_store *store, size_t tier) {
    return cli_store_is(store, tier, SKY_TIER_SKY);
}

sky_status cli_chunks_find(const cli_store *store, size_t tier, const sky_key *key,
                           cli_chunks *out) {
    out->tier = tier;
    out->copies = calloc(COPIES_MAX, sizeof *out->copies);
    if (!out->copies)
        return SKY_E_NOMEM;
    sky_status status = sky_cache_chunks(store->cache, tier, key, sky_now() + ASK_NS, out->copies,
                                         COPIES_MAX, &out->report);
    size_t there = (size_t)out->report.chunks * out->report.copies;
    out->count = status != SKY_OK ? 0 : there < COPIES_MAX ? there : COPIES_MAX;
    return status;
}

void cli_chunks_free(cli_chunks *chunks) {
    free(chunks->copies);
    *chunks = (cli_chunks){0};
}

void cli_chunks_says(const cli_chunks *chunks, char *out, size_t out_bytes) {
    const sky_chunk_report *r = &chunks->report;
    char silent[48] = "", last[40] = "";
    if (r->silent > 0)
        snprintf(silent, sizeof silent, ", of %u nobody answers", r->silent);
    if (r->last > 0)
        snprintf(last, sizeof last, ", %u on the last copy", r->last);
    snprintf(out, out_bytes, "%u of %u chunk%s live%s%s, %llu rotation%s since it was put", r->live,
             r->chunks, cli_plural(r->chunks), last, silent, (unsigned long long)r->rotations,
             cli_plural(r->rotations));
}

static json_t *copies_json(const cli_chunks *chunks) {
    json_t *list = json_array();
    for (size_t i = 0; i < chunks->count; i++) {
        const sky_chunk_copy *at = &chunks->copies[i];
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:b, s:b}", "chunk",
                                              (json_int_t)at->number, "copy", (json_int_t)at->copy,
                                              "plane", (json_int_t)at->satellite.plane, "slot",
                                              (json_int_t)at->satellite.slot, "live", at->live,
                                              "silent", at->silent));
    }
    return list;
}

static int print_json(const cli *c, const cli_store *store, const cli_key *key,
                      const cli_chunks *chunks) {
    const sky_chunk_report *r = &chunks->report;
    return cli_json_print(
        c, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I}, s:o}", "key",
                     key->shown, "tier", store->names[chunks->tier], "bytes", (json_int_t)r->bytes,
                     "chunks", (json_int_t)r->chunks, "live", (json_int_t)r->live, "last",
                     (json_int_t)r->last, "silent", (json_int_t)r->silent, "rotations",
                     (json_int_t)r->rotations, "overhead", "plane", (json_int_t)r->overhead.plane,
                     "slot", (json_int_t)r->overhead.slot, "places", copies_json(chunks)));
}

static int by_satellite(const void *a, const void *b) {
    const sky_chunk_copy *x = a, *y = b;
    if (x->satellite.plane != y->satellite.plane)
        return x->satellite.plane < y->satellite.plane ? -1 : 1;
    if (x->satellite.slot != y->satellite.slot)
        return x->satellite.slot < y->satellite.slot ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* One satellite's line: copies[from] to copies[to - 1]. */
static void satellite_row(cli_table *t, const cli_chunks *chunks, size_t from, size_t to) {
    char numbers[64] = "";
    size_t live = 0, silent = 0;
    for (size_t i = from; i < to; i++) {
        size_t used = strlen(numbers);
        live += chunks->copies[i].live;
        silent += chunks->copies[i].silent;
        if (used + 16 < sizeof numbers)
            snprintf(numbers + used, sizeof numbers - used, "%s%u", i > from ? " " : "",
                     chunks->copies[i].number);
        else if (used + 4 < sizeof numbers && numbers[used - 1] != '.')
            snprintf(numbers + used, sizeof numbers - used, " ...");
    }
    cli_table_cell(t, "%u", chunks->copies[from].satellite.plane);
    cli_table_cell(t, "%u", chunks->copies[from].satellite.slot);
    cli_table_cell(t, "%zu", to - from);
    cli_table_cell(t, "%zu", live);
    cli_table_cell(t, "%s", silent ? "no answer" : live < to - from ? "lacks some" : "");
    cli_table_cell(t, "%s", numbers);
}

static void print_people(const cli_store *store, const cli_key *key, cli_chunks *chunks) {
    static const char *const head[] = {"PLANE", "SLOT", "CHUNKS", "LIVE", "", "NUMBERS"};
    cli_table table = {.columns = "rrrrll"};
    char says[160];
    cli_chunks_says(chunks, says, sizeof says);
    printf("%s: in %s, %s; overhead is plane %u, slot %u\n\n", key->shown,
           store->names[chunks->tier], says, chunks->report.overhead.plane,
           chunks->report.overhead.slot);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&table, "%s", head[i]);
    if (chunks->count > 0)
        qsort(chunks->copies, chunks->count, sizeof *chunks->copies, by_satellite);
    for (size_t from = 0, to; from < chunks->count; from = to) {
        sky_satellite at = chunks->copies[from].satellite;
        for (to = from; to < chunks->count && chunks->copies[to].satellite.plane == at.plane &&
                        chunks->copies[to].satellite.slot == at.slot;)
            to++;
        satellite_row(&table, chunks, from, to);
    }
    cli_table_print(&table, stdout);
}

/* The first sky that has it. */
static int locate_in(cli *c, const cli_store *store, const cli_key *key) {
    size_t skies = 0, asked = SKY_TIER_NONE;
    sky_status status = SKY_MISS;
    cli_chunks chunks = {0};
    for (size_t t = 0; t < store->tier_count && status != SKY_OK; t++) {
        if (!cli_is_sky(store, t))
            continue;
        skies++;
        cli_chunks_free(&chunks);
        sky_status here = cli_chunks_find(store, t, &key->key, &chunks);
        if (here != SKY_MISS)
            asked = t, status = here;
    }
    if (skies == 0)
        return cli_usage(c, "KEY is looked for in a sky: name one with --store sky+udp:FILE");
    int code = cli_key_failed(c, store, asked, key, status);
    if (code == CLI_OK && c->json)
        code = print_json(c, store, key, &chunks);
    else if (code == CLI_OK)
        print_people(store, key, &chunks);
    cli_chunks_free(&chunks);
    return code;
}

int cli_locate_key(cli *c) {
    int code = cli_only(c, "locate KEY", "as");
    return code == CLI_OK ? cli_with_key(c, locate_in) : code;
}
