/* skymem/conformance.h: the conformance suite on a driver. It is installed as an archive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/conformance.h>

#include "tier/driver/driver.h"
#include "tier/tier_fixture.h"

typedef struct {
    sky_key *keys;
    size_t count;
} key_list;

static bool note_key(void *context, const sky_key *key) {
    key_list *l = context;
    sky_key *more = key ? realloc(l->keys, (l->count + 1) * sizeof *more) : NULL;
    if (!more)
        return false;
    l->keys = more;
    l->keys[l->count++] = *key;
    return true;
}

/* Errors: what the store says */
static sky_status clear_store(const sky_conformance *c, sky_error *error) {
    const sky_tier_driver *driver = c->driver;
    if (c->clear)
        c->clear(c->context);
    if (c->clear || !driver->list)
        return SKY_OK;
    void *self;
    key_list l = {0};
    sky_status status = sky_driver_open(driver, strchr(c->url, ':') + 1, &self, error);
    if (status != SKY_OK)
        return status;
    status = driver->list(self, note_key, &l);
    for (size_t i = 0; status == SKY_OK && i < l.count; i++)
        status = driver->remove(self, &l.keys[i]);
    if (driver->close)
        driver->close(self);
    free(l.keys);
    return status;
}

static sky_tier *open_again(const sky_conformance *c, const sky_tier_env *env) {
    sky_tier_driver driver;
    sky_tier *tier;
    sky_error error = {0};
    assert_true(sky_driver_read(c->driver, &driver));
    if (sky_driver_tier_open(&driver, c->url, env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

static sky_tier *open_empty(void *context, const sky_tier_env *env) {
    sky_error error = {0};
    sky_status status = clear_store(context, &error);
    if (status != SKY_OK)
        fail_msg("the store was not emptied: %s %s", sky_status_text(status), error.text);
    return open_again(context, env);
}

static sky_tier *reopen_tier(void *context, sky_tier *tier, const sky_tier_env *env) {
    tier->ops->close(tier);
    return open_again(context, env);
}

static void close_tier(void *context, sky_tier *tier) {
    (void)context;
    tier->ops->close(tier);
}

/* What is wrong; NULL: nothing. */
static const char *fault_of(const sky_conformance *c) {
    static sky_error error;
    if (!c || c->struct_bytes != sizeof *c || !c->driver || !c->url || !strchr(c->url, ':'))
        return "an argument is missing, or the program has the header of another version";
    if (!c->clear && !c->driver->list && !(c->driver->traits & SKY_TIER_VOLATILE))
        return "a driver without `list` needs `clear`";
    sky_tier_driver known;
    if (!sky_driver_read(c->driver, &known))
        return "sky_tier_register would refuse the driver";
    error = (sky_error){0};
    sky_status status = clear_store(c, &error);
    return status == SKY_OK ? NULL : error.text[0] ? error.text : sky_status_text(status);
}

int sky_conformance_run(const sky_conformance *c) {
    const char *fault = fault_of(c);
    if (fault) {
        fprintf(stderr, "sky_conformance_run: %s\n", fault);
        return -1;
    }
    bool lasting = !(c->driver->traits & SKY_TIER_VOLATILE);
    const sky_tier_fixture fixture = {.name = c->url,
                                      .context = (void *)(uintptr_t)c,
                                      .open = open_empty,
                                      .close = close_tier,
                                      .reopen = lasting ? reopen_tier : NULL,
                                      .payload_bytes_max = c->payload_bytes_max,
                                      .items_max = c->items_max,
                                      .leases = c->driver->lease != NULL,
                                      .pins = c->driver->pin != NULL,
                                      .unlisted = !c->driver->list,
                                      .uncounted = !c->driver->usage,
                                      .ttl = true,
                                      .flat = true};
    return sky_tier_conformance(&fixture);
}
