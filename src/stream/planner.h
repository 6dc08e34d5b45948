/* Streaming against a deadline: which part of a context at which level, from where, and when to
 * compute it instead.
 *
 *     segments     0     1     2     3     4     5     6     7     coded independently
 *     engine     ─computes──────────►│                             a prefix waits for nothing
 *     link                           │◄──────────────────loads─    from the end backwards
 *                                    '── they meet: all is there
 *
 * A **segment** is one or more token blocks. It comes in **forms**: the same rows at falling
 * levels, with known bytes and known loss; and, where the engine computes meanwhile, as text,
 * which costs time and no loss. A form is cut into **slices** (layers) that decode alone, so that
 * what arrived of a request that is given up is kept.
 *
 * Surprises:
 *  - Text is computed at the head, not where the link is slow: a segment can be computed only on
 *    top of all before it, so that a head never waits and everywhere else does. The link loads from
 *    the end backwards, and nobody has to know beforehand where they meet (docs/streaming.md has
 *    the proof). Without an engine it loads from the front, so that what is there is a prefix.
 *  - The first pass is planned to be over while a reserve of time is left, as long as deadlines
 *    have proved to need, and the reserve then goes into asking again for better forms.
 *
 * The planner owns no clock, no socket and no thread: input(now, what happened), next(now) → what
 * to do, wake → when to come back. It allocates when created and never again.
 * Source: CacheGen §5.3, whose loop it replaces; docs/streaming.md compares. */
#ifndef SKY_STREAM_PLANNER_H
#define SKY_STREAM_PLANNER_H

#include <skymem/cache.h>
#include <skymem/manager.h>

#define SKY_PACER_SEGMENTS_MAX 1024
#define SKY_PACER_FORMS_MAX    8
#define SKY_PACER_SLICES_MAX   64
#define SKY_PACER_FLIGHTS_MAX  16
#define SKY_PACER_SOURCES_MAX  4
#define SKY_PACER_FORM_NONE    UINT8_MAX

/* ---- what a source has shown so far ---- */

#define SKY_LINK_SAMPLES 64

/* One source's throughput and its spread, kept from context to context. All fields are the
 * planner's; share a link only between contexts that follow one another. */
typedef struct {
    double rate;      /* bytes a second while bytes flow, weighted by age; 0: nothing came yet */
    double deviation; /* of it */
    double delay_ns;  /* from asking to the first byte, exponentially weighted */
    double delay_deviation;       /* of it */
    float kept[SKY_LINK_SAMPLES]; /* rate of a context / rate expected at its start */
    double reserve;               /* share of a context that deadlines have proved to need */
    uint32_t kept_count;          /* samples taken, ever */
    double engine_factor;         /* the engine meanwhile: time it took / promised; 0: unknown */
    bool unsettled;               /* the rate is the least that it carries: little was ever asked */
    uint32_t at_once;             /* to ask for at first, as more brought nothing; 0: as usual */
} sky_link;

/* Begin with a guess: rate in bytes a second, delay from asking to the first byte. Rate 0: nothing
 * is known of the link. Its first context then asks for the smallest forms, for more at once as
 * long as that brings more, and refines what is there when it knows. */
void sky_link_init(sky_link *link, double rate, sky_time delay_ns);

/* Share of a context's time to keep in hand: no more than deadlines have lately proved to need, and
 * no more than the link has lost in any of its last contexts. */
double sky_link_reserve(const sky_link *link);

/* ---- the planner ---- */

/* A segment at one level. */
typedef struct {
    uint64_t bytes;
    double loss;        /* of quality, a token; 0: none. Any unit, the same for all */
    sky_time decode_ns; /* from its last byte to usable rows */
} sky_form;

/* Forms stand best first: loss rises and bytes fall. */
typedef struct {
    uint32_t token_count;
    uint32_t form_count;
    sky_form forms[SKY_PACER_FORMS_MAX];
    sky_time compute_ns; /* the engine's time for it on top of all before; 0: it does not compute */
    /* with a window, of each form: its first part, and its second where the first is there */
    uint64_t lead_bytes[SKY_PACER_FORMS_MAX];
    uint64_t rest_bytes[SKY_PACER_FORMS_MAX];
} sky_segment;

typedef struct {
    sky_time deadline_ns; /* on the clock of `now`; 0: as soon as possible, in whatever form */
    uint32_t slices;      /* pieces of a form that decode alone, 1 … SKY_PACER_SLICES_MAX; 0: 1 */
    uint32_t window;      /* segments at a prefix's end that it needs both parts of; 0: see below */
    uint32_t flights_max; /* requests under way at once; 0: SKY_PACER_FLIGHTS_MAX */
    double risk;          /* of a context later than its deadline; 0: 0.01 */
    bool no_refining;     /* end as soon as everything is there in some form */
    bool no_hedging;      /* never ask two sources for the same */
    bool all_or_nothing;  /* with a window: never settle for a shorter prefix */
    bool engine_unknown;  /* the segments' compute_ns are a guess: until one was computed every
                             segment is asked for, whichever may be sooner */
    bool engine_alone;    /* it cannot go on from what is loaded before all is there: towards a hole
                             it computes all that lies before. Against a deadline it stays out while
                             the sources alone would be in time, and they bring from where it gets
                             to on, so that both leave a prefix */
    uint32_t engine_run;  /* segments that it computes at once at most, as larger steps are quicker;
                             0: 1. No more than half of what it has left until they meet */
    sky_time engine_wait; /* so long the engine waits for the first bytes of unknown sources; 0:
                             nor does it pause for them between what it computes */
} sky_pacer_options;

/* What a load believes of its engine when it begins. */
typedef struct {
    sky_time block_ns; /* for a block */
    bool measured;     /* by a load of the same process */
    sky_time wait_ns;  /* so long it waits, at most, for the first bytes of sources unknown */
} sky__engine_belief;

/* token_ns: what an earlier process measured; block_ns: what loads of this one have, 0: none has
 * computed anything. */
sky__engine_belief sky__engine_believe(uint32_t token_ns, sky_time block_ns, uint32_t block_tokens,
                                       uint32_t block_count);
/* How the manager plans with it; without a deadline or a window, which are the caller's to add. */
sky_pacer_options sky__pacer_options_of_load(const sky__engine_belief *engine,
                                             uint32_t block_tokens);

/* A window: layers that look back so many tokens and no farther. A prefix needs their rows of its
 * last segments alone, so a form has two parts, the lead, which every prefix needs, and the rest,
 * and these are its slices. What is there of a longer prefix is then no shorter one: its rest is
 * that of other segments.
 *
 *     segments       0    1    2    3    4    5    6    7       window 2
 *     all of them    lead lead lead lead lead lead LEAD+REST
 *     the first 5    lead lead lead LEAD+REST
 *
 * So when the whole cannot come in time any more, not even in its smallest forms, the planner makes
 * for the longest prefix that can, and back when the link has recovered. Of segments that the
 * engine has computed both parts are there, whatever the prefix; it must be `engine_alone`. */

typedef enum {
    SKY_PACE_GET = 1,     /* ask `source` for slices [slice, slice_end) of `form` of `segment` */
    SKY_PACE_CANCEL = 2,  /* give request up */
    SKY_PACE_COMPUTE = 3, /* the engine is to compute segments [segment, segment_end); all before
                             them is there */
    SKY_PACE_END = 4,     /* over: see sky_pacer_report */
} sky_pace_kind;

typedef struct {
    sky_pace_kind kind;
    uint32_t request; /* GET, CANCEL: its number, from 1 */
    uint32_t segment;
    uint32_t segment_end; /* COMPUTE */
    uint32_t form;
    uint32_t source;
    uint32_t slice;
    uint32_t slice_end;
    uint64_t bytes; /* GET: expected */
} sky_pace;

/* What a context came to, or has come to so far. */
typedef struct {
    sky_verdict verdict;   /* HIT: all is there; RECOMPUTE: segments from `leading` on are not */
    uint32_t leading;      /* segments from the first on that are there, as a prefix needs them */
    uint32_t loaded;       /* segments there from a source */
    uint32_t computed;     /* … from the engine */
    double loss;           /* a token, over the segments that are there */
    uint64_t bytes;        /* arrived */
    uint64_t bytes_wasted; /* … of which of no use: given up, twice, or replaced by better */
    uint32_t given_up;     /* requests replaced by a smaller form under way */
    uint32_t hedged;       /* requests sent to a second source */
    uint32_t refined;      /* requests for a better form */
    sky_time complete_ns;  /* when everything was there in some form; SKY_TIME_NEVER: not yet */
} sky_pacer_report;

typedef struct sky_pacer sky_pacer;

/* Begin a context.
 * Shape:  segments [count], links [link_count]: one for each source, the preferred first
 * Owner:  segments and links stay the caller's and must outlive the pacer; links are written
 * Errors: SKY_E_PARAM (counts, forms out of order, slices, a window with slices, without parts or
 *         beside an engine that is not alone), SKY_E_NOMEM */
sky_status sky_pacer_create(const sky_segment *segments, uint32_t count, sky_link *links,
                            uint32_t link_count, const sky_pacer_options *options, sky_time now,
                            sky_pacer **out);
void sky_pacer_destroy(sky_pacer *pacer);

/* What to do now; call until false, after every input and at wake. After END always false. */
bool sky_pacer_next(sky_pacer *pacer, sky_time now, sky_pace *out);
/* When to call next at the latest. SKY_TIME_NEVER after END. */
sky_time sky_pacer_wake(const sky_pacer *pacer, sky_time now);

/* Of this request `bytes` have arrived in all, and with them `slices` slices. Requests that are
 * unknown or given up are fine: late bytes. */
void sky_pacer_arrived(sky_pacer *pacer, sky_time now, uint32_t request, uint64_t bytes,
                       uint32_t slices);
/* A request is over. SKY_OK: all slices are there and decoded; else the source does not have this
 * form, or has it damaged: it is not asked for it again. */
void sky_pacer_finished(sky_pacer *pacer, sky_time now, uint32_t request, sky_status status);
/* The engine has computed the segments it was told to; false: it could not and will not try again.
 */
void sky_pacer_computed(sky_pacer *pacer, sky_time now, bool ok);

/* What it has come to so far; after END, what it came to. */
void sky_pacer_report_get(const sky_pacer *pacer, sky_pacer_report *out);
/* The form a slice of a segment is there in; SKY_PACER_FORM_NONE: not there, or computed. */
uint8_t sky_pacer_form(const sky_pacer *pacer, uint32_t segment, uint32_t slice);
bool sky_pacer_is_computed(const sky_pacer *pacer, uint32_t segment);

#endif
