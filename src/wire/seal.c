#include "wire/seal.h"

#include <assert.h>
#include <string.h>

#include <sodium.h>

#include "base/bytes.h"
#include "base/hash.h"

#define NAMES_LABEL    "names: " /* no session's label is as short */
#define TENANT_LABEL   "tenant: "
#define NAME_BYTES_MAX 64
#define SEAL_VERSION   3                         /* 2 had one key for all suites */
#define SESSION_BYTES  (1 + SKY_SEAL_SALT_BYTES) /* kind and salt */
#define COUNTER_BYTES  8
#define TAG_OFFSET     (SESSION_BYTES + COUNTER_BYTES)
#define AAD_BYTES      (SESSION_BYTES + SKY_KEY_BYTES + 12) /* … key, version, chunk */

_Static_assert(SKY_SEAL_BYTES == TAG_OFFSET + SKY_TAG_BYTES, "the seal's layout");

sky_suites sky_suites_wanted(sky_suite wanted) {
    bool both = wanted == SKY_SUITE_PLAIN;
    return (sky_suites){.own = both ? sky_suite_best() : wanted, .both = both};
}

bool sky_suites_take(sky_suites s, sky_suite suite) {
    bool other = s.both && s.own != SKY_SUITE_PLAIN && suite != SKY_SUITE_PLAIN;
    return suite == s.own || (other && suite < SKY_SUITE_END);
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
}

void sky_cipher_key_wipe(sky_cipher_key *k) {
    sodium_memzero(k, sizeof *k);
}

/* ---- one interface over plain and the suites ---- */

typedef struct {
    uint8_t nonce[SKY_NONCE_BYTES];
    const void *aad;
    size_t aad_bytes;
} context;

static sky_aead_input input_of(const sky_cipher_key *k, const context *x) {
    return (sky_aead_input){
        .key = k->bytes, .nonce = x->nonce, .aad = x->aad, .aad_bytes = x->aad_bytes};
}

static void plain_tag(const context *x, const uint8_t *data, size_t bytes, uint8_t *tag) {
    uint64_t seed = sky_checksum(x->aad, x->aad_bytes, sky_load_u64(x->nonce + 4));
    sky_store_u64(tag, sky_checksum(data, bytes, seed));
    sky_store_u64(tag + 8, sky_load_u32(x->nonce));
}

static void seal_encrypt(sky_aead *a, const sky_cipher_key *k, const context *x, const uint8_t *src,
                         uint8_t *dst, size_t bytes, uint8_t *tag) {
    if (k->suite != SKY_SUITE_PLAIN) {
        sky_aead_input in = input_of(k, x);
        sky_aead_seal(a, k->suite, &in, src, dst, bytes, tag);
        return;
    }
    if (dst != src)
        memcpy(dst, src, bytes);
    plain_tag(x, dst, bytes, tag);
}

/* False, and no data, when the tag is wrong. */
static bool seal_decrypt(sky_aead *a, const sky_cipher_key *k, const context *x, uint8_t *data,
                         size_t bytes, const uint8_t *tag) {
    if (k->suite != SKY_SUITE_PLAIN) {
        sky_aead_input in = input_of(k, x);
        return sky_aead_open(a, k->suite, &in, data, bytes, tag);
    }
    uint8_t right[SKY_TAG_BYTES];
    plain_tag(x, data, bytes, right);
    return memcmp(right, tag, sizeof right) == 0;
}

/* ---- tags ---- */

/* In place: a copy of what was just written in smaller pieces waits for them. */
static context tag_context(uint64_t counter, const void *data, size_t bytes) {
    context x = {.aad = data, .aad_bytes = bytes};
    sky_store_u64(x.nonce + 4, counter);
    return x;
}

void sky_tag_make(sky_aead *a, const sky_cipher_key *k, uint64_t counter, const void *data,
                  size_t bytes, uint8_t tag[SKY_TAG_BYTES]) {
    context x = tag_context(counter, data, bytes);
    uint8_t nothing[1] = {0};
    seal_encrypt(a, k, &x, nothing, nothing, 0, tag);
}

bool sky_tag_check(sky_aead *a, const sky_cipher_key *k, uint64_t counter, const void *data,
                   size_t bytes, const uint8_t tag[SKY_TAG_BYTES]) {
    context x = tag_context(counter, data, bytes);
    uint8_t nothing[1] = {0};
    return seal_decrypt(a, k, &x, nothing, 0, tag);
}

/* ---- chunks ---- */

/* A seal's first byte. */
static uint8_t kind_of(sky_suite suite) {
    return (uint8_t)(SEAL_VERSION << 4 | (uint8_t)suite);
}

static sky_suite suite_of(uint8_t kind) {
    return (sky_suite)(kind & 15);
}

static void session_init(sky_seal_session *x, sky_suite suite, const uint8_t *secret,
                         const uint8_t *salt) {
    uint8_t name[8 + SESSION_BYTES] = "chunks: "; /* no link's name is as long */
    name[8] = kind_of(suite);
    memcpy(name + 9, salt, SKY_SEAL_SALT_BYTES);
    memcpy(x->salt, salt, SKY_SEAL_SALT_BYTES);
    sky_cipher_key_init(&x->key, suite, secret, name, sizeof name);
}

void sky_seal_init(sky_seal *s, sky_aead *a, sky_suites suites,
                   const uint8_t secret[SKY_SECRET_BYTES],
                   const uint8_t salt[SKY_SEAL_SALT_BYTES]) {
    assert(a || suites.own == SKY_SUITE_PLAIN);
    memset(s, 0, sizeof *s);
    s->aead = a;
    s->suites = suites;
    memcpy(s->secret, secret, SKY_SECRET_BYTES);
    uint8_t tenant[SKY_SECRET_BYTES];
    keyed_hash(secret, NAMES_LABEL, sizeof NAMES_LABEL - 1, s->names);
    keyed_hash(secret, TENANT_LABEL, sizeof TENANT_LABEL - 1, tenant);
    memcpy(s->tenant, tenant, SKY_TENANT_BYTES);
    session_init(&s->own, suites.own, secret, salt);
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
    seal_encrypt(s->aead, &s->own.key, &x, data, data, m.data_bytes, trailer + TAG_OFFSET);
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
    seal_encrypt(s->aead, &s->own.key, &x, chunk ? chunk : data, data, m.data_bytes,
                 trailer + TAG_OFFSET);
    sky_pieces_write(to, head_bytes, data, m.data_bytes);
    sky_pieces_write(to, head_bytes + m.data_bytes, trailer, SKY_SEAL_BYTES);
    sky_message_set_chunk(bytes, &m, m.data_bytes + SKY_SEAL_BYTES,
                          sky_load_u64(trailer + TAG_OFFSET));
    sky_pieces_write(to, 0, bytes, head_bytes);
}

/* Of this version, and of a suite that this session takes. */
static bool may_open(const sky_seal *s, uint8_t kind) {
    return kind == kind_of(suite_of(kind)) && sky_suites_take(s->suites, suite_of(kind));
}

static bool open_chunk(sky_seal *s, const sky_message *m, uint8_t *data, uint32_t plain_bytes) {
    const uint8_t *trailer = data + plain_bytes;
    uint8_t aad[AAD_BYTES];
    if (!may_open(s, trailer[0]))
        return false;
    context x = seal_context(trailer, m, aad);
    const sky_cipher_key *key = key_of(s, suite_of(trailer[0]), trailer + 1);
    if (key)
        return seal_decrypt(s->aead, key, &x, data, plain_bytes, trailer + TAG_OFFSET);
    sky_seal_session fresh; /* anybody can make up a salt, and with it have a key derived */
    session_init(&fresh, suite_of(trailer[0]), s->secret, trailer + 1);
    bool opens = seal_decrypt(s->aead, &fresh.key, &x, data, plain_bytes, trailer + TAG_OFFSET);
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
