/* The manager's life, its namespace, and prompts given as text. Loading is load.c, saving save.c.
 *
 * Not thread-safe: a manager drives one engine, and an engine does one thing at a time. */
#include <skymem/manager.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "manager/blocks.h"

static const char *const verdict_names[] = {"hit", "partial", "miss", "recompute"};

const char *sky_verdict_name(sky_verdict verdict) {
    return (unsigned)verdict <= SKY_VERDICT_RECOMPUTE ? verdict_names[verdict] : "unknown";
}

/* Everything that makes a stored block wrong when it changes. The header of a payload stands for
 * the layout, the block length and the format's version at once. */
static sky_status derive_namespace(sky_manager *m, const uint8_t salt[32]) {
    uint8_t fingerprint[32];
    m->engine.ops->fingerprint(m->engine.self, fingerprint);
    sky_blake2b h;
    sky_blake2b_init(&h, NULL);
    sky_blake2b_add(&h, "skymem namespace", 16);
    sky_blake2b_add(&h, fingerprint, sizeof fingerprint);
    sky_blake2b_add(&h, salt, 32);
    uint8_t block_tokens[4];
    sky_store_u32(block_tokens, m->block_tokens);
    sky_blake2b_add(&h, block_tokens, sizeof block_tokens);
    if (!m->refused) {
        uint8_t *header = malloc(m->payload.header_bytes);
        if (!header)
            return SKY_E_NOMEM;
        sky_payload_header_write(&m->payload, 0, header);
        sky_blake2b_add(&h, header, m->payload.header_bytes);
        free(header);
    }
    sky_blake2b_end(&h, m->ns.bytes);
    return SKY_OK;
}

/* Ask the engine what its state looks like; a state that cannot be cached is no failure. */
static void learn_layout(sky_manager *m) {
    sky_layout layout = {0};
    sky_error *why = &m->refusal;
    m->refused = true;
    if (m->engine.ops->layout(m->engine.self, &layout, why) != SKY_OK) {
        if (!why->text[0])
            sky_fail(why, SKY_E_UNSUPPORTED, "the engine does not say what its state looks like");
        return;
    }
    if (sky_payload_init(&m->payload, &layout, m->block_tokens) != SKY_OK) {
        sky_fail(why, SKY_E_UNSUPPORTED,
                 "blocks of %u tokens of this state do not fit in a payload; use smaller ones",
                 m->block_tokens);
        return;
    }
    m->refused = false;
}

/* Tell the cache how this engine's blocks are coded. A layout that the codec has no shape for is no
 * failure: its blocks are stored as they come. */
static sky_status learn_codec(sky_manager *m, const sky_profile *profile, sky_error *error) {
    uint8_t own[32], calibrated[32];
    m->engine.ops->fingerprint(m->engine.self, own);
    if (profile)
        sky_profile_fingerprint(profile, calibrated);
    if (profile && memcmp(own, calibrated, sizeof own) != 0)
        return sky_fail(error, SKY_E_PARAM,
                        "this calibration is of another model: make one with "
                        "skymem calibrate, or do without");
    sky_status status = m->refused ? SKY_E_UNSUPPORTED
                                   : sky_coded_init(&m->coded, &m->payload, profile);
    if (status == SKY_OK)
        sky_cache_codec_set(m->cache, &m->coded.codec);
    if (status == SKY_E_NOMEM)
        return sky_fail(error, status, "no memory for a manager");
    return SKY_OK;
}

static bool is_complete(const sky_engine *engine) {
    const sky_engine_ops *o = engine ? engine->ops : NULL;
    return o && o->fingerprint && o->layout && o->tokenize && o->extract && o->restore_begin &&
           o->restore_end && o->prefill;
}

sky_status sky_manager_create(sky_cache *cache, const sky_engine *engine,
                              const sky_manager_options *options, sky_manager **out,
                              sky_error *error) {
    static const sky_manager_options defaults;
    if (!cache || !out || !is_complete(engine))
        return sky_fail(error, SKY_E_PARAM,
                        "sky_manager_create: cache, out and an engine with all its functions are "
                        "needed");
    if (!options)
        options = &defaults;
    if (options->block_tokens > SKY_BLOCK_TOKENS_MAX)
        return sky_fail(error, SKY_E_PARAM, "blocks of %u tokens: at most %u",
                        options->block_tokens, SKY_BLOCK_TOKENS_MAX);
    sky_manager *m = calloc(1, sizeof *m);
    if (!m)
        return sky_fail(error, SKY_E_NOMEM, "no memory for a manager");
    m->cache = cache;
    m->engine = *engine;
    m->patience_ns = SKY__SAVE_PATIENCE_NS;
    m->drop = options->drop;
    m->block_tokens = options->block_tokens ? options->block_tokens : SKY_BLOCK_TOKENS_DEFAULT;
    learn_layout(m);
    m->rows = m->refused ? NULL : calloc(m->payload.row_sets, sizeof *m->rows);
    if ((!m->refused && !m->rows) || derive_namespace(m, options->salt) != SKY_OK) {
        sky_manager_destroy(m);
        return sky_fail(error, SKY_E_NOMEM, "no memory for a manager");
    }
    sky_status status = learn_codec(m, options->profile, error);
    if (status != SKY_OK) {
        sky_manager_destroy(m);
        return status;
    }
    *out = m;
    return SKY_OK;
}

static void scratch_free(sky_block_scratch *s) {
    free(s->keys);
    free(s->items);
    free(s->stored);
    free(s->headers);
    free(s->spans);
    free(s->raw);
    free(s->beside);
}

void sky_manager_destroy(sky_manager *manager) {
    if (!manager)
        return;
    if (manager->coded.codec.self)
        sky_cache_codec_set(manager->cache, NULL);
    sky_coded_deinit(&manager->coded);
    scratch_free(&manager->scratch);
    free(manager->rows);
    free(manager->staging);
    free(manager);
}

const char *sky_manager_refusal(const sky_manager *manager) {
    if (!manager)
        return "there is no manager";
    return manager->refused ? manager->refusal.text : NULL;
}

void sky_manager_namespace(const sky_manager *manager, sky_namespace *out) {
    if (manager && out)
        *out = manager->ns;
}

void sky_manager_layout(const sky_manager *manager, sky_layout *out) {
    if (manager && out)
        *out = manager->payload.layout;
}

static sky_status scratch_reserve(sky_manager *m, uint32_t blocks) {
    if (blocks <= m->scratch.blocks_max)
        return SKY_OK;
    sky_block_scratch s = {
        .keys = calloc(blocks, sizeof *s.keys),
        .items = calloc(blocks, sizeof *s.items),
        .stored = calloc(blocks, sizeof *s.stored),
        .headers = calloc(blocks, m->payload.header_bytes),
        .spans = calloc(blocks, sky__spans_per_block(m) * sizeof *s.spans),
        .raw = calloc(blocks, sizeof *s.raw),
        .beside = calloc(blocks, sizeof *s.beside),
        .blocks_max = blocks,
    };
    if (!s.keys || !s.items || !s.stored || !s.headers || !s.spans || !s.raw || !s.beside) {
        scratch_free(&s);
        return SKY_E_NOMEM;
    }
    scratch_free(&m->scratch);
    m->scratch = s;
    return SKY_OK;
}

sky_status sky__manager_keys(sky_manager *m, const uint32_t *tokens, uint32_t block_count) {
    sky_status status = scratch_reserve(m, block_count);
    if (status == SKY_OK)
        sky_block_keys(&m->ns, tokens, (size_t)block_count * m->block_tokens, m->block_tokens,
                       m->scratch.keys, block_count);
    return status;
}

/* Owner: *tokens is malloc'ed */
static sky_status tokenize(sky_manager *m, const char *text, uint32_t **tokens,
                           size_t *token_count) {
    size_t text_bytes = strlen(text), count = 0;
    size_t room = text_bytes + 8; /* seldom more tokens than bytes: then it says how many */
    for (int attempt = 0; attempt < 2; attempt++) {
        uint32_t *buffer = malloc(room * sizeof *buffer);
        if (!buffer)
            return SKY_E_NOMEM;
        sky_status status = m->engine.ops->tokenize(m->engine.self, text, text_bytes, buffer, room,
                                                    &count);
        if (status == SKY_OK) {
            *tokens = buffer;
            *token_count = count;
            return SKY_OK;
        }
        free(buffer);
        if (status != SKY_E_DST_SMALL)
            return status;
        room = count;
    }
    return SKY_E_PARAM;
}

sky_status sky_manager_get_cache(sky_manager *manager, const char *prompt, sky_time deadline_ns,
                                 sky_lookup *out) {
    uint32_t *tokens;
    size_t token_count;
    if (!manager || !prompt || !out)
        return SKY_E_PARAM;
    sky_status status = tokenize(manager, prompt, &tokens, &token_count);
    if (status != SKY_OK)
        return status;
    status = sky_manager_get_cache_tokens(manager, tokens, token_count, deadline_ns, out);
    free(tokens);
    return status;
}

sky_status sky_manager_add_blocks(sky_manager *manager, const char *prompt, uint32_t *saved_blocks,
                                  uint64_t *saved_bytes) {
    uint32_t *tokens;
    size_t token_count;
    if (saved_blocks)
        *saved_blocks = 0;
    if (saved_bytes)
        *saved_bytes = 0;
    if (!manager || !prompt)
        return SKY_E_PARAM;
    sky_status status = tokenize(manager, prompt, &tokens, &token_count);
    if (status != SKY_OK)
        return status;
    status = sky_manager_add_blocks_tokens(manager, tokens, token_count, saved_blocks, saved_bytes);
    free(tokens);
    return status;
}
