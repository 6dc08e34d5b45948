/* An engine adapter: what SkyMemory needs of a program that runs models.
 *
 * The adapter describes and copies, nothing else; prefix matching, loading, saving and deadlines
 * are the manager's (skymem/manager.h). An engine's KV cache is seen as rows:
 *
 *   group 0 (full attention)     layer 0:  K [token, head, dim]   V [token, head, dim]
 *                                layer 1:  …
 *   group 1 (sliding window W)   layer 0:  …
 *
 * Rows are positional: row t belongs to token t of the prompt. A layer of a sliding-window group
 * needs only the last W rows to go on. A tensor for each layer's K and V describes where the rows
 * lie (skymem/tensor.h): token by token, head by head, or in pages. The stored bytes are the same,
 * so a block that was saved from one of these is restored into any other. */
#ifndef SKYMEM_ENGINE_H
#define SKYMEM_ENGINE_H

#include <skymem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SKY_LAYER_FULL = 1,      /* attends to all earlier tokens */
    SKY_LAYER_WINDOW = 2,    /* attends to the last window_tokens tokens */
    SKY_LAYER_RECURRENT = 3, /* has a state instead of rows. No such model is cached yet: the
                                manager refuses it (sky_manager_refusal), SKY_E_UNSUPPORTED */
} sky_layer_kind;

/* Layers alike, in the engine's own order. */
typedef struct {
    sky_layer_kind kind;
    uint32_t window_tokens; /* SKY_LAYER_WINDOW: W; else 0 */
    uint32_t layer_count;
    uint32_t kv_heads; /* 0 when the engine does not tell */
    sky_element k_element;
    sky_element v_element;
    uint32_t k_row_bytes; /* kv_heads × head_dim × element size */
    uint32_t v_row_bytes;
} sky_layer_group;

#define SKY_LAYER_GROUPS_MAX 8

/* All layers of a model, or of this process's part of it. */
typedef struct {
    uint32_t group_count;
    sky_layer_group groups[SKY_LAYER_GROUPS_MAX];
    uint32_t shard_rank;  /* of a model that several processes share, tensor or pipeline parallel:
                             which part this is, 0 … shard_count - 1. Its blocks are not another
                             part's */
    uint32_t shard_count; /* 0 or 1: it is not shared */
} sky_layout;

/* All layers of a layout, in the order (group, layer, K then V). A tensor's element is its group's,
 * heads × dim fill the group's row, and a head's elements are contiguous. The engine must ensure
 * that no two tensors share bytes. */
typedef struct {
    sky_tensor *tensors; /* [sum of layer_count over groups × 2] */
    size_t tensor_count;
} sky_state;

/* Packed rows of one layer of a group, each as one head. */
static inline sky_tensor sky_layer_packed(const sky_layer_group *group, sky_kv kv, void *data,
                                          uint32_t first_token, uint32_t token_count) {
    sky_element element = kv == SKY_KV_V ? group->v_element : group->k_element;
    uint32_t row_bytes = kv == SKY_KV_V ? group->v_row_bytes : group->k_row_bytes;
    return sky_tensor_packed(data, element, 1, row_bytes / sky_element_bytes(element), first_token,
                             token_count);
}

/* Functions of an adapter; `self` is its own. None may be NULL but the last three. The manager
 * calls them on the thread of its caller, one at a time, but for interrupt. A status that is
 * neither SKY_OK nor an error of skymem/status.h counts as SKY_E_IO. */
typedef struct {
    /* 32 bytes that change with anything that would make stored KV wrong: content of the weights,
     * tokenizer, rope, KV types, attention settings, adapter format. */
    void (*fingerprint)(void *self, uint8_t out[32]);

    /* Errors: SKY_E_UNSUPPORTED: this model's state cannot be cut into blocks; `error` says why.
     *         The manager then answers every prompt uncached. */
    sky_status (*layout)(void *self, sky_layout *out, sky_error *error);

    /* Tokens of a text, special tokens as the model wants them at the start of a prompt.
     * Errors: SKY_E_DST_SMALL, *token_count tells how many there are: more than token_count_max. A
     *         *token_count that contradicts the status counts as SKY_E_CORRUPT */
    sky_status (*tokenize)(void *self, const char *text, size_t text_bytes, uint32_t *tokens,
                           size_t token_count_max, size_t *token_count);

    /* Rows [first_token, first_token + token_count) of every layer, as the engine holds them now.
     * Window layers too: the caller asks for at most what is still in the window. The rows handed
     * out may begin before the first that was asked for, and end after the last: first_token and
     * token_count of each tensor say so.
     * Owner:  out->tensors is the caller's, its size checked; bytes and page tables are the
     *         engine's, valid until the next call
     * Errors: SKY_E_PARAM (not held), SKY_E_NOMEM. What does not hold all rows asked for, another
     *         number of tensors, one that is none (sky_tensor_check) or not of its group count as
     *         SKY_E_CORRUPT: nothing is saved of it */
    sky_status (*extract)(void *self, uint32_t first_token, uint32_t token_count, sky_state *out);

    /* Prepare to take a prefix of token_count tokens and say where its rows go: all of them for
     * full layers, the last min(W, token_count) for window layers. The state before is dropped. A
     * tensor may have room for more rows, which are not written.
     * Owner:  as extract: the caller writes the rows, then calls restore_end
     * Errors: SKY_E_FULL (longer than the context), SKY_E_NOMEM. What has no room for all these
     *         rows and what extract must not hand out either count as SKY_E_CORRUPT: nothing is
     *         written there, and the prompt is computed */
    sky_status (*restore_begin)(void *self, uint32_t token_count, sky_state *out);
    /* commit: the rows are all written, go on from there. Otherwise: forget it, the state is empty;
     * without a restore_begin before it too.
     * Errors: SKY_E_CORRUPT when the engine refuses the rows; its state is then empty */
    sky_status (*restore_end)(void *self, bool commit);

    /* Compute tokens [first_token, first_token + token_count) on top of what the engine holds, and
     * drop any state beyond first_token. tokens[0] is the first new one, number first_token. Logits
     * of the last token are then the engine's to give.
     * Errors: SKY_E_FULL (longer than the context), SKY_E_CANCELLED, SKY_E_IO */
    sky_status (*prefill)(void *self, const uint32_t *tokens, uint32_t first_token,
                          uint32_t token_count);

    /* ---- computing while rows are loaded: all three, or all NULL, and then the manager computes
     * nothing itself ----
     *
     * Between restore_begin and restore_end the manager may have the head of the prompt computed
     * while rows of later tokens are written where restore_begin said:
     *
     *     restore_begin(n)   advance [0, a), [a, b), …   place_advanced(b)   restore_end
     *                        rows of [b, n) are written
     *
     * When not all rows came, restore_begin(m) follows advance, with b <= m < n: the rows of
     * [b, m) are written again, and what advance has computed is still there for place_advanced. */

    /* Compute tokens [first_token, first_token + token_count): from 0, or from where the last call
     * ended. No logits are asked for. The rows must be, to the bit, those that one prefill of the
     * whole prompt from token 0 gives. What restore_begin handed out must not be touched, as
     * another thread is writing there.
     * Errors: SKY_E_CANCELLED (interrupted: what was held before this call is held still),
     *         SKY_E_UNSUPPORTED (steps of this size have other bits), SKY_E_FULL, SKY_E_IO. After
     *         an error the rest is loaded */
    sky_status (*advance)(void *self, const uint32_t *tokens, uint32_t first_token,
                          uint32_t token_count);
    /* From any thread, also when none is under way: advance ends soon, SKY_E_CANCELLED, and so does
     * every later one until the next restore_begin. Nothing else is interrupted. */
    void (*interrupt)(void *self);
    /* Write the rows of tokens [0, token_count), which advance has computed, where the last
     * restore_begin said, as far as it has room for them: of window layers those that a prefix of
     * its length needs. restore_end then takes them as it takes the others.
     * Errors: SKY_E_PARAM (advance has computed another number), SKY_E_NOMEM */
    sky_status (*place_advanced)(void *self, uint32_t token_count);
} sky_engine_ops;

/* An adapter: its functions and its own state. */
typedef struct {
    const sky_engine_ops *ops;
    void *self;
} sky_engine;

#ifdef __cplusplus
}
#endif
#endif
