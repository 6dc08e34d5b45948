/* Proves: what is shown is found, and what is hidden is not; the owner sees what a reader keeps,
 * however keeping and hiding meet; pages and indexes that an enemy filled do no harm. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "io/sync.h"
#include "tier/shared_index.h"

#define BLOCKS 64u

static sky_shared_index *index_;
static sky_shared_reader reader;
static uint32_t number;

static sky_key key_of(uint32_t n) {
    sky_key key = {{0}};
    for (uint32_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)(n * 0x9e3779b1u >> i % 4 * 8) ^ (uint8_t)i;
    return key;
}

static uint64_t show(uint32_t n) {
    const sky_key key = key_of(n);
    return sky_shared_index_show(index_, &key,
                                 &(sky_shared_block){.at = 4096 * (uint64_t)n,
                                                     .bytes = 100 + n,
                                                     .number = n,
                                                     .coding = n % 16,
                                                     .evict = (uint8_t)(n % 3)});
}

static int begin(void **state) {
    (void)state;
    int page;
    assert_int_equal(sky_shared_index_create(BLOCKS, &index_), SKY_OK);
    assert_int_equal(sky_shared_index_join(index_, &number, &page), SKY_OK);
    assert_int_equal(sky_shared_reader_map_index(&reader, sky_shared_index_fd(index_)), SKY_OK);
    assert_int_equal(sky_shared_reader_map_page(&reader, page), SKY_OK);
    sky_local_close(page);
    return 0;
}

static int end(void **state) {
    (void)state;
    sky_shared_index_destroy(index_);
    sky_shared_reader_unmap(&reader);
    return 0;
}

static void what_is_shown_is_found(void **state) {
    (void)state;
    uint64_t stamps[BLOCKS];
    sky_shared_found f;
    uint32_t missing = 0;
    for (uint32_t n = 0; n < BLOCKS; n++)
        missing += (stamps[n] = show(n)) == 0;
    assert_true(missing < BLOCKS / 8); /* a bucket may be full */
    for (uint32_t n = 0; n < BLOCKS; n++) {
        const sky_key key = key_of(n);
        assert_int_equal(sky_shared_reader_find(&reader, &key, &f), stamps[n] != 0);
        if (stamps[n] == 0)
            continue;
        assert_true(f.block.at == 4096 * (uint64_t)n && f.block.bytes == 100 + n);
        assert_true(f.block.coding == n % 16 && f.block.evict == n % 3 && !f.block.pinned);
        assert_true(sky_shared_index_mark(index_, &key, stamps[n], SKY_EVICT_LAST, true));
        assert_false(sky_shared_index_mark(index_, &key, stamps[n], SKY_EVICT_LAST, true));
        assert_true(sky_shared_reader_find(&reader, &key, &f) && f.block.pinned);
        assert_true(f.block.evict == SKY_EVICT_LAST && f.block.coding == n % 16);
        sky_shared_index_hide(index_, &key, stamps[n]);
        assert_false(sky_shared_reader_find(&reader, &key, &f));
        assert_false(sky_shared_index_is_kept(index_, stamps[n]));
    }
}

static void what_is_kept_is_told(void **state) {
    (void)state;
    const sky_key key = key_of(7);
    sky_shared_found f;
    uint32_t hazard;
    uint64_t stamp = show(7);
    assert_true(sky_shared_reader_keep(&reader, &key, &f, &hazard));
    assert_int_equal(sky_shared_index_survey(index_), 1);
    assert_true(sky_shared_index_seems_kept(index_, stamp));
    sky_shared_index_hide(index_, &key, stamp);
    assert_true(sky_shared_index_is_kept(index_, stamp));
    uint64_t again = show(7); /* another payload under the key */
    assert_false(sky_shared_index_is_kept(index_, again));
    sky_shared_reader_let_go(&reader, hazard);
    assert_false(sky_shared_index_is_kept(index_, stamp));
    uint32_t kept = 0;
    for (uint32_t i = 0; i <= SKY_SHARED_HAZARDS; i++)
        kept += sky_shared_reader_keep(&reader, &key, &f, &hazard);
    assert_int_equal(kept, SKY_SHARED_HAZARDS); /* and no more */
    assert_int_equal(sky_shared_index_survey(index_), SKY_SHARED_HAZARDS);
    sky_shared_index_leave(index_, number); /* who is gone keeps nothing */
    assert_false(sky_shared_index_is_kept(index_, again));
}

static void who_is_ended_finds_nothing(void **state) {
    (void)state;
    const sky_key key = key_of(3);
    sky_shared_found f;
    uint32_t hazard;
    show(3);
    assert_true(sky_shared_reader_keep(&reader, &key, &f, &hazard));
    assert_true(sky_shared_index_end(index_, number));
    assert_false(sky_shared_reader_find(&reader, &key, &f));
    uint32_t other;
    assert_false(sky_shared_reader_keep(&reader, &key, &f, &other));
    sky_shared_reader_let_go(&reader, hazard);
    assert_false(sky_shared_index_end(index_, number));
}

static uint32_t used[4096], used_count;

static void note_use(void *context, uint32_t n) {
    (void)context;
    used[used_count++ % 4096] = n;
}

static uint64_t take_all(void) {
    uint64_t count;
    assert_false(sky_shared_index_uses(index_, note_use, NULL, &count));
    return count;
}

static void uses_are_told_once_and_in_order(void **state) {
    (void)state;
    sky_shared_found f;
    for (uint32_t n = 0; n < 3; n++) {
        const sky_key key = key_of(n);
        assert_int_not_equal(show(n), 0);
        assert_true(sky_shared_reader_find(&reader, &key, &f));
        sky_shared_reader_tell(&reader, &f);
    }
    const sky_key hidden = key_of(1);
    assert_true(sky_shared_reader_find(&reader, &hidden, &f));
    sky_shared_index_hide(index_, &hidden, f.stamp);
    used_count = 0;
    assert_int_equal(take_all(), 2);
    assert_true(used_count == 2 && used[0] == 0 && used[1] == 2);
    assert_int_equal(take_all(), 0);
}

/* The owner is to be woken once as the page fills, and nobody waits for it when it is full. */
static void what_finds_no_room_is_counted(void **state) {
    (void)state;
    sky_shared_found f;
    const sky_key key = key_of(0);
    assert_int_not_equal(show(0), 0);
    assert_true(sky_shared_reader_find(&reader, &key, &f));
    for (int round = 0; round < 3; round++) {
        uint32_t calls = 0;
        for (uint32_t n = 0; n < 5000; n++)
            calls += sky_shared_reader_tell(&reader, &f);
        assert_int_equal(calls, 1);
        used_count = 0;
        assert_int_equal(take_all(), 5000);
        assert_true(used_count >= 1024);
    }
}

/* A page is the reader's to fill as it likes. */
static void wild_pages_do_no_harm(void **state) {
    (void)state;
    const sky_key key = key_of(5);
    uint64_t stamp = show(5);
    uint8_t *page = (uint8_t *)reader.page;
    for (int round = 0; round < 3; round++) {
        memset(page, round == 0 ? 0xff : round, 8192);
        used_count = 0;
        (void)take_all();
        assert_true(used_count <= 1024);
        assert_true(sky_shared_index_survey(index_) <= SKY_SHARED_HAZARDS);
        assert_false(sky_shared_index_is_kept(index_, stamp));
    }
    memset(page, 0, 8192);
    sky_shared_found f;
    assert_true(sky_shared_reader_find(&reader, &key, &f));
}

/* Nor is an index trusted: no reader passes on what no answer may say. */
static void what_no_block_is_is_not_found(void **state) {
    (void)state;
    static const sky_shared_block wild[] = {{.coding = SKY_CODING_MAX + 1},
                                            {.evict = SKY_EVICT_LAST + 1}};
    for (uint32_t i = 0; i < 2; i++) {
        const sky_key key = key_of(i);
        sky_shared_found f;
        uint32_t hazard;
        assert_int_not_equal(sky_shared_index_show(index_, &key, &wild[i]), 0);
        assert_false(sky_shared_reader_find(&reader, &key, &f));
        assert_false(sky_shared_reader_keep(&reader, &key, &f, &hazard));
    }
}

static void other_memory_is_no_index(void **state) {
    (void)state;
    sky_shared_reader r = {0};
    uint8_t *at;
    int fd, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(sky_shared_reader_map_index(&r, null), SKY_E_CORRUPT);
    assert_int_equal(sky_shared_reader_map_index(&r, -1), SKY_E_CORRUPT);
    assert_int_equal(sky_pages_reserve(1 << 20, (void **)&at, NULL), SKY_OK);
    static const size_t sizes[] = {4096, 4096 + 3 * 256}; /* nothing, and no power of two */
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sky_shared_make(at, sizes[i], SKY_SHARED_READ, &fd), SKY_OK);
        assert_int_equal(sky_shared_reader_map_index(&r, fd), SKY_E_CORRUPT);
        assert_int_equal(sky_shared_reader_map_page(&r, fd), SKY_E_CORRUPT);
        sky_local_close(fd);
    }
    assert_int_equal(sky_shared_reader_map_index(&reader, sky_shared_index_fd(index_)),
                     SKY_E_CORRUPT); /* a second one */
    sky_pages_release(at, 1 << 20);
    close(null);
}

/* ---- keeping and hiding at the same time ---- */

#define ROUNDS 200000u

static _Atomic uint64_t place; /* of the payload that is shown; odd: it is gone */
static _Atomic bool over;

static void *keep_on(void *argument) {
    uint64_t *wrong = argument;
    const sky_key key = key_of(9);
    sky_shared_found f;
    uint32_t hazard;
    while (!atomic_load(&over)) {
        if (!sky_shared_reader_keep(&reader, &key, &f, &hazard))
            continue;
        for (int i = 0; i < 20; i++) /* while it is kept, it is not freed */
            *wrong += atomic_load(&place) > f.block.at;
        sky_shared_reader_let_go(&reader, hazard);
    }
    return NULL;
}

/* The owner shows, hides, waits until nobody keeps it, and frees, again and again. */
static void what_is_kept_is_never_freed(void **state) {
    (void)state;
    const sky_key key = key_of(9);
    uint64_t wrong = 0, kept = 0;
    sky_thread thread = {0};
    atomic_store(&over, false);
    assert_int_equal(sky_thread_start(&thread, "keeps", keep_on, &wrong), SKY_OK);
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        atomic_store(&place, n);
        const uint64_t stamp = sky_shared_index_show(index_, &key,
                                                     &(sky_shared_block){.at = n, .bytes = 1});
        sky_shared_index_hide(index_, &key, stamp);
        while (sky_shared_index_is_kept(index_, stamp))
            kept++;
    }
    atomic_store(&over, true);
    sky_thread_join(&thread);
    assert_int_equal(wrong, 0);
    print_message("%lu looks found it kept\n", (unsigned long)kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_shown_is_found, begin, end),
        cmocka_unit_test_setup_teardown(what_is_kept_is_told, begin, end),
        cmocka_unit_test_setup_teardown(who_is_ended_finds_nothing, begin, end),
        cmocka_unit_test_setup_teardown(uses_are_told_once_and_in_order, begin, end),
        cmocka_unit_test_setup_teardown(what_finds_no_room_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(wild_pages_do_no_harm, begin, end),
        cmocka_unit_test_setup_teardown(what_no_block_is_is_not_found, begin, end),
        cmocka_unit_test_setup_teardown(other_memory_is_no_index, begin, end),
        cmocka_unit_test_setup_teardown(what_is_kept_is_never_freed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
