/* Proves that one silent satellite costs a sky with replicas or parity a moment and nothing else:
 * not even the one overhead, where heads are; that it is waited for once and not again, and used
 * again when it speaks; that what it may have is not called absent, nor what lags behind the
 * turning sky; that a restart of it, with nothing left, hides no block, whose head is made again
 * when it is read; that a put that goes without it is whole; and that a sky of which nothing was
 * ever heard is soon known to be down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ground/orrery_fixture.h"
#include "ground/session_state.h"

#define BLOCK_BYTES 12345

/* Those with the heads: overhead, a plane up, a plane down, two slots up, two down. */
typedef struct {
    sky_satellite of[5];
    uint32_t count;
} dead_ones;

static bool passes_by_all(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    const dead_ones *dead = o->ear_context;
    (void)m;
    for (uint32_t i = 0; i < dead->count; i++) {
        if (sky_satellite_equal(from, dead->of[i]) || sky_satellite_equal(to, dead->of[i]))
            return false;
    }
    return true;
}

typedef struct {
    sky_strategy strategy;
    uint8_t replicas, parity;
    uint32_t window_planes, window_slots, servers;
} shape;

static const shape shapes[] = {
    {SKY_PLACE_ROTATION_HOP, 2, 0, 3, 3, 9}, {SKY_PLACE_ROTATION, 2, 0, 3, 3, 9},
    {SKY_PLACE_ROTATION_HOP, 3, 0, 3, 3, 9}, {SKY_PLACE_ROTATION_HOP, 1, 2, 3, 3, 9},
    {SKY_PLACE_ROTATION, 1, 1, 1, 5, 5},     {SKY_PLACE_ROTATION_HOP, 2, 0, 1, 5, 5},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static void begin_late(sky_orrery *o, const shape *p, sky_time late_ns) {
    sky_orrery_open(o, p->strategy);
    sky_constellation c = o->frame.constellation;
    sky_turning turning = o->frame.turning;
    sky_placement placement = {.strategy = p->strategy,
                               .servers = p->servers,
                               .window_planes = p->window_planes,
                               .window_slots = p->window_slots};
    sky_frame_deinit(&o->frame);
    assert_int_equal(
        sky_frame_init(&o->frame, &c, &placement, (sky_satellite){3, 4}, &turning, NULL), SKY_OK);
    o->session_config.replicas = p->replicas;
    o->session_config.parity = p->parity;
    o->session_config.lookup = SKY_LOOKUP_BINARY;
    o->session_config.retries_max = 6;
    o->session_config.late_ns = late_ns;
    sky_orrery_begin(o, 256);
}

static void begin(sky_orrery *o, const shape *p) {
    begin_late(o, p, 0);
}

static sky_satellite overhead(const sky_orrery *o) {
    return sky_frame_centre(&o->frame, sky_turns(&o->frame.turning, o->now));
}

/* How long it took. */
static sky_time assert_done(sky_orrery *o, uint32_t ground, sky_op op, uint32_t block) {
    sky_time began = o->now;
    sky_result r = sky_orrery_do(o, ground, op, block, BLOCK_BYTES);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(r.bytes, BLOCK_BYTES);
    assert_int_equal(o->wrong, 0);
    return o->now - began;
}

static void the_satellite_overhead_may_die(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        for (uint32_t turns = 0; turns < 4; turns++) {
            sky_orrery o;
            begin(&o, &shapes[i]);
            assert_done(&o, 0, SKY_OP_PUT, 1);
            assert_done(&o, 0, SKY_OP_PUT, 2);
            sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
            sky_satellite dead = overhead(&o);
            o.ear_context = &dead;
            o.ear = sky_orrery_cut_off;
            assert_true(assert_done(&o, 1, SKY_OP_GET, 1) < SKY_MS(300));
            assert_true(assert_done(&o, 1, SKY_OP_GET, 2) < SKY_MS(300));
            sky_status never = sky_orrery_do(&o, 1, SKY_OP_GET, 7, 0).status;
            assert_int_equal(never, SKY_E_UNAVAILABLE); /* the dead one might have it */
            assert_true(assert_done(&o, 1, SKY_OP_PUT, 3) < SKY_MS(500));
            assert_done(&o, 0, SKY_OP_GET, 3);
            sky_orrery_crash(&o, dead); /* back, and empty */
            o.ear = NULL;
            assert_done(&o, 0, SKY_OP_GET, 3);
            assert_done(&o, 1, SKY_OP_GET, 1);
            sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS);
            assert_done(&o, 0, SKY_OP_GET, 3);
            sky_orrery_close(&o);
        }
    }
}

/* Parity would be worth less than it costs if a block were lost with fewer satellites, those that
 * have its heads. */
static void as_many_may_die_as_parity_allows(void **state) {
    (void)state;
    for (uint8_t parity = 1; parity <= 4; parity++) {
        const shape p = {SKY_PLACE_ROTATION_HOP, 1, parity, 3, 3, 9};
        sky_orrery o;
        begin(&o, &p);
        assert_done(&o, 0, SKY_OP_PUT, 1);
        sky_orrery_run(&o, SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
        uint32_t plane = overhead(&o).plane, slot = overhead(&o).slot;
        uint32_t up = (slot + 1) % 19 + 1, down = (slot + 16) % 19 + 1;
        dead_ones dead = {
            .of = {{plane, slot}, {plane + 1, slot}, {plane - 1, slot}, {plane, up}, {plane, down}},
            .count = parity};
        o.ear_context = &dead;
        o.ear = passes_by_all;
        assert_done(&o, 1, SKY_OP_GET, 1);
        assert_done(&o, 1, SKY_OP_PUT, 2);
        assert_done(&o, 0, SKY_OP_GET, 2);
        sky_orrery_close(&o);
    }
}

/* As many as there is parity are dead, for a minute: once they are known, each get takes at most
 * half as long again as when all answered, also one that tries whether they speak again. */
static void the_known_dead_cost_little(void **state) {
    (void)state;
    for (uint8_t parity = 1; parity <= 3; parity++) {
        sky_orrery o;
        sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
        o.frame.turning.rotation_ns = SKY_TIME_NEVER;
        o.node_config.turning = o.frame.turning;
        o.session_config.parity = parity;
        o.session_config.lookup = SKY_LOOKUP_BINARY;
        o.session_config.retries_max = 6;
        sky_orrery_begin(&o, 256);
        assert_done(&o, 0, SKY_OP_PUT, 1);
        sky_time healthy = assert_done(&o, 0, SKY_OP_GET, 1);
        dead_ones dead = {.count = parity};
        for (uint32_t i = 0; i < parity; i++)
            dead.of[i] = o.frame.servers[2 * i + 1];
        o.ear_context = &dead;
        o.ear = passes_by_all;
        assert_true(assert_done(&o, 0, SKY_OP_GET, 1) > healthy);
        for (int i = 0; i < 90; i++) {
            sky_orrery_run(&o, o.now + SKY_MS(700));
            assert_true(2 * assert_done(&o, 0, SKY_OP_GET, 1) <= 3 * healthy);
        }
        sky_orrery_close(&o);
    }
}

/* The dead that stand where the last copy of a head would go: it stays with who would hand it over,
 * and is asked for there although the places of all other copies say that they have none. */
static void what_cannot_go_on_is_found(void **state) {
    (void)state;
    for (uint32_t turns = 0; turns < 5; turns++) {
        const shape p = {SKY_PLACE_ROTATION_HOP, 1, 3, 3, 3, 9};
        sky_orrery o;
        begin(&o, &p);
        assert_done(&o, 0, SKY_OP_PUT, 1);
        sky_orrery_run(&o, SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
        uint32_t plane = overhead(&o).plane, slot = overhead(&o).slot;
        dead_ones dead = {.of = {{plane, slot}, {plane + 1, slot}, {plane - 1, slot}}, .count = 3};
        o.ear_context = &dead;
        o.ear = passes_by_all;
        sky_orrery_run(&o, o.now + turns * SKY_ORRERY_TURN_NS);
        assert_done(&o, 1, SKY_OP_GET, 1);
        sky_orrery_close(&o);
    }
}

/* Who never heard of a block finds it although the satellite that had its head lost all it had. */
static void a_restart_hides_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        for (uint32_t turns = 0; turns < 4; turns++) {
            sky_orrery o;
            begin(&o, &shapes[i]);
            assert_done(&o, 0, SKY_OP_PUT, 1);
            sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
            sky_orrery_crash(&o, overhead(&o));
            assert_done(&o, 1, SKY_OP_GET, 1);
            assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
            sky_orrery_run(&o, o.now + SKY_SECONDS(1));
            assert_int_equal(sky_orrery_chunks(&o), 0); /* all heads too */
            sky_orrery_close(&o);
        }
    }
}

static uint32_t heads_of(const sky_orrery *o, uint32_t block) {
    return sky_orrery_chunks(o) - sky_orrery_chunks_of(o, block);
}

/* The reader makes a copy of a head that is gone: once, and not for a block that is unverified. */
static void a_lost_head_is_made_again(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        sky_orrery o;
        sky_session_stat stat;
        begin(&o, &shapes[i]);
        assert_done(&o, 0, SKY_OP_PUT, 1);
        uint32_t heads = heads_of(&o, 1);
        assert_true(heads >= 2);
        sky_orrery_crash(&o, overhead(&o));
        assert_int_equal(heads_of(&o, 1), heads - 1);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_HAS, 1, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(heads_of(&o, 1), heads - 1);
        uint64_t sets = o.sent[SKY_WIRE_SET];
        assert_done(&o, 1, SKY_OP_GET, 1);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(heads_of(&o, 1), heads);
        assert_true(o.sent[SKY_WIRE_SET] > sets);
        sets = o.sent[SKY_WIRE_SET];
        assert_done(&o, 1, SKY_OP_GET, 1);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(o.sent[SKY_WIRE_SET], sets);
        sky_session_stats(o.grounds[1], &stat);
        assert_int_equal(stat.heads_repaired, 1);
        sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS); /* and goes with the others */
        assert_int_equal(heads_of(&o, 1), heads);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(sky_orrery_chunks(&o), 0);
        sky_orrery_close(&o);
    }
}

static void the_silent_is_waited_for_once(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, &shapes[0]);
    for (uint32_t block = 1; block <= 8; block++)
        assert_done(&o, 0, SKY_OP_PUT, block);
    sky_satellite dead = overhead(&o);
    o.ear_context = &dead;
    o.ear = sky_orrery_cut_off;
    assert_done(&o, 1, SKY_OP_GET, 1);
    assert_done(&o, 1, SKY_OP_GET, 2);
    sky_session_stat before, after;
    sky_session_stats(o.grounds[1], &before);
    sky_time quick = assert_done(&o, 1, SKY_OP_GET, 3);
    sky_session_stats(o.grounds[1], &after);
    assert_int_equal(after.retries, before.retries);
    assert_true(quick < SKY_MS(150)); /* light, to a plane beside */
    o.ear = NULL;                     /* it is forgotten that it was silent, in a while */
    sky_orrery_run(&o, o.now + 4 * SKY_ORRERY_TURN_NS);
    uint64_t others = after.other_copies;
    assert_done(&o, 1, SKY_OP_GET, 4);
    sky_session_stats(o.grounds[1], &after);
    assert_int_equal(after.other_copies, others);
    sky_orrery_close(&o);
}

/* More than it can do without: nothing is there, and nobody is told that it is. */
static void too_many_silent_are_an_error(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, &(shape){SKY_PLACE_ROTATION_HOP, 1, 0, 3, 3, 9});
    sky_satellite dead = {3, 5};
    o.ear_context = &dead;
    o.ear = sky_orrery_cut_off;
    sky_time began = o.now;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_E_IO);
    assert_true(o.now - began < SKY_MS(500)); /* who put it is told soon, and by whom it failed */
    sky_satellite silent;
    assert_int_equal(sky_session_silent(o.grounds[0], &silent), 1);
    assert_true(sky_satellite_equal(silent, dead));
    o.ear = NULL;
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 1, 0).status, SKY_MISS);
    sky_orrery_close(&o);
}

/* One copy of its head would be on a satellite that is silent. Once a second a request tries that,
 * so when it is there again what is not there is known soon. */
static void the_silent_is_tried_for_what_others_lack(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, &(shape){SKY_PLACE_ROTATION_HOP, 2, 0, 3, 3, 9});
    sky_satellite dead = sky_frame_head(&o.frame, 1);
    o.ear_context = &dead;
    o.ear = sky_orrery_cut_off;
    assert_done(&o, 0, SKY_OP_PUT, 1);
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 2, 0).status, SKY_E_UNAVAILABLE);
    sky_time began = o.now;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 2, 0).status, SKY_E_UNAVAILABLE);
    sky_time untried = o.now - began;
    o.ear = NULL;
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    began = o.now;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 2, 0).status, SKY_MISS);
    assert_true(o.now - began > untried);
    sky_orrery_close(&o);
}

static bool passes_nobody(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to, (void)m;
    return false;
}

/* After a turn, so that heads may be in two places; with the slack that a real link has. */
static void begin_later(sky_orrery *o, const shape *p, bool put) {
    begin_late(o, p, SKY_MS(50));
    if (put)
        assert_done(o, 0, SKY_OP_PUT, 1);
    sky_orrery_run(o, SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
}

/* Nobody was ever heard: several places and copies are not waited for one after the other. */
static void a_sky_that_is_down_is_known_soon(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        shape plain = shapes[i];
        plain.replicas = 1;
        plain.parity = 0;
        for (int copies = 0; copies < 2; copies++) {
            sky_orrery o;
            begin_later(&o, copies ? &shapes[i] : &plain, false);
            o.ear = passes_nobody;
            sky_time began = o.now;
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_E_UNAVAILABLE);
            assert_true(o.now - began <= SKY_MS(850)); /* 700 ms are 14 pauses of a host */
            sky_orrery_close(&o);
        }
    }
}

static bool is_down(void *down) {
    return *(bool *)down;
}

/* Nothing runs there at all: no pauses of a host are waited for. */
static void no_pauses_of_hosts_that_are_not_there(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        for (int put = 0; put < 2; put++) {
            sky_orrery o;
            begin_later(&o, &shapes[i], put);
            bool down = true;
            o.grounds[0]->core.config.is_down = is_down;
            o.grounds[0]->core.config.is_down_context = &down;
            o.ear = passes_nobody;
            sky_time round_trips = 4 * sky_frame_ground_ns_max(&o.frame), began = o.now;
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, BLOCK_BYTES).status,
                             SKY_E_UNAVAILABLE);
            assert_true(o.now - began <= round_trips + SKY_MS(1));
            began = o.now;
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, BLOCK_BYTES).status,
                             SKY_E_UNAVAILABLE);
            assert_int_equal(o.now - began, 0);
            o.ear = NULL;
            down = i % 2; /* the host may not know yet that it is there again */
            sky_orrery_run(&o, o.now + SKY_SECONDS(1));
            assert_done(&o, 0, SKY_OP_PUT, 2);
            assert_done(&o, 0, SKY_OP_GET, 2);
            sky_session_stat stat;
            sky_session_stats(o.grounds[0], &stat);
            assert_int_equal(stat.puts_short, 0); /* nobody was passed over */
            sky_orrery_close(&o);
        }
    }
}

/* The first get of a ground that heard nobody yet has its block, though all answers are late. */
static void a_slow_sky_is_waited_for(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        for (sky_time late = SKY_MS(20); late <= SKY_MS(140); late += SKY_MS(20)) {
            sky_orrery o;
            begin_later(&o, &shapes[i], true);
            o.late_ns = late;
            assert_done(&o, 1, SKY_OP_GET, 1);
            sky_orrery_close(&o);
        }
    }
}

static uint64_t retries_of(const sky_orrery *o, uint32_t ground) {
    sky_session_stat stat;
    sky_session_stats(o->grounds[ground], &stat);
    return stat.retries;
}

/* How late answers are is measured: what is late each time is not sent twice each time. */
static void a_slow_sky_is_not_asked_twice(void **state) {
    (void)state;
    sky_orrery o;
    begin_later(&o, &(shape){SKY_PLACE_ROTATION_HOP, 1, 0, 3, 3, 9}, true);
    o.late_ns = SKY_MS(60);
    assert_done(&o, 1, SKY_OP_GET, 1);
    uint64_t before = retries_of(&o, 1);
    assert_true(before > 0);
    assert_done(&o, 1, SKY_OP_GET, 1);
    assert_done(&o, 1, SKY_OP_PUT, 2);
    assert_done(&o, 1, SKY_OP_GET, 2);
    assert_int_equal(retries_of(&o, 1), before);
    sky_orrery_close(&o);
}

static bool passes_later(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)from, (void)to, (void)m;
    return o->now >= *(sky_time *)o->ear_context;
}

/* Two round trips to the farthest are waited, and not more: then the caller gets its answer, at
 * once from the second request on, and a second later it is tried again. */
static void an_outage_costs_two_round_trips(void **state) {
    (void)state;
    const shape plain = {SKY_PLACE_ROTATION_HOP, 1, 0, 3, 3, 9};
    for (int longer = 0; longer < 2; longer++) {
        sky_orrery o;
        begin_later(&o, &plain, true);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 7, 0).status, SKY_MISS);
        sky_time round_trips = 4 * sky_frame_ground_ns_max(&o.frame), began = o.now;
        sky_time until = o.now + (longer ? SKY_SECONDS(3) : round_trips / 2);
        o.ear_context = &until;
        o.ear = passes_later;
        sky_result r = sky_orrery_do(&o, 1, SKY_OP_GET, 1, BLOCK_BYTES);
        assert_int_equal(r.status, longer ? SKY_E_UNAVAILABLE : SKY_OK);
        assert_true(!longer || o.now - began <= SKY_MS(720)); /* 14 pauses of a host */
        for (began = o.now; longer && o.now < began + SKY_SECONDS(1);) {
            sky_time asked = o.now;
            r = sky_orrery_do(&o, 1, SKY_OP_GET, 1, BLOCK_BYTES);
            assert_int_equal(r.status, SKY_E_UNAVAILABLE);
            assert_true(o.now - asked < SKY_MS(250)); /* the one that tries it again */
            sky_orrery_run(&o, o.now + SKY_MS(100));
        }
        sky_orrery_run(&o, until + SKY_SECONDS(1));
        assert_done(&o, 1, SKY_OP_GET, 1);
        sky_orrery_close(&o);
    }
}

/* Migration lags its rotation: what is put stays behind for as many turns as are looked back, and a
 * ground that never heard of it finds it there. */
static void what_lags_is_found(void **state) {
    (void)state;
    for (uint32_t turns = 1; turns <= 7; turns++) {
        sky_orrery o;
        begin(&o, &(shape){SKY_PLACE_ROTATION_HOP, 1, 0, 3, 3, 9});
        assert_done(&o, 0, SKY_OP_PUT, 1);
        o.ear = sky_orrery_no_migration;
        sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
        assert_done(&o, 1, SKY_OP_GET, 1);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 2, 0).status, SKY_MISS);
        sky_orrery_close(&o);
    }
}

/* The one that had the head died, and the sky has turned: who is overhead now knows nothing of it,
 * which is not the same as that it is not there. */
static void what_the_dead_have_is_not_denied(void **state) {
    (void)state;
    for (uint32_t turns = 1; turns <= 7; turns++) {
        sky_orrery o;
        begin(&o, &(shape){SKY_PLACE_ROTATION_HOP, 1, 0, 3, 3, 9});
        assert_done(&o, 0, SKY_OP_PUT, 1);
        sky_satellite dead = overhead(&o);
        o.ear_context = &dead;
        o.ear = sky_orrery_cut_off;
        sky_orrery_run(&o, turns * SKY_ORRERY_TURN_NS + SKY_SECONDS(4));
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 1, 0).status, SKY_E_UNAVAILABLE);
        assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_HAS, 1, 0).status, SKY_E_UNAVAILABLE);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_E_UNAVAILABLE);
        sky_orrery_close(&o);
    }
}

typedef struct {
    sky_satellite of;
    sky_time until; /* it says nothing before */
} slow_one;

static bool passes_by_slow(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    const slow_one *slow = o->ear_context;
    (void)m;
    return o->now >= slow->until ||
           (!sky_satellite_equal(from, slow->of) && !sky_satellite_equal(to, slow->of));
}

/* Asked how it is until a time, a satellite that says nothing for long is no dead one. Without such
 * a time it is given up as for any other request. */
static void the_slow_say_how_they_are(void **state) {
    (void)state;
    for (uint32_t slow_s = 2; slow_s <= 16; slow_s *= 2) {
        sky_orrery o;
        begin(&o, &shapes[0]);
        slow_one slow = {{1, 1}, SKY_TIME_NEVER};
        o.ear_context = &slow;
        o.ear = passes_by_slow;
        sky_request ask = {.stat = true, .satellite = slow.of};
        assert_int_equal(sky_orrery_ask(&o, 0, &ask).status, SKY_E_IO);
        sky_time began = o.now;
        ask.until = began + SKY_SECONDS(slow_s);
        assert_int_equal(sky_orrery_ask(&o, 0, &ask).status, SKY_E_IO);
        assert_in_range(o.now - began, SKY_SECONDS(slow_s), SKY_SECONDS(slow_s + 1));
        slow.until = o.now + SKY_SECONDS(slow_s);
        ask.until = slow.until + SKY_SECONDS(1);
        sky_result r = sky_orrery_ask(&o, 0, &ask);
        assert_int_equal(r.status, SKY_OK);
        assert_int_equal(r.stat[SKY_STAT_SLOTS], 256);
        sky_orrery_close(&o);
    }
}

/* Nothing passes; of what was just sent to who counts as silent, the longest wait is kept. */
static bool nothing_passes(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    const sky__scheduler *q = &o->grounds[0]->scheduler;
    sky_time *longest = o->ear_context;
    (void)from, (void)to, (void)m;
    for (uint32_t i = 0; i < q->operation_fresh; i++) {
        const sky__operation *op = &q->operations[i];
        if (op->request != SKY__NONE && op->sent == o->now && sky__is_silent(q, op->to))
            *longest = sky__later(*longest, op->deadline - op->sent);
    }
    return false;
}

/* Where so much is lost that losses explain silence, waits double; but not for who counts as
 * silent. */
static void waits_for_the_silent_do_not_double(void **state) {
    (void)state;
    sky_orrery o;
    sky_time longest = 0;
    begin_late(&o, &shapes[0], SKY_MS(80));
    assert_done(&o, 0, SKY_OP_PUT, 1);
    o.grounds[0]->core.loss.all = 0.9;
    o.ear_context = &longest;
    o.ear = nothing_passes;
    for (int i = 0; i < 3; i++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_E_UNAVAILABLE);
    const sky__scheduler *q = &o.grounds[0]->scheduler;
    assert_true(0 < longest && longest <= sky__silence_ns(q) / SKY__SILENT_WAITS);
    sky_orrery_close(&o);
}

/* When an operation that was asked in vain three times is given up next. */
static sky_time next_deadline(sky__scheduler *q, sky__operation *op) {
    q->served_at[sky_frame_number(q->core->config.frame, op->to)] = 0;
    return sky__deadline_of(q, q->core->now, op);
}

static bool passes_but_one(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    return m->type != SKY_WIRE_SET_ACK || m->id.number != 5;
}

/* An answer that gets lost every time, of a satellite that is read from meanwhile: where an answer
 * may take two seconds, doubled waits would add up to four minutes. */
static void all_attempts_end_in_two_minutes(void **state) {
    (void)state;
    static const shape plain = {SKY_PLACE_ROTATION_HOP, 1, 0, 3, 3, 9};
    sky_orrery o;
    begin_late(&o, &plain, SKY_SECONDS(2));
    assert_done(&o, 0, SKY_OP_PUT, 1);
    const sky_request put = {
        .op = SKY_OP_PUT, .key = sky_orrery_key(2), .payload_bytes = BLOCK_BYTES};
    const sky_request get = {.op = SKY_OP_GET, .key = sky_orrery_key(1), .room_bytes = BLOCK_BYTES};
    sky_time began = o.now;
    sky_result r = {.op = SKY_OP_GET};
    o.ear = passes_but_one;
    assert_int_equal(sky_session_submit(o.grounds[0], o.now, &put), SKY_OK);
    while (r.op == SKY_OP_GET && o.now < SKY_SECONDS(600)) {
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &get), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        while (r.op == SKY_OP_GET && sky_session_result(o.grounds[0], &r))
            ;
    }
    assert_int_equal(r.status, SKY_E_IO);
    assert_in_range(o.now - began, SKY_SECONDS(60), SKY_SECONDS(120));
    sky_orrery_close(&o);
}

/* A wait ends when its satellite counts as silent. That is not for one that was heard since it was
 * first asked: it loses answers. */
static void losses_are_no_silence(void **state) {
    (void)state;
    sky_orrery o;
    begin_late(&o, &shapes[0], SKY_MS(80));
    assert_done(&o, 0, SKY_OP_PUT, 1);
    sky__scheduler *q = &o.grounds[0]->scheduler;
    const sky_time now = q->core->now, since = now - sky__silence_ns(q);
    sky__operation op = {.to = {1, 1},
                         .answer_bytes = 1000,
                         .attempt = 4,
                         .unanswered = 3,
                         .first_sent = since,
                         .asked_first = since};
    sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, op.to)];
    q->answered_at = now;
    *p = (sky__suspicion){0};
    const sky_time whole = next_deadline(q, &op);
    *p = (sky__suspicion){.waits = 1, .unheard = 1, .unheard_since = since + SKY_MS(1)};
    assert_int_equal(next_deadline(q, &op), whole);
    op.asked_first = p->unheard_since;
    assert_int_equal(next_deadline(q, &op), now + SKY_MS(1));
    assert_true(whole > now + SKY_MS(1));
    sky_orrery_close(&o);
}

/* It was silent, and nobody asked it for a while: then one answer that is late says little. */
static void old_silence_is_forgotten(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, &shapes[0]);
    sky_orrery_run(&o, SKY_SECONDS(100));
    sky__scheduler *q = &o.grounds[0]->scheduler;
    const sky_satellite to = {3, 5};
    sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, to)];
    for (int old = 0; old < 2; old++) {
        const sky_time ago = SKY_SECONDS(old ? 40 : 10);
        q->core->now = o.now;
        *p = (sky__suspicion){.waits = 6,
                              .unheard = 30,
                              .unheard_since = o.now - ago - SKY_SECONDS(5),
                              .unheard_until = o.now - ago};
        assert_int_equal(sky__is_silent(q, to), !old);
        const sky__operation late = {.to = to, .sent = o.now - SKY_MS(100)};
        sky__unanswered(q, &late);
        assert_int_equal(sky__is_silent(q, to), !old);
    }
    sky_orrery_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_attempts_end_in_two_minutes),
        cmocka_unit_test(losses_are_no_silence),
        cmocka_unit_test(the_satellite_overhead_may_die),
        cmocka_unit_test(as_many_may_die_as_parity_allows),
        cmocka_unit_test(the_known_dead_cost_little),
        cmocka_unit_test(what_cannot_go_on_is_found),
        cmocka_unit_test(a_restart_hides_nothing),
        cmocka_unit_test(a_lost_head_is_made_again),
        cmocka_unit_test(the_silent_is_waited_for_once),
        cmocka_unit_test(too_many_silent_are_an_error),
        cmocka_unit_test(the_silent_is_tried_for_what_others_lack),
        cmocka_unit_test(a_sky_that_is_down_is_known_soon),
        cmocka_unit_test(no_pauses_of_hosts_that_are_not_there),
        cmocka_unit_test(old_silence_is_forgotten),
        cmocka_unit_test(a_slow_sky_is_waited_for),
        cmocka_unit_test(a_slow_sky_is_not_asked_twice),
        cmocka_unit_test(what_lags_is_found),
        cmocka_unit_test(what_the_dead_have_is_not_denied),
        cmocka_unit_test(an_outage_costs_two_round_trips),
        cmocka_unit_test(the_slow_say_how_they_are),
        cmocka_unit_test(waits_for_the_silent_do_not_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
