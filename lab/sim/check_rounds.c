#include "lab/sim/check_rounds.h"

#include "wire/message.h"

#define BY_CHANCE  1e-9
#define ROUNDS_MAX 100000 /* for good */

#define DATAGRAM_BYTES 1232

static bool is_lossy(const sky_scenario *s) {
    return s->links.loss > 0 || s->links.ground_loss > 0 || s->links.isl_loss > 0 ||
           s->faults.corrupt > 0 || s->faults.reorder > 0 || s->faults.hostile_per_s > 0 ||
           s->elevation_count > 0 || s->weather_count > 0;
}

/* The fewest rounds that all fail by chance alone hardly ever. */
static uint32_t rounds_of(double succeeds, uint32_t least) {
    uint32_t rounds = 0;
    for (double fail = 1; rounds < least || (fail > BY_CHANCE && rounds < ROUNDS_MAX); rounds++)
        fail *= 1 - succeeds;
    return rounds;
}

static double all_arrive(double each, uint32_t count) {
    double product = 1;
    for (uint32_t i = 0; i < count; i++)
        product *= each;
    return product;
}

/* Datagrams of a message that has a whole chunk. */
static uint32_t chunk_datagrams(const sky_scenario *s, sky_wire_type type) {
    uint64_t value = s->workload.value_bytes;
    uint64_t data = value < s->chunk_bytes ? value : s->chunk_bytes;
    return (uint32_t)((sky_message_data_offset(type) + data + DATAGRAM_BYTES - 1) / DATAGRAM_BYTES);
}

/* ---- copies ---- */

/* Copies are looked for twice a turn, at least once in a minute, from an eighth of a turn after it
 * on. Where messages get lost, more rounds may be needed. */
#define ROUNDS       3
#define ROUNDS_LOSSY 10

/* COPIES, its answer, HAS, its answer and the chunk follow each other, and none is repeated. With
 * `datagrams` the transport repeats what gets lost. */
static double repair_succeeds(const sky_scenario *s) {
    double loss = s->links.isl_loss > 0 ? s->links.isl_loss : s->links.loss;
    double arrives = all_arrive(1 - loss, 4 + chunk_datagrams(s, SKY_WIRE_MIGRATE));
    return s->links.datagrams ? 1 : arrives * all_arrive(1 - s->faults.corrupt, 5);
}

sky_time sky_check_repair_ns(const sky_scenario *s) {
    double turn = (double)s->time.rotation_ns / (s->time.scale > 0 ? s->time.scale : 1);
    double period = s->satellite.repair_ns > 0 ? (double)s->satellite.repair_ns : turn / 2;
    if (s->satellite.repair_ns == 0 && period > 60e9)
        period = 60e9;
    double grace = turn / 8 < 10e9 ? turn / 8 : 10e9;
    uint32_t rounds = rounds_of(repair_succeeds(s), is_lossy(s) ? ROUNDS_LOSSY : ROUNDS);
    return (sky_time)(2 * grace + rounds * period);
}

/* ---- pieces of stripes ---- */

/* A ground that stays open looks after each block once in ten minutes, or one a second; a satellite
 * that does not answer then is asked in the next round. Where messages get lost, more rounds may be
 * needed. */
#define PATROL_NS SKY_SECONDS(600)
#define PATROLS   2

sky_time sky_check_mend_ns(const sky_scenario *s) {
    sky_time blocks_ns = (sky_time)s->workload.keys * SKY_SECONDS(1);
    sky_time round_ns = blocks_ns > PATROL_NS ? blocks_ns : PATROL_NS;
    return (is_lossy(s) ? 2 * PATROLS : PATROLS) * round_ns;
}
