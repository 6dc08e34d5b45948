#include "tier/skyudp/floor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/file.h"

#define TEXT_BYTES 24
#define PATH_BYTES 1024

sky_status sky_floor_read(const char *path, int64_t wall_ms, int64_t *floor_ms, sky_error *error) {
    sky_file_info info;
    char *text = NULL;
    size_t bytes;
    *floor_ms = 0;
    if (sky_file_stat(SKY_FOLDER_HERE, path, &info) == SKY_MISS)
        return SKY_OK;
    sky_status status = sky_file_read_all(path, TEXT_BYTES, &text, &bytes, error);
    if (status == SKY_E_PARAM)
        status = SKY_E_CORRUPT;
    char *end = NULL;
    int64_t kept = status == SKY_OK ? strtoll(text, &end, 10) : 0;
    if (status == SKY_OK && (end == text || strcmp(end, "\n") != 0 || kept < 0))
        status = sky_fail(error, SKY_E_CORRUPT,
                          "%.300s: not a time that a satellite wrote; remove it if it is no other "
                          "program's",
                          path);
    free(text);
    if (status == SKY_OK && wall_ms < kept - SKY_FLOOR_BEHIND_MS)
        status = sky_fail(error, SKY_E_DENIED,
                          "the clock is %" PRId64 " s behind what this satellite saw before: set "
                          "it right. Without %.200s the satellite starts, and may take messages "
                          "of its last life for new ones",
                          (kept - wall_ms) / 1000, path);
    if (status == SKY_OK)
        *floor_ms = kept;
    return status;
}

/* By a second name, so that a crash leaves the old or the new one whole. */
sky_status sky_floor_write(const char *path, int64_t floor_ms, sky_error *error) {
    char text[TEXT_BYTES], other[PATH_BYTES];
    int fd = SKY_FILE_NONE;
    int length = snprintf(other, sizeof other, "%s.new", path);
    if (length < 0 || length >= PATH_BYTES)
        return sky_fail(error, SKY_E_PARAM, "%.200s: too long a path", path);
    length = snprintf(text, sizeof text, "%" PRId64 "\n", floor_ms);
    sky_file_remove(SKY_FOLDER_HERE, other);
    sky_status status = sky_file_open(SKY_FOLDER_HERE, other,
                                      SKY_FILE_WRITE | SKY_FILE_NEW | SKY_FILE_PLAIN, &fd);
    if (status == SKY_OK)
        status = sky_file_write_at(fd, text, (size_t)length, 0);
    if (fd != SKY_FILE_NONE)
        sky_file_close(fd);
    if (status == SKY_OK)
        status = sky_file_rename(SKY_FOLDER_HERE, other, path);
    return status == SKY_OK ? SKY_OK
                            : sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%.300s: %s",
                                       path, sky_errno_text());
}
