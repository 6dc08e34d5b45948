/* Calls of an engine. Its answers are checked: an adapter that errs costs an error, never the
 * process and never a wrong row. */
#include <string.h>

#include "base/log.h"
#include "manager/blocks.h"

static bool rows_cover(const sky_rows *rows, uint32_t first_token, uint32_t end_token) {
    return rows->data && rows->first_token <= first_token &&
           (uint64_t)rows->first_token + rows->token_count >= end_token;
}

/* The engine says where rows [first_token, first_token + token_count) of every layer are.
 * Errors: SKY_E_CORRUPT: it does not, or they are others */
static sky_status check_state(const sky_sequence *q, const sky_state *state, uint32_t first_token,
                              uint32_t token_count) {
    const sky_payload *payload = &q->manager->payload;
    bool good = state->rows == q->rows && state->row_sets == payload->row_sets;
    for (uint32_t i = 0; good && i < payload->row_sets; i++)
        good = rows_cover(&q->rows[i], first_token, first_token + token_count);
    if (good)
        return SKY_OK;
    sky_log(SKY_LOG_WARNING, "engine: its rows are not those of tokens %u to %u", first_token,
            first_token + token_count);
    return SKY_E_CORRUPT;
}

/* Nothing in it is of an earlier call. */
static sky_state empty_state(sky_sequence *q) {
    memset(q->rows, 0, q->manager->payload.row_sets * sizeof *q->rows);
    return (sky_state){q->rows, q->manager->payload.row_sets};
}

sky_status sky__engine_extract(sky_sequence *q, uint32_t first_token, uint32_t token_count) {
    sky_state state = empty_state(q);
    sky_status status = q->engine.ops->extract(q->engine.self, first_token, token_count, &state);
    return status == SKY_OK ? check_state(q, &state, first_token, token_count) : status;
}
