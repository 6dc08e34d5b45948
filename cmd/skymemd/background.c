#include "background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"

static int ready_end = -1; /* of a pipe to the process that was started */
static char log_path[128];

/* What the process that was started does: the other is ready, or has ended. */
static int await_ready(int end, pid_t child) {
    char said;
    int ended;
    ssize_t got;
    do
        got = read(end, &said, 1);
    while (got < 0 && errno == EINTR);
    if (got == 1)
        return DONE;
    while (waitpid(child, &ended, 0) < 0)
        if (errno != EINTR)
            return FAILED;
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : FAILED;
}

int background_start(const char *socket_path) {
    int ends[2];
    snprintf(log_path, sizeof log_path, "%.*s.log", (int)(strlen(socket_path) - strlen(".sock")),
             socket_path);
    (void)close_range(STDERR_FILENO + 1, ~0u, 0); /* a program's files are not the daemon's */
    if (pipe2(ends, O_CLOEXEC) != 0)
        return daemon_say(FAILED, "--auto", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        return daemon_say(FAILED, "--auto", strerror(errno));
    if (child > 0) {
        close(ends[1]);
        _exit(await_ready(ends[0], child));
    }
    close(ends[0]);
    ready_end = ends[1];
    setsid();
    return chdir("/") == 0 ? DONE : daemon_say(FAILED, "/", strerror(errno));
}

/* Faults of the start were said to whoever started it; later ones go to the log. */
void background_ready(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO && null >= 0; fd++)
        dup2(null, fd);
    if (log >= 0 || null >= 0)
        dup2(log >= 0 ? log : null, STDERR_FILENO);
    if (write(ready_end, "r", 1) == 1)
        close(ready_end);
    close(null);
    close(log);
}
