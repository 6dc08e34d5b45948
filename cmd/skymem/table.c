/* A table for people: columns as wide as their widest cell, the head in bold on a terminal. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_table_cell(cli_table *t, const char *format, ...) {
    if (t->cell_count == t->cell_max) {
        size_t more = t->cell_max ? 2 * t->cell_max : 64;
        char **cells = realloc(t->cells, more * sizeof *cells);
        if (!cells)
            abort();
        t->cells = cells;
        t->cell_max = more;
    }
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&t->cells[t->cell_count], format, arguments) < 0)
        abort();
    va_end(arguments);
    t->cell_count++;
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

void cli_table_print(cli_table *t, FILE *to) {
    size_t columns = strlen(t->columns), widths[32];
    for (size_t i = 0; i < columns; i++)
        widths[i] = column_width(t, columns, i);
    bool bold = isatty(fileno(to)) && !getenv("NO_COLOR");
    for (size_t i = 0; i < t->cell_count; i++) {
        size_t column = i % columns;
        int gap = (int)(widths[column] - width_of(t->cells[i]));
        bool right = t->columns[column] == 'r', last = column == columns - 1;
        if (column == 0 && i == 0 && bold)
            fputs("\033[1m", to);
        fprintf(to, "%s%*s%s%*s", column ? "  " : "", right ? gap : 0, "", t->cells[i],
                right || last ? 0 : gap, "");
        if (last)
            fputs(i < columns && bold ? "\033[0m\n" : "\n", to);
    }
    cli_table_free(t);
}
