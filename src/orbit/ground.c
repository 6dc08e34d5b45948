/* What an observer on the turning Earth sees: looks, and passes above the mask.
 *
 * Surprise: a pass is found by looking every so often (a few hundredths of an orbit) and following
 * each peak up, so that one that rises and sets between two looks is found too. */
#include "orbit/ground.h"

#include <math.h>

#include "orbit/fleet.h"
#include "orbit/trig.h"
#include "orbit/utc.h"

#define WGS84_RADIUS_KM 6378.137
#define WGS84_E2        6.69437999014e-3
#define ALTITUDE_M_MAX  1e6

static double dot_product(sky_vector a, sky_vector b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static sky_vector vector_minus(sky_vector a, sky_vector b) {
    return (sky_vector){a.x - b.x, a.y - b.y, a.z - b.z};
}

bool sky__observer_valid(const sky_observer *o) {
    return o && fabs(o->latitude_deg) <= 90 && fabs(o->longitude_deg) <= 360 &&
           fabs(o->altitude_m) <= ALTITUDE_M_MAX && fabs(o->min_elevation_deg) <= 90;
}

#define MEAN_RADIUS_KM 6371.0088

sky_observer sky__observer_moved(const sky_observer *o, double km, double course_deg) {
    sky_turn_of phi = sky__sincos(o->latitude_deg * SKY_DEGREE);
    sky_turn_of lambda = sky__sincos(o->longitude_deg * SKY_DEGREE);
    sky_turn_of course = sky__sincos(course_deg * SKY_DEGREE);
    sky_turn_of gone = sky__sincos(km / MEAN_RADIUS_KM);
    const sky_vector from = {phi.cosine * lambda.cosine, phi.cosine * lambda.sine, phi.sine};
    const sky_vector ahead = {
        -course.cosine * phi.sine * lambda.cosine - course.sine * lambda.sine,
        -course.cosine * phi.sine * lambda.sine + course.sine * lambda.cosine,
        course.cosine * phi.cosine,
    };
    const sky_vector at = {from.x * gone.cosine + ahead.x * gone.sine,
                           from.y * gone.cosine + ahead.y * gone.sine,
                           from.z * gone.cosine + ahead.z * gone.sine};
    sky_observer moved = *o;
    moved.latitude_deg = sky__asin(at.z) / SKY_DEGREE;
    moved.longitude_deg = sky__atan2(at.y, at.x) / SKY_DEGREE;
    return moved;
}

static sky_vector direction_of(const sky_observer *o) {
    sky_turn_of phi = sky__sincos(o->latitude_deg * SKY_DEGREE);
    sky_turn_of lambda = sky__sincos(o->longitude_deg * SKY_DEGREE);
    return (sky_vector){phi.cosine * lambda.cosine, phi.cosine * lambda.sine, phi.sine};
}

/* From half the chord, which is exact also for places that are near each other. */
double sky__ground_km(const sky_observer *a, const sky_observer *b) {
    sky_vector way = vector_minus(direction_of(a), direction_of(b));
    return 2 * MEAN_RADIUS_KM * sky__asin(sqrt(dot_product(way, way)) / 2);
}

sky__station sky__station_at(const sky_observer *o, int64_t ms) {
    sky_turn_of latitude = sky__sincos(o->latitude_deg * SKY_DEGREE);
    sky_turn_of turned = sky__sincos(o->longitude_deg * SKY_DEGREE + sky_gmst_rad(ms));
    double curve = WGS84_RADIUS_KM /
                   sqrt(1 - WGS84_E2 * latitude.sine * latitude.sine); /* prime vertical */
    double out = (curve + o->altitude_m / 1000) * latitude.cosine;
    return (sky__station){
        .place_km = {out * turned.cosine, out * turned.sine,
                     (curve * (1 - WGS84_E2) + o->altitude_m / 1000) * latitude.sine},
        .up = {latitude.cosine * turned.cosine, latitude.cosine * turned.sine, latitude.sine},
        .north = {-latitude.sine * turned.cosine, -latitude.sine * turned.sine, latitude.cosine},
        .east = {-turned.sine, turned.cosine, 0},
    };
}

sky_vector sky_earth_fixed(int64_t ms, sky_vector teme_km) {
    sky_turn_of earth = sky__sincos(sky_gmst_rad(ms));
    return (sky_vector){earth.cosine * teme_km.x + earth.sine * teme_km.y,
                        earth.cosine * teme_km.y - earth.sine * teme_km.x, teme_km.z};
}

double sky__sine_elevation(const sky__station *s, sky_vector satellite_km) {
    sky_vector way = vector_minus(satellite_km, s->place_km);
    return dot_product(way, s->up) / sqrt(dot_product(way, way));
}

sky_look sky_observer_look(const sky_observer *o, int64_t ms, sky_vector satellite_km) {
    if (!sky__observer_valid(o))
        return (sky_look){.elevation_deg = -90};
    sky__station s = sky__station_at(o, ms);
    sky_vector way = vector_minus(satellite_km, s.place_km);
    double range = sqrt(dot_product(way, way));
    if (!(range > 0) || isinf(range))
        return (sky_look){.elevation_deg = -90};
    double azimuth = sky__turned(sky__atan2(dot_product(way, s.east), dot_product(way, s.north)));
    return (sky_look){.elevation_deg = sky__asin(dot_product(way, s.up) / range) / SKY_DEGREE,
                      .azimuth_deg = azimuth / SKY_DEGREE,
                      .range_km = range};
}

/* ---- passes ---- */

typedef struct {
    const sky_fleet *fleet;
    const sky_observer *observer;
    uint32_t number;
} watch;

/* Degrees above the mask; a satellite that is nowhere is far below. */
static double elevation_above(const watch *w, int64_t ms) {
    sky_motion s;
    if (sky_fleet_state(w->fleet, w->number, ms, &s) != SKY_ORBIT_FINE)
        return -180;
    return sky_observer_look(w->observer, ms, s.r_km).elevation_deg -
           w->observer->min_elevation_deg;
}

/* The millisecond at which it crosses the mask, of two times on either side of it. */
static int64_t find_crossing(const watch *w, int64_t below, int64_t over) {
    while (below - over > 1 || over - below > 1) {
        int64_t middle = below + (over - below) / 2;
        if (elevation_above(w, middle) < 0)
            below = middle;
        else
            over = middle;
    }
    return over;
}

/* The highest point between two times with one peak between them. */
static int64_t find_peak(const watch *w, int64_t from, int64_t to) {
    while (to - from > 2) {
        int64_t a = from + (to - from) / 3;
        int64_t b = to - (to - from) / 3;
        if (elevation_above(w, a) < elevation_above(w, b))
            from = a;
        else
            to = b;
    }
    return from + (to - from) / 2;
}

/* A few hundredths of an orbit, so that elevation has at most one peak in two steps. */
static int64_t step_ms(const watch *w, int64_t ms) {
    sky_motion s;
    if (sky_fleet_state(w->fleet, w->number, ms, &s) != SKY_ORBIT_FINE)
        return 60000;
    double r = sqrt(dot_product(s.r_km, s.r_km));
    double period_s = SKY_TWO_PI * sqrt(r * r * r / 398600.4418);
    double step = period_s * 1000 / 200;
    return (int64_t)(step < 10000 ? 10000 : step > 120000 ? 120000 : step);
}

typedef struct {
    sky_pass *out;
    size_t count, max;
    sky_pass open;
    bool is_open;
    double highest;
} log_book;

static void open_pass(log_book *l, uint32_t satellite, int64_t ms) {
    l->open = (sky_pass){.satellite = satellite, .rise_ms = ms, .culminate_ms = ms};
    l->is_open = true;
    l->highest = -90;
}

static void note_look(log_book *l, const watch *w, int64_t ms) {
    double height = elevation_above(w, ms);
    if (l->is_open && height > l->highest) {
        l->highest = height;
        l->open.culminate_ms = ms;
    }
}

static void close_pass(log_book *l, const watch *w, int64_t ms) {
    l->open.set_ms = ms;
    note_look(l, w, ms);
    l->open.max_elevation_deg = l->highest + w->observer->min_elevation_deg;
    if (l->count < l->max)
        l->out[l->count] = l->open;
    l->count++;
    l->is_open = false;
}

/* A peak between looks: it may be a pass of its own. */
static void climb_to_peak(log_book *l, const watch *w, int64_t from, int64_t to) {
    int64_t top = find_peak(w, from, to);
    if (!l->is_open && elevation_above(w, top) >= 0) {
        open_pass(l, w->number, find_crossing(w, from, top));
        note_look(l, w, top);
        close_pass(l, w, find_crossing(w, to, top));
    }
    note_look(l, w, top);
}

size_t sky_fleet_passes(const sky_fleet *fleet, uint32_t number, const sky_observer *o,
                        int64_t from_ms, int64_t to_ms, sky_pass *out, size_t max) {
    if (!fleet || number >= fleet->count || !sky__observer_valid(o) || (!out && max > 0) ||
        to_ms < from_ms || (uint64_t)to_ms - (uint64_t)from_ms > SKY_PASSES_SPAN_MS_MAX)
        return 0;
    watch w = {fleet, o, number};
    log_book l = {.out = out, .max = max};
    int64_t before = from_ms, at = from_ms;
    double height_before = elevation_above(&w, from_ms), height = height_before;
    if (height >= 0)
        open_pass(&l, number, from_ms);
    note_look(&l, &w, from_ms);
    while (at < to_ms) {
        int64_t step = step_ms(&w, at), next = to_ms - at > step ? at + step : to_ms;
        double height_next = elevation_above(&w, next);
        if (height >= height_before && height > height_next && height + 30 > 0)
            climb_to_peak(&l, &w, before, next);
        if (height < 0 && height_next >= 0)
            open_pass(&l, number, find_crossing(&w, at, next));
        if (next == to_ms && height_next >= height) /* no later look shows a peak before it */
            climb_to_peak(&l, &w, at, next);
        if (height >= 0 && height_next < 0)
            close_pass(&l, &w, find_crossing(&w, next, at));
        note_look(&l, &w, next);
        before = at;
        height_before = height;
        at = next;
        height = height_next;
    }
    if (l.is_open)
        close_pass(&l, &w, to_ms);
    return l.count;
}
