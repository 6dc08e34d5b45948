/* A trace of requests, in a file that chrome://tracing and Perfetto open.
 *
 * The environment, read when the first cache is opened: SKYMEM_TRACE=FILE. %p in FILE becomes the
 * process's id. FILE is created with mode 0600. A file that exists is replaced when it is empty or
 * its whole first line is one that begins a trace (`HEAD` in trace.c). FILE is refused when it
 *   - holds anything else, such as another program's JSON;
 *   - is a link, has a second name, or is no regular file;
 *   - belongs to another user, or is in use by another process.
 * A warning then says so, and nothing is traced.
 *
 *   [{"name":"process_name","cat":"skymem-trace","ph":"M","args":{"name":"skymem"},"tid":0,…},
 *   {"name":"get","cat":"request","ph":"b","id":"0x1","pid":7,"tid":7,"ts":1.5,"args":{…}},
 *   …
 *   ]
 *
 * Times are microseconds of CLOCK_MONOTONIC. What a thread does in one call is an event "X" of that
 * thread. What waits, or goes on elsewhere, is a pair "b" and "e" under an id of its own; its parts
 * are pairs under the same id inside.
 *
 * The file is whole JSON after each write, so that the trace of a killed process can be read too. A
 * write puts events and the end of the list where the end of the list was. A killed process loses
 * the events since its last write: 50 ms at most while requests end. The file grows to 1 GiB and
 * not further. A child of fork() traces nothing. */
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
/* The time at which a call begins, for sky_trace_call; 0: no trace is on. sky_trace_call writes an
 * event of this thread, for one key, from that time until now, or nothing if it was 0. */
sky_time sky_trace_now(void);
void sky_trace_call(const char *category, const char *name, const sky_key *key, uint64_t bytes,
                    sky_status status, sky_time began);
/* The two halves of a pair. */
void sky_trace_begin(const sky_trace_event *event, sky_time at);
void sky_trace_end(const sky_trace_event *event, sky_time at);
/* What the calling thread is called. */
void sky_trace_thread(const char *name);

#endif
