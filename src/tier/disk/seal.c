#include "tier/disk/seal.h"

#include <assert.h>
#include <string.h>

#include <sodium.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/file.h"
#include "io/secret.h"

#define NAME       ".seal"
#define MAGIC      UINT64_C(0x314c414553594b53) /* "SKYSEAL1" */
#define SALT_BYTES 32
/* Blocks of 64 bytes of the key stream: a payload takes those from 0, at most 2^26 of them. */
#define NAME_BLOCK (UINT64_C(1) << 40)
#define KEYS_BLOCK (UINT64_C(1) << 41)

static_assert(SKY_DISK_NONCE_BYTES == crypto_stream_xchacha20_NONCEBYTES, "a nonce may be random");
static_assert(crypto_stream_xchacha20_KEYBYTES == 32, "as BLAKE2b gives them");

struct sky_disk_seal {
    uint8_t names[32];
    uint8_t bytes[32];
    uint8_t macs[32];
    uint8_t file[SKY_DISK_SEAL_FILE_BYTES];
};

/* ---- the folder's key ---- */

static void derive_key(const uint8_t key[32], const char *use, const uint8_t *salt,
                       uint8_t out[32]) {
    sky_blake2b h;
    sky_blake2b_init(&h, key);
    sky_blake2b_add(&h, use, strlen(use));
    if (salt)
        sky_blake2b_add(&h, salt, SALT_BYTES);
    sky_blake2b_end(&h, out);
    sodium_memzero(&h, sizeof h);
}

/* All keys, and what PATH/.seal should say. */
static void fill_seal(sky_disk_seal *s, const uint8_t secret[SKY_SECRET_FILE_BYTES],
                      const uint8_t salt[SALT_BYTES]) {
    uint8_t folder[32];
    derive_key(secret, "skymem disk seal", salt, folder);
    derive_key(folder, "names", NULL, s->names);
    derive_key(folder, "bytes", NULL, s->bytes);
    derive_key(folder, "macs", NULL, s->macs);
    sky_store_u64(s->file, MAGIC);
    memcpy(s->file + 8, salt, SALT_BYTES);
    derive_key(folder, "check", NULL, s->file + 8 + SALT_BYTES);
    sodium_memzero(folder, sizeof folder);
}

/* *bytes: 0 when there is none. */
static sky_status read_file(int root, uint8_t out[SKY_DISK_SEAL_FILE_BYTES], size_t *bytes) {
    int fd;
    *bytes = 0;
    sky_status status = sky_file_open(root, NAME, SKY_FILE_PLAIN, &fd);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_OK : status;
    status = sky_file_check_owner(fd, NAME, NULL);
    if (status == SKY_OK)
        status = sky_file_read_at(fd, out, SKY_DISK_SEAL_FILE_BYTES, 0, bytes);
    sky_file_close(fd);
    return status;
}

/* Synced: without it no entry can be read. */
static sky_status write_file(int root, const sky_disk_seal *s) {
    int fd;
    sky_status status = sky_file_open(root, NAME, SKY_FILE_PLAIN | SKY_FILE_WRITE | SKY_FILE_CREATE,
                                      &fd);
    if (status != SKY_OK)
        return status;
    status = sky_file_write_at(fd, s->file, sizeof s->file, 0);
    if (status == SKY_OK)
        status = sky_file_sync(fd);
    sky_file_close(fd);
    return status == SKY_OK ? sky_file_sync(root) : status;
}

static sky_status adopt_file(sky_disk_seal *s, const uint8_t *secret,
                             const uint8_t file[SKY_DISK_SEAL_FILE_BYTES], size_t bytes,
                             const char *path, sky_error *error) {
    if (bytes != SKY_DISK_SEAL_FILE_BYTES || sky_load_u64(file) != MAGIC)
        return sky_fail(error, SKY_E_CORRUPT,
                        "%s/" NAME ": damaged, and without it the folder cannot be read: restore "
                        "it, or empty the folder",
                        path);
    fill_seal(s, secret, file + 8);
    if (sodium_memcmp(s->file, file, sizeof s->file) != 0)
        return sky_fail(error, SKY_E_DENIED,
                        "%s: sealed under another key; name that in seal=", path);
    return SKY_OK;
}

/* A seal for `secret`, of which `file` is what the folder has; NULL: a new one.
 * Owner: sky_disk_seal_close */
static sky_status make_seal(const uint8_t *secret, const uint8_t *file, size_t bytes,
                            const char *path, sky_disk_seal **out, sky_error *error) {
    sky_disk_seal *s = sky_secret_alloc(sizeof *s);
    if (!s)
        return sky_fail(error, SKY_E_NOMEM, "%s: no memory to open it", path);
    sky_status status = SKY_OK;
    if (file) {
        status = adopt_file(s, secret, file, bytes, path, error);
    } else {
        uint8_t salt[SALT_BYTES];
        sky_random(salt, sizeof salt);
        fill_seal(s, secret, salt);
    }
    if (status == SKY_OK)
        *out = s;
    else
        sky_secret_free(s);
    return status;
}

static sky_status read_secret(const char *key_path, uint8_t secret[SKY_SECRET_FILE_BYTES],
                              sky_error *error) {
    return sodium_init() < 0 ? SKY_E_UNSUPPORTED : sky_secret_read(key_path, secret, error);
}

sky_status sky_disk_seal_open(int root, const char *path, const char *key_path, sky_disk_seal **out,
                              sky_error *error) {
    uint8_t secret[SKY_SECRET_FILE_BYTES], file[SKY_DISK_SEAL_FILE_BYTES];
    size_t bytes;
    sky_status status = read_file(root, file, &bytes);
    if (status == SKY_E_DENIED)
        return sky_fail(error, status,
                        "%s/" NAME ": this user may not read it, or another may change it", path);
    if (status != SKY_OK)
        return sky_fail(error, status,
                        "%s/" NAME ": cannot be read: the disk fails, or too many files are open "
                        "(ulimit -n)",
                        path);
    if (bytes == 0)
        return SKY_MISS;
    if (!key_path)
        return sky_fail(error, SKY_E_DENIED, "%s: is sealed: name its key, disk:%s?seal=FILE", path,
                        path);
    status = read_secret(key_path, secret, error);
    if (status == SKY_OK)
        status = make_seal(secret, file, bytes, path, out, error);
    sodium_memzero(secret, sizeof secret);
    return status;
}

sky_status sky_disk_seal_begin_folder(int root, const char *path, const char *key_path,
                                      sky_disk_seal **out, sky_error *error) {
    uint8_t secret[SKY_SECRET_FILE_BYTES];
    sky_disk_seal *s = NULL;
    sky_status status = read_secret(key_path, secret, error);
    if (status == SKY_OK)
        status = make_seal(secret, NULL, 0, path, &s, error);
    sodium_memzero(secret, sizeof secret);
    if (status != SKY_OK)
        return status;
    status = write_file(root, s);
    if (status == SKY_OK) {
        *out = s;
        return SKY_OK;
    }
    sky_fail(error, status, "%s/" NAME ": cannot be written: %s", path, sky_errno_text());
    sky_secret_free(s); /* which may change errno */
    return status;
}

sky_status sky_disk_seal_check(const char *key_path, sky_error *error) {
    uint8_t secret[SKY_SECRET_FILE_BYTES];
    sky_status status = key_path ? sky_secret_read(key_path, secret, error) : SKY_OK;
    sodium_memzero(secret, sizeof secret);
    return status;
}

sky_status sky_disk_seal_again(const sky_disk_seal *seal, int root) {
    uint8_t file[SKY_DISK_SEAL_FILE_BYTES];
    size_t bytes;
    sky_status status = read_file(root, file, &bytes);
    if (status != SKY_OK || !seal)
        return status == SKY_OK && bytes > 0 ? SKY_E_DENIED : status;
    if (bytes == 0)
        return write_file(root, seal);
    return memcmp(file, seal->file, sizeof file) == 0 ? SKY_OK : SKY_E_DENIED;
}

void sky_disk_seal_close(sky_disk_seal *seal) {
    sky_secret_free(seal);
}

/* ---- entries ---- */

sky_key sky_disk_seal_hide(const sky_disk_seal *seal, const sky_key *key) {
    sky_key hidden = *key;
    if (!seal || sky_key_is_zero(key))
        return hidden;
    sky_blake2b h;
    sky_blake2b_init(&h, seal->names);
    sky_blake2b_add(&h, key->bytes, sizeof key->bytes);
    sky_blake2b_end(&h, hidden.bytes);
    return hidden;
}

static void apply_stream(const sky_disk_seal *seal, const sky_disk_header *h, uint64_t block,
                         uint8_t *data, size_t bytes) {
    crypto_stream_xchacha20_xor_ic(data, data, bytes, h->sealed.nonce, block, seal->bytes);
}

static void apply_to_names(const sky_disk_seal *seal, sky_disk_header *h) {
    apply_stream(seal, h, NAME_BLOCK, h->name, h->name_bytes);
    apply_stream(seal, h, KEYS_BLOCK, h->sealed.keys, sizeof h->sealed.keys);
}

void sky_disk_seal_begin(const sky_disk_seal *seal, sky_disk_header *h, const sky_key *key,
                         const sky_key *parent) {
    h->is_sealed = true;
    sky_random(h->sealed.nonce, sizeof h->sealed.nonce);
    memcpy(h->sealed.keys, key->bytes, SKY_KEY_BYTES);
    memcpy(h->sealed.keys + SKY_KEY_BYTES, parent->bytes, SKY_KEY_BYTES);
    apply_to_names(seal, h);
}

void sky_disk_seal_bytes(const sky_disk_seal *seal, const sky_disk_header *h, uint64_t at,
                         uint8_t *data, size_t bytes) {
    assert(at % 64 == 0);
    apply_stream(seal, h, at / 64, data, bytes);
}

static void tag_of(const sky_disk_seal *seal, const uint8_t bytes[SKY_DISK_HEADER_BYTES],
                   uint8_t tag[SKY_DISK_TAG_BYTES]) {
    sky_blake2b h;
    sky_blake2b_init(&h, seal->macs);
    sky_blake2b_add(&h, "header", 6);
    sky_blake2b_add(&h, bytes, SKY_DISK_TAGGED_BYTES);
    sky_blake2b_end(&h, tag);
}

void sky_disk_seal_end(const sky_disk_seal *seal, sky_disk_header *h) {
    uint8_t bytes[SKY_DISK_HEADER_BYTES];
    sky_disk_header_encode(h, bytes);
    tag_of(seal, bytes, h->sealed.tag);
}

bool sky_disk_seal_read(const sky_disk_seal *seal, const uint8_t bytes[SKY_DISK_HEADER_BYTES],
                        sky_disk_header *h) {
    uint8_t tag[SKY_DISK_TAG_BYTES];
    if (!seal || !h->is_sealed)
        return !seal && !h->is_sealed;
    tag_of(seal, bytes, tag);
    if (sodium_memcmp(tag, h->sealed.tag, sizeof tag) != 0)
        return false;
    apply_to_names(seal, h);
    return true;
}

const uint8_t *sky_disk_seal_page_key(const sky_disk_seal *seal) {
    return seal ? seal->macs : NULL;
}
