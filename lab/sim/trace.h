/* A run's trace in a file: a line for each event. For run.c alone. */
#ifndef SKY_LAB_SIM_TRACE_H
#define SKY_LAB_SIM_TRACE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "io/file.h"
#include "sim/world.h"

#define TRACE_BYTES 65536

typedef struct {
    int fd;
    uint64_t offset;
    size_t used;
    sky_status status; /* of the first write that failed */
    char *text;
} trace_file;

static inline void trace_flush(trace_file *t) {
    if (t->fd != SKY_FILE_NONE && t->status == SKY_OK && t->used > 0)
        t->status = sky_file_write_at(t->fd, t->text, t->used, t->offset);
    t->offset += t->used;
    t->used = 0;
}

static inline void trace_line(trace_file *t, const sky_world_event *e) {
    static const char *const kinds[] = {
        [SKY_EVENT_ARRIVED] = "arrived",
        [SKY_EVENT_DELIVERED] = "delivered",
        [SKY_EVENT_LOST] = "lost",
        [SKY_EVENT_OVERFLOW] = "overflow",
        [SKY_EVENT_CUT] = "cut",
        [SKY_EVENT_CRASHED] = "crashed",
        [SKY_EVENT_PARTITIONED] = "partitioned",
        [SKY_EVENT_WOKE] = "woke",
        [SKY_EVENT_FROZEN] = "frozen",
    };
    if (t->fd == SKY_FILE_NONE)
        return;
    if (TRACE_BYTES - t->used < 256)
        trace_flush(t);
    t->used += (size_t)snprintf(
        t->text + t->used, 256, "%" PRId64 " %s %u,%u %u,%u %u %016" PRIx64 "\n", e->at,
        kinds[e->kind], e->from.plane, e->from.slot, e->to.plane, e->to.slot, e->bytes, e->digest);
}

static inline sky_status open_trace(trace_file *t, const char *path, sky_error *error) {
    *t = (trace_file){.fd = SKY_FILE_NONE};
    if (!path)
        return SKY_OK;
    t->text = malloc(TRACE_BYTES);
    if (!t->text)
        return sky_fail(error, SKY_E_NOMEM, "a trace");
    sky_file_info old;
    if (sky_file_stat(SKY_FOLDER_HERE, path, &old) == SKY_OK && old.regular) /* no device */
        sky_file_remove(SKY_FOLDER_HERE, path);
    sky_status status = sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_WRITE | SKY_FILE_CREATE,
                                      &t->fd);
    if (status == SKY_MISS) /* its folder */
        status = SKY_E_IO;
    return status == SKY_OK ? status : sky_fail(error, status, "%s: %s", path, sky_errno_text());
}

static inline sky_status close_trace(trace_file *t, const char *path, sky_error *error) {
    if (t->fd == SKY_FILE_NONE)
        return SKY_OK;
    trace_flush(t);
    sky_file_close(t->fd);
    t->fd = SKY_FILE_NONE;
    if (t->status != SKY_OK)
        return sky_fail(error, t->status, "%s: the trace is not whole: %s", path, sky_errno_text());
    return SKY_OK;
}

#endif
