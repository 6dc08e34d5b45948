#include "wire/seal.h"

#include <assert.h>
#include <string.h>

#include <sodium.h>

#include "base/bytes.h"
#include "base/hash.h"

#define NONCE_BYTES    12
#define NAMES_LABEL    "names: " /* no session's label is as short */
#define TENANT_LABEL   "tenant: "
#define NAME_BYTES_MAX 64
#define SEAL_VERSION   2                         /* 1 had its nonce from the chunk's name */
#define SESSION_BYTES  (1 + SKY_SEAL_SALT_BYTES) /* kind and salt */
#define COUNTER_BYTES  8
#define TAG_OFFSET     (SESSION_BYTES + COUNTER_BYTES)
#define AAD_BYTES      (SESSION_BYTES + SKY_KEY_BYTES + 12) /* … key, version, chunk */

_Static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == SKY_SECRET_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_ABYTES == SKY_TAG_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE_BYTES &&
                   SKY_GCM_SECRET_BYTES == SKY_SECRET_BYTES && SKY_GCM_TAG_BYTES == SKY_TAG_BYTES &&
                   SKY_GCM_NONCE_BYTES == NONCE_BYTES &&
                   SKY_AEGIS_SECRET_BYTES == SKY_SECRET_BYTES &&
                   SKY_AEGIS_TAG_BYTES == SKY_TAG_BYTES && SKY_AEGIS_NONCE_BYTES > NONCE_BYTES,
               "all suites have the same sizes");
_Static_assert(SKY_SEAL_BYTES == TAG_OFFSET + SKY_TAG_BYTES, "the seal's layout");

bool sky_suite_works(sky_suite suite) {
    if (suite == SKY_SUITE_AES)
        return sky_gcm_works();
    if (suite == SKY_SUITE_AEGIS)
        return sky_aegis_works();
    return suite < SKY_SUITE_END;
}

sky_suite sky_suite_best(void) {
    return sky_suite_works(SKY_SUITE_AES) ? SKY_SUITE_AES : SKY_SUITE_CHACHA;
}

sky_suite sky_suite_best_seal(void) {
    return sky_aegis_is_fast() ? SKY_SUITE_AEGIS : sky_suite_best();
}

const char *sky_suite_name(sky_suite suite) {
    static const char *const names[] = {"plain", "aes", "chacha", "aegis"};
    assert(suite < SKY_SUITE_END);
    return names[suite];
}

/* ---- keys ---- */

static void keyed_hash(const uint8_t key[SKY_SECRET_BYTES], const void *data, size_t bytes,
                       uint8_t out[SKY_SECRET_BYTES]) {
    sky_blake2b h;
    sky_blake2b_init(&h, key);
    sky_blake2b_add(&h, data, bytes);
    sky_blake2b_end(&h, out);
    sodium_memzero(&h, sizeof h);
}

void sky_cipher_key_init(sky_cipher_key *k, sky_suite suite, const uint8_t secret[SKY_SECRET_BYTES],
                         const void *name, size_t name_bytes) {
    assert(name_bytes <= NAME_BYTES_MAX);
    keyed_hash(secret, name, name_bytes, k->bytes);
    k->suite = suite;
    if (suite == SKY_SUITE_AES)
        sky_gcm_key_init(&k->gcm, k->bytes);
    k->rows = false;
}

void sky_cipher_key_init_rows(sky_cipher_key *k) {
    k->rows = k->suite == SKY_SUITE_AES && sky_gmac_works();
    if (k->rows)
        sky_gmac_key_init(&k->gmac, k->bytes);
}

void sky_cipher_key_wipe(sky_cipher_key *k) {
    sodium_memzero(k, sizeof *k);
}

/* ---- one interface over the suites ---- */

typedef struct {
    uint8_t nonce[SKY_AEGIS_NONCE_BYTES]; /* all suites but AEGIS take the first NONCE_BYTES */
    const void *aad;
    size_t aad_bytes;
} context;

static sky_aegis_context aegis_context(const sky_cipher_key *k, const context *x) {
    return (sky_aegis_context){
        .key = k->bytes, .nonce = x->nonce, .aad = x->aad, .aad_bytes = x->aad_bytes};
}

static void plain_tag(const context *x, const uint8_t *data, size_t bytes, uint8_t *tag) {
    uint64_t seed = sky_checksum(x->aad, x->aad_bytes, sky_load_u64(x->nonce + 4));
    sky_store_u64(tag, sky_checksum(data, bytes, seed));
    sky_store_u64(tag + 8, sky_load_u32(x->nonce));
}

static void encrypt(const sky_cipher_key *k, const context *x, uint8_t *data, size_t bytes,
                    uint8_t *tag) {
    sky_aegis_context aegis;
    switch (k->suite) {
    case SKY_SUITE_AES:
        sky_gcm_seal(&k->gcm, x->nonce, x->aad, x->aad_bytes, data, bytes, tag);
        break;
    case SKY_SUITE_AEGIS:
        aegis = aegis_context(k, x);
        sky_aegis_seal(&aegis, data, bytes, tag);
        break;
    case SKY_SUITE_CHACHA:
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(data, tag, NULL, data, bytes, x->aad,
                                                           x->aad_bytes, NULL, x->nonce, k->bytes);
        break;
    default:
        plain_tag(x, data, bytes, tag);
    }
}

/* False, and no data, when the tag is wrong. */
static bool decrypt(const sky_cipher_key *k, const context *x, uint8_t *data, size_t bytes,
                    const uint8_t *tag) {
    uint8_t right[SKY_TAG_BYTES];
    sky_aegis_context aegis;
    switch (k->suite) {
    case SKY_SUITE_AES:
        return sky_gcm_open(&k->gcm, x->nonce, x->aad, x->aad_bytes, data, bytes, tag);
    case SKY_SUITE_AEGIS:
        aegis = aegis_context(k, x);
        return sky_aegis_open(&aegis, data, bytes, tag);
    case SKY_SUITE_CHACHA:
        return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                   data, NULL, data, bytes, tag, x->aad, x->aad_bytes, x->nonce, k->bytes) == 0;
    default:
        plain_tag(x, data, bytes, right);
        return memcmp(right, tag, sizeof right) == 0;
    }
}

/* ---- tags ---- */

/* In place: a copy of what was just written in smaller pieces waits for them. */
static void tag_context(context *x, uint64_t counter, const void *data, size_t bytes) {
    x->aad = data;
    x->aad_bytes = bytes;
    memset(x->nonce, 0, sizeof x->nonce);
    sky_store_u64(x->nonce + 4, counter);
}

void sky_tag_make(const sky_cipher_key *k, uint64_t counter, const void *data, size_t bytes,
                  uint8_t tag[SKY_TAG_BYTES]) {
    context x;
    tag_context(&x, counter, data, bytes);
    uint8_t nothing[1] = {0};
    encrypt(k, &x, nothing, 0, tag);
}

void sky_tag_make_row(const sky_cipher_key *k, uint64_t counter, uint8_t *row, size_t bytes,
                      uint32_t count) {
    if (count > 1 && k->rows) {
        sky_gmac_row(&k->gmac, counter, row, bytes, count, row + bytes);
        return;
    }
    for (uint32_t i = 0; i < count; i++, row += bytes + SKY_TAG_BYTES)
        sky_tag_make(k, counter + i, row, bytes, row + bytes);
}

bool sky_tag_check(const sky_cipher_key *k, uint64_t counter, const void *data, size_t bytes,
                   const uint8_t tag[SKY_TAG_BYTES]) {
    context x;
    tag_context(&x, counter, data, bytes);
    uint8_t nothing[1] = {0};
    return decrypt(k, &x, nothing, 0, tag);
}

/* ---- chunks ---- */

static void session_init(sky_seal_session *x, sky_suite suite, const uint8_t *secret,
                         const uint8_t *salt) {
    uint8_t name[8 + SKY_SEAL_SALT_BYTES] = "chunks: "; /* no link's name is as long */
    memcpy(name + 8, salt, SKY_SEAL_SALT_BYTES);
    memcpy(x->salt, salt, SKY_SEAL_SALT_BYTES);
    sky_cipher_key_init(&x->key, suite, secret, name, sizeof name);
}

void sky_seal_init(sky_seal *s, sky_suite suite, const uint8_t secret[SKY_SECRET_BYTES],
                   const uint8_t salt[SKY_SEAL_SALT_BYTES]) {
    memset(s, 0, sizeof *s);
    memcpy(s->secret, secret, SKY_SECRET_BYTES);
    uint8_t tenant[SKY_SECRET_BYTES];
    keyed_hash(secret, NAMES_LABEL, sizeof NAMES_LABEL - 1, s->names);
    keyed_hash(secret, TENANT_LABEL, sizeof TENANT_LABEL - 1, tenant);
    memcpy(s->tenant, tenant, SKY_TENANT_BYTES);
    session_init(&s->own, suite, secret, salt);
}

void sky_seal_name(const sky_seal *s, const sky_key *key, sky_key *name) {
    static const sky_key nobody;
    if (memcmp(key->bytes, nobody.bytes, SKY_KEY_BYTES) == 0) {
        *name = nobody;
        return;
    }
    keyed_hash(s->names, key->bytes, SKY_KEY_BYTES, name->bytes);
    memcpy(name->bytes, s->tenant, SKY_TENANT_BYTES);
}

void sky_seal_deinit(sky_seal *s) {
    sodium_memzero(s, sizeof *s);
}

/* A seal's first byte. */
static uint8_t kind_of(sky_suite suite) {
    return (uint8_t)(SEAL_VERSION << 4 | (uint8_t)suite);
}

static sky_suite suite_of(uint8_t kind) {
    return (sky_suite)(kind & 15);
}

static bool is_session(const sky_seal_session *x, sky_suite suite, const uint8_t *salt) {
    return x->key.suite == suite && memcmp(x->salt, salt, SKY_SEAL_SALT_BYTES) == 0;
}

/* The key of the session that sealed, if it is kept. */
static const sky_cipher_key *key_of(const sky_seal *s, sky_suite suite, const uint8_t *salt) {
    if (is_session(&s->own, suite, salt))
        return &s->own.key;
    for (uint32_t i = 0; i < s->other_count; i++)
        if (is_session(&s->others[i], suite, salt))
            return &s->others[i].key;
    return NULL;
}

/* Something opened under it: keep it, the oldest makes room. */
static void keep_session(sky_seal *s, const sky_seal_session *x) {
    s->others[s->other_next] = *x;
    s->other_next = (s->other_next + 1) % SKY_SEAL_OPENERS_MAX;
    if (s->other_count < SKY_SEAL_OPENERS_MAX)
        s->other_count++;
}

void sky_seal_renew(sky_seal *s, const uint8_t salt[SKY_SEAL_SALT_BYTES]) {
    if (s->counter == 0)
        return;
    keep_session(s, &s->own);
    session_init(&s->own, s->own.key.suite, s->secret, salt);
    s->counter = 0;
}

/* What follows the ciphertext:  | kind 1 | salt 15 | counter 8 | tag 16 | */
static void trailer_begin(sky_seal *s, uint8_t trailer[SKY_SEAL_BYTES]) {
    trailer[0] = kind_of(s->own.key.suite);
    memcpy(trailer + 1, s->own.salt, SKY_SEAL_SALT_BYTES);
    sky_store_u64(trailer + SESSION_BYTES, ++s->counter);
}

/* Everything but the ciphertext that the seal's tag covers: who sealed it, and the chunk's name. */
static context seal_context(const uint8_t *trailer, const sky_message *m, uint8_t aad[AAD_BYTES]) {
    memcpy(aad, trailer, SESSION_BYTES);
    memcpy(aad + SESSION_BYTES, m->id.key.bytes, SKY_KEY_BYTES);
    sky_store_u64(aad + SESSION_BYTES + SKY_KEY_BYTES, m->id.version);
    sky_store_u32(aad + SESSION_BYTES + SKY_KEY_BYTES + 8, m->id.number);
    context x = {.aad = aad, .aad_bytes = AAD_BYTES};
    memcpy(x.nonce + 4, trailer + SESSION_BYTES, COUNTER_BYTES);
    return x;
}

/* The message's chunk, when there is one to seal. */
static bool find_chunk(const uint8_t *bytes, size_t byte_count, sky_message *m) {
    return sky_message_chunk(bytes, byte_count, m) && m->data_bytes > 0;
}

sky_status sky_seal_message(sky_seal *s, uint8_t *bytes, size_t bytes_max, size_t *byte_count) {
    sky_message m;
    if (!find_chunk(bytes, *byte_count, &m))
        return SKY_OK;
    if (bytes_max - *byte_count < SKY_SEAL_BYTES ||
        m.data_bytes + SKY_SEAL_BYTES > SKY_WIRE_DATA_BYTES_MAX)
        return SKY_E_DST_SMALL;
    uint8_t *data = bytes + (m.data - bytes);
    uint8_t *trailer = data + m.data_bytes;
    uint8_t aad[AAD_BYTES];
    trailer_begin(s, trailer);
    context x = seal_context(trailer, &m, aad);
    encrypt(&s->own.key, &x, data, m.data_bytes, trailer + TAG_OFFSET);
    *byte_count = sky_message_set_chunk(bytes, &m, m.data_bytes + SKY_SEAL_BYTES,
                                        sky_load_u64(trailer + TAG_OFFSET));
    return SKY_OK;
}

size_t sky_seal_message_bytes(const uint8_t *bytes, size_t byte_count) {
    sky_message m;
    return byte_count + (find_chunk(bytes, byte_count, &m) ? SKY_SEAL_BYTES : 0);
}

void sky_seal_into(sky_seal *s, uint8_t *bytes, size_t byte_count, const uint8_t *chunk,
                   const sky_pieces *to) {
    sky_message m;
    if (!find_chunk(bytes, byte_count, &m)) {
        sky_pieces_write(to, 0, bytes, (uint32_t)byte_count);
        return;
    }
    uint8_t *data = bytes + (m.data - bytes);
    uint32_t head_bytes = (uint32_t)(m.data - bytes);
    uint8_t trailer[SKY_SEAL_BYTES], aad[AAD_BYTES];
    trailer_begin(s, trailer);
    context x = seal_context(trailer, &m, aad);
    if (s->own.key.suite == SKY_SUITE_AEGIS) {
        sky_aegis_context aegis = aegis_context(&s->own.key, &x);
        sky_aegis_seal_into(&aegis, chunk ? chunk : data, m.data_bytes, to, head_bytes,
                            trailer + TAG_OFFSET);
    } else {
        if (chunk)
            memcpy(data, chunk, m.data_bytes);
        encrypt(&s->own.key, &x, data, m.data_bytes, trailer + TAG_OFFSET);
        sky_pieces_write(to, head_bytes, data, m.data_bytes);
    }
    sky_pieces_write(to, head_bytes + m.data_bytes, trailer, SKY_SEAL_BYTES);
    sky_message_set_chunk(bytes, &m, m.data_bytes + SKY_SEAL_BYTES,
                          sky_load_u64(trailer + TAG_OFFSET));
    sky_pieces_write(to, 0, bytes, head_bytes);
}

/* Only a session in the open reads what is in the open, and nobody another version's seals. */
static bool may_open(const sky_seal *s, uint8_t kind) {
    sky_suite suite = suite_of(kind);
    return suite < SKY_SUITE_END && kind == kind_of(suite) && sky_suite_works(suite) &&
           (suite == SKY_SUITE_PLAIN) == (s->own.key.suite == SKY_SUITE_PLAIN);
}

static bool open_chunk(sky_seal *s, const sky_message *m, uint8_t *data, uint32_t plain_bytes) {
    const uint8_t *trailer = data + plain_bytes;
    uint8_t aad[AAD_BYTES];
    if (!may_open(s, trailer[0]))
        return false;
    context x = seal_context(trailer, m, aad);
    const sky_cipher_key *key = key_of(s, suite_of(trailer[0]), trailer + 1);
    if (key)
        return decrypt(key, &x, data, plain_bytes, trailer + TAG_OFFSET);
    sky_seal_session fresh; /* anybody can make up a salt, and with it have a key derived */
    session_init(&fresh, suite_of(trailer[0]), s->secret, trailer + 1);
    bool opens = decrypt(&fresh.key, &x, data, plain_bytes, trailer + TAG_OFFSET);
    if (opens)
        keep_session(s, &fresh);
    sky_cipher_key_wipe(&fresh.key);
    return opens;
}

sky_status sky_seal_open(sky_seal *s, uint8_t *bytes, size_t *byte_count) {
    sky_message m;
    sky_status status = sky_message_decode(bytes, *byte_count, &m);
    if (status != SKY_OK || !sky_message_chunk(bytes, *byte_count, &m) || m.data_bytes == 0)
        return status;
    if (m.data_bytes <= SKY_SEAL_BYTES ||
        !open_chunk(s, &m, bytes + (m.data - bytes), m.data_bytes - SKY_SEAL_BYTES)) {
        s->forged++;
        return SKY_E_CORRUPT;
    }
    *byte_count = sky_message_set_chunk(bytes, &m, m.data_bytes - SKY_SEAL_BYTES, 0);
    return SKY_OK;
}
