/* A stream of bytes as messages into buffers that the other end has posted: how many of them there
 * are, and what stands before the bytes of each. Pure.
 *
 *   ours                                       theirs
 *   greeting: "I have 8 buffers of 64 KiB"  ──►
 *   message = | returned u32 | bytes u32 | the bytes ──►   takes one buffer
 *                 ◄── | returned u32 | 0 |                  so many are free again
 *
 * Who has no buffer of the other end left sends no bytes, so that an end that does not read stops
 * the other. What only returns buffers needs none of these: it is sent when half of them are owed,
 * so at most two of the kind are under way, and each end has SKY_FABRIC_SPARE buffers more for
 * them. */
#ifndef SKY_FABRIC_FLOW_H
#define SKY_FABRIC_FLOW_H

#include <skymem/types.h>

#define SKY_FABRIC_GREETING_BYTES 16u
#define SKY_FABRIC_HEAD_BYTES     8u
#define SKY_FABRIC_BUFFERS        8u /* that an end posts, an even number */
#define SKY_FABRIC_SPARE          2u
#define SKY_FABRIC_BUFFER_BYTES   (64u << 10) /* of each, and so of a message with its head */
#define SKY_FABRIC_BUFFERS_MAX    4096u       /* that another end may say it has */
#define SKY_FABRIC_BUFFER_LEAST   64u         /* bytes of each of its buffers */

typedef struct {
    uint32_t message_bytes; /* at most, with its head; 0: not greeted yet */
    uint32_t theirs_max;    /* buffers that the other end has */
    uint32_t theirs;        /* of them free, as far as it has said */
    uint32_t ours;          /* of ours free, as far as we have said */
    uint32_t owed;          /* taken from, and not said yet */
} sky_fabric_flow;

void sky_fabric_flow_init(sky_fabric_flow *f);
/* What goes with the request for a connection, and with the answer. */
void sky_fabric_flow_greet(uint8_t out[SKY_FABRIC_GREETING_BYTES]);
/* The other end's. More bytes may stand behind it, which mean nothing.
 * Errors: SKY_E_CORRUPT (it is no greeting), SKY_E_UNSUPPORTED (of another version) */
sky_status sky_fabric_flow_meet(sky_fabric_flow *f, const uint8_t *greeting, size_t bytes);

/* How many bytes the next message may have; 0: none may be sent now. */
size_t sky_fabric_flow_room(const sky_fabric_flow *f);
/* Write the head of a message of so many bytes, at most `room`; 0: it only returns buffers. */
void sky_fabric_flow_send(sky_fabric_flow *f, uint32_t bytes, uint8_t head[SKY_FABRIC_HEAD_BYTES]);
/* A message came, with its head; *bytes: of what stands behind that.
 * Errors: SKY_E_CORRUPT (no message that the other end may send) */
sky_status sky_fabric_flow_take(sky_fabric_flow *f, const uint8_t *message, size_t length,
                                size_t *bytes);
/* A buffer of ours that had bytes is free again. True: a message that only returns buffers is due,
 * unless one with bytes goes first. */
bool sky_fabric_flow_free(sky_fabric_flow *f);
bool sky_fabric_flow_is_due(const sky_fabric_flow *f);

#endif
