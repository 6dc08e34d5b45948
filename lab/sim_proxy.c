/* skymem sim --proxy: a relay between ground stations and real satellites on one machine, which
 * makes of every datagram what the way would: late by light time and jitter, lost, out of order,
 * doubled or damaged, as `links` and `faults` of the scenario say. Stations are not touched.
 *
 *   ground ──► port P+i ─[ held ]─► socket of that ground ──► satellite i at udp.base+i
 *   ground ◄── port P+i ◄─[ held ]─ socket of that ground ◄── satellite i
 *
 * A ground's scenario has P as its udp.base, and is else the satellites'. Each ground has a socket
 * of its own here, so that a satellite sees where it answers to. */
#include "sim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/prng.h"
#include "base/schedule.h"
#include "config/physical.h"
#include "io/clock.h"
#include "io/udp.h"
#include "wire/packet.h"

#define GROUNDS_MAX      64
#define HELD_MAX         16384
#define GROUND_GONE_NS   SKY_SECONDS(10) /* one not heard for so long makes room for another */
#define REORDER_EXTRA_NS SKY_MS(2)       /* besides as long as the way itself */
#define NONE             UINT32_MAX

typedef struct {
    sky_address at;
    sky_udp *socket; /* NULL: no ground */
    sky_time heard;
} ground;

typedef struct {
    uint32_t next; /* free */
    uint32_t bytes;
    uint32_t satellite;
    uint32_t ground;
    bool up;
    uint8_t data[SKY_PACKET_BYTES_MAX];
} held;

typedef struct {
    uint64_t up, down; /* passed on */
    uint64_t lost, reordered, duplicated, corrupted;
    uint64_t out_of_sight; /* nothing stood above the ground's horizon */
    uint64_t overflow;     /* no room to hold them, or for one more ground */
    uint64_t strangers;    /* to a ground, and of no satellite */
} proxy_stat;

typedef struct {
    sky_scenario scenario;
    sky_frame frame;
    sky_address satellite_base; /* of satellite 0; others follow */
    sky_udp **satellites;       /* [frame.satellite_count]: where grounds send to each */
    ground grounds[GROUNDS_MAX];
    held *held;
    uint32_t held_free, held_fresh;
    sky_schedule schedule;
    sky_prng prng;
    proxy_stat stat;
} proxy;

static const sky_udp_options socket_options = {.datagram_bytes_max = SKY_PACKET_BYTES_MAX,
                                               .buffer_bytes = 4u << 20};

static sky_address satellite_at(const sky_address *base, uint32_t number) {
    sky_address a = *base;
    sky_address_set_port(&a, (uint16_t)(sky_address_port(base) + number));
    return a;
}

/* ---- what the way does ---- */

static bool sim_proxy_chance(proxy *p, double probability) {
    return probability > 0 && sky_prng_unit(&p->prng) < probability;
}

/* SKY_TIME_NEVER: nothing stands above the ground's horizon. */
static sky_time way_ns(const proxy *p, uint32_t number) {
    const sky_clock *clock = sky_clock_system();
    sky_time now = (clock->wall_ms(clock) - p->scenario.time.start_ms) * SKY_MS(1);
    uint64_t turns = sky_turns(&p->frame.turning, now);
    if (!sky_frame_in_sight(&p->frame, turns))
        return SKY_TIME_NEVER;
    return sky_frame_ground_ns(&p->frame, sky_frame_satellite(&p->frame, number), turns);
}

static void sim_proxy_hold(proxy *p, const held *what, const uint8_t *data, sky_time at) {
    uint32_t i = p->held_free;
    if (i != NONE) {
        p->held_free = p->held[i].next;
    } else if (p->held_fresh < HELD_MAX) {
        i = p->held_fresh++;
    } else {
        p->stat.overflow++;
        return;
    }
    held *h = &p->held[i];
    h->bytes = what->bytes;
    h->satellite = what->satellite;
    h->ground = what->ground;
    h->up = what->up;
    memcpy(h->data, data, what->bytes);
    if (what->bytes > 0 && sim_proxy_chance(p, p->scenario.faults.corrupt)) {
        h->data[sky_prng_below(&p->prng, what->bytes)] ^= 1;
        p->stat.corrupted++;
    }
    sky_schedule_set(&p->schedule, i, at);
}

static void sim_proxy_take(proxy *p, const held *what, const uint8_t *data) {
    const sky_scenario *c = &p->scenario;
    sky_time way = way_ns(p, what->satellite), now = sky_now();
    if (what->bytes == 0) /* no station's */
        return;
    p->stat.out_of_sight += way == SKY_TIME_NEVER;
    if (way == SKY_TIME_NEVER)
        return;
    if (sim_proxy_chance(p, c->links.ground_loss > 0 ? c->links.ground_loss : c->links.loss)) {
        p->stat.lost++;
        return;
    }
    bool twice = sim_proxy_chance(p, c->faults.duplicate);
    p->stat.duplicated += twice;
    for (int copies = twice ? 2 : 1; copies > 0; copies--) {
        sky_time late = (sky_time)sky_prng_below(&p->prng, (uint64_t)c->links.jitter_ns + 1);
        bool reordered = sim_proxy_chance(p, c->faults.reorder);
        p->stat.reordered += reordered;
        late += reordered ? way + REORDER_EXTRA_NS : 0;
        sim_proxy_hold(p, what, data, now + way + late);
    }
}

/* ---- sockets ---- */

/* The place of a ground; GROUNDS_MAX: there is no room for another. */
static uint32_t ground_of(proxy *p, const sky_address *from) {
    uint32_t place = 0;
    sky_time now = sky_now();
    for (uint32_t i = 0; i < GROUNDS_MAX; i++) {
        ground *g = &p->grounds[i];
        if (g->socket && sky_address_equal(&g->at, from)) {
            g->heard = now;
            return i;
        }
        if (!g->socket || (p->grounds[place].socket && g->heard < p->grounds[place].heard))
            place = p->grounds[place].socket ? i : place;
    }
    ground *g = &p->grounds[place];
    sky_error error;
    if (g->socket && g->heard > now - GROUND_GONE_NS)
        return GROUNDS_MAX;
    sky_udp_close(g->socket);
    g->socket = NULL;
    sky_address any = sky_address_towards(&p->satellite_base);
    if (sky_udp_open(&any, &socket_options, &g->socket, &error) != SKY_OK)
        return GROUNDS_MAX;
    g->at = *from;
    g->heard = now;
    return place;
}

static void receive_up(proxy *p, uint32_t number) {
    held what = {.satellite = number, .up = true};
    const sky_address *from;
    uint8_t *data;
    size_t bytes;
    while (sky_udp_receive(p->satellites[number])) {
        while (sky_udp_next(p->satellites[number], &data, &bytes, &from)) {
            what.bytes = (uint32_t)bytes;
            what.ground = ground_of(p, from);
            if (what.ground < GROUNDS_MAX)
                sim_proxy_take(p, &what, data);
            else
                p->stat.overflow++;
        }
    }
}

static void receive_down(proxy *p, uint32_t place) {
    sky_udp *u = p->grounds[place].socket;
    const sky_address *from;
    uint8_t *data;
    size_t bytes;
    while (sky_udp_receive(u)) {
        while (sky_udp_next(u, &data, &bytes, &from)) {
            uint32_t number = (uint32_t)sky_address_port(from) -
                              (uint32_t)sky_address_port(&p->satellite_base);
            const held what = {
                .satellite = number, .ground = place, .bytes = (uint32_t)bytes, .up = false};
            sky_address there = satellite_at(&p->satellite_base, number);
            if (number < p->frame.satellite_count && sky_address_equal(from, &there))
                sim_proxy_take(p, &what, data);
            else
                p->stat.strangers++;
        }
    }
}

static void send_one(proxy *p, const held *h) {
    const ground *g = &p->grounds[h->ground];
    sky_udp *u = h->up ? g->socket : p->satellites[h->satellite];
    if (!g->socket) /* gone meanwhile */
        return;
    sky_address to = h->up ? satellite_at(&p->satellite_base, h->satellite) : g->at;
    sky_udp_put(u, &to, h->data, h->bytes);
    sky_udp_flush(u);
    *(h->up ? &p->stat.up : &p->stat.down) += 1;
}

static void send_due(proxy *p) {
    while (sky_schedule_next(&p->schedule) <= sky_now()) {
        uint32_t i = sky_schedule_pop(&p->schedule).id;
        send_one(p, &p->held[i]);
        p->held[i].next = p->held_free;
        p->held_free = i;
    }
}

/* ---- life ---- */

static volatile sig_atomic_t ended;

static void sim_proxy_end(int number) {
    (void)number;
    ended = 1;
}

/* Sleep until something came, is due, or a signal ends it. */
static void wait_for(const proxy *p, struct pollfd *fds, const sigset_t *awake) {
    uint32_t count = p->frame.satellite_count;
    for (uint32_t i = 0; i < GROUNDS_MAX; i++)
        fds[count + i] = (struct pollfd){
            .fd = p->grounds[i].socket ? sky_udp_fd(p->grounds[i].socket) : -1, .events = POLLIN};
    sky_time next = sky_schedule_next(&p->schedule), left = next - sky_now();
    left = left > 0 ? left : 0;
    const struct timespec time = {left / SKY_SECONDS(1), left % SKY_SECONDS(1)};
    if (ppoll(fds, count + GROUNDS_MAX, next == SKY_TIME_NEVER ? NULL : &time, awake) <= 0)
        for (uint32_t i = 0; i < count + GROUNDS_MAX; i++)
            fds[i].revents = 0;
}

static sky_status sim_proxy_relay(proxy *p) {
    uint32_t count = p->frame.satellite_count;
    struct pollfd *fds = calloc(count + GROUNDS_MAX, sizeof *fds);
    sigset_t blocked, awake;
    if (!fds)
        return SKY_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = sky_udp_fd(p->satellites[i]), .events = POLLIN};
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &awake);
    const struct sigaction action = {.sa_handler = sim_proxy_end};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    while (!ended) {
        wait_for(p, fds, &awake);
        for (uint32_t i = 0; i < count; i++)
            if (fds[i].revents)
                receive_up(p, i);
        for (uint32_t i = 0; i < GROUNDS_MAX; i++)
            if (fds[count + i].revents && p->grounds[i].socket)
                receive_down(p, i);
        send_due(p);
    }
    free(fds);
    return SKY_OK;
}

static sky_status open_ports(proxy *p, const char *at, sky_error *error) {
    sky_address base;
    uint32_t count = p->frame.satellite_count;
    sky_status status = sky_address_parse(at, &base, error);
    if (status == SKY_OK)
        status = sky_address_parse(p->scenario.udp.base, &p->satellite_base, error);
    if (status == SKY_OK && (!sky_address_port(&base) || sky_address_port(&base) + count > 65536))
        return sky_fail(error, SKY_E_PARAM, "%s: ports from there on for %u satellites", at, count);
    p->satellites = calloc(count, sizeof *p->satellites);
    p->held = malloc(HELD_MAX * sizeof *p->held);
    if (status == SKY_OK && (!p->satellites || !p->held))
        status = sky_fail(error, SKY_E_NOMEM, "no memory for a relay");
    if (status == SKY_OK)
        status = sky_schedule_init(&p->schedule, HELD_MAX);
    for (uint32_t i = 0; status == SKY_OK && i < count; i++) {
        sky_address port = satellite_at(&base, i);
        status = sky_udp_open(&port, &socket_options, &p->satellites[i], error);
    }
    return status;
}

static sky_status open_proxy(proxy *p, const char *path, const char *at, uint64_t seed,
                             sky_error *error) {
    sky_status status = sky_scenario_load(path, &p->scenario, error);
    const sky_scenario *s = &p->scenario;
    if (status != SKY_OK)
        return status;
    if (!s->udp.base[0])
        return sky_fail(error, SKY_E_PARAM, "%s: says of no satellites where they are (udp.base)",
                        path);
    double rotation_ns = (double)s->time.rotation_ns / (s->time.scale > 0 ? s->time.scale : 1);
    const sky_turning turning = {.start_ms = s->time.start_ms,
                                 .rotation_ns = (sky_time)rotation_ns};
    status = s->physical ? sky__physical_frame(s, &turning, &p->frame, error)
                         : sky_frame_init(&p->frame, &s->constellation, &s->placement, s->centre,
                                          &turning, error);
    p->held_free = NONE;
    sky_prng_init(&p->prng, seed);
    return status == SKY_OK ? open_ports(p, at, error) : status;
}

static void close_proxy(proxy *p) {
    for (uint32_t i = 0; p->satellites && i < p->frame.satellite_count; i++)
        sky_udp_close(p->satellites[i]);
    for (uint32_t i = 0; i < GROUNDS_MAX; i++)
        sky_udp_close(p->grounds[i].socket);
    sky_schedule_deinit(&p->schedule);
    sky_frame_deinit(&p->frame);
    free(p->satellites);
    free(p->held);
}

static int sim_proxy_report(cli *c, const proxy_stat *s) {
    if (c->json)
        return cli_json_print(
            c, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "up", (json_int_t)s->up,
                         "down", (json_int_t)s->down, "lost", (json_int_t)s->lost, "reordered",
                         (json_int_t)s->reordered, "duplicated", (json_int_t)s->duplicated,
                         "corrupted", (json_int_t)s->corrupted, "out_of_sight",
                         (json_int_t)s->out_of_sight, "overflow", (json_int_t)s->overflow,
                         "strangers", (json_int_t)s->strangers));
    printf("%llu datagrams up, %llu down; %llu lost, %llu reordered, %llu doubled, %llu damaged, "
           "%llu with nothing in sight, %llu for want of room, %llu of strangers\n",
           (unsigned long long)s->up, (unsigned long long)s->down, (unsigned long long)s->lost,
           (unsigned long long)s->reordered, (unsigned long long)s->duplicated,
           (unsigned long long)s->corrupted, (unsigned long long)s->out_of_sight,
           (unsigned long long)s->overflow, (unsigned long long)s->strangers);
    return CLI_OK;
}

int sim_proxy(cli *c) {
    if (c->argument_count != 1)
        return cli_usage(c, "a scenario is missing: skymem sim SCENARIO --proxy ADDRESS:PORT");
    proxy *p = calloc(1, sizeof *p);
    sky_error error = {0};
    if (!p)
        return cli_failed(c, "no memory for a relay");
    sky_status status = open_proxy(p, c->arguments[0], cli_text(c, "proxy"), cli_count(c, "seed"),
                                   &error);
    if (status == SKY_OK) {
        fprintf(stderr, "%s: a ground whose udp.base is %s is as far away as the orbits say\n",
                c->arguments[0], cli_text(c, "proxy"));
        status = sim_proxy_relay(p);
    }
    int code = status == SKY_OK ? sim_proxy_report(c, &p->stat) : cli_refused(c, status, &error);
    close_proxy(p);
    free(p);
    return code;
}
