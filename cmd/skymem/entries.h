/* What a store holds, copied out of it and sorted by key: for ls and stat. */
#ifndef SKYMEM_CLI_ENTRIES_H
#define SKYMEM_CLI_ENTRIES_H

#include "key.h"

typedef struct {
    sky_key key;
    sky_key parent; /* of a block: as sky_entry has it */
    char *shown;    /* escaped name, or a block's 64 digits */
    uint64_t bytes;
    uint64_t hits;
    double age_s;
    double used_s;     /* since it was put or read; where the tier does not keep that, age_s */
    bool block;        /* else it has a name */
    const char *level; /* NULL: not coded */
    uint8_t tier;
    uint8_t evict; /* its class */
    bool pinned;
    bool salted; /* a value whose key is not the one that its name has without a salt */
} cli_entry;

typedef struct {
    cli_entry *entries;
    size_t count;
    size_t max;
    const void *prefix; /* only names (or digits) that begin so */
    size_t prefix_bytes;
    const cli_key *only; /* only this key, shown as it was written; NULL: any */
    bool failed;         /* out of memory */
    sky_status left_out; /* SKY_OK, or what a tier said whose entries are not among these */
} cli_entries;

/* All that can be read: of a tier that cannot be, cli_entries_end says so. */
int cli_entries_read(const cli *c, const cli_store *store, cli_entries *e);
/* Once the others' work is done and reported: fails when a tier was left out, and says which. */
int cli_entries_end(const cli *c, const cli_store *store, const cli_entries *e);
void cli_entries_free(cli_entries *e);
/* "soon", "last", or "" of the normal class. */
const char *cli_entry_evict(const cli_entry *entry);
json_t *cli_entry_json(const cli_store *store, const cli_entry *entry);
/* One row of a table with CLI_ENTRY_COLUMNS. */
#define CLI_ENTRY_COLUMNS "lrlrrlll"
void cli_entry_head(cli_table *t);
void cli_entry_row(cli_table *t, const cli_store *store, const cli_entry *entry);

#endif
