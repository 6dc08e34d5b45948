#include "tier/skyudp/floor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/file.h"

#define TEXT_BYTES 24
#define PATH_BYTES 1024

/* The time that `text` says, if it is just what sky_floor_write makes of it; else negative. */
static int64_t floor_parse(const char *text) {
    char again[TEXT_BYTES];
    int64_t kept = strtoll(text, NULL, 10);
    snprintf(again, sizeof again, "%" PRId64 "\n", kept);
    return strcmp(text, again) == 0 ? kept : -1;
}

/* SKY_MISS: there is no file. */
static sky_status read_text(const char *path, char text[TEXT_BYTES], sky_error *error) {
    int fd = SKY_FILE_NONE;
    size_t bytes = 0;
    sky_status status = sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_READ | SKY_FILE_PLAIN, &fd);
    if (status == SKY_MISS)
        return status;
    if (status != SKY_OK)
        return sky_fail(error, status, "%.300s: %s", path,
                        status == SKY_E_CORRUPT ? "not a plain file" : sky_errno_text());
    status = sky_file_check_owner(fd, path, error);
    if (status == SKY_OK && (status = sky_file_read_at(fd, text, TEXT_BYTES - 1, 0, &bytes)) != 0)
        sky_fail(error, status, "%.300s: %s", path, sky_errno_text());
    sky_file_close(fd);
    text[bytes] = '\0';
    return status;
}

sky_status sky_floor_read(const char *path, int64_t wall_ms, int64_t *floor_ms, sky_error *error) {
    char text[TEXT_BYTES];
    *floor_ms = 0;
    sky_status status = read_text(path, text, error);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_OK : status;
    int64_t kept = floor_parse(text);
    if (kept < 0)
        return sky_fail(error, SKY_E_CORRUPT,
                        "%.300s: not a time that a satellite wrote; remove it if it is no other "
                        "program's",
                        path);
    if (wall_ms < kept - SKY_FLOOR_BEHIND_MS)
        return sky_fail(error, SKY_E_DENIED,
                        "the clock is %" PRId64 " s behind what this satellite saw before: set "
                        "it right. Without %.200s the satellite starts, and may take messages "
                        "of its last life for new ones",
                        (kept - wall_ms) / 1000, path);
    *floor_ms = kept;
    return SKY_OK;
}

/* Remove what a satellite that died left at `path`: digits, and nothing else. */
static sky_status remove_leftover(const char *path, sky_error *error) {
    char text[TEXT_BYTES];
    sky_status status = read_text(path, text, error);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_OK : status;
    size_t digits = strspn(text, "0123456789");
    if (text[digits] != '\0' && strcmp(text + digits, "\n") != 0)
        return sky_fail(error, SKY_E_CORRUPT,
                        "%.300s: not a file that a satellite left; move it away, as the new "
                        "state is written there",
                        path);
    status = sky_file_remove(SKY_FOLDER_HERE, path);
    return status == SKY_OK || status == SKY_MISS
               ? SKY_OK
               : sky_fail(error, status, "%.300s: %s", path, sky_errno_text());
}

/* On the disk before it has its name: else a power cut could leave an empty file there. */
static sky_status write_text(const char *path, const char *text, size_t bytes) {
    int fd;
    sky_status status = sky_file_open(SKY_FOLDER_HERE, path,
                                      SKY_FILE_WRITE | SKY_FILE_NEW | SKY_FILE_PLAIN, &fd);
    if (status != SKY_OK)
        return status;
    status = sky_file_write_at(fd, text, bytes, 0);
    if (status == SKY_OK)
        status = sky_file_sync(fd);
    sky_file_close(fd);
    return status;
}

/* By a second name, so that a crash leaves the old or the new one whole. */
sky_status sky_floor_write(const char *path, int64_t floor_ms, sky_error *error) {
    char text[TEXT_BYTES], other[PATH_BYTES];
    int length = snprintf(other, sizeof other, "%s.new", path);
    if (length < 0 || length >= PATH_BYTES)
        return sky_fail(error, SKY_E_PARAM, "%.200s: too long a path", path);
    sky_status status = remove_leftover(other, error);
    if (status != SKY_OK)
        return status;
    length = snprintf(text, sizeof text, "%" PRId64 "\n", floor_ms);
    status = write_text(other, text, (size_t)length);
    if (status == SKY_OK)
        status = sky_file_rename(SKY_FOLDER_HERE, other, path);
    return status == SKY_OK ? SKY_OK
                            : sky_fail(error, status == SKY_MISS ? SKY_E_IO : status, "%.300s: %s",
                                       path, sky_errno_text());
}
