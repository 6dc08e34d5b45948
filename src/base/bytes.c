#include "base/bytes.h"

#include <string.h>

const uint8_t *sky_read_bytes(sky_reader *r, size_t bytes) {
    if (r->failed || bytes > r->left) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

uint8_t sky_read_u8(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 1);
    return p ? *p : 0;
}

uint16_t sky_read_u16(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 2);
    return p ? sky_load_u16(p) : 0;
}

uint32_t sky_read_u32(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 4);
    return p ? sky_load_u32(p) : 0;
}

uint64_t sky_read_u64(sky_reader *r) {
    const uint8_t *p = sky_read_bytes(r, 8);
    return p ? sky_load_u64(p) : 0;
}

uint8_t *sky_write_space(sky_writer *w, size_t bytes) {
    if (w->failed || bytes > w->left) {
        w->failed = true;
        return NULL;
    }
    uint8_t *at = w->at;
    w->at += bytes;
    w->left -= bytes;
    return at;
}

void sky_write_bytes(sky_writer *w, const void *data, size_t bytes) {
    uint8_t *p = sky_write_space(w, bytes);
    if (p && bytes)
        memcpy(p, data, bytes);
}

void sky_write_u8(sky_writer *w, uint8_t v) {
    uint8_t *p = sky_write_space(w, 1);
    if (p)
        *p = v;
}

void sky_write_u16(sky_writer *w, uint16_t v) {
    uint8_t *p = sky_write_space(w, 2);
    if (p)
        sky_store_u16(p, v);
}

void sky_write_u32(sky_writer *w, uint32_t v) {
    uint8_t *p = sky_write_space(w, 4);
    if (p)
        sky_store_u32(p, v);
}

void sky_write_u64(sky_writer *w, uint64_t v) {
    uint8_t *p = sky_write_space(w, 8);
    if (p)
        sky_store_u64(p, v);
}
