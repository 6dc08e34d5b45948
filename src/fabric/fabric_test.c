/* Proves: over libfabric's tcp provider bytes come as they were sent, however they are cut; who
 * does not read stops who sends; the end of the other end, closed or killed, shows, also when a
 * child of it lives on; what was sent before a close arrives; and a provider that there is not is
 * refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/flow.h"
#include "io/clock.h"
#include "io/fork.h"
#include "io/sync.h"

#define PATIENCE SKY_SECONDS(60)
#define LIFE_S   300 /* of a process whose test has died */

typedef struct {
    sky_fabric_end *listener, *client, *host;
    sky_address bound;
    _Atomic bool met;
} trial;

static void start_listening(trial *t) {
    sky_error error = {0};
    sky_address at;
    memset(t, 0, sizeof *t);
    assert_int_equal(sky_address_parse("127.0.0.1:0", &at, NULL), SKY_OK);
    if (sky_fabric_listen("tcp", &at, &t->listener, &t->bound, &error) != SKY_OK)
        fail_msg("%s", error.text);
    assert_int_not_equal(sky_address_port(&t->bound), 0);
}

static sky_fabric_end *await_client(sky_fabric_end *listener, sky_address *peer) {
    sky_fabric_end *e;
    bool exhausted;
    int fd = sky_fabric_fd(listener);
    sky_time until = sky_now() + PATIENCE;
    while (!(e = sky_fabric_accept(listener, peer, &exhausted))) {
        assert_true(sky_now() < until);
        if (sky_fabric_arm(listener, true, false) == SKY_OK)
            sky_poll(&fd, 1, until);
    }
    return e;
}

static void await_end(sky_fabric_end *e, bool reads, bool writes) {
    int fd = sky_fabric_fd(e);
    if (sky_fabric_arm(e, reads, writes) == SKY_OK)
        sky_poll(&fd, 1, sky_now() + SKY_MS(100));
}

/* Accepts, and goes on until the client is connected: nothing happens outside of calls. */
static void *be_host(void *argument) {
    trial *t = argument;
    sky_address peer;
    t->host = await_client(t->listener, &peer);
    assert_true(sky_address_is_loopback(&peer));
    while (!atomic_load(&t->met))
        await_end(t->host, true, false);
    return NULL;
}

static void meet(trial *t) {
    sky_thread thread = {0};
    start_listening(t);
    assert_int_equal(sky_thread_start(&thread, "host", be_host, t), SKY_OK);
    assert_int_equal(sky_fabric_connect("tcp", &t->bound, sky_now() + PATIENCE, -1, &t->client),
                     SKY_OK);
    atomic_store(&t->met, true);
    sky_thread_join(&thread);
}

static void part(trial *t) {
    sky_fabric_close(t->client);
    sky_fabric_close(t->host);
    sky_fabric_close(t->listener);
}

static void fill(uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* Both ways at once, in odd pieces. */
static void bytes_come_as_they_were_sent(void **state) {
    enum { BYTES = 5000000 };
    trial t;
    meet(&t);
    sky_fabric_end *ends[] = {t.client, t.host};
    uint8_t *data = malloc(BYTES), *back[] = {malloc(BYTES), malloc(BYTES)};
    size_t sent_at[2] = {0}, got_at[2] = {0}, moved, n = 0;
    (void)state;
    fill(data, BYTES);
    for (sky_time until = sky_now() + PATIENCE; got_at[0] < BYTES || got_at[1] < BYTES; n++) {
        assert_true(sky_now() < until);
        for (int i = 0; i < 2; i++) {
            size_t now = 1 + n * 7919 % 100000, left = BYTES - sent_at[i];
            now = now < left ? now : left;
            const sky_span from[] = {{data + sent_at[i], now / 3},
                                     {data + sent_at[i] + now / 3, now - now / 3}};
            sky_status status = now > 0 ? sky_fabric_send(ends[i], from, 2, &moved) : SKY_E_BUSY;
            assert_true(status == SKY_OK || status == SKY_E_BUSY);
            sent_at[i] += status == SKY_OK ? moved : 0;
            now = 1 + n * 104729 % 70000;
            left = BYTES - got_at[i];
            now = now < left ? now : left;
            const sky_span to[] = {{back[i] + got_at[i], now / 2},
                                   {back[i] + got_at[i] + now / 2, now - now / 2}};
            status = now > 0 ? sky_fabric_receive(ends[i], to, 2, &moved) : SKY_MISS;
            assert_true(status == SKY_OK || status == SKY_MISS);
            got_at[i] += status == SKY_OK ? moved : 0;
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(data, back[i], BYTES);
        free(back[i]);
    }
    free(data);
    part(&t);
}

static void who_does_not_read_stops_who_sends(void **state) {
    static uint8_t data[100000];
    const sky_span span = {data, sizeof data};
    size_t moved, sent = 0, got = 0;
    trial t;
    meet(&t);
    (void)state;
    while (sky_fabric_send(t.client, &span, 1, &moved) == SKY_OK)
        sent += moved;
    size_t most = SKY_FABRIC_BUFFERS * (SKY_FABRIC_BUFFER_BYTES - SKY_FABRIC_HEAD_BYTES);
    assert_in_range(sent, 1, most);
    for (sky_time until = sky_now() + PATIENCE; got < sent;) {
        assert_true(sky_now() < until);
        if (sky_fabric_receive(t.host, &span, 1, &moved) == SKY_OK)
            got += moved;
        else
            await_end(t.host, true, false);
        (void)sky_fabric_arm(t.client, false, true);
    }
    assert_int_equal(got, sent);
    for (sky_time until = sky_now() + PATIENCE; /* and it goes on */
         sky_fabric_send(t.client, &span, 1, &moved) != SKY_OK;) {
        assert_true(sky_now() < until);
        await_end(t.client, false, true);
    }
    part(&t);
}

static void what_was_sent_arrives_before_the_end(void **state) {
    uint8_t data[70000], back[sizeof data];
    const sky_span span = {data, sizeof data};
    size_t sent, moved, got = 0;
    trial t;
    meet(&t);
    sky_status status = SKY_OK;
    (void)state;
    fill(data, sizeof data);
    assert_int_equal(sky_fabric_send(t.host, &span, 1, &sent), SKY_OK);
    assert_int_equal(sent, sizeof data);
    sky_fabric_close(t.host);
    t.host = NULL;
    for (sky_time until = sky_now() + PATIENCE; status != SKY_E_IO;) {
        const sky_span to = {back + got, sizeof back - got};
        assert_true(sky_now() < until);
        status = got < sizeof back ? sky_fabric_receive(t.client, &to, 1, &moved)
                                   : sky_fabric_receive(t.client, &span, 1, &moved);
        got += status == SKY_OK ? moved : 0;
        if (status == SKY_MISS)
            await_end(t.client, true, false);
    }
    assert_int_equal(got, sizeof data);
    assert_memory_equal(data, back, sizeof data);
    assert_int_equal(sky_fabric_send(t.client, &span, 1, &moved), SKY_E_IO);
    assert_int_equal(sky_fabric_arm(t.client, false, false), SKY_E_IO);
    part(&t);
}

/* A process of its own that has connected, and is killed. */
static void the_end_of_a_killed_process_shows(void **state) {
    sky_address peer;
    trial t;
    (void)state;
    start_listening(&t);
    pid_t pid = fork(); /* before libfabric has done more than listen */
    if (pid == 0) {
        sky_fabric_end *e;
        alarm(LIFE_S);
        if (sky_fabric_connect("tcp", &t.bound, sky_now() + PATIENCE, -1, &e) != SKY_OK)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    t.host = await_client(t.listener, &peer);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (sky_time until = sky_now() + PATIENCE; sky_fabric_arm(t.host, false, false) != SKY_E_IO;) {
        assert_true(sky_now() < until);
        await_end(t.host, false, false);
    }
    part(&t);
}

/* ... although a child that it forked lives on. */
static void a_child_keeps_no_connection_open(void **state) {
    sky_address peer;
    uint64_t forks;
    int ends[2];
    pid_t child;
    trial t;
    (void)state;
    start_listening(&t);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(sky_forks_watch(&forks), SKY_OK);
    pid_t pid = fork();
    if (pid == 0) {
        sky_fabric_end *e;
        alarm(LIFE_S);
        if (sky_fabric_connect("tcp", &t.bound, sky_now() + PATIENCE, -1, &e) != SKY_OK)
            _exit(1);
        child = fork();
        alarm(LIFE_S);
        if (child > 0 && write(ends[1], &child, sizeof child) != sizeof child)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    t.host = await_client(t.listener, &peer);
    while (sky_poll(ends, 1, sky_now() + SKY_MS(10)) == 0)
        (void)sky_fabric_arm(t.host, true, false); /* the answer that it waits for */
    assert_int_equal(read(ends[0], &child, sizeof child), sizeof child);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (sky_time until = sky_now() + PATIENCE; sky_fabric_arm(t.host, false, false) != SKY_E_IO;) {
        assert_true(sky_now() < until);
        await_end(t.host, false, false);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    close(ends[0]);
    close(ends[1]);
    part(&t);
}

static void nobody_there_is_told(void **state) {
    sky_fabric_end *e;
    trial t;
    (void)state;
    start_listening(&t);
    sky_fabric_close(t.listener);
    assert_int_equal(sky_fabric_connect("tcp", &t.bound, sky_now() + PATIENCE, -1, &e), SKY_MISS);
}

static void an_address_that_is_taken_is_refused(void **state) {
    sky_fabric_end *another;
    sky_address bound;
    sky_error error = {0};
    trial t;
    (void)state;
    start_listening(&t);
    assert_int_equal(sky_fabric_listen("tcp", &t.bound, &another, &bound, &error), SKY_E_BUSY);
    assert_non_null(strstr(error.text, "in use"));
    sky_fabric_close(t.listener);
}

static void absent_providers_are_refused_by_name(void **state) {
    sky_error error = {0};
    (void)state;
    assert_int_equal(sky_fabric_check("tcp", &error), SKY_OK);
    assert_int_equal(sky_fabric_check("pigeon", &error), SKY_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no provider pigeon"));
    assert_non_null(strstr(error.text, "tcp"));
    assert_int_equal(sky_fabric_check("shm", &error), SKY_E_UNSUPPORTED); /* no FI_EP_MSG */
    assert_int_equal(sky_fabric_check(NULL, &error), SKY_E_SYNTAX);
    assert_non_null(strstr(error.text, "needs the name of a provider"));
    assert_non_null(strstr(error.text, "tcp"));
}

int main(void) {
    struct sigaction before, after;
    sky_error error = {0};
    sigaction(SIGTERM, NULL, &before);
    if (sky_fabric_check("tcp", &error) == SKY_E_UNSUPPORTED) {
        printf("no libfabric with provider tcp here: %s\n", error.text);
        return 77;
    }
    sigaction(SIGTERM, NULL, &after);
    if (before.sa_handler != after.sa_handler)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_as_they_were_sent),
        cmocka_unit_test(who_does_not_read_stops_who_sends),
        cmocka_unit_test(what_was_sent_arrives_before_the_end),
        cmocka_unit_test(the_end_of_a_killed_process_shows),
        cmocka_unit_test(a_child_keeps_no_connection_open),
        cmocka_unit_test(nobody_there_is_told),
        cmocka_unit_test(an_address_that_is_taken_is_refused),
        cmocka_unit_test(absent_providers_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
