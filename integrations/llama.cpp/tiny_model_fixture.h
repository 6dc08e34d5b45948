/* Models of a few hundred kilobytes with random weights, written as GGUF files: what llama.cpp does
 * with them is as real as with any other, and takes milliseconds. */
#ifndef SKYMEM_LLAMA_TINY_MODEL_FIXTURE_H
#define SKYMEM_LLAMA_TINY_MODEL_FIXTURE_H

#include <stdint.h>

#define TINY_VOCABULARY 256

/* architecture "llama" (full attention), "gemma3" (five windows of window_tokens, then a full
 * layer) or "longrope" (a llama that turns its keys otherwise in contexts of more than 1,024
 * tokens).
 * Shape:  path [path_bytes], filled with a new temporary file: unlink it */
void tiny_model_write(const char *architecture, uint32_t window_tokens, uint64_t seed, char *path,
                      uint32_t path_bytes);

#endif
