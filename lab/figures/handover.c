/* A cache handed over between two cities: scenarios/handover.yaml, in parts of some minutes. The
 * window stands over one city and then over the other; both read all the while. */
#include "figures.h"

#include "lab/sim/study.h"

#define PARTS_S 600.0

typedef struct {
    FILE *csv;
} parts;

static void write_part(void *context, const sky_sim_interval *i) {
    const parts *p = context;
    for (uint32_t k = 0; k < i->ground_count; k++)
        fprintf(p->csv, "%s,%g,%llu,%llu,%s,%.3f\n", i->grounds[k].name,
                (i->from_s + i->to_s) / 2 / 60, (unsigned long long)i->grounds[k].gets,
                (unsigned long long)i->grounds[k].hits, figures_quantile(&i->grounds[k].p50).text,
                (double)i->migrated_bytes / 1048576);
}

int figures_handover(figures *f) {
    static sky_sim_result result;
    static const char name[] = "handover";
    char path[4096];
    sky_error error = {0};
    if (!cli_scenario_find(name, path, sizeof path))
        return cli_failed(f->c, "there is no scenario %s", name);
    FILE *csv = figures_csv(f, name,
                            "ground,minute,gets,hits," FIGURES_QUANTILE("get_p50") ",migrated_mib");
    if (!csv)
        return CLI_FAILED;
    parts p = {csv};
    sky_sim_options options = {
        .seed = 1, .series = write_part, .series_context = &p, .series_s = PARTS_S};
    int code = CLI_OK;
    sky_status status = sky_sim_run(path, &options, &result, &error);
    if (status != SKY_OK)
        code = cli_refused(f->c, status, &error);
    else if (sim_failed(&result))
        code = cli_failed(f->c, "%s fails check %s", path, sim_failed(&result));
    int closed = figures_csv_close(f, csv, name);
    return code == CLI_OK ? closed : code;
}
