/* Inside the manager and its sequences: their state, and the scratch that a batch of blocks needs.
 *
 *   manager: what all share           sequence: one request
 *     keys, codec, what was learnt      engine, rows, scratch, a batch under way, cancelled
 *     of tiers, blocks in flight
 *
 *   sequence.c        life, cancel, text: calls those below
 *   load.c            keys → tiers → rows of the engine
 *   load_paced.c      … by a deadline, or while it computes
 *   load_layers.c     … layer by layer; save_layers.c too
 *   save.c            rows of the engine → tiers
 *   push.c            … while it is computed
 *   await.c           waiting for what another pushes
 *   save_levels.c     … that have a block, but not at each level
 *   load_spans.c      where the rows of one block go
 *   sequence_batch.c  prompt → keys, and one batch of them: all call it
 *
 * A tier without a level may hold blocks that are coded, from a time when it had one. Such a block
 * is whole for saving, and for loading it is read as it lies and decoded here. */
#ifndef SKY_MANAGER_BLOCKS_H
#define SKY_MANAGER_BLOCKS_H

#include <skymem/manager.h>

#include "cache/cache_internal.h"
#include "io/sync.h"
#include "manager/coded.h"
#include "manager/flights.h"
#include "manager/payload.h"
#include "stream/planner.h"

/* Grown when a prompt needs more, kept for the next one. */
typedef struct {
    sky_key *keys;    /* [blocks_max] */
    sky_item *items;  /* [blocks_max] */
    uint64_t *stored; /* [blocks_max] loading: the tier a block is in; saving: it is in none */
    uint8_t *headers; /* [blocks_max × header_bytes] */
    sky_span *spans;  /* [spans_max] */
    sky_span *raw;    /* [blocks_max] loading: room for a block as it lies; bytes 0: needs none */
    /* [blocks_max] loading: a block's rows of layers with a window, as in its payload, where they
       lie before the window of the prefix that is asked for; NULL: they are not here */
    uint8_t **beside;
    sky__claim *claims; /* [blocks_max] loading: on blocks in far tiers */
    uint32_t blocks_max;
    size_t spans_max;
} sky_block_scratch;

/* A tier in loads with a deadline. */
typedef struct {
    sky_link link;    /* what it has shown */
    bool begun;       /* what the tier tells is filled in */
    uint32_t brought; /* blocks that came of the last load */
    uint32_t refusals;
    sky_time waited_ns;                  /* by the last load */
    uint32_t silences;                   /* loads in a row that it brought nothing in … */
    uint32_t skips;                      /* … and how many more it is not asked in */
    sky_time skipped;                    /* the deadline of the last of those */
    sky_coding codings[SKY_CODINGS_MAX]; /* where there is a choice: best first */
    uint32_t coding_count;               /* 0: there is none */
    bool coded; /* it reads all of a block that comes before what is asked for */
    bool whole; /* it reads all of a block, whatever is asked for */
} sky_paced_tier;

/* What sequences share. Read-only after creation, but for what the mutex guards and for flights. */
struct sky_manager {
    sky_cache *cache;
    uint8_t fingerprint[32]; /* of the engine it was created with */
    uint32_t block_tokens;
    sky_namespace ns;
    sky_payload payload; /* of one block; all zeros when refused */
    bool refused;
    sky_error refusal;
    bool near_keeps;            /* the nearest tier is memory, which takes what gets bring */
    bool drop;                  /* as sky_call's, for puts */
    bool load_only;             /* as sky_manager_options' */
    sky_time patience_ns;       /* with a put: for so long tiers may take nothing */
    sky_coded coded;            /* codec.self NULL: blocks are stored as they come */
    sky__codec_user codec_user; /* of the cache: brings it `coded` */
    sky__flights flights;
    sky_mutex mutex;
    sky_paced_tier tiers[SKY_TIERS_MAX]; /* under the mutex: what loads have learnt of them */
    uint32_t engine_token_ns;            /* as sky_manager_options' */
    sky_time engine_block_ns; /* under the mutex: what loads have measured; 0: none has */
    uint32_t sequence_count;  /* under the mutex */
};

/* One request on one engine. All is its caller's thread's, but for `cancelled`, and for `batch`,
 * which the mutex guards. */
struct sky_sequence {
    sky_manager *manager;
    sky_engine engine;
    int event; /* raised by each of its batches that is done, by claims, and by a cancel */
    atomic_bool cancelled;
    sky_mutex mutex;
    sky_batch batch;          /* under way, for a cancel to end; id 0: none */
    uint32_t restored_tokens; /* by the last lookup: window rows before them may be gone */
    uint32_t
        reached;  /* bit i: it, or a save since, was answered by tier i: levels may lack there */
    bool spoiled; /* it found blocks that are of no use, from `spoiled_key` on at most */
    sky_key spoiled_key;
    const uint32_t *tokens; /* of the prompt that is being loaded */
    sky_block_scratch scratch;
    sky_tensor *rows;       /* [row_sets]: where the engine says its rows are */
    size_t spans_per_block; /* header, then for each section what is skipped and rows' pieces */
    uint8_t *staging;       /* one payload: blocks longer than one extraction; NULL until needed */
    struct sky__layers *loading; /* layer by layer; NULL: not under way */
    struct sky__save *saving;
    struct sky__push *pushing;
    sky_awaited awaited; /* as sky_sequence_awaited tells */
};

/* May a tier's value of this size be a block? One that is coded is smaller. */
static inline bool sky__may_be_block(const sky_sequence *q, uint64_t bytes) {
    return bytes == q->manager->payload.payload_bytes ||
           (q->manager->coded.codec.self && bytes < q->manager->payload.payload_bytes);
}

/* It has all its functions. */
bool sky__engine_complete(const sky_engine *engine);

/* ---- engine.c ---- */

/* As the engine's extract, to q->rows: these rows of every layer; with room for spans over them.
 * Errors: those of the engine; SKY_E_CORRUPT: it says that they lie where they cannot; SKY_E_NOMEM
 */
sky_status sky__engine_extract(sky_sequence *q, uint32_t first_token, uint32_t token_count);
/* As the engine's restore_begin, to q->rows: room for those rows of every layer that a prefix of so
 * many tokens needs. Errors: as sky__engine_extract */
sky_status sky__engine_restore_begin(sky_sequence *q, uint32_t token_count);
/* The rows are written. Errors: those of the engine */
sky_status sky__engine_restore_end(sky_sequence *q);
/* As the engine's, if it has them. */
sky_status sky__engine_advance(sky_sequence *q, const uint32_t *tokens, uint32_t first_token,
                               uint32_t token_count);
sky_status sky__engine_place_advanced(sky_sequence *q, uint32_t token_count);
/* Owner:  *tokens is malloc'ed
 * Errors: those of the engine, SKY_E_NOMEM; SKY_E_CORRUPT: it cannot say how many there are */
sky_status sky__engine_tokenize(sky_sequence *q, const char *text, uint32_t **tokens,
                                size_t *token_count);

/* ---- sequence_batch.c ---- */

void sky__sequence_scratch_free(sky_block_scratch *scratch);

/* Keys of the first block_count blocks, with scratch for all of them.
 * Errors: SKY_E_NOMEM */
sky_status sky__sequence_keys(sky_sequence *q, const uint32_t *tokens, uint32_t block_count);

/* As sky_submit, and then sky_wait until `until`, of one batch at a time. A cancel ends both.
 * Errors: SKY_E_CANCELLED; the batch is over then */
sky_status sky__sequence_submit(sky_sequence *q, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call);
sky_status sky__sequence_wait(sky_sequence *q, sky_time until);
/* As sky_run. */
sky_status sky__sequence_run(sky_sequence *q, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call);

/* ---- load_spans.c ---- */

/* Parts of a block. */
#define SKY__LEAD 1u /* the header and rows of full layers: of every block of a prefix */
#define SKY__REST 2u /* rows of layers with a window: of blocks at its end */

/* Spans of one block for a get, and the range they cover. */
typedef struct {
    sky_span *spans; /* the scratch's */
    uint32_t span_count;
    uint64_t from;
    uint64_t end; /* end of the last span */
} sky__block_spans;

/* The rows of these parts of a block, to where the engine wants them; those that it does not want
 * go beside, if there is room for them, or nowhere. */
sky__block_spans sky__load_block_spans(const sky_sequence *q, uint32_t block, uint32_t parts);
/* Have the scratch's item `block` get them. */
void sky__load_spans(const sky_sequence *q, uint32_t block, uint32_t parts);

/* ---- load.c ---- */

/* Count a lookup that wanted so many blocks. */
void sky__load_count(const sky_sequence *q, const sky_lookup *lookup, uint32_t wanted);

/* ---- load_layers.c and save_layers.c: what is under way ---- */

typedef struct sky__layers sky__layers;
typedef struct sky__save sky__save;
/* Give it up. NULL is fine. */
void sky__layers_free(sky__layers *l);
void sky__save_free(sky__save *s);
typedef struct sky__push sky__push;
void sky__push_free(sky__push *p);

/* ---- push.c and await.c ---- */

/* Whole blocks of so many tokens, as many as a batch takes at most. */
uint32_t sky__whole_blocks(const sky_sequence *q, size_t token_count);

/* How blocks came that were waited for. */
typedef struct {
    sky_time first_at; /* the first of them */
    sky_time last_at;  /* the last, or when the wait began */
    uint32_t blocks;
} sky__arrival_pace;

/* Until when waiting for the blocks left is as good as computing them, if no other comes: 0: it is
 * not now. block_ns: what the engine takes for one, 0: nobody knows; then it is SKY_TIME_NEVER. */
sky_time sky__await_until(const sky__arrival_pace *p, uint32_t left, sky_time block_ns);

/* ---- load_shared.c ---- */

/* Another sequence may bring the scratch's item `block`: it lies in a far tier, is wanted whole,
 * and memory keeps it then. tiers: as sky_call's. */
bool sky__load_shares(const sky_sequence *q, uint32_t block, uint32_t tiers);
/* Get the scratch's first items, but those that others bring from memory when they are there.
 * Errors: SKY_E_CANCELLED, SKY_E_NOMEM, as sky_submit */
sky_status sky__load_get(sky_sequence *q, uint32_t block_count, const sky_call *call);
/* Claim nothing of these any more. */
void sky__load_release(sky_sequence *q, uint32_t block_count);

/* ---- load_paced.c ---- */

/* How a prefix is to be asked for. */
typedef struct {
    uint32_t block_count;
    uint32_t tiers;       /* as sky_call's */
    uint8_t tier;         /* the farthest that has to answer in time */
    sky_time deadline_ns; /* 0: none */
    bool computes;        /* the engine computes the head meanwhile */
    uint32_t computed;    /* … so many blocks of it */
    uint32_t bad_from;    /* … the first of these whose copy is of no use */
} sky_load_plan;

/* Of the blocks that the scratch's items say are found, how many leading ones are likely to come by
 * the plan's deadline, at the lowest level there is, and from where: fills in block_count and tier.
 */
void sky__load_worth(sky_sequence *q, uint32_t found, sky_load_plan *plan);
/* A load is to compute the head meanwhile: the engine can; without a deadline not all blocks lie in
 * memory, and the plan's tier is filled in. */
bool sky__load_computes(const sky_sequence *q, sky_load_plan *plan);
/* Get the scratch's first items as planned, from where its `stored` says, each at the best level
 * that the time allows; those that did not come end SKY_E_DEADLINE. *leading: so many blocks are
 * here, as a prefix of so many needs them; what of it lies before the plan's windows is beside.
 * With an engine that computes, the plan says how many of them it has computed.
 * Errors: SKY_E_NOMEM */
sky_status sky__load_paced(sky_sequence *q, sky_load_plan *plan, uint32_t *leading);

/* ---- save.c, and save_levels.c beside it ---- */

typedef struct {
    uint32_t blocks;
    uint64_t bytes;
} sky_saved;

#define SKY__SAVE_PATIENCE_NS SKY_SECONDS(10)

/* How many tokens the engine gives at once. */
uint32_t sky__save_tokens_max(const sky_sequence *q);
/* missing[b]: no tier has block b, or none that is of use: a tier that is asked whether it has one
 * does not look inside. */
sky_status sky__save_missing(sky_sequence *q, uint32_t block_count, uint64_t *missing);
/* Put those of blocks [first, *end) that are missing, from the engine's rows, under the scratch's
 * keys. *end: where it stopped, which is sooner when a restored block's rows are gone.
 * Errors: as sky_sequence_save; *end is then as it was */
sky_status sky__save_range(sky_sequence *q, uint32_t first, uint32_t *end, const uint64_t *missing,
                           sky_saved *saved);
/* Rows of blocks [first, first + count): one extraction, or one long block. The scratch's first
 * items then hold their keys, and spans over the engine's rows, or over `staging`.
 * Errors: those of the engine's extract, SKY_E_NOMEM */
sky_status sky__save_gather(sky_sequence *q, uint32_t first, uint32_t count);
/* Put the scratch's first items. SKY_OK: each has its own status.
 * Errors: SKY_E_DEADLINE: for long no tier took anything; those before it have ended */
sky_status sky__save_put(sky_sequence *q, uint32_t count, const sky_call *call);
/* Of blocks that a tier of these (bit i: tier i) has at some of its levels put those that it lacks:
 * all of them from the engine's rows, or, where these are restored and so maybe of a low level,
 * those below what it has. missing[b]: not of block b.
 * Errors: as sky__save_put, and what a tier said that did not take one */
sky_status sky__save_levels(sky_sequence *q, uint32_t block_count, uint32_t tiers,
                            const uint64_t *missing, sky_saved *saved);

#endif
