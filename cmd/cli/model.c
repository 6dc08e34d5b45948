/* Loading a model and computing with it: see model.h. */
#include "model.h"
#include "models.h"
#include "profile.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SKYMEM_WITH_LLAMA

/* A text is first cut so, to see whether it is too long. Each cut may make some tokens more: the
 * model's first and last, those of a special one, and what would have been one across it. */
#define PIECE_BYTES 8192u
#define PIECE_EXTRA 16u

/* Fewer tokens at once say little of how fast a prompt is computed. */
#define MEASURED_TOKENS_LEAST 256u

int cli_model_find(cli *c, char *path, size_t path_bytes) {
    char note[4096];
    const char *given = cli_text(c, "model");
    path[0] = '\0';
    if (given)
        return cli_model_path(c, given, path, path_bytes);
    FILE *file = cli_beside_program("model.path", note, sizeof note) ? fopen(note, "re") : NULL;
    if (!file || !fgets(path, (int)path_bytes, file))
        path[0] = '\0';
    if (file)
        fclose(file);
    path[strcspn(path, "\n")] = '\0';
    return CLI_OK;
}

/* A terminal is told each whole per cent of the loading and each step of the computing; what is one
 * token is not worth a word. */
static void show_progress(void *model, sky_llama_stage stage, uint32_t done, uint32_t total) {
    cli_model *m = model;
    if (stage == SKY_LLAMA_COMPUTING && m->computed && done > 0)
        m->computed(m->computed_context, m->computing_from + done);
    if (stage == SKY_LLAMA_LOADING && m->shown_percent != done / 10) {
        m->shown_percent = done / 10;
        cli_progress("loading %s: %u %%", m->path, m->shown_percent);
    } else if (stage == SKY_LLAMA_COMPUTING && m->tells_computing && total > 1) {
        cli_progress("computing: %u of %u tokens", done, total);
    }
}

int cli_model_open(cli *c, cli_model *out) {
    memset(out, 0, sizeof *out);
    int code = cli_model_find(c, out->path, sizeof out->path);
    if (code == CLI_OK && !out->path[0])
        code = cli_usage(c, "which model? --model FILE.gguf or NAME; skymem model ls lists names");
    if (code != CLI_OK)
        return code;
    sky_error error = {0};
    const sky_llama_options options = {
        .model_path = out->path,
        .threads = (uint32_t)cli_count(c, "threads"),
        .kv_type = cli_text(c, "kv-type"),
        .flash_attention_off = strcmp(cli_text(c, "flash-attn"), "off") == 0,
        .progress = show_progress,
        .progress_context = out,
    };
    cli_progress("loading %s", out->path);
    sky_time start = sky_now();
    sky_status status = sky_llama_open(&options, &out->llama, &error);
    cli_progress(NULL);
    if (status != SKY_OK)
        return cli_failed(c, "%s", error.text[0] ? error.text : sky_status_text(status));
    out->load_ms = cli_ms(sky_now() - start);
    out->engine = sky_llama_engine(out->llama);
    out->engine->ops->fingerprint(out->engine->self, out->fingerprint);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    out->threads = options.threads ? options.threads : cores > 0 ? (uint32_t)cores : 1;
    out->kept = cli_rate_read(out->fingerprint, out->threads);
    return cli_profile_find(c, cli_text(c, "calibration"), out->fingerprint, &out->profile);
}

void cli_model_close(cli_model *m) {
    if (m->llama) {
        cli_rate_keep(m->fingerprint, m->threads, m->measured);
        sky_llama_close(m->llama);
    }
    sky_profile_destroy(m->profile);
    m->llama = NULL;
    m->profile = NULL;
}

int cli_model_tokenize(const cli *c, const cli_model *m, const char *text, size_t bytes,
                       size_t spare, uint32_t **tokens, size_t *count) {
    const sky_engine *e = m->engine;
    size_t room = bytes + 16;
    sky_status status = SKY_E_NOMEM;
    for (int attempt = 0; attempt < 2; attempt++) {
        *tokens = malloc((room + spare) * sizeof **tokens);
        if (!*tokens)
            break;
        status = e->ops->tokenize(e->self, text, bytes, *tokens, room, count);
        if (status == SKY_OK)
            return CLI_OK;
        free(*tokens);
        *tokens = NULL;
        if (status != SKY_E_DST_SMALL)
            break;
        room = *count;
    }
    return cli_failed(c, "the prompt cannot be cut into tokens: %s", sky_status_text(status));
}

/* Bytes of a piece of text, which begins as the next one does: with no part of a character. */
static size_t piece_bytes(const char *text, size_t bytes) {
    size_t cut = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    while (cut < bytes && cut > PIECE_BYTES - 4 && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--;
    return cut;
}

size_t cli_model_overflow(const cli_model *m, const char *text, size_t bytes, size_t most) {
    const sky_engine *e = m->engine;
    uint32_t tokens[PIECE_BYTES + 16];
    size_t at_least = 0;
    if (bytes <= most + PIECE_BYTES) /* soon cut whole, and then it is known */
        return 0;
    while (bytes > 0 && at_least <= most + most / 8) {
        size_t piece = piece_bytes(text, bytes), count = 0;
        sky_status status = e->ops->tokenize(e->self, text, piece, tokens, PIECE_BYTES + 16,
                                             &count);
        if (status != SKY_OK && status != SKY_E_DST_SMALL)
            return 0;
        at_least += count > PIECE_EXTRA ? count - PIECE_EXTRA : 0;
        text += piece;
        bytes -= piece;
    }
    return at_least > most + most / 8 ? at_least : 0;
}

/* The best that is known of the engine beside a load. */
static uint32_t loading_token_ns(const cli_model *m) {
    const uint32_t known[] = {m->measured.loading_ns, m->kept.loading_ns, m->measured.alone_ns,
                              m->kept.alone_ns};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] > 0)
            return known[i];
    return 0;
}

int cli_model_manager(cli *c, const cli_model *m, sky_cache *cache, uint32_t block_tokens,
                      sky_manager **out, sky_sequence **sequence) {
    sky_error error = {0};
    const cli_value *load_only = cli_find(c, "load-only");
    sky_manager_options options = {.block_tokens = block_tokens,
                                   .profile = m->profile,
                                   .load_only = load_only && load_only->whole,
                                   .engine_token_ns = loading_token_ns(m)};
    int code = cli_salt(c, options.salt);
    if (code != CLI_OK)
        return code;
    sky_status status = sky_manager_create(cache, m->engine, &options, out, &error);
    if (status == SKY_OK)
        status = sky_sequence_open(*out, m->engine, sequence);
    if (status == SKY_OK)
        return CLI_OK;
    return cli_failed(c, "%s", error.text[0] ? error.text : sky_status_text(status));
}

void cli_model_manager_close(cli_model *m, sky_manager *manager, sky_sequence *sequence) {
    uint32_t token_ns = sky_manager_engine_token_ns(manager);
    if (token_ns > 0)
        m->measured.loading_ns = token_ns;
    sky_sequence_close(sequence);
    sky_manager_destroy(manager);
}

/* The quickest counts: what was slower shared the processors with something. */
static void measure_rate(cli_model *m, size_t tokens, sky_time took_ns) {
    sky_time token_ns = took_ns / (sky_time)tokens;
    uint32_t before = m->measured.alone_ns;
    if (tokens >= MEASURED_TOKENS_LEAST && token_ns < UINT32_MAX &&
        (before == 0 || token_ns < before))
        m->measured.alone_ns = (uint32_t)token_ns;
}

int cli_model_compute(const cli *c, cli_model *m, const uint32_t *tokens, size_t first,
                      size_t count) {
    const sky_engine *e = m->engine;
    sky_time began = sky_now();
    m->computing_from = first;
    sky_status status = e->ops->prefill(e->self, tokens + first, (uint32_t)first,
                                        (uint32_t)(count - first));
    if (status == SKY_OK)
        measure_rate(m, count - first, sky_now() - began);
    return status == SKY_OK ? CLI_OK
                            : cli_failed(c, "%s: cannot compute tokens %zu to %zu: %s", m->path,
                                         first, count - 1, sky_status_text(status));
}

#else

int cli_no_model(const cli *c) {
    return cli_failed(c, "this skymem was built without llama.cpp; make demo builds it with");
}

#endif
