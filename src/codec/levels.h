/* The levels: name, bits an element of f16 rows with a profile, and mean KL divergence, as measured
 * on Gemma 3 270M (docs/codec-evidence.md says how). Another model's bits are close, its losses are
 * its own. Last the step where no calibration says better, as a fraction of the rms about the mean.
 * In the order of sky_level, whose numbers and names are in skymem/codec.h. What a calibration
 * aims at is target_bits of cmd/skymem/calibrate_steps.c. */
#ifndef SKY_CODEC_LEVELS_H
#define SKY_CODEC_LEVELS_H

#define SKY_LEVELS(ROW)                                                                            \
    ROW("lossless", 13.50, 0, 0)                                                                   \
    ROW("8", 7.33, .0000089, .030f)                                                                \
    ROW("6", 5.83, .000067, .085f)                                                                 \
    ROW("4", 3.98, .00099, .31f)                                                                   \
    ROW("3", 3.03, .0039, .60f)                                                                    \
    ROW("2.5", 2.44, .0110, .85f)                                                                  \
    ROW("2", 1.99, .0208, 1.15f)                                                                   \
    ROW("archive", 1.57, .0497, 1.5f)

#endif
