#include "wire/gcm.h"

#include <stdatomic.h>
#include <string.h>

#include <sodium.h>

#include "base/bytes.h"

_Static_assert(crypto_aead_aes256gcm_KEYBYTES == SKY_GCM_SECRET_BYTES &&
                   crypto_aead_aes256gcm_NPUBBYTES == SKY_GCM_NONCE_BYTES &&
                   crypto_aead_aes256gcm_ABYTES == SKY_GCM_TAG_BYTES,
               "one size of everything");
_Static_assert(sizeof(crypto_aead_aes256gcm_state) <= sizeof((sky_gcm_key){0}.expanded),
               "room for libsodium's key");

bool sky_gcm_works(void) {
    return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available();
}

static const crypto_aead_aes256gcm_state *state_of(const sky_gcm_key *k) {
    return (const void *)k->expanded;
}

void sky_gcm_key_init_plainly(sky_gcm_key *k, const uint8_t secret[SKY_GCM_SECRET_BYTES]) {
    crypto_aead_aes256gcm_beforenm((void *)k->expanded, secret);
    k->library = NULL;
}

/* ---- ipsec-mb ---- */

#ifdef SKY_HAVE_IPSEC_MB

#include <intel-ipsec-mb.h>

_Static_assert(sizeof(struct gcm_key_data) <= sizeof((sky_gcm_key){0}.expanded) &&
                   _Alignof(struct gcm_key_data) <= _Alignof(sky_gcm_key),
               "room for ipsec-mb's key");

/* A table of functions for this machine, made by whoever asks first and never given back. GCM keeps
 * nothing in it, so that all threads share it. */
static IMB_MGR *manager(void) {
    static _Atomic(IMB_MGR *) shared;
    IMB_MGR *m = atomic_load_explicit(&shared, memory_order_acquire), *none = NULL;
    if (m)
        return m;
    m = alloc_mb_mgr(0);
    if (!m)
        return NULL;
    init_mb_mgr_auto(m, NULL);
    if (imb_get_errno(m) == 0 && atomic_compare_exchange_strong(&shared, &none, m))
        return m;
    free_mb_mgr(m);
    return none; /* another thread's, if it was quicker */
}

const char *sky_gcm_library(void) {
    return manager() ? "ipsec-mb" : "libsodium";
}

static const struct gcm_key_data *data_of(const sky_gcm_key *k) {
    return (const void *)k->expanded;
}

void sky_gcm_key_init(sky_gcm_key *k, const uint8_t secret[SKY_GCM_SECRET_BYTES]) {
    IMB_MGR *m = manager();
    if (!m) {
        sky_gcm_key_init_plainly(k, secret);
        return;
    }
    IMB_AES256_GCM_PRE(m, secret, (struct gcm_key_data *)(void *)k->expanded);
    k->library = m;
}

static void fast_seal(const sky_gcm_key *k, const uint8_t *nonce, const void *aad, size_t aad_bytes,
                      uint8_t *data, size_t bytes, uint8_t *tag) {
    struct gcm_context_data context;
    IMB_AES256_GCM_ENC((const IMB_MGR *)k->library, data_of(k), &context, data, data, bytes, nonce,
                       aad, aad_bytes, tag, SKY_GCM_TAG_BYTES);
}

/* In the same time wherever they differ. */
static bool same_tag(const uint8_t *a, const uint8_t *b) {
    return ((sky_load_u64(a) ^ sky_load_u64(b)) | (sky_load_u64(a + 8) ^ sky_load_u64(b + 8))) == 0;
}

/* It decrypts while it sums, so what turns out wrong is wiped. */
static bool fast_open(const sky_gcm_key *k, const uint8_t *nonce, const void *aad, size_t aad_bytes,
                      uint8_t *data, size_t bytes, const uint8_t *tag) {
    struct gcm_context_data context;
    uint8_t right[SKY_GCM_TAG_BYTES];
    IMB_AES256_GCM_DEC((const IMB_MGR *)k->library, data_of(k), &context, data, data, bytes, nonce,
                       aad, aad_bytes, right, sizeof right);
    if (same_tag(right, tag))
        return true;
    memset(data, 0, bytes);
    return false;
}

#else

const char *sky_gcm_library(void) {
    return "libsodium";
}

void sky_gcm_key_init(sky_gcm_key *k, const uint8_t secret[SKY_GCM_SECRET_BYTES]) {
    sky_gcm_key_init_plainly(k, secret);
}

#endif

/* ---- either ---- */

void sky_gcm_seal(const sky_gcm_key *k, const uint8_t nonce[SKY_GCM_NONCE_BYTES], const void *aad,
                  size_t aad_bytes, uint8_t *data, size_t bytes, uint8_t tag[SKY_GCM_TAG_BYTES]) {
#ifdef SKY_HAVE_IPSEC_MB
    if (k->library) {
        fast_seal(k, nonce, aad, aad_bytes, data, bytes, tag);
        return;
    }
#endif
    crypto_aead_aes256gcm_encrypt_detached_afternm(data, tag, NULL, data, bytes, aad, aad_bytes,
                                                   NULL, nonce, state_of(k));
}

bool sky_gcm_open(const sky_gcm_key *k, const uint8_t nonce[SKY_GCM_NONCE_BYTES], const void *aad,
                  size_t aad_bytes, uint8_t *data, size_t bytes,
                  const uint8_t tag[SKY_GCM_TAG_BYTES]) {
#ifdef SKY_HAVE_IPSEC_MB
    if (k->library)
        return fast_open(k, nonce, aad, aad_bytes, data, bytes, tag);
#endif
    return crypto_aead_aes256gcm_decrypt_detached_afternm(data, NULL, data, bytes, tag, aad,
                                                          aad_bytes, nonce, state_of(k)) == 0;
}
