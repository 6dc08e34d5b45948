/* Loading against a deadline: how long a prefix is likely to come in time, and asking for it so
 * that what its tier shows is known the next time.
 *
 *   blocks found ── link of the farthest tier that has one ──► the longest prefix worth asking for
 *        not all: would a farther tier, faster or at a lower level, bring more?
 *        none: "recompute", at once
 *        k: blocks 0 … k-1 are asked for as the pacer says; all there: they go to the engine
 *
 *   a tier with several levels: blocks come in as many forms, and the pacer chooses; one that is
 *   slow on its way is asked for again at a lower level, and while there is time others at a higher
 *
 * Surprises: a tier whose link promises too little is asked all the same after some refusals, a
 * little less modest each time, as a link that is never used never shows that it got faster. Bytes
 * are counted as the engine takes them, so the rate of a tier with a level is that of its decoder
 * and its medium together; but as they lie where there are several levels, whose sizes differ. */
#include <skymem/manager.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/sync.h"
#include "manager/blocks.h"

#define RATE_AT_FIRST  1e11 /* bytes a second, before a tier was ever asked: try */
#define DELAY_AT_FIRST SKY_MS(1)
#define LOOK_NS        SKY_MS(20)
#define NEARER_BYTES   1
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
    if (t->link.rate != 0)
        return t;
    sky_tier_stat stat = {0};
    sky_link_init(&t->link, RATE_AT_FIRST, DELAY_AT_FIRST);
    if (m->coded.codec.self && sky_cache_stat(m->cache, tier, &stat) == SKY_OK && stat.codings[0] &&
        stat.codings[1])
        memcpy(t->codings, stat.codings, sizeof t->codings);
    while (t->coding_count < SKY_CODINGS_MAX && t->codings[t->coding_count] != 0)
        t->coding_count++;
    return t;
}

/* Bytes that this range of a block takes in the tier, in its form number `form`. */
static uint64_t form_bytes(const sky_manager *m, const sky_paced_tier *t, uint32_t form,
                           sky_range range) {
    const sky_block_codec *c = &m->coded.codec;
    return t->coding_count ? c->likely_bytes(c->self, t->codings[form], range) : range.bytes;
}

/* Of a payload in its smallest form. */
static double least_share(const sky_manager *m, const sky_paced_tier *t) {
    uint32_t last = t->coding_count ? t->coding_count - 1 : 0;
    sky_range all = {0, m->payload.payload_bytes};
    return (double)form_bytes(m, t, last, all) / (double)all.bytes;
}

void sky__load_worth(sky_manager *m, uint32_t found, sky_load_plan *plan) {
    plan->tier = farthest(m, found);
    sky_paced_tier *t = paced_tier(m, plan->tier);
    double left = (double)(plan->deadline_ns - sky_now()) * (1 - sky_link_reserve(&t->link));
    double budget = left * (1 + HOPE * t->refusals) - t->link.delay_ns;
    double ns_per_byte = least_share(m, t) / t->link.rate * 1e9;
    uint32_t most = found < SKY_PACER_SEGMENTS_MAX ? found : SKY_PACER_SEGMENTS_MAX;
    while (most > 0 && prefix_bytes(m, most) * ns_per_byte > budget)
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
    sky_coding wanted;
    uint32_t block;
    uint64_t bytes;  /* expected, of the plan's tier */
    sky_batch batch; /* id 0: not asked for yet, as others' batches are too many */
    sky_item item;
} flight;

typedef struct {
    sky_manager *m;
    sky_pacer *pacer;
    sky_paced_tier *tier;
    const sky_segment *segments;
    uint32_t tiers; /* as sky_call's */
    flight flights[SKY_PACER_FLIGHTS_MAX];
    int event; /* raised by each batch that is done */
    sky_time began;
    uint64_t bytes; /* that the tier has given */
    bool over;
} paced;

static flight *find(paced *p, uint32_t request) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (p->flights[i].request == request)
            return &p->flights[i];
    return NULL;
}

/* Without a deadline of its own: it is given up at the end, and a slow tier is no failing one. */
static void submit(paced *p, flight *f) {
    const sky_call call = {.tiers = p->tiers, .wanted = f->wanted, .event_fd = p->event};
    sky_status status = sky_submit(p->m->cache, SKY_OP_GET, &f->item, 1, &call, &f->batch);
    if (status == SKY_OK || status == SKY_E_BUSY)
        return;
    p->m->scratch.items[f->block].status = status;
    sky_pacer_finished(p->pacer, sky_now(), f->request, status);
    f->request = 0;
}

static void ask(paced *p, const sky_pace *pace) {
    const sky_segment *s = &p->segments[pace->segment];
    uint64_t bytes = s->forms[pace->form].bytes;
    flight *f = find(p, 0);
    assert(f); /* the pacer has no more under way than there are places */
    *f = (flight){.request = pace->request,
                  .wanted = s->form_count > 1 ? p->tier->codings[pace->form] : 0,
                  .block = pace->segment,
                  .bytes = bytes > NEARER_BYTES ? bytes : 0,
                  .item = p->m->scratch.items[pace->segment]};
    submit(p, f);
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

/* The tier's rate as this load has shown it so far. */
static double rate_shown(const paced *p) {
    sky_time took = sky_now() - p->began;
    return took > 0 ? (double)p->bytes / (double)took * 1e9 : 0;
}

/* A better form that is not there leaves the one before as it was; one that is damaged may have
 * spoiled it. */
static void take(paced *p, const flight *f) {
    sky_item *item = &p->m->scratch.items[f->block];
    sky_status status = f->item.status;
    if (status != SKY_OK && status != SKY_E_CORRUPT && item->status == SKY_OK)
        return;
    item->status = status;
    item->bytes = f->item.bytes;
    item->tier = f->item.tier;
    item->coding = f->item.coding;
    if (status != SKY_OK)
        return;
    bool first = p->bytes == 0;
    p->bytes += f->bytes;
    if (first && !p->tier->known && p->tier->coding_count && rate_shown(p) > 0)
        sky_link_init(&p->tier->link, rate_shown(p), DELAY_AT_FIRST); /* the others can choose */
}

static bool listen(paced *p) {
    bool news = false;
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        flight *f = &p->flights[i];
        if (f->request != 0 && f->batch.id == 0)
            submit(p, f);
        if (f->request == 0 || f->batch.id == 0 ||
            sky_wait(p->m->cache, f->batch, 1) == SKY_E_DEADLINE)
            continue;
        uint32_t request = f->request;
        f->request = 0;
        take(p, f);
        sky_pacer_finished(p->pacer, sky_now(), request, f->item.status);
        news = true;
    }
    return news;
}

static void run(paced *p) {
    for (sky_pace pace; !p->over;) {
        while (!p->over && sky_pacer_next(p->pacer, sky_now(), &pace))
            obey(p, &pace);
        if (p->over || listen(p))
            continue;
        sky_poll(&p->event, 1, sky_pacer_wake(p->pacer, sky_now()));
        sky_event_clear(p->event); /* before looking: what comes meanwhile raises it again */
    }
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        give_up(p, &p->flights[i]);
}

/* The first that a tier shows is better than a guess, late or not; and what is over sooner than the
 * pacer looks has shown it nothing. */
static void learn(const paced *p) {
    sky_paced_tier *t = p->tier;
    double rate = rate_shown(p);
    if (rate <= 0)
        return;
    if (!t->known || (sky_now() - p->began < LOOK_NS && rate > t->link.rate))
        sky_link_init(&t->link, rate, DELAY_AT_FIRST);
    t->known = true;
}

/* Block b as the pacer sees it. What a nearer tier has takes nothing of this one's time. */
static void offer(const sky_manager *m, const sky_load_plan *plan, uint32_t b, sky_segment *out) {
    const sky_paced_tier *t = &m->tiers[plan->tier];
    bool nearer = m->scratch.stored[b] < plan->tier;
    size_t count;
    const sky_level_cost *costs = sky_level_costs(&count);
    *out = (sky_segment){.token_count = m->block_tokens, .form_count = 1};
    out->forms[0].bytes = NEARER_BYTES;
    if (nearer)
        return;
    out->form_count = t->coding_count ? t->coding_count : 1;
    for (uint32_t f = 0; f < out->form_count; f++) {
        out->forms[f].bytes = form_bytes(m, t, f, m->scratch.items[b].range);
        out->forms[f].loss = t->coding_count ? costs[t->codings[f] - 1].loss : 0;
    }
}

/* Where there is a choice and nothing to go by, the lowest level comes first: its first block tells
 * what the others may be. */
static void guess(sky_paced_tier *t, const sky_segment *segments, uint32_t count, sky_time left) {
    double least = 0;
    for (uint32_t i = 0; i < count; i++)
        least += (double)segments[i].forms[segments[i].form_count - 1].bytes;
    if (!t->known && t->coding_count && left > 0)
        sky_link_init(&t->link, least / (double)left * 1e9, DELAY_AT_FIRST);
}

sky_status sky__load_paced(sky_manager *m, const sky_load_plan *plan) {
    sky_paced_tier *t = paced_tier(m, plan->tier);
    uint32_t block_count = plan->block_count;
    sky_segment *segments = calloc(block_count, sizeof *segments);
    if (!segments)
        return SKY_E_NOMEM;
    paced p = {.m = m, .tier = t, .segments = segments, .tiers = plan->tiers, .event = -1};
    for (uint32_t b = 0; b < block_count; b++) {
        offer(m, plan, b, &segments[b]);
        m->scratch.items[b].status = SKY_E_DEADLINE; /* unless it is asked for, and comes */
    }
    p.began = sky_now();
    guess(t, segments, block_count, plan->deadline_ns - p.began);
    const sky_pacer_options options = {.deadline_ns = plan->deadline_ns,
                                       .no_refining = t->coding_count == 0};
    sky_status status = sky_pacer_create(segments, block_count, &t->link, 1, &options, p.began,
                                         &p.pacer);
    if (status == SKY_OK)
        status = sky_event_create(&p.event);
    if (status == SKY_OK) {
        run(&p);
        learn(&p);
    }
    sky_event_close(p.event);
    sky_pacer_destroy(p.pacer);
    free(segments);
    return status;
}
