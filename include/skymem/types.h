/* The few values that travel through every call: keys, spans, ranges, times. */
#ifndef SKYMEM_TYPES_H
#define SKYMEM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <skymem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds. Points in time are on the monotonic clock of sky_now(), unless a name ends in `_ms`
 * and says "wall": then it is milliseconds since 1970. */
typedef int64_t sky_time;
#define SKY_TIME_NEVER INT64_MAX
#define SKY_MS(n)      ((sky_time)(n)*1000000)
#define SKY_SECONDS(n) ((sky_time)(n)*1000000000)

/* The monotonic clock of this process, in nanoseconds. */
SKY_API sky_time sky_now(void);

#define SKY_KEY_BYTES      32
#define SKY_NAME_BYTES_MAX 1024

/* A block key (chained, see skymem/keys.h) or the hash of a general key's name. */
typedef struct {
    uint8_t bytes[SKY_KEY_BYTES];
} sky_key;

/* A piece of the caller's memory. In a get, `data == NULL` skips that many bytes of the payload. */
typedef struct {
    void *data;
    size_t bytes;
} sky_span;

/* How the bytes of a stored payload are coded: 0: as they came; 1 to 8: at sky_level n - 1 of
 * skymem/codec.h. 9 to SKY_CODING_MAX: a lower copy next to a better one, as a store that is opened
 * without its levels shows it; no call takes it. */
typedef uint8_t sky_coding;
#define SKY_CODING_MAX 15

/* Type of one element of a row of KV, little-endian. */
typedef enum {
    SKY_ELEMENT_F16 = 1,
    SKY_ELEMENT_F32 = 2,
    SKY_ELEMENT_BF16 = 3,
    SKY_ELEMENT_BYTE = 4, /* bytes that only the engine can read: fp8, int8, blocks with their
                             scales. Stored unchanged, at no level. Scales in separate memory are a
                             layer group of their own; a scale of the whole model goes into the
                             fingerprint */
} sky_element;

static inline bool sky_element_is_known(sky_element element) {
    return element >= SKY_ELEMENT_F16 && element <= SKY_ELEMENT_BYTE;
}

static inline uint32_t sky_element_bytes(sky_element element) {
    return element == SKY_ELEMENT_F32 ? 4 : element == SKY_ELEMENT_BYTE ? 1 : 2;
}

#define SKY_LAYERS_MAX 1024 /* of a model */

/* Part of a payload: {0, 0} is all of it, {offset, SKY_ALL} what follows the offset. */
typedef struct {
    uint64_t offset;
    uint64_t bytes;
} sky_range;
#define SKY_ALL UINT64_MAX

/* Eviction classes: which entries leave memory or a disk first when room is needed. Within a class
 * the least recently used leaves first. */
#define SKY_EVICT_NORMAL 0
#define SKY_EVICT_SOON   1 /* before all others: what is not likely to be asked for again */
#define SKY_EVICT_LAST                                                                             \
    2 /* after all others, as far as these take no more than half of the tier's bytes and of its
         entries: beyond that those used longest ago are normal. A shared document */

#ifdef __cplusplus
}
#endif
#endif
