/* The part of the conformance suite that is about payloads, and the helpers other tests use. Each
 * test opens an empty tier of its own. */
#include "tier/tier_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "base/prng.h"
#include "io/clock.h"
#include "io/sync.h"
#include "tier/spans.h"

#define PATIENCE SKY_SECONDS(120)

static sky_item one(sky_tier *tier, sky_op op, sky_key key) {
    sky_item item = {.key = key};
    sky_fixture_run(tier, op, &item, 1, NULL);
    return item;
}

static bool has(sky_tier *tier, uint64_t n) {
    sky_status status = sky_fixture_one(tier, SKY_OP_HAS, sky_fixture_key(n));
    assert_true(status == SKY_OK || status == SKY_MISS);
    return status == SKY_OK;
}

#define assert_put(tier, n, bytes, seed)                                                           \
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(n), NULL, bytes, seed), SKY_OK)
#define assert_holds(tier, n, bytes, seed)                                                         \
    assert_int_equal(sky_fixture_check(tier, sky_fixture_key(n), bytes, seed), SKY_OK)
#define assert_one(tier, op, n, expected)                                                          \
    assert_int_equal(sky_fixture_one(tier, op, sky_fixture_key(n)), expected)

/* Below key n - 1. */
static void put_child(sky_tier *tier, uint64_t n, size_t bytes) {
    sky_key parent = sky_fixture_key(n - 1);
    assert_int_equal(sky_fixture_put(tier, sky_fixture_key(n), &parent, bytes, n), SKY_OK);
}

static const sky_tier_env plain_env = {0};

static sky_tier *open_tier(const sky_tier_fixture *f) {
    return f->open(f->context, &plain_env);
}

static size_t largest(const sky_tier_fixture *f) {
    return f->payload_bytes_max ? (size_t)f->payload_bytes_max : (3u << 20) + 4097;
}

/* ---- payloads ---- */

static void odd_sizes_come_back(void **state) {
    static const size_t sizes[] = {0,    1,    63,   64,   4095,  4096,          4097,
                                   6143, 6144, 6145, 6146, 12289, (1u << 20) + 1};
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    uint64_t count = sizeof sizes / sizeof *sizes;
    for (uint64_t n = 0; n <= count; n++) {
        size_t bytes = n < count ? sizes[n] : largest(f);
        if (bytes > largest(f))
            continue;
        assert_one(t, SKY_OP_HAS, n, SKY_MISS);
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(n), bytes, n), SKY_MISS);
        assert_put(t, n, bytes, n);
        sky_item item = one(t, SKY_OP_HAS, sky_fixture_key(n));
        assert_int_equal(item.status, SKY_OK);
        assert_int_equal(item.bytes, bytes);
        assert_int_not_equal(item.tier, SKY_TIER_NONE);
        assert_one(t, SKY_OP_PREFETCH, n, SKY_OK);
        assert_holds(t, n, bytes, n);
        assert_holds(t, n, bytes, n);
        assert_one(t, SKY_OP_REMOVE, n, SKY_OK);
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(n), bytes, n), SKY_MISS);
        assert_one(t, SKY_OP_REMOVE, n, SKY_MISS);
        assert_one(t, SKY_OP_PREFETCH, n, SKY_MISS);
    }
    f->close(f->context, t);
}

#define RANGED_BYTES 50021u
#define PIECES       7

/* Get [offset, offset + bytes) into pieces of uneven size, every third one skipped, with a guard
 * byte behind each; `extra` bytes more room than the range. */
static void get_range(sky_tier *t, uint64_t offset, uint64_t bytes, size_t extra) {
    static uint8_t payload[RANGED_BYTES], into[RANGED_BYTES + 999 + PIECES];
    sky_fixture_fill(payload, sizeof payload, 1);
    memset(into, 0xa5, sizeof into);
    uint64_t there = offset + bytes > RANGED_BYTES ? RANGED_BYTES - offset : bytes;
    size_t room = (size_t)there + extra, at = 0, starts[PIECES];
    sky_span spans[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        size_t piece = i + 1 == PIECES ? room : room * (i + 1) / 20;
        starts[i] = at;
        spans[i] = (sky_span){i % 3 == 1 ? NULL : &into[at], piece};
        at += piece + 1;
        room -= piece;
    }
    sky_item item = {
        .key = sky_fixture_key(1), .spans = spans, .span_count = PIECES, .range = {offset, bytes}};
    sky_fixture_run(t, SKY_OP_GET, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.bytes, there);
    for (size_t i = 0, from = 0; i < PIECES; i++) {
        size_t left = (size_t)there - from, got = spans[i].bytes < left ? spans[i].bytes : left;
        if (spans[i].data)
            assert_memory_equal(spans[i].data, payload + offset + from, got);
        assert_int_equal(into[starts[i] + spans[i].bytes], 0xa5);
        from += got;
    }
}

static void ranges_fill_spans_and_skip_gaps(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    assert_put(t, 1, RANGED_BYTES, 1);
    get_range(t, 0, RANGED_BYTES, 0);
    get_range(t, 0, 1, 0);
    get_range(t, 1, 6144, 0);
    get_range(t, 6143, 12290, 0);
    get_range(t, 4096, 4096, 500);
    get_range(t, RANGED_BYTES - 1, 1, 0);
    get_range(t, 17, SKY_ALL - 17, 0);      /* to the end */
    get_range(t, 40000, RANGED_BYTES, 999); /* clipped at the end */
    get_range(t, RANGED_BYTES, 100, 0);     /* starts at the end: nothing */
    f->close(f->context, t);
}

static sky_status get_status(sky_tier *t, sky_range range, size_t room) {
    static uint8_t into[RANGED_BYTES];
    sky_span span = {into, room};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1, .range = range};
    sky_fixture_run(t, SKY_OP_GET, &item, 1, NULL);
    if (item.status != SKY_OK)
        assert_int_equal(item.bytes, 0);
    return item.status;
}

static void impossible_gets_are_told(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    assert_put(t, 1, 10000, 1);
    assert_int_equal(get_status(t, (sky_range){0}, 9999), SKY_E_DST_SMALL);
    assert_int_equal(get_status(t, (sky_range){0, 0}, 9999), SKY_E_DST_SMALL);
    assert_int_equal(get_status(t, (sky_range){5000, 100}, 99), SKY_E_DST_SMALL);
    assert_int_equal(get_status(t, (sky_range){9000, 5000}, 1000), SKY_OK);
    assert_int_equal(get_status(t, (sky_range){10001, 1}, 100), SKY_E_PARAM);
    assert_int_equal(get_status(t, (sky_range){SKY_ALL, SKY_ALL}, 100), SKY_E_PARAM);
    assert_int_equal(get_status(t, (sky_range){0, 0}, 10000), SKY_OK);
    assert_holds(t, 1, 10000, 1); /* and nothing was lost over it */
    f->close(f->context, t);
}

static void impossible_submits_are_refused(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    static sky_item items[SKY_BATCH_ITEMS_MAX + 1];
    static char name[SKY_NAME_BYTES_MAX + 1];
    sky_batch batch = {7};
    assert_int_equal(sky_tier_submit(t, SKY_OP_HAS, items, 0, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_tier_submit(t, (sky_op)(SKY_OP_LEASE + 1), items, 1, NULL, &batch),
                     SKY_E_PARAM);
    assert_int_equal(sky_tier_submit(t, SKY_OP_HAS, items, SKY_BATCH_ITEMS_MAX + 1, NULL, &batch),
                     SKY_E_PARAM);
    assert_int_equal(batch.id, 7);
    assert_int_equal(sky_tier_wait(t, (sky_batch){0}, sky_now()), SKY_E_PARAM);
    sky_tier_cancel(t, (sky_batch){0});
    uint8_t byte = 1;
    sky_span span = {&byte, 1};
    sky_item named = {.key = sky_fixture_key(1),
                      .spans = &span,
                      .span_count = 1,
                      .name = name,
                      .name_bytes = sizeof name};
    sky_fixture_run(t, SKY_OP_PUT, &named, 1, NULL);
    assert_int_equal(named.status, SKY_E_PARAM);
    assert_false(has(t, 1));
    f->close(f->context, t);
}

static void a_put_replaces(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    static const size_t sizes[] = {7000, 7000, 100, 20000, 0, 9000};
    for (uint64_t i = 0; i < 6; i++) {
        assert_put(t, 1, sizes[i], 50 + i);
        assert_put(t, 2, 333, i);
        assert_holds(t, 1, sizes[i], 50 + i);
        assert_int_equal(one(t, SKY_OP_HAS, sky_fixture_key(1)).bytes, sizes[i]);
    }
    assert_holds(t, 2, 333, 5);
    f->close(f->context, t);
}

/* Three spans in, so that what is stored is their bytes in a row. */
static void spans_are_gathered(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    static uint8_t payload[30000];
    sky_fixture_fill(payload, sizeof payload, 4);
    sky_span spans[] = {
        {payload, 1}, {payload + 1, 0}, {payload + 1, 12344}, {NULL, 0}, {payload + 12345, 17655}};
    sky_item item = {.key = sky_fixture_key(4), .spans = spans, .span_count = 5};
    sky_fixture_run(t, SKY_OP_PUT, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.bytes, 30000);
    assert_holds(t, 4, 30000, 4);
    f->close(f->context, t);
}

/* ---- the tree ---- */

static void removal_takes_what_only_it_makes_reachable(void **state) {
    const sky_tier_fixture *f = *state;
    if (f->flat)
        skip();
    sky_tier *t = open_tier(f);
    assert_put(t, 100, 500, 100);
    for (uint64_t n = 101; n <= 105; n++) /* 100 ← 101 ← … ← 105 */
        put_child(t, n, 500);
    sky_key fork = sky_fixture_key(102);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(200), &fork, 500, 200), SKY_OK);
    assert_put(t, 300, 500, 300);
    assert_one(t, SKY_OP_REMOVE, 102, SKY_OK);
    static const uint64_t gone[] = {102, 103, 104, 105, 200}, kept[] = {100, 101, 300};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(gone[i]), 500, gone[i]), SKY_MISS);
    for (size_t i = 0; i < 3; i++)
        assert_holds(t, kept[i], 500, kept[i]);
    f->close(f->context, t);
}

static void children_may_come_before_parents(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->adopts)
        skip();
    sky_tier *t = open_tier(f);
    for (uint64_t n = 19; n > 10; n--)
        put_child(t, n, 300);
    put_child(t, 16, 400); /* replaced while it waits */
    assert_one(t, SKY_OP_REMOVE, 19, SKY_OK);
    assert_put(t, 10, 300, 10);
    for (uint64_t n = 11; n <= 18; n++)
        assert_holds(t, n, n == 16 ? 400 : 300, n);
    assert_one(t, SKY_OP_REMOVE, 10, SKY_OK);
    for (uint64_t n = 10; n <= 19; n++)
        assert_false(has(t, n));
    f->close(f->context, t);
}

static void children_go_with_a_parent_that_is_not_there(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->drops_orphans)
        skip();
    sky_tier *t = open_tier(f);
    static const uint64_t below[] = {11, 12, 21};
    for (size_t i = 0; i < 3; i++)
        put_child(t, below[i], 300);
    assert_one(t, SKY_OP_REMOVE, 10, SKY_MISS);
    assert_false(has(t, 11) || has(t, 12));
    assert_holds(t, 21, 300, 21);
    f->close(f->context, t);
}

/* ---- eviction ---- */

static size_t tenth(const sky_tier_fixture *f) {
    return (size_t)f->capacity_bytes / 10;
}

static void the_least_recently_used_goes_first(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->capacity_bytes)
        skip();
    sky_tier *t = open_tier(f);
    for (uint64_t n = 0; n < 25; n++) {
        assert_put(t, n, tenth(f), n);
        assert_holds(t, 0, tenth(f), 0); /* used all the time */
        assert_true(has(t, n));
    }
    assert_false(has(t, 1));
    uint64_t held = 0;
    bool seen = false;
    for (uint64_t n = 1; n < 25; n++) { /* what is left are the latest */
        bool there = has(t, n);
        assert_true(there || !seen);
        seen |= there;
        held += there;
        if (there)
            assert_holds(t, n, tenth(f), n);
    }
    assert_true(held >= 4);
    assert_true((held + 1) * tenth(f) <= f->capacity_bytes);
    f->close(f->context, t);
}

static void leaves_go_before_their_parents(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->capacity_bytes)
        skip();
    sky_tier *t = open_tier(f);
    assert_put(t, 100, tenth(f), 100);
    for (uint64_t n = 101; n < 105; n++)
        put_child(t, n, tenth(f));
    for (uint64_t n = 0; n < 14; n++) {
        assert_put(t, n, tenth(f), n);
        uint64_t depth = 0;
        while (depth < 5 && has(t, 100 + depth))
            depth++;
        for (uint64_t d = depth; d < 5; d++)
            assert_false(has(t, 100 + d));
    }
    assert_false(has(t, 100));
    f->close(f->context, t);
}

static void pinned_payloads_stay(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->pins)
        skip();
    sky_tier *t = open_tier(f);
    size_t bytes = f->capacity_bytes ? tenth(f) : 1000;
    assert_one(t, SKY_OP_PIN, 0, SKY_MISS);
    assert_one(t, SKY_OP_UNPIN, 0, SKY_MISS);
    assert_put(t, 0, bytes, 0);
    assert_one(t, SKY_OP_UNPIN, 0, SKY_E_PARAM);
    assert_one(t, SKY_OP_PIN, 0, SKY_OK);
    assert_one(t, SKY_OP_PIN, 0, SKY_OK); /* it is pinned or not: twice is once */
    assert_put(t, 0, bytes, 0);
    assert_true(one(t, SKY_OP_HAS, sky_fixture_key(0)).pinned);
    for (uint64_t n = 1; n < 15; n++)
        assert_put(t, n, bytes, n);
    assert_holds(t, 0, bytes, 0);
    assert_one(t, SKY_OP_UNPIN, 0, SKY_OK);
    assert_false(one(t, SKY_OP_HAS, sky_fixture_key(0)).pinned);
    assert_one(t, SKY_OP_UNPIN, 0, SKY_E_PARAM);
    for (uint64_t n = 1; n < 15; n++)
        assert_put(t, n, bytes, n);
    assert_int_equal(has(t, 0), f->capacity_bytes == 0);
    f->close(f->context, t);
}

static void a_full_tier_says_so(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->pins || !f->capacity_bytes)
        skip();
    sky_tier *t = open_tier(f);
    size_t huge = (size_t)f->capacity_bytes * 2;
    assert_put(t, 99, 100, 99);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(50), NULL, huge, 50), SKY_E_FULL);
    assert_holds(t, 99, 100, 99); /* what could not fit anyway evicted nothing */
    sky_status status = SKY_OK;
    uint64_t n = 0;
    for (; n < 12 && status == SKY_OK; n++) {
        status = sky_fixture_put(t, sky_fixture_key(n), NULL, tenth(f), n);
        if (status == SKY_OK)
            assert_one(t, SKY_OP_PIN, n, SKY_OK);
    }
    assert_int_equal(status, SKY_E_FULL);
    assert_false(has(t, n - 1));
    for (uint64_t i = 0; i + 1 < n; i++)
        assert_holds(t, i, tenth(f), i);
    assert_one(t, SKY_OP_REMOVE, 0, SKY_OK); /* pinned or not */
    assert_put(t, 60, tenth(f), 60);
    assert_holds(t, 60, tenth(f), 60);
    f->close(f->context, t);
}

/* ---- time ---- */

static void payloads_are_forgotten_in_time(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->ttl)
        skip();
    sky_fixture_clock clock = SKY_FIXTURE_CLOCK(0);
    sky_tier_env env = {.clock = &clock.clock};
    sky_tier *t = f->open(f->context, &env);
    uint8_t byte = 9;
    sky_span span = {&byte, 1};
    sky_item items[2] = {{.key = sky_fixture_key(1), .spans = &span, .span_count = 1},
                         {.key = sky_fixture_key(2), .spans = &span, .span_count = 1}};
    /* durable: a farther tier counts from when it stores, and must do so before time is turned */
    sky_fixture_run(t, SKY_OP_PUT, &items[0], 1, &(sky_call){.ttl_s = 100, .durable = true});
    sky_fixture_run(t, SKY_OP_PUT, &items[1], 1, &(sky_call){.ttl_s = 1000, .durable = true});
    assert_put(t, 3, 10, 3);
    clock.ahead_ms = 90000;
    assert_true(has(t, 1));
    clock.ahead_ms = 150000;
    assert_false(has(t, 1));
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(1), 1, 0), SKY_MISS);
    assert_true(has(t, 2));
    clock.ahead_ms = 1100000;
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(2), 1, 0), SKY_MISS);
    assert_holds(t, 3, 10, 3);
    sky_fixture_run(t, SKY_OP_PUT, &items[0], 1, &(sky_call){.ttl_s = 100});
    assert_true(has(t, 1)); /* a new life */
    f->close(f->context, t);
}

/* ---- list, verify, stat ---- */

#define LISTED 5
static const struct {
    const char *name;
    size_t bytes;
} odd_names[LISTED] = {{"plain", 5}, {"a\0b", 3}, {"../\n\xff/%s", 8}, {"\0", 1}, {NULL, 0}};

typedef struct {
    uint32_t calls;
    uint32_t calls_max;
    uint32_t seen[LISTED];
    uint32_t unknown;
    uint32_t wrong;
    int64_t now_ms;
} listing;

static bool note_entry(void *context, const sky_entry *e) {
    listing *l = context;
    for (uint32_t i = 0; i < LISTED; i++) {
        sky_key key = sky_fixture_key(i);
        if (memcmp(&key, &e->key, sizeof key) != 0)
            continue;
        l->seen[i]++;
        const char *name = odd_names[i].name;
        bool same = name ? e->name && e->name_bytes == odd_names[i].bytes &&
                               memcmp(e->name, name, e->name_bytes) == 0 &&
                               e->name[e->name_bytes] == 0
                         : e->name == NULL;
        bool timely = e->set_ms > l->now_ms - 60000 && e->set_ms <= l->now_ms + 60000;
        l->wrong += !same || !timely || e->bytes != 100 + i;
        return ++l->calls < l->calls_max;
    }
    l->unknown++;
    return ++l->calls < l->calls_max;
}

static void put_listed(sky_tier *t) {
    static uint8_t payload[200];
    for (uint32_t i = 0; i < LISTED; i++) {
        sky_fixture_fill(payload, 100 + i, i);
        sky_span span = {payload, 100 + i};
        sky_item item = {.key = sky_fixture_key(i),
                         .spans = &span,
                         .span_count = 1,
                         .name = odd_names[i].name,
                         .name_bytes = odd_names[i].bytes};
        sky_fixture_run(t, SKY_OP_PUT, &item, 1, NULL);
        assert_int_equal(item.status, SKY_OK);
    }
}

static void assert_listed(const sky_tier_fixture *f, sky_tier *t) {
    const sky_clock *real = sky_clock_system();
    listing l = {.calls_max = UINT32_MAX, .now_ms = real->wall_ms(real)};
    assert_int_equal(t->ops->list(t, note_entry, &l), SKY_OK);
    assert_int_equal(l.unknown, 0);
    assert_int_equal(l.wrong, 0);
    for (uint32_t i = 0; i < LISTED; i++)
        assert_true(f->composite ? l.seen[i] >= 1 : l.seen[i] == 1);
}

static void entries_are_listed_by_name(void **state) {
    const sky_tier_fixture *f = *state;
    if (f->unlisted)
        skip();
    sky_tier *t = open_tier(f);
    put_listed(t);
    put_listed(t); /* replaced, not doubled */
    assert_listed(f, t);
    listing l = {.calls_max = 2};
    assert_int_equal(t->ops->list(t, note_entry, &l), SKY_OK);
    assert_int_equal(l.calls, 2); /* the callback stopped it */
    f->close(f->context, t);
}

/* Counts in seen[0] what is wrong, in seen[n] entries of key n with the right parent. */
static bool note_parent(void *context, const sky_entry *e) {
    uint32_t *seen = context;
    const sky_key keys[] = {{{0}}, sky_fixture_key(1), sky_fixture_key(2)};
    uint32_t n = sky_key_equal(&e->key, &keys[1]) ? 1 : 2;
    seen[sky_key_equal(&e->key, &keys[n]) && sky_key_equal(&e->parent, &keys[n - 1]) ? n : 0]++;
    return true;
}

static void entries_tell_their_parents(void **state) {
    const sky_tier_fixture *f = *state;
    if (f->unlisted)
        skip();
    sky_tier *t = open_tier(f);
    uint32_t seen[3] = {0};
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 100, 1), SKY_OK);
    put_child(t, 2, 100);
    assert_int_equal(t->ops->list(t, note_parent, seen), SKY_OK);
    assert_true(seen[0] == 0 && seen[1] >= 1 && seen[2] >= 1);
    f->close(f->context, t);
}

static void verify_reads_everything(void **state) {
    const sky_tier_fixture *f = *state;
    if (f->unlisted)
        skip();
    sky_tier *t = open_tier(f);
    sky_verify_report r = {0};
    assert_int_equal(t->ops->verify(t, &r), SKY_OK);
    assert_true(r.entries == 0 && r.bytes == 0 && r.corrupt == 0 && r.orphans == 0);
    uint64_t bytes = 0;
    assert_put(t, 0, 0, 0);
    for (uint64_t n = 1; n < 10; n++) {
        put_child(t, n, 1000 * n + n);
        bytes += 1000 * n + n;
    }
    r.entries = 5; /* it adds */
    assert_int_equal(t->ops->verify(t, &r), SKY_OK);
    assert_true(f->composite ? r.entries >= 15 : r.entries == 15);
    assert_true(f->composite ? r.bytes >= bytes : r.bytes == bytes);
    assert_int_equal(r.corrupt, 0);
    assert_int_equal(r.orphans, 0);
    for (uint64_t n = 1; n < 10; n++)
        assert_holds(t, n, 1000 * n + n, n);
    f->close(f->context, t);
}

sky_tier_stat sky_fixture_stat(sky_tier *tier) {
    sky_tier_stat stat = {0};
    sky_counts counts = {0};
    tier->ops->stat(tier, &stat, &counts);
    return stat;
}

sky_tier_counts sky_fixture_counts(sky_tier *tier) {
    sky_tier_stat stat = {0};
    sky_counts counts = {0};
    tier->ops->stat(tier, &stat, &counts);
    return counts.tier;
}

static void statistics_count(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    for (uint64_t n = 0; n < 5; n++)
        assert_put(t, n, 3000, n);
    for (uint64_t n = 0; n < 8; n++)
        (void)sky_fixture_check(t, sky_fixture_key(n), 3000, n);
    assert_one(t, SKY_OP_REMOVE, 4, SKY_OK);
    sky_tier_stat stat = sky_fixture_stat(t);
    sky_tier_counts s = sky_fixture_counts(t);
    assert_true(stat.url[0] != 0 && memchr(stat.url, 0, sizeof stat.url));
    assert_true(f->uncounted || (f->composite ? s.entries >= 4 : s.entries == 4));
    assert_true(f->uncounted || s.bytes_used >= 4 * 3000);
    assert_true(s.bytes_max == 0 || s.bytes_used <= s.bytes_max);
    assert_true(f->composite ? s.puts >= 5 : s.puts == 5);
    assert_true(f->composite ? s.hits >= 5 : s.hits == 5);
    assert_true(f->composite ? s.misses >= 3 : s.misses == 3);
    assert_true(s.evictions == 0 && s.corrupt == 0 && s.dropped == 0 && s.errors == 0);
    assert_true(f->composite ? s.read_bytes >= 5 * 3000 : s.read_bytes == 5 * 3000);
    assert_true(f->composite ? s.written_bytes >= 5 * 3000 : s.written_bytes == 5 * 3000);
    assert_false(stat.failing);
    f->close(f->context, t);
}

/* ---- leases ---- */

static sky_item lend(sky_tier *t, uint64_t n, size_t bytes) {
    sky_item item = one(t, SKY_OP_LEASE, sky_fixture_key(n));
    assert_int_equal(item.status, SKY_OK);
    assert_true(item.lease.id != 0);
    assert_int_equal(item.view.bytes, bytes);
    assert_true(sky_fixture_holds(item.view.data, bytes, n));
    return item;
}

static void leases_are_refused_where_there_are_none(void **state) {
    const sky_tier_fixture *f = *state;
    if (f->leases)
        skip();
    sky_tier *t = open_tier(f);
    assert_put(t, 1, 100, 1);
    sky_item item = one(t, SKY_OP_LEASE, sky_fixture_key(1));
    assert_int_equal(item.status, SKY_E_UNSUPPORTED);
    assert_int_equal(item.lease.id, 0);
    f->close(f->context, t);
}

static void lent_payloads_outlive_their_entries(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->leases)
        skip();
    sky_tier *t = open_tier(f);
    for (uint64_t n = 0; n < 4; n++)
        assert_put(t, n, 60000 + n, n);
    assert_one(t, SKY_OP_LEASE, 77, SKY_MISS);
    sky_item kept[4], twice = lend(t, 0, 60000);
    for (uint64_t n = 0; n < 4; n++)
        kept[n] = lend(t, n, 60000 + n);
    assert_true(kept[0].lease.id != twice.lease.id);
    assert_one(t, SKY_OP_REMOVE, 0, SKY_OK);
    assert_put(t, 1, 60001, 111); /* as long as what was lent */
    for (uint64_t n = 10; n < 40 && f->capacity_bytes; n++)
        assert_put(t, n, tenth(f), n);
    for (uint64_t n = 0; n < 4; n++)
        assert_true(sky_fixture_holds(kept[n].view.data, 60000 + n, n));
    t->ops->release(t, twice.lease);
    t->ops->release(t, twice.lease); /* it is gone, and takes no other with it */
    t->ops->release(t, (sky_lease){0});
    sky_item again = lend(t, 3, 60003);
    t->ops->release(t, twice.lease); /* nor a later one */
    assert_one(t, SKY_OP_REMOVE, 3, SKY_OK);
    t->ops->release(t, kept[3].lease);
    kept[3] = again;
    for (uint64_t n = 40; n < 60 && f->capacity_bytes; n++)
        assert_put(t, n, tenth(f), n);
    for (uint64_t n = 0; n < 4; n++) {
        assert_true(sky_fixture_holds(kept[n].view.data, 60000 + n, n));
        t->ops->release(t, kept[n].lease);
    }
    for (uint64_t n = 60; n < 80 && f->capacity_bytes; n++)
        assert_put(t, n, tenth(f), n);
    assert_int_equal(has(t, 2), f->capacity_bytes == 0);
    f->close(f->context, t);
}

/* ---- what stays ---- */

static void payloads_survive_reopening(void **state) {
    const sky_tier_fixture *f = *state;
    if (!f->reopen)
        skip();
    sky_tier *t = open_tier(f);
    put_listed(t);
    t = f->reopen(f->context, t, &plain_env);
    if (!f->unlisted)
        assert_listed(f, t);
    assert_put(t, 100, 5000, 100);
    for (uint64_t n = 101; n < 106; n++)
        put_child(t, n, 5000 + (size_t)n);
    assert_one(t, SKY_OP_REMOVE, 0, SKY_OK);
    t = f->reopen(f->context, t, &plain_env);
    assert_false(has(t, 0));
    for (uint32_t i = 1; i < LISTED; i++)
        assert_holds(t, i, 100 + i, i);
    for (uint64_t n = 101; n < 106; n++)
        assert_holds(t, n, 5000 + n, n);
    assert_one(t, SKY_OP_REMOVE, 100, SKY_OK);
    for (uint64_t n = 100; n < 106; n++) /* the tree is known again */
        assert_int_equal(has(t, n), f->flat && n > 100);
    f->close(f->context, t);
}

/* ---- against a plain model ---- */

#define MODEL_KEYS 24u
typedef struct {
    bool there;
    uint32_t parent; /* MODEL_KEYS: none */
    size_t bytes;
    uint64_t seed;
} model_entry;

static void model_remove(model_entry *model, uint32_t k) {
    model[k].there = false;
    for (uint32_t c = 0; c < MODEL_KEYS; c++)
        if (model[c].there && model[c].parent == k)
            model_remove(model, c);
}

static void agrees_with_a_plain_model(void **state) {
    const sky_tier_fixture *f = *state;
    sky_tier *t = open_tier(f);
    model_entry model[MODEL_KEYS] = {0};
    sky_prng random;
    sky_prng_init(&random, 7);
    for (uint64_t round = 1; round <= 600; round++) {
        uint32_t k = (uint32_t)sky_prng_below(&random, MODEL_KEYS);
        model_entry *e = &model[k];
        switch (sky_prng_below(&random, 6)) {
        case 0: /* below one that is there and comes before it, so that no circle can be */
        case 1: {
            uint32_t p = (uint32_t)sky_prng_below(&random, MODEL_KEYS);
            if (!e->there)
                e->parent = p < k && model[p].there && !f->flat ? p : MODEL_KEYS;
            sky_key parent = sky_fixture_key(e->parent);
            e->bytes = (size_t)sky_prng_below(&random, 20000);
            e->seed = round;
            e->there = true;
            assert_int_equal(sky_fixture_put(t, sky_fixture_key(k),
                                             e->parent < MODEL_KEYS ? &parent : NULL, e->bytes,
                                             e->seed),
                             SKY_OK);
            break;
        }
        case 2:
            assert_one(t, SKY_OP_REMOVE, k, e->there ? SKY_OK : SKY_MISS);
            model_remove(model, k);
            break;
        case 3:
            assert_int_equal(has(t, k), e->there);
            break;
        default:
            assert_int_equal(sky_fixture_check(t, sky_fixture_key(k), e->bytes, e->seed),
                             e->there ? SKY_OK : SKY_MISS);
        }
    }
    f->close(f->context, t);
}

int sky_tier_payload_conformance(const sky_tier_fixture *fixture) {
    struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_sizes_come_back),
        cmocka_unit_test(ranges_fill_spans_and_skip_gaps),
        cmocka_unit_test(impossible_gets_are_told),
        cmocka_unit_test(impossible_submits_are_refused),
        cmocka_unit_test(a_put_replaces),
        cmocka_unit_test(spans_are_gathered),
        cmocka_unit_test(removal_takes_what_only_it_makes_reachable),
        cmocka_unit_test(children_may_come_before_parents),
        cmocka_unit_test(children_go_with_a_parent_that_is_not_there),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(leaves_go_before_their_parents),
        cmocka_unit_test(pinned_payloads_stay),
        cmocka_unit_test(a_full_tier_says_so),
        cmocka_unit_test(payloads_are_forgotten_in_time),
        cmocka_unit_test(entries_are_listed_by_name),
        cmocka_unit_test(entries_tell_their_parents),
        cmocka_unit_test(verify_reads_everything),
        cmocka_unit_test(statistics_count),
        cmocka_unit_test(leases_are_refused_where_there_are_none),
        cmocka_unit_test(lent_payloads_outlive_their_entries),
        cmocka_unit_test(payloads_survive_reopening),
        cmocka_unit_test(agrees_with_a_plain_model),
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i].initial_state = (void *)fixture;
    return cmocka_run_group_tests_name(fixture->name, tests, NULL, NULL);
}

int sky_tier_conformance(const sky_tier_fixture *fixture) {
    return sky_tier_payload_conformance(fixture) + sky_tier_batch_conformance(fixture);
}
