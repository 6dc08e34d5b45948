/* Proves: no bytes that a host sends lead a reader of published blocks outside the memory that it
 * was shown, nor leave a block of it open: with blocks read one by one and with blocks mapped side
 * by side.
 *
 * An input is messages of the host, each behind two bytes with its length. With the bit 15 it comes
 * with a descriptor: of sealed memory of 64 KiB, or, with the bit 14 too, of memory that is not
 * sealed. All of them are in the ring before the reader asks. It asks for a block of zeros (id 1),
 * for three such blocks side by side (2 to 4), and for one more (5). */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <skymem/skymem.h>

#include "io/fork.h"
#include "io/pages.h"
#include "io/shared.h"
#include "tier/shm/blob_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define REGION_BYTES 65536u
#define PASSED       0x8000u
#define UNSEALED     0x4000u
#define SIDE_BY_SIDE 3

/* Memory that all inputs share. */
static int region(bool sealed) {
    static void *at;
    static int fds[2] = {-1, -1};
    if (!at) {
        bool made = sky_pages_reserve(REGION_BYTES, &at, NULL) == SKY_OK &&
                    sky_shared_make(at, REGION_BYTES, SKY_SHARED_READ, &fds[1]) == SKY_OK;
        fds[0] = memfd_create("fuzz", MFD_CLOEXEC);
        assert(made && fds[0] >= 0 && ftruncate(fds[0], REGION_BYTES) == 0);
        (void)made;
    }
    return fds[sealed];
}

/* A blob that is welcome: as sky_blob_open makes it, over one end of a socket pair. */
static sky_blob *open_blob(int fd, sky_ring *host, int host_fd) {
    int memory;
    sky_blob *b = calloc(1, sizeof *b);
    sky__shm_link *l = calloc(1, sizeof *l);
    assert(b && l);
    l->fd = fd;
    l->arena_bytes = l->segment_bytes = REGION_BYTES;
    bool open = sky_ring_make(host_fd, host, &memory) == SKY_OK &&
                sky_ring_open(fd, memory, &l->ring) == SKY_OK &&
                sky_pages_reserve(l->arena_bytes, (void **)&l->arena, NULL) == SKY_OK &&
                sky_forks_watch(&b->forks) == SKY_OK;
    assert(open);
    (void)open;
    close(memory);
    sky_mutex_init(&b->mutex);
    b->link = l;
    return b;
}

static unsigned touch(const sky_span *view) {
    const uint8_t *at = view->data;
    return at[0] + at[view->bytes - 1];
}

static void read_block(const sky_block *k) {
    static uint8_t to[2 * REGION_BYTES];
    const sky_span span = {to, sizeof to};
    const sky_block_layout *l = sky_block_describe(k);
    sky_span view;
    unsigned sum = 0;
    for (uint32_t i = 0; i < l->shape[0] && i < 8; i++)
        for (uint32_t j = 0; j < l->shape[1] && j < 8; j++)
            if (sky_block_view(k, i, j, 0, &view) == SKY_OK)
                sum += touch(&view);
    (void)sky_block_read(k, SKY_BLOCK_ALL, &span, 1);
    (void)sky_block_read(k, 0, NULL, 0);
    assert(sum < UINT32_MAX);
}

static void get_block(sky_blob *b) {
    static const sky_key key;
    sky_block *k = NULL;
    if (sky_block_get(b, &key, sky_now(), &k) != SKY_OK)
        return;
    read_block(k);
    sky_block_release(k);
}

static void map_blocks(sky_blob *b) {
    static const sky_key keys[SIDE_BY_SIDE];
    sky_mapping *m = NULL;
    sky_error error;
    sky_span view;
    if (sky_mapping_open(b, keys, SIDE_BY_SIDE, sky_now(), &m, &error) != SKY_OK)
        return;
    for (size_t i = 0; i < sky_mapping_block_count(m); i++)
        read_block(sky_mapping_block(m, i));
    unsigned sum = 0;
    if (sky_mapping_view(m, 0, 0, 0, &view) == SKY_OK)
        for (size_t at = 0; at < view.bytes; at += 512)
            sum += ((const uint8_t *)view.data)[at];
    assert(sum < UINT32_MAX);
    sky_mapping_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_ring host = {.socket = -1};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
        return 0;
    sky_blob *b = open_blob(ends[1], &host, ends[0]);
    while (bytes > 2) {
        const size_t word = data[0] | (size_t)data[1] << 8;
        size_t length = word & (UNSEALED - 1);
        length = length < bytes - 2 ? length : bytes - 2;
        const int passed = word & PASSED ? region(!(word & UNSEALED)) : -1;
        if (length > 0 && length <= SKY_RING_MESSAGE_BYTES)
            (void)sky_ring_send(&host, data + 2, length, passed);
        data += 2 + length;
        bytes -= 2 + length;
    }
    get_block(b);
    map_blocks(b);
    get_block(b);
    for (const sky__blob_region *r = b->regions; r; r = r->next)
        assert(r->blocks == 0);
    sky_ring_deinit(&host);
    close(ends[0]);
    sky_blob_close(b);
    return 0;
}
