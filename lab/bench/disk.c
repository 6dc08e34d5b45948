/* The disk tier against fio, and against other stores (stores.h).
 *
 * Both write files that were not there before, as a cache stores new blocks. What a replaced or
 * removed file held goes back to the disk in a commit of its own (with a discard, where the file
 * system is mounted so), which costs a third of the rate: it has a row to itself, and every
 * measurement begins with none of that outstanding.
 *
 * The tier moves pieces of 256 KiB, up to 48 under way when it reads and 32 when it writes;
 * fio gets the same settings. Reads begin with the files out of the page cache.
 * The tier reads through it and fio past it, which is what is best for either. Where the tier says
 * that it could not have O_DIRECT or io_uring, fio does without too. */
#include "stores.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VALUE_BYTES (8u << 20)
#define PIECE_BYTES (256u << 10)
#define READ_DEPTH  48u
#define WRITE_DEPTH 32u
#define VALUES_MAX  32u
#define ROUNDS_MAX  9u

typedef struct {
    bench *b;
    char folder[4096];
    char ours[4128];
    char theirs[4128];
    cli_store store;
    uint8_t *data; /* [count][VALUE_BYTES] */
    uint32_t count;
    uint32_t first_key; /* of the values stored now */
    size_t rounds;
    bool direct;
    bool io_uring;
} bench_files;

/* All values in one batch, as the manager would ask for them. Bytes a second; 0 when one failed. */
static double all_values(bench_files *d, sky_op op, sky_status *status) {
    sky_item items[VALUES_MAX];
    sky_span spans[VALUES_MAX];
    if (op == SKY_OP_GET)
        bench_drop_pages(d->ours);
    for (uint32_t i = 0; i < d->count; i++) {
        spans[i] = (sky_span){d->data + (size_t)i * VALUE_BYTES, VALUE_BYTES};
        items[i] = (sky_item){
            .key = bench_key(d->first_key + i), .spans = &spans[i], .span_count = 1};
    }
    bench_settle(d->folder);
    const sky_call call = {.durable = true};
    sky_time start = sky_now();
    *status = sky_run(d->store.cache, op, items, d->count, &call);
    double seconds = bench_seconds(start);
    for (uint32_t i = 0; i < d->count && *status == SKY_OK; i++)
        *status = items[i].status;
    return *status == SKY_OK ? (double)d->count * VALUE_BYTES / seconds : 0;
}

static double with_fio(const bench_files *d, bool write) {
    bench_settle(d->folder);
    const bench_fio f = {.folder = d->theirs,
                         .files = d->count,
                         .file_bytes = VALUE_BYTES,
                         .block_bytes = PIECE_BYTES,
                         .depth = write ? WRITE_DEPTH : READ_DEPTH,
                         .direct = d->direct,
                         .io_uring = d->io_uring,
                         .write = write};
    return bench_fio_run(&f);
}

/* The values go, and others take their place. */
static void disk_renew(bench_files *d) {
    sky_status status;
    all_values(d, SKY_OP_REMOVE, &status);
    d->first_key += d->count;
}

typedef enum { WRITE_NEW, REPLACE, READ } bench_way;

static int disk_pair(bench_files *d, bench_way way, const char *name) {
    bool write = way != READ;
    double ours[ROUNDS_MAX], theirs[ROUNDS_MAX];
    for (size_t i = 0; i < d->rounds; i++) {
        sky_status status;
        cli_progress("disk: %s, round %zu of %zu", name, i + 1, d->rounds);
        if (way == WRITE_NEW)
            disk_renew(d);
        ours[i] = all_values(d, write ? SKY_OP_PUT : SKY_OP_GET, &status) / 1e9;
        if (status != SKY_OK)
            return cli_failed(d->b->c, "disk: %s: %s", name, sky_status_text(status));
        theirs[i] = with_fio(d, write) / 1e9;
    }
    double fio = cli_median(theirs, d->rounds);
    if (fio <= 0)
        cli_note(d->b->c, "disk: fio is not installed or failed; no comparison");
    return bench_row(d->b, name, cli_median(ours, d->rounds), "GB/s", fio > 0 ? "fio" : NULL, fio);
}

/* The tier's note tells how it works, "io_uring, O_DIRECT" or what it had to do without; fio
 * shall do the same. */
static void learn_limits(bench_files *d) {
    sky_tier_stat s = {0};
    sky_cache_stat(d->store.cache, 0, &s);
    d->io_uring = strstr(s.note, "io_uring") != NULL;
    d->direct = strstr(s.note, "O_DIRECT") && !strstr(s.note, "O_DIRECT refused");
    cli_note(d->b->c, "disk: %s", s.note);
}

static int disk_measure(bench_files *d) {
    sky_status status;
    char url[4400];
    const char *const urls[] = {url};
    snprintf(url, sizeof url, "disk:%s?max=4GiB", d->ours);
    int code = cli_store_open_urls(d->b->c, urls, 1, &d->store);
    if (code != CLI_OK)
        return code;
    all_values(d, SKY_OP_PUT, &status); /* the first round only makes the folders */
    learn_limits(d);
    code = disk_pair(d, WRITE_NEW, "write 8 MiB values, synced");
    if (code == CLI_OK)
        code = disk_pair(d, REPLACE, "replace 8 MiB values, synced");
    if (code == CLI_OK)
        code = disk_pair(d, READ, "read 8 MiB values");
    return code;
}

/* A sealed folder has a key of this run; who measures has nothing to hide. */
static int measure_sealed(bench_files *d) {
    static const char text[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    sky_status status;
    char key[4400], url[9000];
    const char *const urls[] = {url};
    snprintf(key, sizeof key, "%s/key", d->folder);
    FILE *f = fopen(key, "wxe");
    bool written = f && chmod(key, 0600) == 0 && fputs(text, f) >= 0;
    if (f)
        written = fclose(f) == 0 && written;
    if (!written)
        return cli_failed(d->b->c, "disk: %s cannot be written", key);
    cli_store_close(&d->store);
    snprintf(d->ours, sizeof d->ours, "%s/sealed", d->folder);
    snprintf(url, sizeof url, "disk:%s?max=4GiB&seal=%s", d->ours, key);
    int code = cli_store_open_urls(d->b->c, urls, 1, &d->store);
    if (code == CLI_OK) {
        all_values(d, SKY_OP_PUT, &status);
        code = disk_pair(d, WRITE_NEW, "write 8 MiB values, synced, sealed");
    }
    return code == CLI_OK ? disk_pair(d, READ, "read 8 MiB values, sealed") : code;
}

int bench_disk(bench *b) {
    bench_files d = {
        .b = b, .count = b->quick ? 8 : VALUES_MAX, .rounds = b->quick ? 3 : ROUNDS_MAX};
    int code = cli_scratch_make(b->c, cli_text(b->c, "folder"), "bench", d.folder, sizeof d.folder);
    if (code != CLI_OK)
        return code;
    snprintf(d.ours, sizeof d.ours, "%s/tier", d.folder);
    snprintf(d.theirs, sizeof d.theirs, "%s/fio", d.folder);
    d.data = bench_memory(b->c, (size_t)d.count * VALUE_BYTES);
    if (!d.data || mkdir(d.theirs, 0700) != 0)
        code = cli_failed(b->c, "disk: %s cannot be made", d.theirs);
    for (size_t i = 0; code == CLI_OK && i < (size_t)d.count * VALUE_BYTES / 8; i++) {
        uint64_t word = bench_mix(i);
        memcpy(d.data + 8 * i, &word, 8);
    }
    if (code == CLI_OK)
        code = disk_measure(&d);
    if (code == CLI_OK)
        code = measure_sealed(&d);
    cli_store_close(&d.store);
    cli_scratch_remove(d.ours);
    if (code == CLI_OK)
        code = bench_stores(b, d.folder, d.data, (size_t)d.count * VALUE_BYTES);
    free(d.data);
    cli_scratch_remove(d.folder);
    return code;
}
