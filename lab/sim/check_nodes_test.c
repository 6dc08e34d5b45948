/* Proves that the checker of satellites notices each thing it is for, and holds its peace while one
 * does all of it rightly: what it hears and says is shown to the checker, then tampered with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sim/check_nodes.h"
#include "satellite/bench_fixture.h"
#include "satellite/node_state.h"

static const sky_satellite east = {3, 6}, here = {3, 5};

typedef struct {
    bench b;
    sky_check_nodes check;
    uint8_t bytes[SKY_WIRE_BYTES_MAX];
    sky_datagram said;
} subject;

static void begin(subject *s) {
    bench_open(&s->b, 8);
    assert_int_equal(sky_check_nodes_init(&s->check, 95), SKY_OK);
}

static void end(subject *s) {
    sky_check_nodes_deinit(&s->check);
    bench_close(&s->b);
}

static void show(subject *s, sky_world_tap_kind kind, const sky_datagram *d) {
    sky_check_nodes_tap(&s->check, kind, &s->b.node, d);
}

typedef void tampering(subject *s);

/* The node hears m; `tamper` happens before the checker looks. */
static void tell(subject *s, sky_time now, const sky_message *m, sky_satellite from,
                 tampering *tamper) {
    sky_datagram d = {.from = from, .to = here, .data = s->bytes};
    d.bytes = sky_message_encode(m, s->bytes, sizeof s->bytes);
    show(s, SKY_TAP_HEARS, &d);
    sky_node_input(&s->b.node, now, &d);
    if (tamper)
        tamper(s);
    show(s, SKY_TAP_HEARD, &d);
}

/* It says something, which `tamper` may change in s->said. */
static bool hear(subject *s, sky_time now, tampering *tamper) {
    static uint8_t out[SKY_WIRE_BYTES_MAX];
    s->said = (sky_datagram){.data = out, .bytes_max = sizeof out};
    if (!sky_node_output(&s->b.node, now, &s->said))
        return false;
    if (tamper)
        tamper(s);
    show(s, SKY_TAP_SAID, &s->said);
    return true;
}

static void put_and_get(subject *s, tampering *stored, tampering *acknowledged,
                        tampering *answered) {
    sky_message set = bench_set(SKY_WIRE_SET, 1, here);
    sky_message get = {.type = SKY_WIRE_GET, .request = 2, .id = set.id};
    tell(s, 0, &set, SKY_GROUND, stored);
    assert_true(hear(s, SKY_MS(10), acknowledged));
    tell(s, SKY_MS(11), &get, SKY_GROUND, NULL);
    assert_true(hear(s, SKY_MS(20), answered));
}

static bool all_well(const sky_check_nodes *c) {
    return c->stores && c->answers && c->sound && c->drops && c->moves && c->calm;
}

static void what_is_right_passes(void **state) {
    (void)state;
    subject s;
    begin(&s);
    put_and_get(&s, NULL, NULL, NULL);
    sky_message move = bench_set(SKY_WIRE_MIGRATE, 2, here);
    tell(&s, SKY_MS(30), &move, east, NULL);
    assert_true(hear(&s, SKY_MS(30), NULL));
    sky_message drop = {.type = SKY_WIRE_DROP, .id = bench_name(1, 1), .stride = 1, .last = 1};
    tell(&s, SKY_MS(40), &drop, SKY_GROUND, NULL);
    for (uint32_t i = 0; i < 9; i++) { /* one more than its queue holds */
        sky_message get = {.type = SKY_WIRE_GET, .request = i, .id = bench_name(i, 1)};
        tell(&s, SKY_MS(50), &get, SKY_GROUND, NULL);
    }
    while (hear(&s, SKY_MS(90), NULL))
        ;
    assert_true(all_well(&s.check));
    end(&s);
}

/* Nobody waits for the answer to a head that is set again, and one that was removed gets none. */
static void a_removed_head_needs_no_answer(void **state) {
    (void)state;
    subject s;
    begin(&s);
    sky_message set = bench_set(SKY_WIRE_SET, 1, here);
    set.id.number = 0;
    set.facts.checksum = sky_chunk_checksum(&set.id, set.data, set.data_bytes);
    tell(&s, 0, &set, SKY_GROUND, NULL);
    assert_true(hear(&s, SKY_MS(10), NULL));
    sky_message drop = {.type = SKY_WIRE_DROP, .id = set.id, .stride = 1};
    tell(&s, SKY_MS(20), &drop, SKY_GROUND, NULL);
    set.request = 0;
    tell(&s, SKY_MS(30), &set, SKY_GROUND, NULL);
    assert_false(hear(&s, SKY_MS(40), NULL));
    assert_int_equal(sky_node_chunks(&s.b.node), 0);
    assert_true(all_well(&s.check));
    end(&s);
}

static void lose_chunk(subject *s) {
    for (uint32_t i = 0; i < s->b.node.slot_fresh; i++) {
        if (s->b.node.slots[i].used)
            sky__node_remove(&s->b.node, &s->b.node.slots[i]);
    }
}

static void lose_answer(subject *s) {
    s->b.node.job_count--;
}

static void lose_ack(subject *s) {
    s->b.node.ack_count--;
}

static void encode_again(subject *s, const sky_message *m) {
    s->said.bytes = sky_message_encode(m, s->said.data, s->said.bytes_max);
}

static void say_not_stored(subject *s) {
    sky_message m;
    assert_int_equal(sky_message_decode(s->said.data, s->said.bytes, &m), SKY_OK);
    m.outcome = SKY_NOT_STORED;
    encode_again(s, &m);
}

static void say_another(subject *s) {
    sky_message m;
    assert_int_equal(sky_message_decode(s->said.data, s->said.bytes, &m), SKY_OK);
    m.id.number++;
    encode_again(s, &m);
}

static void say_to_another(subject *s) {
    s->said.to.slot++;
}

static void flip_a_bit(subject *s) {
    s->said.data[s->said.bytes - 1] ^= 1;
}

static void each_wrong_is_noticed(void **state) {
    (void)state;
    static const struct {
        tampering *stored, *acknowledged, *answered;
        size_t member;
    } rows[] = {{lose_chunk, NULL, NULL, offsetof(sky_check_nodes, stores)},
                {NULL, say_not_stored, NULL, offsetof(sky_check_nodes, answers)},
                {NULL, say_another, NULL, offsetof(sky_check_nodes, answers)},
                {NULL, say_to_another, NULL, offsetof(sky_check_nodes, answers)},
                {NULL, NULL, say_another, offsetof(sky_check_nodes, answers)},
                {NULL, NULL, flip_a_bit, offsetof(sky_check_nodes, sound)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        subject s;
        begin(&s);
        put_and_get(&s, rows[i].stored, rows[i].acknowledged, rows[i].answered);
        assert_false(*(const bool *)((const char *)&s.check + rows[i].member));
        end(&s);
    }
}

static void answers_that_are_forgotten_are_missed(void **state) {
    (void)state;
    subject s;
    begin(&s);
    sky_message set = bench_set(SKY_WIRE_SET, 1, here);
    tell(&s, 0, &set, SKY_GROUND, lose_answer);
    assert_false(s.check.answers);
    end(&s);
    begin(&s);
    set = bench_set(SKY_WIRE_MIGRATE, 1, here);
    tell(&s, 0, &set, east, lose_ack);
    assert_false(s.check.answers);
    end(&s);
    begin(&s);
    tell(&s, 0, &set, east, lose_chunk);
    assert_false(s.check.stores);
    end(&s);
}

static void bring_back(subject *s) {
    sky_message set = bench_set(SKY_WIRE_SET, 1, here);
    bench_tell(&s->b, SKY_MS(40), &set);
}

static void a_drop_that_is_ignored_is_noticed(void **state) {
    (void)state;
    subject s;
    begin(&s);
    put_and_get(&s, NULL, NULL, NULL);
    sky_message drop = {.type = SKY_WIRE_DROP, .id = bench_name(1, 1), .stride = 1, .last = 1};
    tell(&s, SKY_MS(40), &drop, SKY_GROUND, bring_back);
    assert_false(s.check.drops);
    end(&s);
}

/* Of one chunk and one to spare: 64 times each in a second. */
/* All of it is well. */
static void say_so_often(subject *s, const sky_datagram *said, int times) {
    for (int i = 0; i < times; i++)
        show(s, SKY_TAP_SAID, said);
    assert_true(all_well(&s->check));
}

static void a_chunk_is_not_sent_without_end(void **state) {
    (void)state;
    subject s;
    begin(&s);
    put_and_get(&s, NULL, NULL, NULL);
    sky_message migrate = bench_set(SKY_WIRE_MIGRATE, 1, east);
    static uint8_t out[SKY_WIRE_BYTES_MAX];
    sky_datagram said = {.from = here, .to = east, .data = out};
    said.bytes = sky_message_encode(&migrate, out, sizeof out);
    say_so_often(&s, &said, 2 * 64);
    s.b.node.now += SKY_SECONDS(1);
    say_so_often(&s, &said, 2 * 64);
    s.b.node.stat.migrated = 2;
    s.b.node.now += SKY_SECONDS(1);
    show(&s, SKY_TAP_SAID, &said);
    s.b.node.stat.migrated = 0; /* it crashed, and has one chunk again */
    show(&s, SKY_TAP_SAID, &said);
    assert_true(all_well(&s.check));
    s.b.node.now += SKY_SECONDS(1);
    say_so_often(&s, &said, 2 * 64);
    show(&s, SKY_TAP_SAID, &said);
    assert_false(s.check.calm);
    end(&s);
}

static void a_crash_owes_nothing(void **state) {
    (void)state;
    subject s;
    begin(&s);
    sky_message set = bench_set(SKY_WIRE_SET, 1, here);
    tell(&s, 0, &set, SKY_GROUND, NULL);
    sky_check_nodes_crashed(&s.check, 2 * 19 + 4);
    sky_node_init(&s.b.node, &s.b.config, here, SKY_MS(1), s.b.memory, s.b.bytes);
    set.id.number = 2;
    set.facts.checksum = sky_chunk_checksum(&set.id, set.data, set.data_bytes);
    tell(&s, SKY_MS(2), &set, SKY_GROUND, NULL);
    assert_true(hear(&s, SKY_MS(20), NULL));
    assert_true(all_well(&s.check));
    end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_passes),
        cmocka_unit_test(a_removed_head_needs_no_answer),
        cmocka_unit_test(each_wrong_is_noticed),
        cmocka_unit_test(answers_that_are_forgotten_are_missed),
        cmocka_unit_test(a_drop_that_is_ignored_is_noticed),
        cmocka_unit_test(a_chunk_is_not_sent_without_end),
        cmocka_unit_test(a_crash_owes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
