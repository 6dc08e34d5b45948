/* The disk tier and other stores side by side: one value after the other, each put durable.
 *
 * A round gives each store in turn an empty folder: put, then closed, its pages dropped and opened
 * again, then each value is read twice. The first get comes from the device, the second from what
 * the kernel kept. The order turns with the rounds, as machines drift. */
#include "stores.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STORES_MAX  4u
#define ROUNDS_MAX  5u
#define TOGETHER    32u /* puts under way at once */
#define LARGE_BYTES (8u << 20)
#define SMALL_BYTES (64u << 10)
#define SMALL_COUNT 1024u

typedef enum { PUT, PUT_TOGETHER, FIRST_GET, SECOND_GET, STEPS } step;
static const char *const step_names[STEPS] = {"put", "put, 32 at once", "first get", "second get"};

typedef struct {
    bench *b;
    char folder[4200];
    const uint8_t *data;
    uint8_t *to; /* [value_bytes] */
    size_t value_bytes;
    uint32_t count;
    uint32_t rounds;
    bench_store stores[STORES_MAX]; /* the disk tier, plain files, others */
    uint32_t store_count;
    double rates[STORES_MAX][STEPS][ROUNDS_MAX];
} side_by_side;

static int drop_pages(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)where;
    if (kind != FTW_F)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    return 0;
}

void bench_drop_pages(const char *folder) {
    nftw(folder, drop_pages, 16, FTW_PHYS);
}

void bench_settle(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        syncfs(fd);
        close(fd);
    }
}

/* ---- the disk tier ---- */

static bool tier_open(bench_store *s, const char *folder) {
    char url[4400];
    const char *const urls[] = {url};
    cli_store *store = calloc(1, sizeof *store);
    snprintf(url, sizeof url, "disk:%s?max=4GiB", folder);
    s->state[1] = store;
    return store && cli_store_open_urls(s->state[0], urls, 1, store) == CLI_OK;
}

static bool tier_put(bench_store *s, uint32_t number, const void *data, size_t bytes) {
    sky_span span = {(void *)(uintptr_t)data, bytes};
    sky_item item = {.key = bench_key(number), .spans = &span, .span_count = 1};
    return cli_one(s->state[1], SKY_OP_PUT, &item, &(sky_call){.durable = true}) == SKY_OK;
}

static bool tier_get(bench_store *s, uint32_t number, void *data, size_t bytes) {
    sky_span span = {data, bytes};
    sky_item item = {.key = bench_key(number), .spans = &span, .span_count = 1};
    return cli_one(s->state[1], SKY_OP_GET, &item, NULL) == SKY_OK && item.bytes == bytes;
}

static void tier_close(bench_store *s) {
    if (s->state[1])
        cli_store_close(s->state[1]);
    free(s->state[1]);
    s->state[1] = NULL;
}

static void tier_store(const bench *b, bench_store *out) {
    *out = (bench_store){.name = "disk",
                         .open = tier_open,
                         .put = tier_put,
                         .get = tier_get,
                         .close = tier_close,
                         .state = {b->c}};
}

/* ---- steps ---- */

static const uint8_t *value_of(const side_by_side *s, uint32_t number) {
    return s->data + number * s->value_bytes;
}

/* The tier's alone: the others have no call for it. */
static bool put_together(side_by_side *s, bench_store *store) {
    sky_item items[TOGETHER];
    sky_span spans[TOGETHER];
    const cli_store *tier = store->state[1];
    for (uint32_t first = 0; first < s->count; first += TOGETHER) {
        uint32_t n = s->count - first < TOGETHER ? s->count - first : TOGETHER;
        for (uint32_t i = 0; i < n; i++) {
            spans[i] = (sky_span){(void *)(uintptr_t)value_of(s, first + i), s->value_bytes};
            items[i] = (sky_item){
                .key = bench_key(s->count + first + i), .spans = &spans[i], .span_count = 1};
        }
        sky_call call = {.durable = true};
        if (sky_run(tier->cache, SKY_OP_PUT, items, n, &call) != SKY_OK)
            return false;
        for (uint32_t i = 0; i < n; i++)
            if (items[i].status != SKY_OK)
                return false;
    }
    return true;
}

static bool take_step(side_by_side *s, bench_store *store, step what) {
    if (what == PUT_TOGETHER)
        return put_together(s, store);
    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *value = value_of(s, i);
        bool done = what == PUT ? store->put(store, i, value, s->value_bytes)
                                : store->get(store, i, s->to, s->value_bytes);
        if (!done || (what != PUT && memcmp(s->to, value, 64) != 0))
            return false;
    }
    return true;
}

static bool time_step(side_by_side *s, uint32_t number, uint32_t round, step what) {
    bench_store *store = &s->stores[number];
    bench_settle(s->folder);
    sky_time start = sky_now();
    bool done = take_step(s, store, what);
    s->rates[number][what][round] = (double)s->count * (double)s->value_bytes /
                                    bench_seconds(start) / 1e9;
    return done;
}

static bool stores_reopen(side_by_side *s, bench_store *store) {
    store->close(store);
    bench_settle(s->folder);
    bench_drop_pages(s->folder);
    return store->open(store, s->folder);
}

static bool one_round(side_by_side *s, uint32_t number, uint32_t round) {
    bench_store *store = &s->stores[number];
    cli_progress("disk: %s, %zu KiB, round %u of %u", store->name, s->value_bytes >> 10, round + 1,
                 s->rounds);
    bool done = mkdir(s->folder, 0700) == 0 && store->open(store, s->folder);
    done = done && time_step(s, number, round, PUT);
    if (number == 0)
        done = done && time_step(s, number, round, PUT_TOGETHER);
    done = done && stores_reopen(s, store) && time_step(s, number, round, FIRST_GET);
    done = done && time_step(s, number, round, SECOND_GET);
    store->close(store);
    cli_scratch_remove(s->folder);
    return done;
}

static int stores_print(side_by_side *s) {
    const char *size = s->value_bytes == LARGE_BYTES ? "8 MiB" : "64 KiB";
    int code = CLI_OK;
    for (uint32_t n = 0; n < s->store_count; n++) {
        for (step what = 0; what < STEPS && code == CLI_OK; what++) {
            char name[80], ours[48] = "";
            step theirs = what == PUT_TOGETHER ? PUT : what;
            if (n == 1 || (n > 0 && what == PUT_TOGETHER))
                continue;
            if (n > 0)
                snprintf(ours, sizeof ours, ", %s", s->stores[n].name);
            snprintf(name, sizeof name, "%s of %s%s", step_names[what], size, ours);
            code = bench_row(s->b, name, cli_median(s->rates[n][what], s->rounds), "GB/s",
                             s->stores[1].name, cli_median(s->rates[1][theirs], s->rounds));
        }
    }
    return code;
}

static int stores_compare(side_by_side *s) {
    for (uint32_t round = 0; round < s->rounds; round++) {
        for (uint32_t i = 0; i < s->store_count; i++) {
            uint32_t number = (i + round) % s->store_count;
            if (!one_round(s, number, round))
                return cli_failed(s->b->c, "disk: %s: a value was not stored or not read",
                                  s->stores[number].name);
        }
    }
    return stores_print(s);
}

int bench_stores(bench *b, const char *folder, const uint8_t *data, size_t bytes) {
    bool (*const others[])(bench_store *) = {bench_store_plain, bench_store_lmdb,
                                             bench_store_rocksdb};
    side_by_side *s = calloc(1, sizeof *s);
    uint8_t *to = bench_memory(b->c, LARGE_BYTES);
    int code = s && to ? CLI_OK : CLI_FAILED;
    for (size_t i = 0; code == CLI_OK && i <= sizeof others / sizeof *others; i++) {
        bool there = true;
        if (i == 0)
            tier_store(b, &s->stores[0]);
        else
            there = others[i - 1](&s->stores[s->store_count]);
        if (!there)
            cli_note(b->c, "disk: %s was not installed when this was built; no rows of it",
                     s->stores[s->store_count].name);
        s->store_count += there;
    }
    static const size_t sizes[] = {LARGE_BYTES, SMALL_BYTES};
    for (size_t i = 0; code == CLI_OK && i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t most = (uint32_t)(bytes / sizes[i]), few = b->quick ? 64 : SMALL_COUNT;
        s->b = b;
        snprintf(s->folder, sizeof s->folder, "%s/stores", folder);
        s->data = data;
        s->to = to;
        s->value_bytes = sizes[i];
        s->count = most < few ? most : few;
        s->rounds = b->quick ? 1 : ROUNDS_MAX;
        code = stores_compare(s);
    }
    free(to);
    free(s);
    return code;
}
