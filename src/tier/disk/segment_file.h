/* One segment as a file: its units, its rows on the disk, and how it is made. Which key stands
 * where in all segments of a folder is known to segments.h.
 *
 * Thread rule: the caller keeps two threads out of one segment. Other processes have the same file:
 * what is read of it may be any bytes. */
#ifndef SKY_TIER_DISK_SEGMENT_FILE_H
#define SKY_TIER_DISK_SEGMENT_FILE_H

#include "tier/disk/segment.h"

#define SKY_SEGMENT_NAME_BYTES   24
#define SKY_SEGMENT_BITMAP_WORDS (SKY_SEGMENT_UNITS_MAX / 64)

/* FREE: for a new row. RESERVED: its units are taken, and the disk has zeros. LIVE: it stands for
 * its key. REPLACED: it did, and is still on the disk. */
typedef enum {
    SKY_ROW_FREE,
    SKY_ROW_RESERVED,
    SKY_ROW_LIVE,
    SKY_ROW_REPLACED
} sky_segment_row_state;

/* A row as this process knows it. */
typedef struct {
    sky_segment_row row;
    uint32_t next; /* for its user */
    sky_segment_row_state state;
} sky_segment_known;

typedef struct {
    int fd;
    uint32_t number;
    uint32_t units;
    uint32_t units_free;
    uint32_t cursor; /* where the search for units goes on */
    uint32_t zeroed; /* units before this one were written once, those behind it are free */
    bool owned;      /* locked by this process, which allocates here */
    bool stale;      /* a row was cleared, and may come back without a sync */
    uint64_t changes;
    uint64_t taken[SKY_SEGMENT_BITMAP_WORDS];
    uint64_t punched[SKY_SEGMENT_BITMAP_WORDS]; /* free, and without blocks */
    sky_segment_known rows[SKY_SEGMENT_ROWS];
} sky_segment;

static inline uint64_t sky_segment_data_at(uint32_t unit) {
    return SKY_SEGMENT_DATA_OFFSET + (uint64_t)unit * SKY_SEGMENT_UNIT_BYTES;
}

/* ".segment-N", in the folder. */
void sky_segment_name(uint32_t number, char name[SKY_SEGMENT_NAME_BYTES]);
/* An open file of `bytes` bytes as a segment without rows.
 * Owner:  the caller, with free() and the descriptor
 * Errors: SKY_E_CORRUPT (it is none, or is not finished), SKY_E_IO, SKY_E_NOMEM */
sky_status sky_segment_make(uint32_t number, int fd, uint64_t bytes, sky_segment **out);
/* Make an open file a segment without entries, of at most units_max, and sync it and the folder
 * `root`. Errors: SKY_E_FULL, SKY_E_IO */
sky_status sky_segment_format(uint32_t number, uint32_t units_max, int root, int fd);
/* It was removed from its folder, or cut short. */
bool sky_segment_is_gone(const sky_segment *g);
/* How many rows its owner wrote, as the file says. */
uint64_t sky_segment_changes(const sky_segment *g);

/* No other process publishes an entry of this key meanwhile. `g` is the same for all: segment 0.
 * False: another one has it for too long. */
bool sky_segment_hold_key(const sky_segment *g, const sky_key *key);
void sky_segment_release_key(const sky_segment *g, const sky_key *key);

/* ---- units; ranges are within the segment ---- */

bool sky_segment_units_free(const sky_segment *g, uint32_t unit, uint32_t count);
/* How many of these have no blocks. */
uint32_t sky_segment_holes(const sky_segment *g, uint32_t unit, uint32_t count);
/* The first of so many that are free, or UINT32_MAX. */
uint32_t sky_segment_find_units(sky_segment *g, uint32_t count);
/* Returns how many of them had blocks. */
uint32_t sky_segment_take_units(sky_segment *g, uint32_t unit, uint32_t count);
/* `punch`: give their blocks back. False when they have them still. */
bool sky_segment_give_units(sky_segment *g, uint32_t unit, uint32_t count, bool punch);
/* Another process is about to write to an entry that stood here (sky_disk_entry_hold). */
bool sky_segment_is_held(const sky_segment *g, uint32_t unit, uint32_t count);
/* Give the blocks of all free units back. Returns of how many. */
uint32_t sky_segment_punch_free(sky_segment *g);
/* Write units before `end` that were never written, and some more. Blocks that are written the
 * first time have to be noted by the file system, which a sync waits for: this does that for many.
 */
void sky_segment_zero_ahead(sky_segment *g, uint32_t end);

/* ---- rows ---- */

bool sky_segment_row_same(const sky_segment_row *a, const sky_segment_row *b);
/* What this process knows of a row is what the disk says. `at_once`: only without waiting.
 * Errors: SKY_MISS: it is not; SKY_E_BUSY; SKY_E_IO */
sky_status sky_segment_row_compare(const sky_segment *g, uint32_t row, bool at_once);
/* Set a row to zero. Errors: SKY_MISS (it is another by now), SKY_E_BUSY, SKY_E_IO */
sky_status sky_segment_row_clear(const sky_segment *g, uint32_t row);
/* Write what this process knows, and count it. Errors: SKY_E_BUSY, SKY_E_IO */
sky_status sky_segment_row_write(sky_segment *g, uint32_t row);

#endif
