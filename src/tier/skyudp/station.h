/* One station of a real sky, ground or satellite: a transport on a UDP socket, the clock all
 * stations share.
 *
 *   socket ──► believed? ──► transport ──► messages
 *   socket ◄──────────────── transport ◄── messages
 *
 * Sky time is the wall clock minus the scenario's start, so that stations agree on it without
 * talking: within what the machines' clocks differ by. It never runs backwards: when the wall
 * clock is set back, sky time goes at half its pace until the two meet again.
 *
 * Addresses: satellite number i (frame.h) listens on the scenario's base port + i. A ground
 * station takes any port; a satellite answers where it heard it, once that address has sent back a
 * token. Until then it sends no more there than came from there, and goes on to serve the address
 * that was proven before. */
#ifndef SKY_TIER_SKYUDP_STATION_H
#define SKY_TIER_SKYUDP_STATION_H

#include "base/clock.h"
#include "config/scenario.h"
#include "ground/session.h"
#include "io/udp.h"
#include "transport/transport.h"

typedef struct sky_station sky_station;

typedef struct {
    const sky_scenario *scenario; /* copied */
    const char *path;             /* of its file: key files are looked for beside it */
    sky_satellite self;           /* plane 0: a ground station, its slot is chosen by chance */
    const sky_clock *clock;
    const char *floor_path; /* a satellite's: floor.h; NULL: none is kept */
    bool direct;            /* a ground that asks every satellite without relays */
} sky_station_options;

/* Errors: SKY_E_PARAM (no udp section, no such satellite, a start to come, a rotation shorter than
 *         light needs), and as sky_secret_read, sky_udp_open, sky_floor_read, sky_floor_write */
sky_status sky_station_open(const sky_station_options *options, sky_station **out,
                            sky_error *error);
void sky_station_close(sky_station *s); /* NULL is fine */

/* A ground station's slot is its id. */
sky_satellite sky_station_self(const sky_station *s);
const sky_frame *sky_station_frame(const sky_station *s);
sky_transport *sky_station_transport(sky_station *s);
int sky_station_fd(const sky_station *s);
/* From any thread; everything else belongs to one. */
sky_time sky_station_now(sky_station *s);

/* Take in what has come by `now`; false: nothing more waits. Call again, after having taken the
 * messages, while it is true. */
bool sky_station_take(sky_station *s, sky_time now);
/* Send what may be sent at `now`. */
void sky_station_send(sky_station *s, sky_time now);
/* Sky time of the next thing to do here. */
sky_time sky_station_wake(const sky_station *s);
/* Clock time of a sky time, for waiting. */
sky_time sky_station_clock_time(sky_station *s, sky_time at);

/* No satellite of this sky runs on this machine, where all are (sky_address_is_vacant). False where
 * it is not known, as of skies with thousands. Some five microseconds a satellite, until one is
 * found that runs; that is the first to be asked about next time. */
bool sky_station_is_down(sky_station *s);

typedef struct {
    sky_udp_stat udp;
    sky_transport_stat transport;
    uint64_t nowhere; /* to ground stations not heard of, or that did not prove where they are */
} sky_station_stat;
void sky_station_stats(const sky_station *s, sky_station_stat *out);
/* The datagrams it refused, into the counters of the node behind it. */
void sky_station_refused(const sky_station *s, sky_node_stat *out);

#define SKY_STATION_RECEIVE_BYTES (8u << 20) /* wanted, of a socket's buffer */
#define SKY_STATION_DATAGRAM_COST 2304       /* of it, as Linux counts a datagram of ours */

/* The nearest to `v` of low … high. */
static inline uint32_t sky_station_within(uint64_t v, uint32_t low, uint32_t high) {
    if (v < low)
        return low;
    return v > high ? high : (uint32_t)v;
}

/* What satellites and the ground make of a scenario alike. The satellites' chunks are longer than
 * the ground's by a seal. Errors: SKY_E_PARAM */
sky_status sky_station_node_config(const sky_scenario *scenario, const sky_frame *frame,
                                   sky_node_config *out, sky_error *error);
/* Errors: SKY_E_PARAM: it does not say where its satellites are, and under which key */
sky_status sky_station_udp_expect(const sky_scenario *scenario, const char *path, sky_error *error);
/* The key of the sky that a scenario describes, from what its key file holds: stations that
 * disagree about constellation, placement, time or chunk size do not believe each other, nor do
 * those of another sky that was given the same file. Where it listens (udp.base) is no part. */
void sky_station_key(const sky_scenario *scenario, const uint8_t secret[SKY_SECRET_BYTES],
                     uint8_t key[SKY_SECRET_BYTES]);
/* "FILE" beside the scenario at `path`. Errors: SKY_E_PARAM: too long */
#define SKY_STATION_PATH_MAX 1024
sky_status sky_station_beside(const char *path, const char *file, char out[SKY_STATION_PATH_MAX],
                              sky_error *error);

#endif
