/* Proves that of changes under the condition of one version a satellite grants one, whoever asks
 * and however often; and that it decides nothing where another may, or where what it should hold
 * may not have come yet. That grounds which race see that is proved in ground/if_version_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "satellite/bench_fixture.h"

static const sky_satellite here = {3, 5}, next_door = {3, 4};

/* Change the head of block 1 from one version to another. */
static sky_message change(uint64_t from, uint64_t to, uint64_t name) {
    sky_message m = bench_set(SKY_WIRE_SET_IF, 1, here);
    m.facts.centre = m.facts.next = here; /* as heads lie: in a window of one */
    m.facts.window_planes = m.facts.window_slots = 1;
    m.id.number = 0;
    m.id.version = to;
    m.expected = from;
    m.name = name;
    m.facts.checksum = sky_chunk_checksum(&m.id, bench_payload, sizeof bench_payload);
    return m;
}

/* What comes back to it at `now`; the version that is said to be here in *version. */
static sky_outcome decided_at(bench *b, sky_time now, const sky_message *m, uint64_t *version) {
    sky_message answer;
    bench_tell(b, now, m);
    assert_true(bench_hear(b, now + BENCH_SERVE_NS, &answer));
    assert_int_equal(answer.type, SKY_WIRE_SET_ACK);
    assert_int_equal(answer.id.version, m->id.version);
    if (version)
        *version = answer.evicted.version;
    return answer.outcome;
}

static sky_time now;

static sky_outcome decided(bench *b, const sky_message *m, uint64_t *version) {
    now += SKY_MS(5);
    return decided_at(b, now, m, version);
}

static void open_still(bench *b) {
    bench_open(b, 8);
    b->config.turning.rotation_ns = SKY_TIME_NEVER;
    sky_node_init(&b->node, &b->config, here, 0, b->memory, b->bytes);
    now = 0;
}

static void one_of_those_that_race_wins(void **state) {
    (void)state;
    bench b;
    uint64_t version = 0;
    open_still(&b);
    sky_message first = change(0, 8, 1), second = change(0, 7, 2), third = change(8, 9, 3);
    assert_int_equal(decided(&b, &first, NULL), SKY_STORED);
    assert_int_equal(decided(&b, &second, &version), SKY_OTHER_VERSION);
    assert_int_equal(version, 8);
    assert_int_equal(decided(&b, &third, NULL), SKY_STORED);
    /* Asked again, for want of an answer: what came of it is said again, and nothing done twice. */
    assert_int_equal(decided(&b, &first, NULL), SKY_STORED);
    assert_int_equal(decided(&b, &second, &version), SKY_OTHER_VERSION);
    assert_int_equal(version, 9);
    assert_int_equal(sky_node_chunks(&b.node), 1);
    /* Two that chose one version for theirs: a name tells them apart. */
    sky_message same = change(8, 9, 4);
    assert_int_equal(decided(&b, &same, &version), SKY_OTHER_VERSION);
    assert_int_equal(version, 9);
    bench_close(&b);
}

static void removals_are_decided_too(void **state) {
    (void)state;
    bench b;
    uint64_t version = 1;
    open_still(&b);
    sky_message put = change(0, 8, 1), remove = change(8, 10, 2), late = change(8, 11, 3);
    remove.older = late.older = true;
    assert_int_equal(decided(&b, &put, NULL), SKY_STORED);
    assert_int_equal(decided(&b, &remove, NULL), SKY_STORED);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_int_equal(decided(&b, &remove, NULL), SKY_STORED);
    assert_int_equal(decided(&b, &late, &version), SKY_OTHER_VERSION);
    assert_int_equal(version, 0); /* it is known to be gone */
    sky_message again = change(0, 7, 4);
    assert_int_equal(decided(&b, &again, NULL), SKY_STORED);
    bench_close(&b);
}

/* Nothing of a key is here, and nobody removed it: it may not have come yet. */
static void the_empty_handed_wait(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    b.config.mend_grace_ns = SKY_MS(500);
    b.config.mend_period_ns = SKY_SECONDS(2);
    sky_time born = SKY_MS(10);
    sky_node_init(&b.node, &b.config, here, born, b.memory, b.bytes);
    sky_message put = change(0, 8, 1), alone = change(0, 9, 2), other = change(7, 8, 3);
    put.facts.copies = 2;
    assert_int_equal(decided_at(&b, born + SKY_MS(490), &alone, NULL), SKY_UNDECIDED);
    assert_int_equal(decided_at(&b, born + SKY_MS(2490), &put, NULL), SKY_UNDECIDED);
    assert_int_equal(decided_at(&b, born + SKY_MS(2495), &other, NULL), SKY_UNDECIDED);
    assert_int_equal(decided_at(&b, born + SKY_MS(2500), &put, NULL), SKY_STORED);
    bench_close(&b);
}

/* After a turn the head belongs next door, and until it is there nobody decides about it. */
static void who_hands_over_decides_no_more(void **state) {
    (void)state;
    bench b;
    sky_message put, answer;
    bench_open(&b, 8);
    put = change(0, 8, 1);
    assert_int_equal(decided_at(&b, 0, &put, NULL), SKY_STORED);
    sky_message more = change(8, 9, 2), none = change(0, 10, 3);
    bench_tell(&b, BENCH_TURN_NS, &more);
    assert_true(bench_hear(&b, BENCH_TURN_NS + BENCH_SERVE_NS, &answer));
    assert_int_equal(answer.type, SKY_WIRE_SET_ACK);
    assert_int_equal(answer.outcome, SKY_UNDECIDED);
    assert_true(bench_hear(&b, BENCH_TURN_NS + BENCH_SERVE_NS, &answer));
    assert_int_equal(answer.type, SKY_WIRE_MIGRATE);
    assert_int_equal(answer.id.version, 8);
    assert_true(sky_satellite_equal(b.to, next_door));
    assert_int_equal(decided_at(&b, BENCH_TURN_NS + SKY_MS(4), &more, NULL), SKY_UNDECIDED);
    answer.type = SKY_WIRE_MIGRATE_ACK;
    answer.outcome = SKY_STORED;
    bench_tell_from(&b, BENCH_TURN_NS + SKY_MS(8), &answer, next_door);
    assert_int_equal(sky_node_chunks(&b.node), 0);
    assert_int_equal(decided_at(&b, BENCH_TURN_NS + SKY_MS(10), &none, NULL), SKY_UNDECIDED);
    bench_tell_from(&b, BENCH_TURN_NS + SKY_MS(20), &more, next_door); /* grounds alone ask */
    assert_int_equal(b.node.stat.malformed, 1);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_those_that_race_wins),
        cmocka_unit_test(removals_are_decided_too),
        cmocka_unit_test(the_empty_handed_wait),
        cmocka_unit_test(who_hands_over_decides_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
