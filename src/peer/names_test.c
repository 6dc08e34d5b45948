/* Proves: of a host whose name has several addresses the one that answers is found, whichever it
 * is, also by a connection that is made later; and two names that share one are one host. */
#include <dlfcn.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "peer/peer_fixture.h"
#include "tier/peer/peer.h"
#include "tier/tier_fixture.h"

#define NAME  "two-addresses.test"
#define BYTES 10000

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static const char *addresses[3]; /* of NAME */

/* Instead of the C library's, which asks for all other names. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out) {
    resolver real = (resolver)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo **end = out;
    int why = 0;
    if (strcmp(host, NAME) != 0)
        return real(host, port, hints, out);
    for (size_t i = 0; i < 3 && why == 0; i++) {
        why = real(addresses[i], port, hints, end);
        end = why == 0 ? &(*end)->ai_next : end;
    }
    return why;
}

static const char *port_of(const sky_peer_fixture *host) {
    return strrchr(sky_peer_address(host->server), ':') + 1;
}

static void the_address_that_answers_is_found(void **state) {
    static const sky_tier_env env;
    static const char *const orders[][3] = {{"127.0.0.1", "127.0.0.2", "::1"},
                                            {"127.0.0.2", "127.0.0.1", "::1"},
                                            {"::1", "127.0.0.2", "127.0.0.1"}};
    const char *store = "mem:1MiB";
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sky_peer_fixture host;
        sky_tier *tier;
        char url[256];
        memcpy(addresses, orders[i], sizeof addresses);
        sky_peer_fixture_start(&host, &store, 1, false); /* at 127.0.0.1 */
        snprintf(url, sizeof url, "skymem://" NAME ":%s?plain=yes&connections=2", port_of(&host));
        assert_int_equal(sky_peer_tier_open(url, &env, &tier, NULL), SKY_OK);
        for (uint64_t n = 0; n < 8; n++)
            assert_int_equal(sky_fixture_put(tier, sky_fixture_key(n), NULL, BYTES, n), SKY_OK);
        for (uint64_t n = 0; n < 8; n++)
            assert_int_equal(sky_fixture_check(tier, sky_fixture_key(n), BYTES, n), SKY_OK);
        tier->ops->close(tier);
        sky_peer_fixture_stop(&host);
    }
}

static void two_names_of_one_host_are_refused(void **state) {
    static const sky_tier_env env;
    char path[64], url[128];
    sky_tier *tier;
    sky_error error = {0};
    (void)state;
    addresses[0] = "127.0.0.2";
    addresses[1] = "127.0.0.3";
    addresses[2] = "127.0.0.1";
    snprintf(path, sizeof path, "/tmp/skymem-names-%d", getpid());
    snprintf(url, sizeof url, "skymem://?peers=%s", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "127.0.0.1:7700 plain\n" NAME ":7700 plain\n");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(sky_peer_tier_open(url, &env, &tier, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "is 127.0.0.1:7700 of an earlier line"));
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_that_answers_is_found),
        cmocka_unit_test(two_names_of_one_host_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
