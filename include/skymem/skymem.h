/* SkyMemory: one prefix cache for the attention state of language models, anywhere in the memory
 * hierarchy. This header is all of it; read the parts in this order.
 *
 *   types.h    keys, spans, ranges, times          status.h   what a call came to
 *   version.h  of these headers, and of the library
 *   log.h      lines of the library in the log of the program
 *   keys.h     prompts as chained block keys
 *   cache.h    payloads under keys, in tiers       ← any program that wants a store starts here
 *   metrics.h  what a cache counts, as numbers and as Prometheus's text
 *   tier.h     stores of your own, as tiers
 *   tensor.h   where rows of KV lie in an engine's memory
 *   host.h     one cache for all processes of a machine
 *   blob.h     blocks in a program's own memory, shared by them without a copy
 *   engine.h   what an engine adapter provides
 *   manager.h  prompt in, engine state out         ← a program that runs models starts here
 *   stream.h   does it pay to store, and at which level
 *   codec.h    rows of KV to fewer bytes and back
 *
 * What status.h, version.h, tensor.h and codec.h declare is in libskymem-codec, which pkg-config
 * skymem names too, and which a program may link alone. Constellations are libskymem-sky:
 * skymem-sky/skies.h. */
#ifndef SKYMEM_SKYMEM_H
#define SKYMEM_SKYMEM_H

#include <skymem/blob.h>
#include <skymem/cache.h>
#include <skymem/codec.h>
#include <skymem/engine.h>
#include <skymem/host.h>
#include <skymem/keys.h>
#include <skymem/log.h>
#include <skymem/manager.h>
#include <skymem/metrics.h>
#include <skymem/peer.h>
#include <skymem/status.h>
#include <skymem/stream.h>
#include <skymem/tensor.h>
#include <skymem/tier.h>
#include <skymem/types.h>
#include <skymem/version.h>

#endif
