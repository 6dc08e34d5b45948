/* Proves: checksums are those of xxHash, and the same however the input is cut; of copies too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/hash.h"

static void checksums_do_not_depend_on_the_cut(void **state) {
    (void)state;
    uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 >> 3);
    /* XXH3-64 of no bytes with seed 0, from the xxHash specification. */
    assert_true(sky_checksum(NULL, 0, 0) == 0x2d06800538d394c2u);
    for (size_t cut = 0; cut <= sizeof data; cut += 617) {
        sky_checksum_state s;
        sky_checksum_init(&s, 42);
        sky_checksum_add(&s, data, cut);
        sky_checksum_add(&s, data + cut, sizeof data - cut);
        assert_true(sky_checksum_end(&s) == sky_checksum(data, sizeof data, 42));
    }
    assert_true(sky_checksum(data, sizeof data, 42) != sky_checksum(data, sizeof data, 43));
}

/* Against the library, at the lengths where XXH3 changes its way, from an odd address too. */
static void checksums_are_those_of_xxhash(void **state) {
    (void)state;
    static uint8_t data[100001];
    static const size_t sizes[] = {0, 1, 16, 17, 128, 129, 240, 241, 1024, 1025, 65536, 100000};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)((i * 31 >> 3) ^ i);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t from = 0; from < 2; from++) {
            sky_checksum_state s;
            uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)i;
            uint64_t wanted = XXH3_64bits_withSeed(data + from, sizes[i], seed);
            assert_true(sky_checksum(data + from, sizes[i], seed) == wanted);
            sky_checksum_init(&s, seed);
            sky_checksum_add(&s, data + from, sizes[i]);
            assert_true(sky_checksum_end(&s) == wanted);
        }
    }
}

/* A state lies anywhere: malloc knows of no vectors. */
static void a_state_lies_anywhere(void **state) {
    (void)state;
    static uint8_t data[3000], memory[2 * SKY_HASH_ALIGN + sizeof(sky_checksum_state)];
    uint64_t wanted = sky_checksum(data, sizeof data, 7);
    for (size_t at = 0; at < SKY_HASH_ALIGN; at++) {
        uint8_t *from = (uint8_t *)sky__hash_state(memory) + at;
        sky_checksum_state *s = (void *)from;
        memset(memory, 0xa5, sizeof memory);
        sky_checksum_init(s, 7);
        for (size_t i = 0; i < sizeof data; i += 100)
            sky_checksum_add(s, data + i, 100);
        assert_true(sky_checksum_end(s) == wanted);
        assert_int_equal(from[sizeof *s], 0xa5);
    }
}

/* A copy is whole, has the checksum of its bytes wherever it is cut, and writes nothing else; also
 * when it is said to be one of many bytes. */
static void copies_have_the_checksum_of_their_bytes(void **state) {
    (void)state;
    enum { BYTES = 20000, AROUND = 64 };
    static uint8_t data[BYTES], copy[BYTES + 2 * AROUND], around[AROUND];
    static const size_t sizes[] = {0,    1,    240,  241,  1024,  1025,  1279, 1280,
                                   1281, 1344, 2048, 2049, 16384, 19937, BYTES};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)((i * 31 >> 3) ^ i);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t cut = 0; cut <= sizes[i]; cut += 1 + cut / 2) {
            const size_t rest = sizes[i] - cut, all = cut % 3 ? sizes[i] : SIZE_MAX;
            sky_checksum_state s;
            memset(copy, 0, sizeof copy);
            sky_checksum_init(&s, 42);
            sky_checksum_copy(&s, copy + AROUND, data, cut, all);
            sky_checksum_copy(&s, copy + AROUND + cut, data + cut, rest / 3, all);
            sky_checksum_add(&s, data + cut + rest / 3, rest - rest / 3);
            assert_true(sky_checksum_end(&s) == sky_checksum(data, sizes[i], 42));
            assert_memory_equal(copy + AROUND, data, cut + rest / 3);
            assert_memory_equal(copy, around, AROUND);
            assert_memory_equal(copy + AROUND + cut + rest / 3, around, AROUND);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_do_not_depend_on_the_cut),
        cmocka_unit_test(checksums_are_those_of_xxhash),
        cmocka_unit_test(a_state_lies_anywhere),
        cmocka_unit_test(copies_have_the_checksum_of_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
