/* The helpers of tier_fixture.h: keys, payloads, a clock, and calls that must succeed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "io/clock.h"
#include "tier/spans.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(120)

sky_key sky_fixture_key(uint64_t n) {
    sky_key key;
    sky_fixture_fill(key.bytes, sizeof key.bytes, n ^ UINT64_C(0x6b6579));
    return key;
}

static uint64_t word_of(sky_prng *random, size_t *left, size_t *bytes) {
    *bytes = *left < 8 ? *left : 8;
    *left -= *bytes;
    return sky_prng_u64(random);
}

void sky_fixture_fill(void *data, size_t bytes, uint64_t seed) {
    sky_prng random;
    sky_prng_init(&random, seed);
    uint8_t *at = data;
    for (size_t left = bytes, piece; left > 0; at += piece) {
        uint64_t word = word_of(&random, &left, &piece);
        memcpy(at, &word, piece);
    }
}

bool sky_fixture_holds(const void *data, size_t bytes, uint64_t seed) {
    sky_prng random;
    sky_prng_init(&random, seed);
    const uint8_t *at = data;
    for (size_t left = bytes, piece; left > 0; at += piece) {
        uint64_t word = word_of(&random, &left, &piece);
        if (memcmp(at, &word, piece) != 0)
            return false;
    }
    return true;
}

sky_status sky_fixture_read(const void *payload, size_t bytes, const sky_item *item,
                            uint64_t *read) {
    sky_range range;
    sky_status status = sky_range_resolve(item->range, bytes, &range);
    if (status != SKY_OK)
        return status;
    if (range.bytes > sky_spans_bytes(item->spans, item->span_count))
        return SKY_E_DST_SMALL;
    sky_spans_scatter(item->spans, item->span_count, (const uint8_t *)payload + range.offset,
                      range.bytes);
    *read = range.bytes;
    return SKY_OK;
}

sky_time sky_fixture_now(const sky_clock *clock) {
    (void)clock;
    return sky_now();
}

int64_t sky_fixture_wall_ms(const sky_clock *clock) {
    const sky_clock *real = sky_clock_system();
    return real->wall_ms(real) + ((const sky_fixture_clock *)(const void *)clock)->ahead_ms;
}

bool sky_fixture_durable;

sky_batch sky_fixture_submit(sky_tier *tier, sky_op op, sky_item *items, size_t count,
                             const sky_call *call) {
    static const sky_call durable = {.durable = true};
    sky_batch batch;
    if (!call && sky_fixture_durable)
        call = &durable;
    assert_int_equal(sky_tier_submit(tier, op, items, count, call, &batch), SKY_OK);
    assert_true(batch.id != 0);
    return batch;
}

void sky_fixture_run(sky_tier *tier, sky_op op, sky_item *items, size_t count,
                     const sky_call *call) {
    sky_batch batch = sky_fixture_submit(tier, op, items, count, call);
    assert_int_equal(sky_tier_wait(tier, batch, sky_now() + PATIENCE), SKY_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(items[i].status, SKY_PENDING);
}

static void *allocate(size_t bytes) {
    void *data = malloc(bytes ? bytes : 1);
    assert_non_null(data);
    return data;
}

sky_status sky_fixture_put(sky_tier *tier, sky_key key, const sky_key *parent, size_t bytes,
                           uint64_t seed) {
    sky_span span = {allocate(bytes), bytes};
    sky_fixture_fill(span.data, bytes, seed);
    sky_item item = {.key = key, .spans = &span, .span_count = 1};
    if (parent)
        item.parent = *parent;
    sky_fixture_run(tier, SKY_OP_PUT, &item, 1, NULL);
    free(span.data);
    return item.status;
}

sky_status sky_fixture_check(sky_tier *tier, sky_key key, size_t bytes, uint64_t seed) {
    sky_span span = {allocate(bytes + 64), bytes + 64};
    sky_item item = {.key = key, .spans = &span, .span_count = 1};
    sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
    bool right = item.bytes == bytes && sky_fixture_holds(span.data, bytes, seed);
    free(span.data);
    return item.status == SKY_OK && !right ? SKY_E_CORRUPT : item.status;
}

sky_status sky_fixture_one(sky_tier *tier, sky_op op, sky_key key) {
    sky_item item = {.key = key};
    sky_fixture_run(tier, op, &item, 1, NULL);
    return item.status;
}
