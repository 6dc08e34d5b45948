/* How long an answer is waited for. Everything on its way is known: light both ways (the sky may
 * turn before the answer leaves, and the satellite be farther off), and when the satellite will
 * have served those we sent it before. What is not known, the host says (late_ns). So a loss is
 * noticed as soon as it can be; only after some attempts in vain is the wait doubled, for then
 * something else is wrong. As long as nobody was ever heard, each place has its own attempts: a sky
 * that is down is known soon. Any station that is heard shows that the sky is slow: then all of
 * them count.
 *
 * Surprise: answers from far and near meet at the downlink, more than it carries for a while, and
 * wait there in the order in which they came. So one is overdue when another has come that should
 * have been behind it, or when none comes any more. */
#include "ground/session_state.h"

static sky_time later(sky_time a, sky_time b) {
    return a > b ? a : b;
}

/* Light one way to or from a satellite that may leave after a turn that is due by `by`: the longer
 * of both. */
static sky_time light_by(const sky_session *s, sky_satellite to, sky_time now, sky_time by) {
    const sky_frame *f = s->config.frame;
    uint64_t turns = sky__turns(s, now);
    sky_time light = sky_frame_ground_ns(f, to, turns);
    if (sky__turns(s, by + 2 * s->config.skew_ns) == turns)
        return light;
    return later(light, sky_frame_ground_ns(f, to, turns + 1));
}

/* What is not known of an answer's way. */
static sky_time slack_ns(const sky_session *s) {
    return later(s->config.late_ns, SKY__SLACK_NS);
}

sky_time sky__deadline_of(sky_session *s, sky_time now, sky_time leaves, sky__operation *o) {
    const sky_session_config *c = &s->config;
    sky_time *served = &s->served_at[sky_frame_number(c->frame, o->to)];
    sky_time up = light_by(s, o->to, now, leaves) + c->jitter_ns;
    *served = later(*served, leaves + up) + c->processing_ns;
    o->due = *served + light_by(s, o->to, now, *served) + c->jitter_ns +
             sky_link_busy_ns(c->link_bits_s, o->answer_bytes);
    sky_time wait = o->due + slack_ns(s) - now;
    uint32_t in_vain = o->unanswered - (s->heard ? 0 : o->elsewhere);
    uint32_t doublings = in_vain > SKY__PATIENT_ATTEMPTS ? in_vain - SKY__PATIENT_ATTEMPTS : 0;
    return now + (wait << (doublings < 10 ? doublings : 10));
}

sky_time sky__undecided_until(const sky_session *s, sky_time now, const sky__operation *o) {
    if (o->answer_bytes == 0 || o->due + slack_ns(s) <= s->heard_due)
        return now;
    sky_time quiet = s->heard_at + slack_ns(s) +
                     sky_link_busy_ns(s->config.link_bits_s, o->answer_bytes);
    return later(now, quiet);
}

bool sky__overdue(const sky_session *s, sky_time now, const sky__operation *o) {
    return o->deadline <= now && sky__undecided_until(s, now, o) == now;
}
