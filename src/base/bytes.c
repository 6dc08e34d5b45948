#include "base/bytes.h"

#include <string.h>

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
