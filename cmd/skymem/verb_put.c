/* skymem put: store a value under a key in every tier. */
#include "key.h"

#include <string.h>
#include <sys/stat.h>

#define OLDER_MAY_BE_LEFT "stored, but an older value may be left"

/* What became of the value in each tier. */
typedef struct {
    sky_status tiers[SKY_TIERS_MAX];
    uint64_t evicted[SKY_TIERS_MAX]; /* entries that went meanwhile, to make room */
    bool lacks[SKY_TIERS_MAX];       /* fewer copies or less parity than asked */
    size_t older;                    /* SKY_TIER_NONE, or the tier that may keep an older value */
    uint32_t chunks;                 /* in which it flew, where a sky holds it; else 1 */
    uint64_t version;                /* of a value that a sky stored; 0: it keeps none */
} placed;

static bool is_memory(const cli_store *store, size_t tier) {
    return cli_store_is(store, tier, SKY_TIER_SYNCHRONOUS);
}

static uint64_t evictions_of(const cli_store *store, size_t tier) {
    return sky_cache_metric(store->cache, tier, SKY_METRIC_TIER_EVICTIONS);
}

static uint64_t short_puts(const cli_store *store, size_t tier) {
    return cli_store_is(store, tier, SKY_TIER_SKY)
               ? sky_cache_metric(store->cache, tier, SKY_METRIC_SESSION_PUTS_SHORT)
               : 0;
}

/* One tier alone, so that each tells how it went. */
static sky_status put_item(const cli_store *store, size_t tier, const cli_key *key,
                           const cli_blob *value, sky_call call, uint64_t *version) {
    sky_span span = {value->data, value->bytes};
    sky_item item = cli_key_item(key);
    item.spans = &span;
    item.span_count = 1;
    call.tiers = 1u << tier;
    sky_status status = cli_one(store, SKY_OP_PUT, &item, &call);
    *version = item.version ? item.version : *version;
    return status;
}

/* In the tier that decides, and nowhere else. */
static int put_if_version(const cli *c, const cli_store *store, const cli_key *key,
                          const cli_blob *value, uint64_t version, placed *out) {
    size_t tier = cli_version_tier(c, store);
    sky_span span = {value->data, value->bytes};
    sky_item item = cli_key_item(key);
    *out = (placed){.chunks = 1, .older = SKY_TIER_NONE};
    if (tier == SKY_TIER_NONE)
        return CLI_FAILED;
    item.spans = &span;
    item.span_count = 1;
    for (size_t i = 0; i < store->tier_count; i++)
        out->tiers[i] = SKY_E_UNSUPPORTED;
    const sky_call call = {.durable = true, .tiers = 1u << tier, .if_version = version};
    uint64_t short_before = short_puts(store, tier);
    out->tiers[tier] = cli_one(store, SKY_OP_PUT, &item, &call);
    out->lacks[tier] = short_puts(store, tier) > short_before;
    if (out->tiers[tier] == SKY_E_CONFLICT)
        return cli_key_conflict(c, key, &item);
    if (out->tiers[tier] != SKY_OK)
        return cli_key_failed(c, store, tier, key, out->tiers[tier]);
    out->version = item.version;
    cli_drop_elsewhere(store, key, tier);
    return CLI_OK;
}

/* A sky that says it stored the value has shown nothing yet: only reading it back does, in how many
 * chunks it flew, and how long they took. */
static sky_status read_back(const cli *c, const cli_store *store, const cli_key *key, size_t tier,
                            uint64_t bytes, uint32_t *chunks) {
    sky_span skip = {NULL, (size_t)bytes};
    sky_item item = {.key = key->key, .spans = &skip, .span_count = 1};
    const sky_call call = {.tiers = 1u << tier};
    sky_sky_report r;
    sky_status status = cli_one(store, SKY_OP_GET, &item, &call);
    if (status == SKY_E_DST_SMALL) { /* ours has its size */
        cli_note(c, "%s: another value of this name came meanwhile", store->names[tier]);
        return SKY_OK;
    }
    if (status != SKY_OK || sky_cache_sky_report(store->cache, tier, &r) != SKY_OK)
        return status;
    char waiting[48] = "";
    if (r.session_ns >= SKY_MS(1))
        snprintf(waiting, sizeof waiting, ", waiting or rebuilding %.1f", cli_ms(r.session_ns));
    cli_note(c, "read back from %s in %.1f ms: light %.1f, links %.1f, satellites %.1f%s",
             store->names[tier], cli_ms(r.total_ns), cli_ms(r.light_ns), cli_ms(r.link_ns),
             cli_ms(r.processing_ns), waiting);
    *chunks = (uint32_t)r.chunks;
    return SKY_OK;
}

/* No get may find an older value of the name in a tier that did not take this one. SKY_TIER_NONE:
 * none is left; else the tier that may still have one. */
static size_t drop_older(const cli_store *store, const cli_key *key, const sky_status *tiers) {
    size_t left = SKY_TIER_NONE;
    for (size_t i = 0; key->name_bytes > 0 && i < store->tier_count; i++) {
        sky_item item = cli_key_item(key);
        const sky_call call = {.durable = true, .tiers = 1u << i};
        sky_status status = tiers[i] == SKY_OK ? SKY_OK
                                               : cli_one(store, SKY_OP_REMOVE, &item, &call);
        if (status != SKY_OK && status != SKY_MISS)
            left = i;
    }
    return left;
}

/* Stored is what a tier beyond memory took, or memory when there is nothing else. */
static int put_all(cli *c, cli_store *store, const cli_key *key, const cli_blob *value,
                   placed *out) {
    size_t failed = SKY_TIER_NONE, beyond = 0, stored = 0, in_memory = 0;
    *out = (placed){.chunks = 1, .older = SKY_TIER_NONE};
    store->put_bytes = value->bytes;
    store->put_ends = cli_count(c, "ttl") > 0;
    const sky_call call = {.durable = true,
                           .ttl_s = (uint32_t)cli_count(c, "ttl"),
                           .evict = (uint8_t)cli_find(c, "evict")->whole};
    for (size_t i = 0; i < store->tier_count; i++) {
        sky_status *status = &out->tiers[i];
        uint64_t before = evictions_of(store, i), short_before = short_puts(store, i);
        *status = put_item(store, i, key, value, call, &out->version);
        out->evicted[i] = evictions_of(store, i) - before;
        out->lacks[i] = short_puts(store, i) > short_before;
        if (*status == SKY_OK && cli_store_is(store, i, SKY_TIER_SKY))
            *status = read_back(c, store, key, i, value->bytes, &out->chunks);
        beyond += !is_memory(store, i);
        *(is_memory(store, i) ? &in_memory : &stored) += *status == SKY_OK;
        if (*status != SKY_OK && (failed == SKY_TIER_NONE || is_memory(store, failed)))
            failed = i;
    }
    bool sky = failed != SKY_TIER_NONE && cli_store_is(store, failed, CLI_REAL_SKY);
    if (stored == 0 && beyond > 0 && out->tiers[failed] == SKY_E_UNAVAILABLE && !sky)
        return cli_key_left(c, store, failed, key, OLDER_MAY_BE_LEFT); /* behind a daemon */
    if (stored == 0 && (beyond > 0 || in_memory == 0))
        return cli_key_failed(c, store, failed, key, out->tiers[failed]);
    out->older = drop_older(store, key, out->tiers);
    return CLI_OK;
}

/* One more of a list of names parted by commas. */
static void add_name(char *names, size_t names_bytes, const char *name) {
    size_t used = strlen(names);
    snprintf(names + used, names_bytes - used, "%s%s", used ? ", " : "", name);
}

static int put_report(const cli *c, const cli_store *store, const cli_key *key, uint64_t bytes,
                      const placed *p) {
    json_t *stored = json_array();
    uint64_t evicted = 0;
    char names[160] = "", size[24], why[CLI_WHY_BYTES], count[CLI_COUNT_TEXT_BYTES];
    bool lasting = false, lacks = false;
    for (size_t i = 0; i < store->tier_count; i++) {
        evicted += p->evicted[i];
        if (p->evicted[i] > 0)
            cli_note(c, "%s: %s evicted from %s to make room", key->shown,
                     cli_count_text(p->evicted[i], "entry was", "entries were", count),
                     store->names[i]);
        if (p->tiers[i] != SKY_OK && p->older == i) /* its own sentence follows */
            continue;
        if (p->tiers[i] != SKY_OK) {
            cli_tier_says(store, i, p->tiers[i], why, sizeof why);
            cli_note(c, "%s: not stored in %s: %s", key->shown, store->names[i], why);
            continue;
        }
        lacks = lacks || p->lacks[i];
        if (p->lacks[i])
            cli_note(c,
                     "%s: stored in %s with less redundancy than asked for: a satellite that "
                     "should hold a part of it did not answer",
                     key->shown, store->names[i]);
        json_array_append_new(stored, json_string(store->names[i]));
        add_name(names, sizeof names, store->names[i]);
        lasting = lasting || cli_store_lasts(store, i);
    }
    if (!lasting)
        cli_note(c,
                 "%s: held in this process only and gone with it; add --store disk:PATH to keep "
                 "it",
                 key->shown);
    if (c->json)
        return cli_json_print(c,
                              json_pack("{s:s, s:I, s:I, s:o, s:b, s:I, s:I}", "key", key->shown,
                                        "bytes", (json_int_t)bytes, "chunks", (json_int_t)p->chunks,
                                        "stored", stored, "short", lacks, "evicted",
                                        (json_int_t)evicted, "version", (json_int_t)p->version));
    json_decref(stored);
    printf("%s: %s in %s\n", key->shown, cli_bytes_text(bytes, size), names);
    return CLI_OK;
}

/* Standard input, a pipe, a device. */
static bool may_wait(const char *file) {
    struct stat st;
    return strcmp(file, "-") == 0 || (stat(file, &st) == 0 && !S_ISREG(st.st_mode));
}

static int put_run(cli *c) {
    cli_store store = {0};
    cli_blob value = {0};
    cli_key key;
    placed p;
    uint64_t version;
    int code = cli_if_version(c, &version);
    if (code == CLI_OK)
        code = cli_key_parse(c, c->arguments[0], &key);
    if (code != CLI_OK)
        return code;
    if (version && (key.name_bytes == 0 || cli_count(c, "ttl") > 0)) {
        cli_key_free(&key);
        return cli_usage(c, "--if-version: for a KEY with a name, without --ttl");
    }
    const char *file = c->argument_count > 1 ? c->arguments[1] : "-";
    bool late = may_wait(file);
    if (!late) /* no folder is made for a file that is not there */
        code = cli_blob_read(c, file, SKY_PAYLOAD_BYTES_MAX, &value);
    if (code == CLI_OK)
        code = cli_store_open(c, &store);
    if (code == CLI_OK && late) /* what may come is large: the store is known to be there */
        code = cli_blob_read(c, file, SKY_PAYLOAD_BYTES_MAX, &value);
    if (code == CLI_OK)
        code = version ? put_if_version(c, &store, &key, &value, version, &p)
                       : put_all(c, &store, &key, &value, &p);
    if (code == CLI_OK)
        code = put_report(c, &store, &key, value.bytes, &p);
    if (code == CLI_OK)
        cli_note_edited(c, &store);
    if (code == CLI_OK && p.older != SKY_TIER_NONE)
        code = cli_key_left(c, &store, p.older, &key, OLDER_MAY_BE_LEFT);
    cli_store_close(&store);
    cli_blob_free(&value);
    cli_key_free(&key);
    return code;
}

const cli_verb cli_verb_put = {
    .name = "put",
    .summary = "Store a value under a key",
    .synopsis = "KEY [FILE]",
    .about = "The value is all of FILE, or of standard input, at most 4294967295 bytes (one less "
             "than 4 GiB). It replaces the value of the key. The command returns when every tier "
             "has stored or refused it; "
             "on disk it is then safe against a crash.\n"
             "A value that a sky stored is read back at once. A tier that refused the value, or "
             "gave back another, is named on standard error, and drops what it had of the key. "
             "If it does not answer, it may keep an older value, and the command exits 4: put it "
             "again when it answers.",
    .settings = CLI_SET_KEYS,
    .makes_folders = true,
    .options =
        (const cli_option[]){
            {.name = "ttl",
             .kind = CLI_COUNT,
             .value = "SECONDS",
             .fallback = "0",
             .max = UINT32_MAX,
             .help = "forget the value after this time; 0: as the tier says",
             .detail = "Real satellites (sky+udp) keep no such time, so they refuse the value."},
            {.name = "evict",
             .kind = CLI_CHOICE,
             .value = "normal|soon|last",
             .fallback = "normal",
             .help = "when memory or a disk needs room: soon leaves first, last after all others",
             .detail = "The values of class last leave after all others as long as they take no "
                       "more than half of that memory or disk. Satellites know no classes."},
            CLI_OPTION_IF_VERSION,
            CLI_OPTION_AS,
            {.name = NULL},
        },
    .arguments_min = 1,
    .arguments_max = 2,
    .examples =
        (const cli_example[]){
            {"echo hello | skymem put greeting", "standard input, in the default tiers"},
            {"skymem put weights/7 layer7.bin --store disk:/mnt/cache?max=100GiB",
             "a file, in one folder"},
            {"skymem put scratch draft.bin --evict soon --store shm:/run/skymemd.sock",
             "what a daemon's memory may forget first"},
            {"skymem put --as hex 00ff value.bin", "a key of any bytes"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"key", "the key, bytes that do not print as \\xHH"},
            {"bytes", "size of the value"},
            {"chunks", "pieces it flies in when a sky holds it; else 1"},
            {"stored", "names of the tiers that hold it, nearest first"},
            {"short", "true if a sky stored it with fewer copies or less parity than asked for"},
            {"evicted", "entries that tiers gave up for it"},
            {"version", "of the value, where a tier keeps versions; else 0"},
            {NULL, NULL},
        },
    .failed = "the value cannot be read, no tier took it (one beyond memory where there is any), "
              "or another version is stored than --if-version says",
    .unavailable = true,
    .run = put_run,
};
