#include "config/physical.h"

#include <stdlib.h>

#include "base/error.h"
#include "io/file.h"
#include "orbit/fleet.h"

/* How far ahead the table of handovers looks, at least and at most; past its end the centre stays
 * where it is, as it does for a satellite that gets no new table. */
#define AHEAD_MIN_NS SKY_SECONDS(2 * 86400)
#define AHEAD_MAX_NS SKY_SECONDS(31 * 86400)

static sky_status load_isls(const sky_scenario *s, sky_fleet *fleet, sky_error *error) {
    char *text;
    size_t bytes;
    sky_status status = sky_file_read_all(s->isls_path, SKY_FLEET_FILE_MAX, &text, &bytes, error);
    if (status != SKY_OK)
        return status;
    status = sky__fleet_isls(fleet, text, bytes, s->isls_path, error);
    free(text);
    return status;
}

static sky_status load_elements(const sky_scenario *s, sky_fleet **out, sky_error *error) {
    char *text;
    size_t bytes;
    sky_status status = sky_file_read_all(s->elements_path, SKY_FLEET_FILE_MAX, &text, &bytes,
                                          error);
    if (status != SKY_OK)
        return status;
    sky_fleet *fleet = NULL;
    status = sky_fleet_parse(text, bytes, s->elements_path, &fleet, error);
    free(text);
    if (status == SKY_OK)
        status = sky_fleet_arrange(fleet, s->time.start_ms, error);
    if (status == SKY_OK && s->isls_path[0])
        status = load_isls(s, fleet, error);
    if (status != SKY_OK) {
        sky_fleet_destroy(fleet);
        return status;
    }
    *out = fleet;
    return SKY_OK;
}

sky_status sky__elements_shell(const char *path, int line, sky_scenario *s, sky_error *error) {
    sky_fleet *fleet;
    sky_error why = {0};
    sky_status status = load_elements(s, &fleet, &why);
    if (status != SKY_OK)
        return sky_fail(error, status, "%s:%d: constellation.tle: %s", path, line, why.text);
    double light_km_s = s->constellation.light_km_s;
    s->constellation = *sky_fleet_shell(fleet);
    s->constellation.earth_radius_km = 6378.137;
    s->constellation.light_km_s = light_km_s;
    sky_fleet_destroy(fleet);
    return SKY_OK;
}

uint64_t sky__physical_turns(const sky_scenario *s) {
    double ahead = (double)s->until_ns * (s->time.scale > 0 ? s->time.scale : 1);
    ahead = ahead < (double)AHEAD_MIN_NS ? (double)AHEAD_MIN_NS : ahead;
    ahead = ahead > (double)AHEAD_MAX_NS ? (double)AHEAD_MAX_NS : ahead;
    return (uint64_t)(ahead / (double)s->time.rotation_ns) + 2;
}

static sky_status make_fleet(const sky_scenario *s, sky_fleet **out, sky_error *error) {
    return s->elements_path[0]
               ? load_elements(s, out, error)
               : sky_fleet_walker(&s->constellation, SKY_SHELL_EPOCH_MS, out, error);
}

static sky_observer observer_of(const sky_scenario *s, uint32_t ground) {
    sky_observer o = {.latitude_deg = s->observer.latitude_deg,
                      .longitude_deg = s->observer.longitude_deg,
                      .altitude_m = s->observer.altitude_m,
                      .min_elevation_deg = s->observer.min_elevation_deg};
    if (ground > 0) {
        o.latitude_deg = s->grounds[ground - 1].place[0];
        o.longitude_deg = s->grounds[ground - 1].place[1];
        o.altitude_m = s->grounds[ground - 1].altitude_m;
        if (s->grounds[ground - 1].min_elevation_deg > 0)
            o.min_elevation_deg = s->grounds[ground - 1].min_elevation_deg;
    }
    return o;
}

static void add_dead(const sky_scenario *s, const sky_turning *turning,
                     sky_dead_laser dead[SKY_OUTAGES_MAX], sky_physical *p) {
    p->dead = dead;
    for (uint32_t i = 0; i < s->outage_count; i++) {
        const sky_outage *o = &s->outages[i];
        if (o->kind == SKY_OUTAGE_LINK)
            dead[p->dead_count++] = (sky_dead_laser){o->a, o->b, sky_turns(turning, o->from_ns),
                                                     sky_turns(turning, o->to_ns - 1)};
    }
}

sky_status sky__physical_frame(const sky_scenario *s, const sky_turning *turning, sky_frame *f,
                               sky_error *error) {
    sky_anchor anchors[SKY_GROUNDS_MAX];
    for (uint32_t i = 0; i < s->anchor_count; i++)
        anchors[i] = (sky_anchor){observer_of(s, s->anchors[i].ground),
                                  sky_turns(turning, s->anchors[i].from_ns)};
    sky_physical p = {.observer = observer_of(s, 0),
                      .anchors = anchors,
                      .anchor_count = s->anchor_count,
                      .start_ms = s->time.start_ms,
                      .slot_ms = s->time.rotation_ns / SKY_MS(1),
                      .turns = sky__physical_turns(s),
                      .hysteresis_deg = s->observer.hysteresis_deg,
                      .aboard = s->centre};
    sky_dead_laser dead[SKY_OUTAGES_MAX];
    add_dead(s, turning, dead, &p);
    sky_status status = make_fleet(s, &p.fleet, error);
    return status == SKY_OK ? sky_frame_init_physical(f, &s->placement, &p, turning, error)
                            : status;
}

sky_status sky__ground_frame(const sky_scenario *s, const sky_frame *home, uint32_t number,
                             sky_frame *f, sky_error *error) {
    static const sky_scenario_ground still = {.name = SKY_OBSERVER_NAME};
    const sky_scenario_ground *g = number > 0 ? &s->grounds[number - 1] : &still;
    if (!s->physical)
        return sky_frame_init_ground(
            f, home, (sky_steps){(int64_t)g->place[0], (int64_t)g->place[1]}, NULL, error);
    sky_dead_laser dead[SKY_OUTAGES_MAX];
    sky_physical p = {.observer = observer_of(s, number),
                      .speed_km_h = g->speed_km_h,
                      .course_deg = g->course_deg,
                      .start_ms = s->time.start_ms,
                      .slot_ms = s->time.rotation_ns / SKY_MS(1),
                      .turns = 1,
                      .hysteresis_deg = s->observer.hysteresis_deg};
    add_dead(s, &home->turning, dead, &p);
    sky_status status = make_fleet(s, &p.fleet, error);
    return status == SKY_OK ? sky_frame_init_ground(f, home, (sky_steps){0, 0}, &p, error) : status;
}
