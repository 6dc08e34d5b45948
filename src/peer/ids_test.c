/* Proves: the ids of frames to a host begin again in time: what comes after any number of frames is
 * answered. Ids have 32 bits, and each tells its place among the frames under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "peer/peer_fixture.h"
#include "tier/peer/peer.h"
#include "tier/peer/peer_state.h"
#include "tier/tier_fixture.h"

#define LOOKUPS 300

/* Frames before ids begin again, once and twice; and before their number does. */
static const uint32_t frames[] = {UINT32_MAX / SKY__PEER_FLIGHTS_MAX - LOOKUPS / 2,
                                  UINT32_MAX / SKY__PEER_FLIGHTS_MAX * 2 + LOOKUPS,
                                  UINT32_MAX - LOOKUPS / 2};

static void lookups_are_answered(void **state) {
    static const sky_tier_env env;
    const char *url = "mem:1MiB";
    sky_peer_fixture host;
    sky_tier *tier;
    char text[256];
    (void)state;
    sky_peer_fixture_start(&host, &url, 1, false);
    sky_peer_fixture_url(&host, "connections=1", text);
    assert_int_equal(sky_peer_tier_open(text, &env, &tier, NULL), SKY_OK);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        ((sky__peer *)(void *)tier)->lanes->frame_count = frames[i]; /* nothing is under way */
        for (uint64_t n = 0; n < LOOKUPS; n++) {
            sky_item item = {.key = sky_fixture_key(n)};
            sky_fixture_run(tier, SKY_OP_HAS, &item, 1, NULL);
            assert_int_equal(item.status, SKY_MISS);
        }
    }
    tier->ops->close(tier);
    sky_peer_fixture_stop(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lookups_are_answered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
