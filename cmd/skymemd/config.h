/* The configuration of a host: what its file says, and then its command line. */
#ifndef SKYMEMD_CONFIG_H
#define SKYMEMD_CONFIG_H

#include <skymem/skymem.h>

typedef struct {
    char *urls[SKY_TIERS_MAX + 1];   /* the first place is the arena's, where none is named */
    size_t lines[SKY_TIERS_MAX + 1]; /* of the file, from 1; 0: it is from no file */
    size_t url_count;                /* named */
} daemon_stores;

typedef struct {
    char *path;        /* of the file; NULL: none */
    char *socket_path; /* NULL: none */
    bool has_idle;
    uint32_t idle_s;
    daemon_stores stores;
    size_t user_count;
    daemon_stores user_stores[SKY_HOST_USERS_MAX];
    char *pools[SKY_HOST_USERS_MAX];         /* a pool's name; NULL: it is a user */
    sky_host_user users[SKY_HOST_USERS_MAX]; /* their URLs are in user_stores, names in pools */
} daemon_config;

/* Read a file: a YAML mapping of socket, store, idle, users and pools. Says what is wrong, with its
 * line. absent: one that is not there is fine. Returns an exit code; *out is to be freed anyway. */
int config_read(const char *path, bool absent, daemon_config *out);
void config_free(daemon_config *c);

/* Add a store; says what is wrong. `what`: the option or file, for that; `line` of it, or 0. */
int config_add_store(daemon_stores *s, const char *url, const char *what, size_t line);
/* What sky_host_run takes: with an arena before them unless the first is one. */
const char *const *config_urls(daemon_stores *s, size_t *count);
/* Seconds. false: they are none, and CONFIG_IDLE says what they must be. */
bool config_idle(daemon_config *c, const char *text);
#define CONFIG_IDLE "must be whole seconds, at most a year; 0 is never"
/* A text whose path may begin with ~/, behind a scheme or not. NULL: no home, or no memory.
 * Owner: the caller */
char *config_expand_home(const char *text);
/* Say what is wrong, and where: `line` counts from 0. Returns USAGE. */
int config_wrong_at(const char *path, size_t line, const char *what);

/* check.c
 * As far as that can be said without opening anything: the schemes, what URLs of arenas and disks
 * say, and that no two stores are in one folder. `own`: the host's own stores, of `c` or of a
 * command line. hosts: also what URLs of other hosts say, whose files are read and names resolved,
 * but nothing is connected to. Says what is wrong, with its line. Returns an exit code. */
int config_check(daemon_config *c, daemon_stores *own, bool hosts);

#endif
