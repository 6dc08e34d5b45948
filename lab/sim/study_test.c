/* Proves that a block flown through the session and the satellites takes what the seed authors'
 * formula says, to the nanosecond, and what their own tables say to the last printed digit. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/lines_fixture.h"
#include "lab/sim/study.h"

static sky_study_point authors_point(sky_strategy strategy, uint32_t servers, uint64_t block) {
    return (sky_study_point){
        .constellation = {.planes = 15,
                          .slots = 15,
                          .altitude_km = 1920,
                          .inclination_deg = 53,
                          .earth_radius_km = 6371,
                          .light_km_s = 299800},
        .placement = {.strategy = strategy, .servers = servers},
        .centre = {8, 8},
        .chunk_bytes = 12288,
        .block_bytes = block,
        .processing_ns = SKY_MS(20),
        .gets = 1,
        .seed = 1,
    };
}

static sky_study_result fly(const sky_study_point *point) {
    sky_study_result result;
    sky_error error = {0};
    if (sky_study_run(point, &result, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return result;
}

static void the_authors_tables_are_flown(void **state) {
    (void)state;
    sky_lines tables;
    int rows = 0;
    sky_lines_open(&tables, "tests/golden/authors.txt");
    for (char *line; (line = sky_lines_next(&tables));) {
        char name[32];
        double ms, max, min, avg;
        sky_study_point p = authors_point(SKY_PLACE_HOP, 1, 1);
        assert_int_equal(sscanf(line, "%31s %u %lf %lf %" SCNu64 " %lf %lf %lf", name,
                                &p.placement.servers, &ms, &p.constellation.altitude_km,
                                &p.block_bytes, &max, &min, &avg),
                         8);
        assert_int_equal(sky_strategy_parse(name, &p.placement.strategy), SKY_OK);
        p.processing_ns = (sky_time)(ms * 1e6 + 0.5);
        sky_study_result r = fly(&p);
        assert_true(fabs(r.formula_max_s - max) < 1e-9);
        assert_true(fabs(r.formula_min_s - min) < 1e-9);
        assert_true(fabs(r.formula_avg_s - avg) < 1e-9);
        assert_true(fabs(r.served_max_s - max) < 1e-9);
        assert_true(fabs(r.served_min_s - min) < 1e-9);
        assert_true(fabs(r.served_avg_s - avg) < 1e-9);
        assert_true(r.off_ns_max < 0.51);
        rows++;
    }
    assert_int_equal(rows, 48);
}

static void a_get_counts_light_both_ways(void **state) {
    (void)state;
    sky_study_point p = authors_point(SKY_PLACE_HOP, 9, 9 * 12288);
    sky_study_result r = fly(&p);
    double light_s = r.formula_max_s - 0.020;
    assert_true(fabs(r.get_max_ms - 1e3 * (0.020 + 2 * light_s)) < 2e-6);
}

static void a_rate_and_loss_take_time(void **state) {
    (void)state;
    sky_study_point p = authors_point(SKY_PLACE_ROTATION_HOP, 25, 1 << 20);
    p.processing_ns = 0;
    p.gets = 20;
    sky_study_result free_of_limits = fly(&p);
    p.ground_bits_s = 100000000;
    p.isl_bits_s = 1000000000;
    sky_study_result rated = fly(&p);
    double wire_ms = 8e3 * (1 << 20) / 1e8;
    assert_true(rated.get_p50.ms > wire_ms);
    assert_true(rated.get_p50.ms < 1.1 * (wire_ms + free_of_limits.get_p50.ms));
    p.loss = 0.02;
    sky_study_result lossy = fly(&p);
    assert_int_equal(lossy.answered, 20);
    assert_true(lossy.get_p50.ms > rated.get_p50.ms);
}

static void points_that_cannot_be_are_refused(void **state) {
    (void)state;
    sky_study_point p = authors_point(SKY_PLACE_ROTATION, 500, 1000);
    sky_study_result r;
    sky_error error = {0};
    assert_int_equal(sky_study_run(&p, &r, &error), SKY_E_PARAM);
    assert_true(strlen(error.text) > 0);
    p.placement.servers = 9;
    p.block_bytes = 0;
    assert_int_equal(sky_study_run(&p, &r, &error), SKY_E_PARAM);
}

/* Without parity what is lost is asked for again: 99 of 100 gets then take one round more, and that
 * as soon as the answer is late; on a slow link most of it hides behind the bytes. */
static void a_loss_costs_one_round_more(void **state) {
    (void)state;
    sky_study_point p = sky_study_starlink(10000000000u, 0, 200);
    sky_study_result quiet = fly(&p);
    assert_true(quiet.to_payload < 1.04);
    p.loss = 0.01;
    sky_study_result lossy = fly(&p);
    assert_int_equal(lossy.answered, p.gets);
    assert_true(lossy.get_p99.ms > 1.9 * quiet.get_p99.ms);
    assert_true(lossy.get_p99.ms < 2.05 * quiet.get_p99.ms);
    assert_true(lossy.to_payload < 1.18);
    p = sky_study_starlink(200000000u, 0, 100);
    quiet = fly(&p);
    p.loss = 0.01;
    lossy = fly(&p);
    assert_true(lossy.get_p99.ms < 1.4 * quiet.get_p99.ms);
    assert_true(lossy.to_payload < 1.14);
}

/* Where links lose a quarter of all chunks, four losses in a row from one satellite are no silence:
 * who takes them for it gives blocks up that are there. */
static void heavy_losses_are_no_silence(void **state) {
    (void)state;
    for (int strategy = 0; strategy <= SKY_PLACE_ROTATION_HOP; strategy++) {
        sky_study_point p = sky_study_starlink(200000000u, 0, 120);
        p.placement.strategy = (sky_strategy)strategy;
        p.isl_bits_s = strategy == SKY_PLACE_HOP ? p.ground_bits_s : p.isl_bits_s;
        p.loss = 0.05;
        assert_int_equal(fly(&p).answered, p.gets);
    }
}

/* The same over the transport of real satellites, which sends again the datagrams that are missing
 * instead of whole chunks. */
static void a_lost_datagram_costs_one_round_more(void **state) {
    (void)state;
    sky_study_point p = sky_study_starlink(10000000000u, 0, 60);
    p.datagrams = true;
    sky_study_result quiet = fly(&p);
    p.loss = 0.01;
    sky_study_result lossy = fly(&p);
    assert_int_equal(lossy.answered, p.gets);
    assert_true(lossy.get_p99.ms > 1.9 * quiet.get_p99.ms);
    assert_true(lossy.get_p99.ms < 2.1 * quiet.get_p99.ms);
    assert_true(lossy.to_payload - quiet.to_payload < 0.08);
}

/* Parity that is asked for at once where links lose: a loss costs bytes and no round trip. */
static void parity_saves_the_second_round(void **state) {
    (void)state;
    sky_study_point p = sky_study_starlink(10000000000u, 6, 200);
    sky_study_result quiet = fly(&p);
    assert_true(quiet.to_payload < 1.04); /* without loss none of it is asked for */
    p.loss = 0.01;
    sky_study_result lossy = fly(&p);
    assert_int_equal(lossy.answered, p.gets);
    assert_true(lossy.get_p99.ms < 1.5 * quiet.get_p99.ms);
    assert_true(lossy.to_payload < 1.5);
    p.loss = 0.05;
    assert_int_equal(fly(&p).answered, p.gets);
    /* On a slow link answers wait for each other: none of them is taken for lost. */
    p = sky_study_starlink(200000000u, 6, 20);
    assert_true(fly(&p).to_payload < 1.04);
    p.parity = 25;
    sky_error error = {0};
    assert_int_equal(sky_study_run(&p, &lossy, &error), SKY_E_PARAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_costs_one_round_more),
        cmocka_unit_test(heavy_losses_are_no_silence),
        cmocka_unit_test(a_lost_datagram_costs_one_round_more),
        cmocka_unit_test(parity_saves_the_second_round),
        cmocka_unit_test(the_authors_tables_are_flown),
        cmocka_unit_test(a_get_counts_light_both_ways),
        cmocka_unit_test(a_rate_and_loss_take_time),
        cmocka_unit_test(points_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
