/* Placement, inside the library: what a strategy is, and places in a physical sky. */
#ifndef SKY_ORBIT_PLACEMENT_H
#define SKY_ORBIT_PLACEMENT_H

#include <skymem-sky/sky.h>

/* A strategy is a row of the table in placement.c, and a function there that puts its servers.
 * Nobody asks which strategy it is; they ask one of these. */
typedef struct {
    const char *name;
    bool windowed; /* servers stand inside a window around the centre */
    bool migrates; /* chunks follow the window as the sky turns; else they stay where they are */
    bool aboard;   /* the ground session is aboard the centre, which is one satellite for ever; else
                      the centre is overhead of it, and changes */
    bool foresees; /* blocks are placed around the centre of their next expected use */
} sky_strategy_row;

const sky_strategy_row *sky_strategy_row_of(sky_strategy strategy);

/* Whether a caller's constellation can be computed with.
 * Errors: SKY_E_PARAM; `error` says which number and why */
sky_status sky__constellation_check(const sky_constellation *constellation, sky_error *error);

/* sky_place_shifted in a physical sky, where the centre has gone `planes` and `slots` on since,
 * counted without wrapping: the place of today's window congruent to the first modulo its height in
 * planes and modulo its width in slots. Past the last plane comes the first, its slots moved on by
 * the phasing. For hop it stays where it was.
 * Source: DESIGN rule 2, in both directions; docs/physical-sky.md */
sky_satellite sky_place_stepped(const sky_constellation *constellation,
                                const sky_placement *placement, sky_satellite centre,
                                sky_satellite first, int64_t planes, int64_t slots);

#endif
