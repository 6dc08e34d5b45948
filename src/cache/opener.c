#include "cache/opener.h"

#include <string.h>

#include <skymem/skymem.h>

#include "cache/cache_internal.h"
#include "cache/cache_state.h"
#include "io/sync.h"
#include "tier/encoded/encoded.h"
#include "tier/peer/peer.h"
#include "tier/shm/shm.h"

typedef struct {
    const char *scheme;
    sky_tier_opener opens;
} opener;

static sky_mutex mutex = SKY_MUTEX_INIT;
/* A scheme of this library is a row here, and a name in `is_built_in` (tier/driver/registry.c).
 * sky__opener_set fills the rows without a scheme. */
static opener openers[SKY_OPENERS_MAX] = {{"mem", sky_memory_tier_open},
                                          {"disk", sky_disk_tier_open},
                                          {"shm", sky_shm_tier_open},
                                          {"skymem", sky_peer_tier_open}};

/* With the mutex held. */
static opener *find_opener(const char *scheme, size_t bytes) {
    for (size_t i = 0; i < SKY_OPENERS_MAX && openers[i].scheme; i++)
        if (strlen(openers[i].scheme) == bytes && memcmp(openers[i].scheme, scheme, bytes) == 0)
            return &openers[i];
    return NULL;
}

sky_status sky__opener_set(const char *scheme, sky_tier_opener opens, uint32_t version) {
    if (version != SKY_VERSION_NUMBER)
        return SKY_E_UNSUPPORTED;
    sky_mutex_lock(&mutex);
    opener *o = find_opener(scheme, strlen(scheme));
    for (size_t i = 0; !o && i < SKY_OPENERS_MAX; i++)
        o = openers[i].scheme ? NULL : &openers[i];
    if (o)
        *o = (opener){scheme, opens};
    sky_mutex_unlock(&mutex);
    return o ? SKY_OK : SKY_E_FULL;
}

sky_tier_opener sky__opener_find(const char *scheme, size_t scheme_bytes) {
    sky_mutex_lock(&mutex);
    const opener *o = find_opener(scheme, scheme_bytes);
    sky_tier_opener opens = o ? o->opens : NULL;
    sky_mutex_unlock(&mutex);
    return opens;
}

sky_status sky__opened_tier(sky_cache *cache, size_t place, sky_tier **out) {
    sky_status status = sky__cache_check(cache);
    sky_tier *tier = status == SKY_OK ? sky__cache_tier(cache, place) : NULL;
    if (!tier)
        return status != SKY_OK ? status : SKY_E_PARAM;
    *out = sky_coded_tier_inner(tier);
    return SKY_OK;
}
