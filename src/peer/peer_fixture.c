#include "peer/peer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "io/secret.h"

void sky_peer_fixture_start(sky_peer_fixture *p, const char *const *urls, size_t url_count,
                            bool sealed) {
    static _Atomic uint32_t number;
    const char *paths[] = {p->key_path};
    sky_error error = {0};
    memset(p, 0, sizeof *p);
    if (sealed) {
        snprintf(p->key_path, sizeof p->key_path, "/tmp/skymem-peer-%d-%u", getpid(), number++);
        unlink(p->key_path);
        assert_int_equal(sky_secret_make(p->key_path, &error), SKY_OK);
    }
    const sky_peer_options options = {.struct_bytes = sizeof options,
                                      .address = "0",
                                      .key_paths = paths,
                                      .key_count = sealed,
                                      .plain = !sealed};
    assert_int_equal(sky_cache_open(urls, url_count, &p->cache, &error), SKY_OK);
    if (sky_peer_serve(p->cache, &options, &p->server, &error) != SKY_OK)
        fail_msg("%s", error.text);
}

void sky_peer_fixture_stop(sky_peer_fixture *p) {
    sky_peer_stop(p->server);
    sky_cache_close(p->cache);
    if (p->key_path[0])
        unlink(p->key_path);
}

void sky_peer_fixture_url(const sky_peer_fixture *p, const char *more, char out[256]) {
    snprintf(out, 256, "skymem://%s?%s%s%s%s", sky_peer_address(p->server),
             p->key_path[0] ? "key=" : "plain=yes", p->key_path, more ? "&" : "", more ? more : "");
}
