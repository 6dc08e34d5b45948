/* UTC as text and as milliseconds since 1970, and how far the Earth has turned by then.
 *
 * Leap seconds do not exist here, as in POSIX time; UT1 is taken as UTC. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <skymem-sky/orbit.h>

#include "orbit/trig.h"
#include "orbit/utc.h"

#define MS_PER_DAY 86400000

/* Days from 1970-01-01, by the count of days in 400-year eras that begin on 1 March. */
int64_t sky__days_since_1970(int64_t year, int64_t month, int64_t day) {
    int64_t march_year = month > 2 ? year : year - 1;
    int64_t era = march_year / 400;
    int64_t year_of_era = march_year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static bool match_digits(const char *text, const char *shape) {
    for (; *shape; shape++, text++) {
        bool is_digit = *text >= '0' && *text <= '9';
        if (*shape == 'd' ? !is_digit : *text != *shape)
            return false;
    }
    return true;
}

static int64_t parse_number(const char *text, int count) {
    int64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value * 10 + (text[i] - '0');
    return value;
}

bool sky__utc_split(const char *text, int64_t *day, double *day_part, int64_t *ms) {
    if (!match_digits(text, "dddd-dd-ddTdd:dd:dd"))
        return false;
    int64_t year = parse_number(text, 4), month = parse_number(text + 5, 2),
            date = parse_number(text + 8, 2);
    int64_t hour = parse_number(text + 11, 2), minute = parse_number(text + 14, 2);
    int64_t second = parse_number(text + 17, 2), nano = 0, scale = 100000000;
    const char *at = text + 19;
    if (*at == '.') {
        if (!match_digits(++at, "d"))
            return false;
        for (; *at >= '0' && *at <= '9'; at++, scale /= 10)
            nano += (*at - '0') * scale; /* beyond nine, scale is 0 */
    }
    at += *at == 'Z';
    if (*at || year < 1957 || month < 1 || month > 12 || date < 1 || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    bool december = month == 12;
    *day = sky__days_since_1970(year, month, date);
    if (*day >= sky__days_since_1970(year + december, december ? 1 : month + 1, 1))
        return false; /* 30 February */
    int64_t whole_ms = ((hour * 60 + minute) * 60 + second) * 1000;
    *ms = *day * MS_PER_DAY + whole_ms + nano / 1000000;
    *day_part = ((double)whole_ms + (double)nano / 1e6) / MS_PER_DAY;
    return true;
}

sky_status sky_utc_parse(const char *text, int64_t *ms) {
    if (!text || !ms)
        return SKY_E_PARAM;
    int64_t day, found;
    double part;
    if (!sky__utc_split(text, &day, &part, &found))
        return SKY_E_SYNTAX;
    *ms = found;
    return SKY_OK;
}

/* Whole days since 1970, and the milliseconds since the last of them began. */
static int64_t split_days(int64_t ms, int64_t *rest) {
    *rest = ms % MS_PER_DAY;
    if (*rest >= 0)
        return ms / MS_PER_DAY;
    *rest += MS_PER_DAY;
    return ms / MS_PER_DAY - 1;
}

const char *sky_utc_text(int64_t ms, char out[SKY_UTC_BYTES]) {
    if (!out)
        return "";
    int64_t rest, days = split_days(ms, &rest);
    if (days < sky__days_since_1970(1, 1, 1) || days >= sky__days_since_1970(10000, 1, 1)) {
        out[0] = 0;
        return out;
    }
    int64_t year = 1970 + days / 366; /* at or before the right one */
    while (sky__days_since_1970(year + 1, 1, 1) <= days)
        year++;
    while (sky__days_since_1970(year, 1, 1) > days)
        year--;
    int64_t month = 12;
    while (sky__days_since_1970(year, month, 1) > days)
        month--;
    int64_t date = days - sky__days_since_1970(year, month, 1) + 1;
    snprintf(out, SKY_UTC_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)year, (int)month,
             (int)date, (int)(rest / 3600000), (int)(rest / 60000 % 60), (int)(rest / 1000 % 60),
             (int)(rest % 1000));
    return out;
}

double sky__gmst_rad(double days_j2000) {
    double t = days_j2000 / 36525;
    double seconds = -6.2e-6 * t * t * t + 0.093104 * t * t +
                     (876600.0 * 3600 + 8640184.812866) * t + 67310.54841;
    return sky__turned(seconds * SKY_DEGREE / 240);
}

/* The fraction of a day is kept apart from the days, so that no bit of it is lost. */
double sky_gmst_rad(int64_t ms) {
    int64_t rest, earliest = INT64_MIN + SKY__J2000_MS;
    int64_t days = split_days((ms > earliest ? ms : earliest) - SKY__J2000_MS, &rest);
    double part = (double)rest / MS_PER_DAY;
    double t = ((double)days + part) / 36525;
    double slow_s = 8640184.812866 * t + 0.093104 * t * t - 6.2e-6 * t * t * t + 67310.54841;
    return sky__turned((slow_s / 86400 + part) * SKY_TWO_PI);
}
