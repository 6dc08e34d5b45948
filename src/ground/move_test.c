/* Proves that a prefetch for a time to come puts every chunk where it will be overhead then, that
 * the block is readable at every moment before, during and after, also when the satellites did not
 * hear of it; and that what is dropped is dropped wherever it may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ground/orrery_fixture.h"
#include "ground/session_state.h"

#define BLOCK_BYTES (20 * SKY_ORRERY_CHUNK)

static int64_t wall(const sky_orrery *o, sky_time at) {
    return sky_turning_ms(&o->frame.turning, at);
}

static sky_status prefetch(sky_orrery *o, uint32_t ground, uint32_t block, sky_time at) {
    sky_request r = {.op = SKY_OP_PREFETCH, .key = sky_orrery_key(block), .at_ms = wall(o, at)};
    return sky_orrery_ask(o, ground, &r).status;
}

static void assert_read(sky_orrery *o, uint32_t ground) {
    uint64_t before = o->delivered;
    assert_int_equal(sky_orrery_do(o, ground, SKY_OP_GET, 1, 0).status, SKY_OK);
    assert_int_equal(o->delivered - before, BLOCK_BYTES);
    assert_int_equal(o->wrong, 0);
}

/* All chunks lie on the satellites of the window around the one overhead. */
static void assert_overhead(const sky_orrery *o) {
    sky_satellite overhead = sky_frame_centre(&o->frame, sky_turns(&o->frame.turning, o->now));
    uint32_t found = 0;
    for (uint32_t p = 2; p <= 4; p++) {
        for (uint32_t step = 0; step < 3; step++) {
            sky_satellite s = {p, (overhead.slot + 19 - 1 + step - 1) % 19 + 1};
            found += sky_node_chunks(sky_orrery_node(o, s));
        }
    }
    assert_int_equal(found, sky_orrery_chunks(o));
}

static void begin(sky_orrery *o, sky_strategy strategy, sky_lookup_kind lookup) {
    sky_orrery_open(o, strategy);
    o->session_config.lookup = lookup;
    sky_orrery_begin(o, 64);
    assert_int_equal(sky_orrery_do(o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
}

static void a_block_waits_where_it_will_be_overhead(void **state) {
    (void)state;
    static const sky_strategy strategies[] = {SKY_PLACE_ROTATION, SKY_PLACE_ROTATION_HOP};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t ahead = 1; ahead <= 12; ahead++) {
            sky_orrery o;
            begin(&o, strategies[i], SKY_LOOKUP_BINARY);
            sky_orrery_run(&o, ahead % 3 * SKY_ORRERY_TURN_NS + SKY_MS(ahead % 2 ? 5 : 2000));
            sky_time then = o.now + ahead * SKY_ORRERY_TURN_NS;
            assert_int_equal(prefetch(&o, 0, 1, then), SKY_OK);
            while (o.now < then) {
                assert_read(&o, 0);
                assert_read(&o, 1);
                sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS / 3);
            }
            sky_orrery_run(&o, then + SKY_SECONDS(2));
            assert_int_equal(sky_orrery_chunks(&o), 21);
            assert_overhead(&o);
            assert_read(&o, 0);
            sky_orrery_run(&o, then + 4 * SKY_ORRERY_TURN_NS +
                                   SKY_SECONDS(2)); /* and turns with the sky again */
            assert_overhead(&o);
            assert_read(&o, 0);
            assert_read(&o, 1);
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
            sky_orrery_run(&o, o.now + SKY_SECONDS(1));
            assert_int_equal(sky_orrery_chunks(&o), 0);
            sky_orrery_close(&o);
        }
    }
}

/* Every nanosecond matters little, every millisecond of a move is tried. */
static void a_move_is_readable_throughout(void **state) {
    (void)state;
    for (uint32_t ms = 0; ms < 120; ms += 3) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_INDEX);
        sky_orrery_run(&o, SKY_SECONDS(1));
        sky_request r = {.op = SKY_OP_PREFETCH,
                         .key = sky_orrery_key(1),
                         .at_ms = wall(&o, 7 * SKY_ORRERY_TURN_NS)};
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &r), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_MS(ms));
        sky_request get = {.op = SKY_OP_GET,
                           .key = sky_orrery_key(1),
                           .context = (void *)1,
                           .room_bytes = UINT64_MAX};
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &get), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(2));
        sky_result result;
        for (int i = 0; i < 2; i++) {
            assert_true(sky_session_result(o.grounds[0], &result));
            assert_int_equal(result.status, SKY_OK);
        }
        assert_int_equal(o.delivered, BLOCK_BYTES);
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

static uint32_t every;

static bool lose_some(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)from, (void)to;
    return m->type != SKY_WIRE_MOVE || o->sent[SKY_WIRE_MOVE] % every != 0;
}

static void satellites_that_did_not_hear_keep_the_block_readable(void **state) {
    (void)state;
    for (every = 1; every <= 4; every++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
        o.ear = lose_some;
        sky_status status = prefetch(&o, 0, 1, 6 * SKY_ORRERY_TURN_NS);
        assert_true(status == SKY_E_UNAVAILABLE || (status == SKY_OK && every > 1));
        for (uint32_t turn = 0; turn < 9; turn++) {
            sky_orrery_run(&o, turn * SKY_ORRERY_TURN_NS + SKY_SECONDS(5));
            assert_read(&o, 0);
            assert_read(&o, 1);
        }
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(sky_orrery_chunks(&o), 0); /* in both homes */
        sky_orrery_close(&o);
    }
}

/* Much of what is given away must be given again. */
static bool late_on_the_way(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)from, (void)to;
    return m->type != SKY_WIRE_MIGRATE || o->sent[SKY_WIRE_MIGRATE] % 4 == 0;
}

/* A home is given up only when nothing is in it any more: after a move of which not all satellites
 * heard, the next one first brings together what is there. */
static void a_block_has_no_third_home(void **state) {
    (void)state;
    for (every = 1; every <= 4; every++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, every % 2 ? SKY_LOOKUP_INDEX : SKY_LOOKUP_BINARY);
        o.ear = lose_some;
        for (uint32_t to = 9; to > 5; to -= 2)
            (void)prefetch(&o, 0, 1, to * SKY_ORRERY_TURN_NS);
        assert_read(&o, 0);
        o.ear = late_on_the_way;
        for (uint32_t turn = 0; turn < 12; turn++) {
            for (uint32_t i = 0; i < 3 && turn < 3; i++) {
                sky_status status = prefetch(&o, 0, 1, (9 - turn - i) * SKY_ORRERY_TURN_NS);
                assert_true(status == SKY_OK || status == SKY_E_BUSY);
                assert_read(&o, 0);
            }
            if (turn == 3)
                o.ear = NULL;
            sky_orrery_run(&o, turn * SKY_ORRERY_TURN_NS + SKY_SECONDS(5));
            assert_read(&o, 0);
        }
        assert_overhead(&o);
        sky_orrery_close(&o);
    }
}

/* What stayed behind for several turns is not gone: it keeps the home that it knows of. */
static void what_stayed_behind_is_not_moved_out_of_sight(void **state) {
    (void)state;
    for (uint32_t turns = 1; turns < 8; turns++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_INDEX);
        o.ear = sky_orrery_no_migration;
        sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(1));
        assert_int_equal(prefetch(&o, 0, 1, 13 * SKY_ORRERY_TURN_NS), SKY_OK);
        for (uint32_t to = 12; to > 9; to--)
            assert_int_equal(prefetch(&o, 0, 1, to * SKY_ORRERY_TURN_NS), SKY_E_BUSY);
        o.ear = NULL;
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_OK);
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

/* What a predictive sky moves by itself takes no room from what the host asks: with as many moves
 * under way as it asked for blocks, it may ask for all of them again. */
static void own_moves_take_no_room_of_the_host(void **state) {
    (void)state;
    enum { BLOCKS = 16 }; /* as many requests as the host may have */
    sky_orrery o;
    begin(&o, SKY_PLACE_PREDICTIVE, SKY_LOOKUP_INDEX);
    sky_session *s = o.grounds[0];
    for (uint32_t block = 1; block <= BLOCKS; block++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, block, 300).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS); /* used next in as long */
    sky_session_input(s, o.now, NULL);
    for (uint32_t block = 1; block <= BLOCKS; block++)
        sky__foresee_next(s, block - 1);
    assert_int_equal(s->requests.room_own, s->requests.own_max - BLOCKS);
    for (uint32_t block = 1; block <= BLOCKS; block++) {
        const sky_request r = {.op = SKY_OP_GET,
                               .key = sky_orrery_key(block),
                               .context = (void *)(uintptr_t)block,
                               .room_bytes = 300};
        assert_int_equal(sky_session_submit(s, o.now, &r), SKY_OK);
    }
    sky_orrery_close(&o);
}

/* The one prefetch under way; NULL when it has ended. */
static const sky__request *under_way(const sky_session *s) {
    for (uint32_t i = 0; i < s->requests.max; i++) {
        const sky__request *r = &s->requests.rows[i];
        if (r->state == REQUEST_RUNNING && r->ask.op == SKY_OP_PREFETCH)
            return r;
    }
    return NULL;
}

static uint32_t counted(const sky_orrery *o) {
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < sky__places_count(&o->frame); i++)
        chunks += o->grounds[0]->blocks.loads[i];
    return chunks;
}

/* Room is kept where chunks are and where they go: in one home while it is asked whether all are
 * there, in both while the missing come and when it goes on. */
static void a_block_counts_where_its_chunks_may_be(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_INDEX);
    every = 1; /* none hears of the first move */
    o.ear = lose_some;
    assert_int_equal(prefetch(&o, 0, 1, 9 * SKY_ORRERY_TURN_NS), SKY_E_UNAVAILABLE);
    o.ear = NULL;
    assert_int_equal(counted(&o), 20);
    sky_request r = {
        .op = SKY_OP_PREFETCH, .key = sky_orrery_key(1), .at_ms = wall(&o, 7 * SKY_ORRERY_TURN_NS)};
    assert_int_equal(sky_session_submit(o.grounds[0], o.now, &r), SKY_OK);
    uint32_t steps[MOVE_GOES + 1] = {0};
    for (const sky__request *move; (move = under_way(o.grounds[0]));) {
        bool both = move->move.step != MOVE_SETTLES;
        steps[move->move.step]++;
        assert_int_equal(o.grounds[0]->blocks.rows[0].moving, both);
        assert_int_equal(counted(&o), both ? 40 : 20);
        sky_orrery_run(&o, o.now + SKY_MS(1));
    }
    for (int step = MOVE_SETTLES; step <= MOVE_GOES; step++)
        assert_true(steps[step] > 0);
    sky_result result;
    assert_true(sky_session_result(o.grounds[0], &result));
    assert_int_equal(result.status, SKY_OK);
    assert_false(o.grounds[0]->blocks.rows[0].moving);
    assert_int_equal(counted(&o), 20);
    sky_orrery_close(&o);
}

static bool deaf_plane(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)from;
    return m->type != SKY_WIRE_MOVE || m->facts.set_ms <= wall(o, o->now) || to.plane != every;
}

static void begin_swept(sky_orrery *o) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->node_config.sweep_period_ns = SKY_ORRERY_TURN_NS / 2;
    o->node_config.sweep_grace_ns = o->node_config.sweep_ripe_ns = SKY_SECONDS(1);
    o->session_config.eviction = SKY_EVICT_SWEEP;
    sky_orrery_begin(o, 64);
    assert_int_equal(sky_orrery_do(o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
}

/* Whose next chunk was moved away does not take it for lost, although he did not hear of it. */
static void a_moved_block_is_not_swept(void **state) {
    (void)state;
    for (every = 2; every <= 4; every++) {
        sky_orrery o;
        begin_swept(&o);
        sky_orrery_run(&o, SKY_SECONDS(5));
        o.ear = deaf_plane;
        assert_int_equal(prefetch(&o, 0, 1, 4 * SKY_ORRERY_TURN_NS), SKY_E_UNAVAILABLE);
        for (uint32_t turn = 1; turn < 9; turn++) {
            sky_orrery_run(&o, turn * SKY_ORRERY_TURN_NS + SKY_SECONDS(5));
            assert_read(&o, 0);
        }
        sky_orrery_close(&o);
    }
}

/* A satellite that was out of reach when the block was to move keeps its chunk: that the chunk is
 * at no place that answers does not say that it is gone. */
static void a_chunk_of_a_silent_satellite_is_not_gone(void **state) {
    (void)state;
    for (uint32_t holder = 0; holder < 9; holder++) {
        sky_orrery o;
        sky_satellite silent;
        begin_swept(&o);
        sky_orrery_run(&o, 3 * SKY_ORRERY_TURN_NS + SKY_SECONDS(5));
        assert_int_equal(sky_orrery_holder(&o, holder, &silent), 9);
        o.ear_context = &silent;
        o.ear = sky_orrery_cut_off;
        assert_int_equal(prefetch(&o, 0, 1, 7 * SKY_ORRERY_TURN_NS), SKY_E_UNAVAILABLE);
        o.ear = NULL;
        for (uint32_t turn = 4; turn < 9; turn++) {
            sky_orrery_run(&o, turn * SKY_ORRERY_TURN_NS + SKY_SECONDS(5));
            assert_read(&o, 0);
        }
        sky_orrery_close(&o);
    }
}

/* What is asked about the home that a block has is lost once the first request has asked; and what
 * migrates is too. */
static bool second_asks_in_vain(sky_orrery *o, sky_satellite from, sky_satellite to,
                                sky_message *m) {
    (void)from, (void)to;
    bool asks = m->type == SKY_WIRE_MOVE && o->now > *(const sky_time *)o->ear_context;
    return m->type != SKY_WIRE_MIGRATE && !(asks && m->facts.moves == 0);
}

/* Two requests ask at once whether all chunks are in the home that the block has. When the second
 * hears that they are, the first has moved the block: it has to ask about the new home. */
static void what_was_asked_about_an_earlier_home_does_not_count(void **state) {
    (void)state;
    sky_orrery o;
    begin_swept(&o);
    o.grounds[0]->core.config.retries_max = 20;
    sky_orrery_run(&o, SKY_SECONDS(2));
    sky_time first_asked = o.now + SKY_MS(1) - 1;
    o.ear = second_asks_in_vain;
    o.ear_context = &first_asked;
    sky_result results[2];
    for (uint32_t turn = 9; turn >= 7; turn -= 2) {
        sky_request r = {.op = SKY_OP_PREFETCH,
                         .key = sky_orrery_key(1),
                         .at_ms = wall(&o, turn * SKY_ORRERY_TURN_NS)};
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &r), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_MS(1));
    }
    while (!sky_session_result(o.grounds[0], &results[0]))
        sky_orrery_run(&o, o.now + SKY_MS(1));
    assert_int_equal(results[0].status, SKY_OK);
    o.ear = sky_orrery_no_migration;
    while (!sky_session_result(o.grounds[0], &results[1]))
        sky_orrery_run(&o, o.now + SKY_MS(1));
    assert_read(&o, 0);
    assert_int_equal(results[1].status, SKY_E_BUSY);
    sky_orrery_close(&o);
}

/* Where not all satellites can be told that the block is to be left alone, nothing moves. */
static void what_cannot_be_settled_stays(void **state) {
    (void)state;
    every = 1;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_INDEX);
    sky_session_config *config = &o.grounds[0]->core.config;
    config->eviction = SKY_EVICT_SWEEP;
    o.ear = lose_some;
    assert_int_equal(prefetch(&o, 0, 1, 4 * SKY_ORRERY_TURN_NS), SKY_E_UNAVAILABLE);
    assert_false(o.grounds[0]->blocks.rows[0].scattered);
    assert_read(&o, 0);
    sky_orrery_close(&o);
}

static void what_need_not_move_does_not(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_HOP, SKY_LOOKUP_INDEX); /* the model flies with its satellites */
    assert_int_equal(prefetch(&o, 0, 1, 6 * SKY_ORRERY_TURN_NS), SKY_OK);
    assert_int_equal(prefetch(&o, 0, 2, 6 * SKY_ORRERY_TURN_NS), SKY_MISS);
    assert_int_equal(o.sent[SKY_WIRE_MOVE], 0);
    sky_orrery_close(&o);
    begin(&o, SKY_PLACE_ROTATION, SKY_LOOKUP_INDEX);
    sky_orrery_run(&o, 2 * SKY_ORRERY_TURN_NS);
    assert_int_equal(prefetch(&o, 0, 1, SKY_ORRERY_TURN_NS), SKY_OK); /* that was before now */
    assert_int_equal(o.sent[SKY_WIRE_MOVE], 0);
    sky_orrery_close(&o);
}

/* A block being replaced or removed while its chunks migrate leaves nothing behind. */
static void drops_follow_chunks_that_are_on_their_way(void **state) {
    (void)state;
    for (uint32_t ms = 0; ms < 60; ms++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
        sky_orrery_run(&o, SKY_ORRERY_TURN_NS - SKY_MS(20) + SKY_MS(ms));
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(2));
        assert_int_equal(sky_orrery_chunks(&o), 0);
        sky_orrery_close(&o);
    }
}

static void satellites_tell_how_they_are(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_INDEX);
    sky_request r = {.stat = true, .satellite = {3, 4}};
    sky_result result = sky_orrery_ask(&o, 0, &r);
    assert_int_equal(result.status, SKY_OK);
    assert_int_equal(result.stat[SKY_STAT_CHUNKS], 3);
    assert_int_equal(result.stat[SKY_STAT_SLOTS], 64);
    assert_int_equal(result.stat[SKY_STAT_SETS], 3);
    r.satellite.plane = 6;
    assert_int_equal(sky_orrery_ask(&o, 0, &r).status, SKY_E_PARAM);
    sky_orrery_close(&o);
}

/* A probe finds a chunk where it is, also after the sky has turned, and one that is lost costs the
 * block nothing: whoever only looks takes nothing away. */
static void chunks_are_found_where_they_are(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION, SKY_LOOKUP_INDEX);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 5, 9 * SKY_ORRERY_CHUNK).status, SKY_OK);
    sky_request probe = {.key = sky_orrery_key(5), .probe = 1};
    sky_satellite first = sky_orrery_ask(&o, 0, &probe).satellite;
    for (uint32_t turns = 0; turns < 3; turns++) {
        for (probe.probe = 1; probe.probe <= 9; probe.probe++)
            assert_int_equal(sky_orrery_ask(&o, 0, &probe).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS);
    }
    probe.probe = 1;
    sky_result found = sky_orrery_ask(&o, 0, &probe);
    assert_false(sky_satellite_equal(found.satellite, first));
    uint32_t blocks = sky_index_count(sky_session_index(o.grounds[0]));
    sky_orrery_crash(&o, found.satellite);
    uint32_t lost = 0;
    for (probe.probe = 1; probe.probe <= 9; probe.probe++)
        lost += sky_orrery_ask(&o, 0, &probe).status == SKY_MISS;
    assert_int_equal(lost, 1);
    assert_int_equal(sky_index_count(sky_session_index(o.grounds[0])), blocks);
    assert_int_equal(sky_orrery_ask(&o, 0, &probe).status, SKY_E_PARAM); /* chunk 10 */
    probe = (sky_request){.key = sky_orrery_key(6), .probe = 1};
    assert_int_equal(sky_orrery_ask(&o, 0, &probe).status, SKY_MISS);
    sky_orrery_close(&o);
}

/* The satellite overhead says that block 1's head went for block 2's. */
static bool evicts_a_head(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    const sky_key two = sky_orrery_key(2);
    (void)to;
    if (from.plane > 0 && m->type == SKY_WIRE_SET_ACK && m->id.number == 0 &&
        memcmp(&m->id.key, &two, sizeof two) == 0) {
        m->outcome = SKY_STORED_EVICTED;
        m->evicted = (sky_chunk_id){.key = sky_orrery_key(1),
                                    .version = o->grounds[0]->blocks.rows[0].head_version};
    }
    return true;
}

static void a_head_that_went_counts_again_when_it_is_set_again(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
    assert_int_equal(o.grounds[0]->blocks.heads, 1);
    o.ear = evicts_a_head;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 2, 300).status, SKY_OK);
    assert_int_equal(o.grounds[0]->blocks.heads, 1);
    assert_int_equal(prefetch(&o, 0, 1, o.now + 5 * SKY_ORRERY_TURN_NS), SKY_OK);
    assert_int_equal(o.grounds[0]->blocks.heads, 2);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 2, 0).status, SKY_OK);
    assert_int_equal(o.grounds[0]->blocks.heads, 0);
    sky_orrery_close(&o);
}

/* The head of a block is in the sky and found there, but its put does not know that yet. Once it
 * does, the block is where the put set it: it is read without a lookup, and removed with all its
 * chunks. */
static void what_is_being_put_does_not_move(void **state) {
    (void)state;
    sky_orrery o;
    sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
    o.session_config.lookup = SKY_LOOKUP_BINARY;
    sky_orrery_begin(&o, 64);
    o.ear = sky_orrery_no_head_ack;
    const sky_request put = {.op = SKY_OP_PUT,
                             .key = sky_orrery_key(1),
                             .context = (void *)1,
                             .payload_bytes = BLOCK_BYTES};
    assert_int_equal(sky_session_submit(o.grounds[0], o.now, &put), SKY_OK);
    while (sky_orrery_chunks(&o) < 21 && o.now < SKY_SECONDS(1))
        sky_orrery_run(&o, o.now + SKY_MS(1));
    assert_int_equal(prefetch(&o, 0, 1, 5 * SKY_ORRERY_TURN_NS), SKY_E_BUSY);
    o.ear = NULL;
    sky_orrery_run(&o, o.now + SKY_SECONDS(5));
    sky_result result;
    assert_true(sky_session_result(o.grounds[0], &result));
    assert_int_equal(result.op, SKY_OP_PUT);
    assert_int_equal(result.status, SKY_OK);
    uint64_t lookups = o.grounds[0]->core.stat.lookups;
    assert_read(&o, 0);
    assert_int_equal(o.grounds[0]->core.stat.lookups, lookups);
    assert_int_equal(counted(&o), 20);
    assert_int_equal(prefetch(&o, 0, 1, 5 * SKY_ORRERY_TURN_NS), SKY_OK);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    assert_int_equal(sky_orrery_chunks(&o), 0);
    sky_orrery_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_waits_where_it_will_be_overhead),
        cmocka_unit_test(a_move_is_readable_throughout),
        cmocka_unit_test(satellites_that_did_not_hear_keep_the_block_readable),
        cmocka_unit_test(a_block_has_no_third_home),
        cmocka_unit_test(what_stayed_behind_is_not_moved_out_of_sight),
        cmocka_unit_test(own_moves_take_no_room_of_the_host),
        cmocka_unit_test(a_block_counts_where_its_chunks_may_be),
        cmocka_unit_test(what_is_being_put_does_not_move),
        cmocka_unit_test(a_moved_block_is_not_swept),
        cmocka_unit_test(a_chunk_of_a_silent_satellite_is_not_gone),
        cmocka_unit_test(what_was_asked_about_an_earlier_home_does_not_count),
        cmocka_unit_test(what_cannot_be_settled_stays),
        cmocka_unit_test(what_need_not_move_does_not),
        cmocka_unit_test(drops_follow_chunks_that_are_on_their_way),
        cmocka_unit_test(satellites_tell_how_they_are),
        cmocka_unit_test(chunks_are_found_where_they_are),
        cmocka_unit_test(a_head_that_went_counts_again_when_it_is_set_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
