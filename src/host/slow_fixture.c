#include "host/slow_fixture.h"

#include "io/clock.h"
#include "io/sync.h"

_Atomic bool sky_slow_fixture_held, sky_slow_fixture_asked;

void sky_slow_fixture_wait(void) {
    sky_slow_fixture_asked = true;
    while (sky_slow_fixture_held)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
}

static sky_status slow_open(const char *where, void **self, sky_error *error) {
    (void)where, (void)self, (void)error;
    return SKY_OK;
}

static sky_status slow_read(void *self, const sky_key *key, uint64_t offset, void *data,
                            uint64_t bytes, uint64_t *value_bytes) {
    (void)self, (void)key, (void)offset, (void)data, (void)bytes, (void)value_bytes;
    sky_slow_fixture_wait();
    return SKY_MISS;
}

static sky_status slow_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                             bool durable) {
    (void)self, (void)key, (void)value, (void)bytes, (void)durable;
    return SKY_OK;
}

static sky_status slow_remove(void *self, const sky_key *key) {
    (void)self, (void)key;
    return SKY_MISS;
}

sky_tier_driver sky_slow_fixture_driver(void) {
    return (sky_tier_driver){.struct_bytes = sizeof(sky_tier_driver),
                             .open = slow_open,
                             .read = slow_read,
                             .write = slow_write,
                             .remove = slow_remove};
}
