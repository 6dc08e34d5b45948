/* Proves: no bytes in place of frames make their decoder read past them, a frame that decodes
 * encodes to the same bytes, and a host that takes them goes on, without a lease or a run of the
 * client when it has left.
 *
 * An input is messages, each behind two bytes with its length. The first is also read as a frame,
 * and the whole as a listing. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <skymem/skymem.h>

#include "host/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void round_trip(const uint8_t *data, size_t bytes) {
    static sky_shm_frame frame;
    uint8_t again[SKY_SHM_FRAME_BYTES_MAX];
    if (sky_shm_decode(data, bytes, &frame) != SKY_OK)
        return;
    assert(sky_shm_encode(&frame, again) == bytes && memcmp(again, data, bytes) == 0);
}

static void listing(const uint8_t *data, size_t bytes) {
    char name[SKY_NAME_BYTES_MAX + 1];
    uint8_t again[SKY_SHM_ENTRY_BYTES_MAX];
    sky_entry entry;
    size_t at = 0, before = 0;
    while (sky_shm_entry_decode(data, bytes, &at, name, &entry) == SKY_OK) {
        size_t used = 0;
        assert(at > before && at <= bytes);
        assert(sky_shm_entry_encode(&entry, again, sizeof again, &used));
        before = at;
    }
}

/* One for all inputs: what they store, others find. */
static sky__host *the_host(void) {
    static sky__host host;
    static sky__client clients[SKY_HOST_CLIENTS_MAX];
    static const char *const url = "mem:256KiB";
    static const sky_host_user user = {.urls = &url, .url_count = 1};
    if (host.tenant_count > 0)
        return &host;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        clients[i].fd = -1;
    host.clients = clients;
    host.complain_at = SKY_TIME_NEVER; /* no line for each input */
    host.complaints = 1000;
    bool open = sky__tenant_open(&host, &user, NULL) == SKY_OK &&
                sky__chores_start(&host) == SKY_OK;
    assert(open);
    (void)open;
    return &host;
}

static void read_away(int fd) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    static sky_shm_frame frame;
    size_t bytes;
    int passed;
    while (sky_local_receive(fd, data, sizeof data, &bytes, &passed) == SKY_OK) {
        assert(sky_shm_decode(data, bytes, &frame) == SKY_OK);
        sky_local_close(passed);
    }
}

static void serve(const uint8_t *data, size_t bytes) {
    sky__host *h = the_host();
    sky__client *c = &h->clients[0];
    static const sky_local_peer peer;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    sky__tenant *t = h->tenants[0];
    sky__client_open(t, c, ++h->numbers, ends[0], &peer);
    const sky_shm_frame hello = {.kind = SKY_SHM_HELLO, .version = SKY_SHM_VERSION};
    uint8_t greeting[SKY_SHM_FRAME_BYTES_MAX];
    if (bytes % 8 != 0) /* most speak after a greeting */
        (void)sky_local_send(ends[1], greeting, sky_shm_encode(&hello, greeting), -1);
    while (bytes > 2 && c->fd >= 0) {
        size_t length = data[0] | (size_t)data[1] << 8;
        length = length < bytes - 2 ? length : bytes - 2;
        (void)sky_local_send(ends[1], data + 2, length, -1);
        data += 2 + length;
        bytes -= 2 + length;
        sky__client_serve(h, c);
        sky__clients_retire(h);
        read_away(ends[1]);
    }
    sky__client_close(h, c, NULL);
    close(ends[1]);
    assert(!t->runs && t->stat.clients == 0 && !c->stage && !c->first);
    assert(sky_cache_metric(t->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes > 2)
        round_trip(data + 2, bytes - 2);
    listing(data, bytes);
    serve(data, bytes);
    return 0;
}
