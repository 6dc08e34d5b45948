/* The planner over a cache: its requests become batches, the engine gets a thread.
 *
 *   request ── slices cut into at most LUMPS ranges, each a batch of one item, so that what arrived
 *              of a request that is given up is known
 *
 * One event is raised by the engine's thread and by each batch that is done; the loader sleeps
 * until then, or until the planner wants to look.
 *
 * Surprises: batches are looked at one by one (sky_wait with a time that has passed), not drained,
 * because a batch that tells an event of its own is in no queue. A second request for bytes that
 * are on their way already reads into memory of its own, and its bytes move over only after the
 * first was cancelled: two tiers never write to one buffer. */
#include <skymem/stream.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/sync.h"

#define LUMPS 4

/* ---- the engine's thread ---- */

typedef struct {
    const sky_pacer_env *env;
    sky_thread thread;
    sky_mutex mutex;
    sky_condition changed;
    int event; /* the loader's, raised when a segment is done */
    bool stopping, asked, done;
    uint32_t segment;
    sky_status status;
} engine;

static void *engine_body(void *argument) {
    engine *e = argument;
    sky_mutex_lock(&e->mutex);
    while (!e->stopping) {
        if (!e->asked) {
            sky_condition_wait(&e->changed, &e->mutex, SKY_TIME_NEVER);
            continue;
        }
        sky_mutex_unlock(&e->mutex);
        sky_status status = e->env->compute(e->env->self, e->segment);
        sky_mutex_lock(&e->mutex);
        e->status = status;
        e->asked = false;
        e->done = true;
        sky_event_raise(e->event);
    }
    sky_mutex_unlock(&e->mutex);
    return NULL;
}

static void engine_ask(engine *e, uint32_t segment) {
    sky_mutex_lock(&e->mutex);
    e->segment = segment;
    e->asked = true;
    sky_condition_broadcast(&e->changed);
    sky_mutex_unlock(&e->mutex);
}

static bool engine_answered(engine *e, sky_status *status) {
    sky_mutex_lock(&e->mutex);
    bool done = e->done;
    e->done = false;
    *status = e->status;
    sky_mutex_unlock(&e->mutex);
    return done;
}

static sky_status engine_start(engine *e) {
    return e->env->compute ? sky_thread_start(&e->thread, "skymem-compute", engine_body, e)
                           : SKY_OK;
}

static void engine_stop(engine *e) {
    sky_mutex_lock(&e->mutex);
    e->stopping = true;
    sky_condition_broadcast(&e->changed);
    sky_mutex_unlock(&e->mutex);
    sky_thread_join(&e->thread);
    sky_condition_deinit(&e->changed);
    sky_mutex_deinit(&e->mutex);
}

/* ---- requests as batches ---- */

typedef struct {
    uint32_t slice, slice_count;
    sky_batch batch; /* id 0: over */
    sky_item item;
    sky_span span;
} lump;

typedef struct {
    sky_pace asked; /* request 0: free */
    lump lumps[LUMPS];
    uint32_t lump_count;
    uint64_t arrived;
    uint8_t *aside; /* read here, because another request reads into the form's own place */
} request;

typedef struct {
    const sky_pacer_env *env;
    const sky_segment *segments;
    uint32_t slices;
    sky_time deadline_ns;
    sky_pacer *pacer;
    engine engine;
    request requests[SKY_PACER_FLIGHTS_MAX];
    bool over;
    sky_status asked; /* how the last submits went */
} loader;

static uint64_t slice_at(const loader *l, const sky_pace *asked, uint32_t slice) {
    return l->segments[asked->segment].forms[asked->form].bytes * slice / l->slices;
}

static void request_close(loader *l, request *r) {
    for (uint32_t i = 0; i < r->lump_count; i++)
        if (r->lumps[i].batch.id != 0)
            sky_cancel(l->env->cache, r->lumps[i].batch);
    free(r->aside);
    *r = (request){0};
}

static request *request_find(loader *l, uint32_t number) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (l->requests[i].asked.request == number)
            return &l->requests[i];
    return NULL;
}

/* Another request for the same form. */
static request *request_twin(loader *l, const request *r) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        request *other = &l->requests[i];
        if (other != r && other->asked.request != 0 && other->asked.segment == r->asked.segment &&
            other->asked.form == r->asked.form)
            return other;
    }
    return NULL;
}

static sky_status lump_submit(loader *l, request *r, lump *p) {
    const sky_pace *a = &r->asked;
    const sky_stored_segment *stored = &l->env->stored[a->segment];
    uint64_t from = slice_at(l, a, p->slice), to = slice_at(l, a, p->slice + p->slice_count);
    uint8_t *place = r->aside ? r->aside : stored->data[a->form];
    const sky_call call = {.deadline_ns = l->deadline_ns,
                           .tiers = l->env->tiers[a->source],
                           .event_fd = l->engine.event};
    p->span = (sky_span){place + from, to - from};
    p->item = (sky_item){.spans = &p->span, .span_count = 1, .range = {from, to - from}};
    sky_level_key(&stored->key, stored->codings[a->form], &p->item.key);
    return sky_submit(l->env->cache, SKY_OP_GET, &p->item, 1, &call, &p->batch);
}

/* Ask the cache. While it has too many batches of others the request stays without lumps, and is
 * tried again when the planner wants to look. */
static sky_status request_submit(loader *l, request *r) {
    const sky_pace own = r->asked, *asked = &own;
    if (request_twin(l, r)) {
        r->aside = malloc(l->segments[asked->segment].forms[asked->form].bytes);
        if (!r->aside) {
            *r = (request){0};
            return SKY_E_NOMEM;
        }
    }
    uint32_t left = l->slices - asked->slice, at = asked->slice;
    r->lump_count = left < LUMPS ? left : LUMPS;
    sky_status status = SKY_OK;
    for (uint32_t i = 0; i < r->lump_count && status == SKY_OK; i++) {
        lump *p = &r->lumps[i];
        p->slice = at;
        p->slice_count = left * (i + 1) / r->lump_count - left * i / r->lump_count;
        at += p->slice_count;
        status = lump_submit(l, r, p);
    }
    if (status == SKY_OK)
        return SKY_OK;
    request_close(l, r);
    if (status != SKY_E_BUSY)
        return status;
    *r = (request){.asked = own};
    return SKY_OK;
}

static sky_status request_open(loader *l, const sky_pace *asked) {
    request *r = request_find(l, 0);
    assert(r); /* the planner has no more under way than there are places */
    *r = (request){.asked = *asked};
    return request_submit(l, r);
}

/* SKY_PENDING: not yet. */
static sky_status lump_poll(loader *l, lump *p) {
    if (sky_wait(l->env->cache, p->batch, 1) == SKY_E_DEADLINE)
        return SKY_PENDING;
    p->batch.id = 0;
    if (p->item.status == SKY_OK && p->item.bytes != p->span.bytes)
        return SKY_E_CORRUPT;
    return p->item.status;
}

static sky_status hand_over(loader *l, const request *r, uint32_t slice, uint32_t slice_count) {
    return l->env->take
               ? l->env->take(l->env->self, r->asked.segment, r->asked.form, slice, slice_count)
               : SKY_OK;
}

/* All of a request that read aside is here: its bytes take the place of its twin's. */
static sky_status move_over(loader *l, request *r) {
    const sky_pace *a = &r->asked;
    request *twin = request_twin(l, r);
    for (uint32_t i = 0; twin && i < twin->lump_count; i++) {
        if (twin->lumps[i].batch.id != 0)
            sky_cancel(l->env->cache, twin->lumps[i].batch);
        twin->lumps[i].batch.id = 0;
    }
    uint64_t from = slice_at(l, a, a->slice), to = slice_at(l, a, l->slices);
    memcpy(l->env->stored[a->segment].data[a->form] + from, r->aside + from, to - from);
    return hand_over(l, r, a->slice, l->slices - a->slice);
}

/* Slices from the first on that are there. */
static uint32_t leading_slices(const request *r) {
    uint32_t slices = 0;
    for (uint32_t i = 0; i < r->lump_count && r->lumps[i].batch.id == 0; i++)
        slices += r->lumps[i].slice_count;
    return slices;
}

/* True when something came. */
static bool request_poll(loader *l, request *r) {
    sky_status status = SKY_OK;
    bool news = false, open = false;
    for (uint32_t i = 0; i < r->lump_count && status == SKY_OK; i++) {
        lump *p = &r->lumps[i];
        sky_status s = p->batch.id != 0 ? lump_poll(l, p) : SKY_OK;
        if (p->batch.id != 0) {
            open = true;
            continue;
        }
        if (p->span.bytes == 0)
            continue; /* counted before */
        news = true;
        r->arrived += p->span.bytes;
        p->span.bytes = 0;
        status = s == SKY_OK && !r->aside ? hand_over(l, r, p->slice, p->slice_count) : s;
    }
    if (!news)
        return false;
    sky_time now = sky_now();
    uint32_t number = r->asked.request;
    if (status == SKY_OK && open) {
        sky_pacer_arrived(l->pacer, now, number, r->arrived, r->aside ? 0 : leading_slices(r));
        return true;
    }
    if (status == SKY_OK && r->aside)
        status = move_over(l, r);
    request_close(l, r);
    sky_pacer_finished(l->pacer, now, number, status);
    return true;
}

/* ---- the loop ---- */

static sky_status obey(loader *l, const sky_pace *pace) {
    request *r;
    switch (pace->kind) {
    case SKY_PACE_GET:
        return request_open(l, pace);
    case SKY_PACE_CANCEL:
        r = request_find(l, pace->request);
        if (r)
            request_close(l, r);
        return SKY_OK;
    case SKY_PACE_COMPUTE:
        engine_ask(&l->engine, pace->segment);
        return SKY_OK;
    case SKY_PACE_END:
        l->over = true;
    }
    return SKY_OK;
}

/* As sky_idle_fn. */
static sky_time listen_until(void *context) {
    loader *l = context;
    sky_status status;
    bool news = engine_answered(&l->engine, &status);
    if (news)
        sky_pacer_computed(l->pacer, sky_now(), status == SKY_OK);
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX && l->asked == SKY_OK; i++) {
        request *r = &l->requests[i];
        if (r->asked.request != 0 && r->lump_count == 0)
            l->asked = request_submit(l, r);
        else if (r->asked.request != 0)
            news |= request_poll(l, r);
    }
    return news || l->asked != SKY_OK ? 0 : sky_pacer_wake(l->pacer, sky_now());
}

static sky_status run(loader *l) {
    sky_status status = SKY_OK;
    while (!l->over && status == SKY_OK) {
        sky_pace pace;
        while (sky_pacer_next(l->pacer, sky_now(), &pace)) {
            status = obey(l, &pace);
            if (status != SKY_OK)
                return status;
        }
        if (!l->over)
            sky_event_wait(l->engine.event, NULL, 0, listen_until, l);
        status = l->asked;
    }
    return status;
}

/* The caller's segments, or a copy whose text nobody computes. */
static sky_segment *without_engine(const sky_segment *segments, uint32_t count) {
    sky_segment *copy = malloc((count ? count : 1) * sizeof *copy);
    for (uint32_t i = 0; copy && i < count; i++) {
        copy[i] = segments[i];
        copy[i].compute_ns = 0;
    }
    return copy;
}

sky_status sky_pacer_load(const sky_pacer_env *env, const sky_segment *segments, uint32_t count,
                          sky_link *links, uint32_t link_count, const sky_pacer_options *options,
                          sky_pacer_report *out, uint8_t *forms) {
    loader l = {.env = env, .segments = segments, .engine = {.env = env, .event = -1}};
    l.slices = options && options->slices ? options->slices : 1;
    l.deadline_ns = options ? options->deadline_ns : 0;
    sky_mutex_init(&l.engine.mutex);
    sky_condition_init(&l.engine.changed);
    sky_segment *loaded_only = NULL;
    sky_status status = SKY_E_NOMEM;
    if (!env->compute && !(l.segments = loaded_only = without_engine(segments, count)))
        goto cleanup;
    status = sky_pacer_create(l.segments, count, links, link_count, options, sky_now(), &l.pacer);
    if (status == SKY_OK)
        status = sky_event_create(&l.engine.event);
    if (status == SKY_OK)
        status = engine_start(&l.engine);
    if (status == SKY_OK)
        status = run(&l);
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (l.requests[i].asked.request != 0)
            request_close(&l, &l.requests[i]);
    if (status == SKY_OK)
        sky_pacer_report_get(l.pacer, out);
    for (uint32_t i = 0; status == SKY_OK && forms && i < count * l.slices; i++)
        forms[i] = sky_pacer_form(l.pacer, i / l.slices, i % l.slices);
cleanup:
    engine_stop(&l.engine);
    sky_event_close(l.engine.event);
    sky_pacer_destroy(l.pacer);
    free(loaded_only);
    return status;
}
