/* Inside the sky tier: its state, and what its two files share. sky.c has the drawing, the
 * thread, and what its locks guard; look.c looks at what is there. */
#ifndef SKY_TIER_SKY_STATE_H
#define SKY_TIER_SKY_STATE_H

#include "io/sync.h"
#include "tier/batch.h"
#include "tier/sky/reach.h"
#include "tier/sky/sky.h"

/* Batches that are over may stand in it. */
#define SKY__TIER_JOBS_MAX          (2 * SKY_BATCHES_MAX)
#define SKY__TIER_PENDING_MAX       1024
#define SKY__TIER_FAILURES_IN_A_ROW 3

/* A batch whose items are being handed to the world. */
typedef struct {
    sky_batch batch;
    sky_op op;
    size_t item_count;
    size_t next;
    uint32_t ttl_s;
    sky_coding coding;
    int64_t at_ms;
    uint64_t if_version;
    sky_satellite_stat *asked; /* [item_count]: satellites, how they are; NULL: `op` */
    sky_time until;            /* virtual: they are asked until then; 0: until they are given up */
    sky_chunk_copy *probed;    /* [item_count]: chunks of the items' key, where they are; or NULL */
    sky_time submitted;        /* virtual */
} sky__tier_job;

/* An item under way in the world. */
typedef struct {
    struct sky_tier_sky *sky;
    sky_batch batch;
    size_t item;
    sky_time submitted;
    char *name; /* put: ours until the block is stored */
    size_t name_bytes;
    sky_key key;    /* of the item, as the caller knows it */
    sky_key *keys;  /* has: keys of the batch, each the parent of the next; NULL: one item alone */
    sky_key *chain; /* the same, as the sky knows them */
    size_t chain_count;
    uint32_t span; /* the one the last chunk ended in, and the offset of its start */
    uint64_t span_at;
    sky_satellite_stat *asked; /* the caller's, guarded as the item is */
    sky_chunk_copy *probed;    /* the same */
    uint32_t next_free;
} sky__tier_pending;

/* Beside the index, by block. */
typedef struct {
    sky_key key; /* as callers know it; zero: a request that found it is still under way */
    char *text;  /* NUL-terminated; NULL: a block without a name */
    size_t bytes;
} sky__tier_name;

struct sky_tier_sky {
    sky_tier tier;
    sky_tier_env env;
    char url[256];
    sky_scenario scenario;
    sky_thread thread;
    int wake;

    sky_mutex queue_lock;
    sky__tier_job jobs[SKY__TIER_JOBS_MAX];
    uint32_t job_first, job_count;
    bool closing;
    sky_time closes_at; /* at the latest, by the host's clock */

    sky_mutex world_lock;
    sky_reach *reach;
    sky__tier_pending pendings[SKY__TIER_PENDING_MAX];
    uint32_t pending_free;
    sky__tier_pending *lent; /* entered: what it puts is being read; NULL: none is */
    sky__tier_name *names;
    uint32_t name_max;
    sky_sky_report report;
    sky_time report_from, report_until; /* virtual */
    uint64_t errors;
    uint64_t read_bytes, written_bytes; /* of payloads */
    uint32_t failures;
};

static inline const sky_session *sky__tier_session(const struct sky_tier_sky *s) {
    return s->reach->ops->session(s->reach);
}

/* What the sky calls a key. */
static inline sky_key sky__tier_sky_name(const struct sky_tier_sky *s, const sky_key *key) {
    sky_key name = *key;
    if (s->reach->ops->name)
        s->reach->ops->name(s->reach, key, &name);
    return name;
}

/* The sky that a tier is; NULL: it is none. */
struct sky_tier_sky *sky__tier_of(sky_tier *tier);
/* Queue a batch of items, of jobs of this kind. Errors: SKY_E_BUSY */
sky_status sky__tier_queue(struct sky_tier_sky *s, sky__tier_job kind, sky_item *items,
                           sky_time deadline_ns, sky_batch *out);

/* look.c; as the tier's functions. */
sky_status sky__tier_list(sky_tier *tier, sky_entry_fn each, void *context);
sky_status sky__tier_verify(sky_tier *tier, sky_verify_report *out);
void sky__tier_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts);

#endif
