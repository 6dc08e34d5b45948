#include "io/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

static_assert(SKY_FOLDER_HERE == AT_FDCWD, "the working directory");

sky_status sky_errno_status(int error) {
    switch (error) {
    case 0:
        return SKY_OK;
    case ENOENT:
    case ENOTDIR:
        return SKY_MISS;
    case EACCES:
    case EPERM:
    case EROFS:
        return SKY_E_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return SKY_E_FULL;
    case ENOMEM:
        return SKY_E_NOMEM;
    case EOPNOTSUPP:
    case ENOSYS:
    case EINVAL:
        return SKY_E_UNSUPPORTED;
    case EEXIST:
    case EAGAIN:
        return SKY_E_BUSY;
    case ELOOP:
        return SKY_E_CORRUPT;
    default:
        return SKY_E_IO;
    }
}

const char *sky_errno_text(void) {
    static _Thread_local char text[128];
    return strerror_r(errno, text, sizeof text);
}

static sky_status status_of(int rc) {
    return rc < 0 ? sky_errno_status(errno) : SKY_OK;
}

static sky_status read_growing(int fd, const char *path, size_t bytes_max, char **data,
                               size_t *bytes, sky_error *error) {
    size_t room = 4096, used = 0;
    char *buffer = NULL;
    for (;;) {
        char *grown = realloc(buffer, room + 1);
        if (!grown) {
            free(buffer);
            return sky_fail(error, SKY_E_NOMEM, "%s: no memory to read it", path);
        }
        buffer = grown;
        ssize_t got = read(fd, buffer + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(buffer);
            return sky_fail(error, SKY_E_IO, "%s: %s", path, sky_errno_text());
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > bytes_max) {
            free(buffer);
            return sky_fail(error, SKY_E_PARAM, "%s: larger than %zu bytes", path, bytes_max);
        }
        if (used == room)
            room *= 2;
    }
    buffer[used] = '\0';
    *data = buffer;
    *bytes = used;
    return SKY_OK;
}

sky_status sky_file_read_all(const char *path, size_t bytes_max, char **data, size_t *bytes,
                             sky_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    if (fd < 0) {
        sky_status status = sky_errno_status(errno);
        return sky_fail(error, status == SKY_E_DENIED ? status : SKY_E_IO, "%s: %s", path,
                        sky_errno_text());
    }
    struct stat st;
    bool odd = fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
    sky_status status = odd ? sky_fail(error, SKY_E_IO, "%s: not a plain file", path)
                            : read_growing(fd, path, bytes_max, data, bytes, error);
    close(fd);
    return status;
}

/* ---- below a folder ---- */

static int open_known(int folder, const char *path, int flags) {
    struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_NO_SYMLINKS};
#ifdef RESOLVE_CACHED
    how.resolve |= RESOLVE_CACHED;
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
#else
    (void)folder, (void)path, (void)how;
    errno = ENOSYS;
    return -1;
#endif
}

/* EPERM: some sandboxes refuse what they do not know. */
static int open_below(int folder, const char *path, int flags, mode_t mode) {
    if (folder != SKY_FOLDER_HERE) {
        struct open_how how = {.flags = (unsigned)flags,
                               .mode = flags & O_CREAT ? mode : 0,
                               .resolve = RESOLVE_NO_SYMLINKS};
        int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return fd;
    }
    return openat(folder, path, flags, mode);
}

/* Where a path's last name stands: for calls that would follow links on the way to it. */
typedef struct {
    int fd; /* negative: there is none, errno says why */
    bool opened;
    const char *name;
} place;

static place place_of(int folder, const char *path) {
    const char *slash = strrchr(path, '/');
    if (folder == SKY_FOLDER_HERE || !slash)
        return (place){folder, false, path};
    char parent[PATH_MAX];
    size_t length = (size_t)(slash - path);
    if (length >= sizeof parent) {
        errno = ENAMETOOLONG;
        return (place){SKY_FILE_NONE, false, path};
    }
    memcpy(parent, path, length);
    parent[length] = '\0';
    int fd = open_below(folder, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    return (place){fd, fd >= 0, slash + 1};
}

static bool place_found(const place *p) {
    return p->fd >= 0 || p->fd == SKY_FOLDER_HERE;
}

static void place_leave(const place *p) {
    int cause = errno;
    if (p->opened)
        close(p->fd);
    errno = cause;
}

static int stat_below(int folder, const char *path, struct stat *st) {
    place p = place_of(folder, path);
    int rc = place_found(&p) ? fstatat(p.fd, p.name, st, AT_SYMLINK_NOFOLLOW) : -1;
    place_leave(&p);
    return rc;
}

static int unlink_below(int folder, const char *path, int flags) {
    place p = place_of(folder, path);
    int rc = place_found(&p) ? unlinkat(p.fd, p.name, flags) : -1;
    place_leave(&p);
    return rc;
}

/* ---- files ---- */

/* What stands there is no plain file: some of these cannot even be opened. */
static bool is_odd(int folder, const char *path) {
    struct stat st;
    int cause = errno;
    bool odd = stat_below(folder, path, &st) == 0 && !S_ISREG(st.st_mode);
    errno = cause;
    return odd;
}

/* io_uring takes O_NONBLOCK on a file for a wish to fail rather than to wait for the disk, so it
 * only covers the open. */
static sky_status expect_plain(int fd, int flags, struct stat *st) {
    if (fstat(fd, st) < 0)
        return sky_errno_status(errno);
    if (!S_ISREG(st->st_mode))
        return SKY_E_CORRUPT;
    return status_of(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK));
}

/* With PLAIN, *st is filled. */
static sky_status open_file(int folder, const char *path, unsigned mode, int *fd, struct stat *st) {
    bool plain = mode & SKY_FILE_PLAIN;
    int flags = O_CLOEXEC | O_NOFOLLOW;
    if (mode & SKY_FILE_FOLDER)
        flags = O_CLOEXEC | O_DIRECTORY; /* the user's own PATH may well be a link */
    flags |= mode & SKY_FILE_WRITE ? O_RDWR : O_RDONLY;
    flags |= mode & SKY_FILE_CREATE ? O_CREAT : 0;
    flags |= mode & SKY_FILE_NEW ? O_CREAT | O_EXCL : 0;
    flags |= mode & SKY_FILE_DIRECT ? O_DIRECT : 0;
    flags |= plain ? O_NONBLOCK : 0;
    int opened;
    do {
        opened = mode & SKY_FILE_KNOWN ? open_known(folder, path, flags)
                                       : open_below(folder, path, flags, plain ? 0600 : 0644);
    } while (opened < 0 && errno == EINTR);
    if (opened < 0 && mode & SKY_FILE_KNOWN)
        return sky_errno_status(errno);
    if (opened < 0)
        return plain && errno != EEXIST && is_odd(folder, path) ? SKY_E_CORRUPT
                                                                : sky_errno_status(errno);
    sky_status status = plain ? expect_plain(opened, flags, st) : SKY_OK;
    if (status == SKY_OK)
        *fd = opened;
    else
        sky_file_close(opened);
    return status;
}

sky_status sky_file_open(int folder, const char *path, unsigned mode, int *fd) {
    struct stat st;
    return open_file(folder, path, mode, fd, &st);
}

void sky_file_close(int fd) {
    if (fd >= 0)
        close(fd);
}

sky_status sky_file_read_at(int fd, void *data, size_t bytes, uint64_t offset, size_t *got) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sky_errno_status(errno);
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *got = done;
    return SKY_OK;
}

bool sky_file_read_resident(int fd, const sky_span *parts, uint32_t part_count, uint64_t offset) {
    struct iovec vectors[SKY_FILE_PARTS_MAX];
    size_t bytes = 0;
    assert(part_count <= SKY_FILE_PARTS_MAX);
    for (uint32_t i = 0; i < part_count; i++) {
        vectors[i] = (struct iovec){parts[i].data, parts[i].bytes};
        bytes += parts[i].bytes;
    }
    ssize_t got = preadv2(fd, vectors, (int)part_count, (off_t)offset, RWF_NOWAIT);
    return got >= 0 && (size_t)got == bytes;
}

sky_status sky_file_write_at(int fd, const void *data, size_t bytes, uint64_t offset) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pwrite(fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sky_errno_status(errno);
        done += (size_t)n;
    }
    return SKY_OK;
}

sky_status sky_file_reserve(int fd, uint64_t bytes) {
    int rc;
    do {
        rc = fallocate(fd, 0, 0, (off_t)bytes);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        rc = ftruncate(fd, (off_t)bytes);
    return status_of(rc);
}

sky_status sky_file_sync(int fd) {
    int rc;
    do {
        rc = fdatasync(fd);
    } while (rc < 0 && errno == EINTR);
    return status_of(rc);
}

sky_status sky_folder_sync(int fd) {
    int rc;
    do {
        rc = fsync(fd);
    } while (rc < 0 && errno == EINTR);
    return status_of(rc);
}

static sky_status file_allocate(int fd, int mode, uint64_t offset, uint64_t bytes) {
    int rc;
    do {
        rc = fallocate(fd, mode, (off_t)offset, (off_t)bytes);
    } while (rc < 0 && errno == EINTR);
    return status_of(rc);
}

sky_status sky_file_punch(int fd, uint64_t offset, uint64_t bytes) {
    return file_allocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

sky_status sky_file_fill(int fd, uint64_t offset, uint64_t bytes) {
    return file_allocate(fd, FALLOC_FL_KEEP_SIZE, offset, bytes);
}

static void fill_info(const struct stat *st, sky_file_info *out) {
    *out = (sky_file_info){
        .bytes = (uint64_t)st->st_size,
        .modified_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000,
        .regular = S_ISREG(st->st_mode),
        .nameless = st->st_nlink == 0,
    };
}

sky_status sky_file_stat(int folder, const char *path, sky_file_info *out) {
    struct stat st;
    if (stat_below(folder, path, &st) < 0)
        return sky_errno_status(errno);
    fill_info(&st, out);
    return SKY_OK;
}

sky_status sky_file_stat_open(int fd, sky_file_info *out) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return sky_errno_status(errno);
    fill_info(&st, out);
    return SKY_OK;
}

/* Permission bits that are ACLs count as the group's. A file that just lost its name has none. */
static sky_status check_owner(const struct stat *st, const char *path, sky_error *error) {
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return sky_fail(error, SKY_E_DENIED,
                        "%s: belongs to user %u, who could change what is read from it; use one of "
                        "your own, or chown it",
                        path, (unsigned)st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return sky_fail(error, SKY_E_DENIED,
                        "%s: mode %04o lets other users change it; chmod go-w it", path,
                        (unsigned)(st->st_mode & 07777));
    if (!S_ISDIR(st->st_mode) && st->st_nlink > 1)
        return sky_fail(error, SKY_E_DENIED,
                        "%s: has %u names (hard links), so a write would change another file; "
                        "remove it",
                        path, (unsigned)st->st_nlink);
    return SKY_OK;
}

sky_status sky_file_check_owner(int fd, const char *path, sky_error *error) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return sky_fail(error, SKY_E_IO, "%s: %s", path, sky_errno_text());
    return check_owner(&st, path, error);
}

sky_status sky_file_open_own(int folder, const char *path, unsigned mode, int *fd,
                             sky_file_info *out) {
    struct stat st;
    int opened;
    sky_status status = open_file(folder, path, mode | SKY_FILE_PLAIN, &opened, &st);
    if (status != SKY_OK)
        return status;
    if (check_owner(&st, path, NULL) != SKY_OK) {
        sky_file_close(opened);
        return SKY_E_CORRUPT;
    }
    fill_info(&st, out);
    *fd = opened;
    return SKY_OK;
}

bool sky_file_replaced(int fd, int folder, const char *path) {
    struct stat opened, there;
    return fstat(fd, &opened) == 0 && stat_below(folder, path, &there) == 0 &&
           (opened.st_dev != there.st_dev || opened.st_ino != there.st_ino);
}

sky_status sky_file_move(int from, int to) {
    return dup3(from, to, O_CLOEXEC) == to ? SKY_OK : SKY_E_IO;
}

char *sky_file_absolute(const char *path) {
    char folder[PATH_MAX];
    if (path[0] == '/' || !getcwd(folder, sizeof folder))
        return strdup(path);
    size_t bytes = strlen(folder) + strlen(path) + 2;
    char *whole = malloc(bytes);
    if (whole)
        snprintf(whole, bytes, "%s/%s", folder, path);
    return whole;
}

sky_status sky_file_space_left(int fd, sky_file_space *out) {
    struct statvfs system;
    if (fstatvfs(fd, &system) < 0)
        return sky_errno_status(errno);
    out->bytes = (uint64_t)system.f_bavail * system.f_frsize;
    out->files = system.f_files > 0 ? system.f_favail : UINT64_MAX;
    return SKY_OK;
}

sky_status sky_file_rename(int folder, const char *from, const char *to) {
    place old = place_of(folder, from), new = place_of(folder, to);
    int rc = place_found(&old) && place_found(&new) ? renameat(old.fd, old.name, new.fd, new.name)
                                                    : -1;
    place_leave(&old);
    place_leave(&new);
    return status_of(rc);
}

sky_status sky_file_remove(int folder, const char *path) {
    return status_of(unlink_below(folder, path, 0));
}

sky_status sky_folder_remove(int folder, const char *path) {
    return status_of(unlink_below(folder, path, AT_REMOVEDIR));
}

sky_status sky_file_lock(int fd, sky_time until) {
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        bool wait = errno == EINTR || (errno == EWOULDBLOCK && sky_now() < until);
        if (!wait)
            return sky_errno_status(errno);
        if (errno == EWOULDBLOCK)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return SKY_OK;
}

void sky_file_unlock(int fd) {
    flock(fd, LOCK_UN);
}

static int set_range(int fd, short kind, uint64_t offset, uint64_t bytes) {
    struct flock range = {
        .l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = (off_t)bytes};
    return fcntl(fd, F_OFD_SETLK, &range);
}

sky_status sky_file_lock_range(int fd, uint64_t offset, uint64_t bytes, sky_time until) {
    while (set_range(fd, F_WRLCK, offset, bytes) < 0) {
        bool held = errno == EAGAIN || errno == EACCES;
        if (held && sky_now() >= until)
            return SKY_E_BUSY;
        if (!held && errno != EINTR)
            return sky_errno_status(errno);
        if (held)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return SKY_OK;
}

void sky_file_unlock_range(int fd, uint64_t offset, uint64_t bytes) {
    set_range(fd, F_UNLCK, offset, bytes);
}

sky_status sky_file_copy(int fd, int *copy) {
    int made = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (made < 0)
        return SKY_E_IO;
    *copy = made;
    return SKY_OK;
}

sky_status sky_folder_make(int folder, const char *path) {
    place p = place_of(folder, path);
    int rc = place_found(&p) ? mkdirat(p.fd, p.name, 0700) : -1;
    place_leave(&p);
    return rc == 0 || errno == EEXIST ? SKY_OK : sky_errno_status(errno);
}

sky_status sky_folder_make_all(const char *path, sky_error *error) {
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return sky_fail(error, SKY_E_PARAM, "a folder path has 1 to %d bytes, not %zu",
                        PATH_MAX - 1, length);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        sky_status status = sky_folder_make(SKY_FOLDER_HERE, part);
        int cause = errno;
        struct stat st; /* what exists is fine, even below a folder that may not be written to */
        if (status != SKY_OK && stat(part, &st) != 0) {
            errno = cause;
            return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status,
                            "%s: cannot make this folder: %s", part, sky_errno_text());
        }
        part[i] = i < length ? '/' : '\0';
    }
    return SKY_OK;
}

static char kind_of(unsigned char type) {
    switch (type) {
    case DT_REG:
        return 'f';
    case DT_DIR:
        return 'd';
    case DT_UNKNOWN:
        return '?';
    default:
        return 'o';
    }
}

sky_status sky_folder_each(int folder, const char *path, sky_folder_fn each, void *context) {
    int fd = open_below(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return sky_errno_status(errno);
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return SKY_E_NOMEM;
    }
    const struct dirent *entry;
    bool go_on = true;
    errno = 0;
    while (go_on && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            go_on = each(context, entry->d_name, kind_of(entry->d_type));
        errno = 0;
    }
    sky_status status = go_on ? sky_errno_status(errno) : SKY_OK;
    closedir(stream);
    return status;
}

uint32_t sky_process_id(void) {
    return (uint32_t)getpid();
}

bool sky_process_exists(uint32_t id) {
    return kill((pid_t)id, 0) == 0 || errno != ESRCH;
}

const char *sky_environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}
