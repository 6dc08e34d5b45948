/* A program around its verbs: find the verb, parse its options, run it. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cli_verb *cli_verb_find(const cli_verb *const *verbs, const char *name) {
    for (size_t i = 0; verbs[i]; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

static int unknown_verb(const cli_verb *const *verbs, const char *word) {
    const char *names[64];
    size_t count = 0;
    for (; verbs[count] && count < 64; count++)
        names[count] = verbs[count]->name;
    const char *close = cli_closest(word, names, count);
    char *shown = cli_printable(word);
    fprintf(stderr, "skymem: no verb \"%s\"%s%s%s; see skymem help\n", shown ? shown : "",
            close ? ", did you mean \"" : "", close ? close : "", close ? "\"?" : "");
    free(shown);
    return CLI_USAGE;
}

/* An answer that did not reach its reader is a failure. */
static int finish_output(int code) {
    int failure = cli_flush();
    if (failure || ferror(stdout)) {
        fprintf(stderr, "skymem: standard output: %s\n",
                failure ? strerror(failure) : "cannot be written");
        return code == CLI_OK ? CLI_FAILED : code;
    }
    return code;
}

/* A standard stream that came closed would be the next file opened, a tier's among them. */
static void hold_streams(void) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDWR}; /* reading 0 and writing 1 fail */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", modes[fd]);
}

static int print_version(void) {
    printf("skymem %s\n", sky_version());
    return CLI_OK;
}

int cli_program(int argc, char **argv, const cli_verb *const *verbs,
                int (*run)(cli *c, char **argv)) {
    static cli c;
    hold_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow fails its write, as a full disk does */
    if (argc < 2) {
        cli_help_all(verbs, stderr);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return finish_output(print_version());
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help_all(verbs, stdout);
        return finish_output(CLI_OK);
    }
    const cli_verb *verb = cli_verb_find(verbs, word);
    if (!verb)
        return unknown_verb(verbs, word);
    cli_asked asked;
    int code = cli_parse(&c, verb, argc - 2, argv + 2, &asked);
    c.verbs = verbs;
    if (code == CLI_OK && asked == CLI_ASKED_VERSION)
        code = print_version();
    else if (code == CLI_OK && asked == CLI_ASKED_HELP)
        cli_help_verb(verb, stdout);
    else if (code == CLI_OK)
        code = run(&c, argv);
    cli_free(&c);
    return finish_output(cli_json_failure(&c, code));
}
