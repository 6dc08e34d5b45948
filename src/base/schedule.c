/* A 4-ary heap with positions: half the levels of a binary one, and a level's children share a
 * cache line. */
#include "base/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

sky_status sky_schedule_init(sky_schedule *s, uint32_t id_max) {
    sky_schedule made = {.id_max = id_max};
    made.heap = calloc(id_max, sizeof *made.heap);
    made.positions = malloc(id_max * sizeof *made.positions);
    if (!made.heap || !made.positions) {
        sky_schedule_deinit(&made);
        return SKY_E_NOMEM;
    }
    memset(made.positions, 0xff, id_max * sizeof *made.positions);
    *s = made;
    return SKY_OK;
}

void sky_schedule_deinit(sky_schedule *s) {
    free(s->heap);
    free(s->positions);
    memset(s, 0, sizeof *s);
}

static bool event_is_before(const sky_event *a, const sky_event *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void event_place(sky_schedule *s, uint32_t at, sky_event e) {
    s->heap[at] = e;
    s->positions[e.id] = at;
}

static void event_rise(sky_schedule *s, uint32_t at, sky_event e) {
    while (at > 0) {
        uint32_t parent = (at - 1) / 4;
        if (!event_is_before(&e, &s->heap[parent]))
            break;
        event_place(s, at, s->heap[parent]);
        at = parent;
    }
    event_place(s, at, e);
}

static void event_sink(sky_schedule *s, uint32_t at, sky_event e) {
    for (;;) {
        uint32_t child = 4 * at + 1;
        if (child >= s->count)
            break;
        uint32_t end = child + 4 < s->count ? child + 4 : s->count;
        for (uint32_t i = child + 1; i < end; i++) {
            if (event_is_before(&s->heap[i], &s->heap[child]))
                child = i;
        }
        if (!event_is_before(&s->heap[child], &e))
            break;
        event_place(s, at, s->heap[child]);
        at = child;
    }
    event_place(s, at, e);
}

/* Put `e` where there is a hole. */
static void hole_fill(sky_schedule *s, uint32_t hole, sky_event e) {
    if (hole > 0 && event_is_before(&e, &s->heap[(hole - 1) / 4]))
        event_rise(s, hole, e);
    else
        event_sink(s, hole, e);
}

static void event_cut(sky_schedule *s, uint32_t at) {
    s->positions[s->heap[at].id] = NOWHERE;
    sky_event last = s->heap[--s->count];
    if (at < s->count)
        hole_fill(s, at, last);
}

void sky_schedule_set(sky_schedule *s, uint32_t id, sky_time at) {
    assert(id < s->id_max);
    uint32_t position = s->positions[id];
    if (at == SKY_TIME_NEVER) {
        if (position != NOWHERE)
            event_cut(s, position);
        return;
    }
    if (position == NOWHERE)
        event_rise(s, s->count++, (sky_event){at, s->order++, id});
    else if (s->heap[position].at != at)
        hole_fill(s, position, (sky_event){at, s->order++, id});
}

sky_time sky_schedule_next(const sky_schedule *s) {
    return s->count > 0 ? s->heap[0].at : SKY_TIME_NEVER;
}

sky_event sky_schedule_pop(sky_schedule *s) {
    assert(s->count > 0);
    sky_event first = s->heap[0];
    event_cut(s, 0);
    return first;
}
