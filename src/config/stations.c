/* Ground stations of a file, as Hypatia writes them:
 *
 *   0,Tokyo,35.6895,139.69171,0.0                         number from 0, name, degrees, metres
 *   0,Tokyo,35.6895,139.69171,0.0,-3954843,3354935,3700264   and x, y, z, which are not used
 *
 * The file may be hostile: a line that is none of these is refused with its number and column. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/scenario_reader.h"
#include "io/file.h"
#include "orbit/decimal.h"

#define FILE_BYTES_MAX (1u << 20)
#define CELLS_MAX      8

typedef struct {
    const char *at;
    size_t bytes;
} cell;

typedef struct {
    const char *name;
    size_t name_bytes;
    double latitude_deg, longitude_deg, altitude_m;
} station;

/* How many there are; more than CELLS_MAX are counted as one more. */
static unsigned split_cells(const char *line, size_t bytes, cell cells[CELLS_MAX]) {
    unsigned count = 0;
    for (size_t from = 0, i = 0; i <= bytes; i++) {
        if (i < bytes && line[i] != ',')
            continue;
        if (count == CELLS_MAX)
            return CELLS_MAX + 1;
        cells[count] = (cell){line + from, i - from};
        sky__trim(&cells[count].at, &cells[count].bytes);
        count++;
        from = i + 1;
    }
    return count;
}

static bool is_within(const cell *c, double low, double high, double *out) {
    return sky__decimal(c->at, c->bytes, out) && *out >= low && *out <= high;
}

/* 0, or which column (from 1) is wrong, and why. */
static unsigned read_line(const char *line, size_t bytes, uint32_t number, station *out,
                          const char **why) {
    cell c[CELLS_MAX];
    uint64_t told;
    unsigned count = split_cells(line, bytes, c);
    *why = "a station has 5 columns or 8: number, name, latitude, longitude, metres";
    if (count != 5 && count != 8)
        return count < 5 ? count + 1 : 6;
    *why = "stations are numbered from 0, one more each";
    if (!sky__whole(c[0].at, c[0].bytes, UINT32_MAX, &told) || told != number)
        return 1;
    *why = "a name has 1 to 63 bytes";
    if (c[1].bytes == 0 || c[1].bytes >= SKY_STATION_NAME_BYTES)
        return 2;
    out->name = c[1].at;
    out->name_bytes = c[1].bytes;
    *why = "latitudes are from -90 to 90, longitudes from -180 to 180, heights -500 to 20000 m";
    if (!is_within(&c[2], -90, 90, &out->latitude_deg))
        return 3;
    if (!is_within(&c[3], -180, 180, &out->longitude_deg))
        return 4;
    return is_within(&c[4], -500, 20000, &out->altitude_m) ? 0 : 5;
}

/* Is it what someone asks for: by its number, or by its name? */
static bool is_asked_for(const station *s, uint32_t number, const char *asked, bool *by_number) {
    uint64_t n;
    *by_number = sky__whole(asked, strlen(asked), UINT32_MAX, &n);
    return *by_number
               ? n == number
               : strlen(asked) == s->name_bytes && memcmp(asked, s->name, s->name_bytes) == 0;
}

static void take_station(sky_scenario *s, uint32_t ground, const station *at) {
    if (ground == 0) {
        s->observer.latitude_deg = at->latitude_deg;
        s->observer.longitude_deg = at->longitude_deg;
        s->observer.altitude_m = at->altitude_m;
        return;
    }
    sky_scenario_ground *g = &s->grounds[ground - 1];
    g->place[0] = at->latitude_deg;
    g->place[1] = at->longitude_deg;
    g->altitude_m = at->altitude_m;
}

static sky_status read_file(sky__scenario_reader *r, const char *text, size_t bytes,
                            uint32_t found[SKY_GROUNDS_MAX], sky_error *why) {
    uint32_t number = 0, line_number = 0;
    for (const char *at = text, *end = text + bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *line = at;
        size_t length = (size_t)((stop ? stop : end) - at);
        at = stop ? stop + 1 : end;
        line_number++;
        sky__trim(&line, &length);
        if (length == 0)
            continue;
        station s = {0};
        const char *wrong;
        unsigned column = read_line(line, length, number, &s, &wrong);
        if (column > 0)
            return sky_fail(why, SKY_E_SYNTAX, "%s:%u: column %u: %s", r->stations_path,
                            line_number, column, wrong);
        for (uint32_t i = 0; i < SKY_GROUNDS_MAX; i++) {
            bool by_number;
            if (!r->stations[i][0] || !is_asked_for(&s, number, r->stations[i], &by_number))
                continue;
            if (found[i]++ > 0)
                return sky_fail(why, SKY_E_PARAM, "%s:%u: another station %s: take its number",
                                r->stations_path, line_number, r->stations[i]);
            take_station(&r->out, i, &s);
        }
        number++;
    }
    return SKY_OK;
}

sky_status sky__scenario_check_stations(sky__scenario_reader *r) {
    uint32_t found[SKY_GROUNDS_MAX] = {0};
    bool any = false;
    for (uint32_t i = 0; i < SKY_GROUNDS_MAX; i++)
        any |= r->stations[i][0] != 0;
    int line = sky__scenario_line(r, "", "stations");
    if (any && !r->stations_path[0])
        return sky__scenario_refuse(r, SKY_E_PARAM, 1, "a station of which file? Give `stations`");
    if (!r->stations_path[0])
        return SKY_OK;
    if (!r->out.physical)
        return sky__scenario_refuse(r, SKY_E_PARAM, line, "stations need sky: physical");
    static const char *const places[] = {"lat_deg", "lon_deg", "alt_m"};
    for (size_t i = 0; i < 3 && r->stations[0][0]; i++) {
        if (sky__scenario_line(r, "observer", places[i]) > 0)
            return sky__scenario_refuse(
                r, SKY_E_PARAM, sky__scenario_line(r, "observer", "station"),
                "observer.station says where it is: leave out %s", places[i]);
    }
    char *text;
    size_t bytes;
    sky_error why = {0};
    sky_status status = sky_file_read_all(r->stations_path, FILE_BYTES_MAX, &text, &bytes, &why);
    if (status == SKY_OK) {
        status = read_file(r, text, bytes, found, &why);
        free(text);
    }
    if (status != SKY_OK)
        return sky__scenario_refuse(r, status, line, "stations: %s", why.text);
    for (uint32_t i = 0; i < SKY_GROUNDS_MAX; i++) {
        if (r->stations[i][0] && found[i] == 0)
            return sky__scenario_refuse(r, SKY_E_PARAM, line,
                                        "stations: there is no station %s in %s", r->stations[i],
                                        r->stations_path);
    }
    return SKY_OK;
}
