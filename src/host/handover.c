/* The arenas of a host, handed to the next one by the service manager that starts it.
 *
 *   skymem.TENANT.index   what lies where (tier/mem/kept.h)
 *   skymem.TENANT.N       segment N
 *
 * TENANT is a checksum of the user and the pool: a manager passes all names in one string of the
 * environment, which has 128 KiB at most.
 *
 * An index can be read once: were it read again by a host that starts after a crash, it would
 * bring back what was replaced or removed since. Segments without an index are memory to be given
 * back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "host/host.h"
#include "tier/mem/kept.h"

#define PREFIX_BYTES 32u
#define NAME_BYTES   48u
#define INDEX        "index"

static void prefix_of(const sky__tenant *t, char out[PREFIX_BYTES]) {
    char tenant[PREFIX_BYTES + SKY_SHM_POOL_BYTES_MAX];
    int bytes = snprintf(tenant, sizeof tenant, "%u.%s", t->uid, t->pool);
    snprintf(out, PREFIX_BYTES, "skymem.%016llx.",
             (unsigned long long)sky_checksum(tenant, (size_t)bytes, 0));
}

static void index_name(const sky__tenant *t, char out[NAME_BYTES]) {
    char prefix[PREFIX_BYTES];
    prefix_of(t, prefix);
    snprintf(out, NAME_BYTES, "%s" INDEX, prefix);
}

static void segment_name(const sky__tenant *t, uint32_t segment, char out[NAME_BYTES]) {
    char prefix[PREFIX_BYTES];
    prefix_of(t, prefix);
    snprintf(out, NAME_BYTES, "%s%u", prefix, segment);
}

/* ---- to the next host ---- */

static void hand_over(const sky__host *h, const sky__tenant *t) {
    const sky_host_options *o = &h->options;
    char name[NAME_BYTES];
    int index;
    sky_status status = sky_memory_tier_keep(t->arena_tier, &index);
    if (status != SKY_OK) {
        sky_log(SKY_LOG_WARNING, "the arena of user %u%s%s is not kept: %s", t->uid,
                t->pool[0] ? ", pool " : "", t->pool, sky_status_text(status));
        return;
    }
    for (uint32_t i = 0; i < t->arena.segment_count; i++) {
        uint64_t generation;
        int fd = sky_memory_tier_segment(t->arena_tier, i, &generation);
        segment_name(t, i, name);
        if (fd >= 0)
            o->keep(o->context, name, fd);
    }
    index_name(t, name);
    o->keep(o->context, name, index); /* last: without it they are of no use */
    sky_local_close(index);
}

void sky__tenants_hand_over(sky__host *h) {
    for (size_t i = 0; h->options.keep && i < h->tenant_count; i++)
        if (!h->tenants[i]->leaving)
            hand_over(h, h->tenants[i]);
}

/* ---- from the last one ---- */

/* The number of a segment, SKY_SEGMENTS_MAX for the index; -1: neither. */
static int part_of(const char *text) {
    char *end;
    if (strcmp(text, INDEX) == 0)
        return SKY_SEGMENTS_MAX;
    long number = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    return number >= 0 && number < SKY_SEGMENTS_MAX && !*end ? (int)number : -1;
}

static void forget_kept(const sky__host *h, const char *name) {
    if (h->options.forget)
        h->options.forget(h->options.context, name);
}

typedef struct {
    const sky__host *host;
    const sky__tenant *tenant;
} kept_owner;

static void forget_segment(void *context, uint32_t segment) {
    const kept_owner *o = context;
    char name[NAME_BYTES];
    segment_name(o->tenant, segment, name);
    forget_kept(o->host, name);
}

/* What of options.kept is of a tenant; those descriptors become *out's. */
static void collect_kept(sky_host_kept *kept, size_t count, const sky__tenant *t,
                         sky_memory_kept *out) {
    char prefix[PREFIX_BYTES];
    prefix_of(t, prefix);
    out->index = -1;
    for (uint32_t i = 0; i < SKY_SEGMENTS_MAX; i++)
        out->segments[i] = -1;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(prefix);
        int part = kept[i].fd >= 0 && strncmp(kept[i].name, prefix, bytes) == 0
                       ? part_of(kept[i].name + bytes)
                       : -1;
        int *place = part == SKY_SEGMENTS_MAX ? &out->index
                     : part >= 0              ? &out->segments[part]
                                              : NULL;
        if (!place || *place >= 0)
            continue;
        *place = kept[i].fd;
        kept[i].fd = -1;
    }
}

static void drop_segments(const sky_memory_kept *kept) {
    for (uint32_t i = 0; i < SKY_SEGMENTS_MAX; i++) {
        if (kept->segments[i] < 0)
            continue;
        sky_local_close(kept->segments[i]);
        kept->gone(kept->context, i);
    }
}

static void take_over(const sky__host *h, sky__tenant *t, sky_host_kept *kept, size_t count) {
    kept_owner o = {h, t};
    sky_memory_kept own = {.gone = forget_segment, .context = &o};
    sky_memory_restored restored = {0};
    char name[NAME_BYTES];
    collect_kept(kept, count, t, &own);
    index_name(t, name);
    if (own.index < 0) {
        drop_segments(&own);
        return;
    }
    sky_status status = sky_memory_tier_restore(t->arena_tier, &own, &restored);
    forget_kept(h, name);
    bool all = status == SKY_OK && restored.lost + restored.left_out == 0;
    sky_log(
        all ? SKY_LOG_INFO : SKY_LOG_WARNING,
        "%s: %llu values (%llu MiB) are there again; %llu had ended, %llu had no room, %llu were "
        "damaged%s%s",
        name, (unsigned long long)restored.entries, (unsigned long long)(restored.bytes >> 20),
        (unsigned long long)restored.ended, (unsigned long long)restored.left_out,
        (unsigned long long)restored.lost, status == SKY_OK ? "" : ": ",
        status == SKY_OK ? "" : sky_status_text(status));
}

void sky__tenants_take_over(sky__host *h) {
    size_t count = h->options.kept ? h->options.kept_count : 0;
    sky_host_kept *kept = calloc(count + 1, sizeof *kept);
    for (size_t i = 0; i < count; i++) {
        if (kept)
            kept[i] = h->options.kept[i];
        else
            sky_local_close(h->options.kept[i].fd);
    }
    for (size_t i = 0; kept && i < h->tenant_count; i++)
        take_over(h, h->tenants[i], kept, count);
    for (size_t i = 0; kept && i < count; i++) { /* of users that are served no longer */
        if (kept[i].fd < 0)
            continue;
        sky_local_close(kept[i].fd);
        forget_kept(h, kept[i].name);
    }
    free(kept);
}
