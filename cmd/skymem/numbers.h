/* The numbers of a cache (skymem/metrics.h) as JSON and for people. */
#ifndef SKYMEM_CMD_NUMBERS_H
#define SKYMEM_CMD_NUMBERS_H

#include "cli.h"

/* Add each tier's numbers to objects[tier], and return those of the cache itself. Groups of a sky
 * stand in "session" and "transport"; a histogram is {count, sum_s, p50_s, p99_s}, its quantiles as
 * the bounds of their buckets, null beyond the last. */
json_t *numbers_json(sky_cache *cache, json_t *const objects[SKY_TIERS_MAX]);

/* A line for each number that is not 0 and that the table of tiers does not show. */
void numbers_print(const cli_store *store);

/* Prometheus's text to standard output. */
int numbers_prometheus(const cli *c, const cli_store *store);

#endif
