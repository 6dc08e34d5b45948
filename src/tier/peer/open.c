/* Opening: what a URL says, and its file of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/local.h"
#include "io/secret.h"
#include "io/tcp.h"
#include "tier/peer/peer_state.h"
#include "tier/url.h"

#define LANES_DEFAULT 2

sky__peer_patience sky__peer_patience_of_new = {.connect_ns = SKY__PEER_CONNECT_NS,
                                                .others_ns = SKY__PEER_OTHERS_NS,
                                                .silent_ns = SKY__PEER_SILENT_NS};

const char *sky__peer_advice(sky_status status, bool plain) {
    switch (status) {
    case SKY_MISS:
        return "nobody listens there; start skymemd --listen ADDRESS:PORT --peer-key FILE";
    case SKY_E_DEADLINE:
        return "no answer; is it a skymemd, and is it reachable?";
    case SKY_E_DENIED:
        return plain ? "it takes no plain connections; name its key with key=FILE"
                     : "it has another key, or none and takes plain connections alone";
    case SKY_E_BUSY:
        return "it has as many connections as it takes";
    case SKY_E_UNSUPPORTED:
        return "it is of another version";
    case SKY_E_CORRUPT:
        return "it is no skymemd";
    default:
        return sky_status_text(status);
    }
}

/* ---- the URL ---- */

static sky_status parse_cipher(const sky_url *url, const char *key, sky__peer_host *h,
                               sky_error *error) {
    const char *cipher = sky_url_value(url, "cipher");
    h->suite = sky_suite_best();
    if (cipher && strcmp(cipher, "aes") == 0)
        h->suite = SKY_SUITE_AES;
    else if (cipher && strcmp(cipher, "chacha") == 0)
        h->suite = SKY_SUITE_CHACHA;
    else if (cipher)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: cipher=aes or chacha", h->peer->url);
    h->key = sky_secret_alloc(SKY_SECRET_FILE_BYTES);
    return h->key ? sky_secret_read(key, h->key, error)
                  : sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", h->peer->url);
}

/* How a host is spoken to: as its line says (NULL: there is no file), else as the URL. */
static sky_status parse_protection(const sky_url *url, const sky_peers_entry *e, sky__peer_host *h,
                                   sky_error *error) {
    const char *text = h->peer->url, *plain = sky_url_value(url, "plain");
    const char *key = sky_url_value(url, "key"), *cipher = sky_url_value(url, "cipher");
    if (plain && strcmp(plain, "yes") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: plain=yes, or a key", text);
    if ((key && plain) || (plain && cipher))
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: a key, or plain=yes", text);
    if (e && (e->plain || e->key[0])) {
        plain = e->plain ? "yes" : NULL;
        key = e->plain ? NULL : e->key;
    }
    if (!key && !plain && e)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s:%u: %s needs key=FILE, or plain for neither encryption nor "
                        "authentication",
                        sky_url_value(url, "peers"), e->line, e->name);
    if (!key && !plain)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: needs key=FILE, or plain=yes for neither encryption nor "
                        "authentication",
                        text);
    return plain ? SKY_OK : parse_cipher(url, key, h, error);
}

static sky_status make_hosts(sky__peer *p, uint32_t count) {
    p->hosts = calloc(count, sizeof *p->hosts);
    p->lanes = calloc((size_t)count * p->lane_count, sizeof *p->lanes);
    if (!p->hosts || !p->lanes)
        return SKY_E_NOMEM;
    p->host_count = count;
    for (uint32_t i = 0; i < count; i++) {
        p->hosts[i].peer = p;
        p->hosts[i].index = i;
        p->hosts[i].lanes = p->lanes + (size_t)i * p->lane_count;
    }
    for (uint32_t n = 0; n < count * p->lane_count; n++) {
        p->lanes[n].peer = p;
        p->lanes[n].host = &p->hosts[n / p->lane_count];
        p->lanes[n].event = p->lanes[n].watch = -1;
    }
    return SKY_OK;
}

static sky_status open_alone(sky__peer *p, const sky_url *url, sky_error *error) {
    sky_status status = make_hosts(p, 1);
    if (status != SKY_OK)
        return sky_fail(error, status, "%.200s: no memory", p->url);
    p->hosts->name = p->url;
    status = parse_protection(url, NULL, p->hosts, error);
    return status == SKY_OK ? sky_tcp_resolve(url->path + 2, &p->hosts->addresses, error) : status;
}

static sky_status read_file(sky__peer *p, const char *path, sky_error *error) {
    char *data;
    size_t bytes;
    p->file = malloc(sizeof *p->file);
    p->hints = calloc(SKY__PEER_HINTS, sizeof *p->hints);
    if (!p->file || !p->hints)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: no memory", p->url);
    sky_status status = sky_file_read_all(path, SKY_PEERS_FILE_BYTES_MAX, &data, &bytes, error);
    if (status != SKY_OK)
        return status;
    status = sky_peers_parse(data, bytes, path, p->file, error);
    free(data);
    return status;
}

/* A host of two names would be asked twice, and be two places for what is put. */
static sky_status check_alone(const sky__peer *p, uint32_t host, const char *path,
                              sky_error *error) {
    const sky__peer_host *h = &p->hosts[host];
    for (uint32_t i = 0; i < host; i++)
        if (sky_addresses_meet(&h->addresses, &p->hosts[i].addresses))
            return sky_fail(error, SKY_E_SYNTAX, "%.200s:%u: %s is %s of an earlier line", path,
                            p->file->entries[host].line, h->name, p->hosts[i].name);
    return SKY_OK;
}

static sky_status open_file(sky__peer *p, const sky_url *url, const char *path, sky_error *error) {
    sky_status status = read_file(p, path, error);
    if (status != SKY_OK)
        return status;
    status = make_hosts(p, p->file->count);
    if (status != SKY_OK)
        return sky_fail(error, status, "%.200s: no memory", p->url);
    for (uint32_t i = 0; i < p->host_count && status == SKY_OK; i++) {
        const sky_peers_entry *e = &p->file->entries[i];
        sky__peer_host *h = &p->hosts[i];
        h->name = e->name;
        h->id = sky_peer_id(e->name);
        h->read_only = e->read_only;
        status = parse_protection(url, e, h, error);
        if (status == SKY_OK)
            status = sky_tcp_resolve(e->name, &h->addresses, error);
        if (status == SKY_OK)
            status = check_alone(p, i, sky_url_value(url, "peers"), error);
    }
    return status;
}

static sky_status parse_common(sky__peer *p, const sky_url *url, sky_error *error) {
    uint64_t lanes = LANES_DEFAULT;
    sky_status status = sky_url_u64(url, "connections", &lanes, error);
    if (status != SKY_OK)
        return status;
    if (lanes < 1 || lanes > SKY__PEER_LANES_MAX)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: connections is 1 to %u", p->url,
                        SKY__PEER_LANES_MAX);
    p->lane_count = (uint32_t)lanes;
    const char *away = sky_url_value(url, "away");
    p->may_be_away = away && strcmp(away, "yes") == 0;
    p->unasked = away && strcmp(away, "later") == 0;
    if (away && !p->may_be_away && !p->unasked && strcmp(away, "no") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: away is yes, no or later", p->url);
    sky_error why = {0};
    status = sky_peer_carrier_find(sky_url_value(url, "transport"), sky_url_value(url, "provider"),
                                   &p->by, &why);
    return status == SKY_OK ? status : sky_fail(error, status, "%.200s: %s", p->url, why.text);
}

static sky_status parse_peer(const char *text, sky__peer *p, sky_error *error) {
    sky_url url;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "key plain cipher connections away transport provider peers",
                                error);
    if (status == SKY_OK)
        status = parse_common(p, &url, error);
    if (status != SKY_OK)
        return status;
    const char *peers = sky_url_value(&url, "peers");
    if (strncmp(url.path, "//", 2) != 0 || !url.path[2] != (peers != NULL))
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: another host's store is skymem://HOST:PORT?key=FILE, several "
                        "hosts' skymem://?peers=FILE",
                        text);
    return peers ? open_file(p, &url, peers, error) : open_alone(p, &url, error);
}

/* ---- connecting ---- */

static bool is_away(sky_status status) {
    return status == SKY_MISS || status == SKY_E_DEADLINE || status == SKY_E_IO ||
           status == SKY_E_BUSY;
}

/* Connect once. One that may be away is sought again by the first operation. */
static sky_status find_host(sky__peer *p, sky_error *error) {
    sky_status status = sky__peer_lane_connect(p->lanes, sky_now() + p->patience.connect_ns);
    if (status == SKY_OK || (is_away(status) && p->may_be_away))
        return SKY_OK;
    return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%.200s: %s", p->url,
                    sky__peer_advice(status, !p->hosts->key));
}

/* With the mutex held: wait for all of them, but for the others not long once one has answered.
 * Those that have not by then are down until they have. */
static void await_hosts(sky__peer *p) {
    sky_time until = SKY_TIME_NEVER;
    for (uint32_t waiting = p->host_count; waiting > 0;) {
        bool answered = false;
        waiting = 0;
        for (uint32_t i = 0; i < p->host_count; i++) {
            waiting += p->hosts[i].probing;
            answered |= !p->hosts[i].probing && p->hosts[i].last == SKY_OK;
        }
        if (answered && until == SKY_TIME_NEVER)
            until = sky_now() + p->patience.others_ns;
        if (waiting > 0 && !sky_condition_wait(&p->changed, &p->mutex, until))
            break;
    }
    for (uint32_t i = 0; i < p->host_count; i++)
        if (p->hosts[i].probing) {
            p->hosts[i].down = true;
            p->hosts[i].last = SKY_E_DEADLINE;
        }
}

/* All at once, each on the thread of its first lane. One that is away is down, and sought again. */
static sky_status find_hosts(sky__peer *p, sky_error *error) {
    uint32_t up = 0;
    sky_status status = SKY_OK;
    sky_mutex_lock(&p->mutex);
    for (uint32_t i = 0; i < p->host_count; i++) {
        p->hosts[i].probing = true;
        sky_event_raise(p->hosts[i].lanes->event);
    }
    await_hosts(p);
    for (uint32_t i = 0; i < p->host_count && status == SKY_OK; i++) {
        const sky__peer_host *h = &p->hosts[i];
        up += h->last == SKY_OK;
        if (h->last != SKY_OK && !is_away(h->last))
            status = sky_fail(error, h->last, "%.200s: %s: %s", p->url, h->name,
                              sky__peer_advice(h->last, !h->key));
    }
    sky_mutex_unlock(&p->mutex);
    if (status == SKY_OK && up == 0 && !p->may_be_away)
        return sky_fail(error, SKY_E_IO, "%.200s: none of its %u peers answers", p->url,
                        p->host_count);
    return status;
}

static sky_status start_lane(sky__peer_lane *l) {
    sky_status status = sky_event_create(&l->event);
    return status == SKY_OK ? sky_local_watch_create(&l->watch) : status;
}

static sky_status start_lanes(sky__peer *p, sky_error *error) {
    uint32_t lanes = p->host_count * p->lane_count;
    sky_status status = sky_batches_create(p->env.clock, &p->tier.batches);
    if (status == SKY_OK)
        status = sky_event_create(&p->stop);
    for (uint32_t n = 0; n < lanes && status == SKY_OK; n++)
        status = start_lane(&p->lanes[n]);
    if (status != SKY_OK)
        return sky_fail(error, status, "%.200s: no memory, or no descriptors", p->url);
    if (!p->file && !p->unasked)
        status = find_host(p, error);
    for (uint32_t n = 0; n < lanes && status == SKY_OK; n++) {
        status = sky_thread_start(&p->lanes[n].thread, "skymem-peer", sky__peer_lane_body,
                                  &p->lanes[n]);
        if (status != SKY_OK)
            (void)sky_fail(error, status, "%.200s: no thread", p->url);
    }
    return status == SKY_OK && p->file && !p->unasked ? find_hosts(p, error) : status;
}

sky_status sky__peer_open(const char *url, sky__peer *p, sky_error *error) {
    sky_status status = parse_peer(url, p, error);
    return status == SKY_OK ? start_lanes(p, error) : status;
}
