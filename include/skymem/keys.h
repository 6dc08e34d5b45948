/* Block keys: a prompt's tokens, cut into blocks, each block named by all tokens up to its end.
 *
 *   tokens  | t0 … t127 | t128 … t255 | t256 … t299 |
 *   keys      key[0]      key[1]        (no key: only whole blocks have one)
 *
 *   key[i]  = BLAKE2b-256(key = namespace, key[i-1] ‖ tokens as u32 little-endian)
 *   key[-1] = 32 zero bytes
 *
 * Equal keys therefore mean equal prefixes under an equal namespace. Finding key[i] in a store
 * means that everything before it was computed under the same model, tokenizer and settings. */
#ifndef SKYMEM_KEYS_H
#define SKYMEM_KEYS_H

#include <skymem/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_BLOCK_TOKENS_DEFAULT 128
#define SKY_BLOCK_TOKENS_MAX     4096

/* 32 bytes that fingerprint everything that makes a KV cache invalid when it changes. For prompts
 * the manager derives them from the engine's fingerprint, the layout, the block length and the
 * tenant's salt; the names of `skymem put` and its kin have 32 zero bytes, salted. */
typedef struct {
    uint8_t bytes[32];
} sky_namespace;

/* Separates tenants that share a store. Without a salt a key is a public function of the model and
 * the tokens. A program that may use the store can ask for the key of a guessed text: the answer,
 * or how soon it comes, shows whether somebody else stored it. Under a salt that is secret nobody
 * else can name the key, so no two tenants ever share an entry. */
#define SKY_SALT_BYTES 32

/* Make `ns` the namespace of the tenant: BLAKE2b-256 of "skymem salt" and ns, keyed with the salt.
 * A salt of zeros is none: it leaves ns as it is. */
SKY_API void sky_namespace_salt(sky_namespace *ns, const uint8_t salt[SKY_SALT_BYTES]);

/* Read a salt from a file of 64 hexadecimal digits that is the user's (or root's) and that nobody
 * else may read or change (mode 0600 or 0400).
 * Errors: SKY_E_DENIED (others may read or change it), SKY_E_CORRUPT (no salt, or zeros), SKY_E_IO;
 *         `error`, which may be NULL, says which file, why, and what to do */
SKY_API sky_status sky_salt_read(const char *path, uint8_t salt[SKY_SALT_BYTES], sky_error *error);

/* Key of one block.
 * Shape:  parent NULL for the first block; tokens [token_count]
 * Errors: none
 * Source: SkyMemory "Basic Protocol"; a keyed hash instead of a plain one, so that a satellite that
 *         sees a key learns nothing about the text */
SKY_API void sky_block_key(const sky_namespace *ns, const sky_key *parent, const uint32_t *tokens,
                           size_t token_count, sky_key *out);

/* Keys of all whole blocks of a prompt.
 * Shape:  keys [key_count_max]; writes min(token_count / block_tokens, key_count_max) of them
 * Returns the number written; 0 when block_tokens is 0. */
SKY_API size_t sky_block_keys(const sky_namespace *ns, const uint32_t *tokens, size_t token_count,
                              uint32_t block_tokens, sky_key *keys, size_t key_count_max);

/* Key of a general name of 1 to SKY_NAME_BYTES_MAX bytes. Never equal to a block key: the hash
 * input starts with the bytes "name:".
 * Errors: SKY_E_PARAM when the name is empty or too long */
SKY_API sky_status sky_name_key(const sky_namespace *ns, const void *name, size_t name_bytes,
                                sky_key *out);

/* 64 lower-case hex digits and a NUL. */
SKY_API void sky_key_hex(const sky_key *key, char out[SKY_KEY_BYTES * 2 + 1]);
/* Errors: SKY_E_SYNTAX unless `hex` is exactly 64 hex digits */
SKY_API sky_status sky_key_parse(const char *hex, sky_key *out);

/* BLAKE2b-256 of the pieces, one after the other: for fingerprints that make up a namespace. */
SKY_API void sky_digest(const sky_span *pieces, size_t piece_count, uint8_t out[32]);
/* The same of pieces that come one at a time, such as those of a large file. `next` sets a piece
 * and returns true, or returns false when there is none left.
 * Owner: a piece is the caller's, and stays valid until the following call of `next` */
SKY_API void sky_digest_each(bool (*next)(void *context, sky_span *piece), void *context,
                             uint8_t out[32]);

/* XXH3-64 with a seed: tells contents of any size apart at the speed of memory. Against accidents,
 * not adversaries. */
SKY_API uint64_t sky_content_hash(const void *data, size_t bytes, uint64_t seed);

/* Same 32 bytes; all of them zero, as the parent of a first block. */
SKY_API bool sky_key_equal(const sky_key *a, const sky_key *b);
SKY_API bool sky_key_is_zero(const sky_key *key);

#ifdef __cplusplus
}
#endif
#endif
