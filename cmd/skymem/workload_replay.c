/* Answering requests, cold and from a tier: see workload.h. */
#include "workload.h"

#ifdef SKYMEM_WITH_LLAMA

#include <stdlib.h>
#include <string.h>

#define FLUSH_S 60

/* Go on from the first token; the answer stands in the prompt's spare room too. */
static int predict_rest(workload *w, const workload_text *prompt, workload_answer *a) {
    uint32_t token = sky_llama_greedy(w->model.llama);
    int code = CLI_OK;
    a->held = prompt->count;
    for (a->count = 0; code == CLI_OK && !sky_llama_is_end(w->model.llama, token);) {
        prompt->tokens[prompt->count + a->count] = a->tokens[a->count] = token;
        a->count++;
        if (a->count == w->predict)
            break;
        code = cli_model_compute(w->c, &w->model, prompt->tokens, a->held, a->held + 1);
        a->held++;
        token = sky_llama_greedy(w->model.llama);
    }
    return code;
}

int workload_answer_one(workload *w, sky_sequence *sequence, const workload_text *prompt,
                        workload_answer *a) {
    sky_time start = sky_now();
    memset(&a->lookup, 0, sizeof a->lookup);
    if (sequence) {
        sky_status status = sky_sequence_load(sequence, prompt->tokens, prompt->count, 0,
                                              &a->lookup);
        if (status != SKY_OK)
            return cli_failed(w->c, "the lookup failed: %s", sky_status_text(status));
    }
    int code = cli_model_compute(w->c, &w->model, prompt->tokens, a->lookup.hit_tokens,
                                 prompt->count);
    if (code != CLI_OK)
        return code;
    sky_llama_greedy(w->model.llama);
    a->ttft_ms = cli_ms(sky_now() - start);
    code = predict_rest(w, prompt, a);
    a->busy_ms = cli_ms(sky_now() - start);
    return code;
}

/* Store the prompt and its answer, as far as the engine holds them. */
static int save_state(const workload *w, const cli_store *store, sky_sequence *sequence,
                      const workload_text *prompt, workload_answer *a) {
    sky_time start = sky_now();
    sky_status status = sky_sequence_save(sequence, prompt->tokens, a->held, NULL, NULL);
    if (status == SKY_OK)
        status = sky_flush(store->cache, sky_now() + SKY_SECONDS(FLUSH_S), NULL);
    a->busy_ms += cli_ms(sky_now() - start);
    return status == SKY_OK ? CLI_OK
                            : cli_failed(w->c, "%s: the blocks cannot be stored: %s",
                                         store->names[0], sky_status_text(status));
}

static bool answers_differ(const workload_answer *a, const workload_answer *b) {
    return a->count != b->count || memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens) != 0;
}

/* One model answers one request after another, in the order in which they arrive: how long request
 * `i` takes with its wait. *free_ms: when the model is free. */
static double response_ms(const workload *w, size_t i, const workload_answer *a, double *free_ms) {
    double arrival = w->arrivals_ms ? w->arrivals_ms[i] : *free_ms;
    double start = arrival > *free_ms ? arrival : *free_ms;
    *free_ms = start + a->busy_ms;
    return start - arrival + a->ttft_ms;
}

/* What each request took, for the medians. */
typedef struct {
    double *ttft, *cold_ttft, *response, *cold_response; /* [requests] */
    double free_ms, cold_free_ms;
} replay_times;

static void count_answer(const workload *w, size_t i, replay_times *t, workload_row *row) {
    const workload_request *r = &w->requests[i];
    const workload_answer *a = &w->warm;
    row->prompt_tokens += r->prompt.count;
    row->hit_tokens += a->lookup.hit_tokens;
    row->overlapped_tokens += a->lookup.computed_tokens;
    row->bytes_moved += a->lookup.bytes_loaded;
    row->corrupt_blocks += a->lookup.corrupt_blocks;
    row->answers_changed += answers_differ(a, &r->cold);
    t->ttft[i] = a->ttft_ms;
    t->cold_ttft[i] = r->cold.ttft_ms;
    t->response[i] = response_ms(w, i, a, &t->free_ms);
    t->cold_response[i] = response_ms(w, i, &r->cold, &t->cold_free_ms);
}

static int replay_all(workload *w, const cli_store *store, sky_sequence *sequence, replay_times *t,
                      workload_row *row) {
    int code = CLI_OK;
    cli_stage("%s, %s at level %s: %zu requests", workload_kind_names[w->kind], row->tier,
              row->level, w->request_count);
    for (size_t i = 0; code == CLI_OK && i < w->request_count; i++) {
        const workload_text *prompt = &w->requests[i].prompt;
        cli_progress("%s, %s at level %s: request %zu of %zu", workload_kind_names[w->kind],
                     row->tier, row->level, i + 1, w->request_count);
        code = workload_answer_one(w, sequence, prompt, &w->warm);
        if (code == CLI_OK)
            code = save_state(w, store, sequence, prompt, &w->warm);
        if (code == CLI_OK)
            count_answer(w, i, t, row);
    }
    cli_progress(NULL);
    return code;
}

static int with_times(workload *w, const cli_store *store, sky_sequence *sequence,
                      workload_row *row) {
    size_t n = w->request_count;
    double *room = calloc(4 * n, sizeof *room);
    replay_times t = {room, room + n, room + 2 * n, room + 3 * n, 0, 0};
    if (!room)
        return cli_failed(w->c, "out of memory");
    int code = replay_all(w, store, sequence, &t, row);
    if (code == CLI_OK) {
        row->ttft_ms = cli_median(t.ttft, n);
        row->cold_ttft_ms = cli_median(t.cold_ttft, n);
        row->response_ms = cli_median(t.response, n);
        row->cold_response_ms = cli_median(t.cold_response, n);
    }
    free(room);
    return code;
}

/* What a tier decodes it counts as it lies; the lookups count what they were given. */
static void count_bytes(const cli_store *store, workload_row *row) {
    uint64_t moved = 0;
    for (size_t i = 0; i < store->tier_count; i++) {
        uint64_t coded = sky_cache_metric(store->cache, i, SKY_METRIC_TIER_MOVED_BYTES);
        moved += coded > 0 || store->tier_count == 1
                     ? coded
                     : sky_cache_metric(store->cache, i, SKY_METRIC_TIER_READ_BYTES);
        row->bytes_stored += sky_cache_metric(store->cache, i, SKY_METRIC_TIER_BYTES_USED);
    }
    row->bytes_moved = moved > 0 ? moved : row->bytes_moved;
}

int workload_replay(workload *w, const char *url, workload_row *row) {
    cli_store store = {0};
    sky_manager *manager = NULL;
    sky_sequence *sequence = NULL;
    int code = url ? cli_store_open_urls(w->c, &url, 1, &store) : cli_store_open(w->c, &store);
    if (code == CLI_OK)
        code = cli_model_manager(w->c, &w->model, store.cache, w->block_tokens, &manager,
                                 &sequence);
    const char *refusal = code == CLI_OK ? sky_manager_refusal(manager) : NULL;
    if (refusal)
        code = cli_failed(w->c, "this model cannot be cached: %s", refusal);
    if (code == CLI_OK)
        code = with_times(w, &store, sequence, row);
    if (code == CLI_OK)
        count_bytes(&store, row);
    cli_model_manager_close(&w->model, manager, sequence);
    cli_store_close(&store);
    return code;
}

#endif
