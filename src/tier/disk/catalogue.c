#include "tier/disk/catalogue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "index/index.h"
#include <skymem/keys.h>

#include "base/bytes.h"

#define BUCKETS 16384u /* a scan by age meets most children first */

struct sky_disk_catalogue {
    sky_index *index;
    sky_disk_fact *facts; /* [entries_max], by block number; pages are touched as entries come */
    uint32_t entries_max;
    uint64_t bytes;
    sky_disk_amount held; /* the facts that are `held`, while held_known */
    bool held_known;      /* forgotten when pins or what hangs where may have changed */
    bool changed;
    uint32_t *orphans; /* [BUCKETS]: the first of each bucket */
};

sky_disk_fact sky_disk_fact_of(const sky_disk_header *header) {
    return (sky_disk_fact){
        .key = header->key,
        .parent = header->parent,
        .hits = header->access.hits,
        .set_ms = header->set_ms,
        .expire_ms = header->expire_ms,
        .used_ms = header->access.used_ms,
        .payload_bytes = (uint32_t)header->payload_bytes,
        .level = header->level,
        .evict = header->evict,
        .pinned = header->access.pinned,
        .named = header->name_bytes > 0,
    };
}

uint64_t sky_disk_fact_bytes(const sky_disk_fact *fact) {
    return SKY_DISK_HEADER_BYTES + sky_disk_geometry_of(fact->payload_bytes).padded_bytes;
}

static uint32_t number_of(const sky_disk_catalogue *c, const sky_disk_fact *fact) {
    return (uint32_t)(fact - c->facts);
}

sky_status sky_disk_catalogue_create(uint32_t entries_max, sky_disk_catalogue **out) {
    sky_disk_catalogue *c = calloc(1, sizeof *c);
    if (!c)
        return SKY_E_NOMEM;
    c->entries_max = entries_max;
    c->facts = calloc(entries_max, sizeof *c->facts);
    c->orphans = malloc(BUCKETS * sizeof *c->orphans);
    for (uint32_t i = 0; c->orphans && i < BUCKETS; i++)
        c->orphans[i] = SKY_BLOCK_NONE;
    sky_status status = SKY_E_NOMEM;
    if (c->facts && c->orphans)
        status = sky_index_create(entries_max, &c->index);
    if (status == SKY_OK)
        *out = c;
    else
        sky_disk_catalogue_destroy(c);
    return status;
}

void sky_disk_catalogue_last_max(sky_disk_catalogue *c, uint64_t bytes, uint32_t entries) {
    sky_index_last_max(c->index, bytes, entries);
}

void sky_disk_catalogue_destroy(sky_disk_catalogue *c) {
    if (!c)
        return;
    sky_index_destroy(c->index);
    free(c->facts);
    free(c->orphans);
    free(c);
}

/* ---- children that came first ---- */

/* Keys are hashes already. */
static uint32_t *bucket_of(sky_disk_catalogue *c, const sky_key *parent) {
    return &c->orphans[sky_load_u32(parent->bytes) & (BUCKETS - 1)];
}

static void orphan_add(sky_disk_catalogue *c, uint32_t number) {
    sky_disk_fact *fact = &c->facts[number];
    uint32_t *bucket = bucket_of(c, &fact->parent);
    fact->orphan = true;
    fact->next_orphan = *bucket;
    *bucket = number;
}

static void orphan_remove(sky_disk_catalogue *c, uint32_t number) {
    sky_disk_fact *fact = &c->facts[number];
    if (!fact->orphan)
        return;
    uint32_t *link = bucket_of(c, &fact->parent);
    while (*link != number)
        link = &c->facts[*link].next_orphan;
    *link = fact->next_orphan;
    fact->orphan = false;
}

static void orphans_adopt(sky_disk_catalogue *c, const sky_key *parent) {
    uint32_t next, first = *bucket_of(c, parent), number = first;
    for (; number != SKY_BLOCK_NONE; number = next) {
        const sky_disk_fact *fact = &c->facts[number];
        next = fact->next_orphan;
        if (sky_key_equal(&fact->parent, parent) &&
            sky_index_adopt(c->index, &fact->key, parent) == SKY_OK)
            orphan_remove(c, number);
    }
    c->held_known &= first == SKY_BLOCK_NONE;
}

/* ---- entries ---- */

sky_status sky_disk_catalogue_put(sky_disk_catalogue *c, const sky_disk_fact *fact) {
    const uint64_t room = sky_disk_fact_bytes(fact);
    sky_block_info info = {.payload_bytes = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX,
                           .chunk_count = 1,
                           .set_ms = fact->set_ms,
                           .coding = fact->level,
                           .evict = fact->evict};
    uint32_t before = sky_index_find(c->index, &fact->key);
    uint32_t number;
    sky_status status = sky_index_insert(c->index, &fact->key, &fact->parent, &info, &number);
    if (status != SKY_OK)
        return status;
    sky_disk_fact *kept = &c->facts[number];
    bool pinned = fact->pinned;
    if (before != SKY_BLOCK_NONE) {
        orphan_remove(c, number);
        c->bytes -= sky_disk_fact_bytes(kept);
        pinned = kept->pinned;
    } else if (pinned) {
        sky_index_pin(c->index, number);
    }
    *kept = *fact;
    kept->pinned = pinned;
    kept->orphan = kept->held = false;
    c->held_known &= before == SKY_BLOCK_NONE && !pinned;
    c->changed = true;
    c->bytes += sky_disk_fact_bytes(kept);
    if (!sky_disk_catalogue_reachable(c, kept))
        orphan_add(c, number);
    orphans_adopt(c, &kept->key);
    return SKY_OK;
}

static int by_use(const void *a, const void *b) {
    const sky_disk_fact *left = a, *right = b;
    return (left->used_ms > right->used_ms) - (left->used_ms < right->used_ms);
}

static int by_key(const void *a, const void *b) {
    const sky_disk_fact *left = a, *right = b;
    return memcmp(left->key.bytes, right->key.bytes, sizeof left->key.bytes);
}

/* What stays longest comes last. */
static int by_worth(const void *a, const void *b) {
    const sky_disk_fact *left = a, *right = b;
    int more = (left->pinned + left->held) - (right->pinned + right->held);
    return more ? more : by_use(a, b);
}

/* Those that go for want of places come first: neither pinned ones, nor what leads to them. */
static void sort_out(sky_disk_fact *facts, size_t count) {
    qsort(facts, count, sizeof *facts, by_key);
    for (size_t i = 0; i < count; i++)
        facts[i].held = false;
    for (size_t i = 0; i < count; i++) {
        sky_disk_fact *above = facts[i].pinned ? &facts[i] : NULL, wanted;
        while (above && !above->held) {
            above->held = true;
            wanted.key = above->parent;
            above = bsearch(&wanted, facts, count, sizeof *facts, by_key);
        }
    }
    qsort(facts, count, sizeof *facts, by_worth);
}

size_t sky_disk_catalogue_rebuild(sky_disk_catalogue *c, sky_disk_fact *facts, size_t fact_count) {
    sky_disk_fact *old;
    for (uint32_t n = 0; (old = sky_disk_catalogue_next(c, &n)) != NULL; n++)
        sky_disk_catalogue_remove(c, old, NULL, NULL);
    size_t first = fact_count > c->entries_max ? fact_count - c->entries_max : 0;
    if (first > 0)
        sort_out(facts, fact_count);
    if (fact_count > 0) /* else there may be no array */
        qsort(facts + first, fact_count - first, sizeof *facts, by_use);
    for (size_t i = first; i < fact_count; i++)
        sky_disk_catalogue_put(c, &facts[i]);
    c->changed = false;
    return first;
}

/* The index compares 16 of a key's bytes, the fact has all of them. */
sky_disk_fact *sky_disk_catalogue_find(sky_disk_catalogue *c, const sky_key *key) {
    uint32_t number = sky_index_find(c->index, key);
    if (number == SKY_BLOCK_NONE || !sky_key_equal(&c->facts[number].key, key))
        return NULL;
    return &c->facts[number];
}

sky_disk_fact *sky_disk_catalogue_next(sky_disk_catalogue *c, uint32_t *number) {
    uint32_t next = *number < c->entries_max ? sky_index_next(c->index, *number) : SKY_BLOCK_NONE;
    if (next == SKY_BLOCK_NONE)
        return NULL;
    *number = next;
    return &c->facts[next];
}

bool sky_disk_catalogue_reachable(sky_disk_catalogue *c, const sky_disk_fact *fact) {
    return sky_key_is_zero(&fact->parent) ||
           sky_index_parent(c->index, number_of(c, fact)) != SKY_BLOCK_NONE;
}

void sky_disk_catalogue_use(sky_disk_catalogue *c, sky_disk_fact *fact, int64_t now_ms) {
    sky_index_touch(c->index, number_of(c, fact));
    fact->hits++;
    fact->used_ms = now_ms;
    fact->offered = false;
    fact->unrecorded = true;
    c->changed = true;
}

/* The index counts two at most: this one and that of sky_disk_catalogue_keep. */
void sky_disk_catalogue_pin(sky_disk_catalogue *c, sky_disk_fact *fact, bool pinned) {
    if (fact->pinned == pinned)
        return;
    (void)(pinned ? sky_index_pin : sky_index_unpin)(c->index, number_of(c, fact));
    fact->pinned = pinned;
    c->held_known = false;
    c->changed = true;
}

bool sky_disk_catalogue_keep(sky_disk_catalogue *c, sky_disk_fact *fact) {
    return sky_index_pin(c->index, number_of(c, fact)) == SKY_OK;
}

void sky_disk_catalogue_release(sky_disk_catalogue *c, sky_disk_fact *fact) {
    sky_index_unpin(c->index, number_of(c, fact));
}

typedef struct {
    sky_disk_catalogue *catalogue;
    sky_disk_removed_fn removed;
    void *context;
} removal;

static void catalogue_forget(void *context, uint32_t number, const sky_block_info *info) {
    removal *r = context;
    const sky_disk_fact *fact = &r->catalogue->facts[number];
    (void)info;
    r->catalogue->bytes -= sky_disk_fact_bytes(fact);
    r->catalogue->held_known &= !fact->held;
    orphan_remove(r->catalogue, number);
    if (r->removed)
        r->removed(r->context, fact);
}

size_t sky_disk_catalogue_remove(sky_disk_catalogue *c, sky_disk_fact *fact,
                                 sky_disk_removed_fn removed, void *context) {
    removal r = {c, removed, context};
    c->changed = true;
    return sky_index_remove(c->index, number_of(c, fact), catalogue_forget, &r);
}

void sky_disk_catalogue_remove_orphans(sky_disk_catalogue *c, const sky_key *parent,
                                       sky_disk_removed_fn removed, void *context) {
    uint32_t next, number = *bucket_of(c, parent);
    for (; number != SKY_BLOCK_NONE; number = next) {
        sky_disk_fact *fact = &c->facts[number];
        next = fact->next_orphan;
        if (sky_key_equal(&fact->parent, parent))
            sky_disk_catalogue_remove(c, fact, removed, context);
    }
}

sky_disk_fact *sky_disk_catalogue_victim(sky_disk_catalogue *c) {
    uint32_t number = sky_index_victim(c->index);
    return number == SKY_BLOCK_NONE ? NULL : &c->facts[number];
}

sky_disk_fact *sky_disk_catalogue_victim_after(sky_disk_catalogue *c, const sky_disk_fact *fact) {
    uint32_t number = sky_index_victim_after(c->index, fact ? number_of(c, fact) : SKY_BLOCK_NONE);
    return number == SKY_BLOCK_NONE ? NULL : &c->facts[number];
}

/* Add an entry and those above it up to one that is held to *sum; `hold` them. */
static void add_above(sky_disk_catalogue *c, uint32_t number, bool hold, sky_disk_amount *sum) {
    for (; number != SKY_BLOCK_NONE && !c->facts[number].held;
         number = sky_index_parent(c->index, number)) {
        c->facts[number].held = hold;
        sum->bytes += sky_disk_fact_bytes(&c->facts[number]);
        sum->files++;
    }
}

sky_disk_amount sky_disk_catalogue_evictable(sky_disk_catalogue *c, const sky_key *kept) {
    sky_disk_fact *fact;
    if (!c->held_known) {
        for (uint32_t n = 0; (fact = sky_disk_catalogue_next(c, &n)) != NULL; n++)
            fact->held = false;
        c->held = (sky_disk_amount){0};
        for (uint32_t n = 0; (fact = sky_disk_catalogue_next(c, &n)) != NULL; n++)
            if (fact->pinned)
                add_above(c, n, true, &c->held);
        c->held_known = true;
    }
    fact = sky_disk_catalogue_find(c, kept);
    sky_disk_amount staying = c->held;
    if (fact)
        add_above(c, number_of(c, fact), false, &staying);
    return (sky_disk_amount){c->bytes - staying.bytes, sky_index_count(c->index) - staying.files};
}

uint32_t sky_disk_catalogue_count(const sky_disk_catalogue *c) {
    return sky_index_count(c->index);
}

uint32_t sky_disk_catalogue_room(const sky_disk_catalogue *c) {
    return c->entries_max - sky_index_count(c->index);
}

uint64_t sky_disk_catalogue_bytes(const sky_disk_catalogue *c) {
    return c->bytes;
}

bool sky_disk_catalogue_changed(const sky_disk_catalogue *c) {
    return c->changed;
}
