/* Orbit mean-elements messages (CCSDS 502.0) as CelesTrak and Space-Track publish them: a JSON
 * array of objects, CSV with a head, or KVN, `KEY = VALUE` a line. All come to the same row of
 * texts by key.
 *
 * Surprises: numbers may be JSON numbers or strings; keys that mean nothing here are skipped; what
 * is asked for is UTC, TEME, SGP4, and another frame or theory is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "orbit/decimal.h"
#include "orbit/fleet.h"
#include "orbit/trig.h"
#include "orbit/utc.h"

enum {
    NAME,
    NUMBER,
    EPOCH,
    MOTION,
    ECCENTRICITY,
    INCLINATION,
    NODE,
    PERIGEE,
    ANOMALY,
    BSTAR,
    FRAME,
    TIME,
    THEORY,
    KEYS
};

static const char *const keys[KEYS] = {
    "OBJECT_NAME",        "NORAD_CAT_ID", "EPOCH",          "MEAN_MOTION",
    "ECCENTRICITY",       "INCLINATION",  "RA_OF_ASC_NODE", "ARG_OF_PERICENTER",
    "MEAN_ANOMALY",       "BSTAR",        "REF_FRAME",      "TIME_SYSTEM",
    "MEAN_ELEMENT_THEORY"};

#define TEXT_BYTES 64

/* One message: its values as texts, empty where there is none. */
typedef struct {
    char texts[KEYS][TEXT_BYTES];
} message;

static int key_index(const char *key, size_t bytes) {
    for (int i = 0; i < KEYS; i++) {
        if (strlen(keys[i]) == bytes && memcmp(keys[i], key, bytes) == 0)
            return i;
    }
    return -1;
}

/* A name may be cut; a number that does not fit is none. */
static bool take(message *m, int key, const char *text, size_t bytes) {
    sky__trim(&text, &bytes);
    if (key != NAME && bytes >= TEXT_BYTES)
        return false;
    bytes = bytes < TEXT_BYTES ? bytes : TEXT_BYTES - 1;
    memcpy(m->texts[key], text, bytes);
    m->texts[key][bytes] = 0;
    return memchr(text, 0, bytes) == NULL;
}

static bool within(const message *m, int key, double min, double max, double *out) {
    const char *text = m->texts[key];
    return sky__decimal(text, strlen(text), out) && *out >= min && *out <= max;
}

static bool is_one_of(const message *m, int key, const char *word) {
    return !m->texts[key][0] || strcmp(m->texts[key], word) == 0;
}

/* NULL, or the key whose value is missing or wrong. */
static const char *elements_of(const message *m, sky__elements *e) {
    uint64_t number;
    int64_t day, ms;
    double part;
    static const struct {
        int key;
        double min, max;
    } angles[] = {
        {INCLINATION, 0, 180}, {NODE, -360, 360}, {PERIGEE, -360, 360}, {ANOMALY, -360, 360}};
    double *const to[] = {&e->inclination, &e->node, &e->perigee, &e->anomaly};
    const char *text = m->texts[NUMBER];
    if (!sky__whole(text, strlen(text), UINT32_MAX, &number))
        return keys[NUMBER];
    if (!sky__utc_split(m->texts[EPOCH], &day, &part, &ms))
        return keys[EPOCH];
    if (!within(m, MOTION, 1e-9, 20, &e->motion))
        return keys[MOTION];
    if (!within(m, ECCENTRICITY, 0, 0.99999999, &e->eccentricity))
        return keys[ECCENTRICITY];
    if (!within(m, BSTAR, -1e3, 1e3, &e->bstar))
        return keys[BSTAR];
    for (int i = 0; i < 4; i++) {
        if (!within(m, angles[i].key, angles[i].min, angles[i].max, to[i]))
            return keys[angles[i].key];
        *to[i] *= SKY_DEGREE;
    }
    if (!is_one_of(m, FRAME, "TEME"))
        return keys[FRAME];
    if (!is_one_of(m, TIME, "UTC"))
        return keys[TIME];
    if (!is_one_of(m, THEORY, "SGP4") && !is_one_of(m, THEORY, "SGP/SGP4"))
        return keys[THEORY];
    e->number = (uint32_t)number;
    e->epoch_days = (double)(day + SKY__EPOCH_DAY_1970) + part;
    e->motion *= SKY_TWO_PI / 1440;
    return NULL;
}

/* Where a message stands: "path:7", or in JSON, whose lines are not known, "path: entry 2". */
typedef struct {
    const char *path, *unit;
    size_t number;
} place;

static sky_status refuse(const place *p, sky_status status, sky_error *error, const char *what,
                         const char *wrong) {
    return sky_fail(error, status, "%s%s%zu: %s%s", p->path, p->unit, p->number, what, wrong);
}

static sky_status add(const message *m, const place *p, sky_fleet *f, sky_error *error) {
    sky__elements e = {0};
    const char *wrong = elements_of(m, &e);
    if (wrong)
        return refuse(p, SKY_E_SYNTAX, error, wrong, " is missing or out of range");
    sky_status status = sky__fleet_add(f, m->texts[NAME], strlen(m->texts[NAME]), &e);
    if (status != SKY_OK)
        return refuse(p, status, error, "",
                      status == SKY_E_NOMEM ? "out of memory"
                                            : "an element out of range, or too many");
    return SKY_OK;
}

/* ---- JSON ---- */

static bool json_text(const json_t *value, message *m, int key) {
    char text[TEXT_BYTES];
    if (json_is_string(value))
        return take(m, key, json_string_value(value), json_string_length(value));
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value) && isfinite(json_real_value(value)))
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    else
        return json_is_null(value);
    for (char *p = text; *p; p++)
        *p = *p == ',' ? '.' : *p; /* the point of another locale */
    return take(m, key, text, strlen(text));
}

static sky_status json_message(const json_t *object, const char *path, size_t number, sky_fleet *f,
                               sky_error *error) {
    message m = {0};
    place p = {path, ": entry ", number};
    if (!json_is_object(object))
        return refuse(&p, SKY_E_SYNTAX, error, "", "no object");
    for (int i = 0; i < KEYS; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        if (value && !json_text(value, &m, i))
            return refuse(&p, SKY_E_SYNTAX, error, keys[i], " has no such value");
    }
    return add(&m, &p, f, error);
}

sky_status sky__omm_json(const char *text, size_t bytes, const char *path, sky_fleet *f,
                         sky_error *error) {
    json_error_t why;
    json_t *root = json_loadb(text, bytes, 0, &why);
    if (!root)
        return sky_fail(error, SKY_E_SYNTAX, "%s:%d: %s", path, why.line > 0 ? why.line : 1,
                        why.text);
    sky_status status = SKY_OK;
    if (json_is_object(root))
        status = json_message(root, path, 1, f, error);
    for (size_t i = 0; i < json_array_size(root) && status == SKY_OK; i++)
        status = json_message(json_array_get(root, i), path, i + 1, f, error);
    json_decref(root);
    return status;
}

/* ---- CSV ---- */

#define COLUMNS_MAX 64

/* The quote that ends a cell: one that has no second one after it. */
static const char *closing(const char *at, const char *end) {
    while (at < end && (*at != '"' || (at + 1 < end && at[1] == '"')))
        at += *at == '"' ? 2 : 1;
    return at;
}

/* Quotes inside a cell stand twice. */
static void halve_quotes(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++) {
        *to++ = *at;
        at += at[0] == '"' && at[1] == '"';
    }
    *to = 0;
}

/* The next cell, the quotes around it taken off. */
static bool cell(const char **at, const char *end, const char **text, size_t *bytes) {
    if (*at > end)
        return false;
    bool quoted = *at < end && **at == '"';
    const char *from = *at + quoted;
    const char *comma = from < end ? memchr(from, ',', (size_t)(end - from)) : NULL;
    const char *stop = quoted ? closing(from, end) : comma ? comma : end;
    *text = from;
    *bytes = (size_t)(stop - from);
    if (quoted && stop < end)
        stop++;
    while (stop < end && *stop != ',')
        stop++;
    *at = stop + 1; /* one past the end: no more cells */
    return true;
}

static size_t read_head(const char *line, size_t bytes, int columns[COLUMNS_MAX]) {
    const char *at = line, *text;
    size_t count = 0, length;
    while (count < COLUMNS_MAX && cell(&at, line + bytes, &text, &length)) {
        sky__trim(&text, &length);
        columns[count++] = key_index(text, length);
    }
    return count;
}

sky_status sky__omm_csv(const char *text, size_t bytes, const char *path, sky_fleet *f,
                        sky_error *error) {
    sky__lines lines = {.at = text, .end = text + bytes};
    const char *line;
    size_t length;
    int columns[COLUMNS_MAX];
    sky__line_next(&lines, &line, &length);
    size_t column_count = read_head(line, length, columns);
    bool known = false;
    for (size_t i = 0; i < column_count; i++)
        known |= columns[i] == EPOCH;
    if (!known)
        return sky_fail(error, SKY_E_SYNTAX, "%s:1: no column %s", path, keys[EPOCH]);
    while (sky__line_next(&lines, &line, &length)) {
        message m = {0};
        const char *at = line, *value;
        size_t value_bytes, count = 0;
        if (length == 0)
            continue;
        while (cell(&at, line + length, &value, &value_bytes)) {
            int key = count < column_count ? columns[count] : -1;
            count++;
            if (key >= 0 && !take(&m, key, value, value_bytes))
                return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: %s is too long", path, lines.number,
                                keys[key]);
            if (key >= 0)
                halve_quotes(m.texts[key]);
        }
        if (count != column_count)
            return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: %zu columns, the head has %zu", path,
                            lines.number, count, column_count);
        sky_status status = add(&m, &(place){path, ":", lines.number}, f, error);
        if (status != SKY_OK)
            return status;
    }
    return SKY_OK;
}

/* ---- KVN ---- */

/* `2.11 [rev/day]` is 2.11. */
static size_t without_unit(const char *text, size_t bytes) {
    const char *unit = memchr(text, '[', bytes);
    return unit ? (size_t)(unit - text) : bytes;
}

sky_status sky__omm_kvn(const char *text, size_t bytes, const char *path, sky_fleet *f,
                        sky_error *error) {
    sky__lines lines = {.at = text, .end = text + bytes};
    const char *line;
    size_t length, begun = 0;
    message m = {0};
    while (sky__line_next(&lines, &line, &length)) {
        const char *equals = memchr(line, '=', length);
        const char *key = line;
        size_t key_bytes = equals ? (size_t)(equals - line) : length;
        sky__trim(&key, &key_bytes);
        if (key_bytes == 0 || (key_bytes >= 7 && memcmp(key, "COMMENT", 7) == 0))
            continue;
        if (!equals)
            return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: expected KEY = VALUE", path,
                            lines.number);
        if (key_bytes == 14 && memcmp(key, "CCSDS_OMM_VERS", 14) == 0) {
            sky_status status = begun ? add(&m, &(place){path, ":", begun}, f, error) : SKY_OK;
            if (status != SKY_OK)
                return status;
            memset(&m, 0, sizeof m);
            begun = lines.number;
            continue;
        }
        const char *value = equals + 1;
        size_t value_bytes = (size_t)(line + length - value);
        int index = key_index(key, key_bytes);
        if (index >= 0 && index != NAME)
            value_bytes = without_unit(value, value_bytes);
        if (index >= 0 && !take(&m, index, value, value_bytes))
            return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: %s is too long", path, lines.number,
                            keys[index]);
    }
    return begun ? add(&m, &(place){path, ":", begun}, f, error) : SKY_OK;
}
