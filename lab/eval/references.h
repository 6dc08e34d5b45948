/* What others do with a KV cache, as schemes. */
#ifndef SKYMEM_LAB_EVAL_REFERENCES_H
#define SKYMEM_LAB_EVAL_REFERENCES_H

#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

/* A reference's name, or what eval_scheme_parse takes. Returns as that does. */
const char *eval_scheme_find(const char *name, uint32_t block_tokens, eval_scheme *out);

#endif
#endif
