#include "host/published.h"

#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "cache/opener.h"
#include "host/published_table.h"
#include "io/pages.h"
#include "io/shared.h"

/* ---- the end of blocks ---- */

static void answer_client(sky__host *h, sky__client *c, uint32_t id, sky_status status) {
    sky__client_send(h, c, &(sky_shm_frame){.kind = SKY_SHM_ANSWERED, .id = id, .status = status},
                     -1);
}

/* Nobody opens it any more. True: it is gone. */
static bool withdraw_block(sky__tenant *t, sky__block *k) {
    t->stat.blocks -= !k->withdrawn;
    t->stat.block_bytes -= k->withdrawn ? 0 : k->bytes;
    k->withdrawn = true;
    if (k->leases > 0)
        return false;
    sky__block_drop(t, k);
    return true;
}

/* A lease ended. A block that is withdrawn goes with its last. */
static void unlease_block(sky__tenant *t, sky__block *k) {
    if (--k->leases == 0 && k->withdrawn)
        sky__block_drop(t, k);
}

bool sky__published_remove(sky__tenant *t, const sky_key *key) {
    sky__block *k;
    bool some = false;
    for (; (k = sky__block_find(t->blocks, key, 0)); some = true)
        (void)withdraw_block(t, k);
    return some;
}

/* ---- regions ---- */

/* Registered memory takes none of this process, but a read of pages that were never written makes
 * them. */
static sky_status may_register(const sky__client *c, uint64_t bytes) {
    const sky__tenant *t = c->tenant;
    uint64_t most = t->uid == sky_local_user() ? sky_pages_machine_bytes()
                                               : SKY__HOST_STAGES * t->arena.region_bytes;
    if (most == 0 || most > SKY__HOST_REGION_BYTES_MAX)
        most = SKY__HOST_REGION_BYTES_MAX;
    if (c->region_count == SKY__HOST_REGIONS_MAX)
        return SKY_E_BUSY;
    return bytes <= most && t->stat.region_bytes <= most - bytes ? SKY_OK : SKY_E_FULL;
}

static sky_status make_region(sky__client *c, uint64_t bytes, int passed, sky__region **out) {
    sky_status status = may_register(c, bytes);
    if (status == SKY_OK && !sky_shared_is_safe(passed, bytes))
        status = SKY_E_PARAM;
    sky__region *r = status == SKY_OK ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return status == SKY_OK ? SKY_E_NOMEM : status;
    *r = (sky__region){.owner = c->number, .bytes = bytes, .users = 1, .fd = -1};
    status = sky_pages_reserve(bytes, (void **)&r->at, NULL);
    if (status == SKY_OK)
        status = sky_shared_map(passed, r->at, bytes, SKY_SHARED_READ);
    if (status == SKY_OK && (r->fd = sky_local_duplicate(passed)) < 0)
        status = SKY_E_NOMEM;
    if (status == SKY_OK)
        *out = r;
    else
        sky__region_leave(r);
    return status;
}

static void take_register(sky__host *h, sky__client *c, const sky_shm_frame *f, int passed) {
    sky__region *r = NULL;
    sky__tenant *t = c->tenant;
    sky_shm_frame told = {.kind = SKY_SHM_REGISTERED, .id = f->id};
    if (passed < 0) {
        sky__client_close(h, c, "it registers memory without a descriptor");
        return;
    }
    told.status = make_region(c, f->region_bytes, passed, &r);
    if (r) {
        told.number = r->number = ++h->region_numbers;
        r->next = t->blocks->regions;
        t->blocks->regions = r;
        c->region_count++;
        t->stat.regions++;
        t->stat.region_bytes += r->bytes;
    }
    sky__client_send(h, c, &told, -1);
}

/* Its owner goes. It is in no table any more, whatever the end of others brings about. */
static void end_region(sky__host *h, sky__tenant *t, sky__region *r) {
    for (sky__block *next, *k = r->blocks; k; k = next) {
        next = k->after;
        (void)withdraw_block(t, k);
    }
    sky_local_close(r->fd);
    r->fd = -1;
    t->stat.regions--;
    t->stat.region_bytes -= r->bytes;
    for (size_t i = 0; i < h->places; i++)
        if (r->shown[i / 64] >> i % 64 & 1)
            sky__client_send(h, &h->clients[i],
                             &(sky_shm_frame){.kind = SKY_SHM_REGION_GONE, .region = r->number},
                             -1);
    sky__region_leave(r);
}

void sky__published_leave(sky__host *h, sky__client *c) {
    sky__tenant *t = c->tenant;
    const size_t place = (size_t)(c - h->clients);
    const uint64_t number = c->number;
    uint32_t row = 0;
    uint64_t what;
    if (!t->blocks)
        return;
    free(c->publishing);
    c->publishing = NULL;
    for (sky__region *r = t->blocks->regions; r; r = r->next)
        r->shown[place / 64] &= ~(UINT64_C(1) << place % 64);
    while (sky_leases_give_next(t->blocks->leases, &number, &row, &what))
        unlease_block(t, (sky__block *)(uintptr_t)what);
    for (sky__region **at = &t->blocks->regions; *at;) {
        sky__region *r = *at;
        if (r->owner != number) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        end_region(h, t, r);
        at = &t->blocks->regions; /* the end of others may have changed it */
    }
}

/* ---- a block is published ---- */

/* The block that a part belongs to; NULL: the client is ended. */
static sky__block *part_of(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    const sky_shm_layout *l = &f->layout;
    sky__block *k = c->publishing;
    if (!k && l->first == 0) {
        const uint32_t buffers = sky_shm_buffers(l->shape, l->layer_axis);
        sky__region *r = sky__region_find(c->tenant->blocks, f->region, c->number);
        k = r ? malloc(sizeof *k + buffers * sizeof *k->rows) : NULL;
        if (!k) {
            sky__client_close(h, c, r ? "no memory is left" : "it names a region of another");
            return NULL;
        }
        *k = (sky__block){.region = r,
                          .key = l->key,
                          .shape = {l->shape[0], l->shape[1], l->shape[2]},
                          .layer_axis = l->layer_axis,
                          .buffers = buffers};
        c->publishing = k;
    }
    if (!k || l->lease != 0 || l->first != k->filled || f->region != k->region->number ||
        memcmp(l->shape, k->shape, sizeof k->shape) != 0 || l->layer_axis != k->layer_axis ||
        !sky_key_equal(&l->key, &k->key)) {
        sky__client_close(h, c, "the parts of its block do not fit");
        return NULL;
    }
    return k;
}

static sky_status publish_block(sky__tenant *t, sky__block *k) {
    sky__published *b = t->blocks;
    if (sky__block_find(b, &k->key, k->region->owner))
        return SKY_E_BUSY; /* one that is withdrawn and open, too: its owner asks for it by key */
    if (b->count >= SKY__HOST_BLOCKS_MAX || b->buffers + k->buffers > SKY__HOST_BUFFERS_MAX)
        return SKY_E_FULL;
    sky__block **bucket = sky__block_bucket(b, &k->key);
    k->next = *bucket;
    *bucket = k;
    k->after = k->region->blocks;
    if (k->after)
        k->after->before = k;
    k->region->blocks = k;
    k->region->users++;
    b->count++;
    b->buffers += k->buffers;
    t->stat.blocks++;
    t->stat.block_bytes += k->bytes;
    t->stat.block_puts++;
    return SKY_OK;
}

static void take_layout(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    sky__block *k = part_of(h, c, f);
    if (!k)
        return;
    for (uint32_t i = 0; i < f->count; i++) {
        const sky_shm_row *row = &f->layout.rows[i];
        if (row->offset > k->region->bytes || row->bytes > k->region->bytes - row->offset ||
            k->bytes + row->bytes > SKY_PAYLOAD_BYTES_MAX) {
            sky__client_close(h, c, "it names bytes outside its region");
            return;
        }
        k->rows[k->filled++] = *row;
        k->bytes += row->bytes;
    }
    if (k->filled < k->buffers)
        return;
    c->publishing = NULL;
    sky_status status = publish_block(c->tenant, k);
    if (status != SKY_OK)
        free(k);
    answer_client(h, c, f->id, status);
}

/* ---- a block is opened ---- */

static void show_region(sky__host *h, sky__client *c, sky__region *r) {
    const size_t place = (size_t)(c - h->clients);
    const uint64_t bit = UINT64_C(1) << place % 64;
    if (r->shown[place / 64] & bit)
        return;
    r->shown[place / 64] |= bit;
    sky__client_send(
        h, c,
        &(sky_shm_frame){.kind = SKY_SHM_REGION, .region = r->number, .region_bytes = r->bytes},
        r->fd);
}

static void show_block(sky__host *h, sky__client *c, uint32_t id, const sky__block *k,
                       uint64_t lease) {
    sky_shm_frame f;
    f.kind = SKY_SHM_LAYOUT;
    f.id = id;
    f.region = k->region->number;
    f.layout.key = k->key;
    f.layout.lease = lease;
    memcpy(f.layout.shape, k->shape, sizeof k->shape);
    f.layout.layer_axis = k->layer_axis;
    for (uint32_t first = 0, all = k->buffers; first < all && c->fd >= 0; first += f.count) {
        f.layout.first = first;
        f.count = all - first < SKY_SHM_ROWS_MAX ? all - first : SKY_SHM_ROWS_MAX;
        memcpy(f.layout.rows, k->rows + first, f.count * sizeof *k->rows);
        sky__client_send(h, c, &f, -1); /* it may end the client, and so the block */
    }
}

static void open_block(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    sky__tenant *t = c->tenant;
    sky__block *k = sky__block_find(t->blocks, &f->key, 0);
    sky__open *open = &c->opens[f->id % SKY__HOST_OPENS];
    *open = (sky__open){.id = f->id};
    t->stat.hits += k != NULL;
    t->stat.misses += k == NULL;
    if (!k || sky_leases_full(t->blocks->leases) || c->block_leases == SKY__HOST_LEASES_MAX) {
        answer_client(h, c, f->id, k ? SKY_E_BUSY : SKY_MISS);
        return;
    }
    const uint64_t lease = sky_leases_take(t->blocks->leases, (uint64_t)(uintptr_t)k, c->number).id;
    open->lease = lease;
    k->leases++;
    c->block_leases++;
    show_region(h, c, k->region);
    if (c->fd >= 0)
        show_block(h, c, f->id, k, lease);
}

/* SKY_E_BUSY: it is withdrawn, and somebody reads it still. */
static void remove_block(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    sky__block *k = sky__block_find(c->tenant->blocks, &f->key, c->number);
    sky_status status = k ? SKY_OK : SKY_MISS;
    if (k && !withdraw_block(c->tenant, k))
        status = SKY_E_BUSY;
    answer_client(h, c, f->id, status);
}

/* False: the client does not have it. */
static bool return_lease(sky__client *c, uint64_t lease) {
    uint64_t what;
    sky__tenant *t = c->tenant;
    if (sky_leases_give(t->blocks->leases, (sky_lease){lease}, c->number, &what) != SKY_OK)
        return false;
    c->block_leases--;
    unlease_block(t, (sky__block *)(uintptr_t)what);
    return true;
}

void sky__published_cancel(sky__client *c, uint32_t id) {
    const sky__open *open = &c->opens[id % SKY__HOST_OPENS];
    if (open->id == id && open->lease != 0)
        (void)return_lease(c, open->lease);
}

void sky__published_hear(sky__host *h, sky__client *c, const sky_shm_frame *f, int passed) {
    if (f->kind == SKY_SHM_REGISTER)
        take_register(h, c, f, passed);
    else if (f->kind == SKY_SHM_LAYOUT)
        take_layout(h, c, f);
    else if (f->block_op == SKY_SHM_BLOCK_OPEN)
        open_block(h, c, f);
    else if (f->block_op == SKY_SHM_BLOCK_REMOVE)
        remove_block(h, c, f);
    else if (!return_lease(c, f->lease))
        sky__client_close(h, c, "it returns what it was not lent");
}

/* ---- ordinary operations ---- */

uint64_t sky__published_bytes(const sky__tenant *t, const sky_key *key) {
    const sky__block *k = sky__block_find(t->blocks, key, 0);
    return k ? k->bytes : 0;
}

/* Whether the arena's copy is what its owner published. What is not there is not wrong. */
static bool is_right(const sky__tenant *t, const sky__block *k) {
    static const sky_call plain;
    sky_item item = {.key = k->key};
    bool right = true;
    t->arena_tier->ops->answer(t->arena_tier, SKY_OP_LEASE, &item, 1, &plain);
    if (item.status != SKY_OK)
        return true;
    const uint8_t *at = item.view.data;
    for (uint32_t i = 0; i < k->buffers && right && item.view.bytes == k->bytes; i++) {
        right = sky_checksum(at, k->rows[i].bytes, 0) == k->rows[i].checksum;
        at += k->rows[i].bytes;
    }
    t->arena_tier->ops->release(t->arena_tier, item.lease);
    return right;
}

/* False: it failed, or another operation changes the key. That one is not waited for, as this
 * thread has others to serve. */
static bool run_at_once(sky_cache *cache, sky_op op, sky_item *item, const sky_call *call) {
    sky_batch batch;
    sky_status status = sky__submit_here(cache, op, item, 1, call, &batch);
    if (status == SKY_OK && batch.id != 0)
        sky_cancel(cache, batch);
    return status == SKY_OK && item->status == SKY_OK;
}

void sky__published_take_in(sky__tenant *t, const sky_key *key) {
    /* The arena alone, and at once. */
    static const sky_call plain, here = {.drop = true, .tiers = 1}, arena = {.tiers = 1};
    sky__block *k = sky__block_find(t->blocks, key, 0);
    sky_item item = {.key = *key};
    if (!k)
        return;
    t->arena_tier->ops->answer(t->arena_tier, SKY_OP_HAS, &item, 1, &plain);
    sky_span *spans = item.status == SKY_OK ? NULL : malloc(k->buffers * sizeof *spans);
    if (!spans)
        return;
    for (uint32_t i = 0; i < k->buffers; i++)
        spans[i] = (sky_span){k->region->at + k->rows[i].offset, k->rows[i].bytes};
    item = (sky_item){.key = *key, .spans = spans, .span_count = k->buffers};
    bool copied = run_at_once(t->cache, SKY_OP_PUT, &item, &here);
    free(spans);
    t->stat.block_copied_bytes += copied ? k->bytes : 0;
    if (!copied || is_right(t, k))
        return;
    t->stat.block_corrupt++;
    (void)run_at_once(t->cache, SKY_OP_REMOVE, &item, &arena);
    (void)withdraw_block(t, k);
}
