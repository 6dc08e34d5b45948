/* Where the rows of a block go that is read: spans over the engine's rows, in the payload's order,
 * with gaps for what the engine does not want. */
#include <assert.h>

#include "base/tensor.h"
#include "manager/blocks.h"

static void skip_to(sky__block_spans *plan, uint64_t offset) {
    if (offset > plan->end)
        plan->spans[plan->span_count++] = (sky_span){NULL, offset - plan->end};
}

static void want_bytes(sky__block_spans *plan, uint64_t offset, void *data, size_t bytes) {
    if (bytes == 0)
        return;
    skip_to(plan, offset);
    plan->spans[plan->span_count++] = (sky_span){data, bytes};
    plan->end = offset + bytes;
}

static void want_rows(sky__block_spans *plan, uint64_t offset, const sky_tensor *rows,
                      uint32_t first_token, uint32_t token_count) {
    skip_to(plan, offset);
    plan->span_count += sky__tensor_pieces(rows, first_token, token_count,
                                           plan->spans + plan->span_count);
    plan->end = offset + (uint64_t)token_count * sky__tensor_row_bytes(rows);
}

sky__block_spans sky__load_block_spans(const sky_sequence *q, uint32_t block, uint32_t parts) {
    const sky_block_scratch *s = &q->scratch;
    uint32_t first = block * q->manager->block_tokens,
             lead_bytes = sky_payload_lead_bytes(&q->manager->payload);
    uint64_t from = parts & SKY__LEAD ? 0 : lead_bytes;
    sky__block_spans plan = {
        .spans = s->spans + block * q->spans_per_block, .from = from, .end = from};
    if (parts & SKY__LEAD)
        want_bytes(&plan, 0, s->headers + (size_t)block * q->manager->payload.header_bytes,
                   q->manager->payload.header_bytes);
    for (uint32_t i = 0; i < q->manager->payload.row_sets; i++) {
        sky_payload_section section = sky_payload_section_at(&q->manager->payload, i);
        const sky_tensor *rows = &q->rows[section.row_set];
        uint32_t skipped = rows->first_token > first ? rows->first_token - first : 0;
        if (!(parts & (section.offset < lead_bytes ? SKY__LEAD : SKY__REST)))
            continue;
        skipped = skipped < q->manager->block_tokens ? skipped : q->manager->block_tokens;
        uint32_t count = q->manager->block_tokens - skipped;
        size_t skipped_bytes = (size_t)skipped * section.row_bytes;
        if (s->beside[block])
            want_bytes(&plan, section.offset, s->beside[block] + (section.offset - lead_bytes),
                       skipped_bytes);
        if (count == 0)
            continue;
        assert(first + skipped - rows->first_token + count <= rows->token_count);
        want_rows(&plan, section.offset + skipped_bytes, rows, first + skipped, count);
    }
    return plan;
}

void sky__load_spans(const sky_sequence *q, uint32_t block, uint32_t parts) {
    sky__block_spans plan = sky__load_block_spans(q, block, parts);
    sky_item *item = &q->scratch.items[block];
    item->spans = plan.spans;
    item->span_count = plan.span_count;
    item->range = (sky_range){plan.from, plan.end - plan.from};
    bool all = plan.end == q->manager->payload.payload_bytes && plan.from == 0;
    for (uint32_t i = 0; i < plan.span_count; i++)
        all &= plan.spans[i].data != NULL;
    if (all) /* which the cache then keeps in memory without another read */
        item->range = (sky_range){0};
}
