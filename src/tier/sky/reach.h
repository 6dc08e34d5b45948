/* How a sky tier reaches its satellites: they are in this process, in a world of virtual time
 * (sim/sim_tier.c), or they are real and answer over UDP (tier/skyudp/skyudp.c).
 *
 * Used by one thread at a time. */
#ifndef SKY_TIER_SKY_REACH_H
#define SKY_TIER_SKY_REACH_H

#include "config/scenario.h"
#include "ground/session.h"
#include "satellite/node.h"
#include "tier/tier.h"
#include "transport/transport.h"

typedef struct sky_reach sky_reach;

/* What the satellites did since the tier was opened, as far as it is known here. */
typedef struct {
    uint64_t turns;
    sky_satellite overhead;
    sky_node_stat nodes;          /* of all together; of real ones what the ground saw */
    sky_transport_stat transport; /* the ground's; of an embedded sky, all stations together */
} sky_reach_stat;

/* What lies in their memory, compared with the index. */
typedef struct {
    uint64_t entries;
    uint64_t bytes;
    uint64_t corrupt; /* blocks with a chunk that is missing or wrong */
    uint64_t orphans; /* chunks that no block and no put under way owns */
} sky_reach_check;

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
    void (*stats)(const sky_reach *r, sky_reach_stat *out);
    /* Look at the satellites' memory; NULL: it can only be read through the tier. */
    void (*check)(const sky_reach *r, sky_reach_check *out);
    /* All that was to be said of its own accord has arrived, as far as is known; NULL: nobody is
     * there to hear it any more. */
    bool (*settled)(const sky_reach *r);
    void (*destroy)(sky_reach *r);
    bool outlives; /* its satellites go on without this process, and know of no time to live */
} sky_reach_ops;

struct sky_reach {
    const sky_reach_ops *ops;
};

/* Where the session's payloads come from and go to: see sky_session_config. */
typedef struct {
    void *context;
    bool (*fetch)(void *host, void *request, uint64_t offset, void *data, size_t bytes);
    bool (*deliver)(void *host, void *request, uint64_t offset, const void *data, size_t bytes);
    void (*forgotten)(void *host, uint32_t block, const sky_key *key);
    /* What is put, where it lies; then: it was read. */
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
