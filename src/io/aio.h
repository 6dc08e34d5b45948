/* Reads, writes and syncs of files, many under way at once, seen by one thread.
 *
 *   start … start ─ flush ─►  [ io_uring, or a few threads where the kernel forbids it ]  ─► reap
 *                                    the descriptor is readable while results wait
 *
 * Caveats: a queue belongs to the one thread that starts, flushes and reaps. Data must stay put
 * until its result was reaped, and nothing can be taken back: use buffers of your own, never a
 * caller's. A short transfer is carried on until it is whole or at the end of the file.
 * SKYMEM_IO=threads in the environment chooses the threads. */
#ifndef SKY_IO_AIO_H
#define SKY_IO_AIO_H

#include <skymem/types.h>

typedef struct sky_aio sky_aio;

typedef enum {
    SKY_AIO_READ,
    SKY_AIO_WRITE,
    SKY_AIO_SYNC_DATA, /* data, and what is needed to read it back: for files */
    SKY_AIO_SYNC,      /* all there is: for folders */
} sky_aio_op;

typedef struct {
    sky_aio_op op;
    int fd;
    void *data; /* syncs have none of these three */
    uint32_t bytes;
    uint64_t offset;
    uint32_t tag; /* comes back with the result */
} sky_aio_request;

typedef struct {
    uint32_t tag;
    uint32_t bytes; /* fewer than asked for only in a read that met the end of the file */
    sky_status status;
} sky_aio_result;

#define SKY_AIO_DEPTH_MAX 1024

/* At most `depth` requests are under way. Errors: SKY_E_PARAM, SKY_E_NOMEM, SKY_E_IO */
sky_status sky_aio_create(uint32_t depth, sky_aio **out);
/* Waits for what is under way. NULL is fine. */
void sky_aio_destroy(sky_aio *a);

/* "io_uring" or "threads". */
const char *sky_aio_backend(const sky_aio *a);

/* How many more requests may be started. */
uint32_t sky_aio_room(const sky_aio *a);
/* Needs room. The kernel may see it only at the next flush. */
void sky_aio_start(sky_aio *a, const sky_aio_request *request);
void sky_aio_flush(sky_aio *a);
/* Results that are there, at most `max`; never waits. */
size_t sky_aio_reap(sky_aio *a, sky_aio_result *results, size_t max);
int sky_aio_event_fd(const sky_aio *a);

/* A fixed set of equal buffers, each aligned to 4096 bytes; not thread-safe. */
typedef struct {
    uint8_t *base;
    size_t bytes_each;
    uint32_t count;
    uint32_t free_count;
    uint32_t *free_list; /* [count], the first free_count of it */
} sky_buffers;

#define SKY_BUFFER_ALIGN 4096u
#define SKY_BUFFER_NONE  UINT32_MAX

/* bytes_each is a multiple of SKY_BUFFER_ALIGN. Errors: SKY_E_NOMEM */
sky_status sky_buffers_init(sky_buffers *b, uint32_t count, size_t bytes_each);
void sky_buffers_deinit(sky_buffers *b);
uint32_t sky_buffers_take(sky_buffers *b); /* SKY_BUFFER_NONE when all are taken */
void sky_buffers_give(sky_buffers *b, uint32_t buffer);

static inline uint8_t *sky_buffers_at(const sky_buffers *b, uint32_t buffer) {
    return b->base + (size_t)buffer * b->bytes_each;
}

#endif
