/* What waits for the lanes of a peer: below all that queues or serves. */
#include "tier/peer/choice.h"
#include "tier/peer/peer_state.h"

uint32_t sky__peer_lane_of(const sky__peer *p, const sky_key *key) {
    return key->bytes[SKY_KEY_BYTES - 1] % p->lane_count; /* keys are hashes */
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
