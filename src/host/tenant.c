/* The users of a host and their pools, each with a cache of its own: no segment holds payloads
 * of two, so that each maps its own alone, and the sizes in its URLs are its quotas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/skymem.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/opener.h"
#include "host/published_table.h"
#include "io/file.h"

/* ---- open, close ---- */

/* The nearest tier, in segments. */
static sky_status arena_url(const char *url, char *out, size_t out_bytes, sky_error *error) {
    if (strncmp(url, "mem:", 4) != 0)
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: the first store of a host is its arena, such as mem:1GiB", url);
    bool asks = strchr(url, '?') != NULL;
    int bytes = snprintf(out, out_bytes, "%s%sshared=yes", url, asks ? "&" : "?");
    if (bytes < 0 || (size_t)bytes >= out_bytes)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: too long", url);
    return SKY_OK;
}

/* Nobody else's host has the folder of a store. One whose file system has no locks is not locked;
 * a process that opens it without a host is none. */
static sky_status claim_folder(const char *url, int *fd, sky_error *error) {
    char path[4096];
    if (strncmp(url, "disk:", 5) != 0)
        return SKY_OK;
    size_t bytes = strcspn(url + 5, "?");
    if (bytes + sizeof "/." > sizeof path)
        return SKY_OK;
    snprintf(path, sizeof path, "%.*s/.", (int)bytes, url + 5);
    if (sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_FOLDER, fd) != SKY_OK) {
        *fd = SKY_FILE_NONE;
        return SKY_OK;
    }
    if (sky_file_lock(*fd, 0) != SKY_E_BUSY)
        return SKY_OK;
    return sky_fail(error, SKY_E_BUSY, "%.*s: in use; is another skymemd running?", (int)bytes,
                    url + 5);
}

/* "user 1000", or "user 1000, pool chat". */
static const char *name_of(uint32_t uid, const char *pool, char out[128]) {
    bool some = pool && pool[0];
    snprintf(out, 128, "user %u%s%s", uid, some ? ", pool " : "", some ? pool : "");
    return out;
}

static bool has_stores(const sky_host_user *user) {
    bool some = user->urls && user->url_count > 0 && user->url_count <= SKY_TIERS_MAX;
    for (size_t i = 0; some && i < user->url_count; i++)
        some = user->urls[i] != NULL;
    return some;
}

/* The URLs in one text, to see whether they changed. */
static char *join_urls(const sky_host_user *user) {
    size_t bytes = 1;
    for (size_t i = 0; i < user->url_count; i++)
        bytes += strlen(user->urls[i]) + 1;
    char *text = calloc(1, bytes), *at = text;
    for (size_t i = 0; text && i < user->url_count; i++) {
        at = stpcpy(at, user->urls[i]);
        *at++ = '\n';
    }
    return text;
}

static sky_status open_cache(sky__tenant *t, const sky_host_user *user, sky_error *error) {
    const char *urls[SKY_TIERS_MAX];
    char first[256];
    if (!has_stores(user))
        return sky_fail(error, SKY_E_PARAM, "a host has 1 to %d stores, and none is NULL",
                        SKY_TIERS_MAX);
    memcpy(urls, user->urls, user->url_count * sizeof *urls);
    sky_status status = arena_url(urls[0], first, sizeof first, error);
    urls[0] = first;
    if (status == SKY_OK)
        status = sky_cache_open(urls, user->url_count, &t->cache, error);
    for (size_t i = 0; i < user->url_count && status == SKY_OK; i++)
        status = claim_folder(urls[i], &t->folders[i], error);
    if (status == SKY_OK)
        status = sky__opened_tier(t->cache, 0, &t->arena_tier);
    if (status == SKY_OK && !sky_memory_tier_arena(t->arena_tier, &t->arena))
        status = SKY_E_PARAM;
    if (status == SKY_OK)
        status = sky__published_create(&t->blocks);
    return status;
}

sky_status sky__tenant_open(sky__host *h, const sky_host_user *user, sky_error *error) {
    if (h->tenant_count == SKY__HOST_TENANTS_MAX)
        return sky_fail(error, SKY_E_PARAM, "at most %d users and pools besides the host's own",
                        SKY_HOST_USERS_MAX);
    if (user->pool && !sky_shm_is_pool(user->pool))
        return sky_fail(error, SKY_E_PARAM,
                        "%.100s: a pool is 1 to %d letters, digits and "
                        ". _ -",
                        user->pool, (int)SKY_SHM_POOL_BYTES_MAX);
    if (sky__tenant_of(h, user->uid, user->pool))
        return sky_fail(error, SKY_E_PARAM, "it is there twice");
    sky__tenant *t = calloc(1, sizeof *t);
    if (!t)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    for (size_t i = 0; i < SKY__QUEUES; i++)
        t->queues[i].host = h;
    t->uid = user->uid;
    strcpy(t->pool, user->pool ? user->pool : "");
    t->stat.pool = t->pool;
    for (size_t i = 0; i < SKY_TIERS_MAX; i++)
        t->folders[i] = SKY_FILE_NONE;
    h->tenants[h->tenant_count++] = t;
    sky_status status = open_cache(t, user, error);
    t->stores = status == SKY_OK ? join_urls(user) : NULL;
    if (status == SKY_OK && !t->stores)
        status = sky_fail(error, SKY_E_NOMEM, "no memory");
    if (status != SKY_OK)
        sky__tenant_close(h, h->tenant_count - 1);
    return status;
}

void sky__tenant_close(sky__host *h, size_t index) {
    sky__tenant *t = h->tenants[index];
    for (size_t i = 0; i < SKY__QUEUES; i++)
        sky__chores_end(&t->queues[i]);
    sky_cache_close(t->cache);
    sky__published_destroy(t->blocks);
    for (size_t i = 0; i < SKY_TIERS_MAX; i++)
        sky_file_close(t->folders[i]);
    free(t->stores);
    free(t);
    memmove(h->tenants + index, h->tenants + index + 1,
            (--h->tenant_count - index) * sizeof *h->tenants);
}

static bool is_same(uint32_t uid, const char *pool, uint32_t other, const char *others) {
    return uid == other && strcmp(pool ? pool : "", others ? others : "") == 0;
}

sky__tenant *sky__tenant_of(const sky__host *h, uint32_t uid, const char *pool) {
    for (size_t i = 0; i < h->tenant_count; i++)
        if (is_same(uid, pool, h->tenants[i]->uid, h->tenants[i]->pool))
            return h->tenants[i];
    return NULL;
}

bool sky__tenant_has_place(const sky__host *h, const sky__tenant *t) {
    return t->stat.clients < SKY_HOST_CLIENTS_MAX / h->tenant_count;
}

/* ---- the others than the host's own ---- */

/* Let other users connect, if any is served. */
static sky_status admit_others(sky__host *h) {
    const sky_host_settings *s = &h->settings;
    bool others = false;
    for (size_t i = 0; i < s->user_count; i++)
        others |= s->users[i].uid != sky_local_user();
    return others && h->options.listen_fd <= 0
               ? sky_local_admit(h->options.socket_path, &h->listener)
               : SKY_OK;
}

sky_status sky__tenants_open(sky__host *h, sky_error *error) {
    const sky_host_settings *s = &h->settings;
    sky_status status = SKY_OK;
    if (s->user_count > 0 && !s->users)
        return sky_fail(error, SKY_E_PARAM, "%zu users at NULL", s->user_count);
    for (size_t i = 0; i < s->user_count && status == SKY_OK; i++) {
        char name[128];
        sky_error why = {0};
        status = sky__tenant_open(h, &s->users[i], &why);
        if (status != SKY_OK)
            (void)sky_fail(error, status, "%s: %s",
                           name_of(s->users[i].uid, s->users[i].pool, name), why.text);
    }
    return status == SKY_OK ? admit_others(h) : status;
}

static const sky_host_user *user_of(const sky_host_settings *s, const sky__tenant *t) {
    for (size_t i = 0; i < s->user_count; i++)
        if (is_same(s->users[i].uid, s->users[i].pool, t->uid, t->pool))
            return &s->users[i];
    return NULL;
}

static void mark_tenant(sky__host *h, sky__tenant *t) {
    char name[128];
    const sky_host_user *user = user_of(&h->settings, t);
    if (!user) {
        t->leaving = true;
        return;
    }
    t->leaving = false; /* it may have come back before its stores were closed */
    char *stores = has_stores(user) ? join_urls(user) : NULL;
    if (!stores || strcmp(stores, t->stores) != 0)
        sky_log(SKY_LOG_WARNING, "the stores of %s changed: they do when it starts again",
                name_of(t->uid, t->pool, name));
    free(stores);
}

void sky__tenants_mark(sky__host *h) {
    if (!h->settings.users)
        h->settings.user_count = 0;
    for (size_t i = 1; i < h->tenant_count; i++)
        mark_tenant(h, h->tenants[i]);
}

void sky__tenants_update(sky__host *h) {
    char name[128];
    sky_error error;
    sky__tenants_sweep(h);
    for (size_t i = 0; i < h->settings.user_count; i++) {
        const sky_host_user *user = &h->settings.users[i];
        error.text[0] = '\0';
        if (sky__tenant_of(h, user->uid, user->pool))
            continue;
        if (sky__tenant_open(h, user, &error) != SKY_OK)
            sky_log(SKY_LOG_WARNING, "%s is not served: %s", name_of(user->uid, user->pool, name),
                    error.text);
    }
    (void)admit_others(h);
    sky_log(SKY_LOG_INFO, "settings were read again: %zu users and pools", h->tenant_count);
}

void sky__tenants_sweep(sky__host *h) {
    for (size_t i = h->tenant_count; i-- > 1;)
        if (h->tenants[i]->leaving && h->tenants[i]->chores == 0)
            sky__tenant_close(h, i);
}
