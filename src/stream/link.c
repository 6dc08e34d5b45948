/* What a source has shown: rate while bytes flow, delay of the first byte, and how much time a
 * context needs in hand against what the link may do next.
 *
 * Two facts bound that reserve. The worst of the last contexts, as rate kept / rate expected at its
 * start: against a link that has lost nothing lately nothing is held back. And what deadlines
 * proved to need: more after each late one, a little less after each that was not, so that the
 * share of late ones goes to the risk that was asked for, whatever the link does (adaptive
 * conformal inference, Gibbs and Candès 2021). No distribution is assumed.
 *
 * Windows close when bytes arrive, so that silence lowers the rate only when it is over; until then
 * it eats the time that is left, which is what the planner looks at. */
#include "stream/state.h"

#include <math.h>

#define WINDOW_NS        SKY_MS(20)
#define MEMORY_NS        SKY_MS(200) /* a window weighs its length / (length + this) … */
#define WEIGHT_MAX       0.3         /* … but one after a silence is not the whole truth */
#define BUSY_NS_MIN      SKY_MS(10)
#define SAMPLES_MIN      8
#define RESERVE_AT_FIRST 0.35
#define RESERVE_MOST     0.6
#define RESERVE_STEP     0.1
#define RATE_LEAST       1 /* of what has brought nothing yet */
#define GROWS            1.25
#define BURST_GAP        8 /* of a delay: what comes sooner behind another came with it */

void sky_link_init(sky_link *link, double rate, sky_time delay_ns) {
    *link = (sky_link){.rate = rate > 0 ? rate : 0, /* also of what is no number */
                       .delay_ns = delay_ns > 0 ? (double)delay_ns : 0,
                       .reserve = RESERVE_AT_FIRST};
}

double sky_link_reserve(const sky_link *link) {
    uint32_t n = link->kept_count < SKY_LINK_SAMPLES ? link->kept_count : SKY_LINK_SAMPLES;
    double worst = n < SAMPLES_MIN ? 0 : 1;
    for (uint32_t i = 0; n >= SAMPLES_MIN && i < n; i++)
        worst = fmin(worst, link->kept[i]);
    return fmin(link->reserve, 1 - worst);
}

static void blend_sample(double *mean, double *deviation, double sample, double weight) {
    *deviation += weight * (fabs(sample - *mean) - *deviation);
    *mean += weight * (sample - *mean);
}

/* Of the first bytes of a period only the time is used: when they began to flow is not known. */
static void blend_rate(sky_link *link, sky_pacer_source *source, sky_time now, uint64_t bytes) {
    if (source->window_at == 0) {
        source->window_at = now;
        source->window_bytes = 0;
        return;
    }
    source->window_bytes += bytes;
    sky_time elapsed = now - source->window_at;
    if (elapsed < WINDOW_NS || source->window_bytes == 0)
        return;
    double weight = (double)elapsed / (double)(elapsed + MEMORY_NS);
    blend_sample(&link->rate, &link->deviation,
                 (double)source->window_bytes / (double)elapsed * 1e9, fmin(weight, WEIGHT_MAX));
    source->window_at = now;
    source->window_bytes = 0;
}

/* A straggler says little about the usual delay, so it counts as four deviations at most. */
static void blend_delay(sky_link *link, double delay_ns) {
    double most = 2 * link->delay_ns + 4 * link->delay_deviation + 1e6;
    blend_sample(&link->delay_ns, &link->delay_deviation, fmin(fmax(delay_ns, 0), most), 0.125);
}

/* ---- a link that nothing is known of ---- */

/* Answers that came together are over: was all that was asked for enough to fill the link? */
static void judge_burst(sky_link *link, sky_pacer_source *s) {
    if (s->burst_at == 0 || s->burst_starved || s->bytes < 2 * s->seen_bytes)
        return;
    s->starting = s->found_rate >= GROWS * s->seen_rate;
    s->seen_rate = s->found_rate;
    s->seen_bytes = s->bytes;
    if (s->starting)
        return;
    link->rate = s->found_rate;
    link->delay_ns = fmax(link->delay_ns - (double)s->first_bytes / link->rate * 1e9, 0);
}

/* What came since this was asked for, over that time: with few requests at once less than the link
 * carries, as it mostly waits. Each answer lets more be asked for, until twice as many bytes bring
 * hardly a higher rate: then that is the link's. The first alone, delay and all, would make any far
 * link slow, and the little that is then asked for would prove it; and the time between answers
 * says nothing, as what was asked for at once may come at once: such a burst is judged as a whole,
 * when the next one comes, and not at all if nothing was left to ask for meanwhile. The delay is at
 * first all the time until the first bytes, their own included.
 * Source: the delivery rate of Cardwell et al. 2016 (BBR), by answers instead of packets. */
static void find_out(sky_link *link, sky_pacer_source *s, sky_time now, const sky_pacer_flight *f,
                     uint64_t bytes) {
    double took = fmax((double)(now - f->asked_at), 1);
    if (s->first_bytes == 0) {
        s->first_bytes = bytes;
        link->delay_ns = link->rate > 0 ? fmin(link->delay_ns, took) : took;
    }
    if ((double)(now - s->burst_last) > link->delay_ns / BURST_GAP ||
        (double)(now - s->burst_at) >= link->delay_ns) {
        judge_burst(link, s);
        s->burst_at = now;
        s->burst_starved = false;
    }
    s->burst_last = now;
    s->burst_starved |= f->starved;
    if (!s->starting)
        return;
    s->found_rate = fmax(s->found_rate, (double)(s->bytes + bytes - f->before) / took * 1e9);
    link->rate = fmax(link->rate, s->found_rate);
}

double sky__link_rate(const sky_pacer *p, uint32_t source) {
    return fmax(p->links[source].rate, RATE_LEAST);
}

double sky__link_rate_sure(const sky_pacer *p, uint32_t source, sky_time now) {
    const sky_pacer_source *s = &p->sources[source];
    double rate = sky__link_rate(p, source), took = fmax((double)(now - p->started_at), 1);
    if (s->rate_at_start > 0)
        return rate;
    return fmin(rate, fmax((double)s->bytes / took * 1e9, RATE_LEAST));
}

/* ---- */

void sky__link_heard(sky_pacer *p, sky_time now, const sky_pacer_flight *f, uint64_t bytes) {
    sky_pacer_source *source = &p->sources[f->source];
    sky_link *link = &p->links[f->source];
    if (source->starting && f->bytes >= p->telling_bytes) {
        find_out(link, source, now, f, bytes);
    } else if (!source->starting) {
        if (f->arrived == 0 && f->ahead == 0) /* behind others the delay does not show */
            blend_delay(link, (double)(now - f->asked_at));
        blend_rate(link, source, now, bytes);
    }
    source->bytes += bytes;
}

void sky__link_starved(sky_pacer *p) {
    for (uint32_t i = 0; i < SKY_PACER_FLIGHTS_MAX; i++)
        p->flights[i].starved |= p->flights[i].before > 0; /* what is asked for first fills it */
}

/* What was over sooner than a window closes has shown at least this rate. */
static void note_the_least(sky_link *link, const sky_pacer_source *source, sky_time took) {
    double rate = (double)source->bytes / (double)took * 1e9;
    if (took < WINDOW_NS && link->rate > 0 && rate > link->rate)
        link->rate = rate;
}

void sky__link_end(sky_pacer *p, sky_time now, uint32_t number) {
    const sky_pacer_source *source = &p->sources[number];
    sky_link *link = &p->links[number];
    link->unsettled = source->starting;
    bool silent = source->starting && source->first_bytes == 0 && source->busy_ns > 0;
    link->at_once = silent ? sky__flight_starting(p, number) / 4 + 1 : 0;
    if (now > p->started_at)
        note_the_least(link, source, now - p->started_at);
    if (source->busy_ns < BUSY_NS_MIN || source->rate_at_start <= 0)
        return;
    double kept = (double)source->bytes / (double)source->busy_ns * 1e9;
    link->kept[link->kept_count % SKY_LINK_SAMPLES] = (float)(kept / source->rate_at_start);
    link->kept_count++;
    if (link->kept_count == 2 * SKY_LINK_SAMPLES) /* never wraps */
        link->kept_count = SKY_LINK_SAMPLES;
}

/* In the long run the share of late contexts goes to `target`, whatever the link does: what is
 * added for each late one is taken back over 1 / target that were not. */
void sky__link_judge(sky_link *link, double target, bool late) {
    link->reserve += RESERVE_STEP * ((late ? 1 : 0) - target);
    link->reserve = fmin(fmax(link->reserve, 0), RESERVE_MOST);
}
