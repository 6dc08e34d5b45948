/* Store URLs, cut into their parts. What a part means is the tier's affair. */
#include "tier/url.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The next `bytes` bytes of text as a string; false when they do not fit or hold nothing. */
static bool take_text(char *dst, size_t dst_bytes, const char *text, size_t bytes) {
    if (bytes == 0 || bytes >= dst_bytes)
        return false;
    memcpy(dst, text, bytes);
    dst[bytes] = 0;
    return true;
}

void sky_url_shown(const char *text, char *out, size_t out_bytes) {
    size_t scheme_bytes = strcspn(text, ":"), from = scheme_bytes + 3;
    bool names_a_host = strncmp(text + scheme_bytes, "://", 3) == 0;
    const char *at = names_a_host ? strrchr(text, '@')
                                  : NULL; /* the last: a password may hold one */
    if (at)
        snprintf(out, out_bytes, "%.*s***%s", (int)from, text, at);
    else
        snprintf(out, out_bytes, "%s", text);
}

static sky_status parse_query(const char *shown, const char *query, sky_url *url,
                              sky_error *error) {
    while (*query) {
        size_t i = url->query_count, bytes = strcspn(query, "&"), key_bytes = strcspn(query, "=&");
        if (i == SKY_URL_QUERY_MAX)
            return sky_fail(error, SKY_E_SYNTAX, "%s: more than %d settings", shown,
                            SKY_URL_QUERY_MAX);
        if (key_bytes == bytes ||
            !take_text(url->query[i].key, sizeof url->query[i].key, query, key_bytes) ||
            !take_text(url->query[i].value, sizeof url->query[i].value, query + key_bytes + 1,
                       bytes - key_bytes - 1))
            return sky_fail(error, SKY_E_SYNTAX, "%s: '%.*s' is not KEY=VALUE", shown, (int)bytes,
                            query);
        url->query_count++;
        query += bytes;
        query += *query == '&';
    }
    return SKY_OK;
}

sky_status sky_url_parse(const char *text, sky_url *out, sky_error *error) {
    static const char example[] = "such as mem:256MiB or disk:/var/cache/skymem?max=8GiB";
    sky_url url = {.query_count = 0};
    char shown[201];
    size_t scheme_bytes = strcspn(text, ":");
    sky_url_shown(text, shown, sizeof shown);
    if (text[scheme_bytes] == 0 || !take_text(url.scheme, sizeof url.scheme, text, scheme_bytes))
        return sky_fail(error, SKY_E_SYNTAX, "%s: a store is SCHEME:PATH, %s", shown, example);
    const char *path = text + scheme_bytes + 1;
    size_t path_bytes = strcspn(path, "?");
    if (!take_text(url.path, sizeof url.path, path, path_bytes))
        return sky_fail(error, SKY_E_SYNTAX, "%s: nothing, or more than %zu bytes, after '%s:'",
                        shown, sizeof url.path - 1, url.scheme);
    if (path[path_bytes] == '?') {
        sky_status status = parse_query(shown, path + path_bytes + 1, &url, error);
        if (status != SKY_OK)
            return status;
    }
    *out = url;
    return SKY_OK;
}

/* Is `key` one of the space-separated words of `known`? */
static bool is_word(const char *known, const char *key) {
    size_t key_bytes = strlen(key);
    while (*known) {
        size_t bytes = strcspn(known, " ");
        if (bytes == key_bytes && memcmp(known, key, bytes) == 0)
            return true;
        known += bytes;
        known += *known == ' ';
    }
    return false;
}

sky_status sky_url_expect(const sky_url *url, const char *known, sky_error *error) {
    for (size_t i = 0; i < url->query_count; i++) {
        const char *key = url->query[i].key;
        if (!is_word(known, key))
            return sky_fail(error, SKY_E_SYNTAX, "%s:%.200s: unknown setting '%s'; known: %s",
                            url->scheme, url->path, key, *known ? known : "none");
        if (sky_url_value(url, key) != url->query[i].value)
            return sky_fail(error, SKY_E_SYNTAX, "%s:%.200s: '%s' stands there twice", url->scheme,
                            url->path, key);
    }
    return SKY_OK;
}

const char *sky_url_value(const sky_url *url, const char *key) {
    for (size_t i = 0; i < url->query_count; i++)
        if (strcmp(url->query[i].key, key) == 0)
            return url->query[i].value;
    return NULL;
}

static sky_status bad_value(const sky_url *url, const char *key, const char *wanted,
                            sky_error *error) {
    return sky_fail(error, SKY_E_SYNTAX, "%s:%.200s: %s=%s is not %s", url->scheme, url->path, key,
                    sky_url_value(url, key), wanted);
}

sky_status sky_url_size(const sky_url *url, const char *key, uint64_t *out, sky_error *error) {
    const char *value = sky_url_value(url, key);
    if (value && sky_size_parse(value, out) != SKY_OK)
        return bad_value(url, key, "a size such as 8GiB", error);
    return SKY_OK;
}

sky_status sky_url_u64(const sky_url *url, const char *key, uint64_t *out, sky_error *error) {
    const char *value = sky_url_value(url, key);
    if (!value)
        return SKY_OK;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno)
        return bad_value(url, key, "a whole number", error);
    *out = number;
    return SKY_OK;
}

sky_status sky_url_number(const sky_url *url, const char *key, double *out, sky_error *error) {
    const char *value = sky_url_value(url, key);
    if (!value)
        return SKY_OK;
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !isfinite(number))
        return bad_value(url, key, "a number", error);
    *out = number;
    return SKY_OK;
}
