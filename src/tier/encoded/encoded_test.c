/* Proves that a tier that keeps blocks coded keeps every promise of a tier, with a codec and
 * without; that ranges of a coded block come back as ranges of its payload, asking again when the
 * first guess was short; that what is slow to come holds up nothing else; that what is coded higher
 * is lowered; that several levels of a block are one block, of which one that is refused does not
 * go unsaid; and that what is damaged, declined or named is treated as it should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "io/sync.h"
#include "tier/encoded/encoded.h"
#include "tier/scripted_fixture.h"
#include "tier/tier_fixture.h"

#define PAYLOAD_BYTES 4096u
#define OWN_CODING    4
#define CODE_MAGIC    0x59515a58u
#define CODE_BYTES    (16 + PAYLOAD_BYTES / 2)

/* A codec for payloads whose every second byte is zero: it leaves those out. A code of a higher
 * level has some bytes behind it, which lowering takes off. */
typedef struct {
    sky_block_codec codec;
    uint64_t guess; /* what it says a range needs */
    _Atomic uint32_t encodes, decodes, lowerings;
    bool declines;
} halves;

static sky_status halves_encode(void *self, sky_coding coding, const void *payload, void *dst,
                                uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work) {
    halves *h = self;
    const uint8_t *from = payload;
    uint8_t *to = dst;
    memset(work, 1, h->codec.work_bytes);
    if (h->declines || dst_bytes_max < CODE_BYTES)
        return SKY_E_UNSUPPORTED;
    for (size_t i = 0; i < PAYLOAD_BYTES / 2; i++) {
        if (from[2 * i + 1] != 0)
            return SKY_E_UNSUPPORTED;
        to[16 + i] = from[2 * i];
    }
    sky_store_u32(to, CODE_MAGIC);
    sky_store_u32(to + 4, coding);
    sky_store_u64(to + 8, sky_checksum(to + 16, PAYLOAD_BYTES / 2, 0));
    *dst_bytes = CODE_BYTES;
    h->encodes++;
    return SKY_OK;
}

static sky_status halves_lower(void *self, sky_coding coding, const void *coded, uint64_t bytes,
                               void *dst, uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work) {
    halves *h = self;
    memset(work, 1, h->codec.work_bytes);
    if (bytes <= CODE_BYTES || dst_bytes_max < CODE_BYTES || sky_load_u32(coded) != CODE_MAGIC)
        return SKY_E_UNSUPPORTED;
    memcpy(dst, coded, CODE_BYTES);
    sky_store_u32((uint8_t *)dst + 4, coding);
    *dst_bytes = CODE_BYTES;
    h->lowerings++;
    return SKY_OK;
}

static uint64_t halves_likely(void *self, sky_coding coding, sky_range range) {
    (void)coding, (void)range;
    return ((halves *)self)->guess;
}

static sky_status halves_decode(void *self, const void *data, uint64_t bytes, bool whole,
                                sky_range range, const sky_span *spans, uint32_t span_count,
                                uint64_t *moved_bytes, uint64_t *needed, void *work) {
    halves *h = self;
    const uint8_t *from = data;
    bool coded = bytes >= 16 && sky_load_u32(from) == CODE_MAGIC;
    memset(work, 1, h->codec.work_bytes);
    uint64_t room = 0;
    for (uint32_t i = 0; i < span_count; i++)
        room += spans[i].bytes;
    *needed = coded ? CODE_BYTES : range.offset + room + 1;
    if (!whole && bytes < *needed)
        return SKY_PENDING;
    if (coded && (bytes != CODE_BYTES ||
                  sky_load_u64(from + 8) != sky_checksum(from + 16, PAYLOAD_BYTES / 2, 0)))
        return SKY_E_CORRUPT;
    uint64_t payload_bytes = coded ? PAYLOAD_BYTES : bytes;
    uint8_t *payload = calloc(1, payload_bytes + 1);
    for (size_t i = 0; coded && i < PAYLOAD_BYTES / 2; i++)
        payload[2 * i] = from[16 + i];
    if (!coded)
        memcpy(payload, from, bytes);
    sky_status status = range.offset > payload_bytes ? SKY_E_PARAM : SKY_OK;
    uint64_t left = status == SKY_OK ? payload_bytes - range.offset : 0;
    if ((range.offset == 0 && range.bytes == 0) || range.bytes > left)
        range.bytes = left;
    if (status == SKY_OK && room < range.bytes)
        status = SKY_E_DST_SMALL;
    uint64_t at = range.offset, end = range.offset + range.bytes;
    for (uint32_t i = 0; status == SKY_OK && i < span_count && at < end; i++) {
        uint64_t n = spans[i].bytes < end - at ? spans[i].bytes : end - at;
        if (spans[i].data)
            memcpy(spans[i].data, payload + at, n);
        at += n;
    }
    free(payload);
    if (status == SKY_OK)
        *moved_bytes = range.bytes;
    h->decodes += coded;
    return status;
}

static halves halves_codec(uint64_t guess) {
    return (halves){.codec = {.payload_bytes = PAYLOAD_BYTES,
                              .coded_bytes_max = CODE_BYTES,
                              .work_bytes = 1000,
                              .encode = halves_encode,
                              .lower = halves_lower,
                              .likely_bytes = halves_likely,
                              .decode = halves_decode},
                    .guess = guess};
}

/* ---- conformance ---- */

static sky_tier *coded_over(sky_tier *inner) {
    static const sky_level_set one = {{OWN_CODING}, 1};
    sky_tier *t = NULL;
    assert_int_equal(sky_coded_tier_open(inner, &one, &t), SKY_OK);
    return t;
}

/* `context`: the codec, or NULL. */
static sky_tier *open_coded(void *context, const sky_tier_env *env) {
    sky_tier *memory = NULL;
    sky_error error = {0};
    if (sky_memory_tier_open("mem:8MiB", env, &memory, &error) != SKY_OK)
        fail_msg("%s", error.text);
    sky_tier *t = coded_over(memory);
    halves *h = context;
    if (h) {
        h->codec.self = h;
        sky_coded_tier_set(t, &h->codec);
    }
    return t;
}

static void close_coded(void *context, sky_tier *tier) {
    (void)context;
    tier->ops->close(tier);
}

/* ---- blocks ---- */

typedef struct {
    halves codec;
    sky_scripted *inner;
    sky_tier *tier;
    uint8_t payload[PAYLOAD_BYTES];
} world;

static void setup(world *w, uint64_t guess) {
    w->codec = halves_codec(guess);
    w->codec.codec.self = &w->codec;
    w->inner = sky_scripted_open(1);
    w->tier = coded_over(sky_scripted_tier(w->inner));
    sky_coded_tier_set(w->tier, &w->codec.codec);
    for (size_t i = 0; i < PAYLOAD_BYTES; i++)
        w->payload[i] = i % 2 ? 0 : (uint8_t)(i * 7 + i / 256);
}

static sky_status put(world *w, uint64_t n, const void *data, size_t bytes, const char *name) {
    sky_span span = {(void *)(uintptr_t)data, bytes};
    sky_item item = {.key = sky_fixture_key(n),
                     .spans = &span,
                     .span_count = 1,
                     .name = name,
                     .name_bytes = name ? strlen(name) : 0};
    sky_fixture_run(w->tier, SKY_OP_PUT, &item, 1, NULL);
    return item.status;
}

static void ranges_of_coded_blocks_are_ranges_of_the_payload(void **state) {
    (void)state;
    static const uint64_t guesses[] = {16, 100, CODE_BYTES - 1, CODE_BYTES, 3 * PAYLOAD_BYTES};
    for (size_t g = 0; g < sizeof guesses / sizeof *guesses; g++) {
        world w;
        setup(&w, guesses[g]);
        assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
        size_t stored;
        const sky_key key = sky_fixture_key(1);
        assert_non_null(sky_scripted_peek(w.inner, &key, &stored));
        assert_int_equal(stored, CODE_BYTES);
        for (uint64_t offset = 0; offset < PAYLOAD_BYTES; offset += 1001) {
            uint8_t head[64], tail[700];
            sky_span spans[] = {{head, 64}, {NULL, 100}, {tail, 700}};
            sky_item item = {.key = key, .spans = spans, .span_count = 3, .range = {offset, 864}};
            sky_fixture_run(w.tier, SKY_OP_GET, &item, 1, NULL);
            uint64_t left = PAYLOAD_BYTES - offset;
            assert_int_equal(item.status, SKY_OK);
            assert_int_equal(item.bytes, left < 864 ? left : 864);
            if (item.bytes > 64)
                assert_memory_equal(head, w.payload + offset, 64);
            if (item.bytes == 864)
                assert_memory_equal(tail, w.payload + offset + 164, 700);
        }
        w.tier->ops->close(w.tier);
    }
}

/* Named values, payloads of another size, and what the codec declines lie there as they came. */
static void others_are_stored_as_they_come(void **state) {
    (void)state;
    world w;
    setup(&w, 100);
    uint8_t back[PAYLOAD_BYTES];
    size_t stored;
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, "a name"), SKY_OK);
    assert_int_equal(put(&w, 2, w.payload, PAYLOAD_BYTES - 2, NULL), SKY_OK);
    w.codec.declines = true;
    assert_int_equal(put(&w, 3, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    assert_int_equal(w.codec.encodes, 0);
    for (uint64_t n = 1; n <= 3; n++) {
        const sky_key key = sky_fixture_key(n);
        size_t bytes = n == 2 ? PAYLOAD_BYTES - 2 : PAYLOAD_BYTES;
        const void *there = sky_scripted_peek(w.inner, &key, &stored);
        assert_non_null(there);
        assert_int_equal(stored, bytes);
        assert_memory_equal(there, w.payload, bytes);
        sky_span span = {back, sizeof back};
        sky_item item = {.key = key,
                         .spans = &span,
                         .span_count = 1,
                         .name = n == 1 ? "a name" : NULL,
                         .name_bytes = n == 1 ? 6 : 0};
        sky_fixture_run(w.tier, SKY_OP_GET, &item, 1, NULL);
        assert_int_equal(item.status, SKY_OK);
        assert_int_equal(item.bytes, bytes);
        assert_memory_equal(back, w.payload, bytes);
    }
    assert_int_equal(w.codec.decodes, 0);
    w.tier->ops->close(w.tier);
}

static sky_status put_at(world *w, uint64_t n, const void *code, size_t bytes, sky_coding coding,
                         const char *name) {
    sky_span span = {(void *)(uintptr_t)code, bytes};
    sky_item item = {.key = sky_fixture_key(n),
                     .spans = &span,
                     .span_count = 1,
                     .name = name,
                     .name_bytes = name ? strlen(name) : 0};
    const sky_call call = {.coding = coding};
    sky_fixture_run(w->tier, SKY_OP_PUT, &item, 1, &call);
    assert_int_equal(item.bytes, bytes);
    return item.status;
}

static size_t stored_bytes(world *w, uint64_t n) {
    const sky_key key = sky_fixture_key(n);
    size_t bytes = 0;
    assert_non_null(sky_scripted_peek(w->inner, &key, &bytes));
    return bytes;
}

/* What comes down from a tier of a higher level takes this tier's; what is as low or lower, is no
 * block, or is not a code of ours stays as it is. */
static void what_is_coded_higher_is_lowered(void **state) {
    (void)state;
    world w;
    setup(&w, CODE_BYTES);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    const sky_key key = sky_fixture_key(1);
    size_t stored;
    uint8_t code[CODE_BYTES + 100] = {0}, back[PAYLOAD_BYTES];
    memcpy(code, sky_scripted_peek(w.inner, &key, &stored), CODE_BYTES);
    assert_int_equal(put_at(&w, 2, code, sizeof code, OWN_CODING - 1, NULL), SKY_OK);
    assert_int_equal(w.codec.lowerings, 1);
    assert_int_equal(stored_bytes(&w, 2), CODE_BYTES);
    sky_span span = {back, sizeof back};
    sky_item item = {.key = sky_fixture_key(2), .spans = &span, .span_count = 1};
    sky_fixture_run(w.tier, SKY_OP_GET, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    assert_memory_equal(back, w.payload, PAYLOAD_BYTES);
    assert_int_equal(put_at(&w, 3, code, sizeof code, OWN_CODING, NULL), SKY_OK);
    assert_int_equal(put_at(&w, 4, code, sizeof code, OWN_CODING + 1, NULL), SKY_OK);
    assert_int_equal(put_at(&w, 5, code, sizeof code, OWN_CODING - 1, "a name"), SKY_OK);
    for (uint64_t n = 3; n <= 5; n++)
        assert_int_equal(stored_bytes(&w, n), sizeof code);
    code[0] ^= 1;
    assert_int_equal(put_at(&w, 6, code, sizeof code, OWN_CODING - 1, NULL), SKY_OK);
    assert_int_equal(stored_bytes(&w, 6), sizeof code);
    assert_int_equal(w.codec.lowerings, 1);
    w.tier->ops->close(w.tier);
}

/* One answer is slow to come: those asked for after it come all the same, of its batch and of
 * others, more of them than there are places. */
static void what_is_slow_holds_up_nothing_else(void **state) {
    (void)state;
    enum { GETS = 100 };
    world w;
    setup(&w, CODE_BYTES);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    static uint8_t back[GETS][PAYLOAD_BYTES];
    sky_span spans[GETS];
    sky_item items[GETS];
    memset(back, 0xee, sizeof back);
    for (size_t i = 0; i < GETS; i++) {
        spans[i] = (sky_span){back[i], PAYLOAD_BYTES};
        items[i] = (sky_item){.key = sky_fixture_key(1), .spans = &spans[i], .span_count = 1};
    }
    sky_scripted_hold(w.inner, true);
    sky_batch slow = sky_fixture_submit(w.tier, SKY_OP_GET, items, 1, NULL);
    while (sky_scripted_held(w.inner) == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    sky_batch rest = sky_fixture_submit(w.tier, SKY_OP_GET, items + 1, GETS - 1, NULL);
    sky_item has = {.key = sky_fixture_key(1)};
    sky_batch look = sky_fixture_submit(w.tier, SKY_OP_HAS, &has, 1, NULL);
    while (sky_tier_wait(w.tier, rest, sky_now() + SKY_MS(1)) == SKY_E_DEADLINE)
        sky_scripted_answer_later(w.inner);
    while (sky_tier_wait(w.tier, look, sky_now() + SKY_MS(1)) == SKY_E_DEADLINE)
        sky_scripted_answer_later(w.inner);
    assert_int_equal(has.status, SKY_OK);
    assert_int_equal(sky_tier_wait(w.tier, slow, sky_now()), SKY_E_DEADLINE);
    sky_scripted_hold(w.inner, false);
    assert_int_equal(sky_tier_wait(w.tier, slow, SKY_TIME_NEVER), SKY_OK);
    for (size_t i = 0; i < GETS; i++) {
        assert_int_equal(items[i].status, SKY_OK);
        assert_memory_equal(back[i], w.payload, PAYLOAD_BYTES);
    }
    assert_int_equal(w.codec.decodes, GETS);
    w.tier->ops->close(w.tier);
}

static void damage_is_no_payload(void **state) {
    (void)state;
    world w;
    setup(&w, CODE_BYTES);
    const sky_key key = sky_fixture_key(1);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    size_t stored;
    uint8_t code[CODE_BYTES], back[PAYLOAD_BYTES];
    memcpy(code, sky_scripted_peek(w.inner, &key, &stored), CODE_BYTES);
    code[100] ^= 1;
    sky_scripted_plant(w.inner, key, code, CODE_BYTES);
    sky_span span = {back, sizeof back};
    sky_item item = {.key = key, .spans = &span, .span_count = 1};
    sky_fixture_run(w.tier, SKY_OP_GET, &item, 1, NULL);
    assert_int_equal(item.status, SKY_E_CORRUPT);
    sky_scripted_plant(w.inner, key, code, 40); /* cut: it asks for more, which is not there */
    sky_fixture_run(w.tier, SKY_OP_GET, &item, 1, NULL);
    assert_int_equal(item.status, SKY_E_CORRUPT);
    w.tier->ops->close(w.tier);
}

/* The inner tier never answers: who gives up gets the buffers back, and the tier closes. */
static void a_silent_tier_holds_nobody(void **state) {
    (void)state;
    world w;
    setup(&w, CODE_BYTES);
    sky_scripted_hold(w.inner, true);
    uint8_t back[PAYLOAD_BYTES];
    sky_span span = {back, sizeof back};
    sky_item get = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_batch batch = sky_fixture_submit(w.tier, SKY_OP_GET, &get, 1, NULL);
    sky_tier_cancel(w.tier, batch);
    assert_int_equal(get.status, SKY_E_CANCELLED);
    const sky_call soon = {.deadline_ns = sky_now() + SKY_MS(30)};
    sky_fixture_run(w.tier, SKY_OP_GET, &get, 1, &soon);
    assert_int_equal(get.status, SKY_E_DEADLINE);
    w.tier->ops->close(w.tier);
}

/* A codec that is replaced is not used any more when the call returns. */
static void a_codec_can_go(void **state) {
    (void)state;
    world w;
    setup(&w, CODE_BYTES);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    sky_coded_tier_set(w.tier, NULL);
    memset(&w.codec, 0xff, sizeof w.codec); /* nobody may look at it */
    assert_int_equal(put(&w, 2, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    uint8_t back[PAYLOAD_BYTES];
    sky_span span = {back, sizeof back};
    sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
    sky_fixture_run(w.tier, SKY_OP_GET, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
    assert_int_equal(item.bytes, CODE_BYTES); /* as it lies there */
    w.tier->ops->close(w.tier);
}

/* A codec comes or goes while a get waits for the inner tier: the range is still the range. */
static void a_codec_may_change_under_a_get(void **state) {
    (void)state;
    for (int goes = 0; goes < 2; goes++) {
        world w;
        setup(&w, CODE_BYTES);
        w.codec.declines = true;
        assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
        sky_coded_tier_set(w.tier, goes ? &w.codec.codec : NULL);
        sky_scripted_hold(w.inner, true);
        uint8_t back[500];
        sky_span span = {back, sizeof back};
        sky_item get = {
            .key = sky_fixture_key(1), .spans = &span, .span_count = 1, .range = {1000, 500}};
        sky_batch batch = sky_fixture_submit(w.tier, SKY_OP_GET, &get, 1, NULL);
        while (sky_scripted_held(w.inner) == 0)
            sky_poll(NULL, 0, sky_now() + SKY_MS(1));
        sky_coded_tier_set(w.tier, goes ? NULL : &w.codec.codec);
        sky_scripted_hold(w.inner, false);
        assert_int_equal(sky_tier_wait(w.tier, batch, SKY_TIME_NEVER), SKY_OK);
        assert_int_equal(get.status, SKY_OK);
        assert_int_equal(get.bytes, sizeof back);
        assert_memory_equal(back, w.payload + 1000, sizeof back);
        w.tier->ops->close(w.tier);
    }
}

/* ---- several levels ---- */

#define MIDDLE 5
#define LOWEST 7
static const sky_level_set three = {{OWN_CODING, MIDDLE, LOWEST}, 3};

static void setup_three(world *w) {
    setup(w, CODE_BYTES);
    w->tier->ops->close(w->tier);
    w->inner = sky_scripted_open(1);
    assert_int_equal(sky_coded_tier_open(sky_scripted_tier(w->inner), &three, &w->tier), SKY_OK);
    sky_coded_tier_set(w->tier, &w->codec.codec);
}

static sky_key step_key(uint64_t n, uint32_t step) {
    const sky_key block = sky_fixture_key(n);
    return sky_level_set_key(&three, step, &block);
}

/* As what the inner tier has it at a step coded; 0: it is not there. */
static uint32_t coded_as(world *w, uint64_t n, uint32_t step) {
    size_t bytes;
    const sky_key key = step_key(n, step);
    const uint8_t *code = sky_scripted_peek(w->inner, &key, &bytes);
    return code && bytes >= 8 && sky_load_u32(code) == CODE_MAGIC ? sky_load_u32(code + 4) : 0;
}

/* Get block n at a level (0: the best); the coding that came, or the status. */
static int get_at(world *w, uint64_t n, sky_coding wanted) {
    uint8_t back[PAYLOAD_BYTES];
    sky_span span = {back, sizeof back};
    sky_item item = {.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
    const sky_call call = {.wanted = wanted};
    sky_fixture_run(w->tier, SKY_OP_GET, &item, 1, &call);
    if (item.status != SKY_OK)
        return item.status;
    assert_int_equal(item.bytes, PAYLOAD_BYTES);
    assert_memory_equal(back, w->payload, PAYLOAD_BYTES);
    return item.coding;
}

/* It answers inside submit, and whoever drains it next takes the batch. */
static void lose(world *w, uint64_t n, uint32_t step) {
    sky_item item = {.key = step_key(n, step)};
    sky_fixture_submit(sky_scripted_tier(w->inner), SKY_OP_REMOVE, &item, 1, NULL);
    assert_int_equal(item.status, SKY_OK);
}

static void a_block_is_kept_at_each_level(void **state) {
    (void)state;
    world w;
    setup_three(&w);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    assert_int_equal(w.codec.encodes, 3);
    for (uint32_t step = 0; step < 3; step++) {
        assert_int_equal(coded_as(&w, 1, step), three.codings[step]);
        if (step > 0)
            assert_int_equal(get_at(&w, 1, three.codings[step]), three.codings[step]);
    }
    assert_true(get_at(&w, 1, 0) >= 0 && get_at(&w, 1, OWN_CODING) >= 0);
    assert_true(get_at(&w, 1, 6) >= 0); /* no level of this tier: as if none was wanted */
    assert_int_equal(get_at(&w, 2, 0), SKY_MISS);
    assert_int_equal(get_at(&w, 2, MIDDLE), SKY_MISS);
    w.tier->ops->close(w.tier);
}

/* Whether block n is there at a level: SKY_OK or SKY_MISS. */
static sky_status has_at(world *w, uint64_t n, sky_coding wanted) {
    sky_item item = {.key = sky_fixture_key(n)};
    const sky_call call = {.wanted = wanted};
    sky_fixture_run(w->tier, SKY_OP_HAS, &item, 1, &call);
    return item.status;
}

/* Put block 1 where a level is refused once. */
static sky_status put_refused(world *w, uint32_t step, sky_status refusal) {
    const sky_key key = step_key(1, step);
    setup_three(w);
    sky_scripted_refuse(w->inner, &key, refusal);
    return put(w, 1, w->payload, PAYLOAD_BYTES, NULL);
}

/* … and one level alone can be asked for, and put where it is lacking. */
static void a_level_that_is_refused_is_told_and_can_be_put_alone(void **state) {
    (void)state;
    for (uint32_t step = 0; step < 3; step++) {
        world w;
        assert_int_equal(put_refused(&w, step, SKY_E_IO), SKY_E_IO);
        for (uint32_t s = 0; s < 3; s++)
            assert_int_equal(has_at(&w, 1, three.codings[s]), s == step ? SKY_MISS : SKY_OK);
        assert_int_equal(has_at(&w, 1, 0), SKY_OK);
        sky_span span = {w.payload, PAYLOAD_BYTES};
        sky_item item = {.key = sky_fixture_key(1), .spans = &span, .span_count = 1};
        const sky_call call = {.wanted = three.codings[step]};
        size_t puts = sky_scripted_count(w.inner, SKY_OP_PUT);
        sky_fixture_run(w.tier, SKY_OP_PUT, &item, 1, &call);
        assert_int_equal(item.status, SKY_OK);
        assert_int_equal(item.bytes, PAYLOAD_BYTES);
        assert_int_equal(sky_scripted_count(w.inner, SKY_OP_PUT), puts + 1);
        assert_int_equal(coded_as(&w, 1, step), three.codings[step]);
        w.codec.declines = true;
        sky_fixture_run(w.tier, SKY_OP_PUT, &item, 1, &call);
        assert_int_equal(item.status, step == 0 ? SKY_OK : SKY_E_UNSUPPORTED);
        w.tier->ops->close(w.tier);
    }
    world w;
    assert_int_equal(put_refused(&w, 1, SKY_E_DEADLINE), SKY_E_DEADLINE);
    assert_int_equal(coded_as(&w, 1, 0), OWN_CODING);
    assert_int_equal(coded_as(&w, 1, 2), 0); /* too late is too late */
    w.tier->ops->close(w.tier);
}

static void what_is_left_of_a_block_is_served(void **state) {
    (void)state;
    world w;
    setup_three(&w);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    lose(&w, 1, 0);
    assert_int_equal(get_at(&w, 1, 0), MIDDLE);
    assert_int_equal(get_at(&w, 1, OWN_CODING), SKY_MISS); /* this one alone was wanted */
    assert_int_equal(get_at(&w, 1, LOWEST), LOWEST);
    const sky_key middle = step_key(1, 1);
    uint8_t code[CODE_BYTES];
    size_t bytes;
    memcpy(code, sky_scripted_peek(w.inner, &middle, &bytes), CODE_BYTES);
    code[100] ^= 1;
    sky_scripted_plant(w.inner, middle, code, CODE_BYTES);
    assert_int_equal(get_at(&w, 1, MIDDLE), SKY_E_CORRUPT);
    assert_int_equal(get_at(&w, 1, 0), LOWEST);
    sky_item has[2] = {{.key = sky_fixture_key(1)}, {.key = sky_fixture_key(2)}};
    sky_fixture_run(w.tier, SKY_OP_HAS, has, 2, NULL);
    assert_int_equal(has[0].status, SKY_OK);
    assert_int_equal(has[1].status, SKY_MISS);
    lose(&w, 1, 2);
    assert_int_equal(get_at(&w, 1, 0), SKY_E_CORRUPT); /* it is there, damaged: no plain miss */
    sky_fixture_run(w.tier, SKY_OP_HAS, has, 2, NULL);
    assert_int_equal(has[0].bytes, PAYLOAD_BYTES); /* of the payload, whatever the level */
    lose(&w, 1, 1);
    sky_fixture_run(w.tier, SKY_OP_HAS, has, 2, NULL);
    assert_int_equal(has[0].status, SKY_MISS);
    w.tier->ops->close(w.tier);
}

/* Some of a batch are there at one level, some at another, some not: each is answered, once. */
static void a_batch_is_asked_for_level_by_level(void **state) {
    (void)state;
    enum { COUNT = 60 };
    world w;
    setup_three(&w);
    for (uint64_t n = 0; n < COUNT; n++) {
        assert_int_equal(put(&w, n, w.payload, PAYLOAD_BYTES, n % 7 == 6 ? "name" : NULL), SKY_OK);
        for (uint32_t step = 0; n % 7 != 6 && step < n % 4; step++)
            lose(&w, n, step);
    }
    sky_item items[COUNT];
    for (uint64_t n = 0; n < COUNT; n++)
        items[n] = (sky_item){.key = sky_fixture_key(n),
                              .name = n % 7 == 6 ? "name" : NULL,
                              .name_bytes = n % 7 == 6 ? 4 : 0};
    sky_fixture_run(w.tier, SKY_OP_HAS, items, COUNT, NULL);
    for (uint64_t n = 0; n < COUNT; n++) {
        bool there = n % 7 == 6 || n % 4 < 3;
        assert_int_equal(items[n].status, there ? SKY_OK : SKY_MISS);
        if (there && n % 7 != 6 && n % 4 > 0)
            assert_int_equal(items[n].coding, three.codings[n % 4]);
    }
    w.tier->ops->close(w.tier);
}

static bool note_pins(void *context, const sky_entry *entry) {
    *(uint32_t *)context += entry->pinned;
    return true;
}

static void what_is_done_to_a_block_is_done_to_all_levels(void **state) {
    (void)state;
    world w;
    setup_three(&w);
    for (uint64_t n = 1; n <= 2; n++)
        assert_int_equal(put(&w, n, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    uint32_t pins = 0;
    assert_int_equal(sky_fixture_one(w.tier, SKY_OP_PIN, sky_fixture_key(1)), SKY_OK);
    assert_int_equal(w.tier->ops->list(w.tier, note_pins, &pins), SKY_OK);
    assert_int_equal(pins, 3);
    assert_int_equal(sky_fixture_one(w.tier, SKY_OP_UNPIN, sky_fixture_key(1)), SKY_OK);
    pins = 0;
    assert_int_equal(w.tier->ops->list(w.tier, note_pins, &pins), SKY_OK);
    assert_int_equal(pins, 0);
    lose(&w, 1, 0);
    assert_int_equal(sky_fixture_one(w.tier, SKY_OP_REMOVE, sky_fixture_key(1)), SKY_OK);
    for (uint32_t step = 0; step < 3; step++) {
        assert_int_equal(coded_as(&w, 1, step), 0);
        assert_int_equal(coded_as(&w, 2, step), three.codings[step]);
    }
    assert_int_equal(sky_fixture_one(w.tier, SKY_OP_REMOVE, sky_fixture_key(1)), SKY_MISS);
    sky_verify_report report = {0};
    assert_int_equal(w.tier->ops->verify(w.tier, &report), SKY_OK);
    assert_int_equal(report.entries, 3);
    sky_tier_stat stat = sky_fixture_stat(w.tier);
    assert_memory_equal(stat.codings, three.codings, sizeof stat.codings);
    w.tier->ops->close(w.tier);
}

typedef struct {
    uint32_t times, codings;
    bool others;
} sighting;

static bool sight(void *context, const sky_entry *entry) {
    sighting *s = context;
    const sky_key one = sky_fixture_key(1);
    s->others |= !sky_key_equal(&entry->key, &one);
    s->codings |= 1u << entry->coding;
    s->times++;
    return true;
}

/* In a tier that tells how its entries are coded: here memory. */
static void every_level_is_listed_as_its_block(void **state) {
    (void)state;
    world w;
    setup(&w, CODE_BYTES);
    w.tier->ops->close(w.tier);
    sky_tier *memory;
    sky_error error;
    const sky_tier_env env = {.index = 1};
    assert_int_equal(sky_memory_tier_open("mem:8MiB", &env, &memory, &error), SKY_OK);
    assert_int_equal(sky_coded_tier_open(memory, &three, &w.tier), SKY_OK);
    sky_coded_tier_set(w.tier, &w.codec.codec);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    sighting s = {0};
    assert_int_equal(w.tier->ops->list(w.tier, sight, &s), SKY_OK);
    assert_int_equal(s.times, 3);
    assert_false(s.others);
    assert_int_equal(s.codings, 1u << OWN_CODING | 1u << MIDDLE | 1u << LOWEST);
    w.tier->ops->close(w.tier);
}

/* What comes coded is lowered to each level below it; what nobody can code lies there once. */
static void what_comes_coded_takes_the_levels_below(void **state) {
    (void)state;
    world w;
    setup_three(&w);
    assert_int_equal(put(&w, 1, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    const sky_key top = step_key(1, 0);
    uint8_t code[CODE_BYTES + 100] = {0};
    size_t bytes;
    memcpy(code, sky_scripted_peek(w.inner, &top, &bytes), CODE_BYTES);
    assert_int_equal(put_at(&w, 2, code, sizeof code, OWN_CODING - 1, NULL), SKY_OK);
    for (uint32_t step = 0; step < 3; step++)
        assert_int_equal(coded_as(&w, 2, step), three.codings[step]);
    assert_int_equal(put_at(&w, 3, code, sizeof code, MIDDLE, NULL), SKY_OK);
    assert_int_equal(coded_as(&w, 3, 0), OWN_CODING); /* as it came, whatever it says inside */
    assert_int_equal(coded_as(&w, 3, 1), 0);
    assert_int_equal(coded_as(&w, 3, 2), LOWEST);
    w.codec.declines = true;
    assert_int_equal(put(&w, 4, w.payload, PAYLOAD_BYTES, NULL), SKY_OK);
    const sky_key keys[] = {step_key(4, 0), step_key(4, 1), step_key(4, 2)};
    assert_memory_equal(sky_scripted_peek(w.inner, &keys[0], &bytes), w.payload, PAYLOAD_BYTES);
    assert_null(sky_scripted_peek(w.inner, &keys[1], &bytes));
    assert_null(sky_scripted_peek(w.inner, &keys[2], &bytes));
    w.tier->ops->close(w.tier);
}

/* The tier closes, and callers give up, while levels are on their way. */
static void levels_on_their_way_hold_nobody(void **state) {
    (void)state;
    world w;
    setup_three(&w);
    sky_scripted_hold(w.inner, true);
    sky_span span = {w.payload, PAYLOAD_BYTES};
    sky_item items[3];
    sky_batch batches[3];
    for (uint64_t n = 0; n < 3; n++) {
        items[n] = (sky_item){.key = sky_fixture_key(n), .spans = &span, .span_count = 1};
        batches[n] = sky_fixture_submit(w.tier, SKY_OP_PUT, &items[n], 1, NULL);
    }
    while (sky_scripted_held(w.inner) == 0)
        sky_poll(NULL, 0, sky_now() + SKY_MS(1));
    assert_true(sky_scripted_answer_one(w.inner)); /* the first level of one; its second begins */
    sky_tier_cancel(w.tier, batches[1]);
    assert_int_equal(items[1].status, SKY_E_CANCELLED);
    w.tier->ops->close(w.tier);
    assert_int_not_equal(items[2].status, SKY_PENDING);
}

static sky_tier *open_three(void *context, const sky_tier_env *env) {
    sky_tier *memory = NULL, *t = NULL;
    sky_error error = {0};
    if (sky_memory_tier_open("mem:8MiB", env, &memory, &error) != SKY_OK)
        fail_msg("%s", error.text);
    assert_int_equal(sky_coded_tier_open(memory, &three, &t), SKY_OK);
    halves *h = context;
    h->codec.self = h;
    sky_coded_tier_set(t, &h->codec);
    return t;
}

int main(void) {
    static halves codec;
    codec = halves_codec(1000);
    const sky_tier_fixture fixtures[] = {
        {.name = "coded, no codec",
         .open = open_coded,
         .close = close_coded,
         .capacity_bytes = 8 << 20,
         .items_max = 300,
         .pins = true,
         .adopts = true},
        {.name = "coded",
         .context = &codec,
         .open = open_coded,
         .close = close_coded,
         .capacity_bytes = 8 << 20,
         .items_max = 300,
         .pins = true,
         .adopts = true,
         .composite = true}, /* a get that asks again counts twice below */
        {.name = "coded at three levels",
         .context = &codec,
         .open = open_three,
         .close = close_coded,
         .capacity_bytes = 8 << 20,
         .items_max = 300,
         .pins = true,
         .adopts = true,
         .composite = true},
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_coded_blocks_are_ranges_of_the_payload),
        cmocka_unit_test(others_are_stored_as_they_come),
        cmocka_unit_test(what_is_coded_higher_is_lowered),
        cmocka_unit_test(what_is_slow_holds_up_nothing_else),
        cmocka_unit_test(damage_is_no_payload),
        cmocka_unit_test(a_silent_tier_holds_nobody),
        cmocka_unit_test(a_codec_can_go),
        cmocka_unit_test(a_codec_may_change_under_a_get),
        cmocka_unit_test(a_block_is_kept_at_each_level),
        cmocka_unit_test(a_level_that_is_refused_is_told_and_can_be_put_alone),
        cmocka_unit_test(what_is_left_of_a_block_is_served),
        cmocka_unit_test(a_batch_is_asked_for_level_by_level),
        cmocka_unit_test(what_is_done_to_a_block_is_done_to_all_levels),
        cmocka_unit_test(every_level_is_listed_as_its_block),
        cmocka_unit_test(what_comes_coded_takes_the_levels_below),
        cmocka_unit_test(levels_on_their_way_hold_nobody),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++)
        failed += sky_tier_conformance(&fixtures[i]);
    return failed;
}
