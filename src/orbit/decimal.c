#include "orbit/decimal.h"

#include <math.h>

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

void sky__trim(const char **text, size_t *bytes) {
    while (*bytes > 0 && is_blank(**text)) {
        ++*text;
        --*bytes;
    }
    while (*bytes > 0 && is_blank((*text)[*bytes - 1]))
        --*bytes;
}

bool sky__whole(const char *text, size_t bytes, uint64_t max, uint64_t *out) {
    sky__trim(&text, &bytes);
    if (bytes == 0 || bytes > 19)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (!is_digit(text[i]))
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (value > max)
        return false;
    *out = value;
    return true;
}

static double power_of_ten(int n) {
    double power = 1;
    for (; n > 0; n--)
        power *= 10; /* exact to 10^22 */
    return power;
}

/* Digits and at most one point; returns where they end, NULL when there is no digit. Digits beyond
 * the 18th count for their place only. */
static const char *parse_mantissa(const char *at, const char *end, uint64_t *value, int *exponent) {
    bool point = false;
    int digits = 0;
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        digits++;
        if (*value < 100000000000000000u) {
            *value = *value * 10 + (uint64_t)(*at - '0');
            *exponent -= point;
        } else {
            *exponent += !point;
        }
    }
    return digits > 0 ? at : NULL;
}

bool sky__decimal(const char *text, size_t bytes, double *out) {
    sky__trim(&text, &bytes);
    const char *at = text;
    const char *end = text + bytes;
    bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    uint64_t value = 0;
    int exponent = 0;
    if (bytes > 64 || !(at = parse_mantissa(at, end, &value, &exponent)))
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        bool down = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        uint64_t power;
        if (at == end || is_blank(*at) || !sky__whole(at, (size_t)(end - at), 300, &power))
            return false;
        exponent += down ? -(int)power : (int)power;
        at = end;
    }
    if (at != end)
        return false;
    double result = (double)value;
    result = exponent < 0 ? result / power_of_ten(-exponent) : result * power_of_ten(exponent);
    if (!isfinite(result))
        return false;
    *out = negative ? -result : result;
    return true;
}
