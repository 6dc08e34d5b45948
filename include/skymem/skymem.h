/* SkyMemory: one prefix cache for the attention state of language models, anywhere in the memory
 * hierarchy. This header is all of it; read the parts in this order.
 *
 *   types.h    keys, spans, ranges, times          status.h   what a call came to
 *   keys.h     prompts as chained block keys
 *   cache.h    payloads under keys, in tiers       ← any program that wants a store starts here
 *   metrics.h  what a cache counts, as numbers and as Prometheus's text
 *   tier.h     stores of your own, as tiers
 *   engine.h   what an engine adapter provides
 *   manager.h  prompt in, engine state out         ← a program that runs models starts here
 *   stream.h   does it pay to store, and at which level
 *   codec.h    rows of KV to fewer bytes and back
 *
 * Constellations are a library of their own, libskymem-sky: skymem-sky/skies.h. */
#ifndef SKYMEM_SKYMEM_H
#define SKYMEM_SKYMEM_H

#include <skymem/cache.h>
#include <skymem/codec.h>
#include <skymem/engine.h>
#include <skymem/keys.h>
#include <skymem/manager.h>
#include <skymem/metrics.h>
#include <skymem/status.h>
#include <skymem/stream.h>
#include <skymem/tier.h>
#include <skymem/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_VERSION_MAJOR 0
#define SKY_VERSION_MINOR 1
#define SKY_VERSION_PATCH 0
/* Grows with each version: major × 1,000,000 + minor × 1,000 + patch. */
#define SKY_VERSION_NUMBER                                                                         \
    (SKY_VERSION_MAJOR * 1000000u + SKY_VERSION_MINOR * 1000u + SKY_VERSION_PATCH)
#define SKY_VERSION "0.1.0"
/* The version of the library in use, such as "0.1.0". */
SKY_API const char *sky_version(void);
/* SKY_VERSION_NUMBER of the library in use, which may be newer than that of this header. */
SKY_API uint32_t sky_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
