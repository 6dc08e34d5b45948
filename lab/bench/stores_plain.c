/* Plain files as a store: write, fsync, rename; read. The folder is not synced, so that a name may
 * still be lost with the power. */
#include "stores.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool plain_open(bench_store *s, const char *folder) {
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    return true;
}

static bool move_all(int fd, bool write_them, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        ssize_t n = write_them ? write(fd, at, bytes - done) : read(fd, at, bytes - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool plain_put(bench_store *s, uint32_t number, const void *data, size_t bytes) {
    char temp[4300], name[4300];
    snprintf(temp, sizeof temp, "%s/temp", s->folder);
    snprintf(name, sizeof name, "%s/%u", s->folder, number);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && move_all(fd, true, (void *)(uintptr_t)data, bytes) && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return written && rename(temp, name) == 0;
}

static bool plain_get(bench_store *s, uint32_t number, void *data, size_t bytes) {
    char name[4300];
    snprintf(name, sizeof name, "%s/%u", s->folder, number);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && move_all(fd, false, data, bytes);
    if (fd >= 0)
        close(fd);
    return whole;
}

static void plain_close(bench_store *s) {
    s->folder[0] = '\0';
}

bool bench_store_plain(bench_store *out) {
    *out = (bench_store){.name = "plain files",
                         .open = plain_open,
                         .put = plain_put,
                         .get = plain_get,
                         .close = plain_close};
    return true;
}
