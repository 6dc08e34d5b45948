/* Blocks that outlive the loss of a chunk: which chunk is where in its stripe, and Reed–Solomon
 * over a stripe. Pure functions; the satellites know nothing of it.
 *
 *   payload      d1 d2 d3 d4 d5 d6 d7 │ d8 d9 …            cut as ever
 *   chunks      1  2  3  4  5  6  7  8  9 │10 11 …         servers 1 … 9: one piece each
 *               d1 d2 d3 d4 d5 d6 d7 P1 P2│d8 d9 … P1 P2   stripes of 7 + 2
 *
 * A stripe is as long as there are servers, so its pieces lie on different satellites and a row of
 * chunks is still chunk, chunk + n … Only the last stripe may have less data. With parity 0 chunk
 * and data number are the same.
 *
 * Surprise: the last data piece may be short; for the code it is filled up with zeros. Parity
 * pieces are as long as their stripe's first. */
#ifndef SKY_GROUND_REDUNDANCY_H
#define SKY_GROUND_REDUNDANCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKY_STRIPE_PIECES_MAX 255

typedef struct {
    uint32_t data;   /* pieces of payload in a whole stripe; at least 1 */
    uint32_t parity; /* data + parity at most SKY_STRIPE_PIECES_MAX, but for parity 0 */
} sky_stripes;

/* Chunks that so many data chunks make, parity included. */
uint32_t sky_stripes_chunks(const sky_stripes *s, uint32_t data_chunks);
/* Chunk number of a data chunk, and back; both count from 1, and 0 is no data chunk: parity. */
uint32_t sky_stripes_number(const sky_stripes *s, uint32_t data_number);
uint32_t sky_stripes_data_number(const sky_stripes *s, uint32_t data_chunks, uint32_t number);

/* The stripe a chunk is in. */
typedef struct {
    uint32_t first;  /* its first chunk's number */
    uint32_t data;   /* pieces of payload it has; its parity follows them */
    uint32_t pieces; /* of both kinds */
} sky_stripe;
sky_stripe sky_stripe_of(const sky_stripes *s, uint32_t data_chunks, uint32_t number);

/* Parity piece `which` (from 0) of a stripe.
 * Shape:  pieces [data], each `bytes` long */
void sky_stripe_parity(uint32_t data, uint32_t which, const uint8_t *const *pieces, size_t bytes,
                       uint8_t *out);

/* Data piece `lost` (from 0) from as many pieces as the stripe has data.
 * Shape:  pieces [data] and at [data]: their places in the stripe, all different, without `lost`;
 *         work [2·data·data] bytes
 * Returns false when those pieces do not determine it; any `data` different ones do. */
bool sky_stripe_rebuild(uint32_t data, uint32_t lost, const uint8_t *const *pieces,
                        const uint8_t *at, size_t bytes, uint8_t *work, uint8_t *out);

#endif
