/* CacheGen's claims, one by one: eval --claims. */
#ifndef SKYMEM_LAB_EVAL_CLAIMS_H
#define SKYMEM_LAB_EVAL_CLAIMS_H

#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

/* Test the claims on a text that is loaded; prints JSON lines of their own kind. */
int eval_claims(const cli *c, eval_model *m, eval_text *t);

#endif
#endif
