/* Proves, with 64 processes that put, get, hold, list and remove payloads of all sizes while some
 * of them are stopped and killed: no byte is wrong (each payload says what it holds), a client's
 * death gives back what it had, the host's memory and descriptors stay bounded, and in the end the
 * arena is empty. Ends after so many operations, or after SKYMEM_SOAK_SECONDS, then also over a
 * disk. SKYMEM_SOAK_SEED is the seed, 1 if it is not set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skymem/skymem.h>

#include "base/prng.h"
#include "io/sync.h"
#include "tier/tier_fixture.h"

#define CLIENTS         64u
#define KEYS            512u
#define OPERATIONS      6000u /* of all clients, without a time */
#define HELD_MAX        8u    /* leases of a client */
#define BATCH           16u
#define BYTES_MAX       (4u << 20)
#define GROWTH_KB_MAX   (64u << 10) /* of the host's own memory, after the first quarter */
#define DESCRIPTORS_MAX 1024u
#define PATIENCE        SKY_SECONDS(120)

/* What all processes see. */
typedef struct {
    _Atomic uint64_t operations, hits, puts, busy;
    _Atomic bool stop;
    _Atomic bool failed;
    char why[256]; /* of the first that failed */
} shared;

static shared *all;
static char folder[] = "/tmp/skymem-soak-XXXXXX";
static char socket_path[64];
static uint64_t seconds; /* 0: by operations */

static void nap(sky_time ns) {
    sky_poll(NULL, 0, sky_now() + ns);
}

/* ---- payloads that say what they hold ---- */

/* 8 bytes seed, whose low half is the key's number; 8 bytes size; bytes that follow from the seed.
 */
static void fill(uint8_t *data, size_t bytes, uint32_t key, uint32_t version) {
    uint64_t head[2] = {(uint64_t)version << 32 | key, bytes};
    if (bytes > sizeof head)
        sky_fixture_fill(data + sizeof head, bytes - sizeof head, head[0]);
    memcpy(data, head, bytes < sizeof head ? bytes : sizeof head);
}

static bool holds(const uint8_t *data, size_t bytes, uint32_t key) {
    uint64_t head[2];
    if (bytes < sizeof head)
        return false;
    memcpy(head, data, sizeof head);
    return (uint32_t)head[0] == key && head[1] == bytes &&
           sky_fixture_holds(data + sizeof head, bytes - sizeof head, head[0]);
}

/* ---- a client ---- */

typedef struct {
    sky_cache *cache;
    sky_prng prng;
    uint8_t *data; /* BYTES_MAX */
    struct {
        sky_item item;
        uint32_t key;
    } held[HELD_MAX];
    size_t held_count;
} client;

static bool fail_because(const char *what, uint32_t key, sky_status status) {
    bool first = false;
    if (atomic_compare_exchange_strong(&all->failed, &first, true))
        snprintf(all->why, sizeof all->why, "%s: key %u, %s", what, key, sky_status_text(status));
    return false;
}

static uint32_t below(client *c, uint32_t n) {
    return (uint32_t)(sky_prng_u64(&c->prng) % n);
}

/* Most are small, some are as large as may be. */
static size_t random_bytes(client *c) {
    return 16 + below(c, 1u << (5 + below(c, 18)));
}

/* What the host may answer when it is full, busy, or another client was quicker. */
static bool is_fine(sky_status status) {
    all->busy += status == SKY_E_BUSY || status == SKY_E_FULL;
    return status == SKY_OK || status == SKY_MISS || status == SKY_E_BUSY || status == SKY_E_FULL;
}

static bool put_one(client *c) {
    uint32_t key = below(c, KEYS);
    sky_span span = {c->data, random_bytes(c)};
    sky_item item = {.key = sky_fixture_key(key), .spans = &span, .span_count = 1};
    fill(c->data, span.bytes, key, (uint32_t)sky_prng_u64(&c->prng));
    sky_status status = sky_run(c->cache, SKY_OP_PUT, &item, 1, NULL);
    all->puts += status == SKY_OK && item.status == SKY_OK;
    return is_fine(status == SKY_OK ? item.status : status) ||
           fail_because("put", key, status == SKY_OK ? item.status : status);
}

/* Several at once, copied. */
static bool get_some(client *c) {
    sky_item items[BATCH];
    sky_span spans[BATCH];
    uint32_t keys[BATCH], count = 1 + below(c, BATCH);
    const size_t room = BYTES_MAX / BATCH;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = below(c, KEYS);
        spans[i] = (sky_span){c->data + i * room, room};
        items[i] = (sky_item){.key = sky_fixture_key(keys[i]), .spans = &spans[i], .span_count = 1};
    }
    sky_status status = sky_run(c->cache, SKY_OP_GET, items, count, NULL);
    if (status != SKY_OK)
        return is_fine(status) || fail_because("get", 0, status);
    for (uint32_t i = 0; i < count; i++) {
        sky_status s = items[i].status;
        if (s == SKY_OK && !holds(spans[i].data, items[i].bytes, keys[i]))
            return fail_because("get: wrong bytes", keys[i], s);
        if (!is_fine(s) && s != SKY_E_DST_SMALL)
            return fail_because("get", keys[i], s);
        all->hits += s == SKY_OK;
    }
    return true;
}

/* What is held reads as it did, until it is given back. */
static bool give_back(client *c, size_t i) {
    const sky_item *item = &c->held[i].item;
    bool ok = holds(item->view.data, item->view.bytes, c->held[i].key) ||
              fail_because("lease: wrong bytes", c->held[i].key, SKY_OK);
    sky_release(c->cache, item->lease);
    c->held[i] = c->held[--c->held_count];
    return ok;
}

static bool lease_one(client *c) {
    if (c->held_count == HELD_MAX && !give_back(c, below(c, HELD_MAX)))
        return false;
    uint32_t key = below(c, KEYS);
    sky_item item = {.key = sky_fixture_key(key)};
    sky_status status = sky_run(c->cache, SKY_OP_LEASE, &item, 1, NULL);
    status = status == SKY_OK ? item.status : status;
    if (status != SKY_OK)
        return is_fine(status) || fail_because("lease", key, status);
    c->held[c->held_count].item = item;
    c->held[c->held_count++].key = key;
    all->hits++;
    return holds(item.view.data, item.view.bytes, key) ||
           fail_because("lease: wrong bytes", key, status);
}

static bool remove_one(client *c) {
    uint32_t key = below(c, KEYS);
    sky_item item = {.key = sky_fixture_key(key)};
    sky_status status = sky_run(c->cache, SKY_OP_REMOVE, &item, 1, NULL);
    status = status == SKY_OK ? item.status : status;
    return is_fine(status) || fail_because("remove", key, status);
}

/* Asked for, and no longer wanted. */
static bool cancel_one(client *c) {
    uint32_t key = below(c, KEYS);
    sky_span span = {c->data, random_bytes(c)};
    sky_item item = {.key = sky_fixture_key(key), .spans = &span, .span_count = 1};
    sky_batch batch;
    fill(c->data, span.bytes, key, 7);
    sky_status status = sky_submit(c->cache, below(c, 2) ? SKY_OP_PUT : SKY_OP_GET, &item, 1, NULL,
                                   &batch);
    if (status == SKY_OK)
        sky_cancel(c->cache, batch);
    return is_fine(status) || fail_because("submit", key, status);
}

static bool count_entry(void *context, const sky_entry *entry) {
    (void)entry;
    (*(size_t *)context)++;
    return true;
}

static bool list_all(client *c) {
    size_t count = 0;
    sky_status status = sky_list(c->cache, count_entry, &count);
    return is_fine(status) || fail_because("list", 0, status);
}

static bool do_something(client *c) {
    uint32_t die = below(c, 100);
    all->operations++;
    return die < 30   ? put_one(c)
           : die < 60 ? get_some(c)
           : die < 85 ? lease_one(c)
           : die < 92 ? remove_one(c)
           : die < 99 ? cancel_one(c)
                      : list_all(c);
}

static int be_client(uint64_t seed) {
    char url[80];
    const char *urls[] = {url};
    client c = {.data = malloc(BYTES_MAX)};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sky_prng_init(&c.prng, seed);
    snprintf(url, sizeof url, "shm:%s", socket_path);
    sky_status status;
    while ((status = sky_cache_open(urls, 1, &c.cache, NULL)) == SKY_E_BUSY ||
           (status == SKY_E_DEADLINE && !all->stop))
        nap(SKY_MS(5)); /* the places of those that were killed are not free yet */
    bool late = status == SKY_E_DEADLINE; /* on a busy machine, at the end */
    bool ok = late || (c.data && status == SKY_OK) || fail_because("open", 0, status);
    if (late)
        return 0;
    while (ok && !all->stop)
        ok = do_something(&c);
    while (ok && c.held_count > 0)
        ok = give_back(&c, 0);
    sky_cache_close(c.cache);
    free(c.data);
    return ok ? 0 : 1;
}

/* ---- the host ---- */

static char *counters(void *context, sky_cache *cache, const sky_host_stat *stat) {
    (void)context;
    char *text = malloc(128);
    if (text)
        snprintf(
            text, 128, "%llu %llu %llu %llu %llu", (unsigned long long)stat->clients,
            (unsigned long long)(sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) +
                                 stat->direct_leases),
            (unsigned long long)sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_USED),
            (unsigned long long)stat->committed_bytes, (unsigned long long)stat->disconnected);
    return text;
}

static int be_host(int stop_fd) {
    char disk[96];
    const char *urls[] = {"mem:64MiB", disk};
    snprintf(disk, sizeof disk, "disk:%s/disk?max=128MiB", folder);
    sky_host_options o = {.struct_bytes = sizeof o,
                          .socket_path = socket_path,
                          .urls = urls,
                          .url_count = seconds ? 2 : 1,
                          .stop_fd = stop_fd,
                          .text = counters};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sky_error error = {0};
    sky_status status = sky_host_run(&o, &error);
    if (status != SKY_OK)
        fprintf(stderr, "host: %s\n", error.text);
    return status == SKY_OK ? 0 : 1;
}

typedef struct {
    uint64_t clients, leases, used_bytes, committed_bytes, disconnected;
} numbers;

static numbers ask_host(void) {
    char *text;
    numbers n = {0};
    assert_int_equal(sky_host_text(socket_path, sky_now() + PATIENCE, &text), SKY_OK);
    assert_int_equal(sscanf(text, "%lu %lu %lu %lu %lu", &n.clients, &n.leases, &n.used_bytes,
                            &n.committed_bytes, &n.disconnected),
                     5);
    free(text);
    return n;
}

/* The host's own memory in KiB: not the arena, which is shared. */
static uint64_t own_memory_kb(pid_t pid) {
    char path[64], line[256];
    unsigned long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "RssAnon: %lu kB", &kb);
    if (file)
        fclose(file);
    return kb;
}

static size_t descriptors_of(pid_t pid) {
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *all_fds = opendir(path);
    while (all_fds && readdir(all_fds))
        count++;
    if (all_fds)
        closedir(all_fds);
    return count;
}

/* ---- the soak ---- */

typedef struct {
    pid_t host, clients[CLIENTS];
    bool killed[CLIENTS], stopped[CLIENTS];
    uint64_t seed, started, kills;
    uint64_t first_kb, most_kb;
    size_t most_descriptors;
    int stop_end;
    sky_prng prng;
} soak;

static void start_client(soak *s, size_t i) {
    uint64_t seed = s->seed << 32 | ++s->started;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(be_client(seed));
    s->clients[i] = pid;
    s->killed[i] = s->stopped[i] = false;
}

static void start_host(soak *s) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    s->host = fork();
    assert_true(s->host >= 0);
    if (s->host == 0) {
        close(ends[1]);
        _exit(be_host(ends[0]));
    }
    close(ends[0]);
    s->stop_end = ends[1];
    sky_time until = sky_now() + PATIENCE;
    char *text = NULL;
    while (sky_host_text(socket_path, until, &text) == SKY_MISS && sky_now() < until)
        nap(SKY_MS(2)); /* the socket is there before anybody listens */
    free(text);
}

/* One that ended by itself, or by another signal than ours, failed. */
static void reap(soak *s, bool restart) {
    for (size_t i = 0; i < CLIENTS; i++) {
        int ended;
        if (s->clients[i] == 0 || waitpid(s->clients[i], &ended, WNOHANG) <= 0)
            continue;
        s->clients[i] = 0;
        if (!(s->killed[i] && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) && ended != 0)
            (void)fail_because("a client ended", (uint32_t)i, SKY_E_IO);
        if (restart)
            start_client(s, i);
    }
}

/* Stop one, let one go on, kill one. */
static void disturb(soak *s) {
    size_t i = sky_prng_u64(&s->prng) % CLIENTS;
    uint64_t die = sky_prng_u64(&s->prng) % 4;
    if (s->clients[i] == 0 || s->killed[i])
        return;
    if (die < 2) {
        s->killed[i] = true;
        s->kills++;
        kill(s->clients[i], SIGKILL);
    } else {
        s->stopped[i] = !s->stopped[i];
        kill(s->clients[i], s->stopped[i] ? SIGSTOP : SIGCONT);
    }
}

static void look(soak *s) {
    uint64_t kb = own_memory_kb(s->host);
    size_t descriptors = descriptors_of(s->host);
    s->most_kb = kb > s->most_kb ? kb : s->most_kb;
    s->most_descriptors = descriptors > s->most_descriptors ? descriptors : s->most_descriptors;
}

static void let_run(soak *s) {
    const sky_time begun = sky_now(), end = begun + SKY_SECONDS(seconds);
    while (!all->failed) {
        bool by_time = seconds > 0;
        bool quarter = by_time ? sky_now() > begun + (end - begun) / 4
                               : all->operations > OPERATIONS / 4;
        if (by_time ? sky_now() >= end : all->operations >= OPERATIONS)
            break;
        nap(SKY_MS(10));
        disturb(s);
        reap(s, true);
        look(s);
        if (!quarter || s->first_kb == 0)
            s->first_kb = s->most_kb;
    }
}

static void end_clients(soak *s) {
    all->stop = true;
    const sky_time until = sky_now() + PATIENCE;
    size_t left;
    do {
        left = 0;
        for (size_t i = 0; i < CLIENTS; i++)
            if (s->clients[i] != 0) {
                kill(s->clients[i], SIGCONT);
                left++;
            }
        reap(s, false);
        nap(SKY_MS(5));
    } while (left > 0 && sky_now() < until);
    assert_int_equal(left, 0);
}

static void empty_the_host(void) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache;
    snprintf(url, sizeof url, "shm:%s", socket_path);
    assert_int_equal(sky_cache_open(urls, 1, &cache, NULL), SKY_OK);
    for (uint32_t key = 0; key < KEYS; key++) {
        sky_item item = {.key = sky_fixture_key(key)};
        assert_int_equal(sky_run(cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    }
    sky_cache_close(cache);
}

static void nothing_is_left(const soak *s) {
    numbers n;
    const sky_time until = sky_now() + PATIENCE;
    while ((n = ask_host()).leases > 0 || n.clients > 1)
        if (sky_now() > until)
            fail_msg("%lu leases and %lu clients are left", n.leases, n.clients);
    empty_the_host();
    n = ask_host();
    printf("soak: %lu operations, %lu puts, %lu hits, %lu busy or full; %lu kills; host %lu to %lu "
           "KiB, %zu descriptors at most\n",
           (unsigned long)all->operations, (unsigned long)all->puts, (unsigned long)all->hits,
           (unsigned long)all->busy, s->kills, s->first_kb, s->most_kb, s->most_descriptors);
    assert_int_equal(n.used_bytes, 0);
    assert_int_equal(n.committed_bytes, 0);
    assert_int_equal(n.disconnected, 0);
#ifndef __SANITIZE_THREAD__ /* it keeps shadows of what was mapped, 66 MB after 479 clients */
    assert_true(s->most_kb <= s->first_kb + GROWTH_KB_MAX);
#endif
    assert_true(s->most_descriptors <= DESCRIPTORS_MAX);
}

static uint64_t number_of(const char *name, uint64_t fallback) {
    const char *text = getenv(name);
    return text && text[0] ? strtoull(text, NULL, 10) : fallback;
}

static void clients_come_and_go(void **state) {
    (void)state;
    int ended;
    soak s = {.seed = number_of("SKYMEM_SOAK_SEED", 1)};
    printf("soak: seed %lu\n", s.seed);
    sky_prng_init(&s.prng, s.seed);
    start_host(&s);
    for (size_t i = 0; i < CLIENTS; i++)
        start_client(&s, i);
    let_run(&s);
    end_clients(&s);
    if (all->failed)
        fail_msg("%s", all->why);
    nothing_is_left(&s);
    assert_true(s.kills > 0 && all->hits > 0 && all->puts > 0);
    assert_int_equal(write(s.stop_end, "x", 1), 1);
    assert_int_equal(waitpid(s.host, &ended, 0), s.host);
    assert_int_equal(ended, 0);
    close(s.stop_end);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(clients_come_and_go)};
    seconds = number_of("SKYMEM_SOAK_SECONDS", 0);
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || !mkdtemp(folder))
        return 1;
    snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char line[96];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line) == 0 ? failed : 1;
}
