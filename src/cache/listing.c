#include "cache/listing.h"

#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "cache/cache_internal.h"
#include "tier/shm/frame.h"

/* Where an entry lies in the text, and how good it is: a name before none, then the nearest store.
 */
typedef struct {
    sky_key key;
    uint32_t rank;
    size_t at, bytes;
} place;

typedef struct {
    sky_status status;
    uint8_t *text;
    size_t text_bytes, room;
    place *places;
    size_t count, place_room;
} listing;

static bool make_room(void **data, size_t needed, size_t more, size_t bytes, size_t *room) {
    if (needed <= *room)
        return true;
    void *larger = realloc(*data, (2 * *room + more) * bytes);
    if (!larger)
        return false;
    *data = larger;
    *room = 2 * *room + more;
    return true;
}

static bool note_entry(void *context, const sky_entry *entry) {
    listing *l = context;
    size_t at = l->text_bytes;
    void *text = l->text, *places = l->places;
    bool ok = make_room(&text, at + SKY_SHM_ENTRY_BYTES_MAX, 64 * SKY_SHM_ENTRY_BYTES_MAX, 1,
                        &l->room) &&
              make_room(&places, l->count + 1, 64, sizeof *l->places, &l->place_room);
    l->text = text;
    l->places = places;
    if (!ok) {
        l->status = SKY_E_NOMEM;
        return false;
    }
    if (!sky_shm_entry_encode(entry, l->text, l->room, &l->text_bytes))
        return false;
    uint32_t rank = (uint32_t)entry->tier + (entry->name ? 0u : SKY_TIERS_MAX);
    l->places[l->count++] = (place){entry->key, rank, at, l->text_bytes - at};
    return true;
}

static int by_key_and_rank(const void *a, const void *b) {
    const place *x = a, *y = b;
    int order = memcmp(&x->key, &y->key, sizeof x->key);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Of what several stores have one entry stays, or one a level. */
static sky_status drop_copies(listing *l) {
    uint8_t *text = malloc(l->text_bytes + 1);
    if (!text)
        return SKY_E_NOMEM;
    size_t bytes = 0;
    if (l->count)
        qsort(l->places, l->count, sizeof *l->places, by_key_and_rank);
    for (size_t i = 0, best = 0; i < l->count; i++) {
        const place *p = &l->places[i];
        if (!sky_key_equal(&p->key, &l->places[best].key))
            best = i;
        if (p->rank != l->places[best].rank)
            continue;
        memcpy(text + bytes, l->text + p->at, p->bytes);
        bytes += p->bytes;
    }
    free(l->text);
    l->text = text;
    l->text_bytes = bytes;
    return SKY_OK;
}

sky_status sky__listing(sky_cache *cache, uint32_t tier, uint8_t **text, size_t *bytes) {
    listing l = {.status = SKY_OK};
    sky_tier *one = tier ? sky__cache_tier(cache, tier - 1) : NULL;
    sky_status status = one ? one->ops->list(one, note_entry, &l) : sky_list(cache, note_entry, &l);
    if (l.status == SKY_OK && !one && sky_tier_count(cache) > 1)
        l.status = drop_copies(&l);
    free(l.places);
    if (l.text_bytes == 0) {
        free(l.text);
        l.text = NULL;
    }
    *text = l.text;
    *bytes = l.text_bytes;
    return l.status != SKY_OK ? l.status : status;
}
