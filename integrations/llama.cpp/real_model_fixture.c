/* See real_model_fixture.h. */
#include "real_model_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <skymem/codec.h>

bool real_model_find(real_model *m, const char *name) {
    const char *given = name ? NULL : getenv("SKYMEM_MODEL"), *build = getenv("SKYMEM_BUILD");
    m->path[0] = 0;
    if (given)
        snprintf(m->path, sizeof m->path, "%s", given);
    if (!given && build) {
        char note[4096];
        snprintf(note, sizeof note, "%s/model%s%s.path", build, name ? "-" : "", name ? name : "");
        FILE *f = fopen(note, "r");
        if (f && fgets(m->path, sizeof m->path, f))
            m->path[strcspn(m->path, "\n")] = 0;
        if (f)
            fclose(f);
    }
    return m->path[0] && access(m->path, R_OK) == 0;
}

/* A text that does not repeat itself: numbers, in words. */
static void make_prompt(real_model *m, const bench *b) {
    static const char *const words[] = {"zero", "one", "two",   "three", "four",
                                        "five", "six", "seven", "eight", "nine"};
    char text[20000];
    size_t used = 0;
    uint64_t random = 3;
    while (used < sizeof text - 32) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        used += (size_t)snprintf(text + used, 32, "%s %s%s", words[(random >> 33) % 10],
                                 words[(random >> 43) % 10], (random >> 53) % 8 ? " " : ".\n");
    }
    static uint32_t tokens[20000];
    size_t count;
    assert_int_equal(b->engine->ops->tokenize(b->engine->self, text, used, tokens, 20000, &count),
                     SKY_OK);
    assert_true(count >= REAL_TOKENS_MAX);
    memcpy(m->prompt, tokens, sizeof m->prompt);
}

void real_model_open(real_model *m, bench *b, const char *kv_type, uint32_t context_tokens) {
    bench_open(
        b, &(sky_llama_options){.model_path = m->path, .kv_type = kv_type, .threads = m->threads},
        context_tokens, 128);
    assert_null(sky_manager_refusal(b->manager));
    make_prompt(m, b);
}

void real_model_expect_calibration(const bench *b, const char *path) {
    static uint8_t data[200000];
    uint8_t of[32], own[32];
    sky_profile *profile = NULL;
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there; tests run in the source folder", path);
    size_t bytes = fread(data, 1, sizeof data, f);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    assert_int_equal(sky_profile_read(data, bytes, &profile, NULL), SKY_OK);
    sky_profile_fingerprint(profile, of);
    b->engine->ops->fingerprint(b->engine->self, own);
    assert_memory_equal(of, own, sizeof own);
    sky_profile_destroy(profile);
}
