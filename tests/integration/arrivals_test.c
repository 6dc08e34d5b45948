/* Proves, with processes of their own, over a host's socket and over TCP: blocks that one program
 * announces come to another as they are put; the wait ends when the first is killed, when the host
 * is, and at its deadline while the first stands still; who is killed while it waits leaves
 * nothing; 64 streams go at once, of which those that stand still hold no other up; who does not
 * read costs the host no memory; and who announces without end is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skymem/skymem.h>

#define PATIENCE      SKY_SECONDS(60)
#define BYTES         100000u
#define BLOCKS        8u
#define MANY          80u
#define MANY_FIRST    1000u
#define STREAMS       64u /* block b of stream s has key STREAMS_FIRST + b * STREAMS + s */
#define STREAMS_FIRST 100000u
#define LONG_BLOCKS   32u /* of each stream: more than the host's memory holds */
#define HOST_KIB_MOST (192u * 1024)
_Static_assert((uint64_t)STREAMS *LONG_BLOCKS *BYTES > HOST_KIB_MOST * 1024u,
               "what is pushed would not fit into what the host may take");

static sky_key key_of(uint64_t n) {
    sky_key key = {{0x77}};
    memcpy(key.bytes + 8, &n, sizeof n);
    memcpy(key.bytes + 16, &n, sizeof n);
    return key;
}

static sky_cache *open_url(const char *url) {
    sky_cache *cache = NULL;
    sky_error error = {0};
    if (sky_cache_open(&url, 1, &cache, &error) != SKY_OK)
        fprintf(stderr, "%s\n", error.text);
    return cache;
}

static sky_status run_one(sky_cache *cache, sky_op op, uint64_t n, const sky_call *call) {
    sky_item item = {.key = key_of(n)};
    sky_status status = sky_run(cache, op, &item, 1, call);
    return status == SKY_OK ? item.status : status;
}

static sky_status put(sky_cache *cache, uint64_t n) {
    static uint8_t data[BYTES];
    sky_span span = {data, BYTES};
    sky_item item = {.key = key_of(n), .spans = &span, .span_count = 1};
    memset(data, (int)(n % 251), BYTES);
    sky_status status = sky_run(cache, SKY_OP_PUT, &item, 1, NULL);
    return status == SKY_OK ? item.status : status;
}

static bool is_right(sky_cache *cache, uint64_t n) {
    static uint8_t data[BYTES];
    sky_span span = {data, BYTES};
    sky_item item = {.key = key_of(n), .spans = &span, .span_count = 1};
    memset(data, 0, BYTES);
    bool right = sky_run(cache, SKY_OP_GET, &item, 1, NULL) == SKY_OK && item.status == SKY_OK;
    for (size_t i = 0; i < BYTES; i++)
        right &= data[i] == n % 251;
    return right;
}

/* ---- other processes ---- */

static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

static void host_ready(void *path) {
    char line[128];
    snprintf(line, sizeof line, "shm:%s", (const char *)path);
    say(line);
}

static char *host_text(void *context, sky_cache *cache, const sky_host_stat *stat) {
    (void)context;
    char *text = malloc(64);
    if (text)
        snprintf(
            text, 64, "%llu %llu %llu", (unsigned long long)stat->clients,
            (unsigned long long)sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_ANNOUNCED),
            (unsigned long long)sky_cache_metric(cache, SKY_TIER_NONE,
                                                 SKY_METRIC_CACHE_REQUESTS_ACTIVE));
    return text;
}

static int be_host(char *path) {
    const char *url = "mem:64MiB";
    const sky_host_options o = {.struct_bytes = sizeof o,
                                .socket_path = path,
                                .urls = &url,
                                .url_count = 1,
                                .ready = host_ready,
                                .text = host_text,
                                .context = path};
    return sky_host_run(&o, NULL) == SKY_OK ? 0 : 1;
}

static int be_server(void) {
    sky_cache *cache = open_url("mem:64MiB");
    const sky_peer_options o = {.struct_bytes = sizeof o, .address = "0", .plain = true};
    sky_peer_server *server;
    char line[128];
    if (!cache || sky_peer_serve(cache, &o, &server, NULL) != SKY_OK)
        return 1;
    snprintf(line, sizeof line, "skymem://%s?plain=yes", sky_peer_address(server));
    say(line);
    pause();
    return 0;
}

/* Announce blocks, and put the next for each byte that comes; at the end withdraw the others. */
static int be_producer(const char *url, uint64_t first, uint64_t count) {
    sky_cache *cache = open_url(url);
    uint64_t next = first;
    char byte;
    for (uint64_t n = first; cache && n < first + count; n++)
        if (run_one(cache, SKY_OP_ANNOUNCE, n, NULL) != SKY_OK)
            return 1;
    say(cache ? "announced" : "no");
    while (next < first + count && read(STDIN_FILENO, &byte, 1) == 1)
        if (put(cache, next++) != SKY_OK)
            return 1;
    for (; next < first + count; next++)
        (void)run_one(cache, SKY_OP_WITHDRAW, next, NULL);
    say("over");
    pause(); /* the connection stays */
    return 0;
}

static int be_consumer(const char *url) {
    sky_cache *cache = open_url(url);
    sky_item items[BLOCKS] = {0};
    sky_batch batch;
    for (uint64_t n = 0; n < BLOCKS; n++)
        items[n].key = key_of(n);
    const sky_call call = {.deadline_ns = sky_now() + PATIENCE};
    if (!cache || sky_submit(cache, SKY_OP_AWAIT, items, BLOCKS, &call, &batch) != SKY_OK)
        return 1;
    (void)sky_wait(cache, batch, sky_now() + SKY_MS(200));
    say("waiting");
    pause();
    return 0;
}

typedef struct {
    pid_t pid;
    int in;
    FILE *out;
    char line[160];
} process;

static process start(const char *role, const char *what, const char *first, const char *count) {
    process p = {0};
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        execl("/proc/self/exe", "arrivals_test", role, what, first, count, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    fcntl(out[0], F_SETFD, FD_CLOEXEC);
    p.in = in[1];
    p.out = fdopen(out[0], "r");
    if (!fgets(p.line, sizeof p.line, p.out))
        fail_msg("the %s ended", role);
    p.line[strcspn(p.line, "\n")] = '\0';
    return p;
}

static void end(process *p) {
    (void)kill(p->pid, SIGKILL);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
    close(p->in);
    fclose(p->out);
}

static void next(const process *p) {
    assert_int_equal(write(p->in, "n", 1), 1);
}

/* ---- tests, over either ---- */

typedef struct {
    bool tcp;
    char path[64];
    process host;
    sky_cache *cache;
} world;

static int open_world(void **state) {
    world *w = *state;
    snprintf(w->path, sizeof w->path, "/tmp/skymem-arrivals-%d", getpid());
    w->host = start(w->tcp ? "server" : "host", w->path, "", "");
    w->cache = open_url(w->host.line);
    return w->cache ? 0 : -1;
}

static int close_world(void **state) {
    world *w = *state;
    sky_cache_close(w->cache);
    if (w->host.pid > 0)
        end(&w->host);
    unlink(w->path);
    return 0;
}

static process start_producer(const world *w, const char *first, const char *count) {
    process p = start("producer", w->host.line, first, count);
    assert_string_equal(p.line, "announced");
    return p;
}

static sky_batch await(const world *w, sky_item *item, uint64_t n, sky_time for_ns) {
    sky_batch batch;
    *item = (sky_item){.key = key_of(n)};
    const sky_call call = {.deadline_ns = sky_now() + for_ns};
    assert_int_equal(sky_submit(w->cache, SKY_OP_AWAIT, item, 1, &call, &batch), SKY_OK);
    return batch;
}

static sky_status ended(const world *w, const sky_item *item, sky_batch batch) {
    assert_int_equal(sky_wait(w->cache, batch, SKY_TIME_NEVER), SKY_OK);
    return item->status;
}

static void blocks_come_as_they_are_put(void **state) {
    world *w = *state;
    process p = start_producer(w, "0", "8");
    sky_item item, later;
    sky_batch last = await(w, &later, BLOCKS - 1, PATIENCE);
    for (uint64_t n = 0; n < BLOCKS - 2; n++) {
        sky_batch batch = await(w, &item, n, PATIENCE);
        next(&p);
        assert_int_equal(ended(w, &item, batch), SKY_OK);
        assert_true(is_right(w->cache, n));
        assert_int_equal(sky_wait(w->cache, last, 1), SKY_E_DEADLINE); /* it waits still */
    }
    close(p.in); /* the producer withdraws the last two */
    p.in = dup(0);
    assert_int_equal(ended(w, &later, last), SKY_MISS);
    end(&p);
}

static void a_killed_producer_ends_the_wait(void **state) {
    world *w = *state;
    process p = start_producer(w, "0", "8");
    sky_item item;
    sky_batch batch = await(w, &item, 1, PATIENCE);
    next(&p);
    assert_int_equal(sky_wait(w->cache, batch, sky_now() + SKY_MS(100)), SKY_E_DEADLINE);
    end(&p);
    assert_int_equal(ended(w, &item, batch), SKY_MISS);
}

static void a_producer_that_stands_still_costs_the_deadline(void **state) {
    world *w = *state;
    process p = start_producer(w, "0", "8");
    sky_item item;
    assert_int_equal(kill(p.pid, SIGSTOP), 0);
    next(&p);
    sky_batch batch = await(w, &item, 0, SKY_MS(300));
    assert_int_equal(ended(w, &item, batch), SKY_E_DEADLINE);
    batch = await(w, &item, 0, PATIENCE);
    assert_int_equal(kill(p.pid, SIGCONT), 0);
    assert_int_equal(ended(w, &item, batch), SKY_OK);
    assert_true(is_right(w->cache, 0));
    end(&p);
}

static void a_killed_consumer_leaves_nothing(void **state) {
    world *w = *state;
    process p = start_producer(w, "0", "8");
    process c = start("consumer", w->host.line, "", "");
    end(&c);
    for (uint64_t n = 0; n < BLOCKS; n++)
        next(&p);
    assert_non_null(fgets(p.line, sizeof p.line, p.out)); /* it has put them all */
    for (uint64_t n = 0; n < BLOCKS; n++)
        assert_true(is_right(w->cache, n));
    end(&p);
    unsigned long long clients = 0, announced = 1, requests = 1;
    const sky_time until = sky_now() + PATIENCE;
    while (!w->tcp && (clients != 2 || announced > 0 || requests > 0)) {
        char *text = NULL;
        assert_true(sky_now() < until);
        assert_int_equal(sky_host_text(w->path, sky_now() + PATIENCE, &text), SKY_OK);
        assert_int_equal(sscanf(text, "%llu %llu %llu", &clients, &announced, &requests), 3);
        free(text);
        poll(NULL, 0, 5);
    }
}

/* More than a client has frames at a host: some wait for their turn. */
static void many_wait_at_once(void **state) {
    world *w = *state;
    static sky_item items[MANY];
    sky_batch batches[MANY];
    process p = start_producer(w, "1000", "80");
    for (size_t i = 0; i < MANY; i++)
        batches[i] = await(w, &items[i], MANY_FIRST + i, PATIENCE);
    for (size_t i = 0; i < MANY; i++)
        next(&p);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(ended(w, &items[i], batches[i]), SKY_OK);
        assert_true(is_right(w->cache, MANY_FIRST + i));
    }
    end(&p);
}

static uint64_t stream_key(size_t stream, size_t block) {
    return STREAMS_FIRST + block * STREAMS + stream;
}

/* One waits for the first block of its stream, and all others for the last of theirs. */
static void many_streams_go_at_once(void **state) {
    world *w = *state;
    static sky_item items[STREAMS];
    sky_batch batches[STREAMS];
    process p = start_producer(w, "100000", "512");
    for (size_t s = 1; s < STREAMS; s++)
        batches[s] = await(w, &items[s], stream_key(s, BLOCKS - 1), PATIENCE);
    for (size_t b = 0; b < BLOCKS - 1; b++) {
        batches[0] = await(w, &items[0], stream_key(0, b), PATIENCE);
        for (size_t s = 0; s < STREAMS; s++)
            next(&p);
        assert_int_equal(ended(w, &items[0], batches[0]), SKY_OK);
        assert_int_equal(items[0].bytes, BYTES);
        assert_true(is_right(w->cache, stream_key(0, b)));
    }
    for (size_t s = 1; s < STREAMS; s++)
        assert_int_equal(sky_wait(w->cache, batches[s], 1), SKY_E_DEADLINE); /* it waits still */
    for (size_t s = 0; s < STREAMS; s++)
        next(&p);
    for (size_t s = 1; s < STREAMS; s++) {
        assert_int_equal(ended(w, &items[s], batches[s]), SKY_OK);
        for (size_t b = 0; b < BLOCKS; b++)
            assert_true(is_right(w->cache, stream_key(s, b)));
    }
    end(&p);
}

/* The most memory that a process ever had, in KiB. */
static unsigned long memory_most(pid_t pid) {
    char path[64], line[256];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        (void)sscanf(line, "VmHWM: %lu kB", &kib);
    fclose(status);
    assert_true(kib > 0);
    return kib;
}

/* 64 prompts are pushed while one that awaits some of them stands still. */
static void who_does_not_read_costs_the_host_nothing(void **state) {
    world *w = *state;
    process c = start("consumer", w->host.line, "", "");
    assert_int_equal(kill(c.pid, SIGSTOP), 0);
    process p = start_producer(w, "0", "8");
    process all = start_producer(w, "100000", "2048");
    for (size_t n = 0; n < BLOCKS; n++)
        next(&p);
    for (size_t n = 0; n < STREAMS * LONG_BLOCKS; n++)
        next(&all);
    assert_non_null(fgets(all.line, sizeof all.line, all.out)); /* it has put them all */
    assert_string_equal(all.line, "over\n");
    assert_true(is_right(w->cache, stream_key(STREAMS - 1, LONG_BLOCKS - 1)));
    assert_true(memory_most(w->host.pid) < HOST_KIB_MOST);
    end(&all);
    end(&p);
    end(&c);
}

/* Asked before and after the announcement; the next host serves as the one before. */
static void a_host_that_is_killed_ends_the_wait(void **state) {
    world *w = *state;
    process p = start_producer(w, "0", "8");
    sky_item item, early = {.key = key_of(1000)};
    sky_batch batch = await(w, &item, 1, PATIENCE), expects;
    const sky_call call = {.deadline_ns = sky_now() + PATIENCE};
    assert_int_equal(sky_submit(w->cache, SKY_OP_EXPECT, &early, 1, &call, &expects), SKY_OK);
    assert_int_equal(sky_wait(w->cache, expects, sky_now() + SKY_MS(100)), SKY_E_DEADLINE);
    end(&w->host);
    w->host.pid = 0;
    assert_int_equal(ended(w, &item, batch), SKY_E_IO);
    assert_int_equal(ended(w, &early, expects), SKY_E_IO);
    end(&p);
    if (w->tcp)
        return; /* the next has another port */
    w->host = start("host", w->path, "", "");
    p = start_producer(w, "0", "8");
    batch = await(w, &item, 1, PATIENCE);
    next(&p);
    next(&p);
    assert_int_equal(ended(w, &item, batch), SKY_OK);
    assert_true(is_right(w->cache, 1));
    end(&p);
}

/* Who asks first is answered when somebody announced the block and put it, or ended. */
static void who_asks_first_waits(void **state) {
    world *w = *state;
    sky_item comes = {.key = key_of(0)}, lost = {.key = key_of(7)};
    sky_batch first, second;
    const sky_call call = {.deadline_ns = sky_now() + PATIENCE};
    assert_int_equal(sky_submit(w->cache, SKY_OP_EXPECT, &comes, 1, &call, &first), SKY_OK);
    assert_int_equal(sky_submit(w->cache, SKY_OP_EXPECT, &lost, 1, &call, &second), SKY_OK);
    assert_int_equal(sky_wait(w->cache, first, sky_now() + SKY_MS(100)), SKY_E_DEADLINE);
    process p = start_producer(w, "0", "8");
    next(&p);
    assert_int_equal(ended(w, &comes, first), SKY_OK);
    assert_int_equal(comes.bytes, BYTES);
    assert_int_equal(sky_wait(w->cache, second, 1), SKY_E_DEADLINE);
    end(&p);
    assert_int_equal(ended(w, &lost, second), SKY_MISS);
}

static void who_announces_without_end_is_refused(void **state) {
    enum { KEYS = SKY_ANNOUNCED_OWNER_MAX + 5000 };
    world *w = *state;
    char url[200];
    snprintf(url, sizeof url, "%s%s", w->host.line, w->tcp ? "&connections=1" : "");
    sky_cache *hostile = open_url(url);
    sky_item *items = calloc(KEYS, sizeof *items), item;
    size_t taken = 0;
    assert_non_null(hostile);
    assert_non_null(items);
    for (size_t i = 0; i < KEYS; i++)
        items[i].key = key_of(1000000 + i);
    assert_int_equal(sky_run(hostile, SKY_OP_ANNOUNCE, items, KEYS, NULL), SKY_OK);
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(items[i].status == SKY_OK || items[i].status == SKY_E_BUSY);
        taken += items[i].status == SKY_OK;
    }
    assert_int_equal(taken, SKY_ANNOUNCED_OWNER_MAX);
    process p = start_producer(w, "0", "8"); /* others are served as before */
    sky_batch batch = await(w, &item, 0, PATIENCE);
    next(&p);
    assert_int_equal(ended(w, &item, batch), SKY_OK);
    batch = await(w, &item, 1000000, PATIENCE);
    sky_cache_close(hostile);
    assert_int_equal(ended(w, &item, batch), SKY_MISS);
    free(items);
    end(&p);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "host") == 0)
        return be_host(argv[2]);
    if (argc == 5 && strcmp(argv[1], "server") == 0)
        return be_server();
    if (argc == 5 && strcmp(argv[1], "producer") == 0)
        return be_producer(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (argc == 5)
        return be_consumer(argv[2]);
    world shm = {.tcp = false}, tcp = {.tcp = true};
#define OVER(world, test)                                                                          \
    { #test, test, open_world, close_world, &(world) }
#define ALL(world)                                                                                 \
    OVER(world, blocks_come_as_they_are_put), OVER(world, a_killed_producer_ends_the_wait),        \
        OVER(world, a_producer_that_stands_still_costs_the_deadline),                              \
        OVER(world, a_killed_consumer_leaves_nothing), OVER(world, many_wait_at_once),             \
        OVER(world, who_asks_first_waits), OVER(world, many_streams_go_at_once),                   \
        OVER(world, who_does_not_read_costs_the_host_nothing),                                     \
        OVER(world, a_host_that_is_killed_ends_the_wait),                                          \
        OVER(world, who_announces_without_end_is_refused)
    const struct CMUnitTest tests[] = {ALL(shm), ALL(tcp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
