/* What came of a run's requests, and what excuses it.
 *
 * Surprises: the sky forgets a block first and counts why afterwards, so forgotten keys wait in a
 * list until the call returns (sky__run_judge_forgotten). A satellite tells how many chunks it
 * evicted, not which: each eviction waives one block that went for a missing chunk. */
#include <assert.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "lab/sim/run_state.h"

#define DISTURBED_NS SKY_SECONDS(24) /* cut off or frozen for up to 20, then catching up */
#define CATCH_UP_NS  SKY_SECONDS(4)

typedef sky__run run;
typedef sky__run_request request;

bool sky__run_anything_goes(const run *r) {
    return r->scenario.faults.liar_satellites > 0 || sky_world_now(r->world) < r->disturbed_until;
}

void sky__run_disturbed(run *r, const sky_world_event *e) {
    sky_time rotation = sky_world_frame(r->world)->turning.rotation_ns;
    sky_time longest = e->at + DISTURBED_NS + r->scenario.faults.restart_ns;
    sky_time until = sky__later(longest, e->until + CATCH_UP_NS) + 2 * rotation;
    uint64_t turn = sky_turns(&sky_world_frame(r->world)->turning, e->at);
    if (r->cut.turn != turn)
        r->cut.disturbed_until = r->disturbed_until;
    r->cut.turn = turn;
    r->cut.until = sky__later(e->until, r->cut.until);
    r->disturbed_until = sky__later(until, r->disturbed_until);
}

/* A block that was purged lost a chunk: to an eviction that has waived no other block yet? */
static bool eviction_explains(run *r) {
    sky_world_stat stat;
    sky_world_stats(r->world, &stat);
    if (r->evictions_used == stat.nodes.evictions)
        return false;
    r->evictions_used++;
    return true;
}

/* Blocks [first, end) of the forgotten went together: a block that lost a chunk takes those below
 * it along. One of them may be waived, or was known from its head alone and owed to nobody. */
static bool one_waives(const run *r, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const sky_check_key *k = &r->check.keys[r->forgotten[i].key];
        if (!k->acknowledged || k->waived)
            return true;
    }
    return false;
}

/* Another ground may have replaced or removed it, or this one made room. */
static void waive_forgotten(run *r) {
    while (r->forgotten_count > 0)
        sky_check_waive(&r->check, r->forgotten[--r->forgotten_count].key);
}

void sky__run_judge_forgotten(run *r) {
    if (sky__run_several(r)) {
        waive_forgotten(r);
        return;
    }
    sky_session_stat stat = {0};
    if (r->forgotten_count > 0)
        sky_session_stats(sky_world_session(r->world), &stat);
    uint64_t after = stat.purged;
    for (uint32_t end = r->forgotten_count; end > 0;) {
        uint64_t purged = after - r->forgotten[end - 1].purged;
        uint32_t first = purged == 0 ? end - 1 : purged < end ? end - (uint32_t)purged : 0;
        bool waived = purged == 0 || sky__run_anything_goes(r) || one_waives(r, first, end) ||
                      eviction_explains(r);
        after = r->forgotten[first].purged;
        while (end > first)
            sky_check_taken(&r->check, r->forgotten[--end].key, waived);
    }
    r->forgotten_count = 0;
}

uint64_t sky__run_disturbances(const run *r) {
    sky_world_stat s;
    sky_world_stats(r->world, &s);
    return s.lost + s.overflowed + s.corrupted + s.held_back + s.cut + s.crashes + s.partitions +
           s.freezes + s.hostile + s.nodes.overflow + s.nodes.refused + s.transport.undeliverable +
           s.transport.given_up + s.transport.incomplete_dropped;
}

/* For as long as a ground remembers who did not answer. In the gaps of a true sky it need not
 * try. */
bool sky__run_is_calm(run *r, uint32_t ground, sky_time since) {
    const sky_frame *f = sky_world_frame_at(r->world, ground);
    sky_time now = sky_world_now(r->world), from = since - DISTURBED_NS;
    uint64_t hurts = sky__run_disturbances(r), last = sky_turns(&f->turning, now);
    if (hurts != r->hurts_seen)
        r->hurt_at = now;
    r->hurts_seen = hurts;
    for (uint64_t turn = sky_turns(&f->turning, from); turn <= last; turn++)
        if (!sky_frame_in_sight(f, turn))
            return false;
    return hurts == 0 || r->hurt_at < from;
}

uint64_t sky__run_slowest_bits_s(const sky_scenario *s) {
    double rate = 1, worst = 1;
    for (uint32_t i = 0; i < s->elevation_count; i++)
        worst = s->elevations[i].quality.rate < worst ? s->elevations[i].quality.rate : worst;
    for (uint32_t i = 0; i < s->weather_count; i++) /* all at once */
        rate *= s->weathers[i].quality.rate;
    return (uint64_t)((double)s->links.ground_bits_s * rate * worst) + 1;
}

static bool is_evictable(const sky_index *index, uint32_t block) {
    bool free = !sky_index_pinned(index, block);
    for (uint32_t b = sky_index_next(index, 0); free && b != SKY_BLOCK_NONE;
         b = sky_index_next(index, b + 1))
        free = sky_index_parent(index, b) != block;
    return free;
}

/* A ground that made room has nothing left but what is pinned, and what that hangs below. */
static bool all_is_pinned(const sky_index *index) {
    uint32_t b = sky_index_next(index, 0);
    while (b != SKY_BLOCK_NONE && !is_evictable(index, b))
        b = sky_index_next(index, b + 1);
    return b == SKY_BLOCK_NONE && sky_index_count(index) > 0;
}

/* A value that the whole sky has no room for, or none besides what is pinned; or of which a chunk
 * was evicted while it was put, for those that another ground puts. */
static bool fits_nowhere(const run *r, const request *q, const sky_result *result) {
    const sky_session *session = sky_world_session_at(r->world, q->who.ground);
    return result->status == SKY_E_FULL &&
           (!sky_session_holdable(session, (uint32_t)r->check.value_bytes) ||
            all_is_pinned(sky_session_index(session)) ||
            r->check.keys[q->key].evicted_at > q->began);
}

/* A ground cannot know that what it does not find lies nowhere, if lasers are down at times: it may
 * have stayed on a satellite that none led away from. */
static bool may_be_cut_off(const run *r, const request *q, const sky_result *result) {
    return q->op == SKY_OP_GET && result->status == SKY_E_UNAVAILABLE &&
           !sky_frame_whole(sky_world_frame_at(r->world, q->who.ground));
}

/* An error, while nothing was in the way. Between clocks that differ one may happen, and where the
 * queue of the ground's link holds more than seconds. */
static void judge_error(run *r, const request *q, const sky_result *result) {
    bool failed = result->status != SKY_OK && result->status != SKY_MISS;
    if (failed && (q->op == SKY_OP_PUT || q->op == SKY_OP_GET) && !sky__run_anything_goes(r) &&
        !fits_nowhere(r, q, result) && !may_be_cut_off(r, q, result) &&
        r->scenario.faults.skew_ns == 0 &&
        sky_link_busy_ns(sky__run_slowest_bits_s(&r->scenario), r->scenario.links.queue_bytes) <
            SKY_SECONDS(10))
        r->unexcused += q->calm && sky__run_is_calm(r, q->who.ground, result->time.began);
}

static void note_get(run *r, const request *q, const sky_result *result, sky_time land_ns) {
    uint32_t ground = q->who.ground;
    r->interval.gets++;
    r->at[ground].gets++;
    r->interval.grounds[ground].gets++;
    r->at[ground].unanswered += result->status != SKY_OK && result->status != SKY_MISS &&
                                result->status != SKY_E_CORRUPT;
    if (result->status != SKY_OK)
        return;
    sky_time ns = result->time.ended - result->time.began;
    r->at[ground].hits++;
    r->interval.grounds[ground].hits++;
    if (r->at[ground].of_interval)
        sky_latencies_add(r->at[ground].of_interval, ns);
    sky_latencies_add(r->at[ground].latencies, ns);
    sky_latencies_add(r->latencies, ns + land_ns);
    r->interval.hits++;
    r->bytes_read += result->bytes;
    if (r->interval_latencies)
        sky_latencies_add(r->interval_latencies, ns + land_ns);
}

static void judge_put(run *r, const request *q, const sky_result *result) {
    bool stored = result->status == SKY_OK;
    if (stored) {
        sky_key key = sky_value_key(&q->value);
        r->placed &= sky_check_placed(r->world, q->who.ground, &r->scenario, &key);
    }
    r->at[q->who.ground].sets += stored;
    sky_check_set_ends(&r->check, &q->value, result->status);
    if (sky__run_several(r))
        sky_check_fresh_put_ends(&r->fresh, q->key, q->value.version, sky_world_now(r->world),
                                 stored && r->crashes == q->crashes_before);
    if (r->crashes != q->crashes_before)
        sky_check_waive(&r->check, q->value.key);
}

/* Before the sky turns nothing has moved. So satellites that were cut off in this turn and are back
 * excuse no older value: all that hold a copy of its head were asked, and no answer was lost. What
 * was evicted meanwhile is another matter. */
static bool are_back(const run *r, const request *q) {
    const sky_turning *t = &sky_world_frame(r->world)->turning;
    uint64_t turn = sky_turns(t, sky_world_now(r->world));
    return r->scenario.faults.liar_satellites == 0 && r->cut.turn == turn &&
           r->cut.until + CATCH_UP_NS < q->began && r->cut.disturbed_until < q->began &&
           r->check.keys[q->key].evicted_at <= sky_turn_begins(t, turn) &&
           sky_frame_whole(sky_world_frame(r->world)) && sky__run_disturbances(r) == q->hurts;
}

static void judge_get(run *r, request *q, const sky_result *result, sky_time land_ns) {
    sky_value name = {.seed = r->check.seed, .key = q->get.key};
    sky_key key = sky_value_key(&name);
    const sky_index *index = sky_session_index(sky_world_session_at(r->world, q->who.ground));
    bool there = sky_index_find(index, &key) != SKY_BLOCK_NONE;
    sky_world_stat stat;
    if (sky__run_several(r) && result->status == SKY_MISS) {
        sky_world_stats(r->world, &stat);
        /* A ground counts on room that others took; in a true sky's gaps what moves is late; who
         * lies may be all that a ground without the block in its index can ask. */
        if (stat.nodes.evictions > 0 || (r->scenario.physical && stat.lost > 0) ||
            sky__run_anything_goes(r))
            sky_check_waive(&r->check, q->get.key);
    }
    sky_check_get_ends(&r->check, &q->get, result->status, result->bytes, there);
    if (sky__run_several(r) && result->status == SKY_OK && q->get.shown > 0 &&
        (!sky__run_anything_goes(r) || are_back(r, q)))
        sky_check_fresh_shown(&r->fresh, q->get.key, q->get.shown, q->floor);
    note_get(r, q, result, land_ns);
}

void sky__run_judge(run *r, const sky_result *result) {
    request *q = result->context;
    assert(q->open);
    sky_time down_ns = sky__run_land_result(r, q, result), up_ns = q->began - q->who.asked;
    bool by_user = q->who.user != SKY_USER_NONE;
    sky_request_log_end(
        &r->log, (uint32_t)(q - r->requests), sky_world_now(r->world), result,
        &(sky_request_land){by_user ? r->scenario.users[q->who.user].name : "", up_ns, down_ns});
    uint8_t record[24];
    sky_store_u64(record, (uint64_t)sky_world_now(r->world));
    sky_store_u64(record + 8, (uint64_t)(q - r->requests));
    sky_store_u64(record + 16, (uint64_t)(int64_t)result->status);
    sky_checksum_add(&r->hash, record, sizeof record);
    judge_error(r, q, result);
    if (q->op == SKY_OP_PUT)
        judge_put(r, q, result);
    else if (q->op == SKY_OP_GET)
        judge_get(r, q, result, up_ns + down_ns);
    else if (q->op == SKY_OP_HAS && (result->status == SKY_OK || result->status == SKY_MISS))
        r->prompts[r->prompt_count++] = (sky__run_prompt){q->who, q->key, q->chain_count,
                                                          (uint32_t)result->bytes};
    q->open = false;
    r->open_count--;
}
