/* Proves over real sockets that an adversary on the path, which sees all datagrams of a sealed sky
 * and can send anything to anybody but has no key, gets nothing taken: not what it repeats,
 * at once or later, to this station or another, before or after either end was started again, nor
 * what it changed; that none of it is answered; that all that was meant arrives, once; and that
 * what it holds back and sends on from elsewhere does not make a satellite answer there. And that a
 * ground of another sky is no ground of this one, whatever keys it has. And that a sky is known to
 * be down when nobody has any of its ports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "tier/skyudp/skyudp_fixture.h"
#include "tier/skyudp/station.h"

#define DATAGRAMS_MAX 4096
#define CHUNK_BYTES   6144
#define CHUNKS        12

/* What passed the adversary, and the two ways it went. */
typedef struct {
    uint32_t bytes;
    bool up; /* from the ground */
    uint8_t data[SKY_PACKET_BYTES_MAX];
} caught;

/* A ground station, two satellites of which it speaks to the first, and between the ground and
 * them the adversary: where the ground thinks the satellites are, it is. */
typedef struct {
    sky_udp_site site;
    sky_scenario truth, told; /* what satellites know, and what the ground does */
    sky_station *ground, *satellites[2];
    sky_seal *seal; /* the ground's */
    sky_udp *mask;  /* towards the ground: the first satellite */
    sky_udp *voice; /* towards satellites: the ground */
    sky_udp *other; /* another address of his, which he says is the ground's */
    bool diverts;   /* what goes up leaves from there, and what comes there goes no further */
    uint64_t diverted_bytes;
    sky_address ground_at, satellite_at[2];
    caught *seen;
    uint32_t seen_count;
    uint32_t copies;      /* of each datagram he passes on */
    uint32_t there, back; /* chunks, whole and right */
} fight;

static sky_station *open_station(fight *f, const sky_scenario *c, sky_satellite self) {
    sky_station_options options = {.scenario = c,
                                   .path = f->site.path,
                                   .self = self,
                                   .clock = sky_clock_system(),
                                   .direct = self.plane == 0};
    sky_station *s = NULL;
    sky_error error = {0};
    if (sky_station_open(&options, &s, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return s;
}

/* Stations' times differ by what the wall clock is read to: what is sent at once may seem to be
 * from before the other end began, and has to be sent again. */
static void settle(void) {
    int nothing = -1;
    sky_poll(&nothing, 0, sky_now() + SKY_MS(20));
}

static sky_udp *open_socket(uint16_t port) {
    static const sky_udp_options options = {.datagram_bytes_max = SKY_PACKET_BYTES_MAX,
                                            .buffer_bytes = 4 << 20};
    sky_address at;
    sky_udp *u = NULL;
    assert_int_equal(sky_address_parse("127.0.0.1:0", &at, NULL), SKY_OK);
    sky_address_set_port(&at, port);
    assert_int_equal(sky_udp_open(&at, &options, &u, NULL), SKY_OK);
    return u;
}

static sky_seal *open_seal(void) {
    static const uint8_t secret[SKY_SECRET_BYTES] = "a tenant's", salt[] = "a session's salt";
    sky_seal *s = malloc(sizeof *s);
    sky_aead *a = NULL;
    assert_non_null(s);
    assert_int_equal(sky_aead_create(&a, NULL), SKY_OK);
    sky_seal_init(s, a, sky_suites_wanted(SKY_SUITE_PLAIN), secret, salt);
    return s;
}

static void begin(fight *f) {
    memset(f, 0, sizeof *f);
    sky_udp_site_make(&f->site, 1, 5, "far: false",
                      "placement: {strategy: rotation, servers: 1}\n"
                      "links: {isl_gbps: 100, ground_mbps: 100000}\n");
    sky_error error;
    assert_int_equal(sky_scenario_load(f->site.path, &f->truth, &error), SKY_OK);
    f->told = f->truth;
    f->mask = open_socket(0);
    f->voice = open_socket(0);
    f->other = open_socket(0);
    sky_address mask = sky_udp_address(f->mask);
    f->satellites[0] = open_station(f, &f->truth, (sky_satellite){1, 1});
    f->satellites[1] = open_station(f, &f->truth, (sky_satellite){1, 2});
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sky_address_parse(f->truth.udp.base, &f->satellite_at[i], NULL), SKY_OK);
        sky_address_set_port(&f->satellite_at[i],
                             (uint16_t)(sky_address_port(&f->satellite_at[i]) + i));
    }
    sky_address_text(&mask, f->told.udp.base);
    f->ground = open_station(f, &f->told, SKY_GROUND);
    f->seal = open_seal();
    f->seen = malloc(DATAGRAMS_MAX * sizeof *f->seen);
    assert_non_null(f->seen);
    f->copies = 1;
    settle();
}

static void end(fight *f) {
    sky_station_close(f->ground);
    sky_station_close(f->satellites[0]);
    sky_station_close(f->satellites[1]);
    sky_aead_destroy(f->seal->aead);
    sky_seal_deinit(f->seal);
    free(f->seal);
    sky_udp_close(f->mask);
    sky_udp_close(f->voice);
    sky_udp_close(f->other);
    sky_udp_site_remove(&f->site);
    free(f->seen);
}

/* ---- traffic ---- */

/* Chunk `number` of what is in two versions, sealed by the ground, to whom it may concern. */
static void send_chunk(fight *f, sky_station *from, sky_satellite to, uint32_t number) {
    sky_transport *t = sky_station_transport(from);
    sky_datagram d;
    assert_true(sky_transport_begin(t, &d));
    sky_message set = {.type = SKY_WIRE_SET,
                       .id = {.version = 5, .number = number},
                       .facts = {.centre = {1, 1},
                                 .first = {1, 1},
                                 .next = {1, 1},
                                 .chunk_count = 2 * CHUNKS,
                                 .window_planes = 1,
                                 .window_slots = 1},
                       .data = d.data + sky_message_data_offset(SKY_WIRE_SET),
                       .data_bytes = CHUNK_BYTES};
    memset(d.data + sky_message_data_offset(SKY_WIRE_SET), (int)number, CHUNK_BYTES);
    d.bytes = sky_message_encode(&set, d.data, d.bytes_max);
    d.to = to;
    sky_transport_send_sealed(t, sky_station_now(from), &d, f->seal);
}

static void put(fight *f, uint32_t number) {
    send_chunk(f, f->ground, (sky_satellite){1, 1}, number);
}

/* A question much shorter than its answer. */
static void ask(fight *f, uint32_t number) {
    sky_transport *t = sky_station_transport(f->ground);
    sky_datagram d;
    assert_true(sky_transport_begin(t, &d));
    sky_message get = {.type = SKY_WIRE_GET, .id = {.version = 5, .number = number}};
    d.bytes = sky_message_encode(&get, d.data, d.bytes_max);
    d.to = (sky_satellite){1, 1};
    sky_transport_send(t, sky_station_now(f->ground), &d);
}

/* The satellite holds what it cannot read, and gives it back as it is. */
static void give_back(fight *f, sky_time now, const sky_datagram *in) {
    sky_transport *t = sky_station_transport(f->satellites[0]);
    sky_datagram d;
    sky_message m;
    assert_int_equal(sky_message_decode(in->data, in->bytes, &m), SKY_OK);
    if (m.type == SKY_WIRE_GET) {
        send_chunk(f, f->satellites[0], in->from, m.id.number);
        return;
    }
    assert_int_equal(m.data_bytes, CHUNK_BYTES + SKY_SEAL_BYTES);
    uint32_t same = 0;
    for (uint32_t i = 0; i < CHUNK_BYTES; i++)
        same += m.data[i] == m.id.number;
    assert_true(same < CHUNK_BYTES / 64);
    f->there++;
    assert_true(sky_transport_begin(t, &d));
    memcpy(d.data, in->data, in->bytes);
    d.bytes = in->bytes;
    d.to = in->from;
    sky_transport_send(t, now, &d);
}

static void check_back(fight *f, sky_datagram *d) {
    sky_message m;
    assert_int_equal(sky_seal_open(f->seal, d->data, &d->bytes), SKY_OK);
    assert_int_equal(sky_message_decode(d->data, d->bytes, &m), SKY_OK);
    assert_int_equal(m.data_bytes, CHUNK_BYTES);
    for (uint32_t i = 0; i < CHUNK_BYTES; i++)
        assert_int_equal(m.data[i], m.id.number);
    f->back++;
}

static void run(fight *f, sky_station *s) {
    sky_time now = sky_station_now(s);
    sky_datagram d;
    while (sky_station_take(s, now))
        ;
    while (sky_transport_receive(sky_station_transport(s), &d)) {
        if (s == f->ground)
            check_back(f, &d);
        else
            give_back(f, now, &d);
    }
    sky_station_send(s, now);
}

/* Keep what comes, and pass it on. */
static void overhear(fight *f, bool up) {
    uint8_t *data;
    size_t bytes;
    const sky_address *from;
    sky_udp *in = up ? f->mask : f->voice, *out = up ? f->voice : f->mask;
    if (up && f->diverts)
        out = f->other;
    while (sky_udp_receive(in)) {
        while (sky_udp_next(in, &data, &bytes, &from)) {
            assert_true(f->seen_count < DATAGRAMS_MAX);
            caught *c = &f->seen[f->seen_count++];
            c->up = up;
            c->bytes = (uint32_t)bytes;
            memcpy(c->data, data, bytes);
            if (up)
                f->ground_at = *from;
            for (uint32_t i = 0; i < f->copies; i++)
                sky_udp_put(out, up ? &f->satellite_at[0] : &f->ground_at, c->data, bytes);
        }
        sky_udp_flush(out);
    }
}

static uint64_t bytes_at(sky_udp *u) {
    uint8_t *data;
    size_t bytes;
    uint64_t sum = 0;
    const sky_address *from;
    while (sky_udp_receive(u))
        while (sky_udp_next(u, &data, &bytes, &from))
            sum += bytes;
    return sum;
}

static void run_all(fight *f) {
    run(f, f->ground);
    overhear(f, true);
    run(f, f->satellites[0]);
    run(f, f->satellites[1]);
    overhear(f, false);
    f->diverted_bytes += bytes_at(f->other);
}

/* Until so many chunks went there and came back, and nothing more is on its way. */
static void run_until(fight *f, uint32_t chunks) {
    int nothing = -1;
    sky_time deadline = sky_now() + SKY_SECONDS(10);
    while (f->back < chunks && sky_now() < deadline)
        run_all(f);
    assert_int_equal(f->back, chunks);
    for (int i = 0; i < 5; i++) {
        run_all(f);
        sky_poll(&nothing, 0, sky_now() + SKY_MS(2));
    }
}

/* Chunks 1 to CHUNKS, until all are acknowledged. */
static void put_all(fight *f) {
    for (uint32_t n = 1; n <= CHUNKS; n++)
        put(f, n);
    run_until(f, CHUNKS);
}

static sky_transport_stat stat_of(const sky_station *s) {
    sky_station_stat stat;
    sky_station_stats(s, &stat);
    return stat.transport;
}

static uint32_t count_seen(const fight *f, bool up) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->seen_count; i++)
        count += f->seen[i].up == up;
    return count;
}

/* ---- the adversary's moves ---- */

typedef void (*twist)(caught *c);

/* Send what was seen once more, changed or not, to where it went or elsewhere. */
static void repeat(fight *f, bool up, sky_udp *out, const sky_address *to, twist change) {
    for (uint32_t i = 0; i < f->seen_count; i++) {
        caught c = f->seen[i];
        if (c.up != up)
            continue;
        if (change)
            change(&c);
        sky_udp_put(out, to, c.data, c.bytes);
        sky_udp_flush(out); /* `c` is gone after this */
    }
}

static void as_the_next(caught *c) {
    c->data[34] ^= 0x40; /* the counter: one that will not come for long */
}

static void as_of_now(caught *c) {
    as_the_next(c);
    c->data[c->bytes / 2] ^= 1; /* what it says */
}

static void as_plain(caught *c) {
    c->data[5] = SKY_SUITE_PLAIN;
}

static void shorter(caught *c) {
    c->bytes = 60;
}

typedef enum { REPLAYED, FORGED, FOREIGN, STALE } reason;

static uint64_t count_of(const sky_transport_stat *stat, reason why) {
    const uint64_t counts[] = {stat->replayed, stat->forged, stat->foreign, stat->stale};
    return counts[why];
}

/* All that went up, or came down, once more to a station: each datagram is refused for the reason
 * given, nothing is taken and nothing is answered. */
static void refuses(fight *f, sky_station *s, bool up, twist change, reason why) {
    uint32_t count = count_seen(f, up);
    assert_true(count >= 6 * CHUNKS);
    sky_transport_stat before = stat_of(s), after = before;
    if (s == f->ground)
        repeat(f, up, f->mask, &f->ground_at, change);
    else
        repeat(f, up, f->voice, &f->satellite_at[s == f->satellites[1]], change);
    sky_time deadline = sky_now() + SKY_SECONDS(5);
    while (count_of(&after, why) < count_of(&before, why) + count && sky_now() < deadline) {
        run(f, s);
        after = stat_of(s);
    }
    assert_int_equal(count_of(&after, why), count_of(&before, why) + count);
    assert_int_equal(after.datagrams_taken, before.datagrams_taken);
    assert_int_equal(after.messages_taken, before.messages_taken);
    assert_int_equal(after.datagrams_sent, before.datagrams_sent);
}

static void what_is_doubled_on_the_way_is_taken_once(void **state) {
    (void)state;
    fight f;
    begin(&f);
    f.copies = 3;
    put_all(&f);
    assert_int_equal(f.there, CHUNKS);
    assert_true(count_seen(&f, true) >= 6 * CHUNKS);
    sky_transport_stat ground = stat_of(f.ground), satellite = stat_of(f.satellites[0]);
    assert_int_equal(satellite.replayed, 2 * count_seen(&f, true));
    assert_int_equal(ground.replayed, 2 * count_seen(&f, false));
    assert_int_equal(satellite.datagrams_taken, count_seen(&f, true));
    assert_int_equal(ground.datagrams_taken, count_seen(&f, false));
    assert_int_equal(ground.forged + satellite.forged + f.seal->forged, 0);
    end(&f);
}

static void what_is_repeated_or_changed_is_refused(void **state) {
    (void)state;
    fight f;
    begin(&f);
    put_all(&f);
    sky_station *satellite = f.satellites[0], *other = f.satellites[1];
    refuses(&f, satellite, true, NULL, REPLAYED);
    refuses(&f, f.ground, false, NULL, REPLAYED);
    refuses(&f, satellite, true, as_the_next, FORGED);
    refuses(&f, satellite, true, as_of_now, FORGED);
    refuses(&f, f.ground, false, as_of_now, FORGED);
    refuses(&f, satellite, true, as_plain, FOREIGN);
    refuses(&f, satellite, true, shorter, FOREIGN);
    refuses(&f, other, true, NULL, FOREIGN); /* not for whom it was meant */
    refuses(&f, satellite, false, NULL, FOREIGN);
    refuses(&f, f.ground, true, NULL, FOREIGN);
    put(&f, CHUNKS + 1); /* and none of it stands in the way of what is right */
    run_until(&f, CHUNKS + 1);
    assert_int_equal(f.seal->forged, 0);
    end(&f);
}

/* Its memory is empty, and what was seen before it began is no newer for that. */
static void who_starts_again_takes_nothing_old(void **state) {
    (void)state;
    fight f;
    begin(&f);
    put_all(&f);
    sky_station_close(f.satellites[0]);
    settle();
    f.satellites[0] = open_station(&f, &f.truth, (sky_satellite){1, 1});
    settle();
    refuses(&f, f.satellites[0], true, NULL, STALE);
    put(&f, CHUNKS + 1);
    run_until(&f, CHUNKS + 1);
    sky_station_close(f.ground); /* a ground that starts again is another station */
    f.ground = open_station(&f, &f.told, SKY_GROUND);
    settle();
    put(&f, CHUNKS + 2);
    run_until(&f, CHUNKS + 2);
    end(&f);
}

static uint64_t bytes_seen(const fight *f) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->seen_count; i++)
        sum += f->seen[i].up ? f->seen[i].bytes : 0;
    return sum;
}

static void run_for(fight *f, sky_time ns) {
    int nothing = -1;
    for (sky_time until = sky_now() + ns; sky_now() < until;) {
        run_all(f);
        sky_poll(&nothing, 0, sky_now() + SKY_MS(1));
    }
}

/* He holds back all the ground says and says it from elsewhere: whoever is there is sent less than
 * what was said in his name, and the ground has its answers once it is let speak for itself. */
static void who_proved_nothing_gets_no_more_than_was_sent(void **state) {
    (void)state;
    fight f;
    begin(&f);
    f.diverts = true;
    for (uint32_t n = 1; n <= CHUNKS; n++)
        ask(&f, n);
    run_for(&f, SKY_MS(300));
    assert_int_equal(f.back, 0);
    assert_true(f.diverted_bytes > 0 && f.diverted_bytes <= bytes_seen(&f));
    f.diverts = false;
    ask(&f, CHUNKS + 1);
    run_until(&f, CHUNKS + 1);
    assert_int_equal(stat_of(f.ground).forged + f.seal->forged, 0);
    end(&f);
}

/* The same when it is known where the ground is: it goes on to be answered there. */
static void who_proved_it_is_served_meanwhile(void **state) {
    (void)state;
    fight f;
    begin(&f);
    ask(&f, 1);
    run_until(&f, 1);
    f.diverts = true;
    for (uint32_t n = 2; n <= CHUNKS; n++)
        ask(&f, n);
    run_until(&f, CHUNKS);
    assert_true(f.diverted_bytes <= bytes_seen(&f));
    end(&f);
}

/* A ground that is somewhere else from now on is found there, and only there. */
static void who_moves_is_found_again(void **state) {
    (void)state;
    fight f;
    begin(&f);
    ask(&f, 1);
    run_until(&f, 1);
    sky_udp *before = f.voice;
    f.voice = f.other;
    f.other = before;
    ask(&f, 2); /* its answer goes to the old address, or to the new one */
    run_for(&f, SKY_MS(50));
    f.diverted_bytes = 0;
    ask(&f, 3);
    run_until(&f, 3);
    assert_int_equal(f.diverted_bytes, 0);
    end(&f);
}

static int64_t set_back_ms;

static sky_time ours_now(const sky_clock *clock) {
    (void)clock;
    return sky_now();
}

static int64_t ours_wall(const sky_clock *clock) {
    (void)clock;
    return sky_clock_system()->wall_ms(sky_clock_system()) - set_back_ms;
}

/* All that was said is of the time after the second start, by a clock that was set back before it:
 * none of it is taken again, and by one that is far behind the satellite does not start. */
static void a_clock_set_back_makes_nothing_new(void **state) {
    (void)state;
    static const sky_clock ours = {ours_now, ours_wall};
    char path[128];
    sky_error error;
    fight f;
    begin(&f);
    snprintf(path, sizeof path, "%s/floor", f.site.folder);
    sky_station_options options = {.scenario = &f.truth,
                                   .path = f.site.path,
                                   .self = {1, 1},
                                   .clock = &ours,
                                   .floor_path = path};
    set_back_ms = 0;
    sky_station_close(f.satellites[0]);
    assert_int_equal(sky_station_open(&options, &f.satellites[0], &error), SKY_OK);
    settle();
    put_all(&f);
    assert_int_equal(f.there, CHUNKS);
    sky_station_close(f.satellites[0]);
    set_back_ms = 1500;
    assert_int_equal(sky_station_open(&options, &f.satellites[0], &error), SKY_OK);
    sky_transport_stat before = stat_of(f.satellites[0]);
    repeat(&f, true, f.voice, &f.satellite_at[0], NULL);
    run_for(&f, SKY_MS(100));
    assert_int_equal(stat_of(f.satellites[0]).datagrams_taken, before.datagrams_taken);
    assert_true(stat_of(f.satellites[0]).stale > 0);
    sky_station_close(f.satellites[0]);
    f.satellites[0] = NULL;
    set_back_ms = 10000;
    assert_int_equal(sky_station_open(&options, &f.satellites[0], &error), SKY_E_DENIED);
    assert_non_null(strstr(error.text, "the clock is"));
    unlink(path);
    end(&f);
}

/* A ground that reads the same key file, and another sky from its scenario. */
static void grounds_of_another_sky_are_strangers(void **state) {
    (void)state;
    fight f;
    begin(&f);
    put(&f, 1);
    run_until(&f, 1);
    sky_scenario others[3] = {f.told, f.told, f.told};
    others[0].time.start_ms -= 1000;
    others[1].constellation.altitude_km += 1;
    others[2].chunk_bytes += 1;
    for (size_t i = 0; i < 3; i++) {
        sky_transport_stat before = stat_of(f.satellites[0]), after = before;
        sky_station_close(f.ground);
        f.ground = open_station(&f, &others[i], SKY_GROUND);
        settle();
        put(&f, 2);
        run_for(&f, SKY_MS(50));
        after = stat_of(f.satellites[0]);
        assert_true(after.forged + after.stale > before.forged + before.stale);
        assert_int_equal(after.datagrams_taken, before.datagrams_taken);
        assert_int_equal(after.datagrams_sent, before.datagrams_sent);
    }
    end(&f);
}

/* Ids of 16 bits would meet every few days in a fleet of hosts, and two stations of one id keep
 * each other from being heard. */
static void grounds_seldom_share_an_id(void **state) {
    (void)state;
    fight f;
    begin(&f);
    uint32_t all = 0;
    for (int i = 0; i < 16; i++) {
        sky_station *s = open_station(&f, &f.truth, SKY_GROUND);
        assert_int_equal(sky_station_self(s).plane, 0);
        all |= sky_station_self(s).slot;
        sky_station_close(s);
    }
    assert_true(all > SKY_PACKET_GROUND_MAX / 2); /* a high bit is 0 in all of 16: 1 in 65,536 */
    end(&f);
}

/* As long as one satellite runs, or something else has its port. */
static void a_sky_is_down_when_nothing_runs(void **state) {
    (void)state;
    fight f;
    begin(&f);
    sky_station *ground = open_station(&f, &f.truth, (sky_satellite){0, 0});
    assert_false(sky_station_is_down(ground));
    sky_station_close(f.satellites[0]);
    assert_false(sky_station_is_down(ground));
    sky_station_close(f.satellites[1]);
    assert_true(sky_station_is_down(ground));
    f.satellites[1] = open_station(&f, &f.truth, (sky_satellite){1, 2});
    assert_false(sky_station_is_down(ground));
    f.satellites[0] = open_station(&f, &f.truth, (sky_satellite){1, 1});
    sky_station_close(ground);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_doubled_on_the_way_is_taken_once),
        cmocka_unit_test(what_is_repeated_or_changed_is_refused),
        cmocka_unit_test(who_starts_again_takes_nothing_old),
        cmocka_unit_test(who_proved_nothing_gets_no_more_than_was_sent),
        cmocka_unit_test(who_proved_it_is_served_meanwhile),
        cmocka_unit_test(who_moves_is_found_again),
        cmocka_unit_test(a_clock_set_back_makes_nothing_new),
        cmocka_unit_test(grounds_of_another_sky_are_strangers),
        cmocka_unit_test(grounds_seldom_share_an_id),
        cmocka_unit_test(a_sky_is_down_when_nothing_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
