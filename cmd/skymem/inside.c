#include "inside.h"

#include <stdlib.h>
#include <string.h>

#define DAEMON_S 3 /* to connect, and then for all of its answer */

const char *inside_socket(cli *c) {
    const char *first = cli_text(c, "store");
    bool only = strncmp(first, "shm:", 4) == 0 && cli_find(c, "store")->count == 1;
    return only ? first + 4 : NULL;
}

/* The URL is wrong, or names a pool or tier that there is not: opening it tells what. */
static int say_wrong(const cli *c, const char *socket) {
    char url[512];
    const char *const urls[] = {url};
    sky_cache *cache = NULL;
    sky_error error = {0};
    snprintf(url, sizeof url, "shm:%s", socket);
    sky_status status = sky_cache_open(urls, 1, &cache, &error);
    sky_cache_close(cache);
    return status == SKY_OK ? cli_usage(c, "%s: there is no such pool or tier", url)
                            : cli_refused(c, status, &error);
}

static int daemon_failed(const cli *c, const char *socket, sky_status status) {
    if (status == SKY_E_PARAM)
        return say_wrong(c, socket);
    if (status == SKY_MISS)
        return cli_failed(c, "shm:%s: nobody listens there; is skymemd --socket %s running?",
                          socket, socket);
    if (status == SKY_E_DEADLINE)
        return cli_failed(c, "shm:%s: no answer within %d s; is it a skymemd, and is it stopped?",
                          socket, DAEMON_S);
    return cli_failed(c, "shm:%s: %s; is it a skymemd of this version and user?", socket,
                      sky_status_text(status));
}

int inside_ask(const cli *c, const char *socket, json_t **out) {
    char *line;
    json_error_t error;
    sky_status status = sky_host_text(socket, sky_now() + SKY_SECONDS(DAEMON_S), &line);
    if (status != SKY_OK)
        return daemon_failed(c, socket, status);
    *out = json_loads(line, 0, &error);
    free(line);
    if (json_is_object(*out))
        return CLI_OK;
    json_decref(*out);
    return cli_failed(c, "shm:%s: answered no JSON; is it a skymemd?", socket);
}

/* Open each of a daemon's stores by a URL of its own. */
static int open_each(const cli *c, const char *socket, const json_t *tiers, cli_store *out) {
    static char rooms[SKY_TIERS_MAX][512];
    const char *urls[SKY_TIERS_MAX], *names[SKY_TIERS_MAX];
    size_t count = json_array_size(tiers);
    for (size_t i = 0; i < count; i++) {
        snprintf(rooms[i], sizeof rooms[i], "shm:%s%ctier=%zu", socket,
                 strchr(socket, '?') ? '&' : '?', i);
        urls[i] = rooms[i];
        names[i] = json_string_value(json_object_get(json_array_get(tiers, i), "url"));
        names[i] = names[i] ? names[i] : urls[i];
    }
    int code = cli_store_open_urls(c, urls, count, out);
    if (code == CLI_OK)
        cli_store_name(names, out);
    return code;
}

int inside_open(cli *c, cli_store *out) {
    const char *socket = inside_socket(c);
    int code = cli_store_open(c, out); /* starts that of shm:auto */
    if (code != CLI_OK || !socket || strstr(socket, "tier="))
        return code;
    json_t *said;
    cli_store_close(out);
    code = inside_ask(c, socket, &said);
    if (code != CLI_OK)
        return code;
    const json_t *tiers = json_object_get(said, "tiers");
    size_t count = json_array_size(tiers);
    code = count > 0 && count <= SKY_TIERS_MAX ? open_each(c, socket, tiers, out)
                                               : cli_store_open(c, out);
    json_decref(said);
    return code;
}

size_t inside_tier(const cli *c, const cli_store *store, const char *option, const char *name) {
    char names[sizeof store->names + 2 * SKY_TIERS_MAX] = "";
    for (size_t i = 0; i < store->tier_count; i++) {
        if (strcmp(store->names[i], name) == 0)
            return i;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 store->names[i]);
    }
    cli_usage(c, "--%s %s: no such tier; there are %s", option, name, names);
    return SKY_TIER_NONE;
}
