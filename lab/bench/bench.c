/* skymem bench: one suite or all, as lines for programs or a table for people. */
#include "bench.h"

#include "lab/lab.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

typedef struct {
    const char *name;
    int (*run)(bench *b);
} suite;

static const suite suites[] = {
    {"index", bench_index},   {"mem", bench_mem},         {"shm", bench_shm},
    {"peer", bench_peer},     {"disk", bench_disk},       {"net", bench_net},
    {"codec", bench_codec},   {"sim", bench_sim},         {"sky", bench_sky},
    {"stream", bench_stream}, {"overlap", bench_overlap}, {"policies", bench_policies}};
#define SUITES (sizeof suites / sizeof suites[0])

double bench_seconds(sky_time since) {
    return (double)(sky_now() - since) / 1e9;
}

void *bench_memory(const cli *c, size_t bytes) {
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory)
        cli_failed(c, "out of memory: %zu MiB more are needed", bytes >> 20);
    else
        memset(memory, 0x5a, bytes);
    return memory;
}

uint64_t bench_mix(uint64_t x) {
    return sky_mix64(x + 0x9e3779b97f4a7c15u);
}

float bench_normal(uint64_t seed) {
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += (double)(bench_mix(seed * 12 + i) >> 11) * 0x1p-53;
    return (float)sum;
}

uint16_t bench_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    int32_t exponent = (int32_t)(bits >> 23 & 255) - 112;
    if (exponent <= 0)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

sky_key bench_key(uint64_t i) {
    sky_key key;
    for (uint64_t part = 0; part < 4; part++) {
        uint64_t word = bench_mix(4 * i + part);
        memcpy(key.bytes + 8 * part, &word, 8);
    }
    return key;
}

int bench_row(bench *b, const char *name, double value, const char *unit, const char *ref,
              double ref_value) {
    bool compared = ref && ref_value > 0;
    if (b->c->json)
        return cli_json_print(b->c,
                              json_pack("{s:s, s:s, s:f, s:s, s:o, s:o, s:o}", "bench", b->suite,
                                        "case", name, "value", value, "unit", unit, "ref",
                                        compared ? json_string(ref) : json_null(), "ref_value",
                                        compared ? json_real(ref_value) : json_null(), "ratio",
                                        compared ? json_real(value / ref_value) : json_null()));
    cli_table *t = &b->table;
    cli_table_cell(t, "%s", b->suite);
    cli_table_cell(t, "%s", name);
    cli_table_cell(t, "%.*f", value < 100 ? 2 : 0, value);
    cli_table_cell(t, "%s", unit);
    cli_table_cell(t, "%s", compared ? ref : "");
    if (compared) {
        cli_table_cell(t, "%.*f", ref_value < 100 ? 2 : 0, ref_value);
        cli_table_cell(t, "%.2f", value / ref_value);
    } else {
        cli_table_cell(t, "%s", "");
        cli_table_cell(t, "%s", "");
    }
    return CLI_OK;
}

static int no_suite(cli *c, const char *wanted) {
    char names[200] = "";
    for (size_t i = 0, at = 0; i < SUITES; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s, ", suites[i].name);
    return cli_usage(c, "no suite \"%s\" in this version: %.*s or all", wanted,
                     (int)strlen(names) - 2, names);
}

int bench_run(cli *c) {
    static const char *const head[] = {"BENCH", "CASE", "VALUE", "UNIT", "AGAINST", "ITS", "RATIO"};
    bench b = {.c = c, .quick = cli_flag(c, "quick"), .table = {.columns = "llrllrr"}};
    const char *wanted = c->arguments[0];
    bool all = strcmp(wanted, "all") == 0, found = all;
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        cli_table_cell(&b.table, "%s", head[i]);
    for (size_t i = 0; i < SUITES; i++)
        found = found || strcmp(wanted, suites[i].name) == 0;
    if (!found)
        code = no_suite(c, wanted);
    for (size_t i = 0; i < SUITES && code == CLI_OK; i++) {
        bool needs = suites[i].run == bench_overlap || suites[i].run == bench_policies;
        if (all ? needs : strcmp(wanted, suites[i].name) != 0)
            continue; /* overlap needs a model, and minutes; policies a trace */
        b.suite = suites[i].name;
        cli_progress("%s", b.suite);
        code = suites[i].run(&b);
        cli_progress(NULL);
    }
    if (code == CLI_OK && !c->json)
        cli_table_print(&b.table, stdout);
    cli_table_free(&b.table);
    return code;
}
