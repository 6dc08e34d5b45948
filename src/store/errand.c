/* The hierarchy's thread: it carries errands to the tiers and their answers back.
 *
 *   waiting (callers' first, then the background's) ──start──► active ──► done(): its owner goes on
 *
 * It sleeps in poll on its own wake-up and on the tiers that have something under way. Surprises:
 *  - An errand that fails to start (tier skipped, given up, past its deadline) also ends in done(),
 *    with the reason in all its items, so that whoever queued it has one place to go on.
 *  - A tier's health is counted in errands, not items, and an errand that was given very little
 *    time and ends late says nothing about the tier. */
#include "store/hierarchy.h"

#include <skymem/keys.h>

#define FAILURES_MAX    3
#define BACKOFF_MIN_NS  SKY_SECONDS(1)
#define BACKOFF_MAX_NS  SKY_SECONDS(30)
#define LATE_COUNTS_NS  SKY_MS(50)
#define DRAINED_AT_ONCE 64

static bool writes(sky_op op) {
    return op == SKY_OP_PUT || op == SKY_OP_REMOVE;
}

/* ---- lists ---- */

static void append(sky_errand_list *l, sky_errand *e) {
    e->next = NULL;
    if (l->last)
        l->last->next = e;
    else
        l->first = e;
    l->last = e;
}

static void take_out(sky_errand_list *l, sky_errand *e) {
    sky_errand *before = NULL;
    for (sky_errand *at = l->first; at != e; at = at->next)
        before = at;
    if (before)
        before->next = e->next;
    else
        l->first = e->next;
    if (l->last == e)
        l->last = before;
    e->next = NULL;
}

static bool puts_now(const sky_errand *e) {
    return e->active && e->op == SKY_OP_PUT;
}

/* A write is about to be queued: copies of what may be older must not come after it. Blocks that a
 * removal finds on their way do arrive: it finds by them what to drop below. */
static void outrun_copies(sky_errand *first, const sky_errand *write) {
    for (sky_errand *e = first; e; e = e->next)
        for (size_t i = 0; e->if_absent && !puts_now(e) && i < write->item_count; i++)
            e->given_up |= (write->op == SKY_OP_PUT || e->items[0].name) &&
                           sky_key_equal(&e->items[0].key, &write->items[i].key);
}

void sky_errand_add(sky_cache *c, sky_errand *e) {
    sky_rung *r = &c->tiers[e->tier];
    if (writes(e->op) && !e->if_absent) {
        outrun_copies(r->waiting_behind.first, e);
        outrun_copies(r->active.first, e);
    }
    e->active = false;
    e->number = ++c->errand_count;
    e->given_up |= c->stopping;
    if (e->background) /* its time runs from its start */
        e->call.deadline_ns = 0;
    append(e->background ? &r->waiting_behind : &r->waiting, e);
}

void sky_wake(sky_cache *c) {
    sky_event_raise(c->wake);
}

/* ---- order ---- */

static bool share_a_key(const sky_item *a, size_t a_count, const sky_item *b, size_t b_count) {
    for (size_t i = 0; i < a_count; i++)
        for (size_t j = 0; j < b_count; j++)
            if (sky_key_equal(&a[i].key, &b[j].key))
                return true;
    return false;
}

bool sky_errand_conflict(const sky_cache *c, uint8_t tier, const sky_item *items,
                         size_t item_count) {
    for (const sky_errand *a = c->tiers[tier].active.first; a; a = a->next)
        if (writes(a->op) && share_a_key(a->items, a->item_count, items, item_count))
            return true;
    return false;
}

/* A block is in the list that was queued before. Reads for a promotion bring none, and wait for
 * callers themselves. */
static bool brings_block(const sky_errand_list *l, const sky_errand *before) {
    for (const sky_errand *e = l->first; e; e = e->next)
        if (e->background && !e->when_idle && e->number < before->number && !e->items[0].name)
            return true;
    return false;
}

static bool precedes(const sky_errand *w, const sky_errand *e) {
    return !w->background && w->number < e->number &&
           (w->op == SKY_OP_REMOVE || (writes(w->op) && w->tier == e->tier)) &&
           share_a_key(w->items, w->item_count, e->items, e->item_count);
}

/* A caller's write of the same keys was queued before and waits; or a removal of them is not over
 * at some tier: what was read there must not come back here. */
static bool is_behind_a_caller(const sky_cache *c, const sky_errand *e) {
    for (size_t t = 0; t < c->tier_count; t++) {
        for (const sky_errand *w = c->tiers[t].waiting.first; w; w = w->next)
            if (precedes(w, e))
                return true;
        for (const sky_errand *w = c->tiers[t].active.first; w && e->background; w = w->next)
            if (precedes(w, e))
                return true;
    }
    return false;
}

/* A caller's write, queued or under way at the tier since before errand `number`, is about one of
 * the keys; or the tier is to drop what is outdated there. */
static bool is_behind_a_write(const sky_rung *r, uint64_t number, const sky_item *items,
                              size_t item_count) {
    for (const sky_errand *w = r->waiting.first; w && w->number < number; w = w->next)
        if (writes(w->op) && share_a_key(w->items, w->item_count, items, item_count))
            return true;
    for (const sky_errand *w = r->waiting_behind.first; w; w = w->next)
        if (w->op == SKY_OP_REMOVE && w->number < number &&
            share_a_key(w->items, w->item_count, items, item_count))
            return true;
    for (const sky_errand *w = r->active.first; w; w = w->next)
        if ((!w->background || w->op == SKY_OP_REMOVE) && writes(w->op) && w->number < number &&
            share_a_key(w->items, w->item_count, items, item_count))
            return true;
    return false;
}

bool sky_errand_written(const sky_cache *c, uint8_t tier, const sky_item *items,
                        size_t item_count) {
    return is_behind_a_write(&c->tiers[tier], UINT64_MAX, items, item_count);
}

bool sky_errand_changing(const sky_cache *c, uint8_t tier, const sky_item *item) {
    for (size_t t = 0; t < c->tier_count; t++) {
        const sky_rung *r = &c->tiers[t];
        const sky_errand *const lists[] = {r->waiting.first, r->waiting_behind.first,
                                           r->active.first};
        for (size_t l = 0; l < 3; l++)
            for (const sky_errand *e = lists[l]; e; e = e->next)
                if (((t == tier && writes(e->op)) || (e->op == SKY_OP_REMOVE && !e->background)) &&
                    share_a_key(e->items, e->item_count, item, 1))
                    return true;
    }
    return false;
}

static bool must_wait(const sky_cache *c, const sky_errand *e) {
    const sky_rung *r = &c->tiers[e->tier];
    if (!writes(e->op)) /* what nobody waits for is told to forget what it read */
        return !e->background && (is_behind_a_write(r, e->number, e->items, e->item_count) ||
                                  sky_job_refused(c, e->tier, e->items, e->item_count));
    if (sky_errand_conflict(c, e->tier, e->items, e->item_count) || is_behind_a_caller(c, e))
        return true;
    if (e->op == SKY_OP_REMOVE &&
        (brings_block(&r->waiting_behind, e) || brings_block(&r->active, e)))
        return true;
    for (const sky_near_put *p = e->tier == 0 ? c->near_puts : NULL; p; p = p->next)
        if (share_a_key(p->items, p->item_count, e->items, e->item_count))
            return true;
    return false;
}

/* It ends without starting, or is called back. */
static bool is_over(const sky_errand *e, sky_time now) {
    return e->given_up || (e->call.deadline_ns != 0 && now >= e->call.deadline_ns);
}

static sky_errand *first_over(const sky_errand_list *l) {
    sky_time now = sky_now();
    sky_errand *e = l->first;
    while (e && !is_over(e, now))
        e = e->next;
    return e;
}

static sky_errand *first_ready(const sky_cache *c, const sky_errand_list *l, bool idle) {
    sky_errand *e = l->first;
    while (e && ((e->when_idle && !idle) || must_wait(c, e)))
        e = e->next;
    return e;
}

/* The next errand to start at a tier, or NULL. What is over needs no free place. */
static sky_errand *next_errand(const sky_cache *c, const sky_rung *r) {
    sky_errand *e = first_over(&r->waiting);
    if (!e)
        e = first_over(&r->waiting_behind);
    if (!e && r->active_count - r->background_count < SKY_ERRANDS_ACTIVE_MAX)
        e = first_ready(c, &r->waiting, true);
    bool idle = !r->waiting.first && r->active_count == r->background_count;
    if (!e && r->background_count < SKY_BACKGROUND_ACTIVE_MAX)
        e = first_ready(c, &r->waiting_behind, idle);
    return e;
}

/* ---- health ---- */

bool sky_rung_skipped(const sky_rung *r) {
    return r->failures >= FAILURES_MAX && sky_now() < r->retry_at;
}

/* What an errand says about its tier: SKY_OK, a failure, or SKY_PENDING for nothing. */
static sky_status symptom(const sky_errand *e) {
    sky_status found = SKY_PENDING;
    for (size_t i = 0; i < e->item_count; i++) {
        sky_status s = e->items[i].status;
        if (s == SKY_E_IO || s == SKY_E_DENIED || s == SKY_E_NOMEM)
            return s;
        if (s == SKY_E_DEADLINE && sky_now() - e->started >= LATE_COUNTS_NS)
            return s;
        if (s != SKY_E_CANCELLED && s != SKY_E_DEADLINE && s != SKY_E_BUSY)
            found = SKY_OK;
    }
    return found;
}

static void examine(sky_rung *r, const sky_errand *e) {
    sky_status s = symptom(e);
    if (s == SKY_OK)
        r->failures = 0;
    if (s >= 0)
        return;
    r->last_failure = s;
    if (++r->failures < FAILURES_MAX)
        return;
    if (r->failures == FAILURES_MAX)
        r->backoff = BACKOFF_MIN_NS;
    else if (sky_now() >= r->retry_at) /* one round of failures doubles it once */
        r->backoff = r->backoff * 2 < BACKOFF_MAX_NS ? r->backoff * 2 : BACKOFF_MAX_NS;
    r->retry_at = sky_now() + r->backoff;
}

/* ---- an errand's way; all with the mutex held, released around what is outside ---- */

static void tell_all(sky_errand *e, sky_status status) {
    for (size_t i = 0; i < e->item_count; i++)
        e->items[i].status = status;
}

static void end_errand(sky_cache *c, sky_errand *e) {
    sky_mutex_unlock(&c->mutex);
    e->done(c, e);
    sky_mutex_lock(&c->mutex);
}

static void deactivate(sky_cache *c, sky_errand *e) {
    sky_rung *r = &c->tiers[e->tier];
    take_out(&r->active, e);
    r->active_count--;
    r->background_count -= e->background;
    e->active = false;
}

/* The tier has answered, or was told to forget it: its buffers are free. */
static void finish(sky_cache *c, sky_errand *e) {
    examine(&c->tiers[e->tier], e);
    deactivate(c, e);
    if (e->caller.id)
        sky_batches_leave(c->batches, e->caller);
    end_errand(c, e);
}

/* Why an errand is not worth starting; SKY_OK when it is. */
static sky_status obstacle(const sky_cache *c, const sky_errand *e) {
    if (is_over(e, e->started))
        return e->given_up ? SKY_E_CANCELLED : SKY_E_DEADLINE;
    return sky_rung_skipped(&c->tiers[e->tier]) ? SKY_E_IO : SKY_OK;
}

static void start(sky_cache *c, sky_errand *e) {
    sky_rung *r = &c->tiers[e->tier];
    take_out(e->background ? &r->waiting_behind : &r->waiting, e);
    e->started = sky_now();
    if (e->call.deadline_ns == 0)
        e->call.deadline_ns = e->started + SKY_PATIENCE_NS;
    sky_status status = obstacle(c, e);
    if (status == SKY_OK && e->caller.id &&
        !sky_batches_enter(c->batches, e->caller, e->caller_item))
        status = SKY_E_CANCELLED;
    if (status != SKY_OK) {
        tell_all(e, status);
        r->late += status == SKY_E_DEADLINE ? e->item_count : 0;
        end_errand(c, e);
        return;
    }
    e->active = true;
    append(&r->active, e);
    r->active_count++;
    r->background_count += e->background;
    sky_mutex_unlock(&c->mutex);
    status = r->tier->ops->submit(r->tier, e->op, e->items, e->item_count, &e->call, &e->sub);
    if (status == SKY_OK && r->lends)
        r->tier->ops->wait(r->tier, e->sub, SKY_TIME_NEVER);
    sky_mutex_lock(&c->mutex);
    if (status != SKY_OK)
        tell_all(e, status);
    if (status != SKY_OK || r->lends)
        finish(c, e);
}

static sky_errand *find_active(const sky_rung *r, sky_batch sub) {
    sky_errand *e = r->active.first;
    while (e && e->sub.id != sub.id)
        e = e->next;
    return e;
}

/* Take what the tier has finished. True when there was something. */
static bool collect(sky_cache *c, sky_rung *r) {
    sky_batch done[DRAINED_AT_ONCE];
    sky_mutex_unlock(&c->mutex);
    size_t count = r->tier->ops->drain(r->tier, done, DRAINED_AT_ONCE);
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < count; i++) {
        sky_errand *e = find_active(r, done[i]);
        if (e)
            finish(c, e);
    }
    return count > 0;
}

/* Call back what is given up or late. True when there was something. */
static bool call_back(sky_cache *c, sky_rung *r) {
    sky_errand *e = first_over(&r->active);
    if (!e)
        return false;
    sky_mutex_unlock(&c->mutex);
    r->tier->ops->cancel(r->tier, e->sub);
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < e->item_count && !e->given_up; i++)
        if (e->items[i].status == SKY_E_CANCELLED) {
            e->items[i].status = SKY_E_DEADLINE;
            r->late++;
        }
    finish(c, e);
    return true;
}

static bool step(sky_cache *c, sky_rung *r) {
    bool moved = r->active.first && collect(c, r);
    while (r->active.first && call_back(c, r))
        moved = true;
    for (sky_errand *e; (e = next_errand(c, r)) != NULL; moved = true)
        start(c, e);
    return moved;
}

void sky_errands_give_up(sky_cache *c, sky_batch caller) {
    for (size_t t = 0; t < c->tier_count; t++) {
        sky_errand *const lists[] = {c->tiers[t].waiting.first, c->tiers[t].active.first};
        for (size_t l = 0; l < 2; l++)
            for (sky_errand *e = lists[l]; e; e = e->next)
                e->given_up |= e->caller.id == caller.id;
    }
}

/* ---- the thread ---- */

static sky_time earliest(const sky_errand_list *l, sky_time at) {
    for (const sky_errand *e = l->first; e; e = e->next)
        if (e->call.deadline_ns != 0 && e->call.deadline_ns < at)
            at = e->call.deadline_ns;
    return at;
}

/* Sleep until a tier or somebody has news, or a deadline comes. */
static void doze(sky_cache *c, sky_time until) {
    int fds[1 + SKY_TIERS_MAX] = {c->wake};
    size_t fd_count = 1;
    for (size_t t = 0; t < c->tier_count; t++) {
        sky_rung *r = &c->tiers[t];
        until = earliest(&r->active, earliest(&r->waiting, until));
        if (r->active.first)
            fds[fd_count++] = r->tier->ops->event_fd(r->tier);
    }
    sky_mutex_unlock(&c->mutex);
    if (sky_poll(fds, fd_count, until) & 1)
        sky_event_clear(c->wake);
    sky_mutex_lock(&c->mutex);
}

static void give_up_all(sky_errand *first) {
    for (sky_errand *e = first; e; e = e->next)
        e->given_up = true;
}

static bool nothing_left(const sky_cache *c) {
    for (size_t t = 0; t < c->tier_count; t++)
        if (c->tiers[t].waiting.first || c->tiers[t].waiting_behind.first ||
            c->tiers[t].active.first)
            return false;
    return c->fetches == NULL;
}

void *sky_errands_run(void *cache) {
    sky_cache *c = cache;
    sky_mutex_lock(&c->mutex);
    while (!c->stopping || !nothing_left(c)) {
        bool moved = sky_fetch_step(c);
        for (size_t t = 0; t < c->tier_count; t++) {
            if (c->stopping) {
                give_up_all(c->tiers[t].waiting.first);
                give_up_all(c->tiers[t].waiting_behind.first);
                give_up_all(c->tiers[t].active.first);
            }
            moved |= step(c, &c->tiers[t]);
        }
        sky_time until = sky_jobs_expire(c);
        if (!moved)
            doze(c, until);
    }
    sky_mutex_unlock(&c->mutex);
    return NULL;
}

void sky_rung_ask(const sky_rung *r, sky_op op, sky_item *items, size_t item_count,
                  const sky_call *call) {
    sky_batch batch;
    sky_status status = r->tier->ops->submit(r->tier, op, items, item_count, call, &batch);
    if (status == SKY_OK)
        status = r->tier->ops->wait(r->tier, batch, SKY_TIME_NEVER);
    for (size_t i = 0; status != SKY_OK && i < item_count; i++)
        items[i].status = status;
}
