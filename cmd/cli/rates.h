/* How fast this machine computes a model, kept from run to run; docs/formats/rates.md. */
#ifndef SKYMEM_CLI_RATES_H
#define SKYMEM_CLI_RATES_H

#include <stdint.h>

/* Nanoseconds a token; 0: not known. */
typedef struct {
    uint32_t alone_ns;   /* by nothing but computing */
    uint32_t loading_ns; /* while a prompt's other blocks are loaded */
} cli_rate;

/* What was kept of this model on this CPU with so many threads. Anything that is no such file is
 * as good as none. */
cli_rate cli_rate_read(const uint8_t fingerprint[32], uint32_t threads);
/* Keep it; of a number that is 0 what was kept stays. A home that cannot be written keeps nothing,
 * which is no failure. */
void cli_rate_keep(const uint8_t fingerprint[32], uint32_t threads, cli_rate rate);

#endif
