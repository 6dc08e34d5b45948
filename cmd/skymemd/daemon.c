#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <skymem/skymem.h>

int daemon_say(int code, const char *what, const char *why) {
    char *text = NULL, *shown = NULL;
    int bytes = asprintf(&text, "%s: %s", what, why);
    if (bytes >= 0 && (shown = malloc(4 * (size_t)bytes + 1)))
        sky_text_escape(text, (size_t)bytes, false, shown, 4 * (size_t)bytes + 1);
    fprintf(stderr, "skymemd: %s%s\n", shown ? shown : "out of memory",
            code == USAGE ? "; see skymemd --help" : "");
    free(shown);
    if (bytes >= 0)
        free(text);
    return code;
}

/* ---- signals ---- */

int daemon_catch_set(const sigset_t *set, int *fd) {
    sigprocmask(SIG_BLOCK, set, NULL);
    *fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? DONE : daemon_say(FAILED, "signalfd", strerror(errno));
}

int daemon_catch_signals(int *fd) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    return daemon_catch_set(&set, fd);
}

void daemon_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, bytes);
    close(fd);
}

void daemon_ready(void) {
    puts("ready");
    fflush(stdout);
    daemon_notify("READY=1");
}
