#include "io/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/local.h"

#define NAP_NS SKY_MS(2)

extern char **environ;

/* ---- where it is ---- */

static bool is_in(const char *folder, size_t bytes, const char *name, char *out, size_t out_bytes) {
    int made = snprintf(out, out_bytes, "%.*s/%s", (int)bytes, folder, name);
    return made > 0 && (size_t)made < out_bytes && access(out, X_OK) == 0;
}

static size_t folder_bytes(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Next to the program, or to the library as it is built or installed; else by PATH. */
static const char *find_program(const char *name, char *out, size_t out_bytes) {
    static const char *const places[] = {"", "../bin/", "../../bin/"};
    char self[4096], try[64];
    Dl_info library;
    if (strchr(name, '/'))
        return name;
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    self[bytes > 0 ? bytes : 0] = '\0';
    if (is_in(self, folder_bytes(self), name, out, out_bytes))
        return out;
    if (dladdr((const void *)(uintptr_t)find_program, &library) == 0 || !library.dli_fname)
        return name;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(try, sizeof try, "%s%s", places[i], name);
        size_t folder = folder_bytes(library.dli_fname);
        if (folder > 0 && is_in(library.dli_fname, folder, try, out, out_bytes))
            return out;
    }
    return name;
}

/* ---- running it ---- */

static int start_program(const char *path, const char *const *argv, int said, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&how) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    (void)posix_spawnattr_setsigmask(&how, &none);
    (void)posix_spawnattr_setsigdefault(&how, &all);
    (void)posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int why = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (why == 0)
        why = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (why == 0)
        why = posix_spawn_file_actions_adddup2(&files, said, STDERR_FILENO);
    if (why == 0)
        why = posix_spawnp(pid, path, &files, &how, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return why;
}

/* What it says, until it closes the pipe or is late. */
static void hear_program(int fd, sky_time until, char *said, size_t room) {
    char data[512];
    size_t bytes = 0;
    ssize_t got;
    bool ready = true;
    const bool writes = false;
    while (ready && sky_now() < until) {
        sky_local_poll(&fd, &writes, &ready, 1, until);
        got = ready ? read(fd, data, sizeof data) : 0;
        if (got <= 0)
            break;
        size_t kept = (size_t)got < room - 1 - bytes ? (size_t)got : room - 1 - bytes;
        memcpy(said + bytes, data, kept);
        bytes += kept;
    }
    while (bytes > 0 && said[bytes - 1] == '\n')
        bytes--;
    said[bytes] = '\0';
}

static sky_status await_end(pid_t pid, sky_time until, int *exit_code) {
    int ended;
    pid_t got;
    while ((got = waitpid(pid, &ended, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (sky_now() >= until) {
            kill(pid, SIGKILL);
            while (waitpid(pid, &ended, 0) < 0 && errno == EINTR)
                ;
            return SKY_E_DEADLINE;
        }
        sky_local_poll(NULL, NULL, NULL, 0, sky_now() + NAP_NS);
    }
    if (got < 0) /* this process waits for all its children elsewhere: how it ended is not known */
        ended = 0;
    *exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    return SKY_OK;
}

sky_status sky_program_run(const char *const *argv, sky_time until, char *said, size_t said_bytes,
                           int *exit_code) {
    char place[4096];
    int ends[2];
    pid_t pid;
    if (getauxval(AT_SECURE) != 0)
        return SKY_E_DENIED;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return SKY_E_IO;
    int why = start_program(find_program(argv[0], place, sizeof place), argv, ends[1], &pid);
    close(ends[1]);
    if (why == 0)
        hear_program(ends[0], until, said, said_bytes);
    close(ends[0]);
    if (why != 0)
        return why == ENOENT ? SKY_MISS : SKY_E_IO;
    return await_end(pid, until, exit_code);
}
