/* The session's insides, shared by session.c (requests, index, room) and transfer.c (operations,
 * pacing, answers). */
#ifndef SKY_NODE_SESSION_STATE_H
#define SKY_NODE_SESSION_STATE_H

#include "node/session.h"

#define SKY__NONE UINT32_MAX

/* Requests and operations are in arrays; lists are chains of their indices. */
typedef struct {
    uint32_t first, last;
} sky__list;

typedef enum { REQUEST_FREE, REQUEST_QUEUED, REQUEST_RUNNING, REQUEST_DONE } sky__request_state;

typedef struct {
    sky__request_state state;
    uint32_t next; /* in the free list, gets, puts or done */
    sky_request ask;
    sky_chunk_id id;       /* key and version; number unused */
    sky_chunk_facts facts; /* of the block: all but first and checksum */
    sky_block_info info;
    uint32_t parent_block; /* put: pinned while under way */
    uint64_t parent_version;
    uint64_t range_begin, range_end; /* get */
    uint32_t chunk_next;             /* to be asked for or sent next */
    uint32_t chunk_last;
    uint32_t chunks_left; /* not yet done */
    uint32_t restarts;
    sky_time blocked_ns; /* the window's blocked time when it began */
    sky_result result;
} sky__request;

/* One chunk on its way there or back. */
typedef struct {
    uint32_t request; /* SKY__NONE: free */
    uint32_t number;
    uint32_t before, after; /* in `again`; after also chains the free ones */
    uint64_t generation;
    sky_satellite to;
    uint32_t attempt;
    uint32_t unanswered;
    uint32_t misses;
    uint32_t corrupt;
    bool again; /* waiting to be sent again, to `to` */
    sky_time first_sent;
    sky_time sent;
    sky_time deadline;
    sky_time light_ns;
    sky_time blocked_ns; /* held back by the window before the first attempt */
} sky__operation;

/* Beside the index, by block. */
typedef struct {
    sky_key key;
    uint64_t version;
    uint64_t hits;
    int64_t expires_ms; /* INT64_MAX: never */
    uint32_t pins;      /* nest */
    sky_key parent;     /* zero: none */
    bool orphan;        /* its parent is not there yet: in the list of such */
    uint32_t orphan_before, orphan_after;
} sky__side;

/* DROP or PIN for every server of a block: one datagram each, sent as the link allows. */
typedef struct {
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky_wire_type type;
    uint32_t server; /* next, from 1 */
    bool second;     /* next goes to the place its chunks came from */
} sky__row;

struct sky_session {
    sky_session_config config;
    uint32_t servers;
    uint64_t version; /* of the last put */
    sky_session_stat stat;

    sky_index *index;
    sky__side *sides;
    uint32_t orphans;  /* first of a list of blocks; of a batch, children may arrive first */
    uint32_t *loads;   /* chunks by place, puts under way included */
    uint32_t *rows_of; /* by server: its row and column in the window */
    uint32_t *columns_of;

    sky__request *requests;
    uint32_t request_free;
    sky__list gets; /* with chunks to ask for */
    sky__list puts; /* to start, or with chunks to send */
    sky__list done;
    bool puts_stalled; /* the first must wait until another put has ended */
    uint32_t puts_running;

    sky__operation *operations;
    uint32_t operation_free;
    uint32_t operation_fresh; /* those from here on were never used */
    sky__list again;
    sky_time earliest; /* no deadline is before this */

    sky__row *rows;
    uint32_t row_first, row_count, row_max;

    sky_time up_free;   /* when the terminal may send the next message */
    sky_time down_free; /* when the next answer may be asked for */
    uint32_t *open_at;  /* operations under way, by satellite */
    uint64_t bytes_coming;
    bool blocked;
    sky_time blocked_since;
    sky_time blocked_ns;
};

/* session.c */
void sky__request_finish(sky_session *s, uint32_t request, sky_status status, uint64_t bytes);
void sky__request_lost(sky_session *s, uint32_t request, sky_status status);
bool sky__put_start(sky_session *s, sky_time now, uint32_t request);
void sky__put_commit(sky_session *s, uint32_t request);
void sky__evicted(sky_session *s, const sky_chunk_id *id);
void sky__chain_append(sky_session *s, sky__list *list, uint32_t request);
uint32_t sky__chain_take(sky_session *s, sky__list *list);
uint32_t sky__chunk_length(const sky_session *s, uint32_t payload_bytes, uint32_t number);
void sky__chunk_facts(const sky_session *s, const sky__request *r, uint32_t number,
                      sky_chunk_id *id, sky_chunk_facts *facts);

/* transfer.c */
void sky__operations_abandon(sky_session *s, uint32_t request);
sky_time sky__blocked_ns(const sky_session *s, sky_time now);

#endif
