/* skymem prune: remove what is old, of one model, or more than there should be. */
#include "models.h"
#include "prompts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    cli *c;
    cli_store store;
    cli_entries entries;
    cli_prompts prompts;
    double older_s;     /* 0: any age */
    const char *model;  /* NULL: any */
    const char *file;   /* what it is called, if `model` is a name of the list */
    uint64_t bytes_max; /* UINT64_MAX: remove all that the others choose */
    bool *chosen;       /* [entries]: to go, and nothing that is to stay hangs below it */
    double *unused_s;   /* [entries]: since it or what hangs below it was used */
    uint64_t removed, removed_bytes;
    uint64_t excess_bytes; /* that stay above bytes_max, of all tiers */
} pruning;

/* Blocks bear the name of a model's file. */
static int find_file(pruning *p) {
    static cli_named_model models[CLI_MODELS_MAX];
    size_t count;
    if (!p->model)
        return CLI_OK;
    int code = cli_models_read(p->c, models, &count);
    for (size_t i = 0; code == CLI_OK && i < count; i++)
        if (strcmp(models[i].name, p->model) == 0)
            p->file = models[i].file;
    return code;
}

/* "90s", "30min", "12h", "7d". */
static bool parse_age(const char *text, double *seconds) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *unit;
    double number = strtod(text, &unit);
    for (size_t i = 0; unit != text && i < sizeof units / sizeof *units; i++) {
        *seconds = number * units[i].seconds;
        if (strcmp(unit, units[i].unit) == 0)
            return number >= 0 && isfinite(*seconds);
    }
    return false;
}

/* "512MiB"; a number alone is bytes. */
static bool parse_size(const char *text, uint64_t *bytes) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    char *unit;
    double number = strtod(text, &unit);
    for (size_t i = 0; unit != text && i < sizeof units / sizeof *units; i++) {
        double all = ldexp(number, (int)(10 * i));
        if (strcmp(unit, units[i]) != 0)
            continue;
        *bytes = number >= 0 && all < 0x1p62 ? (uint64_t)all : 0;
        return number >= 0 && all < 0x1p62;
    }
    return false;
}

static int read_flags(pruning *p) {
    cli *c = p->c;
    const char *age = cli_text(c, "older-than"), *size = cli_text(c, "to");
    p->model = cli_text(c, "model");
    p->bytes_max = UINT64_MAX;
    if (!age && !size && !p->model)
        return cli_usage(c, "say what is to go with --older-than, --model or --to; skymem clear "
                            "removes everything");
    if (age && !parse_age(age, &p->older_s))
        return cli_usage(c, "--older-than %s: must be a number and s, min, h or d, such as 7d",
                         age);
    if (size && !parse_size(size, &p->bytes_max))
        return cli_usage(c, "--to %s: must be a number and KiB, MiB, GiB or TiB, such as 4GiB",
                         size);
    return find_file(p);
}

/* The name of the file, with or without .gguf. */
static bool is_model(const char *model, const char *wanted) {
    size_t bytes = strlen(wanted);
    return model && strncmp(model, wanted, bytes) == 0 &&
           (model[bytes] == '\0' || strcmp(model + bytes, ".gguf") == 0);
}

static bool is_pruned(const pruning *p, const char *model) {
    return is_model(model, p->model) || (p->file && is_model(model, p->file));
}

static bool is_wanted(const pruning *p, size_t i) {
    const cli_entry *entry = &p->entries.entries[i];
    if (entry->pinned || cli_is_record(entry) || entry->used_s < p->older_s)
        return false;
    return !p->model ||
           (entry->block && is_pruned(p, cli_prompt_model(&p->prompts, &p->entries, i)));
}

/* Removing a block takes all that hang below it: whatever has one to keep stays too. */
static int choose_entries(pruning *p) {
    size_t count = p->entries.count;
    const cli_link *links = p->prompts.links;
    p->chosen = calloc(count + 1, sizeof *p->chosen);
    p->unused_s = calloc(count + 1, sizeof *p->unused_s);
    if (!p->chosen || !p->unused_s)
        return cli_failed(p->c, "out of memory");
    for (size_t i = 0; i < count; i++) {
        p->chosen[i] = is_wanted(p, i);
        p->unused_s[i] = p->entries.entries[i].used_s;
    }
    for (size_t i = 0; i < count; i++) {
        size_t above = links[i].parent;
        for (; !p->chosen[i] && above != CLI_NO_ENTRY && p->chosen[above];
             above = links[above].parent)
            p->chosen[above] = false;
        above = links[i].parent;
        for (; above != CLI_NO_ENTRY && p->unused_s[above] > p->unused_s[i];
             above = links[above].parent)
            p->unused_s[above] = p->unused_s[i];
    }
    return CLI_OK;
}

static const pruning *sorted; /* for by_use: qsort passes nothing on */

/* What was not used for longest comes first, a block behind those that hang below it. */
static int by_use(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    double used_x = sorted->unused_s[x], used_y = sorted->unused_s[y];
    size_t depth_x = sorted->prompts.links[x].depth, depth_y = sorted->prompts.links[y].depth;
    if (used_x != used_y)
        return used_x > used_y ? -1 : 1;
    return (depth_x < depth_y) - (depth_x > depth_y);
}

static sky_status remove_entry(pruning *p, size_t i) {
    const cli_entry *entry = &p->entries.entries[i];
    sky_item item = {.key = entry->key};
    const sky_call call = {.tiers = 1u << entry->tier};
    sky_status status = cli_flag(p->c, "dry-run") ? SKY_OK
                                                  : cli_one(&p->store, SKY_OP_REMOVE, &item, &call);
    if (status == SKY_E_UNAVAILABLE) /* it went from where somebody answers */
        p->entries.left_out = status;
    else if (status != SKY_OK && status != SKY_MISS) /* a miss: another process was quicker */
        return status;
    if (!cli_is_record(entry)) {
        p->removed++;
        p->removed_bytes += entry->bytes;
    }
    return SKY_OK;
}

/* A record whose first block is gone, or goes, tells of nothing. */
static bool is_stale(const pruning *p, size_t i) {
    const cli_entry *record = &p->entries.entries[i];
    for (size_t j = 0; cli_is_record(record) && j < p->entries.count; j++) {
        const cli_entry *at = &p->entries.entries[j];
        if (at->block && at->tier == record->tier && !p->chosen[j] &&
            strcmp(at->shown, record->shown + strlen(CLI_RECORD_PREFIX)) == 0)
            return false;
    }
    return cli_is_record(record);
}

/* Says why a tier stays larger than --to. */
static void note_excess(pruning *p, size_t tier, uint64_t bytes) {
    size_t pinned = 0;
    char size[24], count[CLI_COUNT_TEXT_BYTES];
    if (bytes <= p->bytes_max)
        return;
    p->excess_bytes += bytes - p->bytes_max;
    for (size_t i = 0; i < p->entries.count; i++)
        pinned += p->entries.entries[i].tier == tier && p->entries.entries[i].pinned;
    cli_bytes_text(bytes, size);
    if (pinned > 0)
        cli_note(p->c, "%s: %s stay: %s pinned", p->store.names[tier], size,
                 cli_count_text(pinned, "entry is", "entries are", count));
    else
        cli_note(p->c, "%s: %s stay: nothing else may go", p->store.names[tier], size);
}

static int remove_from(pruning *p, const size_t *order, size_t tier) {
    sky_status status = SKY_OK;
    uint64_t bytes = sky_cache_metric(p->store.cache, tier, SKY_METRIC_TIER_BYTES_USED);
    for (size_t i = 0; i < p->entries.count && status == SKY_OK; i++) {
        const cli_entry *entry = &p->entries.entries[order[i]];
        if (entry->tier != tier || !p->chosen[order[i]])
            continue;
        if (p->bytes_max < UINT64_MAX && bytes <= p->bytes_max) {
            p->chosen[order[i]] = false;
            continue;
        }
        status = remove_entry(p, order[i]);
        if (!cli_flag(p->c, "dry-run"))
            bytes = sky_cache_metric(p->store.cache, tier, SKY_METRIC_TIER_BYTES_USED);
        else
            bytes = bytes > entry->bytes ? bytes - entry->bytes : 0;
    }
    for (size_t i = 0; i < p->entries.count && status == SKY_OK; i++)
        if (p->entries.entries[i].tier == tier && is_stale(p, i))
            status = remove_entry(p, i);
    if (status == SKY_OK) {
        if (!cli_flag(p->c, "dry-run"))
            bytes = sky_cache_metric(p->store.cache, tier, SKY_METRIC_TIER_BYTES_USED);
        note_excess(p, tier, bytes);
        return CLI_OK;
    }
    char why[CLI_WHY_BYTES], count[CLI_COUNT_TEXT_BYTES];
    cli_tier_says(&p->store, tier, status, why, sizeof why);
    return cli_failed(p->c, "%s; %s removed before", why,
                      cli_count_text(p->removed, "entry was", "entries were", count));
}

static int prune_entries(pruning *p) {
    size_t *order = calloc(p->entries.count + 1, sizeof *order);
    int code = order ? CLI_OK : cli_failed(p->c, "out of memory");
    for (size_t i = 0; order && i < p->entries.count; i++)
        order[i] = i;
    sorted = p;
    if (order && p->entries.count > 0)
        qsort(order, p->entries.count, sizeof *order, by_use);
    for (size_t t = 0; t < p->store.tier_count && code == CLI_OK; t++)
        code = remove_from(p, order, t);
    free(order);
    return code;
}

static int report_prune(const pruning *p) {
    bool dry = cli_flag(p->c, "dry-run");
    char size[24], count[CLI_COUNT_TEXT_BYTES];
    if (p->c->json)
        return cli_json_print(p->c,
                              json_pack("{s:I, s:I, s:I, s:b}", "removed", (json_int_t)p->removed,
                                        "bytes", (json_int_t)p->removed_bytes, "excess_bytes",
                                        (json_int_t)p->excess_bytes, "dry_run", dry));
    printf("%s %s, %s\n", dry ? "would remove" : "removed",
           cli_count_text(p->removed, "entry", "entries", count),
           cli_bytes_text(p->removed_bytes, size));
    return CLI_OK;
}

static int prune_run(cli *c) {
    pruning p = {.c = c};
    int code = read_flags(&p);
    if (code == CLI_OK)
        code = cli_store_open(c, &p.store);
    if (code == CLI_OK)
        code = cli_refuse_unlisted(c, &p.store);
    if (code == CLI_OK)
        code = cli_entries_read(c, &p.store, &p.entries);
    if (code == CLI_OK)
        code = cli_prompts_find(c, &p.store, &p.entries, &p.prompts);
    if (code == CLI_OK)
        code = choose_entries(&p);
    if (code == CLI_OK)
        code = prune_entries(&p);
    if (code == CLI_OK)
        code = report_prune(&p);
    if (code == CLI_OK && p.model && p.removed == 0)
        cli_note(c, "no blocks of model %s went; skymem ls names the models", p.model);
    if (code == CLI_OK)
        code = cli_entries_end(c, &p.store, &p.entries);
    free(p.chosen);
    free(p.unused_s);
    cli_prompts_free(&p.prompts);
    cli_entries_free(&p.entries);
    cli_store_close(&p.store);
    return code;
}

const cli_verb cli_verb_prune = {
    .name = "prune",
    .summary = "Remove what is old, of one model, or too much",
    .synopsis = "",
    .about =
        "An entry goes when all that is given holds of it. Its age counts from its last use. "
        "What is pinned stays, and so does each block that a block to keep follows. With --to, "
        "what was not used for longest goes first, in each tier, until that is no larger.",
    .settings = CLI_SET_STORE,
    .options =
        (const cli_option[]){
            {.name = "older-than",
             .kind = CLI_TEXT,
             .value = "AGE",
             .help = "only what was not used for so long: a number and s, min, h or d"},
            {.name = "model",
             .kind = CLI_TEXT,
             .value = "M",
             .help = "only blocks of this model: its name, or as skymem ls has it, with or without "
                     ".gguf"},
            {.name = "to",
             .kind = CLI_TEXT,
             .value = "SIZE",
             .help = "only until the tier takes no more than that: bytes, KiB, MiB, GiB, TiB"},
            {.name = "dry-run", .kind = CLI_FLAG, .help = "count what would go, remove nothing"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem prune --older-than 7d", "what nobody asked for in a week"},
            {"skymem prune --to 4GiB --dry-run", "how much would have to go"},
            {"skymem prune --model gemma-3-270m-q4_k_m", "all blocks of a model"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"removed", "entries removed"},
            {"bytes", "their size"},
            {"excess_bytes", "by which tiers stay larger than --to, in all; 0 without --to"},
            {"dry_run", "whether they are still there"},
            {NULL, NULL},
        },
    .failed = "a tier does not answer or cannot be read (the others are pruned all the same), or "
              "refuses to remove something",
    .not_found = "the folder of the only store is not there",
    .run = prune_run,
};
