/* Proves, over the shared libraries: a trace of puts and gets in memory, a disk that codes, and an
 * embedded sky has each request's way, and opens as it should: also that of a process that was
 * killed at it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

#define VALUES      3u
#define VALUE_BYTES 20000u
#define CODE_BYTES  16u

/* A codec of payloads whose bytes are all the same. */
static sky_status encode(void *self, sky_coding coding, const void *payload, void *dst,
                         uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work) {
    (void)self, (void)coding, (void)work;
    if (dst_bytes_max < CODE_BYTES)
        return SKY_E_DST_SMALL;
    memset(dst, *(const uint8_t *)payload, CODE_BYTES);
    *dst_bytes = CODE_BYTES;
    return SKY_OK;
}

static sky_status lower(void *self, sky_coding coding, const void *coded, uint64_t bytes, void *dst,
                        uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work) {
    (void)self, (void)coding, (void)coded, (void)bytes, (void)dst, (void)dst_bytes_max;
    (void)dst_bytes, (void)work;
    return SKY_E_UNSUPPORTED;
}

static uint64_t likely_bytes(void *self, sky_coding coding, sky_range range) {
    (void)self, (void)coding, (void)range;
    return CODE_BYTES + 1;
}

static sky_status decode(void *self, const void *data, uint64_t bytes, bool whole, sky_range range,
                         const sky_span *spans, uint32_t span_count, uint64_t *moved_bytes,
                         uint64_t *needed, void *work) {
    (void)self, (void)whole, (void)range, (void)span_count, (void)needed, (void)work;
    if (bytes != CODE_BYTES || spans->bytes < VALUE_BYTES)
        return SKY_E_CORRUPT;
    memset(spans->data, *(const uint8_t *)data, VALUE_BYTES);
    *moved_bytes = VALUE_BYTES;
    return SKY_OK;
}

static sky_cache *open_traced(const char *folder, const char *trace) {
    static const sky_block_codec codec = {.payload_bytes = VALUE_BYTES,
                                          .coded_bytes_max = CODE_BYTES,
                                          .encode = encode,
                                          .lower = lower,
                                          .likely_bytes = likely_bytes,
                                          .decode = decode};
    char disk[64], path[64];
    sky_cache *c;
    sky_error error;
    snprintf(disk, sizeof disk, "disk:%s/disk?level=8", folder);
    snprintf(path, sizeof path, "%s/%s", folder, trace);
    const char *urls[] = {"mem:4MiB", disk, "sky:scenarios/constellation.yaml"};
    setenv("SKYMEM_TRACE", path, 1);
    assert_int_equal(sky_skies_register(), SKY_OK);
    assert_int_equal(sky_cache_open(urls, 3, &c, &error), SKY_OK);
    sky_cache_codec_set(c, &codec);
    return c;
}

static void run_all(sky_cache *c, sky_op op, uint32_t tiers) {
    static uint8_t data[VALUES][VALUE_BYTES];
    sky_span spans[VALUES];
    sky_item items[VALUES] = {0};
    for (uint8_t i = 0; i < VALUES; i++) {
        memset(data[i], op == SKY_OP_PUT ? i + 1 : 0, VALUE_BYTES);
        spans[i] = (sky_span){data[i], VALUE_BYTES};
        items[i] = (sky_item){.key = {{1, i}}, .spans = &spans[i], .span_count = 1};
    }
    assert_int_equal(sky_run(c, op, items, VALUES, &(sky_call){.tiers = tiers}), SKY_OK);
    for (uint8_t i = 0; i < VALUES; i++)
        assert_int_equal(items[i].status, SKY_OK);
    for (uint8_t i = 0; op != SKY_OP_REMOVE && i < VALUES; i++)
        assert_int_equal(data[i][VALUE_BYTES - 1], i + 1);
}

static void use(sky_cache *c) {
    run_all(c, SKY_OP_PUT, 0);
    assert_int_equal(sky_flush(c, sky_now() + SKY_SECONDS(60), NULL), SKY_OK);
    run_all(c, SKY_OP_GET, 0);     /* memory */
    run_all(c, SKY_OP_REMOVE, 1);  /* there alone */
    run_all(c, SKY_OP_GET, 1 | 4); /* the sky, and promoted */
    run_all(c, SKY_OP_GET, 2);     /* the disk */
    assert_int_equal(sky_flush(c, sky_now() + SKY_SECONDS(60), NULL), SKY_OK);
}

static int checked(const char *folder, const char *arguments) {
    char command[512];
    snprintf(command, sizeof command, "cd %s && python3 \"$OLDPWD\"/tests/cli/trace_check.py %s",
             folder, arguments);
    return system(command);
}

static char folder[] = "/tmp/skymem-trace-XXXXXX";

static void each_request_has_its_way(void **state) {
    (void)state;
    pid_t child = fork(); /* so that the next test starts without a trace, too */
    assert_true(child >= 0);
    if (child == 0) {
        sky_cache *c = open_traced(folder, "whole");
        use(c);
        sky_cache_close(c);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(checked(folder, "whole put get remove queue answer promotion encode decode "
                                     "thread_name 'submit put' 'mem put' 'mem get' 'disk get' "
                                     "'sky get' 'disk put for write-back' "
                                     "'sky put for write-back'"),
                     0);
}

static void a_killed_process_leaves_a_whole_trace(void **state) {
    (void)state;
    int ends[2], status;
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sky_cache *c = open_traced(folder, "killed");
        for (int i = 0;; i++) {
            use(c);
            if (i == 2)
                (void)!write(ends[1], "", 1);
        }
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(checked(folder, "--open killed put get 'submit put'"), 0);
    close(ends[0]);
    close(ends[1]);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_has_its_way),
        cmocka_unit_test(a_killed_process_leaves_a_whole_trace),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
