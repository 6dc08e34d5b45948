/* What `skymem codec` codes rows with: a calibration, or a layout that tells the rope alone. */
#include "codec.h"
#include "codec_layout.h"

#include <stdlib.h>

static int read_calibration(codec_job *j, const char *path) {
    cli_blob blob;
    sky_error error = {0};
    int code = cli_blob_read(j->c, path, 1u << 30, &blob);
    if (code != CLI_OK)
        return code;
    sky_status status = sky_profile_read(blob.data, blob.bytes, &j->profile, &error);
    cli_blob_free(&blob);
    return status == SKY_OK ? CLI_OK : cli_failed(j->c, "%s: %s", path, error.text);
}

static sky_status bare_profile(const sky_rope *rope, uint32_t layers, uint32_t heads, uint32_t dim,
                               sky_profile **out) {
    sky_profile_layer *list = calloc(layers, sizeof *list);
    if (!list)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < layers; i++)
        list[i] = (sky_profile_layer){heads, dim, dim, 0};
    sky_profile_shape shape = {layers, list, 1, rope, {0}};
    sky_status status = sky_profile_create(&shape, out);
    free(list);
    return status == SKY_OK ? sky_profile_seal(*out) : status;
}

static int use_layout(codec_job *j, const char *path, uint32_t layers, uint32_t heads,
                      uint32_t dim) {
    codec_layout layout;
    int code = codec_layout_read(j->c, path, dim, &layout);
    if (code != CLI_OK)
        return code;
    j->first_position = layout.first_position;
    if (layout.turned && j->profile)
        return cli_failed(j->c, "%s: rope: the calibration says how keys are turned; leave it out",
                          path);
    if (layout.turned && bare_profile(&layout.rope, layers, heads, dim, &j->profile) != SKY_OK)
        return cli_failed(j->c, "%s: no profile can be made of it", path);
    return CLI_OK;
}

int codec_read_profile(codec_job *j, uint32_t layers, uint32_t heads, uint32_t dim) {
    const char *calibration = cli_text(j->c, "calibration"), *layout = cli_text(j->c, "layout");
    int code = calibration ? read_calibration(j, calibration) : CLI_OK;
    if (code == CLI_OK && layout)
        code = use_layout(j, layout, layers, heads, dim);
    return code;
}

int codec_check_profile(const codec_job *j, const npy_array *a) {
    for (uint32_t i = 0; j->profile && i < a->layers; i++) {
        sky_profile_layer l;
        if (sky_profile_layer_get(j->profile, i, &l) != SKY_OK)
            return cli_failed(j->c, "%s: %u layers; %s is of %u", j->c->arguments[1], a->layers,
                              cli_text(j->c, "calibration"), sky_profile_layer_count(j->profile));
        if (l.kv_heads != a->heads || l.k_dim != a->dim || l.v_dim != a->dim)
            return cli_failed(
                j->c, "%s: %u heads of %u; in %s layer %u has %u heads of %u (K) and %u (V)",
                j->c->arguments[1], a->heads, a->dim, cli_text(j->c, "calibration"), i, l.kv_heads,
                l.k_dim, l.v_dim);
    }
    return CLI_OK;
}
