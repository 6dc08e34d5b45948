/* sky_cache: opening and closing a hierarchy, its thread, and the public calls. The parts that do
 * the work are drawn in cache/cache_state.h. */
#include "cache/cache_internal.h"
#include "cache/opener.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/codec.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/demotion.h"
#include "cache/promotion.h"
#include "cache/request.h"
#include "io/clock.h"
#include "io/fork.h"
#include "io/trace.h"
#include "tier/disk/folder.h"
#include "tier/driver/driver.h"
#include "tier/encoded/encoded.h"
#include "tier/url.h"

#define CLOSE_NS        SKY_SECONDS(10)
#define PREFIX_KEYS_MAX 1024 /* asked at once */

/* ---- the thread ---- */

sky_time sky__cache_step(sky_cache *c) {
    sky_mutex_lock(&c->mutex);
    bool moved = sky__promotion_step(c);
    moved |= sky__demotion_step(c);
    for (sky__order_entry *e; (e = sky__order_next_ready(&c->order)) != NULL; moved = true) {
        sky_mutex_unlock(&c->mutex);
        e->go(c, e);
        sky_mutex_lock(&c->mutex);
    }
    for (size_t t = 0; t < c->slot_count; t++) {
        if (c->stopping)
            (void)sky__slot_empty(c, &c->slots[t]);
        moved |= sky__slot_step(c, &c->slots[t]);
    }
    moved |= sky__arrivals_step(c);
    sky_time until = sky__requests_expire(c);
    until = c->arrivals.check_at < until ? c->arrivals.check_at : until;
    for (size_t t = 0; t < c->slot_count; t++) {
        sky_time at = sky__slot_wake_at(&c->slots[t]);
        until = at < until ? at : until;
    }
    sky_mutex_unlock(&c->mutex);
    return moved ? 0 : until;
}

/* It is to stop, and nothing is left to be ended. */
static bool is_over(sky_cache *c) {
    sky_mutex_lock(&c->mutex);
    bool over = c->stopping && !c->requests && !c->promotions && !c->demotions &&
                !c->order.ready_first;
    for (size_t t = 0; over && t < c->slot_count; t++)
        over = sky__slot_empty(c, &c->slots[t]);
    sky_mutex_unlock(&c->mutex);
    return over;
}

/* As sky_idle_fn; what there is to do is done in it. */
static sky_time step_until(void *cache) {
    sky_time until = sky__cache_step(cache);
    return is_over(cache) ? SKY_TIME_OVER : until;
}

static void *thread_body(void *cache) {
    sky_cache *c = cache;
    sky_trace_thread("skymem-cache");
    int fds[SKY_TIERS_MAX];
    size_t fd_count = 0;
    for (size_t t = 0; t < c->slot_count; t++)
        if (!c->slots[t].tier->ops->answer)
            fds[fd_count++] = sky_tier_event_fd(c->slots[t].tier);
    while (sky_event_wait(c->wake, fds, fd_count, step_until, c)) {
    }
    return NULL;
}

/* ---- opening and closing ---- */

sky_status sky__cache_create(const sky_clock *clock, sky_cache **out) {
    sky_trace_start();
    sky_cache *c = calloc(1, sizeof *c);
    if (!c)
        return SKY_E_NOMEM;
    c->wake = -1;
    c->arrivals.check_at = SKY_TIME_NEVER;
    c->clock = clock ? clock : sky_clock_system();
    sky_mutex_init(&c->mutex);
    sky_mutex_init(&c->codec_mutex);
    sky_condition_init(&c->quiet);
    sky_status status = sky_forks_watch(&c->forks);
    if (status == SKY_OK)
        status = sky_batches_create(clock, &c->batches);
    if (status == SKY_OK)
        status = sky_leases_create(&c->leases);
    if (status == SKY_OK)
        status = sky_event_create(&c->wake);
    if (status != SKY_OK) {
        sky_cache_close(c);
        return status;
    }
    *out = c;
    return SKY_OK;
}

sky_tier_env sky__cache_env(sky_cache *c) {
    return (sky_tier_env){.index = (uint8_t)c->slot_count,
                          .verify_cancelled = &c->verify_cancelled,
                          .offer = sky__demotion_offer,
                          .offer_context = c};
}

void sky__cache_add(sky_cache *c, sky_tier *tier) {
    assert(c->slot_count < SKY_TIERS_MAX);
    c->slots[c->slot_count++] = (sky__slot){.tier = tier, .check_at = SKY_TIME_NEVER};
}

/* After the scheme of a URL. */
static void name_kind(sky__slot *s, const char *url) {
    snprintf(s->kind, sizeof s->kind, "%.*s", (int)strcspn(url, ":"), url);
}

sky_status sky__cache_start_stepped(sky_cache *c) {
    assert(c->slot_count > 0);
    uint64_t leased_max = UINT64_MAX;
    for (size_t t = 0; t < c->slot_count; t++) {
        sky__slot *s = &c->slots[t];
        sky_tier_stat stat;
        sky_counts counts = {0};
        bool lends = t == 0 && sky__near_leases(c);
        s->write_back_bytes_max = leased_max;
        if (s->kind[0] && !lends)
            continue; /* another host is not asked, and so not waited for */
        s->tier->ops->stat(s->tier, &stat, &counts);
        name_kind(s, stat.url);
        leased_max = lends ? counts.tier.bytes_max / 2 : leased_max;
    }
    return SKY_OK;
}

sky_status sky__cache_start(sky_cache *c) {
    sky_status status = sky__cache_start_stepped(c);
    return status == SKY_OK ? sky_thread_start(&c->thread, "skymem-cache", thread_body, c) : status;
}

/* The URL without its levels, which the tier itself knows nothing of. levels->count 0: none. */
static sky_status take_level(const sky_url *url, char *text, size_t text_bytes,
                             sky_level_set *levels, sky_error *error) {
    const char *names = sky_url_value(url, "level");
    if (names && (strcmp(url->scheme, "mem") == 0 || sky_level_set_parse(names, levels) != SKY_OK))
        return sky_fail(error, SKY_E_SYNTAX,
                        "%s:%.200s: level=%s: farther tiers than mem take " SKY_LEVEL_NAMES
                        ", or some of them with commas, each once",
                        url->scheme, url->path, names);
    int used = snprintf(text, text_bytes, "%s:%s", url->scheme, url->path);
    for (size_t i = 0, count = 0; i < url->query_count; i++) {
        bool level = strcmp(url->query[i].key, "level") == 0;
        if (level && url->query[i].value != names)
            return sky_fail(error, SKY_E_SYNTAX, "%s:%.200s: 'level' stands there twice",
                            url->scheme, url->path);
        if (level)
            continue;
        used += snprintf(text + used, text_bytes - (size_t)used, "%c%s=%s", count++ ? '&' : '?',
                         url->query[i].key, url->query[i].value);
    }
    return SKY_OK;
}

static sky_status no_such_store(const char *text, size_t scheme_bytes, sky_error *error) {
    if (strncmp(text, "sky:", 4) == 0 || strncmp(text, "sky+udp:", 8) == 0)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: skies come with libskymem-sky: link the program with -lskymem-sky "
                        "and call sky_skies_register()",
                        text);
    return sky_fail(error, SKY_E_SYNTAX, /* not the URL, in which a password may stand */
                    "no store is called '%.*s'; known: mem, disk, shm, skymem, with libskymem-sky "
                    "sky and sky+udp, and what the program registers",
                    scheme_bytes < 40 ? (int)scheme_bytes : 40, text);
}

static sky_status open_tier(sky_cache *c, const char *text, sky_error *error) {
    char shown[201];
    size_t scheme_bytes = strcspn(text, ":");
    sky_tier_opener opens = sky__opener_find(text, scheme_bytes);
    sky_tier_driver driver;
    if (!opens && text[scheme_bytes] && !sky_driver_find(text, scheme_bytes, &driver))
        return no_such_store(text, scheme_bytes, error);
    sky_url url;
    char plain[sizeof url];
    sky_level_set levels = {.count = 0};
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = take_level(&url, plain, sizeof plain, &levels, error);
    if (status != SKY_OK)
        return status;
    sky_tier_env env = sky__cache_env(c);
    if (levels.count > 0) /* its entries are codes, not payloads */
        env.offer = NULL;
    sky_tier *tier;
    status = opens ? opens(plain, &env, &tier, error)
                   : sky_driver_tier_open(&driver, plain, &env, &tier, error);
    if (status == SKY_OK && levels.count > 0 &&
        (status = sky_coded_tier_open(tier, &levels, &tier)) != SKY_OK)
        sky_fail(error, status, "%.200s: %s", text, sky_status_text(status));
    sky_url_shown(text, shown, sizeof shown);
    if (status == SKY_OK) {
        sky_log(SKY_LOG_INFO, "opened %s as tier %zu", shown, c->slot_count);
        sky__cache_add(c, tier);
        name_kind(&c->slots[c->slot_count - 1], text);
    } else {
        sky_log(SKY_LOG_INFO, "cannot open %s: %s", shown, sky_status_text(status));
    }
    return status;
}

/* Two tiers in one folder would take each other's entries for their own, and evict them. */
static sky_status refuse_twice(const char *const *urls, size_t count, sky_error *error) {
    sky_url last, other;
    if (sky_url_parse(urls[count - 1], &last, NULL) != SKY_OK || strcmp(last.scheme, "disk") != 0)
        return SKY_OK;
    for (size_t i = 0; i + 1 < count; i++)
        if (sky_url_parse(urls[i], &other, NULL) == SKY_OK && strcmp(other.scheme, "disk") == 0 &&
            sky_disk_folder_same(last.path, other.path))
            return sky_fail(error, SKY_E_PARAM,
                            "%.200s: another store of this hierarchy is in the same folder; name a "
                            "folder of its own",
                            urls[count - 1]);
    return SKY_OK;
}

/* A tier that is filled by evictions would get none. */
static sky_status refuse_unfed(const sky_cache *c, const char *url, sky_error *error) {
    size_t last = c->slot_count - 1;
    bool fed = !(c->slots[last].tier->traits & SKY_TIER_VICTIMS);
    for (size_t t = 0; t < last; t++)
        fed |= c->slots[t].tier->offers;
    if (fed)
        return SKY_OK;
    return sky_fail(error, SKY_E_PARAM,
                    "%.200s: fill=evictions needs a nearer disk: without level=, as one with it "
                    "offers nothing; name that one first, or leave fill away",
                    url);
}

static bool is_known(uint32_t version) {
    return version / 1000 == SKY_VERSION_NUMBER / 1000; /* before 1.0 each minor one is another */
}

sky_status sky_cache_open_version(uint32_t version, const char *const *urls, size_t url_count,
                                  sky_cache **out, sky_error *error) {
    if (!is_known(version))
        return sky_fail(error, SKY_E_UNSUPPORTED,
                        "the program was compiled for libskymem %u.%u, and this is %s: compile it "
                        "with the headers of this one",
                        version / 1000000, version / 1000 % 1000, SKY_VERSION);
    if (!out || !urls)
        return sky_fail(error, SKY_E_PARAM, "sky_cache_open: urls and out must not be NULL");
    if (url_count == 0 || url_count > SKY_TIERS_MAX)
        return sky_fail(error, SKY_E_PARAM, "%zu stores given: 1 to %d make a hierarchy", url_count,
                        SKY_TIERS_MAX);
    for (size_t i = 0; i < url_count; i++)
        if (!urls[i])
            return sky_fail(error, SKY_E_PARAM, "store %zu of %zu is NULL", i + 1, url_count);
    sky_cache *c;
    sky_status status = sky__cache_create(NULL, &c);
    if (status != SKY_OK)
        return sky_fail(error, status, "a cache could not start: %s", sky_status_text(status));
    for (size_t i = 0; status == SKY_OK && i < url_count; i++) {
        status = open_tier(c, urls[i], error);
        if (status == SKY_OK)
            status = refuse_twice(urls, i + 1, error);
        if (status == SKY_OK)
            status = refuse_unfed(c, urls[i], error);
    }
    if (status == SKY_OK) {
        status = sky__cache_start(c);
        if (status != SKY_OK)
            sky_fail(error, status, "the cache's thread could not start: %s",
                     sky_status_text(status));
    }
    if (status != SKY_OK) {
        sky_cache_close(c);
        return status;
    }
    *out = c;
    return SKY_OK;
}

static void release_packed(sky_cache *c, uint64_t packed) {
    sky_tier *tier = c->slots[packed >> 48].tier;
    tier->ops->release(tier, (sky_lease){packed & ((UINT64_C(1) << 48) - 1)});
}

static void cache_stop(sky_cache *c) {
    sky_mutex_lock(&c->mutex);
    c->stopping = true;
    sky__requests_give_up(c);
    sky_mutex_unlock(&c->mutex);
    if (c->thread.running) {
        sky__cache_wake(c);
        sky_thread_join(&c->thread);
    }
    while (!is_over(c))
        (void)sky__cache_step(c);
}

/* Return what an owner borrowed, or everybody (NULL); how many leases that were. */
static uint64_t release_all(sky_cache *c, const uint64_t *owner) {
    uint64_t count = 0, packed;
    for (uint32_t row = 0;; count++) {
        sky_mutex_lock(&c->mutex);
        bool more = sky_leases_give_next(c->leases, owner, &row, &packed);
        sky_mutex_unlock(&c->mutex);
        if (!more)
            return count;
        release_packed(c, packed);
    }
}

static void cache_destroy(sky_cache *c) {
    if (c->batches)
        sky_batches_cancel_all(c->batches);
    if (c->leases)
        (void)release_all(c, NULL);
    for (size_t t = 0; t < c->slot_count; t++)
        c->slots[t].tier->ops->close(c->slots[t].tier);
    sky_batches_destroy(c->batches);
    sky_leases_destroy(c->leases);
    sky__arrivals_deinit(&c->arrivals);
    sky_event_close(c->wake);
    sky_condition_deinit(&c->quiet);
    sky_mutex_deinit(&c->codec_mutex);
    sky_mutex_deinit(&c->mutex);
    free(c);
}

void sky__cache_abandon(sky_cache *c) {
    cache_stop(c);
    cache_destroy(c);
    sky_trace_flush(0);
}

sky_status sky__cache_check(const sky_cache *c) {
    if (!c)
        return SKY_E_PARAM;
    return c->forks == sky_forks() ? SKY_OK : SKY_E_FORKED;
}

static bool is_ours(const sky_cache *c) {
    return sky__cache_check(c) == SKY_OK;
}

/* Why a call cannot be served. */
static sky_status call_refusal(const sky_cache *c) {
    return c ? SKY_E_FORKED : SKY_E_PARAM;
}

void sky_cache_close(sky_cache *c) {
    if (!is_ours(c))
        return; /* the parent's threads hold its locks, and its tiers are at work there */
    if (c->thread.running)
        (void)sky__cache_settle(c, sky_now() + CLOSE_NS);
    sky__cache_abandon(c);
}

/* ---- batches ---- */

sky_status sky_submit(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                      const sky_call *call, sky_batch *out) {
    if (!is_ours(c) || !out)
        return call_refusal(c && out ? c : NULL);
    return sky__request_submit(c, op, items, item_count, call, false, out);
}

sky_status sky__submit_here(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                            const sky_call *call, sky_batch *out) {
    if (!is_ours(c))
        return call_refusal(c);
    sky_status status = sky__request_submit(c, op, items, item_count, call, true, out);
    if (status == SKY_OK && out->id != 0 && sky_batches_leave_to_drain(c->batches, *out))
        out->id = 0;
    return status;
}

int sky_event_fd(const sky_cache *c) {
    return is_ours(c) ? sky_batches_event_fd(c->batches) : -1;
}

size_t sky_drain(sky_cache *c, sky_batch *done, size_t max) {
    return is_ours(c) && (done || max == 0) ? sky_batches_drain(c->batches, done, max) : 0;
}

sky_status sky_wait(sky_cache *c, sky_batch batch, sky_time until) {
    return is_ours(c) ? sky_batches_wait(c->batches, batch, until) : call_refusal(c);
}

void sky__cache_give_up(sky_cache *c, sky_batch batch) {
    sky_mutex_lock(&c->mutex);
    sky__request_give_up(c, batch);
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
}

void sky_cancel(sky_cache *c, sky_batch batch) {
    if (!is_ours(c))
        return;
    sky__cache_give_up(c, batch);
    sky_batches_cancel(c->batches, batch);
}

sky_status sky_release_owned(sky_cache *c, uint64_t owner, sky_lease lease) {
    if (!is_ours(c) || lease.id == 0)
        return is_ours(c) ? SKY_OK : call_refusal(c);
    uint64_t packed;
    sky_mutex_lock(&c->mutex);
    sky_status status = sky_leases_give(c->leases, lease, owner, &packed);
    sky_mutex_unlock(&c->mutex);
    if (status == SKY_OK)
        release_packed(c, packed);
    return status;
}

sky_status sky_release(sky_cache *c, sky_lease lease) {
    return sky_release_owned(c, 0, lease);
}

sky_status sky_release_owner(sky_cache *c, uint64_t owner, uint64_t *released) {
    if (!is_ours(c) || owner == 0)
        return is_ours(c) ? SKY_E_PARAM : call_refusal(c);
    sky_mutex_lock(&c->mutex);
    sky__requests_give_up_owner(c, owner);
    sky__arrivals_withdraw_owner(&c->arrivals, owner);
    sky_mutex_unlock(&c->mutex);
    sky__cache_wake(c);
    uint64_t count = release_all(c, &owner);
    if (released)
        *released = count;
    return SKY_OK;
}

sky_status sky_run(sky_cache *c, sky_op op, sky_item *items, size_t item_count,
                   const sky_call *call) {
    if (!is_ours(c))
        return call_refusal(c);
    sky_batch batch;
    sky_status status = sky__request_submit(c, op, items, item_count, call, true, &batch);
    if (status != SKY_OK || batch.id == 0)
        return status;
    return sky_batches_wait(c->batches, batch, SKY_TIME_NEVER);
}

/* Present keys among the next at most PREFIX_KEYS_MAX. */
static sky_status count_present(sky_cache *c, sky_item *items, size_t count, const sky_call *call,
                                uint64_t *payload_bytes, size_t *present) {
    sky_status status = sky_run(c, SKY_OP_HAS, items, count, call);
    size_t found = 0;
    for (; status == SKY_OK && found < count && items[found].status == SKY_OK; found++)
        if (payload_bytes)
            payload_bytes[found] = items[found].bytes;
    *present = found;
    if (status == SKY_OK && found < count && items[found].status != SKY_MISS)
        status = items[found].status;
    return status;
}

sky_status sky_cache_prefix(sky_cache *c, const sky_key *keys, size_t key_count,
                            const sky_call *call, uint64_t *payload_bytes, size_t *present) {
    if (present)
        *present = 0;
    if (!is_ours(c) || !present || (!keys && key_count > 0))
        return call_refusal(present && (keys || key_count == 0) ? c : NULL);
    size_t found = PREFIX_KEYS_MAX;
    sky_item *items = malloc(PREFIX_KEYS_MAX * sizeof *items);
    sky_status status = items ? SKY_OK : SKY_E_NOMEM;
    while (status == SKY_OK && *present < key_count && found == PREFIX_KEYS_MAX) {
        size_t left = key_count - *present,
               at_once = left < PREFIX_KEYS_MAX ? left : PREFIX_KEYS_MAX;
        for (size_t i = 0; i < at_once; i++)
            items[i] = (sky_item){.key = keys[*present + i]};
        for (size_t i = 1; i < at_once; i++)
            items[i].parent = keys[*present + i - 1]; /* a tier may make use of their order */
        status = count_present(c, items, at_once, call,
                               payload_bytes ? payload_bytes + *present : NULL, &found);
        *present += found;
    }
    free(items);
    return status;
}

/* With the mutex held. */
static bool is_quiet(const sky_cache *c) {
    for (size_t t = 0; t < c->slot_count; t++)
        if (c->slots[t].write_back_count > 0)
            return false;
    return c->promotion_count == 0 && c->demotion_count == 0;
}

bool sky__cache_quiet(sky_cache *c) {
    sky_mutex_lock(&c->mutex);
    bool quiet = is_quiet(c);
    sky_mutex_unlock(&c->mutex);
    return quiet;
}

bool sky__cache_settle(sky_cache *c, sky_time until) {
    sky_mutex_lock(&c->mutex);
    while (!is_quiet(c) && sky_condition_wait(&c->quiet, &c->mutex, until)) {
    }
    bool quiet = is_quiet(c);
    sky_mutex_unlock(&c->mutex);
    return quiet;
}

sky_status sky_flush(sky_cache *c, sky_time until, uint64_t *dropped) {
    if (!is_ours(c))
        return call_refusal(c);
    bool quiet = sky__cache_settle(c, until);
    sky_mutex_lock(&c->mutex);
    sky_status status = c->dropped ? c->dropped_why : SKY_OK;
    if (dropped)
        *dropped = c->dropped;
    if (quiet) /* else the next flush tells of them too */
        c->dropped = 0;
    sky_mutex_unlock(&c->mutex);
    return quiet ? status : SKY_E_DEADLINE;
}

sky_tier *sky__cache_tier(sky_cache *c, size_t place) {
    return is_ours(c) && place < c->slot_count ? c->slots[place].tier : NULL;
}

void sky_cache_codec_set(sky_cache *c, const sky_block_codec *codec) {
    if (!is_ours(c) ||
        (codec && (!codec->encode || !codec->lower || !codec->likely_bytes || !codec->decode)))
        return;
    for (size_t t = 0; t < c->slot_count; t++)
        sky_coded_tier_set(c->slots[t].tier, codec);
}

static bool keeps_coded(const sky_cache *c) {
    bool coded = false;
    for (size_t t = 0; t < c->slot_count; t++)
        coded |= sky_coded_tier_inner(c->slots[t].tier) != c->slots[t].tier;
    return coded;
}

sky_status sky__cache_codec_enter(sky_cache *c, sky__codec_user *user) {
    sky_status status = SKY_OK;
    if (!is_ours(c))
        return call_refusal(c);
    if (!keeps_coded(c))
        return SKY_OK;
    sky_mutex_lock(&c->codec_mutex);
    if (c->codec_users && memcmp(c->codec_users->id, user->id, sizeof user->id) != 0) {
        status = SKY_E_BUSY;
    } else {
        user->next = c->codec_users;
        c->codec_users = user;
        sky_cache_codec_set(c, user->codec);
    }
    sky_mutex_unlock(&c->codec_mutex);
    return status;
}

void sky__cache_codec_leave(sky_cache *c, sky__codec_user *user) {
    if (!is_ours(c))
        return;
    sky_mutex_lock(&c->codec_mutex);
    sky__codec_user **link = &c->codec_users;
    while (*link && *link != user)
        link = &(*link)->next;
    bool used = *link && link == &c->codec_users;
    if (*link)
        *link = user->next;
    if (used)
        sky_cache_codec_set(c, c->codec_users ? c->codec_users->codec : NULL);
    sky_mutex_unlock(&c->codec_mutex);
}

atomic_uint *sky__cache_foreign(sky_cache *c) {
    return &c->foreign;
}

/* ---- looking at all tiers ---- */

typedef struct {
    sky_entry_fn each;
    void *context;
    bool stopped;
} listing;

static bool list_one(void *context, const sky_entry *entry) {
    listing *l = context;
    l->stopped = !l->each(l->context, entry);
    return !l->stopped;
}

sky_status sky_list(sky_cache *c, sky_entry_fn each, void *context) {
    if (!is_ours(c) || !each)
        return call_refusal(each ? c : NULL);
    listing l = {each, context, false};
    sky_status first = SKY_OK;
    for (size_t t = 0; t < c->slot_count && !l.stopped; t++) {
        sky_status status = c->slots[t].tier->ops->list(c->slots[t].tier, list_one, &l);
        first = first == SKY_OK ? status : first;
    }
    return first;
}

/* Of those under way, the last to end makes room for new ones. */
static void verify_enter(sky_cache *c, int more) {
    sky_mutex_lock(&c->mutex);
    c->verify_count += more;
    if (c->verify_count == 0)
        atomic_store(&c->verify_cancelled, false);
    sky_mutex_unlock(&c->mutex);
}

sky_status sky_verify(sky_cache *c, sky_verify_report *out) {
    if (!is_ours(c) || !out)
        return call_refusal(out ? c : NULL);
    sky_verify_report sum = {0};
    sky_status first = SKY_OK;
    verify_enter(c, 1);
    for (size_t t = 0; t < c->slot_count && first != SKY_E_CANCELLED; t++) {
        sky_status status = c->slots[t].tier->ops->verify(c->slots[t].tier, &sum);
        if (first == SKY_OK || status == SKY_E_CANCELLED)
            first = status;
    }
    verify_enter(c, -1);
    if (first != SKY_E_CANCELLED)
        *out = sum;
    return first;
}

void sky_verify_cancel(sky_cache *c) {
    if (!is_ours(c))
        return;
    sky_mutex_lock(&c->mutex);
    atomic_store(&c->verify_cancelled, c->verify_count > 0);
    sky_mutex_unlock(&c->mutex);
}

size_t sky_tier_count(const sky_cache *c) {
    return is_ours(c) ? c->slot_count : 0;
}

uint32_t sky_tier_traits(const sky_cache *c, size_t tier) {
    return is_ours(c) && tier < c->slot_count ? c->slots[tier].tier->traits : 0;
}
