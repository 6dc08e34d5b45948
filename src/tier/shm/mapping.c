/* Blocks side by side: skymem/blob.h. Each buffer of the shape has a range of addresses in which
 * the parts of all blocks follow each other, mapped from the regions that they lie in.
 *
 *   region of A  | b0 K | … | b1 K | b2 K |      region of B  | … | b3 K |
 *                    │          ╰──┬──╯                               │
 *   range of K   | b0 K |  b1 K | b2 K  | b3 K | ◄────────────────────╯
 *
 * Parts that follow each other in their region too take one call and one mapping (b1, b2). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/pages.h"
#include "io/shared.h"
#include "tier/shm/blob_state.h"

#define AT_ONCE 16u /* blocks whose answers are out */

struct sky_mapping {
    sky_blob *blob;
    uint8_t *at; /* the ranges, in the order of the shape */
    uint64_t bytes;
    size_t count;
    sky_block *blocks[]; /* [count] */
};

/* ---- open a run of blocks ---- */

/* Open the leading blocks that are there: *count of them. The answers of those that were asked for
 * behind the first that is not are awaited too, so that their leases go back. */
static sky_status open_leading(sky_blob *b, const sky_key *keys, size_t key_count, sky_time until,
                               sky_block **blocks, size_t *count) {
    const uint32_t id = b->ids + 1;
    size_t asked = 0, heard = 0;
    sky_status status = SKY_OK;
    b->ids += (uint32_t)key_count;
    while (heard < asked || (status == SKY_OK && asked < key_count)) {
        if (status == SKY_OK && asked < key_count && asked - heard < AT_ONCE) {
            status = sky__block_ask(b, id + (uint32_t)asked, &keys[asked]);
            asked++;
            continue;
        }
        sky_block *k = NULL;
        sky_status heard_status = sky__block_await(b, id + (uint32_t)heard, &keys[heard], until,
                                                   &k);
        heard++;
        if (heard_status == SKY_OK && status == SKY_OK)
            blocks[(*count)++] = k;
        else if (heard_status == SKY_OK)
            sky__block_free(k);
        else if (status == SKY_OK)
            status = heard_status;
    }
    return status == SKY_MISS && *count > 0 ? SKY_OK : status;
}

static void free_blocks(sky_blob *b, sky_block **blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        sky__block_free(blocks[i]);
    sky__blob_flush(b);
}

/* ---- what can be mapped ---- */

static sky_status check_block(const sky_block *first, const sky_block *k, size_t index,
                              sky_error *error) {
    const sky_block_layout *l = &first->layout, *other = &k->layout;
    const uint64_t page = sky_pages_unit();
    if (memcmp(l->shape, other->shape, sizeof l->shape) != 0 ||
        l->layer_axis != other->layer_axis ||
        memcmp(l->sizes, other->sizes, first->buffers * sizeof *l->sizes) != 0)
        return sky_fail(error, SKY_E_UNSUPPORTED,
                        "block %zu has another shape, or buffers of other sizes, than block 0",
                        index);
    for (uint32_t i = 0; i < k->buffers; i++) {
        if (other->sizes[i] % page != 0)
            return sky_fail(error, SKY_E_UNSUPPORTED,
                            "buffer %u of block %zu has %llu bytes; only whole pages of %llu bytes "
                            "can be mapped side by side",
                            i, index, (unsigned long long)other->sizes[i],
                            (unsigned long long)page);
        if (other->offsets[i] % page != 0)
            return sky_fail(error, SKY_E_UNSUPPORTED,
                            "buffer %u of block %zu lies at %llu in its region, which is no "
                            "multiple of a page of %llu bytes",
                            i, index, (unsigned long long)other->offsets[i],
                            (unsigned long long)page);
    }
    return SKY_OK;
}

static sky_status check_blocks(sky_block *const *blocks, size_t count, sky_error *error) {
    sky_status status = SKY_OK;
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        status = check_block(blocks[0], blocks[i], i, error);
    return status;
}

/* ---- map ---- */

static bool follows_in_region(const sky_block *before, const sky_block *k, uint32_t row) {
    return before->region == k->region &&
           before->offsets[row] + before->sizes[row] == k->offsets[row];
}

static sky_status map_row(const sky_mapping *m, uint32_t row, uint8_t *at) {
    const uint64_t bytes = m->blocks[0]->sizes[row];
    sky_status status = SKY_OK;
    for (size_t end, i = 0; i < m->count && status == SKY_OK; i = end) {
        const sky_block *k = m->blocks[i];
        end = i + 1;
        while (end < m->count && follows_in_region(m->blocks[end - 1], m->blocks[end], row))
            end++;
        status = sky_shared_map_part(k->region->fd, k->offsets[row], at + i * bytes,
                                     (end - i) * bytes);
    }
    return status;
}

static sky_status map_blocks(sky_mapping *m, sky_error *error) {
    const sky_block *first = m->blocks[0];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < first->buffers; i++)
        bytes += m->count * first->sizes[i];
    sky_status status = sky_pages_reserve(bytes, (void **)&m->at, NULL);
    if (status == SKY_OK)
        m->bytes = bytes;
    uint8_t *at = m->at;
    for (uint32_t i = 0; i < first->buffers && status == SKY_OK; i++) {
        status = map_row(m, i, at);
        at += m->count * first->sizes[i];
    }
    if (status != SKY_OK)
        return sky_fail(error, status,
                        "no room to map %zu blocks of %u buffers: each buffer that does not "
                        "follow another in its region is a mapping, of which a process may have "
                        "vm.max_map_count",
                        m->count, first->buffers);
    return SKY_OK;
}

/* ---- the calls ---- */

static sky_status fill_mapping(sky_mapping *m, const sky_key *keys, size_t key_count,
                               sky_time until, sky_error *error) {
    sky_mutex_lock(&m->blob->mutex);
    sky_status status = open_leading(m->blob, keys, key_count, until, m->blocks, &m->count);
    if (status != SKY_OK)
        (void)sky_fail(error, status, "block %zu: %s", m->count, sky_status_text(status));
    sky_mutex_unlock(&m->blob->mutex);
    if (status == SKY_OK)
        status = check_blocks(m->blocks, m->count, error);
    return status == SKY_OK ? map_blocks(m, error) : status;
}

sky_status sky_mapping_open(sky_blob *blob, const sky_key *keys, size_t key_count, sky_time until,
                            sky_mapping **out, sky_error *error) {
    sky_status status = sky__blob_check(blob);
    if (status == SKY_OK && (!keys || !out || key_count == 0 || key_count > SKY_MAPPING_BLOCKS_MAX))
        status = SKY_E_PARAM;
    if (status != SKY_OK)
        return sky_fail(error, status,
                        "a mapping needs a blob of this process, 1 to %u keys and a place for it",
                        SKY_MAPPING_BLOCKS_MAX);
    sky_mapping *m = calloc(1, sizeof *m + key_count * sizeof(sky_block *));
    if (!m)
        return sky_fail(error, SKY_E_NOMEM, "no memory");
    m->blob = blob;
    status = fill_mapping(m, keys, key_count, until, error);
    if (status == SKY_OK)
        *out = m;
    else
        sky_mapping_close(m);
    return status; /* NOLINT(clang-analyzer-unix.Malloc): the close frees it, in this process */
}

void sky_mapping_close(sky_mapping *m) {
    if (!m || sky__blob_check(m->blob) != SKY_OK)
        return;
    sky_pages_release(m->at, m->bytes); /* before the owners hear that nobody reads */
    sky_mutex_lock(&m->blob->mutex);
    free_blocks(m->blob, m->blocks, m->count);
    sky_mutex_unlock(&m->blob->mutex);
    free(m);
}

size_t sky_mapping_block_count(const sky_mapping *m) {
    return m ? m->count : 0;
}

const sky_block *sky_mapping_block(const sky_mapping *m, size_t index) {
    return m && index < m->count ? m->blocks[index] : NULL;
}

sky_status sky_mapping_view(const sky_mapping *m, uint32_t layer, uint32_t kv, uint32_t buffer,
                            sky_span *out) {
    const sky_block_layout *l = m ? &m->blocks[0]->layout : NULL;
    sky_status status = m ? sky__blob_check(m->blob) : SKY_E_PARAM;
    const uint32_t row = m ? sky__block_row(l, layer, kv, buffer) : UINT32_MAX;
    if (status == SKY_OK && (row == UINT32_MAX || !out))
        status = SKY_E_PARAM;
    if (status != SKY_OK)
        return status;
    uint64_t before = 0;
    for (uint32_t i = 0; i < row; i++)
        before += l->sizes[i];
    *out = (sky_span){m->at + m->count * before, m->count * l->sizes[row]};
    return SKY_OK;
}
