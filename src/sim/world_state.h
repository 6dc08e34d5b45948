/* The world's insides. A file calls only those above it in this list:
 *
 *   world_state     trace, clocks
 *   world_byzantine what Byzantine satellites send
 *   world_weather   ground links vary
 *   world_outages   ways past lasers that are down
 *   world_links     messages on their way
 *   world_stations  datagrams
 *   world_sites     satellites come and go
 *   world_faults    what goes wrong, and when
 *   world           time, life
 *   world_verify    looking in
 *
 *   flight:  launch ──► [queue] ──light──► arrive         owns one buffer of a pool, until it ends
 *   site:    no memory ──first message──► node ──empty──► no memory
 *
 * Ids in the schedule: one per satellite (its wake time), one for the session, one per kind of
 * fault, and one per message in flight, which is always on the way to exactly one next point.
 * Invariants: sites with memory are those in `alive`, in no order that matters; a flight is either
 * in the schedule or in the free list. */
#ifndef SKY_SIM_WORLD_STATE_H
#define SKY_SIM_WORLD_STATE_H

#include "base/prng.h"
#include "base/schedule.h"
#include "sim/world.h"

#define SKY__SMALL_BYTES    192  /* all messages without data */
#define SKY__DATAGRAM_BYTES 1232 /* what one datagram of the real transport carries */
#define SKY__DATAGRAMS_MAX  (SKY_WIRE_BYTES_MAX / SKY__DATAGRAM_BYTES + 1)
#define SKY__OVERHEARD      8 /* messages an adversary keeps to send again */
#define SKY__SPARES_MAX     64
#define SKY__IDLE_KEPT      1024 /* more than gossip reaches: else it is passed on again */
#define SKY__FLIGHT_NONE    UINT32_MAX
#define SKY__RETRY_NS       SKY_MS(1) /* when there was no buffer left to send with */

typedef struct {
    sky_node node;
    void *memory; /* NULL: holds nothing, does not exist */
    uint32_t alive_at;
    bool in_idle;
    sky_time link_free;
    sky_time up_free, down_free; /* its ground link, with links.ground_each */
    sky_time cut_until;
    sky_time out_until; /* the same, by an outage */
    sky_time frozen_until;
    sky_time frozen_at; /* what its clock shows until then */
    sky_time skew_ns;   /* its clock is ahead by this */
    sky_time full_at;   /* when something last came while it had no room for another chunk */
    sky_liar liar;
} sky__site;

/* A message on its way. */
typedef struct {
    sky_satellite from, to;
    uint8_t *data;
    uint32_t bytes;
    uint32_t next; /* in the free list */
    bool small;
    bool at_terminal; /* light is behind it; it waits for the downlink */
} sky__flight;

/* Buffers of one size, made when first needed, some kept for the next message. */
typedef struct {
    size_t bytes;
    uint32_t max, made, free_count;
    uint8_t **free_list;
} sky__pool;

/* A message that was seen on a link. */
typedef struct {
    sky_satellite from, to;
    uint32_t bytes;
    uint8_t *data; /* [SKY_WIRE_BYTES_MAX], made when first needed */
} sky__overheard;

typedef enum {
    SKY__STRIKE_CRASH,
    SKY__STRIKE_PARTITION,
    SKY__STRIKE_FREEZE,
    SKY__STRIKE_HOSTILE,
    SKY__STRIKE_OUTAGE, /* at a set time; the others come by chance */
    SKY__STRIKES
} sky__strike;

/* The lasers of an ideal sky. */
typedef struct sky__grid sky__grid;

/* A ground: its session, and its link to the sky. Its address is plane 0 and its number from 1; the
 * first, who may be alone, says 0. */
typedef struct {
    sky_session *session;
    const sky_frame *frame; /* the sky as it is from here */
    sky_frame own;          /* what of that is not the world's: all but the first have one */
    uint64_t bits_s;        /* of its link */
    sky_time queue_ns;      /* what its full queue takes to send */
    sky_time up_free, down_free;
    sky_time out_until;  /* an outage's */
    sky_time rate_until; /* the session knows its link's rate until then, where links vary */
    uint32_t openings;   /* after the first */
} sky__ground;

/* A station's transport, made when first needed as if it had run from the start. */
typedef struct {
    sky_transport_config config;
    sky_transport *transport; /* NULL: nothing was sent to it or by it yet */
    void *memory;
    sky_time since; /* by its own clock */
} sky__station;

struct sky_world {
    sky_scenario scenario;
    sky_world_host host;
    sky_frame frame;
    sky_node_config node_config;
    sky__ground *grounds; /* [ground_count], the first the observer's */
    uint32_t ground_count;
    sky__site *sites;
    uint32_t *alive; /* [alive_count] numbers of sites with memory */
    uint32_t alive_count;
    uint32_t
        idle[SKY__IDLE_KEPT]; /* satellites that lately held nothing: put out when pushed out */
    uint32_t idle_next;
    size_t node_bytes;
    void *spares[SKY__SPARES_MAX]; /* memory of those put out that held nothing */
    uint32_t spare_count;
    sky__station *stations; /* [satellites + 1], the last the ground's; NULL: no datagrams */
    uint8_t station_key[SKY_SECRET_BYTES];
    sky_schedule schedule;
    sky_prng prng;
    sky_time now;

    sky__flight *flights;
    uint32_t flight_max, flight_fresh, flight_free;
    sky__pool large, small;
    double loss[2][SKY__DATAGRAMS_MAX + 1]; /* of a message on a ground link and on a laser, by the
                                               datagrams it takes */

    bool ground_each;
    sky_time link_queue_ns;  /* what a full queue takes to send */
    uint32_t outage_next;    /* of the scenario's, which are in order of time */
    sky__grid *grid;         /* where lasers may be down and nobody else goes round them; or NULL */
    sky_time light_extra_ns; /* most a reordered message is held back */

    sky__overheard overheard[SKY__OVERHEARD];
    uint32_t overheard_next;

    sky_world_trace trace;
    void *trace_context;
    sky_world_tap tap;
    void *tap_context;
    sky_world_loss_known loss_known;
    void *loss_context;
    sky_world_stat stat; /* nodes: of satellites that are gone */
};

/* ---- ids ---- */

static inline uint32_t sky__strike_id(const sky_world *w, sky__strike kind) {
    return w->frame.satellite_count + 1 + (uint32_t)kind;
}

static inline uint32_t sky__flight_id(const sky_world *w, uint32_t f) {
    return w->frame.satellite_count + 1 + SKY__STRIKES + f;
}

/* All but the first stand behind the flights, whose ids are the same with and without them. */
static inline uint32_t sky__session_id(const sky_world *w, uint32_t ground) {
    return ground == 0 ? w->frame.satellite_count : sky__flight_id(w, w->flight_max) + ground - 1;
}

/* Of the ground's station. */
static inline uint32_t sky__ground_number(const sky_world *w) {
    return w->frame.satellite_count;
}

static inline bool sky__is_ground(sky_satellite s) {
    return s.plane == 0;
}

static inline sky__ground *sky__ground_of(const sky_world *w, sky_satellite s) {
    return &w->grounds[s.slot > 0 && s.slot <= w->ground_count ? s.slot - 1 : 0];
}

/* No room for another chunk. */
static inline bool sky__is_full(const sky_node *node) {
    return sky_node_chunks(node) == sky_node_slots(node->config);
}

static inline sky__site *sky__site_of(const sky_world *w, sky_satellite s) {
    return &w->sites[sky_frame_number(&w->frame, s)];
}

/* ---- world_state.c ---- */
void sky__tell(const sky_world *w, sky_event_kind kind, const sky__flight *f, sky_satellite from);
/* Something is out of order for a time. */
void sky__tell_until(const sky_world *w, sky_event_kind kind, sky_satellite from, sky_satellite to,
                     sky_time until);
/* Where a satellite's clock stands. */
sky_time sky__clock(const sky_world *w, const sky__site *s);
/* When it will show `at`. */
sky_time sky__when(const sky_world *w, const sky__site *s, sky_time at);

/* ---- world_byzantine.c ---- */
/* Chooses those of the scenario, by chance. */
void sky__byzantine_choose(sky_world *w);
/* Change what a Byzantine satellite's node sends, as the scenario says; false: it is not sent. */
bool sky__byzantine_alter(sky_world *w, const sky__site *s, sky_datagram *d);

/* ---- world_weather.c ---- */
/* Are ground links not always the same? */
bool sky__links_vary(const sky_world *w);
/* What is left now of the ground's link with this satellite, or with the one it is reached by. */
sky_link_quality sky__ground_quality(const sky_world *w, const sky__ground *g,
                                     sky_satellite satellite);
/* Its rate now; the result is what its full queue takes to send. */
sky_time sky__ground_link(const sky_world *w, const sky__ground *g, sky_satellite satellite,
                          uint64_t *bits_s);
/* Let the session know what its link, of `bits_s` at its best, carries now. */
void sky__tell_rate(sky_world *w, sky__ground *g, uint64_t bits_s);

/* ---- world_outages.c ---- */
/* Errors: SKY_E_NOMEM */
sky_status sky__outages_init(sky_world *w);
void sky__outages_deinit(sky_world *w);
/* False: so many lasers are down that there is no way. Where light goes round some, *ns becomes how
 * long that takes. */
bool sky__way_of(const sky_world *w, sky_satellite from, sky_satellite to, sky_time *ns);

/* ---- world_links.c ---- */
bool sky__links_init(sky_world *w, uint32_t flight_max);
void sky__links_deinit(sky_world *w);
/* A buffer for the largest message; NULL when everything is in the air. */
uint8_t *sky__buffer_take(sky_world *w);
void sky__buffer_give(sky_world *w, uint8_t *buffer);
/* A message that a sender wrote into such a buffer sets out. Owner: takes d->data */
void sky__set_out(sky_world *w, const sky_datagram *d);
/* What someone says who is on no link: it is at its destination at once. Data is copied. */
void sky__intrude(sky_world *w, const sky_datagram *d);
void sky__flight_end(sky_world *w, uint32_t f);
void sky__drop(sky_world *w, uint32_t f, sky_event_kind kind, uint64_t *count);
bool sky__cut_off(const sky_world *w, sky_satellite s);
/* Take a place in a queue that serves one message after another; false when it is full. */
bool sky__pass_queue(sky_world *w, sky_time *free_at, sky_time queue_ns, uint64_t bits_s,
                     uint32_t bytes);

/* ---- world_stations.c ---- */
/* A sender's next message; false when there is none. */
typedef bool (*sky__output)(const sky_world *w, void *sender, sky_datagram *out);

sky_status sky__stations_init(sky_world *w);
void sky__stations_deinit(sky_world *w);
void sky__stations_stat(const sky_world *w, sky_transport_stat *out);
/* A satellite forgets keys and counters, and half messages. */
void sky__station_restart(sky_world *w, uint32_t number);
/* A datagram reached a station; its next whole message. */
void sky__station_hears(sky_world *w, uint32_t number, const sky_datagram *d);
bool sky__station_receive(sky_world *w, uint32_t number, sky_datagram *out);
/* Send what `sender` has to say (NULL: nobody) as far as there is room, and what the transport has
 * to. True: the sender has said everything. *wake_at, by the station's clock, is when the
 * transport wants to be woken; there is room for more no sooner. */
bool sky__station_send(sky_world *w, uint32_t number, sky__output output, void *sender,
                       const sky__site *liar, sky_time *wake_at);
/* Its time came; and when it comes next, by its clock. */
void sky__station_wake(sky_world *w, uint32_t number);
sky_time sky__station_wake_at(const sky_world *w, uint32_t number);
/* What of the terminal's rate heads, tags and acknowledgements leave to messages. */
uint64_t sky__station_payload_bits_s(const sky_world *w, const sky__ground *g);
/* What the transport's own repeats add to the time of an answer. */
sky_time sky__station_late_ns(const sky_world *w);

/* ---- world_sites.c ---- */
void sky__node_stat_add(sky_node_stat *sum, const sky_node_stat *s);
/* A satellite that does not exist gets its node; false: no memory. */
bool sky__light_up(sky_world *w, uint32_t number);
/* A satellite loses its memory. */
void sky__put_out(sky_world *w, uint32_t number);
/* One that holds nothing stays among those idle for the shortest time. */
void sky__keep_idle(sky_world *w, uint32_t number);

/* ---- world_faults.c ---- */
/* Also puts the scenario's outages in order. */
void sky__faults_init(sky_world *w);
void sky__strike_falls(sky_world *w, sky__strike kind);

#endif
