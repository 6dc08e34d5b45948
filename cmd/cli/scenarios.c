/* Scenario files by name: "seed" is a file here, or seed.yaml where scenarios are kept. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS_MAX        4
#define SCENARIO_BYTES_MAX (1u << 20)

typedef struct {
    char paths[FOLDERS_MAX][4096]; /* in the order of search */
    size_t count;
} folders;

#define INSTALLED "../share/skymem/scenarios"

/* The user's own, those of the installation, those of the source tree around the build. */
static folders scenario_folders(void) {
    static const char *const beside[] = {INSTALLED, "../scenarios"};
    folders f = {.count = 0};
    if (cli_scenario_home(f.paths[0], sizeof f.paths[0]))
        f.count++;
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        f.count += cli_beside_program(beside[i], f.paths[f.count], sizeof f.paths[0]);
    return f;
}

static bool ends_in_yaml(const char *text, size_t bytes) {
    return bytes > 5 && memcmp(text + bytes - 5, ".yaml", 5) == 0;
}

bool cli_scenario_find(const char *name, char *out, size_t out_bytes) {
    size_t bytes = strlen(name);
    folders f = scenario_folders();
    if (access(name, F_OK) == 0 || strchr(name, '/') || bytes == 0) {
        int length = snprintf(out, out_bytes, "%s", name);
        return length > 0 && (size_t)length < out_bytes && access(name, F_OK) == 0;
    }
    for (size_t i = 0; i < f.count; i++) {
        int length = snprintf(out, out_bytes, "%s/%s%s", f.paths[i], name,
                              ends_in_yaml(name, bytes) ? "" : ".yaml");
        if (length > 0 && (size_t)length < out_bytes && access(out, R_OK) == 0)
            return true;
    }
    snprintf(out, out_bytes, "%s", name);
    return false;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_scenario(const struct dirent *entry) {
    return ends_in_yaml(entry->d_name, strlen(entry->d_name));
}

void cli_scenario_names(char *out, size_t out_bytes, const char *parted_by) {
    folders f = scenario_folders();
    out[0] = '\0';
    for (size_t i = 0; i < f.count; i++) {
        struct dirent **entries = NULL;
        int count = scandir(f.paths[i], &entries, is_scenario, by_name);
        for (int k = 0; k < count; k++) {
            size_t used = strlen(out);
            snprintf(out + used, out_bytes - used, "%s%.*s", used ? parted_by : "",
                     (int)strlen(entries[k]->d_name) - 5, entries[k]->d_name);
            free(entries[k]);
        }
        free(entries);
    }
}

const char *cli_scenario_refused(const char *name) {
    static char why[1200];
    char names[1024];
    if (strchr(name, '/') || ends_in_yaml(name, strlen(name)))
        return NULL; /* a file that is not there: whoever opens it says so */
    cli_scenario_names(names, sizeof names, ", ");
    snprintf(why, sizeof why, "no file and no scenario is called so%s%s",
             names[0] ? "; there are " : ", and no scenarios are installed", names);
    return why;
}

/* The bytes of a store URL's scheme if a scenario follows it; else 0. */
static size_t sky_scheme(const char *url) {
    return strncmp(url, "sky:", 4) == 0 ? 4 : strncmp(url, "sky+udp:", 8) == 0 ? 8 : 0;
}

char *cli_scenario_expand(const char *text, bool url, const char **why) {
    size_t scheme = url ? sky_scheme(text) : 0;
    size_t bytes = strcspn(text + scheme, url ? "?" : "");
    char name[1024], path[4096], *out;
    *why = "out of memory";
    if ((url && scheme == 0) || bytes >= sizeof name)
        return strdup(text);
    snprintf(name, sizeof name, "%.*s", (int)bytes, text + scheme);
    if (!cli_scenario_find(name, path, sizeof path) && cli_scenario_refused(name)) {
        *why = cli_scenario_refused(name);
        return NULL;
    }
    if (asprintf(&out, "%.*s%s%s", (int)scheme, text, path, text + scheme + bytes) < 0)
        return NULL;
    return out;
}

int cli_scenario_argument(cli *c, size_t which) {
    static char path[4096];
    const char *name = c->arguments[which];
    if (!cli_scenario_find(name, path, sizeof path) && cli_scenario_refused(name))
        return cli_usage(c, "%s: %s", name, cli_scenario_refused(name));
    c->arguments[which] = path;
    return CLI_OK;
}

bool cli_keys_missing(const char *path, char *missing, size_t missing_bytes) {
    sky_satellite_site site;
    sky_error error;
    if (sky_satellite_site_read(path, &site, &error) != SKY_OK)
        return false;
    const char *keys[] = {site.key_path, site.tenant_path};
    for (size_t i = 0; i < 2; i++) {
        if (!keys[i][0] || access(keys[i], F_OK) == 0 || errno != ENOENT)
            continue;
        if (missing)
            snprintf(missing, missing_bytes, "%s", keys[i]);
        return true;
    }
    return false;
}

/* Every folder on the way to a file. */
static void make_folders(char *path) {
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
}

/* The copy in the user's folder, made unless it is there. */
static int copy_scenario(const cli *c, const char *path, char *copy) {
    cli_blob file;
    make_folders(copy);
    int code = cli_blob_read(c, path, SCENARIO_BYTES_MAX, &file);
    if (code != CLI_OK)
        return code;
    if (access(copy, F_OK) != 0) {
        code = cli_file_write(c, copy, file.data, file.bytes);
        if (code == CLI_OK)
            cli_note(c, "copied to %s, because the keys are made beside the scenario", copy);
    }
    cli_blob_free(&file);
    return code;
}

/* A copy hides the installed scenario of its name, so say when that says something else. */
static void note_difference(const cli *c, const char *path, const char *installed) {
    cli_blob copy = {0}, original = {0};
    if (access(installed, R_OK) == 0 && !cli_same_file(path, installed) &&
        cli_blob_read(c, path, SCENARIO_BYTES_MAX, &copy) == CLI_OK &&
        cli_blob_read(c, installed, SCENARIO_BYTES_MAX, &original) == CLI_OK &&
        (copy.bytes != original.bytes || memcmp(copy.data, original.data, copy.bytes) != 0))
        cli_note(c, "%s differs from the installed %s; remove the copy to use that", path,
                 installed);
    cli_blob_free(&copy);
    cli_blob_free(&original);
}

static int not_writable(const cli *c, const char *path) {
    return cli_failed(c,
                      "%s: its keys are made in its folder, and this folder is not yours; "
                      "copy the scenario to one that is",
                      path);
}

int cli_scenario_own(cli *c, size_t which) {
    char folder[4096], home[4000], installed[4096], original[8200];
    static char copy[4096];
    const char *name = c->arguments[which];
    int code = cli_scenario_argument(c, which);
    const char *path = c->arguments[which], *slash = strrchr(path, '/');
    if (code != CLI_OK || access(path, R_OK) != 0)
        return code;
    bool by_name = strcmp(name, path) != 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    bool writable = access(folder, W_OK) == 0 || errno == ENOENT;
    if (!by_name)
        return writable || !cli_keys_missing(path, NULL, 0) ? CLI_OK : not_writable(c, path);
    if (cli_beside_program(INSTALLED, installed, sizeof installed)) {
        snprintf(original, sizeof original, "%s/%s", installed, slash + 1);
        writable = writable && !cli_same_file(path, original);
        note_difference(c, path, original);
    }
    if (writable)
        return CLI_OK;
    if (!cli_scenario_home(home, sizeof home))
        return not_writable(c, path);
    snprintf(copy, sizeof copy, "%s/%s", home, slash + 1);
    code = copy_scenario(c, path, copy);
    c->arguments[which] = copy;
    return code;
}
