/* Proves that satellites which answer over UDP keep every promise of a tier, while the sky turns;
 * that dead satellites cost a miss or the deadline;
 * that keys open to others are refused, and one key for both purposes; that satellites tell what
 * they refused; that a ground finds, and unpins, what another put; and that tenants of one sky do
 * not meet, whatever keys they use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "config/scenario.h"
#include "io/udp.h"
#include "tier/skyudp/skyudp.h"
#include "tier/skyudp/skyudp_fixture.h"
#include "tier/tier_fixture.h"
#include "wire/packet.h"

/* Near, fast, and turning all the time. */
static const char fast[] = "placement: {strategy: rotation-hop, servers: 9}\n"
                           "chunk: 1KiB\n"
                           "satellite: {memory: 512KiB, processing_ms: 0}\n"
                           "links: {isl_gbps: 100, ground_mbps: 100000, queue: 16MiB}\n"
                           "time: {rotation_s: 3}\n";

/* A tier over satellites that hold nothing. */
static sky_tier *open_udp(void *context, const sky_tier_env *env) {
    sky_udp_site *site = context;
    sky_tier *tier = NULL;
    sky_error error = {0};
    sky_udp_site_start_all(site);
    if (sky_udp_tier_open(site->url, env, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

static void close_udp(void *context, sky_tier *tier) {
    tier->ops->close(tier);
    sky_udp_site_stop_all(context);
}

static const sky_tier_env no_env = {.index = 2};

/* Satellites die at once, with all they hold: what was on them is a miss within the deadline, what
 * is put afterwards is there, and never is a byte wrong. */
static void the_dead_cost_a_miss(void **state) {
    (void)state;
    sky_udp_site site;
    sky_udp_site_make(&site, 3, 5, "far: false", fast);
    sky_tier *t = open_udp(&site, &no_env);
    for (uint64_t n = 0; n < 8; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 30000, n), SKY_OK);
    for (uint32_t i = 0; i < 15; i += 2)
        sky_udp_site_stop(&site, i);
    uint8_t *got = malloc(30000);
    for (uint64_t n = 0; n < 8; n++) {
        sky_span span = {got, 30000};
        sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        sky_call call = {.deadline_ns = sky_now() + SKY_MS(150)};
        sky_time began = sky_now();
        sky_fixture_run(t, SKY_OP_GET, &item, 1, &call);
        assert_true(sky_now() - began < SKY_SECONDS(2));
        assert_true(item.status == SKY_OK || item.status == SKY_MISS ||
                    item.status == SKY_E_DEADLINE || item.status == SKY_E_UNAVAILABLE);
        if (item.status == SKY_OK)
            assert_true(sky_fixture_holds(got, 30000, n));
    }
    free(got);
    for (uint32_t i = 0; i < 15; i += 2)
        sky_udp_site_start(&site, i);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(20), NULL, 30000, 20), SKY_OK);
    assert_int_equal(sky_fixture_check(t, sky_fixture_key(20), 30000, 20), SKY_OK);
    close_udp(&site, t);
    sky_udp_site_remove(&site);
}

/* Other processes would get it from the satellites after its time. */
static void what_is_to_end_is_refused(void **state) {
    (void)state;
    sky_udp_site site;
    sky_udp_site_make(&site, 3, 5, "far: false", fast);
    sky_tier *t = open_udp(&site, &no_env);
    uint8_t byte = 1;
    sky_span span = {&byte, 1};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_fixture_run(t, SKY_OP_PUT, &item, 1, &(sky_call){.ttl_s = 100});
    assert_int_equal(item.status, SKY_E_UNSUPPORTED);
    sky_fixture_run(t, SKY_OP_HAS, &item, 1, NULL);
    assert_int_equal(item.status, SKY_MISS);
    sky_fixture_run(t, SKY_OP_PUT, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    close_udp(&site, t);
    sky_udp_site_remove(&site);
}

/* Who is overhead comes from orbits, which each station computes for itself; so high a shell that
 * nine satellites are enough. */
static void a_true_sky_answers(void **state) {
    (void)state;
    time_t now = time(NULL) - 3600;
    char settings[400];
    size_t at = (size_t)snprintf(settings, sizeof settings,
                                 "sky: physical\n"
                                 "observer: {lat_deg: 40, lon_deg: 10, min_elevation_deg: 5}\n"
                                 "placement: {strategy: rotation-hop, servers: 9}\n"
                                 "chunk: 1KiB\n"
                                 "satellite: {memory: 512KiB, processing_ms: 0}\n"
                                 "links: {isl_gbps: 100, ground_mbps: 100000}\n");
    strftime(settings + at, sizeof settings - at, "time: {scale: 20, start: %Y-%m-%dT%H:%M:%SZ}\n",
             gmtime(&now));
    sky_udp_site site;
    sky_udp_site_make_at(&site, 3, 3, 12000, "far: true", settings);
    sky_tier *t = open_udp(&site, &no_env);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(sky_fixture_put(t, sky_fixture_key(n), NULL, 20000, n), SKY_OK);
    for (uint64_t n = 0; n < 4; n++)
        assert_int_equal(sky_fixture_check(t, sky_fixture_key(n), 20000, n), SKY_OK);
    close_udp(&site, t);
    sky_udp_site_remove(&site);
    sky_error error;
    sky_udp_site_make(&site, 3, 3, "far: true",
                      "sky: physical\ntime: {start: 2020-01-01T00:00:00Z}\n");
    assert_int_equal(sky_udp_tier_open(site.url, &no_env, &t, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "a later time.start"));
    sky_udp_site_remove(&site);
}

/* Three datagrams that are nothing, and four with a right head and no tag. */
static void send_nonsense(const sky_udp_site *site) {
    static const sky_udp_options options = {.datagram_bytes_max = SKY_PACKET_BYTES_MAX,
                                            .buffer_bytes = 1 << 16};
    sky_scenario scenario;
    sky_address here, there;
    sky_udp *u;
    assert_int_equal(sky_scenario_load(site->path, &scenario, NULL), SKY_OK);
    assert_int_equal(sky_address_parse("127.0.0.1:0", &here, NULL), SKY_OK);
    assert_int_equal(sky_address_parse(scenario.udp.base, &there, NULL), SKY_OK);
    assert_int_equal(sky_udp_open(&here, &options, &u, NULL), SKY_OK);
    for (uint64_t i = 1; i <= 7; i++) {
        sky_packet_head head = {.suite = sky_suite_best(),
                                .from = {0, 9},
                                .to = {1, 1},
                                .origin = {0, 9},
                                .destination = {1, 1},
                                .epoch = 1,
                                .counter = i};
        uint8_t *room = sky_udp_room(u);
        memset(room, 0, 100);
        if (i > 3)
            sky_packet_head_encode(&head, room);
        sky_udp_put(u, &there, room, 100);
    }
    sky_udp_flush(u);
    sky_udp_close(u);
}

static void satellites_tell_how_they_are(void **state) {
    (void)state;
    sky_udp_site site;
    sky_udp_site_make(&site, 3, 5, "far: false", fast);
    sky_tier *t = open_udp(&site, &no_env);
    assert_int_equal(sky_fixture_put(t, sky_fixture_key(1), NULL, 90 * 1024, 1), SKY_OK);
    sky_udp_site_stop(&site, 7);
    send_nonsense(&site);
    sky_satellite_stat stats[15];
    for (uint32_t i = 0; i < 15; i++)
        stats[i].satellite = (sky_satellite){i / 5 + 1, i % 5 + 1};
    sky_error error;
    assert_int_equal(sky_satellite_ask(site.path, stats, 15, sky_now() + SKY_MS(500), &error),
                     SKY_OK);
    uint64_t sets = 0;
    for (uint32_t i = 0; i < 15; i++) {
        assert_int_equal(stats[i].answered, i != 7);
        sets += stats[i].answered ? stats[i].sets : 0;
    }
    assert_true(sets >= 70);
    assert_int_equal(stats[0].foreign, 3);
    assert_int_equal(stats[0].stale + stats[0].forged, 4);
    assert_int_equal(stats[1].foreign + stats[1].stale + stats[1].replayed + stats[1].forged, 0);
    stats[0].satellite.plane = 9;
    assert_int_equal(sky_satellite_ask(site.path, stats, 1, 0, &error), SKY_E_PARAM);
    close_udp(&site, t);
    sky_udp_site_remove(&site);
}

/* What one process put and pinned another finds and unpins: it cannot know whether it is pinned. */
static void grounds_share_a_sky(void **state) {
    (void)state;
    sky_udp_site site;
    char settings[500];
    snprintf(settings, sizeof settings, "%slookup: binary\n", fast);
    sky_udp_site_make(&site, 3, 5, "far: false", settings);
    sky_tier *first = open_udp(&site, &no_env), *second = NULL;
    sky_error error;
    assert_int_equal(sky_udp_tier_open(site.url, &no_env, &second, &error), SKY_OK);
    assert_int_equal(sky_fixture_put(first, sky_fixture_key(1), NULL, 30000, 1), SKY_OK);
    assert_int_equal(sky_fixture_one(first, SKY_OP_PIN, sky_fixture_key(1)), SKY_OK);
    assert_int_equal(sky_fixture_one(second, SKY_OP_UNPIN, sky_fixture_key(2)), SKY_MISS);
    assert_int_equal(sky_fixture_one(second, SKY_OP_UNPIN, sky_fixture_key(1)), SKY_OK);
    assert_int_equal(sky_fixture_one(second, SKY_OP_PIN, sky_fixture_key(1)), SKY_OK);
    assert_int_equal(sky_fixture_check(second, sky_fixture_key(1), 30000, 1), SKY_OK);
    sky_tier_stat stat = sky_fixture_stat(second);
    assert_non_null(strstr(stat.note, " datagrams refused"));
    assert_null(strstr(stat.note, "migrated"));
    second->ops->close(second);
    close_udp(&site, first);
    sky_udp_site_remove(&site);
}

static bool take_key(void *context, const sky_entry *entry) {
    *(sky_key *)context = entry->key;
    return true;
}

/* Two tenants put one key: each reads back its own, neither makes the other put it again, and to
 * each the other's keys are as keys that nobody used. */
static void tenants_do_not_meet(void **state) {
    (void)state;
    sky_udp_site site;
    char settings[500], url[128];
    snprintf(settings, sizeof settings, "%slookup: binary\n", fast);
    sky_udp_site_make(&site, 3, 5, "far: false", settings);
    sky_udp_site_tenant(&site, url);
    sky_tier *a = open_udp(&site, &no_env), *b = NULL;
    sky_error error;
    assert_int_equal(sky_udp_tier_open(url, &no_env, &b, &error), SKY_OK);
    assert_int_equal(sky_fixture_put(a, sky_fixture_key(1), NULL, 30000, 1), SKY_OK);
    assert_int_equal(sky_fixture_one(b, SKY_OP_HAS, sky_fixture_key(1)), SKY_MISS);
    assert_int_equal(sky_fixture_one(b, SKY_OP_HAS, sky_fixture_key(7)), SKY_MISS);
    assert_int_equal(sky_fixture_put(b, sky_fixture_key(1), NULL, 20000, 2), SKY_OK);
    b->ops->close(b);
    a->ops->close(a); /* whoever comes next knows only what the sky says */
    assert_int_equal(sky_udp_tier_open(url, &no_env, &b, &error), SKY_OK);
    assert_int_equal(sky_udp_tier_open(site.url, &no_env, &a, &error), SKY_OK);
    assert_int_equal(sky_fixture_check(a, sky_fixture_key(1), 30000, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(b, sky_fixture_key(1), 20000, 2), SKY_OK);
    assert_int_equal(sky_fixture_one(a, SKY_OP_HAS, sky_fixture_key(7)), SKY_MISS);
    assert_int_equal(sky_fixture_counts(b).corrupt, 0);
    sky_key listed = {{0}}, expected = sky_fixture_key(1);
    assert_int_equal(b->ops->list(b, take_key, &listed), SKY_OK);
    assert_true(sky_key_equal(&listed, &expected)); /* the caller's, not the sky's name for it */
    b->ops->close(b);
    close_udp(&site, a);
    sky_udp_site_remove(&site);
}

static void copy_key(const sky_udp_site *site, const char *from, const char *to) {
    char path[128], digits[64];
    snprintf(path, sizeof path, "%s/%s", site->folder, from);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(digits, 1, sizeof digits, f), sizeof digits);
    fclose(f);
    snprintf(path, sizeof path, "%s/%s", site->folder, to);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(digits, 1, sizeof digits, f), sizeof digits);
    fclose(f);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    sky_udp_site site;
    sky_udp_site_make(&site, 3, 5, "far: false", fast);
    sky_tier *tier;
    sky_error error;
    char key[128];
    snprintf(key, sizeof key, "%s/tenant.key", site.folder);
    assert_int_equal(chmod(key, 0640), 0);
    assert_int_equal(sky_udp_tier_open(site.url, &no_env, &tier, &error), SKY_E_DENIED);
    assert_non_null(strstr(error.text, "chmod 600"));
    assert_int_equal(chmod(key, 0600), 0);
    snprintf(key, sizeof key, "%s/sky.key", site.folder);
    assert_int_equal(chmod(key, 0604), 0);
    sky_satellite_options options = {.scenario_path = site.path, .self = {1, 1}, .stop_fd = -1};
    assert_int_equal(sky_satellite_run(&options, &error), SKY_E_DENIED);
    assert_int_equal(chmod(key, 0600), 0);
    copy_key(&site, "sky.key", "tenant.key");
    assert_int_equal(sky_udp_tier_open(site.url, &no_env, &tier, &error), SKY_E_DENIED);
    assert_non_null(strstr(error.text, "udp.tenant holds the same key as udp.key"));
    options.self = (sky_satellite){4, 1};
    assert_int_equal(sky_satellite_run(&options, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "planes 1 to 3"));
    sky_udp_site_start(&site, 0);
    options.self = (sky_satellite){1, 1};
    assert_int_equal(sky_satellite_run(&options, &error), SKY_E_BUSY);
    sky_udp_site_stop(&site, 0);
    sky_udp_site_remove(&site);
    sky_udp_site_make(&site, 3, 5, "far: true", "time: {start: 9999-01-01T00:00:00Z}\n");
    assert_int_equal(sky_udp_tier_open(site.url, &no_env, &tier, &error), SKY_E_PARAM);
    assert_non_null(strstr(error.text, "time.start"));
    sky_udp_site_remove(&site);
    assert_int_equal(sky_udp_tier_open("sky+udp:a.yaml?scale=2", &no_env, &tier, &error),
                     SKY_E_SYNTAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_cost_a_miss),      cmocka_unit_test(a_true_sky_answers),
        cmocka_unit_test(what_is_to_end_is_refused), cmocka_unit_test(satellites_tell_how_they_are),
        cmocka_unit_test(grounds_share_a_sky),       cmocka_unit_test(tenants_do_not_meet),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    sky_udp_site site;
    sky_udp_site_make(&site, 3, 5, "far: false", fast);
    const sky_tier_fixture udp = {.name = "sky+udp",
                                  .context = &site,
                                  .open = open_udp,
                                  .close = close_udp,
                                  .capacity_bytes = 3600000,
                                  .items_max = 200,
                                  .payload_bytes_max = 1 << 19,
                                  .pins = true,
                                  .adopts = true};
    int failed = sky_tier_conformance(&udp);
    sky_udp_site_remove(&site);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
