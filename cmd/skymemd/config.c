#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#include "daemon.h"

#define ARENA_URL        "mem:256MiB"
#define CONFIG_BYTES_MAX (64 << 10) /* nested brackets take time that grows with its square */
#define POOL_BYTES_MAX   64
#define IDLE_S_MAX       (366u * 86400u)

/* ---- values ---- */

/* The first `~/` that stands where a path begins: at the front, behind a scheme, or behind `=` in a
 * URL's query. */
static const char *find_home(const char *text) {
    const char *scheme = strstr(text, ":~/"), *query = strchr(text, '?');
    const char *file = query ? strstr(query, "=~/") : NULL;
    if (strncmp(text, "~/", 2) == 0)
        return text;
    return scheme && (!query || scheme < query) ? scheme + 1 : file ? file + 1 : NULL;
}

char *config_expand_home(const char *text) {
    const char *home = getenv("HOME"), *path;
    char *out = strdup(text);
    while (out && (path = find_home(out)) != NULL) {
        char *longer = NULL;
        if (!home || home[0] != '/' ||
            asprintf(&longer, "%.*s%s%s", (int)(path - out), out, home, path + 1) < 0)
            longer = NULL;
        free(out);
        out = longer;
    }
    return out;
}

static int no_home(const char *text) {
    return daemon_say(USAGE, text, "there is no HOME for ~/, or no memory");
}

int config_add_store(daemon_stores *s, const char *url, const char *what, size_t line) {
    if (s->url_count == SKY_TIERS_MAX)
        return daemon_say(USAGE, what, "at most 8 tiers");
    char *expanded = config_expand_home(url);
    if (!expanded)
        return no_home(url);
    s->urls[++s->url_count] = expanded;
    s->lines[s->url_count] = line;
    return DONE;
}

const char *const *config_urls(daemon_stores *s, size_t *count) {
    bool has_arena = s->url_count > 0 && strncmp(s->urls[1], "mem:", 4) == 0;
    if (!has_arena && !s->urls[0])
        s->urls[0] = strdup(ARENA_URL);
    *count = s->url_count + !has_arena;
    return (const char *const *)(has_arena ? s->urls + 1 : s->urls);
}

bool config_idle(daemon_config *c, const char *text) {
    char *end;
    errno = 0;
    unsigned long seconds = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : ULONG_MAX;
    if (seconds > IDLE_S_MAX || *end || errno)
        return false;
    c->idle_s = (uint32_t)seconds;
    c->has_idle = true;
    return true;
}

static void free_stores(daemon_stores *s) {
    for (size_t i = 0; i < sizeof s->urls / sizeof *s->urls; i++)
        free(s->urls[i]);
}

void config_free(daemon_config *c) {
    free(c->path);
    free(c->socket_path);
    free_stores(&c->stores);
    for (size_t i = 0; i < SKY_HOST_USERS_MAX; i++) {
        free_stores(&c->user_stores[i]);
        free(c->pools[i]);
    }
    *c = (daemon_config){0};
}

/* ---- the file ---- */

typedef struct {
    const char *path;
    yaml_document_t *document;
    daemon_config *out;
    uint32_t seen; /* bits of the keys of the mapping */
} reader;

int config_wrong_at(const char *path, size_t line, const char *what) {
    char *where;
    if (asprintf(&where, "%s:%zu", path, line + 1) < 0)
        return daemon_say(USAGE, path, what);
    int code = daemon_say(USAGE, where, what);
    free(where);
    return code;
}

static int refuse_node(const reader *r, const yaml_node_t *node, const char *what) {
    return config_wrong_at(r->path, node->start_mark.line, what);
}

/* The text of a plain value; NULL: it is none. */
static const char *text_of(const yaml_node_t *node) {
    const char *text = (const char *)node->data.scalar.value;
    return node->type == YAML_SCALAR_NODE && text[0] && strlen(text) == node->data.scalar.length
               ? text
               : NULL;
}

static yaml_node_t *node_at(const reader *r, int index) {
    return yaml_document_get_node(r->document, index);
}

static int read_store(const reader *r, const yaml_node_t *node, daemon_stores *s) {
    const char *url = text_of(node);
    return url ? config_add_store(s, url, r->path, node->start_mark.line + 1)
               : refuse_node(r, node, "a store is an URL");
}

static int read_stores(const reader *r, const yaml_node_t *node, daemon_stores *s) {
    if (node->type != YAML_SEQUENCE_NODE)
        return read_store(r, node, s);
    int code = DONE;
    const yaml_node_item_t *i = node->data.sequence.items.start;
    if (i == node->data.sequence.items.top)
        return refuse_node(r, node, "store is an empty list");
    for (; i < node->data.sequence.items.top && code == DONE; i++)
        code = read_store(r, node_at(r, *i), s);
    return code;
}

static int read_user_name(const reader *r, const yaml_node_t *node, uint32_t *uid) {
    const char *name = text_of(node);
    char *end;
    if (!name)
        return refuse_node(r, node, "user is a name or a number");
    unsigned long number = name[0] >= '0' && name[0] <= '9' ? strtoul(name, &end, 10) : UINT32_MAX;
    const struct passwd *account = number == UINT32_MAX ? getpwnam(name) : NULL;
    if (account)
        *uid = account->pw_uid;
    else if (number < UINT32_MAX && *end == '\0')
        *uid = (uint32_t)number;
    else
        return refuse_node(r, node, "there is no such user");
    return DONE;
}

/* A pool's name, as host.h allows it. */
static int read_pool(const reader *r, const yaml_node_t *node, char **out) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    const char *name = text_of(node);
    if (!name || strlen(name) > POOL_BYTES_MAX || strspn(name, letters) != strlen(name))
        return refuse_node(r, node, "a pool is 1 to 64 letters, digits and . _ -");
    *out = strdup(name);
    return *out ? DONE : daemon_say(FAILED, r->path, "out of memory");
}

typedef int (*read_key)(reader *r, size_t which, const yaml_node_t *value);

/* Each key once, by its place in `keys`. */
static int read_mapping(reader *r, const yaml_node_t *node, const char *const *keys,
                        read_key each) {
    if (node->type != YAML_MAPPING_NODE)
        return refuse_node(r, node, "must be a mapping");
    int code = DONE;
    r->seen = 0;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         p < node->data.mapping.pairs.top && code == DONE; p++) {
        const yaml_node_t *key = node_at(r, p->key);
        const char *name = text_of(key);
        size_t which = 0;
        while (keys[which] && (!name || strcmp(name, keys[which]) != 0))
            which++;
        if (!keys[which])
            return refuse_node(
                r, key,
                "no such key; the file has socket, store, idle, users, of which each has "
                "user and store, and pools, with pool, store and user");
        if (r->seen >> which & 1)
            return refuse_node(r, key, "is there twice");
        r->seen |= 1u << which;
        uint32_t seen = r->seen;
        code = each(r, which, node_at(r, p->value));
        r->seen = seen;
    }
    return code;
}

enum { USER, USER_STORE, USER_POOL };

static int read_user_key(reader *r, size_t which, const yaml_node_t *value) {
    daemon_config *c = r->out;
    if (which == USER)
        return read_user_name(r, value, &c->users[c->user_count].uid);
    if (which == USER_POOL)
        return read_pool(r, value, &c->pools[c->user_count]);
    return read_stores(r, value, &c->user_stores[c->user_count]);
}

/* What is wrong with the last one; NULL: nothing. */
static const char *find_fault(const daemon_config *c, uint32_t seen) {
    const sky_host_user *user = &c->users[c->user_count];
    const bool pool = user->pool != NULL, own = user->uid == geteuid();
    if (pool && !(seen >> USER_STORE & 1))
        return "a pool needs a store";
    if (!pool && seen != (1u << USER | 1u << USER_STORE))
        return "a user needs user and store";
    if (!pool && own)
        return "this is the daemon's own user, whose stores are at the top";
    const char *name = pool ? user->pool : "";
    bool served = own;
    for (size_t i = 0; i < c->user_count; i++) {
        const sky_host_user *other = &c->users[i];
        const char *others = other->pool ? other->pool : "";
        if (user->uid == other->uid && strcmp(name, others) == 0)
            return pool ? "this pool is there twice" : "this user is there twice";
        served |= user->uid == other->uid && !other->pool;
    }
    return pool && !served ? "a pool of a user that is not in users, before it" : NULL;
}

/* An item of users, or of pools, whose user is the daemon's own if none is named. */
static int read_user(reader *r, const yaml_node_t *node, bool pool) {
    static const char *const keys[] = {"user", "store", "pool", NULL};
    daemon_config *c = r->out;
    if (c->user_count == SKY_HOST_USERS_MAX)
        return refuse_node(r, node, "at most 32 users and pools");
    sky_host_user *user = &c->users[c->user_count];
    user->uid = geteuid();
    int code = read_mapping(r, node, keys, read_user_key);
    if (code != DONE)
        return code;
    user->pool = c->pools[c->user_count];
    if (pool != (user->pool != NULL))
        return refuse_node(r, node,
                           pool ? "this needs a pool"
                                : "a user has no pool; "
                                  "list it in pools");
    const char *fault = find_fault(c, r->seen);
    if (fault)
        return refuse_node(r, node, fault);
    user->urls = config_urls(&c->user_stores[c->user_count], &user->url_count);
    c->user_count++;
    return DONE;
}

static int read_users(reader *r, const yaml_node_t *node, bool pools) {
    int code = DONE;
    if (node->type != YAML_SEQUENCE_NODE)
        return refuse_node(r, node, pools ? "pools is a list" : "users is a list");
    for (const yaml_node_item_t *i = node->data.sequence.items.start;
         i < node->data.sequence.items.top && code == DONE; i++)
        code = read_user(r, node_at(r, *i), pools);
    return code;
}

enum { SOCKET, STORE, IDLE, USERS, POOLS };

static int read_top_key(reader *r, size_t which, const yaml_node_t *value) {
    const char *text = text_of(value);
    if (which == USERS || which == POOLS)
        return read_users(r, value, which == POOLS);
    if (which == STORE)
        return read_stores(r, value, &r->out->stores);
    if (!text)
        return refuse_node(r, value, which == SOCKET ? "socket is a path" : "idle is a number");
    if (which == IDLE)
        return config_idle(r->out, text) ? DONE : refuse_node(r, value, "idle: " CONFIG_IDLE);
    r->out->socket_path = config_expand_home(text);
    return r->out->socket_path ? DONE : no_home(text);
}

static int read_document(reader *r) {
    static const char *const keys[] = {"socket", "store", "idle", "users", "pools", NULL};
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    bool empty = !root || (root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0);
    return empty ? DONE : read_mapping(r, root, keys, read_top_key);
}

static int read_yaml(reader *r, FILE *file) {
    yaml_parser_t parser;
    yaml_document_t document, next;
    int code;
    if (!yaml_parser_initialize(&parser))
        return daemon_say(FAILED, r->path, "out of memory");
    yaml_parser_set_input_file(&parser, file);
    r->document = &document;
    bool loaded = yaml_parser_load(&parser, &document) == 1;
    code = loaded ? read_document(r) : DONE;
    if (loaded)
        yaml_document_delete(&document);
    bool ended = loaded && code == DONE && yaml_parser_load(&parser, &next) == 1;
    const yaml_node_t *second = ended ? yaml_document_get_root_node(&next) : NULL;
    if (second)
        code = refuse_node(r, second, "a second document; only one is read");
    else if (code == DONE && !ended)
        code = config_wrong_at(r->path, parser.problem_mark.line,
                               parser.problem ? parser.problem : "unreadable");
    if (ended)
        yaml_document_delete(&next);
    yaml_parser_delete(&parser);
    return code;
}

int config_read(const char *path, bool absent, daemon_config *out) {
    struct stat st;
    reader r = {.path = path, .out = out};
    *out = (daemon_config){.path = strdup(path)};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return absent && errno == ENOENT ? DONE : daemon_say(FAILED, path, strerror(errno));
    bool plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= CONFIG_BYTES_MAX;
    FILE *file = plain ? fdopen(fd, "r") : NULL;
    if (!file) {
        close(fd);
        return daemon_say(FAILED, path, "no plain file, or too large for a configuration");
    }
    int code = read_yaml(&r, file);
    fclose(file);
    return code;
}
