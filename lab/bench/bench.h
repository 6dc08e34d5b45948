/* Measuring: rows {bench case value unit ref ref_value ratio}; `ref` names the limit or the peer
 * that was measured in the same run, turn and turn about, because machines drift. */
#ifndef SKYMEM_LAB_BENCH_H
#define SKYMEM_LAB_BENCH_H

#include "cli.h"

typedef struct {
    cli *c;
    bool quick;
    const char *suite;
    cli_table table;
} bench;

/* ref NULL: there is nothing to compare with. */
int bench_row(bench *b, const char *name, double value, const char *unit, const char *ref,
              double ref_value);

/* Each suite says why when it fails. */
int bench_index(bench *b);
int bench_mem(bench *b);
int bench_shm(bench *b);
int bench_peer(bench *b);
int bench_disk(bench *b);
int bench_net(bench *b);
int bench_codec(bench *b);
int bench_sim(bench *b);
int bench_sky(bench *b);
int bench_stream(bench *b);
int bench_overlap(bench *b);
int bench_policies(bench *b);

/* Copies into and out of one tier, against memcpy; of mem also by two threads. */
int bench_copies(bench *b, const char *url);
/* Part of shm: blocks in a client's own memory. */
int bench_shm_blocks(bench *b, const char *url);
/* Part of shm: a prompt's blocks side by side. */
int bench_shm_ranges(bench *b, const char *url);
/* Part of mem: hits by one thread and by two. */
int bench_mem_threads(bench *b, const cli_store *store);

double bench_seconds(sky_time since);
/* Memory with every page touched; NULL and a message when there is none. */
void *bench_memory(const cli *c, size_t bytes);
/* Key number i, and bytes that no two values share. */
sky_key bench_key(uint64_t i);
uint64_t bench_mix(uint64_t x);
/* About normal, of mean 0 and deviation 1, the same for the same seed. */
float bench_normal(uint64_t seed);
/* f16 of an ordinary number, cut off: good enough for made-up rows. */
uint16_t bench_half(float x);

/* What fio measures with the same folder, block size, depth and direct flag. */
typedef struct {
    const char *folder;
    uint32_t files;
    uint64_t file_bytes;
    uint32_t block_bytes;
    uint32_t depth;
    bool direct;
    bool io_uring;
    bool write; /* each file synced when closed */
} bench_fio;
/* Bytes a second; 0: fio is not there or failed. */
double bench_fio_run(const bench_fio *f);

#endif
