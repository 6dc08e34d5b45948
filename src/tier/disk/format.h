/* An entry of the disk tier as bytes: one file an entry, docs/formats/disk.md.
 *
 *   0       header (4096)                                        4096      4096 + payload, padded
 *   ┌──────────────────────────────────────────┬───────────────┬──────────┬──────────┬───┐
 *   │ key, sizes, times, name, page checksums, │ access record │ page 0   │ page 1   │ … │
 *   │ zeros, checksum of all that              │ (64, mutable) │          │          │   │
 *   └──────────────────────────────────────────┴───────────────┴──────────┴──────────┴───┘
 *
 * Invariants: every byte of the file is under exactly one checksum (or is one). Page checksums are
 * seeded by key and page number, the access record's by the header's, so that no page, file or
 * record passes for another. The page size follows from the file's size alone, so a reader asks for
 * header and pages at once. Pure: no file is touched here, and any bytes may be decoded. */
#ifndef SKY_TIER_DISK_FORMAT_H
#define SKY_TIER_DISK_FORMAT_H

#include <skymem/types.h>

#include "base/hash.h"

#define SKY_DISK_HEADER_BYTES   4096u
#define SKY_DISK_ALIGN          4096u
#define SKY_DISK_PAGE_BYTES_MIN 65536u
#define SKY_DISK_PAGES_MAX      256u
#define SKY_DISK_ACCESS_OFFSET  4032u
#define SKY_DISK_ACCESS_BYTES   64u

#define SKY_DISK_MS_MAX    ((UINT64_C(1) << 48) - 1) /* wall milliseconds: what the index keeps */
#define SKY_DISK_LEVEL_MAX 15

/* How a payload lies in its file. */
typedef struct {
    uint64_t padded_bytes; /* payload and zeros up to a multiple of SKY_DISK_ALIGN */
    uint32_t page_bytes;   /* a power of two; the last page may be shorter */
    uint32_t page_count;   /* at most SKY_DISK_PAGES_MAX */
} sky_disk_geometry;

/* payload_bytes at most SKY_PAYLOAD_BYTES_MAX. */
sky_disk_geometry sky_disk_geometry_of(uint64_t payload_bytes);
/* From a file's size. Errors: SKY_E_CORRUPT: no entry is that large */
sky_status sky_disk_geometry_of_file(uint64_t file_bytes, sky_disk_geometry *out);

/* What changes while the entry stands. */
typedef struct {
    uint64_t hits;
    int64_t used_ms; /* wall */
    bool pinned;
} sky_disk_access;

/* What a sealed entry's header has besides (seal.h). */
#define SKY_DISK_NONCE_BYTES  24
#define SKY_DISK_TAG_BYTES    32
#define SKY_DISK_TAGGED_BYTES 3288u /* of the header: all before its tag */
typedef struct {
    uint8_t nonce[SKY_DISK_NONCE_BYTES];
    uint8_t keys[2 * SKY_KEY_BYTES]; /* the real key and parent, encrypted */
    uint8_t tag[SKY_DISK_TAG_BYTES];
} sky_disk_sealed;

typedef struct {
    sky_key key;
    sky_key parent; /* zero: none */
    bool is_sealed; /* then both are hidden, and payload and name encrypted */
    sky_disk_sealed sealed;
    uint64_t payload_bytes;
    int64_t set_ms;      /* wall */
    int64_t expire_ms;   /* wall; 0: never. All times at most SKY_DISK_MS_MAX */
    uint8_t level;       /* at most SKY_DISK_LEVEL_MAX */
    uint8_t evict;       /* SKY_EVICT_… */
    uint32_t name_bytes; /* 0: a block */
    uint8_t name[SKY_NAME_BYTES_MAX];
    uint64_t page_checksums[SKY_DISK_PAGES_MAX]; /* those behind page_count are zero */
    sky_disk_access access;
    uint64_t checksum; /* of the header as bytes; encode does not look at it */
} sky_disk_header;

void sky_disk_header_encode(const sky_disk_header *header, uint8_t out[SKY_DISK_HEADER_BYTES]);

/* What an encoded header says of itself. */
uint64_t sky_disk_header_checksum(const uint8_t header[SKY_DISK_HEADER_BYTES]);
/* Errors: SKY_E_CORRUPT for anything that encode does not write: checksums, magic, version, an
 *         unused byte that is not zero, sizes that do not fit each other */
sky_status sky_disk_header_decode(const uint8_t in[SKY_DISK_HEADER_BYTES], sky_disk_header *out);

/* The access record that belongs to a valid header, to be written at SKY_DISK_ACCESS_OFFSET. */
void sky_disk_access_encode(const sky_disk_access *access,
                            const uint8_t header[SKY_DISK_HEADER_BYTES],
                            uint8_t out[SKY_DISK_ACCESS_BYTES]);

/* The page checksums of a padded payload that comes piece by piece: XXH3-64 over each page as it
 * stands in the file, seeded by key and page number. `from` is where the first piece begins: a page
 * does. Of a sealed entry they are tags: the first 8 bytes of BLAKE2b-256, keyed, over "page", the
 * nonce, the key, the page's number and the page. */
typedef struct {
    sky_disk_header *header; /* key and payload_bytes set */
    sky_disk_geometry geometry;
    uint64_t at;            /* in the padded payload */
    const uint8_t *tag_key; /* of a sealed entry, set after begin; NULL: checksums */
    union {
        sky_checksum_state sum;
        sky_blake2b tag;
    };
} sky_disk_pages;
void sky_disk_pages_begin(sky_disk_pages *p, sky_disk_header *header, uint64_t from);
/* Note each page's checksum in the header as the page ends. */
void sky_disk_pages_note(sky_disk_pages *p, const uint8_t *data, size_t bytes);
/* Compare instead. False when a page that ended differs. */
bool sky_disk_pages_check(sky_disk_pages *p, const uint8_t *data, size_t bytes);

/* "ab/cd/abcd…" (64 digits) and a NUL; its first 5 characters are the folder. */
#define SKY_DISK_PATH_BYTES   71
#define SKY_DISK_FOLDER_CHARS 5
void sky_disk_path(const sky_key *key, char out[SKY_DISK_PATH_BYTES]);

#endif
