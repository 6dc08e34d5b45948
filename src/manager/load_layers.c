/* A load whose layers come one after the other, so that the engine computes with the first while
 * the last are on their way.
 *
 *   begin   how long the prefix is; where the engine wants its rows
 *             stored layer 0 │ 1 │ 2 │ 3 │ …        a batch of gets each, AHEAD of them under way:
 *             header, K, V   │ K, V of every block  of a block the range that K and V fill together
 *   wait    until a layer's batch is over, and that of layer 0, which has the headers; goes on
 *           reading meanwhile
 *   end     all there: the engine takes them; else it is empty
 *
 * Surprises: who does not call wait has AHEAD more layers read than the last one waited for. Blocks
 * that lie coded are decoded whole, so begin loads all of them. */
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "manager/blocks.h"

#define AHEAD    4u
#define BUSY_NS  SKY_MS(1) /* until others' batches are asked about again */
#define NO_LAYER UINT32_MAX

/* A layer under way. */
typedef struct {
    uint32_t layer; /* NO_LAYER: none */
    uint32_t item_count;
    sky_batch batch;
    sky_item *items; /* [block_count] */
    sky_span *spans; /* [block_count × spans_per_block] */
} slot;

/* Layers count in stored order here. */
struct sky__layers {
    sky_sequence *q;
    bool whole; /* the engine has taken everything already */
    sky_lookup found;
    uint32_t wanted_blocks;
    sky_time began;
    uint32_t block_count;
    uint32_t layer_count;
    uint32_t next;   /* to be asked for */
    uint32_t wanted; /* the farthest that was waited for */
    uint32_t lacks;  /* are not here yet */
    bool *here;      /* [layer_count] */
    bool busy;       /* one is to be asked for again */
    sky_status failed;
    sky_key *keys;    /* [block_count] */
    uint8_t *headers; /* [block_count × header_bytes] */
    size_t spans_per_block;
    slot slots[AHEAD];
};

/* ---- one layer ---- */

/* K (or V) of a block, behind what the item has already; rows the engine does not want, nowhere. */
static void add_section(const sky__layers *l, const sky_payload_section *s, uint32_t first,
                        sky_item *item, sky_span *spans) {
    const sky_tensor *rows = &l->q->rows[s->row_set];
    uint32_t tokens = l->q->manager->block_tokens;
    uint32_t skipped = rows->first_token > first ? rows->first_token - first : 0;
    skipped = skipped < tokens ? skipped : tokens;
    if (skipped > 0)
        spans[item->span_count++] = (sky_span){NULL, (size_t)skipped * s->row_bytes};
    if (skipped < tokens)
        item->span_count += sky__tensor_pieces(rows, first + skipped, tokens - skipped,
                                               spans + item->span_count);
    item->range.bytes += s->bytes;
}

/* The batch's item of a block, if the engine wants anything of it. */
static void add_block(const sky__layers *l, slot *f, uint32_t block) {
    const sky_payload *payload = &l->q->manager->payload;
    sky_payload_section k = sky_payload_section_at(payload, 2 * f->layer);
    sky_payload_section v = sky_payload_section_at(payload, 2 * f->layer + 1);
    uint32_t tokens = l->q->manager->block_tokens, first = block * tokens;
    sky_span *spans = f->spans + f->item_count * l->spans_per_block;
    sky_item item = {.key = l->keys[block], .spans = spans, .range = {k.offset, 0}};
    if (f->layer > 0 && l->q->rows[k.row_set].first_token >= first + tokens &&
        l->q->rows[v.row_set].first_token >= first + tokens)
        return;
    if (block > 0)
        item.parent = l->keys[block - 1];
    if (f->layer == 0) {
        item.range = (sky_range){0, payload->header_bytes};
        spans[item.span_count++] = (sky_span){l->headers + (size_t)block * payload->header_bytes,
                                              payload->header_bytes};
    }
    add_section(l, &k, first, &item, spans);
    add_section(l, &v, first, &item, spans);
    f->items[f->item_count++] = item;
}

static void start_layer(sky__layers *l, slot *f) {
    const sky_call call = {.event_fd = l->q->event};
    f->layer = l->next;
    f->item_count = 0;
    for (uint32_t b = 0; b < l->block_count; b++)
        add_block(l, f, b);
    sky_status status = sky_submit(l->q->manager->cache, SKY_OP_GET, f->items, f->item_count, &call,
                                   &f->batch);
    l->busy = status == SKY_E_BUSY;
    if (status == SKY_OK) {
        l->next++;
        return;
    }
    f->layer = NO_LAYER;
    l->failed = l->busy ? l->failed : status;
}

/* What a layer's batch came to; that of the first has the headers. */
static sky_status check_layer(const sky__layers *l, const slot *f) {
    const sky_payload *payload = &l->q->manager->payload;
    for (uint32_t i = 0; i < f->item_count; i++) {
        const sky_item *item = &f->items[i];
        sky_status status = item->status;
        if (status == SKY_OK && item->bytes != item->range.bytes)
            status = SKY_E_CORRUPT;
        if (status == SKY_OK && f->layer == 0) /* which has an item for each block */
            status = sky_payload_header_check(payload, i * l->q->manager->block_tokens,
                                              item->spans[0].data);
        if (status == SKY_OK)
            continue;
        l->q->spoiled = status == SKY_E_CORRUPT; /* as after sky_sequence_load */
        l->q->spoiled_key = item->key;
        return status;
    }
    return SKY_OK;
}

static void take_layer(sky__layers *l, slot *f) {
    sky_status status = check_layer(l, f);
    for (uint32_t i = 0; status == SKY_OK && i < f->item_count; i++) {
        l->found.bytes_loaded += f->items[i].bytes;
        if (f->layer == 0 && f->items[i].tier < SKY_TIERS_MAX)
            l->found.tier_blocks[f->items[i].tier]++;
    }
    l->failed = l->failed == SKY_OK ? status : l->failed;
    l->here[f->layer] = status == SKY_OK;
    l->lacks -= status == SKY_OK;
    f->layer = NO_LAYER;
}

static void give_up(sky__layers *l) {
    for (uint32_t i = 0; i < AHEAD; i++) {
        if (l->slots[i].layer != NO_LAYER)
            sky_cancel(l->q->manager->cache, l->slots[i].batch);
        l->slots[i].layer = NO_LAYER;
    }
}

/* Take what is over, ask for what is next. */
static void go_on(sky__layers *l) {
    if (l->failed == SKY_OK && atomic_load(&l->q->cancelled))
        l->failed = SKY_E_CANCELLED;
    for (uint32_t i = 0; i < AHEAD; i++) {
        slot *f = &l->slots[i];
        if (f->layer != NO_LAYER && sky_wait(l->q->manager->cache, f->batch, 1) != SKY_E_DEADLINE)
            take_layer(l, f);
        if (f->layer == NO_LAYER && l->failed == SKY_OK && l->next < l->layer_count &&
            l->next < l->wanted + AHEAD)
            start_layer(l, f);
    }
    if (l->failed != SKY_OK)
        give_up(l);
}

/* ---- waiting ---- */

typedef struct {
    sky__layers *l;
    uint32_t layer; /* NO_LAYER: all */
    sky_time until;
} waiter;

static bool is_over(const waiter *w) {
    const sky__layers *l = w->l;
    if (l->whole || l->failed != SKY_OK || l->lacks == 0)
        return true;
    return w->layer != NO_LAYER && l->here[0] && l->here[w->layer];
}

/* As sky_idle_fn. What memory has is there at once, and makes room for more. */
static sky_time listen_until(void *context) {
    waiter *w = context;
    sky_time soon = sky_now() + BUSY_NS;
    uint32_t before;
    do {
        before = w->l->lacks;
        go_on(w->l);
    } while (!is_over(w) && w->l->lacks < before);
    if (is_over(w))
        return 0;
    return w->l->busy && soon < w->until ? soon : w->until;
}

/* Who polls the event is to look when nothing is under way that will raise it, as others' batches
 * are too many, all is here, or nothing comes any more. */
static void offer_look(const sky__layers *l) {
    for (uint32_t i = 0; i < AHEAD; i++)
        if (l->slots[i].layer != NO_LAYER)
            return;
    sky_event_raise(l->q->event);
}

static sky_status wait_until(sky__layers *l, uint32_t layer, sky_time until) {
    waiter w = {l, layer, until};
    uint32_t wanted = layer == NO_LAYER ? l->layer_count : layer;
    l->wanted = wanted > l->wanted ? wanted : l->wanted;
    if (l->whole)
        return atomic_load(&l->q->cancelled) ? SKY_E_CANCELLED : SKY_OK;
    do
        sky_event_wait(l->q->event, NULL, 0, listen_until, &w);
    while (!is_over(&w) && sky_now() < until);
    offer_look(l);
    if (l->failed != SKY_OK)
        return l->failed;
    return is_over(&w) ? SKY_OK : SKY_E_DEADLINE;
}

/* ---- life ---- */

void sky__layers_free(sky__layers *l) {
    if (!l)
        return;
    give_up(l);
    for (uint32_t i = 0; i < AHEAD; i++) {
        free(l->slots[i].items);
        free(l->slots[i].spans);
    }
    free(l->here);
    free(l->keys);
    free(l->headers);
    free(l);
}

/* Leading blocks that some tier has, and whether one lies coded. */
static uint32_t find_blocks(sky_sequence *q, uint32_t wanted, bool *coded) {
    sky_item *items = q->scratch.items;
    memset(items, 0, wanted * sizeof *items);
    for (uint32_t b = 0; b < wanted; b++) {
        items[b].key = q->scratch.keys[b];
        if (b > 0)
            items[b].parent = items[b - 1].key;
    }
    sky_status status = sky__sequence_run(q, SKY_OP_HAS, items, wanted, &(sky_call){0});
    uint32_t found = 0;
    while (status == SKY_OK && found < wanted && items[found].status == SKY_OK &&
           sky__may_be_block(q, items[found].bytes)) {
        sky_tier_stat stat = {0};
        const sky_item *item = &items[found++];
        *coded |= item->bytes != q->manager->payload.payload_bytes ||
                  (sky_cache_stat(q->manager->cache, item->tier, &stat) == SKY_OK &&
                   stat.codings[0]);
    }
    return found;
}

static sky_status make_room(sky__layers *l) {
    const sky_sequence *q = l->q;
    const sky_payload *payload = &q->manager->payload;
    uint32_t tokens = q->manager->block_tokens;
    for (uint32_t i = 0; i < payload->row_sets; i += 2) {
        size_t pieces = sky__tensor_pieces_max(&q->rows[i], tokens) +
                        sky__tensor_pieces_max(&q->rows[i + 1], tokens);
        if (pieces + 3 > l->spans_per_block) /* header, and what K and V skip */
            l->spans_per_block = pieces + 3;
    }
    l->here = calloc(l->layer_count, sizeof *l->here);
    l->keys = calloc(l->block_count, sizeof *l->keys);
    l->headers = calloc(l->block_count, payload->header_bytes);
    bool room = l->here && l->keys && l->headers;
    for (uint32_t i = 0; room && i < AHEAD; i++) {
        l->slots[i].items = calloc(l->block_count, sizeof *l->slots[i].items);
        l->slots[i].spans = malloc(l->block_count * l->spans_per_block * sizeof(sky_span));
        room = l->slots[i].items && l->slots[i].spans;
    }
    if (room)
        memcpy(l->keys, q->scratch.keys, l->block_count * sizeof *l->keys);
    return room ? SKY_OK : SKY_E_NOMEM;
}

/* What lies coded is loaded here, the rest layer by layer. */
static sky_status begin_load(sky__layers *l, const uint32_t *tokens, size_t token_count) {
    sky_sequence *q = l->q;
    const sky_manager *m = q->manager;
    size_t whole = m->refused ? 0 : (token_count - 1) / m->block_tokens;
    bool coded = false;
    l->wanted_blocks = whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
    sky_status status = l->wanted_blocks > 0 ? sky__sequence_keys(q, tokens, l->wanted_blocks)
                                             : SKY_OK;
    if (status != SKY_OK)
        return status;
    if (l->wanted_blocks > 0)
        l->block_count = find_blocks(q, l->wanted_blocks, &coded);
    l->whole = coded || l->block_count == 0;
    if (l->whole)
        return sky_sequence_load(q, tokens, token_count, 0, &l->found);
    bool all = l->block_count == l->wanted_blocks;
    l->found = (sky_lookup){.verdict = all ? SKY_VERDICT_HIT : SKY_VERDICT_PARTIAL,
                            .prompt_tokens = (uint32_t)token_count,
                            .hit_tokens = l->block_count * m->block_tokens,
                            .block_count = l->block_count};
    q->spoiled = false;
    l->layer_count = l->lacks = m->payload.row_sets / 2;
    l->failed = sky__engine_restore_begin(q, l->found.hit_tokens);
    if (l->failed == SKY_OK)
        status = make_room(l);
    if (status == SKY_OK)
        go_on(l);
    offer_look(l);
    return l->failed == SKY_E_CANCELLED || l->failed == SKY_E_NOMEM ? l->failed : status;
}

sky_status sky_sequence_load_begin(sky_sequence *sequence, const uint32_t *tokens,
                                   size_t token_count, sky_lookup *out) {
    sky_sequence *q = sequence;
    if (!q || !tokens || !out || token_count == 0 || token_count > UINT32_MAX || q->loading)
        return SKY_E_PARAM;
    sky__layers *l = calloc(1, sizeof *l);
    if (!l)
        return SKY_E_NOMEM;
    l->q = q;
    l->began = sky_now();
    for (uint32_t i = 0; i < AHEAD; i++)
        l->slots[i].layer = NO_LAYER;
    sky_status status = begin_load(l, tokens, token_count);
    if (status != SKY_OK) {
        sky__layers_free(l);
        q->engine.ops->restore_end(q->engine.self, false);
        return status;
    }
    q->loading = l;
    *out = l->found;
    return SKY_OK;
}

int sky_sequence_event_fd(const sky_sequence *sequence) {
    return sequence ? sequence->event : -1;
}

sky_status sky_sequence_load_wait(sky_sequence *sequence, uint32_t layer, sky_time until) {
    sky__layers *l = sequence ? sequence->loading : NULL;
    uint32_t stored = 0;
    if (!l || layer >= sequence->manager->payload.row_sets / 2)
        return SKY_E_PARAM;
    while (sky_payload_section_at(&sequence->manager->payload, 2 * stored).row_set != 2 * layer)
        stored++;
    return wait_until(l, stored, until);
}

/* As wait_until. until 0: the caller does not want them. */
static sky_status wait_for_all(sky__layers *l, sky_time until) {
    if (until != 0)
        return wait_until(l, NO_LAYER, until);
    if (atomic_load(&l->q->cancelled))
        return SKY_E_CANCELLED;
    return l->failed != SKY_OK ? l->failed : SKY_E_DEADLINE;
}

/* The engine takes the layers, if all are there: *found says what it now holds. */
static void finish_load(sky__layers *l, sky_status status, sky_lookup *found) {
    sky_sequence *q = l->q;
    give_up(l);
    if (status != SKY_OK)
        q->engine.ops->restore_end(q->engine.self, false);
    else if (!l->whole)
        status = sky__engine_restore_end(q);
    if (status != SKY_OK && found->hit_tokens > 0)
        *found = (sky_lookup){.verdict = SKY_VERDICT_RECOMPUTE,
                              .prompt_tokens = found->prompt_tokens,
                              .corrupt_blocks = status == SKY_E_CORRUPT && q->spoiled};
    q->restored_tokens = found->hit_tokens;
    if (l->whole)
        return; /* it was counted when it came */
    found->load_ns = sky_now() - l->began;
    sky__load_count(q, found, l->wanted_blocks);
}

sky_status sky_sequence_load_end(sky_sequence *sequence, sky_time until, sky_lookup *out) {
    sky__layers *l = sequence ? sequence->loading : NULL;
    if (!l || !out)
        return SKY_E_PARAM;
    sky_status status = wait_for_all(l, until);
    sky_lookup found = l->found;
    finish_load(l, status, &found);
    sky__layers_free(l);
    sequence->loading = NULL;
    if (status == SKY_E_CANCELLED)
        return status;
    *out = found;
    return SKY_OK;
}
