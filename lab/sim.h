/* What `skymem sim` does besides one scenario: swarms of random ones, the study, the replay, and
 * the relay to real satellites. */
#ifndef SKYMEM_LAB_H
#define SKYMEM_LAB_H

#include "cli.h"

#include "lab/sim/run.h"

/* The first check that failed; NULL when all passed. */
const char *sim_failed(const sky_sim_result *r);
/* Shrink a scenario that fails and print what is left. */
int sim_shrink(cli *c, char *text, size_t text_max, const sky_sim_options *options);

int sim_swarm(cli *c);
int sim_figures(cli *c);
int sim_replay(cli *c);
int sim_proxy(cli *c);

#endif
