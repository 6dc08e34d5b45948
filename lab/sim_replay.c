/* `skymem sim --replay TRACE [SCENARIO.yaml]`: a service's requests against memory alone, and
 * against memory with a sky behind it. */
#include "sim.h"

#include "lab/sim/replay.h"

#include <stdlib.h>
#include <string.h>

#define TRACE_BYTES_MAX (1ull << 30)
#define ROWS_MAX        4
#define BLOCK_MAX       100000000

typedef struct {
    sky_replay_request *requests;
    size_t count, max;
    uint32_t block_end;
} trace;

typedef struct {
    char name[48];
    sky_replay_result result;
} row;

/* ---- the trace ---- */

static void trace_free(trace *t) {
    for (size_t i = 0; i < t->count; i++)
        free((uint32_t *)t->requests[i].blocks);
    free(t->requests);
}

static bool whole_within(const json_t *value, json_int_t max, uint32_t *out) {
    json_int_t whole = json_integer_value(value);
    if (!json_is_integer(value) || whole < 0 || whole > max)
        return false;
    *out = (uint32_t)whole;
    return true;
}

static bool make_room(trace *t) {
    if (t->count < t->max)
        return true;
    size_t max = t->max ? 2 * t->max : 1024;
    sky_replay_request *more = realloc(t->requests, max * sizeof *more);
    if (!more)
        return false;
    t->requests = more;
    t->max = max;
    return true;
}

/* NULL, or what is wrong with it. */
static const char *read_line(trace *t, const json_t *line) {
    const json_t *at = json_object_get(line, "timestamp"), *id;
    const json_t *ids = json_object_get(line, "hash_ids");
    double ms = json_number_value(at);
    uint32_t tokens;
    if (!json_is_number(at) || !(ms >= 0 && ms <= SKY_REPLAY_S_MAX * 1e3))
        return "timestamp must be milliseconds within 366 days";
    if (!whole_within(json_object_get(line, "input_length"), UINT32_MAX, &tokens))
        return "input_length must be a number of tokens";
    if (!json_is_array(ids))
        return "hash_ids must be a list of block numbers";
    size_t i, count = json_array_size(ids);
    uint32_t *blocks = calloc(count + 1, sizeof *blocks);
    if (!blocks || !make_room(t)) {
        free(blocks);
        return "out of memory";
    }
    t->requests[t->count++] = (sky_replay_request){ms / 1e3, tokens, blocks, (uint32_t)count};
    json_array_foreach(ids, i, id) {
        if (!whole_within(id, BLOCK_MAX, &blocks[i]))
            return "hash_ids must be block numbers from 0 to 100000000";
        t->block_end = blocks[i] >= t->block_end ? blocks[i] + 1 : t->block_end;
    }
    return NULL;
}

static int trace_read(const cli *c, const char *path, trace *t) {
    cli_blob file;
    int code = cli_blob_read(c, path, TRACE_BYTES_MAX, &file);
    if (code != CLI_OK)
        return code;
    const char *at = file.data, *end = at + file.bytes;
    for (unsigned line = 1; code == CLI_OK && at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((stop ? stop : end) - at);
        json_t *object = bytes ? json_loadb(at, bytes, 0, NULL) : NULL;
        const char *wrong = !bytes                   ? NULL
                            : json_is_object(object) ? read_line(t, object)
                                                     : "no JSON object";
        if (wrong)
            code = cli_failed(c,
                              "%s:%u: %s; a line is {\"timestamp\": ms, \"input_length\": tokens, "
                              "\"hash_ids\": [block, …]}",
                              path, line, wrong);
        json_decref(object);
        at += bytes + 1;
    }
    cli_blob_free(&file);
    return code;
}

/* ---- telling ---- */

static double hit_ratio(const sky_replay_result *r) {
    return r->blocks ? (double)(r->memory_hits + r->sky_hits) / (double)r->blocks : 0;
}

static json_t *row_json(const row *w, double none_s) {
    const sky_replay_result *r = &w->result;
    return json_pack("{s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, "
                     "s:f, s:f, s:f}",
                     "case", w->name, "requests", (json_int_t)r->requests, "blocks",
                     (json_int_t)r->blocks, "hit_ratio", hit_ratio(r), "memory_hits",
                     (json_int_t)r->memory_hits, "sky_hits", (json_int_t)r->sky_hits, "sky_misses",
                     (json_int_t)r->sky_misses, "sky_sets", (json_int_t)r->sky_sets, "dropped_sets",
                     (json_int_t)r->dropped_sets, "evictions", (json_int_t)r->evictions, "gossip",
                     (json_int_t)r->gossip, "computed_s", r->computed_s, "loaded_s", r->loaded_s,
                     "saved_s", none_s - r->computed_s - r->loaded_s, "ttft_mean_s", r->ttft_mean_s,
                     "ttft_p50_s", r->ttft_p50_s, "ttft_p99_s", r->ttft_p99_s, "wall_s", r->wall_s);
}

static void rows_table(const row *rows, size_t count, double none_s) {
    static const char *const head[] = {"CASE",  "HITS",    "MEMORY",    "SKY",      "COMPUTED s",
                                       "SKY s", "SAVED s", "TTFT MEAN", "MEDIAN s", "P99 s"};
    cli_table t = {.columns = "lrrrrrrrrr"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        cli_table_cell(&t, "%s", head[i]);
    for (size_t i = 0; i < count; i++) {
        const sky_replay_result *r = &rows[i].result;
        cli_table_cell(&t, "%s", rows[i].name);
        cli_table_cell(&t, "%.1f %%", 100 * hit_ratio(r));
        cli_table_cell(&t, "%llu", (unsigned long long)r->memory_hits);
        cli_table_cell(&t, "%llu", (unsigned long long)r->sky_hits);
        cli_table_cell(&t, "%.0f", r->computed_s);
        cli_table_cell(&t, "%.0f", r->loaded_s);
        cli_table_cell(&t, "%.0f", none_s - r->computed_s - r->loaded_s);
        cli_table_cell(&t, "%.3f", r->ttft_mean_s);
        cli_table_cell(&t, "%.3f", r->ttft_p50_s);
        cli_table_cell(&t, "%.3f", r->ttft_p99_s);
    }
    cli_table_print(&t, stdout);
}

static int sim_replay_tell(cli *c, const row *rows, size_t count) {
    double none_s = rows[0].result.computed_s;
    if (!c->json) {
        rows_table(rows, count, none_s);
        return CLI_OK;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, row_json(&rows[i], none_s));
    return cli_json_print(c, json_pack("{s:o}", "rows", list));
}

/* ---- running ---- */

static int sim_replay_play(cli *c, const trace *t, uint32_t memory_blocks, const char *scenario,
                           row *out) {
    sky_replay_options options = {.scenario_path = scenario,
                                  .block_tokens = (uint32_t)cli_count(c, "replay-tokens"),
                                  .block_end = t->block_end,
                                  .memory_blocks = memory_blocks,
                                  .prefill_tokens_s = cli_number(c, "prefill"),
                                  .seed = cli_count(c, "seed")};
    sky_error error = {0};
    cli_progress("%s", out->name);
    sky_status status = sky_replay_run(t->requests, t->count, &options, &out->result, &error);
    cli_progress(NULL);
    return status == SKY_OK ? CLI_OK : cli_refused(c, status, &error);
}

int sim_replay(cli *c) {
    trace t = {0};
    row rows[ROWS_MAX] = {{.name = "no cache"}};
    uint32_t memory = (uint32_t)cli_count(c, "memory-blocks");
    const char *scenario = c->argument_count ? c->arguments[0] : NULL;
    size_t count = 0;
    int code = trace_read(c, cli_text(c, "replay"), &t);
    if (code == CLI_OK)
        code = sim_replay_play(c, &t, 0, NULL, &rows[count++]);
    snprintf(rows[1].name, sizeof rows[1].name, "memory, %u blocks", memory);
    if (code == CLI_OK)
        code = sim_replay_play(c, &t, memory, NULL, &rows[count++]);
    snprintf(rows[2].name, sizeof rows[2].name, "memory and sky");
    if (code == CLI_OK && scenario)
        code = sim_replay_play(c, &t, memory, scenario, &rows[count++]);
    snprintf(rows[count].name, sizeof rows[count].name, "memory without end");
    if (code == CLI_OK)
        code = sim_replay_play(c, &t, t.block_end, NULL, &rows[count++]);
    if (code == CLI_OK)
        code = sim_replay_tell(c, rows, count);
    trace_free(&t);
    return code;
}
