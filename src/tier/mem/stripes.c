#include "tier/mem/stripes.h"

#include <stdlib.h>
#include <string.h>

sky_status sky__stripes_init(sky__stripes *s) {
    uint32_t count = 1;
    while (count < 2 * sky_cpu_count() && count < SKY__STRIPES_MAX)
        count *= 2;
    sky__stripe *stripes = aligned_alloc(_Alignof(sky__stripe), count * sizeof *stripes);
    if (!stripes)
        return SKY_E_NOMEM;
    memset(stripes, 0, count * sizeof *stripes);
    for (uint32_t i = 0; i < count; i++)
        sky_mutex_init(&stripes[i].mutex);
    *s = (sky__stripes){stripes, count};
    return SKY_OK;
}

void sky__stripes_deinit(sky__stripes *s) {
    for (uint32_t i = 0; i < s->count; i++)
        sky_mutex_deinit(&s->stripes[i].mutex);
    free(s->stripes);
}

sky__stripe *sky__stripe_lock(sky__stripes *s) {
    sky__stripe *stripe = &s->stripes[sky_thread_number() & (s->count - 1)];
    sky_mutex_lock(&stripe->mutex);
    return stripe;
}

void sky__stripe_unlock(sky__stripe *stripe) {
    sky_mutex_unlock(&stripe->mutex);
}

void sky__stripes_lock_all(sky__stripes *s) {
    for (uint32_t i = 0; i < s->count; i++)
        sky_mutex_lock(&s->stripes[i].mutex);
}

void sky__stripes_unlock_all(sky__stripes *s) {
    for (uint32_t i = s->count; i-- > 0;)
        sky_mutex_unlock(&s->stripes[i].mutex);
}
