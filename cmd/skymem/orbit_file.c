/* skymem orbit propagate, czml: satellites as numbers, and as a file a Cesium viewer flies. */
#include "orbit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MINUTES_MAX 4096

/* ---- propagate ---- */

static json_t *vector_json(sky_vector v, int decimals) {
    return json_pack("[o, o, o]", orbit_real(v.x, decimals), orbit_real(v.y, decimals),
                     orbit_real(v.z, decimals));
}

static int propagate_one(orbit_rows *rows, const sky_fleet *f, uint32_t number, double minutes,
                         char *fault_said, size_t bytes) {
    char name[SKY_FLEET_NAME_BYTES];
    sky_motion s = {{NAN, NAN, NAN}, {NAN, NAN, NAN}};
    sky_orbit_fault fault = sky_fleet_state_after(f, number, minutes, &s);
    const char *error = fault == SKY_ORBIT_FINE ? NULL : sky_orbit_fault_text(fault);
    sky_fleet_name(f, number, name);
    if (error && !fault_said[0])
        snprintf(fault_said, bytes, "%s at %g min: %s", name, minutes, error);
    return orbit_row(rows, json_pack("{s:s, s:f, s:o, s:o, s:s?}", "satellite", name, "minutes",
                                     minutes, "r_km", vector_json(s.r_km, 8), "v_km_s",
                                     vector_json(s.v_km_s, 9), "error", error));
}

int orbit_propagate(cli *c) {
    static double minutes[MINUTES_MAX];
    size_t minute_count;
    sky_fleet *f = NULL;
    char fault_said[160] = "";
    if (!cli_given(c, "tle") || !cli_given(c, "minutes"))
        return cli_usage(c, "--tle FILE and --minutes A,B,… are needed");
    int code = orbit_reals(c, "minutes", minutes, MINUTES_MAX, &minute_count);
    if (code == CLI_OK)
        code = orbit_fleet(c, &f);
    orbit_rows rows;
    orbit_rows_begin(&rows, c);
    for (uint32_t i = 0; code == CLI_OK && i < sky_fleet_count(f); i++)
        for (size_t k = 0; k < minute_count && code == CLI_OK; k++)
            code = propagate_one(&rows, f, i, minutes[k], fault_said, sizeof fault_said);
    orbit_rows_end(&rows);
    sky_fleet_destroy(f);
    if (code == CLI_OK && fault_said[0])
        return cli_failed(c, "%s", fault_said);
    return code;
}

/* ---- czml ---- */

/* Positions in metres, seconds since the epoch before each, in the frame of the Earth: what Cesium
 * calls inertial is ICRF, from which TEME has gone a third of a degree since 2000 (precession). */
static json_t *czml_positions(const sky_fleet *f, uint32_t number, int64_t from, int64_t to,
                              int64_t step) {
    json_t *list = json_array();
    for (int64_t ms = from;; ms = ms + step < to ? ms + step : to) {
        sky_motion s;
        if (sky_fleet_state(f, number, ms, &s) != SKY_ORBIT_FINE)
            break;
        sky_vector km = sky_earth_fixed(ms, s.r_km);
        json_array_append_new(list, orbit_real((double)(ms - from) / 1000, 3));
        json_array_append_new(list, orbit_real(km.x * 1000, 1));
        json_array_append_new(list, orbit_real(km.y * 1000, 1));
        json_array_append_new(list, orbit_real(km.z * 1000, 1));
        if (ms >= to)
            break;
    }
    return list;
}

static json_t *czml_document(int64_t from, int64_t to, char epoch[SKY_UTC_BYTES]) {
    char end[SKY_UTC_BYTES], interval[2 * SKY_UTC_BYTES + 2];
    snprintf(interval, sizeof interval, "%s/%s", sky_utc_text(from, epoch), sky_utc_text(to, end));
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:i, s:s, s:s}}", "id", "document", "name",
                     "skymem orbit", "version", "1.0", "clock", "interval", interval, "currentTime",
                     epoch, "multiplier", 60, "range", "LOOP_STOP", "step",
                     "SYSTEM_CLOCK_MULTIPLIER");
}

static json_t *czml_packet(const sky_fleet *f, uint32_t number, int64_t from, int64_t to,
                           int64_t step, const char *epoch) {
    char name[SKY_FLEET_NAME_BYTES], id[SKY_FLEET_NAME_BYTES + 24];
    sky_fleet_name(f, number, name);
    snprintf(id, sizeof id, "satellite/%u", number);
    /* A colour for each plane, so that the mesh can be seen. */
    uint32_t plane = sky_fleet_place(f, number).plane;
    return json_pack(
        "{s:s, s:s, s:{s:i, s:{s:[i,i,i,i]}}, s:{s:s, s:s, s:s, s:i, s:o}}", "id", id, "name", name,
        "point", "pixelSize", 4, "color", "rgba", (int)(80 + plane * 61 % 176),
        (int)(80 + plane * 103 % 176), (int)(80 + plane * 29 % 176), 255, "position", "epoch",
        epoch, "referenceFrame", "FIXED", "interpolationAlgorithm", "LAGRANGE",
        "interpolationDegree", 5, "cartesian", czml_positions(f, number, from, to, step));
}

static int write_czml(cli *c, const sky_fleet *f, int64_t from, int64_t to, int64_t step) {
    char epoch[SKY_UTC_BYTES];
    json_t *czml = json_array();
    json_array_append_new(czml, czml_document(from, to, epoch));
    for (uint32_t i = 0; i < sky_fleet_count(f); i++)
        json_array_append_new(czml, czml_packet(f, i, from, to, step, epoch));
    char *text = json_dumps(czml, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(czml);
    if (!text)
        return cli_failed(c, "out of memory");
    const char *path = cli_text(c, "output");
    size_t bytes = strlen(text);
    int code = cli_file_write(c, path, text, bytes);
    free(text);
    if (code != CLI_OK)
        return code;
    orbit_rows rows;
    orbit_rows_begin(&rows, c);
    code = orbit_row(&rows, json_pack("{s:o, s:I, s:I, s:s}", "file", cli_json_text(path),
                                      "satellites", (json_int_t)sky_fleet_count(f), "bytes",
                                      (json_int_t)bytes, "start", epoch));
    orbit_rows_end(&rows);
    return code;
}

int orbit_czml(cli *c) {
    sky_fleet *f = NULL;
    int64_t from = 0;
    if (!cli_given(c, "output"))
        return cli_usage(c, "-o FILE is needed");
    int code = orbit_fleet(c, &f);
    if (code == CLI_OK)
        from = sky_fleet_epoch_ms(f, 0);
    if (code == CLI_OK && cli_given(c, "start"))
        code = orbit_time(c, "start", &from);
    int64_t length = (int64_t)(cli_number(c, "hours") * 3600000);
    int64_t step = (int64_t)(cli_number(c, "step") * 1000);
    int64_t steps = length / step + 2;
    if (code == CLI_OK && (double)sky_fleet_count(f) * (double)steps > 2e6)
        code = cli_usage(c,
                         "%u satellites every %g s for %g hours are too many positions: raise "
                         "--step or lower --hours",
                         sky_fleet_count(f), cli_number(c, "step"), cli_number(c, "hours"));
    if (code == CLI_OK)
        code = orbit_places(c, f, from, from + length);
    if (code == CLI_OK)
        code = write_czml(c, f, from, from + length, step);
    sky_fleet_destroy(f);
    return code;
}
