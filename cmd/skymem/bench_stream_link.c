/* The shaped link of `bench stream`: real sockets, rate and delay in user space.
 *
 *   client ── {request, bytes} or {request, 0}: give up ──►  server: answers in the order
 *          ◄── {request, bytes} and that many bytes ──         asked, each rtt after it was
 *                                                              asked, through a bucket
 *
 * The bucket fills at the link's rate and holds 4 ms of it; socket buffers are kept short, so that
 * bytes of a request that is given up are few. */
#include "bench_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_BYTES  32768u
#define BUFFER_BYTES (128 << 10)
#define QUEUE_MAX    256u

typedef struct {
    uint32_t request;
    uint32_t bytes;
} frame;

typedef struct {
    frame asked;
    sky_time ready_at;
} answer;

typedef struct {
    bench_link shape;
    int socket;
    answer queue[QUEUE_MAX];
    uint32_t count;
    double bucket;
    sky_time filled_at;
} server;

static bool move_all(int fd, void *data, size_t bytes, bool sending) {
    for (size_t at = 0; at < bytes;) {
        ssize_t n = sending ? send(fd, (char *)data + at, bytes - at, MSG_NOSIGNAL)
                            : recv(fd, (char *)data + at, bytes - at, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static void drop(server *s, uint32_t i) {
    memmove(&s->queue[i], &s->queue[i + 1], (s->count - i - 1) * sizeof s->queue[0]);
    s->count--;
}

/* False: the client is gone. */
static bool hear(server *s) {
    frame f;
    if (!move_all(s->socket, &f, sizeof f, false))
        return false;
    if (f.bytes > 0 && s->count < QUEUE_MAX)
        s->queue[s->count++] = (answer){f, sky_now() + s->shape.rtt_ns};
    for (uint32_t i = 0; f.bytes == 0 && i < s->count; i++)
        if (s->queue[i].asked.request == f.request)
            drop(s, i--);
    return true;
}

/* How long until there is something to send, in ns; 0: now; -1: nothing to send. */
static sky_time patience(server *s, sky_time now) {
    s->bucket += (double)(now - s->filled_at) * 1e-9 * s->shape.rate;
    s->filled_at = now;
    double most = s->shape.rate * 0.004 + FRAME_BYTES;
    s->bucket = s->bucket < most ? s->bucket : most;
    if (s->count == 0)
        return -1;
    sky_time wait = s->queue[0].ready_at - now;
    double missing = FRAME_BYTES - s->bucket;
    sky_time fill = missing > 0 ? (sky_time)(missing / s->shape.rate * 1e9) + 1 : 0;
    wait = wait > fill ? wait : fill;
    return wait > 0 ? wait : 0;
}

static bool send_frame(server *s, char *buffer) {
    answer *a = &s->queue[0];
    frame f = a->asked;
    f.bytes = f.bytes < FRAME_BYTES ? f.bytes : FRAME_BYTES;
    memcpy(buffer, &f, sizeof f);
    if (!move_all(s->socket, buffer, sizeof f + f.bytes, true))
        return false;
    s->bucket -= f.bytes;
    a->asked.bytes -= f.bytes;
    if (a->asked.bytes == 0)
        drop(s, 0);
    return true;
}

static void *serve(void *argument) {
    server *s = argument;
    char *buffer = calloc(1, sizeof(frame) + FRAME_BYTES);
    s->filled_at = sky_now();
    for (bool alive = buffer != NULL; alive;) {
        sky_time wait = patience(s, sky_now());
        struct timespec limit = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        struct pollfd p = {.fd = s->socket, .events = POLLIN};
        int ready = ppoll(&p, 1, wait < 0 ? NULL : &limit, NULL);
        if (ready > 0)
            alive = hear(s);
        else if (wait == 0)
            alive = send_frame(s, buffer);
    }
    free(buffer);
    close(s->socket);
    return NULL;
}

/* Two ends of one TCP connection. */
static bool connect_pair(int *client, int *other) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, room = BUFFER_BYTES;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *other = -1;
    setsockopt(*client, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (listener >= 0 && *client >= 0 && bind(listener, (void *)&address, sizeof address) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (void *)&address, &length) == 0 &&
        connect(*client, (void *)&address, length) == 0)
        *other = accept(listener, NULL, NULL);
    if (listener >= 0)
        close(listener);
    if (*other < 0) {
        if (*client >= 0)
            close(*client);
        return false;
    }
    setsockopt(*other, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(*client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(*other, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return true;
}

/* ---- the client ---- */

typedef struct {
    uint32_t request;
    uint64_t bytes;
    uint64_t arrived;
    sky_time usable_at; /* 0: not all of it is here */
    sky_time decode_ns;
} waiting;

typedef struct {
    int socket;
    const sky_segment *segments;
    sky_pacer *pacer;
    waiting requests[SKY_PACER_FLIGHTS_MAX];
    sky_time engine_until, decoder_until;
    char *buffer;
    bool over;
} client;

static waiting *find(client *c, uint32_t request) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (c->requests[i].request == request)
            return &c->requests[i];
    return NULL;
}

static bool obey(client *c, const sky_pace *pace) {
    frame f = {pace->request, 0};
    switch (pace->kind) {
    case SKY_PACE_GET:
        f.bytes = (uint32_t)pace->bytes;
        *find(c, 0) = (waiting){
            .request = pace->request,
            .bytes = pace->bytes,
            .decode_ns = c->segments[pace->segment].forms[pace->form].decode_ns,
        };
        return move_all(c->socket, &f, sizeof f, true);
    case SKY_PACE_CANCEL:
        if (find(c, pace->request))
            *find(c, pace->request) = (waiting){0};
        return move_all(c->socket, &f, sizeof f, true);
    case SKY_PACE_COMPUTE:
        c->engine_until = sky_now() + c->segments[pace->segment].compute_ns;
        return true;
    case SKY_PACE_END:
        c->over = true;
    }
    return true;
}

static bool receive(client *c) {
    frame f;
    if (!move_all(c->socket, &f, sizeof f, false) ||
        !move_all(c->socket, c->buffer, f.bytes, false))
        return false;
    sky_time now = sky_now();
    waiting *w = find(c, f.request);
    if (!w)
        return true; /* given up meanwhile */
    w->arrived += f.bytes;
    sky_pacer_arrived(c->pacer, now, w->request, w->arrived, 0);
    if (w->arrived == w->bytes) {
        c->decoder_until = (c->decoder_until > now ? c->decoder_until : now) + w->decode_ns;
        w->usable_at = c->decoder_until;
    }
    return true;
}

/* What has become of time: decoded, computed. Returns when to look again. */
static sky_time settle(client *c) {
    sky_time now = sky_now(), next = sky_pacer_wake(c->pacer, now);
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        waiting *w = &c->requests[i];
        if (w->usable_at == 0)
            continue;
        if (w->usable_at <= now) {
            uint32_t request = w->request;
            *w = (waiting){0};
            sky_pacer_finished(c->pacer, now, request, SKY_OK);
            next = now;
        } else if (w->usable_at < next) {
            next = w->usable_at;
        }
    }
    if (c->engine_until != 0 && c->engine_until <= now) {
        c->engine_until = 0;
        sky_pacer_computed(c->pacer, now, true);
        next = now;
    } else if (c->engine_until != 0 && c->engine_until < next) {
        next = c->engine_until;
    }
    return next;
}

static bool run(client *c) {
    while (!c->over) {
        sky_pace pace;
        while (sky_pacer_next(c->pacer, sky_now(), &pace))
            if (!obey(c, &pace))
                return false;
        sky_time wait = c->over ? 0 : settle(c) - sky_now();
        wait = wait > 0 ? wait : 0;
        wait = wait < SKY_SECONDS(1) ? wait : SKY_SECONDS(1);
        struct timespec limit = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        struct pollfd p = {.fd = c->socket, .events = POLLIN};
        if (!c->over && ppoll(&p, 1, &limit, NULL) > 0 && !receive(c))
            return false;
    }
    return true;
}

sky_status bench_link_load(const bench_link *shape, const sky_segment *segments, uint32_t count,
                           sky_link *link, double *ms, sky_pacer_report *report) {
    static server s;
    client c = {.segments = segments, .buffer = malloc(FRAME_BYTES)};
    s = (server){.shape = *shape};
    if (!c.buffer)
        return SKY_E_NOMEM;
    if (!connect_pair(&c.socket, &s.socket)) {
        free(c.buffer);
        return SKY_E_IO;
    }
    pthread_t thread;
    bool serving = pthread_create(&thread, NULL, serve, &s) == 0;
    sky_time start = sky_now();
    sky_status status = SKY_E_IO;
    if (serving)
        status = sky_pacer_create(segments, count, link, 1, NULL, start, &c.pacer);
    if (status == SKY_OK)
        status = run(&c) ? SKY_OK : SKY_E_IO;
    if (status == SKY_OK) {
        sky_pacer_report_get(c.pacer, report);
        *ms = (double)(report->complete_ns - start) * 1e-6;
    }
    close(c.socket);
    if (serving)
        pthread_join(thread, NULL);
    else
        close(s.socket);
    sky_pacer_destroy(c.pacer);
    free(c.buffer);
    return status;
}
