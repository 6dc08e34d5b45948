/* Facts planted in a text: eval --facts. */
#ifndef SKYMEM_LAB_EVAL_FACTS_H
#define SKYMEM_LAB_EVAL_FACTS_H

#include "eval.h"

#ifdef SKYMEM_WITH_LLAMA

/* A prefix of about `prefix` tokens with facts planted in it, and questions about them. */
int eval_text_facts(const cli *c, eval_model *m, const char *filler_path, uint32_t prefix,
                    eval_text *t);

#endif
#endif
