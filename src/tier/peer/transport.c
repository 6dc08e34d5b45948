#include "tier/peer/transport.h"

#include <string.h>

#include "io/clock.h"
#include "io/fork.h"
#include "io/local.h"
#include "io/tcp.h"

/* ---- tcp ---- */

_Static_assert(SKY_PEER_SPANS_MAX <= SKY_TCP_SPANS_MAX, "what a connection may hand over at once");

static const sky_peer_transport tcp;

/* A child of fork() would keep the connection open when this process is gone. */
static sky_peer_socket new_connection(int fd) {
    sky_fork_drop(fd);
    return (sky_peer_socket){.transport = &tcp, .fd = fd};
}

static sky_status listen_tcp(const sky_address *at, sky_peer_socket *out, sky_address *bound,
                             sky_error *error) {
    int fd;
    sky_status status = sky_tcp_listen(at, &fd, bound, error);
    if (status == SKY_OK)
        *out = (sky_peer_socket){.transport = &tcp, .fd = fd};
    return status;
}

static bool accept_tcp(const sky_peer_socket *listener, sky_peer_socket *out, sky_address *peer,
                       bool *exhausted) {
    int fd = sky_tcp_accept(listener->fd, peer, exhausted);
    if (fd >= 0)
        *out = new_connection(fd);
    return fd >= 0;
}

static sky_status connect_tcp(const sky_address *to, sky_time until, sky_peer_socket *out) {
    int fd;
    sky_status status = sky_tcp_connect(to, until, &fd);
    if (status == SKY_OK)
        *out = new_connection(fd);
    return status;
}

static sky_status send_tcp(const sky_peer_socket *s, const sky_span *spans, uint32_t span_count,
                           size_t *sent) {
    return sky_tcp_send(s->fd, spans, span_count, sent);
}

static sky_status receive_tcp(const sky_peer_socket *s, const sky_span *spans, uint32_t span_count,
                              size_t *received) {
    return sky_tcp_receive(s->fd, spans, span_count, received);
}

static sky_status arm_tcp(const sky_peer_socket *s, bool *reads, bool *writes) {
    return *reads || *writes || !sky_tcp_is_over(s->fd) ? SKY_OK : SKY_E_IO;
}

static void close_tcp(sky_peer_socket *s) {
    sky_fork_keep(s->fd);
    sky_tcp_close(s->fd);
    *s = SKY_PEER_SOCKET_NONE;
}

static const sky_peer_transport tcp = {.name = "tcp",
                                       .listen = listen_tcp,
                                       .accept = accept_tcp,
                                       .connect = connect_tcp,
                                       .send = send_tcp,
                                       .receive = receive_tcp,
                                       .arm = arm_tcp,
                                       .close = close_tcp};

/* ---- all of them ---- */

const sky_peer_transport *sky_peer_transport_find(const char *name) {
    return !name || strcmp(name, tcp.name) == 0 ? &tcp : NULL;
}

sky_status sky_peer_socket_wait(const sky_peer_socket *s, bool reads, bool writes, int stop,
                                sky_time until) {
    bool ready[2] = {false};
    sky_status status = s->transport->arm(s, &reads, &writes);
    if (status == SKY_E_IO)
        return status;
    const int fds[] = {stop, s->fd};
    const bool polled_writes[] = {false, writes};
    sky_local_poll(fds, polled_writes, ready, 2, status == SKY_E_BUSY ? 0 : until);
    return ready[0] ? SKY_E_CANCELLED : SKY_OK;
}

sky_status sky_peer_exchange(const sky_peer_socket *s, bool sends, uint8_t *data, size_t bytes,
                             sky_time until, int stop) {
    for (size_t at = 0; at < bytes;) {
        size_t moved = 0;
        const sky_span rest = {data + at, bytes - at};
        sky_status status = sends ? s->transport->send(s, &rest, 1, &moved)
                                  : s->transport->receive(s, &rest, 1, &moved);
        if (status != SKY_OK && status != SKY_MISS && status != SKY_E_BUSY)
            return status;
        at += moved;
        if (moved > 0)
            continue;
        if (sky_now() >= until)
            return SKY_E_DEADLINE;
        status = sky_peer_socket_wait(s, !sends, sends, stop, until);
        if (status != SKY_OK)
            return status;
    }
    return SKY_OK;
}
