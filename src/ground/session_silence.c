/* Satellites that do not answer. Each is waited for once, not by every request: whoever was waited
 * for SILENT_ROW times in a row, with more requests than the links' losses explain, counts as
 * silent for a while, until it says anything.
 *
 *   asked of two or more   the next copy after one more try; of the silent last from then on
 *   of the silent alone    given up after one more try: somebody waits for it. What is put too,
 *                          when there is nowhere else for it: its caller soon hears that it is not
 *   where else it may be   asked first: who cannot hand a chunk over to the silent keeps it
 *   put                    goes without what the silent would have had, as long as what the others
 *                          have is still the whole block
 *
 * Surprise: what a put goes without is kept by server and not by satellite, as the sky may turn
 * while it is under way; and with the put, as the silent may speak again. */
#include <string.h>

#include "ground/session_state.h"

#define SILENT_ROW 4
#define ASKED_MAX  3 /* unanswered, of the silent: about five times its wait */
#define SILENT_NS  SKY_SECONDS(30)

/* ---- who is silent ---- */

void sky__suspect(sky_session *s, sky_satellite satellite) {
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->config.frame, satellite)];
    s->stat.suspects += p->wrong == 0;
    p->wrong++;
}

/* Of requests that waited at the same time, one counts as a wait. */
void sky__unanswered(sky_session *s, const sky__operation *o) {
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->config.frame, o->to)];
    p->silent++;
    p->unheard++;
    if (p->row > 0 && o->sent < p->silent_at)
        return;
    p->row++;
    p->silent_at = s->now;
}

void sky__answered(sky_session *s, sky_satellite satellite) {
    const sky_constellation *c = &s->config.frame->constellation;
    if (satellite.plane < 1 || satellite.plane > c->planes || satellite.slot < 1 ||
        satellite.slot > c->slots)
        return;
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->config.frame, satellite)];
    p->row = p->unheard = 0;
    s->heard = true;
}

static bool is_silent(const sky_session *s, sky_satellite satellite) {
    const sky__suspicion *p = &s->suspicions[sky_frame_number(s->config.frame, satellite)];
    return p->row >= SILENT_ROW && s->now < p->silent_at + SILENT_NS &&
           p->unheard >= sky__silent_requests(s);
}

uint32_t sky_session_silent(const sky_session *s, sky_satellite *one) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->config.frame->satellite_count; i++) {
        sky_satellite satellite = sky_frame_satellite(s->config.frame, i);
        if (is_silent(s, satellite) && count++ == 0)
            *one = satellite;
    }
    return count;
}

/* ---- what is asked for ---- */

static bool sets(const sky__operation *o) {
    return o->work == WORK_SET || o->work == WORK_HEAD || o->work == WORK_REHEAD;
}

uint32_t sky__places_to_ask(const sky_session *s, sky_time now, const sky__operation *o,
                            sky_satellite places[SKY__PLACES_MAX]) {
    uint32_t count = sky__operation_places(s, now, o, places), spoke = 0;
    for (uint32_t i = 0; i < count && !sets(o); i++) {
        sky_satellite place = places[i];
        if (is_silent(s, place))
            continue;
        memmove(places + spoke + 1, places + spoke, (i - spoke) * sizeof *places);
        places[spoke++] = place;
    }
    return count;
}

sky_satellite sky__place_to_ask(const sky_session *s, sky_time now, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    (void)sky__places_to_ask(s, now, o, places);
    return places[0];
}

bool sky__hides(const sky_session *s, sky_time now, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__operation_places(s, now, o, places);
    for (uint32_t i = 0; i < count; i++) {
        if (is_silent(s, places[i]))
            return true;
    }
    return false;
}

static uint32_t copies_of(const sky_session *s, const sky__operation *o) {
    return o->number == 0 ? s->head_copies : s->config.replicas;
}

bool sky__rather_another(const sky_session *s, const sky__operation *o, sky_satellite to) {
    return o->copies_asked + 1 < copies_of(s, o) && is_silent(s, to);
}

sky_satellite sky__copy_first(const sky_session *s, sky_time now, sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t copies = copies_of(s, o);
    for (o->copy = 0; o->copy < copies; o->copy++) {
        (void)sky__operation_places(s, now, o, places);
        if (!is_silent(s, places[0]))
            return places[0];
    }
    o->copy = 0; /* who has it is silent, whichever it is */
    return sky__place_to_ask(s, now, o);
}

bool sky__copy_next(sky_session *s, sky_time now, sky__operation *o) {
    uint32_t copies = copies_of(s, o);
    if (o->copies_asked + 1 >= copies)
        return false;
    o->copies_asked++;
    o->copy = (o->copy + 1) % copies;
    o->misses = o->corrupt = o->unanswered = o->elsewhere = 0;
    o->to = sky__place_to_ask(s, now, o);
    s->stat.other_copies++;
    return true;
}

/* In a gap of a true sky nobody can answer. */
static bool was_in_sight(const sky_session *s, const sky__operation *o) {
    return sky_frame_in_sight(s->config.frame, sky__turns(s, o->sent));
}

void sky__ask_again_at(const sky_session *s, sky_time now, sky__operation *o) {
    sky_satellite next = sky__place_to_ask(s, now, o);
    if (!sky_satellite_equal(next, o->to) && is_silent(s, o->to) && was_in_sight(s, o))
        o->elsewhere = o->unanswered;
    o->to = next;
}

uint32_t sky__attempts_max(const sky_session *s, sky_time now, const sky__operation *o) {
    uint32_t most = s->config.retries_max + SKY__PATIENT_ATTEMPTS;
    bool asks = o->work == WORK_GET || o->work == WORK_PIECE || o->work == WORK_LOOK;
    if (asks && o->copies_asked + 1 < copies_of(s, o))
        return most > 1 ? 1 : most;
    bool all_silent = is_silent(s, o->to) && is_silent(s, sky__place_to_ask(s, now, o));
    if (all_silent && most > ASKED_MAX && was_in_sight(s, o))
        return ASKED_MAX;
    return most;
}

/* ---- what a put goes without ---- */

static bool is_absent(const sky__absent *a, uint32_t server) {
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->servers[i] == server)
            return true;
    }
    return false;
}

bool sky_session_lacks(const sky_session *s, uint32_t block, uint32_t number) {
    bool all = true;
    for (uint32_t copy = 0; copy < s->config.replicas; copy++)
        all &= is_absent(&s->sides[block].absent, sky__server_of(s, number, copy));
    return all;
}

static bool heads_left(const sky_session *s, const sky__request *r, uint32_t copy) {
    return (r->heads_absent | 1u << copy) != (1u << s->head_copies) - 1;
}

/* Without this server: does each stripe have enough, or the chunk another copy? */
static bool chunks_left(const sky_session *s, const sky__absent *a, uint32_t number,
                        uint32_t server) {
    bool fresh = !is_absent(a, server);
    if (fresh && a->count == SKY__ABSENT_MAX)
        return false;
    if (a->count + fresh <= s->stripes.parity)
        return true;
    for (uint32_t copy = 0; copy < s->config.replicas; copy++) {
        uint32_t other = sky__server_of(s, number, copy);
        if (other != server && !is_absent(a, other))
            return true;
    }
    return false;
}

bool sky__goes_without(sky_session *s, const sky__operation *o) {
    sky__request *r = &s->requests[o->request];
    if (!is_silent(s, o->to))
        return false;
    if (o->work == WORK_HEAD || o->work == WORK_REHEAD) {
        bool left = heads_left(s, r, o->copy);
        r->heads_absent |= left ? 1u << o->copy : 0;
        return left;
    }
    if (o->work != WORK_SET)
        return false;
    uint32_t server = sky__server_of(s, o->number, o->copy);
    if (!chunks_left(s, &r->absent, o->number, server))
        return false;
    if (!is_absent(&r->absent, server))
        r->absent.servers[r->absent.count++] = server;
    return true;
}
