/* Which blocks to keep: eviction policies over the requests of a service, at equal bytes. A block
 * is one unit of room. A request finds the leading blocks of its prompt that are there. Afterwards
 * it has used, or stored, all of them, the deepest first, as the cache does.
 *
 *   lru, fifo    one queue; a hit moves the block to its front, or does not
 *   sieve        one queue; a hand goes from its end to its front and spares what was hit since
 *   s3-fifo      a small queue for new blocks, a main one for those hit in it or remembered, and a
 *                list of those that left the small one without a hit
 *   gdsf         the least of (age at its last use + hits x cost of computing it again)
 *   lru, X       lru with eviction classes as src/index has them, where who puts a block says:
 *     last often   those asked for five times or more in the trace are last
 *     soon once    those asked for once are soon
 *     last front   the first four of each prompt are last: a guess, without looking ahead */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX      10000000
#define TRACE_BYTES_MAX (256u << 20)
#define NONE            UINT32_MAX
#define S3_FREQUENT     3  /* hits that are counted */
#define S3_SMALL_PART   10 /* the small queue's part of the room */
#define OFTEN           5
#define FRONT           4
#define EQUAL_COST_AT   64.0 /* the block whose attention costs as much as all else of it */

typedef struct {
    uint32_t *blocks; /* of all requests, one after the other */
    size_t *starts;   /* of each, and the end */
    size_t request_count;
    uint32_t *uses;     /* [block_end]: how often a block is asked for */
    uint32_t block_end; /* numbers are below */
} service;

/* ---- the trace: a JSON object a line, with hash_ids ---- */

static void service_free(service *s) {
    free(s->blocks);
    free(s->starts);
    free(s->uses);
}

static int read_request(const cli *c, const char *path, const char *line, size_t bytes, service *s,
                        size_t *used) {
    size_t i;
    const json_t *id;
    json_t *object = json_loadb(line, bytes, 0, NULL);
    const json_t *ids = json_object_get(object, "hash_ids");
    int code = json_is_array(ids) ? CLI_OK : CLI_FAILED;
    json_array_foreach(ids, i, id) {
        json_int_t block = json_integer_value(id);
        if (!json_is_integer(id) || block < 0 || block >= BLOCKS_MAX) {
            code = CLI_FAILED;
            break;
        }
        s->blocks[(*used)++] = (uint32_t)block;
        s->block_end = block >= s->block_end ? (uint32_t)block + 1 : s->block_end;
    }
    json_decref(object);
    s->starts[++s->request_count] = *used;
    return code == CLI_OK ? CLI_OK
                          : cli_failed(c,
                                       "%s: request %zu: needs hash_ids, a list of numbers "
                                       "below 10000000",
                                       path, s->request_count);
}

/* A number of a line takes two bytes at least, so that the file bounds both arrays. */
static int service_parse(const cli *c, const char *path, const cli_blob *text, service *s) {
    const char *at = (const char *)text->data, *end = at + text->bytes;
    size_t used = 0;
    int code = CLI_OK;
    s->blocks = calloc(text->bytes / 2 + 1, sizeof *s->blocks);
    s->starts = calloc(text->bytes / 2 + 2, sizeof *s->starts);
    if (!s->blocks || !s->starts)
        return cli_failed(c, "out of memory");
    while (at < end && code == CLI_OK) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (stop > at)
            code = read_request(c, path, at, (size_t)(stop - at), s, &used);
        at = stop + 1;
    }
    return code;
}

static int service_read(const cli *c, const char *path, service *s) {
    cli_blob text;
    int code = cli_blob_read(c, path, TRACE_BYTES_MAX, &text);
    if (code != CLI_OK)
        return code;
    code = service_parse(c, path, &text, s);
    cli_blob_free(&text);
    return code;
}

/* ---- queues of blocks ---- */

typedef struct {
    uint32_t front, back, count;
} queue;

enum { NOWHERE, FIRST, SECOND, THIRD, GHOST, QUEUES }; /* FIRST: the only one, or the small one */

typedef struct {
    uint32_t room;
    queue queues[QUEUES];
    uint32_t hand; /* sieve */
    int class;     /* classes: FIRST is soon, SECOND normal, THIRD last; of the block that is put */
    uint32_t *before, *after;
    uint8_t *where, *hits;
    double age; /* gdsf: of what was evicted last */
    double *worth;
    uint32_t *heap, *heap_at, heap_count;
} store;

static void store_free(store *s) {
    free(s->before);
    free(s->after);
    free(s->where);
    free(s->hits);
    free(s->worth);
    free(s->heap);
    free(s->heap_at);
}

static bool store_make(store *s, uint32_t blocks, uint32_t room) {
    *s = (store){.room = room, .hand = NONE};
    for (size_t q = 0; q < QUEUES; q++)
        s->queues[q] = (queue){NONE, NONE, 0};
    s->before = calloc(blocks, sizeof *s->before);
    s->after = calloc(blocks, sizeof *s->after);
    s->where = calloc(blocks, 1);
    s->hits = calloc(blocks, 1);
    s->worth = calloc(blocks, sizeof *s->worth);
    s->heap = calloc((size_t)room + 1, sizeof *s->heap);
    s->heap_at = calloc(blocks, sizeof *s->heap_at);
    return s->before && s->after && s->where && s->hits && s->worth && s->heap && s->heap_at;
}

static void policies_push(store *s, int which, uint32_t b) {
    queue *q = &s->queues[which];
    s->before[b] = NONE;
    s->after[b] = q->front;
    if (q->front != NONE)
        s->before[q->front] = b;
    else
        q->back = b;
    q->front = b;
    q->count++;
    s->where[b] = (uint8_t)which;
}

static void policies_take(store *s, uint32_t b) {
    queue *q = &s->queues[s->where[b]];
    if (s->before[b] != NONE)
        s->after[s->before[b]] = s->after[b];
    else
        q->front = s->after[b];
    if (s->after[b] != NONE)
        s->before[s->after[b]] = s->before[b];
    else
        q->back = s->before[b];
    q->count--;
    s->where[b] = NOWHERE;
}

static bool is_there(const store *s, uint32_t b) {
    return s->where[b] >= FIRST && s->where[b] <= THIRD;
}

/* ---- policies ---- */

static void lru_hit(store *s, uint32_t b, double cost) {
    (void)cost;
    policies_take(s, b);
    policies_push(s, FIRST, b);
}

static void fifo_hit(store *s, uint32_t b, double cost) {
    (void)s, (void)b, (void)cost;
}

static void fifo_put(store *s, uint32_t b, double cost) {
    (void)cost;
    if (s->queues[FIRST].count >= s->room)
        policies_take(s, s->queues[FIRST].back);
    policies_push(s, FIRST, b);
}

static void sieve_hit(store *s, uint32_t b, double cost) {
    (void)cost;
    s->hits[b] = 1;
}

static void sieve_put(store *s, uint32_t b, double cost) {
    (void)cost;
    if (s->queues[FIRST].count >= s->room) {
        uint32_t victim = s->hand != NONE ? s->hand : s->queues[FIRST].back;
        while (s->hits[victim]) {
            s->hits[victim] = 0;
            victim = s->before[victim] != NONE ? s->before[victim] : s->queues[FIRST].back;
        }
        s->hand = s->before[victim];
        policies_take(s, victim);
    }
    s->hits[b] = 0;
    policies_push(s, FIRST, b);
}

static void s3_hit(store *s, uint32_t b, double cost) {
    (void)cost;
    s->hits[b] = (uint8_t)(s->hits[b] + (s->hits[b] < S3_FREQUENT));
}

static void s3_evict(store *s) {
    uint32_t small_room = s->room / S3_SMALL_PART > 0 ? s->room / S3_SMALL_PART : 1;
    bool small = s->queues[FIRST].count >= small_room || s->queues[SECOND].count == 0;
    uint32_t b = s->queues[small ? FIRST : SECOND].back;
    bool hit = s->hits[b] > 0;
    policies_take(s, b);
    if (hit) {
        s->hits[b] = small ? 0 : (uint8_t)(s->hits[b] - 1);
        policies_push(s, SECOND, b);
    } else if (small) {
        policies_push(s, GHOST, b);
        if (s->queues[GHOST].count > s->room)
            policies_take(s, s->queues[GHOST].back);
    }
}

static void s3_put(store *s, uint32_t b, double cost) {
    (void)cost;
    while (s->queues[FIRST].count + s->queues[SECOND].count >= s->room)
        s3_evict(s);
    bool remembered = s->where[b] == GHOST;
    if (remembered)
        policies_take(s, b);
    s->hits[b] = 0;
    policies_push(s, remembered ? SECOND : FIRST, b);
}

/* A heap with the least worth on top. */
static void heap_swap(store *s, uint32_t i, uint32_t j) {
    uint32_t b = s->heap[i];
    s->heap[i] = s->heap[j];
    s->heap[j] = b;
    s->heap_at[s->heap[i]] = i;
    s->heap_at[s->heap[j]] = j;
}

static bool is_worth_less(const store *s, uint32_t i, uint32_t j) {
    double a = s->worth[s->heap[i]], b = s->worth[s->heap[j]];
    return a < b || (a == b && s->heap[i] < s->heap[j]);
}

static void heap_sink(store *s, uint32_t i) {
    for (uint32_t child; (child = 2 * i + 1) < s->heap_count; i = child) {
        if (child + 1 < s->heap_count && is_worth_less(s, child + 1, child))
            child++;
        if (!is_worth_less(s, child, i))
            return;
        heap_swap(s, child, i);
    }
}

static void gdsf_hit(store *s, uint32_t b, double cost) {
    s->hits[b] = (uint8_t)(s->hits[b] + (s->hits[b] < UINT8_MAX));
    s->worth[b] = s->age + s->hits[b] * cost;
    heap_sink(s, s->heap_at[b]); /* worth only grows */
}

static void gdsf_put(store *s, uint32_t b, double cost) {
    if (s->heap_count >= s->room) {
        uint32_t victim = s->heap[0];
        s->age = s->worth[victim];
        s->where[victim] = NOWHERE;
        heap_swap(s, 0, --s->heap_count);
        heap_sink(s, 0);
    }
    s->hits[b] = 1;
    s->worth[b] = s->age + cost;
    s->where[b] = FIRST;
    uint32_t i = s->heap_count++;
    s->heap[i] = b;
    s->heap_at[b] = i;
    for (; i > 0 && is_worth_less(s, i, (i - 1) / 2); i = (i - 1) / 2)
        heap_swap(s, i, (i - 1) / 2);
}

static void class_hit(store *s, uint32_t b, double cost) {
    (void)cost;
    int class = s->where[b];
    policies_take(s, b);
    policies_push(s, class, b);
}

static void class_put(store *s, uint32_t b, double cost) {
    (void)cost;
    int lowest = FIRST;
    while (s->queues[lowest].count == 0 && lowest < THIRD)
        lowest++;
    if (s->queues[FIRST].count + s->queues[SECOND].count + s->queues[THIRD].count >= s->room)
        policies_take(s, s->queues[lowest].back);
    policies_push(s, s->class, b);
    while (s->queues[THIRD].count > s->room / 2) {
        uint32_t oldest = s->queues[THIRD].back;
        policies_take(s, oldest);
        policies_push(s, SECOND, oldest);
    }
}

/* Classes of the ith block of a prompt. */
static int last_often(const service *s, uint32_t block, size_t i) {
    (void)i;
    return s->uses[block] >= OFTEN ? THIRD : SECOND;
}

static int soon_once(const service *s, uint32_t block, size_t i) {
    (void)i;
    return s->uses[block] == 1 ? FIRST : SECOND;
}

static int last_front(const service *s, uint32_t block, size_t i) {
    (void)s, (void)block;
    return i < FRONT ? THIRD : SECOND;
}

typedef struct {
    const char *name;
    void (*hit)(store *s, uint32_t block, double cost);
    void (*put)(store *s, uint32_t block, double cost);
    int (*class)(const service *s, uint32_t block, size_t i); /* NULL: none */
} policy;

/* The first is what the others are compared with, and what the cache does. */
static const policy policies[] = {{"lru", lru_hit, fifo_put, NULL},
                                  {"fifo", fifo_hit, fifo_put, NULL},
                                  {"sieve", sieve_hit, sieve_put, NULL},
                                  {"s3-fifo", s3_hit, s3_put, NULL},
                                  {"gdsf", gdsf_hit, gdsf_put, NULL},
                                  {"lru, last often", class_hit, class_put, last_often},
                                  {"lru, soon once", class_hit, class_put, soon_once},
                                  {"lru, last front", class_hit, class_put, last_front}};
#define POLICIES (sizeof policies / sizeof *policies)

/* ---- runs ---- */

typedef struct {
    double found;  /* per cent of all blocks asked for */
    double spared; /* per cent of the time to compute them all */
} outcome;

/* Of computing block i of a prompt again: its attention goes over all before it. */
static double cost_of(size_t i) {
    return 1 + (double)i / EQUAL_COST_AT;
}

static bool run_policy(const service *s, const policy *p, uint32_t room, outcome *out) {
    store st;
    double found = 0, spared = 0, all = 0, cost = 0;
    bool made = store_make(&st, s->block_end, room);
    for (size_t r = 0; made && r < s->request_count; r++) {
        const uint32_t *blocks = s->blocks + s->starts[r];
        size_t count = s->starts[r + 1] - s->starts[r], prefix = 0;
        while (prefix < count && is_there(&st, blocks[prefix]))
            spared += cost_of(prefix++);
        found += (double)prefix;
        all += (double)count;
        for (size_t i = count; i-- > 0;) {
            cost += cost_of(i);
            st.class = p->class ? p->class(s, blocks[i], i) : FIRST;
            (is_there(&st, blocks[i]) ? p->hit : p->put)(&st, blocks[i], cost_of(i));
        }
    }
    store_free(&st);
    *out = (outcome){100 * found / all, 100 * spared / cost};
    return made;
}

static int policies_compare(bench *b, const service *s, uint32_t per_cent) {
    uint32_t room = (uint32_t)((uint64_t)s->block_end * per_cent / 100);
    outcome lru = {0}, now;
    char name[64];
    int code = CLI_OK;
    for (size_t i = 0; i < POLICIES && code == CLI_OK; i++) {
        if (!run_policy(s, &policies[i], room > 0 ? room : 1, &now))
            return cli_failed(b->c, "out of memory");
        lru = i == 0 ? now : lru;
        snprintf(name, sizeof name, "found, room for %u %%, %s", per_cent, policies[i].name);
        code = bench_row(b, name, now.found, "%", i ? "lru" : NULL, lru.found);
        snprintf(name, sizeof name, "spared, room for %u %%, %s", per_cent, policies[i].name);
        if (code == CLI_OK)
            code = bench_row(b, name, now.spared, "%", i ? "lru" : NULL, lru.spared);
    }
    return code;
}

static int count_uses(const cli *c, service *s) {
    s->uses = calloc(s->block_end, sizeof *s->uses);
    for (size_t i = 0; s->uses && i < s->starts[s->request_count]; i++)
        s->uses[s->blocks[i]]++;
    return s->uses ? CLI_OK : cli_failed(c, "out of memory");
}

int bench_policies(bench *b) {
    static const uint32_t rooms[] = {1, 3, 10, 30}; /* per cent of the trace's blocks */
    const char *path = cli_text(b->c, "trace");
    service s = {0};
    if (!path)
        return cli_usage(b->c, "policies needs --trace FILE: a JSON object a line, with hash_ids");
    int code = service_read(b->c, path, &s);
    if (code == CLI_OK && s.starts[s.request_count] == 0)
        code = cli_failed(b->c, "%s: no blocks are asked for", path);
    if (code == CLI_OK)
        code = count_uses(b->c, &s);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms && code == CLI_OK; i++)
        code = policies_compare(b, &s, rooms[i]);
    service_free(&s);
    return code;
}
