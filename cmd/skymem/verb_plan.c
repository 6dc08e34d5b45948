/* skymem plan: does it pay to keep a prefix, and at which level? The library does the sums. */
#include "model.h"

#include <math.h>
#include <unistd.h>

#define CONTEXT_TOKENS 256 /* it computes nothing */

static void read_question(cli *c, sky_worth_question *q) {
    *q = (sky_worth_question){
        .tokens = cli_number(c, "tokens"),
        .bytes_per_token = cli_number(c, "bytes-per-token"),
        .compute_ms = cli_number(c, "token-ms"),
        .bandwidth = cli_number(c, "mbps") * 1e6,
        .rtt_ms = cli_number(c, "rtt-ms"),
        .reuses = cli_number(c, "reuse"),
        .keep_hours = cli_number(c, "keep-hours"),
        .storage_price = cli_number(c, "storage-price"),
        .compute_price = cli_number(c, "compute-price"),
        .transfer_price = cli_number(c, "transfer-price"),
        .deadline_ms = cli_given(c, "within-ms") ? cli_number(c, "within-ms") : 0,
        .loss_max = cli_number(c, "kld-max"),
        .loading_compute_ms = cli_given(c, "loading-token-ms") ? cli_number(c, "loading-token-ms")
                                                               : 0,
        .overlap = !cli_flag(c, "load-only") && !cli_given(c, "within-ms"),
    };
}

#ifdef SKYMEM_WITH_LLAMA

/* Of a token, in a restore of so many: layers with a window are read for that alone. */
static double bytes_of(const sky_layout *layout, double tokens) {
    double bytes = 0;
    for (uint32_t g = 0; g < layout->group_count; g++) {
        const sky_layer_group *group = &layout->groups[g];
        double rows = group->window_tokens ? fmin(group->window_tokens, tokens) : tokens;
        bytes += rows * group->layer_count * (group->k_row_bytes + group->v_row_bytes);
    }
    return bytes / tokens;
}

/* What earlier runs measured of this model here, where no flag says otherwise. */
static int take_rates(cli *c, const uint8_t fingerprint[32], sky_worth_question *q) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t asked = cli_count(c, "threads");
    uint32_t threads = asked ? (uint32_t)asked : cores > 0 ? (uint32_t)cores : 1;
    cli_rate rate = cli_rate_read(fingerprint, threads);
    if (cli_find(c, "token-ms")->origin == CLI_FROM_DEFAULT && rate.alone_ns == 0)
        return cli_failed(c,
                          "no run has measured this model with %u threads on this machine: skymem "
                          "run does with a prompt of 256 tokens; or say --token-ms",
                          threads);
    if (cli_find(c, "token-ms")->origin == CLI_FROM_DEFAULT)
        q->compute_ms = rate.alone_ns / 1e6;
    if (!cli_given(c, "loading-token-ms"))
        q->loading_compute_ms = rate.loading_ns / 1e6;
    return CLI_OK;
}

static int ask_model(cli *c, sky_worth_question *q) {
    char path[4096];
    uint8_t fingerprint[32];
    sky_layout layout;
    sky_llama *llama = NULL;
    sky_error error = {0};
    int code = cli_model_find(c, path, sizeof path);
    const sky_llama_options options = {.model_path = path, .context_tokens = CONTEXT_TOKENS};
    if (code == CLI_OK && sky_llama_open(&options, &llama, &error) != SKY_OK)
        code = cli_failed(c, "%s", error.text);
    if (code != CLI_OK)
        return code;
    const sky_engine *e = sky_llama_engine(llama);
    if (e->ops->layout(e->self, &layout, &error) != SKY_OK)
        code = cli_failed(c, "this model cannot be cached: %s", error.text);
    e->ops->fingerprint(e->self, fingerprint);
    sky_llama_close(llama);
    if (code == CLI_OK && cli_find(c, "bytes-per-token")->origin == CLI_FROM_DEFAULT &&
        q->tokens > 0)
        q->bytes_per_token = bytes_of(&layout, q->tokens);
    return code == CLI_OK ? take_rates(c, fingerprint, q) : code;
}

#else

static int ask_model(cli *c, sky_worth_question *q) {
    (void)q;
    return cli_no_model(c);
}

#endif

/* JSON has no infinity: there is no break-even. */
static json_t *number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *level_json(const sky_level_cost *cost, const sky_worth_level *l) {
    json_t *o = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "level", cost->name,
                          "bits_per_element", cost->bits, "kld", cost->loss, "bytes", l->bytes,
                          "load_ms", l->load_ms, "first_token_ms", l->first_token_ms,
                          "computed_tokens", l->computed_tokens, "cost_stored", l->cost_stored);
    json_object_set_new(o, "break_even_reuse", number_or_null(l->break_even_reuses));
    json_object_set_new(o, "break_even_mbps", number_or_null(l->break_even_bandwidth / 1e6));
    json_object_set_new(o, "acceptable", json_boolean(l->acceptable));
    json_object_set_new(o, "in_time", json_boolean(l->in_time));
    json_object_set_new(o, "faster", json_boolean(l->faster));
    json_object_set_new(o, "cheaper", json_boolean(l->cheaper));
    return o;
}

static int plan_json(const cli *c, const sky_worth *w, const sky_level_cost *costs, size_t count) {
    json_t *levels = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(levels, level_json(&costs[i], &w->levels[i]));
    json_t *level = w->store ? json_string(costs[w->level].name) : json_null();
    return cli_json_print(c, json_pack("{s:b, s:o, s:s, s:f, s:f, s:o}", "store", w->store, "level",
                                       level, "why", w->why, "compute_ms", w->compute_ms,
                                       "cost_compute", w->cost_compute, "levels", levels));
}

static const char *ms_text(double ms, char out[24]) {
    if (ms >= 10000)
        snprintf(out, 24, ms < 1e12 ? "%.1f s" : "%.3g s", ms / 1e3);
    else
        snprintf(out, 24, ms < 100 ? "%.1f ms" : "%.0f ms", ms);
    return out;
}

static void break_even_cell(cli_table *t, double value) {
    if (isfinite(value))
        cli_table_cell(t, value < 100 ? "%.2g" : "%.0f", value);
    else
        cli_table_cell(t, "%s", "never");
}

static const char *level_mark(const sky_worth *w, uint32_t i) {
    const sky_worth_level *l = &w->levels[i];
    if (w->store && w->level == i)
        return "<- store";
    return !l->acceptable ? "loses too much"
           : !l->faster   ? "computing is faster"
           : !l->cheaper  ? "does not pay"
           : !l->in_time  ? "too late"
                          : "";
}

/* What all sums follow from; the size of a token is an assumption until it is given. */
static void print_question(cli *c, const sky_worth_question *q) {
    printf("%.15g tokens of %.15g bytes each%s.\n", q->tokens, q->bytes_per_token,
           cli_find(c, "bytes-per-token")->origin != CLI_FROM_DEFAULT || cli_given(c, "model")
               ? ""
               : " (assumed: an 8B model with grouped heads; --bytes-per-token has yours)");
}

static int plan_people(const sky_worth *w, const sky_level_cost *costs, size_t count) {
    static const char *const head[] = {"LEVEL", "BYTES", "KLD",    "LOAD", "FIRST TOKEN",
                                       "COST",  "REUSE", "MBIT/S", ""};
    cli_table t = {.columns = "lrrrrrrrl"};
    char text[24];
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&t, "%s", head[i]);
    for (uint32_t i = 0; i < count; i++) {
        const sky_worth_level *l = &w->levels[i];
        cli_table_cell(&t, "%s", costs[i].name);
        cli_table_cell(&t, "%s", cli_bytes_text((uint64_t)l->bytes, text));
        cli_table_cell(&t, "%g", costs[i].loss);
        cli_table_cell(&t, "%s", ms_text(l->load_ms, text));
        cli_table_cell(&t, "%s", ms_text(l->first_token_ms, text));
        cli_table_cell(&t, "%.3g", l->cost_stored);
        break_even_cell(&t, l->break_even_reuses);
        break_even_cell(&t, l->break_even_bandwidth / 1e6);
        cli_table_cell(&t, "%s", level_mark(w, i));
    }
    if (w->store)
        printf("Store it at level %s: %s.\n", costs[w->level].name, w->why);
    else
        printf("Do not store it: %s.\n", w->why);
    printf("Computing it takes %s each time", ms_text(w->compute_ms, text));
    printf(" and costs %.3g in all.\n\n", w->cost_compute);
    cli_table_print(&t, stdout);
    printf("\nREUSE and MBIT/S: from so many on it costs less, loads faster, than computing.\n");
    return CLI_OK;
}

static int plan_run(cli *c) {
    sky_worth_question question;
    sky_worth worth;
    size_t count;
    const sky_level_cost *costs = sky_level_costs(&count);
    if (cli_given(c, "within-ms") && !(cli_number(c, "within-ms") > 0))
        return cli_usage(c, "--within-ms must be above 0; without it nothing has to be in time");
    read_question(c, &question);
    int code = cli_given(c, "model") ? ask_model(c, &question) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (sky_worth_judge(&question, &worth) != SKY_OK)
        return cli_usage(c, "--tokens, --bytes-per-token, --token-ms and --mbps must be above 0, "
                            "the others not below it, and none so large that sums overflow");
    if (c->json)
        return plan_json(c, &worth, costs, count);
    print_question(c, &question);
    return plan_people(&worth, costs, count);
}

const cli_verb cli_verb_plan = {
    .name = "plan",
    .summary = "Tell whether it pays to keep a prefix, and at which level",
    .synopsis = "",
    .about =
        "A prefix can be stored and loaded, or computed for every answer. For each codec "
        "level "
        "the table shows its bytes, what it loses (mean KL divergence, measured on Gemma 3 270M), "
        "the time to load it, the time to the first token, the cost of all answers, and where it "
        "breaks even. As the manager does it, the head is computed while the tail is loaded; "
        "with --within-ms, and with --load-only, all is loaded. Unless --bytes-per-token says "
        "otherwise, a token takes 131,072 bytes. With --model the size of a token is that of the "
        "model, and its times are those that skymem run has measured on this machine with as many "
        "--threads; flags go before both.\n"
        "It is stored at the level that is in time with the least loss, or without --within-ms at "
        "the one that answers soonest, among those that lose no more than --kld-max, answer sooner "
        "than computing, and cost less. Prices are in any currency. Formulas: docs/streaming.md.",
    .settings = CLI_SET_MODEL | CLI_SET_THREADS,
    .options =
        (const cli_option[]){
            {.name = "tokens",
             .kind = CLI_NUMBER,
             .value = "N",
             .fallback = "4096",
             .help = "length of the prefix"},
            {.name = "bytes-per-token",
             .kind = CLI_NUMBER,
             .value = "N",
             .fallback = "131072",
             .help =
                 "bytes of KV in f16 for each token: layers x kv heads x head dim x 4; the default "
                 "is an 8B model with grouped heads"},
            {.name = "token-ms",
             .kind = CLI_NUMBER,
             .value = "MS",
             .fallback = "0.25",
             .help = "the engine's time to compute one token of it"},
            {.name = "loading-token-ms",
             .kind = CLI_NUMBER,
             .value = "MS",
             .help = "the same while others are loaded, which is slower (default: --token-ms)",
             .detail = "skymem run keeps it for --model after a load over a link that leaves the "
                       "engine a part of the prefix."},
            {.name = "mbps",
             .kind = CLI_NUMBER,
             .value = "MBIT/S",
             .fallback = "1000",
             .help = "bandwidth from the store to the engine"},
            {.name = "rtt-ms",
             .kind = CLI_NUMBER,
             .value = "MS",
             .fallback = "1",
             .help = "from asking the store to its first byte"},
            {.name = "reuse",
             .kind = CLI_NUMBER,
             .value = "N",
             .fallback = "10",
             .help = "answers that begin with it while it is kept"},
            {.name = "keep-hours",
             .kind = CLI_NUMBER,
             .value = "H",
             .fallback = "24",
             .help = "how long it is kept"},
            {.name = "storage-price",
             .kind = CLI_NUMBER,
             .value = "P",
             .fallback = "0.1",
             .help = "of a GiB for 30 days"},
            {.name = "compute-price",
             .kind = CLI_NUMBER,
             .value = "P",
             .fallback = "2",
             .help = "of the engine for an hour"},
            {.name = "transfer-price",
             .kind = CLI_NUMBER,
             .value = "P",
             .fallback = "0",
             .help = "of a GiB moved from the store"},
            {.name = "within-ms",
             .kind = CLI_NUMBER,
             .value = "MS",
             .help = "when the first token must be there"},
            {.name = "kld-max",
             .kind = CLI_NUMBER,
             .value = "X",
             .fallback = "0.002",
             .help = "most that an answer may lose"},
            {.name = "load-only",
             .kind = CLI_FLAG,
             .help = "nothing is computed while the prefix is loaded, as with skymem run "
                     "--load-only"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem plan --mbps 500 --token-ms 1 --reuse 3", "a slower link and a slower engine"},
            {"skymem plan --model gemma-3-270m --tokens 2048 --mbps 50",
             "what a run of this model would take, as runs here have measured it"},
            {"skymem plan --bytes-per-token 18432 --token-ms 1.6 --mbps 200 --within-ms 2000",
             "Gemma 3 270M on two cores, from a satellite, in time"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"store", "true or false"},
            {"level", "at which level, or null"},
            {"why", "in a sentence"},
            {"compute_ms", "to compute the prefix from text"},
            {"cost_compute", "of all answers from text"},
            {"levels", "{level, bits_per_element, kld, bytes, load_ms, first_token_ms, "
                       "computed_tokens, cost_stored, break_even_reuse, break_even_mbps (null: "
                       "never), acceptable, in_time, faster, cheaper}"},
            {NULL, NULL},
        },
    .run = plan_run,
};
