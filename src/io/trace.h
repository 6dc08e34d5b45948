/* A trace of requests, in a file that chrome://tracing and Perfetto open.
 *
 * The environment, read when the first cache is opened: SKYMEM_TRACE=FILE. %p in FILE becomes the
 * process's id. FILE is made, mode 0600, or made anew when it is a trace already; it is not opened
 * when it is a link, has a second name, belongs to another user, is no regular file, is in use by
 * another process, or holds something else. A warning says so, and nothing is traced.
 *
 *   [
 *   {"name":"get","cat":"request","ph":"b","id":"0x1","pid":7,"tid":7,"ts":1.5,"args":{…}},
 *   …
 *   ]
 *
 * Times are microseconds of CLOCK_MONOTONIC. What a thread does in one call is an event "X" of that
 * thread. What waits, or goes on elsewhere, is a pair "b" and "e" under an id of its own; its parts
 * are pairs under the same id inside.
 *
 * The file is whole JSON after each write, so that the trace of a killed process can be read too: a
 * write puts events and the end of the list where the end of the list was. What was not written by
 * then is missing: 50 ms at most while requests end. It grows to 1 GiB and not further. A child of
 * fork() traces nothing. */
#ifndef SKY_IO_TRACE_H
#define SKY_IO_TRACE_H

#include <stdatomic.h>

#include <skymem/types.h>

extern _Atomic bool sky__trace_is_on;

static inline bool sky_trace_on(void) {
    return atomic_load_explicit(&sky__trace_is_on, memory_order_relaxed);
}

/* Strings are constants, or letters and digits alone: they are not escaped. */
typedef struct {
    const char *category;
    const char *tier;   /* NULL, or what stands before the name, such as "disk" */
    const char *name;   /* "get" */
    const char *why;    /* NULL, or what it is done for, "promotion"; stands behind the name */
    const char *status; /* NULL: not known yet */
    uint64_t id;        /* of a pair; 0: an event of this thread */
    uint64_t request;   /* id of the request that it is for; 0: not known */
    const sky_key *key; /* NULL, or the first key: its first 4 bytes are shown */
    size_t items;
    uint64_t bytes;
} sky_trace_event;

/* Begin, if SKYMEM_TRACE says so and it has not begun. Threads: any */
void sky_trace_start(void);
/* The same with a file.
 * Errors: SKY_E_PARAM (the path is too long), SKY_E_BUSY (this process traces, or another one into
 *         this file), SKY_E_DENIED (see above), SKY_E_IO; a warning is logged */
sky_status sky_trace_open(const char *path);
/* Write what is there and close the file; fine when there is none. */
void sky_trace_close(void);
/* Write what is there, if nothing was written for so long. It may wait for the disk. */
#define SKY_TRACE_FLUSH_NS SKY_MS(50)
void sky_trace_flush(sky_time age_ns);

/* A new id, never 0. */
uint64_t sky_trace_id(void);
/* An event from `began` to `ended`: a pair when it has an id, else of the calling thread. Nothing
 * when no trace is on. Threads: any */
void sky_trace_span(const sky_trace_event *event, sky_time began, sky_time ended);
/* When a call begins that sky_trace_call is to tell of, for one key: an event of this thread until
 * now. 0, and nothing: no trace is on. */
sky_time sky_trace_now(void);
void sky_trace_call(const char *category, const char *name, const sky_key *key, uint64_t bytes,
                    sky_status status, sky_time began);
/* The two halves of a pair. */
void sky_trace_begin(const sky_trace_event *event, sky_time at);
void sky_trace_end(const sky_trace_event *event, sky_time at);
/* What the calling thread is called. */
void sky_trace_thread(const char *name);

#endif
