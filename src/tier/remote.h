/* What tiers to another process (shm/) and to another host (peer/) have in common: how a call and
 * its payloads are put into frames, and what is counted of the answers. */
#ifndef SKY_TIER_REMOTE_H
#define SKY_TIER_REMOTE_H

#include <skymem/cache.h>

#include "base/bytes.h"
#include "base/metrics.h"
#include "tier/batch.h"

/* A call as frames have it: its deadline is what is left of it, as clocks differ. */
typedef struct {
    uint64_t left_ns; /* until its deadline; 0: none */
    int64_t at_ms;    /* as in sky_call, as the next */
    uint32_t ttl_s;
    sky_coding coding, wanted;
    bool durable, drop;
    uint8_t evict;
} sky__call_fields;

sky__call_fields sky__call_to_fields(const sky_call *call, sky_time now);
/* Tiers, owner and event are left 0. A deadline of more than 11 days is none. */
sky_call sky__call_from_fields(const sky__call_fields *fields, sky_time now);

void sky__write_call(sky_writer *w, const sky__call_fields *fields);
/* A field that sky__write_call does not write fails the reader. */
void sky__read_call(sky_reader *r, sky__call_fields *out);

/* May the spans of a put go to a store that takes payloads of bytes_max? *bytes: they have so many.
 * Errors: SKY_E_PARAM: spans without data, a name or a payload that is too long; SKY_E_FULL */
sky_status sky__check_put(const sky_item *item, uint64_t bytes_max, uint64_t *bytes);

void sky__count_answer(sky_tier_counts *counts, sky_op op, const sky_answer *answer);
/* The `tier` of what a host answered: that of the tier which speaks to it, also of a failure of a
 * tier of the host's, so that the cache does not take the host itself for failing (tier_slot.c). */
uint8_t sky__answering_tier(uint8_t index, sky_status status);

#endif
