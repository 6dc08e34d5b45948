/* What keeps values on a disk, each behind the same few calls: the disk tier, plain files, and the
 * stores that were installed when the program was built. */
#ifndef SKYMEM_CLI_BENCH_STORES_H
#define SKYMEM_CLI_BENCH_STORES_H

#include "bench.h"

typedef struct bench_store bench_store;
struct bench_store {
    const char *name;
    /* In an empty folder, or in one that the same store left. */
    bool (*open)(bench_store *s, const char *folder);
    /* The value is durable when this returns. */
    bool (*put)(bench_store *s, uint32_t number, const void *data, size_t bytes);
    bool (*get)(bench_store *s, uint32_t number, void *data, size_t bytes);
    void (*close)(bench_store *s);
    /* The store's own. */
    char folder[4200];
    void *state[2];
};

/* Each is absent (false) when its package was not there at the build. */
bool bench_store_plain(bench_store *out);
bool bench_store_lmdb(bench_store *out);
bool bench_store_rocksdb(bench_store *out);

/* Rows of the disk tier and of all stores, against plain files. `folder` is empty; `data` holds
 * `bytes` bytes that no two values share. */
int bench_stores(bench *b, const char *folder, const uint8_t *data, size_t bytes);

/* Write out what is in flight on the file system of `folder`, and drop the pages of its files. */
void bench_settle(const char *folder);
void bench_drop_pages(const char *folder);

#endif
