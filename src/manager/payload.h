/* The payload of a block of KV: a header that describes itself, then the rows.
 *
 *   | header | full group: layer 0 K rows, V rows, layer 1 … | window group: layer 0 K rows, V rows
 *   … | '---------------- leading: all that an older block is read for -----'
 *
 * Rows of one layer's K (or V) are a section: [token, row_bytes], nothing between. Sections stand
 * in stored order: full-attention groups first, then window groups, each layer by layer, K before
 * V. So what a restore needs of a block outside the window is one leading range.
 *
 * Surprises: the header's size depends only on the layout, so every range is known before anything
 * is read; the section table repeats what the layout implies, for readers that know no more than
 * the format, and a table that says anything else is damage. Format: docs/formats/block.md. */
#ifndef SKY_MANAGER_PAYLOAD_H
#define SKY_MANAGER_PAYLOAD_H

#include <skymem/engine.h>

#define SKY_PAYLOAD_MAGIC   0x42564b53u /* "SKVB" */
#define SKY_PAYLOAD_VERSION 1

/* What follows from a layout and a block's length. Invariants: group_offset[g] is where the first
 * section of group g (in the layout's order) starts; the sections fill [header_bytes,
 * payload_bytes). */
typedef struct {
    sky_layout layout;
    uint32_t token_count;
    uint32_t header_bytes;
    uint32_t payload_bytes;
    uint32_t row_sets; /* layers × 2 */
    uint32_t group_offset[SKY_LAYER_GROUPS_MAX];
    uint8_t stored_order[SKY_LAYER_GROUPS_MAX]; /* groups in the order their sections are stored */
} sky_payload;

typedef struct {
    uint32_t group;
    uint32_t layer; /* within the group */
    bool is_v;
    uint32_t row_set; /* index into sky_state.tensors */
    uint32_t row_bytes;
    uint32_t offset; /* in the payload */
    uint32_t bytes;  /* token_count × row_bytes */
} sky_payload_section;

/* Errors: SKY_E_PARAM: a member out of range; `why` (NULL is fine) names it; SKY_E_UNSUPPORTED: a
 *         recurrent group */
sky_status sky_layout_check(const sky_layout *layout, sky_error *why);

/* Errors: SKY_E_PARAM: no valid layout, no tokens or more than SKY_BLOCK_TOKENS_MAX, or a payload
 *         of more than SKY_PAYLOAD_BYTES_MAX */
sky_status sky_payload_init(sky_payload *payload, const sky_layout *layout, uint32_t token_count);

/* Where the sections of window groups begin: payload_bytes when there are none. */
uint32_t sky_payload_lead_bytes(const sky_payload *payload);
/* Tokens of the longest window, 0: there is none. */
uint32_t sky_payload_window_tokens(const sky_payload *payload);

/* The i-th section in stored order, i < row_sets. */
sky_payload_section sky_payload_section_at(const sky_payload *payload, uint32_t i);

/* Shape:  out [header_bytes] */
void sky_payload_header_write(const sky_payload *payload, uint32_t first_token, uint8_t *out);

/* Read a header nobody vouches for. `bytes` may reach past it, into the rows.
 * Errors: SKY_E_CORRUPT, SKY_E_UNSUPPORTED (a later version) */
sky_status sky_payload_header_read(const void *data, size_t bytes, sky_payload *payload,
                                   uint32_t *first_token);

/* Is this the header of exactly this payload, for the block that starts at first_token?
 * Shape:  header [payload->header_bytes]
 * Errors: SKY_E_CORRUPT */
sky_status sky_payload_header_check(const sky_payload *payload, uint32_t first_token,
                                    const uint8_t *header);

#endif
