/* Proves: blocks that a client publishes in its own memory are read by others without a copy, by
 * buffer, layer and whole; bytes that their owner changed are a miss; ordinary operations find
 * them; what an owner removes or leaves behind goes, and not under a reader; and no client can make
 * the host or others read what it did not register. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host_fixture.h"
#include "io/clock.h"
#include "io/local.h"
#include "tier/shm/raw_fixture.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)
#define REGION   ((uint64_t)4 << 20)

static sky_host_fixture host;
static char url[80];

/* ---- the host ---- */

static char *counters(void *context, sky_cache *cache, const sky_host_stat *s) {
    (void)context;
    char *made = malloc(400);
    const unsigned long long numbers[] = {s->clients,
                                          s->regions,
                                          s->blocks,
                                          s->block_puts,
                                          s->block_copied_bytes,
                                          s->block_corrupt,
                                          sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_USED),
                                          s->disconnected};
    int at = 0;
    for (size_t i = 0; made && i < sizeof numbers / sizeof *numbers; i++)
        at += snprintf(made + at, 400 - (size_t)at, "%llu ", numbers[i]);
    return made;
}

typedef struct {
    unsigned long long clients, regions, blocks, puts, copied, corrupt, arena, disconnected;
} count;

static count count_now(void) {
    char *text = NULL;
    count c;
    assert_int_equal(sky_host_text(host.socket_path, sky_now() + PATIENCE, &text), SKY_OK);
    assert_int_equal(sscanf(text, "%llu %llu %llu %llu %llu %llu %llu %llu", &c.clients, &c.regions,
                            &c.blocks, &c.puts, &c.copied, &c.corrupt, &c.arena, &c.disconnected),
                     8);
    free(text);
    return c;
}

static int start_host(void **state) {
    (void)state;
    const char *store = "mem:8MiB";
    sky_host_fixture_prepare(&host, &store, 1);
    host.options.text = counters;
    sky_host_fixture_run(&host);
    snprintf(url, sizeof url, "shm:%s", host.socket_path);
    return 0;
}

static int stop_host(void **state) {
    (void)state;
    sky_host_fixture_stop(&host);
    return 0;
}

/* Until no client is there but who asks, and nothing of them. */
static void assert_nothing_left(void) {
    const sky_time until = sky_now() + PATIENCE;
    count c;
    while ((c = count_now()).clients > 1 && sky_now() < until)
        sky_poll(NULL, 0, sky_now() + SKY_MS(2));
    assert_int_equal(c.clients, 1);
    assert_true(c.regions == 0 && c.blocks == 0);
}

static sky_blob *open_blob(uint64_t bytes) {
    return sky_host_fixture_blob(&host, bytes);
}

static sky_cache *open_cache(void) {
    const char *urls[] = {url};
    sky_cache *cache;
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    return cache;
}

/* ---- a block ---- */

#define BUFFERS 24u

/* 24 buffers of different sizes, none in the order of the memory. */
typedef struct {
    uint64_t offsets[BUFFERS], sizes[BUFFERS], bytes;
    sky_block_layout layout;
} block;

static void make_block(block *k, uint64_t n, uint64_t from, const uint32_t shape[3],
                       uint32_t layer_axis) {
    k->bytes = 0;
    for (uint32_t i = 0; i < BUFFERS; i++) {
        k->sizes[i] = 1000 + 137 * i;
        k->offsets[i] = from + (uint64_t)(i * 7 % BUFFERS) * 8192 + i;
        k->bytes += k->sizes[i];
    }
    k->layout = (sky_block_layout){.key = sky_fixture_key(n),
                                   .shape = {shape[0], shape[1], shape[2]},
                                   .layer_axis = layer_axis,
                                   .offsets = k->offsets,
                                   .sizes = k->sizes};
}

/* Each buffer says which it is. */
static void fill_block(const block *k, uint8_t *memory, uint64_t n) {
    for (uint32_t i = 0; i < BUFFERS; i++)
        sky_fixture_fill(memory + k->offsets[i], k->sizes[i], n * 1000 + i);
}

static const uint32_t usual[3] = {4, 2, 3};

static void publish(sky_blob *b, uint64_t n, block *k) {
    make_block(k, n, n * 262144, usual, 0);
    fill_block(k, sky_blob_memory(b), n);
    assert_int_equal(sky_block_put(b, &k->layout, 1, SKY_TIME_NEVER, NULL), SKY_OK);
}

static sky_block *get(sky_blob *b, uint64_t n) {
    const sky_key key = sky_fixture_key(n);
    sky_block *k = NULL;
    assert_int_equal(sky_block_get(b, &key, SKY_TIME_NEVER, &k), SKY_OK);
    return k;
}

static sky_status try_get(sky_blob *b, uint64_t n) {
    const sky_key key = sky_fixture_key(n);
    sky_block *k = NULL;
    sky_status status = sky_block_get(b, &key, SKY_TIME_NEVER, &k);
    sky_block_release(k);
    return status;
}

static void assert_holds(const uint8_t *data, const block *k, uint64_t n) {
    for (uint32_t i = 0; i < BUFFERS; i++) {
        assert_true(sky_fixture_holds(data, k->sizes[i], n * 1000 + i));
        data += k->sizes[i];
    }
}

/* ---- what it is for ---- */

static void nothing_is_copied(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    const count before = count_now();
    block k;
    publish(owner, 1, &k);
    sky_block *got = get(reader, 1);
    const sky_block_layout *l = sky_block_describe(got);
    assert_true(l->shape[0] == 4 && l->shape[1] == 2 && l->shape[2] == 3 && l->layer_axis == 0);
    assert_memory_equal(l->offsets, k.offsets, sizeof k.offsets);
    assert_memory_equal(l->sizes, k.sizes, sizeof k.sizes);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        sky_span view;
        assert_int_equal(sky_block_view(got, i / 6, i / 3 % 2, i % 3, &view), SKY_OK);
        assert_int_equal(view.bytes, k.sizes[i]);
        assert_true(sky_fixture_holds(view.data, view.bytes, 1000 + i));
        uint8_t *own = (uint8_t *)sky_blob_memory(owner) + k.offsets[i];
        own[5] ^= 1; /* the same memory */
        assert_false(sky_fixture_holds(view.data, view.bytes, 1000 + i));
        own[5] ^= 1;
        if (i == 0) {
            uintptr_t page = (uintptr_t)view.data & ~(uintptr_t)4095;
            assert_int_equal(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE), -1);
        }
    }
    const count after = count_now();
    assert_int_equal(after.puts, before.puts + 1);
    assert_true(after.copied == before.copied && after.arena == before.arena);
    sky_block_release(got);
    sky_blob_close(reader);
    sky_blob_close(owner);
    assert_nothing_left();
}

static void layers_are_read_whatever_the_axes(void **state) {
    (void)state;
    static const struct {
        uint32_t shape[3], layer_axis;
    } forms[] = {{{4, 2, 3}, 0}, {{2, 4, 3}, 1}, {{2, 3, 4}, 2}, {{24, 1, 1}, 0}, {{1, 1, 24}, 2}};
    sky_blob *b = open_blob(REGION);
    uint8_t data[80000];
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        block k;
        const uint32_t *shape = forms[f].shape, axis = forms[f].layer_axis;
        make_block(&k, f, 0, shape, axis);
        fill_block(&k, sky_blob_memory(b), f);
        assert_int_equal(sky_block_put(b, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_OK);
        sky_block *got = get(b, f);
        sky_span all = {data, k.bytes};
        assert_int_equal(sky_block_read(got, SKY_BLOCK_ALL, &all, 1), SKY_OK);
        assert_holds(data, &k, f);
        for (uint32_t layer = 0; layer < shape[axis]; layer++) {
            const sky_span pieces[] = {
                {data, 1}, {data + 1, 1500}, {data, 0}, {data + 1501, sizeof data - 1501}};
            memset(data, 0, sizeof data);
            assert_int_equal(sky_block_read(got, layer, pieces, 4), SKY_OK);
            const uint8_t *at = data;
            for (uint32_t i = 0; i < BUFFERS; i++) { /* the layer's rows, in their order */
                const uint32_t place[] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1],
                                          i % shape[2]};
                if (place[axis] != layer)
                    continue;
                assert_true(sky_fixture_holds(at, k.sizes[i], f * 1000 + i));
                at += k.sizes[i];
            }
        }
        sky_span view, small = {data, k.bytes - 1};
        assert_int_equal(sky_block_read(got, SKY_BLOCK_ALL, &small, 1), SKY_E_DST_SMALL);
        assert_int_equal(sky_block_read(got, shape[axis], &all, 1), SKY_E_PARAM);
        assert_int_equal(sky_block_view(got, shape[axis], 0, 0, &view), SKY_E_PARAM);
        assert_int_equal(sky_block_view(got, 0, 24, 0, &view), SKY_E_PARAM);
        sky_block_release(got);
        assert_int_equal(sky_block_remove(b, &k.layout.key, SKY_TIME_NEVER), SKY_OK);
    }
    sky_blob_close(b);
}

static void changed_bytes_are_a_miss(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    block k;
    publish(owner, 2, &k);
    const count before = count_now();
    sky_block *got = get(reader, 2);
    uint8_t *memory = sky_blob_memory(owner), data[80000];
    sky_span all = {data, sizeof data};
    memory[k.offsets[7]] ^= 1; /* of layer 1 */
    assert_int_equal(sky_block_read(got, 1, &all, 1), SKY_E_CORRUPT);
    assert_int_equal(sky_block_read(got, 1, NULL, 0), SKY_E_CORRUPT);
    assert_int_equal(sky_block_read(got, SKY_BLOCK_ALL, &all, 1), SKY_E_CORRUPT);
    assert_int_equal(sky_block_read(got, 0, &all, 1), SKY_OK);
    assert_int_equal(sky_block_read(got, 2, NULL, 0), SKY_OK);
    sky_cache *cache = open_cache();
    sky_item item = {.key = k.layout.key, .spans = &all, .span_count = 1};
    assert_int_equal(sky_run(cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_MISS);
    assert_int_equal(try_get(reader, 2), SKY_MISS); /* it was withdrawn */
    assert_int_equal(count_now().corrupt, before.corrupt + 1);
    assert_int_equal(count_now().arena, 0);
    sky_cache_close(cache);
    sky_block_release(got);
    sky_blob_close(reader);
    sky_blob_close(owner);
}

static sky_status run(sky_cache *cache, sky_op op, uint64_t n, uint8_t *data, uint64_t *bytes) {
    sky_span span = {data, data ? 80000 : 0};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = data ? 1 : 0};
    assert_int_equal(sky_run(cache, op, &item, 1, NULL), SKY_OK);
    *bytes = item.bytes;
    return item.status;
}

static void ordinary_operations_find_them(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION);
    sky_cache *cache = open_cache();
    block k, pinned, gone;
    publish(owner, 3, &k);
    publish(owner, 4, &pinned);
    publish(owner, 5, &gone);
    uint8_t *data = malloc(80000);
    uint64_t bytes;
    const count before = count_now();
    assert_int_equal(run(cache, SKY_OP_HAS, 3, NULL, &bytes), SKY_OK);
    assert_int_equal(bytes, k.bytes);
    assert_int_equal(count_now().copied, before.copied);
    assert_int_equal(run(cache, SKY_OP_GET, 3, data, &bytes), SKY_OK);
    assert_int_equal(bytes, k.bytes);
    assert_holds(data, &k, 3);
    assert_int_equal(count_now().copied, before.copied + k.bytes);
    assert_int_equal(run(cache, SKY_OP_GET, 3, data, &bytes), SKY_OK);
    assert_int_equal(run(cache, SKY_OP_PIN, 4, NULL, &bytes), SKY_OK);
    assert_int_equal(count_now().copied, before.copied + k.bytes + pinned.bytes);
    assert_int_equal(run(cache, SKY_OP_REMOVE, 5, NULL, &bytes), SKY_OK);
    assert_int_equal(run(cache, SKY_OP_HAS, 5, NULL, &bytes), SKY_MISS);
    assert_int_equal(try_get(owner, 5), SKY_MISS);
    assert_int_equal(sky_block_remove(owner, &gone.layout.key, SKY_TIME_NEVER), SKY_MISS);
    sky_blob_close(owner); /* what was pinned stays, in the arena */
    memset(data, 0, 80000);
    assert_int_equal(run(cache, SKY_OP_GET, 4, data, &bytes), SKY_OK);
    assert_holds(data, &pinned, 4);
    for (uint64_t n = 3; n <= 4; n++)
        assert_int_equal(run(cache, SKY_OP_REMOVE, n, NULL, &bytes), SKY_OK);
    free(data);
    sky_cache_close(cache);
    assert_nothing_left();
}

static void an_owner_waits_for_readers(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    block k;
    publish(owner, 6, &k);
    const sky_key *key = &k.layout.key;
    sky_block *first = get(reader, 6), *second = get(reader, 6);
    assert_int_equal(sky_block_put(owner, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_BUSY);
    assert_int_equal(sky_block_remove(reader, key, SKY_TIME_NEVER), SKY_MISS); /* not its own */
    assert_int_equal(sky_block_remove(owner, key, sky_now() + SKY_MS(1)), SKY_E_DEADLINE);
    assert_int_equal(try_get(reader, 6), SKY_MISS);
    assert_int_equal(sky_block_put(owner, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_BUSY);
    sky_block_release(first);
    assert_int_equal(sky_block_remove(owner, key, sky_now() + SKY_MS(1)), SKY_E_DEADLINE);
    assert_int_equal(sky_block_read(second, SKY_BLOCK_ALL, NULL, 0), SKY_OK);
    sky_block_release(second);
    assert_int_equal(try_get(reader, 6), SKY_MISS); /* so the host has the release */
    assert_int_equal(sky_block_remove(owner, key, SKY_TIME_NEVER), SKY_MISS);
    publish(owner, 6, &k);
    second = get(reader, 6);
    sky_blob_close(owner);
    const sky_time until = sky_now() + PATIENCE;
    while (count_now().regions > 0 && sky_now() < until)
        sky_poll(NULL, 0, sky_now() + SKY_MS(2));
    assert_int_equal(try_get(reader, 6), SKY_MISS);
    assert_int_equal(sky_block_read(second, SKY_BLOCK_ALL, NULL, 0), SKY_OK); /* it stays */
    sky_block_release(second);
    sky_blob_close(reader);
    assert_nothing_left();
}

/* It makes no further call, and does not close. */
static void a_get_that_gave_up_keeps_nothing(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    sky_mapping *mapping = NULL;
    block k, other;
    publish(owner, 6, &k);
    publish(owner, 7, &other);
    const sky_key keys[] = {k.layout.key, other.layout.key};
    sky_block *kept = get(reader, 7), *got;
    sky_status status;
    while ((status = sky_block_get(reader, &keys[0], 1, &got)) == SKY_OK)
        sky_block_release(got);
    assert_int_equal(status, SKY_E_DEADLINE);
    (void)count_now(); /* after this the host has lent it */
    assert_int_equal(sky_block_remove(owner, &keys[0], sky_now() + SKY_SECONDS(5)), SKY_OK);
    assert_int_equal(try_get(reader, 6), SKY_MISS); /* the late answer harms nothing */
    publish(owner, 6, &k);
    do /* they are in no pages of their own */
        status = sky_mapping_open(reader, keys, 2, 1, &mapping, NULL);
    while (status == SKY_E_UNSUPPORTED);
    assert_int_equal(status, SKY_E_DEADLINE);
    (void)count_now(); /* after this the host has lent it */
    assert_int_equal(sky_block_remove(owner, &keys[0], sky_now() + SKY_SECONDS(5)), SKY_OK);
    assert_int_equal(sky_block_remove(owner, &keys[1], sky_now() + SKY_MS(1)), SKY_E_DEADLINE);
    sky_block_release(kept);
    assert_int_not_equal(sky_block_remove(owner, &keys[1], sky_now() + SKY_SECONDS(5)),
                         SKY_E_DEADLINE);
    sky_blob_close(reader);
    sky_blob_close(owner);
    assert_nothing_left();
}

static void many_and_large_blocks(void **state) {
    (void)state;
    enum { MANY = 4096, BLOCKS = 100 };
    sky_blob *owner = open_blob(16 * REGION), *reader = open_blob(0);
    uint64_t *offsets = calloc(MANY, sizeof *offsets), *sizes = calloc(MANY, sizeof *sizes);
    uint8_t *memory = sky_blob_memory(owner);
    sky_block_layout blocks[BLOCKS];
    size_t done;
    for (uint64_t i = 0; i < MANY; i++) {
        offsets[i] = (i * 1999 % MANY) * 4096;
        sizes[i] = 1 + i;
        sky_fixture_fill(memory + offsets[i], sizes[i], i);
    }
    for (uint64_t n = 0; n < BLOCKS; n++)
        blocks[n] = (sky_block_layout){.key = sky_fixture_key(100 + n),
                                       .shape = {64, 2, n % 32 + 1},
                                       .offsets = offsets,
                                       .sizes = sizes};
    assert_int_equal(sky_block_put(owner, blocks, BLOCKS, SKY_TIME_NEVER, &done), SKY_OK);
    assert_int_equal(done, BLOCKS);
    for (uint64_t n = 0; n < BLOCKS; n++) {
        sky_block *k = get(reader, 100 + n);
        const sky_block_layout *l = sky_block_describe(k);
        assert_memory_equal(l->shape, blocks[n].shape, sizeof l->shape);
        assert_memory_equal(l->offsets, offsets, 128 * (n % 32 + 1) * sizeof *offsets);
        assert_int_equal(sky_block_read(k, SKY_BLOCK_ALL, NULL, 0), SKY_OK);
        sky_block_release(k);
    }
    blocks[3].key = blocks[1].key = sky_fixture_key(999);
    for (uint64_t n = 0; n < 4; n += 2)
        blocks[n].key = sky_fixture_key(990 + n);
    assert_int_equal(sky_block_put(owner, blocks, 4, SKY_TIME_NEVER, &done), SKY_E_BUSY);
    assert_int_equal(done, 3); /* the others are published */
    assert_int_equal(try_get(reader, 992), SKY_OK);
    free(offsets);
    free(sizes);
    sky_blob_close(reader);
    sky_blob_close(owner);
    assert_nothing_left();
}

static void memory_comes_from_an_allocator(void **state) {
    (void)state;
    sky_blob *b = open_blob(16 * 4096), *none = open_blob(0);
    uint64_t a, c, d;
    assert_int_equal(sky_blob_take(b, 4097, &a), SKY_OK);
    assert_int_equal(sky_blob_take(b, 14 * 4096, &c), SKY_OK);
    assert_true(a % 4096 == 0 && c % 4096 == 0 && a != c);
    assert_int_equal(sky_blob_take(b, 1, &d), SKY_E_FULL);
    assert_int_equal(sky_blob_give(b, a + 4096), SKY_E_PARAM);
    assert_int_equal(sky_blob_give(b, a), SKY_OK);
    assert_int_equal(sky_blob_give(b, a), SKY_E_PARAM);
    assert_int_equal(sky_blob_take(b, 8192, &d), SKY_OK);
    assert_int_equal(sky_blob_take(b, UINT64_MAX, &d), SKY_E_FULL);
    assert_int_equal(sky_blob_take(b, 0, &d), SKY_E_PARAM);
    assert_int_equal(sky_blob_take(none, 1, &d), SKY_E_PARAM);
    assert_int_equal(sky_blob_give(none, 0), SKY_E_PARAM);
    assert_null(sky_blob_memory(none));
    sky_blob_close(none);
    sky_blob_close(b);
}

/* ---- memory of the caller's ---- */

static int memory(unsigned flags, uint64_t bytes) {
    int fd = memfd_create("user", MFD_CLOEXEC | flags);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static void memory_of_the_caller_is_taken(void **state) {
    (void)state;
    const int fd = memory(MFD_ALLOW_SEALING, REGION);
    uint8_t *own = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const sky_blob_options o = {.struct_bytes = sizeof o, .bytes = REGION, .fd = fd};
    sky_blob *b, *reader = open_blob(0);
    assert_int_equal(sky_blob_open(url, &o, &b, NULL), SKY_OK);
    block k;
    make_block(&k, 7, 0, usual, 0);
    fill_block(&k, own, 7); /* through its own mapping */
    assert_int_equal(ftruncate(fd, 0), -1);
    close(fd);
    assert_int_equal(sky_block_put(b, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_OK);
    sky_block *got = get(reader, 7);
    assert_int_equal(sky_block_read(got, SKY_BLOCK_ALL, NULL, 0), SKY_OK);
    sky_block_release(got);
    munmap(own, REGION);
    sky_blob_close(b);
    sky_blob_close(reader);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    sky_blob *b = NULL, *none = open_blob(0), *owner = open_blob(REGION);
    sky_error error;
    const int fds[] = {memory(0, REGION), memory(MFD_ALLOW_SEALING, REGION / 2),
                       open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 1000000};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        const sky_blob_options o = {.struct_bytes = sizeof o, .bytes = REGION, .fd = fds[i]};
        error.text[0] = 0;
        assert_int_equal(sky_blob_open(url, &o, &b, &error), SKY_E_PARAM);
        assert_non_null(strstr(error.text, "descriptor"));
        close(fds[i]);
    }
    const sky_blob_options huge = {.struct_bytes = sizeof huge, .bytes = UINT64_MAX};
    assert_int_equal(sky_blob_open(url, &huge, &b, &error), SKY_E_PARAM);
    assert_int_equal(sky_blob_open("mem:1MiB", NULL, &b, &error), SKY_E_SYNTAX);
    assert_int_equal(sky_blob_open("shm:/nothing/here", NULL, &b, &error), SKY_E_IO);
    assert_int_equal(sky_blob_open(NULL, NULL, &b, &error), SKY_E_PARAM);
    assert_null(b);
    block k;
    const uint32_t shapes[][3] = {{0, 2, 3}, {4, 2, 0}, {4097, 1, 1}, {65536, 65536, 65536}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        make_block(&k, 1, 0, shapes[i], 1);
        assert_int_equal(sky_block_put(owner, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_PARAM);
    }
    make_block(&k, 1, 0, usual, 3);
    assert_int_equal(sky_block_put(owner, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_PARAM);
    const uint64_t wild[][2] = {{REGION, 1},     {0, REGION + 1}, {UINT64_MAX, 1},
                                {1, UINT64_MAX}, {0, 0},          {UINT64_MAX - 4, 5}};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        make_block(&k, 1, 0, usual, 0);
        k.offsets[23] = wild[i][0];
        k.sizes[23] = wild[i][1];
        assert_int_equal(sky_block_put(owner, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_PARAM);
    }
    make_block(&k, 1, 0, usual, 0);
    assert_int_equal(sky_block_put(none, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_PARAM);
    assert_int_equal(sky_block_put(NULL, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_PARAM);
    assert_int_equal(try_get(NULL, 1), SKY_E_PARAM);
    assert_int_equal(sky_block_read(NULL, 0, NULL, 0), SKY_E_PARAM);
    assert_int_equal(try_get(none, 1), SKY_MISS);
    sky_blob_close(owner);
    sky_blob_close(none);
    sky_blob_close(NULL);
    sky_block_release(NULL);
}

static void a_child_of_fork_has_none(void **state) {
    (void)state;
    sky_blob *b = open_blob(REGION);
    block made;
    publish(b, 8, &made);
    sky_block *k = get(b, 8);
    const pid_t child = fork();
    if (child == 0) {
        sky_block *again;
        uint64_t offset;
        const sky_key key = sky_fixture_key(8);
        bool forked = sky_block_get(b, &key, SKY_TIME_NEVER, &again) == SKY_E_FORKED &&
                      sky_block_read(k, 0, NULL, 0) == SKY_E_FORKED &&
                      sky_blob_take(b, 1, &offset) == SKY_E_FORKED && !sky_blob_memory(b);
        sky_block_release(k);
        sky_blob_close(b);
        _exit(forked ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(sky_block_read(k, SKY_BLOCK_ALL, NULL, 0), SKY_OK);
    sky_block_release(k);
    sky_blob_close(b);
}

/* ---- hostile clients ---- */

static int greeted(void) {
    sky_local_peer peer;
    int fd = -1;
    sky_status status;
    while ((status = sky_local_connect(host.socket_path, &fd, &peer)) == SKY_E_BUSY)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(status, SKY_OK);
    sky_raw_greet(fd);
    return fd;
}

static void assert_ended(int fd) {
    sky_shm_frame f;
    while (sky_raw_hear(fd, &f, NULL))
        ;
    sky_raw_close(fd);
}

/* What the host says to this memory; *number: the region's. */
static sky_status enlist(int fd, int passed, uint64_t bytes, uint32_t *number) {
    sky_shm_frame f = {.kind = SKY_SHM_REGISTER, .id = 5, .region_bytes = bytes};
    sky_raw_say(fd, &f, passed);
    assert_true(sky_raw_hear(fd, &f, NULL));
    assert_true(f.kind == SKY_SHM_REGISTERED && f.id == 5);
    *number = (uint32_t)f.number;
    return f.status;
}

static int sealed(int seals) {
    int fd = memory(MFD_ALLOW_SEALING, REGION);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

#define SEALS (F_SEAL_SHRINK | 0x10 /* future writes */)

static int with_region(uint32_t *number) {
    int fd = greeted(), own = sealed(SEALS);
    assert_int_equal(enlist(fd, own, REGION, number), SKY_OK);
    close(own);
    return fd;
}

static void memory_that_may_change_is_refused(void **state) {
    (void)state;
    uint32_t number;
    int ends[2], fd = greeted();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = {memory(MFD_ALLOW_SEALING, REGION),
                       memory(0, REGION),
                       sealed(F_SEAL_SHRINK),
                       sealed(SEALS & ~F_SEAL_SHRINK),
                       open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                       open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       ends[0],
                       ends[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        assert_int_equal(enlist(fd, fds[i], 4096, &number), SKY_E_PARAM);
        (void)!ftruncate(fds[i], 0); /* nobody looks at it */
        close(fds[i]);
    }
    const int good = sealed(SEALS);
    assert_int_equal(enlist(fd, good, REGION + 1, &number), SKY_E_PARAM);
    assert_int_equal(enlist(fd, good, 0, &number), SKY_E_PARAM);
    assert_int_equal(enlist(fd, good, UINT64_MAX, &number), SKY_E_FULL);
    assert_int_equal(number, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(enlist(fd, good, REGION, &number), i < 4 ? SKY_OK : SKY_E_BUSY);
    assert_int_equal(ftruncate(good, 0), -1);
    close(good);
    sky_raw_close(fd);
    assert_nothing_left();
}

/* A whole layout of two buffers. */
static sky_shm_frame two_buffers(uint32_t region) {
    return (sky_shm_frame){.kind = SKY_SHM_LAYOUT,
                           .count = 2,
                           .region = region,
                           .layout = {.key = {{1}},
                                      .shape = {2, 1, 1},
                                      .rows = {{.bytes = 1}, {.offset = 10, .bytes = 10}}}};
}

static void wild_places_end_it(void **state) {
    (void)state;
    static const sky_shm_row wild[] = {{REGION, 0, 1},         {REGION - 1, 0, 2},
                                       {0, 0, REGION + 1},     {UINT64_MAX, 0, 1},
                                       {UINT64_MAX - 4, 0, 5}, {(uint64_t)1 << 63, 0, UINT32_MAX}};
    uint32_t number;
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        int fd = with_region(&number);
        sky_shm_frame f = two_buffers(number);
        f.layout.rows[i % 2] = wild[i];
        sky_raw_say(fd, &f, -1);
        assert_ended(fd);
    }
    assert_nothing_left();
}

static void frames_out_of_place_end_it(void **state) {
    (void)state;
    uint32_t others, number;
    int other = with_region(&others);
    const sky_shm_frame alone[] = {
        {.kind = SKY_SHM_REGISTER, .region_bytes = 4096}, /* no descriptor */
        {.kind = SKY_SHM_REGISTERED, .number = 1},
        {.kind = SKY_SHM_ANSWERED},
        {.kind = SKY_SHM_REGION, .region = 1, .region_bytes = 4096},
        {.kind = SKY_SHM_REGION_GONE, .region = 1},
        {.kind = SKY_SHM_BLOCK, .block_op = SKY_SHM_BLOCK_RELEASE, .key = {{0}}, .lease = 65536},
        two_buffers(others),
        two_buffers(77777)};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        int fd = greeted();
        sky_raw_say(fd, &alone[i], -1);
        assert_ended(fd);
    }
    for (int i = 0; i < 7; i++) { /* second parts that do not fit the first */
        int fd = with_region(&number);
        sky_shm_frame f = two_buffers(number);
        f.count = 1;
        sky_raw_say(fd, &f, -1);
        f.layout.first = i == 0 ? 0 : 1;
        f.layout.key.bytes[0] = i == 1 ? 2 : 1;
        f.layout.shape[0] = i == 2 ? 3 : 2;
        f.layout.layer_axis = i == 3;
        f.layout.lease = i == 4;
        f.region = i == 5 ? others : number;
        if (i == 6) /* it leaves in the middle */
            sky_raw_close(fd);
        else
            sky_raw_say(fd, &f, -1);
        if (i != 6)
            assert_ended(fd);
    }
    int fd = greeted();
    sky_shm_frame f = two_buffers(others);
    f.layout.first = 1;
    f.count = 1;
    sky_raw_say(fd, &f, -1); /* a second part without a first */
    assert_ended(fd);
    sky_raw_close(other);
    assert_nothing_left();
}

/* One holds what another published, and leaves without a word; its lease is the host's then. */
static void who_leaves_gives_back(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION);
    block k;
    publish(owner, 9, &k);
    for (int i = 0; i < 20; i++) {
        int fd = greeted(), passed;
        sky_shm_frame f = {
            .kind = SKY_SHM_BLOCK, .block_op = SKY_SHM_BLOCK_OPEN, .key = k.layout.key, .lease = 0};
        sky_raw_say(fd, &f, -1);
        assert_true(sky_raw_hear(fd, &f, &passed));
        assert_true(f.kind == SKY_SHM_REGION && f.region_bytes == REGION && passed >= 0);
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0),
                         MAP_FAILED);
        assert_int_equal(pwrite(passed, "x", 1, 0), -1);
        assert_int_equal(ftruncate(passed, 0), -1);
        close(passed);
        assert_true(sky_raw_hear(fd, &f, NULL));
        assert_true(f.kind == SKY_SHM_LAYOUT && f.layout.lease != 0 && f.count == BUFFERS);
        sky_raw_close(fd);
    }
    assert_int_equal(sky_block_remove(owner, &k.layout.key, SKY_TIME_NEVER), SKY_OK);
    sky_blob_close(owner);
    assert_nothing_left();
}

static void a_host_that_ends_leaves_what_is_open(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    block k;
    publish(owner, 10, &k);
    sky_block *got = get(reader, 10);
    sky_host_fixture_stop(&host);
    assert_int_equal(try_get(reader, 10), SKY_E_IO);
    assert_int_equal(sky_block_put(owner, &k.layout, 1, SKY_TIME_NEVER, NULL), SKY_E_IO);
    sky_blob_close(owner);
    assert_int_equal(sky_block_read(got, SKY_BLOCK_ALL, NULL, 0), SKY_OK);
    sky_block_release(got);
    sky_blob_close(reader);
    assert_int_equal(start_host(NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(layers_are_read_whatever_the_axes),
        cmocka_unit_test(changed_bytes_are_a_miss),
        cmocka_unit_test(ordinary_operations_find_them),
        cmocka_unit_test(an_owner_waits_for_readers),
        cmocka_unit_test(a_get_that_gave_up_keeps_nothing),
        cmocka_unit_test(many_and_large_blocks),
        cmocka_unit_test(memory_comes_from_an_allocator),
        cmocka_unit_test(memory_of_the_caller_is_taken),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_child_of_fork_has_none),
        cmocka_unit_test(memory_that_may_change_is_refused),
        cmocka_unit_test(wild_places_end_it),
        cmocka_unit_test(frames_out_of_place_end_it),
        cmocka_unit_test(who_leaves_gives_back),
        cmocka_unit_test(a_host_that_ends_leaves_what_is_open),
    };
    return cmocka_run_group_tests(tests, start_host, stop_host);
}
