/* Proves: the ids of frames to the host begin again in time: what comes after any number of frames
 * is answered. Ids have 32 bits, and each tells its place among the frames under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "host/host_fixture.h"
#include "tier/shm/shm.h"
#include "tier/shm/shm_state.h"
#include "tier/tier_fixture.h"

#define LOOKUPS 300

/* Frames before ids begin again, once and twice; and before their number does. */
static const uint32_t frames[] = {UINT32_MAX / SKY__SHM_FLIGHTS_MAX - LOOKUPS / 2,
                                  UINT32_MAX / SKY__SHM_FLIGHTS_MAX * 2 + LOOKUPS,
                                  UINT32_MAX - LOOKUPS / 2};

static void lookups_are_answered(void **state) {
    static const sky_tier_env env;
    const char *url = "mem:1MiB";
    sky_host_fixture host;
    sky_tier *tier;
    char text[80];
    (void)state;
    sky_host_fixture_start(&host, &url, 1);
    snprintf(text, sizeof text, "shm:%s", host.socket_path);
    assert_int_equal(sky_shm_tier_open(text, &env, &tier, NULL), SKY_OK);
    sky__shm *t = (sky__shm *)(void *)tier;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        sky_mutex_lock(&t->mutex);
        t->frame_count = frames[i]; /* nothing is under way */
        sky_mutex_unlock(&t->mutex);
        for (uint64_t n = 0; n < LOOKUPS; n++) {
            sky_item item = {.key = sky_fixture_key(n)};
            sky_fixture_run(tier, SKY_OP_HAS, &item, 1, NULL);
            assert_int_equal(item.status, SKY_MISS);
        }
    }
    tier->ops->close(tier);
    sky_host_fixture_stop(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lookups_are_answered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
