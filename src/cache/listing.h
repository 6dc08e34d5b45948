/* What a cache holds, as one text, for who sees it as one tier. */
#ifndef SKY_CACHE_LISTING_H
#define SKY_CACHE_LISTING_H

#include <skymem/cache.h>

/* Entries as of sky_shm_entry_encode; of several copies of a payload the best. tier: 1 + the tier
 * that is asked alone; 0: all. What could be read stands there whatever is returned.
 * Owner:  *text is the caller's, by free; NULL with *bytes 0
 * Errors: SKY_E_NOMEM, those of sky_list */
sky_status sky__listing(sky_cache *cache, uint32_t tier, uint8_t **text, size_t *bytes);

#endif
