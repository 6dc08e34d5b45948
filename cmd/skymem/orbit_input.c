/* The flags of `skymem orbit` as satellites, observers and times. */
#include "orbit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool parse_real(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

/* A number that may be negative. */
static int real_option(cli *c, const char *option, double min, double max, double *out) {
    double value;
    if (!parse_real(cli_text(c, option), &value) || value < min || value > max)
        return cli_usage(c, "--%s %s: must be a number from %g to %g", option, cli_text(c, option),
                         min, max);
    *out = value;
    return CLI_OK;
}

/* What --shell says itself; its phasing alone may be another. */
static bool grid_given(cli *c) {
    return cli_given(c, "planes") || cli_given(c, "slots") || cli_given(c, "altitude-km") ||
           cli_given(c, "inclination-deg") || cli_given(c, "raan-spread-deg");
}

static int read_grid(cli *c, sky_constellation *out) {
    if (!cli_given(c, "planes") || !cli_given(c, "slots") || !cli_given(c, "altitude-km") ||
        !cli_given(c, "inclination-deg"))
        return cli_usage(c, "--shell NAME, or --planes, --slots, --altitude-km and "
                            "--inclination-deg are needed");
    *out = (sky_constellation){
        .planes = (uint32_t)cli_count(c, "planes"),
        .slots = (uint32_t)cli_count(c, "slots"),
        .altitude_km = cli_number(c, "altitude-km"),
        .inclination_deg = cli_number(c, "inclination-deg"),
        .raan_spread_deg = cli_given(c, "raan-spread-deg") ? cli_number(c, "raan-spread-deg") : 0};
    return CLI_OK;
}

int orbit_shell(cli *c, sky_constellation *out) {
    const char *name = cli_text(c, "shell");
    if (name && grid_given(c))
        return cli_usage(c, "--shell says planes, slots, altitude and inclination: give one or the "
                            "other (--phasing may stand with it)");
    if (name) {
        const sky_shell *shell = sky_shell_find(name);
        if (!shell)
            return cli_usage(c, "no shell \"%s\": skymem orbit shells lists them", name);
        *out = shell->constellation;
    } else {
        int code = read_grid(c, out);
        if (code != CLI_OK)
            return code;
    }
    if (cli_given(c, "phasing"))
        out->phasing = (uint32_t)cli_count(c, "phasing");
    if (out->phasing >= out->planes)
        return cli_usage(c, "--phasing %u: must be less than the number of planes, %u",
                         out->phasing, out->planes);
    if (cli_given(c, "earth-radius-km"))
        out->earth_radius_km = cli_number(c, "earth-radius-km");
    if (cli_given(c, "light-km-s"))
        out->light_km_s = cli_number(c, "light-km-s");
    return CLI_OK;
}

static int read_elements(cli *c, const char *path, sky_fleet **out) {
    cli_blob blob;
    int code = cli_blob_read(c, path, SKY_FLEET_FILE_MAX, &blob);
    if (code != CLI_OK)
        return code;
    sky_error error = {0};
    sky_status status = sky_fleet_parse(blob.data, blob.bytes, path, out, &error);
    cli_blob_free(&blob);
    if (status != SKY_OK)
        return cli_failed(c, "%s", error.text);
    /* Planes and slots are found where there are any; a file of one satellite has none. */
    sky_fleet_arrange(*out, sky_fleet_epoch_ms(*out, 0), NULL);
    return CLI_OK;
}

int orbit_fleet(cli *c, sky_fleet **out) {
    const char *path = cli_text(c, "tle");
    if (path && (cli_given(c, "shell") || grid_given(c) || cli_given(c, "phasing") ||
                 cli_given(c, "earth-radius-km") || cli_given(c, "light-km-s")))
        return cli_usage(c, "--tle brings satellites of its own: nothing of a shell with it");
    if (path)
        return read_elements(c, path, out);
    sky_constellation shell;
    int code = orbit_shell(c, &shell);
    if (code != CLI_OK)
        return code;
    sky_error error = {0};
    if (sky_fleet_walker(&shell, SKY_SHELL_EPOCH_MS, out, &error) != SKY_OK)
        return cli_usage(c, "%s", error.text);
    return CLI_OK;
}

int orbit_observer(cli *c, sky_observer *out) {
    if (!cli_given(c, "lat") || !cli_given(c, "lon"))
        return cli_usage(c, "--lat and --lon are needed");
    *out = (sky_observer){.min_elevation_deg = cli_number(c, "min-elevation")};
    int code = real_option(c, "lat", -90, 90, &out->latitude_deg);
    if (code == CLI_OK)
        code = real_option(c, "lon", -180, 360, &out->longitude_deg);
    if (code == CLI_OK)
        code = real_option(c, "alt-m", -500, 20000, &out->altitude_m);
    return code;
}

int orbit_time(cli *c, const char *option, int64_t *ms) {
    const char *text = cli_text(c, option);
    if (!text)
        return cli_usage(c, "--%s is needed: now, or a time in UTC such as 2026-11-20T00:00:00Z",
                         option);
    if (strcmp(text, "now") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        *ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
        return CLI_OK;
    }
    if (sky_utc_parse(text, ms) != SKY_OK)
        return cli_usage(c, "--%s %s: must be now, or a time in UTC such as 2026-11-20T00:00:00Z",
                         option, text);
    return CLI_OK;
}

int orbit_places(cli *c, const sky_fleet *f, int64_t from_ms, int64_t to_ms) {
    uint32_t lost = 0, nowhere = 0, count = sky_fleet_count(f);
    sky_orbit_fault why = SKY_ORBIT_FINE;
    char first[SKY_FLEET_NAME_BYTES] = "";
    for (uint32_t i = 0; i < count; i++) {
        sky_motion s;
        sky_orbit_fault begin = sky_fleet_state(f, i, from_ms, &s);
        sky_orbit_fault end = sky_fleet_state(f, i, to_ms, &s);
        nowhere += begin != SKY_ORBIT_FINE && end != SKY_ORBIT_FINE;
        if ((begin == SKY_ORBIT_FINE && end == SKY_ORBIT_FINE) || lost++ > 0)
            continue;
        sky_fleet_name(f, i, first);
        why = begin != SKY_ORBIT_FINE ? begin : end;
    }
    if (nowhere == count)
        return cli_failed(c, "no satellite has a place at that time; %s: %s", first,
                          sky_orbit_fault_text(why));
    if (lost > 0)
        cli_note(c, "%u of %u satellites have no place at that time; %s: %s", lost, count, first,
                 sky_orbit_fault_text(why));
    return CLI_OK;
}

int orbit_satellite(cli *c, const char *option, const sky_fleet *f, uint32_t *number) {
    const char *text = cli_text(c, option);
    unsigned plane, slot;
    char more;
    const sky_constellation *k = sky_fleet_shell(f);
    if (sscanf(text, "%5u,%5u%c", &plane, &slot, &more) != 2 || plane < 1 || plane > k->planes ||
        slot < 1 || slot > k->slots)
        return cli_usage(c, "--%s %s: must be plane,slot within 1,1 and %u,%u", option, text,
                         k->planes, k->slots);
    *number = sky_fleet_number(f, (sky_satellite){plane, slot});
    return CLI_OK;
}

int orbit_reals(cli *c, const char *option, double *out, size_t max, size_t *count) {
    const char *at = cli_text(c, option);
    char *end;
    *count = 0;
    for (;; at = end + 1) {
        double value = strtod(at, &end);
        if (end == at || !isfinite(value) || (*end && *end != ',') || *count == max)
            return cli_usage(c, "--%s %s: must be numbers parted by commas, at most %zu", option,
                             cli_text(c, option), max);
        out[(*count)++] = value;
        if (!*end)
            return CLI_OK;
    }
}

double orbit_light_ms(const sky_constellation *c, double km) {
    return km / (c->light_km_s > 0 ? c->light_km_s : 299792.458) * 1000;
}
