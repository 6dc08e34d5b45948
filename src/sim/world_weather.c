/* What elevation and weather leave of a ground link: a share of its rate, and datagrams it loses
 * besides.
 *
 *   message ──► which satellite the link is with ──► its elevation ──► table ──┐
 *               the time ──► weather over the ground ──────────────────────────┴──► rate, loss
 *
 * A terminal knows what its modem does, so the session is told the rate: in the mean over the
 * servers of the window, which a get asks evenly. */
#include "base/clock.h"
#include "sim/world_state.h"

static sky_link_quality quality_at(const sky_scenario *s, double deg) {
    uint32_t i = 0;
    while (i < s->elevation_count && s->elevations[i].deg < deg)
        i++;
    if (i == 0)
        return s->elevations[0].quality;
    const sky_link_quality *low = &s->elevations[i - 1].quality;
    if (i == s->elevation_count)
        return *low;
    const sky_link_quality *high = &s->elevations[i].quality;
    double from = s->elevations[i - 1].deg;
    double part = (deg - from) / (s->elevations[i].deg - from);
    return (sky_link_quality){low->rate + part * (high->rate - low->rate),
                              low->loss + part * (high->loss - low->loss)};
}

/* Of one weather and another at once. */
static sky_link_quality both_qualities(sky_link_quality a, sky_link_quality b) {
    return (sky_link_quality){a.rate * b.rate, 1 - (1 - a.loss) * (1 - b.loss)};
}

bool sky__links_vary(const sky_world *w) {
    return w->scenario.elevation_count > 0 || w->scenario.weather_count > 0;
}

sky_link_quality sky__ground_quality(const sky_world *w, const sky__ground *g,
                                     sky_satellite satellite) {
    const sky_scenario *s = &w->scenario;
    uint32_t number = (uint32_t)(g - w->grounds);
    sky_link_quality q = {.rate = 1};
    if (s->elevation_count > 0)
        q = quality_at(
            s, sky_frame_elevation_deg(g->frame, satellite, sky_turns(&g->frame->turning, w->now)));
    for (uint32_t i = 0; i < s->weather_count; i++) {
        const sky_weather *v = &s->weathers[i];
        if (v->ground == number && v->from_ns <= w->now && w->now < v->to_ns)
            q = both_qualities(q, v->quality);
    }
    return q;
}

sky_time sky__ground_link(const sky_world *w, const sky__ground *g, sky_satellite satellite,
                          uint64_t *bits_s) {
    *bits_s = g->bits_s;
    if (!sky__links_vary(w) || g->bits_s == 0)
        return g->queue_ns;
    double rate = sky__ground_quality(w, g, satellite).rate;
    *bits_s = (uint64_t)((double)g->bits_s * rate) + 1;
    return sky_link_busy_ns(*bits_s, w->scenario.links.queue_bytes);
}

/* How many times as long as at its full rate the link takes for the same of each server. */
static double mean_slowness(const sky_world *w, const sky__ground *g) {
    const sky_frame *f = g->frame;
    uint32_t servers = f->placement.servers;
    sky_satellite centre = sky_frame_centre(f, sky_turns(&f->turning, w->now));
    double sum = 0;
    for (uint32_t i = 1; i <= servers; i++)
        sum += 1 / sky__ground_quality(w, g, sky_frame_first(f, centre, i)).rate;
    return sum / servers;
}

/* Until when nothing of it changes: the sky turns, a weather begins or ends. */
static sky_time holds_until(const sky_world *w) {
    const sky_turning *t = &w->frame.turning;
    sky_time until = sky_turn_begins(t, sky_turns(t, w->now) + 1);
    for (uint32_t i = 0; i < w->scenario.weather_count; i++) {
        const sky_weather *v = &w->scenario.weathers[i];
        if (v->from_ns > w->now)
            until = sky__sooner(until, v->from_ns);
        else if (v->to_ns > w->now)
            until = sky__sooner(until, v->to_ns);
    }
    return until;
}

void sky__tell_rate(sky_world *w, sky__ground *g, uint64_t bits_s) {
    if (!sky__links_vary(w) || bits_s == 0 || w->now < g->rate_until)
        return;
    g->rate_until = holds_until(w);
    sky_session_link_set(g->session, (uint64_t)((double)bits_s / mean_slowness(w, g)) + 1);
}
