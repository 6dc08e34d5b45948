/* Proves that the session delivers right bytes or none whatever answers come: late, twice, out of
 * order, to nothing, wrong, or not at all; and that it asks no faster than the link carries the
 * answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "ground/session_fixture.h"

static void answers_of_all_kinds_give_right_bytes_or_none(void **state) {
    (void)state;
    static sky_ground_sent stored[16];
    sky_prng prng;
    for (uint64_t seed = 0; seed < 200; seed++) {
        sky_ground g;
        sky_ground_open(&g, 100, 64);
        sky_prng_init(&prng, seed);
        uint32_t count = sky_ground_put(&g, 1, 12 * SKY_GROUND_CHUNK + 5, stored);
        assert_int_equal(count, 13);
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        uint32_t answered = 0;
        for (int i = 0; i < 4000 && sky_ground_silent(&g); i++) {
            if (answered == g.sent_count)
                sky_ground_listen(&g, g.now + SKY_MS(1));
            if (g.sent_count == 0)
                continue;
            const sky_ground_sent *s = &g.sent[sky_prng_below(&prng, g.sent_count)];
            sky_message m = sky_ground_answer(s, stored, count);
            uint8_t bent[2 * SKY_GROUND_CHUNK] = {0};
            memcpy(bent, m.data, m.data_bytes);
            switch (sky_prng_below(&prng, 8)) {
            case 0:
                m.id.number = m.id.number % 13 + 1;
                break;
            case 1:
                m.id.version++;
                break;
            case 2:
                m.request ^= 1ull << sky_prng_below(&prng, 64);
                break;
            case 3:
                m.type = SKY_WIRE_SET_ACK;
                break;
            default:
                break;
            }
            m.data = bent;
            sky_ground_say(&g, &m, s->to);
            sky_ground_listen(&g, g.now);
            assert_true(g.sent_count < SKY_GROUND_SENT_MAX - 20);
        }
        assert_int_equal(g.wrong, 0);
        assert_int_equal(g.delivered, 12 * SKY_GROUND_CHUNK + 5);
        assert_int_equal(sky_ground_stat(&g).hits, 1);
        assert_true(sky_ground_stat(&g).stray > 0);
        sky_ground_close(&g);
    }
}

static void wrong_bytes_are_counted_and_end_corrupt(void **state) {
    (void)state;
    static sky_ground_sent stored[2];
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    uint32_t tries = 0;
    sky_result r;
    while (!sky_session_result(g.session, &r)) {
        g.sent_count = 0;
        sky_ground_listen(&g, g.now + SKY_MS(1));
        assert_int_equal(g.sent_count, 1);
        sky_message m = sky_ground_answer(&g.sent[0], stored, 1);
        if (tries++ % 2 == 0)
            m.data_bytes--; /* right bytes, too few */
        else
            m.data = memset(stored[0].data, (int)tries, SKY_GROUND_CHUNK);
        sky_ground_say(&g, &m, g.sent[0].to);
    }
    assert_int_equal(r.status, SKY_E_CORRUPT);
    assert_int_equal(sky_ground_stat(&g).corrupt, tries);
    assert_int_equal(g.delivered, 0);
    assert_int_equal(g.forgotten, 1); /* and the block went */
    sky_ground_close(&g);
}

/* Whoever makes up bytes can make up their checksum; the tenant's key he has not. */
static void a_checksum_is_no_seal(void **state) {
    (void)state;
    static sky_ground_sent stored[2];
    sky_ground g;
    sky_ground_open_sealed(&g, 100, 64);
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    assert_int_equal(stored[0].message.facts.checksum, 0); /* the seal makes it */
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(g.sent_count, 1);
    sky_message m = sky_ground_answer(&g.sent[0], stored, 1);
    uint8_t forged[SKY_GROUND_CHUNK] = {7};
    m.data = forged;
    m.facts.checksum = sky_chunk_checksum(&m.id, forged, sizeof forged);
    sky_ground_say(&g, &m, g.sent[0].to);
    assert_int_equal(sky_ground_stat(&g).corrupt, 1);
    assert_int_equal(g.delivered, 0);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(g.sent_count, 2); /* asked again */
    m = sky_ground_answer(&g.sent[1], stored, 1);
    g.opened = true;
    sky_ground_say(&g, &m, g.sent[1].to);
    assert_int_equal(g.delivered, SKY_GROUND_CHUNK);
    assert_int_equal(g.wrong, 0);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    sky_ground_close(&g);
}

static void silence_ends_in_an_error(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, NULL);
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, SKY_SECONDS(5));
    assert_int_equal(g.sent_count, 13); /* each repeat is sent twice */
    for (uint32_t i = 1; i < 4; i++) {
        assert_true(g.sent[2 * i].at - g.sent[2 * i - 1].at < SKY_MS(1));
        g.sent[i].at = g.sent[2 * i].at;
    }
    sky_time round = 2 * sky_frame_ground_ns_max(&g.frame) + SKY_MS(1); /* light, and one served */
    for (uint32_t i = 1; i < 4; i++) {
        sky_time wait = g.sent[i].at - g.sent[i - 1].at;
        assert_true(wait >= SKY_MS(1) && wait <= round + SKY_MS(31));
    }
    assert_int_equal(sky_ground_result(&g).status, SKY_E_UNAVAILABLE);
    assert_int_equal(sky_session_wake(g.session), SKY_TIME_NEVER); /* nothing more to do */
    sky_ground_ask(&g, SKY_OP_HAS, 1, 0);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    sky_ground_close(&g);
}

/* A request does not end before the satellite that let it down counts as silent, however quickly
 * others answer; so the caller learns which it is, and the next request does not wait. */
static void who_ends_a_request_is_known(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, NULL);
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    while (sky_ground_silent(&g))
        sky_ground_listen(&g, g.now + SKY_MS(1));
    sky_satellite one;
    assert_int_equal(sky_session_silent(g.session, &one), 1);
    assert_true(sky_satellite_equal(one, g.sent[0].to));
    sky_time began = g.now;
    sky_ground_ask(&g, SKY_OP_GET, 1, 0); /* tries it again */
    while (sky_ground_silent(&g))
        sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_true(g.now - began < SKY_MS(150));
    g.now += SKY_MS(10); /* what is asked meanwhile goes with it; what comes later does not wait */
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now);
    assert_int_equal(sky_ground_result(&g).status, SKY_E_UNAVAILABLE);
    sky_ground_close(&g);
}

/* One satellite answers each request as late as it can. What is lost elsewhere is asked for again
 * soon nevertheless. */
static void one_that_is_late_slows_nobody(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_sent stored[9];
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, 9 * SKY_GROUND_CHUNK, stored);
    for (int round = 0; round < 12; round++) {
        sky_message late = {0};
        g.sent_count = 0;
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        assert_int_equal(g.sent_count, 9);
        sky_satellite sloth = g.sent[0].to;
        for (uint32_t i = 0; i < 9; i++) {
            sky_message m = sky_ground_answer(&g.sent[i], stored, 9);
            if (i == 0)
                late = m;
            else
                sky_ground_say(&g, &m, g.sent[i].to);
        }
        sky_ground_listen(&g, g.now + SKY_MS(400));
        sky_ground_say(&g, &late, sloth);
        assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    }
    g.sent_count = 0;
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_SECONDS(1));
    sky_time again = SKY_TIME_NEVER;
    for (uint32_t i = 9; i < g.sent_count && again == SKY_TIME_NEVER; i++) {
        if (sky_satellite_equal(g.sent[i].to, g.sent[1].to))
            again = g.sent[i].at - g.sent[1].at;
    }
    assert_true(again < SKY_MS(300)); /* 607 without a bound */
    sky_ground_close(&g);
}

/* Say answers to what was sent from the n-th message on, but for those of one satellite. */
static void answer_others(sky_ground *g, uint32_t n, sky_satellite but,
                          const sky_ground_sent *stored, uint32_t count) {
    for (uint32_t i = n; i < g->sent_count; i++) {
        sky_message m = sky_ground_answer(&g->sent[i], stored, count);
        if (!sky_satellite_equal(g->sent[i].to, but))
            sky_ground_say(g, &m, g->sent[i].to);
    }
}

/* Say the answer to the n-th message to this satellite. */
static void answer_one(sky_ground *g, sky_satellite by, uint32_t n, const sky_ground_sent *stored,
                       uint32_t count) {
    uint32_t i = 0;
    for (; !sky_satellite_equal(g->sent[i].to, by) || n > 0; i++)
        n -= sky_satellite_equal(g->sent[i].to, by);
    sky_message m = sky_ground_answer(&g->sent[i], stored, count);
    sky_ground_say(g, &m, by);
}

/* Others ask a satellite for as much as we do, so it answers one request of ours in twice the time.
 * None is sent again, though all other satellites have answered what they were asked later. What it
 * never got is sent again before it has answered all. */
static void who_is_busy_is_waited_for(void **state) {
    (void)state;
    enum { ROWS = 25, FIRST = 9 * ROWS, ALL = FIRST + 9, LOST = 5 };
    static sky_ground_sent stored[ALL];
    for (int lost = 0; lost < 2; lost++) {
        sky_ground g;
        sky_ground_open(&g, 100, 256);
        sky_ground_put(&g, 1, FIRST * SKY_GROUND_CHUNK, stored);
        sky_ground_put(&g, 2, 9 * SKY_GROUND_CHUNK, stored + FIRST);
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        answer_others(&g, 0, SKY_GROUND, stored, ALL); /* none is late, as far as it knows */
        assert_int_equal(sky_ground_result(&g).status, SKY_OK);

        g.sent_count = 0;
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        assert_int_equal(g.sent_count, FIRST);
        const sky_satellite busy = g.sent[0].to;
        answer_others(&g, 0, busy, stored, ALL);
        sky_ground_ask(&g, SKY_OP_GET, 2, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        answer_others(&g, FIRST, busy, stored, ALL);
        sky_ground_listen(&g, g.sent[0].at + 2 * sky_frame_ground_ns(&g.frame, busy, 0));
        for (uint32_t n = 0; n <= ROWS; n++) {
            sky_ground_listen(&g, g.now + SKY_MS(2));
            if (!lost || n <= LOST)
                assert_int_equal(g.sent_count, ALL);
            if (!lost || n != LOST)
                answer_one(&g, busy, n, stored, ALL);
        }
        assert_int_equal(g.sent_count, ALL + lost);
        if (lost)
            answer_one(&g, busy, ROWS + 1, stored, ALL);
        assert_int_equal(sky_ground_result(&g).status, SKY_OK);
        assert_int_equal(sky_ground_result(&g).status, SKY_OK);
        sky_ground_close(&g);
    }
}

/* A chunk of each satellite of the window, none answered: when is each first asked for again? Light
 * and what answers were late by before, which is the same for all of them. */
static void assert_asked_again_after(sky_time now, uint64_t turns) {
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, 9 * SKY_GROUND_CHUNK, NULL);
    g.now = now;
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, now + SKY_MS(140));
    assert_true(g.sent_count > 18);
    sky_time beyond = 0;
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t again = 9;
        while (!sky_chunk_id_equal(&g.sent[again].message.id, &g.sent[i].message.id))
            again++;
        const sky_satellite to = g.sent[i].to;
        sky_time light = sky_frame_ground_ns(&g.frame, to, 0);
        sky_time turned = sky_frame_ground_ns(&g.frame, to, turns);
        sky_time back = light + SKY_MS(1) + (turned > light ? turned : light);
        sky_time late = g.sent[again].at - g.sent[i].at - back;
        beyond = i == 0 ? late : beyond;
        assert_in_range(late, SKY_MS(20), SKY_MS(60)); /* a put's answers took 20 ms */
        assert_in_range(late, beyond - SKY_MS(1) / 2, beyond + SKY_MS(1) / 2);
    }
    sky_ground_close(&g);
}

static void a_turn_is_waited_for_only_when_it_is_due(void **state) {
    (void)state;
    assert_asked_again_after(SKY_SECONDS(1), 0);
    assert_asked_again_after(SKY_GROUND_TURN_NS - SKY_MS(2), 1);
}

/* The bounded hedge: what is asked for again goes out twice at most when nobody answers at all, and
 * none of it faster than the answers fit the link. */
static void what_is_asked_again_is_paced(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, 9 * SKY_GROUND_CHUNK, NULL);
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_MS(100));
    sky_time answer_ns = sky_link_busy_ns(1000000000, SKY_GROUND_CHUNK);
    for (uint32_t i = 1; i < g.sent_count; i++)
        assert_true(g.sent[i].at - g.sent[i - 1].at >= answer_ns);
    sky_session_stat s = sky_ground_stat(&g);
    assert_true(s.speculative_retries > 0 && s.speculative_retries <= s.retries);
    assert_int_equal(g.sent_count, 9 + s.retries + s.speculative_retries);
    sky_ground_close(&g);
}

static void a_miss_is_asked_again_at_the_other_place(void **state) {
    (void)state;
    static sky_ground_sent stored[16];
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    uint32_t count = sky_ground_put(&g, 1, 3 * SKY_GROUND_CHUNK, stored);
    g.now = SKY_GROUND_TURN_NS + SKY_MS(100);
    for (int lost = 0; lost < 2; lost++) {
        g.sent_count = 0;
        sky_ground_ask(&g, SKY_OP_GET, 1, 0);
        sky_ground_listen(&g, g.now + SKY_MS(1));
        assert_int_equal(g.sent_count, 3);
        for (uint32_t i = 0; i < 2; i++) {
            sky_message m = sky_ground_answer(&g.sent[i], stored, count);
            sky_ground_say(&g, &m, g.sent[i].to);
        }
        static const uint32_t slots[] = {2, 5, 2};
        for (uint32_t i = 0; i < 3; i++) {
            const sky_ground_sent *s = &g.sent[2 + i];
            assert_int_equal(g.sent_count, 3 + i);
            assert_int_equal(s->to.slot, slots[i]);
            bool hit = i == 2 && !lost;
            sky_message m = sky_ground_answer(s, stored, hit ? count : 0);
            sky_ground_say(&g, &m, s->to);
            sky_ground_say(&g, &m, s->to); /* twice: must not count as a second miss */
            sky_ground_listen(&g, g.now + SKY_MS(1));
        }
        sky_result r = sky_ground_result(&g);
        assert_int_equal(r.status, lost ? SKY_MISS : SKY_OK);
        assert_int_equal(sky_ground_stat(&g).purged, lost);
    }
    uint32_t drops = 0;
    for (uint32_t i = 0; i < g.sent_count; i++)
        drops += g.sent[i].message.type == SKY_WIRE_DROP;
    assert_int_equal(drops, 4); /* one to each server's place, and to the third's other one */
    sky_ground_ask(&g, SKY_OP_HAS, 1, 0);
    assert_int_equal(sky_ground_result(&g).status, SKY_MISS);
    sky_ground_close(&g);
}

/* Asks for block 1, of which one chunk is slow: its satellite was asked again, and answers then.
 * Others answer at once. Returns which message asked first. */
static uint32_t ask_one_that_is_slow(sky_ground *g, uint32_t chunks,
                                     const sky_ground_sent *stored) {
    g->sent_count = 0;
    sky_ground_ask(g, SKY_OP_GET, 1, 0);
    sky_ground_listen(g, g->now + SKY_MS(1));
    assert_int_equal(g->sent_count, chunks);
    for (uint32_t i = 0; i + 1 < chunks; i++) {
        sky_message m = sky_ground_answer(&g->sent[i], stored, chunks);
        sky_ground_say(g, &m, g->sent[i].to);
    }
    while (g->sent_count == chunks)
        sky_ground_listen(g, g->now + SKY_MS(1));
    assert_true(sky_satellite_equal(g->sent[chunks].to, g->sent[chunks - 1].to));
    return chunks - 1;
}

static void deny(sky_ground *g, uint32_t sent) {
    sky_message m = sky_ground_answer(&g->sent[sent], NULL, 0);
    sky_ground_say(g, &m, g->sent[sent].to);
    sky_ground_listen(g, g->now + SKY_MS(1));
}

/* One that needs longer than is waited for is asked again before each of its answers comes. They
 * count, unless somebody else was asked meanwhile: then the chunk may have moved since. */
static void a_miss_of_an_earlier_attempt_counts(void **state) {
    (void)state;
    static const uint32_t slots[] = {2, 5, 2};
    sky_ground_sent stored[3];
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    deny(&g, ask_one_that_is_slow(&g, 1, stored));
    assert_int_equal(sky_ground_result(&g).status, SKY_MISS);
    sky_ground_close(&g);
    sky_ground_open(&g, 100, 64);
    sky_ground_put(&g, 1, 3 * SKY_GROUND_CHUNK, stored);
    g.now = SKY_GROUND_TURN_NS + SKY_MS(100);
    uint32_t first = ask_one_that_is_slow(&g, 3, stored), last = first;
    for (uint32_t i = 0; i < 3; i++) { /* the one, the other, and the one again */
        assert_int_equal(g.sent[last].to.slot, slots[i]);
        if (i > 0)
            deny(&g, first + 1); /* from before the other was asked */
        assert_true(sky_ground_silent(&g));
        deny(&g, last);
        last = g.sent_count - 1;
    }
    assert_int_equal(sky_ground_result(&g).status, SKY_MISS);
    sky_ground_close(&g);
}

static void only_who_was_asked_is_believed(void **state) {
    (void)state;
    static sky_ground_sent stored[2];
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    uint32_t count = sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(g.sent_count, 1);
    const sky_satellite other = {g.sent[0].to.plane % 5 + 1, g.sent[0].to.slot};
    sky_message m = sky_ground_answer(&g.sent[0], NULL, 0);
    sky_ground_say(&g, &m, other); /* a MISS, and bytes of its own */
    m = sky_ground_answer(&g.sent[0], stored, count);
    uint8_t bent[SKY_GROUND_CHUNK] = {1};
    m.data = bent;
    m.facts.checksum = sky_chunk_checksum(&m.id, bent, sizeof bent);
    sky_ground_say(&g, &m, other);
    assert_true(sky_ground_silent(&g));
    assert_int_equal(sky_ground_stat(&g).stray, 2);
    m = sky_ground_answer(&g.sent[0], stored, count);
    sky_ground_say(&g, &m, g.sent[0].to);
    assert_int_equal(sky_ground_result(&g).status, SKY_OK);
    assert_int_equal(g.wrong, 0);
    sky_ground_close(&g);
}

static void requests_are_paced_and_bounded(void **state) {
    (void)state;
    sky_ground g;
    sky_ground_open(&g, 100, 8);
    sky_ground_ask(&g, SKY_OP_PUT, 1, 20 * SKY_GROUND_CHUNK);
    for (uint32_t answered = 0; sky_ground_silent(&g); answered++) {
        sky_ground_listen(&g, g.now + SKY_MS(1) / 8);
        assert_true(g.sent_count - answered <= 8);
        sky_message m = sky_ground_answer(&g.sent[answered], NULL, 0);
        sky_ground_say(&g, &m, g.sent[answered].to);
    }
    g.sent_count = 0;
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(g.sent_count, 8);
    sky_time answer_ns = sky_link_busy_ns(1000000000, 100 + SKY_GROUND_CHUNK);
    for (uint32_t i = 1; i < 8; i++)
        assert_true(g.sent[i].at - g.sent[i - 1].at >= answer_ns);
    sky_ground_close(&g);
}

/* The host says so by its callbacks: of a put before its first chunk is sent, before one is sent
 * again, and of a get when a chunk comes. */
static void a_host_that_left_ends_its_request(void **state) {
    (void)state;
    static sky_ground_sent stored[2];
    sky_ground g;
    sky_ground_open(&g, 100, 64);
    uint32_t count = sky_ground_put(&g, 1, SKY_GROUND_CHUNK, stored);
    g.gone = true;
    sky_ground_ask(&g, SKY_OP_PUT, 2, 3 * SKY_GROUND_CHUNK);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(sky_ground_result(&g).status, SKY_E_CANCELLED);
    for (uint32_t i = 0; i < g.sent_count; i++)
        assert_int_equal(g.sent[i].message.type, SKY_WIRE_DROP);
    g.gone = false;
    sky_ground_ask(&g, SKY_OP_PUT, 2, 3 * SKY_GROUND_CHUNK);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_true(sky_ground_silent(&g));
    g.gone = true;
    sky_ground_listen(&g, g.now + SKY_SECONDS(1));
    assert_int_equal(sky_ground_result(&g).status, SKY_E_CANCELLED);
    g.sent_count = 0;
    sky_ground_ask(&g, SKY_OP_GET, 1, 0);
    sky_ground_listen(&g, g.now + SKY_MS(1));
    assert_int_equal(g.sent_count, 1);
    sky_message m = sky_ground_answer(&g.sent[0], stored, count);
    sky_ground_say(&g, &m, g.sent[0].to);
    assert_int_equal(sky_ground_result(&g).status, SKY_E_CANCELLED);
    sky_ground_listen(&g, g.now + SKY_SECONDS(1));
    assert_int_equal(sky_session_wake(g.session), SKY_TIME_NEVER); /* nothing more to do */
    sky_ground_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_all_kinds_give_right_bytes_or_none),
        cmocka_unit_test(wrong_bytes_are_counted_and_end_corrupt),
        cmocka_unit_test(a_checksum_is_no_seal),
        cmocka_unit_test(silence_ends_in_an_error),
        cmocka_unit_test(who_ends_a_request_is_known),
        cmocka_unit_test(one_that_is_late_slows_nobody),
        cmocka_unit_test(who_is_busy_is_waited_for),
        cmocka_unit_test(a_turn_is_waited_for_only_when_it_is_due),
        cmocka_unit_test(what_is_asked_again_is_paced),
        cmocka_unit_test(a_miss_is_asked_again_at_the_other_place),
        cmocka_unit_test(a_miss_of_an_earlier_attempt_counts),
        cmocka_unit_test(only_who_was_asked_is_believed),
        cmocka_unit_test(requests_are_paced_and_bounded),
        cmocka_unit_test(a_host_that_left_ends_its_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
