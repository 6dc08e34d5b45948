/* Proves: a disk tier closes, however its threads' system calls are delayed. The thread's wake-up
 * could be lost between its look at `closing` and the clearing of its event; delays of a read of
 * the event make that likely. SKY_TEST_ROUNDS says how many opens and closes; each takes from 0.2
 * to some ms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "tier/disk/disk_fixture.h"

#define ROUNDS_DEFAULT 400
#define HANG_S         60 /* one round that takes so long counts as a hang */

static __thread sky_prng delays;
static __thread bool seeded;

static void delay(void) {
    static uint64_t threads; /* each thread has delays of its own */
    if (!seeded) {
        sky_prng_init(&delays, __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED));
        seeded = true;
    }
    uint64_t draw = sky_prng_below(&delays, 16);
    if (draw < 4)
        usleep((useconds_t)(draw * 200));
}

/* Stands before the C library's: every read of an event comes through here. */
ssize_t read(int fd, void *data, size_t bytes) {
    delay();
    return syscall(SYS_read, fd, data, bytes);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    ssize_t written = syscall(SYS_write, fd, data, bytes);
    delay();
    return written;
}

static unsigned long rounds(void) {
    const char *wanted = getenv("SKY_TEST_ROUNDS");
    return wanted ? strtoul(wanted, NULL, 10) : ROUNDS_DEFAULT;
}

static void closing_ends(void **state) {
    (void)state;
    char *folder = disk_folder_make();
    for (unsigned long i = 0; i < rounds(); i++) {
        alarm(HANG_S);
        sky_tier *tier = disk_open(folder, "");
        if (i % 3 == 0)
            assert_int_equal(sky_fixture_put(tier, sky_fixture_key(i % 30), NULL, 500, i), SKY_OK);
        disk_close(tier);
    }
    alarm(0);
    disk_folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(closing_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
