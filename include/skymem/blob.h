/* Blocks in memory that a program laid out itself, shared by the processes of a host without a
 * copy.
 *
 *   engine A                               skymemd              engine B
 *   sky_blob_open: a region ─ descriptor ─►  its number
 *   (allocator and layout are A's)
 *   sky_block_put(key, offsets, sizes) ───►  the block's rows
 *                                            ◄──────────────── sky_block_get(key)
 *                                            ─ descriptor ──►  the region, mapped read-only:
 *                                                              sky_block_view, sky_block_read
 *
 * A block is up to SKY_BLOCK_BUFFERS_MAX buffers anywhere in the region, such as one for each layer
 * and K or V. No byte of a payload is copied, neither by a put nor by a get that maps.
 *
 * What a program may rely on:
 *  - The owner must not change a published buffer before sky_block_remove of its block returned
 *    SKY_OK. Nothing but that keeps it from it: its memory stays writable. sky_block_put takes a
 *    checksum of each buffer, and sky_block_read compares it with the bytes that it copied: wrong
 *    bytes end SKY_E_CORRUPT, a miss. What sky_block_view shows is compared with nothing.
 *  - A block that is open stays readable until it is released, whatever becomes of its owner, of
 *    the host and of its connection.
 *  - SKY_E_IO of put, remove and get, and SKY_E_CORRUPT and SKY_E_NOMEM of these, end the blob's
 *    connection: its blocks go, and owners no longer wait for what it has open. Close it and open
 *    another.
 *  - When the owner closes its blob or dies, SIGKILL included, its blocks go: as soon as the host
 *    notices, nobody opens them any more. What was pinned or prefetched in the ordinary way
 *    (SKY_OP_PIN, SKY_OP_PREFETCH of skymem/cache.h over shm:) was copied into the host's arena
 *    then, and stays as any payload: the buffers one after the other.
 *  - The ordinary operations see published blocks: HAS finds them, GET and LEASE copy them into the
 *    arena first, REMOVE withdraws them. sky_list does not show them.
 *  - Only processes of the owner's user see them, as with all of a host.
 *  - Threads: every call is safe from any thread; calls on one blob wait for each other. close must
 *    be the last one on a blob, and after the release of the blocks that were got through it.
 *  - fork: in a child every call on what the parent opened returns SKY_E_FORKED, and close and
 *    release do nothing. */
#ifndef SKYMEM_BLOB_H
#define SKYMEM_BLOB_H

#include <skymem/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_BLOCK_BUFFERS_MAX 4096u /* of a block */

typedef struct sky_blob sky_blob;   /* a connection to a host, and perhaps a region */
typedef struct sky_block sky_block; /* a block that is open */

/* Zero what you do not set. */
typedef struct {
    size_t struct_bytes; /* sizeof(sky_blob_options) of the caller's header */
    uint64_t bytes;      /* of the region; 0: none, this program only reads */
    /* A memfd of at least `bytes` bytes, made with MFD_ALLOW_SEALING; 0 or -1: one is made. It is
     * sealed: nobody can resize it, punch holes into it or newly map it for writing. What is mapped
     * for writing before stays so: map it before, as only such a mapping can write to it when it is
     * registered again (after SKY_E_IO, say), and sky_blob_memory is for reading alone then. No
     * huge pages of a pool (MFD_HUGETLB). The descriptor stays the caller's */
    int fd;
} sky_blob_options;

/* Connect to the host of a store's URL, shm:SOCKET or shm:auto, and register a region with it.
 * *out is the caller's, to close with sky_blob_close. `options` NULL: all zeros.
 * Errors: SKY_E_PARAM (NULL, struct_bytes; the descriptor is not such memory), SKY_E_SYNTAX (the
 *         URL), SKY_E_DENIED, SKY_E_BUSY (the host has too many clients), SKY_E_FULL (it takes no
 *         region so large), SKY_E_DEADLINE (no answer in 5 s), SKY_E_UNSUPPORTED (it is of another
 *         version), SKY_E_CORRUPT (it is no host), SKY_E_IO (nobody listens there), SKY_E_NOMEM;
 *         `error` says what and why */
SKY_API sky_status sky_blob_open(const char *url, const sky_blob_options *options, sky_blob **out,
                                 sky_error *error);
/* NULL is fine. The region is unmapped; its blocks go. */
SKY_API void sky_blob_close(sky_blob *blob);

/* The region, zeroed and writable if it was made here; NULL: there is none. It may also be written
 * through mappings of the caller's own. */
SKY_API void *sky_blob_memory(const sky_blob *blob);

/* An allocator for programs that have none: `bytes` bytes of the region, at a multiple of 4096.
 * Errors: SKY_E_PARAM (NULL, 0 bytes, no region), SKY_E_FULL, SKY_E_FORKED */
SKY_API sky_status sky_blob_take(sky_blob *blob, uint64_t bytes, uint64_t *offset);
/* Give back what sky_blob_take returned.
 * Errors: SKY_E_PARAM (no such offset is taken), SKY_E_FORKED */
SKY_API sky_status sky_blob_give(sky_blob *blob, uint64_t offset);

/* Where the buffers of a block lie. */
typedef struct {
    sky_key key;         /* as of any block: the hash of its content's origin (skymem/keys.h) */
    uint32_t shape[3];   /* buffers along each axis, the last varying fastest, such as [52, 2, 1]:
                            layers, K and V, buffers */
    uint32_t layer_axis; /* which axis counts layers: 0, 1 or 2; at most SKY_LAYERS_MAX. Of the
                            others the first counts K and V, the second buffers */
    /* Shape: [shape[0] * shape[1] * shape[2]], bytes from the start of the region; 1 to
     * SKY_BLOCK_BUFFERS_MAX buffers of 1 byte to 4 GiB - 1 in all */
    const uint64_t *offsets;
    const uint64_t *sizes;
} sky_block_layout;

/* Publish blocks of this blob's region. Each buffer is read once, for its checksum, and none is
 * copied. *done (NULL: not wanted): how many of them, in their order, are published. After an error
 * some of the 16 behind the one that failed may be published too: sky_block_remove them (SKY_MISS:
 * it was not) before their memory changes.
 * Errors: SKY_E_PARAM (NULL, no region, a shape, a buffer outside the region), SKY_E_BUSY (this
 *         blob has published the key already, or withdrew it and it is open still), SKY_E_FULL (the
 *         user has 65,536 blocks or 4,194,304 buffers), SKY_E_DEADLINE (`until` came first: it may
 *         be published), SKY_E_IO (the host is gone: open again), SKY_E_CORRUPT (what the host
 *         says makes no sense), SKY_E_NOMEM, SKY_E_FORKED; the first that failed ends the call */
SKY_API sky_status sky_block_put(sky_blob *blob, const sky_block_layout *blocks, size_t count,
                                 sky_time until, size_t *done);

/* Withdraw a block of this blob, and wait until nobody has it open: then its memory may change.
 * Errors: SKY_E_PARAM, SKY_MISS (it is not published by this blob), SKY_E_DEADLINE (it is open
 *         still at `until`, or the host did not answer: call again; SKY_MISS means then that it is
 *         not), SKY_E_IO (the host is gone: whether it is open is not known), SKY_E_CORRUPT,
 *         SKY_E_NOMEM (as of put), SKY_E_FORKED */
SKY_API sky_status sky_block_remove(sky_blob *blob, const sky_key *key, sky_time until);

/* Open the block that somebody published last under a key: its region is mapped for reading, once.
 * Errors: SKY_E_PARAM, SKY_MISS, SKY_E_BUSY (16,384 are open), SKY_E_DEADLINE, SKY_E_IO (the host
 *         is gone: open again), SKY_E_CORRUPT (what it says makes no sense), SKY_E_NOMEM,
 *         SKY_E_FORKED */
SKY_API sky_status sky_block_get(sky_blob *blob, const sky_key *key, sky_time until,
                                 sky_block **out);
/* NULL is fine. */
SKY_API void sky_block_release(sky_block *block);

/* Its key, shape, offsets and sizes; what it points to is valid until the release. */
SKY_API const sky_block_layout *sky_block_describe(const sky_block *block);

/* One buffer where it lies: to be read only, valid until the release.
 * Errors: SKY_E_PARAM (NULL, an index that the shape does not have) */
SKY_API sky_status sky_block_view(const sky_block *block, uint32_t layer, uint32_t kv,
                                  uint32_t buffer, sky_span *out);

#define SKY_BLOCK_ALL UINT32_MAX

/* Copy a layer's buffers, K's before V's, or with SKY_BLOCK_ALL those of all in the order of the
 * shape, one after the other into the spans, and compare the copies with their checksums. No span:
 * compare them where they lie.
 * Errors: SKY_E_PARAM (NULL, no such layer), SKY_E_DST_SMALL (the spans have less room),
 *         SKY_E_CORRUPT (the owner changed them: as a miss), SKY_E_FORKED; then the bytes in the
 *         spans are undefined */
SKY_API sky_status sky_block_read(const sky_block *block, uint32_t layer, const sky_span *spans,
                                  uint32_t span_count);

/* ---- blocks side by side ----
 *
 *   block 0  | K0 | V0 | K1 | V1 |           layer 0, K  | 0 | 1 | 2 |   one range of addresses for
 *   block 1  | K0 | V0 | K1 | V1 |    ──►    layer 0, V  | 0 | 1 | 2 |   each buffer of the shape:
 *   block 2  | K0 | V0 | K1 | V1 |           layer 1, K  | 0 | 1 | 2 |   the blocks' own memory
 *
 * For an engine that wants a layer's K or V of a whole prompt contiguous: nothing is copied. What
 * can be mapped so:
 *  - blocks of one shape, whose buffers have the same sizes from block to block; those of one block
 *    may differ;
 *  - each size and each offset in the region is a multiple of a page (sysconf(_SC_PAGESIZE), 4096
 *    on most machines). So block_tokens times the bytes of a token's row must be one: 128 tokens
 *    of 1 KiB are 32 pages. sky_blob_take gives offsets that are multiples of 4096.
 *  - They may be of several owners.
 * Payloads of ordinary operations cannot be mapped so: they lie wherever the arena has room, behind
 * a header.
 *
 * Linux gives a process 65,530 mappings (vm.max_map_count). A buffer is one, unless it follows that
 * of the block before in its region: then it needs none of its own. */
typedef struct sky_mapping sky_mapping;

#define SKY_MAPPING_BLOCKS_MAX 16384u

/* Open blocks as sky_block_get does, and map their buffers side by side, for reading. The mapping
 * ends before the first block that is not there: sky_mapping_block_count tells where. What it
 * shows is compared with nothing; sky_block_read of sky_mapping_block, without spans, compares it.
 * Shape:  keys [key_count], 1 to SKY_MAPPING_BLOCKS_MAX, in the order in which they are mapped
 * Owner:  *out is the caller's, to close with sky_mapping_close before the blob is closed
 * Errors: SKY_E_PARAM, SKY_MISS (the first block is not there), SKY_E_UNSUPPORTED (a block that
 *         cannot be mapped so), SKY_E_NOMEM (memory, addresses, mappings), SKY_E_BUSY,
 *         SKY_E_DEADLINE, SKY_E_IO, SKY_E_CORRUPT, SKY_E_FORKED as of sky_block_get; nothing is
 *         open then, and `error` says which block and why */
SKY_API sky_status sky_mapping_open(sky_blob *blob, const sky_key *keys, size_t key_count,
                                    sky_time until, sky_mapping **out, sky_error *error);
/* Unmap, and release the blocks. NULL is fine. */
SKY_API void sky_mapping_close(sky_mapping *mapping);

/* How many blocks are mapped: the leading ones of the keys; 0: mapping is NULL. */
SKY_API size_t sky_mapping_block_count(const sky_mapping *mapping);
/* One of them, to be described, viewed and read; it ends with the mapping and is not released.
 * NULL: there is no such block. */
SKY_API const sky_block *sky_mapping_block(const sky_mapping *mapping, size_t index);

/* One buffer of all blocks, one after the other: to be read only, valid until the close.
 * Errors: SKY_E_PARAM (NULL, an index that the shape does not have), SKY_E_FORKED */
SKY_API sky_status sky_mapping_view(const sky_mapping *mapping, uint32_t layer, uint32_t kv,
                                    uint32_t buffer, sky_span *out);

#ifdef __cplusplus
}
#endif
#endif
