/* Keys as people write them, and what to say when an operation on one fails. */
#include "key.h"

#include "constellation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(const char *text, cli_key *out) {
    size_t digits = strlen(text);
    if (digits % 2 || digits > 2 * SKY_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < digits; i += 2) {
        int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->name[i / 2] = (uint8_t)(high << 4 | low);
    }
    out->name_bytes = digits / 2;
    return true;
}

int cli_key_parse(cli *c, const char *text, cli_key *out) {
    sky_namespace general = {{0}};
    uint8_t salt[SKY_SALT_BYTES];
    const char *as = cli_text(c, "as");
    memset(out, 0, sizeof *out);
    int code = cli_salt(c, salt);
    if (code != CLI_OK)
        return code;
    sky_namespace_salt(&general, salt);
    if (strcmp(as, "block") == 0) {
        if (sky_key_parse(text, &out->key) != SKY_OK)
            return cli_usage(c, "a block's key has 64 hexadecimal digits");
        out->shown = strdup(text);
        return out->shown ? CLI_OK : cli_failed(c, "out of memory");
    }
    if (strcmp(as, "hex") == 0) {
        if (!parse_hex(text, out))
            return cli_usage(c, "KEY must be up to %d bytes, two hexadecimal digits each",
                             SKY_NAME_BYTES_MAX);
    } else {
        out->name_bytes = strlen(text);
        if (out->name_bytes <= SKY_NAME_BYTES_MAX)
            memcpy(out->name, text, out->name_bytes);
    }
    if (sky_name_key(&general, out->name, out->name_bytes, &out->key) != SKY_OK)
        return cli_usage(c, "KEY has %zu bytes: 1 to %d are possible", out->name_bytes,
                         SKY_NAME_BYTES_MAX);
    out->shown = cli_escape(out->name, out->name_bytes);
    return out->shown ? CLI_OK : cli_failed(c, "out of memory");
}

void cli_key_free(cli_key *key) {
    free(key->shown);
    key->shown = NULL;
}

sky_item cli_key_item(const cli_key *key) {
    sky_item item = {.key = key->key};
    if (key->name_bytes) {
        item.name = (const char *)key->name;
        item.name_bytes = key->name_bytes;
    }
    return item;
}

int cli_if_version(cli *c, uint64_t *out) {
    const char *text = cli_given(c, "if-version") ? cli_text(c, "if-version") : "0";
    char *end;
    errno = 0;
    unsigned long long version = strtoull(text, &end, 10);
    bool number = text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
    bool none = strcmp(text, "none") == 0, given = cli_given(c, "if-version");
    *out = none ? SKY_VERSION_NONE : version;
    if (none || (number && version != SKY_VERSION_NONE && (version > 0 || !given)))
        return CLI_OK;
    return cli_usage(c, "--if-version %s: a version that get --json told, or none", text);
}

size_t cli_version_tier(const cli *c, const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++)
        if (cli_store_is(store, i, SKY_TIER_VERSIONS))
            return i;
    cli_failed(c, "--if-version: no tier here keeps versions; name a sky with a lookup other than "
                  "index, such as --store sky+udp:SCENARIO");
    return SKY_TIER_NONE;
}

void cli_drop_elsewhere(const cli_store *store, const cli_key *key, size_t tier) {
    const uint32_t others = ((1u << store->tier_count) - 1) & ~(1u << tier);
    sky_item item = cli_key_item(key);
    const sky_call call = {.durable = true, .tiers = others};
    if (others)
        cli_one(store, SKY_OP_REMOVE, &item, &call);
}

int cli_key_conflict(const cli *c, const cli_key *key, const sky_item *item) {
    if (item->version == 0)
        return cli_failed(c, "%s: nothing is stored, so nothing was changed", key->shown);
    return cli_failed(c, "%s: version %" PRIu64 " is stored, so nothing was changed", key->shown,
                      item->version);
}

int cli_key_status(const cli *c, const cli_key *key, sky_status status) {
    switch (status) {
    case SKY_OK:
        return CLI_OK;
    case SKY_MISS:
        return cli_not_found(c, "%s: not found in any tier", key->shown);
    case SKY_E_UNAVAILABLE:
        return cli_unavailable(c, "%s: %s", key->shown, sky_status_text(status));
    case SKY_E_CORRUPT:
        return cli_not_found(c, "%s: what was stored is damaged and was dropped; put it again",
                             key->shown);
    case SKY_E_FULL:
        return cli_failed(c,
                          "%s: no tier has room for it; raise a tier's size or add one with "
                          "--store",
                          key->shown);
    default:
        return cli_failed(c, "%s: %s", key->shown, sky_status_text(status));
    }
}

typedef struct {
    uint8_t tier;
    uint64_t bytes;
} pinned_sum;

static bool add_pinned(void *context, const sky_entry *entry) {
    pinned_sum *sum = context;
    sum->bytes += entry->pinned && entry->tier == sum->tier ? entry->bytes : 0;
    return true;
}

/* The tier is a daemon's store. */
static bool is_host(const sky_tier_stat *stat) {
    return strncmp(stat->url, "skymem:", 7) == 0 || strncmp(stat->url, "shm:", 4) == 0;
}

/* Why a tier has no room, and what to do. */
static const char *say_fullness(const cli_store *store, size_t tier, bool host) {
    bool memory = cli_store_is(store, tier, SKY_TIER_SYNCHRONOUS);
    uint64_t bytes_max = sky_cache_metric(store->cache, tier, SKY_METRIC_TIER_BYTES_MAX);
    pinned_sum pinned = {.tier = (uint8_t)tier};
    if (cli_store_is(store, tier, CLI_REAL_SKY) && bytes_max > 0 && store->put_bytes > bytes_max)
        return "no room: the value is larger than all that the satellites hold; give them more "
               "memory";
    if (cli_store_is(store, tier, CLI_REAL_SKY))
        return "no room: this tenant's share of the satellites is full of what it pinned; unpin "
               "something, or give the satellites more memory";
    if (cli_store_is(store, tier, SKY_TIER_SKY))
        return "no room; give its satellites more memory";
    if (host && bytes_max > 0 && store->put_bytes > bytes_max)
        return "no room: the value is larger than the memory of that store or pool; give it a "
               "larger mem:SIZE among the stores of its skymemd";
    if (bytes_max > 0 && store->put_bytes > bytes_max)
        return memory ? "no room: the value is larger than all of it; give it more memory"
                      : "no room: the value is larger than its max; raise that";
    if (sky_list(store->cache, add_pinned, &pinned) == SKY_OK && pinned.bytes > 0 &&
        pinned.bytes + store->put_bytes > bytes_max)
        return "no room besides what is pinned (to replace a pinned value takes room for both); "
               "unpin something, or give it more";
    if (host)
        return "no room; give it a larger mem:SIZE or max=SIZE among the stores of its skymemd, "
               "or free space on its file system";
    return memory ? "no room; give it more memory"
                  : "no room; raise its max, or free space on its file system";
}

static bool is_read_only(const sky_tier_stat *stat) {
    char path[sizeof stat->url];
    struct statvfs system;
    if (strncmp(stat->url, "disk:", 5) != 0)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(stat->url + 5, "?"), stat->url + 5);
    return statvfs(path, &system) == 0 && system.f_flag & ST_RDONLY;
}

/* What a tier means by a failure, and what to do. */
static const char *say_meaning(const cli_store *store, size_t tier, const sky_tier_stat *stat,
                               sky_status status) {
    bool sky = cli_store_is(store, tier, SKY_TIER_SKY);
    switch (status) {
    case SKY_MISS:
    case SKY_E_CORRUPT:
        return "what it stored came back damaged or not at all";
    case SKY_E_FULL:
        return say_fullness(store, tier, is_host(stat));
    case SKY_E_DENIED:
        return is_read_only(stat)
                   ? "its file system is mounted read-only; name a folder elsewhere"
                   : "permission denied; mend the rights of this folder or name another";
    case SKY_E_UNAVAILABLE:
    case SKY_E_IO:
        if (is_host(stat) && strstr(stat->note, "no answer"))
            return stat->note;
        if (is_host(stat))
            return "its host does not answer, or a store of that host failed; 'skymem health' "
                   "tells which";
        return sky ? "its satellites do not answer; are they up, and how much do its links lose?"
                   : "reading or writing failed; is the device sound?";
    case SKY_E_UNSUPPORTED:
        return sky && store->put_ends
                   ? "its satellites keep no time to live; put it without --ttl, "
                     "or in another tier"
                   : sky_status_text(status);
    default:
        return sky_status_text(status);
    }
}

/* The scenario's file of a sky tier. */
static void scenario_of(const sky_tier_stat *stat, char path[sizeof stat->url]) {
    const char *at = strchr(stat->url, ':') + 1;
    snprintf(path, sizeof stat->url, "%.*s", (int)strcspn(at, "?"), at);
}

bool cli_sky_scenario(const cli_store *store, size_t tier, char *out, size_t out_bytes) {
    sky_tier_stat stat = {0};
    char path[sizeof stat.url];
    if (!cli_store_is(store, tier, CLI_REAL_SKY))
        return false;
    sky_cache_stat(store->cache, tier, &stat);
    scenario_of(&stat, path);
    snprintf(out, out_bytes, "%s", path);
    return true;
}

void cli_note_edited(const cli *c, const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++) {
        char path[CLI_WHY_BYTES], words[CLI_WHY_BYTES];
        if (cli_sky_scenario(store, i, path, sizeof path) &&
            constellation_edited(path, words, sizeof words))
            cli_note(c, "%s", words);
    }
}

/* Who of a real sky is silent, and why as far as can be told. */
static void say_silence(const cli_store *store, size_t tier, const sky_tier_stat *stat, char *out,
                        size_t out_bytes) {
    sky_sky_report r = {0};
    char path[sizeof stat->url], advice[CLI_WHY_BYTES / 2];
    char who[80] = "its satellites do not answer";
    scenario_of(stat, path);
    sky_cache_sky_report(store->cache, tier, &r);
    if (r.silent == 1)
        snprintf(who, sizeof who, "satellite %u,%u does not answer", r.silent_one.plane,
                 r.silent_one.slot);
    else if (r.silent > 1)
        snprintf(who, sizeof who, "%u satellites do not answer, such as %u,%u", r.silent,
                 r.silent_one.plane, r.silent_one.slot);
    constellation_silence_advice(path, &r, advice, sizeof advice);
    snprintf(out, out_bytes, "%.*s: %s; %s", (int)strcspn(stat->url, "?"), stat->url, who, advice);
}

/* Of a URL without its query, which may have a secret; that of shm: has a pool. */
static int shown_bytes(const char *url) {
    return (int)(strncmp(url, "shm:", 4) == 0 ? strlen(url) : strcspn(url, "?"));
}

void cli_tier_says(const cli_store *store, size_t tier, sky_status status, char *out,
                   size_t out_bytes) {
    sky_tier_stat stat = {0};
    sky_cache_stat(store->cache, tier, &stat);
    if (cli_store_is(store, tier, CLI_REAL_SKY) &&
        (status == SKY_E_IO || status == SKY_E_UNAVAILABLE))
        say_silence(store, tier, &stat, out, out_bytes);
    else
        snprintf(out, out_bytes, "%.*s: %s", shown_bytes(stat.url), stat.url,
                 say_meaning(store, tier, &stat, status));
}

/* The only tier beyond memory; SKY_TIER_NONE when there are more, or none. */
static size_t only_far_tier(const cli_store *store) {
    size_t found = SKY_TIER_NONE;
    for (size_t i = 0; i < store->tier_count; i++) {
        if (cli_store_is(store, i, SKY_TIER_SYNCHRONOUS))
            continue;
        if (found != SKY_TIER_NONE)
            return SKY_TIER_NONE;
        found = i;
    }
    return found;
}

/* Failed, or one of its hosts does not answer. */
static bool is_failing(const cli_store *store, size_t tier) {
    sky_tier_stat stat = {0};
    sky_cache_stat(store->cache, tier, &stat);
    return stat.failing || (is_host(&stat) && strstr(stat.note, "no answer")) ||
           cli_store_metric(store, tier, SKY_METRIC_TIER_ERRORS) > 0;
}

/* The tier that something failed in; SKY_TIER_NONE when nothing tells. */
static size_t tier_to_blame(const cli_store *store, sky_status status) {
    if (status != SKY_E_IO && status != SKY_E_UNAVAILABLE && status != SKY_E_DENIED)
        return SKY_TIER_NONE;
    for (size_t i = 0; i < store->tier_count; i++)
        if (is_failing(store, i))
            return i;
    return only_far_tier(store);
}

void cli_failure_says(const cli_store *store, sky_status status, char *out, size_t out_bytes) {
    size_t tier = tier_to_blame(store, status);
    if (tier == SKY_TIER_NONE)
        snprintf(out, out_bytes, "%s", sky_status_text(status));
    else
        cli_tier_says(store, tier, status, out, out_bytes);
}

/* A key that is not there, but something came for it that does not open; says so, and where. */
static bool stays_shut(const cli *c, const cli_store *store, const cli_key *key) {
    for (size_t i = 0; i < store->tier_count; i++) {
        sky_tier_stat stat = {0};
        if (!cli_store_is(store, i, CLI_REAL_SKY))
            continue;
        if (sky_cache_metric(store->cache, i, SKY_METRIC_TIER_CORRUPT) == 0)
            continue;
        sky_cache_stat(store->cache, i, &stat);
        cli_not_found(c,
                      "%s: found in %.*s, but what came does not open under udp.tenant: it is "
                      "damaged, or a satellite answers with other bytes",
                      key->shown, (int)strcspn(stat.url, "?"), stat.url);
        return true;
    }
    return false;
}

/* The real sky whose satellites were silent until the deadline passed; SKY_TIER_NONE: none was. */
static size_t late_sky(const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++) {
        sky_sky_report r = {0};
        if (!cli_store_is(store, i, CLI_REAL_SKY))
            continue;
        sky_cache_sky_report(store->cache, i, &r);
        if (r.silent > 0 ||
            sky_cache_metric(store->cache, i, SKY_METRIC_TRANSPORT_MESSAGES_TAKEN) == 0)
            return i;
    }
    return SKY_TIER_NONE;
}

int cli_key_failed(const cli *c, const cli_store *store, size_t tier, const cli_key *key,
                   sky_status status) {
    char why[CLI_WHY_BYTES];
    size_t late = status == SKY_E_DEADLINE ? late_sky(store) : SKY_TIER_NONE;
    if (late != SKY_TIER_NONE) {
        cli_tier_says(store, late, SKY_E_UNAVAILABLE, why, sizeof why);
        return cli_unavailable(c, "%s: the deadline passed: %s", key->shown, why);
    }
    if (tier == SKY_TIER_NONE)
        tier = tier_to_blame(store, status);
    if (status == SKY_MISS && tier == SKY_TIER_NONE && stays_shut(c, store, key))
        return CLI_NOT_FOUND;
    if (status == SKY_OK || tier == SKY_TIER_NONE)
        return cli_key_status(c, key, status);
    cli_tier_says(store, tier, status, why, sizeof why);
    if (status == SKY_E_UNAVAILABLE)
        return cli_unavailable(c, "%s: %s", key->shown, why);
    return cli_failed(c, "%s: %s", key->shown, why);
}

int cli_key_left(const cli *c, const cli_store *store, size_t tier, const cli_key *key,
                 const char *done) {
    char why[CLI_WHY_BYTES];
    if (tier == SKY_TIER_NONE)
        cli_failure_says(store, SKY_E_UNAVAILABLE, why, sizeof why);
    else
        cli_tier_says(store, tier, SKY_E_UNAVAILABLE, why, sizeof why);
    return cli_unavailable(c, "%s: %s: %s", key->shown, done, why);
}

int cli_refuse_unlisted(const cli *c, const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++)
        if (cli_store_is(store, i, SKY_TIER_UNLISTED))
            return cli_failed(c,
                              "%s: satellites cannot be listed, so nothing is known here that "
                              "could be removed: skymem rm takes single keys, and skymem "
                              "constellation down ends the satellites with all they hold",
                              store->names[i]);
    return CLI_OK;
}

void cli_note_unlisted(const cli *c, const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++)
        if (cli_store_is(store, i, SKY_TIER_UNLISTED))
            cli_note(c,
                     "%s: satellites cannot be listed, so only what this process put or found is "
                     "known here; skymem stat --satellites counts their chunks",
                     store->names[i]);
}

int cli_with_key(cli *c, int (*work)(cli *c, const cli_store *store, const cli_key *key)) {
    cli_store store = {0};
    cli_key key;
    int code = cli_key_parse(c, c->arguments[0], &key);
    if (code != CLI_OK)
        return code;
    code = cli_store_open(c, &store);
    if (code == CLI_OK)
        code = work(c, &store, &key);
    cli_store_close(&store);
    cli_key_free(&key);
    return code;
}

/* A removal or pin of which some satellites do not know, as they did not answer: says how far it
 * came. */
static bool is_partly_done(const cli *c, const cli_store *store, const cli_key *key, sky_op op,
                           const char *done) {
    static const char *const then[] = {
        [SKY_OP_REMOVE] = "when they answer again, satellites that hold other copies have them "
                          "drop theirs, for an hour; later ones go when room is needed",
        [SKY_OP_PIN] = "pin it again when they answer",
        [SKY_OP_UNPIN] = "unpin it again when they answer"};
    for (size_t i = 0; i < store->tier_count; i++) {
        sky_sky_report r = {0};
        if (!cli_store_is(store, i, CLI_REAL_SKY) ||
            sky_cache_sky_report(store->cache, i, &r) != SKY_OK || r.unheard_chunks == 0 ||
            r.unheard_chunks == r.told_chunks)
            continue;
        cli_unavailable(c,
                        "%s: %s but for %" PRIu32 " of %" PRIu32
                        " chunks, copies counted, on satellites that do not answer; %s",
                        key->shown, done, r.unheard_chunks, r.told_chunks, then[op]);
        return true;
    }
    size_t tier = tier_to_blame(store, SKY_E_UNAVAILABLE);
    bool sky = tier != SKY_TIER_NONE && cli_store_is(store, tier, CLI_REAL_SKY);
    if (op == SKY_OP_REMOVE && !sky)
        cli_key_left(c, store, tier, key, "removed, but not everywhere");
    return op == SKY_OP_REMOVE && !sky;
}

int cli_key_verb(cli *c, sky_op op, const char *done) {
    cli_store store = {0};
    cli_key key;
    int code = cli_key_parse(c, c->arguments[0], &key);
    if (code != CLI_OK)
        return code;
    code = cli_store_open(c, &store);
    if (code == CLI_OK) {
        sky_item item = cli_key_item(&key);
        const sky_call call = {.durable = true};
        sky_status status = cli_one(&store, op, &item, &call);
        bool partly = status == SKY_E_UNAVAILABLE && is_partly_done(c, &store, &key, op, done);
        code = partly ? CLI_UNAVAILABLE
               : op == SKY_OP_UNPIN && status == SKY_E_PARAM
                   ? cli_failed(c, "%s: is not pinned", key.shown)
                   : cli_key_failed(c, &store, SKY_TIER_NONE, &key, status);
    }
    if (code == CLI_OK && c->json)
        code = cli_json_print(c, json_pack("{s:s, s:b}", "key", key.shown, done, true));
    else if (code == CLI_OK)
        printf("%s: %s\n", key.shown, done);
    cli_store_close(&store);
    cli_key_free(&key);
    return code;
}
