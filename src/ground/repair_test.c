/* Proves that a block with replicas or parity outlives satellites that lose their memory, lie or
 * say nothing, with right bytes; that what was rebuilt is put back; and that one satellite too many
 * is a miss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ground/orrery_fixture.h"
#include "ground/session_fixture.h"
#include "ground/session_state.h"

#define BLOCK_BYTES 12345 /* 49 data chunks, the last one short */

static void begin(sky_orrery *o, uint8_t replicas, uint8_t parity) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->session_config.replicas = replicas;
    o->session_config.parity = parity;
    sky_orrery_begin(o, 64);
    assert_int_equal(sky_orrery_do(o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
}

static sky_session_stat stat_of(const sky_orrery *o) {
    sky_session_stat s;
    sky_session_stats(o->grounds[0], &s);
    return s;
}

static sky_satellite server(const sky_orrery *o, uint32_t number) {
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_session_chunk(o->grounds[0], 0, number, &id, &facts, &bytes);
    return sky_session_place(o->grounds[0], &facts, sky_turns(&o->frame.turning, o->now));
}

static void assert_read(sky_orrery *o) {
    uint64_t before = o->delivered;
    sky_result r = sky_orrery_do(o, 0, SKY_OP_GET, 1, 0);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(o->delivered - before, BLOCK_BYTES);
    assert_int_equal(o->wrong, 0);
    assert_int_equal(r.time.light_ns + r.time.link_ns + r.time.processing_ns + r.time.session_ns,
                     r.time.ended - r.time.began);
}

static void parity_outlives_as_many_satellites(void **state) {
    (void)state;
    for (uint8_t parity = 1; parity <= 3; parity++) {
        for (uint32_t turns = 0; turns < 6; turns++) {
            sky_orrery o;
            begin(&o, 1, parity);
            sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
            uint32_t chunks = sky_orrery_chunks_of(&o, 1);
            uint32_t stripes = (49u + 9 - parity - 1) / (9u - parity);
            assert_int_equal(chunks, 49 + parity * stripes);
            for (uint32_t i = 0; i < parity; i++)
                sky_orrery_crash(&o, server(&o, 2 + 2 * i));
            assert_true(sky_orrery_chunks_of(&o, 1) < chunks);
            assert_read(&o);
            sky_session_stat s = stat_of(&o);
            assert_true(s.rebuilt >= stripes - 1 && s.rebuilt <= stripes * parity);
            sky_orrery_run(&o, o.now + SKY_SECONDS(1));
            assert_true(stat_of(&o).repaired_chunks >= s.rebuilt);
            assert_int_equal(sky_orrery_chunks_of(&o, 1), chunks); /* the parity too */
            assert_read(&o); /* all that was wanted is in its place again */
            assert_int_equal(stat_of(&o).rebuilt, s.rebuilt);
            sky_orrery_close(&o);
        }
    }
}

static void one_more_is_a_miss(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 1, 2);
    for (uint32_t number = 1; number <= 3; number++)
        sky_orrery_crash(&o, server(&o, number));
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_MISS);
    assert_int_equal(o.wrong, 0);
    sky_orrery_run(&o, SKY_SECONDS(2));
    assert_int_equal(sky_orrery_chunks(&o), 0); /* and the rest of it went */
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
    assert_read(&o);
    sky_orrery_close(&o);
}

static void parts_of_a_block_are_rebuilt_too(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 1, 1);
    sky_orrery_crash(&o, server(&o, 4));
    sky_request r = {
        .op = SKY_OP_GET, .key = sky_orrery_key(1), .context = (void *)1, .room_bytes = UINT64_MAX};
    r.range = (sky_range){3 * SKY_ORRERY_CHUNK + 10, 5}; /* inside chunk 4, read at its offset */
    sky_result result = sky_orrery_ask(&o, 0, &r);
    assert_int_equal(result.status, SKY_OK);
    assert_int_equal(o.delivered, 5);
    assert_int_equal(stat_of(&o).rebuilt, 1);
    sky_orrery_close(&o);
}

/* ---- replicas ---- */

static void replicas_are_on_different_satellites(void **state) {
    (void)state;
    for (uint8_t replicas = 2; replicas <= 4; replicas++) {
        for (uint32_t turns = 0; turns < 6; turns++) {
            sky_orrery o;
            begin(&o, replicas, 0);
            sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
            assert_int_equal(sky_orrery_chunks_of(&o, 1), 49 * replicas);
            for (uint32_t i = 0; i + 1 < replicas; i++)
                sky_orrery_crash(&o, server(&o, 1 + i * 3));
            assert_read(&o);
            assert_true(stat_of(&o).other_copies > 0);
            sky_orrery_close(&o);
        }
    }
}

/* ---- who lies, and who says nothing ---- */

static sky_satellite culprit;

static bool lies(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)to;
    if (sky_satellite_equal(from, culprit) && m->type == SKY_WIRE_CHUNK)
        ((uint8_t *)(uintptr_t)m->data)[0] ^= 1;
    return true;
}

static bool swallows(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)m, (void)from;
    return !sky_satellite_equal(to, culprit);
}

static void liars_and_black_holes_are_read_around(void **state) {
    (void)state;
    static const struct {
        uint8_t replicas, parity;
        sky_orrery_ear ear;
    } cases[] = {{2, 0, lies}, {1, 2, lies}, {2, 0, swallows}, {1, 2, swallows}};
    for (size_t i = 0; i < 4; i++) {
        sky_orrery o;
        begin(&o, cases[i].replicas, cases[i].parity);
        culprit = server(&o, 3);
        o.ear = cases[i].ear;
        sky_time began = o.now;
        assert_read(&o);
        assert_true(o.now - began < SKY_MS(500));
        uint32_t silent;
        uint32_t wrong = sky_session_suspicion(o.grounds[0], culprit, &silent);
        assert_true(cases[i].ear == lies ? wrong > 0 && silent == 0 : wrong == 0 && silent > 0);
        assert_int_equal(stat_of(&o).suspects, cases[i].ear == lies);
        sky_orrery_close(&o);
    }
}

/* ---- answers later than what they were for ---- */

static sky_ground_sent stored[32];
static uint32_t stored_count;

/* The message `which` (from 0) among those that ask for a chunk. */
static const sky_ground_sent *asked_for(const sky_ground *g, uint32_t number, uint32_t which) {
    for (uint32_t i = 0; i < g->sent_count; i++) {
        const sky_ground_sent *s = &g->sent[i];
        if (s->message.type == SKY_WIRE_GET && s->message.id.number == number && which-- == 0)
            return s;
    }
    fail_msg("chunk %u was not asked for", number);
    return NULL;
}

static void answer(sky_ground *g, uint32_t number, uint32_t which, bool hit) {
    const sky_ground_sent *s = asked_for(g, number, which);
    sky_message m = sky_ground_answer(s, stored, hit ? stored_count : 0);
    sky_ground_say(g, &m, s->to);
    sky_ground_listen(g, g->now + SKY_MS(1));
}

/* Stripes of 2 + 7. The first has its two pieces while a third is still on its way, because one
 * that was given up came after all; the third comes when the second stripe is being repaired. */
static void late_pieces_are_of_no_other_stripe(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open_parity(&g, 100, 64, 7);
    stored_count = sky_ground_put(&g, 1, 4 * SKY_GROUND_CHUNK, stored);
    assert_int_equal(stored_count, 18);
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    answer(&g, 1, 0, false);
    answer(&g, 2, 0, false); /* and 2 is on its way again, for the repair */
    answer(&g, 3, 0, true);
    answer(&g, 2, 1, true);
    assert_int_equal(sky_ground_stat(&g).rebuilt, 2);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(sky_ground_stat(&g).repaired_chunks, 1); /* the other was there after all */
    answer(&g, 10, 0, false);
    answer(&g, 4, 0, true); /* of the first stripe */
    answer(&g, 12, 0, true);
    answer(&g, 11, 1, true);
    answer(&g, 11, 0, true);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    assert_int_equal(g.wrong, 0);
    assert_int_equal(g.delivered, 4 * SKY_GROUND_CHUNK);
    sky_ground_close(&g);
}

/* Where links lose, parity is asked for with a stripe's data, not after a wait: one lost piece of
 * it costs no time. Puts and links that lose nothing ask for none. */
static void stripes_are_guarded_where_links_lose(void **state) {
    (void)state;
    for (int lossy = 0; lossy < 2; lossy++) {
        sky_ground g;
        sky_ground_open_parity(&g, 100, 64, 2);
        g.session->core.loss.gets = lossy ? 0.05 : 0;
        g.session->core.loss.samples = 256;
        stored_count = sky_ground_put(&g, 1, 14 * SKY_GROUND_CHUNK, stored); /* hears SETs alone */
        assert_int_equal(stored_count, 18);
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        assert_int_equal(sky_ground_stat(&g).retries, 0);
        assert_int_equal(g.sent_count, lossy ? 18 : 14);
        for (uint32_t i = 0; i < g.sent_count; i++) {
            const sky_ground_sent *s = &g.sent[i];
            if (lossy)
                assert_int_equal(s->message.id.number, i + 1); /* each parity after its data */
            sky_message m = sky_ground_answer(s, stored, stored_count);
            if (i != 3 && i != 9)
                sky_ground_say(&g, &m, s->to);
        }
        assert_int_equal(sky_ground_stat(&g).rebuilt, lossy ? 2 : 0);
        if (lossy)
            assert_int_equal(sky_ground_result(&g).status, SKY_OK);
        assert_int_equal(g.delivered, (lossy ? 14 : 12) * SKY_GROUND_CHUNK);
        assert_int_equal(g.wrong, 0);
        sky_ground_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parity_outlives_as_many_satellites),
        cmocka_unit_test(one_more_is_a_miss),
        cmocka_unit_test(parts_of_a_block_are_rebuilt_too),
        cmocka_unit_test(replicas_are_on_different_satellites),
        cmocka_unit_test(liars_and_black_holes_are_read_around),
        cmocka_unit_test(late_pieces_are_of_no_other_stripe),
        cmocka_unit_test(stripes_are_guarded_where_links_lose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
