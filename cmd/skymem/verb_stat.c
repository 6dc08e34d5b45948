/* skymem stat: the tiers and what they did, their satellites, one key, or a running skymemd. */
#include "constellation.h"
#include "entries.h"
#include "inside.h"
#include "locate.h"
#include "numbers.h"

#include <stdlib.h>
#include <string.h>

#define SATELLITES_MAX 4096
#define TIMEOUT_NS     SKY_SECONDS(2)
#define SLOW_NS        SKY_SECONDS(10) /* for those that run on this machine */

static json_t *tier_json(const cli_store *store, size_t tier) {
    sky_tier_stat s = {0};
    sky_cache_stat(store->cache, tier, &s);
    return json_pack("{s:s, s:o, s:b, s:o}", "name", store->names[tier], "url",
                     cli_json_text(s.url), "failing", s.failing, "note", cli_json_text(s.note));
}

static int print_tiers_json(const cli *c, const cli_store *store) {
    json_t *objects[SKY_TIERS_MAX], *tiers = json_array();
    for (size_t i = 0; i < store->tier_count; i++) {
        objects[i] = tier_json(store, i);
        json_array_append_new(tiers, objects[i]);
    }
    json_t *cache = numbers_json(store->cache, objects);
    return cli_json_print(c, json_pack("{s:o, s:o}", "tiers", tiers, "cache", cache));
}

static void tier_row(cli_table *t, const cli_store *store, size_t i) {
    static const sky_metric_id counts[] = {SKY_METRIC_TIER_EVICTIONS, SKY_METRIC_TIER_CORRUPT,
                                           SKY_METRIC_TIER_ERRORS};
    char used[24], max[24];
    sky_tier_stat s = {0};
    sky_cache_stat(store->cache, i, &s);
    cli_table_cell(t, "%s", store->names[i]);
    cli_table_cell(t, "%llu",
                   (unsigned long long)cli_store_metric(store, i, SKY_METRIC_TIER_ENTRIES));
    cli_table_cell(t, "%s",
                   cli_bytes_text(cli_store_metric(store, i, SKY_METRIC_TIER_BYTES_USED), used));
    cli_table_cell(t, "%s",
                   cli_bytes_text(cli_store_metric(store, i, SKY_METRIC_TIER_BYTES_MAX), max));
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        cli_table_cell(t, "%llu", (unsigned long long)cli_store_metric(store, i, counts[n]));
    cli_table_cell(t, "%s%s%s", s.url, s.note[0] ? ": " : "", s.note);
}

static int stat_tiers(cli *c, const cli_store *store) {
    static const char *const head[] = {"TIER",    "ENTRIES", "USED",   "OF",
                                       "EVICTED", "CORRUPT", "ERRORS", "WHERE"};
    if (cli_flag(c, "prometheus"))
        return numbers_prometheus(c, store);
    if (c->json)
        return print_tiers_json(c, store);
    cli_table table = {.columns = "lrrrrrrl"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&table, "%s", head[i]);
    for (size_t i = 0; i < store->tier_count; i++)
        tier_row(&table, store, i);
    cli_table_print(&table, stdout);
    if (cli_flag(c, "all"))
        numbers_print(store);
    return CLI_OK;
}

/* ---- satellites ---- */

static json_t *satellite_json(const char *tier, const sky_satellite_stat *s, bool slow) {
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:b, s:b}", "tier", tier, "plane", (json_int_t)s->satellite.plane, "slot",
        (json_int_t)s->satellite.slot, "answered", s->answered, "slow", slow);
    if (!s->answered)
        return object;
    json_t *counts = json_pack(
        "{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I, s:I}",
        "ms", s->ms, "chunks", (json_int_t)s->chunks, "chunks_max", (json_int_t)s->chunks_max,
        "sets", (json_int_t)s->sets, "gets", (json_int_t)s->gets, "misses", (json_int_t)s->misses,
        "evictions", (json_int_t)s->evictions, "refused", (json_int_t)s->refused, "migrated",
        (json_int_t)s->migrated, "purged", (json_int_t)s->purged, "swept", (json_int_t)s->swept,
        "gossip", (json_int_t)s->gossip, "malformed", (json_int_t)s->malformed, "corrupt",
        (json_int_t)s->corrupt, "overflow", (json_int_t)s->overflow, "foreign",
        (json_int_t)s->foreign, "stale", (json_int_t)s->stale, "replayed", (json_int_t)s->replayed,
        "forged", (json_int_t)s->forged, "mended", (json_int_t)s->mended, "mending",
        (json_int_t)s->mending);
    json_object_update(object, counts);
    json_decref(counts);
    return object;
}

static void satellite_head(cli_table *t) {
    static const char *const head[] = {"SATELLITE", "ANSWER",  "CHUNKS",  "OF",    "SETS",
                                       "GETS",      "MISSES",  "EVICTED", "MOVED", "PURGED",
                                       "MENDED",    "DAMAGED", "REFUSED"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(t, "%s", head[i]);
}

static void satellite_row(cli_table *t, const char *tier, const sky_satellite_stat *s, bool slow) {
    const uint64_t counts[] = {s->chunks,
                               s->chunks_max,
                               s->sets,
                               s->gets,
                               s->misses,
                               s->evictions,
                               s->migrated,
                               s->purged + s->swept,
                               s->mended,
                               s->malformed + s->corrupt,
                               s->foreign + s->stale + s->replayed + s->forged};
    cli_table_cell(t, "%s %u,%u", tier, s->satellite.plane, s->satellite.slot);
    if (s->answered)
        cli_table_cell(t, "%.1f ms", s->ms);
    else
        cli_table_cell(t, slow ? "slow" : "none");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (s->answered)
            cli_table_cell(t, "%llu", (unsigned long long)counts[i]);
        else
            cli_table_cell(t, "%s", "");
    }
}

/* The satellites of a sky, as far as they answered. Those that did not and run on this machine are
 * slow, and not dead. */
typedef struct {
    sky_satellite_stat stats[SATELLITES_MAX];
    bool slow[SATELLITES_MAX];
    size_t count; /* that the sky has; SATELLITES_MAX of them are asked */
} answers;

/* Which of those that did not answer run on this machine, or in this process? Returns how many. */
static size_t find_slow(const cli_store *store, size_t tier, answers *a) {
    char path[CLI_WHY_BYTES];
    constellation x;
    size_t slow = 0, asked = a->count < SATELLITES_MAX ? a->count : SATELLITES_MAX;
    if (!cli_sky_scenario(store, tier, path, sizeof path)) { /* simulated here */
        for (size_t i = 0; i < asked; i++)
            slow += !a->stats[i].answered;
        return slow;
    }
    if (!constellation_peek(path, &x))
        return 0;
    for (size_t i = 0; i < asked; i++) {
        a->slow[i] = !a->stats[i].answered && constellation_find(&x, a->stats[i].satellite);
        slow += a->slow[i];
    }
    constellation_close(&x);
    return slow;
}

/* Once more; what a satellite answered before stands. */
static sky_status ask_again(const cli_store *store, size_t tier, sky_time until, answers *a) {
    answers *more = calloc(1, sizeof *more);
    sky_status status = more ? sky_cache_satellites(store->cache, tier, until, more->stats,
                                                    SATELLITES_MAX, &more->count)
                             : SKY_E_NOMEM;
    for (size_t i = 0; status == SKY_OK && i < more->count && i < SATELLITES_MAX; i++)
        if (!a->stats[i].answered)
            a->stats[i] = more->stats[i];
    if (status == SKY_OK)
        a->count = more->count;
    free(more);
    return status;
}

/* Until the timeout; those that run on this machine longer, unless it was given. */
static sky_status ask_all(cli *c, const cli_store *store, size_t tier, answers *a) {
    bool given = cli_given(c, "timeout");
    sky_time timeout_ns = given ? (sky_time)(cli_number(c, "timeout") * 1e9) : TIMEOUT_NS;
    sky_time began = sky_now();
    sky_status status = ask_again(store, tier, began + timeout_ns, a);
    size_t slow = status == SKY_OK ? find_slow(store, tier, a) : 0;
    while (slow > 0 && status == SKY_OK && !given && sky_now() < began + SLOW_NS) {
        status = ask_again(store, tier, sky_now() + timeout_ns, a);
        slow = find_slow(store, tier, a);
    }
    return status;
}

/* Those of one tier, if it is a sky, to a list and a table. */
static int ask_satellites(cli *c, const cli_store *store, size_t tier, json_t *list,
                          cli_table *table) {
    answers *a = calloc(1, sizeof *a);
    sky_status status = a ? ask_all(c, store, tier, a) : SKY_E_NOMEM;
    size_t count = a ? a->count : 0;
    for (size_t i = 0; i < count && i < SATELLITES_MAX; i++) {
        json_array_append_new(list, satellite_json(store->names[tier], &a->stats[i], a->slow[i]));
        satellite_row(table, store->names[tier], &a->stats[i], a->slow[i]);
    }
    free(a);
    if (count > SATELLITES_MAX)
        cli_note(c, "%s: the first %d of %zu satellites were asked", store->names[tier],
                 SATELLITES_MAX, count);
    return status == SKY_OK || status == SKY_E_PARAM
               ? CLI_OK
               : cli_failed(c, "%s: its satellites cannot be asked: %s", store->names[tier],
                            sky_status_text(status));
}

static int stat_satellites(cli *c, const cli_store *store) {
    cli_table table = {.columns = "lrrrrrrrrrrrr"};
    json_t *list = json_array();
    int code = CLI_OK;
    satellite_head(&table);
    for (size_t i = 0; code == CLI_OK && i < store->tier_count; i++)
        code = ask_satellites(c, store, i, list, &table);
    if (code == CLI_OK && json_array_size(list) == 0)
        code = cli_usage(c, "--satellites: no tier is a sky; name one with --store sky+udp:FILE");
    if (code == CLI_OK && c->json)
        code = cli_json_print(c, json_pack("{s:O}", "satellites", list));
    else if (code == CLI_OK)
        cli_table_print(&table, stdout);
    cli_table_free(&table);
    json_decref(list);
    return code;
}

/* ---- a key, a daemon ---- */

/* Of a copy in a sky: how many of its chunks live. */
static void add_chunks(const cli_store *store, const cli_entry *entry, json_t *object) {
    cli_chunks chunks = {0};
    if (cli_is_sky(store, entry->tier) &&
        cli_chunks_find(store, entry->tier, &entry->key, &chunks) == SKY_OK) {
        const sky_chunk_report *r = &chunks.report;
        json_object_set_new(object, "chunks", json_integer((json_int_t)r->chunks));
        json_object_set_new(object, "live", json_integer((json_int_t)r->live));
        json_object_set_new(object, "last", json_integer((json_int_t)r->last));
        json_object_set_new(object, "rotations", json_integer((json_int_t)r->rotations));
    }
    cli_chunks_free(&chunks);
}

static void print_copies(const cli_store *store, const cli_entries *e) {
    cli_table table = {.columns = CLI_ENTRY_COLUMNS};
    char says[160];
    cli_entry_head(&table);
    for (size_t i = 0; i < e->count; i++)
        cli_entry_row(&table, store, &e->entries[i]);
    cli_table_print(&table, stdout);
    for (size_t i = 0; i < e->count; i++) {
        cli_chunks chunks = {0};
        const cli_entry *entry = &e->entries[i];
        if (cli_is_sky(store, entry->tier) &&
            cli_chunks_find(store, entry->tier, &entry->key, &chunks) == SKY_OK) {
            cli_chunks_says(&chunks, says, sizeof says);
            printf("%s: %s\n", store->names[entry->tier], says);
        }
        cli_chunks_free(&chunks);
    }
}

/* Of the value, where its tier keeps versions. */
static void add_version(const cli_store *store, const cli_key *key, size_t tier, json_t *to) {
    sky_item has = {.key = key->key};
    const sky_call call = {.tiers = 1u << tier};
    if (cli_store_is(store, tier, SKY_TIER_VERSIONS) &&
        cli_one(store, SKY_OP_HAS, &has, &call) == SKY_OK)
        json_object_set_new(to, "version", json_integer((json_int_t)has.version));
}

/* A copy was found; a tier that does not answer may have another. */
static void note_left_out(const cli *c, const cli_store *store, sky_status status) {
    char why[CLI_WHY_BYTES];
    cli_failure_says(store, status, why, sizeof why);
    cli_note(c, "perhaps not all copies: %s", why);
}

static int stat_key(cli *c, const cli_store *store) {
    cli_key key;
    cli_entries entries = {0};
    int code = cli_key_parse(c, c->arguments[0], &key);
    if (code != CLI_OK)
        return code;
    entries.only = &key;
    code = cli_entries_read(c, store, &entries);
    if (code == CLI_OK && entries.count == 0) { /* satellites answer for a key, but have no list */
        sky_item has = {.key = key.key};
        code = cli_key_failed(c, store, SKY_TIER_NONE, &key,
                              cli_one(store, SKY_OP_HAS, &has, NULL));
        if (code == CLI_OK)
            code = cli_entries_read(c, store, &entries);
        if (code == CLI_OK && entries.count == 0) /* gone in between */
            code = cli_key_status(c, &key, SKY_MISS);
    }
    if (code == CLI_OK && c->json) {
        json_t *object = cli_entry_json(store, &entries.entries[0]);
        add_chunks(store, &entries.entries[0], object);
        add_version(store, &key, entries.entries[0].tier, object);
        code = cli_json_print(c, object);
    } else if (code == CLI_OK) {
        print_copies(store, &entries);
    }
    if (code == CLI_OK && entries.left_out != SKY_OK)
        note_left_out(c, store, entries.left_out);
    cli_entries_free(&entries);
    cli_key_free(&key);
    return code;
}

/* The numbers of an object, those that are not 0 if it is a tier's. */
static void daemon_rows(cli_table *table, const json_t *object, const char *before, bool zeros) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        if (!json_is_integer(value) || (!zeros && json_integer_value(value) == 0))
            continue;
        cli_table_cell(table, "%s%s", before, name);
        cli_table_cell(table, "%lld", (long long)json_integer_value(value));
    }
}

static void print_daemon(cli *c, const json_t *object) {
    cli_table table = {.columns = "lr"};
    cli_table_cell(&table, "WHAT");
    cli_table_cell(&table, "COUNT");
    daemon_rows(&table, object, "", true);
    json_t *tiers = json_object_get(object, "tiers");
    if (cli_flag(c, "all"))
        daemon_rows(&table, json_object_get(object, "cache"), "cache: ", false);
    for (size_t i = 0; cli_flag(c, "all") && i < json_array_size(tiers); i++) {
        char before[32];
        snprintf(before, sizeof before, "tier %zu: ", i);
        daemon_rows(&table, json_array_get(tiers, i), before, false);
    }
    cli_table_print(&table, stdout);
}

static int stat_daemon(cli *c, const char *path) {
    json_t *object;
    int code = inside_ask(c, path, &object);
    if (code != CLI_OK)
        return code;
    const char *text = json_string_value(json_object_get(object, "prometheus"));
    if (cli_flag(c, "prometheus")) {
        if (text)
            fputs(text, stdout);
        else
            code = cli_failed(c, "shm:%s: sent no text for Prometheus; is it an older skymemd?",
                              path);
        json_decref(object);
        return code;
    }
    json_object_del(object, "prometheus");
    if (c->json)
        return cli_json_print(c, object);
    print_daemon(c, object);
    json_decref(object);
    return CLI_OK;
}

/* What does not go together; CLI_OK: nothing. */
static int check_flags(cli *c) {
    bool text = cli_flag(c, "prometheus"), satellites = cli_flag(c, "satellites");
    if (satellites && c->argument_count > 0)
        return cli_usage(c, "--satellites: without KEY");
    if (text && (c->argument_count > 0 || satellites || c->json))
        return cli_usage(c, "--prometheus: without KEY, --satellites and --json");
    if (cli_flag(c, "all") && (c->argument_count > 0 || satellites || text))
        return cli_usage(c, "--all: without KEY, --satellites and --prometheus");
    return CLI_OK;
}

static int stat_run(cli *c) {
    const char *socket = inside_socket(c);
    int code = check_flags(c);
    if (code != CLI_OK)
        return code;
    if (socket && c->argument_count == 0 && !cli_flag(c, "satellites"))
        return stat_daemon(c, socket);
    cli_store store = {0};
    code = cli_store_open(c, &store);
    if (code == CLI_OK && cli_flag(c, "satellites"))
        code = stat_satellites(c, &store);
    else if (code == CLI_OK)
        code = c->argument_count > 0 ? stat_key(c, &store) : stat_tiers(c, &store);
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_stat = {
    .name = "stat",
    .summary = "Show the tiers, their satellites, or one key",
    .synopsis = "[KEY]",
    .about =
        "Counters begin when a tier is opened, so they are those of this process: those of "
        "another that uses the same store are not seen, but for a skymemd's with --store "
        "shm:SOCKET. Entries, sizes and what a tier keeps on disk outlive it. The entries of a "
        "daemon are copies: a value in its memory and on its disk counts twice.\n"
        "With --satellites every satellite of a sky is asked for its own counters, which "
        "begin at its start, again and again until --timeout. One that does not answer by then "
        "is shown as none, or as slow if it runs on this machine.\n"
        "With --prometheus all numbers are printed in Prometheus's text format. skymemd has no "
        "HTTP port: let a timer write them to the textfile collector of node_exporter.",
    .settings = CLI_SET_KEYS,
    .options =
        (const cli_option[]){
            CLI_OPTION_AS,
            {.name = "satellites",
             .kind = CLI_FLAG,
             .help = "ask the satellites of the tiers that are skies; without KEY"},
            {.name = "timeout",
             .kind = CLI_NUMBER,
             .value = "S",
             .max = 3600,
             .help = "--satellites: seconds that answers are waited for; default: 2, and 10 for "
                     "satellites that run on this machine"},
            {.name = "all",
             .kind = CLI_FLAG,
             .help = "list every number that is not 0 too; without KEY"},
            {.name = "prometheus",
             .kind = CLI_FLAG,
             .help = "print all numbers as Prometheus's text; without KEY"},
            {.name = NULL}},
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem stat", "every tier: entries, room, damage, and what is odd about it"},
            {"skymem stat greeting --json", "one key"},
            {"skymem stat --satellites --store sky+udp:constellation",
             "what each running satellite holds and did"},
            {"skymem stat --store shm:/run/skymemd.sock", "a running daemon"},
            {"skymem stat --store shm:/run/skymemd.sock --prometheus",
             "its numbers as Prometheus's text"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"tiers",
             "without KEY: per tier name, url, failing, note, its numbers by name (entries, "
             "bytes_used, bytes_max, hits, misses, puts, evictions, corrupt, dropped, late, "
             "errors, "
             "moved_bytes, read_bytes, written_bytes and more), times of answers by operation and "
             "of waiting as {count, sum_s, p50_s, p99_s}, and of a sky session and transport"},
            {"cache",
             "without KEY: numbers of the cache itself: hits, misses, promotions and more"},
            {"key",
             "with KEY: this and bytes, tier, age_s, hits, pinned, as in ls; the nearest copy. Of "
             "one in a sky also chunks, how many of them live and stand on their last copy, and "
             "the "
             "rotations since it was put; and where its tier keeps versions its version"},
            {"satellites",
             "with --satellites: per satellite tier, plane, slot, answered, slow (it runs on "
             "this machine and did not answer), and of those "
             "that did ms, chunks, chunks_max, sets, gets, misses, evictions, "
             "refused, migrated, purged, swept, gossip, malformed, corrupt, overflow, and of "
             "datagrams that were not taken foreign, stale, replayed, forged; mended counts copies "
             "sent to satellites that had lost them, mending what it holds of which it is "
             "replacing "
             "copies now"},
            {"clients",
             "of a daemon: this, connected now, and connections so far, refused, disconnected, "
             "leases, entries, arena_bytes_used, arena_bytes_max, arena_bytes_committed, hits, "
             "misses, corrupt, cache, tiers"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key",
    .unavailable = true,
    .run = stat_run,
};
