/* What the planner is compared with.
 *
 * CacheGen's loop sends chunk after chunk, each at a level chosen from the throughput of the one
 * before. As the source prints it,
 *
 *     if time_recompute <= remaining_time: send text
 *     else: send the best level with size(chunks_to_send, level) / throughput <= remaining_time
 *     chunks_to_send <- concatenate(chunks_to_send, chunk)
 *
 * it sends text whenever the engine has time to spare, and KV only when it has not: the reverse of
 * what its text says (text when bandwidth is extremely limited); the last line never ends the loop.
 * "Written" keeps the comparison and ends the loop; "meant" tries the levels first.
 *
 * Where the source leaves room the loop gets the better reading: chunks are pushed, so that the
 * delay is paid once, throughput leaves the delay out, text travels for nothing, and the engine
 * computes a text chunk while later chunks are on their way. */
#include "lab/stream/experiment.h"

#include <math.h>
#include <stdlib.h>

enum { TEXT = SKY_PACER_FORM_NONE };

static double left_bytes(const sky_experiment *t, uint32_t from, uint32_t form) {
    double bytes = 0;
    for (uint32_t i = from; i < t->segment_count; i++)
        bytes += (double)t->segments[i].forms[form].bytes;
    return bytes;
}

static bool text_in_time(const sky_experiment *t, uint32_t from, double remaining_ns) {
    double ns = 0;
    for (uint32_t i = from; i < t->segment_count; i++) {
        if (t->segments[i].compute_ns == 0)
            return false;
        ns += (double)t->segments[i].compute_ns;
    }
    return ns <= remaining_ns;
}

static uint32_t baseline_form(const sky_experiment *t, bool as_written, uint32_t i,
                              double remaining_ns, double rate) {
    bool text = text_in_time(t, i, remaining_ns);
    uint32_t forms = t->segments[i].form_count;
    if (as_written && text)
        return TEXT;
    for (uint32_t f = 0; f < forms; f++)
        if (left_bytes(t, i, f) / rate * 1e9 <= remaining_ns)
            return f;
    return text ? TEXT : forms - 1;
}

void sky__baseline_run(const sky_experiment *t, bool as_written, sky_time start, double *rate,
                       sky_prng *slow, sky_outcome *out) {
    sky_time at = start + t->delay_ns, engine = start, ready = start;
    double tokens = 0;
    *out = (sky_outcome){0};
    for (uint32_t i = 0; i < t->segment_count; i++) {
        const sky_segment *s = &t->segments[i];
        sky_time now = i == 0 ? start : at;
        double remaining = (double)(start + t->options.deadline_ns - now);
        uint32_t f = baseline_form(t, as_written, i, remaining, *rate);
        tokens += s->token_count;
        if (f == TEXT) {
            engine = (engine > ready ? engine : ready) + sky__experiment_wait(t, start, i) +
                     s->compute_ns;
            ready = engine;
            continue;
        }
        if (sky_prng_unit(slow) < t->slow_share)
            at += t->slow_ns;
        sky_time end = sky__experiment_arrival(t, at, (double)s->forms[f].bytes);
        *rate = (double)s->forms[f].bytes / (double)(end > at ? end - at : 1) * 1e9;
        at = end;
        ready = ready > at + s->forms[f].decode_ns ? ready : at + s->forms[f].decode_ns;
        out->bytes += s->forms[f].bytes;
        out->loss += s->forms[f].loss * s->token_count;
    }
    out->loss /= tokens;
    out->complete_at = ready;
}

/* ---- the oracle ---- */

static double bytes_until(const sky_experiment *t, sky_time from, sky_time until) {
    double bytes = 0;
    for (uint32_t s = 0; s < t->source_count; s++)
        for (sky_time at = from, next; at < until; at = next) {
            next = (at / t->traces[s].step_ns + 1) * t->traces[s].step_ns;
            next = next < until ? next : until;
            bytes += sky__experiment_rate(t, s, at) * (double)(next - at) * 1e-9;
        }
    return bytes;
}

/* The upgrade that is worth most a byte, of those that fit; false: none. */
static bool baseline_upgrade(const sky_experiment *t, uint32_t first, uint8_t *forms,
                             double *spare) {
    uint32_t best_i = 0, best_f = 0;
    double best = 0;
    for (uint32_t i = first; i < t->segment_count; i++) {
        const sky_segment *s = &t->segments[i];
        for (uint32_t f = 0; f < forms[i]; f++) {
            double more = (double)(s->forms[f].bytes - s->forms[forms[i]].bytes);
            double gain = (s->forms[forms[i]].loss - s->forms[f].loss) * s->token_count;
            if (more <= *spare && gain > 0 && gain > best * fmax(more, 1)) {
                best = gain / fmax(more, 1);
                best_i = i;
                best_f = f;
            }
        }
    }
    if (best == 0)
        return false;
    *spare -= (double)(t->segments[best_i].forms[best_f].bytes -
                       t->segments[best_i].forms[forms[best_i]].bytes);
    forms[best_i] = (uint8_t)best_f;
    return true;
}

/* It knows how many bytes the link will carry. The engine's head costs it nothing, so it computes
 * what fits, and loads the rest in the least lossy forms that fit. */
void sky__oracle_run(const sky_experiment *t, sky_time start, sky_outcome *out) {
    uint8_t forms[SKY_PACER_SEGMENTS_MAX];
    sky_time deadline = start + t->options.deadline_ns, engine = start;
    uint32_t first = 0;
    for (; first < t->segment_count && t->segments[first].compute_ns > 0; first++) {
        engine += sky__experiment_wait(t, start, first) + t->segments[first].compute_ns;
        if (engine > deadline)
            break;
    }
    sky_time decode = 0;
    double spare = 0, tokens = 0, loss = 0;
    for (uint32_t i = first; i < t->segment_count; i++) {
        const sky_segment *s = &t->segments[i];
        forms[i] = (uint8_t)(s->form_count - 1);
        spare -= (double)s->forms[forms[i]].bytes;
        decode = s->forms[forms[i]].decode_ns;
    }
    spare += bytes_until(t, start + t->delay_ns, deadline - decode);
    bool fits = spare >= 0;
    while (fits && baseline_upgrade(t, first, forms, &spare)) {
    }
    for (uint32_t i = 0; i < t->segment_count; i++) {
        loss += i < first ? 0 : t->segments[i].forms[forms[i]].loss * t->segments[i].token_count;
        tokens += t->segments[i].token_count;
    }
    *out = (sky_outcome){.complete_at = fits ? deadline : SKY_TIME_NEVER, .loss = loss / tokens};
}
