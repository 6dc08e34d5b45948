/* Proves that the cache keeps its word: random histories of puts, gets, removals and pins over
 * tiers that fail, stall, lie about what they did and are down for a while, with cancelled calls,
 * short deadlines, restarts and kills, against a reference that remembers what was acknowledged:
 *
 *  - a get never returns a value older than the last acknowledged put or removal, nor a mixed one;
 *  - what was acknowledged under a name is there after a restart or a kill; so is a durable block,
 *    and any block after a flush that dropped nothing;
 *  - an acknowledged pin keeps its key, through restarts and kills;
 *  - every call ends.
 *
 * One thread runs everything, step by step, in virtual time: a seed replays its history.
 * SKY_TEST_SEED is the first seed (1), SKY_TEST_HISTORIES how many there are (3000);
 * SKY_TEST_TRACE=1 prints what happens. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_internal.h"
#include "cache/demotion.h"
#include "cache/faulty_fixture.h"
#include "tier/tier_fixture.h"

#define HISTORIES_DEFAULT 3000
#define STEPS             160
#define NAMED_KEYS        4
#define KEYS              8 /* the others are blocks */
#define WRITES_MAX        (STEPS + 8)
#define CALLS_MAX         12
#define VALUE_BYTES_MAX   12000
#define FAR_MAX           3
#define PATIENCE_STEPS    20000 /* until everything must have ended */

typedef enum { UNKNOWN, ACKNOWLEDGED, FAILED } outcome;

/* A put or a removal of a key, in the order of their submits. Number n stores value n. */
typedef struct {
    bool removal;
    outcome outcome;
} write_note;

typedef struct {
    write_note writes[WRITES_MAX];
    uint32_t write_count;
    bool safe;       /* must be there: see the top */
    bool flushed;    /* will be, by a flush that drops nothing: this process put it last */
    bool pinned;     /* must stay */
    uint32_t unpins; /* submitted so far */
    uint32_t losses; /* times that it ceased to be safe or pinned */
    uint64_t damage; /* of the tiers, when that was noted */
} key_note;

typedef struct {
    bool used;
    sky_op op;
    sky_batch batch;
    uint32_t key;
    uint32_t before; /* writes of the key submitted before it */
    bool durable;
    bool safe, pinned; /* the key was, when the call was made */
    uint64_t damage;
    uint32_t unpins, losses;
    sky_item item;
    sky_span span;
    uint8_t data[VALUE_BYTES_MAX];
} call_note;

typedef struct {
    sky_clock clock; /* first: the clock that the tiers see */
    sky_time now;
    uint64_t seed;
    bool trace;
    sky_prng prng;
    sky_prng offers;
    sky_cache *cache;
    sky_faulty *far[FAR_MAX];
    bool lasting[FAR_MAX];
    size_t far_count;
    size_t lasting_count;
    bool memory, evicts;
    key_note keys[KEYS];
    call_note calls[CALLS_MAX];
    sky_lease leases[4];
    uint64_t dropped; /* by this process, as flushes told */
} history;

static uint64_t draw(history *h, uint64_t bound) {
    return sky_prng_below(&h->prng, bound);
}

__attribute__((format(printf, 2, 3))) static void trace(const history *h, const char *format, ...) {
    if (!h->trace)
        return;
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%8.3f ms ", (double)h->now / 1e6);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

#define violated(h, ...)                                                                           \
    do {                                                                                           \
        (h)->trace = true;                                                                         \
        trace(h, __VA_ARGS__);                                                                     \
        fail_msg("replay with SKY_TEST_SEED=%" PRIu64                                              \
                 " SKY_TEST_HISTORIES=1 SKY_TEST_TRACE=1 build/cache-cache_history_test",          \
                 (h)->seed);                                                                       \
    } while (0)

static sky_time clock_now(const sky_clock *clock) {
    return ((const history *)(const void *)clock)->now;
}

static int64_t clock_wall(const sky_clock *clock) {
    return 1000000 + clock_now(clock) / 1000000;
}

/* ---- values ---- */

static sky_key key_of(uint32_t key) {
    return sky_fixture_key(100 + key);
}

static bool is_named(uint32_t key) {
    return key < NAMED_KEYS;
}

/* Value n of a key: n, then bytes that are its own. A block has one value. */
static uint64_t value_of(uint32_t key, uint32_t n) {
    return is_named(key) ? (uint64_t)key << 32 | n : (uint64_t)key << 32;
}

static size_t value_bytes(uint64_t value) {
    return 8 + (size_t)(value * 2654435761u % (VALUE_BYTES_MAX - 8));
}

static void value_write(uint64_t value, uint8_t *data) {
    memcpy(data, &value, sizeof value);
    sky_fixture_fill(data + sizeof value, value_bytes(value) - sizeof value, value);
}

static bool value_is_whole(const uint8_t *data, uint64_t bytes, uint32_t key, uint32_t *number) {
    uint64_t value;
    if (bytes < sizeof value)
        return false;
    memcpy(&value, data, sizeof value);
    *number = (uint32_t)value;
    return value >> 32 == key && bytes == value_bytes(value) &&
           sky_fixture_holds(data + sizeof value, bytes - sizeof value, value);
}

/* ---- what must hold ---- */

/* The last write among the first `count` that was acknowledged; 0: none. They count from 1. */
static uint32_t last_acknowledged(const key_note *k, uint32_t count) {
    while (count > 0 && k->writes[count - 1].outcome != ACKNOWLEDGED)
        count--;
    return count;
}

static void refresh_damage(history *h, uint32_t key) {
    key_note *k = &h->keys[key];
    sky_key id = key_of(key);
    uint64_t damage = 0;
    for (size_t t = 0; t < h->far_count; t++) {
        damage += sky_faulty_damage(h->far[t], &id);
    }
    k->losses += damage != k->damage;
    if (damage != k->damage)
        k->safe = k->pinned = k->flushed = false;
    k->damage = damage;
}

static void check_value(history *h, const call_note *c, const uint8_t *data, uint64_t bytes) {
    const key_note *k = &h->keys[c->key];
    uint32_t number = 0, floor = last_acknowledged(k, c->before);
    if (!value_is_whole(data, bytes, c->key, &number))
        violated(h, "key %u: %" PRIu64 " bytes are no value", c->key, bytes);
    if (!is_named(c->key)) { /* whichever put it was, it came after the last removal */
        number = k->write_count;
        while (number > floor && k->writes[number - 1].removal)
            number--;
        if (floor > 0 && !k->writes[floor - 1].removal)
            return;
    }
    if (number < floor || number == 0 || k->writes[number - 1].removal)
        violated(h, "key %u: value %u, but write %u was acknowledged", c->key, number, floor);
}

static void check_miss(history *h, const call_note *c) {
    refresh_damage(h, c->key);
    const key_note *k = &h->keys[c->key];
    if (c->safe && k->safe && c->losses == k->losses && !h->evicts)
        violated(h, "key %u: not found, though it was acknowledged", c->key);
    if (c->pinned && k->pinned && c->losses == k->losses)
        violated(h, "key %u: not found, though it is pinned", c->key);
}

static void lend(history *h, sky_lease lease) {
    sky_lease *place = &h->leases[draw(h, 4)];
    sky_release(h->cache, *place);
    *place = lease;
}

static void check_read(history *h, call_note *c) {
    if (c->op == SKY_OP_GET && c->item.status == SKY_OK)
        check_value(h, c, c->data, c->item.bytes);
    if (c->op == SKY_OP_LEASE && c->item.status == SKY_OK) {
        check_value(h, c, c->item.view.data, c->item.view.bytes);
        lend(h, c->item.lease);
    }
    uint32_t floor = last_acknowledged(&h->keys[c->key], c->before);
    bool gone = floor > 0 && h->keys[c->key].writes[floor - 1].removal &&
                floor == h->keys[c->key].write_count;
    if (c->op == SKY_OP_HAS && c->item.status == SKY_OK && gone)
        violated(h, "key %u: it is there, but it was removed", c->key);
    if (c->item.status == SKY_MISS && c->op != SKY_OP_PREFETCH && c->op != SKY_OP_LEASE)
        check_miss(h, c);
}

static void note_write(history *h, const call_note *c) {
    key_note *k = &h->keys[c->key];
    sky_status status = c->item.status;
    bool done = status == SKY_OK || (c->op == SKY_OP_REMOVE && status == SKY_MISS);
    k->writes[c->before].outcome = done ? ACKNOWLEDGED : FAILED;
    bool removed_since = false;
    for (uint32_t n = c->before; n < k->write_count; n++)
        removed_since |= k->writes[n].removal;
    refresh_damage(h, c->key);
    if (status == SKY_OK && c->op == SKY_OP_PUT && !removed_since && h->lasting_count > 0 &&
        k->damage == c->damage) {
        k->safe |= is_named(c->key) || c->durable;
        k->flushed = true;
    }
}

static void note_pin(history *h, const call_note *c) {
    key_note *k = &h->keys[c->key];
    refresh_damage(h, c->key);
    if (c->item.status == SKY_OK && h->lasting_count > 0 && c->before == k->write_count &&
        c->unpins == k->unpins && c->damage == k->damage)
        k->pinned = true;
}

static void finish_call(history *h, call_note *c) {
    trace(h, "  done: op %d key %u: %s", c->op, c->key, sky_status_name(c->item.status));
    if (c->op == SKY_OP_PUT || c->op == SKY_OP_REMOVE)
        note_write(h, c);
    else if (c->op == SKY_OP_PIN)
        note_pin(h, c);
    else if (c->op != SKY_OP_UNPIN)
        check_read(h, c);
    c->used = false;
}

/* ---- what happens ---- */

static void poll_calls(history *h) {
    for (call_note *c = h->calls; c < h->calls + CALLS_MAX; c++)
        if (c->used && sky_wait(h->cache, c->batch, 0) == SKY_OK)
            finish_call(h, c);
}

static void fill_call(history *h, call_note *c, sky_op op, uint32_t key) {
    key_note *k = &h->keys[key];
    c->op = op;
    c->key = key;
    c->before = k->write_count;
    refresh_damage(h, key);
    c->safe = k->safe;
    c->pinned = k->pinned;
    c->damage = k->damage;
    k->unpins += op == SKY_OP_UNPIN;
    k->losses += op == SKY_OP_UNPIN || op == SKY_OP_REMOVE;
    c->unpins = k->unpins;
    c->losses = k->losses;
    c->span = (sky_span){c->data, VALUE_BYTES_MAX};
    c->item = (sky_item){.key = key_of(key), .spans = &c->span, .span_count = 1};
    if (is_named(key)) {
        c->item.name = "name";
        c->item.name_bytes = 4;
    }
    if (op == SKY_OP_PUT) {
        uint64_t value = value_of(key, c->before + 1);
        value_write(value, c->data);
        c->span.bytes = value_bytes(value);
    }
    if (op == SKY_OP_PUT || op == SKY_OP_REMOVE)
        k->writes[k->write_count++] = (write_note){.removal = op == SKY_OP_REMOVE};
    if (op == SKY_OP_REMOVE)
        k->safe = k->flushed = false;
    if (op == SKY_OP_REMOVE || op == SKY_OP_UNPIN)
        k->pinned = false;
}

static void submit_one(history *h) {
    static const sky_op ops[] = {SKY_OP_PUT,    SKY_OP_PUT, SKY_OP_PUT,      SKY_OP_PUT,
                                 SKY_OP_GET,    SKY_OP_GET, SKY_OP_GET,      SKY_OP_GET,
                                 SKY_OP_REMOVE, SKY_OP_HAS, SKY_OP_PREFETCH, SKY_OP_LEASE,
                                 SKY_OP_PIN,    SKY_OP_PIN, SKY_OP_UNPIN};
    call_note *c = h->calls;
    while (c < h->calls + CALLS_MAX && c->used)
        c++;
    if (c == h->calls + CALLS_MAX)
        return;
    sky_call call = {.durable = draw(h, 5) == 0, .drop = draw(h, 4) == 0};
    if (draw(h, 4) == 0)
        call.deadline_ns = h->now + (sky_time)draw(h, 200) * SKY_MS(1);
    c->durable = call.durable;
    fill_call(h, c, ops[draw(h, sizeof ops / sizeof *ops)], (uint32_t)draw(h, KEYS));
    trace(h, "op %d key %u write %u%s%s", c->op, c->key, c->before + 1,
          call.durable ? " durable" : "", call.deadline_ns ? " deadline" : "");
    if (sky_submit(h->cache, c->op, &c->item, 1, &call, &c->batch) != SKY_OK)
        violated(h, "submit failed");
    c->used = true;
}

static void cancel_one(history *h) {
    call_note *c = &h->calls[draw(h, CALLS_MAX)];
    if (!c->used)
        return;
    trace(h, "cancel: op %d key %u", c->op, c->key);
    sky__cache_give_up(h->cache, c->batch);
    for (int i = 0; i < 4; i++)
        (void)sky__cache_step(h->cache);
    sky_cancel(h->cache, c->batch);
    finish_call(h, c);
}

static void progress(history *h) {
    h->now += (sky_time)draw(h, 20) * SKY_MS(1);
    for (size_t t = 0; t < h->far_count; t++)
        for (uint64_t n = draw(h, 3); n > 0; n--)
            (void)sky_faulty_step(h->far[t]);
    for (uint64_t n = draw(h, 4); n > 0; n--)
        (void)sky__cache_step(h->cache);
}

static void open_cache(history *h) {
    assert_int_equal(sky__cache_create(&h->clock, &h->cache), SKY_OK);
    if (h->memory) {
        sky_tier_env env = sky__cache_env(h->cache);
        sky_tier *tier;
        env.clock = &h->clock;
        assert_int_equal(sky_memory_tier_open("mem:64KiB", &env, &tier, NULL), SKY_OK);
        sky__cache_add(h->cache, tier);
    }
    for (size_t t = 0; t < h->far_count; t++)
        sky__cache_add(h->cache, sky_faulty_tier(h->far[t]));
    assert_int_equal(sky__cache_start_stepped(h->cache), SKY_OK);
    memset(h->leases, 0, sizeof h->leases);
    h->dropped = 0;
}

static bool is_idle(const history *h) {
    for (const call_note *c = h->calls; c < h->calls + CALLS_MAX; c++)
        if (c->used)
            return false;
    return sky__cache_quiet(h->cache);
}

/* Let everything come to its end, which it must. */
static void settle(history *h) {
    for (int i = 0; i < PATIENCE_STEPS && !is_idle(h); i++) {
        progress(h);
        (void)sky__cache_step(h->cache);
        h->now += SKY_MS(20);
        poll_calls(h);
    }
    if (!is_idle(h))
        violated(h, "something never ends");
}

/* What process memory alone held is gone; what must be elsewhere stays noted. */
static void start_anew(history *h) {
    for (uint32_t key = 0; key < KEYS; key++) {
        refresh_damage(h, key);
        h->keys[key].flushed = false;
    }
    open_cache(h);
}

static void restart(history *h) {
    settle(h);
    uint64_t dropped;
    sky_status status = sky_flush(h->cache, 0, &dropped);
    h->dropped += dropped;
    trace(h, "restart: flush %s, %" PRIu64 " dropped", sky_status_name(status), h->dropped);
    for (uint32_t key = NAMED_KEYS; key < KEYS; key++) {
        refresh_damage(h, key);
        h->keys[key].safe |= h->keys[key].flushed && h->dropped == 0;
    }
    sky__cache_abandon(h->cache);
    start_anew(h);
}

static void kill_process(history *h) {
    trace(h, "kill");
    poll_calls(h);
    sky__cache_abandon(h->cache);
    for (call_note *c = h->calls; c < h->calls + CALLS_MAX; c++) {
        if (c->used && c->op == SKY_OP_PUT && h->lasting_count > 1)
            h->keys[c->key].pinned = false; /* the pin may have been on its way between tiers */
        c->used = false;                    /* their outcome stays unknown */
    }
    start_anew(h);
}

/* A tier says that it will evict a block, whether it has it or not. */
static void offer_one(history *h) {
    if (h->far_count == 0 || sky_prng_below(&h->offers, 8) != 0)
        return;
    uint64_t key = NAMED_KEYS + sky_prng_below(&h->offers, KEYS - NAMED_KEYS);
    uint64_t from = sky_prng_below(&h->offers, h->far_count + h->memory);
    const sky_victim victim = {.key = key_of((uint32_t)key), .bytes = VALUE_BYTES_MAX + 8};
    trace(h, "tier %" PRIu64 " offers key %" PRIu64, from, key);
    (void)sky__demotion_offer(h->cache, (uint8_t)from, &victim, 1);
}

static void step(history *h) {
    uint64_t what = draw(h, 100);
    offer_one(h);
    size_t t = draw(h, h->far_count ? h->far_count : 1);
    if (what < 40)
        submit_one(h);
    else if (what < 44)
        cancel_one(h);
    else if (what < 46 && h->far_count > 0)
        sky_faulty_set_down(h->far[t], draw(h, 3) == 0);
    else if (what == 46)
        restart(h);
    else if (what == 47)
        kill_process(h);
    else
        progress(h);
    poll_calls(h);
}

/* At the end all tiers are well again, and every key is read. */
static void read_all(history *h) {
    for (size_t t = 0; t < h->far_count; t++)
        sky_faulty_set_well(h->far[t]);
    settle(h);
    h->now += SKY_SECONDS(120); /* no tier is skipped any more */
    restart(h);
    for (uint32_t key = 0; key < KEYS; key++) {
        call_note *c = &h->calls[0];
        fill_call(h, c, SKY_OP_GET, key);
        assert_int_equal(sky_submit(h->cache, SKY_OP_GET, &c->item, 1, NULL, &c->batch), SKY_OK);
        c->used = true;
        settle(h);
    }
}

static void run_history(uint64_t seed, bool tracing) {
    static history h; /* large */
    memset(&h, 0, sizeof h);
    h.clock = (sky_clock){clock_now, clock_wall};
    h.now = SKY_SECONDS(1);
    h.seed = seed;
    h.trace = tracing;
    sky_prng_init(&h.prng, seed);
    sky_prng_init(&h.offers, ~seed); /* of their own, so that old seeds still say the same */
    h.memory = draw(&h, 4) != 0;
    h.evicts = draw(&h, 3) == 0;
    h.far_count = h.memory ? draw(&h, FAR_MAX + 1) : 1 + draw(&h, FAR_MAX);
    uint32_t failures = draw(&h, 3) == 0 ? 0 : (uint32_t)draw(&h, 25);
    for (size_t t = 0; t < h.far_count; t++) {
        h.lasting[t] = draw(&h, 5) != 0;
        h.lasting_count += h.lasting[t];
        const sky_faulty_options options = {h.lasting[t], h.evicts, failures};
        h.far[t] = sky_faulty_create(&options, &h.prng, &h.clock, (uint8_t)(t + h.memory));
    }
    trace(&h, "memory %d, %zu farther tiers, %zu of them lasting, evicting %d, failing %u %%",
          h.memory, h.far_count, h.lasting_count, h.evicts, failures);
    open_cache(&h);
    for (int i = 0; i < STEPS; i++)
        step(&h);
    read_all(&h);
    sky__cache_abandon(h.cache);
    for (size_t t = 0; t < h.far_count; t++)
        sky_faulty_destroy(h.far[t]);
}

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void histories_keep_the_caches_word(void **state) {
    (void)state;
    uint64_t first = setting("SKY_TEST_SEED", 1);
    uint64_t count = setting("SKY_TEST_HISTORIES", HISTORIES_DEFAULT);
    for (uint64_t seed = first; seed < first + count; seed++)
        run_history(seed, setting("SKY_TEST_TRACE", 0) != 0);
    print_message("%" PRIu64 " histories from seed %" PRIu64 "\n", count, first);
}

/* Seeds that once found a fault. */
static void histories_that_failed_once(void **state) {
    (void)state;
    static const uint64_t seeds[] = {
        420055, /* a copy that a pin had fetched replaced the value of a later put */
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        run_history(seeds[i], false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(histories_keep_the_caches_word),
                                       cmocka_unit_test(histories_that_failed_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
