/* Orbit mean-elements messages (CCSDS 502.0) as CelesTrak and Space-Track publish them: a JSON
 * array of objects, CSV with a head, or KVN, `KEY = VALUE` a line. All come to the same row of
 * texts by key.
 *
 * Surprises: numbers may be JSON numbers or strings; keys that mean nothing here are skipped; what
 * is asked for is UTC, TEME, SGP4, and another frame or theory is refused. EPHEMERIS_TYPE 4 is
 * SGP4-XP, whatever the theory is called. */
#include <math.h>
#include <stdarg.h>
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
    TYPE,
    KEYS
};

static const char *const keys[KEYS] = {
    "OBJECT_NAME",         "NORAD_CAT_ID",  "EPOCH",          "MEAN_MOTION",
    "ECCENTRICITY",        "INCLINATION",   "RA_OF_ASC_NODE", "ARG_OF_PERICENTER",
    "MEAN_ANOMALY",        "BSTAR",         "REF_FRAME",      "TIME_SYSTEM",
    "MEAN_ELEMENT_THEORY", "EPHEMERIS_TYPE"};

#define TEXT_BYTES 64
#define DAY_MAX    92406 /* 2223-01-01, from 1970: the theory takes no later one */

/* One message: its values as texts, empty where there is none, and where they stand. */
typedef struct {
    char texts[KEYS][TEXT_BYTES];
    size_t lines[KEYS]; /* 0: that of the message */
    size_t line;        /* where it begins */
    size_t entry;       /* JSON: its number from 1; elsewhere 0 */
    const char *path;
} message;

/* What is wrong, and with which value; `key` KEYS: with the message. */
typedef struct {
    int key;
    char reason[160];
} fault;

static int key_index(const char *key, size_t bytes) {
    for (int i = 0; i < KEYS; i++) {
        if (strlen(keys[i]) == bytes && memcmp(keys[i], key, bytes) == 0)
            return i;
    }
    return -1;
}

static sky_status refuse_message(const message *m, sky_status status, sky_error *error,
                                 const fault *f) {
    size_t line = f->key < KEYS && m->lines[f->key] ? m->lines[f->key] : m->line;
    char entry[40] = "";
    if (m->entry)
        snprintf(entry, sizeof entry, "entry %zu: ", m->entry);
    return sky_fail(error, status, "%s:%zu: %s%s", m->path, line, entry, f->reason);
}

/* False, so that a check is one line. */
static bool field_is_wrong(fault *f, const message *m, int key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool field_is_wrong(fault *f, const message *m, int key, const char *format, ...) {
    char text[TEXT_BYTES], expected[64];
    size_t bytes = strlen(m->texts[key]);
    for (size_t i = 0; i <= bytes; i++) { /* it may come from anyone, and goes to a terminal */
        char c = m->texts[key][i];
        text[i] = (char)(i == bytes || (c >= ' ' && c <= '~') ? c : '?');
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    f->key = key;
    snprintf(f->reason, sizeof f->reason, bytes ? "%s is %s: %s" : "%s is missing", keys[key], text,
             expected);
    return false;
}

/* A name may be cut; a number that does not fit is none. */
static bool take_field(message *m, int key, const char *text, size_t bytes, fault *f) {
    sky__trim(&text, &bytes);
    bool fits = key == NAME || bytes < TEXT_BYTES;
    bytes = bytes < TEXT_BYTES ? bytes : TEXT_BYTES - 1;
    f->key = key;
    if (!fits || memchr(text, 0, bytes)) {
        snprintf(f->reason, sizeof f->reason,
                 fits ? "%s has a zero byte" : "%s is longer than 63 characters", keys[key]);
        return false;
    }
    memcpy(m->texts[key], text, bytes);
    m->texts[key][bytes] = 0;
    return true;
}

static bool number_within(const message *m, int key, double min, double max, double *out,
                          fault *f) {
    const char *text = m->texts[key];
    if (!sky__decimal(text, strlen(text), out))
        return field_is_wrong(f, m, key, "no number");
    return (*out >= min && *out <= max) ||
           field_is_wrong(f, m, key, "from %.10g to %.10g", min, max);
}

static bool is_one_of(const message *m, int key, const char *word, const char *or_word, fault *f) {
    const char *text = m->texts[key];
    return !text[0] || strcmp(text, word) == 0 || strcmp(text, or_word) == 0 ||
           field_is_wrong(f, m, key, "only %s is read", word);
}

static bool elements_of(const message *m, sky__elements *e, fault *f) {
    uint64_t number;
    int64_t day, ms;
    double part;
    const char *text = m->texts[NUMBER];
    if (!sky__whole(text, strlen(text), UINT32_MAX, &number))
        return field_is_wrong(f, m, NUMBER, "a whole number from 0 to %u", UINT32_MAX);
    if (!sky__utc_split(m->texts[EPOCH], &day, &part, &ms) || day >= DAY_MAX)
        return field_is_wrong(f, m, EPOCH, "a time from 1957 to 2222, as 2026-11-20T00:00:00");
    if (!number_within(m, MOTION, 1e-9, 20, &e->motion, f) ||
        !number_within(m, ECCENTRICITY, 0, 0.99999999, &e->eccentricity, f) ||
        !number_within(m, BSTAR, -1e3, 1e3, &e->bstar, f) ||
        !number_within(m, INCLINATION, 0, 180, &e->inclination, f) ||
        !number_within(m, NODE, -360, 360, &e->node, f) ||
        !number_within(m, PERIGEE, -360, 360, &e->perigee, f) ||
        !number_within(m, ANOMALY, -360, 360, &e->anomaly, f))
        return false;
    if (!is_one_of(m, FRAME, "TEME", "TEME", f) || !is_one_of(m, TIME, "UTC", "UTC", f) ||
        !is_one_of(m, THEORY, "SGP4", "SGP/SGP4", f))
        return false;
    if (strcmp(m->texts[TYPE], "4") == 0)
        return field_is_wrong(f, m, TYPE, "elements for SGP4-XP; take those for SGP4");
    e->number = (uint32_t)number;
    e->epoch_days = (double)(day + SKY__EPOCH_DAY_1970) + part;
    e->motion *= SKY_TWO_PI / 1440;
    e->inclination *= SKY_DEGREE;
    e->node *= SKY_DEGREE;
    e->perigee *= SKY_DEGREE;
    e->anomaly *= SKY_DEGREE;
    return true;
}

static sky_status add_message(const message *m, sky_fleet *fleet, fault *f, sky_error *error) {
    sky__elements e = {0};
    if (!elements_of(m, &e, f))
        return refuse_message(m, SKY_E_SYNTAX, error, f);
    sky_status status = sky__fleet_add(fleet, m->texts[NAME], strlen(m->texts[NAME]), &e);
    if (status == SKY_OK)
        return SKY_OK;
    f->key = KEYS;
    if (status == SKY_E_NOMEM)
        snprintf(f->reason, sizeof f->reason, "out of memory");
    else
        snprintf(f->reason, sizeof f->reason, "more than %d satellites", SKY_FLEET_MAX);
    return refuse_message(m, status, error, f);
}

/* ---- JSON ---- */

static bool json_text(const json_t *value, message *m, int key, fault *f) {
    char text[TEXT_BYTES];
    if (json_is_string(value))
        return take_field(m, key, json_string_value(value), json_string_length(value), f);
    if (json_is_null(value))
        return true;
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value) && isfinite(json_real_value(value)))
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    else {
        f->key = key;
        snprintf(f->reason, sizeof f->reason, "%s is neither a number nor a text", keys[key]);
        return false;
    }
    for (char *p = text; *p; p++)
        *p = *p == ',' ? '.' : *p; /* the point of another locale */
    return take_field(m, key, text, strlen(text), f);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The quote that ends the text begun before `at`. */
static const char *text_end(const char *at, const char *end) {
    while (at < end && *at != '"')
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at;
}

static bool is_key(const char *text, const char *quote, const char *end, const char *key) {
    size_t bytes = (size_t)(quote - text);
    do
        quote++;
    while (quote < end && is_blank(*quote));
    return quote < end && *quote == ':' && strlen(key) == bytes && memcmp(text, key, bytes) == 0;
}

/* jansson tells no lines of what it took. So, once something is wrong, count them: m->line is where
 * the message begins, m->lines[key] where the key stands (of two, the later, which counted). */
static void find_lines(const char *text, size_t bytes, message *m, int key) {
    const char *end = text + bytes;
    size_t line = 1, depth = 0, entry = 1;
    const char *root = text;
    while (root < end && is_blank(*root))
        root++;
    size_t inside = root < end && *root == '[';
    m->line = 0;
    for (const char *at = text; at < end && entry <= m->entry; at++) {
        bool here = entry == m->entry && !is_blank(*at);
        line += *at == '\n';
        if (here && depth == inside && m->line == 0)
            m->line = line;
        if (*at == '"') {
            const char *quote = text_end(at + 1, end);
            if (here && depth == inside + 1 && key < KEYS && is_key(at + 1, quote, end, keys[key]))
                m->lines[key] = line;
            at = quote;
            continue;
        }
        entry += *at == ',' && depth == inside;
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
    }
}

static bool json_values(const json_t *object, message *m, fault *f) {
    f->key = KEYS;
    snprintf(f->reason, sizeof f->reason, "no object");
    if (!json_is_object(object))
        return false;
    for (int i = 0; i < KEYS; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        if (value && !json_text(value, m, i, f))
            return false;
    }
    return true;
}

sky_status sky__omm_json(const char *text, size_t bytes, const char *path, sky_fleet *fleet,
                         sky_error *error) {
    json_error_t why;
    json_t *root = json_loadb(text, bytes, 0, &why);
    if (!root)
        return sky_fail(error, SKY_E_SYNTAX, "%s:%d: %s", path, why.line > 0 ? why.line : 1,
                        why.text);
    sky_status status = SKY_OK;
    size_t count = json_is_array(root) ? json_array_size(root) : 1;
    for (size_t i = 0; i < count && status == SKY_OK; i++) {
        const json_t *object = json_is_array(root) ? json_array_get(root, i) : root;
        message m = {.path = path, .entry = i + 1};
        fault f;
        bool taken = json_values(object, &m, &f);
        status = taken ? add_message(&m, fleet, &f, NULL) : SKY_E_SYNTAX;
        if (status == SKY_OK)
            continue;
        find_lines(text, bytes, &m, f.key);
        refuse_message(&m, status, error, &f);
    }
    json_decref(root);
    return status;
}

/* ---- CSV ---- */

#define COLUMNS_MAX 64

/* The quote that ends a cell: one that has no second one after it. */
static const char *closing_quote(const char *at, const char *end) {
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
static bool next_cell(const char **at, const char *end, const char **text, size_t *bytes) {
    if (*at > end)
        return false;
    bool quoted = *at < end && **at == '"';
    const char *from = *at + quoted;
    const char *comma = from < end ? memchr(from, ',', (size_t)(end - from)) : NULL;
    const char *stop = quoted ? closing_quote(from, end) : comma ? comma : end;
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
    while (count < COLUMNS_MAX && next_cell(&at, line + bytes, &text, &length)) {
        sky__trim(&text, &length);
        columns[count++] = key_index(text, length);
    }
    return count;
}

sky_status sky__omm_csv(const char *text, size_t bytes, const char *path, sky_fleet *fleet,
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
        message m = {.path = path, .line = lines.number};
        fault f;
        const char *at = line, *value;
        size_t value_bytes, count = 0;
        if (length == 0)
            continue;
        while (next_cell(&at, line + length, &value, &value_bytes)) {
            int key = count < column_count ? columns[count] : -1;
            count++;
            if (key >= 0 && !take_field(&m, key, value, value_bytes, &f))
                return refuse_message(&m, SKY_E_SYNTAX, error, &f);
            if (key >= 0)
                halve_quotes(m.texts[key]);
        }
        if (count != column_count)
            return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: %zu columns, the head has %zu", path,
                            lines.number, count, column_count);
        sky_status status = add_message(&m, fleet, &f, error);
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

sky_status sky__omm_kvn(const char *text, size_t bytes, const char *path, sky_fleet *fleet,
                        sky_error *error) {
    sky__lines lines = {.at = text, .end = text + bytes};
    const char *line;
    size_t length;
    message m = {.path = path}; /* line 0: none has begun */
    fault f;
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
            sky_status status = m.line ? add_message(&m, fleet, &f, error) : SKY_OK;
            if (status != SKY_OK)
                return status;
            m = (message){.path = path, .line = lines.number};
            continue;
        }
        const char *value = equals + 1;
        size_t value_bytes = (size_t)(line + length - value);
        int index = key_index(key, key_bytes);
        if (index >= 0 && index != NAME)
            value_bytes = without_unit(value, value_bytes);
        if (index >= 0)
            m.lines[index] = lines.number;
        if (index >= 0 && !take_field(&m, index, value, value_bytes, &f))
            return refuse_message(&m, SKY_E_SYNTAX, error, &f);
    }
    return m.line ? add_message(&m, fleet, &f, error) : SKY_OK;
}
