/* skymem sim: a scenario in virtual time. */
#include "sim.h"

#include "lab/lab.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* null: too few to say. */
static json_t *bounds_json(const sky_quantile *q) {
    return json_pack("[f, o]", q->low_ms, isinf(q->high_ms) ? json_null() : json_real(q->high_ms));
}

static const char *bounds_text(const sky_quantile *q, char out[64]) {
    snprintf(out, 64, isinf(q->high_ms) ? "%.1f or more" : "%.1f to %.1f", q->low_ms, q->high_ms);
    return out;
}

static json_t *ground_json(const sky_sim_ground *g) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:o, s:f, s:o}", "name", g->name, "sets",
                     (json_int_t)g->sets, "gets", (json_int_t)g->gets, "hits", (json_int_t)g->hits,
                     "unanswered", (json_int_t)g->unanswered, "p50_ms", g->p50.ms, "p50_ci_ms",
                     bounds_json(&g->p50), "p99_ms", g->p99.ms, "p99_ci_ms", bounds_json(&g->p99));
}

static json_t *sim_json(const sky_sim_result *r) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->trace_hash);
    json_t *checks = json_object();
    for (uint32_t i = 0; i < r->check_count; i++)
        json_object_set_new(checks, r->checks[i].name, json_boolean(r->checks[i].passed));
    json_t *grounds = json_array();
    for (uint32_t i = 0; i < r->ground_count; i++)
        json_array_append_new(grounds, ground_json(&r->grounds[i]));
    json_t *users = json_array();
    for (uint32_t i = 0; i < r->user_count; i++)
        json_array_append_new(users, ground_json(&r->users[i]));
    return json_pack(
        "{s:I, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:f, s:o, s:I, "
        "s:I, s:I, s:o, s:o, s:o}",
        "seed", (json_int_t)r->seed, "trace_hash", hash, "virtual_s", r->virtual_s, "closing_s",
        r->closing_s, "wall_s", r->wall_s, "events", (json_int_t)r->events, "sets",
        (json_int_t)r->sets, "gets", (json_int_t)r->gets, "hits", (json_int_t)r->hits, "misses",
        (json_int_t)r->misses, "wrong_bytes", (json_int_t)r->wrong_bytes, "lost_acknowledged",
        (json_int_t)r->lost_acknowledged, "p50_ms", r->p50.ms, "p50_ci_ms", bounds_json(&r->p50),
        "p99_ms", r->p99.ms, "p99_ci_ms", bounds_json(&r->p99), "lookups", (json_int_t)r->lookups,
        "questions", (json_int_t)r->questions, "migrated_bytes", (json_int_t)r->migrated_bytes,
        "grounds", grounds, "users", users, "checks", checks);
}

static void ground_people(const sky_sim_ground *g) {
    char median[64], tail[64];
    printf("  %-12s %llu set%s; %llu get%s, %llu unanswered", g->name, (unsigned long long)g->sets,
           cli_plural(g->sets), (unsigned long long)g->gets, cli_plural(g->gets),
           (unsigned long long)g->unanswered);
    if (g->hits > 0)
        printf("; median %.1f ms (%s), 99th percentile %.1f ms (%s)", g->p50.ms,
               bounds_text(&g->p50, median), g->p99.ms, bounds_text(&g->p99, tail));
    printf("\n");
}

static void sim_people(const sky_sim_result *r) {
    char median[64], tail[64];
    double rate = r->gets ? 100.0 * (double)r->hits / (double)r->gets : 0;
    printf("%.0f s of sky, and %.0f s until it was quiet, in %.2f s: %llu events, trace %016llx\n",
           r->virtual_s, r->closing_s, r->wall_s, (unsigned long long)r->events,
           (unsigned long long)r->trace_hash);
    printf("%llu set%s; %llu get%s, %.1f %% hits", (unsigned long long)r->sets, cli_plural(r->sets),
           (unsigned long long)r->gets, cli_plural(r->gets), rate);
    if (r->hits > 0)
        printf("; median %.1f ms (%s), 99th percentile %.1f ms (%s)", r->p50.ms,
               bounds_text(&r->p50, median), r->p99.ms, bounds_text(&r->p99, tail));
    printf("\n");
    for (uint32_t i = 0; i < r->ground_count && r->ground_count > 1; i++)
        ground_people(&r->grounds[i]);
    for (uint32_t i = 0; i < r->user_count; i++)
        ground_people(&r->users[i]);
    if (r->lookups > 0)
        printf("%llu lookup%s, %.1f questions each\n", (unsigned long long)r->lookups,
               cli_plural(r->lookups), (double)r->questions / (double)r->lookups);
    for (uint32_t i = 0; i < r->check_count; i++)
        printf("  %-6s %s\n", r->checks[i].passed ? "ok" : "FAILED", r->checks[i].name);
}

/* The file again, made smaller. */
static int shrink_file(cli *c, const sky_sim_options *options) {
    char text[65536];
    cli_blob file;
    int code = cli_blob_read(c, c->arguments[0], sizeof text - 1, &file);
    if (code != CLI_OK)
        return code;
    memcpy(text, file.data, file.bytes);
    text[file.bytes] = 0;
    cli_blob_free(&file);
    return sim_shrink(c, text, sizeof text, options);
}

/* A word of a command line that a shell takes as it is. */
static void shell_word(const char *text, char *out, size_t bytes) {
    size_t used = 0;
    bool plain = text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_./+,:=@%-")] == 0;
    if (!plain)
        out[used++] = '\'';
    for (; *text && used + 6 < bytes; text++)
        used += (size_t)snprintf(out + used, bytes - used, *text == '\'' ? "'\\''" : "%c", *text);
    if (!plain)
        out[used++] = '\'';
    out[used] = 0;
}

static int sim_checks(cli *c, const sky_sim_result *r) {
    char until[40] = "", path[8192];
    shell_word(c->arguments[0], path, sizeof path);
    if (cli_given(c, "until"))
        snprintf(until, sizeof until, " --until %s", cli_text(c, "until"));
    for (uint32_t i = 0; i < r->check_count; i++)
        if (!r->checks[i].passed)
            return cli_failed(c,
                              "%s: check \"%s\" failed; replay it with: skymem sim %s --seed "
                              "%llu%s --trace trace.txt",
                              c->arguments[0], r->checks[i].name, path, (unsigned long long)r->seed,
                              until);
    return CLI_OK;
}

/* Both names are of one file. */
static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* What it writes must not be what it reads. */
static int check_outputs(cli *c) {
    static const char *const outputs[] = {"csv", "trace"};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (cli_given(c, outputs[i]) && is_same_file(cli_text(c, outputs[i]), c->arguments[0]))
            return cli_usage(c, "--%s %s: this is the scenario itself; name another file",
                             outputs[i], cli_text(c, outputs[i]));
    return CLI_OK;
}

static int sim_scenario(cli *c) {
    if (c->argument_count != 1)
        return cli_usage(c, "a scenario is missing: skymem sim SCENARIO");
    int checked = check_outputs(c);
    if (checked != CLI_OK)
        return checked;
    sky_sim_options options = {.seed = cli_count(c, "seed"),
                               .trace_path = cli_text(c, "trace"),
                               .csv_path = cli_text(c, "csv")};
    if (cli_given(c, "until"))
        options.until_s = cli_number(c, "until");
    static sky_sim_result result;
    sky_error error = {0};
    cli_progress("%s: running", c->arguments[0]);
    sky_status status = sky_sim_run(c->arguments[0], &options, &result, &error);
    cli_progress(NULL);
    if (status != SKY_OK)
        return cli_refused(c, status, &error);
    int code = CLI_OK;
    if (c->json)
        code = cli_json_print(c, sim_json(&result));
    else
        sim_people(&result);
    if (code == CLI_OK && cli_flag(c, "shrink") && sim_failed(&result))
        code = shrink_file(c, &options);
    return code == CLI_OK ? sim_checks(c, &result) : code;
}

/* What a run is of: the first one whose option is given, with what else it has a use for. */
int sim_run(cli *c) {
    static const struct {
        const char *option, *options;
        bool scenario;
        int (*run)(cli *c);
    } kinds[] = {
        {"figures", "figures redraw", false, sim_figures},
        {"swarm", "swarm seed hours shrink", false, sim_swarm},
        {"proxy", "proxy seed", true, sim_proxy},
        {"replay", "replay seed memory-blocks replay-tokens prefill", true, sim_replay},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char what[16];
        if (!cli_given(c, kinds[i].option))
            continue;
        snprintf(what, sizeof what, "--%s", kinds[i].option);
        if (!kinds[i].scenario && c->argument_count > 0)
            return cli_usage(c, "%s has no use for a scenario: %s", what, c->arguments[0]);
        int code = cli_only(c, what, kinds[i].options);
        if (code == CLI_OK && c->argument_count > 0)
            code = cli_scenario_argument(c, 0);
        return code == CLI_OK ? kinds[i].run(c) : code;
    }
    int code = cli_only(c, "a scenario", "seed until trace csv shrink");
    if (code == CLI_OK && c->argument_count > 0)
        code = cli_scenario_argument(c, 0);
    return code == CLI_OK ? sim_scenario(c) : code;
}
