/* Computing a prompt's head while the rows of its tail are loaded; see skymem/engine.h.
 *
 *   context   cells of [0, b)     computed here, in steps as prefill's: the bits do not depend on
 *                                 where a step of 64 tokens or more is cut
 *   blob      rows of [b, n)      written by the manager meanwhile; nobody here touches it
 *
 * When they have met, the head's rows are read out of the context into the blob, and restore_end
 * takes all of it, as it takes a prefix that was only loaded: one order of cells, one set of bits.
 */
#include "adapter.h"

#include <stdlib.h>
#include <string.h>

sky_status sky__llama_advance(void *self, const uint32_t *tokens, uint32_t first_token,
                              uint32_t token_count) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
    uint32_t restoring = slot->restoring_tokens, end = first_token + token_count;
    if (first_token % TAIL_TOKENS != 0 || token_count % TAIL_TOKENS != 0)
        return SKY_E_UNSUPPORTED; /* smaller steps have other low bits */
    sky_status status = sky__llama_check_tokens(llama, tokens, first_token, token_count);
    if (status == SKY_OK)
        status = sky__llama_crop(slot, first_token);
    slot->restoring_tokens = restoring;
    atomic_store(&llama->advancing, true);
    while (status == SKY_OK && slot->held_tokens < end) {
        uint32_t at = slot->held_tokens, step = STEP_TOKENS - at % STEP_TOKENS;
        step = step < end - at ? step : end - at;
        status = atomic_load(&llama->interrupted)
                     ? SKY_E_CANCELLED
                     : sky__llama_decode(slot, tokens + (at - first_token), step, false);
    }
    atomic_store(&llama->advancing, false);
    if (status != SKY_OK) { /* of several steps those that were done */
        (void)sky__llama_crop(slot, first_token);
        slot->restoring_tokens = restoring;
    }
    slot->advanced_tokens = slot->held_tokens;
    return status;
}

void sky__llama_interrupt(void *self) {
    atomic_store(&((sky__llama_slot *)self)->llama->interrupted, true);
}

/* Rows of one layer from where the context has them to where the blob wants them, up to `end`.
 * False: the context lacks some. */
static bool move_rows(const sky_tensor *from, const sky_tensor *to, uint32_t end) {
    uint32_t first = to->first_token;
    return first >= end ||
           (from->first_token <= first && from->first_token + from->token_count >= end &&
            sky_tensor_write(to, first, end - first,
                             (const uint8_t *)from->data + (size_t)(first - from->first_token) *
                                                               from->token_bytes) == SKY_OK);
}

static sky_status place_rows(sky__llama_slot *slot, uint32_t token_count, uint8_t *state,
                             size_t bytes, sky_tensor *from, sky_tensor *to) {
    sky_llama *llama = slot->llama;
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    bool placed = llama_state_seq_get_data(llama->context, state, bytes, slot->id) == bytes &&
                  !blob_parse(state, bytes, false, &llama->shape, parts, from);
    sky__llama_parts_for(&llama->shape.layout, slot->restoring_tokens, parts);
    blob_compose(&llama->shape, parts, llama->blob, to);
    for (uint32_t i = 0; placed && i < llama->shape.row_sets; i++)
        placed = move_rows(&from[i], &to[i], token_count);
    return placed ? SKY_OK : SKY_E_PARAM;
}

sky_status sky__llama_place_advanced(void *self, uint32_t token_count) {
    sky__llama_slot *slot = self;
    sky_llama *llama = slot->llama;
    if (token_count == 0 || token_count != slot->advanced_tokens ||
        token_count > slot->restoring_tokens)
        return SKY_E_PARAM;
    size_t bytes = llama_state_seq_get_size(llama->context, slot->id);
    uint8_t *state = malloc(bytes);
    sky_tensor *rows = calloc(2 * (size_t)llama->shape.row_sets, sizeof *rows);
    sky_status status = state && rows ? place_rows(slot, token_count, state, bytes, rows,
                                                   rows + llama->shape.row_sets)
                                      : SKY_E_NOMEM;
    free(rows);
    free(state);
    return status;
}
