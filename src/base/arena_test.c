/* Proves that extents never overlap, that a request fails only when no hole is large enough, that
 * the best hole is taken, and that all holes merge again: against a plain map of the region. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"

#define UNITS    4000u
#define HELD_MAX 300u

typedef struct {
    sky_arena *arena;
    bool used[UNITS];
    uint32_t held[HELD_MAX];
    uint32_t held_count;
    uint32_t used_units;
} model;

/* The smallest hole of at least `units`, the lowest of equals; false when there is none. */
static bool hole(const model *m, uint32_t units, uint32_t *start) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0, n; i < UNITS; i += n) {
        for (n = 1; i + n < UNITS && m->used[i + n] == m->used[i];)
            n++;
        if (!m->used[i] && n >= units && n < best) {
            best = n;
            *start = i;
        }
    }
    return best != UINT32_MAX;
}

static void take(model *m, uint32_t units) {
    uint32_t start, n = sky_arena_take(m->arena, units);
    if (!hole(m, units, &start)) {
        assert_int_equal(n, SKY_EXTENT_NONE);
        return;
    }
    assert_int_not_equal(n, SKY_EXTENT_NONE);
    assert_int_equal(sky_arena_start(m->arena, n), start);
    assert_int_equal(sky_arena_units(m->arena, n), units);
    for (uint32_t i = 0; i < m->held_count; i++)
        assert_int_not_equal(m->held[i], n);
    memset(m->used + start, true, units);
    m->held[m->held_count++] = n;
    m->used_units += units;
}

static void give(model *m, uint32_t which) {
    uint32_t n = m->held[which], units = sky_arena_units(m->arena, n);
    memset(m->used + sky_arena_start(m->arena, n), false, units);
    m->held[which] = m->held[--m->held_count];
    m->used_units -= units;
    sky_arena_give(m->arena, n);
}

static uint32_t random_units(sky_prng *random) {
    return 1 + (uint32_t)sky_prng_below(random, sky_prng_below(random, 8) ? 20 : 900);
}

static void agrees_with_a_plain_map(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static model m;
        m = (model){0};
        sky_prng random;
        sky_prng_init(&random, seed);
        assert_int_equal(sky_arena_create(UNITS, 2 * HELD_MAX + 1, &m.arena), SKY_OK);
        for (int step = 0; step < 1000; step++) {
            bool fill = sky_prng_below(&random, 100) < (step / 250 % 2 ? 35u : 65u);
            if (fill && m.held_count < HELD_MAX)
                take(&m, random_units(&random));
            else if (m.held_count > 0)
                give(&m, (uint32_t)sky_prng_below(&random, m.held_count));
            assert_int_equal(sky_arena_used_units(m.arena), m.used_units);
        }
        while (m.held_count > 0)
            give(&m, (uint32_t)sky_prng_below(&random, m.held_count));
        take(&m, UNITS); /* one hole again */
        assert_int_equal(m.held_count, 1);
        sky_arena_destroy(m.arena);
    }
}

static void numbers_are_bounded(void **state) {
    (void)state;
    sky_arena *a;
    assert_int_equal(sky_arena_create(10, 3, &a), SKY_OK);
    uint32_t x = sky_arena_take(a, 1), y = sky_arena_take(a, 1);
    assert_int_equal(sky_arena_take(a, 1), SKY_EXTENT_NONE); /* no number for the rest */
    assert_int_equal(sky_arena_used_units(a), 2);
    uint32_t z = sky_arena_take(a, 8); /* which needs none */
    assert_int_not_equal(z, SKY_EXTENT_NONE);
    assert_int_equal(sky_arena_take(a, 1), SKY_EXTENT_NONE);
    sky_arena_give(a, y);
    sky_arena_give(a, x);
    sky_arena_give(a, z);
    assert_int_equal(sky_arena_start(a, sky_arena_take(a, 10)), 0);
    sky_arena_destroy(a);
    sky_arena_destroy(NULL);
}

static void refuses_nonsense(void **state) {
    (void)state;
    sky_arena *a = NULL;
    assert_int_equal(sky_arena_create(0, 1, &a), SKY_E_PARAM);
    assert_int_equal(sky_arena_create(1, 0, &a), SKY_E_PARAM);
    assert_int_equal(sky_arena_create(1, UINT32_MAX, &a), SKY_E_PARAM);
    assert_null(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_plain_map),
        cmocka_unit_test(numbers_are_bounded),
        cmocka_unit_test(refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
