/* How long an answer is waited for. Everything on its way is known: light both ways (the sky may
 * turn before the answer leaves, and the satellite be farther off), and when the satellite will
 * have served those we sent it before. What is not known is measured: by how much answers are later
 * than that, their mean and four times their mean deviation, as TCP does (RFC 6298). Until the
 * first answer the host's guess stands (late_ns). A read waits two deviations: a second request
 * costs little, and a caller waits. A put waits at least the guess: a chunk that is sent twice
 * takes the room of another. So the session notices a loss as soon as it can. After some attempts
 * without an answer it doubles the wait, as something else must be wrong.
 *
 * No wait passes the time at which the satellite counts as silent, or all do. That is not for one
 * that was heard since it was first asked: it loses answers, and repeats that go out before they
 * can come make the next waits longer for nothing. A read waits no longer than a quarter of that
 * time, but not for one that answers other questions meanwhile: it is asked for more than it can
 * serve, and each repeat adds to that.
 *
 * Two decisions follow when the wait is over. A read asks another place at once, and takes the
 * first answer. A satellite counts as silent (detector.c) only after the time of two round
 * trips to the farthest place, or of 14 pauses of its host if that is longer, because a slow
 * satellite is not a dead one. For a sky that is known not to run two round trips are enough.
 *
 * A request's id names its attempt, so an answer that comes after the next attempt is measured too.
 * If the sky becomes slower than the wait, the session knows that from the first answer.
 *
 * Surprise: answers from far and near meet at the downlink, more than it carries for a while, and
 * wait there in the order in which they came. So one is overdue when another has come that should
 * have been behind it, or when none comes any more. A satellite serves one request after the other
 * too, and how much other grounds ask of it is not known here. While what it answers was sent
 * before ours, ours waits its turn there: asked again it would only lengthen the queue. */
#include "base/clock.h"
#include "ground/scheduler.h"

#define MEAN_PART       8  /* a sample counts one part of so many */
#define RISE_PART       4  /* the deviation grows by … */
#define FALL_PART       32 /* … and is forgotten by: of many answers at once few are late */
#define DEVIATIONS      4
#define READ_DEVIATIONS 2  /* a second request is cheap, and a caller waits */
#define ROUND_TRIPS     2  /* to the farthest place, before a satellite counts as silent */
#define HOST_PAUSES     14 /* or so many of the host's guesses */
#define DOUBLED_MAX     SKY_SECONDS(15) /* so that a request's attempts end within two minutes */
#define GUESS_PART      16 /* of the host's guess: answers are not believed to be more regular */

/* Light one way to or from a satellite that may leave after a turn that is due by `by`: the longer
 * of both. */
static sky_time light_by(const sky__scheduler *q, sky_satellite to, sky_time by) {
    const sky_frame *f = q->core->config.frame;
    uint64_t turns = sky__rotations(q->core);
    sky_time light = sky_frame_ground_ns(f, to, turns);
    if (sky_turns(&f->turning, by + 2 * q->core->config.skew_ns) == turns)
        return light;
    return sky__later(light, sky_frame_ground_ns(f, to, turns + 1));
}

/* What is not known of an answer's way. */
static sky_time slack_ns(const sky__scheduler *q, int deviations) {
    sky_time late = q->late_known ? q->late_ns + deviations * q->late_deviation_ns
                                  : q->core->config.late_ns;
    return sky__later(sky__later(late, q->core->config.late_ns / GUESS_PART), SKY__SLACK_NS);
}

static sky_time slack_of(const sky__scheduler *q, const sky__operation *o) {
    if (o->answer_bytes > 0)
        return slack_ns(q, READ_DEVIATIONS);
    return sky__later(slack_ns(q, DEVIATIONS), q->core->config.late_ns);
}

/* A satellite that answers everything just before it is given up must not make the wait for all
 * others as long: what is later counts as this. */
static sky_time late_max(const sky__scheduler *q) {
    return 2 * q->farthest_ns + HOST_PAUSES * q->core->config.late_ns / SKY__SILENT_WAITS;
}

static void late_note(sky__scheduler *q, sky_time late) {
    late = sky__sooner(sky__later(late, 0), late_max(q));
    if (!q->late_known) { /* the first, as TCP takes it */
        q->late_known = true;
        q->late_ns = late;
        q->late_deviation_ns = late / 2;
        return;
    }
    sky_time off = late - q->late_ns, far = off < 0 ? -off : off;
    q->late_ns += off / MEAN_PART;
    q->late_deviation_ns += (far - q->late_deviation_ns) /
                            (far > q->late_deviation_ns ? RISE_PART : FALL_PART);
}

void sky__answer_timed(sky__scheduler *q, const sky__operation *o, bool first, bool current) {
    if (first || current)
        late_note(q, q->core->now - (current ? o->due : o->first_due));
}

sky_time sky__silence_ns(const sky__scheduler *q) {
    sky_time far = 2 * (q->farthest_ns + q->core->config.jitter_ns);
    return q->down ? ROUND_TRIPS * far
                   : sky__later(ROUND_TRIPS * (far + slack_ns(q, DEVIATIONS)),
                                HOST_PAUSES * q->core->config.late_ns);
}

/* A wait in vain ends when its satellite counts as silent, or all do. But where that one was heard
 * since it was first asked, answers are lost, and the wait stays. */
static sky_time cut_wait(const sky__scheduler *q, const sky__operation *o, sky_time wait) {
    const sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, o->to)];
    bool heard = q->answered_at >= o->first_sent && p->unheard_since > o->asked_first;
    sky_time decided = sky__undecided_ns(q, o);
    bool passes = (q->down || o->unanswered > SKY__PATIENT_ATTEMPTS) && 0 < decided &&
                  decided < wait;
    return passes && !heard ? decided : wait;
}

sky_time sky__deadline_of(sky__scheduler *q, sky_time leaves, sky__operation *o) {
    const sky_session_config *c = &q->core->config;
    sky_time *served = &q->served_at[sky_frame_number(c->frame, o->to)];
    sky_time up = light_by(q, o->to, leaves) + c->jitter_ns;
    *served = sky__later(*served, leaves + up) + c->processing_ns;
    o->due = *served + light_by(q, o->to, *served) + c->jitter_ns +
             sky_link_busy_ns(c->link_bits_s, o->answer_bytes);
    if (o->attempt == 1)
        o->first_due = o->due;
    sky_time wait = o->due + slack_of(q, o) - q->core->now;
    sky_time most = sky__later(wait, sky__silence_ns(q) / SKY__SILENT_WAITS);
    bool silent = sky__is_silent(q, o->to);                    /* it has one try */
    if (silent || q->requests->rows[o->request].ask.until > 0) /* many, none far from the next */
        return q->core->now + most;
    uint32_t doublings = o->unanswered > SKY__PATIENT_ATTEMPTS
                             ? o->unanswered - SKY__PATIENT_ATTEMPTS
                             : 0;
    wait = sky__later(wait, sky__sooner(wait << (doublings < 10 ? doublings : 10), DOUBLED_MAX));
    bool serves = q->suspicions[sky_frame_number(c->frame, o->to)].served_at > o->first_sent;
    bool capped = wait > most && o->answer_bytes > 0 && !serves &&
                  sky__silent_requests(q->core) <= SKY__SILENT_WAITS; /* else losses explain it */
    return q->core->now + cut_wait(q, o, capped ? most : wait);
}

/* So long the next answer of the satellite may take, if what it answered last was sent before this.
 * What is asked for until a set time is not waited for longer. */
static sky_time busy_until(const sky__scheduler *q, const sky__operation *o) {
    const sky__suspicion *p = &q->suspicions[sky_frame_number(q->core->config.frame, o->to)];
    if (p->served >= o->sent || q->requests->rows[o->request].ask.until > 0)
        return 0;
    return p->served_at + q->core->config.processing_ns + slack_of(q, o);
}

sky_time sky__undecided_until(const sky__scheduler *q, sky_time at, const sky__operation *o) {
    at = sky__later(at, busy_until(q, o));
    if (o->answer_bytes == 0 || o->due + slack_of(q, o) <= q->heard_due)
        return at;
    sky_time quiet = q->heard_at + slack_of(q, o) +
                     sky_link_busy_ns(q->core->config.link_bits_s, o->answer_bytes);
    return sky__later(at, quiet);
}

bool sky__overdue(const sky__scheduler *q, sky_time at, const sky__operation *o) {
    return o->deadline <= at && sky__undecided_until(q, at, o) == at;
}
