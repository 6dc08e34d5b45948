/* Reads, writes and syncs under way together, on io_uring and on threads: all come back once, with
 * the right bytes, short at the end of a file, and with the status of what failed; also when the
 * kernel declines to take them, for a while or for good. */
#include "io/aio.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "io/sync.h"

#define DEPTH   8u
#define BUFFERS 6u
#define EACH    8192u

typedef struct {
    sky_aio *aio;
    sky_buffers buffers;
    int fd;
} fixture;

static int set_up(void **state) {
    static fixture f;
    char path[] = "/tmp/skymem-aio-XXXXXX";
    f.fd = mkstemp(path);
    assert_true(f.fd >= 0);
    unlink(path);
    assert_int_equal(sky_aio_create(DEPTH, &f.aio), SKY_OK);
    assert_int_equal(sky_buffers_init(&f.buffers, BUFFERS, EACH), SKY_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    sky_aio_destroy(f->aio);
    sky_buffers_deinit(&f->buffers);
    return close(f->fd);
}

static void start(fixture *f, sky_aio_op op, void *data, uint32_t bytes, uint64_t offset,
                  uint32_t tag) {
    sky_aio_start(f->aio, &(sky_aio_request){op, f->fd, data, bytes, offset, tag});
}

/* Wait for `count` results; each tag below 64 may come once. */
static void await(fixture *f, size_t count, sky_aio_result *by_tag) {
    uint64_t seen = 0;
    int event = sky_aio_event_fd(f->aio);
    sky_aio_flush(f->aio);
    while (count > 0) {
        sky_aio_result results[3]; /* fewer than may wait: the descriptor must stay readable */
        assert_int_equal(sky_poll(&event, 1, sky_now() + SKY_SECONDS(20)), 1);
        size_t got = sky_aio_reap(f->aio, results, 3);
        assert_true(got <= count);
        for (size_t i = 0; i < got; i++) {
            assert_false(seen >> results[i].tag & 1);
            seen |= UINT64_C(1) << results[i].tag;
            by_tag[results[i].tag] = results[i];
        }
        count -= got;
    }
    assert_int_equal(sky_aio_room(f->aio), DEPTH);
}

static void what_is_written_is_read(void **state) {
    fixture *f = *state;
    sky_aio_result r[64];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        assert_int_equal(sky_buffers_take(&f->buffers), i);
        memset(sky_buffers_at(&f->buffers, i), 'a' + (int)i, EACH);
        start(f, SKY_AIO_WRITE, sky_buffers_at(&f->buffers, i), EACH, (uint64_t)i * EACH, i);
    }
    assert_int_equal(sky_aio_room(f->aio), DEPTH - BUFFERS);
    await(f, BUFFERS, r);
    start(f, SKY_AIO_SYNC_DATA, NULL, 0, 0, 40);
    start(f, SKY_AIO_SYNC, NULL, 0, 0, 41);
    await(f, 2, r);
    assert_int_equal(r[40].status, SKY_OK);
    assert_int_equal(r[41].status, SKY_OK);
    for (uint32_t i = 0; i < BUFFERS; i++) /* the other way round, half a page aside */
        start(f, SKY_AIO_READ, sky_buffers_at(&f->buffers, i), EACH,
              (uint64_t)(BUFFERS - 1 - i) * EACH + EACH / 2, i);
    await(f, BUFFERS, r);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        const uint8_t *bytes = sky_buffers_at(&f->buffers, i);
        bool last = i == 0;
        assert_int_equal(r[i].status, SKY_OK);
        assert_int_equal(r[i].bytes, last ? EACH / 2 : EACH); /* short at the end only */
        assert_int_equal(bytes[0], 'a' + (int)(BUFFERS - 1 - i));
        assert_int_equal(bytes[EACH - 1], 'a' + (int)(last ? 0 : BUFFERS - i));
        sky_buffers_give(&f->buffers, i);
    }
}

static void failures_come_back_as_statuses(void **state) {
    fixture *f = *state;
    sky_aio_result r[64];
    int read_only = open("/dev/null", O_RDONLY);
    char byte = 0;
    sky_aio_start(f->aio, &(sky_aio_request){SKY_AIO_READ, -1, &byte, 1, 0, 1});
    sky_aio_start(f->aio, &(sky_aio_request){SKY_AIO_WRITE, read_only, &byte, 1, 0, 2});
    start(f, SKY_AIO_READ, &byte, 1, 1 << 20, 3);
    await(f, 3, r);
    assert_int_equal(r[1].status, SKY_E_IO);
    assert_int_equal(r[2].status, SKY_E_IO);
    assert_int_equal(r[3].status, SKY_OK);
    assert_int_equal(r[3].bytes, 0);
    close(read_only);
}

/* In the place of the library's: declines `declined` times with `reason`. */
static int declined, reason;

int io_uring_submit(struct io_uring *ring) {
    return declined > 0 && declined-- ? -reason : io_uring_submit_and_wait(ring, 0);
}

static void what_the_kernel_declines_is_tried_again(void **state) {
    fixture *f = *state;
    sky_aio_result r[64];
    static const int reasons[] = {EAGAIN, EBUSY, EINTR};
    char bytes[4] = "abc";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        reason = reasons[i];
        declined = 3;
        start(f, SKY_AIO_WRITE, bytes, 3, 0, 1);
        start(f, SKY_AIO_WRITE, bytes, 3, 3, 2);
        await(f, 2, r); /* nothing else is under way that would wake it */
        assert_true(r[1].status == SKY_OK && r[2].status == SKY_OK);
        declined = 0;
    }
}

static void what_the_kernel_refuses_fails(void **state) {
    fixture *f = *state;
    sky_aio_result r[64];
    char byte = 'a';
    if (strcmp(sky_aio_backend(f->aio), "io_uring") != 0)
        skip();
    start(f, SKY_AIO_WRITE, &byte, 1, 0, 1);
    sky_aio_flush(f->aio); /* taken before */
    reason = EBADF;
    declined = 1;
    start(f, SKY_AIO_WRITE, &byte, 1, 1, 2);
    start(f, SKY_AIO_SYNC, NULL, 0, 0, 3);
    await(f, 3, r);
    assert_int_equal(r[1].status, SKY_OK);
    assert_int_equal(r[2].status, SKY_E_IO);
    assert_int_equal(r[3].status, SKY_E_IO);
    start(f, SKY_AIO_READ, &byte, 1, 0, 4); /* and from then on */
    await(f, 1, r);
    assert_int_equal(r[4].status, SKY_E_IO);
}

static void a_queue_is_destroyed_with_work_under_way(void **state) {
    fixture *f = *state;
    sky_aio *aio;
    assert_int_equal(sky_aio_create(DEPTH, &aio), SKY_OK);
    for (uint32_t i = 0; i < 4; i++) {
        void *data = sky_buffers_at(&f->buffers, i);
        sky_aio_start(aio, &(sky_aio_request){SKY_AIO_WRITE, f->fd, data, EACH, i * EACH, i});
    }
    sky_aio_destroy(aio);
    assert_int_equal(lseek(f->fd, 0, SEEK_END), 4 * EACH); /* it waited */
    sky_aio_destroy(NULL);
    assert_int_equal(sky_aio_create(0, &aio), SKY_E_PARAM);
    assert_int_equal(sky_aio_create(SKY_AIO_DEPTH_MAX + 1, &aio), SKY_E_PARAM);
}

static void buffers_are_aligned_and_bounded(void **state) {
    fixture *f = *state;
    uint32_t taken[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        taken[i] = sky_buffers_take(&f->buffers);
        assert_int_equal((uintptr_t)sky_buffers_at(&f->buffers, taken[i]) % SKY_BUFFER_ALIGN, 0);
    }
    assert_int_equal(sky_buffers_take(&f->buffers), SKY_BUFFER_NONE);
    sky_buffers_give(&f->buffers, taken[3]);
    assert_int_equal(sky_buffers_take(&f->buffers), taken[3]);
}

static void the_backend_is_told(void **state) {
    fixture *f = *state;
    const char *wanted = sky_environment("SKYMEM_IO"), *got = sky_aio_backend(f->aio);
    if (wanted)
        assert_string_equal(got, wanted);
    else if (strcmp(got, "io_uring") != 0)
        print_message("the kernel forbids io_uring: only threads are tested\n");
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(what_is_written_is_read),
        test(failures_come_back_as_statuses),
        test(what_the_kernel_declines_is_tried_again),
        test(what_the_kernel_refuses_fails),
        test(a_queue_is_destroyed_with_work_under_way),
        test(buffers_are_aligned_and_bounded),
        test(the_backend_is_told),
    };
    unsetenv("SKYMEM_IO");
    int failed = cmocka_run_group_tests_name("aio", tests, NULL, NULL);
    setenv("SKYMEM_IO", "threads", 1);
    return failed + cmocka_run_group_tests_name("aio on threads", tests, NULL, NULL);
}
