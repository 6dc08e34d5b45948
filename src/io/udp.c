#include "io/udp.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"

#ifndef UDP_SEGMENT /* older than the headers */
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RUNS_MAX          32
#define PLACES_MAX        512
#define RUN_DATAGRAMS     64    /* the kernel cuts no more */
#define RUN_BYTES_MAX     65000 /* with headers within what IP can say */
#define SEND_BYTES        (512u << 10)
#define JOINED_BYTES      65536
#define JOINED_COUNT      4
#define DATAGRAM_COUNT    64
#define RECEIVE_COUNT     DATAGRAM_COUNT
#define CONTROL_BYTES     CMSG_SPACE(sizeof(int))
#define SEND_BUFFER_BYTES (4 << 20)

/* Datagrams of one length but for the last, to one address. */
typedef struct {
    sky_address to;
    uint32_t place, place_count; /* where it lies */
    uint32_t bytes;
    uint32_t datagram_bytes;
    uint32_t count;
    bool closed; /* the last was shorter */
} run;

struct sky_udp {
    int fd;
    bool gso, gro;
    uint32_t datagram_bytes_max;
    uint32_t buffer_bytes;
    sky_udp_stat stat;

    uint8_t *sending;
    uint32_t sending_used;
    run runs[RUNS_MAX];
    uint32_t run_count;
    struct iovec places[PLACES_MAX];
    uint32_t place_count;

    uint8_t *received;
    uint32_t slot_bytes, slot_count;
    struct mmsghdr headers[RECEIVE_COUNT];
    struct iovec vectors[RECEIVE_COUNT];
    sky_address froms[RECEIVE_COUNT];
    _Alignas(struct cmsghdr) uint8_t controls[RECEIVE_COUNT][CONTROL_BYTES];
    uint32_t batch_count, batch_at; /* runs received, and the one being read */
    uint32_t run_at, run_datagram;  /* in that one: offset, and length of its datagrams */
};

/* ---- addresses ---- */

static const struct sockaddr *os_address(const sky_address *a) {
    return (const void *)a->raw;
}

_Static_assert(sizeof(struct sockaddr_in6) <= sizeof((sky_address){0}.raw), "either family");

static uint16_t *port_of(sky_address *a) {
    if (os_address(a)->sa_family == AF_INET6)
        return &((struct sockaddr_in6 *)(void *)a->raw)->sin6_port;
    return &((struct sockaddr_in *)(void *)a->raw)->sin_port;
}

static bool parse_port(const char *text, uint16_t *out) {
    if (!text[0] || strlen(text) > 5 || text[strspn(text, "0123456789")])
        return false;
    unsigned long port = strtoul(text, NULL, 10);
    *out = (uint16_t)port;
    return port <= UINT16_MAX;
}

sky_status sky_address_parse(const char *text, sky_address *out, sky_error *error) {
    sky_address a = {.bytes = sizeof(struct sockaddr_in)};
    char host[48];
    const char *colon = strrchr(text, ':');
    uint16_t port = 0;
    bool six = text[0] == '[';
    size_t host_bytes = colon ? (size_t)(colon - text) : 0;
    bool ok = colon && parse_port(colon + 1, &port) && host_bytes < sizeof host;
    if (ok && six) {
        ok = host_bytes >= 2 && text[host_bytes - 1] == ']';
        text++, host_bytes -= ok ? 2 : 0;
    }
    if (ok) {
        memcpy(host, text, host_bytes);
        host[host_bytes] = 0;
        struct sockaddr_in *v4 = (void *)a.raw;
        struct sockaddr_in6 *v6 = (void *)a.raw;
        if (six)
            v6->sin6_family = AF_INET6, a.bytes = sizeof *v6;
        else
            v4->sin_family = AF_INET;
        ok = inet_pton(six ? AF_INET6 : AF_INET, host,
                       six ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr) == 1;
    }
    if (!ok)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.80s: an address is numbers and a port, such as 127.0.0.1:7600 or "
                        "[::1]:7600",
                        text);
    *port_of(&a) = htons(port);
    *out = a;
    return SKY_OK;
}

void sky_address_text(const sky_address *a, char out[SKY_ADDRESS_TEXT_BYTES]) {
    char host[INET6_ADDRSTRLEN] = "?";
    bool six = os_address(a)->sa_family == AF_INET6;
    const void *number = six ? (const void *)&((const struct sockaddr_in6 *)os_address(a))
                                   ->sin6_addr
                             : (const void *)&((const struct sockaddr_in *)os_address(a))->sin_addr;
    inet_ntop(os_address(a)->sa_family, number, host, sizeof host);
    snprintf(out, SKY_ADDRESS_TEXT_BYTES, six ? "[%s]:%u" : "%s:%u", host, sky_address_port(a));
}

bool sky_address_equal(const sky_address *a, const sky_address *b) {
    return a->bytes == b->bytes && memcmp(a->raw, b->raw, a->bytes) == 0;
}

bool sky_address_is_loopback(const sky_address *a) {
    if (os_address(a)->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)os_address(a))->sin6_addr);
    return ntohl(((const struct sockaddr_in *)os_address(a))->sin_addr.s_addr) >> 24 == 127;
}

uint16_t sky_address_port(const sky_address *a) {
    sky_address copy = *a;
    return ntohs(*port_of(&copy));
}

void sky_address_set_port(sky_address *a, uint16_t port) {
    *port_of(a) = htons(port);
}

sky_address sky_address_towards(const sky_address *a) {
    sky_address any = *a;
    if (!sky_address_is_loopback(a)) {
        if (os_address(a)->sa_family == AF_INET6)
            ((struct sockaddr_in6 *)(void *)any.raw)->sin6_addr = in6addr_any;
        else
            ((struct sockaddr_in *)(void *)any.raw)->sin_addr.s_addr = htonl(INADDR_ANY);
    }
    sky_address_set_port(&any, 0);
    return any;
}

/* Within the call that sends, loopback also delivers the refusal. */
bool sky_address_is_vacant(const sky_address *a) {
    if (!sky_address_is_loopback(a))
        return false;
    int fd = socket(os_address(a)->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    int refusal = 0;
    socklen_t length = sizeof refusal;
    bool vacant = connect(fd, os_address(a), a->bytes) == 0 && send(fd, "", 0, 0) == 0 &&
                  getsockopt(fd, SOL_SOCKET, SO_ERROR, &refusal, &length) == 0 &&
                  refusal == ECONNREFUSED;
    close(fd);
    return vacant;
}

/* ---- open ---- */

/* With the right to, beyond the administrator's limit for everybody. */
static void ask_for_buffers(sky_udp *u, uint32_t bytes) {
    int want = bytes < 1u << 30 ? (int)bytes : 1 << 30;
    int send = SEND_BUFFER_BYTES;
    if (setsockopt(u->fd, SOL_SOCKET, SO_RCVBUFFORCE, &want, sizeof want) != 0)
        setsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &want, sizeof want);
    if (setsockopt(u->fd, SOL_SOCKET, SO_SNDBUFFORCE, &send, sizeof send) != 0)
        setsockopt(u->fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof send);
    int got = 0;
    socklen_t length = sizeof got;
    getsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &got, &length);
    u->buffer_bytes = (uint32_t)got / 2; /* the kernel doubles it for its own bookkeeping */
}

static void ask_for_offloads(sky_udp *u) {
    int none = 0, one = 1;
    u->gso = setsockopt(u->fd, SOL_UDP, UDP_SEGMENT, &none, sizeof none) == 0;
    u->gro = setsockopt(u->fd, SOL_UDP, UDP_GRO, &one, sizeof one) == 0;
}

static bool take_memory(sky_udp *u) {
    u->slot_bytes = u->gro ? JOINED_BYTES : (u->datagram_bytes_max + 64) & ~63u;
    u->slot_count = u->gro ? JOINED_COUNT : DATAGRAM_COUNT;
    u->sending = malloc(SEND_BYTES);
    u->received = malloc((size_t)u->slot_bytes * u->slot_count);
    if (!u->sending || !u->received)
        return false;
    for (uint32_t i = 0; i < u->slot_count; i++) {
        u->vectors[i] = (struct iovec){u->received + (size_t)i * u->slot_bytes, u->slot_bytes};
        u->headers[i].msg_hdr.msg_iov = &u->vectors[i];
        u->headers[i].msg_hdr.msg_iovlen = 1;
    }
    return true;
}

static sky_status fail_bind(const sky_address *at, sky_error *error) {
    char text[SKY_ADDRESS_TEXT_BYTES];
    int failure = errno;
    sky_status status = failure == EADDRINUSE ? SKY_E_BUSY : sky_errno_status(failure);
    sky_address_text(at, text);
    return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%s: %s", text,
                    failure == EADDRINUSE ? "in use; is another satellite running there?"
                                          : strerror(failure));
}

sky_status sky_udp_open(const sky_address *at, const sky_udp_options *options, sky_udp **out,
                        sky_error *error) {
    assert(options->datagram_bytes_max >= 1 && options->datagram_bytes_max <= 9000);
    sky_udp *u = calloc(1, sizeof *u);
    if (!u)
        return sky_fail(error, SKY_E_NOMEM, "a socket");
    sky_status status = SKY_OK;
    u->datagram_bytes_max = options->datagram_bytes_max;
    u->fd = socket(os_address(at)->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (u->fd < 0 || bind(u->fd, os_address(at), at->bytes) != 0) {
        status = fail_bind(at, error);
        goto cleanup;
    }
    ask_for_buffers(u, options->buffer_bytes);
    if (!options->no_offloads)
        ask_for_offloads(u);
    if (!take_memory(u)) {
        status = sky_fail(error, SKY_E_NOMEM, "buffers of a socket");
        goto cleanup;
    }
    *out = u;
    u = NULL;
cleanup:
    sky_udp_close(u);
    return status;
}

void sky_udp_close(sky_udp *u) {
    if (!u)
        return;
    if (u->fd >= 0)
        close(u->fd);
    free(u->sending);
    free(u->received);
    free(u);
}

int sky_udp_fd(const sky_udp *u) {
    return u->fd;
}

sky_address sky_udp_address(const sky_udp *u) {
    sky_address a = {.bytes = sizeof a.raw};
    socklen_t length = sizeof a.raw;
    if (getsockname(u->fd, (void *)a.raw, &length) == 0)
        a.bytes = length;
    return a;
}

uint32_t sky_udp_buffer_bytes(const sky_udp *u) {
    return u->buffer_bytes;
}

const char *sky_udp_offloads(const sky_udp *u) {
    if (u->gso)
        return u->gro ? "gso+gro" : "gso";
    return u->gro ? "gro" : "none";
}

sky_udp_stat sky_udp_stats(const sky_udp *u) {
    return u->stat;
}

/* ---- sending ---- */

uint8_t *sky_udp_room(sky_udp *u) {
    if (u->sending_used + u->datagram_bytes_max > SEND_BYTES)
        sky_udp_flush(u);
    return u->sending + u->sending_used;
}

static bool run_extends(const sky_udp *u, const run *r, const sky_address *to, uint32_t bytes) {
    return u->gso && !r->closed && bytes <= r->datagram_bytes && r->count < RUN_DATAGRAMS &&
           r->bytes + bytes <= RUN_BYTES_MAX && sky_address_equal(&r->to, to);
}

/* The run a datagram goes to the end of. */
static run *run_for(sky_udp *u, const sky_address *to, uint32_t bytes) {
    run *r = u->run_count > 0 ? &u->runs[u->run_count - 1] : NULL;
    if (r && run_extends(u, r, to, bytes))
        return r;
    r = &u->runs[u->run_count++];
    *r = (run){.to = *to, .place = u->place_count, .datagram_bytes = bytes};
    return r;
}

/* Of `count` more, as many as one run takes. */
static uint32_t run_room(const sky_udp *u, const run *r, uint32_t bytes, uint32_t count) {
    uint32_t room = u->gso && bytes == r->datagram_bytes ? (RUN_BYTES_MAX - r->bytes) / bytes : 1;
    room = room < RUN_DATAGRAMS - r->count ? room : RUN_DATAGRAMS - r->count;
    return count < room ? count : room;
}

static void put_in_place(sky_udp *u, run *r, const uint8_t *data, uint32_t bytes) {
    struct iovec *last = r->place_count > 0 ? &u->places[u->place_count - 1] : NULL;
    if (last && (uint8_t *)last->iov_base + last->iov_len == data) {
        last->iov_len += bytes;
    } else {
        u->places[u->place_count++] = (struct iovec){(void *)(uintptr_t)data, bytes};
        r->place_count++;
    }
    if (data == u->sending + u->sending_used)
        u->sending_used += bytes;
}

void sky_udp_put_row(sky_udp *u, const sky_address *to, const uint8_t *data, size_t byte_count,
                     uint32_t count) {
    assert(byte_count >= 1 && byte_count <= u->datagram_bytes_max);
    uint32_t bytes = (uint32_t)byte_count;
    while (count > 0) {
        run *r = run_for(u, to, bytes);
        uint32_t n = run_room(u, r, bytes, count);
        put_in_place(u, r, data, n * bytes);
        r->closed = bytes < r->datagram_bytes;
        r->bytes += n * bytes;
        r->count += n;
        data += n * bytes;
        count -= n;
        if (u->run_count == RUNS_MAX || u->place_count == PLACES_MAX)
            sky_udp_flush(u);
    }
}

void sky_udp_put(sky_udp *u, const sky_address *to, const uint8_t *data, size_t bytes) {
    sky_udp_put_row(u, to, data, bytes, 1);
}

/* A path that cannot cut: one by one, from now on. No datagram lies in two places. */
static void send_singly(sky_udp *u, const run *r) {
    for (uint32_t i = 0; i < r->place_count; i++) {
        const struct iovec *place = &u->places[r->place + i];
        for (size_t done = 0; done < place->iov_len; done += r->datagram_bytes) {
            size_t left = place->iov_len - done;
            size_t bytes = left < r->datagram_bytes ? left : r->datagram_bytes;
            u->stat.send_calls++;
            if (sendto(u->fd, (uint8_t *)place->iov_base + done, bytes, 0, os_address(&r->to),
                       r->to.bytes) < 0)
                u->stat.unsent++;
            else
                u->stat.sent++;
        }
    }
}

typedef struct {
    struct mmsghdr headers[RUNS_MAX];
    _Alignas(struct cmsghdr) uint8_t controls[RUNS_MAX][CMSG_SPACE(sizeof(uint16_t))];
} send_batch;

static void run_describe(sky_udp *u, const run *r, send_batch *b, uint32_t i) {
    struct msghdr *h = &b->headers[i].msg_hdr;
    *h = (struct msghdr){.msg_name = (void *)(uintptr_t)r->to.raw,
                         .msg_namelen = r->to.bytes,
                         .msg_iov = &u->places[r->place],
                         .msg_iovlen = r->place_count};
    if (r->count == 1)
        return;
    memset(b->controls[i], 0, sizeof b->controls[i]);
    h->msg_control = b->controls[i];
    h->msg_controllen = sizeof b->controls[i];
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    uint16_t bytes = (uint16_t)r->datagram_bytes;
    memcpy(CMSG_DATA(c), &bytes, sizeof bytes);
}

/* The first run that was not sent: try it another way, or leave it. */
static void send_failed(sky_udp *u, const run *r) {
    if (r->count > 1 && (errno == EIO || errno == EINVAL || errno == EMSGSIZE)) {
        u->gso = false;
        send_singly(u, r);
    } else {
        u->stat.unsent += r->count;
    }
}

void sky_udp_flush(sky_udp *u) {
    send_batch b;
    uint32_t count = u->run_count;
    for (uint32_t i = 0; i < count; i++)
        run_describe(u, &u->runs[i], &b, i);
    for (uint32_t at = 0; at < count;) {
        int sent = sendmmsg(u->fd, b.headers + at, count - at, 0);
        u->stat.send_calls++;
        if (sent < 0 && errno == EINTR)
            continue;
        for (uint32_t end = at + (sent > 0 ? (uint32_t)sent : 0); at < end; at++)
            u->stat.sent += u->runs[at].count;
        if (sent <= 0)
            send_failed(u, &u->runs[at++]);
    }
    u->run_count = 0;
    u->place_count = 0;
    u->sending_used = 0;
}

/* ---- receiving ---- */

bool sky_udp_receive(sky_udp *u) {
    for (uint32_t i = 0; i < u->slot_count; i++) {
        struct msghdr *h = &u->headers[i].msg_hdr;
        h->msg_name = u->froms[i].raw;
        h->msg_namelen = sizeof u->froms[i].raw;
        h->msg_control = u->gro ? u->controls[i] : NULL;
        h->msg_controllen = u->gro ? CONTROL_BYTES : 0;
        h->msg_flags = 0;
    }
    int got;
    do {
        got = recvmmsg(u->fd, u->headers, u->slot_count, MSG_DONTWAIT, NULL);
        u->stat.receive_calls++;
    } while (got < 0 && errno == EINTR);
    u->batch_count = got > 0 ? (uint32_t)got : 0;
    u->batch_at = u->run_at = u->run_datagram = 0;
    return u->batch_count > 0;
}

/* How long the datagrams are that the kernel joined; all of it when it did not. */
static uint32_t datagram_bytes(struct msghdr *h, uint32_t bytes) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        int joined;
        if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO)
            continue;
        memcpy(&joined, CMSG_DATA(c), sizeof joined);
        return joined > 0 ? (uint32_t)joined : bytes;
    }
    return bytes;
}

bool sky_udp_next(sky_udp *u, uint8_t **data, size_t *bytes, const sky_address **from) {
    for (; u->batch_at < u->batch_count; u->batch_at++, u->run_at = u->run_datagram = 0) {
        struct mmsghdr *h = &u->headers[u->batch_at];
        bool given = u->run_datagram > 0; /* one of no bytes is given too, once */
        if ((given && u->run_at >= h->msg_len) || h->msg_hdr.msg_flags & MSG_TRUNC)
            continue;
        if (u->run_datagram == 0)
            u->run_datagram = h->msg_len ? datagram_bytes(&h->msg_hdr, h->msg_len) : 1;
        if (u->run_datagram > u->datagram_bytes_max) /* slots are larger */
            continue;
        uint32_t left = h->msg_len - u->run_at;
        sky_address *a = &u->froms[u->batch_at];
        a->bytes = h->msg_hdr.msg_namelen;
        *data = u->received + (size_t)u->batch_at * u->slot_bytes + u->run_at;
        *bytes = left < u->run_datagram ? left : u->run_datagram;
        *from = a;
        u->run_at += (uint32_t)*bytes;
        u->stat.received++;
        return true;
    }
    return false;
}
