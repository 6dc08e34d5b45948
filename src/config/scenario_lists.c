/* Scenario files: sections whose keys are names that the file gives, one entry a line. */
#include "config/scenario_reader.h"

#include <string.h>

#include "orbit/placement.h"
#include "orbit/torus.h"

typedef sky__scenario_reader reader;

#define UNTIL_MAX_NS SKY_SECONDS(366 * 86400)

static sky_status refuse_entry(reader *r, const sky_yaml_entry *e, const char *allowed) {
    return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "%s.%.40s: %s", e->section, e->key,
                                allowed);
}

/* A name as it is kept; false: it is too long. */
static bool keep_name(const char *text, char name[SKY_SCENARIO_NAME_BYTES]) {
    size_t bytes = strlen(text) + 1;
    if (bytes > SKY_SCENARIO_NAME_BYTES)
        return false;
    memcpy(name, text, bytes);
    return true;
}

static sky_status refuse_name(reader *r, const sky_yaml_entry *e) {
    return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "%s.%.40s: a name has at most %d bytes",
                                e->section, e->key, SKY_SCENARIO_NAME_BYTES - 1);
}

/* ---- grounds ---- */

/* Whether a place is one is known when the sky is. */
sky_status sky__scenario_ground(reader *r, const sky_yaml_entry *e) {
    static const char allowed[] =
        "[LATITUDE, LONGITUDE], or [station, NAME] of `stations`, then its Mb/s (0: as "
        "links.ground_mbps), then its km/h and course in degrees, then its mask in degrees; in an "
        "ideal sky [PLANES, SLOTS] from the observer, "
        "then its Mb/s";
    static const double lows[] = {-SKY_PLANES_MAX, -SKY_SLOTS_MAX, 0, 0, -360, 0};
    static const double highs[] = {SKY_PLANES_MAX, SKY_SLOTS_MAX, 1e9, 3e4, 360, 90};
    double v[6] = {0};
    bool fine = e->list && e->value_count >= 2 && e->value_count <= 6 && e->value_count != 4;
    bool station = e->list && e->value_count > 0 && strcmp(e->values[0], "station") == 0;
    fine &= !station || (e->values[1][0] && strlen(e->values[1]) < SKY_STATION_NAME_BYTES);
    for (unsigned i = station ? 2 : 0; fine && i < e->value_count; i++)
        fine = sky__scenario_number(e->values[i], &v[i]) && v[i] >= lows[i] && v[i] <= highs[i];
    if (!fine || (v[2] > 0 && v[2] < 1e-3))
        return refuse_entry(r, e, allowed);
    sky_scenario *s = &r->out;
    sky_scenario_ground g = {.place = {v[0], v[1]},
                             .bits_s = (uint64_t)(v[2] * 1e6 + 0.5),
                             .speed_km_h = v[3],
                             .course_deg = v[4],
                             .min_elevation_deg = v[5],
                             .line = e->line};
    if (!keep_name(e->key, g.name))
        return refuse_name(r, e);
    bool known = strcmp(g.name, SKY_OBSERVER_NAME) == 0;
    for (uint32_t i = 0; i < s->ground_count; i++)
        known |= strcmp(s->grounds[i].name, g.name) == 0;
    if (known)
        return refuse_entry(r, e, "is there twice (the first ground is the observer)");
    if (s->ground_count == SKY_GROUNDS_MAX - 1)
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "more than %d grounds",
                                    SKY_GROUNDS_MAX - 1);
    s->grounds[s->ground_count++] = g;
    if (station)
        memcpy(r->stations[s->ground_count], e->values[1], strlen(e->values[1]) + 1);
    return SKY_OK;
}

/* ---- users ---- */

/* The number of a ground; false: there is none of the name. */
static bool find_ground(const sky_scenario *s, const char *name, uint32_t *out) {
    *out = 0;
    if (strcmp(name, SKY_OBSERVER_NAME) == 0)
        return true;
    for (uint32_t i = 0; i < s->ground_count && *out == 0; i++)
        *out = strcmp(s->grounds[i].name, name) == 0 ? i + 1 : 0;
    return *out > 0;
}

#define WEIGHT_MIN 1e-6
#define WEIGHT_MAX 1e6

/* GROUND and WEIGHT are read. */
static bool read_user(const sky_yaml_entry *e, sky_scenario_user *u) {
    static const double lows[] = {-90, -180, 0, 0, -360}, highs[] = {90, 180, 1e9, 3e4, 360};
    double v[5] = {0};
    u->has_place = e->value_count > 3;
    if (e->value_count == 3) {
        bool fine = sky__scenario_number(e->values[2], &v[0]) && v[0] >= 0 && v[0] <= 1e4;
        u->delay_ns = fine ? (sky_time)(v[0] * 1e6 + 0.5) : 0;
        return fine;
    }
    for (unsigned i = 2; i < e->value_count; i++) {
        if (!sky__scenario_number(e->values[i], &v[i - 2]) || v[i - 2] < lows[i - 2] ||
            v[i - 2] > highs[i - 2])
            return false;
    }
    u->place[0] = v[0];
    u->place[1] = v[1];
    u->bits_s = (uint64_t)(v[2] * 1e6 + 0.5);
    u->speed_km_h = v[3];
    u->course_deg = v[4];
    return v[2] == 0 || v[2] >= 1e-3;
}

sky_status sky__scenario_user(reader *r, const sky_yaml_entry *e) {
    sky_scenario *s = &r->out;
    sky_scenario_user u = {.line = e->line};
    unsigned n = e->value_count;
    if (!e->list || n < 2 || n > 7 || n == 6 || !keep_name(e->values[0], u.gateway_name) ||
        !sky__scenario_number(e->values[1], &u.weight) || u.weight < WEIGHT_MIN ||
        u.weight > WEIGHT_MAX || !read_user(e, &u))
        return refuse_entry(r, e,
                            "[GROUND, WEIGHT], then the ms that a message takes between them; or "
                            "[GROUND, WEIGHT, LATITUDE, LONGITUDE], then its Mb/s (0: no limit), "
                            "then its km/h and course in degrees, with nearest for GROUND if the "
                            "nearest one is its gateway");
    if (!keep_name(e->key, u.name))
        return refuse_name(r, e);
    if (strpbrk(u.name, ",\"\r\n")) /* it stands in a CSV */
        return refuse_entry(r, e, "a name has no comma, quote or end of line in it");
    for (uint32_t i = 0; i < s->user_count; i++) {
        if (strcmp(s->users[i].name, u.name) == 0)
            return refuse_entry(r, e, "is there twice");
    }
    if (s->user_count == SKY_USERS_MAX)
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "more than %d users", SKY_USERS_MAX);
    u.nearest = strcmp(u.gateway_name, "nearest") == 0;
    s->users[s->user_count++] = u;
    return SKY_OK;
}

static sky_status check_users(reader *r) {
    sky_scenario *s = &r->out;
    bool aboard = sky_strategy_row_of(s->placement.strategy)->aboard;
    for (uint32_t i = 0; i < s->user_count; i++) {
        sky_scenario_user *u = &s->users[i];
        const char *why = !u->nearest && !find_ground(s, u->gateway_name, &u->gateway)
                              ? "there is no such ground: the observer, one of grounds, or nearest"
                          : u->nearest && !u->has_place
                              ? "the nearest ground of whom? Give its latitude and longitude"
                          : u->has_place && !s->physical
                              ? "in an ideal sky a user has no place: [GROUND, WEIGHT, MS]"
                          : aboard ? "with hop the model is on board, and has no gateway"
                                   : NULL;
        if (why)
            return sky__scenario_refuse(r, SKY_E_PARAM, u->line, "users.%s: %s", u->name, why);
    }
    return SKY_OK;
}

/* ---- anchors ---- */

/* They count on from each other, so they stand in order. */
sky_status sky__scenario_anchor(reader *r, const sky_yaml_entry *e) {
    sky_scenario *s = &r->out;
    sky_time from_ns;
    if (e->list || !sky__scenario_duration(e->values[0], &from_ns) || from_ns == 0)
        return refuse_entry(r, e, "a time after 0 such as 90s, 30m or 2h");
    if (s->anchor_count > 0 && from_ns <= s->anchors[s->anchor_count - 1].from_ns)
        return refuse_entry(r, e, "later than the one before it");
    if (s->anchor_count == SKY_GROUNDS_MAX)
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "more than %d anchors",
                                    SKY_GROUNDS_MAX);
    if (!keep_name(e->key, s->anchors[s->anchor_count].name))
        return refuse_name(r, e);
    for (uint32_t i = 0; i < s->anchor_count; i++) {
        if (strcmp(s->anchors[i].name, e->key) == 0)
            return refuse_entry(r, e, "is there twice");
    }
    s->anchors[s->anchor_count].from_ns = from_ns;
    s->anchors[s->anchor_count++].line = e->line;
    return SKY_OK;
}

static sky_status check_anchors(reader *r) {
    sky_scenario *s = &r->out;
    for (uint32_t i = 0; i < s->anchor_count; i++) {
        const char *name = s->anchors[i].name;
        bool there = find_ground(s, name, &s->anchors[i].ground);
        bool moves = there && s->anchors[i].ground > 0 &&
                     s->grounds[s->anchors[i].ground - 1].speed_km_h > 0;
        if (!there || moves || !s->physical ||
            !sky_strategy_row_of(s->placement.strategy)->migrates)
            return sky__scenario_refuse(
                r, SKY_E_PARAM, s->anchors[i].line, "anchor.%s: %s", name,
                !there  ? "there is no such ground: the observer, or one of grounds"
                : moves ? "the ground moves"
                        : "a window that goes elsewhere needs sky: physical, and a strategy that "
                          "migrates");
    }
    return SKY_OK;
}

static bool is_place(const sky_scenario *s, const sky_scenario_ground *g) {
    double a = g->place[0], b = g->place[1];
    if (s->physical)
        return a >= -90 && a <= 90 && b >= -180 && b <= 180;
    return (double)(int64_t)a == a && (double)(int64_t)b == b && g->speed_km_h == 0 &&
           g->min_elevation_deg == 0 && (a < 0 ? -a : a) < s->constellation.planes &&
           (b < 0 ? -b : b) < s->constellation.slots;
}

static sky_status check_grounds(reader *r) {
    const sky_scenario *s = &r->out;
    sky_strategy_row row = *sky_strategy_row_of(s->placement.strategy);
    for (uint32_t i = 0; i < s->ground_count; i++) {
        const sky_scenario_ground *g = &s->grounds[i];
        const char *why = !is_place(s, g)
                              ? s->physical ? "latitudes are from -90 to 90, longitudes from -180 "
                                              "to 180"
                                            : "in an ideal sky its place is whole planes and slots "
                                              "from the observer, fewer than there are, and it "
                                              "does not move and has no mask"
                          : row.aboard || row.foresees
                              ? "several grounds need placement.strategy rotation or rotation-hop"
                          : s->lookup == SKY_LOOKUP_INDEX
                              ? "several grounds find each other's values by lookup: binary or "
                                "sequential"
                          : s->links.datagrams ? "several grounds need links.datagrams: false"
                                               : NULL;
        if (why)
            return sky__scenario_refuse(r, SKY_E_PARAM, g->line, "grounds.%s: %s", g->name, why);
    }
    return SKY_OK;
}

/* ---- ground links that vary ---- */

#define RATE_SHARE_MIN 0.01
#define LOSS_MAX       0.99

static bool read_quality(const sky_yaml_text *values, sky_link_quality *out) {
    return sky__scenario_number(values[0], &out->rate) && out->rate >= RATE_SHARE_MIN &&
           out->rate <= 1 && sky__scenario_number(values[1], &out->loss) && out->loss >= 0 &&
           out->loss <= LOSS_MAX;
}

sky_status sky__scenario_elevation(reader *r, const sky_yaml_entry *e) {
    sky_scenario *s = &r->out;
    uint32_t n = s->elevation_count;
    double deg;
    sky_link_quality quality;
    if (!sky__scenario_number(e->key, &deg) || deg < 0 || deg > 90 || !e->list ||
        e->value_count != 2 || !read_quality(e->values, &quality))
        return refuse_entry(r, e,
                            "an elevation from 0 to 90 degrees: [RATE, LOSS], the share of the "
                            "link's rate from 0.01 to 1, and what it loses besides, to 0.99");
    if (n > 0 && deg <= s->elevations[n - 1].deg)
        return refuse_entry(r, e, "higher than the one before it");
    if (n == SKY_ELEVATIONS_MAX)
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "more than %d elevations",
                                    SKY_ELEVATIONS_MAX);
    s->elevation_line = n == 0 ? e->line : s->elevation_line;
    s->elevations[n].deg = deg;
    s->elevations[n].quality = quality;
    s->elevation_count++;
    return SKY_OK;
}

sky_status sky__scenario_weather(reader *r, const sky_yaml_entry *e) {
    sky_scenario *s = &r->out;
    sky_weather v = {.line = e->line};
    if (!e->list || e->value_count != 5 || !keep_name(e->values[0], v.ground_name) ||
        !sky__scenario_duration(e->values[1], &v.from_ns) ||
        !sky__scenario_duration(e->values[2], &v.to_ns) || v.from_ns >= v.to_ns ||
        !read_quality(&e->values[3], &v.quality))
        return refuse_entry(r, e,
                            "[GROUND, FROM, TO, RATE, LOSS], with times such as 90s, 30m or 2h, "
                            "FROM before TO, the share of the link's rate from 0.01 to 1, and "
                            "what it loses besides, to 0.99");
    if (!keep_name(e->key, v.name))
        return refuse_name(r, e);
    for (uint32_t i = 0; i < s->weather_count; i++) {
        if (strcmp(s->weathers[i].name, v.name) == 0)
            return refuse_entry(r, e, "is there twice");
    }
    if (s->weather_count == SKY_WEATHERS_MAX)
        return sky__scenario_refuse(r, SKY_E_PARAM, e->line, "more than %d weathers",
                                    SKY_WEATHERS_MAX);
    s->weathers[s->weather_count++] = v;
    return SKY_OK;
}

/* Why a ground link of this sky cannot be of that quality; NULL: it can. */
static const char *refuse_quality(const sky_scenario *s, const sky_link_quality *q) {
    if (sky_strategy_row_of(s->placement.strategy)->aboard)
        return "with hop the model is on board, and has no ground link";
    if (s->links.datagrams && q->rate < 1)
        return "with links.datagrams the transport sends at links.ground_mbps: only the loss may "
               "vary, give 1 for the rate";
    return NULL;
}

static sky_status check_elevations(reader *r) {
    const sky_scenario *s = &r->out;
    const char *why = s->elevation_count > 0 && !s->physical
                          ? "an ideal sky has no elevations: sky: physical"
                          : NULL;
    for (uint32_t i = 0; i < s->elevation_count && !why; i++)
        why = refuse_quality(s, &s->elevations[i].quality);
    return why ? sky__scenario_refuse(r, SKY_E_PARAM, s->elevation_line, "elevation: %s", why)
               : SKY_OK;
}

static sky_status check_weathers(reader *r) {
    sky_scenario *s = &r->out;
    for (uint32_t i = 0; i < s->weather_count; i++) {
        sky_weather *v = &s->weathers[i];
        const char *why = !find_ground(s, v->ground_name, &v->ground)
                              ? "there is no such ground: the observer, or one of grounds"
                              : refuse_quality(s, &v->quality);
        if (why)
            return sky__scenario_refuse(r, SKY_E_PARAM, v->line, "weather.%s: %s", v->name, why);
    }
    return SKY_OK;
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
        "[satellite, PLANE, SLOT, FROM, TO], [link, PLANE, SLOT, PLANE, SLOT, FROM, TO], "
        "[station, FROM, TO] or [station, GROUND, FROM, TO], with times such as 90s, 30m or 2h, "
        "FROM before TO";
    sky_scenario *s = &r->out;
    sky_outage o = {.line = e->line};
    const outage_row *row = e->list && e->value_count > 0 ? outage_row_of(e->values[0]) : NULL;
    bool named = row && row->kind == SKY_OUTAGE_STATION && e->value_count == 4;
    if (!row || e->value_count != 3 + 2 * row->satellites + named)
        return refuse_entry(r, e, allowed);
    o.kind = row->kind;
    sky_satellite *ends[] = {&o.a, &o.b};
    bool fine = !named || keep_name(e->values[1], o.ground_name);
    for (unsigned i = 0; i < row->satellites; i++)
        fine &= sky__scenario_satellite(e->values[1 + 2 * i], e->values[2 + 2 * i], ends[i]);
    fine &= sky__scenario_duration(e->values[e->value_count - 2], &o.from_ns) &&
            sky__scenario_duration(e->values[e->value_count - 1], &o.to_ns);
    if (!fine || o.from_ns >= o.to_ns || o.to_ns > UNTIL_MAX_NS)
        return refuse_entry(r, e, allowed);
    if (!keep_name(e->key, o.name))
        return refuse_name(r, e);
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

/* Which lasers a physical sky has is known when it is made. */
static sky_status check_outages(reader *r) {
    const sky_constellation *c = &r->out.constellation;
    for (uint32_t i = 0; i < r->out.outage_count; i++) {
        sky_outage *o = &r->out.outages[i];
        if (o->ground_name[0] && !find_ground(&r->out, o->ground_name, &o->ground))
            return sky__scenario_refuse(r, SKY_E_PARAM, o->line,
                                        "outages.%s: there is no ground %s: the observer, or one "
                                        "of grounds",
                                        o->name, o->ground_name);
        bool link = o->kind == SKY_OUTAGE_LINK;
        const sky_satellite *ends[] = {&o->a, link ? &o->b : &o->a};
        for (int k = 0; k < 2 && o->kind != SKY_OUTAGE_STATION; k++) {
            if (ends[k]->plane > c->planes || ends[k]->slot > c->slots)
                return sky__scenario_refuse(
                    r, SKY_E_PARAM, o->line,
                    "outages.%s: plane %u, slot %u: the constellation has planes 1 to %u and "
                    "slots 1 to %u",
                    o->name, ends[k]->plane, ends[k]->slot, c->planes, c->slots);
        }
        uint32_t hops = link ? sky__ring_distance(o->a.plane, o->b.plane, c->planes) +
                                   sky__ring_distance(o->a.slot, o->b.slot, c->slots)
                             : 1;
        if (!r->out.physical && hops != 1)
            return sky__scenario_refuse(r, SKY_E_PARAM, o->line,
                                        "outages.%s: %u,%u and %u,%u are not next to each other",
                                        o->name, o->a.plane, o->a.slot, o->b.plane, o->b.slot);
    }
    return SKY_OK;
}

sky_status sky__scenario_check_lists(reader *r) {
    sky_status (*const checks[])(reader *) = {check_grounds,    check_users,    check_anchors,
                                              check_elevations, check_weathers, check_outages};
    sky_status status = SKY_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && status == SKY_OK; i++)
        status = checks[i](r);
    return status;
}
