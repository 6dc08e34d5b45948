/* What `bench stream` loads, and the link it loads it over. */
#ifndef SKYMEM_LAB_BENCH_STREAM_H
#define SKYMEM_LAB_BENCH_STREAM_H

#include "bench.h"

#include "lab/stream/experiment.h"

/* ---- stream_prefix.c ---- */

#define BENCH_SEGMENT_TOKENS 128u
#define BENCH_SEGMENTS_MAX   32u

/* What a segment may travel as: rows as they are, as many bytes as q8_0 has for them, containers of
 * the codec. */
typedef enum { BENCH_F16, BENCH_Q8_0, BENCH_8, BENCH_6, BENCH_4, BENCH_FORMS } bench_form;

typedef struct {
    uint8_t *data[BENCH_FORMS];
    size_t bytes[BENCH_FORMS];
    sky_time compute_ns; /* the engine's, on top of all before */
} bench_segment;

/* A prefix of a model in all its forms, and the engine's time for it. */
typedef struct {
    uint32_t segment_count;
    bench_segment segments[BENCH_SEGMENTS_MAX];
    uint32_t layer_count;
    sky_skv_layer *layers;
    size_t rows_bytes; /* of a segment */
    sky_profile *profile;
    bool made_up;                    /* no model: rows that resemble some, a millisecond a token */
    double encode_rate[BENCH_FORMS]; /* bytes of rows a second, one thread */
    double decode_rate[BENCH_FORMS];
} bench_prefix;

/* Rows of the model of the settings, computed now; without one, or quickly, made up. */
int bench_prefix_open(bench *b, uint32_t segment_count, bench_prefix *out);
void bench_prefix_close(bench_prefix *p);

/* A form of a segment while it arrives: streams are decoded as soon as all their bytes are here. */
typedef struct {
    const bench_prefix *prefix;
    const uint8_t *data; /* of the form */
    size_t bytes;
    uint8_t *rows; /* where decoded rows go */
    void *memory;  /* [SKY_DECODER_BYTES], aligned to 64 bytes */
    bool coded;
    bool opened;
    sky_skv skv;
    uint32_t next;     /* 2 × layer + kv */
    size_t next_bytes; /* of rows, before it */
} bench_reader;

void bench_reader_start(bench_reader *r, const bench_prefix *prefix, bench_form form,
                        const uint8_t *data, size_t bytes, uint8_t *rows, void *memory);
/* Errors: SKY_E_CORRUPT */
sky_status bench_reader_take(bench_reader *r, size_t arrived);

/* ---- stream_link.c ---- */

/* A link of a given rate, made of a TCP connection over loopback and a thread that paces it. */
typedef struct {
    double rate; /* bytes a second */
    sky_time rtt_ns;
} bench_link;

/* A prefix as the planner sees it: which forms there are. */
typedef struct {
    const bench_prefix *prefix;
    sky_segment segments[BENCH_SEGMENTS_MAX];
    bench_form forms[SKY_PACER_FORMS_MAX];
} bench_context;

/* Load it over such a link; the engine's time is slept: the milliseconds until all of it is there,
 * decoded. Errors: SKY_E_IO, SKY_E_NOMEM, and what the planner says. */
sky_status bench_link_load(const bench_link *shape, const bench_context *context, sky_link *link,
                           double *ms, sky_pacer_report *report);

#endif
