/* For tests of the session: a ground without a sky; the test says what satellites would answer. */
#ifndef SKY_GROUND_SESSION_FIXTURE_H
#define SKY_GROUND_SESSION_FIXTURE_H

#include "ground/session.h"

#define SKY_GROUND_CHUNK    256
#define SKY_GROUND_TURN_NS  SKY_SECONDS(10)
#define SKY_GROUND_SENT_MAX 256

typedef struct {
    sky_satellite to;
    sky_time at;
    sky_message message;
    uint8_t data[SKY_GROUND_CHUNK];
} sky_ground_sent;

typedef struct {
    sky_frame frame;
    sky_session *session;
    sky_time now;
    sky_ground_sent sent[SKY_GROUND_SENT_MAX];
    uint32_t sent_count;
    uint64_t delivered;
    uint64_t wrong;
    uint32_t forgotten;
    bool opened; /* what is said to it opened under its tenant's key */
    bool gone;   /* the host no longer has what it put, nor room for what it got */
} sky_ground;

/* `slots` chunks a satellite, `operations` on the way at most; 3 retries; 1 Gb/s. */
void sky_ground_open(sky_ground *g, uint32_t slots, uint32_t operations);
/* 100 slots, 64 operations; blocks that lost a chunk leave the sky as SKY_EVICT_… says. */
void sky_ground_open_evicting(sky_ground *g, uint32_t eviction);
/* The first, with so many parity pieces in stripes of 9. */
void sky_ground_open_parity(sky_ground *g, uint32_t slots, uint32_t operations, uint8_t parity);
/* The same as the first, of sealed chunks. */
void sky_ground_open_sealed(sky_ground *g, uint32_t slots, uint32_t operations);
void sky_ground_close(sky_ground *g);
/* Payloads are made from the number of their block. */
void sky_ground_ask(sky_ground *g, sky_op op, uint32_t block, uint32_t bytes);
/* Take down in g->sent what the session sends until `until`; time passes only as it asks. */
void sky_ground_listen(sky_ground *g, sky_time until);
void sky_ground_say(sky_ground *g, const sky_message *m, sky_satellite from);
/* What an honest satellite that holds `stored` answers to a message. */
sky_message sky_ground_answer(const sky_ground_sent *s, const sky_ground_sent *stored,
                              uint32_t count);
/* The next result, which must be there. */
sky_result sky_ground_result(sky_ground *g);
/* No result is there. */
bool sky_ground_silent(sky_ground *g);
/* Put a block, all of it acknowledged; its SETs go to `stored` unless NULL. Returns how many. */
uint32_t sky_ground_put(sky_ground *g, uint32_t block, uint32_t bytes, sky_ground_sent *stored);
sky_session_stat sky_ground_stat(const sky_ground *g);

#endif
