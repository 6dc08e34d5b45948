/* Scenario files: sections whose keys are names that the file gives, one entry a line. */
#include "config/scenario_reader.h"

#include <stdlib.h>
#include <string.h>

typedef sky__scenario_reader reader;

#define UNTIL_MAX_NS SKY_SECONDS(366 * 86400)

static sky_status refuse_entry(reader *r, const sky_yaml_entry *e, const char *allowed) {
    return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "%s.%.40s: %s", e->section, e->key,
                                allowed);
}

/* A name as it is kept; false: it is too long. */
static bool keep_name(const sky_yaml_entry *e, char name[SKY_SCENARIO_NAME_BYTES]) {
    size_t bytes = strlen(e->key) + 1;
    if (bytes > SKY_SCENARIO_NAME_BYTES)
        return false;
    memcpy(name, e->key, bytes);
    return true;
}

/* ---- outages ---- */

typedef struct {
    const char *word;
    sky_outage_kind kind;
    unsigned satellites; /* that it names, two numbers each */
} outage_row;

static const outage_row outage_rows[] = {
    {"satellite", SKY_OUTAGE_SATELLITE, 1},
    {"link", SKY_OUTAGE_LINK, 2},
    {"station", SKY_OUTAGE_STATION, 0},
};

static const outage_row *outage_row_of(const char *word) {
    for (size_t i = 0; i < sizeof outage_rows / sizeof *outage_rows; i++) {
        if (strcmp(outage_rows[i].word, word) == 0)
            return &outage_rows[i];
    }
    return NULL;
}

sky_status sky__scenario_outage(reader *r, const sky_yaml_entry *e) {
    static const char allowed[] =
        "[satellite, PLANE, SLOT, FROM, TO], [link, PLANE, SLOT, PLANE, SLOT, FROM, TO] or "
        "[station, FROM, TO], with times such as 90s, 30m or 2h, FROM before TO";
    sky_scenario *s = &r->out;
    sky_outage o = {.line = e->line};
    const outage_row *row = e->list && e->value_count > 0 ? outage_row_of(e->values[0]) : NULL;
    if (!row || e->value_count != 3 + 2 * row->satellites)
        return refuse_entry(r, e, allowed);
    o.kind = row->kind;
    sky_satellite *ends[] = {&o.a, &o.b};
    bool fine = true;
    for (unsigned i = 0; i < row->satellites; i++)
        fine &= sky__scenario_satellite(e->values[1 + 2 * i], e->values[2 + 2 * i], ends[i]);
    fine &= sky__scenario_duration(e->values[e->value_count - 2], &o.from_ns) &&
            sky__scenario_duration(e->values[e->value_count - 1], &o.to_ns);
    if (!fine || o.from_ns >= o.to_ns || o.to_ns > UNTIL_MAX_NS)
        return refuse_entry(r, e, allowed);
    if (!keep_name(e, o.name))
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line,
                                    "%s.%.40s: a name has at most %d bytes", e->section, e->key,
                                    SKY_SCENARIO_NAME_BYTES - 1);
    for (uint32_t i = 0; i < s->outage_count; i++) {
        if (strcmp(s->outages[i].name, o.name) == 0)
            return refuse_entry(r, e, "is there twice");
    }
    if (s->outage_count == SKY_OUTAGES_MAX)
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "more than %d outages",
                                    SKY_OUTAGES_MAX);
    s->outages[s->outage_count++] = o;
    return SKY_OK;
}
