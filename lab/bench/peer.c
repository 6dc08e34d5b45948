/* A host served to others over TCP on loopback, in a process of its own, against iperf3, where it
 * is installed: one client, in turns. Then the same over libfabric's tcp provider, where that
 * is there. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUE_BYTES  (8u << 20)
#define VALUES       8u
#define GETS_MAX     200u
#define LOOKED_UP    1000u
#define ROUNDS_MAX   5u
#define IPERF_PORT   5287
#define ADDRESS_ROOM 64
#define WAYS         4u
#define FABRIC       "fabric:tcp"

/* ---- the other process ---- */

/* Where it listens: over TCP, and over libfabric, "" where that is not there. */
typedef struct {
    char tcp[ADDRESS_ROOM], fabric[ADDRESS_ROOM];
} addresses;

static void be_server(const char *key_path, int told) {
    const char *url = "mem:512MiB";
    sky_peer_options o = {.struct_bytes = sizeof o,
                          .address = "0",
                          .key_paths = &key_path,
                          .key_count = 1,
                          .plain = true};
    addresses at = {0};
    sky_peer_server *server;
    sky_cache *cache;
    if (sky_cache_open(&url, 1, &cache, NULL) != SKY_OK ||
        sky_peer_serve(cache, &o, &server, NULL) != SKY_OK)
        return;
    strncpy(at.tcp, sky_peer_address(server), sizeof at.tcp - 1);
    o.transport = FABRIC;
    if (sky_peer_serve(cache, &o, &server, NULL) == SKY_OK)
        strncpy(at.fabric, sky_peer_address(server), sizeof at.fabric - 1);
    if (write(told, &at, sizeof at) == sizeof at)
        pause();
}

/* Start one that ends with this process; -1 when it does not start. */
static pid_t start_server(const char *key_path, addresses *at) {
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        be_server(key_path, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    bool up = pid > 0 && read(ends[0], at, sizeof *at) == sizeof *at;
    close(ends[0]);
    return up ? pid : -1;
}

static void peer_stop(pid_t pid) {
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- iperf3 ---- */

/* Bytes a second of one stream; 0: it is not there. */
static double iperf_run(bool quick) {
    char command[400];
    double bits = 0;
    snprintf(command, sizeof command,
             "iperf3 -s -1 -p %d >/dev/null 2>&1 & sleep 0.3; iperf3 -c 127.0.0.1 -p %d -l 256K -t "
             "%d -J 2>/dev/null | grep -A 12 sum_received | grep bits_per_second | cut -d: -f2; "
             "wait",
             IPERF_PORT, IPERF_PORT, quick ? 1 : 2);
    if (system("command -v iperf3 >/dev/null 2>&1") != 0)
        return 0;
    FILE *out = popen(command, "r");
    if (!out)
        return 0;
    if (fscanf(out, "%lf", &bits) != 1)
        bits = 0;
    pclose(out);
    return bits / 8;
}

/* ---- a client ---- */

typedef struct {
    const char *name;
    cli_store store;
    double put_rates[ROUNDS_MAX], get_rates[ROUNDS_MAX];
    double gets[GETS_MAX]; /* seconds of each, one after the other */
    size_t get_count;
    double lookups[ROUNDS_MAX], one_lookup[ROUNDS_MAX];
} way;

static sky_status all_good(const sky_item *items, size_t count, sky_status status) {
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        status = items[i].status;
    return status;
}

/* All values in one batch; bytes a second. */
static sky_status move_all(const way *w, sky_op op, uint8_t *memory, double *rate) {
    sky_item items[VALUES];
    sky_span spans[VALUES];
    for (uint32_t i = 0; i < VALUES; i++) {
        spans[i] = (sky_span){memory + (size_t)i * VALUE_BYTES, VALUE_BYTES};
        items[i] = (sky_item){.key = bench_key(i), .spans = &spans[i], .span_count = 1};
    }
    sky_time start = sky_now();
    sky_status status = sky_run(w->store.cache, op, items, VALUES, NULL);
    *rate = (double)VALUES * VALUE_BYTES / bench_seconds(start);
    return all_good(items, VALUES, status);
}

static sky_status get_one(way *w, uint8_t *memory, size_t n) {
    sky_span span = {memory, VALUE_BYTES};
    sky_item item = {.key = bench_key(n % VALUES), .spans = &span, .span_count = 1};
    sky_time start = sky_now();
    sky_status status = sky_run(w->store.cache, SKY_OP_GET, &item, 1, NULL);
    w->gets[w->get_count++] = bench_seconds(start);
    return all_good(&item, 1, status);
}

/* Seconds to look for so many keys, of which there are some. */
static sky_status look_up(const way *w, size_t count, double *seconds) {
    static sky_item items[LOOKED_UP];
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < count; i++)
        items[i].key = bench_key(i);
    sky_time start = sky_now();
    sky_status status = sky_run(w->store.cache, SKY_OP_HAS, items, count, NULL);
    *seconds = bench_seconds(start);
    return status == SKY_OK && items[0].status != SKY_OK ? SKY_E_IO : status;
}

static sky_status measure_round(way *w, uint8_t *memory, size_t round, size_t gets) {
    sky_status status = move_all(w, SKY_OP_PUT, memory, &w->put_rates[round]);
    if (status == SKY_OK)
        status = move_all(w, SKY_OP_GET, memory, &w->get_rates[round]);
    for (size_t n = 0; n < gets && status == SKY_OK; n++)
        status = get_one(w, memory, n);
    if (status == SKY_OK)
        status = look_up(w, LOOKED_UP, &w->lookups[round]);
    return status == SKY_OK ? look_up(w, 1, &w->one_lookup[round]) : status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int print_row(bench *b, const way *w, const char *what, double value, const char *unit,
                     const char *ref, double ref_value) {
    char name[64];
    snprintf(name, sizeof name, "%s %s", w->name, what);
    return bench_row(b, name, value, unit, ref, ref_value);
}

static int print_way(bench *b, way *w, size_t rounds, double iperf) {
    const char *ref = iperf > 0 ? "iperf3" : NULL;
    double one = 1e6 * cli_median(w->one_lookup, rounds);
    qsort(w->gets, w->get_count, sizeof *w->gets, by_value);
    int code = print_row(b, w, "get 8 MiB", cli_median(w->get_rates, rounds) / 1e9, "GB/s", ref,
                         iperf / 1e9);
    if (code == CLI_OK)
        code = print_row(b, w, "put 8 MiB", cli_median(w->put_rates, rounds) / 1e9, "GB/s", ref,
                         iperf / 1e9);
    if (code == CLI_OK)
        code = print_row(b, w, "get 8 MiB median", 1e3 * w->gets[w->get_count / 2], "ms", NULL, 0);
    if (code == CLI_OK)
        code = print_row(b, w, "get 8 MiB p99", 1e3 * w->gets[w->get_count * 99 / 100], "ms", NULL,
                         0);
    if (code == CLI_OK)
        code = print_row(b, w, "lookup of 1,000", 1e6 * cli_median(w->lookups, rounds), "us",
                         "lookup of 1", one);
    return code;
}

/* The ways come in pairs, plain and sealed. */
static int open_ways(bench *b, const addresses *at, const char *key_path, way *ways,
                     size_t *count) {
    *count = at->fabric[0] ? WAYS : WAYS / 2;
    for (size_t i = 0; i < *count; i++) {
        bool fabric = i >= WAYS / 2;
        char url[4400];
        const char *urls[] = {url};
        snprintf(url, sizeof url, "skymem://%s?%s%s%s", fabric ? at->fabric : at->tcp,
                 i % 2 ? "key=" : "plain=yes", i % 2 ? key_path : "",
                 fabric ? "&transport=fabric&provider=tcp" : "");
        int code = cli_store_open_urls(b->c, urls, 1, &ways[i].store);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int peer_measure(bench *b, const addresses *at, const char *key_path) {
    static way ways[WAYS] = {{.name = "plain"},
                             {.name = "sealed"},
                             {.name = "plain over " FABRIC},
                             {.name = "sealed over " FABRIC}};
    size_t count = 0;
    size_t rounds = b->quick ? 1 : ROUNDS_MAX, gets = b->quick ? 10 : GETS_MAX / ROUNDS_MAX;
    uint8_t *memory = bench_memory(b->c, (size_t)VALUES * VALUE_BYTES);
    double iperfs[ROUNDS_MAX] = {0};
    int code = memory ? CLI_OK : CLI_FAILED;
    sky_status status = SKY_OK;
    if (code == CLI_OK)
        code = open_ways(b, at, key_path, ways, &count);
    for (size_t n = 0; n < rounds && code == CLI_OK && status == SKY_OK; n++) {
        iperfs[n] = iperf_run(b->quick);
        for (size_t i = 0; i < count && status == SKY_OK; i++)
            status = measure_round(&ways[i], memory, n, gets);
    }
    if (code == CLI_OK && status != SKY_OK)
        code = cli_failed(b->c, "peer: %s", sky_status_text(status));
    double iperf = cli_median(iperfs, rounds);
    if (code == CLI_OK && iperf > 0)
        code = bench_row(b, "iperf3, one stream", iperf / 1e9, "GB/s", NULL, 0);
    for (size_t i = 0; i < count; i++) {
        if (code == CLI_OK)
            code = print_way(b, &ways[i], rounds, iperf);
        cli_store_close(&ways[i].store);
    }
    free(memory);
    return code;
}

/* A key of the server's, as its owner would make it. */
static bool write_key(const char *path) {
    FILE *out = fopen(path, "wx");
    if (!out)
        return false;
    for (int i = 0; i < 32; i++)
        fprintf(out, "%02x", (unsigned)(bench_mix((uint64_t)i) & 255));
    return fclose(out) == 0;
}

int bench_peer(bench *b) {
    char folder[4096], key_path[4200];
    addresses at;
    int code = cli_scratch_make(b->c, NULL, "bench", folder, sizeof folder);
    if (code != CLI_OK)
        return code;
    snprintf(key_path, sizeof key_path, "%s/key", folder);
    mode_t mask = umask(0077);
    bool has_key = write_key(key_path);
    umask(mask);
    pid_t server = has_key ? start_server(key_path, &at) : -1;
    code = server > 0 ? peer_measure(b, &at, key_path)
                      : cli_failed(b->c, "peer: the server does not start: %s", strerror(errno));
    peer_stop(server);
    unlink(key_path);
    cli_scratch_remove(folder);
    return code;
}
