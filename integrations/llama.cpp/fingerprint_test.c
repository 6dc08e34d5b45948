/* Proves: every byte of a model's file is in its fingerprint, whatever its times say; a digest that
 * was kept is used while the file is the same, and not when somebody else could have written it; a
 * file that shrinks while it is read is an error. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "adapter.h"
#include "tiny_model_fixture.h"

#define RECORD_BYTES 80
#define DIGEST_AT    40

static char cache[] = "/tmp/skymem-fingerprint-XXXXXX";
static char model[256], record[600];

/* The adapter's reads come through here: the model shrinks before read number `shrink_at`. */
static int shrink_at = -1;

ssize_t pread(int fd, void *data, size_t bytes, off_t offset) {
    if (shrink_at >= 0 && shrink_at-- == 0)
        assert_int_equal(truncate(model, 300000), 0);
    return syscall(SYS_pread64, fd, data, bytes, offset);
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(cache));
    assert_int_equal(setenv("XDG_CACHE_HOME", cache, 1), 0);
    tiny_model_write("llama", 0, 1, model, sizeof model);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(model);
    unlink(record);
    char folder[300];
    snprintf(folder, sizeof folder, "%s/skymem-fingerprint", cache);
    rmdir(folder);
    return rmdir(cache);
}

static void fingerprint(uint8_t out[32]) {
    sky_error error = {0};
    bool by_context;
    if (sky__llama_fingerprint(model, "settings", out, &by_context, &error) != SKY_OK)
        fail_msg("%s", error.text);
}

/* Whether one is there, and its path. */
static bool find_record(void) {
    char folder[300];
    bool found = false;
    snprintf(folder, sizeof folder, "%s/skymem-fingerprint", cache);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(record, sizeof record, "%s/%.200s", folder, e->d_name);
            found = true;
        }
    if (d)
        closedir(d);
    return found;
}

static void transfer(const char *path, const char *mode, void *bytes, size_t count, long at) {
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    size_t done = mode[1] == '+' ? fwrite(bytes, 1, count, f) : fread(bytes, 1, count, f);
    assert_int_equal(done, count);
    assert_int_equal(fclose(f), 0);
}

/* With a right checksum, so that only its owner tells it from a true one. */
static void forge_record(void) {
    uint8_t bytes[RECORD_BYTES];
    transfer(record, "rb", bytes, sizeof bytes, 0);
    bytes[DIGEST_AT] ^= 1;
    uint64_t sum = sky_content_hash(bytes, RECORD_BYTES - 8, 0);
    memcpy(bytes + RECORD_BYTES - 8, &sum, sizeof sum);
    transfer(record, "r+b", bytes, sizeof bytes, 0);
}

static void a_digest_is_kept_while_the_file_is_the_same(void **state) {
    (void)state;
    uint8_t first[32], again[32];
    fingerprint(first);
    assert_false(find_record()); /* the file may change again without a trace */
    sleep(3);
    fingerprint(again);
    assert_memory_equal(first, again, 32);
    assert_true(find_record());
    struct stat st;
    assert_int_equal(stat(record, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    forge_record(); /* what is kept is used ... */
    fingerprint(again);
    assert_memory_not_equal(first, again, 32);
    assert_int_equal(chmod(record, 0622), 0); /* ... unless others could have written it, */
    fingerprint(again);
    assert_memory_equal(first, again, 32);
    forge_record();
    transfer(record, "r+b", "?", 1, RECORD_BYTES - 1); /* or it is damaged */
    fingerprint(again);
    assert_memory_equal(first, again, 32);
}

/* Of the same size and with the same time of its last change, as far as a program can say. */
static void every_byte_is_in_the_fingerprint(void **state) {
    (void)state;
    uint8_t first[32], changed[32], byte;
    struct stat st;
    fingerprint(first);
    assert_int_equal(stat(model, &st), 0);
    for (long at = st.st_size - 1; at > st.st_size / 2; at -= 54321) {
        transfer(model, "rb", &byte, 1, at);
        byte ^= 0x10;
        transfer(model, "r+b", &byte, 1, at);
        const struct timespec times[2] = {st.st_atim, st.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, model, times, 0), 0);
        fingerprint(changed);
        assert_memory_not_equal(first, changed, 32);
        byte ^= 0x10;
        transfer(model, "r+b", &byte, 1, at);
    }
    fingerprint(changed);
    assert_memory_equal(first, changed, 32);
}

/* Larger than what is read at once. */
static void the_fingerprint_of_a_file_stays(void **state) {
    (void)state;
    sky_key first; /* for its hex digits */
    char hex[SKY_KEY_BYTES * 2 + 1];
    fingerprint(first.bytes);
    sky_key_hex(&first, hex);
    assert_string_equal(hex, "ab303f3816a5db4d9b8ce5d954c8b41407f3c492646c9bee334f528dcc4ff25f");
}

static void a_file_that_shrinks_is_an_error(void **state) {
    (void)state;
    uint8_t out[32];
    bool by_context;
    unlink(model);
    for (int at = 1; at < 5; at++) { /* read 0 looks for the magic */
        sky_error error = {0};
        tiny_model_write("llama", 0, 1, model, sizeof model);
        shrink_at = at;
        assert_int_equal(sky__llama_fingerprint(model, "settings", out, &by_context, &error),
                         SKY_E_IO);
        assert_non_null(strstr(error.text, "the model changed while it was read"));
        assert_int_equal(shrink_at, -1);
        unlink(model);
    }
    tiny_model_write("llama", 0, 1, model, sizeof model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fingerprint_of_a_file_stays),
        cmocka_unit_test(a_digest_is_kept_while_the_file_is_the_same),
        cmocka_unit_test(every_byte_is_in_the_fingerprint),
        cmocka_unit_test(a_file_that_shrinks_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
