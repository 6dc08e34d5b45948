/* Proves: lists of levels are read in any order and refused when they are none; each level's key is
 * one of its own and leads back to the block's; and marks never leave four bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/codec.h>
#include <skymem/keys.h>
#include <skymem/stream.h>

#include "tier/encoded/level_set.h"
#include "tier/tier_fixture.h"

static void levels_are_read_in_any_order(void **state) {
    (void)state;
    static const struct {
        const char *text, *read;
    } good[] = {
        {"4", "4"},
        {"8,4,2", "8,4,2"},
        {"2,8,4", "8,4,2"},
        {"2.5,lossless", "lossless,2.5"},
        {"archive,2,2.5,3,4,6,8,lossless", "lossless,8,6,4,3,2.5,2,archive"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        sky_level_set l;
        char text[64];
        assert_int_equal(sky_level_set_parse(good[i].text, &l), SKY_OK);
        sky_level_set_text(&l, text, sizeof text);
        assert_string_equal(text, good[i].read);
    }
    static const char *const bad[] = {
        "",    ",",      "8,",   ",8",  "8,,4", "8,8", "4,8,4",
        "5",   "8 4",    "8,4 ", "f16", "8;4",  "-8",  "88888888888888888",
        "8,5", "8,4,2,", "0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sky_level_set l = {.count = 99};
        assert_int_equal(sky_level_set_parse(bad[i], &l), SKY_E_SYNTAX);
        assert_int_equal(l.count, 99);
    }
}

static void every_level_has_a_key_that_leads_back(void **state) {
    (void)state;
    sky_level_set l;
    sky_key keys[SKY_LEVEL_COUNT], block = sky_fixture_key(7), none = {{0}}, key;
    assert_int_equal(sky_level_set_parse("lossless,8,6,4,3,2.5,2,archive", &l), SKY_OK);
    for (uint32_t step = 0; step < l.count; step++) {
        keys[step] = sky_level_set_key(&l, step, &block);
        for (uint32_t before = 0; before < step; before++)
            assert_false(sky_key_equal(&keys[step], &keys[before]));
        sky_level_key(&keys[step], step > 0 ? l.codings[step] : 0, &key);
        assert_true(sky_key_equal(&key, &block));
        key = sky_level_set_key(&l, step, &none);
        assert_true(sky_key_is_zero(&key));
        assert_true(sky_level_set_coding(&l, step) <= 15);
        assert_int_equal(sky_level_set_unmark(sky_level_set_coding(&l, step)), l.codings[step]);
        assert_int_equal(sky_level_set_step(&l, l.codings[step]), step);
        sky_entry entry = {
            .key = keys[step], .parent = keys[step], .coding = sky_level_set_coding(&l, step)};
        sky_level_set_entry(&entry);
        assert_true(sky_key_equal(&entry.parent, &block));
        assert_true(sky_key_equal(&entry.key, &block));
        assert_int_equal(entry.coding, l.codings[step]);
    }
    assert_true(sky_key_equal(&keys[0], &block));
    assert_int_equal(sky_level_set_coding(&l, 0), l.codings[0]);
    assert_int_equal(sky_level_set_step(&l, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_read_in_any_order),
        cmocka_unit_test(every_level_has_a_key_that_leads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
