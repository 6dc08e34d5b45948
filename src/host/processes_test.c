/* Proves, with processes of their own: clients share one copy of a payload; one that is killed,
 * while it reads, maps or writes, gives back what it held, though a child of it lives; blocks of an
 * owner that is killed go, and stay under their readers; the end of a killed host is noticed, what
 * it lent stays readable, and the next one is connected to. The test runs itself as host and as
 * client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skymem/skymem.h>

#include "io/sync.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)
#define BYTES    (3u << 20)

static char socket_path[64];

static void nap(void) {
    sky_poll(NULL, 0, sky_now() + SKY_MS(2));
}

/* ---- other processes ---- */

static void say_ready(void *context) {
    (void)context;
    puts("ready");
    fflush(stdout);
}

static char *counters(void *context, sky_cache *cache, const sky_host_stat *stat) {
    (void)context;
    char *text = malloc(200);
    if (text)
        snprintf(
            text, 200, "%llu %llu %llu %llu %llu %llu %llu", (unsigned long long)stat->clients,
            (unsigned long long)(sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) +
                                 stat->direct_leases),
            (unsigned long long)sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_USED),
            (unsigned long long)stat->committed_bytes, (unsigned long long)stat->regions,
            (unsigned long long)stat->blocks, (unsigned long long)stat->block_copied_bytes);
    return text;
}

static int be_host(const char *path) {
    const char *url = "mem:64MiB";
    sky_host_options o = {.struct_bytes = sizeof o,
                          .socket_path = path,
                          .urls = &url,
                          .url_count = 1,
                          .ready = say_ready,
                          .text = counters};
    return sky_host_run(&o, NULL) == SKY_OK ? 0 : 1;
}

static sky_cache *connect_to(const char *path) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache = NULL;
    snprintf(url, sizeof url, "shm:%s", path);
    return sky_cache_open(urls, 1, &cache, NULL) == SKY_OK ? cache : NULL;
}

static sky_item lease(sky_cache *cache, uint64_t n) {
    sky_item item = {.key = sky_fixture_key(n)};
    item.status = sky_run(cache, SKY_OP_LEASE, &item, 1, NULL) == SKY_OK ? item.status : SKY_E_IO;
    return item;
}

static sky_status put(sky_cache *cache, uint64_t n, size_t bytes, uint64_t seed) {
    sky_span span = {malloc(bytes), bytes};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    if (!span.data)
        return SKY_E_NOMEM;
    sky_fixture_fill(span.data, bytes, seed);
    sky_status status = sky_run(cache, SKY_OP_PUT, &item, 1, NULL);
    free(span.data);
    return status == SKY_OK ? item.status : status;
}

/* The file behind an address: its number in /proc/self/maps; 0: none. */
static unsigned long file_behind(const void *address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long found = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to, inode;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &from, &to, mode, &inode) == 4 &&
            (uintptr_t)address >= from && (uintptr_t)address < to && strcmp(mode, "r--s") == 0)
            found = inode;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Lease key 1, tell which file it lies in, and wait to be killed. */
static int be_reader(const char *path) {
    sky_cache *cache = connect_to(path);
    sky_item item = cache ? lease(cache, 1) : (sky_item){.status = SKY_E_IO};
    if (item.status != SKY_OK || !sky_fixture_holds(item.view.data, BYTES, 1))
        return 1;
    printf("%lu\n", file_behind(item.view.data));
    fflush(stdout);
    pause();
    return 0;
}

/* Put key 2 again and again, each time with other bytes. */
static int be_writer(const char *path) {
    sky_cache *cache = connect_to(path);
    for (uint64_t seed = 100; cache && put(cache, 2, BYTES, seed) == SKY_OK; seed++)
        if (seed == 101)
            say_ready(NULL);
    return 1;
}

/* Lease key 1, say which process is a child of this one, and wait to be killed. */
static void wait_with_a_child(void) {
    pid_t child = fork();
    if (child == 0) {
        alarm(120); /* should the test end before */
        pause();
        _exit(0);
    }
    printf("%d\n", child);
    fflush(stdout);
    pause();
}

static int be_forker(const char *path) {
    sky_cache *cache = connect_to(path);
    if (!cache || put(cache, 1, BYTES, 1) != SKY_OK || lease(cache, 1).status != SKY_OK)
        return 1;
    wait_with_a_child();
    return 0;
}

/* Key 1 in memory of its own: two layers. */
static sky_blob *publish_one(const char *path) {
    char url[80];
    snprintf(url, sizeof url, "shm:%s", path);
    const sky_blob_options o = {.struct_bytes = sizeof o, .bytes = 2 * BYTES};
    sky_blob *b;
    uint64_t sizes[] = {BYTES / 2, BYTES / 2}, offsets[] = {BYTES, BYTES / 4};
    if (sky_blob_open(url, &o, &b, NULL) != SKY_OK)
        return NULL;
    uint8_t *memory = sky_blob_memory(b), *whole = malloc(BYTES);
    sky_fixture_fill(whole, BYTES, 1);
    for (int i = 0; i < 2; i++)
        memcpy(memory + offsets[i], whole + (uint32_t)i * BYTES / 2, BYTES / 2);
    free(whole);
    const sky_block_layout k = {
        .key = sky_fixture_key(1), .shape = {2, 1, 1}, .offsets = offsets, .sizes = sizes};
    return sky_block_put(b, &k, 1, SKY_TIME_NEVER, NULL) == SKY_OK ? b : NULL;
}

/* Publish it, with a child that has the memory too, and wait to be killed. */
static int be_owner(const char *path) {
    if (!publish_one(path))
        return 1;
    wait_with_a_child();
    return 0;
}

static sky_blob *blob_of(const char *path) {
    char url[80];
    sky_blob *b = NULL;
    snprintf(url, sizeof url, "shm:%s", path);
    return sky_blob_open(url, NULL, &b, NULL) == SKY_OK ? b : NULL;
}

static sky_status open_block(sky_blob *b, sky_block **out) {
    const sky_key key = sky_fixture_key(1);
    *out = NULL;
    return sky_block_get(b, &key, SKY_TIME_NEVER, out);
}

/* Open key 1, tell which file it lies in, and wait to be killed. */
static int be_opener(const char *path) {
    sky_blob *b = blob_of(path);
    sky_block *k;
    sky_span view;
    if (!b || open_block(b, &k) != SKY_OK || sky_block_view(k, 0, 0, 0, &view) != SKY_OK)
        return 1;
    printf("%lu\n", file_behind(view.data));
    fflush(stdout);
    pause();
    return 0;
}

/* Key 1 twice, side by side. */
static sky_status map_twice(sky_blob *b, sky_mapping **out) {
    const sky_key keys[] = {sky_fixture_key(1), sky_fixture_key(1)};
    return sky_mapping_open(b, keys, 2, SKY_TIME_NEVER, out, NULL);
}

/* Layer 0 twice, then layer 1 twice. */
static bool holds_twice(const sky_mapping *m, const uint8_t *whole) {
    bool holds = sky_mapping_block_count(m) == 2;
    for (uint32_t layer = 0; layer < 2 && holds; layer++) {
        sky_span range;
        holds = sky_mapping_view(m, layer, 0, 0, &range) == SKY_OK && range.bytes == BYTES;
        for (size_t i = 0; i < 2 && holds; i++)
            holds = memcmp((uint8_t *)range.data + i * BYTES / 2, whole + layer * BYTES / 2,
                           BYTES / 2) == 0;
    }
    return holds;
}

/* Map key 1, tell which file it lies in, and wait to be killed. */
static int be_mapper(const char *path) {
    sky_blob *b = blob_of(path);
    sky_mapping *m;
    sky_span range;
    if (!b || map_twice(b, &m) != SKY_OK || sky_mapping_view(m, 1, 0, 0, &range) != SKY_OK)
        return 1;
    printf("%lu\n", file_behind(range.data));
    fflush(stdout);
    pause();
    return 0;
}

/* ---- starting and ending them ---- */

typedef struct {
    pid_t pid;
    FILE *out;
    char line[64]; /* what it said */
} process;

static process start(const char *role) {
    process p;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO); /* it is readable */
        execl("/proc/self/exe", "processes_test", role, socket_path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    p.out = fdopen(ends[0], "r");
    assert_non_null(p.out);
    if (!fgets(p.line, sizeof p.line, p.out))
        fail_msg("the %s ended", role);
    return p;
}

static void end(process *p) {
    assert_int_equal(kill(p->pid, SIGKILL), 0);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
    fclose(p->out);
}

typedef struct {
    unsigned long long clients, leases, bytes, committed, regions, blocks, copied;
} count;

static count count_now(void) {
    char *text = NULL;
    count c;
    sky_status status = sky_host_text(socket_path, sky_now() + PATIENCE, &text);
    if (status != SKY_OK)
        fail_msg("no counters: %s", sky_status_text(status));
    assert_int_equal(sscanf(text, "%llu %llu %llu %llu %llu %llu %llu", &c.clients, &c.leases,
                            &c.bytes, &c.committed, &c.regions, &c.blocks, &c.copied),
                     7);
    free(text);
    return c;
}

/* Until no client is there but who asks and `others`, and none of their leases. */
static count await_clients(unsigned long long others, unsigned long long leases) {
    sky_time until = sky_now() + PATIENCE;
    for (;;) {
        count c = count_now();
        if (c.clients == 1 + others && c.leases == leases)
            return c;
        if (sky_now() > until)
            fail_msg("%llu clients, %llu leases", c.clients, c.leases);
        nap();
    }
}

/* Until nothing is kept either: bytes of the arena are counted a moment before leases are. */
static void await_nothing(void) {
    sky_time until = sky_now() + PATIENCE;
    for (count c = await_clients(1, 0); c.bytes > 0 || c.committed > 0; c = await_clients(1, 0))
        if (sky_now() > until)
            fail_msg("%llu bytes, %llu committed", c.bytes, c.committed);
}

/* A copy of the value, which leaves no lease behind. */
static void assert_copied(sky_cache *cache, uint64_t n, uint64_t seed) {
    sky_span span = {malloc(BYTES), BYTES};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    assert_non_null(span.data);
    assert_int_equal(sky_run(cache, SKY_OP_GET, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    assert_true(sky_fixture_holds(span.data, BYTES, seed));
    free(span.data);
}

static void remove_key(sky_cache *cache, uint64_t n) {
    sky_item item = {.key = sky_fixture_key(n)};
    assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
}

/* ---- tests ---- */

static void clients_share_one_copy_and_the_dead_give_back(void **state) {
    (void)state;
    process host = start("host");
    sky_cache *cache = connect_to(socket_path);
    assert_non_null(cache);
    assert_int_equal(put(cache, 1, BYTES, 1), SKY_OK);
    assert_copied(cache, 1, 1);
    await_clients(1, 0);
    sky_item own = lease(cache, 1);
    assert_int_equal(own.status, SKY_OK);
    process reader = start("reader"), second = start("reader");
    char inode[32];
    snprintf(inode, sizeof inode, "%lu\n", file_behind(own.view.data));
    assert_string_not_equal(inode, "0\n");
    assert_string_equal(reader.line, inode); /* the same memory, mapped read-only */
    assert_string_equal(second.line, inode);
    count c = await_clients(3, 3);
    assert_true(c.bytes >= BYTES && c.bytes < 2 * BYTES); /* one copy */
    end(&reader);
    await_clients(2, 2);
    end(&second);
    await_clients(1, 1);
    remove_key(cache, 1);
    assert_true(count_now().bytes >= BYTES); /* the lease keeps it */
    assert_true(sky_fixture_holds(own.view.data, BYTES, 1));
    assert_int_equal(sky_release(cache, own.lease), SKY_OK);
    await_nothing();
    sky_cache_close(cache);
    end(&host);
}

/* What a client was shown once it finds itself, also while the host does not run; what expires it
 * has to ask for. */
static void a_host_that_stands_still_is_not_needed(void **state) {
    (void)state;
    process host = start("host");
    sky_cache *cache = connect_to(socket_path);
    uint8_t byte = 5;
    sky_span span = {&byte, 1};
    sky_item expiring = {.key = sky_fixture_key(2), .spans = &span, .span_count = 1};
    sky_item child = {
        .key = sky_fixture_key(5), .parent = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_item below = {
        .key = sky_fixture_key(4), .parent = sky_fixture_key(5), .spans = &span, .span_count = 1};
    const sky_call last = {.evict = SKY_EVICT_LAST}; /* those above it are of this class too then */
    const sky_call ttl = {.ttl_s = 600}, soon = {.deadline_ns = sky_now() + SKY_SECONDS(2)};
    assert_non_null(cache);
    assert_int_equal(put(cache, 1, BYTES, 1), SKY_OK);
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &expiring, 1, &ttl), SKY_OK);
    assert_copied(cache, 1, 1); /* its segment comes with this */
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &child, 1, &ttl), SKY_OK); /* it is not shown */
    assert_int_equal(sky_run(cache, SKY_OP_PUT, &below, 1, &last), SKY_OK);
    assert_int_equal(kill(host.pid, SIGSTOP), 0);
    for (int i = 0; i < 600; i++) { /* more than the page tells */
        sky_item kept = lease(cache, 1), has = {.key = sky_fixture_key(1)};
        assert_int_equal(kept.status, SKY_OK);
        assert_true(sky_fixture_holds(kept.view.data, BYTES, 1));
        assert_int_equal(sky_run(cache, SKY_OP_HAS, &has, 1, NULL), SKY_OK);
        assert_true(has.status == SKY_OK && has.bytes == BYTES);
        assert_int_equal(has.evict, SKY_EVICT_LAST);
        assert_copied(cache, 1, 1);
        assert_int_equal(sky_release(cache, kept.lease), SKY_OK);
    }
    assert_int_equal(sky_run(cache, SKY_OP_GET, &expiring, 1, &soon), SKY_OK);
    assert_int_equal(expiring.status, SKY_E_DEADLINE);
    assert_int_equal(kill(host.pid, SIGCONT), 0);
    await_clients(1, 0);
    remove_key(cache, 2);
    sky_cache_close(cache);
    end(&host);
}

/* The room of a block that is removed while a client keeps it is free when that lets it go, or is
 * killed. */
static void what_is_kept_outlives_its_removal(void **state) {
    (void)state;
    process host = start("host");
    sky_cache *cache = connect_to(socket_path);
    assert_non_null(cache);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(put(cache, 1, BYTES, 1), SKY_OK);
        assert_copied(cache, 1, 1);
        process reader = round == 1 ? start("reader") : (process){0};
        sky_item kept = round == 0 ? lease(cache, 1) : (sky_item){0};
        remove_key(cache, 1);
        sky_item has = {.key = sky_fixture_key(1)};
        assert_int_equal(sky_run(cache, SKY_OP_HAS, &has, 1, NULL), SKY_OK);
        assert_int_equal(has.status, SKY_MISS);
        assert_int_equal(put(cache, 3, BYTES, 3), SKY_OK); /* in other room */
        remove_key(cache, 3);
        assert_true(await_clients(1 + (unsigned)round, 1).bytes >= BYTES);
        if (round == 1) {
            end(&reader);
        } else {
            assert_true(sky_fixture_holds(kept.view.data, BYTES, 1));
            assert_int_equal(sky_release(cache, kept.lease), SKY_OK);
        }
        await_nothing();
    }
    sky_cache_close(cache);
    end(&host);
}

static void a_writer_that_is_killed_leaves_the_old_or_the_new(void **state) {
    (void)state;
    process host = start("host");
    sky_cache *cache = connect_to(socket_path);
    assert_non_null(cache);
    for (int round = 0; round < 8; round++) {
        process writer = start("writer");
        for (int i = 0; i < round; i++)
            nap();
        end(&writer);
        await_clients(1, 0);
        sky_item item = lease(cache, 2);
        assert_int_equal(item.status, SKY_OK);
        assert_int_equal(item.view.bytes, BYTES);
        uint64_t seed = 100; /* whole, of one of its puts */
        while (seed < 100000 && !sky_fixture_holds(item.view.data, 64, seed))
            seed++;
        assert_true(sky_fixture_holds(item.view.data, BYTES, seed));
        assert_int_equal(sky_release(cache, item.lease), SKY_OK);
    }
    remove_key(cache, 2);
    await_nothing();
    sky_cache_close(cache);
    end(&host);
}

static void a_child_of_a_dead_client_keeps_nothing(void **state) {
    (void)state;
    process host = start("host"), forker = start("forker");
    await_clients(1, 1);
    assert_int_equal(kill(forker.pid, SIGKILL), 0);
    assert_int_equal(waitpid(forker.pid, NULL, 0), forker.pid);
    await_clients(0, 0);
    assert_int_equal(kill(atoi(forker.line), SIGKILL), 0);
    fclose(forker.out);
    end(&host);
}

static void blocks_of_the_dead_go_and_stay_under_readers(void **state) {
    (void)state;
    process host = start("host"), owner = start("owner");
    sky_blob *b = blob_of(socket_path);
    sky_block *k, *none;
    sky_span view;
    assert_non_null(b);
    assert_int_equal(open_block(b, &k), SKY_OK);
    assert_int_equal(sky_block_view(k, 0, 0, 0, &view), SKY_OK);
    process reader = start("opener");
    char inode[32];
    snprintf(inode, sizeof inode, "%lu\n", file_behind(view.data));
    assert_string_not_equal(inode, "0\n");
    assert_string_equal(reader.line, inode); /* one memory, mapped read-only */
    count c = await_clients(3, 0);
    assert_true(c.regions == 1 && c.blocks == 1 && c.copied == 0 && c.bytes == 0);
    end(&reader);
    await_clients(2, 0);
    const int child = atoi(owner.line); /* it has the owner's memory, and no connection */
    end(&owner);
    c = await_clients(1, 0);
    assert_true(c.regions == 0 && c.blocks == 0);
    assert_int_equal(open_block(b, &none), SKY_MISS);
    uint8_t *data = malloc(BYTES);
    sky_span all = {data, BYTES};
    assert_non_null(data);
    assert_int_equal(sky_block_read(k, SKY_BLOCK_ALL, &all, 1), SKY_OK);
    assert_true(sky_fixture_holds(data, BYTES, 1));
    sky_block_release(k);
    free(data);
    sky_blob_close(b);
    assert_int_equal(kill(child, SIGKILL), 0);
    c = await_clients(0, 0);
    assert_true(c.bytes == 0 && c.copied == 0);
    end(&host);
}

static void owners_and_readers_are_killed_at_any_time(void **state) {
    (void)state;
    process host = start("host");
    sky_blob *b = blob_of(socket_path);
    uint8_t *data = malloc(BYTES);
    sky_span all = {data, BYTES};
    assert_non_null(data);
    for (int round = 0; round < 6; round++) {
        process owner = start("owner"), reader = start("opener");
        sky_block *k;
        assert_int_equal(open_block(b, &k), SKY_OK);
        const int child = atoi(owner.line);
        end(round % 2 ? &owner : &reader);
        assert_int_equal(sky_block_read(k, SKY_BLOCK_ALL, &all, 1), SKY_OK);
        assert_true(sky_fixture_holds(data, BYTES, 1));
        end(round % 2 ? &reader : &owner);
        assert_int_equal(kill(child, SIGKILL), 0);
        sky_block_release(k);
        const count c = await_clients(1, 0);
        assert_true(c.regions == 0 && c.blocks == 0 && c.bytes == 0);
    }
    free(data);
    sky_blob_close(b);
    end(&host);
}

static void mappings_end_with_their_process_alone(void **state) {
    (void)state;
    process host = start("host");
    sky_blob *b = publish_one(socket_path);
    const sky_key key = sky_fixture_key(1);
    sky_mapping *m;
    sky_span range;
    char inode[32];
    uint8_t *whole = malloc(BYTES);
    assert_non_null(b);
    assert_non_null(whole);
    sky_fixture_fill(whole, BYTES, 1);
    process mapper = start("mapper");
    assert_int_equal(map_twice(b, &m), SKY_OK);
    assert_true(holds_twice(m, whole));
    assert_int_equal(sky_mapping_view(m, 0, 0, 0, &range), SKY_OK);
    snprintf(inode, sizeof inode, "%lu\n", file_behind(range.data));
    assert_string_not_equal(inode, "0\n");
    assert_string_equal(mapper.line, inode); /* one memory, mapped read-only */
    sky_mapping_close(m);
    assert_int_equal(sky_block_remove(b, &key, sky_now() + SKY_MS(1)), SKY_E_DEADLINE);
    end(&mapper); /* what it had mapped is its owner's again: the block goes now, or has gone */
    const sky_status gone = sky_block_remove(b, &key, sky_now() + PATIENCE);
    assert_true(gone == SKY_OK || gone == SKY_MISS);
    process owner = start("owner");
    assert_int_equal(map_twice(b, &m), SKY_OK);
    const int child = atoi(owner.line);
    end(&owner);
    assert_int_equal(kill(child, SIGKILL), 0);
    count c = await_clients(1, 0);
    assert_true(c.regions == 1 && c.blocks == 0 && c.copied == 0 && c.bytes == 0);
    assert_true(holds_twice(m, whole));
    end(&host);
    assert_true(holds_twice(m, whole));
    sky_mapping_close(m);
    sky_blob_close(b);
    free(whole);
}

static void a_host_that_is_killed_is_told_of(void **state) {
    (void)state;
    process host = start("host");
    sky_cache *cache = connect_to(socket_path);
    assert_non_null(cache);
    assert_int_equal(put(cache, 1, BYTES, 1), SKY_OK);
    sky_item item = lease(cache, 1);
    assert_int_equal(item.status, SKY_OK);
    end(&host);
    assert_true(sky_fixture_holds(item.view.data, BYTES, 1)); /* what was lent stays */
    assert_int_equal(put(cache, 3, 100, 3), SKY_E_IO);
    host = start("host"); /* in place of the socket that was left */
    sky_time until = sky_now() + PATIENCE;
    while (put(cache, 4, BYTES, 4) != SKY_OK && sky_now() < until)
        nap(); /* a tier that failed is tried again after a while */
    sky_item after = lease(cache, 4);
    assert_int_equal(after.status, SKY_OK);
    assert_true(sky_fixture_holds(after.view.data, BYTES, 4));
    assert_true(sky_fixture_holds(item.view.data, BYTES, 1));
    assert_int_equal(lease(cache, 1).status, SKY_MISS); /* it was in the other's memory alone */
    assert_int_equal(sky_release(cache, item.lease), SKY_OK);
    assert_int_equal(sky_release(cache, after.lease), SKY_OK);
    remove_key(cache, 4);
    assert_int_equal(await_clients(1, 0).bytes, 0);
    sky_cache_close(cache);
    end(&host);
}

static void the_end_of_a_host_ends_a_wait(void **state) {
    (void)state;
    process host = start("host");
    sky_blob *b = blob_of(socket_path);
    sky_block *k;
    assert_non_null(b);
    assert_int_equal(kill(host.pid, SIGSTOP), 0);
    const pid_t killer = fork();
    if (killer == 0) {
        sky_poll(NULL, 0, sky_now() + SKY_MS(100)); /* the other sleeps by then */
        kill(host.pid, SIGKILL);
        _exit(0);
    }
    assert_int_equal(open_block(b, &k), SKY_E_IO);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    sky_blob_close(b);
    end(&host);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        if (strcmp(argv[1], "host") == 0)
            return be_host(argv[2]);
        if (strcmp(argv[1], "forker") == 0)
            return be_forker(argv[2]);
        if (strcmp(argv[1], "owner") == 0)
            return be_owner(argv[2]);
        if (strcmp(argv[1], "opener") == 0)
            return be_opener(argv[2]);
        if (strcmp(argv[1], "mapper") == 0)
            return be_mapper(argv[2]);
        return strcmp(argv[1], "reader") == 0 ? be_reader(argv[2]) : be_writer(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_share_one_copy_and_the_dead_give_back),
        cmocka_unit_test(a_host_that_stands_still_is_not_needed),
        cmocka_unit_test(what_is_kept_outlives_its_removal),
        cmocka_unit_test(a_writer_that_is_killed_leaves_the_old_or_the_new),
        cmocka_unit_test(a_child_of_a_dead_client_keeps_nothing),
        cmocka_unit_test(blocks_of_the_dead_go_and_stay_under_readers),
        cmocka_unit_test(owners_and_readers_are_killed_at_any_time),
        cmocka_unit_test(mappings_end_with_their_process_alone),
        cmocka_unit_test(a_host_that_is_killed_is_told_of),
        cmocka_unit_test(the_end_of_a_host_ends_a_wait),
    };
    snprintf(socket_path, sizeof socket_path, "/tmp/skymem-processes-%d", getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(socket_path);
    return failed;
}
