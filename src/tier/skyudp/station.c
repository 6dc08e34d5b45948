#include "tier/skyudp/station.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "config/physical.h"
#include "config/policy.h"
#include "io/secret.h"
#include "io/sync.h"
#include "orbit/true_sky.h"
#include "tier/skyudp/floor.h"

#define GROUNDS_MAX        64
#define SATELLITE_PEERS    (4 + GROUNDS_MAX)
#define CLOCK_GRAIN_NS     SKY_MS(2) /* the wall clock is read in whole milliseconds */
#define ASK_SLACK_NS       SKY_MS(5)
#define GREETING_BYTES     512 /* more than what tells where a block is, and its acknowledgement */
#define GREETING_FAR_BYTES (4 * SKY_TRANSPORT_TOKEN_BYTES) /* to be asked so often, if it must be */
#define ASKED_MAX          1024 /* ports, of which the kernel is asked in some milliseconds */
#define WAITING_MAX        1024
#define WAITING_NS         SKY_SECONDS(1)

/* Where a ground station is. A tag says who sent a datagram, not from where: who catches one may
 * send it on from anywhere. So an address counts when a token came back that was sent there, and
 * until then gets no more bytes than came from it. */
typedef struct {
    uint32_t slot;  /* 0: nobody */
    sky_time heard; /* anywhere */
    bool proven;    /* `address` holds */
    sky_address address;
    sky_address claimed; /* a believed datagram came from there, and nothing was proven yet */
    uint64_t credit;     /* bytes from there that went unanswered */
    sky_time asked;
} ground;

/* For a ground station none of whose addresses is proven, and more than its credit. */
typedef struct {
    uint32_t slot;
    uint32_t bytes;
    sky_time until;
    uint8_t data[SKY_PACKET_BYTES_MAX];
} waiting;

struct sky_station {
    sky_scenario scenario;
    sky_frame frame;
    sky_satellite self;
    uint8_t key[SKY_SECRET_BYTES];
    sky_transport_config config;
    sky_aead *aead; /* the transport's */
    sky_transport *transport;
    bool warned; /* of what is not supported */
    void *memory;
    sky_udp *udp;
    sky_address base;
    ground grounds[GROUNDS_MAX];
    uint64_t greeted;    /* by a ground: who was in sight at turn - 1 */
    sky_hash_key chance; /* what tokens are made with */
    char floor_path[SKY_STATION_PATH_MAX];
    int64_t floor_ms; /* kept in that file */
    waiting *waiting; /* [WAITING_MAX], the first waiting_count of it */
    uint32_t waiting_count;
    sky_time ask_next; /* look whether to ask again */
    uint32_t taken;    /* somebody had this satellite's port, last */
    sky_station_stat stat;

    const sky_clock *clock;
    sky_mutex clock_lock; /* anyone may ask for the time */
    sky_time clock_last;  /* and the sky time that was then */
    sky_time sky_last;
};

/* ---- time ---- */

/* -1: before the start. */
static sky_time wall_sky(const sky_station *s) {
    int64_t ms = s->clock->wall_ms(s->clock) - s->scenario.time.start_ms;
    return ms < 0 ? -1 : ms * SKY_MS(1);
}

/* The fine clock leads; the wall clock is followed when it is ahead, and waited for when behind. */
sky_time sky_station_now(sky_station *s) {
    sky_mutex_lock(&s->clock_lock);
    sky_time clock = s->clock->now(s->clock);
    sky_time passed = clock - s->clock_last;
    sky_time now = s->sky_last + passed;
    sky_time wall = wall_sky(s);
    if (wall > now)
        now = wall;
    else if (wall < now - CLOCK_GRAIN_NS)
        now = s->sky_last + passed / 2;
    s->clock_last = clock;
    s->sky_last = now;
    sky_mutex_unlock(&s->clock_lock);
    return now;
}

sky_time sky_station_clock_time(sky_station *s, sky_time at) {
    if (at == SKY_TIME_NEVER)
        return at;
    sky_mutex_lock(&s->clock_lock);
    sky_time ahead = s->clock_last - s->sky_last;
    sky_mutex_unlock(&s->clock_lock);
    return at + ahead;
}

/* ---- addresses ---- */

static sky_address address_at(const sky_station *s, uint32_t number) {
    sky_address a = s->base;
    sky_address_set_port(&a, (uint16_t)(sky_address_port(&s->base) + number));
    return a;
}

static sky_address address_of(const sky_station *s, sky_satellite to) {
    return address_at(s, sky_frame_number(&s->frame, to));
}

static ground *ground_find(sky_station *s, uint32_t slot) {
    for (uint32_t i = 0; i < GROUNDS_MAX; i++)
        if (s->grounds[i].slot == slot)
            return &s->grounds[i];
    return NULL;
}

/* A place for one more: that of the one not heard for longest. */
static ground *ground_add(sky_station *s, uint32_t slot) {
    ground *oldest = &s->grounds[0];
    for (uint32_t i = 1; i < GROUNDS_MAX; i++)
        if (s->grounds[i].heard < oldest->heard)
            oldest = &s->grounds[i];
    *oldest = (ground){.slot = slot};
    return oldest;
}

/* Only who was told it knows it: a station whose token could be guessed would be believed to be
 * where it is not. */
static uint64_t token_of(const sky_station *s, uint32_t slot, const sky_address *at) {
    uint8_t place[4 + sizeof at->raw];
    sky_store_u32(place, slot);
    memcpy(place + 4, at->raw, at->bytes);
    return sky_siphash(&s->chance, place, 4 + at->bytes);
}

static void send_token(sky_station *s, sky_time now, sky_satellite to, const sky_address *at,
                       const sky_packet_frame *token, size_t bytes) {
    sky_datagram d = {.data = sky_udp_room(s->udp), .bytes_max = SKY_PACKET_BYTES_MAX};
    sky_transport_send_token(s->transport, now, to, token, bytes, &d);
    sky_udp_put(s->udp, at, d.data, d.bytes);
}

/* An empty datagram from the ground to each satellite in sight, once a turn: they will have asked
 * where it is by the time it wants more. The one overhead, which is asked first, gets enough bytes
 * to be free to answer. */
static void greet_grounds(sky_station *s, sky_time now) {
    static const sky_packet_frame nothing = {.type = SKY_FRAME_PADDING};
    const sky_placement *p = &s->frame.placement;
    uint64_t turns = sky_turns(&s->frame.turning, now);
    if (s->greeted == turns + 1 || !sky_frame_in_sight(&s->frame, turns))
        return;
    s->greeted = turns + 1;
    sky_satellite centre = sky_frame_centre(&s->frame, turns);
    sky_address at = address_of(s, centre);
    send_token(s, now, centre, &at, &nothing, GREETING_BYTES);
    for (uint32_t i = 1; i <= p->servers && sky_strategy_row_of(p->strategy)->windowed; i++) {
        sky_satellite to = sky_frame_first(&s->frame, centre, i);
        at = address_of(s, to);
        if (!sky_satellite_equal(to, centre))
            send_token(s, now, to, &at, &nothing, GREETING_FAR_BYTES);
    }
}

/* Drop what waited too long, and send what is for who has proven where it is. */
static void look_after_waiting(sky_station *s, sky_time now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->waiting_count; i++) {
        waiting *w = &s->waiting[i];
        const ground *g = ground_find(s, w->slot);
        if (!g || w->until < now) {
            s->stat.nowhere++;
        } else if (g->proven) {
            uint8_t *room = sky_udp_room(s->udp);
            memcpy(room, w->data, w->bytes);
            sky_udp_put(s->udp, &g->address, room, w->bytes);
        } else {
            memmove(&s->waiting[kept++], w, offsetof(waiting, data) + w->bytes);
        }
    }
    s->waiting_count = kept;
}

/* One datagram for a ground that has not proven where it is. */
static void send_unproven(sky_station *s, sky_time now, ground *g, const uint8_t *data,
                          size_t bytes) {
    if (g->credit >= bytes) {
        g->credit -= bytes;
        sky_udp_put(s->udp, &g->claimed, data, bytes);
        return;
    }
    if (s->waiting_count == WAITING_MAX)
        look_after_waiting(s, now);
    if (s->waiting_count == WAITING_MAX) {
        s->stat.nowhere++;
        return;
    }
    waiting *w = &s->waiting[s->waiting_count++];
    w->slot = g->slot;
    w->bytes = (uint32_t)bytes;
    w->until = now + WAITING_NS;
    memcpy(w->data, data, bytes);
}

static void send_to_ground(sky_station *s, sky_time now, const sky_datagram_row *row) {
    ground *g = ground_find(s, row->to.slot);
    if (g && g->proven) {
        sky_udp_put_row(s->udp, &g->address, row->data, row->bytes, row->count);
        return;
    }
    s->stat.nowhere += g ? 0 : row->count;
    for (uint32_t i = 0; g && i < row->count; i++)
        send_unproven(s, now, g, row->data + i * row->bytes, row->bytes);
}

/* An answer that has not come after this will not. */
static sky_time ask_period(const sky_station *s, sky_time now) {
    uint64_t turns = sky_turns(&s->frame.turning, now);
    sky_time way = sky_frame_ground_ns(&s->frame, s->self, turns) + s->scenario.links.jitter_ns;
    return 2 * way + ASK_SLACK_NS;
}

static void ask_at(sky_station *s, sky_time at) {
    if (at < s->ask_next)
        s->ask_next = at;
}

static void ask_ground(sky_station *s, sky_time now, ground *g) {
    const sky_packet_frame question = {.type = SKY_FRAME_ASK,
                                       .number = token_of(s, g->slot, &g->claimed)};
    if (g->credit < SKY_TRANSPORT_TOKEN_BYTES)
        return;
    g->credit -= SKY_TRANSPORT_TOKEN_BYTES;
    g->asked = now;
    ask_at(s, now + ask_period(s, now));
    send_token(s, now, (sky_satellite){0, g->slot}, &g->claimed, &question,
               SKY_TRANSPORT_TOKEN_BYTES);
}

/* Something waits for a ground that has not answered. */
static void ask_again(sky_station *s, sky_time now) {
    s->ask_next = SKY_TIME_NEVER;
    for (uint32_t i = 0; i < GROUNDS_MAX && s->waiting_count > 0; i++) {
        ground *g = &s->grounds[i];
        sky_time due = g->asked + ask_period(s, now);
        if (g->slot && !g->proven && due <= now)
            ask_ground(s, now, g);
        else if (g->slot && !g->proven)
            ask_at(s, due);
    }
}

/* A believed datagram of a ground station: that is where it may be now. */
static void hear_datagram(sky_station *s, sky_time now, uint32_t slot, const sky_address *from,
                          size_t bytes) {
    sky_packet_frame f;
    ground *g = ground_find(s, slot);
    if (!g)
        g = ground_add(s, slot);
    g->heard = now;
    if (g->proven && sky_address_equal(&g->address, from))
        return;
    if (sky_transport_token(s->transport, &f) && f.type == SKY_FRAME_PROOF &&
        f.number == token_of(s, slot, from)) {
        g->proven = true;
        g->address = *from;
        look_after_waiting(s, now);
        return;
    }
    bool again = sky_address_equal(&g->claimed, from);
    g->claimed = *from;
    g->credit = bytes + (again ? g->credit : 0);
    if (!again || now >= g->asked + ask_period(s, now))
        ask_ground(s, now, g);
}

/* A datagram that was believed. */
static void take_datagram(sky_station *s, sky_time now, const sky_datagram *d,
                          const sky_address *from) {
    sky_satellite neighbour;
    sky_packet_frame f;
    sky_transport_take(s->transport, now, d, &neighbour);
    if (neighbour.plane == 0) {
        hear_datagram(s, now, neighbour.slot, from, d->bytes);
    } else if (s->self.plane == 0 && sky_transport_token(s->transport, &f) &&
               f.type == SKY_FRAME_ASK) {
        sky_address at = address_of(s, neighbour);
        f.type = SKY_FRAME_PROOF;
        send_token(s, now, neighbour, &at, &f, SKY_TRANSPORT_TOKEN_BYTES);
    }
}

/* ---- what is kept from one start to the next ---- */

static int64_t wall_of(const sky_station *s, sky_time now) {
    return s->scenario.time.start_ms + now / SKY_MS(1);
}

static sky_status floor_open(sky_station *s, const char *path, sky_error *error) {
    int length = snprintf(s->floor_path, sizeof s->floor_path, "%s", path ? path : "");
    if (!path)
        return SKY_OK;
    if (length >= (int)sizeof s->floor_path - 4)
        return sky_fail(error, SKY_E_PARAM, "%.200s: too long a path", path);
    int64_t wall_ms = s->clock->wall_ms(s->clock);
    sky_status status = sky_floor_read(path, wall_ms, &s->floor_ms, error);
    if (status == SKY_OK && s->floor_ms > s->scenario.time.start_ms)
        s->config.floor = (s->floor_ms - s->scenario.time.start_ms) * SKY_MS(1);
    if (status == SKY_OK && s->floor_ms < wall_ms + SKY_FLOOR_AHEAD_MS)
        status = sky_floor_write(path, s->floor_ms = wall_ms + SKY_FLOOR_AHEAD_MS, error);
    return status;
}

/* Before what is sent now is taken. Where the file cannot be written the next start trusts the
 * clock. */
static void floor_keep(sky_station *s, sky_time now) {
    int64_t wall_ms = wall_of(s, now);
    if (!s->floor_path[0] || s->floor_ms > wall_ms + SKY_FLOOR_NEAR_MS)
        return;
    sky_error error;
    s->floor_ms = wall_ms + SKY_FLOOR_AHEAD_MS;
    if (sky_floor_write(s->floor_path, s->floor_ms, &error) != SKY_OK)
        sky_log(SKY_LOG_WARNING, "%s", error.text);
}

/* ---- in and out ---- */

/* Once in a station's life: its count of foreign datagrams does not say why they were refused. */
static void warn_of_unsupported(sky_station *s) {
    sky_transport_stat stat;
    sky_transport_stats(s->transport, &stat);
    s->warned = stat.unsupported > 0;
    if (!s->warned)
        return;
    sky_log(SKY_LOG_WARNING,
            "datagrams of another version than %u, or of a cipher that udp.cipher does not "
            "allow here, come in and are refused: run stations of one release, and of one scenario",
            SKY_PACKET_VERSION);
}

bool sky_station_take(sky_station *s, sky_time now) {
    sky_datagram d = {0};
    const sky_address *from;
    bool more = sky_udp_receive(s->udp);
    floor_keep(s, now);
    while (sky_udp_next(s->udp, &d.data, &d.bytes, &from)) {
        if (d.bytes == 0)
            continue; /* somebody asked whether this port is vacant */
        if (!sky_transport_believe(s->transport, now, &d))
            continue; /* counted there */
        take_datagram(s, now, &d, from);
    }
    if (!s->warned)
        warn_of_unsupported(s);
    if (s->ask_next <= now)
        ask_again(s, now);
    if (sky_transport_wake(s->transport) <= now)
        sky_transport_input(s->transport, now, NULL, NULL);
    return more;
}

void sky_station_send(sky_station *s, sky_time now) {
    sky_datagram_row row;
    if (s->self.plane == 0 && !s->config.direct)
        greet_grounds(s, now);
    while (sky_transport_offer(s->transport, now, sky_udp_room(s->udp), &row)) {
        if (row.to.plane) {
            sky_address to = address_of(s, row.to);
            sky_udp_put_row(s->udp, &to, row.data, row.bytes, row.count);
        } else {
            send_to_ground(s, now, &row);
        }
    }
    sky_udp_flush(s->udp);
}

sky_time sky_station_wake(const sky_station *s) {
    sky_time transport = sky_transport_wake(s->transport);
    return transport < s->ask_next ? transport : s->ask_next;
}

sky_satellite sky_station_self(const sky_station *s) {
    return s->self;
}

const sky_frame *sky_station_frame(const sky_station *s) {
    return &s->frame;
}

sky_transport *sky_station_transport(sky_station *s) {
    return s->transport;
}

int sky_station_fd(const sky_station *s) {
    return sky_udp_fd(s->udp);
}

bool sky_station_is_down(sky_station *s) {
    if (s->frame.satellite_count > ASKED_MAX)
        return false;
    for (uint32_t i = 0; i < s->frame.satellite_count; i++) {
        const uint32_t number = (s->taken + i) % s->frame.satellite_count;
        const sky_address at = address_at(s, number);
        if (!sky_address_is_vacant(&at)) {
            s->taken = number;
            return false;
        }
    }
    return true;
}

void sky_station_stats(const sky_station *s, sky_station_stat *out) {
    *out = s->stat;
    out->udp = sky_udp_stats(s->udp);
    sky_transport_stats(s->transport, &out->transport);
}

void sky_station_refused(const sky_station *s, sky_node_stat *out) {
    sky_transport_stat stat;
    sky_transport_stats(s->transport, &stat);
    out->foreign = stat.foreign;
    out->stale = stat.stale;
    out->replayed = stat.replayed;
    out->forged = stat.forged;
}

/* ---- configuration ---- */

sky_status sky_station_beside(const char *path, const char *file, char out[SKY_STATION_PATH_MAX],
                              sky_error *error) {
    const char *slash = strrchr(path, '/');
    int folder = slash && file[0] != '/' ? (int)(slash - path) + 1 : 0;
    int length = snprintf(out, SKY_STATION_PATH_MAX, "%.*s%s", folder, path, file);
    return length < SKY_STATION_PATH_MAX
               ? SKY_OK
               : sky_fail(error, SKY_E_PARAM, "%.200s: too long a path", path);
}

#define MIGRATE_WINDOW 32 /* what a neighbour's socket holds, and more */
#define QUEUE_MAX      1024
#define NODE_LATE_NS   SKY_MS(200) /* a machine with a hundred satellites on it */

sky_status sky_station_node_config(const sky_scenario *c, const sky_frame *frame,
                                   sky_node_config *out, sky_error *error) {
    uint32_t chunk = c->chunk_bytes + SKY_SEAL_BYTES;
    sky_time gap = sky_link_busy_ns(c->links.isl_bits_s,
                                    sky_message_data_offset(SKY_WIRE_MIGRATE) + chunk);
    sky_time way = c->udp.far ? sky_frame_link_ns_max(frame) + c->links.jitter_ns : 0;
    if (chunk > SKY_WIRE_DATA_BYTES_MAX)
        return sky_fail(error, SKY_E_PARAM,
                        "chunk is %u bytes: with its seal a message carries at most %d",
                        c->chunk_bytes, SKY_WIRE_DATA_BYTES_MAX - SKY_SEAL_BYTES);
    *out = (sky_node_config){.constellation = c->constellation,
                             .turning = frame->turning,
                             .processing_ns = c->satellite.processing_ns,
                             .migrate_gap_ns = gap,
                             .migrate_timeout_ns = 4 * way + 2 * gap + NODE_LATE_NS,
                             .migrate_window = MIGRATE_WINDOW,
                             .queue_max = QUEUE_MAX,
                             .chunk_bytes_max = chunk,
                             .memory_bytes = c->satellite.memory_bytes,
                             .sealed = true};
    sky_random(&out->hash_key, sizeof out->hash_key);
    sky_policy_node(c, frame, out);
    out->sweep_grace_ns += out->sweep_period_ns ? NODE_LATE_NS : 0;
    if (sky_node_slots(out) < 1)
        return sky_fail(error, SKY_E_PARAM,
                        "satellite.memory is %" PRIu64 " bytes: not one chunk of %u and what is "
                        "kept about it",
                        c->satellite.memory_bytes, chunk);
    return SKY_OK;
}

/* The table of handovers is computed by every station for itself; past its end the sky stands. */
static sky_status make_physical(sky_station *s, const char *path, const sky_turning *turning,
                                sky_error *error) {
    sky_status status = sky__physical_frame(&s->scenario, turning, &s->frame, error);
    if (status != SKY_OK)
        return status;
    uint64_t turns = sky_turns(turning, wall_sky(s));
    if (turns >= s->frame.physical->given.turns)
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: time.start is %" PRIu64 " handover slots ago, and who is overhead "
                        "is computed for %" PRIu64 " from there: say a later time.start",
                        path, turns, s->frame.physical->given.turns);
    return SKY_OK;
}

static sky_status make_frame(sky_station *s, const char *path, sky_error *error) {
    const sky_scenario *c = &s->scenario;
    double rotation_ns = (double)c->time.rotation_ns / (c->time.scale > 0 ? c->time.scale : 1);
    sky_turning turning = {.start_ms = c->time.start_ms, .rotation_ns = (sky_time)rotation_ns};
    if (wall_sky(s) < 0)
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: time.start is still to come by this machine's clock: real "
                        "satellites need one that has passed",
                        path);
    if (c->physical)
        return make_physical(s, path, &turning, error);
    sky_constellation near = c->constellation;
    if (!c->udp.far) /* machines that are next to each other */
        near.light_km_s = 1e15;
    return sky_frame_init(&s->frame, &near, &c->placement, c->centre, &turning, error);
}

static void configure_node(sky_station *s, bool direct) {
    const sky_scenario *c = &s->scenario;
    bool is_ground = s->self.plane == 0;
    bool aboard = sky_strategy_row_of(c->placement.strategy)->aboard;
    uint16_t chance;
    sky_random(&chance, sizeof chance);
    uint32_t datagrams = sky_udp_buffer_bytes(s->udp) / SKY_STATION_DATAGRAM_COST;
    s->config = (sky_transport_config){
        .frame = &s->frame,
        .self = s->self,
        .key = s->key,
        .suites = sky_suites_wanted(c->udp.suite),
        .aead = s->aead,
        .epoch = (uint64_t)s->clock->wall_ms(s->clock) << 16 | chance,
        .ground_bits_s = aboard ? c->links.isl_bits_s : c->links.ground_bits_s,
        .isl_bits_s = c->links.isl_bits_s,
        .burst_ns = SKY_MS(1),
        .slack_ns = SKY_MS(5),
        .jitter_ns = c->links.jitter_ns,
        .deadline_ns = SKY_SECONDS(3),
        .age_ns_max = SKY_SECONDS(5),
        .skew_ns_max = SKY_SECONDS(1),
        .direct = direct,
        .message_bytes_max = (uint32_t)sky_message_data_offset(SKY_WIRE_SET) + c->chunk_bytes +
                             SKY_SEAL_BYTES,
        .sending_max = is_ground ? 1024 : 256,
        .receiving_max = is_ground ? 2048 : 512,
        .window_max = sky_station_within(datagrams / 4, 32, 1024),
        .peers_max = is_ground ? sky_station_within(s->frame.satellite_count, 2, 2048)
                               : SATELLITE_PEERS,
        .relay_max = is_ground ? 1 : 256};
}

/* ---- life ---- */

sky_status sky_station_udp_expect(const sky_scenario *c, const char *path, sky_error *error) {
    return c->udp.base[0] && c->udp.key[0]
               ? SKY_OK
               : sky_fail(error, SKY_E_PARAM,
                          "%.200s: real satellites need a section such as udp: {base: "
                          "127.0.0.1:7600, key: sky.key, tenant: tenant.key}",
                          path);
}

static void add_number(sky_blake2b *h, uint64_t v) {
    uint8_t bytes[8];
    sky_store_u64(bytes, v);
    sky_blake2b_add(h, bytes, sizeof bytes);
}

static void add_real(sky_blake2b *h, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    add_number(h, bits);
}

void sky_station_key(const sky_scenario *c, const uint8_t secret[SKY_SECRET_BYTES],
                     uint8_t key[SKY_SECRET_BYTES]) {
    sky_blake2b h;
    sky_blake2b_init(&h, secret);
    sky_blake2b_add(&h, "sky: ", 5);
    add_number(&h, (uint64_t)c->constellation.planes << 32 | c->constellation.slots);
    add_real(&h, c->constellation.altitude_km);
    add_real(&h, c->constellation.inclination_deg);
    add_number(&h, (uint64_t)c->centre.plane << 32 | c->centre.slot);
    add_number(&h, (uint64_t)c->placement.strategy << 32 | c->placement.servers);
    add_number(&h, (uint64_t)c->placement.window_planes << 32 | c->placement.window_slots);
    add_number(&h, (uint64_t)c->physical << 32 | c->chunk_bytes);
    add_number(&h, (uint64_t)c->time.start_ms);
    add_number(&h, (uint64_t)c->time.rotation_ns);
    add_real(&h, c->time.scale);
    sky_blake2b_end(&h, key);
    explicit_bzero(&h, sizeof h);
}

static sky_status read_key(sky_station *s, const char *path, sky_error *error) {
    char key_path[SKY_STATION_PATH_MAX];
    uint8_t secret[SKY_SECRET_BYTES];
    sky_status status = sky_station_udp_expect(&s->scenario, path, error);
    if (status == SKY_OK)
        status = sky_station_beside(path, s->scenario.udp.key, key_path, error);
    if (status == SKY_OK)
        status = sky_secret_read(key_path, secret, error);
    if (status != SKY_OK)
        return status;
    sky_station_key(&s->scenario, secret, s->key);
    explicit_bzero(secret, sizeof secret);
    return SKY_OK;
}

static sky_status open_socket(sky_station *s, const char *path, sky_error *error) {
    static const sky_udp_options options = {.datagram_bytes_max = SKY_PACKET_BYTES_MAX,
                                            .buffer_bytes = SKY_STATION_RECEIVE_BYTES};
    sky_status status = sky_address_parse(s->scenario.udp.base, &s->base, error);
    if (status != SKY_OK)
        return status;
    if (sky_address_port(&s->base) == 0 ||
        sky_address_port(&s->base) + s->frame.satellite_count > 65536)
        return sky_fail(error, SKY_E_PARAM,
                        "%.200s: udp.base is %s: ports from there on for %u satellites", path,
                        s->scenario.udp.base, s->frame.satellite_count);
    sky_address at = s->self.plane ? address_of(s, s->self) : sky_address_towards(&s->base);
    return sky_udp_open(&at, &options, &s->udp, error);
}

static sky_status take_memory(sky_station *s, sky_error *error) {
    size_t bytes = sky_transport_bytes(&s->config);
    s->memory = sky_secret_alloc(bytes); /* keys of links are in it */
    s->waiting = malloc(WAITING_MAX * sizeof *s->waiting);
    if (!s->memory || !s->waiting)
        return sky_fail(error, SKY_E_NOMEM, "memory for a station");
    s->transport = sky_transport_init(&s->config, sky_station_now(s), s->memory, bytes);
    return SKY_OK;
}

sky_status sky_station_open(const sky_station_options *options, sky_station **out,
                            sky_error *error) {
    sky_station *s = sky_secret_alloc(sizeof *s);
    if (!s)
        return sky_fail(error, SKY_E_NOMEM, "a station");
    s->scenario = *options->scenario;
    s->self = options->self;
    s->clock = options->clock;
    sky_mutex_init(&s->clock_lock);
    s->ask_next = SKY_TIME_NEVER;
    uint32_t id;
    sky_random(&id, sizeof id);
    sky_random(&s->chance, sizeof s->chance);
    if (s->self.plane == 0) /* of 10,000 stations two share an id once in 43 skies */
        s->self.slot = id & SKY_PACKET_GROUND_MAX ? id & SKY_PACKET_GROUND_MAX : 1;
    sky_status status = read_key(s, options->path, error);
    if (status == SKY_OK)
        status = make_frame(s, options->path, error);
    const sky_constellation *c = &s->scenario.constellation;
    if (status == SKY_OK && (s->self.plane > c->planes || s->self.slot < 1 ||
                             (s->self.plane && s->self.slot > c->slots)))
        status = sky_fail(error, SKY_E_PARAM,
                          "satellite %u,%u: the constellation has planes 1 to %u and slots 1 to %u",
                          s->self.plane, s->self.slot, c->planes, c->slots);
    if (status == SKY_OK)
        status = open_socket(s, options->path, error);
    if (status == SKY_OK)
        status = sky_aead_create(&s->aead, error);
    if (status != SKY_OK)
        goto cleanup;
    s->clock_last = s->clock->now(s->clock);
    s->sky_last = wall_sky(s);
    configure_node(s, options->direct);
    sky_log(SKY_LOG_INFO, "station %u,%u sends by %s, takes %s", s->self.plane, s->self.slot,
            sky_suite_name(s->config.suites.own), s->config.suites.both ? "both" : "no other");
    status = floor_open(s, options->floor_path, error);
    if (status == SKY_OK)
        status = take_memory(s, error);
    if (status != SKY_OK)
        goto cleanup;
    *out = s;
    s = NULL;
cleanup:
    sky_station_close(s);
    return status;
}

void sky_station_close(sky_station *s) {
    if (!s)
        return;
    if (s->transport)
        sky_transport_deinit(s->transport);
    sky_aead_destroy(s->aead);
    sky_udp_close(s->udp);
    sky_mutex_deinit(&s->clock_lock);
    sky_frame_deinit(&s->frame);
    sky_secret_free(s->memory);
    free(s->waiting);
    sky_secret_free(s);
}
