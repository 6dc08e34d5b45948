/* A child of fork() that uses its parent's cache is told so at once, with a deadline and without,
 * and may open one of its own. */
#include "trial.h"

#include <sys/wait.h>

int main(void) {
    static char data[64];
    const char *const urls[] = {"disk:fork.d"}, *const own[] = {"disk:child.d"};
    sky_cache *c = trial_open(urls, 1);
    must(trial_do(c, SKY_OP_PUT, 1, data, sizeof data, NULL) == SKY_OK);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const sky_call soon = {.deadline_ns = sky_now() + SKY_SECONDS(1)};
        must(trial_do(c, SKY_OP_GET, 1, data, sizeof data, &soon) == SKY_E_FORKED);
        must(trial_do(c, SKY_OP_GET, 1, data, sizeof data, NULL) == SKY_E_FORKED);
        sky_cache_close(c);
        c = trial_open(own, 1);
        must(trial_do(c, SKY_OP_PUT, 2, data, sizeof data, NULL) == SKY_OK);
        sky_cache_close(c);
        _exit(0);
    }
    int how;
    must(waitpid(child, &how, 0) == child);
    must(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    must(trial_do(c, SKY_OP_GET, 1, data, sizeof data, NULL) == SKY_OK);
    sky_cache_close(c);
    return 0;
}
