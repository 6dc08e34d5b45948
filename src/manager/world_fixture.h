/* A made-up engine, a cache in memory and a manager over both: what the tests here begin with. */
#ifndef SKY_MANAGER_WORLD_FIXTURE_H
#define SKY_MANAGER_WORLD_FIXTURE_H

#include <skymem/manager.h>

#include "manager/engine_fixture.h"
#include "manager/payload.h"

#define WORLD_TOKENS_MAX 2100

typedef struct {
    made_up_engine engine;
    sky_cache *cache;
    sky_manager *manager;
    sky_sequence *sequence;
    uint32_t prompt[WORLD_TOKENS_MAX]; /* the same random tokens in every world */
} world;

void world_open(world *w, sky_layout layout, uint32_t block_tokens);
void world_open_at(world *w, sky_layout layout, uint32_t block_tokens, const char *url);
void world_open_over(world *w, sky_layout layout, uint32_t block_tokens, const char *const *urls,
                     size_t url_count);
void world_open_on(world *w, sky_layout layout, uint32_t block_tokens, sky_cache *cache);
void world_close(world *w);
/* Another manager and sequence over the same cache and engine. */
void world_renew(world *w, const sky_manager_options *options);

/* Compute a prompt from its first token; returns the answer. */
uint64_t world_cold(world *w, uint32_t token_count);
/* Save what was computed; returns the number of blocks. */
uint32_t world_save(world *w, uint32_t token_count);
/* Look a prompt up; the engine must then hold what the lookup says. */
sky_lookup world_look(world *w, uint32_t token_count, sky_time deadline);
/* Look a prompt up, compute the rest, and compare with the answer of a cold run. */
sky_lookup world_expect(world *w, uint32_t token_count, uint64_t cold_answer);

/* One block as it is stored. */
typedef struct {
    sky_key keys[16];
    uint8_t *bytes;
    size_t byte_count;
} stored_block;

stored_block world_fetch(world *w, uint32_t token_count, uint32_t block_tokens, uint32_t block);
/* Store it, as block `block`, and free it. */
void world_put_back(world *w, stored_block *b, uint32_t block);
void world_remove(world *w, uint32_t token_count, uint32_t block_tokens, uint32_t block);

sky_payload world_payload(const world *w, uint32_t block_tokens);

#endif
