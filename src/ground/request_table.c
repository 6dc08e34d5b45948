#include "ground/request_table.h"

#include <assert.h>
#include <stdlib.h>

#include <skymem/keys.h>

sky_status sky__requests_init(sky__request_table *t, uint32_t host_max, uint32_t own_max) {
    const sky__list none = {SKY__NONE, SKY__NONE};
    *t = (sky__request_table){.max = host_max + own_max,
                              .room_host = host_max,
                              .room_own = own_max,
                              .own_max = own_max,
                              .reading = none,
                              .storing = none,
                              .stepping = none,
                              .done = none};
    t->rows = calloc(t->max, sizeof *t->rows);
    if (!t->rows)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < t->max; i++)
        t->rows[i].next = i + 1 < t->max ? i + 1 : SKY__NONE;
    return SKY_OK;
}

void sky__requests_deinit(sky__request_table *t) {
    free(t->rows);
}

uint32_t sky__requests_take(sky__request_table *t, const sky_request *ask, bool own) {
    uint32_t request = t->free, *room = own ? &t->room_own : &t->room_host;
    if (*room == 0)
        return SKY__NONE;
    --*room;
    t->free = t->rows[request].next;
    t->rows[request] = (sky__request){.state = REQUEST_QUEUED,
                                      .next = SKY__NONE,
                                      .ask = *ask,
                                      .own = own,
                                      .put.parent_block = SKY__NONE};
    return request;
}

void sky__requests_free(sky__request_table *t, uint32_t request) {
    sky__request *r = &t->rows[request];
    ++*(r->own ? &t->room_own : &t->room_host);
    r->state = REQUEST_FREE;
    r->next = t->free;
    t->free = request;
}

/* ---- lists ---- */

static void list_append(sky__request_table *t, sky__list *list, uint32_t request) {
    t->rows[request].next = SKY__NONE;
    if (list->last == SKY__NONE)
        list->first = request;
    else
        t->rows[list->last].next = request;
    list->last = request;
}

uint32_t sky__list_take(sky__request_table *t, sky__list *list) {
    uint32_t request = list->first;
    list->first = t->rows[request].next;
    if (list->first == SKY__NONE)
        list->last = SKY__NONE;
    return request;
}

/* What a put asks or sets about its head passes by puts that wait for room. */
static sky__list *list_of(sky__request_table *t, const sky__request *r, sky__work work) {
    bool head = work == WORK_HEAD || work == WORK_HEADS || work == WORK_DECIDE;
    return sky__is_put(r) && !head ? &t->storing : &t->reading;
}

void sky__requests_line_up(sky__request_table *t, uint32_t request) {
    sky__request *r = &t->rows[request];
    r->listed = true;
    list_append(t, list_of(t, r, r->work), request);
}

void sky__requests_stand_down(sky__request_table *t, uint32_t request) {
    sky__request *r = &t->rows[request];
    sky__list *list = list_of(t, r, r->work);
    uint32_t before = SKY__NONE;
    if (!r->listed)
        return;
    r->listed = false;
    for (uint32_t i = list->first; i != request; i = t->rows[i].next)
        before = i;
    *(before == SKY__NONE ? &list->first : &t->rows[before].next) = r->next;
    if (list->last == request)
        list->last = before;
}

void sky__requests_work(sky__request_table *t, uint32_t request, sky__work work, uint32_t first,
                        uint32_t last) {
    sky__request *r = &t->rows[request];
    bool stays = r->listed && list_of(t, r, r->work) == list_of(t, r, work);
    if (!stays)
        sky__requests_stand_down(t, request);
    r->work = work;
    r->unit_next = first;
    r->unit_last = last;
    r->units_left = last - first + 1;
    r->latest = 0;
    r->spare = false;
    if (!stays)
        sky__requests_line_up(t, request);
}

void sky__requests_step(sky__request_table *t, uint32_t request, sky__step step) {
    sky__request *r = &t->rows[request];
    assert(r->step == STEP_NONE); /* twice in a list would tie it in a knot */
    r->step = step;
    if (step == STEP_END) {
        r->ran = r->state == REQUEST_RUNNING;
        r->state = REQUEST_ENDING;
        t->puts_running -= r->ran && sky__is_put(r);
    }
    list_append(t, &t->stepping, request);
}

void sky__requests_done(sky__request_table *t, uint32_t request) {
    t->rows[request].state = REQUEST_DONE;
    list_append(t, &t->done, request);
}

uint32_t sky__requests_put_of(const sky__request_table *t, const sky_key *key) {
    uint32_t left = t->puts_running;
    for (uint32_t i = 0; left > 0; i++) {
        const sky__request *r = &t->rows[i];
        if (r->state != REQUEST_RUNNING || !sky__is_put(r))
            continue;
        if (sky_key_equal(&r->ask.key, key))
            return i;
        left--;
    }
    return SKY__NONE;
}
