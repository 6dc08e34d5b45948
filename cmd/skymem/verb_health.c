/* skymem health: whether the tiers, or those of a running skymemd, do their work. */
#include "inside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a tier of this process. */
static json_t *own_row(const cli_store *store, size_t tier) {
    sky_tier_stat s = {0};
    sky_cache_stat(store->cache, tier, &s);
    return json_pack(
        "{s:b, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "failing", s.failing, "url",
        cli_json_text(s.url), "note", cli_json_text(s.note), "entries",
        (json_int_t)cli_store_metric(store, tier, SKY_METRIC_TIER_ENTRIES), "bytes_used",
        (json_int_t)cli_store_metric(store, tier, SKY_METRIC_TIER_BYTES_USED), "bytes_max",
        (json_int_t)cli_store_metric(store, tier, SKY_METRIC_TIER_BYTES_MAX), "errors",
        (json_int_t)cli_store_metric(store, tier, SKY_METRIC_TIER_ERRORS), "dropped",
        (json_int_t)cli_store_metric(store, tier, SKY_METRIC_TIER_DROPPED));
}

/* Of a daemon's tier: the same of what it says. */
static json_t *told_row(const json_t *told) {
    static const char *const fields[] = {"failing",    "url",       "note",   "entries",
                                         "bytes_used", "bytes_max", "errors", "dropped"};
    json_t *row = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (json_object_get(told, fields[i]))
            json_object_set(row, fields[i], json_object_get(told, fields[i]));
    return row;
}

/* ---- a probe ---- */

static sky_status probe_op(const cli_store *store, uint32_t tiers, sky_op op, sky_item *item) {
    const sky_call call = {.tiers = tiers,
                           .durable = true,
                           .no_touch = true,
                           .deadline_ns = sky_now() + SKY_SECONDS(10)};
    return cli_one(store, op, item, &call);
}

/* Put a value, get it back, remove it; a daemon keeps what was read in its arena too. */
static sky_status probe_tier(const cli_store *store, size_t tier) {
    static const sky_namespace general = {{0}};
    char name[64], out[64] = "", back[sizeof out];
    snprintf(name, sizeof name, "skymem/health/%d", (int)getpid());
    snprintf(out, sizeof out, "%lld", (long long)sky_now());
    sky_span span = {out, sizeof out};
    sky_item item = {.name = name, .name_bytes = strlen(name), .spans = &span, .span_count = 1};
    sky_status status = sky_name_key(&general, name, strlen(name), &item.key);
    if (status == SKY_OK)
        status = probe_op(store, 1u << tier, SKY_OP_PUT, &item);
    if (status != SKY_OK)
        return status;
    span.data = back;
    status = probe_op(store, 1u << tier, SKY_OP_GET, &item);
    if (status == SKY_OK && (item.bytes != sizeof out || memcmp(out, back, sizeof out) != 0))
        status = SKY_E_CORRUPT;
    sky_status removed = probe_op(store, 1u << tier, SKY_OP_REMOVE, &item);
    if (tier > 0)
        (void)probe_op(store, 1, SKY_OP_REMOVE, &item); /* how that goes is its own probe's */
    return status == SKY_OK ? removed : status;
}

/* The result goes into the row; told: of a daemon's tier. */
static void add_probe(const cli_store *store, size_t tier, bool told, json_t *row) {
    char why[CLI_WHY_BYTES];
    sky_time began = sky_now();
    sky_status status = probe_tier(store, tier);
    json_object_set_new(row, "probe_ms", json_real(cli_ms(sky_now() - began)));
    if (status == SKY_OK)
        return;
    if (told)
        snprintf(why, sizeof why, "%s", sky_status_text(status));
    else
        cli_tier_says(store, tier, status, why, sizeof why);
    json_object_set_new(row, "failing", json_true());
    json_object_set_new(row, "note", cli_json_utf8(why, strlen(why)));
}

/* ---- the answer ---- */

static json_int_t integer_of(const json_t *row, const char *field) {
    return json_integer_value(json_object_get(row, field));
}

static const char *text_of(const json_t *row, const char *field) {
    const char *text = json_string_value(json_object_get(row, field));
    return text ? text : "";
}

static void print_people(const json_t *rows) {
    static const char *const head[] = {"TIER", "STATE", "ENTRIES", "USED", "OF", "ERRORS", "NOTE"};
    cli_table table = {.columns = "llrrrrl"};
    char size[24];
    size_t i;
    const json_t *row;
    for (i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&table, "%s", head[i]);
    json_array_foreach(rows, i, row) {
        bool failing = json_is_true(json_object_get(row, "failing"));
        cli_table_cell(&table, "%s", text_of(row, "tier"));
        cli_table_cell(&table, "%s", failing ? "failing" : "ok");
        cli_table_cell(&table, "%lld", (long long)integer_of(row, "entries"));
        cli_table_cell(&table, "%s", cli_bytes_text((uint64_t)integer_of(row, "bytes_used"), size));
        cli_table_cell(&table, "%s", cli_bytes_text((uint64_t)integer_of(row, "bytes_max"), size));
        cli_table_cell(&table, "%lld", (long long)integer_of(row, "errors"));
        cli_table_cell(&table, "%s", text_of(row, "note"));
    }
    cli_table_print(&table, stdout);
}

static int report_rows(const cli *c, json_t *rows) {
    size_t i, failing = 0;
    const json_t *row;
    int code = CLI_OK;
    json_array_foreach(rows, i, row) {
        failing += json_is_true(json_object_get(row, "failing"));
    }
    if (c->json)
        code = cli_json_print(c, json_pack("{s:b, s:O}", "healthy", failing == 0, "tiers", rows));
    else
        print_people(rows);
    return code == CLI_OK && failing > 0 ? CLI_FAILED : code;
}

static int check_tiers(cli *c, const cli_store *store, const json_t *told, json_t *rows) {
    for (size_t i = 0; i < store->tier_count; i++) {
        const json_t *own = json_array_get(told, i); /* NULL: it is no daemon's */
        json_t *row = own ? told_row(own) : own_row(store, i);
        if (!row)
            return cli_failed(c, "out of memory");
        json_object_set_new(row, "tier", json_string(store->names[i]));
        if (cli_flag(c, "probe"))
            add_probe(store, i, own != NULL, row);
        json_array_append_new(rows, row);
    }
    return CLI_OK;
}

static int health_run(cli *c) {
    const char *socket = inside_socket(c);
    cli_store store = {0};
    json_t *said = NULL, *rows = json_array();
    int code = inside_open(c, &store);
    if (code == CLI_OK && socket)
        code = inside_ask(c, socket, &said);
    if (code == CLI_OK)
        code = check_tiers(c, &store, json_object_get(said, "tiers"), rows);
    if (code == CLI_OK)
        code = report_rows(c, rows);
    cli_store_close(&store);
    json_decref(rows);
    json_decref(said);
    return code;
}

const cli_verb cli_verb_health = {
    .name = "health",
    .summary = "Check that the tiers do their work",
    .synopsis = "",
    .about =
        "Each tier must open. Of a skymemd (--store shm:SOCKET) it must answer within 3 s, and "
        "none "
        "of its own tiers may be failing: one is when three requests failed in a row, until one "
        "succeeds. With --probe a value is put into each tier, read back and removed.",
    .settings = CLI_SET_STORE,
    .options =
        (const cli_option[]){
            {.name = "probe",
             .kind = CLI_FLAG,
             .help = "put, get and remove a value of 64 bytes in each tier"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem health --store shm:/run/skymemd.sock", "a running daemon and its tiers"},
            {"skymem health --probe --json --store disk:/var/cache/skymem",
             "can this folder be written and read?"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"healthy", "whether no tier is failing"},
            {"tiers", "per tier: tier, url, failing, note, entries, bytes_used, bytes_max, errors, "
                      "dropped; with --probe probe_ms"},
            {NULL, NULL},
        },
    .failed = "a tier is failing or does not open, or the daemon does not answer",
    .not_found = "the folder of the only store is not there",
    .run = health_run,
};
