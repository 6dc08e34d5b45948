#include "passed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"

#define PASSED_FIRST 3 /* SD_LISTEN_FDS_START */
#define KEPT_PREFIX  "skymem."

static void take_one(passed_descriptors *out, const char *name, int fd) {
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return; /* it is not open, whatever the manager said */
    bool kept = strncmp(name, KEPT_PREFIX, strlen(KEPT_PREFIX)) == 0 &&
                strcmp(name, "skymem.socket") != 0;
    if (kept)
        out->kept[out->kept_count++] = (sky_host_kept){name, fd};
    else if (out->listener < 0)
        out->listener = fd;
    else
        close(fd); /* one socket is served */
}

void passed_take(passed_descriptors *out) {
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    long fds = pid && count && strtol(pid, NULL, 10) == getpid() ? strtol(count, NULL, 10) : 0;
    out->listener = -1;
    out->names = strdup(names ? names : "");
    char *rest = out->names;
    for (int i = 0; i < fds && i < PASSED_MAX; i++) {
        const char *name = rest ? strsep(&rest, ":") : ""; /* not all need have one */
        take_one(out, name, PASSED_FIRST + i);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

void passed_free(passed_descriptors *p) {
    free(p->names);
}

bool passed_may_keep(void) {
    return getenv("NOTIFY_SOCKET") != NULL;
}

void passed_keep(void *context, const char *name, int fd) {
    char text[256];
    (void)context;
    snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=%.200s", name);
    (void)daemon_notify_with(text, fd);
}

/* Said after each segment that was copied, before the daemon is ready: the manager waits so long
 * from then on. A segment is a 64th of an arena at most: 30 GiB of 2 TiB, at half a GB/s. */
#define NEXT_SEGMENT_US "60000000"

void passed_forget(void *context, const char *name) {
    char text[256];
    (void)context;
    snprintf(text, sizeof text,
             "FDSTOREREMOVE=1\nFDNAME=%.150s\nEXTEND_TIMEOUT_USEC=" NEXT_SEGMENT_US, name);
    (void)daemon_notify_with(text, -1);
}
