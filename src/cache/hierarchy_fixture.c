/* Hierarchies for tests, and one-item calls on them. */
#include "cache/hierarchy_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_internal.h"

sky_setting sky_setting_open(const char *mem, size_t far_count) {
    sky_setting s = {0};
    assert_int_equal(sky__cache_create(NULL, &s.cache), SKY_OK);
    if (mem) {
        sky_tier_env env = sky__cache_env(s.cache);
        sky_tier *tier;
        assert_int_equal(sky_memory_tier_open(mem, &env, &tier, NULL), SKY_OK);
        sky__cache_add(s.cache, tier);
    }
    for (size_t i = 0; i < far_count; i++) {
        s.far[i] = sky_scripted_open((uint8_t)(i + (mem != NULL)));
        sky__cache_add(s.cache, sky_scripted_tier(s.far[i]));
    }
    assert_int_equal(sky__cache_start(s.cache), SKY_OK);
    return s;
}

void sky_one_make(sky_one *o, uint64_t n) {
    memset(o, 0, sizeof *o);
    o->span = (sky_span){o->data, SKY_ONE_BYTES};
    o->item = (sky_item){.key = sky_fixture_key(n), .spans = &o->span, .span_count = 1};
}

sky_status sky_one_run(sky_cache *c, sky_op op, sky_one *o, const sky_call *call) {
    sky_batch batch;
    assert_int_equal(sky_submit(c, op, &o->item, 1, call, &batch), SKY_OK);
    assert_int_equal(sky_wait(c, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    return o->item.status;
}

sky_status sky_setting_put(sky_cache *c, uint64_t n, uint64_t seed, const sky_call *call) {
    sky_one o;
    sky_one_make(&o, n);
    sky_fixture_fill(o.data, SKY_ONE_BYTES, seed);
    return sky_one_run(c, SKY_OP_PUT, &o, call);
}

uint8_t sky_setting_get(sky_cache *c, uint64_t n, uint64_t seed, const sky_call *call) {
    sky_one o;
    sky_one_make(&o, n);
    if (sky_one_run(c, SKY_OP_GET, &o, call) != SKY_OK || o.item.bytes != SKY_ONE_BYTES)
        return SKY_TIER_NONE;
    return sky_fixture_holds(o.data, SKY_ONE_BYTES, seed) ? o.item.tier : SKY_TIER_NONE;
}

sky_status sky_setting_do(sky_cache *c, sky_op op, uint64_t n, const sky_call *call) {
    sky_one o;
    sky_one_make(&o, n);
    return sky_one_run(c, op, &o, call);
}

bool sky_setting_near_has(sky_cache *c, uint64_t n) {
    return sky_setting_do(c, SKY_OP_HAS, n, &SKY_NEAR_ONLY) == SKY_OK;
}

sky_status sky_setting_flush(sky_cache *c) {
    return sky_flush(c, sky_now() + SKY_TEST_PATIENCE, NULL);
}

sky_tier_stat sky_setting_stat(sky_cache *c, size_t tier) {
    sky_tier_stat s;
    assert_int_equal(sky_cache_stat(c, tier, &s), SKY_OK);
    return s;
}

void sky_setting_plant(sky_scripted *s, uint64_t n, uint64_t seed) {
    uint8_t data[SKY_ONE_BYTES];
    sky_fixture_fill(data, SKY_ONE_BYTES, seed);
    sky_scripted_plant(s, sky_fixture_key(n), data, SKY_ONE_BYTES);
}

bool sky_setting_far_holds(sky_scripted *s, uint64_t n, uint64_t seed) {
    sky_key key = sky_fixture_key(n);
    size_t bytes;
    const void *data = sky_scripted_peek(s, &key, &bytes);
    return data && bytes == SKY_ONE_BYTES && sky_fixture_holds(data, SKY_ONE_BYTES, seed);
}

bool sky_setting_far_has(sky_scripted *s, uint64_t n) {
    sky_key key = sky_fixture_key(n);
    size_t bytes;
    return sky_scripted_peek(s, &key, &bytes) != NULL;
}

void sky_setting_nap(void) {
    sky_poll(NULL, 0, sky_now() + SKY_MS(1));
}
