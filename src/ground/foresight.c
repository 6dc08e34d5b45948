/* Placement that foresees: a block waits where the sky will be when it is used next.
 *
 *   put ──► around the centre of (now + the gap usual for all blocks)
 *   get ──► its habit is noted ──► MOVE to around the centre of (now + its own gap)
 *
 * Nothing follows the window as the sky turns, so a block that nobody asks for costs nothing. A
 * block that is asked for at another time than expected is reached through the satellite overhead,
 * over as many links as the guess was off.
 *
 * Surprise: the moves are requests like those of a host, without a host, and with room of their
 * own. Where there is none the block stays where it is, and the next get of it tries again.
 *
 * Source: SkyMemory, "Chunk to Server Mapping": the satellites in sight at a future time are known,
 * so what is predicted to be hit then can be made available on them. */
#include "ground/session_state.h"

static const sky_strategy_row *row_of(const sky_session *s) {
    return sky_strategy_row_of(s->core.config.frame->placement.strategy);
}

sky_satellite sky__foresee_centre(const sky_session *s, int64_t now_ms) {
    static const sky_habit unknown;
    const sky_frame *f = s->core.config.frame;
    int64_t then = now_ms;
    if (row_of(s)->foresees)
        then = sky_habit_next_ms(&unknown, &s->blocks.habit, now_ms);
    return sky_frame_centre(f, sky_turns_at_ms(&f->turning, then));
}

void sky__foresee_next(sky_session *s, uint32_t block) {
    if (!row_of(s)->foresees)
        return;
    sky__block_row *row = &s->blocks.rows[block];
    int64_t now_ms = sky__calendar_ms(&s->core);
    sky_habit_note(&row->habit, &s->blocks.habit, now_ms);
    const sky_request move = {.op = SKY_OP_PREFETCH,
                              .key = row->key,
                              .wall_ms = INT64_MIN, /* it was there just now */
                              .at_ms = sky_habit_next_ms(&row->habit, &s->blocks.habit, now_ms)};
    sky__submit_own(s, &move);
}
