/* A YAML file of the one shape our settings have: keys at the top, or inside one section, each with
 * a scalar or a list of scalars.
 *
 *   until: 2h                          entry("", "until", ["2h"])
 *   links: {loss: 0.01, jitter_ms: 1}  section("links"), entry("links", "loss", ["0.01"]), …
 *   center: [3, 4]                     entry("", "center", ["3", "4"], list)
 *
 * Everything else YAML can do is refused with file and line: anchors, aliases, tags, merge keys, a
 * second document, deeper nesting, over-long values, control characters. So a hostile text costs no
 * more than its length. */
#ifndef SKY_CONFIG_YAML_H
#define SKY_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include <skymem/status.h>

#define SKY_YAML_TEXT_BYTES_MAX 255
#define SKY_YAML_VALUES_MAX     8

typedef char sky_yaml_text[SKY_YAML_TEXT_BYTES_MAX + 1];

typedef struct {
    sky_yaml_text section; /* "" at the top */
    sky_yaml_text key;     /* "" when this tells that `section` begins: no values then */
    sky_yaml_text values[SKY_YAML_VALUES_MAX];
    unsigned value_count;
    bool list;
    int line; /* of the key, from 1 */
} sky_yaml_entry;

/* Borrowed for the call. Anything but SKY_OK stops the walk and is its result. */
typedef sky_status (*sky_yaml_fn)(void *context, const sky_yaml_entry *entry);

/* Errors: SKY_E_SYNTAX, SKY_E_NOMEM, and what `each` returns; `error` is filled in but for the last
 * */
sky_status sky_yaml_walk(const char *text, size_t bytes, const char *path, sky_yaml_fn each,
                         void *context, sky_error *error);

#endif
