/* A descriptor that is no eventfd is refused, and nothing is written into it. */
#include "trial.h"

#include <fcntl.h>

int main(void) {
    const char *const urls[] = {"mem:1MiB"};
    sky_cache *c = trial_open(urls, 1);
    int fd = open("victim", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd > 0 && write(fd, "hello", 5) == 5);
    sky_item item = {.key = {{1}}};
    sky_batch batch;
    const sky_call call = {.event_fd = fd};
    must(sky_submit(c, SKY_OP_HAS, &item, 1, &call, &batch) == SKY_E_PARAM);
    sky_cache_close(c);
    must(lseek(fd, 0, SEEK_END) == 5);
    return 0;
}
