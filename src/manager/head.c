/* See head.h. */
#include "manager/head.h"

bool sky__head_can(const sky_sequence *q) {
    const sky_engine_ops *o = q->engine.ops;
    return !q->manager->load_only && o->advance && o->interrupt && o->place_advanced;
}

void sky__head_init(sky__head *h, sky_sequence *q) {
    *h = (sky__head){.q = q};
    sky_mutex_init(&h->mutex);
    sky_condition_init(&h->changed);
}

void sky__head_deinit(sky__head *h) {
    sky_condition_deinit(&h->changed);
    sky_mutex_deinit(&h->mutex);
}

void sky__head_want(sky__head *h, uint32_t first, uint32_t end) {
    sky_mutex_lock(&h->mutex);
    h->wanted = true;
    h->first = first;
    h->end = end;
    sky_condition_broadcast(&h->changed);
    sky_mutex_unlock(&h->mutex);
}

bool sky__head_done(sky__head *h, sky_status *out) {
    sky_mutex_lock(&h->mutex);
    bool done = h->done;
    *out = h->status;
    h->done = false;
    sky_mutex_unlock(&h->mutex);
    return done;
}

bool sky__head_computes(sky__head *h) {
    sky_mutex_lock(&h->mutex);
    bool computes = h->wanted;
    sky_mutex_unlock(&h->mutex);
    return computes;
}

void sky__head_run(sky__head *h) {
    uint32_t block_tokens = h->q->manager->block_tokens;
    sky_mutex_lock(&h->mutex);
    while (!h->over) {
        if (!h->wanted) {
            sky_condition_wait(&h->changed, &h->mutex, SKY_TIME_NEVER);
            continue;
        }
        uint32_t count = h->end - h->first, token = h->first * block_tokens;
        sky_mutex_unlock(&h->mutex);
        sky_status status = sky__engine_advance(h->q, h->q->tokens + token, token,
                                                count * block_tokens);
        sky_mutex_lock(&h->mutex);
        h->wanted = false;
        h->done = true;
        h->status = status;
        h->computed += status == SKY_OK ? count : 0;
        sky_event_raise(h->q->event);
    }
    sky_mutex_unlock(&h->mutex);
}

void sky__head_end(sky__head *h) {
    sky_mutex_lock(&h->mutex);
    h->over = true;
    bool under_way = h->wanted;
    sky_condition_broadcast(&h->changed);
    sky_mutex_unlock(&h->mutex);
    if (under_way)
        h->q->engine.ops->interrupt(h->q->engine.self);
}
