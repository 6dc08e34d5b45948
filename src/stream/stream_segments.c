/* What is there of a segment, what is wanted of it, and how many bytes that has. */
#include "stream/state.h"

bool sky__pacer_present(const sky_pacer *p, uint32_t segment) {
    return p->state[segment].computed || p->state[segment].held >= sky__pacer_needed(p, segment);
}

bool sky__pacer_offered(const sky_pacer *p, uint32_t segment, uint32_t form) {
    for (uint32_t i = 0; i < p->link_count; i++)
        if (!(p->state[segment].gone[i] & 1u << form))
            return true;
    return false;
}

double sky__pacer_held_loss(const sky_pacer *p, uint32_t segment) {
    const sky_pacer_segment *s = &p->state[segment];
    uint32_t needed = sky__pacer_needed(p, segment), held = s->held < needed ? s->held : needed;
    double loss = 0;
    if (s->computed || held == 0)
        return 0;
    for (uint32_t i = 0; i < held; i++)
        loss += p->segments[segment].forms[s->forms[i]].loss;
    return loss / held;
}

uint32_t sky__pacer_needed(const sky_pacer *p, uint32_t segment) {
    uint32_t window = p->options.window;
    if (segment >= p->aim)
        return 0;
    return window > 0 && segment + window < p->aim ? 1 : p->options.slices;
}

uint32_t sky__pacer_slice_end(const sky_pacer *p, uint32_t segment, uint32_t form) {
    const sky_segment *s = &p->segments[segment];
    bool alone = p->options.window > 0 && s->lead_bytes[form] < s->forms[form].bytes;
    return alone ? sky__pacer_needed(p, segment) : p->options.slices;
}

uint64_t sky__pacer_bytes(const sky_pacer *p, uint32_t segment, uint32_t form, uint32_t first_slice,
                          uint32_t slice_end) {
    const sky_segment *s = &p->segments[segment];
    uint64_t bytes = s->forms[form].bytes;
    if (p->options.window == 0)
        return bytes * slice_end / p->options.slices - bytes * first_slice / p->options.slices;
    if (first_slice >= slice_end)
        return 0;
    return first_slice > 0 ? s->rest_bytes[form] : slice_end > 1 ? bytes : s->lead_bytes[form];
}

uint64_t sky__pacer_slice_bytes(const sky_pacer *p, uint32_t segment, uint32_t form,
                                uint32_t first_slice) {
    return sky__pacer_bytes(p, segment, form, first_slice, sky__pacer_slice_end(p, segment, form));
}
