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

# Checksums come from xxHash's header, as no library is there for arm64.
ln -s "$(realpath /usr/include/xxhash.h)" "$scratch/xxhash.h"

compile=("$cross" -std=c17 -O2 -D_GNU_SOURCE -DXXH_INLINE_ALL -ffp-contract=off
    -Iinclude -Isrc -I"$scratch")
objects=()
for file in src/codec/*.c src/base/{bytes,checksum,error,tensor}.c; do
    case $file in
        *_test.c | *_avx2.c | *_avx512.c) continue ;;
    esac
    object=$scratch/$(basename "$file" .c).o
    "${compile[@]}" -c "$file" -o "$object"
    objects+=("$object")
done

for test in kernels rope half; do
    "${compile[@]}" -static "src/codec/${test}_test.c" "${objects[@]}" -lm -o "$scratch/$test"
    qemu-aarch64-static "$scratch/$test"
    echo "$test: the same on arm64"
done
