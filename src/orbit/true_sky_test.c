/* Proves that a physical sky agrees with orbits and with itself: the table says who is overhead, a
 * chunk's place follows in both directions and over the wrap, and light takes as long as it
 * should. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "orbit/frame.h"
#include "orbit/placement.h"
#include "orbit/true_sky.h"

static const int64_t start_ms = 1795132800000; /* 2026-11-20T00:00:00Z */

static void make_frame(sky_frame *f, const char *shell, const sky_placement *p, uint64_t turns) {
    sky_physical physical = {
        .observer = {.latitude_deg = 47.6, .longitude_deg = -122.3, .min_elevation_deg = 25},
        .start_ms = start_ms,
        .slot_ms = SKY_HANDOVER_MS,
        .turns = turns,
        .hysteresis_deg = 3,
        .aboard = {72, 22}};
    sky_turning turning = {.start_ms = start_ms, .rotation_ns = SKY_MS(SKY_HANDOVER_MS)};
    assert_int_equal(sky_fleet_walker(&sky_shell_find(shell)->constellation, SKY_SHELL_EPOCH_MS,
                                      &physical.fleet, NULL),
                     SKY_OK);
    assert_int_equal(sky_frame_init_physical(f, p, &physical, &turning, NULL), SKY_OK);
}

static sky_chunk_facts facts_of(const sky_frame *f, uint64_t turns, uint32_t server) {
    sky_satellite centre = sky_frame_centre(f, turns);
    return (sky_chunk_facts){.set_ms = start_ms + (int64_t)turns * SKY_HANDOVER_MS,
                             .centre = centre,
                             .first = sky_frame_first(f, centre, server),
                             .window_planes = (uint16_t)f->placement.window_planes,
                             .window_slots = (uint16_t)f->placement.window_slots,
                             .strategy = f->placement.strategy};
}

/* Every turn of a day: the servers of a block set at any time lie in today's window, each on a
 * satellite of its own, and only those whose row or column the window left have moved. */
static void chunks_follow_the_observer(void **state) {
    (void)state;
    sky_frame f;
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 25};
    make_frame(&f, "starlink-a", &p, 5760);
    assert_true(f.turning.handover_count > 300);
    uint32_t moves = 0;
    for (uint64_t set = 0; set < 5760; set += 1151) {
        sky_satellite before[25];
        for (uint64_t turn = set; turn < 5760; turn++) {
            sky_satellite centre = sky_frame_centre(&f, turn);
            sky_satellite window[25];
            bool taken[25] = {false};
            for (uint32_t i = 1; i <= 25; i++)
                window[i - 1] = sky_frame_first(&f, centre, i);
            for (uint32_t i = 1; i <= 25; i++) {
                sky_chunk_facts facts = facts_of(&f, set, i);
                sky_satellite at = sky_chunk_place(&f.constellation, &f.turning, &facts, turn);
                uint32_t k = 0;
                while (k < 25 && !sky_satellite_equal(at, window[k]))
                    k++;
                assert_true(k < 25 && !taken[k]);
                taken[k] = true;
                if (turn == set)
                    assert_true(sky_satellite_equal(at, facts.first));
                else
                    moves += !sky_satellite_equal(at, before[i - 1]);
                before[i - 1] = at;
            }
        }
    }
    assert_true(moves > 0);
    sky_frame_deinit(&f);
}

/* A column of five for a slot, a row of five for a plane; over the wrap as anywhere else. */
static void a_step_moves_one_row_or_column(void **state) {
    (void)state;
    sky_constellation c = {.planes = 72, .slots = 22, .phasing = 17};
    sky_placement p = {
        .strategy = SKY_PLACE_ROTATION, .servers = 25, .window_planes = 5, .window_slots = 5};
    for (int64_t plane = -80; plane < 80; plane += 3) {
        for (int64_t slot = -30; slot < 30; slot += 7) {
            int moved_by_slot = 0, moved_by_plane = 0, moved_back = 0;
            sky_satellite centre = sky_unwrapped(&c, 72, 22);
            for (int64_t i = 0; i < 25; i++) {
                sky_satellite first = sky_unwrapped(&c, 72 + i / 5 - 2, 22 + i % 5 - 2);
                sky_satellite at = sky_place_stepped(&c, &p, centre, first, plane, slot);
                sky_satellite west = sky_place_stepped(&c, &p, centre, first, plane, slot - 1);
                sky_satellite south = sky_place_stepped(&c, &p, centre, first, plane + 1, slot);
                sky_satellite still = sky_place_stepped(&c, &p, centre, first, 0, 0);
                moved_by_slot += !sky_satellite_equal(at, west);
                moved_by_plane += !sky_satellite_equal(at, south);
                moved_back += !sky_satellite_equal(still, first);
            }
            assert_int_equal(moved_by_slot, 5);
            assert_int_equal(moved_by_plane, 5);
            assert_int_equal(moved_back, 0);
        }
    }
    p.window_planes = p.window_slots = 1; /* a head is always on the centre */
    sky_satellite at = sky_place_stepped(&c, &p, (sky_satellite){72, 3}, (sky_satellite){72, 3}, 1,
                                         0);
    assert_true(at.plane == 1 && at.slot == 20);
}

/* With the planes left alone it is the ideal rule. */
static void without_planes_it_is_the_ideal_rule(void **state) {
    (void)state;
    sky_constellation c = {.planes = 9, .slots = 19};
    sky_placement p = {
        .strategy = SKY_PLACE_ROTATION, .servers = 15, .window_planes = 3, .window_slots = 5};
    sky_satellite centre = {9, 2};
    for (int64_t turns = 0; turns < 60; turns++) {
        for (int64_t i = 0; i < 15; i++) {
            sky_satellite first = sky_unwrapped(&c, 9 + i / 5 - 1, 2 + i % 5 - 2);
            sky_satellite a = sky_place_shifted(&c, &p, centre, first, (uint64_t)turns);
            sky_satellite b = sky_place_stepped(&c, &p, centre, first, 0, -turns);
            assert_true(sky_satellite_equal(a, b));
        }
    }
}

static void light_takes_what_the_orbits_say(void **state) {
    (void)state;
    sky_frame f;
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
    make_frame(&f, "starlink-a", &p, 2000);
    sky_fleet *fleet;
    sky_observer o = {.latitude_deg = 47.6, .longitude_deg = -122.3, .min_elevation_deg = 25};
    assert_int_equal(sky_fleet_walker(&sky_shell_find("starlink-a")->constellation,
                                      SKY_SHELL_EPOCH_MS, &fleet, NULL),
                     SKY_OK);
    uint32_t relayed = 0;
    for (uint64_t turn = 0; turn < 2000; turn += 13) {
        int64_t ms = start_ms + (int64_t)turn * SKY_HANDOVER_MS;
        sky_satellite centre = sky_frame_centre(&f, turn);
        assert_true(sky_frame_in_sight(&f, turn));
        for (uint32_t i = 1; i <= 9; i++) {
            sky_satellite s = sky_frame_first(&f, centre, i);
            sky_motion at;
            assert_int_equal(sky_fleet_state(fleet, sky_fleet_number(fleet, s), ms, &at),
                             SKY_ORBIT_FINE);
            sky_look look = sky_observer_look(&o, ms, at.r_km);
            double straight = look.range_km / 299792.458 * 1e9;
            sky_time ns = sky_frame_ground_ns(&f, s, turn);
            if (look.elevation_deg >= 25)
                assert_true(fabs((double)ns - straight) <= 1);
            else
                assert_true(++relayed && (double)ns > straight);
            assert_true(ns <= sky_frame_ground_ns_max(&f));
            assert_true(sky_frame_joined(&f, (sky_satellite){0, 1}, s, turn));
        }
    }
    assert_true(relayed > 0);
    /* Over the wrap of planes a neighbour is one hop, not seventeen slots and one plane. */
    sky_satellite last = {72, 1}, first = {1, 18};
    sky_time hop = sky_frame_link_ns(&f, last, first, 3);
    assert_true(hop > SKY_MS(2) && hop < SKY_MS(4));
    assert_int_equal(sky_frame_link_ns(&f, first, last, 3), hop);
    assert_true(sky_frame_link_ns(&f, (sky_satellite){1, 1}, (sky_satellite){36, 12}, 9) <=
                sky_frame_link_ns_max(&f));
    sky_fleet_destroy(fleet);
    sky_frame_deinit(&f);
}

static void aboard_nothing_moves(void **state) {
    (void)state;
    sky_frame f;
    sky_placement p = {.strategy = SKY_PLACE_HOP, .servers = 13};
    make_frame(&f, "starlink-a", &p, 600);
    assert_true(f.centre.plane == 72 && f.centre.slot == 22);
    sky_time hop = sky_frame_link_ns(&f, f.centre, (sky_satellite){71, 22}, 5);
    sky_time slot = sky_frame_link_ns(&f, f.centre, (sky_satellite){72, 21}, 5);
    for (uint32_t i = 1; i <= 13; i++) {
        sky_chunk_facts facts = facts_of(&f, 0, i);
        sky_satellite at = sky_chunk_place(&f.constellation, &f.turning, &facts, 599);
        assert_true(sky_satellite_equal(at, facts.first));
        assert_true(sky_frame_ground_ns(&f, at, 5) <= 3 * (hop > slot ? hop : slot));
    }
    assert_true(sky_frame_in_sight(&f, 5));
    sky_frame_deinit(&f);
}

static void make_small(sky_frame *f, uint32_t planes, uint32_t slots) {
    sky_physical physical = {
        .observer = {.latitude_deg = 47.6, .longitude_deg = -122.3, .min_elevation_deg = 25},
        .start_ms = start_ms,
        .slot_ms = SKY_HANDOVER_MS,
        .turns = 400};
    sky_constellation c = {
        .planes = planes, .slots = slots, .altitude_km = 550, .inclination_deg = 53};
    sky_turning turning = {.start_ms = start_ms, .rotation_ns = SKY_MS(SKY_HANDOVER_MS)};
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
    assert_int_equal(sky_fleet_walker(&c, SKY_SHELL_EPOCH_MS, &physical.fleet, NULL), SKY_OK);
    assert_int_equal(sky_frame_init_physical(f, &p, &physical, &turning, NULL), SKY_OK);
}

/* A graph of its own, searched by relaxing every laser until nothing gets nearer. */
static void relax(const sky_laser *lasers, size_t count, double *km) {
    for (bool nearer = true; nearer;) {
        nearer = false;
        for (size_t i = 0; i < count; i++) {
            const sky_laser *l = &lasers[i];
            if (!l->up)
                continue;
            double to = km[l->from] + l->km, from = km[l->to] + l->km;
            nearer |= to < km[l->to] || from < km[l->from];
            km[l->to] = fmin(km[l->to], to);
            km[l->from] = fmin(km[l->from], from);
        }
    }
}

/* Of 5 planes of 19 satellites at 550 km half the lasers between planes are behind the Earth. */
static void ways_go_round_lasers_that_are_down(void **state) {
    (void)state;
    sky_frame f;
    make_small(&f, 5, 19);
    const sky_constellation *c = &f.constellation;
    sky_fleet *fleet;
    sky_laser lasers[190];
    uint32_t down = 0, longer = 0;
    assert_int_equal(sky_fleet_walker(c, SKY_SHELL_EPOCH_MS, &fleet, NULL), SKY_OK);
    for (uint64_t turn = 0; turn < 400; turn += 57) {
        int64_t ms = start_ms + (int64_t)turn * SKY_HANDOVER_MS;
        size_t count = sky_fleet_links(fleet, ms, 80, lasers);
        for (uint32_t from = 0; from < 95; from += 7) {
            double km[95];
            for (uint32_t i = 0; i < 95; i++)
                km[i] = i == from ? 0 : INFINITY;
            relax(lasers, count, km);
            sky_satellite a = sky_fleet_place(fleet, from);
            for (uint32_t i = 0; i < 95; i++) {
                sky_satellite b = sky_fleet_place(fleet, i);
                assert_true(sky_frame_joined(&f, a, b, turn));
                double ns = km[i] / 299792.458 * 1e9;
                assert_true(fabs((double)sky_frame_link_ns(&f, a, b, turn) - ns) <= 1);
                assert_true(ns <= (double)sky_frame_link_ns_max(&f));
            }
        }
        for (size_t i = 0; i < count; i++) {
            const sky_laser *l = &lasers[i];
            sky_time way = sky_frame_link_ns(&f, sky_fleet_place(fleet, l->from),
                                             sky_fleet_place(fleet, l->to), turn);
            down += !l->up;
            longer += !l->up && (double)way > 1.5 * l->km / 299792.458 * 1e9;
        }
    }
    assert_in_range(down, 7 * 40, 7 * 50);
    assert_true(longer > down / 2);
    sky_fleet_destroy(fleet);
    sky_frame_deinit(&f);
}

/* From hop to hop, as satellites pass a datagram on, each of which knows the whole sky. */
static sky_time walk(const sky_frame *f, sky_satellite a, sky_satellite b, uint64_t turn) {
    sky_time ns = 0;
    for (uint32_t hops = 0; !sky_satellite_equal(a, b); hops++) {
        sky_satellite next = {0, 0};
        assert_true(hops < sky_frame_hops_max(f));
        assert_true(sky_frame_hop(f, a, b, turn, &next));
        ns += sky_frame_link_ns(f, a, next, turn);
        a = next;
    }
    return ns;
}

static void walk_all(const sky_frame *f, uint32_t some) {
    const uint32_t count = f->satellite_count;
    for (uint64_t turn = 0; turn < 400; turn += 133) {
        for (uint32_t i = 0; i < count * count; i += some) {
            sky_satellite a = sky_frame_satellite(f, i / count);
            sky_satellite b = sky_frame_satellite(f, i % count);
            sky_time apart = walk(f, a, b, turn) - sky_frame_link_ns(f, a, b, turn);
            assert_in_range(apart + 40, 0, 80); /* each is rounded */
        }
    }
}

/* Where all lasers hold as well: those between planes may join a slot to one farther on, and steps
 * of the grid would be no lasers. */
static void hops_are_the_shortest_way(void **state) {
    (void)state;
    sky_frame f;
    sky_satellite hop;
    make_small(&f, 5, 19);
    assert_false(sky_frame_whole(&f));
    walk_all(&f, 3);
    sky_frame_deinit(&f);
    make_small(&f, 15, 14);
    assert_true(sky_frame_whole(&f));
    walk_all(&f, 17);
    sky_frame_deinit(&f);
    make_small(&f, 5, 7);
    sky_satellite centre = sky_frame_centre(&f, 0), beside = {centre.plane, centre.slot % 7 + 1};
    assert_false(sky_frame_hop(&f, centre, beside, 0, &hop));
    sky_frame_deinit(&f);
}

/* Seven a plane are too few to see each other over the horizon: what is not overhead is cut off. */
static void where_no_laser_holds_nothing_is_joined(void **state) {
    (void)state;
    sky_frame f;
    make_small(&f, 5, 7);
    uint32_t direct = 0, sights = 0;
    for (uint64_t turn = 0; turn < 400; turn++) {
        sky_satellite centre = sky_frame_centre(&f, turn);
        sky_satellite beside = {centre.plane, centre.slot % 7 + 1};
        assert_false(sky_frame_joined(&f, centre, beside, turn));
        assert_true(sky_frame_joined(&f, centre, centre, turn));
        assert_true(sky_frame_link_ns(&f, centre, beside, turn) <= sky_frame_link_ns_max(&f));
        sights += sky_frame_in_sight(&f, turn);
        direct += sky_frame_joined(&f, (sky_satellite){0, 1}, centre, turn);
        assert_false(sky_frame_joined(&f, beside, (sky_satellite){0, 1}, turn));
    }
    assert_true(sights > 0 && direct == sights);
    sky_frame_deinit(&f);
}

/* ---- other places ---- */

static void make_ground(sky_frame *f, const sky_frame *home, double latitude, double longitude,
                        double km_h) {
    sky_physical p = {
        .observer = {.latitude_deg = latitude, .longitude_deg = longitude, .min_elevation_deg = 25},
        .speed_km_h = km_h,
        .course_deg = 90,
        .start_ms = start_ms,
        .slot_ms = SKY_HANDOVER_MS,
        .turns = 1};
    assert_int_equal(sky_fleet_walker(&home->constellation, SKY_SHELL_EPOCH_MS, &p.fleet, NULL),
                     SKY_OK);
    assert_int_equal(sky_frame_init_ground(f, home, (sky_steps){0, 0}, &p, NULL), SKY_OK);
}

/* Through the highest of its own sky; placements and ways are those of home. */
static void another_place_has_its_own_light(void **state) {
    (void)state;
    sky_frame home, london;
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 25};
    make_frame(&home, "starlink-a", &p, 200);
    make_ground(&london, &home, 51.5, -0.1, 0);
    const sky_fleet *fleet = home.physical->given.fleet;
    sky_observer o = {.latitude_deg = 51.5, .longitude_deg = -0.1, .min_elevation_deg = 25};
    for (uint64_t turn = 0; turn < 200; turn += 9) {
        double best = -90, km = 0;
        for (uint32_t i = 0; i < home.satellite_count; i++) {
            sky_motion at;
            int64_t ms = start_ms + (int64_t)turn * SKY_HANDOVER_MS;
            assert_int_equal(sky_fleet_state(fleet, i, ms, &at), SKY_ORBIT_FINE);
            sky_look look = sky_observer_look(&o, ms, at.r_km);
            km = look.elevation_deg > best ? look.range_km : km;
            best = look.elevation_deg > best ? look.elevation_deg : best;
        }
        sky_satellite access = sky_frame_access(&london, turn);
        sky_satellite centre = sky_frame_centre(&london, turn);
        sky_time up = sky_frame_ground_ns(&london, access, turn);
        assert_true(fabs((double)up - km / 299792.458 * 1e9) <= 1);
        assert_true(sky_satellite_equal(centre, sky_frame_centre(&home, turn)));
        assert_int_equal(sky_frame_ground_ns(&london, centre, turn),
                         up + sky_frame_link_ns(&home, access, centre, turn));
        assert_true(sky_frame_in_sight(&london, turn) && best > 25);
        assert_true(sky_frame_ground_ns_max(&london) >= sky_frame_ground_ns(&london, centre, turn));
    }
    sky_frame_deinit_ground(&london);
    sky_frame_deinit(&home);
}

/* Four hours on a ship or a plane: there as if one stood there. */
static void a_ground_moves(void **state) {
    (void)state;
    sky_frame home, plane, there;
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
    make_frame(&home, "starlink-a", &p, 1000);
    make_ground(&plane, &home, 0, 10, 900);
    make_ground(&there, &home, 0, 10 + 3600 / 6371.0088 * 180 / 3.14159265358979, 0);
    sky_satellite from = sky_frame_access(&plane, 960), at = sky_frame_access(&there, 960);
    assert_true(sky_satellite_equal(from, at));
    sky_time ns = sky_frame_ground_ns(&plane, from, 960) - sky_frame_ground_ns(&there, at, 960);
    assert_in_range(ns + 10, 0, 20);
    assert_false(sky_satellite_equal(sky_frame_access(&plane, 0), sky_frame_access(&there, 0)));
    sky_frame_deinit_ground(&there);
    sky_frame_deinit_ground(&plane);
    sky_frame_deinit(&home);
}

/* Before the turn it is the one place's table, from it on the other's. */
static void the_window_goes_to_another_place(void **state) {
    (void)state;
    const sky_observer seattle = {
        .latitude_deg = 47.6, .longitude_deg = -122.3, .min_elevation_deg = 25};
    const sky_observer london = {
        .latitude_deg = 51.5, .longitude_deg = -0.1, .min_elevation_deg = 25};
    const sky_anchor anchor = {london, 100};
    sky_turning turning = {.start_ms = start_ms, .rotation_ns = SKY_MS(SKY_HANDOVER_MS)};
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
    sky_frame frames[3]; /* here, there from turn 100 on, and from here to there */
    for (int i = 0; i < 3; i++) {
        sky_physical physical = {.observer = i == 1 ? london : seattle,
                                 .start_ms = start_ms + (i == 1 ? 100 * SKY_HANDOVER_MS : 0),
                                 .slot_ms = SKY_HANDOVER_MS,
                                 .turns = i == 1 ? 100 : 200,
                                 .hysteresis_deg = 3,
                                 .anchors = &anchor,
                                 .anchor_count = i == 2};
        assert_int_equal(sky_fleet_walker(&sky_shell_find("starlink-a")->constellation,
                                          SKY_SHELL_EPOCH_MS, &physical.fleet, NULL),
                         SKY_OK);
        assert_int_equal(sky_frame_init_physical(&frames[i], &p, &physical, &turning, NULL),
                         SKY_OK);
    }
    uint32_t differ = 0;
    for (uint64_t turn = 0; turn < 200; turn++) {
        sky_satellite at = sky_frame_centre(&frames[2], turn);
        sky_satellite here = sky_frame_centre(&frames[0], turn);
        differ += !sky_satellite_equal(at, here);
        if (turn < 100)
            assert_true(sky_satellite_equal(at, here));
        else
            assert_true(sky_satellite_equal(at, sky_frame_centre(&frames[1], turn - 100)));
    }
    assert_int_equal(differ, 100);
    for (int i = 0; i < 3; i++)
        sky_frame_deinit(&frames[i]);
}

static void what_has_no_grid_is_refused(void **state) {
    (void)state;
    static const char tle[] =
        "1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753\n"
        "2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667\n";
    sky_physical physical = {.slot_ms = 15000, .turns = 10};
    sky_turning turning = {.rotation_ns = 1};
    sky_placement p = {.strategy = SKY_PLACE_ROTATION, .servers = 9};
    sky_frame f;
    assert_int_equal(sky_fleet_parse(tle, sizeof tle - 1, "x", &physical.fleet, NULL), SKY_OK);
    assert_int_equal(sky_frame_init_physical(&f, &p, &physical, &turning, NULL), SKY_E_PARAM);
    /* Nor a window that does not fit. */
    assert_int_equal(
        sky_fleet_walker(&sky_shell_find("starlink-b")->constellation, 0, &physical.fleet, NULL),
        SKY_OK);
    p.servers = 49;
    assert_int_equal(sky_frame_init_physical(&f, &p, &physical, &turning, NULL), SKY_E_PARAM);
}

/* Strangers' facts come to some satellite, the same for all. */
static void any_facts_have_a_place(void **state) {
    (void)state;
    sky_frame f;
    sky_placement p = {.strategy = SKY_PLACE_ROTATION, .servers = 9};
    make_frame(&f, "kuiper-a", &p, 500);
    const sky_constellation *c = &f.constellation;
    for (uint32_t i = 0; i < 2000; i++) {
        sky_chunk_facts facts = {.set_ms = (int64_t)i * 99999999999LL - 50000000000000LL,
                                 .centre = {i % c->planes + 1, i * 7 % c->slots + 1},
                                 .first = {i * 13 % c->planes + 1, i * 5 % c->slots + 1},
                                 .window_planes = (uint16_t)(i % (c->planes + 1)),
                                 .window_slots = (uint16_t)(i * 3 % (c->slots + 1)),
                                 .strategy = SKY_PLACE_ROTATION};
        assert_true(sky_facts_fit(c, &facts));
        sky_satellite at = sky_chunk_place(c, &f.turning, &facts, i % 3 ? i : UINT64_MAX);
        assert_in_range(at.plane, 1, c->planes);
        assert_in_range(at.slot, 1, c->slots);
    }
    sky_frame_deinit(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_follow_the_observer),
        cmocka_unit_test(a_step_moves_one_row_or_column),
        cmocka_unit_test(without_planes_it_is_the_ideal_rule),
        cmocka_unit_test(light_takes_what_the_orbits_say),
        cmocka_unit_test(aboard_nothing_moves),
        cmocka_unit_test(ways_go_round_lasers_that_are_down),
        cmocka_unit_test(hops_are_the_shortest_way),
        cmocka_unit_test(where_no_laser_holds_nothing_is_joined),
        cmocka_unit_test(another_place_has_its_own_light),
        cmocka_unit_test(a_ground_moves),
        cmocka_unit_test(the_window_goes_to_another_place),
        cmocka_unit_test(what_has_no_grid_is_refused),
        cmocka_unit_test(any_facts_have_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
