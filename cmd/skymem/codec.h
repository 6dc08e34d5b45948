/* What the parts of `skymem codec` share.
 *
 *   array .npy ─► encode ─► file .skv ─► decode ─► array
 *                           │  ▲   └──► stat, verify
 *                           └──┴ lower
 *
 * A file is one container for each block of tokens, one after the other; each tells its own length
 * in its header. */
#ifndef SKYMEM_CLI_CODEC_H
#define SKYMEM_CLI_CODEC_H

#include "cli.h"
#include "npy.h"

typedef struct {
    cli *c;
    sky_profile *profile; /* or NULL */
    uint32_t first_position;
    void *memory; /* encoder's or decoder's */
} codec_job;

static inline const char *codec_kv_name(uint32_t kv) {
    return kv ? "V" : "K";
}

/* ---- codec_profile.c ---- */

/* `what` failed; why, as far as the status tells. */
int codec_failed(const codec_job *j, const char *what, sky_status status);
/* Where the result goes; checked before anything runs. */
const char *codec_output(const codec_job *j);
/* False: it is no level, and that was said. */
bool codec_read_level(const codec_job *j, sky_level *level);
/* False: --no-layout beside what says how keys are turned, and that was said. */
bool codec_rope_agrees(const codec_job *j);
/* Take --calibration and --layout, for rows of this shape. */
int codec_read_profile(codec_job *j, uint32_t layers, uint32_t heads, uint32_t dim);
/* Is the calibration of such rows, and do their layers stand in the model's order? */
int codec_check_profile(const codec_job *j, const npy_array *a);
/* Where a container keeps the model's layer: in the order of the calibration it is made with. */
uint32_t codec_layer_of(const codec_job *j, uint32_t model_layer);

/* ---- codec_blocks.c ---- */

typedef int (*codec_visit)(const codec_job *j, const sky_skv *skv, uint64_t first_token,
                           void *context);
/* All containers of the file, in order, up to the first that `visitor` fails at. */
int codec_each(const codec_job *j, const cli_blob *file, codec_visit visitor, void *context);

/* What the directories of a file say. */
typedef struct {
    uint64_t blocks;
    uint64_t tokens;
    uint64_t bytes;
    uint64_t streams;
    uint64_t level_bytes[SKY_LEVEL_COUNT];
    uint64_t level_streams[SKY_LEVEL_COUNT];
    uint64_t absent[2 * SKY_LAYERS_MAX]; /* blocks that lack layer i / 2's K or V */
    bool calibrated; /* a stream of them is: a container's own word is of what it was made with */
    uint32_t block_tokens; /* of the longest */
    uint64_t unlike;       /* blocks that differ from the first in layers, profile or model */
    sky_skv first;
} codec_summary;

/* Heads, widths and elements alike? Layers that are not there are not. */
bool codec_layers_alike(const sky_skv *a, uint32_t layer_a, const sky_skv *b, uint32_t layer_b);

/* Owner: the caller frees `file`, into which the summary points */
int codec_read_summary(const codec_job *j, cli_blob *file, codec_summary *s);

/* ---- codec_encode.c, codec_decode.c, codec_lower.c, codec_stat.c, codec_verify.c ---- */

int codec_run_encode(codec_job *j);
int codec_run_decode(codec_job *j);
int codec_run_lower(codec_job *j);
int codec_run_stat(codec_job *j);
int codec_run_verify(codec_job *j);

#endif
