/* What a run asks for: see run.c. */
#include <stdlib.h>

#include "lab/sim/run_state.h"

#define SET_ONE_IN 16
#define ANY        UINT32_MAX /* ground */

typedef sky__run run;
typedef sky__run_request request;

static request *free_request(run *r) {
    for (uint32_t i = 0; i < r->open_max; i++) {
        if (!r->requests[i].open)
            return &r->requests[i];
    }
    return NULL;
}

/* By this ground, or by any. Only one removes at a time: what puts that overlap come to is known,
 * of a removal and a put it is not. */
static bool being_changed(const run *r, uint32_t ground, uint32_t key) {
    for (uint32_t i = 0; i < r->open_max; i++) {
        const request *q = &r->requests[i];
        if (q->open && q->key == key && q->op == SKY_OP_REMOVE)
            return true;
        if (q->open && q->key == key && q->op == SKY_OP_PUT &&
            (ground == ANY || q->who.ground == ground))
            return true;
    }
    return false;
}

static sky_key key_of(const run *r, uint32_t key) {
    return sky_value_key(&(sky_value){.seed = r->check.seed, .key = key});
}

static bool run_ask_submit(run *r, request *q, const sky__run_asker *who, sky_op op, uint32_t key,
                           int64_t at_ms) {
    uint32_t ground = who->ground;
    bool below = key % r->scenario.workload.chain > 0;
    sky_request ask = {.op = op,
                       .key = key_of(r, key),
                       .parent = below ? key_of(r, key - 1) : (sky_key){{0}},
                       .chain = op == SKY_OP_HAS ? q->chain : NULL,
                       .chain_count = q->chain_count,
                       .context = q,
                       .at_ms = at_ms,
                       .named = sky__run_several(r),
                       .payload_bytes = (uint32_t)r->check.value_bytes,
                       .room_bytes = r->check.value_bytes};
    sky_time now = sky_world_now(r->world);
    q->who = *who;
    q->began = now;
    q->op = op;
    q->key = key;
    q->calm = sky__run_is_calm(r, ground, now);
    q->hurts = sky__run_disturbances(r);
    q->open = true; /* the world may call back before it returns */
    uint32_t number = (uint32_t)(q - r->requests);
    sky_request_log_begin(&r->log, number, now, ground, op, key,
                          op == SKY_OP_HAS ? q->chain_count : 1);
    q->open = sky_world_submit_at(r->world, ground, &ask) == SKY_OK;
    if (!q->open)
        sky_request_log_drop(&r->log, number);
    r->open_count += q->open;
    return q->open;
}

void sky__run_set(run *r, const sky__run_asker *who, uint32_t key) {
    request *q = free_request(r);
    if (!q || being_changed(r, sky__run_several(r) ? who->ground : ANY, key))
        return;
    q->value = sky_check_set_begins(&r->check, key);
    q->crashes_before = r->crashes;
    sky_time now = sky_world_now(r->world);
    if (sky__run_several(r))
        sky_check_fresh_put_begins(&r->fresh, key, q->value.version, now);
    if (!run_ask_submit(r, q, who, SKY_OP_PUT, key, 0) && sky__run_several(r))
        sky_check_fresh_put_ends(&r->fresh, key, q->value.version, now, false);
}

/* False when there is no room to ask now. */
static bool run_ask_get(run *r, const sky__run_asker *who, uint32_t key) {
    request *q = free_request(r);
    if (q && !q->buffer)
        q->buffer = malloc(r->check.value_bytes);
    if (!q || !q->buffer)
        return false;
    sky_check_get_begins(&r->check, key, q->buffer, &q->get);
    q->floor = sky__run_several(r) ? sky_check_fresh_floor(&r->fresh, key) : 0;
    return run_ask_submit(r, q, who, SKY_OP_GET, key, 0);
}

/* False when there is no room to ask now. */
static bool run_ask_look(run *r, const sky__run_asker *who, uint32_t first, uint32_t count) {
    request *q = free_request(r);
    if (q && !q->chain)
        q->chain = malloc(r->scenario.workload.chain * sizeof *q->chain);
    if (!q || !q->chain)
        return false;
    q->chain_count = count;
    for (uint32_t i = 0; i < count; i++)
        q->chain[i] = key_of(r, first + i);
    return run_ask_submit(r, q, who, SKY_OP_HAS, first, 0);
}

/* Moved to where it will be overhead in up to four turns. */
static void run_ask_prefetch(run *r, request *q, const sky__run_asker *who, uint32_t key) {
    const sky_turning *t = &sky_world_frame(r->world)->turning;
    uint64_t turns = sky_turns(t, sky_world_now(r->world)) + 1 + sky_prng_below(&r->other_prng, 4);
    run_ask_submit(r, q, who, SKY_OP_PREFETCH, key, sky_turning_ms(t, sky_turn_begins(t, turns)));
}

/* Neither get nor set; false: it is one of these. A third of all keys is pinned in the long run, so
 * that there is something to evict. */
static bool run_ask_other(run *r, const sky__run_asker *who, uint32_t key) {
    double removes = r->scenario.workload.removes;
    double pins = removes + r->scenario.workload.pins;
    double prefetches = pins + r->scenario.workload.prefetches;
    double draw = prefetches > 0 ? sky_prng_unit(&r->other_prng) : 1;
    if (draw >= prefetches)
        return false;
    request *q = free_request(r);
    if (!q || (draw < removes && being_changed(r, ANY, key)))
        return true;
    if (draw < removes) {
        sky_check_taken(&r->check, key, true);
        if (sky__run_several(r))
            sky_check_fresh_forget(&r->fresh, key, sky_world_now(r->world));
        run_ask_submit(r, q, who, SKY_OP_REMOVE, key, 0);
    } else if (draw < pins) {
        bool pin = sky_prng_below(&r->other_prng, 3) == 0;
        run_ask_submit(r, q, who, pin ? SKY_OP_PIN : SKY_OP_UNPIN, key, 0);
    } else {
        run_ask_prefetch(r, q, who, key);
    }
    return true;
}

/* What a user sends is on its way first. */
static void set_for(run *r, const sky__run_asker *who, uint32_t key) {
    if (who->user == SKY_USER_NONE)
        sky__run_set(r, who, key);
    else
        sky__run_wish_add(r, who, true, key);
}

void sky__run_ask(run *r) {
    uint32_t grounds = sky_world_grounds(r->world);
    sky__run_asker who = {.user = SKY_USER_NONE, .asked = sky_world_now(r->world)};
    if (r->scenario.user_count > 0) {
        who.user = sky_users_draw(&r->users);
        who.ground = sky_users_gateway(&r->users, who.user, who.asked);
        sky__run_wish_add(r, &who, false, 0);
        return;
    }
    who.ground = grounds > 1 ? (uint32_t)sky_prng_below(&r->ground_prng, grounds) : 0;
    sky__run_ask_at(r, &who);
}

/* A prompt's first blocks, or one that stands for itself. */
void sky__run_ask_at(run *r, const sky__run_asker *who) {
    uint32_t chain = r->scenario.workload.chain;
    uint32_t prompts = r->scenario.workload.keys / chain;
    uint32_t number = r->scenario.workload.regular ? r->prompts_asked++ % prompts
                                                   : sky_zipf_draw(&r->zipf, &r->prng);
    uint32_t key = number * chain;
    uint32_t count = chain > 1 ? 1 + (uint32_t)sky_prng_below(&r->prng, chain) : 1;
    if (run_ask_other(r, who, key + count - 1))
        return;
    if (chain > 1)
        r->asked += run_ask_look(r, who, key, count);
    else if (sky_prng_below(&r->prng, SET_ONE_IN) == 0)
        set_for(r, who, key);
    else
        r->asked += run_ask_get(r, who, key);
}

void sky__run_missed(run *r, const sky__run_asker *who, uint32_t key) {
    sky__run_asker again = *who;
    if (who->user != SKY_USER_NONE) /* it hears of it first */
        again.asked = sky_users_down(&r->users, who->user, who->ground, sky_world_now(r->world), 0);
    set_for(r, &again, key);
}

/* A gateway gets at once what it found for a user. */
void sky__run_use_prompt(run *r, const sky__run_prompt *p) {
    sky__run_asker now = p->who;
    now.asked = sky_world_now(r->world);
    for (uint32_t i = 0; i < p->count; i++) {
        if (i < p->there)
            run_ask_get(r, &now, p->key + i);
        else
            sky__run_missed(r, &p->who, p->key + i);
    }
}
