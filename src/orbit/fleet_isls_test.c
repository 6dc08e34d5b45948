/* Proves that Hypatia's constellations are read: a first line of planes and slots is the grid, in
 * the order of the file; its link states are the lasers there are, and ways go round those that are
 * missing; and what is no such file is refused with its line. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/orbit.h>

#include "orbit/fleet.h"
#include "orbit/frame.h"
#include "orbit/hypatia_fixture.h"
#include "orbit/true_sky.h"

#define PLANES 6
#define SLOTS  8
#define COUNT  (PLANES * SLOTS)
#define START  946684800000 /* 2000-01-01 */

static char text[1 << 17];

static sky_fleet *read_fleet(uint32_t planes, uint32_t slots) {
    sky_fleet *f = NULL;
    sky_error error = {0};
    size_t bytes = sky_hypatia_tles(planes, slots, 13.5, text, sizeof text);
    if (sky_fleet_parse(text, bytes, "tles.txt", &f, &error) != SKY_OK ||
        sky_fleet_arrange(f, START, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return f;
}

static sky_status read_isls(sky_fleet *f, const char *isls, sky_error *error) {
    return sky__fleet_isls(f, isls, strlen(isls), "isls.txt", error);
}

static void the_grid_is_the_file_s(void **state) {
    (void)state;
    sky_fleet *f = read_fleet(PLANES, SLOTS);
    const sky_constellation *shell = sky_fleet_shell(f);
    assert_int_equal(shell->planes, PLANES);
    assert_int_equal(shell->slots, SLOTS);
    assert_int_equal(shell->phasing, 0);
    assert_true(fabs(shell->inclination_deg - 53) < 0.1);
    assert_true(shell->altitude_km > 1050 && shell->altitude_km < 1100);
    assert_true(shell->raan_spread_deg == 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        sky_satellite s = sky_fleet_place(f, i);
        assert_true(s.plane == i / SLOTS + 1 && s.slot == i % SLOTS + 1);
        assert_int_equal(sky_fleet_number(f, s), i);
    }
    sky_fleet_destroy(f);
    f = read_fleet(1, 17); /* as in Hypatia's own tests: one plane is a grid */
    assert_int_equal(sky_fleet_shell(f)->planes, 1);
    sky_fleet_destroy(f);
}

static uint32_t count_up(const sky_fleet *f, sky_laser *lasers) {
    uint32_t up = 0;
    size_t count = sky_fleet_links(f, START, SKY__GRAZING_KM, lasers);
    for (size_t i = 0; i < count; i++)
        up += lasers[i].up;
    return up;
}

static bool are_equal(const sky_laser *a, const sky_laser *b, size_t count) {
    bool equal = true;
    for (size_t i = 0; i < count; i++)
        equal &= a[i].from == b[i].from && a[i].to == b[i].to && a[i].km == b[i].km &&
                 a[i].up == b[i].up;
    return equal;
}

/* All of a grid is the +GRID; the offset of its lasers between planes is the file's. */
static void lasers_are_those_of_the_file(void **state) {
    (void)state;
    sky_fleet *f = read_fleet(PLANES, 2 * SLOTS);
    static sky_laser all[4 * COUNT], given[4 * COUNT];
    uint32_t up = count_up(f, all);
    assert_true(up > 2 * COUNT);
    sky_error error = {0};
    for (uint32_t offset = 0; offset < 2; offset++) {
        sky_hypatia_isls(PLANES, 2 * SLOTS, offset, text, sizeof text);
        assert_int_equal(read_isls(f, text, &error), SKY_OK);
        assert_int_equal(sky_fleet_link_offset(f), offset);
        uint32_t held = count_up(f, given);
        assert_true(offset == 1 || (held == up && are_equal(all, given, 4 * COUNT)));
    }
    sky_hypatia_isls(PLANES, 2 * SLOTS, 2 * SLOTS - 1, text, sizeof text);
    assert_int_equal(read_isls(f, text, &error), SKY_OK);
    assert_int_equal(sky_fleet_link_offset(f), -1);
    assert_int_equal(read_isls(f, "0 1\n\n  0 15 \r\n4 20", &error), SKY_OK);
    assert_int_equal(count_up(f, given), 3);
    assert_int_equal(read_isls(f, "", &error), SKY_OK);
    assert_int_equal(count_up(f, given), 0);
    sky_fleet_destroy(f);
}

static sky_true_sky *make_sky(const char *isls) {
    sky_fleet *f = read_fleet(PLANES, 2 * SLOTS);
    sky_error error = {0};
    if (isls && read_isls(f, isls, &error) != SKY_OK)
        fail_msg("%s", error.text);
    sky_physical p = {.fleet = f, .start_ms = START, .slot_ms = 15000, .turns = 1};
    sky_true_sky *t = NULL;
    assert_int_equal(sky__true_create(&p, &t, &error), SKY_OK);
    return t;
}

/* Without one laser the way goes round it; without those between two rings there is none. */
static void ways_go_round_what_is_missing(void **state) {
    (void)state;
    const sky_satellite a = {2, 5}, b = {3, 5}, far = {5, 12};
    sky_true_sky *whole = make_sky(NULL);
    sky_hypatia_isls(PLANES, 2 * SLOTS, 0, text, sizeof text);
    char *isls = strdup(text);
    sky_true_sky *same = make_sky(isls);
    char *at = strstr(isls, "\n20 36\n"); /* 2,5 and 3,5 */
    assert_non_null(at);
    memmove(at, at + 6, strlen(at + 6) + 1);
    sky_true_sky *less = make_sky(isls);
    for (uint64_t turn = 0; turn < 300; turn += 60) {
        sky_time direct = sky__true_link_ns(whole, a, b, turn);
        assert_int_equal(sky__true_link_ns(same, a, b, turn), direct);
        assert_int_equal(sky__true_link_ns(same, a, far, turn),
                         sky__true_link_ns(whole, a, far, turn));
        assert_true(sky__true_joined(less, a, b, turn) && sky__true_joined(less, a, far, turn));
        assert_true(sky__true_link_ns(less, a, b, turn) > direct + SKY_MS(1));
        assert_true(sky__true_way_ns_max(less, a, b) >= sky__true_link_ns(less, a, b, turn));
    }
    sky__true_destroy(whole);
    sky__true_destroy(same);
    sky__true_destroy(less);
    free(isls);
    sky_true_sky *none = make_sky("0 1\n");
    assert_true(sky__true_joined(none, (sky_satellite){1, 1}, (sky_satellite){1, 2}, 0));
    assert_false(sky__true_joined(none, a, b, 0));
    sky__true_destroy(none);
}

static void other_lasers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *isls, *says;
    } bad[] = {
        {"0 1\n0 1\n", "isls.txt:2: the laser is there twice"},
        {"1 0\n", "isls.txt:1: expected two numbers of satellites, the smaller first"},
        {"1 1\n", "isls.txt:1: expected two"},
        {"0\n", "isls.txt:1: expected two"},
        {"0 1 2\n", "isls.txt:1: expected two"},
        {"0,1\n", "isls.txt:1: expected two"},
        {"-1 0\n", "isls.txt:1: expected two"},
        {"0 1\n\n0 48\n", "isls.txt:3: expected two"},
        {"0 99999999999999999999\n", "isls.txt:1: expected two"},
        {"0 2\n", "isls.txt:1: satellites of one plane that are not next to each other"},
        {"0 16\n", "isls.txt:1: planes that are not next to each other"},
        {"0 8\n1 9\n2 11\n", "isls.txt:3: goes as many slots on as no laser before it"},
        {"0 9\n0 41\n", "isls.txt:2: goes as many"}, /* over the seam it would be 7 */
    };
    sky_fleet *f = read_fleet(PLANES, SLOTS);
    static sky_laser lasers[2 * COUNT];
    uint32_t up = count_up(f, lasers);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sky_error error = {0};
        assert_true(read_isls(f, bad[i].isls, &error) == SKY_E_SYNTAX);
        if (strncmp(error.text, bad[i].says, strlen(bad[i].says)) != 0)
            fail_msg("%s: %s", bad[i].says, error.text);
    }
    assert_int_equal(count_up(f, lasers), up); /* and nothing has changed */
    sky_fleet_destroy(f);
    sky_error error = {0};
    sky_hypatia_tles(PLANES, SLOTS, 13.5, text, sizeof text);
    assert_int_equal(
        sky_fleet_parse(strchr(text, '\n'), strlen(strchr(text, '\n')), "t", &f, &error), SKY_OK);
    assert_int_equal(sky_fleet_arrange(f, START, &error), SKY_OK);
    assert_int_equal(read_isls(f, "0 1\n", &error), SKY_E_PARAM); /* nobody told its grid */
    sky_fleet_destroy(f);
}

static void other_grids_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *first, *name, *says;
    } bad[] = {
        {"6 9", "Test-550 2", "tles.txt:1: 6 planes of 9 satellites, but there are 48"},
        {"6 8", "Test-550 3", "tles.txt:9: after a first line of planes and slots"},
        {"6 8", "Test-550", "tles.txt:9: after a first line"},
        {"6 8", "", "tles.txt:9: after a first line"},
        {"0 8", "Test-550 2", "tles.txt:2: expected line 1 of an element after its name"},
        {"6 8 1", "Test-550 2", "tles.txt:2: expected line 1 of an element after its name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static char changed[1 << 17];
        sky_hypatia_tles(PLANES, SLOTS, 13.5, text, sizeof text);
        char *name = strstr(text, "Test-550 2\n"), *rest = strchr(text, '\n');
        assert_non_null(name);
        snprintf(changed, sizeof changed, "%s%.*s%s%s", bad[i].first, (int)(name - rest), rest,
                 bad[i].name, name + strlen("Test-550 2"));
        sky_fleet *f = NULL;
        sky_error error = {0};
        assert_int_equal(sky_fleet_parse(changed, strlen(changed), "tles.txt", &f, &error),
                         SKY_E_SYNTAX);
        assert_null(f);
        if (strncmp(error.text, bad[i].says, strlen(bad[i].says)) != 0)
            fail_msg("%s: %s", bad[i].says, error.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grid_is_the_file_s),
        cmocka_unit_test(lasers_are_those_of_the_file),
        cmocka_unit_test(ways_go_round_what_is_missing),
        cmocka_unit_test(other_lasers_are_refused),
        cmocka_unit_test(other_grids_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
