/* Proves: what the public functions say of a sky that is a tier, and that they refuse what is no
 * sky, no tier, no cache, and a cache that was opened before a fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem-sky/skies.h>

#include <skymem/skymem.h>

static sky_cache *open_cache(void) {
    const char *urls[] = {"mem:1MiB", "sky:scenarios/constellation.yaml"};
    sky_cache *c;
    sky_error error;
    assert_int_equal(sky_skies_register(), SKY_OK);
    assert_int_equal(sky_cache_open(urls, 2, &c, &error), SKY_OK);
    return c;
}

/* Each of the three says this of the tier, of a value that is not there. */
static bool all_say(sky_cache *c, size_t tier, sky_status status, sky_status of_chunks) {
    static sky_satellite_stat satellites[1];
    const sky_key key = {{9}};
    sky_sky_report report;
    sky_chunk_report chunks;
    size_t count;
    return sky_cache_sky_report(c, tier, &report) == status &&
           sky_cache_satellites(c, tier, 0, satellites, 1, &count) == status &&
           sky_cache_chunks(c, tier, &key, 0, NULL, 0, &chunks) == of_chunks;
}

static void only_a_sky_answers(void **state) {
    (void)state;
    sky_cache *c = open_cache();
    const sky_key key = {{9}};
    assert_true(all_say(c, 1, SKY_OK, SKY_MISS));
    assert_true(all_say(c, 0, SKY_E_PARAM, SKY_E_PARAM));
    assert_true(all_say(c, 2, SKY_E_PARAM, SKY_E_PARAM));
    assert_true(all_say(NULL, 1, SKY_E_PARAM, SKY_E_PARAM));
    assert_int_equal(sky_cache_sky_report(c, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_satellites(c, 1, 0, NULL, 0, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_chunks(c, 1, &key, 0, NULL, 0, NULL), SKY_E_PARAM);
    sky_cache_close(c);
}

static void a_child_of_fork_is_refused_as_one(void **state) {
    (void)state;
    sky_cache *c = open_cache();
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(!all_say(c, 1, SKY_E_FORKED, SKY_E_FORKED) ||
              !all_say(c, 2, SKY_E_FORKED, SKY_E_FORKED));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(all_say(c, 1, SKY_OK, SKY_MISS));
    sky_cache_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_sky_answers),
        cmocka_unit_test(a_child_of_fork_is_refused_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
