/* Proves: a run of published blocks appears as one range of addresses for each buffer of its shape,
 * which is the owners' memory and no copy; it ends before the first block that is missing; what has
 * no whole pages is refused in a sentence; and what is mapped stays, whatever is evicted, removed
 * or closed meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host_fixture.h"
#include "io/clock.h"
#include "io/pages.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)
#define LAYERS   3u
#define BUFFERS  (2 * LAYERS)
#define SLOTS    48u
#define ARENA    ((uint64_t)8 << 20)

static sky_host_fixture host;
static char url[80];
static uint64_t page;

/* ---- the host ---- */

static char *counters(void *context, sky_cache *cache, const sky_host_stat *s) {
    (void)context;
    char *made = malloc(200);
    if (made)
        snprintf(made, 200, "%llu %llu %llu %llu", (unsigned long long)s->clients,
                 (unsigned long long)s->blocks, (unsigned long long)s->block_copied_bytes,
                 (unsigned long long)sky_cache_metric(cache, 0, SKY_METRIC_TIER_EVICTIONS));
    return made;
}

typedef struct {
    unsigned long long clients, blocks, copied, evicted;
} count;

static count count_now(void) {
    char *text = NULL;
    count c;
    assert_int_equal(sky_host_text(host.socket_path, sky_now() + PATIENCE, &text), SKY_OK);
    assert_int_equal(
        sscanf(text, "%llu %llu %llu %llu", &c.clients, &c.blocks, &c.copied, &c.evicted), 4);
    free(text);
    return c;
}

static int start_host(void **state) {
    (void)state;
    const char *store = "mem:8MiB";
    page = sky_pages_unit();
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

static sky_blob *open_blob(uint64_t bytes) {
    return sky_host_fixture_blob(&host, bytes);
}

/* ---- blocks ---- */

/* K has two pages, V one; a slot has the buffer of one block. */
static uint64_t size_of(uint32_t row) {
    return row % 2 == 0 ? 2 * page : page;
}

#define REGION (SLOTS * BUFFERS * 2 * page)

/* Buffers of one block in a slot; layers lie far from each other. */
typedef struct {
    uint64_t offsets[BUFFERS], sizes[BUFFERS];
    sky_block_layout layout;
} block;

static void make_block(block *k, uint64_t n, uint32_t slot) {
    for (uint32_t i = 0; i < BUFFERS; i++) {
        k->sizes[i] = size_of(i);
        k->offsets[i] = i * SLOTS * 2 * page + slot * size_of(i);
    }
    k->layout = (sky_block_layout){.key = sky_fixture_key(n),
                                   .shape = {LAYERS, 2, 1},
                                   .offsets = k->offsets,
                                   .sizes = k->sizes};
}

static void put_block(sky_blob *b, const block *k, uint64_t n) {
    for (uint32_t i = 0; i < BUFFERS; i++)
        sky_fixture_fill((uint8_t *)sky_blob_memory(b) + k->offsets[i], k->sizes[i], n * 100 + i);
    assert_int_equal(sky_block_put(b, &k->layout, 1, SKY_TIME_NEVER, NULL), SKY_OK);
}

static void publish(sky_blob *b, uint64_t n, uint32_t slot) {
    block k;
    make_block(&k, n, slot);
    put_block(b, &k, n);
}

/* So that its memory may change now: nobody has it open. */
static void assert_removed(sky_blob *b, uint64_t n) {
    const sky_key key = sky_fixture_key(n);
    assert_int_equal(sky_block_remove(b, &key, sky_now() + PATIENCE), SKY_OK);
}

static sky_status try_map(sky_blob *b, const uint64_t *numbers, size_t key_count, sky_mapping **out,
                          sky_error *error) {
    sky_key keys[SLOTS];
    assert_true(key_count <= SLOTS);
    for (size_t i = 0; i < key_count; i++)
        keys[i] = sky_fixture_key(numbers[i]);
    error->text[0] = '\0';
    return sky_mapping_open(b, keys, key_count, sky_now() + PATIENCE, out, error);
}

static sky_mapping *map(sky_blob *b, const uint64_t *numbers, size_t key_count) {
    sky_mapping *m = NULL;
    sky_error error;
    if (try_map(b, numbers, key_count, &m, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return m;
}

/* Every range holds these blocks, one after the other. */
static void assert_maps(const sky_mapping *m, const uint64_t *numbers, size_t blocks) {
    assert_int_equal(sky_mapping_block_count(m), blocks);
    for (uint32_t row = 0; row < BUFFERS; row++) {
        sky_span range;
        assert_int_equal(sky_mapping_view(m, row / 2, row % 2, 0, &range), SKY_OK);
        assert_int_equal(range.bytes, blocks * size_of(row));
        assert_int_equal((uintptr_t)range.data % page, 0);
        for (size_t i = 0; i < blocks; i++)
            assert_true(sky_fixture_holds((uint8_t *)range.data + i * size_of(row), size_of(row),
                                          numbers[i] * 100 + row));
    }
    for (size_t i = 0; i < blocks; i++)
        assert_int_equal(sky_block_read(sky_mapping_block(m, i), SKY_BLOCK_ALL, NULL, 0), SKY_OK);
}

/* ---- what it is for ---- */

static void blocks_of_several_owners_lie_side_by_side(void **state) {
    (void)state;
    sky_blob *a = open_blob(REGION), *b = open_blob(REGION), *reader = open_blob(0);
    /* in slots that follow each other, go back, repeat, and are another owner's */
    const uint64_t numbers[] = {1, 2, 3, 4, 5, 6, 5};
    const count before = count_now();
    publish(a, 1, 7);
    publish(a, 2, 8);
    publish(a, 3, 9);
    publish(a, 4, 2);
    publish(b, 5, 3);
    publish(b, 6, 4);
    sky_mapping *m = map(reader, numbers, 7);
    assert_maps(m, numbers, 7);
    const count after = count_now();
    assert_int_equal(after.copied, before.copied);
    sky_span range;
    assert_int_equal(sky_mapping_view(m, 1, 0, 0, &range), SKY_OK);
    assert_int_equal(mprotect(range.data, range.bytes, PROT_READ | PROT_WRITE), -1);
    block first;
    make_block(&first, 1, 7);
    uint8_t *own = (uint8_t *)sky_blob_memory(a) + first.offsets[2];
    own[5] ^= 1; /* the same memory: a change shows, and is noticed by who compares */
    assert_int_equal(((uint8_t *)range.data)[5], own[5]);
    assert_int_equal(sky_block_read(sky_mapping_block(m, 0), 1, NULL, 0), SKY_E_CORRUPT);
    assert_int_equal(sky_block_read(sky_mapping_block(m, 1), 1, NULL, 0), SKY_OK);
    own[5] ^= 1;
    sky_mapping *own_blocks = map(a, numbers, 4); /* an owner maps its own, too */
    assert_maps(own_blocks, numbers, 4);
    assert_maps(m, numbers, 7);
    sky_mapping_close(own_blocks);
    sky_mapping_close(m);
    for (uint64_t n = 1; n <= 4; n++)
        assert_removed(a, n);
    sky_blob_close(reader);
    sky_blob_close(a);
    sky_blob_close(b);
}

static void a_mapping_ends_before_what_is_missing(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    uint64_t numbers[SLOTS];
    sky_mapping *m = NULL;
    sky_error error;
    for (uint64_t n = 0; n < 40; n++)
        publish(owner, numbers[n] = 100 + n, (uint32_t)(n * 7 % SLOTS));
    m = map(reader, numbers, 40);
    assert_maps(m, numbers, 40);
    sky_mapping_close(m);
    for (size_t missing = 20; missing > 0; missing -= 5) { /* 20 and 15: more than at once */
        assert_removed(owner, numbers[missing]);
        m = map(reader, numbers, 40);
        assert_maps(m, numbers, missing);
        assert_removed(owner, numbers[missing + 1]); /* what lies behind is not held */
        publish(owner, numbers[missing + 1], (uint32_t)((missing + 1) * 7 % SLOTS));
        sky_mapping_close(m);
    }
    m = NULL;
    assert_removed(owner, numbers[0]);
    assert_int_equal(try_map(reader, numbers, 40, &m, &error), SKY_MISS);
    assert_non_null(strstr(error.text, "block 0"));
    assert_null(m);
    for (size_t n = 1; n < 40; n++)
        if (n > 20 || n % 5 != 0)
            assert_removed(owner, numbers[n]);
    sky_blob_close(reader);
    sky_blob_close(owner);
}

/* Pressure on the arena: puts of twice its size, and a copy of a block in it that is evicted. */
static void fill_arena(uint64_t n) {
    const char *urls[] = {url};
    sky_cache *cache;
    const size_t bytes = ARENA / 32;
    uint8_t *data = malloc(bytes);
    sky_item item = {.key = sky_fixture_key(n)};
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    assert_int_equal(sky_run(cache, SKY_OP_PREFETCH, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    for (uint64_t i = 0; i < 64; i++) {
        const sky_span span = {data, bytes};
        item = (sky_item){.key = sky_fixture_key(90000 + i), .spans = &span, .span_count = 1};
        sky_fixture_fill(data, bytes, i);
        assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
        assert_int_equal(item.status, SKY_OK);
    }
    free(data);
    sky_cache_close(cache);
}

static void what_is_mapped_stays(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    const uint64_t numbers[] = {201, 202, 203};
    for (uint32_t i = 0; i < 3; i++)
        publish(owner, numbers[i], 10 - 3 * i);
    sky_mapping *m = map(reader, numbers, 3), *second = map(reader, numbers, 2);
    const count before = count_now();
    fill_arena(202);
    assert_true(count_now().evicted > before.evicted);
    assert_maps(m, numbers, 3);
    const sky_key key = sky_fixture_key(202);
    assert_int_equal(sky_block_remove(owner, &key, sky_now() + SKY_MS(1)), SKY_E_DEADLINE);
    assert_maps(m, numbers, 3);
    sky_mapping_close(second);
    assert_int_equal(sky_block_remove(owner, &key, sky_now() + SKY_MS(1)), SKY_E_DEADLINE);
    sky_blob_close(owner);
    const sky_time until = sky_now() + PATIENCE;
    while (count_now().blocks > 0 && sky_now() < until)
        sky_poll(NULL, 0, sky_now() + SKY_MS(2));
    assert_int_equal(count_now().blocks, 0);
    assert_maps(m, numbers, 3);
    sky_host_fixture_stop(&host);
    assert_maps(m, numbers, 3);
    sky_mapping_close(m);
    sky_blob_close(reader);
    assert_int_equal(start_host(NULL), 0);
}

/* ---- what is refused ---- */

static void what_has_no_whole_pages_is_refused(void **state) {
    (void)state;
    sky_blob *owner = open_blob(REGION), *reader = open_blob(0);
    const uint64_t numbers[] = {301, 302};
    const struct {
        uint64_t longer, later; /* bytes of buffer 3 */
        uint32_t shape[3];
        const char *says;
    } cases[] = {{100, 0, {LAYERS, 2, 1}, "whole pages"},
                 {0, 64, {LAYERS, 2, 1}, "no multiple of a page"},
                 {page, 0, {LAYERS, 2, 1}, "other sizes"},
                 {0, 0, {LAYERS, 1, 2}, "another shape"},
                 {0, 0, {1, 2, LAYERS}, "another shape"}};
    sky_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t at = 0; at < 2; at++) { /* the first, and the second */
            sky_mapping *m = NULL;
            block k;
            make_block(&k, numbers[at], 5);
            k.sizes[3] += cases[i].longer;
            k.offsets[3] += cases[i].later;
            memcpy(k.layout.shape, cases[i].shape, sizeof k.layout.shape);
            put_block(owner, &k, numbers[at]);
            publish(owner, numbers[!at], 9);
            assert_int_equal(try_map(reader, numbers, 2, &m, &error), SKY_E_UNSUPPORTED);
            assert_null(m);
            if (at == 0 && !strstr(error.text, cases[i].says))
                fail_msg("case %zu: %s", i, error.text);
            assert_removed(owner, 301); /* nothing is left open */
            assert_removed(owner, 302);
        }
    sky_blob_close(reader);
    sky_blob_close(owner);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    static sky_key many[SKY_MAPPING_BLOCKS_MAX + 1];
    sky_blob *owner = open_blob(REGION);
    const uint64_t numbers[] = {401};
    const sky_key key = sky_fixture_key(401);
    sky_error error;
    sky_mapping *m = NULL;
    sky_span range;
    publish(owner, 401, 1);
    assert_int_equal(sky_mapping_open(NULL, &key, 1, SKY_TIME_NEVER, &m, &error), SKY_E_PARAM);
    assert_int_equal(sky_mapping_open(owner, NULL, 1, SKY_TIME_NEVER, &m, &error), SKY_E_PARAM);
    assert_int_equal(sky_mapping_open(owner, &key, 0, SKY_TIME_NEVER, &m, NULL), SKY_E_PARAM);
    assert_int_equal(sky_mapping_open(owner, &key, 1, SKY_TIME_NEVER, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(
        sky_mapping_open(owner, many, SKY_MAPPING_BLOCKS_MAX + 1, SKY_TIME_NEVER, &m, &error),
        SKY_E_PARAM);
    assert_non_null(strstr(error.text, "16384"));
    assert_int_equal(
        sky_mapping_open(owner, many, SKY_MAPPING_BLOCKS_MAX, SKY_TIME_NEVER, &m, &error),
        SKY_MISS);
    assert_null(m);
    m = map(owner, numbers, 1);
    assert_int_equal(sky_mapping_view(m, LAYERS, 0, 0, &range), SKY_E_PARAM);
    assert_int_equal(sky_mapping_view(m, 0, 2, 0, &range), SKY_E_PARAM);
    assert_int_equal(sky_mapping_view(m, 0, 0, 1, &range), SKY_E_PARAM);
    assert_int_equal(sky_mapping_view(m, 0, 0, 0, NULL), SKY_E_PARAM);
    assert_int_equal(sky_mapping_view(NULL, 0, 0, 0, &range), SKY_E_PARAM);
    assert_null(sky_mapping_block(m, 1));
    assert_null(sky_mapping_block(NULL, 0));
    assert_int_equal(sky_mapping_block_count(NULL), 0);
    sky_mapping_close(m);
    sky_mapping_close(NULL);
    sky_blob_close(owner);
}

static unsigned long mappings_max(void) {
    unsigned long most = 0;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
    if (f && fscanf(f, "%lu", &most) != 1)
        most = 0;
    if (f)
        fclose(f);
    return most;
}

static void more_mappings_than_a_process_may_have_are_refused(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* ThreadSanitizer ends a program that gives it no mapping for its own memory */
#endif
    const size_t blocks = mappings_max() / SKY_BLOCK_BUFFERS_MAX + 1;
    if (mappings_max() == 0 || blocks > SLOTS)
        skip(); /* this machine gives more */
    sky_blob *b = open_blob(page);
    uint64_t *offsets = calloc(SKY_BLOCK_BUFFERS_MAX, sizeof *offsets);
    uint64_t *sizes = calloc(SKY_BLOCK_BUFFERS_MAX, sizeof *sizes), numbers[SLOTS];
    sky_mapping *m = NULL;
    sky_error error;
    for (uint32_t i = 0; i < SKY_BLOCK_BUFFERS_MAX; i++)
        sizes[i] = page; /* all are the same page, so none follows another */
    for (size_t n = 0; n < blocks; n++) {
        const sky_block_layout l = {.key = sky_fixture_key(numbers[n] = 500 + n),
                                    .shape = {64, 2, SKY_BLOCK_BUFFERS_MAX / 128},
                                    .offsets = offsets,
                                    .sizes = sizes};
        assert_int_equal(sky_block_put(b, &l, 1, SKY_TIME_NEVER, NULL), SKY_OK);
    }
    assert_int_equal(try_map(b, numbers, blocks, &m, &error), SKY_E_NOMEM);
    assert_non_null(strstr(error.text, "vm.max_map_count"));
    assert_null(m);
    m = map(b, numbers, 2); /* nothing was left behind */
    sky_mapping_close(m);
    for (size_t n = 0; n < blocks; n++)
        assert_removed(b, numbers[n]);
    free(offsets);
    free(sizes);
    sky_blob_close(b);
}

static void a_child_of_fork_has_none(void **state) {
    (void)state;
    sky_blob *b = open_blob(REGION);
    const uint64_t numbers[] = {601};
    publish(b, 601, 1);
    sky_mapping *m = map(b, numbers, 1);
    const pid_t child = fork();
    if (child == 0) {
        sky_span range;
        sky_mapping *other;
        const sky_key key = sky_fixture_key(601);
        bool forked = sky_mapping_view(m, 0, 0, 0, &range) == SKY_E_FORKED &&
                      sky_mapping_open(b, &key, 1, SKY_TIME_NEVER, &other, NULL) == SKY_E_FORKED;
        sky_mapping_close(m);
        _exit(forked ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_maps(m, numbers, 1);
    sky_mapping_close(m);
    sky_blob_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_several_owners_lie_side_by_side),
        cmocka_unit_test(a_mapping_ends_before_what_is_missing),
        cmocka_unit_test(what_is_mapped_stays),
        cmocka_unit_test(what_has_no_whole_pages_is_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(more_mappings_than_a_process_may_have_are_refused),
        cmocka_unit_test(a_child_of_fork_has_none),
    };
    return cmocka_run_group_tests(tests, start_host, stop_host);
}
