/* skymem bench overlap: the first token of a stored prompt over links of many rates: loaded alone,
 * computed alone, and both at once, turn about; and what `skymem plan` says of it.
 *
 * The link is a store of this process whose one thread takes as long for a value as the rate says.
 * An answer that is not the cold run's to the last bit fails the bench. */
#include "bench.h"

#include "model.h"
#include "profile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <skymem/tier.h>

#include "../../examples/tier_heap.c"

#ifdef SKYMEM_WITH_LLAMA

#define SUFFIX 32u
#define TEXT   "texts/prose.txt"

/* ---- the link ---- */

static struct {
    void *store;
    _Atomic double rate; /* bytes a second */
    atomic_uint reading;
} line;

static sky_status line_open(const char *where, void **self, sky_error *error) {
    sky_status status = tier_heap.open(where, self, error);
    line.store = *self;
    return status;
}

static sky_status line_read(void *self, const sky_key *key, uint64_t offset, void *data,
                            uint64_t bytes, uint64_t *value_bytes) {
    sky_status status = tier_heap.read(self, key, offset, data, bytes, value_bytes);
    if (status != SKY_OK || offset >= *value_bytes)
        return status;
    uint64_t left = *value_bytes - offset;
    atomic_fetch_add(&line.reading, 1);
    sky_time until = sky_now() +
                     (sky_time)((double)(bytes < left ? bytes : left) / line.rate * 1e9);
    for (sky_time now; (now = sky_now()) < until;) {
        struct timespec pause = {(until - now) / SKY_SECONDS(1), (until - now) % SKY_SECONDS(1)};
        nanosleep(&pause, NULL);
    }
    atomic_fetch_sub(&line.reading, 1);
    return SKY_OK;
}

/* What was given up has left the link. */
static void line_calm(void) {
    do
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    while (atomic_load(&line.reading) > 0);
}

static int line_cache(const cli *c, sky_cache **out) {
    sky_tier_driver driver = tier_heap;
    driver.traits |= SKY_TIER_REMOTE;
    driver.open = line_open;
    driver.read = line_read;
    driver.lease = NULL;
    driver.release = NULL;
    const char *url = "line:4000000000";
    sky_error error = {0};
    line.rate = 1e15;
    sky_status status = sky_tier_register("line", &driver);
    if (status == SKY_OK)
        status = sky_cache_open(&url, 1, out, &error);
    return status == SKY_OK ? CLI_OK : cli_failed(c, "line: %s", error.text);
}

/* ---- answers ---- */

typedef struct {
    bench *b;
    sky_llama *llama;
    const sky_engine *engine;
    sky_cache *cache;
    uint32_t *tokens;
    uint32_t stored; /* tokens that the link has */
    float *cold;     /* [vocabulary] */
    uint32_t vocabulary;
    double compute_ms, suffix_ms;
    uint64_t bytes; /* that a load moves: such a tier reads whole values */
} overlap;

static int failed(const overlap *o, const char *what, sky_status status) {
    return cli_failed(o->b->c, "%s: %s", what, sky_status_text(status));
}

static int compute(const overlap *o, uint32_t first, uint32_t count) {
    sky_status status = o->engine->ops->prefill(o->engine->self, o->tokens + first, first, count);
    return status == SKY_OK ? CLI_OK : failed(o, "computing", status);
}

/* The better of `rounds`, which are all right; loads know what the ones before have shown. */
static int answer(overlap *o, bool load_only, int rounds, double *best_ms, sky_lookup *found) {
    const sky_manager_options options = {.load_only = load_only};
    sky_manager *manager = NULL;
    sky_sequence *q = NULL;
    int code = CLI_OK;
    sky_status status = sky_manager_create(o->cache, o->engine, &options, &manager, NULL);
    if (status == SKY_OK)
        status = sky_sequence_open(manager, o->engine, &q);
    for (int i = 0; status == SKY_OK && code == CLI_OK && i < rounds; i++) {
        uint32_t all = o->stored + SUFFIX;
        line_calm();
        sky_time start = sky_now();
        status = sky_sequence_load(q, o->tokens, all, 0, found);
        sky_time loaded = sky_now();
        if (status == SKY_OK)
            code = compute(o, found->hit_tokens, all - found->hit_tokens);
        double ms = cli_ms(sky_now() - start);
        o->suffix_ms = cli_ms(sky_now() - loaded);
        *best_ms = i == 0 || ms < *best_ms ? ms : *best_ms;
        if (code == CLI_OK && status == SKY_OK &&
            memcmp(sky_llama_logits(o->llama, NULL), o->cold, o->vocabulary * sizeof *o->cold))
            code = cli_failed(o->b->c, "the answer is not the cold run's");
    }
    sky_sequence_close(q);
    sky_manager_destroy(manager);
    return status == SKY_OK ? code : failed(o, "loading", status);
}

/* What skymem plan says, with what was measured here. */
static double planned_ms(const overlap *o, double mbps) {
    const sky_worth_question question = {.tokens = o->stored,
                                         .bytes_per_token = (double)o->bytes / o->stored,
                                         .compute_ms = o->compute_ms / o->stored,
                                         .bandwidth = mbps * 1e6,
                                         .overlap = true};
    sky_worth worth;
    if (sky_worth_judge(&question, &worth) != SKY_OK)
        return 0;
    return worth.levels[0].first_token_ms + o->suffix_ms;
}

static int one_rate(overlap *o, double mbps, const char *note) {
    char name[96];
    double load_ms = 0, both_ms = 0;
    sky_lookup found = {0};
    line.rate = mbps * 1e6 / 8;
    int code = answer(o, true, 1, &load_ms, &found);
    sky_time start = sky_now();
    if (code == CLI_OK) /* once more, as machines drift */
        code = compute(o, 0, o->stored + SUFFIX);
    double cold_ms = cli_ms(sky_now() - start);
    if (code == CLI_OK)
        code = answer(o, false, 2, &both_ms, &found);
    if (code != CLI_OK)
        return code;
    o->compute_ms = cold_ms - o->suffix_ms;
    snprintf(name, sizeof name, "%.4g Mb/s%s, load alone", mbps, note);
    bench_row(o->b, name, load_ms, "ms", "compute alone", cold_ms);
    snprintf(name, sizeof name, "%.4g Mb/s%s, both: %u tokens computed", mbps, note,
             found.computed_tokens);
    bench_row(o->b, name, both_ms, "ms", load_ms < cold_ms ? "load alone" : "compute alone",
              load_ms < cold_ms ? load_ms : cold_ms);
    snprintf(name, sizeof name, "%.4g Mb/s%s, skymem plan", mbps, note);
    return bench_row(o->b, name, planned_ms(o, mbps), "ms", "both", both_ms);
}

/* ---- the model and its prompt ---- */

static int read_tokens(overlap *o) {
    char path[4096];
    cli_blob text = {0};
    size_t count = 0;
    if (!cli_share_find(TEXT, path, sizeof path))
        return cli_failed(o->b->c, "%s did not come along", path);
    int code = cli_blob_read(o->b->c, path, 1u << 20, &text);
    uint32_t all = o->stored + SUFFIX;
    size_t room = 4 * text.bytes + 16; /* a byte may be a token, and more with what stands for it */
    o->tokens = code == CLI_OK ? malloc((room + all) * sizeof *o->tokens) : NULL;
    if (code == CLI_OK && !o->tokens)
        code = cli_failed(o->b->c, "out of memory");
    if (code == CLI_OK && (o->engine->ops->tokenize(o->engine->self, text.data, text.bytes,
                                                    o->tokens, room, &count) != SKY_OK ||
                           count == 0))
        code = cli_failed(o->b->c, "%s cannot be cut into tokens", path);
    for (size_t i = count; code == CLI_OK && i < all; i++) /* once more, if it is short */
        o->tokens[i] = o->tokens[i - count];
    cli_blob_free(&text);
    return code;
}

static int open_model(overlap *o) {
    char path[4096];
    sky_error error = {0};
    int code = cli_model_find(o->b->c, path, sizeof path);
    if (code == CLI_OK && !path[0])
        code = cli_usage(o->b->c, "which model? --model FILE.gguf or NAME");
    const sky_llama_options options = {.model_path = path,
                                       .threads = (uint32_t)cli_count(o->b->c, "threads"),
                                       .context_tokens = o->stored + SUFFIX};
    if (code == CLI_OK && sky_llama_open(&options, &o->llama, &error) != SKY_OK)
        code = cli_failed(o->b->c, "%s", error.text);
    if (code != CLI_OK)
        return code;
    o->engine = sky_llama_engine(o->llama);
    return read_tokens(o);
}

/* Compute it cold, keep its logits, and store it. */
static int fill(overlap *o) {
    sky_manager *manager = NULL;
    sky_sequence *q = NULL;
    uint32_t blocks = 0;
    sky_time start = sky_now();
    int code = compute(o, 0, o->stored);
    o->compute_ms = cli_ms(sky_now() - start);
    if (code != CLI_OK)
        return code;
    sky_status status = sky_manager_create(o->cache, o->engine, NULL, &manager, NULL);
    if (status == SKY_OK) /* which asked the engine what its state looks like */
        status = sky_sequence_open(manager, o->engine, &q);
    start = sky_now();
    if (status == SKY_OK)
        code = compute(o, 0, o->stored + SUFFIX);
    double cold_ms = cli_ms(sky_now() - start);
    o->compute_ms = cold_ms < o->compute_ms ? cold_ms : o->compute_ms;
    const float *logits = sky_llama_logits(o->llama, &o->vocabulary);
    o->cold = logits ? malloc(o->vocabulary * sizeof *o->cold) : NULL;
    if (code == CLI_OK && !o->cold)
        code = cli_failed(o->b->c, "the model gives no logits");
    else if (code == CLI_OK)
        memcpy(o->cold, logits, o->vocabulary * sizeof *o->cold);
    if (status == SKY_OK && code == CLI_OK)
        status = sky_sequence_save(q, o->tokens, o->stored, &blocks, NULL);
    sky_sequence_close(q);
    sky_manager_destroy(manager);
    return status == SKY_OK ? code : failed(o, "storing", status);
}

static int all_rates(overlap *o) {
    static const double rates[] = {5, 20, 50, 100, 200, 500, 1000, 3000};
    sky_lookup found = {0};
    double ms = 0;
    char name[96];
    int code = answer(o, true, 1, &ms, &found); /* over no link: what a load moves */
    uint64_t entries, bytes_max;
    if (code != CLI_OK)
        return code;
    tier_heap.usage(line.store, &entries, &o->bytes, &bytes_max);
    snprintf(name, sizeof name, "%u tokens, compute alone", o->stored + SUFFIX);
    bench_row(o->b, name, o->compute_ms, "ms", NULL, 0);
    bench_row(o->b, "bytes of the prefix", (double)o->bytes, "B", "loaded into rows",
              (double)found.bytes_loaded);
    code = one_rate(o, (double)o->bytes * 8 / o->compute_ms / 1e3, " (equal)");
    for (size_t i = 0; code == CLI_OK && i < sizeof rates / sizeof *rates; i++)
        if (!o->b->quick || rates[i] == 100 || rates[i] == 3000)
            code = one_rate(o, rates[i], "");
    return code;
}

int bench_overlap(bench *b) {
    overlap o = {.b = b, .stored = b->quick ? 512 : 2048};
    int code = line_cache(b->c, &o.cache);
    if (code == CLI_OK)
        code = open_model(&o);
    if (code == CLI_OK)
        code = fill(&o);
    if (code == CLI_OK)
        code = all_rates(&o);
    sky_cache_close(o.cache);
    sky_llama_close(o.llama);
    free(o.tokens);
    free(o.cold);
    return code;
}

#else

int bench_overlap(bench *b) {
    return cli_failed(b->c, "this skymem was built without llama.cpp; make demo builds it with");
}

#endif
