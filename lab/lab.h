/* The verbs of skymem-lab; their rows stand in cmd/cli. */
#ifndef SKYMEM_LAB_H
#define SKYMEM_LAB_H

#include "cli.h"

/* Each returns the exit code. */
int bench_run(cli *c);
int eval_run(cli *c);
int sim_run(cli *c);

#endif
