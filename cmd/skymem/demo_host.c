/* Processes of the demo's own: a skymemd, so that a row can be answered from another process's
 * memory, and what else a row needs. They end with the demo, however that ends. */
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
static _Noreturn void become_process(const char *const argv[], int output, pid_t parent) {
    int nowhere = output < 0 ? open("/dev/null", O_WRONLY) : output;
    if (dup2(nowhere, STDOUT_FILENO) >= 0 && (output >= 0 || dup2(nowhere, STDERR_FILENO) >= 0) &&
        prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent)
        execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

pid_t demo_process_start(const char *const argv[], int output) {
    pid_t parent = getpid(), process = fork();
    if (process == 0)
        become_process(argv, output, parent);
    return process;
}

/* Its first line on standard output. */
static bool said_ready(int output) {
    char line[6];
    struct pollfd there = {.fd = output, .events = POLLIN};
    return poll(&there, 1, READY_MS) == 1 && read(output, line, sizeof line) == sizeof line &&
           memcmp(line, "ready\n", sizeof line) == 0;
}

int demo_host_start(const demo *d, const char *socket, const char *const *more, pid_t *host) {
    char program[4096];
    const char *argv[16] = {program, "--socket", socket, "--store", "mem:1GiB"};
    int ends[2];
    for (size_t i = 0; more && more[i]; i++)
        argv[5 + i] = more[i];
    if (!cli_beside_program("skymemd", program, sizeof program))
        return cli_failed(d->c, "skymemd is not beside skymem: install both in one folder");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cli_failed(d->c, "a pipe: %s", strerror(errno));
    *host = demo_process_start(argv, ends[1]);
    close(ends[1]);
    bool ready = *host > 0 && said_ready(ends[0]);
    close(ends[0]);
    if (ready)
        return CLI_OK;
    demo_process_stop(*host);
    *host = 0;
    return cli_failed(d->c, "%s did not become ready within %d s", program, READY_MS / 1000);
}

void demo_process_stop(pid_t process) {
    if (process <= 0)
        return;
    kill(process, SIGTERM);
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR)
        ;
}

#endif
