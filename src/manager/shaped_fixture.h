/* A tier in memory behind a link of so many bytes a second: what it gets crosses the link one after
 * the other, everything else is free. The rate can be changed at any time, and from a byte on. */
#ifndef SKY_MANAGER_SHAPED_FIXTURE_H
#define SKY_MANAGER_SHAPED_FIXTURE_H

#include "tier/tier.h"

typedef struct shaped shaped;

shaped *shaped_open(const sky_tier_env *env);
sky_tier *shaped_tier(shaped *s);
/* What lies there, without the link. */
sky_tier *shaped_memory(shaped *s);

void shaped_rate(shaped *s, double bytes_per_s);
/* … once so many more bytes have crossed. */
void shaped_rate_after(shaped *s, double bytes_per_s, uint64_t bytes);
/* From asking for a value to its first byte, where the link is free. */
void shaped_delay(shaped *s, sky_time delay_ns);
/* The next get or put of this key ends so, once. */
void shaped_refuse(shaped *s, sky_op op, const sky_key *key, sky_status status);
/* Each put takes so long from now on; SKY_TIME_NEVER: it is not answered. */
void shaped_puts_take(shaped *s, sky_time each_ns);
/* Bytes that have crossed since the last call. */
uint64_t shaped_moved(shaped *s);

#endif
