/* Scenario files: the keys are read one by one (scenario_fields.c), then what concerns several is
 * checked (scenario_check.c).
 *
 * Surprises: numbers are read in the C locale whatever the program set. `placement` is resolved and
 * `center` checked when all keys are known. */
#include "config/scenario.h"

#include <locale.h>
#include <stdlib.h>

#include <skymem-sky/sim.h>

#include "base/error.h"
#include "config/scenario_reader.h"
#include "io/file.h"
#include "orbit/placement.h"

typedef sky__scenario_reader reader;

/* Light in glass goes 200,000 km/s, on routes half as long again as the great circle. */
#define LAND_KM_S 133000

static void set_defaults(sky_scenario *s) {
    *s = (sky_scenario){
        .constellation = {.altitude_km = 550,
                          .inclination_deg = 53,
                          .earth_radius_km = 6378.137,
                          .light_km_s = 299792.458},
        .placement = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9},
        .observer = {.min_elevation_deg = 25, .hysteresis_deg = 10},
        .chunk_bytes = 6144,
        .satellite = {.memory_bytes = 64u << 20, .processing_ns = SKY_MS(2), .repair_share = 0.1},
        .links = {.isl_bits_s = 10000000000u,
                  .ground_bits_s = 200000000u,
                  .queue_bytes = 1u << 20,
                  .land_km_s = LAND_KM_S},
        .time = {.start_ms = 1795132800000, .scale = 1}, /* 2026-11-20T00:00:00Z */
        .lookup = SKY_LOOKUP_INDEX,
        .eviction = SKY_EVICT_GOSSIP,
        .workload = {.keys = 200,
                     .gets = 2000,
                     .value_bytes = 3040870,
                     .zipf = 0.9,
                     .chain = 1,
                     .every_ns = SKY_MS(100)},
        .faults = {.liar = SKY_LIAR_WRONG_BYTES},
        .until_ns = SKY_SECONDS(3600),
        .udp = {.far = false},
    };
}

static sky_status parse_text(const char *text, size_t bytes, const char *path, bool is_file,
                             sky_scenario *out, sky_error *error) {
    if (bytes > SKY_SCENARIO_BYTES_MAX)
        return sky_fail(error, SKY_E_PARAM, "%s: %zu bytes: a scenario has at most %u", path, bytes,
                        SKY_SCENARIO_BYTES_MAX);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return sky_fail(error, SKY_E_NOMEM, "%s: out of memory", path);
    locale_t before = uselocale(plain);
    reader r = {.path = path, .error = error, .is_file = is_file};
    set_defaults(&r.out);
    sky_status status = sky_yaml_walk(text, bytes, path, sky__scenario_entry, &r, error);
    if (status == SKY_OK)
        status = sky__scenario_check(&r);
    if (status == SKY_OK)
        *out = r.out;
    uselocale(before);
    freelocale(plain);
    return status;
}

sky_status sky_scenario_parse(const char *text, size_t bytes, const char *path, sky_scenario *out,
                              sky_error *error) {
    return parse_text(text, bytes, path, false, out, error);
}

sky_status sky_scenario_parse_file(const char *text, size_t bytes, const char *path,
                                   sky_scenario *out, sky_error *error) {
    return parse_text(text, bytes, path, true, out, error);
}

sky_status sky_scenario_load(const char *path, sky_scenario *out, sky_error *error) {
    char *text;
    size_t bytes;
    sky_status status = sky_file_read_all(path, SKY_SCENARIO_BYTES_MAX, &text, &bytes, error);
    if (status != SKY_OK)
        return status;
    status = parse_text(text, bytes, path, true, out, error);
    free(text);
    return status;
}

sky_status sky_scenario_read(const char *path, sky_constellation *constellation,
                             sky_placement *placement, sky_satellite *centre, sky_error *error) {
    sky_scenario s;
    if (!path || !constellation || !placement || !centre)
        return sky_fail(error, SKY_E_PARAM, "no scenario given, or nowhere to put what it says");
    sky_status status = sky_scenario_load(path, &s, error);
    if (status != SKY_OK)
        return status;
    *constellation = s.constellation;
    *placement = s.placement;
    bool orbits_say = s.physical && !sky_strategy_row_of(s.placement.strategy)->aboard;
    *centre = orbits_say ? (sky_satellite){0, 0} : s.centre;
    return SKY_OK;
}
