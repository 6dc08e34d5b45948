/* Rows of `skymem orbit`: the same values as JSON, CSV or a table. A list is one column for each of
 * its values in the latter two. More digits than elsewhere: positions are told to the
 * millimetre. */
#include "orbit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void orbit_rows_begin(orbit_rows *r, cli *c) {
    *r = (orbit_rows){.c = c, .csv = cli_flag(c, "csv")};
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

static void value_text(const json_t *value, bool csv, char *out, size_t bytes) {
    if (json_is_integer(value))
        snprintf(out, bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, bytes, csv ? "%.12g" : "%.7g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(out, bytes, "%s", json_is_true(value) ? "yes" : "no");
    else
        out[0] = 0;
}

/* One cell of the head or of a row. */
static void cell(orbit_rows *r, const char *text, size_t column) {
    if (!r->csv) {
        cli_table_cell(&r->table, "%s", text);
        return;
    }
    if (column > 0)
        putchar(',');
    csv_text(text);
}

static void head(orbit_rows *r, json_t *row) {
    const char *key;
    json_t *value;
    size_t column = 0;
    json_object_foreach(row, key, value) {
        size_t parts = json_is_array(value) ? json_array_size(value) : 1;
        for (size_t i = 0; i < parts; i++, column++) {
            char text[64];
            snprintf(text, sizeof text, parts > 1 ? "%s_%c" : "%s", key, (char)('x' + i));
            cell(r, text, column);
            if (column + 1 < sizeof r->columns)
                r->columns[column] = json_is_string(value) ? 'l' : 'r';
        }
    }
    if (r->csv)
        putchar('\n');
}

static void line(orbit_rows *r, json_t *row) {
    const char *key;
    json_t *value;
    size_t column = 0;
    json_object_foreach(row, key, value) {
        size_t parts = json_is_array(value) ? json_array_size(value) : 1;
        for (size_t i = 0; i < parts; i++, column++) {
            const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
            char text[64];
            value_text(one, r->csv, text, sizeof text);
            cell(r, json_is_string(one) ? json_string_value(one) : text, column);
        }
    }
    if (r->csv)
        putchar('\n');
}

int orbit_row(orbit_rows *r, json_t *row) {
    if (!row)
        return cli_failed(r->c, "out of memory");
    if (r->c->json)
        return cli_json_row(r->c, row, 15);
    if (r->count++ == 0)
        head(r, row);
    line(r, row);
    json_decref(row);
    return CLI_OK;
}

int orbit_rows_end(orbit_rows *r) {
    r->table.columns = r->columns;
    if (r->count && !r->csv)
        cli_table_print(&r->table, stdout);
    cli_table_free(&r->table);
    return CLI_OK;
}
