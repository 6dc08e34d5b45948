/* Where a message lies that is cut into datagrams: pieces of one length, and between them room for
 * what goes before and after each.
 *
 *   at ─► | piece 0 ………………… |   gap   | piece 1 ………………… |   gap   | piece 2 ……… |
 *         |◄───── bytes ─────►|
 *         |◄─────────── step ──────────►|
 */
#ifndef SKY_WIRE_PIECES_H
#define SKY_WIRE_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t *at;
    uint32_t bytes, step;
} sky_pieces;

/* Copy to the message's byte `offset` and on. */
static inline void sky_pieces_write(const sky_pieces *p, uint32_t offset, const uint8_t *src,
                                    uint32_t bytes) {
    uint8_t *piece = p->at + (size_t)(offset / p->bytes) * p->step;
    for (uint32_t into = offset % p->bytes; bytes > 0; into = 0, piece += p->step) {
        uint32_t n = p->bytes - into < bytes ? p->bytes - into : bytes;
        memcpy(piece + into, src, n);
        src += n;
        bytes -= n;
    }
}

#endif
