/* The verbs of skymem. */
#ifndef SKYMEM_VERBS_H
#define SKYMEM_VERBS_H

#include "cli.h"

/* In the order of `skymem help`, ending with NULL. */
extern const cli_verb *const cli_verbs[];

#endif
