/* A text file that a run writes line by line, or none. For lab/sim alone. */
#ifndef SKY_LAB_SIM_TEXT_FILE_H
#define SKY_LAB_SIM_TEXT_FILE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "io/file.h"

#define TEXT_FILE_BYTES 65536
#define TEXT_LINE_BYTES 512 /* no line is longer */

typedef struct {
    int fd; /* SKY_FILE_NONE: what is written goes nowhere */
    uint64_t offset;
    size_t used;
    sky_status status; /* of the first write that failed */
    char *text;
} text_file;

static inline bool text_file_is_open(const text_file *t) {
    return t->fd != SKY_FILE_NONE;
}

static inline void text_file_flush(text_file *t) {
    if (text_file_is_open(t) && t->status == SKY_OK && t->used > 0)
        t->status = sky_file_write_at(t->fd, t->text, t->used, t->offset);
    t->offset += t->used;
    t->used = 0;
}

__attribute__((format(printf, 2, 3))) static inline void text_file_line(text_file *t,
                                                                        const char *format, ...) {
    if (!text_file_is_open(t))
        return;
    if (TEXT_FILE_BYTES - t->used < TEXT_LINE_BYTES)
        text_file_flush(t);
    va_list args;
    va_start(args, format);
    t->used += (size_t)vsnprintf(t->text + t->used, TEXT_LINE_BYTES, format, args);
    va_end(args);
}

/* `path` NULL: none. What stood there is replaced.
 * Errors: SKY_E_NOMEM, SKY_E_IO, SKY_E_DENIED */
static inline sky_status text_file_open(text_file *t, const char *path, sky_error *error) {
    *t = (text_file){.fd = SKY_FILE_NONE};
    if (!path)
        return SKY_OK;
    t->text = malloc(TEXT_FILE_BYTES);
    if (!t->text)
        return sky_fail(error, SKY_E_NOMEM, "memory to write %s with", path);
    sky_file_info old;
    if (sky_file_stat(SKY_FOLDER_HERE, path, &old) == SKY_OK && old.regular) /* no device */
        sky_file_remove(SKY_FOLDER_HERE, path);
    sky_status status = sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_WRITE | SKY_FILE_CREATE,
                                      &t->fd);
    if (status == SKY_MISS) /* its folder */
        status = SKY_E_IO;
    return status == SKY_OK ? status : sky_fail(error, status, "%s: %s", path, sky_errno_text());
}

/* Errors: SKY_E_IO: a write failed, now or before */
static inline sky_status text_file_close(text_file *t, const char *path, sky_error *error) {
    if (!text_file_is_open(t))
        return SKY_OK;
    text_file_flush(t);
    sky_file_close(t->fd);
    t->fd = SKY_FILE_NONE;
    if (t->status != SKY_OK)
        return sky_fail(error, t->status, "%s: the file is not whole: %s", path, sky_errno_text());
    return SKY_OK;
}

#endif
