/* Proves that a block which lost a chunk leaves the sky: by gossip within its hops, by sweeps in
 * some rounds, by the client, by telling the ground; that nothing whole is ever dropped; that a
 * flood of gossip leaves in few messages; and that gossip without end is counted and not obeyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "ground/orrery_fixture.h"
#include "satellite/bench_fixture.h"
#include "satellite/node_state.h"

#define BLOCK_BYTES (20 * SKY_ORRERY_CHUNK)
#define BLOCKS      4 /* fill the first two servers */
#define SLOTS       12

static void begin(sky_orrery *o, sky_strategy strategy, uint32_t eviction) {
    sky_orrery_open(o, strategy);
    o->session_config.eviction = eviction;
    o->session_config.gossip_hops = eviction & SKY_EVICT_GOSSIP ? 4 : 0;
    o->node_config.gossip_hops = o->session_config.gossip_hops;
    o->node_config.tell_ground = eviction & SKY_EVICT_BROADCAST;
    if (eviction & SKY_EVICT_SWEEP) {
        o->node_config.sweep_period_ns = SKY_ORRERY_TURN_NS / 2;
        o->node_config.sweep_grace_ns = o->node_config.sweep_ripe_ns = SKY_SECONDS(1);
    }
    sky_orrery_begin(o, SLOTS);
}

/* Another ground, which knows nothing of the first one's blocks, puts one too many: satellites must
 * choose by themselves what to give up. Returns chunks of blocks that are no longer whole. */
static void overfill(sky_orrery *o) {
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(sky_orrery_do(o, 0, SKY_OP_PUT, i, BLOCK_BYTES).status, SKY_OK);
    sky_orrery_run(o, o->now + SKY_SECONDS(3));
    memset(o->sent, 0, sizeof o->sent);
    memset(o->sent_bytes, 0, sizeof o->sent_bytes);
    assert_int_equal(sky_orrery_do(o, 1, SKY_OP_PUT, 90, BLOCK_BYTES).status, SKY_OK);
    uint64_t evicted = 0;
    for (uint32_t i = 0; i < o->frame.satellite_count; i++)
        evicted += o->nodes[i].stat.evictions;
    assert_true(evicted > 0);
    sky_session_stat stat;
    sky_session_stats(o->grounds[1], &stat);
    assert_in_range(stat.evicted_others, 1, evicted);
    assert_int_equal(stat.evicted, 0);
}

static uint32_t dead_chunks(const sky_orrery *o) {
    uint32_t dead = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t chunks = sky_orrery_chunks_of(o, i);
        dead += chunks < 20 ? chunks : 0;
    }
    return dead;
}

static uint32_t whole_blocks(const sky_orrery *o) {
    uint32_t whole = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        whole += sky_orrery_chunks_of(o, i) == 20;
    return whole;
}

static const sky_strategy strategies[] = {SKY_PLACE_ROTATION, SKY_PLACE_HOP,
                                          SKY_PLACE_ROTATION_HOP};

static void gossip_clears_what_is_left(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sky_orrery o;
        begin(&o, strategies[i], SKY_EVICT_GOSSIP);
        overfill(&o);
        uint32_t whole = whole_blocks(&o);
        sky_orrery_run(&o, o.now + SKY_MS(200));
        assert_int_equal(dead_chunks(&o), 0);
        assert_int_equal(whole_blocks(&o), whole);
        assert_int_equal(sky_orrery_chunks_of(&o, 90), 20);
        assert_int_equal(o.sent[SKY_WIRE_DROP], 0); /* nothing on the ground's link */
        assert_true(o.sent[SKY_WIRE_PURGE] > 0 && o.sent[SKY_WIRE_PURGE] < 3 * 95 * BLOCKS);
        sky_orrery_close(&o);
    }
}

static void sweeps_clear_what_is_left(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sky_orrery o;
        begin(&o, strategies[i], SKY_EVICT_SWEEP);
        overfill(&o);
        uint32_t whole = whole_blocks(&o);
        assert_true(dead_chunks(&o) > 0);
        sky_orrery_run(&o, o.now + 12 * SKY_ORRERY_TURN_NS);
        assert_int_equal(dead_chunks(&o), 0);
        assert_int_equal(whole_blocks(&o), whole);
        assert_int_equal(sky_orrery_chunks_of(&o, 90), 20); /* for all the turns between */
        assert_int_equal(o.sent[SKY_WIRE_PURGE] + o.sent[SKY_WIRE_DROP], 0);
        sky_orrery_close(&o);
    }
}

/* While a satellite is out of reach, the places of what it holds change twice. So its chunks are
 * neither where they belong nor where they belonged before that. */
static void sweeps_ask_where_a_chunk_stayed_behind(void **state) {
    (void)state;
    for (uint32_t holder = 0; holder < 9; holder++) {
        sky_orrery o;
        sky_satellite away;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_SWEEP);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
        assert_int_equal(sky_orrery_holder(&o, holder, &away), 9);
        o.ear_context = &away;
        o.ear = sky_orrery_cut_off;
        sky_orrery_run(&o, SKY_LAST_STEPS * SKY_ORRERY_TURN_NS);
        o.ear = NULL;
        sky_orrery_run(&o, 2 * SKY_LAST_STEPS * SKY_ORRERY_TURN_NS);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_OK);
        assert_int_equal(sky_orrery_chunks_of(&o, 1), 20);
        sky_orrery_close(&o);
    }
}

static void the_client_clears_what_it_misses(void **state) {
    (void)state;
    for (int policy = 0; policy < 2; policy++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, policy ? SKY_EVICT_GOSSIP : SKY_EVICT_LAZY);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
        sky_orrery_crash(&o, (sky_satellite){3, 5});
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_MISS);
        sky_orrery_run(&o, o.now + SKY_MS(300));
        assert_int_equal(sky_orrery_chunks(&o), 0);
        assert_int_equal(o.sent[SKY_WIRE_DROP], policy ? 0 : 9);
        sky_orrery_close(&o);
    }
}

static void the_ground_is_told(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_BROADCAST | SKY_EVICT_LAZY);
    overfill(&o);
    sky_orrery_run(&o, o.now + SKY_MS(200));
    assert_true(o.sent[SKY_WIRE_GONE] > 0);
    assert_int_equal(sky_index_count(sky_session_index(o.grounds[0])), whole_blocks(&o));
    assert_int_equal(dead_chunks(&o), 0);
    sky_session_stat s;
    sky_session_stats(o.grounds[0], &s);
    assert_true(s.given_up > 0);
    assert_int_equal(s.suspects, 0);
    /* who cannot hold the chunk is not believed */
    uint32_t blocks = sky_index_count(sky_session_index(o.grounds[0]));
    assert_true(blocks > 0);
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_session_chunk(o.grounds[0], sky_index_next(sky_session_index(o.grounds[0]), 0), 1, &id,
                      &facts, &bytes);
    uint8_t buffer[256];
    sky_message m = {.type = SKY_WIRE_GONE, .id = id};
    sky_datagram d = {.from = {1, 12}, .data = buffer};
    d.bytes = sky_message_encode(&m, buffer, sizeof buffer);
    sky_session_input(o.grounds[0], o.now, &d);
    assert_int_equal(sky_index_count(sky_session_index(o.grounds[0])), blocks);
    uint32_t silent;
    assert_int_equal(sky_session_suspicion(o.grounds[0], (sky_satellite){1, 12}, &silent), 1);
    /* nor who is no satellite, nor of a head, which is not of the block */
    d.from = SKY_GROUND;
    sky_session_input(o.grounds[0], o.now, &d);
    assert_int_equal(sky_index_count(sky_session_index(o.grounds[0])), blocks);
    m.id.number = 0;
    d.from = sky_session_place(o.grounds[0], &facts, sky_turns(&o.frame.turning, o.now));
    d.bytes = sky_message_encode(&m, buffer, sizeof buffer);
    sky_session_input(o.grounds[0], o.now, &d);
    assert_int_equal(sky_index_count(sky_session_index(o.grounds[0])), blocks);
    sky_orrery_close(&o);
}

/* The ground hears of each lost block once, also of those behind others that it knows. */
static void the_ground_hears_of_each_once(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_BROADCAST | SKY_EVICT_GOSSIP);
    sky_node *node = sky_orrery_node(&o, (sky_satellite){3, 4});
    uint8_t data[SKY_WIRE_BYTES_MAX];
    sky_datagram out = {.data = data, .bytes_max = sizeof data};
    for (uint32_t round = 0; round < 3; round++) {
        sky_chunk_facts facts = {.chunk_count = 20};
        for (uint32_t i = 0; i < 2; i++) {
            sky_chunk_id id = {sky_orrery_key(100 + 2 * round + i), 1, 1};
            sky__gossip_begin(node, &id, &facts);
        }
        uint32_t gone[6] = {0}, told = 0;
        for (sky_time end = o.now + SKY_MS(50); o.now < end; o.now += SKY_MS(1)) {
            while (sky_node_output(node, o.now, &out)) {
                sky_message m;
                assert_int_equal(sky_message_decode(out.data, out.bytes, &m), SKY_OK);
                for (uint32_t i = 0; m.type == SKY_WIRE_GONE && i < 6; i++) {
                    sky_key key = sky_orrery_key(100 + i);
                    if (!sky_key_equal(&m.id.key, &key))
                        continue;
                    gone[i]++;
                    assert_int_equal(i, 2 * round + told++); /* in the order it happened */
                }
            }
        }
        for (uint32_t i = 0; i < 6; i++)
            assert_int_equal(gone[i], i / 2 == round);
        assert_int_equal(sky_node_wake(node), SKY_TIME_NEVER);
    }
    assert_int_equal(node->gossip_count, 6);
    sky_orrery_close(&o);
}

/* Nothing of it is left that another could drop. */
static void a_block_of_one_chunk_is_no_news_to_others(void **state) {
    (void)state;
    for (uint32_t chunks = 1; chunks <= 2; chunks++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_BROADCAST | SKY_EVICT_GOSSIP);
        sky_node *node = sky_orrery_node(&o, (sky_satellite){3, 4});
        uint8_t data[SKY_WIRE_BYTES_MAX];
        sky_datagram out = {.data = data, .bytes_max = sizeof data};
        sky_chunk_facts facts = {.chunk_count = chunks};
        sky_chunk_id id = {sky_orrery_key(1), 1, 1};
        sky__gossip_begin(node, &id, &facts);
        sky__gossip_begin(node, &id, &facts); /* known by now */
        assert_int_equal(node->gossip_count, 1);
        uint32_t said[SKY_WIRE_TYPE_END] = {0};
        while (sky_node_output(node, o.now, &out)) {
            sky_message m;
            assert_int_equal(sky_message_decode(out.data, out.bytes, &m), SKY_OK);
            said[m.type]++;
        }
        assert_int_equal(said[SKY_WIRE_GONE], 1);
        assert_int_equal(said[SKY_WIRE_PURGE], chunks > 1 ? 4 : 0);
        sky_orrery_close(&o);
    }
}

/* A head that goes, and a copy too many, take no block along: there is nothing to say. */
static void heads_and_spare_chunks_are_no_news(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_BROADCAST | SKY_EVICT_GOSSIP);
    sky_node *node = sky_orrery_node(&o, (sky_satellite){3, 4});
    const sky_chunk_facts spare = {.chunk_count = 9, .spare = true}, held = {.chunk_count = 9};
    const sky_chunk_id head = {sky_orrery_key(1), 1, 0}, chunk = {sky_orrery_key(1), 1, 1};
    sky__gossip_begin(node, &head, &held);
    sky__gossip_begin(node, &chunk, &spare);
    assert_int_equal(node->gossip_count, 0);
    sky__gossip_begin(node, &chunk, &held);
    assert_int_equal(node->gossip_count, 1);
    sky_orrery_close(&o);
}

/* In a plane of two satellites the ways up and down lead to the same one. */
static void a_neighbour_on_two_ways_hears_it_once(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 8);
    b.config.constellation.slots = 2;
    b.config.gossip_hops = 3;
    sky_node_init(&b.node, &b.config, (sky_satellite){3, 2}, 0, b.memory, b.bytes);
    const sky_chunk_facts held = {.chunk_count = 9};
    const sky_chunk_id chunk = {sky_orrery_key(1), 1, 1};
    sky__gossip_begin(&b.node, &chunk, &held);
    uint32_t purges = 0, in_plane = 0;
    sky_datagram out = {.data = b.buffer, .bytes_max = sizeof b.buffer};
    while (sky_node_output(&b.node, SKY_SECONDS(1), &out)) {
        sky_message m;
        assert_int_equal(sky_message_decode(out.data, out.bytes, &m), SKY_OK);
        purges += m.type == SKY_WIRE_PURGE;
        in_plane += m.type == SKY_WIRE_PURGE && sky_satellite_equal(out.to, (sky_satellite){3, 1});
    }
    assert_int_equal(purges, 3);
    assert_int_equal(in_plane, 1);
    bench_close(&b);
}

/* Who loses one chunk of a block drops and counts the others it has; alone, without gossip, it
 * keeps them. */
static void who_loses_a_chunk_drops_the_rest_it_has(void **state) {
    (void)state;
    for (int gossip = 0; gossip < 2; gossip++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, gossip ? SKY_EVICT_GOSSIP : SKY_EVICT_LAZY);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
        sky_chunk_id id;
        sky_chunk_facts facts;
        uint32_t bytes;
        sky_session_chunk(o.grounds[0], 0, 1, &id, &facts, &bytes);
        sky_satellite holder = sky_session_place(o.grounds[0], &facts, 0);
        sky_node *node = sky_orrery_node(&o, holder);
        assert_int_equal(sky_node_chunks(node), 3); /* 1, 10 and 19 of 20 */
        sky__gossip_begin(node, &id, &facts);
        assert_int_equal(sky_node_chunks(node), gossip ? 0 : 3);
        assert_int_equal(node->stat.purged, gossip ? 3 : 0);
        sky_orrery_close(&o);
    }
}

/* ---- hostile ---- */

static void whisper(sky_orrery *o, uint32_t block, sky_satellite from, uint32_t count) {
    uint8_t buffer[256];
    sky_message m = {.type = SKY_WIRE_PURGE, .facts.chunk_count = count, .hops = 8000};
    m.id = (sky_chunk_id){sky_orrery_key(block), 1, 1};
    sky_datagram d = {.from = from, .to = {3, 4}, .data = buffer};
    d.bytes = sky_message_encode(&m, buffer, sizeof buffer);
    assert_true(d.bytes > 0);
    sky_node_input(sky_orrery_node(o, d.to), o->now, &d);
}

static void gossip_without_end_are_bounded(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_GOSSIP);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
    whisper(&o, 1, (sky_satellite){3, 7}, 20); /* no neighbour */
    sky_node *node = sky_orrery_node(&o, (sky_satellite){3, 4});
    assert_int_equal(node->stat.malformed, 1);
    for (uint32_t i = 0; i < 10000; i++)
        whisper(&o, 1000 + i, (sky_satellite){3, 5}, 16777215);
    assert_true(node->stat.gossip_refused >= 10000 - SKY_NODE_GOSSIP_MAX - 1);
    sky_orrery_run(&o, SKY_SECONDS(1));
    /* each taken once by each satellite within four hops, and passed on to three at most */
    assert_true(o.sent[SKY_WIRE_PURGE] <= 3 * 41 * (SKY_NODE_GOSSIP_MAX + 1));
    assert_int_equal(sky_orrery_chunks_of(&o, 1), 20);
    assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0).status, SKY_OK);
    sky_orrery_close(&o);
}

/* One PURGE of `count` blocks, from `first` on, by a neighbour of 3,4. */
static void whisper_by(sky_orrery *o, sky_satellite teller, uint32_t first, uint32_t count,
                       uint32_t hops) {
    uint8_t buffer[1280], more[SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES];
    sky_message m = {.type = SKY_WIRE_PURGE, .facts.chunk_count = 20, .hops = hops, .data = more};
    m.id = (sky_chunk_id){sky_orrery_key(first), 1, 1};
    for (uint32_t i = 1; i < count; i++, m.data_bytes += SKY_LOST_BLOCK_BYTES) {
        sky_lost_block b = {sky_orrery_key(first + i), 1, 20, hops};
        sky_lost_block_encode(&b, more + m.data_bytes);
    }
    sky_datagram d = {.from = teller, .to = {3, 4}, .data = buffer};
    d.bytes = sky_message_encode(&m, buffer, sizeof buffer);
    assert_true(d.bytes > 0);
    sky_node_input(sky_orrery_node(o, d.to), o->now, &d);
}

static void whisper_many(sky_orrery *o, uint32_t first, uint32_t count, uint32_t hops) {
    whisper_by(o, (sky_satellite){3, 5}, first, count, hops);
}

/* Rumours of 110 blocks, ten of them again and again: told in full, in a PURGE to each neighbour
 * but the teller at once and then one in 10 ms, and none for what is known. */
static void a_flood_of_gossip_leaves_in_few_messages(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_GOSSIP);
    sky_orrery_run(&o, SKY_SECONDS(1));
    sky_node *node = sky_orrery_node(&o, (sky_satellite){3, 4});
    uint8_t data[SKY_WIRE_BYTES_MAX];
    sky_datagram out = {.data = data, .bytes_max = sizeof data};
    for (uint32_t i = 0; i < 10; i++)
        whisper_many(&o, 1000, 10, 4);
    assert_int_equal(sky_node_wake(node), 0); /* the first leave at once */
    uint32_t told = 0, messages = 0;
    for (uint32_t i = 0; i < 5; i++)
        whisper_many(&o, 1010 + 20 * i, 20, 4);
    for (sky_time end = o.now + SKY_MS(100); o.now < end; o.now += SKY_MS(1)) {
        uint32_t now_told = 0;
        for (; sky_node_output(node, o.now, &out); now_told++) {
            sky_message m;
            assert_int_equal(sky_message_decode(out.data, out.bytes, &m), SKY_OK);
            assert_int_equal(m.type, SKY_WIRE_PURGE);
            assert_int_equal(m.hops, 3);
            told += 1 + m.data_bytes / SKY_LOST_BLOCK_BYTES;
        }
        assert_true(now_told == 0 || now_told == 3);
        messages += now_told;
    }
    assert_int_equal(told, 3 * 110);
    assert_int_equal(messages, 3 * 5); /* 23 blocks each */
    assert_int_equal(sky_node_wake(node), SKY_TIME_NEVER);
    sky_orrery_close(&o);
}

/* Told of many blocks at once, a satellite passes each on as far as its own hops say, and no
 * farther than it passes on anything. One that gossips no farther than its neighbours tells them;
 * one that does not gossip believes nobody. */
static void each_message_of_many_goes_its_own_way(void **state) {
    (void)state;
    static const uint32_t most_hops[] = {0, 1, 4};
    for (size_t i = 0; i < 3; i++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_GOSSIP);
        o.node_config.gossip_hops = most_hops[i];
        sky_orrery_run(&o, SKY_SECONDS(1));
        sky_node *node = sky_orrery_node(&o, (sky_satellite){3, 4});
        whisper_many(&o, 1000, 3, 9);
        whisper_many(&o, 2000, 3, 2);
        assert_int_equal(node->gossip_count, most_hops[i] ? 6 : 0);
        uint8_t data[SKY_WIRE_BYTES_MAX];
        sky_datagram out = {.data = data, .bytes_max = sizeof data};
        uint32_t told = 0;
        for (; sky_node_output(node, o.now, &out); told++) {
            sky_message m;
            assert_int_equal(sky_message_decode(out.data, out.bytes, &m), SKY_OK);
            uint32_t hops[6] = {m.hops};
            assert_int_equal(m.data_bytes, 5 * SKY_LOST_BLOCK_BYTES);
            for (uint32_t at = 0; at < 5; at++) {
                sky_lost_block b;
                sky_lost_block_decode(m.data + at * SKY_LOST_BLOCK_BYTES, &b);
                hops[at + 1] = b.hops;
            }
            for (uint32_t at = 0; at < 6; at++) {
                uint32_t said = at < 3 ? 9 : 2;
                assert_int_equal(hops[at], (said < most_hops[i] ? said : most_hops[i]) - 1);
            }
        }
        assert_int_equal(told, most_hops[i] ? 3 : 0);
        sky_orrery_close(&o);
    }
}

/* The first to tell may be on a detour, with fewer hops left than the gossip message is to go. */
static void a_gossip_message_goes_as_far_as_its_shortest_way_lets_it(void **state) {
    (void)state;
    sky_orrery o;
    begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_GOSSIP);
    sky_orrery_run(&o, SKY_SECONDS(1));
    whisper_many(&o, 1000, 1, 0);
    sky_orrery_run(&o, o.now + SKY_MS(100));
    assert_int_equal(o.sent[SKY_WIRE_PURGE], 0);
    whisper_many(&o, 1000, 1, 1);
    sky_orrery_run(&o, o.now + SKY_MS(100));
    assert_int_equal(o.sent[SKY_WIRE_PURGE], 3);
    whisper_many(&o, 1000, 1, 1);
    sky_orrery_run(&o, o.now + SKY_MS(100));
    assert_int_equal(o.sent[SKY_WIRE_PURGE], 3);
    whisper_many(&o, 2000, 1, 1); /* who tells it too meanwhile needs not be told */
    whisper_by(&o, (sky_satellite){3, 3}, 2000, 1, 1);
    sky_orrery_run(&o, o.now + SKY_MS(100));
    assert_int_equal(o.sent[SKY_WIRE_PURGE], 5);
    sky_orrery_close(&o);
}

/* A gossip message that is false costs a miss. Pinned chunks stay. */
static void pinned_blocks_outlive_gossip(void **state) {
    (void)state;
    for (int pinned = 0; pinned < 2; pinned++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, SKY_EVICT_GOSSIP);
        assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PUT, 1, BLOCK_BYTES).status, SKY_OK);
        if (pinned)
            assert_int_equal(sky_orrery_do(&o, 0, SKY_OP_PIN, 1, 0).status, SKY_OK);
        sky_orrery_run(&o, SKY_SECONDS(1));
        sky_chunk_id id;
        sky_chunk_facts facts;
        uint32_t bytes;
        sky_session_chunk(o.grounds[0], 0, 1, &id, &facts, &bytes);
        uint8_t buffer[256];
        sky_message m = {.type = SKY_WIRE_PURGE, .id = id, .facts.chunk_count = 20, .hops = 4};
        sky_datagram d = {.from = {3, 5}, .to = {3, 4}, .data = buffer};
        d.bytes = sky_message_encode(&m, buffer, sizeof buffer);
        sky_node_input(sky_orrery_node(&o, d.to), o.now, &d);
        sky_orrery_run(&o, SKY_SECONDS(2));
        assert_int_equal(sky_orrery_chunks_of(&o, 1), pinned ? 20 : 0);
        sky_result r = sky_orrery_do(&o, 0, SKY_OP_GET, 1, 0);
        assert_int_equal(r.status, pinned ? SKY_OK : SKY_MISS);
        assert_int_equal(o.wrong, 0);
        sky_orrery_close(&o);
    }
}

/* `gossip_test table` compares the ways; docs/decisions/0017-protocol.md has what it prints. */
static int print_table(void) {
    static const struct {
        const char *name;
        uint32_t eviction;
    } ways[] = {{"gossip", SKY_EVICT_GOSSIP},
                {"lazy", SKY_EVICT_LAZY},
                {"broadcast, lazy", SKY_EVICT_BROADCAST | SKY_EVICT_LAZY},
                {"sweep", SKY_EVICT_SWEEP}};
    puts("| eviction | cleared after the put, ms | messages | bytes | of them on the ground's link "
         "|");
    puts("|---|---|---|---|---|");
    for (size_t i = 0; i < 4; i++) {
        sky_orrery o;
        begin(&o, SKY_PLACE_ROTATION_HOP, ways[i].eviction);
        overfill(&o);
        sky_time began = o.now;
        if (ways[i].eviction == SKY_EVICT_LAZY) { /* nothing happens until somebody asks */
            for (uint32_t b = 0; b < BLOCKS; b++)
                sky_orrery_do(&o, 0, SKY_OP_GET, b, 0);
        }
        while (dead_chunks(&o) > 0 && o.now < began + SKY_SECONDS(300))
            sky_orrery_run(&o, o.now + SKY_MS(1));
        static const sky_wire_type types[] = {SKY_WIRE_PURGE, SKY_WIRE_GONE, SKY_WIRE_DROP,
                                              SKY_WIRE_HAS, SKY_WIRE_HAS_REPLY};
        uint64_t messages = 0, bytes = 0;
        for (size_t t = 0; t < 5; t++) {
            messages += o.sent[types[t]];
            bytes += o.sent_bytes[types[t]];
        }
        printf("| %s | %.0f | %llu | %llu | %llu |\n", ways[i].name, (double)(o.now - began) / 1e6,
               (unsigned long long)messages, (unsigned long long)bytes,
               (unsigned long long)(o.sent[SKY_WIRE_GONE] + o.sent[SKY_WIRE_DROP]));
        sky_orrery_close(&o);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossip_clears_what_is_left),
        cmocka_unit_test(sweeps_clear_what_is_left),
        cmocka_unit_test(sweeps_ask_where_a_chunk_stayed_behind),
        cmocka_unit_test(the_client_clears_what_it_misses),
        cmocka_unit_test(the_ground_is_told),
        cmocka_unit_test(the_ground_hears_of_each_once),
        cmocka_unit_test(who_loses_a_chunk_drops_the_rest_it_has),
        cmocka_unit_test(a_block_of_one_chunk_is_no_news_to_others),
        cmocka_unit_test(heads_and_spare_chunks_are_no_news),
        cmocka_unit_test(a_neighbour_on_two_ways_hears_it_once),
        cmocka_unit_test(gossip_without_end_are_bounded),
        cmocka_unit_test(a_flood_of_gossip_leaves_in_few_messages),
        cmocka_unit_test(each_message_of_many_goes_its_own_way),
        cmocka_unit_test(a_gossip_message_goes_as_far_as_its_shortest_way_lets_it),
        cmocka_unit_test(pinned_blocks_outlive_gossip),
    };
    if (argc == 2 && strcmp(argv[1], "table") == 0)
        return print_table();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
