/* Which schemes of URLs programs brought drivers for. */
#include <stddef.h>
#include <string.h>

#include "io/sync.h"
#include "tier/driver/driver.h"

typedef struct {
    char scheme[SKY_TIER_SCHEME_BYTES_MAX + 1];
    sky_tier_driver driver;
} registration;

static sky_mutex mutex = SKY_MUTEX_INIT;
static registration registered[SKY_TIER_DRIVERS_MAX];
static size_t registered_count;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_scheme(const char *s) {
    size_t bytes = strnlen(s, SKY_TIER_SCHEME_BYTES_MAX + 1);
    if (bytes == 0 || bytes > SKY_TIER_SCHEME_BYTES_MAX || !is_letter(s[0]))
        return false;
    for (size_t i = 1; i < bytes; i++)
        if (!is_letter(s[i]) && !(s[i] >= '0' && s[i] <= '9') && !strchr("+-.", s[i]))
            return false;
    return true;
}

static bool is_built_in(const char *scheme) {
    static const char *const names[] = {"mem", "disk", "shm", "skymem", "sky", "sky+udp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], scheme) == 0)
            return true;
    return false;
}

/* With the mutex held. */
static const registration *find_registration(const char *scheme, size_t bytes) {
    for (size_t i = 0; i < registered_count; i++)
        if (strlen(registered[i].scheme) == bytes &&
            memcmp(registered[i].scheme, scheme, bytes) == 0)
            return &registered[i];
    return NULL;
}

bool sky_driver_read(const sky_tier_driver *driver, sky_tier_driver *out) {
    *out = (sky_tier_driver){.struct_bytes = 0};
    if (driver->struct_bytes != sizeof *out &&
        driver->struct_bytes != offsetof(sky_tier_driver, open_with) &&
        driver->struct_bytes != offsetof(sky_tier_driver, lease))
        return false;
    memcpy(out, driver, driver->struct_bytes);
    out->threads = out->threads ? out->threads : 1;
    return !out->open == !!out->open_with && out->read && out->write && out->remove &&
           !out->lease == !out->release && !out->pin == !out->pinned &&
           out->threads <= SKY_TIER_DRIVER_THREADS_MAX &&
           !(out->traits & ~(SKY_TIER_VOLATILE | SKY_TIER_REMOTE));
}

sky_status sky_tier_register(const char *scheme, const sky_tier_driver *driver) {
    sky_tier_driver known;
    if (!scheme || !is_scheme(scheme) || !driver || !sky_driver_read(driver, &known))
        return SKY_E_PARAM;
    sky_status status = SKY_E_FULL;
    sky_mutex_lock(&mutex);
    if (is_built_in(scheme) || find_registration(scheme, strlen(scheme))) {
        status = SKY_E_PARAM;
    } else if (registered_count < SKY_TIER_DRIVERS_MAX) {
        registration *r = &registered[registered_count++];
        memcpy(r->scheme, scheme, strlen(scheme) + 1);
        r->driver = known;
        status = SKY_OK;
    }
    sky_mutex_unlock(&mutex);
    return status;
}

sky_status sky_driver_open(const sky_tier_driver *driver, const char *where, void **self,
                           sky_error *error) {
    return driver->open ? driver->open(where, self, error)
                        : driver->open_with(driver->context, where, self, error);
}

bool sky_driver_find(const char *scheme, size_t scheme_bytes, sky_tier_driver *out) {
    sky_mutex_lock(&mutex);
    const registration *r = find_registration(scheme, scheme_bytes);
    if (r)
        *out = r->driver;
    sky_mutex_unlock(&mutex);
    return r != NULL;
}
