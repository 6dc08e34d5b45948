/* Proves: no bytes in place of a greeting or a message of libfabric's transport make who takes them
 * read past them, and none let an end count more buffers than there are. An input is a greeting,
 * then steps: an even byte sends, an odd one takes the message of so many bytes behind it. */
#include <assert.h>

#include "fabric/flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const sky_fabric_flow *f) {
    assert(f->theirs <= f->theirs_max);
    assert(f->ours + f->owed <= SKY_FABRIC_BUFFERS);
    assert(sky_fabric_flow_room(f) <= SKY_FABRIC_BUFFER_BYTES - SKY_FABRIC_HEAD_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_fabric_flow f;
    uint8_t head[SKY_FABRIC_HEAD_BYTES];
    size_t follows = 0, at = SKY_FABRIC_GREETING_BYTES;
    sky_fabric_flow_init(&f);
    if (sky_fabric_flow_meet(&f, data, bytes) != SKY_OK)
        at = bytes;
    while (at < bytes) {
        size_t length = data[at] / 2, left = bytes - at - 1;
        bool takes = data[at++] % 2;
        length = length < left ? length : left;
        if (!takes && sky_fabric_flow_room(&f) > 0) {
            sky_fabric_flow_send(&f, 1, head);
        } else if (takes) {
            if (sky_fabric_flow_take(&f, data + at, length, &follows) != SKY_OK)
                break;
            assert(follows + SKY_FABRIC_HEAD_BYTES == length);
            if (follows > 0 && sky_fabric_flow_free(&f))
                sky_fabric_flow_send(&f, 0, head);
            at += length;
        }
        check(&f);
    }
    return 0;
}
