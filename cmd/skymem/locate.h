/* The chunks of a value in a sky: for locate and stat. */
#ifndef SKYMEM_CLI_LOCATE_H
#define SKYMEM_CLI_LOCATE_H

#include "key.h"

typedef struct {
    size_t tier;
    sky_chunk_copy *copies;
    size_t count;
    sky_chunk_report report;
} cli_chunks;

bool cli_is_sky(const cli_store *store, size_t tier);
/* Errors: as sky_cache_chunks. Owner: cli_chunks_free, whatever came of it */
sky_status cli_chunks_find(const cli_store *store, size_t tier, const sky_key *key,
                           cli_chunks *out);
void cli_chunks_free(cli_chunks *chunks);
/* "11 of 11 chunks live, 3 rotations since it was put" */
void cli_chunks_says(const cli_chunks *chunks, char *out, size_t out_bytes);

/* All of `locate KEY`. */
int cli_locate_key(cli *c);

#endif
