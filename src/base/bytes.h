/* Little-endian integers in byte buffers, and a cursor that cannot run past its end.
 *
 *   sky_reader r = sky_reader_over(buffer, bytes);
 *   uint32_t magic = sky_read_u32(&r);  …  if (!sky_reader_done(&r)) return SKY_E_CORRUPT;
 *
 * A read past the end yields zeros and marks the cursor failed for good, so that a parser checks
 * once at its end. A write past the end is dropped and marks the cursor failed. */
#ifndef SKY_BASE_BYTES_H
#define SKY_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline void sky_store_u16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void sky_store_u32(uint8_t *p, uint32_t v) {
    sky_store_u16(p, (uint16_t)v);
    sky_store_u16(p + 2, (uint16_t)(v >> 16));
}
static inline void sky_store_u64(uint8_t *p, uint64_t v) {
    sky_store_u32(p, (uint32_t)v);
    sky_store_u32(p + 4, (uint32_t)(v >> 32));
}
static inline uint16_t sky_load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t sky_load_u32(const uint8_t *p) {
    return (uint32_t)sky_load_u16(p) | (uint32_t)sky_load_u16(p + 2) << 16;
}
static inline uint64_t sky_load_u64(const uint8_t *p) {
    return (uint64_t)sky_load_u32(p) | (uint64_t)sky_load_u32(p + 4) << 32;
}

typedef struct {
    const uint8_t *at;
    size_t left;
    bool failed;
} sky_reader;

typedef struct {
    uint8_t *at;
    size_t left;
    bool failed;
} sky_writer;

static inline sky_reader sky_reader_over(const void *data, size_t bytes) {
    return (sky_reader){data, bytes, false};
}
static inline sky_writer sky_writer_over(void *data, size_t bytes) {
    return (sky_writer){data, bytes, false};
}

/* Borrow `bytes` bytes at the cursor and step over them; NULL (and failed) when there are fewer. */
static inline const uint8_t *sky_read_bytes(sky_reader *r, size_t bytes) {
    if (r->failed || bytes > r->left) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

static inline uint8_t sky_read_u8(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 1);
    return p ? *p : 0;
}

static inline uint16_t sky_read_u16(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 2);
    return p ? sky_load_u16(p) : 0;
}

static inline uint32_t sky_read_u32(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 4);
    return p ? sky_load_u32(p) : 0;
}

static inline uint64_t sky_read_u64(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 8);
    return p ? sky_load_u64(p) : 0;
}

/* Reserve `bytes` bytes at the cursor and step over them; NULL (and failed) when there is less
 * room. */
uint8_t *sky_write_space(sky_writer *w, size_t bytes);
void sky_write_bytes(sky_writer *w, const void *data, size_t bytes);
void sky_write_u8(sky_writer *w, uint8_t v);
void sky_write_u16(sky_writer *w, uint16_t v);
void sky_write_u32(sky_writer *w, uint32_t v);
void sky_write_u64(sky_writer *w, uint64_t v);

/* All bytes were read, and none were missing. */
static inline bool sky_reader_done(const sky_reader *r) {
    return !r->failed && r->left == 0;
}

#endif
