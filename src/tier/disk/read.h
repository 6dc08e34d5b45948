/* The reading half of a job, wherever its bytes come from: which part of the file is wanted, what
 * its header says, and pages that the kernel holds already.
 *
 *   plan ─► resident piece ─► resident piece ─► …    straight into the spans, as long as pages are
 *                │                                   resident; a piece is checked where it lies
 *                └─ the kernel lacks some ─► the I/O engine reads this piece and all behind it
 *
 * A resident piece is copied by the calling thread, which holds the item (enter, leave): no late
 * transfer can write into a caller's memory. */
#ifndef SKY_TIER_DISK_READ_H
#define SKY_TIER_DISK_READ_H

#include "tier/disk/io_engine.h"

/* A job to be planned that no I/O engine has. */
void sky_disk_job_clear(sky_disk_job *job, const sky_key *key);
/* Which part of the file to ask for, before the header tells the payload's exact size: at most one
 * page more than needed, and only the header when the spans cannot hold the range anyway. */
void sky_disk_read_plan(sky_disk_job *job);
/* Bytes of the file that a planned job reads, its header included. */
static inline uint64_t sky_disk_read_bytes(const sky_disk_job *job) {
    bool apart = job->first > SKY_DISK_HEADER_BYTES;
    return apart ? SKY_DISK_HEADER_BYTES + job->end - job->first : job->end;
}
/* Something of a planned job was not read yet. */
static inline bool sky_disk_read_unfinished(const sky_disk_job *job) {
    return job->next == 0 || job->next < job->end;
}
/* Where the piece that begins at job->next ends. The first one has the header, alone when the
 * range begins elsewhere. Those after it begin where pages or pieces begin: multiples of
 * SKY_DISK_PIECE_BYTES away from the range's first page, which keeps pages smaller than a piece
 * whole. */
uint64_t sky_disk_read_piece_end(const sky_disk_job *job);
/* Go on behind the piece that ends there. */
void sky_disk_read_advance(sky_disk_job *job, uint64_t piece_end);

/* Check the header and resolve the range by it. `bytes` as sky_disk_header_check.
 * Errors: as sky_disk_header_check; SKY_E_PARAM, SKY_E_DST_SMALL (range and spans) */
sky_status sky_disk_read_header(const sky_disk_folder *f, sky_disk_job *job,
                                uint8_t bytes[SKY_DISK_HEADER_BYTES]);
/* Move bytes between `data` and the item's spans where the job's cursor stands. */
void sky_disk_move_spans(sky_disk_job *job, const sky_item *item, uint8_t *data, size_t bytes);

/* Read the next piece if its pages are resident. `scratch` takes what the spans do not: the header,
 * and bytes that are only summed. Not for sealed folders.
 * Errors: SKY_E_BUSY (the kernel lacks a page, or scratch is too small: nothing changed), as
 *         sky_disk_read_header, SKY_E_CORRUPT */
sky_status sky_disk_read_resident(const sky_disk_folder *f, sky_disk_job *job, const sky_item *item,
                                  uint8_t *scratch, size_t scratch_bytes);

#endif
