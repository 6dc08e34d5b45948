/* A scenario file: the constellation, links, workload and faults that the embedded sky and the
 * simulator take. docs/formats/scenario.md is the format for people; this is what it comes to.
 *
 * Surprises: the text may be hostile, so anchors, aliases, tags and duplicate keys are refused, and
 * every number has a range. A value this version cannot honour (a physical sky, TLE files) is an
 * error, never silently ignored. Units are resolved here: nobody else sees a millisecond. */
#ifndef SKY_SIM_SCENARIO_H
#define SKY_SIM_SCENARIO_H

#include <skymem/sky.h>

typedef enum {
    SKY_LOOKUP_INDEX,      /* the ground's own block index */
    SKY_LOOKUP_BINARY,     /* ask the nearest satellite for first chunks, by halving */
    SKY_LOOKUP_SEQUENTIAL, /* the same, block after block */
} sky_lookup_kind;

/* How the rest of a block goes when one chunk is gone: any of these, together. */
#define SKY_EVICT_GOSSIP 1u /* the satellite tells its neighbourhood */
#define SKY_EVICT_LAZY   2u /* the client that misses a chunk purges the others */
#define SKY_EVICT_SWEEP  4u /* satellites look for incomplete blocks now and then */

#define SKY_SCENARIO_BYTES_MAX (64u << 10)
#define SKY_CHUNK_BYTES_MIN    512u
#define SKY_CHUNK_BYTES_MAX    32768u /* what one message carries */

typedef struct {
    sky_constellation constellation; /* earth_radius_km and light_km_s filled in */
    sky_satellite centre;            /* overhead at the start */
    sky_placement placement;         /* resolved: the window is filled in */

    struct {
        double latitude_deg;
        double longitude_deg;
        double altitude_m;
        double min_elevation_deg;
    } observer; /* read and checked; the ideal sky has its observer under the centre */

    uint32_t chunk_bytes;
    struct {
        uint64_t memory_bytes;
        sky_time processing_ns; /* per chunk */
    } satellite;
    struct {
        uint64_t isl_bits_s;
        uint64_t ground_bits_s;
        double loss;        /* probability that a message is lost, per link */
        sky_time jitter_ns; /* uniform in [0, jitter_ns), per link */
        uint64_t queue_bytes;
    } links;
    struct {
        int64_t start_ms;     /* wall, of virtual time 0 */
        double scale;         /* the embedded sky turns this much faster than the clock */
        sky_time rotation_ns; /* one slot passes, before scaling; auto: period / slots */
    } time;

    sky_lookup_kind lookup;
    uint32_t eviction; /* SKY_EVICT_… */

    struct {
        uint32_t keys;
        uint64_t gets;
        uint64_t value_bytes;
        double zipf;
        sky_time every_ns; /* between two requests */
    } workload;
    struct {
        double crash_per_h; /* of all satellites together */
        double partition_per_h;
        double corrupt; /* probability, per message */
        double duplicate;
        double reorder;
        sky_time skew_ns; /* satellites' clocks are off by up to this */
        uint32_t liar_satellites;
    } faults;
    sky_time until_ns;
} sky_scenario;

/* Read a scenario from text. `path` is what messages call the file.
 * Errors: SKY_E_SYNTAX (no YAML, or YAML this format has no use for), SKY_E_PARAM (an unknown key,
 *         a value out of range), SKY_E_UNSUPPORTED (a value for a later version), SKY_E_NOMEM;
 *         `error` has "path:line: reason" and what is allowed */
sky_status sky_scenario_parse(const char *text, size_t bytes, const char *path, sky_scenario *out,
                              sky_error *error);

/* The same from a file. Errors: also SKY_E_IO, SKY_E_DENIED */
sky_status sky_scenario_load(const char *path, sky_scenario *out, sky_error *error);

#endif
