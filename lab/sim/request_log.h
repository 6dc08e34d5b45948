/* What each request of a run was and cost, as a line of CSV:
 *
 *   begin ──► said* ──► end, one line
 *
 * A log that is not open takes every call and does nothing. Requests go by the number of their
 * place among those under way. What is written is computed from virtual time and counts alone, so
 * that a seed writes the same bytes on every machine.
 *
 * Surprise: a message bears the key it is about and not the request, so of requests for one key
 * that are under way at once each counts the messages of all of them. */
#ifndef SKY_LAB_SIM_REQUEST_LOG_H
#define SKY_LAB_SIM_REQUEST_LOG_H

#include "ground/session.h"
#include "lab/sim/text_file.h"

/* docs/SIMULATION.md says what each is. */
#define SKY_REQUEST_LOG_COLUMNS                                                                    \
    "time_s,ground,op,key,bytes,status,latency_ms,satellites,hops,messages,chunks,light_ms,"       \
    "link_ms,processing_ms,session_ms,user,land_ms"

typedef struct {
    bool open;
    sky_op op;
    uint32_t ground;
    uint32_t key;
    uint32_t key_count; /* in a row, from `key` on: messages about them are the request's */
    sky_time began;
    uint32_t satellites; /* that the ground sent messages to */
    uint32_t hops;       /* to the farthest of them from the one overhead */
    uint32_t messages;
    uint8_t *asked; /* [satellite_count], made when first needed: was it counted? */
} sky_request_trip;

typedef struct {
    text_file file;
    const sky_frame *frame;
    sky_request_trip *trips; /* [trip_count] */
    uint32_t trip_count;
} sky_request_log;

/* `path` NULL: the log stays closed.
 * Owner:  the frame outlives the log
 * Errors: SKY_E_NOMEM, SKY_E_IO, SKY_E_DENIED */
sky_status sky_request_log_open(sky_request_log *log, const char *path, const sky_frame *frame,
                                uint32_t trip_count, sky_error *error);
/* Errors: SKY_E_IO: not all of it was written */
sky_status sky_request_log_close(sky_request_log *log, const char *path, sky_error *error);
/* Also of one that was never opened, but cleared. */
void sky_request_log_deinit(sky_request_log *log);

/* Shape:  number below trip_count; key_count >= 1 */
void sky_request_log_begin(sky_request_log *log, uint32_t number, sky_time now, uint32_t ground,
                           sky_op op, uint32_t key, uint32_t key_count);
/* It was refused: no line. */
void sky_request_log_drop(sky_request_log *log, uint32_t number);
/* A ground (from 0) is about to send this message. */
void sky_request_log_said(sky_request_log *log, sky_time now, uint32_t ground,
                          const sky_datagram *message);

/* What a user's request spent between it and the ground. */
typedef struct {
    const char *user; /* "": the ground asked for itself, and both are 0 */
    sky_time up_ns, down_ns;
} sky_request_land;
void sky_request_log_end(sky_request_log *log, uint32_t number, sky_time now,
                         const sky_result *result, const sky_request_land *land);

#endif
