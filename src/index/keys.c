#include <skymem/keys.h>

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

static void add_tokens(sky_blake2b *h, const uint32_t *tokens, size_t token_count) {
    uint8_t packed[256 * 4];
    while (token_count > 0) {
        size_t step = token_count < 256 ? token_count : 256;
        for (size_t i = 0; i < step; i++)
            sky_store_u32(packed + 4 * i, tokens[i]);
        sky_blake2b_add(h, packed, step * 4);
        tokens += step;
        token_count -= step;
    }
}

void sky_block_key(const sky_namespace *ns, const sky_key *parent, const uint32_t *tokens,
                   size_t token_count, sky_key *out) {
    static const sky_key none;
    sky_blake2b h;
    if (!ns || !out || (!tokens && token_count > 0))
        return;
    sky_blake2b_init(&h, ns->bytes);
    sky_blake2b_add(&h, (parent ? parent : &none)->bytes, SKY_KEY_BYTES);
    add_tokens(&h, tokens, token_count);
    sky_blake2b_end(&h, out->bytes);
}

size_t sky_block_keys(const sky_namespace *ns, const uint32_t *tokens, size_t token_count,
                      uint32_t block_tokens, sky_key *keys, size_t key_count_max) {
    size_t count = block_tokens > 0 && ns && tokens && keys ? token_count / block_tokens : 0;
    if (count > key_count_max)
        count = key_count_max;
    for (size_t i = 0; i < count; i++)
        sky_block_key(ns, i ? &keys[i - 1] : NULL, tokens + i * block_tokens, block_tokens,
                      &keys[i]);
    return count;
}

sky_status sky_name_key(const sky_namespace *ns, const void *name, size_t name_bytes,
                        sky_key *out) {
    if (!ns || !name || !out || name_bytes == 0 || name_bytes > SKY_NAME_BYTES_MAX)
        return SKY_E_PARAM;
    sky_blake2b h;
    sky_blake2b_init(&h, ns->bytes);
    sky_blake2b_add(&h, "name:", 5);
    sky_blake2b_add(&h, name, name_bytes);
    sky_blake2b_end(&h, out->bytes);
    return SKY_OK;
}

void sky_namespace_salt(sky_namespace *ns, const uint8_t salt[SKY_SALT_BYTES]) {
    static const uint8_t none[SKY_SALT_BYTES];
    sky_blake2b h;
    if (!ns || !salt || memcmp(salt, none, sizeof none) == 0)
        return;
    sky_blake2b_init(&h, salt);
    sky_blake2b_add(&h, "skymem salt", 11);
    sky_blake2b_add(&h, ns->bytes, sizeof ns->bytes);
    sky_blake2b_end(&h, ns->bytes);
}

void sky_key_hex(const sky_key *key, char out[SKY_KEY_BYTES * 2 + 1]) {
    static const char digits[] = "0123456789abcdef";
    if (!key || !out)
        return;
    for (size_t i = 0; i < SKY_KEY_BYTES; i++) {
        out[2 * i] = digits[key->bytes[i] >> 4];
        out[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    out[SKY_KEY_BYTES * 2] = 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

sky_status sky_key_parse(const char *hex, sky_key *out) {
    sky_key key;
    if (!hex || !out)
        return SKY_E_PARAM;
    for (size_t i = 0; i < SKY_KEY_BYTES; i++) {
        int high = hex_digit(hex[2 * i]);
        int low = high < 0 ? -1 : hex_digit(hex[2 * i + 1]);
        if (low < 0)
            return SKY_E_SYNTAX;
        key.bytes[i] = (uint8_t)(high << 4 | low);
    }
    if (hex[SKY_KEY_BYTES * 2] != 0)
        return SKY_E_SYNTAX;
    *out = key;
    return SKY_OK;
}

bool sky_key_equal(const sky_key *a, const sky_key *b) {
    return a && b && memcmp(a->bytes, b->bytes, SKY_KEY_BYTES) == 0;
}

bool sky_key_is_zero(const sky_key *key) {
    static const sky_key none;
    return sky_key_equal(key, &none);
}
