/* For tests of the protocol: a whole sky of satellites and several grounds, joined by links that
 * take their light time and nothing else, in virtual time. The test may listen to every message,
 * change it, or let it vanish. */
#ifndef SKY_GROUND_ORRERY_FIXTURE_H
#define SKY_GROUND_ORRERY_FIXTURE_H

#include "ground/session.h"

#define SKY_ORRERY_GROUNDS 4
#define SKY_ORRERY_CHUNK   256
#define SKY_ORRERY_TURN_NS SKY_SECONDS(10)

typedef struct sky_orrery sky_orrery;

/* Told of each message when it is sent; false: it is lost. It may be changed, at its own length. */
typedef bool (*sky_orrery_ear)(sky_orrery *o, sky_satellite from, sky_satellite to,
                               sky_message *message);

typedef struct {
    sky_time at;
    uint64_t order;
    sky_datagram datagram;
} sky_orrery_flight;

struct sky_orrery {
    sky_frame frame;
    sky_node_config node_config;
    sky_session_config session_config;
    sky_node *nodes;
    void **memories;
    sky_session *grounds[SKY_ORRERY_GROUNDS];
    sky_time now;
    sky_orrery_flight *flights;
    uint32_t flight_count, flight_max;
    uint64_t order;
    sky_orrery_ear ear;
    void *ear_context;
    sky_time late_ns;                 /* every message takes longer than its light, by so much */
    uint64_t sent[SKY_WIRE_TYPE_END]; /* messages, by type */
    uint64_t sent_bytes[SKY_WIRE_TYPE_END];
    uint64_t delivered, wrong;
};

/* 5 × 19 satellites, 9 servers, 1 Gb/s, no time per chunk served but 1 ms. Change the two
 * configurations before begin. */
void sky_orrery_open(sky_orrery *o, sky_strategy strategy);
void sky_orrery_begin(sky_orrery *o, uint32_t slots);
void sky_orrery_close(sky_orrery *o);

sky_key sky_orrery_key(uint32_t block);
void sky_orrery_run(sky_orrery *o, sky_time until);
/* Submit and run until the result is there. */
sky_result sky_orrery_ask(sky_orrery *o, uint32_t ground, const sky_request *request);
sky_result sky_orrery_do(sky_orrery *o, uint32_t ground, sky_op op, uint32_t block, uint32_t bytes);
void sky_orrery_crash(sky_orrery *o, sky_satellite satellite);
/* How many satellites hold chunks; *out: one of them, the n-th from 0 by number. */
uint32_t sky_orrery_holder(const sky_orrery *o, uint32_t n, sky_satellite *out);
/* Ears. All that goes to or comes from the satellite at o->ear_context is lost; … */
bool sky_orrery_cut_off(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m);
/* … nothing that turns or moves is handed over; … */
bool sky_orrery_no_migration(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m);
/* … heads are stored, and no ground hears of it. */
bool sky_orrery_no_head_ack(sky_orrery *o, sky_satellite from, sky_satellite to, sky_message *m);
/* Chunks of all satellites; of one block, heads apart. */
uint32_t sky_orrery_chunks(const sky_orrery *o);
uint32_t sky_orrery_chunks_of(const sky_orrery *o, uint32_t block);
sky_node *sky_orrery_node(const sky_orrery *o, sky_satellite satellite);

#endif
