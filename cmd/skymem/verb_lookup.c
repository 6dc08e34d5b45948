/* skymem lookup: which keys of a list, or blocks of a prompt, are stored, and in which tiers. */
#include "inside.h"
#include "tokens.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cli_store store;
    sky_item *items; /* [count]: a key each, and how the tier that was asked last answered */
    char **shown;    /* [count] */
    bool *there;     /* [count]: in any tier */
    bool *unknown;   /* [count]: a tier that may have it did not answer */
    size_t count;
    json_t *tiers; /* a row for each that answered */
    size_t away;   /* SKY_TIER_NONE, or the last that did not */
} looking;

static bool make_room(looking *l, size_t count) {
    l->items = calloc(count + 1, sizeof *l->items);
    l->shown = calloc(count + 1, sizeof *l->shown);
    l->there = calloc(count + 1, sizeof *l->there);
    l->unknown = calloc(count + 1, sizeof *l->unknown);
    return l->items && l->shown && l->there && l->unknown;
}

/* ---- the list ---- */

static int take_tokens(cli *c, looking *l) {
    token_keys k;
    char hex[2 * SKY_KEY_BYTES + 1];
    if (c->argument_count > 0)
        return cli_usage(c, "--tokens: without KEY");
    int code = token_keys_read(c, cli_text(c, "tokens"), &k);
    if (code == CLI_OK && !make_room(l, k.count))
        code = cli_failed(c, "out of memory");
    for (; code == CLI_OK && l->count < k.count; l->count++) {
        sky_key_hex(&k.keys[l->count], hex);
        l->items[l->count].key = k.keys[l->count];
        l->shown[l->count] = strdup(hex);
    }
    token_keys_free(&k);
    return code;
}

static int take_keys(cli *c, looking *l) {
    if (c->argument_count == 0)
        return cli_usage(c, "an argument is missing: KEY..., or --tokens FILE");
    int code = make_room(l, c->argument_count) ? CLI_OK : cli_failed(c, "out of memory");
    for (; code == CLI_OK && l->count < c->argument_count; l->count++) {
        cli_key key;
        code = cli_key_parse(c, c->arguments[l->count], &key);
        l->items[l->count].key = key.key;
        l->shown[l->count] = key.shown;
    }
    return code;
}

/* ---- looking ---- */

/* Ask one tier for all keys, so many at once. Of a key a host that is away may have nothing is
 * known; SKY_E_UNAVAILABLE: that is so of each. */
static sky_status ask_tier(looking *l, size_t tier) {
    const sky_call call = {.tiers = 1u << tier};
    sky_status status = SKY_OK;
    for (size_t at = 0, step; at < l->count && status == SKY_OK; at += step) {
        step = l->count - at < SKY_BATCH_ITEMS_MAX ? l->count - at : SKY_BATCH_ITEMS_MAX;
        status = sky_run(l->store.cache, SKY_OP_HAS, l->items + at, step, &call);
    }
    size_t unknown = 0;
    for (size_t i = 0; i < l->count && status == SKY_OK; i++) {
        sky_status one = l->items[i].status;
        unknown += one == SKY_E_UNAVAILABLE;
        if (one != SKY_MISS && one != SKY_E_CORRUPT && one != SKY_E_UNAVAILABLE)
            status = one;
    }
    return status == SKY_OK && unknown > 0 && unknown == l->count ? SKY_E_UNAVAILABLE : status;
}

static size_t count_leading(const bool *there, const sky_item *items, size_t count) {
    size_t n = 0;
    while (n < count && (there ? there[n] : items[n].status == SKY_OK))
        n++;
    return n;
}

static int look_in(const cli *c, looking *l, size_t tier) {
    char why[CLI_WHY_BYTES];
    uint64_t keys = 0, bytes = 0, pinned = 0;
    sky_status status = ask_tier(l, tier);
    if (status != SKY_OK && status != SKY_E_UNAVAILABLE) {
        cli_tier_says(&l->store, tier, status, why, sizeof why);
        return cli_failed(c, "%s", why);
    }
    for (size_t i = 0; i < l->count; i++) {
        bool ok = l->items[i].status == SKY_OK;
        bool unknown = status != SKY_OK || l->items[i].status == SKY_E_UNAVAILABLE;
        l->there[i] |= ok;
        l->unknown[i] |= unknown;
        l->away = unknown ? tier : l->away;
        keys += ok;
        pinned += ok && l->items[i].pinned;
        bytes += ok ? l->items[i].bytes : 0;
    }
    if (status != SKY_OK)
        return CLI_OK;
    json_array_append_new(l->tiers,
                          json_pack("{s:s, s:I, s:I, s:I, s:I}", "tier", l->store.names[tier],
                                    "keys", (json_int_t)keys, "leading",
                                    (json_int_t)count_leading(NULL, l->items, l->count), "bytes",
                                    (json_int_t)bytes, "pinned", (json_int_t)pinned));
    return CLI_OK;
}

/* ---- the answer ---- */

static void print_people(const looking *l, size_t found, size_t leads, uint64_t tokens) {
    cli_table table = {.columns = "lrrrr"};
    static const char *const head[] = {"TIER", "KEYS", "LEADING", "SIZE", "PINNED"};
    size_t i;
    const json_t *row;
    char size[24], count[CLI_COUNT_TEXT_BYTES];
    for (i = 0; i < sizeof head / sizeof *head; i++)
        cli_table_cell(&table, "%s", head[i]);
    json_array_foreach(l->tiers, i, row) {
        const char *tier;
        json_int_t keys, in_front, bytes, pinned;
        json_unpack((json_t *)row, "{s:s, s:I, s:I, s:I, s:I}", "tier", &tier, "keys", &keys,
                    "leading", &in_front, "bytes", &bytes, "pinned", &pinned);
        cli_table_cell(&table, "%s", tier);
        cli_table_cell(&table, "%lld", (long long)keys);
        cli_table_cell(&table, "%lld", (long long)in_front);
        cli_table_cell(&table, "%s", cli_bytes_text((uint64_t)bytes, size));
        cli_table_cell(&table, "%lld", (long long)pinned);
    }
    cli_table_print(&table, stdout);
    printf("%zu of %s stored, the first %zu without a gap", found,
           cli_count_text(l->count, "key", "keys", count), leads);
    if (tokens > 0)
        printf(": %s", cli_count_text(tokens, "token", "tokens", count));
    putchar('\n');
}

/* The keys that no tier has, those of which nothing is known or the others. */
static json_t *list_absent(const looking *l, bool unknown) {
    json_t *out = json_array();
    for (size_t i = 0; i < l->count; i++)
        if (!l->there[i] && l->unknown[i] == unknown)
            json_array_append_new(out, json_string(l->shown[i] ? l->shown[i] : ""));
    return out;
}

static int report_lookup(cli *c, const looking *l) {
    size_t leads = count_leading(l->there, NULL, l->count);
    uint64_t tokens = cli_given(c, "tokens") ? leads * cli_count(c, "block-tokens") : 0;
    json_t *missing = list_absent(l, false), *unknown = list_absent(l, true);
    size_t unknown_count = json_array_size(unknown);
    size_t found = l->count - json_array_size(missing) - unknown_count;
    int code = CLI_OK;
    if (c->json) {
        json_t *o = json_pack("{s:I, s:I, s:I, s:O, s:O, s:O}", "keys", (json_int_t)l->count,
                              "found", (json_int_t)found, "leading", (json_int_t)leads, "tiers",
                              l->tiers, "missing", missing, "unknown", unknown);
        if (cli_given(c, "tokens"))
            json_object_set_new(o, "leading_tokens", json_integer((json_int_t)tokens));
        code = cli_json_print(c, o);
    } else {
        print_people(l, found, leads, tokens);
    }
    json_decref(missing);
    json_decref(unknown);
    if (code == CLI_OK && unknown_count > 0) {
        char why[CLI_WHY_BYTES];
        cli_tier_says(&l->store, l->away, SKY_E_UNAVAILABLE, why, sizeof why);
        return cli_unavailable(c, "nothing is known of %zu of %zu keys: %s", unknown_count,
                               l->count, why);
    }
    return code == CLI_OK && found == 0 ? CLI_NOT_FOUND : code;
}

static int lookup_run(cli *c) {
    looking l = {.tiers = json_array(), .away = SKY_TIER_NONE};
    int code = cli_given(c, "tokens") ? take_tokens(c, &l) : take_keys(c, &l);
    if (code == CLI_OK)
        code = inside_open(c, &l.store);
    for (size_t i = 0; i < l.store.tier_count && code == CLI_OK; i++)
        code = look_in(c, &l, i);
    if (code == CLI_OK)
        code = report_lookup(c, &l);
    cli_store_close(&l.store);
    for (size_t i = 0; i < l.count; i++)
        free(l.shown[i]);
    free(l.items);
    free(l.shown);
    free(l.there);
    free(l.unknown);
    json_decref(l.tiers);
    return code;
}

const cli_verb cli_verb_lookup = {
    .name = "lookup",
    .summary = "Say which keys of a list are stored, and in which tiers",
    .synopsis = "[KEY...]",
    .about =
        "Nothing is read, and nothing counts as used. Of a prompt's blocks the first without a gap "
        "are what can be loaded: with --tokens these are the leading tokens. Of a skymemd (--store "
        "shm:SOCKET) each of its own tiers is asked.",
    .settings = CLI_SET_KEYS | CLI_SET_BLOCK_TOKENS,
    .options =
        (const cli_option[]){
            CLI_OPTION_AS,
            {.name = "tokens",
             .kind = CLI_PATH,
             .value = "FILE",
             .help = "instead of KEY: the blocks of a prompt whose token ids are in FILE; - is "
                     "standard input"},
            OPTION_NAMESPACE,
            {.name = NULL},
        },
    .arguments_max = CLI_ARGUMENTS_MANY,
    .examples =
        (const cli_example[]){
            {"skymem lookup greeting farewell", "two values"},
            {"seq 0 299 | skymem lookup --tokens - --store shm:/run/skymemd.sock",
             "how much of a prompt a daemon has, and where"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"keys", "how many were asked for"},
            {"found", "how many of them some tier has"},
            {"leading", "how many at the front of the list, without a gap"},
            {"leading_tokens", "with --tokens: the tokens of these blocks"},
            {"tiers", "per tier that answered: tier, keys, leading, bytes, pinned"},
            {"missing", "keys that no tier has"},
            {"unknown", "keys of which nothing is known, as a store that may have them is away"},
            {NULL, NULL},
        },
    .not_found = "no tier has any of the keys",
    .unavailable = true,
    .run = lookup_run,
};
