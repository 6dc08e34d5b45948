/* The store of a host, in a process of its own, against memcpy and against Redis over its Unix
 * socket, where redis-server is installed. Both serve one client, which waits for each answer. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE_BYTES (8u << 20)
#define SMALL_BYTES 4096u
#define ROUNDS_MAX  64u
#define SMALL_COUNT 4000u
#define BATCH       64u
#define PATIENCE_S  10

/* ---- the other process ---- */

static void host_ready(void *context) {
    ssize_t told = write(*(const int *)context, "r", 1);
    (void)told; /* who does not hear it gives up */
}

static void be_host(const char *path, int told) {
    const char *url = "mem:512MiB";
    const sky_host_options o = {.struct_bytes = sizeof o,
                                .socket_path = path,
                                .urls = &url,
                                .url_count = 1,
                                .stop_fd = -1,
                                .ready = host_ready,
                                .context = &told};
    (void)sky_host_run(&o, NULL);
}

/* Start a host that ends with this process, and wait for it; -1. */
static pid_t start_host(const char *path) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        be_host(path, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    bool up = pid > 0 && read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    return up ? pid : -1;
}

static void shm_stop(pid_t pid) {
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- Redis ---- */

static pid_t start_redis(const char *path) {
    cli_flush(); /* else the child writes the rows so far again */
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stdout))
            execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save",
                   "", "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Its connection; -1: it does not come. */
static int connect_redis(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    sky_time until = sky_now() + SKY_SECONDS(PATIENCE_S);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        if (sky_now() > until) {
            close(fd);
            return -1;
        }
        usleep(10000);
    }
    return fd;
}

static bool send_all(int fd, const void *data, size_t bytes) {
    const uint8_t *at = data;
    for (ssize_t sent; bytes > 0; at += sent, bytes -= (size_t)sent)
        if ((sent = write(fd, at, bytes)) <= 0)
            return false;
    return true;
}

static bool receive_all(int fd, void *data, size_t bytes) {
    uint8_t *at = data;
    for (ssize_t got; bytes > 0; at += got, bytes -= (size_t)got)
        if ((got = read(fd, at, bytes)) <= 0)
            return false;
    return true;
}

static bool redis_set(int fd, const char *key, const void *value, size_t bytes) {
    char head[96], answer[5];
    int head_bytes = snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n",
                              strlen(key), key, bytes);
    return send_all(fd, head, (size_t)head_bytes) && send_all(fd, value, bytes) &&
           send_all(fd, "\r\n", 2) && receive_all(fd, answer, 5) && memcmp(answer, "+OK", 3) == 0;
}

static bool redis_get(int fd, const char *key, uint8_t *to, size_t bytes) {
    char head[96], expected[32];
    int head_bytes = snprintf(head, sizeof head, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key),
                              key);
    int expected_bytes = snprintf(expected, sizeof expected, "$%zu\r\n", bytes);
    return send_all(fd, head, (size_t)head_bytes) &&
           receive_all(fd, head, (size_t)expected_bytes) &&
           memcmp(head, expected, (size_t)expected_bytes) == 0 && receive_all(fd, to, bytes) &&
           receive_all(fd, head, 2);
}

/* ---- turn and turn about ---- */

/* Seconds of one get: lent and looked at (to NULL), or copied. */
static sky_status get_ours(const cli_store *store, uint64_t key, uint8_t *to, size_t bytes,
                           double *seconds) {
    sky_span span = {to, bytes};
    sky_item item = {.key = bench_key(key), .spans = &span, .span_count = to != NULL};
    sky_time start = sky_now();
    sky_status status = cli_one(store, to ? SKY_OP_GET : SKY_OP_LEASE, &item, NULL);
    *seconds = bench_seconds(start);
    if (!to && status == SKY_OK)
        (void)sky_release(store->cache, item.lease);
    return status;
}

/* Medians of `count` gets of one value, ours and Redis's (fd -1: without), in turns. */
static int get_row(bench *b, const cli_store *store, int redis, size_t bytes, size_t count,
                   bool mapped, const char *name) {
    static double ours[SMALL_COUNT], theirs[SMALL_COUNT];
    char key[32];
    uint8_t *to = bench_memory(b->c, bytes);
    uint64_t number = bytes;
    snprintf(key, sizeof key, "%zu", bytes);
    sky_span span = {to, bytes};
    sky_item item = {.key = bench_key(number), .spans = &span, .span_count = 1};
    sky_status status = to ? cli_one(store, SKY_OP_PUT, &item, NULL) : SKY_E_NOMEM;
    bool peer = redis >= 0 && to && redis_set(redis, key, to, bytes);
    for (size_t i = 0; i < count && status == SKY_OK; i++) {
        status = get_ours(store, number, mapped ? NULL : to, bytes, &ours[i]);
        sky_time start = sky_now();
        peer = peer && redis_get(redis, key, to, bytes);
        theirs[i] = bench_seconds(start);
    }
    free(to);
    if (status != SKY_OK)
        return cli_failed(b->c, "shm: %s: %s", name, sky_status_text(status));
    return bench_row(b, name, 1e6 * cli_median(ours, count), "us", peer ? "redis" : NULL,
                     1e6 * cli_median(theirs, count));
}

/* The median of mapped gets of a value that get_row put, one after the other: both processes are
 * awake. */
static int awake_row(bench *b, const cli_store *store, size_t bytes, size_t count,
                     const char *name) {
    static double seconds[SMALL_COUNT];
    sky_status status = SKY_OK;
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        status = get_ours(store, bytes, NULL, bytes, &seconds[i]);
    if (status != SKY_OK)
        return cli_failed(b->c, "shm: %s: %s", name, sky_status_text(status));
    return bench_row(b, name, 1e6 * cli_median(seconds, count), "us", NULL, 0);
}

/* Leases of 64 values a call, and their returns, a second: the median of `rounds` calls. */
static int batch_row(bench *b, const cli_store *store, size_t rounds) {
    static uint8_t data[SMALL_BYTES];
    static double seconds[SMALL_COUNT];
    sky_span span = {data, sizeof data};
    sky_item items[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        items[i] = (sky_item){.key = bench_key(1000 + i), .spans = &span, .span_count = 1};
    sky_status status = sky_run(store->cache, SKY_OP_PUT, items, BATCH, NULL);
    for (size_t n = 0; n < rounds && status == SKY_OK; n++) {
        sky_time start = sky_now();
        status = sky_run(store->cache, SKY_OP_LEASE, items, BATCH, NULL);
        for (size_t i = 0; i < BATCH && status == SKY_OK; i++)
            status = items[i].status == SKY_OK ? sky_release(store->cache, items[i].lease)
                                               : items[i].status;
        seconds[n] = bench_seconds(start);
    }
    if (status != SKY_OK)
        return cli_failed(b->c, "shm: mapped gets in batches: %s", sky_status_text(status));
    return bench_row(b, "mapped get 4 KiB, 64 a batch", BATCH / cli_median(seconds, rounds) / 1e3,
                     "k/s", NULL, 0);
}

static int against_redis(bench *b, const char *url, int redis) {
    size_t large = b->quick ? 12 : ROUNDS_MAX, small = b->quick ? 500 : SMALL_COUNT;
    cli_store store = {0};
    int code = cli_store_open_urls(b->c, &url, 1, &store);
    if (code == CLI_OK)
        code = get_row(b, &store, redis, LARGE_BYTES, large, true, "mapped get 8 MiB");
    if (code == CLI_OK)
        code = get_row(b, &store, redis, LARGE_BYTES, large, false, "copied get 8 MiB");
    if (code == CLI_OK)
        code = get_row(b, &store, redis, SMALL_BYTES, small, true, "mapped get 4 KiB");
    if (code == CLI_OK)
        code = get_row(b, &store, redis, SMALL_BYTES, small, false, "copied get 4 KiB");
    if (code == CLI_OK)
        code = awake_row(b, &store, LARGE_BYTES, small, "mapped get 8 MiB, both awake");
    if (code == CLI_OK)
        code = awake_row(b, &store, SMALL_BYTES, small, "mapped get 4 KiB, both awake");
    if (code == CLI_OK)
        code = batch_row(b, &store, small);
    cli_store_close(&store);
    return code;
}

int bench_shm(bench *b) {
    char folder[4096], path[4200], redis_path[4200], url[4300];
    int code = cli_scratch_make(b->c, NULL, "bench", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(path, sizeof path, "%s/host", folder);
    snprintf(redis_path, sizeof redis_path, "%s/redis", folder);
    snprintf(url, sizeof url, "shm:%s", path);
    pid_t host = start_host(path);
    if (host < 0)
        code = cli_failed(b->c, "shm: the host does not start: %s", strerror(errno));
    if (code == CLI_OK)
        code = bench_copies(b, url);
    if (code == CLI_OK)
        code = bench_shm_blocks(b, url);
    if (code == CLI_OK)
        code = bench_shm_ranges(b, url);
    if (code == CLI_OK) {
        bool there = system("command -v redis-server >/dev/null 2>&1") == 0;
        pid_t peer = there ? start_redis(redis_path) : -1;
        int redis = there ? connect_redis(redis_path) : -1;
        code = against_redis(b, url, redis);
        if (redis >= 0)
            close(redis);
        shm_stop(peer);
        unlink(redis_path);
    }
    shm_stop(host);
    unlink(path);
    cli_scratch_remove(folder);
    return code;
}
