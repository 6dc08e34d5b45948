/* skymem verify: read and check every byte of every tier. */
#include "locate.h"

static int verify_report(const cli *c, const sky_verify_report *r) {
    char size[24], count[CLI_COUNT_TEXT_BYTES];
    int code = CLI_OK;
    if (c->json)
        code = cli_json_print(c,
                              json_pack("{s:I, s:I, s:I, s:I}", "entries", (json_int_t)r->entries,
                                        "bytes", (json_int_t)r->bytes, "corrupt",
                                        (json_int_t)r->corrupt, "orphans", (json_int_t)r->orphans));
    else
        printf("%s, %s: %llu damaged, %llu left over\n",
               cli_count_text(r->entries, "entry", "entries", count),
               cli_bytes_text(r->bytes, size), (unsigned long long)r->corrupt,
               (unsigned long long)r->orphans);
    if (code == CLI_OK && r->corrupt > 0)
        return cli_failed(
            c, "%s dropped; check the disk if it happens again",
            cli_count_text(r->corrupt, "damaged entry was", "damaged entries were", count));
    return code;
}

/* ---- one value ---- */

/* What became of reading all of it from one tier. */
typedef struct {
    sky_status status;
    uint64_t bytes;
    cli_chunks chunks; /* of a sky */
} reading;

static void read_value(const cli_store *store, size_t tier, const cli_key *key, reading *r) {
    const sky_call call = {.tiers = 1u << tier};
    sky_item has = {.key = key->key};
    if (cli_is_sky(store, tier)) /* before it is read: what is found lost then is dropped */
        (void)cli_chunks_find(store, tier, &key->key, &r->chunks);
    r->status = cli_one(store, SKY_OP_HAS, &has, &call);
    if (r->status != SKY_OK)
        return;
    sky_span skipped = {NULL, (size_t)has.bytes};
    sky_item get = cli_key_item(key);
    get.spans = &skipped;
    get.span_count = 1;
    r->status = cli_one(store, SKY_OP_GET, &get, &call);
    r->bytes = has.bytes;
}

static const char *state_of(const reading *r) {
    bool lacks = r->chunks.report.live < r->chunks.report.chunks;
    return r->status == SKY_OK          ? lacks ? "sound, some chunks lost" : "sound"
           : r->status == SKY_MISS      ? lacks ? "lost" : "not there"
           : r->status == SKY_E_CORRUPT ? "damaged"
                                        : sky_status_text(r->status);
}

static json_t *reading_json(const char *tier, const reading *r) {
    json_t *object = json_pack("{s:s, s:s, s:I}", "tier", tier, "state", state_of(r), "bytes",
                               (json_int_t)r->bytes);
    const sky_chunk_report *report = &r->chunks.report;
    if (report->chunks > 0) {
        json_object_set_new(object, "chunks", json_integer((json_int_t)report->chunks));
        json_object_set_new(object, "last", json_integer((json_int_t)report->last));
        json_object_set_new(object, "live", json_integer((json_int_t)report->live));
        json_object_set_new(object, "rotations", json_integer((json_int_t)report->rotations));
    }
    return object;
}

static void reading_print(const char *tier, const reading *r) {
    char size[24], says[160] = "";
    if (r->chunks.report.chunks > 0)
        cli_chunks_says(&r->chunks, says, sizeof says);
    printf("%s: %s%s%s%s%s\n", tier, state_of(r), r->bytes ? ", " : "",
           r->bytes ? cli_bytes_text(r->bytes, size) : "", says[0] ? "; " : "", says);
}

/* Each tier apart: reading through all would stop at the first that has it. */
static int verify_key(cli *c, const cli_store *store, const cli_key *key) {
    json_t *tiers = json_array();
    size_t sound = 0, damaged = 0;
    sky_status worst = SKY_MISS;
    for (size_t t = 0; t < store->tier_count; t++) {
        reading r = {0};
        read_value(store, t, key, &r);
        sound += r.status == SKY_OK;
        damaged += r.status == SKY_E_CORRUPT;
        worst = r.status != SKY_OK && r.status != SKY_MISS ? r.status : worst;
        if (c->json)
            json_array_append_new(tiers, reading_json(store->names[t], &r));
        else
            reading_print(store->names[t], &r);
        cli_chunks_free(&r.chunks);
    }
    int code = CLI_OK;
    if (c->json)
        code = cli_json_print(c, json_pack("{s:s, s:I, s:I, s:O}", "key", key->shown, "entries",
                                           (json_int_t)sound, "corrupt", (json_int_t)damaged,
                                           "tiers", tiers));
    json_decref(tiers);
    if (code != CLI_OK || (sound > 0 && worst == SKY_MISS))
        return code;
    return worst == SKY_MISS ? cli_key_status(c, key, SKY_MISS)
           : sound > 0 && worst != SKY_E_UNAVAILABLE
               ? cli_failed(c, "%s: not every tier could give it back", key->shown)
               : cli_key_failed(c, store, SKY_TIER_NONE, key, worst);
}

/* All tiers together; of one that does not answer the report of the others stands. */
static int verify_all(const cli *c, const cli_store *store) {
    sky_verify_report report = {0};
    char why[CLI_WHY_BYTES];
    sky_status status = sky_verify(store->cache, &report);
    int code = verify_report(c, &report);
    if (code == CLI_OK)
        cli_note_unlisted(c, store);
    if (code != CLI_OK || status == SKY_OK)
        return code;
    cli_failure_says(store, status, why, sizeof why);
    return cli_failed(c, "incomplete: %s", why);
}

static int verify_run(cli *c) {
    cli_store store = {0};
    if (c->argument_count > 0)
        return cli_with_key(c, verify_key);
    int code = cli_store_open(c, &store);
    if (code == CLI_OK)
        code = verify_all(c, &store);
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_verify = {
    .name = "verify",
    .summary = "Read and check every byte of every tier",
    .synopsis = "[KEY]",
    .about = "Damaged entries are dropped and counted. So is what interrupted writes left, and "
             "blocks whose parent is gone, which no prompt can reach.\n"
             "Values that other processes put into real satellites (sky+udp:) are not known "
             "here, so they are not read.\n"
             "With KEY one value is read from each tier. Of a sky it also tells how many chunks "
             "live.",
    .settings = CLI_SET_KEYS,
    .options = (const cli_option[]){CLI_OPTION_AS, {.name = NULL}},
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem verify", "the default tiers"},
            {"skymem verify --store disk:/mnt/cache --json", "one folder, for a script"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"key", "with KEY: this and entries, corrupt, and tiers: per tier its name, state, "
                    "bytes, and of a sky chunks, live, last (those on their last copy), rotations"},
            {"entries", "entries checked and found good"},
            {"bytes", "their size"},
            {"corrupt", "damaged entries, now dropped"},
            {"orphans",
             "what interrupted writes left, and blocks whose parent is gone, now dropped"},
            {NULL, NULL},
        },
    .failed = "a tier does not answer or cannot be read, or something was damaged (the report is "
              "printed all the same)",
    .not_found = "the folder of the only store is not there, or no tier has KEY",
    .unavailable = true,
    .run = verify_run,
};
