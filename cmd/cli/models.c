/* Models by name: see models.h. The list's format stands in its head. */
#include "models.h"
#include "profile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_BYTES_MAX (1u << 20)

/* Where tools/get-model keeps what it fetches (tools/fetch.sh). */
static bool models_folder(char *out, size_t out_bytes) {
    char home[3900];
    const char *own = getenv("SKYMEM_CACHE");
    if (own && own[0])
        snprintf(out, out_bytes, "%s/models", own);
    else if (cli_cache_home(home, sizeof home))
        snprintf(out, out_bytes, "%s/skymem-tools/models", home);
    else
        return false;
    return true;
}

/* get-model leaves a note behind the file when its checksum was right. */
static bool is_here(const cli_named_model *m) {
    char note[4400];
    struct stat st;
    snprintf(note, sizeof note, "%s.verified", m->path);
    return access(note, R_OK) == 0 && stat(m->path, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == m->bytes;
}

/* A line of the list; false: it is not as the list's head says. */
static bool take_line(const char *line, const char *folder, cli_named_model *models,
                      size_t *count) {
    unsigned long long bytes;
    cli_named_model *m = *count > 0 ? &models[*count - 1] : NULL;
    if (strncmp(line, "model ", 6) == 0) {
        if (*count == CLI_MODELS_MAX)
            return false;
        m = &models[(*count)++];
        memset(m, 0, sizeof *m);
        if (sscanf(line, "model %63s %127s %llu %64s", m->name, m->file, &bytes, m->sha256) != 4)
            return false;
        m->bytes = bytes;
        snprintf(m->path, sizeof m->path, "%s/%s", folder, m->file);
        m->here = is_here(m);
        return !strchr(m->file, '/');
    }
    if (m && strncmp(line, "title ", 6) == 0)
        snprintf(m->title, sizeof m->title, "%s", line + 6);
    if (m && strncmp(line, "licence ", 8) == 0)
        snprintf(m->licence, sizeof m->licence, "%s", line + 8);
    return true;
}

int cli_models_read(const cli *c, cli_named_model *out, size_t *count) {
    char path[4096], folder[4096];
    cli_blob list = {0};
    *count = 0;
    if (!models_folder(folder, sizeof folder))
        return cli_failed(c, "this account has no home to keep models in; set SKYMEM_CACHE to a "
                             "folder");
    if (!cli_share_find("models.list", path, sizeof path))
        return cli_failed(c, "the list of models did not come along: %s", path);
    int code = cli_blob_read(c, path, LIST_BYTES_MAX, &list);
    char *text = code == CLI_OK ? strndup(list.data, list.bytes) : NULL;
    if (code == CLI_OK && !text)
        code = cli_failed(c, "out of memory");
    char *rest = text;
    for (char *line; code == CLI_OK && (line = strsep(&rest, "\n"));)
        if (!take_line(line, folder, out, count))
            code = cli_failed(c, "%s: \"%s\" is no line of a list of models", path, line);
    free(text);
    cli_blob_free(&list);
    return code;
}

const cli_named_model *cli_models_find(const cli *c, const cli_named_model *models, size_t count,
                                       const char *name) {
    char names[CLI_MODELS_MAX * 66] = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
        strcat(strcat(names, i ? ", " : ""), models[i].name);
    }
    cli_usage(c, "no model \"%s\"; there are %s", name, names);
    return NULL;
}

int cli_model_path(const cli *c, const char *given, char *path, size_t path_bytes) {
    static cli_named_model models[CLI_MODELS_MAX];
    size_t count, i = 0;
    snprintf(path, path_bytes, "%s", given);
    if (strchr(given, '/') || access(given, F_OK) == 0)
        return CLI_OK;
    if (cli_models_read(c, models, &count) != CLI_OK)
        return CLI_FAILED;
    while (i < count && strcmp(models[i].name, given) != 0)
        i++;
    if (i == count)
        return cli_failed(c, "%s: no such file, and no model that skymem model ls lists", given);
    if (!models[i].here)
        return cli_failed(c, "%s is not here yet: skymem model pull %s fetches it (%llu MB)", given,
                          given, (unsigned long long)(models[i].bytes / 1000000));
    snprintf(path, path_bytes, "%s", models[i].path);
    return CLI_OK;
}
