/* Calls of an engine. Its answers are checked: an adapter that errs costs an error, never the
 * process and never a wrong row. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/tensor.h"
#include "manager/blocks.h"

/* A miss is nothing that an engine can say. */
static sky_status clamp_status(sky_status status) {
    return status <= SKY_OK && sky_status_is_known(status) ? status : SKY_E_IO;
}

/* They are a tensor of this section, and hold these tokens. */
static bool rows_cover(const sky_tensor *rows, const sky_layer_group *group,
                       const sky_payload_section *s, uint32_t first_token, uint32_t end_token) {
    sky_error why = {0};
    if (sky_tensor_check(rows, &why) != SKY_OK) {
        sky_log(SKY_LOG_WARNING, "engine: group %u, layer %u, %c: %s", s->group, s->layer,
                s->is_v ? 'V' : 'K', why.text);
        return false;
    }
    return rows->element == (s->is_v ? group->v_element : group->k_element) &&
           sky__tensor_row_bytes(rows) == s->row_bytes && sky__tensor_has_heads(rows) &&
           rows->first_token <= first_token &&
           (uint64_t)rows->first_token + rows->token_count >= end_token;
}

static sky_status reserve_spans(sky_sequence *q, uint32_t token_count) {
    sky_block_scratch *s = &q->scratch;
    uint32_t block_tokens = q->manager->block_tokens;
    size_t blocks = (token_count + block_tokens - 1) / block_tokens;
    q->spans_per_block = 1;
    for (uint32_t i = 0; i < q->manager->payload.row_sets; i++)
        q->spans_per_block += 1 + sky__tensor_pieces_max(&q->rows[i], block_tokens);
    if (blocks * q->spans_per_block <= s->spans_max)
        return SKY_OK;
    sky_span *spans = malloc(blocks * q->spans_per_block * sizeof *spans);
    if (!spans)
        return SKY_E_NOMEM;
    free(s->spans);
    s->spans = spans;
    s->spans_max = blocks * q->spans_per_block;
    return SKY_OK;
}

/* The engine says where rows [first_token, end_token) of every layer are, or, if only windows count
 * (cut), of a window layer the last of them. What else it has room for is left alone.
 * Errors: SKY_E_CORRUPT: it does not, or they are others */
static sky_status take_state(sky_sequence *q, const sky_state *state, uint32_t first_token,
                             uint32_t end_token, bool cut) {
    const sky_payload *payload = &q->manager->payload;
    bool good = state->tensors == q->rows && state->tensor_count == payload->row_sets;
    for (uint32_t i = 0; good && i < payload->row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(payload, i);
        const sky_layer_group *group = &payload->layout.groups[s.group];
        uint32_t window = cut ? group->window_tokens : 0;
        uint32_t first = window && window < end_token ? end_token - window : first_token;
        sky_tensor *rows = &q->rows[s.row_set];
        good = rows_cover(rows, group, &s, first, end_token);
        if (good)
            *rows = sky_tensor_slice(rows, first, end_token - first);
    }
    if (good)
        return reserve_spans(q, end_token - first_token);
    sky_log(SKY_LOG_WARNING, "engine: its rows are not those of tokens %u to %u", first_token,
            end_token);
    return SKY_E_CORRUPT;
}

/* Nothing in it is of an earlier call. */
static sky_state empty_state(sky_sequence *q) {
    memset(q->rows, 0, q->manager->payload.row_sets * sizeof *q->rows);
    return (sky_state){q->rows, q->manager->payload.row_sets};
}

sky_status sky__engine_extract(sky_sequence *q, uint32_t first_token, uint32_t token_count) {
    sky_state state = empty_state(q);
    sky_status status = clamp_status(
        q->engine.ops->extract(q->engine.self, first_token, token_count, &state));
    return status == SKY_OK ? take_state(q, &state, first_token, first_token + token_count, false)
                            : status;
}

sky_status sky__engine_restore_begin(sky_sequence *q, uint32_t token_count) {
    sky_state state = empty_state(q);
    sky_status status = clamp_status(
        q->engine.ops->restore_begin(q->engine.self, token_count, &state));
    return status == SKY_OK ? take_state(q, &state, 0, token_count, true) : status;
}

sky_status sky__engine_advance(sky_sequence *q, const uint32_t *tokens, uint32_t first_token,
                               uint32_t token_count) {
    return clamp_status(q->engine.ops->advance(q->engine.self, tokens, first_token, token_count));
}

sky_status sky__engine_place_advanced(sky_sequence *q, uint32_t token_count) {
    return clamp_status(q->engine.ops->place_advanced(q->engine.self, token_count));
}

sky_status sky__engine_restore_end(sky_sequence *q) {
    return clamp_status(q->engine.ops->restore_end(q->engine.self, true));
}

sky_status sky__engine_tokenize(sky_sequence *q, const char *text, uint32_t **tokens,
                                size_t *token_count) {
    size_t text_bytes = strlen(text);
    size_t room = text_bytes + 8; /* seldom more tokens than bytes: then it says how many */
    for (int attempt = 0; attempt < 2; attempt++) {
        size_t count = 0;
        uint32_t *buffer = malloc(room * sizeof *buffer);
        if (!buffer)
            return SKY_E_NOMEM;
        sky_status status = clamp_status(
            q->engine.ops->tokenize(q->engine.self, text, text_bytes, buffer, room, &count));
        if (status == SKY_OK && count <= room) {
            *tokens = buffer;
            *token_count = count;
            return SKY_OK;
        }
        free(buffer);
        if (status != SKY_OK && status != SKY_E_DST_SMALL)
            return status;
        if (status == SKY_OK || count <= room || count > UINT32_MAX)
            return SKY_E_CORRUPT;
        room = count;
    }
    return SKY_E_CORRUPT;
}
