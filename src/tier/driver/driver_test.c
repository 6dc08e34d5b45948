/* Proves that the examples' stores are tiers with every promise of one, and that a store that lies,
 * damages or fails costs a miss or an error, never a wrong byte. */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/conformance.h>

#include "../../../examples/tier_dir.c"
#include "../../../examples/tier_heap.c"

#include "io/clock.h"
#include "io/sync.h"
#include "tier/driver/driver.h"
#include "tier/driver/value.h"
#include "tier/tier_fixture.h"

/* ---- the example ---- */

static char folder[] = "/tmp/skymem-driver-XXXXXX";

static void remove_values(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void clear_dir(void *context) {
    assert_ptr_equal(context, folder);
    remove_values();
}

static sky_tier *open_with(const sky_tier_driver *driver, const sky_tier_env *env) {
    char url[64];
    sky_tier *tier;
    sky_error error = {0};
    snprintf(url, sizeof url, "dir:%s", folder);
    if (sky_driver_tier_open(driver, url, env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

static sky_tier *open_dir(void *context, const sky_tier_env *env) {
    remove_values();
    return open_with(context, env);
}

/* ---- a store that lies ---- */

typedef struct {
    sky_status read_says; /* SKY_OK: what is true */
    uint64_t extra_bytes; /* that a value seems to be longer */
    int64_t flip_at;      /* a byte of what is read; negative: none */
    sky_status write_says;
    int reads;
    void *dir;
} liar;

static liar lies;

static sky_status liar_open(const char *where, void **self, sky_error *error) {
    *self = &lies;
    return dir_open(where, &lies.dir, error);
}

static sky_status liar_read(void *self, const sky_key *key, uint64_t offset, void *data,
                            uint64_t bytes, uint64_t *value_bytes) {
    liar *l = self;
    l->reads++;
    sky_status status = dir_read(l->dir, key, offset, data, bytes, value_bytes);
    if (status == SKY_OK && l->flip_at >= 0 && (uint64_t)l->flip_at < bytes)
        ((uint8_t *)data)[l->flip_at] ^= 1;
    *value_bytes += l->extra_bytes;
    return l->read_says == SKY_OK ? status : l->read_says;
}

static sky_status liar_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                             bool durable) {
    const liar *l = self;
    return l->write_says == SKY_OK ? dir_write(l->dir, key, value, bytes, durable) : l->write_says;
}

static sky_status liar_remove(void *self, const sky_key *key) {
    return dir_remove(((liar *)self)->dir, key);
}

/* Its own key, one that is NULL, and one that is not there. */
static sky_status liar_list(void *self, sky_tier_key_fn each, void *context) {
    const sky_key none = sky_fixture_key(99);
    return each(context, NULL) && each(context, &none) && ((liar *)self)->dir
               ? dir_list(((liar *)self)->dir, each, context)
               : SKY_E_IO;
}

static void liar_close(void *self) {
    dir_close(((liar *)self)->dir);
}

static const sky_tier_driver liar_driver = {.struct_bytes = sizeof liar_driver,
                                            .threads = 1,
                                            .open = liar_open,
                                            .read = liar_read,
                                            .write = liar_write,
                                            .remove = liar_remove,
                                            .list = liar_list,
                                            .close = liar_close};

static sky_tier *open_liar(void) {
    static const sky_tier_env env = {0};
    lies = (liar){.flip_at = -1};
    return open_dir((void *)(uintptr_t)&liar_driver, &env);
}

static int usage_calls;

static sky_status counting_usage(void *self, uint64_t *entries, uint64_t *bytes,
                                 uint64_t *bytes_max) {
    (void)self;
    usage_calls++;
    *entries = *bytes = *bytes_max = 0;
    return SKY_OK;
}

/* A store of one thread that is asked would answer after the write that is under way. */
static void puts_are_counted_without_asking_the_store(void **state) {
    (void)state;
    sky_tier_driver asked = liar_driver;
    asked.usage = counting_usage;
    lies = (liar){.flip_at = -1};
    static const sky_tier_env env = {0};
    sky_tier *t = open_dir(&asked, &env);
    uint8_t byte = 7;
    sky_span span = {&byte, 1};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_fixture_run(t, SKY_OP_PUT, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    usage_calls = 0;
    assert_int_equal(sky_tier_put_count(t), 1);
    assert_int_equal(usage_calls, 0);
    assert_int_equal(sky_fixture_counts(t).puts, 1);
    assert_int_equal(usage_calls, 1);
    t->ops->close(t);
}

static sky_tier *watched;
static sky_tier_counts seen;

/* Statistics in the midst of a write of a store with one thread. */
static sky_status watching_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                                 bool durable) {
    seen = sky_fixture_counts(watched);
    return liar_write(self, key, value, bytes, durable);
}

static sky_status seven_of_usage(void *self, uint64_t *entries, uint64_t *bytes,
                                 uint64_t *bytes_max) {
    usage_calls++;
    *entries = 7, *bytes = 70, *bytes_max = 700;
    return ((liar *)self)->read_says;
}

static void statistics_do_not_wait_for_a_store(void **state) {
    (void)state;
    sky_tier_driver slow = liar_driver;
    slow.usage = seven_of_usage;
    slow.write = watching_write;
    lies = (liar){.flip_at = -1};
    static const sky_tier_env env = {0};
    watched = open_dir(&slow, &env);
    uint8_t byte = 7;
    sky_span span = {&byte, 1};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    assert_int_equal(sky_fixture_counts(watched).entries, 7);
    usage_calls = 0;
    sky_fixture_run(watched, SKY_OP_PUT, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(usage_calls, 0);
    assert_int_equal(seen.entries, 7);
    assert_int_equal(seen.bytes_used, 70);
    assert_int_equal(seen.bytes_max, 700);
    lies.read_says = SKY_E_IO; /* what it said last stands */
    assert_int_equal(sky_fixture_counts(watched).entries, 7);
    assert_int_equal(usage_calls, 1);
    watched->ops->close(watched);
}

/* Every byte of head, name and payload. */
static void damage_is_a_miss_wherever_it_is(void **state) {
    (void)state;
    sky_tier *t = open_liar();
    uint8_t byte = 7;
    sky_span span = {&byte, 1};
    for (int64_t at = 0; at < SKY_VALUE_HEAD_BYTES + 4 + 1; at++) {
        sky_item item = {.key = sky_fixture_key(1),
                         .name = "name",
                         .name_bytes = 4,
                         .spans = &span,
                         .span_count = 1};
        lies.flip_at = -1;
        sky_fixture_run(t, SKY_OP_PUT, &item, 1, NULL);
        assert_int_equal(item.status, SKY_OK);
        lies.flip_at = at;
        sky_fixture_run(t, SKY_OP_GET, &item, 1, NULL);
        assert_int_equal(item.status, SKY_E_CORRUPT);
        lies.flip_at = -1;
        sky_fixture_run(t, SKY_OP_GET, &item, 1, NULL);
        assert_int_equal(item.status, SKY_MISS); /* it was dropped */
    }
    assert_int_equal(sky_fixture_counts(t).corrupt, SKY_VALUE_HEAD_BYTES + 5);
    t->ops->close(t);
}

static void a_wrong_size_is_damage(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 4096, UINT64_C(1) << 40, UINT64_MAX / 2, UINT64_MAX};
    sky_tier *t = open_liar();
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 3000, 1), SKY_OK);
        lies.extra_bytes = sizes[i];
        assert_int_equal(sky_fixture_one(t, SKY_OP_HAS, sky_fixture_key(1)), SKY_E_CORRUPT);
        lies.extra_bytes = 0;
        assert_int_equal(sky_fixture_one(t, SKY_OP_HAS, sky_fixture_key(1)), SKY_MISS);
    }
    t->ops->close(t);
}

/* A value moved to another key's place, as by a store that mixes up its names. */
static void a_value_of_another_key_is_damage(void **state) {
    (void)state;
    sky_tier *t = open_liar();
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 500, 1), SKY_OK);
    sky_key one = sky_fixture_key(1), two = sky_fixture_key(2);
    uint8_t value[SKY_VALUE_HEAD_BYTES + 500];
    uint64_t bytes;
    assert_int_equal(dir_read(lies.dir, &one, 0, value, sizeof value, &bytes), SKY_OK);
    assert_int_equal(bytes, sizeof value);
    assert_int_equal(dir_write(lies.dir, &two, value, bytes, false), SKY_OK);
    assert_int_equal(sky_fixture_check(t, two, 500, 1), SKY_E_CORRUPT);
    assert_int_equal(sky_fixture_check(t, one, 500, 1), SKY_OK);
    t->ops->close(t);
}

/* A head that is whole, and says what none can: a level that there is not. */
static void a_level_that_there_is_not_is_damage(void **state) {
    (void)state;
    sky_tier *t = open_liar();
    for (sky_coding coding = SKY_CODINGS_MAX; coding <= SKY_CODINGS_MAX + 1; coding++) {
        uint8_t value[SKY_VALUE_HEAD_BYTES + 1] = {0};
        sky_value_head head = {.key = sky_fixture_key(1), .payload_bytes = 1, .coding = coding};
        sky_value_seal(&head, value);
        assert_int_equal(dir_write(lies.dir, &head.key, value, sizeof value, false), SKY_OK);
        assert_int_equal(sky_fixture_one(t, SKY_OP_HAS, head.key),
                         coding == SKY_CODINGS_MAX ? SKY_OK : SKY_E_CORRUPT);
    }
    t->ops->close(t);
}

static void what_cannot_be_put_is_refused(void **state) {
    (void)state;
    sky_tier *t = open_liar();
    uint8_t byte = 7;
    sky_span spans[] = {{&byte, 1}, {NULL, 1}};
    sky_item items[] = {{.key = sky_fixture_key(1), .spans = spans, .span_count = 2},
                        {.key = sky_fixture_key(2), .spans = spans, .span_count = 1, .name = ""}};
    for (size_t i = 0; i < 2; i++) {
        sky_fixture_run(t, SKY_OP_PUT, &items[i], 1, NULL);
        assert_int_equal(items[i].status, SKY_E_PARAM);
    }
    t->ops->close(t);
}

/* What is asked for says little of how long a value is; those that were read before do. */
static void a_part_of_a_value_takes_one_read(void **state) {
    (void)state;
    enum { VALUES = 5, BYTES = 50000 };
    sky_tier *t = open_liar();
    for (uint64_t i = 0; i < VALUES; i++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(i), NULL, BYTES, i), SKY_OK);
    t->ops->close(t);
    static const sky_tier_env env = {0};
    t = open_with(&liar_driver, &env); /* which has seen none of them */
    lies.reads = 0;
    for (uint64_t i = 0; i < VALUES; i++) {
        uint8_t part[100], whole[BYTES];
        sky_span span = {part, sizeof part};
        sky_item item = {.key = sky_fixture_key(i),
                         .spans = &span,
                         .span_count = 1,
                         .range = {40000, sizeof part}};
        sky_fixture_run(t, SKY_OP_GET, &item, 1, NULL);
        assert_int_equal(item.status, SKY_OK);
        sky_fixture_fill(whole, BYTES, i);
        assert_memory_equal(part, whole + 40000, sizeof part);
    }
    assert_int_equal(lies.reads, VALUES + 1);
    t->ops->close(t);
}

static void strange_statuses_are_failures(void **state) {
    (void)state;
    static const sky_status strange[] = {SKY_PENDING, SKY_E_DEADLINE, (sky_status)1234,
                                         SKY_E_UNSUPPORTED};
    sky_tier *t = open_liar();
    for (size_t i = 0; i < 4; i++) {
        lies.write_says = strange[i];
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 100, 1), SKY_E_IO);
        lies.write_says = SKY_MISS; /* which a read may say, and a write may not */
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 100, 1), SKY_E_IO);
        lies.write_says = SKY_OK;
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 100, 1), SKY_OK);
        lies.read_says = strange[i];
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(1), 100, 1), SKY_E_IO);
        lies.read_says = SKY_OK;
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(1), 100, 1), SKY_OK);
    }
    t->ops->close(t);
}

static bool count_entry(void *context, const sky_entry *entry) {
    (void)entry;
    ++*(size_t *)context;
    return true;
}

static void what_cannot_be_read_is_told_by_list_and_verify(void **state) {
    (void)state;
    static const sky_status says[] = {SKY_OK, SKY_E_IO, SKY_E_DENIED, SKY_E_BUSY};
    sky_tier *t = open_liar();
    for (uint64_t n = 1; n <= 2; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 100, n), SKY_OK);
    for (size_t i = 0; i < 4; i++) {
        size_t entries = 0;
        sky_verify_report report = {0};
        lies.read_says = says[i];
        assert_int_equal(t->ops->list(t, count_entry, &entries), says[i]);
        assert_int_equal(entries, i == 0 ? 2 : 0);
        assert_int_equal(t->ops->verify(t, &report), says[i]);
        assert_int_equal(report.entries, i == 0 ? 2 : 0);
    }
    t->ops->close(t);
}

static sky_tier *open_heap(void *context, const sky_tier_env *env) {
    sky_tier *tier;
    sky_error error = {0};
    if (sky_driver_tier_open(context, "heap:100000000", env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

/* ---- a store that is written to while it is verified ---- */

static struct {
    sky_tier *tier;
    atomic_bool damages, waits, written;
    sky_item item; /* put when the damaged value is about to be removed */
    sky_batch put;
} rival;

static sky_status rival_read(void *self, const sky_key *key, uint64_t offset, void *data,
                             uint64_t bytes, uint64_t *value_bytes) {
    sky_status status = heap_read(self, key, offset, data, bytes, value_bytes);
    if (status == SKY_OK && atomic_load(&rival.damages))
        *(uint8_t *)data ^= 1;
    return status;
}

static sky_status rival_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                              bool durable) {
    sky_status status = heap_write(self, key, value, bytes, durable);
    atomic_store(&rival.written, true);
    return status;
}

/* If the put can come first, it does within this time. */
static sky_status rival_remove(void *self, const sky_key *key) {
    static const sky_call call = {0};
    if (atomic_exchange(&rival.waits, false)) {
        atomic_store(&rival.damages, false);
        atomic_store(&rival.written, false);
        assert(rival.tier->ops->submit(rival.tier, SKY_OP_PUT, &rival.item, 1, &call, &rival.put) ==
               SKY_OK);
        for (int i = 0; i < 100 && !atomic_load(&rival.written); i++)
            sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    }
    return heap_remove(self, key);
}

static void what_is_put_while_damage_is_removed_stays(void **state) {
    (void)state;
    static const sky_tier_env env = {0};
    sky_tier_driver driver = tier_heap;
    uint8_t value[3] = {1, 2, 3};
    sky_span span = {value, sizeof value};
    sky_verify_report report = {0};
    driver.threads = 2;
    driver.read = rival_read;
    driver.write = rival_write;
    driver.remove = rival_remove;
    rival.tier = open_heap(&driver, &env);
    rival.item = (sky_item){.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    assert_int_equal(sky_fixture_put(rival.tier, sky_fixture_key(1), NULL, 100, 1), SKY_OK);
    atomic_store(&rival.damages, true);
    atomic_store(&rival.waits, true);
    assert_int_equal(rival.tier->ops->verify(rival.tier, &report), SKY_OK);
    assert_int_equal(report.corrupt, 1);
    assert_int_equal(sky_batches_wait(rival.tier->batches, rival.put, sky_now() + SKY_SECONDS(20)),
                     SKY_OK);
    assert_int_equal(rival.item.status, SKY_OK);
    assert_int_equal(sky_fixture_one(rival.tier, SKY_OP_HAS, sky_fixture_key(1)), SKY_OK);
    rival.tier->ops->close(rival.tier);
}

/* ---- a store that lies about what it lends ---- */

static struct {
    sky_status says; /* SKY_OK: what is true */
    bool nothing;    /* lends no bytes */
    int64_t flip_at; /* a byte of what it lends; negative: none */
    int64_t short_by;
    int out;
} lender;

static sky_status lender_lease(void *self, const sky_key *key, sky_tier_lent *lent) {
    sky_status status = lender.says == SKY_OK ? heap_lease(self, key, lent) : lender.says;
    if (status != SKY_OK)
        return status;
    lender.out++;
    heap_value *v = lent->handle;
    if (lender.flip_at >= 0)
        v->data[lender.flip_at] ^= 1;
    lent->bytes -= (uint64_t)lender.short_by;
    if (lender.nothing)
        lent->data = NULL;
    return SKY_OK;
}

static void lender_release(void *self, const sky_tier_lent *lent) {
    lender.out--;
    heap_release(self, lent);
}

static sky_status lend(sky_tier *t, uint64_t n) {
    sky_item item = {.key = sky_fixture_key(n)};
    sky_fixture_run(t, SKY_OP_LEASE, &item, 1, NULL);
    assert_true((item.status == SKY_OK) == (item.lease.id != 0));
    if (item.status == SKY_OK)
        assert_true(sky_fixture_holds(item.view.data, item.view.bytes, n));
    t->ops->release(t, item.lease);
    return item.status;
}

static void what_is_lent_is_checked(void **state) {
    (void)state;
    static const sky_tier_env env = {0};
    sky_tier_driver driver = tier_heap;
    driver.lease = lender_lease;
    driver.release = lender_release;
    memset(&lender, 0, sizeof lender);
    lender.flip_at = -1;
    sky_tier *t = open_heap(&driver, &env);
    for (int64_t at = 0; at < SKY_VALUE_HEAD_BYTES + 3; at++) {
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 3, 1), SKY_OK);
        assert_int_equal(lend(t, 1), SKY_OK);
        lender.flip_at = at;
        assert_int_equal(lend(t, 1), SKY_E_CORRUPT);
        lender.flip_at = -1;
        assert_int_equal(lend(t, 1), SKY_MISS); /* it was dropped */
        assert_int_equal(lender.out, 0);
    }
    static const int64_t wrong[] = {1, SKY_VALUE_HEAD_BYTES + 3, -1, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 3, 1), SKY_OK);
        lender.short_by = wrong[i];
        assert_int_equal(lend(t, 1), SKY_E_CORRUPT);
        lender.short_by = 0;
    }
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 3, 1), SKY_OK);
    lender.nothing = true;
    assert_int_equal(lend(t, 1), SKY_E_IO);
    lender.nothing = false;
    lender.says = SKY_PENDING;
    assert_int_equal(lend(t, 1), SKY_E_IO);
    lender.says = SKY_OK;
    sky_item kept = {.key = sky_fixture_key(1)};
    sky_fixture_run(t, SKY_OP_LEASE, &kept, 1, NULL);
    assert_int_equal(kept.status, SKY_OK);
    assert_int_equal(lender.out, 1);
    t->ops->close(t); /* a driver has all back before its own close */
    assert_int_equal(lender.out, 0);
}

static void wrong_arguments_of_the_suite_are_told(void **state) {
    (void)state;
    sky_tier_driver broken = tier_heap;
    broken.release = NULL;
    const sky_conformance wrong[] = {
        {0, .driver = &tier_heap, .url = "heap:1000000"},
        {sizeof *wrong, .url = "heap:1000000"},
        {sizeof *wrong, .driver = &tier_heap},
        {sizeof *wrong, .driver = &tier_heap, .url = "heap"},
        {sizeof *wrong, .driver = &broken, .url = "heap:1000000"},
        {sizeof *wrong, .driver = &tier_heap, .url = "heap:none"},
        {sizeof *wrong, .driver = &tier_dir, .url = "dir:/proc/nothing/here"},
    };
    assert_int_equal(sky_conformance_run(NULL), -1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sky_conformance_run(&wrong[i]), -1);
}

static void without_its_functions_nothing_is_lent_or_pinned(void **state) {
    (void)state;
    static const sky_tier_env env = {0};
    sky_tier_driver driver = tier_heap;
    driver.lease = NULL, driver.release = NULL, driver.pin = NULL, driver.pinned = NULL;
    sky_tier *t = open_heap(&driver, &env);
    assert_int_equal(t->traits & SKY_TIER_LEASES, 0);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 3, 1), SKY_OK);
    static const sky_op ops[] = {SKY_OP_LEASE, SKY_OP_PIN, SKY_OP_UNPIN};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sky_fixture_one(t, ops[i], sky_fixture_key(1)), SKY_E_UNSUPPORTED);
    assert_int_equal(sky_fixture_one(t, SKY_OP_PIN, sky_fixture_key(2)), SKY_MISS);
    t->ops->close(t);
}

/* ---- registering ---- */

static sky_status liar_open_anything(const char *where, void **self, sky_error *error) {
    (void)where;
    return dir_open(folder, self, error);
}

/* What `context` points to is where the store is. */
static sky_status open_there(void *context, const char *where, void **self, sky_error *error) {
    (void)where;
    return dir_open(context, self, error);
}

static void a_registration_brings_its_context(void **state) {
    (void)state;
    static const char *const schemes[] = {"one", "two"};
    static char folders[2][64]; /* as long as the registrations */
    for (int i = 0; i < 2; i++) {
        sky_tier_driver driver = tier_dir;
        snprintf(folders[i], sizeof folders[i], "%s/%s", folder, schemes[i]);
        driver.open = NULL, driver.open_with = open_there, driver.context = folders[i];
        assert_int_equal(sky_tier_register(schemes[i], &driver), SKY_OK);
    }
    static const sky_tier_env env = {0};
    sky_key key = {{7}};
    for (int i = 0; i < 2; i++) {
        sky_tier_driver found;
        sky_tier *tier;
        sky_error error = {0};
        void *store;
        uint64_t bytes;
        char value[5];
        assert_true(sky_driver_find(schemes[i], 3, &found));
        if (sky_driver_tier_open(&found, "one:x", &env, &tier, &error) != SKY_OK)
            fail_msg("%s", error.text);
        tier->ops->close(tier);
        assert_int_equal(sky_driver_open(&found, "x", &store, &error), SKY_OK);
        if (i == 0) /* the second folder is another */
            assert_int_equal(found.write(store, &key, "value", sizeof value, false), SKY_OK);
        assert_int_equal(found.read(store, &key, 0, value, sizeof value, &bytes),
                         i == 0 ? SKY_OK : SKY_MISS);
        found.close(store);
    }
}

static void drivers_are_registered_once(void **state) {
    (void)state;
    sky_tier_driver bad = tier_dir, found;
    assert_int_equal(sky_tier_register(NULL, &tier_dir), SKY_E_PARAM);
    assert_int_equal(sky_tier_register("dir", NULL), SKY_E_PARAM);
    static const char *const schemes[] = {"",       "1dir", "di:r", "di r",   "sixteen-letters-",
                                          "mem",    "disk", "shm",  "skymem", "sky",
                                          "sky+udp"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        assert_int_equal(sky_tier_register(schemes[i], &tier_dir), SKY_E_PARAM);
    bad.struct_bytes--;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_dir, bad.read = NULL;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_dir, bad.threads = SKY_TIER_DRIVER_THREADS_MAX + 1;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_dir, bad.traits = SKY_TIER_LEASES;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_dir, bad.open = NULL;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_dir, bad.open_with = open_there; /* which of the two? */
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_heap, bad.release = NULL;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    bad = tier_heap, bad.pinned = NULL;
    assert_int_equal(sky_tier_register("dir", &bad), SKY_E_PARAM);
    assert_false(sky_driver_find("dir", 3, &found));
    assert_int_equal(sky_tier_register("dir", &tier_dir), SKY_OK);
    assert_int_equal(sky_tier_register("dir", &tier_dir), SKY_E_PARAM);
    assert_true(sky_driver_find("dir:x", 3, &found) && found.threads == tier_dir.threads);
    assert_false(sky_driver_find("di", 2, &found));
    bad = tier_heap, bad.struct_bytes = offsetof(sky_tier_driver, lease); /* of an older header */
    assert_int_equal(sky_tier_register("heap", &bad), SKY_OK);
    assert_true(sky_driver_find("heap", 4, &found) && found.close && !found.lease && !found.pin);
    bad = tier_heap, bad.struct_bytes = offsetof(sky_tier_driver, open_with); /* of a later one */
    bad.context = (void *)1;
    assert_int_equal(sky_tier_register("heap2", &bad), SKY_OK);
    assert_true(sky_driver_find("heap2", 5, &found) && found.pin && !found.context);
    char scheme[8];
    for (int i = 5; i < SKY_TIER_DRIVERS_MAX; i++) {
        snprintf(scheme, sizeof scheme, "d%d", i);
        assert_int_equal(sky_tier_register(scheme, &tier_dir), SKY_OK);
    }
    assert_int_equal(sky_tier_register("more", &tier_dir), SKY_E_FULL);
}

static void a_store_that_does_not_open_says_why(void **state) {
    (void)state;
    static const sky_tier_env env = {0};
    sky_tier *t;
    sky_error error;
    assert_int_equal(sky_driver_tier_open(&tier_dir, "dir:/proc/nothing/here", &env, &t, &error),
                     SKY_E_IO);
    assert_non_null(strstr(error.text, "dir:/proc/nothing/here: cannot open the folder"));
}

/* The password of a store that names a host is neither in a message nor in what stat tells. */
static void a_password_is_not_shown(void **state) {
    (void)state;
    static const sky_tier_env env = {0};
    sky_tier *t;
    sky_error error = {0};
    sky_tier_driver lost = tier_dir;
    assert_int_equal(sky_driver_tier_open(&lost, "dir://me:secret@host/none", &env, &t, &error),
                     SKY_E_IO);
    assert_non_null(strstr(error.text, "dir://***@host/none: "));
    assert_null(strstr(error.text, "secret"));
    lost.open = liar_open_anything;
    assert_int_equal(sky_driver_tier_open(&lost, "dir://me:se@cret@host/0", &env, &t, &error),
                     SKY_OK);
    assert_string_equal(sky_fixture_stat(t).url, "dir://***@host/0");
    t->ops->close(t);
}

static sky_status open_says;

static sky_status strange_open(const char *where, void **self, sky_error *error) {
    (void)where, (void)self, (void)error;
    return open_says;
}

static void a_strange_status_of_open_is_a_failure(void **state) {
    (void)state;
    static const sky_tier_env env = {0};
    static const sky_status says[] = {SKY_PENDING, (sky_status)3, (sky_status)-99, SKY_E_DENIED,
                                      SKY_MISS};
    sky_tier_driver strange = tier_dir;
    strange.open = strange_open;
    for (size_t i = 0; i < 5; i++) {
        sky_tier *t;
        sky_error error = {0};
        sky_status expected = i < 3 ? SKY_E_IO : says[i];
        open_says = says[i];
        assert_int_equal(sky_driver_tier_open(&strange, "dir:x", &env, &t, &error), expected);
        assert_int_equal(error.status, expected);
    }
}

int main(void) {
    assert(mkdtemp(folder));
    char url[64];
    snprintf(url, sizeof url, "dir:%s", folder);
    sky_tier_driver plain = tier_dir; /* with what must be there alone */
    plain.list = NULL, plain.usage = NULL;
    const sky_conformance dir = {sizeof dir, .driver = &tier_dir, .url = url};
    sky_tier_driver placed = tier_dir;
    placed.open = NULL, placed.open_with = open_there, placed.context = folder;
    const sky_conformance there = {sizeof there, .driver = &placed, .url = "there:x"};
    const sky_conformance heap = {sizeof heap, .driver = &tier_heap, .url = "heap:100000000"};
    const sky_conformance bare = {sizeof bare, .driver = &plain, .url = url, .clear = clear_dir,
                                  .context = folder};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_while_damage_is_removed_stays),
        cmocka_unit_test(what_is_lent_is_checked),
        cmocka_unit_test(wrong_arguments_of_the_suite_are_told),
        cmocka_unit_test(without_its_functions_nothing_is_lent_or_pinned),
        cmocka_unit_test(puts_are_counted_without_asking_the_store),
        cmocka_unit_test(statistics_do_not_wait_for_a_store),
        cmocka_unit_test(damage_is_a_miss_wherever_it_is),
        cmocka_unit_test(a_wrong_size_is_damage),
        cmocka_unit_test(a_value_of_another_key_is_damage),
        cmocka_unit_test(a_level_that_there_is_not_is_damage),
        cmocka_unit_test(what_cannot_be_put_is_refused),
        cmocka_unit_test(a_part_of_a_value_takes_one_read),
        cmocka_unit_test(strange_statuses_are_failures),
        cmocka_unit_test(what_cannot_be_read_is_told_by_list_and_verify),
        cmocka_unit_test(a_registration_brings_its_context),
        cmocka_unit_test(drivers_are_registered_once),
        cmocka_unit_test(a_store_that_does_not_open_says_why),
        cmocka_unit_test(a_strange_status_of_open_is_a_failure),
        cmocka_unit_test(a_password_is_not_shown),
    };
    int failed = sky_conformance_run(&dir) + sky_conformance_run(&heap) +
                 sky_conformance_run(&bare) + sky_conformance_run(&there);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    remove_values();
    return failed;
}
