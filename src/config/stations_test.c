/* Proves that places are those of a file's stations, by name or number, and that a file that is
 * none is refused with line and column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/scenario.h"

static char folder[256];

static const char *write_file(const char *name, const char *text) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

#define SKY "constellation: {shell: oneweb}\nlookup: binary\nsky: physical\n"
#define USE                                                                                        \
    SKY "stations: stations.txt\nobserver: {station: Manila}\n"                                    \
        "grounds: {dalian: [station, 1, 20], york: [station, New York, 0, 100, 90, 30]}\n"

static sky_status load(const char *text, const char *stations, sky_scenario *s, sky_error *error) {
    write_file("stations.txt", stations);
    return sky_scenario_load(write_file("s.yaml", text), s, error);
}

static void places_are_those_of_stations(void **state) {
    (void)state;
    static const char *const files[] = {
        "0,Manila,14.604200,120.982200,7.5,-3177879.42,5292603.27,1597759.16\n"
        "1,Dalian,38.913811,121.602322,0.0,-2604036.49,4232416.56,3984875.52\n"
        "2,New York,40.7,-74,10,1,2,3\n",
        "0,Manila,14.604200,120.982200,7.5\r\n\n1, Dalian ,38.913811,121.602322,0.0\n"
        "2,New York,40.7,-74,10",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sky_scenario s;
        sky_error error = {0};
        if (load(USE, files[i], &s, &error) != SKY_OK)
            fail_msg("%s", error.text);
        assert_true(s.observer.latitude_deg == 14.6042 && s.observer.longitude_deg == 120.9822);
        assert_true(s.observer.altitude_m == 7.5);
        assert_int_equal(s.ground_count, 2);
        assert_true(s.grounds[0].place[0] == 38.913811 && s.grounds[0].place[1] == 121.602322);
        assert_true(s.grounds[0].bits_s == 20000000 && s.grounds[0].altitude_m == 0);
        assert_true(s.grounds[1].place[0] == 40.7 && s.grounds[1].place[1] == -74);
        assert_true(s.grounds[1].altitude_m == 10 && s.grounds[1].speed_km_h == 100);
        assert_true(s.grounds[1].min_elevation_deg == 30);
    }
}

static void other_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *stations, *says;
    } bad[] = {
        {USE, "0,Manila,14.6,120.9\n", "stations.txt:1: column 5: a station has 5 columns or 8"},
        {USE, "0,Manila,14.6,120.9,0,1\n", "stations.txt:1: column 6: a station has"},
        {USE, "0,Manila,14.6,120.9,0,1,2,3,4\n", "stations.txt:1: column 6: a station has"},
        {USE, "1,Manila,14.6,120.9,0\n", "stations.txt:1: column 1: stations are numbered"},
        {USE, "0,Manila,14.6,120.9,0\n\n2,Dalian,1,1,0\n", "stations.txt:3: column 1: stations"},
        {USE, "x,Manila,14.6,120.9,0\n", "stations.txt:1: column 1: stations are numbered"},
        {USE, "0,,14.6,120.9,0\n", "stations.txt:1: column 2: a name has"},
        {USE, "0,Manila,91,120.9,0\n", "stations.txt:1: column 3: latitudes are"},
        {USE, "0,Manila,nan,120.9,0\n", "stations.txt:1: column 3: latitudes are"},
        {USE, "0,Manila,14.6,-181,0\n", "stations.txt:1: column 4: latitudes are"},
        {USE, "0,Manila,14.6,120.9,1e9\n", "stations.txt:1: column 5: latitudes are"},
        {USE, "0,Manila,1,1,0\n1,Manila,2,2,0\n", "stations.txt:2: another station Manila"},
        {USE, "0,Manila,1,1,0\n1,York,2,2,0\n", "there is no station New York in"},
        {USE, "", "there is no station Manila in"},
        {SKY "observer: {station: Manila}\n", "", "s.yaml:1: a station of which file?"},
        {SKY "stations: absent.txt\n", "", "s.yaml:4: stations: "},
        {SKY "stations: stations.txt\nobserver: {station: 0, lat_deg: 3}\n", "0,A,1,1,0\n",
         "s.yaml:5: observer.station says where it is: leave out lat_deg"},
        {"constellation: {shell: oneweb}\nstations: stations.txt\n", "",
         "s.yaml:2: stations need sky: physical"},
        {SKY "stations: [a]\n", "", "a file of ground stations"},
        {SKY "stations: stations.txt\nobserver: {station: [a]}\n", "", "by name or number"},
        {SKY "stations: stations.txt\ngrounds: {a: [station]}\n", "", "[station, NAME]"},
        {SKY "stations: stations.txt\ngrounds: {a: [station, \"\"]}\n", "", "[station, NAME]"},
        {"constellation: {shell: oneweb, isls: isls.txt}\nsky: physical\n", "",
         "s.yaml:1: constellation.isls: lasers of which satellites?"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sky_scenario s;
        sky_error error = {0};
        assert_int_not_equal(load(bad[i].text, bad[i].stations, &s, &error), SKY_OK);
        if (!strstr(error.text, bad[i].says))
            fail_msg("%s: %s", bad[i].says, error.text);
    }
}

static void a_text_that_is_no_file_names_none(void **state) {
    (void)state;
    static const char text[] = SKY "stations: stations.txt\n";
    sky_scenario s;
    sky_error error = {0};
    assert_int_equal(sky_scenario_parse(text, strlen(text), "t", &s, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "stations: only a scenario file has it"));
}

static int make_folder(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/sky-XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_those_of_stations),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(a_text_that_is_no_file_names_none),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
