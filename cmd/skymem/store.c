/* The hierarchy that --store names, and keys as people write them. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A tier is called by its scheme; a second of the same scheme gets a number. */
static void name_tiers(const char *const *urls, cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++) {
        int length = (int)strcspn(urls[i], ":"), same = 1;
        for (size_t j = 0; j < i; j++)
            same += strncmp(urls[i], urls[j], (size_t)length + 1) == 0;
        if (same == 1)
            snprintf(store->names[i], sizeof store->names[i], "%.*s", length, urls[i]);
        else
            snprintf(store->names[i], sizeof store->names[i], "%.*s-%d", length, urls[i], same);
    }
}

static bool is_usage(sky_status status) {
    return status == SKY_E_SYNTAX || status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
}

int cli_refused(const cli *c, sky_status status, const sky_error *error) {
    const char *why = error->text[0] ? error->text : sky_status_text(status);
    return is_usage(status)     ? cli_usage(c, "%s", why)
           : status == SKY_MISS ? cli_not_found(c, "%s", why)
                                : cli_failed(c, "%s", why);
}

int cli_scenario_read(const cli *c, const char *path, sky_constellation *constellation,
                      sky_placement *placement, sky_satellite *centre) {
    sky_error error = {0};
    sky_status status = sky_scenario_read(path, constellation, placement, centre, &error);
    return status == SKY_OK ? CLI_OK : cli_refused(c, status, &error);
}

static int store_opened(const cli *c, const char *const *urls, sky_status status,
                        const sky_error *error, cli_store *out) {
    if (status != SKY_OK) {
        out->cache = NULL;
        return cli_refused(c, status, error);
    }
    out->tier_count = sky_tier_count(out->cache);
    name_tiers(urls, out);
    return CLI_OK;
}

int cli_store_open_urls(const cli *c, const char *const *urls, size_t count, cli_store *out) {
    sky_error error = {0};
    memset(out, 0, sizeof *out);
    sky_status status = sky_cache_open(urls, count, &out->cache, &error);
    return store_opened(c, urls, status, &error, out);
}

/* The default disk tier lies in ~/.cache, which a fresh account may lack. */
static void make_cache_home(void) {
    char home[4000];
    if (!cli_cache_home(home, sizeof home))
        return;
    for (char *p = strchr(home + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(home, 0700);
        *p = '/';
    }
    mkdir(home, 0700);
}

/* Leave out the tiers that do not open, and say so; fine as long as one is left that outlives the
 * process. A URL that is wrong is the user's to mend. */
static int open_the_others(cli *c, const char **urls, size_t count, cli_store *out) {
    size_t kept = 0, lasting = 0, refused = 0;
    sky_error errors[SKY_TIERS_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        sky_cache *alone;
        sky_status status = sky_cache_open(&urls[i], 1, &alone, &errors[refused]);
        if (status == SKY_OK) {
            sky_cache_close(alone);
            lasting += strncmp(urls[i], "mem:", 4) != 0;
            urls[kept++] = urls[i];
        } else if (is_usage(status)) {
            return cli_refused(c, status, &errors[refused]);
        } else {
            refused++;
        }
    }
    if (lasting == 0)
        return cli_refused(c, errors[0].status, &errors[0]);
    for (size_t i = 0; i < refused; i++)
        cli_note(c, "%s; going on without it", errors[i].text);
    return cli_store_open_urls(c, urls, kept, out);
}

/* The URL with one more setting. */
static const char *with_setting(const char *url, const char *key, const char *value, char *room,
                                size_t room_bytes) {
    snprintf(room, room_bytes, "%s%c%s=%s", url, strchr(url, '?') ? '&' : '?', key, value);
    return room;
}

static bool says(const char *url, const char *key) {
    const char *at = strchr(url, '?');
    for (; at; at = strchr(at + 1, '&'))
        if (strncmp(at + 1, key, strlen(key)) == 0 && at[1 + strlen(key)] == '=')
            return true;
    return false;
}

/* --level, where it was given, in the URL of a tier that may have one and has none of its own. */
static const char *with_level(cli *c, const char *url, char *room, size_t room_bytes) {
    const cli_value *level = cli_find(c, "level");
    if (!level || level->origin == CLI_FROM_DEFAULT || strncmp(url, "mem:", 4) == 0 ||
        says(url, "level"))
        return url;
    return with_setting(url, "level", level->texts[0], room, room_bytes);
}

/* A verb that only looks must not make a cache out of a mistyped path. */
static const char *with_create(const cli *c, const char *url, char *room, size_t room_bytes) {
    if (c->verb->makes_folders || strncmp(url, "disk:", 5) != 0 || says(url, "create"))
        return url;
    return with_setting(url, "create", "no", room, room_bytes);
}

/* How many of the default tiers to open: a cache that was never made is an empty one, not an error,
 * and without a home there is none. */
static size_t default_count(const cli *c, const cli_value *v) {
    char home[4000], folder[4096];
    if (v->count == 1)
        cli_note(c, "neither HOME nor XDG_CACHE_HOME is set and the account has no home: "
                    "nothing outlives this process; name a folder with --store disk:PATH");
    if (v->count == 1 || c->verb->makes_folders) {
        make_cache_home();
        return v->count;
    }
    snprintf(folder, sizeof folder, "%s/skymem", cli_cache_home(home, sizeof home));
    return access(folder, F_OK) == 0 || errno != ENOENT ? v->count : 1;
}

int cli_store_open(cli *c, cli_store *out) {
    static char rooms[SKY_TIERS_MAX][2][4400];
    const char *urls[SKY_TIERS_MAX];
    const cli_value *v = cli_find(c, "store");
    size_t count = v->origin == CLI_FROM_DEFAULT ? default_count(c, v) : v->count;
    for (size_t i = 0; i < count; i++) {
        urls[i] = with_level(c, v->texts[i], rooms[i][0], sizeof rooms[i][0]);
        urls[i] = with_create(c, urls[i], rooms[i][1], sizeof rooms[i][1]);
    }
    sky_error error = {0};
    sky_status status = sky_cache_open(urls, count, &out->cache, &error);
    if (status != SKY_OK && !is_usage(status) && count > 1)
        return open_the_others(c, urls, count, out);
    return store_opened(c, urls, status, &error, out);
}

/* What was printed is the reader's before tiers are closed, however long that takes or ends. What
 * could not be written stays in the buffer: main tells why. */
void cli_store_close(cli_store *store) {
    fflush(stdout);
    sky_cache_close(store->cache);
    store->cache = NULL;
}

const char *cli_store_tier(const cli_store *store, uint8_t tier) {
    return tier < store->tier_count ? store->names[tier] : "none";
}

bool cli_store_lasts(const cli_store *store, size_t tier) {
    const char *name = store->names[tier];
    if (strncmp(name, "sky+udp", 7) == 0) /* its satellites are processes of their own */
        return true;
    return strncmp(name, "mem", 3) != 0 && strncmp(name, "sky", 3) != 0;
}

static int digit(char c) {
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
        int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->name[i / 2] = (uint8_t)(high << 4 | low);
    }
    out->name_bytes = digits / 2;
    return true;
}

int cli_salt(cli *c, uint8_t salt[SKY_SALT_BYTES]) {
    const cli_value *file = cli_find(c, "salt-file");
    sky_error error = {0};
    memset(salt, 0, SKY_SALT_BYTES);
    if (!file || file->count == 0)
        return CLI_OK;
    sky_status status = sky_salt_read(file->texts[0], salt, &error);
    return status == SKY_OK ? CLI_OK : cli_failed(c, "--salt-file: %s", error.text);
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

sky_status cli_one(const cli_store *store, sky_op op, sky_item *item, const sky_call *call) {
    sky_status status = sky_run(store->cache, op, item, 1, call);
    return status == SKY_OK ? item->status : status;
}

int cli_key_status(const cli *c, const cli_key *key, sky_status status) {
    switch (status) {
    case SKY_OK:
        return CLI_OK;
    case SKY_MISS:
        return cli_not_found(c, "%s: not found in any tier", key->shown);
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

/* Why a tier has no room, and what to do. */
static const char *fullness(const cli_store *store, size_t tier, const sky_tier_stat *stat) {
    const char *name = store->names[tier];
    bool memory = strncmp(name, "mem", 3) == 0;
    pinned_sum pinned = {.tier = (uint8_t)tier};
    if (strncmp(name, "sky+udp", 7) == 0)
        return "no room: this tenant's share of the satellites is full of what it pinned; unpin "
               "something, or give the satellites more memory";
    if (strncmp(name, "sky", 3) == 0)
        return "no room; give its satellites more memory";
    if (stat->bytes_max > 0 && store->put_bytes > stat->bytes_max)
        return memory ? "no room: the value is larger than all of it; give it more memory"
                      : "no room: the value is larger than its max; raise that";
    if (sky_list(store->cache, add_pinned, &pinned) == SKY_OK && pinned.bytes > 0 &&
        pinned.bytes + store->put_bytes > stat->bytes_max)
        return "no room beside what is pinned; unpin something, or give it more";
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
static const char *meaning(const cli_store *store, size_t tier, const sky_tier_stat *stat,
                           sky_status status) {
    bool sky = strncmp(store->names[tier], "sky", 3) == 0;
    switch (status) {
    case SKY_MISS:
    case SKY_E_CORRUPT:
        return "what it stored came back damaged or not at all";
    case SKY_E_FULL:
        return fullness(store, tier, stat);
    case SKY_E_DENIED:
        return is_read_only(stat)
                   ? "its file system is mounted read-only; name a folder elsewhere"
                   : "permission denied; mend the rights of this folder or name another";
    case SKY_E_IO:
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

/* Who of a real sky is silent, and why as far as can be told. */
static void silence(const cli_store *store, size_t tier, const sky_tier_stat *stat, char *out,
                    size_t out_bytes) {
    const char *at = strchr(stat->url, ':') + 1;
    sky_sky_report r = {0};
    char path[sizeof stat->url], advice[CLI_WHY_BYTES / 2];
    char who[80] = "its satellites do not answer";
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, "?"), at);
    sky_cache_sky_report(store->cache, tier, &r);
    if (r.silent == 1)
        snprintf(who, sizeof who, "satellite %u,%u does not answer", r.silent_one.plane,
                 r.silent_one.slot);
    else if (r.silent > 1)
        snprintf(who, sizeof who, "%u satellites do not answer, such as %u,%u", r.silent,
                 r.silent_one.plane, r.silent_one.slot);
    cli_silence_advice(path, &r, advice, sizeof advice);
    snprintf(out, out_bytes, "%.*s: %s; %s", (int)strcspn(stat->url, "?"), stat->url, who, advice);
}

void cli_tier_says(const cli_store *store, size_t tier, sky_status status, char *out,
                   size_t out_bytes) {
    sky_tier_stat stat = {0};
    sky_cache_stat(store->cache, tier, &stat);
    if (strncmp(store->names[tier], "sky+udp", 7) == 0 && status == SKY_E_IO)
        silence(store, tier, &stat, out, out_bytes);
    else
        snprintf(out, out_bytes, "%.*s: %s", (int)strcspn(stat.url, "?"), stat.url,
                 meaning(store, tier, &stat, status));
}

/* The only tier beyond memory; SKY_TIER_NONE when there are more, or none. */
static size_t only_far_tier(const cli_store *store) {
    size_t found = SKY_TIER_NONE;
    for (size_t i = 0; i < store->tier_count; i++) {
        if (strncmp(store->names[i], "mem", 3) == 0)
            continue;
        if (found != SKY_TIER_NONE)
            return SKY_TIER_NONE;
        found = i;
    }
    return found;
}

/* The tier that something failed in; SKY_TIER_NONE when nothing tells. */
static size_t tier_to_blame(const cli_store *store, sky_status status) {
    if (status != SKY_E_IO && status != SKY_E_DENIED)
        return SKY_TIER_NONE;
    for (size_t i = 0; i < store->tier_count; i++) {
        sky_tier_stat stat = {0};
        sky_cache_stat(store->cache, i, &stat);
        if (stat.errors > 0)
            return i;
    }
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
        if (strncmp(store->names[i], "sky+udp", 7) != 0)
            continue;
        sky_cache_stat(store->cache, i, &stat);
        if (stat.corrupt == 0)
            continue;
        cli_not_found(c,
                      "%s: found in %.*s, but what came does not open under udp.tenant: it is "
                      "damaged, or a satellite answers with other bytes",
                      key->shown, (int)strcspn(stat.url, "?"), stat.url);
        return true;
    }
    return false;
}

int cli_key_failed(const cli *c, const cli_store *store, size_t tier, const cli_key *key,
                   sky_status status) {
    char why[CLI_WHY_BYTES];
    if (tier == SKY_TIER_NONE)
        tier = tier_to_blame(store, status);
    if (status == SKY_MISS && tier == SKY_TIER_NONE && stays_shut(c, store, key))
        return CLI_NOT_FOUND;
    if (status == SKY_OK || tier == SKY_TIER_NONE)
        return cli_key_status(c, key, status);
    cli_tier_says(store, tier, status, why, sizeof why);
    return cli_failed(c, "%s: %s", key->shown, why);
}

int cli_refuse_unlisted(const cli *c, const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++)
        if (strncmp(store->names[i], "sky+udp", 7) == 0)
            return cli_failed(c,
                              "%s: satellites cannot be listed, so nothing is known here that "
                              "could be removed: skymem rm takes single keys, and skymem "
                              "constellation down ends the satellites with all they hold",
                              store->names[i]);
    return CLI_OK;
}

void cli_note_unlisted(const cli *c, const cli_store *store) {
    for (size_t i = 0; i < store->tier_count; i++)
        if (strncmp(store->names[i], "sky+udp", 7) == 0)
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
        code = op == SKY_OP_UNPIN && status == SKY_E_PARAM
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
