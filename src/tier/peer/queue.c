/* What waits for the lanes of a peer: below all that queues or serves. */
#include <stdlib.h>

#include "base/bytes.h"
#include "tier/peer/choice.h"
#include "tier/peer/peer_state.h"
#include "tier/spans.h"

#define FRAME_LOAD 256u /* what an operation costs besides its payload, in bytes */

/* ---- routes ---- */

static uint64_t load_of(sky_op op, const sky_item *item) {
    bool payload = op == SKY_OP_GET || op == SKY_OP_PUT;
    uint64_t bytes = payload ? sky_spans_bytes(item->spans, item->span_count) : 0;
    return FRAME_LOAD + (bytes < SKY_PAYLOAD_BYTES_MAX ? bytes : SKY_PAYLOAD_BYTES_MAX);
}

static uint32_t idlest_lane(const sky__peer *p) {
    uint32_t found = 0;
    for (uint32_t n = 1; n < p->lane_count; n++)
        found = p->loads[n] < p->loads[found] ? n : found;
    return found;
}

sky__peer_ride sky__peer_route_take(sky__peer *p, sky_op op, const sky_item *item) {
    uint32_t n = sky_load_u32(item->key.bytes) % SKY__PEER_ROUTES; /* keys are hashes */
    sky__peer_route *r = &p->routes[n];
    uint64_t load = load_of(op, item);
    if (r->users++ == 0)
        r->lane = idlest_lane(p);
    p->loads[r->lane] += load;
    return (sky__peer_ride){n, load};
}

void sky__peer_route_give(sky__peer *p, const sky__peer_ride *ride) {
    sky__peer_route *r = &p->routes[ride->route];
    r->users--;
    p->loads[r->lane] -= ride->load;
}

/* ---- jobs ---- */

void sky__peer_job_free(sky__peer *p, sky__peer_job *j) {
    for (uint32_t n = 0; j && n < j->count; n++)
        sky__peer_route_give(p, &j->parts[n].ride);
    free(j);
}

void sky__peer_queue(sky__peer_lane *l, sky__peer_job *j) {
    *(l->first ? &l->last->next : &l->first) = j;
    l->last = j;
    l->peer->job_count++;
    sky_event_raise(l->event);
}

void sky__peer_note_round_trip(sky__peer_lane *l, sky_time took) {
    sky__peer_host *h = l->host;
    sky_mutex_lock(&l->peer->mutex);
    h->round_trip_ns = sky_peer_round_trip(h->round_trip_ns, (uint64_t)took);
    sky_mutex_unlock(&l->peer->mutex);
}
