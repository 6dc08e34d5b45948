/* The levels at which a tier keeps each block, best first, and where each of them lies.
 *
 *   level=8,4,2      step   key in the inner tier          told by the inner tier as coded at
 *                    0      the block's                    8
 *                    1      sky_level_key(block's, 4)      4, beside
 *                    2      sky_level_key(block's, 2)      2, beside
 *
 * So a tier of one level keeps what it always did, and each level is an entry of its own, with a
 * chain of parents of its own: what is lost at one level is lost at no other.
 *
 * Surprise: `beside` is a mark in the coding itself. A key alone does not tell whether it was
 * derived, and without that nobody could list blocks by their own keys. */
#ifndef SKY_TIER_ENCODED_LEVEL_SET_H
#define SKY_TIER_ENCODED_LEVEL_SET_H

#include <skymem/cache.h>

typedef struct {
    sky_coding codings[SKY_CODINGS_MAX]; /* rising: levels fall */
    uint32_t count;                      /* at least 1 */
} sky_level_set;

/* "4" or "8,4,2", in any order. Errors: SKY_E_SYNTAX: no level, or one that stands there twice */
sky_status sky_level_set_parse(const char *text, sky_level_set *out);
/* "8,4,2". Room for 64 bytes is always enough. */
void sky_level_set_text(const sky_level_set *levels, char *out, size_t out_bytes);
/* The step at which this coding stands; 0 when none does. */
uint32_t sky_level_set_step(const sky_level_set *levels, sky_coding coding);

/* Key of a block coded in one way, where each is an entry of its own: the block's key for coding 0,
 * else the block's key XOR BLAKE2b-256("skymem level" ‖ coding as one byte). It is its own inverse,
 * so that a tier can list blocks; and it does not hide that two entries are of one block. */
void sky_level_key(const sky_key *block, sky_coding coding, sky_key *out);

/* Where a block's code lies at a step, and as what it is put there. A key of zeros, no parent,
 * stays one. */
sky_key sky_level_set_key(const sky_level_set *levels, uint32_t step, const sky_key *block);
sky_coding sky_level_set_coding(const sky_level_set *levels, uint32_t step);
/* The coding without its mark. */
sky_coding sky_level_set_unmark(sky_coding told);
/* What the inner tier lists, as an entry of the block it belongs to. */
void sky_level_set_entry(sky_entry *entry);

#endif
