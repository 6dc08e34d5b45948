/* What the trials share: programs that use the installed library as anybody would, each about one
 * promise of its headers. Exit 0: it held. They run in an empty folder of their own. */
#ifndef TRIAL_H
#define TRIAL_H

#define _GNU_SOURCE
#include <skymem-sky/skies.h>
#include <skymem/skymem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: did not hold: %s\n", __FILE__, __LINE__, #condition);          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static sky_cache *trial_open(const char *const *urls, size_t count) {
    sky_cache *cache = NULL;
    sky_error error = {.text = ""};
    if (sky_cache_open(urls, count, &cache, &error) != SKY_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    return cache;
}

/* One operation on the name "v<number>"; a put stores `bytes` bytes of `fill`, a get fills `data`.
 * */
static sky_status trial_do(sky_cache *cache, sky_op op, int number, void *data, size_t bytes,
                           const sky_call *call) {
    static const sky_namespace common;
    char name[32];
    snprintf(name, sizeof name, "v%d", number);
    sky_span span = {data, bytes};
    sky_item item = {
        .name = name, .name_bytes = strlen(name), .spans = &span, .span_count = data ? 1 : 0};
    must(sky_name_key(&common, name, strlen(name), &item.key) == SKY_OK);
    sky_status status = sky_run(cache, op, &item, 1, call);
    return status == SKY_OK ? item.status : status;
}

#endif
