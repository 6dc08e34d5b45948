#include "sim/world_fixture.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

sky_scenario sky_fixture_scenario(sky_strategy strategy) {
    sky_scenario s = {
        .constellation = {.planes = 5,
                          .slots = 19,
                          .altitude_km = 550,
                          .inclination_deg = 53,
                          .earth_radius_km = 6378.137,
                          .light_km_s = 299792.458},
        .centre = {3, 4},
        .placement = {.strategy = strategy, .servers = 9},
        .chunk_bytes = 1024,
        .satellite = {.memory_bytes = 1 << 20, .processing_ns = SKY_MS(1)},
        .links = {.isl_bits_s = 10000000000, .ground_bits_s = 1000000000, .queue_bytes = 1 << 20},
        .time = {.scale = 1}};
    s.time.rotation_ns = (sky_time)(sky_rotation_s(&s.constellation) * 1e9);
    return s;
}

/* Byte i of payload `number`: from a word of (number, i/8), so that no two chunks look alike. */
static uint8_t payload_byte(uint32_t number, uint64_t at) {
    uint64_t x = ((uint64_t)number << 40 ^ at / 8) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint8_t)(x >> (at % 8 * 8));
}

static uint32_t number_of(const void *context) {
    return (uint32_t)(uintptr_t)context;
}

static bool fetch(void *host, void *context, uint64_t offset, void *data, size_t bytes) {
    const sky_fixture_world *f = host;
    uint8_t *to = data;
    for (size_t i = 0; i < bytes; i++)
        to[i] = payload_byte(number_of(context), offset + i);
    return !f->give_up;
}

static bool deliver(void *host, void *context, uint64_t offset, const void *data, size_t bytes) {
    sky_fixture_world *f = host;
    const uint8_t *from = data;
    for (size_t i = 0; i < bytes; i++)
        f->wrong_bytes += from[i] != payload_byte(number_of(context), offset + i);
    f->delivered_bytes += bytes;
    return !f->give_up;
}

static void forgotten(void *host, uint32_t block, const sky_key *key) {
    sky_fixture_world *f = host;
    (void)block, (void)key;
    f->forgotten++;
}

void sky_fixture_world_open(sky_fixture_world *f, const sky_scenario *scenario, uint64_t seed) {
    *f = (sky_fixture_world){0};
    sky_world_host host = {f, fetch, deliver, forgotten};
    sky_error error;
    sky_status status = sky_world_create(scenario, seed, &host, &f->world, &error);
    assert(status == SKY_OK);
    (void)status;
}

void sky_fixture_world_close(sky_fixture_world *f) {
    sky_world_destroy(f->world);
}

sky_key sky_fixture_block(uint32_t number) {
    sky_key key;
    for (size_t i = 0; i < SKY_KEY_BYTES; i += 4)
        sky_store_u32(key.bytes + i, number * 2654435761u + (uint32_t)i);
    return key;
}

void sky_world_fixture_submit(sky_fixture_world *f, sky_op op, uint32_t number, uint32_t bytes) {
    sky_request request = {.op = op,
                           .key = sky_fixture_block(number),
                           .context = (void *)(uintptr_t)number,
                           .payload_bytes = bytes,
                           .room_bytes = UINT64_MAX};
    sky_status status = sky_world_submit(f->world, &request);
    assert(status == SKY_OK);
    (void)status;
}

sky_result sky_fixture_finish(sky_fixture_world *f) {
    sky_result result;
    while (!sky_world_result(f->world, &result)) {
        bool more = sky_world_step(f->world);
        assert(more);
        (void)more;
    }
    return result;
}

sky_result sky_fixture_do(sky_fixture_world *f, sky_op op, uint32_t number, uint32_t bytes) {
    sky_world_fixture_submit(f, op, number, bytes);
    return sky_fixture_finish(f);
}
