/* Providers, listening, connecting, accepting, closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fabric/state.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/fork.h"
#include "io/local.h"
#include "io/tcp.h"

#define LINGER_NS        SKY_SECONDS(1) /* for what was sent before an end is closed */
#define PROVIDERS_BYTES  200
#define FDINFO_BYTES_MAX 65536

/* ---- providers ---- */

/* What we need, of a provider or of any (NULL). */
static struct fi_info *make_hints(const sky__fabric_library *l, const char *provider) {
    struct fi_info *h = l->dupinfo(NULL);
    if (!h)
        return NULL;
    h->caps = FI_MSG;
    h->addr_format = FI_SOCKADDR;
    h->ep_attr->type = FI_EP_MSG;
    h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    h->tx_attr->size = SKY__FABRIC_SENDING + SKY_FABRIC_SPARE;
    h->tx_attr->inject_size = SKY_FABRIC_HEAD_BYTES;
    h->rx_attr->size = SKY__FABRIC_RECEIVING;
    h->fabric_attr->prov_name = provider ? strdup(provider) : NULL; /* freed with it */
    if (!provider || h->fabric_attr->prov_name)
        return h;
    l->freeinfo(h);
    return NULL;
}

/* Ways to an address, or of this machine (NULL). A code of libfabric. */
static int find_info(const sky__fabric_library *l, const char *provider, const sky_address *address,
                     uint64_t flags, struct fi_info **out) {
    char text[SKY_ADDRESS_TEXT_BYTES], *node = text, *port = NULL;
    struct fi_info *hints = make_hints(l, provider);
    if (!hints)
        return -FI_ENOMEM;
    if (address) {
        sky_address_text(address, text);
        port = strrchr(text, ':');
        *port++ = '\0';
        if (*node == '[') {
            node++;
            port[-2] = '\0'; /* the bracket behind it */
        }
    }
    int code = l->getinfo(SKY__FABRIC_VERSION, address ? node : NULL, port,
                          address ? flags | FI_NUMERICHOST : 0, hints, out);
    l->freeinfo(hints);
    return code;
}

/* "tcp, verbs". */
static void list_providers(const struct fi_info *info, char out[PROVIDERS_BYTES]) {
    size_t used = 0;
    out[0] = '\0';
    for (const char *last = ""; info; last = info->fabric_attr->prov_name, info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        size_t bytes = strlen(name);
        if (strcmp(name, last) == 0 || used + bytes + 3 > PROVIDERS_BYTES)
            continue;
        used += (size_t)snprintf(out + used, PROVIDERS_BYTES - used, "%s%s", used ? ", " : "",
                                 name);
    }
}

static bool has_provider(const struct fi_info *info, const char *provider) {
    for (; info; info = info->next)
        if (strcmp(info->fabric_attr->prov_name, provider) == 0)
            return true;
    return false;
}

sky_status sky_fabric_check(const char *provider, sky_error *error) {
    const sky__fabric_library *l;
    struct fi_info *info = NULL;
    char names[PROVIDERS_BYTES];
    sky_status status = sky__fabric_load(&l, error);
    if (status != SKY_OK)
        return status;
    (void)find_info(l, NULL, NULL, 0, &info);
    list_providers(info, names);
    if (!provider || !provider[0])
        status = sky_fail(error, SKY_E_SYNTAX,
                          "transport fabric needs the name of a provider; libfabric has here: %s",
                          names[0] ? names : "none");
    else if (!has_provider(info, provider))
        status = sky_fail(error, SKY_E_UNSUPPORTED,
                          "libfabric has no provider %.50s with message endpoints (FI_EP_MSG) "
                          "here, but: %s",
                          provider, names[0] ? names : "none");
    if (info)
        l->freeinfo(info);
    return status;
}

/* ---- making ---- */

static int open_net(sky_fabric_end *e) {
    sky__fabric_net *net = calloc(1, sizeof *net);
    if (!net)
        return -FI_ENOMEM;
    int code = e->library->fabric(e->info->fabric_attr, &net->fabric, NULL);
    if (code != 0) {
        free(net);
        return code;
    }
    net->users = 1;
    e->net = net;
    return 0;
}

static void leave_net(sky__fabric_net *net) {
    if (!net || atomic_fetch_sub(&net->users, 1) > 1)
        return;
    fi_close(&net->fabric->fid);
    free(net);
}

static int watch_object(const sky_fabric_end *e, struct fid *object) {
    int fd, code = fi_control(object, FI_GETWAIT, &fd);
    if (code == 0)
        sky_local_watch(e->watch, fd, true, false);
    return code;
}

/* libfabric tells of no socket. It leaves its own open in children and in the programs that these
 * start, and asks for no word of a machine that is gone. A provider that uses sockets waits for
 * them by epoll, of which the kernel tells. */
void sky__fabric_prepare_sockets(sky_fabric_end *e, struct fid *object) {
    char path[64], *text, *rest;
    size_t bytes;
    int waits;
    if (fi_control(object, FI_GETWAIT, &waits) != 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", waits);
    if (sky_file_read_all(path, FDINFO_BYTES_MAX, &text, &bytes, NULL) != SKY_OK)
        return;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        int fd;
        if (sscanf(line, "tfd: %d", &fd) != 1 || e->dropped_count == SKY__FABRIC_DROPPED_MAX)
            continue;
        sky_tcp_prepare(fd);
        sky_fork_drop(fd);
        e->dropped[e->dropped_count++] = fd;
    }
    free(text);
}

/* The events of an end whose info and net are known. */
static int open_events(sky_fabric_end *e) {
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
    if (sky_local_watch_create(&e->watch) != SKY_OK)
        return -FI_EMFILE;
    int code = fi_eq_open(e->net->fabric, &attr, &e->eq, NULL);
    return code == 0 ? watch_object(e, &e->eq->fid) : code;
}

static int make_buffers(sky_fabric_end *e) {
    size_t bytes = (size_t)(SKY__FABRIC_RECEIVING + SKY__FABRIC_SENDING) * SKY_FABRIC_BUFFER_BYTES;
    void *memory;
    if (posix_memalign(&memory, 4096, bytes) != 0)
        return -FI_ENOMEM;
    uint8_t *at = e->memory = memory;
    for (uint32_t i = 0; i < SKY__FABRIC_RECEIVING; i++, at += SKY_FABRIC_BUFFER_BYTES)
        e->receiving[i] = (sky__fabric_buffer){.data = at};
    for (uint32_t i = 0; i < SKY__FABRIC_SENDING; i++, at += SKY_FABRIC_BUFFER_BYTES) {
        e->sending[i] = (sky__fabric_buffer){.data = at, .sends = true};
        sky__fabric_push(&e->idle, &e->sending[i]);
    }
    if (!(e->info->domain_attr->mr_mode & FI_MR_LOCAL))
        return 0;
    return fi_mr_reg(e->domain, memory, bytes, FI_SEND | FI_RECV, 0, 0, 0, &e->mr, NULL);
}

static int open_endpoint(sky_fabric_end *e) {
    struct fi_cq_attr attr = {.size = SKY__FABRIC_RECEIVING + SKY__FABRIC_SENDING,
                              .format = FI_CQ_FORMAT_MSG,
                              .wait_obj = FI_WAIT_FD};
    int code = fi_domain(e->net->fabric, e->info, &e->domain, NULL);
    if (code == 0)
        code = fi_cq_open(e->domain, &attr, &e->cq, NULL);
    if (code == 0)
        code = watch_object(e, &e->cq->fid);
    if (code == 0)
        code = make_buffers(e);
    if (code == 0)
        code = fi_endpoint(e->domain, e->info, &e->ep, NULL);
    if (code == 0)
        code = fi_ep_bind(e->ep, &e->eq->fid, 0);
    if (code == 0)
        code = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
    return code == 0 ? fi_enable(e->ep) : code;
}

/* Buffers must be there before anybody can send. */
static int open_connection(sky_fabric_end *e) {
    sky_fabric_flow_init(&e->flow);
    int code = open_events(e);
    if (code == 0)
        code = open_endpoint(e);
    for (uint32_t i = 0; i < SKY__FABRIC_RECEIVING && code == 0; i++)
        code = sky__fabric_post(e, &e->receiving[i]) ? 0 : -FI_EIO;
    return code;
}

static sky_fabric_end *new_end(const sky__fabric_library *l) {
    sky_fabric_end *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->library = l;
    e->watch = -1;
    return e;
}

/* ---- closing ---- */

static void linger_end(sky_fabric_end *e) {
    sky_time until = sky_now() + LINGER_NS;
    for (;;) {
        sky__fabric_progress(e);
        if (e->gone || e->idle.count == SKY__FABRIC_SENDING || sky_now() >= until)
            return;
        (void)sky__fabric_wait(e, until, -1);
    }
}

void sky_fabric_close(sky_fabric_end *e) {
    if (!e)
        return;
    if (e->ep) {
        if (e->flow.message_bytes > 0)
            linger_end(e);
        (void)fi_shutdown(e->ep, 0);
    }
    for (uint32_t i = 0; i < e->dropped_count; i++)
        sky_fork_keep(e->dropped[i]);
    struct fid *objects[] = {e->ep ? &e->ep->fid : NULL, e->mr ? &e->mr->fid : NULL,
                             e->cq ? &e->cq->fid : NULL, e->pep ? &e->pep->fid : NULL,
                             e->eq ? &e->eq->fid : NULL, e->domain ? &e->domain->fid : NULL};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        if (objects[i])
            (void)fi_close(objects[i]);
    leave_net(e->net);
    sky_local_close(e->watch);
    if (e->info)
        e->library->freeinfo(e->info);
    free(e->memory);
    free(e);
}

/* ---- listening ---- */

static int open_listener(sky_fabric_end *e, const char *provider, const sky_address *at) {
    int code = find_info(e->library, provider, at, FI_SOURCE, &e->info);
    if (code == 0)
        code = open_net(e);
    if (code == 0)
        code = open_events(e);
    if (code == 0)
        code = fi_passive_ep(e->net->fabric, e->info, &e->pep, NULL);
    if (code == 0)
        code = fi_pep_bind(e->pep, &e->eq->fid, 0);
    if (code == 0)
        code = fi_listen(e->pep);
    if (code == 0)
        sky__fabric_prepare_sockets(e, &e->eq->fid);
    return code;
}

sky_status sky_fabric_listen(const char *provider, const sky_address *at, sky_fabric_end **out,
                             sky_address *bound, sky_error *error) {
    const sky__fabric_library *l;
    char text[SKY_ADDRESS_TEXT_BYTES];
    sky_status status = sky__fabric_load(&l, error);
    if (status != SKY_OK)
        return status;
    sky_fabric_end *e = new_end(l);
    if (!e)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    int code = open_listener(e, provider, at);
    size_t bytes = sizeof bound->raw;
    if (code == 0)
        code = fi_getname(&e->pep->fid, bound->raw, &bytes);
    if (code == 0) {
        bound->bytes = (uint32_t)bytes;
        *out = e;
        return SKY_OK;
    }
    sky_fabric_close(e);
    sky_address_text(at, text);
    if (code == -FI_EADDRINUSE)
        return sky_fail(error, SKY_E_BUSY, "%s: in use; is another skymemd running?", text);
    return sky_fail(error, code == -FI_EACCES ? SKY_E_DENIED : SKY_E_IO,
                    "%s: libfabric, provider %s: %s", text, provider, l->strerror(-code));
}

/* ---- connections ---- */

/* An end for a request that came, or a code of libfabric. *e has its info. */
static int accept_request(sky_fabric_end *e, sky_fabric_end *listener, const uint8_t *greeting,
                          size_t greeting_bytes) {
    uint8_t ours[SKY_FABRIC_GREETING_BYTES];
    e->accepted = true;
    e->net = listener->net;
    atomic_fetch_add(&e->net->users, 1);
    int code = open_connection(e);
    if (code != 0)
        return code;
    if (sky_fabric_flow_meet(&e->flow, greeting, greeting_bytes) != SKY_OK)
        return -FI_EOPNOTSUPP;
    sky_fabric_flow_greet(ours);
    return fi_accept(e->ep, ours, sizeof ours);
}

sky_fabric_end *sky_fabric_accept(sky_fabric_end *listener, sky_address *peer, bool *exhausted) {
    union {
        struct fi_eq_cm_entry entry;
        uint8_t raw[sizeof(struct fi_eq_cm_entry) + SKY_FABRIC_GREETING_BYTES];
    } found;
    struct fi_eq_err_entry error = {0};
    uint32_t event;
    *exhausted = false;
    ssize_t got = fi_eq_read(listener->eq, &event, &found, sizeof found, 0);
    if (got == -FI_EAVAIL)
        (void)fi_eq_readerr(listener->eq, &error, 0);
    if (got < 0 || event != FI_CONNREQ)
        return NULL;
    sky_fabric_end *e = new_end(listener->library);
    struct fi_info *info = found.entry.info;
    int code = -FI_ENOMEM;
    if (e) {
        e->info = info;
        code = accept_request(e, listener, found.entry.data, (size_t)got - sizeof found.entry);
    }
    if (code == 0) {
        *peer = (sky_address){0};
        peer->bytes = (uint32_t)(info->dest_addrlen < sizeof peer->raw ? info->dest_addrlen
                                                                       : sizeof peer->raw);
        memcpy(peer->raw, info->dest_addr, peer->bytes);
        return e;
    }
    (void)fi_reject(listener->pep, info->handle, NULL, 0);
    *exhausted = code == -FI_ENOMEM || code == -FI_EMFILE;
    if (e)
        sky_fabric_close(e);
    else
        listener->library->freeinfo(info);
    return NULL;
}

static sky_status connect_status(const sky_fabric_end *e, int code) {
    if (code == 0 && e->why == 0 && e->connected)
        return SKY_OK; /* it may have said something, and gone again */
    if (code == 0 && !e->gone)
        return SKY_E_DEADLINE;
    code = code != 0 ? -code : e->why;
    return code == FI_ECONNREFUSED ? SKY_MISS
           : code == FI_ETIMEDOUT  ? SKY_E_DEADLINE
           : code == FI_ECANCELED  ? SKY_E_CANCELLED
                                   : SKY_E_IO;
}

sky_status sky_fabric_connect(const char *provider, const sky_address *to, sky_time until, int stop,
                              sky_fabric_end **out) {
    const sky__fabric_library *l;
    uint8_t greeting[SKY_FABRIC_GREETING_BYTES];
    sky_status status = sky__fabric_load(&l, NULL);
    sky_fabric_end *e = status == SKY_OK ? new_end(l) : NULL;
    if (!e)
        return status == SKY_OK ? SKY_E_NOMEM : status;
    int code = find_info(l, provider, to, 0, &e->info);
    if (code == 0)
        code = open_net(e);
    if (code == 0)
        code = open_connection(e);
    sky_fabric_flow_greet(greeting);
    if (code == 0)
        code = fi_connect(e->ep, e->info->dest_addr, greeting, sizeof greeting);
    while (code == 0) {
        sky__fabric_progress(e);
        if (e->connected || e->gone || sky_now() >= until)
            break;
        if (!sky__fabric_wait(e, until, stop))
            code = -FI_ECANCELED;
    }
    status = connect_status(e, code);
    if (status == SKY_OK)
        *out = e;
    else
        sky_fabric_close(e);
    return status;
}
