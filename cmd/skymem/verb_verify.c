/* skymem verify: read and check every byte of every tier. */
#include "cli.h"

static int verify_report(const cli *c, const sky_verify_report *r) {
    char size[24];
    int code = CLI_OK;
    if (c->json)
        code = cli_json_print(c,
                              json_pack("{s:I, s:I, s:I, s:I}", "entries", (json_int_t)r->entries,
                                        "bytes", (json_int_t)r->bytes, "corrupt",
                                        (json_int_t)r->corrupt, "orphans", (json_int_t)r->orphans));
    else
        printf("%llu entries, %s: %llu damaged, %llu left over\n", (unsigned long long)r->entries,
               cli_bytes_text(r->bytes, size), (unsigned long long)r->corrupt,
               (unsigned long long)r->orphans);
    if (code == CLI_OK && r->corrupt > 0)
        return cli_failed(c,
                          "%llu damaged entries were dropped; check the disk if it happens again",
                          (unsigned long long)r->corrupt);
    return code;
}

static int verify_run(cli *c) {
    cli_store store = {0};
    sky_verify_report report = {0};
    int code = cli_store_open(c, &store);
    if (code == CLI_OK) {
        sky_status status = sky_verify(store.cache, &report);
        if (status == SKY_OK) {
            code = verify_report(c, &report);
            cli_note_unlisted(c, &store);
        } else {
            code = cli_failed(c, "the tiers cannot be read: %s; see skymem stat",
                              sky_status_text(status));
        }
    }
    cli_store_close(&store);
    return code;
}

const cli_verb cli_verb_verify = {
    .name = "verify",
    .summary = "Read and check every byte of every tier",
    .synopsis = "",
    .about = "Damaged entries are dropped and counted. So is what interrupted writes left, and "
             "blocks whose parent is gone, which no prompt can reach.\n"
             "Values that other processes put into real satellites (sky+udp:) are not known "
             "here, so they are not read. get checks each byte.",
    .settings = CLI_SET_STORE,
    .examples =
        (const cli_example[]){
            {"skymem verify", "the default tiers"},
            {"skymem verify --store disk:/mnt/cache --json", "one folder, for a script"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"entries", "entries checked and found good"},
            {"bytes", "their size"},
            {"corrupt", "damaged entries, now dropped"},
            {"orphans",
             "what interrupted writes left, and blocks whose parent is gone, now dropped"},
            {NULL, NULL},
        },
    .failed =
        "a tier cannot be read, or something was damaged (the report is printed all the same)",
    .not_found = "the folder of the only store is not there",
    .run = verify_run,
};
