/* For tests of the wire's bytes: files under tests/golden with a line `accept NAME HEX` or `reject
 * NAME HEX` for each, and comments. */
#ifndef SKY_WIRE_GOLDEN_FIXTURE_H
#define SKY_WIRE_GOLDEN_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SKY_GOLDEN_BYTES_MAX 512

typedef struct {
    FILE *file;
    bool accept; /* of the line read last, as what follows */
    char name[32];
    uint8_t bytes[SKY_GOLDEN_BYTES_MAX];
    size_t byte_count;
    int accepted, rejected; /* lines, so far */
} sky_golden;

/* The test fails where there is no such file. */
void sky_golden_open(sky_golden *g, const char *path);
/* The next line. False: there was none left, and the file is closed. */
bool sky_golden_next(sky_golden *g);

/* Write an accept: for when a format gets a new version. */
void sky_golden_print(const char *name, const uint8_t *bytes, size_t byte_count);

#endif
