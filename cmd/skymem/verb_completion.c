/* skymem completion: what a shell needs to complete skymem's command line, from the verb table.
 *
 *   bash  one function: a case for each option that has words, then the options of the verb
 *   zsh   one function: _arguments for each verb
 *   fish  one line for each verb and for each of its options */
#include "cli.h"

#include <string.h>

#define STORES    "mem: disk: shm:auto shm: skymem:// sky: sky+udp:"
#define SCENARIOS "$(skymem help --scenarios 2>/dev/null)"
#define MODELS    "$(skymem help --models 2>/dev/null)"

/* What can be offered for a value. */
typedef enum {
    OFFER_NOTHING,
    OFFER_WORDS,
    OFFER_FILES,
    OFFER_SCENARIOS,
    OFFER_MODELS,
    OFFER_STORES
} offer;

static offer offer_of(const cli_option *o) {
    switch (o->kind) {
    case CLI_CHOICE:
        return OFFER_WORDS;
    case CLI_PATH:
        return strcmp(o->name, "model") == 0 ? OFFER_MODELS : OFFER_FILES;
    case CLI_LIST: /* of files, or of URLs */
        return strcmp(o->name, "store") == 0 ? OFFER_STORES : OFFER_FILES;
    case CLI_SCENARIO:
        return OFFER_SCENARIOS;
    default:
        return OFFER_NOTHING;
    }
}

/* Each option of a verb, as its help has them. */
typedef void each_option(const cli_verb *verb, const cli_option *o);

static void for_options(const cli_verb *verb, each_option *run) {
    for (const cli_option *o = verb->options; o && o->name; o++)
        run(verb, o);
    for (uint32_t i = 0; cli_settings[i].name; i++)
        if (verb->settings & 1u << i)
            run(verb, &cli_settings[i]);
    for (const cli_option *o = cli_common; o->name; o++)
        if (cli_common_for(verb, o))
            run(verb, o);
}

/* "a|b|c" as "a b c". */
static void print_words(const char *words) {
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
}

/* A text within single quotes, where `also` are characters that need a backslash. */
static void print_quoted(const char *text, const char *also) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", stdout);
        else if (strchr(also, *text))
            putchar('\\');
        putchar(*text);
    }
}

static void print_verbs(const cli_verb *const *verbs) {
    for (size_t i = 0; verbs[i]; i++)
        printf("%s%s", i ? " " : "", verbs[i]->name);
}

/* What an argument of the verb may be, besides its first word. */
static offer argument_of(const cli_verb *verb) {
    if (strstr(verb->synopsis, "SCENARIO"))
        return OFFER_SCENARIOS;
    return strcmp(verb->name, "model") == 0 ? OFFER_MODELS : OFFER_FILES;
}

/* ---- bash ---- */

static void bash_name(const cli_verb *verb, const cli_option *o) {
    (void)verb;
    printf(" --%s", o->name);
}

static void bash_value(const cli_verb *verb, const cli_option *o) {
    if (o->kind == CLI_FLAG)
        return;
    printf("    '%s --%s'", verb->name, o->name);
    if (o->letter)
        printf(" | '%s -%c'", verb->name, o->letter);
    fputs(") ", stdout);
    switch (offer_of(o)) {
    case OFFER_WORDS:
        fputs("words='", stdout);
        print_words(o->value);
        fputs("' ;;\n", stdout);
        break;
    case OFFER_FILES:
        fputs("files=1 ;;\n", stdout);
        break;
    case OFFER_SCENARIOS:
        fputs("words=" SCENARIOS " files=1 ;;\n", stdout);
        break;
    case OFFER_MODELS:
        fputs("words=" MODELS " files=1 ;;\n", stdout);
        break;
    case OFFER_STORES:
        fputs("words='" STORES "' begins=1 ;;\n", stdout);
        break;
    case OFFER_NOTHING:
        fputs(";;\n", stdout);
    }
}

static void bash_argument(const cli_verb *verb) {
    static const char *const words[] = {[OFFER_FILES] = "files=1",
                                        [OFFER_SCENARIOS] = "words=" SCENARIOS " files=1",
                                        [OFFER_MODELS] = "words=" MODELS};
    fputs(words[argument_of(verb)], stdout);
}

static void bash_arguments(const cli_verb *const *verbs, const cli_verb *verb) {
    printf("    '%s '*)\n        options='", verb->name);
    for_options(verb, bash_name);
    fputs("'\n        ", stdout);
    if (strcmp(verb->name, "help") == 0) {
        fputs("words='", stdout);
        print_verbs(verbs);
        fputs("'", stdout);
    } else if (verb->words) {
        fputs("((COMP_CWORD > 2)) || words='", stdout);
        print_words(verb->words);
        fputs("'\n        ((COMP_CWORD == 2)) || ", stdout);
        bash_argument(verb);
    } else {
        bash_argument(verb);
    }
    fputs("\n        ;;\n", stdout);
}

static void bash_script(const cli_verb *const *verbs) {
    fputs("# bash completion for skymem, made by: skymem completion bash\n"
          "_skymem() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} words= options= files= begins=\n"
          "    local before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    COMPREPLY=()\n"
          "    case \":$word$before\" in\n" /* bash takes a colon for a word */
          "    ::sky | ::sky+udp | ::disk | ::shm) before=$before: word= ;;\n"
          "    *:) before=${COMP_WORDS[COMP_CWORD - 2]}: ;;\n"
          "    esac\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    print_verbs(verbs);
    fputs(" --help --version' -- \"$word\"))\n        return\n    fi\n"
          "    case \"${COMP_WORDS[1]} $before\" in\n",
          stdout);
    fputs("    *' sky:' | *' sky+udp:') words=" SCENARIOS " files=1 ;;\n"
          "    *' disk:' | *' shm:') files=1 ;;\n",
          stdout);
    for (size_t i = 0; verbs[i]; i++) {
        for_options(verbs[i], bash_value);
        bash_arguments(verbs, verbs[i]);
    }
    fputs("    esac\n"
          "    [[ $word != -* ]] || words=$options files=\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    [[ -z $begins ]] || compopt -o nospace 2>/dev/null\n"
          "    [[ -z $files ]] || {\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
          "    }\n"
          "}\n"
          "complete -F _skymem skymem\n",
          stdout);
}

/* ---- zsh ---- */

static const char *const zsh_functions[] = {[OFFER_FILES] = "_files",
                                            [OFFER_SCENARIOS] = "_skymem_scenarios",
                                            [OFFER_MODELS] = "_skymem_models",
                                            [OFFER_STORES] = "_skymem_stores"};

static void zsh_option(const cli_verb *verb, const cli_option *o) {
    (void)verb;
    bool many = o->kind == CLI_LIST;
    fputs(" \\\n            '", stdout);
    if (o->letter)
        printf("(-%c --%s)'{-%c,--%s}'", o->letter, o->name, o->letter, o->name);
    else
        printf("%s--%s", many ? "*" : "", o->name);
    putchar('[');
    print_quoted(o->help, "[]:\\");
    putchar(']');
    if (o->kind != CLI_FLAG) {
        putchar(':');
        print_quoted(o->kind == CLI_CHOICE ? o->name : o->value, "[]:\\");
        putchar(':');
        if (offer_of(o) == OFFER_WORDS) {
            putchar('(');
            print_words(o->value);
            putchar(')');
        } else {
            fputs(offer_of(o) == OFFER_NOTHING ? "" : zsh_functions[offer_of(o)], stdout);
        }
    }
    putchar('\'');
}

static void zsh_verb(const cli_verb *const *verbs, const cli_verb *verb) {
    printf("        %s)\n            _arguments -s", verb->name);
    for_options(verb, zsh_option);
    if (verb->words || strcmp(verb->name, "help") == 0) {
        fputs(" \\\n            '1:word:(", stdout);
        if (verb->words)
            print_words(verb->words);
        else
            print_verbs(verbs);
        fputs(")'", stdout);
    }
    printf(" \\\n            '*:argument:%s'\n            ;;\n", zsh_functions[argument_of(verb)]);
}

static void zsh_script(const cli_verb *const *verbs) {
    fputs("#compdef skymem\n# zsh completion for skymem, made by: skymem completion zsh\n"
          "_skymem_scenarios() {\n"
          "    compadd -- ${(f)\"$(skymem help --scenarios 2>/dev/null)\"}\n"
          "    _files\n"
          "}\n\n"
          "_skymem_models() {\n"
          "    compadd -- ${(f)\"$(skymem help --models 2>/dev/null)\"}\n"
          "    _files\n"
          "}\n\n"
          "_skymem_stores() {\n"
          "    case $PREFIX in\n"
          "        sky:* | sky+udp:*) compset -P '*:' && _skymem_scenarios ;;\n"
          "        disk:* | shm:*) compset -P '*:' && _files ;;\n"
          "        *) compadd -S '' -- " STORES " ;;\n"
          "    esac\n"
          "}\n\n"
          "_skymem() {\n    local -a verbs=(",
          stdout);
    for (size_t i = 0; verbs[i]; i++) {
        printf("\n        '%s:", verbs[i]->name);
        print_quoted(verbs[i]->summary, ":\\");
        putchar('\'');
    }
    fputs("\n    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe verb verbs\n"
          "        return\n"
          "    fi\n"
          "    local verb=${words[2]}\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $verb in\n",
          stdout);
    for (size_t i = 0; verbs[i]; i++)
        zsh_verb(verbs, verbs[i]);
    fputs("    esac\n}\n\n_skymem \"$@\"\n", stdout);
}

/* ---- fish ---- */

static void fish_option(const cli_verb *verb, const cli_option *o) {
    printf("complete -c skymem -n '__fish_seen_subcommand_from %s' -l %s", verb->name, o->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    fputs(" -d '", stdout);
    print_quoted(o->help, "\\");
    putchar('\'');
    switch (o->kind == CLI_FLAG ? OFFER_NOTHING : offer_of(o)) {
    case OFFER_WORDS:
        fputs(" -x -a '", stdout);
        print_words(o->value);
        putchar('\'');
        break;
    case OFFER_FILES:
        fputs(" -r -F", stdout);
        break;
    case OFFER_SCENARIOS:
        fputs(" -r -F -a '(skymem help --scenarios)'", stdout);
        break;
    case OFFER_MODELS:
        fputs(" -r -F -a '(skymem help --models)'", stdout);
        break;
    case OFFER_STORES:
        fputs(" -x -a '" STORES " sky:(skymem help --scenarios)'", stdout);
        break;
    case OFFER_NOTHING:
        fputs(o->kind == CLI_FLAG ? "" : " -x", stdout);
    }
    putchar('\n');
}

static void fish_script(const cli_verb *const *verbs) {
    fputs("# fish completion for skymem, made by: skymem completion fish\n", stdout);
    for (size_t i = 0; verbs[i]; i++) {
        const cli_verb *verb = verbs[i];
        printf("complete -c skymem -n __fish_use_subcommand -f -a %s -d '", verb->name);
        print_quoted(verb->summary, "\\");
        fputs("'\n", stdout);
        if (verb->words || strcmp(verb->name, "help") == 0) {
            printf("complete -c skymem -n '__fish_seen_subcommand_from %s' -f -a '", verb->name);
            if (verb->words)
                print_words(verb->words);
            else
                print_verbs(verbs);
            fputs("'\n", stdout);
        }
        if (argument_of(verb) != OFFER_FILES)
            printf("complete -c skymem -n '__fish_seen_subcommand_from %s' -F "
                   "-a '(skymem help --%s)'\n",
                   verb->name, argument_of(verb) == OFFER_MODELS ? "models" : "scenarios");
        for_options(verb, fish_option);
    }
}

static int completion_run(cli *c) {
    static const struct {
        const char *shell;
        void (*script)(const cli_verb *const *verbs);
    } scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (strcmp(c->arguments[0], scripts[i].shell) == 0) {
            scripts[i].script(c->verbs);
            return CLI_OK;
        }
    return cli_usage(c, "%s: there is completion for bash, zsh and fish", c->arguments[0]);
}

const cli_verb cli_verb_completion = {
    .name = "completion",
    .summary = "Print what a shell needs to complete this command",
    .synopsis = "bash|zsh|fish",
    .about = "The script completes verbs, options, their values, kinds of stores, scenarios, "
             "models and files. make install "
             "installs it for all three shells, so this is for a program that is not installed.",
    .words = "bash|zsh|fish",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"source <(skymem completion bash)", "complete in this bash"},
            {"skymem completion zsh >~/.zfunc/_skymem", "for zsh, in a folder of its fpath"},
            {"skymem completion fish | source", "complete in this fish"},
            {NULL, NULL},
        },
    .run = completion_run,
};
