/* Proves: what a memory tier of segments holds is there again in the next one, once, with names,
 * parents, classes, ends and pins, and in its order of eviction, in which a smaller one leaves out
 * the first; each segment is let go as soon as it is copied; a segment that is missing, or an index
 * with anything changed in it, brings no wrong byte and no crash; an index that is none is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/clock.h"
#include "io/shared.h"
#include "tier/mem/kept.h"
#include "tier/mem/memory.h"
#include "tier/mem/shared.h"
#include "tier/tier_fixture.h"

#define HEAD_BYTES     48u
#define ROW_BYTES      112u
#define CHECKSUM_PLACE 40u /* in the head */

static const sky_tier_env no_env = {0};

static sky_tier *open_memory(const char *url) {
    sky_tier *tier = NULL;
    assert_int_equal(sky_memory_tier_open(url, &no_env, &tier, NULL), SKY_OK);
    return tier;
}

static void put(sky_tier *tier, uint64_t n, uint64_t parent, size_t bytes, const char *name,
                const sky_call *call) {
    uint8_t *payload = malloc(bytes + 1);
    sky_span span = {payload, bytes};
    sky_item item = {.key = sky_fixture_key(n),
                     .spans = &span,
                     .span_count = 1,
                     .name = name,
                     .name_bytes = name ? (uint16_t)strlen(name) : 0};
    if (parent)
        item.parent = sky_fixture_key(parent);
    sky_fixture_fill(payload, bytes, n);
    sky_fixture_run(tier, SKY_OP_PUT, &item, 1, call);
    assert_int_equal(item.status, SKY_OK);
    free(payload);
}

/* Descriptors of its own, as a service manager has them. */
static sky_memory_kept keep(sky_tier *tier) {
    sky_memory_kept kept = {0};
    sky_arena_view view;
    assert_true(sky_memory_tier_arena(tier, &view));
    for (uint32_t i = 0; i < SKY_SEGMENTS_MAX; i++) {
        uint64_t generation;
        int fd = i < view.segment_count ? sky_memory_tier_segment(tier, i, &generation) : -1;
        kept.segments[i] = fd >= 0 ? dup(fd) : -1;
    }
    assert_int_equal(sky_memory_tier_keep(tier, &kept.index), SKY_OK);
    return kept;
}

/* The next process, in place of the one that ends. */
static sky_tier *reopen(sky_tier *before, const char *url, sky_memory_restored *restored) {
    const sky_memory_kept kept = keep(before);
    before->ops->close(before);
    sky_tier *after = open_memory(url);
    assert_int_equal(sky_memory_tier_restore(after, &kept, restored), SKY_OK);
    return after;
}

static sky_item describe(sky_tier *tier, uint64_t n) {
    sky_item item = {.key = sky_fixture_key(n)};
    const sky_call call = {0};
    tier->ops->answer(tier, SKY_OP_LEASE, &item, 1, &call);
    if (item.status == SKY_OK)
        tier->ops->release(tier, item.lease);
    return item;
}

static void fill(sky_tier *tier) {
    put(tier, 1, 0, 100, "a name", NULL);
    put(tier, 2, 0, 0, NULL, NULL);
    put(tier, 3, 2, 70000, NULL, &(sky_call){.coding = 3});
    put(tier, 4, 3, 5000, NULL, &(sky_call){.ttl_s = 1000});
    put(tier, 5, 99, 300, NULL, NULL); /* its parent is not here */
    put(tier, 6, 0, 200000, NULL, &(sky_call){.evict = SKY_EVICT_LAST});
    assert_int_equal(sky_fixture_one(tier, SKY_OP_PIN, sky_fixture_key(5)), SKY_OK);
}

static const size_t sizes[] = {0, 100, 0, 70000, 5000, 300, 200000};

static void all_is_there_again(void **state) {
    sky_tier *before = open_memory("mem:1MiB?shared=yes");
    (void)state;
    fill(before);
    const sky_memory_kept kept = keep(before);
    sky_memory_kept again = keep(before); /* a manager that did not forget */
    close(again.index);
    again.index = dup(kept.index);
    before->ops->close(before);
    sky_tier *after = open_memory("mem:1MiB?shared=yes");
    sky_memory_restored restored;
    assert_int_equal(sky_memory_tier_restore(after, &kept, &restored), SKY_OK);
    assert_int_equal(restored.entries, 6);
    assert_int_equal(restored.bytes, 275400);
    assert_int_equal(restored.lost + restored.ended, 0);
    for (uint64_t n = 1; n <= 6; n++)
        assert_int_equal(sky_fixture_check(after, sky_fixture_key(n), sizes[n], n), SKY_OK);
    sky_item named = describe(after, 1), third = describe(after, 3), fourth = describe(after, 4);
    assert_int_equal(named.name_bytes, 6);
    assert_string_equal(named.name, "a name");
    sky_key second = sky_fixture_key(2);
    assert_memory_equal(&third.parent, &second, sizeof second);
    assert_int_equal(describe(after, 6).evict, SKY_EVICT_LAST);
    assert_int_equal(third.coding, 3);
    assert_in_range(fourth.ttl_s, 900, 1000);
    sky_item has = {.key = sky_fixture_key(5)};
    sky_fixture_run(after, SKY_OP_HAS, &has, 1, NULL);
    assert_true(has.pinned);
    after->ops->close(after);
    after = open_memory("mem:1MiB?shared=yes");
    assert_int_equal(sky_memory_tier_restore(after, &again, &restored), SKY_E_CORRUPT);
    assert_int_equal(sky_fixture_one(after, SKY_OP_HAS, sky_fixture_key(1)), SKY_MISS);
    after->ops->close(after);
}

/* A smaller tier gets what would be evicted last, and what is pinned. */
static void the_last_used_find_room(void **state) {
    sky_tier *before = open_memory("mem:1MiB?shared=yes");
    (void)state;
    for (uint64_t n = 1; n <= 10; n++)
        put(before, n, 0, 100000, NULL, NULL);
    assert_int_equal(sky_fixture_one(before, SKY_OP_PIN, sky_fixture_key(4)), SKY_OK);
    for (uint64_t n = 1; n <= 3; n++)
        assert_int_equal(sky_fixture_check(before, sky_fixture_key(n), 100000, n), SKY_OK);
    sky_memory_restored restored;
    sky_tier *after = reopen(before, "mem:512KiB?shared=yes", &restored);
    assert_int_equal(restored.entries, 5);
    assert_int_equal(restored.left_out, 5);
    static const uint64_t there[] = {4, 1, 2, 3, 10};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sky_fixture_check(after, sky_fixture_key(there[i]), 100000, there[i]),
                         SKY_OK);
    after->ops->close(after);
}

/* Nor does it leave out what lives for what has ended. */
static void what_has_ended_takes_no_room(void **state) {
    sky_tier *before = open_memory("mem:1MiB?shared=yes");
    (void)state;
    for (uint64_t n = 1; n <= 9; n++)
        put(before, n, 0, 100000, NULL, n > 4 ? &(sky_call){.ttl_s = 1} : NULL);
    const sky_memory_kept kept = keep(before);
    before->ops->close(before);
    sky_memory_restored restored;
    sky_poll(NULL, 0, sky_now() + SKY_MS(1100));
    sky_tier *after = open_memory("mem:512KiB?shared=yes");
    assert_int_equal(sky_memory_tier_restore(after, &kept, &restored), SKY_OK);
    assert_int_equal(restored.ended, 5);
    assert_int_equal(restored.entries, 4);
    assert_int_equal(restored.left_out, 0);
    after->ops->close(after);
}

/* The next to go stays the next to go. */
static void the_order_of_eviction_stays(void **state) {
    sky_tier *before = open_memory("mem:1MiB?shared=yes");
    (void)state;
    for (uint64_t n = 1; n <= 10; n++)
        put(before, n, 0, 100000, NULL, NULL);
    for (uint64_t n = 9; n <= 9; n -= 2)
        assert_int_equal(sky_fixture_check(before, sky_fixture_key(n), 100000, n), SKY_OK);
    sky_memory_restored restored;
    sky_tier *after = reopen(before, "mem:1MiB?shared=yes", &restored);
    assert_int_equal(restored.entries, 10);
    static const uint64_t order[] = {2, 4, 6, 8, 10, 9, 7, 5, 3, 1};
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(sky_fixture_one(after, SKY_OP_HAS, sky_fixture_key(order[i])), SKY_OK);
        put(after, 100 + i, 0, 100000, NULL, NULL);
        assert_int_equal(sky_fixture_one(after, SKY_OP_HAS, sky_fixture_key(order[i])), SKY_MISS);
    }
    after->ops->close(after);
}

typedef struct {
    uint32_t count, last;
} passed;

static void count_gone(void *context, uint32_t segment) {
    passed *p = context;
    assert_true(p->count == 0 || segment > p->last);
    p->last = segment;
    p->count++;
}

/* Into a smaller one too. */
static void segments_go_one_by_one(void **state) {
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        sky_tier *before = open_memory("mem:256MiB?shared=yes"); /* of 64 MiB each */
        for (uint64_t n = 1; n <= 24; n++)
            put(before, n, 0, 10000000, NULL, NULL);
        sky_memory_kept kept = keep(before);
        before->ops->close(before);
        passed p = {0};
        kept.gone = count_gone;
        kept.context = &p;
        if (missing) {
            close(kept.segments[1]);
            kept.segments[1] = -1;
        }
        sky_tier *after = open_memory(missing ? "mem:256MiB?shared=yes" : "mem:64MiB?shared=yes");
        sky_memory_restored restored;
        assert_int_equal(sky_memory_tier_restore(after, &kept, &restored), SKY_OK);
        assert_int_equal(p.count, missing ? 3 : 4);
        if (missing)
            assert_in_range(restored.lost, 6, 8);
        uint64_t found = 0;
        for (uint64_t n = 1; n <= 24; n++) {
            sky_status status = sky_fixture_check(after, sky_fixture_key(n), 10000000, n);
            assert_true(status == SKY_OK || status == SKY_MISS);
            found += status == SKY_OK;
        }
        assert_int_equal(found, restored.entries);
        assert_in_range(found, missing ? 16 : 6, missing ? 18 : 6);
        after->ops->close(after);
    }
}

/* A copy with one bit flipped; as if it were whole: its checksum follows. */
static int spoil(int index, uint64_t bytes, uint64_t at, uint8_t bit, bool whole) {
    uint8_t *data = malloc(bytes);
    int fd;
    assert_int_equal(pread(index, data, bytes, 0), bytes);
    data[at] ^= bit;
    if (whole) {
        uint64_t sum = sky_checksum(data + HEAD_BYTES, bytes - HEAD_BYTES, 0);
        memcpy(data + CHECKSUM_PLACE, &sum, sizeof sum);
    }
    assert_int_equal(sky_shared_write_once(data, bytes, &fd), SKY_OK);
    free(data);
    return fd;
}

static sky_status restore_spoiled(const sky_memory_kept *kept, int index) {
    sky_memory_kept copy = *kept;
    copy.index = index;
    for (uint32_t i = 0; i < SKY_SEGMENTS_MAX; i++)
        copy.segments[i] = kept->segments[i] >= 0 ? dup(kept->segments[i]) : -1;
    sky_tier *after = open_memory("mem:1MiB?shared=yes");
    sky_memory_restored restored;
    sky_status status = sky_memory_tier_restore(after, &copy, &restored);
    assert_true(status == SKY_OK || status == SKY_E_CORRUPT || status == SKY_E_NOMEM);
    for (uint64_t n = 1; n <= 6; n++) {
        sky_item item = describe(after, n);
        if (item.status == SKY_OK && item.bytes == sizes[n])
            assert_int_equal(sky_fixture_check(after, sky_fixture_key(n), sizes[n], n), SKY_OK);
    }
    after->ops->close(after);
    return status;
}

static void a_changed_index_does_no_harm(void **state) {
    sky_tier *before = open_memory("mem:1MiB?shared=yes");
    (void)state;
    fill(before);
    const sky_memory_kept kept = keep(before);
    uint64_t bytes = (uint64_t)lseek(kept.index, 0, SEEK_END);
    assert_int_equal(bytes, HEAD_BYTES + 6 * ROW_BYTES);
    for (uint64_t at = 0; at < bytes; at += at < HEAD_BYTES + ROW_BYTES ? 1 : 7)
        for (int whole = 0; whole < 2; whole++) {
            int index = spoil(kept.index, bytes, at, (uint8_t)(1u << at % 8), whole);
            sky_status status = restore_spoiled(&kept, index);
            if (!whole && at >= HEAD_BYTES)
                assert_int_equal(status, SKY_E_CORRUPT);
        }
    assert_int_equal(restore_spoiled(&kept, dup(kept.segments[0])), SKY_E_CORRUPT);
    assert_int_equal(restore_spoiled(&kept, -1), SKY_E_CORRUPT);
    assert_int_equal(restore_spoiled(&kept, open("/dev/zero", O_RDONLY)), SKY_E_CORRUPT);
    for (uint32_t i = 0; i < SKY_SEGMENTS_MAX; i++)
        if (kept.segments[i] >= 0)
            close(kept.segments[i]);
    close(kept.index);
    before->ops->close(before);
}

static void private_memory_keeps_nothing(void **state) {
    sky_tier *tier = open_memory("mem:1MiB");
    int index;
    (void)state;
    assert_int_equal(sky_memory_tier_keep(tier, &index), SKY_E_UNSUPPORTED);
    tier->ops->close(tier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_there_again),
        cmocka_unit_test(the_last_used_find_room),
        cmocka_unit_test(what_has_ended_takes_no_room),
        cmocka_unit_test(the_order_of_eviction_stays),
        cmocka_unit_test(segments_go_one_by_one),
        cmocka_unit_test(a_changed_index_does_no_harm),
        cmocka_unit_test(private_memory_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
