#include "tier/peer/transport.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/fork.h"
#include "io/local.h"
#include "io/tcp.h"
#ifdef SKY_HAVE_FABRIC
#include "fabric/fabric.h"
#endif

/* ---- tcp ---- */

_Static_assert(SKY_PEER_SPANS_MAX <= SKY_TCP_SPANS_MAX, "what a connection may hand over at once");

/* A child of fork() would keep the connection open, or the port taken, when this process is gone.
 */
static sky_peer_socket new_connection(int fd) {
    sky_fork_drop(fd);
    return (sky_peer_socket){.transport = &sky_peer_tcp, .fd = fd};
}

static sky_status listen_tcp(const char *provider, const sky_address *at, sky_peer_socket *out,
                             sky_address *bound, sky_error *error) {
    int fd;
    (void)provider;
    sky_status status = sky_tcp_listen(at, &fd, bound, error);
    if (status == SKY_OK)
        *out = new_connection(fd);
    return status;
}

static bool accept_tcp(const sky_peer_socket *listener, sky_peer_socket *out, sky_address *peer,
                       bool *exhausted) {
    int fd = sky_tcp_accept(listener->fd, peer, exhausted);
    if (fd >= 0)
        *out = new_connection(fd);
    return fd >= 0;
}

static sky_status connect_tcp(const char *provider, const sky_address *to, sky_time until, int stop,
                              sky_peer_socket *out) {
    int fd;
    (void)provider;
    sky_status status = sky_tcp_connect(to, until, stop, &fd);
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

const sky_peer_transport sky_peer_tcp = {.name = "tcp",
                                         .listen = listen_tcp,
                                         .accept = accept_tcp,
                                         .connect = connect_tcp,
                                         .send = send_tcp,
                                         .receive = receive_tcp,
                                         .arm = arm_tcp,
                                         .close = close_tcp};

/* ---- libfabric, where this is built with it ---- */

#ifdef SKY_HAVE_FABRIC

static const sky_peer_transport fabric;
static const char transport_names[] = "tcp, fabric";

static sky_peer_socket socket_of(sky_fabric_end *end) {
    return (sky_peer_socket){.transport = &fabric, .fd = sky_fabric_fd(end), .state = end};
}

static sky_status listen_fabric(const char *provider, const sky_address *at, sky_peer_socket *out,
                                sky_address *bound, sky_error *error) {
    sky_fabric_end *end;
    sky_status status = sky_fabric_listen(provider, at, &end, bound, error);
    if (status == SKY_OK)
        *out = socket_of(end);
    return status;
}

static bool accept_fabric(const sky_peer_socket *listener, sky_peer_socket *out, sky_address *peer,
                          bool *exhausted) {
    sky_fabric_end *end = sky_fabric_accept(listener->state, peer, exhausted);
    if (end)
        *out = socket_of(end);
    return end != NULL;
}

static sky_status connect_fabric(const char *provider, const sky_address *to, sky_time until,
                                 int stop, sky_peer_socket *out) {
    sky_fabric_end *end;
    sky_status status = sky_fabric_connect(provider, to, until, stop, &end);
    if (status == SKY_OK)
        *out = socket_of(end);
    return status;
}

static sky_status send_fabric(const sky_peer_socket *s, const sky_span *spans, uint32_t span_count,
                              size_t *sent) {
    return sky_fabric_send(s->state, spans, span_count, sent);
}

static sky_status receive_fabric(const sky_peer_socket *s, const sky_span *spans,
                                 uint32_t span_count, size_t *received) {
    return sky_fabric_receive(s->state, spans, span_count, received);
}

static sky_status arm_fabric(const sky_peer_socket *s, bool *reads, bool *writes) {
    sky_status status = sky_fabric_arm(s->state, *reads, *writes);
    *reads = true;
    *writes = false;
    return status;
}

static void close_fabric(sky_peer_socket *s) {
    sky_fabric_close(s->state);
    *s = SKY_PEER_SOCKET_NONE;
}

static const sky_peer_transport fabric = {.name = "fabric",
                                          .listen = listen_fabric,
                                          .accept = accept_fabric,
                                          .connect = connect_fabric,
                                          .send = send_fabric,
                                          .receive = receive_fabric,
                                          .arm = arm_fabric,
                                          .close = close_fabric};

#else
static const char transport_names[] = "tcp (libfabric was not there when it was built)";
#endif

/* ---- all of them ---- */

sky_status sky_peer_carrier_find(const char *name, const char *provider, sky_peer_carrier *out,
                                 sky_error *error) {
    *out = (sky_peer_carrier){.transport = &sky_peer_tcp};
    if (!name || strcmp(name, sky_peer_tcp.name) == 0)
        return !provider ? SKY_OK
                         : sky_fail(error, SKY_E_SYNTAX,
                                    "transport tcp has no providers; provider %.50s belongs to "
                                    "transport fabric",
                                    provider);
#ifdef SKY_HAVE_FABRIC
    if (strcmp(name, fabric.name) == 0) {
        sky_status status = sky_fabric_check(provider, error);
        if (status != SKY_OK)
            return status;
        out->transport = &fabric;
        if (strlen(provider) >= sizeof out->provider)
            return sky_fail(error, SKY_E_UNSUPPORTED, "provider %.50s: the name is too long",
                            provider);
        strcpy(out->provider, provider);
        return SKY_OK;
    }
#endif
    return sky_fail(error, SKY_E_UNSUPPORTED, "no transport %.50s in this build, but: %s", name,
                    transport_names);
}

sky_status sky_peer_carrier_parse(const char *word, sky_peer_carrier *out, sky_error *error) {
    char name[32];
    const char *colon = word ? strchr(word, ':') : NULL;
    if (!colon)
        return sky_peer_carrier_find(word, NULL, out, error);
    snprintf(name, sizeof name, "%.*s", (int)(colon - word), word);
    return sky_peer_carrier_find(name, colon + 1, out, error);
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
