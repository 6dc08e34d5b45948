/* skymem pin, skymem unpin: keep a key from being evicted. */
#include "key.h"

static int pin_run(cli *c) {
    return cli_key_verb(c, SKY_OP_PIN, "pinned");
}

static int unpin_run(cli *c) {
    return cli_key_verb(c, SKY_OP_UNPIN, "unpinned");
}

const cli_verb cli_verb_pin = {
    .name = "pin",
    .summary = "Keep a key from being evicted",
    .synopsis = "KEY",
    .about = "A pinned value is not evicted. A pin on disk outlives the process: it holds until "
             "unpin or rm. A value with a time to live ends with it, pinned or not.\n"
             "Real satellites (sky+udp:) keep pins too. Any process may undo such a pin, but "
             "none sees it, so unpin succeeds there on every value that is found. If some of them "
             "do not answer, the command says how many chunks they hold and exits 4.",
    .settings = CLI_SET_KEYS,
    .options = (const cli_option[]){CLI_OPTION_AS, {.name = NULL}},
    .arguments_min = 1,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem pin system-prompt",
             "however full the tiers get, this stays; real satellites keep it for 168 hours after "
             "its last use"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"key", "the key"},
            {"pinned", "true"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key",
    .unavailable = true,
    .run = pin_run,
};

const cli_verb cli_verb_unpin = {
    .name = "unpin",
    .summary = "Let a pinned key be evicted again",
    .synopsis = "KEY",
    .settings = CLI_SET_KEYS,
    .options = (const cli_option[]){CLI_OPTION_AS, {.name = NULL}},
    .arguments_min = 1,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem unpin system-prompt", "it may go when room is needed"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"key", "the key"},
            {"unpinned", "true"},
            {NULL, NULL},
        },
    .not_found = "no tier has the key",
    .unavailable = true,
    .run = unpin_run,
};
