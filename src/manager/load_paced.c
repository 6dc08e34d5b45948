/* Loading as the planner says: against a deadline, or while the engine computes the head.
 *
 * Against a deadline: how long a prefix is likely to come in time, and asking for it so that what
 * its tier shows is known the next time.
 *
 *   blocks found ── link of the farthest tier that has one ──► the longest prefix worth asking for
 *        not all: would a farther tier, faster or at a lower level, bring more?
 *        none: "recompute", at once
 *        k: blocks 0 … k-1 are asked for as the pacer says; all there: they go to the engine
 *
 *   a tier with several levels: blocks come in as many forms, and the pacer chooses; one that is
 *   slow on its way is asked for again at a lower level, and while there is time others at a higher
 *
 *   a model with a window: blocks come in two parts, and the rows of layers with a window only of
 *   the last ones; when not all can come any more the pacer asks for those of earlier ones, which
 *   lie beside the engine's rows until it is settled how long the prefix is
 *
 *   an engine that can computes the head where the tiers alone would be late, and blocks come from
 *   where it gets to by the deadline
 *
 *   a prefix of more blocks than the pacer has room for: several in a row count as one
 *
 * Without one, and with an engine that can: blocks come from the end backwards, each as its own
 * tier has it best, and the engine computes from the front until they meet. The engine's rows of
 * the tail are written meanwhile, those of the head when they have met. A block that does not come,
 * or comes damaged, is computed like those before it.
 *
 *   blocks   0   1   2   3   4   5   6   7
 *   engine  ─computes───────►│
 *   tiers                    │◄──────bring─
 *
 * Surprises: a tier whose link promises too little is asked all the same after some refusals, a
 * little less modest each time, as a link that is never used never shows that it got faster; one
 * that brought nothing at all is left alone for a few loads. Bytes are counted as the engine takes
 * them, so the rate of a tier with a level is that of its decoder and its medium together; but as
 * they lie where there are several levels, whose sizes differ. */
#include <skymem/manager.h>
#include <skymem/stream.h>

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/sync.h"
#include "manager/head.h"

#define NEARER_BYTES 2    /* of two parts */
#define PER_REFUSAL  0.25 /* the share of time that it adds to what there is */
#define SKIPS_MOST   7    /* loads without a tier that brought nothing … */
#define LONGER       1.25 /* … unless there is so many times as much time as it had in vain */
#define UNSETTLED    4    /* times what a link has shown, where little was asked of it, … */
#define AT_LEAST     4    /* … and so many blocks more than twice what it brought last */

/* ---- how much ---- */

/* Bytes that a restore of so many blocks reads: every row of full layers, the last of others. */
static double prefix_bytes(const sky_sequence *q, uint32_t block_count) {
    uint64_t tokens = (uint64_t)block_count * q->manager->block_tokens;
    uint64_t bytes = (uint64_t)block_count * q->manager->payload.header_bytes;
    for (uint32_t g = 0; g < q->manager->payload.layout.group_count; g++) {
        const sky_layer_group *group = &q->manager->payload.layout.groups[g];
        uint64_t window = group->window_tokens;
        uint64_t rows = window && window < tokens ? window : tokens;
        bytes += rows * group->layer_count * (group->k_row_bytes + group->v_row_bytes);
    }
    return (double)bytes;
}

/* The farthest tier that the first blocks are in. */
static uint8_t farthest_tier(const sky_sequence *q, uint32_t block_count) {
    uint8_t tier = 0;
    for (uint32_t b = 0; b < block_count; b++)
        if (q->scratch.items[b].tier < SKY_TIERS_MAX && q->scratch.items[b].tier > tier)
            tier = q->scratch.items[b].tier;
    return tier;
}

/* Leading blocks before the first in `tier`. */
static uint32_t before_tier(const sky_sequence *q, uint32_t block_count, uint8_t tier) {
    uint32_t b = 0;
    while (b < block_count && q->scratch.items[b].tier != tier)
        b++;
    return b;
}

static sky_paced_tier *paced_tier(sky_sequence *q, uint8_t tier) {
    sky_paced_tier *t = &q->manager->tiers[tier];
    if (t->begun)
        return t;
    sky_tier_stat stat = {0};
    t->begun = true;
    sky_link_init(&t->link, 0, 0);
    if (sky_cache_stat(q->manager->cache, tier, &stat) != SKY_OK)
        return t;
    t->whole = stat.traits & SKY_TIER_WHOLE;
    t->coded = q->manager->coded.codec.self && stat.codings[0];
    if (t->coded && stat.codings[1])
        memcpy(t->codings, stat.codings, sizeof t->codings);
    while (t->coding_count < SKY_CODINGS_MAX && t->codings[t->coding_count] != 0)
        t->coding_count++;
    return t;
}

/* Bytes that this range of a block takes in the tier, in its form number `form`. */
static uint64_t form_bytes(const sky_sequence *q, const sky_paced_tier *t, uint32_t form,
                           sky_range range) {
    const sky_block_codec *c = &q->manager->coded.codec;
    return t->coding_count ? c->likely_bytes(c->self, t->codings[form], range) : range.bytes;
}

/* Of a payload in its smallest form. */
static double least_share(const sky_sequence *q, const sky_paced_tier *t) {
    uint32_t last = t->coding_count ? t->coding_count - 1 : 0;
    sky_range all = {0, q->manager->payload.payload_bytes};
    return (double)form_bytes(q, t, last, all) / (double)all.bytes;
}

/* A load asks twice, when it looks for a farther tier that brings more; it counts once. */
static bool does_without(sky_paced_tier *t, sky_time deadline) {
    if (t->skipped == deadline)
        return true;
    if (t->skips == 0 || (double)(deadline - sky_now()) >= LONGER * (double)t->waited_ns)
        return false;
    t->skips--;
    t->skipped = deadline;
    return true;
}

/* With the manager's mutex held. 0: it computes nothing, or is not known to. */
static double engine_blocks_per_ns(const sky_sequence *q) {
    const sky_manager *m = q->manager;
    sky__engine_belief b = sky__engine_believe(m->engine_token_ns, m->engine_block_ns,
                                               m->block_tokens, 1);
    bool known = m->engine_token_ns > 0 || m->engine_block_ns > 0;
    return known && sky__head_can(q) ? 1 / (double)b.block_ns : 0;
}

/* With the manager's mutex held. */
static void judge_tier(sky_sequence *q, uint32_t found, sky_load_plan *plan) {
    plan->tier = farthest_tier(q, found);
    sky_paced_tier *t = paced_tier(q, plan->tier);
    double left = (double)(plan->deadline_ns - sky_now()) * (1 - sky_link_reserve(&t->link));
    double budget = left * (1 + PER_REFUSAL * t->refusals) - t->link.delay_ns;
    double rate = t->link.unsettled ? UNSETTLED * t->link.rate : t->link.rate;
    double ns_per_byte = rate > 0 ? least_share(q, t) / rate * 1e9 : 0;
    uint32_t most = found;
    if (found > 0 && left > 0 && does_without(t, plan->deadline_ns))
        most = 0;
    uint32_t least = t->link.unsettled && budget > 0 ? 2 * t->brought + AT_LEAST : 0, all = most;
    while (most > least && prefix_bytes(q, most) * ns_per_byte > budget)
        most--;
    if (most > 0 && left > 0) /* what the engine computes meanwhile */
        most = (uint32_t)fmin(all, most + left * engine_blocks_per_ns(q));
    if (found > 0 && left > 0) /* without time the link was not to blame */
        t->refusals = most > 0 ? 0 : t->refusals + 1;
    plan->block_count = most;
    uint32_t nearer = before_tier(q, found, plan->tier);
    if (most < nearer && nearer < found)
        judge_tier(q, nearer, plan); /* what is nearer by itself */
}

void sky__load_worth(sky_sequence *q, uint32_t found, sky_load_plan *plan) {
    sky_mutex_lock(&q->manager->mutex);
    judge_tier(q, found, plan);
    sky_mutex_unlock(&q->manager->mutex);
}

/* ---- asking ---- */

/* Blocks of a segment on their way. */
typedef struct {
    uint32_t request; /* 0: none */
    sky_coding wanted;
    uint32_t first, count;
    uint32_t parts;  /* 0: there is no room for them */
    sky_batch batch; /* id 0: not asked for yet, as others' batches are too many */
    sky_item *items; /* [count] */
    bool again;      /* who may hold one did not answer: asked for once more */
} flight;

typedef struct {
    sky_sequence *q;
    sky_pacer *pacer;
    sky_paced_tier *tier;
    sky_segment *segments;   /* [segment_count] */
    uint32_t segment_blocks; /* of each but the last; 1: a segment is a block */
    uint32_t segment_count;
    sky_item *items; /* [SKY_PACER_FLIGHTS_MAX × segment_blocks] */
    uint8_t *here;   /* [block_count] parts of each block that came whole */
    uint32_t block_count;
    uint32_t window; /* blocks at a prefix's end that it needs both parts of; 0: of all */
    uint32_t tiers;  /* as sky_call's */
    uint8_t far;     /* blocks of nearer tiers than this one take none of its time */
    sky__head *head; /* NULL: the engine computes nothing */
    bool aside;      /* this is not the engine's thread */
    bool timed;      /* there is a deadline */
    sky__engine_belief engine;
    flight flights[SKY_PACER_FLIGHTS_MAX];
    bool over;
} paced;

static flight *find_flight(paced *p, uint32_t request) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        if (p->flights[i].request == request)
            return &p->flights[i];
    return NULL;
}

/* Blocks before this segment. */
static uint32_t blocks_before(const paced *p, uint32_t segment) {
    uint32_t blocks = segment * p->segment_blocks;
    return blocks < p->block_count ? blocks : p->block_count;
}

/* came: those that did are where others find them. */
static void release_claims(paced *p, const flight *f, uint32_t count, bool came) {
    for (uint32_t i = 0; i < count; i++)
        sky__flights_release(&p->q->manager->flights, &p->q->scratch.claims[f->first + i],
                             came && f->items[i].status == SKY_OK);
}

/* False: another sequence brings one of them. Its event tells when that is over, and until then
 * none is claimed here, as the other may wait for them. */
static bool claim_blocks(paced *p, const flight *f) {
    sky_sequence *q = p->q;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t b = f->first + i;
        if (!sky__load_shares(q, b, p->tiers) ||
            sky__flights_claim(&q->manager->flights, &q->scratch.claims[b], &f->items[i].key,
                               q->event) != SKY__CLAIM_WAITING)
            continue;
        release_claims(p, f, i, false);
        return false;
    }
    return true;
}

/* Without a deadline of its own: it is given up at the end, and a slow tier is no failing one. */
static void submit_flight(paced *p, flight *f) {
    sky_sequence *q = p->q;
    const sky_call call = {.tiers = p->tiers, .wanted = f->wanted, .event_fd = q->event};
    if (f->parts && f->wanted == 0 && !claim_blocks(p, f))
        return;
    sky_status status = f->parts ? sky_submit(q->manager->cache, SKY_OP_GET, f->items, f->count,
                                              &call, &f->batch)
                                 : SKY_E_NOMEM;
    if (status == SKY_OK || status == SKY_E_BUSY)
        return;
    release_claims(p, f, f->count, false);
    for (uint32_t b = f->first; b < f->first + f->count; b++)
        if (!(p->here[b] & SKY__LEAD))
            q->scratch.items[b].status = status;
    sky_pacer_finished(p->pacer, sky_now(), f->request, status);
    f->request = 0;
}

/* The parts that are asked for. */
static uint32_t parts_of(const paced *p, const sky_pace *pace) {
    if (p->window > 0 && pace->slice > 0)
        return SKY__REST;
    return p->window > 0 && pace->slice_end == 1 ? SKY__LEAD : SKY__LEAD | SKY__REST;
}

/* … of a block: what lies coded in a tier that does not decode comes whole. */
static uint32_t parts_of_block(const paced *p, uint32_t block, uint32_t parts) {
    return p->q->scratch.raw[block].bytes > 0 ? SKY__LEAD | SKY__REST : parts;
}

/* Have its item get these parts. False: there is no room for their rows. */
static bool prepare_block(const paced *p, uint32_t block, uint32_t parts) {
    sky_block_scratch *s = &p->q->scratch;
    if (p->window == 0 || s->raw[block].bytes > 0)
        return true;
    size_t rest_bytes = p->q->manager->payload.payload_bytes -
                        sky_payload_lead_bytes(&p->q->manager->payload);
    bool outside = block + p->window <= p->block_count; /* in part, if it begins the window */
    if ((parts & SKY__REST) && outside && !s->beside[block] &&
        !(s->beside[block] = malloc(rest_bytes)))
        return false;
    sky__load_spans(p->q, block, parts);
    return true;
}

static void start_flight(paced *p, const sky_pace *pace) {
    const sky_segment *s = &p->segments[pace->segment];
    flight *f = find_flight(p, 0);
    assert(f); /* the pacer has no more under way than there are places */
    uint32_t first = blocks_before(p, pace->segment), end = blocks_before(p, pace->segment + 1);
    uint32_t parts = parts_of(p, pace);
    bool room = true;
    for (uint32_t b = first; b < end; b++)
        room = room && prepare_block(p, b, parts);
    *f = (flight){.request = pace->request,
                  .wanted = s->form_count > 1 ? p->tier->codings[pace->form] : 0,
                  .first = first,
                  .count = end - first,
                  .parts = room ? parts : 0,
                  .items = p->items + (size_t)(f - p->flights) * p->segment_blocks};
    memcpy(f->items, &p->q->scratch.items[first], f->count * sizeof *f->items);
    submit_flight(p, f);
}

static void give_up(paced *p, flight *f) {
    if (!f || f->request == 0)
        return;
    sky_cancel(p->q->manager->cache, f->batch);
    release_claims(p, f, f->count, false);
    f->request = 0;
}

static void execute_action(paced *p, const sky_pace *pace) {
    if (pace->kind == SKY_PACE_GET)
        start_flight(p, pace);
    else if (pace->kind == SKY_PACE_CANCEL)
        give_up(p, find_flight(p, pace->request));
    else if (pace->kind == SKY_PACE_COMPUTE)
        sky__head_want(p->head, blocks_before(p, pace->segment),
                       blocks_before(p, pace->segment_end));
    else
        p->over = true;
}

/* What came of it, with a look at what a block begins with, where that shows. */
static sky_status status_of(const paced *p, uint32_t block, const sky_item *came, uint32_t parts) {
    const sky_sequence *q = p->q;
    if (came->status != SKY_OK || !(parts & SKY__LEAD) || q->scratch.raw[block].bytes > 0)
        return came->status;
    size_t header_bytes = q->manager->payload.header_bytes;
    return sky_payload_header_check(&q->manager->payload, block * q->manager->block_tokens,
                                    q->scratch.headers + block * header_bytes);
}

/* A better form that is not there leaves the one before as it was; one that is damaged may have
 * spoiled it. */
static sky_status take_block(paced *p, uint32_t block, const sky_item *came, uint32_t parts) {
    sky_item *item = &p->q->scratch.items[block];
    sky_status status = status_of(p, block, came, parts);
    if (status == SKY_OK)
        p->here[block] |= (uint8_t)parts;
    else if (status == SKY_E_CORRUPT)
        p->here[block] &= (uint8_t)~parts;
    else if (item->status == SKY_OK)
        return status;
    if (parts & SKY__LEAD) {
        item->bytes = came->bytes;
        item->tier = came->tier;
        item->coding = came->coding;
    } else if (status == SKY_OK && came->coding > item->coding) {
        item->coding = came->coding; /* of two the lower level counts */
    }
    if ((parts & SKY__LEAD) || status == SKY_E_CORRUPT)
        item->status = status;
    return status;
}

/* SKY_OK: all of it came. */
static sky_status take_flight(paced *p, const flight *f) {
    sky_status all = SKY_OK;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t b = f->first + i;
        sky_status status = take_block(p, b, &f->items[i], parts_of_block(p, b, f->parts));
        all = all == SKY_OK ? status : all;
    }
    return all;
}

/* Satellites on this host may have been silent because the engine had the processors, so blocks
 * that nobody answered for are asked for once more when it has left them. */
static bool ask_again(const paced *p, flight *f) {
    bool silent = false;
    for (uint32_t i = 0; i < f->count; i++)
        silent |= f->items[i].status == SKY_E_UNAVAILABLE;
    if (!p->head || f->again || !silent)
        return false;
    f->again = true;
    f->batch = (sky_batch){0};
    memcpy(f->items, &p->q->scratch.items[f->first], f->count * sizeof *f->items);
    return true;
}

static bool poll_flights(paced *p) {
    sky_status computed;
    bool news = p->head && sky__head_done(p->head, &computed);
    bool computes = p->head && sky__head_computes(p->head);
    if (news)
        sky_pacer_computed(p->pacer, sky_now(), computed == SKY_OK);
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++) {
        flight *f = &p->flights[i];
        if (f->request != 0 && f->batch.id == 0 && !(f->again && computes))
            submit_flight(p, f);
        if (f->request == 0 || f->batch.id == 0 ||
            sky_wait(p->q->manager->cache, f->batch, 1) == SKY_E_DEADLINE)
            continue;
        release_claims(p, f, f->count, true);
        if (ask_again(p, f)) {
            news = true;
            continue;
        }
        uint32_t request = f->request;
        f->request = 0;
        sky_pacer_finished(p->pacer, sky_now(), request, take_flight(p, f));
        news = true;
    }
    return news;
}

/* As sky_idle_fn. */
static sky_time listen_until(void *context) {
    paced *p = context;
    p->over |= atomic_load(&p->q->cancelled);
    return p->over || poll_flights(p) ? 0 : sky_pacer_wake(p->pacer, sky_now());
}

/* Until it is over, or, on the engine's thread, until there is something to compute. */
static void run_pacer(paced *p) {
    for (sky_pace pace; !p->over;) {
        while (!p->over && sky_pacer_next(p->pacer, sky_now(), &pace)) {
            execute_action(p, &pace);
            if (pace.kind == SKY_PACE_COMPUTE && !p->aside)
                return;
        }
        if (!p->over)
            sky_event_wait(p->q->event, NULL, 0, listen_until, p);
    }
}

static void *run_aside(void *argument) {
    paced *p = argument;
    run_pacer(p);
    sky__head_end(p->head);
    return NULL;
}

/* From the first block that is to be computed on, the engine has this thread. */
static void run_all(paced *p) {
    sky_thread thread = {0};
    run_pacer(p);
    p->aside = true;
    if (!p->over && sky_thread_start(&thread, "skymem-load", run_aside, p) == SKY_OK) {
        sky__head_run(p->head);
        sky_thread_join(&thread);
    } else if (!p->over) {
        sky_pacer_computed(p->pacer, sky_now(), false);
        run_pacer(p);
    }
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        give_up(p, &p->flights[i]);
}

static bool is_nearer(const paced *p, uint32_t block) {
    return p->q->scratch.stored[block] < p->far;
}

/* Add a block in one form to its segment. What a nearer tier has takes nothing of this one's time.
 * The rest of a block alone is a range of it, but of one that is coded a tier reads all before it
 * too. */
static void add_block(const paced *p, uint32_t b, uint32_t form, sky_segment *out) {
    const sky_sequence *q = p->q;
    const sky_paced_tier *t = p->tier;
    uint64_t all = NEARER_BYTES, lead = NEARER_BYTES / 2, rest = NEARER_BYTES / 2;
    if (!is_nearer(p, b)) {
        bool whole = p->window == 0 || q->scratch.raw[b].bytes > 0;
        sky_range range = {0, q->manager->payload.payload_bytes};
        if (whole && q->scratch.items[b].range.bytes != 0 && !(t->whole && p->head))
            range = q->scratch.items[b].range;
        all = lead = rest = form_bytes(q, t, form, range);
        range = (sky_range){0, sky_payload_lead_bytes(&q->manager->payload)};
        if (!whole)
            lead = form_bytes(q, t, form, range);
        if (!whole && !t->coded)
            rest = all - range.bytes;
    }
    out->forms[form].bytes += all;
    out->lead_bytes[form] += lead;
    out->rest_bytes[form] += rest;
}

/* A segment as the pacer sees it. */
static void describe_segment(const paced *p, uint32_t segment, sky_segment *out) {
    const sky_paced_tier *t = p->tier;
    uint32_t first = blocks_before(p, segment), end = blocks_before(p, segment + 1);
    bool far = false, choice = t->coding_count && (!p->head || p->timed);
    size_t count;
    const sky_level_cost *costs = sky_level_costs(&count);
    for (uint32_t b = first; b < end; b++)
        far |= !is_nearer(p, b);
    *out = (sky_segment){.token_count = (end - first) * p->q->manager->block_tokens,
                         .form_count = far && choice ? t->coding_count : 1,
                         .compute_ns = p->head ? (end - first) * p->engine.block_ns : 0};
    for (uint32_t f = 0; f < out->form_count; f++) {
        out->forms[f].loss = far && t->coding_count ? costs[t->codings[f] - 1].loss : 0;
        for (uint32_t b = first; b < end; b++)
            add_block(p, b, f, out);
    }
}

/* Blocks at a prefix's end whose rows of layers with a window it needs; 0: there are none before
 * them. */
static uint32_t window_of(const sky_sequence *q, uint32_t block_count) {
    uint32_t tokens = sky_payload_window_tokens(&q->manager->payload);
    uint32_t blocks = (tokens + q->manager->block_tokens - 1) / q->manager->block_tokens;
    return blocks < block_count ? blocks : 0;
}

/* Segments that have these, even if the last one is a single block. */
static uint32_t window_segments(const paced *p) {
    return p->window > 0 ? (p->window + p->segment_blocks - 2) / p->segment_blocks + 1 : 0;
}

/* Parts of a block that are here. The engine has all rows that a prefix needs of what it computed.
 */
static uint32_t parts_here(const paced *p, uint32_t block) {
    bool computed = p->head && block < p->head->computed;
    return computed ? SKY__LEAD | SKY__REST : p->here[block];
}

/* The longest prefix that is here. */
static uint32_t count_leading(const paced *p) {
    uint32_t leads = 0, leading = 0, rests = 0;
    uint32_t window = p->window ? p->window : p->block_count;
    while (leads < p->block_count && (parts_here(p, leads) & SKY__LEAD)) {
        rests = parts_here(p, leads) & SKY__REST ? rests + 1 : 0; /* in a row up to here */
        leads++;
        if (rests >= window || rests == leads)
            leading = leads;
    }
    return leading;
}

static void free_useless(const paced *p) {
    uint8_t **beside = p->q->scratch.beside;
    for (uint32_t b = 0; b < p->block_count; b++) {
        if (p->here[b] & SKY__REST)
            continue;
        free(beside[b]);
        beside[b] = NULL;
    }
}

/* Every load that waited in vain lets the next ones do without, but those with much more time: one,
 * then three, then seven. */
static void mind_silence(const paced *p, sky_time began) {
    sky_pacer_report report;
    sky_pacer_report_get(p->pacer, &report);
    sky_paced_tier *t = p->tier;
    t->waited_ns = sky_now() - began;
    bool silent = report.bytes <= (uint64_t)NEARER_BYTES * p->block_count; /* but for nearer ones */
    t->silences = silent ? t->silences + 1 : 0;
    t->skips = t->silences < 3 ? (1u << t->silences) - 1 : SKIPS_MOST;
}

/* What the engine took for a block, for the next load. */
static void learn_engine(const paced *p) {
    sky_manager *m = p->q->manager;
    double block_ns = (double)p->engine.block_ns * p->tier->link.engine_factor;
    p->tier->link.engine_factor = 0;
    if (!p->head || p->head->computed == 0)
        return;
    sky_mutex_lock(&m->mutex);
    m->engine_block_ns = block_ns < 1 ? 1 : (sky_time)block_ns;
    sky_mutex_unlock(&m->mutex);
}

static sky__engine_belief engine_of(sky_sequence *q, uint32_t block_count) {
    sky_manager *m = q->manager;
    sky_mutex_lock(&m->mutex);
    sky_time block_ns = m->engine_block_ns;
    sky_mutex_unlock(&m->mutex);
    return sky__engine_believe(m->engine_token_ns, block_ns, m->block_tokens, block_count);
}

static sky_status keep_pace(paced *p, sky_time deadline) {
    sky_time began = sky_now();
    sky_pacer_options options = sky__pacer_options_of_load(
        &p->engine, p->segment_blocks * p->q->manager->block_tokens);
    options.deadline_ns = deadline;
    options.window = window_segments(p);
    options.no_refining = p->tier->coding_count == 0;
    sky_status status = sky_pacer_create(p->segments, p->segment_count, &p->tier->link, 1, &options,
                                         began, &p->pacer);
    if (status == SKY_OK) {
        run_all(p);
        learn_engine(p);
        mind_silence(p, began);
    }
    sky_pacer_destroy(p->pacer);
    return status;
}

/* A load learns in a copy: several may be under way, and the last to end says what is known. */
static sky_paced_tier borrow_tier(sky_sequence *q, uint8_t tier) {
    sky_mutex_lock(&q->manager->mutex);
    sky_paced_tier t = *paced_tier(q, tier);
    sky_mutex_unlock(&q->manager->mutex);
    return t;
}

static void return_tier(sky_sequence *q, uint8_t tier, const sky_paced_tier *learnt) {
    sky_mutex_lock(&q->manager->mutex);
    sky_paced_tier *t = paced_tier(q, tier);
    t->link = learnt->link;
    t->brought = learnt->brought;
    t->waited_ns = learnt->waited_ns;
    t->silences = learnt->silences;
    t->skips = learnt->skips;
    sky_mutex_unlock(&q->manager->mutex);
}

bool sky__load_computes(const sky_sequence *q, sky_load_plan *plan) {
    if (plan->deadline_ns != 0)
        return sky__head_can(q);
    bool far = !q->manager->near_keeps;
    plan->tier = 0;
    for (uint32_t b = 0; b < plan->block_count; b++) {
        uint64_t tier = q->scratch.stored[b];
        far |= tier > 0;
        if (tier < SKY_TIERS_MAX && tier > plan->tier)
            plan->tier = (uint8_t)tier;
    }
    return far && sky__head_can(q);
}

static sky_status pace_blocks(paced *p, const sky_load_plan *plan) {
    sky_sequence *q = p->q;
    size_t places = (size_t)SKY_PACER_FLIGHTS_MAX * p->segment_blocks;
    p->segments = calloc(p->segment_count, sizeof *p->segments);
    p->items = calloc(places, sizeof *p->items);
    p->here = calloc(p->block_count, 1);
    sky_status status = p->segments && p->items && p->here ? SKY_OK : SKY_E_NOMEM;
    for (uint32_t i = 0; status == SKY_OK && i < p->segment_count; i++)
        describe_segment(p, i, &p->segments[i]);
    for (uint32_t b = 0; status == SKY_OK && b < p->block_count; b++)
        q->scratch.items[b].status = SKY_E_DEADLINE; /* unless it is asked for, and comes */
    if (status == SKY_OK)
        status = keep_pace(p, plan->deadline_ns);
    free(p->segments);
    free(p->items);
    return status;
}

/* As few blocks in a segment as the pacer has room for. */
static void cut_segments(paced *p) {
    p->segment_blocks = (p->block_count + SKY_PACER_SEGMENTS_MAX - 1) / SKY_PACER_SEGMENTS_MAX;
    p->segment_count = (p->block_count + p->segment_blocks - 1) / p->segment_blocks;
}

sky_status sky__load_paced(sky_sequence *q, sky_load_plan *plan, uint32_t *leading) {
    sky_paced_tier tier = borrow_tier(q, plan->tier);
    sky__head head;
    bool timed = plan->deadline_ns != 0;
    paced p = {.q = q,
               .tier = &tier,
               .block_count = plan->block_count,
               .window = timed ? window_of(q, plan->block_count) : 0,
               .tiers = plan->tiers,
               .far = plan->tier,
               .timed = timed,
               .head = plan->computes ? &head : NULL,
               .engine = engine_of(q, plan->block_count)};
    cut_segments(&p);
    sky__head_init(&head, q);
    sky_status status = pace_blocks(&p, plan);
    plan->computed = head.computed;
    if (status == SKY_OK) {
        *leading = tier.brought = count_leading(&p);
        free_useless(&p);
        if (!atomic_load(&q->cancelled)) /* which says nothing of the tier */
            return_tier(q, plan->tier, &tier);
        else
            status = SKY_E_CANCELLED;
    }
    sky__load_release(q, plan->block_count);
    sky__head_deinit(&head);
    free(p.here);
    return status;
}
