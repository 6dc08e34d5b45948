/* Proves: hierarchies open from URLs or say why not, list, verify and count their tiers, close with
 * everything written, serve several threads at once, and read what was written before, here or by
 * another process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/tier.h>

#include "cache/hierarchy_fixture.h"
#include "io/sync.h"
#include "tier/disk/disk_fixture.h"

static void prefix_counts_the_leading_run(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_key keys[6];
    uint64_t bytes[6] = {0};
    for (uint64_t n = 0; n < 6; n++)
        keys[n] = sky_fixture_key(n);
    assert_int_equal(sky_setting_put(s.cache, 0, 0, &SKY_NEAR_ONLY), SKY_OK);
    sky_setting_plant(s.far[0], 1, 1);
    assert_int_equal(sky_setting_put(s.cache, 2, 2, &SKY_NEAR_ONLY), SKY_OK);
    sky_setting_plant(s.far[0], 4, 4);
    size_t present;
    assert_int_equal(sky_cache_prefix(s.cache, keys, 6, NULL, bytes, &present), SKY_OK);
    assert_int_equal(present, 3);
    assert_true(bytes[0] == SKY_ONE_BYTES && bytes[2] == SKY_ONE_BYTES && bytes[3] == 0);
    assert_int_equal(sky_cache_prefix(s.cache, keys + 3, 3, NULL, NULL, &present), SKY_OK);
    assert_int_equal(present, 0);
    assert_int_equal(sky_cache_prefix(s.cache, keys, 0, NULL, NULL, &present), SKY_OK);
    assert_int_equal(present, 0);
    sky_scripted_say(s.far[0], SKY_E_IO); /* key 1 may be there or not */
    assert_int_equal(sky_cache_prefix(s.cache, keys, 6, NULL, NULL, &present), SKY_E_IO);
    assert_int_equal(present, 1);
    sky_scripted_say(s.far[0], SKY_OK);
    sky_cache_close(s.cache);
}

static bool count_entry(void *context, const sky_entry *entry) {
    size_t *counts = context;
    counts[entry->tier]++;
    return counts[2] == 0; /* stop in the last tier */
}

static void all_tiers_are_listed_and_verified(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 2);
    for (uint64_t n = 0; n < 3; n++)
        assert_int_equal(sky_setting_put(s.cache, n, n, &(sky_call){.durable = true}), SKY_OK);
    size_t counts[3] = {0};
    assert_int_equal(sky_list(s.cache, count_entry, counts), SKY_OK);
    assert_true(counts[0] == 3 && counts[1] == 3 && counts[2] == 1);
    sky_verify_report report;
    assert_int_equal(sky_verify(s.cache, &report), SKY_OK);
    assert_int_equal(report.entries, 9);
    assert_int_equal(report.bytes, 9 * SKY_ONE_BYTES);
    assert_int_equal(sky_tier_count(s.cache), 3);
    sky_tier_stat stat;
    assert_int_equal(sky_cache_stat(s.cache, 3, &stat), SKY_E_PARAM);
    assert_int_equal(sky_tier_traits(s.cache, 0), sky_setting_stat(s.cache, 0).traits);
    assert_true(sky_tier_traits(s.cache, 0) & SKY_TIER_LEASES);
    assert_int_equal(sky_tier_traits(s.cache, 3), 0);
    assert_int_equal(sky_tier_traits(NULL, 0), 0);
    sky_cache_close(s.cache);
}

/* A store that cancels the check that reads it. */
static sky_cache *checked;
static int values_read;

static sky_status cancelling_open(const char *where, void **self, sky_error *error) {
    (void)where, (void)self, (void)error;
    return SKY_OK;
}

static sky_status cancelling_read(void *self, const sky_key *key, uint64_t offset, void *data,
                                  uint64_t bytes, uint64_t *value_bytes) {
    (void)self, (void)key, (void)offset, (void)data, (void)bytes, (void)value_bytes;
    values_read++;
    sky_verify_cancel(checked);
    return SKY_MISS;
}

static sky_status cancelling_write(void *self, const sky_key *key, const void *value,
                                   uint64_t bytes, bool durable) {
    (void)self, (void)key, (void)value, (void)bytes, (void)durable;
    return SKY_OK;
}

static sky_status cancelling_remove(void *self, const sky_key *key) {
    (void)self, (void)key;
    return SKY_MISS;
}

static sky_status cancelling_list(void *self, sky_tier_key_fn each, void *context) {
    (void)self;
    for (uint64_t n = 0; n < 3; n++) {
        sky_key key = sky_fixture_key(n);
        if (!each(context, &key))
            break;
    }
    return SKY_OK;
}

static void a_check_is_cancelled_between_two_entries(void **state) {
    (void)state;
    static const sky_tier_driver driver = {.struct_bytes = sizeof driver,
                                           .threads = 1,
                                           .open = cancelling_open,
                                           .read = cancelling_read,
                                           .write = cancelling_write,
                                           .remove = cancelling_remove,
                                           .list = cancelling_list};
    assert_int_equal(sky_tier_register("cancelling", &driver), SKY_OK);
    sky_verify_cancel(NULL);
    assert_int_equal(
        sky_cache_open((const char *[]){"mem:1MiB", "cancelling:1"}, 2, &checked, NULL), SKY_OK);
    sky_verify_report report = {.entries = 77};
    sky_verify_cancel(checked); /* nothing is under way */
    for (int round = 1; round < 3; round++) {
        assert_int_equal(sky_verify(checked, &report), SKY_E_CANCELLED);
        assert_int_equal(values_read, round); /* a new one begins anew */
        assert_int_equal(report.entries, 77);
    }
    sky_cache_close(checked);
}

static void memory_and_disk_end_a_check_that_is_cancelled(void **state) {
    (void)state;
    static atomic_bool cancelled;
    const sky_tier_env env = {.verify_cancelled = &cancelled};
    char *folder = disk_folder_make(), url[128];
    snprintf(url, sizeof url, "disk:%s", folder);
    sky_tier *tiers[2];
    assert_int_equal(sky_memory_tier_open("mem:1MiB", &env, &tiers[0], NULL), SKY_OK);
    assert_int_equal(sky_disk_tier_open(url, &env, &tiers[1], NULL), SKY_OK);
    for (size_t t = 0; t < 2; t++) {
        uint8_t byte = 1;
        sky_span span = {&byte, 1};
        sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
        sky_fixture_run(tiers[t], SKY_OP_PUT, &item, 1, NULL);
        sky_verify_report report = {0};
        atomic_store(&cancelled, true);
        assert_int_equal(tiers[t]->ops->verify(tiers[t], &report), SKY_E_CANCELLED);
        assert_int_equal(report.entries, 0);
        atomic_store(&cancelled, false);
        assert_int_equal(tiers[t]->ops->verify(tiers[t], &report), SKY_OK);
        assert_int_equal(report.entries, 1);
        tiers[t]->ops->close(tiers[t]);
    }
    disk_folder_drop(folder);
}

static void bad_hierarchies_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *url;
        sky_status status;
        const char *says;
    } bad[] = {{"mem", SKY_E_SYNTAX, "SCHEME:PATH"},
               {"tape:/dev/st0", SKY_E_SYNTAX, "'tape'"},
               {"mem:lots", SKY_E_SYNTAX, "mem:lots"},
               {"disk:/x?level=4&level=6", SKY_E_SYNTAX, "'level' stands there twice"},
               {"mem:1MiB?colour=red", SKY_E_SYNTAX, "colour"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *urls[] = {"mem:1MiB", bad[i].url};
        sky_cache *c = NULL;
        sky_error error = {0};
        assert_int_equal(sky_cache_open(urls, 2, &c, &error), bad[i].status);
        assert_int_equal(error.status, bad[i].status);
        assert_non_null(strstr(error.text, bad[i].says));
        assert_null(c);
    }
    sky_cache *c;
    const char *many[SKY_TIERS_MAX + 1];
    for (size_t i = 0; i <= SKY_TIERS_MAX; i++)
        many[i] = "mem:1MiB";
    assert_int_equal(sky_cache_open(many, 0, &c, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_open(many, SKY_TIERS_MAX + 1, &c, NULL), SKY_E_PARAM);
    sky_cache_close(NULL);
}

static void one_folder_is_one_tier(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    char url[3][200];
    snprintf(url[0], sizeof url[0], "disk:%s", folder);
    snprintf(url[1], sizeof url[1], "disk:%s/.//?max=1MiB", folder);
    snprintf(url[2], sizeof url[2], "disk:%s/below", folder);
    sky_cache *c = NULL;
    sky_error error = {0};
    const char *twice[] = {url[0], "mem:1MiB", url[1]}, *apart[] = {url[0], url[2]};
    assert_int_equal(sky_cache_open(twice, 3, &c, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "same folder"));
    assert_null(c);
    assert_int_equal(sky_cache_open(apart, 2, &c, &error), SKY_OK);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

/* What a caller can get wrong and the cache can see: SKY_E_PARAM, and nothing has changed. */
static void wrong_arguments_are_refused(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 0);
    sky_cache *c = s.cache, *none = (sky_cache *)-1;
    const char *urls[] = {"mem:1MiB", NULL};
    sky_error error = {.text = ""};
    assert_int_equal(sky_cache_open(NULL, 1, &none, &error), SKY_E_PARAM);
    assert_int_equal(sky_cache_open(urls, 2, &none, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "store 2 of 2"));
    assert_int_equal(sky_cache_open(urls, 1, NULL, NULL), SKY_E_PARAM);
    assert_ptr_equal(none, (sky_cache *)-1);
    sky_one o;
    sky_one_make(&o, 1);
    sky_batch batch = {7};
    sky_item bad = o.item;
    bad.spans = NULL;
    assert_int_equal(sky_submit(c, SKY_OP_PUT, &bad, 1, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_submit(c, SKY_OP_GET, NULL, 1, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_submit(c, SKY_OP_GET, &o.item, 0, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_submit(c, (sky_op)99, &o.item, 1, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_submit(c, SKY_OP_GET, &o.item, 1, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_submit(NULL, SKY_OP_GET, &o.item, 1, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_run(NULL, SKY_OP_GET, &o.item, 1, NULL), SKY_E_PARAM);
    sky_item nameless = o.item, child = o.item;
    nameless.name_bytes = 7;
    child.name = "child";
    child.name_bytes = 5;
    child.parent.bytes[0] = 1;
    assert_int_equal(sky_submit(c, SKY_OP_PUT, &nameless, 1, NULL, &batch), SKY_E_PARAM);
    assert_int_equal(sky_submit(c, SKY_OP_PUT, &child, 1, NULL, &batch), SKY_E_PARAM);
    const sky_call levels[] = {
        {.coding = 9}, {.wanted = 9}, {.coding = 15}, {.wanted = 15}, {.coding = 16}};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sky_submit(c, SKY_OP_PUT, &o.item, 1, &levels[i], &batch), SKY_E_PARAM);
    const sky_block_codec broken = {.payload_bytes = 1};
    sky_cache_codec_set(c, &broken); /* nothing: were it taken, the next put would fall into it */
    assert_int_equal(batch.id, 7);
    assert_int_equal(sky_wait(NULL, batch, 0), SKY_E_PARAM);
    assert_int_equal(sky_wait(c, batch, 0), SKY_E_PARAM);
    assert_int_equal(sky_drain(c, NULL, 3), 0);
    assert_int_equal(sky_drain(NULL, &batch, 1), 0);
    assert_int_equal(sky_event_fd(NULL), -1);
    size_t present = 9;
    assert_int_equal(sky_cache_prefix(c, NULL, 3, NULL, NULL, &present), SKY_E_PARAM);
    assert_int_equal(present, 0);
    present = 9;
    assert_int_equal(sky_cache_prefix(c, NULL, 0, NULL, NULL, &present), SKY_OK);
    assert_int_equal(present, 0);
    assert_int_equal(sky_cache_prefix(c, &o.item.key, 1, NULL, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_prefix(NULL, &o.item.key, 1, NULL, NULL, &present), SKY_E_PARAM);
    assert_int_equal(sky_flush(NULL, 0, NULL), SKY_E_PARAM);
    assert_int_equal(sky_list(c, NULL, NULL), SKY_E_PARAM);
    assert_int_equal(sky_verify(c, NULL), SKY_E_PARAM);
    assert_int_equal(sky_cache_stat(c, 0, NULL), SKY_E_PARAM);
    assert_int_equal(sky_tier_count(NULL), 0);
    sky_cancel(NULL, batch);
    sky_release(NULL, (sky_lease){1});
    sky_release(c, (sky_lease){UINT64_MAX});
    sky_cache_codec_set(NULL, NULL);
    sky_cache_close(NULL);
    sky_cache_close(c);
}

/* The thread may be anywhere when it is told to end, mostly on its way to its first sleep. */
static void closing_at_once_always_ends(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        sky_setting s = sky_setting_open("mem:1MiB", 0);
        sky_cache_close(s.cache);
    }
}

/* An event that is none: a file, a pipe, a closed descriptor. Nothing is written into them. */
static void only_events_are_raised(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 0);
    sky_one o;
    sky_one_make(&o, 1);
    char path[] = "/tmp/skymem-event-XXXXXX";
    int ends[2], file = mkstemp(path), event;
    assert_true(file >= 0 && pipe(ends) == 0);
    assert_int_equal(write(file, "hello", 5), 5);
    sky_batch batch = {0};
    const int wrong[] = {file, ends[1], 1000};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sky_call call = {.event_fd = wrong[i]};
        assert_int_equal(sky_submit(s.cache, SKY_OP_HAS, &o.item, 1, &call, &batch), SKY_E_PARAM);
    }
    assert_int_equal(lseek(file, 0, SEEK_END), 5);
    assert_int_equal(sky_event_create(&event), SKY_OK);
    sky_call call = {.event_fd = event};
    assert_int_equal(sky_submit(s.cache, SKY_OP_HAS, &o.item, 1, &call, &batch), SKY_OK);
    assert_int_equal(sky_poll(&event, 1, sky_now() + SKY_TEST_PATIENCE), 1);
    assert_int_equal(sky_wait(s.cache, batch, 0), SKY_OK);
    sky_event_close(event);
    close(file);
    close(ends[0]);
    close(ends[1]);
    unlink(path);
    sky_cache_close(s.cache);
}

/* What a child of fork() comes to with its parent's cache; 0: all as it should. */
static int use_in_child(sky_cache *c) {
    sky_one o;
    sky_one_make(&o, 1);
    sky_batch batch;
    sky_verify_report report;
    sky_tier_stat stat;
    alarm(20);
    if (sky_run(c, SKY_OP_GET, &o.item, 1, NULL) != SKY_E_FORKED ||
        sky_submit(c, SKY_OP_GET, &o.item, 1, NULL, &batch) != SKY_E_FORKED ||
        sky_flush(c, SKY_TIME_NEVER, NULL) != SKY_E_FORKED ||
        sky_verify(c, &report) != SKY_E_FORKED || sky_cache_stat(c, 0, &stat) != SKY_E_FORKED)
        return 1;
    size_t present;
    if (sky_cache_prefix(c, &o.item.key, 1, NULL, NULL, &present) != SKY_E_FORKED ||
        sky_event_fd(c) != -1)
        return 2;
    sky_cancel(c, (sky_batch){1});
    sky_cache_close(c);
#ifndef __SANITIZE_THREAD__            /* which ends a child that starts a thread */
    const char *urls[] = {"mem:1MiB"}; /* one of its own works */
    sky_cache *own;
    if (sky_cache_open(urls, 1, &own, NULL) != SKY_OK)
        return 3;
    if (sky_setting_put(own, 2, 2, NULL) != SKY_OK || sky_setting_get(own, 2, 2, NULL) != 0)
        return 4;
    sky_cache_close(own);
#endif
    return 0;
}

static void a_child_of_fork_is_told_so(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[160];
    snprintf(url, sizeof url, "disk:%s", folder);
    const char *urls[] = {"mem:1MiB", url};
    sky_cache *c;
    assert_int_equal(sky_cache_open(urls, 2, &c, NULL), SKY_OK);
    assert_int_equal(sky_setting_put(c, 1, 1, NULL), SKY_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_in_child(c));
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(sky_setting_get(c, 1, 1, NULL), 0); /* the parent goes on */
    assert_int_equal(sky_setting_flush(c), SKY_OK);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

/* A pin that only memory could keep is stored first; in a tier that fails it is no pin. */
static void pins_outlive_the_process(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    assert_int_equal(sky_setting_put(s.cache, 1, 1, &SKY_NEAR_ONLY), SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 1, NULL), SKY_OK);
    assert_true(sky_setting_far_holds(s.far[0], 1, 1));
    assert_true(sky_scripted_pinned(s.far[0], sky_fixture_key(1)));
    size_t puts = sky_scripted_count(s.far[0], SKY_OP_PUT);
    sky_scripted_hold(s.far[0], true); /* the pin waits for the block that is on its way */
    assert_int_equal(sky_setting_put(s.cache, 2, 2, NULL), SKY_OK);
    sky_one o;
    sky_batch batch;
    sky_one_make(&o, 2);
    assert_int_equal(sky_submit(s.cache, SKY_OP_PIN, &o.item, 1, NULL, &batch), SKY_OK);
    sky_scripted_hold(s.far[0], false);
    assert_int_equal(sky_wait(s.cache, batch, sky_now() + SKY_TEST_PATIENCE), SKY_OK);
    assert_int_equal(o.item.status, SKY_OK);
    assert_true(sky_scripted_pinned(s.far[0], sky_fixture_key(2)));
    assert_int_equal(sky_scripted_count(s.far[0], SKY_OP_PUT), puts + 1);
    sky_scripted_say(s.far[0], SKY_E_IO);
    assert_int_equal(sky_setting_put(s.cache, 3, 3, &SKY_NEAR_ONLY), SKY_OK);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 3, NULL), SKY_E_IO);
    assert_int_equal(sky_setting_do(s.cache, SKY_OP_PIN, 4, NULL), SKY_E_IO);
    sky_cache_close(s.cache);
}

static void memory_and_disk_keep_what_was_put(void **state) {
    (void)state;
    char *folder = disk_folder_make(), url[160];
    snprintf(url, sizeof url, "disk:%s?max=8MiB", folder);
    const char *urls[] = {"mem:1MiB", url};
    sky_cache *c;
    sky_error error;
    if (sky_cache_open(urls, 2, &c, &error) != SKY_OK)
        fail_msg("%s", error.text);
    for (uint64_t n = 0; n < 40; n++)
        assert_int_equal(sky_setting_put(c, n, n, NULL), SKY_OK);
    sky_cache_close(c); /* writes behind what is queued */
    assert_int_equal(sky_cache_open(urls, 2, &c, &error), SKY_OK);
    for (uint64_t n = 0; n < 40; n++)
        assert_int_equal(sky_setting_get(c, n, n, NULL), 1);
    SKY_EVENTUALLY(sky_setting_get(c, 39, 39, NULL) == 0);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

static void closing_ends_what_hangs(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_scripted_hold(s.far[0], true);
    sky_one o[3];
    static const sky_op ops[] = {SKY_OP_GET, SKY_OP_PREFETCH, SKY_OP_LEASE};
    sky_batch batch;
    for (uint64_t i = 0; i < 3; i++) {
        sky_one_make(&o[i], i);
        assert_int_equal(sky_submit(s.cache, ops[i], &o[i].item, 1, NULL, &batch), SKY_OK);
    }
    SKY_EVENTUALLY(sky_scripted_held(s.far[0]) == 3);
    sky_cache_close(s.cache);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(o[i].item.status, SKY_E_CANCELLED);
}

typedef struct {
    sky_cache *cache;
    atomic_bool over;
    size_t drained;
} drainer;

static void *drain_all(void *argument) {
    drainer *d = argument;
    sky_batch done[8];
    while (!d->over)
        d->drained += sky_drain(d->cache, done, 8);
    return NULL;
}

/* An application that drains its own batches takes none away from a call that blocks. */
static void blocking_calls_are_not_drained(void **state) {
    (void)state;
    enum { KEYS = 8, ROUNDS = 400 };
    sky_setting s = sky_setting_open("mem:1MiB", 1);
    sky_key keys[KEYS];
    for (uint64_t n = 0; n < KEYS; n++) {
        keys[n] = sky_fixture_key(n);
        assert_int_equal(sky_setting_put(s.cache, n, n, &(sky_call){.durable = true}), SKY_OK);
    }
    drainer d = {.cache = s.cache};
    sky_thread thread = {0};
    assert_int_equal(sky_thread_start(&thread, "drainer", drain_all, &d), SKY_OK);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        sky_call call = {.tiers = i % 2 ? 2 : 0};
        sky_one o;
        sky_one_make(&o, i % KEYS);
        assert_int_equal(sky_run(s.cache, SKY_OP_GET, &o.item, 1, &call), SKY_OK);
        assert_true(sky_fixture_holds(o.data, SKY_ONE_BYTES, i % KEYS));
        size_t present;
        assert_int_equal(sky_cache_prefix(s.cache, keys, KEYS, &call, NULL, &present), SKY_OK);
        assert_int_equal(present, KEYS);
    }
    d.over = true;
    sky_thread_join(&thread);
    assert_int_equal(d.drained, 0);
    sky_cache_close(s.cache);
}

static sky_cache *open_over(const char *mem, const char *folder) {
    char url[300];
    snprintf(url, sizeof url, "disk:%s?max=64MiB", folder);
    const char *urls[] = {mem ? mem : url, url};
    sky_cache *c;
    sky_error error;
    if (sky_cache_open(urls, mem ? 2 : 1, &c, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return c;
}

/* One thread submits a put and then a get, and waits for neither in between. */
static void assert_reads_its_writes(const char *mem, size_t bytes) {
    char *folder = disk_folder_make();
    sky_cache *c = open_over(mem, folder);
    uint8_t *in = malloc(bytes), *out = malloc(bytes);
    assert_true(in && out);
    sky_span from = {in, bytes}, to = {out, bytes};
    for (uint64_t i = 0; i < 20; i++) {
        sky_fixture_fill(in, bytes, i);
        sky_item put = {.key = sky_fixture_key(1),
                        .name = "a",
                        .name_bytes = 1,
                        .spans = &from,
                        .span_count = 1};
        sky_item has = {.key = put.key}, gone = {.key = put.key}, get = put;
        get.spans = &to;
        bool remove = i % 5 == 4;
        sky_batch b[4];
        assert_int_equal(sky_submit(c, SKY_OP_PUT, &put, 1, NULL, &b[0]), SKY_OK);
        if (remove)
            assert_int_equal(sky_submit(c, SKY_OP_REMOVE, &gone, 1, NULL, &b[3]), SKY_OK);
        assert_int_equal(sky_submit(c, SKY_OP_GET, &get, 1, NULL, &b[1]), SKY_OK);
        assert_int_equal(sky_submit(c, SKY_OP_HAS, &has, 1, NULL, &b[2]), SKY_OK);
        for (int n = 0; n < 3 + remove; n++)
            assert_int_equal(sky_wait(c, b[n], SKY_TIME_NEVER), SKY_OK);
        assert_int_equal(put.status, SKY_OK);
        assert_int_equal(get.status, remove ? SKY_MISS : SKY_OK);
        assert_int_equal(has.status, get.status);
        assert_true(remove || sky_fixture_holds(out, bytes, i));
    }
    free(in);
    free(out);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

static void a_read_sees_the_write_before_it(void **state) {
    (void)state;
    assert_reads_its_writes(NULL, 1000);
    assert_reads_its_writes("mem:1MiB", 1000);
    assert_reads_its_writes("mem:1MiB", 2000000); /* refused by the near tier */
}

static sky_item one_of(const sky_span *span) {
    return (sky_item){
        .key = sky_fixture_key(1), .name = "a", .name_bytes = 1, .spans = span, .span_count = 1};
}

/* A removal or a durable put that waits for the thread, and a put submitted behind it. */
static void the_later_write_wins(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_cache *c = open_over("mem:1MiB", folder);
    for (uint64_t i = 0; i < 60; i++) {
        uint8_t old = 1, new = 2, back = 0;
        sky_span spans[] = {{&old, 1}, {&new, 1}, {&back, 1}};
        sky_item before = one_of(&spans[0]), put = one_of(&spans[1]), get = one_of(&spans[2]);
        sky_item first = i % 2 ? before : (sky_item){.key = before.key};
        assert_int_equal(sky_run(c, SKY_OP_PUT, &before, 1, NULL), SKY_OK);
        sky_batch b[2];
        assert_int_equal(sky_submit(c, i % 2 ? SKY_OP_PUT : SKY_OP_REMOVE, &first, 1,
                                    &(sky_call){.durable = true}, &b[0]),
                         SKY_OK);
        assert_int_equal(sky_submit(c, SKY_OP_PUT, &put, 1, NULL, &b[1]), SKY_OK);
        for (int n = 0; n < 2; n++)
            assert_int_equal(sky_wait(c, b[n], SKY_TIME_NEVER), SKY_OK);
        assert_int_equal(sky_run(c, SKY_OP_GET, &get, 1, NULL), SKY_OK);
        assert_int_equal(get.status, SKY_OK);
        assert_int_equal(back, new);
    }
    sky_cache_close(c);
    disk_folder_drop(folder);
}

/* The near tier has no room for the new payload: the old one must not stay there. */
static void what_a_durable_put_replaced_is_gone(void **state) {
    (void)state;
    enum { BYTES = 2000000 };
    char *folder = disk_folder_make();
    sky_cache *c = open_over("mem:1MiB", folder);
    uint8_t *large = calloc(1, BYTES), *back = calloc(1, BYTES), old = 9;
    assert_true(large && back);
    sky_fixture_fill(large, BYTES, 3);
    sky_span spans[] = {{&old, 1}, {large, BYTES}, {back, BYTES}};
    sky_item before = one_of(&spans[0]), put = one_of(&spans[1]), get = one_of(&spans[2]);
    const sky_call durable = {.durable = true};
    assert_int_equal(sky_run(c, SKY_OP_PUT, &before, 1, &durable), SKY_OK);
    assert_int_equal(sky_run(c, SKY_OP_PUT, &put, 1, &durable), SKY_OK);
    assert_int_equal(put.status, SKY_OK);
    assert_int_equal(sky_run(c, SKY_OP_GET, &get, 1, NULL), SKY_OK);
    assert_int_equal(get.status, SKY_OK);
    assert_int_equal(get.bytes, BYTES);
    assert_true(sky_fixture_holds(back, BYTES, 3));
    free(large);
    free(back);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

/* A large payload is removed while it is read: what was read is no news of it. */
static void a_get_under_way_brings_nothing_back(void **state) {
    (void)state;
    enum { BYTES = 8 << 20 };
    char *folder = disk_folder_make();
    sky_cache *c = open_over(NULL, folder);
    uint8_t *bytes = calloc(1, BYTES);
    assert_non_null(bytes);
    for (int i = 0; i < 6; i++) {
        sky_span span = {bytes, BYTES};
        sky_item put = one_of(&span), get = put, gone = {.key = put.key}, has = {.key = put.key};
        sky_batch b;
        assert_int_equal(sky_run(c, SKY_OP_PUT, &put, 1, NULL), SKY_OK);
        assert_int_equal(sky_submit(c, SKY_OP_GET, &get, 1, NULL, &b), SKY_OK);
        assert_int_equal(sky_run(c, SKY_OP_REMOVE, &gone, 1, NULL), SKY_OK);
        assert_int_equal(sky_wait(c, b, SKY_TIME_NEVER), SKY_OK);
        assert_int_equal(sky_run(c, SKY_OP_HAS, &has, 1, NULL), SKY_OK);
        assert_int_equal(has.status, SKY_MISS);
    }
    free(bytes);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

/* Another process stored more under the key: what HAS tells is what a GET needs. */
static void what_another_process_stored_is_found(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    sky_cache *c = open_over("mem:1MiB", folder), *other = open_over(NULL, folder);
    sky_key key = sky_fixture_key(1);
    static uint8_t bytes[60000];
    static const size_t sizes[] = {100, 5000, 200, 60000, 300};
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sky_fixture_fill(bytes, sizes[i], i);
        sky_span span = {bytes, sizes[i]};
        sky_item put = {.key = key, .spans = &span, .span_count = 1};
        sky_item has = {.key = key}, get = put, fetch = {.key = key}, lease = {.key = key};
        assert_int_equal(sky_run(other, SKY_OP_PUT, &put, 1, NULL), SKY_OK);
        assert_int_equal(sky_run(c, SKY_OP_HAS, &has, 1, &(sky_call){.tiers = 2}), SKY_OK);
        assert_int_equal(has.bytes, sizes[i]);
        memset(bytes, 0, sizes[i]);
        assert_int_equal(sky_run(c, SKY_OP_GET, &get, 1, &(sky_call){.tiers = 2}), SKY_OK);
        assert_int_equal(get.status, SKY_OK);
        assert_true(sky_fixture_holds(bytes, sizes[i], i));
        assert_int_equal(sky_run(c, i % 2 ? SKY_OP_PREFETCH : SKY_OP_LEASE, &fetch, 1, NULL),
                         SKY_OK);
        assert_int_equal(fetch.status, SKY_OK);
        sky_release(c, fetch.lease);
        assert_int_equal(sky_run(c, SKY_OP_LEASE, &lease, 1, NULL), SKY_OK);
        assert_int_equal(lease.view.bytes, sizes[i]);
        sky_release(c, lease.lease);
        sky_item gone = {.key = key};
        assert_int_equal(sky_run(c, SKY_OP_REMOVE, &gone, 1, &(sky_call){.tiers = 1}), SKY_OK);
    }
    sky_item gone = {.key = key}, has = {.key = key};
    assert_int_equal(sky_run(other, SKY_OP_REMOVE, &gone, 1, NULL), SKY_OK);
    assert_int_equal(sky_run(c, SKY_OP_HAS, &has, 1, NULL), SKY_OK);
    assert_int_equal(has.status, SKY_MISS);
    sky_cache_close(other);
    sky_cache_close(c);
    disk_folder_drop(folder);
}

typedef struct {
    sky_cache *cache;
    uint64_t seed;
    unsigned wrong;
} worker;

static sky_status work_once(worker *w, uint64_t n, uint64_t what) {
    sky_one o;
    sky_one_make(&o, n);
    sky_fixture_fill(o.data, SKY_ONE_BYTES, n);
    sky_call call = {.deadline_ns = what % 5 == 0 ? sky_now() + SKY_MS(1) : 0};
    static const sky_op ops[] = {SKY_OP_PUT, SKY_OP_GET,      SKY_OP_GET, SKY_OP_HAS,
                                 SKY_OP_GET, SKY_OP_PREFETCH, SKY_OP_GET, SKY_OP_REMOVE};
    sky_op op = ops[what % 8];
    if (op == SKY_OP_GET)
        memset(o.data, 0, SKY_ONE_BYTES);
    if (sky_run(w->cache, op, &o.item, 1, &call) != SKY_OK)
        return SKY_E_IO;
    bool read = op == SKY_OP_GET && o.item.status == SKY_OK;
    return read && !sky_fixture_holds(o.data, SKY_ONE_BYTES, n) ? SKY_E_CORRUPT : SKY_OK;
}

static void *work(void *argument) {
    worker *w = argument;
    for (uint64_t i = 0; i < 400; i++) {
        w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
        w->wrong += work_once(w, w->seed >> 33 & 31, w->seed >> 40) != SKY_OK;
    }
    return NULL;
}

static void threads_share_a_hierarchy(void **state) {
    (void)state;
    sky_setting s = sky_setting_open("mem:100KiB", 2);
    sky_thread threads[4];
    worker workers[4];
    for (uint64_t i = 0; i < 4; i++) {
        workers[i] = (worker){.cache = s.cache, .seed = i + 1};
        assert_int_equal(sky_thread_start(&threads[i], "worker", work, &workers[i]), SKY_OK);
    }
    for (size_t i = 0; i < 4; i++)
        sky_thread_join(&threads[i]);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(workers[i].wrong, 0);
    assert_int_equal(sky_setting_flush(s.cache), SKY_OK);
    sky_cache_close(s.cache);
}

/* Its structures may be laid out otherwise: nothing of them is read. */
static void a_program_of_another_version_is_refused(void **state) {
    (void)state;
    const char *urls[] = {"mem:1MiB"};
    sky_cache *cache = NULL;
    sky_error error = {0};
    const uint32_t others[] = {0, SKY_VERSION_NUMBER + 1000, SKY_VERSION_NUMBER + 1000000,
                               UINT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(sky_cache_open_version(others[i], urls, 1, &cache, &error),
                         SKY_E_UNSUPPORTED);
        assert_non_null(strstr(error.text, "compiled for libskymem"));
        assert_null(cache);
    }
    assert_int_equal(sky_cache_open_version(SKY_VERSION_NUMBER + 1, urls, 1, &cache, &error),
                     SKY_OK);
    sky_cache_close(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_of_another_version_is_refused),
        cmocka_unit_test(prefix_counts_the_leading_run),
        cmocka_unit_test(all_tiers_are_listed_and_verified),
        cmocka_unit_test(a_check_is_cancelled_between_two_entries),
        cmocka_unit_test(memory_and_disk_end_a_check_that_is_cancelled),
        cmocka_unit_test(bad_hierarchies_are_refused),
        cmocka_unit_test(one_folder_is_one_tier),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(closing_at_once_always_ends),
        cmocka_unit_test(only_events_are_raised),
        cmocka_unit_test(a_child_of_fork_is_told_so),
        cmocka_unit_test(pins_outlive_the_process),
        cmocka_unit_test(memory_and_disk_keep_what_was_put),
        cmocka_unit_test(closing_ends_what_hangs),
        cmocka_unit_test(blocking_calls_are_not_drained),
        cmocka_unit_test(a_read_sees_the_write_before_it),
        cmocka_unit_test(the_later_write_wins),
        cmocka_unit_test(what_a_durable_put_replaced_is_gone),
        cmocka_unit_test(a_get_under_way_brings_nothing_back),
        cmocka_unit_test(what_another_process_stored_is_found),
        cmocka_unit_test(threads_share_a_hierarchy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
