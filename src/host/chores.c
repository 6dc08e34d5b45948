/* What takes long: on a thread of each tenant, so that no client waits for another's listing, and
 * no user for another's check. */
#include <stdlib.h>
#include <string.h>

#include "cache/listing.h"
#include "host/host.h"

static void do_chore(const sky__host *h, sky__chore *c) {
    if (c->question == SKY_SHM_VERIFY) {
        sky_verify_report r = {0};
        c->status = atomic_load(&h->checks_end) ? SKY_E_CANCELLED
                                                : sky_verify(c->tenant->cache, &r);
        const uint64_t numbers[] = {r.entries, r.bytes, r.corrupt, r.orphans};
        memcpy(c->numbers, numbers, sizeof numbers);
        return;
    }
    c->status = sky__listing(c->tenant->cache, c->tier, &c->text, &c->text_bytes);
}

static void *chores_thread(void *argument) {
    sky__tenant *t = argument;
    sky__host *h = t->host;
    sky_mutex_lock(&h->mutex);
    while (!t->ending) {
        sky__chore *c = t->waiting;
        if (!c) {
            (void)sky_condition_wait(&h->changed, &h->mutex, SKY_TIME_NEVER);
            continue;
        }
        t->waiting = c->next;
        sky_mutex_unlock(&h->mutex);
        do_chore(h, c);
        sky_mutex_lock(&h->mutex);
        c->next = h->finished;
        h->finished = c;
        sky_event_raise(h->chores_event);
    }
    sky_mutex_unlock(&h->mutex);
    return NULL;
}

sky_status sky__chores_init(sky__host *h) {
    sky_mutex_init(&h->mutex);
    sky_condition_init(&h->changed);
    h->chores_event = -1;
    return sky_event_create(&h->chores_event);
}

void sky__chores_free(sky__chore *c) {
    while (c) {
        sky__chore *next = c->next;
        free(c->text);
        free(c);
        c = next;
    }
}

void sky__chores_end(sky__tenant *t) {
    if (!t->thread.running)
        return;
    sky_mutex_lock(&t->host->mutex);
    t->ending = true;
    sky_condition_broadcast(&t->host->changed);
    sky_mutex_unlock(&t->host->mutex);
    sky_thread_join(&t->thread);
    sky__chores_free(t->waiting);
}

void sky__chores_deinit(sky__host *h) {
    sky__chores_free(h->finished);
    if (h->chores_event >= 0)
        sky_event_close(h->chores_event);
    sky_condition_deinit(&h->changed);
    sky_mutex_deinit(&h->mutex);
}

void sky__chores_cancel(sky__host *h) {
    atomic_store(&h->checks_end, true);
    for (size_t i = 0; i < h->tenant_count; i++)
        sky_verify_cancel(h->tenants[i]->cache);
}

bool sky__chore_add(sky__host *h, sky__client *client, const sky_shm_frame *ask) {
    sky__tenant *t = client->tenant;
    if (!t->thread.running &&
        sky_thread_start(&t->thread, "skymem-chores", chores_thread, t) != SKY_OK)
        return false;
    sky__chore *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    c->tenant = t;
    t->chores++;
    c->client = client->number;
    c->tier = client->tier;
    c->id = ask->id;
    c->question = ask->question;
    sky_mutex_lock(&h->mutex);
    sky__chore **last = &t->waiting;
    while (*last)
        last = &(*last)->next;
    *last = c;
    sky_condition_broadcast(&h->changed);
    sky_mutex_unlock(&h->mutex);
    return true;
}

void sky__chores_forget(sky__host *h, sky__client *client) {
    sky__tenant *t = client->tenant;
    sky_mutex_lock(&h->mutex);
    for (sky__chore **at = &t->waiting; *at; at = &(*at)->next) {
        sky__chore *c = *at;
        if (c->client != client->number)
            continue;
        *at = c->next;
        t->chores--;
        free(c);
        break; /* each has one at most */
    }
    sky_mutex_unlock(&h->mutex);
}

sky__chore *sky__chores_take(sky__host *h) {
    sky_mutex_lock(&h->mutex);
    sky_event_clear(h->chores_event);
    sky__chore *done = h->finished;
    h->finished = NULL;
    sky_mutex_unlock(&h->mutex);
    return done;
}
