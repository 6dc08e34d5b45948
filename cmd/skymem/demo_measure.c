/* Answering and timing: see demo.h.
 *
 * The blocks are computed once and copied from the memory tier to the others, key by key, so
 * that every row starts from the same bytes. `bare` is measured between the answers of a row,
 * not before or after, because machines drift. */
#include "demo.h"

#ifdef SKYMEM_WITH_LLAMA

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTIAL_BLOCKS   5
#define ROTATIONS_WANTED 2
#define ROTATIONS_WAIT_S 10

static int out_of_memory(const demo *d) {
    return cli_failed(d->c, "out of memory");
}

/* ---- prompts ---- */

/* The last `count` tokens of a question, in room of the caller's. */
static int question_tail(const demo *d, const char *text, uint32_t *to) {
    uint32_t *tokens;
    size_t count;
    int code = cli_model_tokenize(d->c, &d->model, text, strlen(text), 0, &tokens, &count);
    if (code != CLI_OK)
        return code;
    if (count < DEMO_SUFFIX)
        code = cli_failed(d->c, "a question has %zu tokens with this model: at least %u", count,
                          DEMO_SUFFIX);
    else
        memcpy(to, tokens + count - DEMO_SUFFIX, DEMO_SUFFIX * sizeof *to);
    free(tokens);
    return code;
}

/* The partial prompt: five blocks as they are, the rest of the text in another order. */
static void shuffle_partial(const demo *d, const uint32_t *shared, uint32_t *to) {
    uint32_t kept = PARTIAL_BLOCKS * d->block_tokens;
    if (kept >= DEMO_SHARED)
        kept = DEMO_SHARED / 2;
    uint32_t rest = DEMO_SHARED - kept, half = rest / 2;
    memcpy(to, shared, kept * sizeof *to);
    memcpy(to + kept, shared + kept + half, (rest - half) * sizeof *to);
    memcpy(to + kept + rest - half, shared + kept, half * sizeof *to);
}

static int cut_prompts(demo *d, const char *text, size_t bytes) {
    uint32_t *shared;
    size_t count;
    int code = cli_model_tokenize(d->c, &d->model, text, bytes, 0, &shared, &count);
    if (code != CLI_OK)
        return code;
    if (count < DEMO_SHARED)
        code = cli_failed(d->c, "the shared text has %zu tokens with this model: at least %u",
                          count, DEMO_SHARED);
    for (size_t i = 0; i < DEMO_PROMPTS && code == CLI_OK; i++) {
        size_t question = i < CLI_DEMO_QUESTIONS ? i : 0;
        d->prompts[i] = malloc((DEMO_PROMPT + d->predict) * sizeof **d->prompts);
        if (!d->prompts[i]) {
            code = out_of_memory(d);
            break;
        }
        memcpy(d->prompts[i], shared, DEMO_SHARED * sizeof *shared);
        code = question_tail(d, cli_demo_questions[question], d->prompts[i] + DEMO_SHARED);
    }
    if (code == CLI_OK)
        shuffle_partial(d, shared, d->prompts[DEMO_PARTIAL]);
    free(shared);
    return code;
}

static int read_text(demo *d) {
    const char *text = cli_text(d->c, "prompt"), *file = cli_text(d->c, "prompt-file");
    if (!file)
        return cut_prompts(d, text ? text : cli_demo_text, strlen(text ? text : cli_demo_text));
    cli_blob blob;
    int code = cli_blob_read(d->c, file, 64u << 20, &blob);
    if (code == CLI_OK)
        code = cut_prompts(d, blob.data, blob.bytes);
    cli_blob_free(&blob);
    return code;
}

static bool answer_create(const demo *d, demo_answer *a) {
    a->tokens = calloc(d->predict, sizeof *a->tokens);
    a->logits = calloc(d->vocabulary, sizeof *a->logits);
    return a->tokens && a->logits;
}

int demo_prepare(demo *d) {
    sky_error error = {0};
    int code = cli_model_open(d->c, &d->model);
    if (code == CLI_OK)
        code = read_text(d);
    if (code != CLI_OK)
        return code;
    if (sky_llama_reserve(d->model.llama, DEMO_PROMPT + d->predict, &error) != SKY_OK)
        return cli_failed(d->c, "%s", error.text);
    sky_llama_logits(d->model.llama, &d->vocabulary);
    bool room = answer_create(d, &d->warm);
    for (size_t i = 0; i < DEMO_PROMPTS; i++)
        room = answer_create(d, &d->cold[i]) && room;
    if (!room)
        return out_of_memory(d);
    const char *url = "mem:256MiB";
    code = cli_store_open_urls(d->c, &url, 1, &d->memory);
    if (code == CLI_OK)
        code = cli_model_manager(d->c, &d->model, d->memory.cache, d->block_tokens, &d->manager,
                                 &d->sequence);
    const char *refusal = code == CLI_OK ? sky_manager_refusal(d->manager) : NULL;
    return refusal ? cli_failed(d->c, "this model cannot be cached: %s", refusal) : code;
}

void demo_free(demo *d) {
    for (size_t i = 0; i < DEMO_PROMPTS; i++) {
        free(d->prompts[i]);
        free(d->cold[i].tokens);
        free(d->cold[i].logits);
    }
    free(d->warm.tokens);
    free(d->warm.logits);
    free(d->bare);
    cli_model_manager_close(&d->model, d->manager, d->sequence);
    cli_store_close(&d->memory);
    cli_model_close(&d->model);
}

/* ---- answers ---- */

/* Go on from the first token; it and those behind it stand in the prompt's spare room. */
static int predict_rest(demo *d, uint32_t *prompt, demo_answer *a) {
    int code = CLI_OK;
    uint32_t token = sky_llama_greedy(d->model.llama);
    for (a->token_count = 0; code == CLI_OK && a->token_count < d->predict;) {
        size_t known = DEMO_PROMPT + a->token_count + 1;
        prompt[known - 1] = a->tokens[a->token_count++] = token;
        if (a->token_count == d->predict || sky_llama_is_end(d->model.llama, token))
            break;
        code = cli_model_compute(d->c, &d->model, prompt, known - 1, known);
        token = sky_llama_greedy(d->model.llama);
    }
    return code;
}

/* Answer one prompt, with what `sequence` finds (NULL: cold). */
static int answer_prompt(demo *d, sky_sequence *sequence, uint32_t *prompt, demo_answer *a) {
    sky_lookup lookup = {0};
    sky_time start = sky_now();
    if (sequence) {
        sky_status status = sky_sequence_load(sequence, prompt, DEMO_PROMPT, 0, &lookup);
        if (status != SKY_OK)
            return cli_failed(d->c, "the lookup failed: %s", sky_status_text(status));
    }
    sky_time loaded = sky_now();
    int code = cli_model_compute(d->c, &d->model, prompt, lookup.hit_tokens, DEMO_PROMPT);
    if (code != CLI_OK)
        return code;
    sky_llama_greedy(d->model.llama);
    sky_time first = sky_now();
    a->ttft_ms = cli_ms(first - start);
    a->load_ms = cli_ms(loaded - start);
    a->compute_ms = cli_ms(first - loaded);
    a->hit_tokens = lookup.hit_tokens;
    a->computed_tokens = lookup.computed_tokens;
    a->bytes_loaded = lookup.bytes_loaded;
    memcpy(a->logits, sky_llama_logits(d->model.llama, NULL), d->vocabulary * sizeof *a->logits);
    return predict_rest(d, prompt, a);
}

/* llama.cpp's own restore of the shared tokens, and the same question behind them. */
static int measure_bare(demo *d, const uint32_t *prompt, double *ms) {
    sky_time start = sky_now();
    sky_status status = sky_llama_state_restore(d->model.llama, d->bare, d->bare_bytes,
                                                DEMO_SHARED);
    if (status != SKY_OK)
        return cli_failed(d->c, "llama.cpp does not take its own state back: %s",
                          sky_status_text(status));
    int code = cli_model_compute(d->c, &d->model, prompt, DEMO_SHARED, DEMO_PROMPT);
    sky_llama_greedy(d->model.llama);
    *ms = cli_ms(sky_now() - start);
    return code;
}

int demo_cold(demo *d) {
    double ttft[CLI_DEMO_QUESTIONS];
    for (size_t i = 0; i < DEMO_PROMPTS; i++) {
        cli_progress("cold: prompt %zu of %d, computing %u tokens", i + 1, DEMO_PROMPTS,
                     DEMO_PROMPT);
        int code = answer_prompt(d, NULL, d->prompts[i], &d->cold[i]);
        if (code != CLI_OK)
            return code;
        if (i < CLI_DEMO_QUESTIONS)
            ttft[i] = d->cold[i].ttft_ms;
        if (i == 0)
            demo_tell_answer(d, 0);
    }
    demo_row *row = &d->rows[d->row_count++];
    *row = (demo_row){.source = "cold", .speedup = 1, .identical = true, .logits_equal = true};
    row->ttft_ms = cli_median(ttft, CLI_DEMO_QUESTIONS);
    row->compute_ms = row->ttft_ms;
    demo_tell_row(d);
    return CLI_OK;
}

/* ---- tiers ---- */

int demo_fill_memory(demo *d) {
    uint32_t blocks = 0;
    uint64_t bytes = 0;
    char size[24];
    cli_progress("computing the shared tokens once more, to store them");
    int code = cli_model_compute(d->c, &d->model, d->prompts[0], 0, DEMO_SHARED);
    if (code != CLI_OK)
        return code;
    if (sky_llama_state_save(d->model.llama, &d->bare, &d->bare_bytes) != SKY_OK)
        return cli_failed(d->c, "llama.cpp cannot save its state");
    sky_status status = sky_sequence_save(d->sequence, d->prompts[0], DEMO_SHARED, &blocks, &bytes);
    if (status != SKY_OK)
        return cli_failed(d->c, "the blocks cannot be stored: %s", sky_status_text(status));
    demo_tell(d, "The shared part is stored as %u block%s of %u token%s, %s.", blocks,
              cli_plural(blocks), d->block_tokens, cli_plural(d->block_tokens),
              cli_bytes_text(bytes, size));
    return CLI_OK;
}

/* Copy one block from the memory tier. */
static int copy_block(const demo *d, const cli_store *to, const sky_key *key,
                      const sky_key *parent) {
    sky_item has = {.key = *key};
    sky_status status = cli_one(&d->memory, SKY_OP_HAS, &has, NULL);
    sky_span span = {status == SKY_OK ? malloc(has.bytes) : NULL, has.bytes};
    if (!span.data)
        return cli_failed(d->c, "a block cannot be read from memory: %s", sky_status_text(status));
    sky_item get = {.key = *key, .spans = &span, .span_count = 1};
    status = cli_one(&d->memory, SKY_OP_GET, &get, NULL);
    if (status == SKY_OK) {
        sky_item put = {.key = *key, .spans = &span, .span_count = 1};
        const sky_call call = {.durable = true};
        if (parent)
            put.parent = *parent;
        status = cli_one(to, SKY_OP_PUT, &put, &call);
    }
    free(span.data);
    return status == SKY_OK ? CLI_OK
                            : cli_failed(d->c, "a block cannot be stored in %s: %s", to->names[0],
                                         sky_status_text(status));
}

static int fill_store(const demo *d, const cli_store *to) {
    sky_namespace ns;
    sky_key keys[DEMO_SHARED];
    sky_manager_namespace(d->manager, &ns);
    size_t count = sky_block_keys(&ns, d->prompts[0], DEMO_SHARED, d->block_tokens, keys,
                                  DEMO_SHARED);
    int code = CLI_OK;
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        cli_progress("%s: storing block %zu of %zu", to->names[0], i + 1, count);
        code = copy_block(d, to, &keys[i], i ? &keys[i - 1] : NULL);
    }
    cli_progress(NULL);
    return code;
}

static bool same_tokens(const demo_answer *a, const demo_answer *b) {
    return a->token_count == b->token_count &&
           memcmp(a->tokens, b->tokens, a->token_count * sizeof *a->tokens) == 0;
}

int demo_warm(demo *d, const char *source, sky_sequence *sequence, size_t first_prompt,
              size_t prompt_count, size_t rounds) {
    double ttft[CLI_DEMO_QUESTIONS * DEMO_ROUNDS_MAX], bares[CLI_DEMO_QUESTIONS * DEMO_ROUNDS_MAX];
    double loads[CLI_DEMO_QUESTIONS * DEMO_ROUNDS_MAX];
    demo_row *row = &d->rows[d->row_count++];
    *row = (demo_row){.identical = true, .logits_equal = true};
    snprintf(row->source, sizeof row->source, "%s", source);
    size_t samples = 0;
    for (size_t i = 0; i < rounds * prompt_count; i++) {
        size_t prompt = first_prompt + i % prompt_count;
        cli_progress("%s: answer %zu of %zu", source, i + 1, rounds * prompt_count);
        int code = measure_bare(d, d->prompts[prompt], &bares[samples]);
        if (code == CLI_OK)
            code = answer_prompt(d, sequence, d->prompts[prompt], &d->warm);
        if (code != CLI_OK)
            return code;
        const demo_answer *cold = &d->cold[prompt];
        ttft[samples] = d->warm.ttft_ms;
        loads[samples++] = d->warm.load_ms;
        row->identical = row->identical && same_tokens(&d->warm, cold);
        row->logits_equal = row->logits_equal && memcmp(d->warm.logits, cold->logits,
                                                        d->vocabulary * sizeof *cold->logits) == 0;
        row->hit_tokens = d->warm.hit_tokens;
        row->computed_tokens = d->warm.computed_tokens;
        row->bytes_loaded = row->bytes_moved = d->warm.bytes_loaded;
        row->compute_ms = d->warm.compute_ms;
    }
    row->ttft_ms = cli_median(ttft, samples);
    row->load_ms = cli_median(loads, samples);
    row->speedup = d->rows[0].ttft_ms / row->ttft_ms;
    row->bare_ms = first_prompt == DEMO_PARTIAL ? 0 : cli_median(bares, samples);
    return CLI_OK;
}

static uint64_t moved_bytes(const cli_store *store) {
    return sky_cache_metric(store->cache, 0, SKY_METRIC_TIER_MOVED_BYTES);
}

/* One tier: its row's name, how to reach it, and what happens between filling it and the first
 * answer, and after the last; both may be NULL. */
typedef struct {
    const char *source;
    const char *url;
    const char *level; /* NULL: none */
    size_t rounds;
    int (*before)(demo *, const cli_store *, const char *);
    void (*after)(demo *, const cli_store *);
} demo_tier;

/* Open a cache with one tier, fill it, answer from it. */
static int one_tier(demo *d, const demo_tier *t) {
    cli_store store = {0};
    sky_manager *manager = NULL;
    sky_sequence *sequence = NULL;
    char url[4400], source[32];
    const char *urls[] = {url};
    snprintf(url, sizeof url, "%s%s%s", t->url, t->level ? "&level=" : "",
             t->level ? t->level : "");
    snprintf(source, sizeof source, "%s%s%s", t->source, t->level ? "-" : "",
             t->level ? t->level : "");
    int code = cli_store_open_urls(d->c, urls, 1, &store);
    if (code == CLI_OK)
        code = cli_model_manager(d->c, &d->model, store.cache, d->block_tokens, &manager,
                                 &sequence);
    if (code == CLI_OK)
        code = fill_store(d, &store);
    if (code == CLI_OK && t->before)
        code = t->before(d, &store, source);
    uint64_t moved_before = store.cache ? moved_bytes(&store) : 0;
    if (code == CLI_OK)
        code = demo_warm(d, source, sequence, 0, CLI_DEMO_QUESTIONS, t->rounds);
    if (code == CLI_OK && t->level) {
        demo_row *row = &d->rows[d->row_count - 1];
        row->bytes_moved = (moved_bytes(&store) - moved_before) / (t->rounds * CLI_DEMO_QUESTIONS);
        row->lossy = strcmp(t->level, "lossless") != 0;
    }
    if (code == CLI_OK && t->after)
        t->after(d, &store);
    if (code == CLI_OK)
        demo_tell_row(d);
    cli_model_manager_close(&d->model, manager, sequence);
    cli_store_close(&store);
    return code;
}

int demo_disk(demo *d, const char *level) {
    char folder[4096], url[4200];
    int code = cli_scratch_make(d->c, NULL, "demo", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(url, sizeof url, "disk:%s?max=1GiB", folder);
    code = one_tier(d, &(demo_tier){.source = "disk", .url = url, .level = level, .rounds = 3});
    cli_scratch_remove(folder);
    return code;
}

int demo_shm(demo *d) {
    char folder[4096], socket[4120], url[4130];
    pid_t host;
    int code = cli_scratch_make(d->c, NULL, "demo", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(socket, sizeof socket, "%s/skymemd.sock", folder);
    snprintf(url, sizeof url, "shm:%s", socket);
    code = demo_host_start(d, socket, NULL, &host);
    if (code == CLI_OK) {
        code = one_tier(d, &(demo_tier){.source = "shm", .url = url, .rounds = 3});
        demo_process_stop(host);
    }
    cli_scratch_remove(folder);
    return code;
}

/* Let the sky turn under what was just stored, as far as it does in a short time. */
static int wait_rotations(demo *d, const cli_store *store, const char *source) {
    sky_sky_report r = {0};
    sky_time until = sky_now() + SKY_SECONDS(ROTATIONS_WAIT_S);
    if (sky_cache_sky_report(store->cache, 0, &r) != SKY_OK)
        return cli_failed(d->c, "%s: the tier is no embedded sky", source);
    uint64_t wanted = r.rotations + ROTATIONS_WANTED;
    while (r.rotations < wanted && sky_now() < until) {
        cli_progress("%s: letting the sky turn: %d more rotations, %.0f s at most", source,
                     (int)(wanted - r.rotations), ceil(cli_ms(until - sky_now()) / 1e3));
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        sky_cache_sky_report(store->cache, 0, &r);
    }
    cli_progress(NULL);
    return CLI_OK;
}

static void keep_report(demo *d, const cli_store *store) {
    demo_row *row = &d->rows[d->row_count - 1];
    row->sky = sky_cache_sky_report(store->cache, 0, &row->report) == SKY_OK;
    row->rotations = row->report.rotations;
}

int demo_sky(demo *d, const char *scenario, const char *time_scale, const char *level) {
    sky_constellation constellation;
    sky_placement placement;
    sky_satellite centre;
    char url[4300], source[32];
    int code = cli_scenario_read(d->c, scenario, &constellation, &placement, &centre);
    if (code != CLI_OK)
        return code;
    snprintf(source, sizeof source, "sky-%s", sky_strategy_name(placement.strategy));
    snprintf(url, sizeof url, "sky:%s?scale=%s", scenario, time_scale);
    return one_tier(d, &(demo_tier){source, url, level, 1, wait_rotations, keep_report});
}

/* The machine may be busier now than when the cold rows were measured. */
static int compute_alone(demo *d) {
    cli_progress("sky-slow: computing alone");
    int code = answer_prompt(d, NULL, d->prompts[0], &d->warm);
    if (code == CLI_OK && d->warm.ttft_ms > d->compute_alone_ms)
        d->compute_alone_ms = d->warm.ttft_ms;
    return code;
}

/* The first question over the same link, with nothing computed while it is loaded. */
static int load_alone(demo *d, const cli_store *store, const char *source) {
    const sky_manager_options options = {
        .block_tokens = d->block_tokens, .profile = d->model.profile, .load_only = true};
    sky_manager *manager = NULL;
    sky_sequence *sequence = NULL;
    sky_error error = {0};
    sky_status status = sky_manager_create(store->cache, d->model.engine, &options, &manager,
                                           &error);
    int code = CLI_OK;
    if (status == SKY_OK)
        status = sky_sequence_open(manager, d->model.engine, &sequence);
    cli_progress("%s: loading alone", source);
    if (status == SKY_OK)
        code = answer_prompt(d, sequence, d->prompts[0], &d->warm);
    d->load_alone_ms = d->warm.ttft_ms;
    sky_sequence_close(sequence);
    sky_manager_destroy(manager);
    if (status != SKY_OK)
        return cli_failed(d->c, "%s: %s", source,
                          error.text[0] ? error.text : sky_status_text(status));
    return code == CLI_OK ? compute_alone(d) : code;
}

static void keep_alone(demo *d, const cli_store *store) {
    demo_row *row = &d->rows[d->row_count - 1];
    (void)store;
    (void)compute_alone(d); /* one that fails leaves the time before */
    row->load_alone_ms = d->load_alone_ms;
    row->compute_alone_ms = d->compute_alone_ms;
}

int demo_slow(demo *d, const char *scenario, const char *time_scale) {
    char url[4300];
    snprintf(url, sizeof url, "sky:%s?scale=%s", scenario, time_scale);
    return one_tier(d, &(demo_tier){"sky-slow", url, NULL, 1, load_alone, keep_alone});
}

int demo_udp(demo *d, const char *scenario) {
    char url[4300];
    snprintf(url, sizeof url, "sky+udp:%s", scenario);
    return one_tier(d, &(demo_tier){"sky+udp", url, NULL, 1, wait_rotations, keep_report});
}

#endif
