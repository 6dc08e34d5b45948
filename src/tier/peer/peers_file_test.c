/* Proves: a file of peers says what docs/formats/peer.md says, and what is otherwise is refused
 * with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tier/peer/peers_file.h"

static sky_peers_file file;

static void lines_are_peers(void **state) {
    static const char text[] = "# the rack\n"
                               "\n"
                               "10.0.0.7:7700\tkey=/etc/peer.key # the first\r\n"
                               "  [::1]:7700 plain   read-only\n"
                               "host.example:1 #plain";
    (void)state;
    assert_int_equal(sky_peers_parse(text, strlen(text), "f", &file, NULL), SKY_OK);
    assert_int_equal(file.count, 3);
    const sky_peers_entry *e = file.entries;
    assert_string_equal(e[0].name, "10.0.0.7:7700");
    assert_string_equal(e[0].key, "/etc/peer.key");
    assert_true(!e[0].plain && !e[0].read_only && e[0].line == 3);
    assert_string_equal(e[1].name, "[::1]:7700");
    assert_true(!e[1].key[0] && e[1].plain && e[1].read_only && e[1].line == 4);
    assert_string_equal(e[2].name, "host.example:1");
    assert_true(!e[2].key[0] && !e[2].plain && !e[2].read_only && e[2].line == 5);
}

static void others_are_refused_with_their_line(void **state) {
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "f: names no peer"},
        {"# nobody\n", "f: names no peer"},
        {"a:1\nhost\n", "f:2: not HOST:PORT: host"},
        {"a:1 plain plain", "f:1: said twice: plain"},
        {"a:1 key=x key=y", "f:1: said twice: key=y"},
        {"a:1 key=x plain", "f:1: a key, or plain"},
        {"a:1 key=", "f:1: not key=FILE, plain or read-only: key="},
        {"a:1 readonly", "f:1: not key=FILE, plain or read-only: readonly"},
        {"\na:1\n\na:1", "f:4: the same peer as in a line before: a:1"},
        {"a:1\n\x1b[2Jb:1", "f:2: a character that does not print"},
    };
    sky_error error;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sky_peers_parse(bad[i].text, strlen(bad[i].text), "f", &file, &error),
                         SKY_E_SYNTAX);
        assert_memory_equal(error.text, bad[i].says, strlen(bad[i].says));
    }
    assert_int_equal(sky_peers_parse("a:1\0b:1", 7, "f", &file, NULL), SKY_E_SYNTAX);
}

static void lengths_and_numbers_are_bounded(void **state) {
    static char text[4000];
    size_t used = 0;
    sky_error error;
    (void)state;
    for (uint32_t n = 0; n < SKY_PEER_HOSTS_MAX; n++)
        used += (size_t)snprintf(text + used, sizeof text - used, "h:%u\n", n);
    assert_int_equal(sky_peers_parse(text, used, "f", &file, &error), SKY_OK);
    assert_int_equal(file.count, SKY_PEER_HOSTS_MAX);
    memcpy(text + used, "h:99", 4);
    assert_int_equal(sky_peers_parse(text, used + 4, "f", &file, &error), SKY_E_SYNTAX);
    memset(text, 'h', sizeof text);
    memcpy(text, "h:", 2);
    assert_int_equal(sky_peers_parse(text, sizeof file.entries->name - 1, "f", &file, NULL),
                     SKY_OK);
    assert_int_equal(sky_peers_parse(text, sizeof file.entries->name, "f", &file, NULL),
                     SKY_E_SYNTAX);
    memcpy(text, "h:1 key=", 8);
    assert_int_equal(sky_peers_parse(text, sizeof file.entries->key + 7, "f", &file, NULL), SKY_OK);
    assert_int_equal(sky_peers_parse(text, sizeof file.entries->key + 8, "f", &file, NULL),
                     SKY_E_SYNTAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_peers),
        cmocka_unit_test(others_are_refused_with_their_line),
        cmocka_unit_test(lengths_and_numbers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
