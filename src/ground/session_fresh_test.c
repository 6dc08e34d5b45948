/* Proves that a named value is never read older than the last put that was acknowledged before the
 * read began, whichever ground put it: by a checker that knows when each put and each read of four
 * grounds began and ended, while the sky turns and links lose; that this costs one round trip, and
 * blocks none; that a dead copy of a head is not waited for long; and that what another ground
 * removed is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "ground/orrery_fixture.h"
#include "ground/session_state.h"
#include "satellite/node_state.h"

#define KEYS      3
#define ROUNDS    1500
#define FIRST     300 /* bytes: the size of a value says which put it is of */
#define EVENTS    (ROUNDS + SKY_ORRERY_GROUNDS)
#define EVERY_MAX SKY_MS(40)

typedef struct {
    sky_op op;
    uint32_t key;
    uint32_t value; /* of its key: which put; 0: none */
    sky_time began, ended;
    sky_status status;
} event;

static event events[EVENTS];
static uint32_t event_count;

static sky_request request_of(sky_op op, uint32_t key, uint32_t value) {
    return (sky_request){.op = op,
                         .key = sky_orrery_key(key),
                         .context = (void *)(uintptr_t)key,
                         .named = true,
                         .payload_bytes = FIRST + value,
                         .room_bytes = UINT64_MAX};
}

static sky_result ask(sky_orrery *o, uint32_t ground, sky_op op, uint32_t key, uint32_t value) {
    sky_request r = request_of(op, key, value);
    return sky_orrery_ask(o, ground, &r);
}

static void begin(sky_orrery *o, uint8_t replicas, uint8_t parity) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->session_config.lookup = SKY_LOOKUP_BINARY;
    o->session_config.replicas = replicas;
    o->session_config.parity = parity;
    o->session_config.retries_max = 6;
    sky_orrery_begin(o, 4096);
}

/* ---- the checker ---- */

static const event *put_of(uint32_t key, uint32_t value) {
    for (uint32_t i = 0; i < event_count; i++) {
        if (events[i].op == SKY_OP_PUT && events[i].key == key && events[i].value == value)
            return &events[i];
    }
    return NULL;
}

/* Was `later` surely the value of its key when `read` began: a put that was acknowledged by then,
 * or what a read showed that had ended by then? */
static bool was_known(const event *later, const event *read) {
    return later->key == read->key && later->status == SKY_OK && later->value != 0 &&
           later->ended < read->began;
}

/* A read must not show what was over before something began that was known before the read. */
static void check_read(const event *read) {
    const event *shown = read->value ? put_of(read->key, read->value) : NULL;
    assert_true(!shown || shown->began <= read->ended);
    for (uint32_t i = 0; i < event_count; i++) {
        const event *known = &events[i];
        if (!was_known(known, read))
            continue;
        assert_non_null(shown); /* nothing is removed here */
        const event *put = put_of(known->key, known->value);
        assert_false(shown->status == SKY_OK && shown->ended < put->began);
    }
}

static void check_all(void) {
    uint32_t reads = 0;
    for (uint32_t i = 0; i < event_count; i++) {
        const event *e = &events[i];
        bool answered = e->status == SKY_OK || e->status == SKY_MISS;
        if (e->op == SKY_OP_PUT || !answered)
            continue;
        check_read(e);
        reads++;
    }
    assert_true(reads > event_count / 2);
}

/* ---- four grounds at once ---- */

static bool loses_some(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)from, (void)to, (void)m;
    return sky_prng_below(o->ear_context, 100) >= 2;
}

static void take_result(sky_orrery *o, uint32_t ground, event **open) {
    sky_result r;
    event *e = *open;
    if (!e || !sky_session_result(o->grounds[ground], &r))
        return;
    e->ended = o->now;
    e->status = r.status;
    if (e->op != SKY_OP_PUT)
        e->value = r.status == SKY_OK ? (uint32_t)r.bytes - FIRST : 0;
    *open = NULL;
}

static void run_all(sky_orrery *o, sky_prng *prng) {
    event *open[SKY_ORRERY_GROUNDS] = {0};
    uint32_t values[KEYS] = {0};
    event_count = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t ground = (uint32_t)sky_prng_below(prng, SKY_ORRERY_GROUNDS);
        uint32_t key = (uint32_t)sky_prng_below(prng, KEYS);
        uint64_t draw = sky_prng_below(prng, 10);
        sky_op op = draw < 2 ? SKY_OP_PUT : draw < 6 ? SKY_OP_GET : SKY_OP_HAS;
        if (!open[ground]) {
            uint32_t value = op == SKY_OP_PUT ? ++values[key] : 0;
            sky_request r = request_of(op, key + 1, value);
            event *e = open[ground] = &events[event_count++];
            *e = (event){op, key + 1, value, o->now, SKY_TIME_NEVER, SKY_PENDING};
            assert_int_equal(sky_session_submit(o->grounds[ground], o->now, &r), SKY_OK);
        }
        sky_time until = o->now + (sky_time)sky_prng_below(prng, EVERY_MAX);
        while (o->now < until) {
            sky_orrery_run(o, o->now + SKY_MS(1));
            for (uint32_t i = 0; i < SKY_ORRERY_GROUNDS; i++)
                take_result(o, i, &open[i]);
        }
    }
}

static void no_ground_reads_an_older_value(void **state) {
    (void)state;
    static const uint8_t replicas[] = {1, 2, 1}, parities[] = {0, 0, 2};
    for (uint32_t seed = 1; seed <= 6; seed++) {
        sky_orrery o;
        sky_prng prng, ear;
        begin(&o, replicas[seed % 3], parities[seed % 3]);
        sky_prng_init(&prng, seed);
        sky_prng_init(&ear, seed + 100);
        o.ear_context = &ear;
        o.ear = seed > 3 ? loses_some : NULL;
        run_all(&o, &prng);
        check_all();
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

/* ---- what it costs, and removals ---- */

static void a_name_costs_a_round_trip_and_a_block_none(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        sky_orrery o;
        begin(&o, 2, 0);
        sky_request put = request_of(SKY_OP_PUT, 1, 0), has = request_of(SKY_OP_HAS, 1, 0);
        put.named = named;
        assert_int_equal(sky_orrery_ask(&o, 0, &put).status, SKY_OK);
        for (uint32_t ground = 0; ground < 2; ground++) {
            assert_int_equal(sky_orrery_ask(&o, ground, &has).status, SKY_OK);
            sky_time began = o.now;
            assert_int_equal(sky_orrery_ask(&o, ground, &has).status, SKY_OK);
            sky_time beside = 2 * sky_frame_ground_ns(&o.frame, (sky_satellite){4, 4}, 0);
            if (named)
                assert_in_range(o.now - began, SKY_MS(3), beside + SKY_MS(2));
            else
                assert_int_equal(o.now, began);
        }
        sky_orrery_close(&o);
    }
}

/* Asked at once, the copy that is there answers; the dead one is waited for three times and for two
 * pauses of the host, not until its satellite is called silent. */
static void a_dead_copy_of_a_head_costs_little(void **state) {
    (void)state;
    sky_orrery o;
    sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
    o.session_config.lookup = SKY_LOOKUP_BINARY;
    o.session_config.replicas = 2;
    o.session_config.retries_max = 6;
    o.session_config.late_ns = SKY_MS(50);
    sky_orrery_begin(&o, 64);
    assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 5).status, SKY_OK);
    assert_int_equal(ask(&o, 1, SKY_OP_HAS, 1, 0).status, SKY_OK);
    sky_satellite dead = sky_frame_centre(&o.frame, sky_turns(&o.frame.turning, o.now));
    o.ear_context = &dead;
    o.ear = sky_orrery_cut_off;
    sky_time began = o.now;
    assert_int_equal(ask(&o, 1, SKY_OP_HAS, 1, 0).status, SKY_OK);
    assert_in_range(o.now - began, SKY_MS(100), SKY_MS(200));
    sky_orrery_close(&o);
}

static void open_sealed(sky_orrery *o) {
    sky_orrery_open(o, SKY_PLACE_ROTATION_HOP);
    o->session_config.lookup = SKY_LOOKUP_BINARY;
    o->node_config.sealed = o->session_config.sealed = true;
}

static sky_result put_if(sky_orrery *o, uint32_t ground, uint64_t expected, uint32_t value) {
    sky_request r = request_of(SKY_OP_PUT, 1, value);
    r.conditional = true;
    r.expected = expected;
    return sky_orrery_ask(o, ground, &r);
}

/* The first copy of a head missed a put, and is there again: neither a ground that knows nothing
 * takes its older value for the newest, nor does it decide for a put that expects that. */
static void who_missed_a_put_is_not_believed(void **state) {
    (void)state;
    for (int sealed = 0; sealed < 2; sealed++) {
        for (int conditional = 0; conditional < 2; conditional++) {
            sky_orrery o;
            sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
            o.session_config.lookup = SKY_LOOKUP_BINARY;
            o.session_config.replicas = 2;
            o.session_config.retries_max = 6;
            o.node_config.sealed = o.session_config.sealed = sealed;
            sky_orrery_begin(&o, 4096);
            uint64_t first = ask(&o, 0, SKY_OP_PUT, 1, 1).version;
            sky_satellite dead = sky_frame_centre(&o.frame, sky_turns(&o.frame.turning, o.now));
            o.ear_context = &dead;
            o.ear = sky_orrery_cut_off;
            sky_result second = ask(&o, 0, SKY_OP_PUT, 1, 2);
            assert_true(second.status == SKY_OK && second.version > first);
            o.ear = NULL;
            if (conditional) {
                sky_result late = put_if(&o, 1, first, 3);
                assert_int_equal(late.status, SKY_E_CONFLICT);
                assert_int_equal(late.version, second.version);
                if (!sealed) /* only what was read is set again then */
                    assert_int_equal(ask(&o, 2, SKY_OP_GET, 1, 0).version, second.version);
                assert_int_equal(put_if(&o, 2, second.version, 4).status, SKY_OK);
            } else { /* by its key alone */
                sky_request get = request_of(SKY_OP_GET, 1, 0);
                get.named = false;
                assert_int_equal(sky_orrery_ask(&o, 1, &get).bytes, FIRST + 2);
            }
            sky_result r = ask(&o, 3, SKY_OP_GET, 1, 0);
            assert_int_equal(r.status, SKY_OK);
            assert_int_equal(r.bytes, FIRST + (conditional ? 4 : 2));
            sky_orrery_close(&o);
        }
    }
}

/* What was removed is no older version that its satellite is to be given. */
static void who_expects_what_was_removed_is_told_at_once(void **state) {
    (void)state;
    sky_orrery o;
    open_sealed(&o);
    o.session_config.replicas = 2;
    sky_orrery_begin(&o, 4096);
    uint64_t version = ask(&o, 0, SKY_OP_PUT, 1, 1).version;
    assert_int_equal(ask(&o, 1, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
    sky_time began = o.now;
    sky_result r = put_if(&o, 0, version, 2);
    assert_int_equal(r.status, SKY_E_CONFLICT);
    assert_int_equal(r.version, 0);
    assert_true(o.now - began < SKY_MS(500));
    sky_orrery_close(&o);
}

/* No ground made this version, so nobody's puts are to be newer than it. */
static void a_version_from_a_time_to_come_spoils_nothing(void **state) {
    (void)state;
    static const uint64_t versions[] = {UINT64_MAX, UINT64_MAX - 500, UINT64_MAX >> 1};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        sky_orrery o;
        begin(&o, 2, 0);
        assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 1).status, SKY_OK);
        assert_int_equal(put_if(&o, 0, versions[i], 2).status, SKY_E_CONFLICT);
        assert_int_equal(ask(&o, 0, SKY_OP_PUT, 2, 3).status, SKY_OK);
        assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 4).status, SKY_OK);
        assert_int_equal(ask(&o, 1, SKY_OP_GET, 2, 0).bytes, FIRST + 3);
        assert_int_equal(ask(&o, 1, SKY_OP_GET, 1, 0).bytes, FIRST + 4);
        sky_orrery_close(&o);
    }
}

static sky_status end_of(sky_orrery *o, uint32_t ground) {
    sky_result r;
    assert_true(sky_session_result(o->grounds[ground], &r));
    return r.status;
}

/* Messages of a type about heads, or about chunks, are lost until a time: those of the version
 * that came first. */
typedef struct {
    sky_wire_type type;
    bool heads;
    sky_time until;
    uint64_t version; /* 0: none came yet */
} loss;

static bool loses_at_first(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    loss *l = o->ear_context;
    (void)from, (void)to;
    if (m->type != l->type || (m->id.number == 0) != l->heads || o->now > l->until)
        return true;
    l->version = l->version ? l->version : m->id.version;
    return m->id.version != l->version;
}

static void lose(sky_orrery *o, loss *l) {
    o->ear_context = l;
    o->ear = loses_at_first;
}

/* A put looks for what it replaces while its chunk goes out, at all places at once. So it takes one
 * round trip to the farthest of them and one for its head. It drops what another ground had put,
 * although that had stayed behind. */
static void a_put_looks_for_what_it_replaces_in_a_round_trip(void **state) {
    (void)state;
    sky_orrery o;
    open_sealed(&o);
    sky_orrery_begin(&o, 4096);
    assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
    o.ear = sky_orrery_no_migration;
    sky_orrery_run(&o, o.now + SKY_ORRERY_TURN_NS);
    sky_time light_ns = sky_frame_ground_ns(&o.frame, sky_frame_centre(&o.frame, 1), 1) +
                        sky_frame_ground_ns(&o.frame, sky_frame_centre(&o.frame, 0), 1);
    for (uint32_t key = 1; key <= 2; key++) {
        sky_request put = request_of(SKY_OP_PUT, key, 0);
        put.payload_bytes = SKY_ORRERY_CHUNK; /* one, which goes to a near satellite */
        sky_time began = o.now;
        assert_int_equal(sky_orrery_ask(&o, 1, &put).status, SKY_OK);
        assert_in_range(o.now - began, 2 * light_ns, 2 * light_ns + SKY_MS(3));
    }
    o.ear = NULL;
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    for (uint32_t key = 1; key <= 2; key++)
        assert_int_equal(sky_orrery_chunks_of(&o, key), 1);
    sky_orrery_close(&o);
}

/* Two grounds put a name so near to each other that one finds the other's head, which is newer,
 * while its own is on the way: both are acknowledged, and one of the values is there. */
static void of_two_puts_at_once_one_stays(void **state) {
    (void)state;
    for (uint32_t trial = 0; trial < 120; trial++) {
        sky_orrery o;
        open_sealed(&o);
        o.session_config.replicas = 1 + trial % 2;
        sky_orrery_begin(&o, 4096);
        sky_request first = request_of(SKY_OP_PUT, 1, trial % 4 < 2 ? 2 : 5000);
        sky_request second = request_of(SKY_OP_PUT, 1, 3);
        loss questions = {SKY_WIRE_GET, true, o.now + SKY_MS(1) / 8, 0};
        if (trial % 3)
            lose(&o, &questions);
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &first), SKY_OK);
        sky_orrery_run(&o, o.now + trial * SKY_MS(1) / 3);
        assert_int_equal(sky_session_submit(o.grounds[1], o.now, &second), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(2));
        for (uint32_t ground = 0; ground < 2; ground++)
            assert_int_equal(end_of(&o, ground), SKY_OK);
        uint64_t bytes = ask(&o, 2, SKY_OP_GET, 1, 0).bytes;
        assert_true(bytes == first.payload_bytes || bytes == second.payload_bytes);
        for (uint32_t ground = 0; ground < 4; ground++)
            assert_int_equal(ask(&o, ground, SKY_OP_GET, 1, 0).bytes, bytes);
        sky_orrery_close(&o);
    }
}

/* A put whose ground learns of a newer value while its head is on the way is over at once. */
static void a_put_may_be_overtaken(void **state) {
    (void)state;
    for (uint32_t trial = 0; trial < 120; trial++) {
        sky_orrery o;
        open_sealed(&o);
        sky_orrery_begin(&o, 4096);
        for (uint32_t ground = 0; ground < 2; ground++) /* both know the name */
            assert_int_equal(ask(&o, ground, SKY_OP_PUT, 1, 1).status, SKY_OK);
        assert_int_equal(ask(&o, 0, SKY_OP_HAS, 1, 0).status, SKY_OK);
        sky_request first = request_of(SKY_OP_PUT, 1, 2), second = request_of(SKY_OP_PUT, 1, 3);
        sky_request has = request_of(SKY_OP_HAS, 1, 0);
        loss heads = {SKY_WIRE_SET, true, o.now + SKY_MS(150), 0};
        lose(&o, &heads);
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &first), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_MS(12));
        assert_int_equal(sky_session_submit(o.grounds[1], o.now, &second), SKY_OK);
        sky_orrery_run(&o, o.now + trial * SKY_MS(1));
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &has), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(2));
        for (uint32_t answer = 0; answer < 3; answer++)
            assert_int_equal(end_of(&o, answer == 2), SKY_OK);
        uint64_t bytes = ask(&o, 2, SKY_OP_GET, 1, 0).bytes;
        assert_true(bytes == first.payload_bytes || bytes == second.payload_bytes);
        for (uint32_t ground = 0; ground < 4; ground++)
            assert_int_equal(ask(&o, ground, SKY_OP_GET, 1, 0).bytes, bytes);
        sky_orrery_close(&o);
    }
}

/* One ground replaces a name, another reads it for the first time: there is always a value. */
static void a_name_that_is_replaced_is_never_absent(void **state) {
    (void)state;
    for (uint32_t trial = 0; trial < 200; trial++) {
        sky_orrery o;
        open_sealed(&o);
        sky_orrery_begin(&o, 4096);
        assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 2000).status, SKY_OK);
        sky_request put = request_of(SKY_OP_PUT, 1, 2001), get = request_of(SKY_OP_GET, 1, 0);
        assert_int_equal(sky_session_submit(o.grounds[0], o.now, &put), SKY_OK);
        sky_orrery_run(&o, o.now + trial * SKY_MS(1) / 5);
        loss chunks = {SKY_WIRE_GET, false, o.now + SKY_MS(20), 0};
        lose(&o, &chunks);
        assert_int_equal(sky_session_submit(o.grounds[1], o.now, &get), SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(2));
        assert_int_equal(end_of(&o, 0), SKY_OK);
        assert_int_equal(end_of(&o, 1), SKY_OK);
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

static bool heads_unsaid(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)from, (void)to;
    return m->type != SKY_WIRE_SET_ACK || m->id.number > 0;
}

/* The head was set, in the place of the older one, and nobody could say so: the put fails, and its
 * value is there. */
static void a_put_that_fails_leaves_a_value(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 1, 0);
    assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 5).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    o.ear = heads_unsaid;
    assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 9).status, SKY_E_IO);
    o.ear = NULL;
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    for (uint32_t ground = 0; ground < 3; ground++)
        assert_int_equal(ask(&o, ground, SKY_OP_GET, 1, 0).bytes, FIRST + 9);
    assert_int_equal(o.wrong, 0);
    sky_orrery_close(&o);
}

/* One ground replaces a value, and another moves the old one meanwhile: the move is begun later,
 * and its value is older all the same. */
static void a_move_does_not_hide_a_put(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, 0);
    assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 5).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    sky_request put = request_of(SKY_OP_PUT, 1, 9), move = request_of(SKY_OP_PREFETCH, 1, 0);
    move.at_ms = sky_turning_ms(&o.frame.turning, 3 * SKY_ORRERY_TURN_NS);
    assert_int_equal(sky_session_submit(o.grounds[1], o.now, &put), SKY_OK);
    sky_orrery_run(&o, o.now + SKY_MS(2));
    assert_int_equal(sky_session_submit(o.grounds[0], o.now, &move), SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(2));
    assert_int_equal(end_of(&o, 1), SKY_OK);
    end_of(&o, 0); /* moved, or no longer there to be */
    for (uint32_t ground = 0; ground < 3; ground++)
        assert_int_equal(ask(&o, ground, SKY_OP_GET, 1, 0).bytes, FIRST + 9);
    sky_orrery_close(&o);
}

static void what_another_removed_is_gone(void **state) {
    (void)state;
    for (uint8_t replicas = 1; replicas <= 2; replicas++) {
        sky_orrery o;
        begin(&o, replicas, 0);
        assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 5).status, SKY_OK);
        assert_int_equal(ask(&o, 1, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        assert_int_equal(ask(&o, 0, SKY_OP_HAS, 1, 0).status, SKY_MISS);
        assert_int_equal(ask(&o, 0, SKY_OP_GET, 1, 0).status, SKY_MISS);
        assert_int_equal(ask(&o, 1, SKY_OP_PUT, 1, 9).status, SKY_OK);
        assert_int_equal(ask(&o, 0, SKY_OP_GET, 1, 0).bytes, FIRST + 9);
        sky_orrery_close(&o);
    }
}

/* A satellite that was full gave up the head of what a ground put. No other ground finds it then,
 * and one of them puts the name anew: the first must not go by its index alone. */
static void a_head_that_was_evicted_is_asked_for(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 1, 0);
    for (uint32_t key = 1; key <= 2; key++) {
        sky_chunk_id head = {.key = sky_orrery_key(key)};
        head.version = ask(&o, 0, SKY_OP_PUT, key, 1).version;
        assert_true(head.version > 0);
        sky__evicted(o.grounds[0], &head);
        if (key == 1)
            assert_int_equal(ask(&o, 1, SKY_OP_PUT, key, 2).status, SKY_OK);
        sky_result r = ask(&o, 0, SKY_OP_GET, key, 0);
        assert_int_equal(r.status, SKY_OK);
        assert_int_equal(r.bytes, FIRST + (key == 1 ? 2 : 1)); /* nobody replaced the other */
    }
    sky_orrery_close(&o);
}

/* Satellites that were full gave up the heads of a name, and with them who put it last. A ground
 * that knows it from its index does not move it: that would bring back what may be older. */
static void what_has_no_head_is_not_moved(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, 2, 0);
    sky_key key = sky_orrery_key(1);
    assert_int_equal(ask(&o, 0, SKY_OP_PUT, 1, 5).status, SKY_OK);
    for (uint32_t plane = 1; plane <= o.frame.constellation.planes; plane++) {
        for (uint32_t slot = 1; slot <= o.frame.constellation.slots; slot++) {
            sky_node *n = sky_orrery_node(&o, (sky_satellite){plane, slot});
            struct sky_node_slot *head = sky__node_find_head(n, &key, SKY_VERSION_ANY);
            if (head)
                sky__node_remove(n, head);
        }
    }
    sky_request move = request_of(SKY_OP_PREFETCH, 1, 0);
    move.at_ms = sky_turning_ms(&o.frame.turning, 3 * SKY_ORRERY_TURN_NS);
    assert_int_equal(sky_orrery_ask(&o, 0, &move).status, SKY_MISS);
    assert_int_equal(ask(&o, 2, SKY_OP_GET, 1, 0).status, SKY_MISS);
    sky_orrery_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_was_evicted_is_asked_for),
        cmocka_unit_test(what_has_no_head_is_not_moved),
        cmocka_unit_test(no_ground_reads_an_older_value),
        cmocka_unit_test(a_name_costs_a_round_trip_and_a_block_none),
        cmocka_unit_test(a_dead_copy_of_a_head_costs_little),
        cmocka_unit_test(who_missed_a_put_is_not_believed),
        cmocka_unit_test(who_expects_what_was_removed_is_told_at_once),
        cmocka_unit_test(a_version_from_a_time_to_come_spoils_nothing),
        cmocka_unit_test(a_put_looks_for_what_it_replaces_in_a_round_trip),
        cmocka_unit_test(of_two_puts_at_once_one_stays),
        cmocka_unit_test(a_put_may_be_overtaken),
        cmocka_unit_test(a_name_that_is_replaced_is_never_absent),
        cmocka_unit_test(a_put_that_fails_leaves_a_value),
        cmocka_unit_test(a_move_does_not_hide_a_put),
        cmocka_unit_test(what_another_removed_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
