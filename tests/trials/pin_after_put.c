/* A pin covers the put before it, on the disk too: 200 keys are put and pinned, then more is
 * written than the folder may hold; after a restart all 200 are there. */
#include "trial.h"

int main(void) {
    static char data[4096];
    const char *const urls[] = {"mem:4MiB", "disk:pins.d?max=8MiB"};
    const sky_call durable = {.durable = true};
    sky_cache *c = trial_open(urls, 2);
    for (int i = 0; i < 200; i++) {
        must(trial_do(c, SKY_OP_PUT, i, data, sizeof data, NULL) == SKY_OK);
        must(trial_do(c, SKY_OP_PIN, i, NULL, 0, NULL) == SKY_OK);
    }
    for (int i = 1000; i < 3000; i++)
        must(trial_do(c, SKY_OP_PUT, i, data, sizeof data, &durable) == SKY_OK);
    sky_cache_close(c);
    c = trial_open(urls, 2);
    for (int i = 0; i < 200; i++)
        must(trial_do(c, SKY_OP_GET, i, data, sizeof data, NULL) == SKY_OK);
    sky_cache_close(c);
    return 0;
}
