/* Operations over several hosts.
 *
 * A batch is a request, which goes on in steps. In each step an item is asked for at some hosts,
 * and what is for one lane of a host is one job, so that looking for any number of keys is one
 * round trip. When the last job of a step is over, the next begins.
 *
 *   op            first                                    then
 *   get           at the nearest host that had the key     the next of them; after these, or
 *                                                          knowing of none: has, at all others
 *   put           at the host that choice.h says           a block at the next, where it was
 *                                                          not reached
 *   has,          at all                                   –
 *   prefetch
 *   remove, pin,  at all that are not read-only; of an     –
 *   announce,     await the first that has it ends it
 *   await, …
 *
 * A host that is down is passed over, and sought on its own lane's thread meanwhile. What the
 * others do not have is then SKY_E_UNAVAILABLE, as that host may have it. All of a request is
 * under the tier's mutex. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "io/clock.h"
#include "tier/peer/peer_state.h"

/* What is known of an item. */
typedef struct {
    sky_key key;
    bool named, over;
    bool unasked;        /* a host that may have it was not reached, or failed */
    bool answered;       /* by a host */
    bool sought;         /* hosts were asked whether they have it */
    sky__peer_ride ride; /* of all that is asked about it */
    uint32_t has;        /* hosts to get it from, not tried yet */
    uint32_t tried;      /* hosts that were to get or put it */
    uint32_t targets;    /* of this step */
    sky_op step;         /* what they are asked */
    int weight;          /* of the answer; 0: none yet */
    sky_answer answer;
} progress;

struct sky__peer_request {
    sky__peer *peer;
    sky_op op;
    sky_batch batch;
    sky_call call;
    uint32_t jobs; /* under way */
    uint32_t count;
    progress items[];
};

/* ---- where keys are ---- */

static sky__peer_hint *hint_of(sky__peer *p, const sky_key *key) {
    return &p->hints[sky_load_u32(key->bytes + 8) % SKY__PEER_HINTS];
}

static uint32_t hinted_hosts(sky__peer *p, const sky_key *key) {
    const sky__peer_hint *h = hint_of(p, key);
    return h->key == sky_load_u64(key->bytes) ? h->hosts : 0;
}

static void set_hint(sky__peer *p, const sky_key *key, uint32_t host, bool has) {
    sky__peer_hint *h = hint_of(p, key);
    uint64_t part = sky_load_u64(key->bytes);
    if (h->key != part && has)
        *h = (sky__peer_hint){.key = part};
    if (h->key == part)
        h->hosts = (h->hosts & ~(1u << host)) | (has ? 1u << host : 0);
}

/* ---- hosts ---- */

/* Those that are not down. One that has been for a while is sought. */
static uint32_t hosts_up(sky__peer *p) {
    uint32_t up = 0;
    for (uint32_t i = 0; i < p->host_count; i++) {
        sky__peer_host *h = &p->hosts[i];
        if (!h->down) {
            up |= 1u << i;
        } else if (!h->probing && sky_now() >= h->retry_at) {
            h->probing = true;
            sky_event_raise(h->lanes->event);
        }
    }
    return up;
}

/* Are there hosts besides these? */
static bool has_others(const sky__peer *p, uint32_t among) {
    return (uint32_t)__builtin_popcount(among) < p->host_count;
}

static uint32_t hosts_writable(const sky__peer *p) {
    uint32_t writable = 0;
    for (uint32_t i = 0; i < p->host_count; i++)
        writable |= p->hosts[i].read_only ? 0 : 1u << i;
    return writable;
}

static uint32_t owner_of(const sky__peer *p, uint32_t among, const sky_key *key) {
    uint64_t ids[SKY_PEER_HOSTS_MAX] = {0};
    for (uint32_t i = 0; i < p->host_count; i++)
        ids[i] = p->hosts[i].id;
    return sky_peer_owner(ids, among, key);
}

static uint32_t nearest_of(const sky__peer *p, uint32_t among) {
    uint64_t round_trips_ns[SKY_PEER_HOSTS_MAX] = {0};
    for (uint32_t i = 0; i < p->host_count; i++)
        round_trips_ns[i] = p->hosts[i].round_trip_ns;
    return sky_peer_nearest(round_trips_ns, among);
}

/* ---- answers ---- */

static bool is_read(sky_op op) {
    return op == SKY_OP_GET || op == SKY_OP_HAS || op == SKY_OP_PREFETCH;
}

/* Which of two answers for an item says more. */
static int weight_of(sky_op op, sky_status status) {
    bool reads = is_read(op);
    if (status == SKY_MISS || status == SKY_E_UNSUPPORTED)
        return 2;
    if (status == SKY_OK)
        return op == SKY_OP_REMOVE ? 3 : 5;
    if (reads)
        return status == SKY_E_CORRUPT ? 4 : 1; /* what one that failed has is missing */
    return 4;
}

static void weigh_answer(const sky__peer_request *r, progress *w, const sky_answer *a) {
    int weight = weight_of(r->op, a->status);
    w->unasked |= a->status != SKY_OK && a->status != SKY_MISS;
    bool pinned = w->answer.pinned || a->pinned;
    if (weight > w->weight) {
        w->answer = *a;
        w->weight = weight;
    }
    w->answer.pinned = w->answer.status == SKY_OK && pinned;
}

static void weigh_status(const sky__peer_request *r, progress *w, sky_status status) {
    weigh_answer(r, w, &(sky_answer){.status = status, .tier = SKY_TIER_NONE});
}

/* With the mutex held. */
static bool all_are_down(const sky__peer *p) {
    uint32_t down = 0;
    while (down < p->host_count && p->hosts[down].down)
        down++;
    return down == p->host_count;
}

static bool is_pin(sky_op op) {
    return op == SKY_OP_PIN || op == SKY_OP_UNPIN;
}

/* What one host fails in says nothing against a set of which others are up. With the mutex held. */
static void finish_item(sky__peer_request *r, uint32_t i) {
    progress *w = &r->items[i];
    if (w->weight == 0)
        w->answer = (sky_answer){.status = SKY_E_IO, .tier = SKY_TIER_NONE};
    bool silent = w->answer.status == SKY_E_IO && w->answer.tier == SKY_TIER_NONE;
    if (silent && w->answered && (is_pin(r->op) || r->op == SKY_OP_REMOVE))
        w->answer.status = SKY_E_UNAVAILABLE;
    if (w->answer.tier == SKY_TIER_NONE && !all_are_down(r->peer))
        w->answer.tier = sky__answering_tier(r->peer->env.index, w->answer.status);
    if (w->answer.status == SKY_MISS && w->unasked && (is_read(r->op) || is_pin(r->op)))
        w->answer.status = SKY_E_UNAVAILABLE;
    w->over = true;
    sky__count_answer(&r->peer->counts, r->op, &w->answer);
    sky_batches_answer(r->peer->tier.batches, r->batch, i, &w->answer);
}

/* Another host might say something else. */
static bool is_final(sky_op op, sky_status status) {
    if (op == SKY_OP_PUT)
        return status != SKY_E_IO;
    return status == SKY_OK || status == SKY_E_PARAM || status == SKY_E_DST_SMALL;
}

/* One host's answer may be that of all. */
static bool ends_early(sky_op op) {
    return op == SKY_OP_GET || op == SKY_OP_PUT || op == SKY_OP_AWAIT || op == SKY_OP_EXPECT;
}

/* Hosts that still wait for what another one has are told that nobody does. With the mutex held. */
static void stop_waiting(sky__peer *p) {
    for (uint32_t n = 0; n < p->host_count * p->lane_count; n++) {
        atomic_store(&p->lanes[n].cancels, true);
        sky_event_raise(p->lanes[n].event);
    }
}

void sky__peer_set_note(sky__peer *p, const sky__peer_job *j, uint32_t i, const sky_answer *a) {
    sky__peer_request *r = j->request;
    progress *w = &r->items[i];
    sky_mutex_lock(&p->mutex);
    bool answered = a->status == SKY_OK || a->status == SKY_MISS;
    w->answered |= answered;
    if (answered && (j->op == SKY_OP_HAS || j->op == SKY_OP_GET))
        set_hint(p, &w->key, j->host, a->status == SKY_OK);
    if (a->status == SKY_OK && (j->op == SKY_OP_PUT || j->op == SKY_OP_REMOVE))
        set_hint(p, &w->key, j->host, j->op == SKY_OP_PUT);
    if (j->op == r->op || a->status != SKY_OK)
        weigh_answer(r, w, a);
    else
        w->has |= 1u << j->host;
    if (j->op == r->op && ends_early(r->op) && !w->over && is_final(r->op, a->status)) {
        w->answer = *a;
        w->weight = 1;
        bool waits = r->op == SKY_OP_AWAIT || r->op == SKY_OP_EXPECT;
        finish_item(r, i);
        if (waits)
            stop_waiting(p);
    }
    sky_mutex_unlock(&p->mutex);
}

/* ---- steps ---- */

static void plan_get(sky__peer *p, progress *w, uint32_t up) {
    uint32_t from = nearest_of(p, w->has & up & ~w->tried);
    w->step = from != SKY_PEER_NOBODY ? SKY_OP_GET : SKY_OP_HAS;
    if (from != SKY_PEER_NOBODY) {
        w->targets = 1u << from;
        w->tried |= w->targets;
    } else if (!w->sought) {
        w->sought = true;
        w->targets = up & ~w->tried;
        w->unasked |= has_others(p, up);
    }
}

/* A name is put where everybody looks for it first, or not at all: another place would keep an
 * older value when that one is back. */
static void plan_put(const sky__peer *p, progress *w, uint32_t up) {
    uint32_t among = hosts_writable(p) & (w->named ? ~0u : up & ~w->tried);
    uint32_t to = owner_of(p, among, &w->key);
    w->step = SKY_OP_PUT;
    if (to == SKY_PEER_NOBODY || !(up >> to & 1) || w->tried >> to & 1)
        return;
    w->targets = 1u << to;
    w->tried |= w->targets;
}

static void plan_all(const sky__peer_request *r, progress *w, uint32_t up) {
    uint32_t at = is_read(r->op) ? ~0u : hosts_writable(r->peer);
    w->step = r->op;
    if (w->sought)
        return;
    w->sought = true;
    w->targets = at & up;
    w->unasked |= has_others(r->peer, up);
    if (r->op == SKY_OP_REMOVE && (at & ~up)) /* what is down may have it still */
        weigh_status(r, w, SKY_E_IO);
}

static void plan_step(sky__peer_request *r, progress *w, uint32_t up) {
    w->targets = 0;
    if (r->op == SKY_OP_GET)
        plan_get(r->peer, w, up);
    else if (r->op == SKY_OP_PUT)
        plan_put(r->peer, w, up);
    else
        plan_all(r, w, up);
}

/* What one lane is to be asked: the items of this step. */
typedef struct {
    sky__peer_lane *lane;
    sky_op op;
} sub_request;

static bool is_for(const sky__peer *p, const progress *w, const sub_request *e) {
    return !w->over && w->targets >> e->lane->host->index & 1 && w->step == e->op &&
           &e->lane->host->lanes[p->routes[w->ride.route].lane] == e->lane;
}

/* Errors: SKY_E_NOMEM */
static sky_status send_one(sky__peer_request *r, const sub_request *e) {
    sky__peer *p = r->peer;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count; i++)
        count += is_for(p, &r->items[i], e);
    if (count == 0)
        return SKY_OK;
    sky__peer_job *j = malloc(sizeof *j + count * sizeof *j->parts);
    if (!j)
        return SKY_E_NOMEM;
    uint32_t writable = hosts_writable(p);
    *j = (sky__peer_job){.request = r,
                         .host = e->lane->host->index,
                         .orphans = (writable & (writable - 1)) != 0,
                         .op = e->op,
                         .batch = r->batch,
                         .call = r->call};
    for (uint32_t i = 0; i < r->count; i++)
        if (is_for(p, &r->items[i], e))
            j->parts[j->count++].item = i;
    r->jobs++;
    sky__peer_queue(e->lane, j);
    return SKY_OK;
}

static sky_status send_all(sky__peer_request *r) {
    sky__peer *p = r->peer;
    sky_status status = SKY_OK;
    for (uint32_t n = 0; n < p->host_count * p->lane_count && status == SKY_OK; n++) {
        status = send_one(r, &(sub_request){&p->lanes[n], r->op});
        if (status == SKY_OK && r->op == SKY_OP_GET)
            status = send_one(r, &(sub_request){&p->lanes[n], SKY_OP_HAS});
    }
    return status;
}

static void fail_rest(sky__peer_request *r, sky_status status) {
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->items[i].over)
            continue;
        r->items[i].answer = (sky_answer){.status = status, .tier = SKY_TIER_NONE};
        r->items[i].weight = 1;
        finish_item(r, i);
    }
}

static bool is_late(const sky__peer_request *r) {
    const sky_clock *clock = r->peer->env.clock;
    return r->call.deadline_ns != 0 && clock->now(clock) >= r->call.deadline_ns;
}

/* With the mutex held: the next step. When there is none, the request is freed. */
static void go_on(sky__peer_request *r) {
    sky__peer *p = r->peer;
    bool wanted = !p->closing && sky_batches_alive(p->tier.batches, r->batch);
    uint32_t up = wanted ? hosts_up(p) : 0;
    if (!wanted)
        fail_rest(r, is_late(r) ? SKY_E_DEADLINE : SKY_E_CANCELLED);
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->items[i].over)
            continue;
        plan_step(r, &r->items[i], up);
        if (r->items[i].targets == 0)
            finish_item(r, i);
    }
    sky_status status = send_all(r);
    if (r->jobs > 0)
        return;
    fail_rest(r, status); /* if it is not SKY_OK, else nothing is left */
    for (uint32_t i = 0; i < r->count; i++)
        sky__peer_route_give(p, &r->items[i].ride);
    free(r);
}

void sky__peer_set_end_job(sky__peer_request *r) {
    sky__peer *p = r->peer;
    sky_mutex_lock(&p->mutex);
    if (--r->jobs == 0)
        go_on(r);
    sky_mutex_unlock(&p->mutex);
}

sky_status sky__peer_set_submit(sky__peer *p, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call, sky_batch *out) {
    bool writes = !is_read(op);
    sky__peer_request *r = calloc(1, sizeof *r + item_count * sizeof *r->items);
    if (!r)
        return SKY_E_NOMEM;
    *r = (sky__peer_request){.peer = p, .op = op, .call = *call, .count = (uint32_t)item_count};
    sky_mutex_lock(&p->mutex);
    sky_status status = sky_batches_open(p->tier.batches, items, item_count, call->deadline_ns,
                                         &r->batch);
    if (status != SKY_OK) {
        sky_mutex_unlock(&p->mutex);
        free(r);
        return status;
    }
    *out = r->batch;
    for (size_t i = 0; i < item_count; i++) {
        progress *w = &r->items[i];
        w->key = items[i].key;
        w->ride = sky__peer_route_take(p, op, &items[i]);
        w->named = items[i].name != NULL;
        w->has = op == SKY_OP_GET ? hinted_hosts(p, &w->key) : 0;
        if (writes && hosts_writable(p) == 0)
            weigh_status(r, w, SKY_E_UNSUPPORTED);
    }
    go_on(r);
    sky_mutex_unlock(&p->mutex);
    return SKY_OK;
}
