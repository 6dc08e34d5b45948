/* Two tiers on one folder, step by step: a pin set or taken back while the other replaces the entry
 * is kept, nothing the other has just stored is dropped on an old judgement, what one stored or
 * removed the other finds, and both make room and tidy up without getting in each other's way. All
 * that with entries in files, and again with entries in segments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/file.h"
#include "tier/disk/disk.h"
#include "tier/disk/disk_fixture.h"

#define BYTES 5000u
#define TRIES 20

typedef struct {
    char *folder;
    sky_tier *a, *b;
    sky_key key;
} pair;

static sky_disk *inside(sky_tier *tier) {
    return (sky_disk *)(void *)tier; /* its first member */
}

static pair pair_open(void) {
    pair p = {.folder = disk_folder_make(), .key = sky_fixture_key(1)};
    p.a = disk_open(p.folder, "");
    assert_int_equal(sky_fixture_put(p.a, p.key, NULL, BYTES, 1), SKY_OK);
    p.b = disk_open(p.folder, "");
    assert_int_equal(sky_fixture_check(p.b, p.key, BYTES, 1), SKY_OK);
    return p;
}

static void pair_close(pair *p) {
    disk_close(p->a);
    disk_close(p->b);
    disk_folder_drop(p->folder);
}

static bool pinned_in_file(const pair *p) {
    sky_disk_header header;
    assert_int_equal(sky_disk_entry_load(&inside(p->a)->folder, &p->key, &header), SKY_OK);
    return header.access.pinned;
}

/* A put that is written and synced and has no name yet, as the tier's thread leaves it. */
typedef struct {
    sky_disk *disk;
    sky_disk_fact fact;
    sky_disk_temp temp;
    sky_disk_opened entry;
} put;

static put put_begin(sky_tier *tier, const sky_key *key, uint64_t seed) {
    uint8_t *bytes = aligned_alloc(SKY_DISK_ALIGN, 3 * SKY_DISK_ALIGN);
    assert_non_null(bytes);
    memset(bytes, 0, 3 * SKY_DISK_ALIGN);
    sky_fixture_fill(bytes + SKY_DISK_HEADER_BYTES, BYTES, seed);
    put w = {.disk = inside(tier)};
    sky_disk *d = w.disk;
    sky_mutex_lock(&d->mutex);
    const sky_disk_fact *old = sky_disk_catalogue_find(d->catalogue, key);
    sky_disk_header header = {.key = *key,
                              .payload_bytes = BYTES,
                              .set_ms = sky_disk_wall_ms(d),
                              .access.pinned = old && old->pinned};
    sky_mutex_unlock(&d->mutex);
    sky_disk_pages pages;
    sky_disk_pages_begin(&pages, &header, 0);
    sky_disk_pages_note(&pages, bytes + SKY_DISK_HEADER_BYTES, 2 * SKY_DISK_ALIGN);
    sky_disk_header_encode(&header, bytes);
    assert_int_equal(sky_disk_temp_create(&d->folder, key, 3 * SKY_DISK_ALIGN, sky_fixture_durable,
                                          &w.temp, &w.entry),
                     SKY_OK);
    assert_int_equal(sky_disk_in_segment(&w.temp.place), sky_fixture_durable);
    assert_int_equal(sky_file_write_at(w.entry.fd, bytes, 3 * SKY_DISK_ALIGN, w.temp.place.base),
                     SKY_OK);
    w.temp.place.checksum = sky_disk_header_checksum(bytes);
    free(bytes);
    w.fact = sky_disk_fact_of(&header);
    return w;
}

static void put_end(put *w) {
    sky_mutex_lock(&w->disk->mutex);
    assert_int_equal(sky_disk_publish(w->disk, &w->temp, &w->fact), SKY_OK);
    assert_int_equal(sky_disk_settle(w->disk, &w->temp, &w->fact.key), SKY_OK);
    sky_mutex_unlock(&w->disk->mutex);
    sky_file_close(w->entry.fd);
}

static void a_pin_outlives_a_replacement_under_way(void **state) {
    (void)state;
    pair p = pair_open();
    put w = put_begin(p.b, &p.key, 2);
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_PIN, p.key), SKY_OK);
    put_end(&w);
    assert_true(pinned_in_file(&p));
    assert_int_equal(sky_fixture_check(p.a, p.key, BYTES, 2), SKY_OK);
    assert_int_equal(sky_fixture_one(p.b, SKY_OP_UNPIN, p.key), SKY_OK);
    assert_false(pinned_in_file(&p));
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_UNPIN, p.key), SKY_E_PARAM);
    pair_close(&p);
}

static void an_unpin_outlives_a_replacement_under_way(void **state) {
    (void)state;
    pair p = pair_open();
    assert_int_equal(sky_fixture_one(p.b, SKY_OP_PIN, p.key), SKY_OK);
    put w = put_begin(p.b, &p.key, 2);
    assert_true(w.fact.pinned);
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_UNPIN, p.key), SKY_OK);
    put_end(&w);
    assert_false(pinned_in_file(&p));
    assert_int_equal(sky_fixture_one(p.b, SKY_OP_UNPIN, p.key), SKY_E_PARAM);
    pair_close(&p);
}

static void what_was_removed_comes_back_without_its_pin(void **state) {
    (void)state;
    pair p = pair_open();
    assert_int_equal(sky_fixture_one(p.b, SKY_OP_PIN, p.key), SKY_OK);
    put w = put_begin(p.b, &p.key, 2);
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_REMOVE, p.key), SKY_OK);
    put_end(&w);
    assert_false(pinned_in_file(&p));
    assert_int_equal(sky_fixture_check(p.a, p.key, BYTES, 2), SKY_OK);
    pair_close(&p);
}

/* Whole puts, as callers make them: nothing in between. */
static void a_put_keeps_the_pin_of_another(void **state) {
    (void)state;
    pair p = pair_open();
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_PIN, p.key), SKY_OK);
    assert_int_equal(sky_fixture_put(p.b, p.key, NULL, BYTES, 2), SKY_OK);
    assert_true(pinned_in_file(&p));
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_UNPIN, p.key), SKY_OK);
    assert_int_equal(sky_fixture_put(p.b, p.key, NULL, BYTES, 3), SKY_OK);
    assert_false(pinned_in_file(&p));
    pair_close(&p);
}

/* The pin waits for the old file's lock and gets it when that file has lost its name. A try in
 * which it lost patience instead says so, and is repeated. */
static sky_status pin_across_a_replacement(const pair *p) {
    sky_disk_hold hold;
    sky_item item = {.key = p->key};
    sky_batch batch;
    uint64_t replaced;
    assert_int_equal(sky_disk_entry_hold(&inside(p->b)->folder, &p->key, SKY_TIME_NEVER, &hold),
                     SKY_OK);
    put w = put_begin(p->b, &p->key, 2);
    assert_int_equal(sky_tier_submit(p->a, SKY_OP_PIN, &item, 1, NULL, &batch), SKY_OK);
    assert_int_equal(sky_tier_wait(p->a, batch, sky_now() + SKY_MS(20)), SKY_E_DEADLINE);
    assert_int_equal(sky_disk_temp_publish(&w.disk->folder, &w.temp, &p->key, &replaced), SKY_OK);
    sky_file_close(w.entry.fd);
    sky_disk_entry_release(&hold);
    assert_int_equal(sky_tier_wait(p->a, batch, SKY_TIME_NEVER), SKY_OK);
    return item.status;
}

static void a_pin_follows_the_name(void **state) {
    (void)state;
    pair p = pair_open();
    sky_status status = SKY_E_BUSY;
    for (int i = 0; i < TRIES && status == SKY_E_BUSY; i++)
        status = pin_across_a_replacement(&p);
    assert_int_equal(status, SKY_OK);
    assert_true(pinned_in_file(&p));
    pair_close(&p);
}

/* Whoever holds an entry keeps others from its record for a while, and no longer. */
static void an_entry_held_for_ever_costs_little(void **state) {
    (void)state;
    pair p = pair_open();
    sky_disk_hold hold;
    assert_int_equal(sky_disk_entry_hold(&inside(p.b)->folder, &p.key, 0, &hold), SKY_OK);
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_PIN, p.key), SKY_E_BUSY);
    assert_int_equal(sky_fixture_put(p.a, p.key, NULL, BYTES, 2), SKY_OK);
    assert_int_equal(sky_fixture_check(p.b, p.key, BYTES, 2), SKY_OK);
    sky_disk_entry_release(&hold);
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_PIN, p.key), SKY_OK);
    pair_close(&p);
}

static void damage_header(const pair *p) {
    sky_disk_hold hold;
    assert_int_equal(sky_disk_entry_hold(&inside(p->a)->folder, &p->key, 0, &hold), SKY_OK);
    assert_int_equal(sky_file_write_at(hold.entry.fd, "x", 1, hold.entry.place.base + 100), SKY_OK);
    sky_disk_entry_release(&hold);
}

static sky_status drop_wanting(sky_tier *tier, const sky_key *key, size_t *count) {
    sky_disk *d = inside(tier);
    sky_disk_header header;
    sky_mutex_lock(&d->mutex);
    sky_status status = sky_disk_drop_wanting(d, key, &header, count);
    sky_mutex_unlock(&d->mutex);
    return status;
}

/* It was read damaged, or absent, and by the time of the verdict another had stored it anew. */
static void what_was_stored_anew_is_not_dropped(void **state) {
    (void)state;
    pair p = pair_open();
    sky_disk_header header;
    size_t count;
    damage_header(&p);
    assert_int_equal(sky_disk_entry_load(&inside(p.b)->folder, &p.key, &header), SKY_E_CORRUPT);
    assert_int_equal(sky_fixture_put(p.a, p.key, NULL, BYTES, 2), SKY_OK);
    assert_int_equal(drop_wanting(p.b, &p.key, &count), SKY_OK);
    assert_int_equal(count, 0);
    assert_int_equal(sky_fixture_check(p.b, p.key, BYTES, 2), SKY_OK);
    assert_int_equal(sky_fixture_one(p.b, SKY_OP_PIN, p.key), SKY_OK);
    damage_header(&p);
    assert_int_equal(drop_wanting(p.b, &p.key, &count), SKY_E_CORRUPT);
    assert_int_equal(count, 1);
    assert_int_equal(drop_wanting(p.b, &p.key, &count), SKY_MISS);
    assert_int_equal(count, 0);
    pair_close(&p);
}

/* A catalogue that says expired, of a file that is not any more. */
static void what_expired_here_and_was_renewed_there_is_found(void **state) {
    (void)state;
    pair p = pair_open();
    sky_disk *d = inside(p.b);
    sky_mutex_lock(&d->mutex);
    sky_disk_catalogue_find(d->catalogue, &p.key)->expire_ms = 1;
    sky_mutex_unlock(&d->mutex);
    assert_int_equal(sky_fixture_put(p.a, p.key, NULL, BYTES, 2), SKY_OK);
    assert_int_equal(sky_fixture_one(p.b, SKY_OP_HAS, p.key), SKY_OK);
    assert_int_equal(sky_fixture_check(p.b, p.key, BYTES, 2), SKY_OK);
    pair_close(&p);
}

static sky_status get_within(sky_tier *tier, const sky_key *key, size_t room) {
    static uint8_t into[2 * BYTES];
    sky_span span = {into, room};
    sky_item item = {.key = *key, .spans = &span, .span_count = 1};
    sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
    return item.status;
}

static uint64_t bytes_told(sky_tier *tier, const sky_key *key, size_t count) {
    sky_item items[2] = {{.key = *key}, {.key = *key}};
    sky_fixture_run(tier, SKY_OP_HAS, items, count, NULL);
    return items[0].status == SKY_OK ? items[0].bytes : UINT64_MAX;
}

/* Many keys are answered from memory; one alone, and whoever read the file, knows better. */
static void a_has_of_one_key_is_what_the_other_left(void **state) {
    (void)state;
    pair p = pair_open();
    assert_int_equal(sky_fixture_put(p.a, p.key, NULL, 2 * BYTES, 2), SKY_OK);
    assert_int_equal(bytes_told(p.b, &p.key, 2), BYTES);
    assert_int_equal(bytes_told(p.b, &p.key, 1), 2 * BYTES);
    assert_int_equal(bytes_told(p.b, &p.key, 2), 2 * BYTES);
    assert_int_equal(sky_fixture_put(p.b, p.key, NULL, 100, 3), SKY_OK);
    assert_int_equal(sky_fixture_put(p.a, p.key, NULL, BYTES, 4), SKY_OK);
    assert_int_equal(get_within(p.b, &p.key, 100), SKY_E_DST_SMALL);
    assert_int_equal(bytes_told(p.b, &p.key, 2), BYTES); /* the get saw it */
    assert_int_equal(sky_fixture_one(p.a, SKY_OP_REMOVE, p.key), SKY_OK);
    assert_int_equal(bytes_told(p.b, &p.key, 1), UINT64_MAX);
    assert_int_equal(bytes_told(p.b, &p.key, 2), UINT64_MAX);
    pair_close(&p);
}

/* The same facts anew, as each survey of the folder brings them. */
static void a_large_catalogue_is_rebuilt_at_once(void **state) {
    (void)state;
    enum { ENTRIES = 131072 };
    sky_disk_catalogue *c;
    sky_disk_fact *facts = calloc(ENTRIES, sizeof *facts);
    assert_non_null(facts);
    assert_int_equal(sky_disk_catalogue_create(ENTRIES, &c), SKY_OK);
    for (uint32_t i = 0; i < ENTRIES; i++)
        facts[i] = (sky_disk_fact){.key = sky_fixture_key(i), .used_ms = i, .payload_bytes = 1};
    sky_time start = sky_now();
    assert_int_equal(sky_disk_catalogue_rebuild(c, facts, ENTRIES), 0);
    sky_time from_nothing = sky_now() - start;
    start = sky_now();
    assert_int_equal(sky_disk_catalogue_rebuild(c, facts, ENTRIES), 0);
    assert_true(sky_now() - start <
                10 * from_nothing); /* a search for each entry takes 100 times */
    assert_int_equal(sky_disk_catalogue_count(c), ENTRIES);
    assert_int_equal(sky_disk_catalogue_room(c), 0);
    sky_disk_catalogue_destroy(c);
    free(facts);
}

/* Two writers at the most entries there may be, not bytes: for each that comes one goes, and nobody
 * reads the folder, where a survey would drop a file without sense. */
static void two_that_are_out_of_places_do_not_look(void **state) {
    (void)state;
    enum { PLACES = 1024, MORE = 40 };
    char *folder = disk_folder_make(), path[256];
    const char *query = "?max=60MiB&direct=off";
    sky_tier *a = disk_open(folder, query);
    for (uint64_t n = 0; n < PLACES; n++)
        assert_int_equal(sky_fixture_put(a, sky_fixture_key(n), NULL, 1, n), SKY_OK);
    sky_tier *b = disk_open(folder, query);
    sky_key odd = sky_fixture_key(9999999), beside = sky_fixture_key(1);
    memcpy(odd.bytes, beside.bytes, 2); /* in a folder that is there */
    disk_entry_path(folder, &odd, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    for (uint64_t n = 0; n < MORE; n++)
        assert_int_equal(sky_fixture_put(n % 2 ? a : b, sky_fixture_key(PLACES + n), NULL, 1, n),
                         SKY_OK);
    assert_int_equal(disk_count_files(folder, 'e'), PLACES + 1);
    assert_int_equal(remove(path), 0);
    for (uint64_t n = 0; n < MORE; n++)
        assert_int_equal(sky_fixture_check(a, sky_fixture_key(PLACES + n), 1, n), SKY_OK);
    disk_close(a);
    disk_close(b);
    disk_folder_drop(folder);
}

typedef struct {
    sky_tier *tier;
    atomic_bool over;
    unsigned failed;
} surveyor;

static void *survey(void *argument) {
    surveyor *s = argument;
    while (!s->over) {
        sky_verify_report report = {0};
        s->failed += s->tier->ops->verify(s->tier, &report) != SKY_OK || report.corrupt > 0;
    }
    return NULL;
}

/* One makes folders and empties them while the other's surveys remove the empty ones. */
static void empty_folders_go_and_no_entry_with_them(void **state) {
    (void)state;
    enum { KEYS = 300 };
    static uint8_t large[SKY_SEGMENT_PAYLOAD_MAX + 1]; /* durable, and in a file all the same */
    char *folder = disk_folder_make();
    sky_tier *tier = disk_open(folder, "?direct=off");
    surveyor s = {.tier = disk_open(folder, "?direct=off")};
    sky_thread thread = {0};
    assert_int_equal(sky_thread_start(&thread, "surveyor", survey, &s), SKY_OK);
    for (uint64_t n = 0; n < KEYS; n++) {
        sky_call durable = {.durable = n % 8 == 0};
        sky_span span = {large, durable.durable ? sizeof large : 8};
        sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        sky_fixture_run(tier, SKY_OP_PUT, &item, 1, &durable);
        assert_int_equal(item.status, SKY_OK);
        if (n % 3)
            assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, item.key), SKY_OK);
    }
    s.over = true;
    sky_thread_join(&thread);
    assert_int_equal(s.failed, 0);
    assert_int_equal(disk_count_files(folder, 'e'), KEYS / 3);
    for (uint64_t n = 0; n < KEYS; n += 3)
        assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(n)), SKY_OK);
    assert_true(disk_count_files(folder, 'd') > 0);
    sky_verify_report report = {0};
    assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    assert_int_equal(disk_count_files(folder, 'd'), 0);
    disk_close(s.tier);
    disk_close(tier);
    disk_folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest pairs[] = {
        cmocka_unit_test(a_pin_outlives_a_replacement_under_way),
        cmocka_unit_test(an_unpin_outlives_a_replacement_under_way),
        cmocka_unit_test(what_was_removed_comes_back_without_its_pin),
        cmocka_unit_test(a_put_keeps_the_pin_of_another),
        cmocka_unit_test(a_pin_follows_the_name),
        cmocka_unit_test(an_entry_held_for_ever_costs_little),
        cmocka_unit_test(what_was_stored_anew_is_not_dropped),
        cmocka_unit_test(what_expired_here_and_was_renewed_there_is_found),
        cmocka_unit_test(a_has_of_one_key_is_what_the_other_left),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_catalogue_is_rebuilt_at_once),
        cmocka_unit_test(two_that_are_out_of_places_do_not_look),
        cmocka_unit_test(empty_folders_go_and_no_entry_with_them),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("in files", pairs, NULL, NULL);
    sky_fixture_durable = true;
    return failed + cmocka_run_group_tests_name("in segments", pairs, NULL, NULL);
}
