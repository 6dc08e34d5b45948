/* Fleets: where each satellite is, whatever it is known by. */
#include "orbit/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "orbit/placement.h"
#include "orbit/torus.h"
#include "orbit/trig.h"

#define MS_PER_DAY 86400000.0

bool sky__line_next(sky__lines *l, const char **line, size_t *bytes) {
    if (l->at == l->end)
        return false;
    const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
    *line = l->at;
    *bytes = (size_t)((stop ? stop : l->end) - l->at);
    if (*bytes > 0 && (*line)[*bytes - 1] == '\r')
        --*bytes;
    l->at = stop ? stop + 1 : l->end;
    l->number++;
    return true;
}

/* ---- made ---- */

sky_status sky_fleet_walker(const sky_constellation *c, int64_t epoch_ms, sky_fleet **out,
                            sky_error *error) {
    sky_status status = sky__constellation_check(c, error);
    if (status != SKY_OK)
        return status;
    if (!out)
        return sky_fail(error, SKY_E_PARAM, "nowhere to put the fleet");
    if (c->planes * c->slots > SKY_FLEET_MAX)
        return sky_fail(error, SKY_E_PARAM, "%u planes x %u slots: at most %d in a fleet",
                        c->planes, c->slots, SKY_FLEET_MAX);
    if (c->phasing >= c->planes * c->slots)
        return sky_fail(error, SKY_E_PARAM, "phasing is %u: less than planes x slots, %u",
                        c->phasing, c->planes * c->slots);
    if (!(c->altitude_km >= 100 && c->altitude_km <= 1e6 && c->inclination_deg >= 0 &&
          c->inclination_deg <= 180))
        return sky_fail(error, SKY_E_PARAM, "altitude %g km, inclination %g degrees: out of range",
                        c->altitude_km, c->inclination_deg);
    sky_fleet *f = calloc(1, sizeof *f);
    if (!f)
        return sky_fail(error, SKY_E_NOMEM, "out of memory");
    f->shell = *c;
    f->count = c->planes * c->slots;
    f->epoch_ms = epoch_ms;
    f->drift_rad_ms = sky_node_drift_deg_day(c) * SKY_DEGREE / MS_PER_DAY;
    sky__walker_init(&f->walker, c);
    *out = f;
    return SKY_OK;
}

sky_status sky__fleet_add(sky_fleet *f, const char *name, size_t name_bytes,
                          const sky__elements *e) {
    if (f->count == f->member_max) {
        uint32_t more = f->member_max ? 2 * f->member_max : 64;
        if (more > SKY_FLEET_MAX)
            return SKY_E_PARAM;
        sky__member *members = realloc(f->members, more * sizeof *members);
        if (!members)
            return SKY_E_NOMEM;
        f->members = members;
        f->member_max = more;
    }
    sky__member *m = &f->members[f->count];
    memset(m, 0, sizeof *m);
    sky_status status = sky__sgp4_init(&m->orbit, e);
    if (status != SKY_OK)
        return status;
    size_t room = sizeof m->name - 1;
    for (size_t i = 0; i < name_bytes && i < room; i++)
        m->name[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
    if (!m->name[0])
        snprintf(m->name, sizeof m->name, "%05u", e->number);
    f->count++;
    return SKY_OK;
}

void sky_fleet_destroy(sky_fleet *f) {
    if (!f)
        return;
    free(f->members);
    free(f->numbers);
    free(f->lasers);
    free(f);
}

/* ---- asked ---- */

bool sky_fleet_has_elements(const sky_fleet *f) {
    return f->members != NULL;
}

uint32_t sky_fleet_count(const sky_fleet *f) {
    return f ? f->count : 0;
}

const sky_constellation *sky_fleet_shell(const sky_fleet *f) {
    return f ? &f->shell : NULL;
}

sky_satellite sky_fleet_place(const sky_fleet *f, uint32_t number) {
    if (!f || number >= f->count)
        return (sky_satellite){0, 0};
    if (f->members)
        return f->members[number].place;
    return (sky_satellite){number / f->shell.slots + 1, number % f->shell.slots + 1};
}

uint32_t sky_fleet_number(const sky_fleet *f, sky_satellite s) {
    return f && sky__on_torus(&f->shell, s) ? sky__fleet_number(f, s) : UINT32_MAX;
}

const char *sky_fleet_name(const sky_fleet *f, uint32_t number, char out[SKY_FLEET_NAME_BYTES]) {
    sky_satellite s = sky_fleet_place(f, number);
    if (!out)
        return "";
    if (!f || number >= f->count)
        out[0] = 0;
    else if (f->members)
        snprintf(out, SKY_FLEET_NAME_BYTES, "%s", f->members[number].name);
    else
        snprintf(out, SKY_FLEET_NAME_BYTES, "%u,%u", s.plane, s.slot);
    return out;
}

const char *sky_orbit_fault_text(sky_orbit_fault fault) {
    switch (fault) {
    case SKY_ORBIT_FINE:
        return "fine";
    case SKY_ORBIT_ECCENTRICITY:
        return "mean eccentricity not within 0 and 1";
    case SKY_ORBIT_MOTION:
        return "mean motion not positive";
    case SKY_ORBIT_PERTURBED:
        return "perturbed eccentricity not within 0 and 1";
    case SKY_ORBIT_LATUS:
        return "semi-latus rectum negative";
    case SKY_ORBIT_DECAYED:
        return "decayed";
    case SKY_ORBIT_FAR:
        return "more than 190 years from its epoch";
    }
    return "unknown";
}

int64_t sky_fleet_epoch_ms(const sky_fleet *f, uint32_t number) {
    if (!f || number >= f->count)
        return 0;
    if (!f->members)
        return f->epoch_ms;
    double days = f->members[number].orbit.at_epoch.epoch_days - SKY__EPOCH_DAY_1970;
    return (int64_t)floor(days * MS_PER_DAY + 0.5);
}

static sky_orbit_fault walker_state(const sky_fleet *f, uint32_t number, double since_ms,
                                    sky_motion *out) {
    *out = sky__walker_at(&f->walker, sky_fleet_place(f, number), since_ms / 1000,
                          f->drift_rad_ms * since_ms);
    return SKY_ORBIT_FINE;
}

sky_orbit_fault sky_fleet_state(const sky_fleet *f, uint32_t number, int64_t ms, sky_motion *out) {
    if (!f || !out || number >= f->count)
        return SKY_ORBIT_FAR;
    if (!f->members)
        return walker_state(f, number, (double)ms - (double)f->epoch_ms, out);
    const sky__sgp4 *orbit = &f->members[number].orbit;
    double epoch_ms = (orbit->at_epoch.epoch_days - SKY__EPOCH_DAY_1970) * MS_PER_DAY;
    return sky__sgp4_at(orbit, ((double)ms - epoch_ms) / 60000, out);
}

sky_orbit_fault sky_fleet_state_after(const sky_fleet *f, uint32_t number, double minutes,
                                      sky_motion *out) {
    if (!f || !out || number >= f->count || !(fabs(minutes) <= SKY__SGP4_MINUTES_MAX))
        return SKY_ORBIT_FAR;
    if (!f->members)
        return walker_state(f, number, floor(minutes * 60000 + 0.5), out);
    return sky__sgp4_at(&f->members[number].orbit, minutes, out);
}
