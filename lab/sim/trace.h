/* A run's trace: a line for each event. For run.c alone. */
#ifndef SKY_LAB_SIM_TRACE_H
#define SKY_LAB_SIM_TRACE_H

#include <inttypes.h>

#include "lab/sim/text_file.h"
#include "sim/world.h"

static inline void trace_line(text_file *t, const sky_world_event *e) {
    static const char *const kinds[] = {
        [SKY_EVENT_ARRIVED] = "arrived",
        [SKY_EVENT_DELIVERED] = "delivered",
        [SKY_EVENT_LOST] = "lost",
        [SKY_EVENT_OVERFLOW] = "overflow",
        [SKY_EVENT_CUT] = "cut",
        [SKY_EVENT_CRASHED] = "crashed",
        [SKY_EVENT_PARTITIONED] = "partitioned",
        [SKY_EVENT_WOKE] = "woke",
        [SKY_EVENT_FROZEN] = "frozen",
        [SKY_EVENT_LINK_DOWN] = "link-down",
        [SKY_EVENT_REOPENED] = "reopened",
    };
    text_file_line(t, "%" PRId64 " %s %u,%u %u,%u %u %016" PRIx64 "\n", e->at, kinds[e->kind],
                   e->from.plane, e->from.slot, e->to.plane, e->to.slot, e->bytes, e->digest);
}

#endif
