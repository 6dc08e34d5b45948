/* One satellite as a process: a node behind a station. And asking satellites how they are.
 *
 * The thread sleeps in poll until a datagram comes or something is due: an idle satellite costs
 * no processor time but for the wake-ups of its turns. */
#include <stdlib.h>
#include <string.h>

#include <skymem-sky/satellite.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/pages.h"
#include "io/secret.h"
#include "io/sync.h"
#include "tier/sky/sky.h"
#include "tier/skyudp/station.h"

#define ROUNDS_MAX   64 /* of taking in, before looking whether to stop */
#define ASK_AGAIN_NS SKY_MS(300)

/* ---- a satellite ---- */

typedef struct {
    sky_scenario scenario;
    sky_station *station;
    sky_node_config config;
    sky_node node;
    void *memory;
    bool crowded; /* the transport had no room for all the node has to say */
} satellite;

static sky_status satellite_open(satellite *x, const sky_satellite_options *options,
                                 sky_error *error) {
    sky_station_options station = {.scenario = &x->scenario,
                                   .path = options->scenario_path,
                                   .self = options->self,
                                   .floor_path = options->state_path,
                                   .clock = sky_clock_system()};
    if (options->self.plane == 0)
        return sky_fail(error, SKY_E_PARAM, "satellite 0,%u: planes count from 1",
                        options->self.slot);
    sky_status status = sky_scenario_load(options->scenario_path, &x->scenario, error);
    if (status == SKY_OK)
        status = sky_station_open(&station, &x->station, error);
    if (status == SKY_OK)
        status = sky_station_node_config(&x->scenario, sky_station_frame(x->station), &x->config,
                                         error);
    if (status != SKY_OK)
        return status;
    size_t bytes = sky_node_bytes(&x->config);
    x->memory = malloc(bytes);
    if (!x->memory)
        return sky_fail(error, SKY_E_NOMEM, "%.200s: memory for a satellite's chunks",
                        options->scenario_path);
    sky_node_init(&x->node, &x->config, options->self, sky_station_now(x->station), x->memory,
                  bytes);
    return SKY_OK;
}

/* Everything that has come and is due; false: there may be more. */
static bool satellite_work(satellite *x) {
    sky_transport *t = sky_station_transport(x->station);
    bool more = true;
    for (int round = 0; more && round < ROUNDS_MAX; round++) {
        sky_time now = sky_station_now(x->station);
        sky_datagram m;
        more = sky_station_take(x->station, now);
        while (sky_transport_receive(t, &m))
            sky_node_input(&x->node, now, &m);
        sky_station_refused(x->station, &x->node.stat);
        if (sky_node_wake(&x->node) <= now)
            sky_node_input(&x->node, now, NULL);
        while (!(x->crowded = !sky_transport_begin(t, &m)) && sky_node_output(&x->node, now, &m))
            sky_transport_send(t, now, &m);
        sky_station_send(x->station, now);
    }
    sky_node_trim(&x->node, sky_pages_give_back);
    return !more;
}

static void satellite_serve(satellite *x, int stop_fd) {
    int fds[] = {sky_station_fd(x->station), stop_fd};
    size_t fd_count = stop_fd >= 0 ? 2 : 1;
    for (;;) {
        sky_time until = 0;
        if (satellite_work(x)) {
            sky_time node = x->crowded ? SKY_TIME_NEVER : sky_node_wake(&x->node);
            sky_time station = sky_station_wake(x->station);
            until = sky_station_clock_time(x->station, node < station ? node : station);
        }
        if (sky_poll(fds, fd_count, until) & 2)
            return;
    }
}

sky_status sky_satellite_run(const sky_satellite_options *options, sky_error *error) {
    if (!options || !options->scenario_path)
        return sky_fail(error, SKY_E_PARAM, "no scenario given");
    satellite *x = calloc(1, sizeof *x);
    if (!x)
        return sky_fail(error, SKY_E_NOMEM, "a satellite");
    sky_status status = satellite_open(x, options, error);
    if (status == SKY_OK) {
        if (options->ready)
            options->ready(options->context);
        satellite_serve(x, options->stop_fd);
    }
    sky_station_close(x->station);
    free(x->memory);
    free(x);
    return status;
}

/* ---- asking ---- */

static bool send_question(sky_station *s, sky_time now, sky_satellite to, uint64_t request) {
    sky_transport *t = sky_station_transport(s);
    sky_datagram m;
    if (!sky_transport_begin(t, &m))
        return false;
    sky_message question = {.type = SKY_WIRE_STAT, .request = request};
    m.bytes = sky_message_encode(&question, m.data, m.bytes_max);
    m.to = to;
    sky_transport_send(t, now, &m);
    return true;
}

static void note_answer(const sky_datagram *in, sky_time took, sky_satellite_stat *stats,
                        size_t count, size_t *answered) {
    sky_message m;
    if (sky_message_decode(in->data, in->bytes, &m) != SKY_OK || m.type != SKY_WIRE_STAT_REPLY ||
        m.request >= count || stats[m.request].answered ||
        !sky_satellite_equal(stats[m.request].satellite, in->from))
        return;
    sky_satellite_answered(&stats[m.request], took, m.stat);
    ++*answered;
}

static void ask_all(sky_station *s, sky_satellite_stat *stats, size_t count, sky_time until) {
    int fd = sky_station_fd(s);
    sky_time began = sky_station_now(s), now = began, again = sky_now() + ASK_AGAIN_NS;
    size_t asked = 0, answered = 0;
    while (answered < count && sky_now() < until) {
        sky_datagram m;
        if (asked == count && sky_now() >= again) {
            asked = 0;
            again = sky_now() + ASK_AGAIN_NS;
        }
        while (asked < count &&
               (stats[asked].answered || send_question(s, now, stats[asked].satellite, asked)))
            asked++;
        sky_station_send(s, now);
        sky_time wake = sky_station_clock_time(s, sky_station_wake(s));
        wake = asked == count && again < wake ? again : wake;
        sky_poll(&fd, 1, wake < until ? wake : until);
        bool more = true;
        while (more) {
            now = sky_station_now(s);
            more = sky_station_take(s, now);
            while (sky_transport_receive(sky_station_transport(s), &m))
                note_answer(&m, now - began, stats, count, &answered);
        }
    }
}

sky_status sky_satellite_ask(const char *scenario_path, sky_satellite_stat *stats, size_t count,
                             sky_time until, sky_error *error) {
    sky_scenario scenario;
    sky_station *station;
    if (!scenario_path || (!stats && count > 0))
        return sky_fail(error, SKY_E_PARAM, "no scenario given, or no satellites to ask");
    sky_status status = sky_scenario_load(scenario_path, &scenario, error);
    if (status != SKY_OK)
        return status;
    sky_station_options options = {
        .scenario = &scenario, .path = scenario_path, .clock = sky_clock_system(), .direct = true};
    status = sky_station_open(&options, &station, error);
    if (status != SKY_OK)
        return status;
    const sky_constellation *c = &scenario.constellation;
    for (size_t i = 0; i < count; i++) {
        sky_satellite x = stats[i].satellite;
        stats[i].answered = false;
        if (x.plane < 1 || x.plane > c->planes || x.slot < 1 || x.slot > c->slots)
            status = sky_fail(error, SKY_E_PARAM, "%s: there is no satellite %u,%u", scenario_path,
                              x.plane, x.slot);
    }
    if (status == SKY_OK)
        ask_all(station, stats, count, until);
    sky_station_close(station);
    return status;
}

/* ---- what a scenario says ---- */

sky_status sky_satellite_site_read(const char *scenario_path, sky_satellite_site *out,
                                   sky_error *error) {
    sky_scenario scenario;
    sky_satellite_site site = {.satellite_count = 0};
    if (!scenario_path || !out)
        return sky_fail(error, SKY_E_PARAM, "no scenario given, or nowhere to put its site");
    sky_status status = sky_scenario_load(scenario_path, &scenario, error);
    if (status != SKY_OK)
        return status;
    memcpy(site.base, scenario.udp.base, sizeof site.base);
    status = sky_station_udp_expect(&scenario, scenario_path, error);
    if (status == SKY_OK)
        status = sky_station_beside(scenario_path, scenario.udp.key, site.key_path, error);
    if (status == SKY_OK && scenario.udp.tenant[0])
        status = sky_station_beside(scenario_path, scenario.udp.tenant, site.tenant_path, error);
    if (status != SKY_OK)
        return status;
    site.satellite_count = scenario.constellation.planes * scenario.constellation.slots;
    site.slots = scenario.constellation.slots;
    *out = site;
    return SKY_OK;
}

sky_status sky_satellite_key_make(const char *path, sky_error *error) {
    return path ? sky_secret_make(path, error) : sky_fail(error, SKY_E_PARAM, "no path given");
}
