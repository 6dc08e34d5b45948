/* A prompt's blocks as one range of addresses for each layer's K and V: mapped side by side, or
 * copied there from where they lie. Both begin with the keys and end with everything released;
 * of what is mapped each page is read once. The copies go to memory that was touched before. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <skymem/blob.h>

#define BLOCKS_MAX  32u
#define BUFFERS_MAX 64u
#define ROUNDS_MAX  16u
#define PAGE_BYTES  4096u
#define PATIENCE    SKY_SECONDS(10)

/* What is measured. */
typedef struct {
    const char *name;
    uint32_t layers;
    uint32_t buffer_bytes; /* of a layer's K, and of its V, in a block */
    uint32_t blocks;
    bool scattered; /* else each block follows the one before, in every buffer */
} bench_prompt;

static const bench_prompt PROMPTS[] = {
    {"1 block of 8 MiB", 32, 128u << 10, 1, true},
    {"8 blocks of 8 MiB", 32, 128u << 10, 8, true},
    {"32 blocks of 8 MiB", 32, 128u << 10, 32, true},
    {"32 blocks of 8 MiB, in a row", 32, 128u << 10, 32, false},
    {"32 blocks of 1.5 MiB", 24, 32u << 10, 32, true},
    {"32 blocks of 1.5 MiB, in a row", 24, 32u << 10, 32, false},
};

typedef struct {
    const bench_prompt *prompt;
    sky_blob *owner, *reader;
    uint8_t *to; /* as large as all blocks */
    sky_key keys[BLOCKS_MAX];
} bench_ranges;

static uint64_t prompt_bytes(const bench_prompt *p) {
    return (uint64_t)p->blocks * p->layers * 2 * p->buffer_bytes;
}

/* A slot for each block in the range of each buffer; scattered ones never follow each other. */
static sky_status put_blocks(bench_ranges *m) {
    static uint64_t offsets[BUFFERS_MAX], sizes[BUFFERS_MAX];
    const bench_prompt *p = m->prompt;
    sky_status status = SKY_OK;
    for (uint32_t i = 0; i < p->blocks && status == SKY_OK; i++) {
        const uint32_t slot = p->scattered ? p->blocks - 1 - i : i;
        m->keys[i] = bench_key(i);
        for (uint32_t k = 0; k < 2 * p->layers; k++) {
            offsets[k] = ((uint64_t)k * p->blocks + slot) * p->buffer_bytes;
            sizes[k] = p->buffer_bytes;
        }
        const sky_block_layout l = {
            .key = m->keys[i], .shape = {p->layers, 2, 1}, .offsets = offsets, .sizes = sizes};
        status = sky_block_put(m->owner, &l, 1, sky_now() + PATIENCE, NULL);
    }
    return status;
}

/* Microseconds. */
static sky_status map_prompt(const bench_ranges *m, double *us) {
    const bench_prompt *p = m->prompt;
    sky_mapping *mapping = NULL;
    sky_time start = sky_now();
    sky_status status = sky_mapping_open(m->reader, m->keys, p->blocks, start + PATIENCE, &mapping,
                                         NULL);
    if (status == SKY_OK && sky_mapping_block_count(mapping) != p->blocks)
        status = SKY_MISS;
    for (uint32_t k = 0; k < 2 * p->layers && status == SKY_OK; k++) {
        sky_span range;
        status = sky_mapping_view(mapping, k / 2, k % 2, 0, &range);
        for (size_t at = 0; status == SKY_OK && at < range.bytes; at += PAGE_BYTES)
            (void)((volatile const uint8_t *)range.data)[at];
    }
    sky_mapping_close(mapping);
    *us = 1e6 * bench_seconds(start);
    return status;
}

static sky_status copy_prompt(const bench_ranges *m, double *us) {
    const bench_prompt *p = m->prompt;
    sky_status status = SKY_OK;
    sky_time start = sky_now();
    for (uint32_t i = 0; i < p->blocks && status == SKY_OK; i++) {
        sky_block *block = NULL;
        sky_span from;
        status = sky_block_get(m->reader, &m->keys[i], start + PATIENCE, &block);
        for (uint32_t k = 0; k < 2 * p->layers && status == SKY_OK; k++) {
            status = sky_block_view(block, k / 2, k % 2, 0, &from);
            if (status == SKY_OK)
                memcpy(m->to + ((size_t)k * p->blocks + i) * p->buffer_bytes, from.data,
                       from.bytes);
        }
        sky_block_release(block);
    }
    *us = 1e6 * bench_seconds(start);
    return status;
}

static int prompt_row(bench *b, bench_ranges *m) {
    double mapped[ROUNDS_MAX], copied[ROUNDS_MAX];
    const size_t rounds = b->quick ? 2 : ROUNDS_MAX;
    char name[96];
    sky_status status = put_blocks(m);
    for (size_t i = 0; i < rounds && status == SKY_OK; i++) {
        status = map_prompt(m, &mapped[i]);
        if (status == SKY_OK)
            status = copy_prompt(m, &copied[i]);
    }
    if (status != SKY_OK)
        return cli_failed(b->c, "shm: ranges: %s", sky_status_text(status));
    snprintf(name, sizeof name, "mapped as ranges: %s", m->prompt->name);
    return bench_row(b, name, cli_median(mapped, rounds), "us", "memcpy",
                     cli_median(copied, rounds));
}

static int prompt_rows(bench *b, const char *url, const bench_prompt *p) {
    bench_ranges m = {.prompt = p, .to = bench_memory(b->c, prompt_bytes(p))};
    const sky_blob_options o = {.struct_bytes = sizeof o, .bytes = prompt_bytes(p)};
    sky_error error = {0};
    int code = m.to ? CLI_OK : CLI_FAILED;
    if (code == CLI_OK && (sky_blob_open(url, &o, &m.owner, &error) != SKY_OK ||
                           sky_blob_open(url, NULL, &m.reader, &error) != SKY_OK))
        code = cli_failed(b->c, "shm: %s", error.text);
    if (code == CLI_OK) {
        memset(sky_blob_memory(m.owner), 0x5a, o.bytes);
        code = prompt_row(b, &m);
    }
    sky_blob_close(m.reader);
    sky_blob_close(m.owner);
    free(m.to);
    return code;
}

int bench_shm_ranges(bench *b, const char *url) {
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof PROMPTS / sizeof *PROMPTS && code == CLI_OK; i++)
        code = prompt_rows(b, url, &PROMPTS[i]);
    return code;
}
