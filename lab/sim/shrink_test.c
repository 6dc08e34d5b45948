/* Proves that a scenario that fails is made smaller, still fails the same way, and that one that
 * passes is left alone. */
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
#include "lab/sim/run.h"
#include "lab/sim/shrink.h"

/* One chunk takes 1,000 s to serve, and the run waits 120. */
#define HANGS                                                                                      \
    "constellation: {planes: 5, slots: 9, altitude_km: 700}\n"                                     \
    "placement: {strategy: rotation, servers: 7}\n"                                                \
    "chunk: 1KiB\n"                                                                                \
    "satellite: {memory: 1MiB, processing_ms: 1000000}\n"                                          \
    "links: {isl_gbps: 1, jitter_ms: 3}\n"                                                         \
    "time: {rotation_s: 20}\n"                                                                     \
    "workload: {keys: 20, gets: 40, value: 5KiB, zipf: 0.5, every_ms: 500}\n"                      \
    "faults: {duplicate: 0.1, skew_ms: 5}\n"                                                       \
    "until: 20s\n"

static bool ends(const sky_sim_result *r) {
    for (uint32_t i = 0; i < r->check_count; i++) {
        if (strcmp(r->checks[i].name, "every_request_ends") == 0)
            return r->checks[i].passed;
    }
    return true;
}

static void what_is_left_is_what_it_takes(void **state) {
    (void)state;
    char text[2048] = HANGS;
    sky_sim_options options = {.seed = 3};
    sky_error error = {0};
    assert_int_equal(sky_sim_shrink(text, sizeof text, &options, 200, &error), SKY_OK);
    assert_true(strlen(text) < strlen(HANGS) / 2);
    assert_non_null(strstr(text, "processing_ms"));
    assert_null(strstr(text, "duplicate"));
    assert_null(strstr(text, "zipf"));
    sky_sim_result r;
    assert_int_equal(sky_sim_run_text(text, strlen(text), "small", &options, &r, &error), SKY_OK);
    assert_false(ends(&r));
}

static char *read_trace(const char *path) {
    char *text;
    size_t bytes;
    assert_int_equal(sky_file_read_all(path, 64u << 20, &text, &bytes, NULL), SKY_OK);
    unlink(path);
    return text;
}

/* And not of one of the smaller ones that were tried. */
static void the_trace_is_of_the_run_that_failed(void **state) {
    (void)state;
    char path[64], text[2048] = HANGS;
    snprintf(path, sizeof path, "/tmp/skymem-shrink-test-%d.trace", (int)getpid());
    sky_sim_options options = {.seed = 3, .trace_path = path};
    static sky_sim_result r;
    assert_int_equal(sky_sim_run_text(text, strlen(text), "whole", &options, &r, NULL), SKY_OK);
    char *before = read_trace(path);
    assert_int_equal(sky_sim_shrink(text, sizeof text, &options, 20, NULL), SKY_OK);
    char *after = read_trace(path);
    assert_true(strlen(before) > 100);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void what_passes_is_left_alone(void **state) {
    (void)state;
    char text[2048] = "constellation: {planes: 5, slots: 9}\n"
                      "workload: {keys: 2, gets: 3, value: 5KiB}\n"
                      "until: 1s\n";
    char before[2048];
    memcpy(before, text, sizeof text);
    sky_sim_options options = {.seed = 3};
    sky_error error = {0};
    assert_int_equal(sky_sim_shrink(text, sizeof text, &options, 100, &error), SKY_E_PARAM);
    assert_memory_equal(text, before, sizeof text);
    char nonsense[64] = "constellation: 7\n";
    assert_true(sky_sim_shrink(nonsense, sizeof nonsense, &options, 100, &error) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_what_it_takes),
        cmocka_unit_test(the_trace_is_of_the_run_that_failed),
        cmocka_unit_test(what_passes_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
