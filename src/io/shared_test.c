/* Proves: a peer can read a segment and not write it, whatever it does with the descriptor; nobody
 * can make it smaller; and what is no such segment is not mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/pages.h"
#include "io/shared.h"

#define BYTES ((size_t)1 << 20)

static uint8_t *range(void) {
    void *pages;
    assert_int_equal(sky_pages_reserve(4 * BYTES, &pages, NULL), SKY_OK);
    return pages;
}

static void peers_read_and_cannot_write(void **state) {
    (void)state;
    uint8_t *own = range(), *peer = range();
    int fd;
    assert_int_equal(sky_shared_make(own + BYTES, BYTES, SKY_SHARED_READ, &fd), SKY_OK);
    assert_int_equal(sky_shared_bytes(fd), BYTES);
    assert_int_equal(own[BYTES], 0);
    assert_int_equal(sky_shared_map(fd, peer, BYTES, SKY_SHARED_READ), SKY_OK);
    own[BYTES + 5] = 7;
    assert_int_equal(peer[5], 7);
    assert_int_equal(sky_shared_map(fd, peer + BYTES, BYTES, SKY_SHARED_WRITE), SKY_E_CORRUPT);
    assert_int_equal(mprotect(peer, BYTES, PROT_READ | PROT_WRITE), -1);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC); /* the file is the user's own */
    if (again >= 0) {
        assert_ptr_equal(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0),
                         MAP_FAILED);
        assert_int_equal(pwrite(again, "x", 1, 5), -1);
        assert_int_equal(ftruncate(again, 0), -1);
        assert_int_equal(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
        close(again);
    }
    assert_int_equal(peer[5], 7);
    close(fd);
    assert_int_equal(sky_shared_unmap(own + BYTES, BYTES), SKY_OK);
    assert_int_equal(own[BYTES + 5], 0); /* reserved again */
    assert_int_equal(peer[5], 7);        /* while a peer has it, it stays */
    sky_pages_release(own, 4 * BYTES);
    sky_pages_release(peer, 4 * BYTES);
}

static void peers_may_be_let_write(void **state) {
    (void)state;
    uint8_t *own = range(), *peer = range();
    int fd;
    assert_int_equal(sky_shared_make(own, BYTES, SKY_SHARED_WRITE, &fd), SKY_OK);
    assert_int_equal(sky_shared_map(fd, peer, BYTES, SKY_SHARED_WRITE), SKY_OK);
    peer[9] = 3;
    assert_int_equal(own[9], 3);
    assert_int_equal(ftruncate(fd, 0), -1); /* the owner's next look would be SIGBUS */
    assert_int_equal(ftruncate(fd, 2 * BYTES), -1);
    close(fd);
    sky_pages_release(own, 4 * BYTES);
    sky_pages_release(peer, 4 * BYTES);
}

static void foreign_descriptors_are_refused(void **state) {
    (void)state;
    uint8_t *peer = range();
    int ends[2], fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(sky_shared_map(fd, peer, 4096, SKY_SHARED_READ), SKY_E_CORRUPT);
    close(fd);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(sky_shared_map(ends[0], peer, 4096, SKY_SHARED_READ), SKY_E_CORRUPT);
    close(ends[0]);
    close(ends[1]);
    fd = memfd_create("open",
                      MFD_CLOEXEC | MFD_ALLOW_SEALING); /* its owner could still shrink it */
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(sky_shared_map(fd, peer, BYTES, SKY_SHARED_READ), SKY_E_CORRUPT);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(sky_shared_map(fd, peer, BYTES + 1, SKY_SHARED_READ), SKY_E_CORRUPT);
    assert_int_equal(sky_shared_map(fd, peer, BYTES, SKY_SHARED_READ), SKY_OK);
    close(fd);
    assert_int_equal(sky_shared_map(-1, peer, 4096, SKY_SHARED_READ), SKY_E_CORRUPT);
    sky_pages_release(peer, 4 * BYTES);
}

static void copies_are_final(void **state) {
    (void)state;
    uint8_t *peer = range();
    int fd;
    assert_int_equal(sky_shared_copy("a text", 7, &fd), SKY_OK);
    assert_int_equal(sky_shared_map(fd, peer, 7, SKY_SHARED_READ), SKY_OK);
    assert_string_equal(peer, "a text");
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    close(fd);
    sky_pages_release(peer, 4 * BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_read_and_cannot_write),
        cmocka_unit_test(peers_may_be_let_write),
        cmocka_unit_test(foreign_descriptors_are_refused),
        cmocka_unit_test(copies_are_final),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
