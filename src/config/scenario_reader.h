/* A scenario file while it is read. What calls what, never upward:
 *
 *   scenario.c ──► scenario_check.c ──► stations.c ──► scenario_fields.c
 *                                   scenario_value.c ◄── scenario_lists.c ◄──┘ */
#ifndef SKY_CONFIG_SCENARIO_READER_H
#define SKY_CONFIG_SCENARIO_READER_H

#include "config/scenario.h"
#include "config/yaml.h"

#define SKY_STATION_NAME_BYTES 64

typedef struct {
    const char *path;
    sky_error *error;
    sky_scenario out;
    bool shell_given;
    bool is_file;    /* and may name others */
    bool grid_given; /* planes, slots or another key that a shell would say */
    uint32_t sections_seen;
    char stations_path[512]; /* a file of places; empty: none */
    /* Where a place is a station's: its name or number. The first is the observer's. */
    char stations[SKY_GROUNDS_MAX][SKY_STATION_NAME_BYTES];
    int lines[96]; /* of fields seen, from 1 */
} sky__scenario_reader;

/* ---- scenario_value.c ---- */

/* The error gets "path:line: …". */
sky_status sky__scenario_refuse(sky__scenario_reader *r, sky_status status, int line,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* … "path:line: section.key is 'value': allowed". */
sky_status sky__scenario_refuse_value(sky__scenario_reader *r, const sky_yaml_entry *e,
                                      const char *allowed);
/* A decimal number and nothing else; a whole one up to max; a time such as 90s or 2h, from 0; a
 * plane and a slot, both from 1. False: it is none. */
bool sky__scenario_number(const char *text, double *out);
bool sky__scenario_whole(const char *text, uint64_t max, uint64_t *out);
bool sky__scenario_duration(const char *text, sky_time *ns);
bool sky__scenario_satellite(const char *plane, const char *slot, sky_satellite *out);

/* ---- scenario_fields.c ---- */

/* Take an entry of the file; the context is a reader. */
sky_status sky__scenario_entry(void *context, const sky_yaml_entry *e);
/* Where a key was given; 0: nowhere. */
int sky__scenario_line(const sky__scenario_reader *r, const char *section, const char *key);

/* ---- scenario_check.c ---- */

sky_status sky__scenario_check(sky__scenario_reader *r);

/* scenario_lists.c: an entry of a section whose keys are names. */
sky_status sky__scenario_outage(sky__scenario_reader *r, const sky_yaml_entry *e);
sky_status sky__scenario_anchor(sky__scenario_reader *r, const sky_yaml_entry *e);
sky_status sky__scenario_ground(sky__scenario_reader *r, const sky_yaml_entry *e);
sky_status sky__scenario_user(sky__scenario_reader *r, const sky_yaml_entry *e);
sky_status sky__scenario_elevation(sky__scenario_reader *r, const sky_yaml_entry *e);
sky_status sky__scenario_weather(sky__scenario_reader *r, const sky_yaml_entry *e);
/* stations.c: places that are those of stations in a file. */
sky_status sky__scenario_check_stations(sky__scenario_reader *r);
/* What concerns several of these. */
sky_status sky__scenario_check_lists(sky__scenario_reader *r);

#endif
