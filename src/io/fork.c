#include "io/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROPPED_MAX 512

static _Atomic uint64_t forks;
static sky_status watching;

/* What children drop. A number may be another file by now, if its owner closed it unheard. */
static struct {
    _Atomic int place; /* the descriptor + 1; 0: free; -1: being filled in */
    ino_t inode;
} dropped[DROPPED_MAX];

/* Its number stays taken: nothing that is opened later is mistaken for it. Only calls that a child
 * of several threads may make. */
static void drop_in_child(size_t i, int null) {
    int fd = atomic_load(&dropped[i].place) - 1;
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == dropped[i].inode)
        (void)dup3(null, fd, O_CLOEXEC);
    atomic_store(&dropped[i].place, 0);
}

static void count_child(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; null >= 0 && i < DROPPED_MAX; i++)
        drop_in_child(i, null);
    if (null >= 0)
        close(null);
}

void sky_fork_drop(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    for (size_t i = 0; i < DROPPED_MAX; i++) {
        int none = 0;
        if (!atomic_compare_exchange_strong(&dropped[i].place, &none, -1))
            continue;
        dropped[i].inode = st.st_ino;
        atomic_store(&dropped[i].place, fd + 1);
        return;
    }
}

void sky_fork_keep(int fd) {
    for (size_t i = 0; fd >= 0 && i < DROPPED_MAX; i++) {
        int there = fd + 1;
        if (atomic_compare_exchange_strong(&dropped[i].place, &there, 0))
            return;
    }
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
