/* Grounds that start again while a run goes on. */
#include "base/clock.h"
#include "lab/sim/run_state.h"

#define BUSY_NS SKY_SECONDS(1) /* until a ground that was busy may be idle */

typedef sky__run run;

static sky_time reopen_gap(run *r) {
    return sky_gap_draw(&r->reopen_prng, (sky_time)(3600e9 / r->scenario.faults.reopen_per_h));
}

void sky__run_reopen_init(run *r) {
    sky_prng_init(&r->reopen_prng, r->options->seed ^ 0x6f70656e); /* "open" */
    bool some = sky__run_several(r) && r->scenario.faults.reopen_per_h > 0;
    r->reopen_next = some ? reopen_gap(r) : SKY_TIME_NEVER;
}

static bool is_busy(const run *r, uint32_t ground) {
    bool busy = false;
    for (uint32_t i = 0; i < r->open_max && !busy; i++)
        busy = r->requests[i].open && r->requests[i].who.ground == ground;
    return busy;
}

/* Without memory for it the ground goes on. */
void sky__run_reopen(run *r) {
    sky_time now = sky_world_now(r->world);
    if (r->reopen_next > now)
        return;
    uint32_t others = sky_world_grounds(r->world) - 1;
    uint32_t ground = 1 + (uint32_t)sky_prng_below(&r->reopen_prng, others);
    bool busy = is_busy(r, ground);
    if (!busy)
        (void)sky_world_reopen(r->world, ground);
    r->reopen_next = now + (busy ? BUSY_NS : reopen_gap(r));
}
