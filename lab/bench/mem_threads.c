/* Hits of the memory tier by one thread and by two, against memcpy by as many.
 *
 * Each thread has a destination of its own and goes through the same values, each beginning at
 * another one. memcpy copies the same values, lent by the tier beforehand, to the same places. A
 * round is short and the best of many counts: other programs disturb two threads more than one. */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 2u
#define BATCH_MAX   64u
#define FIRST_KEY   100000u

/* What is read: `count` values of value_bytes, `batch` in each call. */
typedef struct {
    const char *name;
    size_t value_bytes;
    uint32_t count;
    uint32_t batch;
    uint32_t passes; /* over all values in a round */
} workload;

typedef struct {
    const workload *work;
    sky_cache *cache;
    const sky_span *lent; /* [count] */
    bool plain;           /* memcpy */
    uint32_t threads;
    pthread_barrier_t begin;
} round_of_reads;

typedef struct {
    round_of_reads *of;
    uint32_t number;
    uint8_t *to; /* [batch][value_bytes] */
    sky_time start;
    sky_time end;
    sky_status status;
} reader;

static void copy_some(const reader *r, uint32_t first) {
    const workload *w = r->of->work;
    for (uint32_t k = 0; k < w->batch; k++)
        memcpy(r->to + k * w->value_bytes, r->of->lent[(first + k) % w->count].data,
               w->value_bytes);
}

static sky_status get_some(const reader *r, uint32_t first) {
    const workload *w = r->of->work;
    sky_item items[BATCH_MAX];
    sky_span spans[BATCH_MAX];
    for (uint32_t k = 0; k < w->batch; k++) {
        spans[k] = (sky_span){r->to + k * w->value_bytes, w->value_bytes};
        items[k] = (sky_item){.key = bench_key(FIRST_KEY + (first + k) % w->count),
                              .spans = &spans[k],
                              .span_count = 1};
    }
    sky_status status = sky_run(r->of->cache, SKY_OP_GET, items, w->batch, NULL);
    for (uint32_t k = 0; k < w->batch && status == SKY_OK; k++)
        status = items[k].status;
    return status;
}

static void *read_round(void *argument) {
    reader *r = argument;
    const workload *w = r->of->work;
    uint32_t at = r->number * (w->count / THREADS_MAX), calls = w->count * w->passes / w->batch;
    sky_status status = SKY_OK; /* not in *r: both readers lie in one cache line */
    pthread_barrier_wait(&r->of->begin);
    r->start = sky_now();
    for (uint32_t i = 0; i < calls && status == SKY_OK; i++, at += w->batch) {
        if (r->of->plain)
            copy_some(r, at);
        else
            status = get_some(r, at);
    }
    r->end = sky_now();
    r->status = status;
    return NULL;
}

/* Values a second; 0: a thread could not run or a read failed. */
static double rate_of_round(round_of_reads *o, uint8_t *const to[THREADS_MAX]) {
    reader readers[THREADS_MAX];
    pthread_t other;
    for (uint32_t n = 0; n < THREADS_MAX; n++)
        readers[n] = (reader){.of = o, .number = n, .to = to[n]};
    if (pthread_barrier_init(&o->begin, NULL, o->threads) != 0)
        return 0;
    bool running = o->threads == 1 || pthread_create(&other, NULL, read_round, &readers[1]) == 0;
    if (running)
        read_round(&readers[0]);
    if (running && o->threads == 2)
        pthread_join(other, NULL);
    pthread_barrier_destroy(&o->begin);
    sky_time start = readers[0].start, end = readers[0].end;
    for (uint32_t n = 1; n < o->threads; n++) {
        start = readers[n].start < start ? readers[n].start : start;
        end = readers[n].end > end ? readers[n].end : end;
    }
    if (!running || readers[0].status != SKY_OK || readers[1].status != SKY_OK)
        return 0;
    const workload *w = o->work;
    return (double)w->count * w->passes * o->threads / ((double)(end - start) / 1e9);
}

/* Rounds of gets and of memcpy by turns, by one thread and by two. */
static int read_all(bench *b, round_of_reads *o, uint8_t *const to[THREADS_MAX]) {
    double best[THREADS_MAX][2] = {{0}};
    uint32_t rounds = b->quick ? 9 : 101;
    for (uint32_t i = 0; i < rounds * 2 * THREADS_MAX; i++) {
        uint32_t threads = 1 + i / 2 % THREADS_MAX;
        o->plain = i % 2;
        o->threads = threads;
        double rate = rate_of_round(o, to), *most = &best[threads - 1][i % 2];
        if (rate == 0)
            return cli_failed(b->c, "mem: %s: a thread could not run, or a read failed",
                              o->work->name);
        *most = rate > *most ? rate : *most;
    }
    int code = CLI_OK;
    bool large = o->work->value_bytes >= 1u << 20;
    double unit = large ? (double)o->work->value_bytes / 1e9 : 1e-3;
    for (uint32_t t = 0; t < THREADS_MAX && code == CLI_OK; t++) {
        char name[64];
        snprintf(name, sizeof name, "get %s, %s", o->work->name,
                 t == 0 ? "one thread" : "two threads");
        code = bench_row(b, name, best[t][0] * unit, large ? "GB/s" : "k/s", "memcpy",
                         best[t][1] * unit);
    }
    return code;
}

/* Put the values, and borrow them: memcpy is to read them where they lie. */
static sky_status mem_threads_fill(const cli_store *store, const workload *w, const uint8_t *value,
                                   sky_lease *leases, sky_span *lent) {
    const sky_span span = {(void *)(uintptr_t)value, w->value_bytes};
    for (uint32_t i = 0; i < w->count; i++) {
        sky_item item = {.key = bench_key(FIRST_KEY + i), .spans = &span, .span_count = 1};
        sky_status status = cli_one(store, SKY_OP_PUT, &item, NULL);
        if (status == SKY_OK)
            status = cli_one(store, SKY_OP_LEASE, &item, NULL);
        if (status != SKY_OK)
            return status;
        leases[i] = item.lease;
        lent[i] = item.view;
    }
    return SKY_OK;
}

static int run_workload(bench *b, const cli_store *store, const workload *w) {
    size_t room = w->batch * w->value_bytes;
    sky_span *lent = calloc(w->count, sizeof *lent);
    sky_lease *leases = calloc(w->count, sizeof *leases);
    uint8_t *to[THREADS_MAX] = {bench_memory(b->c, room), bench_memory(b->c, room)};
    int code = CLI_FAILED;
    if (lent && leases && to[0] && to[1]) {
        sky_status status = mem_threads_fill(store, w, to[0], leases, lent);
        round_of_reads o = {.work = w, .cache = store->cache, .lent = lent};
        code = status == SKY_OK ? read_all(b, &o, to)
                                : cli_failed(b->c, "mem: %s: %s", w->name, sky_status_text(status));
    }
    for (uint32_t i = 0; leases && i < w->count; i++)
        sky_release(store->cache, leases[i]);
    for (uint32_t n = 0; n < THREADS_MAX; n++)
        free(to[n]);
    free(leases);
    free(lent);
    return code;
}

int bench_mem_threads(bench *b, const cli_store *store) {
    static const workload workloads[] = {{"4 KiB", 4096, 4096, 1, 2},
                                         {"4 KiB, 64 a batch", 4096, 4096, BATCH_MAX, 2},
                                         {"8 MiB", 8u << 20, 16, 1, 1}};
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads && code == CLI_OK; i++)
        code = run_workload(b, store, &workloads[i]);
    return code;
}
