#include "io/sync.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static void must_succeed(int rc, const char *what) {
    if (rc == 0)
        return;
    fprintf(stderr, "skymem: %s failed with %d: a lock is misused\n", what, rc);
    abort();
}

static struct timespec timespec_of(sky_time ns) {
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

void sky_mutex_init(sky_mutex *m) {
    /* What is locked for less than a microsecond is waited for awake, before the kernel is asked.
     * */
    pthread_mutexattr_t kind;
    must_succeed(pthread_mutexattr_init(&kind), "pthread_mutexattr_init");
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
    must_succeed(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP),
                 "pthread_mutexattr_settype");
#endif
    must_succeed(pthread_mutex_init(&m->os, &kind), "pthread_mutex_init");
    must_succeed(pthread_mutexattr_destroy(&kind), "pthread_mutexattr_destroy");
}

void sky_mutex_deinit(sky_mutex *m) {
    must_succeed(pthread_mutex_destroy(&m->os), "pthread_mutex_destroy");
}

void sky_mutex_lock(sky_mutex *m) {
    must_succeed(pthread_mutex_lock(&m->os), "pthread_mutex_lock");
}

bool sky_mutex_try_lock(sky_mutex *m) {
    int rc = pthread_mutex_trylock(&m->os);
    if (rc != EBUSY)
        must_succeed(rc, "pthread_mutex_trylock");
    return rc == 0;
}

void sky_mutex_unlock(sky_mutex *m) {
    must_succeed(pthread_mutex_unlock(&m->os), "pthread_mutex_unlock");
}

void sky_condition_init(sky_condition *c) {
    pthread_condattr_t attributes;
    must_succeed(pthread_condattr_init(&attributes), "pthread_condattr_init");
    must_succeed(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC),
                 "pthread_condattr_setclock");
    must_succeed(pthread_cond_init(&c->os, &attributes), "pthread_cond_init");
    pthread_condattr_destroy(&attributes);
}

void sky_condition_deinit(sky_condition *c) {
    must_succeed(pthread_cond_destroy(&c->os), "pthread_cond_destroy");
}

bool sky_condition_wait(sky_condition *c, sky_mutex *m, sky_time until) {
    if (until == SKY_TIME_NEVER) {
        must_succeed(pthread_cond_wait(&c->os, &m->os), "pthread_cond_wait");
        return true;
    }
    struct timespec at = timespec_of(until > 0 ? until : 0);
    int rc = pthread_cond_timedwait(&c->os, &m->os, &at);
    must_succeed(rc == ETIMEDOUT ? 0 : rc, "pthread_cond_timedwait");
    return rc == 0;
}

void sky_condition_broadcast(sky_condition *c) {
    must_succeed(pthread_cond_broadcast(&c->os), "pthread_cond_broadcast");
}

sky_status sky_thread_start(sky_thread *t, const char *name, void *(*body)(void *),
                            void *argument) {
    sigset_t others, before;
    sigfillset(&others);
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]); /* what the thread itself does: a handler wants to see it */
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int rc = pthread_create(&t->os, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    t->running = rc == 0;
    if (rc != 0)
        return SKY_E_NOMEM;
    pthread_setname_np(t->os, name);
    return SKY_OK;
}

void sky_thread_join(sky_thread *t) {
    if (t->running)
        must_succeed(pthread_join(t->os, NULL), "pthread_join");
    t->running = false;
}

uint32_t sky_thread_number(void) {
    static _Atomic uint32_t given;
    static _Thread_local uint32_t number; /* plus one; 0: none yet */
    if (number == 0)
        number = atomic_fetch_add_explicit(&given, 1, memory_order_relaxed) + 1;
    return number - 1;
}

uint32_t sky_cpu_count(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

sky_status sky_event_create(int *fd) {
    int created = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (created < 0)
        return SKY_E_IO;
    *fd = created;
    return SKY_OK;
}

void sky_event_raise(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void sky_event_raise_foreign(int fd) {
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT))
        sky_event_raise(fd);
}

void sky_event_clear(int fd) {
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

void sky_event_close(int fd) {
    if (fd >= 0)
        close(fd);
}

bool sky_event_valid(int fd) {
    char link[32], target[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, target, sizeof target - 1);
    if (bytes > 0) {
        target[bytes] = '\0';
        return strcmp(target, "anon_inode:[eventfd]") == 0;
    }
    struct stat stat; /* no /proc: what has no file type is neither a file, pipe nor socket */
    return fstat(fd, &stat) == 0 && (stat.st_mode & S_IFMT) == 0;
}

static bool epoll_watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

sky_status sky_alarm_create(int inner, sky_alarm *out) {
    sky_alarm a = {epoll_create1(EPOLL_CLOEXEC),
                   timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    if (a.fd < 0 || a.timer < 0 || !epoll_watch(a.fd, inner) || !epoll_watch(a.fd, a.timer)) {
        sky_alarm_close(&a);
        return SKY_E_IO;
    }
    *out = a;
    return SKY_OK;
}

void sky_alarm_set(sky_alarm *a, sky_time at) {
    struct itimerspec spec = {0};
    if (at != SKY_TIME_NEVER)
        spec.it_value = timespec_of(at > 0 ? at : 1);
    timerfd_settime(a->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

void sky_alarm_close(sky_alarm *a) {
    if (a->timer >= 0)
        close(a->timer);
    if (a->fd >= 0)
        close(a->fd);
    a->fd = a->timer = -1;
}

uint32_t sky_poll(const int *fds, size_t fd_count, sky_time until) {
    struct pollfd polled[16];
    for (size_t i = 0; i < fd_count; i++)
        polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    for (;;) {
        struct timespec left, *limit = NULL;
        if (until != SKY_TIME_NEVER) {
            sky_time ns = until - sky_now();
            left = timespec_of(ns > 0 ? ns : 0);
            limit = &left;
        }
        int ready = ppoll(polled, fd_count, limit, NULL);
        if (ready >= 0)
            break;
        if (errno != EINTR)
            return 0;
    }
    uint32_t bits = 0;
    for (size_t i = 0; i < fd_count; i++)
        bits |= polled[i].revents ? 1u << i : 0;
    return bits;
}

bool sky_event_wait(int event, const int *others, size_t other_count, sky_idle_fn idle_until,
                    void *context) {
    int fds[16] = {event};
    assert(other_count < sizeof fds / sizeof *fds);
    for (size_t i = 0; i < other_count; i++)
        fds[1 + i] = others[i];
    sky_event_clear(event);
    sky_time until = idle_until(context);
    if (until != SKY_TIME_OVER)
        sky_poll(fds, 1 + other_count, until);
    return until != SKY_TIME_OVER;
}
