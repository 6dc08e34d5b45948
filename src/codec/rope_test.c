/* Proves: angles agree with libm and are the same bits everywhere; undoing a turn is its inverse;
 * pairs are those of either layout; senseless ropes are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "codec/rope.h"

static void angles_agree_with_libm(void **state) {
    (void)state;
    sky_rope rope;
    float cosine[SKY_ROPE_PAIRS_MAX], sine[SKY_ROPE_PAIRS_MAX];
    sky_checksum_state sum;
    sky_checksum_init(&sum, 0);
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 512, 10000, 1, NULL), SKY_OK);
    for (uint32_t position = 0; position < 200000; position += 1 + position / 3) {
        sky__rope_angles(&rope, position, cosine, sine);
        for (uint32_t p = 0; p < 256; p++) {
            double angle = (double)(position * rope.turns[p]) * 0x1p-32 * 6.283185307179586;
            assert_true(fabs((double)cosine[p] - cos(angle)) < 3e-7);
            assert_true(fabs((double)sine[p] - sin(angle)) < 3e-7);
        }
    }
    for (uint32_t p = 0; p < 256; p++)
        rope.turns[p] = p * 0x01234567u; /* no libm: these bits hold on any machine */
    sky__rope_angles(&rope, 77777, cosine, sine);
    sky_checksum_add(&sum, cosine, sizeof cosine);
    sky_checksum_add(&sum, sine, sizeof sine);
    assert_true(sky_checksum_end(&sum) == 0x33e3081a1b35935au);
}

static void frequencies_are_the_usual_ones(void **state) {
    (void)state;
    sky_rope rope;
    float factors[64];
    for (uint32_t i = 0; i < 64; i++)
        factors[i] = 2;
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 128, 1e6, 0.125, factors), SKY_OK);
    for (uint32_t p = 0; p < 64; p++) {
        double turns = pow(1e6, -(double)p / 64) / 16 / 6.283185307179586 * 0x1p32;
        assert_true(fabs((double)rope.turns[p] - turns) <= 1);
    }
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 3, 1e6, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 514, 1e6, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 4, 0, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NEOX, 4, INFINITY, 1, NULL), SKY_E_PARAM);
    assert_int_equal(sky_rope_init(&rope, SKY_ROPE_NONE, 4, 1e4, 1, NULL), SKY_E_PARAM);
}

static void undoing_a_turn_is_its_inverse(void **state) {
    (void)state;
    for (uint32_t kind = SKY_ROPE_NEOX; kind <= SKY_ROPE_INTERLEAVED; kind++) {
        sky_rope rope;
        float rows[3 * 2 * 10], before[3 * 2 * 10];
        for (uint32_t i = 0; i < 60; i++)
            rows[i] = before[i] = (float)i - 20;
        assert_int_equal(sky_rope_init(&rope, (sky_rope_kind)kind, 6, 100, 1, NULL), SKY_OK);
        sky_rope_apply(&rope, false, 5, rows, 3, 2, 10);
        for (uint32_t i = 0; i < 60; i++)
            assert_int_equal(rows[i] == before[i], i % 10 >= 6); /* the rest is not turned */
        sky_rope_apply(&rope, true, 5, rows, 3, 2, 10);
        for (uint32_t i = 0; i < 60; i++)
            assert_true(fabsf(rows[i] - before[i]) < 1e-4f);
    }
}

static void pairs_cover_a_head_once(void **state) {
    (void)state;
    for (uint32_t kind = SKY_ROPE_NEOX; kind <= SKY_ROPE_INTERLEAVED; kind++)
        for (uint32_t dim = 6; dim < 20; dim++) {
            sky_rope rope = {(sky_rope_kind)kind, 3, {0}};
            uint32_t seen = 0;
            for (uint32_t p = 0; p < dim / 2; p++) {
                sky_pair at = sky__pair_at(&rope, dim, p);
                seen |= 1u << at.first | 1u << at.second;
            }
            assert_int_equal(seen, (1u << dim / 2 * 2) - 1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_agree_with_libm),
        cmocka_unit_test(frequencies_are_the_usual_ones),
        cmocka_unit_test(undoing_a_turn_is_its_inverse),
        cmocka_unit_test(pairs_cover_a_head_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
