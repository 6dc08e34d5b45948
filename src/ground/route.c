/* Which copy an operation asks, and at which of its places.
 *
 *   asked of two or more   the next copy after the first wait in vain, and round again; the first
 *                          answer from any of them counts. Where the client spreads, all others
 *                          are asked after the first wait: of a few dead ones each would cost one
 *   of the silent alone    given up at once, but for one request a second that tries: a caller
 *                          waits for it. So is a copy of the silent, when others answered that
 *                          they have none
 *   where else it may be   asked first: who cannot hand a chunk over to the silent keeps it
 *   put                    where it belongs; after one wait in vain of a silent satellite its
 *                          client may do without it (put.c) */
#include <string.h>

#include "ground/scheduler.h"

#define SPARE_WAITS  3 /* for what can be done without, */
#define SPARE_PAUSES 2 /* and so many of the host's guesses */
#define LOSSES_MAX   3 /* unanswered, of the silent, where the links lose much */

/* Where an operation's chunk may be, the likeliest first. */
static uint32_t operation_places(const sky__scheduler *q, const sky__operation *o,
                                 sky_satellite places[SKY__PLACES_MAX]) {
    const sky__client *client = sky__client_of(q, o);
    const sky__request *r = &q->requests->rows[o->request];
    if (client->places)
        return client->places(q->session, o, places);
    return sky__chunk_places(q, o, client->moved ? &r->of.before : NULL, places);
}

uint32_t sky__chunk_places(const sky__scheduler *q, const sky__operation *o,
                           const sky__epoch *before, sky_satellite places[SKY__PLACES_MAX]) {
    const sky__request *r = &q->requests->rows[o->request];
    sky_chunk_facts facts = r->of.facts;
    sky__facts_of(q->core, &facts, o->id.number, o->copy);
    uint32_t server = before ? sky__server_of(q->core, o->id.number, o->copy) : 0;
    uint32_t count = sky__places(q->core, &facts, before, server, places);
    if (!r->thorough || !before)
        return count;
    sky__last_places(q->core, &facts, places, &count);
    if (before->set_ms) {
        facts = sky__facts_before(q->core, &facts, before, server);
        sky__last_places(q->core, &facts, places, &count);
    }
    return count;
}

uint32_t sky__places_to_ask(const sky__scheduler *q, const sky__operation *o,
                            sky_satellite places[SKY__PLACES_MAX]) {
    uint32_t count = operation_places(q, o, places), spoke = 0;
    for (uint32_t i = 0; i < count && !sky__client_of(q, o)->stores; i++) {
        sky_satellite place = places[i];
        if (sky__is_silent(q, place))
            continue;
        memmove(places + spoke + 1, places + spoke, (i - spoke) * sizeof *places);
        places[spoke++] = place;
    }
    return count;
}

static sky_satellite place_to_ask(const sky__scheduler *q, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    (void)sky__places_to_ask(q, o, places);
    return places[0];
}

/* All of its last places were asked, and it may be on one from before. Of heads that is judged once
 * all of them are absent (lookup.c). */
static bool is_cut_off(const sky__scheduler *q, const sky__operation *o) {
    const sky__request *r = &q->requests->rows[o->request];
    sky_chunk_facts facts = r->of.facts;
    if (!r->thorough || o->id.number == 0)
        return false;
    sky__facts_of(q->core, &facts, o->id.number, o->copy);
    if (sky__may_be_cut_off(q->core, &facts))
        return true;
    if (r->of.before.set_ms == 0)
        return false;
    facts = sky__facts_before(q->core, &facts, &r->of.before,
                              sky__server_of(q->core, o->id.number, o->copy));
    return sky__may_be_cut_off(q->core, &facts);
}

bool sky__hides(const sky__scheduler *q, const sky__operation *o) {
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = operation_places(q, o, places);
    for (uint32_t i = 0; i < count; i++) {
        if (sky__is_silent(q, places[i]))
            return true;
    }
    return is_cut_off(q, o);
}

uint32_t sky__copies_of(const sky__scheduler *q, const sky__operation *o) {
    if (sky__client_of(q, o)->single)
        return 1;
    return o->id.number == 0 ? q->core->head_copies : q->core->config.replicas;
}

/* Not yet tried, and not with a satellite that is silent. */
static bool is_to_be_had(const sky__scheduler *q, const sky__operation *o, uint32_t copy) {
    sky_satellite places[SKY__PLACES_MAX];
    sky__operation other = *o;
    other.copy = copy;
    (void)operation_places(q, &other, places);
    return !(o->tried >> copy & 1) && !sky__is_silent(q, places[0]);
}

/* Another copy that is still to be had; `copies`: there is none. */
static uint32_t copy_after(const sky__scheduler *q, const sky__operation *o) {
    uint32_t copies = sky__copies_of(q, o);
    for (uint32_t i = 1; i < copies; i++) {
        if (is_to_be_had(q, o, (o->copy + i) % copies))
            return (o->copy + i) % copies;
    }
    return copies;
}

uint32_t sky__copies_aside(const sky__scheduler *q, const sky__operation *o, uint32_t waited) {
    uint32_t copies = sky__copies_of(q, o), aside = 0;
    for (uint32_t copy = 0; copy < copies; copy++) {
        if (copy != o->copy && copy != waited && is_to_be_had(q, o, copy))
            aside |= 1u << copy;
    }
    return aside;
}

uint32_t sky__copy_at(const sky__scheduler *q, const sky__operation *o, sky_satellite satellite) {
    sky__operation other = *o;
    sky_satellite places[SKY__PLACES_MAX];
    for (other.copy = 0; other.copy < sky__copies_of(q, o); other.copy++) {
        uint32_t count = operation_places(q, &other, places);
        for (uint32_t i = 0; i < count; i++) {
            if (sky_satellite_equal(places[i], satellite))
                return other.copy;
        }
    }
    return o->copy;
}

bool sky__rather_another(const sky__scheduler *q, const sky__operation *o, sky_satellite to) {
    return sky__is_silent(q, to) && copy_after(q, o) < sky__copies_of(q, o);
}

void sky__route_first(const sky__scheduler *q, sky__operation *o) {
    const sky__client *client = sky__client_of(q, o);
    uint32_t copies = client->reads ? sky__copies_of(q, o) : 1, first = o->copy;
    sky_satellite places[SKY__PLACES_MAX];
    for (uint32_t i = 0; copies > 1 && i < copies; i++) {
        o->copy = (first + i) % copies;
        (void)operation_places(q, o, places);
        o->to = places[0];
        if (!sky__is_silent(q, places[0]))
            return;
    }
    o->copy = first; /* who has it is silent, whichever it is */
    o->to = place_to_ask(q, o);
}

static void take_copy(sky__scheduler *q, sky__operation *o, uint32_t copy) {
    o->copy = copy;
    o->misses = o->corrupt = 0;
    o->to = place_to_ask(q, o);
    q->core->stat.other_copies++;
}

void sky__route_aside(sky__scheduler *q, sky__operation *o) {
    uint32_t copy = 0;
    while (!(o->aside >> copy & 1))
        copy++;
    take_copy(q, o, copy);
}

/* A copy with a silent satellite that this request may try; `copies`: there is none. */
static uint32_t silent_copy_to_try(sky__scheduler *q, const sky__operation *o) {
    uint32_t copies = sky__copies_of(q, o);
    sky_satellite places[SKY__PLACES_MAX];
    sky__operation other = *o;
    for (other.copy = 0; other.copy < copies; other.copy++) {
        (void)operation_places(q, &other, places);
        if (!(o->tried >> other.copy & 1) && sky__may_ask(q, places[0], true))
            break;
    }
    return other.copy;
}

bool sky__route_next_copy(sky__scheduler *q, sky__operation *o) {
    o->tried |= 1u << o->copy;
    uint32_t copies = sky__copies_of(q, o), next = copy_after(q, o);
    if (next == copies && o->denied)
        next = silent_copy_to_try(q, o);
    if (next == copies)
        return false;
    o->unanswered = 0;
    take_copy(q, o, next);
    return true;
}

/* In a gap of a true sky nobody can answer. */
static bool was_in_sight(const sky__scheduler *q, const sky__operation *o) {
    return sky_frame_in_sight(q->core->config.frame,
                              sky_turns(&q->core->config.frame->turning, o->sent));
}

void sky__route_again(sky__scheduler *q, sky__operation *o) {
    bool reads = sky__client_of(q, o)->reads;
    uint32_t copies = sky__copies_of(q, o), next = reads ? copy_after(q, o) : copies;
    sky_satellite places[SKY__PLACES_MAX];
    uint32_t count = sky__places_to_ask(q, o, places), at = 0;
    if (next < copies) {
        take_copy(q, o, next);
        return;
    }
    while (reads && at < count && !sky_satellite_equal(places[at], o->to))
        at++;
    at = reads && at < count && o->unanswered >= SKY__PATIENT_ATTEMPTS ? (at + 1) % count : 0;
    o->to = places[sky__is_silent(q, places[at]) ? 0 : at];
}

/* What a request can do without is waited for so long, of a satellite that does not answer; where
 * links lose, until their losses do not explain it. */
static bool is_done_without(const sky__scheduler *q, const sky__operation *o) {
    return q->requests->rows[o->request].spare &&
           q->core->now - o->first_sent >= SPARE_PAUSES * q->core->config.late_ns;
}

static uint32_t attempts_max(const sky__scheduler *q, const sky__operation *o) {
    bool other = sky__client_of(q, o)->reads && copy_after(q, o) < sky__copies_of(q, o);
    bool nobody = sky__is_silent(q, o->to) && (other || sky__is_silent(q, place_to_ask(q, o)));
    uint32_t most = q->core->config.retries_max + SKY__PATIENT_ATTEMPTS;
    uint32_t losses = sky__silent_requests(q->core) > SKY__SILENT_WAITS ? LOSSES_MAX : 0;
    return nobody && was_in_sight(q, o) && losses < most ? losses : most;
}

/* Who ends a request must know whether its satellite is silent, to name it, and so that the next
 * request does not wait for it again. Of places asked in turn, one is waited for so long. */
bool sky__is_given_up(const sky__scheduler *q, const sky__operation *o) {
    sky_time until = q->requests->rows[o->request].ask.until;
    if (until > 0)
        return q->core->now >= until;
    if (is_done_without(q, o))
        return o->unanswered >= SPARE_WAITS && o->unanswered >= sky__silent_requests(q->core);
    if (q->core->now < o->undecided_until)
        return false;
    bool decided = sky__undecided_ns(q, o) == 0 ||
                   q->core->now - o->first_sent >= 2 * sky__silence_ns(q);
    bool anybody = q->answered_at >= o->first_sent || !was_in_sight(q, o) ||
                   o->unanswered < sky__silent_requests(q->core);
    return decided && (q->down || !anybody || o->unanswered > attempts_max(q, o));
}
