/* Loading against a deadline: how long a prefix is likely to come in time, and asking for it so
 * that what its tier shows is known the next time.
 *
 *   blocks found ── link of the farthest tier that has one ──► the longest prefix worth asking for
 *        not all: would a farther tier, faster or at a lower level, bring more?
 *        none: "recompute", at once
 *        k: blocks 0 … k-1 are asked for as the pacer says; all there: they go to the engine
 *
 * Surprises: a tier whose link promises too little is asked all the same after some refusals, a
 * little less modest each time, as a link that is never used never shows that it got faster. Bytes
 * are counted as the engine takes them, so the rate of a tier with a level is that of its decoder
 * and its medium together. */
#include <skymem/manager.h>

#include <stdlib.h>

#include "io/sync.h"
#include "manager/blocks.h"

#define RATE_AT_FIRST  1e11 /* bytes a second, before a tier was ever asked: try */
#define DELAY_AT_FIRST SKY_MS(1)
#define LOOK_NS        SKY_MS(20)
#define HOPE           0.25 /* the share of time that each refusal adds to what there is */

/* ---- how much ---- */

/* Bytes that a restore of so many blocks reads: every row of full layers, the last of others. */
static double prefix_bytes(const sky_manager *m, uint32_t block_count) {
    uint64_t tokens = (uint64_t)block_count * m->block_tokens;
    uint64_t bytes = (uint64_t)block_count * m->payload.header_bytes;
    for (uint32_t g = 0; g < m->payload.layout.group_count; g++) {
        const sky_layer_group *group = &m->payload.layout.groups[g];
        uint64_t window = group->window_tokens;
        uint64_t rows = window && window < tokens ? window : tokens;
        bytes += rows * group->layer_count * (group->k_row_bytes + group->v_row_bytes);
    }
    return (double)bytes;
}

/* The farthest tier that the first blocks are in. */
static uint8_t farthest(const sky_manager *m, uint32_t block_count) {
    uint8_t tier = 0;
    for (uint32_t b = 0; b < block_count; b++)
        if (m->scratch.items[b].tier < SKY_TIERS_MAX && m->scratch.items[b].tier > tier)
            tier = m->scratch.items[b].tier;
    return tier;
}

/* Leading blocks before the first in `tier`. */
static uint32_t before_tier(const sky_manager *m, uint32_t block_count, uint8_t tier) {
    uint32_t b = 0;
    while (b < block_count && m->scratch.items[b].tier != tier)
        b++;
    return b;
}

static sky_paced_tier *paced_tier(sky_manager *m, uint8_t tier) {
    sky_paced_tier *t = &m->tiers[tier];
    if (t->link.rate == 0)
        sky_link_init(&t->link, RATE_AT_FIRST, DELAY_AT_FIRST);
    return t;
}

void sky__load_worth(sky_manager *m, uint32_t found, sky_load_plan *plan) {
    plan->tier = farthest(m, found);
    sky_paced_tier *t = paced_tier(m, plan->tier);
    double left = (double)(plan->deadline_ns - sky_now()) * (1 - sky_link_reserve(&t->link));
    double budget = left * (1 + HOPE * t->refusals) - t->link.delay_ns;
    uint32_t most = found < SKY_PACER_SEGMENTS_MAX ? found : SKY_PACER_SEGMENTS_MAX;
    while (most > 0 && prefix_bytes(m, most) / t->link.rate * 1e9 > budget)
        most--;
    if (found > 0 && left > 0) /* without time the link was not to blame */
        t->refusals = most > 0 ? 0 : t->refusals + 1;
    plan->block_count = most;
    uint32_t nearer = before_tier(m, found, plan->tier);
    if (most < nearer && nearer < found)
        sky__load_worth(m, nearer, plan); /* what is nearer by itself */
}

/* ---- asking ---- */

/* A block on its way. */
typedef struct {
    uint32_t request; /* 0: none */
    uint32_t block;
    sky_batch batch;
} flight;

typedef struct {
    sky_manager *m;
    sky_pacer *pacer;
    sky_call call;
    flight flights[SKY_PACER_FLIGHTS_MAX];
    bool over;
} paced;

static flight *find(paced *p, uint32_t request) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (p->flights[i].request == request)
            return &p->flights[i];
    return NULL;
}

/* Without a deadline of its own: it is given up at the end, and a slow tier is no failing one. */
static void ask(paced *p, const sky_pace *pace) {
    flight *f = find(p, 0);
    sky_item *item = &p->m->scratch.items[pace->segment];
    sky_batch batch;
    sky_status status = f ? sky_submit(p->m->cache, SKY_OP_GET, item, 1, &p->call, &batch)
                          : SKY_E_BUSY;
    if (status == SKY_OK) {
        *f = (flight){pace->request, pace->segment, batch};
        return;
    }
    item->status = status;
    sky_pacer_finished(p->pacer, sky_now(), pace->request, status);
}

static void give_up(paced *p, flight *f) {
    if (f && f->request != 0)
        sky_cancel(p->m->cache, f->batch);
    if (f)
        f->request = 0;
}

static void obey(paced *p, const sky_pace *pace) {
    if (pace->kind == SKY_PACE_GET)
        ask(p, pace);
    else if (pace->kind == SKY_PACE_CANCEL)
        give_up(p, find(p, pace->request));
    else
        p->over = true;
}

/* Batches are asked for one by one: the queue of finished ones belongs to everyone. */
static bool listen(paced *p) {
    bool news = false;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        flight *f = &p->flights[i];
        if (f->request == 0 || sky_wait(p->m->cache, f->batch, 1) == SKY_E_DEADLINE)
            continue;
        uint32_t request = f->request;
        f->request = 0;
        sky_pacer_finished(p->pacer, sky_now(), request, p->m->scratch.items[f->block].status);
        news = true;
    }
    return news;
}

static void run(paced *p) {
    int event = sky_event_fd(p->m->cache);
    for (sky_pace pace; !p->over;) {
        while (!p->over && sky_pacer_next(p->pacer, sky_now(), &pace))
            obey(p, &pace);
        if (p->over || listen(p))
            continue;
        sky_time wake = sky_pacer_wake(p->pacer, sky_now());
        if (sky_poll(&event, 1, wake) && !listen(p))
            sky_poll(NULL, 0, sky_now() + SKY_MS(1)); /* it is about batches of others */
    }
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        give_up(p, &p->flights[i]);
}

/* The first that a tier shows is better than a guess, late or not; and what is over sooner than the
 * pacer looks has shown it nothing. */
static void learn(sky_paced_tier *t, const sky_pacer *pacer, sky_time took) {
    sky_pacer_report report;
    sky_pacer_report_get(pacer, &report);
    if (report.bytes == 0 || took <= 0)
        return;
    double rate = (double)report.bytes / (double)took * 1e9;
    if (!t->known || (took < LOOK_NS && rate > t->link.rate))
        sky_link_init(&t->link, rate, DELAY_AT_FIRST);
    t->known = true;
}

sky_status sky__load_paced(sky_manager *m, const sky_load_plan *plan) {
    sky_paced_tier *t = paced_tier(m, plan->tier);
    uint32_t block_count = plan->block_count;
    paced p = {.m = m, .call = {.tiers = plan->tiers}};
    sky_segment *segments = calloc(block_count, sizeof *segments);
    if (!segments)
        return SKY_E_NOMEM;
    for (uint32_t b = 0; b < block_count; b++) {
        sky_item *item = &m->scratch.items[b];
        segments[b].token_count = m->block_tokens;
        segments[b].form_count = 1;
        segments[b].forms[0].bytes = item->range.bytes;
        item->status = SKY_E_DEADLINE; /* unless it is asked for, and comes */
    }
    const sky_pacer_options options = {.deadline_ns = plan->deadline_ns, .no_refining = true};
    sky_time began = sky_now();
    sky_status status = sky_pacer_create(segments, block_count, &t->link, 1, &options, began,
                                         &p.pacer);
    if (status == SKY_OK) {
        run(&p);
        learn(t, p.pacer, sky_now() - began);
    }
    sky_pacer_destroy(p.pacer);
    free(segments);
    for (uint32_t b = 0; b < block_count; b++) /* given up by the pacer at the deadline */
        if (m->scratch.items[b].status == SKY_E_CANCELLED)
            m->scratch.items[b].status = SKY_E_DEADLINE;
    return status;
}
