/* A run while it goes on: run.c lets time pass, run_judge.c judges, run_ask.c asks, run_land.c has
 * what is between users and their gateways, run_reopen.c lets grounds start again. */
#ifndef SKY_LAB_SIM_RUN_STATE_H
#define SKY_LAB_SIM_RUN_STATE_H

#include "lab/sim/check.h"
#include "lab/sim/check_copies.h"
#include "lab/sim/check_fresh.h"
#include "lab/sim/check_nodes.h"
#include "lab/sim/check_sky.h"
#include "lab/sim/request_log.h"
#include "lab/sim/run.h"
#include "lab/sim/users.h"
#include "sim/world.h"

#define SKY__RUN_OPEN_MAX 512 /* requests of ours under way */

/* Who asks: a user through its gateway, or a ground for itself. */
typedef struct {
    uint32_t user; /* SKY_USER_NONE: the ground */
    uint32_t ground;
    sky_time asked; /* when the user did */
} sky__run_asker;

/* What a user asked, on its way to the gateway. */
typedef struct {
    sky__run_asker who;
    sky_time due;
    bool set;     /* this key; else what the workload says when it arrives */
    bool at_home; /* at `due` the user sends it; else it arrives then */
    uint32_t key;
} sky__run_wish;

typedef struct {
    bool open;
    sky__run_asker who;
    sky_time began; /* at the ground */
    sky_op op;
    uint32_t key;
    sky_value value; /* set */
    uint64_t crashes_before;
    bool calm;      /* nothing had gone wrong for a while when it began */
    uint64_t hurts; /* disturbances by then */
    sky_check_get get;
    sky_time floor;  /* of the get, by check_fresh.h */
    uint8_t *buffer; /* made when first needed */
    sky_key *chain;  /* [workload.chain], the same: a prompt's keys */
    uint32_t chain_count;
} sky__run_request;

/* A prompt whose lookup ended: its first key, its blocks, and how many of them are there. */
typedef struct {
    sky__run_asker who;
    uint32_t key;
    uint32_t count;
    uint32_t there;
} sky__run_prompt;

/* A key the sky forgot, and the session's count before it counted that. */
typedef struct {
    uint32_t key;
    uint64_t purged; /* blocks that had lost a chunk */
} sky__run_loss;

typedef struct {
    sky_scenario scenario;
    sky_world *world;
    sky_check check;
    sky_zipf zipf;
    sky_prng prng;
    sky_latencies *latencies;
    sky_check_fresh fresh; /* where there are several grounds */
    sky_check_copies copies;
    bool copies_noted; /* `copies` is in use: chunks that are gone are judged */
    struct {
        uint64_t gets, hits, sets, unanswered;
        sky_latencies *latencies;
        sky_latencies *of_interval; /* NULL: no series */
    } at[SKY_GROUNDS_MAX];          /* each ground */
    sky_prng ground_prng;           /* of its own: with one ground a run is what it was */
    sky_users users;
    struct {
        uint64_t gets, hits, sets, unanswered;
        sky_latencies *latencies;
    } of_user[SKY_USERS_MAX];
    sky__run_wish wishes[SKY__RUN_OPEN_MAX]; /* in the order they were made */
    uint32_t wish_count;
    sky_checksum_state hash;
    text_file trace;
    sky_request_log log;

    sky__run_request requests[SKY__RUN_OPEN_MAX];
    uint32_t open_max;
    uint32_t open_count;
    uint64_t asked;                        /* gets submitted */
    uint32_t prompts_asked;                /* of a regular workload */
    sky_result results[SKY__RUN_OPEN_MAX]; /* gets that ended in the call that just returned */
    struct {
        sky__run_asker who;
        uint32_t key;
    } missed[SKY__RUN_OPEN_MAX];
    sky__run_prompt prompts[SKY__RUN_OPEN_MAX]; /* looked up in that call */
    uint32_t prompt_count;
    sky_time request_next;
    sky_prng gap_prng;    /* of its own: what is asked for is the same however it comes */
    sky_prng other_prng;  /* of its own: without others a run is what it was */
    sky_prng sample_prng; /* of its own: looking must not change what is looked at */
    sky_prng reopen_prng; /* of its own, the same */
    sky_time reopen_next;
    sky_time sample_next;
    uint64_t samples;

    sky__run_loss
        *forgotten; /* [keys + 1] in the call under way: one may be set again and go again */
    uint32_t forgotten_count;
    uint64_t evictions_used; /* each has waived a block */
    uint64_t crashes;
    uint64_t crashed_chunks, crashed_heads;
    sky_time crashed_until;   /* the last one is back */
    sky_time disturbed_until; /* by a satellite cut off, or whose clock stood still */
    struct {
        uint64_t turn;            /* the last in which one was cut off, or its clock stopped */
        sky_time until;           /* all of these are back */
        sky_time disturbed_until; /* by those of turns before */
    } cut;
    sky_check_sky sky;
    sky_check_nodes nodes;
    bool placed;         /* every block that was put began where its placement says */
    bool places_kept;    /* among the messages in the air */
    uint64_t unexcused;  /* requests that ended in an error, though nothing went wrong lately */
    uint64_t hurts_seen; /* disturbances, counted last */
    sky_time hurt_at;    /* when there were more of them than before */
    uint64_t bytes_read;
    uint64_t steps;
    bool too_long;

    const sky_sim_options *options;
    sky_time series_next;
    sky_sim_interval interval; /* since the last one was told */
    sky_latencies *interval_latencies;
    uint64_t migrated_before;
} sky__run;

static inline bool sky__run_several(const sky__run *r) {
    return r->scenario.ground_count > 0;
}

/* run_judge.c */
/* A satellite is cut off, or its clock stands still: what that excuses, and until when. */
void sky__run_disturbed(sky__run *r, const sky_world_event *e);
/* May a block be given up now although no eviction and no crash took a chunk of it? */
bool sky__run_anything_goes(const sky__run *r);
/* All that may keep an answer away: of what happens to messages and satellites, how much did. */
uint64_t sky__run_disturbances(const sky__run *r);
/* Has nothing gone wrong since this time, as far as a ground can feel it? */
bool sky__run_is_calm(sky__run *r, uint32_t ground, sky_time since);
/* Of the ground link, at its worst. */
uint64_t sky__run_slowest_bits_s(const sky_scenario *s);
/* Those that were forgotten in a call, from the last: blocks that went together are counted
 * together, when all of them are gone. */
void sky__run_judge_forgotten(sky__run *r);
/* A request ended. */
void sky__run_judge(sky__run *r, const sky_result *result);

/* run_ask.c */
/* The next request of the workload, of any user, or ground where there are no users. */
void sky__run_ask(sky__run *r);
/* What of the workload's next request is for a ground to do, now that it is there. */
void sky__run_ask_at(sky__run *r, const sky__run_asker *who);
/* Set a key at a ground, unless that is under way, or there is no room to ask. */
void sky__run_set(sky__run *r, const sky__run_asker *who, uint32_t key);
/* What was not there is computed, and set. */
void sky__run_missed(sky__run *r, const sky__run_asker *who, uint32_t key);
/* Get what of a prompt is there, and set the others. */
void sky__run_use_prompt(sky__run *r, const sky__run_prompt *p);

/* run_reopen.c */
void sky__run_reopen_init(sky__run *r);
/* A ground starts again, if it is time for that. */
void sky__run_reopen(sky__run *r);

/* run_land.c */
/* Users, if the scenario has some. Errors: SKY_E_NOMEM */
sky_status sky__run_land_init(sky__run *r);
void sky__run_land_deinit(sky__run *r);
/* A user asks, or sends a value to be set, at `who->asked`, which may be to come. Dropped when too
 * many are on their way. */
void sky__run_wish_add(sky__run *r, const sky__run_asker *who, bool set, uint32_t key);
/* When the next arrives; SKY_TIME_NEVER: none is on its way. */
sky_time sky__run_wish_next(const sky__run *r);
/* Those whose time has come. */
void sky__run_wishes_arrive(sky__run *r);
/* How many are on their way that may become gets. */
uint32_t sky__run_wishes_asking(const sky__run *r);
/* How long after a result of its ground its user has it; counts it. 0: a ground asked. */
sky_time sky__run_land_result(sky__run *r, const sky__run_request *q, const sky_result *result);
void sky__run_land_report(const sky__run *r, sky_sim_result *out);

#endif
