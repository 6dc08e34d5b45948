/* Satellites that do not answer. Each is waited for once, not by every request: a satellite that
 * was waited for SILENT_ROW times in a row, with more requests than the links' losses explain, and
 * for the time of two round trips to the farthest, counts as silent for a while, until it says
 * anything.
 *
 *   asked of two or more   the next copy after the first wait in vain, and round again; the first
 *                          answer from any of them counts
 *   of the silent alone    given up at once, but for one request a second that tries: a caller
 *                          waits for it. What is put, when there is nowhere else for it, after one
 *                          wait
 *   where else it may be   asked first: who cannot hand a chunk over to the silent keeps it
 *   put                    goes without what the silent would have had, as long as what the others
 *                          have is still the whole block. Once a second it tries one chunk there:
 *                          a satellite that was only slow takes the others
 *
 * Surprise: what a put goes without is kept by server and not by satellite, as the sky may turn
 * while it is under way; and with the put, as the silent may speak again. */
#include <string.h>

#include "ground/session_state.h"

#define SILENT_ROW   4
#define UNHEARD_ROW  2 /* where nobody else is heard either */
#define SPARE_WAITS  3 /* for what can be done without, */
#define SPARE_PAUSES 2 /* and so many of the host's guesses */
#define LOSSES_MAX   3 /* unanswered, of the silent, where the links lose much */
#define SILENT_NS    SKY_SECONDS(30)
#define PROBE_NS     SKY_SECONDS(1)
#define PROBE_PART   4 /* of the time of silence: what comes meanwhile goes with it */

/* ---- who is silent ---- */

void sky__suspect(sky_session *s, sky_satellite satellite) {
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->core.config.frame, satellite)];
    s->core.stat.suspects += p->wrong == 0;
    p->wrong++;
}

/* Of requests that waited at the same time, one counts as a wait. */
void sky__unanswered(sky_session *s, const sky__operation *o) {
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->core.config.frame, o->to)];
    p->silent++;
    p->unheard++;
    if (p->row > 0 && o->sent < p->silent_at)
        return;
    if (p->row++ == 0)
        p->silent_since = o->sent;
    p->silent_at = s->core.now;
}

void sky__answered(sky_session *s, sky_satellite satellite) {
    const sky_constellation *c = &s->core.config.frame->constellation;
    if (satellite.plane < 1 || satellite.plane > c->planes || satellite.slot < 1 ||
        satellite.slot > c->slots)
        return;
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->core.config.frame, satellite)];
    p->row = p->unheard = 0;
    s->answered_at = s->core.now;
}

bool sky__is_silent(const sky_session *s, sky_satellite satellite) {
    const sky__suspicion *p = &s->suspicions[sky_frame_number(s->core.config.frame, satellite)];
    uint32_t row = s->answered_at < p->silent_since ? UNHEARD_ROW : SILENT_ROW;
    return p->row >= row && s->core.now < p->silent_at + SILENT_NS &&
           p->unheard >= sky__silent_requests(&s->core) &&
           p->silent_at - p->silent_since >= sky__silence_ns(s);
}

bool sky__may_ask(sky_session *s, sky_satellite satellite, bool alone) {
    sky__suspicion *p = &s->suspicions[sky_frame_number(s->core.config.frame, satellite)];
    if (!sky__is_silent(s, satellite))
        return true;
    bool first = s->core.now >= p->probe_at;
    if (first)
        p->probe_at = s->core.now + PROBE_NS;
    return first ||
           (!alone && s->core.now <= p->probe_at - PROBE_NS + sky__silence_ns(s) / PROBE_PART);
}

uint32_t sky_session_silent(const sky_session *s, sky_satellite *one) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->core.config.frame->satellite_count; i++) {
        sky_satellite satellite = sky_frame_satellite(s->core.config.frame, i);
        if (sky__is_silent(s, satellite) && count++ == 0)
            *one = satellite;
    }
    return count;
}

/* ---- what is asked for ---- */

static bool sets(const sky__operation *o) {
    return o->work == WORK_SET || o->work == WORK_HEAD || o->work == WORK_REHEAD;
}

uint32_t sky__places_to_ask(const sky_session *s, const sky__operation *o,
                            sky_satellite places[SKY__PLACES_MAX]) {
    uint32_t count = sky__operation_places(s, o, places), spoke = 0;
    for (uint32_t i = 0; i < count && !sets(o); i++) {
        sky_satellite place = places[i];
        if (sky__is_silent(s, place))
            continue;
        memmove(places + spoke + 1, places + spoke, (i - spoke) * sizeof *places);
        places[spoke++] = place;
    }
    return count;
}

sky_satellite sky__place_to_ask(const sky_session *s, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    (void)sky__places_to_ask(s, o, places);
    return places[0];
}

bool sky__hides(const sky_session *s, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__operation_places(s, o, places);
    for (uint32_t i = 0; i < count; i++) {
        if (sky__is_silent(s, places[i]))
            return true;
    }
    return false;
}

uint32_t sky__copies_of(const sky_session *s, const sky__operation *o) {
    if (o->work == WORK_HEADS) /* each copy has an operation of its own */
        return 1;
    return o->number == 0 ? s->core.head_copies : s->core.config.replicas;
}

/* Another copy that is still to be had, of one who is not silent; `copies`: there is none. */
static uint32_t copy_after(const sky_session *s, const sky__operation *o) {
    uint32_t copies = sky__copies_of(s, o);
    sky_satellite places[SKY__PLACES_MAX];
    for (uint32_t i = 1; i < copies; i++) {
        sky__operation other = *o;
        other.copy = (o->copy + i) % copies;
        (void)sky__operation_places(s, &other, places);
        if (!(o->tried >> other.copy & 1) && !sky__is_silent(s, places[0]))
            return other.copy;
    }
    return copies;
}

bool sky__rather_another(const sky_session *s, const sky__operation *o, sky_satellite to) {
    return sky__is_silent(s, to) && copy_after(s, o) < sky__copies_of(s, o);
}

sky_satellite sky__copy_first(const sky_session *s, sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t copies = sky__copies_of(s, o);
    for (o->copy = 0; o->copy < copies; o->copy++) {
        (void)sky__operation_places(s, o, places);
        if (!sky__is_silent(s, places[0]))
            return places[0];
    }
    o->copy = 0; /* who has it is silent, whichever it is */
    return sky__place_to_ask(s, o);
}

static void take_copy(sky_session *s, sky__operation *o, uint32_t copy) {
    o->copy = copy;
    o->misses = o->corrupt = 0;
    o->to = sky__place_to_ask(s, o);
    s->core.stat.other_copies++;
}

bool sky__copy_next(sky_session *s, sky__operation *o) {
    o->tried |= 1u << o->copy;
    uint32_t next = copy_after(s, o);
    if (next == sky__copies_of(s, o))
        return false;
    o->unanswered = 0;
    take_copy(s, o, next);
    return true;
}

/* In a gap of a true sky nobody can answer. */
static bool was_in_sight(const sky_session *s, const sky__operation *o) {
    return sky_frame_in_sight(s->core.config.frame,
                              sky_turns(&s->core.config.frame->turning, o->sent));
}

static bool asks(const sky__operation *o) {
    return sky__is_get(o->work);
}

void sky__ask_again_at(sky_session *s, sky__operation *o) {
    uint32_t next = asks(o) ? copy_after(s, o) : sky__copies_of(s, o);
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__places_to_ask(s, o, places), at = 0;
    if (next < sky__copies_of(s, o)) {
        take_copy(s, o, next);
        return;
    }
    while (asks(o) && at < count && !sky_satellite_equal(places[at], o->to))
        at++;
    at = asks(o) && at < count && o->unanswered >= SKY__PATIENT_ATTEMPTS ? (at + 1) % count : 0;
    o->to = places[sky__is_silent(s, places[at]) ? 0 : at];
}

/* Another copy of the head was heard, or parity is asked about, for which nobody waits: so much is
 * waited for one that does not answer. */
static bool is_done_without(const sky_session *s, const sky__operation *o) {
    const sky__request *r = &s->requests[o->request];
    bool spare = o->work == WORK_CHECK || (o->work == WORK_HEADS && r->heard && !r->tracing);
    return spare && s->core.now - o->first_sent >= SPARE_PAUSES * s->core.config.late_ns;
}

uint32_t sky__attempts_max(const sky_session *s, const sky__operation *o) {
    if (is_done_without(s, o))
        return SPARE_WAITS - 1;
    bool other = asks(o) && copy_after(s, o) < sky__copies_of(s, o);
    bool nobody = sky__is_silent(s, o->to) && (other || sky__is_silent(s, sky__place_to_ask(s, o)));
    uint32_t most = s->core.config.retries_max + SKY__PATIENT_ATTEMPTS;
    uint32_t losses = sky__silent_requests(&s->core) > SILENT_ROW ? LOSSES_MAX : 0;
    return nobody && was_in_sight(s, o) && losses < most ? losses : most;
}

/* ---- what a put goes without ---- */

static bool is_absent(const sky__skipped *a, uint32_t server) {
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->servers[i] == server)
            return true;
    }
    return false;
}

bool sky_session_lacks(const sky_session *s, uint32_t block, uint32_t number) {
    bool all = true;
    for (uint32_t copy = 0; copy < s->core.config.replicas; copy++)
        all &= is_absent(&s->blocks.rows[block].skipped, sky__server_of(&s->core, number, copy));
    return all;
}

static bool heads_left(const sky_session *s, const sky__request *r, uint32_t copy) {
    return (r->heads_skipped | 1u << copy) != (1u << s->core.head_copies) - 1;
}

/* Without this server: does each stripe have enough, or the chunk another copy? */
static bool chunks_left(const sky_session *s, const sky__skipped *a, uint32_t number,
                        uint32_t server) {
    bool fresh = !is_absent(a, server);
    if (fresh && a->count == SKY__SKIPPED_MAX)
        return false;
    if (a->count + fresh <= s->core.stripes.parity)
        return true;
    for (uint32_t copy = 0; copy < s->core.config.replicas; copy++) {
        uint32_t other = sky__server_of(&s->core, number, copy);
        if (other != server && !is_absent(a, other))
            return true;
    }
    return false;
}

bool sky__goes_without(sky_session *s, const sky__operation *o, bool given_up) {
    sky__request *r = &s->requests[o->request];
    if (!sets(o) || !(given_up || sky__is_silent(s, o->to)))
        return false;
    if (o->work == WORK_HEAD || o->work == WORK_REHEAD) {
        bool left = heads_left(s, r, o->copy);
        r->heads_skipped |= left ? 1u << o->copy : 0;
        return left;
    }
    if (o->work != WORK_SET)
        return false;
    uint32_t server = sky__server_of(&s->core, o->number, o->copy);
    if (!chunks_left(s, &r->skipped, o->number, server))
        return false;
    if (!is_absent(&r->skipped, server))
        r->skipped.servers[r->skipped.count++] = server;
    return true;
}
