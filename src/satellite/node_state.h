/* The satellite's insides. A file calls only those above it in this list:
 *
 *   node_table  what is held, and which chunk makes room
 *   node_look   looking in
 *   node_chunk  where chunks belong; they go
 *   removed     what is not to be made again
 *   copies      copies made again
 *   gossip      blocks that lost a chunk
 *   node_store  chunks that come
 *   decide      puts under a condition
 *   node        time, queue, migration */
#ifndef SKY_SATELLITE_NODE_STATE_H
#define SKY_SATELLITE_NODE_STATE_H

#include <string.h>

#include "satellite/node.h"

#define SKY__NO_LINK 0u /* links hold slot + 1 */

enum { SKY__USE, SKY__MOVE, SKY__LINKS };
typedef enum { SKY__HELD, SKY__WAITING, SKY__SENT, SKY__DOUBTED } sky__move_state;

struct sky_node_slot {
    sky_chunk_id id;
    sky_chunk_facts facts;
    uint64_t request; /* of the MIGRATE, or of the sweep's HAS, under way */
    union {
        sky_time deadline; /* of the MIGRATE */
        sky_time asked;    /* when the HAS was sent */
    };
    uint32_t data_bytes;
    uint32_t chain; /* next in the bucket, or in the free list */
    struct {
        uint32_t before, after;
    } links[SKY__LINKS], block; /* block: the others here whose block has the same hash */
    uint16_t sent_plane;        /* who was sent it last and may hold it by now; plane 0: nobody */
    uint16_t sent_slot;
    uint16_t giver_plane; /* who sent it last; plane 0: the ground */
    uint16_t giver_slot;
    uint16_t also_plane; /* another copy of it was given to us while this one is to leave: that
                            copy's `first`; plane 0: none */
    uint16_t also_slot;
    uint8_t tenant; /* in the node's table */
    uint8_t move;   /* sky__move_state */
    uint8_t tries;  /* MIGRATEs sent to its place and not answered in time */
    bool used : 1;
    bool doomed : 1;     /* dropped while it was on its way: who takes it gets a DROP in answer */
    bool touched : 1;    /* its bytes may have pages: it was used since they were given back */
    bool redirected : 1; /* moved while it was on its way: who takes it gets the MOVE then */
    uint16_t to_ask;     /* copies (a bit each) whose holder is to be asked; while doubted */
    uint16_t lacking;    /* copies that are missing; the same */
    uint8_t doubts;      /* answers in this turn that the chunk after it is not there: gossip.c */
};

/* A block that is no more. Kept after it was passed on, to know it again. */
struct sky_gossip_message {
    sky_chunk_id id; /* the chunk that went */
    uint32_t chunk_count;
    uint32_t hops;
    uint8_t ways; /* still to be told: bits 0 to 3 neighbours, bit 4 the ground */
};

static inline struct sky_node_slot *sky__slot_at(const sky_node *n, uint32_t link) {
    return &n->slots[link - 1];
}

static inline size_t sky__data_stride(const sky_node_config *c) {
    return ((size_t)c->chunk_bytes_max + 63) & ~(size_t)63;
}

static inline uint8_t *sky__node_data(const sky_node *n, const struct sky_node_slot *s) {
    return n->bytes + (size_t)(s - n->slots) * sky__data_stride(n->config);
}

/* It has copies on other satellites. */
static inline bool sky__copied(const struct sky_node_slot *s) {
    return s->facts.copies > 1;
}

static inline sky_satellite sky__sent_to(const struct sky_node_slot *s) {
    return (sky_satellite){s->sent_plane, s->sent_slot};
}

/* Of so many that may come at once, and then one in `unit`: is there one left? */
static inline bool sky__credit_take(sky_time *credit, sky_time now, sky_time unit, uint32_t most) {
    sky_time full = now - most * unit;
    if (*credit < full)
        *credit = full;
    if (*credit > now - unit)
        return false;
    *credit += unit;
    return true;
}

/* Are both of the same move of their block, and so copies of each other, or the same? */
static inline bool sky__same_move(const sky_chunk_facts *a, const sky_chunk_facts *b) {
    return a->set_ms == b->set_ms && a->moves == b->moves &&
           sky_satellite_equal(a->centre, b->centre);
}

/* node_table.c */
struct sky_node_slot *sky__node_find(const sky_node *n, const sky_chunk_id *id);
/* The newest head of a key but for version `but`. */
struct sky_node_slot *sky__node_find_head(const sky_node *n, const sky_key *key, uint64_t but);
/* The chunks here of a block, in no particular order; the one before may be gone by the next. */
struct sky_node_slot *sky__node_block_first(sky_node *n, const sky_chunk_id *block);
struct sky_node_slot *sky__node_block_next(sky_node *n, const struct sky_node_slot *s);
/* A slot filled with id and facts, into the tables; and out again, to the free ones. */
void sky__node_insert(sky_node *n, struct sky_node_slot *s);
void sky__node_remove(sky_node *n, struct sky_node_slot *s);
/* Which goes when a chunk of this key's block needs its room; NULL: none may. */
struct sky_node_slot *sky__node_spare(sky_node *n, const sky_key *key);
static inline bool sky__same_tenant(const sky_key *a, const sky_key *b) {
    return memcmp(a->bytes, b->bytes, SKY_TENANT_BYTES) == 0;
}
/* It was used; it is pinned or not; it makes room before all others. */
void sky__node_touch(sky_node *n, struct sky_node_slot *s);
void sky__node_pin(sky_node *n, struct sky_node_slot *s, bool pinned);
void sky__node_first_to_go(sky_node *n, struct sky_node_slot *s);
/* Once an hour, pins that nobody renewed for SKY_NODE_PIN_HOURS end. */
void sky__node_let_lapse(sky_node *n);
void sky__node_move_to(sky_node *n, struct sky_node_slot *s, sky__move_state to);

/* node_look.c */
void sky__node_tell(const sky_node *n, uint64_t out[SKY_STAT_COUNT]);

/* node_chunk.c */
sky_satellite sky__node_place(const sky_node *n, const sky_chunk_facts *facts);
bool sky__node_belongs(const sky_node *n, const struct sky_node_slot *s);
/* To where it belongs by now. A satellite that was sent it for another place gets a MOVE: both
 * copies go to the new place, and are one there. */
void sky__node_set_out(sky_node *n, struct sky_node_slot *s);
/* A chunk that is to leave comes again, as another copy of it: a move lets two copies change
 * places. */
bool sky__is_other_copy(const struct sky_node_slot *s, const sky_chunk_facts *facts);
/* The slot keeps that copy's place, which it takes when its own copy has left (sky__node_leave). If
 * each copy were sent on at once, both would go to and fro without end. False: it keeps the place
 * of another copy already, and the giver has to keep this one for now. */
bool sky__take_other_copy(struct sky_node_slot *s, const sky_chunk_facts *facts);
/* The satellite that it was sent to has it: it is removed, or becomes the other copy. */
void sky__node_leave(sky_node *n, struct sky_node_slot *s);
/* Where the chunk belongs from now on. What it is does not change. */
void sky__give_place(struct sky_node_slot *s, const sky_chunk_facts *facts);
/* Forget it, also where it may have arrived by now: a chunk on its way out is kept until the other
 * satellite has answered or is waited for no longer, which then gets a DROP too. */
void sky__node_drop(sky_node *n, struct sky_node_slot *s);
/* Forget it, and send the DROP on to the satellite that may have it. */
void sky__node_pass_drop_on(sky_node *n, struct sky_node_slot *s);
void sky__node_send(const sky_node *n, const sky_message *m, sky_satellite to, sky_datagram *out);

/* removed.c */
typedef enum {
    SKY__WANTED,   /* as far as is known here */
    SKY__OUTDATED, /* a head, and a newer one of its key was removed */
    SKY__REMOVED
} sky__removal;
/* A ground said DROP of it, or a satellite that heard that. Any chunk stands for its block.
 * `older`: a head, and those of older versions too. */
void sky__removed_note(sky_node *n, const sky_chunk_id *id, bool older);
/* A ground put a value of this key. */
void sky__removed_forget(sky_node *n, const sky_key *key);
sky__removal sky__removed_known(sky_node *n, const sky_chunk_id *id);

/* copies.c */
void sky__copies_turn(sky_node *n);
void sky__copies_take(sky_node *n, sky_time now, const sky_datagram *in, const sky_message *m);
void sky__copies_mend(sky_node *n, struct sky_node_slot *s);
void sky__copies_answer(sky_node *n, const sky_datagram *in, const sky_message *m);
/* It was given a copy, and knows that the chunk was removed. False: nobody was. */
bool sky__copies_refused(sky_node *n, const sky_datagram *in, const sky_message *m,
                         struct sky_node_slot *s);
/* A copy that another satellite gives is for us to hold, and for it to give. */
bool sky__copies_may_give(const sky_node *n, sky_satellite giver, const sky_message *m);
bool sky__copies_output(sky_node *n, sky_time now, sky_datagram *out);
sky_time sky__copies_wake(const sky_node *n);

/* gossip.c */
void sky__gossip_begin(sky_node *n, const sky_chunk_id *id, const sky_chunk_facts *facts);
void sky__gossip_take(sky_node *n, sky_time now, const sky_datagram *in, const sky_message *m);
bool sky__gossip_known(const sky_node *n, const sky_chunk_id *id);
bool sky__gossip_output(sky_node *n, sky_time now, sky_datagram *out);
sky_time sky__gossip_wake(const sky_node *n);
bool sky__sweep_output(sky_node *n, sky_time now, sky_datagram *out);
void sky__sweep_answer(sky_node *n, const sky_datagram *in, const sky_message *m);

/* node_store.c */
sky_outcome sky__node_store(sky_node *n, const sky_message *m, sky_satellite giver,
                            sky_chunk_id *evicted);

/* decide.c */
/* A SET-IF: what came of it. *other: the version that is here instead, or what was evicted. */
sky_outcome sky__decide(sky_node *n, const sky_message *m, sky_satellite giver,
                        sky_chunk_id *other);

#endif
