/* Where things lie: below the home folder, and beside the program. */
#include "cli.h"

#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* HOME, without it the account's own home. NULL when there is none either: a place that others
 * could make first, such as one in /tmp, would be theirs. */
static const char *home_folder(void) {
    const char *home = getenv("HOME");
    const struct passwd *account = home && home[0] ? NULL : getpwuid(geteuid());
    if (account)
        home = account->pw_dir;
    return home && home[0] ? home : NULL;
}

const char *cli_home_of(const char *variable, const char *fallback, char *out, size_t out_bytes) {
    const char *xdg = getenv(variable), *home = home_folder();
    out[0] = '\0';
    if (xdg && xdg[0] == '/') {
        snprintf(out, out_bytes, "%s", xdg);
        return out;
    }
    if (!home)
        return NULL;
    snprintf(out, out_bytes, "%s/%s", home, fallback);
    return out;
}

/* How often `=~/` stands behind the `?` of a URL: a file of its query, such as key=~/peer.key. */
static size_t count_query_homes(const char *text) {
    size_t count = 0;
    const char *at = strchr(text, '?');
    while (at && (at = strstr(at, "=~/")) != NULL) {
        count++;
        at += 3;
    }
    return count;
}

/* The text with the home in place of each `~` there; freed. */
static char *expand_query_homes(char *text, const char **why) {
    size_t count = count_query_homes(text);
    if (count == 0)
        return text;
    const char *home = home_folder(), *from = text;
    *why = home ? "out of memory" : "~ is nowhere: HOME is not set and the account has no home";
    char *out = home ? malloc(strlen(text) + count * strlen(home) + 1) : NULL, *to = out;
    for (const char *at = strchr(text, '?'); out && (at = strstr(at, "=~/")) != NULL; at += 2) {
        to += sprintf(to, "%.*s%s", (int)(at + 1 - from), from, home);
        from = at + 2;
    }
    if (out)
        strcpy(to, from);
    free(text);
    return out;
}

char *cli_home_expand(const char *text, const char **why) {
    size_t word = strcspn(text, ":/~");
    const char *path = text[word] == ':' ? text + word + 1 : text;
    if (path[0] == '~' && path[1] && !strchr("/?", path[1])) {
        *why = "~NAME is not known here: write the folder out, or ./~NAME for what is called so";
        return NULL;
    }
    const char *home = path[0] == '~' ? home_folder() : "";
    *why = home ? "out of memory" : "~ is nowhere: HOME is not set and the account has no home";
    size_t bytes = strlen(text) + (home ? strlen(home) : 0) + 1;
    char *out = home ? malloc(bytes) : NULL;
    if (out)
        snprintf(out, bytes, "%.*s%s%s", (int)(path - text), text, home, path + (path[0] == '~'));
    return out ? expand_query_homes(out, why) : NULL;
}

const char *cli_cache_home(char *out, size_t out_bytes) {
    return cli_home_of("XDG_CACHE_HOME", ".cache", out, out_bytes);
}

const char *cli_weights_folder(char *out, size_t out_bytes) {
    char home[3072];
    if (!cli_cache_home(home, sizeof home))
        return NULL;
    snprintf(out, out_bytes, "%s/skymem-weights", home);
    return out;
}

const char *cli_scenario_home(char *out, size_t out_bytes) {
    char home[3900];
    if (cli_home_of("XDG_DATA_HOME", ".local/share", home, sizeof home))
        snprintf(out, out_bytes, "%s/skymem/scenarios", home);
    else
        out[0] = '\0';
    return out[0] ? out : NULL;
}

/* Where skymem lies, seen from this program. */
static bool program_folder(char *out, size_t out_bytes) {
    static const char lab[] = "/" SKYMEM_LIBEXEC;
    char path[2048];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    if (bytes <= 0)
        return false;
    path[bytes] = '\0';
    char *slash = strrchr(path, '/');
    size_t folder_bytes = slash ? (size_t)(slash - path) : 0, lab_bytes = sizeof lab - 1;
    bool is_lab = folder_bytes >= lab_bytes &&
                  memcmp(path + folder_bytes - lab_bytes, lab, lab_bytes) == 0;
    snprintf(out, out_bytes, "%.*s%s", (int)folder_bytes, path,
             is_lab ? "/" SKYMEM_LIBEXEC_TO_BIN : "");
    return true;
}

bool cli_beside_program(const char *relative, char *out, size_t out_bytes) {
    char folder[2200], path[PATH_MAX], real[PATH_MAX];
    if (!program_folder(folder, sizeof folder))
        return false;
    snprintf(path, sizeof path, "%s/%s", folder, relative);
    snprintf(out, out_bytes, "%s", realpath(path, real) ? real : path);
    return access(out, R_OK) == 0;
}
