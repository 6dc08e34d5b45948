/* What a blob has open, for the files that implement skymem/blob.h. */
#ifndef SKY_TIER_SHM_BLOB_STATE_H
#define SKY_TIER_SHM_BLOB_STATE_H

#include <skymem/blob.h>

#include "io/sync.h"
#include "tier/shm/link.h"

/* Memory of some program, as this one reads it. */
typedef struct sky__blob_region {
    struct sky__blob_region *next;
    uint32_t number;
    int fd;
    uint8_t *at;
    uint64_t bytes;
    uint32_t blocks; /* open */
    bool gone;       /* no more blocks of it come */
} sky__blob_region;

struct sky_blob {
    sky_mutex mutex; /* of all but the region of its own */
    uint64_t forks;
    sky__shm_link *link;
    bool broken; /* the connection has ended */
    uint32_t ids;
    sky__blob_region *regions; /* that it reads */

    uint8_t *own; /* NULL: none */
    uint64_t own_bytes;
    uint32_t own_number;
    sky_arena *places; /* in pages */
    uint32_t *extents; /* [pages]: of what was taken at this page, + 1 */
};

struct sky_block {
    sky_blob *blob;
    sky__blob_region *region;
    uint64_t lease;
    sky_block_layout layout;
    uint32_t buffers;
    uint64_t *offsets, *sizes, *checksums; /* [buffers] each, behind this */
};

/* Errors: SKY_E_PARAM, SKY_E_FORKED */
sky_status sky__blob_check(const sky_blob *b);

/* Ask for a block, and await the answer, which comes in the order of the questions: sky_block_get
 * in two halves. With the mutex held. Errors: those of sky_block_get */
sky_status sky__block_ask(sky_blob *b, uint32_t id, const sky_key *key);
sky_status sky__block_await(sky_blob *b, uint32_t id, const sky_key *key, sky_time until,
                            sky_block **out);
/* Return its lease. With the mutex held; sky__blob_flush follows, after the last. */
void sky__block_free(sky_block *k);
void sky__blob_flush(sky_blob *b);

/* The row of a buffer; UINT32_MAX: there is none. */
uint32_t sky__block_row(const sky_block_layout *l, uint32_t layer, uint32_t kv, uint32_t buffer);

#endif
