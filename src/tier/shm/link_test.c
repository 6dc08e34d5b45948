/* Proves: a client takes nothing of a host that it cannot trust: descriptors of the wrong kind,
 * memory that could shrink under it, segments that are too small or outside of the arena, and
 * welcomes that make no sense end the connection, and leave no descriptor behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "io/sync.h"
#include "tier/shm/link.h"
#include "tier/shm/raw_fixture.h"

#define SEGMENT  65536u
#define PATIENCE SKY_SECONDS(60)

static char folder[] = "/tmp/skymem-link-XXXXXX";
static char path[64];
static sky_local_listener listener;
static uint8_t *region; /* where the fake host's segments are mapped */

static size_t descriptors(void) {
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- a host that says what a test wants ---- */

typedef struct {
    sky_shm_frame welcome, then; /* kind 0: nothing */
    int passed;
} script;

static void *be_host(void *argument) {
    const script *s = argument;
    sky_local_peer peer;
    bool exhausted;
    sky_poll(&listener.fd, 1, sky_now() + PATIENCE);
    int fd = sky_local_accept(&listener, &peer, &exhausted);
    sky_poll(&fd, 1, sky_now() + PATIENCE); /* HELLO */
    sky_raw_welcome(fd, &s->welcome);
    if (s->then.kind != 0)
        sky_raw_say(fd, &s->then, s->passed);
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes;
    int passed;
    while (sky_local_receive(fd, data, sizeof data, &bytes, &passed) != SKY_E_IO)
        sky_poll(&fd, 1, sky_now() + PATIENCE);
    sky_raw_close(fd);
    return NULL;
}

static sky_shm_frame welcome(uint64_t arena_bytes, uint64_t segment_bytes) {
    return (sky_shm_frame){.kind = SKY_SHM_WELCOME,
                           .version = SKY_SHM_VERSION,
                           .arena_bytes = arena_bytes,
                           .segment_bytes = segment_bytes,
                           .client = 1};
}

/* How opening ends, or else how the next frame does. *seen: bytes of the first segment, if it is
 * shown. */
static sky_status outcome(script s, const uint8_t **seen) {
    sky_thread thread = {0};
    sky__shm_link *link = NULL;
    sky_shm_frame f;
    int passed = -1;
    assert_int_equal(sky_thread_start(&thread, "host", be_host, &s), SKY_OK);
    sky_status status = sky__shm_link_open(path, sky_local_user(), &(sky__shm_part){0},
                                           sky_now() + PATIENCE, &link);
    const bool silent = s.then.kind == SKY_SHM_SEGMENT && s.welcome.client == 2;
    const sky_time until = sky_now() + PATIENCE;
    if (status == SKY_OK && !silent)
        status = sky__shm_link_await(link, until, &f, &passed);
    while (silent && status >= 0 && !sky__shm_link_view(link, 0, SEGMENT) && sky_now() < until)
        status = sky__shm_link_await(link, sky_now() + SKY_MS(1), &f, &passed);
    sky_local_close(passed);
    if (seen)
        *seen = link ? sky__shm_link_view(link, 0, SEGMENT) : NULL;
    sky__shm_link_destroy(link);
    sky_thread_join(&thread);
    return status;
}

static sky_shm_frame segment(uint32_t index) {
    return (sky_shm_frame){.kind = SKY_SHM_SEGMENT, .segment = index};
}

/* ---- tests ---- */

static void descriptors_of_the_wrong_kind(void **state) {
    (void)state;
    int ends[2], small;
    assert_int_equal(pipe(ends), 0);
    int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int plain = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int null = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(unsealed, SEGMENT), 0);
    assert_true(plain < 0 || ftruncate(plain, SEGMENT) == 0);
    assert_int_equal(sky_shared_make(region, SEGMENT / 2, SKY_SHARED_READ, &small), SKY_OK);
    const int kinds[] = {unsealed, small, ends[0], ends[1], listener.fd, null, plain};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t before = descriptors();
        const uint8_t *seen;
        if (kinds[i] < 0)
            continue; /* a file system without nameless files */
        const script s = {welcome(4 * SEGMENT, SEGMENT), segment(0), kinds[i]};
        assert_int_equal(outcome(s, &seen), SKY_E_CORRUPT);
        assert_null(seen);
        assert_int_equal(descriptors(), before);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i] != listener.fd)
            sky_local_close(kinds[i]);
}

static void segments_out_of_place(void **state) {
    (void)state;
    int good;
    assert_int_equal(sky_shared_make(region, SEGMENT, SKY_SHARED_READ, &good), SKY_OK);
    const script wrong[] = {
        {welcome(4 * SEGMENT, SEGMENT), segment(4), good},
        {welcome(4 * SEGMENT, SEGMENT), segment(UINT32_MAX), good},
        {welcome(4 * SEGMENT, SEGMENT), segment(0), -1},
        {welcome(4 * SEGMENT, SEGMENT), {.kind = SKY_SHM_RETIRED}, good},
        {welcome(4 * SEGMENT, SEGMENT), {.kind = SKY_SHM_RETIRED, .segment = 4}, -1},
        {segment(0), {0}, -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t before = descriptors();
        assert_int_equal(outcome(wrong[i], NULL), SKY_E_CORRUPT);
        assert_int_equal(descriptors(), before);
    }
    sky_local_close(good);
}

static void welcomes_without_sense(void **state) {
    (void)state;
    static const uint64_t sizes[][2] = {{0, 0},
                                        {SEGMENT, 0},
                                        {SEGMENT, 2 * SEGMENT},
                                        {SEGMENT + 4096, SEGMENT},
                                        {65 * SEGMENT, SEGMENT},
                                        {3 * 12288, 12288},
                                        {4096, 2048},
                                        {(uint64_t)1 << 48, (uint64_t)1 << 47},
                                        {UINT64_MAX, SEGMENT}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const script s = {welcome(sizes[i][0], sizes[i][1]), {0}, -1};
        assert_int_equal(outcome(s, NULL), SKY_E_CORRUPT);
    }
}

/* The same with a segment as it should be: what is refused above is not refused for another
 * reason. */
static void a_good_segment_is_shown(void **state) {
    (void)state;
    int good;
    const uint8_t *seen = NULL;
    assert_int_equal(sky_shared_make(region, SEGMENT, SKY_SHARED_READ, &good), SKY_OK);
    script s = {welcome(4 * SEGMENT, SEGMENT), segment(0), good};
    s.welcome.client = 2; /* no frame follows */
    sky_status status = outcome(s, &seen);
    assert_true(status == SKY_MISS);
    assert_non_null(seen);
    sky_local_close(good);
}

/* The host takes a lease for over when the connection is closed. */
static void the_socket_stays_while_leases_are_out(void **state) {
    (void)state;
    for (uint32_t leases = 0; leases < 2; leases++) {
        script s = {welcome(4 * SEGMENT, SEGMENT), {0}, -1};
        sky_thread thread = {0};
        sky__shm_link *link = NULL;
        assert_int_equal(sky_thread_start(&thread, "host", be_host, &s), SKY_OK);
        assert_int_equal(sky__shm_link_open(path, sky_local_user(), &(sky__shm_part){0},
                                            sky_now() + PATIENCE, &link),
                         SKY_OK);
        const int fd = link->fd;
        link->lease_count = leases;
        sky__shm_link_cut(link);
        assert_int_equal(link->fd, -1);
        assert_int_equal(fcntl(fd, F_GETFD) >= 0, leases > 0);
        sky__shm_link_destroy(link);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        sky_thread_join(&thread);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_of_the_wrong_kind),
        cmocka_unit_test(segments_out_of_place),
        cmocka_unit_test(welcomes_without_sense),
        cmocka_unit_test(a_good_segment_is_shown),
        cmocka_unit_test(the_socket_stays_while_leases_are_out),
    };
    if (!mkdtemp(folder) || sky_pages_reserve(SEGMENT, (void **)&region, NULL) != SKY_OK)
        return 1;
    snprintf(path, sizeof path, "%s/socket", folder);
    if (sky_local_listen(path, &listener, NULL) != SKY_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sky_local_unlisten(path, &listener);
    rmdir(folder);
    return failed;
}
