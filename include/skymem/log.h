/* Where the library's own lines go: warnings, and what a tier that fails says. By default to
 * standard error, or as the environment's SKYMEM_LOG=LEVEL[,FILE] says; a program that has a log of
 * its own takes them. libskymem and libskymem-sky say theirs there. */
#ifndef SKYMEM_LOG_H
#define SKYMEM_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include <skymem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SKY_LOG_ERROR,
    SKY_LOG_WARNING,
    SKY_LOG_INFO, /* tiers that open, fail and answer again; what a lookup came to */
    SKY_LOG_DEBUG /* every request of a tier, with its items and milliseconds */
} sky_log_level;

/* A log that takes lines.
 * Threads: `line` is called from any thread, several at once, and must neither block for long nor
 *          call the library */
typedef struct {
    /* text: as sky_text_escape makes it, so one line; valid for the call, at most 1,023 bytes */
    void (*line)(void *context, sky_log_level level, const char *text);
    void *context;
    sky_log_level most; /* lines above this one are not made */
} sky_log_sink;

/* From now on lines go to `sink`; NULL: to where they went at first. From any thread.
 * Owner: sink stays the caller's, and must stay valid as long as the process: a thread of the
 *        library may be about to call it when another one is set */
SKY_API void sky_log_to(const sky_log_sink *sink);

/* Bytes of the UTF-8 character at `text`; 0: what is there is none (overlong, a surrogate, cut
 * short), or there are no bytes. */
SKY_API size_t sky_utf8_bytes(const void *text, size_t bytes);

/* Text that a line of a log, a terminal or JSON can show: valid UTF-8 stays; control characters and
 * bytes that are no UTF-8 become \xHH. `exact` doubles a backslash, so that different texts stay
 * different. What has no room is left out, from the first character that does not fit.
 * Shape:  out [out_bytes], at most 4 * bytes + 1, with a NUL at its end; out_bytes at least 1
 * Result: bytes written, without the NUL */
SKY_API size_t sky_text_escape(const void *text, size_t bytes, bool exact, char *out,
                               size_t out_bytes);

#ifdef __cplusplus
}
#endif
#endif
