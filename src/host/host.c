#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/skymem.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/opener.h"

#define FLUSH_S      10
#define DRAINED      64
#define EXHAUSTED_NS SKY_MS(100) /* without descriptors: no connections are taken so long */

/* ---- connections ---- */

static void refuse(sky__host *h, int fd, sky_status why) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    const sky_shm_frame refused = {.kind = SKY_SHM_REFUSED, .status = why};
    (void)sky_local_send(fd, data, sky_shm_encode(&refused, data), -1);
    sky_local_close(fd);
    h->stat.refused++;
}

static sky__client *free_place(sky__host *h) {
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        if (h->clients[i].fd < 0)
            return &h->clients[i];
    return NULL;
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
    sky__client *c = free_place(h);
    if (peer.uid != sky_local_user()) {
        sky_log(SKY_LOG_WARNING, "process %d of user %u is refused: this is user %u's", peer.pid,
                peer.uid, sky_local_user());
        refuse(h, fd, SKY_E_DENIED);
    } else if (!c) {
        refuse(h, fd, SKY_E_BUSY);
    } else {
        sky__client_open(h, c, fd, &peer);
    }
}

/* ---- the loop ---- */

static void finish_runs(sky__host *h) {
    sky_batch done[DRAINED];
    size_t count = sky_drain(h->cache, done, DRAINED);
    for (size_t i = 0; i < count; i++)
        for (sky__run **at = &h->runs; *at; at = &(*at)->next) {
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
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++) {
        sky__run *stalled = h->clients[i].stalled;
        h->clients[i].stalled = NULL;
        if (stalled)
            sky__run_start(h, stalled);
    }
}

/* Those who never said who they are. Returns when to look again. */
static sky_time close_silent(sky__host *h) {
    sky_time now = sky_now(), next = SKY_TIME_NEVER;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++) {
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

enum { STOP, LISTEN, CACHE, CHORES, FIXED };

/* One turn; false: it is time to end. */
static bool turn(sky__host *h) {
    int fds[FIXED + SKY_HOST_CLIENTS_MAX];
    bool writes[FIXED + SKY_HOST_CLIENTS_MAX] = {false}, ready[FIXED + SKY_HOST_CLIENTS_MAX];
    sky__client *clients[SKY_HOST_CLIENTS_MAX];
    size_t count = 0;
    sky_time until = close_silent(h), now = sky_now();
    bool listening = now >= h->accept_at;
    if (!listening && h->accept_at < until)
        until = h->accept_at;
    fds[STOP] = h->options->stop_fd > 0 ? h->options->stop_fd : -1;
    fds[LISTEN] = listening ? h->listener.fd : -1;
    fds[CACHE] = sky_event_fd(h->cache);
    fds[CHORES] = h->chores_event;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++) {
        sky__client *c = &h->clients[i];
        if (c->fd < 0 || c->stalled)
            continue;
        fds[FIXED + count] = c->fd;
        writes[FIXED + count] = c->first && now >= c->send_at;
        if (c->first && now < c->send_at && c->send_at < until)
            until = c->send_at;
        clients[count++] = c;
    }
    sky_local_poll(fds, writes, ready, FIXED + count, until);
    if (ready[STOP])
        return false;
    for (size_t i = 0; i < count; i++)
        if (ready[FIXED + i] && clients[i]->fd == fds[FIXED + i])
            sky__client_serve(h, clients[i]);
    if (ready[CACHE])
        finish_runs(h);
    if (ready[CHORES])
        sky__chores_answer(h);
    if (ready[LISTEN])
        accept_one(h);
    start_stalled(h);
    sky__clients_retire(h);
    return true;
}

/* ---- start, end ---- */

/* The nearest tier, in segments. */
static sky_status arena_url(const char *url, char *out, size_t out_bytes, sky_error *error) {
    if (strncmp(url, "mem:", 4) != 0)
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: the first store of a host is its arena, such as mem:1GiB", url);
    bool asks = strchr(url, '?') != NULL;
    int bytes = snprintf(out, out_bytes, "%s%sshared=yes", url, asks ? "&" : "?");
    if (bytes < 0 || (size_t)bytes >= out_bytes)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: too long", url);
    return SKY_OK;
}

static sky_status open_cache(sky__host *h, sky_error *error) {
    const sky_host_options *o = h->options;
    const char *urls[SKY_TIERS_MAX];
    char first[256];
    if (o->url_count == 0 || o->url_count > SKY_TIERS_MAX)
        return sky_fail(error, SKY_E_PARAM, "a host has 1 to %d stores", SKY_TIERS_MAX);
    memcpy(urls, o->urls, o->url_count * sizeof *urls);
    sky_status status = arena_url(urls[0], first, sizeof first, error);
    urls[0] = first;
    if (status == SKY_OK)
        status = sky_cache_open(urls, o->url_count, &h->cache, error);
    if (status == SKY_OK)
        status = sky__opened_tier(h->cache, 0, &h->arena_tier);
    if (status == SKY_OK && !sky_memory_tier_arena(h->arena_tier, &h->arena))
        status = SKY_E_PARAM;
    return status;
}

static sky_status start(sky__host *h, sky_error *error) {
    h->clients = calloc(SKY_HOST_CLIENTS_MAX, sizeof *h->clients);
    if (!h->clients)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        h->clients[i].fd = -1;
    sky_descriptors_raise();
    sky_status status = sky_local_listen(h->options->socket_path, &h->listener, error);
    if (status == SKY_OK)
        status = open_cache(h, error);
    return status;
}

static void end(sky__host *h) {
    for (size_t i = 0; h->clients && i < SKY_HOST_CLIENTS_MAX; i++)
        sky__client_close(h, &h->clients[i], NULL);
    sky__chores_end(h);
    sky_cache_close(h->cache);
    sky_local_unlisten(h->options->socket_path, &h->listener);
    free(h->clients);
}

sky_status sky_host_run(const sky_host_options *options, sky_error *error) {
    if (!options || options->struct_bytes != sizeof *options || !options->socket_path ||
        !options->urls)
        return sky_fail(error, SKY_E_PARAM, "a host needs a socket and stores");
    sky__host h = {.options = options, .listener = {.fd = -1}};
    sky_status status = start(&h, error), chores = sky__chores_start(&h);
    if (status == SKY_OK && chores != SKY_OK)
        status = sky_fail(error, chores, "no thread: %s", sky_status_text(chores));
    if (status == SKY_OK) {
        if (options->ready)
            options->ready(options->context);
        while (turn(&h))
            ;
        if (sky_flush(h.cache, sky_now() + SKY_SECONDS(FLUSH_S), NULL) != SKY_OK)
            status = sky_fail(error, SKY_E_DEADLINE, "not everything queued was written in %d s",
                              FLUSH_S);
    }
    end(&h);
    return status;
}
