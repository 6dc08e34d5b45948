#include "io/fork.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t forks;
static sky_status watching;

static void count_child(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void) {
    watching = pthread_atfork(NULL, NULL, count_child) == 0 ? SKY_OK : SKY_E_NOMEM;
}

uint64_t sky_forks(void) {
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

sky_status sky_forks_watch(uint64_t *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    *out = sky_forks();
    return watching;
}
