/* The study of the seed authors, point by point. */
#ifndef SKY_LAB_SIM_STUDY_H
#define SKY_LAB_SIM_STUDY_H

#include <skymem-sky/sky.h>

#include "lab/sim/workload.h"

/* One point of the study: one block is set and got, by the session and satellites that fly. The
 * sky is the ideal one; with loss 0 and no rates it is the seed authors' own model. */
typedef struct {
    sky_constellation constellation;
    sky_placement placement;
    sky_satellite centre;
    uint32_t chunk_bytes;
    uint64_t block_bytes;
    sky_time processing_ns; /* per chunk */
    uint64_t isl_bits_s;    /* 0: no limit */
    uint64_t ground_bits_s;
    double loss;     /* of a datagram */
    uint32_t parity; /* pieces in each stripe of `servers` chunks */
    uint32_t gets;   /* 0: the formula alone */
    uint64_t seed;
    bool datagrams; /* the transport of real satellites flies, and its datagrams are lost */
} sky_study_point;

typedef struct {
    /* What the authors tell: when each server's satellite had served its last chunk, light to it
     * counted one way. Of the first get; servers without a chunk take their light's time. */
    double served_max_s, served_min_s, served_avg_s;
    /* The same by their formula: distance / light + chunks of the server × processing. */
    double formula_max_s, formula_min_s, formula_avg_s;
    double off_ns_max; /* the largest difference between the two, of any server */
    /* Until the block was there, light counted both ways, and the wait for the link. */
    sky_quantile get_p50, get_p99;
    double get_max_ms;
    double to_payload; /* bytes of all messages (or datagrams) of the gets to bytes asked for */
    uint32_t answered; /* gets that were */
    uint64_t events;
} sky_study_result;

/* 2.9 MiB in chunks of 6 KiB on 25 servers of Starlink's first shell, by rotation and hop, over
 * lasers of 100 Gb/s. */
sky_study_point sky_study_starlink(uint64_t ground_bits_s, uint32_t parity, uint32_t gets);

/* Errors: SKY_E_PARAM (the point cannot be; `error` says why), SKY_E_NOMEM, SKY_E_IO (the set found
 * no answer) */
sky_status sky_study_run(const sky_study_point *point, sky_study_result *out, sky_error *error);

#endif
