/* The shaped link of `bench stream`: real sockets, rate and delay in user space.
 *
 *   client ── {request, segment, form, bytes}, 0 bytes: give up ──►  server: answers in the order
 *          ◄── {request, …, bytes} and that many of the form ──       asked, each rtt after it was
 *                                                                     asked, through a bucket
 *
 * The bucket fills at the link's rate and holds 4 ms of it; socket buffers are kept short, so that
 * bytes of a request that is given up are few. The client decodes what arrives on the thread that
 * receives it; rows that travel as they are arrive where they belong. */
#include "stream.h"

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
    uint32_t segment;
    uint32_t form; /* a bench_form */
    uint32_t bytes;
} frame;

typedef struct {
    frame asked;
    uint32_t sent;
    sky_time ready_at;
} answer;

typedef struct {
    bench_link shape;
    const bench_prefix *prefix;
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

static void server_drop(server *s, uint32_t i) {
    memmove(&s->queue[i], &s->queue[i + 1], (s->count - i - 1) * sizeof s->queue[0]);
    s->count--;
}

/* False: the client is gone. */
static bool server_receive(server *s) {
    frame f;
    if (!move_all(s->socket, &f, sizeof f, false))
        return false;
    if (f.bytes > 0 && s->count < QUEUE_MAX)
        s->queue[s->count++] = (answer){f, 0, sky_now() + s->shape.rtt_ns};
    for (uint32_t i = 0; f.bytes == 0 && i < s->count; i++)
        if (s->queue[i].asked.request == f.request)
            server_drop(s, i--);
    return true;
}

/* How long until there is something to send, in ns; 0: now; -1: nothing to send. */
static sky_time server_wait_time(server *s, sky_time now) {
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

static bool send_frame(server *s) {
    answer *a = &s->queue[0];
    frame f = a->asked;
    uint32_t left = f.bytes - a->sent;
    f.bytes = left < FRAME_BYTES ? left : FRAME_BYTES;
    uint8_t *data = s->prefix->segments[f.segment].data[f.form] + a->sent;
    if (!move_all(s->socket, &f, sizeof f, true) || !move_all(s->socket, data, f.bytes, true))
        return false;
    s->bucket -= f.bytes;
    a->sent += f.bytes;
    if (a->sent == a->asked.bytes)
        server_drop(s, 0);
    return true;
}

static void *server_run(void *argument) {
    server *s = argument;
    s->filled_at = sky_now();
    for (bool alive = true; alive;) {
        sky_time wait = server_wait_time(s, sky_now());
        struct timespec limit = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        struct pollfd p = {.fd = s->socket, .events = POLLIN};
        int ready = ppoll(&p, 1, wait < 0 ? NULL : &limit, NULL);
        if (ready > 0)
            alive = server_receive(s);
        else if (wait == 0)
            alive = send_frame(s);
    }
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
    uint8_t *to;
    bench_reader reader;
} waiting;

typedef struct {
    int socket;
    const bench_context *context;
    sky_pacer *pacer;
    waiting requests[SKY_PACER_FLIGHTS_MAX];
    sky_time engine_until;
    size_t room_bytes; /* of a request's bytes while they are coded */
    uint8_t *memory;   /* the rows of every segment, [SKY_PACER_FLIGHTS_MAX] rooms, a decoder */
    bool over;
} client;

static bool client_init(client *c, const bench_context *context) {
    const bench_prefix *p = context->prefix;
    *c = (client){.context = context, .socket = -1};
    for (uint32_t i = 0; i < p->segment_count; i++)
        for (int form = BENCH_8; form < BENCH_FORMS; form++)
            if (p->segments[i].bytes[form] > c->room_bytes)
                c->room_bytes = p->segments[i].bytes[form];
    c->room_bytes = (c->room_bytes + 63) / 64 * 64;
    size_t bytes = SKY_DECODER_BYTES + SKY_PACER_FLIGHTS_MAX * c->room_bytes +
                   p->segment_count * p->rows_bytes;
    c->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (c->memory)
        memset(c->memory, 0x5a, bytes); /* pages are there before the clock starts */
    return c->memory != NULL;
}

static uint8_t *room_of(const client *c, const waiting *w) {
    return c->memory + SKY_DECODER_BYTES + (size_t)(w - c->requests) * c->room_bytes;
}

static uint8_t *rows_of(const client *c, uint32_t segment) {
    return c->memory + SKY_DECODER_BYTES + SKY_PACER_FLIGHTS_MAX * c->room_bytes +
           segment * c->context->prefix->rows_bytes;
}

static waiting *client_find(client *c, uint32_t request) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (c->requests[i].request == request)
            return &c->requests[i];
    return NULL;
}

static bool client_ask(client *c, const sky_pace *pace) {
    bench_form form = c->context->forms[pace->form];
    frame f = {pace->request, pace->segment, form, (uint32_t)pace->bytes};
    waiting *w = client_find(c, 0);
    uint8_t *rows = rows_of(c, pace->segment);
    *w = (waiting){.request = pace->request,
                   .bytes = pace->bytes,
                   .to = form < BENCH_8 ? rows : room_of(c, w)};
    bench_reader_start(&w->reader, c->context->prefix, form, w->to, pace->bytes, rows, c->memory);
    return move_all(c->socket, &f, sizeof f, true);
}

static bool client_act(client *c, const sky_pace *pace) {
    frame f = {.request = pace->request};
    switch (pace->kind) {
    case SKY_PACE_GET:
        return client_ask(c, pace);
    case SKY_PACE_CANCEL:
        if (client_find(c, pace->request))
            client_find(c, pace->request)->request = 0;
        return move_all(c->socket, &f, sizeof f, true);
    case SKY_PACE_COMPUTE:
        c->engine_until = sky_now() + c->context->segments[pace->segment].compute_ns;
        return true;
    case SKY_PACE_END:
        c->over = true;
    }
    return true;
}

static bool client_receive(client *c) {
    static char nowhere[FRAME_BYTES]; /* for what was given up meanwhile */
    frame f;
    if (!move_all(c->socket, &f, sizeof f, false))
        return false;
    waiting *w = client_find(c, f.request);
    if (!w)
        return move_all(c->socket, nowhere, f.bytes, false);
    if (!move_all(c->socket, w->to + w->arrived, f.bytes, false))
        return false;
    w->arrived += f.bytes;
    sky_pacer_arrived(c->pacer, sky_now(), w->request, w->arrived, 0);
    if (bench_reader_take(&w->reader, w->arrived) != SKY_OK)
        return false;
    if (w->arrived == w->bytes) {
        uint32_t request = w->request;
        w->request = 0;
        sky_pacer_finished(c->pacer, sky_now(), request, SKY_OK);
    }
    return true;
}

/* Has the engine computed its segment? Returns when to look again. */
static sky_time client_settle(client *c) {
    sky_time now = sky_now(), next = sky_pacer_wake(c->pacer, now);
    if (c->engine_until == 0 || c->engine_until > now)
        return c->engine_until && c->engine_until < next ? c->engine_until : next;
    c->engine_until = 0;
    sky_pacer_computed(c->pacer, now, true);
    return now;
}

static bool client_run(client *c) {
    while (!c->over) {
        sky_pace pace;
        while (sky_pacer_next(c->pacer, sky_now(), &pace))
            if (!client_act(c, &pace))
                return false;
        sky_time wait = c->over ? 0 : client_settle(c) - sky_now();
        wait = wait > 0 ? wait : 0;
        wait = wait < SKY_SECONDS(1) ? wait : SKY_SECONDS(1);
        struct timespec limit = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        struct pollfd p = {.fd = c->socket, .events = POLLIN};
        if (!c->over && ppoll(&p, 1, &limit, NULL) > 0 && !client_receive(c))
            return false;
    }
    return true;
}

sky_status bench_link_load(const bench_link *shape, const bench_context *context, sky_link *link,
                           double *ms, sky_pacer_report *report) {
    static server s;
    client c;
    s = (server){.shape = *shape, .prefix = context->prefix};
    if (!client_init(&c, context))
        return SKY_E_NOMEM;
    if (!connect_pair(&c.socket, &s.socket)) {
        free(c.memory);
        return SKY_E_IO;
    }
    pthread_t thread;
    bool serving = pthread_create(&thread, NULL, server_run, &s) == 0;
    sky_time start = sky_now();
    sky_status status = SKY_E_IO;
    if (serving)
        status = sky_pacer_create(context->segments, context->prefix->segment_count, link, 1, NULL,
                                  start, &c.pacer);
    if (status == SKY_OK)
        status = client_run(&c) ? SKY_OK : SKY_E_IO;
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
    free(c.memory);
    return status;
}
