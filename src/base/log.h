/* One line to whoever listens; by default warnings and errors go to standard error.
 *
 * The environment, read at the first line: SKYMEM_LOG=LEVEL[,FILE] with error, warning (default),
 * info or debug. With a FILE lines are appended to it, with the time in UTC and the process's id.
 * FILE is a regular file or a character device; for any other, such as a pipe, a warning says so,
 * and lines go to standard error.
 *   info    tiers that open, fail and answer again; what a lookup came to
 *   debug   every request of a tier, with its items and milliseconds */
#ifndef SKY_BASE_LOG_H
#define SKY_BASE_LOG_H

#include <stdbool.h>

typedef enum { SKY_LOG_ERROR, SKY_LOG_WARNING, SKY_LOG_INFO, SKY_LOG_DEBUG } sky_log_level;

/* Thread-safe. The message says what, where, and what to do. */
void sky_log(sky_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a line of this level is written: for what costs something to find out. */
bool sky_log_wanted(sky_log_level level);

#endif
