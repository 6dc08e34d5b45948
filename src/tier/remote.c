#include "tier/remote.h"

#include "io/clock.h"
#include "tier/fields.h"
#include "tier/spans.h"

enum { FLAG_DURABLE = 1, FLAG_DROP = 2, EVICT_AT = 4, FLAGS_END = EVICT_AT * (SKY_EVICT_LAST + 1) };

#define LEFT_MAX SKY_SECONDS(1000000)

sky__call_fields sky__call_to_fields(const sky_call *call, sky_time now) {
    sky__call_fields f = {.at_ms = call->at_ms,
                          .ttl_s = call->ttl_s,
                          .coding = call->coding,
                          .wanted = call->wanted,
                          .durable = call->durable,
                          .drop = call->drop,
                          .evict = call->evict};
    if (call->deadline_ns != 0)
        f.left_ns = call->deadline_ns > now ? (uint64_t)(call->deadline_ns - now) : 1;
    return f;
}

sky_call sky__call_from_fields(const sky__call_fields *f, sky_time now) {
    sky_call call = {.ttl_s = f->ttl_s,
                     .coding = f->coding,
                     .wanted = f->wanted,
                     .durable = f->durable,
                     .drop = f->drop,
                     .evict = f->evict,
                     .at_ms = f->at_ms};
    if (f->left_ns != 0 && f->left_ns < (uint64_t)LEFT_MAX)
        call.deadline_ns = now + (sky_time)f->left_ns;
    return call;
}

void sky__write_call(sky_writer *w, const sky__call_fields *f) {
    sky_write_u64(w, f->left_ns);
    sky_write_u64(w, (uint64_t)f->at_ms);
    sky_write_u32(w, f->ttl_s);
    sky_write_u8(w, f->coding);
    sky_write_u8(w, f->wanted);
    sky_write_u16(w, (uint16_t)((f->durable ? FLAG_DURABLE : 0) | (f->drop ? FLAG_DROP : 0) |
                                EVICT_AT * f->evict));
}

void sky__read_call(sky_reader *r, sky__call_fields *f) {
    f->left_ns = sky_read_u64(r);
    f->at_ms = (int64_t)sky_read_u64(r);
    f->ttl_s = sky_read_u32(r);
    f->coding = sky__read_coding(r);
    f->wanted = sky__read_coding(r);
    uint16_t flags = sky_read_u16(r);
    sky__fail_unless(r, flags < FLAGS_END);
    f->durable = flags & FLAG_DURABLE;
    f->drop = flags & FLAG_DROP;
    f->evict = (uint8_t)(flags / EVICT_AT);
}

sky_status sky__check_put(const sky_item *item, uint64_t bytes_max, uint64_t *bytes) {
    for (uint32_t i = 0; i < item->span_count; i++)
        if (!item->spans[i].data && item->spans[i].bytes > 0)
            return SKY_E_PARAM;
    *bytes = sky_spans_bytes(item->spans, item->span_count);
    bool bad_name = item->name && (item->name_bytes == 0 || item->name_bytes > SKY_NAME_BYTES_MAX);
    if (bad_name || *bytes > SKY_PAYLOAD_BYTES_MAX)
        return SKY_E_PARAM;
    return *bytes > bytes_max ? SKY_E_FULL : SKY_OK;
}

uint8_t sky__answering_tier(uint8_t index, sky_status status) {
    bool behind = status == SKY_E_IO || status == SKY_E_DENIED || status == SKY_E_NOMEM;
    return status == SKY_OK || behind ? index : SKY_TIER_NONE;
}

void sky__count_answer(sky_tier_counts *c, sky_op op, const sky_answer *a) {
    bool ok = a->status == SKY_OK, get = op == SKY_OP_GET, put = op == SKY_OP_PUT;
    sky_status s = a->status;
    c->hits += get && ok;
    c->misses += (get || op == SKY_OP_LEASE) && (s == SKY_MISS || s == SKY_E_CORRUPT);
    c->puts += put && ok;
    c->read_bytes += get && ok ? a->bytes : 0;
    c->written_bytes += put && ok ? a->bytes : 0;
    c->dropped += put &&
                  (s == SKY_E_FULL || s == SKY_E_IO || s == SKY_E_DENIED || s == SKY_E_NOMEM);
    c->corrupt += s == SKY_E_CORRUPT;
    c->errors += s == SKY_E_IO;
}
