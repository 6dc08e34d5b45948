/* What takes long, or as long as a store wants: on threads of each tenant, so that no client waits
 * for another's listing, and no user for another's check. */
#include <stdlib.h>
#include <string.h>

#include "cache/cache_internal.h"
#include "cache/listing.h"
#include "host/host.h"

/* ---- what is done ---- */

static void do_verify(const sky__host *h, sky__chore *c) {
    sky_verify_report r = {0};
    c->status = atomic_load(&h->checks_end) ? SKY_E_CANCELLED : sky_verify(c->tenant->cache, &r);
    const uint64_t numbers[] = {r.entries, r.bytes, r.corrupt, r.orphans};
    memcpy(c->numbers, numbers, sizeof numbers);
}

/* The entries of the client's stores, and the bytes of the nearest of them. */
static void do_stat(sky__chore *c) {
    sky_cache *cache = c->tenant->cache;
    const size_t first = c->tier ? c->tier - 1 : 0, end = c->tier ? c->tier : sky_tier_count(cache);
    for (size_t i = first; i < end; i++) {
        sky_tier_counts counts = {0};
        (void)sky__cache_tier_counts(cache, i, &counts);
        c->numbers[0] += counts.entries;
        if (i > first)
            continue;
        c->numbers[1] = counts.bytes_used;
        c->numbers[2] = counts.bytes_max;
    }
}

static void write_text(void *chore) {
    sky__chore *c = chore;
    const sky_host_options *o = &c->tenant->queues[SKY__QUEUE_NUMBERS].host->options;
    char *text = o->text(o->context, c->tenant->cache, &c->stat);
    c->status = text ? SKY_OK : SKY_E_NOMEM;
    c->text = (uint8_t *)text;
    c->text_bytes = text ? strlen(text) : 0;
}

static void do_text(const sky__host *h, sky__chore *c) {
    if (h->options.text)
        sky__cache_read_once(c->tenant->cache, write_text, c);
    else
        c->status = SKY_E_UNSUPPORTED;
}

static void do_chore(const sky__host *h, sky__chore *c) {
    if (c->question == SKY_SHM_LIST)
        c->status = sky__listing(c->tenant->cache, c->tier, &c->text, &c->text_bytes);
    else if (c->question == SKY_SHM_VERIFY)
        do_verify(h, c);
    else if (c->question == SKY_SHM_STAT)
        do_stat(c);
    else
        do_text(h, c);
}

/* ---- queues ---- */

static void *chores_thread(void *argument) {
    sky__queue *queue = argument;
    sky__host *h = queue->host;
    sky_mutex_lock(&h->mutex);
    while (!queue->ending) {
        sky__chore *c = queue->waiting;
        if (!c) {
            (void)sky_condition_wait(&h->changed, &h->mutex, SKY_TIME_NEVER);
            continue;
        }
        queue->waiting = c->next;
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

void sky__chores_end(sky__queue *queue) {
    if (!queue->thread.running)
        return;
    sky_mutex_lock(&queue->host->mutex);
    queue->ending = true;
    sky_condition_broadcast(&queue->host->changed);
    sky_mutex_unlock(&queue->host->mutex);
    sky_thread_join(&queue->thread);
    sky__chores_free(queue->waiting);
    queue->waiting = NULL;
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

sky__queue_kind sky__chore_queue(sky_shm_question question) {
    bool long_ones = question == SKY_SHM_LIST || question == SKY_SHM_VERIFY;
    return long_ones ? SKY__QUEUE_LISTINGS : SKY__QUEUE_NUMBERS;
}

bool sky__chore_add(sky__host *h, sky__client *client, const sky_shm_frame *ask) {
    sky__tenant *t = client->tenant;
    sky__queue *queue = &t->queues[sky__chore_queue(ask->question)];
    if (!queue->thread.running &&
        sky_thread_start(&queue->thread, "skymem-chores", chores_thread, queue) != SKY_OK)
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
    c->stat = t->stat;
    sky_mutex_lock(&h->mutex);
    sky__chore **last = &queue->waiting;
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
    for (size_t i = 0; i < SKY__QUEUES; i++)
        for (sky__chore **at = &t->queues[i].waiting; *at; at = &(*at)->next) {
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
