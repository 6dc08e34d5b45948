/* The words of a command line, told apart by the verb's table row.
 *
 * Options may stand anywhere; `--name value` and `--name=value` are the same; `--` ends them;
 * a lone `-` is an argument (standard input). */
#include "cli.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void add_options(cli *c, const cli_option *options) {
    for (; options && options->name; options++) {
        assert(c->value_count < CLI_OPTIONS_MAX);
        c->values[c->value_count++].option = options;
    }
}

static void add_all(cli *c) {
    add_options(c, c->verb->options);
    for (uint32_t i = 0; cli_settings[i].name; i++) {
        if (c->verb->settings & 1u << i) {
            assert(c->value_count < CLI_OPTIONS_MAX);
            c->values[c->value_count++].option = &cli_settings[i];
        }
    }
    add_options(c, cli_common);
}

static cli_value *find_letter(cli *c, char letter) {
    for (size_t i = 0; i < c->value_count; i++)
        if (c->values[i].option->letter == letter)
            return &c->values[i];
    return NULL;
}

static int unknown_option(cli *c, const char *word, size_t bytes) {
    const char *names[CLI_OPTIONS_MAX];
    char name[64] = "";
    snprintf(name, sizeof name, "%.*s", (int)(bytes < sizeof name ? bytes : sizeof name - 1), word);
    for (size_t i = 0; i < c->value_count; i++)
        names[i] = c->values[i].option->name;
    const char *close = cli_closest(name, names, c->value_count);
    if (close)
        return cli_usage(c, "no option --%s, did you mean --%s?", name, close);
    return cli_usage(c, "no option --%s", name);
}

/* One option at argv[*i]; steps over its value. */
static int take_option(cli *c, int argc, char **argv, int *i) {
    const char *word = argv[*i], *equals = NULL;
    cli_value *v = NULL;
    if (word[1] == '-') {
        equals = strchr(word, '=');
        size_t bytes = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        for (size_t k = 0; k < c->value_count && !v; k++)
            if (strlen(c->values[k].option->name) == bytes &&
                memcmp(c->values[k].option->name, word + 2, bytes) == 0)
                v = &c->values[k];
        if (!v)
            return unknown_option(c, word + 2, bytes);
    } else {
        v = word[2] ? NULL : find_letter(c, word[1]);
        if (!v)
            return cli_usage(c,
                             "no option %s (an argument called so stands last, behind --: -- %s)",
                             word, word);
    }
    if (v->option->kind == CLI_FLAG) {
        if (equals)
            return cli_usage(c, "--%s takes no value", v->option->name);
        return cli_take(c, v, "true", CLI_FROM_FLAG, 0);
    }
    if (equals)
        return cli_take(c, v, equals + 1, CLI_FROM_FLAG, 0);
    if (*i + 1 >= argc)
        return cli_usage(c, "--%s needs a value: %s", v->option->name, v->option->value);
    return cli_take(c, v, argv[++*i], CLI_FROM_FLAG, 0);
}

static int take_words(cli *c, int argc, char **argv) {
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        if (!only_arguments && strcmp(argv[i], "--") == 0) {
            only_arguments = true;
            continue;
        }
        if (!only_arguments && argv[i][0] == '-' && argv[i][1]) {
            int code = take_option(c, argc, argv, &i);
            if (code != CLI_OK)
                return code;
            continue;
        }
        if (c->argument_count == sizeof c->arguments / sizeof c->arguments[0])
            return cli_usage(c, "too many arguments");
        c->arguments[c->argument_count++] = argv[i];
    }
    return CLI_OK;
}

static int check_arguments(cli *c) {
    if (c->argument_count < c->verb->arguments_min)
        return cli_usage(c, "an argument is missing: skymem %s %s", c->verb->name,
                         c->verb->synopsis);
    if (c->verb->arguments_max != CLI_ARGUMENTS_MANY && c->argument_count > c->verb->arguments_max)
        return cli_usage(c, "one argument too many: %s", c->arguments[c->verb->arguments_max]);
    if (c->json && !c->verb->fields)
        return cli_usage(c, "there is no --json here");
    return CLI_OK;
}

static int take_fallbacks(cli *c) {
    for (size_t i = 0; i < c->value_count; i++) {
        cli_value *v = &c->values[i];
        if (v->count > 0 || !v->option->fallback)
            continue;
        int code = cli_take(c, v, v->option->fallback, CLI_FROM_DEFAULT, 0);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* Whether an option of the command line is --word or -letter; behind -- none is. */
static bool is_asked(int argc, char **argv, const char *word, char letter) {
    const char short_word[] = {'-', letter, '\0'};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0 || (letter && strcmp(argv[i], short_word) == 0))
            return true;
    return false;
}

int cli_parse(cli *c, const cli_verb *verb, int argc, char **argv, cli_asked *asked) {
    memset(c, 0, sizeof *c);
    c->verb = verb;
    add_all(c);
    c->json = is_asked(argc, argv, "--json", 0); /* so that what is wrong is told so */
    *asked = is_asked(argc, argv, "--help", 'h')      ? CLI_ASKED_HELP
             : is_asked(argc, argv, "--version", 'V') ? CLI_ASKED_VERSION
                                                      : CLI_ASKED_NOTHING;
    if (*asked)
        return CLI_OK;
    int code = take_words(c, argc, argv);
    if (code == CLI_OK) {
        c->json = cli_flag(c, "json");
        code = check_arguments(c);
    }
    if (code == CLI_OK)
        code = cli_settings_load(c);
    if (code == CLI_OK)
        code = take_fallbacks(c);
    if (code == CLI_OK)
        code = cli_one_of(c, "quiet verbose");
    if (code == CLI_OK)
        cli_say_setup(cli_flag(c, "quiet"), cli_flag(c, "verbose"), c->json,
                      (cli_color)cli_count(c, "color"));
    return code;
}

void cli_free(cli *c) {
    for (size_t i = 0; i < c->value_count; i++)
        while (c->values[i].count > 0)
            free(c->values[i].texts[--c->values[i].count]);
}
