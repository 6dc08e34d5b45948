#include "tier/disk/read.h"

#include <string.h>

#include "io/file.h"
#include "tier/disk/seal.h"
#include "tier/spans.h"

/* ---- what is wanted ---- */

/* Where the range ends if the payload is as long as it can be. */
static uint64_t range_end(const sky_disk_job *job) {
    uint64_t from = job->range.offset, wanted = job->range.bytes;
    uint64_t padded = job->entry.geometry.padded_bytes;
    if (from == 0 && wanted == 0)
        wanted = SKY_ALL;
    return wanted < padded && from <= padded - wanted ? from + wanted : padded;
}

void sky_disk_job_clear(sky_disk_job *job, const sky_key *key) {
    *job = (sky_disk_job){.move = SKY_DISK_READ, .entry.fd = SKY_FILE_NONE, .key = *key};
}

void sky_disk_read_plan(sky_disk_job *job) {
    const sky_disk_geometry *g = &job->entry.geometry;
    uint64_t from = job->range.offset, to = range_end(job);
    job->next = 0;
    job->first = job->end = SKY_DISK_HEADER_BYTES;
    bool too_long = to > from && to - from > job->span_bytes &&
                    to - from - job->span_bytes >= SKY_DISK_ALIGN;
    if (from >= to || too_long)
        return;
    uint64_t last_page_end = (to + g->page_bytes - 1) / g->page_bytes * g->page_bytes;
    job->first += from / g->page_bytes * g->page_bytes;
    job->end += last_page_end < g->padded_bytes ? last_page_end : g->padded_bytes;
}

static bool header_is_apart(const sky_disk_job *job) {
    return job->next == 0 && job->first > SKY_DISK_HEADER_BYTES;
}

uint64_t sky_disk_read_piece_end(const sky_disk_job *job) {
    uint64_t to = job->next + SKY_DISK_PIECE_BYTES + (job->next == 0 ? SKY_DISK_HEADER_BYTES : 0);
    if (header_is_apart(job))
        return SKY_DISK_HEADER_BYTES;
    return to < job->end ? to : job->end;
}

void sky_disk_read_advance(sky_disk_job *job, uint64_t piece_end) {
    job->next = header_is_apart(job) ? job->first : piece_end;
}

static sky_status resolve_range(const sky_disk_folder *f, sky_disk_job *job) {
    sky_range range;
    sky_status status = sky_range_resolve(job->range, job->header.payload_bytes, &range);
    if (status != SKY_OK)
        return status;
    if (range.bytes > job->span_bytes)
        return SKY_E_DST_SMALL;
    sky_disk_pages_begin(&job->pages, &job->header, job->first - SKY_DISK_HEADER_BYTES);
    job->pages.tag_key = sky_disk_seal_page_key(f->seal);
    job->copy_from = range.offset;
    job->copy_to = range.offset + range.bytes;
    return SKY_OK;
}

sky_status sky_disk_read_header(const sky_disk_folder *f, sky_disk_job *job,
                                uint8_t bytes[SKY_DISK_HEADER_BYTES]) {
    sky_status status = sky_disk_header_check(f, &job->entry, &job->key, bytes, &job->header);
    return status == SKY_OK ? resolve_range(f, job) : status;
}

void sky_disk_move_spans(sky_disk_job *job, const sky_item *item, uint8_t *data, size_t bytes) {
    while (bytes > 0 && job->span < item->span_count) {
        const sky_span *span = &item->spans[job->span];
        size_t left = span->bytes - job->span_offset;
        size_t n = left < bytes ? left : bytes;
        uint8_t *at = (uint8_t *)span->data + job->span_offset;
        if (span->data && job->move == SKY_DISK_READ)
            memcpy(at, data, n);
        else if (span->data)
            memcpy(data, at, n);
        data += n;
        bytes -= n;
        job->bytes += n;
        job->span_offset += n;
        if (n == left) {
            job->span++;
            job->span_offset = 0;
        }
    }
}

/* ---- resident pieces ---- */

/* Where the bytes of a piece go, in the file's order. */
typedef struct {
    sky_span parts[SKY_FILE_PARTS_MAX];
    uint32_t count;
    uint8_t *scratch;
    size_t scratch_left;
} scatter;

/* data NULL: into the scratch. */
static bool scatter_add(scatter *s, void *data, size_t bytes) {
    if (bytes == 0)
        return true;
    if (s->count == SKY_FILE_PARTS_MAX || (!data && bytes > s->scratch_left))
        return false;
    if (!data) {
        data = s->scratch;
        s->scratch += bytes;
        s->scratch_left -= bytes;
    }
    s->parts[s->count++] = (sky_span){data, bytes};
    return true;
}

/* The next `bytes` bytes of the spans; the cursor moves on. */
static bool scatter_spans(scatter *s, sky_disk_job *job, const sky_item *item, size_t bytes) {
    while (bytes > 0 && job->span < item->span_count) {
        const sky_span *span = &item->spans[job->span];
        size_t left = span->bytes - job->span_offset;
        size_t n = left < bytes ? left : bytes;
        uint8_t *at = span->data ? (uint8_t *)span->data + job->span_offset : NULL;
        if (!scatter_add(s, at, n))
            return false;
        bytes -= n;
        job->bytes += n;
        job->span_offset = n == left ? 0 : job->span_offset + n;
        job->span += n == left;
    }
    return bytes == 0;
}

static uint64_t clamp_to(uint64_t value, uint64_t low, uint64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The payload's end is known to a page before the header is read: what may be padding goes to the
 * scratch. */
static uint64_t certain_end(const sky_disk_job *job) {
    uint64_t to = range_end(job), padded = job->entry.geometry.padded_bytes;
    uint64_t certain = padded < SKY_DISK_ALIGN ? 0 : padded - (SKY_DISK_ALIGN - 1);
    if (job->next > 0)
        return job->copy_to;
    return to < certain ? to : certain;
}

/* Payload bytes [at, end) of a piece; those in [from, to) go straight into the spans. */
typedef struct {
    uint64_t at, from, to, end;
} piece_plan;

static piece_plan plan_piece(const sky_disk_job *job, uint64_t file_end) {
    piece_plan p;
    p.at = (job->next == 0 ? SKY_DISK_HEADER_BYTES : job->next) - SKY_DISK_HEADER_BYTES;
    p.end = file_end - SKY_DISK_HEADER_BYTES;
    p.from = clamp_to(job->range.offset, p.at, p.end);
    p.to = clamp_to(certain_end(job), p.from, p.end);
    return p;
}

sky_status sky_disk_read_resident(const sky_disk_folder *f, sky_disk_job *job, const sky_item *item,
                                  uint8_t *scratch, size_t scratch_bytes) {
    scatter s = {.scratch = scratch, .scratch_left = scratch_bytes};
    const uint64_t file_end = sky_disk_read_piece_end(job);
    const piece_plan p = plan_piece(job, file_end);
    const uint64_t bytes_before = job->bytes;
    const size_t span_before = job->span, span_offset_before = job->span_offset;
    const bool first = job->next == 0;
    bool resident = (!first || scatter_add(&s, NULL, SKY_DISK_HEADER_BYTES)) &&
                    scatter_add(&s, NULL, p.from - p.at) &&
                    scatter_spans(&s, job, item, p.to - p.from);
    uint8_t *rest = s.scratch;
    resident = resident && scatter_add(&s, NULL, p.end - p.to) &&
               sky_file_read_resident(job->entry.fd, s.parts, s.count,
                                      job->entry.place.base + job->next);
    if (!resident) {
        job->bytes = bytes_before;
        job->span = span_before;
        job->span_offset = span_offset_before;
        return SKY_E_BUSY;
    }
    sky_status status = first ? sky_disk_read_header(f, job, scratch) : SKY_OK;
    for (uint32_t i = first; i < s.count && status == SKY_OK; i++)
        if (!sky_disk_pages_check(&job->pages, s.parts[i].data, s.parts[i].bytes))
            status = SKY_E_CORRUPT;
    if (status != SKY_OK)
        return status;
    sky_disk_move_spans(job, item, rest, (size_t)(clamp_to(job->copy_to, p.to, p.end) - p.to));
    sky_disk_read_advance(job, file_end);
    return SKY_OK;
}
