#include "peer/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/metrics.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/opener.h"
#include "io/clock.h"
#include "io/fork.h"
#include "io/local.h"
#include "io/secret.h"
#include "io/tcp.h"

#define EXHAUSTED_NS SKY_MS(100) /* without descriptors: no connections are taken so long */

/* ---- what it is like ---- */

/* In a child of fork() there are no threads, and what wakes them is the parent's too. */
static bool is_here(const sky_peer_server *s) {
    return s && s->forks == sky_forks();
}

void sky_peer_stats(sky_peer_server *s, sky_peer_stat *out) {
    if (!out)
        return;
    *out = (sky_peer_stat){0};
    if (!is_here(s))
        return;
    sky_mutex_lock(&s->mutex);
    *out = s->stat;
    sky_mutex_unlock(&s->mutex);
    out->sent_bytes = atomic_load(&s->sent_bytes);
    out->received_bytes = atomic_load(&s->received_bytes);
}

const char *sky_peer_address(const sky_peer_server *s) {
    return s ? s->address : "";
}

/* ---- connections ---- */

static void clear_place(sky__peer_connection *c) {
    sky_thread_join(&c->thread);
    sky_event_close(c->stop);
    c->taken = false;
}

/* A place whose connection is over is free again. */
static bool free_place(sky__peer_connection *c) {
    if (c->taken && c->over)
        clear_place(c);
    return !c->taken;
}

static bool may_be_displaced(const sky__peer_connection *c, bool stranger) {
    return c->taken && !c->over && !c->displaced && c->greeted != stranger;
}

/* Of those that have not shown a key the first that came makes room. Its thread ends soon. */
static void displace_stranger(sky_peer_server *s) {
    sky__peer_connection *oldest = NULL;
    for (size_t i = 0; i < SKY_PEER_CONNECTIONS_MAX; i++) {
        sky__peer_connection *c = &s->places[i];
        if (may_be_displaced(c, true) && (!oldest || c->number < oldest->number))
            oldest = c;
    }
    if (!oldest)
        return;
    oldest->displaced = true;
    s->stranger_count--;
    sky_event_raise(oldest->stop);
}

/* Of those that have nothing to do the one that has had nothing for longest makes room. */
static sky__peer_connection *displace_idle(sky_peer_server *s) {
    sky__peer_connection *found = NULL;
    sky_time earliest = sky_now() - s->idle_ns;
    for (size_t i = 0; i < SKY_PEER_CONNECTIONS_MAX; i++) {
        sky__peer_connection *c = &s->places[i];
        sky_time since = atomic_load(&c->idle_since);
        if (!may_be_displaced(c, false) || since > earliest)
            continue;
        earliest = since;
        found = c;
    }
    if (!found)
        return NULL;
    found->displaced = true;
    sky_event_raise(found->stop);
    sky_mutex_unlock(&s->mutex); /* which its thread takes once more */
    clear_place(found);
    sky_mutex_lock(&s->mutex);
    return found;
}

/* With the mutex held, which the thread of a connection that is over takes no more. */
static sky__peer_connection *find_place(sky_peer_server *s) {
    if (s->stranger_count >= SKY__PEER_STRANGERS_MAX)
        displace_stranger(s);
    for (size_t i = 0; i < SKY_PEER_CONNECTIONS_MAX; i++)
        if (free_place(&s->places[i]))
            return &s->places[i];
    return displace_idle(s);
}

static void refuse_client(sky_peer_socket *socket) {
    uint8_t answer[SKY_PEER_HELLO_BYTES];
    const sky_span span = {answer, sizeof answer};
    size_t sent;
    sky_peer_hello_refuse(SKY_E_BUSY, answer);
    (void)socket->transport->send(socket, &span, 1, &sent);
    socket->transport->close(socket);
}

/* With the mutex held. */
static bool open_place(sky_peer_server *s, sky__peer_connection *c, const sky_peer_socket *socket,
                       const sky_address *from) {
    *c = (sky__peer_connection){.server = s,
                                .taken = true,
                                .socket = *socket,
                                .number = ++s->numbers,
                                .stop = -1,
                                .idle_since = SKY_TIME_NEVER,
                                .event = -1,
                                .watch = -1};
    sky_address_text(from, c->from);
    sky_status status = sky_event_create(&c->stop);
    if (status == SKY_OK)
        status = sky_thread_start(&c->thread, "skymem-peer", sky__peer_connection_body, c);
    if (status != SKY_OK) {
        sky_event_close(c->stop);
        c->taken = false;
        return false;
    }
    s->stranger_count++;
    return true;
}

static void accept_one(sky_peer_server *s, sky_time *accept_at) {
    sky_address from;
    bool exhausted;
    sky_peer_socket socket;
    bool found = s->by.transport->accept(&s->listener, &socket, &from, &exhausted);
    if (exhausted) {
        sky_log(SKY_LOG_WARNING, "no descriptors are left for more peers");
        *accept_at = sky_now() + EXHAUSTED_NS;
    }
    if (!found)
        return;
    sky_mutex_lock(&s->mutex);
    sky__peer_connection *c = find_place(s);
    bool open = c && open_place(s, c, &socket, &from);
    s->stat.refused += !open;
    sky_mutex_unlock(&s->mutex);
    if (!open)
        refuse_client(&socket);
}

static void *accept_clients(void *argument) {
    sky_peer_server *s = argument;
    sky_time accept_at = 0;
    for (;;) {
        bool listens = sky_now() >= accept_at;
        sky_status woken = SKY_OK;
        if (listens)
            woken = sky_peer_socket_wait(&s->listener, true, false, s->stop, SKY_TIME_NEVER);
        else if (sky_poll(&s->stop, 1, accept_at))
            woken = SKY_E_CANCELLED;
        if (woken == SKY_E_CANCELLED)
            return NULL;
        if (listens)
            accept_one(s, &accept_at);
    }
}

/* ---- start, stop ---- */

static sky_status read_keys(const sky_peer_options *o, sky_peer_server *s, sky_error *error) {
    if (o->key_count == 0)
        return SKY_OK;
    s->keys = sky_secret_alloc(o->key_count * sizeof *s->keys);
    if (!s->keys)
        return sky_fail(error, SKY_E_NOMEM, "no memory for keys");
    sky_status status = SKY_OK;
    while (s->key_count < o->key_count && status == SKY_OK) {
        status = sky_secret_read(o->key_paths[s->key_count], s->keys[s->key_count], error);
        s->key_count++;
    }
    return status;
}

static sky_status start_listening(const sky_peer_options *o, sky_peer_server *s, sky_error *error) {
    char text[300];
    sky_addresses at;
    sky_address bound;
    bool port_alone = o->address[0] && !o->address[strspn(o->address, "0123456789")];
    snprintf(text, sizeof text, "%s%s", port_alone ? "127.0.0.1:" : "", o->address);
    sky_status status = sky_tcp_resolve(text, &at, error);
    if (status == SKY_OK)
        status = s->by.transport->listen(s->by.provider, at.at, &s->listener, &bound, error);
    if (status != SKY_OK)
        return status;
    sky_address_text(&bound, s->address);
    if (s->plain && !sky_address_is_loopback(&bound))
        sky_log(SKY_LOG_WARNING,
                "%s: plain connections from other machines: whoever reaches it reads and writes",
                s->address);
    return SKY_OK;
}

static sky_status check_options(sky_cache *cache, const sky_peer_options *o, sky_error *error) {
    sky_tier_stat nearest;
    if (!cache || !o || o->struct_bytes != sizeof *o || !o->address ||
        (o->key_count && !o->key_paths))
        return sky_fail(
            error, SKY_E_PARAM,
            "a server needs a cache, an address, and options whose struct_bytes is set");
    if (o->key_count > SKY_PEER_KEYS_MAX)
        return sky_fail(error, SKY_E_PARAM, "at most %d keys", SKY_PEER_KEYS_MAX);
    for (size_t i = 0; i < o->key_count; i++)
        if (!o->key_paths[i])
            return sky_fail(error, SKY_E_PARAM, "key %zu of %zu is NULL", i + 1, o->key_count);
    if (o->key_count == 0 && !o->plain)
        return sky_fail(error, SKY_E_PARAM, "peers need a key, or plain by name");
    sky_status status = sky_cache_stat(cache, 0, &nearest);
    if (status == SKY_OK && !(nearest.traits & SKY_TIER_LEASES))
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: what peers are served from is mem:", nearest.url);
    return status;
}

static void choose_tiers(sky_peer_server *s) {
    for (size_t i = 0; i < sky_tier_count(s->cache); i++) {
        sky_tier_stat tier = {0};
        (void)sky_cache_stat(s->cache, i, &tier);
        bool other = strncmp(tier.url, "skymem:", 7) == 0;
        s->has_peers |= other;
        s->tiers |= other ? 0 : 1u << i;
    }
}

static sky_status start_server(sky_cache *cache, const sky_peer_options *o, sky_peer_server *s,
                               sky_error *error) {
    sky_status status = sky_peer_carrier_parse(o->transport, &s->by, error);
    if (status != SKY_OK)
        return status;
    uint64_t most = sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_MAX);
    s->payload_bytes_max = most > 0 && most < SKY_PAYLOAD_BYTES_MAX ? most : SKY_PAYLOAD_BYTES_MAX;
    s->plain = o->plain;
    choose_tiers(s);
    status = sky__opened_tier(cache, 0, &s->nearest);
    if (status != SKY_OK)
        return sky_fail(error, status, "the cache has no nearest tier");
    status = read_keys(o, s, error);
    if (status == SKY_OK)
        status = start_listening(o, s, error);
    if (status != SKY_OK)
        return status;
    status = sky_event_create(&s->stop);
    if (status == SKY_OK)
        status = sky_thread_start(&s->thread, "skymem-peers", accept_clients, s);
    return status == SKY_OK ? status : sky_fail(error, status, "no thread for peers");
}

sky_status sky_peer_serve(sky_cache *cache, const sky_peer_options *options, sky_peer_server **out,
                          sky_error *error) {
    sky_status status = check_options(cache, options, error);
    if (status != SKY_OK || !out)
        return status != SKY_OK ? status : SKY_E_PARAM;
    sky_peer_server *s = calloc(1, sizeof *s);
    if (!s)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    status = sky_forks_watch(&s->forks);
    if (status != SKY_OK) {
        free(s);
        return sky_fail(error, status, "no memory");
    }
    s->cache = cache;
    s->listener = SKY_PEER_SOCKET_NONE;
    s->stop = -1;
    s->hello_ns = SKY__PEER_HELLO_NS;
    s->stuck_ns = SKY__PEER_STUCK_NS;
    s->idle_ns = SKY__PEER_IDLE_NS;
    sky_mutex_init(&s->mutex);
    status = start_server(cache, options, s, error);
    if (status != SKY_OK) {
        sky_peer_stop(s);
        return status;
    }
    *out = s;
    return SKY_OK;
}

void sky_peer_stop(sky_peer_server *s) {
    if (!is_here(s))
        return;
    if (s->stop >= 0)
        sky_event_raise(s->stop);
    sky_thread_join(&s->thread);
    for (size_t i = 0; i < SKY_PEER_CONNECTIONS_MAX; i++)
        if (s->places[i].taken)
            sky_event_raise(s->places[i].stop);
    for (size_t i = 0; i < SKY_PEER_CONNECTIONS_MAX; i++)
        if (s->places[i].taken)
            clear_place(&s->places[i]);
    if (s->listener.transport)
        s->listener.transport->close(&s->listener);
    sky_event_close(s->stop);
    for (size_t i = 0; i < SKY__PEER_KEPT_MAX; i++)
        free(s->kept[i].data);
    sky_secret_free(s->keys);
    sky_mutex_deinit(&s->mutex);
    free(s);
}
