/* The memory tier against memcpy, and what an idle cache costs.
 *
 * Both copy from as many distinct buffers into one, so that neither finds its source in a processor
 * cache; all memory is touched before anything is timed. The reference of a get copies from the
 * tier's own memory, lent for that: it lies on huge pages, and other memory would be slower. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LARGE_BYTES (8u << 20)
#define LARGE_COUNT 16u
#define SMALL_BYTES 4096u
#define SMALL_COUNT 4096u
#define SMALL_BATCH 64u
#define ROUNDS_MAX  9u
#define IDLE_S      2

typedef struct {
    bench *b;
    cli_store store;
    uint8_t *from; /* [LARGE_COUNT][LARGE_BYTES] */
    uint8_t *to;   /* [LARGE_BYTES] */
    size_t rounds;
} bench_copy;

static int mem_failed(const bench_copy *m, const char *what, sky_status status) {
    return cli_failed(m->b->c, "%s: %s: %s", m->b->suite, what, sky_status_text(status));
}

static uint8_t *mem_source(const bench_copy *m, uint32_t i) {
    return m->from + (size_t)i * LARGE_BYTES;
}

/* Seconds of one operation on key i; negative when it failed. */
static double time_one(const bench_copy *m, sky_op op, uint64_t i, sky_span span,
                       sky_status *status) {
    sky_item item = {.key = bench_key(i), .spans = &span, .span_count = 1};
    sky_time start = sky_now();
    *status = cli_one(&m->store, op, &item, NULL);
    double seconds = bench_seconds(start);
    if (op == SKY_OP_LEASE && *status == SKY_OK)
        sky_release(m->store.cache, item.lease);
    return seconds;
}

/* Seconds of a memcpy of value i: for a get out of the tier, else out of our own memory. */
static double time_memcpy(const bench_copy *m, sky_op op, uint32_t i, sky_status *status) {
    sky_item lent = {.key = bench_key(i), .view = {mem_source(m, i), LARGE_BYTES}};
    *status = op == SKY_OP_GET ? cli_one(&m->store, SKY_OP_LEASE, &lent, NULL) : SKY_OK;
    if (*status != SKY_OK)
        return -1;
    sky_time start = sky_now();
    memcpy(m->to, lent.view.data, LARGE_BYTES);
    double seconds = bench_seconds(start);
    sky_release(m->store.cache, lent.lease);
    return seconds;
}

/* One operation on every large value, in turns with memcpy of as many bytes. */
static int mem_large(const bench_copy *m, sky_op op, const char *name) {
    double ours[ROUNDS_MAX * LARGE_COUNT], theirs[ROUNDS_MAX * LARGE_COUNT];
    size_t samples = 0;
    for (size_t round = 0; round < m->rounds; round++) {
        for (uint32_t i = 0; i < LARGE_COUNT; i++, samples++) {
            uint8_t *data = op == SKY_OP_PUT ? mem_source(m, i) : m->to;
            sky_status status;
            double seconds = time_one(m, op, i, (sky_span){data, LARGE_BYTES}, &status);
            if (status != SKY_OK)
                return mem_failed(m, name, status);
            ours[samples] = LARGE_BYTES / seconds / 1e9;
            seconds = time_memcpy(m, op, (i + LARGE_COUNT / 2) % LARGE_COUNT, &status);
            if (status != SKY_OK)
                return mem_failed(m, "lease", status);
            theirs[samples] = LARGE_BYTES / seconds / 1e9;
        }
    }
    return bench_row(m->b, name, cli_median(ours, samples), "GB/s", "memcpy",
                     cli_median(theirs, samples));
}

static int mem_lease(const bench_copy *m) {
    double rates[ROUNDS_MAX * LARGE_COUNT];
    size_t samples = 0;
    for (size_t round = 0; round < m->rounds; round++) {
        for (uint32_t i = 0; i < LARGE_COUNT; i++) {
            sky_status status;
            double seconds = time_one(m, SKY_OP_LEASE, i, (sky_span){NULL, 0}, &status);
            if (status != SKY_OK)
                return mem_failed(m, "lease", status);
            rates[samples++] = 1 / seconds / 1e3;
        }
    }
    return bench_row(m->b, "lease 8 MiB", cli_median(rates, samples), "k/s", NULL, 0);
}

/* Thousands of small operations a second, `batch` in each call. */
static int mem_small(const bench_copy *m, sky_op op, size_t batch, const char *name) {
    sky_item items[SMALL_BATCH];
    sky_span spans[SMALL_BATCH];
    double rates[ROUNDS_MAX];
    for (size_t round = 0; round < m->rounds; round++) {
        double seconds = 0;
        for (uint32_t i = 0; i < SMALL_COUNT; i += (uint32_t)batch) {
            for (size_t k = 0; k < batch; k++) {
                spans[k] = (sky_span){m->to + k * SMALL_BYTES, SMALL_BYTES};
                items[k] = (sky_item){
                    .key = bench_key(1000 + i + k), .spans = &spans[k], .span_count = 1};
            }
            sky_time start = sky_now();
            sky_status status = sky_run(m->store.cache, op, items, batch, NULL);
            seconds += bench_seconds(start);
            for (size_t k = 0; k < batch && status == SKY_OK; k++)
                status = items[k].status;
            if (status != SKY_OK)
                return mem_failed(m, name, status);
        }
        rates[round] = SMALL_COUNT / seconds / 1e3;
    }
    return bench_row(m->b, name, cli_median(rates, m->rounds), "k/s", NULL, 0);
}

static double resident_mib(void) {
    long pages = 0, skip;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%ld %ld", &skip, &pages) != 2)
        pages = 0;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static double cpu_ms(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* A cache of memory and disk, full and left alone: memory beyond the memory tier, processor
 * time. */
static int mem_idle(bench *b, const char *folder) {
    enum { TIER_MIB = 64 };
    char disk[4200];
    snprintf(disk, sizeof disk, "disk:%s?max=256MiB", folder);
    const char *const urls[] = {"mem:64MiB", disk};
    void *value = bench_memory(b->c, LARGE_BYTES);
    double before = resident_mib();
    cli_store store = {0};
    int code = value ? cli_store_open_urls(b->c, urls, 2, &store) : CLI_FAILED;
    for (uint64_t i = 0; i < TIER_MIB / 8 && code == CLI_OK; i++) {
        sky_span span = {value, LARGE_BYTES};
        sky_item item = {.key = bench_key(i), .spans = &span, .span_count = 1};
        sky_status status = cli_one(&store, SKY_OP_PUT, &item, NULL);
        if (status != SKY_OK)
            code = cli_failed(b->c, "mem: idle: %s", sky_status_text(status));
    }
    if (code == CLI_OK) {
        sky_flush(store.cache, sky_now() + SKY_SECONDS(60), NULL);
        double beyond = resident_mib() - before - TIER_MIB, busy = cpu_ms();
        nanosleep(&(struct timespec){IDLE_S, 0}, NULL);
        busy = cpu_ms() - busy;
        code = bench_row(b, "idle memory beyond the tiers", beyond > 0 ? beyond : 0, "MiB", NULL,
                         0);
        if (code == CLI_OK)
            code = bench_row(b, "idle processor time of 2 s", busy, "ms", NULL, 0);
    }
    cli_store_close(&store);
    free(value);
    return code;
}

int bench_copies(bench *b, const char *url) {
    bench_copy m = {.b = b, .rounds = b->quick ? 3 : ROUNDS_MAX};
    int code = cli_store_open_urls(b->c, &url, 1, &m.store);
    m.from = code == CLI_OK ? bench_memory(b->c, (size_t)LARGE_COUNT * LARGE_BYTES) : NULL;
    m.to = m.from ? bench_memory(b->c, LARGE_BYTES) : NULL;
    if (!m.to)
        code = CLI_FAILED;
    sky_status status;
    for (uint32_t i = 0; i < 2 * LARGE_COUNT && code == CLI_OK; i++) /* touches the tier's memory */
        time_one(&m, SKY_OP_PUT, i % LARGE_COUNT,
                 (sky_span){mem_source(&m, i % LARGE_COUNT), LARGE_BYTES}, &status);
    if (code == CLI_OK)
        code = mem_large(&m, SKY_OP_GET, "get 8 MiB");
    if (code == CLI_OK)
        code = mem_large(&m, SKY_OP_PUT, "put 8 MiB");
    if (code == CLI_OK)
        code = mem_lease(&m);
    if (code == CLI_OK)
        code = mem_small(&m, SKY_OP_PUT, 1, "put 4 KiB");
    if (code == CLI_OK)
        code = mem_small(&m, SKY_OP_GET, 1, "get 4 KiB");
    if (code == CLI_OK)
        code = mem_small(&m, SKY_OP_GET, SMALL_BATCH, "get 4 KiB, 64 a batch");
    if (code == CLI_OK && strncmp(url, "mem:", 4) == 0)
        code = bench_mem_threads(b, &m.store);
    cli_store_close(&m.store);
    free(m.from);
    free(m.to);
    return code;
}

int bench_mem(bench *b) {
    char folder[4096];
    int code = cli_scratch_make(b->c, NULL, "bench", folder, sizeof folder);
    if (code == CLI_OK)
        code = mem_idle(b, folder); /* first: later there would be memory to take again */
    cli_scratch_remove(folder);
    return code == CLI_OK ? bench_copies(b, "mem:256MiB") : code;
}
