/* True orbits: where satellites are, who sees them, and what light takes between them.
 *
 * <skymem-sky/sky.h> is the ideal sky, a torus that turns one slot at a time. Here are the skies it
 * is an idealisation of:
 *
 *   Walker shell, TLE, OMM ──► sky_fleet ──┬─► state (inertial km, km/s) ──► D_N(t), +GRID routes
 *                                          └─► observer: look, passes, handovers (Earth turns)
 *
 * Frames: states are in TEME, the true equator and mean equinox in which SGP4 answers; a Walker
 * shell has its first node on the equinox. The Earth turns under it by GMST; polar motion and
 * UT1−UTC (below 1 s, 0.5 km on the ground) are left out. Ground positions are on WGS84.
 *
 * Surprises: times are UTC in milliseconds since 1970. Everything is computed with our own sine,
 * arc tangent and cube root, so that the same file and time give the same bits on every machine.
 * Functions are pure; a fleet is allocated once and never changes.
 *
 * Wrong use (NULL, a number that is none or out of range): SKY_E_PARAM where there is a status,
 * else a value that means nothing: 0, plane 0, satellite UINT32_MAX, an empty text,
 * SKY_ORBIT_FAR. */
#ifndef SKYMEM_ORBIT_H
#define SKYMEM_ORBIT_H

#include <skymem-sky/sky.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A place in km, or a velocity in km/s. */
typedef struct {
    double x, y, z;
} sky_vector;

/* Where a satellite is and how it moves, in TEME. */
typedef struct {
    sky_vector r_km;
    sky_vector v_km_s;
} sky_motion;

/* ---- time ---- */

/* "2026-11-20T00:00:00Z", with up to nine decimals of a second (cut to milliseconds), the Z may be
 * left out; year 1957 or later. Errors: SKY_E_SYNTAX, SKY_E_PARAM (NULL) */
SKY_API sky_status sky_utc_parse(const char *text, int64_t *ms);
#define SKY_UTC_BYTES 32
/* The same with milliseconds: "2026-11-20T00:00:00.000Z"; empty outside the years 1 … 9999. */
SKY_API const char *sky_utc_text(int64_t ms, char out[SKY_UTC_BYTES]);

/* ---- shells ---- */

/* A constellation with a name. */
typedef struct {
    const char *name;
    const char *says; /* whose, and what is not public */
    sky_constellation constellation;
} sky_shell;

/* The seed's table 2, and more; `count` may be NULL. Source: SkyMemory table 2; FCC filings */
SKY_API const sky_shell *sky_shells(size_t *count);
/* NULL: no such shell. */
SKY_API const sky_shell *sky_shell_find(const char *name);

/* D_N(t) with the true phasing: distance from (1,1) to slot 1+slot_offset of plane 2.
 * Source: SkyMemory "Motivation"; its closed form is this with F = 0 and offset 0 */
SKY_API double sky_inter_plane_at_km(const sky_constellation *c, int32_t slot_offset, double t_s);
/* Its least and greatest over an orbit. */
SKY_API void sky_inter_plane_range_km(const sky_constellation *c, int32_t slot_offset, double *min,
                                      double *max);
/* Slots that a laser to the next plane goes on: the offset whose greatest distance is least. */
SKY_API int32_t sky_link_offset(const sky_constellation *c);
/* How the nodes drift by the Earth's flattening (J2), degrees a day. */
SKY_API double sky_node_drift_deg_day(const sky_constellation *c);

/* ---- fleets ---- */

/* Satellites that can be asked where they are. */
typedef struct sky_fleet sky_fleet;

#define SKY_FLEET_MAX        131072
#define SKY_FLEET_FILE_MAX   (64u << 20) /* bytes of an element file */
#define SKY_FLEET_NAME_BYTES 32

/* Shells have no published epoch: everything here takes this one, 2000-01-01T12:00:00Z, so that a
 * scenario and `skymem orbit` see the same sky. */
#define SKY_SHELL_EPOCH_MS 946728000000

/* A Walker shell, its nodes drifting by J2. `epoch_ms`: when (1,1) is on its first node.
 * Errors: SKY_E_PARAM (planes or slots out of range, phasing not below planes × slots, below the
 *         ground, nodes not spread over 0 … 360 degrees), SKY_E_NOMEM */
SKY_API sky_status sky_fleet_walker(const sky_constellation *c, int64_t epoch_ms, sky_fleet **out,
                                    sky_error *error);

/* Elements from text: TLE (two or three lines each), or OMM as JSON, CSV or KVN; told apart by how
 * it begins. One bad element refuses the file.
 * Errors: SKY_E_SYNTAX (`error` has "path:line: reason", the line of the key or of its message),
 *         SKY_E_PARAM (too many; NULL), SKY_E_NOMEM */
SKY_API sky_status sky_fleet_parse(const char *text, size_t bytes, const char *path,
                                   sky_fleet **out, sky_error *error);
SKY_API void sky_fleet_destroy(sky_fleet *fleet);

/* Number of satellites; they are numbered from 0. */
SKY_API uint32_t sky_fleet_count(const sky_fleet *fleet);
/* "3,14" for plane and slot of a shell; else the name in the file, or the catalogue number. Empty:
 * no such satellite. Returns `out`; never NULL. */
SKY_API const char *sky_fleet_name(const sky_fleet *fleet, uint32_t number,
                                   char out[SKY_FLEET_NAME_BYTES]);
/* The shell; of elements the grid that sky_fleet_arrange made, 0 planes before. */
SKY_API const sky_constellation *sky_fleet_shell(const sky_fleet *fleet);
/* Plane and slot of a satellite, (0, 0) when it has none; and the number of a plane and slot,
 * UINT32_MAX when the grid has none such. */
SKY_API sky_satellite sky_fleet_place(const sky_fleet *fleet, uint32_t number);
SKY_API uint32_t sky_fleet_number(const sky_fleet *fleet, sky_satellite s);

/* Why SGP4 has no answer, in the numbers of its authors. */
typedef enum {
    SKY_ORBIT_FINE = 0,
    SKY_ORBIT_ECCENTRICITY = 1, /* mean eccentricity not within 0 … 1 */
    SKY_ORBIT_MOTION = 2,       /* mean motion not positive */
    SKY_ORBIT_PERTURBED = 3,    /* eccentricity with long-period terms not within 0 … 1 */
    SKY_ORBIT_LATUS = 4,        /* semi-latus rectum negative */
    SKY_ORBIT_DECAYED = 6,      /* below the ground */
    SKY_ORBIT_FAR = 7,          /* asked for more than 190 years from epoch */
} sky_orbit_fault;
SKY_API const char *sky_orbit_fault_text(sky_orbit_fault fault);

/* State at a time, or minutes after the satellite's own epoch; untouched on a fault.
 * Source: Hoots & Roehrich 1980, Vallado et al. AIAA 2006-6753; WGS72, with which elements are
 *         made */
SKY_API sky_orbit_fault sky_fleet_state(const sky_fleet *fleet, uint32_t number, int64_t ms,
                                        sky_motion *out);
SKY_API sky_orbit_fault sky_fleet_state_after(const sky_fleet *fleet, uint32_t number,
                                              double minutes, sky_motion *out);
SKY_API int64_t sky_fleet_epoch_ms(const sky_fleet *fleet, uint32_t number);

/* ---- from the ground ---- */

/* A station: on WGS84, and its horizon mask. */
typedef struct {
    double latitude_deg;      /* −90 … 90 */
    double longitude_deg;     /* east, −360 … 360 */
    double altitude_m;        /* to 1000 km up or down */
    double min_elevation_deg; /* −90 … 90 */
} sky_observer;

/* Where an observer sees a satellite. Elevation −90, range 0: it cannot be said. */
typedef struct {
    double elevation_deg;
    double azimuth_deg; /* from north over east */
    double range_km;
} sky_look;

/* Where a satellite stands in the observer's sky. */
SKY_API sky_look sky_observer_look(const sky_observer *o, int64_t ms, sky_vector satellite_km);
/* A place in TEME in the frame that turns with the Earth (x through Greenwich, z through the pole).
 * Source: Vallado et al. AIAA 2006-6753, appendix C: the pseudo Earth-fixed frame */
SKY_API sky_vector sky_earth_fixed(int64_t ms, sky_vector teme_km);

/* One pass above the mask. A time before `from` or after `to` is cut to it. */
typedef struct {
    uint32_t satellite;
    int64_t rise_ms;
    int64_t culminate_ms;
    int64_t set_ms;
    double max_elevation_deg;
} sky_pass;

#define SKY_PASSES_SPAN_MS_MAX 315576000000 /* ten years */

/* Passes of one satellite within [from, to], in order; rise and set to the millisecond. Passes
 * shorter than 20 s that peak less than a tenth of a degree above the mask may be left out.
 * Returns how many there are, at most `max` of them stored; 0 for a span that is longer than
 * SKY_PASSES_SPAN_MS_MAX or ends before it begins. */
SKY_API size_t sky_fleet_passes(const sky_fleet *fleet, uint32_t number, const sky_observer *o,
                                int64_t from_ms, int64_t to_ms, sky_pass *out, size_t max);

/* ---- between satellites ---- */

#define SKY_GRAZING_KM 80.0 /* lasers do not pass through the lower atmosphere */

/* A +GRID link: each satellite with the next in its plane, and with one of the plane after. */
typedef struct {
    uint32_t from;
    uint32_t to;
    double km;
    bool up;   /* its line of sight stays above the grazing height */
    bool seam; /* between planes that fly in opposite directions; never up */
} sky_laser;

/* All links at a time. The last plane's links to the first close the torus where the planes are
 * spread over 360 degrees (slots shifted by the phasing); over 180 they are the seam.
 * Shape:  out [2 · count of the fleet]; returns how many
 * Errors: 0 when the fleet has no grid */
SKY_API size_t sky_fleet_links(const sky_fleet *fleet, int64_t ms, double grazing_km,
                               sky_laser *out);

/* Least-latency paths from one satellite to all, over links that are up.
 * Shape:  km and before [count]; km is INFINITY and before the satellite itself where there is no
 *         path
 * Errors: SKY_E_NOMEM, SKY_E_PARAM (no such satellite, or an end of a link that is none; of
 *         those that are up: a length that is none or negative, more than four at a satellite)
 * Source: Dijkstra over true lengths at that time, not hops */
SKY_API sky_status sky_fleet_routes(const sky_fleet *fleet, const sky_laser *links,
                                    size_t link_count, uint32_t from, double *km, uint32_t *before);

/* ---- who is overhead ---- */

#define SKY_HANDOVER_MS 15000

/* From slot `turn` on, this satellite is the centre. Plane and slot count on and are never wrapped:
 * over the seam plane N+1 follows N. */
typedef struct {
    uint64_t turn;
    int32_t plane;
    int32_t slot;
    bool jump; /* not a neighbour of the one before: it was lost, or nothing was above the mask */
} sky_handover;

typedef struct {
    int64_t start_ms;
    int64_t slot_ms;       /* SKY_HANDOVER_MS; at least 1 */
    uint64_t turns;        /* how many slots to look ahead; the last begins by INT64_MAX ms */
    double hysteresis_deg; /* for each step; at least 0 */
    uint64_t blind_turns;  /* out: slots in which nothing was above the mask */
} sky_handover_plan;

/* The satellites overhead of an observer, slot by slot: nearest the zenith, but a satellite keeps
 * the place until another of its own mesh stands higher by `hysteresis_deg` for each plane and slot
 * between them, or until it sinks below the mask. Candidates are its neighbours within three planes
 * and slots; only when none of those is above the mask is the whole sky searched. When nothing is,
 * the last one stays.
 * Returns the number of rows, at most `max` of them stored; the first is of turn 0 (the nearest to
 * the zenith even if it is below the mask). 0: the fleet has no grid, or the observer or the plan
 * is out of range */
SKY_API size_t sky_fleet_handovers(const sky_fleet *fleet, const sky_observer *o,
                                   sky_handover_plan *plan, sky_handover *out, size_t max);

/* The satellite of a plane and slot that were counted on without wrapping, any of them. */
SKY_API sky_satellite sky_unwrapped(const sky_constellation *c, int64_t plane, int64_t slot);

/* Elements without a grid get one: planes by their nodes, slots by argument of latitude, at `ms`.
 * Satellites that fit nowhere get no place. Errors: SKY_E_PARAM: no two planes of two satellites */
SKY_API sky_status sky_fleet_arrange(sky_fleet *fleet, int64_t ms, sky_error *error);

#ifdef __cplusplus
}
#endif
#endif
