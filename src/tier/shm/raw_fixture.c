#include "tier/shm/raw_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/local.h"
#include "io/sync.h"

#define PATIENCE SKY_SECONDS(60)

static sky_ring rings[SKY_RAW_MAX];

sky_ring *sky_raw_ring(int fd) {
    assert_in_range(fd, 0, SKY_RAW_MAX - 1);
    return rings[fd].memory ? &rings[fd] : NULL;
}

sky_status sky_raw_send(int fd, const void *data, size_t bytes, int passed) {
    sky_ring *r = sky_raw_ring(fd);
    if (!r)
        return sky_local_send(fd, data, bytes, passed);
    if (sky_local_send(fd, "", 1, -1) == SKY_E_IO) /* a ring does not tell that its peer is gone */
        return SKY_E_IO;
    return sky_ring_send(r, data, bytes, passed);
}

void sky_raw_say(int fd, const sky_shm_frame *f, int passed) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes = sky_shm_encode(f, data);
    sky_time until = sky_now() + PATIENCE;
    sky_status status;
    while ((status = sky_raw_send(fd, data, bytes, passed)) == SKY_E_BUSY && sky_now() < until)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(status, SKY_OK);
}

/* Until something is there, or the connection ended. */
static sky_status await(int fd) {
    sky_ring *r = sky_raw_ring(fd);
    if (r && !sky_ring_sleep(r, SKY_RING_ON_SOCKET))
        return SKY_OK;
    assert_int_not_equal(sky_poll(&fd, 1, sky_now() + PATIENCE), 0);
    if (!r)
        return SKY_OK;
    sky_ring_rise(r);
    return sky_ring_hear(r);
}

static sky_status receive(int fd, uint8_t *data, size_t *bytes, int *passed) {
    sky_ring *r = sky_raw_ring(fd);
    return r ? sky_ring_receive(r, data, SKY_SHM_FRAME_BYTES_MAX, bytes, passed)
             : sky_local_receive(fd, data, SKY_SHM_FRAME_BYTES_MAX, bytes, passed);
}

bool sky_raw_hear(int fd, sky_shm_frame *f, int *passed) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes;
    int kept;
    sky_status status, heard = SKY_OK;
    while ((status = receive(fd, data, &bytes, &kept)) == SKY_MISS && heard == SKY_OK)
        heard = await(fd);
    if (status != SKY_OK)
        return false;
    assert_int_equal(sky_shm_decode(data, bytes, f), SKY_OK);
    if (passed)
        *passed = kept;
    else
        sky_local_close(kept);
    return true;
}

void sky_raw_await(int fd) {
    while (!sky_ring_has_work(sky_raw_ring(fd)))
        assert_int_equal(await(fd), SKY_OK);
}

void sky_raw_greet(int fd) {
    sky_shm_frame f = {.kind = SKY_SHM_HELLO, .version = SKY_SHM_VERSION};
    int passed;
    sky_raw_say(fd, &f, -1);
    assert_true(sky_raw_hear(fd, &f, &passed));
    assert_int_equal(f.kind, SKY_SHM_WELCOME);
    assert_int_equal(sky_ring_open(fd, passed, &rings[fd]), SKY_OK);
    sky_local_close(passed);
    assert_true(sky_raw_hear(fd, &f, NULL) && f.kind == SKY_SHM_INDEX);
    assert_true(sky_raw_hear(fd, &f, NULL) && f.kind == SKY_SHM_PAGE);
}

void sky_raw_welcome(int fd, const sky_shm_frame *welcome) {
    int made;
    sky_ring ring;
    assert_int_equal(sky_ring_make(fd, &ring, &made), SKY_OK);
    sky_raw_say(fd, welcome, made);
    sky_local_close(made);
    rings[fd] = ring;
}

void sky_raw_close(int fd) {
    if (fd >= 0 && fd < SKY_RAW_MAX)
        sky_ring_deinit(&rings[fd]);
    sky_local_close(fd);
}
