/* Proves: whatever a client sends, its connection ends at worst, others go on, and nothing of it is
 * left: no lease, no byte of the arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_fixture.h"
#include "host/slow_fixture.h"
#include "io/clock.h"
#include "io/shared.h"
#include "tier/shm/raw_fixture.h"
#include "tier/shm/shm_state.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)

static sky_host_fixture hosts[2]; /* for all tests; for one, with a slow store */
static sky_host_fixture *host = &hosts[0];

static int start_host(void **state) {
    (void)state;
    const char *url = "mem:8MiB";
    sky_host_fixture_start(host, &url, 1);
    return 0;
}

static int stop_host(void **state) {
    (void)state;
    sky_host_fixture_stop(host);
    return 0;
}

/* ---- a client by hand ---- */

static int connect_raw(void) {
    sky_local_peer peer;
    int fd = -1;
    sky_status status;
    while ((status = sky_local_connect(host->socket_path, &fd, &peer)) == SKY_E_BUSY)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(status, SKY_OK);
    return fd;
}

static int greeted(void) {
    int fd = connect_raw();
    sky_raw_greet(fd);
    return fd;
}

/* A client with a stage of 64 KiB. */
static int staged(uint8_t **stage) {
    int fd = greeted(), passed;
    sky_shm_frame f = {.kind = SKY_SHM_STAGE, .stage_bytes = 65536};
    sky_raw_say(fd, &f, -1);
    assert_true(sky_raw_hear(fd, &f, &passed));
    assert_true(f.kind == SKY_SHM_STAGED && f.status == SKY_OK && f.stage_bytes == 65536);
    *stage = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0);
    assert_ptr_not_equal(*stage, MAP_FAILED);
    assert_int_equal(ftruncate(passed, 0), -1); /* the host would touch what is gone */
    close(passed);
    return fd;
}

static void assert_ended(int fd) {
    sky_shm_frame f;
    while (sky_raw_hear(fd, &f, NULL))
        ;
    sky_raw_close(fd);
}

/* ---- the others ---- */

static sky_cache *others(void) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache;
    snprintf(url, sizeof url, "shm:%s", host->socket_path);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    return cache;
}

/* A put, a get and a removal of a good client work; then nobody else's is left. */
static void assert_unharmed(void) {
    sky_cache *cache = others();
    uint8_t data[5000], back[5000];
    sky_span span = {data, sizeof data}, to = {back, sizeof back};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_fixture_fill(data, sizeof data, 1);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    item.spans = &to;
    assert_int_equal(sky_run(cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_memory_equal(data, back, sizeof data);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    sky_cache_close(cache);
    char *text = NULL;
    sky_time until = sky_now() + PATIENCE;
    for (bool empty = false; !empty; free(text)) { /* the host sees the end of others in its turn */
        assert_int_equal(sky_host_text(host->socket_path, until, &text), SKY_OK);
        empty = strncmp(text, "1 clients, ", 11) == 0 &&
                strstr(text, " 0 leases, 0 bytes, 0 committed");
        if (!empty && sky_now() > until)
            fail_msg("left behind: %s", text);
        if (!empty)
            sky_poll(NULL, 0, sky_now() + SKY_MS(2));
    }
}

/* ---- what a client may send ---- */

static void bytes_that_are_no_frame_end_it(void **state) {
    (void)state;
    uint8_t noise[SKY_SHM_FRAME_BYTES_MAX + 100];
    for (uint64_t seed = 0; seed < 60; seed++) {
        int fd = seed % 2 ? greeted() : connect_raw();
        sky_fixture_fill(noise, sizeof noise, seed);
        size_t bytes = seed == 4 ? sizeof noise : 1 + seed * 131 % SKY_SHM_FRAME_BYTES_MAX;
        assert_int_equal(sky_raw_send(fd, noise, bytes, -1), SKY_OK);
        assert_ended(fd);
    }
    assert_unharmed();
}

static void frames_out_of_place_end_it(void **state) {
    (void)state;
    static const sky_shm_frame wrong[] = {
        {.kind = SKY_SHM_HELLO, .version = SKY_SHM_VERSION},
        {.kind = SKY_SHM_WELCOME, .version = SKY_SHM_VERSION},
        {.kind = SKY_SHM_REFUSED, .status = SKY_E_BUSY},
        {.kind = SKY_SHM_DONE, .count = 1},
        {.kind = SKY_SHM_STAGED, .stage_bytes = 4096},
        {.kind = SKY_SHM_SEGMENT, .segment = 0},
        {.kind = SKY_SHM_RETIRED, .segment = 0},
        {.kind = SKY_SHM_TOLD, .question = SKY_SHM_LIST},
        {.kind = SKY_SHM_RELEASE, .count = 1, .leases = {0}},
        {.kind = SKY_SHM_RELEASE, .count = 1, .leases = {65536}},
        {.kind = SKY_SHM_RELEASE, .count = 1, .leases = {UINT64_MAX}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int fd = greeted();
        sky_raw_say(fd, &wrong[i], -1);
        assert_ended(fd);
    }
    int fd = connect_raw(); /* before it said who it is */
    sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_LIST}, -1);
    assert_ended(fd);
    fd = connect_raw();
    sky_shm_frame f = {.kind = SKY_SHM_HELLO, .version = SKY_SHM_VERSION, .count = SKY_TIERS_MAX};
    sky_raw_say(fd, &f, -1);
    assert_true(sky_raw_hear(fd, &f, NULL));
    assert_true(f.kind == SKY_SHM_REFUSED && f.status == SKY_E_PARAM); /* no such store */
    assert_ended(fd);
    assert_unharmed();
}

/* Such as 3, which took an answer with an eviction class for damage. */
static void other_versions_are_refused(void **state) {
    (void)state;
    static const uint32_t versions[] = {0, 1, 2, 3, SKY_SHM_VERSION + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        int fd = connect_raw();
        sky_shm_frame f = {.kind = SKY_SHM_HELLO, .version = versions[i]};
        sky_raw_say(fd, &f, -1);
        assert_true(sky_raw_hear(fd, &f, NULL));
        assert_true(f.kind == SKY_SHM_REFUSED && f.status == SKY_E_UNSUPPORTED);
        assert_ended(fd);
    }
    assert_unharmed();
}

static void wild_places_end_it(void **state) {
    (void)state;
    static const struct {
        uint64_t at, bytes;
        uint32_t name_bytes;
    } wild[] = {{65536, 1, 0},
                {0, 65537, 0},
                {65535, 2, 0},
                {65535, 1, 1},
                {UINT64_MAX, 1, 0},
                {UINT64_MAX - 4, 5, 0},
                {UINT64_MAX - 4, 0, 5},
                {1, SKY_PAYLOAD_BYTES_MAX, 0},
                {(uint64_t)1 << 63, (uint64_t)1 << 31, 1024}};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        uint8_t *stage;
        int fd = i == 0 ? greeted() : staged(&stage);
        const sky_shm_frame put = {.kind = SKY_SHM_RUN,
                                   .count = 1,
                                   .op = SKY_OP_PUT,
                                   .orders = {{.key = sky_fixture_key(5),
                                               .at = wild[i].at,
                                               .bytes = wild[i].bytes,
                                               .name_bytes = wild[i].name_bytes}}};
        sky_raw_say(fd, &put, -1);
        assert_ended(fd);
        if (i > 0)
            munmap(stage, 65536);
    }
    assert_unharmed();
}

/* Or a frame could have the host copy a stage 64 times. */
static void bytes_named_twice_end_it(void **state) {
    (void)state;
    uint8_t *stage;
    int fd = staged(&stage);
    sky_shm_frame put = {.kind = SKY_SHM_RUN, .count = 2, .op = SKY_OP_PUT};
    for (uint32_t i = 0; i < 2; i++)
        put.orders[i] = (sky_shm_order){.key = sky_fixture_key(5 + i), .bytes = 32769};
    sky_raw_say(fd, &put, -1);
    sky_shm_frame f;
    assert_false(sky_raw_hear(fd, &f, NULL));
    sky_raw_close(fd);
    munmap(stage, 65536);
    assert_unharmed();
}

/* A host that looks at the ring just now has ended the connection already. */
static void say_and_wake(int fd, const sky_shm_frame *f) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    if (f)
        (void)sky_raw_send(fd, data, sky_shm_encode(f, data), -1);
    (void)sky_local_send(fd, "", 1, -1);
}

/* The client's ring lies open to it: what it writes there is its own harm. */
static void a_ring_that_is_not_as_it_was_left_ends_it(void **state) {
    (void)state;
    static const struct {
        size_t at; /* docs/formats/ring.md */
        uint32_t word;
    } wild[] = {{0, SKY_RING_BYTES + 8}, {0, 4}, {0, 0x80000000}, {512 + 128, 4096}};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        int fd = greeted();
        sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_CANCEL}, -1);
        memcpy(sky_raw_ring(fd)->memory + wild[i].at, &wild[i].word, sizeof wild[i].word);
        say_and_wake(fd, &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT});
        memcpy(sky_raw_ring(fd)->memory + wild[i].at, &wild[i].word, sizeof wild[i].word);
        say_and_wake(fd, NULL);
        assert_ended(fd);
    }
    static const uint32_t lengths[] = {0, SKY_RING_MESSAGE_BYTES + 1, 0x80000001, 0xffffffff};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int fd = greeted();
        uint8_t *memory = sky_raw_ring(fd)->memory;
        memcpy(memory + 4096, &lengths[i], sizeof lengths[i]);
        memcpy(memory, &(uint32_t){16}, sizeof(uint32_t));
        say_and_wake(fd, NULL);
        assert_ended(fd);
    }
    int fd = greeted();
    assert_int_equal(sky_local_send(fd, "no wake-up", 10, -1), SKY_OK);
    assert_ended(fd);
    assert_unharmed();
}

static void descriptors_are_not_taken(void **state) {
    (void)state;
    int kinds[3] = {open("/dev/null", O_RDWR | O_CLOEXEC),
                    memfd_create("mine", MFD_CLOEXEC | MFD_ALLOW_SEALING), connect_raw()};
    for (size_t i = 0; i < 3; i++) {
        assert_true(kinds[i] >= 0);
        int fd = greeted();
        sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_STAGE, .stage_bytes = 4096}, kinds[i]);
        assert_ended(fd);
        sky_local_close(kinds[i]);
    }
    assert_unharmed();
}

static void a_stage_has_its_bounds(void **state) {
    (void)state;
    int fd = greeted(), passed;
    static const uint64_t sizes[] = {0, UINT64_MAX, (uint64_t)1 << 62, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sky_shm_frame f = {.kind = SKY_SHM_STAGE, .stage_bytes = sizes[i]};
        sky_raw_say(fd, &f, -1);
        assert_true(sky_raw_hear(fd, &f, &passed));
        assert_true(f.kind == SKY_SHM_STAGED && f.status == SKY_E_FULL && passed == -1);
    }
    sky_raw_close(fd);
    assert_unharmed();
}

/* A stage that is written, punched out and read at once harms nobody: a payload is what its
 * checksum says, whatever that was. */
static void a_stage_may_change_under_a_put(void **state) {
    (void)state;
    uint8_t *stage;
    sky_shm_frame f;
    int fd = staged(&stage);
    for (uint32_t i = 0; i < 50; i++) {
        const sky_shm_frame put = {
            .kind = SKY_SHM_RUN,
            .id = i,
            .count = 1,
            .op = SKY_OP_PUT,
            .orders = {{.key = sky_fixture_key(9), .bytes = 65000, .name_bytes = 100}}};
        sky_raw_say(fd, &put, -1);
        memset(stage, (int)i, 65536);
        if (i % 8 == 0)
            assert_int_equal(madvise(stage, 65536, MADV_REMOVE), 0);
        assert_true(sky_raw_hear(fd, &f, NULL));
        assert_true(f.kind == SKY_SHM_DONE && f.results[0].status == SKY_OK);
    }
    sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_VERIFY}, -1);
    assert_true(sky_raw_hear(fd, &f, NULL));
    assert_true(f.kind == SKY_SHM_TOLD && f.numbers[0] == 1 && f.numbers[2] == 0);
    const sky_shm_frame rm = {.kind = SKY_SHM_RUN,
                              .count = 1,
                              .op = SKY_OP_REMOVE,
                              .orders = {{.key = sky_fixture_key(9)}}};
    sky_raw_say(fd, &rm, -1);
    assert_true(sky_raw_hear(fd, &f, NULL));
    sky_raw_close(fd);
    munmap(stage, 65536);
    assert_unharmed();
}

static void who_never_reads_is_let_go(void **state) {
    (void)state;
    int fd = greeted();
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    const sky_shm_frame ask = {.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT};
    size_t bytes = sky_shm_encode(&ask, data);
    sky_status status;
    sky_time until = sky_now() + PATIENCE;
    while ((status = sky_raw_send(fd, data, bytes, -1)) != SKY_E_IO && sky_now() < until)
        if (status == SKY_E_BUSY)
            sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(status, SKY_E_IO);
    sky_raw_close(fd);
    assert_unharmed();
}

static size_t descriptors(void) {
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Nor does it fill the host with descriptors that wait for it. */
static void who_never_reads_gets_few_descriptors(void **state) {
    (void)state;
    static const sky_shm_frame asks[] = {
        {.kind = SKY_SHM_STAGE, .stage_bytes = 4096},
        {.kind = SKY_SHM_ASK, .question = SKY_SHM_TEXT},
    };
    for (size_t i = 0; i < 2; i++) {
        uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
        int fd = greeted();
        size_t before = descriptors(), most = 0;
        size_t bytes = sky_shm_encode(&asks[i], data);
        sky_time until = sky_now() + PATIENCE;
        sky_status status;
        while ((status = sky_raw_send(fd, data, bytes, -1)) != SKY_E_IO && sky_now() < until) {
            size_t now = descriptors();
            most = now > most ? now : most;
            if (status == SKY_E_BUSY)
                sky_poll(NULL, 0, sky_now() + SKY_MS(1));
        }
        assert_int_equal(status, SKY_E_IO);
        assert_true(most <= before + SKY__HOST_PASSED_MAX + 8);
        sky_raw_close(fd);
        assert_unharmed();
    }
}

static void who_leaves_with_leases_and_puts_loses_them(void **state) {
    (void)state;
    uint8_t *stage;
    sky_shm_frame f;
    for (int round = 0; round < 12; round++) {
        int fd = staged(&stage);
        sky_shm_frame put = {
            .kind = SKY_SHM_RUN, .count = 1, .op = SKY_OP_PUT, .orders = {{.bytes = 60000}}};
        put.orders[0].key = sky_fixture_key(3);
        sky_raw_say(fd, &put, -1);
        put.op = SKY_OP_LEASE;
        for (int i = 0; i < 10; i++)
            sky_raw_say(fd, &put, -1);
        for (int i = 0; i < round; i++) /* it may leave at any time */
            if (!sky_raw_hear(fd, &f, NULL))
                fail_msg("it was disconnected");
        sky_raw_close(fd);
        munmap(stage, 65536);
    }
    sky_cache *cache = others();
    sky_item item = {.key = sky_fixture_key(3)};
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed();
}

/* It may be reading it. */
static void what_one_that_is_ended_was_lent_stays(void **state) {
    (void)state;
    sky_cache *cache = others();
    sky_span span = {"x", 1};
    sky_item item = {.key = sky_fixture_key(3), .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    int fd = greeted();
    sky_shm_frame f = {.kind = SKY_SHM_RUN, .count = 1, .op = SKY_OP_LEASE};
    f.orders[0].key = item.key;
    sky_raw_say(fd, &f, -1);
    do
        assert_true(sky_raw_hear(fd, &f, NULL));
    while (f.kind != SKY_SHM_DONE);
    assert_int_equal(f.results[0].status, SKY_OK);
    sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_STAGED, .stage_bytes = 4096}, -1);
    while (sky_raw_hear(fd, &f, NULL)) /* until it is ended */
        ;
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    char *text;
    assert_int_equal(sky_host_text(host->socket_path, sky_now() + PATIENCE, &text), SKY_OK);
    assert_non_null(strstr(text, " 1 leases"));
    free(text);
    sky_raw_close(fd);
    assert_unharmed();
}

/* ---- runs that take long ---- */

/* Say `f` as soon as the host has answered another frame: it looks at rings still, and does not
 * sleep. Whether `other` hears something then. */
static bool say_while_it_looks(int fd, const sky_shm_frame *f, int other) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    sky_shm_frame told;
    sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT}, -1);
    while (!sky_ring_has_work(sky_raw_ring(fd)))
        sky_ring_pause();
    assert_true(sky_raw_hear(fd, &told, NULL));
    assert_int_equal(sky_ring_send(sky_raw_ring(fd), data, sky_shm_encode(f, data), -1), SKY_OK);
    sky_time until = sky_now() + SKY_SECONDS(5);
    while (!sky_ring_has_work(sky_raw_ring(other)) && sky_now() < until)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    return sky_ring_has_work(sky_raw_ring(other));
}

static sky_shm_frame slow_run(uint32_t id) {
    sky_shm_frame f = {.kind = SKY_SHM_RUN, .id = id, .count = 1, .op = SKY_OP_LEASE};
    f.orders[0].key = sky_fixture_key(1000 + id);
    return f;
}

/* Runs under way are bounded, can be cancelled, and end with their client; others are served. */
static void runs_under_way_have_their_bounds(void **state) {
    (void)state;
    const char *urls[] = {"mem:8MiB", "slow:x"};
    sky_shm_frame f;
    const sky_tier_driver slow = sky_slow_fixture_driver();
    assert_int_equal(sky_tier_register("slow", &slow), SKY_OK);
    host = &hosts[1];
    sky_host_fixture_start(host, urls, 2);
    sky_slow_fixture_held = true;
    int fd = greeted(), other = greeted();
    for (uint32_t id = 0; id < SKY__HOST_RUNS_MAX; id++) {
        f = slow_run(id);
        sky_raw_say(fd, &f, -1);
    }
    sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_CANCEL, .id = 7}, -1);
    assert_true(sky_raw_hear(fd, &f, NULL)); /* the one that was cancelled is answered, no other */
    assert_true(f.kind == SKY_SHM_DONE && f.id == 7 && f.results[0].status == SKY_E_CANCELLED);
    for (uint32_t id = 200; id < 202; id++) {
        f = slow_run(id);
        sky_raw_say(fd, &f, -1); /* one takes the place that came free, the next is one too many */
    }
    assert_ended(fd);
    f = slow_run(1);
    sky_raw_say(other, &f, -1);
    sky_raw_say(other, &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT}, -1);
    assert_true(sky_raw_hear(other, &f, NULL));
    assert_int_equal(f.kind, SKY_SHM_TOLD);
    sky_slow_fixture_held = false;
    assert_true(sky_raw_hear(other, &f, NULL));
    assert_true(f.kind == SKY_SHM_DONE && f.results[0].status == SKY_MISS);
    sky_raw_close(other);
    sky_host_fixture_stop(host);
    host = &hosts[0];
}

/* One that waits for room in the cache has it when those that took it are cancelled, or leave
 * without an answer. */
static void who_waits_for_room_is_served_when_others_leave(void **state) {
    (void)state;
    const char *urls[] = {"mem:8MiB", "slow:x"};
    int fds[SKY_BATCHES_MAX / SKY__HOST_RUNS_MAX], last[9];
    const size_t fd_count = sizeof fds / sizeof *fds, last_count = sizeof last / sizeof *last;
    bool came = true;
    sky_shm_frame f;
    host = &hosts[1];
    sky_host_fixture_start(host, urls, 2);
    sky_slow_fixture_held = true;
    for (size_t i = 0; i < fd_count; i++) {
        fds[i] = greeted();
        for (uint32_t id = 0; id < SKY__HOST_RUNS_MAX; id++) {
            f = slow_run(id);
            sky_raw_say(fds[i], &f, -1);
        }
        sky_raw_say(fds[i], &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT}, -1);
        assert_true(sky_raw_hear(fds[i], &f, NULL)); /* all before it were taken */
    }
    for (size_t i = 0; i < last_count; i++) {
        last[i] = greeted();
        f = slow_run(1);
        sky_raw_say(last[i], &f, -1);
        sky_raw_say(last[i], &(sky_shm_frame){.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT}, -1);
    }
    for (uint32_t i = 0; i + 1 < last_count; i++)
        came &= say_while_it_looks(fds[0], &(sky_shm_frame){.kind = SKY_SHM_CANCEL, .id = i},
                                   last[i]) &&
                sky_raw_hear(fds[0], &f, NULL);
    for (size_t i = 0; i < fd_count; i++)
        sky_raw_close(fds[i]);
    for (size_t i = 0; i < last_count; i++) {
        assert_true(sky_raw_hear(last[i], &f, NULL));
        assert_int_equal(f.kind, SKY_SHM_TOLD);
    }
    sky_slow_fixture_held = false;
    for (size_t i = 0; i < last_count; i++) {
        assert_true(sky_raw_hear(last[i], &f, NULL));
        assert_true(f.kind == SKY_SHM_DONE && f.results[0].status == SKY_MISS);
        sky_raw_close(last[i]);
    }
    sky_host_fixture_stop(host);
    host = &hosts[0];
    assert_true(came);
}

/* ---- listings ---- */

/* Each takes memory until it is read: one at a time. */
static void a_listing_is_read_before_the_next(void **state) {
    (void)state;
    const sky_shm_frame list = {.kind = SKY_SHM_ASK, .question = SKY_SHM_LIST};
    const sky_shm_frame stat = {.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT};
    sky_cache *cache = others();
    sky_span span = {"x", 1};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    int fd = greeted(), other = greeted(), passed;
    sky_shm_frame f;
    for (int round = 0; round < 2; round++) {
        sky_raw_say(fd, &list, -1);
        sky_raw_await(fd);
        sky_raw_say(fd, &list, -1);
        sky_raw_say(other, &stat, -1);
        assert_true(sky_raw_hear(other, &f, NULL)); /* and what came before it was looked at */
        assert_true(sky_raw_hear(fd, &f, &passed));
        assert_true(f.told == SKY_OK && f.text_bytes > 0 && passed >= 0);
        sky_local_close(passed);
        assert_true(sky_raw_hear(fd, &f, &passed));
        assert_true(f.told == SKY_E_BUSY && f.text_bytes == 0 && passed < 0);
    }
    sky_raw_close(fd);
    sky_raw_close(other);
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed();
}

/* ---- descriptors ---- */

static _Atomic uint32_t refusing; /* so often was a descriptor refused, and 1; 0: none is */
static _Atomic uint32_t refusals; /* are over after so many; 0: they go on */
static _Atomic uint32_t releases; /* frames of this kind that were sent */

/* Called instead of those without __wrap_: see CMakeLists.txt. */
sky_status __wrap_sky_local_send(int fd, const void *data, size_t bytes, int passed);
sky_status __real_sky_local_send(int fd, const void *data, size_t bytes, int passed);
sky_status __wrap_sky_ring_send(sky_ring *r, const void *data, size_t bytes, int passed);
sky_status __real_sky_ring_send(sky_ring *r, const void *data, size_t bytes, int passed);

sky_status __wrap_sky_local_send(int fd, const void *data, size_t bytes, int passed) {
    if (passed < 0 || refusing == 0 || (refusals > 0 && refusing > refusals))
        return __real_sky_local_send(fd, data, bytes, passed);
    refusing++;
    return SKY_E_FULL;
}

sky_status __wrap_sky_ring_send(sky_ring *r, const void *data, size_t bytes, int passed) {
    releases += bytes > 0 && *(const uint8_t *)data == SKY_SHM_RELEASE;
    return __real_sky_ring_send(r, data, bytes, passed);
}

/* The socket is writable meanwhile, and others are served. */
static void a_descriptor_that_cannot_be_sent_waits(void **state) {
    (void)state;
    const sky_shm_frame stat = {.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT};
    int fd = greeted(), other = greeted(), passed;
    sky_shm_frame f;
    sky_time from = sky_now();
    refusing = 1;
    sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_STAGE, .stage_bytes = 4096}, -1);
    while (refusing < 4) {
        sky_raw_say(other, &stat, -1);
        assert_true(sky_raw_hear(other, &f, NULL));
        sky_poll(NULL, 0, sky_now() + SKY_MS(5));
    }
    uint32_t tries = atomic_exchange(&refusing, 0) - 1;
    assert_true(tries <= (sky_now() - from) / SKY__HOST_SEND_NS + 2);
    assert_true(sky_raw_hear(fd, &f, &passed));
    assert_true(f.kind == SKY_SHM_STAGED && f.status == SKY_OK && passed >= 0);
    sky_local_close(passed);
    sky_raw_close(fd);
    sky_raw_close(other);
    assert_unharmed();
}

static void a_descriptor_that_waits_needs_no_other_client(void **state) {
    (void)state;
    const sky_shm_frame stage = {.kind = SKY_SHM_STAGE, .stage_bytes = 4096};
    bool came = true;
    int fd = greeted();
    sky_shm_frame f;
    for (int i = 0; i < 50 && came; i++) {
        refusing = refusals = 1;
        came = say_while_it_looks(fd, &stage, fd);
        assert_true(!came || (sky_raw_hear(fd, &f, NULL) && f.status == SKY_OK));
    }
    refusing = refusals = 0;
    sky_raw_close(fd);
    assert_true(came);
    assert_unharmed();
}

/* ---- returns ---- */

static void wait_for_no_leases(void) {
    char *text = NULL;
    sky_time until = sky_now() + PATIENCE;
    do {
        free(text);
        assert_int_equal(sky_host_text(host->socket_path, until, &text), SKY_OK);
        if (sky_now() > until)
            fail_msg("%s", text);
    } while (!strstr(text, " 0 leases"));
    free(text);
}

/* What was lent goes back together, and soon, although nothing else is asked. */
static void leases_are_returned_together(void **state) {
    (void)state;
    sky_cache *cache = others();
    sky_span span = {"x", 1};
    sky_item items[SKY_SHM_ITEMS_MAX] = {0};
    for (uint32_t i = 0; i < SKY_SHM_ITEMS_MAX; i++)
        items[i] = (sky_item){.key = sky_fixture_key(i), .spans = &span, .span_count = 1};
    const sky_call expiring = {.ttl_s = 600}; /* a client keeps others itself, and says nothing */
    assert_int_equal(sky_run(cache, SKY_OP_PUT, items, SKY_SHM_ITEMS_MAX, &expiring), SKY_OK);
    for (int round = 0; round < 20; round++) {
        sky_time from = sky_now();
        releases = 0;
        assert_int_equal(sky_run(cache, SKY_OP_LEASE, items, SKY_SHM_ITEMS_MAX, NULL), SKY_OK);
        for (uint32_t i = 0; i < SKY_SHM_ITEMS_MAX; i++)
            assert_int_equal(sky_release(cache, items[i].lease), SKY_OK);
        wait_for_no_leases();
        assert_true(releases >= 1);
        assert_true(releases <= (sky_now() - from) / SKY__SHM_RETURN_NS + 2);
    }
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, items, SKY_SHM_ITEMS_MAX, NULL), SKY_OK);
    sky_cache_close(cache);
    assert_unharmed();
}

/* ---- many connections ---- */

static void many_connections_are_turned_away(void **state) {
    (void)state;
    static int fds[SKY_HOST_CLIENTS_MAX + 40];
    size_t refused = 0;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        fds[i] = greeted();
    for (size_t i = SKY_HOST_CLIENTS_MAX; i < SKY_HOST_CLIENTS_MAX + 40; i++) {
        sky_shm_frame f;
        fds[i] = connect_raw();
        assert_true(sky_raw_hear(fds[i], &f, NULL));
        refused += f.kind == SKY_SHM_REFUSED && f.status == SKY_E_BUSY;
    }
    assert_int_equal(refused, 40);
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX + 40; i++)
        sky_raw_close(fds[i]);
    for (int i = 0; i < 3000; i++)
        sky_raw_close(connect_raw());
    assert_unharmed();
}

/* All places are taken by connections that say nothing: the first of them goes for each that comes,
 * so that one which says who it is gets in at once. */
static void who_says_nothing_makes_room(void **state) {
    (void)state;
    static int fds[SKY_HOST_CLIENTS_MAX];
    sky_shm_frame f;
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        fds[i] = connect_raw();
    int first = greeted(), second = greeted();
    for (size_t i = 0; i < 2; i++)
        assert_false(sky_raw_hear(fds[i], &f, NULL)); /* closed */
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        sky_raw_close(fds[i]);
    sky_raw_close(first);
    sky_raw_close(second);
    assert_unharmed();
}

static void a_second_host_is_told(void **state) {
    (void)state;
    sky_error error = {0};
    const char *url = "mem:1MiB", *disk = "disk:/nowhere";
    sky_host_options o = {.struct_bytes = sizeof o,
                          .socket_path = host->socket_path,
                          .urls = &url,
                          .url_count = 1,
                          .stop_fd = -1};
    assert_int_equal(sky_host_run(&o, &error), SKY_E_BUSY);
    assert_non_null(strstr(error.text, "in use"));
    o.socket_path = "/tmp/skymem-host-unused";
    o.urls = &disk;
    assert_int_equal(sky_host_run(&o, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "arena"));
    assert_int_equal(access(o.socket_path, F_OK), -1);
    o.struct_bytes--;
    assert_int_equal(sky_host_run(&o, &error), SKY_E_PARAM);
    assert_int_equal(sky_host_run(NULL, NULL), SKY_E_PARAM);
    char *text;
    assert_int_equal(sky_host_text(o.socket_path, sky_now(), &text), SKY_MISS);
    assert_int_equal(sky_host_text(NULL, sky_now(), &text), SKY_E_PARAM);
    assert_unharmed();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_frame_end_it),
        cmocka_unit_test(frames_out_of_place_end_it),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(wild_places_end_it),
        cmocka_unit_test(bytes_named_twice_end_it),
        cmocka_unit_test(a_ring_that_is_not_as_it_was_left_ends_it),
        cmocka_unit_test(descriptors_are_not_taken),
        cmocka_unit_test(a_stage_has_its_bounds),
        cmocka_unit_test(a_stage_may_change_under_a_put),
        cmocka_unit_test(who_never_reads_is_let_go),
        cmocka_unit_test(who_never_reads_gets_few_descriptors),
        cmocka_unit_test(who_leaves_with_leases_and_puts_loses_them),
        cmocka_unit_test(what_one_that_is_ended_was_lent_stays),
        cmocka_unit_test(runs_under_way_have_their_bounds),
        cmocka_unit_test(who_waits_for_room_is_served_when_others_leave),
        cmocka_unit_test(a_listing_is_read_before_the_next),
        cmocka_unit_test(a_descriptor_that_cannot_be_sent_waits),
        cmocka_unit_test(a_descriptor_that_waits_needs_no_other_client),
        cmocka_unit_test(leases_are_returned_together),
        cmocka_unit_test(many_connections_are_turned_away),
        cmocka_unit_test(who_says_nothing_makes_room),
        cmocka_unit_test(a_second_host_is_told),
    };
    return cmocka_run_group_tests(tests, start_host, stop_host);
}
