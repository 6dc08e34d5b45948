/* Scenarios with a true sky: from the file's words to a frame. */
#ifndef SKY_CONFIG_PHYSICAL_H
#define SKY_CONFIG_PHYSICAL_H

#include "config/scenario.h"
#include "orbit/frame.h"

/* Fill in the constellation from the scenario's file of elements: the grid that was made of them.
 * Errors: as sky_scenario_load; `error` begins with `path`:`line` where the file itself is fine */
sky_status sky__elements_shell(const char *path, int line, sky_scenario *s, sky_error *error);

/* How many turns its table of handovers has; a scenario with more than may be is refused. */
#define SKY__PHYSICAL_TURNS_MAX 200000u /* 31 days of 15 s are 178,562 */
uint64_t sky__physical_turns(const sky_scenario *s);

/* The frame of a physical scenario; `turning` is the host's, scaled. */
sky_status sky__physical_frame(const sky_scenario *s, const sky_turning *turning, sky_frame *f,
                               sky_error *error);

/* The scenario's sky as ground `number` sees it (0: the observer's); *f borrows of `home`.
 * Errors: as sky_frame_init_ground */
sky_status sky__ground_frame(const sky_scenario *s, const sky_frame *home, uint32_t number,
                             sky_frame *f, sky_error *error);

#endif
