/* Proves that the checker of what lies in the sky notices: a lost copy, wrong bytes, chunks nobody
 * owns, too many of them, and copies and pieces of parity that do not come back; and that it holds
 * its peace where a fault explains them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/sim/check_sky.h"
#include "sim/world_fixture.h"

#define BLOCK_BYTES (20u << 10)

typedef struct {
    sky_fixture_world f;
    sky_check_sky check;
} subject;

/* A sky that holds one block, with so many pieces of parity in a stripe. */
static void begin_with(subject *s, uint32_t parity) {
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
    scenario.parity = parity;
    scenario.workload.value_bytes = BLOCK_BYTES;
    sky_fixture_world_open(&s->f, &scenario, 1);
    assert_int_equal(sky_fixture_do(&s->f, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
    sky_world_run(s->f.world, sky_world_now(s->f.world) + SKY_SECONDS(1));
    sky_check_sky_init(&s->check, &scenario);
}

static void begin(subject *s) {
    begin_with(s, 0);
}

static void look(subject *s, sky_check_sky_waiver waiver) {
    assert_int_equal(sky_check_sky_sample(&s->check, s->f.world, &waiver), SKY_OK);
}

static sky_node_chunk any_chunk;
static void note_chunk(void *context, const sky_node_chunk *chunk) {
    (void)context;
    if (chunk->id.number > 0)
        any_chunk = *chunk;
}

static void note_any_chunk(const subject *s) {
    for (uint32_t i = 0; i < sky_world_alive(s->f.world); i++)
        sky_node_each(sky_world_alive_node(s->f.world, i), note_chunk, NULL);
}

static void a_whole_sky_passes(void **state) {
    (void)state;
    subject s;
    begin(&s);
    look(&s, (sky_check_sky_waiver){.settled = true});
    assert_true(s.check.copies_kept && s.check.memory_bounded && s.check.queues_bounded);
    assert_true(s.check.agrees);
    sky_fixture_world_close(&s.f);
}

static void a_lost_copy_is_noticed(void **state) {
    (void)state;
    subject s;
    begin(&s);
    note_any_chunk(&s);
    const sky_frame *f = sky_world_frame(s.f.world);
    sky_satellite at = sky_session_place(sky_world_session(s.f.world), &any_chunk.facts,
                                         sky_turns(&f->turning, sky_world_now(s.f.world)));
    sky_world_crash(s.f.world, at);
    sky_check_sky waived = s.check;
    look(&s, (sky_check_sky_waiver){0});
    assert_false(s.check.copies_kept);
    assert_false(s.check.agrees);
    s.check = waived;
    look(&s, (sky_check_sky_waiver){.crashed_chunks = 9});
    assert_true(s.check.copies_kept && s.check.agrees);
    sky_fixture_world_close(&s.f);
}

static void wrong_bytes_are_noticed(void **state) {
    (void)state;
    subject s;
    begin(&s);
    note_any_chunk(&s);
    ((uint8_t *)(uintptr_t)any_chunk.data)[0] ^= 1;
    look(&s, (sky_check_sky_waiver){0});
    assert_false(s.check.copies_kept);
    sky_fixture_world_close(&s.f);
}

/* The satellite that holds this chunk of the block loses its memory. */
static void crash_holder(const subject *s, uint32_t number) {
    const sky_session *session = sky_world_session(s->f.world);
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_key key = sky_fixture_block(1);
    uint32_t block = sky_index_find(sky_session_index(session), &key);
    sky_session_chunk(session, block, number, &id, &facts, &bytes);
    const sky_turning *t = &sky_world_frame(s->f.world)->turning;
    sky_world_crash(s->f.world,
                    sky_session_place(session, &facts, sky_turns(t, sky_world_now(s->f.world))));
}

/* So does the one that a copy of this chunk belongs on. */
static void crash_copy(const subject *s, uint32_t number, uint32_t copy) {
    const sky_session *session = sky_world_session(s->f.world);
    sky_key key = sky_fixture_block(1);
    uint32_t block = sky_index_find(sky_session_index(session), &key);
    sky_world_crash(s->f.world, sky_session_home(session, block, number, copy));
}

/* Of a stripe that lacks pieces, once they should be back; not of one that lacks too many, nor
 * sooner, nor where satellites evict or anything may happen. */
static void pieces_that_stay_away_are_noticed(void **state) {
    (void)state;
    for (uint32_t lost = 0; lost <= 3; lost++) {
        subject s;
        begin_with(&s, 2);
        sky_time mend_ns = s.check.mend_ns;
        assert_true(mend_ns == SKY_SECONDS(1200));
        for (uint32_t i = 1; i <= lost; i++)
            crash_holder(&s, i);
        s.check.mend_ns = SKY_MS(500); /* as if the ground should have been at it by now */
        const sky_check_sky before = s.check;
        look(&s, (sky_check_sky_waiver){.crashed_chunks = 9, .quiet_ns = SKY_SECONDS(1)});
        assert_true(s.check.parity == (lost == 0 || lost == 3));
        s.check = before;
        look(&s, (sky_check_sky_waiver){.crashed_chunks = 9, .quiet_ns = SKY_MS(400)});
        look(&s, (sky_check_sky_waiver){.chaos = true, .quiet_ns = SKY_SECONDS(1)});
        s.check.mend_ns = mend_ns;
        look(&s, (sky_check_sky_waiver){.crashed_chunks = 9, .quiet_ns = 2 * mend_ns});
        assert_true(s.check.parity);
        sky_fixture_world_close(&s.f);
    }
}

/* A block in a true sky of few satellites a plane: lasers within a plane are behind the Earth. Of
 * chunk 1 there is one copy alone, as no laser leads to the other's place; of chunk 2 both. */
static void begin_in_true_sky(subject *s) {
    sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_HOP);
    scenario.physical = true;
    scenario.constellation.planes = 10;
    scenario.constellation.slots = 8;
    scenario.centre = (sky_satellite){5, 4};
    scenario.time.rotation_ns = SKY_SECONDS(15);
    scenario.replicas = 2;
    const uint32_t bytes = 2 * scenario.chunk_bytes;
    sky_fixture_world_open(&s->f, &scenario, 1);
    assert_int_equal(sky_fixture_do(&s->f, SKY_OP_PUT, 1, bytes).status, SKY_OK);
    sky_world_run(s->f.world, sky_world_now(s->f.world) + SKY_SECONDS(1));
    sky_check_sky_init(&s->check, &scenario);
    s->check.repair_ns = SKY_MS(500); /* as if satellites should have been at it by now */
}

/* A copy that no laser leads to cannot be made, whether the only one is there or was lost; one that
 * a laser leads to is missed. */
static void copies_that_nothing_leads_to_are_not_missed(void **state) {
    (void)state;
    for (uint32_t lost = 0; lost <= 2; lost++) {
        subject s;
        begin_in_true_sky(&s);
        if (lost > 0)
            crash_holder(&s, lost);
        look(&s, (sky_check_sky_waiver){.crashed_chunks = 9, .quiet_ns = SKY_SECONDS(1)});
        assert_int_equal(s.check.redundancy, lost < 2);
        sky_fixture_world_close(&s.f);
    }
}

static bool known;

static bool is_known(void *context, const sky_key *key, uint64_t version) {
    const sky_key put = sky_fixture_block(1);
    (void)context;
    assert_memory_equal(key, &put, sizeof put);
    assert_true(version != 0);
    return known;
}

/* Of a block that is known to have lost a chunk, a chunk without any copy does not count as one
 * that lacks copies. A chunk that still has one copy does, unless it was made again by parity. */
static void what_is_known_to_be_lost_is_not_missed(void **state) {
    (void)state;
    for (uint32_t copies_lost = 1; copies_lost <= 2; copies_lost++) {
        for (uint32_t i = 0; i < 4; i++) {
            subject s;
            sky_scenario scenario = sky_fixture_scenario(SKY_PLACE_ROTATION_HOP);
            scenario.replicas = 2;
            scenario.parity = i / 2;
            known = i % 2 == 1;
            sky_fixture_world_open(&s.f, &scenario, 1);
            sky_world_loss_known_set(s.f.world, is_known, NULL);
            const uint32_t bytes = scenario.chunk_bytes; /* one chunk, so that none is left thin */
            assert_int_equal(sky_fixture_do(&s.f, SKY_OP_PUT, 1, bytes).status, SKY_OK);
            sky_world_run(s.f.world, sky_world_now(s.f.world) + SKY_SECONDS(1));
            sky_check_sky_init(&s.check, &scenario);
            s.check.repair_ns = SKY_MS(500);
            for (uint32_t copy = 0; copy < copies_lost; copy++)
                crash_copy(&s, 1, copy);
            look(&s, (sky_check_sky_waiver){.crashed_chunks = 9, .quiet_ns = SKY_SECONDS(1)});
            bool nowhere = copies_lost == 2;
            assert_int_equal(s.check.redundancy, i < 2 ? nowhere && known : nowhere || known);
            sky_fixture_world_close(&s.f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_sky_passes),
        cmocka_unit_test(a_lost_copy_is_noticed),
        cmocka_unit_test(wrong_bytes_are_noticed),
        cmocka_unit_test(pieces_that_stay_away_are_noticed),
        cmocka_unit_test(copies_that_nothing_leads_to_are_not_missed),
        cmocka_unit_test(what_is_known_to_be_lost_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
