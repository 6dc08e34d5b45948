/* Blocks in memory of a program's own: skymem/blob.h. A blob has a connection to the host for
 * itself; one call after the other talks over it.
 *
 * Surprise: an answer may come after its caller gave up. The host takes back what it lent then, as
 * it hears that nobody waits, and the answer is not looked at. */
#include "tier/shm/blob_state.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "io/clock.h"
#include "io/fork.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "tier/shm/place.h"
#include "tier/spans.h"

#define CONNECT_NS    SKY_SECONDS(5)
#define PAGE_BYTES    4096u
#define EXTENTS_MAX   (1u << 20)
#define REMOVE_NS     ((sky_time)50000) /* from one question to the next, and the longest */
#define REMOVE_NS_MAX SKY_MS(5)
#define AT_ONCE       16u /* blocks of a put whose answers are out */

_Static_assert(SKY_BLOCK_BUFFERS_MAX == SKY_SHM_BUFFERS_MAX, "what a frame's reader takes");

sky_status sky__blob_check(const sky_blob *b) {
    if (!b)
        return SKY_E_PARAM;
    return b->forks == sky_forks() ? SKY_OK : SKY_E_FORKED;
}

/* ---- regions that are read ---- */

static void region_free(sky__blob_region *r) {
    sky_local_close(r->fd);
    sky_pages_release(r->at, r->bytes);
    free(r);
}

static sky__blob_region *find_region(const sky_blob *b, uint32_t number) {
    sky__blob_region *r = b->regions;
    while (r && r->number != number)
        r = r->next;
    return r;
}

/* Unmap what is gone and not read. */
static void sweep_regions(sky_blob *b) {
    for (sky__blob_region **at = &b->regions; *at;) {
        sky__blob_region *r = *at;
        if (!r->gone || r->blocks > 0) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        region_free(r);
    }
}

static sky_status take_region(sky_blob *b, const sky_shm_frame *f, int passed) {
    if (passed < 0 || find_region(b, f->region) || !sky_shared_is_safe(passed, f->region_bytes))
        return SKY_E_CORRUPT;
    sky__blob_region *r = calloc(1, sizeof *r);
    if (!r)
        return SKY_E_NOMEM;
    *r = (sky__blob_region){.number = f->region, .fd = -1, .bytes = f->region_bytes};
    sky_status status = sky_pages_reserve(r->bytes, (void **)&r->at, NULL);
    if (status == SKY_OK)
        status = sky_shared_map(passed, r->at, r->bytes, SKY_SHARED_READ);
    if (status == SKY_OK && (r->fd = sky_local_duplicate(passed)) < 0)
        status = SKY_E_NOMEM;
    if (status != SKY_OK) {
        region_free(r);
        return status;
    }
    r->next = b->regions;
    b->regions = r;
    return SKY_OK;
}

static sky_status forget_region(sky_blob *b, uint32_t number) {
    sky__blob_region *r = find_region(b, number);
    if (!r)
        return SKY_E_CORRUPT;
    r->gone = true;
    sweep_regions(b);
    return SKY_OK;
}

/* ---- talk ---- */

/* The host takes back the leases and withdraws the blocks of a connection that ends, so none is
 * left open that is of no use any more. */
static void blob_break(sky_blob *b) {
    if (!b->broken)
        sky__shm_link_cut(b->link);
    b->broken = true;
}

static sky_status blob_send(sky_blob *b, const sky_shm_frame *f) {
    sky_status status = b->broken ? SKY_E_IO : sky__shm_link_send(b->link, f);
    if (status != SKY_OK)
        blob_break(b);
    return status;
}

static sky_status send_block_op(sky_blob *b, sky_shm_block_op op, uint32_t id, const sky_key *key,
                                uint64_t lease) {
    sky_shm_frame f; /* not zeroed: it is large, and this is done for each get */
    f.kind = SKY_SHM_BLOCK;
    f.id = id;
    f.count = 0;
    f.block_op = op;
    f.key = *key;
    f.lease = lease;
    return blob_send(b, &f);
}

static void return_lease(sky_blob *b, uint64_t lease) {
    static const sky_key none;
    (void)send_block_op(b, SKY_SHM_BLOCK_RELEASE, 0, &none, lease);
}

/* What is no answer to the caller. Errors: SKY_E_CORRUPT, SKY_E_NOMEM */
static sky_status take_aside(sky_blob *b, const sky_shm_frame *f, int passed) {
    if (f->kind == SKY_SHM_REGION)
        return take_region(b, f, passed);
    if (f->kind == SKY_SHM_REGION_GONE)
        return forget_region(b, f->region);
    return f->kind == SKY_SHM_LAYOUT || f->kind == SKY_SHM_ANSWERED || f->kind == SKY_SHM_REGISTERED
               ? SKY_OK
               : SKY_E_CORRUPT;
}

/* The next frame that answers `id`. Errors: SKY_E_DEADLINE; SKY_E_IO, SKY_E_CORRUPT, SKY_E_NOMEM:
 * the connection is broken */
static sky_status blob_await(sky_blob *b, uint32_t id, sky_time until, sky_shm_frame *out) {
    sky_status status = b->broken ? SKY_E_IO : SKY_OK;
    while (status == SKY_OK) {
        int passed = -1;
        status = sky__shm_link_await(b->link, until, out, &passed);
        if (status == SKY_MISS && sky_now() >= until)
            return SKY_E_DEADLINE;
        if (status == SKY_MISS) {
            status = SKY_OK;
            continue;
        }
        bool answers = status == SKY_OK && out->id == id && out->kind != SKY_SHM_REGION &&
                       out->kind != SKY_SHM_REGION_GONE;
        if (status == SKY_OK && !answers)
            status = take_aside(b, out, passed);
        sky_local_close(passed);
        if (answers)
            return SKY_OK;
    }
    blob_break(b);
    return status;
}

/* How what has this id ended. */
static sky_status await_answer(sky_blob *b, uint32_t id, sky_time until) {
    sky_shm_frame f;
    sky_status status = blob_await(b, id, until, &f);
    if (status != SKY_OK)
        return status;
    if (f.kind == SKY_SHM_ANSWERED && f.status != SKY_PENDING)
        return f.status;
    blob_break(b);
    return SKY_E_CORRUPT;
}

/* ---- open, close ---- */

static sky_status make_own(sky_blob *b, const sky_blob_options *o, int *fd, sky_error *error) {
    const bool given = o->fd > 0;
    b->own_bytes = given ? o->bytes : (o->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    const uint64_t pages = b->own_bytes / PAGE_BYTES;
    if (b->own_bytes < o->bytes || pages > UINT32_MAX / 2)
        return sky_fail(error, SKY_E_PARAM, "a region of %llu bytes is larger than 8 TiB",
                        (unsigned long long)o->bytes);
    sky_status status = sky_pages_reserve(b->own_bytes, (void **)&b->own, NULL);
    if (status != SKY_OK)
        return sky_fail(error, status, "no room for a region of %llu bytes",
                        (unsigned long long)o->bytes);
    *fd = given ? sky_local_duplicate(o->fd) : -1;
    if (given && *fd < 0)
        return sky_fail(error, SKY_E_PARAM, "descriptor %d is not open, or none is left", o->fd);
    status = given ? sky_shared_adopt(*fd, b->own, b->own_bytes)
                   : sky_shared_make(b->own, b->own_bytes, SKY_SHARED_READ, fd);
    if (status != SKY_OK)
        return sky_fail(error, status,
                        given ? "descriptor %d is no memfd of %llu bytes that can be sealed; make "
                                "it with MFD_ALLOW_SEALING and without MFD_HUGETLB"
                              : "no memory for a region (%d) of %llu bytes",
                        o->fd, (unsigned long long)o->bytes);
    b->extents = calloc(pages + 1, sizeof *b->extents);
    const uint32_t extents = pages < EXTENTS_MAX / 2 ? 2 * (uint32_t)pages + 1 : EXTENTS_MAX;
    if (!b->extents || (pages > 0 && sky_arena_create((uint32_t)pages, extents, &b->places) < 0))
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    return SKY_OK;
}

static sky_status register_own(sky_blob *b, const sky_blob_options *o, sky_error *error) {
    int fd = -1;
    const sky_time until = sky_now() + CONNECT_NS;
    const sky_shm_frame ask = {.kind = SKY_SHM_REGISTER, .id = ++b->ids, .region_bytes = o->bytes};
    sky_shm_frame told = {0};
    sky_status status = make_own(b, o, &fd, error);
    if (status == SKY_OK) {
        status = sky__shm_link_pass(b->link, &ask, fd, until);
        if (status == SKY_OK)
            status = blob_await(b, ask.id, until, &told);
        if (status == SKY_OK)
            status = told.kind == SKY_SHM_REGISTERED ? told.status : SKY_E_CORRUPT;
        if (status != SKY_OK)
            status = sky_fail(error, status, "the host does not take a region of %llu bytes: %s",
                              (unsigned long long)o->bytes, sky_status_text(status));
        b->own_number = (uint32_t)told.number;
    }
    sky_local_close(fd);
    return status;
}

static sky_status connect_blob(sky_blob *b, const char *url, sky_error *error) {
    sky__shm_place place;
    sky_error why = {0};
    sky_status status = sky__shm_place_read(url, &place, error);
    if (status == SKY_OK)
        status = sky_forks_watch(&b->forks);
    if (status != SKY_OK)
        return status;
    status = sky__shm_place_open(&place, sky_now() + CONNECT_NS, &b->link, &why);
    if (status != SKY_OK)
        return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%.200s: %s", url,
                        why.text[0] ? why.text : sky__shm_place_advice(status));
    return SKY_OK;
}

sky_status sky_blob_open(const char *url, const sky_blob_options *options, sky_blob **out,
                         sky_error *error) {
    static const sky_blob_options none = {.struct_bytes = sizeof none};
    const sky_blob_options *o = options ? options : &none;
    if (!url || !out || o->struct_bytes != sizeof *o)
        return sky_fail(
            error, SKY_E_PARAM,
            "a blob needs a URL, a place for it, and options whose struct_bytes is set");
    sky_blob *b = calloc(1, sizeof *b);
    if (!b)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    sky_mutex_init(&b->mutex);
    sky_status status = connect_blob(b, url, error);
    if (status == SKY_OK && o->bytes > 0)
        status = register_own(b, o, error);
    if (status == SKY_OK)
        *out = b;
    else
        sky_blob_close(b);
    return status;
}

void sky_blob_close(sky_blob *b) {
    if (!b || (b->link && sky__blob_check(b) != SKY_OK))
        return;
    sky__shm_link_destroy(b->link);
    for (sky__blob_region *next, *r = b->regions; r; r = next) {
        next = r->next;
        region_free(r);
    }
    if (b->own)
        sky_pages_release(b->own, b->own_bytes);
    sky_arena_destroy(b->places);
    free(b->extents);
    sky_mutex_deinit(&b->mutex);
    free(b);
}

/* ---- memory of its own ---- */

void *sky_blob_memory(const sky_blob *b) {
    return sky__blob_check(b) == SKY_OK ? b->own : NULL;
}

sky_status sky_blob_take(sky_blob *b, uint64_t bytes, uint64_t *offset) {
    sky_status status = sky__blob_check(b);
    if (status != SKY_OK)
        return status;
    if (bytes == 0 || !offset || !b->own)
        return SKY_E_PARAM;
    const uint64_t pages = bytes / PAGE_BYTES + (bytes % PAGE_BYTES != 0);
    uint32_t extent = SKY_EXTENT_NONE;
    sky_mutex_lock(&b->mutex);
    if (b->places && pages <= b->own_bytes / PAGE_BYTES)
        extent = sky_arena_take(b->places, (uint32_t)pages);
    if (extent != SKY_EXTENT_NONE) {
        const uint32_t page = sky_arena_start(b->places, extent);
        b->extents[page] = extent + 1;
        *offset = (uint64_t)page * PAGE_BYTES;
    }
    sky_mutex_unlock(&b->mutex);
    return extent != SKY_EXTENT_NONE ? SKY_OK : SKY_E_FULL;
}

sky_status sky_blob_give(sky_blob *b, uint64_t offset) {
    sky_status status = sky__blob_check(b);
    if (status != SKY_OK)
        return status;
    const uint64_t page = offset / PAGE_BYTES;
    if (!b->own || offset % PAGE_BYTES != 0 || page >= b->own_bytes / PAGE_BYTES)
        return SKY_E_PARAM;
    sky_mutex_lock(&b->mutex);
    const uint32_t extent = b->extents[page];
    if (extent != 0)
        sky_arena_give(b->places, extent - 1);
    b->extents[page] = 0;
    sky_mutex_unlock(&b->mutex);
    return extent != 0 ? SKY_OK : SKY_E_PARAM;
}

/* ---- put ---- */

/* Buffers of a block that may be published; 0: it may not. */
static uint32_t check_layout(const sky_blob *b, const sky_block_layout *l) {
    const uint32_t buffers = sky_shm_buffers(l->shape, l->layer_axis);
    uint64_t bytes = 0;
    if (!l->offsets || !l->sizes)
        return 0;
    for (uint32_t i = 0; i < buffers; i++) {
        if (l->sizes[i] == 0 || l->sizes[i] > SKY_PAYLOAD_BYTES_MAX - bytes ||
            l->offsets[i] > b->own_bytes || l->sizes[i] > b->own_bytes - l->offsets[i])
            return 0;
        bytes += l->sizes[i];
    }
    return buffers;
}

/* All parts of a block's layout. */
static sky_status send_layout(sky_blob *b, const sky_block_layout *l, uint32_t id) {
    const uint32_t buffers = sky_shm_buffers(l->shape, l->layer_axis);
    sky_status status = SKY_OK;
    sky_shm_frame f;
    f.kind = SKY_SHM_LAYOUT;
    f.id = id;
    f.region = b->own_number;
    f.layout.key = l->key;
    f.layout.lease = 0;
    memcpy(f.layout.shape, l->shape, sizeof l->shape);
    f.layout.layer_axis = l->layer_axis;
    for (uint32_t first = 0; first < buffers && status == SKY_OK; first += f.count) {
        f.layout.first = first;
        f.count = buffers - first < SKY_SHM_ROWS_MAX ? buffers - first : SKY_SHM_ROWS_MAX;
        for (uint32_t i = 0; i < f.count; i++) {
            const uint64_t offset = l->offsets[first + i], bytes = l->sizes[first + i];
            f.layout.rows[i] = (sky_shm_row){.offset = offset,
                                             .bytes = (uint32_t)bytes,
                                             .checksum = sky_checksum(b->own + offset, bytes, 0)};
        }
        status = blob_send(b, &f);
    }
    return status;
}

static sky_status put_all(sky_blob *b, const sky_block_layout *blocks, size_t count, sky_time until,
                          size_t *done) {
    const uint32_t id = b->ids + 1;
    size_t sent = 0;
    b->ids += (uint32_t)count;
    while (*done < count) {
        sky_status status = SKY_OK;
        if (sent < count && sent - *done < AT_ONCE) {
            status = send_layout(b, &blocks[sent], id + (uint32_t)sent);
            sent++;
        } else {
            status = await_answer(b, id + (uint32_t)*done, until);
            *done += status == SKY_OK;
        }
        if (status != SKY_OK)
            return status;
    }
    return SKY_OK;
}

sky_status sky_block_put(sky_blob *b, const sky_block_layout *blocks, size_t count, sky_time until,
                         size_t *done) {
    size_t published = 0;
    sky_status status = sky__blob_check(b);
    if (done)
        *done = 0;
    if (status == SKY_OK && (!blocks || !b->own || count > UINT32_MAX))
        status = SKY_E_PARAM;
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        if (check_layout(b, &blocks[i]) == 0)
            status = SKY_E_PARAM;
    if (status != SKY_OK)
        return status;
    sky_mutex_lock(&b->mutex);
    status = put_all(b, blocks, count, until, &published);
    sky_mutex_unlock(&b->mutex);
    if (done)
        *done = published;
    return status;
}

static sky_status ask_removal(sky_blob *b, const sky_key *key, sky_time until) {
    sky_mutex_lock(&b->mutex);
    const uint32_t id = ++b->ids;
    sky_status status = send_block_op(b, SKY_SHM_BLOCK_REMOVE, id, key, 0);
    if (status == SKY_OK)
        status = await_answer(b, id, until);
    sky_mutex_unlock(&b->mutex);
    return status;
}

/* Asked again and again, not waited for, so that another thread may return this blob's leases. */
sky_status sky_block_remove(sky_blob *b, const sky_key *key, sky_time until) {
    sky_status status = sky__blob_check(b);
    if (status != SKY_OK || !key)
        return status != SKY_OK ? status : SKY_E_PARAM;
    bool withdrawn = false;
    for (sky_time pause = REMOVE_NS; (status = ask_removal(b, key, until)) == SKY_E_BUSY;) {
        withdrawn = true;
        if (sky_now() >= until)
            return SKY_E_DEADLINE;
        (void)sky_poll(NULL, 0, sky_now() + pause);
        pause = pause < REMOVE_NS_MAX ? 2 * pause : pause;
    }
    return status == SKY_MISS && withdrawn ? SKY_OK : status;
}

/* ---- get ---- */

/* Errors: SKY_E_CORRUPT (the region was not shown), SKY_E_NOMEM */
static sky_status begin_block(sky_blob *b, const sky_shm_frame *f, sky_block **out) {
    const sky_shm_layout *l = &f->layout;
    const uint32_t buffers = sky_shm_buffers(l->shape, l->layer_axis);
    sky__blob_region *r = find_region(b, f->region);
    if (!r || l->lease == 0 || buffers == 0)
        return SKY_E_CORRUPT;
    sky_block *k = malloc(sizeof *k + 3 * buffers * sizeof *k->offsets);
    if (!k)
        return SKY_E_NOMEM;
    *k = (sky_block){.blob = b,
                     .region = r,
                     .lease = l->lease,
                     .buffers = buffers,
                     .offsets = (uint64_t *)(k + 1)};
    k->sizes = k->offsets + buffers;
    k->checksums = k->sizes + buffers;
    k->layout = (sky_block_layout){.key = l->key,
                                   .shape = {l->shape[0], l->shape[1], l->shape[2]},
                                   .layer_axis = l->layer_axis,
                                   .offsets = k->offsets,
                                   .sizes = k->sizes};
    r->blocks++;
    *out = k;
    return SKY_OK;
}

static sky_status add_rows(sky_block *k, const sky_shm_frame *f, uint32_t *filled) {
    const sky_shm_layout *l = &f->layout;
    if (l->first != *filled || f->count > k->buffers - *filled)
        return SKY_E_CORRUPT;
    for (uint32_t i = 0; i < f->count; i++, (*filled)++) {
        const sky_shm_row *row = &l->rows[i];
        if (row->offset > k->region->bytes || row->bytes > k->region->bytes - row->offset)
            return SKY_E_CORRUPT;
        k->offsets[*filled] = row->offset;
        k->sizes[*filled] = row->bytes;
        k->checksums[*filled] = row->checksum;
    }
    return SKY_OK;
}

/* Leases that are given back leave at once: their owner waits for them, and no later call may
 * follow that would send them. */
void sky__blob_flush(sky_blob *b) {
    const sky_time until = sky_now() + CONNECT_NS;
    while (!b->broken && b->link->first && sky_now() < until) {
        if (sky__shm_link_flush(b->link) != SKY_OK)
            blob_break(b);
        else if (b->link->first)
            (void)sky_poll(NULL, 0, sky_now() + REMOVE_NS);
    }
}

void sky__block_free(sky_block *k) {
    k->region->blocks--;
    return_lease(k->blob, k->lease);
    sweep_regions(k->blob);
    free(k);
}

sky_status sky__block_ask(sky_blob *b, uint32_t id, const sky_key *key) {
    return send_block_op(b, SKY_SHM_BLOCK_OPEN, id, key, 0);
}

/* Nobody waits for this answer any more: the host takes back what it lends. */
static void give_up_block(sky_blob *b, uint32_t id) {
    const sky_shm_frame cancel = {.kind = SKY_SHM_CANCEL, .id = id};
    (void)blob_send(b, &cancel);
}

/* The parts of a layout, one after the other. */
sky_status sky__block_await(sky_blob *b, uint32_t id, const sky_key *key, sky_time until,
                            sky_block **out) {
    sky_block *k = NULL;
    uint32_t filled = 0;
    sky_shm_frame f;
    sky_status status;
    do {
        status = blob_await(b, id, until, &f);
        if (status == SKY_OK && f.kind == SKY_SHM_ANSWERED && !k && f.status < SKY_OK)
            return f.status;
        if (status == SKY_OK && f.kind == SKY_SHM_ANSWERED && !k && f.status == SKY_MISS)
            return SKY_MISS;
        bool fits = status == SKY_OK && f.kind == SKY_SHM_LAYOUT &&
                    memcmp(&f.layout.key, key, sizeof *key) == 0;
        if (status == SKY_OK && !fits)
            status = SKY_E_CORRUPT;
        if (status == SKY_OK && !k)
            status = begin_block(b, &f, &k);
        if (status == SKY_OK)
            status = add_rows(k, &f, &filled);
    } while (status == SKY_OK && filled < k->buffers);
    if (status == SKY_OK) {
        *out = k;
        return SKY_OK;
    }
    if (status == SKY_E_DEADLINE && !k)
        give_up_block(b, id);
    else if (status != SKY_E_DEADLINE)
        blob_break(b);
    if (k)
        sky__block_free(k);
    return status;
}

sky_status sky_block_get(sky_blob *b, const sky_key *key, sky_time until, sky_block **out) {
    sky_status status = sky__blob_check(b);
    if (status != SKY_OK || !key || !out)
        return status != SKY_OK ? status : SKY_E_PARAM;
    sky_mutex_lock(&b->mutex);
    const uint32_t id = ++b->ids;
    status = sky__block_ask(b, id, key);
    if (status == SKY_OK)
        status = sky__block_await(b, id, key, until, out);
    sky_mutex_unlock(&b->mutex);
    return status;
}

void sky_block_release(sky_block *k) {
    if (!k || sky__blob_check(k->blob) != SKY_OK)
        return;
    sky_blob *b = k->blob;
    sky_mutex_lock(&b->mutex);
    sky__block_free(k);
    sky__blob_flush(b);
    sky_mutex_unlock(&b->mutex);
}

/* ---- what is open ---- */

const sky_block_layout *sky_block_describe(const sky_block *k) {
    return k ? &k->layout : NULL;
}

uint32_t sky__block_row(const sky_block_layout *l, uint32_t layer, uint32_t kv, uint32_t buffer) {
    const uint32_t wanted[3] = {layer, kv, buffer};
    const uint32_t axes[3] = {l->layer_axis, l->layer_axis == 0 ? 1 : 0,
                              l->layer_axis == 2 ? 1 : 2};
    uint32_t at[3];
    for (int i = 0; i < 3; i++) {
        if (wanted[i] >= l->shape[axes[i]])
            return UINT32_MAX;
        at[axes[i]] = wanted[i];
    }
    return (at[0] * l->shape[1] + at[1]) * l->shape[2] + at[2];
}

sky_status sky_block_view(const sky_block *k, uint32_t layer, uint32_t kv, uint32_t buffer,
                          sky_span *out) {
    sky_status status = k ? sky__blob_check(k->blob) : SKY_E_PARAM;
    const uint32_t row = k ? sky__block_row(&k->layout, layer, kv, buffer) : UINT32_MAX;
    if (status == SKY_OK && (row == UINT32_MAX || !out))
        status = SKY_E_PARAM;
    if (status == SKY_OK)
        *out = (sky_span){k->region->at + k->offsets[row], k->sizes[row]};
    return status;
}

/* Spans that are filled one after the other. */
typedef struct {
    const sky_span *spans; /* NULL: nothing is copied */
    size_t used;           /* of the first */
} block_sink;

/* Where the next bytes go, and how many of `bytes` fit there. */
static uint8_t *sink_next(block_sink *s, size_t *bytes) {
    while (s->used == s->spans->bytes) {
        s->spans++;
        s->used = 0;
    }
    const size_t room = s->spans->bytes - s->used;
    uint8_t *at = (uint8_t *)s->spans->data + s->used;
    *bytes = *bytes < room ? *bytes : room;
    s->used += *bytes;
    return at;
}

/* Copy a buffer, of a read of so many bytes; false: the copy is not what was published. */
static bool read_row(const sky_block *k, uint32_t row, uint64_t all_bytes, block_sink *sink) {
    const uint8_t *from = k->region->at + k->offsets[row];
    size_t left = k->sizes[row];
    if (!sink->spans)
        return sky_checksum(from, left, 0) == k->checksums[row];
    sky_checksum_state sum;
    sky_checksum_init(&sum, 0);
    while (left > 0) {
        size_t piece = left;
        uint8_t *to = sink_next(sink, &piece);
        sky_checksum_copy(&sum, to, from, piece, all_bytes);
        from += piece;
        left -= piece;
    }
    return sky_checksum_end(&sum) == k->checksums[row];
}

/* The rows of a layer, or all, in the order in which they are read. */
static uint32_t row_at(const sky_block *k, uint32_t layer, uint32_t i) {
    const sky_block_layout *l = &k->layout;
    const uint32_t last = l->layer_axis == 2 ? l->shape[1] : l->shape[2];
    return layer == SKY_BLOCK_ALL ? i : sky__block_row(l, layer, i / last, i % last);
}

sky_status sky_block_read(const sky_block *k, uint32_t layer, const sky_span *spans,
                          uint32_t span_count) {
    sky_status status = k ? sky__blob_check(k->blob) : SKY_E_PARAM;
    if (status != SKY_OK)
        return status;
    const uint32_t layers = k->layout.shape[k->layout.layer_axis];
    const uint32_t rows = layer == SKY_BLOCK_ALL ? k->buffers : k->buffers / layers;
    if ((layer != SKY_BLOCK_ALL && layer >= layers) || (span_count > 0 && !spans))
        return SKY_E_PARAM;
    for (uint32_t i = 0; i < span_count; i++)
        if (!spans[i].data && spans[i].bytes > 0)
            return SKY_E_PARAM;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < rows; i++)
        bytes += k->sizes[row_at(k, layer, i)];
    if (span_count > 0 && sky_spans_bytes(spans, span_count) < bytes)
        return SKY_E_DST_SMALL;
    block_sink sink = {.spans = span_count > 0 ? spans : NULL};
    for (uint32_t i = 0; i < rows && status == SKY_OK; i++)
        if (!read_row(k, row_at(k, layer, i), bytes, &sink))
            status = SKY_E_CORRUPT;
    return status;
}
