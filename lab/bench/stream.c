/* Streaming a prefix: time to its last row over shaped sockets, and against deadlines over traces
 * in virtual time.
 *
 * Over sockets all is real but the engine, which sleeps for what it took when the prefix was
 * computed: rows, containers, threads, decoding, the planner (stream_prefix.c says what is
 * loaded). In virtual time a small model (Gemma 3 270M: 18 KiB a token) has levels of typical
 * bytes, an engine of 1 ms a token, and a decoder of DECODE_RATE. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_PER_TOKEN 18432.0
#define TOKEN_MS        1.0
#define DECODE_RATE     3e9 /* bytes of f16 rows a second, one core */
#define TRACE_STEP_NS   SKY_MS(20)
#define TRACE_SAMPLES   50000u

/* ---- shaped sockets ---- */

/* Loss of a form, as docs/codec-evidence.md has it. */
static double loss_of(bench_form form) {
    static const sky_level levels[BENCH_FORMS] = {
        [BENCH_8] = SKY_LEVEL_8, [BENCH_6] = SKY_LEVEL_6, [BENCH_4] = SKY_LEVEL_4};
    size_t count;
    return form == BENCH_Q8_0 ? .00016 : sky_level_costs(&count)[levels[form]].loss;
}

static bench_context context_of(const bench_prefix *p, const bench_form *forms, uint32_t count,
                                bool computes) {
    bench_context c = {.prefix = p};
    memcpy(c.forms, forms, count * sizeof *forms);
    for (uint32_t i = 0; i < p->segment_count; i++) {
        sky_segment *s = &c.segments[i];
        *s = (sky_segment){.token_count = BENCH_SEGMENT_TOKENS, .form_count = count};
        s->compute_ns = computes ? p->segments[i].compute_ns : 0;
        for (uint32_t f = 0; f < count; f++) {
            double rate = p->decode_rate[forms[f]];
            s->forms[f] = (sky_form){p->segments[i].bytes[forms[f]], loss_of(forms[f]),
                                     rate > 0 ? (sky_time)((double)p->rows_bytes / rate * 1e9) : 0};
        }
    }
    return c;
}

/* The best of `rounds`: a busy machine only ever adds. */
static int stream_load(bench *b, const bench_link *shape, const bench_context *context,
                       uint32_t rounds, double *best_ms) {
    sky_link link;
    sky_link_init(&link, shape->rate, shape->rtt_ns);
    for (uint32_t i = 0; i < rounds; i++) {
        sky_pacer_report report;
        double ms;
        sky_status status = bench_link_load(shape, context, &link, &ms, &report);
        if (status != SKY_OK || report.verdict != SKY_VERDICT_HIT)
            return cli_failed(b->c, "stream: loading over loopback: %s", sky_status_text(status));
        *best_ms = i == 0 || ms < *best_ms ? ms : *best_ms;
    }
    return CLI_OK;
}

static int first_token(bench *b, const char *name, double bits_a_second, const bench_prefix *p) {
    static const bench_form ladder[] = {BENCH_F16, BENCH_8, BENCH_6, BENCH_4};
    const bench_link shape = {bits_a_second / 8, SKY_MS(2)};
    const bench_context f16 = context_of(p, (bench_form[]){BENCH_F16}, 1, false);
    const bench_context q8 = context_of(p, (bench_form[]){BENCH_Q8_0}, 1, false);
    const bench_context all = context_of(p, ladder, 4, true);
    const bench_context loaded = context_of(p, ladder, 4, false);
    uint32_t rounds = b->quick || bits_a_second < 1e9 ? 1 : 5;
    double ours = 0, raw = 0, packed = 0, levels = 0, text = 0;
    for (uint32_t i = 0; i < p->segment_count; i++)
        text += cli_ms(p->segments[i].compute_ns);
    int code = stream_load(b, &shape, &f16, rounds, &raw);
    if (code == CLI_OK)
        code = stream_load(b, &shape, &q8, rounds, &packed);
    if (code == CLI_OK)
        code = stream_load(b, &shape, &all, rounds, &ours);
    if (code == CLI_OK)
        code = stream_load(b, &shape, &loaded, rounds, &levels);
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
    if (code == CLI_OK)
        code = bench_row(b, label, packed, "ms", "text", text);
    snprintf(label, sizeof label, "%s first token, levels without text", name);
    return code == CLI_OK ? bench_row(b, label, levels, "ms", "text", text) : code;
}

/* What is loaded: its size, and the codec's speed on it. */
static int prefix_rows(bench *b, const bench_prefix *p) {
    static const char *const names[BENCH_FORMS] = {"f16", "q8_0", "level 8", "level 6", "level 4"};
    const char *kind = p->made_up ? "made-up rows" : "a model's rows";
    int code = CLI_OK;
    for (int form = BENCH_8; form < BENCH_FORMS && code == CLI_OK; form++) {
        char label[64];
        double bytes = 0, raw = (double)p->rows_bytes * p->segment_count;
        for (uint32_t i = 0; i < p->segment_count; i++)
            bytes += (double)p->segments[i].bytes[form];
        snprintf(label, sizeof label, "%s, %s", kind, names[form]);
        code = bench_row(b, label, bytes / 1e6, "MB", "f16", raw / 1e6);
        snprintf(label, sizeof label, "%s, %s, encode", kind, names[form]);
        if (code == CLI_OK)
            code = bench_row(b, label, p->encode_rate[form] / 1e9, "GB/s", NULL, 0);
        snprintf(label, sizeof label, "%s, %s, decode", kind, names[form]);
        if (code == CLI_OK)
            code = bench_row(b, label, p->decode_rate[form] / 1e9, "GB/s", NULL, 0);
    }
    return code;
}

static int first_tokens(bench *b) {
    static const struct {
        const char *name;
        double bits_a_second;
    } links[] = {{"3 Gb/s", 3e9}, {"1 Gb/s", 1e9}, {"200 Mb/s", 200e6}, {"20 Mb/s", 20e6}};
    bench_prefix p;
    int code = bench_prefix_open(b, b->quick ? 2 : BENCH_SEGMENTS_MAX, &p);
    if (code == CLI_OK)
        code = prefix_rows(b, &p);
    for (size_t i = 0; i < sizeof links / sizeof *links && code == CLI_OK; i++) {
        cli_progress("stream: %s", links[i].name);
        code = first_token(b, links[i].name, links[i].bits_a_second, &p);
    }
    bench_prefix_close(&p);
    return code;
}

/* ---- deadlines in virtual time ---- */

static sky_form form_of(const sky_level_cost *cost) {
    double raw = BENCH_SEGMENT_TOKENS * BYTES_PER_TOKEN;
    return (sky_form){(uint64_t)(raw * cost->bits / 16), cost->loss,
                      (sky_time)(raw / DECODE_RATE * 1e9)};
}

/* The levels from `first` to `last`. */
static void stream_fill(sky_segment *segments, sky_level first, sky_level last, double token_ms) {
    size_t count;
    const sky_level_cost *costs = sky_level_costs(&count);
    for (uint32_t i = 0; i < BENCH_SEGMENTS_MAX; i++) {
        sky_segment *s = &segments[i];
        *s = (sky_segment){.token_count = BENCH_SEGMENT_TOKENS};
        for (int level = (int)first; level <= (int)last; level++)
            s->forms[s->form_count++] = form_of(&costs[level]);
        s->compute_ns = (sky_time)(BENCH_SEGMENT_TOKENS * token_ms * 1e6);
    }
}

static sky_experiment deadline_experiment(const bench *b, const sky_segment *segments,
                                          double *rates, uint64_t seed) {
    return (sky_experiment){.segments = segments,
                            .segment_count = BENCH_SEGMENTS_MAX,
                            .traces = {{rates, TRACE_SAMPLES, TRACE_STEP_NS}},
                            .source_count = 1,
                            .delay_ns = SKY_MS(30),
                            .pause_ns = SKY_MS(370),
                            .contexts = b->quick ? 40 : 400,
                            .seed = seed,
                            .options = {.deadline_ns = SKY_SECONDS(2), .slices = 18}};
}

/* Loss is of contexts that were in time, beside the oracle's over the same ones. */
static int deadline_rows(bench *b, const char *trace, const char *setting,
                         const sky_experiment_result *results) {
    int code = CLI_OK;
    char label[96];
    for (uint32_t p = 0; p < SKY_POLICIES && code == CLI_OK; p++) {
        const sky_experiment_result *r = &results[p];
        const char *policy = sky_policy_name((sky_policy)p);
        snprintf(label, sizeof label, "%s, %s, late: %s", trace, setting, policy);
        code = bench_row(b, label, 100.0 * r->late / r->contexts, "%", NULL, 0);
        snprintf(label, sizeof label, "%s, %s, loss: %s", trace, setting, policy);
        if (code == CLI_OK)
            code = bench_row(b, label, 1e3 * r->loss, "KLD/1000", "oracle", 1e3 * r->loss_oracle);
    }
    return code;
}

static int stream_deadlines(bench *b, double *rates, uint64_t seed) {
    static const struct {
        const char *name;
        double bits_a_second, token_ms, busy_share;
        sky_time busy_ns;
    } settings[] = {
        {"100 Mb/s", 100e6, TOKEN_MS, 0, 0},
        {"100 Mb/s, shared engine", 100e6, TOKEN_MS, 0.3, SKY_MS(600)},
        {"100 Mb/s, stalling engine", 100e6, TOKEN_MS, 0.1, SKY_MS(1500)},
        {"100 Mb/s, no engine", 100e6, 0, 0, 0},
        {"200 Mb/s, no engine", 200e6, 0, 0, 0},
    };
    sky_segment segments[BENCH_SEGMENTS_MAX];
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof settings / sizeof *settings * SKY_TRACE_KINDS && code == CLI_OK;
         i++) {
        sky_trace_kind kind = (sky_trace_kind)(i % SKY_TRACE_KINDS);
        size_t s = i / SKY_TRACE_KINDS;
        sky_experiment_result results[SKY_POLICIES];
        stream_fill(segments, SKY_LEVEL_8, SKY_LEVEL_ARCHIVE, settings[s].token_ms);
        sky_trace_fill(kind, seed, settings[s].bits_a_second / 8, TRACE_STEP_NS, rates,
                       TRACE_SAMPLES);
        sky_experiment experiment = deadline_experiment(b, segments, rates, seed);
        experiment.busy_share = settings[s].busy_share;
        experiment.busy_ns = settings[s].busy_ns;
        cli_progress("stream: %s, %s", sky_trace_name(kind), settings[s].name);
        for (uint32_t p = 0; p < SKY_POLICIES && code == CLI_OK; p++)
            if (sky_experiment_run(&experiment, (sky_policy)p, &results[p]) != SKY_OK)
                code = cli_failed(b->c, "stream: an experiment could not run: out of memory");
        if (code == CLI_OK)
            code = deadline_rows(b, sky_trace_name(kind), settings[s].name, results);
    }
    return code;
}

/* One answer in twenty is half a second late: what that costs by how many are under way. */
static int head_of_line(bench *b, double *rates, uint64_t seed) {
    sky_segment segments[BENCH_SEGMENTS_MAX];
    stream_fill(segments, SKY_LEVEL_4, SKY_LEVEL_4, 0);
    sky_trace_fill(SKY_TRACE_STEADY, seed, 200e6 / 8, TRACE_STEP_NS, rates, TRACE_SAMPLES);
    sky_experiment experiment = deadline_experiment(b, segments, rates, seed);
    experiment.options = (sky_pacer_options){0};
    experiment.slow_share = 0.05;
    experiment.slow_ns = SKY_MS(500);
    double alone_ms = 0;
    int code = CLI_OK;
    for (uint32_t flights = 1; flights <= SKY_PACER_FLIGHTS_MAX && code == CLI_OK; flights *= 2) {
        sky_experiment_result r;
        experiment.options.flights_max = flights;
        if (sky_experiment_run(&experiment, SKY_POLICY_PACER, &r) != SKY_OK)
            return cli_failed(b->c, "stream: an experiment could not run: out of memory");
        alone_ms = flights == 1 ? r.complete_ms : alone_ms;
        char label[64];
        snprintf(label, sizeof label, "slow answers, %u under way", flights);
        code = bench_row(b, label, r.complete_ms, "ms", "1 under way", alone_ms);
    }
    experiment.source_count = 2;
    experiment.traces[1] = experiment.traces[0];
    for (int hedged = 0; hedged < 2 && code == CLI_OK; hedged++) {
        sky_experiment_result r;
        experiment.options.no_hedging = !hedged;
        if (sky_experiment_run(&experiment, SKY_POLICY_PACER, &r) != SKY_OK)
            return cli_failed(b->c, "stream: an experiment could not run: out of memory");
        code = bench_row(b, hedged ? "slow answers, two sources" : "slow answers, two, not hedged",
                         r.complete_ms, "ms", "1 under way", alone_ms);
    }
    return code;
}

int bench_stream(bench *b) {
    double *rates = malloc(TRACE_SAMPLES * sizeof *rates);
    if (!rates)
        return cli_failed(b->c, "stream: out of memory");
    bool seeded = cli_given(b->c, "seed");
    uint64_t seed = seeded ? cli_count(b->c, "seed") : 1;
    int code = seeded ? CLI_OK : first_tokens(b); /* sockets know no seed */
    if (code == CLI_OK)
        code = head_of_line(b, rates, seed);
    if (code == CLI_OK)
        code = stream_deadlines(b, rates, seed);
    free(rates);
    return code;
}
