/* A save that takes layers as they are made.
 *
 *   begin   which blocks no tier has; a payload is set up for each
 *   layer   K and V of one layer, of all these blocks: copied, the engine may go on
 *   end     all layers were given: the payloads are put
 *
 * The engine's extract is not asked for anything. */
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "base/tensor.h"
#include "cache/cache_internal.h"
#include "manager/blocks.h"

struct sky__save {
    uint32_t count;    /* blocks that no tier has */
    uint32_t *blocks;  /* [count] */
    sky_key *keys;     /* [count] */
    sky_key *parents;  /* [count] */
    uint8_t *payloads; /* [count × payload_bytes] */
    bool *given;       /* [layers] */
    uint32_t lacks;    /* layers that were not given */
};

void sky__save_free(sky__save *s) {
    if (!s)
        return;
    free(s->blocks);
    free(s->keys);
    free(s->parents);
    free(s->payloads);
    free(s->given);
    free(s);
}

static sky_status make_room(const sky_sequence *q, uint32_t block_count, sky__save *s) {
    const uint64_t *missing = q->scratch.stored;
    for (uint32_t b = 0; b < block_count; b++)
        s->count += missing[b] != 0;
    s->lacks = q->manager->payload.row_sets / 2;
    s->given = calloc(s->lacks, sizeof *s->given);
    size_t n = s->count > 0 ? s->count : 1;
    s->blocks = calloc(n, sizeof *s->blocks);
    s->keys = calloc(n, sizeof *s->keys);
    s->parents = calloc(n, sizeof *s->parents);
    s->payloads = malloc(n * q->manager->payload.payload_bytes);
    if (!s->given || !s->blocks || !s->keys || !s->parents || !s->payloads)
        return SKY_E_NOMEM;
    for (uint32_t b = 0, i = 0; b < block_count; b++) {
        if (!missing[b])
            continue;
        s->blocks[i] = b;
        s->keys[i] = q->scratch.keys[b];
        if (b > 0)
            s->parents[i] = q->scratch.keys[b - 1];
        sky_payload_header_write(&q->manager->payload, b * q->manager->block_tokens,
                                 s->payloads + (size_t)i * q->manager->payload.payload_bytes);
        i++;
    }
    return SKY_OK;
}

sky_status sky_sequence_save_begin(sky_sequence *sequence, const uint32_t *tokens,
                                   size_t token_count, uint32_t *first_token) {
    sky_sequence *q = sequence;
    if (!q || !tokens || !first_token || token_count > UINT32_MAX || q->saving)
        return SKY_E_PARAM;
    if (q->manager->refused)
        return SKY_E_UNSUPPORTED;
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    size_t whole = token_count / q->manager->block_tokens;
    uint32_t block_count = whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
    sky__save *s = calloc(1, sizeof *s);
    sky_status status = s ? SKY_OK : SKY_E_NOMEM;
    if (status == SKY_OK && block_count > 0)
        status = sky__sequence_keys(q, tokens, block_count);
    if (status == SKY_OK && block_count > 0)
        status = sky__save_missing(q, block_count, q->scratch.stored);
    if (status == SKY_OK)
        status = make_room(q, block_count, s);
    if (status != SKY_OK) {
        sky__save_free(s);
        return status;
    }
    q->saving = s;
    *first_token = s->count > 0 ? s->blocks[0] * q->manager->block_tokens : (uint32_t)token_count;
    return SKY_OK;
}

/* It is one of this section, and has all that is to be saved. */
static bool covers_save(const sky_sequence *q, const sky_payload_section *s, const sky_tensor *t) {
    const sky_layer_group *group = &q->manager->payload.layout.groups[s->group];
    uint32_t tokens = q->manager->block_tokens, first = q->saving->blocks[0] * tokens;
    uint32_t end = (q->saving->blocks[q->saving->count - 1] + 1) * tokens;
    return sky_tensor_check(t, NULL) == SKY_OK &&
           t->element == (s->is_v ? group->v_element : group->k_element) &&
           sky__tensor_row_bytes(t) == s->row_bytes && t->first_token <= first &&
           (uint64_t)t->first_token + t->token_count >= end;
}

static void gather_rows(const sky_sequence *q, const sky_payload_section *s, const sky_tensor *t) {
    for (uint32_t i = 0; i < q->saving->count; i++)
        sky__tensor_gather(
            t, q->saving->blocks[i] * q->manager->block_tokens, q->manager->block_tokens,
            q->saving->payloads + (size_t)i * q->manager->payload.payload_bytes + s->offset);
}

sky_status sky_sequence_save_layer(sky_sequence *sequence, uint32_t layer, const sky_tensor *k,
                                   const sky_tensor *v) {
    sky_sequence *q = sequence;
    sky__save *save = q ? q->saving : NULL;
    if (!save || !k || !v || layer >= q->manager->payload.row_sets / 2)
        return SKY_E_PARAM;
    uint32_t i = 0;
    while (sky_payload_section_at(&q->manager->payload, i).row_set != 2 * layer)
        i += 2;
    sky_payload_section ks = sky_payload_section_at(&q->manager->payload, i);
    sky_payload_section vs = sky_payload_section_at(&q->manager->payload, i + 1);
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    if (save->count > 0 && (!covers_save(q, &ks, k) || !covers_save(q, &vs, v)))
        return SKY_E_PARAM;
    gather_rows(q, &ks, k);
    gather_rows(q, &vs, v);
    save->lacks -= !save->given[layer];
    save->given[layer] = true;
    return SKY_OK;
}

static sky_status put_blocks(sky_sequence *q, const sky__save *s, sky_saved *saved) {
    sky_item *items = q->scratch.items;
    uint64_t bytes = q->manager->payload.payload_bytes;
    memset(items, 0, s->count * sizeof *items);
    for (uint32_t i = 0; i < s->count; i++) {
        q->scratch.spans[i] = (sky_span){s->payloads + i * bytes, bytes};
        items[i].key = s->keys[i];
        items[i].parent = s->parents[i];
        items[i].spans = &q->scratch.spans[i];
        items[i].span_count = 1;
    }
    sky_status status = sky__save_put(q, s->count, &(sky_call){.drop = q->manager->drop});
    for (uint32_t i = 0; i < s->count && (status == SKY_OK || status == SKY_E_DEADLINE); i++) {
        if (items[i].status != SKY_OK)
            return status != SKY_OK ? status : items[i].status;
        saved->blocks++;
        saved->bytes += bytes;
    }
    return status;
}

sky_status sky_sequence_save_end(sky_sequence *sequence, uint32_t *saved_blocks,
                                 uint64_t *saved_bytes) {
    sky_sequence *q = sequence;
    sky__save *s = q ? q->saving : NULL;
    sky_saved saved = {0};
    if (!s)
        return SKY_E_PARAM;
    sky_status status = atomic_load(&q->cancelled) ? SKY_E_CANCELLED : SKY_OK;
    if (status == SKY_OK && s->count > 0)
        status = s->lacks == 0 ? put_blocks(q, s, &saved) : SKY_E_PARAM;
    sky_count(&sky__cache_counts(q->manager->cache)->saved_blocks, saved.blocks);
    sky__save_free(s);
    q->saving = NULL;
    if (saved_blocks)
        *saved_blocks = saved.blocks;
    if (saved_bytes)
        *saved_bytes = saved.bytes;
    return status;
}
