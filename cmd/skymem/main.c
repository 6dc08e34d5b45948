/* skymem: find the verb, parse its options, run it. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
    errno = 0; /* what could not be written is still in the buffer: flushing tells why again */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "skymem: standard output: %s\n",
                errno ? strerror(errno) : "cannot be written");
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

int main(int argc, char **argv) {
    static cli c;
    hold_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow fails its write, as a full disk does */
    if (argc < 2) {
        cli_help_all(stderr);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return finish(print_version());
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help_all(stdout);
        return finish(CLI_OK);
    }
    const cli_verb *verb = cli_verb_find(word);
    if (!verb)
        return unknown_verb(word);
    cli_asked asked;
    int code = cli_parse(&c, verb, argc - 2, argv + 2, &asked);
    if (code == CLI_OK && asked == CLI_ASKED_VERSION)
        code = print_version();
    else if (code == CLI_OK && asked == CLI_ASKED_HELP)
        cli_help_verb(verb, stdout);
    else if (code == CLI_OK)
        code = verb->run(&c);
    cli_free(&c);
    return finish(cli_json_failure(&c, code));
}
