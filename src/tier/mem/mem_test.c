/* Proves that the memory tier keeps what every tier promises, and what only it does: it answers at
 * once, damage in memory is found, metadata is bounded, nothing is lost under threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/prng.h"
#include "io/clock.h"
#include "io/pages.h"
#include "io/shared.h"
#include "io/sync.h"
#include "tier/mem/shared.h"
#include "tier/tier_fixture.h"

static sky_tier *open_url(const char *url, const sky_tier_env *env) {
    sky_tier *tier = NULL;
    sky_error error = {0};
    if (sky_memory_tier_open(url, env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

static sky_tier *open_memory(void *context, const sky_tier_env *env) {
    return open_url(context, env);
}

static void close_memory(void *context, sky_tier *tier) {
    (void)context;
    tier->ops->close(tier);
}

static const sky_tier_env no_env = {0};

static void urls_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *url;
        sky_status status;
    } bad[] = {{"mem:", SKY_E_SYNTAX},
               {"mem", SKY_E_SYNTAX},
               {"mem:many", SKY_E_SYNTAX},
               {"mem:-1GiB", SKY_E_SYNTAX},
               {"disk:1GiB", SKY_E_SYNTAX},
               {"mem:1GiB?max=2GiB", SKY_E_SYNTAX},
               {"mem:0", SKY_E_PARAM},
               {"mem:100B", SKY_E_PARAM},
               {"mem:100000TiB", SKY_E_PARAM},
               {"mem:60TiB", SKY_E_NOMEM},
               {"mem:1MiB?shared=oh", SKY_E_SYNTAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sky_tier *tier = NULL;
        sky_error error = {0};
        assert_int_equal(sky_memory_tier_open(bad[i].url, &no_env, &tier, &error), bad[i].status);
        assert_null(tier);
        assert_int_equal(error.status, bad[i].status);
        assert_true(strlen(error.text) > 10);
    }
    sky_tier *tier = open_url("mem:64KiB", &no_env);
    assert_string_equal(sky_fixture_stat(tier).url, "mem:64KiB");
    assert_int_equal(sky_fixture_counts(tier).bytes_max, 64 << 10);
    tier->ops->close(tier);
}

/* What the hierarchy asks without a batch: as a batch, and what it needs to copy an entry. */
static void answers_come_at_once_and_tell_all(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    uint8_t data[900];
    sky_span span = {data, sizeof data};
    sky_fixture_fill(data, sizeof data, 2);
    sky_item item = {.key = sky_fixture_key(2),
                     .parent = sky_fixture_key(1),
                     .spans = &span,
                     .span_count = 1,
                     .name = "two",
                     .name_bytes = 3};
    const sky_call call = {.coding = 3, .ttl_s = 100}, late = {.deadline_ns = 1};
    t->ops->answer(t, SKY_OP_PUT, &item, 1, &call);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.bytes, sizeof data);
    sky_item got[2] = {{.key = item.key, .spans = &span, .span_count = 1},
                       {.key = sky_fixture_key(9), .spans = &span, .span_count = 1}};
    memset(data, 0, sizeof data);
    t->ops->answer(t, SKY_OP_GET, got, 2, &(sky_call){0});
    assert_true(sky_fixture_holds(data, sizeof data, 2));
    assert_true(got[0].status == SKY_OK && got[0].tier == 0 && got[0].coding == 3);
    assert_true(got[0].ttl_s > 90 && got[0].ttl_s <= 100);
    assert_true(got[1].status == SKY_MISS && got[1].tier == SKY_TIER_NONE && got[1].bytes == 0);
    sky_item lent = {.key = item.key};
    t->ops->answer(t, SKY_OP_LEASE, &lent, 1, &(sky_call){0});
    assert_int_equal(lent.status, SKY_OK);
    assert_true(sky_fixture_holds(lent.view.data, lent.view.bytes, 2));
    assert_memory_equal(&lent.parent, &item.parent, sizeof lent.parent);
    assert_true(lent.name_bytes == 3 && memcmp(lent.name, "two", 3) == 0);
    assert_true(lent.coding == 3 && lent.ttl_s > 90);
    t->ops->release(t, lent.lease);
    t->ops->answer(t, SKY_OP_HAS, got, 1, &late);
    assert_int_equal(got[0].status, SKY_E_DEADLINE);
    t->ops->close(t);
}

/* Nanoseconds of 20,000 puts of blocks without their parents. */
static sky_time time_puts(const char *url, bool aims) {
    sky_tier *t = open_url(url, &no_env);
    sky_span span = {"x", 1};
    sky_time from = sky_now();
    for (uint64_t i = 1; i <= 20000; i++) {
        /* chosen: with 32 low bits alike, and for the hash that the index had once */
        uint64_t high = i << 32, low = 7 - high * 0x9e3779b97f4a7c15u;
        sky_item item = {.key = sky_fixture_key(2 * i),
                         .parent = sky_fixture_key(2 * i + 1),
                         .spans = &span,
                         .span_count = 1};
        memcpy(item.key.bytes, aims ? (const void *)&low : item.key.bytes, sizeof low);
        memcpy(item.key.bytes + 8, aims ? (const void *)&high : item.key.bytes + 8, sizeof high);
        memcpy(item.parent.bytes, aims ? (const void *)&low : item.parent.bytes, 4);
        t->ops->answer(t, SKY_OP_PUT, &item, 1, &(sky_call){0});
        assert_int_equal(item.status, SKY_OK);
    }
    sky_time took = sky_now() - from;
    t->ops->close(t);
    return took;
}

/* Who chooses keys cannot make each put look at all that were put before. */
static void keys_cannot_be_made_to_meet(void **state) {
    (void)state;
    sky_time usual = SKY_TIME_NEVER, aimed = SKY_TIME_NEVER;
    for (int round = 0; round < 3; round++) {
        sky_time a = time_puts("mem:256MiB", false), b = time_puts("mem:256MiB", true);
        usual = a < usual ? a : usual;
        aimed = b < aimed ? b : aimed;
    }
    if (aimed > 8 * usual)
        fail_msg("%lld us instead of %lld", (long long)aimed / 1000, (long long)usual / 1000);
}

static void damage_is_found(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    for (uint64_t n = 1; n <= 5; n++) {
        sky_key parent = sky_fixture_key(n - 1);
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), n > 1 ? &parent : NULL, 9000, n),
                         SKY_OK);
    }
    sky_item item = {.key = sky_fixture_key(3)};
    sky_fixture_run(t, SKY_OP_LEASE, &item, 1, NULL);
    ((uint8_t *)item.view.data)[8999] ^= 1; /* what a borrower must not do */
    t->ops->release(t, item.lease);
    sky_verify_report r = {0};
    assert_int_equal(t->ops->verify(t, &r), SKY_OK);
    assert_int_equal(r.corrupt, 1);
    assert_int_equal(r.entries + r.orphans, 4); /* below it: looked at before it went, or not */
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(3), 9000, 3), SKY_MISS);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(4), 9000, 4), SKY_MISS);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(2), 9000, 2), SKY_OK);
    sky_tier_counts s = sky_fixture_counts(t);
    assert_int_equal(s.corrupt, 1);
    assert_int_equal(s.entries, 2);
    t->ops->close(t);
}

/* Of all of a payload that is leased, as long as it is what the key has. */
static void checksums_are_told(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    sky_item item = {.key = sky_fixture_key(1)};
    uint8_t payload[3000];
    uint64_t sum = 0;
    sky_fixture_fill(payload, sizeof payload, 1);
    assert_int_equal(sky_fixture_put(t, item.key, NULL, sizeof payload, 1), SKY_OK);
    sky_fixture_run(t, SKY_OP_LEASE, &item, 1, NULL);
    assert_true(sky_memory_tier_checksum(t, &item.key, &item.view, &sum));
    assert_int_equal(sum, sky_checksum(payload, sizeof payload, 0));
    const sky_span first = {item.view.data, 2999}, last = {(uint8_t *)item.view.data + 1, 2999};
    const sky_key other = sky_fixture_key(2);
    assert_false(sky_memory_tier_checksum(t, &item.key, &first, &sum));
    assert_false(sky_memory_tier_checksum(t, &item.key, &last, &sum));
    assert_false(sky_memory_tier_checksum(t, &other, &item.view, &sum));
    assert_int_equal(sky_fixture_put(t, item.key, NULL, sizeof payload, 3), SKY_OK);
    assert_false(sky_memory_tier_checksum(t, &item.key, &item.view, &sum));
    assert_int_equal(sum, sky_checksum(payload, sizeof payload, 0));
    t->ops->release(t, item.lease);
    t->ops->close(t);
}

static void entries_are_bounded(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    for (uint64_t n = 0; n < 3000; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 1, n), SKY_OK);
    sky_tier_counts s = sky_fixture_counts(t);
    assert_int_equal(s.entries, 1024);
    assert_int_equal(s.evictions, 3000 - 1024);
    assert_int_equal(s.bytes_used, 1024 * 64);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(2999), 1, 2999), SKY_OK);
    for (uint64_t n = 3000 - 1024; n < 3000; n++)
        assert_int_equal(sky_fixture_one(t, SKY_OP_PIN, sky_fixture_key(n)), SKY_OK);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(5000), NULL, 1, 1), SKY_E_FULL);
    s = sky_fixture_counts(t);
    assert_int_equal(s.bytes_used, 1024 * 64); /* the bytes went with the entry */
    t->ops->close(t);
}

/* One byte. */
static void put_class(sky_tier *t, uint64_t n, size_t name_bytes, uint8_t evict) {
    static char name[SKY_NAME_BYTES_MAX];
    memset(name, 'x', sizeof name);
    sky_span span = {name, 1};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    item.name = name_bytes > 0 ? name : NULL;
    item.name_bytes = name_bytes;
    sky_fixture_run(t, SKY_OP_PUT, &item, 1, &(sky_call){.evict = evict});
    assert_int_equal(item.status, SKY_OK);
}

/* Of the units that an entry takes for its byte and its name, and of the entries there may be, half
 * is for others. */
static void small_entries_leave_half_to_others(void **state) {
    (void)state;
    static const struct {
        const char *url;
        size_t name_bytes;
        uint64_t room; /* for so many of them */
    } sizes[] = {{"mem:1MiB", 0, 1024}, {"mem:64KiB", 1022, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t room = sizes[i].room, others = room / 2;
        sky_tier *t = open_url(sizes[i].url, &no_env);
        for (uint64_t n = 0; n < room; n++)
            put_class(t, n, sizes[i].name_bytes, SKY_EVICT_LAST);
        for (uint64_t n = room; n < room + others; n++)
            put_class(t, n, sizes[i].name_bytes, SKY_EVICT_NORMAL);
        assert_int_equal(sky_fixture_counts(t).entries, room);
        for (uint64_t n = 0; n < room + others; n++)
            assert_int_equal(sky_fixture_one(t, SKY_OP_HAS, sky_fixture_key(n)),
                             n < others ? SKY_MISS : SKY_OK);
        t->ops->close(t);
    }
}

/* The index keeps 16 bytes of a key; the tier tells two keys apart that share them. */
static void keys_alike_are_told_apart(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    sky_key one = sky_fixture_key(1), two = one;
    two.bytes[31] ^= 1;
    assert_int_equal(sky_fixture_put(t, one, NULL, 500, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(t, two, 500, 2), SKY_MISS);
    assert_int_equal(sky_fixture_one(t, SKY_OP_REMOVE, two), SKY_MISS);
    assert_int_equal(sky_fixture_put(t, two, NULL, 600, 2), SKY_OK);
    assert_int_equal(sky_fixture_check(t, two, 600, 2), SKY_OK);
    assert_int_equal(sky_fixture_check(t, one, 500, 1), SKY_MISS);
    t->ops->close(t);
}

static void lent_bytes_are_counted_until_released(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 600000, 1), SKY_OK);
    sky_item item = {.key = sky_fixture_key(1)};
    sky_fixture_run(t, SKY_OP_LEASE, &item, 1, NULL);
    assert_int_equal(sky_fixture_one(t, SKY_OP_REMOVE, item.key), SKY_OK);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(2), NULL, 600000, 2), SKY_E_FULL);
    assert_true(sky_fixture_holds(item.view.data, 600000, 1));
    t->ops->release(t, item.lease);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(2), NULL, 600000, 2), SKY_OK);
    sky_tier_counts s = sky_fixture_counts(t);
    assert_int_equal(s.bytes_used, 600000);
    t->ops->close(t);
}

static void lent_entries_are_not_evicted(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1MiB", &no_env);
    sky_item lent[3];
    for (uint64_t n = 0; n < 3; n++) {
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 100000, n), SKY_OK);
        lent[n] = (sky_item){.key = sky_fixture_key(n)};
        sky_fixture_run(t, SKY_OP_LEASE, &lent[n], 1, NULL);
    }
    for (uint64_t n = 3; n < 40; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 100000, n), SKY_OK);
    for (uint64_t n = 0; n < 3; n++) {
        assert_int_equal(sky_fixture_check(t, lent[n].key, 100000, n), SKY_OK);
        t->ops->release(t, lent[n].lease);
    }
    t->ops->close(t);
}

/* What leaves first is all read; then others leave. */
static void a_class_that_is_read_leaves_it_to_the_next(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:64KiB", &no_env);
    put_class(t, 0, 0, SKY_EVICT_SOON);
    sky_item lent = {.key = sky_fixture_key(0)};
    sky_fixture_run(t, SKY_OP_LEASE, &lent, 1, NULL);
    for (uint64_t n = 1; n < 3000; n++)
        put_class(t, n, 0, SKY_EVICT_NORMAL);
    assert_int_equal(sky_fixture_one(t, SKY_OP_HAS, lent.key), SKY_OK);
    t->ops->release(t, lent.lease);
    t->ops->close(t);
}

/* Threads put, get, lease, pin and remove in a tier that is always full, so that evictions and
 * readers meet. Every payload that is seen must be the one of its key. */
#define STRESS_KEYS 40u
typedef struct {
    sky_tier *tier;
    uint64_t seed;
    uint32_t wrong;
    uint32_t leased;
} stress;

static size_t stress_bytes(uint64_t n) {
    return 2000 + n * 997 % 40000;
}

static void stress_lease(stress *s, const sky_item *item, uint64_t n) {
    if (item->status != SKY_OK)
        return;
    s->leased++;
    s->wrong += item->view.bytes != stress_bytes(n) ||
                !sky_fixture_holds(item->view.data, item->view.bytes, n);
    s->tier->ops->release(s->tier, item->lease);
}

static void *stress_body(void *argument) {
    stress *s = argument;
    sky_prng random;
    sky_prng_init(&random, s->seed);
    uint8_t *data = malloc(50000);
    for (int round = 0; round < 1500 && data; round++) {
        static const sky_op ops[] = {SKY_OP_PUT,    SKY_OP_PUT, SKY_OP_GET,   SKY_OP_LEASE,
                                     SKY_OP_REMOVE, SKY_OP_PIN, SKY_OP_UNPIN, SKY_OP_HAS};
        sky_op op = ops[sky_prng_below(&random, 8)];
        uint64_t n = sky_prng_below(&random, STRESS_KEYS);
        sky_span span = {data, op == SKY_OP_PUT ? stress_bytes(n) : 50000};
        sky_item item = {.key = sky_fixture_key(n),
                         .parent = sky_fixture_key(n % 5 ? n - 1 : 1000),
                         .spans = &span,
                         .span_count = 1};
        if (op == SKY_OP_PUT)
            sky_fixture_fill(data, span.bytes, n);
        sky_batch batch;
        s->wrong += sky_tier_submit(s->tier, op, &item, 1, NULL, &batch) != SKY_OK;
        s->wrong += sky_tier_wait(s->tier, batch, SKY_TIME_NEVER) != SKY_OK;
        if (op == SKY_OP_LEASE)
            stress_lease(s, &item, n);
        if (op == SKY_OP_GET && item.status == SKY_OK)
            s->wrong += item.bytes != stress_bytes(n) || !sky_fixture_holds(data, item.bytes, n);
    }
    free(data);
    return NULL;
}

static bool count_entry(void *context, const sky_entry *e) {
    (void)e;
    ++*(uint32_t *)context;
    return true;
}

static void threads_never_see_wrong_bytes(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:300KiB", &no_env);
    sky_thread threads[4];
    stress workers[4];
    for (uint64_t i = 0; i < 4; i++) {
        workers[i] = (stress){.tier = t, .seed = i + 1};
        assert_int_equal(sky_thread_start(&threads[i], "stress", stress_body, &workers[i]), SKY_OK);
    }
    sky_verify_report r = {0};
    uint32_t listed = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(t->ops->verify(t, &r), SKY_OK);
        assert_int_equal(t->ops->list(t, count_entry, &listed), SKY_OK);
    }
    assert_int_equal(r.corrupt, 0);
    for (size_t i = 0; i < 4; i++) {
        sky_thread_join(&threads[i]);
        assert_int_equal(workers[i].wrong, 0);
        assert_true(workers[i].leased > 0);
    }
    for (uint64_t n = 0; n < STRESS_KEYS; n++)
        (void)sky_fixture_one(t, SKY_OP_REMOVE, sky_fixture_key(n));
    sky_tier_counts s = sky_fixture_counts(t);
    assert_true(s.evictions > 0);
    assert_int_equal(s.entries, 0);
    assert_int_equal(s.bytes_used, 0); /* every reference was given back */
    t->ops->close(t);
}

static void *get_body(void *argument) {
    sky_tier *t = argument;
    for (uint64_t n = 0; n < 200; n++)
        if (sky_fixture_check(t, sky_fixture_key(n % 10), 100000, n % 10) != SKY_OK)
            return NULL;
    return t;
}

static bool sum_hits(void *context, const sky_entry *e) {
    *(uint64_t *)context += e->hits;
    return true;
}

/* What threads used is known before the next eviction chooses, and every use is counted once. */
static void uses_of_all_threads_are_counted(void **state) {
    (void)state;
    sky_tier *t = open_url("mem:1200KiB", &no_env);
    for (uint64_t n = 0; n < 12; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 100000, n), SKY_OK);
    sky_thread threads[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sky_thread_start(&threads[i], "gets", get_body, t), SKY_OK);
    for (size_t i = 0; i < 3; i++)
        sky_thread_join(&threads[i]);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(99), 1, 99), SKY_MISS);
    uint64_t hits = 0;
    assert_int_equal(t->ops->list(t, sum_hits, &hits), SKY_OK);
    assert_int_equal(hits, 600);
    sky_tier_counts s = sky_fixture_counts(t);
    assert_true(s.hits == 600 && s.misses == 1);
    for (uint64_t n = 20; n < 22; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 100000, n), SKY_OK);
    for (uint64_t n = 0; n < 12; n++)
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(n), 100000, n),
                         n < 10 ? SKY_OK : SKY_MISS);
    t->ops->close(t);
}

static int64_t wall_now;

static int64_t wall_ms(const sky_clock *clock) {
    (void)clock;
    return wall_now;
}

static sky_time no_time(const sky_clock *clock) {
    (void)clock;
    return 0;
}

/* Any look at an entry past its time makes room. */
static void what_is_past_its_time_goes_when_it_is_met(void **state) {
    (void)state;
    static const sky_op looks[] = {SKY_OP_GET, SKY_OP_HAS, SKY_OP_LEASE, SKY_OP_PREFETCH};
    const sky_clock clock = {.now = no_time, .wall_ms = wall_ms};
    const sky_tier_env env = {.clock = &clock};
    sky_tier *t = open_url("mem:1MiB", &env);
    uint8_t data[100] = {0};
    sky_span span = {data, sizeof data};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        sky_item item = {.key = sky_fixture_key(i), .spans = &span, .span_count = 1};
        sky_tier_counts s;
        wall_now = 1000;
        t->ops->answer(t, SKY_OP_PUT, &item, 1, &(sky_call){.ttl_s = 1});
        t->ops->answer(t, SKY_OP_HAS, &item, 1, &(sky_call){0});
        assert_int_equal(item.status, SKY_OK);
        wall_now = 2000;
        t->ops->answer(t, looks[i], &item, 1, &(sky_call){0});
        assert_int_equal(item.status, SKY_MISS);
        s = sky_fixture_counts(t);
        assert_true(s.entries == 0 && s.bytes_used == 0);
    }
    t->ops->close(t);
}

/* ---- segments ---- */

static void segments_are_there_while_something_is_in_them(void **state) {
    (void)state;
    sky_arena_view view;
    uint64_t first, second;
    sky_tier *plain = open_url("mem:1MiB", &no_env), *t = open_url("mem:1MiB?shared=yes", &no_env);
    assert_false(sky_memory_tier_arena(plain, &view));
    assert_true(sky_memory_tier_arena(t, &view));
    assert_true(view.segment_count == 1 && view.region_bytes >= 1 << 20);
    assert_int_equal(sky_memory_tier_segment(t, 0, &first), -1);
    assert_int_equal(first, 0);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 5000, 1), SKY_OK);
    sky_item item = {.key = sky_fixture_key(1)};
    sky_fixture_run(t, SKY_OP_LEASE, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    int fd = sky_memory_tier_segment(t, 0, &first);
    assert_true(fd >= 0 && first == 1);
    uint8_t *peer;
    assert_int_equal(sky_pages_reserve(view.region_bytes, (void **)&peer, NULL), SKY_OK);
    assert_int_equal(sky_shared_map(fd, peer, view.segment_bytes, SKY_SHARED_READ), SKY_OK);
    size_t at = (size_t)((const uint8_t *)item.view.data - view.region);
    assert_true(sky_fixture_holds(peer + at, 5000, 1));
    assert_int_equal(sky_fixture_one(t, SKY_OP_REMOVE, sky_fixture_key(1)), SKY_OK);
    assert_int_equal(sky_memory_tier_segment(t, 0, &first), fd); /* the lease keeps it */
    t->ops->release(t, item.lease);
    assert_int_equal(sky_memory_tier_segment(t, 0, &first), -1);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(2), NULL, 5000, 2), SKY_OK);
    assert_true(sky_memory_tier_segment(t, 0, &second) >= 0 && second == 2);
    sky_pages_release(peer, view.region_bytes);
    plain->ops->close(plain);
    t->ops->close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_there_while_something_is_in_them),
        cmocka_unit_test(urls_are_checked),
        cmocka_unit_test(answers_come_at_once_and_tell_all),
        cmocka_unit_test(keys_cannot_be_made_to_meet),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(checksums_are_told),
        cmocka_unit_test(entries_are_bounded),
        cmocka_unit_test(small_entries_leave_half_to_others),
        cmocka_unit_test(keys_alike_are_told_apart),
        cmocka_unit_test(lent_bytes_are_counted_until_released),
        cmocka_unit_test(lent_entries_are_not_evicted),
        cmocka_unit_test(a_class_that_is_read_leaves_it_to_the_next),
        cmocka_unit_test(threads_never_see_wrong_bytes),
        cmocka_unit_test(uses_of_all_threads_are_counted),
        cmocka_unit_test(what_is_past_its_time_goes_when_it_is_met),
    };
    static char url[] = "mem:16MiB";
    const sky_tier_fixture memory = {.name = "memory",
                                     .context = url,
                                     .open = open_memory,
                                     .close = close_memory,
                                     .capacity_bytes = 16 << 20,
                                     .leases = true,
                                     .pins = true,
                                     .ttl = true,
                                     .adopts = true,
                                     .drops_orphans = true};
    static char shared_url[] = "mem:16MiB?shared=yes";
    sky_tier_fixture shared = memory;
    shared.name = "shared memory";
    shared.context = shared_url;
    return sky_tier_conformance(&memory) + sky_tier_conformance(&shared) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
