/* Proves: a context loaded through a cache holds the bytes that were stored, over memory, disk,
 * both, and the sky; what a tier lacks or damages comes in another form or from the engine; bytes
 * that are refused are not used; a deadline that has passed loads nothing; and waiting costs
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/stream.h>

#include "io/clock.h"

enum { SEGMENTS = 6, FORMS = 3, SLICES = 5, BYTES = 60001 };
static const sky_coding codings[FORMS] = {0, 3, 6};

typedef struct {
    sky_cache *cache;
    sky_segment segments[SEGMENTS];
    sky_stored_segment stored[SEGMENTS];
    sky_link links[2];
    sky_pacer_env env;
    uint8_t forms[SEGMENTS * SLICES];
    uint32_t computed, refuse_form;
    sky_time compute_ns;
} context;

static uint8_t byte_of(uint32_t segment, uint32_t form, size_t at) {
    return (uint8_t)(segment * 131 + form * 29 + at * 7 + at / 251);
}

static sky_status compute(void *self, uint32_t segment) {
    context *c = self;
    (void)segment;
    c->computed++;
    sky_time until = sky_now() + c->compute_ns;
    while (sky_now() < until) {
    }
    return SKY_OK;
}

/* As a decoder would: the slices' bytes must be the stored ones. */
static sky_status take(void *self, uint32_t segment, uint32_t form, uint32_t slice,
                       uint32_t slice_count) {
    context *c = self;
    size_t bytes = c->segments[segment].forms[form].bytes;
    for (size_t at = bytes * slice / SLICES; at < bytes * (slice + slice_count) / SLICES; at++)
        if (c->stored[segment].data[form][at] != byte_of(segment, form, at))
            return SKY_E_CORRUPT;
    return form + 1 == c->refuse_form ? SKY_E_CORRUPT : SKY_OK;
}

static void put(context *c, uint32_t segment, uint32_t form) {
    size_t bytes = c->segments[segment].forms[form].bytes;
    uint8_t *data = malloc(bytes);
    for (size_t at = 0; at < bytes; at++)
        data[at] = byte_of(segment, form, at);
    sky_span span = {data, bytes};
    sky_item item = {.spans = &span, .span_count = 1};
    sky_level_key(&c->stored[segment].key, codings[form], &item.key);
    assert_int_equal(sky_run(c->cache, SKY_OP_PUT, &item, 1, NULL), SKY_OK);
    assert_int_equal(item.status, SKY_OK);
    free(data);
}

static void drop(context *c, uint32_t segment, uint32_t form) {
    sky_item item = {0};
    sky_level_key(&c->stored[segment].key, codings[form], &item.key);
    assert_int_equal(sky_run(c->cache, SKY_OP_REMOVE, &item, 1, NULL), SKY_OK);
}

static void open_context(context *c, const char *const *urls, size_t url_count) {
    *c = (context){0};
    sky_error error;
    if (sky_cache_open(urls, url_count, &c->cache, &error) != SKY_OK)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        c->segments[i] = (sky_segment){.token_count = 128, .form_count = FORMS};
        memset(c->stored[i].key.bytes, (int)(i + 1), SKY_KEY_BYTES);
        for (uint32_t f = 0; f < FORMS; f++) {
            c->segments[i].forms[f] = (sky_form){BYTES >> f, f * 0.01, 0};
            c->stored[i].codings[f] = codings[f];
            c->stored[i].data[f] = malloc(BYTES >> f);
            memset(c->stored[i].data[f], 0xee, BYTES >> f);
            put(c, i, f);
        }
    }
    sky_link_init(&c->links[0], 1e8, SKY_MS(1));
    sky_link_init(&c->links[1], 1e8, SKY_MS(1));
    c->env = (sky_pacer_env){.cache = c->cache, .stored = c->stored, .take = take, .self = c};
}

static void close_context(context *c) {
    for (uint32_t i = 0; i < SEGMENTS * FORMS; i++)
        free(c->stored[i / FORMS].data[i % FORMS]);
    sky_cache_close(c->cache);
}

static sky_pacer_report load(context *c, sky_pacer_options options, uint32_t sources) {
    sky_pacer_report r;
    options.slices = SLICES;
    assert_int_equal(
        sky_pacer_load(&c->env, c->segments, SEGMENTS, c->links, sources, &options, &r, c->forms),
        SKY_OK);
    return r;
}

/* Every slice that is there is whole where it should be. */
static void check_bytes(context *c) {
    c->refuse_form = 0;
    for (uint32_t i = 0; i < SEGMENTS * SLICES; i++)
        if (c->forms[i] != SKY_PACER_FORM_NONE)
            assert_int_equal(take(c, i / SLICES, c->forms[i], i % SLICES, 1), SKY_OK);
}

static void loads_through(const char *const *urls, size_t url_count) {
    context c;
    open_context(&c, urls, url_count);
    sky_pacer_report r = load(&c, (sky_pacer_options){0}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_int_equal(r.loaded, SEGMENTS);
    check_bytes(&c);
    r = load(&c, (sky_pacer_options){.deadline_ns = sky_now() + SKY_SECONDS(60)}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT); /* time enough for the best */
    for (uint32_t i = 0; i < SEGMENTS * SLICES; i++)
        assert_int_equal(c.forms[i], 0);
    check_bytes(&c);
    close_context(&c);
}

static void the_same_bytes_over_every_tier(void **state) {
    (void)state;
    char folder[] = "stream-load-XXXXXX", disk[64], command[64];
    assert_non_null(mkdtemp(folder));
    snprintf(disk, sizeof disk, "disk:%s?max=64MiB", folder);
    loads_through((const char *[]){"mem:16MiB"}, 1);
    loads_through((const char *[]){disk}, 1);
    loads_through((const char *[]){"mem:16MiB", disk}, 2);
    loads_through((const char *[]){"sky:scenarios/demo-rotation-hop.yaml"}, 1);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void what_is_missing_comes_in_another_form(void **state) {
    (void)state;
    context c;
    open_context(&c, (const char *[]){"mem:16MiB"}, 1);
    for (uint32_t i = 0; i < SEGMENTS; i += 2)
        drop(&c, i, 2);
    drop(&c, 2, 1);
    sky_pacer_report r = load(&c, (sky_pacer_options){0}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_int_equal(c.forms[0], 1);
    assert_int_equal(c.forms[SLICES], 2);
    assert_int_equal(c.forms[2 * SLICES], 0);
    check_bytes(&c);
    drop(&c, 2, 0);
    r = load(&c, (sky_pacer_options){0}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(r.leading, 2);
    close_context(&c);
}

static void the_engine_computes_what_nobody_has(void **state) {
    (void)state;
    context c;
    open_context(&c, (const char *[]){"mem:16MiB"}, 1);
    c.env.compute = compute;
    c.compute_ns = SKY_MS(2);
    for (uint32_t i = 0; i < SEGMENTS; i++)
        c.segments[i].compute_ns = SKY_MS(2);
    for (uint32_t f = 0; f < FORMS; f++) {
        drop(&c, 0, f);
        drop(&c, 3, f);
    }
    sky_pacer_report r = load(&c, (sky_pacer_options){0}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_true(r.computed >= 2 && c.computed == r.computed);
    assert_int_equal(c.forms[0], SKY_PACER_FORM_NONE);
    check_bytes(&c);
    close_context(&c);
}

static void refused_bytes_are_not_used(void **state) {
    (void)state;
    context c;
    open_context(&c, (const char *[]){"mem:16MiB"}, 1);
    c.refuse_form = 3;
    sky_pacer_report r = load(&c, (sky_pacer_options){0}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    for (uint32_t i = 0; i < SEGMENTS * SLICES; i++)
        assert_int_equal(c.forms[i], 1);
    check_bytes(&c);
    close_context(&c);
}

/* A sky whose satellites take their time. Owner: `path` is a template, and becomes a file. */
static void write_scenario(char *path, unsigned processing_ms, char url[64]) {
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fprintf(file,
            "constellation: {planes: 5, slots: 19}\ncenter: [3, 4]\n"
            "placement: {strategy: rotation-hop, servers: 9}\n"
            "satellite: {memory: 64MiB, processing_ms: %u}\n"
            "links: {ground_mbps: 10000, queue: 64MiB}\n",
            processing_ms);
    fclose(file);
    snprintf(url, 64, "sky:%s", path);
}

/* The first source is a sky whose satellites take their time, the second memory: both are asked,
 * the answer does not wait for the sky, and the bytes are right. */
static void a_slow_tier_is_hedged_by_another(void **state) {
    (void)state;
    char path[] = "stream-load-XXXXXX", url[64];
    write_scenario(path, 40, url);
    context c;
    open_context(&c, (const char *[]){"mem:16MiB", url}, 2);
    assert_int_equal(sky_flush(c.cache, sky_now() + SKY_SECONDS(30), NULL), SKY_OK);
    c.env.tiers[0] = 2;
    c.env.tiers[1] = 1;
    c.links[0].rate = 1e12; /* believed to be fast */
    c.links[0].delay_ns = 0;
    sky_pacer_report r = load(&c, (sky_pacer_options){0}, 2);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_true(r.hedged > 0);
    check_bytes(&c);
    close_context(&c);
    remove(path);
}

/* Satellites that take their time, and batches of others that nobody drains: the loader sleeps
 * until its own are there, and is then awake at once. */
static void waiting_takes_no_processor(void **state) {
    (void)state;
    static sky_item others[8];
    char path[] = "stream-load-XXXXXX", url[64];
    write_scenario(path, 20, url);
    context c;
    open_context(&c, (const char *[]){url}, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        sky_batch batch;
        others[i] = (sky_item){.key = {{1}}};
        assert_int_equal(sky_submit(c.cache, SKY_OP_HAS, &others[i], 1, NULL, &batch), SKY_OK);
    }
    sky_time began = sky_now(), worked = sky_thread_time();
    sky_pacer_report r = load(&c, (sky_pacer_options){0}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_true(sky_now() - began > SKY_MS(20));
    assert_true(sky_thread_time() - worked < (sky_now() - began) / 2);
    check_bytes(&c);
    close_context(&c);
    remove(path);
}

static void a_deadline_that_has_passed_loads_nothing(void **state) {
    (void)state;
    context c;
    open_context(&c, (const char *[]){"mem:16MiB"}, 1);
    sky_pacer_report r = load(&c, (sky_pacer_options){.deadline_ns = 1}, 1);
    assert_int_equal(r.verdict, SKY_VERDICT_RECOMPUTE);
    assert_int_equal(r.bytes, 0);
    assert_int_equal(sky_pacer_load(&c.env, c.segments, 0, c.links, 1, NULL, &r, NULL),
                     SKY_E_PARAM);
    close_context(&c);
}

static void keys_of_levels_differ(void **state) {
    (void)state;
    sky_key block = {{1, 2, 3}}, other = {{1, 2, 4}}, a, b;
    sky_level_key(&block, 0, &a);
    assert_memory_equal(&a, &block, sizeof a);
    sky_level_key(&block, 3, &a);
    sky_level_key(&block, 6, &b);
    assert_memory_not_equal(&a, &b, sizeof a);
    sky_level_key(&other, 3, &b);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &block, sizeof a);
}

/* Batches that somebody else has not drained leave room for one request at a time. */
static void a_full_cache_is_asked_again(void **state) {
    (void)state;
    static sky_item others[SKY_BATCHES_MAX - 4];
    context c;
    open_context(&c, (const char *[]){"mem:16MiB"}, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        sky_batch batch;
        others[i] = (sky_item){.key = {{1}}};
        assert_int_equal(sky_submit(c.cache, SKY_OP_HAS, &others[i], 1, NULL, &batch), SKY_OK);
    }
    for (uint32_t i = 0; i < SEGMENTS; i++)
        c.segments[i].form_count = 1;
    sky_pacer_report r = load(&c, (sky_pacer_options){.deadline_ns = sky_now() + SKY_SECONDS(60)},
                              1);
    assert_int_equal(r.verdict, SKY_VERDICT_HIT);
    assert_int_equal(r.loaded, SEGMENTS);
    check_bytes(&c);
    close_context(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_over_every_tier),
        cmocka_unit_test(what_is_missing_comes_in_another_form),
        cmocka_unit_test(the_engine_computes_what_nobody_has),
        cmocka_unit_test(refused_bytes_are_not_used),
        cmocka_unit_test(a_slow_tier_is_hedged_by_another),
        cmocka_unit_test(waiting_takes_no_processor),
        cmocka_unit_test(a_deadline_that_has_passed_loads_nothing),
        cmocka_unit_test(keys_of_levels_differ),
        cmocka_unit_test(a_full_cache_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
