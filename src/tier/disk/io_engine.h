/* Moves payloads between files and callers' spans, many at a time, through buffers of its own.
 *
 *   read:   page cache ── copy, inside enter/leave ──► spans ── check pages     (read.h)
 *           file ──aio──► buffer ── check pages ── copy, inside enter/leave ──► spans
 *   write:  spans ── copy, inside enter/leave ──► buffer ── sum pages ──aio──► file ── sync
 *                                                                        └───► segment
 *
 * A caller's memory is never under a transfer, so a cancelled or late batch is let go at once. The
 * pieces of a job start in order and are dealt with in order; pieces of many jobs are under way
 * together. The header travels with the first piece where it lies beside it. Pages larger than a
 * piece are copied before their last byte was checked: the item still ends SKY_E_CORRUPT.
 *
 * One thread owns it. Bounded: SKY_DISK_JOBS jobs, SKY_DISK_BUFFERS pieces, 14.3 MiB. */
#ifndef SKY_TIER_DISK_IO_ENGINE_H
#define SKY_TIER_DISK_IO_ENGINE_H

#include "tier/batch.h"
#include "tier/disk/folder.h"

#define SKY_DISK_PIECE_BYTES   262144u
#define SKY_DISK_READ_BUFFERS  48u /* the most that reads, and that writes may hold: */
#define SKY_DISK_WRITE_BUFFERS 32u /* each leaves some to the other */
#define SKY_DISK_BUFFERS       56u
#define SKY_DISK_JOBS          48u

/* SYNC: a folder, or an entry that was written to a segment: those of one segment share their
 * syncs. A file is synced by its WRITE. */
typedef enum { SKY_DISK_READ, SKY_DISK_WRITE, SKY_DISK_SYNC } sky_disk_move;

typedef enum { SKY_DISK_PIECES, SKY_DISK_UNSYNCED, SKY_DISK_SYNCING, SKY_DISK_OVER } sky_disk_phase;

typedef struct sky_disk_job {
    /* For whoever starts the job to fill. */
    sky_disk_move move;
    sky_batch batch;
    size_t item;
    sky_disk_opened entry; /* closed by who opened it, after done */
    sky_key key;
    sky_disk_header header; /* write: all but page checksums; read: filled by the first piece */
    sky_range range;        /* read: as asked for */
    uint64_t span_bytes;    /* read: all spans together */
    void *owner;            /* not looked at here */

    /* The outcome. Items are not finished here. */
    sky_status status; /* SKY_E_CANCELLED: the batch was over */
    uint64_t bytes;    /* moved to or from the spans */

    /* The I/O engine's own. */
    uint64_t next;               /* file offset of the next piece to start */
    uint64_t first;              /* of the first page the range touches */
    uint64_t end;                /* behind the last */
    uint64_t copy_from, copy_to; /* read: bytes of the payload that are wanted */
    size_t span;                 /* where copying stands: span and offset in it */
    size_t span_offset;
    uint32_t piece_first, piece_last; /* buffers under way, in order of start */
    sky_disk_phase phase;
    bool header_started;
    sky_disk_pages pages; /* checksums, up to where copying stands */
    struct sky_disk_job *after;
} sky_disk_job;

typedef struct sky_disk_io_engine sky_disk_io_engine;

/* `done` is called from pump when a job is over; the job is then the owner's again. */
typedef void (*sky_disk_done_fn)(void *context, sky_disk_job *job);
sky_status sky_disk_io_engine_create(sky_batches *batches, const sky_disk_folder *folder,
                                     sky_disk_done_fn done, void *context,
                                     sky_disk_io_engine **out);
void sky_disk_io_engine_destroy(sky_disk_io_engine *m); /* nothing may be under way; NULL is fine */

/* Jobs of one kind proceed in the order they came; reads before writes. */
void sky_disk_io_engine_start(sky_disk_io_engine *m, sky_disk_job *job);
/* Take what came back, start what there is room for. */
void sky_disk_io_engine_pump(sky_disk_io_engine *m);
/* Begin the syncs that segments wait for: one at a time for each, for all that was written before
 * it. */
void sky_disk_io_engine_sync(sky_disk_io_engine *m);
int sky_disk_io_engine_event_fd(const sky_disk_io_engine *m);
const char *sky_disk_io_engine_backend(const sky_disk_io_engine *m);

#endif
