/* Real satellites as a tier: the ground session behind a station, and between the two the tenant's
 * seal.
 *
 *   tier's thread ── session ── seal ── station ══ UDP ══ satellites
 *
 * A chunk is sealed when it leaves and opened when it comes; a satellite, and whoever listens, sees
 * ciphertext under a hash for a name, which takes the tenant's key to make. What does not open is
 * handed to the session as such, is asked for again, and in the end the block is a miss. */
#include "tier/skyudp/skyudp.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/policy.h"
#include "io/clock.h"
#include "io/secret.h"
#include "tier/sky/reach.h"
#include "tier/skyudp/station.h"
#include "tier/url.h"

#define REQUESTS_MAX   1024
#define BLOCKS_MAX     65536u
#define OPERATIONS_MIN 16u
#define OPERATIONS_MAX 4096u
#define RETRIES_MAX    6
#define HOST_LATE_NS   SKY_MS(50) /* what machines add to light, until it was measured */
#define ROUNDS_MAX     64
#define SALT_NS        SKY_SECONDS(1) /* a seal's salt is used, at most */

typedef struct {
    sky_reach reach;
    sky_station *station;
    sky_session *session;
    sky_aead *aead; /* the seal's */
    sky_seal seal;
    sky_time salted;       /* the seal, last */
    uint64_t turns_before; /* it was opened */
    bool crowded;          /* the transport had no room for all the session has to say */
    sky_reach_host host;
} ground;

static ground *ground_of(const sky_reach *r) {
    return (ground *)(uintptr_t)r;
}

static sky_time udp_now(const sky_reach *r) {
    return sky_station_now(ground_of(r)->station);
}

/* ---- traffic ---- */

static void take_messages(ground *g, sky_time now) {
    sky_datagram m;
    while (sky_transport_receive(sky_station_transport(g->station), &m)) {
        m.opened = sky_seal_open(&g->seal, m.data, &m.bytes) == SKY_OK;
        m.to = SKY_GROUND;
        sky_session_input(g->session, now, &m);
    }
}

/* A machine that was copied while it ran must not go on as the other does. */
static void renew_salt(ground *g, sky_time now) {
    uint8_t salt[SKY_SEAL_SALT_BYTES];
    if (now - g->salted < SALT_NS)
        return;
    sky_random(salt, sizeof salt);
    sky_seal_renew(&g->seal, salt);
    g->salted = now;
}

static void send_messages(ground *g, sky_time now) {
    renew_salt(g, now);
    sky_transport *t = sky_station_transport(g->station);
    sky_datagram m;
    while (!(g->crowded = !sky_transport_begin(t, &m)) && sky_session_output(g->session, now, &m)) {
        sky_transport_send_sealed(t, now, &m, &g->seal);
        g->host.give_back(g->host.context);
    }
}

static void udp_run(sky_reach *r, sky_time until) {
    ground *g = ground_of(r);
    bool more = true;
    (void)until; /* nobody can hold back what comes from outside */
    for (int round = 0; more && round < ROUNDS_MAX; round++) {
        sky_time now = sky_station_now(g->station);
        more = sky_station_take(g->station, now);
        take_messages(g, now);
        if (!more && sky_session_wake(g->session) <= now) /* what has come was not late */
            sky_session_input(g->session, now, NULL);
        send_messages(g, now);
        sky_station_send(g->station, now);
    }
}

static sky_time udp_next(const sky_reach *r) {
    const ground *g = ground_of(r);
    sky_time session = g->crowded ? SKY_TIME_NEVER : sky_session_wake(g->session);
    sky_time station = sky_station_wake(g->station);
    return session < station ? session : station;
}

static int udp_fd(const sky_reach *r) {
    return sky_station_fd(ground_of(r)->station);
}

/* ---- requests ---- */

static sky_status udp_submit(sky_reach *r, const sky_request *request) {
    ground *g = ground_of(r);
    sky_time now = sky_station_now(g->station);
    sky_status status = sky_session_submit(g->session, now, request);
    if (status == SKY_OK) {
        send_messages(g, now);
        sky_station_send(g->station, now);
    }
    return status;
}

static bool udp_result(sky_reach *r, sky_result *out) {
    return sky_session_result(ground_of(r)->session, out);
}

static const sky_session *udp_session(const sky_reach *r) {
    return ground_of(r)->session;
}

static void udp_name(const sky_reach *r, const sky_key *key, sky_key *name) {
    sky_seal_name(&ground_of(r)->seal, key, name);
}

static int64_t udp_wall_ms(const sky_reach *r, int64_t set_ms) {
    (void)r;
    return set_ms; /* sky time is the wall's */
}

static void udp_stats(const sky_reach *r, sky_reach_stat *out) {
    const ground *g = ground_of(r);
    const sky_frame *f = sky_station_frame(g->station);
    *out = (sky_reach_stat){.turns = sky_turns(&f->turning, sky_station_now(g->station))};
    out->overhead = sky_frame_centre(f, out->turns);
    out->turns -= g->turns_before;
    out->nodes.corrupt = g->seal.forged;
    sky_station_refused(g->station, &out->nodes);
    sky_station_stat station;
    sky_station_stats(g->station, &station);
    out->transport = station.transport;
}

static bool udp_settled(const sky_reach *r) {
    const ground *g = ground_of(r);
    bool told;
    return sky_session_settled(g->session, &told) &&
           (!told || sky_transport_under_way(sky_station_transport(g->station)) == 0);
}

static void udp_destroy(sky_reach *r) {
    ground *g = ground_of(r);
    sky_session_destroy(g->session);
    sky_station_close(g->station);
    sky_seal_deinit(&g->seal);
    sky_aead_destroy(g->aead);
    sky_secret_free(g);
}

static bool udp_is_down(void *station) {
    return sky_station_is_down(station);
}

static const sky_reach_ops ops = {
    .now = udp_now,
    .run = udp_run,
    .next = udp_next,
    .fd = udp_fd,
    .submit = udp_submit,
    .result = udp_result,
    .session = udp_session,
    .name = udp_name,
    .wall_ms = udp_wall_ms,
    .stats = udp_stats,
    .settled = udp_settled,
    .destroy = udp_destroy,
    .outlives = true,
};

/* ---- open ---- */

typedef struct {
    const sky_scenario *scenario;
    const char *path;
} place;

/* The ground asks for no more than its socket holds: that, and no window at each of the satellites
 * that answer at once, is what keeps it from drowning. */
static uint32_t operations_at_once(const sky_scenario *c) {
    uint32_t message = (uint32_t)sky_message_data_offset(SKY_WIRE_CHUNK) + c->chunk_bytes;
    uint64_t datagrams = SKY_STATION_RECEIVE_BYTES / SKY_STATION_DATAGRAM_COST;
    return sky_station_within(datagrams / sky_packet_pieces(message + SKY_SEAL_BYTES),
                              OPERATIONS_MIN, OPERATIONS_MAX);
}

static sky_status open_session(ground *g, const sky_scenario *c, const sky_reach_host *host,
                               sky_error *error) {
    const sky_frame *frame = sky_station_frame(g->station);
    bool aboard = sky_strategy_row_of(frame->placement.strategy)->aboard;
    uint64_t session_id;
    sky_random(&session_id, sizeof session_id);
    sky_node_config node;
    sky_status status = sky_station_node_config(c, frame, &node, error);
    if (status != SKY_OK)
        return status;
    uint32_t slots = sky_node_slots_lent(&node);
    uint64_t chunks = (uint64_t)slots * frame->placement.servers;
    sky_session_config config = {.frame = frame,
                                 .chunk_bytes = c->chunk_bytes,
                                 .satellite_slots = slots,
                                 .link_bits_s = aboard ? c->links.isl_bits_s
                                                       : c->links.ground_bits_s,
                                 .processing_ns = c->satellite.processing_ns,
                                 .jitter_ns = c->links.jitter_ns,
                                 .late_ns = HOST_LATE_NS,
                                 .skew_ns = c->faults.skew_ns,
                                 .blocks_max = sky_station_within(chunks, 1, BLOCKS_MAX),
                                 .requests_max = REQUESTS_MAX,
                                 .operations_max = operations_at_once(c),
                                 .retries_max = RETRIES_MAX,
                                 .session_id = session_id,
                                 .sealed = true,
                                 .is_down = udp_is_down,
                                 .is_down_context = g->station,
                                 .host = host->context,
                                 .fetch = host->fetch,
                                 .lend = host->lend,
                                 .deliver = host->deliver,
                                 .forgotten = host->forgotten};
    g->host = *host;
    sky_policy_session(c, frame, &config);
    status = sky_session_create(&config, &g->session);
    return status == SKY_OK ? status : sky_fail(error, status, "a session: no memory");
}

/* Satellites hold the constellation's key: with it as the tenant's they could read every chunk. */
static sky_status expect_own_key(const place *p, const uint8_t secret[SKY_SECRET_BYTES],
                                 sky_error *error) {
    uint8_t other[SKY_SECRET_BYTES];
    char path[SKY_STATION_PATH_MAX];
    sky_status status = sky_station_beside(p->path, p->scenario->udp.key, path, error);
    if (status == SKY_OK)
        status = sky_secret_read(path, other, error);
    if (status == SKY_OK && memcmp(secret, other, sizeof other) == 0)
        status = sky_fail(error, SKY_E_DENIED,
                          "%.200s: udp.tenant holds the same key as udp.key, so every satellite "
                          "could read what is stored: name a file that is not there, and "
                          "'skymem constellation up' makes one",
                          p->path);
    explicit_bzero(other, sizeof other);
    return status;
}

static sky_status read_tenant(ground *g, const place *p, sky_error *error) {
    uint8_t secret[SKY_SECRET_BYTES], salt[SKY_SEAL_SALT_BYTES];
    char path[SKY_STATION_PATH_MAX];
    if (!p->scenario->udp.tenant[0])
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: udp.tenant is missing: the file of the key that chunks are "
                        "sealed under",
                        p->path);
    sky_status status = sky_station_beside(p->path, p->scenario->udp.tenant, path, error);
    if (status == SKY_OK)
        status = sky_secret_read(path, secret, error);
    if (status == SKY_OK)
        status = expect_own_key(p, secret, error);
    if (status != SKY_OK)
        return status;
    status = sky_aead_create(&g->aead, error);
    if (status == SKY_OK) {
        sky_random(salt, sizeof salt);
        sky_seal_init(&g->seal, g->aead, sky_suites_wanted(p->scenario->udp.suite), secret, salt);
    }
    explicit_bzero(secret, sizeof secret);
    return status;
}

static sky_status open_ground(void *context, const sky_clock *clock, const sky_reach_host *host,
                              sky_reach **out, sky_error *error) {
    const place *p = context;
    ground *g = sky_secret_alloc(sizeof *g);
    if (!g)
        return sky_fail(error, SKY_E_NOMEM, "a ground station");
    g->reach.ops = &ops;
    sky_station_options options = {
        .scenario = p->scenario, .path = p->path, .clock = sky_clock_system()};
    (void)clock; /* a calendar for what expires; the sky's time is the one of all stations */
    sky_status status = sky_station_udp_expect(p->scenario, p->path, error);
    if (status == SKY_OK)
        status = read_tenant(g, p, error);
    if (status == SKY_OK)
        status = sky_station_open(&options, &g->station, error);
    if (status == SKY_OK)
        status = open_session(g, p->scenario, host, error);
    if (status == SKY_OK)
        g->turns_before = sky_turns(&sky_station_frame(g->station)->turning,
                                    sky_station_now(g->station));
    if (status != SKY_OK) {
        udp_destroy(&g->reach);
        return status;
    }
    *out = &g->reach;
    return SKY_OK;
}

sky_status sky_udp_tier_open(const char *text, const sky_tier_env *env, sky_tier **out,
                             sky_error *error) {
    sky_url url;
    sky_scenario scenario;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "", error);
    if (status == SKY_OK)
        status = sky_scenario_load(url.path, &scenario, error);
    if (status != SKY_OK)
        return status;
    place p = {&scenario, url.path};
    return sky_reach_tier_create(text, &scenario, open_ground, &p, env, out, error);
}
