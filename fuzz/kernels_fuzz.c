/* Proves: whatever the tables, states and bytes, each set of kernels decodes rows as the scalar
 * ones do. The input: how u8, width u16, 2 × 32 classes, 64 states u16, then the bytes of rows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/kernels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct {
    sky_coder rows;
    sky_tables tables;
} coder;

#define HEAD (3 + 2 * SKY_UNITS_MAX + 2 * SKY_LANES)
#define ROWS 4

static void set_up(const uint8_t *data, coder *c) {
    bool exact = data[0] & 2;
    sky__rows_init(&c->rows, 1 + sky_load_u16(data + 1) % SKY_WIDTH_MAX, exact || data[0] & 1);
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *classes = data + 3 + half * SKY_UNITS_MAX;
        uint8_t keys[SKY_WIDTH_MAX];
        for (uint32_t i = 0; i < SKY_WIDTH_MAX; i++)
            keys[i] = (uint8_t)(i * data[0]);
        sky__rows_order(&c->rows, half, keys);
        if (exact)
            sky__rows_exact_classes(&c->rows, half, classes, data[0] & 4 ? 8 : 5);
        else
            sky__rows_classes(&c->rows, half, classes);
    }
    for (uint32_t lane = 0; lane < SKY_LANES; lane++) {
        uint32_t state = sky_load_u16(data + 3 + 2 * SKY_UNITS_MAX + 2 * lane);
        sky_rows_set_state(&c->rows, lane, state < SKY_STATE_LOW ? SKY_STATE_LOW : state);
    }
    memset(&c->tables, 0, sizeof c->tables);
}

static void decode(const char *name, const uint8_t *head, const uint8_t *in) {
    static coder a, b;
    static _Alignas(64) int16_t expected[SKY_WIDTH_MAX], levels[SKY_WIDTH_MAX];
    if (sky_codec_kernels_use(name) != SKY_OK)
        return;
    const sky_codec_kernels *kernels = sky__kernels();
    set_up(head, &a);
    set_up(head, &b);
    sky__decode_prepare(&a.tables, &a.rows);
    kernels->prepare(&b.tables, &b.rows);
    for (uint32_t row = 0; row < ROWS; row++) {
        size_t took = sky__row_decode(&a.rows, &a.tables, row & 1, in, expected);
        if (kernels->row_decode(&b.rows, &b.tables, row & 1, in, levels) != took)
            abort();
        if (took == SIZE_MAX)
            return;
        if (memcmp(levels, expected, a.rows.steps * SKY_LANES * sizeof *levels) != 0 ||
            memcmp(&a.rows, &b.rows, sizeof a.rows) != 0)
            abort();
        in += took;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint8_t head[HEAD] = {0}, *in = calloc(ROWS, 8192);
    if (!in)
        return 0;
    memcpy(head, data, bytes < HEAD ? bytes : HEAD);
    if (bytes > HEAD)
        memcpy(in, data + HEAD, bytes - HEAD < ROWS * 4096 ? bytes - HEAD : ROWS * 4096);
    decode("avx512", head, in);
    decode("avx2", head, in);
    decode("neon", head, in);
    free(in);
    return 0;
}
