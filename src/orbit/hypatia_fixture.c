#include "orbit/hypatia_fixture.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct {
    char *out;
    size_t used, bytes;
} writing;

static void say(writing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(writing *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->out + w->used, w->bytes - w->used, format, args);
    va_end(args);
    assert(n >= 0 && w->used + (size_t)n < w->bytes);
    w->used += (size_t)n;
}

/* A line of 68 columns, and its checksum. */
static void say_card(writing *w, const char *line) {
    int sum = 0;
    for (const char *p = line; *p; p++)
        sum += *p == '-' ? 1 : *p >= '0' && *p <= '9' ? *p - '0' : 0;
    say(w, "%s%d\n", line, sum % 10);
}

size_t sky_hypatia_tles(uint32_t planes, uint32_t slots, double motion, char *out, size_t bytes) {
    writing w = {out, 0, bytes};
    say(&w, "%u %u\n", planes, slots);
    for (uint32_t i = 0; i < planes * slots; i++) {
        uint32_t plane = i / slots, slot = i % slots;
        double half = plane % 2 ? 0.5 : 0, along = 360.0 * (slot + half) / slots;
        char line[80];
        say(&w, "Test-550 %u\n", i);
        snprintf(line, sizeof line,
                 "1 %05uU 00000ABC 00001.00000000  .00000000  00000-0  00000+0 0    0", i + 1);
        say_card(&w, line);
        snprintf(line, sizeof line, "2 %05u  53.0000 %8.4f 0000001   0.0000 %8.4f %11.8f    0",
                 i + 1, 360.0 * plane / planes, along, motion);
        say_card(&w, line);
    }
    return w.used;
}

static void say_pair(writing *w, uint32_t a, uint32_t b) {
    say(w, "%u %u\n", a < b ? a : b, a < b ? b : a);
}

size_t sky_hypatia_isls(uint32_t planes, uint32_t slots, uint32_t offset, char *out, size_t bytes) {
    writing w = {out, 0, bytes};
    for (uint32_t i = 0; i < planes * slots; i++) {
        uint32_t plane = i / slots, slot = i % slots;
        say_pair(&w, i, plane * slots + (slot + 1) % slots);
        say_pair(&w, i, (plane + 1) % planes * slots + (slot + offset) % slots);
    }
    return w.used;
}
