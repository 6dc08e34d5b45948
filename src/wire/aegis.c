#include "wire/aegis.h"

#include <assert.h>
#include <string.h>

#ifdef SKY_HAVE_AEGIS

#include <aegis.h>
#include <aegis256x4.h>

_Static_assert(SKY_AEGIS_SECRET_BYTES == aegis256x4_KEYBYTES &&
                   SKY_AEGIS_NONCE_BYTES == aegis256x4_NPUBBYTES &&
                   SKY_AEGIS_TAG_BYTES == aegis256x4_ABYTES_MIN,
               "one size of everything");

#define BLOCK_BYTES 64 /* at once */
_Static_assert(SKY_PIECES_GAP_MIN >= BLOCK_BYTES, "a block across the end of a piece");

bool sky_aegis_works(void) {
    return aegis_init() == 0;
}

void sky_aegis_seal(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                    uint8_t tag[SKY_AEGIS_TAG_BYTES]) {
    aegis256x4_encrypt_detached(data, tag, SKY_AEGIS_TAG_BYTES, data, bytes, x->aad, x->aad_bytes,
                                x->nonce, x->key);
}

/* The library takes whole blocks quickly and parts of one byte by byte. So a block that belongs to
 * two pieces is written across the end of the first, and what is beyond it moved to the second:
 * a whole block of it, which what follows there overwrites. */
void sky_aegis_seal_into(const sky_aegis_context *x, const uint8_t *data, size_t bytes,
                         const sky_pieces *to, uint32_t offset, uint8_t tag[SKY_AEGIS_TAG_BYTES]) {
    aegis256x4_state s;
    aegis256x4_state_init(&s, x->aad, x->aad_bytes, x->nonce, x->key);
    size_t left = to->bytes - offset % to->bytes; /* of this piece */
    uint8_t *end = to->at + (size_t)(offset / to->bytes) * to->step + to->bytes;
    while (bytes > 0) {
        size_t blocks = (left + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        size_t n = bytes < blocks ? bytes : blocks;
        aegis256x4_state_encrypt_update(&s, end - left, data, n);
        data += n;
        bytes -= n;
        size_t beyond = n > left ? n - left : 0;
        if (beyond > 0)
            memcpy(end + to->step - to->bytes, end, BLOCK_BYTES);
        end += to->step;
        left = to->bytes - beyond;
    }
    aegis256x4_state_encrypt_final(&s, tag, SKY_AEGIS_TAG_BYTES);
}

static bool open_with_library(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                              const uint8_t *tag) {
    return aegis256x4_decrypt_detached(data, data, bytes, tag, SKY_AEGIS_TAG_BYTES, x->aad,
                                       x->aad_bytes, x->nonce, x->key) == 0;
}

#else

bool sky_aegis_works(void) {
    return false;
}

void sky_aegis_seal(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                    uint8_t tag[SKY_AEGIS_TAG_BYTES]) {
    (void)x, (void)data, (void)bytes, (void)tag;
    assert(0 && "a suite that does not work here");
}

void sky_aegis_seal_into(const sky_aegis_context *x, const uint8_t *data, size_t bytes,
                         const sky_pieces *to, uint32_t offset, uint8_t tag[SKY_AEGIS_TAG_BYTES]) {
    (void)x, (void)data, (void)bytes, (void)to, (void)offset, (void)tag;
    assert(0 && "a suite that does not work here");
}

static bool open_with_library(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                              const uint8_t *tag) {
    (void)x, (void)data, (void)bytes, (void)tag;
    return false;
}

#endif

bool sky_aegis_open(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                    const uint8_t tag[SKY_AEGIS_TAG_BYTES]) {
    if (open_with_library(x, data, bytes, tag))
        return true;
    memset(data, 0, bytes);
    return false;
}

#if defined(__x86_64__)

#include <cpuid.h>

/* Not every compiler knows VAES by name. */
bool sky_aegis_is_fast(void) {
    unsigned a, b, c = 0, d;
    bool vaes = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1u << 9;
    return sky_aegis_works() && vaes && __builtin_cpu_supports("avx512f");
}

#else

bool sky_aegis_is_fast(void) {
    return false;
}

#endif
