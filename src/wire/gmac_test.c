/* Proves that tags in rows are those of the libraries: for every length a datagram can have, every
 * number of datagrams side by side, counters that carry, and the published case without data. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "wire/gcm.h"
#include "wire/gmac.h"

#define COUNT_MAX 9
#define BYTES_MAX (SKY_GMAC_BYTES_MAX - 16)
#define STEP(n)   ((n) + SKY_GMAC_TAG_BYTES)

static const uint8_t secret[SKY_GMAC_SECRET_BYTES] = "thirty-two bytes of a secret key";

static void fill(uint8_t *row, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)(i * 7 + i / 251 + bytes);
}

/* Tag by tag, by libsodium, of a row that was tagged; what lies between them is as it was. */
static void expect_row(const sky_gcm_key *plain, uint64_t counter, const uint8_t *row,
                       const uint8_t *before, size_t bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++, row += STEP(bytes), before += STEP(bytes)) {
        uint8_t nonce[SKY_GCM_NONCE_BYTES] = {0}, right[SKY_GCM_TAG_BYTES], nothing[1] = {0};
        sky_store_u64(nonce + 4, counter + i);
        sky_gcm_seal(plain, nonce, before, bytes, nothing, 0, right);
        assert_memory_equal(row, before, bytes);
        assert_memory_equal(row + bytes, right, sizeof right);
    }
}

static void rows_have_the_tags_of_the_library(void **state) {
    (void)state;
    static uint8_t row[COUNT_MAX * STEP(BYTES_MAX) + 1], before[sizeof row];
    sky_gmac_key key;
    sky_gcm_key plain;
    sky_gmac_key_init(&key, secret);
    sky_gcm_key_init_plainly(&plain, secret);
    for (size_t bytes = 0; bytes <= BYTES_MAX; bytes++) {
        uint32_t count = 1 + (uint32_t)bytes % COUNT_MAX;
        uint64_t counter = UINT32_MAX - bytes % 7;
        fill(row, sizeof row);
        memcpy(before, row, sizeof row);
        sky_gmac_row(&key, counter, row, bytes, count, row + bytes);
        expect_row(&plain, counter, row, before, bytes, count);
        size_t end = count * STEP(bytes);
        assert_memory_equal(row + end, before + end, sizeof row - end);
    }
}

static void every_number_side_by_side(void **state) {
    (void)state;
    static uint8_t row[COUNT_MAX * STEP(1116)], before[sizeof row];
    sky_gmac_key key;
    sky_gcm_key plain;
    sky_gmac_key_init(&key, secret);
    sky_gcm_key_init_plainly(&plain, secret);
    for (uint32_t count = 0; count <= COUNT_MAX; count++) {
        fill(row, sizeof row);
        memcpy(before, row, sizeof row);
        sky_gmac_row(&key, 1ull << 63, row, 1116, count, row + 1116);
        expect_row(&plain, 1ull << 63, row, before, 1116, count);
    }
}

/* Test case 13 of McGrew and Viega, "The Galois/Counter Mode of Operation". */
static void it_is_the_published_one(void **state) {
    (void)state;
    static const uint8_t zeros[SKY_GMAC_SECRET_BYTES];
    static const uint8_t right[] = {0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9,
                                    0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73, 0x8b};
    sky_gmac_key key;
    uint8_t tag[SKY_GMAC_TAG_BYTES];
    sky_gmac_key_init(&key, zeros);
    sky_gmac_row(&key, 0, zeros, 0, 1, tag);
    assert_memory_equal(tag, right, sizeof right);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_tags_of_the_library),
        cmocka_unit_test(every_number_side_by_side),
        cmocka_unit_test(it_is_the_published_one),
    };
    if (!sky_gmac_works()) {
        print_message("skipped: this machine has no VPCLMULQDQ and VAES on 512 bits\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
