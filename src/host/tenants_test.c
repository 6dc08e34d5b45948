/* Proves: another user that is configured is served from stores of its own, sees nothing of the
 * others', maps only its own segments and keeps within its sizes; users come and go while the host
 * runs; a host without clients ends; what was asked when it ends is answered. Processes of other
 * users are this program again, as its children, so it needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_fixture.h"
#include "host/slow_fixture.h"
#include "io/clock.h"
#include "tier/shm/raw_fixture.h"
#include "tier/tier_fixture.h"

#define OTHER    54321u
#define THIRD    54322u
#define PATIENCE SKY_SECONDS(60)

static sky_host_fixture host;
static int failures; /* checks of a child, which cannot use those of cmocka */

static void check(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "child: %s\n", what);
    failures++;
}

static sky_cache *connect_to(sky_status *status) {
    char url[80];
    const char *urls[] = {url};
    sky_cache *cache = NULL;
    snprintf(url, sizeof url, "shm:%s", host.socket_path);
    *status = sky_cache_open(urls, 1, &cache, NULL);
    return cache;
}

static sky_status put(sky_cache *cache, uint64_t n, size_t bytes) {
    sky_span span = {malloc(bytes), bytes};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_fill(span.data, bytes, n);
    sky_status status = sky_run(cache, SKY_OP_PUT, &item, 1, NULL);
    free(span.data);
    return status == SKY_OK ? item.status : status;
}

static sky_status lease(sky_cache *cache, uint64_t n, sky_span *view) {
    sky_item item = {.key = sky_fixture_key(n)};
    sky_status status = sky_run(cache, SKY_OP_LEASE, &item, 1, NULL);
    *view = item.view;
    return status == SKY_OK ? item.status : status;
}

/* ---- what children do ---- */

static void is_refused(void) {
    sky_status status;
    sky_cache *cache = connect_to(&status);
    check(!cache && status == SKY_E_DENIED, "who is not configured is refused");
}

/* The segments of the host that this process has mapped, and its index, as files: their count. */
static size_t mapped_segments(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long last = 0;
    size_t count = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long inode;
        char mode[8];
        if (sscanf(line, "%*s %7s %*s %*s %lu", mode, &inode) == 2 && strstr(line, "memfd:") &&
            strcmp(mode, "r--s") == 0 && inode != last) {
            last = inode;
            count++;
        }
    }
    if (maps)
        fclose(maps);
    return count;
}

/* Key 1 is the host's own user's: it is not there, and what is put under it is another value. */
static void uses_its_own(void) {
    sky_status status;
    sky_span view;
    sky_cache *cache = connect_to(&status);
    check(cache != NULL, "who is configured is served");
    if (!cache)
        return;
    check(lease(cache, 1, &view) == SKY_MISS, "nothing of others is there");
    check(mapped_segments() == 1, "no segment of others is mapped, and the index is its own");
    check(put(cache, 2, 1 << 20) == SKY_OK, "it can put");
    check(lease(cache, 2, &view) == SKY_OK && sky_fixture_holds(view.data, view.bytes, 2),
          "what it put comes back");
    check(mapped_segments() == 2, "its own segment is mapped");
    check(put(cache, 3, 5 << 20) == SKY_E_FULL, "its arena has 4 MiB, not the host's 64");
    sky_verify_report report = {0};
    check(sky_verify(cache, &report) == SKY_OK && report.entries == 1, "it checks its own entry");
    char *text = NULL;
    check(sky_host_text(host.socket_path, sky_now() + PATIENCE, &text) == SKY_OK &&
              strncmp(text, "2 clients, 0 disconnected, 1 leases", 35) == 0,
          "the counters are of this user");
    free(text);
    sky_cache_close(cache);
}

/* A client by hand that asks for a stage; -1: it gets none now. */
static int staged(uint64_t bytes) {
    sky_shm_frame f = {.kind = SKY_SHM_STAGE, .stage_bytes = bytes};
    sky_local_peer peer;
    int fd = -1;
    check(sky_local_connect(host.socket_path, &fd, &peer) == SKY_OK, "it connects");
    sky_raw_greet(fd);
    sky_raw_say(fd, &f, -1);
    check(sky_raw_hear(fd, &f, NULL), "it is answered");
    if (f.status == SKY_OK)
        return fd;
    check(f.status == SKY_E_BUSY, "it is to try later");
    sky_raw_close(fd);
    return -1;
}

/* With an arena of 4 MiB. What one gives back another may have. */
static void stages_are_bounded(void) {
    int fds[SKY__HOST_STAGES];
    for (size_t i = 0; i < SKY__HOST_STAGES; i++)
        check((fds[i] = staged(4 << 20)) >= 0, "as many as may be");
    check(staged(4 << 20) < 0, "one more is refused");
    sky_raw_close(fds[0]);
    int fd = -1;
    for (sky_time until = sky_now() + PATIENCE; fd < 0 && sky_now() < until;)
        fd = staged(4 << 20);
    check(fd >= 0, "what was given back is there");
}

/* It asks for a larger one than there is room for, and puts into the one that it has. */
static void a_refused_stage_leaves_the_old(void) {
    int fds[SKY__HOST_STAGES];
    for (size_t i = 0; i < SKY__HOST_STAGES; i++)
        check((fds[i] = staged(4 << 20)) >= 0, "as many as may be");
    sky_shm_frame f = {.kind = SKY_SHM_STAGE, .stage_bytes = (4 << 20) + 1};
    sky_raw_say(fds[0], &f, -1);
    check(sky_raw_hear(fds[0], &f, NULL) && f.status == SKY_E_BUSY, "a larger one is refused");
    f = (sky_shm_frame){.kind = SKY_SHM_RUN, .count = 1, .op = SKY_OP_PUT};
    f.orders[0] = (sky_shm_order){.key = sky_fixture_key(5), .bytes = 4 << 20};
    sky_raw_say(fds[0], &f, -1);
    check(sky_raw_hear(fds[0], &f, NULL) && f.kind == SKY_SHM_DONE && f.results[0].status == SKY_OK,
          "what it has is still there");
}

static void finds_its_own(void) {
    sky_status status;
    sky_span view;
    sky_cache *cache = connect_to(&status);
    check(cache && lease(cache, 2, &view) == SKY_OK, "what it put is still there");
    check(cache && lease(cache, 1, &view) == SKY_MISS, "nothing of others is there");
    sky_cache_close(cache);
}

static void verifies_in_vain(void) {
    sky_status status;
    sky_verify_report report = {0};
    sky_cache *cache = connect_to(&status);
    check(cache && sky_verify(cache, &report) != SKY_OK, "its connection ends");
    sky_cache_close(cache);
}

static void is_served(void) {
    sky_status status;
    sky_span view;
    sky_cache *cache = connect_to(&status);
    check(cache && lease(cache, 1, &view) == SKY_MISS, "it is served");
    sky_cache_close(cache);
}

/* ---- children ---- */

static void (*const bodies[])(void) = {is_refused,       uses_its_own,
                                       finds_its_own,    stages_are_bounded,
                                       verifies_in_vain, a_refused_stage_leaves_the_old,
                                       is_served};

/* What the program is when its arguments are a user, a body and the host's socket. It ends at once:
 * another user may not let LeakSanitizer look. */
static _Noreturn void be_child(char *const argv[]) {
    check(setuid((uid_t)atoi(argv[1])) == 0, "it is root's to become another user");
    snprintf(host.socket_path, sizeof host.socket_path, "%s", argv[3]);
    failures == 0 ? bodies[atoi(argv[2])]() : (void)0;
    _exit(failures != 0);
}

/* Run `body` as another user, in this program from its start: a child that only forked, from a
 * process with threads, may not start any under ThreadSanitizer. */
static pid_t in_child(uint32_t uid, void (*body)(void)) {
    char user[16], number[16];
    int which = 0;
    while (bodies[which] != body)
        which++;
    snprintf(user, sizeof user, "%u", uid);
    snprintf(number, sizeof number, "%d", which);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "tenants_test", user, number, host.socket_path, NULL);
        _exit(127);
    }
    return child;
}

/* It ended, and all its checks held. */
static bool has_passed(pid_t child) {
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return ended == 0;
}

static bool as_user(uint32_t uid, void (*body)(void)) {
    return has_passed(in_child(uid, body));
}

/* ---- tests ---- */

static const char *const other_urls[] = {"mem:4MiB"};
static sky_host_user users[] = {{OTHER, other_urls, 1, NULL}, {THIRD, other_urls, 1, NULL}};

static bool take_users(void *context, sky_host_settings *settings) {
    _Atomic size_t *wanted = ((sky_host_fixture *)context)->user;
    sky_event_clear(host.reload);
    settings->users = users;
    settings->user_count = *wanted;
    return true;
}

static _Atomic size_t wanted;

static void start_with(size_t user_count) {
    const char *url = "mem:64MiB";
    wanted = user_count;
    sky_host_fixture_prepare(&host, &url, 1);
    host.user = &wanted;
    assert_int_equal(sky_event_create(&host.reload), SKY_OK);
    host.options.reload_fd = host.reload;
    host.options.reload = take_users;
    host.options.settings = (sky_host_settings){.users = users, .user_count = user_count};
    sky_host_fixture_run(&host);
}

static void end_it(void) {
    sky_host_fixture_stop(&host);
    sky_event_close(host.reload);
}

static void need_root(void) {
    if (geteuid() != 0)
        skip();
}

static void users_have_their_own(void **state) {
    (void)state;
    sky_status status;
    sky_span view;
    need_root();
    start_with(1);
    sky_cache *cache = connect_to(&status);
    assert_int_equal(put(cache, 1, 3 << 20), SKY_OK);
    assert_true(as_user(THIRD, is_refused));
    assert_true(as_user(OTHER, uses_its_own));
    assert_true(as_user(OTHER, finds_its_own));
    assert_true(as_user(OTHER, stages_are_bounded));
    assert_true(as_user(OTHER, a_refused_stage_leaves_the_old));
    assert_int_equal(lease(cache, 2, &view), SKY_MISS);
    assert_int_equal(put(cache, 3, 5 << 20), SKY_OK);
    sky_cache_close(cache);
    end_it();
}

/* A reload is over when the host answered something after it. */
static void set_users(size_t count) {
    char *text;
    wanted = count;
    sky_event_raise(host.reload);
    while (sky_poll(&host.reload, 1, sky_now()) != 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(sky_host_text(host.socket_path, sky_now() + PATIENCE, &text), SKY_OK);
    free(text);
}

static void users_come_and_go(void **state) {
    (void)state;
    need_root();
    start_with(0);
    assert_true(as_user(OTHER, is_refused));
    set_users(2);
    assert_true(as_user(OTHER, uses_its_own));
    assert_true(as_user(THIRD, uses_its_own));
    set_users(1);
    assert_true(as_user(THIRD, is_refused));
    assert_true(as_user(OTHER, finds_its_own)); /* it stayed */
    set_users(0);
    assert_true(as_user(OTHER, is_refused));
    set_users(1);
    assert_true(as_user(OTHER, uses_its_own)); /* nothing is left of before */
    end_it();
}

static void one_user_does_not_take_all_places(void **state) {
    (void)state;
    int fds[SKY_HOST_CLIENTS_MAX / 2 + 1];
    sky_local_peer peer;
    need_root();
    start_with(1);
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX / 2 + 1; i++) {
        sky_status status;
        while ((status = sky_local_connect(host.socket_path, &fds[i], &peer)) == SKY_E_BUSY)
            sky_poll(NULL, 0, sky_now() + SKY_MS(1));
        assert_int_equal(status, SKY_OK);
    }
    assert_true(as_user(OTHER, uses_its_own));
    sky_status status;
    sky_cache *cache = connect_to(&status); /* a silent one makes room */
    assert_int_equal(status, SKY_OK);
    sky_cache_close(cache);
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX / 2 + 1; i++)
        sky_local_close(fds[i]);
    end_it();
}

static void an_idle_host_ends(void **state) {
    (void)state;
    const char *url = "mem:4MiB";
    sky_status status;
    sky_host_fixture_prepare(&host, &url, 1);
    host.options.settings.idle_s = 1;
    sky_host_fixture_run(&host);
    sky_cache *cache = connect_to(&status);
    sky_event_clear(host.up);
    assert_int_equal(sky_poll(&host.up, 1, sky_now() + SKY_MS(1500)), 0);
    assert_int_equal(put(cache, 1, 100), SKY_OK); /* with a client it does not */
    sky_cache_close(cache);
    assert_int_not_equal(sky_poll(&host.up, 1, sky_now() + PATIENCE), 0); /* raised at its end */
    sky_host_fixture_stop(&host);
}

/* ---- an end with something under way ---- */

static _Atomic uint32_t listings;

static sky_status slow_list(void *self, sky_tier_key_fn each, void *context) {
    (void)self, (void)each, (void)context;
    listings++;
    sky_slow_fixture_wait();
    return SKY_OK;
}

static const char *const slow_urls[] = {"mem:4MiB", "slow:x"};
static const sky_host_user slow_user = {OTHER, slow_urls, 2, NULL};

/* Its stores stay open while somebody works with them; it is not served meanwhile. */
static void a_user_that_goes_while_it_is_busy(void **state) {
    (void)state;
    need_root();
    start_with(0);
    users[0] = slow_user;
    set_users(1);
    sky_slow_fixture_held = true;
    sky_slow_fixture_asked = false;
    pid_t child = in_child(OTHER, verifies_in_vain);
    while (!sky_slow_fixture_asked)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    set_users(0);
    assert_true(has_passed(child));
    assert_true(as_user(OTHER, is_refused));
    set_users(1); /* it comes back before they are closed */
    sky_slow_fixture_held = false;
    assert_true(as_user(OTHER, is_served));
    users[0] = (sky_host_user){OTHER, other_urls, 1, NULL};
    end_it();
}

/* A client by hand that asks for a listing, and goes once its question was taken. */
static void ask_and_go(void) {
    const sky_shm_frame frames[] = {{.kind = SKY_SHM_ASK, .question = SKY_SHM_LIST},
                                    {.kind = SKY_SHM_ASK, .question = SKY_SHM_STAT}};
    sky_shm_frame f;
    sky_local_peer peer;
    int fd;
    assert_int_equal(sky_local_connect(host.socket_path, &fd, &peer), SKY_OK);
    sky_raw_greet(fd);
    for (int i = 0; i < 2; i++)
        sky_raw_say(fd, &frames[i], -1);
    assert_true(sky_raw_hear(fd, &f, NULL)); /* the last is answered at once */
    assert_true(f.kind == SKY_SHM_TOLD && f.question == SKY_SHM_STAT);
    sky_raw_close(fd);
}

static bool ignore_entry(void *context, const sky_entry *entry) {
    (void)context, (void)entry;
    return true;
}

/* One listing is under way when others ask and go: those are not begun. */
static void who_asks_and_goes_keeps_nobody_waiting(void **state) {
    sky_status status;
    (void)state;
    sky_host_fixture_start(&host, slow_urls, 2);
    sky_cache *cache = connect_to(&status);
    sky_slow_fixture_held = true;
    sky_slow_fixture_asked = false;
    listings = 0;
    while (!sky_slow_fixture_asked) /* one that goes too early is not begun either */
        ask_and_go();
    for (int i = 0; i < 10; i++)
        ask_and_go();
    char *text;
    assert_int_equal(sky_host_text(host.socket_path, sky_now() + PATIENCE, &text), SKY_OK);
    free(text); /* by now the host knows that they have gone */
    sky_slow_fixture_held = false;
    assert_int_equal(sky_list(cache, ignore_entry, NULL), SKY_OK);
    assert_int_equal(listings, 2);
    sky_cache_close(cache);
    sky_host_fixture_stop(&host);
}

static void *check_pool(void *argument) {
    char url[96];
    const char *urls[] = {url};
    sky_verify_report report;
    sky_cache *cache;
    snprintf(url, sizeof url, "shm:%s?pool=slow", host.socket_path);
    if (sky_cache_open(urls, 1, &cache, NULL) == SKY_OK) {
        *(sky_status *)argument = sky_verify(cache, &report);
        sky_cache_close(cache);
    }
    return NULL;
}

/* A check of one pool's stores takes long, and another's are listed meanwhile. */
static void who_checks_keeps_no_others_waiting(void **state) {
    (void)state;
    const sky_shm_frame list = {.kind = SKY_SHM_ASK, .question = SKY_SHM_LIST};
    sky_status checked = SKY_PENDING;
    sky_local_peer peer;
    sky_thread thread;
    int fd;
    users[0] = (sky_host_user){sky_local_user(), slow_urls, 2, "slow"};
    start_with(1);
    sky_slow_fixture_held = true;
    sky_slow_fixture_asked = false;
    assert_int_equal(sky_thread_start(&thread, "check", check_pool, &checked), SKY_OK);
    while (!sky_slow_fixture_asked)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_int_equal(sky_local_connect(host.socket_path, &fd, &peer), SKY_OK);
    sky_raw_greet(fd);
    sky_raw_say(fd, &list, -1);
    for (sky_time until = sky_now() + SKY_SECONDS(5); sky_now() < until;)
        if (sky_ring_has_work(sky_raw_ring(fd)))
            break;
        else
            sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    bool listed = sky_ring_has_work(sky_raw_ring(fd));
    sky_slow_fixture_held = false;
    sky_thread_join(&thread);
    sky_raw_close(fd);
    users[0] = (sky_host_user){OTHER, other_urls, 1, NULL};
    end_it();
    assert_int_equal(checked, SKY_OK);
    assert_true(listed);
}

static void what_was_asked_is_answered(void **state) {
    (void)state;
    const char *urls[] = {"mem:4MiB", "slow:x"};
    sky_status status;
    sky_host_fixture_start(&host, urls, 2);
    sky_cache *cache = connect_to(&status);
    sky_item item = {.key = sky_fixture_key(7)};
    sky_batch batch;
    sky_slow_fixture_held = true;
    sky_slow_fixture_asked = false;
    assert_int_equal(sky_submit(cache, SKY_OP_LEASE, &item, 1, NULL, &batch), SKY_OK);
    while (!sky_slow_fixture_asked)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    sky_event_raise(host.stop);
    while (access(host.socket_path, F_OK) == 0) /* it is no longer to be found */
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    sky_slow_fixture_held = false;
    assert_int_equal(sky_wait(cache, batch, sky_now() + PATIENCE), SKY_OK);
    assert_int_equal(item.status, SKY_MISS); /* and not an error of I/O */
    sky_cache_close(cache);
    sky_host_fixture_stop(&host);
}

int main(int argc, char *argv[]) {
    if (argc == 4)
        be_child(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_have_their_own),
        cmocka_unit_test(users_come_and_go),
        cmocka_unit_test(one_user_does_not_take_all_places),
        cmocka_unit_test(an_idle_host_ends),
        cmocka_unit_test(a_user_that_goes_while_it_is_busy),
        cmocka_unit_test(who_asks_and_goes_keeps_nobody_waiting),
        cmocka_unit_test(who_checks_keeps_no_others_waiting),
        cmocka_unit_test(what_was_asked_is_answered),
    };
    sky_tier_driver slow = sky_slow_fixture_driver();
    slow.list = slow_list;
    if (sky_tier_register("slow", &slow) != SKY_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
