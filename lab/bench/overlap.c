/* skymem bench overlap: the first token of a stored prompt over links of many rates, from a disk
 * and from a sky: loaded alone, computed alone, and both at once, turn about; and what `skymem
 * plan` says of links.
 *
 * The link is a store of this process whose one thread takes as long for a value as the rate says.
 * An answer that is not the cold run's to the last bit fails the bench, but where a tier has a
 * level that loses something. */
#include "bench.h"

#include "model.h"
#include "profile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <skymem/tier.h>

#include "../../examples/tier_heap.c"

#ifdef SKYMEM_WITH_LLAMA

#define SUFFIX       32u
#define QUICK_MS     1500 /* a load that takes less is measured … */
#define QUICK_ROUNDS 5    /* … so often, as other work of the machine may take as long */
#define TEXT         "texts/prose.txt"
#define SKY          "demo-rotation-hop"

/* ---- the link ---- */

static struct {
    void *store;         /* of the link that was opened last */
    _Atomic double rate; /* bytes a second */
    atomic_uint reading;
} line;

static sky_status line_open(const char *where, void **self, sky_error *error) {
    sky_status status = tier_heap.open(where, self, error);
    line.store = *self;
    return status;
}

static sky_status line_read(void *self, const sky_key *key, uint64_t offset, void *data,
                            uint64_t bytes, uint64_t *value_bytes) {
    sky_status status = tier_heap.read(self, key, offset, data, bytes, value_bytes);
    if (status != SKY_OK || offset >= *value_bytes)
        return status;
    uint64_t left = *value_bytes - offset;
    atomic_fetch_add(&line.reading, 1);
    sky_time until = sky_now() +
                     (sky_time)((double)(bytes < left ? bytes : left) / line.rate * 1e9);
    for (sky_time now; (now = sky_now()) < until;) {
        struct timespec pause = {(until - now) / SKY_SECONDS(1), (until - now) % SKY_SECONDS(1)};
        nanosleep(&pause, NULL);
    }
    atomic_fetch_sub(&line.reading, 1);
    return SKY_OK;
}

/* What was given up has left the link. */
static void line_calm(void) {
    do
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    while (atomic_load(&line.reading) > 0);
}

static sky_status line_register(void) {
    sky_tier_driver driver = tier_heap;
    driver.traits |= SKY_TIER_REMOTE;
    driver.open = line_open;
    driver.read = line_read;
    driver.lease = NULL;
    driver.release = NULL;
    line.rate = 1e15;
    return sky_tier_register("line", &driver);
}

/* ---- where the prefix lies ---- */

/* A cache of one tier. */
typedef struct {
    const char *name;
    const char *word; /* in --at */
    const char *url;
    bool loses;  /* it has a level that does */
    void *store; /* of the link; NULL: it is none */
    sky_cache *cache;
} place;

#define PLACES 5
#define LINK   0 /* the link that every rate is measured on */

static int place_open(const cli *c, place *p) {
    sky_error error = {0};
    line.store = NULL;
    if (sky_cache_open(&p->url, 1, &p->cache, &error) != SKY_OK)
        return cli_failed(c, "%s: %s", p->name, error.text);
    p->store = line.store;
    return CLI_OK;
}

/* ---- answers ---- */

typedef struct {
    bench *b;
    sky_llama *llama;
    const sky_engine *engine;
    place places[PLACES];
    char folder[4096];
    char urls[2][4300];   /* of the disk and the sky */
    sky_profile *profile; /* for levels; NULL: they do without */
    uint32_t *tokens;
    uint32_t stored; /* tokens of the prefix */
    float *cold;     /* [vocabulary] */
    uint32_t vocabulary;
    double compute_ms;   /* the prefix, without anything */
    double suffix_ms;    /* the new tokens behind it */
    uint32_t token_ns;   /* the engine alone, as skymem run keeps it */
    double fixed_ms;     /* of a load that no link slows down */
    double slowdown;     /* of the engine while it loads, as the loads of earlier rows showed it */
    uint32_t loading_ns; /* a token of it then, as the manager measured; 0: not yet */
    uint64_t bytes;      /* that a load moves: such a tier reads whole values */
} overlap;

static int overlap_failed(const overlap *o, const char *what, sky_status status) {
    return cli_failed(o->b->c, "%s: %s", what, sky_status_text(status));
}

static int overlap_compute(const overlap *o, uint32_t first, uint32_t count) {
    sky_status status = o->engine->ops->prefill(o->engine->self, o->tokens + first, first, count);
    return status == SKY_OK ? CLI_OK : overlap_failed(o, "computing", status);
}

static bool is_cold(const overlap *o) {
    return !memcmp(sky_llama_logits(o->llama, NULL), o->cold, o->vocabulary * sizeof *o->cold);
}

/* Loads of one kind, each followed by the computation of the new tokens: the best of each. Loads
 * know what those before have shown. */
typedef struct {
    sky_manager *manager;
    uint32_t rounds;
    double load_ms, suffix_ms;
    sky_lookup found;
} reader;

static int reader_open(const overlap *o, const place *p, bool load_only, reader *r) {
    const sky_manager_options options = {
        .load_only = load_only, .profile = o->profile, .engine_token_ns = o->token_ns};
    *r = (reader){0};
    sky_status status = sky_manager_create(p->cache, o->engine, &options, &r->manager, NULL);
    return status == SKY_OK ? CLI_OK : overlap_failed(o, "opening", status);
}

static void reader_close(reader *r) {
    sky_manager_destroy(r->manager);
    r->manager = NULL;
}

static int check_answer(const overlap *o, const place *p, const sky_lookup *found) {
    if (found->hit_tokens != o->stored)
        return cli_failed(o->b->c, "%s: %u of %u tokens were found", p->name, found->hit_tokens,
                          o->stored);
    if (!p->loses && !is_cold(o))
        return cli_failed(o->b->c, "%s: the answer is not the cold run's", p->name);
    return CLI_OK;
}

/* One answer, which is right. */
static int reader_round(const overlap *o, const place *p, reader *r) {
    uint32_t all = o->stored + SUFFIX;
    sky_sequence *q = NULL;
    sky_lookup found = {0};
    int code = CLI_OK;
    sky_status status = sky_sequence_open(r->manager, o->engine, &q);
    line_calm();
    sky_time start = sky_now();
    if (status == SKY_OK)
        status = sky_sequence_load(q, o->tokens, all, 0, &found);
    sky_time loaded = sky_now();
    if (status == SKY_OK)
        code = overlap_compute(o, found.hit_tokens, all - found.hit_tokens);
    double suffix_ms = cli_ms(sky_now() - loaded), load_ms = cli_ms(loaded - start);
    if (status == SKY_OK && code == CLI_OK)
        code = check_answer(o, p, &found);
    sky_sequence_close(q);
    if (r->rounds == 0 || load_ms < r->load_ms) {
        r->load_ms = load_ms;
        r->found = found;
    }
    if (r->rounds++ == 0 || suffix_ms < r->suffix_ms)
        r->suffix_ms = suffix_ms;
    return status == SKY_OK ? code : overlap_failed(o, "loading", status);
}

/* What skymem plan says, with what was measured here before. */
static double planned_ms(const overlap *o, double mbps) {
    const sky_worth_question question = {.tokens = o->stored,
                                         .bytes_per_token = (double)o->bytes / o->stored,
                                         .compute_ms = o->compute_ms / o->stored,
                                         .loading_compute_ms = o->slowdown * o->compute_ms /
                                                               o->stored,
                                         .bandwidth = mbps * 1e6,
                                         .rtt_ms = o->fixed_ms,
                                         .overlap = true};
    sky_worth worth;
    if (sky_worth_judge(&question, &worth) != SKY_OK)
        return 0;
    return worth.levels[0].first_token_ms + o->suffix_ms;
}

static int place_rows(const overlap *o, const char *what, const reader *alone, const reader *both,
                      double cold_ms) {
    char name[128];
    double load_ms = alone->load_ms + o->suffix_ms;
    snprintf(name, sizeof name, "%s, load alone", what);
    bench_row(o->b, name, load_ms, "ms", "compute alone", cold_ms);
    snprintf(name, sizeof name, "%s, both: %u tokens computed", what, both->found.computed_tokens);
    bench_row(o->b, name, both->load_ms + o->suffix_ms, "ms",
              load_ms < cold_ms ? "load alone" : "compute alone",
              load_ms < cold_ms ? load_ms : cold_ms);
    snprintf(name, sizeof name, "%s, of these %u new tokens", what, SUFFIX);
    return bench_row(o->b, name, both->suffix_ms, "ms", "after load alone", alone->suffix_ms);
}

/* Loads alone and both at once in turns, and once, as machines drift, cold. The new tokens are
 * computed alike after each, so the best of these times counts in all. Slow ones only once and
 * twice: the second knows the link and the engine. */
static int place_measure(overlap *o, const place *p, reader *alone, reader *both, double *cold_ms) {
    int code = reader_round(o, p, alone);
    uint32_t rounds = alone->load_ms < QUICK_MS ? QUICK_ROUNDS : 1;
    sky_time start = sky_now();
    if (code == CLI_OK)
        code = overlap_compute(o, 0, o->stored);
    o->compute_ms = cli_ms(sky_now() - start);
    while (code == CLI_OK && (alone->rounds < rounds || both->rounds < rounds + (rounds < 2)))
        code = reader_round(o, p, alone->rounds < both->rounds ? alone : both);
    o->suffix_ms = alone->suffix_ms < both->suffix_ms ? alone->suffix_ms : both->suffix_ms;
    *cold_ms = o->compute_ms + o->suffix_ms;
    return code;
}

/* One place: alone, cold, and both at once. what: for the names of rows */
static int one_place(overlap *o, const place *p, const char *what, double *both_ms) {
    reader alone = {0}, both = {0};
    double cold_ms = 0;
    int code = reader_open(o, p, true, &alone);
    if (code == CLI_OK)
        code = reader_open(o, p, false, &both);
    if (code == CLI_OK)
        code = place_measure(o, p, &alone, &both, &cold_ms);
    o->loading_ns = code == CLI_OK ? sky_manager_engine_token_ns(both.manager) : 0;
    reader_close(&both);
    reader_close(&alone);
    if (code != CLI_OK)
        return code;
    *both_ms = both.load_ms + o->suffix_ms;
    return place_rows(o, what, &alone, &both, cold_ms);
}

/* What the manager measured of the engine's steps in the last answer: without the waits between
 * them, and without the step that was interrupted, which a plan has of its own. */
static void learn_slowdown(overlap *o) {
    if (o->loading_ns > 0)
        o->slowdown = o->loading_ns / 1e6 / (o->compute_ms / o->stored);
}

static int one_rate(overlap *o, double mbps, const char *note) {
    char what[64], name[96];
    double both_ms = 0;
    line.rate = mbps * 1e6 / 8;
    snprintf(what, sizeof what, "%.4g Mb/s%s", mbps, note);
    int code = one_place(o, &o->places[LINK], what, &both_ms);
    if (code != CLI_OK)
        return code;
    snprintf(name, sizeof name, "%s, skymem plan", what);
    code = bench_row(o->b, name, planned_ms(o, mbps), "ms", "both", both_ms);
    learn_slowdown(o);
    return code;
}

/* Whether --at asks for it, or for nothing in particular. */
static bool is_asked(const overlap *o, const char *word) {
    const char *list = cli_text(o->b->c, "at");
    size_t bytes = strlen(word);
    for (; list && *list; list += strcspn(list, ","), list += *list == ',')
        if (strncmp(list, word, bytes) == 0 && (list[bytes] == ',' || !list[bytes]))
            return true;
    return !list;
}

/* Every word of --at is one of these. */
static int check_asked(bench *b) {
    static const char *const words[] = {"equal", "5",    "20",   "50",     "100",    "200", "500",
                                        "1000",  "3000", "disk", "level8", "level4", "sky"};
    size_t known = 0, given = 1;
    overlap o = {.b = b};
    const char *list = cli_text(b->c, "at");
    for (const char *p = list; p && *p; p++)
        given += *p == ',';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        known += is_asked(&o, words[i]);
    return !list || known == given
               ? CLI_OK
               : cli_usage(b->c,
                           "--at %s: each once, of equal, a rate of the table, level8, level4, "
                           "disk, sky",
                           list);
}

static bool is_rate_asked(const overlap *o, double mbps) {
    char word[16];
    snprintf(word, sizeof word, "%.4g", mbps);
    return is_asked(o, word);
}

/* The other tiers; those of a level over links of two rates. */
static int other_places(overlap *o) {
    static const double rates[] = {20, 100};
    char what[128];
    double both_ms = 0;
    int code = CLI_OK;
    for (size_t i = LINK + 1; code == CLI_OK && i < PLACES; i++) {
        const place *p = &o->places[i];
        for (size_t r = 0; code == CLI_OK && r < (p->store ? 2 : 1); r++) {
            if (!is_asked(o, p->word))
                continue;
            line.rate = rates[r] * 1e6 / 8;
            snprintf(what, sizeof what, p->store ? "%s, %.4g Mb/s" : "%s", p->name, rates[r]);
            code = one_place(o, p, what, &both_ms);
        }
    }
    return code;
}

/* ---- the model and its prompt ---- */

static int read_tokens(overlap *o) {
    char path[4096];
    cli_blob text = {0};
    size_t count = 0;
    if (!cli_share_find(TEXT, path, sizeof path))
        return cli_failed(o->b->c, "%s did not come along", path);
    int code = cli_blob_read(o->b->c, path, 1u << 20, &text);
    uint32_t all = o->stored + SUFFIX;
    size_t room = 4 * text.bytes + 16; /* a byte may be a token, and more with what stands for it */
    o->tokens = code == CLI_OK ? malloc((room + all) * sizeof *o->tokens) : NULL;
    if (code == CLI_OK && !o->tokens)
        code = cli_failed(o->b->c, "out of memory");
    if (code == CLI_OK && (o->engine->ops->tokenize(o->engine->self, text.data, text.bytes,
                                                    o->tokens, room, &count) != SKY_OK ||
                           count == 0))
        code = cli_failed(o->b->c, "%s cannot be cut into tokens", path);
    for (size_t i = count; code == CLI_OK && i < all; i++) /* once more, if it is short */
        o->tokens[i] = o->tokens[i - count];
    cli_blob_free(&text);
    return code;
}

static int open_model(overlap *o) {
    char path[4096];
    sky_error error = {0};
    int code = cli_model_find(o->b->c, path, sizeof path);
    if (code == CLI_OK && !path[0])
        code = cli_usage(o->b->c, "which model? --model FILE.gguf or NAME");
    const sky_llama_options options = {.model_path = path,
                                       .threads = (uint32_t)cli_count(o->b->c, "threads"),
                                       .context_tokens = o->stored + SUFFIX};
    if (code == CLI_OK && sky_llama_open(&options, &o->llama, &error) != SKY_OK)
        code = cli_failed(o->b->c, "%s", error.text);
    if (code != CLI_OK)
        return code;
    o->engine = sky_llama_engine(o->llama);
    return read_tokens(o);
}

/* What the engine holds, in a place. */
static int overlap_store(overlap *o, const place *p) {
    sky_manager *manager = NULL;
    sky_sequence *q = NULL;
    uint32_t blocks = 0;
    const sky_manager_options options = {.profile = o->profile};
    sky_status status = sky_manager_create(p->cache, o->engine, &options, &manager, NULL);
    if (status == SKY_OK)
        status = sky_sequence_open(manager, o->engine, &q);
    if (status == SKY_OK)
        status = sky_sequence_save(q, o->tokens, o->stored, &blocks, NULL);
    if (status == SKY_OK)
        status = sky_flush(p->cache, SKY_TIME_NEVER, NULL);
    sky_sequence_close(q);
    sky_manager_destroy(manager);
    return status == SKY_OK ? CLI_OK : overlap_failed(o, p->name, status);
}

/* Compute it cold, keep its logits, and store it everywhere. */
static int overlap_fill(overlap *o) {
    sky_manager *manager = NULL; /* asks the engine what its state looks like */
    sky_time start = sky_now();
    int code = overlap_compute(o, 0, o->stored);
    o->compute_ms = cli_ms(sky_now() - start);
    sky_status status = sky_manager_create(o->places[LINK].cache, o->engine, NULL, &manager, NULL);
    sky_manager_destroy(manager);
    if (code != CLI_OK || status != SKY_OK)
        return code != CLI_OK ? code : overlap_failed(o, "storing", status);
    start = sky_now();
    code = overlap_compute(o, 0, o->stored + SUFFIX);
    double cold_ms = cli_ms(sky_now() - start);
    o->compute_ms = cold_ms < o->compute_ms ? cold_ms : o->compute_ms;
    o->token_ns = (uint32_t)(o->compute_ms * 1e6 / o->stored);
    const float *logits = sky_llama_logits(o->llama, &o->vocabulary);
    o->cold = logits ? malloc(o->vocabulary * sizeof *o->cold) : NULL;
    if (code == CLI_OK && !o->cold)
        return cli_failed(o->b->c, "the model gives no logits");
    if (code == CLI_OK)
        memcpy(o->cold, logits, o->vocabulary * sizeof *o->cold);
    for (size_t i = 0; code == CLI_OK && i < PLACES; i++)
        code = overlap_store(o, &o->places[i]);
    return code;
}

/* Answers over the link alone, as fast as it is now. */
static int link_rounds(overlap *o, bool load_only, uint32_t rounds, reader *r) {
    int code = reader_open(o, &o->places[LINK], load_only, r);
    for (uint32_t i = 0; i < rounds && code == CLI_OK; i++)
        code = reader_round(o, &o->places[LINK], r);
    o->loading_ns = code == CLI_OK ? sky_manager_engine_token_ns(r->manager) : 0;
    reader_close(r);
    return code;
}

static int all_rates(overlap *o) {
    static const double rates[] = {5, 20, 50, 100, 200, 500, 1000, 3000};
    reader r = {0};
    char name[96];
    int code = link_rounds(o, true, QUICK_ROUNDS, &r); /* over no link */
    uint64_t entries, bytes_max;
    if (code != CLI_OK)
        return code;
    tier_heap.usage(o->places[LINK].store, &entries, &o->bytes, &bytes_max);
    snprintf(name, sizeof name, "%u tokens, compute alone", o->stored + SUFFIX);
    bench_row(o->b, name, o->compute_ms, "ms", NULL, 0);
    bench_row(o->b, "bytes of the prefix", (double)o->bytes, "B", "loaded into rows",
              (double)r.found.bytes_loaded);
    double equal = (double)o->bytes * 8 / o->compute_ms / 1e3;
    o->fixed_ms = r.load_ms;
    o->slowdown = 1;
    line.rate = equal * 1e6 / 8;
    code = link_rounds(o, false, 1, &r);
    learn_slowdown(o);
    if (code == CLI_OK && is_asked(o, "equal"))
        code = one_rate(o, equal, " (equal)");
    for (size_t i = 0; code == CLI_OK && i < sizeof rates / sizeof *rates; i++)
        if (is_rate_asked(o, rates[i]) && (!o->b->quick || rates[i] == 100 || rates[i] == 3000))
            code = one_rate(o, rates[i], "");
    return code;
}

static int open_places(overlap *o) {
    cli *c = o->b->c;
    char scenario[4096];
    int code = cli_scratch_make(c, cli_text(c, "folder"), "bench", o->folder, sizeof o->folder);
    if (code == CLI_OK && !cli_scenario_find(SKY, scenario, sizeof scenario))
        code = cli_failed(c, "%s did not come along", SKY);
    snprintf(o->urls[0], sizeof o->urls[0], "disk:%s/tier?max=4GiB", o->folder);
    snprintf(o->urls[1], sizeof o->urls[1], "sky:%s", scenario);
    const place places[PLACES] = {
        [LINK] = {.name = "link", .word = "", .url = "line:4000000000"},
        {.name = "level 8", .word = "level8", .url = "line:4000000000?level=8", .loses = true},
        {.name = "level 4", .word = "level4", .url = "line:4000000000?level=4", .loses = true},
        {.name = "disk", .word = "disk", .url = o->urls[0]},
        {.name = "sky", .word = "sky", .url = o->urls[1]},
    };
    memcpy(o->places, places, sizeof places);
    sky_status status = line_register();
    if (code == CLI_OK && status != SKY_OK)
        code = overlap_failed(o, "line", status);
    for (size_t i = 0; code == CLI_OK && i < PLACES; i++)
        code = place_open(c, &o->places[i]);
    return code;
}

static int find_profile(overlap *o) {
    uint8_t fingerprint[32];
    o->engine->ops->fingerprint(o->engine->self, fingerprint);
    return cli_profile_find(o->b->c, cli_text(o->b->c, "calibration"), fingerprint, &o->profile);
}

int bench_overlap(bench *b) {
    overlap o = {.b = b, .stored = b->quick ? 512 : 2048};
    int code = check_asked(b);
    if (code == CLI_OK)
        code = open_places(&o);
    if (code == CLI_OK)
        code = open_model(&o);
    if (code == CLI_OK)
        code = find_profile(&o);
    if (code == CLI_OK)
        code = overlap_fill(&o);
    if (code == CLI_OK)
        code = all_rates(&o);
    if (code == CLI_OK)
        code = other_places(&o);
    for (size_t i = 0; i < PLACES; i++)
        sky_cache_close(o.places[i].cache);
    if (o.folder[0])
        cli_scratch_remove(o.folder);
    sky_profile_destroy(o.profile);
    sky_llama_close(o.llama);
    free(o.tokens);
    free(o.cold);
    return code;
}

#else

int bench_overlap(bench *b) {
    return cli_failed(b->c, "this skymem was built without llama.cpp; make demo builds it with");
}

#endif
