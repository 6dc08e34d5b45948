/* The manager's life: what it learns of an engine's state, and the namespace of its keys. What is
 * done with it is a sequence's (sequence.c). */
#include <skymem/manager.h>

#include <assert.h>
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

static void add_u32(sky_blake2b *h, uint32_t value) {
    uint8_t bytes[4];
    sky_store_u32(bytes, value);
    sky_blake2b_add(h, bytes, sizeof bytes);
}

/* It stands for the layout, the block length and the format's version at once.
 * Errors: SKY_E_NOMEM */
static sky_status add_payload_header(const sky_manager *m, sky_blake2b *h) {
    uint8_t *header = malloc(m->payload.header_bytes);
    if (!header)
        return SKY_E_NOMEM;
    sky_payload_header_write(&m->payload, 0, header);
    sky_blake2b_add(h, header, m->payload.header_bytes);
    free(header);
    return SKY_OK;
}

/* Everything that makes a stored block wrong when it changes. */
static sky_status derive_namespace(sky_manager *m, const uint8_t salt[32]) {
    sky_blake2b h;
    sky_blake2b_init(&h, NULL);
    sky_blake2b_add(&h, "skymem namespace", 16);
    sky_blake2b_add(&h, m->fingerprint, sizeof m->fingerprint);
    sky_blake2b_add(&h, salt, 32);
    add_u32(&h, m->block_tokens);
    if (!m->refused && add_payload_header(m, &h) != SKY_OK)
        return SKY_E_NOMEM;
    if (m->payload.layout.shard_count > 1) {
        sky_blake2b_add(&h, "shard", 5);
        add_u32(&h, m->payload.layout.shard_rank);
        add_u32(&h, m->payload.layout.shard_count);
    }
    sky_blake2b_end(&h, m->ns.bytes);
    return SKY_OK;
}

/* Ask the engine what its state looks like; a state that cannot be cached is no failure. */
static void learn_layout(sky_manager *m, const sky_engine *engine) {
    sky_layout layout = {0};
    sky_error *why = &m->refusal;
    m->refused = true;
    if (engine->ops->layout(engine->self, &layout, why) != SKY_OK) {
        if (!why->text[0])
            sky_fail(why, SKY_E_UNSUPPORTED, "the engine does not say what its state looks like");
        return;
    }
    if (sky_layout_check(&layout, why) != SKY_OK) {
        why->status = SKY_E_UNSUPPORTED;
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

/* Tell the cache how this engine's blocks are coded. */
static sky_status share_codec(sky_manager *m, const sky_profile *profile) {
    sky_blake2b h;
    sky_blake2b_init(&h, NULL);
    uint64_t calibration = profile ? sky_profile_id(profile) : 0;
    add_u32(&h, (uint32_t)calibration);
    add_u32(&h, (uint32_t)(calibration >> 32));
    if (add_payload_header(m, &h) != SKY_OK)
        return SKY_E_NOMEM;
    sky_blake2b_end(&h, m->codec_user.id);
    m->codec_user.codec = &m->coded.codec;
    return sky__cache_codec_enter(m->cache, &m->codec_user);
}

/* A layout that the codec has no shape for is no failure: its blocks are stored as they come. */
static sky_status learn_codec(sky_manager *m, const sky_profile *profile, sky_error *error) {
    uint8_t calibrated[32];
    if (profile)
        sky_profile_fingerprint(profile, calibrated);
    if (profile && memcmp(m->fingerprint, calibrated, sizeof calibrated) != 0)
        return sky_fail(error, SKY_E_PARAM,
                        "this calibration is of another model: make one with "
                        "skymem calibrate, or do without");
    sky_status status = m->refused ? SKY_E_UNSUPPORTED
                                   : sky_coded_init(&m->coded, &m->payload, profile);
    m->coded.foreign = sky__cache_foreign(m->cache);
    if (status == SKY_OK)
        status = share_codec(m, profile);
    if (status == SKY_E_BUSY)
        return sky_fail(error, status,
                        "another manager has the blocks of this cache coded, for another model, "
                        "block length or calibration: open a cache of its own for this one");
    if (status == SKY_E_NOMEM)
        return sky_fail(error, status, "no memory for a manager");
    return SKY_OK;
}

bool sky__engine_complete(const sky_engine *engine) {
    const sky_engine_ops *o = engine ? engine->ops : NULL;
    return o && o->fingerprint && o->layout && o->tokenize && o->extract && o->restore_begin &&
           o->restore_end && o->prefill;
}

sky_status sky_manager_create(sky_cache *cache, const sky_engine *engine,
                              const sky_manager_options *options, sky_manager **out,
                              sky_error *error) {
    static const sky_manager_options defaults;
    if (!cache || !out || !sky__engine_complete(engine))
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
    sky_mutex_init(&m->mutex);
    sky__flights_init(&m->flights);
    engine->ops->fingerprint(engine->self, m->fingerprint);
    m->patience_ns = SKY__SAVE_PATIENCE_NS;
    m->drop = options->drop;
    m->load_only = options->load_only;
    m->engine_token_ns = options->engine_token_ns;
    m->block_tokens = options->block_tokens ? options->block_tokens : SKY_BLOCK_TOKENS_DEFAULT;
    sky_tier_stat near;
    m->near_keeps = sky_cache_stat(cache, 0, &near) == SKY_OK &&
                    (near.traits & SKY_TIER_SYNCHRONOUS);
    learn_layout(m, engine);
    if (derive_namespace(m, options->salt) != SKY_OK) {
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

void sky_manager_destroy(sky_manager *manager) {
    if (!manager)
        return;
    assert(manager->sequence_count == 0);
    sky__cache_codec_leave(manager->cache, &manager->codec_user);
    sky_coded_deinit(&manager->coded);
    sky__flights_deinit(&manager->flights);
    sky_mutex_deinit(&manager->mutex);
    free(manager);
}

uint32_t sky_manager_engine_token_ns(sky_manager *manager) {
    if (!manager)
        return 0;
    sky_mutex_lock(&manager->mutex);
    sky_time token_ns = manager->engine_block_ns / manager->block_tokens;
    sky_mutex_unlock(&manager->mutex);
    return token_ns < UINT32_MAX ? (uint32_t)token_ns : UINT32_MAX;
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
