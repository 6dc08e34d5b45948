#include "io/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <skymem/keys.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/fork.h"
#include "io/sync.h"

#define BUFFER_BYTES   65536u
#define EVENT_BYTES    512u
#define FILE_BYTES_MAX (UINT64_C(1) << 30)
#define LIST_END       "\n]\n"
/* The first event, which stands on the line of the bracket: `[{…,"pid":7}`. A file whose first line
 * is this one was written here. */
#define HEAD                                                                                       \
    "[{\"name\":\"process_name\",\"cat\":\"skymem-trace\",\"ph\":\"M\","                           \
    "\"args\":{\"name\":\"skymem\"},\"tid\":0,\"pid\":"
#define HEAD_BYTES_MAX (sizeof HEAD + 24) /* with the process's id, its brace and the line's end */

_Atomic bool sky__trace_is_on;

/* One file for the process; `mutex` guards it. */
static struct {
    sky_mutex mutex;
    int fd;
    uint64_t forks;
    uint64_t file_bytes; /* written, without the end of the list */
    sky_time flushed_at;
    size_t used;
    char buffer[BUFFER_BYTES + sizeof LIST_END];
} trace = {.mutex = SKY_MUTEX_INIT, .fd = -1};

/* ---- the file ---- */

static int print_head(char out[HEAD_BYTES_MAX]) {
    return snprintf(out, HEAD_BYTES_MAX, HEAD "%ld}", (long)getpid());
}

/* Its first line is one of ours. */
static bool begins_as_trace(int fd) {
    char line[HEAD_BYTES_MAX] = "";
    if (pread(fd, line, sizeof line - 1, 0) < 0 || strncmp(line, HEAD, sizeof HEAD - 1) != 0)
        return false;
    const char *pid = line + sizeof HEAD - 1;
    size_t digits = strspn(pid, "0123456789");
    return digits > 0 &&
           (strncmp(pid + digits, "}\n", 2) == 0 || strncmp(pid + digits, "},\n", 3) == 0);
}

/* NULL: it may be used. */
static const char *trace_objection(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return "a trace must be a regular file";
    if (st.st_uid != geteuid())
        return "it belongs to another user";
    if (st.st_nlink != 1)
        return "it has more than one name";
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return "another process traces there; %p in the name is the process's id";
    if (st.st_size > 0 && !begins_as_trace(fd))
        return "it holds something that is no trace; name another file";
    return NULL;
}

static sky_status trace_refuse(const char *path, const char *why, sky_status status) {
    sky_log(SKY_LOG_WARNING, "SKYMEM_TRACE=%.200s: %s", path, why);
    return status;
}

/* An empty list of events: the head, and the end. */
static bool begin_file(int fd, uint64_t *head_bytes) {
    char text[HEAD_BYTES_MAX + sizeof LIST_END];
    int head = print_head(text);
    memcpy(text + head, LIST_END, sizeof LIST_END);
    ssize_t bytes = head + (ssize_t)sizeof LIST_END - 1;
    if (ftruncate(fd, 0) != 0)
        return false;
    if (pwrite(fd, text, (size_t)bytes, 0) != bytes) {
        (void)!ftruncate(fd, 0);
        return false;
    }
    *head_bytes = (uint64_t)head;
    return true;
}

static sky_status open_file(const char *path, int *out, uint64_t *head_bytes) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW, 0600);
    if (fd < 0)
        return trace_refuse(path,
                            errno == ELOOP   ? "it is a link"
                            : errno == ENXIO ? "a trace must be a regular file"
                                             : strerror(errno),
                            errno == ELOOP || errno == ENXIO ? SKY_E_DENIED : SKY_E_IO);
    const char *why = trace_objection(fd);
    sky_status status = why && errno == EWOULDBLOCK ? SKY_E_BUSY : SKY_E_DENIED;
    if (!why && !begin_file(fd, head_bytes)) {
        why = strerror(errno);
        status = SKY_E_IO;
    }
    if (why) {
        close(fd);
        return trace_refuse(path, why, status);
    }
    *out = fd;
    return SKY_OK;
}

/* %p becomes the process's id. */
static bool path_expand(const char *path, char *out, size_t out_bytes) {
    const char *at = strstr(path, "%p");
    int length = at ? snprintf(out, out_bytes, "%.*s%ld%s", (int)(at - path), path, (long)getpid(),
                               at + 2)
                    : snprintf(out, out_bytes, "%s", path);
    return length > 0 && (size_t)length < out_bytes;
}

static void close_file(void) {
    atomic_store(&sky__trace_is_on, false);
    close(trace.fd);
    trace.fd = -1;
}

/* With the mutex held: events and the end of the list, over the end that is there. */
static void trace_flush(void) {
    size_t used = trace.used, end = sizeof LIST_END - 1;
    trace.used = 0;
    trace.flushed_at = sky_now();
    if (used == 0 || trace.fd < 0)
        return;
    memcpy(trace.buffer + used, LIST_END, end);
    if (pwrite(trace.fd, trace.buffer, used + end, (off_t)trace.file_bytes) ==
        (ssize_t)(used + end)) {
        trace.file_bytes += used;
        return;
    }
    sky_log(SKY_LOG_WARNING, "the trace ends here: %s", strerror(errno));
    if (pwrite(trace.fd, LIST_END, end, (off_t)trace.file_bytes) == (ssize_t)end)
        (void)!ftruncate(trace.fd, (off_t)(trace.file_bytes + end));
    close_file();
}

/* Lock it; false: nothing is traced, or by the parent of this process. */
static bool trace_lock(void) {
    if (!sky_trace_on() || sky_forks() != trace.forks)
        return false;
    sky_mutex_lock(&trace.mutex);
    if (trace.fd >= 0)
        return true;
    sky_mutex_unlock(&trace.mutex);
    return false;
}

sky_status sky_trace_open(const char *path) {
    char name[4096];
    if (!path_expand(path, name, sizeof name))
        return trace_refuse(path, "the name is too long", SKY_E_PARAM);
    uint64_t forks;
    sky_status status = sky_forks_watch(&forks);
    if (status != SKY_OK)
        return status;
    sky_mutex_lock(&trace.mutex);
    status = trace.fd >= 0 ? SKY_E_BUSY : open_file(name, &trace.fd, &trace.file_bytes);
    if (status == SKY_OK) {
        trace.forks = forks;
        trace.used = 0;
        trace.flushed_at = sky_now();
        atomic_store(&sky__trace_is_on, true);
    }
    sky_mutex_unlock(&trace.mutex);
    return status;
}

void sky_trace_start(void) {
    static _Atomic bool asked;
    if (atomic_exchange(&asked, true))
        return;
    const char *path = secure_getenv("SKYMEM_TRACE");
    if (path && path[0])
        (void)sky_trace_open(path);
}

void sky_trace_flush(sky_time age_ns) {
    if (!trace_lock())
        return;
    if (sky_now() - trace.flushed_at >= age_ns)
        trace_flush();
    sky_mutex_unlock(&trace.mutex);
}

void sky_trace_close(void) {
    if (!trace_lock())
        return;
    trace_flush();
    if (trace.fd >= 0)
        close_file();
    sky_mutex_unlock(&trace.mutex);
}

__attribute__((destructor)) static void close_at_exit(void) {
    sky_trace_close();
}

/* ---- events ---- */

uint64_t sky_trace_id(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

typedef struct {
    char text[EVENT_BYTES];
    size_t bytes;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(l->text + l->bytes, sizeof l->text - l->bytes, format, args);
    va_end(args);
    l->bytes += length > 0 ? (size_t)length : 0; /* past the end: the event is left out */
}

/* Nanoseconds as microseconds. */
static void add_time(line *l, const char *name, sky_time ns) {
    ns = ns > 0 ? ns : 0;
    add(l, ",\"%s\":%" PRId64 ".%03d", name, ns / 1000, (int)(ns % 1000));
}

static void add_args(line *l, const sky_trace_event *e) {
    add(l, ",\"args\":{\"request\":%" PRIu64, e->request);
    if (e->key)
        add(l, ",\"key\":\"%02x%02x%02x%02x\",\"items\":%zu,\"bytes\":%" PRIu64, e->key->bytes[0],
            e->key->bytes[1], e->key->bytes[2], e->key->bytes[3], e->items, e->bytes);
    if (e->status)
        add(l, ",\"status\":\"%s\"", e->status);
    add(l, "}");
}

/* One event into the buffer. */
static void trace_put(const line *l) {
    if (l->bytes >= sizeof l->text || !trace_lock())
        return;
    if (trace.used + l->bytes + 2 > BUFFER_BYTES)
        trace_flush();
    if (trace.fd >= 0 && trace.file_bytes + BUFFER_BYTES < FILE_BYTES_MAX) {
        trace.buffer[trace.used++] = ',';
        trace.buffer[trace.used++] = '\n';
        memcpy(trace.buffer + trace.used, l->text, l->bytes);
        trace.used += l->bytes;
    }
    sky_mutex_unlock(&trace.mutex);
}

static void trace_emit(const sky_trace_event *e, char phase, sky_time at, sky_time took) {
    line l = {.bytes = 0};
    add(&l, "{\"name\":\"%s%s%s%s%s\",\"cat\":\"%s\",\"ph\":\"%c\"", e->tier ? e->tier : "",
        e->tier ? " " : "", e->name, e->why ? " for " : "", e->why ? e->why : "", e->category,
        phase);
    if (e->id)
        add(&l, ",\"id\":\"0x%" PRIx64 "\"", e->id);
    add(&l, ",\"pid\":%ld,\"tid\":%ld", (long)getpid(), (long)gettid());
    add_time(&l, "ts", at);
    if (phase == 'X')
        add_time(&l, "dur", took);
    add_args(&l, e);
    add(&l, "}");
    trace_put(&l);
}

void sky_trace_span(const sky_trace_event *e, sky_time began, sky_time ended) {
    if (!sky_trace_on())
        return;
    if (e->id == 0) {
        trace_emit(e, 'X', began, ended - began);
        return;
    }
    trace_emit(e, 'b', began, 0);
    trace_emit(e, 'e', ended, 0);
}

sky_time sky_trace_now(void) {
    return sky_trace_on() ? sky_now() : 0;
}

void sky_trace_call(const char *category, const char *name, const sky_key *key, uint64_t bytes,
                    sky_status status, sky_time began) {
    const sky_trace_event e = {.category = category,
                               .name = name,
                               .status = sky_status_name(status),
                               .key = key,
                               .items = 1,
                               .bytes = bytes};
    if (began != 0)
        sky_trace_span(&e, began, sky_now());
}

void sky_trace_begin(const sky_trace_event *e, sky_time at) {
    if (sky_trace_on())
        trace_emit(e, 'b', at, 0);
}

void sky_trace_end(const sky_trace_event *e, sky_time at) {
    if (sky_trace_on())
        trace_emit(e, 'e', at, 0);
}

void sky_trace_thread(const char *name) {
    line l = {.bytes = 0};
    if (!sky_trace_on())
        return;
    add(&l,
        "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%ld,\"tid\":%ld,\"args\":{\"name\":\"%s\"}"
        "}",
        (long)getpid(), (long)gettid(), name);
    trace_put(&l);
}
