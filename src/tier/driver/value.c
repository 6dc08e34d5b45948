#include "tier/driver/value.h"

#include <string.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/hash.h"

#define MAGIC        0x56594b53u /* "SKYV" */
#define VERSION      1u
#define CONTENT_SUM  112u
#define HEAD_SUM     120u
#define CONTENT_SEED UINT64_C(0x7061796c6f6164) /* "payload" */

/* A value under another key's name has another sum. */
static uint64_t seed_of(const sky_key *key, uint64_t purpose) {
    return sky_load_u64(key->bytes) ^ purpose;
}

static uint64_t content_sum(const sky_value_head *head, const uint8_t *value) {
    return sky_checksum(value + SKY_VALUE_HEAD_BYTES,
                        (size_t)(head->name_bytes + head->payload_bytes),
                        seed_of(&head->key, CONTENT_SEED));
}

void sky_value_seal(const sky_value_head *head, uint8_t *value) {
    sky_writer w = sky_writer_over(value, SKY_VALUE_HEAD_BYTES);
    sky_write_u32(&w, MAGIC);
    sky_write_u16(&w, VERSION);
    sky_write_u8(&w, head->coding);
    sky_write_u8(&w, 0);
    sky_write_u64(&w, head->payload_bytes);
    sky_write_u64(&w, (uint64_t)head->set_ms);
    sky_write_u64(&w, (uint64_t)head->expire_ms);
    sky_write_bytes(&w, head->key.bytes, sizeof head->key.bytes);
    sky_write_bytes(&w, head->parent.bytes, sizeof head->parent.bytes);
    sky_write_u32(&w, head->name_bytes);
    sky_write_u32(&w, 0);
    sky_write_u64(&w, 0);
    sky_write_u64(&w, content_sum(head, value));
    sky_store_u64(value + HEAD_SUM, sky_checksum(value, HEAD_SUM, seed_of(&head->key, 0)));
}

sky_status sky_value_open(const uint8_t *value, uint64_t bytes, uint64_t value_bytes,
                          const sky_key *key, sky_value_head *out) {
    if (bytes < SKY_VALUE_HEAD_BYTES || value_bytes < bytes ||
        sky_load_u64(value + HEAD_SUM) != sky_checksum(value, HEAD_SUM, seed_of(key, 0)))
        return SKY_E_CORRUPT;
    sky_reader r = sky_reader_over(value, SKY_VALUE_HEAD_BYTES);
    bool known = sky_read_u32(&r) == MAGIC && sky_read_u16(&r) == VERSION;
    out->coding = sky_read_u8(&r);
    known = known && out->coding <= SKY_CODINGS_MAX;
    (void)sky_read_u8(&r);
    out->payload_bytes = sky_read_u64(&r);
    out->set_ms = (int64_t)sky_read_u64(&r);
    out->expire_ms = (int64_t)sky_read_u64(&r);
    const uint8_t *keys = sky_read_bytes(&r, 2 * sizeof key->bytes);
    memcpy(out->key.bytes, keys, sizeof out->key.bytes);
    memcpy(out->parent.bytes, keys + sizeof out->key.bytes, sizeof out->parent.bytes);
    out->name_bytes = sky_read_u32(&r);
    bool sized = out->name_bytes <= SKY_NAME_BYTES_MAX &&
                 out->payload_bytes <= SKY_PAYLOAD_BYTES_MAX &&
                 SKY_VALUE_HEAD_BYTES + out->name_bytes + out->payload_bytes == value_bytes;
    return known && sized && sky_key_equal(&out->key, key) ? SKY_OK : SKY_E_CORRUPT;
}

sky_status sky_value_check(const sky_value_head *head, const uint8_t *value) {
    return sky_load_u64(value + CONTENT_SUM) == content_sum(head, value) ? SKY_OK : SKY_E_CORRUPT;
}
