/* See codec_layout.h. */
#include "codec_layout.h"

#include <math.h>
#include <string.h>

#define LAYOUT_BYTES_MAX (1u << 20)

/* The first key that none of `known` is; NULL: there is none. */
static const char *unknown_key(json_t *object, const char *const *known) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        size_t i = 0;
        while (known[i] && strcmp(key, known[i]) != 0)
            i++;
        if (!known[i])
            return key;
    }
    return NULL;
}

/* A number above 0, or `fallback` when it is not there. */
static bool take_number(json_t *value, double fallback, double *out) {
    *out = value ? json_number_value(value) : fallback;
    return isfinite(*out) && *out > 0;
}

static bool take_kind(json_t *value, sky_rope_kind *out) {
    const char *kind = value ? json_string_value(value) : "neox";
    *out = kind && strcmp(kind, "neox") == 0 ? SKY_ROPE_NEOX : SKY_ROPE_INTERLEAVED;
    return kind && (*out == SKY_ROPE_NEOX || strcmp(kind, "interleaved") == 0);
}

static bool take_dims(json_t *value, uint32_t dim, uint32_t *out) {
    json_int_t dims = value ? json_integer_value(value) : (json_int_t)dim;
    *out = (uint32_t)dims;
    return dims >= 2 && dims <= (json_int_t)dim && dims % 2 == 0;
}

static int take_rope(const cli *c, const char *path, json_t *rope, uint32_t dim, sky_rope *out) {
    static const char *const known[] = {"kind", "dims", "base", "frequency_scale", NULL};
    sky_rope_kind kind;
    uint32_t dims;
    double base, scale;
    if (!json_is_object(rope))
        return cli_failed(c, "%s: rope is an object: {\"kind\": \"neox\"}", path);
    const char *unknown = unknown_key(rope, known);
    if (unknown)
        return cli_failed(c, "%s: rope has no \"%s\": kind, dims, base, frequency_scale", path,
                          unknown);
    if (!take_kind(json_object_get(rope, "kind"), &kind))
        return cli_failed(c, "%s: rope: kind is \"neox\" or \"interleaved\"", path);
    if (!take_dims(json_object_get(rope, "dims"), dim, &dims))
        return cli_failed(c, "%s: rope: dims is an even number from 2 to the head's %u", path, dim);
    if (!take_number(json_object_get(rope, "base"), 10000, &base))
        return cli_failed(c, "%s: rope: base is a number above 0", path);
    if (!take_number(json_object_get(rope, "frequency_scale"), 1, &scale))
        return cli_failed(c, "%s: rope: frequency_scale is a number above 0", path);
    if (sky_rope_init(out, kind, dims, base, scale, NULL) != SKY_OK)
        return cli_failed(c, "%s: rope: no angles come of this base and scale", path);
    return CLI_OK;
}

static int take_layout(const cli *c, const char *path, json_t *root, uint32_t dim,
                       codec_layout *out) {
    static const char *const known[] = {"rope", "first_position", NULL};
    if (!json_is_object(root))
        return cli_failed(c, "%s: a layout is an object: {\"rope\": …, \"first_position\": …}",
                          path);
    const char *unknown = unknown_key(root, known);
    if (unknown)
        return cli_failed(c, "%s: a layout has no \"%s\": rope, first_position", path, unknown);
    json_t *position = json_object_get(root, "first_position"),
           *rope = json_object_get(root, "rope");
    json_int_t first = json_integer_value(position);
    if ((position && !json_is_integer(position)) || first < 0 || first > UINT32_MAX)
        return cli_failed(c, "%s: first_position is a whole number from 0 to 4294967295", path);
    out->first_position = (uint32_t)first;
    out->turned = rope;
    return rope ? take_rope(c, path, rope, dim, &out->rope) : CLI_OK;
}

int codec_layout_read(const cli *c, const char *path, uint32_t dim, codec_layout *out) {
    json_error_t where;
    cli_blob file;
    int code = cli_blob_read(c, path, LAYOUT_BYTES_MAX, &file);
    if (code != CLI_OK)
        return code;
    json_t *root = json_loadb(file.data, file.bytes, JSON_REJECT_DUPLICATES, &where);
    cli_blob_free(&file);
    if (!root)
        return cli_failed(c, "%s:%d: %s", path, where.line, where.text);
    code = take_layout(c, path, root, dim, out);
    json_decref(root);
    return code;
}
