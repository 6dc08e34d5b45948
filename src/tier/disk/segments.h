/* The segments of a folder, as one process sees them: which key stands where, and where there is
 * room (segment.h has their bytes).
 *
 *   reserve ─► write the entry ─► publish (its row) ─► sync ─► release what it replaced
 *
 * PATH/.segment-N: those that exist have the numbers from 0 on. A process that stores small entries
 * locks (flock) the segments it allocates in, for as long as it lives; others read them, and may
 * remove entries, whose rows they set to zero. So a place is used again by one process only, which
 * looks at the rows on the disk before it makes another segment.
 *
 * A row is compared with the disk each time it is used, so that what another process removed is not
 * found. New rows of others are found by their segment's count of changes.
 *
 * A segment that cannot be read may hold any key: until it is read, or removed, no key is absent,
 * none is published and none is removed.
 *
 * Caveats: a place may be used again while a reader is at it. What it reads then fails its
 * checksums; whether the row still stands (sky_disk_segments_stand) tells that from damage.
 *
 * Thread rule: any thread; one mutex inside. */
#ifndef SKY_TIER_DISK_SEGMENTS_H
#define SKY_TIER_DISK_SEGMENTS_H

#include "tier/disk/segment.h"

/* Where an entry's bytes are. All zero: in a file of its own. */
typedef struct {
    uint32_t segment;
    uint32_t row;
    uint32_t unit_count; /* 0: in no segment */
    uint64_t base;       /* where it begins in the segment's file */
    uint64_t sequence;   /* 0: its row is not written yet */
    uint64_t checksum;   /* of its header: what the row says, or what it will say */
    uint32_t load;       /* a place of an earlier load is none */
} sky_disk_place;

static inline bool sky_disk_in_segment(const sky_disk_place *p) {
    return p->unit_count > 0;
}

typedef struct sky_disk_segments sky_disk_segments;

/* bytes_max: the folder's limit. Free places may take a sixteenth of it; one that is freed beyond
 * that gives its blocks back. Errors: SKY_E_NOMEM */
sky_status sky_disk_segments_create(uint64_t bytes_max, sky_disk_segments **out);
void sky_disk_segments_destroy(sky_disk_segments *s); /* NULL is fine */
/* Forget all, and open those that stand in the folder. root: stays open until the next load. */
void sky_disk_segments_load(sky_disk_segments *s, int root, bool writable);

/* The place of a key, and its file: a descriptor for the caller to close. `at_once`: only if that
 * needs no disk and no waiting, else SKY_E_BUSY.
 * Errors: SKY_MISS, SKY_E_BUSY, SKY_E_IO (also when it may stand in a segment that cannot be read)
 */
sky_status sky_disk_segments_find(sky_disk_segments *s, const sky_key *key, bool at_once,
                                  sky_disk_place *out, int *fd);
/* Look for what other processes added, and for what could not be read. False when nothing is known
 * now that was not before. */
bool sky_disk_segments_refresh(sky_disk_segments *s);
/* All segments could be read, now or before. Else nothing is to be changed: what stands in the
 * others would outlive it. */
bool sky_disk_segments_known(sky_disk_segments *s);
/* The key is still what stands at this place. */
bool sky_disk_segments_stand(sky_disk_segments *s, const sky_key *key, const sky_disk_place *p);

/* Room for an entry of file_bytes, in a segment that exists or is made now; and its file, for the
 * caller to close, which nobody shares: the kernel tells each open file once that written bytes
 * were lost, so that a sync of this one fails, too. `release` gives the room back,
 * `publish` makes it an entry.
 * Errors: SKY_E_UNSUPPORTED (too large for a segment, or no segments here), SKY_E_FULL, SKY_E_BUSY,
 *         SKY_E_DENIED, SKY_E_IO (also when the folder was removed), SKY_E_NOMEM */
sky_status sky_disk_segments_reserve(sky_disk_segments *s, uint64_t file_bytes, sky_disk_place *out,
                                     int *fd);
/* The file of a reserved place again. Errors: SKY_E_IO */
sky_status sky_disk_segments_open(sky_disk_segments *s, const sky_disk_place *p, int *fd);
/* Write the row of a reserved place, whose entry is written. *old: what stood for the key before;
 * it stays on the disk until it is released. Errors: SKY_E_BUSY, SKY_E_IO, SKY_E_FULL */
sky_status sky_disk_segments_publish(sky_disk_segments *s, const sky_key *key, sky_disk_place *p,
                                     sky_disk_place *old);
/* Give back a place that was reserved, or that was replaced by one that is synced now. */
void sky_disk_segments_release(sky_disk_segments *s, const sky_disk_place *p);
/* Take back one that was published and could not be synced: what it replaced stands again. */
void sky_disk_segments_withdraw(sky_disk_segments *s, const sky_disk_place *p);
/* The file system is full: the blocks of all free room go back to it. */
void sky_disk_segments_shrink(sky_disk_segments *s);
/* Remove a key. `synced`: its row does not come back after a power failure. An older row of it,
 * if one still stands, does not in any case.
 * Errors: SKY_MISS, SKY_E_BUSY, SKY_E_IO, SKY_E_DENIED */
sky_status sky_disk_segments_remove(sky_disk_segments *s, const sky_key *key, bool synced,
                                    uint64_t *freed_bytes);

/* What stands for a key does not go in a power failure. Errors: SKY_MISS, SKY_E_IO */
sky_status sky_disk_segments_sync(sky_disk_segments *s, const sky_key *key);

/* The next key that stands here, or false at the end. Start at *cursor 0. `replaced`: only keys of
 * which an older row stands too, as a crash leaves them. */
bool sky_disk_segments_next(sky_disk_segments *s, bool replaced, uint32_t *cursor, sky_key *key);
/* Of a key with several rows keep the newest, which is synced first, or without `keep` drop that
 * one. True when several are left of which the newest is now to be judged. */
bool sky_disk_segments_settle(sky_disk_segments *s, const sky_key *key, bool keep);

#endif
