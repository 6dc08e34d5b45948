/* The disk tier, seen from outside: one folder of files, one thread, docs/formats/disk.md.
 *
 * Surprises:
 *  - A get of a small payload whose pages the kernel holds is answered on the caller's thread.
 *  - Gets overtake puts; changes keep their order among themselves (work.c). The hierarchy
 *    keeps a get back until the writes of its key before it are done.
 *  - The folder is the truth, the catalogue a memory of it: other processes may write here too.
 *  - Blocks that will be evicted are offered to farther tiers before (offer.c), not when they go:
 *    that would read what is to make room for a write. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/file.h"
#include "tier/disk/disk.h"
#include "tier/disk/seal.h"
#include "tier/url.h"

#define BYTES_MAX_DEFAULT (UINT64_C(8) << 30)
#define BYTES_MAX_LIMIT   (UINT64_C(1) << 60)
/* One entry for each 64 KiB of the limit, within these bounds: 190 bytes of memory each. */
#define ENTRY_SHARE_BYTES 65536u
#define ENTRIES_MIN       1024u
#define ENTRIES_MAX       131072u
#define LAST_SHARE        2u /* of the limit, and of the entries: what SKY_EVICT_LAST may take */

static sky_disk *disk_of(sky_tier *tier) {
    return (sky_disk *)(void *)tier; /* its first member */
}

/* ---- batches ---- */

static bool is_lookup(sky_op op) {
    return op == SKY_OP_HAS || op == SKY_OP_GET || op == SKY_OP_PREFETCH;
}

static sky_status refuse_all(sky_disk *d, sky_item *items, size_t item_count, sky_batch *out) {
    sky_status status = sky_batches_open(d->tier.batches, items, item_count, 0, out);
    for (size_t i = 0; status == SKY_OK && i < item_count; i++)
        sky_batches_finish(d->tier.batches, *out, i, SKY_E_UNSUPPORTED, 0, SKY_TIER_NONE);
    return status;
}

static sky_status disk_submit(sky_tier *tier, sky_op op, sky_item *items, size_t item_count,
                              const sky_call *call, sky_batch *out) {
    sky_disk *d = disk_of(tier);
    if (op == SKY_OP_LEASE)
        return refuse_all(d, items, item_count, out);
    sky_disk_request r = {.op = op,
                          .count = item_count,
                          .ttl_s = call->ttl_s,
                          .level = call->coding,
                          .evict = call->evict,
                          .durable = call->durable,
                          .no_touch = call->no_touch};
    sky_disk_queue *q = is_lookup(op) ? &d->lookups : &d->changes;
    sky_status status = SKY_E_BUSY;
    sky_mutex_lock(&d->queue_mutex);
    if (q->count < SKY_BATCHES_MAX)
        status = sky_batches_open(d->tier.batches, items, item_count, call->deadline_ns, &r.batch);
    if (status == SKY_OK) {
        q->requests[(q->first + q->count++) % SKY_BATCHES_MAX] = r;
        *out = r.batch;
    }
    sky_mutex_unlock(&d->queue_mutex);
    if (status == SKY_OK)
        sky_event_raise(d->wake);
    return status;
}

/* ---- list, stat ---- */

/* Names are not kept in memory, nor the keys that a seal hides. False when the entry went
 * meanwhile. */
static bool read_name(const sky_disk *d, sky_disk_fact *fact, char *name, size_t *bytes) {
    sky_disk_header header;
    if (sky_disk_entry_load(&d->folder, &fact->key, &header) != SKY_OK)
        return false;
    if (header.is_sealed) {
        memcpy(fact->key.bytes, header.sealed.keys, SKY_KEY_BYTES);
        memcpy(fact->parent.bytes, header.sealed.keys + SKY_KEY_BYTES, SKY_KEY_BYTES);
    }
    memcpy(name, header.name, header.name_bytes);
    name[header.name_bytes] = '\0';
    *bytes = header.name_bytes;
    return true;
}

/* The mutex is not held around the callback, which may use the tier. */
static sky_status disk_list(sky_tier *tier, sky_entry_fn each, void *context) {
    sky_disk *d = disk_of(tier);
    char name[SKY_NAME_BYTES_MAX + 1];
    for (uint32_t number = 0;; number++) {
        sky_disk_fact fact;
        sky_mutex_lock(&d->mutex);
        const sky_disk_fact *found = sky_disk_catalogue_next(d->catalogue, &number);
        if (found)
            fact = *found;
        sky_mutex_unlock(&d->mutex);
        if (!found)
            return SKY_OK;
        size_t name_bytes = 0;
        if (sky_disk_expired(d, fact.expire_ms) ||
            ((fact.named || d->folder.seal) && !read_name(d, &fact, name, &name_bytes)))
            continue;
        sky_entry entry = {.key = fact.key,
                           .name = fact.named ? name : NULL,
                           .name_bytes = name_bytes,
                           .bytes = fact.payload_bytes,
                           .set_ms = fact.set_ms,
                           .hits = fact.hits,
                           .tier = d->env.index,
                           .pinned = fact.pinned,
                           .coding = fact.level,
                           .parent = fact.parent,
                           .used_ms = fact.used_ms,
                           .evict = fact.evict};
        if (!each(context, &entry))
            return SKY_OK;
    }
}

static void disk_stat(sky_tier *tier, sky_tier_stat *out, sky_counts *counts) {
    sky_disk *d = disk_of(tier);
    sky_tier_counts *t = &counts->tier;
    sky_mutex_lock(&d->mutex);
    *t = d->counts;
    *out = (sky_tier_stat){.failing = d->failures_in_row >= SKY_DISK_FAILURES_IN_ROW};
    t->entries = sky_disk_catalogue_count(d->catalogue);
    t->bytes_used = sky_disk_catalogue_bytes(d->catalogue);
    sky_mutex_unlock(&d->mutex);
    memcpy(out->url, d->url, sizeof out->url);
    t->bytes_max = d->bytes_max;
    t->late = sky_batches_late(d->tier.batches);
    const char *cache = d->folder.direct ? d->folder.reads_cached ? "O_DIRECT to write" : "O_DIRECT"
                        : d->folder.refused ? "O_DIRECT refused, using the page cache"
                                            : "page cache";
    snprintf(out->note, sizeof out->note, "%s, %s%s%s", sky_disk_work_backend(d->work), cache,
             d->folder.seal ? ", sealed" : "",
             !sky_disk_folder_writable(&d->folder) ? ", read-only folder: nothing is stored"
             : d->folder.denied ? ", no permission to write here: nothing is stored"
                                : "");
}

/* ---- open, close ---- */

static void disk_destroy(sky_disk *d) {
    sky_disk_work_destroy(d->work);
    if (d->opened)
        sky_disk_remember(d);
    sky_disk_catalogue_destroy(d->catalogue);
    sky_batches_destroy(d->tier.batches);
    sky_disk_folder_close(&d->folder);
    sky_event_close(d->wake);
    sky_mutex_deinit(&d->mutex);
    sky_mutex_deinit(&d->queue_mutex);
    free(d);
}

static void disk_close(sky_tier *tier) {
    sky_disk *d = disk_of(tier);
    sky_batches_cancel_all(d->tier.batches);
    sky_mutex_lock(&d->queue_mutex);
    d->closing = true;
    sky_mutex_unlock(&d->queue_mutex);
    sky_event_raise(d->wake);
    disk_destroy(d);
}

static const sky_tier_ops disk_ops = {
    .submit = disk_submit,
    .attempt = sky_disk_attempt,
    .list = disk_list,
    .verify = sky_disk_verify,
    .stat = disk_stat,
    .close = disk_close,
};

typedef struct {
    sky_url url;
    uint64_t bytes_max;
    uint64_t ttl_s;
    sky_disk_direct direct;
    bool create;
    bool victims;
} settings;

static sky_status parse_url(const char *text, settings *out, sky_error *error) {
    static const char *const modes[] = {"auto", "on", "off"}; /* as sky_disk_direct */
    sky_url *url = &out->url;
    sky_status status = sky_url_parse(text, url, error);
    if (status == SKY_OK)
        status = sky_url_expect(url, "max ttl direct create seal fill", error);
    if (status == SKY_OK)
        status = sky_url_size(url, "max", &out->bytes_max, error);
    if (status == SKY_OK)
        status = sky_url_u64(url, "ttl", &out->ttl_s, error);
    if (status != SKY_OK)
        return status;
    if (strcmp(url->scheme, "disk") != 0 || url->path[0] == '\0')
        return sky_fail(error, SKY_E_SYNTAX, "%s: want disk:PATH", text);
    if (out->bytes_max < SKY_DISK_HEADER_BYTES + SKY_DISK_ALIGN || out->bytes_max > BYTES_MAX_LIMIT)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%s: max is at least 8KiB and at most 1048576TiB, such as max=8GiB", text);
    if (out->ttl_s > UINT32_MAX)
        return sky_fail(error, SKY_E_SYNTAX, "%s: ttl is at most %u", text, UINT32_MAX);
    const char *create = sky_url_value(url, "create");
    out->create = !create || strcmp(create, "yes") == 0;
    if (!out->create && strcmp(create, "no") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%s: create is yes or no", text);
    const char *fill = sky_url_value(url, "fill");
    out->victims = fill && strcmp(fill, "evictions") == 0;
    if (fill && !out->victims && strcmp(fill, "puts") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%s: fill is puts or evictions", text);
    const char *direct = sky_url_value(url, "direct");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (direct && strcmp(direct, modes[i]) != 0)
            continue;
        out->direct = (sky_disk_direct)i;
        return SKY_OK;
    }
    return sky_fail(error, SKY_E_SYNTAX, "%s: direct is auto, on or off", text);
}

/* The URL as it was given, but for `create`: that says how to open the folder, not what it is. */
static void write_url(const sky_url *url, char *out, size_t out_bytes) {
    size_t used = (size_t)snprintf(out, out_bytes, "disk:%s", url->path);
    char between = '?';
    for (size_t i = 0; i < url->query_count && used < out_bytes; i++) {
        if (strcmp(url->query[i].key, "create") == 0)
            continue;
        used += (size_t)snprintf(out + used, out_bytes - used, "%c%s=%s", between,
                                 url->query[i].key, url->query[i].value);
        between = '&';
    }
}

static uint32_t entries_for(uint64_t bytes_max) {
    uint64_t entries = bytes_max / ENTRY_SHARE_BYTES;
    return entries < ENTRIES_MIN   ? ENTRIES_MIN
           : entries > ENTRIES_MAX ? ENTRIES_MAX
                                   : (uint32_t)entries;
}

/* All that needs no folder. */
static sky_status disk_prepare(sky_disk *d) {
    const uint32_t entries = entries_for(d->bytes_max);
    sky_status status = sky_event_create(&d->wake);
    if (status == SKY_OK)
        status = sky_batches_create(d->env.clock, &d->tier.batches);
    if (status == SKY_OK)
        status = sky_disk_catalogue_create(entries, &d->catalogue);
    if (status == SKY_OK)
        status = sky_disk_work_create(d, &d->work);
    if (status == SKY_OK)
        sky_disk_catalogue_last_max(d->catalogue, d->bytes_max / LAST_SHARE, entries / LAST_SHARE);
    return status;
}

static sky_status disk_load_snapshot(sky_disk *d) {
    sky_disk_decide(d);
    sky_mutex_lock(&d->mutex);
    sky_status status = sky_disk_recall(d);
    sky_mutex_unlock(&d->mutex);
    return status;
}

sky_status sky_disk_tier_open(const char *url, const sky_tier_env *env, sky_tier **out,
                              sky_error *error) {
    settings wanted = {.bytes_max = BYTES_MAX_DEFAULT};
    sky_status status = parse_url(url, &wanted, error);
    if (status != SKY_OK)
        return status;
    sky_disk *d = calloc(1, sizeof *d);
    if (!d)
        return sky_fail(error, SKY_E_NOMEM, "%s: no memory to open it", url);
    d->tier.ops = &disk_ops;
    d->env = *env;
    d->env.clock = env->clock ? env->clock : sky_clock_system();
    d->bytes_max = wanted.bytes_max;
    d->ttl_s = (uint32_t)wanted.ttl_s;
    d->tier.traits = wanted.victims ? SKY_TIER_VICTIMS : 0;
    d->tier.offers = env->offer != NULL;
    d->folder.root = d->folder.ledger = d->wake = SKY_FILE_NONE;
    write_url(&wanted.url, d->url, sizeof d->url);
    sky_mutex_init(&d->mutex);
    sky_mutex_init(&d->queue_mutex);
    const char *path = wanted.url.path, *seal = sky_url_value(&wanted.url, "seal");
    status = sky_disk_seal_check(seal, error);
    if (status == SKY_OK)
        status = sky_disk_folder_open(path, wanted.direct, wanted.create, wanted.bytes_max,
                                      &d->folder, error);
    if (status == SKY_OK)
        status = sky_disk_folder_seal(&d->folder, path, seal, wanted.create, error);
    if (status != SKY_OK)
        goto cleanup;
    status = disk_prepare(d);
    if (status == SKY_OK)
        status = disk_load_snapshot(d);
    if (status == SKY_OK)
        status = sky_disk_work_start(d->work);
    if (status != SKY_OK)
        sky_fail(error, status, "%s: cannot open it: %s", url, sky_status_text(status));
cleanup:
    d->opened = status == SKY_OK;
    if (d->opened)
        *out = &d->tier;
    else
        disk_destroy(d);
    return status;
}
