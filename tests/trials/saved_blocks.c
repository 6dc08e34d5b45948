/* What a save calls saved is found again by the next process, however small the memory is and
 * however many prompts come at once. */
#include "trial.h"

#define LAYERS    4
#define CONTEXT   8192
#define ROW_BYTES 64
#define BLOCK     128

/* An engine that computes nothing: a row is a function of its token, layer and prompt. */
typedef struct {
    uint32_t prompt;
    uint32_t tokens_held;
    uint32_t restoring;
    uint8_t rows[LAYERS * 2][CONTEXT][ROW_BYTES];
} toy;

static void fill(toy *e, uint32_t first, uint32_t count) {
    for (int l = 0; l < LAYERS * 2; l++)
        for (uint32_t t = first; t < first + count; t++)
            for (uint32_t i = 0; i < ROW_BYTES; i++)
                e->rows[l][t][i] = (uint8_t)(e->prompt * 31 + t * 7 + (uint32_t)l * 3 + i);
    e->tokens_held = first + count;
}

static void toy_fingerprint(void *self, uint8_t out[32]) {
    (void)self;
    memset(out, 1, 32);
}

static sky_status toy_layout(void *self, sky_layout *out, sky_error *error) {
    (void)self, (void)error;
    *out = (sky_layout){.group_count = 1,
                        .groups = {{.kind = SKY_LAYER_FULL,
                                    .layer_count = LAYERS,
                                    .kv_heads = 2,
                                    .k_element = SKY_ELEMENT_F16,
                                    .v_element = SKY_ELEMENT_F16,
                                    .k_row_bytes = ROW_BYTES,
                                    .v_row_bytes = ROW_BYTES}}};
    return SKY_OK;
}

static sky_status toy_tokenize(void *self, const char *text, size_t bytes, uint32_t *tokens,
                               size_t max, size_t *count) {
    (void)self, (void)text, (void)bytes, (void)tokens, (void)max, (void)count;
    return SKY_E_UNSUPPORTED;
}

static sky_status rows_at(toy *e, uint32_t first, uint32_t count, sky_state *out) {
    for (int l = 0; l < LAYERS * 2; l++)
        out->tensors[l] = sky_tensor_packed(e->rows[l][first], SKY_ELEMENT_F16, 1, ROW_BYTES / 2,
                                            first, count);
    return SKY_OK;
}

static sky_status toy_extract(void *self, uint32_t first, uint32_t count, sky_state *out) {
    toy *e = self;
    return first + count <= e->tokens_held ? rows_at(e, first, count, out) : SKY_E_PARAM;
}

static sky_status toy_restore_begin(void *self, uint32_t count, sky_state *out) {
    toy *e = self;
    e->restoring = count;
    return count <= CONTEXT ? rows_at(e, 0, count, out) : SKY_E_FULL;
}

static sky_status toy_restore_end(void *self, bool commit) {
    toy *e = self;
    e->tokens_held = commit ? e->restoring : 0;
    return SKY_OK;
}

static sky_status toy_prefill(void *self, const uint32_t *tokens, uint32_t first, uint32_t count) {
    (void)tokens;
    fill(self, first, count);
    return SKY_OK;
}

static const sky_engine_ops toy_ops = {.fingerprint = toy_fingerprint,
                                       .layout = toy_layout,
                                       .tokenize = toy_tokenize,
                                       .extract = toy_extract,
                                       .restore_begin = toy_restore_begin,
                                       .restore_end = toy_restore_end,
                                       .prefill = toy_prefill};
static toy engine;
static uint32_t tokens[CONTEXT];

static void prompt(uint32_t number) {
    engine.prompt = tokens[0] = number;
    for (uint32_t i = 1; i < CONTEXT; i++)
        tokens[i] = i * 2654435761u >> 12;
}

static uint32_t save(sky_sequence *q, uint32_t number, uint32_t count) {
    uint32_t blocks;
    prompt(number);
    fill(&engine, 0, count);
    must(sky_sequence_save(q, tokens, count, &blocks, NULL) == SKY_OK);
    return blocks;
}

static uint32_t find(sky_sequence *q, uint32_t number, uint32_t count) {
    sky_lookup found;
    prompt(number);
    must(sky_sequence_load(q, tokens, count, 0, &found) == SKY_OK);
    must(found.corrupt_blocks == 0);
    for (uint32_t t = 0; t < found.hit_tokens; t++)
        must(engine.rows[5][t][9] == (uint8_t)(number * 31 + t * 7 + 5 * 3 + 9));
    return found.block_count;
}

/* Save prompts through `mem` over a new folder, and find them again in memory anew. */
static void save_and_find(const char *mem, const char *disk, uint32_t prompts, uint32_t count) {
    const char *const urls[] = {mem, disk};
    const sky_engine adapter = {&toy_ops, &engine};
    uint32_t saved = 0, found = 0;
    for (int round = 0; round < 2; round++) {
        sky_cache *c = trial_open(urls, 2);
        sky_manager *m;
        sky_sequence *q;
        must(sky_manager_create(c, &adapter, NULL, &m, NULL) == SKY_OK);
        must(sky_sequence_open(m, &adapter, &q) == SKY_OK);
        for (uint32_t p = 0; p < prompts; p++)
            round == 0 ? (saved += save(q, p, count)) : (found += find(q, p, count));
        uint64_t dropped;
        must(sky_flush(c, SKY_TIME_NEVER, &dropped) == SKY_OK && dropped == 0);
        sky_sequence_close(q);
        sky_manager_destroy(m);
        sky_cache_close(c);
    }
    printf("%u blocks saved, %u found again\n", saved, found);
    must(saved == prompts * (count / BLOCK));
    must(found == prompts * ((count - 1) / BLOCK)); /* one token is always left to compute */
}

int main(void) {
    save_and_find("mem:1MiB", "disk:one.d", 1, 8000);
    save_and_find("mem:2MiB", "disk:many.d", 40, 4000);
    return 0;
}
