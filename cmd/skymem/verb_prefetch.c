/* skymem prefetch: bring values to the nearest tier, or in a sky to where they will be overhead,
 * before they are asked for. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "key.h"

typedef struct {
    size_t fetched;
    uint64_t bytes;
    json_t *missing;
} prefetched;

static int prefetch_one(cli *c, const cli_store *store, const char *text, const sky_call *call,
                        prefetched *sum) {
    cli_key key;
    int code = cli_key_parse(c, text, &key);
    if (code != CLI_OK)
        return code;
    sky_item item = cli_key_item(&key);
    sky_status status = cli_one(store, SKY_OP_PREFETCH, &item, call);
    code = cli_key_failed(c, store, SKY_TIER_NONE, &key, status);
    if (code == CLI_NOT_FOUND) {
        json_array_append_new(sum->missing, json_string(key.shown));
        code = CLI_OK;
    } else if (code == CLI_OK) {
        sky_item there = {.key = key.key};
        const sky_call nearest = {.tiers = call->at_ms ? 0 : 1};
        sum->fetched++;
        if (cli_one(store, SKY_OP_HAS, &there, &nearest) == SKY_OK)
            sum->bytes += there.bytes;
    }
    cli_key_free(&key);
    return code;
}

static int prefetch_report(cli *c, const prefetched *sum) {
    size_t missing = json_array_size(sum->missing);
    char size[24];
    if (!c->json) {
        printf("%zu of %zu key%s %s, %s\n", sum->fetched, c->argument_count,
               cli_plural(c->argument_count),
               cli_given(c, "at") ? "where they will be overhead" : "in the nearest tier",
               cli_bytes_text(sum->bytes, size));
        return missing ? CLI_NOT_FOUND : CLI_OK;
    }
    int code = cli_json_print(c, json_pack("{s:I, s:I, s:I, s:O}", "keys",
                                           (json_int_t)c->argument_count, "fetched",
                                           (json_int_t)sum->fetched, "bytes",
                                           (json_int_t)sum->bytes, "missing", sum->missing));
    return code == CLI_OK && missing ? CLI_NOT_FOUND : code;
}

/* A time in UTC as 2026-11-21T15:00:00Z, or +SECONDS from now; not one that is past. */
static bool time_of(const char *text, int64_t *ms) {
    struct timespec clock;
    struct tm tm = {0};
    char *end;
    clock_gettime(CLOCK_REALTIME, &clock);
    int64_t now_ms = (int64_t)clock.tv_sec * 1000 + clock.tv_nsec / 1000000;
    if (text[0] == '+') {
        double seconds = strtod(text + 1, &end);
        if (end == text + 1 || *end || !(seconds >= 0 && seconds < 1e9))
            return false;
        *ms = now_ms + (int64_t)(seconds * 1e3);
        return true;
    }
    end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (!end || *end)
        return false;
    *ms = (int64_t)timegm(&tm) * 1000;
    return *ms >= now_ms;
}

static bool has_sky(const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++)
        if (cli_store_is(store, i, SKY_TIER_SKY))
            return true;
    return false;
}

static int prefetch_run(cli *c) {
    cli_store store = {0};
    prefetched sum = {.missing = json_array()};
    sky_call call = {0};
    int code = CLI_OK;
    if (cli_given(c, "at") && !time_of(cli_text(c, "at"), &call.at_ms))
        code = cli_usage(
            c, "--at %s: a time to come, in UTC such as 2026-11-21T15:00:00Z, or +SECONDS",
            cli_text(c, "at"));
    if (cli_given(c, "deadline-ms"))
        call.deadline_ns = sky_now() + (sky_time)(cli_number(c, "deadline-ms") * 1e6);
    if (code == CLI_OK)
        code = cli_store_open_by(c, call.deadline_ns, &store);
    if (code == CLI_OK && cli_given(c, "at") && !has_sky(&store))
        code = cli_usage(c, "--at is for a tier in the sky: no --store is sky: or sky+udp:");
    for (size_t i = 0; i < c->argument_count && code == CLI_OK; i++)
        code = prefetch_one(c, &store, c->arguments[i], &call, &sum);
    if (code == CLI_OK)
        code = prefetch_report(c, &sum);
    cli_store_close(&store);
    json_decref(sum.missing);
    return code;
}

const cli_verb cli_verb_prefetch = {
    .name = "prefetch",
    .summary = "Bring values to the nearest tier",
    .synopsis = "KEY...",
    .about = "This copies values into the nearest tier. It helps when that tier outlives the "
             "command, such as a fast disk before a slow one.\n"
             "With --at, tiers in the sky move the values to the satellites that will be "
             "overhead then. The values stay readable throughout.",
    .settings = CLI_SET_KEYS | CLI_SET_DEADLINE,
    .makes_folders = true,
    .options =
        (const cli_option[]){
            CLI_OPTION_AS,
            {.name = "at",
             .kind = CLI_TEXT,
             .value = "TIME",
             .help = "when they will be wanted: 2026-11-21T15:00:00Z, or +SECONDS from now"},
            {.name = NULL}},
    .arguments_min = 1,
    .arguments_max = CLI_ARGUMENTS_MANY,
    .examples =
        (const cli_example[]){
            {"skymem prefetch a b --store disk:/nvme/cache --store disk:/mnt/archive",
             "copy two values from the archive to the fast disk"},
            {"skymem prefetch a --at +3600 --store sky+udp:constellation",
             "in an hour the satellites overhead will hold it"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"keys", "how many were asked for"},
            {"fetched", "how many are now in the nearest tier, or on their way"},
            {"bytes", "their size together"},
            {"missing", "keys that no tier has"},
            {NULL, NULL},
        },
    .not_found = "no tier has one of the keys; the others were fetched",
    .unavailable = true,
    .run = prefetch_run,
};
