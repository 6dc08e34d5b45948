/* Placement in a physical sky, inside the library. */
#ifndef SKY_ORBIT_PLACEMENT_H
#define SKY_ORBIT_PLACEMENT_H

#include <skymem-sky/sky.h>

/* sky_place_shifted in a physical sky, where the centre has gone `planes` and `slots` on since,
 * counted without wrapping: the place of today's window congruent to the first modulo its height in
 * planes and modulo its width in slots. Past the last plane comes the first, its slots moved on by
 * the phasing. For hop it stays where it was.
 * Source: DESIGN rule 2, in both directions; docs/physical-sky.md */
sky_satellite sky_place_stepped(const sky_constellation *constellation,
                                const sky_placement *placement, sky_satellite centre,
                                sky_satellite first, int64_t planes, int64_t slots);

#endif
