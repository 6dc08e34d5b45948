/* Rows of `skymem orbit`: the same values as JSON, CSV or a table. A list is one column for each of
 * its values in the latter two. JSON and CSV have all digits, to the millimetre; a table has those
 * that people read, the same number of decimals in all of a column. */
#include "orbit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void orbit_rows_begin(orbit_rows *r, cli *c) {
    *r = (orbit_rows){.c = c, .csv = cli_flag(c, "csv"), .rows = json_array()};
}

json_t *orbit_real(double value, int decimals) {
    double scale = pow(10, decimals);
    return isfinite(value) ? json_real(floor(value * scale + 0.5) / scale) : json_null();
}

/* Quoted where it has to be; a quote inside stands twice. */
static void csv_text(const char *text) {
    bool quoted = strpbrk(text, ",\" ") != NULL;
    if (quoted)
        putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    if (quoted)
        putchar('"');
}

/* ---- CSV: each row as it comes ---- */

static void csv_value(const json_t *value) {
    if (json_is_string(value))
        csv_text(json_string_value(value));
    else if (json_is_integer(value))
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        printf("%.12g", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", stdout);
}

/* A value alone, or one of a list. */
static const json_t *part_of(const json_t *value, size_t part) {
    return json_is_array(value) ? json_array_get(value, part) : value;
}

static size_t part_count(const json_t *value) {
    return json_is_array(value) ? json_array_size(value) : 1;
}

static void csv_row(json_t *row, bool head) {
    const char *key;
    json_t *value;
    bool first = true;
    json_object_foreach(row, key, value) {
        for (size_t i = 0; i < part_count(value); i++, first = false) {
            char name[64];
            if (!first)
                putchar(',');
            snprintf(name, sizeof name, json_is_array(value) ? "%s_%c" : "%s", key,
                     (char)('x' + i));
            if (head)
                csv_text(name);
            else
                csv_value(part_of(value, i));
        }
    }
    putchar('\n');
}

/* ---- tables: when all rows are there, so that a column has one number of decimals ---- */

/* What a key ends in, what stands for it in a head, and how many decimals people need. */
static const struct {
    const char *end, *unit;
    int decimals;
} units[] = {{"_km_s", ", km/s", 6},   {"_deg_day", ", deg/day", 3},
             {"_km", ", km", 3},       {"_ms", ", ms", 3},
             {"_deg", ", deg", 2},     {"_s", ", s", 3},
             {"_day", ", per day", 0}, {"", "", 3}};

static size_t unit_of(const char *key) {
    size_t bytes = strlen(key);
    for (size_t i = 0;; i++) {
        size_t end = strlen(units[i].end);
        if (end <= bytes && strcmp(key + bytes - end, units[i].end) == 0)
            return i;
    }
}

/* The x of a window: "3x3". */
static bool is_by(const char *name, const char *at) {
    return *at == 'x' && at > name && at[-1] >= '0' && at[-1] <= '9';
}

/* "max_elevation_deg" → "MAX ELEVATION, deg"; of a list a column for each axis: "R X, km". */
static void print_heading(orbit_rows *r, const char *key, int axis) {
    char name[64];
    size_t unit = unit_of(key), bytes = strlen(key) - strlen(units[unit].end);
    snprintf(name, sizeof name, "%.*s", (int)bytes, key);
    for (char *p = name; *p; p++)
        *p = *p == '_' ? ' ' : *p >= 'a' && *p <= 'z' && !is_by(name, p) ? (char)(*p - 32) : *p;
    cli_table_cell(&r->table, axis < 0 ? "%s%s" : "%s%s %c%s", name,
                   axis < 0 ? units[unit].unit : "", 'X' + axis, units[unit].unit);
}

/* Decimals that show all of a number, at most so many. */
static int decimals_of(double value, int most) {
    int decimals = 0;
    for (double scale = 1; decimals < most; decimals++, scale *= 10)
        if (fabs(value * scale - floor(value * scale + 0.5)) < 1e-9 * (fabs(value * scale) + 1))
            break;
    return decimals;
}

typedef struct {
    const char *key;
    size_t part;
    bool text; /* left-aligned */
    int decimals;
} column;

static column column_of(const orbit_rows *r, const char *key, size_t part) {
    column c = {.key = key, .part = part};
    int most = units[unit_of(key)].decimals;
    size_t i;
    json_t *row;
    json_array_foreach(r->rows, i, row) {
        const json_t *value = part_of(json_object_get(row, key), part);
        c.text = c.text || json_is_string(value);
        int own = json_is_real(value) ? decimals_of(json_real_value(value), most) : 0;
        c.decimals = own > c.decimals ? own : c.decimals;
    }
    return c;
}

static void table_cell(orbit_rows *r, const json_t *value, int decimals) {
    if (json_is_string(value))
        cli_table_cell(&r->table, "%s", json_string_value(value));
    else if (json_is_integer(value))
        cli_table_cell(&r->table, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        cli_table_cell(&r->table, "%.*f", decimals, json_real_value(value));
    else if (json_is_boolean(value))
        cli_table_cell(&r->table, "%s", json_is_true(value) ? "yes" : "no");
    else
        cli_table_cell(&r->table, "%s", "");
}

static void print_table(orbit_rows *r) {
    column columns[ORBIT_COLUMNS_MAX];
    char sides[ORBIT_COLUMNS_MAX + 1] = "";
    size_t count = 0, i;
    const char *key;
    json_t *row, *value;
    json_object_foreach(json_array_get(r->rows, 0), key, value) {
        for (i = 0; i < part_count(value) && count < ORBIT_COLUMNS_MAX; i++, count++) {
            columns[count] = column_of(r, key, i);
            sides[count] = columns[count].text ? 'l' : 'r';
            print_heading(r, key, json_is_array(value) ? (int)i : -1);
        }
    }
    json_array_foreach(r->rows, i, row) for (size_t k = 0; k < count; k++) table_cell(
        r, part_of(json_object_get(row, columns[k].key), columns[k].part), columns[k].decimals);
    r->table.columns = sides;
    cli_table_print(&r->table, stdout);
    cli_table_free(&r->table);
}

int orbit_row(orbit_rows *r, json_t *row) {
    if (!row)
        return cli_failed(r->c, "out of memory");
    if (r->c->json)
        return cli_json_row(r->c, row, 15);
    if (!r->csv)
        return json_array_append_new(r->rows, row) == 0 ? CLI_OK
                                                        : cli_failed(r->c, "out of memory");
    if (r->count++ == 0)
        csv_row(row, true);
    csv_row(row, false);
    json_decref(row);
    return CLI_OK;
}

int orbit_rows_end(orbit_rows *r) {
    if (json_array_size(r->rows) > 0)
        print_table(r);
    json_decref(r->rows);
    r->rows = NULL;
    return CLI_OK;
}
