/* What an embedded sky can tell about itself, and what scenarios say of a sky. */
#ifndef SKYMEM_SIM_H
#define SKYMEM_SIM_H

#include <skymem-sky/sky.h>
#include <skymem/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the time of the last gets from an embedded sky went, those that were under way together:
 * the path of their last chunk, and what the sky did so far. The four parts add up to total_ns. */
typedef struct {
    sky_time total_ns;
    sky_time light_ns;      /* there and back, at the speed of light */
    sky_time link_ns;       /* serialisation, and waiting for the link behind other chunks */
    sky_time processing_ns; /* at the satellite: its time per chunk, and waiting behind others */
    sky_time session_ns;    /* held back by the session's window */
    uint64_t chunks;
    uint64_t rotations; /* since the tier was opened */
    uint64_t migrated_chunks;
    uint64_t migrated_bytes;
    uint64_t purged_blocks;
    sky_strategy strategy;
    uint32_t servers;
    sky_satellite overhead;
    uint32_t silent;              /* satellites that have not answered for some time */
    sky_satellite silent_one;     /* one of them */
    uint64_t refused_stale;       /* datagrams that came to the ground but were sent long before or
                                 after, by its clock */
    uint64_t refused_forged;      /* … that were made under another key, or tampered with */
    uint64_t refused_unsupported; /* … of another version, or of a cipher that udp.cipher does not
                                     allow here */
    uint32_t told_chunks;    /* of the last removal or pin over real satellites: copies of chunks
                                and heads that it was about, … */
    uint32_t unheard_chunks; /* … and of those, on satellites that did not answer */
} sky_sky_report;

/* Errors: SKY_E_PARAM (tier `tier` is no sky), SKY_E_FORKED */
SKY_API sky_status sky_cache_sky_report(sky_cache *cache, size_t tier, sky_sky_report *out);

/* The part of a scenario file that describes the sky: for `locate --scenario` and for tools. In a
 * physical sky the orbits decide which satellite is overhead: *centre is {0, 0} there, unless the
 * strategy is hop.
 * Errors: SKY_E_SYNTAX, SKY_E_PARAM (the scenario; `error` has file, line and reason; or NULL),
 *         SKY_E_NOMEM, SKY_E_IO */
SKY_API sky_status sky_scenario_read(const char *path, sky_constellation *constellation,
                                     sky_placement *placement, sky_satellite *centre,
                                     sky_error *error);

#ifdef __cplusplus
}
#endif
#endif
