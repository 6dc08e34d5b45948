/* A fleet from inside: satellites of a shell are computed, those with elements are kept.
 *
 *   number ──┬─► member (elements) ────── sgp4 ──► state
 *            └─► plane, slot (of a shell) walker ─► state
 *
 *   numbers[(plane − 1)·slots + slot − 1] ──► number      once elements are arranged */
#ifndef SKY_ORBIT_FLEET_H
#define SKY_ORBIT_FLEET_H

#include <skymem-sky/orbit.h>

#include "orbit/sgp4.h"
#include "orbit/walker.h"

typedef struct {
    sky__sgp4 orbit;
    char name[SKY_FLEET_NAME_BYTES];
    sky_satellite place; /* (0, 0): none */
} sky__member;

struct sky_fleet {
    sky_constellation shell; /* planes 0: no grid yet */
    uint32_t count;
    /* a shell */
    sky__walker walker;
    int64_t epoch_ms;
    double drift_rad_ms;
    /* elements: members not NULL */
    sky__member *members;
    uint32_t member_max;
    uint32_t *numbers;
    uint32_t told_planes, told_slots; /* by the file, whose satellites stand in that order; or 0 */
    uint8_t *lasers; /* [planes × slots] SKY__LASER_… that there are; NULL: all of the +GRID */
    int32_t link_offset; /* of these */
};

/* A satellite's laser to the next slot of its plane, and to the plane after. */
#define SKY__LASER_AHEAD  1
#define SKY__LASER_BESIDE 2

/* Whether it was read from elements; else it is a shell. */
bool sky_fleet_has_elements(const sky_fleet *fleet);
/* Which slot of the next plane a satellite is linked with: same slot plus this. */
int32_t sky_fleet_link_offset(const sky_fleet *fleet);

/* sky_fleet_number of a plane and slot that the grid has. */
static inline uint32_t sky__fleet_number(const sky_fleet *f, sky_satellite s) {
    uint32_t cell = (s.plane - 1) * f->shell.slots + (s.slot - 1);
    return f->members ? f->numbers[cell] : cell;
}

/* Whether the file said how many planes and slots there are, as Hypatia's do. */
static inline bool sky__fleet_is_told(const sky_fleet *f) {
    return f->told_planes > 0;
}

/* The lasers of a fleet that was told its grid, and is arranged: Hypatia's isls.txt, a line "a b"
 * for each, numbers of satellites from 0, a below b. All must be of one +GRID: neighbours in a
 * plane, or in planes next to each other with as many slots between them everywhere.
 * Errors: SKY_E_SYNTAX, SKY_E_PARAM (no such grid), SKY_E_NOMEM; `error` gets "path:line: …" */
sky_status sky__fleet_isls(sky_fleet *f, const char *text, size_t bytes, const char *path,
                           sky_error *error);

/* What a parser hands over. Errors: SKY_E_PARAM (out of range, too many), SKY_E_NOMEM */
sky_status sky__fleet_add(sky_fleet *f, const char *name, size_t name_bytes,
                          const sky__elements *e);

/* Is line 1 of an element the first line or the one after? Neither OMM nor CSV begins so. */
bool sky__tle_begins(const char *text, size_t bytes);
/* The readers; `error` gets "path:line: reason". */
sky_status sky__tle_read(const char *text, size_t bytes, const char *path, sky_fleet *f,
                         sky_error *error);
sky_status sky__omm_json(const char *text, size_t bytes, const char *path, sky_fleet *f,
                         sky_error *error);
sky_status sky__omm_csv(const char *text, size_t bytes, const char *path, sky_fleet *f,
                        sky_error *error);
sky_status sky__omm_kvn(const char *text, size_t bytes, const char *path, sky_fleet *f,
                        sky_error *error);

#define SKY__EPOCH_DAY_1970 7306 /* days from 1949-12-31 to 1970-01-01 */

/* The text line at *at, without its end; false at the end of the text. */
typedef struct {
    const char *at, *end;
    size_t number; /* of the line last given, from 1 */
} sky__lines;
bool sky__line_next(sky__lines *l, const char **line, size_t *bytes);

#endif
