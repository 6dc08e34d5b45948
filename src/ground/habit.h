/* When a block is used next, guessed from when it was used before.
 *
 *   uses    ·      ·        ·       ·            (now)            expected
 *   gaps     ─ g1 ─ ── g2 ── ── g3 ── ─ mean of the gaps, new ones counting a quarter ─►
 *
 * A block without a history of its own is expected after the mean gap of all blocks. Pure. */
#ifndef SKY_GROUND_HABIT_H
#define SKY_GROUND_HABIT_H

#include <stdint.h>

/* Of a block, or of all together. Zeros: never used. */
typedef struct {
    int64_t used_ms; /* wall, of the last use */
    int64_t gap_ms;  /* smoothed; 0: fewer than two uses are known */
} sky_habit;

/* The block was used now. A clock that went back counts as no time. */
void sky_habit_note(sky_habit *own, sky_habit *all, int64_t now_ms);
/* When it is used next, by its own habit or else by that of all; now_ms when neither says. */
int64_t sky_habit_next_ms(const sky_habit *own, const sky_habit *all, int64_t now_ms);

#endif
