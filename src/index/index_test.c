/* Proves: the block index answers as a naive map does under random operations from fixed seeds,
 * stays within 64 bytes a block, and finds victims among many pins without scanning them again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "index/index.h"

#include "base/prng.h"

#define IDS     300
#define NOTHING (-1)

/* The naive map: one entry a key id, uses as stamps, parents as ids. */
typedef struct {
    bool present;
    uint32_t block;
    int parent;
    uint64_t stamp;
    unsigned pins;
    int rank; /* 0 leaves first, 2 last */
    sky_block_info info;
} entry;

typedef struct {
    sky_index *index;
    sky_prng prng;
    sky_key keys[IDS];
    int natural_parent[IDS]; /* a forest of prompts */
    entry entries[IDS];
    uint64_t clock;
    uint32_t count;
    uint32_t capacity;
    bool classes; /* blocks have any */
    bool
        bounded; /* so that the last may have few bytes; which then become normal is not modelled */
    int removed[IDS]; /* what the index told while removing, in order */
    size_t removed_count;
} model;

static int below(model *m, int bound) {
    return (int)sky_prng_below(&m->prng, (uint64_t)bound);
}

static model *model_create(uint64_t seed, uint32_t capacity) {
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    sky_prng_init(&m->prng, seed);
    m->capacity = capacity;
    assert_int_equal(sky_index_create(capacity, &m->index), SKY_OK);
    for (int i = 0; i < IDS; i++) {
        for (int b = 0; b < SKY_KEY_BYTES; b++)
            m->keys[i].bytes[b] = (uint8_t)sky_prng_u64(&m->prng);
        /* Half the forest is chains, so that prompts are deep. */
        m->natural_parent[i] = i % 40 == 0 ? NOTHING : below(m, 2) ? i - 1 : i - 1 - below(m, i);
    }
    return m;
}

static void model_destroy(model *m) {
    sky_index_destroy(m->index);
    free(m);
}

static int id_of(const model *m, uint32_t block) {
    for (int i = 0; i < IDS; i++)
        if (m->entries[i].present && m->entries[i].block == block)
            return i;
    return NOTHING;
}

static void naive_use(model *m, int id) {
    for (; id != NOTHING; id = m->entries[id].parent)
        m->entries[id].stamp = ++m->clock;
}

/* What is above ranks no lower. */
static void naive_raise(model *m, int id) {
    for (int i = m->entries[id].parent; i != NOTHING; i = m->entries[i].parent)
        if (m->entries[i].rank < m->entries[id].rank)
            m->entries[i].rank = m->entries[id].rank;
}

static bool naive_leaf(const model *m, int id) {
    for (int i = 0; i < IDS; i++)
        if (m->entries[i].present && m->entries[i].parent == id)
            return false;
    return true;
}

/* Of one rank; NOTHING: of the lowest that has one. */
static int naive_victim(const model *m, int rank) {
    int victim = NOTHING;
    for (int i = 0; i < IDS; i++) {
        const entry *e = &m->entries[i];
        if (!e->present || e->pins > 0 || !naive_leaf(m, i) || (rank != NOTHING && e->rank != rank))
            continue;
        const entry *v = victim == NOTHING ? NULL : &m->entries[victim];
        if (!v || e->rank < v->rank || (e->rank == v->rank && e->stamp < v->stamp))
            victim = i;
    }
    return victim;
}

static bool naive_above(const model *m, int ancestor, int id) {
    while (id != NOTHING && id != ancestor)
        id = m->entries[id].parent;
    return id == ancestor;
}

static int any_parent(model *m, int id) {
    return below(m, 10) ? m->natural_parent[id] : below(m, IDS);
}

static int rank_of_class(uint8_t evict) {
    return evict == SKY_EVICT_SOON ? 0 : evict == SKY_EVICT_NORMAL ? 1 : 2;
}

static void do_insert(model *m, int id) {
    int parent = any_parent(m, id);
    entry *e = &m->entries[id];
    sky_block_info info = {.payload_bytes = (uint32_t)sky_prng_u64(&m->prng),
                           .chunk_count = (uint32_t)below(m, SKY_INDEX_CHUNKS_MAX + 1),
                           .set_ms = (int64_t)(sky_prng_u64(&m->prng) >> 16),
                           .centre_plane = (uint16_t)below(m, 65536),
                           .centre_slot = (uint16_t)below(m, 65536),
                           .coding = (uint8_t)below(m, 16),
                           .evict = m->classes ? (uint8_t)below(m, 3) : SKY_EVICT_NORMAL};
    uint32_t block = SKY_BLOCK_NONE;
    sky_status status = sky_index_insert(
        m->index, &m->keys[id], parent == NOTHING ? NULL : &m->keys[parent], &info, &block);
    if (!e->present && m->count == m->capacity) {
        assert_int_equal(status, SKY_E_FULL);
        assert_int_equal(block, SKY_BLOCK_NONE);
        return;
    }
    assert_int_equal(status, SKY_OK);
    bool parent_present = parent != NOTHING && m->entries[parent].present;
    if (!e->present) {
        assert_int_equal(id_of(m, block), NOTHING);
        *e = (entry){.present = true, .block = block, .parent = NOTHING};
        m->count++;
    }
    assert_int_equal(block, e->block);
    if (e->parent == NOTHING && parent_present && !naive_above(m, id, parent))
        e->parent = parent;
    e->info = info;
    int rank = rank_of_class(info.evict);
    if (rank > e->rank || naive_leaf(m, id))
        e->rank = rank;
    naive_raise(m, id);
    naive_use(m, id);
}

static void do_adopt(model *m, int id) {
    int parent = any_parent(m, id);
    if (parent == NOTHING)
        parent = below(m, IDS);
    entry *e = &m->entries[id];
    sky_status status = sky_index_adopt(m->index, &m->keys[id], &m->keys[parent]);
    if (!e->present || !m->entries[parent].present) {
        assert_int_equal(status, SKY_MISS);
    } else if (e->parent != NOTHING) {
        assert_int_equal(status, e->parent == parent ? SKY_OK : SKY_E_PARAM);
    } else if (naive_above(m, id, parent)) {
        assert_int_equal(status, SKY_E_PARAM);
    } else {
        assert_int_equal(status, SKY_OK);
        e->parent = parent;
        naive_raise(m, id);
        naive_use(m, parent);
    }
}

static void assert_info_equal(const sky_block_info *a, const sky_block_info *b) {
    assert_int_equal(a->payload_bytes, b->payload_bytes);
    assert_int_equal(a->chunk_count, b->chunk_count);
    assert_int_equal(a->set_ms, b->set_ms);
    assert_int_equal(a->centre_plane, b->centre_plane);
    assert_int_equal(a->centre_slot, b->centre_slot);
    assert_int_equal(a->coding, b->coding);
}

/* A prompt that ends at `id`, or (now and then) keys that are no chain at all. */
static size_t make_prompt(model *m, int id, int *ids) {
    size_t count = 0;
    if (below(m, 5) == 0) {
        for (count = 0; count < 5; count++)
            ids[count] = below(m, IDS);
        return count;
    }
    for (int i = id; i != NOTHING; i = m->natural_parent[i])
        ids[count++] = i;
    for (size_t a = 0, b = count - 1; a < b; a++, b--) {
        int swap = ids[a];
        ids[a] = ids[b];
        ids[b] = swap;
    }
    return count;
}

static void do_match(model *m, int id) {
    int ids[IDS];
    sky_key keys[IDS];
    uint32_t blocks[IDS];
    size_t count = make_prompt(m, id, ids), expected = 0;
    for (size_t i = 0; i < count; i++)
        keys[i] = m->keys[ids[i]];
    while (expected < count && m->entries[ids[expected]].present)
        expected++;
    bool told = below(m, 2);
    assert_int_equal(sky_index_match(m->index, keys, count, told ? blocks : NULL), expected);
    for (size_t i = 0; told && i < expected; i++)
        assert_int_equal(blocks[i], m->entries[ids[i]].block);
    for (size_t i = expected; i-- > 0;)
        naive_use(m, ids[i]);
}

static void note_removed(void *context, uint32_t block, const sky_block_info *info) {
    model *m = context;
    int id = id_of(m, block);
    assert_int_not_equal(id, NOTHING);
    assert_true(naive_leaf(m, id)); /* deepest first */
    assert_info_equal(info, &m->entries[id].info);
    m->entries[id].present = false;
    m->removed[m->removed_count++] = id;
    m->count--;
}

static void do_remove(model *m, int id) {
    entry *e = &m->entries[id];
    if (!e->present)
        return;
    bool doomed[IDS];
    size_t expected = 0;
    bool any_pinned = false;
    for (int i = 0; i < IDS; i++) {
        doomed[i] = m->entries[i].present && naive_above(m, id, i);
        expected += doomed[i];
        any_pinned |= doomed[i] && m->entries[i].pins > 0;
    }
    m->removed_count = 0;
    assert_int_equal(sky_index_remove(m->index, e->block, note_removed, m), expected);
    assert_int_equal(m->removed_count, expected);
    for (size_t i = 0; i < expected; i++)
        assert_true(doomed[m->removed[i]]);
    if (any_pinned)
        naive_use(m, e->parent);
}

static void do_pin(model *m, int id) {
    entry *e = &m->entries[id];
    if (!e->present)
        return;
    bool full = e->pins == 255;
    assert_int_equal(sky_index_pin(m->index, e->block), full ? SKY_E_FULL : SKY_OK);
    e->pins += !full;
}

static void do_unpin(model *m, int id) {
    entry *e = &m->entries[id];
    if (!e->present)
        return;
    assert_int_equal(sky_index_unpin(m->index, e->block), e->pins ? SKY_OK : SKY_E_PARAM);
    if (e->pins > 0 && --e->pins == 0)
        naive_use(m, id);
}

static void do_touch(model *m, int id) {
    if (!m->entries[id].present)
        return;
    sky_index_touch(m->index, m->entries[id].block);
    naive_use(m, id);
}

/* Every fourth id of all ranks, 0 among them. */
static void do_evict(model *m, int id) {
    int rank = id % 4 ? id % 4 - 1 : NOTHING, victim = naive_victim(m, rank);
    uint32_t block = rank == NOTHING ? sky_index_victim(m->index)
                                     : sky_index_victim_of(m->index, (uint32_t)rank);
    if (m->bounded) { /* which are of a rank is not modelled */
        assert_true(rank != NOTHING || (block == SKY_BLOCK_NONE) == (victim == NOTHING));
        victim = block == SKY_BLOCK_NONE ? NOTHING : id_of(m, block);
        assert_true(block == SKY_BLOCK_NONE ||
                    (m->entries[victim].pins == 0 && naive_leaf(m, victim)));
    }
    assert_int_equal(block, victim == NOTHING ? SKY_BLOCK_NONE : m->entries[victim].block);
    if (victim != NOTHING)
        do_remove(m, victim);
}

static void check_all(model *m) {
    assert_int_equal(sky_index_count(m->index), m->count);
    uint32_t seen = 0;
    for (uint32_t b = sky_index_next(m->index, 0); b != SKY_BLOCK_NONE;
         b = sky_index_next(m->index, b + 1), seen++)
        assert_int_not_equal(id_of(m, b), NOTHING);
    assert_int_equal(seen, m->count);
    for (int i = 0; i < IDS; i++) {
        const entry *e = &m->entries[i];
        assert_int_equal(sky_index_find(m->index, &m->keys[i]),
                         e->present ? e->block : SKY_BLOCK_NONE);
        if (!e->present)
            continue;
        sky_block_info info;
        sky_index_info(m->index, e->block, &info);
        assert_info_equal(&info, &e->info);
        if (!m->bounded)
            assert_int_equal(rank_of_class(info.evict), e->rank);
        assert_int_equal(sky_index_pinned(m->index, e->block), e->pins > 0);
        assert_int_equal(sky_index_parent(m->index, e->block),
                         e->parent == NOTHING ? SKY_BLOCK_NONE : m->entries[e->parent].block);
    }
}

/* Each phase weighs the operations differently: growth, churn, pinning, decay. */
static void run_phases(uint64_t seed, uint32_t capacity, int ops_per_phase, bool classes,
                       uint64_t last_max) {
    static void (*const ops[])(model *, int) = {do_insert, do_adopt, do_match, do_touch,
                                                do_pin,    do_unpin, do_evict, do_remove};
    static const int weights[][8] = {{60, 5, 10, 10, 2, 2, 1, 1},
                                     {30, 5, 20, 10, 5, 5, 25, 2},
                                     {20, 5, 5, 5, 40, 30, 25, 1},
                                     {10, 5, 10, 5, 5, 30, 10, 10}};
    model *m = model_create(seed, capacity);
    m->classes = classes;
    m->bounded = last_max != 0;
    if (m->bounded)
        sky_index_last_max(m->index, last_max, capacity / 3 + 1);
    for (size_t phase = 0; phase < sizeof weights / sizeof *weights; phase++) {
        int total = 0;
        for (int i = 0; i < 8; i++)
            total += weights[phase][i];
        for (int n = 0; n < ops_per_phase; n++) {
            int pick = below(m, total), op = 0;
            while (pick >= weights[phase][op])
                pick -= weights[phase][op++];
            ops[op](m, below(m, IDS));
        }
        check_all(m);
    }
    while (naive_victim(m, NOTHING) != NOTHING)
        do_evict(m, 0);
    do_evict(m, 0);
    check_all(m);
    model_destroy(m);
}

static void random_operations_equal_a_naive_map(void **state) {
    (void)state;
    run_phases(1, 97, 40000, false, 0); /* always short of room */
    run_phases(2, IDS, 20000, false, 0);
    run_phases(5, 60, 20000, false, 0);
    run_phases(3, 5, 5000, false, 0);
    run_phases(4, 1, 5000, false, 0);
}

static void classes_equal_a_naive_map(void **state) {
    (void)state;
    run_phases(11, 97, 40000, true, 0);
    run_phases(12, IDS, 20000, true, 0);
    run_phases(13, 5, 5000, true, 0);
}

/* No block is lost, whichever become normal. */
static void bounded_classes_lose_no_block(void **state) {
    (void)state;
    run_phases(14, 97, 40000, true, UINT64_C(20) << 32);
    run_phases(15, IDS, 20000, true, UINT64_C(40) << 32);
    run_phases(16, IDS, 20000, true, 1);
}

static sky_key numbered_key(uint64_t number);

/* Of a chain the three blocks nearest to the root stay among the last. */
static void keep_three_last(sky_index *index) {
    sky_key keys[10];
    uint32_t blocks[10];
    sky_block_info info = {.payload_bytes = 100, .evict = SKY_EVICT_LAST};
    for (uint64_t i = 0; i < 5; i++) {
        keys[i] = numbered_key(i);
        const sky_key *parent = i ? &keys[i - 1] : NULL;
        for (int twice = 0; twice < 2; twice++) /* what is put again counts once */
            assert_int_equal(sky_index_insert(index, &keys[i], parent, &info, &blocks[i]), SKY_OK);
    }
    for (uint64_t i = 5; i < 8; i++) {
        keys[i] = numbered_key(i);
        info.evict = i == 7 ? SKY_EVICT_SOON : SKY_EVICT_NORMAL;
        assert_int_equal(sky_index_insert(index, &keys[i], NULL, &info, &blocks[i]), SKY_OK);
    }
    static const uint32_t leave[] = {7, 4, 3, 5, 6, 2, 1, 0}; /* 4 and 3 are normal, and older */
    for (size_t i = 0; i < sizeof leave / sizeof *leave; i++) {
        uint32_t after = sky_index_victim_after(index, sky_index_victim(index));
        assert_int_equal(sky_index_victim(index), blocks[leave[i]]);
        if (i + 1 < sizeof leave / sizeof *leave)
            assert_int_equal(after, blocks[leave[i + 1]]);
        assert_int_equal(sky_index_remove(index, blocks[leave[i]], NULL, NULL), 1);
    }
}

static void the_last_keep_to_their_bound(void **state) {
    (void)state;
    sky_index *index;
    assert_int_equal(sky_index_create(20, &index), SKY_OK);
    for (int round = 0; round < 2; round++) { /* nothing is counted any more after a round */
        sky_index_last_max(index, 350, UINT32_MAX);
        keep_three_last(index);
        sky_index_last_max(index, UINT64_MAX, 3);
        keep_three_last(index);
    }
    sky_index_destroy(index);
}

static sky_key numbered_key(uint64_t number) {
    sky_key key;
    sky_prng prng;
    sky_prng_init(&prng, number);
    for (int i = 0; i < 4; i++) {
        uint64_t word = sky_prng_u64(&prng);
        memcpy(key.bytes + 8 * i, &word, 8);
    }
    return key;
}

static void memory_stays_within_64_bytes_a_block(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2000, 100000, 10000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sky_index *index;
        assert_int_equal(sky_index_create(sizes[i], &index), SKY_OK);
        assert_true(sky_index_bytes(index) <= (size_t)sizes[i] * 64);
        assert_int_equal(sky_index_capacity(index), sizes[i]);
        sky_index_destroy(index);
    }
}

static void bounds_are_refused(void **state) {
    (void)state;
    sky_index *index = NULL;
    assert_int_equal(sky_index_create(0, &index), SKY_E_PARAM);
    assert_int_equal(sky_index_create(SKY_INDEX_BLOCKS_MAX + 1, &index), SKY_E_PARAM);
    assert_null(index);
    assert_int_equal(sky_index_create(4, &index), SKY_OK);
    sky_key key = numbered_key(1);
    const sky_block_info bad[] = {{.chunk_count = SKY_INDEX_CHUNKS_MAX + 1},
                                  {.coding = 16},
                                  {.set_ms = -1},
                                  {.set_ms = (int64_t)1 << 48},
                                  {.evict = SKY_EVICT_LAST + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sky_index_insert(index, &key, NULL, &bad[i], NULL), SKY_E_PARAM);
    assert_int_equal(sky_index_count(index), 0);
    assert_int_equal(sky_index_match(index, &key, 0, NULL), 0);
    const sky_block_info most = {.payload_bytes = UINT32_MAX,
                                 .chunk_count = SKY_INDEX_CHUNKS_MAX,
                                 .set_ms = ((int64_t)1 << 48) - 1,
                                 .centre_plane = UINT16_MAX,
                                 .centre_slot = UINT16_MAX,
                                 .coding = 15};
    sky_block_info found;
    uint32_t block;
    assert_int_equal(sky_index_insert(index, &key, NULL, &most, &block), SKY_OK);
    sky_index_info(index, block, &found);
    assert_info_equal(&found, &most);
    sky_index_destroy(index);
    sky_index_destroy(NULL);
}

/* A chain of 300,000 goes in, is matched and goes out: linear and without recursion, or this
 * test would not end in time. */
static void a_deep_chain_is_linear(void **state) {
    (void)state;
    enum { DEPTH = 300000 };
    sky_index *index;
    sky_key *keys = malloc(DEPTH * sizeof *keys);
    assert_non_null(keys);
    assert_int_equal(sky_index_create(DEPTH, &index), SKY_OK);
    for (uint32_t i = 0; i < DEPTH; i++) {
        uint32_t block;
        keys[i] = numbered_key(i);
        assert_int_equal(sky_index_insert(index, &keys[i], i ? &keys[i - 1] : NULL,
                                          &(sky_block_info){.payload_bytes = i}, &block),
                         SKY_OK);
        assert_int_equal(block, i);
    }
    assert_int_equal(sky_index_match(index, keys, DEPTH, NULL), DEPTH);
    assert_int_equal(sky_index_victim(index), DEPTH - 1);
    for (uint32_t i = 0; i < DEPTH; i++)
        sky_index_touch(index, i);
    assert_int_equal(sky_index_victim(index), DEPTH - 1);
    assert_int_equal(sky_index_remove(index, 0, NULL, NULL), DEPTH);
    assert_int_equal(sky_index_count(index), 0);
    free(keys);
    sky_index_destroy(index);
}

/* With nine in ten blocks pinned and all of them old, ten thousand evictions in a row would pass
 * them 10^9 times if each search did. */
static void pins_do_not_slow_the_victim(void **state) {
    (void)state;
    enum { BLOCKS = 100000, PINNED = 90000 };
    sky_index *index;
    assert_int_equal(sky_index_create(BLOCKS, &index), SKY_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        sky_key key = numbered_key(i);
        uint32_t block;
        assert_int_equal(sky_index_insert(index, &key, NULL, &(sky_block_info){0}, &block), SKY_OK);
        if (i < PINNED)
            assert_int_equal(sky_index_pin(index, block), SKY_OK);
    }
    for (uint32_t i = PINNED; i < BLOCKS; i++) {
        assert_int_equal(sky_index_victim(index), i);
        assert_int_equal(sky_index_remove(index, i, NULL, NULL), 1);
    }
    assert_int_equal(sky_index_victim(index), SKY_BLOCK_NONE);
    assert_int_equal(sky_index_unpin(index, 7), SKY_OK);
    assert_int_equal(sky_index_victim(index), 7);
    sky_index_destroy(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_equal_a_naive_map),
        cmocka_unit_test(memory_stays_within_64_bytes_a_block),
        cmocka_unit_test(bounds_are_refused),
        cmocka_unit_test(a_deep_chain_is_linear),
        cmocka_unit_test(classes_equal_a_naive_map),
        cmocka_unit_test(bounded_classes_lose_no_block),
        cmocka_unit_test(the_last_keep_to_their_bound),
        cmocka_unit_test(pins_do_not_slow_the_victim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
