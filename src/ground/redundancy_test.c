/* Proves that chunk numbers and stripes agree, that pieces of a stripe lie on different servers,
 * and that any pieces as many as the data give back every byte of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "ground/redundancy.h"

static void numbers_and_stripes_agree(void **state) {
    (void)state;
    for (uint32_t servers = 2; servers <= 12; servers++) {
        for (uint32_t parity = 0; parity < servers; parity++) {
            sky_stripes s = {servers - parity, parity};
            for (uint32_t data = 1; data <= 40; data++) {
                uint32_t chunks = sky_stripes_chunks(&s, data);
                uint32_t found = 0;
                for (uint32_t number = 1; number <= chunks; number++) {
                    uint32_t d = sky_stripes_data_number(&s, data, number);
                    sky_stripe stripe = sky_stripe_of(&s, data, number);
                    assert_true(number >= stripe.first && number < stripe.first + stripe.pieces);
                    assert_true(stripe.first + stripe.pieces - 1 <= chunks);
                    assert_int_equal((stripe.first - 1) % servers, 0); /* one piece a server */
                    assert_true(stripe.pieces <= servers);
                    if (d) {
                        assert_int_equal(d, ++found);
                        assert_int_equal(sky_stripes_number(&s, d), number);
                    }
                }
                assert_int_equal(found, data);
                assert_int_equal(chunks, data + (data + s.data - 1) / s.data * parity);
            }
        }
    }
}

#define BYTES 333

typedef struct {
    uint8_t pieces[SKY_STRIPE_PIECES_MAX][BYTES];
    uint8_t work[2 * SKY_STRIPE_PIECES_MAX * SKY_STRIPE_PIECES_MAX];
} stripe;

static void make(stripe *s, uint32_t data, uint32_t parity, sky_prng *prng) {
    const uint8_t *in[SKY_STRIPE_PIECES_MAX];
    for (uint32_t i = 0; i < data; i++) {
        in[i] = s->pieces[i];
        for (size_t b = 0; b < BYTES; b++)
            s->pieces[i][b] = (uint8_t)sky_prng_u64(prng);
    }
    for (uint32_t i = 0; i < parity; i++)
        sky_stripe_parity(data, i, in, BYTES, s->pieces[data + i]);
}

/* Rebuild `lost` from `data` pieces chosen at random among the others. */
static void rebuild_one(stripe *s, uint32_t data, uint32_t parity, uint32_t lost, sky_prng *prng) {
    uint8_t at[SKY_STRIPE_PIECES_MAX], out[BYTES];
    const uint8_t *in[SKY_STRIPE_PIECES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < data + parity; i++) {
        if (i != lost)
            at[count++] = (uint8_t)i;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)sky_prng_below(prng, count);
        uint8_t other = at[i];
        at[i] = at[j];
        at[j] = other;
    }
    for (uint32_t i = 0; i < data; i++)
        in[i] = s->pieces[at[i]];
    assert_true(sky_stripe_rebuild(data, lost, in, at, BYTES, s->work, out));
    assert_memory_equal(out, s->pieces[lost], BYTES);
}

static void any_pieces_give_back_the_others(void **state) {
    (void)state;
    stripe *s = malloc(sizeof *s);
    assert_non_null(s);
    sky_prng prng;
    sky_prng_init(&prng, 4);
    static const uint32_t shapes[][2] = {{1, 1}, {1, 8},   {2, 1},   {7, 2},
                                         {5, 4}, {60, 21}, {200, 54}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t data = shapes[i][0], parity = shapes[i][1];
        make(s, data, parity, &prng);
        for (uint32_t tries = 0; tries < 20; tries++)
            rebuild_one(s, data, parity, (uint32_t)sky_prng_below(&prng, data), &prng);
    }
    free(s);
}

/* All choices of 7 of the 9 pieces of the usual stripe. */
static void every_loss_of_two_of_nine_is_made_good(void **state) {
    (void)state;
    stripe *s = malloc(sizeof *s);
    assert_non_null(s);
    sky_prng prng;
    sky_prng_init(&prng, 5);
    make(s, 7, 2, &prng);
    for (uint32_t a = 0; a < 7; a++) {
        for (uint32_t b = 0; b < 9; b++) {
            uint8_t at[7], out[BYTES];
            const uint8_t *in[7];
            uint32_t count = 0;
            for (uint32_t i = 0; i < 9 && count < 7; i++) {
                if (i == a || i == b)
                    continue;
                in[count] = s->pieces[i];
                at[count++] = (uint8_t)i;
            }
            assert_true(sky_stripe_rebuild(7, a, in, at, BYTES, s->work, out));
            assert_memory_equal(out, s->pieces[a], BYTES);
        }
    }
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_stripes_agree),
        cmocka_unit_test(any_pieces_give_back_the_others),
        cmocka_unit_test(every_loss_of_two_of_nine_is_made_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
