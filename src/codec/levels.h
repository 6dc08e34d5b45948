/* The levels: name, bits an element of f16 rows with a profile, and mean KL divergence, as measured
 * on Gemma 3 270M (docs/codec-evidence.md says how). Another model's bits are close, its losses are
 * its own. In the order of sky_level. */
#ifndef SKY_CODEC_LEVELS_H
#define SKY_CODEC_LEVELS_H

#define SKY_LEVELS(ROW)                                                                            \
    ROW("lossless", 13.50, 0)                                                                      \
    ROW("8", 7.33, .0000089)                                                                       \
    ROW("6", 5.83, .000067)                                                                        \
    ROW("4", 3.98, .00099)                                                                         \
    ROW("3", 3.03, .0039)                                                                          \
    ROW("2.5", 2.44, .0110)                                                                        \
    ROW("2", 1.99, .0208)                                                                          \
    ROW("archive", 1.57, .0497)

#endif
