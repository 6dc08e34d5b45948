#include "fabric/flow.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

#define VERSION 1u

static const uint8_t magic[4] = {0x89, 'S', 'K', 'F'};

_Static_assert(SKY_FABRIC_BUFFERS % 2 == 0, "half of them are due at once");

void sky_fabric_flow_init(sky_fabric_flow *f) {
    *f = (sky_fabric_flow){.ours = SKY_FABRIC_BUFFERS};
}

void sky_fabric_flow_greet(uint8_t out[SKY_FABRIC_GREETING_BYTES]) {
    memcpy(out, magic, sizeof magic);
    sky_store_u32(out + 4, VERSION);
    sky_store_u32(out + 8, SKY_FABRIC_BUFFERS);
    sky_store_u32(out + 12, SKY_FABRIC_BUFFER_BYTES);
}

sky_status sky_fabric_flow_meet(sky_fabric_flow *f, const uint8_t *greeting, size_t bytes) {
    if (bytes < SKY_FABRIC_GREETING_BYTES || memcmp(greeting, magic, sizeof magic) != 0)
        return SKY_E_CORRUPT;
    if (sky_load_u32(greeting + 4) != VERSION)
        return SKY_E_UNSUPPORTED;
    uint32_t buffers = sky_load_u32(greeting + 8), each = sky_load_u32(greeting + 12);
    if (buffers < 2 || buffers > SKY_FABRIC_BUFFERS_MAX || buffers % 2 != 0 ||
        each < SKY_FABRIC_BUFFER_LEAST)
        return SKY_E_CORRUPT;
    f->theirs = f->theirs_max = buffers;
    f->message_bytes = each < SKY_FABRIC_BUFFER_BYTES ? each : SKY_FABRIC_BUFFER_BYTES;
    return SKY_OK;
}

size_t sky_fabric_flow_room(const sky_fabric_flow *f) {
    return f->theirs > 0 ? f->message_bytes - SKY_FABRIC_HEAD_BYTES : 0;
}

void sky_fabric_flow_send(sky_fabric_flow *f, uint32_t bytes, uint8_t head[SKY_FABRIC_HEAD_BYTES]) {
    assert(bytes <= sky_fabric_flow_room(f) && (bytes > 0 || f->owed > 0));
    sky_store_u32(head, f->owed);
    sky_store_u32(head + 4, bytes);
    f->ours += f->owed;
    f->owed = 0;
    f->theirs -= bytes > 0;
}

sky_status sky_fabric_flow_take(sky_fabric_flow *f, const uint8_t *message, size_t length,
                                size_t *bytes) {
    if (f->message_bytes == 0 || length < SKY_FABRIC_HEAD_BYTES)
        return SKY_E_CORRUPT;
    uint32_t returned = sky_load_u32(message), follows = sky_load_u32(message + 4);
    if (follows != length - SKY_FABRIC_HEAD_BYTES || returned > f->theirs_max - f->theirs)
        return SKY_E_CORRUPT;
    if (follows > 0 ? f->ours == 0 : returned < f->theirs_max / 2)
        return SKY_E_CORRUPT;
    f->theirs += returned;
    f->ours -= follows > 0;
    *bytes = follows;
    return SKY_OK;
}

bool sky_fabric_flow_is_due(const sky_fabric_flow *f) {
    return f->owed >= SKY_FABRIC_BUFFERS / 2;
}

bool sky_fabric_flow_free(sky_fabric_flow *f) {
    f->owed++;
    return sky_fabric_flow_is_due(f);
}
