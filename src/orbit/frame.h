/* What everyone in one sky agrees on: when it turns, where a chunk is at a time, how far things
 * are.
 *
 *   now (ns) ──► turns: how often the sky has turned ──► overhead, place of a chunk
 *   set_ms   ──►   the same count, for the moment a block was set
 *
 * An ideal sky turns by one slot each rotation. A physical sky's turns are handover slots of 15 s:
 * in most nothing changes; a table, computed on the ground and given to every satellite, says from
 * which turn on the centre is where. No trigonometry is needed to read it.
 *
 * Surprise: a block's set time is kept in whole milliseconds, and its turns are counted from
 * those, never from the finer clock it was read from. Whoever holds set_ms therefore counts the
 * same. */
#ifndef SKY_ORBIT_FRAME_H
#define SKY_ORBIT_FRAME_H

#include <skymem-sky/orbit.h>

#include "orbit/placement.h"
#include "wire/message.h"

/* When the sky turns: at start + k·rotation, for all k, and where to. */
typedef struct {
    int64_t start_ms;     /* wall, of time 0 */
    sky_time rotation_ns; /* at least 1; SKY_TIME_NEVER: it stands still */
    /* A physical sky: by turn, the first of turn 0; past the last row the centre stays. NULL: an
     * ideal sky. Owner: whoever made the table; it outlives all that have this. */
    const sky_handover *handovers;
    size_t handover_count;
} sky_turning;

/* How far the centre has gone by a turn, counted without wrapping; in an ideal sky (0, -turns). */
typedef struct {
    int64_t planes;
    int64_t slots;
} sky_steps;
sky_steps sky_turned(const sky_turning *t, uint64_t turns);

uint64_t sky_turns(const sky_turning *t, sky_time now);
uint64_t sky_turns_at_ms(const sky_turning *t, int64_t ms); /* 0 before the start */
sky_time sky_turn_begins(const sky_turning *t, uint64_t turns);
/* The last turn before the step that brought the centre to where it is in this one. False, and
 * *before is 0: it has made no step yet. In an ideal sky each turn is a step; in a physical one the
 * centre stays for many turns. */
bool sky_turn_before(const sky_turning *t, uint64_t turns, uint64_t *before);
int64_t sky_turning_ms(const sky_turning *t, sky_time now);

/* The satellite a chunk belongs on after `turns`. The facts' satellites must be of the
 * constellation (sky_facts_fit): they come from the wire. */
bool sky_facts_fit(const sky_constellation *c, const sky_chunk_facts *facts);
sky_satellite sky_chunk_place(const sky_constellation *c, const sky_turning *t,
                              const sky_chunk_facts *facts, uint64_t turns);
/* The place it had before that one; false: it never moved. */
bool sky_chunk_place_before(const sky_constellation *c, const sky_turning *t,
                            const sky_chunk_facts *facts, uint64_t turns, sky_satellite *out);
/* A chunk that could not be handed over is looked for where it belonged up to so many steps of the
 * centre ago. */
#define SKY_LAST_STEPS 8
/* The places it had in these steps, since it was set, the latest first; of neighbours that are the
 * same, and the same as its place now, one. Returns how many. */
uint32_t sky_chunk_last_places(const sky_constellation *c, const sky_turning *t,
                               const sky_chunk_facts *facts, uint64_t turns,
                               sky_satellite out[SKY_LAST_STEPS]);

bool sky_satellite_equal(sky_satellite a, sky_satellite b);

/* One sky as the ground session and its world see it. */
#define SKY_FRAME_SATELLITES_MAX 131072

typedef struct {
    sky_constellation constellation;
    sky_placement placement; /* resolved */
    sky_satellite centre;    /* overhead at time 0; for hop, where the model sits */
    sky_turning turning;
    uint32_t satellite_count;
    sky_satellite *servers; /* [placement.servers], for `centre` */
    sky_time *ground_ns;    /* one way, by plane and slot offset from the overhead satellite */
    sky_time *links_ns;     /* the same between satellites over the +GRID */
    struct sky_true_sky *physical; /* NULL: an ideal sky */

    /* A ground that is not where the observer is: see sky_frame_init_ground. */
    bool elsewhere;
    sky_steps away; /* ideal: from under the satellite overhead */
} sky_frame;

/* Owner:  sky_frame_deinit frees the tables
 * Errors: SKY_E_PARAM (placement, or more than SKY_FRAME_SATELLITES_MAX satellites), SKY_E_NOMEM */
sky_status sky_frame_init(sky_frame *f, const sky_constellation *constellation,
                          const sky_placement *placement, sky_satellite centre,
                          const sky_turning *turning, sky_error *error);
void sky_frame_deinit(sky_frame *f);

/* A laser that is down in some turns, the last one included. */
typedef struct {
    sky_satellite a, b;
    uint64_t first_turn, last_turn;
} sky_dead_laser;

/* From a turn on the window stands over another place. */
typedef struct {
    sky_observer observer;
    uint64_t turn;
} sky_anchor;

/* A physical sky: who is overhead comes from orbits. */
typedef struct {
    sky_fleet *fleet; /* with a grid; the frame's from now on, freed here when it fails */
    sky_observer observer;
    int64_t start_ms;  /* of the sky: wall, of turn 0 */
    int64_t slot_ms;   /* a turn, in the sky's time; turning->rotation_ns is the same in ours */
    double speed_km_h; /* the observer moves on a great circle that sets out on a course; 0: no */
    double course_deg; /* from north over east */
    uint64_t turns;    /* how many turns the table covers */
    double hysteresis_deg;      /* see sky_handover_plan */
    sky_satellite aboard;       /* hop: where the model is */
    const sky_dead_laser *dead; /* besides those behind the Earth; copied */
    uint32_t dead_count;
    const sky_anchor *anchors; /* in order of turns, each once; used by the call alone */
    uint32_t anchor_count;
} sky_physical;
/* Errors: SKY_E_PARAM (also: no laser joins two that are said to be dead), SKY_E_NOMEM */
sky_status sky_frame_init_physical(sky_frame *f, const sky_placement *placement,
                                   const sky_physical *physical, const sky_turning *turning,
                                   sky_error *error);
/* The same sky from another place: turns, placements and ways between satellites are those of
 * `home`, light to the ground is the place's own. In an ideal sky the place is `away` from under
 * the satellite overhead. In a physical one `physical` says where it is (its fleet is the frame's,
 * as for init_physical; its turns do not matter), and it sends through the highest of its sky.
 * Owner:  borrows the tables of `home`, which outlives it; sky_frame_deinit_ground
 * Errors: SKY_E_PARAM, SKY_E_NOMEM */
sky_status sky_frame_init_ground(sky_frame *f, const sky_frame *home, sky_steps away,
                                 const sky_physical *physical, sky_error *error);
void sky_frame_deinit_ground(sky_frame *f);
/* The satellite that a ground reaches all others through which it does not see: the centre, or of a
 * ground elsewhere the highest in its sky. */
sky_satellite sky_frame_access(const sky_frame *f, uint64_t turns);

/* Whether that stands above the ground's mask; always in an ideal sky, and aboard. */
bool sky_frame_in_sight(const sky_frame *f, uint64_t turns);
/* How high the satellite stands that the ground's link to `s` goes by, when the turn begins: `s`
 * itself above the mask, else the one it is reached through. 90 in an ideal sky, and aboard. */
double sky_frame_elevation_deg(const sky_frame *f, sky_satellite s, uint64_t turns);
/* Whether light finds a way between two ends; plane 0 is the session. Always in an ideal sky. */
bool sky_frame_joined(const sky_frame *f, sky_satellite a, sky_satellite b, uint64_t turns);
/* The next satellite on the shortest way over the lasers from one satellite to another; from one to
 * itself it is that one. False: no way leads there now, or the sky is an ideal one, where every way
 * by steps of the grid will do. */
bool sky_frame_hop(const sky_frame *f, sky_satellite from, sky_satellite to, uint64_t turns,
                   sky_satellite *hop);
/* What a datagram may take between two satellites: by steps of the grid half round either way, and
 * as lasers lead in a true sky as far again. */
uint32_t sky_frame_hops_max(const sky_frame *f);

/* Whether light finds a way between all satellites in all turns, as in an ideal sky. In a true one
 * no laser may then ever be down: none passes behind the Earth, and no outage names one. */
bool sky_frame_whole(const sky_frame *f);

/* Number of a satellite, from 0, and back. */
uint32_t sky_frame_number(const sky_frame *f, sky_satellite s);
sky_satellite sky_frame_satellite(const sky_frame *f, uint32_t number);

/* The centre of placements made after `turns`: the satellite overhead, or for hop the host. */
sky_satellite sky_frame_centre(const sky_frame *f, uint64_t turns);
/* Satellite of a server (from 1) for a placement around `centre`. */
sky_satellite sky_frame_first(const sky_frame *f, sky_satellite centre, uint32_t server);
/* The server (from 1) of a copy (from 0) of a chunk (from 1) that has `copies`: they are spread as
 * far from each other as the servers allow. */
uint32_t sky_frame_server(const sky_frame *f, uint32_t number, uint32_t copies, uint32_t copy);
/* The satellite that a copy of a block's head lies on at time 0: overhead, or near it. */
#define SKY_FRAME_HEADS_MAX 5
sky_satellite sky_frame_head(const sky_frame *f, uint32_t copy);
uint32_t sky_frame_heads_max(const sky_frame *f);

/* One-way light time between the session and a satellite, and between two satellites. In a physical
 * sky: at the beginning of the turn, straight to what stands above the mask, else through the
 * centre; between satellites the shortest way over lasers that do not graze the Earth. */
sky_time sky_frame_ground_ns(const sky_frame *f, sky_satellite s, uint64_t turns);
sky_time sky_frame_link_ns(const sky_frame *f, sky_satellite a, sky_satellite b, uint64_t turns);
/* The longest of the former to any server's place, and of the latter within the window. */
sky_time sky_frame_ground_ns_max(const sky_frame *f);
sky_time sky_frame_link_ns_max(const sky_frame *f);

/* How long a link of `bits_s` (0: no limit) is busy with so many bytes, rounded up. */
sky_time sky_link_busy_ns(uint64_t bits_s, uint64_t bytes);

#endif
