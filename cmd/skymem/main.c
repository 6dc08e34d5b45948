/* skymem: find the verb, parse its options, run it. */
#include "cli.h"

#include <string.h>

static int unknown_verb(const char *word) {
    const char *names[64];
    size_t count = 0;
    for (; cli_verbs[count] && count < 64; count++)
        names[count] = cli_verbs[count]->name;
    const char *close = cli_closest(word, names, count);
    fprintf(stderr, "skymem: no verb \"%s\"%s%s%s; see skymem help\n", word,
            close ? ", did you mean \"" : "", close ? close : "", close ? "\"?" : "");
    return CLI_USAGE;
}

/* An answer that did not reach its reader is a failure. */
static int finish(int code) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "skymem: standard output: cannot be written; is the disk full?\n");
        return code == CLI_OK ? CLI_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv) {
    static cli c;
    if (argc < 2) {
        cli_help_all(stderr);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("skymem %s\n", sky_version());
        return finish(CLI_OK);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help_all(stdout);
        return finish(CLI_OK);
    }
    const cli_verb *verb = cli_verb_find(word);
    if (!verb)
        return unknown_verb(word);
    bool help = false;
    int code = cli_parse(&c, verb, argc - 2, argv + 2, &help);
    if (code == CLI_OK) {
        if (help)
            cli_help_verb(verb, stdout);
        else
            code = verb->run(&c);
    }
    cli_free(&c);
    return finish(code);
}
