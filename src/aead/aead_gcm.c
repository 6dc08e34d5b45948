#include "aead/aead_gcm.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef SKY_HAVE_IPSEC_MB

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

struct sky__gcm {
    struct gcm_key_data expanded;
    const IMB_MGR *manager;
};

/* A table of functions for this machine, made by the thread that is first and kept for the
 * process's life. GCM keeps nothing in it, so that all threads share it. */
static const IMB_MGR *mb_manager(void) {
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

sky__gcm *sky__gcm_create(void) {
    const IMB_MGR *m = sky_suite_best() == SKY_SUITE_AES ? mb_manager() : NULL;
    size_t unit = _Alignof(sky__gcm), bytes = (sizeof(sky__gcm) + unit - 1) / unit * unit;
    sky__gcm *g = m ? aligned_alloc(unit, bytes) : NULL;
    if (g)
        g->manager = m;
    return g;
}

void sky__gcm_destroy(sky__gcm *g) {
    if (g)
        OPENSSL_cleanse(g, sizeof *g);
    free(g);
}

void sky__gcm_set_key(sky__gcm *g, const uint8_t key[SKY_SECRET_BYTES]) {
    IMB_AES256_GCM_PRE(g->manager, key, &g->expanded);
}

void sky__gcm_seal(const sky__gcm *g, const sky_aead_input *x, const uint8_t *src, uint8_t *dst,
                   size_t bytes, uint8_t tag[SKY_TAG_BYTES]) {
    struct gcm_context_data context;
    IMB_AES256_GCM_ENC(g->manager, &g->expanded, &context, dst, src, bytes, x->nonce, x->aad,
                       x->aad_bytes, tag, SKY_TAG_BYTES);
}

void sky__gcm_open(const sky__gcm *g, const sky_aead_input *x, uint8_t *data, size_t bytes,
                   uint8_t tag[SKY_TAG_BYTES]) {
    struct gcm_context_data context;
    IMB_AES256_GCM_DEC(g->manager, &g->expanded, &context, data, data, bytes, x->nonce, x->aad,
                       x->aad_bytes, tag, SKY_TAG_BYTES);
}

#else

sky__gcm *sky__gcm_create(void) {
    return NULL;
}

void sky__gcm_destroy(sky__gcm *g) {
    assert(!g);
}

void sky__gcm_set_key(sky__gcm *g, const uint8_t key[SKY_SECRET_BYTES]) {
    (void)g, (void)key;
}

void sky__gcm_seal(const sky__gcm *g, const sky_aead_input *x, const uint8_t *src, uint8_t *dst,
                   size_t bytes, uint8_t tag[SKY_TAG_BYTES]) {
    (void)g, (void)x, (void)src, (void)dst, (void)bytes, (void)tag;
    assert(0 && "none was created");
}

void sky__gcm_open(const sky__gcm *g, const sky_aead_input *x, uint8_t *data, size_t bytes,
                   uint8_t tag[SKY_TAG_BYTES]) {
    (void)g, (void)x, (void)data, (void)bytes, (void)tag;
    assert(0 && "none was created");
}

#endif
