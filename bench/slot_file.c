/* slot_file MODEL TEXT FILE: how soon llama.cpp answers from a state that it saved to a file, as
 * llama-server does with --slot-save-path. One JSON object on standard output.
 *
 * The first 2,048 tokens of TEXT are the shared prefix, the 32 behind them the question. Each time
 * is the median of three: the whole prompt computed; the file read from the page cache, then the
 * question computed; the same after the file was dropped from the page cache. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <llama.h>

#define SHARED  2048
#define PROMPT  2080
#define REPEATS 3

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fail(const char *why) {
    fprintf(stderr, "slot_file: %s\n", why);
    exit(1);
}

static void silent(enum ggml_log_level level, const char *text, void *context) {
    (void)context;
    if (level >= GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static void tokenize(const struct llama_model *model, const char *path, llama_token *out) {
    static char text[1 << 20];
    static llama_token tokens[1 << 20];
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    int32_t count = llama_tokenize(llama_model_get_vocab(model), text, (int32_t)bytes, tokens,
                                   1 << 20, true, true);
    if (count < PROMPT)
        fail("the text is too short");
    memcpy(out, tokens, PROMPT * sizeof *out);
}

/* The last token's logits are wanted, as an answer needs them. */
static void compute(struct llama_context *context, llama_token *tokens, int32_t count) {
    for (int32_t at = 0; at < count; at += 512) {
        int32_t step = count - at < 512 ? count - at : 512;
        if (llama_decode(context, llama_batch_get_one(tokens + at, step)) != 0)
            fail("llama_decode failed");
    }
    const float *logits = llama_get_logits_ith(context, -1);
    if (!logits)
        fail("no logits");
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, REPEATS, sizeof *values, by_size);
    return values[REPEATS / 2];
}

static void drop_from_page_cache(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        fail("the file cannot be dropped from the page cache");
    close(fd);
}

static double answer_from_file(struct llama_context *context, const char *path, llama_token *tokens,
                               bool drop) {
    static llama_token saved[SHARED];
    size_t count = 0;
    llama_memory_clear(llama_get_memory(context), true);
    if (drop)
        drop_from_page_cache(path);
    double start = now_ms();
    if (llama_state_seq_load_file(context, path, 0, saved, SHARED, &count) == 0 || count != SHARED)
        fail("the file does not load");
    compute(context, tokens + SHARED, PROMPT - SHARED);
    return now_ms() - start;
}

int main(int argc, char **argv) {
    static llama_token tokens[PROMPT];
    double cold[REPEATS], cached[REPEATS], disk[REPEATS];
    if (argc != 4)
        fail("usage: slot_file MODEL TEXT FILE");
    llama_log_set(silent, NULL);
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    struct llama_context_params p = llama_context_default_params(); /* swa_full as the server has */
    p.n_ctx = 2304;
    p.n_batch = 512;
    p.swa_full = false;
    p.n_threads = p.n_threads_batch = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    struct llama_context *context = model ? llama_init_from_model(model, p) : NULL;
    if (!context)
        fail("the model does not load");
    tokenize(model, argv[2], tokens);
    compute(context, tokens, 64); /* the weights are in memory from here on */
    for (int i = 0; i < REPEATS; i++) {
        llama_memory_clear(llama_get_memory(context), true);
        double start = now_ms();
        compute(context, tokens, PROMPT);
        cold[i] = now_ms() - start;
    }
    llama_memory_clear(llama_get_memory(context), true);
    compute(context, tokens, SHARED);
    double start = now_ms();
    if (llama_state_seq_save_file(context, argv[3], 0, tokens, SHARED) == 0)
        fail("the file cannot be written");
    double save = now_ms() - start;
    for (int i = 0; i < REPEATS; i++) {
        disk[i] = answer_from_file(context, argv[3], tokens, true);
        cached[i] = answer_from_file(context, argv[3], tokens, false);
    }
    struct stat st;
    if (stat(argv[3], &st) != 0)
        fail("the file is gone");
    printf("{\"cold_ms\": %.1f, \"page_cache_ms\": %.1f, \"disk_ms\": %.1f, \"save_ms\": %.1f, "
           "\"file_bytes\": %lld}\n",
           median(cold), median(cached), median(disk), save, (long long)st.st_size);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
