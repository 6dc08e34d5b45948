#include "lab/sim/users.h"

#include "base/clock.h"
#include "orbit/frame.h"
#include "orbit/ground.h"

void sky_users_init(sky_users *u, const sky_scenario *scenario, uint64_t seed) {
    *u = (sky_users){.scenario = scenario};
    sky_prng_init(&u->prng, seed);
    double sum = 0;
    for (uint32_t i = 0; i < scenario->user_count; i++)
        u->weight_to[i] = sum += scenario->users[i].weight;
}

uint32_t sky_users_draw(sky_users *u) {
    uint32_t last = u->scenario->user_count - 1, user = 0;
    double draw = sky_prng_unit(&u->prng) * u->weight_to[last];
    while (user < last && u->weight_to[user] <= draw)
        user++;
    return user;
}

/* ---- places ---- */

/* Where one that moves is; the sky's time runs `scale` times ours. */
static sky_observer users_moved(const sky_scenario *s, const double place[2], double speed_km_h,
                                double course_deg, sky_time now) {
    sky_observer at = {.latitude_deg = place[0], .longitude_deg = place[1]};
    double hours = (double)now * s->time.scale / 3.6e12;
    return speed_km_h > 0 ? sky__observer_moved(&at, speed_km_h * hours, course_deg) : at;
}

static sky_observer ground_at(const sky_scenario *s, uint32_t ground, sky_time now) {
    if (ground == 0)
        return (sky_observer){.latitude_deg = s->observer.latitude_deg,
                              .longitude_deg = s->observer.longitude_deg};
    const sky_scenario_ground *g = &s->grounds[ground - 1];
    return users_moved(s, g->place, g->speed_km_h, g->course_deg, now);
}

static double km_between(const sky_users *u, uint32_t user, uint32_t ground, sky_time now) {
    const sky_scenario_user *x = &u->scenario->users[user];
    sky_observer a = users_moved(u->scenario, x->place, x->speed_km_h, x->course_deg, now);
    sky_observer b = ground_at(u->scenario, ground, now);
    return sky__ground_km(&a, &b);
}

uint32_t sky_users_gateway(const sky_users *u, uint32_t user, sky_time now) {
    if (!u->scenario->users[user].nearest)
        return u->scenario->users[user].gateway;
    uint32_t best = 0;
    double least = km_between(u, user, 0, now);
    for (uint32_t i = 1; i <= u->scenario->ground_count; i++) {
        double km = km_between(u, user, i, now);
        best = km < least ? i : best;
        least = km < least ? km : least;
    }
    return best;
}

/* ---- ways ---- */

static sky_time land_ns(const sky_users *u, uint32_t user, uint32_t ground, sky_time now) {
    const sky_scenario_user *x = &u->scenario->users[user];
    if (!x->has_place)
        return x->delay_ns;
    double seconds = km_between(u, user, ground, now) / u->scenario->links.land_km_s;
    return (sky_time)(seconds * 1e9 + 0.5);
}

static sky_time users_pass(sky_time *free_at, sky_time now, uint64_t bits_s, uint64_t bytes) {
    if (bytes == 0 || bits_s == 0)
        return now;
    *free_at = sky__later(*free_at, now) + sky_link_busy_ns(bits_s, bytes);
    return *free_at;
}

sky_time sky_users_up(sky_users *u, uint32_t user, uint32_t ground, sky_time now, uint64_t bytes) {
    uint64_t bits_s = u->scenario->users[user].bits_s;
    return users_pass(&u->up_free[user], now, bits_s, bytes) + land_ns(u, user, ground, now);
}

sky_time sky_users_down(sky_users *u, uint32_t user, uint32_t ground, sky_time now,
                        uint64_t bytes) {
    uint64_t bits_s = u->scenario->users[user].bits_s;
    return users_pass(&u->down_free[user], now + land_ns(u, user, ground, now), bits_s, bytes);
}
