/* skymem: a verb is run here, or by the program skymem-lab. */
#include "cli.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* skymem-lab lies in the same folder where both were built, in libexec where they are installed. It
 * parses the words again. Returns only when it does not start. */
static int run_lab(cli *c, char **argv) {
    static const char *const places[] = {"skymem-lab", SKYMEM_BIN_TO_LIBEXEC "/skymem-lab"};
    char path[4096];
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!cli_beside_program(places[i], path, sizeof path))
            continue;
        execv(path, argv);
        return cli_failed(c, "%s: cannot be started: %s", path, strerror(errno));
    }
    return cli_failed(c, "this verb needs the program skymem-lab, which is not installed: install "
                         "all of SkyMemory, as make install does");
}

static int run_verb(cli *c, char **argv) {
    return c->verb->run ? c->verb->run(c) : run_lab(c, argv);
}

int main(int argc, char **argv) {
    return cli_program(argc, argv, cli_verbs, run_verb);
}
