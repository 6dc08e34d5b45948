#include "tier/shared_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"

#define WAYS         4u    /* slots of a bucket */
#define BUCKETS_MIN  16u   /* a page: a reader takes their number from the bytes of the memory */
#define USES         1024u /* of a page: a power of two */
#define USES_AT_ONCE 4096u /* and what the last page adds to them */
#define SURVEY_BITS  65536u

enum { PINNED = 1, EVICT_AT = 8, CODING_AT = 16 };

/* A line of the processor's cache. */
typedef struct {
    _Atomic uint64_t stamp; /* 0: none is shown */
    _Atomic uint64_t key[4];
    _Atomic uint64_t at;
    _Atomic uint64_t size; /* bytes << 32 | number */
    _Atomic uint64_t flags;
} shared_slot;

struct sky__shared_memory {
    _Atomic uint64_t generations[SKY_SHARED_SEGMENTS];
    uint8_t none[4096 - 8 * SKY_SHARED_SEGMENTS];
    shared_slot slots[]; /* [buckets][WAYS] */
};

struct sky__shared_page {
    _Atomic uint32_t taken; /* the owner: uses taken so far */
    _Atomic uint32_t ended; /* the owner: nothing is found any more */
    uint8_t none[120];
    _Atomic uint32_t told;    /* the reader: uses told so far */
    _Atomic uint32_t hazards; /* the reader: those from here on were never set */
    _Atomic uint32_t untold;  /* the reader: uses so far that found no room */
    uint8_t none_either[116];
    _Atomic uint64_t hazard[SKY_SHARED_HAZARDS]; /* stamps; 0: none */
    _Atomic uint64_t use[USES];                  /* slot << 32 | the low half of its stamp */
    uint8_t rest[2816];
};
_Static_assert(sizeof(shared_slot) == 64 && sizeof(struct sky__shared_memory) == 4096 &&
                   sizeof(struct sky__shared_page) % 4096 == 0,
               "whole lines, whole pages");

struct sky_shared_index {
    struct sky__shared_memory *memory;
    uint64_t memory_bytes;
    uint32_t bucket_mask;
    int fd;
    uint64_t stamps;                         /* given so far */
    uint32_t places;                         /* readers from here on were never there */
    uint32_t next_page;                      /* whose uses are taken first */
    uint32_t untold[SKY_SHARED_READERS_MAX]; /* uses that were only counted, of each so far */
    struct sky__shared_page *pages[SKY_SHARED_READERS_MAX]; /* NULL: none */
    uint64_t survey[SURVEY_BITS / 64];
};

/* Keys are digests, but for those that a program makes itself. */
static uint32_t bucket_of(const sky_key *key, uint32_t mask) {
    return ((uint32_t)sky_checksum(key->bytes, sizeof key->bytes, 0) & mask) * WAYS;
}

/* ---- the owner ---- */

sky_status sky_shared_index_create(uint32_t blocks, sky_shared_index **out) {
    uint32_t buckets = BUCKETS_MIN;
    while (buckets < blocks / 2) /* half of the slots stay empty */
        buckets *= 2;
    sky_shared_index *x = calloc(1, sizeof *x);
    if (!x)
        return SKY_E_NOMEM;
    x->fd = -1;
    x->bucket_mask = buckets - 1;
    x->memory_bytes = sizeof *x->memory + (uint64_t)buckets * WAYS * sizeof(shared_slot);
    sky_status status = sky_pages_reserve(x->memory_bytes, (void **)&x->memory, NULL);
    if (status == SKY_OK)
        status = sky_shared_make(x->memory, x->memory_bytes, SKY_SHARED_READ, &x->fd);
    if (status == SKY_OK)
        *out = x;
    else
        sky_shared_index_destroy(x);
    return status;
}

void sky_shared_index_destroy(sky_shared_index *x) {
    if (!x)
        return;
    for (uint32_t i = 0; i < x->places; i++)
        if (x->pages[i]) {
            (void)sky_shared_index_end(x, i);
            sky_shared_index_leave(x, i);
        }
    sky_pages_release(x->memory, x->memory_bytes);
    sky_local_close(x->fd);
    free(x);
}

int sky_shared_index_fd(const sky_shared_index *x) {
    return x->fd;
}

/* The slot of this stamp in the bucket of a key; 0: one that is free. NULL: there is none. */
static shared_slot *slot_of(const sky_shared_index *x, const sky_key *key, uint64_t stamp) {
    shared_slot *s = &x->memory->slots[bucket_of(key, x->bucket_mask)];
    for (uint32_t i = 0; i < WAYS; i++)
        if (atomic_load_explicit(&s[i].stamp, memory_order_relaxed) == stamp)
            return &s[i];
    return NULL;
}

static uint64_t flags_of(const sky_shared_block *b) {
    return (uint64_t)b->coding << CODING_AT | (uint64_t)b->evict << EVICT_AT |
           (b->pinned ? PINNED : 0);
}

uint64_t sky_shared_index_show(sky_shared_index *x, const sky_key *key, const sky_shared_block *b) {
    shared_slot *s = slot_of(x, key, 0);
    if (!s)
        return 0;
    for (uint32_t i = 0; i < 4; i++)
        atomic_store_explicit(&s->key[i], sky_load_u64(key->bytes + 8 * i), memory_order_relaxed);
    atomic_store_explicit(&s->at, b->at, memory_order_relaxed);
    atomic_store_explicit(&s->size, (uint64_t)b->bytes << 32 | b->number, memory_order_relaxed);
    atomic_store_explicit(&s->flags, flags_of(b), memory_order_relaxed);
    atomic_store_explicit(&s->stamp, ++x->stamps, memory_order_release);
    return x->stamps;
}

void sky_shared_index_hide(sky_shared_index *x, const sky_key *key, uint64_t stamp) {
    shared_slot *s = stamp != 0 ? slot_of(x, key, stamp) : NULL;
    if (s) {
        atomic_store_explicit(&s->stamp, 0, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst); /* what is written there next comes after it */
    }
}

bool sky_shared_index_mark(sky_shared_index *x, const sky_key *key, uint64_t stamp, uint8_t evict,
                           bool pinned) {
    shared_slot *s = stamp != 0 ? slot_of(x, key, stamp) : NULL;
    if (!s)
        return false;
    const uint64_t before = atomic_load_explicit(&s->flags, memory_order_relaxed);
    const uint64_t flags = before >> CODING_AT << CODING_AT | (uint64_t)evict << EVICT_AT |
                           (pinned ? PINNED : 0);
    atomic_store_explicit(&s->flags, flags, memory_order_relaxed);
    return flags != before;
}

void sky_shared_index_segment(sky_shared_index *x, uint32_t segment, uint64_t generation) {
    atomic_store_explicit(&x->memory->generations[segment], generation, memory_order_release);
}

sky_status sky_shared_index_join(sky_shared_index *x, uint32_t *reader, int *fd) {
    uint32_t i = 0;
    while (i < x->places && x->pages[i])
        i++;
    if (i == SKY_SHARED_READERS_MAX)
        return SKY_E_BUSY;
    struct sky__shared_page *page;
    sky_status status = sky_pages_reserve(sizeof *page, (void **)&page, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_make(page, sizeof *page, SKY_SHARED_WRITE, fd);
    if (status != SKY_OK) {
        sky_pages_release(page, sizeof *page);
        return status;
    }
    x->pages[i] = page;
    x->untold[i] = 0;
    x->places += i == x->places;
    *reader = i;
    return SKY_OK;
}

bool sky_shared_index_end(sky_shared_index *x, uint32_t reader) {
    struct sky__shared_page *p = x->pages[reader];
    uint64_t kept = 0;
    atomic_store(&p->ended, 1);
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < SKY_SHARED_HAZARDS; i++)
        kept |= atomic_load(&p->hazard[i]);
    return kept != 0;
}

void sky_shared_index_leave(sky_shared_index *x, uint32_t reader) {
    sky_pages_release(x->pages[reader], sizeof *x->pages[reader]);
    x->pages[reader] = NULL;
}

/* How many hazards of a page to look at; it is the reader who loses by a wrong number. */
static uint32_t hazards_of(const struct sky__shared_page *page) {
    uint32_t hazards = page ? atomic_load(&page->hazards) : 0;
    return hazards < SKY_SHARED_HAZARDS ? hazards : SKY_SHARED_HAZARDS;
}

bool sky_shared_index_is_kept(const sky_shared_index *x, uint64_t stamp) {
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t n = 0; n < x->places; n++) {
        const uint32_t hazards = hazards_of(x->pages[n]);
        for (uint32_t i = 0; i < hazards; i++)
            if (atomic_load(&x->pages[n]->hazard[i]) == stamp)
                return true;
    }
    return false;
}

uint32_t sky_shared_index_survey(sky_shared_index *x) {
    uint32_t kept = 0;
    memset(x->survey, 0, sizeof x->survey);
    for (uint32_t n = 0; n < x->places; n++) {
        const uint32_t hazards = hazards_of(x->pages[n]);
        for (uint32_t i = 0; i < hazards; i++) {
            const uint64_t stamp = atomic_load(&x->pages[n]->hazard[i]);
            if (stamp != 0)
                x->survey[stamp % SURVEY_BITS / 64] |= UINT64_C(1) << stamp % 64;
            kept += stamp != 0;
        }
    }
    return kept;
}

bool sky_shared_index_seems_kept(const sky_shared_index *x, uint64_t stamp) {
    return stamp != 0 && x->survey[stamp % SURVEY_BITS / 64] >> stamp % 64 & 1;
}

/* Take the uses of a page, which is not trusted; returns how many places were looked at. */
static uint32_t take_uses(const sky_shared_index *x, struct sky__shared_page *p,
                          void (*used)(void *context, uint32_t number), void *context,
                          uint64_t *count) {
    const uint32_t end = atomic_load_explicit(&p->told, memory_order_acquire);
    uint32_t at = atomic_load_explicit(&p->taken, memory_order_relaxed);
    uint32_t places = end - at < USES ? end - at : USES;
    for (at = end - places; at != end; at++) {
        const uint64_t use = atomic_load_explicit(&p->use[at % USES], memory_order_relaxed);
        if (use >> 32 >= ((uint64_t)x->bucket_mask + 1) * WAYS)
            continue;
        const shared_slot *s = &x->memory->slots[use >> 32];
        const uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);
        if (stamp == 0 || (uint32_t)stamp != (uint32_t)use)
            continue;
        used(context, (uint32_t)atomic_load_explicit(&s->size, memory_order_relaxed));
        ++*count;
    }
    atomic_store_explicit(&p->taken, end, memory_order_release);
    return places;
}

/* Uses that found no room in a page are only counted. */
static uint32_t take_untold(sky_shared_index *x, uint32_t reader) {
    const uint32_t now = atomic_load_explicit(&x->pages[reader]->untold, memory_order_relaxed);
    const uint32_t more = now - x->untold[reader];
    x->untold[reader] = now;
    return more;
}

bool sky_shared_index_uses(sky_shared_index *x, void (*used)(void *context, uint32_t number),
                           void *context, uint64_t *count) {
    uint32_t looked = 0, n = 0;
    *count = 0;
    for (; n < x->places && looked < USES_AT_ONCE; n++) {
        const uint32_t reader = x->next_page++ % x->places;
        if (!x->pages[reader])
            continue;
        looked += take_uses(x, x->pages[reader], used, context, count);
        *count += take_untold(x, reader);
    }
    return n < x->places;
}

/* ---- a reader ---- */

sky_status sky_shared_reader_map_index(sky_shared_reader *r, int fd) {
    const uint64_t bytes = sky_shared_bytes(fd);
    const uint64_t slots = bytes > sizeof *r->memory
                               ? (bytes - sizeof *r->memory) / sizeof(shared_slot)
                               : 0;
    const uint64_t buckets = slots / WAYS;
    if (r->memory || buckets == 0 || (buckets & (buckets - 1)) != 0 || buckets > UINT32_MAX / WAYS)
        return SKY_E_CORRUPT;
    void *at;
    sky_status status = sky_pages_reserve(bytes, &at, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_map(fd, at, bytes, SKY_SHARED_READ);
    if (status != SKY_OK) {
        sky_pages_release(at, bytes);
        return status;
    }
    r->memory = at;
    r->memory_bytes = bytes;
    r->bucket_mask = (uint32_t)buckets - 1;
    return SKY_OK;
}

sky_status sky_shared_reader_map_page(sky_shared_reader *r, int fd) {
    if (r->page)
        return SKY_E_CORRUPT;
    void *at;
    sky_status status = sky_pages_reserve(sizeof *r->page, &at, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_map(fd, at, sizeof *r->page, SKY_SHARED_WRITE);
    if (status != SKY_OK) {
        sky_pages_release(at, sizeof *r->page);
        return status;
    }
    r->page = at;
    for (r->free_count = 0; r->free_count < SKY_SHARED_HAZARDS; r->free_count++)
        r->free[r->free_count] = (uint16_t)(SKY_SHARED_HAZARDS - 1 - r->free_count);
    return SKY_OK;
}

void sky_shared_reader_unmap(sky_shared_reader *r) {
    sky_pages_release((void *)(uintptr_t)r->memory, r->memory_bytes);
    sky_pages_release(r->page, sizeof *r->page);
    *r = (sky_shared_reader){0};
}

static bool is_key(const shared_slot *s, const sky_key *key) {
    bool same = true;
    for (uint32_t i = 0; i < 4; i++)
        same &= atomic_load_explicit(&s->key[i], memory_order_relaxed) ==
                sky_load_u64(key->bytes + 8 * i);
    return same;
}

static bool still_shown(const sky_shared_reader *r, const sky_shared_found *f) {
    return atomic_load(&r->page->ended) == 0 &&
           atomic_load(&r->memory->slots[f->slot].stamp) == f->stamp;
}

/* What a slot says; it holds if the stamp is the same afterwards. */
static void read_slot(const shared_slot *s, sky_shared_block *out) {
    const uint64_t size = atomic_load_explicit(&s->size, memory_order_relaxed);
    const uint64_t flags = atomic_load_explicit(&s->flags, memory_order_relaxed);
    *out = (sky_shared_block){.at = atomic_load_explicit(&s->at, memory_order_relaxed),
                              .bytes = (uint32_t)(size >> 32),
                              .number = (uint32_t)size,
                              .coding = (sky_coding)(flags >> CODING_AT & 0xff),
                              .evict = flags >> EVICT_AT & 0xff,
                              .pinned = flags & PINNED};
    atomic_thread_fence(memory_order_acquire);
}

static bool find_slot(const sky_shared_reader *r, const sky_key *key, sky_shared_found *out) {
    if (!r->memory || !r->page)
        return false;
    const uint32_t first = bucket_of(key, r->bucket_mask);
    for (uint32_t i = first; i < first + WAYS; i++) {
        const shared_slot *s = &r->memory->slots[i];
        out->stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);
        if (out->stamp == 0 || !is_key(s, key))
            continue;
        out->slot = i;
        read_slot(s, &out->block);
        return out->block.coding <= SKY_CODING_MAX && out->block.evict <= SKY_EVICT_LAST;
    }
    return false;
}

bool sky_shared_reader_find(const sky_shared_reader *r, const sky_key *key, sky_shared_found *out) {
    return find_slot(r, key, out) && still_shown(r, out);
}

bool sky_shared_reader_keep(sky_shared_reader *r, const sky_key *key, sky_shared_found *out,
                            uint32_t *hazard) {
    if (r->free_count == 0 || !find_slot(r, key, out))
        return false;
    const uint32_t i = r->free[r->free_count - 1];
    if (atomic_load_explicit(&r->page->hazards, memory_order_relaxed) <= i)
        atomic_store(&r->page->hazards, i + 1);
    atomic_store(&r->page->hazard[i], out->stamp);
    atomic_thread_fence(memory_order_seq_cst);
    if (!still_shown(r, out)) {
        atomic_store_explicit(&r->page->hazard[i], 0, memory_order_release);
        return false;
    }
    r->free_count--;
    *hazard = i;
    return true;
}

void sky_shared_reader_let_go(sky_shared_reader *r, uint32_t hazard) {
    assert(hazard < SKY_SHARED_HAZARDS && r->free_count < SKY_SHARED_HAZARDS);
    atomic_store_explicit(&r->page->hazard[hazard], 0, memory_order_release);
    r->free[r->free_count++] = (uint16_t)hazard;
}

bool sky_shared_reader_tell(sky_shared_reader *r, const sky_shared_found *f) {
    const uint64_t use = (uint64_t)f->slot << 32 | (uint32_t)f->stamp;
    const uint32_t waiting = r->uses - atomic_load_explicit(&r->page->taken, memory_order_acquire);
    if (waiting >= USES) {
        atomic_store_explicit(&r->page->untold, ++r->untold, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&r->page->use[r->uses % USES], use, memory_order_relaxed);
    atomic_store_explicit(&r->page->told, ++r->uses, memory_order_release);
    return waiting + 1 == USES / 2;
}

uint64_t sky_shared_reader_segment(const sky_shared_reader *r, uint32_t segment) {
    return atomic_load_explicit(&r->memory->generations[segment], memory_order_acquire);
}
