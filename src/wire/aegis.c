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

bool sky_aegis_works(void) {
    return aegis_init() == 0;
}

void sky_aegis_seal(const sky_aegis_context *x, uint8_t *data, size_t bytes,
                    uint8_t tag[SKY_AEGIS_TAG_BYTES]) {
    aegis256x4_encrypt_detached(data, tag, SKY_AEGIS_TAG_BYTES, data, bytes, x->aad, x->aad_bytes,
                                x->nonce, x->key);
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
    assert(!"a suite that does not work here");
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
