/* The block index at ten million blocks: prompts of 16 blocks, matched in random order.
 *
 * The limit is one cache miss a step: dependent reads of random cache lines of a buffer as
 * large as the index, measured in turns with the matches. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "index/index.h"

#define PROMPT_BLOCKS 16u
#define GROUP_PROMPTS 2500u /* divides a million and ten million by 16 */
#define ROUNDS        15
#define GROUP_KEYS    (GROUP_PROMPTS * PROMPT_BLOCKS)

typedef struct {
    sky_index *index;
    uint32_t blocks;
    sky_key *keys;   /* [GROUP_KEYS]: made outside the measured time */
    uint64_t *lines; /* as many bytes as the index */
    size_t line_count;
} bench_blocks;

static void make_keys(bench_blocks *s, uint32_t group, bool random) {
    uint32_t prompts = s->blocks / PROMPT_BLOCKS;
    for (uint32_t p = 0; p < GROUP_PROMPTS; p++) {
        uint64_t prompt = (uint64_t)group * GROUP_PROMPTS + p;
        prompt = (random ? bench_mix(prompt) : prompt) % prompts;
        for (uint32_t b = 0; b < PROMPT_BLOCKS; b++)
            s->keys[p * PROMPT_BLOCKS + b] = bench_key(prompt * PROMPT_BLOCKS + b);
    }
}

static sky_status insert_all(bench_blocks *s, double *seconds) {
    const sky_block_info info = {.payload_bytes = 2359296, .chunk_count = 384, .set_ms = 1};
    uint32_t block;
    for (uint32_t group = 0; group < s->blocks / GROUP_KEYS; group++) {
        make_keys(s, group, false);
        sky_time start = sky_now();
        for (uint32_t i = 0; i < GROUP_KEYS; i++) {
            const sky_key *parent = i % PROMPT_BLOCKS ? &s->keys[i - 1] : NULL;
            sky_status status = sky_index_insert(s->index, &s->keys[i], parent, &info, &block);
            if (status != SKY_OK)
                return status;
        }
        *seconds += bench_seconds(start);
    }
    return SKY_OK;
}

/* Steps a second over one group of prompts; 0 when a block was missing. */
static double match_group(bench_blocks *s, uint32_t round) {
    uint32_t blocks[PROMPT_BLOCKS];
    make_keys(s, round, true);
    sky_time start = sky_now();
    for (uint32_t p = 0; p < GROUP_PROMPTS; p++)
        if (sky_index_match(s->index, s->keys + p * PROMPT_BLOCKS, PROMPT_BLOCKS, blocks) !=
            PROMPT_BLOCKS)
            return 0;
    return GROUP_KEYS / bench_seconds(start);
}

static double read_lines(const bench_blocks *s, uint32_t round) {
    uint64_t at = round;
    sky_time start = sky_now();
    for (uint32_t i = 0; i < GROUP_KEYS; i++)
        at = s->lines[bench_mix(at + i) % s->line_count * 8] + i;
    double seconds = bench_seconds(start);
    return at == 1 ? 0 : GROUP_KEYS / seconds; /* `at` is used, so that the reads happen */
}

static int index_measure(bench *b, bench_blocks *s) {
    double insert_s = 0, match[ROUNDS], reads[ROUNDS];
    sky_status status = insert_all(s, &insert_s);
    if (status != SKY_OK)
        return cli_failed(b->c, "index: block cannot be inserted: %s", sky_status_text(status));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        match[i] = match_group(s, i);
        reads[i] = read_lines(s, i);
        if (match[i] <= 0)
            return cli_failed(b->c, "index: a block that was inserted is not there");
    }
    int code = bench_row(b, "match", cli_median(match, ROUNDS) / 1e6, "M block steps/s",
                         "random reads", cli_median(reads, ROUNDS) / 1e6);
    if (code == CLI_OK)
        code = bench_row(b, "insert", s->blocks / insert_s / 1e6, "M blocks/s", NULL, 0);
    if (code == CLI_OK)
        code = bench_row(b, "blocks", s->blocks, "blocks", NULL, 0);
    if (code == CLI_OK)
        code = bench_row(b, "memory", (double)sky_index_bytes(s->index) / s->blocks, "B/block",
                         NULL, 0);
    return code;
}

int bench_index(bench *b) {
    bench_blocks s = {.blocks = b->quick ? 1000000u : 10000000u};
    sky_status status = sky_index_create(s.blocks, &s.index);
    if (status != SKY_OK)
        return cli_failed(b->c, "index: %s", sky_status_text(status));
    size_t bytes = sky_index_bytes(s.index);
    s.line_count = bytes / 64;
    s.keys = bench_memory(b->c, GROUP_KEYS * sizeof *s.keys);
    s.lines = s.keys ? bench_memory(b->c, bytes) : NULL;
    int code = s.lines ? index_measure(b, &s) : CLI_FAILED;
    free(s.keys);
    free(s.lines);
    sky_index_destroy(s.index);
    return code;
}
