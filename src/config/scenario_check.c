/* Scenario files: what concerns several keys, checked and filled in when all are known. */
#include "config/scenario_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/physical.h"
#include "orbit/frame.h"
#include "transport/transport.h"

typedef sky__scenario_reader reader;

/* Where a key was given; line 1 when it was not. */
static int line_of(const reader *r, const char *section, const char *key) {
    int line = sky__scenario_line(r, section, key);
    return line > 0 ? line : 1;
}

/* What a physical sky asks for and an ideal one has no use for. */
static sky_status check_physical(reader *r) {
    sky_scenario *s = &r->out;
    if (s->elements_path[0] && !s->physical)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "constellation", "tle"),
                                    "constellation.tle needs sky: physical");
    if (s->isls_path[0] && !s->elements_path[0])
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "constellation", "isls"),
                                    "constellation.isls: lasers of which satellites? Give tle");
    if (s->physical && s->centre.plane != 0 && !sky_strategy_row_of(s->placement.strategy)->aboard)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "", "center"),
            "center: in a physical sky orbits say who is overhead; only hop has a centre "
            "of its own");
    if (s->physical && sky_strategy_row_of(s->placement.strategy)->foresees)
        return sky__scenario_refuse(r, SKY_E_UNSUPPORTED, line_of(r, "placement", "strategy"),
                                    "placement.strategy predictive needs an ideal sky: sky: ideal");
    return s->elements_path[0]
               ? sky__elements_shell(r->path, line_of(r, "constellation", "tle"), s, r->error)
               : SKY_OK;
}

static sky_status check_sky(reader *r) {
    sky_scenario *s = &r->out;
    const sky_constellation *c = &s->constellation;
    sky_status physical = check_physical(r);
    if (physical != SKY_OK)
        return physical;
    if (c->planes == 0 || c->slots == 0)
        return sky__scenario_refuse(r, SKY_E_PARAM,
                                    line_of(r, "constellation", c->planes ? "planes" : "slots"),
                                    "constellation needs planes and slots, or a shell");
    if (c->planes * c->slots > SKY_FRAME_SATELLITES_MAX)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "constellation", "planes"),
            "a constellation of %u planes x %u slots: at most %u satellites", c->planes, c->slots,
            SKY_FRAME_SATELLITES_MAX);
    if (c->phasing >= c->planes && !s->elements_path[0])
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "constellation", "phasing"),
                                    "phasing is %u: less than the number of planes, %u", c->phasing,
                                    c->planes);
    if (s->centre.plane == 0) /* not given */
        s->centre = (sky_satellite){(c->planes + 1) / 2, (c->slots + 1) / 2};
    if (s->centre.plane < 1 || s->centre.plane > c->planes || s->centre.slot < 1 ||
        s->centre.slot > c->slots)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "", "center"),
            "center is plane %u, slot %u: the constellation has planes 1 to %u and slots 1 to "
            "%u",
            s->centre.plane, s->centre.slot, c->planes, c->slots);
    sky_error why;
    sky_status status = sky_placement_resolve(c, &s->placement, &s->placement, &why);
    if (status != SKY_OK)
        return sky__scenario_refuse(r, status, line_of(r, "placement", "servers"), "placement: %s",
                                    why.text);
    uint32_t servers = s->placement.servers;
    if (s->replicas > servers)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "placement", "replicas"),
                                    "placement.replicas is %u: each on another of the %u servers",
                                    s->replicas, servers);
    if (s->parity > 0 && servers > SKY_PARITY_SERVERS_MAX)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "placement", "servers"),
                                    "placement.servers is %u: with parity at most %u", servers,
                                    SKY_PARITY_SERVERS_MAX);
    if (s->parity > 0 && s->parity >= servers)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "placement", "parity"),
                                    "placement.parity is %u: fewer than the %u servers", s->parity,
                                    servers);
    if (s->faults.liar_satellites > c->planes * c->slots)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "faults", "liar_satellites"),
                                    "liar_satellites is %u: the constellation has %u",
                                    s->faults.liar_satellites, c->planes * c->slots);
    return SKY_OK;
}

/* A port for each satellite, from that of udp.base on. */
static sky_status check_ports(reader *r) {
    const sky_scenario *s = &r->out;
    const char *colon = strrchr(s->udp.base, ':');
    uint32_t satellites = s->constellation.planes * s->constellation.slots;
    unsigned long last = colon ? strtoul(colon + 1, NULL, 10) + satellites - 1 : 0;
    if (last > 65535)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "udp", "base"),
            "udp.base is %s: a port for each of the %u satellites from there on ends at "
            "%lu, past 65535",
            s->udp.base, satellites, last);
    return SKY_OK;
}

/* A datagram counts its hops down from what one byte holds. */
static sky_status check_hops(reader *r) {
    const sky_scenario *c = &r->out;
    uint32_t hops = c->constellation.planes / 2 + c->constellation.slots / 2 +
                    SKY_TRANSPORT_HOPS_MORE;
    if ((c->links.datagrams || c->udp.base[0]) && hops > SKY_TRANSPORT_HOPS_MAX)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "constellation", "planes"),
            "constellation: the farthest satellites are %u hops apart, with %u to spare; "
            "datagrams take %u",
            hops - SKY_TRANSPORT_HOPS_MORE, SKY_TRANSPORT_HOPS_MORE, SKY_TRANSPORT_HOPS_MAX);
    return SKY_OK;
}

static sky_status check_rest(reader *r) {
    sky_scenario *s = &r->out;
    if (sky__scenario_line(r, "workload", "arrivals") == 0) /* what is regular comes by the clock */
        s->workload.fixed = s->workload.regular;
    if (s->time.rotation_ns == 0 && s->physical)
        s->time.rotation_ns = SKY_MS(SKY_HANDOVER_MS);
    if (s->time.rotation_ns == 0)
        s->time.rotation_ns = (sky_time)(sky_rotation_s(&s->constellation) * 1e9 + 0.5);
    uint64_t turns = s->physical ? sky__physical_turns(s) : 0;
    if (turns > SKY__PHYSICAL_TURNS_MAX) {
        double rotation_s = (double)s->time.rotation_ns / 1e9;
        double least_s = rotation_s * (double)turns / SKY__PHYSICAL_TURNS_MAX;
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "time", "rotation_s"),
            "time.rotation_s is %g: a physical sky is worked out days ahead, here %" PRIu64
            " turns, at most %u: take %.2f s or more",
            rotation_s, turns, SKY__PHYSICAL_TURNS_MAX, ceil(least_s * 100) / 100);
    }
    if ((double)s->time.rotation_ns / s->time.scale < 1e7)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "time", "scale"),
            "time.scale is %g: a rotation must last 0.01 s or more, this one would last %g",
            s->time.scale, (double)s->time.rotation_ns / s->time.scale / 1e9);
    if (s->links.ground_each && s->links.datagrams)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "links", "ground_links"),
            "links.ground_links is each: with links.datagrams all goes by the satellite "
            "overhead: give one, or datagrams: false");
    if (s->workload.keys % s->workload.chain > 0)
        return sky__scenario_refuse(
            r, SKY_E_PARAM, line_of(r, "workload", "chain"),
            "workload.chain is %u: prompts of as many keys, but workload.keys is %u: give "
            "a multiple of it",
            s->workload.chain, s->workload.keys);
    if (s->satellite.memory_bytes < 2 * (uint64_t)s->chunk_bytes)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "satellite", "memory"),
                                    "satellite.memory is %" PRIu64
                                    " bytes: at least two chunks of %u",
                                    s->satellite.memory_bytes, s->chunk_bytes);
    if (s->links.queue_bytes < 2 * (uint64_t)s->chunk_bytes)
        return sky__scenario_refuse(r, SKY_E_PARAM, line_of(r, "links", "queue"),
                                    "links.queue is %" PRIu64 " bytes: at least two chunks of %u",
                                    s->links.queue_bytes, s->chunk_bytes);
    return SKY_OK;
}

sky_status sky__scenario_check(reader *r) {
    sky_status (*const checks[])(reader *) = {
        check_sky,   check_rest, sky__scenario_check_stations, sky__scenario_check_lists,
        check_ports, check_hops};
    sky_status status = SKY_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && status == SKY_OK; i++)
        status = checks[i](r);
    return status;
}
