/* Hypatia's link states: which lasers there are, read into what the +GRID has.
 *
 *   "a b"   in one plane, next to each other                  ahead
 *           in planes next to each other, `offset` slots on   beside, the same offset everywhere
 *
 * Surprise: the last plane is next to the first, and the file names the smaller number first: there
 * the laser goes from b to a. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "orbit/decimal.h"
#include "orbit/fleet.h"

typedef struct {
    uint32_t planes, slots;
    bool offset_known;
    uint32_t offset; /* mod slots */
    uint8_t *lasers;
} isls;

static bool read_two(const char *line, size_t bytes, uint32_t count, uint32_t *a, uint32_t *b) {
    uint64_t first, second;
    const char *blank = memchr(line, ' ', bytes);
    if (!blank || !sky__whole(line, (size_t)(blank - line), count - 1, &first) ||
        !sky__whole(blank, bytes - (size_t)(blank - line), count - 1, &second) || first >= second)
        return false;
    *a = (uint32_t)first;
    *b = (uint32_t)second;
    return true;
}

static const char *take_way(isls *l, uint32_t from, uint8_t which) {
    if (l->lasers[from] & which)
        return "the laser is there twice";
    l->lasers[from] |= which;
    return NULL;
}

static const char *take_within(isls *l, uint32_t a, uint32_t b) {
    uint32_t steps = b - a;
    if (steps == 1)
        return take_way(l, a, SKY__LASER_AHEAD);
    return steps == l->slots - 1 ? take_way(l, b, SKY__LASER_AHEAD)
                                 : "satellites of one plane that are not next to each other";
}

static const char *take_between(isls *l, uint32_t from, uint32_t to) {
    uint32_t offset = (to % l->slots + l->slots - from % l->slots) % l->slots;
    if (l->offset_known && offset != l->offset)
        return "goes as many slots on as no laser before it: only a +GRID is read";
    l->offset_known = true;
    l->offset = offset;
    return take_way(l, from, SKY__LASER_BESIDE);
}

/* NULL, or what is wrong with a laser between a and b, a < b. */
static const char *take_laser(isls *l, uint32_t a, uint32_t b) {
    uint32_t planes = b / l->slots - a / l->slots;
    if (planes == 0)
        return take_within(l, a, b);
    if (planes == 1)
        return take_between(l, a, b);
    return planes == l->planes - 1 ? take_between(l, b, a)
                                   : "planes that are not next to each other: only a +GRID is read";
}

sky_status sky__fleet_isls(sky_fleet *f, const char *text, size_t bytes, const char *path,
                           sky_error *error) {
    if (!sky__fleet_is_told(f) || !f->numbers)
        return sky_fail(error, SKY_E_PARAM,
                        "%s:1: lasers are for elements whose first line tells planes and slots",
                        path);
    isls l = {.planes = f->told_planes, .slots = f->told_slots};
    l.lasers = calloc(f->count, 1);
    if (!l.lasers)
        return sky_fail(error, SKY_E_NOMEM, "%s: out of memory", path);
    sky__lines lines = {.at = text, .end = text + bytes};
    const char *line, *wrong = NULL;
    size_t length;
    while (!wrong && sky__line_next(&lines, &line, &length)) {
        uint32_t a, b;
        sky__trim(&line, &length);
        if (length == 0)
            continue;
        wrong = read_two(line, length, f->count, &a, &b)
                    ? take_laser(&l, a, b)
                    : "expected two numbers of satellites, the smaller first";
    }
    if (wrong) {
        free(l.lasers);
        return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: %s", path, lines.number, wrong);
    }
    free(f->lasers);
    f->lasers = l.lasers;
    bool back = l.offset > l.slots / 2;
    f->link_offset = back ? (int32_t)l.offset - (int32_t)l.slots : (int32_t)l.offset;
    return SKY_OK;
}
