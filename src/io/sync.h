/* Threads, locks and wake-ups: thin, so that nobody outside src/io includes <pthread.h>.
 *
 * Locks never fail here: a misuse is a bug and aborts. */
#ifndef SKY_IO_SYNC_H
#define SKY_IO_SYNC_H

#include <pthread.h>

#include <skymem/types.h>

typedef struct {
    pthread_mutex_t os;
} sky_mutex;

typedef struct {
    pthread_cond_t os; /* on the monotonic clock */
} sky_condition;

typedef struct {
    pthread_t os;
    bool running;
} sky_thread;

#define SKY_MUTEX_INIT                                                                             \
    { PTHREAD_MUTEX_INITIALIZER } /* for one that is static */
void sky_mutex_init(sky_mutex *m);
void sky_mutex_deinit(sky_mutex *m);
void sky_mutex_lock(sky_mutex *m);
bool sky_mutex_try_lock(sky_mutex *m); /* false: another thread has it */
void sky_mutex_unlock(sky_mutex *m);

void sky_condition_init(sky_condition *c);
void sky_condition_deinit(sky_condition *c);
/* Wait until signalled or `until` (SKY_TIME_NEVER: no limit). False when the time passed. May wake
 * early. */
bool sky_condition_wait(sky_condition *c, sky_mutex *m, sky_time until);
void sky_condition_broadcast(sky_condition *c);

/* Signals are blocked in the new thread, but for those of its own faults. `name` shows in top, at
 * most 15 characters. Errors: SKY_E_NOMEM */
sky_status sky_thread_start(sky_thread *t, const char *name, void *(*body)(void *), void *argument);
/* Fine on one that never started. */
void sky_thread_join(sky_thread *t);

/* A number of the calling thread, the same as long as it lives: 0, 1, … in the order in which
 * threads first ask. */
uint32_t sky_thread_number(void);

/* Processors this process may run on, at least 1. */
uint32_t sky_cpu_count(void);

/* An event: a file descriptor that is readable from raise until it is cleared.
 * Errors: SKY_E_IO */
sky_status sky_event_create(int *fd);
void sky_event_raise(int fd);
/* The same for an event that somebody else created, and whose counter may be full: it is readable
 * then as it is, and writing might block. */
void sky_event_raise_foreign(int fd);
void sky_event_close(int fd);
/* True when `fd` is an eventfd, so that raising it writes into nothing else. */
bool sky_event_valid(int fd);

/* Says until when the sleeping thread has nothing to do: SKY_TIME_NEVER, or a time; a time that has
 * passed means that there is work now. SKY_TIME_OVER: the thread is to end. */
#define SKY_TIME_OVER INT64_MIN
typedef sky_time (*sky_idle_fn)(void *context);

/* How a thread sleeps until another raises `event`, one of `others` is readable, or the time that
 * `idle_until` says has come. The event is cleared before idle_until looks, so that a change is
 * either seen by it or raises the event again: no wake-up is lost, whatever the order of the two
 * threads. What the thread waits for must be changed before the event is raised. A loop ends by
 * what this returns, and by no look of its own: what ends it is thus looked at after the clearing.
 * Returns: false when idle_until said SKY_TIME_OVER. At most 15 others. */
bool sky_event_wait(int event, const int *others, size_t other_count, sky_idle_fn idle_until,
                    void *context);

/* For an event that stands for a state, such as "the list is not empty": cleared under the lock
 * that guards the state, when it ends. A thread that sleeps uses sky_event_wait instead; tools/tidy
 * names who may call this. */
void sky_event_clear(int fd);

/* A descriptor that is readable when `inner` is, or when the armed time has come.
 * Errors: SKY_E_IO */
typedef struct {
    int fd; /* epoll over inner and timer */
    int timer;
} sky_alarm;
sky_status sky_alarm_create(int inner, sky_alarm *out);
void sky_alarm_set(sky_alarm *a,
                   sky_time at); /* SKY_TIME_NEVER disarms; a past time fires at once */
void sky_alarm_close(sky_alarm *a);

/* Wait until one of `fds` is readable or `until`. Bit i of the result: fds[i] is. At most 16. */
uint32_t sky_poll(const int *fds, size_t fd_count, sky_time until);

#endif
