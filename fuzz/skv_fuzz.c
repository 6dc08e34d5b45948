/* Proves: no bytes make the container's reader or the stream decoder read or write outside, run on
 * or return anything but a status; what opens tells consistent ranges. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/codec.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static size_t rows_bytes(const sky_stream_shape *s) {
    return (size_t)s->token_count * s->kv_heads * s->head_dim *
           (s->element == SKY_ELEMENT_F32 ? 4 : 2);
}

/* Decode in pieces whose size the stream itself gives, from memory of exactly their size. */
static void decode(const sky_stream_shape *shape, const uint8_t *stream, size_t bytes) {
    size_t head = rows_bytes(shape) / shape->token_count / shape->kv_heads;
    size_t piece = bytes > 30 ? (size_t)stream[30] * 16 + 1 : 1000;
    uint8_t *rows = malloc(rows_bytes(shape));
    void *memory = aligned_alloc(64, SKY_DECODER_BYTES);
    sky_decoder *decoder;
    sky_tensor_out out = {rows, head * shape->kv_heads, head};
    sky_status status = sky_decoder_init(memory, NULL, shape, bytes, out, &decoder);
    for (size_t at = 0; at < bytes && status >= 0; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        uint8_t *exact = malloc(n);
        memcpy(exact, stream + at, n);
        status = sky_decoder_feed(decoder, exact, n);
        free(exact);
    }
    if (status == SKY_OK && sky_decoder_tokens(decoder) != shape->token_count)
        abort();
    free(memory);
    free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_skv skv;
    if (sky_skv_open(data, bytes, &skv) != SKY_OK)
        return 0;
    uint64_t at = skv.header_bytes;
    (void)sky_skv_verify(&skv);
    for (uint32_t i = 0; i < 2 * skv.layer_count; i++) {
        sky_skv_entry e;
        sky_stream_shape shape;
        if (sky_skv_entry_at(&skv, i / 2, (sky_kv)(i & 1), &e) != SKY_OK || e.offset != at)
            abort();
        sky_skv_stream_shape(&skv, i / 2, (sky_kv)(i & 1), &shape);
        /* The checksum is not asked: damage inside is what is looked for. */
        if (e.bytes && rows_bytes(&shape) < 1u << 20)
            decode(&shape, data + e.offset, (size_t)e.bytes);
        at += e.bytes;
    }
    if (at != bytes)
        abort();
    return 0;
}
