/* A get never returns a value older than the last acknowledged put: not when the queue to the disk
 * is full, not in the next process, not after a kill. */
#include "trial.h"

#include <signal.h>
#include <sys/wait.h>

static char data[512];

static sky_status put(sky_cache *c, int number, char fill, bool durable) {
    memset(data, fill, sizeof data);
    return trial_do(c, SKY_OP_PUT, number, data, sizeof data, &(sky_call){.durable = durable});
}

static char get(sky_cache *c, int number) {
    memset(data, '?', sizeof data);
    must(trial_do(c, SKY_OP_GET, number, data, sizeof data, NULL) == SKY_OK);
    return data[0];
}

/* More writes than a queue holds, the last of which replaces what the disk has. */
static void behind_a_full_queue(void) {
    const char *const urls[] = {"mem:64MiB", "disk:queue.d"};
    sky_cache *c = trial_open(urls, 2);
    must(put(c, 0, 'o', true) == SKY_OK);
    for (int i = 1; i < 3000; i++)
        must(put(c, i, 'x', false) == SKY_OK);
    must(put(c, 0, 'n', false) == SKY_OK);
    must(get(c, 0) == 'n');
    sky_cache_close(c);
    c = trial_open(urls, 2);
    must(get(c, 0) == 'n');
    sky_cache_close(c);
}

/* A memory that is too small for what is written, and everything replaced several times. */
static void past_a_small_memory(void) {
    const char *const urls[] = {"mem:64KiB", "disk:small.d"};
    sky_cache *c = trial_open(urls, 2);
    for (char round = 'a'; round < 'e'; round++)
        for (int i = 0; i < 1000; i++)
            must(put(c, i, round, false) == SKY_OK);
    for (int i = 0; i < 1000; i++)
        must(get(c, i) == 'd');
    sky_cache_close(c);
}

static void after_a_kill(void) {
    const char *const urls[] = {"mem:64MiB", "disk:kill.d"};
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            sky_cache *c = trial_open(urls, 2);
            must(put(c, round, 'o', true) == SKY_OK);
            must(put(c, round, 'n', false) == SKY_OK);
            kill(getpid(), SIGKILL);
        }
        int how;
        must(waitpid(child, &how, 0) == child && WIFSIGNALED(how));
        sky_cache *c = trial_open(urls, 2);
        must(get(c, round) == 'n');
        sky_cache_close(c);
    }
}

int main(void) {
    behind_a_full_queue();
    past_a_small_memory();
    after_a_kill();
    return 0;
}
