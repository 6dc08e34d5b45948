/* How a payload lies in a driver's store: docs/formats/driver.md.
 *
 *   | head, 128 bytes | name | payload |      one checksum of the head, one of name and payload
 *
 * The store is not trusted: everything here is checked before it is believed. */
#ifndef SKY_TIER_DRIVER_VALUE_H
#define SKY_TIER_DRIVER_VALUE_H

#include <skymem/cache.h>

#define SKY_VALUE_HEAD_BYTES 128u

typedef struct {
    sky_key key;
    sky_key parent; /* zero: none */
    uint64_t payload_bytes;
    uint32_t name_bytes;
    sky_coding coding;
    int64_t set_ms;
    int64_t expire_ms; /* 0: never */
} sky_value_head;

/* Write the head before the name and payload, which lie in `value` already.
 * Shape: value [SKY_VALUE_HEAD_BYTES + name_bytes + payload_bytes] */
void sky_value_seal(const sky_value_head *head, uint8_t *value);
/* Read a head of a value of `value_bytes`.
 * Shape:  value [bytes], the beginning of the value
 * Errors: SKY_E_CORRUPT: no head, of another key, or of a value of another size */
sky_status sky_value_open(const uint8_t *value, uint64_t bytes, uint64_t value_bytes,
                          const sky_key *key, sky_value_head *out);
/* Check name and payload of a whole value whose head was read. Errors: SKY_E_CORRUPT */
sky_status sky_value_check(const sky_value_head *head, const uint8_t *value);

#endif
