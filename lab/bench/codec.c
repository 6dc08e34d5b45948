/* The codec on blocks of 128 tokens of a model of one head of 256 channels, level by level, against
 * memcpy of the rows in turns with it, by one thread; a few levels on the heads of other models;
 * streams shared out between two; and how much of its working memory a stream writes to.
 *
 * Rows are made up: unequal channels, tokens that resemble the one before, keys turned by rope; the
 * profile is fitted to others of their kind. The archive level has full matrices, a reflection that
 * mixes all channels a little, as rows made up have nothing to find. Speeds count bytes of rows,
 * whichever way they go. */
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS        128u
#define ALL_BYTES     (2u << 20) /* of rows, K and V */
#define CHANNELS_MAX  1024u
#define STREAMS_MAX   64u
#define ROUNDS        15u
#define PAGE_TOKENS   16u /* as vLLM's pages: K and V by turns, a token after the other */
#define THREAD_ROUNDS 64u /* both cores are seldom free at once */

typedef struct {
    bench *b;
    const char *note; /* behind the names of rows */
    uint32_t heads, dim, streams;
    bool full_matrices;
    sky_profile *profile;
    uint16_t *rows; /* [streams][TOKENS][channels] f16 */
    uint16_t *again;
    uint8_t *coded;
    size_t coded_max; /* of one stream */
    size_t coded_bytes[STREAMS_MAX];
    void *memory[2]; /* of each thread */
    size_t rounds;
} bench_rows;

#define WORK_BYTES (2 * (size_t)SKY_DECODER_BYTES) /* and enough to encode */

static uint32_t channels_of(const bench_rows *m) {
    return m->heads * m->dim;
}

static size_t row_bytes(const bench_rows *m) {
    return 2 * (size_t)channels_of(m);
}

static size_t stream_bytes(const bench_rows *m) {
    return TOKENS * row_bytes(m);
}

static size_t all_bytes(const bench_rows *m) {
    return m->streams * stream_bytes(m);
}

static uint32_t layers_of(const bench_rows *m) {
    return m->streams / 2;
}

static uint16_t *rows_at(const bench_rows *m, uint16_t *rows, uint32_t stream) {
    return rows + stream * (stream_bytes(m) / sizeof *rows);
}

/* Shape: out [tokens, channels] */
static void make_rows(uint64_t seed, uint32_t tokens, uint32_t channels, float *out) {
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t i = 0; i < channels; i++) {
            float deviation = exp2f(bench_normal(i)), mean = 2 * bench_normal(i + 1000), before = 0;
            if (t)
                before = 0.6f * (out[(t - 1) * channels + i] - mean) / deviation;
            float noise = 0.8f * bench_normal((seed << 32) + (uint64_t)t * channels + i);
            out[t * channels + i] = (before + noise) * deviation + mean;
        }
}

static sky_kv kv_of(uint32_t stream) {
    return (sky_kv)(stream & 1);
}

static sky_stream_shape shape_of(const bench_rows *m, uint32_t stream) {
    return (sky_stream_shape){0, kv_of(stream), SKY_ELEMENT_F16, TOKENS, m->heads, m->dim, 1024};
}

/* 1 − 2 v vᵀ, which is its own inverse, of one head. */
static sky_status set_full_matrix(const bench_rows *m, sky_kv kv) {
    uint32_t n = m->dim;
    float *g = malloc((size_t)n * n * sizeof *g);
    for (uint32_t i = 0; g && i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            g[i * n + j] = (i == j ? 1.0f : 0.0f) - ((i ^ j) & 1 ? -2.0f : 2.0f) / (float)n;
    sky_status status = g ? sky_profile_set_klt(m->profile, 0, kv, g, g) : SKY_E_NOMEM;
    free(g);
    return status;
}

static sky_status codec_fit(const bench_rows *m, sky_kv kv, const float *rows, uint32_t tokens) {
    static const float steps[] = {.03f, .09f, .35f, .7f, 1.1f, 1.5f, 2.0f};
    sky_profile *p = m->profile;
    float mean[CHANNELS_MAX], g[CHANNELS_MAX / 2][4];
    for (uint32_t i = 0; i < channels_of(m); i++)
        mean[i] = 2 * bench_normal(i + 1000);
    for (uint32_t i = 0; i < channels_of(m) / 2; i++)
        memcpy(g[i], (float[4]){0.8f, 0.6f, -0.6f, 0.8f}, sizeof g[i]);
    sky_profile_set_mean(p, 0, kv, mean);
    if (kv == SKY_KV_K)
        sky_profile_set_pairs(p, 0, kv, &g[0][0]);
    sky_status status = m->full_matrices ? set_full_matrix(m, kv) : SKY_OK;
    if (status != SKY_OK)
        return status;
    for (uint32_t level = SKY_LEVEL_8; level <= SKY_LEVEL_ARCHIVE; level++)
        for (int dependent = 0; dependent < 2; dependent++)
            sky_profile_set_step(p, 0, kv, (sky_level)level, dependent,
                                 steps[level - 1] * (dependent ? 1 : 0.85f));
    return sky_profile_fit(p, 0, kv, rows, tokens, TOKENS);
}

static sky_status make_profile(bench_rows *m, const sky_rope *rope) {
    enum { FITTED = 16 * TOKENS };
    sky_profile_layer layer = {m->heads, m->dim, m->dim, 0};
    sky_profile_shape shape = {1, &layer, 1, rope, {0}};
    sky_status status = sky_profile_create(&shape, &m->profile);
    float *rows = malloc((size_t)FITTED * channels_of(m) * sizeof *rows);
    if (status == SKY_OK && !rows)
        status = SKY_E_NOMEM;
    if (status == SKY_OK)
        make_rows(1, FITTED, channels_of(m), rows);
    for (int kv = 0; status == SKY_OK && kv < 2; kv++)
        status = codec_fit(m, (sky_kv)kv, rows, FITTED);
    if (status == SKY_OK)
        status = sky_profile_seal(m->profile);
    free(rows);
    return status;
}

static sky_status codec_prepare(bench_rows *m) {
    sky_rope rope;
    m->streams = (uint32_t)(ALL_BYTES / stream_bytes(m)) / 2 * 2;
    sky_stream_shape shape = shape_of(m, 0);
    float *rows = malloc(stream_bytes(m) * 2);
    m->coded_max = sky_encode_bound(&shape);
    m->rows = bench_memory(m->b->c, all_bytes(m));
    m->again = bench_memory(m->b->c, all_bytes(m));
    m->coded = bench_memory(m->b->c, m->streams * m->coded_max);
    bool ready = rows && m->rows && m->again && m->coded;
    for (size_t i = 0; i < 2; i++)
        ready = (m->memory[i] = aligned_alloc(64, WORK_BYTES)) && ready;
    sky_status status = ready ? SKY_OK : SKY_E_NOMEM;
    if (status == SKY_OK)
        status = sky_rope_init(&rope, SKY_ROPE_NEOX, m->dim, 10000, 1, NULL);
    if (status == SKY_OK)
        status = make_profile(m, &rope);
    for (uint32_t s = 0; status == SKY_OK && s < m->streams; s++) {
        make_rows(100 + s, TOKENS, channels_of(m), rows);
        if (kv_of(s) == SKY_KV_K)
            sky_rope_apply(&rope, false, shape.first_position, rows, TOKENS, m->heads, m->dim);
        for (size_t i = 0; i < stream_bytes(m) / 2; i++)
            rows_at(m, m->rows, s)[i] = bench_half(rows[i]);
    }
    free(rows);
    return status;
}

/* ---- measuring ---- */

static sky_status encode_one(bench_rows *m, const sky_encode_options *options, uint32_t s,
                             void *memory) {
    sky_stream_shape shape = shape_of(m, s);
    sky_tensor in = sky_stream_packed(&shape, rows_at(m, m->rows, s));
    return sky_encode(m->profile, &shape, options, in, m->coded + s * m->coded_max, m->coded_max,
                      &m->coded_bytes[s], memory);
}

static sky_status encode_layer(bench_rows *m, const sky_encode_options *options, uint32_t layer,
                               void *memory) {
    sky_status status = encode_one(m, options, 2 * layer, memory);
    return status == SKY_OK ? encode_one(m, options, 2 * layer + 1, memory) : status;
}

static sky_stream_in coded_stream(const bench_rows *m, uint32_t s) {
    sky_stream_shape shape = shape_of(m, s);
    return (sky_stream_in){shape, m->coded + s * m->coded_max, m->coded_bytes[s],
                           sky_stream_packed(&shape, rows_at(m, m->again, s))};
}

static sky_tensor in_pages(const bench_rows *m, uint32_t s) {
    static const uint32_t pages[TOKENS / PAGE_TOKENS] = {6, 3, 1, 4, 7, 5, 0, 2};
    sky_stream_shape shape = shape_of(m, s);
    sky_tensor t = sky_stream_packed(&shape, rows_at(m, m->again, s / 2 * 2));
    t.data = (uint8_t *)t.data + s % 2 * row_bytes(m);
    t.bytes = 2 * stream_bytes(m) - s % 2 * row_bytes(m);
    t.token_bytes = 2 * row_bytes(m);
    t.pages = pages;
    t.page_count = TOKENS / PAGE_TOKENS;
    t.page_tokens = PAGE_TOKENS;
    t.page_bytes = PAGE_TOKENS * t.token_bytes;
    return t;
}

/* K and V of a layer, as blocks are decoded. */
static sky_status decode_layer(const bench_rows *m, uint32_t layer, bool paged, void *memory) {
    sky_stream_in both[2] = {coded_stream(m, 2 * layer), coded_stream(m, 2 * layer + 1)};
    for (uint32_t i = 0; paged && i < 2; i++)
        both[i].dst = in_pages(m, 2 * layer + i);
    return sky_decode_two(m->profile, both, memory);
}

/* Seconds of each stream, or of two, the least met so far: machines are shared. */
typedef struct {
    double encode[STREAMS_MAX];
    double decode[STREAMS_MAX / 2];
    double paged[STREAMS_MAX / 2]; /* decode, into pages */
} least;

static void keep_least(double *kept, sky_time start) {
    double took = bench_seconds(start);
    if (*kept == 0 || took < *kept)
        *kept = took;
}

static sky_status code_all(bench_rows *m, const sky_encode_options *options, least *kept) {
    sky_status status = SKY_OK;
    for (uint32_t s = 0; status == SKY_OK && s < m->streams; s++) {
        sky_time start = sky_now();
        status = encode_one(m, options, s, m->memory[0]);
        keep_least(&kept->encode[s], start);
    }
    for (uint32_t l = 0; status == SKY_OK && l < 2 * layers_of(m); l++) {
        sky_time start = sky_now();
        status = decode_layer(m, l / 2, l % 2, m->memory[0]);
        keep_least(l % 2 ? &kept->paged[l / 2] : &kept->decode[l / 2], start);
    }
    return status;
}

/* GB/s of all streams, each part at its best. */
static double rate_of_least(const bench_rows *m, const double *seconds, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += seconds[i];
    return (double)all_bytes(m) / sum / 1e9;
}

static double rate_since(const bench_rows *m, sky_time start) {
    return (double)all_bytes(m) / bench_seconds(start) / 1e9;
}

static double codec_best(const double *rates, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = rates[i] > most ? rates[i] : most;
    return most;
}

static int codec_say(const bench_rows *m, const sky_encode_options *o, const least *kept,
                     double copy) {
    char name[64], what[48];
    size_t bytes = 0;
    for (uint32_t s = 0; s < m->streams; s++)
        bytes += m->coded_bytes[s];
    snprintf(what, sizeof what, "%s%s %s", sky_level_name(o->level),
             o->level == SKY_LEVEL_LOSSLESS ? ""
             : o->plain                     ? " plain"
                                            : " trellis",
             sky_codec_kernels_name());
    snprintf(name, sizeof name, "encode %s%s", what, m->note);
    int code = bench_row(m->b, name, rate_of_least(m, kept->encode, m->streams), "GB/s", "memcpy",
                         copy);
    snprintf(name, sizeof name, "decode %s%s", what, m->note);
    if (code == CLI_OK)
        code = bench_row(m->b, name, rate_of_least(m, kept->decode, layers_of(m)), "GB/s", "memcpy",
                         copy);
    snprintf(name, sizeof name, "decode %s, pages%s", what, m->note);
    if (code == CLI_OK)
        code = bench_row(m->b, name, rate_of_least(m, kept->paged, layers_of(m)), "GB/s", "rows",
                         rate_of_least(m, kept->decode, layers_of(m)));
    snprintf(name, sizeof name, "size %s%s", what, m->note);
    if (code == CLI_OK)
        code = bench_row(m->b, name, 16.0 * (double)bytes / (double)all_bytes(m), "bit/element",
                         NULL, 0);
    return code;
}

static int codec_measure(bench_rows *m, sky_level level, bool plain) {
    least kept = {0};
    double copy[ROUNDS];
    sky_encode_options options = {.level = level, .plain = plain};
    sky_status status = SKY_OK;
    for (size_t i = 0; status == SKY_OK && i < m->rounds; i++) {
        status = code_all(m, &options, &kept);
        sky_time start = sky_now();
        memcpy(m->again, m->rows, all_bytes(m));
        copy[i] = rate_since(m, start);
    }
    if (status != SKY_OK)
        return cli_failed(m->b->c, "codec: level %s: %s", sky_level_name(level),
                          sky_status_text(status));
    return codec_say(m, &options, &kept, codec_best(copy, m->rounds));
}

/* ---- two threads ---- */

/* One or two threads share out the streams, round after round, each round begun together. */
typedef struct {
    bench_rows *m;
    const sky_encode_options *options; /* NULL: decode */
    uint32_t threads;
    pthread_barrier_t begin;
    sky_time start[2][THREAD_ROUNDS];
    sky_time end[2][THREAD_ROUNDS];
    size_t rounds;
} duet;

typedef struct {
    duet *of;
    uint32_t thread;
    sky_status status;
} player;

static void *codec_play(void *argument) {
    player *p = argument;
    duet *d = p->of;
    void *memory = d->m->memory[p->thread];
    for (size_t i = 0; i < d->rounds; i++) {
        pthread_barrier_wait(&d->begin);
        d->start[p->thread][i] = sky_now();
        for (uint32_t l = p->thread; p->status == SKY_OK && l < layers_of(d->m); l += d->threads)
            p->status = d->options ? encode_layer(d->m, d->options, l, memory)
                                   : decode_layer(d->m, l, false, memory);
        d->end[p->thread][i] = sky_now();
    }
    return NULL;
}

/* The best round's GB/s, from the first start to the last end; 0: it failed. */
static double rate_of_threads(bench_rows *m, const sky_encode_options *options, uint32_t threads) {
    static duet d;
    d.m = m;
    d.options = options;
    d.threads = threads;
    d.rounds = m->rounds == ROUNDS ? THREAD_ROUNDS : 1;
    player players[2] = {{&d, 0, SKY_OK}, {&d, 1, SKY_OK}};
    pthread_t other;
    double most = 0;
    if (pthread_barrier_init(&d.begin, NULL, threads) != 0)
        return 0;
    bool running = threads == 1 || pthread_create(&other, NULL, codec_play, &players[1]) == 0;
    if (running)
        codec_play(&players[0]);
    if (running && threads == 2)
        pthread_join(other, NULL);
    for (size_t i = 0; running && i < d.rounds; i++) {
        sky_time start = d.start[0][i], end = d.end[0][i];
        if (threads == 2 && d.start[1][i] < start)
            start = d.start[1][i];
        if (threads == 2 && d.end[1][i] > end)
            end = d.end[1][i];
        double rate = (double)all_bytes(m) / ((double)(end - start) / 1e9) / 1e9;
        most = rate > most ? rate : most;
    }
    pthread_barrier_destroy(&d.begin);
    return players[0].status == SKY_OK && players[1].status == SKY_OK ? most : 0;
}

/* By turns with one thread that goes through the same rounds. */
static int measure_threads(bench_rows *m) {
    sky_encode_options options = {.level = SKY_LEVEL_3, .plain = true};
    static const char *const ways[] = {"encode", "decode"};
    int code = CLI_OK;
    for (uint32_t way = 0; code == CLI_OK && way < 2; way++) {
        double rates[2] = {0};
        char name[64];
        for (size_t i = 0; i < 2 * m->rounds; i++) {
            double rate = rate_of_threads(m, way ? NULL : &options, 1 + (i & 1));
            rates[i & 1] = rate > rates[i & 1] ? rate : rates[i & 1];
        }
        if (rates[0] == 0 || rates[1] == 0)
            return cli_failed(m->b->c, "codec: two threads: one could not run");
        snprintf(name, sizeof name, "%s 3 plain %s, two threads", ways[way],
                 sky_codec_kernels_name());
        code = bench_row(m->b, name, rates[1], "GB/s", "one thread", rates[0]);
    }
    return code;
}

/* ---- working memory ---- */

#define UNTOUCHED 0x5a
#define LINE      64

/* Bytes of the lines that were written to since all of it was UNTOUCHED. */
static size_t codec_touched(const uint8_t *memory) {
    size_t lines = 0;
    for (size_t at = 0; at < WORK_BYTES; at += LINE) {
        size_t i = 0;
        while (i < LINE && memory[at + i] == UNTOUCHED)
            i++;
        lines += i < LINE;
    }
    return lines * LINE;
}

/* What one stream writes to at most, at any level; 0: it failed. */
static size_t memory_of(bench_rows *m, bool decode) {
    size_t most = 0;
    for (uint32_t i = 0; i < 2 * SKY_LEVEL_COUNT; i++) {
        sky_encode_options options = {.level = (sky_level)(i / 2), .plain = i & 1};
        if (decode && encode_one(m, &options, 0, m->memory[0]) != SKY_OK)
            return 0;
        memset(m->memory[0], UNTOUCHED, WORK_BYTES);
        sky_stream_in s = coded_stream(m, 0);
        sky_status status = decode ? sky_decode(m->profile, &s.shape, s.data, s.bytes, s.dst,
                                                m->memory[0])
                                   : encode_one(m, &options, 0, m->memory[0]);
        if (status != SKY_OK)
            return 0;
        size_t bytes = codec_touched(m->memory[0]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int measure_memory(bench_rows *m) {
    static const char *const names[] = {"working memory, encode", "working memory, decode"};
    static const size_t limits[] = {SKY_ENCODE_WORK_BYTES, SKY_DECODER_BYTES};
    int code = CLI_OK;
    for (uint32_t way = 0; code == CLI_OK && way < 2; way++) {
        double kib = (double)memory_of(m, way == 1) / 1024;
        code = kib > 0
                   ? bench_row(m->b, names[way], kib, "KiB", "limit", (double)limits[way] / 1024)
                   : cli_failed(m->b->c, "codec: %s: a stream failed", names[way]);
    }
    return code;
}

/* The kernels that were not chosen, at few levels. */
static int measure_kernels(bench_rows *m) {
    static const char *const names[] = {"scalar", "avx2", "avx512", "neon"};
    static const struct {
        sky_level level;
        bool plain;
    } few[] = {{SKY_LEVEL_LOSSLESS, true},
               {SKY_LEVEL_8, true},
               {SKY_LEVEL_4, true},
               {SKY_LEVEL_3, true},
               {SKY_LEVEL_3, false}};
    const char *chosen = sky_codec_kernels_name();
    int code = CLI_OK;
    for (size_t i = 0; code == CLI_OK && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], chosen) == 0 || sky_codec_kernels_use(names[i]) != SKY_OK)
            continue;
        for (size_t j = 0; code == CLI_OK && j < sizeof few / sizeof few[0]; j++)
            code = codec_measure(m, few[j].level, few[j].plain);
    }
    sky_codec_kernels_use(chosen);
    return code;
}

static void codec_release(bench_rows *m) {
    sky_profile_destroy(m->profile);
    free(m->rows);
    free(m->again);
    free(m->coded);
    free(m->memory[0]);
    free(m->memory[1]);
}

/* Heads of other models, at few levels. Those of latent attention, one of 576, are coded as nine of
 * 64: rows are as many bytes, and the codec's heads have no more than 512. */
static int measure_heads(bench *b) {
    static const struct {
        uint32_t heads, dim;
        const char *note;
    } others[] = {{2, 64, ", 2 x 64"},
                  {2, 128, ", 2 x 128"},
                  {4, 128, ", 4 x 128"},
                  {8, 128, ", 8 x 128"},
                  {9, 64, ", 1 x 576 as 9 x 64"}};
    static const sky_level few[] = {SKY_LEVEL_LOSSLESS, SKY_LEVEL_8, SKY_LEVEL_4, SKY_LEVEL_2};
    int code = CLI_OK;
    for (size_t i = 0; code == CLI_OK && i < sizeof others / sizeof others[0]; i++) {
        bench_rows m = {.b = b,
                        .note = others[i].note,
                        .heads = others[i].heads,
                        .dim = others[i].dim,
                        .rounds = b->quick ? 1 : ROUNDS};
        cli_progress("codec: %u x %u", m.heads, m.dim);
        sky_status status = codec_prepare(&m);
        if (status != SKY_OK)
            code = cli_failed(b->c, "codec: %s", sky_status_text(status));
        for (size_t j = 0; code == CLI_OK && j < sizeof few / sizeof few[0]; j++) {
            code = codec_measure(&m, few[j], true);
            if (code == CLI_OK && few[j] != SKY_LEVEL_LOSSLESS)
                code = codec_measure(&m, few[j], false);
        }
        codec_release(&m);
    }
    return code;
}

int bench_codec(bench *b) {
    bench_rows m = {.b = b,
                    .note = "",
                    .heads = 1,
                    .dim = 256,
                    .full_matrices = true,
                    .rounds = b->quick ? 1 : ROUNDS};
    sky_status status = codec_prepare(&m);
    int code = CLI_OK;
    if (status != SKY_OK)
        code = cli_failed(b->c, "codec: %s", sky_status_text(status));
    for (uint32_t level = 0; code == CLI_OK && level < SKY_LEVEL_COUNT; level++) {
        cli_progress("codec: level %s", sky_level_name((sky_level)level));
        code = codec_measure(&m, (sky_level)level, true);
        if (code == CLI_OK && level != SKY_LEVEL_LOSSLESS)
            code = codec_measure(&m, (sky_level)level, false);
    }
    if (code == CLI_OK)
        code = measure_heads(b);
    if (code == CLI_OK)
        code = measure_threads(&m);
    if (code == CLI_OK)
        code = measure_memory(&m);
    if (code == CLI_OK)
        code = measure_kernels(&m);
    codec_release(&m);
    return code;
}
