/* From keys to an engine's state: find the longest stored prefix, read it straight into the
 * engine's rows, and when a block turns out damaged or gone, try again with the blocks before it.
 *
 *   blocks          0    1    2  …  n-1
 *   full layers     ####################      every row
 *   window layers             ....######      the last W rows; a block across the window's start is
 *                                             read past what lies before it
 *
 * Nothing reaches the engine unchecked: sizes before the read, headers after it, and the engine is
 * told to go on only from blocks that came whole. When one did not, those before it are kept if all
 * their rows are here. Those of windows that the longer prefix had passed are not, unless a load
 * with a deadline asked for them when it saw that not all would come: they lie beside then. Else
 * the blocks are read again, or after the deadline from memory alone.
 *
 * Surprise: what is smaller than a block may be one that is coded, in a tier without a level. It is
 * read as it lies and decoded here; what does not decode is damaged. */
#include <skymem/manager.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/tensor.h"
#include "cache/cache_internal.h"
#include "io/trace.h"
#include "manager/blocks.h"

static void plan_items(sky_sequence *q, uint32_t block_count) {
    const sky_block_scratch *s = &q->scratch;
    for (uint32_t b = 0; b < block_count; b++) {
        s->items[b] = (sky_item){.key = s->keys[b]};
        if (b > 0)
            s->items[b].parent = s->keys[b - 1]; /* for the promoted copy */
        sky__load_spans(q, b, SKY__LEAD | SKY__REST);
    }
}

/* ---- blocks that lie coded in a tier that does not decode ---- */

/* Have these read as they lie. Owner: *out, room for them and for decoding; NULL: there are none
 * Errors: SKY_E_NOMEM */
static sky_status plan_raw(sky_sequence *q, uint32_t block_count, uint8_t **out) {
    const sky_block_scratch *s = &q->scratch;
    uint64_t at = (q->manager->coded.codec.work_bytes + 63) / 64 * 64, bytes = at;
    *out = NULL;
    for (uint32_t b = 0; b < block_count; b++)
        bytes += (s->raw[b].bytes + 63) / 64 * 64;
    if (bytes == at)
        return SKY_OK;
    if (!(*out = aligned_alloc(64, bytes)))
        return SKY_E_NOMEM;
    for (uint32_t b = 0; b < block_count; b++) {
        if (s->raw[b].bytes == 0)
            continue;
        s->raw[b].data = *out + at;
        s->items[b].spans = &s->raw[b];
        s->items[b].span_count = 1;
        s->items[b].range = (sky_range){0, s->raw[b].bytes};
        at += (s->raw[b].bytes + 63) / 64 * 64;
    }
    return SKY_OK;
}

/* What came of such a block, to where the engine wants it.
 * Errors: SKY_E_CORRUPT, SKY_MISS (of another calibration) */
static sky_status decode_raw(sky_sequence *q, uint32_t block, void *work) {
    const sky_block_scratch *s = &q->scratch;
    const sky_block_codec *codec = &q->manager->coded.codec;
    sky_item *item = &s->items[block];
    const void *data = s->raw[block].data;
    uint64_t moved, needed;
    sky_coding coding = sky_coded_coding(data, item->bytes);
    if (coding == 0 && item->bytes != q->manager->payload.payload_bytes)
        return SKY_E_CORRUPT;
    sky__block_spans plan = sky__load_block_spans(q, block, SKY__LEAD | SKY__REST);
    item->coding = coding ? coding : item->coding;
    sky_time began = sky_trace_now();
    sky_status status = codec->decode(codec->self, data, item->bytes, true,
                                      (sky_range){0, plan.end}, plan.spans, plan.span_count, &moved,
                                      &needed, work);
    sky_trace_call("codec", "decode", &item->key, item->bytes, status, began);
    return status;
}

/* What came of a block, which is then where the engine wants it. */
static sky_status take_block(sky_sequence *q, uint32_t block, void *work) {
    const sky_item *item = &q->scratch.items[block];
    sky_status status = item->status;
    if (status == SKY_OK && q->scratch.raw[block].bytes > 0)
        status = decode_raw(q, block, work);
    if (status != SKY_OK)
        return status;
    return sky_payload_header_check(&q->manager->payload, block * q->manager->block_tokens,
                                    q->scratch.headers +
                                        (size_t)block * q->manager->payload.header_bytes);
}

/* ---- fewer blocks than were asked for ---- */

/* The first row of a layer that a prefix of so many tokens needs. */
static uint32_t first_needed(const sky_sequence *q, const sky_payload_section *s, uint32_t tokens) {
    uint32_t window = q->manager->payload.layout.groups[s->group].window_tokens;
    return window && window < tokens ? tokens - window : 0;
}

/* … and that the engine has not computed. */
static uint32_t first_loaded(const sky_sequence *q, const sky_payload_section *s,
                             const sky_load_plan *plan) {
    uint32_t computed = plan->computed * q->manager->block_tokens;
    uint32_t first = first_needed(q, s, plan->block_count * q->manager->block_tokens);
    return first > computed ? first : computed;
}

/* Copy this row and those that follow it in the same place, up to token *end, to which it sets
 * *end; false: they are not here. */
static bool copy_rows(const sky_sequence *q, const sky_payload_section *s, uint32_t token,
                      uint32_t *end, uint8_t *out) {
    const sky_tensor *rows = &q->rows[s->row_set];
    uint32_t block = token / q->manager->block_tokens, first = block * q->manager->block_tokens;
    if (token >= rows->first_token) {
        sky__tensor_gather(rows, token, *end - token, out);
        return true;
    }
    if (*end > first + q->manager->block_tokens)
        *end = first + q->manager->block_tokens;
    if (*end > rows->first_token)
        *end = rows->first_token;
    const uint8_t *beside = q->scratch.beside[block];
    if (beside)
        memcpy(out,
               beside + (s->offset - sky_payload_lead_bytes(&q->manager->payload)) +
                   (size_t)(token - first) * s->row_bytes,
               (size_t)(*end - token) * s->row_bytes);
    return beside != NULL;
}

/* All rows of a prefix that were loaded, one layer after the other, from where they came. False:
 * some are not here, nor to be decoded later. */
static bool gather_rows(const sky_sequence *q, const sky_load_plan *plan, bool decoded,
                        uint8_t *out) {
    uint32_t tokens = plan->block_count * q->manager->block_tokens;
    for (uint32_t i = 0; i < q->manager->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&q->manager->payload, i);
        for (uint32_t t = first_loaded(q, &s, plan), end; t < tokens; t = end) {
            end = tokens;
            bool later = !decoded && q->scratch.raw[t / q->manager->block_tokens].bytes > 0;
            if (!copy_rows(q, &s, t, &end, out) && !later)
                return false;
            out += (size_t)(end - t) * s.row_bytes;
        }
    }
    return true;
}

/* … to where the engine now wants them. */
static void give_rows(const sky_sequence *q, const sky_load_plan *plan, const uint8_t *from) {
    uint32_t tokens = plan->block_count * q->manager->block_tokens;
    for (uint32_t i = 0; i < q->manager->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&q->manager->payload, i);
        uint32_t first = first_loaded(q, &s, plan);
        sky__tensor_scatter(&q->rows[s.row_set], first, tokens - first, from);
        from += (size_t)(tokens - first) * s.row_bytes;
    }
}

static void free_beside(sky_sequence *q, uint32_t block_count) {
    for (uint32_t b = 0; b < block_count; b++) {
        free(q->scratch.beside[b]);
        q->scratch.beside[b] = NULL;
    }
}

/* What the engine has computed of the plan's blocks, to where it wants the others. */
static sky_status place_computed(sky_sequence *q, const sky_load_plan *plan) {
    return plan->computed > 0
               ? sky__engine_place_advanced(q, plan->computed * q->manager->block_tokens)
               : SKY_OK;
}

/* The engine is to take the plan's blocks instead of more, and their rows are here: they move to
 * where it wants them then. decoded: what lies coded already is. False: rows are not here, or there
 * is no memory. */
static bool keep_leading(sky_sequence *q, const sky_load_plan *plan, bool decoded) {
    uint32_t loaded = plan->block_count - plan->computed;
    uint8_t *aside = malloc((size_t)loaded * q->manager->payload.payload_bytes + 1);
    bool kept = aside && gather_rows(q, plan, decoded, aside) &&
                sky__engine_restore_begin(q, plan->block_count * q->manager->block_tokens) ==
                    SKY_OK;
    if (kept)
        give_rows(q, plan, aside);
    kept = kept && place_computed(q, plan) == SKY_OK;
    free(aside);
    for (uint32_t b = 0; kept && b < plan->block_count; b++)
        if (q->scratch.raw[b].bytes == 0)
            sky__load_spans(q, b, SKY__LEAD | SKY__REST); /* as the engine wants them now */
    return kept;
}

/* Leading blocks that the first tier has, while others are farther. */
static uint32_t count_near(const sky_sequence *q, const sky_load_plan *plan) {
    uint32_t b = 0;
    while (plan->tier > 0 && b < plan->block_count && q->scratch.stored[b] == 0)
        b++;
    return b;
}

/* Not all came by the deadline: SKY_OK when those that did are where the engine wants them, and the
 * plan says how many. Others: as load_blocks. */
static sky_status settle_for(sky_sequence *q, uint32_t leading, sky_load_plan *plan,
                             sky_lookup *out) {
    const sky_item *items = q->scratch.items;
    uint32_t lacks = plan->block_count;
    for (uint32_t b = plan->block_count; b-- > leading;)
        lacks = items[b].status != SKY_OK ? b : lacks;
    bool late = lacks == plan->block_count || items[lacks].status == SKY_E_DEADLINE;
    out->corrupt_blocks += !late && items[lacks].status == SKY_E_CORRUPT;
    if (late && leading < count_near(q, plan))
        return SKY_E_DEADLINE; /* memory has more */
    plan->block_count = leading > 0 || late ? leading : lacks;
    if (leading > 0 && keep_leading(q, plan, false))
        return SKY_OK;
    return late ? SKY_E_DEADLINE : SKY_MISS;
}

/* Blocks came, or not: SKY_OK when the engine is to take so many as the plan then says. */
static sky_status take_blocks(sky_sequence *q, sky_load_plan *plan, void *work, sky_lookup *out) {
    for (uint32_t b = plan->computed; b < plan->block_count; b++) {
        sky_status status = take_block(q, b, work);
        if (status == SKY_OK)
            continue;
        out->corrupt_blocks += status == SKY_E_CORRUPT;
        plan->block_count = b;
        if (b > 0 && keep_leading(q, plan, true))
            return SKY_OK;
        return status == SKY_E_DEADLINE ? status : SKY_MISS;
    }
    return SKY_OK;
}

/* Where copies of what the engine has computed are of no use. */
static void note_bad(const sky_sequence *q, sky_load_plan *plan, sky_lookup *out) {
    for (uint32_t b = plan->computed; b-- > 0;) {
        sky_status came = q->scratch.items[b].status;
        out->corrupt_blocks += came == SKY_E_CORRUPT;
        if (came != SKY_OK && came != SKY_E_DEADLINE) /* else it was not waited for */
            plan->bad_from = b;
    }
}

/* With a deadline. As load_blocks, of what comes by then. */
static sky_status load_in_time(sky_sequence *q, sky_load_plan *plan, sky_lookup *out) {
    uint32_t asked = plan->block_count, leading;
    plan->computes = sky__load_computes(q, plan);
    sky_status status = sky__load_paced(q, plan, &leading);
    if (status == SKY_OK)
        note_bad(q, plan, out);
    if (status == SKY_OK)
        status = leading < asked ? settle_for(q, leading, plan, out) : place_computed(q, plan);
    free_beside(q, asked);
    for (uint32_t b = 0; status == SKY_OK && b < plan->block_count; b++)
        if (q->scratch.raw[b].bytes == 0)
            sky__load_spans(q, b, SKY__LEAD | SKY__REST); /* as it is now, and was asked in parts */
    return status;
}

/* While the engine computes the head. As load_blocks. An engine that goes no farther leaves what
 * cannot be had; SKY_MISS: what is here is to be loaded without it. */
static sky_status load_and_compute(sky_sequence *q, sky_load_plan *plan, sky_lookup *out) {
    uint32_t leading;
    sky_status status = sky__load_paced(q, plan, &leading);
    bool lacks = status == SKY_OK && leading < plan->block_count;
    if (status == SKY_OK)
        note_bad(q, plan, out);
    if (status != SKY_OK || !lacks)
        return status == SKY_OK ? place_computed(q, plan) : status;
    sky_status lacking = q->scratch.items[leading].status;
    out->corrupt_blocks += lacking == SKY_E_CORRUPT;
    plan->computes = false;
    if (lacking != SKY_E_DEADLINE) /* else nobody asked for it */
        plan->block_count = leading;
    if (lacking != SKY_E_DEADLINE && leading > 0 && keep_leading(q, plan, false))
        return SKY_OK;
    plan->computed = 0;
    return SKY_MISS;
}

/* Read the blocks of the plan into the engine. SKY_OK: so many as the plan now says are there.
 * SKY_MISS: only so many can be had, try those. SKY_E_DEADLINE: too late for the next one. Others:
 * the engine cannot take them. */
static sky_status load_blocks(sky_sequence *q, sky_load_plan *plan, sky_lookup *out) {
    const sky_call call = {.tiers = plan->tiers, .deadline_ns = plan->deadline_ns};
    bool in_memory = plan->tier == 0 && q->manager->near_keeps; /* sooner there than planned */
    uint8_t *room;
    sky_status status = sky__engine_restore_begin(q, plan->block_count * q->manager->block_tokens);
    if (status != SKY_OK)
        return status;
    plan_items(q, plan->block_count);
    status = plan_raw(q, plan->block_count, &room);
    sky_time before = sky_now();
    plan->computed = 0;
    plan->bad_from = UINT32_MAX;
    if (status == SKY_OK && plan->deadline_ns != 0 && !in_memory)
        status = load_in_time(q, plan, out);
    else if (status == SKY_OK && plan->computes && sky__load_computes(q, plan))
        status = load_and_compute(q, plan, out);
    else if (status == SKY_OK)
        status = sky__load_get(q, plan->block_count, &call);
    out->transfer_ns += sky_now() - before;
    if (status == SKY_OK)
        status = take_blocks(q, plan, room, out);
    free(room);
    return status == SKY_OK ? sky__engine_restore_end(q) : status;
}

/* Leading blocks that some tier has, at a size they may have; the items say which tier. */
static uint32_t find_blocks(sky_sequence *q, uint32_t block_count, const sky_call *call,
                            sky_lookup *out) {
    sky_item *items = q->scratch.items;
    for (uint32_t b = 0; b < block_count; b++) {
        items[b] = (sky_item){.key = q->scratch.keys[b]};
        if (b > 0)
            items[b].parent = items[b - 1].key; /* a tier may make use of their order */
    }
    sky_time before = sky_now();
    sky_status status = sky__sequence_run(q, SKY_OP_HAS, items, block_count, call);
    out->transfer_ns += sky_now() - before;
    uint32_t found = 0;
    for (; status == SKY_OK && found < block_count && items[found].status == SKY_OK &&
           sky__may_be_block(q, items[found].bytes);
         found++)
        if (items[found].bytes != q->manager->payload.payload_bytes)
            q->scratch.raw[found].bytes = q->manager->payload.payload_bytes;
    out->corrupt_blocks += status == SKY_OK && found < block_count && items[found].status == SKY_OK;
    return found;
}

static void count_loaded(const sky_sequence *q, uint32_t block_count, sky_lookup *out) {
    out->block_count = block_count;
    out->hit_tokens = block_count * q->manager->block_tokens;
    for (uint32_t b = 0; b < block_count; b++) {
        const sky_item *item = &q->scratch.items[b];
        bool raw = q->scratch.raw[b].bytes > 0;
        if (item->status != SKY_OK) /* computed */
            continue;
        out->bytes_loaded += raw ? item->bytes : 0;
        for (uint32_t i = 0; !raw && i < item->span_count; i++)
            out->bytes_loaded += item->spans[i].data ? item->spans[i].bytes : 0;
        if (item->tier < SKY_TIERS_MAX)
            out->tier_blocks[item->tier]++;
        if (item->coding <= SKY_CODINGS_MAX)
            out->level_blocks[item->coding]++;
    }
}

static bool is_past(sky_time deadline) {
    return deadline != 0 && sky_now() >= deadline;
}

/* Blocks lie where the items say, or all in one tier. */
static void note_tiers(sky_sequence *q, uint32_t found, uint8_t tier) {
    for (uint32_t b = 0; b < found; b++)
        q->scratch.stored[b] = tier == SKY_TIER_NONE ? q->scratch.items[b].tier : tier;
}

/* With a deadline: so much of what was found as is likely to come in time, from the tiers that come
 * first, or else from one farther that brings more. */
static void plan_load(sky_sequence *q, uint32_t found, sky_load_plan *plan) {
    plan->block_count = found;
    plan->computes = plan->deadline_ns == 0;
    if (plan->deadline_ns == 0 || found == 0)
        return;
    sky__load_worth(q, found, plan);
    sky_load_plan other = *plan;
    for (uint32_t t = plan->tier + 1u; t < sky_tier_count(q->manager->cache); t++) {
        if (plan->block_count == found)
            return;
        sky_lookup beside = {0};
        other.tiers = 1u << t;
        const sky_call call = {.deadline_ns = plan->deadline_ns, .tiers = other.tiers};
        sky__load_worth(q, find_blocks(q, found, &call, &beside), &other);
        if (other.block_count > plan->block_count) {
            *plan = other;
            note_tiers(q, found, (uint8_t)t);
        }
    }
}

/* Read what is planned, or less of it when not all can be had. As load_blocks. */
static sky_status load_planned(sky_sequence *q, sky_load_plan *plan, sky_lookup *out) {
    sky_status status = SKY_MISS;
    while (plan->block_count > 0 && status == SKY_MISS)
        status = load_blocks(q, plan, out);
    return status;
}

/* Leading blocks that lie in memory, from where they come in no time. */
static uint32_t count_in_memory(sky_sequence *q, uint32_t found) {
    const sky_call call = {.tiers = 1};
    sky_lookup beside = {0};
    return q->manager->near_keeps ? find_blocks(q, found, &call, &beside) : 0;
}

/* From the first block on that did not come, or not intact, what is found is of no use, and saving
 * is not to take it for stored. */
static void note_spoiled(sky_sequence *q, uint32_t good_blocks, const sky_lookup *out) {
    q->spoiled = out->corrupt_blocks > 0 || out->foreign_blocks > 0;
    if (q->spoiled)
        q->spoiled_key = q->scratch.keys[good_blocks];
}

/* Of block_count leading blocks, those before the last ones whose copies were not waited for: these
 * were written with the other calibration too, as the blocks behind them were. */
static uint32_t count_seen(const sky_sequence *q, uint32_t block_count) {
    while (block_count > 0 && q->scratch.items[block_count - 1].status != SKY_OK)
        block_count--;
    return block_count;
}

/* Returns SKY_OK, SKY_E_CANCELLED, or SKY_E_NOMEM from the engine. */
static sky_status load_prefix(sky_sequence *q, uint32_t wanted, sky_time deadline,
                              sky_lookup *out) {
    const sky_call call = {.deadline_ns = deadline};
    sky_load_plan plan = {.deadline_ns = deadline};
    unsigned foreign = atomic_load(q->manager->coded.foreign);
    memset(q->scratch.raw, 0, wanted * sizeof *q->scratch.raw);
    memset(q->scratch.claims, 0, wanted * sizeof *q->scratch.claims);
    uint32_t found = find_blocks(q, wanted, &call, out);
    for (uint32_t b = 0; b < found; b++)
        if (q->scratch.items[b].tier < SKY_TIERS_MAX)
            q->reached |= 1u << q->scratch.items[b].tier;
    note_tiers(q, found, SKY_TIER_NONE);
    plan_load(q, found, &plan);
    sky_status status = load_planned(q, &plan, out);
    if (status == SKY_E_DEADLINE) {
        plan = (sky_load_plan){.block_count = count_in_memory(q, found), .tiers = 1};
        status = load_planned(q, &plan, out);
    }
    uint32_t blocks = status == SKY_OK ? plan.block_count : 0;
    uint32_t good = blocks > 0 && plan.bad_from < blocks ? plan.bad_from : blocks;
    if (atomic_load(q->manager->coded.foreign) != foreign) {
        good = count_seen(q, good);
        out->foreign_blocks = found - good;
    }
    bool existed = found > out->foreign_blocks || out->corrupt_blocks > 0 || is_past(deadline);
    out->verdict = existed ? SKY_VERDICT_RECOMPUTE : SKY_VERDICT_MISS;
    if (blocks > 0) {
        count_loaded(q, blocks, out);
        out->computed_tokens = plan.computed * q->manager->block_tokens;
        out->verdict = blocks == wanted ? SKY_VERDICT_HIT : SKY_VERDICT_PARTIAL;
    }
    note_spoiled(q, good, out);
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    return status == SKY_E_NOMEM ? status : SKY_OK;
}

void sky__load_count(const sky_sequence *q, const sky_lookup *l, uint32_t wanted) {
    sky_cache_counts *c = sky__cache_counts(q->manager->cache);
    uint64_t *const verdicts[] = {&c->lookups_hit, &c->lookups_partial, &c->lookups_miss,
                                  &c->lookups_recompute};
    sky_count(verdicts[l->verdict], 1);
    sky_count(&c->prefix_query_tokens, l->prompt_tokens);
    sky_count(&c->prefix_hit_tokens, l->hit_tokens - l->computed_tokens);
    sky_count(&c->prefix_query_blocks, wanted);
    sky_count(&c->prefix_hit_blocks, l->block_count);
}

sky_status sky_sequence_load(sky_sequence *sequence, const uint32_t *tokens, size_t token_count,
                             sky_time deadline_ns, sky_lookup *out) {
    sky_sequence *q = sequence;
    sky_time start = sky_now(), traced = sky_trace_now();
    if (!sequence || !tokens || !out || sequence->loading)
        return SKY_E_PARAM;
    sky_lookup lookup = {.verdict = SKY_VERDICT_MISS, .prompt_tokens = (uint32_t)token_count};
    sky_status status = token_count > 0 && token_count <= UINT32_MAX ? SKY_OK : SKY_E_PARAM;

    /* One token must be left to compute: its logits are the answer's beginning. */
    size_t whole = status == SKY_OK && !q->manager->refused
                       ? (token_count - 1) / q->manager->block_tokens
                       : 0;
    uint32_t wanted = whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
    q->reached = 0;
    q->tokens = tokens;
    if (wanted > 0)
        status = sky__sequence_keys(q, tokens, wanted);
    if (status == SKY_OK && wanted > 0)
        status = load_prefix(q, wanted, deadline_ns, &lookup);
    if (status == SKY_OK && atomic_load(&q->cancelled))
        status = SKY_E_CANCELLED;
    if (status != SKY_OK)
        lookup.hit_tokens = 0;
    if (lookup.hit_tokens == 0)
        q->engine.ops->restore_end(q->engine.self, false);
    q->restored_tokens = lookup.hit_tokens;
    sky_trace_call("manager", "lookup", wanted > 0 ? q->scratch.keys : NULL, lookup.bytes_loaded,
                   status, traced);
    if (status != SKY_OK)
        return status;
    lookup.load_ns = sky_now() - start;
    sky__load_count(q, &lookup, wanted);
    sky_log(
        SKY_LOG_INFO, "lookup: %s, %u of %zu tokens, %u of them computed, %llu bytes in %.1f ms",
        sky_verdict_name(lookup.verdict), lookup.hit_tokens, token_count, lookup.computed_tokens,
        (unsigned long long)lookup.bytes_loaded, (double)lookup.load_ns / 1e6);
    *out = lookup;
    return SKY_OK;
}
