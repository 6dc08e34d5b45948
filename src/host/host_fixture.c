#include "host/host_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "io/clock.h"

static void ready(void *context) {
    const sky_host_fixture *h = context;
    sky_event_raise(h->up);
}

static char *text(void *context, sky_cache *cache, const sky_host_stat *stat) {
    (void)context;
    char *made = malloc(200);
    if (made)
        snprintf(
            made, 200, "%llu clients, %llu disconnected, %llu leases, %llu bytes, %llu committed",
            (unsigned long long)stat->clients, (unsigned long long)stat->disconnected,
            (unsigned long long)(sky_cache_metric(cache, SKY_TIER_NONE, SKY_METRIC_CACHE_LEASES) +
                                 stat->direct_leases),
            (unsigned long long)sky_cache_metric(cache, 0, SKY_METRIC_TIER_BYTES_USED),
            (unsigned long long)stat->committed_bytes);
    return made;
}

static void *body(void *argument) {
    sky_host_fixture *h = argument;
    h->status = sky_host_run(&h->options, &h->error);
    sky_event_raise(h->up); /* if it failed, the test must not wait */
    return NULL;
}

void sky_host_fixture_prepare(sky_host_fixture *h, const char *const *urls, size_t url_count) {
    static _Atomic uint32_t number;
    memset(h, 0, sizeof *h);
    snprintf(h->socket_path, sizeof h->socket_path, "/tmp/skymem-host-%d-%u", getpid(), number++);
    memcpy(h->urls, urls, url_count * sizeof *urls);
    assert_int_equal(sky_event_create(&h->stop), SKY_OK);
    assert_int_equal(sky_event_create(&h->up), SKY_OK);
    h->options = (sky_host_options){.struct_bytes = sizeof h->options,
                                    .socket_path = h->socket_path,
                                    .urls = h->urls,
                                    .url_count = url_count,
                                    .stop_fd = h->stop,
                                    .ready = ready,
                                    .text = text,
                                    .context = h};
}

void sky_host_fixture_run(sky_host_fixture *h) {
    h->status = SKY_PENDING;
    assert_int_equal(sky_thread_start(&h->thread, "host", body, h), SKY_OK);
    assert_int_not_equal(sky_poll(&h->up, 1, sky_now() + SKY_SECONDS(60)), 0);
    if (access(h->socket_path, F_OK) != 0)
        fail_msg("%s", h->error.text);
}

void sky_host_fixture_start(sky_host_fixture *h, const char *const *urls, size_t url_count) {
    sky_host_fixture_prepare(h, urls, url_count);
    sky_host_fixture_run(h);
}

sky_blob *sky_host_fixture_blob(const sky_host_fixture *h, uint64_t bytes) {
    const sky_blob_options o = {.struct_bytes = sizeof o, .bytes = bytes};
    char url[80];
    sky_blob *b = NULL;
    sky_error error = {0};
    snprintf(url, sizeof url, "shm:%s", h->socket_path);
    if (sky_blob_open(url, &o, &b, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return b;
}

void sky_host_fixture_stop(sky_host_fixture *h) {
    sky_event_raise(h->stop);
    sky_thread_join(&h->thread);
    if (h->status != SKY_OK)
        fail_msg("%s", h->error.text);
    assert_int_not_equal(access(h->socket_path, F_OK), 0);
    sky_event_close(h->stop);
    sky_event_close(h->up);
}
