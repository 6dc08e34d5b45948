/* Inside the planner of planner.h.
 *
 *   stream.c    what to do next; events       choose.c            which form the time allows
 *   link.c      rates and their spread        flight.c            requests under way
 *   aim.c       how long a prefix, with a     stream_segments.c   what is there of a segment:
 *               window                                            all of them call it
 *
 * Invariants: a slice's form only gets better; a flight's slices are [slice, slice_end); a
 * segment has at most one flight a source; `computed` segments have no flights; those from `aim`
 * on are not asked for; what was given up for a smaller form is asked for in smaller ones. */
#ifndef SKY_STREAM_STATE_H
#define SKY_STREAM_STATE_H

#include "stream/planner.h"

typedef struct {
    uint8_t forms[SKY_PACER_SLICES_MAX];  /* held, SKY_PACER_FORM_NONE: not there */
    uint32_t held;                        /* slices that are there */
    uint16_t gone[SKY_PACER_SOURCES_MAX]; /* bit f: that source does not have form f */
    uint32_t flights;
    uint8_t given_up; /* forms before this one, while it is missing: too much for the time */
    bool computed;
} sky_pacer_segment;

typedef struct {
    uint32_t request; /* 0: free */
    uint32_t segment;
    uint32_t form;
    uint32_t source;
    uint32_t slice; /* first one asked for */
    uint32_t slice_end;
    uint32_t slices_done; /* of those asked for */
    uint64_t bytes;
    uint64_t arrived;
    uint64_t ahead;  /* bytes the source owed when this was asked … */
    uint64_t before; /* … and had brought */
    sky_time asked_at;
    sky_time last_at; /* last sign of life */
    bool refining;    /* the segment was there already */
    bool starved;     /* more could have been on its way beside it, and there was nothing */
    bool hedged;      /* another source has been asked too */
} sky_pacer_flight;

/* One source during one context. */
typedef struct {
    uint32_t flights;
    sky_time busy_since; /* flights > 0 */
    sky_time busy_ns;    /* of closed periods, each less the delay of its first byte */
    uint64_t bytes;
    sky_time heard_at;  /* bytes came, or the period began */
    double recent;      /* bytes a second of late; 0: as the link says */
    sky_time window_at; /* 0: no byte yet in this period */
    uint64_t window_bytes;
    double rate_at_start; /* 0: nothing was known of it */
    /* a link that is not known yet, or not well: see link.c */
    bool starting;
    uint64_t first_bytes; /* what came first */
    double found_rate;    /* the most that it has shown */
    sky_time burst_at;    /* answers that come together: the first … */
    sky_time burst_last;  /* … and the last */
    bool burst_starved;   /* one of them was on its way when there was nothing more to ask for */
    uint64_t seen_bytes;  /* when so many had come it seemed to carry … */
    double seen_rate;
} sky_pacer_source;

struct sky_pacer {
    const sky_segment *segments;
    uint32_t count;
    sky_link *links;
    uint32_t link_count;
    sky_pacer_options options;
    sky_time started_at;
    sky_time decoding_ns;   /* the longest of one segment: no time for it after the deadline */
    uint64_t telling_bytes; /* less than this says nothing of a link */
    bool choice;            /* of forms, for some segment */

    uint32_t aim; /* segments that are wanted: all, but with a window */

    double reserve_ns; /* time that the link has been known to lose in a context */

    sky_pacer_flight flights[SKY_PACER_FLIGHTS_MAX];
    uint32_t flight_count;
    uint32_t cancels[SKY_PACER_FLIGHTS_MAX + 1]; /* to be told */
    uint32_t cancel_count;
    uint32_t last_request;
    sky_pacer_source sources[SKY_PACER_SOURCES_MAX];

    bool computing;
    bool engine_joined; /* it takes part */
    bool engine_failed;
    uint32_t computing_segment, computing_end;
    sky_time compute_from;
    double compute_factor;  /* measured / promised */
    bool compute_known;     /* a segment was measured, or the promise is to be believed */
    sky_time stepped_at;    /* the engine was done with what it computed; 0: not once yet */
    uint64_t stepped_bytes; /* … and so much had arrived */
    sky_time paused_ns;     /* before and between what it computed */

    bool ending; /* END is told as soon as the cancels are */
    bool ended;
    uint64_t bytes;
    uint32_t given_up, hedged, refined;
    sky_time complete_ns;
    sky_pacer_segment state[]; /* [count] */
};

/* stream_segments.c */
bool sky__pacer_present(const sky_pacer *p, uint32_t segment);
bool sky__pacer_offered(const sky_pacer *p, uint32_t segment, uint32_t form);
double sky__pacer_held_loss(const sky_pacer *p, uint32_t segment);
/* Leading slices of a segment that are wanted. */
uint32_t sky__pacer_needed(const sky_pacer *p, uint32_t segment);
/* Where a request for them ends: what has no second part comes whole. */
uint32_t sky__pacer_slice_end(const sky_pacer *p, uint32_t segment, uint32_t form);
uint64_t sky__pacer_bytes(const sky_pacer *p, uint32_t segment, uint32_t form, uint32_t first_slice,
                          uint32_t slice_end);
/* … up to where a request ends. */
uint64_t sky__pacer_slice_bytes(const sky_pacer *p, uint32_t segment, uint32_t form,
                                uint32_t first_slice);

/* link.c: bytes a second of a source, > 0. */
double sky__link_rate(const sky_pacer *p, uint32_t source);
/* … and if nothing was known of it at the beginning, no more than it has kept since, delays and
 * all: no more than what it carries. */
double sky__link_rate_sure(const sky_pacer *p, uint32_t source, sky_time now);
/* So many bytes more have arrived of this one, which has not counted them yet. */
void sky__link_heard(sky_pacer *p, sky_time now, const sky_pacer_flight *f, uint64_t bytes);
/* There was room for more requests than there was to ask for. */
void sky__link_starved(sky_pacer *p);
void sky__link_judge(sky_link *link, double target, bool late);
void sky__link_end(sky_pacer *p, sky_time now, uint32_t source);

/* flight.c */
sky_pacer_flight *sky__flight_find(sky_pacer *p, uint32_t request);
/* One that serves this segment; NULL: none. */
const sky_pacer_flight *sky__flight_of(const sky_pacer *p, uint32_t segment);
sky_pacer_flight *sky__flight_add(sky_pacer *p, sky_time now, uint32_t segment, uint32_t form,
                                  uint32_t source);
void sky__flight_drop(sky_pacer *p, sky_time now, sky_pacer_flight *flight, bool tell);
bool sky__flight_overdue(const sky_pacer *p, const sky_pacer_flight *flight, sky_time now);
/* Bytes asked for and not here; source SKY_PACER_SOURCES_MAX: of all. */
uint64_t sky__flight_owed(const sky_pacer *p, uint32_t source);
/* Requests to one that is not known. */
uint32_t sky__flight_starting(const sky_pacer *p, uint32_t source);
/* A source that never brought anything is to be asked, whoever else is sooner. */
bool sky__flight_probes(const sky_pacer *p, uint32_t source);
bool sky__flight_room(const sky_pacer *p, sky_time now);
/* The source that would deliver these bytes first. */
uint32_t sky__flight_source(const sky_pacer *p, uint32_t segment, uint32_t form, uint64_t bytes);

/* choose.c: bytes a second of all sources together. */
double sky__pacer_rate(const sky_pacer *p);
double sky__pacer_rate_sure(const sky_pacer *p, sky_time now);
/* Of the missing segments [first, end) without a flight: the first, or backwards the last, and the
 * form that leaves time for all from `first` on. False: none. */
bool sky__choose_missing(const sky_pacer *p, uint32_t first, uint32_t end, bool backwards,
                         double budget_ns, double rate, uint32_t *segment, uint32_t *form);
/* Of the segments that are there: the one a better form of which is worth most, in the time. */
bool sky__choose_better(const sky_pacer *p, double budget_ns, double rate, uint32_t *segment,
                        uint32_t *form);
/* Time the missing segments take in their smallest forms. */
double sky__choose_least_ns(const sky_pacer *p, uint32_t first, double rate);
/* … in their best. */
double sky__choose_best_ns(const sky_pacer *p, double rate);
/* Some source has it in some form. */
bool sky__choose_any(const sky_pacer *p, uint32_t segment);

/* aim.c: with a window, the longest prefix whose missing rows are no more than these bytes
 * in their smallest forms; 0: none. With no bytes: what is there. */
uint32_t sky__aim_longest(const sky_pacer *p, double bytes);
/* Make for the longest prefix that can be there in so much time, if it is not all. */
void sky__aim(sky_pacer *p, sky_time now, double time_ns);
/* A source brought so many bytes more. */
void sky__aim_heard(sky_pacer *p, sky_time now, uint32_t source, uint64_t bytes);

#endif
