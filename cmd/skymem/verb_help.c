/* skymem help: this page, a verb's page, the names of the verbs, or a man page's source. */
#include "man.h"
#include "models.h"

#include <string.h>

static int help_man(cli *c, const char *page) {
    const cli_verb *verb = cli_verb_find(c->verbs, page);
    if (!verb && strcmp(page, "skymem") != 0)
        return cli_usage(c, "no page for \"%s\"", page);
    if (verb)
        cli_man_verb(verb, stdout);
    else
        cli_man_all(c->verbs, stdout);
    return CLI_OK;
}

static int print_models(const cli *c) {
    static cli_named_model models[CLI_MODELS_MAX];
    size_t count;
    int code = cli_models_read(c, models, &count);
    for (size_t i = 0; code == CLI_OK && i < count; i++)
        puts(models[i].name);
    return code;
}

static int help_run(cli *c) {
    int code = cli_one_of(c, "list man");
    if (code != CLI_OK)
        return code;
    if (cli_flag(c, "list")) {
        for (size_t i = 0; c->verbs[i]; i++)
            puts(c->verbs[i]->name);
        return CLI_OK;
    }
    if (cli_flag(c, "scenarios")) {
        static char names[4096];
        cli_scenario_names(names, sizeof names, "\n");
        puts(names);
        return CLI_OK;
    }
    if (cli_flag(c, "models"))
        return print_models(c);
    if (cli_given(c, "man"))
        return help_man(c, cli_text(c, "man"));
    if (c->argument_count == 0) {
        cli_help_all(c->verbs, stdout);
        return CLI_OK;
    }
    const cli_verb *verb = cli_verb_find(c->verbs, c->arguments[0]);
    if (!verb)
        return cli_usage(c, "no verb \"%s\"", c->arguments[0]);
    cli_help_verb(verb, stdout);
    return CLI_OK;
}

const cli_verb cli_verb_help = {
    .name = "help",
    .summary = "Explain skymem or one of its verbs",
    .synopsis = "[VERB]",
    .options =
        (const cli_option[]){
            {.name = "list", .kind = CLI_FLAG, .help = "print the names of all verbs, one a line"},
            {.name = "scenarios",
             .kind = CLI_FLAG,
             .help = "print the names of the scenarios that are found, one a line"},
            {.name = "models",
             .kind = CLI_FLAG,
             .help = "print the names of the models that skymem model fetches, one a line"},
            {.name = "man",
             .kind = CLI_TEXT,
             .value = "PAGE",
             .help = "print the mdoc source of a man page: a verb, or skymem"},
            {.name = NULL},
        },
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem help put", "the same as skymem put --help"},
            {"skymem help --man put | mandoc -a", "read the man page without installing it"},
            {NULL, NULL},
        },
    .run = help_run,
};
