/* One line to the program's log (skymem/log.h); by default warnings and errors go to standard
 * error.
 *
 * The environment, read at the first line: SKYMEM_LOG=LEVEL[,FILE] with error, warning (default),
 * info or debug. With a FILE lines are appended to it, with the time in UTC and the process's id.
 * FILE is a regular file of the user's own, made for the user alone, or a character device. Links
 * are followed to devices, and to what standard output and error are. For anything else, such as a
 * pipe, a warning says so, and lines go to standard error. A set-user-ID program does not read
 * SKYMEM_LOG.
 * libskymem-sky calls these two of libskymem, so that there is one log. */
#ifndef SKY_BASE_LOG_H
#define SKY_BASE_LOG_H

#include <stdbool.h>

#include <skymem/log.h>

/* Thread-safe. The message says what, where, and what to do. Its arguments may be of anybody's
 * making: sky_text_escape shows it as one line. */
SKY_API void sky_log(sky_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether a line of this level is written: for what costs something to find out. */
SKY_API bool sky_log_wanted(sky_log_level level);

#endif
