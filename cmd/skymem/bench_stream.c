/* Streaming a prefix of a small model (Gemma 3 270M: 18 KiB a token): time to its last row over
 * shaped sockets, and against deadlines over traces in virtual time.
 *
 * The engine and the decoder sleep for what they would take; bytes of the levels are the typical
 * ones. All else is real: sockets, threads, the planner. */
#include "bench_stream.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_PER_TOKEN 18432.0
#define TOKEN_MS        1.0
#define SEGMENT_TOKENS  128u
#define DECODE_RATE                                                                                \
    1e9 /* bytes of f16 rows a second, one core: slower than the codec is to
be */
#define SEGMENTS_MAX  32u
#define TRACE_STEP_NS SKY_MS(20)
#define TRACE_SAMPLES 50000u

static sky_form form_of(double bits, double loss) {
    double raw = SEGMENT_TOKENS * BYTES_PER_TOKEN;
    double decode = bits < 16 && bits != 8.5 ? raw / DECODE_RATE * 1e9 : 0;
    return (sky_form){(uint64_t)(raw * bits / 16), loss, (sky_time)decode};
}

static void fill(sky_segment *segments, uint32_t count, const sky_form *forms, uint32_t form_count,
                 bool computes) {
    for (uint32_t i = 0; i < count; i++) {
        segments[i] = (sky_segment){.token_count = SEGMENT_TOKENS, .form_count = form_count};
        memcpy(segments[i].forms, forms, form_count * sizeof *forms);
        segments[i].compute_ns = computes ? (sky_time)(SEGMENT_TOKENS * TOKEN_MS * 1e6) : 0;
    }
}

/* f16 and the levels from `first` to `last`. */
static uint32_t ladder(sky_form *forms, bool raw, uint32_t first, uint32_t last) {
    size_t count;
    const sky_level_cost *costs = sky_level_costs(&count);
    uint32_t n = 0;
    if (raw)
        forms[n++] = form_of(16, 0);
    for (uint32_t i = first; i <= last; i++)
        forms[n++] = form_of(costs[i].bits, costs[i].loss);
    return n;
}

/* ---- shaped sockets ---- */

/* The best of `rounds`: a busy machine only ever adds. */
static int load(bench *b, const bench_link *shape, const sky_segment *segments, uint32_t count,
                uint32_t rounds, double *best_ms) {
    sky_link link;
    sky_link_init(&link, shape->rate, shape->rtt_ns);
    for (uint32_t i = 0; i < rounds; i++) {
        sky_pacer_report report;
        double ms;
        sky_status status = bench_link_load(shape, segments, count, &link, &ms, &report);
        if (status != SKY_OK || report.verdict != SKY_VERDICT_HIT)
            return cli_failed(b->c, "stream: loading over loopback: %s", sky_status_text(status));
        *best_ms = i == 0 || ms < *best_ms ? ms : *best_ms;
    }
    return CLI_OK;
}

static int first_token(bench *b, const char *name, double bits_a_second, uint32_t count) {
    const bench_link shape = {bits_a_second / 8, SKY_MS(2)};
    sky_segment segments[SEGMENTS_MAX];
    sky_form forms[SKY_PACER_FORMS_MAX], f16 = form_of(16, 0), q8 = form_of(8.5, .00018);
    uint32_t rounds = bits_a_second < 1e9 ? 1 : 3;
    double ours = 0, raw = 0, packed = 0, text = count * SEGMENT_TOKENS * TOKEN_MS;
    fill(segments, count, &f16, 1, false);
    int code = load(b, &shape, segments, count, rounds, &raw);
    fill(segments, count, &q8, 1, false);
    if (code == CLI_OK)
        code = load(b, &shape, segments, count, rounds, &packed);
    fill(segments, count, forms, ladder(forms, true, 1, 3), true);
    if (code == CLI_OK)
        code = load(b, &shape, segments, count, rounds, &ours);
    const char *ref = raw < packed ? "f16" : "q8_0";
    double best = raw < packed ? raw : packed;
    if (text < best) {
        ref = "text";
        best = text;
    }
    char label[64];
    snprintf(label, sizeof label, "%s first token", name);
    if (code == CLI_OK)
        code = bench_row(b, label, ours, "ms", ref, best);
    snprintf(label, sizeof label, "%s first token, f16", name);
    if (code == CLI_OK)
        code = bench_row(b, label, raw, "ms", "text", text);
    snprintf(label, sizeof label, "%s first token, q8_0", name);
    return code == CLI_OK ? bench_row(b, label, packed, "ms", "text", text) : code;
}

static int first_tokens(bench *b) {
    static const struct {
        const char *name;
        double bits_a_second;
    } links[] = {{"3 Gb/s", 3e9}, {"1 Gb/s", 1e9}, {"200 Mb/s", 200e6}, {"20 Mb/s", 20e6}};
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof links / sizeof *links && code == CLI_OK; i++) {
        cli_progress("stream: %s", links[i].name);
        code = first_token(b, links[i].name, links[i].bits_a_second, b->quick ? 2 : SEGMENTS_MAX);
    }
    return code;
}

/* ---- deadlines in virtual time ---- */

static sky_trial deadline_trial(const bench *b, const sky_segment *segments, double *rates) {
    return (sky_trial){.segments = segments,
                       .segment_count = SEGMENTS_MAX,
                       .traces = {{rates, TRACE_SAMPLES, TRACE_STEP_NS}},
                       .source_count = 1,
                       .delay_ns = SKY_MS(30),
                       .pause_ns = SKY_MS(370),
                       .contexts = b->quick ? 40 : 400,
                       .seed = 1,
                       .options = {.deadline_ns = SKY_SECONDS(2), .slices = 18}};
}

/* Loss is of contexts that were in time, beside the oracle's over the same ones. */
static int deadline_rows(bench *b, const char *trace, const char *setting,
                         const sky_trial_result *results) {
    int code = CLI_OK;
    char label[96];
    for (uint32_t p = 0; p < SKY_POLICIES && code == CLI_OK; p++) {
        const sky_trial_result *r = &results[p];
        const char *policy = sky_policy_name((sky_policy)p);
        snprintf(label, sizeof label, "%s, %s, late: %s", trace, setting, policy);
        code = bench_row(b, label, 100.0 * r->late / r->contexts, "%", NULL, 0);
        snprintf(label, sizeof label, "%s, %s, loss: %s", trace, setting, policy);
        if (code == CLI_OK)
            code = bench_row(b, label, 1e3 * r->loss, "KLD/1000", "oracle", 1e3 * r->loss_oracle);
    }
    return code;
}

static int deadlines(bench *b, double *rates) {
    static const struct {
        const char *name;
        double bits_a_second;
        bool computes;
    } settings[] = {{"100 Mb/s", 100e6, true},
                    {"100 Mb/s, busy engine", 100e6, false},
                    {"200 Mb/s, busy engine", 200e6, false}};
    sky_segment segments[SEGMENTS_MAX];
    sky_form forms[SKY_PACER_FORMS_MAX];
    uint32_t form_count = ladder(forms, false, 1, 6);
    int code = CLI_OK;
    for (size_t i = 0; i < 3 * SKY_TRACE_KINDS && code == CLI_OK; i++) {
        sky_trace_kind kind = (sky_trace_kind)(i % SKY_TRACE_KINDS);
        size_t s = i / SKY_TRACE_KINDS;
        sky_trial_result results[SKY_POLICIES];
        fill(segments, SEGMENTS_MAX, forms, form_count, settings[s].computes);
        sky_trace_fill(kind, 1, settings[s].bits_a_second / 8, TRACE_STEP_NS, rates, TRACE_SAMPLES);
        sky_trial trial = deadline_trial(b, segments, rates);
        cli_progress("stream: %s, %s", sky_trace_name(kind), settings[s].name);
        for (uint32_t p = 0; p < SKY_POLICIES && code == CLI_OK; p++)
            if (sky_trial_run(&trial, (sky_policy)p, &results[p]) != SKY_OK)
                code = cli_failed(b->c, "stream: a trial could not run: out of memory");
        if (code == CLI_OK)
            code = deadline_rows(b, sky_trace_name(kind), settings[s].name, results);
    }
    return code;
}

/* One answer in twenty is half a second late: what that costs by how many are under way. */
static int head_of_line(bench *b, double *rates) {
    sky_segment segments[SEGMENTS_MAX];
    sky_form form = form_of(3.95, .00106);
    fill(segments, SEGMENTS_MAX, &form, 1, false);
    sky_trace_fill(SKY_TRACE_STEADY, 1, 200e6 / 8, TRACE_STEP_NS, rates, TRACE_SAMPLES);
    sky_trial trial = deadline_trial(b, segments, rates);
    trial.options = (sky_pacer_options){0};
    trial.slow_share = 0.05;
    trial.slow_ns = SKY_MS(500);
    double alone_ms = 0;
    int code = CLI_OK;
    for (uint32_t flights = 1; flights <= SKY_PACER_FLIGHTS_MAX && code == CLI_OK; flights *= 2) {
        sky_trial_result r;
        trial.options.flights_max = flights;
        if (sky_trial_run(&trial, SKY_POLICY_PACER, &r) != SKY_OK)
            return cli_failed(b->c, "stream: a trial could not run: out of memory");
        alone_ms = flights == 1 ? r.complete_ms : alone_ms;
        char label[64];
        snprintf(label, sizeof label, "slow answers, %u under way", flights);
        code = bench_row(b, label, r.complete_ms, "ms", "1 under way", alone_ms);
    }
    trial.source_count = 2;
    trial.traces[1] = trial.traces[0];
    sky_trial_result r;
    if (code == CLI_OK && sky_trial_run(&trial, SKY_POLICY_PACER, &r) != SKY_OK)
        return cli_failed(b->c, "stream: a trial could not run: out of memory");
    return code == CLI_OK ? bench_row(b, "slow answers, two sources", r.complete_ms, "ms",
                                      "1 under way", alone_ms)
                          : code;
}

int bench_stream(bench *b) {
    double *rates = malloc(TRACE_SAMPLES * sizeof *rates);
    if (!rates)
        return cli_failed(b->c, "stream: out of memory");
    int code = first_tokens(b);
    if (code == CLI_OK)
        code = head_of_line(b, rates);
    if (code == CLI_OK)
        code = deadlines(b, rates);
    free(rates);
    return code;
}
