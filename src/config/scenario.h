/* A scenario file: the constellation, links, workload and faults that the embedded sky and the
 * simulator take. docs/formats/scenario.md is the format for people; this is what it comes to.
 *
 * Surprises: the text may be hostile, so anchors, aliases, tags and duplicate keys are refused, and
 * every number has a range. A value this version cannot honour is an error, never silently ignored.
 * constellation.tle names a file, so only a scenario that is a file itself may have it. Units are
 * resolved here: nobody else sees a millisecond. */
#ifndef SKY_CONFIG_SCENARIO_H
#define SKY_CONFIG_SCENARIO_H

#include <skymem-sky/sky.h>

#include "ground/policy.h"
#include "wire/seal.h"

/* What a satellite that lies does. */
typedef enum {
    SKY_LIAR_NOT,
    SKY_LIAR_WRONG_BYTES, /* sends chunks with a bit turned */
    SKY_LIAR_WRONG_SHIFT, /* gives chunks away under another time of setting */
    SKY_LIAR_BLACK_HOLE,  /* takes everything and says nothing */
    SKY_LIAR_MIXED,       /* each liar another of these */
} sky_liar;

/* What is down from a time to a time, which count from the start of the run. */
typedef enum {
    SKY_OUTAGE_SATELLITE, /* loses its memory, and is silent until it is back */
    SKY_OUTAGE_LINK,      /* a laser between two satellites that are next to each other */
    SKY_OUTAGE_STATION,   /* a ground neither sends nor hears */
} sky_outage_kind;

#define SKY_SCENARIO_NAME_BYTES 32 /* of what a file names; with the end */
#define SKY_OUTAGES_MAX         64
#define SKY_GROUNDS_MAX         16 /* the observer's included */
#define SKY_OBSERVER_NAME       "observer"

/* A ground besides the observer's. */
typedef struct {
    char name[SKY_SCENARIO_NAME_BYTES];
    double place[2];   /* degrees north and east; ideal: planes and slots from the observer */
    double altitude_m; /* of a station of a file */
    uint64_t bits_s;   /* of its link; 0: links.ground_bits_s */
    double speed_km_h; /* on a great circle that sets out on its course */
    double course_deg;
    double min_elevation_deg; /* its mask; 0: the observer's */
    int line;                 /* where it stands in the file */
} sky_scenario_ground;

#define SKY_USERS_MAX 64

/* Who asks, over land, a ground that is its gateway. Simulator only. */
typedef struct {
    char name[SKY_SCENARIO_NAME_BYTES];
    char gateway_name[SKY_SCENARIO_NAME_BYTES];
    uint32_t gateway;  /* number of a ground */
    bool nearest;      /* instead: the ground that is nearest when it asks */
    bool has_place;    /* else the way over land takes delay_ns */
    double weight;     /* requests are drawn by these */
    double place[2];   /* degrees north and east */
    sky_time delay_ns; /* one way */
    uint64_t bits_s;   /* of its own link, each way; 0: no limit */
    double speed_km_h; /* on a great circle that sets out on its course */
    double course_deg;
    int line; /* where it stands in the file */
} sky_scenario_user;

typedef struct {
    char name[SKY_SCENARIO_NAME_BYTES];
    sky_outage_kind kind;
    sky_satellite a; /* the satellite, or an end of the link */
    sky_satellite b; /* the link's other end */
    uint32_t ground; /* the station; 0: the observer's */
    char ground_name[SKY_SCENARIO_NAME_BYTES];
    sky_time from_ns;
    sky_time to_ns; /* up again */
    int line;       /* where it stands in the file */
} sky_outage;

/* What a ground link carries of its rate, and how many datagrams it loses besides. */
typedef struct {
    double rate; /* share of the link's, 0.01 to 1 */
    double loss; /* probability, per datagram, 0 to 0.99 */
} sky_link_quality;

#define SKY_ELEVATIONS_MAX 32
#define SKY_WEATHERS_MAX   64

/* Weather over a ground, from a time to a time as of an outage. */
typedef struct {
    char name[SKY_SCENARIO_NAME_BYTES];
    char ground_name[SKY_SCENARIO_NAME_BYTES];
    uint32_t ground;
    sky_time from_ns;
    sky_time to_ns;
    sky_link_quality quality;
    int line; /* where it stands in the file */
} sky_weather;

#define SKY_SCENARIO_BYTES_MAX (64u << 10)
#define SKY_CHUNK_BYTES_MIN    512u
#define SKY_CHUNK_BYTES_MAX    32768u /* what one message carries */

typedef struct {
    sky_constellation constellation; /* earth_radius_km and light_km_s filled in */
    sky_satellite centre;            /* overhead at the start */
    sky_placement placement;         /* resolved: the window is filled in */

    struct {
        double latitude_deg;
        double longitude_deg;
        double altitude_m;
        double min_elevation_deg;
        double hysteresis_deg; /* for each step another is away, so much higher it must stand */
    } observer; /* of a physical sky; the ideal sky has its observer under the centre */
    sky_scenario_ground grounds[SKY_GROUNDS_MAX - 1]; /* numbers from 1; 0 is the observer's */
    uint32_t ground_count;                            /* of these */
    sky_scenario_user users[SKY_USERS_MAX];           /* none: each ground asks, as often */
    uint32_t user_count;
    struct {
        char name[SKY_SCENARIO_NAME_BYTES];
        uint32_t ground;
        sky_time from_ns;
        int line;
    } anchors[SKY_GROUNDS_MAX]; /* grounds that the window stands over from a time on, in order */
    uint32_t anchor_count;
    struct {
        double deg;
        sky_link_quality quality;
    } elevations[SKY_ELEVATIONS_MAX]; /* in order; linear between, and level beyond the ends */
    uint32_t elevation_count;         /* 0: ground links are the same at any */
    int elevation_line;
    sky_weather weathers[SKY_WEATHERS_MAX]; /* what is over one ground at a time adds up */
    uint32_t weather_count;
    bool physical;
    char elements_path[512]; /* physical: TLE or OMM; empty: the constellation is a shell */
    char isls_path[512];     /* its lasers, as Hypatia writes them; empty: a +GRID */

    uint32_t chunk_bytes;
    struct {
        uint64_t memory_bytes;
        sky_time processing_ns; /* per chunk */
        sky_time repair_ns;  /* a round of questions about copies; 0: twice a turn, at most 60 s */
        double repair_share; /* of a link, for copies made again; 0: none are */
    } satellite;
    struct {
        uint64_t isl_bits_s;
        uint64_t ground_bits_s;
        bool ground_each; /* each satellite has a ground link of its own; false: all share one */
        double loss; /* probability that a datagram is lost, per link; a message needs all of its */
        double ground_loss; /* of ground links, and of lasers; 0: `loss` */
        double isl_loss;
        sky_time jitter_ns; /* uniform in [0, jitter_ns), per link */
        uint64_t queue_bytes;
        double land_km_s; /* between users and gateways, along the great circle */
        bool datagrams;   /* simulated messages travel as the real transport's datagrams */
    } links;
    struct {
        int64_t start_ms;     /* wall, of virtual time 0 */
        double scale;         /* the embedded sky turns this much faster than the clock */
        sky_time rotation_ns; /* a turn, unscaled; auto: period / slots, physical: 15 s */
    } time;

    sky_lookup_kind lookup;
    uint32_t eviction; /* SKY_EVICT_… */
    uint32_t replicas; /* of each chunk; 0 is 1 */
    uint32_t parity;   /* pieces in each stripe of chunks */

    struct {
        uint32_t keys;
        uint64_t gets;
        uint64_t value_bytes;
        double zipf;
        bool regular;      /* prompts come one after the other, each at regular times; no zipf */
        uint32_t chain;    /* keys in a row are the blocks of a prompt; 1: each stands for itself */
        sky_time every_ns; /* between two requests */
        bool fixed;        /* exactly; false: in the mean, as independent users come (Poisson) */
        /* Shares of requests that are this instead of a get or a set. */
        double removes;
        double pins; /* and unpins, two for a pin */
        double prefetches;
    } workload;
    struct {
        double crash_per_h; /* of all satellites together, as all rates here */
        double partition_per_h;
        double corrupt; /* probability, per message */
        double duplicate;
        double reorder;
        sky_time skew_ns; /* satellites' clocks are off by up to this */
        uint32_t liar_satellites;
        sky_liar liar;
        double freeze_per_h;  /* a satellite's clock stands still for a while */
        double hostile_per_s; /* datagrams of an adversary */
        sky_time restart_ns;  /* how long a crashed satellite is silent */
        double reopen_per_h;  /* a ground but the observer's forgets all it knows */
    } faults;
    sky_outage outages[SKY_OUTAGES_MAX];
    uint32_t outage_count;
    sky_time until_ns;

    struct {              /* real satellites: sky+udp: and skymemd --satellite */
        char base[64];    /* address and port of satellite (1, 1), others follow; empty: none */
        char key[256];    /* file of the constellation's key, from the scenario's folder */
        char tenant[256]; /* the same of the tenant's; satellites do not read it */
        sky_suite suite;  /* the only one; SKY_SUITE_PLAIN: sends the best here, takes both */
        bool far;         /* timeouts count light time; default: no */
    } udp;
} sky_scenario;

/* Read a scenario from text. `path` is what messages call the file.
 * Errors: SKY_E_SYNTAX (no YAML, or YAML this format has no use for), SKY_E_PARAM (an unknown key,
 *         a value out of range), SKY_E_UNSUPPORTED (a value for a later version), SKY_E_NOMEM;
 *         `error` has "path:line: reason" and what is allowed */
sky_status sky_scenario_parse(const char *text, size_t bytes, const char *path, sky_scenario *out,
                              sky_error *error);

/* The same for the text of a file at `path`, which may name others (constellation.tle). */
sky_status sky_scenario_parse_file(const char *text, size_t bytes, const char *path,
                                   sky_scenario *out, sky_error *error);

/* The same from a file. Errors: also SKY_E_IO, SKY_E_DENIED */
sky_status sky_scenario_load(const char *path, sky_scenario *out, sky_error *error);

#endif
