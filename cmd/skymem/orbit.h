/* What the parts of `skymem orbit` share: the satellites, who looks, when, and rows of output. */
#ifndef SKYMEM_CLI_ORBIT_H
#define SKYMEM_CLI_ORBIT_H

#include "cli.h"

/* orbit_input.c: flags to things; each says why and returns an exit code. */
int orbit_fleet(cli *c, sky_fleet **out); /* --shell, --planes …, --tle */
int orbit_shell(cli *c, sky_constellation *out);
int orbit_observer(cli *c, sky_observer *out);
/* A time in UTC, or "now". */
int orbit_time(cli *c, const char *option, int64_t *ms);
/* Tells of satellites that have no place at both ends of [from, to]: decayed, or too far from their
 * epoch. A failure only when none has one at either. */
int orbit_places(cli *c, const sky_fleet *f, int64_t from_ms, int64_t to_ms);
int orbit_satellite(cli *c, const char *option, const sky_fleet *f, uint32_t *number);
int orbit_reals(cli *c, const char *option, double *out, size_t max, size_t *count);
double orbit_light_ms(const sky_constellation *c, double km);

#define ORBIT_COLUMNS_MAX 24

/* orbit_rows.c: one JSON object a line, CSV with a head, or a table; each row has the same keys. */
typedef struct {
    cli *c;
    cli_table table;
    json_t *rows; /* of a table, until the end */
    size_t count; /* of CSV */
    bool csv;
} orbit_rows;
void orbit_rows_begin(orbit_rows *r, cli *c);
int orbit_row(orbit_rows *r, json_t *row); /* takes the row over */
int orbit_rows_end(orbit_rows *r);

/* Millimetres and nanodegrees are enough. */
json_t *orbit_real(double value, int decimals);

/* The verbs. */
int orbit_shells(cli *c);
int orbit_latency(cli *c);
int orbit_isl(cli *c);
int orbit_passes(cli *c);
int orbit_visible(cli *c);
int orbit_overhead(cli *c);
int orbit_propagate(cli *c);
int orbit_czml(cli *c);
int orbit_windows(cli *c);

#endif
