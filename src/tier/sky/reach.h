/* How a sky tier reaches its satellites: they are in this process, in a world of virtual time
 * (world.c), or they are real and answer over UDP (tier/skyudp/skyudp.c).
 *
 * Used by one thread at a time. */
#ifndef SKY_TIER_SKY_REACH_H
#define SKY_TIER_SKY_REACH_H

#include "ground/session.h"
#include "sim/world.h"
#include "tier/tier.h"

typedef struct sky_reach sky_reach;

typedef struct {
    sky_time (*now)(const sky_reach *r); /* sky time that it should be */
    /* Let happen what is due up to `until`, at most now. */
    void (*run)(sky_reach *r, sky_time until);
    /* Sky time of what comes next; SKY_TIME_NEVER: nothing. */
    sky_time (*next)(const sky_reach *r);
    int (*fd)(const sky_reach *r); /* readable: something came; -1: there is no such thing */
    sky_status (*submit)(sky_reach *r, const sky_request *request);
    bool (*result)(sky_reach *r, sky_result *out);
    const sky_session *(*session)(const sky_reach *r);
    /* What the session and its satellites call a key; NULL: the key itself. */
    void (*name)(const sky_reach *r, const sky_key *key, sky_key *name);
    int64_t (*wall_ms)(const sky_reach *r, int64_t set_ms); /* of the session's calendar */
    void (*stats)(const sky_reach *r, sky_world_stat *out); /* what of it is known here */
    /* Look at the satellites' memory; NULL: it can only be read through the tier. */
    void (*check)(const sky_reach *r, sky_world_check *out);
    void (*destroy)(sky_reach *r);
    bool outlives; /* its satellites go on without this process, and know of no time to live */
} sky_reach_ops;

struct sky_reach {
    const sky_reach_ops *ops;
};

/* Errors: as sky_world_create */
sky_status sky_reach_world(const sky_scenario *scenario, uint64_t seed, const sky_clock *clock,
                           const sky_world_host *host, sky_reach **out, sky_error *error);

/* What a tier offers to who reaches its satellites: besides what a world is given, to lend what is
 * put where it lies (sky_session_config), and to be told that it was read; that of nothing too. */
typedef struct {
    sky_world_host world;
    const uint8_t *(*lend)(void *host, void *request, uint64_t offset, size_t bytes);
    void (*give_back)(void *host);
} sky_reach_host;

/* A tier over any of them. `reach` is called with the host whose functions the session is to
 * call. Errors: what it returns, SKY_E_NOMEM, SKY_E_IO */
typedef sky_status (*sky_reach_open)(void *context, const sky_clock *clock,
                                     const sky_reach_host *host, sky_reach **out, sky_error *error);
sky_status sky_reach_tier_create(const char *url, const sky_scenario *scenario,
                                 sky_reach_open reach, void *context, const sky_tier_env *env,
                                 sky_tier **out, sky_error *error);

#endif
