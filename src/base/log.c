/* Lines to standard error or to the file that SKYMEM_LOG names: see log.h. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define UNKNOWN (-1) /* SKYMEM_LOG has not been read yet */

static const char *const names[] = {"error", "warning", "info", "debug"};
static atomic_int threshold = UNKNOWN;
static _Atomic(FILE *) file;                  /* NULL: standard error */
static _Atomic(const sky_log_sink *) program; /* NULL: none of the program's own */

void sky_log_to(const sky_log_sink *sink) {
    atomic_store(&program, sink && sink->line ? sink : NULL);
}

static void write_line(FILE *to, sky_log_level level, const char *text) {
    if (!to) {
        fprintf(stderr, "skymem: %s: %s\n", names[level], text);
        return;
    }
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(to, "%s.%03ldZ [%ld] %s: %s\n", stamp, now.tv_nsec / 1000000, (long)getpid(),
            names[level], text);
}

static void log_warn(const char *wanted, const char *why) {
    char text[512], shown[1024];
    snprintf(text, sizeof text, "SKYMEM_LOG=%.200s: %s", wanted, why);
    sky_text_escape(text, strlen(text), false, shown, sizeof shown);
    write_line(NULL, SKY_LOG_WARNING, shown);
}

/* Whether `st` is what standard output or error is: /dev/stderr is a link to it. */
static bool is_standard(const struct stat *st) {
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &own) == 0 && own.st_dev == st->st_dev && own.st_ino == st->st_ino)
            return true;
    return false;
}

/* NULL: lines may go there. */
static const char *log_objection(int fd, bool link) {
    struct stat st;
    if (fstat(fd, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)))
        return "the log must be a regular file or a device";
    if (S_ISCHR(st.st_mode))
        return NULL;
    if (link && !is_standard(&st))
        return "it is a link; name the file that it leads to";
    if (st.st_uid != geteuid())
        return "it belongs to another user";
    return st.st_nlink > 1 ? "it has more than one name" : NULL;
}

/* A pipe without a reader would block the open, and one whose reader stops would block a write.
 * So a log goes to a regular file of the user's own or a character device, such as a terminal. A
 * link is followed to a device and to standard output and error only, and makes no file. */
static int open_log(const char *path, const char **why) {
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags | O_CREAT | O_NOFOLLOW, 0600);
    bool link = fd < 0 && errno == ELOOP;
    if (link)
        fd = open(path, flags);
    *why = fd < 0 && errno != ENXIO ? strerror(errno)
                                    : "the log must be a regular file or a device";
    if (fd < 0)
        return -1;
    *why = log_objection(fd, link);
    if (!*why && fcntl(fd, F_SETFL, O_APPEND) == 0)
        return fd;
    *why = *why ? *why : strerror(errno);
    close(fd);
    return -1;
}

/* Two threads may come here at once: one of them has its file taken. */
static void open_file(const char *wanted, const char *path) {
    const char *why;
    int fd = open_log(path, &why);
    FILE *none = NULL, *opened = fd < 0 ? NULL : fdopen(fd, "a");
    if (!opened) {
        if (fd >= 0)
            close(fd);
        log_warn(wanted, why);
        return;
    }
    setvbuf(opened, NULL, _IOLBF, 0);
    if (!atomic_compare_exchange_strong(&file, &none, opened))
        fclose(opened);
}

/* SKYMEM_LOG as "LEVEL" or "LEVEL,FILE". */
static int level_at_start(void) {
    const char *wanted = secure_getenv("SKYMEM_LOG"); /* none for a set-user-ID program */
    if (!wanted || !wanted[0])
        return SKY_LOG_WARNING;
    size_t bytes = strcspn(wanted, ",");
    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) != bytes || memcmp(wanted, names[i], bytes) != 0)
            continue;
        if (wanted[bytes])
            open_file(wanted, wanted + bytes + 1);
        return i;
    }
    log_warn(wanted, "must be error, warning, info or debug, and may go on with ,FILE");
    return SKY_LOG_WARNING;
}

bool sky_log_wanted(sky_log_level level) {
    const sky_log_sink *sink = atomic_load(&program);
    if (sink)
        return level <= sink->most;
    int most = atomic_load(&threshold);
    if (most == UNKNOWN) {
        most = level_at_start();
        atomic_store(&threshold, most);
    }
    return (int)level <= most;
}

void sky_log(sky_log_level level, const char *format, ...) {
    if (!sky_log_wanted(level))
        return;
    char text[1024], line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sky_text_escape(text, strlen(text), false, line, sizeof line);
    const sky_log_sink *sink = atomic_load(&program);
    if (sink)
        sink->line(sink->context, level, line);
    else
        write_line(atomic_load(&file), level, line);
}
