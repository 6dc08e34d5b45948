/* Commands about whole blocks: a queue of what satellites do not acknowledge.
 *
 *   DROP, PIN   to every server of a block, a datagram each, since its chunks there are an
 *               arithmetic row
 *   PURGE       to one satellite, which gossips; shares its datagram with those that come next
 *   MEND        to a satellite that has a copy: another copy was missed
 *   SET         one copy of a block's head again
 *
 * Where much is lost a DROP goes again, after what waits with it. What it misses nevertheless the
 * satellites' own LRU finds. When the queue is full, commands are lost for the same reason. */
#ifndef SKY_GROUND_BULK_H
#define SKY_GROUND_BULK_H

#include "ground/core.h"

typedef struct {
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky_wire_type type;
    uint64_t head_version; /* 0: none to drop */
    bool head_only;
    uint32_t server; /* next, from 1; 0: the head */
    uint32_t copy;
    bool second;     /* next goes to the place its chunks came from */
    uint32_t rounds; /* DROP: goes so often more */
} sky__command;

typedef struct {
    sky__core *core;
    sky__command *ring;
    uint32_t first, count, max;
    bool sent; /* something: it may still be on its way */
} sky__bulk;

sky_status sky__bulk_init(sky__bulk *b, sky__core *core);
void sky__bulk_deinit(sky__bulk *b);

/* DROP or PIN (`pinned`) of a block and, unless 0, the head of this version. */
void sky__bulk_push(sky__bulk *b, sky_wire_type type, const sky_chunk_id *id, uint64_t head_version,
                    const sky_block_info *info, bool pinned);
/* The satellites see to the chunks: one of them is to gossip; and the head is dropped. */
void sky__bulk_purge(sky__bulk *b, const sky_chunk_id *id, uint64_t head_version,
                     const sky_block_info *info);
/* Set these copies of a block's head again, a bit each. */
void sky__bulk_heads(sky__bulk *b, const sky_chunk_id *id, uint64_t head_version, uint32_t copies);
/* This copy of a server's chunks is there, and another was missed. */
void sky__bulk_mend(sky__bulk *b, const sky__subject *of, uint32_t server, uint32_t copy);

/* The next message, its data in `out`. False: what it was about is no longer true. */
struct sky__block_table;
bool sky__bulk_next(sky__bulk *b, const struct sky__block_table *blocks, sky_message *m,
                    sky_satellite *to, sky_datagram *out);

#endif
