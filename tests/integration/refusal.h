/* For tests of wrong use: a table of calls that must end in SKY_E_PARAM. Include cmocka before. */
#ifndef SKYMEM_TESTS_REFUSAL_H
#define SKYMEM_TESTS_REFUSAL_H

#include <skymem/status.h>

/* A call with its text. */
typedef struct {
    const char *call;
    int64_t status;
} refusal;
#define REFUSED(call)                                                                              \
    { #call, call }

static void all_refused(const refusal *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i].status != SKY_E_PARAM)
            print_error("%s: %s\n", rows[i].call, sky_status_name((sky_status)rows[i].status));
        assert_int_equal(rows[i].status, SKY_E_PARAM);
    }
}
#define ALL_REFUSED(rows) all_refused(rows, sizeof(rows) / sizeof *(rows))

#endif
