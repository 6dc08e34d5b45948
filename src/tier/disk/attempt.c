/* Gets that need no disk: on the caller's thread, what the kernel holds is copied and checked.
 *
 * Handing a small get to the tier's thread and back takes longer than its copy. Whatever stands in
 * the way (a lock that is held, a path or a page that the kernel lacks, damage, a miss) is left to
 * the thread, which judges it. */
#include "io/file.h"
#include "tier/disk/disk.h"
#include "tier/disk/read.h"
#include "tier/spans.h"

/* How much is copied on the caller's thread: beyond it, waking another one costs little. */
#define ATTEMPT_BYTES_MAX SKY_DISK_PIECE_BYTES
/* The header, and a page's end that may be padding. */
#define SCRATCH_BYTES (SKY_DISK_HEADER_BYTES + SKY_DISK_ALIGN)

/* Known, and not past its time, as far as can be told without waiting. */
static bool entry_is_present(sky_disk *d, const sky_key *key) {
    if (!sky_mutex_try_lock(&d->mutex))
        return false;
    const sky_disk_fact *fact = sky_disk_catalogue_find(d->catalogue, key);
    bool there = fact && !sky_disk_expired(d, fact->expire_ms);
    sky_mutex_unlock(&d->mutex);
    return there;
}

static bool read_at_once(const sky_disk *d, sky_disk_job *job, const sky_item *item) {
    uint8_t scratch[SCRATCH_BYTES];
    sky_status status = SKY_OK;
    sky_disk_read_plan(job);
    if (job->end - job->first > ATTEMPT_BYTES_MAX)
        return false;
    while (status == SKY_OK && sky_disk_read_unfinished(job))
        status = sky_disk_read_resident(&d->folder, job, item, scratch, sizeof scratch);
    return status == SKY_OK;
}

/* Count the hit. False when the entry is news to the catalogue, or was replaced meanwhile. */
static bool note_hit(sky_disk *d, const sky_disk_job *job, bool touch) {
    const sky_disk_header *header = &job->header;
    if (sky_disk_expired(d, header->expire_ms) || !sky_mutex_try_lock(&d->mutex))
        return false;
    sky_disk_fact *fact = sky_disk_known(d, header);
    if (fact) {
        if (touch)
            sky_disk_note_use(d, fact);
        sky_disk_count(d, SKY_OP_GET, SKY_OK, job->bytes);
        d->counts.medium_read_bytes += sky_disk_read_bytes(job);
    }
    sky_mutex_unlock(&d->mutex);
    return fact != NULL;
}

bool sky_disk_attempt(sky_tier *tier, sky_item *item, const sky_call *call) {
    sky_disk *d = (sky_disk *)(void *)tier; /* its first member */
    if (!d->folder.reads_cached || d->folder.seal || !entry_is_present(d, &item->key))
        return false;
    if (call && call->deadline_ns != 0 && d->env.clock->now(d->env.clock) >= call->deadline_ns)
        return false;
    sky_disk_job job;
    sky_disk_job_clear(&job, &item->key);
    job.range = item->range;
    job.span_bytes = sky_spans_bytes(item->spans, item->span_count);
    if (sky_disk_entry_open(&d->folder, &job.key, SKY_DISK_AT_ONCE, &job.entry) != SKY_OK)
        return false;
    bool done = read_at_once(d, &job, item) && note_hit(d, &job, !call || !call->no_touch);
    sky_file_close(job.entry.fd);
    if (done) {
        item->status = SKY_OK;
        item->bytes = job.bytes;
        item->tier = d->env.index;
        item->coding = job.header.level;
        item->evict = job.header.evict;
        item->ttl_s = sky_disk_left_s(d, job.header.expire_ms);
        item->pinned = false;
    }
    return done;
}
