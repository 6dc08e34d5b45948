/* A disk tier whose process is killed at any moment, and two processes in one folder: what is
 * visible is whole and right, what was acknowledged is there, and nothing half-written stays. All
 * that with entries in files, and with entries that move between files and segments. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "io/sync.h"
#include "tier/disk/disk_fixture.h"

#define KEYS       12
#define ROUNDS     100
#define BYTES_MAX  700000u
#define SIZES      5
#define HAMMER_FOR SKY_MS(1500)

/* A payload tells its own version: content and size follow from key and version. */
static const size_t sizes[SIZES] = {0, 100, 70000, 300000, BYTES_MAX - 8};

static size_t size_of(uint64_t version) {
    return 8 + sizes[version % SIZES];
}

static uint64_t seed_of(uint64_t n, uint64_t version) {
    return n * 1000003 + version;
}

static void make(uint8_t *payload, uint64_t n, uint64_t version) {
    memcpy(payload, &version, 8);
    sky_fixture_fill(payload + 8, size_of(version) - 8, seed_of(n, version));
}

/* SKY_OK and its version when the payload of key n is whole; SKY_E_CORRUPT when it is anything
 * else. */
static sky_status read_version(sky_tier *tier, uint64_t n, uint8_t *buffer, uint64_t *version) {
    sky_span span = {buffer, BYTES_MAX};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_run(tier, SKY_OP_GET, &item, 1, NULL);
    if (item.status != SKY_OK)
        return item.status;
    if (item.bytes < 8)
        return SKY_E_CORRUPT;
    memcpy(version, buffer, 8);
    bool whole = item.bytes == size_of(*version) &&
                 sky_fixture_holds(buffer + 8, item.bytes - 8, seed_of(n, *version));
    return whole ? SKY_OK : SKY_E_CORRUPT;
}

/* Acknowledged versions, shared by parent and child. */
typedef struct {
    uint64_t stored[KEYS];
    uint64_t removing[KEYS]; /* the version that a removal was to remove */
    uint64_t removed[KEYS];
    uint64_t ready;
} record;

static record *shared_record(void) {
    record *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r != MAP_FAILED);
    return r;
}

/* Write versions from `version` on, several at a time, and remove some, until killed; small ones of
 * each second batch go to segments, if any do. */
static void write_for_ever(const char *folder, volatile record *acknowledged, uint64_t version) {
    static uint8_t payloads[4][BYTES_MAX];
    bool segments = sky_fixture_durable;
    sky_tier *tier = disk_open(folder, "");
    acknowledged->ready = 1;
    for (;; version += 4) {
        sky_item items[4] = {0};
        sky_span spans[4];
        sky_fixture_durable = segments && version / 4 % 2 == 0;
        for (uint64_t i = 0; i < 4; i++) {
            make(payloads[i], (version + i) % KEYS, version + i);
            spans[i] = (sky_span){payloads[i], size_of(version + i)};
            items[i] = (sky_item){
                .key = sky_fixture_key((version + i) % KEYS), .spans = &spans[i], .span_count = 1};
        }
        sky_fixture_run(tier, SKY_OP_PUT, items, 4, NULL);
        for (uint64_t i = 0; i < 4; i++)
            if (items[i].status == SKY_OK)
                acknowledged->stored[(version + i) % KEYS] = version + i;
        uint64_t n = version / 4 % KEYS;
        acknowledged->removing[n] = acknowledged->stored[n];
        if (sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(n)) == SKY_OK)
            acknowledged->removed[n] = acknowledged->removing[n];
    }
}

/* The kernel may be at a killed process's transfers for a while, which keeps its locks. */
static void expect_no_temps(sky_tier *tier, const char *folder) {
    for (int i = 0; i < 500 && disk_count_files(folder, 't') > 0; i++) {
        sky_verify_report report = {0};
        usleep(20000);
        assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    }
    assert_int_equal(disk_count_files(folder, 't'), 0);
}

static uint64_t check_all(const char *folder, const record *acknowledged, uint8_t *buffer) {
    uint64_t latest = 0;
    sky_tier *tier = disk_open(folder, "");
    for (uint64_t n = 0; n < KEYS; n++) {
        uint64_t version = 0;
        sky_status status = read_version(tier, n, buffer, &version);
        assert_true(status == SKY_OK || status == SKY_MISS);
        bool going = acknowledged->removing[n] == acknowledged->stored[n];
        if (version < acknowledged->stored[n] && !(status == SKY_MISS && going))
            fail_msg("key %u: version %u, and %u was acknowledged", (unsigned)n, (unsigned)version,
                     (unsigned)acknowledged->stored[n]);
        assert_true(status == SKY_MISS || version > acknowledged->removed[n]);
        latest = version > latest ? version : latest;
        latest = acknowledged->stored[n] > latest ? acknowledged->stored[n] : latest;
    }
    assert_int_equal(sky_fixture_counts(tier).corrupt, 0);
    expect_no_temps(tier, folder);
    disk_close(tier);
    return latest;
}

static void a_kill_at_any_moment_leaves_old_or_new(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    uint8_t *buffer = malloc(BYTES_MAX);
    record *acknowledged = shared_record();
    sky_prng random;
    sky_prng_init(&random, 3);
    uint64_t latest = KEYS, orphaned_rounds = 0;
    /* On a slow machine some more, which last longer, until it did write and was caught writing. */
    for (int round = 0;
         round < ROUNDS || (round < 20 * ROUNDS && (latest <= 2 * KEYS || orphaned_rounds == 0));
         round++) {
        acknowledged->ready = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_for_ever(folder, acknowledged, latest + 1);
        while (*(volatile uint64_t *)&acknowledged->ready == 0)
            usleep(200);
        usleep((useconds_t)sky_prng_below(&random, 25000u * (1 + (unsigned)round / ROUNDS)));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        orphaned_rounds += disk_count_files(folder, 't') > 0;
        uint64_t seen = check_all(folder, acknowledged, buffer);
        latest = seen > latest ? seen : latest;
    }
    assert_true(latest > 2 * KEYS);
    assert_true(orphaned_rounds > 0);
    munmap(acknowledged, sizeof *acknowledged);
    free(buffer);
    disk_folder_drop(folder);
}

/* Random puts, gets and removes; the exit status says what went wrong. */
static int hammer(const char *folder, uint64_t seed) {
    uint8_t *buffer = malloc(BYTES_MAX);
    sky_tier *tier = disk_open(folder, sky_fixture_durable ? "?max=16MiB" : "?max=4MiB");
    bool segments = sky_fixture_durable;
    sky_prng random;
    sky_prng_init(&random, seed);
    sky_time until = sky_now() + HAMMER_FOR;
    int wrong = 0;
    while (sky_now() < until && !wrong) {
        uint64_t n = sky_prng_below(&random, 3 * KEYS), what = sky_prng_below(&random, 10);
        uint64_t version = sky_prng_below(&random, 1u << 30);
        if (what < 4) {
            make(buffer, n, version);
            sky_span span = {buffer, size_of(version)};
            sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
            sky_fixture_durable = segments && version / SIZES % 2;
            sky_fixture_run(tier, SKY_OP_PUT, &item, 1, NULL);
            wrong = item.status != SKY_OK ? 2 : 0;
        } else if (what < 9) {
            sky_status status = read_version(tier, n, buffer, &version);
            wrong = status != SKY_OK && status != SKY_MISS ? 3 : 0;
        } else {
            sky_status status = sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(n));
            wrong = status != SKY_OK && status != SKY_MISS ? 4 : 0;
        }
    }
    sky_tier_counts stat = sky_fixture_counts(tier);
    if (!wrong)
        wrong = stat.corrupt || stat.errors ? 5 : stat.puts == 0 || stat.hits == 0 ? 6 : 0;
    disk_close(tier);
    free(buffer);
    return wrong;
}

static void two_processes_share_a_folder(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(hammer(folder, 100 + (uint64_t)i));
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    sky_tier *tier = disk_open(folder, "?max=16MiB");
    sky_verify_report report = {0};
    assert_int_equal(tier->ops->verify(tier, &report), SKY_OK);
    assert_int_equal(report.corrupt, 0);
    assert_int_equal(report.orphans, 0);
    assert_true(report.entries > 0);
    assert_true(sky_fixture_counts(tier).bytes_used <=
                (sky_fixture_durable ? 16u << 20 : 4u << 20) +
                    2 * BYTES_MAX); /* what was under way */
    disk_close(tier);
    disk_folder_drop(folder);
}

/* Puts and removals of this process while another one is killed in the same folder. */
static void work_meanwhile(sky_tier *tier, sky_prng *random, uint64_t *versions, uint8_t *buffer) {
    for (int i = 0; i < 12; i++) {
        uint64_t n = KEYS + sky_prng_below(random, KEYS), version = 0;
        sky_status status = read_version(tier, n, buffer, &version);
        assert_int_equal(status, versions[n] ? SKY_OK : SKY_MISS);
        assert_int_equal(version, versions[n]);
        status = read_version(tier, n - KEYS, buffer, &version); /* the other's */
        assert_true(status == SKY_OK || status == SKY_MISS);
        if (sky_prng_below(random, 3) == 0 && versions[n]) {
            assert_int_equal(sky_fixture_one(tier, SKY_OP_REMOVE, sky_fixture_key(n)), SKY_OK);
            versions[n] = 0;
            continue;
        }
        version = 1 + SIZES * sky_prng_below(random, 1u << 20); /* a small one */
        make(buffer, n, version);
        sky_span span = {buffer, size_of(version)};
        sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        sky_fixture_run(tier, SKY_OP_PUT, &item, 1, NULL);
        assert_int_equal(item.status, SKY_OK);
        versions[n] = version;
    }
}

static void one_goes_on_while_another_is_killed(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it ends a child that starts threads when its parent has some */
#endif
    char *folder = disk_folder_make();
    uint8_t *buffer = malloc(BYTES_MAX);
    record *acknowledged = shared_record();
    uint64_t versions[2 * KEYS] = {0};
    sky_prng random;
    sky_prng_init(&random, 9);
    sky_tier *tier = disk_open(folder, "");
    for (uint64_t round = 0; round < 20; round++) {
        acknowledged->ready = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_for_ever(folder, acknowledged, 100000 * (round + 1));
        while (*(volatile uint64_t *)&acknowledged->ready == 0)
            usleep(200);
        work_meanwhile(tier, &random, versions, buffer);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        work_meanwhile(tier, &random, versions, buffer);
    }
    assert_int_equal(sky_fixture_counts(tier).corrupt, 0);
    disk_close(tier);
    check_all(folder, acknowledged, buffer);
    munmap(acknowledged, sizeof *acknowledged);
    free(buffer);
    disk_folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_moment_leaves_old_or_new),
        cmocka_unit_test(two_processes_share_a_folder),
        cmocka_unit_test(one_goes_on_while_another_is_killed),
    };
    int failed = cmocka_run_group_tests_name("in files", tests, NULL, NULL);
    sky_fixture_durable = true;
    return failed + cmocka_run_group_tests_name("in segments", tests, NULL, NULL);
}
