/* Proves: a peer can read a segment and not write it, whatever it does with the descriptor; nobody
 * can make it smaller; memory of a user is sealed the same; and what is no such segment is not
 * mapped; what is to be read once is read once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

static void parts_lie_in_any_order(void **state) {
    (void)state;
    const size_t page = sky_pages_unit(), pages = BYTES / page;
    uint8_t *own = range(), *peer = range();
    int fd;
    assert_int_equal(sky_shared_make(own, BYTES, SKY_SHARED_READ, &fd), SKY_OK);
    for (size_t i = 0; i < pages; i++)
        own[i * page] = (uint8_t)(i + 1);
    for (size_t i = 0; i + 1 < pages; i += 2) /* the last two first */
        assert_int_equal(sky_shared_map_part(fd, (pages - 2 - i) * page, peer + i * page, 2 * page),
                         SKY_OK);
    close(fd);
    for (size_t i = 0; i < pages; i++)
        assert_int_equal(peer[i * page], own[(pages - 2 - i / 2 * 2 + i % 2) * page]);
    own[(pages - 1) * page] = 77;
    assert_int_equal(peer[page], 77);
    assert_int_equal(mprotect(peer, page, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(sky_shared_map_part(fd, 0, peer, page), SKY_E_NOMEM); /* it is closed */
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

/* A memfd of BYTES bytes. */
static int memory(unsigned flags) {
    int fd = memfd_create("user", MFD_CLOEXEC | flags);
    if (fd >= 0)
        assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

static void memory_of_a_user_is_sealed(void **state) {
    (void)state;
    uint8_t *own = range(), *peer = range();
    int fd = memory(MFD_ALLOW_SEALING);
    assert_false(sky_shared_is_safe(fd, BYTES));
    uint8_t *before = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(before, MAP_FAILED);
    assert_int_equal(sky_shared_adopt(fd, own, BYTES + 1), SKY_E_PARAM);
    assert_int_equal(sky_shared_adopt(fd, own, BYTES), SKY_OK);
    assert_true(sky_shared_is_safe(fd, BYTES) && !sky_shared_is_safe(fd, BYTES + 1));
    assert_false(sky_shared_is_safe(fd, 0));
    own[3] = 1;
    before[4] = 2; /* the user's own mapping stays writable */
    assert_int_equal(sky_shared_map(fd, peer, BYTES, SKY_SHARED_READ), SKY_OK);
    assert_true(peer[3] == 1 && peer[4] == 2);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_int_equal(madvise(before, 4096, MADV_REMOVE), -1);
    assert_ptr_equal(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(sky_shared_unmap(own, BYTES), SKY_OK);
    assert_int_equal(sky_shared_adopt(fd, own, BYTES), SKY_OK); /* again, as after a host's end */
    assert_true(own[3] == 1 && own[4] == 2 && sky_shared_is_safe(fd, BYTES));
    before[4] = 3;
    assert_int_equal(own[4], 3);
    munmap(before, BYTES);
    close(fd);
    sky_pages_release(own, 4 * BYTES);
    sky_pages_release(peer, 4 * BYTES);
}

static void what_is_not_safe_is_not_shared(void **state) {
    (void)state;
    uint8_t *own = range();
    int fds[] = {memory(0),
                 open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
                 open("/dev/zero", O_RDWR | O_CLOEXEC),
                 memory(MFD_ALLOW_SEALING),
                 memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB),
                 -1};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (i == 3) /* one that its owner sealed against seals, and can still shrink */
            assert_int_equal(fcntl(fds[i], F_ADD_SEALS, F_SEAL_SEAL), 0);
        if (i == 4 && fds[i] >= 0)
            (void)!ftruncate(fds[i], 2 << 20);
        assert_false(sky_shared_is_safe(fds[i], 4096));
        assert_int_equal(sky_shared_adopt(fds[i], own, 4096), SKY_E_PARAM);
        assert_int_equal(own[0], 0);
        if (fds[i] >= 0)
            close(fds[i]);
    }
    int fd = memory(MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0); /* third ones could write to it */
    assert_false(sky_shared_is_safe(fd, BYTES));
    close(fd);
    sky_pages_release(own, 4 * BYTES);
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

static void what_is_read_once_is_gone(void **state) {
    (void)state;
    void *data;
    size_t bytes;
    int fd, other;
    assert_int_equal(sky_shared_write_once("only once", 9, &fd), SKY_OK);
    other = dup(fd);
    assert_int_equal(sky_shared_read_once(fd, 8, &data, &bytes), SKY_E_CORRUPT); /* too large */
    assert_int_equal(sky_shared_read_once(fd, 9, &data, &bytes), SKY_OK);
    assert_int_equal(bytes, 9);
    assert_memory_equal(data, "only once", 9);
    free(data);
    assert_int_equal(sky_shared_read_once(other, 9, &data, &bytes), SKY_E_CORRUPT);
    close(fd);
    close(other);
    assert_int_equal(sky_shared_copy("sealed", 6, &fd), SKY_OK); /* it could not be emptied */
    assert_int_equal(sky_shared_read_once(fd, 9, &data, &bytes), SKY_E_CORRUPT);
    close(fd);
    assert_int_equal(sky_shared_read_once(-1, 9, &data, &bytes), SKY_E_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_read_and_cannot_write),
        cmocka_unit_test(parts_lie_in_any_order),
        cmocka_unit_test(peers_may_be_let_write),
        cmocka_unit_test(foreign_descriptors_are_refused),
        cmocka_unit_test(memory_of_a_user_is_sealed),
        cmocka_unit_test(what_is_not_safe_is_not_shared),
        cmocka_unit_test(copies_are_final),
        cmocka_unit_test(what_is_read_once_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
