/* The bytes llama.cpp writes for one sequence (llama_state_seq_get_data), taken apart and put
 * together.
 *
 *   u32 magic, i32 sequence
 *   per memory part (a model with sliding windows has two: full layers, then window layers):
 *       u32 streams
 *       per stream: u32 cells; if there are any
 *           per cell: i32 position, u32 sequences = 1, i32 sequence
 *           u32 v_trans = 0, u32 layers
 *           per layer: i32 type, u64 row bytes, K rows [cell, row bytes]
 *           per layer: i32 type, u64 row bytes, V rows
 *
 * A context whose sequences share the cells has one stream; else each sequence has its own, and the
 * others have no cells here.
 *
 * Surprises: integers are the machine's own, unaligned. Cells that the window has passed are left
 * out, relative to the last position of the sequence that is asked for. Nothing in the blob says
 * which model it is of. A model may write more than this (M-RoPE cells, transposed V, indexers):
 * the parser accepts the shape above to the last byte and nothing else. */
#ifndef SKYMEM_LLAMA_STATE_BLOB_H
#define SKYMEM_LLAMA_STATE_BLOB_H

#include <skymem/engine.h>

/* Cells of one part: positions first_token, first_token + stride, … */
typedef struct {
    uint32_t first_token;
    uint32_t token_count;
    uint32_t stride; /* 1, but when probing for windows */
} blob_part;

/* What a model's state looks like; part i is group i. The layout's windows are not in the blob: the
 * owner fills them in. */
typedef struct {
    sky_layout layout;
    uint32_t row_sets;
    uint32_t streams; /* of the context; the owner says so, also for learning */
    uint32_t stream;  /* of the sequence */
} blob_shape;

/* Take `blob` apart. With `learn`, *shape is an output; else the blob must have exactly that shape.
 * Shape:  parts [SKY_LAYER_GROUPS_MAX]; rows [shape->row_sets] or NULL, in the order of sky_state
 * Owner:  rows point into the blob
 * Returns NULL, or a sentence's second half that says what is not as expected. */
const char *blob_parse(uint8_t *blob, size_t blob_bytes, bool learn, blob_shape *shape,
                       blob_part *parts, sky_tensor *rows);

/* Bytes of the blob whose part i has parts[i].token_count cells. */
size_t blob_bytes(const blob_shape *shape, const blob_part *parts);

/* Write everything but the rows, and say where they go. A part without cells is left as it is by
 * llama.cpp when it reads the blob; so parts have none only where there is one stream.
 * Shape:  blob [blob_bytes]; rows [row_sets] or NULL; NULL when a part has no cells */
void blob_compose(const blob_shape *shape, const blob_part *parts, uint8_t *blob, sky_tensor *rows);

#endif
