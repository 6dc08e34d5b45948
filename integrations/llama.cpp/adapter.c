/* Opening a model, growing its context, and what it says: see skymem_llama.h.
 *
 * llama.cpp's log is one global callback: silenced here, its errors kept for our own messages and,
 * with SKYMEM_LOG=debug, shown on stderr. */
#include "adapter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Changes when the same model and settings would give other rows. */
#define ADAPTER_FORMAT  "llama.cpp/1"
#define CONTEXT_DEFAULT 512u
#define CONTEXT_STEP    256u /* llama.cpp's own rounding */

static _Thread_local char last_error[256]; /* llama.cpp tells it on the thread that asks */
static bool shown;

static void keep_error(enum ggml_log_level level, const char *text, void *unused) {
    (void)unused;
    if (level != GGML_LOG_LEVEL_ERROR)
        return;
    if (shown)
        fputs(text, stderr);
    snprintf(last_error, sizeof last_error, "%s", text);
    last_error[strcspn(last_error, "\n")] = 0;
}

sky_status sky__llama_fail(sky_error *error, sky_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        error->status = status;
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

static bool parse_kv_type(const char *name, enum ggml_type *out) {
    static const enum ggml_type types[] = {GGML_TYPE_F16,  GGML_TYPE_F32,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,
                                           GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, ggml_type_name(types[i])) == 0) {
            *out = types[i];
            return true;
        }
    }
    return false;
}

static bool is_interrupted(void *self) {
    const sky_llama *llama = self;
    return atomic_load(&llama->advancing) && atomic_load(&llama->interrupted);
}

/* For prompts of so many tokens. */
static struct llama_context *new_context(sky_llama *llama, uint32_t tokens, uint32_t slots) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (tokens + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP * slots;
    p.n_batch = STEP_TOKENS;
    p.n_ubatch = STEP_TOKENS;
    p.n_seq_max = slots == 1 ? SEQ_COUNT : slots;
    p.n_outputs_max = p.n_seq_max; /* logits of the last token only: keeps the vocabulary × batch
                                      away */
    p.n_threads = (int32_t)llama->threads;
    p.n_threads_batch = (int32_t)llama->threads;
    p.type_k = llama->kv_type;
    p.type_v = llama->kv_type;
    p.flash_attn_type = llama->flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                               : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.kv_unified = slots == 1; /* ranges of a sequence can be named by another one */
    p.abort_callback = is_interrupted;
    p.abort_callback_data = llama;
    p.swa_full = true; /* old window rows stay, to be saved after the answer */
    return llama_init_from_model(llama->model, p);
}

sky_status sky__llama_blob_reserve(sky_llama *llama, size_t bytes) {
    if (bytes <= llama->blob_bytes_max)
        return SKY_OK;
    uint8_t *blob = malloc(bytes);
    if (!blob)
        return SKY_E_NOMEM;
    memset(blob, 0, bytes);
    free(llama->blob);
    llama->blob = blob;
    llama->blob_bytes_max = bytes;
    return SKY_OK;
}

sky_status sky_llama_reserve(sky_llama *llama, uint32_t tokens, sky_error *error) {
    uint32_t trained = sky_llama_trained_tokens(llama);
    if (tokens > trained)
        return sky__llama_fail(error, SKY_E_FULL,
                               "%u tokens do not fit: the model was trained for %u; shorten the "
                               "prompt or predict less",
                               tokens, trained);
    if (llama->context && tokens <= sky_llama_context_tokens(llama))
        return SKY_OK;
    struct llama_context *context = new_context(llama, tokens, llama->slot_count);
    if (!context)
        return sky__llama_fail(error, SKY_E_NOMEM, "no memory for a context of %u tokens: %s",
                               tokens, last_error);
    llama_free(llama->bare);
    llama_free(llama->context);
    llama->bare = NULL;
    llama->context = context;
    sky__llama_forget_all(llama);
    return llama->shape_known ? sky__llama_prepare(llama) : SKY_OK;
}

static bool tell_loading(float share, void *llama) {
    sky__llama_tell(llama, SKY_LLAMA_LOADING, (uint32_t)(share * 1000), 1000);
    return true; /* go on */
}

static sky_status load_model(sky_llama *llama, const sky_llama_options *options, sky_error *error) {
    if (!options->model_path)
        return sky__llama_fail(error, SKY_E_PARAM, "no model file is named");
    const char *kv = options->kv_type ? options->kv_type : "f16";
    if (!parse_kv_type(kv, &llama->kv_type))
        return sky__llama_fail(error, SKY_E_SYNTAX,
                               "KV type \"%s\": not one of f16, f32, bf16, "
                               "q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl",
                               kv);
    char settings[128];
    snprintf(settings, sizeof settings, "%s kv=%s flash=%d rope=model", ADAPTER_FORMAT, kv,
             llama->flash_attention);
    sky_status status = sky__llama_fingerprint(options->model_path, settings, llama->fingerprint,
                                               &llama->rope_by_context, error);
    if (status != SKY_OK)
        return status;
    last_error[0] = 0;
    struct llama_model_params params = llama_model_default_params();
    params.progress_callback = tell_loading;
    params.progress_callback_user_data = llama;
    llama->model = llama_model_load_from_file(options->model_path, params);
    if (!llama->model)
        return sky__llama_fail(error, SKY_E_UNSUPPORTED, "%s: llama.cpp refuses the model: %s",
                               options->model_path, last_error);
    llama->vocab = llama_model_get_vocab(llama->model);
    return SKY_OK;
}

static sky_status make_slots(sky_llama *llama, uint32_t count, sky_error *error) {
    if (count > SKY_LLAMA_SLOTS_MAX)
        return sky__llama_fail(error, SKY_E_PARAM, "%u slots: at most %d", count,
                               SKY_LLAMA_SLOTS_MAX);
    llama->slots = calloc(count, sizeof *llama->slots);
    if (!llama->slots)
        return sky__llama_fail(error, SKY_E_NOMEM, "no memory for %u slots", count);
    llama->slot_count = count;
    llama->shape.streams = count;
    for (uint32_t i = 0; i < count; i++) {
        sky__llama_slot *slot = &llama->slots[i];
        slot->llama = llama;
        slot->engine = (sky_engine){count == 1 ? &sky__llama_ops : &sky__llama_ops_of_many, slot};
        slot->id = (llama_seq_id)i;
    }
    return SKY_OK;
}

/* Others wait for it without sleep: it takes some milliseconds, once. */
static void start_once(void) {
    static atomic_flag held = ATOMIC_FLAG_INIT;
    static bool started;
    while (atomic_flag_test_and_set(&held))
        ;
    if (!started) {
        const char *wanted = getenv("SKYMEM_LOG");
        shown = wanted && strncmp(wanted, "debug", 5) == 0;
        llama_log_set(keep_error, NULL);
        llama_backend_init();
        started = true;
    }
    atomic_flag_clear(&held);
}

sky_status sky_llama_open(const sky_llama_options *options, sky_llama **out, sky_error *error) {
    start_once();
    sky_llama *llama = calloc(1, sizeof *llama);
    if (!llama)
        return sky__llama_fail(error, SKY_E_NOMEM, "no memory for the model");
    llama->progress = options->progress;
    llama->progress_context = options->progress_context;
    llama->flash_attention = !options->flash_attention_off;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    llama->threads = options->threads ? options->threads : cores > 0 ? (uint32_t)cores : 1;
    llama->batch = llama_batch_init(STEP_TOKENS, 0, 1);

    sky_status status = make_slots(llama, options->slots ? options->slots : 1, error);
    if (status == SKY_OK)
        status = load_model(llama, options, error);
    uint32_t tokens = options->context_tokens;
    if (status == SKY_OK && tokens == 0) {
        uint32_t trained = sky_llama_trained_tokens(llama);
        tokens = trained < CONTEXT_DEFAULT ? trained : CONTEXT_DEFAULT;
    }
    if (status == SKY_OK)
        status = sky_llama_reserve(llama, tokens, error);
    if (status != SKY_OK) {
        sky_llama_close(llama);
        return status;
    }
    *out = llama;
    return SKY_OK;
}

void sky_llama_close(sky_llama *llama) {
    if (!llama)
        return;
    llama_batch_free(llama->batch);
    llama_free(llama->bare);
    llama_free(llama->context);
    llama_model_free(llama->model);
    free(llama->blob);
    free(llama->slots);
    free(llama);
}

const sky_engine *sky_llama_engine(sky_llama *llama) {
    return &llama->slots[0].engine;
}

const sky_engine *sky_llama_slot_engine(sky_llama *llama, uint32_t slot) {
    return slot < llama->slot_count ? &llama->slots[slot].engine : NULL;
}

uint32_t sky_llama_context_tokens(const sky_llama *llama) {
    return llama_n_ctx(llama->context) / llama->slot_count;
}

uint32_t sky_llama_trained_tokens(const sky_llama *llama) {
    int32_t trained = llama_model_n_ctx_train(llama->model);
    return trained > 0 ? (uint32_t)trained : 0;
}

uint64_t sky_llama_parameter_count(const sky_llama *llama) {
    return llama_model_n_params(llama->model);
}

const float *sky_llama_logits(const sky_llama *llama, uint32_t *vocabulary) {
    if (vocabulary)
        *vocabulary = (uint32_t)llama_vocab_n_tokens(llama->vocab);
    return llama->logits_of ? llama_get_logits_ith(llama->logits_of, -1) : NULL;
}

uint32_t sky_llama_greedy(const sky_llama *llama) {
    uint32_t vocabulary, best = 0;
    const float *logits = sky_llama_logits(llama, &vocabulary);
    for (uint32_t i = 1; logits && i < vocabulary; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

size_t sky_llama_piece(const sky_llama *llama, uint32_t token, char *out, size_t out_bytes) {
    if (token >= (uint32_t)llama_vocab_n_tokens(llama->vocab) ||
        llama_vocab_type(llama->vocab) == LLAMA_VOCAB_TYPE_NONE)
        return 0;
    int32_t room = out_bytes > INT32_MAX ? INT32_MAX : (int32_t)out_bytes;
    int32_t bytes = llama_token_to_piece(llama->vocab, (llama_token)token, out, room, 0, false);
    return bytes > 0 ? (size_t)bytes : 0;
}

bool sky_llama_is_end(const sky_llama *llama, uint32_t token) {
    return llama_vocab_is_eog(llama->vocab, (llama_token)token);
}

sky_status sky_llama_state_save(sky_llama *llama, void **blob, size_t *bytes_out) {
    /* A context of its own: what this leaves behind is not for our restore to clean up, nor the
     * other way round. */
    if (!llama->bare)
        llama->bare = new_context(llama, sky_llama_context_tokens(llama), 1);
    size_t bytes = llama_state_seq_get_size(llama->context, SEQ_PROMPT);
    void *data = llama->bare ? malloc(bytes) : NULL;
    if (!data)
        return SKY_E_NOMEM;
    if (llama_state_seq_get_data(llama->context, data, bytes, SEQ_PROMPT) != bytes) {
        free(data);
        return SKY_E_IO;
    }
    *blob = data;
    *bytes_out = bytes;
    return SKY_OK;
}

sky_status sky_llama_state_restore(sky_llama *llama, const void *blob, size_t bytes,
                                   uint32_t token_count) {
    if (!llama->bare)
        return SKY_E_PARAM;
    llama_memory_clear(llama_get_memory(llama->bare), false);
    llama->on_bare = true;
    llama->logits_of = NULL;
    llama->slots[0].held_tokens = 0;
    if (llama_state_seq_set_data(llama->bare, blob, bytes, SEQ_PROMPT) != bytes)
        return SKY_E_CORRUPT;
    llama->slots[0].held_tokens = token_count;
    llama->slots[0].window_from = token_count; /* what it holds of the windows is not known here */
    return SKY_OK;
}
