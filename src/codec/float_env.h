/* The arithmetic of coding: floats rounded to nearest, subnormals kept. A program may have set its
 * threads otherwise (torch.set_flush_denormal, a library that was linked with -ffast-math), and
 * what is coded by one thread is decoded by another. */
#ifndef SKY_CODEC_FLOAT_ENV_H
#define SKY_CODEC_FLOAT_ENV_H

#include <fenv.h>

/* Begin it. Returns what the caller's was, for sky_floats_restore. */
static inline fenv_t sky_floats_begin(void) {
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    return before;
}

static inline void sky_floats_restore(const fenv_t *before) {
    fesetenv(before);
}

#endif
