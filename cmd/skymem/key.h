/* Keys as people write them, and what to say when an operation on one fails. */
#ifndef SKYMEM_KEY_H
#define SKYMEM_KEY_H

#include "cli.h"

/* A KEY of the command line: a name, or with --as hex its bytes, or with --as block a block's
 * key. */
typedef struct {
    sky_key key;
    uint8_t name[SKY_NAME_BYTES_MAX];
    size_t name_bytes; /* 0: a block */
    char *shown;
} cli_key;
#define CLI_OPTION_AS                                                                              \
    {                                                                                              \
        .name = "as", .kind = CLI_CHOICE, .value = "name|hex|block", .fallback = "name",           \
        .help =                                                                                    \
            "what KEY is: a name as it stands, a name as hexadecimal bytes, or the 64 digits of "  \
            "a block's key"                                                                        \
    }
#define CLI_OPTION_IF_VERSION                                                                      \
    {                                                                                              \
        .name = "if-version", .kind = CLI_TEXT, .value = "V|none",                                 \
        .help = "only if this version is stored, as get --json tells it; none: if none is",        \
        .detail = "One tier decides, a sky with a lookup other than index; of commands that race " \
                  "one wins, the others exit 1. Nearer tiers then drop what they have of the key." \
    }
/* That of --if-version, for sky_call; 0: it was not given. */
int cli_if_version(cli *c, uint64_t *out);
/* The tier that decides about versions; SKY_TIER_NONE: none, and it is said. */
size_t cli_version_tier(const cli *c, const cli_store *store);
/* The other tiers drop what they have of a key that was changed under a condition. */
void cli_drop_elsewhere(const cli_store *store, const cli_key *key, size_t tier);
/* Says which version is stored instead; the exit code. */
int cli_key_conflict(const cli *c, const cli_key *key, const sky_item *item);
int cli_key_parse(cli *c, const char *text, cli_key *out);
void cli_key_free(cli_key *key);
/* An item that asks for the key; its name is the key's, so that promoted copies keep it. */
sky_item cli_key_item(const cli_key *key);
/* What to say when an operation on a key came to `status`: the exit code, or CLI_OK for SKY_OK. */
int cli_key_status(const cli *c, const cli_key *key, sky_status status);
/* The same, and which tier said it; SKY_TIER_NONE: not known. */
int cli_key_failed(const cli *c, const cli_store *store, size_t tier, const cli_key *key,
                   sky_status status);
/* A tier did not answer, so that what `done` says is all that was done: CLI_UNAVAILABLE, after
 * having said both. SKY_TIER_NONE: it is not known which. */
int cli_key_left(const cli *c, const cli_store *store, size_t tier, const cli_key *key,
                 const char *done);
#define CLI_WHY_BYTES 1024 /* for what these say */
/* "disk:/var/cache: no room …", with what to do, of a tier that failed. */
void cli_tier_says(const cli_store *store, size_t tier, sky_status status, char *out,
                   size_t out_bytes);
/* The same of whichever tier failed, if that is known: else the status alone. */
void cli_failure_says(const cli_store *store, sky_status status, char *out, size_t out_bytes);
/* The file of a real sky's scenario; false: the tier is none. */
bool cli_sky_scenario(const cli_store *store, size_t tier, char *out, size_t out_bytes);
/* Name scenarios of real skies that were edited after their satellites were started. */
void cli_note_edited(const cli *c, const cli_store *store);
/* Fails when a tier's entries cannot be listed, and so not be chosen and removed. */
int cli_refuse_unlisted(const cli *c, const cli_store *store);
/* Say of which tiers a list is not all they hold. */
void cli_note_unlisted(const cli *c, const cli_store *store);
/* Parse the one argument as a key, open the stores, and do `work` with both. The exit code. */
int cli_with_key(cli *c, int (*work)(cli *c, const cli_store *store, const cli_key *key));
/* All of a verb that does one thing to the one key it is given; `done` says what: "removed". */
int cli_key_verb(cli *c, sky_op op, const char *done);

#endif
