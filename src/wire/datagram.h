/* A message on its way between a station's state machine and what carries it. */
#ifndef SKY_WIRE_DATAGRAM_H
#define SKY_WIRE_DATAGRAM_H

#include <skymem-sky/orbit.h>

/* `from` and `to` are its ends. */
typedef struct {
    sky_satellite from;
    sky_satellite to;
    uint8_t *data;
    size_t bytes;
    size_t bytes_max;     /* output: room in `data`; at least SKY_WIRE_BYTES_MAX is always enough */
    const uint8_t *chunk; /* from a session of sealed chunks: where its chunk lies; NULL: in data */
    bool opened; /* to a session of sealed chunks: its chunk opened under the tenant's key */
} sky_datagram;

/* The ground session, as an end: no satellite has plane 0. */
#define SKY_GROUND ((sky_satellite){0, 0})

#endif
