/* A caller's batch on its way through the tiers.
 *
 *   GET, HAS          near tier ─miss─► next tier ─miss─► …      in legs of at most 32 items
 *   PUT               near tier, written behind to all others    FULL there: the next tier takes it
 *   PUT durable,      all tiers at once, one answer made of theirs
 *   REMOVE, PIN, UNPIN
 *   PREFETCH, LEASE   near tier ─miss─► a fetch from the others brings it to the near tier
 *
 * Items are copied into the job, and the copies go to the tiers: a caller's item is written only
 * through the batch, which knows whether it is still the cache's. The spans in the copies are the
 * caller's own, so each leg guards the batch while a tier has them.
 *
 * A job lives as long as `refs`: its submit, its legs and its fetches. */
#include "store/hierarchy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#define LEG_ITEMS_MAX 32

/* What is known of an item so far. */
typedef struct {
    sky_parcel *parcel; /* put: the copy for the tiers after the one that takes it */
    uint64_t bytes;
    uint32_t parts; /* answers still to come */
    sky_status verdict;
    int weight; /* of the verdict */
    uint8_t tier;
    uint8_t refused; /* put of a general key, bit i: tier i keeps an older value, if any */
} note;
_Static_assert(SKY_TIERS_MAX <= 8, "a bit for each tier");

struct sky_job {
    sky_job *next;
    sky_batch batch;
    sky_op op;
    sky_call call;
    uint32_t refs;
    bool given_up;
    bool refused; /* some item was, by some tier: counted in the cache's refusals */
    size_t item_count;
    sky_item *items;
    note *notes;
    uint32_t *order; /* items the near tier is asked for, then those it left over */
};

typedef struct {
    sky_errand errand;
    sky_job *job;
    uint32_t origin[LEG_ITEMS_MAX]; /* the job's number of each item */
    sky_item items[];
} leg;

/* ---- life ---- */

static bool has_good_name(const sky_item *item) {
    return item->name && item->name_bytes <= SKY_NAME_BYTES_MAX;
}

/* Names are copied, as promotions outlive the call. One too long stays so, for a tier to refuse. */
static void copy_names(sky_job *job, char *to) {
    for (size_t i = 0; i < job->item_count; i++) {
        sky_item *item = &job->items[i];
        if (!item->name)
            continue;
        if (has_good_name(item))
            memcpy(to, item->name, item->name_bytes);
        item->name = to;
        to += has_good_name(item) ? item->name_bytes : 0;
    }
}

static sky_status job_create(sky_op op, const sky_item *items, size_t item_count,
                             const sky_call *call, sky_job **out) {
    size_t bytes = item_count * (sizeof(sky_item) + sizeof(note) + sizeof(uint32_t));
    for (size_t i = 0; i < item_count; i++)
        bytes += has_good_name(&items[i]) ? items[i].name_bytes : 0;
    sky_job *job = malloc(sizeof *job + bytes);
    if (!job)
        return SKY_E_NOMEM;
    *job = (sky_job){.op = op, .call = *call, .refs = 1, .item_count = item_count};
    job->items = (sky_item *)(void *)(job + 1);
    job->notes = (note *)(void *)(job->items + item_count);
    job->order = (uint32_t *)(void *)(job->notes + item_count);
    memcpy(job->items, items, item_count * sizeof *items);
    for (size_t i = 0; i < item_count; i++) {
        job->notes[i] = (note){.verdict = SKY_MISS, .tier = SKY_TIER_NONE};
        job->order[i] = (uint32_t)i;
    }
    copy_names(job, (char *)(job->order + item_count));
    *out = job;
    return SKY_OK;
}

static void job_drop(sky_cache *c, sky_job *job) {
    sky_mutex_lock(&c->mutex);
    bool last = --job->refs == 0;
    if (last) {
        sky_job **link = &c->jobs;
        while (*link != job)
            link = &(*link)->next;
        *link = job->next;
        c->refusals -= job->refused;
    }
    sky_mutex_unlock(&c->mutex);
    if (last)
        free(job);
}

void sky_job_give_up(sky_cache *c, sky_batch batch) {
    for (sky_job *job = c->jobs; job; job = job->next)
        if (job->batch.id == batch.id) {
            job->given_up = true;
            sky_fetch_give_up(c, job);
        }
    sky_errands_give_up(c, batch);
}

void sky_jobs_give_up(sky_cache *c) {
    for (sky_job *job = c->jobs; job; job = job->next)
        sky_job_give_up(c, job->batch);
}

/* ---- answers ---- */

/* What was refused is decided: reads of it go on. */
static void forget_refusals(sky_cache *c, sky_job *job, size_t i) {
    if (!job->refused)
        return;
    sky_mutex_lock(&c->mutex);
    job->notes[i].refused = 0;
    sky_mutex_unlock(&c->mutex);
    sky_wake(c);
}

static void finish_item(sky_cache *c, sky_job *job, size_t i, sky_status status, uint64_t bytes,
                        uint8_t tier) {
    forget_refusals(c, job, i);
    sky_parcel_drop(c, job->notes[i].parcel);
    job->notes[i].parcel = NULL;
    bool answered = status == SKY_OK;
    sky_batches_finish(c->batches, job->batch, i, status, answered ? bytes : 0,
                       answered ? tier : SKY_TIER_NONE);
}

static void finish_read(sky_cache *c, sky_job *job, size_t i, const sky_item *answer,
                        uint8_t tier) {
    bool answered = answer->status == SKY_OK;
    sky_batches_tell_ttl(c->batches, job->batch, i, answer->ttl_s);
    sky_batches_finish_coded(c->batches, job->batch, i, answer->status,
                             answered ? answer->bytes : 0, answered ? tier : SKY_TIER_NONE,
                             answered ? answer->coding : 0);
}

/* Hand out a lease, or return it when nobody wants it any more. */
static void finish_lease(sky_cache *c, sky_job *job, size_t i, const sky_item *answer) {
    sky_mutex_lock(&c->mutex); /* so that giving up comes before or after, not in between */
    sky_item *item = job->given_up ? NULL : sky_batches_enter(c->batches, job->batch, i);
    if (item) {
        item->view = answer->view;
        item->lease = answer->lease;
        sky_batches_leave(c->batches, job->batch);
        sky_batches_finish(c->batches, job->batch, i, SKY_OK, answer->bytes, 0);
    }
    sky_mutex_unlock(&c->mutex);
    if (!item)
        c->tiers[0].tier->ops->release(c->tiers[0].tier, answer->lease);
}

/* Which of two answers about one item says more; reads want to know of damage, removals of what may
 * be left, pins of any success, puts of a tier that keeps what it takes. */
static int weight(sky_op op, sky_status status, bool keeps) {
    bool pin = op == SKY_OP_PIN || op == SKY_OP_UNPIN, read = op == SKY_OP_GET || op == SKY_OP_HAS;
    if (status == SKY_MISS || (status == SKY_E_UNSUPPORTED && op != SKY_OP_PUT))
        return 0;
    if (status == SKY_OK)
        return pin || keeps ? 3 : 1;
    return read && status == SKY_E_CORRUPT ? 3 : 2;
}

static void take_note(const sky_cache *c, const sky_job *job, size_t i, const sky_item *answer,
                      uint8_t tier) {
    note *n = &job->notes[i];
    bool keeps = job->op == SKY_OP_PUT && (c->tier_count == 1 || !c->tiers[tier].lends);
    int says = weight(job->op, answer->status, keeps);
    if (says > n->weight) {
        n->weight = says;
        n->verdict = answer->status;
    }
    if (answer->status == SKY_OK && n->tier == SKY_TIER_NONE) {
        n->tier = tier;
        n->bytes = answer->bytes;
    }
}

static void finish_with_note(sky_cache *c, sky_job *job, size_t i) {
    const note *n = &job->notes[i];
    finish_item(c, job, i, n->verdict, n->bytes, n->tier);
}

/* ---- legs ---- */

static bool takes_part(const sky_job *job, size_t tier) {
    return job->call.tiers == 0 || job->call.tiers >> tier & 1;
}

/* The first tier from `tier` on that takes part; tier_count when there is none. */
static size_t next_tier(const sky_cache *c, const sky_job *job, size_t tier) {
    while (tier < c->tier_count && !takes_part(job, tier))
        tier++;
    return tier;
}

static void leg_done(sky_cache *c, sky_errand *e);

static leg *leg_create(sky_job *job, size_t tier, const uint32_t *origin, size_t count) {
    leg *l = malloc(sizeof *l + count * sizeof *l->items);
    if (!l)
        return NULL;
    *l = (leg){.errand = {.tier = (uint8_t)tier,
                          .op = job->op,
                          .call = job->call,
                          .items = l->items,
                          .item_count = count,
                          .caller = job->batch,
                          .caller_item = origin[0],
                          .done = leg_done},
               .job = job};
    for (size_t i = 0; i < count; i++) {
        l->origin[i] = origin[i];
        l->items[i] = job->items[origin[i]];
    }
    return l;
}

/* Send items to a tier. */
static void send(sky_cache *c, sky_job *job, size_t tier, const uint32_t *origin, size_t count) {
    while (count > 0) {
        size_t step = count < LEG_ITEMS_MAX ? count : LEG_ITEMS_MAX;
        leg *l = leg_create(job, tier, origin, step);
        sky_mutex_lock(&c->mutex);
        if (l) {
            job->refs++;
            l->errand.given_up = job->given_up;
            sky_errand_add(c, &l->errand);
        }
        sky_mutex_unlock(&c->mutex);
        for (size_t i = 0; !l && i < step; i++)
            finish_item(c, job, origin[i], SKY_E_NOMEM, 0, SKY_TIER_NONE);
        origin += step;
        count -= step;
    }
    sky_wake(c);
}

/* Send items to all tiers from `tier` on that take part. */
static void send_to_all(sky_cache *c, sky_job *job, size_t tier) {
    for (tier = next_tier(c, job, tier); tier < c->tier_count; tier = next_tier(c, job, tier + 1))
        send(c, job, tier, job->order, job->item_count);
}

/* Send items to the next tier that takes part, or end them with what is known. */
static void send_on(sky_cache *c, sky_job *job, size_t tier, const uint32_t *origin, size_t count) {
    tier = next_tier(c, job, tier);
    if (tier < c->tier_count) {
        send(c, job, tier, origin, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        finish_with_note(c, job, origin[i]);
}

/* ---- what to do with a tier's answers ----
 * Each keeps in `origin` the items that go on, and returns how many they are. */

/* The answer is about the request, not the tier: no other tier would help. */
static bool is_final(const sky_job *job, sky_status status) {
    if (status == SKY_E_DEADLINE)
        return job->call.deadline_ns != 0 && sky_now() >= job->call.deadline_ns;
    return status == SKY_OK || status == SKY_E_PARAM || status == SKY_E_DST_SMALL ||
           status == SKY_E_CANCELLED;
}

/* Keep hints up to date, and bring what a far tier had nearer. */
static void learn_all(sky_cache *c, const sky_job *job, uint8_t tier, const sky_item *answers,
                      size_t count) {
    bool promote = job->op == SKY_OP_GET && takes_part(job, 0);
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < count; i++) {
        sky_status status = answers[i].status;
        if (status == SKY_OK || (status == SKY_MISS && job->call.wanted == 0))
            sky_known_set(&c->tiers[tier], &answers[i].key, status == SKY_OK);
        if (status == SKY_OK && promote)
            (void)sky_fetch_start(c, &answers[i], &job->call, tier, NULL, 0);
    }
    sky_mutex_unlock(&c->mutex);
}

static size_t after_read(sky_cache *c, sky_job *job, uint8_t tier, const sky_item *answers,
                         uint32_t *origin, size_t count) {
    size_t left = 0;
    if (tier > 0)
        learn_all(c, job, tier, answers, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = origin[i];
        if (is_final(job, answers[i].status)) {
            finish_read(c, job, at, &answers[i], tier);
        } else {
            take_note(c, job, at, &answers[i], tier);
            origin[left++] = at;
        }
    }
    return left;
}

/* Write behind to all tiers after `tier` that take part. */
static void write_behind(sky_cache *c, sky_job *job, uint8_t tier, sky_parcel *parcel) {
    for (size_t t = next_tier(c, job, tier + 1u); t < c->tier_count; t = next_tier(c, job, t + 1))
        sky_behind(c, parcel, (uint8_t)t, false);
}

/* Fetches that began meanwhile carry what was there before. */
static void outdate_fetches(sky_cache *c, const sky_item *answers, size_t count) {
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < count; i++)
        sky_fetch_forget(c, &answers[i].key);
    sky_mutex_unlock(&c->mutex);
}

/* Make a tier drop the value of a general key. */
static void drop_value(sky_cache *c, const sky_item *item, uint8_t tier) {
    if (tier > 0 || !c->tiers[0].lends) {
        sky_behind_outdated(c, &item->key, item->name, item->name_bytes, tier);
    } else if (item->name) {
        sky_item one = {.key = item->key};
        sky_rung_ask(&c->tiers[0], SKY_OP_REMOVE, &one, 1, NULL);
    }
}

/* What the tier holds of the key is older from now on, unless no tier takes this put. */
static void note_refusal(sky_cache *c, sky_job *job, uint32_t at, uint8_t tier) {
    if (!job->items[at].name)
        return; /* blocks never change */
    sky_mutex_lock(&c->mutex);
    c->refusals += !job->refused;
    job->refused = true;
    job->notes[at].refused |= (uint8_t)(1u << tier);
    sky_mutex_unlock(&c->mutex);
}

/* The tier took this put: what it refused of the key before is not what it holds now. */
static void note_taken(sky_cache *c, const sky_item *taken, uint8_t tier) {
    if (!taken->name)
        return;
    sky_mutex_lock(&c->mutex);
    for (sky_job *job = c->refusals > 0 ? c->jobs : NULL; job; job = job->next)
        for (size_t i = 0; job->refused && i < job->item_count; i++)
            if (sky_key_equal(&job->items[i].key, &taken->key))
                job->notes[i].refused &= (uint8_t) ~(1u << tier);
    sky_mutex_unlock(&c->mutex);
}

/* Some tier took the put: those that refused must not keep what was there. */
static void outdate(sky_cache *c, const sky_job *job, uint32_t at) {
    if (!job->refused)
        return;
    sky_mutex_lock(&c->mutex);
    uint8_t refused = job->notes[at].refused;
    sky_mutex_unlock(&c->mutex);
    for (size_t t = 0; t < c->tier_count; t++)
        if (refused >> t & 1)
            drop_value(c, &job->items[at], (uint8_t)t);
}

bool sky_job_refused(const sky_cache *c, uint8_t tier, const sky_item *items, size_t item_count) {
    for (const sky_job *job = c->refusals > 0 ? c->jobs : NULL; job; job = job->next)
        for (size_t i = 0; job->refused && i < job->item_count; i++)
            for (size_t k = 0; (job->notes[i].refused >> tier & 1) && k < item_count; k++)
                if (sky_key_equal(&job->items[i].key, &items[k].key))
                    return true;
    return false;
}

static size_t after_put(sky_cache *c, sky_job *job, uint8_t tier, const sky_item *answers,
                        uint32_t *origin, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t at = origin[i];
        if (answers[i].status == SKY_OK) {
            note_taken(c, &answers[i], tier);
            write_behind(c, job, tier, job->notes[at].parcel);
            outdate(c, job, at);
        }
        if (is_final(job, answers[i].status)) {
            finish_item(c, job, at, answers[i].status, answers[i].bytes, tier);
        } else {
            note_refusal(c, job, at, tier);
            job->notes[at].verdict = answers[i].status;
            origin[left++] = at;
        }
    }
    return left;
}

/* A durable put that no tier keeps has failed: memory gives back what it took, too. */
static void settle_put(sky_cache *c, sky_job *job, uint32_t at) {
    const note *n = &job->notes[at];
    if (n->verdict == SKY_OK)
        outdate(c, job, at);
    else if (n->tier != SKY_TIER_NONE)
        drop_value(c, &job->items[at], n->tier);
}

static void after_part(sky_cache *c, sky_job *job, uint8_t tier, const sky_item *answers,
                       const uint32_t *origin, size_t count) {
    for (size_t i = 0; i < count; i++) {
        take_note(c, job, origin[i], &answers[i], tier);
        if (job->op == SKY_OP_PUT && answers[i].status == SKY_OK)
            note_taken(c, &answers[i], tier);
        else if (job->op == SKY_OP_PUT && !is_final(job, answers[i].status))
            note_refusal(c, job, origin[i], tier);
        if (--job->notes[origin[i]].parts > 0)
            continue;
        if (job->op == SKY_OP_PUT)
            settle_put(c, job, origin[i]);
        finish_with_note(c, job, origin[i]);
    }
}

/* What tier 0 does not have is fetched from the others. */
static void after_near(sky_cache *c, sky_job *job, const sky_item *answers, const uint32_t *origin,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t at = origin[i], from = next_tier(c, job, 1);
        if (job->op == SKY_OP_LEASE && answers[i].status == SKY_OK) {
            finish_lease(c, job, at, &answers[i]);
        } else if (is_final(job, answers[i].status) || from == c->tier_count) {
            finish_item(c, job, at, answers[i].status, answers[i].bytes, 0);
        } else {
            sky_mutex_lock(&c->mutex);
            sky_status status = sky_fetch_start(c, &job->items[at], &job->call, (uint8_t)from, job,
                                                at);
            job->refs += status == SKY_OK;
            sky_mutex_unlock(&c->mutex);
            if (status != SKY_OK)
                finish_item(c, job, at, status, 0, SKY_TIER_NONE);
        }
    }
    sky_wake(c);
}

static bool asks_all(const sky_job *job) {
    return job->op == SKY_OP_REMOVE || job->op == SKY_OP_PIN || job->op == SKY_OP_UNPIN ||
           (job->op == SKY_OP_PUT && job->call.durable) ||
           (job->op == SKY_OP_PREFETCH && job->call.at_ms);
}

/* A tier has answered for `count` items: on with those that are not done. */
static void go_on(sky_cache *c, sky_job *job, uint8_t tier, const sky_item *answers,
                  uint32_t *origin, size_t count) {
    if (job->op == SKY_OP_REMOVE || (job->op == SKY_OP_PUT && tier == 0))
        outdate_fetches(c, answers, count);
    if (asks_all(job)) {
        after_part(c, job, tier, answers, origin, count);
        return;
    }
    if (job->op == SKY_OP_PREFETCH || job->op == SKY_OP_LEASE) {
        after_near(c, job, answers, origin, count);
        return;
    }
    size_t left = job->op == SKY_OP_PUT ? after_put(c, job, tier, answers, origin, count)
                                        : after_read(c, job, tier, answers, origin, count);
    if (left > 0)
        send_on(c, job, tier + 1u, origin, left);
}

static void leg_done(sky_cache *c, sky_errand *e) {
    leg *l = (leg *)e;
    go_on(c, l->job, e->tier, l->items, l->origin, e->item_count);
    job_drop(c, l->job);
    free(l);
}

/* ---- the near tier, asked on the caller's thread ---- */

/* What is queued to be written under the keys must not come after this job. */
static void supersede(sky_cache *c, const sky_job *job) {
    sky_errand *freed = NULL;
    sky_mutex_lock(&c->mutex);
    for (size_t i = 0; i < job->item_count; i++)
        sky_behind_forget(c, &job->items[i].key, job->op == SKY_OP_REMOVE, &freed);
    sky_mutex_unlock(&c->mutex);
    sky_behind_free(c, freed);
}

/* Copy into tier 0. False when the thread is changing one of the keys there, or is about to: take
 * the long way, which waits for it. */
static bool put_near(sky_cache *c, sky_job *job) {
    sky_near_put here = {.items = job->items, .item_count = job->item_count};
    sky_mutex_lock(&c->mutex);
    bool free_way = !sky_errand_conflict(c, 0, job->items, job->item_count) &&
                    !sky_errand_written(c, 0, job->items, job->item_count);
    if (free_way) {
        here.next = c->near_puts;
        c->near_puts = &here;
    }
    sky_mutex_unlock(&c->mutex);
    if (!free_way)
        return false;
    sky_rung_ask(&c->tiers[0], SKY_OP_PUT, job->items, job->item_count, &job->call);
    sky_mutex_lock(&c->mutex);
    sky_near_put **link = &c->near_puts;
    while (*link != &here)
        link = &(*link)->next;
    *link = here.next;
    for (size_t i = 0; i < job->item_count; i++) /* what they carry is older */
        sky_fetch_forget(c, &job->items[i].key);
    bool waited_for = c->tiers[0].waiting.first || c->tiers[0].waiting_behind.first;
    sky_mutex_unlock(&c->mutex);
    if (waited_for)
        sky_wake(c);
    return true;
}

/* Borrow from tier 0 what was just put there, for the tiers behind. */
static void lend_parcels(sky_cache *c, sky_job *job) {
    for (size_t i = 0; i < job->item_count; i++)
        if (job->items[i].status == SKY_OK) /* what cannot be lent is copied */
            (void)sky_parcel_borrow(c, &job->items[i], &job->call, &job->notes[i].parcel);
}

/* Copy what no parcel holds yet and more tiers will want than the one that takes it. */
static void copy_parcels(sky_cache *c, sky_job *job, bool asked) {
    for (size_t i = 0; i < job->item_count; i++) {
        bool stored = asked && job->items[i].status == SKY_OK;
        size_t taker = next_tier(c, job, asked && !stored ? 1 : 0);
        if (!job->notes[i].parcel && next_tier(c, job, taker + 1) < c->tier_count)
            (void)sky_parcel_create(c, &job->items[i], &job->call, (sky_span){0}, (sky_lease){0},
                                    &job->notes[i].parcel);
    }
}

/* A write of one of the keys is on its way to tier 0, or past it: what stands there is older. */
static bool is_outdated_near(sky_cache *c, const sky_job *job) {
    sky_mutex_lock(&c->mutex);
    bool outdated = sky_errand_written(c, 0, job->items, job->item_count) ||
                    sky_job_refused(c, 0, job->items, job->item_count);
    sky_mutex_unlock(&c->mutex);
    return outdated;
}

/* Ask tier 0 for all items at once. False when that is not possible. */
static bool ask_near(sky_cache *c, sky_job *job) {
    bool read = job->op == SKY_OP_GET || job->op == SKY_OP_HAS;
    if (!c->tiers[0].lends || !takes_part(job, 0) || (read && is_outdated_near(c, job)))
        return false;
    if (job->op != SKY_OP_PUT) {
        sky_rung_ask(&c->tiers[0], job->op, job->items, job->item_count, &job->call);
        return true;
    }
    return put_near(c, job);
}

/* The first step of every job but those that ask all tiers, on the caller's thread: its buffers are
 * copied here, or go to the thread with a leg. */
static void begin(sky_cache *c, sky_job *job) {
    if (!sky_batches_enter(c->batches, job->batch, 0))
        return;                                         /* the deadline passed */
    if (job->op == SKY_OP_PUT && job->call.wanted == 0) /* a level more is no other value */
        supersede(c, job);
    bool asked = ask_near(c, job);
    if (job->op == SKY_OP_PUT && !job->call.durable) {
        if (asked && next_tier(c, job, 1) < c->tier_count)
            lend_parcels(c, job);
        copy_parcels(c, job, asked);
    }
    sky_batches_leave(c->batches, job->batch);
    if (asked)
        go_on(c, job, 0, job->items, job->order, job->item_count);
    else if (job->op == SKY_OP_LEASE || (job->op == SKY_OP_PREFETCH && !takes_part(job, 0)))
        for (size_t i = 0; i < job->item_count; i++)
            finish_item(c, job, i, SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
    else
        send_on(c, job, 0, job->order, job->item_count);
}

/* Every tier is asked, and the answers become one. */
static void begin_all(sky_cache *c, sky_job *job) {
    uint32_t parts = 0;
    for (size_t t = next_tier(c, job, 0); t < c->tier_count; t = next_tier(c, job, t + 1))
        parts++;
    for (size_t i = 0; i < job->item_count; i++)
        job->notes[i].parts = parts;
    if (job->op == SKY_OP_REMOVE || (job->op == SKY_OP_PUT && job->call.wanted == 0))
        supersede(c, job);
    send_to_all(c, job, 0);
}

static sky_status check(const sky_cache *c, sky_op op, const sky_item *items, size_t item_count,
                        const sky_call *call) {
    uint32_t all = (1u << c->tier_count) - 1;
    bool ok = items && item_count >= 1 && item_count <= SKY_BATCH_ITEMS_MAX && op >= SKY_OP_HAS &&
              op <= SKY_OP_LEASE && (call->tiers == 0 || (call->tiers & all) != 0);
    return ok ? SKY_OK : SKY_E_PARAM;
}

sky_status sky_job_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                          const sky_call *call, bool kept, sky_batch *out) {
    static const sky_call plain;
    call = call ? call : &plain;
    sky_job *job;
    sky_status status = check(c, op, items, item_count, call);
    for (size_t i = 0; status == SKY_OK && i < item_count; i++)
        assert(items[i].spans || items[i].span_count == 0);
    if (status == SKY_OK)
        status = job_create(op, items, item_count, call, &job);
    if (status != SKY_OK)
        return status;
    /* A lease must not be lost between being handed out and the deadline: see sky_jobs_expire. */
    sky_time deadline = op == SKY_OP_LEASE ? 0 : call->deadline_ns;
    int event = call->event_fd;
    status = kept || event > 0
                 ? sky_batches_open_kept(c->batches, items, item_count, deadline, event,
                                         &job->batch)
                 : sky_batches_open(c->batches, items, item_count, deadline, &job->batch);
    if (status != SKY_OK) {
        free(job);
        return status;
    }
    *out = job->batch;
    for (size_t i = 0; op == SKY_OP_LEASE && i < item_count; i++) {
        items[i].view = (sky_span){0}; /* a miss must not show what an earlier call lent */
        items[i].lease = (sky_lease){0};
    }
    sky_mutex_lock(&c->mutex);
    job->next = c->jobs;
    c->jobs = job;
    sky_mutex_unlock(&c->mutex);
    if (asks_all(job))
        begin_all(c, job);
    else
        begin(c, job);
    job_drop(c, job);
    return SKY_OK;
}

/* ---- fetches and leases ---- */

void sky_job_fetched(sky_cache *c, sky_job *job, size_t item, sky_status status) {
    sky_item answer = job->items[item];
    answer.status = status;
    answer.bytes = 0;
    if (status == SKY_OK && c->tiers[0].lends)
        sky_rung_ask(&c->tiers[0], job->op, &answer, 1, NULL);
    if (job->op == SKY_OP_LEASE && answer.status == SKY_OK)
        finish_lease(c, job, item, &answer);
    else
        finish_item(c, job, item, answer.status, answer.bytes, 0);
    job_drop(c, job);
}

sky_time sky_jobs_expire(sky_cache *c) {
    sky_time next = SKY_TIME_NEVER, now = sky_now();
    for (sky_job *job = c->jobs; job; job = job->next) {
        if (job->op != SKY_OP_LEASE || job->call.deadline_ns == 0 || job->given_up)
            continue;
        if (now < job->call.deadline_ns) {
            next = job->call.deadline_ns < next ? job->call.deadline_ns : next;
            continue;
        }
        job->given_up = true;
        for (size_t i = 0; i < job->item_count; i++)
            sky_batches_finish(c->batches, job->batch, i, SKY_E_DEADLINE, 0, SKY_TIER_NONE);
    }
    return next;
}
