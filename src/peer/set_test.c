/* Proves: several hosts of a file are a tier with every promise of one; looking for 1,000 keys is
 * one round trip to each; gets come from the nearest host that has them and from the next when it
 * fails, and what no other has is unavailable then; puts go where choice.h says, and nowhere that
 * is read-only; a host that is down is passed over, said, and found again, and one that does not
 * answer is not waited for; a file with a fault is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/tcp.h"
#include "peer/peer_fixture.h"
#include "peer/server.h"
#include "tier/peer/peer.h"
#include "tier/peer/peer_state.h"
#include "tier/tier_fixture.h"

#define HOSTS    3u
#define PATIENCE SKY_SECONDS(60)

typedef struct {
    const char *options[HOSTS]; /* of each line */
    uint32_t host_count;
    sky_peer_fixture hosts[HOSTS];
    char path[64];
    sky_tier *tier;
} trial;

static void write_file(const trial *t) {
    FILE *out = fopen(t->path, "w");
    assert_non_null(out);
    fprintf(out, "# some hosts\n");
    for (uint32_t i = 0; i < t->host_count; i++)
        fprintf(out, "%s %s%s %s\n", sky_peer_address(t->hosts[i].server),
                t->hosts[i].key_path[0] ? "key=" : "plain", t->hosts[i].key_path,
                t->options[i] ? t->options[i] : "");
    assert_int_equal(fclose(out), 0);
}

static sky_status try_to_open(const trial *t, const char *more, const sky_tier_env *env,
                              sky_tier **out, sky_error *error) {
    char url[256];
    snprintf(url, sizeof url, "skymem://?peers=%s%s%s", t->path, more, sky_peer_fixture_query());
    return sky_peer_tier_open(url, env, out, error);
}

static sky_tier *connect_to(trial *t, const sky_tier_env *env) {
    sky_error error = {0};
    if (try_to_open(t, "", env, &t->tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return t->tier;
}

/* The first is sealed, the others are plain. */
static sky_tier *open_set(void *context, const sky_tier_env *env) {
    const char *url = "mem:16MiB";
    trial *t = context;
    for (uint32_t i = 0; i < t->host_count; i++)
        sky_peer_fixture_start(&t->hosts[i], &url, 1, i == 0);
    snprintf(t->path, sizeof t->path, "/tmp/skymem-peers-%d", getpid());
    write_file(t);
    return connect_to(t, env);
}

static void close_set(void *context, sky_tier *tier) {
    trial *t = context;
    tier->ops->close(tier);
    for (uint32_t i = 0; i < t->host_count; i++)
        sky_peer_fixture_stop(&t->hosts[i]);
    unlink(t->path);
}

static sky_tier *reopen_set(void *context, sky_tier *tier, const sky_tier_env *env) {
    tier->ops->close(tier);
    return connect_to(context, env);
}

static const sky_tier_env env;

static trial *start(const char *first, const char *second, const char *third) {
    static trial t;
    t = (trial){.options = {first, second, third}, .host_count = HOSTS};
    open_set(&t, &env);
    return &t;
}

static sky__peer *state_of(const trial *t) {
    return (sky__peer *)(void *)t->tier;
}

/* Put into a host's cache by one of its own programs. */
static void put_at(trial *t, uint32_t host, uint64_t n, size_t bytes) {
    static uint8_t payload[100000];
    sky_span span = {payload, bytes};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    sky_fixture_fill(payload, bytes, n);
    assert_int_equal(sky_run(t->hosts[host].cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
}

static bool has_at(trial *t, uint32_t host, uint64_t n) {
    sky_item item = {.key = sky_fixture_key(n)};
    assert_int_equal(sky_run(t->hosts[host].cache, SKY_OP_HAS, &item, 1, NULL), SKY_OK);
    return item.status == SKY_OK;
}

static uint64_t runs_of(const trial *t, uint32_t host) {
    return atomic_load(&t->hosts[host].server->run_count);
}

static uint64_t sent_by(const trial *t, uint32_t host) {
    sky_peer_stat stat;
    sky_peer_stats(t->hosts[host].server, &stat);
    return stat.sent_bytes;
}

static void set_distance(const trial *t, uint32_t host, uint64_t ns) {
    sky__peer *p = state_of(t);
    sky_mutex_lock(&p->mutex);
    p->hosts[host].round_trip_ns = ns;
    sky_mutex_unlock(&p->mutex);
}

/* ---- looking, getting ---- */

static void a_thousand_keys_are_one_round_trip(void **state) {
    enum { KEYS = 1000 };
    static sky_item items[KEYS];
    trial *t = start(NULL, NULL, NULL);
    uint64_t before[HOSTS];
    (void)state;
    sky_tier *one;
    assert_int_equal(try_to_open(t, "&connections=1", &env, &one, NULL), SKY_OK);
    for (uint32_t i = 0; i < HOSTS; i++) {
        put_at(t, i, 10 + i, 100);
        before[i] = runs_of(t, i);
    }
    for (uint64_t n = 0; n < KEYS; n++)
        items[n].key = sky_fixture_key(n);
    sky_fixture_run(one, SKY_OP_HAS, items, KEYS, NULL);
    for (uint64_t n = 0; n < KEYS; n++)
        assert_int_equal(items[n].status, n >= 10 && n < 13 ? SKY_OK : SKY_MISS);
    for (uint32_t i = 0; i < HOSTS; i++)
        assert_int_equal(runs_of(t, i), before[i] + 1);
    one->ops->close(one);
    close_set(t, t->tier);
}

/* What looking found is got without asking again. */
static void gets_come_from_the_nearest_that_has_it(void **state) {
    trial *t = start(NULL, NULL, NULL);
    uint64_t before[HOSTS];
    (void)state;
    for (uint64_t n = 0; n < 6; n++) {
        put_at(t, 1, n, 50000);
        put_at(t, 2, n, 50000);
    }
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_HAS, sky_fixture_key(0)), SKY_OK);
    for (uint32_t near = 1; near < HOSTS; near++) {
        set_distance(t, 0, 1000);
        set_distance(t, near, UINT64_C(2000));
        set_distance(t, 3 - near, UINT64_C(1000000000000));
        for (uint32_t i = 0; i < HOSTS; i++)
            before[i] = sent_by(t, i);
        assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(0), 50000, 0), SKY_OK);
        for (uint32_t i = 0; i < HOSTS; i++)
            assert_int_equal(sent_by(t, i) - before[i], i == near ? 50000 : 0);
    }
    uint64_t asked = runs_of(t, 0);
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(0), 50000, 0), SKY_OK);
    assert_int_equal(runs_of(t, 0), asked);
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(1), 50000, 1), SKY_OK);
    assert_int_equal(runs_of(t, 0), asked + 1); /* nobody had looked for this one */
    close_set(t, t->tier);
}

static void what_a_host_lost_comes_from_the_next(void **state) {
    trial *t = start(NULL, NULL, NULL);
    sky_item item = {.key = sky_fixture_key(5)};
    (void)state;
    put_at(t, 1, 5, 70000);
    put_at(t, 2, 5, 70000);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_HAS, sky_fixture_key(5)), SKY_OK);
    set_distance(t, 1, 1000);
    set_distance(t, 2, UINT64_C(1000000000000));
    assert_int_equal(sky_run(t->hosts[1].cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(5), 70000, 5), SKY_OK);
    sky_peer_stop(t->hosts[2].server); /* nobody has it any more that answers */
    t->hosts[2].server = NULL;
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(5), 70000, 5), SKY_E_UNAVAILABLE);
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(6), 100, 6), SKY_E_UNAVAILABLE);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_HAS, sky_fixture_key(6)), SKY_E_UNAVAILABLE);
    put_at(t, 0, 6, 100); /* what another has is there */
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(6), 100, 6), SKY_OK);
    close_set(t, t->tier);
}

/* ---- putting ---- */

static void puts_go_where_the_hash_says(void **state) {
    trial *t = start(NULL, NULL, "read-only");
    uint64_t ids[SKY_PEER_HOSTS_MAX] = {0};
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++)
        ids[i] = sky_peer_id(sky_peer_address(t->hosts[i].server));
    for (uint64_t n = 0; n < 20; n++) {
        const sky_key key = sky_fixture_key(n);
        assert_int_equal(sky_fixture_put(t->tier, key, NULL, 1000, n), SKY_OK);
        for (uint32_t i = 0; i < HOSTS; i++)
            assert_int_equal(has_at(t, i, n), i == sky_peer_owner(ids, 3, &key));
    }
    put_at(t, 2, 100, 1000);
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(100), 1000, 100), SKY_OK);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_REMOVE, sky_fixture_key(100)), SKY_MISS);
    assert_true(has_at(t, 2, 100));
    close_set(t, t->tier);
}

static void read_only_files_take_nothing(void **state) {
    trial *t = start("read-only", "read-only", "read-only");
    (void)state;
    put_at(t, 1, 1, 1000);
    assert_int_equal(sky_fixture_put(t->tier, sky_fixture_key(2), NULL, 1000, 2),
                     SKY_E_UNSUPPORTED);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_REMOVE, sky_fixture_key(1)),
                     SKY_E_UNSUPPORTED);
    assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(1), 1000, 1), SKY_OK);
    close_set(t, t->tier);
}

/* A block's content is known by its key, a name's is not. */
static void blocks_go_elsewhere_and_names_do_not(void **state) {
    trial *t = start(NULL, NULL, NULL);
    static uint8_t payload[1000];
    uint32_t refused = 0;
    (void)state;
    sky_peer_stop(t->hosts[1].server);
    t->hosts[1].server = NULL;
    for (uint64_t n = 0; n < 20; n++) {
        assert_int_equal(sky_fixture_put(t->tier, sky_fixture_key(n), NULL, 1000, n), SKY_OK);
        assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(n), 1000, n), SKY_OK);
        sky_span span = {payload, sizeof payload};
        sky_item item = {.key = sky_fixture_key(n),
                         .spans = &span,
                         .span_count = 1,
                         .name = "a name",
                         .name_bytes = 6};
        sky_fixture_run(t->tier, SKY_OP_PUT, &item, 1, NULL);
        assert_true(item.status == SKY_OK || item.status == SKY_E_IO);
        refused += item.status == SKY_E_IO;
        assert_int_equal(item.tier, env.index); /* the others answer: the set is not failing */
    }
    assert_in_range(refused, 1, 19);
    const uint64_t block = 1, nobodys = 100;
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_PIN, sky_fixture_key(block)), SKY_OK);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_PIN, sky_fixture_key(nobodys)),
                     SKY_E_UNAVAILABLE);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_REMOVE, sky_fixture_key(block)),
                     SKY_E_UNAVAILABLE); /* removed, but for what the silent one may have */
    assert_false(has_at(t, 0, block) || has_at(t, 2, block));
    close_set(t, t->tier);
}

/* ---- hosts that go and come ---- */

static bool is_up(const trial *t, uint32_t host) {
    sky__peer *p = state_of(t);
    sky_mutex_lock(&p->mutex);
    bool up = !p->hosts[host].down && !p->hosts[host].probing;
    sky_mutex_unlock(&p->mutex);
    return up;
}

static void a_host_that_is_down_is_passed_over_and_found_again(void **state) {
    trial *t = start(NULL, NULL, NULL);
    char address[100];
    sky_peer_options options = {.struct_bytes = sizeof options,
                                .address = address,
                                .plain = true,
                                .transport = sky_peer_fixture_carrier()};
    (void)state;
    put_at(t, 2, 1, 1000);
    snprintf(address, sizeof address, "%s", sky_peer_address(t->hosts[1].server));
    sky_peer_stop(t->hosts[1].server);
    t->hosts[1].server = NULL;
    sky_time until = sky_now() + PATIENCE;
    for (int i = 0; i < 50 || is_up(t, 1); i++) {
        assert_true(sky_now() < until);
        assert_int_equal(sky_fixture_check(t->tier, sky_fixture_key(1), 1000, 1), SKY_OK);
        (void)sky_fixture_one(t->tier, SKY_OP_HAS, sky_fixture_key(99)); /* all are asked */
    }
    assert_non_null(strstr(sky_fixture_stat(t->tier).note, "2 of 3 peers answer; no answer: "));
    assert_non_null(strstr(sky_fixture_stat(t->tier).note, address));
    assert_false(sky_fixture_stat(t->tier).failing);
    put_at(t, 1, 7, 2000);
    while (sky_peer_serve(t->hosts[1].cache, &options, &t->hosts[1].server, NULL) == SKY_E_BUSY)
        usleep(10000);
    while (sky_fixture_check(t->tier, sky_fixture_key(7), 2000, 7) != SKY_OK) {
        assert_true(sky_now() < until);
        usleep(10000);
    }
    assert_string_equal(sky_fixture_stat(t->tier).note, "3 of 3 peers answer");
    close_set(t, t->tier);
}

static void nobody_there_is_an_error_of_all(void **state) {
    trial *t = start(NULL, NULL, NULL);
    sky_tier *another;
    sky_error error;
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++) {
        sky_peer_stop(t->hosts[i].server);
        t->hosts[i].server = NULL;
    }
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_HAS, sky_fixture_key(1)), SKY_E_IO);
    assert_int_equal(sky_fixture_one(t->tier, SKY_OP_REMOVE, sky_fixture_key(1)), SKY_E_IO);
    assert_int_equal(sky_fixture_put(t->tier, sky_fixture_key(2), NULL, 10, 2), SKY_E_IO);
    assert_true(sky_fixture_stat(t->tier).failing);
    assert_int_equal(try_to_open(t, "", &env, &another, &error), SKY_E_IO);
    assert_int_equal(error.status, SKY_E_IO);
    assert_non_null(strstr(error.text, "none of its 3 peers answers"));
    assert_int_equal(sky_peer_tier_open("skymem://127.0.0.1:1?plain=yes", &env, &another, &error),
                     SKY_E_IO); /* one alone */
    assert_int_equal(error.status, SKY_E_IO);
    assert_int_equal(try_to_open(t, "&away=yes", &env, &another, &error), SKY_OK);
    another->ops->close(another);
    close_set(t, t->tier);
}

/* A host in a process of its own; its address. */
static pid_t start_process(char address[SKY_ADDRESS_TEXT_BYTES]) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const char *url = "mem:16MiB";
        sky_peer_fixture p;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sky_peer_fixture_start(&p, &url, 1, false);
        snprintf(address, SKY_ADDRESS_TEXT_BYTES, "%s", sky_peer_address(p.server));
        if (write(ends[1], address, SKY_ADDRESS_TEXT_BYTES) != SKY_ADDRESS_TEXT_BYTES)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], address, SKY_ADDRESS_TEXT_BYTES), SKY_ADDRESS_TEXT_BYTES);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

/* TCP goes on when a process has stopped: nothing but silence tells. */
static void a_host_that_says_nothing_is_down(void **state) {
    trial t = {0};
    char address[SKY_ADDRESS_TEXT_BYTES];
    (void)state;
    pid_t pid = start_process(address);
    snprintf(t.path, sizeof t.path, "/tmp/skymem-peers-%d", getpid());
    FILE *out = fopen(t.path, "w");
    assert_non_null(out);
    fprintf(out, "%s plain\n", address);
    assert_int_equal(fclose(out), 0);
    connect_to(&t, &env);
    assert_int_equal(sky_fixture_one(t.tier, SKY_OP_HAS, sky_fixture_key(1)), SKY_MISS);
    atomic_store(&state_of(&t)->patience.silent_ns, SKY_MS(50));
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid); /* until then it may still answer */
    assert_int_equal(sky_fixture_one(t.tier, SKY_OP_HAS, sky_fixture_key(1)), SKY_E_IO);
    assert_false(is_up(&t, 0));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    t.tier->ops->close(t.tier);
    unlink(t.path);
}

/* A machine that takes connections and says nothing: it would be waited for an hour. */
static void one_that_does_not_answer_is_not_waited_for(void **state) {
    const sky__peer_patience before = sky__peer_patience_of_new;
    const char *url = "mem:16MiB";
    char address[SKY_ADDRESS_TEXT_BYTES];
    sky_address at, bound;
    trial t = {.host_count = 1};
    int silent;
    (void)state;
    assert_int_equal(sky_address_parse("127.0.0.1:0", &at, NULL), SKY_OK);
    assert_int_equal(sky_tcp_listen(&at, &silent, &bound, NULL), SKY_OK);
    sky_address_text(&bound, address);
    sky_peer_fixture_start(&t.hosts[0], &url, 1, false);
    snprintf(t.path, sizeof t.path, "/tmp/skymem-peers-%d", getpid());
    FILE *out = fopen(t.path, "w");
    assert_non_null(out);
    fprintf(out, "%s plain\n%s plain\n", address, sky_peer_address(t.hosts[0].server));
    assert_int_equal(fclose(out), 0);
    sky__peer_patience_of_new.connect_ns = SKY_SECONDS(3600);
    sky__peer_patience_of_new.others_ns = 0;
    connect_to(&t, &env);
    assert_false(is_up(&t, 0));
    assert_true(is_up(&t, 1));
    put_at(&t, 0, 1, 1000);
    assert_int_equal(sky_fixture_check(t.tier, sky_fixture_key(1), 1000, 1), SKY_OK);
    assert_int_equal(sky_fixture_check(t.tier, sky_fixture_key(2), 10, 2), SKY_E_UNAVAILABLE);
    assert_non_null(strstr(sky_fixture_stat(t.tier).note, "1 of 2 peers answer; no answer: "));
    sky__peer_patience_of_new = before;
    close_set(&t, t.tier);
    sky_tcp_close(silent);
}

/* ---- listing, opening ---- */

static bool count_entry(void *context, const sky_entry *entry) {
    ((uint64_t *)context)[0]++;
    ((uint64_t *)context)[1] += entry->bytes;
    return true;
}

static void keys_are_listed_once(void **state) {
    trial *t = start(NULL, NULL, NULL);
    uint64_t seen[2] = {0};
    sky_verify_report report = {0};
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++)
        for (uint64_t n = 0; n < 5; n++)
            put_at(t, i, i == 2 ? 10 + n : n, 1000 + n);
    assert_int_equal(t->tier->ops->list(t->tier, count_entry, seen), SKY_OK);
    assert_int_equal(seen[0], 10);
    assert_int_equal(seen[1], 10020);
    assert_int_equal(t->tier->ops->verify(t->tier, &report), SKY_OK);
    assert_int_equal(report.entries, 15);
    close_set(t, t->tier);
}

static void files_with_a_fault_are_refused(void **state) {
    trial *t = start(NULL, NULL, NULL);
    sky_tier *tier;
    sky_error error;
    (void)state;
    close_set(t, t->tier);
    FILE *out = fopen(t->path, "w");
    assert_non_null(out);
    fprintf(out, "127.0.0.1:1 plain\n127.1:2 plain\n127.0.0.1:2 plain\n");
    assert_int_equal(fclose(out), 0);
    assert_int_equal(try_to_open(t, "", &env, &tier, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, ":3: 127.0.0.1:2 is 127.1:2 of an earlier line"));
    out = fopen(t->path, "w");
    assert_non_null(out);
    fprintf(out, "127.0.0.1:1 plain\n127.0.0.1:2\n");
    assert_int_equal(fclose(out), 0);
    assert_int_equal(try_to_open(t, "", &env, &tier, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, ":2: 127.0.0.1:2 needs key=FILE, or plain"));
    assert_int_equal(try_to_open(t, "&plain=no", &env, &tier, &error), SKY_E_SYNTAX);
    assert_int_equal(try_to_open(t, "&key=/tmp/skymem-no-such-key", &env, &tier, &error), SKY_E_IO);
    assert_int_equal(unlink(t->path), 0);
    assert_int_equal(try_to_open(t, "", &env, &tier, &error), SKY_E_IO);
    assert_int_equal(sky_peer_tier_open("skymem://", &env, &tier, &error), SKY_E_SYNTAX);
    assert_int_equal(sky_peer_tier_open("skymem://a:1?peers=x", &env, &tier, &error), SKY_E_SYNTAX);
}

static int run_own(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_keys_are_one_round_trip),
        cmocka_unit_test(gets_come_from_the_nearest_that_has_it),
        cmocka_unit_test(what_a_host_lost_comes_from_the_next),
        cmocka_unit_test(puts_go_where_the_hash_says),
        cmocka_unit_test(read_only_files_take_nothing),
        cmocka_unit_test(blocks_go_elsewhere_and_names_do_not),
        cmocka_unit_test(a_host_that_is_down_is_passed_over_and_found_again),
        cmocka_unit_test(nobody_there_is_an_error_of_all),
        cmocka_unit_test(a_host_that_says_nothing_is_down),
        cmocka_unit_test(one_that_does_not_answer_is_not_waited_for),
        cmocka_unit_test(keys_are_listed_once),
        cmocka_unit_test(files_with_a_fault_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int conforms(trial *t, sky_tier_fixture f) {
    f.context = t;
    f.open = open_set;
    f.close = close_set;
    return sky_tier_conformance(&f);
}

/* Blocks of one that is put to several hosts lie there without their parents. */
int main(void) {
    trial one = {.options = {NULL, "read-only", "read-only"}, .host_count = HOSTS};
    trial several = {.host_count = HOSTS};
    sky__peer_patience_of_new.others_ns = PATIENCE; /* however busy the machine is */
    int failed = run_own();
    if (sky_peer_fixture_carry("fabric:tcp"))
        failed += run_own();
    assert_true(sky_peer_fixture_carry("tcp"));
    return failed +
           conforms(&one, (sky_tier_fixture){.name = "one of three takes puts",
                                             .reopen = reopen_set,
                                             .capacity_bytes = 16 << 20,
                                             .pins = true,
                                             .adopts = true}) +
           conforms(&several, (sky_tier_fixture){.name = "three hosts",
                                                 .payload_bytes_max = 4 << 20,
                                                 .pins = true,
                                                 .flat = true,
                                                 .unlisted = true});
}
