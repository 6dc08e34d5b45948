#include "io/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "io/clock.h"

#define BACKLOG        128
#define IDLE_S         30 /* then the kernel asks whether the peer is still there ... */
#define ASK_S          10 /* ... this often ... */
#define ASKED_MAX      3  /* ... and so many times */
#define HOST_BYTES_MAX 255
#define UNSENT_MS_MAX  60000u /* what the peer's machine has not acknowledged by then ends it */

/* ---- addresses ---- */

/* The host's name before the port, without the brackets of a number. */
static bool cut_host(const char *text, char host[HOST_BYTES_MAX + 1], const char **port) {
    const char *colon = strrchr(text, ':');
    size_t bytes = colon ? (size_t)(colon - text) : 0;
    bool bracketed = bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']';
    if (bracketed) {
        text++;
        bytes -= 2;
    }
    if (bytes == 0 || bytes > HOST_BYTES_MAX || (!bracketed && memchr(text, ':', bytes)))
        return false;
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    *port = colon + 1;
    size_t digits = strspn(*port, "0123456789");
    return digits > 0 && digits <= 5 && (*port)[digits] == '\0' && atoi(*port) <= UINT16_MAX;
}

sky_status sky_tcp_resolve(const char *text, sky_addresses *out, sky_error *error) {
    char host[HOST_BYTES_MAX + 1];
    const char *port;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!cut_host(text, host, &port))
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: an address is HOST:PORT, such as 127.0.0.1:7700 or [::1]:7700",
                        text);
    int why = getaddrinfo(host, port, &hints, &found);
    if (why != 0)
        return sky_fail(error, SKY_E_IO, "%.200s: %s", text, gai_strerror(why));
    out->count = 0;
    for (const struct addrinfo *a = found; a && out->count < SKY_TCP_ADDRESSES_MAX;
         a = a->ai_next) {
        sky_address *to = &out->at[out->count];
        if (a->ai_addrlen > sizeof to->raw)
            continue;
        *to = (sky_address){.bytes = a->ai_addrlen};
        memcpy(to->raw, a->ai_addr, a->ai_addrlen);
        out->count++;
    }
    freeaddrinfo(found);
    return out->count > 0 ? SKY_OK
                          : sky_fail(error, SKY_E_IO, "%.200s: of an unknown family", text);
}

bool sky_addresses_meet(const sky_addresses *a, const sky_addresses *b) {
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++)
            if (sky_address_equal(&a->at[i], &b->at[k]))
                return true;
    return false;
}

static const struct sockaddr *os_address(const sky_address *a) {
    return (const void *)a->raw;
}

/* ---- connections ---- */

static int new_socket(const sky_address *a) {
    return socket(os_address(a)->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void set_option(int fd, int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value); /* what is refused is done without */
}

void sky_tcp_prepare(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, ASK_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, ASKED_MAX);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)UNSENT_MS_MAX);
}

sky_status sky_tcp_listen(const sky_address *at, int *out, sky_address *bound, sky_error *error) {
    char text[SKY_ADDRESS_TEXT_BYTES];
    int fd = new_socket(at);
    if (fd >= 0)
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    *bound = *at;
    socklen_t bytes = sizeof bound->raw;
    if (fd >= 0 && bind(fd, os_address(at), at->bytes) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, (struct sockaddr *)(void *)bound->raw, &bytes) == 0) {
        *out = fd;
        return SKY_OK;
    }
    int why = errno;
    sky_tcp_close(fd);
    sky_address_text(at, text);
    if (why == EADDRINUSE)
        return sky_fail(error, SKY_E_BUSY, "%s: in use; is another skymemd running?", text);
    bool denied = why == EACCES || why == EPERM;
    return sky_fail(error, denied ? SKY_E_DENIED : SKY_E_IO, "%s: %s", text, strerror(why));
}

int sky_tcp_accept(int listener, sky_address *peer, bool *exhausted) {
    socklen_t bytes = sizeof peer->raw;
    int fd = accept4(listener, (struct sockaddr *)(void *)peer->raw, &bytes,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    *exhausted = fd < 0 &&
                 (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
    if (fd < 0)
        return -1;
    peer->bytes = bytes < sizeof peer->raw ? bytes : sizeof peer->raw;
    sky_tcp_prepare(fd);
    return fd;
}

/* Wait until it is connected, or not. Errors: as of sky_tcp_connect */
static sky_status await_socket(int fd, sky_time until, int stop) {
    struct pollfd polled[] = {{.fd = fd, .events = POLLOUT}, {.fd = stop, .events = POLLIN}};
    int why = 0, found;
    socklen_t bytes = sizeof why;
    do {
        sky_time left = until - sky_now();
        found = poll(polled, 2,
                     left <= 0                  ? 0
                     : left > SKY_SECONDS(1000) ? 1000000
                                                : (int)(left / 1000000 + 1));
    } while (found < 0 && errno == EINTR);
    if (found == 0)
        return SKY_E_DEADLINE;
    if (found > 0 && polled[0].revents == 0)
        return SKY_E_CANCELLED;
    if (found < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0)
        return SKY_E_IO;
    return why == 0 ? SKY_OK : why == ECONNREFUSED ? SKY_MISS : SKY_E_IO;
}

sky_status sky_tcp_connect(const sky_address *to, sky_time until, int stop, int *out) {
    int fd = new_socket(to);
    if (fd < 0)
        return SKY_E_IO;
    sky_status status = SKY_OK;
    if (connect(fd, os_address(to), to->bytes) != 0)
        status = errno == EINPROGRESS    ? await_socket(fd, until, stop)
                 : errno == ECONNREFUSED ? SKY_MISS
                                         : SKY_E_IO;
    if (status != SKY_OK) {
        sky_tcp_close(fd);
        return status;
    }
    sky_tcp_prepare(fd);
    *out = fd;
    return SKY_OK;
}

bool sky_tcp_is_over(int fd) {
    struct pollfd polled = {.fd = fd};
    return poll(&polled, 1, 0) > 0;
}

void sky_tcp_close(int fd) {
    if (fd >= 0)
        close(fd);
}

/* ---- bytes ---- */

static void pieces_of(const sky_span *spans, uint32_t span_count,
                      struct iovec pieces[SKY_TCP_SPANS_MAX]) {
    for (uint32_t i = 0; i < span_count; i++)
        pieces[i] = (struct iovec){spans[i].data, spans[i].bytes};
}

sky_status sky_tcp_send(int fd, const sky_span *spans, uint32_t span_count, size_t *sent) {
    struct iovec pieces[SKY_TCP_SPANS_MAX];
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = span_count};
    ssize_t done;
    pieces_of(spans, span_count, pieces);
    do
        done = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (done < 0 && errno == EINTR);
    if (done < 0)
        return errno == EAGAIN || errno == ENOBUFS ? SKY_E_BUSY : SKY_E_IO;
    *sent = (size_t)done;
    return SKY_OK;
}

sky_status sky_tcp_receive(int fd, const sky_span *spans, uint32_t span_count, size_t *received) {
    struct iovec pieces[SKY_TCP_SPANS_MAX];
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = span_count};
    ssize_t done;
    pieces_of(spans, span_count, pieces);
    do
        done = recvmsg(fd, &message, MSG_DONTWAIT);
    while (done < 0 && errno == EINTR);
    if (done < 0)
        return errno == EAGAIN ? SKY_MISS : SKY_E_IO;
    *received = (size_t)done;
    return done > 0 ? SKY_OK : SKY_E_IO; /* nothing: the peer has closed */
}
