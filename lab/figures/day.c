/* A day of rotation, and what migration costs: whole runs of the simulator, told part by part. */
#include "figures.h"

#include <string.h>

#define DAY_PARTS_S 1800

/* Starlink's first shell through a gateway: 25 servers that hold less than all keys. */
static void day_scenario(char *text, size_t bytes, bool physical, int strategy, double hours,
                         double every_s) {
    snprintf(text, bytes,
             "%sconstellation: {shell: starlink-a}\n"
             "placement: {strategy: %s, servers: 25}\n"
             "satellite: {memory: 4MiB, processing_ms: 0.02}\n"
             "links: {isl_gbps: 100, ground_mbps: 10000, queue: 64MiB, loss: 0.001, jitter_ms: 1}\n"
             "workload: {keys: 400, gets: %.0f, value: 300KiB, zipf: 0.9, every_ms: %.0f}\n"
             "faults: {crash_per_h: 0.5}\n"
             "until: %.0fh\n",
             physical ? FIGURES_PHYSICAL : "", figures_strategies[strategy], hours * 3600 / every_s,
             every_s * 1000, hours);
}

typedef struct {
    FILE *csv;
    int strategy;
} day;

static void tell_part(void *context, const sky_sim_interval *i) {
    day *d = context;
    double hour = i->to_s / 3600, ratio = i->gets ? (double)i->hits / (double)i->gets : 0;
    fprintf(d->csv, "%s,%.2f,%llu,%llu,%llu,%.4f,%s,%s,%llu\n", figures_strategies[d->strategy],
            hour, (unsigned long long)i->rotations, (unsigned long long)i->gets,
            (unsigned long long)i->hits, ratio, figures_quantile(&i->p50).text,
            figures_quantile(&i->p99).text, (unsigned long long)i->migrated_bytes);
}

int figures_run(figures *f, const char *text, const sky_sim_options *options,
                sky_sim_result *result) {
    sky_error error = {0};
    sky_status status = sky_sim_run_text(text, strlen(text), "study", options, result, &error);
    if (status != SKY_OK)
        return cli_refused(f->c, status, &error);
    const char *failed = sim_failed(result);
    if (!failed)
        return CLI_OK;
    int code = cli_failed(f->c, "the study's own run fails check %s:", failed);
    fputs(text, stderr);
    return code;
}

int figures_day(figures *f, bool physical, FILE *whole) {
    static sky_sim_result result;
    const char *name = physical ? "physical-day" : "day";
    FILE *csv = figures_csv(f, name,
                            "strategy,hour,rotations,gets,hits,hit_ratio," FIGURES_QUANTILE(
                                "get_p50") "," FIGURES_QUANTILE("get_p99") ","
                                                                           "migrated_bytes");
    if (!csv)
        return CLI_FAILED;
    int code = CLI_OK;
    for (int s = 0; s < STRATEGIES && code == CLI_OK; s++) {
        char text[1024];
        day d = {csv, s};
        sky_sim_options options = {
            .seed = 1, .series = tell_part, .series_context = &d, .series_s = DAY_PARTS_S};
        day_scenario(text, sizeof text, physical, s, 24, 10);
        code = figures_run(f, text, &options, &result);
        fprintf(whole, "%s,%s,%llu,%llu,%s,%s,%llu,%llu\n", physical ? "physical" : "ideal",
                figures_strategies[s], (unsigned long long)result.gets,
                (unsigned long long)result.hits, figures_quantile(&result.p50).text,
                figures_quantile(&result.p99).text, (unsigned long long)result.bytes_read,
                (unsigned long long)result.migrated_bytes);
    }
    int closed = figures_csv_close(f, csv, name);
    return code == CLI_OK ? closed : code;
}

int figures_migration(figures *f, bool physical) {
    static const double every_s[] = {1, 3, 10, 30, 100, 300};
    static sky_sim_result result;
    const char *name = physical ? "physical-migration" : "migration";
    FILE *csv = figures_csv(f, name,
                            "strategy,gets_per_h,hits,bytes_read,migrated_bytes,"
                            "migrated_bytes_per_hit,migrated_per_byte_read");
    if (!csv)
        return CLI_FAILED;
    int code = CLI_OK;
    for (int s = 0; s < STRATEGIES; s++) {
        for (size_t i = 0; i < sizeof every_s / sizeof every_s[0] && code == CLI_OK; i++) {
            char text[1024];
            sky_sim_options options = {.seed = 1};
            day_scenario(text, sizeof text, physical, s, 6, every_s[i]);
            code = figures_run(f, text, &options, &result);
            double per_byte = result.bytes_read
                                  ? (double)result.migrated_bytes / (double)result.bytes_read
                                  : 0;
            fprintf(
                csv, "%s,%g,%llu,%llu,%llu,%.1f,%.5f\n", figures_strategies[s], 3600 / every_s[i],
                (unsigned long long)result.hits, (unsigned long long)result.bytes_read,
                (unsigned long long)result.migrated_bytes,
                result.hits ? (double)result.migrated_bytes / (double)result.hits : 0, per_byte);
        }
    }
    int closed = figures_csv_close(f, csv, name);
    return code == CLI_OK ? closed : code;
}
