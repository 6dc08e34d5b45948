/* Man pages in mdoc(7), on `to`: skymem(1), and skymem-VERB(1). */
#ifndef SKYMEM_MAN_H
#define SKYMEM_MAN_H

#include "cli.h"

void cli_man_verb(const cli_verb *verb, FILE *to);
void cli_man_all(const cli_verb *const *verbs, FILE *to);

#endif
