#include "host/host.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/skymem.h>

#include "base/error.h"
#include "base/log.h"

#define FLUSH_S      10
#define DRAINED      64
#define EXHAUSTED_NS SKY_MS(100)        /* without descriptors: no connections are taken so long */
#define RINGS_NS     ((sky_time)200000) /* rings alone are looked at so long */

/* ---- connections ---- */

static void refuse_client(sky__host *h, int fd, sky_status why) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    const sky_shm_frame refused = {.kind = SKY_SHM_REFUSED, .status = why};
    (void)sky_local_send(fd, data, sky_shm_encode(&refused, data), -1);
    sky_local_close(fd);
    h->tenants[0]->stat.refused++;
}

static sky__client *find_place(sky__host *h, const sky__tenant *t) {
    if (!sky__tenant_has_place(h, t))
        return NULL;
    size_t i = 0;
    while (i < h->places && sky__client_is_here(&h->clients[i]))
        i++;
    h->places += i == h->places && i < SKY_HOST_CLIENTS_MAX;
    return i < SKY_HOST_CLIENTS_MAX ? &h->clients[i] : NULL;
}

/* Of a user's connections without a HELLO, the oldest; NULL: all have sent theirs. */
static sky__client *longest_silent(const sky__host *h, const sky__tenant *t) {
    sky__client *longest = NULL;
    for (size_t i = 0; i < h->places; i++) {
        sky__client *c = &h->clients[i];
        bool silent = c->fd >= 0 && !c->greeted && c->tenant == t;
        if (silent && (!longest || c->number < longest->number))
            longest = c;
    }
    return longest;
}

/* A place for one more connection of a user. When none is left, the oldest of the user's own that
 * have not sent a HELLO is closed for it. NULL: there is no such connection. */
static sky__client *free_place(sky__host *h, const sky__tenant *t) {
    sky__client *place = find_place(h, t), *silent = place ? NULL : longest_silent(h, t);
    if (!silent)
        return place;
    sky__client_close(h, silent, "it has not said who it is, and another needs its place");
    return find_place(h, t);
}

static void accept_one(sky__host *h) {
    sky_local_peer peer;
    bool exhausted;
    int fd = sky_local_accept(&h->listener, &peer, &exhausted);
    if (exhausted) {
        sky_log(SKY_LOG_WARNING, "no descriptors are left for more clients");
        h->accept_at = sky_now() + EXHAUSTED_NS;
    }
    if (fd < 0)
        return;
    sky__tenant *t = sky__tenant_of(h, peer.uid, NULL);
    bool served = t && !t->leaving;
    sky__client *c = served ? free_place(h, t) : NULL;
    if (!served) {
        if (sky__host_may_log(h))
            sky_log(SKY_LOG_WARNING, "process %d of user %u is refused: this is user %u's",
                    peer.pid, peer.uid, sky_local_user());
        refuse_client(h, fd, SKY_E_DENIED);
    } else if (!c) {
        if (sky__host_may_log(h))
            sky_log(SKY_LOG_WARNING,
                    "process %d of user %u is refused: there are as many clients as may be",
                    peer.pid, peer.uid);
        refuse_client(h, fd, SKY_E_BUSY);
    } else {
        sky__client_open(t, c, ++h->numbers, fd, &peer);
    }
}

/* ---- the loop ---- */

static void finish_runs(sky__host *h, sky__tenant *t) {
    sky_batch done[DRAINED];
    size_t count = sky_drain(t->cache, done, DRAINED);
    for (size_t i = 0; i < count; i++)
        for (sky__run **at = &t->runs; *at; at = &(*at)->next) {
            sky__run *run = *at;
            if (run->batch.id != done[i].id)
                continue;
            *at = run->next;
            sky__run_end(h, run);
            break;
        }
}

/* Each turn: room comes with runs that end, and with those that are cancelled, of which the cache
 * tells nothing. */
static void start_stalled(sky__host *h) {
    for (size_t i = 0; i < h->places; i++) {
        sky__run *stalled = h->clients[i].stalled;
        h->clients[i].stalled = NULL;
        if (stalled)
            sky__run_start(h, stalled);
    }
}

/* Those who never said who they are. Returns when to look again. */
static sky_time close_silent(sky__host *h) {
    sky_time now = sky_now(), next = SKY_TIME_NEVER;
    for (size_t i = 0; i < h->places; i++) {
        sky__client *c = &h->clients[i];
        if (c->fd < 0 || c->greeted)
            continue;
        if (now >= c->greet_by)
            sky__client_close(h, c, "it has not said who it is");
        else if (c->greet_by < next)
            next = c->greet_by;
    }
    return next;
}

/* When a host without clients has been one for so long that it ends. */
static sky_time idle_until(sky__host *h) {
    uint64_t clients = 0;
    for (size_t i = 0; i < h->tenant_count; i++)
        clients += h->tenants[i]->stat.clients;
    if (clients > 0 || h->settings.idle_s == 0)
        h->empty_since = 0;
    else if (h->empty_since == 0)
        h->empty_since = sky_now();
    return h->empty_since == 0 ? SKY_TIME_NEVER : h->empty_since + SKY_SECONDS(h->settings.idle_s);
}

static sky_time sooner_of(sky_time a, sky_time b) {
    return a < b ? a : b;
}

static int descriptor_or_none(int fd) {
    return fd > 0 ? fd : -1;
}

enum { STOP, RELOAD, LISTEN, CHORES, CACHES, FIXED = CACHES + SKY__HOST_TENANTS_MAX };

/* What a turn waits for. */
typedef struct {
    int fds[FIXED + SKY_HOST_CLIENTS_MAX];
    bool writes[FIXED + SKY_HOST_CLIENTS_MAX]; /* none: rings are written to, not sockets */
    bool ready[FIXED + SKY_HOST_CLIENTS_MAX];
    sky__client *clients[SKY_HOST_CLIENTS_MAX];
    size_t client_count;
} waits;

static void wait_fixed(const sky__host *h, waits *w) {
    memset(w->writes, 0, sizeof w->writes);
    w->fds[STOP] = descriptor_or_none(h->options.stop_fd);
    w->fds[RELOAD] = h->options.reload ? descriptor_or_none(h->options.reload_fd) : -1;
    w->fds[LISTEN] = sky_now() >= h->accept_at ? h->listener.fd : -1;
    w->fds[CHORES] = h->chores_event;
    for (size_t i = 0; i < SKY__HOST_TENANTS_MAX; i++)
        w->fds[CACHES + i] = i < h->tenant_count ? sky_event_fd(h->tenants[i]->cache) : -1;
}

static void wait_clients(sky__host *h, waits *w) {
    w->client_count = 0;
    for (size_t i = 0; i < h->places; i++) {
        sky__client *c = &h->clients[i];
        if (!sky__client_is_here(c))
            continue;
        w->fds[FIXED + w->client_count] = sky__client_socket(c);
        w->clients[w->client_count++] = c;
    }
}

/* When a letter is to be tried again. */
static sky_time letters_until(const waits *w) {
    sky_time until = SKY_TIME_NEVER;
    for (size_t i = 0; i < w->client_count; i++)
        if (w->clients[i]->first && w->clients[i]->send_at != 0)
            until = sooner_of(until, w->clients[i]->send_at);
    return until;
}

/* Serve rings: as long as one has something or had it just before, but other things wait for
 * RINGS_NS at most. */
static void serve_rings(sky__host *h, const waits *w) {
    const sky_time start = sky_now();
    sky_time now;
    do {
        bool served = sky__clients_serve(h, w->clients, w->client_count);
        now = sky_now();
        if (served && h->busy_until != 0)
            sky_spin_done(&h->spin, true); /* it came while we looked */
        if (served)
            h->busy_until = now + sky_spin_ns(&h->spin);
        else
            sky_ring_pause();
    } while (now < h->busy_until && now < start + RINGS_NS);
    if (h->busy_until != 0 && now >= h->busy_until) {
        sky_spin_done(&h->spin, false);
        h->busy_until = 0;
    }
}

static void rise_clients(const waits *w) {
    for (size_t i = 0; i < w->client_count; i++)
        if (w->clients[i]->fd >= 0 && w->clients[i]->greeted)
            sky_ring_rise(&w->clients[i]->ring);
}

/* Clients are to wake this thread from now on. False: one has something already. */
static bool rest_clients(const sky__host *h, const waits *w) {
    if (h->busy_until != 0)
        return false;
    for (size_t i = 0; i < w->client_count; i++) {
        sky__client *c = w->clients[i];
        if (c->fd >= 0 && c->greeted && !c->stalled &&
            !sky_ring_sleep(&c->ring, SKY_RING_ON_SOCKET))
            return false;
    }
    return true;
}

/* Sockets that are ready, and letters whose time has come. */
static void serve_sockets(sky__host *h, const waits *w) {
    const sky_time now = sky_now();
    if (sky__clients_serve(h, w->clients, w->client_count)) /* what the wake-up is for, first */
        h->busy_until = sky_now() + sky_spin_ns(&h->spin);
    for (size_t i = 0; i < w->client_count; i++) {
        sky__client *c = w->clients[i];
        if (w->ready[FIXED + i] && sky__client_socket(c) == w->fds[FIXED + i])
            sky__client_hear(h, c);
        if (c->fd >= 0 && c->first && c->send_at != 0 && now >= c->send_at)
            sky__client_serve(h, c);
    }
}

static void serve_caches(sky__host *h, const waits *w) {
    for (size_t i = 0; i < h->tenant_count; i++)
        if (w->ready[CACHES + i])
            finish_runs(h, h->tenants[i]);
    if (w->ready[CHORES])
        sky__clients_answer(h);
    start_stalled(h);
}

/* One turn; false: it is time to end. What the rings bring about (letters, room for who is stalled,
 * a client that goes) is looked at before it sleeps. */
static bool host_turn(sky__host *h) {
    waits w;
    sky_time until = sooner_of(close_silent(h), h->sweep_at);
    wait_fixed(h, &w);
    wait_clients(h, &w);
    if (w.fds[LISTEN] < 0)
        until = sooner_of(until, h->accept_at);
    serve_rings(h, &w);
    start_stalled(h);
    const sky_time idle = idle_until(h);
    until = sooner_of(sooner_of(until, idle), letters_until(&w));
    sky_local_poll(w.fds, w.writes, w.ready, FIXED + w.client_count,
                   rest_clients(h, &w) ? until : 0);
    rise_clients(&w);
    if (w.ready[STOP])
        return false;
    serve_sockets(h, &w);
    serve_caches(h, &w);
    if (w.ready[LISTEN])
        accept_one(h);
    if (w.ready[RELOAD] && h->options.reload(h->options.context, &h->settings)) {
        sky__tenants_mark(h);
        sky__clients_dismiss(h);
        sky__tenants_update(h);
    }
    sky__tenants_sweep(h);
    h->sweep_at = sky__clients_retire(h);
    return w.ready[LISTEN] || sky_now() < idle;
}

/* ---- the end ---- */

/* A check is over only when it was told so, also one that nobody waits for any more. */
static bool is_busy(const sky__host *h) {
    for (size_t i = 0; i < h->tenant_count; i++)
        if (h->tenants[i]->runs || h->tenants[i]->chores > 0)
            return true;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        if (h->clients[i].fd >= 0 && h->clients[i].stalled)
            return true;
    return false;
}

#define CANCEL_AGAIN_NS SKY_MS(50)

/* Answer what was asked, checks by ending them: nothing more is read, and who comes now finds
 * nobody here. */
static void drain_clients(sky__host *h) {
    waits w;
    const sky_time until = sky_now() + SKY_SECONDS(FLUSH_S);
    sky_local_unlisten(h->options.socket_path, &h->listener);
    while (is_busy(h) && sky_now() < until) {
        wait_fixed(h, &w);
        w.fds[STOP] = w.fds[RELOAD] = -1;
        sky__chores_cancel(h);
        sky_local_poll(w.fds, w.writes, w.ready, FIXED,
                       sooner_of(until, sky_now() + CANCEL_AGAIN_NS));
        serve_caches(h, &w);
    }
}

/* `text` may use what `closing` ends. */
static void end_texts(sky__host *h) {
    for (size_t i = 0; i < h->tenant_count; i++)
        sky__chores_end(&h->tenants[i]->queues[SKY__QUEUE_NUMBERS]);
}

static sky_status flush_stores(sky__host *h, sky_error *error) {
    const sky_time until = sky_now() + SKY_SECONDS(FLUSH_S);
    sky_status status = SKY_OK;
    for (size_t i = 0; i < h->tenant_count; i++)
        if (sky_flush(h->tenants[i]->cache, until, NULL) != SKY_OK)
            status = sky_fail(error, SKY_E_DEADLINE, "not everything queued was written in %d s",
                              FLUSH_S);
    return status;
}

/* ---- start, end ---- */

static sky_status host_start(sky__host *h, sky_error *error) {
    const sky_host_options *o = &h->options;
    const sky_host_user own = {sky_local_user(), o->urls, o->url_count, NULL};
    h->clients = calloc(SKY_HOST_CLIENTS_MAX, sizeof *h->clients);
    if (!h->clients)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        h->clients[i].fd = h->clients[i].ended_fd = -1;
    sky_descriptors_raise();
    sky_status status = o->listen_fd > 0 ? sky_local_adopt(o->listen_fd, &h->listener, error)
                                         : sky_local_listen(o->socket_path, &h->listener, error);
    if (status == SKY_OK)
        status = sky__tenant_open(h, &own, error);
    return status == SKY_OK ? sky__tenants_open(h, error) : status;
}

static void host_end(sky__host *h) {
    for (size_t i = 0; h->clients && i < SKY_HOST_CLIENTS_MAX; i++)
        sky__client_close(h, &h->clients[i], NULL);
    while (h->tenant_count > 0)
        sky__tenant_close(h, h->tenant_count - 1);
    sky__chores_deinit(h);
    sky_local_unlisten(h->options.socket_path, &h->listener);
    free(h->clients);
}

/* What a caller's header has of the options; the rest is as if it were zeroed. */
static bool read_options(const sky_host_options *options, sky_host_options *out) {
    *out = (sky_host_options){0};
    if (!options || (options->struct_bytes != sizeof *options &&
                     options->struct_bytes != offsetof(sky_host_options, keep) &&
                     options->struct_bytes != offsetof(sky_host_options, opened) &&
                     options->struct_bytes != offsetof(sky_host_options, listen_fd)))
        return false;
    memcpy(out, options, options->struct_bytes);
    return (out->socket_path || out->listen_fd > 0) && out->urls;
}

sky_status sky_host_run(const sky_host_options *options, sky_error *error) {
    sky__host h = {.listener = {.fd = -1}, .sweep_at = SKY_TIME_NEVER};
    if (!read_options(options, &h.options))
        return sky_fail(error, SKY_E_PARAM,
                        "a host needs a socket, stores, and options whose struct_bytes is set");
    h.settings = h.options.settings;
    sky_status status = host_start(&h, error), chores = sky__chores_init(&h);
    if (status == SKY_OK && chores != SKY_OK)
        status = sky_fail(error, chores, "no event: %s", sky_status_text(chores));
    if (status == SKY_OK)
        sky__tenants_take_over(&h);
    bool holds = status == SKY_OK; /* and what fails from here on does not lose it */
    if (status == SKY_OK && h.options.opened)
        status = h.options.opened(h.options.context, h.tenants[0]->cache, error);
    if (status == SKY_OK) {
        if (h.options.ready)
            h.options.ready(h.options.context);
        while (host_turn(&h))
            ;
        drain_clients(&h);
        end_texts(&h);
        if (h.options.closing)
            h.options.closing(h.options.context);
        status = flush_stores(&h, error);
    }
    if (holds)
        sky__tenants_hand_over(&h);
    host_end(&h);
    return status;
}
