/* Two-line elements: columns of a punched card.
 *
 *   NAME, up to 24 columns, or "0 NAME"; may be missing
 *   1 NNNNNC DDDDDAAA YYDDD.DDDDDDDD ±.DDDDDDDD ±DDDDD±D ±DDDDD±D E SSSSC
 *   2 NNNNN III.IIII RRR.RRRR EEEEEEE PPP.PPPP MMM.MMMM NN.NNNNNNNNRRRRRC
 *
 * Surprises: years from 57 on are of the 20th century; a number from 100,000 begins with a letter
 * (A = 10, no I, no O); the last column is a checksum, digits added up with each minus as one.
 * Lines that begin with # are skipped, and so is what stands behind column 69 after a blank (the
 * published verification set has times there). A name may begin with "1 ": line 1 follows it.
 * Column 63 is the ephemeris type; 4 is SGP4-XP, whose elements mean something else.
 * A first line of two whole numbers is Hypatia's: planes and slots, in whose order satellites
 * stand, each named NAME NUMBER, from 0. */
#include <string.h>

#include "base/error.h"
#include "orbit/decimal.h"
#include "orbit/fleet.h"
#include "orbit/trig.h"
#include "orbit/utc.h"

#define COLUMNS 69

/* Columns first … last, counted from 1 as the format does. */
static bool number_field(const char *line, int first, int last, double *out) {
    return sky__decimal(line + first - 1, (size_t)(last - first + 1), out);
}

static bool whole_field(const char *line, int first, int last, uint64_t max, uint64_t *out) {
    return sky__whole(line + first - 1, (size_t)(last - first + 1), max, out);
}

/* " 28098-4" is 0.28098e-4; blanks may stand for zeros. */
static bool power_field(const char *line, int first, double *out) {
    const char *at = line + first - 1;
    double digits, power;
    char text[9] = {at[0] == '-' ? '-' : '+', '.'};
    memcpy(text + 2, at + 1, 5);
    if (memcmp(at, "        ", 8) == 0) {
        *out = 0;
        return true;
    }
    if (at[0] != ' ' && at[0] != '-' && at[0] != '+')
        return false;
    if (!sky__decimal(text, 7, &digits) || !sky__decimal(at + 6, 2, &power))
        return false;
    char exponent[8] = {'1', 'E', power < 0 ? '-' : '+', at[7]};
    double scale;
    if (at[6] == ' ')
        return false;
    if (!sky__decimal(exponent, 4, &scale))
        return false;
    *out = digits * scale;
    return true;
}

static bool catalogue_number(const char *line, uint32_t *out) {
    uint64_t rest, tens = 0;
    char letter = line[2];
    bool alpha = letter >= 'A' && letter <= 'Z' && letter != 'I' && letter != 'O';
    if (alpha)
        tens = (uint64_t)(letter - 'A') + 10 - (letter > 'I') - (letter > 'O');
    if (!whole_field(line, alpha ? 4 : 3, 7, 99999, &rest))
        return false;
    *out = (uint32_t)(tens * 10000 + rest);
    return true;
}

static bool checksum_holds(const char *line) {
    int sum = 0;
    for (int i = 0; i < COLUMNS - 1; i++)
        sum += line[i] == '-' ? 1 : line[i] >= '0' && line[i] <= '9' ? line[i] - '0' : 0;
    return line[COLUMNS - 1] == '0' + sum % 10;
}

/* NULL, or what is wrong with it. */
static const char *first_line(const char *line, sky__elements *e) {
    uint64_t year;
    double day;
    if (!catalogue_number(line, &e->number))
        return "columns 3-7 are no catalogue number";
    if (!whole_field(line, 19, 20, 99, &year) || !number_field(line, 21, 32, &day) || day < 1 ||
        day >= 367)
        return "columns 19-32 are no epoch: two digits of the year, then the day";
    if (!power_field(line, 54, &e->bstar))
        return "columns 54-61 are no drag term such as  28098-4";
    if (!strchr(" 023", line[62])) /* none said, SGP4, SDP4 */
        return line[62] == '4' ? "elements for SGP4-XP (column 63 is 4): take those for SGP4"
                               : "column 63 is no ephemeris type of SGP4: 0, 2, 3 or a blank";
    int64_t full_year = (int64_t)year + (year < 57 ? 2000 : 1900);
    e->epoch_days = (double)(sky__days_since_1970(full_year, 1, 1) + SKY__EPOCH_DAY_1970) +
                    (day - 1);
    return NULL;
}

static const char *second_line(const char *line, sky__elements *e) {
    uint32_t number;
    uint64_t eccentricity;
    double degrees[4], turns;
    if (!catalogue_number(line, &number) || number != e->number)
        return "the catalogue number is not that of line 1";
    if (!number_field(line, 9, 16, &degrees[0]) || degrees[0] < 0 || degrees[0] > 180)
        return "columns 9-16 are no inclination from 0 to 180 degrees";
    if (!number_field(line, 18, 25, &degrees[1]) || !number_field(line, 35, 42, &degrees[2]) ||
        !number_field(line, 44, 51, &degrees[3]))
        return "columns 18-25, 35-42 or 44-51 are no angle in degrees";
    if (!whole_field(line, 27, 33, 9999999, &eccentricity))
        return "columns 27-33 are no eccentricity: seven digits";
    if (!number_field(line, 53, 63, &turns) || turns <= 0)
        return "columns 53-63 are no mean motion in turns a day";
    e->inclination = degrees[0] * SKY_DEGREE;
    e->node = degrees[1] * SKY_DEGREE;
    e->perigee = degrees[2] * SKY_DEGREE;
    e->anomaly = degrees[3] * SKY_DEGREE;
    e->eccentricity = (double)eccentricity / 1e7;
    e->motion = turns * SKY_TWO_PI / 1440;
    return NULL;
}

static const char *check_card(const char *line, size_t bytes, char number, char out[COLUMNS + 1]) {
    sky__trim(&line, &bytes);
    if (bytes < 2 || line[0] != number || line[1] != ' ')
        return number == '2' ? "expected line 2 of the element" : "expected line 1 of an element";
    if (bytes < COLUMNS || (bytes > COLUMNS && line[COLUMNS] != ' '))
        return "a line of an element has 69 columns";
    for (size_t i = 0; i < COLUMNS; i++) {
        if (line[i] < ' ' || line[i] > '~')
            return "a character that is not ASCII";
    }
    memcpy(out, line, COLUMNS);
    out[COLUMNS] = 0;
    return checksum_holds(out) ? NULL : "the checksum in column 69 does not hold";
}

static bool is_card(const char *line, size_t bytes, char number) {
    return bytes >= 2 && line[0] == number && line[1] == ' ';
}

/* The next line that says something, without blanks around it. */
static bool next_told(sky__lines *lines, const char **line, size_t *bytes) {
    do {
        if (!sky__line_next(lines, line, bytes))
            return false;
        sky__trim(line, bytes);
    } while (*bytes == 0 || (*line)[0] == '#');
    return true;
}

/* `after`: what follows the line. */
static bool is_name(const char *line, size_t bytes, sky__lines after) {
    if (!is_card(line, bytes, '1') && !is_card(line, bytes, '2'))
        return true;
    return bytes < COLUMNS && next_told(&after, &line, &bytes) && is_card(line, bytes, '1');
}

/* Hypatia's first line; false: it is none. */
static bool read_grid(const char *line, size_t bytes, uint64_t *planes, uint64_t *slots) {
    const char *blank = memchr(line, ' ', bytes);
    return blank && sky__whole(line, (size_t)(blank - line), SKY_PLANES_MAX, planes) &&
           sky__whole(blank, bytes - (size_t)(blank - line), SKY_SLOTS_MAX, slots) && *planes > 0 &&
           *slots > 0;
}

/* NULL, or what is wrong with the name of satellite `number` of a told grid. */
static const char *check_numbered(const char *name, size_t bytes, uint32_t number) {
    uint64_t told;
    size_t digits = 0;
    while (digits < bytes && name[bytes - 1 - digits] != ' ')
        digits++;
    if (bytes == 0 || digits == bytes ||
        !sky__whole(name + bytes - digits, digits, UINT32_MAX, &told) || told != number)
        return "after a first line of planes and slots satellites are named NAME NUMBER, from 0 on";
    return NULL;
}

bool sky__tle_begins(const char *text, size_t bytes) {
    sky__lines lines = {.at = text, .end = text + bytes};
    const char *line;
    size_t length;
    uint64_t planes, slots;
    sky__lines after = lines;
    if (next_told(&after, &line, &length) && read_grid(line, length, &planes, &slots))
        lines = after;
    for (int i = 0; i < 2 && next_told(&lines, &line, &length); i++) {
        if (is_card(line, length, '1') && !memchr(line, ',', length))
            return true;
    }
    return false;
}

/* Two cards, from the first on; NULL, or what is wrong with line lines->number. */
static const char *read_pair(sky__lines *lines, const char *line, size_t bytes, sky__elements *e) {
    char text[COLUMNS + 1];
    const char *wrong = check_card(line, bytes, '1', text);
    if (!wrong)
        wrong = first_line(text, e);
    if (wrong)
        return wrong;
    if (!sky__line_next(lines, &line, &bytes))
        return "line 2 of the element is missing";
    wrong = check_card(line, bytes, '2', text);
    return wrong ? wrong : second_line(text, e);
}

/* The planes and slots that the first line tells, if it does. */
static void take_grid(sky__lines *lines, sky_fleet *f) {
    sky__lines after = *lines;
    const char *line;
    size_t length;
    uint64_t planes, slots;
    if (!next_told(&after, &line, &length) || !read_grid(line, length, &planes, &slots))
        return;
    *lines = after;
    f->told_planes = (uint32_t)planes;
    f->told_slots = (uint32_t)slots;
}

static sky_status check_grid(const sky_fleet *f, const char *path, sky_error *error) {
    if (!sky__fleet_is_told(f) || f->count == f->told_planes * f->told_slots)
        return SKY_OK;
    return sky_fail(error, SKY_E_SYNTAX, "%s:1: %u planes of %u satellites, but there are %u", path,
                    f->told_planes, f->told_slots, f->count);
}

sky_status sky__tle_read(const char *text, size_t bytes, const char *path, sky_fleet *f,
                         sky_error *error) {
    sky__lines lines = {.at = text, .end = text + bytes};
    take_grid(&lines, f);
    const char *line, *name = NULL;
    size_t length, name_bytes = 0;
    while (next_told(&lines, &line, &length)) {
        if (is_name(line, length, lines)) {
            if (name)
                return sky_fail(error, SKY_E_SYNTAX,
                                "%s:%zu: expected line 1 of an element after its name", path,
                                lines.number);
            bool zero = length > 2 && is_card(line, length, '0');
            name = zero ? line + 2 : line;
            name_bytes = zero ? length - 2 : length;
            continue;
        }
        sky__elements e = {0};
        const char *wrong = NULL;
        if (sky__fleet_is_told(f))
            wrong = check_numbered(name, name_bytes, f->count);
        wrong = wrong ? wrong : read_pair(&lines, line, length, &e);
        if (wrong)
            return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: %s", path, lines.number, wrong);
        sky_status status = sky__fleet_add(f, name, name_bytes, &e);
        if (status != SKY_OK)
            return sky_fail(error, status, "%s:%zu: %s", path, lines.number,
                            status == SKY_E_NOMEM ? "out of memory"
                                                  : "an element out of range, or too many");
        name = NULL;
        name_bytes = 0;
    }
    if (name)
        return sky_fail(error, SKY_E_SYNTAX, "%s:%zu: a name and no element after it", path,
                        lines.number);
    return check_grid(f, path, error);
}
