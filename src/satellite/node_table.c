/* What a satellite holds, found three ways: a chunk by its name, the chunks of a block one by one,
 * and of each tenant what was used least lately.
 *
 *     buckets[hash(key, version, number)] ──chain──► slot ──► slot     one chunk
 *     blocks[hash(key, version)] ──block.after──► slot ──► slot        all of a block that is here
 *     tenants[i].lru, .pinned ◄──links[USE]──► slot ◄──► slot          in the order of their use
 *
 * A tenant is the first eight bytes of its blocks' names (wire/seal.h), on real links; elsewhere
 * there is one. While there is room a tenant may fill it. When there is none each tenant has a
 * share, the slots divided by the tenants that hold any: who has less than that gets room from who
 * has most, of its pinned chunks if there are no others; who has more makes room for itself.
 *
 * A pin lapses SKY_NODE_PIN_HOURS after it was last renewed, by PIN or a read. Its hour is kept
 * modulo 256, and goes with the chunk from satellite to satellite. */
#include <string.h>

#include "base/bytes.h"
#include "satellite/node_state.h"

#define NONE    SKY__NO_LINK
#define USE     SKY__USE
#define MOVE    SKY__MOVE
#define HELD    SKY__HELD
#define WAITING SKY__WAITING
#define HOUR_MS (3600 * 1000)

_Static_assert(SKY_NODE_PIN_HOURS < 250, "an hour modulo 256 says how old a pin is");

typedef struct sky_node_slot slot;

static slot *slot_at(const sky_node *n, uint32_t link) {
    return sky__slot_at(n, link);
}

static uint32_t link_of(const sky_node *n, const slot *s) {
    return (uint32_t)(s - n->slots) + 1;
}

/* ---- lists ---- */

static void list_push(sky_node *n, sky_node_list *l, int which, uint32_t link) {
    slot *s = slot_at(n, link);
    s->links[which].before = NONE;
    s->links[which].after = l->first;
    if (l->first)
        slot_at(n, l->first)->links[which].before = link;
    else
        l->last = link;
    l->first = link;
    l->count++;
}

static void list_append(sky_node *n, sky_node_list *l, int which, uint32_t link) {
    slot *s = slot_at(n, link);
    s->links[which].before = l->last;
    s->links[which].after = NONE;
    if (l->last)
        slot_at(n, l->last)->links[which].after = link;
    else
        l->first = link;
    l->last = link;
    l->count++;
}

static void list_take(sky_node *n, sky_node_list *l, int which, uint32_t link) {
    slot *s = slot_at(n, link);
    uint32_t before = s->links[which].before;
    uint32_t after = s->links[which].after;
    if (before)
        slot_at(n, before)->links[which].after = after;
    else
        l->first = after;
    if (after)
        slot_at(n, after)->links[which].before = before;
    else
        l->last = before;
    l->count--;
}

static sky_node_list *move_list(sky_node *n, const slot *s) {
    return s->move == WAITING ? &n->waiting : s->move == SKY__DOUBTED ? &n->doubted : &n->sent;
}

void sky__node_move_to(sky_node *n, slot *s, sky__move_state to) {
    uint32_t link = link_of(n, s);
    if (s->move != HELD)
        list_take(n, move_list(n, s), MOVE, link);
    if (s->move == SKY__DOUBTED)
        s->to_ask = s->lacking = 0;
    s->move = (uint8_t)to;
    if (to != HELD)
        list_append(n, move_list(n, s), MOVE, link);
}

/* ---- tenants ---- */

static uint32_t held_by(const sky_node_tenant *t) {
    return t->lru.count + t->pinned.count;
}

/* Whose a block is. When the table is full of tenants that hold something, the last place is for
 * all others together. */
static uint32_t tenant_of(sky_node *n, const sky_key *key) {
    const uint64_t name = n->config->sealed ? sky_load_u64(key->bytes) : 0;
    uint32_t empty = SKY_NODE_TENANTS_MAX - 1;
    for (uint32_t i = 0; i < n->tenant_count; i++) {
        if (n->tenants[i].name == name)
            return i;
        if (held_by(&n->tenants[i]) == 0 && empty == SKY_NODE_TENANTS_MAX - 1)
            empty = i;
    }
    if (empty == SKY_NODE_TENANTS_MAX - 1 && n->tenant_count < SKY_NODE_TENANTS_MAX)
        empty = n->tenant_count++;
    if (held_by(&n->tenants[empty]) == 0)
        n->tenants[empty].name = name;
    return empty;
}

static uint32_t tenant_share(const sky_node *n, const sky_node_tenant *own) {
    uint32_t tenants = held_by(own) == 0;
    for (uint32_t i = 0; i < n->tenant_count; i++)
        tenants += held_by(&n->tenants[i]) > 0;
    return n->slot_count / tenants;
}

slot *sky__node_spare(sky_node *n, const sky_key *key) {
    sky_node_tenant *own = &n->tenants[tenant_of(n, key)], *most = own;
    if (held_by(own) >= tenant_share(n, own))
        return own->lru.last ? slot_at(n, own->lru.last) : NULL;
    for (uint32_t i = 0; i < n->tenant_count; i++)
        if (held_by(&n->tenants[i]) > held_by(most))
            most = &n->tenants[i];
    uint32_t link = most->lru.last ? most->lru.last : most->pinned.last;
    return link ? slot_at(n, link) : NULL;
}

/* ---- the order of use ---- */

static sky_node_list *use_list(sky_node *n, const slot *s) {
    sky_node_tenant *t = &n->tenants[s->tenant];
    return s->facts.pinned ? &t->pinned : &t->lru;
}

static uint8_t hour_now(const sky_node *n) {
    return (uint8_t)(sky_turning_ms(&n->config->turning, n->now) / HOUR_MS);
}

void sky__node_touch(sky_node *n, slot *s) {
    uint32_t link = link_of(n, s);
    if (s->facts.pinned)
        s->facts.pin_hour = hour_now(n);
    list_take(n, use_list(n, s), USE, link);
    list_push(n, use_list(n, s), USE, link);
}

void sky__node_pin(sky_node *n, slot *s, bool pinned) {
    list_take(n, use_list(n, s), USE, link_of(n, s));
    s->facts.pinned = pinned;
    s->facts.pin_hour = pinned ? hour_now(n) : 0;
    list_push(n, use_list(n, s), USE, link_of(n, s));
}

void sky__node_first_to_go(sky_node *n, slot *s) {
    list_take(n, use_list(n, s), USE, link_of(n, s));
    s->facts.pinned = false;
    s->facts.pin_hour = 0;
    list_append(n, use_list(n, s), USE, link_of(n, s));
}

/* One from a clock ahead of ours is as of now. All are looked at, as one that was handed on may be
 * older than those before it. */
static void let_tenant_lapse(sky_node *n, const sky_node_list *pinned) {
    for (uint32_t link = pinned->last, before; link; link = before) {
        slot *s = slot_at(n, link);
        uint8_t age = (uint8_t)(n->lapse_hour - s->facts.pin_hour);
        before = s->links[USE].before;
        if (age < SKY_NODE_PIN_HOURS || age > 250)
            continue;
        sky__node_pin(n, s, false);
        n->stat.lapsed++;
    }
}

void sky__node_let_lapse(sky_node *n) {
    uint8_t hour = hour_now(n);
    if (hour == n->lapse_hour)
        return;
    n->lapse_hour = hour;
    for (uint32_t i = 0; i < n->tenant_count; i++)
        let_tenant_lapse(n, &n->tenants[i].pinned);
}

/* ---- the tables ---- */

/* The heads of a key are all in one bucket, so that the newest is found without knowing its
 * version. */
static uint32_t *bucket_of(const sky_node *n, const sky_chunk_id *id) {
    uint8_t name[SKY_KEY_BYTES + 12];
    memcpy(name, id->key.bytes, SKY_KEY_BYTES);
    sky_store_u64(name + SKY_KEY_BYTES, id->number > 0 ? id->version : 0);
    sky_store_u32(name + SKY_KEY_BYTES + 8, id->number);
    return &n->buckets[sky_siphash(&n->config->hash_key, name, sizeof name) & n->bucket_mask];
}

static uint32_t *block_of(const sky_node *n, const sky_chunk_id *id) {
    uint8_t name[SKY_KEY_BYTES + 8];
    memcpy(name, id->key.bytes, SKY_KEY_BYTES);
    sky_store_u64(name + SKY_KEY_BYTES, id->version);
    return &n->blocks[sky_siphash(&n->config->hash_key, name, sizeof name) & n->bucket_mask];
}

slot *sky__node_find_head(const sky_node *n, const sky_key *key, uint64_t but) {
    const sky_chunk_id any = {.key = *key};
    slot *newest = NULL;
    for (uint32_t link = *bucket_of(n, &any); link; link = slot_at(n, link)->chain) {
        slot *s = slot_at(n, link);
        if (s->id.number == 0 && s->id.version != but &&
            memcmp(s->id.key.bytes, key->bytes, SKY_KEY_BYTES) == 0 &&
            (!newest || s->id.version > newest->id.version))
            newest = s;
    }
    return newest;
}

slot *sky__node_find(const sky_node *n, const sky_chunk_id *id) {
    for (uint32_t link = *bucket_of(n, id); link; link = slot_at(n, link)->chain) {
        if (sky_chunk_id_equal(&slot_at(n, link)->id, id))
            return slot_at(n, link);
    }
    return NULL;
}

/* From this one on, one of the block. */
static slot *same_block(sky_node *n, uint32_t link, const sky_chunk_id *block) {
    for (; link; link = slot_at(n, link)->block.after) {
        n->stat.looked++;
        if (sky_chunk_same_block(&slot_at(n, link)->id, block))
            return slot_at(n, link);
    }
    return NULL;
}

slot *sky__node_block_first(sky_node *n, const sky_chunk_id *block) {
    return same_block(n, *block_of(n, block), block);
}

slot *sky__node_block_next(sky_node *n, const slot *s) {
    return same_block(n, s->block.after, &s->id);
}

void sky__node_insert(sky_node *n, slot *s) {
    uint32_t link = link_of(n, s);
    uint32_t *bucket = bucket_of(n, &s->id), *block = block_of(n, &s->id);
    s->chain = *bucket;
    *bucket = link;
    s->block.before = NONE;
    s->block.after = *block;
    if (*block)
        slot_at(n, *block)->block.before = link;
    *block = link;
    s->tenant = (uint8_t)tenant_of(n, &s->id.key);
    list_push(n, use_list(n, s), USE, link);
    n->chunk_count++;
    n->copied_count += sky__copied(s);
}

void sky__node_remove(sky_node *n, slot *s) {
    uint32_t link = link_of(n, s);
    uint32_t *at = bucket_of(n, &s->id);
    while (*at != link)
        at = &slot_at(n, *at)->chain;
    *at = s->chain;
    if (s->block.before)
        slot_at(n, s->block.before)->block.after = s->block.after;
    else
        *block_of(n, &s->id) = s->block.after;
    if (s->block.after)
        slot_at(n, s->block.after)->block.before = s->block.before;
    sky__node_move_to(n, s, HELD);
    list_take(n, use_list(n, s), USE, link);
    n->chunk_count--;
    n->slot_left++;
    n->copied_count -= sky__copied(s);
    s->used = false;
    s->chain = n->slot_free;
    n->slot_free = link;
}

/* ---- memory that is not used any more ---- */

#define TRIM_BYTES_LEAST ((size_t)1 << 20)
#define TRIM_SHARE       64 /* of all memory, or that */

/* Nothing is held: the tables are as they were at the start, and are zeros where they matter. */
static void trim_all(sky_node *n, void (*give)(void *from, size_t bytes)) {
    size_t buckets = ((size_t)n->bucket_mask + 1) * sizeof *n->buckets;
    give(n->buckets, buckets);
    give(n->blocks, buckets);
    give(n->slots, n->slot_fresh * sizeof *n->slots);
    give(n->bytes, n->slot_fresh * sky__data_stride(n->config));
    n->slot_fresh = n->slot_free = n->sweep_at = 0;
}

void sky_node_trim(sky_node *n, void (*give)(void *from, size_t bytes)) {
    size_t stride = sky__data_stride(n->config), share = n->config->memory_bytes / TRIM_SHARE;
    size_t least = share > TRIM_BYTES_LEAST ? share : TRIM_BYTES_LEAST;
    if (n->slot_left == 0 || (n->chunk_count > 0 && n->slot_left * stride < least))
        return;
    n->slot_left = 0;
    if (n->chunk_count == 0) {
        trim_all(n, give);
        return;
    }
    for (uint32_t i = 0; i < n->slot_fresh;) {
        uint32_t end = i;
        bool touched = false;
        for (; end < n->slot_fresh && !n->slots[end].used; end++) {
            touched |= n->slots[end].touched;
            n->slots[end].touched = false;
        }
        if (touched)
            give(n->bytes + i * stride, (end - i) * stride);
        i = end + 1;
    }
}
