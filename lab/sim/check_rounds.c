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
#define PATROL_NS     SKY_SECONDS(600)
#define PATROLS       2
#define PATROLS_LOSSY 4

#define ANSWERS   3    /* that a piece is gone: one after the other, with no silence between, … */
#define SILENCES  16   /* … before so many */
#define SENDS_MAX 4    /* of a piece that was made again, or fewer, … */
#define UNHEARD   0.01 /* … if so few of its kind get lost each time */

/* Of a datagram between ground and sky, at the worst elevation. */
static double ground_arrives(const sky_scenario *s) {
    double loss = s->links.ground_loss > 0 ? s->links.ground_loss : s->links.loss, worst = 0;
    for (uint32_t i = 0; i < s->elevation_count; i++)
        worst = s->elevations[i].quality.loss > worst ? s->elevations[i].quality.loss : worst;
    return (1 - loss) * (1 - worst);
}

/* That a piece is gone is found out, and it is sent back, which nobody acknowledges. */
static double mend_succeeds(const sky_scenario *s) {
    double each = ground_arrives(s), whole = 1 - s->faults.corrupt;
    double piece = all_arrive(each, chunk_datagrams(s, SKY_WIRE_SET)) * whole;
    double answers = all_arrive(each * each * whole * whole, ANSWERS);
    double unheard = 1 - each * piece, none = 1 - piece;
    for (uint32_t sends = 1; sends < SENDS_MAX && unheard > UNHEARD; sends++) {
        unheard *= 1 - each * piece;
        none *= 1 - piece;
    }
    return s->links.datagrams ? 1 : (1 - all_arrive(1 - answers, SILENCES)) * (1 - none);
}

/* While the weather is bad nothing may succeed. */
sky_time sky_check_mend_ns(const sky_scenario *s) {
    sky_time blocks_ns = (sky_time)s->workload.keys * SKY_SECONDS(1), weather_ns = 0;
    sky_time round_ns = blocks_ns > PATROL_NS ? blocks_ns : PATROL_NS;
    for (uint32_t i = 0; i < s->weather_count; i++)
        weather_ns += s->weathers[i].to_ns - s->weathers[i].from_ns;
    return rounds_of(mend_succeeds(s), is_lossy(s) ? PATROLS_LOSSY : PATROLS) * round_ns +
           weather_ns;
}
