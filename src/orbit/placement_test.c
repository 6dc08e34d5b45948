/* Proves the placement rules against the seed's figures, against a naive flood and a naive rotation
 * over random constellations, and that nonsense is refused with a reason. */
#include <float.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem-sky/sky.h>

#include "base/lines_fixture.h"
#include "base/prng.h"
#include "orbit/geometry.h"
#include "orbit/torus.h"

#define SERVERS_HERE 512

typedef struct {
    char verb[16];
    sky_constellation sky;
    sky_satellite centre;
    sky_placement placement;
    uint64_t shift;
    const char *expected;
} golden_case;

/* ---- golden vectors ---- */

static void parse_case(char *line, golden_case *g) {
    char strategy[16];
    char window[16];
    char *equals = strstr(line, " =");
    assert_non_null(equals);
    *equals = 0;
    g->expected = equals + 2 + (equals[2] == ' ');
    *g = (golden_case){.expected = g->expected, .sky = {.altitude_km = 550}};
    int n = sscanf(line, "%15s %u %u %u,%u %15s %u %15s %lf,%lf %" SCNu64, g->verb, &g->sky.planes,
                   &g->sky.slots, &g->centre.slot, &g->centre.plane, strategy,
                   &g->placement.servers, window, &g->placement.weight_intra,
                   &g->placement.weight_inter, &g->shift);
    assert_int_equal(n, 11);
    assert_int_equal(sky_strategy_parse(strategy, &g->placement.strategy), SKY_OK);
    if (strcmp(window, "auto") != 0)
        assert_int_equal(
            sscanf(window, "%ux%u", &g->placement.window_planes, &g->placement.window_slots), 2);
}

static void expect_layout(const golden_case *g, const sky_placement *resolved) {
    static sky_satellite at[SERVERS_HERE];
    char text[16 * SERVERS_HERE] = "";
    assert_int_equal(sky_place(&g->sky, resolved, g->centre, at), SKY_OK);
    for (uint32_t i = 0; i < resolved->servers; i++) {
        sky_satellite s = sky_place_shifted(&g->sky, resolved, g->centre, at[i], g->shift);
        sprintf(text + strlen(text), "%s%u,%u", i ? " " : "", s.slot, s.plane);
    }
    assert_string_equal(text, g->expected);
}

static void expect_moves(const golden_case *g, const sky_placement *resolved) {
    static sky_move moves[SERVERS_HERE];
    char text[32 * SERVERS_HERE] = "";
    int64_t count = sky_moves(&g->sky, resolved, g->centre, g->shift, moves);
    assert_true(count >= 0);
    for (int64_t i = 0; i < count; i++)
        sprintf(text + strlen(text), "%s%u:%u,%u>%u,%u", i ? " " : "", moves[i].server,
                moves[i].from.slot, moves[i].from.plane, moves[i].to.slot, moves[i].to.plane);
    assert_string_equal(text, g->expected);
}

static void run_case(const golden_case *g) {
    sky_placement resolved = {0};
    sky_error error = {0};
    sky_status status = sky_placement_resolve(&g->sky, &g->placement, &resolved, &error);
    if (strcmp(g->verb, "reject") == 0) {
        assert_int_equal(status, SKY_E_PARAM);
        assert_int_equal(resolved.servers, 0); /* untouched */
        assert_non_null(strstr(error.text, g->expected));
        return;
    }
    assert_int_equal(status, SKY_OK);
    if (strcmp(g->verb, "layout") == 0) {
        expect_layout(g, &resolved);
    } else if (strcmp(g->verb, "moves") == 0) {
        expect_moves(g, &resolved);
    } else {
        char text[32];
        assert_string_equal(g->verb, "window");
        sprintf(text, "%ux%u", resolved.window_planes, resolved.window_slots);
        assert_string_equal(text, g->expected);
    }
}

static void golden_vectors_hold(void **state) {
    (void)state;
    sky_lines vectors;
    int cases = 0;
    sky_lines_open(&vectors, "tests/golden/placement.txt");
    for (char *line; (line = sky_lines_next(&vectors));) {
        golden_case g;
        parse_case(line, &g);
        run_case(&g);
        cases++;
    }
    assert_true(cases >= 30);
}

/* ---- properties ---- */

static bool same(sky_satellite a, sky_satellite b) {
    return a.plane == b.plane && a.slot == b.slot;
}

static uint32_t wrapped(int64_t number, uint32_t count) {
    int64_t n = (int64_t)count;
    return (uint32_t)(((number - 1) % n + n) % n) + 1;
}

/* A random placement that resolves, in a random constellation. */
static void draw(sky_prng *prng, sky_constellation *c, sky_placement *resolved,
                 sky_satellite *centre) {
    for (;;) {
        *c = (sky_constellation){.planes = 1 + (uint32_t)sky_prng_below(prng, 20),
                                 .slots = 1 + (uint32_t)sky_prng_below(prng, 24),
                                 .altitude_km = 550};
        sky_placement p = {.strategy = (sky_strategy)sky_prng_below(prng, 3),
                           .servers = 1 + (uint32_t)sky_prng_below(prng, 80)};
        if (sky_prng_below(prng, 2)) {
            p.window_planes = 1 + 2 * (uint32_t)sky_prng_below(prng, 6);
            p.window_slots = 1 + 2 * (uint32_t)sky_prng_below(prng, 12);
        }
        *centre = (sky_satellite){1 + (uint32_t)sky_prng_below(prng, c->planes),
                                  1 + (uint32_t)sky_prng_below(prng, c->slots)};
        if (sky_placement_resolve(c, &p, resolved, NULL) == SKY_OK)
            return;
    }
}

static void expect_distinct(const sky_constellation *c, const sky_satellite *at, uint32_t count) {
    bool taken[24 * 24] = {false};
    for (uint32_t i = 0; i < count; i++) {
        assert_true(at[i].plane >= 1 && at[i].plane <= c->planes);
        assert_true(at[i].slot >= 1 && at[i].slot <= c->slots);
        bool *seat = &taken[(at[i].plane - 1) * c->slots + at[i].slot - 1];
        assert_false(*seat);
        *seat = true;
    }
}

/* Breadth-first by the book: a queue, four links, a mark on what was seen, a window on slots that
 * are not wrapped. */
static void naive_flood(const sky_constellation *c, const sky_placement *p, sky_satellite centre,
                        sky_satellite *out) {
    struct {
        int64_t plane, slot;
    } queue[24 * 24], at, next;
    bool seen[24 * 24] = {false};
    static const int steps[4][2] = {{-1, 0}, {0, 1}, {1, 0}, {0, -1}};
    size_t head = 0;
    size_t tail = 0;
    queue[tail++] = (__typeof__(at)){centre.plane, centre.slot};
    seen[(centre.plane - 1) * c->slots + centre.slot - 1] = true;
    for (uint32_t n = 0; n < p->servers; n++) {
        assert_true(head < tail);
        at = queue[head++];
        out[n] = (sky_satellite){wrapped(at.plane, c->planes), wrapped(at.slot, c->slots)};
        for (int i = 0; i < 4; i++) {
            next.plane = at.plane + steps[i][0];
            next.slot = at.slot + steps[i][1];
            if (p->strategy == SKY_PLACE_ROTATION_HOP &&
                (llabs(next.plane - centre.plane) > p->window_planes / 2 ||
                 llabs(next.slot - centre.slot) > p->window_slots / 2))
                continue;
            bool *mark = &seen[(wrapped(next.plane, c->planes) - 1) * c->slots +
                               wrapped(next.slot, c->slots) - 1];
            if (!*mark) {
                *mark = true;
                memcpy(&queue[tail++], &next, sizeof next);
            }
        }
    }
}

static void flood_is_breadth_first(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 1);
    sky_satellite at[80];
    sky_satellite naive[80];
    for (int round = 0; round < 5000; round++) {
        sky_constellation c;
        sky_placement p;
        sky_satellite centre;
        draw(&prng, &c, &p, &centre);
        if (p.strategy == SKY_PLACE_ROTATION)
            continue;
        assert_int_equal(sky_place(&c, &p, centre, at), SKY_OK);
        naive_flood(&c, &p, centre, naive);
        for (uint32_t i = 0; i < p.servers; i++)
            assert_true(same(at[i], naive[i]));
    }
}

static double weighted_cost(const sky_constellation *c, const sky_placement *p, sky_satellite a,
                            sky_satellite b) {
    uint32_t dp = a.plane > b.plane ? a.plane - b.plane : b.plane - a.plane;
    uint32_t ds = a.slot > b.slot ? a.slot - b.slot : b.slot - a.slot;
    dp = dp < c->planes - dp ? dp : c->planes - dp;
    ds = ds < c->slots - ds ? ds : c->slots - ds;
    return ds * p->weight_intra + dp * p->weight_inter;
}

/* Least cost first, and nothing nearer is left out. */
static void weighted_flood_is_least_cost_first(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 2);
    sky_satellite at[80];
    for (int round = 0; round < 1000; round++) {
        sky_constellation c;
        sky_placement p;
        sky_satellite centre;
        draw(&prng, &c, &p, &centre);
        if (p.strategy != SKY_PLACE_HOP)
            continue;
        p.weight_intra = 0.1 + sky_prng_unit(&prng);
        p.weight_inter = 0.1 + sky_prng_unit(&prng);
        assert_int_equal(sky_place(&c, &p, centre, at), SKY_OK);
        expect_distinct(&c, at, p.servers);
        double last = 0;
        for (uint32_t i = 0; i < p.servers; i++) {
            double cost = weighted_cost(&c, &p, centre, at[i]);
            assert_true(cost >= last);
            last = cost;
        }
        uint32_t nearer = 0;
        for (uint32_t plane = 1; plane <= c.planes; plane++)
            for (uint32_t slot = 1; slot <= c.slots; slot++)
                nearer += weighted_cost(&c, &p, centre, (sky_satellite){plane, slot}) < last;
        assert_true(nearer < p.servers);
    }
}

/* One rotation by the book: slots are not wrapped, the window goes one to the west, what is east of
 * it goes W to the west. */
static void rotation_moves_one_column(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 3);
    sky_satellite first[80];
    sky_satellite at[80];
    sky_move moves[80];
    for (int round = 0; round < 400; round++) {
        sky_constellation c;
        sky_placement p;
        sky_satellite centre;
        draw(&prng, &c, &p, &centre);
        assert_int_equal(sky_place(&c, &p, centre, first), SKY_OK);
        expect_distinct(&c, first, p.servers);
        bool turns = p.strategy != SKY_PLACE_HOP;
        int64_t width = p.window_slots;
        int64_t unwrapped[80];
        for (uint32_t i = 0; i < p.servers; i++)
            unwrapped[i] = turns
                               ? (int64_t)centre.slot - width / 2 +
                                     (first[i].slot + c.slots - centre.slot + p.window_slots / 2) %
                                         c.slots
                               : first[i].slot;
        uint64_t turns_total = 3 * c.slots + p.window_slots;
        for (uint64_t k = 1; k <= turns_total; k++) {
            int64_t count = sky_moves(&c, &p, centre, k, moves);
            assert_true(count >= 0);
            int64_t next_move = 0;
            for (uint32_t i = 0; i < p.servers; i++) {
                uint32_t before = wrapped(unwrapped[i], c.slots);
                if (turns && unwrapped[i] > (int64_t)centre.slot - (int64_t)k + width / 2)
                    unwrapped[i] -= width;
                uint32_t after = wrapped(unwrapped[i], c.slots);
                at[i] = sky_place_shifted(&c, &p, centre, first[i], k);
                assert_int_equal(at[i].slot, after);
                assert_int_equal(at[i].plane, first[i].plane);
                if (before == after)
                    continue;
                assert_true(next_move < count);
                assert_int_equal(moves[next_move].server, i + 1);
                assert_int_equal(moves[next_move].from.slot, before);
                assert_int_equal(moves[next_move].to.slot, after);
                assert_int_equal(moves[next_move].to.plane, first[i].plane);
                next_move++;
            }
            assert_int_equal(next_move, count);
            expect_distinct(&c, at, p.servers);
        }
    }
}

/* In W rotations every server moves exactly once, unless the window is the whole ring. */
static void every_server_moves_once_in_w_rotations(void **state) {
    (void)state;
    sky_prng prng;
    sky_prng_init(&prng, 4);
    sky_move moves[80];
    for (int round = 0; round < 500; round++) {
        sky_constellation c;
        sky_placement p;
        sky_satellite centre;
        draw(&prng, &c, &p, &centre);
        uint64_t start = sky_prng_u64(&prng) >> 1;
        uint32_t moved[80] = {0};
        uint32_t rotations = p.strategy == SKY_PLACE_HOP ? 5 : p.window_slots;
        for (uint32_t k = 1; k <= rotations; k++) {
            int64_t count = sky_moves(&c, &p, centre, start + k, moves);
            for (int64_t i = 0; i < count; i++)
                moved[moves[i].server - 1]++;
        }
        bool still = p.strategy == SKY_PLACE_HOP || p.window_slots == c.slots;
        for (uint32_t i = 0; i < p.servers; i++)
            assert_int_equal(moved[i], still ? 0 : 1);
    }
}

/* Both or none, above zero, and not so large that sums overflow. */
static void weights_have_bounds(void **state) {
    (void)state;
    const double most = DBL_MAX / 1e6;
    const struct {
        double intra, inter;
        sky_status status;
    } cases[] = {{0, 0, SKY_OK},       {0.5, 0.25, SKY_OK},        {most, most, SKY_OK},
                 {1, 0, SKY_E_PARAM},  {0, 1, SKY_E_PARAM},        {-1, 1, SKY_E_PARAM},
                 {1, -1, SKY_E_PARAM}, {2 * most, 1, SKY_E_PARAM}, {1, 2 * most, SKY_E_PARAM}};
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sky_placement p = {.strategy = SKY_PLACE_HOP,
                           .servers = 9,
                           .weight_intra = cases[i].intra,
                           .weight_inter = cases[i].inter};
        sky_placement out;
        assert_int_equal(sky_placement_resolve(&c, &p, &out, NULL), cases[i].status);
    }
}

static void wrong_calls_say_so(void **state) {
    (void)state;
    sky_constellation c = {.planes = 5, .slots = 19, .altitude_km = 550};
    sky_placement p = {.strategy = SKY_PLACE_ROTATION_HOP, .servers = 9};
    sky_satellite at[9];
    sky_move moves[9];
    assert_int_equal(sky_place(&c, &p, (sky_satellite){6, 1}, at), SKY_E_PARAM);
    assert_int_equal(sky_place(&c, &p, (sky_satellite){0, 1}, at), SKY_E_PARAM);
    assert_int_equal(sky_moves(&c, &p, (sky_satellite){3, 20}, 1, moves), SKY_E_PARAM);
    assert_int_equal(sky_moves(&c, &p, (sky_satellite){3, 4}, 0, moves), SKY_E_PARAM);
    sky_constellation most = {.planes = SKY_PLANES_MAX, .slots = SKY_SLOTS_MAX};
    sky_placement out;
    p = (sky_placement){.strategy = SKY_PLACE_HOP};
    assert_int_equal(sky_placement_resolve(&most, &p, &out, NULL), SKY_E_PARAM);
    sky_strategy none = 0;
    while (strcmp(sky_strategy_name(none), "unknown") != 0)
        none++;
    sky_placement unknown = {.strategy = none, .servers = 9};
    assert_int_equal(sky_placement_resolve(&c, &unknown, &out, NULL), SKY_E_PARAM);
    p.servers = SKY_SERVERS_MAX + 1;
    assert_int_equal(sky_placement_resolve(&most, &p, &out, NULL), SKY_E_PARAM);
    p.servers--;
    assert_int_equal(sky_placement_resolve(&most, &p, &out, NULL), SKY_OK);
    sky_strategy strategy = SKY_PLACE_HOP;
    assert_int_equal(sky_strategy_parse("hops", &strategy), SKY_E_SYNTAX);
    assert_int_equal(strategy, SKY_PLACE_HOP);
    assert_string_equal(sky_strategy_name((sky_strategy)7), "unknown");
}

static void the_largest_placement_is_quick(void **state) {
    (void)state;
    sky_constellation c = {.planes = SKY_PLANES_MAX, .slots = SKY_SLOTS_MAX, .altitude_km = 550};
    sky_placement p = {.strategy = SKY_PLACE_HOP, .servers = SKY_SERVERS_MAX};
    sky_satellite *at = malloc(SKY_SERVERS_MAX * sizeof *at);
    assert_non_null(at);
    sky_satellite centre = {1, 1};
    assert_int_equal(sky_place(&c, &p, centre, at), SKY_OK);
    for (uint32_t i = 1; i < SKY_SERVERS_MAX; i++)
        assert_true(sky_grid_km(&c, centre, at[i]) > 0);
    free(at);
}

/* Rotation fills its window from the north-west, a row after the other, with the centre in the
 * middle of a window of any shape. */
static void a_window_is_filled_by_rows(void **state) {
    (void)state;
    const sky_constellation c = {.planes = 9, .slots = 19, .altitude_km = 550};
    static const uint32_t shapes[][2] = {{1, 1}, {1, 5}, {5, 1}, {3, 3}, {5, 7}, {7, 5}, {9, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t planes = shapes[i][0], slots = shapes[i][1];
        sky_placement wanted = {.strategy = SKY_PLACE_ROTATION,
                                .servers = planes * slots,
                                .window_planes = planes,
                                .window_slots = slots},
                      p;
        static sky_satellite at[SERVERS_HERE];
        assert_int_equal(sky_placement_resolve(&c, &wanted, &p, NULL), SKY_OK);
        assert_int_equal(sky_place(&c, &p, (sky_satellite){5, 10}, at), SKY_OK);
        wanted.strategy = SKY_PLACE_HOP; /* which has no window */
        sky_placement hop;
        assert_int_equal(sky_placement_resolve(&c, &wanted, &hop, NULL), SKY_OK);
        assert_int_equal(hop.window_planes + hop.window_slots, 0);
        for (uint32_t s = 0; s < p.servers; s++) {
            assert_int_equal(at[s].plane, 5 - planes / 2 + s / slots);
            assert_int_equal(at[s].slot, 10 - slots / 2 + s % slots);
        }
    }
}

/* Counted on without wrapping, a slot moves by the phasing at each round of the planes. */
static void neighbours_stay_neighbours_over_the_seam(void **state) {
    (void)state;
    for (uint32_t phasing = 0; phasing < 7; phasing++) {
        const sky_constellation c = {.planes = 5, .slots = 7, .phasing = phasing};
        for (int64_t plane = -14; plane <= 16; plane++) {
            for (int64_t slot = -9; slot <= 17; slot++) {
                int64_t rounds = 0, p = plane, s = slot;
                for (; p > 5; p -= 5)
                    rounds++;
                for (; p < 1; p += 5)
                    rounds--;
                s += rounds * (int64_t)phasing;
                while (s > 7)
                    s -= 7;
                while (s < 1)
                    s += 7;
                sky_satellite at = sky__untwist(&c, plane, slot);
                assert_int_equal(at.plane, p);
                assert_int_equal(at.slot, s);
            }
        }
    }
    for (uint32_t a = 1; a <= 7; a++) {
        for (uint32_t b = 1; b <= 7; b++) {
            uint32_t east = 0;
            while (sky__ring_step(a, east, 7) != b)
                east++;
            assert_true(east < 7);
            assert_int_equal(sky__ring_step(a, (int64_t)east - 7, 7), b);
            assert_int_equal(sky__ring_distance(a, b, 7), east < 7 - east ? east : 7 - east);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors_hold),
        cmocka_unit_test(flood_is_breadth_first),
        cmocka_unit_test(weighted_flood_is_least_cost_first),
        cmocka_unit_test(rotation_moves_one_column),
        cmocka_unit_test(every_server_moves_once_in_w_rotations),
        cmocka_unit_test(weights_have_bounds),
        cmocka_unit_test(wrong_calls_say_so),
        cmocka_unit_test(a_window_is_filled_by_rows),
        cmocka_unit_test(neighbours_stay_neighbours_over_the_seam),
        cmocka_unit_test(the_largest_placement_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
