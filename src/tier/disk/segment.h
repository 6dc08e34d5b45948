/* A segment as bytes: many small entries in one file, docs/formats/segment.md.
 *
 *   0          4096            69632                                            69632 + data
 *   ┌──────────┬───────────────┬──────────────────────┬──────────────────────┬─── ─┐
 *   │ head     │ 1024 rows     │ entry, as its file   │ entry                │  …  │
 *   │          │ of 64 bytes   │ would be (format.h)  │                      │     │
 *   └──────────┴───────────────┴──────────────────────┴──────────────────────┴─── ─┘
 *
 * A row says which key stands at which place of the data, in units of 4096 bytes. An entry is
 * there once its row is: the row is written behind the entry's bytes and taken away before its
 * place is used again. Of several rows of one key the one with the highest sequence counts.
 *
 * Invariants: a row lies in one sector, which a disk writes whole or not at all; it names the
 * checksum of the header that it stands for, so that no row passes for another, and no place that
 * was used again for what stood there before. Pure: any bytes may be decoded. */
#ifndef SKY_TIER_DISK_SEGMENT_H
#define SKY_TIER_DISK_SEGMENT_H

#include "tier/disk/format.h"

#define SKY_SEGMENT_HEAD_BYTES  4096u
#define SKY_SEGMENT_ROWS        1024u
#define SKY_SEGMENT_ROW_BYTES   64u
#define SKY_SEGMENT_DATA_OFFSET (SKY_SEGMENT_HEAD_BYTES + SKY_SEGMENT_ROWS * SKY_SEGMENT_ROW_BYTES)
#define SKY_SEGMENT_UNIT_BYTES  SKY_DISK_ALIGN
#define SKY_SEGMENT_UNITS_MIN   64u   /* 256 KiB */
#define SKY_SEGMENT_UNITS_MAX   8192u /* 32 MiB */
#define SKY_SEGMENTS_MAX        64u   /* of a folder, numbered from 0 */
#define SKY_SEGMENT_CHANGES_AT  64u   /* in the head: rows that its owner wrote, a hint */

/* One beyond was not counted: with it, no later one could be higher. */
#define SKY_SEGMENT_SEQUENCE_MAX (UINT64_C(1) << 62)

/* The largest payload that is stored in a segment: it is written in one piece. */
#define SKY_SEGMENT_PAYLOAD_MAX 131072u
#define SKY_SEGMENT_ENTRY_UNITS_MAX                                                                \
    ((SKY_DISK_HEADER_BYTES + SKY_SEGMENT_PAYLOAD_MAX) / SKY_SEGMENT_UNIT_BYTES)

/* Size of a segment's file. */
static inline uint64_t sky_segment_file_bytes(uint32_t units) {
    return SKY_SEGMENT_DATA_OFFSET + (uint64_t)units * SKY_SEGMENT_UNIT_BYTES;
}
static inline uint64_t sky_segment_row_at(uint32_t row) {
    return SKY_SEGMENT_HEAD_BYTES + (uint64_t)row * SKY_SEGMENT_ROW_BYTES;
}

/* The head, all but its count of changes. `number`: the segment's, so that none passes for another.
 */
#define SKY_SEGMENT_MARK_BYTES 24u
void sky_segment_head_encode(uint32_t number, uint32_t units, uint8_t out[SKY_SEGMENT_MARK_BYTES]);
/* Errors: SKY_E_CORRUPT for anything that encode does not write */
sky_status sky_segment_head_decode(uint32_t number, const uint8_t in[SKY_SEGMENT_MARK_BYTES],
                                   uint32_t *units);

typedef struct {
    sky_key key;         /* as the folder knows it */
    uint64_t sequence;   /* 1 to SKY_SEGMENT_SEQUENCE_MAX; grows with each row that is written */
    uint32_t unit;       /* where it stands */
    uint32_t unit_count; /* how much room it takes: 1 to SKY_SEGMENT_ENTRY_UNITS_MAX */
    uint64_t checksum;   /* its header's own */
} sky_segment_row;

/* `segment` and `row` are its numbers. */
void sky_segment_row_encode(const sky_segment_row *r, uint32_t segment, uint32_t row,
                            uint8_t out[SKY_SEGMENT_ROW_BYTES]);
/* Errors: SKY_MISS (zeros: no entry), SKY_E_CORRUPT (anything that encode does not write, or a
 *         place outside the segment's `units`) */
sky_status sky_segment_row_decode(const uint8_t in[SKY_SEGMENT_ROW_BYTES], uint32_t segment,
                                  uint32_t row, uint32_t units, sky_segment_row *out);

#endif
