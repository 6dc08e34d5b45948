/* A profile as bytes, the name that these give it, and back: docs/formats/skycal.md.
 *
 * Writing walks the profile once with a writer; counting is the same walk over a writer without
 * room. Reading allocates only what bytes are there for. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/float_env.h"
#include "codec/half.h"
#include "codec/profile.h"

#define MAGIC 0x43594b53u /* "SKYC" */

/* Each version has what the one before has. */
enum {
    VERSION_PLAIN = 1,   /* without the order of layers, which is then the model's */
    VERSION_ORDERED = 2, /* with it */
    VERSION_SHORT = 3,   /* streams may have short parts */
    VERSION_WEIGHTS = 4  /* … and weights of tokens, which it is for */
};

enum {
    HAS_MEAN = 1,
    HAS_PAIRS = 2,
    HAS_KLT = 4,
    HAS_ORDER = 8,
    HAS_EXACT = 16,
    HAS_ALL = 31,
    HAS_WEIGHTS = 256
};

static size_t pair_floats(const sky_profile_stream *s) {
    return 4 * (size_t)s->heads * (s->dim / 2);
}

/* ---- writing ---- */

/* Counts what does not fit too. */
typedef struct {
    uint8_t *at;
    size_t bytes;
} sink;

static void sink_put(sink *s, const void *data, size_t bytes) {
    if (s->at)
        memcpy(s->at + s->bytes, data, bytes);
    s->bytes += bytes;
}

static void put_u32(sink *s, uint32_t v) {
    uint8_t bytes[4];
    sky_store_u32(bytes, v);
    sink_put(s, bytes, 4);
}

static void put_floats(sink *s, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        put_u32(s, sky_bits_of(x[i]));
}

/* The numbers are f16's already. */
static void put_halves(sink *s, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[2];
        sky_store_u16(bytes, sky_f16_of_float(x[i]));
        sink_put(s, bytes, 2);
    }
}

static void put_numbers(sink *s, bool halves, const float *x, size_t count) {
    if (halves)
        put_halves(s, x, count);
    else
        put_floats(s, x, count);
}

static void put_klt(sink *out, const sky_profile_stream *s, const float *head) {
    for (uint32_t h = 0; h < s->heads; h++, head += sky_klt_floats(s->dim))
        for (uint32_t i = 0; i < s->dim; i++)
            for (uint32_t j = 0; j < s->dim; j++)
                put_floats(out, head + sky_klt_at(s->dim, i, j), 1);
}

static void put_stream(sink *out, const sky_profile_stream *s, uint32_t short_parts) {
    uint32_t flags = (s->mean ? HAS_MEAN : 0u) | (s->g ? HAS_PAIRS : 0u) |
                     (s->klt_g ? HAS_KLT : 0u) | (s->order[0] ? HAS_ORDER : 0u) |
                     (s->exact ? HAS_EXACT : 0u) | (s->weights ? HAS_WEIGHTS : 0u) | short_parts;
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t dependent = 0; dependent < 2; dependent++)
            flags |= (uint32_t)s->fitted[level][dependent] << (16 + (level - 1) * 2 + dependent);
    put_u32(out, flags);
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        put_floats(out, s->step[level], 2);
    if (s->mean)
        put_numbers(out, short_parts & SKY_SHORT_MEAN, s->mean, s->channels);
    if (s->g)
        put_numbers(out, short_parts & SKY_SHORT_PAIRS, s->g, pair_floats(s));
    if (s->klt_g) {
        put_klt(out, s, s->klt_g);
        put_klt(out, s, s->klt_f);
    }
    uint32_t bases = short_parts & SKY_SHORT_ORDER ? 1 : 2;
    for (uint32_t basis = 0; s->order[0] && basis < bases; basis++)
        sink_put(out, s->order[basis], 2 * (size_t)s->channels);
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t dependent = 0; dependent < 2; dependent++) {
            const uint8_t *classes = sky__profile_classes(s, (sky_level)level, dependent, 0);
            if (classes)
                sink_put(out, classes, 2 * (size_t)s->units);
        }
    if (s->exact)
        sink_put(out, s->exact, sky_exact_bytes(s));
    if (s->weights) {
        put_floats(out, &s->weight_unit, 1);
        sink_put(out, s->weights, s->channels);
    }
}

static size_t put_profile(const sky_profile *p, uint32_t version, uint8_t *at) {
    sink out = {at, 0};
    put_u32(&out, MAGIC);
    put_u32(&out, version);
    sink_put(&out, p->fingerprint, 32);
    put_u32(&out, p->layer_count);
    put_u32(&out, p->rope_count);
    for (uint32_t i = 0; i < p->rope_count; i++) {
        put_u32(&out, p->ropes[i].kind);
        put_u32(&out, p->ropes[i].pair_count);
        for (uint32_t j = 0; j < p->ropes[i].pair_count; j++)
            put_u32(&out, p->ropes[i].turns[j]);
    }
    for (uint32_t i = 0; i < p->layer_count; i++) {
        put_u32(&out, p->layers[i].kv_heads);
        put_u32(&out, p->layers[i].k_dim);
        put_u32(&out, p->layers[i].v_dim);
        put_u32(&out, p->layers[i].rope);
    }
    for (uint32_t i = 0; i < 2 * p->layer_count; i++)
        put_stream(&out, &p->streams[i], version >= VERSION_SHORT ? p->streams[i].short_parts : 0);
    for (uint32_t i = 0; version != VERSION_PLAIN && i < p->layer_count; i++)
        put_u32(&out, sky_profile_model_layer(p, i));
    return out.bytes;
}

static bool has_weights(const sky_profile *p) {
    for (uint32_t i = 0; i < 2 * p->layer_count; i++)
        if (p->streams[i].weights)
            return true;
    return false;
}

/* The first version that can say it all. */
static uint32_t version_of(const sky_profile *p) {
    if (has_weights(p))
        return VERSION_WEIGHTS;
    if (p->rounded)
        return VERSION_SHORT;
    return p->model_layers ? VERSION_ORDERED : VERSION_PLAIN;
}

static size_t put_signed(const sky_profile *p, uint32_t version, uint8_t *at) {
    size_t bytes = put_profile(p, version, at);
    sky_store_u64(at + bytes, sky_checksum(at, bytes, 0));
    return bytes + 8;
}

/* Of the bytes without the order of layers. Errors: SKY_E_NOMEM */
static sky_status name_profile(const sky_profile *profile, uint64_t *id) {
    uint8_t *written = malloc(put_profile(profile, VERSION_PLAIN, NULL) + 8);
    if (!written)
        return SKY_E_NOMEM;
    *id = sky_checksum(written, put_signed(profile, VERSION_PLAIN, written), 0);
    *id += *id == 0;
    free(written);
    return SKY_OK;
}

sky_status sky_profile_seal(sky_profile *profile) {
    if (!profile)
        return SKY_E_PARAM;
    if (profile->sealed)
        return SKY_OK;
    sky_status status = sky__profile_sort(profile);
    if (status == SKY_OK)
        status = name_profile(profile, &profile->id);
    profile->sealed = status == SKY_OK;
    return status;
}

size_t sky_profile_bytes(const sky_profile *profile) {
    return profile ? put_profile(profile, version_of(profile), NULL) + 8 : 0;
}

sky_status sky_profile_write(const sky_profile *profile, void *dst, size_t dst_bytes_max) {
    if (!profile || !dst || !profile->sealed)
        return SKY_E_PARAM;
    if (dst_bytes_max < sky_profile_bytes(profile))
        return SKY_E_DST_SMALL;
    put_signed(profile, version_of(profile), dst);
    return SKY_OK;
}

/* ---- reading ---- */

static bool get_shape(sky_reader *r, sky_profile_shape *shape, sky_profile_layer *layers,
                      sky_rope *ropes) {
    for (uint32_t i = 0; i < shape->rope_count; i++) {
        ropes[i].kind = (sky_rope_kind)sky_read_u32(r);
        ropes[i].pair_count = sky_read_u32(r);
        if (!sky__rope_valid(&ropes[i]))
            return false;
        for (uint32_t j = 0; j < ropes[i].pair_count; j++)
            ropes[i].turns[j] = sky_read_u32(r);
    }
    for (uint32_t i = 0; i < shape->layer_count; i++) {
        layers[i].kv_heads = sky_read_u32(r);
        layers[i].k_dim = sky_read_u32(r);
        layers[i].v_dim = sky_read_u32(r);
        layers[i].rope = sky_read_u32(r);
    }
    shape->ropes = ropes;
    shape->layers = layers;
    return !r->failed;
}

static sky_status get_numbers(sky_reader *r, bool halves, size_t count, float **out) {
    const uint8_t *in = sky_read_bytes(r, (halves ? 2 : 4) * count);
    if (!in)
        return SKY_E_CORRUPT;
    float *x = malloc((count + 1) * sizeof *x);
    if (!x)
        return SKY_E_NOMEM;
    bool fine = true;
    const fenv_t before = sky_floats_begin(); /* halves may be subnormal */
    for (size_t i = 0; i < count; i++) {
        x[i] = halves ? sky_float_of_f16(sky_load_u16(in + 2 * i))
                      : sky_float_of(sky_load_u32(in + 4 * i));
        fine &= x[i] >= -1e18f && x[i] <= 1e18f;
    }
    sky_floats_restore(&before);
    if (!fine) {
        free(x);
        return SKY_E_CORRUPT;
    }
    *out = x;
    return SKY_OK;
}

static sky_status get_steps(sky_reader *r, sky_profile_stream *s) {
    for (uint32_t level = 1; level < SKY_LEVEL_COUNT; level++)
        for (uint32_t dependent = 0; dependent < 2; dependent++) {
            float step = sky_float_of(sky_read_u32(r));
            if (step != 0 && !(step >= 1e-18f && step <= 1e18f))
                return SKY_E_CORRUPT;
            s->step[level][dependent] = step;
        }
    return r->failed ? SKY_E_CORRUPT : SKY_OK;
}

static sky_status get_pairs(sky_reader *r, sky_profile_stream *s) {
    float *g = NULL;
    sky_status status = get_numbers(r, s->short_parts & SKY_SHORT_PAIRS, pair_floats(s), &g);
    if (status == SKY_OK)
        status = sky__profile_pairs(s, g);
    free(g);
    return status == SKY_E_PARAM ? SKY_E_CORRUPT : status;
}

static sky_status get_klt(sky_reader *r, const sky_profile_stream *s, float **out) {
    float *x = NULL;
    sky_status status = get_numbers(r, false, (size_t)s->heads * s->dim * s->dim, &x);
    if (status == SKY_OK)
        status = sky__profile_klt(s, out, x);
    free(x);
    return status;
}

static sky_status get_bytes(sky_reader *r, size_t count, uint8_t *to) {
    const uint8_t *in = sky_read_bytes(r, count);
    if (in)
        memcpy(to, in, count);
    return in ? SKY_OK : SKY_E_CORRUPT;
}

/* Order keys, then classes of the levels in the bits of `fitted`. */
static sky_status get_fit(sky_reader *r, sky_profile_stream *s, uint32_t fitted) {
    uint32_t bases = s->short_parts & SKY_SHORT_ORDER ? 1 : 2;
    if (r->left < bases * 2 * (size_t)s->channels)
        return SKY_E_CORRUPT;
    sky_status status = sky__profile_room(s);
    for (uint32_t basis = 0; status == SKY_OK && basis < bases; basis++)
        status = get_bytes(r, 2 * (size_t)s->channels, s->order[basis]);
    for (uint32_t i = 0; status == SKY_OK && i < 2 * SKY_LOSSY_LEVELS; i++) {
        if (!(fitted >> i & 1))
            continue;
        s->fitted[1 + i / 2][i % 2] = true;
        status = get_bytes(r, 2 * (size_t)s->units, s->classes + i * 2 * (size_t)s->units);
    }
    return status;
}

static sky_status get_exact(sky_reader *r, sky_profile_stream *s) {
    const uint8_t *in = sky_read_bytes(r, sky_exact_bytes(s));
    if (!in)
        return SKY_E_CORRUPT;
    s->exact = malloc(sky_exact_bytes(s));
    if (!s->exact)
        return SKY_E_NOMEM;
    memcpy(s->exact, in, sky_exact_bytes(s));
    return SKY_OK;
}

static sky_status get_weights(sky_reader *r, sky_profile_stream *s) {
    s->weight_unit = sky_float_of(sky_read_u32(r));
    const uint8_t *in = sky_read_bytes(r, s->channels);
    if (!in || !(s->weight_unit >= 1e-18f && s->weight_unit <= 1e18f))
        return SKY_E_CORRUPT;
    s->weights = malloc(s->channels);
    if (!s->weights)
        return SKY_E_NOMEM;
    memcpy(s->weights, in, s->channels);
    return SKY_OK;
}

/* Parts are short that are there, and in a version that has such. */
static bool flags_valid(uint32_t version, uint32_t flags) {
    uint32_t known = HAS_ALL, fitted = flags >> 16;
    if (version == VERSION_WEIGHTS)
        known |= HAS_WEIGHTS;
    if (version >= VERSION_SHORT)
        known |= (flags & HAS_MEAN ? SKY_SHORT_MEAN : 0u) |
                 (flags & HAS_PAIRS ? SKY_SHORT_PAIRS : 0u) |
                 (flags & HAS_ORDER ? SKY_SHORT_ORDER : 0u);
    return !(flags & 0xffff & ~known) && !(fitted >> 2 * SKY_LOSSY_LEVELS) &&
           (!fitted || (flags & HAS_ORDER));
}

static sky_status get_stream(sky_reader *r, uint32_t version, sky_profile_stream *s) {
    uint32_t flags = sky_read_u32(r);
    if (r->failed || !flags_valid(version, flags))
        return SKY_E_CORRUPT;
    s->short_parts = flags & (SKY_SHORT_MEAN | SKY_SHORT_PAIRS | SKY_SHORT_ORDER);
    sky_status status = get_steps(r, s);
    if (status == SKY_OK && (flags & HAS_MEAN))
        status = get_numbers(r, flags & SKY_SHORT_MEAN, s->channels, &s->mean);
    if (status == SKY_OK && (flags & HAS_PAIRS))
        status = get_pairs(r, s);
    if (status == SKY_OK && (flags & HAS_KLT))
        status = get_klt(r, s, &s->klt_g);
    if (status == SKY_OK && (flags & HAS_KLT))
        status = get_klt(r, s, &s->klt_f);
    if (status == SKY_OK && (flags & HAS_ORDER))
        status = get_fit(r, s, flags >> 16);
    if (status == SKY_OK && (flags & HAS_EXACT))
        status = get_exact(r, s);
    if (status == SKY_OK && (flags & HAS_WEIGHTS))
        status = get_weights(r, s);
    return status;
}

static sky_status get_profile(sky_reader *r, sky_profile **out) {
    sky_profile_shape shape = {0};
    const uint8_t *fingerprint = sky_read_bytes(r, 32);
    shape.layer_count = sky_read_u32(r);
    shape.rope_count = sky_read_u32(r);
    if (r->failed || shape.layer_count > SKY_LAYERS_MAX || shape.rope_count > SKY_ROPES_MAX)
        return SKY_E_CORRUPT;
    memcpy(shape.fingerprint, fingerprint, 32);
    sky_profile_layer *layers = calloc(shape.layer_count + 1, sizeof *layers);
    sky_rope *ropes = calloc(shape.rope_count + 1, sizeof *ropes);
    sky_status status = layers && ropes ? SKY_OK : SKY_E_NOMEM;
    if (status == SKY_OK && !get_shape(r, &shape, layers, ropes))
        status = SKY_E_CORRUPT;
    if (status == SKY_OK)
        status = sky_profile_create(&shape, out);
    free(layers);
    free(ropes);
    return status == SKY_E_PARAM ? SKY_E_CORRUPT : status;
}

static sky_status get_order(sky_reader *r, sky_profile *p) {
    uint32_t *order = malloc(p->layer_count * sizeof *order);
    if (!order)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < p->layer_count; i++)
        order[i] = sky_read_u32(r);
    sky_status status = r->failed ? SKY_E_CORRUPT : sky_profile_set_order(p, order);
    free(order);
    return status == SKY_E_PARAM ? SKY_E_CORRUPT : status;
}

sky_status sky_profile_read(const void *data, size_t bytes, sky_profile **out, sky_error *error) {
    sky_profile *p = NULL;
    if ((!data && bytes > 0) || !out)
        return sky_fail(error, SKY_E_PARAM, "no calibration given, or nowhere to put it");
    sky_reader r = sky_reader_over(data, bytes);
    if (sky_read_u32(&r) != MAGIC || bytes < 16)
        return sky_fail(error, SKY_E_CORRUPT, "no calibration: it does not begin with SKYC");
    uint32_t version = sky_read_u32(&r);
    if (version > VERSION_WEIGHTS)
        return sky_fail(error, SKY_E_UNSUPPORTED,
                        "calibration of version %u; this program reads 1 to %d", version,
                        VERSION_WEIGHTS);
    r.left -= 8;
    if (version == 0 || sky_load_u64(r.at + r.left) != sky_checksum(data, bytes - 8, 0))
        return sky_fail(error, SKY_E_CORRUPT, "damaged calibration: its checksum does not hold");
    sky_status status = get_profile(&r, &p);
    for (uint32_t i = 0; status == SKY_OK && i < 2 * p->layer_count; i++)
        status = get_stream(&r, version, &p->streams[i]);
    if (status == SKY_OK && version != VERSION_PLAIN)
        status = get_order(&r, p);
    if (status == SKY_OK &&
        (!sky_reader_done(&r) || has_weights(p) != (version == VERSION_WEIGHTS)))
        status = SKY_E_CORRUPT;
    if (status == SKY_OK) {
        p->rounded = version >= VERSION_SHORT;
        status = sky_profile_seal(p);
    }
    if (status != SKY_OK) {
        sky_profile_destroy(p);
        return sky_fail(error, status, "calibration: %s", sky_status_text(status));
    }
    *out = p;
    return SKY_OK;
}
