/* Fields of frames between processes and between hosts (shm/frame.h, peer/frame.h): each is read
 * from any bytes, and what its writer does not write fails the reader. */
#ifndef SKY_TIER_FIELDS_H
#define SKY_TIER_FIELDS_H

#include <string.h>

#include <skymem/cache.h>

#include "base/bytes.h"
#include "base/error.h"

static inline void sky__fail_unless(sky_reader *r, bool good) {
    r->failed |= !good;
}

/* The id of a frame that takes this place of so many, which id % places then tells; count: of the
 * frames before it. Ids begin again before their bits do, so that this holds for all of them. */
static inline uint32_t sky__frame_id(uint32_t count, uint32_t place, uint32_t places) {
    return count % (UINT32_MAX / places) * places + place;
}

static inline void sky__write_key(sky_writer *w, const sky_key *key) {
    sky_write_bytes(w, key->bytes, sizeof key->bytes);
}

static inline void sky__read_key(sky_reader *r, sky_key *key) {
    const uint8_t *bytes = sky_read_bytes(r, sizeof key->bytes);
    if (bytes)
        memcpy(key->bytes, bytes, sizeof key->bytes);
}

/* How something ended. */
static inline sky_status sky__read_status(sky_reader *r) {
    sky_status status = (sky_status)(int32_t)sky_read_u32(r);
    sky__fail_unless(r, sky_status_is_known(status) && status != SKY_PENDING);
    return r->failed ? SKY_E_CORRUPT : status;
}

static inline bool sky__read_bool(sky_reader *r) {
    uint8_t value = sky_read_u8(r);
    sky__fail_unless(r, value <= 1);
    return value == 1;
}

/* How an entry is kept, in a byte: pinned or not, and twice its class. */
static inline void sky__write_kept(sky_writer *w, bool pinned, uint8_t evict) {
    sky_write_u8(w, (uint8_t)((pinned ? 1 : 0) | 2 * evict));
}

static inline void sky__read_kept(sky_reader *r, bool *pinned, uint8_t *evict) {
    uint8_t value = sky_read_u8(r);
    sky__fail_unless(r, value < 2 * (SKY_EVICT_LAST + 1));
    *pinned = value & 1;
    *evict = value / 2;
}

static inline sky_coding sky__read_coding(sky_reader *r) {
    sky_coding coding = sky_read_u8(r);
    sky__fail_unless(r, coding <= SKY_CODING_MAX);
    return coding;
}

#endif
