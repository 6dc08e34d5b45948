/* What all of the world uses: its trace, and the clocks of its satellites. */
#include "sim/world_state.h"

#include "base/hash.h"

/* Of a chunk the head is enough, which holds the data's own checksum; and its end. */
static uint64_t digest_of(const sky__flight *f) {
    if (f->bytes <= 2 * SKY__SMALL_BYTES)
        return sky_checksum(f->data, f->bytes, 0);
    return sky_checksum(f->data + f->bytes - 32, 32,
                        sky_checksum(f->data, SKY__SMALL_BYTES, f->bytes));
}

void sky__tell(const sky_world *w, sky_event_kind kind, const sky__flight *f, sky_satellite from) {
    if (!w->trace)
        return;
    sky_world_event e = {.at = w->now, .kind = kind, .from = from};
    if (f) {
        e.from = f->from;
        e.to = f->to;
        e.bytes = f->bytes;
        e.digest = digest_of(f);
    }
    w->trace(w->trace_context, &e);
}

void sky__tell_until(const sky_world *w, sky_event_kind kind, sky_satellite from, sky_satellite to,
                     sky_time until) {
    sky_world_event e = {.at = w->now, .kind = kind, .from = from, .to = to, .until = until};
    if (w->trace)
        w->trace(w->trace_context, &e);
}

sky_time sky__clock(const sky_world *w, const sky__site *s) {
    return w->now < s->frozen_until ? s->frozen_at : w->now + s->skew_ns;
}

sky_time sky__when(const sky_world *w, const sky__site *s, sky_time at) {
    if (at == SKY_TIME_NEVER)
        return at;
    if (w->now < s->frozen_until && at > s->frozen_at && at - s->skew_ns < s->frozen_until)
        return s->frozen_until;
    return at - s->skew_ns;
}
