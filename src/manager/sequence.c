/* A sequence's life, its cancel, and prompts given as text. Loading is load.c, saving save.c, and
 * what they run sequence_batch.c. */
#include <stdlib.h>
#include <string.h>

#include "manager/blocks.h"

/* ---- life ---- */

/* The engine computes with the same model, and lays its state out in the same way. */
static bool engine_fits(const sky_manager *m, const sky_engine *engine) {
    uint8_t fingerprint[32];
    sky_layout layout = {0};
    engine->ops->fingerprint(engine->self, fingerprint);
    if (memcmp(fingerprint, m->fingerprint, sizeof fingerprint) != 0)
        return false;
    return m->refused || (engine->ops->layout(engine->self, &layout, NULL) == SKY_OK &&
                          memcmp(&layout, &m->payload.layout, sizeof layout) == 0);
}

sky_status sky_sequence_open(sky_manager *manager, const sky_engine *engine, sky_sequence **out) {
    if (!manager || !out || !sky__engine_complete(engine) || !engine_fits(manager, engine))
        return SKY_E_PARAM;
    sky_sequence *q = calloc(1, sizeof *q);
    if (!q)
        return SKY_E_NOMEM;
    q->manager = manager;
    q->engine = *engine;
    q->event = -1;
    sky_mutex_init(&q->mutex);
    sky_mutex_lock(&manager->mutex);
    manager->sequence_count++;
    sky_mutex_unlock(&manager->mutex);
    sky_status status = sky_event_create(&q->event);
    q->rows = manager->refused ? NULL : calloc(manager->payload.row_sets, sizeof *q->rows);
    if (status == SKY_OK && !manager->refused && !q->rows)
        status = SKY_E_NOMEM;
    if (status != SKY_OK) {
        sky_sequence_close(q);
        return status;
    }
    *out = q;
    return SKY_OK;
}

void sky_sequence_close(sky_sequence *sequence) {
    sky_sequence *q = sequence;
    if (!q)
        return;
    if (q->pushing)
        (void)sky_sequence_push_end(q, NULL, NULL);
    sky_mutex_lock(&q->manager->mutex);
    q->manager->sequence_count--;
    sky_mutex_unlock(&q->manager->mutex);
    sky__layers_free(q->loading);
    sky__save_free(q->saving);
    sky_event_close(q->event);
    sky_mutex_deinit(&q->mutex);
    sky__sequence_scratch_free(&q->scratch);
    free(q->rows);
    free(q->staging);
    free(q);
}

void sky_sequence_cancel(sky_sequence *sequence) {
    if (!sequence)
        return;
    atomic_store(&sequence->cancelled, true);
    sky_mutex_lock(&sequence->mutex);
    sky_batch batch = sequence->batch;
    sky_mutex_unlock(&sequence->mutex);
    sky_cancel(sequence->manager->cache, batch);
    sky_event_raise_foreign(sequence->event);
    sky__flights_wake(&sequence->manager->flights);
}

/* ---- text ---- */

sky_status sky_sequence_load_text(sky_sequence *sequence, const char *prompt, sky_time deadline_ns,
                                  sky_lookup *out) {
    uint32_t *tokens = NULL;
    size_t token_count = 0;
    if (!sequence || !prompt || !out)
        return SKY_E_PARAM;
    sky_status status = sky__engine_tokenize(sequence, prompt, &tokens, &token_count);
    if (status == SKY_OK)
        status = sky_sequence_load(sequence, tokens, token_count, deadline_ns, out);
    free(tokens);
    return status;
}

sky_status sky_sequence_save_text(sky_sequence *sequence, const char *prompt,
                                  uint32_t *saved_blocks, uint64_t *saved_bytes) {
    uint32_t *tokens = NULL;
    size_t token_count = 0;
    if (saved_blocks)
        *saved_blocks = 0;
    if (saved_bytes)
        *saved_bytes = 0;
    if (!sequence || !prompt)
        return SKY_E_PARAM;
    sky_status status = sky__engine_tokenize(sequence, prompt, &tokens, &token_count);
    if (status == SKY_OK)
        status = sky_sequence_save(sequence, tokens, token_count, saved_blocks, saved_bytes);
    free(tokens);
    return status;
}
