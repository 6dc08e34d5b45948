#!/usr/bin/env bash
# Proves: built for arm64 and run by qemu, the codec's NEON kernels make the bytes the scalar ones
# make, and angles and halves are the same numbers as here. Skipped without the cross compiler and
# qemu (tools/setup cross).
set -euo pipefail

cross=aarch64-linux-gnu-gcc
for tool in "$cross" qemu-aarch64-static; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: no $tool (tools/setup cross brings it)"
        exit 77
    fi
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The few words of cmocka that these tests use: there is none for arm64 here.
cat >"$scratch/cmocka.h" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define assert_true(x)                                                     \
    do {                                                                   \
        if (!(x)) {                                                        \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x);         \
            exit(1);                                                       \
        }                                                                  \
    } while (0)
#define assert_false(x) assert_true(!(x))
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(x, y) assert_true((x) == (y))
#define assert_string_equal(x, y) assert_true(strcmp(x, y) == 0)
#define assert_memory_equal(x, y, bytes) assert_true(memcmp(x, y, bytes) == 0)
#define print_message printf
struct CMUnitTest {
    void (*run)(void **state);
};
#define cmocka_unit_test(f) {f}
#define cmocka_run_group_tests(tests, setup, teardown)                     \
    (run_all(tests, sizeof(tests) / sizeof(tests)[0]))
static inline int run_all(const struct CMUnitTest *tests, size_t count) {
    for (size_t i = 0; i < count; i++)
        tests[i].run(NULL);
    return 0;
}
C

# src/base/hash.c but BLAKE2b, which the codec does not use and which comes from a library.
ln -s "$(realpath /usr/include/xxhash.h)" "$scratch/xxhash.h"
cat >"$scratch/hash.c" <<'C'
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

uint64_t sky_checksum(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}
void sky_checksum_init(sky_checksum_state *s, uint64_t seed) {
    XXH3_64bits_reset_withSeed((XXH3_state_t *)(void *)s->opaque, seed);
}
void sky_checksum_add(sky_checksum_state *s, const void *data, size_t bytes) {
    XXH3_64bits_update((XXH3_state_t *)(void *)s->opaque, data, bytes);
}
uint64_t sky_checksum_end(const sky_checksum_state *s) {
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)s->opaque);
}
C

modules=()
for file in src/codec/*.c; do
    case $file in
        *_test.c | *_fixture.c | *_avx2.c | *_avx512.c) ;;
        *) modules+=("$file") ;;
    esac
done

for test in kernels rope half; do
    "$cross" -static -std=c17 -O2 -D_GNU_SOURCE -ffp-contract=off -Iinclude -Isrc -I"$scratch" \
        "${modules[@]}" src/codec/codec_fixture.c "src/codec/${test}_test.c" \
        src/base/bytes.c src/base/error.c "$scratch/hash.c" -lm -o "$scratch/$test"
    qemu-aarch64-static "$scratch/$test"
    echo "$test: the same on arm64"
done
