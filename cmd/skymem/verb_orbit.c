/* skymem orbit: true orbits; each of its own verbs is a function in orbit_*.c. */
#include "orbit.h"

#include <string.h>

#define SHELL                                                                                      \
    "shell planes slots altitude-km inclination-deg phasing raan-spread-deg earth-radius-km "      \
    "light-km-s"
#define FLEET    SHELL " tle"
#define OBSERVER "lat lon alt-m min-elevation"

/* What each does, and the options it has a use for. */
static const struct {
    const char *name;
    int (*run)(cli *c);
    const char *options;
} verbs[] = {
    {"shells", orbit_shells, "csv"},
    {"latency", orbit_latency, SHELL " time csv"},
    {"passes", orbit_passes, FLEET " " OBSERVER " start hours csv"},
    {"visible", orbit_visible, FLEET " " OBSERVER " at csv"},
    {"overhead", orbit_overhead, FLEET " " OBSERVER " start hours hysteresis csv"},
    {"isl", orbit_isl, FLEET " time at from to grazing-km csv"},
    {"propagate", orbit_propagate, "tle minutes csv"},
    {"czml", orbit_czml, FLEET " start hours step output csv"},
    {"windows", orbit_windows, SHELL " lat min-elevation hysteresis output csv"},
};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static int orbit_run(cli *c) {
    const char *names[VERB_COUNT];
    char known[160] = "";
    if (c->json && cli_flag(c, "csv"))
        return cli_usage(c, "--json or --csv, not both");
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, c->arguments[0]) == 0) {
            char what[32];
            snprintf(what, sizeof what, "orbit %s", verbs[i].name);
            int code = cli_only(c, what, verbs[i].options);
            return code == CLI_OK ? verbs[i].run(c) : code;
        }
        names[i] = verbs[i].name;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 verbs[i].name);
    }
    const char *close = cli_closest(c->arguments[0], names, VERB_COUNT);
    if (close)
        return cli_usage(c, "no orbit %s, did you mean %s?", c->arguments[0], close);
    return cli_usage(c, "no orbit %s: one of %s", c->arguments[0], known);
}

static const cli_option options[] = {
    {.name = "shell", .kind = CLI_TEXT, .value = "NAME", .help = "a shell that has a name"},
    {.name = "planes",
     .kind = CLI_COUNT,
     .value = "N",
     .min = 1,
     .max = SKY_PLANES_MAX,
     .help = "a shell of one's own: orbital planes"},
    {.name = "slots",
     .kind = CLI_COUNT,
     .value = "M",
     .min = 1,
     .max = SKY_SLOTS_MAX,
     .help = "satellites in each plane"},
    {.name = "altitude-km",
     .kind = CLI_NUMBER,
     .value = "KM",
     .min = 100,
     .max = 400000,
     .help = "height over the ground"},
    {.name = "inclination-deg",
     .kind = CLI_NUMBER,
     .value = "DEG",
     .max = 180,
     .help = "tilt of the planes"},
    {.name = "phasing",
     .kind = CLI_COUNT,
     .value = "F",
     .max = SKY_PLANES_MAX - 1,
     .help = "Walker's F, another one for a shell too; default: the shell's, or 0"},
    {.name = "raan-spread-deg",
     .kind = CLI_NUMBER,
     .value = "DEG",
     .max = 360,
     .help = "what the nodes are spread over: 360, or 180 for polar planes"},
    {.name = "tle",
     .kind = CLI_PATH,
     .value = "FILE",
     .help = "satellites from a file of elements: TLE, or OMM as JSON, CSV or KVN",
     .detail = "In a TLE file, text after column 69 and a blank is ignored. Checksums must be "
               "right."},
    {.name = "earth-radius-km",
     .kind = CLI_NUMBER,
     .value = "KM",
     .min = 6000,
     .max = 7000,
     .help = "radius of the Earth under a shell (default: 6378.137; the paper has 6371)"},
    {.name = "light-km-s",
     .kind = CLI_NUMBER,
     .value = "KM_S",
     .min = 1000,
     .max = 1000000,
     .help = "speed of light (default: 299792.458)"},
    {.name = "time",
     .kind = CLI_NUMBER,
     .value = "S",
     .fallback = "0",
     .max = 1000000000,
     .help = "latency, isl: seconds since a satellite passed its node, or since epoch"},
    {.name = "lat",
     .kind = CLI_TEXT,
     .value = "DEG",
     .help = "the observer: latitude, north positive (windows: several, parted by commas)"},
    {.name = "lon", .kind = CLI_TEXT, .value = "DEG", .help = "longitude, east positive"},
    {.name = "alt-m", .kind = CLI_TEXT, .value = "M", .fallback = "0", .help = "height in metres"},
    {.name = "min-elevation",
     .kind = CLI_NUMBER,
     .value = "DEG",
     .fallback = "25",
     .max = 90,
     .help = "the mask: what stands lower is not seen"},
    {.name = "start",
     .kind = CLI_TEXT,
     .value = "UTC",
     .help = "begin: now, or a time such as 2026-11-20T00:00:00Z"},
    {.name = "hours",
     .kind = CLI_NUMBER,
     .value = "H",
     .fallback = "1",
     .max = 8784,
     .help = "and go on for so long"},
    {.name = "at",
     .kind = CLI_TEXT,
     .value = "UTC",
     .help = "visible, isl: now, or a time such as 2026-11-20T00:00:00Z"},
    {.name = "minutes",
     .kind = CLI_TEXT,
     .value = "A,B,…",
     .help = "propagate: minutes after each satellite's own epoch"},
    {.name = "from", .kind = CLI_TEXT, .value = "P,S", .help = "isl: quickest ways from here"},
    {.name = "to", .kind = CLI_TEXT, .value = "P,S", .help = "isl: only to there"},
    {.name = "grazing-km",
     .kind = CLI_NUMBER,
     .value = "KM",
     .fallback = "80",
     .max = 1000,
     .help = "isl: lasers stay above this height"},
    {.name = "hysteresis",
     .kind = CLI_NUMBER,
     .value = "DEG",
     .fallback = "10",
     .max = 90,
     .help = "overhead, windows: how much higher the next centre must stand",
     .detail = "A satellite becomes the centre only if it stands this much higher for each plane "
               "and slot that it is away from the present centre."},
    {.name = "step",
     .kind = CLI_NUMBER,
     .value = "S",
     .fallback = "60",
     .min = 1,
     .max = 3600,
     .help = "czml: seconds between positions"},
    {.name = "output",
     .kind = CLI_PATH,
     .value = "FILE",
     .help = "czml: the file to write; windows: a drawing (SVG)",
     .letter = 'o'},
    {.name = "csv", .kind = CLI_FLAG, .help = "CSV with a head instead of a table"},
    {.name = NULL},
};

const cli_verb cli_verb_orbit = {
    .name = "orbit",
    .summary = "Compute true orbits: who is overhead, how far, and what is between",
    .synopsis = "VERB",
    .words = "shells|latency|passes|visible|overhead|isl|propagate|czml|windows",
    .about = "shells: the shells that have names. latency: distances and times in a shell. "
             "passes: rise and set of each satellite. visible: what stands above the mask. "
             "overhead: who is the centre of the window. isl: laser links, or the quickest "
             "paths with --from. propagate: positions by SGP4. czml: a file for a Cesium "
             "viewer. windows: how much of a window is visible, by latitude.\n"
             "Satellites come from a shell (--shell, or --planes, --slots, --altitude-km and "
             "--inclination-deg) or from a file of elements (--tle). Shells begin on "
             "2000-01-01T12:00:00Z with satellite 1,1 on the equator at right ascension 0. "
             "Planes and slots count from 1. After the last plane comes the first, with its "
             "slots moved on by the phasing. overhead looks every 15 s. propagate prints the "
             "frame TEME.",
    .options = options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json_lines = true,
    .examples =
        (const cli_example[]){
            {"skymem orbit latency --shell starlink-a --phasing 0 --earth-radius-km 6371",
             "distances within a plane and between planes, as the SkyMemory paper has them"},
            {"skymem orbit visible --shell starlink-a --lat 47.6 --lon -122.3 --at now",
             "what stands above 25 degrees over Seattle"},
            {"skymem orbit passes --tle active.csv --lat 52.5 --lon 13.4 --start "
             "2026-11-20T00:00:00Z --hours 6 --csv",
             "passes over Berlin of satellites by their elements"},
            {"skymem orbit isl --shell oneweb --from 1,1 --to 12,1",
             "the quickest way around the seam"},
            {"skymem orbit czml --shell starlink-a --hours 2 -o sky.czml", "two hours to look at"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"shells", "name, planes, slots, altitude_km, inclination_deg, phasing, "
                       "raan_spread_deg, period_s, says"},
            {"latency", "d_m_km, d_n_min_km, d_n_max_km, d_n_km (to the same slot of the next "
                        "plane; at --time), link_offset, link_min_km, link_max_km (what lasers to "
                        "the next plane span: to slot s + link_offset), period_s, intra_ms, "
                        "inter_ms_min, inter_ms_max (light over d_n), slot_s and plane_s (how long "
                        "one stays), "
                        "node_drift_deg_day"},
            {"passes", "satellite, rise, culminate, set, max_elevation_deg, up_at_start (it rose "
                       "before --start, which stands for its rise), up_at_end (the same of its "
                       "set)"},
            {"visible", "satellite, plane, slot (null for elements without a grid), elevation_deg, "
                        "azimuth_deg, range_km, one_way_ms; highest first"},
            {"overhead", "at, satellite, plane, slot, plane_steps, slot_steps, jump; one for each "
                         "change"},
            {"isl", "from, to, km, ms, up, seam; with --from: to, km, ms, hops, path (in a table "
                    "with --to)"},
            {"propagate", "satellite, minutes, r_km, v_km_s, error (null where there is a place)"},
            {"czml", "file, satellites, bytes, start"},
            {"windows",
             "shell, lat_deg, visible, one share of the day for each window, planes_day, "
             "slots_day, moves_day, jumps_day"},
            {NULL, NULL},
        },
    .failed = "a file cannot be read, no satellite has a place at that time (decayed), or for "
              "propagate: one of them has none. Elsewhere those without a place are counted on "
              "stderr",
    .run = orbit_run,
};
