/* A scenario file while it is read: scenario.c reads its keys, scenario_check.c what concerns
 * several of them. */
#ifndef SKY_CONFIG_SCENARIO_READER_H
#define SKY_CONFIG_SCENARIO_READER_H

#include "config/scenario.h"

typedef struct {
    const char *path;
    sky_error *error;
    sky_scenario out;
    bool shell_given;
    bool is_file;    /* and may name others */
    bool grid_given; /* planes, slots or another key that a shell would say */
    uint32_t sections_seen;
    int lines[96]; /* of fields seen, from 1 */
} sky__scenario_reader;

/* The error gets "path:line: …". */
sky_status sky__scenario_refuse(sky__scenario_reader *r, sky_status status, int line,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Where a key was given; 0: nowhere. */
int sky__scenario_line(const sky__scenario_reader *r, const char *section, const char *key);
sky_status sky__scenario_check(sky__scenario_reader *r);

#endif
