/* Store URLs as tiers read them: SCHEME:PATH[?KEY=VALUE[&KEY=VALUE…]].
 *
 *   disk : /var/cache/skymem ? max=8GiB & ttl=3600
 *   scheme path                query[0]   query[1]
 *
 * Nothing is percent-decoded: a path is what stands between the first ':' and the first '?'. */
#ifndef SKY_TIER_URL_H
#define SKY_TIER_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <skymem/status.h>

#define SKY_URL_QUERY_MAX 8

typedef struct {
    char scheme[16];
    char path[4096];
    size_t query_count;
    struct {
        char key[32];
        char value[256];
    } query[SKY_URL_QUERY_MAX];
} sky_url;

/* Errors: SKY_E_SYNTAX; `error` quotes the URL and says which part and why */
sky_status sky_url_parse(const char *text, sky_url *out, sky_error *error);

/* `text` as it may be shown, cut to fit: "***" for what stands between "SCHEME://" and '@'. */
void sky_url_shown(const char *text, char *out, size_t out_bytes);

/* Check that every key is one of `known`, written as "max ttl direct", and stands there once.
 * Errors: SKY_E_SYNTAX; `error` names the key and the known ones */
sky_status sky_url_expect(const sky_url *url, const char *known, sky_error *error);

/* The value of a key, or NULL. Lives as long as `url`. */
const char *sky_url_value(const sky_url *url, const char *key);

/* Values as sizes ("8GiB"), whole numbers and finite decimals; `*out` keeps its default when the
 * key is absent. Errors: SKY_E_SYNTAX */
sky_status sky_url_size(const sky_url *url, const char *key, uint64_t *out, sky_error *error);
sky_status sky_url_u64(const sky_url *url, const char *key, uint64_t *out, sky_error *error);
sky_status sky_url_number(const sky_url *url, const char *key, double *out, sky_error *error);

#endif
