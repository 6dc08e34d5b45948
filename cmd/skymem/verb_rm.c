/* skymem rm: drop a key from every tier. */
#include "key.h"

static int rm_run(cli *c) {
    return cli_key_verb(c, SKY_OP_REMOVE, "removed");
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
    .options = (const cli_option[]){CLI_OPTION_AS, {.name = NULL}},
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
