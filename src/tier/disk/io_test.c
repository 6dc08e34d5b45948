/* Proves of a disk tier whose device fails or is late: an I/O error ends the operation that waits
 * for it, costs no entry, and is counted; and what is read too late is never written into a
 * caller's buffer. The device's results pass through this test.
 * The folder is sealed, as then nothing is read from pages that the kernel holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/aio.h"
#include "io/clock.h"
#include "io/secret.h"
#include "io/sync.h"
#include "tier/disk/disk_fixture.h"

#define BYTES     300000 /* more than is answered on the caller's thread */
#define ROUND_MS  SKY_MS(1)
#define WAIT_LONG SKY_SECONDS(60)

/* What the device answers to the tier. */
static atomic_bool fail_results, hold_results;
static atomic_int seen_results;

size_t __real_sky_aio_reap(sky_aio *a, sky_aio_result *results, size_t max);
size_t __wrap_sky_aio_reap(sky_aio *a, sky_aio_result *results, size_t max);

size_t __wrap_sky_aio_reap(sky_aio *a, sky_aio_result *results, size_t max) {
    if (atomic_load(&hold_results)) {
        atomic_fetch_add(&seen_results, 1);
        return 0;
    }
    size_t count = __real_sky_aio_reap(a, results, max);
    for (size_t i = 0; i < count && atomic_load(&fail_results); i++)
        results[i].status = SKY_E_IO;
    return count;
}

typedef struct {
    char *folder;
    char key[300];
    sky_tier *tier;
} place;

static int setup(void **state) {
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    char query[320];
    p->folder = disk_folder_make();
    snprintf(p->key, sizeof p->key, "%s.key", p->folder);
    assert_int_equal(sky_secret_make(p->key, NULL), SKY_OK);
    snprintf(query, sizeof query, "?seal=%s", p->key);
    p->tier = disk_open(p->folder, query);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    place *p = *state;
    disk_close(p->tier);
    disk_folder_drop(p->folder);
    unlink(p->key);
    free(p);
    return 0;
}

static void an_io_error_wakes_the_reader(void **state) {
    const place *p = *state;
    const sky_key key = sky_fixture_key(1);
    assert_int_equal(sky_fixture_put(p->tier, key, NULL, BYTES, 1), SKY_OK);
    atomic_store(&fail_results, true);
    assert_int_equal(sky_fixture_check(p->tier, key, BYTES, 1), SKY_E_IO);
    assert_true(sky_fixture_counts(p->tier).errors >= 1);
    assert_int_equal(sky_fixture_counts(p->tier).corrupt, 0);
    atomic_store(&fail_results, false);
    assert_int_equal(sky_fixture_check(p->tier, key, BYTES, 1), SKY_OK); /* it is still there */
}

static void an_io_error_wakes_the_writer(void **state) {
    const place *p = *state;
    const sky_key key = sky_fixture_key(2);
    atomic_store(&fail_results, true);
    assert_int_equal(sky_fixture_put(p->tier, key, NULL, BYTES, 2), SKY_E_IO);
    atomic_store(&fail_results, false);
    assert_int_equal(sky_fixture_check(p->tier, key, BYTES, 2), SKY_MISS);
    assert_int_equal(disk_count_files(p->folder, 't'), 0); /* nothing half written is left */
    assert_int_equal(sky_fixture_put(p->tier, key, NULL, BYTES, 2), SKY_OK);
}

static void a_late_read_leaves_the_buffer_alone(void **state) {
    const place *p = *state;
    const sky_key key = sky_fixture_key(3), other = sky_fixture_key(4);
    static uint8_t into[BYTES];
    assert_int_equal(sky_fixture_put(p->tier, key, NULL, BYTES, 3), SKY_OK);
    assert_int_equal(sky_fixture_put(p->tier, other, NULL, BYTES, 4), SKY_OK);
    for (int cancel = 0; cancel < 2; cancel++) {
        memset(into, 0xa5, sizeof into);
        sky_span span = {into, sizeof into};
        sky_item item = {.key = key, .spans = &span, .span_count = 1};
        const sky_call call = {.deadline_ns = cancel ? 0 : sky_now() + SKY_MS(20)};
        sky_batch batch;
        atomic_store(&seen_results, 0);
        atomic_store(&hold_results, true);
        assert_int_equal(sky_tier_submit(p->tier, SKY_OP_GET, &item, 1, &call, &batch), SKY_OK);
        while (cancel && atomic_load(&seen_results) == 0) /* it is at the device */
            sky_poll(NULL, 0, sky_now() + ROUND_MS);
        if (cancel)
            sky_tier_cancel(p->tier, batch);
        else
            assert_int_equal(sky_tier_wait(p->tier, batch, sky_now() + WAIT_LONG), SKY_OK);
        assert_int_equal(item.status, cancel ? SKY_E_CANCELLED : SKY_E_DEADLINE);
        memset(into, 0x5a, sizeof into); /* the buffer is the caller's again */
        atomic_store(&hold_results, false);
        assert_int_equal(sky_fixture_check(p->tier, other, BYTES, 4), SKY_OK); /* it came behind */
        assert_int_equal(sky_fixture_check(p->tier, key, BYTES, 3), SKY_OK);
        for (size_t i = 0; i < sizeof into; i++)
            assert_int_equal(into[i], 0x5a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_io_error_wakes_the_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(an_io_error_wakes_the_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_late_read_leaves_the_buffer_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
