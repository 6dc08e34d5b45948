/* One client of a host: its frames in, its letters out. Surprise: what is called here may close the
 * client (fd -1), so the caller checks for that before it goes on. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cache/opener.h"
#include "host/published.h"
#include "io/pages.h"
#include "io/shared.h"

#define FRAMES_IN_A_ROW     16         /* of one client, before the others have their turn */
#define TURN_BYTES          (4u << 20) /* a user copies so many, and then others have their turn */
#define COMPLAINTS_A_SECOND 10
#define STAGE_ALIGN         4096u

/* ---- the log ---- */

bool sky__host_may_log(sky__host *h) {
    sky_time now = sky_now();
    if (now >= h->complain_at) {
        h->complain_at = now + SKY_SECONDS(1);
        h->complaints = 0;
    }
    if (h->complaints++ == COMPLAINTS_A_SECOND)
        sky_log(SKY_LOG_WARNING, "more clients are refused or disconnected in this second");
    return h->complaints <= COMPLAINTS_A_SECOND;
}

static void log_disconnect(sky__host *h, const sky__client *c, const char *why) {
    if (sky__host_may_log(h))
        sky_log(SKY_LOG_WARNING, "client %llu (process %d of user %u) is disconnected: %s",
                (unsigned long long)c->number, c->peer.pid, c->peer.uid, why);
}

/* ---- letters ---- */

static void letter_free(sky__letter *l) {
    sky_local_close(l->passed);
    free(l);
}

static void letter_add(sky__host *h, sky__client *c, const uint8_t *data, size_t bytes,
                       int passed) {
    bool many = c->letter_count == SKY__HOST_LETTERS_MAX ||
                (passed >= 0 && c->passed_count == SKY__HOST_PASSED_MAX);
    sky__letter *l = many ? NULL : malloc(sizeof *l + bytes);
    if (!l) {
        sky__client_close(h, c, "it does not read its answers");
        return;
    }
    *l = (sky__letter){.passed = -1, .bytes = bytes};
    memcpy(l->data, data, bytes);
    *(c->first ? &c->last->next : &c->first) = l;
    c->last = l;
    c->letter_count++;
    c->passed_count += passed >= 0;
    if (passed >= 0 && (l->passed = sky_local_duplicate(passed)) < 0)
        sky__client_close(h, c, "no descriptor is left for it");
}

/* A letter has to wait: for room in the ring, or for a while where nothing tells. */
static bool is_for_later(sky__client *c, sky_status sent) {
    c->send_at = sent == SKY_E_FULL ? sky_now() + SKY__HOST_SEND_NS : 0;
    return sent == SKY_E_BUSY || sent == SKY_E_FULL;
}

/* What is wrong with a client whose ring or socket failed; NULL: it is gone. */
static const char *fault_of(sky_status status) {
    return status == SKY_E_IO ? NULL : "its ring is not as it was left";
}

void sky__client_send(sky__host *h, sky__client *c, const sky_shm_frame *frame, int passed) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    if (c->fd < 0)
        return;
    size_t bytes = sky_shm_encode(frame, data);
    sky_status status = c->first ? SKY_E_BUSY : sky_ring_send(&c->ring, data, bytes, passed);
    if (is_for_later(c, status))
        letter_add(h, c, data, bytes, passed);
    else if (status != SKY_OK)
        sky__client_close(h, c, fault_of(status));
}

static void send_letters(sky__host *h, sky__client *c) {
    while (c->first) {
        sky__letter *l = c->first;
        sky_status status = sky_ring_send(&c->ring, l->data, l->bytes, l->passed);
        if (is_for_later(c, status))
            return;
        if (status != SKY_OK) {
            sky__client_close(h, c, fault_of(status));
            return;
        }
        c->first = l->next;
        c->letter_count--;
        c->passed_count -= l->passed >= 0;
        letter_free(l);
    }
}

/* ---- segments ---- */

static void show_segments(sky__host *h, sky__client *c, uint64_t at, uint64_t bytes) {
    uint64_t last = (at + (bytes ? bytes : 1) - 1) / c->tenant->arena.segment_bytes;
    for (uint64_t i = at / c->tenant->arena.segment_bytes; i <= last && c->fd >= 0; i++) {
        uint64_t generation;
        int fd = sky_memory_tier_segment(c->tenant->arena_tier, (uint32_t)i, &generation);
        if (c->shown[i] == generation)
            continue;
        c->shown[i] = generation;
        const sky_shm_frame segment = {
            .kind = SKY_SHM_SEGMENT, .segment = (uint32_t)i, .generation = generation};
        sky__client_send(h, c, &segment, fd);
    }
}

static void retire_segments(sky__host *h, sky__tenant *t) {
    uint64_t gone;
    sky_memory_tier_segments(t->arena_tier, &t->stat.committed_bytes, &gone);
    if (gone == t->segments_gone)
        return;
    t->segments_gone = gone;
    for (uint32_t i = 0; i < t->arena.segment_count; i++) {
        uint64_t generation;
        (void)sky_memory_tier_segment(t->arena_tier, i, &generation);
        for (size_t n = 0; n < SKY_HOST_CLIENTS_MAX; n++) {
            sky__client *c = &h->clients[n];
            if (c->fd < 0 || c->tenant != t || c->shown[i] == 0 || c->shown[i] == generation)
                continue;
            c->shown[i] = 0;
            sky__client_send(h, c, &(sky_shm_frame){.kind = SKY_SHM_RETIRED, .segment = i}, -1);
        }
    }
}

/* What its clients did without a word to this host. Returns when to look again. */
static sky_time sweep_arena(sky__tenant *t) {
    uint64_t uses;
    bool more, gone = sky_memory_tier_sweep(t->arena_tier, &uses, &more);
    t->stat.hits += uses - t->direct_uses;
    t->direct_uses = uses;
    if (more)
        return 0;
    return gone ? sky_now() + SKY__HOST_KEPT_NS : SKY_TIME_NEVER;
}

sky_time sky__clients_retire(sky__host *h) {
    sky_time again = SKY_TIME_NEVER;
    for (size_t i = 0; i < h->tenant_count; i++) {
        const sky_time at = sweep_arena(h->tenants[i]);
        again = at < again ? at : again;
        retire_segments(h, h->tenants[i]);
    }
    return again;
}

/* ---- runs ---- */

/* Where what was lent lies in the arena. False: it is lent from elsewhere, and cannot be shown. */
static bool place_of(const sky__client *c, const sky_span *view, uint64_t *at) {
    uintptr_t region = (uintptr_t)c->tenant->arena.region, data = (uintptr_t)view->data;
    *at = data - region;
    return data >= region && *at < c->tenant->arena.region_bytes &&
           view->bytes <= c->tenant->arena.region_bytes - *at;
}

static void result_of(sky__host *h, sky__client *c, sky__run *run, uint32_t i,
                      sky_shm_result *out) {
    const sky_item *item = &run->items[i];
    *out = (sky_shm_result){.status = item->status,
                            .ttl_s = item->ttl_s,
                            .bytes = item->bytes,
                            .coding = item->coding,
                            .evict = item->evict,
                            .pinned = item->pinned};
    if (run->op == SKY_OP_HAS && item->status == SKY_MISS && c->tier == 0 &&
        (out->bytes = sky__published_bytes(c->tenant, &item->key)) > 0)
        out->status = SKY_OK;
    if (item->status == SKY_MISS && run->withdrawn >> i & 1)
        out->status = SKY_OK;
    c->tenant->stat.hits += run->op == SKY_OP_LEASE && item->status == SKY_OK;
    c->tenant->stat.misses += run->op == SKY_OP_LEASE && item->status == SKY_MISS;
    if (run->op != SKY_OP_LEASE || item->status != SKY_OK)
        return;
    if (!place_of(c, &item->view, &out->at)) {
        (void)sky_release_owned(c->tenant->cache, c->number, item->lease);
        *out = (sky_shm_result){.status = SKY_E_UNSUPPORTED};
        return;
    }
    out->lease = item->lease.id;
    c->lease_count++;
    show_segments(h, c, out->at, item->view.bytes);
}

void sky__run_end(sky__host *h, sky__run *run) {
    sky__client *c = run->client;
    sky_shm_frame done = {.kind = SKY_SHM_DONE, .id = run->id, .count = run->count};
    for (uint32_t i = 0; i < run->count; i++)
        result_of(h, c, run, i, &done.results[i]);
    c->run_count--;
    free(run);
    sky__client_send(h, c, &done, -1);
}

static void end_unstarted(sky__host *h, sky__run *run, sky_status status) {
    for (uint32_t i = 0; i < run->count; i++)
        run->items[i].status = status;
    sky__run_end(h, run);
}

void sky__run_start(sky__host *h, sky__run *run) {
    sky__tenant *t = run->client->tenant;
    sky_status status = sky__submit_here(t->cache, run->op, run->items, run->count, &run->call,
                                         &run->batch);
    if (status == SKY_E_BUSY) {
        run->client->stalled = run;
    } else if (status != SKY_OK) {
        end_unstarted(h, run, status);
    } else if (run->batch.id == 0) { /* most are done */
        sky__run_end(h, run);
    } else {
        run->next = t->runs;
        t->runs = run;
    }
}

static bool in_stage(const sky__client *c, const sky_shm_order *o) {
    return c->stage && o->at <= c->stage_bytes &&
           o->bytes + o->name_bytes <= c->stage_bytes - o->at;
}

/* Fill in a run's items. False: one of them lies outside the stage. */
static bool fill_items(const sky__client *c, const sky_shm_frame *f, sky__run *run) {
    char *name = run->names;
    for (uint32_t i = 0; i < f->count; i++) {
        const sky_shm_order *o = &f->orders[i];
        run->items[i] = (sky_item){.key = o->key, .parent = o->parent};
        if (f->op != SKY_OP_PUT)
            continue;
        if (!in_stage(c, o))
            return false;
        run->spans[i] = (sky_span){c->stage + o->at, o->bytes};
        run->items[i].spans = &run->spans[i];
        run->items[i].span_count = o->bytes > 0;
        if (o->name_bytes == 0)
            continue;
        memcpy(name, c->stage + o->at + o->bytes, o->name_bytes);
        run->items[i].name = name;
        run->items[i].name_bytes = o->name_bytes;
        name += o->name_bytes;
    }
    return true;
}

/* Before the removal begins: once it is over, nothing may be taken in any more. */
static void withdraw_published(const sky__client *c, sky__run *run) {
    for (uint32_t i = 0; i < run->count && run->op == SKY_OP_REMOVE && c->tier == 0; i++)
        if (sky__published_remove(c->tenant, &run->items[i].key))
            run->withdrawn |= UINT64_C(1) << i;
}

/* What brings a payload nearer, or waits for it, finds what clients published. */
static void take_in_published(const sky__client *c, const sky__run *run) {
    const sky_op op = run->op;
    if (op != SKY_OP_LEASE && op != SKY_OP_PREFETCH && op != SKY_OP_PIN && op != SKY_OP_AWAIT &&
        op != SKY_OP_EXPECT)
        return;
    for (uint32_t i = 0; i < run->count && c->tenant->stat.blocks > 0; i++)
        sky__published_take_in(c->tenant, &run->items[i].key);
}

/* Which stores take part: the client's, and for what is lent the arena, where it must lie. */
static uint32_t tiers_of(const sky__client *c, sky_op op) {
    if (c->tier == 0)
        return 0;
    bool nearer = op == SKY_OP_LEASE || op == SKY_OP_PREFETCH;
    return 1u << (c->tier - 1) | (nearer ? 1u : 0);
}

static void take_run(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    uint64_t names = 0, bytes = 0;
    for (uint32_t i = 0; i < f->count && f->op == SKY_OP_PUT; i++) {
        names += f->orders[i].name_bytes;
        bytes += f->orders[i].bytes;
    }
    c->tenant->turn_bytes += bytes;
    if (c->run_count == SKY__HOST_RUNS_MAX) {
        sky__client_close(h, c, "it asks for more at once than it may");
        return;
    }
    if (bytes + names > c->stage_bytes) { /* some of them twice, perhaps */
        sky__client_close(h, c, "it names more bytes than its stage has");
        return;
    }
    sky__run *run = malloc(sizeof *run + names);
    if (!run || !fill_items(c, f, run)) {
        free(run);
        sky__client_close(h, c, run ? "it names bytes outside its stage" : "no memory is left");
        return;
    }
    run->client = c;
    run->id = f->id;
    run->op = f->op;
    run->withdrawn = 0;
    run->count = f->count;
    run->call = sky__call_from_fields(&f->call, sky_now());
    run->call.owner = c->number;
    run->call.tiers = tiers_of(c, f->op);
    c->run_count++;
    if (f->op == SKY_OP_LEASE && c->lease_count + f->count > SKY__HOST_LEASES_MAX) {
        end_unstarted(h, run, SKY_E_BUSY);
        return;
    }
    withdraw_published(c, run);
    take_in_published(c, run);
    sky__run_start(h, run);
}

static void take_cancel(sky__host *h, sky__client *c, uint32_t id) {
    sky__published_cancel(c, id);
    for (sky__run **at = &c->tenant->runs; *at; at = &(*at)->next) {
        sky__run *run = *at;
        if (run->client != c || run->id != id)
            continue;
        *at = run->next;
        sky_cancel(c->tenant->cache, run->batch);
        sky__run_end(h, run);
        return;
    }
}

/* ---- other frames ---- */

static void drop_stage(sky__client *c) {
    c->tenant->stage_bytes -= c->stage_bytes;
    sky_pages_release(c->stage, c->stage_bytes);
    c->stage = NULL;
    c->stage_bytes = 0;
}

static bool has_puts(const sky__client *c) {
    for (const sky__run *run = c->tenant->runs; run; run = run->next)
        if (run->client == c && run->op == SKY_OP_PUT)
            return true;
    return false;
}

/* As large as the arena at most: no payload is larger. Another user's are bounded together, as its
 * sizes are its quota. Where there is none of this size, the old one stays. */
static sky_status make_stage(sky__client *c, uint64_t bytes, int *fd) {
    sky__tenant *t = c->tenant;
    uint8_t *made;
    if (bytes == 0 || bytes > t->arena.region_bytes + SKY_NAME_BYTES_MAX)
        return SKY_E_FULL;
    bytes = (bytes + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
    const uint64_t others = t->stage_bytes - c->stage_bytes;
    bool own = t->uid == sky_local_user();
    if (!own && others + bytes > SKY__HOST_STAGES * t->arena.region_bytes)
        return SKY_E_BUSY;
    sky_status status = sky_pages_reserve(bytes, (void **)&made, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_make(made, bytes, SKY_SHARED_WRITE, fd);
    if (status != SKY_OK) {
        sky_pages_release(made, bytes);
        return status;
    }
    drop_stage(c);
    c->stage = made;
    c->stage_bytes = bytes;
    t->stage_bytes += bytes;
    return SKY_OK;
}

static void take_stage(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    int fd = -1;
    if (has_puts(c)) {
        sky__client_close(h, c, "it changes its stage under a put");
        return;
    }
    sky_shm_frame staged = {.kind = SKY_SHM_STAGED};
    staged.status = make_stage(c, f->stage_bytes, &fd);
    staged.stage_bytes = c->stage_bytes;
    sky__client_send(h, c, &staged, fd);
    sky_local_close(fd);
}

static void take_release(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        sky_lease lease = {f->leases[i]};
        if (lease.id == 0 || sky_release_owned(c->tenant->cache, c->number, lease) != SKY_OK) {
            sky__client_close(h, c, "it returns what it was not lent");
            return;
        }
        c->lease_count--;
    }
}

/* Answer with numbers and bytes, if there are any. */
static void tell_client(sky__host *h, sky__client *c, const sky__chore *told) {
    int fd = -1;
    sky_shm_frame frame = {
        .kind = SKY_SHM_TOLD, .id = told->id, .question = told->question, .told = told->status};
    memcpy(frame.numbers, told->numbers, sizeof frame.numbers);
    if (told->text_bytes > 0) {
        sky_status status = sky_shared_copy(told->text, told->text_bytes, &fd);
        frame.told = status == SKY_OK ? frame.told : status;
        frame.text_bytes = status == SKY_OK ? told->text_bytes : 0;
        c->listed = true;
    }
    sky__client_send(h, c, &frame, fd);
    sky_local_close(fd);
}

void sky__clients_answer(sky__host *h) {
    sky__chore *done = sky__chores_take(h);
    for (sky__chore *c = done; c; c = c->next) {
        c->tenant->chores--;
        for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++) {
            sky__client *client = &h->clients[i];
            if (client->fd < 0 || client->number != c->client)
                continue;
            client->asking[sky__chore_queue(c->question)] = false;
            tell_client(h, client, c);
        }
    }
    sky__chores_free(done);
}

/* The counters that go back are those of now. */
static void take_ask(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    bool *asking = &c->asking[sky__chore_queue(f->question)];
    uint64_t gone;
    c->listed = c->listed && (c->first || !sky_ring_is_read(&c->ring) || !sky_local_is_read(c->fd));
    (void)sweep_arena(c->tenant);
    c->tenant->stat.direct_leases = sky_memory_tier_kept(c->tenant->arena_tier);
    sky_memory_tier_segments(c->tenant->arena_tier, &c->tenant->stat.committed_bytes, &gone);
    if (!*asking && (!c->listed || f->question == SKY_SHM_STAT) && sky__chore_add(h, c, f)) {
        *asking = true;
    } else {
        const sky__chore busy = {.id = f->id, .question = f->question, .status = SKY_E_BUSY};
        tell_client(h, c, &busy);
    }
}

/* Before there is a ring: over the socket. */
static sky_status send_first(const sky__client *c, const sky_shm_frame *frame, int passed) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    return sky_local_send(c->fd, data, sky_shm_encode(frame, data), passed);
}

/* The user's own, or the pool that it named. */
static void join_tenant(sky__client *c, sky__tenant *t) {
    c->tenant->stat.clients--;
    c->tenant->stat.connections--;
    c->tenant = t;
    t->stat.clients++;
    t->stat.connections++;
}

/* Let it find and keep blocks itself. Where there is no memory or descriptor for that, it asks. */
static void show_index(sky__host *h, sky__client *c) {
    int index, page;
    if (c->tier > 1 ||
        sky_memory_tier_join(c->tenant->arena_tier, &c->reader, &index, &page) != SKY_OK)
        return;
    c->reads = true;
    sky__client_send(h, c, &(sky_shm_frame){.kind = SKY_SHM_INDEX}, index);
    sky__client_send(h, c, &(sky_shm_frame){.kind = SKY_SHM_PAGE}, page);
    sky_local_close(page);
}

static void take_hello(sky__host *h, sky__client *c, const sky_shm_frame *f) {
    int fd;
    if (f->version != SKY_SHM_VERSION) {
        (void)send_first(c, &(sky_shm_frame){.kind = SKY_SHM_REFUSED, .status = SKY_E_UNSUPPORTED},
                         -1);
        sky__client_close(h, c, "it is of another version");
        return;
    }
    sky__tenant *t = sky__tenant_of(h, c->tenant->uid, f->pool);
    if (t && !t->leaving && t != c->tenant && !sky__tenant_has_place(h, t)) {
        (void)send_first(c, &(sky_shm_frame){.kind = SKY_SHM_REFUSED, .status = SKY_E_BUSY}, -1);
        sky__client_close(h, c, "its pool has as many clients as it takes");
        return;
    }
    if (!t || t->leaving || f->count > sky_tier_count(t->cache)) {
        (void)send_first(c, &(sky_shm_frame){.kind = SKY_SHM_REFUSED, .status = SKY_E_PARAM}, -1);
        sky__client_close(h, c, "it names a pool or a store that there is not");
        return;
    }
    join_tenant(c, t);
    c->tier = f->count;
    if (sky_ring_make(c->fd, &c->ring, &fd) != SKY_OK) {
        (void)send_first(c, &(sky_shm_frame){.kind = SKY_SHM_REFUSED, .status = SKY_E_BUSY}, -1);
        sky__client_close(h, c, "no memory is left for its ring");
        return;
    }
    c->greeted = true;
    const sky_shm_frame welcome = {.kind = SKY_SHM_WELCOME,
                                   .version = SKY_SHM_VERSION,
                                   .arena_bytes = c->tenant->arena.region_bytes,
                                   .segment_bytes = c->tenant->arena.segment_bytes,
                                   .client = c->number};
    sky_status status = send_first(c, &welcome, fd);
    sky_local_close(fd);
    if (status == SKY_OK)
        show_index(h, c);
    else
        sky__client_close(h, c, status == SKY_E_IO ? NULL : "no descriptor is left for it");
}

static void take_frame(sky__host *h, sky__client *c, const sky_shm_frame *f, int passed) {
    if (f->kind == SKY_SHM_RUN)
        take_run(h, c, f);
    else if (f->kind == SKY_SHM_RELEASE)
        take_release(h, c, f);
    else if (f->kind == SKY_SHM_CANCEL)
        take_cancel(h, c, f->id);
    else if (f->kind == SKY_SHM_STAGE)
        take_stage(h, c, f);
    else if (f->kind == SKY_SHM_ASK)
        take_ask(h, c, f);
    else if (f->kind == SKY_SHM_REGISTER || f->kind == SKY_SHM_LAYOUT || f->kind == SKY_SHM_BLOCK)
        sky__published_hear(h, c, f, passed);
    else
        sky__client_close(h, c, "it sends what a host sends");
}

/* ---- a connection ---- */

void sky__client_open(sky__tenant *t, sky__client *c, uint64_t number, int fd,
                      const sky_local_peer *peer) {
    *c = (sky__client){.fd = fd,
                       .ended_fd = -1,
                       .tenant = t,
                       .number = number,
                       .peer = *peer,
                       .greet_by = sky_now() + SKY__HOST_HELLO_NS};
    t->stat.clients++;
    t->stat.connections++;
}

static void cancel_runs(const sky__client *c) {
    for (sky__run **at = &c->tenant->runs; *at;) {
        sky__run *run = *at;
        if (run->client != c) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        sky_cancel(c->tenant->cache, run->batch);
        free(run);
    }
}

/* It has closed the connection too, or it need not. */
static void part_from(sky__client *c, int *fd) {
    sky_local_close(*fd);
    *fd = -1;
    c->tenant->stat.clients--;
    if (c->reads)
        sky_memory_tier_leave(c->tenant->arena_tier, c->reader);
    c->reads = false;
    (void)sky_release_owner(c->tenant->cache, c->number, NULL);
}

void sky__client_close(sky__host *h, sky__client *c, const char *why) {
    if (c->ended_fd >= 0 && !why)
        part_from(c, &c->ended_fd);
    if (c->fd < 0)
        return;
    if (why) {
        log_disconnect(h, c, why);
        c->tenant->stat.disconnected++;
    }
    sky_ring_deinit(&c->ring);
    sky__chores_forget(h, c);
    cancel_runs(c);
    free(c->stalled);
    c->stalled = NULL;
    bool keeps = c->reads && sky_memory_tier_end(c->tenant->arena_tier, c->reader);
    if (why && (c->lease_count > 0 || keeps)) {
        sky_local_end(c->fd);
        c->ended_fd = c->fd;
        c->fd = -1;
    } else {
        part_from(c, &c->fd);
    }
    drop_stage(c);
    while (c->first) {
        sky__letter *l = c->first;
        c->first = l->next;
        letter_free(l);
    }
    sky__published_leave(h, c);
}

void sky__clients_dismiss(sky__host *h) {
    for (size_t i = 0; i < SKY_HOST_CLIENTS_MAX; i++)
        if (sky__client_is_here(&h->clients[i]) && h->clients[i].tenant->leaving) {
            sky__client_close(h, &h->clients[i], "its user is served no longer");
            sky__client_close(h, &h->clients[i], NULL); /* its arena goes too, and stays mapped */
        }
}

/* The first message, which alone is not in the ring. */
static void receive_hello(sky__host *h, sky__client *c) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    sky_shm_frame frame;
    size_t bytes;
    int passed;
    sky_status status = sky_local_receive(c->fd, data, sizeof data, &bytes, &passed);
    sky_local_close(passed);
    if (status == SKY_OK && passed < 0)
        status = sky_shm_decode(data, bytes, &frame);
    if (status == SKY_MISS)
        return;
    if (status == SKY_OK && passed < 0 && frame.kind == SKY_SHM_HELLO)
        take_hello(h, c, &frame);
    else
        sky__client_close(h, c, status == SKY_E_IO ? NULL : "it does not begin as clients do");
}

/* It was ended, and says nothing that matters. */
static void await_end(sky__host *h, sky__client *c) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes;
    int passed;
    sky_status status = sky_local_receive(c->ended_fd, data, sizeof data, &bytes, &passed);
    sky_local_close(passed);
    if (status == SKY_E_IO)
        sky__client_close(h, c, NULL);
}

void sky__client_hear(sky__host *h, sky__client *c) {
    if (c->ended_fd >= 0) {
        await_end(h, c);
        return;
    }
    if (!c->greeted) {
        receive_hello(h, c);
        return;
    }
    sky_status status = sky_ring_hear(&c->ring);
    if (status != SKY_OK)
        sky__client_close(h, c, status == SKY_E_IO ? NULL : "it sends no wake-up");
    else if (c->ring.held_count > 1) /* one may wait for its message, REGISTER */
        sky__client_close(h, c, "it sends descriptors without messages");
}

bool sky__client_has_work(const sky__client *c) {
    return c->fd >= 0 && c->greeted && !c->stalled && sky_ring_has_work(&c->ring);
}

void sky__client_serve(sky__host *h, sky__client *c) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    sky_shm_frame frame;
    send_letters(h, c);
    for (int n = 0; n < FRAMES_IN_A_ROW && c->fd >= 0 && !c->stalled; n++) {
        if (c->tenant->turn_bytes >= TURN_BYTES)
            return;
        size_t bytes;
        int passed;
        sky_status status = sky_ring_receive(&c->ring, data, sizeof data, &bytes, &passed);
        if (status == SKY_MISS)
            return;
        if (status != SKY_OK)
            sky__client_close(h, c, fault_of(status));
        else if (sky_shm_decode(data, bytes, &frame) != SKY_OK)
            sky__client_close(h, c, "it sends no frame");
        else if (passed >= 0 && frame.kind != SKY_SHM_REGISTER)
            sky__client_close(h, c, "it sends a descriptor");
        else
            take_frame(h, c, &frame, passed);
        sky_local_close(passed);
    }
}

bool sky__clients_serve(sky__host *h, sky__client *const *clients, size_t count) {
    bool served = false;
    for (size_t i = 0; i < h->tenant_count; i++)
        h->tenants[i]->turn_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        sky__client *c = clients[(h->turns + i) % count];
        if (!sky__client_has_work(c))
            continue;
        sky__client_serve(h, c);
        served = true;
    }
    h->turns++;
    return served;
}
