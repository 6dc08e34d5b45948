/* The hierarchy that --store names. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cli_store_name(const char *const *urls, cli_store *store) {
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

/* Of real satellites that were never started the error names a file that nobody knows. What is
 * wrong in the URL or the scenario comes before that. */
static void explain_keys(const char *url, sky_error *error) {
    char path[4096], missing[4096];
    if (strncmp(url, "sky+udp:", 8) != 0 || is_usage(error->status))
        return;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(url + 8, "?"), url + 8);
    if (cli_keys_missing(path, missing, sizeof missing))
        snprintf(error->text, sizeof error->text,
                 "%.180s: no such key file; 'skymem constellation up %.180s' makes the keys and "
                 "starts the satellites",
                 missing, path);
}

static int store_opened(const cli *c, const char *const *urls, size_t count, sky_status status,
                        sky_error *error, cli_store *out) {
    if (status != SKY_OK) {
        out->cache = NULL;
        if (count == 1)
            explain_keys(urls[0], error);
        return cli_refused(c, status, error);
    }
    out->tier_count = sky_tier_count(out->cache);
    cli_store_name(urls, out);
    for (size_t i = 0; i < out->tier_count; i++)
        out->traits[i] = sky_tier_traits(out->cache, i);
    return CLI_OK;
}

int cli_store_open_urls(const cli *c, const char *const *urls, size_t count, cli_store *out) {
    sky_error error = {0};
    memset(out, 0, sizeof *out);
    sky_status status = sky_cache_open(urls, count, &out->cache, &error);
    return store_opened(c, urls, count, status, &error, out);
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

/* The URL gets one more setting. */
static bool add_setting(char **url, const char *key, const char *value) {
    char *longer = NULL;
    if (asprintf(&longer, "%s%c%s=%s", *url, strchr(*url, '?') ? '&' : '?', key, value) < 0)
        return false;
    free(*url);
    *url = longer;
    return true;
}

static bool url_says(const char *url, const char *key) {
    const char *at = strchr(url, '?');
    for (; at; at = strchr(at + 1, '&'))
        if (strncmp(at + 1, key, strlen(key)) == 0 && at[1 + strlen(key)] == '=')
            return true;
    return false;
}

/* Another host does not answer. */
static bool is_away(const char *url, sky_status status) {
    return strncmp(url, "skymem:", 7) == 0 && !url_says(url, "away") &&
           (status == SKY_E_IO || status == SKY_E_DEADLINE || status == SKY_E_UNAVAILABLE);
}

/* Leave out the tiers that do not open, and say so; fine as long as one is left that outlives the
 * process. What a host that is away holds is not known, and so is not absent: it stays, and is
 * tried again. A URL that is wrong is the user's to mend. */
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
        } else if (is_away(urls[i], status)) {
            char **url = &cli_find(c, "store")->texts[i];
            if (!add_setting(url, "away", "later"))
                return cli_refused(c, SKY_E_NOMEM, &(sky_error){0});
            urls[kept++] = *url;
            refused++;
        } else {
            explain_keys(urls[i], &errors[refused]);
            refused++;
        }
    }
    if (lasting == 0)
        return cli_refused(c, errors[0].status, &errors[0]);
    for (size_t i = 0; i < refused; i++)
        cli_note(c, "%s; going on without it", errors[i].text);
    return cli_store_open_urls(c, urls, kept, out);
}

/* --level, where it was given, for a tier that may have one and has none of its own. */
static bool add_level(cli *c, char **url) {
    const cli_value *level = cli_find(c, "level");
    if (!level || level->origin == CLI_FROM_DEFAULT || strncmp(*url, "mem:", 4) == 0 ||
        url_says(*url, "level"))
        return true;
    return add_setting(url, "level", level->texts[0]);
}

/* The URL without a setting. */
static void drop_setting(char *url, const char *key) {
    for (char *at = strchr(url, '?'); at; at = strchr(at + 1, '&')) {
        if (strncmp(at + 1, key, strlen(key)) != 0 || at[1 + strlen(key)] != '=')
            continue;
        char *next = strchr(at + 1, '&');
        memmove(next ? at + 1 : at, next ? next + 1 : "", next ? strlen(next) : 1);
        return;
    }
}

int cli_store_open_by(cli *c, sky_time deadline_ns, cli_store *out) {
    cli_value *v = cli_find(c, "store");
    for (size_t i = 0; deadline_ns != 0 && i < v->count; i++) {
        if (strncmp(v->texts[i], "skymem:", 7) != 0)
            continue;
        drop_setting(v->texts[i], "away");
        if (!add_setting(&v->texts[i], "away", "later"))
            return cli_refused(c, SKY_E_NOMEM, &(sky_error){0});
    }
    return cli_store_open(c, out);
}

/* A verb that only looks must not make a cache out of a mistyped path. */
static bool add_create(const cli *c, char **url) {
    if (c->verb->makes_folders || strncmp(*url, "disk:", 5) != 0 || url_says(*url, "create"))
        return true;
    return add_setting(url, "create", "no");
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
    const char *urls[SKY_TIERS_MAX];
    cli_value *v = cli_find(c, "store");
    size_t count = v->origin == CLI_FROM_DEFAULT ? default_count(c, v) : v->count;
    for (size_t i = 0; i < count; i++) {
        if (!add_level(c, &v->texts[i]) || !add_create(c, &v->texts[i]))
            return cli_refused(c, SKY_E_NOMEM, &(sky_error){0});
        urls[i] = v->texts[i];
    }
    sky_error error = {0};
    sky_status status = sky_cache_open(urls, count, &out->cache, &error);
    if (status != SKY_OK && !is_usage(status) && count > 1)
        return open_the_others(c, urls, count, out);
    return store_opened(c, urls, count, status, &error, out);
}

/* What was printed is the reader's before tiers are closed, however long that takes or ends. */
void cli_store_close(cli_store *store) {
    cli_flush();
    sky_cache_close(store->cache);
    store->cache = NULL;
}

const char *cli_store_tier(const cli_store *store, uint8_t tier) {
    return tier < store->tier_count ? store->names[tier] : "none";
}

bool cli_store_is(const cli_store *store, size_t tier, uint32_t traits) {
    return (store->traits[tier] & traits) == traits;
}

bool cli_store_lasts(const cli_store *store, size_t tier) {
    return !cli_store_is(store, tier, SKY_TIER_VOLATILE);
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

sky_status cli_one(const cli_store *store, sky_op op, sky_item *item, const sky_call *call) {
    sky_status status = sky_run(store->cache, op, item, 1, call);
    return status == SKY_OK ? item->status : status;
}
