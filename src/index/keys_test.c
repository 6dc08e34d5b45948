/* Proves: block and name keys equal those of an independent implementation (tests/golden/keys.txt),
 * and what is no key or name is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "base/lines_fixture.h"

#define GOLDEN "tests/golden/keys.txt"

typedef struct {
    unsigned blocks, names, rejected_names, rejected_keys;
} tally;

static sky_namespace take_namespace(char **cursor) {
    sky_key bytes;
    sky_namespace ns;
    assert_int_equal(sky_key_parse(strtok_r(NULL, " ", cursor), &bytes), SKY_OK);
    memcpy(ns.bytes, bytes.bytes, sizeof ns.bytes);
    return ns;
}

static uint32_t take_number(char **cursor) {
    return (uint32_t)strtoull(strtok_r(NULL, " ", cursor), NULL, 10);
}

static void check_blocks(char *cursor, tally *t) {
    static uint32_t tokens[8192];
    static sky_key keys[64];
    sky_namespace ns = take_namespace(&cursor);
    uint32_t block_tokens = take_number(&cursor), start = take_number(&cursor);
    uint32_t step = take_number(&cursor), count = take_number(&cursor);
    assert_in_range(count, 1, 8192);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = start + i * step;
    size_t key_count = sky_block_keys(&ns, tokens, count, block_tokens, keys, 64);
    assert_int_equal(key_count, count / block_tokens);
    for (size_t i = 0; i < key_count; i++) {
        char hex[65];
        sky_key_hex(&keys[i], hex);
        assert_string_equal(hex, strtok_r(NULL, " ", &cursor));
        sky_key alone;
        sky_block_key(&ns, i ? &keys[i - 1] : NULL, tokens + i * block_tokens, block_tokens,
                      &alone);
        assert_true(sky_key_equal(&alone, &keys[i]));
        t->blocks++;
    }
    assert_null(strtok_r(NULL, " ", &cursor));
    if (key_count > 1) /* a small destination gets the first ones */
        assert_int_equal(sky_block_keys(&ns, tokens, count, block_tokens, keys, 1), 1);
}

static void check_name(char *cursor, tally *t) {
    uint8_t name[SKY_NAME_BYTES_MAX];
    sky_namespace ns = take_namespace(&cursor);
    const char *hex = strtok_r(NULL, " ", &cursor);
    size_t bytes = strlen(hex) / 2;
    assert_in_range(bytes, 1, sizeof name);
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        name[i] = (uint8_t)byte;
    }
    sky_key key;
    char key_hex[65];
    assert_int_equal(sky_name_key(&ns, name, bytes, &key), SKY_OK);
    sky_key_hex(&key, key_hex);
    assert_string_equal(key_hex, strtok_r(NULL, " ", &cursor));
    t->names++;
}

static void check_reject_name(char *cursor, tally *t) {
    size_t bytes = take_number(&cursor);
    char *name = calloc(1, bytes + 1);
    assert_non_null(name);
    sky_namespace ns = {{0}};
    sky_key key = {{7}}, before = key;
    assert_int_equal(sky_name_key(&ns, name, bytes, &key), SKY_E_PARAM);
    assert_true(sky_key_equal(&key, &before));
    free(name);
    t->rejected_names++;
}

static void check_reject_key(char *cursor, tally *t) {
    sky_key key = {{7}}, before = key;
    assert_int_equal(sky_key_parse(strtok_r(NULL, " ", &cursor), &key), SKY_E_SYNTAX);
    assert_true(sky_key_equal(&key, &before));
    t->rejected_keys++;
}

static void keys_equal_the_golden_vectors(void **state) {
    (void)state;
    static const struct {
        const char *word;
        void (*check)(char *, tally *);
    } kinds[] = {{"blocks", check_blocks},
                 {"name", check_name},
                 {"reject-name", check_reject_name},
                 {"reject-key", check_reject_key}};
    static sky_lines vectors;
    tally t = {0};
    sky_lines_open(&vectors, GOLDEN);
    for (char *line; (line = sky_lines_next(&vectors));) {
        char *cursor;
        const char *word = strtok_r(line, " ", &cursor);
        for (size_t i = 0; word && i < sizeof kinds / sizeof *kinds; i++)
            if (strcmp(word, kinds[i].word) == 0)
                kinds[i].check(cursor, &t);
    }
    assert_int_equal(t.blocks, 18);
    assert_int_equal(t.names, 6);
    assert_int_equal(t.rejected_names, 3);
    assert_int_equal(t.rejected_keys, 7);
}

static void hex_goes_both_ways(void **state) {
    (void)state;
    sky_key key, back;
    char hex[65];
    for (size_t i = 0; i < SKY_KEY_BYTES; i++)
        key.bytes[i] = (uint8_t)(i * 37 + 200);
    sky_key_hex(&key, hex);
    assert_int_equal(sky_key_parse(hex, &back), SKY_OK);
    assert_true(sky_key_equal(&key, &back));
    for (char *c = hex; *c; c++)
        if (*c >= 'a')
            *c = (char)(*c - 'a' + 'A');
    assert_int_equal(sky_key_parse(hex, &back), SKY_OK);
    assert_true(sky_key_equal(&key, &back));
    assert_false(sky_key_is_zero(&key));
    assert_true(sky_key_is_zero(&(sky_key){{0}}));
    assert_int_equal(sky_key_parse("", &back), SKY_E_SYNTAX);
}

/* Equal names and tokens of two tenants have nothing in common, and no salt changes nothing. */
static void a_salt_makes_other_keys(void **state) {
    (void)state;
    static const uint32_t tokens[] = {1, 2, 3, 4};
    const uint8_t salts[3][SKY_SALT_BYTES] = {{0}, {1}, {[SKY_SALT_BYTES - 1] = 1}};
    sky_namespace spaces[3] = {{{9}}, {{9}}, {{9}}};
    sky_key names[3], blocks[3];
    for (int i = 0; i < 3; i++) {
        sky_namespace_salt(&spaces[i], salts[i]);
        assert_int_equal(sky_name_key(&spaces[i], "name", 4, &names[i]), SKY_OK);
        sky_block_key(&spaces[i], NULL, tokens, 4, &blocks[i]);
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(&spaces[i], &spaces[j], sizeof spaces[i]);
            assert_false(sky_key_equal(&names[i], &names[j]));
            assert_false(sky_key_equal(&blocks[i], &blocks[j]));
        }
    }
    assert_memory_equal(&spaces[0], &(sky_namespace){{9}}, sizeof spaces[0]);
}

static void only_whole_blocks_have_keys(void **state) {
    (void)state;
    sky_namespace ns = {{0}};
    uint32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    sky_key keys[5], untouched;
    memset(keys, 0xee, sizeof keys);
    memset(&untouched, 0xee, sizeof untouched);
    assert_int_equal(sky_block_keys(&ns, tokens, 9, 0, keys, 4), 0);
    assert_int_equal(sky_block_keys(&ns, tokens, 3, 4, keys, 4), 0);
    assert_true(sky_key_equal(&keys[0], &untouched));
    assert_int_equal(sky_block_keys(&ns, tokens, 9, 2, keys, 4), 4);
    assert_true(sky_key_equal(&keys[4], &untouched));
    assert_int_equal(sky_block_keys(&ns, tokens, 9, 2, keys, 3), 3);
    sky_key second;
    sky_block_key(&ns, &keys[0], tokens + 2, 2, &second);
    assert_true(sky_key_equal(&second, &keys[1]));
}

/* Wrong arguments do nothing, or are told. */
static void nothing_comes_of_null(void **state) {
    (void)state;
    const sky_namespace space = {{1}};
    const uint32_t token = 1;
    sky_key key = {{7}}, before = key;
    uint8_t digest[32] = {7};
    sky_block_key(NULL, NULL, &token, 1, &key);
    sky_block_key(&space, NULL, NULL, 1, &key);
    sky_block_key(&space, NULL, &token, 1, NULL);
    assert_int_equal(sky_block_keys(&space, NULL, 8, 4, &key, 1), 0);
    assert_int_equal(sky_block_keys(&space, &token, 1, 1, NULL, 1), 0);
    assert_int_equal(sky_name_key(&space, NULL, 4, &key), SKY_E_PARAM);
    assert_int_equal(sky_name_key(&space, "name", 4, NULL), SKY_E_PARAM);
    assert_int_equal(sky_key_parse(NULL, &key), SKY_E_PARAM);
    sky_namespace_salt(NULL, digest);
    sky_key_hex(&key, NULL);
    sky_digest(NULL, 1, digest);
    sky_digest(&(sky_span){NULL, 4}, 1, digest);
    assert_int_equal(sky_content_hash(NULL, 10, 1), 0);
    assert_false(sky_key_equal(&key, NULL) || sky_key_is_zero(NULL));
    assert_true(sky_key_equal(&key, &before) && digest[0] == 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_equal_the_golden_vectors),
        cmocka_unit_test(hex_goes_both_ways),
        cmocka_unit_test(a_salt_makes_other_keys),
        cmocka_unit_test(only_whole_blocks_have_keys),
        cmocka_unit_test(nothing_comes_of_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
