/* LMDB as a store: one transaction a put, which ends with a sync. A get copies out of the map, as
 * the others copy. */
#include "stores.h"

#include <string.h>

#ifdef SKYMEM_BENCH_LMDB
#include <assert.h>
#include <lmdb.h>

#define MAP_BYTES (UINT64_C(8) << 30)

typedef struct {
    MDB_env *env;
    MDB_dbi table;
} lmdb_state;

static_assert(sizeof(lmdb_state) <= sizeof((bench_store){0}.state), "it lies in the store");

static lmdb_state *state_of(bench_store *s) {
    return (lmdb_state *)(void *)s->state;
}

static void lmdb_close(bench_store *s) {
    mdb_env_close(state_of(s)->env);
    state_of(s)->env = NULL;
}

static bool lmdb_open(bench_store *s, const char *folder) {
    lmdb_state *l = state_of(s);
    MDB_txn *txn = NULL;
    if (mdb_env_create(&l->env) != 0)
        return false;
    bool opened = mdb_env_set_mapsize(l->env, MAP_BYTES) == 0 &&
                  mdb_env_open(l->env, folder, 0, 0600) == 0 &&
                  mdb_txn_begin(l->env, NULL, 0, &txn) == 0 &&
                  mdb_dbi_open(txn, NULL, 0, &l->table) == 0 && mdb_txn_commit(txn) == 0;
    if (!opened)
        lmdb_close(s);
    return opened;
}

static bool lmdb_put(bench_store *s, uint32_t number, const void *data, size_t bytes) {
    sky_key id = bench_key(number);
    MDB_val key = {sizeof id, &id}, value = {bytes, (void *)(uintptr_t)data};
    MDB_txn *txn;
    if (mdb_txn_begin(state_of(s)->env, NULL, 0, &txn) != 0)
        return false;
    if (mdb_put(txn, state_of(s)->table, &key, &value, 0) == 0)
        return mdb_txn_commit(txn) == 0;
    mdb_txn_abort(txn);
    return false;
}

static bool lmdb_get(bench_store *s, uint32_t number, void *data, size_t bytes) {
    sky_key id = bench_key(number);
    MDB_val key = {sizeof id, &id}, value;
    MDB_txn *txn;
    if (mdb_txn_begin(state_of(s)->env, NULL, MDB_RDONLY, &txn) != 0)
        return false;
    bool found = mdb_get(txn, state_of(s)->table, &key, &value) == 0 && value.mv_size == bytes;
    if (found)
        memcpy(data, value.mv_data, bytes);
    mdb_txn_abort(txn);
    return found;
}

bool bench_store_lmdb(bench_store *out) {
    *out = (bench_store){
        .name = "LMDB", .open = lmdb_open, .put = lmdb_put, .get = lmdb_get, .close = lmdb_close};
    return true;
}
#else
bool bench_store_lmdb(bench_store *out) {
    *out = (bench_store){.name = "LMDB"};
    return false;
}
#endif
