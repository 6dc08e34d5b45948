/* A table for people: columns as wide as their widest cell, the head in bold if colour is on. */
#include "cli.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32

void cli_table_cell(cli_table *t, const char *format, ...) {
    if (t->cell_count == t->cell_max) {
        size_t more = t->cell_max ? 2 * t->cell_max : 64;
        char **cells = realloc(t->cells, more * sizeof *cells);
        if (!cells)
            abort();
        t->cells = cells;
        t->cell_max = more;
    }
    char *text, *shown = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0 || !(shown = cli_printable(text)))
        abort();
    va_end(arguments);
    free(text);
    t->cells[t->cell_count++] = shown;
}

/* Columns a text takes on a terminal: code points, for our purposes. */
static size_t width_of(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static size_t column_width(const cli_table *t, size_t columns, size_t column) {
    size_t widest = 0;
    for (size_t i = column; i < t->cell_count; i += columns)
        if (width_of(t->cells[i]) > widest)
            widest = width_of(t->cells[i]);
    return widest;
}

void cli_table_free(cli_table *t) {
    while (t->cell_count > 0)
        free(t->cells[--t->cell_count]);
    free(t->cells);
    t->cells = NULL;
    t->cell_max = 0;
}

/* Blanks stand only before something that follows them. */
static void print_row(const cli_table *t, char *const *cells, const size_t *widths, FILE *to) {
    size_t blanks = 0;
    for (size_t i = 0; t->columns[i]; i++) {
        size_t gap = widths[i] - width_of(cells[i]);
        bool right = t->columns[i] == 'r';
        blanks += right ? gap : 0;
        if (cells[i][0]) {
            fprintf(to, "%*s%s", (int)blanks, "", cells[i]);
            blanks = 0;
        }
        blanks += (right ? 0 : gap) + 2;
    }
}

void cli_table_print(cli_table *t, FILE *to) {
    size_t columns = strlen(t->columns), widths[COLUMNS_MAX];
    assert(columns > 0 && columns <= COLUMNS_MAX);
    assert(t->cell_count % columns == 0 && "rows of different length");
    for (size_t i = 0; i < columns; i++)
        widths[i] = column_width(t, columns, i);
    bool bold = cli_colored(to);
    for (size_t i = 0; i < t->cell_count; i += columns) {
        fputs(i == 0 && bold ? "\033[1m" : "", to);
        print_row(t, &t->cells[i], widths, to);
        fputs(i == 0 && bold ? "\033[0m\n" : "\n", to);
    }
    cli_table_free(t);
}
