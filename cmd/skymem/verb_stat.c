/* skymem stat: the tiers and what they did, their satellites, one key, or a running skymemd. */
#include "entries.h"
#include "locate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SATELLITES_MAX 4096
#define ASK_NS         SKY_SECONDS(2)

static json_t *tier_json(const cli_store *store, size_t tier, const sky_tier_stat *s) {
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "name",
        store->names[tier], "url", cli_json_text(s->url, strlen(s->url)), "entries",
        (json_int_t)s->entries, "bytes_used", (json_int_t)s->bytes_used, "bytes_max",
        (json_int_t)s->bytes_max, "hits", (json_int_t)s->hits, "misses", (json_int_t)s->misses,
        "puts", (json_int_t)s->puts, "evictions", (json_int_t)s->evictions, "corrupt",
        (json_int_t)s->corrupt, "dropped", (json_int_t)s->dropped, "late", (json_int_t)s->late,
        "errors", (json_int_t)s->errors, "moved_bytes", (json_int_t)s->moved_bytes, "failing",
        s->failing, "note", cli_json_text(s->note, strlen(s->note)));
}

static void tier_row(cli_table *t, const char *name, const sky_tier_stat *s) {
    char used[24], max[24];
    cli_table_cell(t, "%s", name);
    cli_table_cell(t, "%llu", (unsigned long long)s->entries);
    cli_table_cell(t, "%s", cli_bytes_text(s->bytes_used, used));
    cli_table_cell(t, "%s", cli_bytes_text(s->bytes_max, max));
    cli_table_cell(t, "%llu", (unsigned long long)s->evictions);
    cli_table_cell(t, "%llu", (unsigned long long)s->corrupt);
    cli_table_cell(t, "%llu", (unsigned long long)s->errors);
    cli_table_cell(t, "%s%s%s", s->url, s->note[0] ? ": " : "", s->note);
}

static int stat_tiers(const cli *c, const cli_store *store) {
    static const char *const head[] = {"TIER",    "ENTRIES", "USED",   "OF",
                                       "EVICTED", "CORRUPT", "ERRORS", "WHERE"};
    cli_table table = {.columns = "lrrrrrrl"};
    json_t *tiers = json_array();
    for (size_t i = 0; i < 8; i++)
        cli_table_cell(&table, "%s", head[i]);
    for (size_t i = 0; i < store->tier_count; i++) {
        sky_tier_stat s = {0};
        sky_cache_stat(store->cache, i, &s);
        json_array_append_new(tiers, tier_json(store, i, &s));
        tier_row(&table, store->names[i], &s);
    }
    if (c->json) {
        cli_table_free(&table);
        return cli_json_print(c, json_pack("{s:o}", "tiers", tiers));
    }
    json_decref(tiers);
    cli_table_print(&table, stdout);
    return CLI_OK;
}

/* ---- satellites ---- */

static json_t *satellite_json(const char *tier, const sky_satellite_stat *s) {
    json_t *object = json_pack("{s:s, s:I, s:I, s:b}", "tier", tier, "plane",
                               (json_int_t)s->satellite.plane, "slot",
                               (json_int_t)s->satellite.slot, "answered", s->answered);
    if (!s->answered)
        return object;
    json_t *counts = json_pack(
        "{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I}",
        "ms", s->ms, "chunks", (json_int_t)s->chunks, "chunks_max", (json_int_t)s->chunks_max,
        "sets", (json_int_t)s->sets, "gets", (json_int_t)s->gets, "misses", (json_int_t)s->misses,
        "evictions", (json_int_t)s->evictions, "refused", (json_int_t)s->refused, "migrated",
        (json_int_t)s->migrated, "purged", (json_int_t)s->purged, "swept", (json_int_t)s->swept,
        "gossip", (json_int_t)s->gossip, "malformed", (json_int_t)s->malformed, "corrupt",
        (json_int_t)s->corrupt, "overflow", (json_int_t)s->overflow, "foreign",
        (json_int_t)s->foreign, "stale", (json_int_t)s->stale, "replayed", (json_int_t)s->replayed,
        "forged", (json_int_t)s->forged);
    json_object_update(object, counts);
    json_decref(counts);
    return object;
}

static void satellite_head(cli_table *t) {
    static const char *const head[] = {"SATELLITE", "ANSWER", "CHUNKS",  "OF",
                                       "SETS",      "GETS",   "MISSES",  "EVICTED",
                                       "MOVED",     "PURGED", "DAMAGED", "REFUSED"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(t, "%s", head[i]);
}

static void satellite_row(cli_table *t, const char *tier, const sky_satellite_stat *s) {
    const uint64_t counts[] = {s->chunks,
                               s->chunks_max,
                               s->sets,
                               s->gets,
                               s->misses,
                               s->evictions,
                               s->migrated,
                               s->purged + s->swept,
                               s->malformed + s->corrupt,
                               s->foreign + s->stale + s->replayed + s->forged};
    cli_table_cell(t, "%s %u,%u", tier, s->satellite.plane, s->satellite.slot);
    if (s->answered)
        cli_table_cell(t, "%.1f ms", s->ms);
    else
        cli_table_cell(t, "none");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (s->answered)
            cli_table_cell(t, "%llu", (unsigned long long)counts[i]);
        else
            cli_table_cell(t, "%s", "");
    }
}

/* Those of one tier, if it is a sky, to a list and a table. */
static int ask_satellites(const cli *c, const cli_store *store, size_t tier, json_t *list,
                          cli_table *table) {
    size_t count = 0;
    sky_satellite_stat *stats = calloc(SATELLITES_MAX, sizeof *stats);
    sky_status status = stats ? sky_cache_satellites(store->cache, tier, sky_now() + ASK_NS, stats,
                                                     SATELLITES_MAX, &count)
                              : SKY_E_NOMEM;
    for (size_t i = 0; i < count && i < SATELLITES_MAX; i++) {
        json_array_append_new(list, satellite_json(store->names[tier], &stats[i]));
        satellite_row(table, store->names[tier], &stats[i]);
    }
    free(stats);
    if (count > SATELLITES_MAX)
        cli_note(c, "%s: the first %d of %zu satellites were asked", store->names[tier],
                 SATELLITES_MAX, count);
    return status == SKY_OK || status == SKY_E_PARAM
               ? CLI_OK
               : cli_failed(c, "%s: its satellites cannot be asked: %s", store->names[tier],
                            sky_status_text(status));
}

static int stat_satellites(const cli *c, const cli_store *store) {
    cli_table table = {.columns = "lrrrrrrrrrrr"};
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
        code = cli_json_print(c, object);
    } else if (code == CLI_OK) {
        print_copies(store, &entries);
    }
    cli_entries_free(&entries);
    cli_key_free(&key);
    return code;
}

/* skymemd answers a connection with one line of JSON and closes it. */
static int ask_daemon(const cli *c, const char *path, char *line, size_t line_bytes) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return cli_usage(c, "shm:%s: a socket's path has at most %zu bytes", path,
                         sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        int failure = errno;
        if (fd >= 0)
            close(fd);
        return cli_failed(c, "shm:%s: %s; is skymemd --socket %s running?", path, strerror(failure),
                          path);
    }
    size_t used = 0;
    for (ssize_t got = 1; got > 0 && used<line_bytes - 1; used += got> 0 ? (size_t)got : 0)
        got = read(fd, line + used, line_bytes - 1 - used);
    close(fd);
    line[used] = '\0';
    return CLI_OK;
}

static int stat_daemon(const cli *c, const char *path) {
    static char line[16384];
    json_error_t error;
    int code = ask_daemon(c, path, line, sizeof line);
    if (code != CLI_OK)
        return code;
    json_t *object = json_loads(line, 0, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return cli_failed(c, "shm:%s: answered no JSON; is it a skymemd?", path);
    }
    if (c->json)
        return cli_json_print(c, object);
    const char *name;
    json_t *value;
    cli_table table = {.columns = "lr"};
    cli_table_cell(&table, "WHAT");
    cli_table_cell(&table, "COUNT");
    json_object_foreach(object, name, value) {
        if (!json_is_integer(value))
            continue;
        cli_table_cell(&table, "%s", name);
        cli_table_cell(&table, "%lld", (long long)json_integer_value(value));
    }
    cli_table_print(&table, stdout);
    json_decref(object);
    return CLI_OK;
}

static int stat_run(cli *c) {
    const char *first = cli_text(c, "store");
    if (strncmp(first, "shm:", 4) == 0) {
        if (c->argument_count > 0)
            return cli_usage(c, "skymemd does not serve keys in this version; name its tiers with "
                                "--store");
        return stat_daemon(c, first + 4);
    }
    cli_store store = {0};
    bool satellites = cli_flag(c, "satellites");
    if (satellites && c->argument_count > 0)
        return cli_usage(c, "--satellites: without KEY");
    int code = cli_store_open(c, &store);
    if (code == CLI_OK && satellites)
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
    .about = "Counters begin when a tier is opened, so they are those of this process. Entries, "
             "sizes and what a tier keeps on disk outlive it.\n"
             "With --satellites every satellite of a sky is asked for its own counters, which "
             "begin at its start. One that does not answer within two seconds is shown as "
             "silent. With --store shm:SOCKET the counters are those of a running skymemd.",
    .settings = CLI_SET_KEYS,
    .options =
        (const cli_option[]){
            CLI_OPTION_AS,
            {.name = "satellites",
             .kind = CLI_FLAG,
             .help = "ask the satellites of the tiers that are skies; without KEY"},
            {.name = NULL}},
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem stat", "every tier: entries, room, damage, and what is odd about it"},
            {"skymem stat greeting --json", "one key"},
            {"skymem stat --satellites --store sky+udp:constellation",
             "what each running satellite holds and did"},
            {"skymem stat --store shm:/run/skymemd.sock", "a running daemon"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"tiers",
             "without KEY: per tier name, url, entries, bytes_used, bytes_max, hits, "
             "misses, puts, evictions, corrupt, dropped, late, errors, moved_bytes, failing, "
             "note"},
            {"key",
             "with KEY: this and bytes, tier, age_s, hits, pinned, as in ls; the nearest copy. Of "
             "one in a sky also chunks, how many of them live, and the rotations since it was put"},
            {"satellites",
             "with --satellites: per satellite tier, plane, slot, answered, and of those "
             "that did ms, chunks, chunks_max, sets, gets, misses, evictions, "
             "refused, migrated, purged, swept, gossip, malformed, corrupt, overflow, and of "
             "datagrams that were not taken foreign, stale, replayed, forged"},
            {"clients", "of a daemon: this and leases, entries, arena_bytes_used, arena_bytes_max, "
                        "hits, misses, corrupt, tiers"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key",
    .run = stat_run,
};
