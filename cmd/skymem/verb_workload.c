/* skymem workload: what a cache is worth over its life, by tier and level. */
#include "workload.h"

#include <stdlib.h>
#include <string.h>

#ifdef SKYMEM_WITH_LLAMA

#define MEMORY_URL "mem:1GiB"
#define DISK_MAX   "4GiB"

static const char *const tiers[] = {"mem", "disk", "sky", WORKLOAD_STORE};
#define TIERS (sizeof tiers / sizeof tiers[0])

/* Each word of an option's list is one of these, and none stands twice. */
static int check_list(cli *c, const char *option, const char *const *words, size_t word_count) {
    const char *list = cli_text(c, option);
    size_t found = 0, given = 1;
    char known[128] = "";
    for (const char *p = list; *p; p++)
        given += *p == ',';
    for (size_t i = 0; i < word_count; i++) {
        found += cli_has_word(list, ',', words[i]);
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 words[i]);
    }
    return found == given ? CLI_OK : cli_usage(c, "--%s %s: each once, of %s", option, list, known);
}

/* "none", then the codec's levels. */
static const char *level_word(size_t i) {
    return i == 0 ? "none" : sky_level_name((sky_level)(i - 1));
}

static int check_lists(cli *c) {
    const char *levels[SKY_LEVEL_COUNT + 1];
    for (size_t i = 0; i <= SKY_LEVEL_COUNT; i++)
        levels[i] = level_word(i);
    int code = check_list(c, "kinds", workload_kind_names, WORKLOAD_KINDS);
    if (code == CLI_OK)
        code = check_list(c, "tiers", tiers, TIERS);
    if (code == CLI_OK)
        code = check_list(c, "levels", levels, SKY_LEVEL_COUNT + 1);
    if (code == CLI_OK && cli_find(c, "tiers")->origin != CLI_FROM_DEFAULT &&
        cli_has_word(cli_text(c, "tiers"), ',', "mem") &&
        !cli_has_word(cli_text(c, "levels"), ',', "none"))
        code = cli_usage(c, "memory has no levels: add none to --levels, or leave mem out of "
                            "--tiers");
    return code;
}

/* Without --tiers a --store is the only one. */
static bool is_wanted(cli *c, const char *tier) {
    bool alone = cli_find(c, "tiers")->origin == CLI_FROM_DEFAULT &&
                 cli_find(c, "store")->origin == CLI_FROM_FLAG;
    return alone ? strcmp(tier, WORKLOAD_STORE) == 0
                 : cli_has_word(cli_text(c, "tiers"), ',', tier);
}

/* Memory has no levels, and a store has those of its URLs. */
static bool is_measured(cli *c, const char *tier, size_t level) {
    bool store = strcmp(tier, WORKLOAD_STORE) == 0;
    bool once = store || strcmp(tier, "mem") == 0;
    return is_wanted(c, tier) &&
           (store || cli_has_word(cli_text(c, "levels"), ',', level_word(level))) &&
           (!once || level == 0);
}

/* ---- rows ---- */

/* A reader of lines has each when it is known. */
static int print_json(const workload *w, const char *kind, const workload_row *row) {
    int code = cli_json_print(
        w->c,
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I}",
                  "kind", kind, "tier", row->tier, "level", row->level, "requests",
                  (json_int_t)w->request_count, "prompt_tokens", (json_int_t)row->prompt_tokens,
                  "hit_tokens", (json_int_t)row->hit_tokens, "overlapped_tokens",
                  (json_int_t)row->overlapped_tokens, "ttft_ms", row->ttft_ms, "cold_ttft_ms",
                  row->cold_ttft_ms, "response_ms", row->response_ms, "cold_response_ms",
                  row->cold_response_ms, "bytes_moved", (json_int_t)row->bytes_moved,
                  "bytes_stored", (json_int_t)row->bytes_stored, "answers_changed",
                  (json_int_t)row->answers_changed, "corrupt_blocks",
                  (json_int_t)row->corrupt_blocks));
    cli_flush();
    return code;
}

static int print_row(const workload *w, const workload_row *row, cli_table *table) {
    const char *kind = workload_kind_names[w->kind];
    if (w->c->json)
        return print_json(w, kind, row);
    char moved[24], stored[24];
    cli_table_cell(table, "%s", kind);
    cli_table_cell(table, "%s", row->tier);
    cli_table_cell(table, "%s", row->level);
    cli_table_cell(table, "%.0f %%", 100 * (double)row->hit_tokens / (double)row->prompt_tokens);
    cli_table_cell(table, "%.1f ms", row->ttft_ms);
    cli_table_cell(table, "%.1f ms", row->cold_ttft_ms);
    cli_table_cell(table, "%.1f ms", row->response_ms);
    cli_table_cell(table, "%.1f ms", row->cold_response_ms);
    cli_table_cell(table, "%s", cli_bytes_text(row->bytes_moved, moved));
    cli_table_cell(table, "%s", cli_bytes_text(row->bytes_stored, stored));
    cli_table_cell(table, "%u of %zu", row->answers_changed, w->request_count);
    return CLI_OK;
}

static int one_row(workload *w, const char *tier, const char *url, const char *level,
                   cli_table *table) {
    char with_level[4500];
    workload_row row = {.tier = tier, .level = level};
    snprintf(with_level, sizeof with_level, "%s", url);
    if (strcmp(level, "none") != 0)
        snprintf(with_level, sizeof with_level, "%s%clevel=%s", url, strchr(url, '?') ? '&' : '?',
                 level);
    int code = workload_replay(w, with_level, &row);
    return code == CLI_OK ? print_row(w, &row, table) : code;
}

/* The caller's store, with what it holds already. */
static int own_store(workload *w, cli_table *table) {
    workload_row row = {.tier = WORKLOAD_STORE, .level = "own"};
    int code = workload_replay(w, NULL, &row);
    return code == CLI_OK ? print_row(w, &row, table) : code;
}

/* A tier at one level, in a store that is empty. */
static int one_tier(workload *w, const char *tier, const char *level, cli_table *table) {
    char folder[4096], url[4300];
    if (strcmp(tier, WORKLOAD_STORE) == 0)
        return own_store(w, table);
    if (strcmp(tier, "mem") == 0)
        return one_row(w, tier, MEMORY_URL, level, table);
    if (strcmp(tier, "sky") == 0) {
        snprintf(url, sizeof url, "sky:%s", cli_text(w->c, "scenario"));
        return one_row(w, tier, url, level, table);
    }
    int code = cli_scratch_make(w->c, NULL, "workload", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(url, sizeof url, "disk:%s?max=" DISK_MAX, folder);
    code = one_row(w, tier, url, level, table);
    cli_scratch_remove(folder);
    return code;
}

static int one_kind(workload *w, workload_kind kind, cli_table *table) {
    int code = workload_cold(w, kind);
    for (size_t t = 0; t < TIERS; t++)
        for (size_t i = 0; code == CLI_OK && i <= SKY_LEVEL_COUNT; i++)
            if (is_measured(w->c, tiers[t], i))
                code = one_tier(w, tiers[t], level_word(i), table);
    return code;
}

static int all_kinds(workload *w) {
    static const char *const head[] = {"KIND",        "TIER",   "LEVEL",          "FOUND",
                                       "FIRST TOKEN", "COLD",   "WITH WAIT",      "COLD",
                                       "MOVED",       "STORED", "ANSWERS CHANGED"};
    cli_table table = {.columns = "lllrrrrrrrr"};
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        cli_table_cell(&table, "%s", head[i]);
    for (int kind = 0; code == CLI_OK && kind < WORKLOAD_KINDS; kind++)
        if (cli_has_word(cli_text(w->c, "kinds"), ',', workload_kind_names[kind]))
            code = one_kind(w, (workload_kind)kind, &table);
    if (code == CLI_OK && !w->c->json)
        cli_table_print(&table, stdout);
    cli_table_free(&table);
    return code;
}

/* A store that does not open shows before anything is computed. */
static int try_store(cli *c) {
    cli_store store = {0};
    int code = is_wanted(c, WORKLOAD_STORE) ? cli_store_open(c, &store) : CLI_OK;
    cli_store_close(&store);
    return code;
}

static int workload_run(cli *c) {
    static workload w;
    w.c = c;
    w.block_tokens = (uint32_t)cli_count(c, "block-tokens");
    w.predict = (uint32_t)cli_count(c, "predict");
    w.context = (uint32_t)cli_count(c, "context");
    w.sessions = (uint32_t)cli_count(c, "sessions");
    w.turns = (uint32_t)cli_count(c, "turns");
    int code = check_lists(c);
    if (code == CLI_OK)
        code = try_store(c);
    if (code == CLI_OK && cli_given(c, "arrivals"))
        code = workload_read_arrivals(&w, cli_text(c, "arrivals"), cli_number(c, "speed"));
    if (code == CLI_OK)
        code = cli_model_open(c, &w.model);
    if (code == CLI_OK)
        code = workload_prepare(&w);
    if (code == CLI_OK)
        code = all_kinds(&w);
    workload_free(&w);
    return code;
}

#else

static int workload_run(cli *c) {
    return cli_no_model(c);
}

#endif

const cli_verb cli_verb_workload = {
    .name = "workload",
    .summary = "Replay sessions through a model, by tier and level",
    .synopsis = "",
    .about =
        "Conversations and questions about documents are answered cold, and then from each tier "
        "at each level. Each row tells what was found again, when the first token came, how many "
        "bytes that took, and how many answers are not those of the cold run.\n"
        "multi-turn: each session has its own document and goes on with its own answers. "
        "multi-request: each request is a new question about the session's document. "
        "shared-document: as multi-turn, but all sessions are about one document. Sessions take "
        "turns.\n"
        "A tier is empty at first, and every request stores its prompt and answer, as skymem run "
        "does. The tier store is what --store names, as it is: what it holds already of these "
        "prompts is found too, and what is stored stays there. "
        "A conversation goes on with the answers of the cold run, so that requests can be "
        "compared. What lower levels lose adds up over a session: later blocks are computed on "
        "top of earlier ones.\n"
        "Without a level an answer can change too: the rows of an answer were computed token by "
        "token, and the cold run computes them at once, which the engine rounds differently.",
    .settings = CLI_SET_KEYS | CLI_SET_MODEL | CLI_SET_BLOCK_TOKENS | CLI_SET_THREADS |
                CLI_SET_KV_TYPE | CLI_SET_FLASH | CLI_SET_CALIBRATION,
    .options =
        (const cli_option[]){
            {.name = "kinds",
             .kind = CLI_TEXT,
             .value = "LIST",
             .fallback = "multi-turn,multi-request,shared-document",
             .help = "kinds of sessions, separated by commas"},
            {.name = "tiers",
             .kind = CLI_TEXT,
             .value = "LIST",
             .fallback = "mem,disk,sky",
             .help = "tiers, separated by commas; with --store the default is store alone",
             .detail = "mem has no levels. disk is a scratch folder. store is all tiers of --store "
                       "together, each at the level of its URL. A store is not emptied between "
                       "kinds: with another --salt-file nothing of an earlier run is found."},
            {.name = "levels",
             .kind = CLI_TEXT,
             .value = "LIST",
             .fallback = "none,8,4",
             .help = "codec levels, separated by commas; none: as the engine has it"},
            {.name = "scenario",
             .kind = CLI_SCENARIO,
             .value = "SCENARIO",
             .fallback = "demo-rotation-hop",
             .help = "the sky"},
            {.name = "sessions",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "3",
             .min = 1,
             .max = 64,
             .help = "sessions of each kind"},
            {.name = "turns",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "4",
             .min = 1,
             .max = 64,
             .help = "requests of each session"},
            {.name = "context",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "512",
             .min = 16,
             .max = 131072,
             .help = "tokens of each document"},
            {.name = "predict",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "16",
             .min = 1,
             .max = 1024,
             .help = "tokens of each answer"},
            {.name = "arrivals",
             .kind = CLI_PATH,
             .value = "FILE",
             .help = "requests arrive as in this trace: a line {timestamp} in ms for each",
             .detail = "The model answers one request after the other. How long a request waits "
                       "for those before it is counted and not slept. Other members of a line, "
                       "as Mooncake's traces have them, are not read. Without it each request "
                       "arrives when the one before has been answered."},
            {.name = "speed",
             .kind = CLI_NUMBER,
             .value = "X",
             .fallback = "1",
             .from = 1e-6,
             .max = 1000000,
             .help = "let requests arrive X times faster than in the trace"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem workload --model gemma-3-270m", "all kinds, in some minutes"},
            {"skymem workload --kinds multi-turn --tiers disk --levels none,8,4,2 --json",
             "one line for each level"},
            {"skymem workload --kinds multi-turn --store sky+udp:demo-rotation?level=8",
             "from satellites that 'skymem constellation up sky.yaml' has started"},
            {"skymem workload --arrivals trace.jsonl --speed 0.1",
             "requests that wait for each other, as in a trace at a tenth of its rate"},
            {NULL, NULL},
        },
    .json_lines = true,
    .fields =
        (const cli_field[]){
            {"kind", "multi-turn, multi-request or shared-document"},
            {"tier", "mem, disk, sky or store"},
            {"level", "none, or a level of the codec; of a store own, as its URLs say"},
            {"requests", "how many"},
            {"prompt_tokens", "of all requests"},
            {"hit_tokens", "of which were found"},
            {"overlapped_tokens", "of those computed: while the others were loaded"},
            {"ttft_ms", "first token after the request is taken up, median"},
            {"cold_ttft_ms", "the same in the cold run"},
            {"response_ms", "the same from the arrival of the request on"},
            {"cold_response_ms", "the same in the cold run"},
            {"bytes_moved", "that came from the tier, of all requests; of a store from its tiers"},
            {"bytes_stored", "that the tier holds in the end; of a store its tiers together"},
            {"answers_changed", "requests whose answer is not that of the cold run"},
            {"corrupt_blocks", "blocks found damaged, and computed instead"},
            {NULL, NULL},
        },
    .makes_folders = true,
    .failed = "no such model, a conversation longer than its context, or a tier failed",
    .run = workload_run,
};
