#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <skymem/skymem.h>

#define NOTIFY_S 2 /* until a service manager has room for a message */

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

bool daemon_notify_with(const char *state, int passed) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    union {
        char bytes[CMSG_SPACE(sizeof passed)];
        struct cmsghdr aligned;
    } control = {0};
    struct iovec words = {(char *)state, strlen(state)};
    struct msghdr message = {
        .msg_name = &address,
        .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)),
        .msg_iov = &words,
        .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(c), &passed, sizeof passed);
    }
    static bool deaf; /* it let a message wait: no other waits */
    const struct timeval patience = {.tv_sec = NOTIFY_S};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    bool sent = sendmsg(fd, &message, MSG_NOSIGNAL | (deaf ? MSG_DONTWAIT : 0)) >= 0;
    deaf = !sent;
    close(fd);
    return sent;
}

void daemon_notify(const char *state) {
    (void)daemon_notify_with(state, -1);
}

void daemon_ready(void) {
    puts("ready");
    fflush(stdout);
    daemon_notify("READY=1");
}
