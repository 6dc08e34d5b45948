/* Stripes, and the code over them by isa-l: a Cauchy matrix below the identity, any `data` rows of
 * which are independent. Its coefficients depend on the piece's place alone, not on how long the
 * stripe is, so the last, shorter stripe is coded like any other. */
#include "ground/redundancy.h"

#include <assert.h>
#include <string.h>

#include <isa-l/erasure_code.h>

uint32_t sky_stripes_chunks(const sky_stripes *s, uint32_t data_chunks) {
    uint32_t stripes = data_chunks / s->data + (data_chunks % s->data != 0);
    return data_chunks + stripes * s->parity;
}

uint32_t sky_stripes_number(const sky_stripes *s, uint32_t data_number) {
    return data_number + (data_number - 1) / s->data * s->parity;
}

uint32_t sky_stripes_data_number(const sky_stripes *s, uint32_t data_chunks, uint32_t number) {
    sky_stripe stripe = sky_stripe_of(s, data_chunks, number);
    if (number - stripe.first >= stripe.data)
        return 0;
    return number - (stripe.first - 1) / (s->data + s->parity) * s->parity;
}

sky_stripe sky_stripe_of(const sky_stripes *s, uint32_t data_chunks, uint32_t number) {
    uint32_t before = (number - 1) / (s->data + s->parity);
    uint32_t left = data_chunks - before * s->data;
    uint32_t data = left < s->data ? left : s->data;
    return (sky_stripe){before * (s->data + s->parity) + 1, data, data + s->parity};
}

/* Row of a piece in the matrix: the identity, then 1 / (place xor column), as isa-l makes it for
 * stripes of `data`. */
static void row_of(uint32_t data, uint32_t place, uint8_t *row) {
    memset(row, 0, data);
    if (place < data) {
        row[place] = 1;
        return;
    }
    for (uint32_t i = 0; i < data; i++)
        row[i] = gf_inv((uint8_t)(place ^ i));
}

/* out = Σ row[i]·pieces[i] */
static void combine_pieces(uint32_t data, uint8_t *row, const uint8_t *const *pieces, size_t bytes,
                           uint8_t *out) {
    uint8_t tables[32 * SKY_STRIPE_PIECES_MAX];
    uint8_t *in[SKY_STRIPE_PIECES_MAX];
    for (uint32_t i = 0; i < data; i++)
        in[i] = (uint8_t *)(uintptr_t)pieces[i]; /* isa-l only reads them */
    ec_init_tables((int)data, 1, row, tables);
    ec_encode_data((int)bytes, (int)data, 1, tables, in, &out);
}

void sky_stripe_parity(uint32_t data, uint32_t which, const uint8_t *const *pieces, size_t bytes,
                       uint8_t *out) {
    uint8_t row[SKY_STRIPE_PIECES_MAX];
    assert(data >= 1 && data + which < SKY_STRIPE_PIECES_MAX);
    row_of(data, data + which, row);
    combine_pieces(data, row, pieces, bytes, out);
}

/* The rows of the pieces make them from the data; the inverse makes the data from the pieces. */
bool sky_stripe_rebuild(uint32_t data, uint32_t lost, const uint8_t *const *pieces,
                        const uint8_t *at, size_t bytes, uint8_t *work, uint8_t *out) {
    uint8_t *matrix = work;
    uint8_t *inverse = work + (size_t)data * data;
    assert(data >= 1 && data < SKY_STRIPE_PIECES_MAX && lost < data);
    for (uint32_t i = 0; i < data; i++)
        row_of(data, at[i], matrix + (size_t)i * data);
    if (gf_invert_matrix(matrix, inverse, (int)data) != 0)
        return false;
    combine_pieces(data, inverse + (size_t)lost * data, pieces, bytes, out);
    return true;
}
