/* skymem orbit shells, latency, isl: what is between satellites. */
#include "orbit.h"

#include <math.h>
#include <stdlib.h>

int orbit_shells(cli *c) {
    orbit_rows rows;
    size_t count;
    const sky_shell *shells = sky_shells(&count);
    int code = CLI_OK;
    orbit_rows_begin(&rows, c);
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        const sky_constellation *k = &shells[i].constellation;
        code = orbit_row(
            &rows, json_pack("{s:s, s:I, s:I, s:f, s:f, s:I, s:f, s:o, s:s}", "name",
                             shells[i].name, "planes", (json_int_t)k->planes, "slots",
                             (json_int_t)k->slots, "altitude_km", k->altitude_km, "inclination_deg",
                             k->inclination_deg, "phasing", (json_int_t)k->phasing,
                             "raan_spread_deg", k->raan_spread_deg > 0 ? k->raan_spread_deg : 360.0,
                             "period_s", orbit_real(sky_period_s(k), 3), "says", shells[i].says));
    }
    orbit_rows_end(&rows);
    return code;
}

/* Between two nodes the Earth turns once, and they drift a little. */
static double plane_passes_s(const sky_constellation *k) {
    double spread = k->raan_spread_deg > 0 ? k->raan_spread_deg : 360;
    double earth_deg_s = 360 / 86164.0905;
    return spread / k->planes / (earth_deg_s - sky_node_drift_deg_day(k) / 86400);
}

/* What the lasers between planes span, which need not join equal slots. */
typedef struct {
    int32_t offset;
    double min_km, max_km;
} plane_link;

static plane_link plane_link_of(const sky_constellation *k) {
    plane_link link = {.offset = sky_link_offset(k)};
    sky_inter_plane_range_km(k, link.offset, &link.min_km, &link.max_km);
    return link;
}

/* For people: a line for each number, in words. */
static void latency_table(cli *c, const sky_constellation *k, double min, double max,
                          const plane_link *link) {
    double at = sky_inter_plane_at_km(k, 0, cli_number(c, "time"));
    const struct {
        const char *what;
        double value;
        const char *unit;
    } lines[] = {
        {"to the neighbour in the plane (D_m)", sky_intra_plane_km(k), "km"},
        {"to the next plane, same slot (D_n), least", min, "km"},
        {"to the next plane, same slot (D_n), greatest", max, "km"},
        {"to the next plane, same slot (D_n), at --time", at, "km"},
        {"lasers to the next plane reach slot s +", link->offset, "slots"},
        {"laser to the next plane, least", link->min_km, "km"},
        {"laser to the next plane, greatest", link->max_km, "km"},
        {"light to the neighbour in the plane", orbit_light_ms(k, sky_intra_plane_km(k)), "ms"},
        {"light to the next plane, least", orbit_light_ms(k, min), "ms"},
        {"light to the next plane, greatest", orbit_light_ms(k, max), "ms"},
        {"one orbit", sky_period_s(k), "s"},
        {"until the next slot is overhead", sky_rotation_s(k), "s"},
        {"until the next plane is overhead", plane_passes_s(k), "s"},
        {"drift of the nodes", sky_node_drift_deg_day(k), "deg/day"}};
    cli_table t = {.columns = "lrl"};
    cli_table_cell(&t, "WHAT");
    cli_table_cell(&t, "VALUE");
    cli_table_cell(&t, "UNIT");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cli_table_cell(&t, "%s", lines[i].what);
        cli_table_cell(&t, "%.3f", lines[i].value);
        cli_table_cell(&t, "%s", lines[i].unit);
    }
    cli_table_print(&t, stdout);
    cli_table_free(&t);
}

int orbit_latency(cli *c) {
    sky_constellation k;
    int code = orbit_shell(c, &k);
    if (code != CLI_OK)
        return code;
    double min, max;
    sky_inter_plane_range_km(&k, 0, &min, &max);
    plane_link link = plane_link_of(&k);
    if (!c->json && !cli_flag(c, "csv")) {
        latency_table(c, &k, min, max, &link);
        return CLI_OK;
    }
    orbit_rows rows;
    orbit_rows_begin(&rows, c);
    code = orbit_row(
        &rows,
        json_pack("{s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                  "d_m_km", orbit_real(sky_intra_plane_km(&k), 6), "d_n_min_km", orbit_real(min, 6),
                  "d_n_max_km", orbit_real(max, 6), "d_n_km",
                  orbit_real(sky_inter_plane_at_km(&k, 0, cli_number(c, "time")), 6), "link_offset",
                  (json_int_t)link.offset, "link_min_km", orbit_real(link.min_km, 6), "link_max_km",
                  orbit_real(link.max_km, 6), "period_s", orbit_real(sky_period_s(&k), 6),
                  "intra_ms", orbit_real(orbit_light_ms(&k, sky_intra_plane_km(&k)), 6),
                  "inter_ms_min", orbit_real(orbit_light_ms(&k, min), 6), "inter_ms_max",
                  orbit_real(orbit_light_ms(&k, max), 6), "slot_s",
                  orbit_real(sky_rotation_s(&k), 3), "plane_s", orbit_real(plane_passes_s(&k), 3),
                  "node_drift_deg_day", orbit_real(sky_node_drift_deg_day(&k), 4)));
    orbit_rows_end(&rows);
    return code;
}

/* ---- isl ---- */

static json_t *place_json(const sky_fleet *f, uint32_t number) {
    sky_satellite s = sky_fleet_place(f, number);
    return json_pack("[I, I]", (json_int_t)s.plane, (json_int_t)s.slot);
}

/* "1,1 12,2 11,4": a path where there are no lists. */
static json_t *path_text(const json_t *path) {
    size_t count = json_array_size(path), bytes = 24 * count + 1, used = 0;
    char *text = malloc(bytes);
    for (size_t i = 0; text && i < count; i++) {
        const json_t *place = json_array_get(path, i);
        used += (size_t)snprintf(text + used, bytes - used, "%s%d,%d", i ? " " : "",
                                 (int)json_integer_value(json_array_get(place, 0)),
                                 (int)json_integer_value(json_array_get(place, 1)));
    }
    json_t *value = text ? json_string(text) : NULL;
    free(text);
    return value;
}

static int print_links(cli *c, const sky_fleet *f, const sky_laser *links, size_t count) {
    orbit_rows rows;
    int code = CLI_OK;
    char from[SKY_FLEET_NAME_BYTES], to[SKY_FLEET_NAME_BYTES];
    orbit_rows_begin(&rows, c);
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = orbit_row(
            &rows, json_pack("{s:s, s:s, s:o, s:o, s:b, s:b}", "from",
                             sky_fleet_name(f, links[i].from, from), "to",
                             sky_fleet_name(f, links[i].to, to), "km", orbit_real(links[i].km, 6),
                             "ms", orbit_real(orbit_light_ms(sky_fleet_shell(f), links[i].km), 6),
                             "up", links[i].up, "seam", links[i].seam));
    orbit_rows_end(&rows);
    return code;
}

typedef struct {
    double *km;
    uint32_t *before;
} routes;

static int print_route(orbit_rows *rows, const sky_fleet *f, const routes *r, uint32_t to) {
    char name[SKY_FLEET_NAME_BYTES];
    uint32_t hops = 0;
    json_t *path = json_array();
    for (uint32_t at = to;; at = r->before[at], hops++) {
        json_array_insert_new(path, 0, place_json(f, at));
        if (r->before[at] == at)
            break;
    }
    json_t *row = json_pack("{s:s, s:o, s:o, s:I}", "to", sky_fleet_name(f, to, name), "km",
                            orbit_real(r->km[to], 6), "ms",
                            orbit_real(orbit_light_ms(sky_fleet_shell(f), r->km[to]), 6), "hops",
                            (json_int_t)hops);
    if (rows->c->json)
        json_object_set(row, "path", path);
    else if (rows->csv || cli_given(rows->c, "to")) /* many of them make no table */
        json_object_set_new(row, "path", path_text(path));
    json_decref(path);
    return orbit_row(rows, row);
}

static int print_routes(cli *c, const sky_fleet *f, const sky_laser *links, size_t count) {
    uint32_t from, to = 0, satellites = sky_fleet_count(f);
    int code = orbit_satellite(c, "from", f, &from);
    if (code == CLI_OK && cli_given(c, "to"))
        code = orbit_satellite(c, "to", f, &to);
    if (code != CLI_OK)
        return code;
    routes r = {calloc(satellites, sizeof *r.km), calloc(satellites, sizeof *r.before)};
    orbit_rows rows;
    orbit_rows_begin(&rows, c);
    if (!r.km || !r.before || sky_fleet_routes(f, links, count, from, r.km, r.before) != SKY_OK)
        code = cli_failed(c, "out of memory");
    else if (cli_given(c, "to") && r.km[to] == INFINITY)
        code = cli_failed(c, "no path to %s: its links are down", cli_text(c, "to"));
    else if (cli_given(c, "to"))
        code = print_route(&rows, f, &r, to);
    for (uint32_t i = 0; i < satellites && code == CLI_OK && !cli_given(c, "to"); i++)
        if (sky_fleet_place(f, i).plane > 0 && r.km[i] < INFINITY)
            code = print_route(&rows, f, &r, i);
    orbit_rows_end(&rows);
    free(r.km);
    free(r.before);
    return code;
}

int orbit_isl(cli *c) {
    sky_fleet *f = NULL;
    sky_laser *links = NULL;
    int64_t ms = SKY_SHELL_EPOCH_MS;
    int code = orbit_fleet(c, &f);
    if (code == CLI_OK && cli_given(c, "at"))
        code = orbit_time(c, "at", &ms);
    else if (code == CLI_OK)
        ms = sky_fleet_epoch_ms(f, 0) + (int64_t)(cli_number(c, "time") * 1000);
    if (code == CLI_OK && sky_fleet_shell(f)->planes == 0)
        code = cli_failed(c, "%s: its satellites make no grid of planes and slots",
                          cli_text(c, "tle"));
    if (code == CLI_OK && cli_given(c, "to") && !cli_given(c, "from"))
        code = cli_usage(c, "--to needs --from");
    if (code == CLI_OK)
        code = orbit_places(c, f, ms, ms);
    if (code == CLI_OK) {
        links = calloc(2 * (size_t)sky_fleet_count(f), sizeof *links);
        size_t count = links ? sky_fleet_links(f, ms, cli_number(c, "grazing-km"), links) : 0;
        if (!links)
            code = cli_failed(c, "out of memory");
        else
            code = cli_given(c, "from") ? print_routes(c, f, links, count)
                                        : print_links(c, f, links, count);
    }
    free(links);
    sky_fleet_destroy(f);
    return code;
}
