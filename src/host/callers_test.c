/* Proves: threads of a client that wait for the host themselves get their own bytes, whichever of
 * them reads the ring; deadlines and the host's end reach each; no other thread of the client wakes
 * for a caller that is alone; and host and client take no processor when nothing is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "host/host_fixture.h"
#include "io/clock.h"
#include "io/local.h"
#include "tier/shm/raw_fixture.h"
#include "tier/shm/shm_state.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(20)
#define KEYS     8
#define ROUNDS   1000
#define THREADS  3

static sky_host_fixture host;

static size_t bytes_of(uint64_t n) {
    return n % 2 ? 300 + n : (100u << 10) + n;
}

static sky_cache *connect_to(const char *path) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache = NULL;
    snprintf(url, sizeof url, "shm:%s", path);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    return cache;
}

/* submits: the cache's threads wait instead of this one. */
static sky_status run(sky_cache *cache, sky_op op, sky_item *item, const sky_call *call,
                      bool submits) {
    sky_batch batch;
    if (!submits)
        return sky_run(cache, op, item, 1, call);
    sky_status status = sky_submit(cache, op, item, 1, call, &batch);
    return status == SKY_OK ? sky_wait(cache, batch, SKY_TIME_NEVER) : status;
}

static void put_so(sky_cache *cache, uint64_t n, bool submits) {
    sky_span span = {malloc(bytes_of(n)), bytes_of(n)};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    assert_non_null(span.data);
    sky_fixture_fill(span.data, span.bytes, n);
    assert_int_equal(run(cache, SKY_OP_PUT, &item, NULL, submits), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    free(span.data);
}

static void put(sky_cache *cache, uint64_t n) {
    put_so(cache, n, false);
}

/* ---- threads of one client ---- */

typedef struct {
    sky_cache *cache;
    sky_op op;
    bool submits; /* has the cache's threads wait instead */
    int gate;     /* begins once this event is raised; -1: at once */
    sky_thread thread;
    uint64_t wrong;
} reader;

static bool is_right(const sky_item *item, uint64_t n, const void *copied) {
    const void *data = item->lease.id ? item->view.data : copied;
    return item->status == SKY_OK && item->bytes == bytes_of(n) &&
           sky_fixture_holds(data, bytes_of(n), n);
}

static sky_status ask(const reader *r, sky_item *item) {
    const sky_call call = {.deadline_ns = sky_now() + PATIENCE};
    return run(r->cache, r->op, item, &call, r->submits);
}

static void *read_all(void *argument) {
    reader *r = argument;
    sky_span span = {malloc(bytes_of(KEYS)), bytes_of(KEYS)};
    if (r->gate >= 0)
        (void)sky_poll(&r->gate, 1, SKY_TIME_NEVER);
    for (uint64_t i = 0; i < ROUNDS && r->wrong == 0; i++) {
        uint64_t n = (i * 5 + (uint64_t)r->op) % KEYS;
        sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        memset(span.data, 0, bytes_of(n));
        sky_time until = sky_now() + PATIENCE;
        r->wrong += ask(r, &item) != SKY_OK || !is_right(&item, n, span.data);
        r->wrong += sky_now() >= until; /* it was not woken for its answer */
        if (item.lease.id)
            r->wrong += sky_release(r->cache, item.lease) != SKY_OK;
    }
    free(span.data);
    return NULL;
}

static void threads_of_a_client_get_their_own_bytes(void **state) {
    (void)state;
    sky_cache *cache = connect_to(host.socket_path);
    int gate;
    assert_int_equal(sky_event_create(&gate), SKY_OK);
    reader readers[THREADS] = {{cache, SKY_OP_LEASE, false, gate, {0}, 0},
                               {cache, SKY_OP_GET, false, gate, {0}, 0},
                               {cache, SKY_OP_GET, true, gate, {0}, 0}};
    for (uint64_t n = 0; n < KEYS; n++)
        put(cache, n);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(sky_thread_start(&readers[i].thread, "reader", read_all, &readers[i]),
                         SKY_OK);
    sky_event_raise(gate);
    for (size_t i = 0; i < THREADS; i++)
        sky_thread_join(&readers[i].thread);
    sky_event_close(gate);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(readers[i].wrong, 0);
    assert_int_equal(sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES), 0);
    sky_cache_close(cache);
}

static void what_is_not_there_is_a_miss_among_others(void **state) {
    (void)state;
    sky_cache *cache = connect_to(host.socket_path);
    put(cache, 1);
    put(cache, 3);
    sky_item items[3];
    for (uint64_t n = 0; n < 3; n++)
        items[n] = (sky_item){.key = sky_fixture_key(n == 1 ? 1000 : n + 1)};
    assert_int_equal(sky_run(cache, SKY_OP_LEASE, items, 3, NULL), SKY_OK);
    assert_true(is_right(&items[0], 1, NULL) && is_right(&items[2], 3, NULL));
    assert_int_equal(items[1].status, SKY_MISS);
    assert_true(items[1].lease.id == 0 && items[1].view.data == NULL);
    assert_int_equal(sky_release(cache, items[0].lease), SKY_OK);
    assert_int_equal(sky_release(cache, items[2].lease), SKY_OK);
    assert_int_equal(sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES), 0);
    sky_cache_close(cache);
}

/* ---- who wakes ---- */

/* How often the threads of this name slept so far. */
static long sleeps_of(const char *name) {
    DIR *tasks = opendir("/proc/self/task");
    long sum = 0;
    assert_non_null(tasks);
    for (struct dirent *d; (d = readdir(tasks)) != NULL;) {
        char path[300], line[128], found[32] = "";
        long count;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            (void)sscanf(line, "Name: %31s", found);
            if (strcmp(found, name) == 0 &&
                sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
                sum += count;
        }
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return sum;
}

static void no_other_thread_wakes_for_a_caller(void **state) {
    (void)state;
    sky_cache *cache = connect_to(host.socket_path);
    put(cache, 1);
    sky_poll(NULL, 0, sky_now() + SKY_MS(20)); /* until they sleep; more sleeps are allowed below */
    long before = sleeps_of("skymem-shm") + sleeps_of("skymem-cache");
    assert_true(before > 0);
    reader r = {cache, SKY_OP_LEASE, false, -1, {0}, 0};
    for (uint64_t n = 0; n < KEYS; n++)
        put_so(cache, n, true);
    long submitted = sleeps_of("skymem-shm") + sleeps_of("skymem-cache");
    assert_true(submitted > before); /* they are these threads: what is submitted goes through */
    sky_time from = sky_now();
    (void)read_all(&r);
    assert_int_equal(r.wrong, 0);
    for (uint64_t n = 0; n < ROUNDS; n++)
        put(cache, n % KEYS);
    sky_time returns = (sky_now() - from) / SKY__SHM_RETURN_NS; /* for these a thread does wake */
    assert_in_range(sleeps_of("skymem-shm") + sleeps_of("skymem-cache") - submitted, 0,
                    ROUNDS / 2 + returns);
    sky_cache_close(cache);
}

static int64_t processor_ns(void) {
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return SKY_SECONDS(t.tv_sec) + t.tv_nsec;
}

/* The host is in this process. What a machine does to it by the way is allowed for. */
static void nothing_spins_when_nothing_is_asked(void **state) {
    (void)state;
    sky_cache *cache = connect_to(host.socket_path);
    reader r = {cache, SKY_OP_LEASE, false, -1, {0}, 0};
    for (uint64_t n = 0; n < KEYS; n++)
        put(cache, n);
    (void)read_all(&r);
    assert_int_equal(r.wrong, 0);
    int64_t before = processor_ns();
    sky_time until = sky_now() + SKY_MS(200);
    while (sky_now() < until)
        sky_poll(NULL, 0, until);
    assert_true(processor_ns() - before < SKY_MS(20));
    sky_cache_close(cache);
}

/* ---- a host that says nothing ---- */

static void *lease_one(void *argument) {
    sky_item item = {.key = sky_fixture_key(1)};
    reader *r = argument;
    const sky_call call = {.deadline_ns = r->wrong ? sky_now() + SKY_MS(r->wrong) : 0};
    sky_status status = sky_run(r->cache, SKY_OP_LEASE, &item, 1, &call);
    r->wrong = (uint64_t)(status == SKY_OK ? item.status : SKY_PENDING);
    return NULL;
}

static void *welcome_one(void *argument) {
    sky_local_listener *l = argument;
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    sky_local_peer peer;
    bool exhausted;
    size_t bytes;
    int fd = -1, passed;
    const sky_shm_frame welcome = {.kind = SKY_SHM_WELCOME,
                                   .version = SKY_SHM_VERSION,
                                   .arena_bytes = 1 << 20,
                                   .segment_bytes = 1 << 20,
                                   .client = 1};
    if (sky_poll(&l->fd, 1, sky_now() + PATIENCE))
        fd = sky_local_accept(l, &peer, &exhausted);
    if (fd >= 0 && sky_poll(&fd, 1, sky_now() + PATIENCE))
        (void)sky_local_receive(fd, data, sizeof data, &bytes, &passed);
    sky_raw_welcome(fd, &welcome);
    return (void *)(intptr_t)fd;
}

static void deadlines_and_the_end_reach_each_caller(void **state) {
    (void)state;
    char path[64];
    sky_local_listener l;
    sky_thread welcomer = {0};
    void *fd;
    snprintf(path, sizeof path, "/tmp/skymem-callers-%d", getpid());
    assert_int_equal(sky_local_listen(path, &l, NULL), SKY_OK);
    assert_int_equal(sky_thread_start(&welcomer, "welcomer", welcome_one, &l), SKY_OK);
    sky_cache *cache = connect_to(path);
    assert_int_equal(pthread_join(welcomer.os, &fd), 0);
    reader late[2] = {{.cache = cache, .wrong = 30}, {.cache = cache, .wrong = 10}};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sky_thread_start(&late[i].thread, "late", lease_one, &late[i]), SKY_OK);
    for (size_t i = 0; i < 2; i++) {
        sky_thread_join(&late[i].thread);
        assert_int_equal((sky_status)late[i].wrong, SKY_E_DEADLINE);
    }
    reader cut[2] = {{.cache = cache}, {.cache = cache}};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sky_thread_start(&cut[i].thread, "cut", lease_one, &cut[i]), SKY_OK);
    sky_poll(NULL, 0,
             sky_now() + SKY_MS(20)); /* mostly they wait by then; if not, it ends so too */
    sky_local_unlisten(path, &l);
    sky_raw_close((int)(intptr_t)fd);
    for (size_t i = 0; i < 2; i++) {
        sky_thread_join(&cut[i].thread);
        assert_int_equal((sky_status)cut[i].wrong, SKY_E_IO);
    }
    sky_cache_close(cache);
}

static int start_host(void **state) {
    (void)state;
    const char *url = "mem:8MiB";
    sky_host_fixture_start(&host, &url, 1);
    return 0;
}

static int stop_host(void **state) {
    (void)state;
    sky_host_fixture_stop(&host);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_client_get_their_own_bytes),
        cmocka_unit_test(what_is_not_there_is_a_miss_among_others),
        cmocka_unit_test(no_other_thread_wakes_for_a_caller),
        cmocka_unit_test(nothing_spins_when_nothing_is_asked),
        cmocka_unit_test(deadlines_and_the_end_reach_each_caller),
    };
    return cmocka_run_group_tests(tests, start_host, stop_host);
}
