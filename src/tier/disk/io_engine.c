#include "tier/disk/io_engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/aio.h"
#include "io/file.h"
#include "tier/disk/read.h"
#include "tier/disk/seal.h"

#define NO_PIECE        SKY_BUFFER_NONE
#define SYNC_TAG        SKY_DISK_BUFFERS /* tags from here on: the sync of job tag - SYNC_TAG */
#define RESULTS_AT_ONCE 16

/* A buffer under way, for the file's bytes [offset, offset + bytes). */
typedef struct {
    sky_disk_job *job;
    uint64_t offset;
    uint32_t bytes;
    uint32_t after; /* the job's next piece */
    bool landed;
    sky_status status;
} piece;

/* First in, first out, linked through the jobs. */
typedef struct {
    sky_disk_job *first;
    sky_disk_job *last;
} job_list;

struct sky_disk_io_engine {
    sky_batches *batches;
    const sky_disk_folder *folder;
    sky_disk_done_fn done;
    void *context;
    sky_aio *aio;
    sky_buffers buffers;
    piece pieces[SKY_DISK_BUFFERS];
    sky_disk_job *syncing[SKY_DISK_JOBS];
    bool segment_syncing[SKY_SEGMENTS_MAX];
    job_list lists[3];            /* by sky_disk_move */
    uint32_t pieces_under_way[2]; /* of reads, of writes */
};

static_assert(SKY_DISK_PIECE_BYTES % SKY_DISK_PAGE_BYTES_MIN == 0,
              "a page ends where a piece ends, or the other way round");

sky_status sky_disk_io_engine_create(sky_batches *batches, const sky_disk_folder *folder,
                                     sky_disk_done_fn done, void *context,
                                     sky_disk_io_engine **out) {
    sky_disk_io_engine *m = calloc(1, sizeof *m);
    if (!m)
        return SKY_E_NOMEM;
    m->batches = batches;
    m->folder = folder;
    m->done = done;
    m->context = context;
    sky_status status = sky_buffers_init(&m->buffers, SKY_DISK_BUFFERS,
                                         SKY_DISK_HEADER_BYTES + SKY_DISK_PIECE_BYTES);
    if (status == SKY_OK)
        status = sky_aio_create(SKY_DISK_BUFFERS + SKY_DISK_JOBS, &m->aio);
    if (status == SKY_OK)
        *out = m;
    else
        sky_disk_io_engine_destroy(m);
    return status;
}

void sky_disk_io_engine_destroy(sky_disk_io_engine *m) {
    if (!m)
        return;
    sky_aio_destroy(m->aio);
    sky_buffers_deinit(&m->buffers);
    free(m);
}

int sky_disk_io_engine_event_fd(const sky_disk_io_engine *m) {
    return sky_aio_event_fd(m->aio);
}

const char *sky_disk_io_engine_backend(const sky_disk_io_engine *m) {
    return sky_aio_backend(m->aio);
}

/* ---- pieces ---- */

static void start_piece(sky_disk_io_engine *m, sky_disk_job *job, uint32_t buffer, uint8_t *data,
                        uint64_t offset, uint32_t bytes) {
    m->pieces[buffer] = (piece){
        .job = job, .offset = offset, .bytes = bytes, .after = NO_PIECE, .status = SKY_PENDING};
    *(job->piece_first == NO_PIECE ? &job->piece_first
                                   : &m->pieces[job->piece_last].after) = buffer;
    job->piece_last = buffer;
    m->pieces_under_way[job->move]++;
    sky_aio_op op = job->move == SKY_DISK_WRITE ? SKY_AIO_WRITE : SKY_AIO_READ;
    sky_aio_start(m->aio, &(sky_aio_request){.op = op,
                                             .fd = job->entry.fd,
                                             .data = data,
                                             .bytes = bytes,
                                             .offset = job->entry.place.base + offset,
                                             .tag = buffer});
}

/* ---- reading ---- */

static void read_piece(sky_disk_io_engine *m, sky_disk_job *job, uint32_t buffer) {
    uint64_t offset = job->next, end = sky_disk_read_piece_end(job);
    sky_disk_read_advance(job, end);
    start_piece(m, job, buffer, sky_buffers_at(&m->buffers, buffer), offset,
                (uint32_t)(end - offset));
}

/* Read as far as the kernel holds the pages. */
static void read_resident(sky_disk_io_engine *m, sky_disk_job *job) {
    uint32_t buffer = m->folder->seal ? NO_PIECE : sky_buffers_take(&m->buffers);
    sky_status status = SKY_OK;
    if (buffer == NO_PIECE)
        return;
    while (status == SKY_OK && sky_disk_read_unfinished(job)) {
        const sky_item *item = sky_batches_enter(m->batches, job->batch, job->item);
        status = SKY_E_CANCELLED;
        if (item) {
            status = sky_disk_read_resident(m->folder, job, item,
                                            sky_buffers_at(&m->buffers, buffer),
                                            SKY_DISK_HEADER_BYTES + SKY_DISK_PIECE_BYTES);
            sky_batches_leave(m->batches, job->batch);
        }
    }
    sky_buffers_give(&m->buffers, buffer);
    job->status = status == SKY_E_BUSY ? SKY_OK : status;
}

/* Copy what is wanted of payload bytes [at, at + bytes). */
static sky_status copy_out(sky_disk_io_engine *m, sky_disk_job *job, uint64_t at, uint8_t *data,
                           size_t bytes) {
    uint64_t from = at > job->copy_from ? at : job->copy_from;
    uint64_t to = at + bytes < job->copy_to ? at + bytes : job->copy_to;
    if (from >= to)
        return SKY_OK;
    const sky_item *item = sky_batches_enter(m->batches, job->batch, job->item);
    if (!item)
        return SKY_E_CANCELLED;
    sky_disk_move_spans(job, item, data + (from - at), (size_t)(to - from));
    sky_batches_leave(m->batches, job->batch);
    return SKY_OK;
}

static sky_status read_landed(sky_disk_io_engine *m, sky_disk_job *job, const piece *p,
                              uint8_t *data) {
    uint64_t offset = p->offset;
    size_t bytes = p->bytes;
    if (offset == 0) {
        sky_status status = sky_disk_read_header(m->folder, job, data);
        if (status != SKY_OK)
            return status;
        offset += SKY_DISK_HEADER_BYTES;
        data += SKY_DISK_HEADER_BYTES;
        bytes -= SKY_DISK_HEADER_BYTES;
    }
    uint64_t at = offset - SKY_DISK_HEADER_BYTES;
    if (!sky_disk_pages_check(&job->pages, data, bytes))
        return SKY_E_CORRUPT;
    if (m->folder->seal)
        sky_disk_seal_bytes(m->folder->seal, &job->header, at, data, bytes);
    return copy_out(m, job, at, data, bytes);
}

/* ---- writing ---- */

static void plan_write(const sky_disk_io_engine *m, sky_disk_job *job) {
    job->next = SKY_DISK_HEADER_BYTES;
    job->end = SKY_DISK_HEADER_BYTES + job->entry.geometry.padded_bytes;
    sky_disk_pages_begin(&job->pages, &job->header, 0);
    job->pages.tag_key = sky_disk_seal_page_key(m->folder->seal);
}

/* Fill `bytes` bytes of the file from the spans, zeros behind the payload, and sum their pages. */
static sky_status copy_in(sky_disk_io_engine *m, sky_disk_job *job, uint8_t *data, uint32_t bytes) {
    uint64_t at = job->next - SKY_DISK_HEADER_BYTES;
    uint64_t left = job->header.payload_bytes - at;
    uint32_t filled = left < bytes ? (uint32_t)left : bytes;
    const sky_item *item = sky_batches_enter(m->batches, job->batch, job->item);
    if (!item)
        return SKY_E_CANCELLED;
    sky_disk_move_spans(job, item, data, filled);
    sky_batches_leave(m->batches, job->batch);
    memset(data + filled, 0, bytes - filled);
    if (m->folder->seal)
        sky_disk_seal_bytes(m->folder->seal, &job->header, at, data, bytes);
    sky_disk_pages_note(&job->pages, data, bytes);
    return SKY_OK;
}

/* The next piece of the payload; when all page sums are known, the header; both in one when they
 * fit. A buffer has room for a header before the piece. */
static void write_piece(sky_disk_io_engine *m, sky_disk_job *job, uint32_t buffer) {
    uint8_t *header = sky_buffers_at(&m->buffers, buffer);
    uint8_t *data = header + SKY_DISK_HEADER_BYTES;
    uint64_t offset = job->next;
    uint64_t left = job->end - offset;
    uint32_t bytes = left < SKY_DISK_PIECE_BYTES ? (uint32_t)left : SKY_DISK_PIECE_BYTES;
    if (bytes > 0)
        job->status = copy_in(m, job, data, bytes);
    if (job->status != SKY_OK) {
        sky_buffers_give(&m->buffers, buffer);
        return;
    }
    job->next += bytes;
    if (left > 0 && bytes < job->entry.geometry.padded_bytes) {
        start_piece(m, job, buffer, data, offset, bytes);
        return;
    }
    if (m->folder->seal)
        sky_disk_seal_end(m->folder->seal, &job->header);
    sky_disk_header_encode(&job->header, header);
    job->header.checksum = sky_disk_header_checksum(header);
    job->header_started = true;
    if (!sky_disk_in_segment(&job->entry.place)) {
        start_piece(m, job, buffer, header, 0, SKY_DISK_HEADER_BYTES + bytes);
        return;
    }
    /* A copy into the page cache: shorter than the way to another thread and back. */
    job->status = sky_file_write_at(job->entry.fd, header, SKY_DISK_HEADER_BYTES + bytes,
                                    job->entry.place.base);
    sky_buffers_give(&m->buffers, buffer);
}

/* ---- jobs ---- */

static void start_sync(sky_disk_io_engine *m, sky_disk_job *job) {
    uint32_t slot = 0;
    while (m->syncing[slot])
        slot++;
    assert(slot < SKY_DISK_JOBS);
    m->syncing[slot] = job;
    job->phase = SKY_DISK_SYNCING;
    bool data = job->move == SKY_DISK_WRITE || sky_disk_in_segment(&job->entry.place);
    sky_aio_op op = data ? SKY_AIO_SYNC_DATA : SKY_AIO_SYNC;
    sky_aio_start(m->aio,
                  &(sky_aio_request){.op = op, .fd = job->entry.fd, .tag = SYNC_TAG + slot});
    sky_aio_flush(m->aio);
}

/* Move all jobs of a segment from one phase to the next. */
static void change_phase(sky_disk_io_engine *m, const sky_disk_job *first, sky_disk_phase from,
                         sky_disk_phase to) {
    for (sky_disk_job *job = m->lists[SKY_DISK_SYNC].first; job; job = job->after) {
        if (!sky_disk_in_segment(&job->entry.place) || job->phase != from ||
            job->entry.place.segment != first->entry.place.segment)
            continue;
        job->phase = to;
        job->status = first->status;
    }
}

/* The first job was written first, and has an open file of its own since before: what that one is
 * told of lost bytes holds for all that are synced with it. */
void sky_disk_io_engine_sync(sky_disk_io_engine *m) {
    for (sky_disk_job *job = m->lists[SKY_DISK_SYNC].first; job; job = job->after) {
        bool *busy = &m->segment_syncing[job->entry.place.segment];
        if (job->phase != SKY_DISK_UNSYNCED || *busy)
            continue;
        *busy = true;
        change_phase(m, job, SKY_DISK_UNSYNCED, SKY_DISK_SYNCING);
        start_sync(m, job);
    }
}

/* What came back for one sync ends all jobs that it was for. */
static void end_sync(sky_disk_io_engine *m, sky_disk_job *job, sky_status status) {
    job->status = status;
    if (job->move == SKY_DISK_SYNC && sky_disk_in_segment(&job->entry.place)) {
        m->segment_syncing[job->entry.place.segment] = false;
        change_phase(m, job, SKY_DISK_SYNCING, SKY_DISK_OVER);
    }
    job->phase = SKY_DISK_OVER;
}

void sky_disk_io_engine_start(sky_disk_io_engine *m, sky_disk_job *job) {
    job->status = SKY_OK;
    job->bytes = 0;
    job->span = job->span_offset = 0;
    job->piece_first = job->piece_last = NO_PIECE;
    job->phase = SKY_DISK_PIECES;
    job->header_started = false;
    job->after = NULL;
    if (job->move == SKY_DISK_READ) {
        sky_disk_read_plan(job);
        if (m->folder->reads_cached)
            read_resident(m, job);
    } else if (job->move == SKY_DISK_WRITE) {
        plan_write(m, job);
    } else if (sky_disk_in_segment(&job->entry.place)) {
        job->phase = SKY_DISK_UNSYNCED;
    } else {
        start_sync(m, job);
    }
    job_list *list = &m->lists[job->move];
    *(list->first ? &list->last->after : &list->first) = job;
    list->last = job;
}

/* Something of this job is still to be started. */
static bool wants_piece(const sky_disk_job *job) {
    if (job->status != SKY_OK || job->phase != SKY_DISK_PIECES)
        return false;
    if (job->move == SKY_DISK_WRITE)
        return !job->header_started;
    return sky_disk_read_unfinished(job);
}

static void start_reads(sky_disk_io_engine *m) {
    for (sky_disk_job *job = m->lists[SKY_DISK_READ].first; job; job = job->after) {
        while (wants_piece(job) && m->pieces_under_way[SKY_DISK_READ] < SKY_DISK_READ_BUFFERS) {
            uint32_t buffer = sky_buffers_take(&m->buffers);
            if (buffer == NO_PIECE)
                return;
            read_piece(m, job, buffer);
        }
    }
}

/* True when a job is over or failed, and nothing of it is under way that would come back. */
static bool start_writes(sky_disk_io_engine *m) {
    bool over = false;
    for (sky_disk_job *job = m->lists[SKY_DISK_WRITE].first; job; job = job->after) {
        while (wants_piece(job) && m->pieces_under_way[SKY_DISK_WRITE] < SKY_DISK_WRITE_BUFFERS) {
            uint32_t buffer = sky_buffers_take(&m->buffers);
            if (buffer == NO_PIECE)
                return over;
            write_piece(m, job, buffer);
            sky_aio_flush(m->aio); /* the disk works while the next piece is copied */
        }
        over |= !wants_piece(job) && job->phase == SKY_DISK_PIECES && job->piece_first == NO_PIECE;
    }
    return over;
}

/* Deal with the job's pieces that landed, as far as none is missing before them. */
static void settle_pieces(sky_disk_io_engine *m, sky_disk_job *job) {
    while (job->piece_first != NO_PIECE && m->pieces[job->piece_first].landed) {
        uint32_t buffer = job->piece_first;
        const piece *p = &m->pieces[buffer];
        job->piece_first = p->after;
        if (job->status == SKY_OK)
            job->status = p->status;
        if (job->status == SKY_OK && job->move == SKY_DISK_READ)
            job->status = read_landed(m, job, p, sky_buffers_at(&m->buffers, buffer));
        m->pieces_under_way[job->move]--;
        sky_buffers_give(&m->buffers, buffer);
    }
}

static void take_result(sky_disk_io_engine *m, const sky_aio_result *r) {
    if (r->tag >= SYNC_TAG) {
        sky_disk_job *job = m->syncing[r->tag - SYNC_TAG];
        m->syncing[r->tag - SYNC_TAG] = NULL;
        end_sync(m, job, r->status);
        return;
    }
    piece *p = &m->pieces[r->tag];
    p->landed = true;
    p->status = r->status;
    if (p->status == SKY_OK && r->bytes < p->bytes)
        p->status = SKY_E_CORRUPT; /* the file was cut after its size was asked */
    settle_pieces(m, p->job);
}

/* Where the job stands when no piece of it is under way or wanted. */
static void job_advance(sky_disk_io_engine *m, sky_disk_job *job) {
    if (job->phase != SKY_DISK_PIECES || job->piece_first != NO_PIECE || wants_piece(job))
        return;
    bool file = !sky_disk_in_segment(&job->entry.place);
    if (job->move == SKY_DISK_WRITE && job->status == SKY_OK && file)
        start_sync(m, job);
    else
        job->phase = SKY_DISK_OVER;
}

static void advance_all(sky_disk_io_engine *m, job_list *list) {
    sky_disk_job *before = NULL, *job = list->first;
    while (job) {
        sky_disk_job *after = job->after;
        job_advance(m, job);
        if (job->phase == SKY_DISK_OVER) {
            *(before ? &before->after : &list->first) = after;
            if (list->last == job)
                list->last = before;
            m->done(m->context, job);
        } else {
            before = job;
        }
        job = after;
    }
}

void sky_disk_io_engine_pump(sky_disk_io_engine *m) {
    sky_aio_result results[RESULTS_AT_ONCE];
    size_t count;
    while ((count = sky_aio_reap(m->aio, results, RESULTS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++)
            take_result(m, &results[i]);
        start_reads(m); /* keep the disk busy */
        sky_aio_flush(m->aio);
    }
    do {
        for (size_t i = 0; i < sizeof m->lists / sizeof *m->lists; i++)
            advance_all(m, &m->lists[i]);
        start_reads(m);
    } while (start_writes(m));
    sky_aio_flush(m->aio);
}
