#include "io/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/file.h"

#define BACKLOG    128
#define LOCK_NS    SKY_SECONDS(2) /* binding takes no time; a stranger may keep the lock */
#define POLLED_MAX 512
#define FDS_MAX    8 /* that one message may bring before more are cut off by the kernel */

static bool address_of(const char *path, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (path[0] == '\0' || strlen(path) > SKY_LOCAL_PATH_BYTES_MAX)
        return false;
    strcpy(out->sun_path, path);
    return true;
}

static int new_socket(void) {
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* A socket file without a listener is what a killed process left; anything else stays. */
static bool is_stale(const struct sockaddr_un *address) {
    struct stat st;
    if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = new_socket();
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                   errno == ECONNREFUSED;
    sky_local_close(fd);
    return refused;
}

static sky_status listen_failed(const char *path, int why, sky_error *error) {
    struct stat st;
    if (why == EADDRINUSE && lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return sky_fail(error, SKY_E_IO, "%.200s: is there and is no socket; name another path",
                        path);
    if (why == EADDRINUSE)
        return sky_fail(error, SKY_E_BUSY, "%.200s: in use; is another skymemd running?", path);
    bool denied = why == EACCES || why == EPERM || why == EROFS;
    return sky_fail(error, denied ? SKY_E_DENIED : SKY_E_IO, "%.200s: %s", path, strerror(why));
}

/* The folder of a path, locked; *fd is -1 where that cannot be, which binding shows. False: another
 * holds it. */
static bool lock_folder(const char *path, int *fd) {
    char folder[SKY_LOCAL_PATH_BYTES_MAX + 2];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash ? (size_t)(slash - path) : 0;
    memcpy(folder, path, bytes);
    memcpy(folder + bytes, slash ? "/" : ".", 2);
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 || sky_file_lock(*fd, sky_now() + LOCK_NS) != SKY_E_BUSY;
}

static sky_status bind_and_listen(const char *path, sky_local_listener *out, sky_error *error) {
    struct sockaddr_un address;
    struct stat st;
    (void)address_of(path, &address);
    if (is_stale(&address))
        unlink(path);
    int fd = new_socket();
    mode_t mask = umask(0077); /* the owner only */
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    int why = errno;
    umask(mask);
    if (bound && lstat(path, &st) == 0 && listen(fd, BACKLOG) == 0) {
        *out = (sky_local_listener){fd, st.st_dev, st.st_ino};
        return SKY_OK;
    }
    why = bound ? errno : why;
    if (bound)
        unlink(path);
    sky_local_close(fd);
    return listen_failed(path, why, error);
}

sky_status sky_local_listen(const char *path, sky_local_listener *out, sky_error *error) {
    struct sockaddr_un address;
    int folder;
    if (!address_of(path, &address))
        return sky_fail(error, SKY_E_PARAM, "%.200s: a socket's path has 1 to %d bytes", path,
                        SKY_LOCAL_PATH_BYTES_MAX);
    sky_status status = lock_folder(path, &folder)
                            ? bind_and_listen(path, out, error)
                            : sky_fail(error, SKY_E_BUSY,
                                       "%.200s: another process locks its folder", path);
    sky_local_close(folder);
    return status;
}

sky_status sky_local_adopt(int fd, sky_local_listener *out, sky_error *error) {
    int domain = -1, type = -1, listens = 0;
    socklen_t bytes = sizeof domain;
    bool socket = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
                  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
                  getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0;
    if (!socket || domain != AF_UNIX || type != SOCK_SEQPACKET || !listens ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return sky_fail(error, SKY_E_PARAM,
                        "descriptor %d: no Unix socket that listens (ListenSequentialPacket=)", fd);
    *out = (sky_local_listener){.fd = fd};
    return SKY_OK;
}

static bool is_at(const char *path, const sky_local_listener *l) {
    struct stat st;
    return path && l->file != 0 && lstat(path, &st) == 0 && st.st_dev == l->device &&
           st.st_ino == l->file;
}

sky_status sky_local_admit(const char *path, const sky_local_listener *l) {
    return is_at(path, l) && chmod(path, 0777) == 0 ? SKY_OK : SKY_E_IO;
}

void sky_local_unlisten(const char *path, sky_local_listener *l) {
    if (l->fd < 0)
        return;
    if (is_at(path, l))
        unlink(path);
    sky_local_close(l->fd);
    l->fd = -1;
}

static bool peer_of(int fd, sky_local_peer *out) {
    struct ucred told;
    socklen_t bytes = sizeof told;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &told, &bytes) != 0)
        return false;
    *out = (sky_local_peer){told.uid, told.pid};
    return true;
}

int sky_local_accept(const sky_local_listener *l, sky_local_peer *peer, bool *exhausted) {
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    *exhausted = fd < 0 &&
                 (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
    if (fd >= 0 && !peer_of(fd, peer)) {
        close(fd);
        return -1;
    }
    return fd;
}

sky_status sky_local_connect(const char *path, int *out, sky_local_peer *peer) {
    struct sockaddr_un address;
    if (!address_of(path, &address))
        return SKY_E_PARAM;
    int fd = new_socket();
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        peer_of(fd, peer)) {
        *out = fd;
        return SKY_OK;
    }
    int why = errno;
    sky_local_close(fd);
    if (why == ENOENT || why == ECONNREFUSED || why == ENOTDIR)
        return SKY_MISS;
    if (why == EACCES || why == EPERM)
        return SKY_E_DENIED;
    return why == EAGAIN ? SKY_E_BUSY : SKY_E_IO;
}

void sky_local_close(int fd) {
    if (fd >= 0)
        close(fd);
}

int sky_local_duplicate(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

uint32_t sky_local_user(void) {
    return geteuid();
}

bool sky_local_find_user(const char *name, uint32_t *uid) {
    char *end, room[4096];
    struct passwd account, *found = NULL;
    unsigned long number = name[0] >= '0' && name[0] <= '9' ? strtoul(name, &end, 10) : UINT32_MAX;
    if (number < UINT32_MAX && *end == '\0') {
        *uid = (uint32_t)number;
        return true;
    }
    if (getpwnam_r(name, &account, room, sizeof room, &found) != 0 || !found)
        return false;
    *uid = found->pw_uid;
    return true;
}

void sky_descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

typedef union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
} control;

sky_status sky_local_send(int fd, const void *data, size_t bytes, int passed) {
    struct iovec part = {(void *)data, bytes};
    control c = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = c.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof passed);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(head), &passed, sizeof passed);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)bytes)
        return SKY_OK;
    if (sent < 0 && errno == ETOOMANYREFS)
        return SKY_E_FULL;
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS) ? SKY_E_BUSY : SKY_E_IO;
}

void sky_local_end(int fd) {
    (void)shutdown(fd, SHUT_WR);
}

bool sky_local_is_read(int fd) {
    int unread;
    return ioctl(fd, SIOCOUTQ, &unread) == 0 && unread == 0;
}

/* Take over the first descriptor of a message and close all others; how many there were. */
static size_t take_descriptors(struct msghdr *message, int *passed) {
    size_t count = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (count++ == 0)
                *passed = fd;
            else
                close(fd);
        }
    }
    return count;
}

sky_status sky_local_receive(int fd, void *data, size_t bytes_max, size_t *bytes, int *passed) {
    struct iovec part = {data, bytes_max};
    control c;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = c.bytes,
                             .msg_controllen = sizeof c.bytes};
    ssize_t got;
    do
        got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *passed = -1;
    if (got < 0)
        return errno == EAGAIN ? SKY_MISS : SKY_E_IO;
    size_t count = take_descriptors(&message, passed);
    if (got > 0 && count <= 1 && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        *bytes = (size_t)got;
        return SKY_OK;
    }
    if (count > 0)
        close(*passed);
    *passed = -1;
    return got == 0 && count == 0 ? SKY_E_IO : SKY_E_CORRUPT; /* nothing: the peer has closed */
}

void sky_local_poll(const int *fds, const bool *writes, bool *ready, size_t count, sky_time until) {
    struct pollfd polled[POLLED_MAX];
    if (count > POLLED_MAX)
        count = POLLED_MAX;
    for (size_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){fds[i], (short)(POLLIN | (writes[i] ? POLLOUT : 0)), 0};
    int wait_ms = -1;
    if (until != SKY_TIME_NEVER) {
        sky_time left = until - sky_now();
        wait_ms = left <= 0 ? 0 : left > SKY_SECONDS(1000) ? 1000000 : (int)(left / 1000000 + 1);
    }
    int found = poll(polled, count, wait_ms);
    for (size_t i = 0; i < count; i++)
        ready[i] = found > 0 && polled[i].revents != 0;
}

sky_status sky_local_watch_create(int *watch) {
    *watch = epoll_create1(EPOLL_CLOEXEC);
    return *watch < 0 ? SKY_E_IO : SKY_OK;
}

void sky_local_watch(int watch, int fd, bool reads, bool writes) {
    struct epoll_event event = {.events = (reads ? EPOLLIN : 0) | (writes ? EPOLLOUT : 0)};
    if (epoll_ctl(watch, EPOLL_CTL_MOD, fd, &event) != 0)
        (void)epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event);
}

void sky_local_unwatch(int watch, int fd) {
    (void)epoll_ctl(watch, EPOLL_CTL_DEL, fd, NULL);
}
