/* For tests that read vectors from tests/golden: a line a case, and comments that begin with #. */
#ifndef SKY_BASE_LINES_FIXTURE_H
#define SKY_BASE_LINES_FIXTURE_H

#include <stdio.h>

typedef struct {
    FILE *file;
    char text[16384];
} sky_lines;

/* The test fails where there is no such file. */
void sky_lines_open(sky_lines *l, const char *path);
/* The next line that is neither empty nor a comment, which may be written to; it is printed, so
 * that the last one printed is the one that failed. NULL: there was none left, and the file is
 * closed. */
char *sky_lines_next(sky_lines *l);

#endif
