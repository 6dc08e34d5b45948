/* Proves that a ground hears how much of what it had dropped or pinned was there; and that what it
 * removed is not taken in again from who did not hear of that, for a while, but is from who puts
 * it. That givers drop it too is proved in ground/session_copies_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5}, other = {3, 4};

/* From the ground: what comes back at once; false: nothing. */
static bool said(bench *b, sky_time now, const sky_message *m, sky_message *answer) {
    bench_tell(b, now, m);
    return bench_hear(b, now, answer);
}

static sky_outcome migrated(bench *b, sky_time now, const sky_message *m) {
    sky_message answer;
    bench_tell_from(b, now, m, other);
    assert_true(bench_hear(b, now, &answer));
    assert_int_equal(answer.type, SKY_WIRE_MIGRATE_ACK);
    return answer.outcome;
}

static void a_row_is_answered_where_it_was_asked_for(void **state) {
    (void)state;
    static const sky_wire_type types[] = {SKY_WIRE_DROP, SKY_WIRE_PIN};
    for (uint32_t i = 0; i < 2; i++) {
        bench b;
        bench_open(&b, 8);
        sky_message answer;
        for (uint32_t number = 1; number <= 3; number++) {
            sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, here);
            m.id.number = number;
            m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
            assert_int_equal(migrated(&b, 0, &m), SKY_STORED);
        }
        sky_message row = {.type = types[i], .id = bench_name(1, 1), .stride = 2, .last = 5};
        row.facts.pinned = types[i] == SKY_WIRE_PIN;
        row.request = 77;
        assert_true(said(&b, 1, &row, &answer));
        assert_int_equal(answer.type, SKY_WIRE_ROW_ACK);
        assert_int_equal(answer.request, 77);
        assert_int_equal(answer.moved, 2);
        assert_true(said(&b, 1, &row, &answer)); /* asked again, as the answer may be lost */
        assert_int_equal(answer.moved, types[i] == SKY_WIRE_DROP ? 0 : 2);
        row.request = 0;
        assert_false(said(&b, 1, &row, &answer));
        row.request = 78; /* one satellite passes it on to another: nobody waits */
        bench_tell_from(&b, 1, &row, other);
        bench_silent(&b, 1);
        bench_close(&b);
    }
}

static void what_was_removed_is_not_taken_in_for_a_while(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    b.config.turning.rotation_ns = SKY_TIME_NEVER;
    sky_node_init(&b.node, &b.config, here, 0, b.memory, b.bytes);
    const sky_message chunk = bench_set(SKY_WIRE_MIGRATE, 1, here);
    sky_message drop = {.type = SKY_WIRE_DROP, .id = chunk.id, .stride = 1, .last = 1};
    bench_tell(&b, 0, &drop); /* though nothing of it is here */
    assert_int_equal(migrated(&b, 1, &chunk), SKY_REMOVED);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    sky_message another = bench_set(SKY_WIRE_MIGRATE, 1, here);
    another.id.version = 2; /* of the same key */
    another.facts.checksum = sky_chunk_checksum(&another.id, bench_payload, sizeof bench_payload);
    assert_int_equal(migrated(&b, 1, &another), SKY_STORED);
    sky_time most = SKY_NODE_REMOVED_NS;
    assert_int_equal(migrated(&b, most - 1, &chunk), SKY_REMOVED);
    assert_int_equal(migrated(&b, most, &chunk), SKY_STORED);
    bench_close(&b);
}

/* A head, as a message of this type. */
static sky_message head(sky_wire_type type, uint64_t version, uint64_t request) {
    sky_message m = bench_set(type, 1, here);
    m.id.number = 0;
    m.id.version = version;
    m.request = request;
    m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
    return m;
}

static uint32_t held_after(bench *b, sky_time now, const sky_message *m) {
    bench_tell(b, now, m);
    return sky_node_chunks(&b->node);
}

static void heads_that_were_removed_stay_away(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    sky_message old = head(SKY_WIRE_MIGRATE, 5, 1), same = head(SKY_WIRE_MIGRATE, 9, 1);
    sky_message drop = {.type = SKY_WIRE_DROP, .id = same.id, .stride = 1};
    assert_int_equal(migrated(&b, 0, &old), SKY_STORED);
    bench_tell(&b, 0, &drop); /* a put that was given up: what was there before stays */
    assert_int_equal(sky_node_chunks(&b.node), 1);
    assert_int_equal(migrated(&b, 0, &same), SKY_REMOVED);
    drop.older = true;
    assert_int_equal(held_after(&b, 0, &drop), 0);
    assert_int_equal(migrated(&b, 0, &old), SKY_STORED); /* not here, but not the one removed */
    assert_int_equal(migrated(&b, 0, &same), SKY_REMOVED);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    const sky_message mended = head(SKY_WIRE_SET, 9, 0), put = head(SKY_WIRE_SET, 8, 3);
    assert_int_equal(held_after(&b, 0, &mended), 0);
    assert_int_equal(held_after(&b, 0, &put), 1); /* by a clock that is behind */
    const sky_message newer = head(SKY_WIRE_MIGRATE, 8, 1);
    assert_int_equal(migrated(&b, 0, &newer), SKY_STORED);
    bench_close(&b);
}

/* So many removals that places are used again: the last are known, and so are most before. */
static void many_removals_are_remembered(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    sky_message drop = {.type = SKY_WIRE_DROP, .stride = 1, .last = 1};
    for (uint32_t i = 0; i < 2 * SKY_NODE_REMOVED_MAX; i++) {
        drop.id = bench_name(1, 1);
        drop.id.version = i;
        bench_tell(&b, (sky_time)i, &drop);
    }
    uint32_t known = 0;
    for (uint32_t i = 0; i < 2 * SKY_NODE_REMOVED_MAX; i++) {
        sky_message m = bench_set(SKY_WIRE_MIGRATE, 1, here);
        m.id.version = i;
        m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
        bool removed = migrated(&b, SKY_SECONDS(1), &m) == SKY_REMOVED;
        known += removed;
        assert_true(removed || i < 2 * SKY_NODE_REMOVED_MAX - 1);
    }
    assert_in_range(known, SKY_NODE_REMOVED_MAX * 3 / 4, SKY_NODE_REMOVED_MAX);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_answered_where_it_was_asked_for),
        cmocka_unit_test(what_was_removed_is_not_taken_in_for_a_while),
        cmocka_unit_test(heads_that_were_removed_stay_away),
        cmocka_unit_test(many_removals_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
