/* Links as they vary: rates over time from a seed. Only + − × ÷, so that every machine gets the
 * same numbers. */
#include "lab/stream/experiment.h"

#include <math.h>

static const char *const names[SKY_TRACE_KINDS] = {"steady", "steps", "sawtooth", "handover",
                                                   "walk"};

const char *sky_trace_name(sky_trace_kind kind) {
    return (unsigned)kind < SKY_TRACE_KINDS ? names[kind] : "unknown";
}

static double trace_between(sky_prng *r, double low, double high) {
    return low + (high - low) * sky_prng_unit(r);
}

typedef struct {
    sky_prng random;
    double factor; /* of the mean rate */
    double until;  /* seconds: the factor holds */
    double quiet;  /* seconds: silence or a fade before that */
} state;

/* A new rate every 2 to 20 s, between a quarter and twice the mean. */
static double trace_steps(state *s, double t) {
    static const double factors[] = {0.25, 0.35, 0.5, 0.6, 0.75, 1, 1.5, 2};
    if (t >= s->until) {
        s->factor = factors[sky_prng_below(&s->random, 8)];
        s->until = t + trace_between(&s->random, 2, 20);
    }
    return s->factor;
}

static double trace_sawtooth(double t) {
    double phase = t / 8 - floor(t / 8);
    return 0.4 + 1.2 * phase;
}

/* Every 15 s another satellite: 0.1 to 1 s of nothing, then another rate. */
static double trace_handover(state *s, double t) {
    if (t >= s->until) {
        s->factor = trace_between(&s->random, 0.5, 1.5);
        s->quiet = t + trace_between(&s->random, 0.1, 1);
        s->until = t + 15;
    }
    return t < s->quiet ? 0 : s->factor * trace_between(&s->random, 0.85, 1.15);
}

/* Moves by up to a twentieth a step, drawn back to the mean; fades of 0.2 to 1 s to a twentieth. */
static double trace_walk(state *s, double t) {
    s->factor *= trace_between(&s->random, 0.95, 1.05) + 0.004 * (1 - s->factor);
    s->factor = fmin(fmax(s->factor, 0.1), 3);
    if (t >= s->until) {
        s->quiet = t + trace_between(&s->random, 0.2, 1);
        s->until = t + trace_between(&s->random, 4, 24);
    }
    return t < s->quiet ? 0.05 : s->factor;
}

void sky_trace_fill(sky_trace_kind kind, uint64_t seed, double rate, sky_time step_ns,
                    double *rates, uint32_t count) {
    state s = {.factor = 1};
    sky_prng_init(&s.random, seed);
    s.until = kind == SKY_TRACE_STEPS ? 0 : trace_between(&s.random, 0, 15);
    for (uint32_t i = 0; i < count; i++) {
        double t = (double)i * (double)step_ns * 1e-9;
        double factor = kind == SKY_TRACE_STEADY     ? trace_between(&s.random, 0.97, 1.03)
                        : kind == SKY_TRACE_STEPS    ? trace_steps(&s, t)
                        : kind == SKY_TRACE_SAWTOOTH ? trace_sawtooth(t)
                        : kind == SKY_TRACE_HANDOVER ? trace_handover(&s, t)
                                                     : trace_walk(&s, t);
        rates[i] = rate * factor;
    }
}
