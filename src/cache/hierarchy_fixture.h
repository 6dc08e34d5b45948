/* Hierarchies of a memory tier and scripted ones, and one-item calls on them, for the tests of the
 * hierarchy's parts. All assert that calls themselves succeed. */
#ifndef SKY_STORE_HIERARCHY_FIXTURE_H
#define SKY_STORE_HIERARCHY_FIXTURE_H

#include "io/sync.h"
#include "tier/scripted_fixture.h"
#include "tier/tier_fixture.h"

#define SKY_TEST_PATIENCE SKY_SECONDS(30)
#define SKY_NEAR_ONLY     ((sky_call){.tiers = 1})
#define SKY_ONE_BYTES     5000

typedef struct {
    sky_cache *cache;
    sky_scripted *far[3];
} sky_setting;

/* `mem`: URL of the nearest tier, NULL for none. Close with sky_cache_close. */
sky_setting sky_setting_open(const char *mem, size_t far_count);

/* One item with its buffer, for key `n`. */
typedef struct {
    sky_item item;
    sky_span span;
    uint8_t data[SKY_ONE_BYTES];
} sky_one;

void sky_one_make(sky_one *o, uint64_t n);
sky_status sky_one_run(sky_cache *c, sky_op op, sky_one *o, const sky_call *call);

/* Put the payload of `seed` under key `n`. */
sky_status sky_setting_put(sky_cache *c, uint64_t n, uint64_t seed, const sky_call *call);
/* The tier that gave exactly the payload of `seed`; SKY_TIER_NONE for any other outcome. */
uint8_t sky_setting_get(sky_cache *c, uint64_t n, uint64_t seed, const sky_call *call);
sky_status sky_setting_do(sky_cache *c, sky_op op, uint64_t n, const sky_call *call);
bool sky_setting_near_has(sky_cache *c, uint64_t n);
sky_status sky_setting_flush(sky_cache *c);
sky_tier_stat sky_setting_stat(sky_cache *c, size_t tier);

/* Behind the hierarchy's back. */
void sky_setting_plant(sky_scripted *s, uint64_t n, uint64_t seed);
bool sky_setting_far_holds(sky_scripted *s, uint64_t n, uint64_t seed);
bool sky_setting_far_has(sky_scripted *s, uint64_t n);

void sky_setting_nap(void);
/* Wait until a condition holds; the test fails when it does not in time. */
#define SKY_EVENTUALLY(condition)                                                                  \
    for (sky_time until_ = sky_now() + SKY_TEST_PATIENCE; !(condition); sky_setting_nap())         \
    assert_true(sky_now() < until_)

#endif
