#include "peer/peer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "io/secret.h"
#include "tier/peer/transport.h"

static const char *carried = "tcp";

bool sky_peer_fixture_carry(const char *word) {
    sky_peer_carrier carrier;
    sky_error error = {0};
    carried = word;
    if (sky_peer_carrier_parse(word, &carrier, &error) == SKY_OK)
        return true;
    printf("not over %s: %s\n", word, error.text);
    return false;
}

const char *sky_peer_fixture_carrier(void) {
    return carried;
}

const char *sky_peer_fixture_query(void) {
    static char query[100];
    const char *colon = strchr(carried, ':');
    snprintf(query, sizeof query, "%s%.*s%s%s", colon ? "&transport=" : "",
             colon ? (int)(colon - carried) : 0, carried, colon ? "&provider=" : "",
             colon ? colon + 1 : "");
    return query;
}

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
                                      .transport = carried,
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
    snprintf(out, 256, "skymem://%s?%s%s%s%s%s", sky_peer_address(p->server),
             p->key_path[0] ? "key=" : "plain=yes", p->key_path, more ? "&" : "", more ? more : "",
             sky_peer_fixture_query());
}
