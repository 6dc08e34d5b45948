/* A skymemd of the demo's own, so that a row can be answered from another process's memory. It ends
 * with the demo, however that ends. */
#include "demo.h"

#ifdef SKYMEM_WITH_LLAMA

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 10000

/* In the child. A parent that ended meanwhile can send no signal any more. */
static _Noreturn void become_host(char *const argv[], int output, pid_t parent) {
    if (dup2(output, STDOUT_FILENO) >= 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
        getppid() == parent)
        execv(argv[0], argv);
    _exit(127);
}

/* Its first line on standard output. */
static bool said_ready(int output) {
    char line[6];
    struct pollfd there = {.fd = output, .events = POLLIN};
    return poll(&there, 1, READY_MS) == 1 && read(output, line, sizeof line) == sizeof line &&
           memcmp(line, "ready\n", sizeof line) == 0;
}

int demo_host_start(const demo *d, const char *socket, pid_t *host) {
    char program[4096];
    int ends[2];
    if (!cli_beside_program("skymemd", program, sizeof program))
        return cli_failed(d->c, "skymemd is not beside skymem: install both in one folder");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cli_failed(d->c, "a pipe: %s", strerror(errno));
    char *argv[] = {program, "--socket", (char *)(uintptr_t)socket, "--store", "mem:1GiB", NULL};
    pid_t parent = getpid();
    *host = fork();
    if (*host == 0)
        become_host(argv, ends[1], parent);
    close(ends[1]);
    bool ready = *host > 0 && said_ready(ends[0]);
    close(ends[0]);
    if (ready)
        return CLI_OK;
    demo_host_stop(*host);
    return cli_failed(d->c, "%s did not become ready within %d s", program, READY_MS / 1000);
}

void demo_host_stop(pid_t host) {
    if (host <= 0)
        return;
    kill(host, SIGTERM);
    while (waitpid(host, NULL, 0) < 0 && errno == EINTR)
        ;
}

#endif
