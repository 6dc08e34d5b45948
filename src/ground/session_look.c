/* What the session tells of itself and of the blocks it knows. */
#include "ground/session_state.h"

bool sky_session_settled(const sky_session *s, bool *told) {
    bool down = sky__is_down(&s->scheduler); /* nobody hears what is left to say */
    *told = s->bulk.sent && !down;
    return down || (s->bulk.count == 0 && s->repairs_open == 0 &&
                    s->requests.room_own == s->requests.own_max);
}

void sky_session_stats(const sky_session *s, sky_session_stat *out) {
    *out = s->core.stat;
}

const sky_index *sky_session_index(const sky_session *s) {
    return s->blocks.index;
}

uint32_t sky_session_suspicion(const sky_session *s, sky_satellite satellite, uint32_t *silent) {
    const sky__suspicion *p = &s->scheduler
                                   .suspicions[sky_frame_number(s->core.config.frame, satellite)];
    *silent = p->silent;
    return p->wrong;
}

void sky_session_look(const sky_session *s, uint32_t block, sky_session_entry *out) {
    const sky__block_row *row = &s->blocks.rows[block];
    *out = (sky_session_entry){.key = row->key,
                               .version = row->version,
                               .hits = row->hits,
                               .expires_ms = row->expires_ms,
                               .pinned = row->pinned,
                               .adopted = row->adopted};
    sky_index_info(s->blocks.index, block, &out->info);
    uint64_t set = sky_turns_at_ms(&s->core.config.frame->turning, out->info.set_ms);
    uint64_t now = sky__rotations(&s->core);
    out->turns = now > set ? now - set : 0;
}

bool sky_session_owns(const sky_session *s, const sky_chunk_id *id) {
    uint32_t block = sky_index_find(s->blocks.index, &id->key);
    uint64_t version = 0;
    if (block != SKY_BLOCK_NONE)
        version = id->number ? s->blocks.rows[block].version : s->blocks.rows[block].head_version;
    if (version && version == id->version)
        return true;
    for (uint32_t i = 0; i < s->requests.max; i++) {
        const sky__request *r = &s->requests.rows[i];
        if (r->state == REQUEST_RUNNING && r->ask.op == SKY_OP_PUT &&
            id->version == (id->number ? r->of.id.version : r->head_version))
            return true;
    }
    return false;
}

void sky_session_chunk(const sky_session *s, uint32_t block, uint32_t number, sky_chunk_id *id,
                       sky_chunk_facts *facts, uint32_t *bytes) {
    sky_block_info info;
    sky_index_info(s->blocks.index, block, &info);
    *id = (sky_chunk_id){s->blocks.rows[block].key, s->blocks.rows[block].version, number};
    *facts = sky__block_facts(&s->core, &info, s->blocks.rows[block].pinned);
    sky__facts_of(&s->core, facts, number, 0);
    *bytes = sky__chunk_length(&s->core, info.payload_bytes, number);
}

uint32_t sky_session_copies(const sky_session *s) {
    return s->core.config.replicas;
}

sky_satellite sky_session_home_at(const sky_session *s, uint32_t block, uint32_t number,
                                  uint32_t copy, uint64_t turns) {
    sky_block_info info;
    sky_index_info(s->blocks.index, block, &info);
    sky_chunk_facts facts = sky__block_facts(&s->core, &info, false);
    sky__facts_of(&s->core, &facts, number, copy);
    return sky_session_place(s, &facts, turns);
}

sky_satellite sky_session_home(const sky_session *s, uint32_t block, uint32_t number,
                               uint32_t copy) {
    return sky_session_home_at(s, block, number, copy, sky__rotations(&s->core));
}

sky_satellite sky_session_place(const sky_session *s, const sky_chunk_facts *facts,
                                uint64_t turns) {
    const sky_frame *f = s->core.config.frame;
    return sky_chunk_place(&f->constellation, &f->turning, facts, turns);
}

uint64_t sky_session_bytes_max(const sky_session *s) {
    return sky__blocks_bytes_max(&s->blocks);
}

bool sky_session_holdable(const sky_session *s, uint32_t payload_bytes) {
    uint32_t data_chunks = sky__data_chunks(&s->core, payload_bytes);
    const sky_block_info info = {.payload_bytes = payload_bytes,
                                 .chunk_count = sky_stripes_chunks(&s->core.stripes, data_chunks)};
    return sky__blocks_holdable(&s->blocks, &info);
}

uint32_t sky_session_silent(const sky_session *s, sky_satellite *one) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->core.config.frame->satellite_count; i++) {
        sky_satellite satellite = sky_frame_satellite(s->core.config.frame, i);
        if (sky__is_silent(&s->scheduler, satellite) && count++ == 0)
            *one = satellite;
    }
    return count;
}
