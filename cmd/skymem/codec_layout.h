/* The layout of `skymem codec`: JSON that says where rows stand and how keys were turned. */
#ifndef SKYMEM_CLI_CODEC_LAYOUT_H
#define SKYMEM_CLI_CODEC_LAYOUT_H

#include "cli.h"

typedef struct {
    uint32_t first_position;
    bool turned; /* by `rope` */
    sky_rope rope;
} codec_layout;

/* {"rope": {"kind", "dims", "base", "frequency_scale"}, "first_position"}, all of which may be left
 * out. Anything else is refused, by name. */
int codec_layout_read(const cli *c, const char *path, uint32_t dim, codec_layout *out);

#endif
