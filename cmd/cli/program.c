/* A program around its verbs: find the verb, parse its options, run it. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cli_verb *cli_verb_find(const char *name) {
    for (size_t i = 0; cli_verbs[i]; i++)
        if (strcmp(cli_verbs[i]->name, name) == 0)
            return cli_verbs[i];
    return NULL;
}

static int unknown_verb(const char *word) {
    const char *names[64];
    size_t count = 0;
    for (; cli_verbs[count] && count < 64; count++)
        names[count] = cli_verbs[count]->name;
    const char *close = cli_closest(word, names, count);
    char *shown = cli_printable(word);
    fprintf(stderr, "skymem: no verb \"%s\"%s%s%s; see skymem help\n", shown ? shown : "",
            close ? ", did you mean \"" : "", close ? close : "", close ? "\"?" : "");
    free(shown);
    return CLI_USAGE;
}

/* An answer that did not reach its reader is a failure. */
static int finish_output(int code) {
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

int cli_program(int argc, char **argv, int (*run)(cli *c, char **argv)) {
    static cli c;
    hold_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow fails its write, as a full disk does */
    if (argc < 2) {
        cli_help_all(stderr);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return finish_output(print_version());
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help_all(stdout);
        return finish_output(CLI_OK);
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
        code = run(&c, argv);
    cli_free(&c);
    return finish_output(cli_json_failure(&c, code));
}
