/* A clock that is turned on: loaded before libc, so that slowness can be shown without waiting.
 *
 * The monotonic clock goes on by an hour at the first long llama_decode, as if it had taken so
 * long. With DEMO_CLOCK_GROWS it goes on at each, by n x n hours at the n-th. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static _Atomic int64_t turned_s;
static _Atomic int64_t computed;

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

int clock_gettime(clockid_t id, struct timespec *to) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))next("clock_gettime");
    int result = real(id, to);
    if (id == CLOCK_MONOTONIC)
        to->tv_sec += turned_s;
    return result;
}

#define LONG_TOKENS_LEAST 256 /* trials before the first prompt are shorter */

/* llama_batch, by value: as large as llama.h has it. */
struct batch {
    int32_t token_count;
    void *arrays[6];
};

int32_t llama_decode(void *context, struct batch batch) {
    if (batch.token_count >= LONG_TOKENS_LEAST) {
        int64_t n = ++computed;
        turned_s += getenv("DEMO_CLOCK_GROWS") ? 3600 * n * n : n == 1 ? 3600 : 0;
    }
    return ((int32_t(*)(void *, struct batch))next("llama_decode"))(context, batch);
}
