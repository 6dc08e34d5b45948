/* Keys of scenario files: a table says for each its kind, its range and where it goes; what does
 * not fit a table (shells, pairs, dates) has a function. A new key is a row of `fields`, a member
 * of sky_scenario, its default (scenario.c), and a row of docs/formats/scenario.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem-sky/orbit.h>
#include <skymem-sky/sim.h>

#include "base/error.h"
#include "config/scenario_reader.h"
#include "orbit/placement.h"

typedef sky__scenario_reader reader;

typedef sky_status special(reader *r, const sky_yaml_entry *e);

typedef enum {
    KIND_U32,
    KIND_U64,
    KIND_REAL,
    KIND_SCALED, /* a real times `factor`, rounded, into 64 bits: ns, bits per second */
    KIND_SIZE32,
    KIND_SIZE64,
    KIND_BOOL,
    KIND_SPECIAL,
} kind;

typedef struct {
    const char *section;
    const char *key;
    kind kind;
    size_t offset;
    double min, max; /* in the file's own unit */
    double factor;
    special *special;
} field;

static special read_shell, read_tle, read_isls, read_stations, read_station, read_sky, read_center,
    read_strategy, read_window, read_weights, read_ground_links, read_start, read_rotation,
    read_lookup, read_eviction, read_arrivals, read_liar, read_until, read_base, read_key_file,
    read_cipher;

#define AT(member) offsetof(sky_scenario, member)
#define TIB        1099511627776.0
#define SPECIAL(section, key, function)                                                            \
    { section, key, KIND_SPECIAL, 0, 0, 0, 0, function }

static const field fields[] = {
    {"constellation", "planes", KIND_U32, AT(constellation.planes), 1, SKY_PLANES_MAX, 0, NULL},
    {"constellation", "slots", KIND_U32, AT(constellation.slots), 1, SKY_SLOTS_MAX, 0, NULL},
    {"constellation", "altitude_km", KIND_REAL, AT(constellation.altitude_km), 100, 40000, 0, NULL},
    {"constellation", "inclination_deg", KIND_REAL, AT(constellation.inclination_deg), 0, 180, 0,
     NULL},
    {"constellation", "phasing", KIND_U32, AT(constellation.phasing), 0, SKY_PLANES_MAX - 1, 0,
     NULL},
    {"constellation", "raan_spread_deg", KIND_REAL, AT(constellation.raan_spread_deg), 1, 360, 0,
     NULL},
    {"constellation", "earth_radius_km", KIND_REAL, AT(constellation.earth_radius_km), 6000, 7000,
     0, NULL},
    {"constellation", "light_km_s", KIND_REAL, AT(constellation.light_km_s), 1e3, 1e6, 0, NULL},
    SPECIAL("constellation", "shell", read_shell),
    SPECIAL("constellation", "tle", read_tle),
    SPECIAL("constellation", "isls", read_isls),
    SPECIAL("", "sky", read_sky),
    SPECIAL("", "center", read_center),
    SPECIAL("", "stations", read_stations),
    SPECIAL("observer", "station", read_station),
    {"observer", "lat_deg", KIND_REAL, AT(observer.latitude_deg), -90, 90, 0, NULL},
    {"observer", "lon_deg", KIND_REAL, AT(observer.longitude_deg), -180, 180, 0, NULL},
    {"observer", "alt_m", KIND_REAL, AT(observer.altitude_m), -500, 20000, 0, NULL},
    {"observer", "min_elevation_deg", KIND_REAL, AT(observer.min_elevation_deg), 0, 90, 0, NULL},
    {"observer", "hysteresis_deg", KIND_REAL, AT(observer.hysteresis_deg), 0, 90, 0, NULL},
    SPECIAL("placement", "strategy", read_strategy),
    {"placement", "servers", KIND_U32, AT(placement.servers), 1, SKY_SERVERS_MAX, 0, NULL},
    SPECIAL("placement", "window", read_window),
    SPECIAL("placement", "weights", read_weights),
    {"placement", "replicas", KIND_U32, AT(replicas), 1, 16, 0, NULL},
    {"placement", "parity", KIND_U32, AT(parity), 0, 64, 0, NULL},
    {"", "chunk", KIND_SIZE32, AT(chunk_bytes), SKY_CHUNK_BYTES_MIN, SKY_CHUNK_BYTES_MAX, 0, NULL},
    {"satellite", "memory", KIND_SIZE64, AT(satellite.memory_bytes), 1024, TIB, 0, NULL},
    {"satellite", "processing_ms", KIND_SCALED, AT(satellite.processing_ns), 0, 1e6, 1e6, NULL},
    {"satellite", "repair_s", KIND_SCALED, AT(satellite.repair_ns), 0.01, 1e6, 1e9, NULL},
    {"satellite", "repair_share", KIND_REAL, AT(satellite.repair_share), 0, 1, 0, NULL},
    {"links", "isl_gbps", KIND_SCALED, AT(links.isl_bits_s), 1e-6, 1e6, 1e9, NULL},
    {"links", "ground_mbps", KIND_SCALED, AT(links.ground_bits_s), 1e-3, 1e9, 1e6, NULL},
    {"links", "loss", KIND_REAL, AT(links.loss), 0, 0.99, 0, NULL},
    {"links", "ground_loss", KIND_REAL, AT(links.ground_loss), 1e-9, 0.99, 0, NULL},
    {"links", "isl_loss", KIND_REAL, AT(links.isl_loss), 1e-9, 0.99, 0, NULL},
    {"links", "jitter_ms", KIND_SCALED, AT(links.jitter_ns), 0, 1e5, 1e6, NULL},
    {"links", "datagrams", KIND_BOOL, AT(links.datagrams), 0, 1, 0, NULL},
    {"links", "queue", KIND_SIZE64, AT(links.queue_bytes), 1024, TIB, 0, NULL},
    SPECIAL("links", "ground_links", read_ground_links),
    {"links", "land_km_s", KIND_REAL, AT(links.land_km_s), 1e3, 3e5, 0, NULL},
    SPECIAL("time", "start", read_start),
    {"time", "scale", KIND_REAL, AT(time.scale), 1e-3, 1e6, 0, NULL},
    SPECIAL("time", "rotation_s", read_rotation),
    SPECIAL("", "lookup", read_lookup),
    SPECIAL("", "eviction", read_eviction),
    {"workload", "keys", KIND_U32, AT(workload.keys), 1, 1e7, 0, NULL},
    {"workload", "gets", KIND_U64, AT(workload.gets), 0, 1e9, 0, NULL},
    {"workload", "value", KIND_SIZE64, AT(workload.value_bytes), 1, TIB / 1024, 0, NULL},
    {"workload", "zipf", KIND_REAL, AT(workload.zipf), 0, 10, 0, NULL},
    {"workload", "regular", KIND_BOOL, AT(workload.regular), 0, 1, 0, NULL},
    {"workload", "chain", KIND_U32, AT(workload.chain), 1, 4096, 0, NULL},
    {"workload", "every_ms", KIND_SCALED, AT(workload.every_ns), 0, 1e9, 1e6, NULL},
    SPECIAL("workload", "arrivals", read_arrivals),
    {"workload", "removes", KIND_REAL, AT(workload.removes), 0, 0.3, 0, NULL},
    {"workload", "pins", KIND_REAL, AT(workload.pins), 0, 0.3, 0, NULL},
    {"workload", "prefetches", KIND_REAL, AT(workload.prefetches), 0, 0.3, 0, NULL},
    {"faults", "crash_per_h", KIND_REAL, AT(faults.crash_per_h), 0, 1e6, 0, NULL},
    {"faults", "partition_per_h", KIND_REAL, AT(faults.partition_per_h), 0, 1e6, 0, NULL},
    {"faults", "corrupt", KIND_REAL, AT(faults.corrupt), 0, 1, 0, NULL},
    {"faults", "duplicate", KIND_REAL, AT(faults.duplicate), 0, 1, 0, NULL},
    {"faults", "reorder", KIND_REAL, AT(faults.reorder), 0, 1, 0, NULL},
    {"faults", "skew_ms", KIND_SCALED, AT(faults.skew_ns), 0, 1e6, 1e6, NULL},
    {"faults", "liar_satellites", KIND_U32, AT(faults.liar_satellites), 0,
     (double)SKY_PLANES_MAX *SKY_SLOTS_MAX, 0, NULL},
    SPECIAL("faults", "liar", read_liar),
    {"faults", "freeze_per_h", KIND_REAL, AT(faults.freeze_per_h), 0, 1e6, 0, NULL},
    {"faults", "hostile_per_s", KIND_REAL, AT(faults.hostile_per_s), 0, 1e6, 0, NULL},
    {"faults", "restart_s", KIND_SCALED, AT(faults.restart_ns), 0, 1e6, 1e9, NULL},
    SPECIAL("", "until", read_until),
    SPECIAL("udp", "base", read_base),
    SPECIAL("udp", "key", read_key_file),
    SPECIAL("udp", "tenant", read_key_file),
    SPECIAL("udp", "cipher", read_cipher),
    {"udp", "far", KIND_BOOL, AT(udp.far), 0, 1, 0, NULL},
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)
_Static_assert(SKY_CHUNK_BYTES_MAX <= SKY_WIRE_DATA_BYTES_MAX, "a chunk is one message");
_Static_assert(FIELD_COUNT <= sizeof((reader *)0)->lines / sizeof(int), "each has a line");

static const char *const sections[] = {
    "constellation", "observer", "grounds", "users",    "anchor", "placement", "satellite", "links",
    "elevation",     "weather",  "time",    "workload", "faults", "outages",   "udp"};
#define SECTION_COUNT (sizeof sections / sizeof *sections)

static size_t section_index(const char *name) {
    size_t i = 0;
    while (i < SECTION_COUNT && strcmp(sections[i], name) != 0)
        i++;
    return i;
}

/* ---- messages ---- */

#define refuse       sky__scenario_refuse
#define refuse_value sky__scenario_refuse_value

static sky_status refuse_section(reader *r, const sky_yaml_entry *e) {
    char known[256] = "";
    for (size_t i = 0; i < SECTION_COUNT; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 sections[i]);
    return refuse(r, SKY_E_PARAM, e->line, "unknown section '%.40s': one of %s", e->section, known);
}

static sky_status refuse_key(reader *r, const sky_yaml_entry *e) {
    char known[256] = "";
    if (!e->section[0] && section_index(e->key) < SECTION_COUNT)
        return refuse(r, SKY_E_PARAM, e->line, "%s is a section: give its keys, such as {…}",
                      e->key);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].section, e->section) == 0)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                     known[0] ? ", " : "", fields[i].key);
    }
    for (size_t i = 0; !e->section[0] && i < SECTION_COUNT; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), ", %s", sections[i]);
    return refuse(r, SKY_E_PARAM, e->line, "unknown key '%.40s'%s%s: one of %s", e->key,
                  e->section[0] ? " in " : "", e->section, known);
}

/* ---- values ---- */

/* Two whole numbers from 1. */
static bool parse_pair(const sky_yaml_entry *e, uint32_t max, uint32_t *a, uint32_t *b) {
    uint64_t first;
    uint64_t second;
    if (!e->list || e->value_count != 2 || !sky__scenario_whole(e->values[0], max, &first) ||
        !sky__scenario_whole(e->values[1], max, &second) || first == 0 || second == 0)
        return false;
    *a = (uint32_t)first;
    *b = (uint32_t)second;
    return true;
}

static bool value_of_kind(const field *f, const char *text, double *value) {
    uint64_t whole;
    bool ok;
    switch (f->kind) {
    case KIND_REAL:
    case KIND_SCALED:
        return sky__scenario_number(text, value);
    case KIND_SIZE32:
    case KIND_SIZE64:
        ok = sky_size_parse(text, &whole) == SKY_OK;
        break;
    case KIND_BOOL:
        whole = strcmp(text, "true") == 0;
        ok = whole || strcmp(text, "false") == 0;
        break;
    default:
        ok = sky__scenario_whole(text, UINT64_MAX, &whole);
        break;
    }
    if (ok)
        *value = (double)whole; /* every maximum is far below 2^53 */
    return ok;
}

static void store_field(const field *f, double value, sky_scenario *out) {
    void *at = (char *)out + f->offset;
    uint32_t narrow;
    uint64_t wide;
    bool on = value != 0;
    switch (f->kind) {
    case KIND_BOOL:
        memcpy(at, &on, sizeof on);
        break;
    case KIND_REAL:
        memcpy(at, &value, sizeof value);
        break;
    case KIND_U32:
    case KIND_SIZE32:
        narrow = (uint32_t)value;
        memcpy(at, &narrow, sizeof narrow);
        break;
    default:
        wide = (uint64_t)(f->kind == KIND_SCALED ? value * f->factor + 0.5 : value);
        memcpy(at, &wide, sizeof wide);
        break;
    }
}

static sky_status refuse_plain(reader *r, const field *f, const sky_yaml_entry *e) {
    char allowed[128] = "true or false";
    if (f->kind == KIND_REAL || f->kind == KIND_SCALED)
        snprintf(allowed, sizeof allowed, "a number from %.12g to %.12g", f->min, f->max);
    else if (f->kind != KIND_BOOL)
        snprintf(allowed, sizeof allowed, "%s from %.0f to %.0f",
                 f->kind == KIND_SIZE32 || f->kind == KIND_SIZE64
                     ? "a size in bytes, or with KiB, MiB, GiB,"
                     : "a whole number",
                 f->min, f->max);
    return refuse_value(r, e, allowed);
}

static sky_status read_plain(reader *r, const field *f, const sky_yaml_entry *e) {
    double value;
    if (e->list || !value_of_kind(f, e->values[0], &value) || value < f->min || value > f->max)
        return refuse_plain(r, f, e);
    store_field(f, value, &r->out);
    return SKY_OK;
}

/* ---- values of their own kind ---- */

static sky_status read_shell(reader *r, const sky_yaml_entry *e) {
    const sky_shell *found = e->list ? NULL : sky_shell_find(e->values[0]);
    if (found) {
        double radius = r->out.constellation.earth_radius_km;
        double light = r->out.constellation.light_km_s;
        r->out.constellation = found->constellation;
        r->out.constellation.earth_radius_km = radius;
        r->out.constellation.light_km_s = light;
        return SKY_OK;
    }
    char known[160] = "one of";
    size_t count;
    const sky_shell *shells = sky_shells(&count);
    for (size_t i = 0; i < count; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s %s", i ? "," : "",
                 shells[i].name);
    return refuse_value(r, e, known);
}

/* A path beside the scenario's own, unless it begins with a slash. */
static sky_status read_path(reader *r, const sky_yaml_entry *e, const char *what, char out[512]) {
    if (e->list || !e->values[0][0])
        return refuse_value(r, e, what);
    if (!r->is_file)
        return refuse(r, SKY_E_PARAM, e->line, "%s%s%s: only a scenario file has it", e->section,
                      e->section[0] ? "." : "", e->key);
    const char *slash = strrchr(r->path, '/');
    bool beside = e->values[0][0] != '/' && slash;
    int length = snprintf(out, 512, "%.*s%s", beside ? (int)(slash - r->path + 1) : 0, r->path,
                          e->values[0]);
    return length < 0 || length >= 512 ? refuse_value(r, e, "a shorter path") : SKY_OK;
}

static sky_status read_tle(reader *r, const sky_yaml_entry *e) {
    return read_path(r, e, "a file of TLE or OMM", r->out.elements_path);
}

static sky_status read_isls(reader *r, const sky_yaml_entry *e) {
    return read_path(r, e, "a file of lasers", r->out.isls_path);
}

static sky_status read_stations(reader *r, const sky_yaml_entry *e) {
    return read_path(r, e, "a file of ground stations", r->stations_path);
}

static sky_status read_station(reader *r, const sky_yaml_entry *e) {
    size_t bytes = strlen(e->values[0]) + 1;
    if (e->list || bytes < 2 || bytes > SKY_STATION_NAME_BYTES)
        return refuse_value(r, e, "a station of `stations`, by name or number");
    memcpy(r->stations[0], e->values[0], bytes);
    return SKY_OK;
}

/* The place of a value among `names`, which end with NULL; -1: none of them. */
static int name_index(const sky_yaml_entry *e, const char *const *names) {
    for (int i = 0; !e->list && names[i]; i++) {
        if (strcmp(e->values[0], names[i]) == 0)
            return i;
    }
    return -1;
}

static sky_status read_either(reader *r, const sky_yaml_entry *e, const char *first,
                              const char *second, bool *is_second) {
    const char *const names[] = {first, second, NULL};
    char allowed[32];
    snprintf(allowed, sizeof allowed, "%s or %s", first, second);
    *is_second = name_index(e, names) == 1;
    return name_index(e, names) < 0 ? refuse_value(r, e, allowed) : SKY_OK;
}

static sky_status read_sky(reader *r, const sky_yaml_entry *e) {
    return read_either(r, e, "ideal", "physical", &r->out.physical);
}

static sky_status read_ground_links(reader *r, const sky_yaml_entry *e) {
    return read_either(r, e, "one", "each", &r->out.links.ground_each);
}

static sky_status read_center(reader *r, const sky_yaml_entry *e) {
    uint32_t most = SKY_PLANES_MAX > SKY_SLOTS_MAX ? SKY_PLANES_MAX : SKY_SLOTS_MAX;
    if (!parse_pair(e, most, &r->out.centre.plane, &r->out.centre.slot))
        return refuse_value(r, e, "[plane, slot], both from 1");
    return SKY_OK;
}

static sky_status read_strategy(reader *r, const sky_yaml_entry *e) {
    if (!e->list && sky_strategy_parse(e->values[0], &r->out.placement.strategy) == SKY_OK)
        return SKY_OK;
    char known[160] = "";
    for (int i = 0; i < SKY_STRATEGIES; i++) {
        const char *parted_by = i == 0 ? "" : i + 1 < SKY_STRATEGIES ? ", " : " or ";
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", parted_by,
                 sky_strategy_name((sky_strategy)i));
    }
    return refuse_value(r, e, known);
}

static sky_status read_window(reader *r, const sky_yaml_entry *e) {
    sky_placement *p = &r->out.placement;
    if (!e->list && strcmp(e->values[0], "auto") == 0)
        return SKY_OK;
    if (!parse_pair(e, SKY_PLANES_MAX, &p->window_planes, &p->window_slots) ||
        p->window_planes % 2 == 0 || p->window_slots % 2 == 0)
        return refuse_value(r, e, "[planes, slots], both odd, or auto");
    return SKY_OK;
}

static sky_status read_weights(reader *r, const sky_yaml_entry *e) {
    sky_placement *p = &r->out.placement;
    if (!e->list || e->value_count != 2 || !sky__scenario_number(e->values[0], &p->weight_intra) ||
        !sky__scenario_number(e->values[1], &p->weight_inter) || p->weight_intra <= 0 ||
        p->weight_inter <= 0)
        return refuse_value(r, e, "[intra, inter], both greater than zero");
    return SKY_OK;
}

static sky_status read_start(reader *r, const sky_yaml_entry *e) {
    if (e->list || sky_utc_parse(e->values[0], &r->out.time.start_ms) != SKY_OK ||
        r->out.time.start_ms < 0)
        return refuse_value(r, e, "a time in UTC such as 2026-11-20T00:00:00Z");
    return SKY_OK;
}

static sky_status read_rotation(reader *r, const sky_yaml_entry *e) {
    double seconds;
    if (!e->list && strcmp(e->values[0], "auto") == 0)
        return SKY_OK;
    if (e->list || !sky__scenario_number(e->values[0], &seconds) || seconds < 0.01 || seconds > 1e6)
        return refuse_value(r, e, "seconds from 0.01 to 1000000, or auto");
    r->out.time.rotation_ns = (sky_time)(seconds * 1e9 + 0.5);
    return SKY_OK;
}

static sky_status read_lookup(reader *r, const sky_yaml_entry *e) {
    static const char *const names[] = {"index", "binary", "sequential", NULL};
    int i = name_index(e, names);
    if (i < 0)
        return refuse_value(r, e, "index, binary or sequential");
    r->out.lookup = (sky_lookup_kind)i;
    return SKY_OK;
}

static sky_status read_eviction(reader *r, const sky_yaml_entry *e) {
    static const char *const names[] = {"gossip", "lazy", "sweep", "broadcast"};
    static const char allowed[] = "gossip, lazy, sweep or broadcast, or a list of them, each once";
    uint32_t kinds = 0;
    for (unsigned v = 0; v < e->value_count; v++) {
        uint32_t bit = 0;
        for (uint32_t i = 0; i < 4; i++)
            bit |= (uint32_t)(strcmp(e->values[v], names[i]) == 0) << i;
        if (!bit || kinds & bit)
            return refuse_value(r, e, allowed);
        kinds |= bit;
    }
    if (!kinds)
        return refuse_value(r, e, allowed);
    r->out.eviction = kinds;
    return SKY_OK;
}

static sky_status read_liar(reader *r, const sky_yaml_entry *e) {
    static const char *const names[] = {"wrong-bytes", "wrong-shift", "black-hole", "mixed", NULL};
    int i = name_index(e, names);
    if (i < 0)
        return refuse_value(r, e, "wrong-bytes, wrong-shift, black-hole or mixed");
    r->out.faults.liar = (sky_liar)(SKY_LIAR_WRONG_BYTES + i);
    return SKY_OK;
}

static sky_status read_arrivals(reader *r, const sky_yaml_entry *e) {
    return read_either(r, e, "drawn", "fixed", &r->out.workload.fixed);
}

static sky_status read_until(reader *r, const sky_yaml_entry *e) {
    sky_time ns;
    if (e->list || !sky__scenario_duration(e->values[0], &ns) || ns < SKY_MS(1))
        return refuse_value(r, e, "a time such as 500ms, 90s, 30m, 2h or 1d, at most 366d");
    r->out.until_ns = ns;
    return SKY_OK;
}

/* ---- real satellites ---- */

/* Whether the address makes sense is for who opens a socket; here its shape, and that there is a
 * port. */
static sky_status read_base(reader *r, const sky_yaml_entry *e) {
    const char *text = e->values[0], *colon = strrchr(text, ':');
    uint64_t port;
    if (e->list || strlen(text) >= sizeof r->out.udp.base || !colon ||
        text[strspn(text, "0123456789abcdefABCDEF.:[]")] ||
        !sky__scenario_whole(colon + 1, 65535, &port) || port == 0)
        return refuse_value(r, e, "an address and a port such as 127.0.0.1:7600");
    memcpy(r->out.udp.base, text, strlen(text) + 1);
    return SKY_OK;
}

static sky_status read_key_file(reader *r, const sky_yaml_entry *e) {
    char *to = strcmp(e->key, "key") == 0 ? r->out.udp.key : r->out.udp.tenant;
    if (e->list || !e->values[0][0])
        return refuse_value(r, e, "the path of a key file, from this file's folder");
    memcpy(to, e->values[0], strlen(e->values[0]) + 1);
    return SKY_OK;
}

static sky_status read_cipher(reader *r, const sky_yaml_entry *e) {
    static const char *const names[] = {"auto", "aes", "chacha", NULL};
    int i = name_index(e, names);
    if (i < 0)
        return refuse_value(r, e, "auto, aes or chacha");
    r->out.udp.suite = (sky_suite)i;
    return SKY_OK;
}

/* ---- one entry ---- */

static sky_status begin_section(reader *r, const sky_yaml_entry *e) {
    size_t i = section_index(e->section);
    if (i == SECTION_COUNT)
        return refuse_section(r, e);
    if (r->sections_seen & (1u << i))
        return refuse(r, SKY_E_PARAM, e->line, "section %s is there twice", e->section);
    r->sections_seen |= 1u << i;
    return SKY_OK;
}

/* A constellation is a shell, a grid or a file, never two; the radius of the Earth goes with
 * any. */
static sky_status note_constellation(reader *r, const sky_yaml_entry *e) {
    bool shell = strcmp(e->key, "shell") == 0 || strcmp(e->key, "tle") == 0;
    bool grid = !shell && strcmp(e->key, "earth_radius_km") != 0 &&
                strcmp(e->key, "light_km_s") != 0 && strcmp(e->key, "isls") != 0;
    if ((shell && (r->grid_given || r->shell_given)) || (grid && r->shell_given))
        return refuse(
            r, SKY_E_PARAM, e->line,
            "constellation: a shell or a file says planes, slots, altitude, inclination and "
            "phasing: give one or the other");
    r->shell_given |= shell;
    r->grid_given |= grid;
    return SKY_OK;
}

/* Sections whose keys are names. */
static const struct {
    const char *section;
    special *read;
} lists[] = {{"outages", sky__scenario_outage},      {"grounds", sky__scenario_ground},
             {"users", sky__scenario_user},          {"anchor", sky__scenario_anchor},
             {"elevation", sky__scenario_elevation}, {"weather", sky__scenario_weather}};

sky_status sky__scenario_entry(void *context, const sky_yaml_entry *e) {
    reader *r = context;
    if (!e->key[0])
        return begin_section(r, e);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(e->section, lists[i].section) == 0)
            return lists[i].read(r, e);
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const field *f = &fields[i];
        if (strcmp(f->section, e->section) != 0 || strcmp(f->key, e->key) != 0)
            continue;
        if (r->lines[i] > 0)
            return refuse(r, SKY_E_PARAM, e->line, "%s is there twice", e->key);
        r->lines[i] = e->line;
        if (strcmp(e->section, "constellation") == 0) {
            sky_status status = note_constellation(r, e);
            if (status != SKY_OK)
                return status;
        }
        return f->special ? f->special(r, e) : read_plain(r, f, e);
    }
    return refuse_key(r, e);
}

int sky__scenario_line(const reader *r, const char *section, const char *key) {
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].section, section) == 0 && strcmp(fields[i].key, key) == 0)
            return r->lines[i];
    }
    return 0;
}
