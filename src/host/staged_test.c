/* Proves: a stage that a host refuses costs the put that asked for it, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "io/local.h"
#include "io/sync.h"
#include "tier/shm/raw_fixture.h"
#include "tier/shm/shm.h"
#include "tier/tier_fixture.h"

#define PATIENCE SKY_SECONDS(60)
#define LARGE    (80u << 20) /* a small put asks for less */
#define SMALL    1000u

/* A host that has no memory for stages. */
typedef struct {
    sky_local_listener listener;
    int asked, refuse; /* events: a stage was asked for first; refuse it */
    unsigned asks;
    uint64_t asked_bytes; /* the last time */
} stingy;

static void await(int event) {
    assert_int_equal(sky_poll(&event, 1, sky_now() + PATIENCE), 1);
    sky_event_clear(event);
}

static void *refuse_stages(void *argument) {
    stingy *h = argument;
    sky_local_peer peer;
    sky_shm_frame f;
    bool exhausted;
    sky_poll(&h->listener.fd, 1, sky_now() + PATIENCE);
    int fd = sky_local_accept(&h->listener, &peer, &exhausted);
    assert_true(sky_raw_hear(fd, &f, NULL)); /* HELLO */
    sky_raw_welcome(fd, &(sky_shm_frame){.kind = SKY_SHM_WELCOME,
                                         .version = SKY_SHM_VERSION,
                                         .arena_bytes = 256u << 20,
                                         .segment_bytes = 64u << 20,
                                         .client = 1});
    while (sky_raw_hear(fd, &f, NULL)) {
        if (f.kind != SKY_SHM_STAGE)
            continue;
        h->asked_bytes = f.stage_bytes;
        if (h->asks++ == 0) {
            sky_event_raise(h->asked);
            await(h->refuse);
        }
        sky_raw_say(fd, &(sky_shm_frame){.kind = SKY_SHM_STAGED, .status = SKY_E_FULL}, -1);
    }
    sky_raw_close(fd);
    return NULL;
}

static sky_batch put(sky_tier *tier, sky_item *item, sky_span *span, uint64_t n, uint64_t bytes) {
    static uint8_t payload[LARGE];
    *span = (sky_span){payload, bytes};
    *item = (sky_item){.key = sky_fixture_key(n), .spans = span, .span_count = 1};
    return sky_fixture_submit(tier, SKY_OP_PUT, item, 1, NULL);
}

static void the_put_that_asked_is_refused(void **state) {
    (void)state;
    char folder[] = "/tmp/skymem-staged-XXXXXX", path[64], url[80];
    stingy h = {0};
    sky_thread thread;
    static const sky_tier_env env;
    sky_tier *tier;
    sky_item items[2];
    sky_span spans[2];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(url, sizeof url, "shm:%s", path);
    assert_int_equal(sky_local_listen(path, &h.listener, NULL), SKY_OK);
    assert_int_equal(sky_event_create(&h.asked), SKY_OK);
    assert_int_equal(sky_event_create(&h.refuse), SKY_OK);
    assert_int_equal(sky_thread_start(&thread, "host", refuse_stages, &h), SKY_OK);
    assert_int_equal(sky_shm_tier_open(url, &env, &tier, NULL), SKY_OK);
    sky_batch large = put(tier, &items[0], &spans[0], 1, LARGE);
    await(h.asked);
    const uint64_t first_bytes = h.asked_bytes;
    sky_tier_cancel(tier, large);
    sky_batch small = put(tier, &items[1], &spans[1], 2, SMALL);
    sky_event_raise(h.refuse);
    assert_int_equal(sky_tier_wait(tier, small, sky_now() + PATIENCE), SKY_OK);
    assert_int_equal(items[1].status, SKY_E_FULL);
    tier->ops->close(tier);
    sky_thread_join(&thread);
    assert_int_equal(h.asks, 2);
    assert_true(h.asked_bytes < first_bytes);
    close(h.asked);
    close(h.refuse);
    sky_local_unlisten(path, &h.listener);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_put_that_asked_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
