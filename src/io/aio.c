/* Requests sit in a table of `depth` flights; a backend is told a flight's number and hands it back
 * with the count of bytes, or minus errno. What came back short is started again for the rest.
 *
 *   free_list ──start──► flight ──backend──► (number, result) ──reap──► free_list
 *                           ▲──────── rest of a short transfer ───┘
 *
 * io_uring: `waiting` are those in the ring that the kernel did not take yet, in the ring's order.
 * It may decline for a while, for want of memory or because results wait; when nothing else is
 * under way whose result would lead to the next flush, the descriptor is made readable. When it
 * declines for good, those end with its error and so does every later one, as what is in the ring
 * cannot be taken back. */
#include "io/aio.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "io/file.h"
#include "io/sync.h"

#define THREADS_MAX    8
#define DECLINED_PAUSE SKY_MS(1)

typedef struct {
    sky_aio_request request;
    uint32_t done; /* bytes of it */
} flight;

/* First in, first out; never holds more than `depth` numbers. */
typedef struct {
    uint32_t *slots;
    uint32_t first;
    uint32_t count;
} fifo;

typedef struct {
    void (*start)(sky_aio *a, uint32_t number);
    void (*flush)(sky_aio *a);
    bool (*take)(sky_aio *a, uint32_t *number, int *result);
    void (*close)(sky_aio *a);
    const char *name;
} backend;

struct sky_aio {
    const backend *backend;
    uint32_t depth;
    uint32_t free_count;
    uint32_t *free_list;
    flight *flights;
    int event;

    fifo waiting;
    fifo finished;
    int *results; /* [depth] */

    struct io_uring ring;
    int broken; /* minus the errno with which the kernel declined for good */

    /* Threads: guards all but what is above the fifos. */
    sky_mutex mutex;
    sky_condition changed;
    sky_thread threads[THREADS_MAX];
    uint32_t thread_count;
    bool closing;
};

static void fifo_push(fifo *f, uint32_t depth, uint32_t number) {
    f->slots[(f->first + f->count++) % depth] = number;
}

static uint32_t fifo_pop(fifo *f, uint32_t depth) {
    uint32_t number = f->slots[f->first];
    f->first = (f->first + 1) % depth;
    f->count--;
    return number;
}

static bool moves_bytes(sky_aio_op op) {
    return op == SKY_AIO_READ || op == SKY_AIO_WRITE;
}

/* The part of a request that is still to be done. */
static sky_aio_request rest_of(const flight *f) {
    sky_aio_request r = f->request;
    if (moves_bytes(r.op)) {
        r.data = (uint8_t *)r.data + f->done;
        r.bytes -= f->done;
        r.offset += f->done;
    }
    return r;
}

/* ---- io_uring ---- */

static void ring_fail(sky_aio *a, uint32_t number) {
    a->results[number] = a->broken;
    fifo_push(&a->finished, a->depth, number);
    sky_event_raise(a->event);
}

static void ring_start(sky_aio *a, uint32_t number) {
    if (a->broken) {
        ring_fail(a, number);
        return;
    }
    struct io_uring_sqe *sqe = io_uring_get_sqe(&a->ring);
    assert(sqe);
    fifo_push(&a->waiting, a->depth, number);
    sky_aio_request r = rest_of(&a->flights[number]);
    if (r.op == SKY_AIO_READ)
        io_uring_prep_read(sqe, r.fd, r.data, r.bytes, r.offset);
    else if (r.op == SKY_AIO_WRITE)
        io_uring_prep_write(sqe, r.fd, r.data, r.bytes, r.offset);
    else
        io_uring_prep_fsync(sqe, r.fd, r.op == SKY_AIO_SYNC_DATA ? IORING_FSYNC_DATASYNC : 0);
    io_uring_sqe_set_data64(sqe, number);
}

static void ring_flush(sky_aio *a) {
    if (a->waiting.count == 0)
        return;
    int taken;
    do
        taken = io_uring_submit(&a->ring);
    while (taken == -EINTR);
    for (int i = 0; i < taken; i++)
        fifo_pop(&a->waiting, a->depth);
    if (taken < 0 && taken != -EAGAIN && taken != -EBUSY) {
        a->broken = taken;
        while (a->waiting.count > 0)
            ring_fail(a, fifo_pop(&a->waiting, a->depth));
    } else if (a->waiting.count > 0 && a->waiting.count + a->free_count == a->depth) {
        nanosleep(&(struct timespec){.tv_nsec = DECLINED_PAUSE}, NULL);
        sky_event_raise(a->event); /* else the results of others do */
    }
}

static bool ring_take(sky_aio *a, uint32_t *number, int *result) {
    if (a->finished.count > 0) {
        *number = fifo_pop(&a->finished, a->depth);
        *result = a->results[*number];
        return true;
    }
    struct io_uring_cqe *cqe;
    if (io_uring_peek_cqe(&a->ring, &cqe) != 0)
        return false;
    *number = (uint32_t)io_uring_cqe_get_data64(cqe);
    *result = cqe->res;
    io_uring_cqe_seen(&a->ring, cqe);
    return true;
}

static void ring_close(sky_aio *a) {
    io_uring_queue_exit(&a->ring);
}

static const backend ring_backend = {ring_start, ring_flush, ring_take, ring_close, "io_uring"};

static bool ring_open(sky_aio *a) {
    const char *wanted = sky_environment("SKYMEM_IO");
    if (wanted && strcmp(wanted, "threads") == 0)
        return false;
    if (io_uring_queue_init(a->depth, &a->ring, 0) != 0)
        return false;
    struct io_uring_probe *probe = io_uring_get_probe_ring(&a->ring);
    bool able = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                io_uring_opcode_supported(probe, IORING_OP_WRITE) &&
                io_uring_opcode_supported(probe, IORING_OP_FSYNC);
    io_uring_free_probe(probe);
    if (able)
        able = io_uring_register_eventfd(&a->ring, a->event) == 0;
    if (!able)
        io_uring_queue_exit(&a->ring);
    return able;
}

/* ---- threads ---- */

static int request_run(const sky_aio_request *r) {
    ssize_t rc;
    do {
        if (r->op == SKY_AIO_READ)
            rc = pread(r->fd, r->data, r->bytes, (off_t)r->offset);
        else if (r->op == SKY_AIO_WRITE)
            rc = pwrite(r->fd, r->data, r->bytes, (off_t)r->offset);
        else
            rc = r->op == SKY_AIO_SYNC_DATA ? fdatasync(r->fd) : fsync(r->fd);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : (int)rc;
}

static void *thread_body(void *argument) {
    sky_aio *a = argument;
    sky_mutex_lock(&a->mutex);
    for (;;) {
        while (a->waiting.count == 0 && !a->closing)
            sky_condition_wait(&a->changed, &a->mutex, SKY_TIME_NEVER);
        if (a->waiting.count == 0)
            break;
        uint32_t number = fifo_pop(&a->waiting, a->depth);
        sky_aio_request r = rest_of(&a->flights[number]);
        sky_mutex_unlock(&a->mutex);
        int result = request_run(&r);
        sky_mutex_lock(&a->mutex);
        a->results[number] = result;
        if (a->finished.count == 0)
            sky_event_raise(a->event);
        fifo_push(&a->finished, a->depth, number);
    }
    sky_mutex_unlock(&a->mutex);
    return NULL;
}

static void threads_start(sky_aio *a, uint32_t number) {
    sky_mutex_lock(&a->mutex);
    fifo_push(&a->waiting, a->depth, number);
    sky_condition_broadcast(&a->changed);
    sky_mutex_unlock(&a->mutex);
}

static void threads_flush(sky_aio *a) {
    (void)a;
}

static bool threads_take(sky_aio *a, uint32_t *number, int *result) {
    sky_mutex_lock(&a->mutex);
    bool any = a->finished.count > 0;
    if (any) {
        *number = fifo_pop(&a->finished, a->depth);
        *result = a->results[*number];
    }
    sky_mutex_unlock(&a->mutex);
    return any;
}

static void threads_close(sky_aio *a) {
    sky_mutex_lock(&a->mutex);
    a->closing = true;
    sky_condition_broadcast(&a->changed);
    sky_mutex_unlock(&a->mutex);
    for (uint32_t i = 0; i < a->thread_count; i++)
        sky_thread_join(&a->threads[i]);
}

static const backend threads_backend = {threads_start, threads_flush, threads_take, threads_close,
                                        "threads"};

/* One thread will do when the system gives no more. */
static bool threads_open(sky_aio *a) {
    uint32_t wanted = a->depth < THREADS_MAX ? a->depth : THREADS_MAX;
    while (a->thread_count < wanted) {
        sky_thread *t = &a->threads[a->thread_count];
        if (sky_thread_start(t, "skymem-io", thread_body, a) != SKY_OK)
            break;
        a->thread_count++;
    }
    return a->thread_count > 0;
}

/* ---- both ---- */

static void aio_release(sky_aio *a) {
    sky_event_close(a->event);
    sky_condition_deinit(&a->changed);
    sky_mutex_deinit(&a->mutex);
    free(a->free_list);
    free(a->flights);
    free(a->waiting.slots);
    free(a->finished.slots);
    free(a->results);
    free(a);
}

sky_status sky_aio_create(uint32_t depth, sky_aio **out) {
    if (depth == 0 || depth > SKY_AIO_DEPTH_MAX)
        return SKY_E_PARAM;
    sky_aio *a = calloc(1, sizeof *a);
    if (!a)
        return SKY_E_NOMEM;
    sky_status status = SKY_E_NOMEM;
    a->depth = depth;
    a->event = SKY_FILE_NONE;
    sky_mutex_init(&a->mutex);
    sky_condition_init(&a->changed);
    a->free_list = calloc(depth, sizeof *a->free_list);
    a->flights = calloc(depth, sizeof *a->flights);
    a->waiting.slots = calloc(depth, sizeof *a->waiting.slots);
    a->finished.slots = calloc(depth, sizeof *a->finished.slots);
    a->results = calloc(depth, sizeof *a->results);
    if (!a->free_list || !a->flights || !a->waiting.slots || !a->finished.slots || !a->results)
        goto cleanup;
    for (; a->free_count < depth; a->free_count++)
        a->free_list[a->free_count] = a->free_count;
    status = sky_event_create(&a->event);
    if (status != SKY_OK)
        goto cleanup;
    if (ring_open(a))
        a->backend = &ring_backend;
    else if (threads_open(a))
        a->backend = &threads_backend;
    else
        status = SKY_E_NOMEM;
cleanup:
    if (status != SKY_OK)
        aio_release(a);
    else
        *out = a;
    return status;
}

void sky_aio_destroy(sky_aio *a) {
    if (!a)
        return;
    while (a->free_count < a->depth) {
        sky_aio_result ignored;
        sky_aio_flush(a);
        if (sky_aio_reap(a, &ignored, 1) == 0)
            sky_poll(&a->event, 1, SKY_TIME_NEVER);
    }
    a->backend->close(a);
    aio_release(a);
}

const char *sky_aio_backend(const sky_aio *a) {
    return a->backend->name;
}

uint32_t sky_aio_room(const sky_aio *a) {
    return a->free_count;
}

void sky_aio_start(sky_aio *a, const sky_aio_request *request) {
    assert(a->free_count > 0);
    uint32_t number = a->free_list[--a->free_count];
    a->flights[number] = (flight){*request, 0};
    a->backend->start(a, number);
}

void sky_aio_flush(sky_aio *a) {
    a->backend->flush(a);
}

/* True when the flight is over; false when its rest was started again. */
static bool flight_conclude(sky_aio *a, uint32_t number, int result, sky_aio_result *out) {
    flight *f = &a->flights[number];
    bool again = result == -EINTR || result == -EAGAIN;
    if (result > 0 && moves_bytes(f->request.op)) {
        f->done += (uint32_t)result;
        again = f->done < f->request.bytes;
    }
    if (again) {
        a->backend->start(a, number);
        return false;
    }
    sky_status status = result < 0 ? sky_errno_status(-result) : SKY_OK;
    if (result == 0 && f->request.op == SKY_AIO_WRITE && f->done < f->request.bytes)
        status = SKY_E_IO; /* a write that does not move would be repeated for ever */
    *out = (sky_aio_result){f->request.tag, f->done, status};
    return true;
}

size_t sky_aio_reap(sky_aio *a, sky_aio_result *results, size_t max) {
    size_t count = 0;
    uint32_t number;
    int result;
    bool all = false;
    sky_event_clear(a->event);
    while (count < max) {
        all = !a->backend->take(a, &number, &result);
        if (all)
            break;
        if (!flight_conclude(a, number, result, &results[count]))
            continue;
        a->free_list[a->free_count++] = number;
        count++;
    }
    if (!all)
        sky_event_raise(a->event); /* more may wait than there was room for */
    a->backend->flush(a);
    return count;
}

int sky_aio_event_fd(const sky_aio *a) {
    return a->event;
}

/* ---- buffers ---- */

sky_status sky_buffers_init(sky_buffers *b, uint32_t count, size_t bytes_each) {
    assert(count > 0 && bytes_each > 0 && bytes_each % SKY_BUFFER_ALIGN == 0);
    void *base = mmap(NULL, count * bytes_each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    uint32_t *free_list = malloc(count * sizeof *free_list);
    if (base == MAP_FAILED || !free_list) {
        if (base != MAP_FAILED)
            munmap(base, count * bytes_each);
        free(free_list);
        return SKY_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        free_list[i] = count - 1 - i; /* the lowest first: few buffers in use touch few pages */
    *b = (sky_buffers){base, bytes_each, count, count, free_list};
    return SKY_OK;
}

void sky_buffers_deinit(sky_buffers *b) {
    if (b->base)
        munmap(b->base, b->count * b->bytes_each);
    free(b->free_list);
    *b = (sky_buffers){0};
}

uint32_t sky_buffers_take(sky_buffers *b) {
    return b->free_count > 0 ? b->free_list[--b->free_count] : SKY_BUFFER_NONE;
}

void sky_buffers_give(sky_buffers *b, uint32_t buffer) {
    assert(buffer < b->count && b->free_count < b->count);
    b->free_list[b->free_count++] = buffer;
}
