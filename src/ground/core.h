/* What all parts of a session share: its configuration and what follows from it, the time of the
 * call under way, the counters, and what the links lose. And the layout of a block: how many
 * chunks it has, how long they are, and where each may be by now. Functions of the core alone.
 *
 *   session ─┬─► request table       what callers asked for
 *            ├─► scheduler           messages to satellites, and their answers
 *            └─► block table ─► bulk   what is known of blocks; commands about whole blocks
 *                        all ─► core
 */
#ifndef SKY_GROUND_CORE_H
#define SKY_GROUND_CORE_H

#include "ground/redundancy.h"
#include "ground/session.h"

#define SKY__NONE UINT32_MAX

#define SKY__ENDED_MAX 64 /* blocks that one put has satellites evict, as a rule */

/* What the links lose, of what was asked lately. */
typedef struct {
    double gets; /* share of chunks asked for that were not answered at once */
    double all;  /* of those asked for and set, more lately */
    uint32_t samples;
} sky__loss;

typedef struct {
    sky_session_config config;
    uint32_t servers;
    sky_stripes stripes;
    uint32_t head_copies;
    sky_time now; /* of the call that is under way */
    sky_session_stat stat;
    sky__loss loss;
    uint64_t heads_at; /* rotations + 1 for which the next is known; 0: none */
    bool heads_cut_off;
    uint64_t hidden_at; /* rotations + 1 for which `hidden` is known; 0: none */
    /* A head that was set before this turn may be where it is not asked for: [0] by an ordinary
     * question, [1] when its last places are asked too. */
    uint64_t hidden[2];
    uint64_t ended[SKY__ENDED_MAX]; /* versions of blocks that ended lately, the oldest next */
    uint32_t ended_next;
} sky__core;

void sky__core_init(sky__core *c, const sky_session_config *config);

/* A block of this version has ended: it was removed, or satellites evicted a chunk of it. False:
 * that was known, as far as SKY__ENDED_MAX versions are. */
bool sky__block_ended(sky__core *c, uint64_t version);

/* ---- losses ---- */

/* A chunk was asked for (`get`) or set, and answered or not. */
void sky__loss_note(sky__core *c, bool get, bool lost);
/* So many requests in a row that nobody answers are not explained by the losses seen lately. */
uint32_t sky__silent_requests(const sky__core *c);
/* How often more, at most `more_max` times, a message is sent that nobody answers, so that at most
 * this share of such messages arrives nowhere, by the loss of gets seen lately. */
uint32_t sky__sends_more(const sky__core *c, double unheard_max, uint32_t more_max);

/* Copies of a block's head. */
uint32_t sky__head_copies(const sky_session_config *c);

/* ---- blocks, as they are laid out ---- */

/* Where a block's chunks are, as a function of time. set_ms 0: no such epoch. */
typedef struct {
    int64_t set_ms;
    sky_satellite centre;
} sky__epoch;

/* A block, as requests and repairs ask for it. */
typedef struct {
    sky_chunk_id id;       /* key and version; number unused */
    sky_chunk_facts facts; /* all but first, next and checksum */
    sky_block_info info;
    sky__epoch before; /* where chunks may be that a MOVE did not reach */
} sky__subject;

uint64_t sky__rotations(const sky__core *c);
/* The calendar's time of the call, which all grounds share. */
int64_t sky__calendar_ms(const sky__core *c);
/* Heads' versions begin with the time they were made at. One from a time to come would make all
 * that is put from now on bear its date. */
bool sky__version_too_new(const sky__core *c, uint64_t version);
uint32_t sky__data_chunks(const sky__core *c, uint32_t payload_bytes);
uint32_t sky__chunk_length(const sky__core *c, uint32_t payload_bytes, uint32_t number);
uint32_t sky__server_of(const sky__core *c, uint32_t number, uint32_t copy);
/* Chunks of one copy of a block that are on its server `server`, from 1. */
uint32_t sky__chunks_on(const sky__core *c, uint32_t chunks, uint32_t server);
/* What is the same for all chunks of a block. */
sky_chunk_facts sky__block_facts(const sky__core *c, const sky_block_info *info, bool pinned);
/* Complete a block's facts for one chunk, number 0 included. */
void sky__facts_of(const sky__core *c, sky_chunk_facts *facts, uint32_t number, uint32_t copy);
/* Where a chunk is now. */
sky_satellite sky__place_now(const sky__core *c, const sky_chunk_facts *facts);
/* What a block would be in another epoch. */
sky_block_info sky__info_at(const sky_block_info *info, const sky__epoch *epoch);
sky_block_head sky__head_of(const sky__core *c, const sky_block_info *info, uint64_t version,
                            const sky__epoch *before, bool named);

#define SKY__PLACES_MAX (5 + 2 * SKY_LAST_STEPS)
/* All places a chunk of this server may be in, the likeliest first. before: NULL, or the epoch the
 * block came from. */
uint32_t sky__places(const sky__core *c, const sky_chunk_facts *facts, const sky__epoch *before,
                     uint32_t server, sky_satellite places[SKY__PLACES_MAX]);
/* The last turn before the centre made its last `steps` steps. In an ideal sky each turn is one. */
uint64_t sky__turn_back(const sky__core *c, uint32_t steps);
/* Add the places that a chunk had in the last steps of the centre (orbit/frame.h). */
void sky__last_places(const sky__core *c, const sky_chunk_facts *facts,
                      sky_satellite places[SKY__PLACES_MAX], uint32_t *count);
/* A chunk's facts in the epoch its block came from. */
sky_chunk_facts sky__facts_before(const sky__core *c, const sky_chunk_facts *facts,
                                  const sky__epoch *before, uint32_t server);
/* In a true sky: may it have stayed behind for longer than the last turns, because no laser led
 * from its satellite to the next? */
bool sky__may_be_cut_off(const sky__core *c, const sky_chunk_facts *facts);
/* … or a head, of any key: heads have their places in common. */
bool sky__heads_may_be_cut_off(sky__core *c);
/* … or one that was set later than this version: on a satellite that no laser leads to from here,
 * or one that none led away from. `traced`: the last places were asked too, and all answered. Only
 * the first copy of heads counts, which every put of a name sets (put.c). */
bool sky__newer_head_may_hide(sky__core *c, uint64_t head_version, bool traced);

#endif
