/* Files of elements, whichever form they have. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "orbit/fleet.h"

static bool begins_with(const char *text, size_t bytes, const char *with) {
    return bytes >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* Told apart by the first line, but a TLE by its line 1, first or second: names may be anything. */
static sky_status read_elements(const char *text, size_t bytes, const char *path, sky_fleet *f,
                                sky_error *error) {
    if (sky__tle_begins(text, bytes))
        return sky__tle_read(text, bytes, path, f, error);
    size_t blanks = 0;
    while (blanks < bytes && strchr(" \t\r\n", text[blanks]) && text[blanks])
        blanks++;
    if (blanks < bytes && (text[blanks] == '[' || text[blanks] == '{'))
        return sky__omm_json(text, bytes, path, f, error);
    if (begins_with(text, bytes, "<"))
        return sky_fail(error, SKY_E_SYNTAX,
                        "%s:1: XML is not read here: take the same as JSON or CSV", path);
    sky__lines lines = {.at = text, .end = text + bytes};
    const char *line;
    size_t length;
    if (!sky__line_next(&lines, &line, &length))
        return sky_fail(error, SKY_E_SYNTAX, "%s:1: the file is empty", path);
    if (begins_with(line, length, "CCSDS_OMM_VERS"))
        return sky__omm_kvn(text, bytes, path, f, error);
    if (memchr(line, ',', length) && length >= 8)
        return sky__omm_csv(text, bytes, path, f, error);
    return sky__tle_read(text, bytes, path, f, error);
}

sky_status sky_fleet_parse(const char *text, size_t bytes, const char *path, sky_fleet **out,
                           sky_error *error) {
    if ((!text && bytes > 0) || !path || !out)
        return sky_fail(error, SKY_E_PARAM, "no text, no path, or nowhere to put the fleet");
    if (bytes > SKY_FLEET_FILE_MAX)
        return sky_fail(error, SKY_E_PARAM, "%s: %zu bytes: at most %u", path, bytes,
                        SKY_FLEET_FILE_MAX);
    if (begins_with(text, bytes, "\xef\xbb\xbf")) { /* a byte order mark */
        text += 3;
        bytes -= 3;
    }
    sky_fleet *f = calloc(1, sizeof *f);
    if (!f)
        return sky_fail(error, SKY_E_NOMEM, "%s: out of memory", path);
    sky_status status = read_elements(text, bytes, path, f, error);
    if (status == SKY_OK && f->count == 0)
        status = sky_fail(error, SKY_E_SYNTAX, "%s:1: no satellite in it", path);
    if (status != SKY_OK) {
        sky_fleet_destroy(f);
        return status;
    }
    *out = f;
    return SKY_OK;
}
