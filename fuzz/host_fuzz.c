/* Proves: no bytes in place of frames make their decoder read past them, a frame that decodes
 * encodes to the same bytes, and a host that takes them goes on, without a lease or a run of the
 * client when it has left.
 *
 * An input is messages for the ring, each behind two bytes with its length. A length with the bit
 * 15 is of bytes that are written anywhere in the ring's memory, at the place that the first four
 * of them name. The client has registered region 1, of 64 KiB, and published a block there, under a
 * key of zeros. Its greeting names the pool "p", the arena alone, or neither, as the input's length
 * says; of some lengths it says nothing, and the first message is its greeting, over the socket.
 * The first message is also read as a frame, and the whole as a listing. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <skymem/skymem.h>

#include "host/published.h"
#include "io/pages.h"
#include "io/shared.h"

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
    static const sky_host_user pool = {.urls = &url, .url_count = 1, .pool = "p"};
    if (host.tenant_count > 0)
        return &host;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        clients[i].fd = -1;
    host.clients = clients;
    host.places = 1;
    host.complain_at = SKY_TIME_NEVER; /* no line for each input */
    host.complaints = 1000;
    bool open = sky__tenant_open(&host, &user, NULL) == SKY_OK &&
                sky__tenant_open(&host, &pool, NULL) == SKY_OK && sky__chores_init(&host) == SKY_OK;
    assert(open);
    (void)open;
    return &host;
}

#define POKES 0x8000u

static void read_away(sky_ring *r) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    static sky_shm_frame frame;
    size_t bytes;
    int passed;
    while (sky_ring_receive(r, data, sizeof data, &bytes, &passed) == SKY_OK) {
        (void)sky_shm_decode(data, bytes, &frame);
        sky_local_close(passed);
    }
}

/* The client's side of the ring, or none: its connection ended. `kind` 1: of the pool; 2: of the
 * arena alone. */
static bool greet(sky__host *h, sky__client *c, int fd, size_t kind, sky_ring *out) {
    sky_shm_frame hello = {.kind = SKY_SHM_HELLO, .version = SKY_SHM_VERSION, .count = kind == 2};
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes;
    int passed;
    strcpy(hello.pool, kind == 1 ? "p" : "");
    (void)sky_local_send(fd, data, sky_shm_encode(&hello, data), -1);
    sky__client_hear(h, c);
    if (sky_local_receive(fd, data, sizeof data, &bytes, &passed) != SKY_OK)
        return false;
    bool open = sky_ring_open(fd, passed, out) == SKY_OK;
    sky_local_close(passed);
    return open;
}

static void say(sky_ring *r, const uint8_t *data, size_t bytes, bool pokes) {
    uint32_t at;
    if (!pokes && bytes > 0 && bytes <= SKY_RING_MESSAGE_BYTES)
        (void)sky_ring_send(r, data, bytes, -1);
    if (!pokes || bytes <= sizeof at)
        return;
    memcpy(&at, data, sizeof at);
    at %= SKY_RING_MEMORY_BYTES;
    bytes -= sizeof at;
    memcpy(r->memory + at, data + sizeof at,
           bytes < SKY_RING_MEMORY_BYTES - at ? bytes : SKY_RING_MEMORY_BYTES - at);
}

#define REGION_BYTES 65536u

/* Memory that all inputs share. */
static int region(void) {
    static void *at;
    static int fd = -1;
    if (!at) {
        bool made = sky_pages_reserve(REGION_BYTES, &at, NULL) == SKY_OK &&
                    sky_shared_make(at, REGION_BYTES, SKY_SHARED_READ, &fd) == SKY_OK;
        assert(made);
        (void)made;
    }
    return fd;
}

/* Region 1, and a block of two buffers in it. */
static void publish(sky__host *h, sky__client *c, sky_ring *r) {
    static const sky_shm_frame frames[] = {
        {.kind = SKY_SHM_REGISTER, .region_bytes = REGION_BYTES},
        {.kind = SKY_SHM_LAYOUT,
         .count = 2,
         .region = 1,
         .layout = {.shape = {2, 1, 1}, .rows = {{.bytes = 5000}, {.offset = 9, .bytes = 7}}}}};
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    h->region_numbers = 0;
    for (int i = 0; i < 2; i++) {
        (void)sky_ring_send(r, data, sky_shm_encode(&frames[i], data), i == 0 ? region() : -1);
        sky__clients_serve(h, &c, 1);
        read_away(r);
    }
    assert(c->tenant->stat.regions == 1 && c->tenant->stat.blocks == 1);
}

/* Before the ring: over the socket. */
static void say_first(sky__host *h, sky__client *c, int fd, const uint8_t *data, size_t bytes) {
    (void)sky_local_send(fd, data, bytes, -1);
    sky__client_hear(h, c);
}

static void expect_nothing_left(const sky__tenant *t) {
    assert(!t->runs && t->stat.clients == 0);
    assert(t->stat.regions == 0 && t->stat.region_bytes == 0 && t->stat.blocks == 0);
    assert(t->stat.block_bytes == 0);
    assert(sky_cache_metric(t->cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) == 0);
}

static void serve(const uint8_t *data, size_t bytes) {
    sky__host *h = the_host();
    sky__client *c = &h->clients[0];
    static const sky_local_peer peer;
    sky_ring ring = {.socket = -1};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    sky__client_open(h->tenants[0], c, ++h->numbers, ends[0], &peer);
    bool greeted = bytes % 8 != 0 && greet(h, c, ends[1], bytes % 8, &ring); /* most are welcome */
    if (greeted)
        publish(h, c, &ring);
    while (bytes > 2 && c->fd >= 0) {
        size_t word = data[0] | (size_t)data[1] << 8, length = word & ~POKES;
        length = length < bytes - 2 ? length : bytes - 2;
        if (greeted)
            say(&ring, data + 2, length, word & POKES);
        else
            say_first(h, c, ends[1], data + 2, length);
        data += 2 + length;
        bytes -= 2 + length;
        for (int n = 0; n < 4 && sky__client_has_work(c); n++)
            sky__clients_serve(h, &c, 1);
        sky__clients_retire(h);
        if (greeted)
            read_away(&ring);
    }
    sky_ring_deinit(&ring);
    sky__client_close(h, c, NULL);
    close(ends[1]);
    assert(!c->stage && !c->first && !c->ring.memory && !c->publishing);
    for (size_t i = 0; i < h->tenant_count; i++)
        expect_nothing_left(h->tenants[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes > 2)
        round_trip(data + 2, bytes - 2);
    listing(data, bytes);
    serve(data, bytes);
    return 0;
}
