/* What the words of `skymem codec` mean to its parts, above all what codes rows: a calibration, or
 * a layout that tells the rope alone. */
#include "codec.h"
#include "codec_layout.h"
#include "profile.h"

#include <math.h>
#include <stdlib.h>

int codec_failed(const codec_job *j, const char *what, sky_status status) {
    return cli_failed(j->c, "%s: %s", what, sky_status_text(status));
}

const char *codec_output(const codec_job *j) {
    const char *output = cli_text(j->c, "output");
    return output ? output : j->c->arguments[2];
}

bool codec_read_level(const codec_job *j, sky_level *level) {
    bool fine = sky_level_parse(cli_text(j->c, "level"), level) == SKY_OK;
    if (!fine)
        cli_usage(j->c, "no level \"%s\": `skymem codec levels` lists them",
                  cli_text(j->c, "level"));
    return fine;
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

bool codec_rope_agrees(const codec_job *j) {
    if (!cli_flag(j->c, "no-layout") ||
        (!cli_text(j->c, "layout") && !cli_text(j->c, "calibration")))
        return true;
    cli_usage(j->c, "--no-layout goes with neither --layout nor --calibration");
    return false;
}

int codec_read_profile(codec_job *j, uint32_t layers, uint32_t heads, uint32_t dim) {
    const char *calibration = cli_text(j->c, "calibration"), *layout = cli_text(j->c, "layout");
    int code = calibration ? cli_profile_read(j->c, calibration, &j->profile) : CLI_OK;
    if (code == CLI_OK && layout)
        code = use_layout(j, layout, layers, heads, dim);
    return code;
}

uint32_t codec_layer_of(const codec_job *j, uint32_t model_layer) {
    return j->profile ? sky_profile_layer_of(j->profile, model_layer) : model_layer;
}

#define MATCHED_TOKENS 512u

/* Mean values of most layers are far nearer to those of other layers than to their own. One layer
 * that all are near is no order: so are rows of another kind, such as made-up ones. */
static int check_order(const codec_job *j, const npy_array *a) {
    uint32_t tokens = a->tokens < MATCHED_TOKENS ? a->tokens : MATCHED_TOKENS;
    uint32_t strangers = 0, looks_like = 0, first = 0;
    double nearest = 0, own = 0;
    bool taken[SKY_LAYERS_MAX] = {false};
    for (uint32_t i = 0; i < a->layers; i++) {
        sky_stream_shape shape = {
            codec_layer_of(j, i), SKY_KV_V, a->element, tokens, a->heads, a->dim, 0};
        sky_tensor rows = sky_stream_packed(&shape, npy_rows(a, i, SKY_KV_V));
        sky_profile_match match;
        if (sky_profile_match_rows(j->profile, &shape, rows, &match) != SKY_OK ||
            !isfinite(match.own_distance))
            return CLI_OK;
        nearest += match.distance;
        own += match.own_distance;
        if (match.layer == shape.layer || taken[match.layer])
            continue;
        taken[match.layer] = true;
        if (strangers++ == 0) {
            first = i;
            looks_like = sky_profile_model_layer(j->profile, match.layer);
        }
    }
    if (2 * strangers <= a->layers || 2 * nearest >= own)
        return CLI_OK;
    return cli_failed(j->c,
                      "%s: its layers stand in another order than the model's: layer %u looks like "
                      "layer %u of %s. Put them in the model's order, as skymem run --dump-kv "
                      "writes them, or make the calibration again with skymem calibrate",
                      j->c->arguments[1], first, looks_like, cli_text(j->c, "calibration"));
}

int codec_check_profile(const codec_job *j, const npy_array *a) {
    if (!j->profile)
        return CLI_OK;
    for (uint32_t i = 0; i < a->layers; i++) {
        sky_profile_layer l;
        if (sky_profile_layer_get(j->profile, codec_layer_of(j, i), &l) != SKY_OK)
            return cli_failed(j->c, "%s: %u layers; %s is of %u", j->c->arguments[1], a->layers,
                              cli_text(j->c, "calibration"), sky_profile_layer_count(j->profile));
        if (l.kv_heads != a->heads || l.k_dim != a->dim || l.v_dim != a->dim)
            return cli_failed(
                j->c, "%s: %u heads of %u; in %s layer %u has %u heads of %u (K) and %u (V)",
                j->c->arguments[1], a->heads, a->dim, cli_text(j->c, "calibration"), i, l.kv_heads,
                l.k_dim, l.v_dim);
    }
    return check_order(j, a);
}
