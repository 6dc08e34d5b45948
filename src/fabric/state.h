/* The inside of connections over libfabric: see fabric.h.
 *
 *   library.c    loading it
 *   flow.c       how many messages may be under way, and their heads
 *   endpoint.c   providers, listening, connecting, accepting, closing
 *   stream.c     bytes: sending, receiving, waiting */
#ifndef SKY_FABRIC_STATE_H
#define SKY_FABRIC_STATE_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>

#include "fabric/fabric.h"
#include "fabric/flow.h"
#include "fabric/library.h"

#define SKY__FABRIC_RECEIVING (SKY_FABRIC_BUFFERS + SKY_FABRIC_SPARE)
#define SKY__FABRIC_SENDING   SKY_FABRIC_BUFFERS

#define SKY__FABRIC_DROPPED_MAX 4

typedef struct {
    uint8_t *data;
    size_t bytes; /* received, or to be sent, without the head */
    bool sends;
} sky__fabric_buffer;

/* First in, first out. */
typedef struct {
    sky__fabric_buffer *buffers[SKY__FABRIC_RECEIVING];
    uint32_t first, count;
} sky__fabric_queue;

/* libfabric's object of a provider's network, of all ends that came of one listener. */
typedef struct {
    struct fid_fabric *fabric;
    _Atomic uint32_t users;
} sky__fabric_net;

struct sky_fabric_end {
    const sky__fabric_library *library;
    sky__fabric_net *net;
    struct fi_info *info;
    struct fid_eq *eq;
    struct fid_pep *pep; /* NULL: a connection. A listener has nothing of the rest but watch */
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_mr *mr; /* NULL: the provider needs no registered memory */
    struct fid_ep *ep;
    int watch;                            /* readable when eq or cq is */
    int dropped[SKY__FABRIC_DROPPED_MAX]; /* sockets of the provider's that no child is to keep */
    uint32_t dropped_count;

    bool accepted; /* the other end asked for it, and has said what it has */
    bool connected, gone;
    int why; /* it is gone: a code of libfabric, 0: the other end has closed it */
    sky_fabric_flow flow;
    uint8_t *memory;
    sky__fabric_buffer receiving[SKY__FABRIC_RECEIVING], sending[SKY__FABRIC_SENDING];
    sky__fabric_queue ready;  /* came, and are not read whole */
    size_t ready_at;          /* of the first */
    sky__fabric_queue idle;   /* to be filled */
    sky__fabric_queue filled; /* to be sent */
};

static inline void sky__fabric_push(sky__fabric_queue *q, sky__fabric_buffer *b) {
    q->buffers[(q->first + q->count++) % SKY__FABRIC_RECEIVING] = b;
}

static inline sky__fabric_buffer *sky__fabric_first(const sky__fabric_queue *q) {
    return q->count > 0 ? q->buffers[q->first] : NULL;
}

static inline sky__fabric_buffer *sky__fabric_pop(sky__fabric_queue *q) {
    sky__fabric_buffer *b = sky__fabric_first(q);
    if (b) {
        q->first = (q->first + 1) % SKY__FABRIC_RECEIVING;
        q->count--;
    }
    return b;
}

/* ---- endpoint.c ---- */

/* Let no child of this process keep open the sockets that the provider polls for this object, and
 * have them notice a machine that is gone. */
void sky__fabric_prepare_sockets(sky_fabric_end *e, struct fid *object);

/* ---- stream.c ---- */

/* Have a buffer receive. False: the connection is gone. */
bool sky__fabric_post(sky_fabric_end *e, sky__fabric_buffer *b);
/* Do what can be done without waiting. */
void sky__fabric_progress(sky_fabric_end *e);
/* Sleep until there is progress to make, or `until`. False: `stop` is readable (-1: none). */
bool sky__fabric_wait(sky_fabric_end *e, sky_time until, int stop);

#endif
