/* Comparing the index on the ground with the memory of the satellites. Changes nothing.
 *
 *     copies  | block 0: chunk 1 2 3 … | block 1: … |        one pass over what the satellites hold
 *             ^ begins[0]              ^ begins[1]           counts; one over the index judges */
#include <stdlib.h>

#include "sim/world_state.h"

typedef struct {
    const sky_world *world;
    const sky_frame *frame;
    uint64_t turns;
    sky_time repair_from;  /* the begin of the time that copies are made again in, … */
    uint64_t repair_since; /* … in turns, … */
    uint64_t mend_since;   /* … and of that for pieces of stripes */
    const sky_session *session;
    const sky_index *index;
    uint64_t *begins; /* [blocks of the index + 1] */
    uint8_t *copies;  /* [begins[blocks]]; WRONG_BIT: one of them is wrong */
    bool sums;        /* compare checksums too */
    uint32_t servers; /* chunks of a stripe, the last may be shorter */
    uint32_t parity;
    sky_world_check *check;
} survey;

#define WRONG_BIT  0x80u
#define COPIES_MAX 0x7fu

/* Is it whole, where it is? */
static bool chunk_is_right(const sky_node_chunk *chunk, uint32_t bytes) {
    return chunk->bytes == bytes &&
           sky_chunk_checksum(&chunk->id, chunk->data, bytes) == chunk->facts.checksum;
}

static void count_chunk(void *context, const sky_node_chunk *chunk) {
    survey *s = context;
    uint32_t block = sky_index_find(s->index, &chunk->id.key);
    sky_session_entry entry = {.version = 0};
    if (block != SKY_BLOCK_NONE)
        sky_session_look(s->session, block, &entry);
    if (block == SKY_BLOCK_NONE || chunk->id.number == 0 || entry.version != chunk->id.version) {
        s->check->orphans += !sky_session_owns(s->session, &chunk->id);
        return;
    }
    if (chunk->id.number > entry.info.chunk_count) {
        s->check->orphans++;
        return;
    }
    uint8_t *copies = &s->copies[s->begins[block] + chunk->id.number - 1];
    *copies = (uint8_t)(*copies + ((*copies & COPIES_MAX) < COPIES_MAX));
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_session_chunk(s->session, block, chunk->id.number, &id, &facts, &bytes);
    if (s->sums ? !chunk_is_right(chunk, bytes) : chunk->bytes != bytes)
        *copies |= WRONG_BIT;
}

/* Do lasers lead in that turn from the satellite overhead to the place of one of its copies? */
static bool is_in_reach(const survey *s, uint32_t block, uint32_t number, uint64_t turn) {
    sky_satellite access = sky_frame_access(s->frame, turn);
    bool joined = false;
    for (uint32_t copy = 0; copy < sky_session_copies(s->session) && !joined; copy++) {
        sky_satellite home = sky_session_home_at(s->session, block, number, copy, turn);
        joined = sky_frame_joined(s->frame, access, home, turn);
    }
    return joined;
}

/* Chunks from `first` to before `end`, from 0, are one stripe: could the ground reach it all the
 * time that making pieces again may take? In an ideal sky it can. */
static bool stripe_in_reach(const survey *s, uint32_t block, uint64_t first, uint64_t end) {
    bool reached = true;
    if (sky_frame_whole(s->frame))
        return true;
    for (uint64_t turn = s->mend_since; turn <= s->turns && reached; turn++) {
        for (uint64_t i = first; i < end && reached; i++)
            reached = is_in_reach(s, block, (uint32_t)i + 1, turn);
    }
    return reached;
}

static bool is_broken(const survey *s, uint32_t block) {
    uint64_t chunks = s->begins[block + 1] - s->begins[block];
    bool broken = false;
    for (uint64_t i = 0; i < chunks && s->parity > 0; i += s->servers) {
        uint64_t end = i + s->servers < chunks ? i + s->servers : chunks;
        uint32_t lacking = 0;
        for (uint64_t k = i; k < end; k++)
            lacking += (s->copies[s->begins[block] + k] & COPIES_MAX) == 0;
        if (lacking > s->parity) /* lost, and found out when it is read */
            return false;
        broken = broken || (lacking > 0 && stripe_in_reach(s, block, i, end));
    }
    return broken;
}

/* Does the satellite hold it that the copy belongs on? */
static bool is_at_home(const survey *s, uint32_t block, uint32_t number, uint32_t copy) {
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint32_t bytes;
    sky_node_chunk found;
    sky_session_chunk(s->session, block, number, &id, &facts, &bytes);
    const sky_node *node = sky_world_node(s->world,
                                          sky_session_home(s->session, block, number, copy));
    return node && sky_node_find(node, &id, &found);
}

/* Did lasers lead, all the time that making a copy again may take, from where copy `from` belonged
 * to where copy `to` did? And did the first follow its place as the sky turned? */
static bool could_be_made(const survey *s, uint32_t block, uint32_t number, uint32_t from,
                          uint32_t to) {
    sky_satellite was = sky_session_home_at(s->session, block, number, from, s->repair_since);
    for (uint64_t turn = s->repair_since; turn <= s->turns; turn++) {
        sky_satellite giver = sky_session_home_at(s->session, block, number, from, turn);
        sky_satellite place = sky_session_home_at(s->session, block, number, to, turn);
        if (!sky_frame_joined(s->frame, was, giver, turn) ||
            !sky_frame_joined(s->frame, giver, place, turn))
            return false;
        was = giver;
    }
    return true;
}

/* Was there room for a copy all that time? None takes another chunk's room. */
static bool had_room(const survey *s, uint32_t block, uint32_t number, uint32_t copy) {
    const sky__site *site = sky__site_of(s->world,
                                         sky_session_home(s->session, block, number, copy));
    return !(site->memory && sky__is_full(&site->node)) && site->full_at < s->repair_from;
}

/* Could one who has the chunk have made this copy of it by now? */
static bool could_come(const survey *s, uint32_t block, uint32_t number, uint32_t copies,
                       uint32_t to) {
    bool could = false;
    for (uint32_t from = 0; from < copies && !could; from++)
        could = is_at_home(s, block, number, from) && could_be_made(s, block, number, from, to);
    return could;
}

/* A copy is missing for which there was room, and which could have been made: where all satellites
 * are always joined, of what is left of the chunk, which may be nothing. */
static bool copy_is_due(const survey *s, uint32_t block, uint32_t number, uint32_t there) {
    const uint32_t copies = sky_session_copies(s->session);
    bool due = false;
    for (uint32_t to = 0; to < copies && !due; to++)
        due = !is_at_home(s, block, number, to) && (there == 0 || had_room(s, block, number, to)) &&
              (sky_frame_whole(s->frame) || could_come(s, block, number, copies, to));
    return due;
}

/* Is it known why a chunk of this block has no copy, or fewer than it should? A piece of a stripe
 * that has none is made again from the others, as one, and its copies then from that. */
static bool is_explained(const survey *s, const sky_session_entry *entry, uint32_t copies) {
    const sky_world *w = s->world;
    const bool stripes = s->parity > 0;
    if (copies == 0 && stripes)
        return true;
    return (copies == 0 || stripes) && w->loss_known &&
           w->loss_known(w->loss_context, &entry->key, entry->version);
}

/* Fewer copies than there should be, although they could have been made again. Where all satellites
 * are always joined that also holds for a chunk that is gone, unless it is known why. */
static bool is_thin(const survey *s, uint32_t block, const sky_session_entry *entry,
                    uint32_t number, uint32_t copies) {
    return copies < sky_session_copies(s->session) && !is_explained(s, entry, copies) &&
           copy_is_due(s, block, number, copies);
}

static void judge_block(const survey *s, uint32_t block) {
    sky_world_check *out = s->check;
    sky_session_entry entry;
    sky_session_look(s->session, block, &entry);
    bool wrong = false;
    out->entries++;
    out->bytes += entry.info.payload_bytes;
    if (entry.adopted) /* its head's DROP was lost: of the chunks some may be no more */
        return;
    for (uint64_t i = s->begins[block]; i < s->begins[block + 1]; i++) {
        uint32_t copies = s->copies[i] & COPIES_MAX, number = (uint32_t)(i - s->begins[block]) + 1;
        if (copies == 0 && sky_session_lacks(s->session, block, number))
            continue;
        if (copies < out->copies_min)
            out->copies_min = copies;
        if (entry.info.set_ms < out->thin_set_ms && is_thin(s, block, &entry, number, copies))
            out->thin_set_ms = entry.info.set_ms;
        wrong |= copies == 0 || (s->copies[i] & WRONG_BIT);
    }
    out->corrupt += wrong;
    if (entry.info.set_ms < out->broken_set_ms && is_broken(s, block))
        out->broken_set_ms = entry.info.set_ms;
}

/* Where the counts of each block begin. */
static bool lay_out(survey *s) {
    uint32_t blocks = sky_index_capacity(s->index);
    s->begins = calloc((size_t)blocks + 1, sizeof *s->begins);
    if (!s->begins)
        return false;
    for (uint32_t b = sky_index_next(s->index, 0); b != SKY_BLOCK_NONE;
         b = sky_index_next(s->index, b + 1)) {
        sky_session_entry entry;
        sky_session_look(s->session, b, &entry);
        s->begins[b + 1] = entry.info.chunk_count;
    }
    for (uint32_t b = 0; b < blocks; b++)
        s->begins[b + 1] += s->begins[b];
    s->copies = calloc(s->begins[blocks] + 1, 1);
    return s->copies;
}

static sky_status look_over(const sky_world *w, bool sums, sky_time repair_ns, sky_time mend_ns,
                            sky_world_check *out) {
    *out = (sky_world_check){
        .copies_min = UINT32_MAX, .thin_set_ms = INT64_MAX, .broken_set_ms = INT64_MAX};
    const sky_session *session = sky_world_session(w);
    survey s = {.world = w,
                .frame = &w->frame,
                .turns = sky_turns(&w->frame.turning, w->now),
                .repair_from = w->now - repair_ns,
                .repair_since = sky_turns(&w->frame.turning, w->now - repair_ns),
                .mend_since = sky_turns(&w->frame.turning, w->now - mend_ns),
                .session = session,
                .index = sky_session_index(session),
                .sums = sums,
                .check = out,
                .servers = w->frame.placement.servers,
                .parity = w->scenario.parity};
    bool ok = lay_out(&s);
    for (uint32_t i = 0; ok && i < sky_world_alive(w); i++)
        sky_node_each(sky_world_alive_node(w, i), count_chunk, &s);
    for (uint32_t b = sky_index_next(s.index, 0); ok && b != SKY_BLOCK_NONE;
         b = sky_index_next(s.index, b + 1))
        judge_block(&s, b);
    free(s.begins);
    free(s.copies);
    return ok ? SKY_OK : SKY_E_NOMEM;
}

sky_status sky_world_verify(const sky_world *w, sky_time repair_ns, sky_time mend_ns,
                            sky_world_check *out) {
    return look_over(w, true, repair_ns, mend_ns, out);
}

void sky_world_loss_known_set(sky_world *w, sky_world_loss_known known, void *context) {
    w->loss_known = known;
    w->loss_context = context;
}

sky_status sky_world_count(const sky_world *w, sky_time repair_ns, sky_time mend_ns,
                           sky_world_check *out) {
    return look_over(w, false, repair_ns, mend_ns, out);
}
