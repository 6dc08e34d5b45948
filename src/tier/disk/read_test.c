/* Gets of a disk tier, whatever part of an entry the kernel holds: the bytes are right and checked;
 * a small entry that is resident is read on the caller's thread, and nothing else is. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "io/clock.h"
#include "tier/disk/disk_fixture.h"
#include "tier/disk/format.h"

#define SMALL  65536u
#define SPANS  40u
#define ROUNDS 400

typedef struct {
    char *folder;
    sky_tier *tier;
} place;

static place place_open(const char *query) {
    place p = {.folder = disk_folder_make()};
    p.tier = disk_open(p.folder, query);
    return p;
}

static void place_close(place *p) {
    disk_close(p->tier);
    disk_folder_drop(p->folder);
}

static void advise(const place *p, uint64_t n, off_t from, off_t bytes, bool resident) {
    char path[256];
    static uint8_t sink[1 << 20];
    sky_key key = sky_fixture_key(n);
    disk_entry_path(p->folder, &key, path);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fdatasync(fd), 0);
    if (resident) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no more than that */
        assert_true(
            pread(fd, sink, (size_t)bytes < sizeof sink ? (size_t)bytes : sizeof sink, from) >= 0);
    } else {
        assert_int_equal(posix_fadvise(fd, from, bytes, POSIX_FADV_DONTNEED), 0);
    }
    close(fd);
}

/* One get by `attempt`: true when it was answered, and then right. */
static bool attempt(const place *p, uint64_t n, size_t bytes, const sky_call *call) {
    static uint8_t data[1 << 20];
    memset(data, 0, bytes);
    sky_span span = {data, sizeof data};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    if (!p->tier->ops->attempt(p->tier, &item, call))
        return false;
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.bytes, bytes);
    assert_true(sky_fixture_holds(data, bytes, n));
    return true;
}

static bool attempts_work_here(const place *p) {
    assert_int_equal(sky_fixture_put(p->tier, sky_fixture_key(99), NULL, 100, 99), SKY_OK);
    assert_int_equal(sky_fixture_check(p->tier, sky_fixture_key(99), 100, 99), SKY_OK);
    return attempt(p, 99, 100, NULL);
}

static void what_is_resident_is_read_on_the_callers_thread(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 65535, SMALL, 200000, 262144, 262145};
    place p = place_open("");
    if (!attempts_work_here(&p)) {
        place_close(&p);
        skip(); /* a kernel before 5.12, or a file system that cannot say what is resident */
    }
    for (uint64_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        bool small = sizes[n] <= 262144;
        sky_key key = sky_fixture_key(n);
        assert_int_equal(sky_fixture_put(p.tier, key, NULL, sizes[n], n), SKY_OK);
        assert_int_equal(sky_fixture_check(p.tier, key, sizes[n], n), SKY_OK);
        uint64_t hits = sky_fixture_counts(p.tier).hits;
        assert_int_equal(attempt(&p, n, sizes[n], NULL), small);
        assert_int_equal(sky_fixture_counts(p.tier).hits, hits + small);
        assert_false(attempt(&p, n, sizes[n], &(sky_call){.deadline_ns = 1})); /* long past */
    }
    assert_false(attempt(&p, 77, 0, NULL)); /* a miss is the thread's */
    place_close(&p);
}

static void a_direct_or_sealed_folder_is_never_read_so(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[300];
    place p = {folder, NULL};
    sky_error error;
    snprintf(url, sizeof url, "disk:%s?direct=on", folder);
    if (sky_disk_tier_open(url, &(sky_tier_env){0}, &p.tier, &error) == SKY_OK) {
        assert_int_equal(sky_fixture_put(p.tier, sky_fixture_key(1), NULL, SMALL, 1), SKY_OK);
        assert_int_equal(sky_fixture_check(p.tier, sky_fixture_key(1), SMALL, 1), SKY_OK);
        assert_false(attempt(&p, 1, SMALL, NULL));
        disk_close(p.tier);
    }
    disk_folder_drop(folder);
}

/* A flipped byte in a resident page: the attempt leaves it alone, the get judges it. */
static void damage_in_resident_pages_is_found(void **state) {
    (void)state;
    static const off_t places[] = {9, 3000, 4040, 4096, 40000, 4096 + SMALL - 1};
    char path[256];
    place p = place_open("");
    for (uint64_t n = 0; n < sizeof places / sizeof *places; n++) {
        sky_key key = sky_fixture_key(n);
        assert_int_equal(sky_fixture_put(p.tier, key, NULL, SMALL, n), SKY_OK);
        disk_entry_path(p.folder, &key, path);
        int fd = open(path, O_RDWR);
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, places[n]), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, places[n]), 1);
        close(fd);
        assert_false(attempt(&p, n, SMALL, NULL));
        assert_int_equal(sky_fixture_check(p.tier, key, SMALL, n), SKY_E_CORRUPT);
        assert_int_equal(sky_fixture_counts(p.tier).corrupt, n + 1);
        assert_int_equal(sky_fixture_one(p.tier, SKY_OP_HAS, key), SKY_MISS);
    }
    place_close(&p);
}

static void what_expired_is_not_read(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[300];
    sky_fixture_clock clock = SKY_FIXTURE_CLOCK(0);
    place p = {folder, NULL};
    sky_error error;
    snprintf(url, sizeof url, "disk:%s?ttl=10", folder);
    assert_int_equal(
        sky_disk_tier_open(url, &(sky_tier_env){.clock = &clock.clock}, &p.tier, &error), SKY_OK);
    assert_int_equal(sky_fixture_put(p.tier, sky_fixture_key(1), NULL, SMALL, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(p.tier, sky_fixture_key(1), SMALL, 1), SKY_OK);
    bool before = attempt(&p, 1, SMALL, NULL);
    clock.ahead_ms = 11000;
    assert_false(attempt(&p, 1, SMALL, NULL));
    assert_int_equal(sky_fixture_check(p.tier, sky_fixture_key(1), SMALL, 1), SKY_MISS);
    disk_close(p.tier);
    disk_folder_drop(folder);
    if (!before)
        skip();
}

/* ---- any range into any spans, whatever is resident ---- */

typedef struct {
    sky_span spans[SPANS];
    uint32_t count;
    uint8_t *data; /* behind each span one byte that must stay */
} random_spans;

/* Spans of random lengths that hold `bytes` together, some of them passed over. */
static void cut_spans(random_spans *s, size_t bytes, sky_prng *random) {
    uint8_t *at = s->data;
    for (s->count = 0; bytes > 0; s->count++) {
        size_t n = s->count == SPANS - 1 ? bytes : 1 + sky_prng_below(random, bytes);
        s->spans[s->count] = (sky_span){sky_prng_below(random, 5) ? at : NULL, n};
        at[n] = 0xa5;
        at += n + 1;
        bytes -= n;
    }
}

static bool spans_hold(const random_spans *s, const uint8_t *wanted) {
    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *data = s->spans[i].data;
        if (data &&
            (memcmp(data, wanted, s->spans[i].bytes) != 0 || data[s->spans[i].bytes] != 0xa5))
            return false;
        wanted += s->spans[i].bytes;
    }
    return true;
}

static void read_at_random(const char *query, uint64_t seed) {
    enum { ENTRIES = 4, BYTES_MAX = 3 << 20 };
    static const size_t sizes[ENTRIES] = {5000, 65536, 700001, BYTES_MAX};
    place p = place_open(query);
    sky_prng random;
    sky_prng_init(&random, seed);
    uint8_t *wanted[ENTRIES];
    random_spans s = {.data = malloc(BYTES_MAX + SPANS)};
    for (uint64_t n = 0; n < ENTRIES; n++) {
        wanted[n] = malloc(sizes[n]);
        sky_fixture_fill(wanted[n], sizes[n], n);
        assert_int_equal(sky_fixture_put(p.tier, sky_fixture_key(n), NULL, sizes[n], n), SKY_OK);
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t n = sky_prng_below(&random, ENTRIES);
        size_t from = sky_prng_below(&random, sizes[n]);
        size_t bytes = 1 + sky_prng_below(&random, sizes[n] - from);
        off_t at = (off_t)sky_prng_below(&random, sizes[n] + SKY_DISK_HEADER_BYTES);
        advise(&p, n, round % 3 ? at : 0, round % 5 ? 1 << 19 : 0, sky_prng_below(&random, 2));
        cut_spans(&s, bytes, &random);
        sky_item item = {.key = sky_fixture_key(n),
                         .range = {from, bytes},
                         .spans = s.spans,
                         .span_count = s.count};
        bool attempted = sky_prng_below(&random, 2) && p.tier->ops->attempt(p.tier, &item, NULL);
        if (!attempted)
            sky_fixture_run(p.tier, SKY_OP_GET, &item, 1, NULL);
        if (item.status != SKY_OK || item.bytes != bytes || !spans_hold(&s, wanted[n] + from))
            fail_msg("round %d: entry %d, %zu from %zu", round, (int)n, bytes, from);
    }
    assert_int_equal(sky_fixture_counts(p.tier).corrupt, 0);
    for (uint64_t n = 0; n < ENTRIES; n++)
        free(wanted[n]);
    free(s.data);
    place_close(&p);
}

static void any_range_is_right_whatever_is_resident(void **state) {
    (void)state;
    read_at_random("", 1);
    read_at_random("?direct=off", 2);
    setenv("SKYMEM_IO", "threads", 1);
    read_at_random("", 3);
    unsetenv("SKYMEM_IO");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_resident_is_read_on_the_callers_thread),
        cmocka_unit_test(a_direct_or_sealed_folder_is_never_read_so),
        cmocka_unit_test(damage_in_resident_pages_is_found),
        cmocka_unit_test(what_expired_is_not_read),
        cmocka_unit_test(any_range_is_right_whatever_is_resident),
    };
    unsetenv("SKYMEM_IO");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
