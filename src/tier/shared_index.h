/* The index of an arena, in memory of its own that other processes map: they find a block and keep
 * it from being freed without a word to the owner of the arena.
 *
 *   owner                                                             readers
 *   index           | generations | bucket | bucket | …   ──►  mapped for reading
 *     bucket: four slots | stamp | key | place | bytes, flags |
 *   page of a reader | hazards 0 1 2 … | uses |           ◄──► both write, a page for each reader
 *
 * A reader finds the slot of a key, writes its stamp into a hazard of its own, and looks at the
 * slot once more. The owner zeroes the stamp of a slot, and then looks at all hazards. Both do this
 * in sequentially consistent order, so that one of them sees the other: either the reader sees that
 * the block is gone, or the owner that it is kept (hazard pointers, Michael 2004). A stamp is never
 * given twice. Which blocks were used goes to the owner through the uses of the page.
 *
 * The owner trusts no page: a hazard keeps at most one block that the reader may read anyway, and a
 * use that is none is passed over. Readers check what they read of an index against what they have
 * mapped. A block that finds its bucket full is not shown: who wants it asks.
 *
 * Source: docs/decisions/0067-blocks-found-without-the-host.md; bytes: docs/formats/shm.md */
#ifndef SKY_TIER_SHARED_INDEX_H
#define SKY_TIER_SHARED_INDEX_H

#include <stdatomic.h>

#include <skymem/cache.h>

#define SKY_SHARED_HAZARDS     128u /* blocks that a reader keeps at once */
#define SKY_SHARED_READERS_MAX 256u
#define SKY_SHARED_SEGMENTS    64u

/* A block as it is shown. */
typedef struct {
    uint64_t at; /* offset in the arena */
    uint32_t bytes;
    uint32_t number; /* the owner's, which sky_shared_index_uses tells */
    sky_coding coding;
    uint8_t evict;
    bool pinned;
} sky_shared_block;

/* ---- the owner; not thread-safe: it lies under its user's lock ---- */

typedef struct sky_shared_index sky_shared_index;

/* With room for so many blocks; memory is taken as they come.
 * Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED */
sky_status sky_shared_index_create(uint32_t blocks, sky_shared_index **out);
/* NULL is fine. Readers are ended; what they have mapped stays. */
void sky_shared_index_destroy(sky_shared_index *x);
/* To be sent to readers; it stays the index's. */
int sky_shared_index_fd(const sky_shared_index *x);

/* Show a block that is not shown. Returns its stamp; 0: there is no room. */
uint64_t sky_shared_index_show(sky_shared_index *x, const sky_key *key, const sky_shared_block *b);
/* Nobody finds it any more; sky_shared_index_is_kept tells whether somebody still reads it. */
void sky_shared_index_hide(sky_shared_index *x, const sky_key *key, uint64_t stamp);
/* What may change of a block that is shown. True: it was another. */
bool sky_shared_index_mark(sky_shared_index *x, const sky_key *key, uint64_t stamp, uint8_t evict,
                           bool pinned);
/* Readers map a segment of the arena of this generation; 0: there is none now. */
void sky_shared_index_segment(sky_shared_index *x, uint32_t segment, uint64_t generation);

/* A page for one more reader.
 * Owner:  *fd, to be sent to it, is the caller's
 * Errors: SKY_E_BUSY (there are SKY_SHARED_READERS_MAX), SKY_E_NOMEM, SKY_E_UNSUPPORTED */
sky_status sky_shared_index_join(sky_shared_index *x, uint32_t *reader, int *fd);
/* It finds nothing from now on. True: it keeps something still. */
bool sky_shared_index_end(sky_shared_index *x, uint32_t reader);
/* It is gone, or it was ended and kept nothing then. */
void sky_shared_index_leave(sky_shared_index *x, uint32_t reader);

/* Whether a reader keeps the block of this stamp, which was hidden before. */
bool sky_shared_index_is_kept(const sky_shared_index *x, uint64_t stamp);
/* The blocks that are kept now, so that none of them is chosen to be freed: how many hazards are
 * set. sky_shared_index_seems_kept then tells of a stamp, and of 1 in 65,536 others, that it is. */
uint32_t sky_shared_index_survey(sky_shared_index *x);
bool sky_shared_index_seems_kept(const sky_shared_index *x, uint64_t stamp);

/* Tell the number of each block that readers used since the last call, of each reader the earliest
 * first; those that are hidden by now are left out. *count: how many uses, with those for which
 * there was no room in a page.
 * True: not all readers were looked at, as there was much; the others are first next time. */
bool sky_shared_index_uses(sky_shared_index *x, void (*used)(void *context, uint32_t number),
                           void *context, uint64_t *count);

/* ---- a reader; not thread-safe ---- */

struct sky__shared_memory;
struct sky__shared_page;

/* All zeros: none. */
typedef struct {
    const struct sky__shared_memory *memory; /* NULL: not mapped */
    uint64_t memory_bytes;
    uint32_t bucket_mask;
    struct sky__shared_page *page; /* NULL: not mapped */
    uint32_t uses;                 /* told so far */
    uint32_t untold;               /* so far found no room, as the owner took none */
    uint32_t free_count;
    uint16_t free[SKY_SHARED_HAZARDS]; /* those of the lowest numbers are taken first */
} sky_shared_reader;

/* Map an index, and the page, whose descriptors stay the caller's.
 * Errors: SKY_E_CORRUPT (it is none, or there is one already), SKY_E_NOMEM */
sky_status sky_shared_reader_map_index(sky_shared_reader *r, int fd);
sky_status sky_shared_reader_map_page(sky_shared_reader *r, int fd);
/* Nothing is to be kept any more. Fine on zeros. */
void sky_shared_reader_unmap(sky_shared_reader *r);

/* A block that was found. */
typedef struct {
    sky_shared_block block;
    uint64_t stamp;
    uint32_t slot;
} sky_shared_found;

/* False: it is not shown. What it says may be over already. */
bool sky_shared_reader_find(const sky_shared_reader *r, const sky_key *key, sky_shared_found *out);
/* Find a block and keep it: its bytes stay where they are until it is let go. False: it is not
 * shown, or as many are kept as may be. *hazard: what to let go. */
bool sky_shared_reader_keep(sky_shared_reader *r, const sky_key *key, sky_shared_found *out,
                            uint32_t *hazard);
void sky_shared_reader_let_go(sky_shared_reader *r, uint32_t hazard);
/* Tell the owner of a use. It is only counted while the owner takes none. True: half of the room
 * for them is full just now, and the owner is to be woken. */
bool sky_shared_reader_tell(sky_shared_reader *r, const sky_shared_found *f);
/* The generation of a segment; it stays while a block in it is kept. */
uint64_t sky_shared_reader_segment(const sky_shared_reader *r, uint32_t segment);

#endif
