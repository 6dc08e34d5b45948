#include "tier/skyudp/skyudp_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/udp.h"

static sky_mutex status_lock; /* of all satellites' */

/* The first of a row of ports that nobody has. Calls of all tests take turns, so that none gets
 * what another is about to open. */
static uint16_t free_ports(uint32_t count) {
    char command[64];
    unsigned port = 0;
    snprintf(command, sizeof command, "tools/free-ports %u", count);
    FILE *said = popen(command, "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "%u", &port), 1);
    assert_int_equal(pclose(said), 0);
    assert_in_range(port, 1, UINT16_MAX);
    return (uint16_t)port;
}

static void name(const sky_udp_site *site, const char *file, char *out) {
    snprintf(out, 96, "%s/%s", site->folder, file);
}

void sky_udp_site_make(sky_udp_site *site, uint32_t planes, uint32_t slots, const char *udp,
                       const char *settings) {
    sky_udp_site_make_at(site, planes, slots, 550, udp, settings);
}

void sky_udp_site_make_at(sky_udp_site *site, uint32_t planes, uint32_t slots, uint32_t altitude_km,
                          const char *udp, const char *settings) {
    memset(site, 0, sizeof *site);
    sky_mutex_init(&status_lock);
    site->planes = planes;
    site->slots = slots;
    assert_true(planes * slots <= SKY_UDP_SITE_MAX);
    snprintf(site->folder, sizeof site->folder, "/tmp/skymem-udp-XXXXXX");
    assert_non_null(mkdtemp(site->folder));
    name(site, "sky.yaml", site->path);
    snprintf(site->url, sizeof site->url, "sky+udp:%s", site->path);
    FILE *f = fopen(site->path, "w");
    assert_non_null(f);
    fprintf(f,
            "constellation: {planes: %u, slots: %u, altitude_km: %u}\n"
            "udp: {base: 127.0.0.1:%u, key: sky.key, tenant: tenant.key, %s}\n%s",
            planes, slots, altitude_km, free_ports(planes * slots), udp, settings);
    fclose(f);
    char key[96];
    name(site, "sky.key", key);
    assert_int_equal(sky_satellite_key_make(key, NULL), SKY_OK);
    name(site, "tenant.key", key);
    assert_int_equal(sky_satellite_key_make(key, NULL), SKY_OK);
}

void sky_udp_site_tenant(const sky_udp_site *site, char url[128]) {
    static const char ours[] = "tenant: tenant.key", theirs[] = "tenant: other.key";
    char text[2048], path[96];
    FILE *f = fopen(site->path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *at = strstr(text, ours);
    assert_non_null(at);
    name(site, "other.yaml", path);
    snprintf(url, 128, "sky+udp:%s", path);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, theirs, at + sizeof ours - 1);
    fclose(f);
    name(site, "other.key", path);
    assert_int_equal(sky_satellite_key_make(path, NULL), SKY_OK);
}

void sky_udp_site_remove(sky_udp_site *site) {
    static const char *const files[] = {"sky.yaml", "sky.key", "tenant.key", "other.yaml",
                                        "other.key"};
    char path[96];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        name(site, files[i], path);
        unlink(path);
    }
    rmdir(site->folder);
}

static void raise_ready(void *context) {
    struct sky_udp_thread *t = context;
    sky_event_raise(t->ready);
}

static void *body(void *context) {
    struct sky_udp_thread *t = context;
    sky_error error = {0};
    sky_status status = sky_satellite_run(&t->options, &error);
    sky_mutex_lock(&status_lock);
    t->status = status;
    t->error = error;
    sky_mutex_unlock(&status_lock);
    sky_event_raise(t->ready);
    return NULL;
}

static sky_status status_of(const struct sky_udp_thread *t) {
    sky_mutex_lock(&status_lock);
    sky_status status = t->status;
    sky_mutex_unlock(&status_lock);
    return status;
}

static void begin(sky_udp_site *site, uint32_t number) {
    struct sky_udp_thread *t = &site->satellites[number];
    memset(t, 0, sizeof *t);
    assert_int_equal(sky_event_create(&t->stop), SKY_OK);
    assert_int_equal(sky_event_create(&t->ready), SKY_OK);
    t->options = (sky_satellite_options){
        .scenario_path = site->path,
        .self = {number / site->slots + 1, number % site->slots + 1},
        .stop_fd = t->stop,
        .ready = raise_ready,
        .context = t};
    assert_int_equal(sky_thread_start(&t->thread, "satellite", body, t), SKY_OK);
}

static void await_ready(struct sky_udp_thread *t) {
    assert_true(sky_poll(&t->ready, 1, sky_now() + SKY_SECONDS(10)) & 1);
    if (status_of(t) != SKY_OK)
        fail_msg("%s", t->error.text);
}

void sky_udp_site_start(sky_udp_site *site, uint32_t number) {
    begin(site, number);
    await_ready(&site->satellites[number]);
}

static void end(struct sky_udp_thread *t) {
    if (t->thread.running)
        sky_event_raise(t->stop);
}

static void await_end(struct sky_udp_thread *t) {
    if (!t->thread.running)
        return;
    sky_thread_join(&t->thread);
    sky_event_close(t->stop);
    sky_event_close(t->ready);
}

void sky_udp_site_stop(sky_udp_site *site, uint32_t number) {
    end(&site->satellites[number]);
    await_end(&site->satellites[number]);
}

/* All at once: there are many tests, and each wants its satellites empty. */
void sky_udp_site_start_all(sky_udp_site *site) {
    uint32_t count = site->planes * site->slots;
    for (uint32_t i = 0; i < count; i++)
        begin(site, i);
    for (uint32_t i = 0; i < count; i++)
        await_ready(&site->satellites[i]);
}

void sky_udp_site_stop_all(sky_udp_site *site) {
    uint32_t count = site->planes * site->slots;
    for (uint32_t i = 0; i < count; i++)
        end(&site->satellites[i]);
    for (uint32_t i = 0; i < count; i++)
        await_end(&site->satellites[i]);
}
