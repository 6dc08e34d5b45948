/* For tests of the transport: stations of one sky in virtual time, and links that lose, double and
 * reorder. */
#ifndef SKY_TRANSPORT_TRANSPORT_FIXTURE_H
#define SKY_TRANSPORT_TRANSPORT_FIXTURE_H

#include "base/prng.h"
#include "transport/transport.h"

#define SKY_NET_STATIONS_MAX 64
#define SKY_NET_FLIGHTS_MAX  8192

typedef struct {
    sky_transport_config config; /* a restart takes changes; its aead is the fixture's */
    sky_transport *transport;    /* NULL: dead */
    void *memory;
    uint64_t taken; /* whole messages */
    uint64_t wrong; /* … with other bytes than their first eight say */
    sky_satellite taken_from;
    uint64_t sum; /* of the numbers of all messages taken */
} sky_net_station;

typedef struct {
    sky_time at;
    sky_satellite from, to;
    size_t bytes;
    uint8_t data[SKY_PACKET_BYTES_MAX];
} sky_net_flight;

typedef struct {
    sky_frame frame;
    sky_time now;
    sky_prng prng;
    double loss, duplicate;
    sky_time reorder_ns;
    uint8_t key[SKY_SECRET_BYTES];
    sky_net_station stations[SKY_NET_STATIONS_MAX];
    uint32_t station_count;
    sky_net_flight *flights;
    uint32_t flight_count;
    uint64_t hops; /* datagrams carried */
    /* Called for each datagram before it is carried; false: it is lost. NULL: none is. */
    bool (*pass)(void *context, const sky_net_flight *flight);
    void *pass_context;
} sky_net;

/* A sky of 5 × 19 that turns every 10 s, a window of 3 × 3 around (3, 4), or for hop all of it
 * through (3, 4). */
void sky_net_open(sky_net *n, sky_strategy strategy, uint64_t seed);
void sky_net_close(sky_net *n);
/* A station of one suite, started now; the number it has from here on. */
uint32_t sky_net_add(sky_net *n, sky_satellite self, sky_suite suite);
/* Start it anew, with nothing known. */
void sky_net_restart(sky_net *n, uint32_t station);
void sky_net_stop(sky_net *n, uint32_t station);
/* Send a message that starts with `number` and goes on with bytes made from it; at least 8. False
 * when there is no room. */
bool sky_net_send(sky_net *n, uint32_t station, sky_satellite to, uint64_t number, size_t bytes);
/* Let happen what happens until then, or until nothing is to come. */
void sky_net_run(sky_net *n, sky_time until);
sky_transport_stat sky_net_stat(const sky_net *n, uint32_t station);

#endif
