/* Proves: messages keep their bounds and bring at most one descriptor, a watch tells what was asked
 * for, a second listener is refused, and what a killed one left is replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/local.h"

static char folder[] = "/tmp/skymem-local-XXXXXX";
static char path[64];

static int descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void pair(sky_local_listener *l, int *client, int *server) {
    sky_local_peer peer = {0};
    bool exhausted;
    assert_int_equal(sky_local_listen(path, l, NULL), SKY_OK);
    assert_int_equal(sky_local_connect(path, client, &peer), SKY_OK);
    assert_true(peer.uid == geteuid() && peer.pid == getpid());
    *server = sky_local_accept(l, &peer, &exhausted);
    assert_true(*server >= 0 && peer.uid == geteuid() && peer.pid == getpid());
}

static void end(sky_local_listener *l, int client, int server) {
    sky_local_close(client);
    sky_local_close(server);
    sky_local_unlisten(path, l);
    assert_int_equal(access(path, F_OK), -1);
}

static void messages_keep_their_bounds(void **state) {
    (void)state;
    sky_local_listener l;
    int client, server, passed, before = descriptors();
    char text[16];
    size_t bytes;
    pair(&l, &client, &server);
    assert_int_equal(sky_local_receive(server, text, sizeof text, &bytes, &passed), SKY_MISS);
    assert_int_equal(sky_local_send(client, "one", 3, -1), SKY_OK);
    assert_int_equal(sky_local_send(client, "three", 5, client), SKY_OK);
    assert_int_equal(sky_local_send(client, "this is far too long", 20, client), SKY_OK);
    assert_int_equal(sky_local_receive(server, text, sizeof text, &bytes, &passed), SKY_OK);
    assert_true(bytes == 3 && passed == -1 && memcmp(text, "one", 3) == 0);
    assert_int_equal(sky_local_receive(server, text, sizeof text, &bytes, &passed), SKY_OK);
    assert_true(bytes == 5 && passed >= 0);
    close(passed);
    assert_int_equal(sky_local_receive(server, text, sizeof text, &bytes, &passed), SKY_E_CORRUPT);
    assert_int_equal(passed, -1);
    sky_local_close(client);
    assert_int_equal(sky_local_receive(server, text, sizeof text, &bytes, &passed), SKY_E_IO);
    assert_int_equal(sky_local_send(server, "x", 1, -1), SKY_E_IO);
    end(&l, -1, server);
    assert_int_equal(descriptors(), before);
}

static void many_descriptors_are_closed(void **state) {
    (void)state;
    sky_local_listener l;
    int client, server, passed, before = descriptors(), many[20];
    char text[16];
    size_t bytes;
    pair(&l, &client, &server);
    for (int i = 0; i < 20; i++)
        many[i] = client;
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof many)];
    } control = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    for (size_t count = 2; count <= 20; count += 9) {
        head->cmsg_len = CMSG_LEN(count * sizeof *many);
        message.msg_controllen = CMSG_SPACE(count * sizeof *many);
        memcpy(CMSG_DATA(head), many, count * sizeof *many);
        assert_int_equal(sendmsg(client, &message, 0), 1);
        assert_int_equal(sky_local_receive(server, text, sizeof text, &bytes, &passed),
                         SKY_E_CORRUPT);
        assert_int_equal(passed, -1);
    }
    end(&l, client, server);
    assert_int_equal(descriptors(), before);
}

static void a_full_peer_is_told(void **state) {
    (void)state;
    sky_local_listener l;
    int client, server;
    sky_status status = SKY_OK;
    bool writes = true, ready;
    pair(&l, &client, &server);
    for (int i = 0; i < 100000 && status == SKY_OK; i++)
        status = sky_local_send(server, folder, sizeof folder, -1);
    assert_int_equal(status, SKY_E_BUSY);
    sky_local_poll(&server, &writes, &ready, 1, sky_now());
    assert_false(ready);
    end(&l, client, server);
}

/* As many descriptors as another user may have under way, and one more, in a process of its own.
 * 77: this one may not become another user. */
static int send_too_many(int server) {
    const struct rlimit few = {8, 8};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0 || setuid(54321) != 0)
        return 77;
    sky_status status = SKY_OK;
    for (int i = 0; i < 100 && status == SKY_OK; i++)
        status = sky_local_send(server, "x", 1, server);
    return status == SKY_E_FULL && sky_local_send(server, "x", 1, -1) == SKY_OK ? 0 : 1;
}

static void too_many_descriptors_are_told(void **state) {
    (void)state;
    sky_local_listener l;
    int client, server, ended;
    pair(&l, &client, &server);
    pid_t child = fork();
    if (child == 0)
        _exit(send_too_many(server));
    assert_int_equal(waitpid(child, &ended, 0), child);
    end(&l, client, server);
    if (WEXITSTATUS(ended) == 77)
        skip();
    assert_int_equal(ended, 0);
}

static void a_watch_tells_what_is_asked_for(void **state) {
    (void)state;
    sky_local_listener l;
    int client, server, watch;
    const bool writes = false;
    bool ready;
    pair(&l, &client, &server);
    assert_int_equal(sky_local_watch_create(&watch), SKY_OK);
    assert_int_equal(sky_local_send(client, "hello", 5, -1), SKY_OK);
    const bool asked[][3] = {{true, false, true}, {false, false, false}, {false, true, true}};
    for (size_t i = 0; i < 3; i++) {
        sky_local_watch(watch, server, asked[i][0], asked[i][1]);
        sky_local_poll(&watch, &writes, &ready, 1, sky_now());
        assert_int_equal(ready, asked[i][2]);
    }
    sky_local_watch(watch, server, false, false);
    sky_local_close(client);
    sky_local_poll(&watch, &writes, &ready, 1, sky_now());
    assert_true(ready); /* its peer is gone */
    sky_local_unwatch(watch, server);
    sky_local_poll(&watch, &writes, &ready, 1, sky_now());
    assert_false(ready);
    sky_local_close(watch);
    end(&l, -1, server);
}

static void there_is_one_listener(void **state) {
    (void)state;
    sky_local_listener l, second;
    sky_local_peer peer;
    sky_error error = {0};
    int fd;
    char lengthy[200];
    assert_int_equal(sky_local_connect(path, &fd, &peer), SKY_MISS);
    assert_int_equal(sky_local_listen(path, &l, NULL), SKY_OK);
    assert_int_equal(sky_local_listen(path, &second, &error), SKY_E_BUSY);
    assert_non_null(strstr(error.text, "in use"));
    sky_local_close(l.fd); /* as if it were killed */
    assert_int_equal(sky_local_connect(path, &fd, &peer), SKY_MISS);
    assert_int_equal(sky_local_listen(path, &second, &error), SKY_OK);
    sky_local_unlisten(path, &second);
    int plain = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(sky_local_listen(path, &second, &error), SKY_E_IO);
    assert_non_null(strstr(error.text, "no socket"));
    assert_int_equal(access(path, F_OK), 0);
    close(plain);
    unlink(path);
    memset(lengthy, 'a', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(sky_local_listen(lengthy, &second, &error), SKY_E_PARAM);
    assert_int_equal(sky_local_connect(lengthy, &fd, &peer), SKY_E_PARAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_their_bounds),
        cmocka_unit_test(many_descriptors_are_closed),
        cmocka_unit_test(a_full_peer_is_told),
        cmocka_unit_test(too_many_descriptors_are_told),
        cmocka_unit_test(a_watch_tells_what_is_asked_for),
        cmocka_unit_test(there_is_one_listener),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/socket", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
