#include "io/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/pages.h"

#ifndef F_SEAL_FUTURE_WRITE /* older than the headers */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define TMPFS_TYPE 0x01021994 /* linux/magic.h; huge pages of a pool are of another */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static sky_status errno_status(void) {
    return errno == EINVAL || errno == ENOSYS ? SKY_E_UNSUPPORTED : SKY_E_NOMEM;
}

/* A file of memory of so many bytes; -1. */
static int make_file(size_t bytes) {
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("skymem", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
        fd = memfd_create("skymem", flags);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

static bool map_over(int fd, void *at, size_t bytes, int protection) {
    return mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) != MAP_FAILED;
}

sky_status sky_shared_make(void *at, size_t bytes, sky_shared_access peers, int *fd) {
    int made = make_file(bytes);
    if (made < 0)
        return errno_status();
    int seals = SIZE_SEALS | F_SEAL_SEAL | (peers == SKY_SHARED_READ ? F_SEAL_FUTURE_WRITE : 0);
    /* Mapped first: what is writable before the seal stays so. */
    if (map_over(made, at, bytes, PROT_READ | PROT_WRITE)) {
        if (fcntl(made, F_ADD_SEALS, seals) == 0) {
            (void)madvise(at, bytes, MADV_HUGEPAGE); /* granted or not */
            *fd = made;
            return SKY_OK;
        }
        int why = errno;
        (void)sky_shared_unmap(at, bytes);
        errno = why;
    }
    sky_status status = errno_status();
    close(made);
    return status;
}

uint64_t sky_shared_bytes(int fd) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    bool sealed = seals >= 0 && (seals & F_SEAL_SHRINK);
    return sealed && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0
               ? (uint64_t)st.st_size
               : 0;
}

/* Memory with ordinary pages: those of a pool may run out when they are touched. */
static bool is_memory(int fd, uint64_t bytes) {
    struct statfs fs;
    struct stat st;
    return fd >= 0 && bytes > 0 && fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &st) == 0 &&
           S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size >= bytes &&
           fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_TYPE;
}

bool sky_shared_is_safe(int fd, uint64_t bytes) {
    int seals = is_memory(fd, bytes) ? fcntl(fd, F_GET_SEALS) : 0;
    return (seals & F_SEAL_SHRINK) && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
}

sky_status sky_shared_adopt(int fd, void *at, size_t bytes) {
    if (!is_memory(fd, bytes))
        return SKY_E_PARAM;
    int protection = sky_shared_is_safe(fd, bytes) ? PROT_READ : PROT_READ | PROT_WRITE;
    if (!map_over(fd, at, bytes, protection))
        return errno == ENOMEM ? SKY_E_NOMEM : SKY_E_PARAM;
    (void)fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    if (sky_shared_is_safe(fd, bytes))
        return SKY_OK;
    (void)sky_shared_unmap(at, bytes);
    return SKY_E_PARAM;
}

sky_status sky_shared_map(int fd, void *at, size_t bytes, sky_shared_access access) {
    if (bytes == 0 || sky_shared_bytes(fd) < bytes)
        return SKY_E_CORRUPT;
    int protection = access == SKY_SHARED_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
    if (map_over(fd, at, bytes, protection))
        return SKY_OK;
    return errno == ENOMEM ? SKY_E_NOMEM : SKY_E_CORRUPT;
}

sky_status sky_shared_map_part(int fd, uint64_t offset, void *at, size_t bytes) {
    const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
    void *map = mmap(at, bytes, PROT_READ, flags, fd, (off_t)offset);
    return map != MAP_FAILED ? SKY_OK : SKY_E_NOMEM;
}

sky_status sky_shared_unmap(void *at, size_t bytes) {
    void *map = mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return map != MAP_FAILED ? SKY_OK : SKY_E_NOMEM;
}

sky_status sky_shared_write_once(const void *data, size_t bytes, int *fd) {
    int made = make_file(bytes);
    if (made < 0)
        return errno_status();
    const uint8_t *from = data;
    ssize_t written = 0;
    while (bytes > 0 && (written = write(made, from, bytes)) > 0) {
        from += written;
        bytes -= (size_t)written;
    }
    *fd = made;
    if (bytes == 0)
        return SKY_OK;
    close(made);
    return SKY_E_NOMEM;
}

sky_status sky_shared_copy(const void *data, size_t bytes, int *fd) {
    int made;
    sky_status status = sky_shared_write_once(data, bytes, &made);
    if (status != SKY_OK)
        return status;
    if (fcntl(made, F_ADD_SEALS, SIZE_SEALS | F_SEAL_WRITE | F_SEAL_SEAL) == 0) {
        *fd = made;
        return SKY_OK;
    }
    close(made);
    return SKY_E_NOMEM;
}

sky_status sky_shared_read_once(int fd, size_t bytes_max, void **data, size_t *bytes) {
    struct stat st;
    if (!is_memory(fd, 1) || fstat(fd, &st) != 0 || (uint64_t)st.st_size > bytes_max)
        return SKY_E_CORRUPT;
    size_t all = (size_t)st.st_size, at = 0;
    uint8_t *to = malloc(all);
    if (!to)
        return SKY_E_NOMEM;
    for (ssize_t got; at < all && (got = pread(fd, to + at, all - at, (off_t)at)) > 0;)
        at += (size_t)got;
    if (at < all || ftruncate(fd, 0) != 0) { /* it could be read once more */
        free(to);
        return SKY_E_CORRUPT;
    }
    *data = to;
    *bytes = all;
    return SKY_OK;
}
