/* Whole files in and out, and a scratch folder. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENDLESS_BYTES_MAX (4ull << 30)
#define LEFT_BEHIND_S     3600 /* nobody takes as long for one file */

static int too_large(const cli *c, const char *path, uint64_t bytes_max) {
    return cli_failed(c, "%s: larger than %llu bytes, the most there may be", path,
                      (unsigned long long)bytes_max);
}

/* What does not tell its length may have no end: no more of it than memory bears. */
static int read_all(const cli *c, int fd, const char *path, uint64_t bytes_max, cli_blob *out) {
    size_t room = 1u << 16;
    bytes_max = bytes_max < ENDLESS_BYTES_MAX ? bytes_max : ENDLESS_BYTES_MAX;
    out->data = malloc(room);
    for (;;) {
        if (!out->data)
            return cli_failed(c, "%s: out of memory", path);
        ssize_t got = read(fd, (uint8_t *)out->data + out->bytes, room - out->bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cli_failed(c, "%s: %s", path, strerror(errno));
        if (got == 0)
            return CLI_OK;
        out->bytes += (size_t)got;
        if (out->bytes > bytes_max)
            return too_large(c, path, bytes_max);
        if (out->bytes == room) {
            room *= 2;
            void *more = realloc(out->data, room);
            if (!more)
                free(out->data);
            out->data = more;
        }
    }
}

/* A regular file is read into as much memory as it takes. It is not mapped: whoever cut it short
 * meanwhile would end this process. */
static int read_regular(const cli *c, int fd, const char *path, uint64_t bytes, cli_blob *out) {
    out->data = malloc(bytes);
    while (out->data && out->bytes < bytes) {
        ssize_t got = read(fd, (uint8_t *)out->data + out->bytes, bytes - out->bytes);
        if (got == 0)
            return cli_failed(c, "%s: cut short while it was read; try again", path);
        if (got < 0 && errno != EINTR)
            return cli_failed(c, "%s: %s", path, strerror(errno));
        out->bytes += got > 0 ? (size_t)got : 0;
    }
    return out->data ? CLI_OK : cli_failed(c, "%s: out of memory", path);
}

int cli_blob_read(const cli *c, const char *path, uint64_t bytes_max, cli_blob *out) {
    bool standard = !path || strcmp(path, "-") == 0;
    const char *shown = standard ? "standard input" : path;
    memset(out, 0, sizeof *out);
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_failed(c, "%s: %s", shown, strerror(errno));
    struct stat st;
    int code;
    if (standard || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        code = read_all(c, fd, shown, bytes_max, out);
    else if ((uint64_t)st.st_size > bytes_max)
        code = too_large(c, shown, bytes_max);
    else
        code = read_regular(c, fd, shown, (uint64_t)st.st_size, out);
    if (!standard)
        close(fd);
    if (code != CLI_OK)
        cli_blob_free(out);
    return code;
}

void cli_blob_free(cli_blob *blob) {
    free(blob->data);
    *blob = (cli_blob){0};
}

bool cli_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return a && b && stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* Where a verb prints a report, a result has no place beside it; where nobody reads it, no harm. */
static bool holds_report(const char *path) {
    struct stat of_path, of_output;
    if (strcmp(path, "-") == 0)
        return true;
    return stat(path, &of_path) == 0 && fstat(STDOUT_FILENO, &of_output) == 0 &&
           of_path.st_dev == of_output.st_dev && of_path.st_ino == of_output.st_ino &&
           !cli_same_file(path, "/dev/null");
}

static int no_stream(const cli *c, const char *path) {
    return cli_usage(c, "%s: standard output holds the report; name another file%s", path,
                     strcmp(path, "-") == 0 ? " (./- for one called so)" : "");
}

int cli_file_try(const cli *c, const char *path) {
    if (holds_report(path))
        return no_stream(c, path);
    bool there = access(path, F_OK) == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
        return cli_failed(c, "%s: %s", path, strerror(errno));
    close(fd);
    if (!there)
        unlink(path);
    return CLI_OK;
}

typedef struct {
    char target[PATH_MAX]; /* what is to be replaced: where a link points */
    char path[PATH_MAX + 32];
    bool in_place; /* a device or a pipe, or the folder lets no file be made in it */
} beside;

/* Is it a file that was to take the place of `base`, and was not written to for long? */
static bool is_left_behind(int folder, const char *name, const char *base) {
    size_t bytes = strlen(base);
    const char *number = name + bytes + strlen(".new-");
    struct stat st;
    if (strncmp(name, base, bytes) != 0 || strncmp(name + bytes, ".new-", strlen(".new-")) != 0)
        return false;
    if (!*number || number[strspn(number, "0123456789")] != '\0')
        return false;
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           time(NULL) - st.st_mtime > LEFT_BEHIND_S;
}

/* What writers of `target` left who were killed before they were done. */
static void sweep_left_behind(const char *target) {
    char folder[PATH_MAX];
    const char *slash = strrchr(target, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - target) + 1 : 1,
             slash ? target : ".");
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_left_behind(dirfd(d), e->d_name, slash ? slash + 1 : target))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

/* A file beside `path` that is to take its place, as readable as it was; -1 and errno: none. */
static int open_beside(const char *path, beside *out) {
    struct stat st;
    bool there = stat(path, &st) == 0;
    out->in_place = there && !S_ISREG(st.st_mode);
    if (out->in_place || (there && !realpath(path, out->target)))
        return -1;
    if (!there)
        snprintf(out->target, PATH_MAX, "%s", path);
    sweep_left_behind(out->target);
    snprintf(out->path, sizeof out->path, "%s.new-%d", out->target, (int)getpid());
    int fd = open(out->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    out->in_place = fd < 0 && (errno == EACCES || errno == EPERM || errno == ENAMETOOLONG);
    if (fd >= 0 && there)
        (void)!fchmod(fd, st.st_mode & 07777);
    return fd;
}

/* 0, or what went wrong. Closes the file. */
static int write_and_close(FILE *file, const void *data, size_t bytes, bool sync) {
    errno = EIO;
    bool whole = fwrite(data, 1, bytes, file) == bytes && fflush(file) == 0 &&
                 (!sync || fsync(fileno(file)) == 0);
    int failure = whole ? 0 : errno;
    return fclose(file) != 0 && !failure ? errno : failure;
}

/* Everything is written before it takes the place of what was there, which may be what it was made
 * of: a disk that is full leaves that as it is. */
int cli_file_write(const cli *c, const char *path, const void *data, size_t bytes) {
    beside new;
    if (holds_report(path))
        return no_stream(c, path);
    int fd = open_beside(path, &new);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : new.in_place ? fopen(path, "we") : NULL;
    if (!file)
        return cli_failed(c, "%s: %s", path, strerror(errno));
    int failure = write_and_close(file, data, bytes, fd >= 0);
    if (fd >= 0 && !failure && rename(new.path, new.target) != 0)
        failure = errno;
    if (fd >= 0 && failure)
        unlink(new.path);
    return failure ? cli_failed(c, "%s: %s", path, strerror(failure)) : CLI_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)kind, (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

/* A tier may still be writing into it: what came after the walk goes with the next one. */
void cli_scratch_remove(const char *path) {
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int walks = 0; path[0] && access(path, F_OK) == 0 && walks < 100; walks++) {
        if (walks > 0)
            nanosleep(&pause, NULL);
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* ---- the scratch folder of a program that is told to end ---- */

/* A handler may do no more than wake a thread that removes the folder. Who holds the mutex makes
 * it, or ends the program: none is made that nobody would remove. */
static char scratch[4096];
static pthread_mutex_t scratch_mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t signalled;
static volatile sig_atomic_t signal_number;

static void wake_sleeper(int number) {
    int failure = errno;
    signal_number = number;
    sem_post(&signalled);
    errno = failure;
}

static void *end_tidily(void *unused) {
    (void)unused;
    while (sem_wait(&signalled) != 0) {
    }
    pthread_mutex_lock(&scratch_mutex);
    cli_scratch_remove(scratch);
    signal(signal_number, SIG_DFL);
    kill(getpid(), signal_number);
    return NULL;
}

static void watch_signals(void) {
    static bool watching;
    pthread_t thread;
    if (watching || sem_init(&signalled, 0, 0) != 0 ||
        pthread_create(&thread, NULL, end_tidily, NULL) != 0)
        return;
    watching = true;
    pthread_detach(thread);
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action = {.sa_handler = wake_sleeper, .sa_flags = SA_RESTART}, old;
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

int cli_scratch_make(const cli *c, const char *home, const char *name, char *path,
                     size_t path_bytes) {
    char cache[4000];
    if (!home && !cli_cache_home(cache, sizeof cache))
        return cli_failed(c, "this account has no home; set XDG_CACHE_HOME to a folder that can "
                             "be written");
    if (!home)
        mkdir(cache, 0700);
    watch_signals();
    pthread_mutex_lock(&scratch_mutex);
    snprintf(scratch, sizeof scratch, "%s/skymem-%s-XXXXXX", home ? home : cache, name);
    int failure = mkdtemp(scratch) ? 0 : errno;
    if (failure)
        scratch[0] = '\0';
    snprintf(path, path_bytes, "%s", scratch);
    pthread_mutex_unlock(&scratch_mutex);
    if (!failure)
        return CLI_OK;
    return cli_failed(c, "%s: %s%s", home ? home : cache, strerror(failure),
                      home ? "" : "; set XDG_CACHE_HOME to a folder that can be written");
}
