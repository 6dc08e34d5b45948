/* Proves that the files people publish are read: TLE, OMM as JSON, CSV and KVN say the same
 * satellite, damaged ones are refused with line and reason, and elements of a shell find their
 * grid. */
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
#include "orbit/trig.h"

#define LINE_1 "1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753"
#define LINE_2 "2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667"
#define JSON                                                                                       \
    "{\"OBJECT_NAME\":\"VANGUARD 1\",\"OBJECT_ID\":\"1958-002B\","                                 \
    "\"EPOCH\":\"2000-06-27T18:50:19.733568\",\"MEAN_MOTION\":10.82419157,"                        \
    "\"ECCENTRICITY\":0.1859667,\"INCLINATION\":34.2682,\"RA_OF_ASC_NODE\":348.7242,"              \
    "\"ARG_OF_PERICENTER\":331.7664,\"MEAN_ANOMALY\":\"19.3264\",\"NORAD_CAT_ID\":5,"              \
    "\"BSTAR\":2.8098e-5,\"MEAN_MOTION_DOT\":2.3e-7,\"ELEMENT_SET_NO\":null}"
#define HEAD                                                                                       \
    "OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,"             \
    "ARG_OF_PERICENTER,MEAN_ANOMALY,NORAD_CAT_ID,BSTAR\n"
#define ROW                                                                                        \
    "VANGUARD 1,1958-002B,2000-06-27T18:50:19.733568,10.82419157,.1859667,34.2682,348.7242,"       \
    "331.7664,19.3264,5,.28098E-4\n"
#define KVN                                                                                        \
    "CCSDS_OMM_VERS = 2.0\nCOMMENT made by hand\nCREATION_DATE = 2000-07-01T00:00:00\n"            \
    "OBJECT_NAME = VANGUARD 1\nREF_FRAME = TEME\nTIME_SYSTEM = UTC\n"                              \
    "MEAN_ELEMENT_THEORY = SGP/SGP4\nEPOCH = 2000-06-27T18:50:19.733568\n"                         \
    "MEAN_MOTION = 10.82419157 [rev/day]\nECCENTRICITY = 0.1859667\nINCLINATION = 34.2682\n"       \
    "RA_OF_ASC_NODE = 348.7242\nARG_OF_PERICENTER = 331.7664\nMEAN_ANOMALY = 19.3264\n"            \
    "NORAD_CAT_ID = 5\nBSTAR = 0.000028098\n"

static sky_fleet *read_text(const char *text) {
    sky_fleet *f = NULL;
    sky_error error = {0};
    if (sky_fleet_parse(text, strlen(text), "file", &f, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return f;
}

static void all_formats_say_the_same(void **state) {
    (void)state;
    static const char *const files[] = {
        LINE_1 "\n" LINE_2 "\n",
        "VANGUARD 1              \r\n" LINE_1 "\r\n" LINE_2 "\r\n",
        "# a comment\n\n0 VANGUARD 1\n" LINE_1 "\n" LINE_2,
        "[" JSON "]",
        JSON,
        "\xef\xbb\xbf" HEAD ROW,
        HEAD "\"VANGUARD 1\",1958-002B,2000-06-27T18:50:19.733568,10.82419157,.1859667,34.2682,"
             "348.7242,331.7664,19.3264,5,.28098E-4\r\n",
        KVN,
    };
    char name[SKY_FLEET_NAME_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sky_fleet *f = read_text(files[i]);
        assert_int_equal(sky_fleet_count(f), 1);
        assert_string_equal(sky_fleet_name(f, 0, name), i == 0 ? "00005" : "VANGUARD 1");
        sky_motion s;
        assert_int_equal(sky_fleet_state_after(f, 0, 360, &s), SKY_ORBIT_FINE);
        assert_true(fabs(s.r_km.x + 7154.03120202) < 1e-5);
        assert_true(fabs(s.r_km.z + 3536.19412294) < 1e-5);
        assert_int_equal(sky_fleet_epoch_ms(f, 0), 962131819734);
        sky_motion again;
        assert_int_equal(sky_fleet_state(f, 0, 962131819734 + 360 * 60000, &again), SKY_ORBIT_FINE);
        assert_true(fabs(s.r_km.y - again.r_km.y) < 0.01);
        sky_fleet_destroy(f);
    }
    sky_fleet *two = read_text(KVN KVN);
    assert_int_equal(sky_fleet_count(two), 2);
    sky_fleet_destroy(two);
}

/* A name is anything of 24 columns that anyone gave a satellite. */
static void names_do_not_tell_the_format(void **state) {
    (void)state;
    static const char *const names[] = {
        "A, B", "{X}", "[X]", "<X>", "1 HOPE", "2 FRIENDS", "{\"", "CCSDS_OMM_VERS", "#1 "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[512], name[SKY_FLEET_NAME_BYTES];
        snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n%s\n", names[i], LINE_1, LINE_2, names[i],
                 LINE_1, LINE_2);
        sky_fleet *f = read_text(text);
        assert_int_equal(sky_fleet_count(f), 2);
        assert_string_equal(sky_fleet_name(f, 1, name), names[i][0] == '#' ? "00005" : names[i]);
        sky_fleet_destroy(f);
    }
    sky_fleet *table = read_text(HEAD "1 HOPE" ROW); /* a row may begin as a line 1 does */
    assert_int_equal(sky_fleet_count(table), 1);
    sky_fleet_destroy(table);
}

/* As in the published verification set, where times follow. */
static void what_stands_behind_column_69_is_skipped(void **state) {
    (void)state;
    sky_fleet *plain = read_text(LINE_1 "\n" LINE_2 "\n");
    sky_fleet *timed = read_text(LINE_1 "  \n" LINE_2 "     0.00      4320.0        360.00\n");
    sky_motion a, b;
    assert_int_equal(sky_fleet_state_after(plain, 0, 360, &a), SKY_ORBIT_FINE);
    assert_int_equal(sky_fleet_state_after(timed, 0, 360, &b), SKY_ORBIT_FINE);
    assert_memory_equal(&a, &b, sizeof a);
    sky_fleet_destroy(plain);
    sky_fleet_destroy(timed);
}

static void quotes_in_a_name_are_read(void **state) {
    (void)state;
    static const char rest[] = ",1958-002B,2000-06-27T18:50:19.733568,10.82419157,.1859667,34.2682,"
                               "348.7242,331.7664,19.3264,5,.28098E-4\n";
    static const struct {
        const char *cell, *name;
    } rows[] = {{"\"A \"\"B\"\", C\"", "A \"B\", C"},
                {"\"\"\"\"", "\""},
                {"\"\"", "00005"},
                {"\"A, B\"", "A, B"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512], name[SKY_FLEET_NAME_BYTES];
        snprintf(text, sizeof text, "%s%s%s", HEAD, rows[i].cell, rest);
        sky_fleet *f = read_text(text);
        assert_string_equal(sky_fleet_name(f, 0, name), rows[i].name);
        sky_fleet_destroy(f);
    }
}

static void damaged_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"", "file:1: the file is empty"},
        {"[]", "file:1: no satellite"},
        {"\n\n", "file:1: no satellite"},
        {"# only a comment\n", "file:1: no satellite"},
        {LINE_1 "\n", "file:1: line 2 of the element is missing"},
        {LINE_2 "\n" LINE_1 "\n", "file:1: expected line 1"},
        {LINE_1 "\n" LINE_1 "\n", "file:2: expected line 2"},
        {"NAME\nNAME\n", "file:2: expected line 1 of an element after its name"},
        {"NAME\n", "file:1: a name and no element"},
        {"1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4754\n" LINE_2,
         "file:1: the checksum"},
        {"1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  475\n" LINE_2,
         "file:1: a line of an element has 69 columns"},
        {"1 0000\xc3U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753\n" LINE_2,
         "file:1: a character that is not ASCII"},
        {LINE_1 "\n2 00007  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413669",
         "file:2: the catalogue number is not that of line 1"},
        {LINE_1 "\n2 00005 234.2682 348.7242 1859667 331.7664  19.3264 10.82419157413669",
         "file:2: columns 9-16"},
        {"1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 4  4757\n" LINE_2,
         "file:1: elements for SGP4-XP (column 63 is 4)"},
        {"1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 5  4758\n" LINE_2,
         "file:1: column 63 is no ephemeris type of SGP4"},
        {KVN "EPHEMERIS_TYPE = 4\n", "file:17: EPHEMERIS_TYPE is 4: elements for SGP4-XP"},
        {"<?xml version=\"1.0\"?>", "XML is not read here"},
        {LINE_1 "0\n" LINE_2, "file:1: a line of an element has 69 columns"},
        {"[{}]", "file:1: entry 1: NORAD_CAT_ID is missing"},
        {"[" JSON ", 5]", "file:1: entry 2: no object"},
        {"[" JSON ",\n\n{\"NORAD_CAT_ID\": 5}]", "file:3: entry 2: EPOCH is missing"},
        {"[" JSON ",\n{\"NORAD_CAT_ID\": 1]", "file:2: "},
        {"[{\"NORAD_CAT_ID\":[]}]", "file:1: entry 1: NORAD_CAT_ID is neither a number nor a text"},
        {HEAD "VANGUARD,1958-002B,yesterday,1,2,3,4,5,6,7,8\n",
         "file:2: EPOCH is yesterday: a time from 1957 to 2222, as 2026-"},
        {HEAD "A,1958-002B,2223-01-01T00:00:00,10.8,0,34,348,331,19,5,0\n",
         "file:2: EPOCH is 2223-01-01T00:00:00: a time from"},
        {HEAD ROW "A,1958-002B,2000-06-27T18:50:19,10.8,1.5,34,348,331,19,5,0\n",
         "file:3: ECCENTRICITY is 1.5: from 0 to 0.99999999"},
        {HEAD "A,1958-002B,2000-06-27T18:50:19,10.8,,34,348,331,19,5,0\n",
         "file:2: ECCENTRICITY is missing"},
        {HEAD "A,1958-002B,2000-06-27T18:50:19,10.8,none,34,348,331,19,5,0\n",
         "file:2: ECCENTRICITY is none: no number"},
        {HEAD "A,1958-002B,2000-06-27T18:50:19,10.8,0.\x1b[7m,34,348,331,19,5,0\n",
         "file:2: ECCENTRICITY is 0.?[7m: no number"},
        {HEAD "A,1958-002B,2000-06-27T18:50:19,10.8,0,34,348,331,19,-5,0\n",
         "file:2: NORAD_CAT_ID is -5: a whole number from 0 to 4294967295"},
        {HEAD "A,1958-002B,2000-06-27T18:50:19,19,0.9,34,348,331,19,5,"
              "0.000000000000000000000000000000000000000000000000000000000000001\n",
         "file:2: BSTAR is longer than 63 characters"},
        {HEAD ROW "A,B\n", "file:3: 2 columns, the head has 11"},
        {"OBJECT_NAME,MEAN_MOTION\nA,1\n", "file:1: no column EPOCH"},
        {"CCSDS_OMM_VERS = 2.0\nnonsense\n", "file:2: expected KEY = VALUE"},
        {"CCSDS_OMM_VERS = 2.0\n", "file:1: NORAD_CAT_ID is missing"},
        {KVN "CCSDS_OMM_VERS = 2.0\nNORAD_CAT_ID = 6\n", "file:17: EPOCH is missing"},
        {KVN "REF_FRAME = GCRF\n", "file:17: REF_FRAME is GCRF: only TEME is read"},
        {KVN "\nINCLINATION = 181 [deg]\n" KVN, "file:18: INCLINATION is 181: from 0 to 180"},
        {KVN "MEAN_ELEMENT_THEORY = DSST\n", "file:17: MEAN_ELEMENT_THEORY is DSST: only SGP4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sky_fleet *f = NULL;
        sky_error error = {0};
        sky_status status = sky_fleet_parse(rows[i].text, strlen(rows[i].text), "file", &f, &error);
        if (status != SKY_E_SYNTAX || f || !strstr(error.text, rows[i].reason))
            fail_msg("row %zu: %d, \"%s\" lacks \"%s\"", i, status, error.text, rows[i].reason);
    }
}

/* jansson tells no lines, and of the same key in a list, in an object of an object, as a value or
 * behind a quote none is the one that is meant. */
static void json_errors_have_the_line_of_their_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"{\n\"NORAD_CAT_ID\": 5,\n\"EPOCH\":\n\"now\"}", "file:3: entry 1: EPOCH is now: "},
        {"\n[\n" JSON ",\n{\"NORAD_CAT_ID\": 5,\n \"EPOCH\": \"now\"}]",
         "file:5: entry 2: EPOCH is now: a time"},
        {"[\n" JSON ",\n{\"NORAD_CAT_ID\": 5,\n \"EPOCH\" : 1e3}]",
         "file:4: entry 2: EPOCH is 1000: a time"},
        {"[\n{\"A\": {\n\"EPOCH\": 1}, \"B\": [{\n\"EPOCH\":2}, \"EPOCH\"],\n\"C\": \"EPOCH\", "
         "\"D\\\"\": \"\\\\\",\n\"NORAD_CAT_ID\": 5, \"EPOCH\": \"x\"}, 5]",
         "file:6: entry 1: EPOCH is x: a time"},
        {"[" JSON ",\n[\n1, 2], {}]", "file:2: entry 2: no object"},
        {"[" JSON ",\n\"}{],\", 2, {}]", "file:2: entry 2: no object"},
        {"[" JSON ",\n\n5]", "file:3: entry 2: no object"},
        {"[{\n\"NORAD_CAT_ID\": 1,\n\"NORAD_CAT_ID\": 1.5\n}]",
         "file:3: entry 1: NORAD_CAT_ID is 1.5: a whole number"},
        {"[{\n\"NORAD_CAT_ID\": null\n}]", "file:2: entry 1: NORAD_CAT_ID is missing"},
        {"[{\n\"NORAD_CAT_\\u0049D\": 1.5\n}]", "file:1: entry 1: NORAD_CAT_ID is 1.5: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sky_fleet *f = NULL;
        sky_error error = {0};
        sky_status status = sky_fleet_parse(rows[i].text, strlen(rows[i].text), "file", &f, &error);
        if (status != SKY_E_SYNTAX || f || !strstr(error.text, rows[i].reason))
            fail_msg("row %zu: %d, \"%s\" lacks \"%s\"", i, status, error.text, rows[i].reason);
    }
}

static void other_frames_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "\"REF_FRAME\":\"ICRF\"", "\"TIME_SYSTEM\":\"TAI\"", "\"MEAN_ELEMENT_THEORY\":\"DSST\"",
        "\"ECCENTRICITY\":1",     "\"MEAN_MOTION\":0",       "\"INCLINATION\":-1",
        "\"MEAN_ANOMALY\":\"1x\""};
    char text[2048];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        /* Of two members of one name the later counts. */
        snprintf(text, sizeof text, "%.*s,%s}", (int)strlen(JSON) - 1, JSON, wrong[i]);
        sky_fleet *f = NULL;
        assert_int_equal(sky_fleet_parse(text, strlen(text), "file", &f, NULL), SKY_E_SYNTAX);
    }
}

/* A shell written as elements, shuffled, two satellites missing and one spare. */
static sky_fleet *shell_of_elements(const sky_constellation *c) {
    sky_fleet *f = calloc(1, sizeof *f);
    assert_non_null(f);
    uint32_t count = c->planes * c->slots;
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t k = i < count ? i * 37 % count : 5; /* 37 is prime to count */
        uint32_t plane = k / c->slots, slot = k % c->slots;
        if (k == 40 || k == 41)
            continue;
        double phase = (double)slot / c->slots + (double)c->phasing * plane / count;
        sky__elements e = {.number = k + 1,
                           .epoch_days = 28000,
                           .inclination = c->inclination_deg * SKY_DEGREE,
                           .node = SKY_TWO_PI * plane / c->planes,
                           .eccentricity = 1e-4,
                           .anomaly = sky__turned(SKY_TWO_PI * phase + (i == count ? 0.02 : 0)),
                           .motion = SKY_TWO_PI / 95.65};
        assert_int_equal(sky__fleet_add(f, NULL, 0, &e), SKY_OK);
    }
    return f;
}

static void elements_find_their_grid(void **state) {
    (void)state;
    sky_constellation c = {
        .planes = 12, .slots = 14, .altitude_km = 550, .inclination_deg = 53, .phasing = 5};
    sky_fleet *f = shell_of_elements(&c);
    int64_t ms = sky_fleet_epoch_ms(f, 0);
    assert_int_equal(sky_fleet_shell(f)->planes, 0);
    assert_int_equal(sky_fleet_arrange(f, ms, NULL), SKY_OK);
    const sky_constellation *grid = sky_fleet_shell(f);
    /* Plane 3 lacks two of 14: 11 planes of 14 are more than 12 of 12. */
    assert_int_equal(grid->planes, 11);
    assert_int_equal(grid->slots, 14);
    assert_int_equal(grid->raan_spread_deg, 0);
    assert_true(fabs(grid->inclination_deg - 53) < 0.1);
    assert_true(fabs(grid->altitude_km - 550) < 20);
    for (uint32_t plane = 1; plane <= 11; plane++) {
        for (uint32_t slot = 1; slot <= 14; slot++) {
            uint32_t n = sky_fleet_number(f, (sky_satellite){plane, slot});
            uint32_t next = sky_fleet_number(f, (sky_satellite){plane, slot % 14 + 1});
            sky_satellite back = sky_fleet_place(f, n);
            assert_true(back.plane == plane && back.slot == slot);
            sky_motion a, b;
            assert_int_equal(sky_fleet_state(f, n, ms, &a), SKY_ORBIT_FINE);
            assert_int_equal(sky_fleet_state(f, next, ms, &b), SKY_ORBIT_FINE);
            assert_true(fabs(sky__distance_km(a.r_km, b.r_km) - 3083) < 150);
        }
    }
    static sky_laser links[2 * 11 * 14];
    size_t count = sky_fleet_links(f, ms, SKY_GRAZING_KM, links);
    assert_int_equal(count, 2 * 11 * 14);
    for (size_t i = 0; i < count; i++) /* the widest step is over the plane that was left out */
        assert_true(links[i].km < 7800);
    sky_fleet_destroy(f);
    f = read_text(LINE_1 "\n" LINE_2 "\n");
    assert_int_equal(sky_fleet_arrange(f, ms, NULL), SKY_E_PARAM);
    sky_fleet_destroy(f);
}

/* Three planes of 7 places, of which one is crowded: 3,000 satellites stand at each of its places,
 * in no order. One of each is left. */
static void a_crowded_plane_is_thinned(void **state) {
    (void)state;
    enum { PLACES = 7, CROWD = 3000 };
    sky_fleet *f = calloc(1, sizeof *f);
    assert_non_null(f);
    for (uint32_t plane = 0, number = 1; plane < 3; plane++) {
        for (uint32_t i = 0; i < (plane == 1 ? PLACES * CROWD : PLACES); i++, number++) {
            double place = SKY_TWO_PI * (i % PLACES) / PLACES;
            sky__elements e = {.number = number,
                               .epoch_days = 28000,
                               .inclination = 53 * SKY_DEGREE,
                               .node = SKY_TWO_PI * plane / 3,
                               .eccentricity = 1e-4,
                               .anomaly = sky__turned(place + i * 7919 % CROWD * 1e-6),
                               .motion = SKY_TWO_PI / 95.65};
            assert_int_equal(sky__fleet_add(f, NULL, 0, &e), SKY_OK);
        }
    }
    int64_t ms = sky_fleet_epoch_ms(f, 0);
    assert_int_equal(sky_fleet_arrange(f, ms, NULL), SKY_OK);
    assert_int_equal(sky_fleet_shell(f)->planes, 3);
    assert_int_equal(sky_fleet_shell(f)->slots, PLACES);
    bool seen[PLACES] = {false};
    for (uint32_t plane = 1; plane <= 3; plane++) {
        for (uint32_t slot = 1; slot <= PLACES; slot++) {
            uint32_t number = sky_fleet_number(f, (sky_satellite){plane, slot});
            if (number >= PLACES && number < PLACES * (CROWD + 1)) {
                uint32_t place = (number - PLACES) % PLACES;
                assert_false(seen[place]);
                seen[place] = true;
            }
        }
    }
    for (uint32_t place = 0; place < PLACES; place++)
        assert_true(seen[place]);
    sky_fleet_destroy(f);
}

static void shells_out_of_range_are_refused(void **state) {
    (void)state;
    sky_fleet *f = NULL;
    sky_constellation c = {.planes = 0, .slots = 4, .altitude_km = 550};
    assert_int_equal(sky_fleet_walker(&c, 0, &f, NULL), SKY_E_PARAM);
    c.planes = 4096;
    c.slots = 4096;
    assert_int_equal(sky_fleet_walker(&c, 0, &f, NULL), SKY_E_PARAM);
    c = (sky_constellation){.planes = 4, .slots = 4, .altitude_km = NAN};
    assert_int_equal(sky_fleet_walker(&c, 0, &f, NULL), SKY_E_PARAM);
    assert_null(f);
    sky_fleet_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_say_the_same),
        cmocka_unit_test(names_do_not_tell_the_format),
        cmocka_unit_test(what_stands_behind_column_69_is_skipped),
        cmocka_unit_test(quotes_in_a_name_are_read),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(json_errors_have_the_line_of_their_key),
        cmocka_unit_test(other_frames_are_refused),
        cmocka_unit_test(elements_find_their_grid),
        cmocka_unit_test(a_crowded_plane_is_thinned),
        cmocka_unit_test(shells_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
