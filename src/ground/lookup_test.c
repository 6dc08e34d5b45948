/* Proves that a ground which never set a block finds it by asking the satellite overhead, with any
 * strategy and after any number of turns; that a chain of keys takes a logarithm of questions; and
 * that heads which lie cost a miss and never a wrong byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "ground/orrery_fixture.h"
#include "ground/session_state.h"

static const sky_strategy strategies[] = {SKY_PLACE_ROTATION, SKY_PLACE_HOP,
                                          SKY_PLACE_ROTATION_HOP};

static void begin(sky_orrery *o, sky_strategy strategy, sky_lookup_kind lookup) {
    sky_orrery_open(o, strategy);
    o->session_config.lookup = lookup;
    sky_orrery_begin(o, 64);
}

static sky_session_stat stat_of(const sky_orrery *o, uint32_t ground) {
    sky_session_stat s;
    sky_session_stats(o->grounds[ground], &s);
    return s;
}

static void assert_got(sky_orrery *o, uint32_t ground, uint32_t block, uint32_t bytes) {
    uint64_t before = o->delivered;
    sky_result r = sky_orrery_do(o, ground, SKY_OP_GET, block, 0);
    assert_int_equal(r.status, SKY_OK);
    assert_int_equal(r.bytes, bytes);
    assert_int_equal(o->delivered - before, bytes);
    assert_int_equal(o->wrong, 0);
}

static void a_ground_finds_what_another_set(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t turns = 0; turns < 24; turns++) {
            sky_orrery o;
            begin(&o, strategies[i], SKY_LOOKUP_BINARY);
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 2, 100).status, SKY_OK);
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 3, 0).status, SKY_OK);
            /* once just after a turn, when heads and chunks are on their way */
            sky_orrery_run(&o,
                           turns * SKY_ORRERY_TURN_NS + (turns % 2 ? SKY_MS(2) : SKY_SECONDS(3)));
            assert_int_equal(sky_index_count(sky_session_index(o.grounds[1])), 0);
            assert_got(&o, 1, 1, 5000);
            assert_got(&o, 1, 2, 100);
            assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_HAS, 3, 0).status, SKY_OK);
            assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 9, 0).status, SKY_MISS);
            assert_int_equal(stat_of(&o, 1).adopted, 3);
            assert_int_equal(stat_of(&o, 1).suspects, 0);
            uint64_t asked = o.sent[SKY_WIRE_GET];
            assert_got(&o, 1, 2, 100); /* from the index now */
            assert_int_equal(o.sent[SKY_WIRE_GET], asked + 1);
            sky_orrery_close(&o);
        }
    }
}

static bool count_questions(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    uint32_t *of = o->ear_context;
    if (from.plane == 0 && m->type == SKY_WIRE_GET)
        of[sky_frame_number(&o->frame, to)]++;
    return true;
}

/* A satellite that was the place of several of the last rotations is asked once for all of them. In
 * a sky of four satellites a plane each was the place of two. */
static void what_is_nowhere_is_asked_of_each_place_once(void **state) {
    (void)state;
    uint32_t of[64] = {0}, most = 0, asked = 0;
    sky_orrery o;
    sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
    o.session_config.lookup = SKY_LOOKUP_BINARY;
    sky_constellation c = o.frame.constellation;
    sky_placement p = o.frame.placement;
    sky_turning t = o.frame.turning;
    c.slots = 4;
    sky_frame_deinit(&o.frame);
    assert_int_equal(sky_frame_init(&o.frame, &c, &p, (sky_satellite){3, 4}, &t, NULL), SKY_OK);
    o.node_config.constellation = c;
    sky_orrery_begin(&o, 64);
    sky_orrery_run(&o, 20 * SKY_ORRERY_TURN_NS + SKY_SECONDS(3));
    o.ear = count_questions;
    o.ear_context = of;
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 9, 0).status, SKY_MISS);
    for (uint32_t i = 0; i < o.frame.satellite_count; i++) {
        most = of[i] > most ? of[i] : most;
        asked += of[i] > 0;
    }
    assert_int_equal(asked, 4);
    assert_true(most <= 3); /* twice, as it may be on its way; and once of the last places */
    sky_orrery_close(&o);
}

static sky_result ask_chain(sky_orrery *o, uint32_t ground, const sky_key *keys, uint32_t count) {
    sky_request r = {.op = SKY_OP_HAS, .chain = keys, .chain_count = count, .named = true};
    return sky_orrery_ask(o, ground, &r);
}

/* The fewest questions, each answered by yes or no, that can tell count + 1 lengths apart. */
static uint64_t halvings(uint32_t count) {
    uint64_t questions = 0;
    for (uint32_t lengths = count + 1; lengths > 1; lengths = (lengths + 1) / 2)
        questions++;
    return questions;
}

/* One after another to find the end; then each head that is there, once. */
static void assert_few_questions(sky_lookup_kind kind, const sky_key *keys, uint32_t count,
                                 uint32_t there) {
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, kind);
    for (uint32_t i = 0; i < there; i++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 100 + i, 300).status, SKY_OK);
    o.sent[SKY_WIRE_GET] = 0;
    sky_result r = ask_chain(&o, 1, keys, count);
    assert_int_equal(r.bytes, there);
    assert_int_equal(r.status, there ? SKY_OK : SKY_MISS);
    uint64_t questions = stat_of(&o, 1).questions;
    uint64_t most = halvings(count);
    uint64_t backwards = count - there + (there > 0);
    if (kind == SKY_LOOKUP_BINARY)
        assert_in_range(questions, most - 1, most);
    else
        assert_int_equal(questions, backwards);
    assert_in_range(o.sent[SKY_WIRE_GET], there, there + questions);
    assert_int_equal(stat_of(&o, 1).adopted, there);
    assert_int_equal(ask_chain(&o, 1, keys, there ? there : 1).bytes, there);
    r = ask_chain(&o, 0, keys, count);
    assert_int_equal(r.bytes, there);
    sky_orrery_close(&o);
}

static void chains_take_a_logarithm_of_questions(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 7, 32, 1000, 4096};
    static sky_key keys[4096];
    for (uint32_t i = 0; i < 4096; i++)
        keys[i] = sky_orrery_key(100 + i);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        for (uint32_t there = 0; there <= 32 && there <= counts[n]; there += there < 4 ? 1 : 7)
            assert_few_questions(SKY_LOOKUP_BINARY, keys, counts[n], there);
        for (uint32_t there = 0; there <= counts[n] && counts[n] <= 32; there += 5)
            assert_few_questions(SKY_LOOKUP_SEQUENTIAL, keys, counts[n], there);
    }
}

/* The index answers for the keys it knows: only the others are asked for. */
static void what_the_index_knows_is_not_asked(void **state) {
    (void)state;
    static sky_key keys[1000];
    for (uint32_t i = 0; i < 1000; i++)
        keys[i] = sky_orrery_key(100 + i);
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 100 + i, 300).status, SKY_OK);
    assert_int_equal(ask_chain(&o, 0, keys, 30).bytes, 30);
    assert_int_equal(stat_of(&o, 0).questions, 0);
    assert_int_equal(ask_chain(&o, 0, keys, 1000).bytes, 30);
    assert_in_range(stat_of(&o, 0).questions, 1, halvings(1000));
    sky_orrery_close(&o);
}

/* Two ask for the same chain, one head at a time; and in the second round the third block is gone,
 * which binary search does not see before its heads are fetched. */
static void heads_need_not_be_asked_for_twice(void **state) {
    (void)state;
    sky_key keys[8];
    for (uint32_t i = 0; i < 8; i++)
        keys[i] = sky_orrery_key(100 + i);
    for (int hole = 0; hole < 2; hole++) {
        sky_orrery o;
        sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
        o.session_config.lookup = SKY_LOOKUP_BINARY;
        o.session_config.operations_max = 1;
        sky_orrery_begin(&o, 64);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 100 + i, 300).status, SKY_OK);
        if (hole)
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 102, 0).status, SKY_OK);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        sky_request first = {.op = SKY_OP_HAS, .chain = keys, .chain_count = 8};
        assert_int_equal(sky_session_submit(o.grounds[1], o.now, &first), SKY_OK);
        uint32_t there = hole ? 2 : 8;
        assert_int_equal(ask_chain(&o, 1, keys, 8).bytes, there);
        sky_orrery_run(&o, o.now + SKY_SECONDS(1));
        sky_result r;
        assert_true(sky_session_result(o.grounds[1], &r));
        assert_int_equal(r.bytes, there);
        sky_orrery_close(&o);
    }
}

/* Without lookups a chain is what the index says. */
static void the_index_answers_chains_too(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION, SKY_LOOKUP_INDEX);
    sky_key keys[4];
    for (uint32_t i = 0; i < 4; i++)
        keys[i] = sky_orrery_key(i);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, i, 300).status, SKY_OK);
    assert_int_equal(ask_chain(&o, 0, keys, 4).bytes, 3);
    assert_int_equal(ask_chain(&o, 1, keys, 4).status, SKY_MISS);
    assert_int_equal(o.sent[SKY_WIRE_GET], 0);
    assert_int_equal(sky_orrery_chunks(&o), 6); /* and no heads */
    sky_orrery_close(&o);
}

static void a_stale_index_is_put_right(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
    assert_got(&o, 1, 1, 5000);
    sky_orrery_run(&o, SKY_SECONDS(5));
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 3000).status, SKY_OK);
    sky_orrery_run(&o, SKY_SECONDS(25));
    assert_got(&o, 1, 1, 3000); /* its index said 5000 and another version */
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_PUT, 1, 700).status, SKY_OK);
    sky_orrery_run(&o, SKY_SECONDS(26));
    assert_got(&o, 0, 1, 700); /* the newer wins, whoever put it */
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_REMOVE, 1, 0).status, SKY_OK);
    sky_orrery_run(&o, SKY_SECONDS(27));
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_GET, 1, 0).status, SKY_MISS);
    assert_int_equal(sky_orrery_chunks(&o), 0);
    sky_orrery_close(&o);
}

/* A ground whose clock is behind: what it sets after it found a head is newer than that head. */
static void what_is_put_is_newer_than_what_was_found(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
    uint64_t ahead_ms = (uint64_t)sky_turning_ms(&o.frame.turning, o.now) + 3600000;
    o.grounds[0]->blocks.head_version = ahead_ms << 16;
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 2, 300).status, SKY_OK);
    assert_got(&o, 1, 2, 300);
    assert_got(&o, 1, 1, 5000); /* an older head than the one before */
    assert_int_equal(o.grounds[1]->blocks.head_version, o.grounds[0]->blocks.head_version);
    assert_int_equal(sky_orrery_do(&o, 1, SKY_OP_PUT, 2, 700).status, SKY_OK);
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    assert_got(&o, 0, 2, 700);
    sky_orrery_close(&o);
}

/* What was found counts as what was put: its parent is the key before it, the first has none. */
static void a_chain_that_was_found_hangs_together(void **state) {
    (void)state;
    sky_key keys[5];
    for (uint32_t i = 0; i < 5; i++)
        keys[i] = sky_orrery_key(100 + i);
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
    for (uint32_t i = 1; i < 5; i++)
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 100 + i, 300).status, SKY_OK);
    assert_int_equal(ask_chain(&o, 1, keys + 1, 4).bytes, 4);
    const sky_session *s = o.grounds[1];
    assert_int_equal(s->blocks.heads, 4);
    for (uint32_t i = 1; i < 5; i++) {
        uint32_t block = sky_index_find(s->blocks.index, &keys[i]);
        assert_int_not_equal(block, SKY_BLOCK_NONE);
        const sky_key none = {{0}};
        assert_true(sky_key_equal(&s->blocks.rows[block].parent, i > 1 ? &keys[i - 1] : &none));
    }
    sky_orrery_close(&o);
}

/* Two questions for one key are under way at once: the second answer finds the block known. */
static void a_head_is_adopted_once(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
    for (int i = 0; i < 2; i++) {
        sky_request has = {.op = SKY_OP_HAS, .key = sky_orrery_key(1)};
        assert_int_equal(sky_session_submit(o.grounds[1], o.now, &has), SKY_OK);
    }
    sky_orrery_run(&o, o.now + SKY_SECONDS(1));
    for (int i = 0; i < 2; i++) {
        sky_result r;
        assert_true(sky_session_result(o.grounds[1], &r));
        assert_int_equal(r.status, SKY_OK);
    }
    assert_int_equal(stat_of(&o, 1).adopted, 1);
    assert_int_equal(sky_index_count(sky_session_index(o.grounds[1])), 1);
    assert_got(&o, 1, 1, 5000);
    sky_orrery_close(&o);
}

static void put_but_for_the_head(sky_orrery *o, uint32_t block) {
    const sky_request put = {.op = SKY_OP_PUT,
                             .key = sky_orrery_key(block),
                             .context = (void *)(uintptr_t)block,
                             .payload_bytes = 5000};
    uint32_t chunks = sky_orrery_chunks(o);
    o->ear = sky_orrery_no_head_ack;
    assert_int_equal(sky_session_submit(o->grounds[0], o->now, &put), SKY_OK);
    sky_orrery_run(o, o->now + SKY_MS(100));
    assert_int_equal(sky_orrery_chunks(o), chunks + 21);
}

/* Its head is found before its put knows that it is stored, and the block counts twice. What makes
 * room then takes one of the two, and not the chunks, which are the put's. */
static void what_is_being_put_makes_no_room(void **state) {
    (void)state;
    sky_orrery o;
    sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
    o.session_config.lookup = SKY_LOOKUP_BINARY;
    sky_orrery_begin(&o, 8); /* two blocks, three chunks of each on a satellite, and their heads */
    put_but_for_the_head(&o, 1);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_HAS, 1, 0).status, SKY_OK);
    put_but_for_the_head(&o, 2);
    assert_int_equal(stat_of(&o, 0).evicted, 1);
    o.ear = NULL;
    sky_orrery_run(&o, o.now + SKY_SECONDS(5));
    for (uint32_t i = 0; i < 2; i++) {
        sky_result r;
        assert_true(sky_session_result(o.grounds[0], &r));
        assert_int_equal(r.op, SKY_OP_PUT);
        assert_int_equal(r.status, SKY_OK);
    }
    for (uint32_t block = 1; block <= 2; block++) {
        assert_int_equal(sky_orrery_chunks_of(&o, block), 20);
        assert_got(&o, 0, block, 5000);
    }
    sky_orrery_close(&o);
}

/* Two grounds put one key in the same instant. */
static void puts_of_one_instant_never_mix(void **state) {
    (void)state;
    for (uint32_t turns = 0; turns < 3; turns++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
        for (uint32_t g = 0; g < 2; g++) {
            sky_request put = {.op = SKY_OP_PUT,
                               .key = sky_orrery_key(1),
                               .context = (void *)(uintptr_t)(100 + g),
                               .payload_bytes = 5000};
            assert_int_equal(sky_session_submit(o.grounds[g], o.now, &put), SKY_OK);
        }
        sky_orrery_run(&o, SKY_SECONDS(2) + turns * SKY_ORRERY_TURN_NS);
        sky_result r;
        for (uint32_t g = 0; g < 2; g++) {
            assert_true(sky_session_result(o.grounds[g], &r));
            assert_int_equal(r.status, SKY_OK);
        }
        for (uint32_t g = 0; g < 2;
             g++) { /* each what it put, though only one is found by others */
            sky_request get = {.op = SKY_OP_GET,
                               .key = sky_orrery_key(1),
                               .context = (void *)(uintptr_t)(100 + g),
                               .room_bytes = UINT64_MAX};
            assert_int_equal(sky_orrery_ask(&o, g, &get).bytes, 5000);
            assert_int_equal(o.wrong, 0);
        }
        sky_orrery_close(&o);
    }
}

/* ---- heads of which most copies are gone ---- */

#define HEAD_COPIES 4

typedef struct {
    sky_satellite places[HEAD_COPIES];
    uint32_t alive; /* this copy's place alone answers; HEAD_COPIES: all do */
} deaths;

static bool passes_by_the_dead(sky_orrery *o, sky_satellite from, sky_satellite to,
                               sky_message *m) {
    const deaths *d = o->ear_context;
    (void)m;
    for (uint32_t i = 0; i < HEAD_COPIES && d->alive < HEAD_COPIES; i++) {
        bool concerned = sky_satellite_equal(from, d->places[i]) ||
                         sky_satellite_equal(to, d->places[i]);
        if (concerned && i != d->alive)
            return false;
    }
    return true;
}

typedef struct {
    sky_time ns;       /* that a ground takes to find a chain, … */
    sky_time light_ns; /* … of which there and back is to a head, once */
    uint64_t questions;
} search;

/* Of each head one copy is left. */
static search search_with(uint32_t alive, uint32_t count) {
    sky_key keys[8];
    sky_orrery o;
    sky_orrery_open(&o, SKY_PLACE_ROTATION_HOP);
    o.session_config.lookup = SKY_LOOKUP_BINARY;
    o.session_config.parity = HEAD_COPIES - 1;
    sky_orrery_begin(&o, 64);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = sky_orrery_key(100 + i);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 100 + i, 300).status, SKY_OK);
    }
    deaths d = {.alive = alive};
    uint32_t block = sky_index_find(sky_session_index(o.grounds[0]), &keys[0]);
    for (uint32_t i = 0; i < HEAD_COPIES; i++)
        d.places[i] = sky_session_home(o.grounds[0], block, 0, i);
    o.ear = passes_by_the_dead;
    o.ear_context = &d;
    o.sent[SKY_WIRE_GET] = 0;
    search found = {.ns = -o.now};
    assert_int_equal(ask_chain(&o, 1, keys, count).bytes, count);
    found.ns += o.now;
    found.light_ns = 2 * sky_frame_ground_ns(&o.frame, d.places[alive % HEAD_COPIES], 0);
    found.questions = o.sent[SKY_WIRE_GET];
    sky_orrery_close(&o);
    return found;
}

/* One wait shows that a copy is dead. The others are asked then, and the one that answered is asked
 * first for the next key: so one wait and as many questions as there are copies, whichever of them
 * are dead, and however many keys there are. */
static void dead_copies_cost_one_wait(void **state) {
    (void)state;
    sky_time wait_ns = 0;
    for (uint32_t count = 1; count <= 8; count++) {
        search healthy = search_with(HEAD_COPIES, count);
        assert_in_range(healthy.questions, 1, count);
        assert_int_equal(search_with(0, count).ns, healthy.ns);
        for (uint32_t alive = 1; alive < HEAD_COPIES; alive++) {
            search s = search_with(alive, count);
            sky_time lost_ns = s.ns - s.light_ns - (healthy.ns - healthy.light_ns);
            assert_int_equal(s.questions, healthy.questions + HEAD_COPIES - 1);
            if (count == 1 && alive == 1)
                wait_ns = lost_ns;
            if (count == 1)
                assert_in_range(lost_ns, wait_ns - SKY_MS(1), wait_ns + SKY_MS(1));
        }
    }
}

/* ---- heads that lie ---- */

static void reseal(sky_message *m, const sky_block_head *h) {
    sky_head_encode(h, (uint8_t *)(uintptr_t)m->data);
    m->facts.checksum = sky_chunk_checksum(&m->id, m->data, m->data_bytes);
}

static int lie;

static bool bend_heads(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)to;
    if (from.plane == 0 || m->type != SKY_WIRE_CHUNK || m->id.number != 0)
        return true;
    sky_block_head h;
    assert_int_equal(sky_head_decode(m->data, m->data_bytes, &h), SKY_OK);
    switch (lie) {
    case 0: /* a shift that is not true */
        h.set_ms += 25000;
        break;
    case 1:
        h.centre.slot = h.centre.slot % 19 + 1;
        break;
    case 2: /* a version that never was */
        h.version -= 256;
        break;
    case 3: /* shapes that cannot be */
        h.chunk_count++;
        break;
    case 4:
        h.centre.plane = 6;
        break;
    case 5:
        h.chunk_bytes = 1;
        break;
    case 6:
        h.version = 0;
        break;
    case 7: /* a time to come, which what we put would follow */
        m->id.version = UINT64_MAX;
        break;
    default: /* less than there is */
        h.payload_bytes = 4900;
    }
    reseal(m, &h);
    return true;
}

static void heads_that_lie_cost_a_miss(void **state) {
    (void)state;
    for (lie = 0; lie < 9; lie++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_BINARY);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
        sky_orrery_run(&o, 2 * SKY_ORRERY_TURN_NS + SKY_SECONDS(5));
        o.ear = bend_heads;
        sky_result r = sky_orrery_do(&o, 1, SKY_OP_GET, 1, 0);
        assert_true(r.status == SKY_MISS || r.status == SKY_E_CORRUPT);
        assert_int_equal(o.wrong, 0);
        assert_int_equal(stat_of(&o, 1).suspects, lie >= 3 ? 1 : 0);
        uint32_t silent;
        uint32_t wrong = sky_session_suspicion(o.grounds[1], (sky_satellite){3, 2}, &silent);
        assert_int_equal(wrong > 0, lie >= 3 && lie < 8);
        o.ear = NULL;
        sky_orrery_run(&o, 3 * SKY_ORRERY_TURN_NS);
        assert_got(&o, 0, 1, 5000); /* and hurts nobody else */
        sky_orrery_close(&o);
    }
}

static uint32_t damaged, damaged_max;

/* Heads that come with a bit turned, so many of them. */
static bool damage_heads(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m) {
    (void)o, (void)to;
    bool head = from.plane != 0 && m->type == SKY_WIRE_CHUNK && m->id.number == 0;
    if (head && damaged < damaged_max) {
        ((uint8_t *)(uintptr_t)m->data)[5] ^= 0x10;
        damaged++;
    }
    return true;
}

/* The link, and not the satellite: the head is there, and the next answer shows it. */
static void a_head_that_the_link_damaged_is_asked_for_again(void **state) {
    (void)state;
    for (damaged_max = 0; damaged_max <= 4; damaged_max++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_LOOKUP_SEQUENTIAL);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, 5000).status, SKY_OK);
        o.ear = damage_heads;
        damaged = 0;
        sky_result r = sky_orrery_do(&o, 1, SKY_OP_GET, 1, 0);
        assert_int_equal(r.status, damaged_max < 4 ? SKY_OK : SKY_MISS);
        assert_int_equal(stat_of(&o, 1).corrupt, damaged_max);
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ground_finds_what_another_set),
        cmocka_unit_test(a_head_that_the_link_damaged_is_asked_for_again),
        cmocka_unit_test(what_is_nowhere_is_asked_of_each_place_once),
        cmocka_unit_test(chains_take_a_logarithm_of_questions),
        cmocka_unit_test(what_the_index_knows_is_not_asked),
        cmocka_unit_test(heads_need_not_be_asked_for_twice),
        cmocka_unit_test(the_index_answers_chains_too),
        cmocka_unit_test(a_stale_index_is_put_right),
        cmocka_unit_test(a_chain_that_was_found_hangs_together),
        cmocka_unit_test(a_head_is_adopted_once),
        cmocka_unit_test(what_is_being_put_makes_no_room),
        cmocka_unit_test(what_is_put_is_newer_than_what_was_found),
        cmocka_unit_test(puts_of_one_instant_never_mix),
        cmocka_unit_test(dead_copies_cost_one_wait),
        cmocka_unit_test(heads_that_lie_cost_a_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
