/* When what happens next: a heap of events, one per id, ordered by time and then by the order in
 * which they were set. The same calls give the same order on every machine.
 *
 *     heap   [ at, order, id ]  4 children each         position[id] ──► where in the heap, or NONE
 *
 * One event an id, moved when it is set again: nothing stale is ever popped and the heap never
 * holds more than the ids there are. */
#ifndef SKY_BASE_SCHEDULE_H
#define SKY_BASE_SCHEDULE_H

#include <skymem/types.h>

typedef struct {
    sky_time at;
    uint64_t order;
    uint32_t id;
} sky_event;

typedef struct {
    sky_event *heap;
    uint32_t *positions;
    uint32_t count;
    uint32_t id_max;
    uint64_t order;
} sky_schedule;

/* Errors: SKY_E_NOMEM */
sky_status sky_schedule_init(sky_schedule *s, uint32_t id_max);
void sky_schedule_deinit(sky_schedule *s);

/* Let `id` happen at `at`, instead of when it was to; SKY_TIME_NEVER: not at all. */
void sky_schedule_set(sky_schedule *s, uint32_t id, sky_time at);
/* SKY_TIME_NEVER when nothing is to come. */
sky_time sky_schedule_next(const sky_schedule *s);
/* Take the next event off; there must be one. */
sky_event sky_schedule_pop(sky_schedule *s);

#endif
