/* Scenarios that fail, made smaller. */
#ifndef SKY_LAB_SIM_SHRINK_H
#define SKY_LAB_SIM_SHRINK_H

#include "lab/sim/run.h"

/* Make a scenario that fails smaller: leave out keys and halve numbers for as long as the same
 * check fails, in at most `runs` runs.
 * Shape:  text [text_max] holds a scenario, and the smaller one afterwards
 * Errors: SKY_E_PARAM (it does not fail), as sky_sim_run_text */
sky_status sky_sim_shrink(char *text, size_t text_max, const sky_sim_options *options,
                          uint32_t runs, sky_error *error);

#endif
