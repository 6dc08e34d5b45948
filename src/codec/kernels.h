/* The functions that exist once in plain C and again for each instruction set, all with the same
 * results bit for bit. The scalar ones are the definition: fineness.h, rows.h, transform.h and
 * trellis.h say what each does; a vector file may share anything of theirs. */
#ifndef SKY_CODEC_KERNELS_H
#define SKY_CODEC_KERNELS_H

#include "codec/classes.h"
#include "codec/exact.h"
#include "codec/fineness.h"
#include "codec/rows.h"
#include "codec/transform.h"
#include "codec/trellis.h"

/* Tokens of a lossless tile at hand. */
typedef struct {
    sky_coder *rows;
    const sky_tables *tables;
    sky_exact *exact;
    uint32_t tokens; /* at most; out: that were decoded */
    const uint8_t *in;
    size_t bytes; /* of the stream at it */
    size_t room;  /* that may be read there. A token after the first is begun where
                     `token_bytes_max` of it are left */
    size_t token_bytes_max;
    uint8_t *out; /* the first token's */
    ptrdiff_t token_bytes;
    size_t head_bytes;
    size_t used; /* out: bytes they took; SIZE_MAX: the token after them is damaged */
} sky_exact_job;

/* Pairs of tokens of a lossy tile at hand, two rows each. */
typedef struct {
    sky_coder *rows;
    const sky_tables *tables;
    sky_transform *t;
    bool turn_on;   /* the angles are still those of the two tokens before */
    uint32_t pairs; /* at most; out: that were restored */
    const uint8_t *in;
    size_t bytes; /* of the stream at it */
    size_t room;  /* that may be read there. A pair after the first is begun where `pair_bytes_max`
                     of it are left */
    size_t pair_bytes_max;
    uint8_t *out; /* the first token's */
    ptrdiff_t token_bytes;
    size_t head_bytes;
    size_t used; /* out: bytes they took; SIZE_MAX: the pair after them is damaged */
} sky_pairs_job;

typedef struct {
    const char *name;
    bool (*here)(void); /* does this CPU have what it takes? */

    void (*angles)(sky_transform *t, uint32_t position);
    void (*turn_on)(sky_transform *t);
    /* decode */
    void (*prepare)(sky_tables *tables, const sky_coder *rows);
    size_t tables_bytes; /* of rows of one fineness; 0: `tables` are of all that were prepared */
    size_t (*row_decode)(sky_coder *rows, const sky_tables *tables, uint32_t half,
                         const uint8_t *in, int16_t *levels);
    /* Pairs of rows into their tokens' elements; of one stream, or of two at once. NULL:
     * row_decode and restore_pairs do. */
    void (*pairs_decode)(sky_pairs_job *jobs, uint32_t count);
    void (*scale)(sky_transform *t, uint32_t which);
    void (*restore)(const sky_transform *t, const int16_t *sum, const int16_t *difference,
                    uint8_t *const out[2], size_t head_bytes);
    void (*restore_pairs)(sky_transform *t, int16_t (*rows)[SKY_WIDTH_MAX],
                          const sky_pairs_out *to);
    bool (*join)(sky_exact *x, const int16_t *levels0, const int16_t *levels1, const uint8_t *low,
                 uint8_t *out, size_t head_bytes);
    /* Lossless tokens' two rows each, and f32's low bits, into their elements; of one stream, or of
     * two at once. NULL: row_decode and join do. */
    void (*exact_decode)(sky_exact_job *jobs, uint32_t count);
    /* encode */
    void (*split)(const sky_exact *x, const uint16_t *top, const uint16_t *before, int16_t *packed);
    float (*wanted)(const int8_t *weights, const float *mean, const float *row, uint32_t width);
    void (*load)(const sky_transform *t, uint32_t which, const uint8_t *in, size_t head_bytes,
                 float *row);
    bool (*forward)(const sky_transform *t, float *row0, float *row1, float *sum,
                    float *difference);
    /* Plain rounding from elements of two tokens to 2k of two rows. False: not these, which go by
     * load, forward and round. NULL: none do. */
    bool (*pair_round)(const sky_transform *t, const uint8_t *const in[2], size_t head_bytes,
                       int16_t *sum, int16_t *difference);
    void (*trellis)(const float *z, uint32_t rows, size_t pitch, uint32_t stride, int16_t *packed,
                    uint8_t *decisions);
    void (*round)(const float *z, uint32_t rows, size_t pitch, uint32_t stride, int16_t *packed);
    void (*sums)(const sky_levels *levels, uint32_t padded, uint32_t *sums);
    void (*count)(const sky_coder *rows, uint32_t half, const sky_levels *levels, sky_windows *w);
    void (*costs)(const sky_histogram *h, uint32_t shift, uint64_t *cost);
    bool (*misfit)(const sky_coder *rows, uint32_t half, const sky_levels *levels);
    void (*encode_prepare)(sky_encode_tables *tables, const sky_coder *rows);
    uint8_t *(*row_encode)(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                           const int16_t *packed, uint8_t *end);
} sky_codec_kernels;

/* Those in use. */
const sky_codec_kernels *sky__kernels(void);

extern const sky_codec_kernels sky__kernels_scalar;
extern const sky_codec_kernels sky__kernels_avx512; /* x86-64 */
extern const sky_codec_kernels sky__kernels_avx2;
extern const sky_codec_kernels sky__kernels_neon; /* arm64 */

#endif
