/* Where the cells of window layers lie, so that a restored prompt goes on with the bits of a cold
 * one.
 *
 * A cold run leaves the window layers' cells where they were computed; llama.cpp's own restore
 * packs the last W into cells 0 … W-1:
 *
 *     cold      |passed ............................|last W|free ...
 *     packed    |last W|free ...
 *     restored  |passed, any rows ......|last W|free ...
 *
 * Both are right, but attention for a single token cuts all cells into one run a thread and adds
 * the partial sums in f16. Cold, the whole window lies in the last run (once the prompt is long
 * enough); packed, it is cut in the middle, and the low bits differ from the second token on, soon
 * the greedy answer too. So as many cells as it takes are kept before the window, under a sequence
 * of their own that nobody attends to: all of them for a short prompt, and for a long one enough
 * that the last run holds the window. Usually they are there already, from the prompt before, and
 * only change their label; else they are written once, as zeros.
 *
 * All this is for a context with one slot: with several, a slot's cells have no room for another
 * sequence. There a restored prompt longer than the window goes on from packed cells. */
#include "adapter.h"

#include <stdlib.h>

/* The window lies in the last of T runs for good when W ≤ n/T - slack, n the cells up to its end:
 * n grows in steps of 256, and runs are rounded up. 64 cells are one tile of longer steps. */
uint32_t sky__llama_cells_passed(const sky_llama *llama, uint32_t token_count) {
    uint64_t window = sky__llama_window(llama), threads = llama->threads;
    if (window == 0 || token_count <= window || llama->slot_count > 1)
        return 0;
    uint64_t enough = threads * window + (threads - 1) * (256 + threads);
    enough = (enough + 63) / 64 * 64 - window;
    return token_count - window < enough ? token_count - (uint32_t)window : (uint32_t)enough;
}

/* `passed` cells for window layers and `full_tokens` for the others, all zeros. */
static sky_status take_zeros(sky_llama *llama, uint32_t full_tokens, uint32_t full_first,
                             uint32_t passed) {
    blob_part parts[SKY_LAYER_GROUPS_MAX];
    for (uint32_t g = 0; g < llama->shape.layout.group_count; g++) {
        bool window = llama->shape.layout.groups[g].kind == SKY_LAYER_WINDOW;
        parts[g] = window ? (blob_part){0, passed, 1} : (blob_part){full_first, full_tokens, 1};
    }
    uint8_t *zeros = calloc(1, blob_bytes(&llama->shape, parts));
    if (!zeros)
        return SKY_E_NOMEM;
    blob_compose(&llama->shape, parts, zeros, NULL);
    sky_status status = sky__llama_take_blob(llama, SEQ_PASSED, parts, zeros);
    free(zeros);
    return status;
}

sky_status sky__llama_pass_cells(sky_llama *llama, uint32_t passed) {
    llama_memory_t memory = llama_get_memory(llama->context);
    if (llama->lined_tokens < passed || passed == 0) {
        llama_memory_clear(memory, false);
        return passed ? take_zeros(llama, 0, 0, passed) : SKY_OK;
    }
    /* Labels go on full layers' cells too. Reading one far-off token into SEQ_PASSED there, and
     * none for window layers, takes them off again; then that token goes. */
    const uint32_t far_off = INT32_MAX - 1;
    llama_memory_seq_cp(memory, SEQ_PROMPT, SEQ_PASSED, 0, (llama_pos)passed);
    llama_memory_seq_rm(memory, SEQ_PROMPT, -1, -1);
    llama_memory_seq_rm(memory, SEQ_PASSED, (llama_pos)passed, -1);
    sky_status status = take_zeros(llama, 1, far_off, 0);
    llama_memory_seq_rm(memory, SEQ_PASSED, (llama_pos)far_off, -1);
    return status;
}
