/* The sky as a function of time: which satellite holds what, where it moves, how far it is.
 *
 * A torus of planes × slots, both counted from 1, both wrapping:
 *
 *              slot 1  slot 2  slot 3           north = the plane before   south = the plane after
 *   plane 1      ·       ·       ·              east  = the slot after     west  = the slot before
 *   plane 2      ·       C       ·      ← west
 *   plane 3      ·       ·       ·              after a rotation the slot west of C is overhead
 *
 * Chunks and servers count from 1; chunk c is on server ((c-1) mod n)+1. A server is a place in the
 * placement; the satellite it means changes as the sky turns. All functions are pure.
 *
 * Wrong use (NULL, a satellite or number out of range): SKY_E_PARAM where there is a status; else
 * satellite (0, 0), or 0. */
#ifndef SKYMEM_SKY_H
#define SKYMEM_SKY_H

#include <skymem/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_PLANES_MAX  4096
#define SKY_SLOTS_MAX   4096
#define SKY_SERVERS_MAX 131072

typedef struct {
    uint32_t planes;
    uint32_t slots;
    double altitude_km;
    double inclination_deg;
    uint32_t phasing;       /* Walker F */
    double earth_radius_km; /* 0: 6378.137 */
    double light_km_s;      /* 0: 299792.458 */
    double raan_spread_deg; /* to 360; 0: 360, planes all around; 180: polar planes with a seam */
} sky_constellation;

typedef struct {
    uint32_t plane; /* from 1 */
    uint32_t slot;  /* from 1 */
} sky_satellite;

typedef enum {
    SKY_PLACE_ROTATION,     /* row by row through the window; migrates as the sky turns */
    SKY_PLACE_HOP,          /* outward from the centre, no window, never migrates */
    SKY_PLACE_ROTATION_HOP, /* outward from the centre inside the window; migrates */
    SKY_PLACE_PREDICTIVE,   /* outward from where the centre will be at the next use that is
                               expected, inside a window there; stays until it was used */
    SKY_STRATEGIES          /* how many there are */
} sky_strategy;

/* "rotation", "hop", "rotation-hop", "predictive" */
SKY_API const char *sky_strategy_name(sky_strategy strategy);
/* Errors: SKY_E_SYNTAX, SKY_E_PARAM (NULL) */
SKY_API sky_status sky_strategy_parse(const char *text, sky_strategy *out);

typedef struct {
    sky_strategy strategy;
    uint32_t servers;
    uint32_t window_planes; /* H × W, both odd; 0 × 0: the smallest with W−H = 0 or 2 that holds */
    uint32_t window_slots; /* the servers */
    double weight_intra;   /* hop: cost of a link within the plane, and between planes; */
    double weight_inter;   /* 0 and 0: count hops */
} sky_placement;

typedef struct {
    sky_satellite from;
    sky_satellite to;
    uint32_t server; /* from 1 */
} sky_move;

/* Check a placement against a constellation and fill in its window.
 * Errors: SKY_E_PARAM; `error` says which number and why (more servers than the window or the
 *         constellation holds, an even side, a window larger than the constellation, an altitude
 *         that is no number) */
SKY_API sky_status sky_placement_resolve(const sky_constellation *constellation,
                                         const sky_placement *in, sky_placement *out,
                                         sky_error *error);

/* Satellites of all servers when `centre` is overhead and nothing has turned yet.
 * Shape:  out [placement->servers]; placement resolved
 * Errors: SKY_E_PARAM, SKY_E_NOMEM
 * Source: SkyMemory "Chunk to Server Mapping", figures 3, 5, 6 */
SKY_API sky_status sky_place(const sky_constellation *constellation, const sky_placement *placement,
                             sky_satellite centre, sky_satellite *out);

/* Where a satellite's content is after `shift` rotations: the slot of today's window congruent to
 * its first slot modulo W, in the same plane. For hop it stays where it was.
 * Source: SkyMemory figures 6, 7, 8; DESIGN rule 2 */
SKY_API sky_satellite sky_place_shifted(const sky_constellation *constellation,
                                        const sky_placement *placement, sky_satellite centre,
                                        sky_satellite first, uint64_t shift);

/* What migrates between rotation shift-1 and shift (shift >= 1).
 * Shape:  out [placement->servers]; returns how many moves there are
 * Errors: SKY_E_PARAM, SKY_E_NOMEM as a negative return */
SKY_API int64_t sky_moves(const sky_constellation *constellation, const sky_placement *placement,
                          sky_satellite centre, uint64_t shift, sky_move *out);

/* The satellite overhead after `shift` rotations: slot centre − shift, wrapping. */
SKY_API sky_satellite sky_overhead(const sky_constellation *constellation, sky_satellite centre,
                                   uint64_t shift);

/* Orbital period and the time one slot stays overhead (period / slots), in seconds; spherical
 * Earth. */
SKY_API double sky_period_s(const sky_constellation *constellation);
SKY_API double sky_rotation_s(const sky_constellation *constellation);

/* Distance to the neighbour in the same plane, in km.
 * Source: SkyMemory "Motivation", D_M */
SKY_API double sky_intra_plane_km(const sky_constellation *constellation);

#ifdef __cplusplus
}
#endif
#endif
