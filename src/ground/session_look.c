/* What the session tells of itself and of the blocks it knows. */
#include "ground/session_state.h"

bool sky_session_settled(const sky_session *s, bool *told) {
    *told = s->told;
    return s->row_count == 0 && s->repairs_open == 0 && s->room_own == s->own_max;
}

void sky_session_stats(const sky_session *s, sky_session_stat *out) {
    *out = s->stat;
}

const sky_index *sky_session_index(const sky_session *s) {
    return s->index;
}

uint32_t sky_session_suspicion(const sky_session *s, sky_satellite satellite, uint32_t *silent) {
    const sky__suspicion *p = &s->suspicions[sky_frame_number(s->config.frame, satellite)];
    *silent = p->silent;
    return p->wrong;
}

void sky_session_look(const sky_session *s, uint32_t block, sky_session_entry *out) {
    const sky__side *side = &s->sides[block];
    *out = (sky_session_entry){.key = side->key,
                               .version = side->version,
                               .hits = side->hits,
                               .expires_ms = side->expires_ms,
                               .pinned = side->pinned,
                               .adopted = side->adopted};
    sky_index_info(s->index, block, &out->info);
    uint64_t set = sky_turns_at_ms(&s->config.frame->turning, out->info.set_ms);
    uint64_t now = sky__turns(s, s->now);
    out->turns = now > set ? now - set : 0;
}

bool sky_session_owns(const sky_session *s, const sky_chunk_id *id) {
    uint32_t block = sky_index_find(s->index, &id->key);
    uint64_t version = 0;
    if (block != SKY_BLOCK_NONE)
        version = id->number ? s->sides[block].version : s->sides[block].head_version;
    if (version && version == id->version)
        return true;
    for (uint32_t i = 0; i < s->config.requests_max; i++) {
        const sky__request *r = &s->requests[i];
        if (r->state == REQUEST_RUNNING && r->ask.op == SKY_OP_PUT &&
            id->version == (id->number ? r->id.version : r->head_version))
            return true;
    }
    return false;
}

void sky_session_chunk(const sky_session *s, uint32_t block, uint32_t number, sky_chunk_id *id,
                       sky_chunk_facts *facts, uint32_t *bytes) {
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    *id = (sky_chunk_id){s->sides[block].key, s->sides[block].version, number};
    *facts = sky__block_facts(s, &info, s->sides[block].pinned);
    sky__facts_of(s, facts, number, 0);
    *bytes = sky__chunk_length(s, info.payload_bytes, number);
}

uint32_t sky_session_copies(const sky_session *s) {
    return s->config.replicas;
}

sky_satellite sky_session_home(const sky_session *s, uint32_t block, uint32_t number,
                               uint32_t copy) {
    sky_block_info info;
    sky_index_info(s->index, block, &info);
    sky_chunk_facts facts = sky__block_facts(s, &info, false);
    sky__facts_of(s, &facts, number, copy);
    return sky_session_place(s, &facts, sky__turns(s, s->now));
}

sky_satellite sky_session_place(const sky_session *s, const sky_chunk_facts *facts,
                                uint64_t turns) {
    const sky_frame *f = s->config.frame;
    return sky_chunk_place(&f->constellation, &f->turning, facts, turns);
}

bool sky_session_place_before(const sky_session *s, const sky_chunk_facts *facts, uint64_t turns,
                              sky_satellite *out) {
    const sky_frame *f = s->config.frame;
    return sky_chunk_place_before(&f->constellation, &f->turning, facts, turns, out);
}
