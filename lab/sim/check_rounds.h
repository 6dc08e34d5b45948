/* How long what was lost may stay away before a checker misses it. Copies and pieces of parity are
 * made again in rounds. A round whose messages get lost does nothing, and the next is another try:
 *
 *     rounds = the fewest that all fail with a probability of 1e-9 at most, and at least as many as
 *              it takes where nothing gets lost
 *
 * So a checker that looks at a million chunks blames chance once in a thousand runs. */
#ifndef SKY_LAB_SIM_CHECK_ROUNDS_H
#define SKY_LAB_SIM_CHECK_ROUNDS_H

#include "config/scenario.h"

/* Satellites make copies again. */
sky_time sky_check_repair_ns(const sky_scenario *s);
/* A ground that stays open makes pieces of stripes again. */
sky_time sky_check_mend_ns(const sky_scenario *s);

#endif
