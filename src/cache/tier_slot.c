#include "cache/tier_slot.h"

#include "base/log.h"
#include "io/trace.h"

#define ACTIVE_MAX            64              /* at one tier, for callers */
#define BACKGROUND_ACTIVE_MAX 4               /* at one tier, for everything else */
#define AWAITS_ACTIVE_MAX     64              /* of the 96 frames that a client has at a host */
#define PATIENCE_NS           SKY_SECONDS(60) /* without a deadline of the caller's: for an item */
#define FAILURES_MAX          3
#define BACKOFF_MIN_NS        SKY_SECONDS(1)
#define BACKOFF_MAX_NS        SKY_SECONDS(30)
#define BACKOFF_PART          16
/* A late sub-request counts against its tier when it had so many times what others took there, or
 * the second value while none has ended well. */
#define LATE_SLACK      4
#define LATE_KNOWN_NS   SKY_MS(50)
#define LATE_FIRST_NS   SKY_SECONDS(1)
#define DRAINED_AT_ONCE 64
#define NEAR_TIMED      256

const char *sky__op_name(sky_op op) {
    static const char *const arrivals[] = {"announce", "await", "withdraw", "expect"};
    return op >= SKY_OP_ANNOUNCE && op <= SKY_OP_EXPECT ? arrivals[op - SKY_OP_ANNOUNCE]
                                                        : sky_metric_label_value("op", op);
}

/* ---- lists ---- */

static void sub_append(sky__sub_list *l, sky__sub *sub) {
    sub->next = NULL;
    *(l->first ? &l->last->next : &l->first) = sub;
    l->last = sub;
}

static void take_out(sky__sub_list *l, sky__sub *sub) {
    sky__sub *before = NULL;
    for (sky__sub *at = l->first; at != sub; at = at->next)
        before = at;
    *(before ? &before->next : &l->first) = sub->next;
    if (l->last == sub)
        l->last = before;
    sub->next = NULL;
}

static void look_by(sky__slot *s, sky_time at) {
    if (at != 0 && at < s->check_at)
        s->check_at = at;
}

void sky__slot_queue(sky_cache *c, sky__sub *sub) {
    sky__slot *s = &c->slots[sub->tier];
    sub->number = ++c->sub_count;
    sub->queued_at = sky__cache_now(c);
    sub->given_up |= c->stopping;
    sub->patience_until = 0; /* from its start on */
    if (sub->background)
        sub->call.deadline_ns = 0;
    look_by(s, sub->call.deadline_ns);
    s->check_now |= sub->given_up;
    sub_append(sub->background ? &s->waiting_background : &s->waiting, sub);
}

void sky__slot_give_up(sky_cache *c, sky__sub *sub) {
    sub->given_up = true;
    c->slots[sub->tier].check_now = true;
}

void sky__slots_give_up(sky_cache *c, sky_batch caller) {
    for (size_t t = 0; t < c->slot_count; t++) {
        sky__sub *const lists[] = {c->slots[t].waiting.first, c->slots[t].active.first};
        for (size_t l = 0; l < 2; l++)
            for (sky__sub *sub = lists[l]; sub; sub = sub->next)
                if (sub->caller.id == caller.id)
                    sky__slot_give_up(c, sub);
    }
}

void sky__slots_check(sky_cache *c) {
    for (size_t t = 0; t < c->slot_count; t++)
        c->slots[t].check_now = true;
}

/* ---- which is next ---- */

/* It takes as long as another program computes, which says nothing of the tier. */
static bool is_wait(const sky__sub *sub) {
    return sub->op == SKY_OP_AWAIT || sub->op == SKY_OP_EXPECT;
}

/* A write for the background was queued before and is not over. Reads for a promotion bring nothing
 * to the tier. */
static bool has_write_before(const sky__sub_list *l, const sky__sub *removal) {
    for (const sky__sub *sub = l->first; sub; sub = sub->next)
        if (sub->background && sub->op == SKY_OP_PUT && sub->number < removal->number)
            return true;
    return false;
}

static bool may_start(const sky__slot *s, const sky__sub *sub, bool idle) {
    if (sub->when_idle && !idle)
        return false;
    if (is_wait(sub) && s->await_count >= AWAITS_ACTIVE_MAX)
        return false;
    if (sub->background && sub->op == SKY_OP_PUT && sky__slot_evicting(s))
        return false;
    return sub->op != SKY_OP_REMOVE ||
           (!has_write_before(&s->waiting_background, sub) && !has_write_before(&s->active, sub));
}

static bool is_given_up(const sky__sub *sub) {
    return sub->given_up || (sub->order && sub->order->outdated);
}

/* When it is given up; 0: never. */
static sky_time end_of(const sky__sub *sub) {
    return sub->call.deadline_ns != 0 ? sub->call.deadline_ns : sub->patience_until;
}

static bool is_over(const sky__sub *sub, sky_time now) {
    return is_given_up(sub) || (end_of(sub) != 0 && now >= end_of(sub));
}

static sky__sub *first_over(const sky__sub_list *l, sky_time now) {
    sky__sub *sub = l->first;
    while (sub && !is_over(sub, now))
        sub = sub->next;
    return sub;
}

static sky__sub *first_ready(const sky__slot *s, const sky__sub_list *l, bool idle) {
    sky__sub *sub = l->first;
    while (sub && !may_start(s, sub, idle))
        sub = sub->next;
    return sub;
}

/* The next sub-request to start, or NULL. */
static sky__sub *next_ready(const sky__slot *s) {
    sky__sub *sub = NULL;
    if (s->active_count - s->background_count - s->await_count < ACTIVE_MAX)
        sub = first_ready(s, &s->waiting, true);
    bool idle = !s->waiting.first && s->active_count == s->background_count;
    if (!sub && s->background_count < BACKGROUND_ACTIVE_MAX)
        sub = first_ready(s, &s->waiting_background, idle);
    return sub;
}

/* ---- health ---- */

bool sky__slot_skipped(const sky_cache *c, const sky__slot *s) {
    return s->failures >= FAILURES_MAX && sky__cache_now(c) < s->retry_at;
}

/* What was asked for with too little time says nothing against a tier that has time. */
static bool had_time(const sky__slot *s, sky_time took) {
    if (s->slowest_ns == 0)
        return took >= LATE_FIRST_NS;
    return took >= LATE_KNOWN_NS && took >= LATE_SLACK * s->slowest_ns;
}

/* What a sub-request says about its tier: SKY_OK, a failure, or SKY_PENDING for nothing. A failure
 * that bears the tier's index is of a tier behind it, a host's for example, and says nothing. */
static sky_status slot_symptom(const sky__slot *s, const sky__sub *sub, sky_time took) {
    sky_status found = SKY_PENDING;
    for (size_t i = 0; i < sub->item_count; i++) {
        sky_status status = sub->items[i].status;
        bool fails = status == SKY_E_IO || status == SKY_E_DENIED || status == SKY_E_NOMEM;
        if (fails && sub->items[i].tier == sub->tier)
            continue;
        if (fails)
            return status;
        if (status == SKY_E_DEADLINE && !is_wait(sub) && had_time(s, took))
            return status;
        if (status != SKY_E_CANCELLED && status != SKY_E_DEADLINE && status != SKY_E_BUSY &&
            status != SKY_E_UNAVAILABLE &&
            !is_wait(sub)) /* one satellite is silent; what others have is there */
            found = SKY_OK;
    }
    return found;
}

static int index_of(const sky_cache *c, const sky__slot *s) {
    return (int)(s - c->slots);
}

void sky__sub_log(const sky__sub *sub, sky_time took) {
    if (!sky_log_wanted(SKY_LOG_DEBUG))
        return;
    size_t ok = 0;
    for (size_t i = 0; i < sub->item_count; i++)
        ok += sub->items[i].status == SKY_OK;
    sky_log(SKY_LOG_DEBUG, "tier %u: %s of %zu keys%s: %zu ok, first: %s, %.3f ms", sub->tier,
            sky__op_name(sub->op), sub->item_count, sub->background ? " in the background" : "", ok,
            sky_status_text(sub->items[0].status), (double)took / 1e6);
}

static sky_trace_event tier_event(const sky_cache *c, size_t tier, sky_op op, const sky_item *items,
                                  size_t item_count) {
    sky_trace_event e = {.category = "tier",
                         .tier = c->slots[tier].kind,
                         .name = sky__op_name(op),
                         .status = sky_status_name(items[0].status),
                         .key = &items[0].key,
                         .items = item_count};
    for (size_t i = 0; i < item_count; i++)
        e.bytes += items[i].status == SKY_OK ? items[i].bytes : 0;
    return e;
}

void sky__tier_trace(const sky_cache *c, size_t tier, sky_op op, const sky_item *items,
                     size_t item_count, sky_time began, sky_time ended) {
    if (!sky_trace_on())
        return;
    const sky_trace_event e = tier_event(c, tier, op, items, item_count);
    sky_trace_span(&e, began, ended);
}

/* A sub-request that is over: how long it waited, and how long the tier took. */
static void sub_trace(const sky_cache *c, const sky__sub *sub, bool asked) {
    if (!sky_trace_on())
        return;
    sky_time now = sky__cache_now(c), started = asked ? sub->started_at : now;
    sky_trace_event e = tier_event(c, sub->tier, sub->op, sub->items, sub->item_count);
    e.id = sky_trace_id();
    e.request = sub->trace;
    e.why = sub->why;
    sky_trace_event part = {.category = e.category, .name = "queue", .id = e.id};
    part.request = sub->trace;
    sky_trace_begin(&e, sub->queued_at);
    sky_trace_span(&part, sub->queued_at, started);
    part.name = "answer";
    if (asked)
        sky_trace_span(&part, started, now);
    sky_trace_end(&e, now);
}

/* A tier that is tried in vain costs its callers so small a part of the time. */
static sky_time backoff_ns(sky_time took) {
    sky_time wait = took < BACKOFF_MAX_NS / BACKOFF_PART ? took * BACKOFF_PART : BACKOFF_MAX_NS;
    return wait > BACKOFF_MIN_NS ? wait : BACKOFF_MIN_NS;
}

static void count_failure(const sky_cache *c, sky__slot *s, sky_status failure, sky_time took) {
    s->last_failure = failure;
    if (++s->failures < FAILURES_MAX)
        return;
    sky_time wait = backoff_ns(took);
    s->retry_at = sky__cache_now(c) + wait;
    sky_log(SKY_LOG_INFO, "tier %d failed %u times in a row (%s): skipped for %.0f s",
            index_of(c, s), s->failures, sky_status_text(failure), (double)wait / 1e9);
}

static void slot_examine(sky_cache *c, sky__slot *s, const sky__sub *sub) {
    sky_time took = sky__cache_now(c) - sub->started_at;
    sky_status found = slot_symptom(s, sub, took);
    if (sub->op < SKY_OP_ANNOUNCE) /* the table of times has no room for more */
        sky_histogram_add(&c->times[sub->tier].answer[sub->op], took);
    sky__sub_log(sub, took);
    if (found == SKY_OK) {
        sky_time faded = s->slowest_ns - s->slowest_ns / 16;
        s->slowest_ns = took > faded ? took : faded;
        s->slowest_ns += s->slowest_ns == 0;
        if (s->failures >= FAILURES_MAX)
            sky_log(SKY_LOG_INFO, "tier %d answers again", index_of(c, s));
        s->failures = 0;
    } else if (found < 0) {
        count_failure(c, s, found, took);
    }
}

/* ---- a sub-request's way; all with the mutex held, released around what is outside ---- */

/* What a sub-request ends with when its tier cannot be asked: what the tier holds may be there. */
static sky_status away_status(sky_op op) {
    return op == SKY_OP_PUT || op >= SKY_OP_ANNOUNCE ? SKY_E_IO : SKY_E_UNAVAILABLE;
}

/* A store of others that does not answer is as one that is skipped. What it answered itself bears
 * its index. */
static void name_silence(const sky__slot *s, const sky__sub *sub) {
    for (size_t i = 0; s->tier->traits & SKY_TIER_REMOTE && i < sub->item_count; i++)
        if (sub->items[i].status == SKY_E_IO && sub->items[i].tier != sub->tier)
            sub->items[i].status = away_status(sub->op);
}

static void tell_all(sky__sub *sub, sky_status status) {
    for (size_t i = 0; i < sub->item_count; i++)
        sub->items[i].status = status;
}

static void end_sub(sky_cache *c, sky__sub *sub) {
    sky_mutex_unlock(&c->mutex);
    sub->done(c, sub);
    sky_mutex_lock(&c->mutex);
}

/* The tier has answered, or was told to forget it: its buffers are free. */
static void finish_active(sky_cache *c, sky__sub *sub) {
    sky__slot *s = &c->slots[sub->tier];
    slot_examine(c, s, sub);
    name_silence(s, sub);
    sub_trace(c, sub, true);
    take_out(&s->active, sub);
    s->active_count--;
    s->background_count -= sub->background;
    s->await_count -= is_wait(sub);
    if (sub->order)
        sky__order_work(&c->order, sub->order, false);
    if (sub->caller.id)
        sky_batches_leave(c->batches, sub->caller);
    end_sub(c, sub);
}

/* Why a sub-request is not worth starting; SKY_OK when it is. */
static sky_status sub_obstacle(const sky_cache *c, const sky__sub *sub) {
    if (is_over(sub, sub->started_at))
        return is_given_up(sub) ? SKY_E_CANCELLED : SKY_E_DEADLINE;
    if (!sky__slot_skipped(c, &c->slots[sub->tier]))
        return SKY_OK;
    return away_status(sub->op);
}

static void sub_start(sky_cache *c, sky__sub *sub) {
    sky__slot *s = &c->slots[sub->tier];
    const sky_tier_ops *ops = s->tier->ops;
    take_out(sub->background ? &s->waiting_background : &s->waiting, sub);
    sub->started_at = sky__cache_now(c);
    sky_histogram_add(&c->times[sub->tier].queue[sub->background],
                      sub->started_at - sub->queued_at);
    sky_status status = sub_obstacle(c, sub);
    if (status == SKY_OK && sub->caller.id &&
        !sky_batches_enter(c->batches, sub->caller, sub->caller_item))
        status = SKY_E_CANCELLED;
    if (status != SKY_OK) {
        tell_all(sub, status);
        sub_trace(c, sub, false);
        s->counts.late += status == SKY_E_DEADLINE && !is_wait(sub) ? sub->item_count : 0;
        end_sub(c, sub);
        return;
    }
    sub->unfinished = sub->item_count;
    if (sub->call.deadline_ns == 0)
        sub->patience_until = sub->started_at + PATIENCE_NS;
    look_by(s, end_of(sub));
    if (sub->order)
        sky__order_work(&c->order, sub->order, true);
    sub_append(&s->active, sub);
    s->puts += sub->op == SKY_OP_PUT;
    s->active_count++;
    s->background_count += sub->background;
    s->await_count += is_wait(sub);
    sky_mutex_unlock(&c->mutex);
    if (ops->answer)
        ops->answer(s->tier, sub->op, sub->items, sub->item_count, &sub->call);
    else
        status = ops->submit(s->tier, sub->op, sub->items, sub->item_count, &sub->call,
                             &sub->batch);
    sky_mutex_lock(&c->mutex);
    if (status != SKY_OK)
        tell_all(sub, status);
    if (status != SKY_OK || ops->answer)
        finish_active(c, sub);
}

static sky__sub *find_active(const sky__slot *s, sky_batch batch) {
    sky__sub *sub = s->active.first;
    while (sub && sub->batch.id != batch.id)
        sub = sub->next;
    return sub;
}

/* Take what the tier has finished. True when there was something. */
static bool slot_collect(sky_cache *c, sky__slot *s) {
    sky_batch done[DRAINED_AT_ONCE];
    const size_t most = s->active.first ? DRAINED_AT_ONCE : 0;
    sky_mutex_unlock(&c->mutex);
    size_t count = sky_tier_drain(s->tier, done, most);
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < count; i++) {
        sky__sub *sub = find_active(s, done[i]);
        if (sub)
            finish_active(c, sub);
    }
    return count > 0;
}

/* Call back one that is given up or late. */
static void call_back(sky_cache *c, sky__slot *s, sky__sub *sub) {
    sky_mutex_unlock(&c->mutex);
    sky_tier_cancel(s->tier, sub->batch);
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < sub->item_count && !is_given_up(sub); i++)
        if (sub->items[i].status == SKY_E_CANCELLED) {
            sub->items[i].status = SKY_E_DEADLINE;
            s->counts.late += !is_wait(sub);
        }
    finish_active(c, sub);
}

static sky_time sub_earliest(const sky__sub_list *l, sky_time at) {
    for (const sky__sub *sub = l->first; sub; sub = sub->next)
        if (end_of(sub) != 0 && end_of(sub) < at)
            at = end_of(sub);
    return at;
}

/* What got on is waited for longer. */
static void be_patient(sky__slot *s, sky_time now) {
    for (sky__sub *sub = s->active.first; sub; sub = sub->next) {
        if (sub->patience_until == 0 || now < sub->patience_until)
            continue;
        size_t unfinished = sky_batches_unfinished(s->tier->batches, sub->batch);
        if (unfinished < sub->unfinished)
            sub->patience_until = now + PATIENCE_NS;
        sub->unfinished = unfinished;
    }
}

/* End what is given up or past its deadline. True when there was something. */
static bool end_over(sky_cache *c, sky__slot *s) {
    sky_time now = sky__cache_now(c);
    if (!s->check_now && now < s->check_at)
        return false;
    s->check_now = false;
    bool moved = false;
    be_patient(s, now);
    for (sky__sub *sub; (sub = first_over(&s->active, now)) != NULL; moved = true)
        call_back(c, s, sub);
    for (sky__sub *sub; (sub = first_over(&s->waiting, now)) != NULL; moved = true)
        sub_start(c, sub);
    for (sky__sub *sub; (sub = first_over(&s->waiting_background, now)) != NULL; moved = true)
        sub_start(c, sub);
    s->check_at = sub_earliest(&s->active, sub_earliest(&s->waiting, SKY_TIME_NEVER));
    return moved;
}

/* Idle tiers are looked at too: their event may be raised for a deadline that nobody waits for any
 * more (tier/batch.h), and would keep the cache's thread awake. Nothing is taken from them then, as
 * others submit to them and wait for their own batches (sky/look.c). */
bool sky__slot_step(sky_cache *c, sky__slot *s) {
    bool moved = !s->tier->ops->answer && slot_collect(c, s);
    moved |= end_over(c, s);
    for (sky__sub *sub; (sub = next_ready(s)) != NULL; moved = true)
        sub_start(c, sub);
    return moved;
}

sky_time sky__slot_wake_at(const sky__slot *s) {
    return s->check_now ? 0 : s->check_at;
}

bool sky__slot_empty(sky_cache *c, sky__slot *s) {
    sky__sub *const lists[] = {s->waiting.first, s->waiting_background.first, s->active.first};
    bool empty = true;
    for (size_t l = 0; l < 3; l++)
        for (sky__sub *sub = lists[l]; sub; sub = sub->next, empty = false)
            sky__slot_give_up(c, sub);
    return empty;
}

/* One call in NEAR_TIMED of a thread is timed, its first included: two looks at the clock take as
 * long as half a small copy. All are while a trace is on. */
static bool near_is_timed(void) {
    static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t calls;
    return calls++ % NEAR_TIMED == 0;
}

__attribute__((noinline)) static void near_answer_timed(sky_cache *c, sky_op op, sky_item *items,
                                                        size_t item_count, const sky_call *call) {
    sky_time began = sky__cache_now(c);
    c->slots[0].tier->ops->answer(c->slots[0].tier, op, items, item_count, call);
    sky_time ended = sky__cache_now(c);
    sky_histogram_add(&c->times[0].answer[op], ended - began);
    sky__tier_trace(c, 0, op, items, item_count, began, ended);
}

void sky__near_answer(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                      const sky_call *call) {
    static const sky_call plain;
    sky_tier *near = c->slots[0].tier;
    call = call ? call : &plain;
    if (near_is_timed() || sky_trace_on())
        near_answer_timed(c, op, items, item_count, call);
    else
        near->ops->answer(near, op, items, item_count, call);
}

bool sky__near_run(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                   const sky_call *call) {
    sky__slot *s = &c->slots[0];
    const sky__sub sub = {
        .op = op, .items = items, .item_count = item_count, .started_at = sky__cache_now(c)};
    sky_call timed = *call;
    if (timed.deadline_ns == 0)
        timed.deadline_ns = sub.started_at + PATIENCE_NS;
    sky_mutex_lock(&c->mutex);
    bool skipped = sky__slot_skipped(c, s);
    s->puts += op == SKY_OP_PUT && !skipped;
    sky_mutex_unlock(&c->mutex);
    if (skipped || s->tier->ops->run(s->tier, op, items, item_count, &timed) != SKY_OK)
        return false;
    sky_mutex_lock(&c->mutex);
    slot_examine(c, s, &sub);
    name_silence(s, &sub);
    sky_mutex_unlock(&c->mutex);
    sky__tier_trace(c, 0, op, items, item_count, sub.started_at, sky__cache_now(c));
    return true;
}
