/* Proves that another host's store is a tier with every promise of one, over TCP and over
 * libfabric on loopback: sealed by either cipher, and plain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "peer/peer_fixture.h"
#include "tier/peer/peer.h"
#include "tier/tier_fixture.h"

typedef struct {
    bool sealed;
    const char *more;
    sky_peer_fixture peer;
} trial;

static sky_tier *connect_to(const trial *t, const sky_tier_env *env) {
    char url[256];
    sky_tier *tier;
    sky_error error = {0};
    sky_peer_fixture_url(&t->peer, t->more, url);
    if (sky_peer_tier_open(url, env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

static sky_tier *open_peer(void *context, const sky_tier_env *env) {
    trial *t = context;
    const char *url = "mem:16MiB";
    sky_peer_fixture_start(&t->peer, &url, 1, t->sealed);
    return connect_to(t, env);
}

static void close_peer(void *context, sky_tier *tier) {
    trial *t = context;
    tier->ops->close(tier);
    sky_peer_fixture_stop(&t->peer);
}

static sky_tier *reopen_peer(void *context, sky_tier *tier, const sky_tier_env *env) {
    tier->ops->close(tier);
    return connect_to(context, env);
}

static int conforms(const char *name, bool sealed, const char *more) {
    trial t = {.sealed = sealed, .more = more};
    const sky_tier_fixture peer = {.name = name,
                                   .context = &t,
                                   .open = open_peer,
                                   .close = close_peer,
                                   .reopen = reopen_peer,
                                   .capacity_bytes = 16 << 20,
                                   .pins = true,
                                   .adopts = true};
    return sky_tier_conformance(&peer);
}

int main(void) {
    int failed = conforms("sealed", true, NULL) +
                 conforms("plain, one connection", false, "connections=1") +
                 conforms("sealed by ChaCha20-Poly1305", true, "cipher=chacha");
    if (sky_peer_fixture_carry("fabric:tcp"))
        failed += conforms("sealed, over libfabric", true, NULL) +
                  conforms("plain, one connection over libfabric", false, "connections=1");
    return failed;
}
