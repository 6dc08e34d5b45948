/* A made-up engine for the manager's tests: a real layout, rows made of hashes, and "logits" that
 * change when any row that a model would look at is not the one it should be.
 *
 * It is strict where a real engine is silent: rows outside a restored window are poisoned, what it
 * lent is poisoned at the next call, and a use of either shows in the logits. */
#ifndef SKY_MANAGER_ENGINE_FIXTURE_H
#define SKY_MANAGER_ENGINE_FIXTURE_H

#include <stdatomic.h>

#include <skymem/engine.h>

typedef struct made_up_engine {
    sky_layout layout;
    uint32_t context_tokens;
    uint8_t fingerprint; /* fills the 32 bytes */
    bool unsupported;    /* layout refuses */
    bool refuse_rows;    /* restore_end refuses once what it is given */
    bool tame;           /* rows are f16 from 1/8 to 2, which levels make smaller */
    /* NULL: rows are lent packed. Else it says where a tensor of packed rows lies in the
     * LENT_ROWS times as much memory that it has. */
    void (*arrange)(const struct made_up_engine *e, uint32_t set, sky_tensor *t);
    /* Not NULL: changes what extract and restore_begin say where rows are. */
    void (*change)(const struct made_up_engine *e, sky_state *state);
    bool advances;    /* it can compute while rows are loaded */
    bool place_fails; /* place_advanced ends SKY_E_NOMEM, once */
    /* Not NULL: called before tokens [first, first + count) are advanced; another status than
     * SKY_OK ends it so. */
    sky_status (*before_advance)(struct made_up_engine *e, uint32_t first, uint32_t count);
    void *context; /* for that */
    uint32_t extract_calls;
    uint32_t restore_calls;
    atomic_bool interrupted;

    uint32_t row_sets;
    uint32_t held_tokens;
    uint32_t window_from;
    uint32_t restoring_tokens;
    uint32_t advanced_tokens; /* since the last prefill or restore_end */
    uint64_t logits;          /* after prefill */
    uint8_t **rows;           /* [row_sets][context_tokens × row bytes] */
    uint8_t **lent;           /* [row_sets]: what the caller reads or writes */
    uint32_t *pages;          /* [context_tokens]: a permutation */
    sky_tensor *lent_rows;
} made_up_engine;

#define LENT_ROWS 4

/* As Transformers keeps them: a head after the other. */
void made_up_by_head(const made_up_engine *e, uint32_t set, sky_tensor *t);
/* As vLLM: in pages of MADE_UP_PAGE tokens, in any order, a head after the other in each, and the
 * other one of K and V between. What the table says of passed windows is nonsense. */
#define MADE_UP_PAGE 8
void made_up_paged(const made_up_engine *e, uint32_t set, sky_tensor *t);

void made_up_engine_init(made_up_engine *e, const sky_layout *layout, uint32_t context_tokens);
void made_up_engine_deinit(made_up_engine *e);
sky_engine made_up_engine_ops(made_up_engine *e);

/* Compute the rest of a prompt, of which the engine holds first_token tokens; returns the logits.
 * */
uint64_t made_up_engine_answer(made_up_engine *e, const uint32_t *tokens, uint32_t first_token,
                               uint32_t token_count);

/* full groups: one of `full` layers; window: one of `layers` layers, window tokens; 0 layers:
 * absent */
sky_layout made_up_layout(uint32_t full, uint32_t layers, uint32_t window_tokens);

#endif
