/* Satellites that do not answer. Each is waited for once, not by every request: a satellite that
 * was waited for SKY__SILENT_WAITS times in a row, with more requests than the links' losses
 * explain, and for as long as silence takes (timeout.c), counts as silent for a while, until it
 * says anything. Meanwhile one request a second tries it.
 *
 * Where nothing at all is heard, the host may know that none of them runs. Then all are silent
 * after the time of two round trips, until one says anything or the host says that one runs: one
 * request a second has it look, and tries the sky. */
#include "base/clock.h"
#include "ground/scheduler.h"

#define UNHEARD_WAITS 2 /* where nobody else is heard either */
#define SILENT_NS     SKY_SECONDS(30)
#define PROBE_NS      SKY_SECONDS(1)
#define PROBE_PART    4 /* of the time of silence: what comes meanwhile goes with it */

void sky__suspect(sky__scheduler *q, sky_satellite satellite) {
    sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, satellite)];
    q->core->stat.suspects += p->wrong == 0;
    p->wrong++;
}

/* Since this one was first waited for. */
static bool nobody_heard(const sky__scheduler *q, const sky__suspicion *p) {
    return q->answered_at < p->unheard_since;
}

static bool host_says_down(sky__scheduler *q) {
    const sky_session_config *c = &q->core->config;
    q->host_asked = q->core->now;
    return c->is_down && c->is_down(c->is_down_context);
}

/* It was asked in vain, and so was all that was asked since. The host is not asked each time: it
 * takes some milliseconds. */
static void note_down(sky__scheduler *q, const sky__operation *o) {
    if (q->answered_at >= o->sent)
        return;
    bool lately = q->core->now < q->host_asked + PROBE_NS;
    bool down = lately ? q->down : host_says_down(q);
    if (down && !q->down) {
        q->down_since = o->sent;
        q->probe_at = q->down_since + PROBE_NS;
    }
    q->down = down;
}

/* Satellites were started. None is to be passed over for what it did not answer before. */
static void note_up(sky__scheduler *q) {
    uint32_t count = q->core->config.frame->satellite_count;
    q->down = false;
    for (uint32_t i = 0; i < count; i++)
        q->suspicions[i].waits = q->suspicions[i].unheard = 0;
}

/* Of requests that waited at the same time, one counts as a wait. Those of a time before it was
 * tried again do not. */
void sky__unanswered(sky__scheduler *q, const sky__operation *o) {
    sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, o->to)];
    if (o->sent >= p->unheard_until + SILENT_NS)
        p->waits = p->unheard = 0;
    p->silent++;
    p->unheard++;
    if (p->waits > 0 && o->sent < p->unheard_until)
        return;
    if (p->waits++ == 0)
        p->unheard_since = o->sent;
    p->unheard_until = q->core->now;
    note_down(q, o);
}

/* NULL: it says that it is none of this sky. */
static sky__suspicion *suspicion_of(sky__scheduler *q, sky_satellite satellite) {
    const sky_constellation *c = &q->core->config.frame->constellation;
    if (satellite.plane < 1 || satellite.plane > c->planes || satellite.slot < 1 ||
        satellite.slot > c->slots)
        return NULL;
    return &q->suspicions[sky_frame_number(q->core->config.frame, satellite)];
}

void sky__answered(sky__scheduler *q, sky_satellite satellite) {
    sky__suspicion *p = suspicion_of(q, satellite);
    if (!p)
        return;
    if (q->down)
        note_up(q);
    p->waits = p->unheard = 0;
    q->answered_at = q->core->now;
}

void sky__served(sky__scheduler *q, const sky__operation *o, bool current) {
    sky__suspicion *p = suspicion_of(q, q->from);
    if (!p)
        return;
    p->served_at = q->core->now;
    p->served = sky__later(p->served, current ? o->sent : o->first_sent);
}

bool sky__is_down(const sky__scheduler *q) {
    return q->down && q->core->now - q->down_since >= sky__silence_ns(q);
}

bool sky__is_silent(const sky__scheduler *q, sky_satellite satellite) {
    const sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, satellite)];
    uint32_t waits = nobody_heard(q, p) ? UNHEARD_WAITS : SKY__SILENT_WAITS;
    if (sky__is_down(q))
        return true;
    return p->waits >= waits && q->core->now < p->unheard_until + SILENT_NS &&
           p->unheard >= sky__silent_requests(q->core) &&
           q->core->now - p->unheard_since >= sky__silence_ns(q);
}

sky_time sky__undecided_ns(const sky__scheduler *q, const sky__operation *o) {
    const sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, o->to)];
    bool anybody = q->answered_at >= o->first_sent;
    if (q->down)
        return sky__later(q->down_since + sky__silence_ns(q) - q->core->now, 0);
    sky_time since = anybody ? p->unheard_since : sky__sooner(p->unheard_since, o->first_sent);
    if (p->waits == 0 || sky__is_silent(q, o->to))
        return 0;
    return sky__later(since + sky__silence_ns(q) - q->core->now, 0);
}

bool sky__may_ask(sky__scheduler *q, sky_satellite satellite, bool alone) {
    sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, satellite)];
    if (sky__is_down(q) && q->core->now >= q->probe_at && !host_says_down(q))
        note_up(q);
    if (!sky__is_silent(q, satellite))
        return true;
    sky_time *probe_at = sky__is_down(q) ? &q->probe_at : &p->probe_at;
    bool first = q->core->now >= *probe_at;
    if (first) { /* the last try was not answered either, or it would not be silent */
        p->unheard_until = sky__later(p->unheard_until, *probe_at - PROBE_NS);
        *probe_at = q->core->now + PROBE_NS;
    }
    return first ||
           (!alone && q->core->now <= *probe_at - PROBE_NS + sky__silence_ns(q) / PROBE_PART);
}
