/* What a configuration asks for and no host can do, before one is started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "daemon.h"

#define STORES_MAX ((SKY_HOST_USERS_MAX + 1) * SKY_TIERS_MAX)
#define NO_FOLDER  "disk:/dev/null" /* can be opened by no disk, once its settings are fine */

static bool url_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_disk(const char *url) {
    return url_begins(url, "disk:");
}

/* A store that was named, `line` 0 on the command line, or the arena that is put before. The reason
 * may begin with the URL. */
static int wrong_store(const char *path, size_t line, const char *url, const char *why) {
    size_t named = strcspn(url, "?");
    char *text = NULL;
    bool has_url = strncmp(why, url, named) == 0;
    if (asprintf(&text, "%s%s%s", has_url ? "" : url, has_url ? "" : ": ", why) < 0)
        return daemon_say(USAGE, url, why);
    int code = line > 0 && path ? config_wrong_at(path, line - 1, text)
                                : daemon_say(USAGE, "--store", text);
    free(text);
    return code;
}

/* ---- one store ---- */

static bool is_wrong_url(sky_status status) {
    return status == SKY_E_SYNTAX || status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
}

/* What a disk's URL says, but for its folder. */
static int check_disk(const char *path, size_t line, const char *url) {
    char *other = NULL, *why = NULL;
    sky_cache *cache = NULL;
    sky_error error = {0};
    size_t folder = strcspn(url, "?");
    if (asprintf(&other, NO_FOLDER "%s", url + folder) < 0)
        return daemon_say(FAILED, url, "out of memory");
    sky_status status = sky_cache_open((const char *const *)&other, 1, &cache, &error);
    free(other);
    sky_cache_close(cache);
    if (!is_wrong_url(status))
        return DONE;
    bool names = url_begins(error.text, NO_FOLDER);
    if (asprintf(&why, "%.*s%s", names ? (int)folder : 0, url,
                 error.text + (names ? strlen(NO_FOLDER) : 0)) < 0)
        return daemon_say(FAILED, url, "out of memory");
    int code = wrong_store(path, line, url, why);
    free(why);
    return code;
}

/* The URL of other hosts with away=later, so that opening it connects to none. Another value than
 * those that there are stays: it is refused before anything is asked. NULL: no memory. */
static char *unasked_url(const char *url) {
    char *out = NULL;
    const char *at = strchr(url, '?');
    while (at && !url_begins(at + 1, "away="))
        at = strchr(at + 1, '&');
    size_t bytes = at ? strcspn(at + 1, "&") : 0;
    bool waits = (bytes == 8 && url_begins(at + 1, "away=yes")) ||
                 (bytes == 7 && url_begins(at + 1, "away=no"));
    int made;
    if (!at)
        made = asprintf(&out, "%s%caway=later", url, strchr(url, '?') ? '&' : '?');
    else if (waits)
        made = asprintf(&out, "%.*saway=later%s", (int)(at + 1 - url), url, at + 1 + bytes);
    else
        made = asprintf(&out, "%s", url);
    return made < 0 ? NULL : out;
}

/* What the URL of other hosts says, and the files that it names; names of hosts must resolve. */
static int check_hosts(const char *path, size_t line, const char *url) {
    sky_cache *cache = NULL;
    sky_error error = {0};
    char *other = unasked_url(url), *why = NULL;
    if (!other)
        return daemon_say(FAILED, url, "out of memory");
    sky_status status = sky_cache_open((const char *const *)&other, 1, &cache, &error);
    sky_cache_close(cache);
    bool names = url_begins(error.text, other);
    int made = asprintf(&why, "%s%s", names ? url : "", error.text + (names ? strlen(other) : 0));
    free(other);
    if (made < 0)
        return daemon_say(FAILED, url, "out of memory");
    int code = status == SKY_OK ? DONE : wrong_store(path, line, url, why);
    free(why);
    return code;
}

static int check_stores(daemon_stores *s, const char *path, bool hosts) {
    static const char *const schemes[] = {"disk:", "shm:", "skymem:", "sky:", "sky+udp:"};
    size_t count;
    const char *const *urls = config_urls(s, &count);
    const size_t *lines = urls == (const char *const *)s->urls ? s->lines : s->lines + 1;
    sky_cache *cache;
    sky_error error = {0};
    sky_status status = sky_cache_open(urls, 1, &cache, &error); /* an arena takes nothing yet */
    if (status != SKY_OK)
        return wrong_store(path, lines[0], urls[0], error.text);
    sky_cache_close(cache);
    int code = DONE;
    for (size_t i = 1; i < count && code == DONE; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof schemes / sizeof *schemes; k++)
            known |= url_begins(urls[i], schemes[k]);
        if (!known)
            code = wrong_store(path, lines[i], urls[i],
                               "no such store below an arena; there are disk:, shm:, skymem:, "
                               "sky: and sky+udp:");
        else if (is_disk(urls[i]))
            code = check_disk(path, lines[i], urls[i]);
        else if (hosts && url_begins(urls[i], "skymem:"))
            code = check_hosts(path, lines[i], urls[i]);
    }
    return code;
}

/* ---- folders ---- */

/* Where a disk is, as its URL has it, and as the file system, if it is there. */
typedef struct {
    const char *url, *path;
    size_t line;
    int bytes; /* of the path, without slashes at its end */
    bool there, parent_there;
    struct stat st, parent;
} folder;

/* Of its path, the bytes before its name. */
static int parent_bytes(const folder *f) {
    int bytes = f->bytes;
    while (bytes > 0 && f->path[bytes - 1] != '/')
        bytes--;
    return bytes;
}

static bool stat_parent(const folder *f, struct stat *out) {
    char *parent = NULL;
    int bytes = parent_bytes(f);
    if (asprintf(&parent, "%.*s", bytes, f->path) < 0)
        return false;
    bool there = stat(bytes > 0 ? parent : ".", out) == 0;
    free(parent);
    return there;
}

static folder folder_of(const daemon_stores *s, size_t i) {
    folder f = {.url = s->urls[i], .path = s->urls[i] + 5, .line = s->lines[i]};
    f.bytes = (int)strcspn(f.path, "?");
    while (f.bytes > 1 && f.path[f.bytes - 1] == '/')
        f.bytes--;
    char *path = NULL;
    if (asprintf(&path, "%.*s", f.bytes, f.path) < 0)
        return f;
    f.there = stat(path, &f.st) == 0;
    f.parent_there = !f.there && stat_parent(&f, &f.parent);
    free(path);
    return f;
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* One that is not there yet is known by the folder that it will be made in. */
static bool is_same(const folder *a, const folder *b) {
    if (a->there && b->there)
        return is_same_file(&a->st, &b->st);
    int skip_a = 0, skip_b = 0;
    if (a->parent_there && b->parent_there) {
        if (!is_same_file(&a->parent, &b->parent))
            return false;
        skip_a = parent_bytes(a);
        skip_b = parent_bytes(b);
    }
    return a->bytes - skip_a == b->bytes - skip_b &&
           strncmp(a->path + skip_a, b->path + skip_b, (size_t)(a->bytes - skip_a)) == 0;
}

static int refuse_folder(const char *path, const folder *f, const folder *other) {
    char why[160] = "another store is in the same folder; name a folder of its own";
    if (other->line > 0)
        snprintf(why, sizeof why,
                 "the store of line %zu is in the same folder; name a folder of its own",
                 other->line);
    return wrong_store(path, f->line, f->url, why);
}

/* Each store by itself, as all would take the folder's entries for their own. */
static int check_folders(const daemon_config *c, const daemon_stores *own) {
    folder *folders = calloc(STORES_MAX, sizeof *folders);
    int code = folders ? DONE : daemon_say(FAILED, "configuration", "out of memory");
    size_t count = 0;
    for (size_t u = 0; u <= c->user_count && code == DONE; u++) {
        const daemon_stores *s = u == 0 ? own : &c->user_stores[u - 1];
        for (size_t i = 1; i <= s->url_count && code == DONE; i++) {
            if (!is_disk(s->urls[i]))
                continue;
            folders[count] = folder_of(s, i);
            for (size_t k = 0; k < count && code == DONE; k++)
                if (is_same(&folders[k], &folders[count]))
                    code = refuse_folder(c->path, &folders[count], &folders[k]);
            count++;
        }
    }
    free(folders);
    return code;
}

int config_check(daemon_config *c, daemon_stores *own, bool hosts) {
    int code = check_stores(own, c->path, hosts);
    for (size_t i = 0; i < c->user_count && code == DONE; i++)
        code = check_stores(&c->user_stores[i], c->path, hosts);
    return code == DONE ? check_folders(c, own) : code;
}
