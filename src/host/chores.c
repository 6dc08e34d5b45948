/* What takes long: on a thread of its own, so that no client waits for another's listing. */
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "host/host.h"

/* Where an entry lies in the text, and how good it is: a name before none, then the nearest store.
 */
typedef struct {
    sky_key key;
    uint32_t rank;
    size_t at, bytes;
} place;

typedef struct {
    sky__chore *chore;
    size_t room;
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
    sky__chore *c = l->chore;
    size_t at = c->text_bytes;
    void *text = c->text, *places = l->places;
    bool ok = make_room(&text, at + SKY_SHM_ENTRY_BYTES_MAX, 64 * SKY_SHM_ENTRY_BYTES_MAX, 1,
                        &l->room) &&
              make_room(&places, l->count + 1, 64, sizeof *l->places, &l->place_room);
    c->text = text;
    l->places = places;
    if (!ok) {
        c->status = SKY_E_NOMEM;
        return false;
    }
    if (!sky_shm_entry_encode(entry, c->text, l->room, &c->text_bytes))
        return false;
    uint32_t rank = (uint32_t)entry->tier + (entry->name ? 0u : SKY_TIERS_MAX);
    l->places[l->count++] = (place){entry->key, rank, at, c->text_bytes - at};
    return true;
}

static int by_key_and_rank(const void *a, const void *b) {
    const place *x = a, *y = b;
    int order = memcmp(&x->key, &y->key, sizeof x->key);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* For a client the host is one tier: of what several stores have one entry stays, or one a level.
 */
static sky_status drop_copies(const listing *l) {
    sky__chore *c = l->chore;
    uint8_t *text = malloc(c->text_bytes + 1);
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
        memcpy(text + bytes, c->text + p->at, p->bytes);
        bytes += p->bytes;
    }
    free(c->text);
    c->text = text;
    c->text_bytes = bytes;
    return SKY_OK;
}

static void do_chore(sky__chore *c) {
    if (c->question == SKY_SHM_VERIFY) {
        sky_verify_report r = {0};
        c->status = sky_verify(c->tenant->cache, &r);
        const uint64_t numbers[] = {r.entries, r.bytes, r.corrupt, r.orphans};
        memcpy(c->numbers, numbers, sizeof numbers);
        return;
    }
    listing l = {.chore = c};
    sky_status status = sky_list(c->tenant->cache, note_entry, &l);
    if (c->status == SKY_OK && sky_tier_count(c->tenant->cache) > 1)
        c->status = drop_copies(&l);
    if (c->status == SKY_OK)
        c->status = status;
    free(l.places);
}

static void *body(void *argument) {
    sky__host *h = argument;
    sky_mutex_lock(&h->mutex);
    while (!h->ending) {
        sky__chore *c = h->waiting;
        if (!c) {
            (void)sky_condition_wait(&h->changed, &h->mutex, SKY_TIME_NEVER);
            continue;
        }
        h->waiting = c->next;
        sky_mutex_unlock(&h->mutex);
        do_chore(c);
        sky_mutex_lock(&h->mutex);
        c->next = h->finished;
        h->finished = c;
        sky_event_raise(h->chores_event);
    }
    sky_mutex_unlock(&h->mutex);
    return NULL;
}

sky_status sky__chores_start(sky__host *h) {
    sky_mutex_init(&h->mutex);
    sky_condition_init(&h->changed);
    h->chores_event = -1;
    sky_status status = sky_event_create(&h->chores_event);
    return status == SKY_OK ? sky_thread_start(&h->thread, "skymem-chores", body, h) : status;
}

static void free_all(sky__chore *c) {
    while (c) {
        sky__chore *next = c->next;
        free(c->text);
        free(c);
        c = next;
    }
}

void sky__chores_end(sky__host *h) {
    sky_mutex_lock(&h->mutex);
    h->ending = true;
    sky_condition_broadcast(&h->changed);
    sky_mutex_unlock(&h->mutex);
    sky_thread_join(&h->thread);
    free_all(h->waiting);
    free_all(h->finished);
    if (h->chores_event >= 0)
        sky_event_close(h->chores_event);
    sky_condition_deinit(&h->changed);
    sky_mutex_deinit(&h->mutex);
}

bool sky__chore_add(sky__host *h, sky__client *client, const sky_shm_frame *ask) {
    sky__chore *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    c->tenant = client->tenant;
    c->tenant->chores++;
    c->client = client->number;
    c->id = ask->id;
    c->question = ask->question;
    sky_mutex_lock(&h->mutex);
    sky__chore **last = &h->waiting;
    while (*last)
        last = &(*last)->next;
    *last = c;
    sky_condition_broadcast(&h->changed);
    sky_mutex_unlock(&h->mutex);
    return true;
}

void sky__chores_answer(sky__host *h) {
    sky_mutex_lock(&h->mutex);
    sky_event_clear(h->chores_event);
    sky__chore *done = h->finished;
    h->finished = NULL;
    sky_mutex_unlock(&h->mutex);
    for (sky__chore *c = done; c; c = c->next) {
        c->tenant->chores--;
        for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++) {
            sky__client *client = &h->clients[i];
            if (client->fd < 0 || client->number != c->client)
                continue;
            client->asking = false;
            sky__client_tell(h, client, c);
        }
    }
    free_all(done);
}
