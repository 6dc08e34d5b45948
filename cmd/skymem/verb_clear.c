/* skymem clear: remove everything that the tiers hold, or the weights that eval has written. */
#include "entries.h"
#include "inside.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    uint64_t count;
    uint64_t bytes;
} amount;

/* Whether it may go. Who cannot be asked must have said --yes. */
static int confirm_clear(cli *c, const amount *a, const char *what) {
    char size[24], answer[16] = "";
    if (cli_flag(c, "yes") || a->count == 0)
        return CLI_OK;
    if (c->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return cli_usage(c, "%s would be removed, %s: give --yes", what,
                         cli_bytes_text(a->bytes, size));
    fprintf(stderr, "remove %s, %s? [y/N] ", what, cli_bytes_text(a->bytes, size));
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return CLI_OK;
    return cli_failed(c, "nothing was removed");
}

static int report_clear(const cli *c, const amount *a) {
    char size[24], count[CLI_COUNT_TEXT_BYTES];
    if (c->json)
        return cli_json_print(c, json_pack("{s:I, s:I}", "removed", (json_int_t)a->count, "bytes",
                                           (json_int_t)a->bytes));
    printf("removed %s, %s\n", cli_count_text(a->count, "entry", "entries", count),
           cli_bytes_text(a->bytes, size));
    return CLI_OK;
}

/* ---- entries ---- */

static int remove_entries(const cli *c, const cli_store *store, cli_entries *e) {
    for (size_t i = 0; i < e->count; i++) {
        sky_item item = {.key = e->entries[i].key};
        const sky_call call = {.tiers = 1u << e->entries[i].tier};
        sky_status status = cli_one(store, SKY_OP_REMOVE, &item, &call);
        if (status == SKY_E_UNAVAILABLE) /* it went from where somebody answers */
            e->left_out = status;
        if (status == SKY_OK || status == SKY_MISS || /* with the block before it */
            status == SKY_E_UNAVAILABLE)
            continue;
        char why[CLI_WHY_BYTES];
        cli_tier_says(store, e->entries[i].tier, status, why, sizeof why);
        return cli_failed(c, "%s; not all was removed", why);
    }
    return CLI_OK;
}

/* Of the entries, those of --tier, if it is given. */
static int keep_tier(cli *c, const cli_store *store, cli_entries *e) {
    if (!cli_given(c, "tier"))
        return CLI_OK;
    size_t tier = inside_tier(c, store, "tier", cli_text(c, "tier")), kept = 0;
    for (size_t i = 0; i < e->count && tier != SKY_TIER_NONE; i++)
        if (e->entries[i].tier == tier)
            e->entries[kept++] = e->entries[i];
        else
            free(e->entries[i].shown);
    e->count = tier == SKY_TIER_NONE ? e->count : kept;
    return tier == SKY_TIER_NONE ? CLI_USAGE : CLI_OK;
}

static int clear_store(cli *c) {
    cli_store store = {0};
    cli_entries e = {0};
    amount a = {0};
    char what[CLI_COUNT_TEXT_BYTES];
    int code = cli_given(c, "tier") ? inside_open(c, &store) : cli_store_open(c, &store);
    if (c->argument_count > 0) {
        e.prefix = c->arguments[0];
        e.prefix_bytes = strlen(c->arguments[0]);
    }
    if (code == CLI_OK)
        code = cli_refuse_unlisted(c, &store);
    if (code == CLI_OK)
        code = cli_entries_read(c, &store, &e);
    if (code == CLI_OK)
        code = keep_tier(c, &store, &e);
    for (a.count = 0; a.count < e.count; a.count++)
        a.bytes += e.entries[a.count].bytes;
    cli_count_text(e.count, "entry", "entries", what);
    if (code == CLI_OK)
        code = confirm_clear(c, &a, what);
    if (code == CLI_OK)
        code = remove_entries(c, &store, &e);
    if (code == CLI_OK)
        code = report_clear(c, &a);
    if (code == CLI_OK)
        code = cli_entries_end(c, &store, &e);
    cli_entries_free(&e);
    cli_store_close(&store);
    return code;
}

/* ---- weights ---- */

/* What an eval that was killed left: a folder of its own with what it had written. */
static bool is_left(const char *folder, const char *name, struct stat *st) {
    char path[4400];
    snprintf(path, sizeof path, "%s/%s/f32.gguf", folder, name);
    return strncmp(name, "skymem-weights-", 15) == 0 && lstat(path, st) == 0;
}

/* Each file of the folder: counted, or removed. */
static int each_weights(const cli *c, const char *folder, bool removes, amount *a) {
    char path[4400];
    struct stat st;
    DIR *open = opendir(folder);
    if (!open)
        return errno == ENOENT ? CLI_OK : cli_failed(c, "%s: %s", folder, strerror(errno));
    int code = CLI_OK;
    for (const struct dirent *at; code == CLI_OK && (at = readdir(open));) {
        bool left = is_left(folder, at->d_name, &st);
        snprintf(path, sizeof path, "%s/%s", folder, at->d_name);
        if (!left && (lstat(path, &st) != 0 || !S_ISREG(st.st_mode)))
            continue;
        a->count++;
        a->bytes += (uint64_t)st.st_size;
        if (removes && left)
            cli_scratch_remove(path);
        else if (removes && unlink(path) != 0 && errno != ENOENT)
            code = cli_failed(c, "%s: %s", path, strerror(errno));
    }
    closedir(open);
    return code;
}

static int clear_weights(cli *c) {
    char folder[4096], what[4200];
    amount a = {0}, gone = {0};
    if (!cli_weights_folder(folder, sizeof folder))
        return cli_failed(c, "this account has no home, so nothing was ever written there");
    int code = each_weights(c, folder, false, &a);
    snprintf(what, sizeof what, "%s", folder);
    if (code == CLI_OK)
        code = confirm_clear(c, &a, what);
    if (code == CLI_OK)
        code = each_weights(c, folder, true, &gone);
    if (code == CLI_OK)
        rmdir(folder); /* unless an eval is just writing into it */
    return code == CLI_OK ? report_clear(c, &gone) : code;
}

static int clear_run(cli *c) {
    if (cli_flag(c, "weights") && c->argument_count > 0)
        return cli_usage(c, "--weights: without PREFIX");
    if (cli_flag(c, "weights"))
        return cli_one_of(c, "weights store tier") == CLI_OK ? clear_weights(c) : CLI_USAGE;
    return clear_store(c);
}

const cli_verb cli_verb_clear = {
    .name = "clear",
    .summary = "Remove everything that the tiers hold",
    .synopsis = "[PREFIX]",
    .about = "Pinned entries go too. With PREFIX those alone go whose name, or block's key, begins "
             "with it; with --tier those of one tier, such as mem of a skymemd (--store "
             "shm:SOCKET). skymem prune --model removes the blocks of a model. On a terminal it "
             "asks first; elsewhere --yes must be given.\n"
             "What real satellites (sky+udp:) hold cannot be listed, so such a tier is refused.",
    .settings = CLI_SET_STORE,
    .options =
        (const cli_option[]){
            {.name = "weights",
             .kind = CLI_FLAG,
             .help = "instead of entries: the dequantised weights that skymem eval has written "
                     "into the cache folder"},
            {.name = "tier",
             .kind = CLI_TEXT,
             .value = "TIER",
             .help = "only from this tier, as skymem health names it: mem, disk, disk-2"},
            {.name = "yes", .kind = CLI_FLAG, .letter = 'y', .help = "do not ask"},
            {.name = NULL},
        },
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem clear", "the default tiers, after a question"},
            {"skymem clear tmp/ --tier mem --yes --store shm:/run/skymemd.sock",
             "what begins so, out of a daemon's memory"},
            {"skymem clear --weights --yes", "what skymem eval has left"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"removed", "entries, or files of weights"},
            {"bytes", "their size"},
            {NULL, NULL},
        },
    .failed = "the answer was no, a tier does not answer (the others are cleared all the same), or "
              "an entry or a file cannot be removed",
    .not_found = "the folder of the only store is not there",
    .run = clear_run,
};
