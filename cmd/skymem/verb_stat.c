/* skymem stat: the tiers and what they did, one key, or a running skymemd. */
#include "entries.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static json_t *tier_json(const cli_store *store, size_t tier, const sky_tier_stat *s) {
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o}",
                     "name", store->names[tier], "url", cli_json_text(s->url, strlen(s->url)),
                     "entries", (json_int_t)s->entries, "bytes_used", (json_int_t)s->bytes_used,
                     "bytes_max", (json_int_t)s->bytes_max, "hits", (json_int_t)s->hits, "misses",
                     (json_int_t)s->misses, "puts", (json_int_t)s->puts, "evictions",
                     (json_int_t)s->evictions, "corrupt", (json_int_t)s->corrupt, "dropped",
                     (json_int_t)s->dropped, "late", (json_int_t)s->late, "errors",
                     (json_int_t)s->errors, "failing", s->failing, "note",
                     cli_json_text(s->note, strlen(s->note)));
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

static int stat_key(cli *c, const cli_store *store) {
    cli_key key;
    cli_entries entries = {0};
    int code = cli_key_parse(c, c->arguments[0], &key);
    if (code != CLI_OK)
        return code;
    entries.only = &key.key;
    code = cli_entries_read(c, store, &entries);
    if (code == CLI_OK && entries.count == 0)
        code = cli_key_status(c, &key, SKY_MISS);
    if (code == CLI_OK && c->json)
        code = cli_json_print(c, cli_entry_json(store, &entries.entries[0]));
    if (code == CLI_OK && !c->json) {
        cli_table table = {.columns = "lrlrrl"};
        cli_entry_head(&table);
        for (size_t i = 0; i < entries.count; i++)
            cli_entry_row(&table, store, &entries.entries[i]);
        cli_table_print(&table, stdout);
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
    int code = cli_store_open(c, &store);
    if (code == CLI_OK)
        code = c->argument_count > 0 ? stat_key(c, &store) : stat_tiers(c, &store);
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_stat = {
    .name = "stat",
    .summary = "Show the tiers, or one key",
    .synopsis = "[KEY]",
    .about =
        "Counters run from the opening of a tier, that is, in this process: only entries, sizes "
        "and what a tier keeps on disk outlive it.\n"
        "With --store shm:SOCKET the counters of a running skymemd.",
    .settings = CLI_SET_STORE,
    .options = (const cli_option[]){CLI_OPTION_AS, {.name = NULL}},
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem stat", "every tier: entries, room, damage, and what is odd about it"},
            {"skymem stat greeting --json", "one key"},
            {"skymem stat --store shm:/run/skymemd.sock", "a running daemon"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"tiers", "without KEY: per tier name, url, entries, bytes_used, bytes_max, hits, "
                      "misses, puts, evictions, corrupt, dropped, late, errors, failing, note"},
            {"key",
             "with KEY: this and bytes, tier, age_s, hits, pinned, as in ls; the nearest copy"},
            {"clients", "of a daemon: this and leases, entries, arena_bytes_used, arena_bytes_max, "
                        "hits, misses, corrupt, tiers"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key",
    .run = stat_run,
};
