/* A running skymemd from inside: what it says of itself, and its own stores one by one. */
#ifndef SKYMEM_INSIDE_H
#define SKYMEM_INSIDE_H

#include "key.h"

/* The socket of a skymemd, with what may stand behind it in a URL, if that is the only store; NULL:
 * it is not. */
const char *inside_socket(cli *c);
/* What it says of itself, an object; says why when it does not answer.
 * Owner: the caller, by json_decref */
int inside_ask(const cli *c, const char *socket, json_t **out);
/* cli_store_open; but of a skymemd that is the only store each of its own stores is a tier, under
 * its own name ("mem", "disk"). */
int inside_open(cli *c, cli_store *out);
/* The tier of this name; SKY_TIER_NONE: there is none, which is a usage error, and said. */
size_t inside_tier(const cli *c, const cli_store *store, const char *option, const char *name);

#endif
