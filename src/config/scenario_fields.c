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
    KIND_EITHER, /* of two words, the second stored as true */
    KIND_WORD,   /* one of `words`, stored by its place from `min` on */
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
    const char *words; /* parted by a blank */
} field;

static special read_shell, read_tle, read_isls, read_stations, read_station, read_center,
    read_strategy, read_window, read_weights, read_start, read_rotation, read_eviction, read_until,
    read_base, read_key_file;

#define AT(member) offsetof(sky_scenario, member)
#define TIB        1099511627776.0
#define PLAIN(section, key, kind, member, min, max)                                                \
    { section, key, KIND_##kind, AT(member), min, max, 0, NULL, NULL }
#define SCALED(section, key, member, min, max, factor)                                             \
    { section, key, KIND_SCALED, AT(member), min, max, factor, NULL, NULL }
#define SPECIAL(section, key, function)                                                            \
    { section, key, KIND_SPECIAL, 0, 0, 0, 0, function, NULL }
#define EITHER(section, key, member, words)                                                        \
    { section, key, KIND_EITHER, AT(member), 0, 0, 0, NULL, words }
#define WORD(section, key, member, first, words)                                                   \
    { section, key, KIND_WORD, AT(member), first, 0, 0, NULL, words }

static const field fields[] = {
    PLAIN("constellation", "planes", U32, constellation.planes, 1, SKY_PLANES_MAX),
    PLAIN("constellation", "slots", U32, constellation.slots, 1, SKY_SLOTS_MAX),
    PLAIN("constellation", "altitude_km", REAL, constellation.altitude_km, 100, 40000),
    PLAIN("constellation", "inclination_deg", REAL, constellation.inclination_deg, 0, 180),
    PLAIN("constellation", "phasing", U32, constellation.phasing, 0, SKY_PLANES_MAX - 1),
    PLAIN("constellation", "raan_spread_deg", REAL, constellation.raan_spread_deg, 1, 360),
    PLAIN("constellation", "earth_radius_km", REAL, constellation.earth_radius_km, 6000, 7000),
    PLAIN("constellation", "light_km_s", REAL, constellation.light_km_s, 1e3, 1e6),
    SPECIAL("constellation", "shell", read_shell),
    SPECIAL("constellation", "tle", read_tle),
    SPECIAL("constellation", "isls", read_isls),
    EITHER("", "sky", physical, "ideal physical"),
    SPECIAL("", "center", read_center),
    SPECIAL("", "stations", read_stations),
    SPECIAL("observer", "station", read_station),
    PLAIN("observer", "lat_deg", REAL, observer.latitude_deg, -90, 90),
    PLAIN("observer", "lon_deg", REAL, observer.longitude_deg, -180, 180),
    PLAIN("observer", "alt_m", REAL, observer.altitude_m, -500, 20000),
    PLAIN("observer", "min_elevation_deg", REAL, observer.min_elevation_deg, 0, 90),
    PLAIN("observer", "hysteresis_deg", REAL, observer.hysteresis_deg, 0, 90),
    SPECIAL("placement", "strategy", read_strategy),
    PLAIN("placement", "servers", U32, placement.servers, 1, SKY_SERVERS_MAX),
    SPECIAL("placement", "window", read_window),
    SPECIAL("placement", "weights", read_weights),
    PLAIN("placement", "replicas", U32, replicas, 1, 16),
    PLAIN("placement", "parity", U32, parity, 0, 64),
    PLAIN("", "chunk", SIZE32, chunk_bytes, SKY_CHUNK_BYTES_MIN, SKY_CHUNK_BYTES_MAX),
    PLAIN("satellite", "memory", SIZE64, satellite.memory_bytes, 1024, TIB),
    SCALED("satellite", "processing_ms", satellite.processing_ns, 0, 1e6, 1e6),
    SCALED("satellite", "repair_s", satellite.repair_ns, 0.01, 1e6, 1e9),
    PLAIN("satellite", "repair_share", REAL, satellite.repair_share, 0, 1),
    SCALED("links", "isl_gbps", links.isl_bits_s, 1e-6, 1e6, 1e9),
    SCALED("links", "ground_mbps", links.ground_bits_s, 1e-3, 1e9, 1e6),
    PLAIN("links", "loss", REAL, links.loss, 0, 0.99),
    PLAIN("links", "ground_loss", REAL, links.ground_loss, 1e-9, 0.99),
    PLAIN("links", "isl_loss", REAL, links.isl_loss, 1e-9, 0.99),
    SCALED("links", "jitter_ms", links.jitter_ns, 0, 1e5, 1e6),
    PLAIN("links", "datagrams", BOOL, links.datagrams, 0, 1),
    PLAIN("links", "queue", SIZE64, links.queue_bytes, 1024, TIB),
    EITHER("links", "ground_links", links.ground_each, "one each"),
    PLAIN("links", "land_km_s", REAL, links.land_km_s, 1e3, 3e5),
    SPECIAL("time", "start", read_start),
    PLAIN("time", "scale", REAL, time.scale, 1e-3, 1e6),
    SPECIAL("time", "rotation_s", read_rotation),
    WORD("", "lookup", lookup, SKY_LOOKUP_INDEX, "index binary sequential"),
    SPECIAL("", "eviction", read_eviction),
    PLAIN("workload", "keys", U32, workload.keys, 1, 1e7),
    PLAIN("workload", "gets", U64, workload.gets, 0, 1e9),
    PLAIN("workload", "value", SIZE64, workload.value_bytes, 1, TIB / 1024),
    PLAIN("workload", "zipf", REAL, workload.zipf, 0, 10),
    PLAIN("workload", "regular", BOOL, workload.regular, 0, 1),
    PLAIN("workload", "chain", U32, workload.chain, 1, 4096),
    SCALED("workload", "every_ms", workload.every_ns, 0, 1e9, 1e6),
    EITHER("workload", "arrivals", workload.fixed, "drawn fixed"),
    PLAIN("workload", "removes", REAL, workload.removes, 0, 0.3),
    PLAIN("workload", "pins", REAL, workload.pins, 0, 0.3),
    PLAIN("workload", "prefetches", REAL, workload.prefetches, 0, 0.3),
    PLAIN("faults", "crash_per_h", REAL, faults.crash_per_h, 0, 1e6),
    PLAIN("faults", "partition_per_h", REAL, faults.partition_per_h, 0, 1e6),
    PLAIN("faults", "corrupt", REAL, faults.corrupt, 0, 1),
    PLAIN("faults", "duplicate", REAL, faults.duplicate, 0, 1),
    PLAIN("faults", "reorder", REAL, faults.reorder, 0, 1),
    SCALED("faults", "skew_ms", faults.skew_ns, 0, 1e6, 1e6),
    PLAIN("faults", "liar_satellites", U32, faults.liar_satellites, 0,
          (double)SKY_PLANES_MAX *SKY_SLOTS_MAX),
    WORD("faults", "liar", faults.liar, SKY_LIAR_WRONG_BYTES,
         "wrong-bytes wrong-shift black-hole mixed"),
    PLAIN("faults", "freeze_per_h", REAL, faults.freeze_per_h, 0, 1e6),
    PLAIN("faults", "hostile_per_s", REAL, faults.hostile_per_s, 0, 1e6),
    PLAIN("faults", "reopen_per_h", REAL, faults.reopen_per_h, 0, 1e6),
    SCALED("faults", "restart_s", faults.restart_ns, 0, 1e6, 1e9),
    SPECIAL("", "until", read_until),
    SPECIAL("udp", "base", read_base),
    SPECIAL("udp", "key", read_key_file),
    SPECIAL("udp", "tenant", read_key_file),
    WORD("udp", "cipher", udp.suite, 0, "auto aes chacha"),
    PLAIN("udp", "far", BOOL, udp.far, 0, 1),
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

/* The place of a text among words that are parted by a blank; false: it is none of them. */
static bool word_index(const char *words, const char *text, uint64_t *index) {
    size_t bytes = strlen(text);
    *index = 0;
    for (;; words++, ++*index) {
        size_t length = strcspn(words, " ");
        if (length == bytes && memcmp(words, text, bytes) == 0)
            return true;
        words += length;
        if (!*words)
            return false;
    }
}

/* "one, another or a third" */
static void list_words(const char *words, char *out, size_t out_bytes) {
    for (const char *next = words; next; words = next + 1) {
        next = strchr(words, ' ');
        const char *parted_by = !next ? "" : strchr(next + 1, ' ') ? ", " : " or ";
        size_t used = strlen(out);
        snprintf(out + used, out_bytes - used, "%.*s%s", (int)strcspn(words, " "), words,
                 parted_by);
    }
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
    case KIND_EITHER:
    case KIND_WORD:
        ok = word_index(f->words, text, &whole);
        whole += (uint64_t)f->min;
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
    case KIND_EITHER:
        memcpy(at, &on, sizeof on);
        break;
    case KIND_REAL:
        memcpy(at, &value, sizeof value);
        break;
    case KIND_U32:
    case KIND_SIZE32:
    case KIND_WORD:
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
    char allowed[128] = "";
    if (f->kind == KIND_BOOL || f->words)
        list_words(f->words ? f->words : "true false", allowed, sizeof allowed);
    else if (f->kind == KIND_REAL || f->kind == KIND_SCALED)
        snprintf(allowed, sizeof allowed, "a number from %.12g to %.12g", f->min, f->max);
    else
        snprintf(allowed, sizeof allowed, "%s from %.0f to %.0f",
                 f->kind == KIND_SIZE32 || f->kind == KIND_SIZE64
                     ? "a size in bytes, or with KiB, MiB, GiB,"
                     : "a whole number",
                 f->min, f->max);
    return refuse_value(r, e, allowed);
}

static sky_status read_plain(reader *r, const field *f, const sky_yaml_entry *e) {
    double value;
    if (e->list || !value_of_kind(f, e->values[0], &value) ||
        (!f->words && (value < f->min || value > f->max)))
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
