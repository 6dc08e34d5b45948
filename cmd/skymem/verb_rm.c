/* skymem rm: drop a key from every tier. */
#include "key.h"

static int rm_if_version(cli *c, const cli_store *store, const cli_key *key) {
    size_t tier = cli_version_tier(c, store);
    uint64_t version;
    int code = cli_if_version(c, &version);
    if (tier == SKY_TIER_NONE || code != CLI_OK)
        return code == CLI_OK ? CLI_FAILED : code;
    sky_item item = cli_key_item(key);
    const sky_call call = {.durable = true, .tiers = 1u << tier, .if_version = version};
    sky_status status = cli_one(store, SKY_OP_REMOVE, &item, &call);
    if (status == SKY_E_CONFLICT)
        return cli_key_conflict(c, key, &item);
    code = cli_key_failed(c, store, tier, key, status);
    if (code != CLI_OK)
        return code;
    cli_drop_elsewhere(store, key, tier);
    if (c->json)
        return cli_json_print(c, json_pack("{s:s, s:b}", "key", key->shown, "removed", true));
    printf("%s: removed\n", key->shown);
    return CLI_OK;
}

static int rm_run(cli *c) {
    return cli_given(c, "if-version") ? cli_with_key(c, rm_if_version)
                                      : cli_key_verb(c, SKY_OP_REMOVE, "removed");
}

const cli_verb cli_verb_rm = {
    .name = "rm",
    .summary = "Remove a key from every tier",
    .synopsis = "KEY",
    .about =
        "Of a prompt's block, all blocks behind it go too, because no prompt can reach them.\n"
        "Real satellites (sky+udp:) acknowledge it. If some do not answer, the command says how "
        "many chunks they hold and exits 4; what they hold alone nobody can find by its key "
        "any more, or it is dropped when they answer again.",
    .settings = CLI_SET_KEYS,
    .options = (const cli_option[]){CLI_OPTION_IF_VERSION, CLI_OPTION_AS, {.name = NULL}},
    .arguments_min = 1,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem rm greeting", "drop one value"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"key", "the key"},
            {"removed", "true"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key",
    .unavailable = true,
    .run = rm_run,
};
