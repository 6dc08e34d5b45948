/* Blocks in a client's own memory, published by one connection to a host and read by another. A
 * block is 8 MiB in 64 buffers that do not touch, as an engine's layers have them. All memory is
 * touched before anything is timed. */
#include "bench.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <skymem/blob.h>

#define LAYERS       32u
#define BUFFERS      (2 * LAYERS) /* of a block: K and V of each layer */
#define BUFFER_BYTES (128u << 10)
#define BLOCK_BYTES  ((uint64_t)BUFFERS * BUFFER_BYTES)
#define BLOCKS       8u /* so that no copy finds its source in a processor's cache */
#define STRIDE       (BUFFER_BYTES + 4096u)
#define ROUNDS_MAX   16u
#define GETS_MAX     4000u
#define PAUSES_MAX   200u
#define PAUSE_NS     2000000 /* far longer than a host looks before it sleeps */
#define PATIENCE     SKY_SECONDS(10)

typedef struct {
    bench *b;
    sky_blob *owner, *reader;
    uint8_t *to; /* [BLOCK_BYTES] */
    uint64_t offsets[BLOCKS][BUFFERS], sizes[BUFFERS];
    size_t rounds;
} bench_blocks;

static sky_block_layout layout_of(const bench_blocks *m, uint32_t i) {
    return (sky_block_layout){
        .key = bench_key(i), .shape = {LAYERS, 2, 1}, .offsets = m->offsets[i], .sizes = m->sizes};
}

static int row_or_failed(const bench_blocks *m, const char *name, sky_status status, double value,
                         const char *unit, const char *ref, double ref_value) {
    if (status != SKY_OK)
        return cli_failed(m->b->c, "shm: %s: %s", name, sky_status_text(status));
    return bench_row(m->b, name, value, unit, ref, ref_value);
}

/* GB/s of a memcpy of some of a block's buffers. */
static double copy_rate(const bench_blocks *m, uint32_t i, uint32_t first, uint32_t count) {
    const uint8_t *memory = sky_blob_memory(m->owner);
    sky_time start = sky_now();
    for (uint32_t k = 0; k < count; k++)
        memcpy(m->to + (size_t)k * BUFFER_BYTES, memory + m->offsets[i][first + k], BUFFER_BYTES);
    return (double)count * BUFFER_BYTES / bench_seconds(start) / 1e9;
}

/* Publish all blocks, some rounds of them; those of the last stay. */
static int put_row(const bench_blocks *m) {
    double ours[ROUNDS_MAX * BLOCKS], theirs[ROUNDS_MAX * BLOCKS];
    size_t samples = 0;
    sky_status status = SKY_OK;
    for (size_t round = 0; round < m->rounds && status == SKY_OK; round++)
        for (uint32_t i = 0; i < BLOCKS && status == SKY_OK; i++, samples++) {
            const sky_block_layout l = layout_of(m, i);
            if (round > 0)
                status = sky_block_remove(m->owner, &l.key, sky_now() + PATIENCE);
            sky_time start = sky_now();
            if (status == SKY_OK)
                status = sky_block_put(m->owner, &l, 1, start + PATIENCE, NULL);
            ours[samples] = BLOCK_BYTES / bench_seconds(start) / 1e9;
            theirs[samples] = copy_rate(m, (i + BLOCKS / 2) % BLOCKS, 0, BUFFERS);
        }
    return row_or_failed(m, "put 8 MiB of own memory", status, cli_median(ours, samples), "GB/s",
                         "memcpy", cli_median(theirs, samples));
}

/* ---- what a wake-up takes ---- */

/* A process that sleeps in poll, and says in shared memory that it is awake. */
typedef struct {
    pid_t pid;
    int socket;
    _Atomic uint32_t *answers;
} bench_sleeper;

static _Noreturn void sleep_and_answer(int socket, _Atomic uint32_t *answers) {
    struct pollfd there = {.fd = socket, .events = POLLIN};
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (poll(&there, 1, -1) == 1 && read(socket, &byte, 1) == 1)
        atomic_fetch_add(answers, 1);
    _exit(0);
}

static bool sleeper_start(bench_sleeper *s) {
    int ends[2];
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    *s = (bench_sleeper){.pid = fork(), .socket = ends[0], .answers = memory};
    if (s->pid == 0) {
        close(ends[0]);
        sleep_and_answer(ends[1], s->answers);
    }
    close(ends[1]);
    return s->pid > 0;
}

static double sleeper_us(const bench_sleeper *s) {
    const uint32_t before = atomic_load(s->answers);
    sky_time start = sky_now();
    bool sent = write(s->socket, "", 1) == 1;
    while (sent && atomic_load(s->answers) == before && sky_now() < start + PATIENCE)
        ;
    return 1e6 * bench_seconds(start);
}

static void sleeper_stop(bench_sleeper *s) {
    close(s->socket); /* which ends it */
    waitpid(s->pid, NULL, 0);
    munmap((void *)(uintptr_t)s->answers, 4096);
}

/* ---- gets ---- */

/* Open a block, find all its buffers, release it: microseconds until they are found. */
static sky_status get_mapped(const bench_blocks *m, uint32_t i, double *us) {
    const sky_key key = bench_key(i);
    sky_block *block = NULL;
    sky_span span;
    sky_time start = sky_now();
    sky_status status = sky_block_get(m->reader, &key, start + PATIENCE, &block);
    for (uint32_t k = 0; k < BUFFERS && status == SKY_OK; k++)
        status = sky_block_view(block, k / 2, k % 2, 0, &span);
    *us = 1e6 * bench_seconds(start);
    sky_block_release(block);
    return status;
}

static int awake_row(const bench_blocks *m) {
    static double us[GETS_MAX];
    const size_t count = m->b->quick ? 500 : GETS_MAX;
    sky_status status = SKY_OK;
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        status = get_mapped(m, (uint32_t)(i % BLOCKS), &us[i]);
    return row_or_failed(m, "mapped get 8 MiB of own memory, both awake", status,
                         cli_median(us, count), "us", NULL, 0);
}

/* Get after the host fell asleep, in turns with waking another process. */
static int pause_row(const bench_blocks *m) {
    double us[PAUSES_MAX], bare[PAUSES_MAX];
    const size_t count = m->b->quick ? 20 : PAUSES_MAX;
    const struct timespec pause = {0, PAUSE_NS};
    bench_sleeper sleeper;
    if (!sleeper_start(&sleeper))
        return cli_failed(m->b->c, "shm: no process to wake");
    sky_status status = SKY_OK;
    for (size_t i = 0; i < count && status == SKY_OK; i++) {
        nanosleep(&pause, NULL);
        status = get_mapped(m, (uint32_t)(i % BLOCKS), &us[i]);
        nanosleep(&pause, NULL);
        bare[i] = sleeper_us(&sleeper);
    }
    sleeper_stop(&sleeper);
    return row_or_failed(m, "mapped get 8 MiB of own memory, after a pause", status,
                         cli_median(us, count), "us", "a wake-up", cli_median(bare, count));
}

/* GB/s of a copy of all of a block, with its open and release, or of one layer once it is open. */
static sky_status get_copied(const bench_blocks *m, uint32_t i, uint32_t layer, double *rate) {
    const uint64_t bytes = layer == SKY_BLOCK_ALL ? BLOCK_BYTES : BLOCK_BYTES / LAYERS;
    const sky_span span = {m->to, bytes};
    const sky_key key = bench_key(i);
    sky_block *block = NULL;
    sky_time start = sky_now();
    sky_status status = sky_block_get(m->reader, &key, start + PATIENCE, &block);
    if (layer != SKY_BLOCK_ALL)
        start = sky_now();
    if (status == SKY_OK)
        status = sky_block_read(block, layer, &span, 1);
    *rate = (double)bytes / bench_seconds(start) / 1e9;
    sky_block_release(block);
    return status;
}

static int copied_row(const bench_blocks *m, const char *name, bool one_layer) {
    double ours[ROUNDS_MAX * BLOCKS], theirs[ROUNDS_MAX * BLOCKS];
    size_t samples = 0;
    sky_status status = SKY_OK;
    for (uint32_t round = 0; round < m->rounds; round++)
        for (uint32_t i = 0; i < BLOCKS && status == SKY_OK; i++, samples++) {
            const uint32_t layer = one_layer ? round % LAYERS : 0,
                           other = (i + BLOCKS / 2) % BLOCKS;
            status = get_copied(m, i, one_layer ? layer : SKY_BLOCK_ALL, &ours[samples]);
            theirs[samples] = copy_rate(m, other, 2 * layer, one_layer ? 2 : BUFFERS);
        }
    return row_or_failed(m, name, status, cli_median(ours, samples), "GB/s", "memcpy",
                         cli_median(theirs, samples));
}

static int open_blobs(bench_blocks *m, const char *url) {
    const sky_blob_options o = {.struct_bytes = sizeof o,
                                .bytes = (uint64_t)BLOCKS * BUFFERS * STRIDE};
    sky_error error = {0};
    if (sky_blob_open(url, &o, &m->owner, &error) != SKY_OK ||
        sky_blob_open(url, NULL, &m->reader, &error) != SKY_OK)
        return cli_failed(m->b->c, "shm: %s", error.text);
    memset(sky_blob_memory(m->owner), 0x5a, o.bytes);
    for (uint32_t k = 0; k < BUFFERS; k++)
        m->sizes[k] = BUFFER_BYTES;
    for (uint32_t i = 0; i < BLOCKS; i++)
        for (uint32_t k = 0; k < BUFFERS; k++) /* layers of a block lie far from each other */
            m->offsets[i][k] = ((uint64_t)k * BLOCKS + i) * STRIDE;
    m->to = bench_memory(m->b->c, BLOCK_BYTES);
    return m->to ? CLI_OK : CLI_FAILED;
}

int bench_shm_blocks(bench *b, const char *url) {
    static bench_blocks m;
    m = (bench_blocks){.b = b, .rounds = b->quick ? 2 : ROUNDS_MAX};
    int code = open_blobs(&m, url);
    if (code == CLI_OK)
        code = put_row(&m);
    if (code == CLI_OK)
        code = awake_row(&m);
    if (code == CLI_OK)
        code = pause_row(&m);
    if (code == CLI_OK)
        code = copied_row(&m, "copied get 8 MiB of own memory", false);
    if (code == CLI_OK)
        code = copied_row(&m, "copy of one layer of 32 of it", true);
    sky_blob_close(m.reader);
    sky_blob_close(m.owner);
    free(m.to);
    return code;
}
