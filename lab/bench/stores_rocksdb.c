/* RocksDB as a store: values in blob files, each put synced, nothing compressed. */
#include "stores.h"

#include <string.h>

#ifdef SKYMEM_BENCH_ROCKSDB
#include <rocksdb/c.h>

static void rocksdb_finish(bench_store *s) {
    rocksdb_close(s->state[0]);
    s->state[0] = NULL;
}

static bool went_well(char *error) {
    rocksdb_free(error);
    return !error;
}

static bool rocksdb_begin(bench_store *s, const char *folder) {
    char *error = NULL;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_enable_blob_files(options, 1);
    s->state[0] = rocksdb_open(options, folder, &error);
    rocksdb_options_destroy(options);
    return went_well(error);
}

static bool rocksdb_store(bench_store *s, uint32_t number, const void *data, size_t bytes) {
    char *error = NULL;
    sky_key key = bench_key(number);
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(options, 1);
    rocksdb_put(s->state[0], options, (const char *)key.bytes, sizeof key, data, bytes, &error);
    rocksdb_writeoptions_destroy(options);
    return went_well(error);
}

static bool rocksdb_load(bench_store *s, uint32_t number, void *data, size_t bytes) {
    char *error = NULL;
    sky_key key = bench_key(number);
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(
        s->state[0], options, (const char *)key.bytes, sizeof key, &error);
    size_t got = 0;
    const char *value = slice ? rocksdb_pinnableslice_value(slice, &got) : NULL;
    if (value && got == bytes)
        memcpy(data, value, bytes);
    rocksdb_pinnableslice_destroy(slice);
    rocksdb_readoptions_destroy(options);
    return went_well(error) && got == bytes;
}

bool bench_store_rocksdb(bench_store *out) {
    *out = (bench_store){.name = "RocksDB",
                         .open = rocksdb_begin,
                         .put = rocksdb_store,
                         .get = rocksdb_load,
                         .close = rocksdb_finish};
    return true;
}
#else
bool bench_store_rocksdb(bench_store *out) {
    *out = (bench_store){.name = "RocksDB"};
    return false;
}
#endif
