/* Proves: the format of .skv is frozen. Containers of tests/golden/codec.txt decode to the rows
 * they always did, those that must be refused are, with the same status, and encoding made-up rows
 * gives the bytes it always gave, with every set of kernels this machine has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/codec.h>

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes) {
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}
#define HASH_START 0xcbf29ce484222325u

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t bytes = 0;
    unsigned value;
    for (; sscanf(hex, "%2x", &value) == 1; hex += 2)
        out[bytes++] = (uint8_t)value;
    return bytes;
}

/* Status, and a hash of all rows. */
static sky_status decode_all(const sky_profile *profile, const uint8_t *data, size_t bytes,
                             uint64_t *rows_hash) {
    sky_skv skv;
    void *memory = aligned_alloc(64, SKY_DECODER_BYTES);
    sky_status status = sky_skv_open(data, bytes, &skv);
    *rows_hash = HASH_START;
    for (uint32_t i = 0; status == SKY_OK && i < 2 * skv.layer_count; i++) {
        sky_stream_shape s;
        sky_skv_stream_shape(&skv, i / 2, (sky_kv)(i & 1), &s);
        size_t all = sky_stream_rows_bytes(&s);
        uint8_t *rows = malloc(all);
        status = sky_skv_decode(&skv, profile, i / 2, (sky_kv)(i & 1), sky_stream_packed(&s, rows),
                                memory);
        if (status == SKY_OK)
            *rows_hash = hash(*rows_hash, rows, all);
        if (status == SKY_MISS)
            status = SKY_OK;
        free(rows);
    }
    free(memory);
    return status;
}

static void check_container(const char *line, const char *hex) {
    char kind[16], name[64], expected[32];
    uint8_t *bytes = malloc(strlen(hex) / 2 + 1);
    uint64_t rows_hash;
    assert_int_equal(sscanf(line, "%15s %63s %31s", kind, name, expected), 3);
    sky_status status = decode_all(NULL, bytes, from_hex(hex, bytes), &rows_hash);
    if (strcmp(kind, "reject") == 0) {
        if (strcmp(sky_status_name(status), expected) != 0)
            fail_msg("%s: %s instead of %s", name, sky_status_name(status), expected);
    } else {
        assert_int_equal(status, SKY_OK);
        if (rows_hash != strtoull(expected, NULL, 16))
            fail_msg("%s: rows %016llx instead of %s", name, (unsigned long long)rows_hash,
                     expected);
    }
    free(bytes);
}

/* Keys by rope, tens of tokens, so that angles are turned on from those of the first two; and
 * lossless rows by tables, f16 and bf16. */
static void check_calibrated(const char *line, const char *hex) {
    char name[64], expected[32];
    int at = 0;
    uint8_t *bytes = malloc(strlen(line) / 2);
    uint64_t rows_hash;
    sky_profile *profile;
    assert_int_equal(sscanf(line, "calibrated %63s %31s %n", name, expected, &at), 2);
    assert_int_equal(sky_profile_read(bytes, from_hex(line + at, bytes), &profile, NULL), SKY_OK);
    assert_int_equal(decode_all(NULL, bytes, from_hex(hex, bytes), &rows_hash), SKY_E_PARAM);
    assert_int_equal(decode_all(profile, bytes, from_hex(hex, bytes), &rows_hash), SKY_OK);
    if (rows_hash != strtoull(expected, NULL, 16))
        fail_msg("%s with %s: rows %016llx instead of %s", name, sky_codec_kernels_name(),
                 (unsigned long long)rows_hash, expected);
    sky_profile_destroy(profile);
    free(bytes);
}

/* Finite f16 patterns below 2. */
static void make_rows(uint32_t seed, uint16_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (uint16_t)(seed >> 16 & 0xbfff);
    }
}

static void check_encoding(const char *line) {
    unsigned tokens, heads, dim, element, plain, first, seed;
    char level_name[16], name[64];
    unsigned long long expected;
    assert_int_equal(sscanf(line, "encode %63s %15s %u %u %u %u %u %u %u %llx", name, level_name,
                            &tokens, &heads, &dim, &element, &plain, &first, &seed, &expected),
                     10);
    sky_stream_shape shape = {0, SKY_KV_V, (sky_element)element, tokens, heads, dim, 0};
    sky_encode_options how = {.plain = plain, .first_token_raw = first};
    size_t size = sky_element_bytes(shape.element), bytes;
    size_t count = (size_t)tokens * heads * dim, bound = sky_encode_bound(&shape);
    assert_int_equal(sky_level_parse(level_name, &how.level), SKY_OK);
    uint16_t *rows = malloc(count * size);
    uint8_t *out = malloc(bound);
    void *work = aligned_alloc(64, SKY_ENCODE_WORK_BYTES);
    make_rows(seed, rows, count * size / 2);
    assert_int_equal(
        sky_encode(NULL, &shape, &how, sky_stream_packed(&shape, rows), out, bound, &bytes, work),
        SKY_OK);
    uint64_t got = hash(HASH_START, out, bytes);
    if (got != expected)
        fail_msg("%s with %s: %zu bytes, %016llx instead of %016llx", name,
                 sky_codec_kernels_name(), bytes, (unsigned long long)got, expected);
    free(rows);
    free(out);
    free(work);
}

static void golden_vectors_hold(void **state) {
    (void)state;
    static const char *const kernels[] = {"scalar", "avx2", "avx512", "neon"};
    char *line = malloc(1u << 16);
    for (size_t k = 0; k < 4; k++) {
        int accepted = 0, calibrated = 0, rejected = 0, encoded = 0;
        FILE *f = fopen("tests/golden/codec.txt", "r");
        assert_non_null(f);
        bool here = sky_codec_kernels_use(kernels[k]) == SKY_OK;
        while (here && fgets(line, 1 << 16, f)) {
            const char *hex = strstr(line, " =");
            if (strncmp(line, "encode", 6) == 0) {
                check_encoding(line);
                encoded++;
            } else if (strncmp(line, "calibrated", 10) == 0 && hex) {
                check_calibrated(line, hex + 3);
                calibrated++;
            } else if (line[0] != '#' && hex) {
                check_container(line, hex + 3);
                accepted += line[0] == 'a';
                rejected += line[0] == 'r';
            }
        }
        fclose(f);
        if (here) {
            assert_int_equal(accepted, 5);
            assert_int_equal(calibrated, 4);
            assert_int_equal(rejected, 24);
            assert_int_equal(encoded, 24);
        }
    }
    sky_codec_kernels_use(NULL);
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_vectors_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
