/* fio as a child process: its JSON is read from a pipe. */
#include "bench.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Bytes over the run time of the job, which includes the syncs. */
static double rate_of(const char *text, bool write, double bytes) {
    const char *brace = strchr(text, '{'); /* fio may put notes before it */
    json_t *root = brace ? json_loads(brace, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    json_t *job = json_array_get(json_object_get(root, "jobs"), 0);
    double moved = json_number_value(
        json_object_get(json_object_get(job, write ? "write" : "read"), "io_bytes"));
    double ms = json_number_value(json_object_get(job, "job_runtime"));
    double rate = moved >= bytes && ms > 0 ? moved / ms * 1e3 : 0;
    json_decref(root);
    return rate;
}

static size_t read_pipe(int fd, char *out, size_t out_bytes) {
    size_t used = 0;
    for (ssize_t got;
         used < out_bytes - 1 && (got = read(fd, out + used, out_bytes - 1 - used)) > 0;)
        used += (size_t)got;
    out[used] = '\0';
    return used;
}

double bench_fio_run(const bench_fio *f) {
    static char output[1 << 18];
    char directory[4200], files[32], size[40], block[32], depth[32], direct[32], engine[32];
    snprintf(directory, sizeof directory, "--directory=%s", f->folder);
    snprintf(files, sizeof files, "--nrfiles=%u", f->files);
    snprintf(size, sizeof size, "--filesize=%llu", (unsigned long long)f->file_bytes);
    snprintf(block, sizeof block, "--bs=%u", f->block_bytes);
    snprintf(depth, sizeof depth, "--iodepth=%u", f->depth);
    snprintf(direct, sizeof direct, "--direct=%d", f->direct);
    snprintf(engine, sizeof engine, "--ioengine=%s", f->io_uring ? "io_uring" : "libaio");
    char *argv[] = {"fio",
                    "--name=skymem",
                    directory,
                    files,
                    size,
                    block,
                    depth,
                    direct,
                    engine,
                    f->write ? "--rw=write" : "--rw=read",
                    "--file_service_type=sequential",
                    "--openfiles=4",
                    "--output-format=json",
                    f->write ? "--fsync_on_close=1" : NULL,
                    "--unlink=1", /* new files each time, as the tier makes them */
                    NULL};
    int ends[2];
    if (pipe(ends) != 0)
        return 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
    pid_t child;
    int failure = posix_spawnp(&child, "fio", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    int status = 1;
    if (failure == 0) {
        read_pipe(ends[0], output, sizeof output);
        waitpid(child, &status, 0);
    }
    close(ends[0]);
    double bytes = (double)f->files * (double)f->file_bytes;
    return failure == 0 && status == 0 ? rate_of(output, f->write, bytes) : 0;
}
