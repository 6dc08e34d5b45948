/* Checks what each satellite does with each message, at its input and output. No loss or fault
 * waives anything here, because links act before the input and after the output.
 *
 *   input ──► [ requests it owes an answer ] ──► output
 *
 *   SET, MIGRATE   what it is about to acknowledge as stored is stored
 *   SET, GET, HAS  one answer each, in order, to who asked, about what was asked
 *   CHUNK          its bytes are those of its name
 *   DROP           what it names is gone, or goes when who was sent it has said so
 *   a turn         what belongs elsewhere by the satellite's own count is on its way there
 *   MIGRATE        no more in a second than its chunks need
 *
 * Surprise: the world changes the messages of a Byzantine satellite on its link, so the checks hold
 * for it too. */
#ifndef SKY_LAB_SIM_CHECK_NODES_H
#define SKY_LAB_SIM_CHECK_NODES_H

#include "sim/world.h"

typedef struct sky__owed sky__owed;

typedef struct {
    uint32_t satellites;
    sky__owed *owed; /* [satellites] */
    struct {
        sky_node_stat stat;
        uint32_t jobs;
    } before; /* what the satellite was when it was about to hear the message under way */

    bool stores;  /* what was acknowledged as stored was */
    bool answers; /* every request, once */
    bool sound;   /* bytes in memory do not change */
    bool drops;
    bool moves;
    bool calm; /* chunks are not sent without end; once false, a run need not come to its end */
} sky_check_nodes;

/* Errors: SKY_E_NOMEM */
sky_status sky_check_nodes_init(sky_check_nodes *c, uint32_t satellites);
void sky_check_nodes_deinit(sky_check_nodes *c);

/* A sky_world_tap; `context` is the sky_check_nodes. */
void sky_check_nodes_tap(void *context, sky_world_tap_kind kind, const sky_node *node,
                         const sky_datagram *d);
/* It lost its memory. */
void sky_check_nodes_crashed(sky_check_nodes *c, uint32_t number);
/* Compare where chunks lie with where they belong, by each satellite's own count of turns. */
void sky_check_nodes_places(sky_check_nodes *c, const sky_world *w);

#endif
