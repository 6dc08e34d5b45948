/* The thread of a disk tier.
 *
 *   lookups ─► look, or read job ─────────────────────────────► finish
 *   changes ─► write job ─► I/O engine ─► ready ─┐
 *              REMOVE, PIN, UNPIN ─► ready ─┴─ in order ─► publish ─► (sync folders) ─► finish
 *
 * Changes take effect in the order they were submitted, whatever the disk does: a block is visible
 * only after the blocks before it, a remove undoes the puts before it. Lookups overtake them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "io/file.h"
#include "tier/disk/disk.h"
#include "tier/disk/read.h"
#include "tier/disk/seal.h"
#include "tier/spans.h"

#define CHANGES_MAX     16 /* jobs of the 48; the others read */
#define LOOKUPS_AT_ONCE 64 /* between two looks at what the disk finished */
#define RECORDS_AT_ONCE 64
#define RECORD_EVERY    SKY_SECONDS(60)
#define READ_TRIES      4 /* of a get whose place is used again and again */
#define FOLDERS         3 /* ab/cd, ab, and the root */

typedef struct job {
    sky_disk_job move;
    sky_op op;
    bool durable;
    bool no_touch;
    bool ready;           /* a change that waits for those before it */
    sky_status status;    /* of its preparation */
    sky_disk_claim claim; /* put: its room */
    sky_disk_temp temp;
    uint32_t folders_synced;
    uint32_t tries;    /* get: begun again, as its place in a segment was used again */
    uint32_t left_s;   /* get: how long it will still be kept; 0: without end */
    struct job *after; /* in the order of changes, or among the free */
} job;

struct sky_disk_work {
    sky_disk *disk;
    sky_disk_io_engine *io_engine;
    sky_thread thread;
    job jobs[SKY_DISK_JOBS];
    job *free;
    job *oldest_change; /* in order of arrival, until published */
    job *newest_change;
    uint32_t job_count;         /* in use */
    uint32_t change_count;      /* of these, changes that are not over */
    _Atomic sky_time record_at; /* when uses are written; SKY_TIME_NEVER: none to write */
    uint32_t record_next;       /* where the round through the catalogue stands */
};

/* ---- jobs ---- */

static job *job_take(sky_disk_work *w, const sky_disk_request *r, const sky_key *key) {
    job *j = w->free;
    assert(j);
    w->free = j->after;
    w->job_count++;
    w->change_count += r->op != SKY_OP_GET;
    memset(j, 0, sizeof *j);
    j->op = r->op;
    j->durable = r->durable;
    j->no_touch = r->no_touch;
    j->move.batch = r->batch;
    j->move.item = r->next;
    j->move.key = *key;
    j->move.entry.fd = SKY_FILE_NONE;
    j->move.owner = j;
    return j;
}

/* The answer without its tier, which is this one. */
static void item_finish(sky_disk_work *w, sky_op op, sky_batch batch, size_t item,
                        sky_answer answer) {
    sky_disk *d = w->disk;
    sky_mutex_lock(&d->mutex);
    sky_disk_count(d, op, answer.status, answer.bytes);
    sky_mutex_unlock(&d->mutex);
    answer.tier = answer.status == SKY_OK ? d->env.index : SKY_TIER_NONE;
    answer.bytes = answer.status == SKY_OK ? answer.bytes : 0;
    sky_batches_answer(d->tier.batches, batch, item, &answer);
}

static void job_end(sky_disk_work *w, job *j, sky_status status, uint64_t bytes) {
    sky_disk *d = w->disk;
    sky_file_close(j->move.entry.fd);
    sky_disk_temp_remove(&d->folder, &j->temp);
    sky_mutex_lock(&d->mutex);
    sky_disk_claim_end(d, &j->claim);
    sky_mutex_unlock(&d->mutex);
    item_finish(w, j->op, j->move.batch, j->move.item,
                (sky_answer){.status = status,
                             .bytes = bytes,
                             .coding = j->move.header.level,
                             .evict = j->move.header.evict,
                             .ttl_s = j->left_s});
    w->job_count--;
    w->change_count -= j->op != SKY_OP_GET;
    j->after = w->free;
    w->free = j;
}

/* ---- lookups ----
 * A HAS of many keys is answered from the catalogue, at the price of a stale answer when another
 * process writes here; one of a single key, which a GET of as many bytes may follow, is not. */

void sky_disk_note_use(sky_disk *d, sky_disk_fact *fact) {
    sky_disk_work *w = d->work;
    bool was_offered = fact->offered;
    sky_disk_catalogue_use(d->catalogue, fact, sky_disk_wall_ms(d));
    if (was_offered) /* another is to be evicted in its place */
        sky_disk_offer(d);
    if (w->record_at != SKY_TIME_NEVER)
        return;
    w->record_at = sky_now() + RECORD_EVERY;
    sky_event_raise(d->wake); /* it sleeps without a limit */
}

static void entry_look_up(sky_disk_work *w, const sky_disk_request *r, const sky_key *key) {
    sky_disk *d = w->disk;
    sky_answer answer = {0};
    sky_mutex_lock(&d->mutex);
    if (!d->offers) /* it may have been full when it was opened */
        sky_disk_offer(d);
    sky_disk_fact *fact = r->count == 1 ? sky_disk_look_closely(d, key, &answer.status)
                                        : sky_disk_look(d, key, &answer.status);
    if (fact) {
        answer.bytes = r->op == SKY_OP_HAS ? fact->payload_bytes : 0;
        answer.coding = fact->level;
        answer.evict = fact->evict;
        answer.pinned = fact->pinned;
    }
    sky_mutex_unlock(&d->mutex);
    item_finish(w, r->op, r->batch, r->next, answer);
}

static void job_drop_room(sky_disk *d, const job *j) {
    size_t count;
    sky_disk_header header;
    sky_mutex_lock(&d->mutex);
    if (j->move.entry.fd == SKY_FILE_NONE)
        sky_disk_drop_wanting(d, &j->move.key, &header, &count);
    else
        sky_disk_drop(d, &j->move.key, &j->move.entry, &count);
    sky_mutex_unlock(&d->mutex);
}

/* Open the entry unless its time is over. One that the catalogue knows and that is gone is
 * forgotten. */
static sky_status open_entry(sky_disk *d, job *j) {
    sky_status status = SKY_OK;
    sky_mutex_lock(&d->mutex);
    const sky_disk_fact *fact = sky_disk_catalogue_find(d->catalogue, &j->move.key);
    bool known = fact != NULL;
    if (known && sky_disk_expired(d, fact->expire_ms))
        sky_disk_look(d, &j->move.key, &status); /* another may have stored it anew */
    sky_mutex_unlock(&d->mutex);
    if (status != SKY_OK)
        return status;
    status = sky_disk_entry_open(&d->folder, &j->move.key, SKY_DISK_TO_GET, &j->move.entry);
    if (status == SKY_E_CORRUPT || (status == SKY_MISS && known))
        job_drop_room(d, j);
    return status;
}

static void start_read(sky_disk_work *w, job *j) {
    sky_status status = open_entry(w->disk, j);
    if (status != SKY_OK) {
        job_end(w, j, status, 0);
        return;
    }
    j->move.move = SKY_DISK_READ;
    sky_disk_io_engine_start(w->io_engine, &j->move);
}

static void begin_get(sky_disk_work *w, const sky_disk_request *r, const sky_key *key,
                      sky_range range, uint64_t span_bytes) {
    job *j = job_take(w, r, key);
    j->move.range = range;
    j->move.span_bytes = span_bytes;
    start_read(w, j);
}

uint32_t sky_disk_left_s(const sky_disk *d, int64_t expire_ms) {
    int64_t left_ms = expire_ms - sky_disk_wall_ms(d);
    int64_t left_s = left_ms > 0 ? (left_ms + 999) / 1000 : 1;
    if (expire_ms == 0)
        return 0;
    return left_s < UINT32_MAX ? (uint32_t)left_s : UINT32_MAX;
}

/* The place of an entry in a segment was used again while it was read: it was no damage. */
static bool was_moved(const sky_disk *d, const job *j) {
    return j->move.status == SKY_E_CORRUPT && sky_disk_in_segment(&j->move.entry.place) &&
           sky_disk_entry_replaced(&d->folder, &j->move.key, &j->move.entry);
}

static void end_get(sky_disk_work *w, job *j) {
    sky_disk *d = w->disk;
    sky_status status = j->move.status;
    if (was_moved(d, j)) {
        sky_file_close(j->move.entry.fd);
        j->move.entry = (sky_disk_opened){.fd = SKY_FILE_NONE};
        status = SKY_MISS;
        if (j->tries++ < READ_TRIES) {
            start_read(w, j);
            return;
        }
    }
    if (status == SKY_OK && sky_disk_expired(d, j->move.header.expire_ms))
        status = SKY_MISS;
    if (status == SKY_MISS || status == SKY_E_CORRUPT) {
        job_drop_room(d, j);
    } else if (status == SKY_OK || status == SKY_E_DST_SMALL || status == SKY_E_PARAM) {
        sky_mutex_lock(&d->mutex); /* the header was read, and may be news */
        sky_disk_fact *fact = sky_disk_meet_read(d, &j->move.header);
        if (fact && status == SKY_OK && !j->no_touch)
            sky_disk_note_use(d, fact);
        d->counts.medium_read_bytes += status == SKY_OK ? sky_disk_read_bytes(&j->move) : 0;
        sky_mutex_unlock(&d->mutex);
        if (status == SKY_OK)
            j->left_s = sky_disk_left_s(d, j->move.header.expire_ms);
    }
    job_end(w, j, status, j->move.bytes);
}

/* ---- changes ---- */

static void change_ready(job *j, sky_status status) {
    j->ready = true;
    j->status = status;
}

static sky_status job_reserve(sky_disk_work *w, job *j, uint64_t file_bytes) {
    sky_disk *d = w->disk;
    sky_mutex_lock(&d->mutex);
    j->claim = (sky_disk_claim){
        .key = j->move.key, .parent = j->move.header.parent, .file_bytes = file_bytes};
    sky_status status = sky_disk_claim_room(d, &j->claim);
    const sky_disk_fact *old = sky_disk_catalogue_find(d->catalogue, &j->move.key);
    j->move.header.access = (sky_disk_access){.hits = old ? old->hits : 0,
                                              .used_ms = j->move.header.set_ms,
                                              .pinned = old && old->pinned};
    sky_mutex_unlock(&d->mutex);
    return status;
}

static sky_status try_temp(sky_disk_work *w, job *j, uint64_t file_bytes) {
    return sky_disk_temp_create(&w->disk->folder, &j->move.key, file_bytes, j->durable, &j->temp,
                                &j->move.entry);
}

#define FULL_TRIES 4

/* A disk that is full of other things gets some chances: as much again goes from here, and what
 * segments keep free. */
static sky_status create_temp(sky_disk_work *w, job *j, uint64_t file_bytes) {
    sky_disk *d = w->disk;
    sky_status status = try_temp(w, j, file_bytes);
    for (int i = 0; status == SKY_E_FULL && i < FULL_TRIES; i++) {
        sky_mutex_lock(&d->mutex);
        sky_status evicted = sky_disk_evict(d, &j->claim);
        sky_mutex_unlock(&d->mutex);
        sky_disk_segments_shrink(d->folder.segments);
        if (evicted != SKY_OK && i > 0)
            break;
        status = try_temp(w, j, file_bytes);
    }
    if (status == SKY_E_IO && sky_disk_revive(d))
        status = try_temp(w, j, file_bytes);
    return status;
}

static sky_status check_put(const sky_disk_request *r, const sky_item *item,
                            uint64_t payload_bytes) {
    bool bad_name = item->name && (item->name_bytes == 0 || item->name_bytes > SKY_NAME_BYTES_MAX);
    bool own_parent = sky_key_equal(&item->key, &item->parent);
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return SKY_E_PARAM;
    if (bad_name || own_parent || payload_bytes > SKY_PAYLOAD_BYTES_MAX ||
        r->level > SKY_DISK_LEVEL_MAX || r->evict > SKY_EVICT_LAST)
        return SKY_E_PARAM;
    return SKY_OK;
}

/* All of the header but what depends on the bytes. Called between enter and leave. */
static sky_status header_describe(const sky_disk *d, const sky_disk_request *r,
                                  const sky_item *item, sky_disk_job *move) {
    uint64_t payload_bytes = sky_spans_bytes(item->spans, item->span_count);
    sky_status status = check_put(r, item, payload_bytes);
    if (status != SKY_OK)
        return status;
    uint32_t ttl_s = r->ttl_s ? r->ttl_s : d->ttl_s;
    sky_disk_header *h = &move->header;
    h->key = move->key;
    h->parent = sky_disk_seal_hide(d->folder.seal, &item->parent);
    h->payload_bytes = payload_bytes;
    h->set_ms = sky_disk_wall_ms(d);
    h->expire_ms = ttl_s ? h->set_ms + (int64_t)ttl_s * 1000 : 0;
    h->level = r->level;
    h->evict = r->evict;
    if (item->name) {
        h->name_bytes = (uint32_t)item->name_bytes;
        memcpy(h->name, item->name, item->name_bytes);
    }
    if (d->folder.seal)
        sky_disk_seal_begin(d->folder.seal, h, &item->key, &item->parent);
    move->move = SKY_DISK_WRITE;
    move->entry.geometry = sky_disk_geometry_of(payload_bytes);
    return SKY_OK;
}

static void begin_put(sky_disk_work *w, job *j, sky_status described) {
    sky_status status = described;
    uint64_t file_bytes = SKY_DISK_HEADER_BYTES + j->move.entry.geometry.padded_bytes;
    if (status == SKY_OK && !sky_disk_folder_writable(&w->disk->folder))
        status = SKY_E_DENIED;
    if (status == SKY_OK)
        status = job_reserve(w, j, file_bytes);
    if (status == SKY_OK)
        status = create_temp(w, j, file_bytes);
    if (status == SKY_OK)
        sky_disk_io_engine_start(w->io_engine, &j->move);
    else
        change_ready(j, status);
}

static sky_status job_publish(sky_disk_work *w, job *j) {
    sky_disk *d = w->disk;
    sky_disk_fact fact = sky_disk_fact_of(&j->move.header);
    sky_mutex_lock(&d->mutex);
    j->temp.place.checksum = j->move.header.checksum;
    sky_status status = sky_disk_publish(d, &j->temp, &fact);
    if (status == SKY_OK) {
        if (!sky_disk_in_segment(&j->temp.place))
            sky_file_unlock(j->move.entry.fd); /* a record wants it */
        sky_disk_claim_end(d, &j->claim);
        sky_disk_offer(d);
    }
    sky_mutex_unlock(&d->mutex);
    return status;
}

static sky_status change_pin(sky_disk *d, const job *j) {
    sky_mutex_lock(&d->mutex);
    sky_status status = sky_disk_pin(d, &j->move.key, j->op == SKY_OP_PIN);
    sky_mutex_unlock(&d->mutex);
    return status;
}

static sky_status change_remove(sky_disk *d, const job *j) {
    size_t count;
    sky_status status;
    sky_mutex_lock(&d->mutex);
    if (sky_disk_folder_writable(&d->folder))
        status = sky_disk_drop(d, &j->move.key, NULL, &count);
    else if (sky_disk_look(d, &j->move.key, &status))
        status = SKY_E_DENIED;
    sky_mutex_unlock(&d->mutex);
    return status;
}

/* An entry in a segment is durable once that is synced. */
static void sync_segment(sky_disk_work *w, job *j) {
    j->move.entry.place = j->temp.place;
    j->move.move = SKY_DISK_SYNC;
    sky_disk_io_engine_start(w->io_engine, &j->move);
}

static void end_sync(sky_disk_work *w, job *j, sky_status status) {
    sky_disk *d = w->disk;
    sky_mutex_lock(&d->mutex);
    if (status == SKY_OK)
        status = sky_disk_settle(d, &j->temp, &j->move.key);
    else
        sky_disk_withdraw(d, &j->temp, &j->move.key);
    sky_mutex_unlock(&d->mutex);
    job_end(w, j, status == SKY_OK ? SKY_OK : SKY_E_IO, j->move.header.payload_bytes);
}

/* The folders that lead to the entry, innermost first; the job ends when all are on the disk. */
static void sync_folders(sky_disk_work *w, job *j) {
    sky_disk *d = w->disk;
    char path[SKY_DISK_PATH_BYTES];
    sky_file_close(j->move.entry.fd);
    j->move.entry.fd = SKY_FILE_NONE;
    if (j->folders_synced == FOLDERS || j->status != SKY_OK) {
        job_end(w, j, j->status, j->move.header.payload_bytes);
        return;
    }
    sky_disk_path(&j->move.key, path);
    static const size_t lengths[FOLDERS] = {SKY_DISK_FOLDER_CHARS, 2, 1};
    if (j->folders_synced == FOLDERS - 1)
        path[0] = '.';
    path[lengths[j->folders_synced++]] = '\0';
    j->status = sky_file_open(d->folder.root, path, SKY_FILE_FOLDER, &j->move.entry.fd);
    if (j->status != SKY_OK) { /* it goes only when the entry was evicted before */
        bool evicted = j->status == SKY_MISS;
        job_end(w, j, evicted ? SKY_OK : SKY_E_IO, evicted ? j->move.header.payload_bytes : 0);
        return;
    }
    j->move.move = SKY_DISK_SYNC;
    sky_disk_io_engine_start(w->io_engine, &j->move);
}

static void take_effect(sky_disk_work *w, job *j) {
    sky_disk *d = w->disk;
    sky_status status = j->status;
    uint64_t bytes = 0;
    if (status == SKY_OK && !sky_batches_alive(d->tier.batches, j->move.batch))
        status = SKY_E_DEADLINE; /* or cancelled: then nobody listens any more */
    if (status == SKY_OK && j->op == SKY_OP_PUT) {
        status = job_publish(w, j);
        bytes = j->move.header.payload_bytes;
        if (status == SKY_OK && j->durable) {
            j->status = SKY_OK;
            if (sky_disk_in_segment(&j->temp.place))
                sync_segment(w, j);
            else
                sync_folders(w, j);
            return;
        }
    } else if (status == SKY_OK) {
        status = j->op == SKY_OP_REMOVE ? change_remove(d, j) : change_pin(d, j);
    }
    job_end(w, j, status, bytes);
}

static void publish_ready(sky_disk_work *w) {
    while (w->oldest_change && w->oldest_change->ready) {
        job *j = w->oldest_change;
        w->oldest_change = j->after;
        take_effect(w, j);
    }
}

/* ---- the I/O engine tells ---- */

static void move_done(void *context, sky_disk_job *move) {
    sky_disk_work *w = context;
    job *j = move->owner;
    if (move->move == SKY_DISK_READ) {
        end_get(w, j);
    } else if (move->move == SKY_DISK_WRITE) {
        change_ready(j, move->status);
    } else if (sky_disk_in_segment(&move->entry.place)) {
        end_sync(w, j, move->status);
    } else {
        j->status = move->status;
        sync_folders(w, j);
    }
}

/* ---- requests ---- */

/* Begin item r->next of a lookup. */
static void begin_lookup(sky_disk_work *w, const sky_disk_request *r) {
    sky_disk *d = w->disk;
    const sky_item *item = sky_batches_enter(d->tier.batches, r->batch, r->next);
    if (!item)
        return;
    sky_key key = sky_disk_seal_hide(d->folder.seal, &item->key);
    sky_range range = item->range;
    uint64_t span_bytes = sky_spans_bytes(item->spans, item->span_count);
    sky_batches_leave(d->tier.batches, r->batch);
    if (r->op == SKY_OP_GET)
        begin_get(w, r, &key, range, span_bytes);
    else
        entry_look_up(w, r, &key);
}

static void begin_change(sky_disk_work *w, const sky_disk_request *r) {
    sky_disk *d = w->disk;
    const sky_item *item = sky_batches_enter(d->tier.batches, r->batch, r->next);
    if (!item)
        return;
    sky_key key = sky_disk_seal_hide(d->folder.seal, &item->key);
    job *j = job_take(w, r, &key);
    sky_status status = SKY_OK;
    if (r->op == SKY_OP_PUT)
        status = header_describe(d, r, item, &j->move);
    sky_batches_leave(d->tier.batches, r->batch);
    *(w->oldest_change ? &w->newest_change->after : &w->oldest_change) = j;
    w->newest_change = j;
    if (r->op == SKY_OP_PUT)
        begin_put(w, j, status);
    else
        change_ready(j, status);
}

/* The next item of a queue, or false. What is over is passed over. */
static bool next_item(sky_disk *d, sky_disk_queue *q, sky_disk_request *out) {
    bool found = false;
    sky_mutex_lock(&d->queue_mutex);
    while (q->count > 0 && !found) {
        sky_disk_request *r = &q->requests[q->first];
        found = r->next < r->count && sky_batches_alive(d->tier.batches, r->batch);
        if (found) {
            *out = *r;
            r->next++;
        } else {
            q->first = (q->first + 1) % SKY_BATCHES_MAX;
            q->count--;
        }
    }
    sky_mutex_unlock(&d->queue_mutex);
    return found;
}

static bool lookups_have_room(const sky_disk_work *w) {
    return w->job_count - w->change_count < SKY_DISK_JOBS - CHANGES_MAX;
}

static bool changes_have_room(const sky_disk_work *w) {
    return w->change_count < CHANGES_MAX;
}

/* Begin what there are jobs for, and of either kind only so much that the other has its turn. */
static void begin_requests(sky_disk_work *w) {
    sky_disk *d = w->disk;
    sky_disk_request r;
    for (int begun = 0;
         begun < LOOKUPS_AT_ONCE && lookups_have_room(w) && next_item(d, &d->lookups, &r);
         begun++) {
        begin_lookup(w, &r);
        if (r.op == SKY_OP_GET) /* it may have copied for a while */
            sky_disk_io_engine_pump(w->io_engine);
    }
    for (int begun = 0;
         begun < CHANGES_MAX && changes_have_room(w) && next_item(d, &d->changes, &r); begun++) {
        begin_change(w, &r);
        publish_ready(w);
    }
}

/* ---- the thread ---- */

/* Write uses into the files, a few at a time. */
static void record_uses(sky_disk_work *w, size_t max) {
    sky_disk *d = w->disk;
    sky_disk_fact *fact = NULL;
    size_t count = 0;
    sky_mutex_lock(&d->mutex);
    while (count < max && (fact = sky_disk_catalogue_next(d->catalogue, &w->record_next)) != NULL) {
        if (fact->unrecorded) {
            sky_disk_record_uses(d, fact);
            count++;
        }
        w->record_next++;
    }
    sky_mutex_unlock(&d->mutex);
    if (fact) /* there are more */
        return;
    w->record_next = 0;
    w->record_at = SKY_TIME_NEVER;
}

static bool is_over(sky_disk_work *w) {
    sky_disk *d = w->disk;
    sky_mutex_lock(&d->queue_mutex);
    bool closing = d->closing;
    sky_mutex_unlock(&d->queue_mutex);
    return closing && w->job_count == 0;
}

/* As sky_idle_fn. */
static sky_time idle_until(void *work) {
    sky_disk_work *w = work;
    sky_disk *d = w->disk;
    if (is_over(w))
        return SKY_TIME_OVER;
    sky_mutex_lock(&d->queue_mutex);
    bool more = (d->lookups.count > 0 && lookups_have_room(w)) ||
                (d->changes.count > 0 && changes_have_room(w));
    sky_mutex_unlock(&d->queue_mutex);
    return more ? 0 : w->record_at;
}

static void *work_body(void *argument) {
    sky_disk_work *w = argument;
    const int finished = sky_disk_io_engine_event_fd(w->io_engine);
    do {
        begin_requests(w);
        sky_disk_io_engine_pump(w->io_engine);
        publish_ready(w);
        sky_disk_io_engine_sync(w->io_engine);
        if (w->record_at <= sky_now())
            record_uses(w, RECORDS_AT_ONCE);
    } while (sky_event_wait(w->disk->wake, &finished, 1, idle_until, w));
    w->record_next = 0;
    record_uses(w, SIZE_MAX);
    return NULL;
}

sky_status sky_disk_work_create(sky_disk *d, sky_disk_work **out) {
    sky_disk_work *w = calloc(1, sizeof *w);
    if (!w)
        return SKY_E_NOMEM;
    w->disk = d;
    w->record_at = SKY_TIME_NEVER;
    for (size_t i = 0; i < SKY_DISK_JOBS; i++) {
        w->jobs[i].after = w->free;
        w->free = &w->jobs[i];
    }
    sky_status status = sky_disk_io_engine_create(d->tier.batches, &d->folder, move_done, w,
                                                  &w->io_engine);
    if (status == SKY_OK)
        *out = w;
    else
        free(w);
    return status;
}

sky_status sky_disk_work_start(sky_disk_work *w) {
    return sky_thread_start(&w->thread, "skymem-disk", work_body, w);
}

void sky_disk_work_destroy(sky_disk_work *w) {
    if (!w)
        return;
    sky_thread_join(&w->thread);
    sky_disk_io_engine_destroy(w->io_engine);
    free(w);
}

const char *sky_disk_work_backend(const sky_disk_work *w) {
    return sky_disk_io_engine_backend(w->io_engine);
}
