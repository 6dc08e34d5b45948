/* Between users and their gateways: what was asked and has not arrived, and what came of it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lab/sim/run_state.h"

typedef sky__run run;
typedef sky__run_request request;

sky_status sky__run_land_init(run *r) {
    sky_users_init(&r->users, &r->scenario, r->options->seed ^ 0x75736572); /* "user" */
    for (uint32_t i = 0; i < r->scenario.user_count; i++) {
        r->of_user[i].latencies = calloc(1, sizeof *r->of_user[i].latencies);
        if (!r->of_user[i].latencies)
            return SKY_E_NOMEM;
    }
    return SKY_OK;
}

void sky__run_land_deinit(run *r) {
    for (uint32_t i = 0; i < SKY_USERS_MAX; i++)
        free(r->of_user[i].latencies);
}

void sky__run_wish_add(run *r, const sky__run_asker *who, bool set, uint32_t key) {
    if (r->wish_count == SKY__RUN_OPEN_MAX)
        return;
    bool at_home = who->asked > sky_world_now(r->world);
    uint64_t bytes = set ? r->check.value_bytes : 0;
    sky_time due = who->asked;
    if (!at_home)
        due = sky_users_up(&r->users, who->user, who->ground, who->asked, bytes);
    r->wishes[r->wish_count++] = (sky__run_wish){*who, due, set, at_home, key};
}

/* Of those that arrive at once, the one made first. */
static uint32_t first_wish(const run *r) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < r->wish_count; i++)
        first = r->wishes[i].due < r->wishes[first].due ? i : first;
    return first;
}

sky_time sky__run_wish_next(const run *r) {
    return r->wish_count > 0 ? r->wishes[first_wish(r)].due : SKY_TIME_NEVER;
}

uint32_t sky__run_wishes_asking(const run *r) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->wish_count; i++)
        count += !r->wishes[i].set;
    return count;
}

void sky__run_wishes_arrive(run *r) {
    while (sky__run_wish_next(r) <= sky_world_now(r->world)) {
        uint32_t i = first_wish(r);
        sky__run_wish w = r->wishes[i];
        for (r->wish_count--; i < r->wish_count; i++)
            r->wishes[i] = r->wishes[i + 1];
        if (w.at_home)
            sky__run_wish_add(r, &w.who, w.set, w.key);
        else if (w.set)
            sky__run_set(r, &w.who, w.key);
        else
            sky__run_ask_at(r, &w.who);
    }
}

sky_time sky__run_land_result(run *r, const request *q, const sky_result *result) {
    uint32_t user = q->who.user;
    if (user == SKY_USER_NONE)
        return 0;
    sky_time now = sky_world_now(r->world);
    bool hit = q->op == SKY_OP_GET && result->status == SKY_OK;
    sky_time down = sky_users_down(&r->users, user, q->who.ground, now, hit ? result->bytes : 0);
    r->of_user[user].sets += q->op == SKY_OP_PUT && result->status == SKY_OK;
    if (q->op != SKY_OP_GET)
        return down - now;
    r->of_user[user].gets++;
    r->of_user[user].hits += hit;
    r->of_user[user].unanswered += !hit && result->status != SKY_MISS &&
                                   result->status != SKY_E_CORRUPT;
    if (hit)
        sky_latencies_add(r->of_user[user].latencies, down - q->who.asked);
    return down - now;
}

void sky__run_land_report(const run *r, sky_sim_result *out) {
    out->user_count = r->scenario.user_count;
    for (uint32_t i = 0; i < out->user_count; i++) {
        out->users[i] = (sky_sim_ground){
            .gets = r->of_user[i].gets,
            .hits = r->of_user[i].hits,
            .sets = r->of_user[i].sets,
            .unanswered = r->of_user[i].unanswered,
            .p50 = sky_latencies_quantile(r->of_user[i].latencies, 0.5),
            .p99 = sky_latencies_quantile(r->of_user[i].latencies, 0.99),
        };
        snprintf(out->users[i].name, sizeof out->users[i].name, "%s", r->scenario.users[i].name);
    }
}
