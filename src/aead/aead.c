#include "aead/aead.h"

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "aead/aead_gcm.h"
#include "base/bytes.h"
#include "base/error.h"

typedef enum { SEAL, OPEN, DIRECTIONS } direction;

typedef struct {
    EVP_CIPHER_CTX *context;
    sky__gcm *gcm;                 /* instead of the context; NULL: none */
    uint8_t key[SKY_SECRET_BYTES]; /* of what is used */
} slot;

struct sky_aead {
    slot slots[SKY_SUITE_END][DIRECTIONS]; /* none for plain */
};

static const char *const names[] = {"plain", "aes", "chacha"};
static const char *const published_names[] = {NULL, "AES-256-GCM", "ChaCha20-Poly1305"};

const char *sky_suite_name(sky_suite suite) {
    assert(suite < SKY_SUITE_END);
    return names[suite];
}

#if defined(__x86_64__)

static bool has_aes_instructions(void) {
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

static bool has_aes_instructions(void) {
    unsigned long wanted = 1ul << 3 | 1ul << 4; /* HWCAP_AES, HWCAP_PMULL */
    return (getauxval(AT_HWCAP) & wanted) == wanted;
}

#else

static bool has_aes_instructions(void) {
    return false;
}

#endif

sky_suite sky_suite_best(void) {
    return has_aes_instructions() ? SKY_SUITE_AES : SKY_SUITE_CHACHA;
}

/* ---- contexts ---- */

/* An instance of libcrypto apart from the program's own: what the program or the machine's
 * openssl.cnf configures takes no suite away. Made by the thread that is first, for the process's
 * life: threads may still seal while it exits. NULL: no memory. */
static OSSL_LIB_CTX *crypto_library(void) {
    static _Atomic(OSSL_LIB_CTX *) shared;
    OSSL_LIB_CTX *l = atomic_load_explicit(&shared, memory_order_acquire), *none = NULL;
    if (l)
        return l;
    l = OSSL_LIB_CTX_new();
    if (!l || atomic_compare_exchange_strong(&shared, &none, l))
        return l;
    OSSL_LIB_CTX_free(l);
    return none; /* another thread's, which was quicker */
}

static sky_status slot_init(slot *s, const EVP_CIPHER *cipher, bool seals) {
    static const uint8_t nonce[SKY_NONCE_BYTES];
    assert(EVP_CIPHER_get_key_length(cipher) == SKY_SECRET_BYTES &&
           EVP_CIPHER_get_iv_length(cipher) == SKY_NONCE_BYTES);
    s->context = EVP_CIPHER_CTX_new();
    return s->context && EVP_CipherInit_ex2(s->context, cipher, s->key, nonce, seals, NULL)
               ? SKY_OK
               : SKY_E_NOMEM;
}

static sky_status suite_init(slot slots[DIRECTIONS], const char *name) {
    OSSL_LIB_CTX *l = crypto_library();
    EVP_CIPHER *cipher = l ? EVP_CIPHER_fetch(l, name, NULL) : NULL;
    sky_status status = !l ? SKY_E_NOMEM : !cipher ? SKY_E_UNSUPPORTED : SKY_OK;
    for (direction d = SEAL; status == SKY_OK && d < DIRECTIONS; d++)
        status = slot_init(&slots[d], cipher, d == SEAL);
    EVP_CIPHER_free(cipher); /* the contexts hold it */
    return status;
}

sky_status sky_aead_create_by_libcrypto(sky_aead **out, sky_error *error) {
    sky_aead *a = calloc(1, sizeof *a);
    sky_status status = a ? SKY_OK : SKY_E_NOMEM;
    sky_suite suite = SKY_SUITE_PLAIN;
    while (status == SKY_OK && ++suite < SKY_SUITE_END)
        status = suite_init(a->slots[suite], published_names[suite]);
    if (status == SKY_OK) {
        *out = a;
        return SKY_OK;
    }
    sky_aead_destroy(a);
    return status == SKY_E_NOMEM ? sky_fail(error, status, "memory for ciphers")
                                 : sky_fail(error, status,
                                            "libcrypto here has no %s: install one that was built "
                                            "with it, such as Debian's libssl3",
                                            published_names[suite]);
}

sky_status sky_aead_create(sky_aead **out, sky_error *error) {
    sky_status status = sky_aead_create_by_libcrypto(out, error);
    for (direction d = SEAL; status == SKY_OK && d < DIRECTIONS; d++) {
        slot *s = &(*out)->slots[SKY_SUITE_AES][d];
        s->gcm = sky__gcm_create();
        if (s->gcm)
            sky__gcm_set_key(s->gcm, s->key);
    }
    return status;
}

void sky_aead_destroy(sky_aead *a) {
    if (!a)
        return;
    for (sky_suite suite = SKY_SUITE_AES; suite < SKY_SUITE_END; suite++) {
        for (direction d = SEAL; d < DIRECTIONS; d++) {
            EVP_CIPHER_CTX_free(a->slots[suite][d].context);
            sky__gcm_destroy(a->slots[suite][d].gcm);
        }
    }
    OPENSSL_cleanse(a, sizeof *a);
    free(a);
}

/* ---- calls ---- */

/* Keys or tags, a multiple of 8 bytes, in the same time wherever they differ. For each datagram, so
 * not byte by byte, as CRYPTO_memcmp. */
static bool is_same(const uint8_t *a, const uint8_t *b, size_t bytes) {
    uint64_t difference = 0;
    for (size_t i = 0; i < bytes; i += 8)
        difference |= sky_load_u64(a + i) ^ sky_load_u64(b + i);
    return difference == 0;
}

/* The slot for a call, and the call's key if that is not the one it has; NULL: it is. */
static slot *slot_for(sky_aead *a, sky_suite suite, direction d, const sky_aead_input *x,
                      const uint8_t **key) {
    assert(suite > SKY_SUITE_PLAIN && suite < SKY_SUITE_END && x->aad_bytes <= INT_MAX);
    slot *s = &a->slots[suite][d];
    *key = is_same(s->key, x->key, sizeof s->key) ? NULL : x->key;
    if (*key)
        memcpy(s->key, *key, sizeof s->key);
    if (*key && s->gcm)
        sky__gcm_set_key(s->gcm, *key);
    return s;
}

static void aead_begin(EVP_CIPHER_CTX *c, const uint8_t *key, const sky_aead_input *x,
                       const OSSL_PARAM *tag) {
    int bytes;
    bool ok = EVP_CipherInit_ex2(c, NULL, key, x->nonce, -1, tag) &&
              (x->aad_bytes == 0 || EVP_CipherUpdate(c, NULL, &bytes, x->aad, (int)x->aad_bytes));
    assert(ok); /* under no condition does anything leave unsealed */
    (void)ok;
}

static void tag_params(OSSL_PARAM out[2], uint8_t *tag) {
    out[0] = OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag, SKY_TAG_BYTES);
    out[1] = OSSL_PARAM_construct_end();
}

void sky_aead_seal(sky_aead *a, sky_suite suite, const sky_aead_input *x, const uint8_t *src,
                   uint8_t *dst, size_t bytes, uint8_t tag[SKY_TAG_BYTES]) {
    const uint8_t *key;
    slot *s = slot_for(a, suite, SEAL, x, &key);
    assert(bytes <= INT_MAX);
    if (s->gcm) {
        sky__gcm_seal(s->gcm, x, src, dst, bytes, tag);
        return;
    }
    uint8_t nothing[16];
    int done = 0, more;
    OSSL_PARAM params[2];
    tag_params(params, tag);
    aead_begin(s->context, key, x, NULL);
    bool ok = (bytes == 0 || EVP_CipherUpdate(s->context, dst, &done, src, (int)bytes)) &&
              EVP_CipherFinal_ex(s->context, nothing, &more) &&
              EVP_CIPHER_CTX_get_params(s->context, params);
    assert(ok && done == (int)bytes);
    (void)ok;
}

static bool open_by_libcrypto(EVP_CIPHER_CTX *c, const uint8_t *key, const sky_aead_input *x,
                              uint8_t *data, size_t bytes, const uint8_t *tag) {
    uint8_t nothing[16], expected[SKY_TAG_BYTES];
    int done, more;
    OSSL_PARAM params[2];
    memcpy(expected, tag, sizeof expected); /* the parameter is not const */
    tag_params(params, expected);
    aead_begin(c, key, x, params);
    return (bytes == 0 || EVP_CipherUpdate(c, data, &done, data, (int)bytes)) &&
           EVP_CipherFinal_ex(c, nothing, &more);
}

bool sky_aead_open(sky_aead *a, sky_suite suite, const sky_aead_input *x, uint8_t *data,
                   size_t bytes, const uint8_t tag[SKY_TAG_BYTES]) {
    const uint8_t *key;
    slot *s = slot_for(a, suite, OPEN, x, &key);
    uint8_t right[SKY_TAG_BYTES];
    bool opens;
    assert(bytes <= INT_MAX);
    if (s->gcm) {
        sky__gcm_open(s->gcm, x, data, bytes, right);
        opens = is_same(right, tag, sizeof right);
    } else {
        opens = open_by_libcrypto(s->context, key, x, data, bytes, tag);
    }
    if (!opens && bytes > 0)
        memset(data, 0, bytes);
    return opens;
}
