/* Entropy coding of rows of levels.
 *
 * A tile is rows of levels, one level a channel; of two tokens come two rows, sums (half 0) and
 * differences (half 1). A row's channels are coded in an order of its half, so that neighbours are
 * alike: 16 make a unit and share a class (bank.h); 64 make a step, one channel for each of 64
 * interleaved rANS states, the same 64 for all steps:
 *
 *   position   0 … 15 │ 16 … 31 │ 32 … 47 │ 48 … 63 ║ 64 … 79 │ …     of channel[half][position]
 *   class        c0   │   c1    │   c2    │   c3    ║   c4    │
 *   state      0 ………………………………………………………………… 63    ║ 0 ………
 *
 * The bytes of a row, as the decoder meets them:
 *
 *   low bits   for each unit, 2 × shift bytes: 16 fields of `shift` bits, little-endian
 *   states     for each step: a byte for each state that fell below 256, in order of position
 *   escapes    for each symbol 15, in order of position: the level as a 16-bit number
 *
 * States lie in 256 … 65535, start the tile as 64 numbers and must all be 256 at its end. The
 * trellis' state of every channel (4a + 2b + c) runs along the rows of a half; a selects the table
 * and the quantiser. Encoding runs backwards: rows, steps and lanes. */
#ifndef SKY_CODEC_ROWS_H
#define SKY_CODEC_ROWS_H

#include "codec/bank.h"
#include "codec/slices.h"

#define SKY_LEVEL_MAX   8191 /* |k|, so that a sum of two dequantised levels fits 16 bits */
#define SKY_STATE_LOW   256u
#define SKY_STATE_BYTES (2 * SKY_LANES)

typedef struct {
    uint32_t width; /* channels */
    uint32_t steps; /* of 64 */
    bool plain;     /* no trellis: a stays what it is, 0 but in lossless tiles */
    bool exact;     /* a lossless tile: a is set from outside */
    uint16_t channel[2][SKY_WIDTH_MAX];
    uint16_t place[2][SKY_WIDTH_MAX];  /* the position of each channel */
    uint8_t classes[2][SKY_UNITS_MAX]; /* of rows of usual fineness */
    uint8_t table[2][SKY_UNITS_MAX]; /* of the rows at hand: where in the bank, how many low bits */
    uint8_t shift[2][SKY_UNITS_MAX];
    uint32_t low_bytes[2];                          /* a row's low bits */
    _Alignas(64) uint8_t state[2][SKY_LANES];       /* low bytes, high bytes */
    _Alignas(64) uint8_t trellis[2][SKY_WIDTH_MAX]; /* by position */
} sky_coder;

/* Begin a tile: width, plain, everything else zero. */
void sky__rows_init(sky_coder *rows, uint32_t width, bool plain);

/* Order the channels of a half by rising key; equal keys keep their order; the padding comes first.
 * Shape:  keys [width], or NULL: as they are */
void sky__rows_order(sky_coder *rows, uint32_t half, const uint8_t *keys);

/* Shape:  classes [units] */
void sky__rows_classes(sky_coder *rows, uint32_t half, const uint8_t *classes);

/* From here on the classes count for rows of this fineness (fineness.h), not for usual ones. */
void sky__rows_use(sky_coder *rows, uint32_t fineness);

/* What sky__rows_use found out, for the next rows of that fineness: neighbours seldom share one. */
typedef struct {
    uint8_t table[2][SKY_UNITS_MAX];
    uint8_t shift[2][SKY_UNITS_MAX];
    uint32_t low_bytes[2];
} sky_rows_kept;
void sky__rows_keep(const sky_coder *rows, sky_rows_kept *kept);
void sky__rows_use_kept(sky_coder *rows, const sky_rows_kept *kept);

/* The same for lossless: class c of half h is table SKY_BANK_EXACT + 32 h + c mod 32, and shifts
 * are 0 and `shift`. */
void sky__rows_exact_classes(sky_coder *rows, uint32_t half, const uint8_t *classes,
                             uint32_t shift);

static inline uint32_t sky_rows_units(const sky_coder *rows) {
    return rows->steps * SKY_LANES / SKY_UNIT;
}

static inline uint32_t sky_rows_state(const sky_coder *rows, uint32_t lane) {
    return rows->state[0][lane] | (uint32_t)rows->state[1][lane] << 8;
}
static inline void sky_rows_set_state(sky_coder *rows, uint32_t lane, uint32_t state) {
    rows->state[0][lane] = (uint8_t)state;
    rows->state[1][lane] = (uint8_t)(state >> 8);
}

/* Is bit a ever 1? */
static inline bool sky_rows_by_a(const sky_coder *rows) {
    return !rows->plain || rows->exact;
}

/* Eight fields of `shift` bits, the lowest of x, a byte each: halves go apart, then quarters, then
 * single fields. */
static inline uint64_t sky_spread_fields(uint64_t x, uint32_t shift) {
    uint64_t one = 1, four = (one << 4 * shift) - 1;
    uint64_t two = ((one << 2 * shift) - 1) * 0x0000000100000001;
    uint64_t single = ((one << shift) - 1) * 0x0001000100010001;
    x = (x & four) | (x >> 4 * shift & four) << 32;
    x = (x & two) | (x << (16 - 2 * shift) & two << 16);
    return (x & single) | (x << (8 - shift) & single << 8);
}

/* The most bytes a row takes. */
static inline size_t sky_rows_bytes_max(const sky_coder *rows, uint32_t half) {
    return rows->low_bytes[half] + (size_t)rows->steps * SKY_LANES * 3;
}

/* Next trellis state, from state | parity << 3: (a, b, c) becomes (a ⊕ b, c ⊕ p, a). */
extern const uint8_t sky__trellis_next[16];

/* What the scalar decoder makes of a slot: symbol, slot − start << 8, frequency << 16. */
typedef uint32_t sky_slot;

#define SKY_SLOT_TABLES SKY_BANK_EXACT /* all those of lossy tiles; lossless ones have 64 */

/* Its tables, those in use. */
typedef struct {
    uint8_t made[SKY_BANK_TABLES];        /* where in `of`, and 1; 0: nowhere */
    sky_slot of[SKY_SLOT_TABLES][2][256]; /* by a, slot */
} sky_slots;

/* What decoding makes of a tile's tables and order before its first row, each kernel its own. A new
 * one begins with `slots.made` zero. Vector kernels make one for each fineness that occurs. */
#define SKY_VECTOR_TABLES_BYTES (24u << 10)
typedef union {
    sky_slots slots;
    _Alignas(64) uint8_t of_vectors[4][SKY_VECTOR_TABLES_BYTES];
} sky_tables;

void sky__decode_prepare(sky_tables *tables, const sky_coder *rows);

/* Decode one row, and step states and trellis.
 * Shape:  in [sky_rows_bytes_max + 64 bytes readable]; levels [steps × 64], by channel:
 *         dequantised, in half steps
 * A lossless row of half 0 also sets bit a of the next row and of half 1 (exact.h).
 * Returns the bytes it took; SIZE_MAX for a level beyond SKY_LEVEL_MAX */
size_t sky__row_decode(sky_coder *rows, const sky_tables *tables, uint32_t half, const uint8_t *in,
                       int16_t *levels);

/* What encoding makes of them, each kernel its own. */
typedef struct {
    _Alignas(64) uint8_t of_vectors[22u << 10];
} sky_encode_tables;

void sky__encode_prepare(sky_encode_tables *tables, const sky_coder *rows);

/* Encode one row in front of `end`, and step the states back.
 * Shape:  packed [steps × 64], by channel: 2k + a
 * Returns where the row begins; it takes at most sky_rows_bytes_max, and may scribble on as much */
uint8_t *sky__row_encode(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                         const int16_t *packed, uint8_t *end);

/* Every state is where encoding began: the tile was not damaged. */
bool sky__rows_finished(const sky_coder *rows);

#endif
