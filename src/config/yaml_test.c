/* Proves that a settings file is walked in order with its lines, and that a refusal ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/yaml.h"

typedef struct {
    char seen[1024];
    int stop_at; /* line that is refused; 0: none */
} record;

static sky_status note(void *context, const sky_yaml_entry *e) {
    record *r = context;
    if (e->line == r->stop_at)
        return SKY_E_DENIED;
    size_t used = strlen(r->seen);
    used += (size_t)sprintf(r->seen + used, "%d:%s/%s%s", e->line, e->section, e->key,
                            e->list ? "[]" : "");
    for (unsigned i = 0; i < e->value_count; i++)
        used += (size_t)sprintf(r->seen + used, " %s", e->values[i]);
    strcat(r->seen, ";");
    return SKY_OK;
}

static sky_status walk(const char *text, record *r, sky_error *error) {
    r->seen[0] = 0;
    return sky_yaml_walk(text, strlen(text), "f.yaml", note, r, error);
}

static void entries_come_in_order(void **state) {
    (void)state;
    record r = {.stop_at = 0};
    sky_error error = {0};
    const char *text = "until: 2h # end\n"
                       "links:\n"
                       "  loss: 0.01\n"
                       "  'isl gbps': \"100\"\n"
                       "center:\n"
                       "- 3\n"
                       "- 4\n"
                       "time: {}\n"
                       "faults: {corrupt: 1e-6,\n"
                       " kinds: [a, b], none: , list: []}\n"
                       "last: x\n";
    assert_int_equal(walk(text, &r, &error), SKY_OK);
    assert_string_equal(r.seen,
                        "1:/until 2h;2:links/;3:links/loss 0.01;4:links/isl gbps 100;"
                        "5:/center[] 3 4;8:time/;9:faults/;9:faults/corrupt 1e-6;"
                        "10:faults/kinds[] a b;10:faults/none ;10:faults/list[];11:/last x;");
    assert_int_equal(walk("", &r, &error), SKY_OK);
    assert_string_equal(r.seen, "");
    assert_int_equal(walk("# nothing\n---\n", &r, &error), SKY_E_SYNTAX);
}

static void a_refusal_stops_the_walk(void **state) {
    (void)state;
    record r = {.stop_at = 2};
    sky_error error = {0};
    assert_int_equal(walk("a: 1\nb: 2\nc: 3\n", &r, &error), SKY_E_DENIED);
    assert_string_equal(r.seen, "1:/a 1;");
    assert_int_equal(walk("a: 1\nb: {c: 2}\n", &r, &error), SKY_E_DENIED);
    assert_int_equal(error.text[0], 0); /* the words are the caller's own */
}

static void the_error_says_where(void **state) {
    (void)state;
    record r = {.stop_at = 0};
    sky_error error = {0};
    assert_int_equal(walk("a: 1\nb: [1, {c: 2}]\n", &r, &error), SKY_E_SYNTAX);
    assert_string_equal(error.text, "f.yaml:2: a list holds plain values only");
    assert_string_equal(r.seen, "1:/a 1;");
    assert_int_equal(walk("a: 1\n  b: : 2\n", &r, &error), SKY_E_SYNTAX);
    assert_int_equal(strncmp(error.text, "f.yaml:2: ", 10), 0);
    assert_int_equal(walk("a: &x 1\n", &r, NULL), SKY_E_SYNTAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_in_order),
        cmocka_unit_test(a_refusal_stops_the_walk),
        cmocka_unit_test(the_error_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
