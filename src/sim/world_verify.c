/* Comparing the index on the ground with the memory of the satellites. Changes nothing. */
#include "sim/world.h"

typedef struct {
    const sky_session *session;
    sky_world_check *check;
} orphan_search;

static void look_for_owner(void *context, const sky_node_chunk *chunk) {
    const orphan_search *search = context;
    search->check->orphans += !sky_session_owns(search->session, &chunk->id);
}

/* Is it whole, where it is? */
static bool right(const sky_node_chunk *chunk, uint32_t bytes) {
    return chunk->bytes == bytes &&
           sky_chunk_checksum(&chunk->id, chunk->data, bytes) == chunk->facts.checksum;
}

/* How many satellites hold a chunk; *wrong is set when one of them holds something else. */
static uint32_t copies_of(const sky_world *w, const sky_chunk_id *id, uint32_t bytes, bool *wrong) {
    const sky_frame *f = sky_world_frame(w);
    uint32_t copies = 0;
    for (uint32_t i = 0; i < f->satellite_count; i++) {
        const sky_node *node = sky_world_node(w, sky_frame_satellite(f, i));
        sky_node_chunk chunk;
        if (!node || !sky_node_find(node, id, &chunk))
            continue;
        copies++;
        *wrong |= !right(&chunk, bytes);
    }
    return copies;
}

static void check_block(const sky_world *w, uint32_t block, sky_world_check *out) {
    sky_session_entry entry;
    const sky_session *session = sky_world_session(w);
    sky_session_look(session, block, &entry);
    bool wrong = false;
    for (uint32_t number = 1; number <= entry.info.chunk_count; number++) {
        sky_chunk_id id;
        sky_chunk_facts facts;
        uint32_t bytes;
        sky_session_chunk(session, block, number, &id, &facts, &bytes);
        uint32_t copies = copies_of(w, &id, bytes, &wrong);
        if (copies < out->copies_min)
            out->copies_min = copies;
        wrong |= copies == 0;
    }
    out->entries++;
    out->bytes += entry.info.payload_bytes;
    out->corrupt += wrong;
}

void sky_world_verify(const sky_world *w, sky_world_check *out) {
    *out = (sky_world_check){.copies_min = UINT32_MAX};
    const sky_index *index = sky_session_index(sky_world_session(w));
    for (uint32_t b = sky_index_next(index, 0); b != SKY_BLOCK_NONE;
         b = sky_index_next(index, b + 1))
        check_block(w, b, out);
    orphan_search search = {sky_world_session(w), out};
    const sky_frame *f = sky_world_frame(w);
    for (uint32_t i = 0; i < f->satellite_count; i++) {
        const sky_node *node = sky_world_node(w, sky_frame_satellite(f, i));
        if (node)
            sky_node_each(node, look_for_owner, &search);
    }
}
