/* Messages on their way: buffers, queues, light, and what a link does to what it carries. */
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/clock.h"
#include "sim/world_state.h"

#define BUFFERS_KEPT 2560

/* ---- buffers ---- */

static bool pool_init(sky__pool *p, size_t bytes, uint32_t max) {
    *p = (sky__pool){.bytes = bytes, .max = max};
    p->free_list = calloc(BUFFERS_KEPT, sizeof *p->free_list);
    return p->free_list;
}

static uint8_t *pool_take(sky__pool *p) {
    if (p->free_count > 0)
        return p->free_list[--p->free_count];
    if (p->made == p->max)
        return NULL;
    uint8_t *buffer = malloc(p->bytes);
    p->made += buffer != NULL;
    return buffer;
}

static void pool_give(sky__pool *p, uint8_t *buffer) {
    if (p->free_count < BUFFERS_KEPT) {
        p->free_list[p->free_count++] = buffer;
    } else { /* a burst is over */
        p->made--;
        free(buffer);
    }
}

static void pool_deinit(sky__pool *p) {
    while (p->free_count > 0)
        free(p->free_list[--p->free_count]);
    free(p->free_list);
}

static sky__pool *pool_of(sky_world *w, bool small) {
    return small ? &w->small : &w->large;
}

uint8_t *sky__buffer_take(sky_world *w) {
    return pool_take(&w->large);
}

void sky__buffer_give(sky_world *w, uint8_t *buffer) {
    pool_give(&w->large, buffer);
}

/* ---- flights ---- */

/* A flight that owns `data`, a buffer of its pool; NONE, and the buffer back in the pool, when
 * there are too many. */
static uint32_t flight_begin(sky_world *w, uint8_t *data, bool small) {
    uint32_t f = w->flight_free;
    if (f != SKY__FLIGHT_NONE) {
        w->flight_free = w->flights[f].next;
    } else if (w->flight_fresh < w->flight_max) {
        f = w->flight_fresh++;
    } else {
        pool_give(pool_of(w, small), data);
        return SKY__FLIGHT_NONE;
    }
    w->flights[f] = (sky__flight){.data = data, .small = small};
    w->stat.in_flight++;
    return f;
}

void sky__flight_end(sky_world *w, uint32_t f) {
    sky__flight *x = &w->flights[f];
    pool_give(pool_of(w, x->small), x->data);
    w->stat.in_flight--;
    if (SKY_BUG("flight-leaked", 1000))
        return;
    x->next = w->flight_free;
    w->flight_free = f;
}

uint32_t sky_world_places_taken(const sky_world *w) {
    uint32_t taken = w->flight_fresh;
    for (uint32_t f = w->flight_free; f != SKY__FLIGHT_NONE; f = w->flights[f].next)
        taken--;
    return taken;
}

void sky__drop(sky_world *w, uint32_t f, sky_event_kind kind, uint64_t *count) {
    ++*count;
    sky__tell(w, kind, &w->flights[f], SKY_GROUND);
    sky__flight_end(w, f);
}

/* A message of n datagrams arrives when all of them do: 1 - (1-p)^n, by multiplication, which is
 * the same on every machine. */
static void fill_loss(double loss[SKY__DATAGRAMS_MAX + 1], double datagram_loss) {
    double arrives = 1;
    for (uint32_t n = 0; n <= SKY__DATAGRAMS_MAX; n++) {
        loss[n] = 1 - arrives;
        arrives *= 1 - datagram_loss;
    }
}

void sky_world_loss_set(sky_world *w, double datagram_loss) {
    fill_loss(w->loss[0], datagram_loss);
    fill_loss(w->loss[1], datagram_loss);
}

bool sky__links_init(sky_world *w, uint32_t flight_max) {
    size_t large = (sky_message_data_offset(SKY_WIRE_SET) + w->scenario.chunk_bytes + 63) & ~63ull;
    if (w->scenario.links.datagrams && large < SKY_PACKET_BYTES_MAX)
        large = (SKY_PACKET_BYTES_MAX + 63) & ~63ull;
    w->flight_max = flight_max;
    w->flight_free = SKY__FLIGHT_NONE;
    w->flights = calloc(flight_max, sizeof *w->flights);
    const sky_scenario *s = &w->scenario;
    fill_loss(w->loss[0], s->links.ground_loss > 0 ? s->links.ground_loss : s->links.loss);
    fill_loss(w->loss[1], s->links.isl_loss > 0 ? s->links.isl_loss : s->links.loss);
    return w->flights && pool_init(&w->large, large, flight_max) &&
           pool_init(&w->small, SKY__SMALL_BYTES, flight_max);
}

void sky__links_deinit(sky_world *w) {
    for (uint32_t id = sky__flight_id(w, 0); w->schedule.count > 0;) {
        sky_event e = sky_schedule_pop(&w->schedule);
        if (e.id >= id && e.id < sky__flight_id(w, w->flight_max))
            sky__flight_end(w, e.id - id);
    }
    pool_deinit(&w->large);
    pool_deinit(&w->small);
    free(w->flights);
    for (uint32_t i = 0; i < SKY__OVERHEARD; i++)
        free(w->overheard[i].data);
}

/* ---- chance ---- */

static bool draw_chance(sky_world *w, double probability) {
    return probability > 0 && sky_prng_unit(&w->prng) < probability;
}

static void flip_a_bit(sky_world *w, sky__flight *x) {
    uint64_t bit = sky_prng_below(&w->prng, (uint64_t)x->bytes * 8);
    x->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static double loss_of(const sky_world *w, const sky__flight *x) {
    bool laser = !sky__is_ground(x->from) && !sky__is_ground(x->to);
    uint32_t datagrams = (x->bytes + SKY__DATAGRAM_BYTES - 1) / SKY__DATAGRAM_BYTES;
    double lost = w->loss[laser][datagrams];
    if (laser || !sky__links_vary(w))
        return lost;
    bool up = sky__is_ground(x->from);
    const sky__ground *g = sky__ground_of(w, up ? x->from : x->to);
    double each = 1 - sky__ground_quality(w, g, up ? x->to : x->from).loss, arrives = 1 - lost;
    for (uint32_t i = 0; i < datagrams; i++)
        arrives *= each;
    return 1 - arrives;
}

bool sky__cut_off(const sky_world *w, sky_satellite s) {
    return sky__is_ground(s)
               ? sky__ground_of(w, s)->out_until > w->now
               : sky__later(sky__site_of(w, s)->cut_until, sky__site_of(w, s)->out_until) > w->now;
}

/* ---- the way ---- */

bool sky__pass_queue(sky_world *w, sky_time *free_at, sky_time queue_ns, uint64_t bits_s,
                     uint32_t bytes) {
    if (bits_s == 0) { /* no limit */
        *free_at = w->now;
        return true;
    }
    sky_time begins = *free_at > w->now ? *free_at : w->now;
    if (begins - w->now > queue_ns)
        return false;
    *free_at = begins + sky_link_busy_ns(bits_s, bytes);
    return true;
}

static sky_time extra_delay(sky_world *w) {
    sky_time ns = (sky_time)sky_prng_below(&w->prng, (uint64_t)w->scenario.links.jitter_ns);
    if (draw_chance(w, w->scenario.faults.reorder)) {
        ns += (sky_time)sky_prng_below(&w->prng, (uint64_t)w->light_extra_ns);
        w->stat.held_back++;
    }
    return ns;
}

/* When the message is at the other end of its light path; it has left its queue at `leaves`. */
static sky_time light_ends(sky_world *w, const sky__flight *x, sky_time leaves) {
    sky_time ns;
    uint64_t turns = sky_turns(&w->frame.turning, w->now);
    if (sky__is_ground(x->from) || sky__is_ground(x->to)) {
        bool up = sky__is_ground(x->from);
        const sky__ground *g = sky__ground_of(w, up ? x->from : x->to);
        ns = sky_frame_ground_ns(g->frame, up ? x->to : x->from, turns);
    } else {
        ns = sky_frame_link_ns(&w->frame, x->from, x->to, turns);
    }
    sky__way_of(w, x->from, x->to, &ns);
    return leaves + ns + extra_delay(w);
}

/* In a physical sky with nothing above the mask the ground hears nobody, and where no lasers lead
 * no message comes. */
static bool out_of_sight(const sky_world *w, const sky__flight *x) {
    const sky_frame *f = &w->frame;
    if (sky__is_ground(x->from) || sky__is_ground(x->to))
        f = sky__ground_of(w, sky__is_ground(x->from) ? x->from : x->to)->frame;
    return !sky_frame_joined(f, x->from, x->to, sky_turns(&f->turning, w->now));
}

static void duplicate_flight(sky_world *w, const sky__flight *x, sky_time leaves) {
    uint8_t *data = pool_take(pool_of(w, x->small));
    uint32_t f = data ? flight_begin(w, data, x->small) : SKY__FLIGHT_NONE;
    if (f == SKY__FLIGHT_NONE)
        return;
    w->flights[f] = *x;
    w->flights[f].data = memcpy(data, x->data, x->bytes);
    w->stat.duplicated++;
    sky_schedule_set(&w->schedule, sky__flight_id(w, f), light_ends(w, x, leaves));
}

/* Through the sender's queue: when the message leaves it; false when it is full. */
static bool leave_link(sky_world *w, const sky__flight *x, sky_time *leaves) {
    sky_time *free_at, queue_ns = w->link_queue_ns;
    uint64_t bits_s = w->scenario.links.isl_bits_s;
    *leaves = w->now;
    if (sky__is_ground(x->from)) {
        sky__ground *g = sky__ground_of(w, x->from);
        free_at = w->ground_each ? &sky__site_of(w, x->to)->up_free : &g->up_free;
        queue_ns = sky__ground_link(w, g, x->to, &bits_s);
    } else if (sky__is_ground(x->to)) { /* waits at the other end */
        return true;
    } else {
        free_at = &sky__site_of(w, x->from)->link_free;
    }
    bool queued = sky__pass_queue(w, free_at, queue_ns, bits_s, x->bytes);
    *leaves = *free_at;
    return queued;
}

/* An adversary on the link takes note of a message. */
static void overhear_flight(sky_world *w, const sky__flight *x) {
    sky__overheard *o = &w->overheard[w->overheard_next];
    if (!o->data)
        o->data = malloc(SKY_WIRE_BYTES_MAX);
    if (!o->data)
        return;
    o->from = x->from;
    o->to = x->to;
    o->bytes = x->bytes;
    memcpy(o->data, x->data, x->bytes);
    w->overheard_next = (w->overheard_next + 1) % SKY__OVERHEARD;
}

/* Send a message: through the sender's queue, then at the speed of light. What comes down goes
 * through the terminal's queue at the end of its way. */
static void launch_flight(sky_world *w, uint32_t f) {
    sky__flight *x = &w->flights[f];
    const sky_scenario *c = &w->scenario;
    sky_time leaves;
    w->stat.messages++;
    w->stat.message_bytes += x->bytes;
    if (!leave_link(w, x, &leaves)) {
        sky__drop(w, f, SKY_EVENT_OVERFLOW, &w->stat.overflowed);
        return;
    }
    sky_time round_ns;
    if (!sky__way_of(w, x->from, x->to, &round_ns)) {
        sky__drop(w, f, SKY_EVENT_CUT, &w->stat.cut);
        return;
    }
    if (out_of_sight(w, x) || draw_chance(w, loss_of(w, x))) {
        sky__drop(w, f, SKY_EVENT_LOST, &w->stat.lost);
        return;
    }
    if (c->faults.hostile_per_s > 0)
        overhear_flight(w, x);
    if (draw_chance(w, c->faults.corrupt)) {
        w->stat.corrupted++;
        flip_a_bit(w, x);
    }
    if (draw_chance(w, c->faults.duplicate))
        duplicate_flight(w, x, leaves);
    sky_schedule_set(&w->schedule, sky__flight_id(w, f), light_ends(w, x, leaves));
}

/* Those without data move to a small buffer: there may be thousands. */
void sky__set_out(sky_world *w, const sky_datagram *d) {
    bool small = d->bytes <= SKY__SMALL_BYTES;
    uint8_t *data = d->data;
    if (small) {
        data = pool_take(&w->small);
        if (data)
            memcpy(data, d->data, d->bytes);
        pool_give(&w->large, d->data);
    }
    uint32_t f = data ? flight_begin(w, data, small) : SKY__FLIGHT_NONE;
    if (f == SKY__FLIGHT_NONE) {
        w->stat.overflowed++;
        return;
    }
    w->flights[f].from = d->from;
    w->flights[f].to = d->to;
    w->flights[f].bytes = (uint32_t)d->bytes;
    launch_flight(w, f);
}

void sky__intrude(sky_world *w, const sky_datagram *d) {
    bool small = d->bytes <= SKY__SMALL_BYTES;
    uint8_t *data = d->bytes <= w->large.bytes ? pool_take(pool_of(w, small)) : NULL;
    uint32_t f = data ? flight_begin(w, data, small) : SKY__FLIGHT_NONE;
    if (f == SKY__FLIGHT_NONE)
        return;
    memcpy(data, d->data, d->bytes);
    w->flights[f].from = d->from;
    w->flights[f].to = d->to;
    w->flights[f].bytes = (uint32_t)d->bytes;
    w->flights[f].at_terminal = true; /* past every queue */
    sky_schedule_set(&w->schedule, sky__flight_id(w, f), w->now);
}
