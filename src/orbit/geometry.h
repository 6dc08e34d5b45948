/* Distances of the ideal sky that only the library and its tests ask for. */
#ifndef SKY_ORBIT_GEOMETRY_H
#define SKY_ORBIT_GEOMETRY_H

#include <skymem-sky/sky.h>

/* Whether a caller's orbit has numbers to compute with: finite, above the centre of the Earth. */
bool sky__orbit_valid(const sky_constellation *constellation);

/* The greatest distance to the same slot of the next plane (t = 0 of the seed's D_N), in km.
 * Source: SkyMemory "Motivation", D_N(t) */
double sky_inter_plane_km(const sky_constellation *constellation);

/* Ideal sky: straight distance from an observer under `centre` to a satellite, and the length of
 * the shortest +GRID path from `centre` to it, in km.
 * Source: anchors of the authors' simulator: √((Δplane·D_N)² + (Δslot·D_M)² + h²); hops Δplane·D_N
 *         + Δslot·D_M */
double sky_slant_km(const sky_constellation *constellation, sky_satellite centre,
                    sky_satellite satellite);
double sky_grid_km(const sky_constellation *constellation, sky_satellite from, sky_satellite to);

#endif
