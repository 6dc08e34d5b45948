/* Models that have a name: share/models.list, which tools/get-model reads too. */
#ifndef SKYMEM_CLI_MODELS_H
#define SKYMEM_CLI_MODELS_H

#include "cli.h"

#define CLI_MODELS_MAX 32

typedef struct {
    char name[64];
    char file[128];
    char sha256[65];
    char title[128];
    char licence[256];
    uint64_t bytes;
    char path[4352]; /* where its file is, or would be */
    bool here;       /* it was fetched and checked, and is as long as it should be */
} cli_named_model;

/* The models of the list, and which of them are here; says why it cannot be read.
 * Shape:  out [CLI_MODELS_MAX] */
int cli_models_read(const cli *c, cli_named_model *out, size_t *count);
/* The one of this name; NULL, after a usage error that lists the names. */
const cli_named_model *cli_models_find(const cli *c, const cli_named_model *models, size_t count,
                                       const char *name);
/* What --model was given, as a path: a name of the list becomes its file, anything else is one. */
int cli_model_path(const cli *c, const char *given, char *path, size_t path_bytes);

#endif
