/* skymem-lab: the verbs of `skymem` that measure and simulate. `skymem` starts it, and it is linked
 * with the library's objects, so it sees what the library keeps to itself. */
#include "lab.h"

static const struct {
    const cli_verb *verb;
    int (*run)(cli *c);
} verbs[] = {{&cli_verb_sim, sim_run}, {&cli_verb_eval, eval_run}, {&cli_verb_bench, bench_run}};

static const cli_verb *const rows[] = {&cli_verb_sim, &cli_verb_eval, &cli_verb_bench, NULL};

static int run_verb(cli *c, char **argv) {
    (void)argv;
    size_t i = 0;
    while (verbs[i].verb != c->verb)
        i++;
    return verbs[i].run(c);
}

int main(int argc, char **argv) {
    (void)sky_skies_register();
    return cli_program(argc, argv, rows, run_verb);
}
