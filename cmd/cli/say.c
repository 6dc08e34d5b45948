/* What goes to people and to programs: one-line messages, numbers with units, text made printable,
 * JSON. Messages go to stderr, so that standard output holds the answer and nothing else. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool progress_shown;
static bool quiet;   /* neither notes nor progress */
static bool scripts; /* --json: no progress */
static cli_color color;
static bool json_printed;
static char last_failure[1024];

void cli_say_setup(bool is_quiet, bool verbose, bool json, cli_color wanted) {
    quiet = is_quiet;
    scripts = json;
    color = wanted;
    if (verbose) /* SKYMEM_LOG=debug says more, and where */
        setenv("SKYMEM_LOG", "info", 0);
}

bool cli_colored(FILE *to) {
    const char *terminal = getenv("TERM"), *refused = getenv("NO_COLOR");
    if (color != CLI_COLOR_AUTO)
        return color == CLI_COLOR_ALWAYS;
    return isatty(fileno(to)) && !(refused && refused[0]) &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}

int cli_flush(void) {
    static int failure;
    errno = 0;
    if (fflush(stdout) != 0 && failure == 0)
        failure = errno;
    return failure;
}

static void clear_progress(void) {
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = false;
}

/* The text in between may be of anybody's making: it stays one line. */
static void put_line(const char *before, const char *format, va_list arguments,
                     const char *behind) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    char *shown = text ? cli_printable(text) : NULL;
    fprintf(stderr, "%s%s%s", before, shown ? shown : "out of memory", behind);
    free(shown);
    free(text);
}

void cli_progress(const char *format, ...) {
    if (quiet || scripts || !isatty(STDERR_FILENO))
        return;
    clear_progress();
    if (!format)
        return;
    va_list arguments;
    va_start(arguments, format);
    put_line("", format, arguments, "");
    va_end(arguments);
    fflush(stderr);
    progress_shown = true;
}

void cli_stage(const char *format, ...) {
    if (quiet || scripts || isatty(STDERR_FILENO))
        return;
    va_list arguments;
    va_start(arguments, format);
    put_line("", format, arguments, "\n");
    va_end(arguments);
}

static void say_line(const cli *c, const char *format, va_list arguments, const char *tail) {
    clear_progress();
    cli_flush();
    char before[64], behind[80];
    snprintf(before, sizeof before, "skymem %s: ", c->verb->name);
    snprintf(behind, sizeof behind, "%s\n", tail);
    put_line(before, format, arguments, behind);
}

static void say_failure(const cli *c, const char *format, va_list arguments, const char *tail) {
    va_list again;
    va_copy(again, arguments);
    vsnprintf(last_failure, sizeof last_failure, format, again);
    va_end(again);
    say_line(c, format, arguments, tail);
}

int cli_failed(const cli *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_failure(c, format, arguments, "");
    va_end(arguments);
    return CLI_FAILED;
}

int cli_usage(const cli *c, const char *format, ...) {
    char tail[64];
    snprintf(tail, sizeof tail, "; see skymem %s --help", c->verb->name);
    va_list arguments;
    va_start(arguments, format);
    say_failure(c, format, arguments, tail);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_not_found(const cli *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_failure(c, format, arguments, "");
    va_end(arguments);
    return CLI_NOT_FOUND;
}

int cli_unavailable(const cli *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_failure(c, format, arguments, "");
    va_end(arguments);
    return CLI_UNAVAILABLE;
}

void cli_note(const cli *c, const char *format, ...) {
    va_list arguments;
    if (quiet)
        return;
    va_start(arguments, format);
    say_line(c, format, arguments, "");
    va_end(arguments);
}

const char *cli_bytes_text(uint64_t bytes, char out[24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    const char *format = unit == 0 || value >= 1000 || value == floor(value) ? "%.0f %s"
                         : value >= 100                                      ? "%.1f %s"
                                                                             : "%.2f %s";
    snprintf(out, 24, format, value, units[unit]);
    return out;
}

const char *cli_count_text(uint64_t count, const char *one, const char *many,
                           char out[CLI_COUNT_TEXT_BYTES]) {
    snprintf(out, CLI_COUNT_TEXT_BYTES, "%llu %s", (unsigned long long)count,
             count == 1 ? one : many);
    return out;
}

const char *cli_age_text(double seconds, char out[24]) {
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
    for (size_t i = 0; i < 3; i++) {
        if (seconds >= 2 * units[i].seconds) {
            snprintf(out, 24, "%.0f %s", floor(seconds / units[i].seconds), units[i].unit);
            return out;
        }
    }
    snprintf(out, 24, "%.0f s", seconds < 0 ? 0 : floor(seconds));
    return out;
}

double cli_ms(sky_time ns) {
    return (double)ns / 1e6;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cli_median(double *values, size_t count) {
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

char *cli_printable(const char *text) {
    size_t bytes = strlen(text);
    char *out = malloc(bytes * 4 + 1);
    if (out)
        sky_text_escape(text, bytes, false, out, bytes * 4 + 1);
    return out;
}

char *cli_escape(const void *data, size_t bytes) {
    char *out = malloc(bytes * 4 + 1);
    if (out)
        sky_text_escape(data, bytes, true, out, bytes * 4 + 1);
    return out;
}

json_t *cli_json_text(const char *text) {
    char *shown = cli_escape(text, strlen(text));
    json_t *json = shown ? json_string(shown) : NULL;
    free(shown);
    return json;
}

json_t *cli_json_utf8(const char *data, size_t bytes) {
    const uint8_t *p = (const uint8_t *)data;
    char *out = malloc(bytes * 3 + 1), *to = out;
    if (!out)
        return NULL;
    for (size_t i = 0; i < bytes;) {
        size_t length = sky_utf8_bytes(p + i, bytes - i);
        memcpy(to, length ? (const char *)p + i : "\xef\xbf\xbd", length ? length : 3);
        to += length ? length : 3;
        i += length ? length : 1;
    }
    json_t *json = json_stringn(out, (size_t)(to - out));
    free(out);
    return json;
}

int cli_json_print(const cli *c, json_t *object) {
    return cli_json_row(c, object, 9);
}

int cli_json_row(const cli *c, json_t *object, int digits) {
    clear_progress();
    json_printed = object != NULL;
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION((size_t)digits);
    int failed = !object || json_dumpf(object, stdout, flags) != 0 || putchar('\n') == EOF;
    json_decref(object);
    if (failed && !ferror(stdout)) /* else main tells why it could not be written */
        cli_failed(c, "out of memory");
    return failed ? CLI_FAILED : CLI_OK;
}

int cli_json_failure(const cli *c, int code) {
    if (code == CLI_OK || json_printed || !c->json || !c->verb->fields)
        return code;
    cli_json_print(c, json_pack("{s:o, s:i}", "error",
                                cli_json_utf8(last_failure, strlen(last_failure)), "exit", code));
    return code;
}
