/* Proves that the lines a run writes for its requests add up to the run's own totals, are the same
 * bytes for the same seed, change nothing about the run, and count messages and satellites as the
 * placement has them; and that a folder that is not there is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "lab/sim/request_log.h"
#include "lab/sim/run.h"

typedef struct {
    long long began_ns, latency_ns, light_ns, link_ns, processing_ns, session_ns;
    unsigned ground, key, satellites, hops, messages, chunks;
    unsigned long long bytes;
    long long land_ns;
    char op[16], status[24], user[32];
} row;

typedef struct {
    char *text;
    size_t bytes;
    row *rows;
    size_t count;
} table;

static long long number(const char *whole, const char *fraction, long long unit) {
    return atoll(whole) * unit + atoll(fraction);
}

static row row_of(const char *line) {
    row r;
    char s[7][2][24];
    int skipped = 0;
    int got = sscanf(
        line,
        "%23[0-9].%23[0-9],%u,%15[a-z],%u,%llu,%23[A-Z_],%23[0-9].%23[0-9],%u,%u,%u,"
        "%u,%23[0-9].%23[0-9],%23[0-9].%23[0-9],%23[0-9].%23[0-9],%23[0-9].%23[0-9],%n",
        s[0][0], s[0][1], &r.ground, r.op, &r.key, &r.bytes, r.status, s[1][0], s[1][1],
        &r.satellites, &r.hops, &r.messages, &r.chunks, s[2][0], s[2][1], s[3][0], s[3][1], s[4][0],
        s[4][1], s[5][0], s[5][1], &skipped);
    size_t name = strcspn(line + skipped, ",");
    if (got != 21 || name >= sizeof r.user ||
        sscanf(line + skipped + name, ",%23[0-9].%23[0-9]", s[6][0], s[6][1]) != 2)
        fail_msg("%d fields: %s", got, line);
    snprintf(r.user, sizeof r.user, "%.*s", (int)name, line + skipped);
    r.land_ns = number(s[6][0], s[6][1], 1000000);
    r.began_ns = number(s[0][0], s[0][1], 1000000000);
    r.latency_ns = number(s[1][0], s[1][1], 1000000);
    r.light_ns = number(s[2][0], s[2][1], 1000000);
    r.link_ns = number(s[3][0], s[3][1], 1000000);
    r.processing_ns = number(s[4][0], s[4][1], 1000000);
    r.session_ns = number(s[5][0], s[5][1], 1000000);
    return r;
}

static const char *path_of(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/skymem-request-log-test-%d.csv", (int)getpid());
    return path;
}

static table read_table(void) {
    table t = {0};
    assert_int_equal(sky_file_read_all(path_of(), 1u << 26, &t.text, &t.bytes, NULL), SKY_OK);
    unlink(path_of());
    char *text = malloc(t.bytes + 1), *rest = text;
    assert_non_null(text);
    memcpy(text, t.text, t.bytes);
    text[t.bytes] = 0;
    assert_string_equal(strsep(&rest, "\n"), SKY_REQUEST_LOG_COLUMNS);
    t.rows = calloc(t.bytes / 16, sizeof *t.rows);
    assert_non_null(t.rows);
    for (char *line; rest && (line = strsep(&rest, "\n")) && *line;)
        t.rows[t.count++] = row_of(line);
    free(text);
    return t;
}

static void table_free(table *t) {
    free(t->text);
    free(t->rows);
}

static sky_sim_result simulate(const char *scenario, double until_s, bool logged) {
    sky_sim_options options = {.seed = 3, .until_s = until_s};
    sky_sim_result result;
    sky_error error = {0};
    options.csv_path = logged ? path_of() : NULL;
    if (sky_sim_run(scenario, &options, &result, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return result;
}

static uint64_t count(const table *t, const char *op, const char *status) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += strcmp(t->rows[i].op, op) == 0 && strcmp(t->rows[i].status, status) == 0;
    return n;
}

static int by_size(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

/* The middle hit's time, as the run has it from its steps of 0.1 %. */
static double median_ms(const table *t) {
    long long *times = calloc(t->count + 1, sizeof *times);
    size_t hits = 0;
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].op, "get") == 0 && strcmp(t->rows[i].status, "SKY_OK") == 0)
            times[hits++] = t->rows[i].latency_ns;
    qsort(times, hits, sizeof *times, by_size);
    double ms = (double)times[(hits + 1) / 2 - 1] / 1e6;
    free(times);
    return ms;
}

static void expect_totals(const table *t, const sky_sim_result *r) {
    uint64_t hits = count(t, "get", "SKY_OK"), misses = count(t, "get", "SKY_MISS"), bytes = 0;
    for (size_t i = 0; i < t->count; i++)
        bytes += strcmp(t->rows[i].op, "get") == 0 ? t->rows[i].bytes : 0;
    assert_int_equal(hits, r->hits);
    assert_int_equal(hits + misses, r->gets);
    assert_int_equal(count(t, "put", "SKY_OK"), r->sets);
    assert_int_equal(bytes, r->bytes_read);
    double off = r->p50.ms / median_ms(t);
    assert_true(off > 0.9989 && off < 1.0011);
}

static void lines_add_up_to_the_run(void **state) {
    (void)state;
    sky_sim_result plain = simulate("scenarios/sim-smoke.yaml", 40, false);
    sky_sim_result logged = simulate("scenarios/sim-smoke.yaml", 40, true);
    assert_int_equal(plain.trace_hash, logged.trace_hash);
    table first = read_table();
    expect_totals(&first, &logged);
    simulate("scenarios/sim-smoke.yaml", 40, true);
    table again = read_table();
    assert_int_equal(first.bytes, again.bytes);
    assert_memory_equal(first.text, again.text, first.bytes);
    for (size_t i = 0; i < first.count; i++) {
        const row *r = &first.rows[i];
        assert_true(r->ground == 0 && r->key < 200);
        assert_true(r->satellites <= r->messages && (r->messages > 0 || r->hops == 0));
        if (strcmp(r->op, "get") == 0 && r->messages > 0)
            assert_int_equal(r->light_ns + r->link_ns + r->processing_ns + r->session_ns,
                             r->latency_ns);
    }
    table_free(&first);
    table_free(&again);
}

/* 20 chunks over 9 servers of a window of 3 x 3: each is asked, two hops away at most before the
 * sky turns, which is after 2 s; a hit takes 20 questions, and the ground asks for nothing that it
 * knows to be absent. */
static void satellites_and_hops_are_those_of_the_window(void **state) {
    (void)state;
    simulate("scenarios/sim-smoke.yaml", 1.8, true);
    table t = read_table();
    uint32_t alone = 0;
    for (size_t i = 0; i < t.count; i++) {
        const row *r = &t.rows[i];
        bool hit = strcmp(r->op, "get") == 0 && strcmp(r->status, "SKY_OK") == 0;
        if (strcmp(r->status, "SKY_MISS") == 0)
            assert_int_equal(r->messages, 0);
        if (!hit)
            continue;
        assert_int_equal(r->satellites, 9);
        assert_int_equal(r->hops, 2);
        assert_int_equal(r->chunks, 20);
        assert_true(r->messages >= 20);
        alone += r->messages == 20;
    }
    assert_true(alone > 5);
    table_free(&t);
}

static void prompts_are_logged_by_their_first_block(void **state) {
    (void)state;
    sky_sim_result result = simulate("scenarios/prompts.yaml", 30, true);
    table t = read_table();
    expect_totals(&t, &result);
    uint64_t lookups = count(&t, "has", "SKY_OK") + count(&t, "has", "SKY_MISS");
    assert_true(lookups > 10 && lookups >= result.lookups);
    table_free(&t);
}

/* A user's time is its ground's and 30 ms each way. */
static void users_have_their_name_and_their_way(void **state) {
    (void)state;
    static const char text[] =
        "constellation: {planes: 5, slots: 9}\ncenter: [3, 5]\nlookup: binary\n"
        "grounds: {north: [-1, 0]}\nchunk: 1KiB\ntime: {rotation_s: 60}\n"
        "users: {near: [observer, 3], far: [north, 1, 30]}\n"
        "workload: {keys: 20, gets: 400, value: 20KiB, every_ms: 100}\nuntil: 45s\n";
    sky_sim_options options = {.seed = 1, .csv_path = path_of()};
    sky_sim_result result;
    sky_error error = {0};
    assert_int_equal(sky_sim_run_text(text, strlen(text), "users", &options, &result, &error),
                     SKY_OK);
    table t = read_table();
    expect_totals(&t, &result);
    assert_int_equal(result.user_count, 2);
    uint64_t hits[2] = {0};
    double fastest[2] = {1e9, 1e9};
    for (size_t i = 0; i < t.count; i++) {
        const row *r = &t.rows[i];
        bool far = strcmp(r->user, "far") == 0, hit = strcmp(r->op, "get") == 0 && r->chunks > 0;
        assert_true(far || strcmp(r->user, "near") == 0);
        assert_int_equal(r->ground, far);
        assert_true(r->land_ns == (far ? 60000000 : 0));
        assert_true(r->latency_ns >= r->land_ns);
        if (!hit)
            continue;
        hits[far]++;
        fastest[far] = (double)r->latency_ns < fastest[far] ? (double)r->latency_ns : fastest[far];
        assert_int_equal(r->light_ns + r->link_ns + r->processing_ns + r->session_ns + r->land_ns,
                         r->latency_ns);
    }
    for (int far = 0; far < 2; far++) {
        assert_string_equal(result.users[far].name, far ? "far" : "near");
        assert_int_equal(result.users[far].hits, hits[far]);
        assert_true(hits[far] > 50 && result.users[far].p50.ms >= fastest[far] / 1e6);
        assert_int_equal(result.grounds[far].gets, result.users[far].gets);
    }
    double ground_ms = result.grounds[1].p50.ms, user_ms = result.users[1].p50.ms;
    assert_true(user_ms > ground_ms + 59.5 && user_ms < ground_ms + 60.5);
    assert_true(hits[0] > 2 * hits[1] && hits[0] < 4 * hits[1] + 40);
    table_free(&t);
}

static void what_cannot_be_written_is_an_error(void **state) {
    (void)state;
    sky_sim_options options = {.seed = 1, .until_s = 1, .csv_path = "/no/such/folder/x.csv"};
    sky_sim_result result;
    sky_error error = {0};
    assert_int_equal(sky_sim_run("scenarios/sim-smoke.yaml", &options, &result, &error), SKY_E_IO);
    assert_non_null(strstr(error.text, "/no/such/folder/x.csv"));
    options.csv_path = "/dev/full";
    assert_int_equal(sky_sim_run("scenarios/sim-smoke.yaml", &options, &result, &error),
                     SKY_E_FULL);
    assert_non_null(strstr(error.text, "/dev/full"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_add_up_to_the_run),
        cmocka_unit_test(satellites_and_hops_are_those_of_the_window),
        cmocka_unit_test(prompts_are_logged_by_their_first_block),
        cmocka_unit_test(users_have_their_name_and_their_way),
        cmocka_unit_test(what_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
