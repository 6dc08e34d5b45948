/* Constellations: all headers of libskymem-sky (pkg-config skymem-sky). Linked with a program, it
 * adds two stores to those that sky_cache_open knows: sky: and sky+udp:.
 *
 *   sky.h        the ideal constellation as a function of time
 *   orbit.h      the skies it is laid over: shells, TLE, passes, links
 *   sim.h        what scenarios say of a sky, and an embedded sky of itself
 *   satellite.h  real satellites over UDP, and how they are */
#ifndef SKYMEM_SKIES_H
#define SKYMEM_SKIES_H

#include <skymem-sky/orbit.h>
#include <skymem-sky/satellite.h>
#include <skymem-sky/sim.h>
#include <skymem-sky/sky.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Make sky: and sky+udp: known to sky_cache_open. The shared library does this by itself when it is
 * loaded; a program that links libskymem-sky.a, or whose linker drops libraries of which nothing is
 * called (--as-needed), calls it once. Twice is fine. From any thread.
 * Errors: SKY_E_UNSUPPORTED: libskymem is of another version; SKY_E_FULL */
SKY_API sky_status sky_skies_register(void);

#ifdef __cplusplus
}
#endif
#endif
