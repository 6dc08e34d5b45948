/* The prefix of `bench stream`: rows of a real model where there is one, coded beforehand by the
 * codec as a cache would, with the model's calibration; and the engine's time for each segment as
 * it was when the rows were computed.
 *
 *   a segment's rows   layer 0: K [token, head, dim]  V [token, head, dim]   layer 1: …
 *
 * Window layers count with all their rows, as a store keeps them. Without a model, and for a quick
 * look, rows are made up: unequal channels, tokens that resemble the one before, 18 layers of one
 * head of 256; they are coded without calibration, and the engine takes 1 ms a token. */
#include "stream.h"

#include "model.h"
#include "profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const sky_level levels[BENCH_FORMS] = {
    [BENCH_8] = SKY_LEVEL_8, [BENCH_6] = SKY_LEVEL_6, [BENCH_4] = SKY_LEVEL_4};

static size_t row_bytes(const bench_prefix *p, uint32_t stream) {
    const sky_skv_layer *l = &p->layers[stream / 2];
    return 2 * (size_t)l->kv_heads * (stream % 2 ? l->v_dim : l->k_dim);
}

static int stream_prefix_prepare(const cli *c, bench_prefix *p) {
    for (uint32_t s = 0; s < 2 * p->layer_count; s++)
        p->rows_bytes += BENCH_SEGMENT_TOKENS * row_bytes(p, s);
    for (uint32_t i = 0; i < p->segment_count; i++) {
        p->segments[i].data[BENCH_F16] = bench_memory(c, p->rows_bytes);
        if (!p->segments[i].data[BENCH_F16])
            return CLI_FAILED;
    }
    return CLI_OK;
}

/* ---- made up ---- */

#define MADE_UP_LAYERS 18u
#define MADE_UP_DIM    256u

static void make_stream(uint32_t stream, uint8_t *out) {
    float before[MADE_UP_DIM] = {0};
    uint64_t seed = (uint64_t)stream << 32;
    for (uint32_t t = 0; t < BENCH_SEGMENT_TOKENS; t++)
        for (uint32_t i = 0; i < MADE_UP_DIM; i++, out += 2) {
            before[i] = 0.6f * before[i] + 0.8f * bench_normal(seed + (t << 8) + i);
            uint16_t half = bench_half(2 * bench_normal(seed + (1u << 20) + i) +
                                       before[i] * exp2f(bench_normal(seed + (1u << 21) + i)));
            memcpy(out, &half, 2);
        }
}

/* One segment, which is all of them. */
static int make_rows(const cli *c, bench_prefix *p) {
    p->made_up = true;
    p->layer_count = MADE_UP_LAYERS;
    p->layers = calloc(MADE_UP_LAYERS, sizeof *p->layers);
    if (!p->layers)
        return cli_failed(c, "out of memory");
    for (uint32_t i = 0; i < MADE_UP_LAYERS; i++)
        p->layers[i] = (sky_skv_layer){1, MADE_UP_DIM, MADE_UP_DIM, SKY_ELEMENT_F16,
                                       SKY_ELEMENT_F16};
    int code = stream_prefix_prepare(c, p);
    for (uint32_t i = 0; i < p->segment_count && code == CLI_OK; i++) {
        uint8_t *rows = p->segments[i].data[BENCH_F16];
        for (uint32_t s = 0; i == 0 && s < 2 * MADE_UP_LAYERS; s++)
            make_stream(s, rows + s * BENCH_SEGMENT_TOKENS * row_bytes(p, s));
        if (i > 0)
            memcpy(rows, p->segments[0].data[BENCH_F16], p->rows_bytes);
        p->segments[i].compute_ns = SKY_MS(BENCH_SEGMENT_TOKENS);
    }
    return code;
}

/* ---- of a model ---- */

#ifdef SKYMEM_WITH_LLAMA

#define TEXT_BYTES_MAX (16u << 20)

static int take_layers(const cli *c, const sky_engine *e, bench_prefix *p) {
    sky_layout layout;
    sky_error error = {0};
    if (e->ops->layout(e->self, &layout, &error) != SKY_OK)
        return cli_failed(c, "%s", error.text);
    for (uint32_t g = 0; g < layout.group_count; g++)
        p->layer_count += layout.groups[g].layer_count;
    sky_skv_layer *at = p->layers = calloc(p->layer_count, sizeof *p->layers);
    if (!at)
        return cli_failed(c, "out of memory");
    for (uint32_t g = 0; g < layout.group_count; g++) {
        const sky_layer_group *group = &layout.groups[g];
        uint32_t heads = group->kv_heads ? group->kv_heads : 1;
        for (uint32_t i = 0; i < group->layer_count; i++)
            *at++ = (sky_skv_layer){heads, group->k_row_bytes / heads / 2,
                                    group->v_row_bytes / heads / 2, SKY_ELEMENT_F16,
                                    SKY_ELEMENT_F16};
    }
    return stream_prefix_prepare(c, p);
}

static sky_status compute_segment(const sky_engine *e, bench_prefix *p, const uint32_t *tokens,
                                  uint32_t segment) {
    uint32_t first = segment * BENCH_SEGMENT_TOKENS;
    sky_state state = {calloc(2 * p->layer_count, sizeof(sky_tensor)), 2 * p->layer_count};
    sky_time start = sky_now();
    sky_status status = state.tensors
                            ? e->ops->prefill(e->self, tokens + first, first, BENCH_SEGMENT_TOKENS)
                            : SKY_E_NOMEM;
    p->segments[segment].compute_ns = sky_now() - start;
    if (status == SKY_OK)
        status = e->ops->extract(e->self, first, BENCH_SEGMENT_TOKENS, &state);
    uint8_t *to = p->segments[segment].data[BENCH_F16];
    for (uint32_t s = 0; status == SKY_OK && s < 2 * p->layer_count; s++) {
        status = sky_tensor_read(&state.tensors[s], first, BENCH_SEGMENT_TOKENS, to);
        to += BENCH_SEGMENT_TOKENS * row_bytes(p, s);
    }
    free(state.tensors);
    return status;
}

static int compute_rows(bench *b, sky_llama *llama, bench_prefix *p) {
    char path[4096];
    cli_blob text = {0};
    uint32_t *tokens = NULL, wanted = p->segment_count * BENCH_SEGMENT_TOKENS;
    size_t count = 0;
    sky_error error = {0};
    const cli_model model = {.engine = sky_llama_engine(llama)};
    cli_share_find("texts/prose.txt", path, sizeof path);
    int code = cli_blob_read(b->c, path, TEXT_BYTES_MAX, &text);
    if (code == CLI_OK)
        code = cli_model_tokenize(b->c, &model, text.data, text.bytes, 0, &tokens, &count);
    if (code == CLI_OK && count < wanted)
        code = cli_failed(b->c, "%s: has %zu tokens, %u are needed", path, count, wanted);
    if (code == CLI_OK && sky_llama_reserve(llama, wanted + 1, &error) != SKY_OK)
        code = cli_failed(b->c, "%s", error.text);
    if (code == CLI_OK)
        code = take_layers(b->c, model.engine, p);
    /* once unheard, so that the clock finds a warm engine */
    for (uint32_t warm = 0; warm < 2 && code == CLI_OK; warm++)
        for (uint32_t i = 0; i < (warm ? p->segment_count : 1) && code == CLI_OK; i++) {
            cli_progress("stream: computing segment %u of %u", i + 1, p->segment_count);
            if (compute_segment(model.engine, p, tokens, i) != SKY_OK)
                code = cli_failed(b->c, "stream: the model does not go on");
        }
    free(tokens);
    cli_blob_free(&text);
    return code;
}

/* False: there is no model. */
static bool load_rows(bench *b, bench_prefix *p, int *code) {
    char path[4096];
    uint8_t fingerprint[32];
    sky_error error = {0};
    sky_llama *llama = NULL;
    if (b->quick || (*code = cli_model_find(b->c, path, sizeof path)) != CLI_OK || !path[0])
        return *code != CLI_OK;
    const sky_llama_options options = {.model_path = path,
                                       .threads = (uint32_t)cli_count(b->c, "threads")};
    *code = CLI_OK;
    if (sky_llama_open(&options, &llama, &error) != SKY_OK)
        *code = cli_failed(b->c, "%s", error.text);
    if (*code == CLI_OK)
        *code = compute_rows(b, llama, p);
    if (*code == CLI_OK) {
        const sky_engine *engine = sky_llama_engine(llama);
        engine->ops->fingerprint(engine->self, fingerprint);
        *code = cli_profile_find(b->c, cli_text(b->c, "calibration"), fingerprint, &p->profile);
    }
    sky_llama_close(llama);
    return true;
}

#else

static bool load_rows(bench *b, bench_prefix *p, int *code) {
    (void)b, (void)p, (void)code;
    return false;
}

#endif

/* ---- coded ---- */

static sky_skv_shape shape_of(const bench_prefix *p, uint32_t segment) {
    return (sky_skv_shape){.token_count = BENCH_SEGMENT_TOKENS,
                           .first_position = segment * BENCH_SEGMENT_TOKENS,
                           .layer_count = p->layer_count,
                           .layers = p->layers};
}

static sky_status stream_prefix_encode(bench_prefix *p, uint32_t segment, bench_form form,
                                       void *work) {
    bench_segment *s = &p->segments[segment];
    const sky_encode_options options = {.level = levels[form], .first_token_raw = segment == 0};
    sky_skv_shape shape = shape_of(p, segment);
    sky_skv_writer w;
    size_t room = sky_skv_bound(&shape);
    const uint8_t *rows = s->data[BENCH_F16];
    uint8_t *out = malloc(room);
    sky_status status = out ? sky_skv_begin(&w, &shape, p->profile, out, room) : SKY_E_NOMEM;
    for (uint32_t i = 0; i < 2 * p->layer_count && status == SKY_OK; i++) {
        const sky_skv_layer *l = &p->layers[i / 2];
        const sky_tensor src = sky_tensor_packed((void *)rows, SKY_ELEMENT_F16, l->kv_heads,
                                                 i % 2 ? l->v_dim : l->k_dim, 0,
                                                 BENCH_SEGMENT_TOKENS);
        status = sky_skv_put(&w, i / 2, (sky_kv)(i % 2), &options, src, work);
        rows += src.bytes;
    }
    if (status == SKY_OK)
        status = sky_skv_end(&w, &s->bytes[form]);
    s->data[form] = out;
    return status;
}

void bench_reader_start(bench_reader *r, const bench_prefix *prefix, bench_form form,
                        const uint8_t *data, size_t bytes, uint8_t *rows, void *memory) {
    *r = (bench_reader){.prefix = prefix,
                        .data = data,
                        .bytes = bytes,
                        .rows = rows,
                        .memory = memory,
                        .coded = form >= BENCH_8};
}

static sky_status decode_next(bench_reader *r, const sky_skv_entry *e) {
    uint32_t layer = r->next / 2;
    sky_kv kv = (sky_kv)(r->next % 2);
    const uint8_t *stream = r->data + e->offset;
    size_t width = row_bytes(r->prefix, r->next);
    sky_stream_shape shape;
    sky_status status = sky_skv_stream_check(&r->skv, layer, kv, stream, (size_t)e->bytes);
    if (status == SKY_OK)
        status = sky_skv_stream_shape(&r->skv, layer, kv, &shape);
    if (status == SKY_OK)
        status = sky_decode(r->prefix->profile, &shape, stream, (size_t)e->bytes,
                            sky_stream_packed(&shape, r->rows + r->next_bytes), r->memory);
    r->next++;
    r->next_bytes += BENCH_SEGMENT_TOKENS * width;
    return status;
}

sky_status bench_reader_take(bench_reader *r, size_t arrived) {
    size_t header_bytes;
    sky_status status = SKY_OK;
    if (!r->coded)
        return SKY_OK;
    if (!r->opened) {
        status = sky_skv_open_header(r->data, arrived, r->bytes, &r->skv, &header_bytes);
        if (status == SKY_PENDING)
            return SKY_OK;
        r->opened = status == SKY_OK;
    }
    while (status == SKY_OK && r->next < 2 * r->prefix->layer_count) {
        sky_skv_entry e;
        status = sky_skv_entry_at(&r->skv, r->next / 2, (sky_kv)(r->next % 2), &e);
        if (status == SKY_OK && e.offset + e.bytes > arrived)
            break;
        if (status == SKY_OK)
            status = decode_next(r, &e);
    }
    return status;
}

/* Of all segments, once to warm up and once by the clock. */
static sky_status measure_form(bench_prefix *p, bench_form form, void *memory, uint8_t *rows) {
    sky_status status = SKY_OK;
    sky_time start = sky_now();
    double all = (double)p->rows_bytes * p->segment_count;
    for (uint32_t i = 0; i < p->segment_count && status == SKY_OK; i++)
        status = stream_prefix_encode(p, i, form, memory);
    p->encode_rate[form] = all / bench_seconds(start);
    for (uint32_t warm = 0; warm < 2; warm++) {
        start = sky_now();
        for (uint32_t i = 0; i < p->segment_count && status == SKY_OK; i++) {
            const bench_segment *s = &p->segments[i];
            bench_reader r;
            bench_reader_start(&r, p, form, s->data[form], s->bytes[form], rows, memory);
            status = bench_reader_take(&r, s->bytes[form]);
        }
    }
    p->decode_rate[form] = all / bench_seconds(start);
    return status;
}

static int encode_all(bench *b, bench_prefix *p) {
    void *memory = bench_memory(b->c, SKY_ENCODE_WORK_BYTES > SKY_DECODER_BYTES
                                          ? SKY_ENCODE_WORK_BYTES
                                          : SKY_DECODER_BYTES);
    uint8_t *rows = bench_memory(b->c, p->rows_bytes);
    sky_status status = memory && rows ? SKY_OK : SKY_E_NOMEM;
    for (int form = BENCH_8; form < BENCH_FORMS && status == SKY_OK; form++) {
        cli_progress("stream: coding the prefix at level %s", sky_level_name(levels[form]));
        status = measure_form(p, (bench_form)form, memory, rows);
    }
    for (uint32_t i = 0; i < p->segment_count; i++) {
        bench_segment *s = &p->segments[i];
        s->bytes[BENCH_F16] = p->rows_bytes;
        s->bytes[BENCH_Q8_0] = p->rows_bytes / 64 * 34;
        s->data[BENCH_Q8_0] = s->data[BENCH_F16]; /* what is in them nobody looks at */
    }
    free(memory);
    free(rows);
    return status == SKY_OK
               ? CLI_OK
               : cli_failed(b->c, "stream: the codec refuses: %s", sky_status_text(status));
}

int bench_prefix_open(bench *b, uint32_t segment_count, bench_prefix *out) {
    int code = CLI_OK;
    *out = (bench_prefix){.segment_count = segment_count};
    if (!load_rows(b, out, &code))
        code = make_rows(b->c, out);
    return code == CLI_OK ? encode_all(b, out) : code;
}

void bench_prefix_close(bench_prefix *p) {
    for (uint32_t i = 0; i < p->segment_count; i++)
        for (int form = 0; form < BENCH_FORMS; form++)
            if (form != BENCH_Q8_0)
                free(p->segments[i].data[form]);
    free(p->layers);
    sky_profile_destroy(p->profile);
}
