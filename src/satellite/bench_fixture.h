/* For tests of one satellite, at (3,5): the test says what it hears, and hears what it says. */
#ifndef SKY_SATELLITE_BENCH_FIXTURE_H
#define SKY_SATELLITE_BENCH_FIXTURE_H

#include "satellite/node.h"

#define BENCH_TURN_NS  SKY_SECONDS(10)
#define BENCH_SERVE_NS SKY_MS(2)

typedef struct {
    sky_node node;
    sky_node_config config;
    uint8_t *memory;
    size_t bytes;
    uint8_t buffer[SKY_WIRE_BYTES_MAX];
    sky_satellite to; /* of the message heard last */
} bench;

extern uint8_t bench_payload[256]; /* of the chunk that bench_set made last */

/* `slots` chunks fit. */
void bench_open(bench *b, uint32_t slots);
/* Checks that nothing was written behind the node's memory. */
void bench_close(bench *b);
sky_chunk_id bench_name(uint32_t block, uint32_t number);
/* A chunk of `block` whose first place is `first`. */
sky_message bench_set(sky_wire_type type, uint32_t block, sky_satellite first);
void bench_tell_from(bench *b, sky_time now, const sky_message *m, sky_satellite from);
/* From the ground. */
void bench_tell(bench *b, sky_time now, const sky_message *m);
void bench_ask(bench *b, sky_time now, sky_wire_type type, uint32_t block);
/* What it says now; false: nothing. */
bool bench_hear(bench *b, sky_time now, sky_message *m);
/* The acknowledgement of the MIGRATE that it sends next, to b->to. */
sky_message bench_taken(bench *b, sky_time now);
/* Let it do all it has to do up to `until`; what it says on the way is dropped. */
void bench_run(bench *b, sky_time until);
void bench_silent(bench *b, sky_time now);

#endif
