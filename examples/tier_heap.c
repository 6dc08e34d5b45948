/* A store of your own that lends its values without a copy and takes pins: values on the heap, each
 * with a count of who has it. "heap:SIZE" evicts the oldest that nobody pinned. The library calls
 * it from one thread at a time, as `threads` is 1, so it needs no lock. A longer example of the
 * other functions is tier_dir.c; docs/writing-a-tier.md explains both. */
#include <stdlib.h>
#include <string.h>

#include <skymem/skymem.h>

typedef struct heap_value {
    struct heap_value *next;
    sky_key key;
    uint64_t bytes;
    unsigned refs; /* the store's own, and one for each time it is lent */
    bool pinned;
    unsigned char data[];
} heap_value;

typedef struct {
    heap_value *newest;
    uint64_t entries, bytes, bytes_max;
} heap_store;

static void value_drop(heap_value *v) {
    if (--v->refs == 0)
        free(v);
}

/* The link to a key's value; to NULL: it is not there. */
static heap_value **value_find(heap_store *store, const sky_key *key) {
    heap_value **link = &store->newest;
    while (*link && !sky_key_equal(&(*link)->key, key))
        link = &(*link)->next;
    return link;
}

/* Out of the store; who borrowed it keeps it. */
static void value_take_out(heap_store *store, heap_value **link) {
    heap_value *v = *link;
    *link = v->next;
    store->entries--;
    store->bytes -= v->bytes;
    value_drop(v);
}

static bool evict_oldest(heap_store *store) {
    heap_value **oldest = NULL;
    for (heap_value **link = &store->newest; *link; link = &(*link)->next)
        if (!(*link)->pinned)
            oldest = link;
    if (oldest)
        value_take_out(store, oldest);
    return oldest != NULL;
}

static sky_status heap_open(const char *where, void **self, sky_error *error) {
    char *end;
    unsigned long long bytes_max = strtoull(where, &end, 10);
    if (end == where || *end || bytes_max == 0) {
        strcpy(error->text, "heap:BYTES, such as heap:1000000");
        return SKY_E_SYNTAX;
    }
    heap_store *store = calloc(1, sizeof *store);
    if (!store)
        return SKY_E_NOMEM;
    store->bytes_max = bytes_max;
    *self = store;
    return SKY_OK;
}

static void heap_close(void *self) {
    heap_store *store = self;
    while (store->newest)
        value_take_out(store, &store->newest);
    free(store);
}

static sky_status heap_read(void *self, const sky_key *key, uint64_t offset, void *data,
                            uint64_t bytes, uint64_t *value_bytes) {
    const heap_value *v = *value_find(self, key);
    if (!v)
        return SKY_MISS;
    uint64_t there = offset < v->bytes ? v->bytes - offset : 0;
    memcpy(data, v->data + (there ? offset : 0), there < bytes ? there : bytes);
    *value_bytes = v->bytes;
    return SKY_OK;
}

static sky_status heap_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                             bool durable) {
    heap_store *store = self;
    (void)durable; /* nothing here survives: SKY_TIER_VOLATILE */
    if (bytes > store->bytes_max)
        return SKY_E_FULL;
    heap_value *v = malloc(sizeof *v + bytes), **old = value_find(store, key);
    if (!v)
        return SKY_E_NOMEM;
    *v = (heap_value){.key = *key, .bytes = bytes, .refs = 1, .pinned = *old && (*old)->pinned};
    memcpy(v->data, value, bytes);
    if (*old)
        value_take_out(store, old);
    while (store->bytes + bytes > store->bytes_max && evict_oldest(store)) {
    }
    if (store->bytes + bytes > store->bytes_max) { /* all of it is pinned */
        value_drop(v);
        return SKY_E_FULL;
    }
    v->next = store->newest;
    store->newest = v;
    store->entries++;
    store->bytes += bytes;
    return SKY_OK;
}

static sky_status heap_remove(void *self, const sky_key *key) {
    heap_value **link = value_find(self, key);
    if (!*link)
        return SKY_MISS;
    value_take_out(self, link);
    return SKY_OK;
}

static sky_status heap_list(void *self, sky_tier_key_fn each, void *context) {
    const heap_store *store = self;
    for (const heap_value *v = store->newest; v && each(context, &v->key); v = v->next) {
    }
    return SKY_OK;
}

static sky_status heap_usage(void *self, uint64_t *entries, uint64_t *bytes, uint64_t *bytes_max) {
    const heap_store *store = self;
    *entries = store->entries;
    *bytes = store->bytes;
    *bytes_max = store->bytes_max;
    return SKY_OK;
}

static sky_status heap_lease(void *self, const sky_key *key, sky_tier_lent *out) {
    heap_value *v = *value_find(self, key);
    if (!v)
        return SKY_MISS;
    v->refs++;
    *out = (sky_tier_lent){.data = v->data, .bytes = v->bytes, .handle = v};
    return SKY_OK;
}

static void heap_release(void *self, const sky_tier_lent *lent) {
    (void)self;
    value_drop(lent->handle);
}

static sky_status heap_pin(void *self, const sky_key *key, bool pinned) {
    heap_value *v = *value_find(self, key);
    if (v)
        v->pinned = pinned;
    return v ? SKY_OK : SKY_MISS;
}

static sky_status heap_pinned(void *self, const sky_key *key, bool *pinned) {
    const heap_value *v = *value_find(self, key);
    *pinned = v && v->pinned;
    return v ? SKY_OK : SKY_MISS;
}

static const sky_tier_driver tier_heap = {.struct_bytes = sizeof tier_heap,
                                          .threads = 1,
                                          .traits = SKY_TIER_VOLATILE,
                                          .open = heap_open,
                                          .read = heap_read,
                                          .write = heap_write,
                                          .remove = heap_remove,
                                          .list = heap_list,
                                          .usage = heap_usage,
                                          .close = heap_close,
                                          .lease = heap_lease,
                                          .release = heap_release,
                                          .pin = heap_pin,
                                          .pinned = heap_pinned};
