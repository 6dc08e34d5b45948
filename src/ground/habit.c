#include "ground/habit.h"

#define NEW_PART 4 /* a new gap counts one part of so many */

static void smooth_gap(int64_t *mean, int64_t gap) {
    *mean = *mean == 0 ? gap : *mean + (gap - *mean) / NEW_PART;
}

void sky_habit_note(sky_habit *own, sky_habit *all, int64_t now_ms) {
    int64_t gap = now_ms - own->used_ms;
    if (own->used_ms != 0 && gap > 0) {
        smooth_gap(&own->gap_ms, gap);
        smooth_gap(&all->gap_ms, gap);
    }
    own->used_ms = now_ms;
}

int64_t sky_habit_next_ms(const sky_habit *own, const sky_habit *all, int64_t now_ms) {
    int64_t gap = own->gap_ms ? own->gap_ms : all->gap_ms;
    return now_ms <= INT64_MAX - gap ? now_ms + gap : INT64_MAX;
}
