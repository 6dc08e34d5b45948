/* Real satellites: processes that answer over UDP where a scenario's `udp` section says.
 *
 *   sky_satellite_run   one of them, until told to stop; `skymemd --satellite` is this
 *   sky_satellite_ask   how some of them are; sky_cache_satellites: those of a sky in a cache
 *
 * NULL where a value is needed ends in SKY_E_PARAM.
 *
 * The ground is a store like any other: sky_cache_open with "sky+udp:SCENARIO.yaml". */
#ifndef SKYMEM_SATELLITE_H
#define SKYMEM_SATELLITE_H

#include <skymem-sky/sky.h>
#include <skymem/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to run. */
typedef struct {
    const char *scenario_path;
    /* A file of this satellite's own, which need not be there: it keeps in it up to when it took
     * messages, so that none is taken again after a restart with a clock that was set back. NULL:
     * it trusts the clock. Rewritten once a second at most; a satellite that starts again within
     * two seconds takes nothing until they are over. */
    const char *state_path;
    sky_satellite self;
    int stop_fd;                  /* readable: end; negative: never */
    void (*ready)(void *context); /* called once when it listens; NULL is fine */
    void *context;
} sky_satellite_options;

/* Be a satellite until stop_fd is readable, on this thread. What it holds goes with it.
 * Errors: SKY_E_SYNTAX, SKY_E_PARAM (the scenario, or no such satellite), SKY_E_DENIED (the key
 *         file is open to others), SKY_E_BUSY (its port is taken), SKY_E_NOMEM, SKY_E_IO; `error`
 *         says what and where */
SKY_API sky_status sky_satellite_run(const sky_satellite_options *options, sky_error *error);

/* What one says about itself: what it holds and can hold, then counts since it started. */
typedef struct {
    sky_satellite satellite;
    bool answered; /* nothing else holds when not */
    double ms;     /* there and back */
    uint64_t chunks;
    uint64_t chunks_max;
    uint64_t sets;
    uint64_t gets;
    uint64_t misses;
    uint64_t evictions;
    uint64_t refused; /* sets, as all it holds is pinned */
    uint64_t migrated;
    uint64_t purged;    /* chunks dropped on a neighbour's word */
    uint64_t swept;     /* chunks dropped because the next of their block was gone */
    uint64_t gossip;    /* messages to neighbours about lost blocks */
    uint64_t malformed; /* messages that made no sense */
    uint64_t corrupt;   /* chunks that came damaged */
    uint64_t overflow;  /* requests that found its queue full */
    /* Datagrams refused: none of this sky's, or not for it; sent too long ago, or before it began;
     * seen before; under a wrong tag. 0 in an embedded sky. */
    uint64_t foreign;
    uint64_t stale;
    uint64_t replayed;
    uint64_t forged;
    uint64_t mended;  /* copies sent to satellites that had lost them */
    uint64_t mending; /* chunks of which another copy may be missing: it asks, or sends a copy */
} sky_satellite_stat;

/* Ask `count` satellites (stats[i].satellite says which) until all have answered or `until`.
 * Errors: as sky_satellite_run */
SKY_API sky_status sky_satellite_ask(const char *scenario_path, sky_satellite_stat *stats,
                                     size_t count, sky_time until, sky_error *error);

/* Ask the satellites of a sky that is a tier, embedded or real, plane by plane, through its ground
 * session. Each is asked again until `until`, however slow it is (0: until it counts as silent);
 * those that say nothing by then have not answered.
 * Shape:  stats [count_max]; *count: how many satellites the sky has; the first count_max are asked
 * Errors: SKY_E_PARAM (tier `tier` is no sky), SKY_E_NOMEM, SKY_E_BUSY, SKY_E_FORKED */
SKY_API sky_status sky_cache_satellites(sky_cache *cache, size_t tier, sky_time until,
                                        sky_satellite_stat *stats, size_t count_max, size_t *count);

/* Where one copy of a chunk is. */
typedef struct {
    uint32_t number;         /* of the chunk, from 1; parity included */
    uint32_t copy;           /* from 1; above 1 only with replicas */
    sky_satellite satellite; /* that has it; when none has: where it should be now */
    bool live;               /* it is there */
    bool silent;             /* nobody answered: it may be there */
} sky_chunk_copy;

/* What they come to. */
typedef struct {
    uint32_t chunks;    /* of the value, parity included */
    uint32_t copies;    /* of each */
    uint32_t live;      /* chunks of which a copy is there */
    uint32_t silent;    /* chunks of which none is, but one may be */
    uint64_t bytes;     /* of the value */
    int64_t set_ms;     /* wall: when it was put, or last moved by a prefetch */
    uint64_t rotations; /* since */
    sky_satellite overhead;
    uint32_t parity; /* pieces of it in each stripe */
    uint32_t last;   /* chunks whose loss would lose the value: with replicas those with one
                           copy left, with parity those of stripes without spare pieces */
} sky_chunk_report;

/* Ask the satellites of a sky that is a tier for each chunk of a value: it is neither read nor
 * changed. A chunk that migrates just now is looked for at both ends.
 * Shape:  places [count_max], chunk by chunk, their copies together; out->chunks × out->copies are
 *         there to know, the first count_max of them are asked for
 * Errors: SKY_E_PARAM (tier `tier` is no sky), SKY_MISS (it has no such value), SKY_E_DEADLINE
 *         (`until`, 0: none, came first), SKY_E_NOMEM, SKY_E_BUSY, SKY_E_IO, SKY_E_FORKED */
SKY_API sky_status sky_cache_chunks(sky_cache *cache, size_t tier, const sky_key *key,
                                    sky_time until, sky_chunk_copy *places, size_t count_max,
                                    sky_chunk_report *out);

/* The files a scenario's udp section names, and where its first satellite listens. Paths are in
 * its folder; tenant_path is empty when it names none. */
typedef struct {
    char base[64];
    char key_path[1024];
    char tenant_path[1024];
    uint32_t satellite_count;
    uint32_t slots; /* of a plane: satellite number i is plane i / slots + 1, slot i % slots + 1 */
} sky_satellite_site;

/* Errors: as sky_satellite_run; SKY_E_PARAM too: it has no udp section */
SKY_API sky_status sky_satellite_site_read(const char *scenario_path, sky_satellite_site *out,
                                           sky_error *error);

/* Make a key file, mode 0600. Errors: SKY_E_BUSY: there is one; SKY_E_PARAM: NULL; SKY_E_IO,
 * SKY_E_DENIED */
SKY_API sky_status sky_satellite_key_make(const char *path, sky_error *error);

#ifdef __cplusplus
}
#endif
#endif
