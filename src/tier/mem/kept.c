#include "tier/mem/kept.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "io/sync.h"
#include "tier/mem/memory.h"

#define MAGIC           "skymem kept 1"
#define INDEX_BYTES_MAX ((size_t)4 << 30)

/* For a process of this machine and boot: as it lies in memory. */
typedef struct {
    char magic[16];
    uint32_t row_bytes;
    uint32_t segment_count;
    uint64_t segment_bytes;
    uint64_t rows;
    uint64_t checksum; /* of all rows */
} kept_head;

typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t place;
    uint64_t checksum;      /* of the payload; its name and a NUL are behind it */
    uint64_t name_checksum; /* without the NUL */
    int64_t expires_ms;
    uint32_t payload_bytes;
    uint16_t name_bytes; /* 0: none */
    uint8_t coding;
    uint8_t evict;
    uint8_t pinned;
    uint8_t none[7];
} kept_row;
_Static_assert(sizeof(kept_row) == 112, "no gap, whose bytes would be anything");

/* ---- keep ---- */

static void fill_row(const sky__memory *m, uint32_t block, kept_row *out) {
    const sky__memory_entry *e = &m->entries[block];
    sky_block_info info;
    sky_index_info(m->index, block, &info);
    const uint16_t name_bytes = e->named ? e->name_bytes : 0;
    *out = (kept_row){.key = e->key,
                      .parent = e->parent,
                      .place = (uint64_t)(sky__memory_bytes(m, e->extent) - m->region),
                      .checksum = e->checksum,
                      .name_checksum = sky_checksum(
                          sky__memory_bytes(m, e->extent) + e->payload_bytes, name_bytes, 0),
                      .expires_ms = e->expires_ms,
                      .payload_bytes = e->payload_bytes,
                      .name_bytes = name_bytes,
                      .coding = info.coding,
                      .evict = e->evict,
                      .pinned = sky_index_pinned(m->index, block)};
}

/* Those that may be evicted, the next victim first; then the others. Returns how many. */
static uint64_t fill_rows(const sky__memory *m, bool *seen, kept_row *rows) {
    uint64_t count = 0;
    for (uint32_t b = SKY_BLOCK_NONE;
         (b = sky_index_victim_after(m->index, b)) != SKY_BLOCK_NONE;) {
        if (!seen[b])
            fill_row(m, b, &rows[count++]);
        seen[b] = true;
    }
    for (uint32_t b = 0; (b = sky_index_next(m->index, b)) != SKY_BLOCK_NONE; b++)
        if (!seen[b])
            fill_row(m, b, &rows[count++]);
    return count;
}

sky_status sky_memory_tier_keep(sky_tier *tier, int *index) {
    sky__memory *m = sky__memory_of(tier);
    if (!m || !m->shared)
        return SKY_E_UNSUPPORTED;
    sky__memory_lock(m);
    size_t bytes = sizeof(kept_head) + sky_index_count(m->index) * sizeof(kept_row);
    kept_head *h = calloc(1, bytes);
    bool *seen = calloc(sky_index_capacity(m->index), sizeof *seen);
    if (h && seen) {
        *h = (kept_head){.magic = MAGIC,
                         .row_bytes = sizeof(kept_row),
                         .segment_count = m->segments.count,
                         .segment_bytes = m->segments.segment_bytes};
        h->rows = fill_rows(m, seen, (kept_row *)(h + 1));
        h->checksum = sky_checksum(h + 1, h->rows * sizeof(kept_row), 0);
    }
    sky__memory_unlock(m);
    sky_status status = h && seen ? sky_shared_write_once(h, bytes, index) : SKY_E_NOMEM;
    free(seen);
    free(h);
    return status;
}

/* ---- restore ---- */

/* What another process kept. */
typedef struct {
    const sky_memory_kept *kept;
    kept_head *head; /* NULL: there is none */
    const kept_row *rows;
    uint8_t *region; /* its segments, side by side */
    uint64_t region_bytes;
    bool mapped[SKY_SEGMENTS_MAX];
    uint32_t gone; /* segments before this one */
} kept_source;

static bool is_index(const kept_head *h, uint64_t bytes) {
    return bytes >= sizeof *h && memcmp(h->magic, MAGIC, sizeof MAGIC) == 0 &&
           h->row_bytes == sizeof(kept_row) && h->rows <= UINT32_MAX &&
           h->rows == (bytes - sizeof *h) / sizeof(kept_row) && h->segment_count > 0 &&
           h->segment_count <= SKY_SEGMENTS_MAX && h->segment_bytes % sky_pages_unit() == 0 &&
           h->segment_bytes > 0 && h->segment_bytes <= UINT64_MAX / SKY_SEGMENTS_MAX &&
           h->checksum == sky_checksum(h + 1, h->rows * sizeof(kept_row), 0);
}

/* Errors: SKY_E_CORRUPT, SKY_E_NOMEM */
static sky_status read_index(kept_source *o) {
    size_t bytes;
    sky_status status = sky_shared_read_once(o->kept->index, INDEX_BYTES_MAX, (void **)&o->head,
                                             &bytes);
    if (status != SKY_OK)
        return status;
    o->rows = (const kept_row *)(o->head + 1);
    return is_index(o->head, bytes) ? SKY_OK : SKY_E_CORRUPT;
}

static sky_status map_segments(kept_source *o) {
    uint64_t bytes = o->head->segment_bytes;
    o->region_bytes = o->head->segment_count * bytes;
    sky_status status = sky_pages_reserve(o->region_bytes, (void **)&o->region, NULL);
    for (uint32_t i = 0; i < o->head->segment_count && status == SKY_OK; i++)
        o->mapped[i] = sky_shared_is_safe(o->kept->segments[i], bytes) &&
                       sky_shared_map(o->kept->segments[i], o->region + i * bytes, bytes,
                                      SKY_SHARED_READ) == SKY_OK;
    return status;
}

/* Let segments before this one go. */
static void pass_segments(kept_source *o, uint32_t end) {
    for (; o->gone < end; o->gone++) {
        uint32_t i = o->gone;
        if (o->mapped[i])
            (void)sky_shared_unmap(o->region + i * o->head->segment_bytes, o->head->segment_bytes);
        sky_local_close(o->kept->segments[i]);
        if (o->kept->segments[i] >= 0 && o->kept->gone)
            o->kept->gone(o->kept->context, i);
    }
}

/* All of it lies in segments that are there. */
static bool lies_somewhere(const kept_source *o, const kept_row *r) {
    uint64_t bytes = (uint64_t)r->payload_bytes + r->name_bytes;
    if (bytes > o->region_bytes || r->place > o->region_bytes - bytes)
        return false;
    uint64_t last = bytes > 0 ? r->place + bytes - 1 : r->place;
    for (uint64_t i = r->place / o->head->segment_bytes; bytes > 0; i++) {
        if (!o->mapped[i])
            return false;
        if (i == last / o->head->segment_bytes)
            break;
    }
    return true;
}

static sky_status answer_one(sky_tier *tier, sky_op op, sky_item *item, const sky_call *call) {
    tier->ops->answer(tier, op, item, 1, call);
    return item->status;
}

static bool is_whole(const kept_source *o, const kept_row *r) {
    if (!lies_somewhere(o, r))
        return false;
    const uint8_t *payload = o->region + r->place;
    return sky_checksum(payload, r->payload_bytes, 0) == r->checksum &&
           sky_checksum(payload + r->payload_bytes, r->name_bytes, 0) == r->name_checksum;
}

static bool has_ended(const kept_row *r, int64_t now_ms) {
    return r->expires_ms != 0 && r->expires_ms <= now_ms;
}

static void restore_row(const sky__memory *m, sky_tier *tier, const kept_source *o,
                        const kept_row *r, sky_memory_restored *out) {
    const int64_t now_ms = m->env.clock->wall_ms(m->env.clock);
    if (!is_whole(o, r)) {
        out->lost++;
        return;
    }
    if (has_ended(r, now_ms)) { /* since they were chosen */
        out->ended++;
        return;
    }
    const uint8_t *payload = o->region + r->place;
    sky_span span = {(void *)payload, r->payload_bytes};
    sky_item item = {.key = r->key,
                     .parent = r->parent,
                     .spans = &span,
                     .span_count = 1,
                     .name = r->name_bytes ? (const char *)payload + r->payload_bytes : NULL,
                     .name_bytes = r->name_bytes};
    sky_call call = {.coding = r->coding, .evict = r->evict};
    if (r->expires_ms != 0) {
        int64_t left_s = (r->expires_ms - now_ms - 1) / 1000 + 1;
        call.ttl_s = left_s < UINT32_MAX ? (uint32_t)left_s : UINT32_MAX;
    }
    sky_status status = answer_one(tier, SKY_OP_PUT, &item, &call);
    if (status == SKY_OK && r->pinned)
        (void)answer_one(tier, SKY_OP_PIN, &item, &call);
    out->entries += status == SKY_OK;
    out->bytes += status == SKY_OK ? r->payload_bytes : 0;
    out->left_out += status == SKY_E_FULL;
    out->lost += status != SKY_OK && status != SKY_E_FULL;
}

static int by_place(const void *a, const void *b, void *rows) {
    const kept_row *r = rows;
    uint64_t x = r[*(const uint32_t *)a].place, y = r[*(const uint32_t *)b].place;
    return (x > y) - (x < y);
}

/* Those that would be evicted last, as many as there is room for; none whose time is over. Returns
 * how many. */
static uint32_t choose_rows(const sky__memory *m, const kept_source *o, uint32_t *chosen,
                            sky_memory_restored *out) {
    const int64_t now_ms = m->env.clock->wall_ms(m->env.clock);
    uint64_t room = m->units;
    uint32_t count = 0;
    for (uint64_t i = o->head->rows; i-- > 0 && count < sky_index_capacity(m->index);) {
        const kept_row *r = &o->rows[i];
        if (has_ended(r, now_ms)) {
            out->ended++;
            continue;
        }
        uint64_t bytes = (uint64_t)r->payload_bytes + (r->name_bytes ? r->name_bytes + 1u : 0);
        uint64_t units = sky__memory_units(m, bytes);
        if (units > room)
            continue;
        room -= units;
        chosen[count++] = (uint32_t)i;
    }
    return count;
}

/* ---- several threads, as most of the time goes to pages that the kernel has to clear ---- */

#define THREADS_MAX 8u

/* Rows [next, end) of order, all in one segment. */
typedef struct {
    sky_tier *tier;
    const kept_source *source;
    const uint32_t *order;
    _Atomic uint32_t next;
    uint32_t end;
} kept_rows;

typedef struct {
    sky_thread thread;
    kept_rows *rows;
    sky_memory_restored out;
} kept_worker;

static void *restore_some(void *argument) {
    kept_worker *w = argument;
    kept_rows *r = w->rows;
    for (uint32_t i; (i = r->next++) < r->end;)
        restore_row(sky__memory_of(r->tier), r->tier, r->source, &r->source->rows[r->order[i]],
                    &w->out);
    return NULL;
}

static void restore_segment(kept_rows *rows, sky_memory_restored *out) {
    kept_worker workers[THREADS_MAX] = {0};
    const uint32_t cpus = sky_cpu_count(), most = rows->end - rows->next;
    uint32_t count = cpus < THREADS_MAX ? cpus : THREADS_MAX;
    count = count < most ? count : most;
    for (uint32_t i = 0; i < count; i++) {
        workers[i].rows = rows;
        if (i > 0) /* one that does not start leaves its share to the others */
            (void)sky_thread_start(&workers[i].thread, "skymem restore", restore_some, &workers[i]);
    }
    restore_some(&workers[0]);
    for (uint32_t i = 0; i < count; i++) {
        sky_thread_join(&workers[i].thread);
        out->entries += workers[i].out.entries;
        out->bytes += workers[i].out.bytes;
        out->ended += workers[i].out.ended;
        out->left_out += workers[i].out.left_out;
        out->lost += workers[i].out.lost;
    }
}

static uint64_t segment_of(const kept_source *o, uint32_t row) {
    return o->rows[row].place / o->head->segment_bytes;
}

/* By place, so that segments go one after the other. Errors: SKY_E_NOMEM */
static sky_status restore_rows(sky_tier *tier, kept_source *o, sky_memory_restored *out) {
    uint32_t *order = malloc((o->head->rows + 1) * sizeof *order);
    if (!order)
        return SKY_E_NOMEM;
    uint32_t count = choose_rows(sky__memory_of(tier), o, order, out);
    out->left_out = o->head->rows - count - out->ended;
    qsort_r(order, count, sizeof *order, by_place, (void *)o->rows);
    for (uint32_t i = 0, end = 0; i < count; i = end) {
        uint64_t segment = segment_of(o, order[i]);
        while (end < count && segment_of(o, order[end]) == segment)
            end++;
        pass_segments(o, segment < o->head->segment_count ? (uint32_t)segment : o->gone);
        restore_segment(&(kept_rows){tier, o, order, i, end}, out);
    }
    free(order);
    return SKY_OK;
}

/* What would have been evicted first is used first. */
static void restore_order(sky_tier *tier, const kept_source *o) {
    const sky_call call = {0};
    for (uint64_t i = 0; i < o->head->rows; i++) {
        sky_item item = {.key = o->rows[i].key};
        (void)answer_one(tier, SKY_OP_PREFETCH, &item, &call);
    }
}

sky_status sky_memory_tier_restore(sky_tier *tier, const sky_memory_kept *kept,
                                   sky_memory_restored *out) {
    kept_source o = {.kept = kept};
    *out = (sky_memory_restored){0};
    sky_status status = sky__memory_of(tier) ? read_index(&o) : SKY_E_UNSUPPORTED;
    if (status == SKY_OK)
        status = map_segments(&o);
    if (status == SKY_OK)
        status = restore_rows(tier, &o, out);
    if (status == SKY_OK)
        restore_order(tier, &o);
    pass_segments(&o, SKY_SEGMENTS_MAX);
    sky_pages_release(o.region, o.region_bytes);
    free(o.head);
    sky_local_close(kept->index);
    return status;
}
