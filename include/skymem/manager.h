/* The prefix cache of a model, and sequences: prompt → blocks → keys → tiers → engine state.
 *
 *   sky_manager_create(cache, engine)       once for a model: keys, calibration, what tiers showed
 *     │
 *     ├─ sky_sequence_open(engine A)        one request, on an engine or a slot of one
 *     │    sky_sequence_load(prompt)        the longest stored prefix is put into the engine
 *     │      … the engine computes what is missing, answers …
 *     │    sky_sequence_save(prompt+answer) new whole blocks are stored, behind the answer
 *     │    sky_sequence_close
 *     └─ sky_sequence_open(engine B)        at the same time, on another thread
 *          sky_sequence_load(prompt)        what A is bringing from a far tier is not read again
 *          ◄── sky_sequence_cancel          from any thread
 *
 * Threads: a manager is safe from any thread. A sequence's calls must not overlap, but for
 * sky_sequence_cancel; those of different sequences may, if their engines allow it: the manager
 * calls an engine's functions on the thread of its sequence. After fork() managers and sequences
 * belong to the parent, as their cache does.
 *
 * Sharing: a whole block that several sequences want at once is read from a far tier by one of
 * them; the others wait for it and take it from memory. When that one is cancelled or fails,
 * another reads. This needs memory as the nearest tier. Blocks of which a model's windows leave out
 * a part are not waited for.
 *
 * Source: SkyMemory "Interface" (class KVManager). */
#ifndef SKYMEM_MANAGER_H
#define SKYMEM_MANAGER_H

#include <skymem/cache.h>
#include <skymem/codec.h>
#include <skymem/engine.h>
#include <skymem/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sky_manager sky_manager;
typedef struct sky_sequence sky_sequence;

typedef struct {
    uint32_t block_tokens;        /* 0: SKY_BLOCK_TOKENS_DEFAULT */
    bool drop;                    /* a save goes without a tier whose queue is full, instead of
                                   waiting for it: see sky_call */
    uint8_t salt[SKY_SALT_BYTES]; /* secret of a tenant (sky_salt_read): managers with other salts
                                     never find its blocks, nor learn from the cache's answers or
                                     their time that they are there. Zeros (default): all who use
                                     the store share what they save */
    const sky_profile *profile;   /* calibration of the model, for tiers with a level; NULL: none.
                                   The caller's, and must outlive the manager */
    bool load_only;               /* loads compute nothing, also on engines that could meanwhile */
    uint32_t engine_token_ns;     /* what the engine takes to compute a token, as an earlier process
                                   measured it (sky_manager_engine_token_ns); 0 (default): unknown.
                                   The first load that computes measures it anew */
} sky_manager_options;

typedef enum {
    SKY_VERDICT_HIT,       /* every whole block but the one that must be computed was found */
    SKY_VERDICT_PARTIAL,   /* some leading blocks were found, or come in time */
    SKY_VERDICT_MISS,      /* none were */
    SKY_VERDICT_RECOMPUTE, /* blocks exist, but not in time or not intact: compute */
} sky_verdict;

/* "hit", "partial", "miss" or "recompute". Never NULL. */
SKY_API const char *sky_verdict_name(sky_verdict verdict);

/* What a lookup came to. */
typedef struct {
    sky_verdict verdict;
    uint32_t prompt_tokens;
    uint32_t hit_tokens;                 /* the engine now holds these; compute the rest */
    uint32_t block_count;                /* hit_tokens / block_tokens */
    uint32_t tier_blocks[SKY_TIERS_MAX]; /* how many came from each tier */
    uint32_t corrupt_blocks;
    uint64_t bytes_loaded; /* as tiers gave them: coded blocks of a tier without a level count so */
    sky_time load_ns;      /* lookup, transfer and restore */
    sky_time transfer_ns;  /* of which: waiting for tiers */
    /* how many came coded so, as sky_coding counts; 0: as they were stored first. What memory keeps
       of a block that came coded does not tell */
    uint32_t level_blocks[SKY_CODINGS_MAX + 1];
    /* found, but from the first of them on of no use, as it is coded with another calibration: the
       next sky_sequence_save stores them again */
    uint32_t foreign_blocks;
    uint32_t computed_tokens; /* of hit_tokens: the engine computed them while others came */
} sky_lookup;

/* engine: any engine of the model; it is asked what its state looks like, and not kept.
 * A cache may have several managers. Where one of its tiers has a level they must agree on how
 * blocks are coded: one layout, block length and calibration; salts may differ.
 * Owner:  cache must outlive the manager; options NULL for defaults
 * Errors: SKY_E_PARAM (NULL, an engine that lacks a function, blocks too long, a profile of another
 *         model), SKY_E_BUSY (a tier has a level, and another manager has its blocks coded in
 *         another way: this one needs a cache of its own), SKY_E_NOMEM. An engine that cannot be
 *         cached is no error: see sky_manager_refusal */
SKY_API sky_status sky_manager_create(sky_cache *cache, const sky_engine *engine,
                                      const sky_manager_options *options, sky_manager **out,
                                      sky_error *error);
/* All sequences are closed. NULL is fine. */
SKY_API void sky_manager_destroy(sky_manager *manager);

/* NULL, or the sentence that says why this engine's state is not cached. Lookups then miss and
 * nothing is saved. Valid as long as the manager. */
SKY_API const char *sky_manager_refusal(const sky_manager *manager);

/* Namespace of all keys of this manager, and the engine's layout. */
SKY_API void sky_manager_namespace(const sky_manager *manager, sky_namespace *out);
SKY_API void sky_manager_layout(const sky_manager *manager, sky_layout *out);

/* What the engine took to compute a token in the last load that computed anything, in nanoseconds;
 * 0: none has. Loads of a later process that get it (sky_manager_options.engine_token_ns) know from
 * the first on which tiers are sooner than the engine. Any thread. */
SKY_API uint32_t sky_manager_engine_token_ns(sky_manager *manager);

/* One request on `engine`, of the manager's model: its own context, or a slot of one.
 * Owner:  manager and engine must outlive the sequence
 * Errors: SKY_E_PARAM (NULL, an engine that lacks a function, or of another model or layout),
 *         SKY_E_NOMEM, SKY_E_IO */
SKY_API sky_status sky_sequence_open(sky_manager *manager, const sky_engine *engine,
                                     sky_sequence **out);
/* No call of it may be under way. The engine's state stays. NULL is fine. */
SKY_API void sky_sequence_close(sky_sequence *sequence);

/* Put the longest stored prefix into the engine, leaving at least one token to compute. The
 * engine's earlier state is dropped. A load never fails because of a tier.
 *
 * Without a deadline (0) the engine holds all of the stored prefix afterwards. An engine that can
 * advance (skymem/engine.h) computes the head of it while farther tiers bring the tail from the end
 * backwards, until they meet; what the one has, the other does not bring:
 *   - A source that brings everything sooner than one block is computed is left to it.
 *   - What a source does not bring, or brings damaged, is computed.
 *   - The rows computed are those of a cold run, and so is the answer, where no level loses
 *     anything.
 * For any other engine all that is stored is loaded, however slow. A caller who knows how long
 * computing takes gives that time as the deadline.
 *
 * With a deadline the load asks for the longest prefix that is likely to come in time:
 *   - The estimate is what the farthest tier it lies in has shown this manager before, to any
 *     sequence. A tier that was never asked is believed to be fast.
 *   - Where that tier keeps blocks at several levels, each comes at the best that the time allows.
 *     Better ones replace others as long as there is time.
 *   - An engine that can advance, of a model without windows, computes the head meanwhile where the
 *     tiers alone would not bring everything at its best in time. What it has computed by the
 *     deadline counts as what came.
 *   - When no prefix is likely to come in time the verdict is "recompute", at once.
 *   - When the deadline passes before all blocks came, the leading blocks that are there go to the
 *     engine ("partial"); when there are none it is empty ("recompute").
 *   - A model with a window can use a shorter prefix only with that prefix's own last window. The
 *     load asks for that window when it sees that not all blocks will come. If that was too late,
 *     the blocks that memory has go to the engine.
 * Shape:  tokens [token_count]
 * Errors: SKY_E_PARAM (no tokens), SKY_E_NOMEM, SKY_E_CANCELLED; the engine is then empty */
SKY_API sky_status sky_sequence_load(sky_sequence *sequence, const uint32_t *tokens,
                                     size_t token_count, sky_time deadline_ns, sky_lookup *out);

/* Store the whole blocks of a prompt that the engine now holds and no tier has. Blocks are stored
 * again from the first on that the last lookup found damaged or foreign.
 *
 * It returns when one tier has each block, and every other tier has it or has room for it in its
 * queue; for that room the call waits. What a farther tier does not take later, sky_flush tells.
 *
 * A tier of several levels may have some of the blocks at a part of them. If the last lookup or
 * this call reaches such a tier, the levels that it lacks are put there, and the call waits for
 * that. It does not do so while something is on its way to tiers, as that may be these levels.
 *
 * *saved_blocks and *saved_bytes: how much was stored, with blocks that got a level, also when not
 * all was; NULL: not wanted. A restored block that no tier has any more cannot be had from the
 * engine either: it and the blocks after it are left out, which is no error.
 * Shape:  tokens [token_count], a prefix of what the engine has computed
 * Errors: SKY_E_PARAM, SKY_E_NOMEM, SKY_E_CANCELLED; those of the engine's extract; what the last
 *         tier asked said of a block, or of a level of it, that no tier took, such as SKY_E_FULL;
 *         SKY_E_BUSY (as sky_submit); SKY_E_DEADLINE: tiers took nothing for 10 s, and a second
 *         more for each megabyte under way. What was stored until then stays */
SKY_API sky_status sky_sequence_save(sky_sequence *sequence, const uint32_t *tokens,
                                     size_t token_count, uint32_t *saved_blocks,
                                     uint64_t *saved_bytes);

/* The same for text, tokenized by the engine. */
SKY_API sky_status sky_sequence_load_text(sky_sequence *sequence, const char *prompt,
                                          sky_time deadline_ns, sky_lookup *out);
SKY_API sky_status sky_sequence_save_text(sky_sequence *sequence, const char *prompt,
                                          uint32_t *saved_blocks, uint64_t *saved_bytes);

/* ---- layer by layer ----
 *
 *   begin, then for each layer in the order in which the engine computes:
 *             sky_sequence_load_wait(layer)   its stored rows are there, those after it still come
 *               … the engine computes the layer …
 *             sky_sequence_save_layer(layer)  its new rows are taken, the engine may go on
 *   and end
 *
 * Layers have numbers in the layout's order (group, layer), from 0 on. A load and a save may be
 * under way at once; no other call of the sequence but cancel and close may come between begin and
 * end. */

/* Begin to load; calls the engine's restore_begin. out->hit_tokens: how many tokens are to come; 0:
 * nothing was found, and only sky_sequence_load_end is left to call. If a block is stored at a
 * level, or lies in a tier that has levels, all layers are loaded in this call. Two sequences that
 * load the same blocks layer by layer both read them.
 * Errors: as sky_sequence_load; SKY_E_PARAM (under way already) */
SKY_API sky_status sky_sequence_load_begin(sky_sequence *sequence, const uint32_t *tokens,
                                           size_t token_count, sky_lookup *out);
/* An event descriptor that becomes readable when rows may have come. Then call
 * sky_sequence_load_wait with `until` 1, which does not wait; poll again if it returns
 * SKY_E_DEADLINE. Do not read from the descriptor.
 * Owner:  the sequence
 * Result: -1 if `sequence` is NULL */
SKY_API int sky_sequence_event_fd(const sky_sequence *sequence);
/* Wait until a layer's rows are where restore_begin said. Until then another thread may write
 * there. The call also requests the layers that follow.
 * Errors: SKY_E_DEADLINE (not there yet; wait again, or end), SKY_E_CANCELLED, SKY_E_PARAM (no such
 *         layer, no load); an error of a tier or of the engine, such as SKY_MISS or SKY_E_CORRUPT:
 *         some layers will not come, and the engine must compute the prefix */
SKY_API sky_status sky_sequence_load_wait(sky_sequence *sequence, uint32_t layer, sky_time until);
/* Wait for all layers; then call the engine's restore_end. If a layer failed or did not come by
 * `until`, the verdict is "recompute" and the engine is empty. `until` 1 does not wait; 0 gives the
 * load up, even if all layers are there.
 * Errors: SKY_E_PARAM (no load), SKY_E_CANCELLED */
SKY_API sky_status sky_sequence_load_end(sky_sequence *sequence, sky_time until, sky_lookup *out);

/* Begin to save a prompt that the engine is about to compute. *first_token: rows from this token to
 * the end of the last whole block are wanted; token_count: no rows are wanted. The sequence holds
 * memory for all missing blocks until sky_sequence_save_end.
 * Errors: SKY_E_PARAM (NULL, under way already), SKY_E_UNSUPPORTED (see sky_manager_refusal),
 *         SKY_E_NOMEM, SKY_E_CANCELLED, SKY_E_BUSY (as sky_submit) */
SKY_API sky_status sky_sequence_save_begin(sky_sequence *sequence, const uint32_t *tokens,
                                           size_t token_count, uint32_t *first_token);
/* Copy a layer's rows of all tokens that are wanted, also of a layer with a window. Layers may come
 * in any order; if one comes twice, the last call counts. k and v are not kept.
 * Errors: SKY_E_PARAM (no such layer, no save; a tensor that is none, not of this layer, or without
 *         these tokens), SKY_E_CANCELLED */
SKY_API sky_status sky_sequence_save_layer(sky_sequence *sequence, uint32_t layer,
                                           const sky_tensor *k, const sky_tensor *v);
/* Store the blocks, as sky_sequence_save does. Levels that tiers lack are not put.
 * Errors: as sky_sequence_save; SKY_E_PARAM (no save; layers were not given: nothing is stored) */
SKY_API sky_status sky_sequence_save_end(sky_sequence *sequence, uint32_t *saved_blocks,
                                         uint64_t *saved_bytes);

/* ---- from one program to another, while it is computed ----
 *
 *   one computes a prompt                          another answers it
 *     sky_sequence_push_begin   announces blocks     sky_sequence_await   waits for block after
 *       … computes a part …                            block, while they come to memory
 *     sky_sequence_push         puts its blocks      sky_sequence_load    into the engine
 *       … until all is computed                        … computes the rest, answers
 *     sky_sequence_push_end     withdraws the rest
 *
 * Both reach one store: `shm:` on a host, `skymem://` between hosts. What is pushed is stored as by
 * sky_sequence_save. If the first program dies, the second is answered within the time that the
 * kernel takes to close its socket. */

/* Announce the whole blocks of a prompt that no tier has. No other call of the sequence but
 * sky_sequence_push and cancel may come until sky_sequence_push_end; a close ends it too. A store
 * that takes no announcement is no error.
 * Errors: SKY_E_PARAM (NULL, under way already), SKY_E_UNSUPPORTED (see sky_manager_refusal),
 *         SKY_E_NOMEM, SKY_E_CANCELLED, SKY_E_BUSY (as sky_submit) */
SKY_API sky_status sky_sequence_push_begin(sky_sequence *sequence, const uint32_t *tokens,
                                           size_t token_count);
/* The engine holds so many tokens of the prompt: put the whole blocks of them that were not pushed
 * yet. On the engine's thread, between two of its steps. After an error the call may be repeated.
 * Blocks that sky_sequence_save would leave out are withdrawn with all after them.
 * Errors: SKY_E_PARAM (no push), and those of sky_sequence_save */
SKY_API sky_status sky_sequence_push(sky_sequence *sequence, size_t computed_tokens);
/* Withdraw what was announced and not pushed. *saved_blocks and *saved_bytes: what was put; NULL:
 * not wanted.
 * Errors: SKY_E_PARAM (no push), SKY_E_CANCELLED (it is over all the same) */
SKY_API sky_status sky_sequence_push_end(sky_sequence *sequence, uint32_t *saved_blocks,
                                         uint64_t *saved_bytes);

#define SKY_AWAIT_NS_MAX SKY_SECONDS(600)

/* Wait until the whole blocks of a prompt that a load can use are stored. The wait goes on as long
 * as
 *   - somebody has announced the next block, or may still announce the first that is missing;
 *   - the next block comes within patience_ns of the one before;
 *   - computing the rest is not sooner, by what the manager has measured of its engine (or was told
 *     in sky_manager_options.engine_token_ns) and by the pace of what came. Where it knows nothing
 *     of the engine, and with sky_manager_options.load_only, this does not count.
 * Where the nearest tier is memory, blocks are brought there while the next are waited for.
 * *stored_tokens: of so many leading tokens the blocks are there; sky_sequence_load takes them,
 * whatever the result is. sky_sequence_awaited tells more.
 * Units:  patience_ns from 1 to SKY_AWAIT_NS_MAX
 * Errors: SKY_MISS (nobody is to put the next block: the announcer or the store ended),
 *         SKY_E_DEADLINE (the next block did not come in time, or computing is sooner),
 *         SKY_E_CANCELLED, SKY_E_PARAM, SKY_E_NOMEM, SKY_E_BUSY (as sky_submit) */
SKY_API sky_status sky_sequence_await(sky_sequence *sequence, const uint32_t *tokens,
                                      size_t token_count, sky_time patience_ns,
                                      uint32_t *stored_tokens);

/* What a wait came to. */
typedef struct {
    uint32_t stored_tokens;              /* as sky_sequence_await says */
    uint32_t awaited_blocks;             /* of their blocks, those that came while it waited */
    uint64_t bytes;                      /* of these blocks, as they are stored */
    uint32_t tier_blocks[SKY_TIERS_MAX]; /* so many lay in each tier when they were found there */
    sky_time waited_ns;
    bool computing_is_sooner; /* which ended the wait */
} sky_awaited;

/* How the last sky_sequence_await of this sequence ended; all zeros before the first.
 * Errors: SKY_E_PARAM (NULL) */
SKY_API sky_status sky_sequence_awaited(const sky_sequence *sequence, sky_awaited *out);

/* Give the request up, from any thread: the load or save under way ends SKY_E_CANCELLED soon, and
 * so does every later one. The sequence is then only to be closed. Others that waited for a block
 * that it was bringing go on without it. NULL is fine. */
SKY_API void sky_sequence_cancel(sky_sequence *sequence);

#ifdef __cplusplus
}
#endif
#endif
