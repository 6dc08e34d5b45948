/* Random scenarios, one a seed, each judged by all checks. A seed that fails is a bug found: the
 * command that replays it is the last line. */
#include "sim.h"

#include "lab/sim/shrink.h"
#include "lab/sim/swarm.h"

#include <stdlib.h>
#include <string.h>

#define SHRINK_RUNS 400

typedef struct {
    uint64_t runs, events, gets, hits, sets;
    double virtual_h;
    json_t *failed;
} swarm_sum;

const char *sim_failed(const sky_sim_result *r) {
    for (uint32_t i = 0; i < r->check_count; i++)
        if (!r->checks[i].passed)
            return r->checks[i].name;
    return NULL;
}

int sim_shrink(cli *c, char *text, size_t text_max, const sky_sim_options *options) {
    sky_error error = {0};
    cli_progress("shrinking, at most %d runs", SHRINK_RUNS);
    sky_status status = sky_sim_shrink(text, text_max, options, SHRINK_RUNS, &error);
    cli_progress(NULL);
    if (status != SKY_OK)
        return cli_refused(c, status, &error);
    fprintf(stderr, "what it takes, with seed %llu:\n%s", (unsigned long long)options->seed, text);
    return CLI_OK;
}

static void sim_swarm_add(swarm_sum *sum, const sky_sim_result *r) {
    sum->runs++;
    sum->events += r->events;
    sum->gets += r->gets;
    sum->hits += r->hits;
    sum->sets += r->sets;
    sum->virtual_h += r->virtual_s / 3600;
}

/* CLI_OK even when a check fails: the others are looked for too. */
static int one_seed(cli *c, uint64_t seed, double hours, swarm_sum *sum) {
    static sky_sim_result result;
    char text[SKY_SIM_DRAWN_MAX];
    char name[40];
    sky_error error = {0};
    sky_sim_options options = {.seed = seed};
    size_t bytes = sky_sim_draw(seed, hours, text);
    snprintf(name, sizeof name, "swarm %llu", (unsigned long long)seed);
    sky_status status = sky_sim_run_text(text, bytes, name, &options, &result, &error);
    if (status != SKY_OK) {
        int code = cli_failed(c, "%s; the scenario:", error.text);
        fputs(text, stderr);
        return code;
    }
    sim_swarm_add(sum, &result);
    const char *failed = sim_failed(&result);
    if (!failed)
        return CLI_OK;
    cli_note(c, "seed %llu: check \"%s\" failed", (unsigned long long)seed, failed);
    json_array_append_new(sum->failed, json_integer((json_int_t)seed));
    return cli_flag(c, "shrink") ? sim_shrink(c, text, sizeof text, &options) : CLI_OK;
}

static int sim_swarm_tell(cli *c, const swarm_sum *sum, double wall_s) {
    char count[CLI_COUNT_TEXT_BYTES];
    if (c->json)
        return cli_json_print(c,
                              json_pack("{s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:O}", "runs",
                                        (json_int_t)sum->runs, "virtual_h", sum->virtual_h,
                                        "wall_s", wall_s, "events", (json_int_t)sum->events, "sets",
                                        (json_int_t)sum->sets, "gets", (json_int_t)sum->gets,
                                        "hits", (json_int_t)sum->hits, "failed", sum->failed));
    printf("%s, %.0f h in %.1f s (%.0f h/min): %llu events, %llu set%s, %llu get%s, "
           "%llu hit%s; %zu failed\n",
           cli_count_text(sum->runs, "sky", "skies", count), sum->virtual_h, wall_s,
           sum->virtual_h / wall_s * 60, (unsigned long long)sum->events,
           (unsigned long long)sum->sets, cli_plural(sum->sets), (unsigned long long)sum->gets,
           cli_plural(sum->gets), (unsigned long long)sum->hits, cli_plural(sum->hits),
           json_array_size(sum->failed));
    return CLI_OK;
}

int sim_swarm(cli *c) {
    uint64_t runs = cli_count(c, "swarm");
    uint64_t seed = cli_count(c, "seed");
    double hours = cli_number(c, "hours");
    swarm_sum sum = {.failed = json_array()};
    sky_time began = sky_now();
    int code = CLI_OK;
    for (uint64_t i = 0; i < runs && code == CLI_OK; i++) {
        cli_progress("seed %llu, %llu of %llu", (unsigned long long)(seed + i),
                     (unsigned long long)i, (unsigned long long)runs);
        code = one_seed(c, seed + i, hours, &sum);
    }
    cli_progress(NULL);
    if (code == CLI_OK)
        code = sim_swarm_tell(c, &sum, (double)(sky_now() - began) / 1e9);
    if (code == CLI_OK && json_array_size(sum.failed) > 0) {
        long long first = json_integer_value(json_array_get(sum.failed, 0));
        code = cli_failed(c,
                          "%zu of %llu seed%s failed; replay the first with: skymem sim --swarm 1 "
                          "--seed %lld --hours %g --shrink",
                          json_array_size(sum.failed), (unsigned long long)runs, cli_plural(runs),
                          first, hours);
    }
    json_decref(sum.failed);
    return code;
}
