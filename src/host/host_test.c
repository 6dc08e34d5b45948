/* Proves that a host's store is a tier with every promise of one, over its socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/host_fixture.h"
#include "tier/shm/shm.h"
#include "tier/tier_fixture.h"

static sky_host_fixture host;

static sky_tier *connect_to(const sky_host_fixture *h, const sky_tier_env *env) {
    char url[80];
    sky_tier *tier;
    sky_error error = {0};
    snprintf(url, sizeof url, "shm:%s", h->socket_path);
    if (sky_shm_tier_open(url, env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

static sky_tier *open_shm(void *context, const sky_tier_env *env) {
    const char *url = context;
    sky_host_fixture_start(&host, &url, 1);
    return connect_to(&host, env);
}

static void close_shm(void *context, sky_tier *tier) {
    (void)context;
    tier->ops->close(tier);
    sky_host_fixture_stop(&host);
}

static sky_tier *reopen_shm(void *context, sky_tier *tier, const sky_tier_env *env) {
    (void)context;
    tier->ops->close(tier);
    return connect_to(&host, env);
}

int main(void) {
    static char url[] = "mem:16MiB";
    const sky_tier_fixture shm = {.name = "shm",
                                  .context = url,
                                  .open = open_shm,
                                  .close = close_shm,
                                  .reopen = reopen_shm,
                                  .capacity_bytes = 16 << 20,
                                  .leases = true,
                                  .pins = true,
                                  .adopts = true,
                                  .drops_orphans = true};
    return sky_tier_conformance(&shm);
}
